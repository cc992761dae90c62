//! The interface as a caller sees it who makes mistakes, and from many threads.
#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "a caller from C is none of Rust's")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

use kvdb::*;

use KvdbStatus::{KvdbClosed, KvdbInvalid, KvdbLocked, KvdbNotFound, KvdbOk};

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

fn opened(place: &Place) -> *mut Kvdb {
    let mut db = null_mut();
    // SAFETY: all addresses are there.
    unsafe {
        let options = kvdb_options_new();
        let set =
            |name: &CStr, value| kvdb_options_set_number(options, name.as_ptr(), value, null_mut());
        assert_eq!(set(c"size_bytes", 16 << 20), KvdbOk);
        assert_eq!(set(c"segment_bytes", 1 << 16), KvdbOk);
        assert_eq!(set(c"segment_bytes", 3), KvdbInvalid);
        let text = kvdb_options_set(options, c"kind".as_ptr(), c"os".as_ptr(), null_mut());
        assert_eq!(text, KvdbOk);
        let status = kvdb_open(place.path.as_ptr(), options, &raw mut db, null_mut());
        assert_eq!(status, KvdbOk);
        kvdb_options_free(options);
    }
    db
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
        assert!(error.is_null() || kvdb_error_status(error) == status);
        kvdb_error_free(error);
        (status, message)
    }
}

