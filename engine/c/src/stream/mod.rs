//! Streams: values that are too large to be in memory as a whole. Writing them is in `writer`, reading them in `reader`.

pub(crate) mod list;
pub(crate) mod reader;
pub(crate) mod writer;

use kvsim_native::{Failure, Streams};

use crate::border::{Kind, border, bytes, free, give, place, shared};
use crate::database::{Kvdb, durability};
use crate::error::{Failed, KvdbError, KvdbStatus};

/// Large values of a database by key, of any length, which are written and read piece by piece.
pub struct KvdbStreams(());

impl Kind for KvdbStreams {
    type Inside = Streams;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb sts");
}

/// What a writer or reader of a stream says: there is a failure of the database inside.
fn failed(error: std::io::Error) -> Failed {
    let failure = error.get_ref().and_then(|it| it.downcast_ref::<Failure>());
    match failure {
        Some(failure) => failure.clone().into(),
        // A place that there is not.
        None => Failed::invalid(error.to_string()),
    }
}

/// The streams whose entries begin with this prefix of at most 512 bytes. All keys that begin with it are theirs: write none of them, and let no prefix of other streams
/// begin with it.
///
/// Pieces that a crash has left without a stream are removed before it returns, unless the database is read only. So ask for each prefix that is used once after an opening.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_streams_new(
    db: *const Kvdb,
    prefix: *const u8,
    prefix_len: usize,
    streams: *mut *mut KvdbStreams,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let streams = unsafe { place(streams, std::ptr::null_mut(), "streams") }?;
        // SAFETY: the same.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let prefix = unsafe { bytes(prefix, prefix_len, "prefix") }?;
        *streams = give::<KvdbStreams>(db.streams(prefix)?);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// The length of a stream in bytes, and its XXH3 hash of 64 bits; `hash` may be NULL. KVDB_NOT_FOUND if there is no such stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_streams_len(
    streams: *const KvdbStreams,
    key: *const u8,
    key_len: usize,
    len: *mut u64,
    hash: *mut u64,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let len = unsafe { place(len, 0, "len") }?;
        let hash = match hash.is_null() {
            true => None,
            // SAFETY: the same.
            false => Some(unsafe { place(hash, 0, "hash") }?),
        };
        // SAFETY: the same.
        let streams = unsafe { shared(streams, "streams") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        let Some(info) = streams.metadata(key)? else {
            return Ok(KvdbStatus::KvdbNotFound);
        };
        *len = info.bytes;
        if let Some(hash) = hash {
            *hash = info.hash;
        }
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Removes a stream; KVDB_NOT_FOUND if there is none of this key. Who reads it reads on, and its space comes back once nobody does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_streams_delete(
    streams: *const KvdbStreams,
    key: *const u8,
    key_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let streams = unsafe { shared(streams, "streams") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        let deleted = streams.delete(key, self::durability(durability)?)?;
        Ok(match deleted {
            true => KvdbStatus::KvdbOk,
            false => KvdbStatus::KvdbNotFound,
        })
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees streams. Writers, readers and lists of them go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_streams_free(streams: *mut KvdbStreams) {
    // SAFETY: as the header demands.
    unsafe { free(streams) }
}
