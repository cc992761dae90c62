//! Policies: what a guest states is what it is held to; a guest that states nothing is held to the strict contract.

use kvsim_sim::{CommitOrder, GuestError, GuestPolicies, Program, ReadsSee, WasmProgram};

use crate::{breaks_the_abi, module, refusal};

/// A list at 2,048, and where `kv_policies` says that it is.
fn stating(list: &str, place: u64) -> Vec<u8> {
    let export = format!(
        r#"(data (i32.const 2048) "{list}") (func (export "kv_policies") (result i64) i64.const {place})"#
    );
    module(&[("kv_policies", &export)])
}

fn at(start: u64, len: u64) -> u64 {
    start << 32 | len
}

/// Goal: the host knows the policies before anything runs. Method: two are stated, then nothing is exported.
#[test]
fn policies_are_stated_and_the_rest_is_strict() {
    let bytes = stating("commit_order=any\\nreads=committed\\n", at(2048, 33));
    let program = WasmProgram::from_bytes("test", &bytes).expect("a guest");
    let policies = program.policies();
    assert_eq!(policies.commit_order, CommitOrder::Any);
    assert_eq!(policies.reads, ReadsSee::Committed);
    assert!(policies.empty_commit_covers && policies.relaxed_survives_kill);
    let program = WasmProgram::from_bytes("test", &module(&[])).expect("a guest");
    assert_eq!(program.policies(), GuestPolicies::default());
}

/// Goal: a list that is wrong is refused with the reason. Method: an unknown name, an unknown value, no text, outside the memory, and a
/// function of another type.
#[test]
fn a_list_that_is_wrong_is_refused() {
    for (list, place, why) in [
        ("read=all\\n", at(2048, 9), "there is no policy `read`"),
        ("reads=all\\n", at(2048, 10), "the policy `reads` is `all`"),
        ("\\ff\\fe", at(2048, 2), "not UTF-8"),
        ("a", at(131_072, 1), "are outside its memory"),
    ] {
        let error = refusal(&stating(list, place));
        breaks_the_abi(&error, &["kv_policies: ", why]);
    }
    let typed = r#"(func (export "kv_policies") (result i32) i32.const 0)"#;
    let error = refusal(&module(&[("kv_policies", typed)]));
    assert!(
        matches!(error, GuestError::WrongSignature { .. }),
        "{error:?}"
    );
}
