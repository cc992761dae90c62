//! Coverage points: what a guest names is what it may reach; a guest without any is a guest.

use kvsim_sim::{GuestError, Program, WasmProgram};

use crate::{EXPORTS, breaks_the_abi, module, open, refusal, start};

/// A list of names at 2,048, and where `kv_marks` says that it is.
fn named(names: &str, place: u64) -> String {
    format!(
        r#"(data (i32.const 2048) "{names}") (func (export "kv_marks") (result i64) i64.const {place})"#
    )
}

fn at(start: u64, len: u64) -> u64 {
    start << 32 | len
}

/// A guest that opens like this and has two coverage points.
fn covering(body: &str) -> Vec<u8> {
    let (_, usual) = EXPORTS
        .iter()
        .find(|(name, _)| *name == "kv_open")
        .expect("an export");
    let open = usual.replace(" i64.const -1", &format!(" {body} i64.const -1"));
    let names = named("a.one\\nb.two\\n", at(2048, 12));
    module(&[("kv_open", &open), ("kv_marks", &names)])
}

/// Goal: the host knows all coverage points before anything runs, and which of them each call reached. Method: one reached twice, one never.
#[test]
fn coverage_points_are_named_and_reached() {
    let bytes = covering("(call $mark (i32.const 1)) (call $mark (i32.const 1))");
    let program = WasmProgram::from_bytes("test", &bytes).expect("a guest");
    assert_eq!(program.coverage_points(), ["a.one", "b.two"]);
    let mut guest = start(&bytes).expect("it starts");
    assert_eq!(guest.reached(), [0; 0]);
    open(&mut *guest).expect("it does nothing wrong");
    assert_eq!(guest.reached(), [1, 1]);
}

/// Goal: a guest that knows nothing of coverage points is one like any other. Method: neither the import nor the export.
#[test]
fn a_guest_needs_no_coverage_points() {
    let bytes = module(&[("mark", "")]);
    let program = WasmProgram::from_bytes("test", &bytes).expect("a guest");
    assert!(program.coverage_points().is_empty());
}

/// Goal: a coverage point that was not named is a breach of the ABI. Method: one beyond the last, a wild number, and any of a guest that
/// names none.
#[test]
fn a_coverage_point_that_there_is_not_is_a_breach() {
    for number in [2, -1] {
        let bytes = covering(&format!("(call $mark (i32.const {number}))"));
        let error =
            open(&mut *start(&bytes).expect("it starts")).expect_err("no such coverage point");
        breaks_the_abi(&error, &["mark: there is no coverage point", "names 2"]);
    }
    let (_, usual) = EXPORTS[3];
    let body = usual.replace(" i64.const -1", " (call $mark (i32.const 0)) i64.const -1");
    let bytes = module(&[("kv_open", &body)]);
    let error = open(&mut *start(&bytes).expect("it starts")).expect_err("no coverage points");
    breaks_the_abi(&error, &["names 0"]);
}

/// Goal: a list that is none is refused with the reason. Method: out of the memory, no text, an empty name, one name twice, and a
/// function of another type.
#[test]
fn a_list_that_is_none_is_refused() {
    for (names, place, why) in [
        ("a", at(131_072, 1), "are outside its memory"),
        (
            "a",
            at(u64::from(u32::MAX), u64::from(u32::MAX)),
            "are outside",
        ),
        ("\\ff\\fe", at(2048, 2), "not UTF-8"),
        ("a\\n\\nb", at(2048, 4), "is no name of a coverage point"),
        (
            "a\\nb\\na\\n",
            at(2048, 6),
            "the coverage point a is there twice",
        ),
    ] {
        let error = refusal(&module(&[("kv_marks", &named(names, place))]));
        breaks_the_abi(&error, &["kv_marks: ", why]);
    }
    let typed = r#"(func (export "kv_marks") (result i32) i32.const 0)"#;
    let error = refusal(&module(&[("kv_marks", typed)]));
    assert!(
        matches!(error, GuestError::WrongSignature { .. }),
        "{error:?}"
    );
}
