//! The process that holds an engine which is built into kvsim: it does what is asked for on standard input, as
//! [`kvsim_store::process`] says, and ends when that does.
//!
//! So each engine has a process of its own, which can be killed, and whose memory and whose reads and writes are its own.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kvsim_store::process::{Answer, Hello, PROTOCOL, Process, Request, Work, hex, unhex};
use kvsim_store::sequence::key_of;

use super::counters::Source;
use super::load::{Pace, Script, Seen, preload, run};
use super::store::{Durability, Engine, Settings, Store, StoreError};
use super::stream::{Action, Key};

/// The command of kvsim that calls [`serve`]. It takes the engine's name, the directory and the settings.
pub const COMMAND: &str = "engine-process";
/// How many arenas of memory glibc makes. Where it is not said, it makes up to eight for each processor, one for each thread, and what a thread gives back no thread of another
/// arena gets.
const ARENAS: &str = "MALLOC_ARENA_MAX";
/// Writes between two reports of progress.
const REPORT_EVERY: u64 = 256;

/// Starts the process of an engine: `program`, which is kvsim itself, if it is built into it.
///
/// # Errors
/// The process does not start, or is of another version.
pub fn start(
    program: &Path,
    engine: &dyn Engine,
    directory: &Path,
    settings: &Settings,
) -> Result<Process, StoreError> {
    let mut process = match engine.remote() {
        Some(remote) => remote.start(directory, settings)?,
        None => start_own(program, engine, directory, settings)?,
    };
    if let Some(bytes) = settings.memory_bytes {
        process.limit_memory(bytes)?;
    }
    Ok(process)
}

fn start_own(
    program: &Path,
    engine: &dyn Engine,
    directory: &Path,
    settings: &Settings,
) -> Result<Process, StoreError> {
    let failed = |what: String| StoreError {
        engine: engine.name(),
        what,
    };
    let settings_text =
        serde_json::to_string(settings).map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg(COMMAND).arg(engine.name());
    command.arg(directory).arg(settings_text);
    if settings.memory_bytes.is_some() && std::env::var_os(ARENAS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.env(ARENAS, processors.to_string());
    }
    Process::start(engine.name(), &mut command, directory, &|line| {
        let hello: Hello = serde_json::from_str(line)
            .map_err(|error| failed(format!("{} does not answer: {error}", program.display())))?;
        if hello.protocol != PROTOCOL || hello.version != env!("CARGO_PKG_VERSION") {
            let program = program.display();
            return Err(failed(format!("{program} is of another version now")));
        }
        Ok(hello)
    })
}

/// Answers until `from` ends. What an engine cannot do is an answer.
///
/// # Errors
/// Of the pipes only.
pub fn serve(
    engine: &dyn Engine,
    directory: &Path,
    settings: &Settings,
    from: &mut dyn BufRead,
    to: &mut dyn Write,
) -> io::Result<()> {
    let mut session = Session {
        engine,
        directory,
        settings,
        script: None,
        store: None,
        next_key: AtomicU64::new(0),
        to,
    };
    say(
        session.to,
        &Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            go: None,
            configuration: Vec::new(),
        },
    )?;
    let mut line = String::new();
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let done = match serde_json::from_str::<Request>(&line) {
            Ok(asked) if asked.work == Work::Script => {
                let script = Script::decode(from)?;
                session.next_key = AtomicU64::new(script.next_key);
                session.script = Some(script);
                Ok(Answer::default())
            }
            Ok(asked) => session.perform(&asked),
            Err(error) => Err(session.failed(error)),
        };
        let answer = done.unwrap_or_else(|error| Answer {
            error: Some(error.what),
            ..Answer::default()
        });
        say(
            session.to,
            &Answer {
                done: true,
                ..answer
            },
        )?;
    }
}

/// One engine in one directory.
struct Session<'a> {
    engine: &'a dyn Engine,
    directory: &'a Path,
    settings: &'a Settings,
    script: Option<Script>,
    store: Option<Box<dyn Store>>,
    next_key: AtomicU64,
    to: &'a mut dyn Write,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
