//! The scenarios that mutants are hunted with, and which are likely to catch which.
//!
//! A mutant is hunted first with the scenarios named for it here, then with all others: a wrong hint costs time and no more.

use super::Mutant;
use crate::scenario::{Scenario, parse};

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
}

macro_rules! trials {
    ($(in $folder:literal { $($name:literal $how:ident;)* })*) => {
        &[$($(Trial {
            name: $name,
            how: How::$how,
            source: concat!($folder, $name, ".toml"),
            text: include_str!(concat!("../../../", $folder, $name, ".toml")),
        }),*),*]
    };
}

/// All scenarios, in the order in which they are tried: those that were written for mutants, then some of those that a user runs.
pub const TRIALS: &[Trial] = trials! {
    in "scenarios/mutants/" {
        "durable" Explore;
        "through" Explore;
        "torn" Explore;
        "extents" Explore;
        "relaxed" Explore;
        "reuse" Explore;
        "restated" Explore;
        "recovery" Explore;
        "errors" Seeds;
        "released" Seeds;
        "lies" Seeds;
        "snapshots" Seeds;
        "everything" Seeds;
        "roots" Seeds;
        "closes" Seeds;
        "parallel" Seeds;
    }
    in "scenarios/" {
        "explore_deep" Explore;
        "torn_superblock" Seeds;
        "relaxed_window" Seeds;
        "space_returns" Seeds;
        "kitchen_sink" Seeds;
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
        match parse(self.source, self.name, self.text.to_owned(), None, &[]) {
            Ok(scenario) => scenario,
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
        AbsorbedIntoSealedFrame, AbsorbedUnderSnapshot, AbsorbedValueCached, CloseDoesNotFlush,
        DrainedSegmentKept, EmptyBatchDoesNotWait, EvacuationNotFlushed, ExtentFreedAtOnce,
        ExtentsNotChecked, FailedCommitReportedUndone, FailedFlushRetried, FailedPublicationWipes,
        FlushErrorIgnored, FreedBeforeSuperblock, GapIsTheEnd, GenerationOutsideChecksum,
        GenerationReused, HalfPublishedTrusted, HalvesNotFlushedApart, MoveOverwritesNewer,
        NoFallbackToOlderRoot, OldNeighbourTaken, OthersFailureIgnored, PointerBeforeValue,
        ProvenHalfWrittenFirst, RecoveryReclaimsTooEarly, RelaxedDeadlineDropped,
        RelaxedFramesNotFlushed, RelaxedWindowForgotten, ReleasedUnproven,
        ReleasedVersionsStayLive, RestatedTooEarly, SingleRootCopy, SyncDoesNotWait, TailNotFenced,
        TornRootMadeValid, UnprovenTailTrusted, VictimFreedAtOnce,
    };
    match mutant {
        PointerBeforeValue | ExtentFreedAtOnce | ExtentsNotChecked => &["extents"],
        FreedBeforeSuperblock | VictimFreedAtOnce | ReleasedUnproven | MoveOverwritesNewer => {
            &["reuse"]
        }
        RestatedTooEarly => &["restated"],
        TailNotFenced
        | GenerationReused
        | NoFallbackToOlderRoot
        | RecoveryReclaimsTooEarly
        | EvacuationNotFlushed
        | UnprovenTailTrusted
        | ProvenHalfWrittenFirst => &["recovery"],
        SingleRootCopy => &["torn"],
        TornRootMadeValid | GenerationOutsideChecksum => &["roots"],
        FailedPublicationWipes | FailedFlushRetried | FailedCommitReportedUndone => &["errors"],
        FlushErrorIgnored | OthersFailureIgnored => &["parallel"],
        GapIsTheEnd | OldNeighbourTaken => &["lies"],
        RelaxedFramesNotFlushed | RelaxedWindowForgotten => &["relaxed"],
        SyncDoesNotWait => &["through"],
        CloseDoesNotFlush => &["closes"],
        HalfPublishedTrusted => &["explore_deep"],
        HalvesNotFlushedApart => &["torn_superblock"],
        RelaxedDeadlineDropped => &["relaxed_window"],
        EmptyBatchDoesNotWait => &["kitchen_sink"],
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
        for trial in TRIALS {
            assert_eq!(trial.load().name, trial.name);
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
