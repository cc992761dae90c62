//! From the events of a trace to lines in lanes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use kvsim_sim::api::{RequestId, Status};
use kvsim_sim::{Notes, Trace, TraceEvent, TraceRecord};
use kvsim_simdisk::{CrashKind, DiskError, Nanos};
use serde::{Serialize, Serializer};

use super::words;
use kvsim_api::units::{nanoseconds, thousands};
use kvsim_workload::PRELOAD_WRITER;

/// Whose line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The plug.
    Power,
    /// The guest itself.
    Guest,
    /// Whoever loads the records that are there before the clients begin, and closes the database.
    Loader,
    /// A client.
    Client(u32),
    /// Whoever reads back after a recovery.
    Checker,
    /// Reads of the device.
    Reads,
    /// Writes, discards and growths of the device.
    Writes,
    /// Flushes of the device.
    Flushes,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Lane::Client(client) => return f.pad(&format!("client {client}")),
            Lane::Power => "power",
            Lane::Guest => "guest",
            Lane::Loader => "loader",
            Lane::Checker => "checker",
            Lane::Reads => "read",
            Lane::Writes => "write",
            Lane::Flushes => "flush",
        };
        f.pad(name)
    }
}

impl Serialize for Lane {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What kind of thing happened, for whoever draws it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A fresh instance opens.
    Open,
    /// A request reached the guest.
    Request(RequestId),
    /// It was answered.
    Reply(RequestId, Status),
    /// An operation reached the device.
    Submit(u64),
    /// A fault affected it.
    Strike(u64),
    /// It ended, well or not.
    Complete(u64, Option<DiskError>),
    /// The power was cut or the process killed; which of the notes' cuts it is.
    Cut(usize),
    /// What the cut did to one operation.
    Fate,
    /// The guest says something.
    Log,
    /// A step of a file system.
    Step,
    /// The guest reached a named point.
    CoveragePoint,
    /// The guest did what no guest may.
    Fault,
}

/// One line.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Which device, from 1.
    pub device: u64,
    /// The number of the event in the trace of the device.
    pub event: u64,
    /// Virtual time.
    pub at_ns: Nanos,
    /// Whose line it is.
    pub lane: Lane,
    /// What happened.
    pub what: String,
    /// What kind of thing that is.
    #[serde(skip)]
    pub kind: Kind,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.at_ns / 1_000_000, self.at_ns % 1_000_000);
        write!(f, "{whole:>6}.{rest:06} ms  {:<10} ", self.lane)?;
        let indent = if self.kind == Kind::Fate { "    " } else { "" };
        write!(f, "{indent}{}", self.what)
    }
}

/// An operation under way.
struct Submitted {
    at_ns: Nanos,
    lane: Lane,
}

/// The lines of one trace.
pub struct Entries<'a> {
    device: u64,
    records: Box<dyn Iterator<Item = &'a TraceRecord> + 'a>,
    notes: &'a Notes,
    asked_at: BTreeMap<RequestId, Nanos>,
    submitted: BTreeMap<u64, Submitted>,
    opened_at: Nanos,
    cuts: usize,
    /// Faults that have their line.
    struck: usize,
    /// Lines of an event that has more than one.
    more: VecDeque<Entry>,
}

