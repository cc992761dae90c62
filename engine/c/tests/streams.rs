//! Streams as a caller from C sees them: what is written comes back, and mistakes are told.
#![allow(missing_docs, reason = "a test")]
#![allow(unsafe_code, reason = "a caller from C is none of Rust's")]

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

use kvdb::*;

use KvdbStatus::{KvdbClosed, KvdbCorruption, KvdbInvalid, KvdbNotFound, KvdbOk};

const NONE: *mut *mut KvdbError = null_mut();
const LEN: usize = (5 << 20) + 17;

fn byte(at: usize) -> u8 {
    at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

/// A new database, and its streams.
fn opened(directory: &tempfile::TempDir) -> (*mut Kvdb, *mut KvdbStreams) {
    let path = directory.path().join("database");
    let path = CString::new(path.as_os_str().as_bytes()).expect("a name");
    let (mut db, mut streams) = (null_mut(), null_mut());
    // SAFETY: all addresses are there.
    unsafe {
        let options = kvdb_options_new();
        let set = kvdb_options_set_number(options, c"size_bytes".as_ptr(), 32 << 20, NONE);
        assert_eq!(set, KvdbOk);
        let status = kvdb_open(path.as_ptr(), options, &raw mut db, NONE);
        assert_eq!(status, KvdbOk);
        kvdb_options_free(options);
        let status = kvdb_streams_new(db, b"s/".as_ptr(), 2, &raw mut streams, NONE);
        assert_eq!(status, KvdbOk);
    }
    (db, streams)
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Writes a stream in blocks, together with a batch.
unsafe fn write(streams: *const KvdbStreams, key: &[u8], batch: *const KvdbBatch) {
    let mut writer = null_mut();
    // SAFETY: as the caller states.
    unsafe {
        let new = kvdb_stream_writer_new(streams, key.as_ptr(), key.len(), &raw mut writer, NONE);
        assert_eq!(new, KvdbOk);
        let value: Vec<u8> = (0..LEN).map(byte).collect();
        for block in value.chunks(99_991) {
            let written = kvdb_stream_writer_write(writer, block.as_ptr(), block.len(), NONE);
            assert_eq!(written, KvdbOk);
        }
        let finished = kvdb_stream_writer_finish(writer, batch, KVDB_DURABLE, NONE);
        assert_eq!(finished, KvdbOk);
        let again = kvdb_stream_writer_finish(writer, batch, KVDB_DURABLE, NONE);
        assert_eq!(again, KvdbInvalid);
        let more = kvdb_stream_writer_write(writer, b"x".as_ptr(), 1, NONE);
        assert_eq!(more, KvdbInvalid);
        kvdb_stream_writer_free(writer);
    }
}

/// Goal: a stream goes in and out, in blocks and from any place, with other writes and in a list; a reader outlasts its stream; a writer that is freed has written nothing. Method: each
/// function is called, and what it gives is compared.
#[test]
fn a_stream_goes_in_and_out() {
    let directory = directory();
    let (db, streams) = opened(&directory);
    // SAFETY: all addresses are there, and all handles are freed once.
    unsafe {
        let batch = kvdb_batch_new();
        let put = kvdb_batch_put(batch, b"name".as_ptr(), 4, b"a".as_ptr(), 1, NONE);
        assert_eq!(put, KvdbOk);
        write(streams, b"a", batch);
        kvdb_batch_free(batch);
        assert_eq!(kvdb_contains(db, b"name".as_ptr(), 4, NONE), KvdbOk);
        write(streams, b"b", null());
        let mut dropped = null_mut();
        let new = kvdb_stream_writer_new(streams, b"c".as_ptr(), 1, &raw mut dropped, NONE);
        assert_eq!(new, KvdbOk);
        let block = vec![7; 3 << 20];
        let written = kvdb_stream_writer_write(dropped, block.as_ptr(), block.len(), NONE);
        assert_eq!(written, KvdbOk);
        kvdb_stream_writer_free(dropped);

        let (mut len, mut hash) = (0, 0);
        let of = |key: &[u8], len, hash| {
            kvdb_streams_len(streams, key.as_ptr(), key.len(), len, hash, NONE)
        };
        assert_eq!(of(b"a", &raw mut len, &raw mut hash), KvdbOk);
        assert_eq!(len, LEN as u64);
        assert!(hash > 0);
        assert_eq!(of(b"b", &raw mut len, null_mut()), KvdbOk);
        assert_eq!(of(b"c", &raw mut len, null_mut()), KvdbNotFound);
        assert_eq!(len, 0);

        let mut reader = null_mut();
        let new = kvdb_stream_reader_new(streams, b"a".as_ptr(), 1, &raw mut reader, NONE);
        assert_eq!(new, KvdbOk);
        let delete = || kvdb_streams_delete(streams, b"a".as_ptr(), 1, KVDB_DURABLE, NONE);
        assert_eq!((delete(), delete()), (KvdbOk, KvdbNotFound));
        assert_eq!(kvdb_stream_reader_len(reader), LEN as u64);
        let mut buffer = vec![0; 2 << 20];
        for from in [0, LEN - 5, 12_345, LEN, LEN + 9] {
            let at = kvdb_stream_reader_seek(reader, from as u64, NONE);
            assert_eq!(at, KvdbOk);
            let mut read = 0;
            let (into, room) = (buffer.as_mut_ptr(), buffer.len());
            let status = kvdb_stream_reader_read(reader, into, room, &raw mut read, NONE);
            assert_eq!(status, KvdbOk);
            assert_eq!(read, LEN.saturating_sub(from).min(room));
            assert!((0..read).all(|at| buffer[at] == byte(from + at)));
        }
        kvdb_stream_reader_free(reader);
        let new = kvdb_stream_reader_new(streams, b"a".as_ptr(), 1, &raw mut reader, NONE);
        assert_eq!((new, reader.is_null()), (KvdbNotFound, true));

        write(streams, b"d", null());
        for backward in [0, 1] {
            let mut list = null_mut();
            let start = b"b".as_ptr();
            let new = kvdb_stream_list_new(streams, start, 1, null(), 0, &raw mut list, NONE);
            assert_eq!(new, KvdbOk);
            let mut keys = Vec::new();
            while kvdb_stream_list_next(list, backward, NONE) == KvdbOk {
                let (mut key_len, mut len) = (0, 0);
                let key = kvdb_stream_list_key(list, &raw mut key_len, &raw mut len);
                keys.push(std::slice::from_raw_parts(key, key_len).to_vec());
                assert_eq!(len, LEN as u64);
            }
            let (mut key_len, none) = (1, null_mut());
            assert!(kvdb_stream_list_key(list, &raw mut key_len, none).is_null());
            assert_eq!(key_len, 0);
            kvdb_stream_list_free(list);
            keys.sort();
            assert_eq!(keys, [b"b", b"d"]);
        }
        kvdb_streams_free(streams);
        assert_eq!(kvdb_close(db, NONE), KvdbOk);
    }
}

/// Goal: NULL, handles of another kind and wrong numbers are refused with the argument's name; damage and a closed database are told. Method: each argument wrong once.
#[test]
fn mistakes_are_told() {
    let directory = directory();
    let (db, streams) = opened(&directory);
    let (key, len) = (b"key".as_ptr(), 3);
    // SAFETY: what is an address leads to something.
    unsafe {
        write(streams, b"key", null());
        let (mut writer, mut reader, mut list) = (null_mut(), null_mut(), null_mut());
        assert_eq!(
            kvdb_stream_writer_new(streams, key, len, &raw mut writer, NONE),
            KvdbOk
        );
        assert_eq!(
            kvdb_stream_reader_new(streams, key, len, &raw mut reader, NONE),
            KvdbOk
        );
        let new = kvdb_stream_list_new(streams, null(), 0, null(), 0, &raw mut list, NONE);
        assert_eq!(new, KvdbOk);
        let refused = |name: &str, call: &dyn Fn(*mut *mut KvdbError) -> KvdbStatus| {
            let mut error = null_mut();
            assert_eq!(call(&raw mut error), KvdbInvalid, "{name}");
            let message = CStr::from_ptr(kvdb_error_message(error)).to_string_lossy();
            assert!(message.contains(name), "{name}: {message}");
            kvdb_error_free(error);
        };
        let (mut no_streams, mut number, mut read) = (null_mut(), 0, 0);
        let (number, read) = (&raw mut number, &raw mut read);
        let (mut no_list, no_streams) = (null_mut(), &raw mut no_streams);
        let no_list = &raw mut no_list;
        let other = db.cast::<KvdbStreams>();
        let mut buffer = [0; 9];
        let buffer = buffer.as_mut_ptr();
        refused("`db`", &|e| {
            kvdb_streams_new(null(), key, len, no_streams, e)
        });
        refused("`prefix`", &|e| {
            kvdb_streams_new(db, null(), 1, no_streams, e)
        });
        refused("512", &|e| {
            kvdb_streams_new(db, [0; 513].as_ptr(), 513, no_streams, e)
        });
        refused("`streams`", &|e| {
            kvdb_streams_new(db, key, len, null_mut(), e)
        });
        refused("`streams`", &|e| {
            kvdb_streams_len(other, key, len, number, null_mut(), e)
        });
        refused("`len`", &|e| {
            kvdb_streams_len(streams, key, len, null_mut(), number, e)
        });
        refused("1..=1021", &|e| {
            kvdb_streams_len(streams, null(), 0, number, number, e)
        });
        refused("`streams`", &|e| {
            kvdb_streams_delete(null(), key, len, 0, e)
        });
        refused("`key`", &|e| kvdb_streams_delete(streams, null(), 1, 0, e));
        refused("`durability`", &|e| {
            kvdb_streams_delete(streams, key, len, 7, e)
        });
        refused("`writer`", &|e| {
            kvdb_stream_writer_new(streams, key, len, null_mut(), e)
        });
        refused("`data`", &|e| {
            kvdb_stream_writer_write(writer, null(), 1, e)
        });
        refused("`writer`", &|e| {
            kvdb_stream_writer_write(null_mut(), key, len, e)
        });
        refused("`durability`", &|e| {
            kvdb_stream_writer_finish(writer, null(), 7, e)
        });
        refused("`batch`", &|e| {
            kvdb_stream_writer_finish(writer, db.cast(), 0, e)
        });
        refused("`reader`", &|e| {
            kvdb_stream_reader_new(streams, key, len, null_mut(), e)
        });
        refused("`reader`", &|e| {
            kvdb_stream_reader_seek(writer.cast(), 0, e)
        });
        refused("`read`", &|e| {
            kvdb_stream_reader_read(reader, buffer, 9, null_mut(), e)
        });
        refused("`buffer`", &|e| {
            kvdb_stream_reader_read(reader, null_mut(), 9, read, e)
        });
        refused("`buffer`", &|e| {
            kvdb_stream_reader_read(reader, buffer, usize::MAX, read, e)
        });
        refused("`list`", &|e| kvdb_stream_list_next(null_mut(), 0, e));
        refused("`end`", &|e| {
            kvdb_stream_list_new(streams, null(), 0, null(), 1, no_list, e)
        });
        assert_eq!(kvdb_stream_reader_len(null()), 0);
        assert!(kvdb_stream_list_key(null(), read, null_mut()).is_null());
        // What was refused has changed nothing: the writer can finish.
        assert_eq!(
            kvdb_stream_writer_finish(writer, null(), KVDB_RELAXED, NONE),
            KvdbOk
        );

        // The last piece is taken away beneath the reader.
        let piece = [&b"s/\x01"[..], &0_u64.to_be_bytes(), &5_u64.to_be_bytes()].concat();
        let gone = kvdb_delete(db, piece.as_ptr(), piece.len(), KVDB_DURABLE, NONE);
        assert_eq!(gone, KvdbOk);
        let start = LEN as u64 - 50;
        assert_eq!(kvdb_stream_reader_seek(reader, start, NONE), KvdbOk);
        *read = 7;
        let damaged = || kvdb_stream_reader_read(reader, buffer, 9, read, NONE);
        let at_the_end = LEN as u64 - 17 - 4;
        assert_eq!(kvdb_stream_reader_seek(reader, at_the_end, NONE), KvdbOk);
        for _ in 0..2 {
            assert_eq!(
                (damaged(), *read),
                (KvdbCorruption, 0),
                "it stays where it was"
            );
        }
        assert_eq!(kvdb_close(db, NONE), KvdbOk);
        assert_eq!(kvdb_stream_reader_seek(reader, 0, NONE), KvdbOk);
        assert_eq!(damaged(), KvdbClosed);
        kvdb_stream_writer_free(writer);
        kvdb_stream_reader_free(reader);
        kvdb_stream_list_free(list);
        kvdb_streams_free(streams);
    }
}
