//! What is beside an instance: its files, descriptors, clocks, and what it has let out.
//!
//! Invariant: a step of the file system and a line of the log leave in the order in which they happened.

use std::collections::BTreeSet;

use kvsim_fs::FileSystem;
use kvsim_sim::sandbox::Limiter;
use kvsim_sim::{GuestError, GuestLimits, LogLevel, OutItem, Outbox, Stack};
use wasmtime::Memory;

use crate::calls::CallTrace;
use crate::clock::{Clock, Random, Told};
use crate::exchange::{Ended, Line};
use crate::mapping::Mapping;
use crate::table::Table;

/// The state of the host for one process run.
pub(crate) struct Host {
    pub(crate) limiter: Limiter,
    pub(crate) limits: GuestLimits,
    pub(crate) memory: Option<Memory>,
    pub(crate) files: FileSystem,
    pub(crate) table: Table,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) told: Told,
    pub(crate) name: String,
    /// What a command reads from standard input and writes to standard output. A reactor has none: its input is empty.
    pub(crate) line: Option<Line>,
    pub(crate) trace: CallTrace,
    pub(crate) out: Outbox,
    /// Why the call under way is to end. The host's functions set it and return an error.
    pub(crate) ending: Option<Ending>,
    stdout: Lines,
    stderr: Lines,
    /// What the host has told people once.
    noted: BTreeSet<&'static str>,
    /// The stretch of steps that the last step let out is of, where not all steps are let out.
    stretch: Option<u64>,
    /// Calls of the host in the call under way.
    calls: u64,
    /// Bytes of log lines in the call under way.
    logged_bytes: u64,
}

/// Why a host function ends the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `proc_exit`.
    Exit(u32),
    /// `proc_raise`, or too much of something.
    Verdict(GuestError),
}

/// A call of a guest may call the host so often. A loop around a call of the host burns little fuel and much of the host's time.
const CALLS_MAX: u64 = 2_000_000;
/// A call of a guest may write so much to its outputs.
const LOGGED_BYTES_MAX: u64 = 16 << 20;
/// A longer line is cut into several.
const LINE_BYTES_MAX: usize = 4_096;
/// How a line begins that is the host's own and not the guest's.
pub(crate) const TOLD_BY_HOST: &str = "kvsim: ";
/// Of what a guest has written before it failed, so many lines are told.
const LAST_LINES: usize = 20;

/// An output, cut into lines.
#[derive(Debug, Default, Clone)]
struct Lines {
    begun: Vec<u8>,
    /// The first lines of the call under way.
    first: Vec<String>,
}

impl Lines {
    /// The lines that these bytes end.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                self.begun.push(byte);
            }
            if byte == b'\n' || self.begun.len() == LINE_BYTES_MAX {
                ended.extend(self.end());
            }
        }
        ended
    }

    /// What stands without a line's end.
    fn end(&mut self) -> Option<String> {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
        let line = line
            .trim_end()
            .replace(|c: char| c.is_control() && c != '\t', "?");
        if line.is_empty() {
            return None;
        }
        if self.first.len() < LAST_LINES {
            self.first.push(line.clone());
        }
        Some(line)
    }
}

/// What a process run begins with beside its code.
pub(crate) struct Begin {
    pub(crate) name: String,
    pub(crate) limits: GuestLimits,
    pub(crate) files: FileSystem,
    pub(crate) table: Table,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
    pub(crate) line: Option<Line>,
    pub(crate) trace: CallTrace,
}

impl Host {
    pub(crate) fn new(begin: Begin) -> Host {
        Host {
            limiter: Limiter::new(&begin.limits),
            limits: begin.limits,
            memory: None,
            files: begin.files,
            table: begin.table,
            mappings: Vec::new(),
            clock: begin.clock,
            random: Random::new(begin.seed),
            told: Told::default(),
            name: begin.name,
            line: begin.line,
            trace: begin.trace,
            out: Outbox::new(),
            ending: None,
            stdout: Lines::default(),
            stderr: Lines::default(),
            noted: BTreeSet::new(),
            stretch: None,
            calls: 0,
            logged_bytes: 0,
        }
    }

