//! Whole engines of Go and Rust: they work, survive, start from an image as they start fresh, and do the same each time.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Process, files, go_engine, limits, rust_engine};
use kvsim_fs::{CrashKind, CrashState, FileConfig, FileSystem};
use kvsim_sim::api::{Body, Durability, Mutation, Request, Status};
use kvsim_sim::{Call, GuestError, GuestLimits, Order, Program as _};
use kvsim_wasi::{IDLE_AFTER_NS, LoadOptions, WasiProgram};

const FRESH: LoadOptions = LoadOptions {
    reuse_instances: false,
    use_image: false,
};

fn load(name: &str, bytes: &[u8], options: LoadOptions) -> Arc<WasiProgram> {
    WasiProgram::from_bytes(name, bytes, options).expect("it is an engine")
}

/// The engines that can be built here, with their names.
fn engines() -> Vec<(&'static str, Vec<u8>)> {
    let all = [
        ("go", go_engine(false)),
        ("go-command", go_engine(true)),
        ("rust", rust_engine()),
    ];
    all.into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)))
        .collect()
}

fn value(process: &mut Process, key: &str) -> Option<String> {
    let reply = process.get(key).expect("a get is answered");
    match (reply.status, reply.body) {
        (Status::Ok, Body::Value(value)) => Some(String::from_utf8(value).expect("text")),
        (Status::NotFound, _) => None,
        other => panic!("{other:?}"),
    }
}

/// One process run: opens, writes, reads.
fn run(program: &WasiProgram, files: &FileSystem) -> Process {
    let mut process = Process::start(program, &limits(), files).expect("it starts");
    assert_eq!(process.open(&[]).expect("it opens").status, Status::Ok);
    for (key, text) in [("a", "1"), ("b", "2"), ("a", "3")] {
        assert_eq!(
            process.put(key, text).expect("it is answered").status,
            Status::Ok
        );
    }
    assert_eq!(value(&mut process, "a").as_deref(), Some("3"));
    assert_eq!(value(&mut process, "c"), None);
    process
}

/// Goal: an unmodified engine works, and what it acknowledged survives a kill and a power cut. Method: every engine; the file system draws what
/// the cut leaves.
#[test]
fn engines_work_and_survive() {
    for (name, bytes) in engines() {
        let program = load(name, &bytes, LoadOptions::default());
        assert_eq!(program.needs(), kvsim_sim::Needs::Files);
        let mut process = run(&program, &files());
        assert!(
            process.seen.steps > 5,
            "{name}: {} steps",
            process.seen.steps
        );
        for kind in [CrashKind::Process, CrashKind::Power] {
            let mut left = process.files.clone();
            let state = match kind {
                CrashKind::Power => left.draw_crash(),
                CrashKind::Process => CrashState::default(),
            };
            left.crash(process.now, kind, &state)
                .expect("it can leave that");
            let mut next = Process::start(&program, &limits(), &left).expect("it starts");
            assert_eq!(
                next.open(&[]).expect("it opens").status,
                Status::Ok,
                "{name} {kind:?}"
            );
            let found = [value(&mut next, "a"), value(&mut next, "b")];
            assert_eq!(
                found,
                [Some("3".to_owned()), Some("2".to_owned())],
                "{name} {kind:?}"
            );
        }
        let ended = process.call(Call::Tick).expect("it may idle");
        assert_eq!(ended.wake_at, None);
        let closed = process.ask(&Request::Close).expect("it is answered");
        assert_eq!(closed.status, Status::Ok, "{name}");
    }
}

/// Goal: the same run is the same run, in the same process and in another store. Method: everything that is let out, fuel, and what was told.
#[test]
fn runs_are_deterministic() {
    for (name, bytes) in engines() {
        let runs = [
            LoadOptions::default(),
            LoadOptions::default(),
            LoadOptions {
                reuse_instances: true,
                use_image: true,
            },
        ];
        let seen: Vec<_> = runs
            .into_iter()
            .map(|options| {
                let program = load(name, &bytes, options);
                let process = run(&program, &files());
                (
                    process.seen.out,
                    process.seen.fuel,
                    process.guest.told(),
                    process.files.image_hash(),
                )
            })
            .collect();
        assert_eq!(seen[0], seen[1], "{name}");
        assert_eq!(seen[0], seen[2], "{name}: slots");
    }
}