/// Goal: NULL, handles of another kind and numbers out of range are refused with the argument's name, by every function, and change nothing. Method: each argument of
/// each function wrong once.
#[test]
fn wrong_arguments_are_refused() {
    let place = place();
    let db = opened(&place);
    let (key, len) = (b"key".as_ptr(), 3);
    let (mut value, mut cursor, mut snapshot) = (null_mut(), null_mut(), null_mut());
    // SAFETY: what is an address leads to something.
    unsafe {
        let batch = kvdb_batch_new();
        let none: *mut *mut KvdbError = null_mut();
        assert_eq!(kvdb_snapshot_new(db, &raw mut snapshot, none), KvdbOk);
        let new = kvdb_cursor_new(db, snapshot, null(), 0, null(), 0, &raw mut cursor, none);
        assert_eq!(new, KvdbOk);
        let other = batch.cast::<Kvdb>();
        let refused = |name: &str, call: &dyn Fn(*mut *mut KvdbError) -> KvdbStatus| {
            let (status, message) = said(call);
            assert_eq!(status, KvdbInvalid, "{name}");
            assert!(message.contains(name), "{name}: {message}");
            assert_eq!(call(null_mut()), KvdbInvalid, "nobody wants the error");
        };
        let mut out = null_mut();
        let out = &raw mut out;
        refused("path", &|e| kvdb_open(null(), null(), out, e));
        refused("db", &|e| {
            kvdb_open(place.path.as_ptr(), null(), null_mut(), e)
        });
        refused("options", &|e| {
            kvdb_open(place.path.as_ptr(), db.cast(), out, e)
        });
        for db in [null(), other.cast_const()] {
            refused("db", &|e| kvdb_put(db, key, len, key, len, KVDB_DURABLE, e));
            refused("db", &|e| kvdb_delete(db, key, len, KVDB_DURABLE, e));
            refused("db", &|e| kvdb_write(db, batch, KVDB_DURABLE, e));
            refused("db", &|e| kvdb_sync(db, e));
            refused("db", &|e| kvdb_contains(db, key, len, e));
            refused("db", &|e| kvdb_backup(db, c"copy".as_ptr(), e));
            refused("db", &|e| {
                kvdb_replace(db, key, len, null(), 0, key, len, KVDB_DURABLE, e)
            });
            refused("db", &|e| {
                kvdb_delete_range(db, null(), 0, null(), 0, KVDB_DURABLE, null_mut(), e)
            });
            let mut out = null_mut();
            let out = &raw mut out;
            refused("db", &|e| kvdb_get(db, key, len, out, e));
        }
        refused("db", &|e| kvdb_close(other, e));
        assert_eq!(kvdb_close(null_mut(), none), KvdbOk);
        refused("key", &|e| {
            kvdb_put(db, null(), 1, key, len, KVDB_DURABLE, e)
        });
        refused("key", &|e| {
            kvdb_put(db, null(), 0, key, len, KVDB_DURABLE, e)
        });
        refused("key", &|e| {
            kvdb_put(db, key, usize::MAX, key, len, KVDB_DURABLE, e)
        });
        refused("value", &|e| {
            kvdb_put(db, key, len, null(), 1, KVDB_DURABLE, e)
        });
        refused("durability", &|e| kvdb_put(db, key, len, key, len, 2, e));
        refused("value", &|e| kvdb_get(db, key, len, null_mut(), e));
        refused("key", &|e| kvdb_contains(db, null(), 1, e));
        refused("path", &|e| kvdb_backup(db, null(), e));
        refused("old", &|e| {
            kvdb_replace(db, key, len, null(), 1, key, len, KVDB_DURABLE, e)
        });
        refused("value", &|e| {
            kvdb_replace(db, key, len, key, len, null(), 1, KVDB_DURABLE, e)
        });
        refused("durability", &|e| {
            kvdb_replace(db, key, len, key, len, key, len, 9, e)
        });
        refused("end", &|e| {
            kvdb_delete_range(db, null(), 0, null(), 1, KVDB_DURABLE, null_mut(), e)
        });
        refused("batch", &|e| {
            kvdb_batch_put(null_mut(), key, len, key, len, e)
        });
        refused("batch", &|e| kvdb_batch_delete(db.cast(), key, len, e));
        refused("batch", &|e| kvdb_batch_clear(null_mut(), e));
        refused("batch", &|e| kvdb_write(db, null(), KVDB_DURABLE, e));
        assert_eq!((kvdb_batch_len(null()), kvdb_batch_len(batch)), (0, 0));
        let mut out_snapshot = null_mut();
        let out_snapshot = &raw mut out_snapshot;
        refused("db", &|e| kvdb_snapshot_new(null(), out_snapshot, e));
        refused("snapshot", &|e| kvdb_snapshot_new(db, null_mut(), e));
        let mut out_value = null_mut();
        let out_value = &raw mut out_value;
        refused("snapshot", &|e| {
            kvdb_snapshot_get(null(), key, len, out_value, e)
        });
        refused("cursor", &|e| kvdb_cursor_next(null_mut(), e));
        refused("cursor", &|e| kvdb_cursor_previous(null_mut(), e));
        refused("cursor", &|e| kvdb_cursor_first(null_mut(), e));
        refused("cursor", &|e| kvdb_cursor_last(snapshot.cast(), e));
        refused("cursor", &|e| kvdb_cursor_seek(null_mut(), key, len, e));
        refused("cursor", &|e| {
            kvdb_cursor_seek_back(null_mut(), key, len, e)
        });
        refused("key", &|e| kvdb_cursor_seek(cursor, null(), 1, e));
        let mut size = 7;
        assert!(kvdb_cursor_key(null(), &raw mut size).is_null() && size == 0);
        assert!(kvdb_cursor_value(cursor, null_mut()).is_null());
        assert!(kvdb_value_bytes(null(), &raw mut size).is_null());
        let options = kvdb_options_new();
        let text = c"a".as_ptr();
        refused("options", &|e| {
            kvdb_options_set_number(db.cast(), text, 1, e)
        });
        refused("name", &|e| kvdb_options_set(options, null(), text, e));
        refused("value", &|e| kvdb_options_set(options, text, null(), e));
        refused("name", &|e| {
            kvdb_options_set(options, c"\xff".as_ptr(), text, e)
        });
        refused("unknown option `a`", &|e| {
            kvdb_options_set(options, text, text, e)
        });
        kvdb_options_free(options);
        assert_eq!(kvdb_get(db, key, len, &raw mut value, none), KvdbNotFound);
        assert!(value.is_null());
        kvdb_batch_free(batch);
        kvdb_batch_free(null_mut());
        kvdb_cursor_free(cursor);
        kvdb_snapshot_free(snapshot);
        assert_eq!(kvdb_close(db, none), KvdbOk);
    }
}

