//! Batches of writes.

use kvsim_native::WriteBatch;

use crate::border::{Kind, alone, border, border_or, bytes, free, give, shared};
use crate::database::{Kvdb, durability};
use crate::error::{KvdbError, KvdbStatus};

/// Writes that take effect together or not at all, in their order.
pub struct KvdbBatch(());

impl Kind for KvdbBatch {
    type Inside = WriteBatch;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb bat");
}

/// A batch without writes. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn kvdb_batch_new() -> *mut KvdbBatch {
    give(WriteBatch::new())
}

/// Adds a write that sets a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_batch_put(
    batch: *mut KvdbBatch,
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
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let value = unsafe { bytes(value, value_len, "value") }?;
        batch.put(key, value);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Adds a write that removes a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_batch_delete(
    batch: *mut KvdbBatch,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let batch = unsafe { alone(batch, "batch") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        batch.delete(key);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// How many writes a batch has; 0 if `batch` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_batch_len(batch: *const KvdbBatch) -> usize {
    border_or(0, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(batch, "batch") }?.len())
    })
}

/// Removes all writes of a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_batch_clear(
    batch: *mut KvdbBatch,
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

/// Writes all of a batch or nothing. The batch stays as it is, and is yours.
///
/// KVDB_INVALID if a key or value is too large, or if the batch does not fit into one frame of the log, which holds nearly 1 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_write(
    db: *const Kvdb,
    batch: *const KvdbBatch,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let batch = unsafe { shared(batch, "batch") }?;
        db.apply(batch, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_batch_free(batch: *mut KvdbBatch) {
    // SAFETY: as the header demands.
    unsafe { free(batch) }
}
