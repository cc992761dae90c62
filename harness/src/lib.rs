//! The front door to the crates of the harness. It has everything that the command line, the whole-system tests and the
//! mutator of sources use, under one name for each subject. It has no code of its own.
//!
//! What is done with the simulated world: workloads drive a guest, the oracle judges the guest, scenarios say what to
//! run, and campaigns run scenarios over many seeds. Each crate knows only those above it:
//!
//! - `api/`: [`value`], [`coverage`], numbers with units
//! - `workload/` and `oracle/`: [`workload`], [`zipf`]: what clients do; [`oracle`]: the eleven properties
//! - `scenario/`: [`scenario`]: the TOML format; [`files`]: how files that people name are read; [`case`]: one failure step by step, as a file says it; [`guest`]: which guest is crashed
//! - `drive/`: [`run`]: one seed, through many crashes; [`control`]: how to watch and stop it; [`timeline`]: what happened, in words
//! - `findings/`: [`summary`]: what came of it, for people and for machines
//! - `search/`: [`explore`]: one run, and every state that a crash at any moment of it can leave; [`minimise`]: a failure made small;
//!   [`blame`]: what is missing in the guest, if it is a flush
//! - `investigate/`: [`campaign`]: many seeds side by side; [`mutants`]: mutants
//! - `board/`: [`board`]: engines beside profiles
//!
//! And apart from these:
//!
//! - `pages/`: [`report`]: runs and explorations as pages for a browser
//! - `bench/`: [`bench`]: benchmarks, and what a profile predicts
//! - `kit/`: [`conformance`]: the rules of the ABI, one after the other; [`suite`]: these, and four scenarios, in one table; [`kit`]: what a
//!   guest of one's own begins with
//! - `recorded/`: [`recorded`]: the native engine on a real disk, recorded and crashed
//!
//! Invariant: what a seed does depends on scenario, guest and seed alone.

pub use kvsim_api::{coverage, value};
pub use kvsim_bench as bench;
pub use kvsim_drive::{control, run, timeline};
pub use kvsim_kit::{conformance, suite, templates as kit};
pub use kvsim_oracle as oracle;
pub use kvsim_pages::report;
pub use kvsim_recorded as recorded;
pub use kvsim_scenario::{self as scenario, case, files, guest};
pub use kvsim_workload::{self as workload, zipf};

/// What is missing in a guest that fails.
pub mod blame {
    pub use kvsim_findings::blame::{Blame, BlameVerdict, Fix, Missing, Said};
    pub use kvsim_search::blame::{blame, replay};
}

/// The files as a crash left them.
pub mod left {
    pub use kvsim_drive::case::{Left, left_by_last_crash};
    pub use kvsim_findings::left::{document, is_new_or_empty, text, write_files};
}

/// Many seeds side by side.
pub mod campaign {
    pub use kvsim_findings::error::CampaignError;
    pub use kvsim_investigate::campaign::{Campaign, Outcome};
}

/// One run, and every state that a crash at any moment of it can leave.
pub mod explore {
    pub use kvsim_findings::explore::{
        ErrorCounts, ExploreReport, LeftOutCounts, Level, PointCount, WorkErrorCounts, json, merge,
        text,
    };
    pub use kvsim_search::exploration::{Exploration, left_out, sync_places};
}

/// Engines beside profiles.
pub mod board {
    pub use kvsim_board::*;
    pub use kvsim_pages::report::board as page;
}

/// A failure made small.
pub mod minimise {
    pub use kvsim_search::fewer;
    pub use kvsim_search::minimise::{
        Budget, LIMIT, Minimised, Progress, Spent, Watch, minimise, minimise_and_blame,
        minimise_watched, with_steps,
    };
}

/// What a run of a scenario found.
pub mod summary {
    pub use kvsim_drive::tally::{Fired, Tally, Times};
    pub use kvsim_findings::summary::{
        FailureReport, Found, Part, Real, Reproduction, RunReport, Terms, Unreported, Verdict,
        json, part, read, text,
    };
}

/// The syncs of an engine that uses files, left out one place at a time.
pub mod syncs {
    pub use kvsim_investigate::syncs::*;
}

/// Mutants: does what crashes engines find the bug in an engine that has one?
pub mod mutants {
    pub use kvsim_investigate::mutants::*;
    pub use kvsim_pages::report::mutants as page;
}
