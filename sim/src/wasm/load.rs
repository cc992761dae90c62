//! What is checked before a module may run: imports, exports, their types, the ABI version.

use wasmtime::{ExternType, FuncType, Module, ValType};

use super::{ABI_VERSION, WasmProgram};
use crate::GuestError;
use crate::guest::GuestLimits;

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

/// What a guest may import from `kvsim`, with parameters; none has results.
const IMPORTS: [(&str, &[ValType]); 4] = [
    ("disk_submit", &[I64, I32, I64, I32, I32]),
    ("reply", &[I64, I32, I32, I32]),
    ("log", &[I32, I32, I32]),
    ("panic", &[I32, I32]),
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

/// Enough to ask for the version; what a scenario allows comes later.
const PROBE: GuestLimits = GuestLimits {
    memory_bytes_max: 4 << 30,
    fuel_per_call: 1_000_000_000,
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

/// Checks imports and exports.
pub(super) fn check(module: &Module) -> Result<(), GuestError> {
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        let known = IMPORTS
            .iter()
            .find(|(known, _)| from == "kvsim" && *known == name);
        match (known, import.ty()) {
            (Some((_, params)), ExternType::Func(found)) => check_type(name, &found, params, &[])?,
            (Some((_, params)), other) => return Err(no_function(name, &other, params, &[])),
            (None, _) => {
                return Err(GuestError::ForbiddenImport {
                    module: from.to_owned(),
                    name: name.to_owned(),
                });
            }
        }
    }
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if !memory.is_64() && !memory.is_shared() => {}
        Some(other) => {
            return Err(GuestError::WrongSignature {
                name: "memory".to_owned(),
                found: kind(&other).to_owned(),
                expected: "an unshared memory with 32-bit addresses".to_owned(),
            });
        }
        None => return Err(GuestError::MissingExport("memory".to_owned())),
    }
    for (name, params, result) in EXPORTS {
        match module.get_export(name) {
            Some(ExternType::Func(found)) => check_type(name, &found, params, &[result])?,
            Some(other) => return Err(no_function(name, &other, params, &[result])),
            None => return Err(GuestError::MissingExport(name.to_owned())),
        }
    }
    Ok(())
}

/// Asks the module for its version of the ABI.
pub(super) fn check_version(program: &WasmProgram) -> Result<(), GuestError> {
    let found = program.instantiate(&PROBE)?.abi_version()?;
    if found == ABI_VERSION {
        Ok(())
    } else {
        Err(GuestError::AbiVersion {
            found,
            expected: ABI_VERSION,
        })
    }
}
