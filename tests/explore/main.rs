//! Exploring: every crash point is reached and every state counted, whatever the number of threads. Broken guests are
//! found, and the saved case shows the failure again. Passing over known states hides nothing.
#![allow(missing_docs, reason = "a test")]

mod blame;
mod device;
mod slate;
mod small;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use kvsim_harness::control::{Control, Stop};
use kvsim_harness::explore::{Exploration, ExploreReport, json, merge};
use kvsim_harness::guest;
use kvsim_harness::minimise::{Budget, minimise};
use kvsim_harness::scenario::{Scenario, explain, load, parse};
use kvsim_harness::summary::{Reproduction, Verdict};
use kvsim_sim::StorageFault;
use kvsim_simdisk::FaultKind;
use kvsim_tests::{Program, all_cores, builtin_guest, naive_guest, run, scenario};
use slate::{Flaw, slate};

/// The guests, compiled once for all tests.
fn engine() -> Arc<dyn Program> {
    static ENGINE: OnceLock<Arc<dyn Program>> = OnceLock::new();
    let load = || guest::load_reused(None).expect("the built-in guest loads");
    Arc::clone(ENGINE.get_or_init(load))
}

fn naive() -> Arc<dyn Program> {
    static NAIVE: OnceLock<Arc<dyn Program>> = OnceLock::new();
    let load = || guest::load_reused(Some(naive_guest())).expect("it loads");
    Arc::clone(NAIVE.get_or_init(load))
}

fn exploration(scenario: Scenario, program: &Arc<dyn Program>) -> Exploration {
    Exploration {
        seed: scenario.run.seeds.start,
        scenario: Arc::new(scenario),
        program: Arc::clone(program),
        jobs: all_cores(),
        shard: None,
        strict: false,
        failures: None,
        skip_seen: true,
        minimise: false,
    }
}

fn explore(exploration: &Exploration) -> ExploreReport {
    let report = exploration.run(&Control::default());
    report.unwrap_or_else(|error| panic!("{error}"))
}

/// One client puts records of two sectors, one after the other.
fn slate_scenario(sets: &[&str]) -> Scenario {
    let text = r#"
        profile = "nvme_consumer"
        [run]
        seeds = "1"
        [workload]
        kind = "custom"
        clients = 1
        keys = 8
        value_bytes = 600
        operations = { put = 100 }
        [explore]
        operations = 2
        again_every = 0
        [device]
        capacity_bytes = 65_536
    "#;
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    parse("slate", "slate", text.to_owned(), None, &sets).unwrap_or_else(|error| panic!("{error}"))
}

/// Goal: many violations of one kind do not end an exploration before it meets those of another kind. Method: a guest that acknowledges early and shows
/// records behind a missing one, with room for four violations: all are of the kind met first, unless only one of a kind counts. The others are counted.
#[test]
fn violations_alike_leave_room_for_other_kinds() {
    let kinds = |sets: &[&str]| {
        let all = [&["explore.operations=8", "explore.violations_max=4"], sets].concat();
        let report = explore(&exploration(slate_scenario(&all), &slate(Flaw::Unordered)));
        let mut symptoms: Vec<String> = Vec::new();
        for failure in &report.failures {
            let symptom = failure.property.clone();
            if !symptoms.contains(&symptom) {
                symptoms.push(symptom);
            }
        }
        (report.failures.len(), symptoms.len(), report.total().alike)
    };
    let (kept, found, _) = kinds(&[]);
    assert_eq!((kept, found), (4, 1));
    let (kept, kinds, alike) = kinds(&["explore.alike_max=1"]);
    assert_eq!((kept, kinds), (2, 2));
    assert!(alike > 4, "{alike}");
}

