//! What a guest is to the world: something that is started, called with events, and answers with operations and replies.
//!
//! The world knows guests only through these traits, so a guest can be a module of the ABI, a program above a simulated file
//! system, or plain Rust in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use kvsim_fs::{FileSystem, Moment};
use kvsim_simdisk::{Capabilities, DiskError, Excerpt, Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::GuestError;
use crate::api::{Reply, Request, RequestId};
use crate::offers::Offers;
use crate::places::TracedCall;
use crate::policies::GuestPolicies;

/// The identity of a guest: the BLAKE3 hash of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestHash(pub [u8; 32]);

impl GuestHash {
    /// The hash of a guest's bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        GuestHash(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for GuestHash {
    /// The first 16 bytes, in hexadecimal: enough to tell guests apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..16]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GuestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuestHash({self})")
    }
}

/// What a guest may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestLimits {
    /// Linear memory.
    pub memory_bytes_max: u64,
    /// Fuel of one call; more is a hang.
    pub fuel_per_call: u64,
    /// Events of the world that a request may be with the guest without an answer; more is a guest that is busy for ever.
    pub events_per_answer: u64,
    /// Virtual nanoseconds that a request may be with the guest without an answer while no operation is under way and nothing computes; more is a guest that sleeps.
    pub idle_ns_per_answer: Nanos,
}

impl Default for GuestLimits {
    fn default() -> Self {
        GuestLimits {
            memory_bytes_max: 64 << 20,
            fuel_per_call: 2_000_000_000,
            events_per_answer: 1_000_000,
            idle_ns_per_answer: 10_000_000_000,
        }
    }
}

/// What a guest stores in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Needs {
    /// A block device: it submits operations ([`OutItem::Submit`]).
    Device,
    /// A file system of its own: it calls it and lets out each step ([`OutItem::Step`]).
    Files,
}

/// A guest that can be started any number of times.
pub trait Program: Send + Sync {
    /// What to call it in reports.
    fn name(&self) -> &str;
    /// The name by which a scenario has options for it.
    fn options_name(&self) -> &str {
        self.name()
    }
    /// Its own name and version, as it gives them; empty where it gives none.
    fn engine(&self) -> &str {
        ""
    }
    /// The settings it was built or is opened with, for people; empty where it gives none.
    fn settings(&self) -> &str {
        ""
    }
    /// Its identity.
    fn hash(&self) -> GuestHash;
    /// The file that it was loaded from, if it came from one.
    fn file(&self) -> Option<&Path> {
        None
    }
    /// The names of the points that it may say it has reached; their places are their numbers.
    fn coverage_points(&self) -> &[String] {
        &[]
    }
    /// What it promises, where correct engines differ.
    fn policies(&self) -> GuestPolicies {
        GuestPolicies::default()
    }
    /// What it can be asked for.
    fn offers(&self) -> Offers {
        Offers::default()
    }
    /// What it stores in.
    fn needs(&self) -> Needs {
        Needs::Device
    }
    /// A fresh instance with nothing but its code, of a program that needs a device.
    ///
    /// # Errors
    /// If the instance cannot be made.
    fn start(&self, limits: &GuestLimits) -> Result<Box<dyn Guest>, GuestError>;
    /// The same of a program that uses files: the instance works on a copy of this file system, of which it keeps the settings of what is noted. In
    /// each call it says what time it is ([`FileSystem::set_now`]), lets out the [moments](FileSystem::take_moments), and takes the time that its
    /// calls took ([`FileSystem::take_elapsed_ns`]) at the end.
    ///
    /// # Errors
    /// If the instance cannot be made; always if the program needs a device.
    fn start_on(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
    ) -> Result<Box<dyn Guest>, GuestError> {
        let _ = (limits, files);
        let why = format!("{} uses no files", self.name());
        Err(GuestError::Host(why))
    }
    /// The same, noting for the file-system calls of these numbers ([`FileSystem::ops`]) where in the engine's own code they are made. It does the same
    /// and takes longer.
    ///
    /// # Errors
    /// As of [`Program::start_on`]. A program that cannot tell places starts without noting any.
    fn start_traced(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
        calls: &BTreeSet<u64>,
    ) -> Result<Box<dyn Guest>, GuestError> {
        let _ = calls;
        self.start_on(limits, files)
    }
}

