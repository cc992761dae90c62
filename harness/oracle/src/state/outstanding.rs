//! Requests that wait for their answers.

use super::views::Place;
use crate::answers::limits::Shape;
use crate::answers::space::Room;
use crate::history::Pos;
use crate::keys::KeyId;
use crate::truth::RunFaults;
use kvsim_sim::api::{Request, Scan, SnapshotId};

/// A request that waits for its answer.
#[derive(Debug, Clone)]
pub(crate) struct Outstanding {
    pub(crate) op: u64,
    pub(crate) asked: Asked,
    pub(crate) shape: Shape,
    /// What had affected the device in this process run at the last answer before it was handed in.
    pub(crate) faults_before: RunFaults,
    /// What it needs room for.
    pub(crate) room: Room,
    pub(crate) kind: Kind,
}

impl Outstanding {
    /// The position of the snapshot that it asks for.
    pub(crate) fn snapshot_at(&self) -> Option<Pos> {
        match self.kind {
            Kind::Snapshot(place) => Some(place.pos),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Write(Pos),
    /// A sync or a close: everything up to there is durable when it is answered.
    Sync(Pos),
    /// `None`: of a snapshot that there is not.
    Get(KeyId, SnapshotId, Option<Place>),
    /// A get of this key, which no guest takes.
    GetOfNoKey(Vec<u8>),
    Scan(Scan, Option<Place>),
    Snapshot(Place),
    Release(SnapshotId),
    /// A request that is to be refused.
    IllFormed,
}

/// What kind of request it is, as far as its refusals are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A put, a delete or a batch.
    Write,
    /// A get or a scan; whether of a snapshot.
    Read {
        of_snapshot: bool,
    },
    Snapshot,
    Release,
    Sync,
    Close,
}

impl Asked {
    pub(crate) fn of(request: &Request) -> Asked {
        match request {
            Request::Put { .. } | Request::Delete { .. } | Request::Batch { .. } => Asked::Write,
            Request::Get { snapshot, .. } => Asked::Read {
                of_snapshot: *snapshot != 0,
            },
            Request::Scan(scan) => Asked::Read {
                of_snapshot: scan.snapshot != 0,
            },
            Request::Snapshot => Asked::Snapshot,
            Request::Release { .. } => Asked::Release,
            Request::Sync => Asked::Sync,
            Request::Close => Asked::Close,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Asked::Write => "write",
            Asked::Read { .. } => "read",
            Asked::Snapshot => "snapshot",
            Asked::Release => "release",
            Asked::Sync => "sync",
            Asked::Close => "close",
        }
    }

    /// Whether it may have to write.
    pub(crate) fn writes(self) -> bool {
        !matches!(self, Asked::Read { .. } | Asked::Release)
    }
}
