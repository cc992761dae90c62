//! Which keyspaces there are, as it lies in the file: a few keys that begin with a byte of their own.
//!
//! | key | value |
//! | --- | --- |
//! | `\0keyspaces` | `kvsim keyspaces `, and the version of this format, 4 bytes |
//! | `\0next` | the identifier that the next keyspace gets, 4 bytes |
//! | `\0name/` and a name | the identifier of the keyspace, 4 bytes |
//! | `\0dropped/` and an identifier, 4 bytes | nothing |
//!
//! Numbers are little-endian in values, and big-endian in keys. Whatever changes together is one batch.
//!
//! Invariants:
//! - every identifier that was ever given is below the next one, so none is given twice;
//! - a key that has the prefix of a keyspace belongs to one that has a name, or to one that is dropped and whose keys are being removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::error::{KEYSPACE_NAME_BYTES_MAX, KeyspaceError};
use super::identifier;
use crate::api::error::Failure;
use crate::api::key_range::Prefix;
use crate::database::Database;
use crate::database::batch::WriteBatch;

/// The byte that all keys of the catalogue begin with, and no other key.
const BYTE: u8 = 0;
const FORMAT_KEY: &[u8] = b"\0keyspaces";
const NEXT_KEY: &[u8] = b"\0next";
const NAME_KEYS: &[u8] = b"\0name/";
const DROPPED_KEYS: &[u8] = b"\0dropped/";
const FORMAT: &[u8] = b"kvsim keyspaces ";
const VERSION: u32 = 1;

/// What the catalogue says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Catalogue {
    pub(super) next: u32,
    /// Identifiers by name.
    pub(super) named: BTreeMap<String, u32>,
    /// Identifiers of which there may be keys that nobody reads any more.
    pub(super) dropped: BTreeSet<u32>,
}

impl Catalogue {
    /// That of a file without keyspaces.
    pub(super) fn new() -> Catalogue {
        Catalogue {
            next: 1,
            named: BTreeMap::new(),
            dropped: BTreeSet::new(),
        }
    }
}

/// Why there is no catalogue to be had.
#[derive(Debug)]
pub(super) enum Unusable {
    /// It cannot be read.
    Failed(Failure),
    /// It says something else than it should.
    Wrong(String),
}

impl From<Failure> for Unusable {
    fn from(failure: Failure) -> Unusable {
        Unusable::Failed(failure)
    }
}

/// Reads the catalogue; `None`: there is nothing in the database at all.
pub(super) fn read(database: &Database) -> Result<Option<Catalogue>, Unusable> {
    let Some(format) = database.get(FORMAT_KEY)? else {
        return match database.iter()?.next().transpose()? {
            None => Ok(None),
            Some(_) => Err(plain()),
        };
    };
    let version = format.strip_prefix(FORMAT).ok_or_else(plain)?;
    match number(version) {
        Some(VERSION) => {}
        Some(other) => {
            return Err(Unusable::Wrong(format!(
                "its keyspaces have format version {other}, and this version of kvsim knows {VERSION}: open it with the version that wrote it"
            )));
        }
        None => return Err(damaged(FORMAT_KEY)),
    }
    let next = database.get(NEXT_KEY)?;
    let next = next.as_deref().and_then(number);
    let mut catalogue = Catalogue {
        next: next.ok_or_else(|| damaged(NEXT_KEY))?,
        ..Catalogue::new()
    };
    if !(1..=identifier::END).contains(&catalogue.next) {
        return Err(damaged(NEXT_KEY));
    }
    let mut given = BTreeSet::new();
    for entry in database.range(Prefix([BYTE]))? {
        let entry = entry?;
        let (key, value) = (&*entry.key, &*entry.value);
        if key == FORMAT_KEY || key == NEXT_KEY {
            continue;
        }
        let wrong = || damaged(key);
        let one = if let Some(name) = key.strip_prefix(NAME_KEYS) {
            let name = str::from_utf8(name).map_err(|_| wrong())?;
            check_name(name).map_err(|_| wrong())?;
            let one = number(value).ok_or_else(wrong)?;
            catalogue.named.insert(name.to_owned(), one);
            one
        } else {
            let one = key.strip_prefix(DROPPED_KEYS).ok_or_else(wrong)?;
            let one = u32::from_be_bytes(one.try_into().map_err(|_| wrong())?);
            catalogue.dropped.insert(one);
            one
        };
        if !(1..catalogue.next).contains(&one) || !given.insert(one) {
            return Err(wrong());
        }
    }
    Ok(Some(catalogue))
}

fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn plain() -> Unusable {
    Unusable::Wrong(
        "it holds keys that are in no keyspace: open it as a database, or take a new file for keyspaces"
            .to_owned(),
    )
}

fn damaged(key: &[u8]) -> Unusable {
    let mut shown = String::new();
    for byte in key {
        let _ = write!(shown, "{}", byte.escape_ascii());
    }
    Unusable::Wrong(format!(
        "the key `{shown}` of its catalogue of keyspaces is not as kvsim writes it, so somebody else has written to it: open it as a database and correct the key, or open a backup"
    ))
}

/// Refuses what cannot be a name.
pub(super) fn check_name(name: &str) -> Result<(), KeyspaceError> {
    let (bytes, has_zero) = (name.len(), name.contains('\0'));
    match (1..=KEYSPACE_NAME_BYTES_MAX).contains(&bytes) && !has_zero {
        true => Ok(()),
        false => Err(KeyspaceError::Name { bytes, has_zero }),
    }
}

fn name_key(name: &str) -> Vec<u8> {
    [NAME_KEYS, name.as_bytes()].concat()
}

fn dropped_key(identifier: u32) -> Vec<u8> {
    [DROPPED_KEYS, &identifier.to_be_bytes()].concat()
}

/// Divides an empty database.
pub(super) fn divided() -> WriteBatch {
    let mut batch = WriteBatch::new();
    let format = [FORMAT, &VERSION.to_le_bytes()].concat();
    batch.put(FORMAT_KEY, &format);
    batch.put(NEXT_KEY, &Catalogue::new().next.to_le_bytes());
    batch
}

/// Adds a keyspace.
pub(super) fn created(name: &str, identifier: u32) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(&name_key(name), &identifier.to_le_bytes());
    batch.put(NEXT_KEY, &(identifier + 1).to_le_bytes());
    batch
}

/// Gives a keyspace another name.
pub(super) fn renamed(from: &str, to: &str, identifier: u32) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.delete(&name_key(from));
    batch.put(&name_key(to), &identifier.to_le_bytes());
    batch
}

/// Takes a keyspace from its readers.
pub(super) fn dropped(name: &str, identifier: u32) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.delete(&name_key(name));
    batch.put(&dropped_key(identifier), b"");
    batch
}

/// Forgets a dropped keyspace of which there is no key.
pub(super) fn removed(identifier: u32) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.delete(&dropped_key(identifier));
    batch
}
