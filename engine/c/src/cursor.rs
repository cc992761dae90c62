//! Cursors.

use kvsim_native::{Cursor, Entry, Failure};

use crate::border::{
    Kind, Outcome, alone, border, border_or, bytes, free, give, place, range, shared,
    shared_or_null,
};
use crate::database::Kvdb;
use crate::error::{KvdbError, KvdbStatus};
use crate::snapshot::KvdbSnapshot;

/// A place in a range of keys as they were at one moment, which moves both ways.
pub struct KvdbCursor(());

impl Kind for KvdbCursor {
    type Inside = Cursor;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb cur");
}

fn moved(entry: Result<Option<Entry<'_>>, Failure>) -> Outcome<KvdbStatus> {
    Ok(match entry? {
        Some(_) => KvdbStatus::KvdbOk,
        None => KvdbStatus::KvdbNotFound,
    })
}

/// A cursor over the keys from `start`, included, up to `end`, excluded, as `snapshot` has them, or as they are now if that is NULL. It begins before the first.
///
/// NULL for `start` is from the first key, NULL for `end` up to the last. Of one snapshot there can be any number of cursors.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_new(
    db: *const Kvdb,
    snapshot: *const KvdbSnapshot,
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
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let snapshot = unsafe { shared_or_null(snapshot, "snapshot") }?;
        // SAFETY: the same.
        let range = unsafe { range((start, start_len), (end, end_len)) }?;
        *cursor = give::<KvdbCursor>(match snapshot {
            Some(snapshot) => snapshot.cursor(range),
            None => db.cursor(range)?,
        });
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Moves to the first entry of the range; KVDB_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_first(
    cursor: *mut KvdbCursor,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { border(error, || moved(alone(cursor, "cursor")?.first())) }
}

/// Moves to the last entry of the range; KVDB_NOT_FOUND if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_last(
    cursor: *mut KvdbCursor,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { border(error, || moved(alone(cursor, "cursor")?.last())) }
}

/// Moves to the next entry, or to the first if the cursor is before it; KVDB_NOT_FOUND if it is behind the last now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_next(
    cursor: *mut KvdbCursor,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { border(error, || moved(alone(cursor, "cursor")?.next())) }
}

/// Moves to the entry before, or to the last if the cursor is behind it; KVDB_NOT_FOUND if it is before the first now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_previous(
    cursor: *mut KvdbCursor,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { border(error, || moved(alone(cursor, "cursor")?.previous())) }
}

/// Moves to the first entry whose key is this one or larger; KVDB_NOT_FOUND if it is behind the last now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_seek(
    cursor: *mut KvdbCursor,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        moved(unsafe { alone(cursor, "cursor") }?.seek(key))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Moves to the last entry whose key is this one or smaller; KVDB_NOT_FOUND if it is before the first now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_seek_back(
    cursor: *mut KvdbCursor,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        moved(unsafe { alone(cursor, "cursor") }?.seek_back(key))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// The key that the cursor is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_key(cursor: *const KvdbCursor, len: *mut usize) -> *const u8 {
    // SAFETY: as the header demands.
    unsafe { part(cursor, len, |entry| entry.key) }
}

/// The value that the cursor is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_value(
    cursor: *const KvdbCursor,
    len: *mut usize,
) -> *const u8 {
    // SAFETY: as the header demands.
    unsafe { part(cursor, len, |entry| entry.value) }
}

/// # Safety
/// As for `shared` and `place`.
unsafe fn part(
    cursor: *const KvdbCursor,
    len: *mut usize,
    part: impl for<'a> FnOnce(Entry<'a>) -> &'a [u8],
) -> *const u8 {
    border_or(std::ptr::null(), || {
        // SAFETY: as the caller states.
        let len = unsafe { place(len, 0, "len") }?;
        // SAFETY: the same.
        let bytes = unsafe { shared(cursor, "cursor") }?.entry().map(part);
        *len = bytes.map_or(0, <[u8]>::len);
        Ok(bytes.map_or(std::ptr::null(), <[u8]>::as_ptr))
    })
}

/// Frees a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_cursor_free(cursor: *mut KvdbCursor) {
    // SAFETY: as the header demands.
    unsafe { free(cursor) }
}
