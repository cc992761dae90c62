//! Writing a stream.

use std::io::Write;

use kvsim_native::{StreamWriter, WriteBatch};

use super::{KvdbStreams, failed};
use crate::batch::KvdbBatch;
use crate::border::{
    Kind, Outcome, alone, border, bytes, free, give, place, shared, shared_or_null,
};
use crate::database::durability;
use crate::error::{Failed, KvdbError, KvdbStatus};

/// Writes one stream, from its first byte to its last.
pub struct KvdbStreamWriter(());

impl Kind for KvdbStreamWriter {
    /// None once it has finished.
    type Inside = Option<StreamWriter>;
    const NUMBER: u64 = u64::from_le_bytes(*b"kvdb stw");
}

fn has_finished() -> Failed {
    Failed::invalid("the writer has finished: free it, and begin another one")
}

/// Begins to write a stream. Nobody sees it, and what had its key before stays, until it has finished.
///
/// A key has at least 1 byte, and together with the prefix at most 1,023.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_writer_new(
    streams: *const KvdbStreams,
    key: *const u8,
    key_len: usize,
    writer: *mut *mut KvdbStreamWriter,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let writer = unsafe { place(writer, std::ptr::null_mut(), "writer") }?;
        // SAFETY: the same.
        let streams = unsafe { shared(streams, "streams") }?;
        // SAFETY: the same.
        let key = unsafe { bytes(key, key_len, "key") }?;
        *writer = give::<KvdbStreamWriter>(Some(streams.writer(key)?));
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Adds all these bytes. If it fails, some of them may have been added: free the writer, and nothing of the stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_writer_write(
    writer: *mut KvdbStreamWriter,
    data: *const u8,
    data_len: usize,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || {
        // SAFETY: as the header demands.
        let writer = unsafe { alone(writer, "writer") }?;
        // SAFETY: the same.
        let data = unsafe { bytes(data, data_len, "data") }?;
        let writer = writer.as_mut().ok_or_else(has_finished)?;
        writer.write_all(data).map_err(failed)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Makes the stream the one of its key, whole, together with the writes of `batch`, which may be NULL. The batch stays as it is, and is yours.
///
/// Unless an argument is refused, the writer has finished then, whatever is returned, and is only to be freed. If it fails, nothing was written, unless the status is KVDB_IO_ERROR: then the next opening shows what is
/// there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_writer_finish(
    writer: *mut KvdbStreamWriter,
    batch: *const KvdbBatch,
    durability: u32,
    error: *mut *mut KvdbError,
) -> KvdbStatus {
    let work = || -> Outcome<KvdbStatus> {
        // SAFETY: as the header demands.
        let writer = unsafe { alone(writer, "writer") }?;
        // SAFETY: the same.
        let batch = unsafe { shared_or_null(batch, "batch") }?;
        let durability = self::durability(durability)?;
        let writer = writer.take().ok_or_else(has_finished)?;
        writer.finish_with(batch.unwrap_or(&WriteBatch::new()), durability)?;
        Ok(KvdbStatus::KvdbOk)
    };
    // SAFETY: as the header demands.
    unsafe { border(error, work) }
}

/// Frees a writer. If it has not finished, nothing of the stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvdb_stream_writer_free(writer: *mut KvdbStreamWriter) {
    // SAFETY: as the header demands.
    unsafe { free(writer) }
}
