//! `kvsim trace` as a user runs it.

use serde_json::Value;

use crate::{SHORT, ends};

fn trace<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["trace", "scenarios/powercut.toml"], more, &SHORT[..]].concat()
}

fn time_ns(line: &str) -> u64 {
    let text = line.trim_start().split(' ').next().unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no time: {line}"))
}

/// Goal: a person sees what happened, in order, each in its lane, up to each cut and what it left. Method: the lines of one seed.
#[test]
fn a_time_line_is_a_line_an_event() {
    let ended = ends(&trace(&[]), 0, &["CUT: "]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    for lane in [
        "guest", "client 0", "checker", "read", "write", "flush", "power",
    ] {
        let has = |line: &&str| line.contains(&format!(" ms  {lane:<10} "));
        assert!(lines.iter().any(has), "no line of {lane}");
    }
    assert!(lines.is_sorted_by_key(|line| time_ns(line)));
    let fate = |line: &&str| {
        [": kept", ": lost", ": torn"]
            .iter()
            .any(|fate| line.contains(fate))
    };
    assert!(lines.iter().any(fate), "no cut says what it left");
    let cuts = lines.iter().filter(|line| line.contains("CUT: ")).count();
    assert!(cuts >= 3, "{cuts} cuts");
    let again = ends(&trace(&[]), 0, &[]);
    assert_eq!(again.stdout, ended.stdout, "the same seed, the same lines");
    let other = ends(&trace(&["--seed", "2"]), 0, &[]);
    assert_ne!(other.stdout, ended.stdout);
}

/// Goal: a part can be asked for. Method: a window of virtual time and a limit against the whole.
#[test]
fn a_part_of_a_time_line_is_a_part_of_it() {
    let whole = ends(&trace(&[]), 0, &[]).stdout;
    let window = ends(&trace(&["--from", "1ms", "--to", "2500us"]), 0, &[]).stdout;
    let wanted: Vec<&str> = whole
        .lines()
        .filter(|line| (1_000_000..=2_500_000).contains(&time_ns(line)))
        .collect();
    assert!(!wanted.is_empty());
    assert_eq!(window.lines().collect::<Vec<_>>(), wanted);
    let few = ends(&trace(&["--limit", "7"]), 0, &[]).stdout;
    assert_eq!(few.lines().count(), 7);
    assert!(whole.starts_with(&few));
    ends(&trace(&["--from", "soon"]), 2, &["is no moment"]);
}

/// Goal: a program reads the same. Method: JSON lines against the lines for a person.
#[test]
fn json_lines_say_the_same() {
    let text = ends(&trace(&["--limit", "300"]), 0, &[]).stdout;
    let json = ends(&trace(&["--limit", "300", "--json"]), 0, &[]).stdout;
    assert_eq!(json.lines().count(), 300);
    for (line, object) in text.lines().zip(json.lines()) {
        let object: Value = serde_json::from_str(object).expect("JSON");
        assert_eq!(object["at_ns"], time_ns(line));
        assert!(line.ends_with(object["what"].as_str().expect("words")));
        assert!(line.contains(object["lane"].as_str().expect("a lane")));
    }
}

/// Goal: a fault is a line of its own, where it affects the operation. Method: a script of two faults, each between the operation's
/// submission and its end.
#[test]
fn a_fault_is_a_line_where_it_fires() {
    let script = "faults.script=[{ op = 6, kind = 'read_error' }, { op = 9, kind = 'stall' }]";
    let ended = ends(&trace(&["--set", script]), 0, &[]);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let struck = |line: &&str| line.contains("io 6: FAULT read error: it will fail");
    let at = lines.iter().position(struck).expect("a line");
    assert!(lines[at - 1].contains("io 6: "), "{}", lines[at - 1]);
    let failed = |line: &&&str| line.contains("io 6: FAILED");
    assert!(
        lines[at..].iter().any(|line| failed(&line)),
        "it does not fail"
    );
    assert_eq!(ended.stdout.matches("FAULT").count(), 2);
}