/// Goal: each crash point is there and each count is right. Method: two puts of a guest that writes two sectors and flushes them,
/// counted by hand.
///
/// A put has five points: the write submitted, the write complete, the flush submitted, the flush complete, the answer. At the
/// first three the write is lost, whole, or torn in two ways, or the process is killed: five states. At the last two there is
/// nothing to lose: the power goes, or the process is killed. So 3 × 5 + 2 × 2 = 19 for each put. Before both is the point at which
/// the blank device was opened, with two states.
///
/// New states of the first put: the four states of the cut, and the killed process with the write still in the cache.
/// (Once its flush is under way, a killed process leaves the write whole, as a cut has done before.) After the answer
/// more must survive, so the same bytes are new once. The state without the second put is not new, for its request was
/// already there when the first was answered.
#[test]
fn two_puts_have_eleven_points_and_forty_states() {
    let report = explore(&exploration(slate_scenario(&[]), &slate(Flaw::Nothing)));
    assert_eq!(report.verdict, Verdict::Pass, "{:?}", report.failures);
    assert_eq!((report.requests, report.points_asked), (2, 11));
    let counts = |of: fn(&kvsim_harness::explore::PointCount) -> u64| {
        report.points.iter().map(of).collect::<Vec<u64>>()
    };
    assert_eq!(counts(|p| p.possible), [2, 5, 5, 5, 2, 2, 5, 5, 5, 2, 2]);
    assert_eq!(counts(|p| p.pending), [0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0]);
    assert_eq!(counts(|p| p.distinct), [1, 5, 0, 0, 0, 1, 4, 0, 0, 0, 1]);
    assert_eq!(
        counts(|p| p.in_flush.into()),
        [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0]
    );
    let total = report.total();
    assert_eq!((total.possible, total.distinct), (40, 12));
    assert_eq!((total.checked, total.skipped), (12, 28));
    assert_eq!(total.left_out.sampled + total.left_out.subsets, 0);
}

/// Goal: the smallest failure is found, at the first point where it shows, and its case says each step. Method: the same guest,
/// which answers before it flushes: the first state after the first answer that loses the write.
#[test]
fn an_early_answer_is_found_at_once() {
    let program = slate(Flaw::AcknowledgesEarly);
    let directory = tempfile::tempdir().expect("a directory");
    let mut exploration = exploration(slate_scenario(&[]), &program);
    exploration.failures = Some(directory.path().to_path_buf());
    let report = explore(&exploration);
    assert_eq!(report.verdict, Verdict::Violation);
    let [failure] = &report.failures[..] else {
        panic!("{:?}", report.failures)
    };
    assert_eq!(failure.property, "acknowledged_durable");
    let saved = load(failure.file.as_deref().expect("it is saved"), &[]).expect("it loads");
    let case = saved.case.as_ref().expect("it has its steps");
    assert_eq!(case.crashes(), 1);
    let crash = case.process_runs[0].crash.as_ref().expect("a crash");
    assert!(crash.persisted.is_empty(), "the write is lost");
    assert!(case.process_runs[1].requests.is_empty());
    replays_exactly(saved, &program);
}

fn replays_exactly(saved: Scenario, program: &Arc<dyn Program>) {
    let name = saved.name.clone();
    let report = run(saved, program, NonZeroUsize::MIN);
    let failure = report.failure.unwrap_or_else(|| panic!("{name} passes"));
    assert_eq!(failure.reproduced, Some(Reproduction::Exact), "{name}");
}

/// Goal: threads make no difference. Method: the counts of each crash point, and of each depth, with one and with three.
#[test]
fn the_report_is_the_same_with_any_number_of_threads() {
    let engine = engine();
    for sets in [
        &["explore.operations=40", "explore.again_every=3"][..],
        &[
            "explore.operations=3",
            "explore.depth=2",
            "explore.work=2",
            "explore.states_per_point=7",
        ],
        &[
            "explore.operations=12",
            r#"explore.work_errors=["write", "flush"]"#,
        ],
    ] {
        let with = |jobs| {
            let exploration = Exploration {
                jobs: NonZeroUsize::new(jobs).expect("some"),
                ..exploration(scenario("scenarios/explore_small.toml", sets), &engine)
            };
            explore(&exploration)
        };
        let (one, three) = (with(1), with(3));
        assert_eq!(one.verdict, Verdict::Pass, "{:?}", one.failures);
        assert_eq!(one.points, three.points);
        assert_eq!(one.levels, three.levels);
        assert_eq!(one.work_errors, three.work_errors);
        assert!(one.total().checked > 100, "{:?}", one.total());
    }
}

