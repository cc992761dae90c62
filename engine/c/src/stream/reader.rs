//! Reading a stream.

use std::io::{BufRead, Seek, SeekFrom};

use kvsim_native::StreamReader;

use super::{KvdbStreams, failed};
use crate::border::{Kind, Outcome, alone, border, border_or, bytes, free, give, place, shared};
use crate::error::{Failed, KvdbError, KvdbStatus};

/// Reads one stream, from any place in it, as it was when the reader was made.
pub struct KvdbStreamReader(());

impl Kind for KvdbStreamReader {
    type Inside = StreamReader;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb str");
}

/// Begins to read a stream, at its first byte; KVDB_NOT_FOUND, with NULL for the reader, if there is none of this key. The stream keeps its space until the reader is freed, also
/// if it is replaced or deleted meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_reader_new(
    streams: *const KvdbStreams,
    key: *const u8,
    key_len: usize,
    reader: *mut *mut KvdbStreamReader,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let reader = unsafe { place(reader, std::ptr::null_mut(), "reader") }?;
        // SAFETY: the same.
        let streams = unsafe { shared(streams, "streams") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        let Some(found) = streams.reader(key)? else {
            return Ok(KvdbStatus::KvdbNotFound);
        };
        *reader = give::<KvdbStreamReader>(found);
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Bytes of the stream; 0 if `reader` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_reader_len(reader: *const KvdbStreamReader) -> u64 {
    border_or(0, || {
        // SAFETY: as the header demands.
        Ok(unsafe { shared(reader, "reader") }?.len())
    })
}

/// Goes to the byte of this number, counted from 0. Behind the end there is nothing to be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_reader_seek(
    reader: *mut KvdbStreamReader,
    offset: u64,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let reader = unsafe { alone(reader, "reader") }?;
        reader.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads the next bytes into `buffer`, which has room for `buffer_len`, and says how many in `read`: as many as there is room for, or fewer at the end, and 0 behind it.
///
/// KVDB_CORRUPTION if a piece is damaged: then 0 bytes were read, the reader stays where it was, and `buffer` may hold others. Where a stream is read from its first byte on
/// without a gap, the last piece is given out only if the hash of the whole stream is right.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_reader_read(
    reader: *mut KvdbStreamReader,
    buffer: *mut u8,
    buffer_len: usize,
    read: *mut usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let read = unsafe { place(read, 0, "read") }?;
        // SAFETY: the same.
        let reader = unsafe { alone(reader, "reader") }?;
        if buffer_len > 0 && (buffer.is_null() || isize::try_from(buffer_len).is_err()) {
            let message = format!("`buffer` has no room for {buffer_len} bytes");
            return Err(Failed::invalid(message));
        }
        let before = reader.stream_position().map_err(failed)?;
        // SAFETY: as the header demands; it was checked.
        let filled = unsafe { fill(reader, buffer, buffer_len) };
        if filled.is_err() {
            reader.seek(SeekFrom::Start(before)).map_err(failed)?;
        }
        *read = filled?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Reads until the buffer is full or the stream ends; says how many bytes.
///
/// # Safety
/// There is room for so many bytes, which nobody else uses.
unsafe fn fill(reader: &mut StreamReader, buffer: *mut u8, len: usize) -> Outcome<usize> {
    let mut filled = 0;
    while filled < len {
        let next = reader.fill_buf().map_err(failed)?;
        let taken = next.len().min(len - filled);
        if taken == 0 {
            break;
        }
        // SAFETY: so many bytes are left in both, and C's are none of ours.
        unsafe { std::ptr::copy_nonoverlapping(next.as_ptr(), buffer.add(filled), taken) };
        reader.consume(taken);
        filled += taken;
    }
    Ok(filled)
}

/// Frees a reader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_reader_free(reader: *mut KvdbStreamReader) {
    // SAFETY: as the header demands.
    unsafe { free(reader) }
}
