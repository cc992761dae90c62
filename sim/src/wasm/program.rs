//! A guest as a WebAssembly module: where it comes from, what it says of itself, and how an instance of it starts.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use wasmtime::{Engine, InstancePre, Linker, Module, Store};

use super::backtrace::first_line;
use super::engine::{Instances, engine};
use super::host::{self, HostState};
use super::instance::WasmGuest;
use super::{cache, load};
use crate::GuestError;
use crate::guest::{Guest, GuestHash, GuestLimits, Program};
use crate::policies::GuestPolicies;

/// The name of the engine that ships with kvsim, and of the module that its crate is compiled to.
const ENGINE: &str = "kvsim-engine";
const ENGINE_MODULE: &str = "kvsim_guest.wasm";

/// The engine that ships with kvsim, as built by the build script.
static BUILTIN: &[u8] = include_bytes!(env!("KVSIM_BUILTIN_GUEST"));

/// The same with mutants, each of which an option switches on.
#[cfg(feature = "mutants")]
static MUTANTS: Option<&[u8]> = Some(include_bytes!(env!("KVSIM_MUTANTS_GUEST")));
#[cfg(not(feature = "mutants"))]
static MUTANTS: Option<&[u8]> = None;

/// No guest's file is longer.
const MODULE_BYTES_MAX: u64 = 256 << 20;

/// A guest as a WebAssembly module.
pub struct WasmProgram {
    name: String,
    options_name: String,
    hash: GuestHash,
    file: Option<PathBuf>,
    instance: InstancePre<HostState>,
    coverage_points: Vec<String>,
    policies: GuestPolicies,
}