/// Goal: who stops it is told what is known, and that it is not all. Method: stopped before it begins.
#[test]
fn an_interrupted_exploration_is_inconclusive() {
    let exploration = exploration(slate_scenario(&[]), &slate(Flaw::Nothing));
    let control = Control::default();
    control.stop(Stop::Interrupted);
    let report = exploration.run(&control).expect("a report");
    let Verdict::Inconclusive(reasons) = &report.verdict else {
        panic!("{:?}", report.verdict)
    };
    assert!(reasons[0].contains("interrupted"), "{reasons:?}");
    assert_eq!((report.points_asked, report.total().checked), (11, 0));
}

/// The report as another machine reads it.
fn sent(report: ExploreReport) -> ExploreReport {
    let text = serde_json::to_string(&json::document(&[report], 0)).expect("JSON");
    let mut read = json::read(&text).unwrap_or_else(|error| panic!("{error}"));
    read.remove(0)
}

/// Goal: shards that never talk to each other come to what one run comes to. Method: four of them, by way of JSON, in another
/// order, at one depth and at two; and merging with one left out.
#[test]
fn four_shards_merged_are_one_run() {
    let program = slate(Flaw::Nothing);
    for sets in [
        &["explore.operations=40", "explore.again_every=3"][..],
        // The slate trusts what it reads, though it may be in the cache only, as a killed process leaves it: power cuts alone.
        &[
            "explore.operations=14",
            "explore.depth=2",
            "explore.work=1",
            "explore.process_crash=false",
        ],
    ] {
        let of = |shard| {
            let exploration = Exploration {
                shard,
                ..exploration(slate_scenario(sets), &program)
            };
            sent(explore(&exploration))
        };
        let whole = of(None);
        assert_eq!(whole.verdict, Verdict::Pass, "{:?}", whole.failures);
        let mut parts: Vec<ExploreReport> = [2, 0, 3, 1].map(|shard| of(Some((shard, 4)))).into();
        let checked = |report: &ExploreReport| report.total().checked;
        let shares: Vec<u64> = parts.iter().map(checked).collect();
        assert!(
            shares.iter().all(|share| *share < checked(&whole)),
            "{shares:?} of {}, {} points",
            checked(&whole),
            whole.points_asked
        );
        let merged = merge(parts.clone(), false).unwrap_or_else(|error| panic!("{error}"));
        let [merged] = &merged[..] else {
            panic!("one exploration")
        };
        assert_eq!(merged.points, whole.points);
        assert_eq!(merged.levels, whole.levels);
        assert_eq!(merged.coverage, whole.coverage);
        assert_eq!(merged.verdict, whole.verdict);
        assert_eq!((merged.requests, merged.shard), (whole.requests, None));
        parts.pop();
        let missing = merge(parts, false).expect_err("one is missing");
        assert!(missing.contains("shard 1/4 is missing"), "{missing}");
    }
}

/// Goal: what only a second crash shows is found. Method: the slate answers with what it reads and does not flush it first, so what a
/// killed process left in the cache is shown and then taken back by a power cut.
#[test]
fn what_a_killed_process_leaves_in_the_cache_may_be_taken_back() {
    let of = |depth: &str| {
        let sets = ["explore.operations=2", "explore.work=0", depth];
        explore(&exploration(slate_scenario(&sets), &slate(Flaw::Nothing)))
    };
    assert_eq!(of("explore.depth=1").verdict, Verdict::Pass);
    let deeper = of("explore.depth=2");
    assert_eq!(deeper.verdict, Verdict::Violation);
    assert_eq!(deeper.failures[0].property, "no_resurrection");
    assert_eq!(deeper.failures[0].crash, 2);
}

