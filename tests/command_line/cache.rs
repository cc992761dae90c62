//! Compiled guests kept between two commands: quicker, and otherwise as if there were no cache.

use std::path::{Path, PathBuf};

use kvsim_tests::{Ended, command};

use crate::{PROGRAM, SHORT};

/// A short run with this folder for the cache.
fn run(cache: &Path, more: &[&str]) -> Ended {
    let arguments = [&["run", "scenarios/powercut.toml"], more, &SHORT[..]].concat();
    let output = command(Path::new(PROGRAM), &arguments)
        .env("KVSIM_CACHE_DIR", cache)
        .output();
    let ended = Ended::new(&output.expect("the program starts"));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.stderr, "", "the cache is not worth a word");
    ended
}

fn modules(cache: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache.join("modules"));
    let entries = entries.into_iter().flatten();
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("readable").path()).collect();
    files.sort();
    files
}

/// Goal: the same run with a cache and without, and with one that was tampered with. Method: trace hashes of no cache, an empty one, a
/// filled one, one with damaged code, and one that cannot be written.
#[test]
fn a_run_is_the_same_with_a_cache_and_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = directory.path();
    let traces = |ended: Ended| ended.line("traces").map(str::to_owned);
    let without = traces(run(Path::new(""), &[]));
    assert!(without.is_some());
    assert_eq!(traces(run(cache, &[])), without, "compiled and kept");
    let files = modules(cache);
    assert_eq!(files.len(), 1, "{files:?}");
    let kept = std::fs::read(&files[0]).expect("it is readable");
    assert_eq!(traces(run(cache, &[])), without, "from the cache");
    assert_eq!(modules(cache), files);

    // Machine code that does something else, though the file is as long as before.
    let mut damaged = kept.clone();
    let half = damaged.len() / 2;
    damaged[half..half + 4096].fill(0xcc);
    std::fs::write(&files[0], damaged).expect("it is ours");
    assert_eq!(traces(run(cache, &[])), without, "from a damaged cache");
    let renewed = std::fs::read(&files[0]).expect("it is readable");
    assert_eq!(renewed, kept, "compiled anew, into the same code");

    let no_folder = files[0].join("below a file");
    assert_eq!(traces(run(&no_folder, &[])), without, "no folder");
}

/// Goal: a guest of one's own is kept too, beside the built-in one, and another build of it is another file. Method: the files after each.
#[test]
fn a_foreign_guest_is_kept_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let (cache, guest) = (directory.path(), directory.path().join("naive.wasm"));
    let naive = std::fs::read(kvsim_tests::naive_guest()).expect("it was built");
    std::fs::write(&guest, &naive).expect("it can be written");
    let name = guest.to_string_lossy().into_owned();
    run(cache, &["--guest", &name]);
    assert_eq!(modules(cache).len(), 1);
    // An empty custom section named `x`: the same code in another module.
    std::fs::write(&guest, [&naive[..], b"\0\x02\x01x"].concat()).expect("it can be written");
    run(cache, &["--guest", &name]);
    assert_eq!(modules(cache).len(), 2);
}
