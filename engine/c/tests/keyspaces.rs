//! Keyspaces as a caller from C sees them: what they do, and what is refused.
#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "a caller from C is none of Rust's")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

use kvdb::*;

use KvdbStatus::{KvdbClosed, KvdbInvalid, KvdbNotFound, KvdbOk};

const NONE: *mut *mut KvdbError = null_mut();

struct Place {
    _directory: tempfile::TempDir,
    path: CString,
}

fn place() -> Place {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("database");
    let path = CString::new(path.as_os_str().as_bytes()).expect("a name");
    Place {
        _directory: directory,
        path,
    }
}

fn opened(path: &CStr) -> *mut KvdbKeyspaces {
    let mut keyspaces = null_mut();
    // SAFETY: all addresses are there.
    unsafe {
        let options = kvdb_options_new();
        let size = kvdb_options_set_number(options, c"size_bytes".as_ptr(), 16 << 20, NONE);
        assert_eq!(size, KvdbOk);
        let status = kvdb_keyspaces_open(path.as_ptr(), options, &raw mut keyspaces, NONE);
        assert_eq!(status, KvdbOk);
        kvdb_options_free(options);
    }
    keyspaces
}

/// What a call says, with its error freed.
fn said(call: impl FnOnce(*mut *mut KvdbError) -> KvdbStatus) -> (KvdbStatus, String) {
    let mut error = null_mut();
    let status = call(&raw mut error);
    // SAFETY: it is none, or was just given.
    unsafe {
        let message = CStr::from_ptr(kvdb_error_message(error));
        let message = message.to_string_lossy().into_owned();
        assert_eq!(error.is_null(), matches!(status, KvdbOk | KvdbNotFound));
        kvdb_error_free(error);
        (status, message)
    }
}

fn created(keyspaces: *mut KvdbKeyspaces, name: &CStr) -> *mut KvdbKeyspace {
    let mut keyspace = null_mut();
    // SAFETY: all addresses are there.
    let status = unsafe { kvdb_keyspace_create(keyspaces, name.as_ptr(), &raw mut keyspace, NONE) };
    assert_eq!(status, KvdbOk);
    keyspace
}

fn list(keyspaces: *const KvdbKeyspaces) -> Vec<String> {
    let mut names = null_mut();
    // SAFETY: all addresses are there.
    unsafe {
        assert_eq!(kvdb_keyspaces_list(keyspaces, &raw mut names, NONE), KvdbOk);
        let len = kvdb_names_len(names);
        let name = |index| CStr::from_ptr(kvdb_names_get(names, index));
        let list = (0..len).map(|index| name(index).to_string_lossy().into_owned());
        let list = list.collect();
        assert!(kvdb_names_get(names, len).is_null());
        kvdb_names_free(names);
        list
    }
}

fn put(keyspace: *const KvdbKeyspace, key: &[u8], value: &[u8]) -> KvdbStatus {
    let (key_at, value_at) = (key.as_ptr(), value.as_ptr());
    // SAFETY: all addresses are there.
    unsafe {
        let (key_len, value_len) = (key.len(), value.len());
        kvdb_keyspace_put(
            keyspace,
            key_at,
            key_len,
            value_at,
            value_len,
            KVDB_RELAXED,
            NONE,
        )
    }
}

/// What a read gives, with its value freed.
fn read(get: impl FnOnce(*mut *mut KvdbValue) -> KvdbStatus) -> Result<Vec<u8>, KvdbStatus> {
    let mut value = null_mut();
    let status = get(&raw mut value);
    // SAFETY: it is none, or was just given.
    unsafe {
        assert_eq!(value.is_null(), status != KvdbOk);
        let mut len = 0;
        let bytes = kvdb_value_bytes(value, &raw mut len);
        let read = (!bytes.is_null()).then(|| std::slice::from_raw_parts(bytes, len).to_vec());
        kvdb_value_free(value);
        read.ok_or(status)
    }
}