/// Goal: an image saves time and changes nothing else. Method: all steps and replies of a run from the image and of one that begins with `_initialize`.
#[test]
fn an_image_starts_as_a_fresh_instance_does() {
    for (name, bytes) in engines() {
        let (image, fresh) = (
            load(name, &bytes, LoadOptions::default()),
            load(name, &bytes, FRESH),
        );
        if name == "go-command" {
            assert!(
                image
                    .why_no_image()
                    .is_some_and(|why| why.contains("command"))
            );
            continue;
        }
        assert_eq!(image.why_no_image(), None, "{name}");
        assert_eq!(image.description(), fresh.description());
        let notes = |program: &WasiProgram| {
            let seen = run(program, &files()).seen;
            let steps = seen
                .out
                .iter()
                .map(|line| line.split(" at ").next().unwrap_or_default().to_owned());
            steps.collect::<Vec<_>>()
        };
        assert_eq!(notes(&image), notes(&fresh), "{name}");
    }
}

#[test]
fn a_description_says_what_may_be_asked() {
    let Some(bytes) = go_engine(false) else {
        return;
    };
    let program = load("go", &bytes, LoadOptions::default());
    assert_eq!(program.description().engine, "go-log 1");
    let offers = program.offers();
    assert_eq!(
        (offers.order, offers.batch, offers.snapshot),
        (Order::Prefix, true, false)
    );
    let mut process = run(&program, &files());
    let mutations = ["x", "y"].map(|key| Mutation::Put {
        key: key.into(),
        value: b"batch".to_vec(),
    });
    let batch = Request::Batch {
        mutations: mutations.into(),
        durability: Durability::Durable,
    };
    assert_eq!(
        process.ask(&batch).expect("it is answered").status,
        Status::Ok
    );
    assert_eq!(value(&mut process, "y").as_deref(), Some("batch"));
    assert_eq!(
        process
            .ask(&Request::Snapshot)
            .expect("it is answered")
            .status,
        Status::Invalid
    );
    let ended = process.call(Call::Tick).expect("it may idle");
    assert_eq!(ended.wake_at, None);
    let (request, now) = (Request::Sync, process.now);
    let ended = process
        .call(Call::Request {
            id: 99,
            request: &request,
        })
        .expect("it is answered");
    assert_eq!(ended.wake_at, Some(now + ended.elapsed_ns + IDLE_AFTER_NS));
}

/// Goal: Rust's standard library does with files what it does elsewhere. Method: a tour of it, checked inside the guest.
#[test]
fn the_standard_library_of_rust_works() {
    let Some(bytes) = rust_engine() else {
        return;
    };
    let program = load("rust", &bytes, LoadOptions::default());
    let mut process = Process::start(&program, &limits(), &files()).expect("it starts");
    let reply = process.open(&[("misbehave", "tour")]).expect("it returns");
    assert_eq!((reply.status, reply.body), (Status::Ok, Body::Empty));
    assert_eq!(process.seen.logs, ["the tour is done"]);
    assert!(process.now >= 20_000_000, "the sleep took virtual time");
    let told = process.guest.told();
    assert!(
        told.real_time_reads >= 2 && told.clock_reads >= 2,
        "{told:?}"
    );
}

/// What an opening that misbehaves so ends in.
fn misbehaves(
    bytes: &[u8],
    how: &str,
    files: &FileSystem,
) -> (Result<(Status, Body), GuestError>, Vec<String>) {
    let program = load("misbehaving", bytes, LoadOptions::default());
    let mut process = Process::start(&program, &limits(), files).expect("it starts");
    let reply = process.open(&[("misbehave", how)]);
    (reply.map(|it| (it.status, it.body)), process.seen.logs)
}

#[test]
fn a_panic_of_go_has_its_message_and_its_place() {
    let Some(bytes) = go_engine(false) else {
        return;
    };
    let (ended, _) = misbehaves(&bytes, "panic", &files());
    let error = ended.expect_err("it panics");
    let GuestError::Panic { message, stack } = &error else {
        panic!("{error:?}");
    };
    assert!(
        message.starts_with("panic: misbehaving as asked"),
        "{message}"
    );
    assert!(message.contains("engine.go:"), "{message}");
    assert!(stack.0.iter().any(|it| it == "main.handle"), "{stack:?}");
    let (ended, _) = misbehaves(&bytes, "deadlock", &files());
    let error = ended.expect_err("it cannot go on").to_string();
    assert!(
        error.contains("all goroutines are asleep - deadlock!"),
        "{error}"
    );
    let (ended, _) = misbehaves(&bytes, "exit", &files());
    let error = ended.expect_err("it exits").to_string();
    assert!(
        error.starts_with("the guest ended itself with exit code 9"),
        "{error}"
    );
}

