//! A file engine as a program: checked, compiled once, kept as an image, started many times.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use kvsim_fs::{FileConfig, FileSystem, ROOT_FD};
use kvsim_sim::sandbox::{compiled, first_line, read_module};
use kvsim_sim::{Guest, GuestError, GuestHash, GuestLimits, GuestPolicies, Needs, Offers, Program};
use wasmtime::{Instance, InstancePre, Module, Store};

use crate::calls::CallTrace;
use crate::clock::{Clock, ClockId, EPOCH_NS};
use crate::command::Command;
use crate::compact::compact;
use crate::engines::{Purpose, engine};
use crate::exchange::{Line, When};
use crate::guest::{Transport, WasiGuest};
use crate::host::{Begin, Host};
use crate::image::{self, INITIALIZE, Instrumented};
use crate::imports::{self, Form};
use crate::message::{self, Description};
use crate::reactor::Reactor;
use crate::table::Table;
use crate::verdict::verdict;

/// How a program is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Instances take turns in slots that stay mapped: for many short process runs.
    pub reuse_instances: bool,
    /// A reactor starts from an image of itself after `_initialize`. Without it each process run runs `_initialize`, with random numbers of
    /// its own.
    pub use_image: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            reuse_instances: false,
            use_image: true,
        }
    }
}

/// How a process run of this program begins.
#[derive(Clone)]
enum Start {
    /// From an image: descriptors and the time that `_initialize` took are as they were then.
    Image { table: Table, started_ns: u64 },
    /// With `_initialize`, if the module has it; and why there is no image, if one was asked for.
    Initialize { why: Option<String> },
    /// With `_start`.
    Command,
}

/// A storage engine that uses files, as a WebAssembly module for WASI preview 1.
pub struct WasiProgram {
    name: String,
    hash: GuestHash,
    file: Option<PathBuf>,
    bytes: Arc<[u8]>,
    instance: InstancePre<Host>,
    start: Start,
    description: Description,
    /// The same, compiled so that calls can be traced to their sources; made when it is asked for.
    traced: OnceLock<Result<InstancePre<Host>, GuestError>>,
}

impl std::fmt::Debug for WasiProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasiProgram")
            .field("name", &self.name)
            .field("hash", &self.hash)
            .field("description", &self.description)
            .finish_non_exhaustive()
    }
}

/// Enough for `_initialize` and *describe*; what a scenario allows comes later.
const PROBE: GuestLimits = GuestLimits {
    memory_bytes_max: 1 << 30,
    fuel_per_call: 2_000_000_000,
    events_per_answer: 1,
    idle_ns_per_answer: 1,
};

/// The file system of `_initialize` and *describe*: empty.
fn empty_files() -> Result<FileSystem, GuestError> {
    FileSystem::new(&FileConfig::default(), 0).map_err(|error| GuestError::Host(error.to_string()))
}

fn begin(name: &str, files: FileSystem) -> Begin {
    Begin {
        name: name.to_owned(),
        limits: PROBE,
        files,
        table: Table::new(),
        clock: Clock::new(0, 0),
        seed: 0,
        line: None,
        trace: CallTrace::default(),
    }
}

fn store(module: &Module, begin: Begin) -> Result<Store<Host>, GuestError> {
    let fuel = begin.limits.fuel_per_call;
    let mut store = Store::new(module.engine(), Host::new(begin));
    store.limiter(|host| &mut host.limiter);
    store
        .set_fuel(fuel)
        .map_err(|error| GuestError::Host(error.to_string()))?;
    Ok(store)
}

/// An instance; a module that traps at once is told by its verdict.
fn instantiate(
    program: &InstancePre<Host>,
    store: &mut Store<Host>,
) -> Result<Instance, GuestError> {
    let made = program.instantiate(&mut *store);
    made.map_err(|error| verdict(&error, store.data()))
}

/// Runs `_initialize`, if the module has it.
fn initialize(store: &mut Store<Host>, instance: Instance) -> Result<(), GuestError> {
    let host = store.data_mut();
    host.begin_call();
    let Ok(function) = instance.get_typed_func::<(), ()>(&mut *store, INITIALIZE) else {
        return Ok(());
    };
    let done = function.call(&mut *store, ());
    done.map_err(|error| verdict(&error, store.data()))
}

/// An error of loading says in which part it happened.
fn during(what: &'static str, error: GuestError) -> GuestError {
    match error {
        GuestError::Host(_) => error,
        error => GuestError::Starting {
            what,
            error: Box::new(error),
        },
    }
}

/// What is made of a module's bytes.
struct Made {
    instance: InstancePre<Host>,
    start: Start,
}

fn compile(purpose: Purpose, bytes: &[u8]) -> Result<Module, GuestError> {
    compiled(engine(purpose)?, bytes).map_err(|error| GuestError::NotWasm(first_line(&error)))
}

