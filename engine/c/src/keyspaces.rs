//! A database that is divided into keyspaces: opening and closing, which keyspaces there are, one moment of all.

use std::ffi::{CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kvsim_native::{Keyspace, KeyspaceError, Keyspaces, KeyspacesSnapshot, OpenOptions};

use crate::border::{
    Kind, Outcome, border, border_or, bytes, free, give, place, shared, shared_or_null, take, text,
};
use crate::database::{KvdbValue, found};
use crate::error::{Failed, KvdbError, KvdbStatus};
use crate::keyspace::KvdbKeyspace;
use crate::options::KvdbOptions;

/// An open database that is divided into named keyspaces, in one file. Batches and snapshots are of all of them.
pub struct KvdbKeyspaces(());

impl Kind for KvdbKeyspaces {
    type Inside = Keyspaces;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb kss");
}

/// One moment of all keyspaces, which later writes and drops do not change.
pub struct KvdbKeyspacesSnapshot(());

impl Kind for KvdbKeyspacesSnapshot {
    type Inside = KeyspacesSnapshot;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb ksm");
}

/// Names of keyspaces.
pub struct KvdbNames(());

impl Kind for KvdbNames {
    type Inside = Vec<CString>;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb nam");
}

/// A name that C hands in.
///
/// # Safety
/// As for `text`.
unsafe fn name<'a>(pointer: *const c_char, argument: &str) -> Outcome<&'a str> {
    // SAFETY: as the caller states.
    let name = unsafe { text(pointer, argument) }?;
    let refused = |_| Failed::invalid(format!("`{argument}` is not UTF-8"));
    name.to_str().map_err(refused)
}

/// What is not there is no error for C.
fn done(result: Result<(), KeyspaceError>) -> Outcome<KvdbStatus> {
    match result {
        Ok(()) => Ok(KvdbStatus::KvdbOk),
        Err(KeyspaceError::Missing { .. }) => Ok(KvdbStatus::KvdbNotFound),
        Err(error) => Err(error.into()),
    }
}

/// Opens the database in a file or on a block device as keyspaces. Creates it, and divides it, in a file that does not exist or holds nothing.
///
/// `options` may be NULL, as for kvdb_open. If a process ended while it dropped a keyspace, what is left of that is removed first.
///
/// As kvdb_open; KVDB_INVALID too if the file holds keys that are in no keyspace, or was divided by a later version. Then it is left as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_open(
    path: *const c_char,
    options: *const KvdbOptions,
    keyspaces: *mut *mut KvdbKeyspaces,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspaces = unsafe { place(keyspaces, std::ptr::null_mut(), "keyspaces") }?;
        // SAFETY: the same.
        let path = unsafe { text(path, "path") }?;
        // SAFETY: the same.
        let options = unsafe { shared_or_null(options, "options") }?;
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let options = options.cloned().unwrap_or_else(OpenOptions::default);
        *keyspaces = give::<KvdbKeyspaces>(options.open_keyspaces(path)?);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes everything durable, closes the database and frees `keyspaces`, whatever is returned. Keyspaces, batches, snapshots and cursors of it stay to be freed, which has
/// to be before the file is opened again. Until then their calls are KVDB_CLOSED, but for reads of a keyspace that find the key in memory. NULL is closed already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_close(
    keyspaces: *mut KvdbKeyspaces,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        if !keyspaces.is_null() {
            // SAFETY: as the header demands.
            unsafe { take(keyspaces, "keyspaces") }?.close()?;
        }
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Returns once everything that was accepted so far is durable, in all keyspaces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_sync(
    keyspaces: *const KvdbKeyspaces,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        unsafe { shared(keyspaces, "keyspaces") }?.sync()?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes a copy of all keyspaces as they are now, in a new file that is divided in the same way, while others read and write. The copy is durable when this returns.
///
/// KVDB_INVALID if there is something of this name already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_backup(
    keyspaces: *const KvdbKeyspaces,
    path: *const c_char,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        // SAFETY: the same.
        let path = unsafe { text(path, "path") }?;
        keyspaces.backup(Path::new(OsStr::from_bytes(path.to_bytes())))?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// The names of all keyspaces, in the order of their bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_list(
    keyspaces: *const KvdbKeyspaces,
    names: *mut *mut KvdbNames,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let names = unsafe { place(names, std::ptr::null_mut(), "names") }?;
        // SAFETY: the same.
        let list = unsafe { shared(keyspaces, "keyspaces") }?.list();
        // No name has a zero in it.
        let list = list.into_iter().map(CString::new).collect::<Result<_, _>>();
        let list = list.map_err(|_| Failed::invalid("a name has a zero in it"))?;
        *names = give::<KvdbNames>(list);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// How many names there are; 0 if `names` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_names_len(names: *const KvdbNames) -> usize {
    border_or(0, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(names, "names") }?.len())
    })
}

