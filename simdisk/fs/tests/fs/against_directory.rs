//! The model's calls against a real directory of this machine.
#![cfg(target_os = "linux")]

#[path = "common/pair.rs"]
mod pair;

use kvsim_fs::{FileConfig, Profile};
use pair::Pair;

/// Goal: callers cannot tell the model from a real directory, whatever the profile. Method: 20,000 random calls on both, shared out over all
/// profiles; results, errors, offsets and bytes are compared after each, the whole trees now and then. The model's own invariants are checked
/// on the way.
#[test]
fn random_calls_give_the_same_results_and_errors() {
    let mut errors = std::collections::BTreeMap::new();
    for (seed, name) in Profile::names().enumerate() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = FileConfig::with_profile(name);
        let mut pair = Pair::new(directory.path(), &config, seed as u64);
        for call in 0..2_000 {
            pair.step();
            if call % 250 == 0 {
                pair.compare();
            }
        }
        pair.compare();
        assert!(
            pair.fine > 500,
            "{name}: only {} calls ended well",
            pair.fine
        );
        for (error, count) in pair.errors {
            *errors.entry(error).or_insert(0) += count;
        }
    }
    for error in [
        "ENOENT",
        "EEXIST",
        "ENOTDIR",
        "EISDIR",
        "ENOTEMPTY",
        "EBADF",
        "EINVAL",
        "ELOOP",
        "ENAMETOOLONG",
        "EPERM",
        "EBUSY",
        "ENOTCAPABLE",
    ] {
        assert!(
            errors.contains_key(error),
            "no call has met {error}: {errors:?}"
        );
    }
}
