//! The shipped scenarios that each mutation meets, in order, and how long each may take.

use std::path::Path;

use kvsim_harness::scenario::{self, Scenario};

/// What is done with a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Every crash state of one recording: `kvsim explore`.
    Explore,
    /// Seed after seed: `kvsim run --for`.
    Run,
}

/// A scenario of the plan.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The file under `scenarios/`, without its ending.
    pub name: &'static str,
    /// What is done with it.
    pub how: How,
    /// Its share of a mutation's time. The shares of all steps together are [`WHOLE`].
    pub share: u64,
}

/// All shares together: seconds of processor time, if a mutation has the minute that the page is about.
pub const WHOLE: u64 = 60;

macro_rules! steps {
    ($($name:literal $how:ident $share:literal;)*) => {
        &[$(Step { name: $name, how: How::$how, share: $share }),*]
    };
}

/// The plan: what catches most in least time comes first.
pub const STEPS: &[Step] = steps! {
    "small_swarm" Run 4;
    "small_faults" Run 3;
    "powercut" Run 1;
    "kitchen_sink" Run 1;
    "limits" Run 1;
    "swarm" Run 2;
    "bad_openings" Run 2;
    "reopened" Run 2;
    "short_runs" Run 1;
    "few_changes" Run 1;
    "little_index" Run 2;
    "loading" Run 2;
    "appending" Run 1;
    "small_index" Run 2;
    "as_library" Run 2;
    "promises" Run 2;
    "small_full" Run 1;
    "just_fits" Run 3;
    "explore_small" Explore 2;
    "disk_full" Run 1;
    "space_returns" Run 1;
    "space" Run 1;
    "space_large" Run 2;
    "many_segments" Run 1;
    "little_memory" Run 2;
    "large_values" Run 1;
    "write_error" Run 1;
    "flush_error" Run 1;
    "crash_in_recovery" Run 1;
    "process_crash" Run 1;
    "growing_errors" Run 1;
    "segments_lost" Run 1;
    "segments_astray" Run 1;
    "misdirected" Run 1;
    "bad_sectors" Run 1;
    "barrier" Run 1;
    "bit_rot" Run 1;
    "relaxed_window" Run 1;
    "torn_superblock" Run 1;
    "torn_unreadable" Run 1;
    "mixed" Run 1;
    "explore_deep" Explore 1;
};

impl Step {
    /// The scenario, from the workspace's folder.
    ///
    /// # Errors
    /// The file is missing or wrong; the message names it.
    pub fn load(&self, root: &Path) -> Result<Scenario, String> {
        let path = root.join("scenarios").join(format!("{}.toml", self.name));
        scenario::load(&path, &[]).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the plan names shipped scenarios and divides the whole minute. Method: all of it.
    #[test]
    fn the_plan_is_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for step in STEPS {
            assert!(step.load(&root).is_ok(), "{}", step.name);
        }
        assert_eq!(STEPS.iter().map(|step| step.share).sum::<u64>(), WHOLE);
    }
}
