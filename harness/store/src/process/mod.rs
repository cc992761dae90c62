//! An engine in a process of its own, and the clients that use it with it: what is measured must not be the pipe between the two, and what is counted
//! of a process (its memory, what it read and wrote) must be of one engine.
//!
//! A round asks for warm-up and measurement, and gets what the clients there saw. A process can be killed in the midst of its writes.

mod said;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

pub use said::{Answer, Hello, PROTOCOL, Request, Work, hex, unhex};

use crate::confined::Confined;
use crate::counters::{Counters, Source};
use crate::memory::Memory;
use crate::script::{Action, Script};
use crate::seen::{Pace, Seen, histogram};
use crate::{Durability, Settings, StoreError};

/// Engines that come with a program of their own. [`crate::Engine::remote`] says which engines do.
pub trait Remote: Send + Sync {
    /// Whether the process can be started here: asked before anything is measured.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    fn ready(&self) -> Result<(), StoreError>;

    /// Starts the process. Its databases are in this directory; none is open yet.
    ///
    /// # Errors
    /// The process does not start, or is not the one that is wanted.
    fn start(&self, directory: &Path, settings: &Settings) -> Result<Process, StoreError>;
}

/// One engine of another process. Dropping it kills the process, which may leave a database that was not closed.
#[derive(Debug)]
pub struct Process {
    engine: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    counters: Source,
    /// Its end has to come before that of its group.
    confined: Option<Confined>,
}

/// What came of a database that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// How long the opening took, measured in the process.
    pub took: Duration,
    /// What the engine found out about the disk.
    pub device: Option<String>,
    /// Why its figures are worth less than the others'.
    pub caveat: Option<String>,
}

/// What the first requests to a database saw. All times begin when it was asked for, right after the opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstUse {
    /// Until the first get had its value.
    pub first_get: Duration,
    /// Until all gets had theirs.
    pub gets: Duration,
    /// Until the write, of another thread, was acknowledged.
    pub put: Duration,
    /// The values that were read, in the order of the keys.
    pub values: Vec<Option<Vec<u8>>>,
    /// What the engine counted itself.
    pub own: Vec<(String, u64)>,
}

