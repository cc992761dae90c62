//! Everything that happened, in order: hashed always, kept if asked.
//!
//! Invariant: the hash is over fixed-width numbers in a fixed order, so it is the same on every machine and in every build.

use std::collections::VecDeque;
use std::fmt;

use kvsim_simdisk::{CrashKind, CrashReport, DiskError, Nanos, Op, Sectors};
use serde::Serialize;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::api::{Body, Reply, RequestId, Status};
use crate::guest::LogLevel;
use crate::notes::Notes;

/// The hash of a whole trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceHash(pub u128);

impl fmt::Display for TraceHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// How much of a trace is kept beside its hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// Nothing, not even the hash: for worlds of which only the end counts.
    Off,
    /// Nothing.
    #[default]
    Hash,
    /// The last so many events.
    Last(usize),
    /// Everything.
    Full,
}

/// What happened. Hashes stand for bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are those of the operations they stand for"
)]
pub enum TraceEvent {
    /// A fresh instance was asked to open.
    Open { incarnation: u64 },
    /// A request reached the guest.
    Request {
        id: RequestId,
        op: &'static str,
        hash: u64,
    },
    /// The guest returned.
    Returned { fuel: u64, wake_at: Option<Nanos> },
    /// A disk operation reached the device.
    Submit {
        op: u64,
        tag: u64,
        kind: &'static str,
        offset: u64,
        len_bytes: u64,
        hash: u64,
    },
    /// A completion reached the guest.
    Complete {
        op: u64,
        tag: u64,
        error: Option<DiskError>,
        hash: u64,
    },
    /// A step of a file system: something became pending, or a sync began or ended.
    Step {
        op: u64,
        kind: &'static str,
        what: String,
        hash: u64,
    },
    /// The guest was woken as it wished.
    Tick,
    /// The guest answered.
    Reply {
        id: RequestId,
        status: Status,
        hash: u64,
    },
    /// The guest reached a named point.
    Mark { name: String },
    /// The guest logged a line.
    Log { level: LogLevel, text: String },
    /// The guest did what no guest may.
    Fault { verdict: String },
    /// The incarnation ended.
    Crash(CrashReport),
}

/// An event with its number and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceRecord {
    /// From 0.
    pub number: u64,
    /// Virtual time.
    pub at_ns: Nanos,
    /// What happened.
    #[serde(flatten)]
    pub event: TraceEvent,
}

impl TraceRecord {
    /// What a line about it begins with: its number and time.
    #[must_use]
    pub fn head(&self) -> String {
        let (micros, rest) = (self.at_ns / 1000, self.at_ns % 1000);
        format!("{:>8} {micros:>8}.{rest:03} µs  ", self.number)
    }
}

impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head())?;
        match &self.event {
            TraceEvent::Open { incarnation } => write!(f, "open      incarnation {incarnation}"),
            TraceEvent::Request { id, op, .. } => write!(f, "request   {id} {op}"),
            TraceEvent::Returned {
                fuel,
                wake_at: Some(at),
            } => write!(f, "return    fuel {fuel}, wake at {at} ns"),
            TraceEvent::Returned {
                fuel,
                wake_at: None,
            } => write!(f, "return    fuel {fuel}"),
            TraceEvent::Submit {
                op,
                kind,
                offset,
                len_bytes,
                ..
            } => {
                write!(f, "submit    op {op} {kind} {offset}+{len_bytes}")
            }
            TraceEvent::Complete {
                op, error: None, ..
            } => write!(f, "complete  op {op}"),
            TraceEvent::Complete {
                op,
                error: Some(error),
                ..
            } => write!(f, "complete  op {op} with a {error:?} error"),
            TraceEvent::Step { op, what, .. } => write!(f, "step      call {op} {what}"),
            TraceEvent::Tick => write!(f, "tick"),
            TraceEvent::Reply { id, status, .. } => write!(f, "reply     {id} {status:?}"),
            TraceEvent::Mark { name } => write!(f, "mark      {name}"),
            TraceEvent::Log { level, text } => write!(f, "log       {level:?}: {text}"),
            TraceEvent::Fault { verdict } => write!(f, "fault     {verdict}"),
            TraceEvent::Crash(report) => {
                let kind = if report.kind == CrashKind::Power {
                    "power cut"
                } else {
                    "process crash"
                };
                let when = if report.in_flush { ", in a flush" } else { "" };
                write!(
                    f,
                    "crash     {kind}: {} pending, {} lost, {} torn{when}",
                    report.pending, report.lost, report.torn
                )
            }
        }
    }
}

/// The trace of a world.
#[derive(Clone)]
pub struct Trace {
    mode: TraceMode,
    hasher: Xxh3,
    count: u64,
    kept: VecDeque<TraceRecord>,
    notes: Notes,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} events, {})", self.count, self.hash())
    }
}

impl Trace {
    /// An empty trace.
    #[must_use]
    pub fn new(mode: TraceMode) -> Self {
        Trace {
            mode,
            hasher: Xxh3::new(),
            count: 0,
            kept: VecDeque::new(),
            notes: Notes::default(),
        }
    }

    /// The hash of everything so far.
    #[must_use]
    pub fn hash(&self) -> TraceHash {
        TraceHash(self.hasher.digest128())
    }

