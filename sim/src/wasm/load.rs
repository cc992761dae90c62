//! What is checked before a module may run: imports, exports, their types, the ABI version.

use wasmtime::{ExternType, FuncType, Module, ValType};

use super::instance::WasmGuest;
use crate::GuestError;
use crate::codec::ABI_VERSION;
use crate::guest::GuestLimits;
use crate::policies::GuestPolicies;

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// What a guest may import from `kvsim`, with parameters; none has results.
const IMPORTS: [(&str, &[ValType]); 5] = [
    ("disk_submit", &[I64, I32, I64, I32, I32]),
    ("reply", &[I64, I32, I32, I32]),
    ("log", &[I32, I32, I32]),
    ("panic", &[I32, I32]),
    ("mark", &[I32]),
];

/// What a guest must export, with parameters and result.
const EXPORTS: [(&str, &[ValType], ValType); 6] = [
    ("kv_abi_version", &[], I32),
    ("kv_buffer", &[I32], I32),
    ("kv_open", &[I64, I32, I32], I64),
    ("kv_request", &[I64, I64, I32, I32], I64),
    ("kv_complete", &[I64, I64, I32, I32], I64),
    ("kv_tick", &[I64], I64),
];

/// What a guest may export, with parameters and result.
const OPTIONAL: [(&str, &[ValType], ValType); 2] =
    [(COVERAGE_POINTS, &[], I64), (POLICIES, &[], I64)];

/// The export that gives the names of coverage points.
const COVERAGE_POINTS: &str = "kv_marks";
/// The export that gives the policies.
const POLICIES: &str = "kv_policies";
/// A guest has no more coverage points than that.
const COVERAGE_POINTS_MAX: usize = 16_384;
/// Nor longer names.
const COVERAGE_NAME_BYTES_MAX: usize = 100;

/// Enough for an instance that is asked for its version; what a scenario allows comes later.
pub(super) const PROBE: GuestLimits = GuestLimits {
    memory_bytes_max: 4 << 30,
    fuel_per_call: 1_000_000_000,
    events_per_answer: 1,
    idle_ns_per_answer: 1,
};

fn describe(
    params: impl Iterator<Item = ValType>,
    results: impl Iterator<Item = ValType>,
) -> String {
    let list = |types: &mut dyn Iterator<Item = ValType>| {
        types.map(|t| t.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (mut params, mut results) = (params, results);
    format!("({}) -> ({})", list(&mut params), list(&mut results))
}

fn check_type(
    name: &str,
    found: &FuncType,
    params: &[ValType],
    results: &[ValType],
) -> Result<(), GuestError> {
    let expected = describe(params.iter().cloned(), results.iter().cloned());
    let found = describe(found.params(), found.results());
    if found == expected {
        return Ok(());
    }
    Err(GuestError::WrongSignature {
        name: name.to_owned(),
        found,
        expected,
    })
}

fn kind(found: &ExternType) -> &'static str {
    match found {
        ExternType::Func(_) => "a function",
        ExternType::Global(_) => "a global",
        ExternType::Table(_) => "a table",
        ExternType::Memory(memory) if memory.is_shared() => "a shared memory",
        ExternType::Memory(memory) if memory.is_64() => "a memory with 64-bit addresses",
        ExternType::Memory(_) => "a memory",
        ExternType::Tag(_) => "a tag",
    }
}

/// What is not even a function.
fn no_function(
    name: &str,
    found: &ExternType,
    params: &[ValType],
    results: &[ValType],
) -> GuestError {
    GuestError::WrongSignature {
        name: name.to_owned(),
        found: kind(found).to_owned(),
        expected: describe(params.iter().cloned(), results.iter().cloned()),
    }
}

/// Checks imports and exports; the first that is wrong.
pub(super) fn check(module: &Module) -> Result<(), GuestError> {
    problems(module).into_iter().next().map_or(Ok(()), Err)
}

/// All that is wrong with imports and exports.
pub(super) fn problems(module: &Module) -> Vec<GuestError> {
    let imports = module.imports().map(|import| {
        let (from, name) = (import.module(), import.name());
        let known = IMPORTS
            .iter()
            .find(|(known, _)| from == "kvsim" && *known == name);
        match (known, import.ty()) {
            (Some((_, params)), ExternType::Func(found)) => check_type(name, &found, params, &[]),
            (Some((_, params)), other) => Err(no_function(name, &other, params, &[])),
            (None, _) => Err(GuestError::ForbiddenImport {
                module: from.to_owned(),
                name: name.to_owned(),
            }),
        }
    });
    let memory = match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if !memory.is_64() && !memory.is_shared() => Ok(()),
        Some(other) => Err(GuestError::WrongSignature {
            name: "memory".to_owned(),
            found: kind(&other).to_owned(),
            expected: "an unshared memory with 32-bit addresses".to_owned(),
        }),
        None => Err(GuestError::MissingExport("memory".to_owned())),
    };
    let exports = EXPORTS
        .iter()
        .map(|export| (export, true))
        .chain(OPTIONAL.iter().map(|export| (export, false)));
    let exports = exports.map(|((name, params, result), is_required)| {
        let result = std::slice::from_ref(result);
        match module.get_export(name) {
            Some(ExternType::Func(found)) => check_type(name, &found, params, result),
            Some(other) => Err(no_function(name, &other, params, result)),
            None if is_required => Err(GuestError::MissingExport((*name).to_owned())),
            None => Ok(()),
        }
    });
    imports
        .chain([memory])
        .chain(exports)
        .filter_map(Result::err)
        .collect()
}

/// Asks an instance for its version of the ABI, and for the names of its coverage points and its policies if it states any.
pub(super) fn probe(
    mut guest: WasmGuest,
    module: &Module,
) -> Result<(Vec<String>, GuestPolicies), GuestError> {
    let found = guest.abi_version()?;
    if found != ABI_VERSION {
        return Err(GuestError::AbiVersion {
            found,
            expected: ABI_VERSION,
        });
    }
    let names = match module.get_export(COVERAGE_POINTS) {
        Some(_) => names_of_points(&guest.text(COVERAGE_POINTS)?)?,
        None => Vec::new(),
    };
    let policies = match module.get_export(POLICIES) {
        Some(_) => GuestPolicies::parse(&guest.text(POLICIES)?)
            .map_err(|error| GuestError::Abi(format!("{POLICIES}: {error}")))?,
        None => GuestPolicies::default(),
    };
    Ok((names, policies))
}

/// One name a line, each once.
fn names_of_points(text: &str) -> Result<Vec<String>, GuestError> {
    let wrong = |what: String| Err(GuestError::Abi(format!("{COVERAGE_POINTS}: {what}")));
    let mut names: Vec<String> = Vec::new();
    for name in text.lines() {
        if name.is_empty()
            || name.len() > COVERAGE_NAME_BYTES_MAX
            || name.chars().any(char::is_control)
        {
            return wrong(format!("{name:?} is no name of a coverage point"));
        }
        if names.iter().any(|other| other == name) {
            return wrong(format!("the coverage point {name} is there twice"));
        }
        if names.len() == COVERAGE_POINTS_MAX {
            return wrong(format!(
                "there are more than {COVERAGE_POINTS_MAX} coverage points"
            ));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}