impl Process {
    /// Starts a program in a group of its own, so that Ctrl-C is for kvsim to decide about. What it says first has to be right.
    ///
    /// # Errors
    /// It does not start, or it says something else.
    pub fn start(
        engine: &'static str,
        command: &mut Command,
        directory: &Path,
        check: &dyn Fn(&str) -> Result<Hello, StoreError>,
    ) -> Result<Process, StoreError> {
        let failed = |what: &dyn std::fmt::Display| StoreError {
            engine,
            what: what.to_string(),
        };
        let child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child
            .map_err(|error| failed(&format!("{}: {error}", command.get_program().display())))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"a process without pipes"));
        };
        let counters = Source::of_process(directory, child.id());
        let mut process = Process {
            engine,
            child,
            to,
            from: BufReader::new(from),
            counters,
            confined: None,
        };
        let hello = process.line()?;
        check(&hello)?;
        Ok(process)
    }

    /// Lets it have no more than so many bytes of memory from now on, what the system caches of its files included. It is killed where it wants more.
    ///
    /// # Errors
    /// The system cannot do that, or does not let this user.
    pub fn limit_memory(&mut self, bytes: u64) -> Result<(), StoreError> {
        let confined = Confined::new(self.child.id(), bytes);
        self.confined = Some(confined.map_err(|error| self.failed(&error))?);
        Ok(())
    }

    /// Which engine.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// What the system counted of this process and of its disk until now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.read()
    }

    /// The memory of this process; `None` where the system does not say it.
    #[must_use]
    pub fn memory(&self) -> Option<Memory> {
        Memory::of_process(self.child.id())
    }

    /// Reads the files of the program that the process runs, so that what is read later is read by the engine.
    pub fn read_program(&self) {
        let maps = format!("/proc/{}/maps", self.child.id());
        let maps = std::fs::read_to_string(maps).unwrap_or_default();
        let programs = maps.lines().filter_map(|line| {
            let mut fields = line.split_whitespace();
            let is_program = fields.nth(1)?.contains('x');
            fields
                .nth(3)
                .filter(|path| is_program && path.starts_with('/'))
        });
        for path in programs {
            // What cannot be read ahead of need is read when it is needed.
            let _ = std::fs::read(path);
        }
    }

    /// Hands over what the clients will do.
    ///
    /// # Errors
    /// The process is gone.
    pub fn send_script(&mut self, script: &Script) -> Result<(), StoreError> {
        self.say(&Request::of(Work::Script))?;
        let written = self.to.write_all(&script.encode());
        written.map_err(|error| self.gone(&error))?;
        self.answer(&mut |_| {}).map(|_| ())
    }

    /// Asks for something and waits until it is done.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, StoreError> {
        self.say(request)?;
        self.answer(&mut |_| {})
    }

    /// Opens the database.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn open(&mut self, durability: Durability) -> Result<Opened, StoreError> {
        let answer = self.ask(&Request {
            durability: Some(durability),
            ..Request::of(Work::Open)
        })?;
        Ok(opened(answer))
    }

    /// Opens a database as the process was started, and writes what the clients find.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn load(&mut self, progress: &dyn Fn(u64)) -> Result<Opened, StoreError> {
        self.say(&Request::of(Work::Load))?;
        let answer = self.answer(&mut |line| line.loaded.into_iter().for_each(progress))?;
        Ok(opened(answer))
    }

    /// Lets the clients work through warm-up and measurement. Keys that they insert stay inserted for the next round.
    ///
    /// # Errors
    /// The first error of any client, or the process is gone.
    pub fn run(&mut self, pace: &Pace) -> Result<Seen, StoreError> {
        self.say(&Request {
            warm_up_ns: Some(nanoseconds(pace.warm_up)),
            measured_ns: Some(nanoseconds(pace.measured)),
            rate: pace.rate,
            tasks: pace.tasks.then_some(true),
            ..Request::of(Work::Run)
        })?;
        let source = self.counters.clone();
        let (mut before, mut after) = (Counters::default(), Counters::default());
        let answer = self.answer(&mut |line| match line.mark.as_deref() {
            Some("measuring") => before = source.read(),
            Some("measured") => after = source.read(),
            _ => {}
        })?;
        seen(answer, after.since(&before)).map_err(|what| self.failed(&what))
    }

    /// The first key that no client has inserted.
    ///
    /// # Errors
    /// The process is gone.
    pub fn next_key(&mut self) -> Result<u64, StoreError> {
        let answer = self.ask(&Request::of(Work::NextKey))?;
        answer
            .next_key
            .ok_or_else(|| self.failed(&"it did not say the next key"))
    }

    /// Makes the writes `from` up to `to` of [`crate::sequence`], and a sync before write `sync_at`. `told` hears of progress.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn write(
        &mut self,
        from: u64,
        sync_at: u64,
        to: u64,
        told: &mut dyn FnMut(&Answer),
    ) -> Result<(), StoreError> {
        self.say(&writes(from, sync_at, to))?;
        self.answer(told).map(|_| ())
    }

    /// As [`Process::write`], but kills the process (`SIGKILL`) when so many writes were accepted, while it goes on with others. Returns when the process
    /// is gone.
    ///
    /// # Errors
    /// The engine's own, or the process was gone before.
    pub fn write_until_killed(
        mut self,
        from: u64,
        sync_at: u64,
        to: u64,
        killed_at: u64,
    ) -> Result<(), StoreError> {
        self.say(&writes(from, sync_at, to))?;
        let mut synced = false;
        loop {
            let answer = self.answer_line()?;
            synced |= answer.synced == Some(sync_at);
            if synced && answer.written.is_some_and(|written| written >= killed_at) {
                break;
            }
            if answer.done {
                return Err(self.failed(&"it ended its writes before it was killed"));
            }
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| self.failed(&error)).map(|_| ())
    }

    /// Reads keys, of these numbers, of a database that was just opened, and makes write `write` of [`crate::sequence`] in another thread meanwhile.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn first_use(&mut self, numbers: &[u64], write: u64) -> Result<FirstUse, StoreError> {
        let answer = self.ask(&Request {
            numbers: Some(numbers.to_vec()),
            from: Some(write),
            ..Request::of(Work::FirstUse)
        })?;
        Ok(FirstUse {
            first_get: Duration::from_nanos(answer.first_get_ns),
            gets: Duration::from_nanos(answer.gets_ns),
            put: Duration::from_nanos(answer.put_ns),
            values: self.values(&answer, numbers.len())?,
            own: answer.own,
        })
    }

    /// Reads the keys of these numbers.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn get_all(&mut self, numbers: &[u64]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let answer = self.ask(&Request {
            numbers: Some(numbers.to_vec()),
            ..Request::of(Work::GetAll)
        })?;
        self.values(&answer, numbers.len())
    }

    fn values(&self, answer: &Answer, wanted: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        if answer.values.len() != wanted {
            let said = answer.values.len();
            return Err(self.failed(&format!("{said} values for {wanted} keys")));
        }
        let value = |text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => unhex(text)
                .map(Some)
                .ok_or_else(|| self.failed(&format!("{text:?} are no bytes"))),
        };
        answer.values.iter().map(value).collect()
    }

    /// Closes the database.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    pub fn close(&mut self) -> Result<(), StoreError> {
        self.ask(&Request::of(Work::Close)).map(|_| ())
    }

    fn say(&mut self, request: &Request) -> Result<(), StoreError> {
        let mut line = serde_json::to_vec(request).map_err(|error| self.failed(&error))?;
        line.push(b'\n');
        self.to.write_all(&line).map_err(|error| self.gone(&error))
    }

    /// Reads lines until one says `done`; those before go to `told`.
    fn answer(&mut self, told: &mut dyn FnMut(&Answer)) -> Result<Answer, StoreError> {
        loop {
            let answer = self.answer_line()?;
            if answer.done {
                return Ok(answer);
            }
            told(&answer);
        }
    }

    fn answer_line(&mut self) -> Result<Answer, StoreError> {
        let line = self.line()?;
        let answer: Answer = serde_json::from_str(&line)
            .map_err(|error| self.failed(&format!("{error} in {line:?}")))?;
        match &answer.error {
            Some(error) => Err(self.failed(error)),
            None => Ok(answer),
        }
    }

    fn line(&mut self) -> Result<String, StoreError> {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(0) => Err(self.gone(&"it closed its output")),
            Ok(_) => Ok(line),
            Err(error) => Err(self.gone(&error)),
        }
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> StoreError {
        StoreError {
            engine: self.engine,
            what: what.to_string(),
        }
    }

    /// Why nothing can be said any more. What it printed to standard error stands above.
    fn gone(&mut self, why: &dyn std::fmt::Display) -> StoreError {
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        };
        self.failed(&format!("its process is gone{status}: {why}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has closed its database if it was asked to; what is left is to be thrown away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn opened(answer: Answer) -> Opened {
    Opened {
        took: Duration::from_nanos(answer.elapsed_ns),
        device: answer.device,
        caveat: answer.caveat,
    }
}

fn writes(from: u64, sync_at: u64, to: u64) -> Request {
    Request {
        from: Some(from),
        sync_at: Some(sync_at),
        to: Some(to),
        ..Request::of(Work::Write)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the clients there saw. Their buckets have to be ours, or quantiles would not compare.
fn seen(answer: Answer, counters: Counters) -> Result<Seen, String> {
    if answer.latency.len() != Action::ALL.len() {
        return Err(format!(
            "latencies of {} actions, not {}",
            answer.latency.len(),
            Action::ALL.len()
        ));
    }
    let mut latency = Vec::new();
    for (action, buckets) in Action::ALL.into_iter().zip(&answer.latency) {
        let mut all = histogram();
        for &(value, count) in buckets {
            if all.lowest_equivalent(value) != value {
                return Err(format!("no bucket of latencies begins at {value} ns"));
            }
            all.record_n(value, count)
                .map_err(|error| format!("a latency of {value} ns: {error}"))?;
        }
        if !all.is_empty() {
            latency.push((action, all));
        }
    }
    Ok(Seen {
        elapsed: Duration::from_nanos(answer.elapsed_ns),
        latency,
        user_bytes: answer.user_bytes,
        commits: answer.commits,
        counters: answer.counters.unwrap_or(counters),
        own: answer.own,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(latency: &str) -> Result<Seen, String> {
        let line = format!(
            r#"{{"done":true,"elapsed_ns":2000000000,"user_bytes":3120,"commits":3,"latency":{latency}}}"#
        );
        let answer = serde_json::from_str(&line).expect("an answer");
        seen(answer, Counters::default())
    }

    /// Goal: what the other process counted arrives as it was. Method: three puts and a get.
    #[test]
    fn an_answer_becomes_what_was_seen() {
        let seen = answer("[[[100,2],[4096,1]],[],[],[[50,1]],[],[]]").expect("it is right");
        assert_eq!((seen.operations(), seen.commits), (4, 3));
        assert!((seen.rate() - 2.0).abs() < 1e-9);
        let actions: Vec<Action> = seen.latency.iter().map(|(action, _)| *action).collect();
        assert_eq!(actions, [Action::Put, Action::Get]);
        assert_eq!(seen.all_latencies().value_at_quantile(0.5), 100);
    }

    /// Goal: buckets that are not ours are no latencies. Method: a value within a bucket, and an action too few.
    #[test]
    fn other_buckets_are_refused() {
        let error = answer("[[[4097,1]],[],[],[],[],[]]").expect_err("4,097 is within a bucket");
        assert!(error.contains("4097"), "{error}");
        assert!(answer("[[],[],[],[],[]]").is_err());
    }
}
