//! Results: kept a line each, continued, sampled and counted.
#![allow(missing_docs, reason = "a test")]

use kvsim_source_mutants::find;
use kvsim_source_mutants::hunt::Outcome;
use kvsim_source_mutants::mutation::Mutation;
use kvsim_source_mutants::page::{BEGIN, Class, END, Score, insert};
use kvsim_source_mutants::results::{Record, Results, append, sample};

fn mutations() -> Vec<Mutation> {
    let source = "fn f(a: u8, b: u8) -> bool { a < b && b < 100 }";
    find::mutations("a.rs", source).expect("it parses")
}

fn record(mutation: &Mutation, outcome: Outcome, limit_seconds: u64) -> Record {
    Record {
        key: mutation.key(),
        place: mutation.place(),
        outcome,
        seconds: 1.0,
        limit_seconds,
    }
}

fn caught() -> Outcome {
    Outcome::Caught {
        scenario: "powercut".to_owned(),
        property: "prefix".to_owned(),
    }
}

/// Goal: a run that was stopped goes on with what is left, and edits that survived are run again only with more time. Method: a file with three outcomes and a line
/// that was cut short.
#[test]
fn results_continue() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, all) = (folder.path().join("results.jsonl"), mutations());
    append(&file, &record(&all[0], Outcome::Started, 10)).expect("it is written");
    append(&file, &record(&all[0], caught(), 10)).expect("it is written");
    append(&file, &record(&all[1], Outcome::Survived, 10)).expect("it is written");
    let text = std::fs::read_to_string(&file).expect("it is there");
    std::fs::write(&file, format!("{text}{{\"key\":")).expect("it is written");
    let results = Results::load(&file);
    assert_eq!(results.0[&all[0].key()].outcome, caught());
    assert!(!results.wants(&all[0], 60));
    assert!(!results.wants(&all[1], 10));
    assert!(results.wants(&all[1], 60));
    assert!(results.wants(&all[2], 10));
    assert!(Results::load(&folder.path().join("none")).0.is_empty());
}

/// Goal: a sample depends on its seed and not on the order or on others. Method: two seeds, and the list turned round.
#[test]
fn a_sample_is_fixed() {
    let all = mutations();
    let (there, back): (Vec<&Mutation>, Vec<&Mutation>) =
        (all.iter().collect(), all.iter().rev().collect());
    assert_eq!(sample(&there, 5, 1), sample(&back, 5, 1));
    assert_ne!(sample(&there, 5, 1), sample(&there, 5, 2));
    assert_eq!(sample(&there, 5, 1).len(), 5);
}

/// Goal: the score leaves out what need not be caught, and nothing else. Method: one outcome of each kind, and a reason for one edit that survived.
#[test]
fn the_score_leaves_out_what_is_equivalent() {
    let all = mutations();
    let outcomes = [
        caught(),
        Outcome::Survived,
        Outcome::Survived,
        Outcome::NotExecuted,
    ];
    let records = all
        .iter()
        .zip(outcomes)
        .map(|(mutation, outcome)| (mutation.key(), record(mutation, outcome, 60)));
    let results = Results(records.collect());
    let known = kvsim_source_mutants::known::Known {
        file: "a.rs".to_owned(),
        function: None,
        edit: Some(all[1].edit()),
        line: None,
        category: kvsim_source_mutants::known::Category::Equivalent,
        reason: "It is the same.".to_owned(),
    };
    let known = [known];
    let score = Score::new(&all, &results, &known, |_| String::new());
    assert_eq!(score.caught(), (1, 3));
    assert_eq!(score.counts()[&Class::Unread], 1);
    assert_eq!(score.counts()[&Class::NotExecuted], 1);
    let page = insert(
        &format!("a\n{BEGIN}\nold\n{END}\nb\n"),
        &score.page(all.len(), 60),
    )
    .expect("it has a place");
    assert!(
        page.contains("1 of 3") && page.contains("It is the same."),
        "{page}"
    );
    assert!(
        page.starts_with("a\n") && page.ends_with("\nb\n") && !page.contains("old"),
        "{page}"
    );
    assert!(insert("no place", "x").is_err());
}
