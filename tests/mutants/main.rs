//! Mutants: a handful of them, one of each kind of mechanism, is caught; the scenarios are clean without; and no ordinary
//! build has any. All of them: `kvsim mutants`, see the book's chapter.
#![allow(missing_docs, reason = "a test")]

use std::sync::{Arc, OnceLock};

use kvsim_harness::control::Control;
use kvsim_harness::guest;
use kvsim_harness::mutants::catalogue::{TRIALS, trials_for};
use kvsim_harness::mutants::host::leave_out_each;
use kvsim_harness::mutants::{Hunt, Mutant};
use kvsim_harness::scenario::Scenario;
use kvsim_tests::{Program, all_cores, mutants_guest};

fn program() -> Arc<dyn Program> {
    static PROGRAM: OnceLock<Arc<dyn Program>> = OnceLock::new();
    let load = || guest::load_reused(Some(mutants_guest())).expect("it is a guest");
    Arc::clone(PROGRAM.get_or_init(load))
}

mod shipped;
mod small;
mod work_errors;

fn hunt() -> Hunt {
    Hunt {
        program: program(),
        jobs: all_cores(),
        failures: None,
        minimise: false,
        limit: None,
    }
}

/// The mutant breaks one of these properties in the scenario that is tried first.
fn is_caught(mutant: Mutant, properties: &[&str]) {
    let first = &trials_for(mutant)[..1];
    let hunted = hunt()
        .hunt(mutant, first, &Control::default())
        .unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
    let caught = hunted
        .caught()
        .unwrap_or_else(|| panic!("{mutant:?} is missed: {hunted:#?}"));
    let failure = caught.failure.as_ref().expect("it was caught");
    let is_it = properties.contains(&failure.property.as_str());
    assert!(is_it, "{mutant:?}: {failure:#?}");
}

macro_rules! mutants {
    ($($test:ident: $mutant:ident breaks $($property:literal)or+;)*) => {
        $(
            #[test]
            fn $test() {
                is_caught(Mutant::$mutant, &[$($property),+]);
            }
        )*
    };
}

mutants! {
    acknowledged_before_flush: AcknowledgedBeforeFlush breaks "acknowledged_durable";
    bad_frame_skipped: BadFrameSkipped breaks "prefix";
    batch_split_over_frames: BatchSplitOverFrames breaks "atomic_writes";
    checkpoint_pages_not_flushed: CheckpointPagesNotFlushed breaks "acknowledged_durable";
    new_epoch_not_flushed: NewEpochNotFlushed breaks "acknowledged_durable";
    // It depends on what lies in the old segment.
    recycled_segment_replays: RecycledSegmentReplays breaks "no_resurrection" or "atomic_writes";
    length_trusted_unchecked: LengthTrustedUnchecked breaks "guest_behaves";
    failed_flush_retried: FailedFlushRetried breaks "acknowledged_durable" or "work_after_recovery";
    others_failure_ignored: OthersFailureIgnored breaks "acknowledged_durable";
    half_published_trusted: HalfPublishedTrusted breaks "acknowledged_durable" or "recovery_idempotent";
    blank_half_spared: BlankHalfSpared breaks "acknowledged_durable" or "recovery_idempotent";
    opening_unordered: OpeningUnordered breaks "acknowledged_durable";
    halves_not_flushed_apart: HalvesNotFlushedApart breaks "acknowledged_durable" or "recovery_idempotent";
    empty_batch_does_not_wait: EmptyBatchDoesNotWait breaks "acknowledged_durable" or "work_after_recovery";
    relaxed_deadline_dropped: RelaxedDeadlineDropped breaks "acknowledged_durable" or "work_after_recovery";
    pointer_bounds_not_checked: PointerBoundsNotChecked breaks "guest_behaves";
    promised_write_forgotten: PromisedWriteForgotten breaks "reads_agree" or "damage_reported";
    // Lost, or older than a sync has promised.
    broken_promise_unnoticed: BrokenPromiseUnnoticed breaks "acknowledged_durable";
    // The key that a run has beyond its partition is missed by a read or in the work after a recovery, or the next opening refuses it: the seed says which comes first.
    appended_behind_base: AppendedBehindBase breaks "acknowledged_durable" or "no_resurrection" or "reads_agree" or "work_after_recovery";
}

/// Goal: it is the mutants that are caught, and not the engine. Method: the explored scenario that most are tried with, without any.
#[test]
fn without_a_mutant_nothing_is_violated() {
    let control = hunt()
        .control(&TRIALS[0], &Control::default())
        .expect("it can be run");
    assert!(control.failure.is_none(), "{control:#?}");
    assert!(control.remark.is_none(), "{control:#?}");
    assert!(control.states > 100, "{control:#?}");
}

/// Goal: a missing flush is noticed or known to be covered. Method: the first flushes of a recording left out, on the ordinary engine.
#[test]
fn a_flush_that_is_left_out_is_caught_or_covered() {
    let program = guest::load_reused(None).expect("it is a guest");
    let mut seen = 0;
    let control = Control::default();
    let report = leave_out_each(&TRIALS[0], &program, all_cores(), &control, |_| {
        seen += 1;
        if seen == 12 {
            control.stop(kvsim_harness::control::Stop::TimeOver);
        }
    })
    .expect("it can be recorded");
    assert_eq!(report.missed().count(), 0, "{report:#?}");
    let caught =
        report.count(|end| matches!(end, kvsim_harness::explore::left_out::SiteEnd::Caught(_)));
    assert!(caught > 3, "{report:#?}");
}

/// Goal: no ordinary build has a mutant, and one that has says so. Method: the option's name, and those of mutants, looked for
/// in the bytes of both guests; and the option handed to the ordinary one.
#[test]
fn an_ordinary_guest_has_no_trace_of_mutants() {
    let has = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    let mutated = std::fs::read(mutants_guest()).expect("it was built");
    let ordinary = kvsim_sim::WasmProgram::builtin_bytes();
    let names = Mutant::ALL.iter().map(|mutant| mutant.name());
    for name in names.chain(["mutant"]) {
        assert!(has(&mutated, name), "{name}");
        assert!(!has(ordinary, name), "{name}");
    }
    let mut scenario: Scenario = TRIALS[0].load();
    let option = kvsim_harness::scenario::OptionText("torn_tail_refused".to_owned());
    scenario.guest.options.insert("mutant".to_owned(), option);
    let program = guest::load_reused(None).expect("it is a guest");
    let control = Control::default();
    let tracing = kvsim_harness::run::Tracing::HashOnly;
    let result = kvsim_harness::run::run_seed(&scenario, &program, 1, &control, tracing);
    let end = format!("{:?}", result.end);
    assert!(end.contains("unknown option `mutant`"), "{end}");
}
