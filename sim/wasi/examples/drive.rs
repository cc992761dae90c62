//! Drives a file engine by hand: opens it, writes, reads, kills it, cuts the power, opens it again, and prints each step.
//!
//! `cargo run -p kvsim-wasi --example drive -- FILE.wasm [--profile NAME] [--option NAME=VALUE]… [--values N] [--bytes N] [--fresh] [--quiet] [--time N]`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a command that prints what it does, and how long it took"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use kvsim_crash::{CrashKind, CrashState};
use kvsim_fs::{FileConfig, FileSystem, StepNote};
use kvsim_sim::api::{Body, Direction, Durability, Mutation, Reply, Request, Scan, Status};
use kvsim_sim::{Call, Guest as _, GuestError, GuestLimits, OpenConfig, OutItem, Program as _};
use kvsim_wasi::{LoadOptions, WasiGuest, WasiProgram};

struct Arguments {
    file: PathBuf,
    profile: String,
    options: BTreeMap<String, String>,
    values: u32,
    value_bytes: usize,
    fresh: bool,
    quiet: bool,
    time: u32,
}

const USAGE: &str = "usage: drive FILE.wasm [--profile NAME] [--option NAME=VALUE]... [--values N] [--bytes N] [--fresh] [--quiet] [--time N]";

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        file: PathBuf::new(),
        profile: "posix".to_owned(),
        options: BTreeMap::new(),
        values: 5,
        value_bytes: 100,
        fresh: false,
        quiet: false,
        time: 0,
    };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("`{text}` is no number"));
        match argument.as_str() {
            "--profile" => found.profile = value()?,
            "--option" => {
                let option = value()?;
                let (name, value) = option
                    .split_once('=')
                    .ok_or(format!("`{option}` is not of the form NAME=VALUE"))?;
                found.options.insert(name.to_owned(), value.to_owned());
            }
            "--values" => found.values = number(value()?)?,
            "--bytes" => found.value_bytes = number(value()?)? as usize,
            "--time" => found.time = number(value()?)?,
            "--fresh" => found.fresh = true,
            "--quiet" => found.quiet = true,
            other if other.starts_with('-') => return Err(format!("unknown: {other}\n{USAGE}")),
            file => found.file = PathBuf::from(file),
        }
    }
    if found.file.as_os_str().is_empty() {
        return Err(USAGE.to_owned());
    }
    Ok(found)
}

/// An engine on its files, one process run after the other.
struct Driver {
    program: Arc<WasiProgram>,
    files: FileSystem,
    guest: Option<WasiGuest>,
    limits: GuestLimits,
    config: OpenConfig,
    now: u64,
    next: u64,
    quiet: bool,
}

impl Driver {
    fn say(&self, line: impl FnOnce() -> String) {
        if !self.quiet {
            println!("{}", line());
        }
    }

    /// One call; prints what it let out.
    fn call(&mut self, call: Call<'_>) -> Result<Reply, GuestError> {
        let mut guest = self.guest.take().expect("a process run is under way");
        let mut out = Vec::new();
        let ended = guest.call(self.now, call, &mut out);
        let mut reply = None;
        for item in out {
            match item {
                OutItem::Step(moment) => {
                    self.say(|| format!("    {}", words(&moment.step, &moment.files)));
                    self.files = moment.files;
                }
                OutItem::Log { level, text } => println!("    {level:?}: {text}"),
                OutItem::Reply(it) => reply = Some(it),
                OutItem::Submit { .. } => unreachable!("a file engine has no device"),
            }
        }
        let ended = ended?;
        self.now += ended.elapsed_ns + ended.fuel / 4;
        if let Some(files) = guest.files() {
            self.files = files.clone();
        }
        self.guest = Some(guest);
        let reply = reply.expect("each request has a reply");
        self.say(|| {
            format!(
                "  = {} ({} fuel, {} ns of files)",
                answer(&reply),
                ended.fuel,
                ended.elapsed_ns
            )
        });
        Ok(reply)
    }

    fn open(&mut self) -> Result<Reply, GuestError> {
        self.say(|| "open".to_owned());
        self.files.note_moments(!self.quiet);
        self.guest = Some(self.program.start_files(&self.limits, &self.files)?);
        let config = self.config.clone();
        self.call(Call::Open(&config))
    }

    fn ask(&mut self, request: Request) -> Result<Reply, GuestError> {
        self.next += 1;
        self.say(|| asked(&request));
        self.call(Call::Request {
            id: self.next,
            request: &request,
        })
    }

    fn crash(&mut self, kind: CrashKind) {
        self.guest = None;
        let state = if kind == CrashKind::Power {
            self.files.draw_crash()
        } else {
            CrashState::default()
        };
        let pending = self.files.pending().len();
        self.files
            .crash(self.now, kind, &state)
            .expect("the file system draws what it accepts");
        self.say(|| {
            format!(
                "{kind:?} crash: {pending} steps pending, {} persisted",
                state.persisted.len()
            )
        });
    }
}

