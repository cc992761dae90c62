//! Reads, and the places in the commit order that they may see.

use crate::history::Pos;
use crate::keys::{Content, KeyId};
use std::collections::BTreeMap;

/// The place of a read among the other requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The last write handed in before it.
    pub(crate) pos: Pos,
    /// Its operation number, or that of the snapshot that it reads.
    pub(crate) began: u64,
    /// How many requests had been handed in when it was answered, or the snapshot was; `NEVER` if that is still to come.
    pub(crate) until: u64,
}

/// A snapshot of a client.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) place: Place,
    /// What reads of it have shown.
    pub(crate) shown: BTreeMap<KeyId, Content>,
}

impl Snapshot {
    pub(crate) fn new(place: Place) -> Snapshot {
        Snapshot {
            place,
            shown: BTreeMap::new(),
        }
    }
}

/// A read whose answer is right or wrong depending on writes that are not answered.
#[derive(Debug, Clone)]
pub(crate) struct Provisional {
    pub(crate) op: u64,
    pub(crate) key: KeyId,
    pub(crate) place: Place,
    pub(crate) content: Content,
}

pub(crate) enum ReadVerdict {
    Right,
    Provisional,
    Wrong,
}