/// One of the names, counted from 0, as UTF-8 that ends with a zero, valid until `names` is freed; NULL if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_names_get(names: *const KvdbNames, index: usize) -> *const c_char {
    border_or(std::ptr::null(), || {
        // SAFETY: as the header demands.
        let name = unsafe { shared(names, "names") }?.get(index);
        Ok(name.map_or(std::ptr::null(), |name| name.as_ptr()))
    })
}

/// Frees names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_names_free(names: *mut KvdbNames) {
    // SAFETY: as the header demands.
    unsafe { free(names) }
}

/// # Safety
/// As for `shared`, `place` and `text`; `error` as for `border`.
unsafe fn hand_out(
    keyspaces: *const KvdbKeyspaces,
    pointer: *const c_char,
    keyspace: *mut *mut KvdbKeyspace,
    error: *mut *mut KvdbError,
    get: impl FnOnce(&Keyspaces, &str) -> Result<Keyspace, KeyspaceError>,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the caller states.
        let keyspace = unsafe { place(keyspace, std::ptr::null_mut(), "keyspace") }?;
        // SAFETY: the same.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        // SAFETY: the same.
        let name = unsafe { name(pointer, "name") }?;
        done(get(keyspaces, name).map(|got| *keyspace = give::<KvdbKeyspace>(got)))
    };
    // SAFETY: as the caller states.
    unsafe { border(error, work) }
}

/// Creates a keyspace, durably. `name` is 1 to 255 bytes of UTF-8.
///
/// KVDB_INVALID if there is one of this name already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_create(
    keyspaces: *const KvdbKeyspaces,
    name: *const c_char,
    keyspace: *mut *mut KvdbKeyspace,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { hand_out(keyspaces, name, keyspace, error, Keyspaces::create) }
}

/// The keyspace of this name. KVDB_NOT_FOUND, with NULL for the keyspace, if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_open(
    keyspaces: *const KvdbKeyspaces,
    name: *const c_char,
    keyspace: *mut *mut KvdbKeyspace,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { hand_out(keyspaces, name, keyspace, error, Keyspaces::open) }
}

/// The keyspace of this name, which is created if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_open_or_create(
    keyspaces: *const KvdbKeyspaces,
    name: *const c_char,
    keyspace: *mut *mut KvdbKeyspace,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    // SAFETY: as the header demands.
    unsafe { hand_out(keyspaces, name, keyspace, error, Keyspaces::open_or_create) }
}

/// Drops a keyspace with all its keys, at one moment and durably, and then removes the keys. KVDB_NOT_FOUND if there is none.
///
/// From then on, what is done with its handles is KVDB_INVALID; they stay to be freed. If the process ends while keys are being removed, the next opening removes the rest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_drop(
    keyspaces: *const KvdbKeyspaces,
    name: *const c_char,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        // SAFETY: the same.
        let name = unsafe { self::name(name, "name") }?;
        done(keyspaces.drop_keyspace(name))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Gives a keyspace another name, durably. Its handles stay what they are. KVDB_NOT_FOUND if there is none of the name `from`; KVDB_INVALID if there is one of the name `to`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspace_rename(
    keyspaces: *const KvdbKeyspaces,
    from: *const c_char,
    to: *const c_char,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        // SAFETY: the same.
        let from = unsafe { name(from, "from") }?;
        // SAFETY: the same.
        let to = unsafe { name(to, "to") }?;
        done(keyspaces.rename(from, to))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Takes a snapshot of everything that was accepted so far, in all keyspaces. What is overwritten, deleted or dropped later keeps its space until the snapshot and all cursors
/// of it are freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_snapshot_new(
    keyspaces: *const KvdbKeyspaces,
    snapshot: *mut *mut KvdbKeyspacesSnapshot,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let snapshot = unsafe { place(snapshot, std::ptr::null_mut(), "snapshot") }?;
        // SAFETY: the same.
        let keyspaces = unsafe { shared(keyspaces, "keyspaces") }?;
        *snapshot = give::<KvdbKeyspacesSnapshot>(keyspaces.snapshot()?);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads a key of a keyspace as it was. KVDB_NOT_FOUND, with NULL for the value, if there was none. KVDB_INVALID if the keyspace had been dropped before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_snapshot_get(
    snapshot: *const KvdbKeyspacesSnapshot,
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
        let snapshot = unsafe { shared(snapshot, "snapshot") }?;
        // SAFETY: the same.
        let keyspace = unsafe { shared(keyspace, "keyspace") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        Ok(found(snapshot.get(keyspace, key)?, value))
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees a snapshot of all keyspaces. Cursors of it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_keyspaces_snapshot_free(snapshot: *mut KvdbKeyspacesSnapshot) {
    // SAFETY: as the header demands.
    unsafe { free(snapshot) }
}