fn now() -> Instant {
    Instant::now()
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn say(to: &mut dyn Write, line: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(line)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Tells of progress. If nobody hears it, the next answer is not heard either, and the session ends there.
fn tell(to: &mut dyn Write, line: &Answer) {
    let _ = say(to, line);
}

impl Session<'_> {
    fn failed(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError {
            engine: self.engine.name(),
            what: what.to_string(),
        }
    }

    fn store(&self) -> Result<&dyn Store, StoreError> {
        let store = self.store.as_deref();
        store.ok_or_else(|| self.failed("no database is open"))
    }

    fn script(&self) -> Result<&Script, StoreError> {
        let script = self.script.as_ref();
        script.ok_or_else(|| self.failed("there is no script"))
    }

    fn perform(&mut self, asked: &Request) -> Result<Answer, StoreError> {
        match asked.work {
            Work::Script => unreachable!("its bytes follow its line"),
            Work::Open => self.open(asked.durability.unwrap_or(self.settings.durability)),
            Work::Load => self.load(),
            Work::Run => self.run(asked),
            Work::NextKey => Ok(Answer {
                next_key: Some(self.next_key.load(Ordering::Relaxed)),
                ..Answer::default()
            }),
            Work::Write => self.write(asked),
            Work::FirstUse => self.first_use(asked),
            Work::GetAll => Ok(Answer {
                values: hexed(self.get_all(numbers(asked), || {})?),
                ..Answer::default()
            }),
            Work::Put | Work::Delete | Work::Get | Work::Scan | Work::Sync => self.single(asked),
            Work::Close => {
                self.store = None;
                Ok(Answer::default())
            }
        }
    }

    fn open(&mut self, durability: Durability) -> Result<Answer, StoreError> {
        if self.store.is_some() {
            return Err(self.failed("a database is open already"));
        }
        let settings = Settings {
            durability,
            ..self.settings.clone()
        };
        let began = now();
        let store = self.engine.open(self.directory, &settings)?;
        let answer = Answer {
            elapsed_ns: nanoseconds(began.elapsed()),
            device: store.device(),
            caveat: store.caveat().map(str::to_owned),
            ..Answer::default()
        };
        self.store = Some(store);
        Ok(answer)
    }

    /// Opens a database, and writes what the clients find.
    fn load(&mut self) -> Result<Answer, StoreError> {
        self.script()?;
        let answer = self.open(self.settings.durability)?;
        let Session {
            script, store, to, ..
        } = self;
        let (Some(script), Some(store)) = (script, store) else {
            unreachable!("both are there");
        };
        let mut progress = |done| {
            tell(
                to,
                &Answer {
                    loaded: Some(done),
                    ..Answer::default()
                },
            );
        };
        preload(store.as_ref(), script, &mut progress)?;
        Ok(answer)
    }

    fn run(&mut self, asked: &Request) -> Result<Answer, StoreError> {
        let pace = Pace {
            warm_up: Duration::from_nanos(asked.warm_up_ns.unwrap_or(0)),
            measured: Duration::from_nanos(asked.measured_ns.unwrap_or(0)),
            rate: asked.rate,
            tasks: asked.tasks.unwrap_or(false),
        };
        let source = Source::of(self.directory);
        let (store, script) = (self.store()?, self.script()?);
        run(store, script, &self.next_key, &pace, &source).map(seen)
    }

    fn write(&mut self, asked: &Request) -> Result<Answer, StoreError> {
        let (from, to) = (asked.from.unwrap_or(0), asked.to.unwrap_or(0));
        let mut key = Key::new(self.script()?.key_bytes);
        for write in from.. {
            if asked.sync_at == Some(write) {
                self.store()?.sync()?;
                tell(
                    self.to,
                    &Answer {
                        synced: Some(write),
                        ..Answer::default()
                    },
                );
            }
            if write >= to {
                break;
            }
            put(self.store()?, self.script()?, &mut key, write)?;
            if write % REPORT_EVERY == REPORT_EVERY - 1 {
                tell(
                    self.to,
                    &Answer {
                        written: Some(write + 1),
                        ..Answer::default()
                    },
                );
            }
        }
        Ok(Answer::default())
    }

    fn first_use(&self, asked: &Request) -> Result<Answer, StoreError> {
        let (store, script) = (self.store()?, self.script()?);
        let write = asked.from.unwrap_or(0);
        let began = now();
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                put(store, script, &mut Key::new(script.key_bytes), write)?;
                Ok(nanoseconds(began.elapsed()))
            });
            let mut first_get_ns = 0;
            let values = self.get_all(numbers(asked), || {
                first_get_ns = nanoseconds(began.elapsed())
            });
            let gets_ns = nanoseconds(began.elapsed());
            let put_ns = writer.join().expect("a write does not panic")?;
            let own = store.counters().into_iter();
            Ok(Answer {
                values: hexed(values?),
                first_get_ns,
                gets_ns,
                put_ns,
                own: own.map(|(name, count)| (name.to_owned(), count)).collect(),
                ..Answer::default()
            })
        })
    }

    /// Reads keys in order. Text is made of the values later, so that it is in no figure.
    fn get_all(
        &self,
        numbers: &[u64],
        mut first: impl FnMut(),
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let store = self.store()?;
        let mut key = Key::new(self.script()?.key_bytes);
        let mut values = Vec::with_capacity(numbers.len());
        for number in numbers {
            let mut value = None;
            store.get(key.of(*number), &mut |found| value = Some(found.to_vec()))?;
            if values.is_empty() {
                first();
            }
            values.push(value);
        }
        Ok(values)
    }

    /// One operation, whose key and value come through the pipe.
    fn single(&self, asked: &Request) -> Result<Answer, StoreError> {
        let bytes = |text: &Option<String>| {
            let bytes = text.as_deref().map_or(Some(Vec::new()), unhex);
            bytes.ok_or_else(|| self.failed("keys and values are hexadecimal"))
        };
        let (store, key, value) = (self.store()?, bytes(&asked.key)?, bytes(&asked.value)?);
        let mut answer = Answer::default();
        match asked.work {
            Work::Put => store.put(&key, &value)?,
            Work::Delete => store.delete(&key)?,
            Work::Get => {
                let mut take = |found: &[u8]| answer.value = hex(found);
                answer.found = store.get(&key, &mut take)?;
            }
            Work::Scan => {
                let entries = &mut answer.entries;
                let mut take = |key: &[u8], value: &[u8]| entries.push((hex(key), hex(value)));
                store.scan(&key, asked.limit.unwrap_or(0), &mut take)?;
            }
            _ => store.sync()?,
        }
        Ok(answer)
    }
}

