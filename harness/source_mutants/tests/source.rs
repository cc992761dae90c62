//! From a source to a source with switches: which places are found, and what the switched program does, compiled and run.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;
use std::process::Command;

use kvsim_source_mutants::find;
use kvsim_source_mutants::mutation::{Mutation, Switch};
use kvsim_source_mutants::schemata::switched;
use kvsim_source_mutants::scratch::{Scratch, mutations};

const SAMPLE: &str = r#"
/// Documentation with a < b.
pub fn price(count: u64, is_member: bool) -> u64 {
    let mut sum = count * 3;
    if count > 9 && !is_member {
        sum += 5;
    }
    match count {
        0 => return 100,
        7 if is_member => {}
        _ => sum = sum.max(4),
    }
    assert!(sum > 0, "never {}", 1 + 1);
    sum
}

#[cfg(test)]
mod tests {
    fn left_out() -> bool {
        1 < 2
    }
}
"#;

fn sample() -> Vec<Mutation> {
    let mut found = find::mutations("sample.rs", SAMPLE).expect("it parses");
    for (at, mutation) in found.iter_mut().enumerate() {
        mutation.number = at + 1;
    }
    found
}

fn number(edit: &str) -> usize {
    let all = sample();
    let found = all.iter().find(|it| it.edit() == edit);
    found
        .unwrap_or_else(|| panic!("no {edit}: {:#?}", edits()))
        .number
}

fn edits() -> Vec<String> {
    sample().iter().map(Mutation::edit).collect()
}

/// Goal: each kind of edit is found at its place, and tests, messages, assertions and patterns are left alone. Method: a small source, and all of its edits.
#[test]
fn the_places_of_a_source_are_found() {
    let expected = [
        "return `0` at once",
        "return `1` at once",
        "`count * 3` becomes `(count) + (3)`",
        "`count * 3` becomes `(count) / (3)`",
        "`3` becomes `4`",
        "`3` becomes `2`",
        "`count > 9 && !is_member` becomes `(count > 9) || (!is_member)`",
        "`count > 9` becomes `(count) >= (9)`",
        "`count > 9` becomes `(count) == (9)`",
        "`count > 9` becomes `(count) < (9)`",
        "`9` becomes `10`",
        "`9` becomes `8`",
        "`!is_member` becomes `(is_member)`",
        "remove `sum += 5;`",
        "`sum += 5` becomes `sum -= 5`",
        "`sum += 5` becomes `sum *= 5`",
        "`5` becomes `6`",
        "`5` becomes `4`",
        "remove the arm `0`",
        "`100` becomes `101`",
        "`100` becomes `99`",
        "`is_member` becomes `true`",
        "`is_member` becomes `false`",
        "`4` becomes `5`",
        "`4` becomes `3`",
    ];
    let mut found = edits();
    let mut expected = expected.map(str::to_owned).to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let boundary = &sample()[number("`count > 9` becomes `(count) >= (9)`") - 1];
    assert_eq!(boundary.place(), "sample.rs:5:8");
    assert_eq!(boundary.function, "price");
}

/// Goal: a file that only tests have is left alone. Method: its declaration, beside others.
#[test]
fn modules_of_tests_are_found() {
    let source =
        "mod a; #[cfg(test)] mod b; #[cfg(test)] mod tests { fn f() {} } #[cfg(unix)] mod c;";
    let found = find::test_modules("format/mod.rs", source).expect("it parses");
    assert_eq!(found, ["format/b"]);
}

/// Goal: what only tests have is edited nowhere, whole folders of it included. Method: the engine's own `crafted` and `format/garbage`.
#[test]
fn modules_of_tests_are_not_edited() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = mutations(&root).expect("the engine parses");
    let of = |part: &str| all.iter().filter(|it| it.file.starts_with(part)).count();
    assert_eq!(
        (of("crafted"), of("format/garbage"), of("mutant")),
        (0, 0, 0)
    );
    assert!(of("commit/write.rs") > 100 && of("format/page.rs") > 100);
}

/// Goal: edits that read the same have keys of their own. Method: the same statement twice.
#[test]
fn equal_edits_have_different_keys() {
    let source = "fn f(x: &mut u8) { g(x); g(x); }";
    let found = find::mutations("a.rs", source).expect("it parses");
    let mut keys: Vec<String> = found.iter().map(Mutation::key).collect();
    let count = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), count, "{keys:#?}");
}

/// Compiles the sample with its switches, and gives `price(count, is_member)` with one edit on.
fn run(folder: &Path, on: usize, count: u64, is_member: bool) -> u64 {
    let program = folder.join("program");
    if !program.exists() {
        let source = format!(
            "{}\nmod source_mutants {{ pub fn on(number: usize) -> bool {{ std::env::args().nth(1).unwrap() == number.to_string() }} }}\n\
             fn main() {{ let a: Vec<String> = std::env::args().collect(); println!(\"{{}}\", price(a[2].parse().unwrap(), a[3] == \"true\")); }}",
            switched(SAMPLE, &sample()).text
        );
        let file = folder.join("program.rs");
        std::fs::write(&file, source).expect("it can be written");
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let output = rustc
            .args(["--edition", "2024", "--cap-lints", "warn", "-o"])
            .arg(&program)
            .arg(&file)
            .output()
            .expect("there is a compiler");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let arguments = [on.to_string(), count.to_string(), is_member.to_string()];
    let output = Command::new(&program)
        .args(arguments)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse().unwrap_or_else(|_| panic!("`{text}`"))
}

/// Goal: without an edit the program does what the source says, and each switch does its own edit and no other. Method: the sample compiled, and values
/// worked out by hand.
#[test]
fn a_switch_does_its_edit() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |on: usize, count, is_member| run(folder.path(), on, count, is_member);
    assert_eq!(run(0, 10, false), 35);
    assert_eq!(run(0, 0, false), 100);
    assert_eq!(run(number("return `1` at once"), 10, false), 1);
    assert_eq!(
        run(number("`count * 3` becomes `(count) + (3)`"), 10, false),
        18
    );
    assert_eq!(
        run(number("`count > 9` becomes `(count) >= (9)`"), 9, false),
        32
    );
    assert_eq!(run(0, 9, false), 27);
    assert_eq!(run(number("remove `sum += 5;`"), 10, false), 30);
    assert_eq!(run(number("`sum += 5` becomes `sum -= 5`"), 10, false), 25);
    assert_eq!(run(number("remove the arm `0`"), 0, false), 4);
    assert_eq!(
        run(number("`!is_member` becomes `(is_member)`"), 10, true),
        35
    );
    assert_eq!(run(number("`5` becomes `6`"), 10, false), 36);
}

/// Goal: the sources with switches are Rust, with every edit in them. Method: all of the engine parsed.
#[test]
fn the_switched_engine_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = Scratch::new(&root, Path::new("")).expect("it can be read");
    assert!(
        scratch.mutations.len() > 3_000,
        "{}",
        scratch.mutations.len()
    );
    for (name, source) in &scratch.sources {
        let own: Vec<Mutation> = scratch
            .mutations
            .iter()
            .filter(|it| it.file == *name)
            .cloned()
            .collect();
        let written = switched(source, &own);
        assert!(syn::parse_file(&written.text).is_ok(), "{name}");
        let built = own.iter().filter(|it| it.switch != Switch::None).count();
        assert_eq!(written.edits.len(), built, "{name}");
    }
}