fn words(note: &StepNote, files: &FileSystem) -> String {
    match note {
        StepNote::Pending { step, .. } => {
            let made = files.pending().iter().find(|it| it.id == *step);
            made.map_or_else(|| format!("step {step}"), |it| format!("step {step}: {it}"))
        }
        StepNote::SyncBegins { sync, .. } => format!("sync {sync} begins"),
        StepNote::Synced {
            durable, dropped, ..
        } => format!("synced: {durable} durable, {dropped} given up"),
    }
}

fn answer(reply: &Reply) -> String {
    match &reply.body {
        Body::Value(value) => format!("{:?}, {} bytes", reply.status, value.len()),
        Body::Entries { entries, more } => format!(
            "{:?}, {} entries, more: {more}",
            reply.status,
            entries.len()
        ),
        Body::Message(text) => format!("{:?}: {text}", reply.status),
        other => format!("{:?}, {other:?}", reply.status),
    }
}

fn asked(request: &Request) -> String {
    let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    match request {
        Request::Put {
            key: it,
            value,
            durability,
        } => format!("put {} {} bytes {durability:?}", key(it), value.len()),
        Request::Get { key: it, .. } => format!("get {}", key(it)),
        Request::Delete {
            key: it,
            durability,
        } => format!("delete {} {durability:?}", key(it)),
        Request::Batch { mutations, .. } => format!("batch of {}", mutations.len()),
        Request::Scan(scan) => format!("scan {:?}", scan.direction),
        other => format!("{other:?}"),
    }
}

/// A file engine is told nothing of a device.
fn no_device() -> kvsim_simdisk::Capabilities {
    kvsim_simdisk::Capabilities {
        sector_bytes: 512,
        physical_block_bytes: 4_096,
        capacity_bytes: 0,
        max_capacity_bytes: 0,
        volatile_cache: true,
        fua: false,
        discard: false,
        barrier: false,
        atomic_write_bytes: 512,
        atomic_boundary_bytes: 0,
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// A value that is different for each key and round.
fn value(number: u32, round: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(number) << 32 | u64::from(round) | 1 << 63;
    let bytes = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56).to_le_bytes()[0]
    });
    bytes.take(len).collect()
}

fn put(number: u32, round: u32, len: usize) -> Request {
    Request::Put {
        key: name(number),
        value: value(number, round, len),
        durability: Durability::Durable,
    }
}

fn drive(arguments: &Arguments) -> Result<(), String> {
    let options = LoadOptions {
        reuse_instances: arguments.time > 0,
        use_image: !arguments.fresh,
    };
    let begun = Instant::now();
    let program =
        WasiProgram::from_file(&arguments.file, options).map_err(|error| error.to_string())?;
    println!(
        "loaded in {} ms: {}, hash {}",
        begun.elapsed().as_millis(),
        program.name(),
        program.hash()
    );
    let description = program.description();
    println!("engine: {}", description.engine);
    println!("settings: {}", description.settings);
    println!(
        "does not offer: {:?}; order {:?}",
        description.offers.missing(),
        description.offers.order
    );
    println!("policies: {:?}", description.policies.stated());
    match program.why_no_image() {
        None => println!("starts from an image"),
        Some(why) => println!("starts without an image: {why}"),
    }
    let config = FileConfig::with_profile(&arguments.profile);
    let files = FileSystem::new(&config, 1).map_err(|error| error.to_string())?;
    let mut driver = Driver {
        program: Arc::clone(&program),
        config: OpenConfig {
            device: no_device(),
            memory_bytes_max: 256 << 20,
            db_id: *b"kvsim drive test",
            options: arguments.options.clone(),
        },
        files,
        guest: None,
        limits: GuestLimits {
            memory_bytes_max: 256 << 20,
            fuel_per_call: 20_000_000_000,
            events_per_answer: 1_000_000,
            idle_ns_per_answer: 10_000_000_000,
        },
        now: 0,
        next: 0,
        quiet: arguments.quiet,
    };
    let expected = session(&mut driver, arguments).map_err(|error| error.to_string())?;
    println!("all that was acknowledged is there");
    if arguments.time > 0 {
        time(&mut driver, &expected, arguments.time).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What is expected to be found: keys and values.
type Expected = BTreeMap<Vec<u8>, Vec<u8>>;

/// Why the session ended early.
#[derive(Debug)]
enum Failure {
    Guest(GuestError),
    Wrong(String),
}

impl From<GuestError> for Failure {
    fn from(error: GuestError) -> Failure {
        Failure::Guest(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Guest(error) => {
                writeln!(f, "{error}")?;
                let stack = match error {
                    GuestError::Panic { stack, .. }
                    | GuestError::OutOfFuel { stack, .. }
                    | GuestError::OutOfMemory { stack, .. }
                    | GuestError::Exited { stack, .. } => stack.0.as_slice(),
                    GuestError::Trap(trapped) => trapped.stack.0.as_slice(),
                    _ => &[],
                };
                stack
                    .iter()
                    .try_for_each(|function| writeln!(f, "    {function}"))
            }
            Failure::Wrong(what) => f.write_str(what),
        }
    }
}

fn opened(driver: &mut Driver) -> Result<(), Failure> {
    let reply = driver.open()?;
    if reply.status == Status::Ok {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "the opening was answered {}",
        answer(&reply)
    )))
}