fn numbers(asked: &Request) -> &[u64] {
    asked.numbers.as_deref().unwrap_or_default()
}

fn hexed(values: Vec<Option<Vec<u8>>>) -> Vec<Option<String>> {
    let hexed = |value: Option<Vec<u8>>| value.map(|value| hex(&value));
    values.into_iter().map(hexed).collect()
}

/// Makes a write of the endless sequence.
fn put(store: &dyn Store, script: &Script, key: &mut Key, write: u64) -> Result<(), StoreError> {
    let number = key_of(write, script.preload.max(1));
    store.put(key.of(number), script.values.nth(write))
}

/// What the clients saw, as [`kvsim_store::process`] reads it.
fn seen(seen: Seen) -> Answer {
    let buckets = |action: Action| {
        let found = seen.latency.iter().find(|(one, _)| *one == action);
        let bucket = |histogram: &hdrhistogram::Histogram<u64>| {
            let recorded = histogram.iter_recorded();
            let bucket = recorded.map(|one| {
                let begin = histogram.lowest_equivalent(one.value_iterated_to());
                (begin, one.count_at_value())
            });
            bucket.collect()
        };
        found.map_or_else(Vec::new, |(_, histogram)| bucket(histogram))
    };
    Answer {
        latency: Action::ALL.map(buckets).to_vec(),
        elapsed_ns: nanoseconds(seen.elapsed),
        user_bytes: seen.user_bytes,
        commits: seen.commits,
        counters: Some(seen.counters),
        own: seen.own,
        ..Answer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::native::{Native, SPACE_PERCENT};
    use super::*;

    /// Goal: what cannot be done is answered, and the next request is served. Method: requests before anything is open, one that is none, then single operations.
    #[test]
    fn what_is_asked_for_is_answered() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let settings = Settings {
            durability: Durability::Full,
            cache_bytes: 1 << 20,
            index_bytes: 0,
            engine_options: Vec::new(),
            data_bytes: 1 << 20,
            keys: 1_000,
            threads: 1,
            space_percent: SPACE_PERCENT,
            memory_bytes: None,
            assume_power_loss_protection: false,
        };
        let asked = [
            r#"{"do":"get","key":"01"}"#,
            "what?",
            r#"{"do":"open"}"#,
            r#"{"do":"open"}"#,
            r#"{"do":"run"}"#,
            r#"{"do":"put","key":"01","value":"0203"}"#,
            r#"{"do":"put","key":"0","value":"0203"}"#,
            r#"{"do":"get","key":"01"}"#,
            r#"{"do":"scan","key":"00","limit":5}"#,
            r#"{"do":"close"}"#,
        ];
        let mut from = asked.map(|line| format!("{line}\n")).concat();
        from.push_str("{\"do\":\"script\"}\nno script");
        let mut to = Vec::new();
        let engine = Native::ENGINE;
        let ended = serve(
            &engine,
            directory.path(),
            &settings,
            &mut from.as_bytes(),
            &mut to,
        );
        assert!(ended.is_err(), "the script is cut short");
        let text = String::from_utf8(to).expect("text");
        let mut lines = text.lines();
        let hello: Hello = serde_json::from_str(lines.next().expect("a line")).expect("a hello");
        assert_eq!(hello.protocol, PROTOCOL);
        let answers: Vec<Answer> = lines
            .map(|line| serde_json::from_str(line).expect("an answer"))
            .collect();
        assert!(answers.iter().all(|answer| answer.done));
        let errors = answers.iter().map(|answer| answer.error.as_deref());
        let wanted = [
            "no database is open",
            "expected value",
            "",
            "open already",
            "there is no script",
            "",
            "hexadecimal",
            "",
            "",
            "",
        ];
        assert_eq!(answers.len(), wanted.len());
        for (error, wanted) in errors.zip(wanted) {
            match error {
                None => assert_eq!(wanted, ""),
                Some(error) => assert!(!wanted.is_empty() && error.contains(wanted), "{error}"),
            }
        }
        assert!(answers[2].elapsed_ns > 0 && answers[2].device.is_some());
        assert_eq!(
            (answers[7].found, answers[7].value.as_str()),
            (true, "0203")
        );
        assert_eq!(answers[8].entries, [("01".to_owned(), "0203".to_owned())]);
    }
}
