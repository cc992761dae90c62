//! The scenarios that mutants are hunted with, and which are likely to catch which.
//!
//! A mutant is hunted first with the scenarios named for it here, then with all others: a wrong hint costs time and no more.

use super::Mutant;
use kvsim_scenario::{Scenario, parse};

/// What is done with a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Every state of every crash point of one recording.
    Explore,
    /// Crash after crash at random, seed after seed.
    Seeds,
}

/// A scenario that ships with this binary.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Its name: that of its file.
    pub name: &'static str,
    /// What is done with it.
    pub how: How,
    source: &'static str,
    text: &'static str,
    /// Seeds that are run in place of the scenario's own: up to so many, if that is not 0.
    seeds_max: u64,
}

macro_rules! trials {
    ($(in $folder:literal { $($name:literal $how:ident $seeds_max:literal;)* })*) => {
        &[$($(Trial {
            name: $name,
            how: How::$how,
            source: concat!($folder, $name, ".toml"),
            text: include_str!(concat!("../../../../", $folder, $name, ".toml")),
            seeds_max: $seeds_max,
        }),*),*]
    };
}

/// All scenarios, in the order in which they are tried: those that were written for mutants, then some of those that a user runs.
pub const TRIALS: &[Trial] = trials! {
    in "scenarios/mutants/" {
        "durable" Explore 0;
        "through" Explore 0;
        "torn" Explore 0;
        "extents" Explore 0;
        "relaxed" Explore 0;
        "reuse" Explore 0;
        "changes" Explore 0;
        "republished" Explore 0;
        "recovery" Explore 0;
        "errors" Seeds 0;
        "log_freed" Seeds 0;
        "lies" Seeds 0;
        "snapshots" Seeds 0;
        "everything" Seeds 0;
        "roots" Seeds 0;
        "closes" Seeds 0;
        "parallel" Seeds 0;
        "forgotten" Seeds 0;
        "blind" Seeds 0;
        "counted" Seeds 0;
        "filters" Seeds 0;
        "ordered" Seeds 0;
    }
    in "scenarios/" {
        "explore_deep" Explore 0;
        "explore_errors" Explore 0;
        "torn_superblock" Seeds 0;
        "relaxed_window" Seeds 0;
        "space_returns" Seeds 0;
        "growing_lies" Seeds 0;
        "barrier" Seeds 0;
        "kitchen_sink" Seeds 0;
        "loading" Seeds 0;
        "appending" Seeds 0;
        "promises" Seeds 0;
    }
};

/// The scenarios that a user runs, in the order in which `kvsim mutants --shipped` tries them: first some seconds of those whose failures are small from the start; then more of
/// them, and the index; then those for one subject each; then those for everything. None has more seeds than one core runs in about 60 s.
pub const SHIPPED: &[Trial] = trials! {
    in "scenarios/" {
        "small_swarm" Seeds 2_000;
        "small_faults" Seeds 2_000;
        "explore_errors" Explore 0;
        "small_swarm" Seeds 20_000;
        "small_index" Seeds 400;
        "promises" Seeds 400;
        "little_index" Seeds 6;
        "loading" Seeds 12;
        "appending" Seeds 30;
        "small_faults" Seeds 20_000;
        "torn_superblock" Seeds 0;
        "relaxed_window" Seeds 0;
        "space_returns" Seeds 0;
        "growing_lies" Seeds 0;
        "short_runs" Seeds 400;
        "few_changes" Seeds 60;
        "little_memory" Seeds 60;
        "explore_deep" Explore 0;
        "powercut" Seeds 40;
        "kitchen_sink" Seeds 200;
        "swarm" Seeds 1_000;
    }
};

/// Those whose flushes and write-throughs are left out in turn.
pub const HOST_SCENARIOS: &[&str] = &["durable", "through", "extents"];

impl Trial {
    /// The scenario.
    ///
    /// # Panics
    /// Never: a test loads each.
    #[must_use]
    pub fn load(&self) -> Scenario {
        self.load_for(None)
    }

