//! Clients, and the requests of which their operations are made.

use kvsim_sim::api::Request;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names a client: 0 to `clients` − 1.
pub type ClientId = u32;

/// The writer named in preloaded values.
pub const PRELOAD_WRITER: ClientId = ClientId::MAX;

/// What a request is part of; the kinds that latencies are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// A put of a key of the key space.
    Put,
    /// A put of a new key.
    Insert,
    /// A delete.
    Delete,
    /// A get.
    Get,
    /// A scan.
    Scan,
    /// A batch.
    Batch,
    /// A read-modify-write: its get and its put.
    ReadModifyWrite,
    /// A snapshot, its reads and its release.
    Snapshot,
    /// A sync.
    Sync,
    /// An ill-formed request, another edge case, or a request at a limit.
    EdgeCase,
}

impl OpKind {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Put => "put",
            OpKind::Insert => "insert",
            OpKind::Delete => "delete",
            OpKind::Get => "get",
            OpKind::Scan => "scan",
            OpKind::Batch => "batch",
            OpKind::ReadModifyWrite => "read_modify_write",
            OpKind::Snapshot => "snapshot",
            OpKind::Sync => "sync",
            OpKind::EdgeCase => "edge_case",
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is part of.
    pub kind: OpKind,
    /// The request.
    pub request: Request,
    /// How long the client thinks before it sends it: 0 within an operation of several requests.
    pub think_ns: u64,
    /// Whether the operation ends with the answer to this request.
    pub last: bool,
}