/// A running instance. Dropping it is the crash.
pub trait Guest: Send {
    /// Hands in one event; returns when the guest has nothing more to do.
    ///
    /// # Errors
    /// What the guest did wrong. It must not be called again then.
    fn call(&mut self, now: Nanos, call: Call<'_>, out: &mut Outbox)
    -> Result<CallEnd, GuestError>;

    /// The files as they are after the last call, of a guest that uses files.
    fn files(&self) -> Option<&FileSystem> {
        None
    }

    /// Whether anything it did in this process run depends on the time or on random numbers.
    fn asked_time(&self) -> bool {
        false
    }

    /// The file-system calls that [`Program::start_traced`] was asked for, of those that were made so far.
    fn traced(&self) -> Option<&BTreeMap<u64, TracedCall>> {
        None
    }

    /// The numbers of the coverage points that the last call reached, in order; each is one of its program's.
    fn reached(&self) -> &[u32] {
        &[]
    }
}

/// One event for a guest.
#[derive(Debug)]
pub enum Call<'a> {
    /// Open the database; answered by the reply to request 0.
    Open(&'a OpenConfig),
    /// A client's request.
    Request {
        /// Its number.
        id: RequestId,
        /// What it asks.
        request: &'a Request,
    },
    /// A disk operation has ended.
    Complete {
        /// The tag it was submitted with.
        tag: u64,
        /// A read's bytes, nothing for the others, or the error.
        result: Result<Option<&'a Excerpt>, DiskError>,
    },
    /// The next wake-up is due.
    Tick,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEnd {
    /// Work done.
    pub fuel: u64,
    /// Virtual time that passed inside calls of the file system; 0 of a guest on a device.
    pub elapsed_ns: Nanos,
    /// The guest's next wake-up; replaces the one before.
    pub wake_at: Option<Nanos>,
}

/// What a guest let out, in order.
pub type Outbox = Vec<OutItem>;

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the usual levels")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// One thing that a guest let out.
#[derive(Debug, Clone)]
pub enum OutItem {
    /// A disk operation.
    Submit {
        /// The guest's own name for it.
        tag: u64,
        /// What to do.
        op: Op,
    },
    /// A step of the file system, with a copy of it right after: what a cut there begins from.
    Step(Box<Moment>),
    /// An answer.
    Reply(Reply),
    /// A line for people.
    Log {
        /// The severity.
        level: LogLevel,
        /// What.
        text: String,
    },
}

impl PartialEq for OutItem {
    /// Of steps: whether they are the same step at the same time.
    fn eq(&self, other: &OutItem) -> bool {
        match (self, other) {
            (OutItem::Submit { tag, op }, OutItem::Submit { tag: tags, op: ops }) => {
                tag == tags && op == ops
            }
            (OutItem::Step(one), OutItem::Step(other)) => {
                one.step == other.step && one.after_ns == other.after_ns
            }
            (OutItem::Reply(one), OutItem::Reply(other)) => one == other,
            (
                OutItem::Log { level, text },
                OutItem::Log {
                    level: others,
                    text: other,
                },
            ) => level == others && text == other,
            _ => false,
        }
    }
}

impl Eq for OutItem {}

/// What the guest is told of its device.
pub type DeviceInfo = Capabilities;

/// What a guest is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenConfig {
    /// The device.
    pub device: DeviceInfo,
    /// Linear memory it may use.
    pub memory_bytes_max: u64,
    /// Identity for a database that is created.
    pub db_id: [u8; 16],
    /// The guest's own options.
    pub options: BTreeMap<String, String>,
}
