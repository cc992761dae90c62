//! A database: opening and closing, single reads and writes.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kvsim_native::{Checked, Database, Durability, OpenOptions, Value};

use crate::border::{
    Kind, Outcome, border, border_or, bytes, bytes_or_null, free, give, place, range, shared,
    shared_or_null, take, text,
};
use crate::error::{Failed, KvdbError, KvdbStatus};
use crate::options::KvdbOptions;

/// A write is acknowledged once it survives a power cut.
pub const KVDB_DURABLE: u32 = 0;
/// A write is acknowledged as soon as it is accepted. It is durable within 50 ms unless the option `relaxed_window_ns` says otherwise, or with a later durable write or sync.
/// What a crash leaves is a prefix of the order of writes.
pub const KVDB_RELAXED: u32 = 1;

/// An open database.
pub struct Kvdb(());

impl Kind for Kvdb {
    type Inside = Database;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb dat");
}

/// A value that was read. It stays as it is, whatever is written, also after its database was closed.
pub struct KvdbValue(());

impl Kind for KvdbValue {
    type Inside = Value;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb val");
}

pub(crate) fn durability(number: u32) -> Outcome<Durability> {
    match number {
        KVDB_DURABLE => Ok(Durability::Durable),
        KVDB_RELAXED => Ok(Durability::Relaxed),
        _ => Err(Failed::invalid(format!(
            "`durability` is {number}, and neither KVDB_DURABLE nor KVDB_RELAXED"
        ))),
    }
}

/// What a read found, handed out.
pub(crate) fn found(value: Option<Value>, out: &mut *mut KvdbValue) -> KvdbStatus {
    match value {
        Some(value) => {
            *out = give::<KvdbValue>(value);
            KvdbStatus::KvdbOk
        }
        None => KvdbStatus::KvdbNotFound,
    }
}

/// The version of this library, such as "0.1.0". It ends with a zero and is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn kvdb_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Opens the database in a file or on a block device; creates it in a file that does not exist.
///
/// `options` may be NULL: then all are at their defaults. They can be used again, and freed.
///
/// KVDB_LOCKED if it is open already; KVDB_CORRUPTION if acknowledged data is damaged; KVDB_IO_ERROR if the file cannot be opened or read; KVDB_NO_SPACE;
/// KVDB_INVALID if it is not a database, or a wrong option.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_open(
    path: *const c_char,
    options: *const KvdbOptions,
    db: *mut *mut Kvdb,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { place(db, std::ptr::null_mut(), "db") }?;
        // SAFETY: the same.
        let path = unsafe { text(path, "path") }?;
        // SAFETY: the same.
        let options = unsafe { shared_or_null(options, "options") }?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let options = options.cloned().unwrap_or_else(OpenOptions::default);
        *db = give::<Kvdb>(Database::open(path, &options)?);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes everything durable, closes the database and frees it, whatever is returned. Snapshots, cursors and streams of it stay to be freed; until then their calls are
/// KVDB_CLOSED. NULL is closed already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_close(db: *mut Kvdb, error: *mut *mut KvdbError) -> KvdbStatus {
    let work = || {
        if !db.is_null() {
            // SAFETY: as the header demands.
            unsafe { take(db, "db") }?.close()?;
        }
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Sets a key of 1 to 1,024 bytes to a value of at most 16 MiB, unless the option `max_value_bytes` says otherwise.
///
/// `durability` is KVDB_DURABLE or KVDB_RELAXED. The status says whether a write that failed may have an effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_put(
    db: *const Kvdb,
    key: *const u8,
    key_len: usize,
    value: *const u8,
    value_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let value = unsafe { bytes(value, value_len, "value") }?;
        db.put(key, value, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Removes a key. To remove what is not there is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_delete(
    db: *const Kvdb,
    key: *const u8,
    key_len: usize,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        db.delete(key, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads a key. KVDB_NOT_FOUND, with NULL for the value, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_get(
    db: *const Kvdb,
    key: *const u8,
    key_len: usize,
    value: *mut *mut KvdbValue,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let value = unsafe { place(value, std::ptr::null_mut(), "value") }?;
        // SAFETY: the same.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(found(db.get(key)?, value))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Whether there is such a key: KVDB_OK or KVDB_NOT_FOUND. Its value is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_contains(
    db: *const Kvdb,
    key: *const u8,
    key_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(match db.contains(key)? {
            true => KvdbStatus::KvdbOk,
            false => KvdbStatus::KvdbNotFound,
        })
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Sets a key to `value`, or removes it if that is NULL, if it has the value `old`, or if there is no such key where `old` is NULL. No other write comes between the two.
///
/// KVDB_OK if it was written; KVDB_NOT_FOUND if the key has another value, and then nothing was written. An empty value is one that is not NULL and has length 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_replace(
    db: *const Kvdb,
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
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        // SAFETY: the same.
        let old = unsafe { bytes_or_null(old, old_len, "old") }?;
        // SAFETY: the same.
        let value = unsafe { bytes_or_null(value, value_len, "value") }?;
        Ok(
            match db.replace(key, old, value, self::durability(durability)?)? {
                Checked::Written => KvdbStatus::KvdbOk,
                Checked::Changed { .. } => KvdbStatus::KvdbNotFound,
            },
        )
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Removes all keys from `start`, included, up to `end`, excluded, together or not at all; NULL is no bound. `count`, if it is not NULL, gets how many there were.
///
/// KVDB_INVALID if there are more keys than one frame of the log has deletes for: some 10,000.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_delete_range(
    db: *const Kvdb,
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
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let range = unsafe { range((start, start_len), (end, end_len)) }?;
        *count = db.delete_range(range, self::durability(durability)?)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes a copy of everything as it is now, in a new file, while others read and write. The copy is a database, and is durable when this returns.
///
/// KVDB_INVALID if there is something of this name already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_backup(
    db: *const Kvdb,
    path: *const c_char,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let db = unsafe { shared(db, "db") }?;
        // SAFETY: the same.
        let path = unsafe { text(path, "path") }?;
        db.backup(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Returns once everything that was accepted so far is durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_sync(db: *const Kvdb, error: *mut *mut KvdbError) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        unsafe { shared(db, "db") }?.sync()?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// The bytes of a value, valid until it is freed, and how many there are. Of an empty value the address is not NULL; of NULL it is, and `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_value_bytes(value: *const KvdbValue, len: *mut usize) -> *const u8 {
    border_or(std::ptr::null(), || {
        // SAFETY: as the header demands.
        let len = unsafe { place(len, 0, "len") }?;
        // SAFETY: the same.
        let value = unsafe { shared(value, "value") }?;
        *len = value.len();
        Ok(value.as_ptr())
    })
}

/// Frees a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_value_free(value: *mut KvdbValue) {
    // SAFETY: as the header demands.
    unsafe { free(value) }
}