/// Goal: a database is opened once; what is left of a closed one says so and can be freed; what was read stays. Method: two openings, a close in between.
#[test]
fn what_is_left_of_a_closed_database_can_be_freed() {
    let place = place();
    let db = opened(&place);
    let none: *mut *mut KvdbError = null_mut();
    let (mut value, mut cursor, mut snapshot, mut second) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: all addresses are there, and handles are freed once.
    unsafe {
        let (key, len) = (b"key".as_ptr(), 3);
        assert_eq!(
            kvdb_put(db, key, len, null(), 0, KVDB_RELAXED, none),
            KvdbOk
        );
        let (status, message) =
            said(|e| kvdb_open(place.path.as_ptr(), null(), &raw mut second, e));
        assert_eq!(status, KvdbLocked, "{message}");
        assert!(
            second.is_null() && message.contains("database"),
            "{message}"
        );
        assert_eq!(kvdb_get(db, key, len, &raw mut value, none), KvdbOk);
        assert_eq!(kvdb_snapshot_new(db, &raw mut snapshot, none), KvdbOk);
        let new = kvdb_cursor_new(db, null(), null(), 0, null(), 0, &raw mut cursor, none);
        assert_eq!(new, KvdbOk);
        assert_eq!(kvdb_close(db, none), KvdbOk);

        let mut size = 7;
        assert!(!kvdb_value_bytes(value, &raw mut size).is_null() && size == 0);
        kvdb_value_free(value);
        assert_eq!(said(|e| kvdb_cursor_first(cursor, e)).0, KvdbClosed);
        let get = said(|e| kvdb_snapshot_get(snapshot, key, len, &raw mut value, e));
        assert_eq!(get.0, KvdbClosed);
        assert!(value.is_null());
        kvdb_snapshot_free(snapshot);
        kvdb_cursor_free(cursor);
        let again = opened(&place);
        assert_eq!(kvdb_get(again, key, len, &raw mut value, none), KvdbOk);
        kvdb_value_free(value);
        assert_eq!(kvdb_close(again, none), KvdbOk);
        assert_eq!(
            CStr::from_ptr(kvdb_version()).to_str(),
            Ok(env!("CARGO_PKG_VERSION"))
        );
    }
}

/// An address that threads pass to each other, as C does.
struct Anywhere<T>(*mut T);
// SAFETY: the header says what threads may do with a handle.
unsafe impl<T> Send for Anywhere<T> {}

impl<T> Clone for Anywhere<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Anywhere<T> {}

impl<T> Anywhere<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

/// Goal: many threads use one database and one snapshot, and free on one thread what another was given. Method: threads that put, batch, read, walk with cursors, and
/// send their values to a thread that reads and frees them.
#[test]
fn many_threads_use_one_database() {
    const THREADS: u32 = 8;
    const ROUNDS: u32 = 300;
    let place = place();
    let db = Anywhere(opened(&place));
    let none: *mut *mut KvdbError = null_mut();
    let mut snapshot = null_mut();
    // SAFETY: all addresses are there.
    unsafe {
        let put = kvdb_put(
            db.get(),
            b"0".as_ptr(),
            1,
            b"old".as_ptr(),
            3,
            KVDB_RELAXED,
            none,
        );
        assert_eq!(put, KvdbOk);
        assert_eq!(kvdb_snapshot_new(db.get(), &raw mut snapshot, none), KvdbOk);
    }
    let snapshot = Anywhere(snapshot);
    let (values, given) = std::sync::mpsc::channel::<(u32, Anywhere<KvdbValue>)>();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let values = values.clone();
            scope.spawn(move || {
                let none: *mut *mut KvdbError = null_mut();
                let (db, snapshot) = (db.get(), snapshot.get());
                for round in 0..ROUNDS {
                    let key = [thread.to_be_bytes(), round.to_be_bytes()].concat();
                    let durability = if round % 50 == 0 {
                        KVDB_DURABLE
                    } else {
                        KVDB_RELAXED
                    };
                    let (mut value, mut cursor) = (null_mut(), null_mut());
                    // SAFETY: all addresses are there, and each handle is used by one thread at a time.
                    unsafe {
                        let batch = kvdb_batch_new();
                        let put = kvdb_batch_put(batch, key.as_ptr(), 8, key.as_ptr(), 8, none);
                        let delete = kvdb_batch_delete(batch, b"0".as_ptr(), 1, none);
                        assert_eq!((put, delete, kvdb_batch_len(batch)), (KvdbOk, KvdbOk, 2));
                        assert_eq!(kvdb_write(db, batch, durability, none), KvdbOk);
                        kvdb_batch_free(batch);
                        assert_eq!(kvdb_get(db, key.as_ptr(), 8, &raw mut value, none), KvdbOk);
                        values
                            .send((thread, Anywhere(value)))
                            .expect("somebody reads");
                        let old =
                            kvdb_snapshot_get(snapshot, b"0".as_ptr(), 1, &raw mut value, none);
                        assert_eq!(old, KvdbOk);
                        kvdb_value_free(value);
                        let (from, none_key) = (key.as_ptr(), null());
                        let new = kvdb_cursor_new(
                            db,
                            null(),
                            from,
                            4,
                            none_key,
                            0,
                            &raw mut cursor,
                            none,
                        );
                        assert_eq!(new, KvdbOk);
                        let seek = kvdb_cursor_seek_back(cursor, key.as_ptr(), 8, none);
                        let mut size = 0;
                        let found =
                            std::slice::from_raw_parts(kvdb_cursor_key(cursor, &raw mut size), 8);
                        assert_eq!((seek, size, found), (KvdbOk, 8, &key[..]));
                        kvdb_cursor_free(cursor);
                    }
                }
            });
        }
        drop(values);
        let mut count = 0;
        for (thread, value) in given {
            // SAFETY: it was given to this thread alone.
            unsafe {
                let mut size = 0;
                let bytes = kvdb_value_bytes(value.get(), &raw mut size);
                assert_eq!(
                    std::slice::from_raw_parts(bytes, size)[..4],
                    thread.to_be_bytes()
                );
                kvdb_value_free(value.get());
            }
            count += 1;
        }
        assert_eq!(count, THREADS * ROUNDS);
    });
    // SAFETY: nobody uses them any more.
    unsafe {
        kvdb_snapshot_free(snapshot.get());
        assert_eq!(kvdb_close(db.get(), none), KvdbOk);
    }
}

