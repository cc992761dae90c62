//! Requests that wait, and what becomes of one.

use crate::api::port::{Direction, Durability, Mutation, Request, ScanRange, SnapshotId, Status};

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Answered, or under way.
    Taken,
    /// There is no room at the moment.
    Stall,
    /// Entries of the index have to be read first, which is under way.
    Awaits,
    /// Refused, with nothing changed.
    Refused(Status, String),
}

/// A mutation that outlives the call it came with.
#[derive(Debug)]
pub struct OwnedMutation {
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

impl OwnedMutation {
    /// A copy of it.
    #[must_use]
    pub fn new(mutation: &Mutation<'_>) -> OwnedMutation {
        let (key, value) = match mutation {
            Mutation::Put { key, value } => (*key, Some(*value)),
            Mutation::Delete { key } => (*key, None),
        };
        OwnedMutation {
            key: key.into(),
            value: value.map(Into::into),
        }
    }

    /// As calls of the engine take it.
    #[must_use]
    pub fn borrow(&self) -> Mutation<'_> {
        match &self.value {
            Some(value) => Mutation::Put {
                key: &self.key,
                value,
            },
            None => Mutation::Delete { key: &self.key },
        }
    }
}

/// A range that outlives the call it came with.
#[derive(Debug)]
pub struct OwnedRange {
    snapshot: SnapshotId,
    direction: Direction,
    start: Option<Box<[u8]>>,
    end: Option<Box<[u8]>>,
    limit: u32,
    max_bytes: u32,
}

impl OwnedRange {
    /// A copy of it.
    #[must_use]
    pub fn new(range: &ScanRange<'_>) -> OwnedRange {
        OwnedRange {
            snapshot: range.snapshot,
            direction: range.direction,
            start: range.start.map(Into::into),
            end: range.end.map(Into::into),
            limit: range.limit,
            max_bytes: range.max_bytes,
        }
    }

    /// As calls of the engine take it.
    #[must_use]
    pub fn borrow(&self) -> ScanRange<'_> {
        ScanRange {
            snapshot: self.snapshot,
            direction: self.direction,
            start: self.start.as_deref(),
            end: self.end.as_deref(),
            limit: self.limit,
            max_bytes: self.max_bytes,
        }
    }
}

/// A request that outlives the call it came with.
#[derive(Debug)]
pub(crate) enum OwnedRequest {
    Write {
        mutations: Vec<OwnedMutation>,
        durability: Durability,
    },
    Get {
        snapshot: SnapshotId,
        key: Box<[u8]>,
    },
    Scan(OwnedRange),
    Know(OwnedRange),
    Snapshot,
    Release {
        snapshot: SnapshotId,
    },
    Sync,
    Close,
}

impl OwnedRequest {
    pub(crate) fn new(request: &Request<'_>) -> OwnedRequest {
        match request {
            Request::Write {
                mutations,
                durability,
            } => OwnedRequest::Write {
                mutations: mutations.iter().map(OwnedMutation::new).collect(),
                durability: *durability,
            },
            Request::Get { snapshot, key } => OwnedRequest::Get {
                snapshot: *snapshot,
                key: (*key).into(),
            },
            Request::Scan(range) => OwnedRequest::Scan(OwnedRange::new(range)),
            Request::Know(range) => OwnedRequest::Know(OwnedRange::new(range)),
            Request::Snapshot => OwnedRequest::Snapshot,
            Request::Release { snapshot } => OwnedRequest::Release {
                snapshot: *snapshot,
            },
            Request::Sync => OwnedRequest::Sync,
            Request::Close => OwnedRequest::Close,
        }
    }
}
