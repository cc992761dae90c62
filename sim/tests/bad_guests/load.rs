//! What is no guest, as seen before anything of it runs.

use std::path::Path;

use kvsim_sim::{GuestError, Program, WasmProgram};

use crate::{EXPORTS, IMPORTS, module, refusal, says};

/// The functions among the exports, with their types as a person writes them.
const TYPES: [(&str, &str); 6] = [
    ("kv_abi_version", "() -> (i32)"),
    ("kv_buffer", "(i32) -> (i32)"),
    ("kv_open", "(i64, i32, i32) -> (i64)"),
    ("kv_request", "(i64, i64, i32, i32) -> (i64)"),
    ("kv_complete", "(i64, i64, i32, i32) -> (i64)"),
    ("kv_tick", "(i64) -> (i64)"),
];

fn wrong_signature(name: &str, found: &str, expected: &str) -> GuestError {
    GuestError::WrongSignature {
        name: name.to_owned(),
        found: found.to_owned(),
        expected: expected.to_owned(),
    }
}

/// Goal: only WebAssembly is taken. Method: nothing, garbage, text, a component, code that does not type.
#[test]
fn what_is_not_wasm_is_refused() {
    let component = wat::parse_str("(component)").expect("a component");
    let untyped = wat::parse_str("(module (func (result i32) i64.const 0))").expect("it parses");
    for bytes in [
        &b""[..],
        b"#!/bin/sh\necho no guest\n",
        b"(module)",
        b"\x7fELF\x02\x01\x01\0",
        b"\0asm\x02\0\0\0",
        &component,
        &untyped,
    ] {
        let error = refusal(bytes);
        assert!(matches!(error, GuestError::NotWasm(_)), "{error:?}");
        says(&error, &["not a WebAssembly module: "]);
        assert!(error.is_finding());
    }
}