/// Goal: a key is replaced only where it has the value that it should have; ranges are removed and counted; a copy is a database, and replaces nothing. Method: each of
/// these with and without what it needs.
#[test]
fn writes_have_conditions_and_copies_are_made() {
    let place = place();
    let db = opened(&place);
    let none: *mut *mut KvdbError = null_mut();
    let mut name = place.path.to_bytes().to_vec();
    name.extend(b".copy");
    let name = CString::new(name).expect("a name");
    // SAFETY: all addresses are there, and handles are freed once.
    unsafe {
        let (key, one, two) = (b"key".as_ptr(), b"1".as_ptr(), b"2".as_ptr());
        let replace = |old, old_len, value, value_len| {
            kvdb_replace(
                db,
                key,
                3,
                old,
                old_len,
                value,
                value_len,
                KVDB_RELAXED,
                none,
            )
        };
        assert_eq!(replace(one, 1, two, 1), KvdbNotFound, "it is not there");
        assert_eq!(kvdb_contains(db, key, 3, none), KvdbNotFound);
        assert_eq!(replace(null(), 0, one, 1), KvdbOk);
        assert_eq!(replace(null(), 0, two, 1), KvdbNotFound, "it is there");
        assert_eq!(replace(one, 1, one, 0), KvdbOk, "to an empty value");
        assert_eq!(
            replace(null(), 0, two, 1),
            KvdbNotFound,
            "it is there, and empty"
        );
        assert_eq!(kvdb_contains(db, key, 3, none), KvdbOk);
        assert_eq!(kvdb_backup(db, name.as_ptr(), none), KvdbOk);
        let (status, message) = said(|e| kvdb_backup(db, name.as_ptr(), e));
        assert_eq!(status, KvdbInvalid, "{message}");
        assert_eq!(replace(one, 0, null(), 0), KvdbOk, "to nothing");
        assert_eq!(kvdb_contains(db, key, 3, none), KvdbNotFound);
        for key in [b"a", b"b", b"c"] {
            let put = kvdb_put(db, key.as_ptr(), 1, null(), 0, KVDB_RELAXED, none);
            assert_eq!(put, KvdbOk);
        }
        let mut count = 9;
        let (from, to) = (b"b".as_ptr(), null());
        let delete = kvdb_delete_range(db, from, 1, to, 0, KVDB_RELAXED, &raw mut count, none);
        assert_eq!((delete, count), (KvdbOk, 2));
        let delete = kvdb_delete_range(db, to, 0, from, 1, KVDB_DURABLE, null_mut(), none);
        assert_eq!(
            (delete, kvdb_contains(db, b"a".as_ptr(), 1, none)),
            (KvdbOk, KvdbNotFound)
        );
        assert_eq!(kvdb_close(db, none), KvdbOk);

        let mut copy = null_mut();
        assert_eq!(
            kvdb_open(name.as_ptr(), null(), &raw mut copy, none),
            KvdbOk
        );
        assert_eq!(kvdb_contains(copy, key, 3, none), KvdbOk);
        assert_eq!(kvdb_close(copy, none), KvdbOk);
    }
}