impl std::fmt::Debug for WasmProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmProgram")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl WasmProgram {
    /// The engine that ships with kvsim. Compiled once per process.
    ///
    /// # Errors
    /// If the host cannot compile it.
    pub fn builtin() -> Result<Arc<Self>, GuestError> {
        static PROGRAM: OnceLock<Result<Arc<WasmProgram>, GuestError>> = OnceLock::new();
        PROGRAM
            .get_or_init(|| Self::from_bytes(ENGINE, BUILTIN))
            .clone()
    }

    /// All that is wrong with the imports and exports of a module; nothing if it may be a guest.
    ///
    /// # Errors
    /// If the bytes are no module that the host takes.
    pub fn problems(bytes: &[u8]) -> Result<Vec<GuestError>, GuestError> {
        let module = Module::from_binary(engine(Instances::Fresh)?, bytes)
            .map_err(|error| GuestError::NotWasm(first_line(&error)))?;
        Ok(load::problems(&module))
    }

    /// The bytes of the engine that ships with kvsim.
    #[must_use]
    pub fn builtin_bytes() -> &'static [u8] {
        BUILTIN
    }

    /// The engine with mutants, in a build that has it: the feature `mutants` is on. Instances take turns.
    ///
    /// # Errors
    /// If the host cannot compile it.
    pub fn mutants() -> Result<Option<Arc<Self>>, GuestError> {
        let checked = |bytes| Self::checked("kvsim-mutants", bytes, None, Instances::Reused);
        MUTANTS.map(checked).transpose()
    }

    /// The guest in a file, a WebAssembly binary.
    ///
    /// # Errors
    /// If the file cannot be read or is no guest.
    pub fn from_file(file: &Path) -> Result<Arc<Self>, GuestError> {
        Self::of_file(file, Instances::Fresh)
    }

    /// The guest in a file, or the built-in one, with instances of the given kind.
    ///
    /// # Errors
    /// As of [`WasmProgram::from_file`] and [`WasmProgram::builtin`].
    pub fn load(file: Option<&Path>, instances: Instances) -> Result<Arc<Self>, GuestError> {
        match (file, instances) {
            (Some(file), instances) => Self::of_file(file, instances),
            (None, Instances::Fresh) => Self::builtin(),
            (None, Instances::Reused) => Self::checked(ENGINE, BUILTIN, None, instances),
        }
    }

    fn of_file(file: &Path, instances: Instances) -> Result<Arc<Self>, GuestError> {
        let bytes = read(file).map_err(|error| GuestError::Unreadable(error.to_string()))?;
        let name = file.file_stem().map_or_else(
            || "guest".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        );
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        Self::checked(&name, &bytes, Some(file), instances)
    }

    /// The guest in these bytes.
    ///
    /// # Errors
    /// If they are no guest.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Arc<Self>, GuestError> {
        Self::checked(name, bytes, None, Instances::Fresh)
    }

    fn checked(
        name: &str,
        bytes: &[u8],
        file: Option<PathBuf>,
        instances: Instances,
    ) -> Result<Arc<Self>, GuestError> {
        if instances == Instances::Reused {
            // Where no slots can be had, or the module does not fit one, nothing is lost but time.
            let reused =
                engine(instances).and_then(|engine| Self::made(name, bytes, file.clone(), engine));
            return reused.or_else(|_| Self::checked(name, bytes, file, Instances::Fresh));
        }
        Self::made(name, bytes, file, engine(instances)?)
    }

    fn made(
        name: &str,
        bytes: &[u8],
        file: Option<PathBuf>,
        engine: &Engine,
    ) -> Result<Arc<Self>, GuestError> {
        let module = cache::compiled(engine, bytes)
            .map_err(|error| GuestError::NotWasm(first_line(&error)))?;
        load::check(&module)?;
        let mut linker = Linker::new(engine);
        host::link(&mut linker).map_err(|error| GuestError::Host(format!("{error:#}")))?;
        let instance = linker
            .instantiate_pre(&module)
            .map_err(|error| GuestError::Host(format!("{error:#}")))?;
        let mut program = WasmProgram {
            name: name.to_owned(),
            options_name: options_name(&module, name).to_owned(),
            hash: GuestHash::of(bytes),
            file,
            instance,
            coverage_points: Vec::new(),
            policies: GuestPolicies::default(),
        };
        (program.coverage_points, program.policies) =
            load::probe(program.instantiate(&load::PROBE)?, &module)?;
        Ok(Arc::new(program))
    }

    fn instantiate(&self, limits: &GuestLimits) -> Result<WasmGuest, GuestError> {
        let coverage_points = u32::try_from(self.coverage_points.len()).unwrap_or(u32::MAX);
        let state = HostState::new(limits, coverage_points);
        let mut store = Store::new(self.instance.module().engine(), state);
        store.limiter(|state| &mut state.limiter);
        store
            .set_fuel(limits.fuel_per_call)
            .map_err(|error| GuestError::Host(error.to_string()))?;
        match self.instance.instantiate(&mut store) {
            Ok(instance) => WasmGuest::new(store, &instance, *limits),
            Err(error) => Err(host::verdict(&error, store.data(), limits)),
        }
    }
}

/// Every build of our engine has the engine's options, wherever its file lies: with mutants, with edits of the source.
fn options_name<'a>(module: &Module, name: &'a str) -> &'a str {
    if module.name() == Some(ENGINE_MODULE) {
        ENGINE
    } else {
        name
    }
}

/// The bytes of a module. A device such as `/dev/zero` never ends; reading it stops at what no module has.
///
/// # Errors
/// If the file cannot be read, or is longer than any module.
pub fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(file)?
        .take(MODULE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if read as u64 > MODULE_BYTES_MAX {
        let why = format!("it is longer than {} MiB", MODULE_BYTES_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

impl Program for WasmProgram {
    fn name(&self) -> &str {
        &self.name
    }

    fn options_name(&self) -> &str {
        &self.options_name
    }

    fn hash(&self) -> GuestHash {
        self.hash
    }

    fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn coverage_points(&self) -> &[String] {
        &self.coverage_points
    }

    fn policies(&self) -> GuestPolicies {
        self.policies
    }

    fn start(&self, limits: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(self.instantiate(limits)?))
    }
}