fn get(keyspace: *const KvdbKeyspace, key: &[u8]) -> Result<Vec<u8>, KvdbStatus> {
    // SAFETY: all addresses are there.
    read(|value| unsafe { kvdb_keyspace_get(keyspace, key.as_ptr(), key.len(), value, NONE) })
}

/// Goal: C can do with keyspaces what Rust can: manage them, read and write one, write to several at once, walk one and see one moment of all; and what was dropped says so.
/// Method: each function once with what it needs, across a reopening.
#[test]
fn keyspaces_do_what_they_say() {
    let place = place();
    let keyspaces = opened(&place.path);
    let users = created(keyspaces, c"users");
    let visits = created(keyspaces, c"visits");
    assert_eq!(list(keyspaces), ["users", "visits"]);
    let key = b"1";
    // SAFETY: all addresses are there, and handles are freed once.
    unsafe {
        let mut handle = null_mut();
        let missing = kvdb_keyspace_open(keyspaces, c"none".as_ptr(), &raw mut handle, NONE);
        assert_eq!((missing, handle.is_null()), (KvdbNotFound, true));
        let again = |e| kvdb_keyspace_create(keyspaces, c"users".as_ptr(), &raw mut handle, e);
        let (status, message) = said(again);
        assert_eq!(status, KvdbInvalid);
        assert!(message.contains("`users` already"), "{message}");

        let batch = kvdb_keyspaces_batch_new();
        let (ada, home) = (b"Ada", b"home");
        let one = kvdb_keyspaces_batch_put(batch, users, key.as_ptr(), 1, ada.as_ptr(), 3, NONE);
        let two = kvdb_keyspaces_batch_put(batch, visits, key.as_ptr(), 1, home.as_ptr(), 4, NONE);
        let gone = kvdb_keyspaces_batch_delete(batch, visits, b"0".as_ptr(), 1, NONE);
        assert_eq!([one, two, gone], [KvdbOk; 3]);
        assert_eq!(kvdb_keyspaces_batch_len(batch), 3);
        assert_eq!(put(visits, b"0", b"away"), KvdbOk);
        assert_eq!(
            kvdb_keyspaces_write(keyspaces, batch, KVDB_DURABLE, NONE),
            KvdbOk
        );
        assert_eq!(kvdb_keyspaces_batch_clear(batch, NONE), KvdbOk);
        assert_eq!(kvdb_keyspaces_batch_len(batch), 0);
        kvdb_keyspaces_batch_free(batch);
        assert_eq!(get(users, key), Ok(ada.to_vec()));
        assert_eq!(get(visits, key), Ok(home.to_vec()));
        assert_eq!(get(visits, b"0"), Err(KvdbNotFound));

        let mut snapshot = null_mut();
        let taken = kvdb_keyspaces_snapshot_new(keyspaces, &raw mut snapshot, NONE);
        assert_eq!(taken, KvdbOk);
        let (at, old, new) = (key.as_ptr(), ada.as_ptr(), b"Eve".as_ptr());
        let replace =
            |old, len| kvdb_keyspace_replace(users, at, 1, old, len, new, 3, KVDB_RELAXED, NONE);
        assert_eq!([replace(old, 3), replace(old, 3)], [KvdbOk, KvdbNotFound]);
        assert_eq!(put(users, b"2", b"Grace"), KvdbOk);
        let contains = kvdb_keyspace_contains(users, b"3".as_ptr(), 1, NONE);
        assert_eq!(contains, KvdbNotFound);
        let deleted = kvdb_keyspace_delete(users, b"3".as_ptr(), 1, KVDB_RELAXED, NONE);
        assert_eq!(deleted, KvdbOk);

        for (moment, last) in [(null(), &b"2"[..]), (snapshot.cast_const(), b"1")] {
            let mut cursor = null_mut();
            let out = &raw mut cursor;
            let made = kvdb_keyspace_cursor_new(users, moment, null(), 0, null(), 0, out, NONE);
            assert_eq!(made, KvdbOk);
            assert_eq!(kvdb_cursor_seek(cursor, key.as_ptr(), 1, NONE), KvdbOk);
            assert_eq!(kvdb_cursor_last(cursor, NONE), KvdbOk);
            let mut len = 0;
            let found = kvdb_cursor_key(cursor, &raw mut len);
            assert_eq!(std::slice::from_raw_parts(found, len), last);
            assert_eq!(kvdb_cursor_next(cursor, NONE), KvdbNotFound);
            kvdb_cursor_free(cursor);
        }
        let mut count = 0;
        let (from, count_at) = (b"2".as_ptr(), &raw mut count);
        let deleted =
            kvdb_keyspace_delete_range(users, from, 1, null(), 0, KVDB_RELAXED, count_at, NONE);
        assert_eq!((deleted, count), (KvdbOk, 1));

        let mut copy = place.path.to_bytes().to_vec();
        copy.extend(b".copy");
        let copy = CString::new(copy).expect("a name");
        assert_eq!(
            kvdb_keyspaces_backup(keyspaces, copy.as_ptr(), NONE),
            KvdbOk
        );
        let drop = kvdb_keyspace_drop(keyspaces, c"users".as_ptr(), NONE);
        let again = kvdb_keyspace_drop(keyspaces, c"users".as_ptr(), NONE);
        assert_eq!([drop, again], [KvdbOk, KvdbNotFound]);
        let mut none = null_mut();
        let (status, message) = said(|e| kvdb_keyspace_get(users, at, 1, &raw mut none, e));
        assert_eq!(status, KvdbInvalid);
        assert!(message.contains("`users` was dropped"), "{message}");
        let then = read(|value| kvdb_keyspaces_snapshot_get(snapshot, users, at, 1, value, NONE));
        assert_eq!(then, Ok(ada.to_vec()));
        let (visits_name, new_name) = (c"visits".as_ptr(), c"stays".as_ptr());
        let rename = || kvdb_keyspace_rename(keyspaces, visits_name, new_name, NONE);
        assert_eq!([rename(), rename()], [KvdbOk, KvdbNotFound]);
        assert_eq!(kvdb_keyspaces_sync(keyspaces, NONE), KvdbOk);
        assert_eq!(kvdb_keyspaces_close(keyspaces, NONE), KvdbOk);
        assert_eq!(put(visits, key, b"late"), KvdbClosed);
        assert_eq!(get(visits, b"not there"), Err(KvdbClosed));
        kvdb_keyspaces_snapshot_free(snapshot);
        kvdb_keyspace_free(users);
        kvdb_keyspace_free(visits);

        let again = opened(&place.path);
        assert_eq!(list(again), ["stays"]);
        let opened_again = kvdb_keyspace_open_or_create(again, new_name, &raw mut handle, NONE);
        assert_eq!(
            (opened_again, get(handle, key)),
            (KvdbOk, Ok(home.to_vec()))
        );
        kvdb_keyspace_free(handle);
        assert_eq!(kvdb_keyspaces_close(again, NONE), KvdbOk);
        let copied = opened(&copy);
        assert_eq!(list(copied), ["users", "visits"]);
        assert_eq!(kvdb_keyspaces_close(copied, NONE), KvdbOk);
    }
}