/// Checks a module and prepares it.
fn prepare(purpose: Purpose, module: &Module, form: Form) -> Result<InstancePre<Host>, GuestError> {
    let linker = imports::linker(engine(purpose)?, form)?;
    let mut probe = store(module, begin("probe", empty_files()?))?;
    imports::check(module, &linker, &mut probe)?;
    linker
        .instantiate_pre(module)
        .map_err(|error| GuestError::Host(format!("{error:#}")))
}

fn make(
    name: &str,
    purpose: Purpose,
    original: &[u8],
    use_image: bool,
) -> Result<Made, GuestError> {
    let compacted = compact(original);
    let bytes = compacted.as_deref().unwrap_or(original);
    let instrumented = if use_image {
        image::instrument(bytes)
    } else {
        Err(String::new())
    };
    // An instrumented module exports more and is otherwise the same, so it serves to be checked too.
    let checked = match &instrumented {
        Ok(instrumented) => compile(Purpose::Few, &instrumented.module)?,
        Err(_) => compile(Purpose::Few, bytes)?,
    };
    let form = imports::form(&checked)?;
    let instance = prepare(Purpose::Few, &checked, form)?;
    if form == Form::Command {
        // The fiber of a command has a stack of its own, which the slots of the pool have not.
        return Ok(Made {
            instance,
            start: Start::Command,
        });
    }
    let taken = match &instrumented {
        Ok(instrumented) => take_image(name, instrumented, &instance)?,
        Err(why) => Err(why.clone()),
    };
    let (image, table, started_ns) = match taken {
        Ok(taken) => taken,
        Err(why) => {
            let module = compile(purpose, bytes)?;
            return Ok(Made {
                instance: prepare(purpose, &module, form)?,
                start: Start::Initialize {
                    why: use_image.then_some(why),
                },
            });
        }
    };
    let module = compile(purpose, &image)?;
    Ok(Made {
        instance: prepare(purpose, &module, form)?,
        start: Start::Image { table, started_ns },
    })
}

/// An image and what belongs to it, or why there is none.
type Image = Result<(Vec<u8>, Table, u64), String>;

fn take_image(
    name: &str,
    instrumented: &Instrumented<'_>,
    program: &InstancePre<Host>,
) -> Result<Image, GuestError> {
    let mut store = store(program.module(), begin(name, empty_files()?))?;
    let instance = instantiate(program, &mut store).map_err(|error| during("its start", error))?;
    initialize(&mut store, instance).map_err(|error| during("_initialize", error))?;
    let left = store.get_fuel().unwrap_or(0);
    let host = store.data_mut();
    host.take_steps();
    host.clock.set_fuel(PROBE.fuel_per_call - left);
    let has_files = host
        .files
        .read_directory(ROOT_FD, 0, 3)
        .map_or(true, |entries| entries.len() > 2);
    if has_files || !host.table.is_as_at_start() {
        return Ok(Err("its _initialize opens or creates files".to_owned()));
    }
    let table = host.table.clone();
    let started_ns = host.clock.read(ClockId::Monotonic);
    let image = instrumented.image(&mut store, instance);
    Ok(image.map(|image| {
        let image = compact(&image).unwrap_or(image);
        (image, table, started_ns)
    }))
}

impl WasiProgram {
    /// The engine in a file.
    ///
    /// # Errors
    /// If the file cannot be read or holds no file engine; the error says what is missing.
    pub fn from_file(file: &Path, options: LoadOptions) -> Result<Arc<Self>, GuestError> {
        let bytes = read_module(file).map_err(|error| GuestError::Unreadable(error.to_string()))?;
        let name = file.file_stem().map_or_else(
            || "engine".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        );
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
        Self::load(&name, &bytes, Some(file), options)
    }

    /// The engine in these bytes.
    ///
    /// # Errors
    /// If they are no file engine; the error says what is missing.
    pub fn from_bytes(
        name: &str,
        bytes: &[u8],
        options: LoadOptions,
    ) -> Result<Arc<Self>, GuestError> {
        Self::load(name, bytes, None, options)
    }

    fn load(
        name: &str,
        bytes: &[u8],
        file: Option<PathBuf>,
        options: LoadOptions,
    ) -> Result<Arc<Self>, GuestError> {
        let made = if options.reuse_instances {
            // Where no slots can be had, or the module does not fit one, nothing is lost but time.
            match make(name, Purpose::Many, bytes, options.use_image) {
                Err(GuestError::NotWasm(_) | GuestError::Host(_)) => {
                    make(name, Purpose::Few, bytes, options.use_image)?
                }
                made => made?,
            }
        } else {
            make(name, Purpose::Few, bytes, options.use_image)?
        };
        let mut program = WasiProgram {
            name: name.to_owned(),
            hash: GuestHash::of(bytes),
            file,
            bytes: bytes.into(),
            instance: made.instance,
            start: made.start,
            description: Description {
                engine: String::new(),
                settings: String::new(),
                offers: Offers::default(),
                policies: GuestPolicies::default(),
            },
            traced: OnceLock::new(),
        };
        program.description = program
            .describe()
            .map_err(|error| during("describe", error))?;
        Ok(Arc::new(program))
    }