impl<'a> Entries<'a> {
    /// Those of a device's trace.
    #[must_use]
    pub fn new(device: u64, trace: &'a Trace) -> Entries<'a> {
        Entries {
            device,
            records: Box::new(trace.events()),
            notes: trace.notes(),
            asked_at: BTreeMap::new(),
            submitted: BTreeMap::new(),
            opened_at: 0,
            cuts: 0,
            struck: 0,
            more: VecDeque::new(),
        }
    }

    fn lane_of(&self, id: RequestId) -> Lane {
        if id == 0 {
            return Lane::Guest;
        }
        match self.notes.asked.get(&id).map(|asked| asked.client) {
            Some(Some(PRELOAD_WRITER)) => Lane::Loader,
            Some(Some(client)) => Lane::Client(client),
            Some(None) | None => Lane::Checker,
        }
    }

    /// `op 12` for a client's request, nothing for other questions.
    fn number_of(&self, id: RequestId) -> String {
        let number = self.notes.asked.get(&id).and_then(|asked| asked.number);
        number.map_or_else(String::new, |number| format!("op {number}: "))
    }

    fn line(&mut self, record: &TraceRecord) -> Option<(Lane, String, Kind)> {
        let at_ns = record.at_ns;
        Some(match &record.event {
            TraceEvent::Open { process_run } => {
                self.opened_at = at_ns;
                let what = format!("a fresh instance opens the device (process run {process_run})");
                (Lane::Guest, what, Kind::Open)
            }
            TraceEvent::Request { id, op, .. } => {
                self.asked_at.insert(*id, at_ns);
                let asked = self.notes.asked.get(id);
                let words = asked.map_or(*op, |asked| asked.words.as_str());
                let what = format!("{}{words}", self.number_of(*id));
                (self.lane_of(*id), what, Kind::Request(*id))
            }
            TraceEvent::Reply { id, status, .. } => {
                let began = self.asked_at.remove(id).unwrap_or(self.opened_at);
                let said = self.notes.said.get(&record.number);
                let words = said.map_or_else(|| words::status(*status), String::as_str);
                let after = nanoseconds(at_ns.saturating_sub(began));
                let what = if *id == 0 {
                    format!("opening answered after {after}: {words}")
                } else {
                    format!("{}answered after {after}: {words}", self.number_of(*id))
                };
                (self.lane_of(*id), what, Kind::Reply(*id, *status))
            }
            TraceEvent::Submit {
                op,
                kind,
                offset,
                len_bytes,
                ..
            } => {
                let (lane, what) = match *kind {
                    "read" => (Lane::Reads, words::extent(*offset, *len_bytes)),
                    "write" => (Lane::Writes, words::extent(*offset, *len_bytes)),
                    "write_through" => (
                        Lane::Writes,
                        format!("{}, through", words::extent(*offset, *len_bytes)),
                    ),
                    "flush" => (Lane::Flushes, "begins".to_owned()),
                    "grow" => (
                        Lane::Writes,
                        format!("growth to {} bytes", thousands(*offset)),
                    ),
                    other => (
                        Lane::Writes,
                        format!("{other} of {}", words::extent(*offset, *len_bytes)),
                    ),
                };
                self.submitted.insert(*op, Submitted { at_ns, lane });
                self.strikes(record, lane);
                (lane, format!("io {op}: {what}"), Kind::Submit(*op))
            }
            TraceEvent::Complete { op, error, .. } => {
                let begun = self.submitted.remove(op);
                let (lane, since) = begun.map_or((Lane::Writes, at_ns), |submitted| {
                    (submitted.lane, submitted.at_ns)
                });
                let after = nanoseconds(at_ns.saturating_sub(since));
                let what = match error {
                    None => format!("io {op}: done after {after}"),
                    Some(error) => format!("io {op}: FAILED after {after}: {error}"),
                };
                (lane, what, Kind::Complete(*op, *error))
            }
            TraceEvent::Log { level, text } => {
                let level = format!("{level:?}").to_lowercase();
                (Lane::Guest, format!("{level}: {text}"), Kind::Log)
            }
            TraceEvent::Step { op, kind, what, .. } => {
                let lane = match *kind {
                    "step" => Lane::Writes,
                    _ => Lane::Flushes,
                };
                self.strikes(record, lane);
                (lane, format!("call {op}: {what}"), Kind::Step)
            }
            TraceEvent::CoveragePoint { name } => (
                Lane::Guest,
                format!("coverage point {name}"),
                Kind::CoveragePoint,
            ),
            TraceEvent::Fault { verdict } => (Lane::Guest, verdict.clone(), Kind::Fault),
            TraceEvent::Crash(report) => {
                let what = match report.kind {
                    CrashKind::Power => format!(
                        "CUT: {} pending, {} lost, {} torn{}",
                        report.pending,
                        report.lost,
                        report.torn,
                        if report.in_flush { ", in a flush" } else { "" }
                    ),
                    CrashKind::Process => format!(
                        "PROCESS KILLED: the device keeps its power and {} pending",
                        report.pending
                    ),
                };
                self.asked_at.clear();
                self.submitted.clear();
                self.fates(record);
                self.cuts += 1;
                (Lane::Power, what, Kind::Cut(self.cuts - 1))
            }
            // What the guest spends and when it is woken is not what happens to data.
            TraceEvent::Returned { .. } | TraceEvent::Tick => return None,
        })
    }

    /// What affected the operation that this event submits: a line each.
    fn strikes(&mut self, record: &TraceRecord, lane: Lane) {
        let fired = self.notes.faults.iter().skip(self.struck);
        for fired in fired.take_while(|fired| fired.event <= record.number) {
            self.struck += 1;
            let op = fired.fault.op();
            self.more.push_back(Entry {
                device: self.device,
                event: record.number,
                at_ns: record.at_ns,
                lane,
                what: format!("io {op}: FAULT {}", words::strike(&fired.fault)),
                kind: Kind::Strike(op),
            });
        }
    }

    fn fates(&mut self, record: &TraceRecord) {
        let Some(cut) = self.notes.cuts.get(self.cuts) else {
            return;
        };
        for op in &cut.pending {
            let state = match (op.completed, op.dropped) {
                (_, true) => ", dropped by a failed flush",
                (true, false) => ", complete",
                (false, false) => ", under way",
            };
            let fate = words::fate(op, cut.sector_bytes);
            self.more.push_back(Entry {
                device: self.device,
                event: record.number,
                at_ns: record.at_ns,
                lane: Lane::Power,
                what: format!("io {}, {}{state}: {fate}", op.op, words::operation(op)),
                kind: Kind::Fate,
            });
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(entry) = self.more.pop_front() {
            return Some(entry);
        }
        loop {
            let record = self.records.next()?;
            if let Some((lane, what, kind)) = self.line(record) {
                return Some(Entry {
                    device: self.device,
                    event: record.number,
                    at_ns: record.at_ns,
                    lane,
                    what,
                    kind,
                });
            }
        }
    }
}
