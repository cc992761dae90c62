//! Snapshots.

use kvsim_native::Snapshot;

use crate::border::{Kind, border, bytes, free, give, place, shared};
use crate::database::{Kvdb, KvdbValue, found};
use crate::error::{KvdbError, KvdbStatus};

/// One moment of a database, which later writes do not change.
pub struct KvdbSnapshot(());

impl Kind for KvdbSnapshot {
    type Inside = Snapshot;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb sna");
}

/// Takes a snapshot of everything that was accepted so far. What is overwritten or deleted later keeps its space until the snapshot and all cursors of it are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_snapshot_new(
    db: *const Kvdb,
    snapshot: *mut *mut KvdbSnapshot,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let snapshot = unsafe { place(snapshot, std::ptr::null_mut(), "snapshot") }?;
        // SAFETY: the same.
        let db = unsafe { shared(db, "db") }?;
        *snapshot = give::<KvdbSnapshot>(db.snapshot()?);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads a key as it was. KVDB_NOT_FOUND, with NULL for the value, if there was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_snapshot_get(
    snapshot: *const KvdbSnapshot,
    key: *const u8,
    key_len: usize,
    value: *mut *mut KvdbValue,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let value = unsafe { place(value, std::ptr::null_mut(), "value") }?;
        // SAFETY: the same.
        let snapshot = unsafe { shared(snapshot, "snapshot") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(found(snapshot.get(key)?, value))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees a snapshot. Cursors of it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_snapshot_free(snapshot: *mut KvdbSnapshot) {
    // SAFETY: as the header demands.
    unsafe { free(snapshot) }
}
