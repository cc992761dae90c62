//! Random calls on the model and on a real directory of this machine: `against_directory CALLS [SEED]`.
//!
//! It panics at the first call that differs.
#![allow(clippy::print_stdout, reason = "it is a command")]

#[cfg(target_os = "linux")]
#[path = "../tests/fs/common/pair.rs"]
mod pair;

#[cfg(target_os = "linux")]
fn main() {
    use kvsim_fs::{FileConfig, Profile};

    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| match arguments.next() {
        None => otherwise,
        Some(text) => text.parse().unwrap_or_else(|_| {
            panic!("`{text}` is not a number; usage: against_directory CALLS [SEED]")
        }),
    };
    let (calls, seed): (u64, u64) = (number(100_000), number(1));
    let names: Vec<&str> = Profile::names().collect();
    let (mut fine, mut errors) = (0, std::collections::BTreeMap::new());
    for (at, name) in names.iter().enumerate() {
        let at = at as u64;
        let directory = tempfile::tempdir().expect("a temporary directory");
        let config = FileConfig::with_profile(name);
        let mut pair = pair::Pair::new(directory.path(), &config, seed + at);
        let share = calls / names.len() as u64 + u64::from(at < calls % names.len() as u64);
        for call in 0..share {
            pair.step();
            if call % 1_000 == 0 {
                pair.compare();
            }
        }
        pair.compare();
        println!("{name}: {share} calls, {} ended well", pair.fine);
        fine += pair.fine;
        for (error, count) in pair.errors {
            *errors.entry(error).or_insert(0_u64) += count;
        }
    }
    println!(
        "{calls} calls, the same results and errors; {fine} comparisons ended well; errors: {errors:?}"
    );
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("The model does what Linux does; there is nothing to compare with here.");
}
