//! What a module imports and exports: checked before it runs, and told all at once.

use kvsim_sim::GuestError;
use wasmtime::{Engine, Extern, ExternType, FuncType, Linker, Module, Store};

use crate::command::START;
use crate::host::Host;
use crate::image::INITIALIZE;
use crate::preview1::abi::MODULE;
use crate::preview1::{self, KVSIM};
use crate::reactor::{BUFFER, MESSAGE};

/// How a module is given its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By calls of its exports `kv_buffer` and `kv_message`.
    Reactor,
    /// By standard input and output: it exports `_start`.
    Command,
}

/// Whether a module is one for this host: it imports preview 1 or a mapping, or exports what a file engine exports.
///
/// # Errors
/// If the bytes are no module that the host takes.
pub fn is_file_engine(bytes: &[u8]) -> Result<bool, GuestError> {
    let engine = crate::engines::engine(crate::engines::Purpose::Few)?;
    let module = kvsim_sim::sandbox::compiled(engine, bytes)
        .map_err(|error| GuestError::NotWasm(kvsim_sim::sandbox::first_line(&error)))?;
    let imports = module.imports().any(|it| it.module() == MODULE);
    Ok(imports || module.get_export(MESSAGE).is_some() || module.get_export(START).is_some())
}

/// All functions that a module of this form may import.
pub(crate) fn linker(engine: &Engine, form: Form) -> Result<Linker<Host>, GuestError> {
    let failed = |error: wasmtime::Error| GuestError::Host(format!("{error:#}"));
    let mut linker = Linker::new(engine);
    preview1::link(&mut linker).map_err(failed)?;
    match form {
        Form::Reactor => preview1::link_reading(&mut linker).map_err(failed)?,
        Form::Command => preview1::link_waiting(&mut linker).map_err(failed)?,
    }
    Ok(linker)
}

fn types(found: &FuncType) -> String {
    let list = |types: &mut dyn Iterator<Item = wasmtime::ValType>| {
        types.map(|it| it.to_string()).collect::<Vec<_>>().join(", ")
    };
    format!("({}) -> ({})", list(&mut found.params()), list(&mut found.results()))
}

/// Checks that everything that the module imports is there, with the same types.
pub(crate) fn check(module: &Module, linker: &Linker<Host>, store: &mut Store<Host>) -> Result<(), GuestError> {
    let mut wrong = Vec::new();
    for import in module.imports() {
        let name = format!("{}.{}", import.module(), import.name());
        let defined = linker.get_by_import(&mut *store, &import);
        let problem = match (defined, import.ty()) {
            (Some(Extern::Func(there)), ExternType::Func(wanted)) => {
                let there = there.ty(&*store);
                (!FuncType::eq(&there, &wanted))
                    .then(|| format!("{name} with the type {} in place of {}", types(&wanted), types(&there)))
            }
            (Some(_), _) => Some(format!("{name}, which is a function here")),
            (None, ExternType::Func(_)) => Some(name),
            (None, ExternType::Memory(_)) => Some(format!("{name} (a memory; a file engine exports its own)")),
            (None, ExternType::Table(_)) => Some(format!("{name} (a table)")),
            (None, ExternType::Global(_)) => Some(format!("{name} (a global)")),
            (None, ExternType::Tag(_)) => Some(format!("{name} (a tag)")),
        };
        wrong.extend(problem);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(GuestError::UnknownImports {
        imports: wrong,
        known: format!("the functions of `{MODULE}`, and `map` and `unmap` of `{KVSIM}`"),
    })
}

/// How a module is to be run, by its exports.
pub(crate) fn form(module: &Module) -> Result<Form, GuestError> {
    let has = |name: &str| module.get_export(name).is_some();
    let form = match (has(MESSAGE), has(BUFFER), has(START)) {
        (true, true, _) => Form::Reactor,
        (true, false, _) => return Err(GuestError::MissingExport(BUFFER.to_owned())),
        (false, true, _) => return Err(GuestError::MissingExport(MESSAGE.to_owned())),
        (false, false, true) => Form::Command,
        (false, false, false) => {
            return Err(GuestError::NoEngine(format!(
                "it exports neither `{BUFFER}` and `{MESSAGE}` (a reactor) nor `{START}` (a command that speaks over standard \
                 input and output)"
            )));
        }
    };
    match module.get_export("memory") {
        Some(ExternType::Memory(memory)) if !memory.is_64() && !memory.is_shared() => {}
        Some(_) => {
            return Err(GuestError::WrongSignature {
                name: "memory".to_owned(),
                found: "something else".to_owned(),
                expected: "an unshared memory with 32-bit addresses".to_owned(),
            });
        }
        None => return Err(GuestError::MissingExport("memory".to_owned())),
    }
    let functions: &[(&str, &str)] = match form {
        Form::Reactor => &[(BUFFER, "(i32) -> (i32)"), (MESSAGE, "(i32) -> (i64)"), (INITIALIZE, "() -> ()")],
        Form::Command => &[(START, "() -> ()")],
    };
    for (name, expected) in functions {
        let found = match module.get_export(name) {
            None => continue,
            Some(ExternType::Func(found)) => types(&found),
            Some(_) => "no function".to_owned(),
        };
        if found != *expected {
            return Err(GuestError::WrongSignature {
                name: (*name).to_owned(),
                found,
                expected: (*expected).to_owned(),
            });
        }
    }
    Ok(form)
}