#[test]
fn a_panic_of_rust_has_its_message_and_its_place() {
    let Some(bytes) = rust_engine() else {
        return;
    };
    let (ended, _) = misbehaves(&bytes, "panic", &files());
    let error = ended.expect_err("it panics");
    let GuestError::Panic { message, stack } = &error else {
        panic!("{error:?}");
    };
    assert!(
        message.contains("panicked at src/lib.rs:") && message.contains("as asked"),
        "{message}"
    );
    assert!(stack.0.iter().any(|it| it == "kv_message"), "{stack:?}");
    let (ended, _) = misbehaves(&bytes, "abort", &files());
    assert!(matches!(ended, Err(GuestError::Trap(_))), "{ended:?}");
    let (ended, _) = misbehaves(&bytes, "recurse", &files());
    let error = ended.expect_err("the stack ends").to_string();
    assert!(error.contains("trapped"), "{error}");
}

#[test]
fn what_an_engine_may_cope_with_comes_as_an_error_and_a_line() {
    let Some(bytes) = rust_engine() else {
        return;
    };
    let (ended, logs) = misbehaves(&bytes, "out", &files());
    let Ok((Status::IoError, Body::Message(text))) = ended else {
        panic!("{ended:?}");
    };
    assert!(
        text.ends_with(
            "(path_open: `../etc/passwd` leads out of /db, the only directory there is)"
        ),
        "{text}"
    );
    assert_eq!(
        logs,
        ["kvsim: path_open: `../etc/passwd` leads out of /db, the only directory there is"]
    );
    let (ended, _) = misbehaves(&bytes, "etc", &files());
    assert!(matches!(ended, Ok((Status::IoError, _))), "{ended:?}");
    let (ended, _) = misbehaves(&bytes, "thread", &files());
    assert!(matches!(ended, Ok((Status::IoError, _))), "{ended:?}");
    let small = FileConfig {
        capacity_bytes: 1 << 20,
        ..FileConfig::default()
    };
    let small = FileSystem::new(&small, 1).expect("it is possible");
    let (ended, logs) = misbehaves(&bytes, "fill", &small);
    let Ok((Status::IoError, Body::Message(text))) = ended else {
        panic!("{ended:?}");
    };
    assert!(text.contains("No space left"), "{text}");
    assert_eq!(
        logs,
        ["kvsim: fd_write: no space is left on the file system"]
    );
}

/// Goal: a call is found in the engine's own source. Method: the calls of the first put, traced in a second run; Rust has lines, Go has names.
#[test]
fn calls_are_traced_to_the_engines_source() {
    for (name, bytes) in engines() {
        let program = load(name, &bytes, LoadOptions::default());
        let mut process = Process::start(&program, &limits(), &files()).expect("it starts");
        process.open(&[]).expect("it opens");
        let before = process.files.ops();
        process.put("a", "1").expect("it is answered");
        let calls: BTreeSet<u64> = (before..process.files.ops()).collect();
        assert!(calls.len() >= 2, "{name}: {calls:?}");
        let mut again = program
            .start_files_traced(&limits(), &files(), &calls)
            .expect("it starts");
        let mut out = Vec::new();
        use kvsim_sim::Guest as _;
        again
            .call(0, Call::Open(&common::open_config(&[])), &mut out)
            .expect("it opens");
        let put = Request::Put {
            key: b"a".to_vec(),
            value: b"1".to_vec(),
            durability: Durability::Durable,
        };
        again
            .call(
                0,
                Call::Request {
                    id: 1,
                    request: &put,
                },
                &mut out,
            )
            .expect("it is answered");
        let traced = again.traced().expect("it can tell places");
        assert_eq!(
            traced.keys().copied().collect::<BTreeSet<u64>>(),
            calls,
            "{name}"
        );
        let sync = traced
            .values()
            .find(|it| it.name == "fd_sync")
            .expect("a put syncs");
        let functions: Vec<String> = sync.frames.iter().map(ToString::to_string).collect();
        let expected = if name == "rust" {
            "put at "
        } else {
            "main.(*engine).commit"
        };
        assert!(
            functions.iter().any(|it| it.contains(expected)),
            "{name}: {functions:?}"
        );
        if name == "rust" {
            assert!(
                functions.iter().any(|it| it.contains("src/lib.rs:")),
                "{functions:?}"
            );
        }
    }
}

/// Goal: a hang of a real engine is told by fuel. Method: hardly any fuel.
#[test]
fn an_engine_without_fuel_hangs() {
    let Some(bytes) = go_engine(false) else {
        return;
    };
    let program = load("go", &bytes, LoadOptions::default());
    let few = GuestLimits {
        fuel_per_call: 1_000,
        ..limits()
    };
    let mut process = Process::start(&program, &few, &files()).expect("it starts");
    let error = process.open(&[]).expect_err("it has too little");
    assert!(
        matches!(error, GuestError::OutOfFuel { fuel: 1_000, .. }),
        "{error:?}"
    );
}
