//! Requests that wait, and what becomes of one.

use crate::api::port::{Direction, Durability, Mutation, Request, SnapshotId, Status};

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
pub(crate) struct OwnedMutation {
    key: Box<[u8]>,
    value: Option<Box<[u8]>>,
}

impl OwnedMutation {
    pub(crate) fn borrow(&self) -> Mutation<'_> {
        match &self.value {
            Some(value) => Mutation::Put {
                key: &self.key,
                value,
            },
            None => Mutation::Delete { key: &self.key },
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
    Scan {
        snapshot: SnapshotId,
        direction: Direction,
        start: Option<Box<[u8]>>,
        end: Option<Box<[u8]>>,
        limit: u32,
        max_bytes: u32,
    },
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
            } => {
                let own = |mutation: &Mutation<'_>| match mutation {
                    Mutation::Put { key, value } => OwnedMutation {
                        key: (*key).into(),
                        value: Some((*value).into()),
                    },
                    Mutation::Delete { key } => OwnedMutation {
                        key: (*key).into(),
                        value: None,
                    },
                };
                OwnedRequest::Write {
                    mutations: mutations.iter().map(own).collect(),
                    durability: *durability,
                }
            }
            Request::Get { snapshot, key } => OwnedRequest::Get {
                snapshot: *snapshot,
                key: (*key).into(),
            },
            Request::Scan(scan) => OwnedRequest::Scan {
                snapshot: scan.snapshot,
                direction: scan.direction,
                start: scan.start.map(Into::into),
                end: scan.end.map(Into::into),
                limit: scan.limit,
                max_bytes: scan.max_bytes,
            },
            Request::Snapshot => OwnedRequest::Snapshot,
            Request::Release { snapshot } => OwnedRequest::Release {
                snapshot: *snapshot,
            },
            Request::Sync => OwnedRequest::Sync,
            Request::Close => OwnedRequest::Close,
        }
    }
}
