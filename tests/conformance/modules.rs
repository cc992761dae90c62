//! Modules that are no guests: one for each rule about what is seen before anything runs.

use kvsim_harness::conformance::{Outcome, check};

use crate::{broken, options};

/// A guest that does nothing, with some lines in place of others.
fn module(anew: &[(&str, &str)]) -> Vec<u8> {
    let usual = [
        ("imports", ""),
        ("memory", r#"(memory (export "memory") 2)"#),
        (
            "version",
            r#"(func (export "kv_abi_version") (result i32) i32.const 1)"#,
        ),
        (
            "buffer",
            r#"(func (export "kv_buffer") (param i32) (result i32) i32.const 1024)"#,
        ),
        (
            "open",
            r#"(func (export "kv_open") (param i64 i32 i32) (result i64) i64.const -1)"#,
        ),
        (
            "request",
            r#"(func (export "kv_request") (param i64 i64 i32 i32) (result i64) i64.const -1)"#,
        ),
        (
            "complete",
            r#"(func (export "kv_complete") (param i64 i64 i32 i32) (result i64) i64.const -1)"#,
        ),
        (
            "tick",
            r#"(func (export "kv_tick") (param i64) (result i64) i64.const -1)"#,
        ),
        ("more", ""),
    ];
    let line = |(name, text): &(&str, &str)| {
        let anew = anew.iter().find(|(other, _)| other == name);
        anew.map_or(*text, |(_, text)| text).to_owned()
    };
    let lines: Vec<String> = usual.iter().map(line).collect();
    let text = format!("(module {})", lines.join("\n"));
    wat::parse_str(&text).unwrap_or_else(|error| panic!("the test's own module: {error}\n{text}"))
}

/// A text at 64, and a function that points to it.
fn text(export: &str, text: &str) -> String {
    let place = (64_u64 << 32) | text.len() as u64;
    format!(
        r#"(data (i32.const 64) "{}") (func (export "{export}") (result i64) i64.const {place})"#,
        text.replace('\n', "\\n")
    )
}

/// Goal: each rule about a module is broken by a module, alone, and the rules about a running guest are not reached then.
#[test]
fn each_rule_about_a_module_is_broken_by_one() {
    let coverage_points = text("kv_marks", "one\none\n");
    let policies = text("kv_policies", "reads=sometimes\n");
    let cases: [(&str, &[(&str, &str)]); 8] = [
        (
            "imports",
            &[("imports", r#"(import "env" "clock" (func (result i64)))"#)],
        ),
        (
            "import_types",
            &[(
                "imports",
                r#"(import "kvsim" "reply" (func (param i32 i32)))"#,
            )],
        ),
        ("memory", &[("memory", r#"(memory 2)"#)]),
        ("exports", &[("tick", "")]),
        (
            "export_types",
            &[(
                "tick",
                r#"(func (export "kv_tick") (result i64) i64.const -1)"#,
            )],
        ),
        (
            "abi_version",
            &[(
                "version",
                r#"(func (export "kv_abi_version") (result i32) i32.const 2)"#,
            )],
        ),
        ("coverage_points", &[("more", &coverage_points)]),
        ("policies", &[("more", &policies)]),
    ];
    for (rule, anew) in cases {
        let report = check("bad", &module(anew), &options(&[]));
        assert_eq!(broken(&report.rules), [rule], "{report:#?}");
        assert!(!report.is_guest, "{rule}");
        let last = &report.rules.last().expect("rules").outcome;
        assert_eq!(*last, Outcome::NotReached(rule));
    }
    let report = check("bad", b"no wasm", &options(&[]));
    assert_eq!(broken(&report.rules), ["module"]);
}

/// Goal: a guest that does nothing is one, and never opens. Method: the module from which the others are made.
#[test]
fn an_idle_guest_is_told_that_it_never_opens() {
    let report = check("idle", &module(&[]), &options(&[]));
    assert!(report.is_guest);
    assert_eq!(broken(&report.rules), ["open_blank"]);
}

/// Goal: a buffer that is too small or none at all ends the opening. Method: kv_buffer returns 0, and the last byte of the memory.
#[test]
fn a_buffer_that_is_none_is_seen_at_the_opening() {
    for at in ["0", "131071"] {
        let buffer =
            format!(r#"(func (export "kv_buffer") (param i32) (result i32) i32.const {at})"#);
        let report = check("bad", &module(&[("buffer", &buffer)]), &options(&[]));
        assert_eq!(broken(&report.rules), ["open_blank"], "{at}");
    }
}
