//! What a guest is to the world: something that is started, called with events, and answers with operations and replies.
//!
//! The world knows guests only through these traits, so a guest can be a module of the ABI, a program above a simulated file
//! system, or plain Rust in a test.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use kvsim_simdisk::{Capabilities, DiskError, Excerpt, Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::GuestError;
use crate::api::{Reply, Request, RequestId};
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
}

/// A guest that can be started any number of times.
pub trait Program: Send + Sync {
    /// What to call it in reports.
    fn name(&self) -> &str;
    /// The name by which a scenario has options for it.
    fn options_name(&self) -> &str {
        self.name()
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
    /// A fresh instance with nothing but its code.
    ///
    /// # Errors
    /// If the instance cannot be made.
    fn start(&self, limits: &GuestLimits) -> Result<Box<dyn Guest>, GuestError>;
}

/// A running instance. Dropping it is the crash.
pub trait Guest: Send {
    /// Hands in one event; returns when the guest has nothing more to do.
    ///
    /// # Errors
    /// What the guest did wrong. It must not be called again then.
    fn call(&mut self, now: Nanos, call: Call<'_>, out: &mut Outbox)
    -> Result<CallEnd, GuestError>;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutItem {
    /// A disk operation.
    Submit {
        /// The guest's own name for it.
        tag: u64,
        /// What to do.
        op: Op,
    },
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
