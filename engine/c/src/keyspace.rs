//! One keyspace, and batches of writes to several.

use kvsim_native::{Checked, Keyspace, KeyspaceBatch};

use crate::border::{
    Kind, alone, border, border_or, bytes, bytes_or_null, free, give, place, range, shared,
    shared_or_null,
};
use crate::cursor::KvdbCursor;
use crate::database::{KvdbValue, durability, found};
use crate::error::{KvdbError, KvdbStatus};
use crate::keyspaces::{KvdbKeyspaces, KvdbKeyspacesSnapshot};

/// A keyspace of an open database. Any number of threads may use it at once.
pub struct KvdbKeyspace(());

impl Kind for KvdbKeyspace {
    type Inside = Keyspace;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb ksp");
}

/// Writes to one or several keyspaces that take effect together or not at all, in their order. It is used by one thread at a time.
pub struct KvdbKeyspacesBatch(());

impl Kind for KvdbKeyspacesBatch {
    type Inside = KeyspaceBatch;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb ksb");
}

/// Frees a handle of a keyspace. The keyspace stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_free(keyspace: *mut KvdbKeyspace) {
    // SAFETY: as the header demands.
    unsafe { free(keyspace) }
}

/// Sets a key of 1 to 1,020 bytes: see kvdb_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_put(
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let value = unsafe { bytes(value, value_len, "value") }?;
        keyspace.put(key, value, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Removes a key. To remove what is not there is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_delete(
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        keyspace.delete(key, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads a key. KVDB_NOT_FOUND, with NULL for the value, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_get(
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    value: *mut *mut KvdbValue,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let value = unsafe { place(value, std::ptr::null_mut(), "value") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(found(keyspace.get(key)?, value))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Whether there is such a key: KVDB_OK or KVDB_NOT_FOUND. Its value is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_contains(
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(match keyspace.contains(key)? {
            true => KvdbStatus::KvdbOk,
            false => KvdbStatus::KvdbNotFound,
        })
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Sets a key to `value`, or removes it if that is NULL, if it has the value `old`, or if there is no such key where `old` is NULL: see kvdb_replace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_replace(
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    old: *const u8,
    old_len: usize,
    value: *const u8,
    value_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let old = unsafe { bytes_or_null(old, old_len, "old") }?;
        // SAFETY: the same.
        let value = unsafe { bytes_or_null(value, value_len, "value") }?;
        let durability = self::durability(durability)?;
        Ok(match keyspace.replace(key, old, value, durability)? {
            Checked::Written => KvdbStatus::KvdbOk,
            Checked::Changed { .. } => KvdbStatus::KvdbNotFound,
        })
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Removes all keys of a keyspace from `start`, included, up to `end`, excluded, together or not at all: see kvdb_delete_range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_delete_range(
    keyspace: *const KvdbKeyspace,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    durability: u32,
    count: *mut u64,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        let mut nowhere = 0;
        let count = if count.is_null() {
            &raw mut nowhere
        } else {
            count
        };
        // SAFETY: as the header demands.
        let count = unsafe { place(count, 0, "count") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let range = unsafe { range((start, start_len), (end, end_len)) }?;
        *count = keyspace.delete_range(range, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// A cursor over the keys of a keyspace from `start`, included, up to `end`, excluded, as `snapshot` has them, or as they are now if that is NULL. It begins before the
/// first, and is a cursor as any other: see kvdb_cursor_new.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_cursor_new(
    keyspace: *const KvdbKeyspace,
    snapshot: *const KvdbKeyspacesSnapshot,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    cursor: *mut *mut KvdbCursor,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let cursor = unsafe { place(cursor, std::ptr::null_mut(), "cursor") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let snapshot = unsafe { shared_or_null(snapshot, "snapshot") }?;
        // SAFETY: the same.
        let range = unsafe { range((start, start_len), (end, end_len)) }?;
        *cursor = give::<KvdbCursor>(match snapshot {
            Some(snapshot) => snapshot.cursor(keyspace, range)?,
            None => keyspace.cursor(range)?,
        });
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// A batch of writes to keyspaces, without writes. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn kvdb_keyspaces_batch_new() -> *mut KvdbKeyspacesBatch {
    give(KeyspaceBatch::new())
}

/// Adds a write that sets a key of a keyspace, whose handle may be freed before the batch is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_batch_put(
    batch: *mut KvdbKeyspacesBatch,
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let batch = unsafe { alone(batch, "batch") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let value = unsafe { bytes(value, value_len, "value") }?;
        batch.put(keyspace, key, value);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Adds a write that removes a key of a keyspace, whose handle may be freed before the batch is written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_batch_delete(
    batch: *mut KvdbKeyspacesBatch,
    keyspace: *const KvdbKeyspace,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let batch = unsafe { alone(batch, "batch") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        batch.delete(keyspace, key);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// How many writes a batch has; 0 if `batch` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_batch_len(batch: *const KvdbKeyspacesBatch) -> usize {
    border_or(0, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(batch, "batch") }?.len())
    })
}

/// Removes all writes of a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_batch_clear(
    batch: *mut KvdbKeyspacesBatch,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        unsafe { alone(batch, "batch") }?.clear();
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Writes all of a batch or nothing, in all its keyspaces. The batch stays as it is, and is yours.
///
/// As kvdb_write; KVDB_INVALID too if the batch names a keyspace of another database, or one that was dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_write(
    keyspaces: *const KvdbKeyspaces,
    batch: *const KvdbKeyspacesBatch,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        // SAFETY: the same.
        let batch = unsafe { shared(batch, "batch") }?;
        keyspaces.apply(batch, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees a batch of writes to keyspaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_batch_free(batch: *mut KvdbKeyspacesBatch) {
    // SAFETY: as the header demands.
    unsafe { free(batch) }
}
