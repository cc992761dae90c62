//! The other process, and what is said to it: a line of JSON each way, as the header of `go/main.go` says.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use kvsim_store::counters::{Counters, Source};
use kvsim_store::remote::{Remote, RemoteLoad};
use kvsim_store::script::{Action, Script};
use kvsim_store::seen::{Pace, Seen, histogram};
use kvsim_store::{Engine, Settings, StoreError};
use serde::{Deserialize, Serialize};

use super::GoEngine;
use crate::common::failed;

/// Changes with what is said; `go/main.go` has the same number.
const PROTOCOL: u32 = 1;

/// One engine of the other process. Dropping it ends the process.
pub(super) struct Process {
    engine: &'static str,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    counters: Source,
}

/// What it says first.
#[derive(Debug, Deserialize)]
struct Hello {
    protocol: u32,
    version: String,
    go: String,
    configuration: Vec<(String, String)>,
}

/// What is asked for; the fields that count depend on `do`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Request {
    #[serde(rename = "do")]
    pub(super) action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) warm_up_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) measured_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
}

impl Request {
    pub(super) fn of(action: &'static str) -> Request {
        Request {
            action,
            ..Request::default()
        }
    }
}

/// A line of what it answers; the last has `done`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Answer {
    done: bool,
    error: Option<String>,
    loaded: Option<u64>,
    mark: Option<String>,
    next_key: Option<u64>,
    pub(super) found: bool,
    pub(super) value: String,
    pub(super) entries: Vec<(String, String)>,
    elapsed_ns: u64,
    user_bytes: u64,
    commits: u64,
    latency: Vec<Vec<(u64, u64)>>,
}

fn command(engine: &GoEngine, settings: &Settings) -> Command {
    let mut command = Command::new(&engine.program);
    command
        .arg(format!("--engine={}", engine.name))
        .arg(format!("--durability={}", settings.durability))
        .arg(format!("--cache-bytes={}", settings.cache_bytes));
    command
}

impl Process {
    /// How the engine would be set up, in its own words.
    pub(super) fn describe(
        engine: &GoEngine,
        settings: &Settings,
    ) -> Result<Vec<(String, String)>, StoreError> {
        engine.ready()?;
        let failed = failed(engine.name);
        let output = command(engine, settings).arg("--describe").output();
        let output = output.map_err(|error| failed(&error))?;
        let hello = check(engine, &String::from_utf8_lossy(&output.stdout))?;
        let mut configuration = hello.configuration;
        configuration.push(("built with".to_owned(), hello.go));
        Ok(configuration)
    }

    /// Starts the process; nothing is open then.
    pub(super) fn start(
        engine: &GoEngine,
        directory: &Path,
        settings: &Settings,
    ) -> Result<Process, StoreError> {
        engine.ready()?;
        let failed = failed(engine.name);
        let child = command(engine, settings)
            .arg("--directory")
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| failed(&error))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"a process without pipes"));
        };
        let counters = Source::of_process(directory, child.id());
        let mut process = Process {
            engine: engine.name,
            child,
            to,
            from: BufReader::new(from),
            counters,
        };
        let hello = process.line()?;
        check(engine, &hello)?;
        Ok(process)
    }

    /// Which engine.
    pub(super) fn engine(&self) -> &'static str {
        self.engine
    }

    /// Hands over what the clients will do.
    pub(super) fn send_script(&mut self, script: &Script) -> Result<(), StoreError> {
        self.say(&Request::of("script"))?;
        let written = self.to.write_all(&script.encode());
        written.map_err(|error| self.gone(&error))?;
        self.answer(&mut |_| {}).map(|_| ())
    }

    /// Asks for something and waits until it is done.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, StoreError> {
        self.say(request)?;
        self.answer(&mut |_| {})
    }

    fn say(&mut self, request: &Request) -> Result<(), StoreError> {
        let failed = failed(self.engine);
        let mut line = serde_json::to_vec(request).map_err(|error| failed(&error))?;
        line.push(b'\n');
        self.to.write_all(&line).map_err(|error| self.gone(&error))
    }

    /// Reads lines until one says `done`; those before go to `told`.
    fn answer(&mut self, told: &mut dyn FnMut(&Answer)) -> Result<Answer, StoreError> {
        loop {
            let line = self.line()?;
            let answer: Answer = serde_json::from_str(&line)
                .map_err(|error| failed(self.engine)(&format!("{error} in {line:?}")))?;
            match (answer.done, &answer.error) {
                (_, Some(error)) => return Err(failed(self.engine)(error)),
                (true, None) => return Ok(answer),
                (false, None) => told(&answer),
            }
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

    /// Why nothing can be said any more. What it printed to standard error stands above.
    fn gone(&mut self, why: &dyn std::fmt::Display) -> StoreError {
        let status = match self.child.try_wait() {
            Ok(Some(status)) => format!(" ({status})"),
            _ => String::new(),
        };
        failed(self.engine)(&format!("its process is gone{status}: {why}"))
    }
}

fn check(engine: &GoEngine, line: &str) -> Result<Hello, StoreError> {
    let failed = failed(engine.name);
    let again = format!("run {} again", super::BUILD);
    let hello: Hello = serde_json::from_str(line).map_err(|error| {
        failed(&format!(
            "{} does not answer as it should; {again}: {error}",
            engine.program.display()
        ))
    })?;
    let version = engine.version();
    if hello.protocol != PROTOCOL || hello.version != version {
        return Err(failed(&format!(
            "{} has {} and protocol {}, this kvsim {version} and {PROTOCOL}; {again}",
            engine.program.display(),
            hello.version,
            hello.protocol
        )));
    }
    Ok(hello)
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has closed its database if it was asked to; what is left is to be thrown away.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl RemoteLoad for Process {
    fn load(&mut self, progress: &dyn Fn(u64)) -> Result<(), StoreError> {
        self.say(&Request::of("load"))?;
        self.answer(&mut |line| line.loaded.into_iter().for_each(progress))
            .map(|_| ())
    }

    fn run(&mut self, pace: &Pace) -> Result<Seen, StoreError> {
        if pace.tasks {
            return Err(failed(self.engine)(
                &"this engine has no writes for tasks that do not block",
            ));
        }
        self.say(&Request {
            warm_up_ns: Some(nanoseconds(pace.warm_up)),
            measured_ns: Some(nanoseconds(pace.measured)),
            rate: pace.rate,
            ..Request::of("run")
        })?;
        let source = self.counters.clone();
        let (mut before, mut after) = (Counters::default(), Counters::default());
        let answer = self.answer(&mut |line| match line.mark.as_deref() {
            Some("measuring") => before = source.read(),
            Some("measured") => after = source.read(),
            _ => {}
        })?;
        seen(&answer, after.since(&before)).map_err(|what| failed(self.engine)(&what))
    }

    fn next_key(&mut self) -> Result<u64, StoreError> {
        let answer = self.ask(&Request::of("next_key"))?;
        answer
            .next_key
            .ok_or_else(|| failed(self.engine)(&"it did not say the next key"))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.ask(&Request::of("close")).map(|_| ())
    }
}

/// What the clients there saw. Their buckets have to be ours, or quantiles would not compare.
fn seen(answer: &Answer, counters: Counters) -> Result<Seen, String> {
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
        counters,
        own: Vec::new(),
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
        seen(&answer, Counters::default())
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