/// Goal: a module may use what has the same result everywhere, as the book says, and no more. Method: each proposal in a guest that is otherwise in order.
#[test]
fn what_differs_between_machines_is_refused() {
    let with = |more: &str| module(&[("more", more)]);
    for more in [
        "(func (param v128 v128) (result v128) local.get 0 local.get 1 i64x2.mul)",
        "(func (param i64 i64) (result i64 i64) local.get 0 local.get 1 i64.mul_wide_u)",
        "(func (param i32 i32 i32) local.get 0 local.get 1 local.get 2 memory.copy)",
    ] {
        let taken = WasmProgram::from_bytes("test", &with(more));
        assert!(taken.is_ok(), "{more}: {:?}", taken.err());
    }
    for more in [
        "(func (param v128 v128) (result v128) local.get 0 local.get 1 i8x16.relaxed_swizzle)",
        "(func (param i32) (result i32) local.get 0 i32.atomic.load)",
        "(func $again (return_call $again))",
        "(memory 1)",
    ] {
        let error = refusal(&with(more));
        assert!(matches!(error, GuestError::NotWasm(_)), "{more}: {error:?}");
    }
    let wide = module(&[("memory", r#"(memory (export "memory") i64 1)"#)]);
    assert!(
        matches!(refusal(&wide), GuestError::NotWasm(_)),
        "memory of 64 bits"
    );
}

/// Goal: half a module is none, wherever it ends. Method: every prefix but the header alone, which is an empty module.
#[test]
fn a_truncated_module_is_refused() {
    let named = module(&[]);
    let names = named
        .windows(5)
        .position(|part| part == b"\x04name")
        .expect("a section of names at the end");
    let whole = &named[..names - 2];
    WasmProgram::from_bytes("test", whole).expect("a guest needs no names");
    for len in 0..whole.len() {
        let error = refusal(&whole[..len]);
        // Between two sections a prefix is a module, though one without what comes later.
        assert!(
            matches!(error, GuestError::NotWasm(_) | GuestError::MissingExport(_)),
            "{len}: {error:?}"
        );
    }
    let error = refusal(&whole[..8]);
    assert_eq!(error, GuestError::MissingExport("memory".to_owned()));
}

/// Goal: what would make runs differ between machines cannot be asked for. Method: a module of each such proposal.
#[test]
fn what_is_not_deterministic_does_not_compile() {
    for (name, text, word) in [
        ("memory", r#"(memory (export "memory") i64 2)"#, "memory64"),
        (
            "memory",
            r#"(memory (export "memory") 2 4 shared)"#,
            "threads",
        ),
        ("other", "(memory 1)", "memories"),
        (
            "other",
            "(func (drop (i32.atomic.load (i32.const 0))))",
            "threads",
        ),
        (
            "other",
            "(func (param v128) (result v128) (i32x4.relaxed_trunc_f32x4_s (local.get 0)))",
            "relaxed SIMD",
        ),
    ] {
        let error = refusal(&module(&[(name, text)]));
        assert!(matches!(error, GuestError::NotWasm(_)), "{text}: {error:?}");
        says(&error, &[word]);
    }
}

/// Goal: a file that cannot be read is no finding about a guest. Method: no file, a directory, and one that is there.
#[test]
fn an_unreadable_file_is_told_from_a_bad_guest() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (file, why) in [
        (folder.join("there-is-no-such.wasm"), "No such file"),
        (folder.to_path_buf(), "directory"),
    ] {
        let error = WasmProgram::from_file(&file).expect_err("it cannot be read");
        assert!(matches!(error, GuestError::Unreadable(_)), "{error:?}");
        assert!(!error.is_finding());
        says(&error, &["cannot read the guest", why]);
    }
    let (file, bytes) = (folder.join("idle-guest.wasm"), module(&[]));
    std::fs::write(&file, &bytes).expect("it can be written");
    let program = WasmProgram::from_file(&file).expect("it is a guest");
    assert_eq!(
        (program.name(), program.file()),
        ("idle-guest", Some(&*file))
    );
    let same = WasmProgram::from_bytes("other", &bytes).expect("it is a guest");
    assert_eq!(program.hash(), same.hash(), "the bytes are the identity");
}

/// Goal: another version of the ABI is refused with both numbers. Method: an older and a newer guest, and one beyond all reason.
#[test]
fn another_version_is_refused() {
    for found in [0, 2, u32::MAX] {
        let text = format!(r#"(func (export "kv_abi_version") (result i32) i32.const {found})"#);
        let error = refusal(&module(&[("kv_abi_version", &text)]));
        assert_eq!(error, GuestError::AbiVersion { found, expected: 1 });
        says(&error, &[&format!("version {found} "), "version 1"]);
    }
}

/// Goal: every export is asked for by name. Method: leave each out.
#[test]
fn a_missing_export_is_named() {
    for (name, _) in EXPORTS {
        let error = refusal(&module(&[(name, "")]));
        assert_eq!(error, GuestError::MissingExport(name.to_owned()));
        says(&error, &[&format!("`{name}`")]);
    }
}

/// Goal: every export is asked for with its type. Method: give each one more parameter, no result, and another kind.
#[test]
fn an_export_of_another_type_is_named() {
    for (name, expected) in TYPES {
        for (found, text) in [
            (
                "(f32) -> ()",
                format!(r#"(func (export "{name}") (param f32))"#),
            ),
            (
                "a global",
                format!(r#"(global (export "{name}") i32 (i32.const 1))"#),
            ),
            ("a table", format!(r#"(table (export "{name}") 1 funcref)"#)),
        ] {
            let error = refusal(&module(&[(name, &text)]));
            assert_eq!(error, wrong_signature(name, found, expected));
            says(&error, &[name, found, expected]);
        }
    }
    let error = refusal(&module(&[("memory", r#"(func (export "memory"))"#)]));
    let expected = "an unshared memory with 32-bit addresses";
    assert_eq!(error, wrong_signature("memory", "a function", expected));
}

/// Goal: an import of ours is asked for with its type. Method: each with one parameter, and as a global.
#[test]
fn an_import_of_another_type_is_named() {
    for (name, _) in IMPORTS {
        for (found, text) in [
            ("(f32) -> ()", "(func (param f32))"),
            ("() -> (i64)", "(func (result i64))"),
            ("a global", "(global i64)"),
        ] {
            let text = format!(r#"(import "kvsim" "{name}" {text})"#);
            let error = refusal(&module(&[(name, &text)]));
            match &error {
                GuestError::WrongSignature {
                    name: wrong,
                    found: what,
                    ..
                } => assert_eq!((&wrong[..], &what[..]), (name, found)),
                other => panic!("{name} as {text}: {other:?}"),
            }
        }
    }
}

/// Goal: a guest can have nothing but the five imports. Method: a clock, names of ours that are not there, a name of ours from
/// elsewhere, things that are no functions.
#[test]
fn a_foreign_import_is_named() {
    for (from, name, what) in [
        (
            "wasi_snapshot_preview1",
            "clock_time_get",
            "(func (param i32 i64 i32) (result i32))",
        ),
        ("kvsim", "now", "(func (result i64))"),
        ("kvsim", "", "(func)"),
        ("kvsim", "Reply", "(func (param i64 i32 i32 i32))"),
        ("env", "reply", "(func (param i64 i32 i32 i32))"),
        ("", "reply", "(func (param i64 i32 i32 i32))"),
        ("env", "table", "(table 1 funcref)"),
        ("kvsim", "seed", "(global i64)"),
    ] {
        let text = format!(r#"(import "{from}" "{name}" {what})"#);
        let error = refusal(&module(&[("log", &text)]));
        let (module, import) = (from.to_owned(), name.to_owned());
        assert_eq!(
            error,
            GuestError::ForbiddenImport {
                module,
                name: import
            }
        );
        says(&error, &[&format!("`{from}.{name}`")]);
    }
    let memory = [
        ("log", r#"(import "env" "memory" (memory 2))"#),
        ("memory", ""),
    ];
    assert!(matches!(
        refusal(&module(&memory)),
        GuestError::ForbiddenImport { .. }
    ));
}