    /// How many events there were.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether nothing has happened yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The events kept, oldest first.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &TraceRecord> {
        self.kept.iter()
    }

    /// What is kept beside them.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Whether events are kept beside their hash.
    #[must_use]
    pub fn keeps_events(&self) -> bool {
        matches!(self.mode, TraceMode::Last(_) | TraceMode::Full)
    }

    /// Where to take notes, if events are kept.
    pub(crate) fn notes_mut(&mut self) -> Option<&mut Notes> {
        self.keeps_events().then_some(&mut self.notes)
    }

    /// Whether anything is kept of what is pushed, be it in the hash alone.
    pub(crate) fn is_on(&self) -> bool {
        self.mode != TraceMode::Off
    }

    pub(crate) fn push(&mut self, at_ns: Nanos, event: TraceEvent) {
        if !self.is_on() {
            return;
        }
        self.absorb(at_ns, &event);
        let number = self.count;
        self.count += 1;
        match self.mode {
            TraceMode::Off | TraceMode::Hash | TraceMode::Last(0) => return,
            TraceMode::Last(bound) if self.kept.len() >= bound => {
                self.kept.pop_front();
            }
            TraceMode::Last(_) | TraceMode::Full => {}
        }
        self.kept.push_back(TraceRecord {
            number,
            at_ns,
            event,
        });
    }

    fn absorb(&mut self, at_ns: Nanos, event: &TraceEvent) {
        let text = |text: &str| xxh3_64(text.as_bytes());
        let [code, a, b, c, d, e] = match event {
            TraceEvent::Open { incarnation } => [1, *incarnation, 0, 0, 0, 0],
            TraceEvent::Request { id, op, hash } => [2, *id, text(op), *hash, 0, 0],
            TraceEvent::Returned { fuel, wake_at } => {
                [3, *fuel, wake_at.map_or(u64::MAX, |at| at), 0, 0, 0]
            }
            TraceEvent::Submit {
                op,
                tag,
                kind,
                offset,
                len_bytes,
                hash,
            } => [4, *op, *tag ^ text(kind), *offset, *len_bytes, *hash],
            TraceEvent::Complete {
                op,
                tag,
                error,
                hash,
            } => [
                5,
                *op,
                *tag,
                error.map_or(0, |error| error as u64 + 1),
                *hash,
                0,
            ],
            TraceEvent::Step { op, kind, hash, .. } => [12, *op, text(kind), *hash, 0, 0],
            TraceEvent::Tick => [6, 0, 0, 0, 0, 0],
            TraceEvent::Reply { id, status, hash } => [7, *id, *status as u64, *hash, 0, 0],
            TraceEvent::Log { level, text: line } => [8, *level as u64, text(line), 0, 0, 0],
            TraceEvent::Fault { verdict } => [9, text(verdict), 0, 0, 0, 0],
            TraceEvent::Mark { name } => [11, text(name), 0, 0, 0, 0],
            TraceEvent::Crash(report) => [
                10,
                report.kind as u64,
                report.pending,
                report.lost,
                report.torn,
                hash_state(report),
            ],
        };
        for number in [at_ns, code, a, b, c, d, e] {
            self.hasher.update(&number.to_le_bytes());
        }
    }
}

fn hash_state(report: &CrashReport) -> u64 {
    let mut words = Vec::new();
    for survivor in &report.state.survivors {
        words.push(survivor.id);
        if let Sectors::Torn {
            kept,
            garbage,
            torn_at,
            unreadable,
        } = &survivor.sectors
        {
            words.push(kept.len() as u64);
            words.extend_from_slice(kept);
            for (sector, number) in [garbage, torn_at].into_iter().flatten() {
                words.extend_from_slice(&[*sector, *number]);
            }
            words.extend(unreadable.map(|sector| !sector));
        }
    }
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    xxh3_64(&bytes)
}

/// Kind, offset, length and content hash of an operation.
pub(crate) fn describe(op: &Op, hashed: bool) -> (&'static str, u64, u64, u64) {
    match op {
        Op::Read { offset, len_bytes } => ("read", *offset, u64::from(*len_bytes), 0),
        Op::Write {
            offset,
            data,
            through,
        } => {
            let kind = if *through { "write_through" } else { "write" };
            let hash = if hashed { xxh3_64(data) } else { 0 };
            (kind, *offset, data.len() as u64, hash)
        }
        Op::Flush => ("flush", 0, 0, 0),
        Op::Barrier => ("barrier", 0, 0, 0),
        Op::Discard { offset, len_bytes } => ("discard", *offset, u64::from(*len_bytes), 0),
        Op::Grow { new_bytes } => ("grow", *new_bytes, 0, 0),
    }
}

/// The hash of what a reply carries.
pub(crate) fn hash_body(reply: &Reply) -> u64 {
    match &reply.body {
        Body::Empty => 0,
        Body::Value(bytes) => xxh3_64(bytes),
        Body::Message(text) => xxh3_64(text.as_bytes()),
        Body::Snapshot(id) => *id,
        Body::Entries { entries, more } => {
            let mut hasher = Xxh3::new();
            for (key, value) in entries {
                hasher.update(&(key.len() as u64).to_le_bytes());
                hasher.update(key);
                hasher.update(&(value.len() as u64).to_le_bytes());
                hasher.update(value);
            }
            hasher.update(&[u8::from(*more)]);
            hasher.digest()
        }
    }
}

/// The first pair of events that differs, of two traces kept in full; one side is missing where a trace ends early.
#[must_use]
pub fn first_difference<'a>(
    one: &'a Trace,
    two: &'a Trace,
) -> Option<(Option<&'a TraceRecord>, Option<&'a TraceRecord>)> {
    let (mut ones, mut twos) = (one.events(), two.events());
    loop {
        match (ones.next(), twos.next()) {
            (None, None) => return None,
            (a, b) if a != b => return Some((a, b)),
            _ => {}
        }
    }
}