/// Writes, reads, kills, cuts, and checks that everything acknowledged is there.
fn session(driver: &mut Driver, arguments: &Arguments) -> Result<Expected, Failure> {
    let offers = driver.program.offers();
    let len = arguments.value_bytes;
    opened(driver)?;
    let mut expected = Expected::new();
    for number in 0..arguments.values {
        if driver.ask(put(number, 0, len))?.status == Status::Ok {
            expected.insert(name(number), value(number, 0, len));
        }
    }
    let (key, durability) = (name(0), Durability::Durable);
    let delete = Request::Delete {
        key: key.clone(),
        durability,
    };
    if driver.ask(delete)?.status == Status::Ok {
        expected.remove(&key);
    }
    if offers.batch {
        let mutations = [1, 2].map(|number| Mutation::Put {
            key: name(number),
            value: value(number, 1, len),
        });
        let batch = Request::Batch {
            mutations: mutations.into(),
            durability,
        };
        if driver.ask(batch)?.status == Status::Ok {
            for number in [1, 2] {
                expected.insert(name(number), value(number, 1, len));
            }
        }
    }
    check(driver, &expected, "before any crash")?;
    if offers.sync {
        driver.ask(Request::Sync)?;
    }
    driver.crash(CrashKind::Process);
    opened(driver)?;
    check(driver, &expected, "after a kill")?;
    if driver.ask(put(7, 2, len))?.status == Status::Ok {
        expected.insert(name(7), value(7, 2, len));
    }
    driver.crash(CrashKind::Power);
    opened(driver)?;
    check(driver, &expected, "after a power cut")?;
    driver.say(|| "idle".to_owned());
    let mut guest = driver.guest.take().expect("a process run is under way");
    let mut out = Vec::new();
    guest.call(driver.now, Call::Tick, &mut out)?;
    driver.say(|| format!("  {} items let out", out.len()));
    println!("told of time and chance: {:?}", guest.told());
    driver.guest = Some(guest);
    let closed = driver.ask(Request::Close)?;
    driver.crash(CrashKind::Process);
    if closed.status != Status::Ok {
        return Err(Failure::Wrong(format!(
            "close was answered {}",
            answer(&closed)
        )));
    }
    opened(driver)?;
    check(driver, &expected, "after a close")?;
    driver.guest = None;
    Ok(expected)
}

/// Reads every key, and scans in both directions where that is offered.
fn check(driver: &mut Driver, expected: &Expected, when: &str) -> Result<(), Failure> {
    let wrong = |what: String| Err(Failure::Wrong(format!("{when}: {what}")));
    let mut keys: Vec<Vec<u8>> = expected.keys().cloned().collect();
    keys.push(name(0));
    for key in keys {
        let reply = driver.ask(Request::Get {
            key: key.clone(),
            snapshot: 0,
        })?;
        let is_right = match (expected.get(&key), reply.status, &reply.body) {
            (Some(value), Status::Ok, Body::Value(found)) => value == found,
            (None, Status::NotFound, _) => true,
            _ => false,
        };
        if !is_right {
            let key = String::from_utf8_lossy(&key).into_owned();
            return wrong(format!("get {key} was answered {}", answer(&reply)));
        }
    }
    let offers = driver.program.offers();
    for direction in [Direction::Forward, Direction::Reverse] {
        let offered = offers.scan && (direction == Direction::Forward || offers.reverse_scan);
        if !offered {
            continue;
        }
        let reply = driver.ask(Request::Scan(Scan {
            snapshot: 0,
            direction,
            start: None,
            end: None,
            limit: 10_000,
            max_bytes: 1 << 24,
        }))?;
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = expected.clone().into_iter().collect();
        if direction == Direction::Reverse {
            all.reverse();
        }
        let whole = Body::Entries {
            entries: all,
            more: false,
        };
        if reply.body != whole {
            return wrong(format!(
                "scan {direction:?} was answered {}",
                answer(&reply)
            ));
        }
    }
    Ok(())
}

/// How long a recovery takes: a fresh instance, its opening, and one read.
fn time(driver: &mut Driver, expected: &Expected, times: u32) -> Result<(), Failure> {
    driver.quiet = true;
    let key = expected.keys().next().cloned().unwrap_or_default();
    let files = driver.files.clone();
    let begun = Instant::now();
    for _ in 0..times {
        driver.program.start_files(&driver.limits, &files)?;
    }
    let started = begun.elapsed() / times.max(1);
    let begun = Instant::now();
    for _ in 0..times {
        driver.files = files.clone();
        opened(driver)?;
        driver.ask(Request::Get {
            key: key.clone(),
            snapshot: 0,
        })?;
        driver.guest = None;
    }
    let recovered = begun.elapsed() / times.max(1);
    println!(
        "{times} times: start {started:?}, start with opening and one get {recovered:?}, {:.0} a second",
        1.0 / recovered.as_secs_f64()
    );
    Ok(())
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| drive(&arguments));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
