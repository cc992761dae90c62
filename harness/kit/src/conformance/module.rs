//! What is seen before anything of a guest runs, and what it says of itself.

use std::sync::Arc;

use kvsim_sim::{GuestError, Program, WasmProgram};

use super::rule::{Breach, Checked, Outcome, Rule};

/// What a guest may import.
const IMPORTS: [&str; 5] = ["disk_submit", "reply", "log", "panic", "mark"];

pub(super) const RULES: [Rule; 9] = [
    Rule {
        name: "module",
        about: "the file is a WebAssembly module without threads, relaxed vectors, tail calls, 64-bit or second memories",
        help: "build for wasm32 without WASI, and switch these features off in the compiler",
    },
    Rule {
        name: "imports",
        about: "it imports nothing but disk_submit, reply, log, panic and mark from `kvsim`",
        help: "link without a C library and without WASI (-nostdlib, wasm32-unknown-unknown, wasm32-freestanding)",
    },
    Rule {
        name: "import_types",
        about: "each import has the parameters of the ABI page, and no result",
        help: "take the declarations from kvsim.h, kvsim.rs or kvsim.zig",
    },
    Rule {
        name: "memory",
        about: "it exports its memory as `memory`, with 32-bit addresses and unshared",
        help: "do not import the memory, and do not rename it",
    },
    Rule {
        name: "exports",
        about: "it exports kv_abi_version, kv_buffer, kv_open, kv_request, kv_complete and kv_tick",
        help: "export them by these names: export_name in C, no_mangle in Rust, export in Zig",
    },
    Rule {
        name: "export_types",
        about: "each export has the parameters and the result of the ABI page",
        help: "numbers of requests, tags and times are i64; lengths, addresses and statuses are i32",
    },
    Rule {
        name: "abi_version",
        about: "kv_abi_version returns 1",
        help: "return KVSIM_ABI_VERSION",
    },
    Rule {
        name: "coverage_points",
        about: "kv_marks, if there is one, gives a list of names, each once and ended by a line feed",
        help: "return the address in the upper 32 bits and the length in the lower: KVSIM_TEXT",
    },
    Rule {
        name: "policies",
        about: "kv_policies, if there is one, gives lines name=value of policies that there are",
        help: "the names and values are in the table of policies on the ABI page",
    },
];

/// The place of the rule that an error breaks.
fn broken_by(error: &GuestError) -> usize {
    match error {
        GuestError::ForbiddenImport { .. } => 1,
        GuestError::WrongSignature { name, .. } if IMPORTS.contains(&name.as_str()) => 2,
        GuestError::WrongSignature { name, .. } | GuestError::MissingExport(name)
            if name == "memory" =>
        {
            3
        }
        GuestError::MissingExport(_) => 4,
        GuestError::WrongSignature { .. } => 5,
        GuestError::Abi(what) if what.starts_with("kv_marks") => 7,
        GuestError::Abi(what) if what.starts_with("kv_policies") => 8,
        GuestError::NotWasm(_) | GuestError::Unreadable(_) | GuestError::Host(_) => 0,
        _ => 6,
    }
}

/// Checks what a module is, and loads it if it is a guest.
pub(super) fn check(name: &str, bytes: &[u8]) -> (Vec<Checked>, Option<Arc<WasmProgram>>) {
    let problems = match WasmProgram::problems(bytes) {
        Ok(problems) => problems,
        Err(error) => vec![error],
    };
    let loaded = match problems.is_empty() {
        true => WasmProgram::from_bytes(name, bytes),
        false => Err(problems[0].clone()),
    };
    let (program, problems) = match loaded {
        Ok(program) => (Some(program), Vec::new()),
        Err(error) if problems.is_empty() => (None, vec![error]),
        Err(_) => (None, problems),
    };
    // What runs of the module is asked last, and only of one that is whole.
    let first = problems.iter().map(broken_by).min();
    let checked = RULES.into_iter().enumerate().map(|(at, rule)| {
        let breaks = problems.iter().filter(|error| broken_by(error) == at);
        let came: Vec<String> = breaks.map(ToString::to_string).collect();
        let outcome = match first {
            _ if !came.is_empty() => Outcome::Broken(Breach::new(rule.about, came.join("; "))),
            Some(0) => Outcome::NotReached(RULES[0].name),
            Some(first) if at >= 6 && at > first => Outcome::NotReached(RULES[first].name),
            _ => Outcome::Holds(seen(at, program.as_deref())),
        };
        Checked { rule, outcome }
    });
    (checked.collect(), program)
}

fn seen(rule: usize, program: Option<&WasmProgram>) -> String {
    let Some(program) = program else {
        return String::new();
    };
    match rule {
        7 => format!("{} coverage points", program.coverage_points().len()),
        8 => program.policies().stated().join(", "),
        _ => String::new(),
    }
}
