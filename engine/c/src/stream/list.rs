//! Lists of streams.

use kvsim_native::{StreamEntry, StreamList};

use super::KvdbStreams;
use crate::border::{Kind, Outcome, alone, border, border_or, free, give, place, range, shared};
use crate::error::{KvdbError, KvdbStatus};

/// The streams of a range of keys as they were at one moment.
pub struct KvdbStreamList(());

pub(crate) struct Listed {
    list: StreamList,
    /// Where the list is.
    entry: Option<StreamEntry>,
}

impl Kind for KvdbStreamList {
    type Inside = Listed;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb stl");
}

/// A list of the streams with keys from `start`, included, up to `end`, excluded. It begins before the first. NULL for `start` is from the first key, NULL for `end` up to the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_list_new(
    streams: *const KvdbStreams,
    start: *const u8,
    start_len: usize,
    end: *const u8,
    end_len: usize,
    list: *mut *mut KvdbStreamList,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let list = unsafe { place(list, std::ptr::null_mut(), "list") }?;
        // SAFETY: the same.
        let streams = unsafe { shared(streams, "streams") }?;
        // SAFETY: the same.
        let range = unsafe { range((start, start_len), (end, end_len)) }?;
        *list = give::<KvdbStreamList>(Listed {
            list: streams.list(range)?,
            entry: None,
        });
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Moves to the next stream; KVDB_NOT_FOUND if there are no more. From the end it takes the last of those that are left if `backward` is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_list_next(
    list: *mut KvdbStreamList,
    backward: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || -> Outcome<KvdbStatus> {
        // SAFETY: as the header demands.
        let listed = unsafe { alone(list, "list") }?;
        listed.entry = None;
        let entry = match backward {
            0 => listed.list.next(),
            _ => listed.list.next_back(),
        };
        listed.entry = entry.transpose()?;
        Ok(match listed.entry {
            Some(_) => KvdbStatus::KvdbOk,
            None => KvdbStatus::KvdbNotFound,
        })
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// The key of the stream that the list is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none. `stream_len`, which may be NULL, gets the length of the
/// stream in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_list_key(
    list: *const KvdbStreamList,
    len: *mut usize,
    stream_len: *mut u64,
) -> *const u8 {
    border_or(std::ptr::null(), || {
        // SAFETY: as the header demands.
        let len = unsafe { place(len, 0, "len") }?;
        let stream_len = match stream_len.is_null() {
            true => None,
            // SAFETY: the same.
            false => Some(unsafe { place(stream_len, 0, "stream_len") }?),
        };
        // SAFETY: the same.
        let Some(entry) = &unsafe { shared(list, "list") }?.entry else {
            return Ok(std::ptr::null());
        };
        *len = entry.key.len();
        if let Some(stream_len) = stream_len {
            *stream_len = entry.info.bytes;
        }
        Ok(entry.key.as_ptr())
    })
}

/// Frees a list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_list_free(list: *mut KvdbStreamList) {
    // SAFETY: as the header demands.
    unsafe { free(list) }
}