/// Goal: a file is compacted and repaired, and what is wrong with it is said. Method: a database that is open, one that is closed, and one without superblocks; wrong arguments.
#[test]
fn files_are_compacted_and_repaired() {
    let place = place();
    let db = opened(&place);
    let path = place.path.as_ptr();
    let other = CString::new([place.path.as_bytes(), b" again"].concat()).expect("a name");
    let mut report = null_mut();
    // SAFETY: what is an address leads to something.
    unsafe {
        let put = kvdb_put(
            db,
            b"key".as_ptr(),
            3,
            b"value".as_ptr(),
            5,
            KVDB_DURABLE,
            null_mut(),
        );
        assert_eq!(put, KvdbOk);
        let (status, _) = said(|error| kvdb_compact(path, null(), error));
        assert_eq!(status, KvdbLocked);
        let (status, _) =
            said(|error| kvdb_repair(path, other.as_ptr(), null(), &raw mut report, error));
        assert_eq!((status, report), (KvdbLocked, null_mut()));
        assert_eq!(kvdb_close(db, null_mut()), KvdbOk);
        let (status, message) = said(|error| kvdb_compact(null(), null(), error));
        assert!(
            status == KvdbInvalid && message.contains("`path`"),
            "{message}"
        );
        let (status, message) = said(|error| kvdb_compact(path, null(), error));
        assert_eq!(status, KvdbOk, "{message}");

        let name = place.path.to_str().expect("it is a text");
        let mut bytes = std::fs::read(name).expect("it is there");
        bytes[..256 << 10].fill(0);
        std::fs::write(name, &bytes).expect("it is ours");
        let (status, message) =
            said(|error| kvdb_repair(path, other.as_ptr(), null(), null_mut(), error));
        assert!(
            status == KvdbInvalid && message.contains("`report`"),
            "{message}"
        );
        let (status, message) =
            said(|error| kvdb_repair(path, other.as_ptr(), null(), &raw mut report, error));
        assert_eq!(status, KvdbOk, "{message}");
        assert_eq!(kvdb_repair_report_keys(report), 1);
        assert_eq!(kvdb_repair_report_is_complete(report), KvdbNotFound);
        let text = CStr::from_ptr(kvdb_repair_report_text(report)).to_string_lossy();
        assert!(
            text.starts_with("1 keys\nnot known for certain: "),
            "{text}"
        );
        kvdb_repair_report_free(report);
        let (status, _) =
            said(|error| kvdb_repair(path, other.as_ptr(), null(), &raw mut report, error));
        assert_eq!((status, report), (KvdbInvalid, null_mut()));
        assert_eq!(kvdb_repair_report_keys(null()), 0);
        assert_eq!(kvdb_repair_report_is_complete(null()), KvdbInvalid);
        assert_eq!(CStr::from_ptr(kvdb_repair_report_text(null())), c"");

        let mut repaired = null_mut();
        assert_eq!(
            kvdb_open(other.as_ptr(), null(), &raw mut repaired, null_mut()),
            KvdbOk
        );
        let found = kvdb_contains(repaired, b"key".as_ptr(), 3, null_mut());
        assert_eq!(found, KvdbOk);
        assert_eq!(kvdb_close(repaired, null_mut()), KvdbOk);
        std::fs::write(name, b"nothing").expect("it is ours");
        let third = CString::new([place.path.as_bytes(), b" third"].concat()).expect("a name");
        let (status, message) =
            said(|error| kvdb_repair(path, third.as_ptr(), null(), &raw mut report, error));
        assert!(
            status == KvdbInvalid && message.contains("no database"),
            "{message}"
        );
    }
}