/// Goal: NULL, handles of another kind, and names and files that cannot be are refused with the argument's name or the file's. Method: each argument of each function
/// wrong once.
#[test]
fn wrong_arguments_are_refused() {
    let place = place();
    let keyspaces = opened(&place.path);
    let keyspace = created(keyspaces, c"name");
    let (key, name) = (b"key".as_ptr(), c"name".as_ptr());
    let other: *const KvdbKeyspace = keyspaces.cast_const().cast();
    let refused = |name: &str, call: &dyn Fn(*mut *mut KvdbError) -> KvdbStatus| {
        let (status, message) = said(call);
        assert_eq!(status, KvdbInvalid, "{name}");
        assert!(message.contains(name), "{name}: {message}");
    };
    // SAFETY: what is an address leads to something.
    unsafe {
        let (mut all, mut one, mut value, mut cursor, mut moment, mut names) = (
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
        );
        let (all, one, value) = (&raw mut all, &raw mut one, &raw mut value);
        let (cursor, moment, names) = (&raw mut cursor, &raw mut moment, &raw mut names);
        let path = place.path.as_ptr();
        refused("path", &|e| kvdb_keyspaces_open(null(), null(), all, e));
        refused("keyspaces", &|e| {
            kvdb_keyspaces_open(path, null(), null_mut(), e)
        });
        refused("options", &|e| {
            kvdb_keyspaces_open(path, keyspaces.cast(), all, e)
        });
        for wrong in [null(), keyspace.cast_const().cast()] {
            refused("keyspaces", &|e| kvdb_keyspaces_sync(wrong, e));
            refused("keyspaces", &|e| kvdb_keyspaces_backup(wrong, path, e));
            refused("keyspaces", &|e| kvdb_keyspaces_list(wrong, names, e));
            refused("keyspaces", &|e| kvdb_keyspace_create(wrong, name, one, e));
            refused("keyspaces", &|e| kvdb_keyspace_open(wrong, name, one, e));
            refused("keyspaces", &|e| {
                kvdb_keyspace_open_or_create(wrong, name, one, e)
            });
            refused("keyspaces", &|e| kvdb_keyspace_drop(wrong, name, e));
            refused("keyspaces", &|e| kvdb_keyspace_rename(wrong, name, name, e));
            refused("keyspaces", &|e| {
                kvdb_keyspaces_snapshot_new(wrong, moment, e)
            });
            refused("keyspaces", &|e| {
                kvdb_keyspaces_write(wrong, null(), KVDB_DURABLE, e)
            });
        }
        refused("keyspaces", &|e| kvdb_keyspaces_close(keyspace.cast(), e));
        refused("path", &|e| kvdb_keyspaces_backup(keyspaces, null(), e));
        refused("names", &|e| kvdb_keyspaces_list(keyspaces, null_mut(), e));
        refused("keyspace", &|e| {
            kvdb_keyspace_create(keyspaces, name, null_mut(), e)
        });
        refused("name", &|e| kvdb_keyspace_create(keyspaces, null(), one, e));
        refused("not UTF-8", &|e| {
            kvdb_keyspace_create(keyspaces, c"\xff".as_ptr(), one, e)
        });
        refused("a name of 0 bytes", &|e| {
            kvdb_keyspace_create(keyspaces, c"".as_ptr(), one, e)
        });
        refused("name", &|e| kvdb_keyspace_open(keyspaces, null(), one, e));
        refused("name", &|e| kvdb_keyspace_drop(keyspaces, null(), e));
        refused("from", &|e| {
            kvdb_keyspace_rename(keyspaces, null(), name, e)
        });
        refused("to", &|e| kvdb_keyspace_rename(keyspaces, name, null(), e));
        refused("snapshot", &|e| {
            kvdb_keyspaces_snapshot_new(keyspaces, null_mut(), e)
        });

        let batch = kvdb_keyspaces_batch_new();
        for wrong in [null(), other] {
            refused("keyspace", &|e| {
                kvdb_keyspace_put(wrong, key, 3, key, 3, KVDB_DURABLE, e)
            });
            refused("keyspace", &|e| {
                kvdb_keyspace_delete(wrong, key, 3, KVDB_DURABLE, e)
            });
            refused("keyspace", &|e| kvdb_keyspace_get(wrong, key, 3, value, e));
            refused("keyspace", &|e| kvdb_keyspace_contains(wrong, key, 3, e));
            refused("keyspace", &|e| {
                kvdb_keyspace_replace(wrong, key, 3, null(), 0, key, 3, KVDB_DURABLE, e)
            });
            refused("keyspace", &|e| {
                kvdb_keyspace_delete_range(wrong, null(), 0, null(), 0, KVDB_DURABLE, null_mut(), e)
            });
            refused("keyspace", &|e| {
                kvdb_keyspace_cursor_new(wrong, null(), null(), 0, null(), 0, cursor, e)
            });
            refused("keyspace", &|e| {
                kvdb_keyspaces_batch_put(batch, wrong, key, 3, key, 3, e)
            });
            refused("keyspace", &|e| {
                kvdb_keyspaces_batch_delete(batch, wrong, key, 3, e)
            });
        }
        assert_eq!(kvdb_keyspaces_batch_len(batch), 0);
        refused("key", &|e| {
            kvdb_keyspace_put(keyspace, null(), 1, key, 3, KVDB_DURABLE, e)
        });
        refused("value", &|e| {
            kvdb_keyspace_put(keyspace, key, 3, null(), 1, KVDB_DURABLE, e)
        });
        refused("durability", &|e| {
            kvdb_keyspace_put(keyspace, key, 3, key, 3, 2, e)
        });
        refused("1..=1020", &|e| {
            kvdb_keyspace_put(keyspace, key, 0, key, 3, KVDB_DURABLE, e)
        });
        refused("durability", &|e| {
            kvdb_keyspace_delete(keyspace, key, 3, 2, e)
        });
        refused("value", &|e| {
            kvdb_keyspace_get(keyspace, key, 3, null_mut(), e)
        });
        refused("old", &|e| {
            kvdb_keyspace_replace(keyspace, key, 3, null(), 1, key, 3, KVDB_DURABLE, e)
        });
        refused("end", &|e| {
            kvdb_keyspace_cursor_new(keyspace, null(), null(), 0, null(), 1, cursor, e)
        });
        refused("snapshot", &|e| {
            kvdb_keyspace_cursor_new(keyspace, keyspace.cast(), null(), 0, null(), 0, cursor, e)
        });
        refused("cursor", &|e| {
            kvdb_keyspace_cursor_new(keyspace, null(), null(), 0, null(), 0, null_mut(), e)
        });
        refused("batch", &|e| {
            kvdb_keyspaces_batch_put(null_mut(), keyspace, key, 3, key, 3, e)
        });
        refused("batch", &|e| {
            kvdb_keyspaces_batch_delete(null_mut(), keyspace, key, 3, e)
        });
        refused("batch", &|e| kvdb_keyspaces_batch_clear(null_mut(), e));
        refused("batch", &|e| {
            kvdb_keyspaces_write(keyspaces, null(), KVDB_DURABLE, e)
        });
        refused("durability", &|e| {
            kvdb_keyspaces_write(keyspaces, batch, 2, e)
        });
        refused("snapshot", &|e| {
            kvdb_keyspaces_snapshot_get(null(), keyspace, key, 3, value, e)
        });
        assert_eq!(kvdb_keyspaces_snapshot_new(keyspaces, moment, NONE), KvdbOk);
        refused("keyspace", &|e| {
            kvdb_keyspaces_snapshot_get(*moment, null(), key, 3, value, e)
        });
        assert_eq!(
            (kvdb_names_len(null()), kvdb_keyspaces_batch_len(null())),
            (0, 0)
        );
        assert!(kvdb_names_get(null(), 0).is_null());
        kvdb_keyspaces_batch_free(batch);
        kvdb_keyspaces_snapshot_free(*moment);
        kvdb_keyspace_free(keyspace);
        assert_eq!(kvdb_keyspaces_close(keyspaces, NONE), KvdbOk);
        assert_eq!(kvdb_keyspaces_close(null_mut(), NONE), KvdbOk);

        // A file that is not divided.
        let mut plain = place.path.to_bytes().to_vec();
        plain.extend(b".plain");
        let plain = CString::new(plain).expect("a name");
        let mut db = null_mut();
        assert_eq!(kvdb_open(plain.as_ptr(), null(), &raw mut db, NONE), KvdbOk);
        assert_eq!(kvdb_put(db, key, 3, null(), 0, KVDB_DURABLE, NONE), KvdbOk);
        assert_eq!(kvdb_close(db, NONE), KvdbOk);
        refused("database.plain", &|e| {
            kvdb_keyspaces_open(plain.as_ptr(), null(), all, e)
        });
        assert!((*all).is_null());
    }
}