    /// Forgets what was counted for the call before.
    pub(crate) fn begin_call(&mut self) {
        self.limiter.refused = false;
        self.calls = 0;
        self.stretch = None;
        self.files.begin_moments();
        self.logged_bytes = 0;
        self.stdout.first.clear();
        self.stderr.first.clear();
    }

    /// Counts a call of the host.
    pub(crate) fn count_call(&mut self) -> Result<(), Ending> {
        self.calls += 1;
        if self.calls <= CALLS_MAX {
            return Ok(());
        }
        Err(Ending::Verdict(GuestError::Abi(format!(
            "one call made more than {CALLS_MAX} calls of the host and did not return"
        ))))
    }

    /// Takes over what the file system has done since the last time: its steps, and the time that it took.
    pub(crate) fn take_steps(&mut self) {
        for mut moment in self.files.take_moments() {
            // The file system counts from when its time was last taken, a step is told by its time within the call.
            moment.after_ns = moment.after_ns.saturating_add(self.clock.elapsed());
            let stretch = self.files.stretch();
            let is_same = stretch.is_some() && stretch == self.stretch;
            self.stretch = stretch;
            let step = OutItem::Step(Box::new(moment));
            match self.out.last_mut() {
                Some(last @ OutItem::Step(_)) if is_same => *last = step,
                _ => self.out.push(step),
            }
        }
        let took = self.files.take_elapsed_ns();
        self.clock.pass(took);
    }

    fn log(&mut self, level: LogLevel, text: String) {
        self.take_steps();
        self.out.push(OutItem::Log { level, text });
    }

    /// Takes what the guest writes to an output.
    pub(crate) fn write_output(&mut self, is_stderr: bool, bytes: &[u8]) -> Result<(), Ending> {
        self.logged_bytes += bytes.len() as u64;
        if self.logged_bytes > LOGGED_BYTES_MAX {
            return Err(Ending::Verdict(GuestError::Abi(format!(
                "one call wrote more than {LOGGED_BYTES_MAX} bytes to standard output and standard error"
            ))));
        }
        let (lines, level) = if is_stderr {
            (self.stderr.push(bytes), LogLevel::Warn)
        } else {
            (self.stdout.push(bytes), LogLevel::Info)
        };
        for line in lines {
            self.log(level, line);
        }
        Ok(())
    }

    /// Lets out what a call has written without a line's end.
    pub(crate) fn end_lines(&mut self) {
        if let Some(line) = self.stdout.end() {
            self.log(LogLevel::Info, line);
        }
        if let Some(line) = self.stderr.end() {
            self.log(LogLevel::Warn, line);
        }
    }

    /// Finishes the call under way: what it let out, how much fuel it used.
    pub(crate) fn finish(&mut self, fuel_left: u64, answer: Result<Vec<u8>, GuestError>) -> Ended {
        self.end_lines();
        self.take_steps();
        let fuel = self.limits.fuel_per_call.saturating_sub(fuel_left);
        self.clock.set_fuel(fuel);
        Ended {
            answer,
            out: std::mem::take(&mut self.out),
            fuel,
            elapsed_ns: self.clock.elapsed(),
        }
    }

    /// What the guest has said on standard error in the call under way, as one text.
    pub(crate) fn said(&self) -> String {
        let mut lines = self.stderr.first.clone();
        if !self.stderr.begun.is_empty() && lines.len() < LAST_LINES {
            lines.push(
                String::from_utf8_lossy(&self.stderr.begun)
                    .trim_end()
                    .to_owned(),
            );
        }
        lines.join("\n")
    }

    /// Tells people something about a refusal, once in a process run for each kind.
    pub(crate) fn note(&mut self, kind: &'static str, text: impl FnOnce() -> String) {
        if self.noted.insert(kind) {
            self.log(LogLevel::Warn, format!("{TOLD_BY_HOST}{}", text()));
        }
    }

    /// The verdict on a call that has ended by itself: by an exit or by a rule of the host.
    pub(crate) fn verdict_of(&self, ending: &Ending, stack: Stack) -> GuestError {
        match ending {
            Ending::Exit(code) => GuestError::Exited {
                code: *code,
                said: self.said(),
                stack,
            },
            Ending::Verdict(verdict) => verdict.clone(),
        }
    }
}