/// Goal: what the guest says it reached is counted once for each recovery, whoever ran it, and what it never reached is a doubt for the
/// strict. Method: the slate, which opens blank or with records and never otherwise, on one thread and on several.
#[test]
fn coverage_points_are_counted_and_what_is_never_reached_is_said() {
    let program = slate(Flaw::Nothing);
    let of = |jobs: usize, sets: &[&str]| {
        explore(&Exploration {
            jobs: NonZeroUsize::new(jobs).expect("threads"),
            strict: true,
            ..exploration(slate_scenario(sets), &program)
        })
    };
    let report = of(1, &["explore.operations=12"]);
    let [blank, records, impossible] = &report.coverage.coverage_points[..] else {
        panic!("{:?}", report.coverage)
    };
    assert_eq!((blank.recorded, records.recorded), (1, 0));
    assert!(blank.reached > 0 && records.reached > blank.reached);
    assert_eq!(
        blank.reached + records.reached,
        report.total().recoveries,
        "each recovery opens once"
    );
    assert!(impossible.is_missed());
    let wanted = Verdict::Inconclusive(vec!["never reached: open.impossible".to_owned()]);
    assert_eq!(report.verdict, wanted);
    assert_eq!(of(4, &["explore.operations=12"]).coverage, report.coverage);
    let told = [
        "explore.operations=12",
        "coverage.unreachable=[\"open.impossible\"]",
    ];
    assert_eq!(of(2, &told).verdict, Verdict::Pass);
}

/// Goal: what one shard finds, the whole has found. Method: the guest that answers too early, in three shards.
#[test]
fn a_violation_in_one_shard_is_one_of_the_whole() {
    let program = slate(Flaw::AcknowledgesEarly);
    let parts = (0..3).map(|shard| {
        let exploration = Exploration {
            shard: Some((shard, 3)),
            ..exploration(slate_scenario(&["explore.operations=20"]), &program)
        };
        sent(explore(&exploration))
    });
    let parts: Vec<ExploreReport> = parts.collect();
    let whole = explore(&exploration(
        slate_scenario(&["explore.operations=20"]),
        &program,
    ));
    let merged = merge(parts, false)
        .unwrap_or_else(|error| panic!("{error}"))
        .remove(0);
    assert_eq!(merged.verdict, Verdict::Violation);
    assert_eq!(merged.failure_points[0], whole.failure_points[0]);
    assert_eq!(merged.failures[0].sentence, whole.failures[0].sentence);
}

/// Goal: instances that take turns in the same memory are as good as fresh ones. Method: the same report.
#[test]
fn reused_instances_are_as_good_as_fresh_ones() {
    let sets = ["explore.operations=30"];
    let of = |engine: &Arc<dyn Program>| {
        explore(&exploration(
            scenario("scenarios/explore_small.toml", &sets),
            engine,
        ))
    };
    let reused = of(&engine());
    let fresh = of(&builtin_guest());
    assert_eq!(reused.points, fresh.points);
    assert_eq!(reused.levels, fresh.levels);
}

/// The naive guest with a flaw is caught by the exploration of the scenario of that property; the case replays exactly.
fn is_caught(property: &str, flaw: &str, sets: &[&str]) {
    let program = naive();
    let flaw = format!("guest.options.break={flaw}");
    let sets = [sets, &[&flaw[..]]].concat();
    let scenario = scenario(format!("tests/broken/{property}.toml"), &sets);
    let directory = tempfile::tempdir().expect("a directory");
    let mut exploration = exploration(scenario, &program);
    exploration.failures = Some(directory.path().to_path_buf());
    let report = explore(&exploration);
    assert_eq!(report.verdict, Verdict::Violation, "{flaw}: {report:#?}");
    assert_eq!(report.failures[0].property, property, "{flaw}");
    let file = report.failures[0].file.as_deref().expect("it is saved");
    let saved = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
    is_whole(&saved, file);
    replays_exactly(saved, &program);
}

