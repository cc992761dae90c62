//! The engine on a real disk for C, and for all that calls C: `include/kvdb.h`, which says what holds of errors, ownership and threads.
//!
//! - `border` is the only way between the two sides: it checks pointers, catches panics and hands out errors;
//! - `error`, `options`, `database`, `batch`, `snapshot`, `cursor`, `keyspaces`, `keyspace`, `stream`, `files`: the functions of the header, by what they are about.
//!
//! Invariants:
//! - **No panic crosses the border.** Every function runs within `border`, and a panic is the status `KVDB_PANICKED`.
//! - **No pointer is used before it was checked** for being none, and a handle for its kind.
//! - **No enumeration comes in.** C can put any number where it has one, so what comes in is a number.
//! - **The header is made of these sources** (`tests/header.rs`), and what it shows is run (`tests/examples.rs`).
#![expect(
    unsafe_code,
    reason = "a border to C: pointers come in, and go out. What is done with them is in `border`"
)]
#![expect(
    clippy::missing_safety_doc,
    reason = "what callers have to keep to is said once, at the top of the header"
)]

mod batch;
mod border;
mod cursor;
mod database;
mod error;
mod files;
mod keyspace;
mod keyspaces;
mod options;
mod snapshot;
mod stream;

pub use batch::{
    KvdbBatch, kvdb_batch_clear, kvdb_batch_delete, kvdb_batch_free, kvdb_batch_len,
    kvdb_batch_new, kvdb_batch_put, kvdb_write,
};
pub use cursor::{
    KvdbCursor, kvdb_cursor_first, kvdb_cursor_free, kvdb_cursor_key, kvdb_cursor_last,
    kvdb_cursor_new, kvdb_cursor_next, kvdb_cursor_previous, kvdb_cursor_seek,
    kvdb_cursor_seek_back, kvdb_cursor_value,
};
pub use database::{
    KVDB_DURABLE, KVDB_RELAXED, Kvdb, KvdbValue, kvdb_backup, kvdb_close, kvdb_contains,
    kvdb_delete, kvdb_delete_range, kvdb_get, kvdb_open, kvdb_put, kvdb_replace, kvdb_sync,
    kvdb_value_bytes, kvdb_value_free, kvdb_version,
};
pub use error::{KvdbError, KvdbStatus, kvdb_error_free, kvdb_error_message, kvdb_error_status};
pub use files::{
    KvdbRepairReport, kvdb_compact, kvdb_repair, kvdb_repair_report_free,
    kvdb_repair_report_is_complete, kvdb_repair_report_keys, kvdb_repair_report_text,
};
pub use keyspace::{
    KvdbKeyspace, KvdbKeyspacesBatch, kvdb_keyspace_contains, kvdb_keyspace_cursor_new,
    kvdb_keyspace_delete, kvdb_keyspace_delete_range, kvdb_keyspace_free, kvdb_keyspace_get,
    kvdb_keyspace_put, kvdb_keyspace_replace, kvdb_keyspaces_batch_clear,
    kvdb_keyspaces_batch_delete, kvdb_keyspaces_batch_free, kvdb_keyspaces_batch_len,
    kvdb_keyspaces_batch_new, kvdb_keyspaces_batch_put, kvdb_keyspaces_write,
};
pub use keyspaces::{
    KvdbKeyspaces, KvdbKeyspacesSnapshot, KvdbNames, kvdb_keyspace_create, kvdb_keyspace_drop,
    kvdb_keyspace_open, kvdb_keyspace_open_or_create, kvdb_keyspace_rename, kvdb_keyspaces_backup,
    kvdb_keyspaces_close, kvdb_keyspaces_list, kvdb_keyspaces_open, kvdb_keyspaces_snapshot_free,
    kvdb_keyspaces_snapshot_get, kvdb_keyspaces_snapshot_new, kvdb_keyspaces_sync, kvdb_names_free,
    kvdb_names_get, kvdb_names_len,
};
pub use options::{
    KvdbOptions, kvdb_options_free, kvdb_options_new, kvdb_options_set, kvdb_options_set_number,
};
pub use snapshot::{KvdbSnapshot, kvdb_snapshot_free, kvdb_snapshot_get, kvdb_snapshot_new};
pub use stream::list::{
    KvdbStreamList, kvdb_stream_list_free, kvdb_stream_list_key, kvdb_stream_list_new,
    kvdb_stream_list_next,
};
pub use stream::reader::{
    KvdbStreamReader, kvdb_stream_reader_free, kvdb_stream_reader_len, kvdb_stream_reader_new,
    kvdb_stream_reader_read, kvdb_stream_reader_seek,
};
pub use stream::writer::{
    KvdbStreamWriter, kvdb_stream_writer_finish, kvdb_stream_writer_free, kvdb_stream_writer_new,
    kvdb_stream_writer_write,
};
pub use stream::{
    KvdbStreams, kvdb_streams_delete, kvdb_streams_free, kvdb_streams_len, kvdb_streams_new,
};
