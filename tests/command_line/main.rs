//! The program as a user meets it: what it prints, what it says to mistakes, and how it ends.
#![allow(missing_docs, reason = "a test")]

mod bench;
mod browser;
mod cache;
mod crash_disk;
mod explore;
mod guests;
mod interrupt;
mod kit;
mod mistakes;
mod names;
mod options;
mod outputs;
mod reports;
mod shards;
mod small;
mod timeline;
mod vary;

use std::path::Path;

use kvsim_tests::Ended;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kvsim");

/// A run of a second or less.
const SHORT: [&str; 4] = ["--set", "run.seeds=1..3", "--set", "run.crashes=5"];

fn kvsim(arguments: &[&str]) -> Ended {
    kvsim_tests::execute(Path::new(PROGRAM), arguments)
}

/// It ended with this code, and what it printed or said holds all of these.
#[track_caller]
fn ends(arguments: &[&str], code: i32, parts: &[&str]) -> Ended {
    let ended = kvsim(arguments);
    assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:#?}");
    for part in parts {
        let there = ended.stdout.contains(part) || ended.stderr.contains(part);
        assert!(there, "{arguments:?} does not say `{part}`: {ended:#?}");
    }
    assert!(
        !ended.stderr.contains("panicked"),
        "{arguments:?}: {ended:#?}"
    );
    ended
}
