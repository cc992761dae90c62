//! What a recovery showed: for each key that was read, what it holds.

use crate::keys::{Content, KeyId};
use kvsim_api::value::{self, Reading};
use kvsim_sim::api::Reply;
use xxhash_rust::xxh3::Xxh3;

/// What was seen of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was not read.
    Unasked,
    /// It was read and the guest reported damage or a device error.
    Reported,
    /// Nothing, or a value that was once written to it.
    Holds(Content),
    /// Bytes that were never written to it: an index into [`Observation::strange`].
    Strange(u32),
}

/// A value that was never written to the key that showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Strange {
    pub(crate) key: Vec<u8>,
    /// The key was never written at all.
    pub(crate) unknown_key: bool,
    pub(crate) content: Content,
    pub(crate) bytes: u64,
    pub(crate) reading: Reading,
}

impl Strange {
    pub(crate) fn new(key: &[u8], unknown_key: bool, found: &[u8]) -> Self {
        Strange {
            key: key.to_vec(),
            unknown_key,
            content: Content::of(found),
            bytes: found.len() as u64,
            reading: value::read(found),
        }
    }
}

/// A read that the guest answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) reply: Reply,
    pub(crate) what: String,
}

/// Something wrong with the reads themselves, whatever the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// Two reads of one key differ.
    Differ {
        key: Vec<u8>,
        first: (&'static str, String),
        second: (&'static str, String),
    },
    /// A scan that breaks the rules of scans.
    Malformed { what: String },
    /// A read was refused.
    Refused { what: String },
    /// A reply of a kind that does not answer the request.
    WrongReply { what: String },
}

/// What one recovery showed; made by a [`crate::recoveries::verify::Verification`], judged by the [`crate::oracle::Oracle`].
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// By key number. Keys beyond its end were not read.
    pub(crate) table: Vec<Seen>,
    pub(crate) strange: Vec<Strange>,
    pub(crate) reports: Vec<Report>,
    pub(crate) problem: Option<Problem>,
    /// Where the next recovery's window begins; `None` for the first key.
    pub(crate) next_window: Option<Vec<u8>>,
    /// Values and absences looked at, each read counted.
    pub(crate) reads: u64,
}

impl Observation {
    pub(crate) fn new(keys: usize) -> Self {
        Observation {
            table: vec![Seen::Unasked; keys],
            ..Observation::default()
        }
    }

    pub(crate) fn seen(&self, key: KeyId) -> Seen {
        self.table
            .get(key as usize)
            .copied()
            .unwrap_or(Seen::Unasked)
    }

    /// What a key was seen to hold, if it was seen to hold something legal.
    pub(crate) fn content(&self, key: KeyId) -> Option<Content> {
        match self.seen(key) {
            Seen::Holds(content) => Some(content),
            _ => None,
        }
    }

    /// The content behind `seen`, strange ones included.
    pub(crate) fn content_of(&self, seen: Seen) -> Option<Content> {
        match seen {
            Seen::Holds(content) => Some(content),
            Seen::Strange(at) => Some(self.strange[at as usize].content),
            Seen::Unasked | Seen::Reported => None,
        }
    }

    /// A hash of what each key was seen to hold.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        for seen in &self.table {
            let number = match seen {
                Seen::Unasked => 1,
                Seen::Reported => 2,
                seen => self.content_of(*seen).map_or(3, Content::number),
            };
            hash.update(&number.to_le_bytes());
        }
        hash.digest()
    }

    /// How many keys were read.
    #[must_use]
    pub fn keys_read(&self) -> u64 {
        self.table
            .iter()
            .filter(|seen| **seen != Seen::Unasked)
            .count() as u64
    }

    /// How many values and absences were looked at, each read of a key counted.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// How many reads were answered with a report of damage or of a device error.
    #[must_use]
    pub fn reports(&self) -> u64 {
        self.reports.len() as u64
    }
}