/// What is saved says all: explained and loaded again it is the same.
fn is_whole(saved: &Scenario, file: &Path) {
    let again = parse("again", "again", explain(saved), None, &[]);
    let again = again.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(&again, saved, "{}", file.display());
}

macro_rules! caught {
    ($($name:ident: $property:ident $sets:expr;)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(stringify!($property), stringify!($name), &$sets);
            }
        )*
    };
}

const FEW: &str = "explore.operations=24";

caught! {
    acknowledged_durable: acknowledged_durable [FEW];
    atomic_writes: atomic_writes [FEW];
    prefix: prefix [FEW];
    recovery_idempotent: recovery_idempotent ["explore.operations=4", "explore.depth=2", "explore.work=0"];
    work_after_recovery: work_after_recovery ["explore.operations=6", "explore.again_every=1"];
    guest_panics: guest_behaves [FEW];
    guest_outgrows_memory: guest_behaves [FEW];
}

/// Goal: a failure becomes small, and stays the same failure. Method: a guest that loses what it has answered, after many puts; one
/// put and one cut are enough, and nothing survives. The small case is saved, and shows it again.
#[test]
fn a_failure_is_made_small() {
    let program = slate(Flaw::AcknowledgesEarly);
    let directory = tempfile::tempdir().expect("a directory");
    let case = kvsim_harness::case::Case {
        process_runs: vec![
            kvsim_harness::case::CaseRun {
                requests: (1..=9)
                    .map(|number| {
                        format!("0 put k{number} {number}:600")
                            .parse()
                            .expect("a line")
                    })
                    .collect(),
                crash: Some(kvsim_harness::case::CaseCrash {
                    after_event: 1_000,
                    kind: kvsim_simdisk::CrashKind::Power,
                    persisted: Vec::new(),
                }),
                ..kvsim_harness::case::CaseRun::default()
            },
            kvsim_harness::case::CaseRun::default(),
        ],
        faults: Vec::new(),
    };
    let mut large = slate_scenario(&[]);
    large.case = Some(case);
    let small = minimise(
        &large,
        &program,
        Budget::default(),
        NonZeroUsize::MIN,
        &Control::default(),
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let case = small.scenario.case.clone().expect("its steps");
    assert_eq!(case.process_runs[0].requests.len(), 1, "{case:#?}");
    assert_eq!(case.crashes(), 1);
    assert!(!small.exhausted);
    let said = small.size();
    assert!(
        said.starts_with("1 requests, 1 crashes, 0 persisted writes"),
        "{said}"
    );
    let blame = small.blame(&program, NonZeroUsize::MIN, &Control::default());
    let blame = blame.unwrap_or_else(|error| panic!("{error}"));
    let report = small.report(program.as_ref(), Some(directory.path()), Some(blame));
    let file = directory
        .path()
        .join("slate-small-1-acknowledged_durable.toml");
    assert_eq!(report.file.as_ref(), Some(&file));
    let saved = load(&file, &[]).expect("it loads");
    let blame = &saved.failure.as_ref().expect("it failed").blame;
    assert!(
        blame.contains("written through; or a flush between"),
        "{blame}"
    );
    replays_exactly(saved, &program);
}

/// Goal: a flush that fails in a recovery is a state like any other: who refuses to open is right, who opens all the same shows what the
/// next cut takes back. Method: three guests that differ in that only, and the counts; the case that
/// is saved replays, and is made small.
#[test]
fn a_flush_error_in_a_recovery_is_not_to_be_ignored() {
    let sets = [
        "explore.operations=3",
        r#"explore.recovery_errors=["flush"]"#,
        "explore.recovery_errors_max=2",
        // Else chance may drop what the script need not, and the case would say less.
        "faults.drop_dirty=0.0",
    ];
    let right = explore(&exploration(
        slate_scenario(&sets),
        &slate(Flaw::HardensFirst),
    ));
    assert_eq!(right.verdict, Verdict::Pass, "{:?}", right.failures);
    let errors = right.total().errors;
    // One flush in each recovery; the second that was asked for is never come to.
    assert_eq!(errors.tried, right.total().checked);
    assert_eq!((errors.refused, errors.opened), (errors.tried, 0));
    // One flush fails, and may drop what it covered.
    for flaw in [Flaw::HardensBlindly, Flaw::HardensAgain] {
        let program = slate(flaw);
        let directory = tempfile::tempdir().expect("a directory");
        let mut wrong = exploration(slate_scenario(&sets), &program);
        wrong.failures = Some(directory.path().to_path_buf());
        wrong.minimise = true;
        let wrong = explore(&wrong);
        assert_eq!(wrong.verdict, Verdict::Violation, "{flaw:?}");
        // The small case may show the same loss in another shape, such as two recoveries in a row that differ.
        let property = &wrong.failures[0].property;
        let shapes = [
            "no_resurrection",
            "acknowledged_durable",
            "recovery_idempotent",
        ];
        assert!(shapes.contains(&property.as_str()), "{flaw:?}: {property}");
        let file = wrong.failures[0].file.as_deref().expect("it is saved");
        let saved = load(file, &[]).unwrap_or_else(|error| panic!("{error}"));
        let case = saved.case.clone().expect("its steps");
        let own = saved.script();
        let affected = || case.faults.iter().chain(&own);
        let is_error = |fault: &StorageFault| fault.is_failure(FaultKind::FlushError);
        assert!(affected().any(is_error), "{flaw:?}: {:?}", saved.faults);
        let is_one =
            affected().all(|fault| Some(fault.op()) == affected().next().map(|first| first.op()));
        assert!(is_one, "{flaw:?}: {:?}", saved.faults);
        assert_eq!(case.process_runs[0].requests.len(), 1, "{flaw:?}");
        is_whole(&saved, file);
        replays_exactly(saved, &program);
    }
}

/// Goal: what is passed over would have been judged as what was seen before. Method: with and without, all violations: the same
/// kinds, and as good as nothing else.
#[test]
fn passing_over_what_was_seen_hides_nothing() {
    let program = naive();
    for (property, flaw) in [
        ("prefix", "prefix"),
        ("guest_behaves", "guest_panics"),
        ("prefix", ""),
    ] {
        let kinds = |skip_seen| {
            let flaw = format!("guest.options.break={flaw}");
            let sets = [
                "explore.operations=5",
                "explore.violations_max=1000",
                "explore.again_every=1",
                &flaw,
            ];
            let sets = if flaw.ends_with('=') {
                &sets[..3]
            } else {
                &sets
            };
            let mut exploration = exploration(
                scenario(format!("tests/broken/{property}.toml"), sets),
                &program,
            );
            exploration.skip_seen = skip_seen;
            let report = explore(&exploration);
            let total = report.total();
            assert!(total.checked > 0 && (total.skipped > 0) == skip_seen);
            let mut kinds: Vec<String> = report
                .failures
                .iter()
                .map(|failure| failure.property.clone())
                .collect();
            kinds.sort();
            kinds.dedup();
            (kinds, report.failures.len(), total.taken)
        };
        let (with, without) = (kinds(true), kinds(false));
        assert_eq!(with.0, without.0, "{flaw}");
        assert_eq!(with.2, without.2, "{flaw}");
        assert!(with.1 <= without.1, "{flaw}");
        assert_eq!(with.0.is_empty(), flaw.is_empty(), "{flaw}");
    }
}
