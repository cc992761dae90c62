//! What is left of a mutant's failure, and what is blamed for it: every misplaced flush, and one mutant for each other
//! kind of fix, each shrunk by a move that no other needs. For all mutants, run `kvsim mutants --minimise`, which fails
//! if blame is wrong about any.

use kvsim_harness::control::Control;
use kvsim_harness::mutants::catalogue::{SHIPPED, Trial, trials_for};
use kvsim_harness::mutants::fix::{Fix, fix};
use kvsim_harness::mutants::{Hunt, Mutant, Small};
use kvsim_harness::oracle::Property;
use kvsim_harness::run::{Tracing, run_seed};
use kvsim_harness::scenario::{Scenario, load};

use super::{hunt, program};

/// The mutant's failure made small, and the scenario that is saved of it, which replays by itself.
fn small(mutant: Mutant) -> (Small, Scenario) {
    small_of(mutant, trials_for(mutant)[0])
}

/// The same of a failure in this scenario.
fn small_of(mutant: Mutant, trial: Trial) -> (Small, Scenario) {
    let directory = tempfile::tempdir().expect("a directory");
    let hunt = Hunt {
        failures: Some(directory.path().to_path_buf()),
        minimise: true,
        ..hunt()
    };
    let hunted = hunt
        .hunt(mutant, &[trial], &Control::default())
        .unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
    let small = hunted.small.expect("it was caught and asked for");
    let small = small.unwrap_or_else(|error| panic!("{mutant:?}: {error}"));
    let saved = load(small.file.as_deref().expect("it is saved"), &[]).expect("it loads");
    let (seed, control) = (saved.run.seeds.start, Control::default());
    let result = run_seed(&saved, &program(), seed, &control, Tracing::HashOnly);
    let failure = saved.failure.as_ref().expect("it says what failed");
    assert_eq!(result.trace_hash, failure.trace_hash, "{mutant:?}");
    // All four copies of the superblock have to be torn; and where a flush only orders, all that was ever written is pending.
    let takes_many_writes = matches!(
        mutant,
        Mutant::HalvesNotFlushedApart | Mutant::OpeningUnordered
    );
    assert!(
        small.is_small() || takes_many_writes && small.requests <= 5,
        "{mutant:?}: {small:#?}"
    );
    assert!(small.is_blamed_right, "{mutant:?}: {small:#?}");
    (small, saved)
}

/// Goal: a bug of checkpoints takes one or two requests, and the flush of its pages is named.
#[test]
fn a_bug_of_checkpoints_takes_two_requests_at_most() {
    let (small, _) = small(Mutant::CheckpointPagesNotFlushed);
    assert!(small.requests <= 2, "{small:#?}");
    assert_eq!(small.fix, Fix::Durable);
}

/// Goal: many writes become few batches where it takes many bytes, not many requests. Method: a segment has to be full, which takes more puts of a kilobyte than there
/// are requests in the end.
#[test]
fn several_writes_become_a_batch() {
    let (small, saved) = small(Mutant::BadFrameSkipped);
    let case = saved.case.expect("its steps");
    let lines: Vec<String> = case.process_runs[0]
        .requests
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        lines.iter().any(|line| line.contains(" batch ")),
        "{lines:#?}"
    );
    assert_eq!(small.fix, Fix::NoOrder);
}

/// Goal: a flush that failed late in a long case is aimed anew where a guest that writes through what little it is asked flushes. Method: six process runs of large values,
/// and an engine that goes by what it has measured of flushes.
#[test]
fn a_failed_flush_is_placed_anew_where_flushes_are_quick() {
    let trial = SHIPPED.iter().find(|trial| trial.name == "small_faults");
    let (small, saved) = small_of(
        Mutant::FlushErrorIgnored,
        *trial.expect("it ships small faults"),
    );
    assert_eq!((small.requests, small.fix), (1, Fix::NoOrder), "{small:#?}");
    let flush = saved.device.timing.flush;
    assert_eq!(flush.min_ns, flush.max_ns, "{flush:?}");
}

/// Goal: a fault that is moved to one of the first operations needs no history, and what is done about it is no matter of order. Method: a flush that fails once, by
/// chance in a long run.
#[test]
fn a_fault_is_placed_anew() {
    let (small, saved) = small(Mutant::FailedFlushRetried);
    assert!(!saved.faults.script.is_empty(), "{small:#?}");
    assert!(
        small.blame.contains("it passes without the "),
        "{}",
        small.blame
    );
}

/// Goal: an answer that is given before anything is written has no flush that would fix it, and is named itself. Method: writes that are acknowledged at once.
#[test]
fn an_answer_before_the_write_is_named() {
    let (small, _) = small(Mutant::FlushOnATimer);
    assert_eq!(small.fix, Fix::LaterAnswer);
    assert!(
        small.blame.contains("the acknowledgement of"),
        "{}",
        small.blame
    );
}