    /// The scenario for a mutant, with its name, or for none.
    ///
    /// # Panics
    /// Never: a test loads each.
    #[must_use]
    pub fn load_for(&self, mutant: Option<Mutant>) -> Scenario {
        let sets = mutant.map(|mutant| {
            let name = mutant.name();
            [
                format!("guest.options.mutant={name}"),
                format!("name={name}"),
            ]
        });
        let sets = sets.as_ref().map_or(&[][..], |sets| sets);
        match parse(self.source, self.name, self.text.to_owned(), None, sets) {
            Ok(mut scenario) => {
                if self.seeds_max > 0 {
                    let start = scenario.run.seeds.start;
                    scenario.run.seeds.end = start + self.seeds_max;
                }
                scenario
            }
            Err(error) => panic!("a scenario that ships is wrong: {error}"),
        }
    }
}

/// The scenarios for a mutant, in the order in which they are tried.
#[must_use]
pub fn trials_for(mutant: Mutant) -> Vec<Trial> {
    let first = likely(mutant);
    let named = first
        .iter()
        .filter_map(|name| TRIALS.iter().find(|trial| trial.name == *name));
    let others = TRIALS.iter().filter(|trial| !first.contains(&trial.name));
    named.chain(others).copied().collect()
}

/// What is tried first.
fn likely(mutant: Mutant) -> &'static [&'static str] {
    use Mutant::{
        AbsorbedIntoSealedFrame, AbsorbedUnderSnapshot, AbsorbedValueCached, AppendedBehindBase,
        BlankHalfSpared, BlindBesideGets, BlindDeleteLost, BlindUnderSnapshot,
        BrokenPromiseUnnoticed, ChangedEntriesForgotten, ChangesMeanwhileForgotten,
        CloseDoesNotFlush, DeletesLeftOutOfCheckpoint, DrainedSegmentKept, EmptyBatchDoesNotWait,
        ExtentFreedAtOnce, ExtentsNotChecked, FailedCommitReportedUndone, FailedFlushRetried,
        FailedPublicationWipes, FilterOfNextNamed, FlushErrorIgnored, ForgottenNotCounted,
        FreedBeforeCounted, FreedBeforeSuperblock, GapIsTheEnd, GenerationOutsideChecksum,
        GenerationReused, HalfPublishedTrusted, HalvesNotFlushedApart, JoinedWithoutDeletes,
        LeafKeptByPlace, LoadedOverNewer, LogFreedUnproven, MoveOverwritesNewer,
        MovesLeftOutOfCheckpoint, NewestPairOverwritten, NoFallbackToOlderRoot, OldNeighbourTaken,
        OlderEntriesMerged, OlderRunsFreed, OldestIsSubtracted, OldestRunFirst, OpeningUnordered,
        OthersFailureIgnored, OutsideLeftUncounted, PointerBeforeValue, PointerBoundsNotChecked,
        PromisedWriteForgotten, ProvenHalfWrittenFirst, RecoveryReclaimsTooEarly,
        RelaxedDeadlineDropped, RelaxedFramesNotFlushed, RelaxedWindowForgotten,
        ReleasedVersionsStayLive, RemovedKeysLookedUp, RemovedKeysMerged, ReplacedRunsNotHeld,
        ReplacedStaysCounted, RepublishedTooEarly, ReturnedKeysTakenForDeleted,
        RunsReplacedUnderBlindWrites, ScanHoldsNothing, ScanPrefersRuns, SingleRootCopy,
        SurplusRefuses, SyncDoesNotWait, TableWithoutExtents, TailNotFenced, TailRewriteNotFlushed,
        TornRootMadeValid, UnloadedDeleteLost, UnprovenTailTrusted, VictimFreedAtOnce,
    };
    match mutant {
        PointerBeforeValue | ExtentFreedAtOnce | ExtentsNotChecked => &["extents"],
        FreedBeforeSuperblock | VictimFreedAtOnce | LogFreedUnproven | MoveOverwritesNewer => {
            &["reuse"]
        }
        DeletesLeftOutOfCheckpoint
        | MovesLeftOutOfCheckpoint
        | ChangesMeanwhileForgotten
        | ReturnedKeysTakenForDeleted
        | OlderRunsFreed => &["changes"],
        ChangedEntriesForgotten
        | RemovedKeysLookedUp
        | RemovedKeysMerged
        | OlderEntriesMerged
        | OldestRunFirst
        | ScanPrefersRuns
        | LeafKeptByPlace
        | ForgottenNotCounted
        | JoinedWithoutDeletes
        | BlindUnderSnapshot => &["forgotten"],
        TableWithoutExtents | FreedBeforeCounted | LoadedOverNewer | UnloadedDeleteLost => {
            &["loading"]
        }
        ReplacedStaysCounted
        | ReplacedRunsNotHeld
        | OldestIsSubtracted
        | ScanHoldsNothing
        | RunsReplacedUnderBlindWrites
        | BlindBesideGets
        | BlindDeleteLost => &["blind"],
        SurplusRefuses => &["counted"],
        FilterOfNextNamed => &["filters"],
        OutsideLeftUncounted => &["forgotten"],
        AppendedBehindBase => &["appending"],
        PromisedWriteForgotten | BrokenPromiseUnnoticed => &["promises"],
        RepublishedTooEarly => &["republished"],
        TailNotFenced
        | GenerationReused
        | NoFallbackToOlderRoot
        | RecoveryReclaimsTooEarly
        | TailRewriteNotFlushed => &["recovery"],
        BlankHalfSpared | NewestPairOverwritten | OpeningUnordered | ProvenHalfWrittenFirst => {
            &["ordered"]
        }
        SingleRootCopy => &["torn"],
        TornRootMadeValid | GenerationOutsideChecksum => &["roots"],
        FailedPublicationWipes | FailedFlushRetried | FailedCommitReportedUndone => &["errors"],
        FlushErrorIgnored | UnprovenTailTrusted => &["parallel"],
        OthersFailureIgnored => &["explore_errors"],
        GapIsTheEnd | OldNeighbourTaken => &["lies"],
        RelaxedFramesNotFlushed | RelaxedWindowForgotten => &["relaxed"],
        SyncDoesNotWait => &["through"],
        CloseDoesNotFlush => &["closes"],
        HalfPublishedTrusted | HalvesNotFlushedApart => &["torn_superblock"],

        RelaxedDeadlineDropped => &["relaxed_window"],
        EmptyBatchDoesNotWait => &["kitchen_sink"],
        PointerBoundsNotChecked => &["growing_lies"],
        DrainedSegmentKept | ReleasedVersionsStayLive => &["space_returns"],
        AbsorbedUnderSnapshot | AbsorbedIntoSealedFrame | AbsorbedValueCached => &["snapshots"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every scenario can be loaded and is called as its file is. Method: all of them.
    #[test]
    fn every_scenario_loads_under_its_name() {
        for trial in TRIALS.iter().chain(SHIPPED) {
            assert_eq!(trial.load().name, trial.name);
            let mutant = Mutant::ALL[0];
            let scenario = trial.load_for(Some(mutant));
            let of_a_seed = scenario.of_seed(7).expect("it can be drawn");
            assert_eq!(of_a_seed.name, mutant.name());
            assert_eq!(of_a_seed.guest.options["mutant"].0, mutant.name());
        }
    }

    /// Goal: every mutant is hunted with every scenario, once. Method: the lists of all mutants.
    #[test]
    fn every_mutant_meets_every_scenario_once() {
        for mutant in Mutant::ALL {
            let mut names: Vec<&str> = trials_for(*mutant).iter().map(|it| it.name).collect();
            names.sort_unstable();
            let mut all: Vec<&str> = TRIALS.iter().map(|it| it.name).collect();
            all.sort_unstable();
            assert_eq!(names, all, "{mutant:?}");
        }
    }
}
