//! How the oracle's findings are said to a person.

use super::history::Origin;
use super::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::recoveries::observation::Strange;
use crate::violation::Facts;
use kvsim_api::key::printable;
use kvsim_api::value::Reading;
use kvsim_sim::api::{Body, Reply};
use kvsim_simdisk::Nanos;

/// A moment of virtual time.
pub(crate) fn at(ns: Nanos) -> String {
    format!("{}.{:06} ms", ns / 1_000_000, ns % 1_000_000)
}

/// A reply in short.
pub(crate) fn answer(reply: &Reply) -> String {
    let body = match &reply.body {
        Body::Empty => String::new(),
        Body::Value(value) => format!(" with a value of {} bytes", value.len()),
        Body::Entries { entries, .. } => format!(" with {} entries", entries.len()),
        Body::Snapshot(id) => format!(" with snapshot {id}"),
        Body::Message(message) if message.is_empty() => String::new(),
        Body::Message(message) => format!(": {message}"),
    };
    format!("`{:?}`{body}", reply.status)
}

/// What the guest said with an error, if anything.
pub(crate) fn message(reply: &Reply) -> Option<String> {
    match &reply.body {
        Body::Message(message) if !message.is_empty() => Some(message.clone()),
        _ => None,
    }
}

/// When and how a write was acknowledged.
pub(crate) fn acknowledged(origin: &Origin) -> String {
    match origin.acknowledged_ns {
        Some(ns) => format!("op {}, acknowledged at {}", origin.op, at(ns)),
        None => format!("op {}, never acknowledged", origin.op),
    }
}

impl Oracle {
    /// A key's name for a person.
    pub(crate) fn key_name(&self, key: KeyId) -> String {
        printable(self.history.keys.name(key))
    }

    /// A content of a key for a person.
    pub(crate) fn describe(&self, key: KeyId, content: Content) -> String {
        match self.history.origin_of(key, content) {
            _ if content.is_absent() => "nothing".to_owned(),
            Some(origin) => format!("the value of op {}", origin.op),
            None => "a value never written to it".to_owned(),
        }
    }

    /// A value that was never written to its key, for a person.
    pub(crate) fn describe_strange(&self, strange: &Strange) -> String {
        let bytes = strange.bytes;
        match strange.reading {
            Reading::Whole(stamp) => match self.key_with_hash(stamp.key_hash) {
                Some(key) if key == printable(&strange.key) => {
                    format!("the old {stamp}, of which no trace should be left")
                }
                Some(key) => format!("the {stamp} that was written to key {key}"),
                None => format!("the {stamp} of a key never written"),
            },
            Reading::Resized {
                stamp,
                written_bytes,
                found_bytes,
            } => {
                format!("{found_bytes} bytes of the {stamp}, which has {written_bytes}")
            }
            Reading::Damaged(stamp) => {
                format!("{bytes} damaged bytes of what seems to be the {stamp}")
            }
            Reading::Foreign => format!("{bytes} bytes that no client wrote"),
            Reading::TooShort => format!("{bytes} bytes that were not written to it, or long ago"),
        }
    }

    fn key_with_hash(&self, hash: u64) -> Option<String> {
        use std::ops::Bound::Unbounded;
        let mut keys = self.history.keys.range(Unbounded, Unbounded);
        keys.find(|(name, _)| kvsim_api::value::key_hash(name) == hash)
            .map(|(name, _)| printable(name))
    }

    /// Facts of this moment.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            crashes: self.crashes,
            ..Facts::default()
        }
    }

    /// Facts about a write to a key.
    pub(crate) fn facts_of(&self, key: KeyId, origin: Option<Origin>) -> Facts {
        Facts {
            key: Some(self.key_name(key)),
            op: origin.map(|origin| origin.op),
            client: origin.map(|origin| origin.client),
            handed_in_ns: origin.map(|origin| origin.handed_in_ns),
            acknowledged_ns: origin.and_then(|origin| origin.acknowledged_ns),
            ..self.facts()
        }
    }

    /// "after crash 3", or before any.
    pub(crate) fn when(&self) -> String {
        match self.crashes {
            0 => "before any crash".to_owned(),
            crashes => format!("after crash {crashes}"),
        }
    }
}