    fn describe(&self) -> Result<Description, GuestError> {
        let mut guest = self.run(
            &PROBE,
            empty_files()?,
            &self.instance,
            self.start.clone(),
            BTreeSet::new(),
        )?;
        let ended = guest.exchange(When::default(), &message::describe());
        message::description(&ended.answer?).map_err(GuestError::Abi)
    }

    /// What the engine says of itself.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Why each process run of this reactor runs `_initialize`, although an image was asked for. Nothing if there is an image.
    #[must_use]
    pub fn why_no_image(&self) -> Option<&str> {
        match &self.start {
            Start::Initialize { why } => why.as_deref(),
            Start::Command => Some("it is a command, whose main function is on its stack"),
            Start::Image { .. } => None,
        }
    }

    /// A process run on these files.
    ///
    /// # Errors
    /// If the instance cannot be made, or its `_initialize` fails.
    pub fn start_files(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
    ) -> Result<WasiGuest, GuestError> {
        self.start_with(
            limits,
            files,
            &self.instance,
            self.start.clone(),
            BTreeSet::new(),
        )
    }

    /// The same, noting for these file-system calls, by the numbers that the file system gives them, where in the engine's own code they were
    /// made: the names of functions, and files and lines if the module has debug information (DWARF). The calls are the same.
    ///
    /// # Errors
    /// As of [`WasiProgram::start_files`], and if the module cannot be compiled for this.
    pub fn start_files_traced(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
        calls: &BTreeSet<u64>,
    ) -> Result<WasiGuest, GuestError> {
        let traced = self.traced.get_or_init(|| {
            let made = make(
                &self.name,
                Purpose::Traced,
                &self.bytes,
                self.why_no_image().is_none(),
            )?;
            Ok(made.instance)
        });
        let instance = traced.as_ref().map_err(Clone::clone)?;
        self.start_with(limits, files, instance, self.start.clone(), calls.clone())
    }

    fn start_with(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
        instance: &InstancePre<Host>,
        start: Start,
        calls: BTreeSet<u64>,
    ) -> Result<WasiGuest, GuestError> {
        let clock = Self::clock(files, &start);
        let begins_at = clock.read(ClockId::RealTime) - EPOCH_NS;
        let transport = self.run(limits, files.clone(), instance, start, calls)?;
        Ok(WasiGuest::new(transport, begins_at))
    }

    /// The clock at the start of a process run.
    fn clock(files: &FileSystem, start: &Start) -> Clock {
        let started_ns = match start {
            Start::Image { started_ns, .. } => *started_ns,
            Start::Initialize { .. } | Start::Command => 0,
        };
        Clock::new(files.runs_ended(), started_ns)
    }

    fn run(
        &self,
        limits: &GuestLimits,
        files: FileSystem,
        instance: &InstancePre<Host>,
        start: Start,
        calls: BTreeSet<u64>,
    ) -> Result<Transport, GuestError> {
        let seed = process_seed(&files);
        let line = matches!(start, Start::Command).then(Line::default);
        let clock = Self::clock(&files, &start);
        let table = match &start {
            Start::Image { table, .. } => table.clone(),
            Start::Initialize { .. } | Start::Command => Table::new(),
        };
        let begin = Begin {
            name: self.name.clone(),
            limits: *limits,
            files,
            table,
            clock,
            seed,
            line: line.clone(),
            trace: CallTrace::of(calls),
        };
        let mut store = store(instance.module(), begin)?;
        if let Some(line) = line {
            let command = Command::new(line, store, instance.clone());
            return Ok(Transport::Command(Box::new(command)));
        }
        let made = instantiate(instance, &mut store)?;
        if let Start::Initialize { .. } = start {
            initialize(&mut store, made)?;
        }
        Ok(Transport::Reactor(Box::new(Reactor::new(store, made)?)))
    }
}

/// The seed of a process run's random numbers: that of the files, and the number of the process run. No two process runs on the same files have the
/// same, and two recoveries from crashes at different moments of one process run have.
fn process_seed(files: &FileSystem) -> u64 {
    let numbers = [files.seed(), files.runs_ended()].map(u64::to_le_bytes);
    xxhash_rust::xxh3::xxh3_64(numbers.as_flattened())
}

impl Program for WasiProgram {
    fn name(&self) -> &str {
        &self.name
    }

    fn engine(&self) -> &str {
        &self.description.engine
    }

    fn settings(&self) -> &str {
        &self.description.settings
    }

    fn hash(&self) -> GuestHash {
        self.hash
    }

    fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn policies(&self) -> GuestPolicies {
        self.description.policies
    }

    fn offers(&self) -> Offers {
        self.description.offers
    }

    fn needs(&self) -> Needs {
        Needs::Files
    }

    fn start(&self, _limits: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Err(GuestError::Host(format!(
            "{} needs files, and not a device",
            self.name
        )))
    }

    fn start_on(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
    ) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(self.start_files(limits, files)?))
    }

    fn start_traced(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
        calls: &BTreeSet<u64>,
    ) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(self.start_files_traced(limits, files, calls)?))
    }
}