/// Goal: space that is used again before what replaces it is durable is no matter of a flush, and is named. Method: the log's segments freed when a checkpoint begins.
#[test]
fn space_used_again_too_early_is_named() {
    let (small, _) = small(Mutant::LogReusedBeforePagesFlushed);
    assert_eq!(small.fix, Fix::LaterReuse);
    assert!(small.blame.contains("still needed"), "{}", small.blame);
}

/// Goal: the same between two kills of the process, which lose nothing. Method: a recovery that uses space before its superblock is published, in a scenario with kills.
#[test]
fn space_used_again_between_kills_is_named() {
    let (small, _) = small_of(Mutant::RecoveryReclaimsTooEarly, SHIPPED[0]);
    assert_eq!((small.fix, small.persisted), (Fix::LaterReuse, 0));
    assert!(small.blame.contains("still needed"), "{}", small.blame);
}

/// Goal: a failure after a hundred crashes takes moments if its last process runs are all that it needs. Method: a superblock whose generation can be garbage.
#[test]
fn the_last_process_runs_are_looked_at_first() {
    let (small, _) = small(Mutant::GenerationOutsideChecksum);
    assert!(small.requests <= 2, "{small:#?}");
    assert!(small.blame.contains("is not torn"), "{}", small.blame);
}

/// Goal: a write that a kill of the process leaves pending and a later power cut tears is not blamed on a flush, if the guest copes with its loss. Method: a
/// recovery that believes the length in a torn frame.
#[test]
fn a_tear_after_a_kill_is_no_missing_flush() {
    let (small, _) = small(Mutant::LengthTrustedUnchecked);
    assert_eq!(small.fix, Fix::NoOrder);
    assert!(small.blame.contains("is not torn"), "{}", small.blame);
}

/// Goal: a process run that is cut before anything was asked is left out, even if only the one that fails is left. Method: a mutant whose running engine fails without any cut, in a
/// scenario whose creations are cut.
#[test]
fn a_cut_that_changes_nothing_is_left_out() {
    let (small, _) = small_of(Mutant::ExtentFreedAtOnce, SHIPPED[0]);
    assert_eq!((small.crashes, small.fix), (0, Fix::NoOrder), "{small:#?}");
}

/// Goal: the answer to a relaxed write is not to blame for what comes back from the dead: it promises nothing. Method: a recovery that does not fence what lies behind the end of the
/// log, in a scenario with relaxed writes.
#[test]
fn the_answer_to_a_relaxed_write_is_not_to_blame() {
    let (small, saved) = small_of(Mutant::TailNotFenced, SHIPPED[0]);
    let failure = saved.failure.expect("it says what failed");
    assert_eq!(failure.property, Property::NoResurrection);
    assert_eq!(small.fix, Fix::NoOrder);
}

/// Goal: what is blamed is right for every mutant that leaves out or misplaces a flush, a write-through, a wait for one or an answer, and its case is small. Method: all of them.
#[test]
fn whatever_is_misplaced_is_named() {
    let misplaced =
        |mutant: &&Mutant| matches!(fix(**mutant), Fix::Durable | Fix::Wait | Fix::LaterAnswer);
    // Only long runs find these, and the failures of some stay long.
    let stays_long = |mutant: &&Mutant| {
        matches!(
            mutant,
            Mutant::EmptyBatchDoesNotWait
                | Mutant::RelaxedDeadlineDropped
                // It takes two crashes, and blame does not look for a wait across them.
                | Mutant::DurableStatedTooEarly
                // Its small case is a wrong read without a loss, for which no answer is to blame.
                | Mutant::AbsorbedIntoSealedFrame
                | Mutant::RepublishedTooEarly
        )
    };
    let all = Mutant::ALL.iter().filter(misplaced);
    let all: Vec<Mutant> = all.filter(|mutant| !stays_long(mutant)).copied().collect();
    assert!(all.len() > 14, "{all:?}");
    for mutant in all {
        small(mutant);
    }
}

/// Goal: a clean close that makes nothing durable comes down to a write and the close, whose answer is named. Method: relaxed writes and then a close, over and over.
#[test]
fn a_close_that_makes_nothing_durable_is_named() {
    let (small, _) = small(Mutant::CloseDoesNotFlush);
    assert_eq!(small.fix, Fix::LaterAnswer);
    let (named, why) = ("the acknowledgement of `", " close` not given");
    assert!(
        small.blame.starts_with(named) && small.blame.contains(why),
        "{}",
        small.blame
    );
}

/// Goal: a misdirected read is placed anew with the place that it goes to, on few requests of one key. Method: a bug that shows after many requests, when a read by
/// chance finds an older value of its own key.
#[test]
fn a_misdirected_read_is_placed_anew() {
    let (small, saved) = small(Mutant::OldNeighbourTaken);
    assert_eq!(saved.faults.script.len(), 1, "{small:#?}");
    assert!(small.blame.contains("misdirected read"), "{}", small.blame);
}
