// The key/value engine of kvsim for C. Made by cbindgen of engine/c/src; do not edit.
//
// Errors. A function that can fail returns a status: KVDB_OK, KVDB_NOT_FOUND, or what went wrong. Its last argument takes the error as a sentence: either NULL, or
// the address of a pointer, which is set to an error that you free with kvdb_error_free, or to NULL. If a function fails, its other results are NULL or 0.
//
// Ownership. What a function gives out through a `kvdb_… **` is yours, and is freed by the function named after it; freeing NULL does nothing. Keys and values that
// you hand in are copied before the function returns. Bytes that you get belong to the handle that you asked, and are valid until the time that its function states.
//
// Threads. A database, keyspaces and a keyspace, a snapshot, streams, a value, names, a report and an error may be used by any number of threads at once. Options, a batch, a cursor, and a
// writer, a reader and a list of streams may move from thread to thread, but are used by one at a time. A handle is freed by one thread, once, and used by none from then on.
// Nothing depends on which thread calls.
//
// Every pointer is checked: NULL where there must be something, or a handle of another kind, is KVDB_INVALID, and nothing is done. Bytes of length 0 may be NULL.
// A handle that was freed cannot be checked: do not use one.
//
// fork: a child process must not use what its parent opened.


#ifndef KVDB_H
#define KVDB_H

#include <stddef.h>
#include <stdint.h>

// A write is acknowledged once it survives a power cut.
#define KVDB_DURABLE 0

// A write is acknowledged as soon as it is accepted. It is durable within 50 ms unless the option `relaxed_window_ns` says otherwise, or with a later durable write or sync.
// What a crash leaves is a prefix of the order of writes.
#define KVDB_RELAXED 1

// What came of a call.
typedef enum {
  // It was done.
  KVDB_OK = 0,
  // There is no such key, or it has another value, or the cursor has left its range. No error.
  KVDB_NOT_FOUND = 1,
  // The medium holds something else than was written. It is never returned as a value.
  KVDB_CORRUPTION = 2,
  // The device failed. A write may or may not be found after the next opening.
  KVDB_IO_ERROR = 3,
  // No space; nothing was written.
  KVDB_NO_SPACE = 4,
  // A write or a flush has failed before, or the database was opened to be read only. Nothing is written until it is opened anew; nothing was.
  KVDB_READ_ONLY = 5,
  // The call itself is wrong; nothing was done.
  KVDB_INVALID = 6,
  // The database is closed; nothing was done.
  KVDB_CLOSED = 7,
  // The database is open already, in this process or another.
  KVDB_LOCKED = 8,
  // A bug of the library. The database may be given up: then every call is KVDB_CLOSED. What was acknowledged is there at the next opening.
  KVDB_PANICKED = 9,
} kvdb_status;

// An open database.
typedef struct kvdb kvdb;

// Writes that take effect together or not at all, in their order.
typedef struct kvdb_batch kvdb_batch;

// A place in a range of keys as they were at one moment, which moves both ways.
typedef struct kvdb_cursor kvdb_cursor;

// What went wrong, in a sentence.
typedef struct kvdb_error kvdb_error;

// A keyspace of an open database. Any number of threads may use it at once.
typedef struct kvdb_keyspace kvdb_keyspace;

// An open database that is divided into named keyspaces, in one file. Batches and snapshots are of all of them.
typedef struct kvdb_keyspaces kvdb_keyspaces;

// Writes to one or several keyspaces that take effect together or not at all, in their order. It is used by one thread at a time.
typedef struct kvdb_keyspaces_batch kvdb_keyspaces_batch;

// One moment of all keyspaces, which later writes and drops do not change.
typedef struct kvdb_keyspaces_snapshot kvdb_keyspaces_snapshot;

// Names of keyspaces.
typedef struct kvdb_names kvdb_names;

// What a database is opened with.
typedef struct kvdb_options kvdb_options;

// What a repair did, and what is lost.
typedef struct kvdb_repair_report kvdb_repair_report;

// One moment of a database, which later writes do not change.
typedef struct kvdb_snapshot kvdb_snapshot;

// The streams of a range of keys as they were at one moment.
typedef struct kvdb_stream_list kvdb_stream_list;

// Reads one stream, from any place in it, as it was when the reader was made.
typedef struct kvdb_stream_reader kvdb_stream_reader;

// Writes one stream, from its first byte to its last.
typedef struct kvdb_stream_writer kvdb_stream_writer;

// Large values of a database by key, of any length, which are written and read piece by piece.
typedef struct kvdb_streams kvdb_streams;

// A value that was read. It stays as it is, whatever is written, also after its database was closed.
typedef struct kvdb_value kvdb_value;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A batch without writes. Never NULL.
kvdb_batch *kvdb_batch_new(void);

// Adds a write that sets a key.
kvdb_status kvdb_batch_put(kvdb_batch *batch,
                           const uint8_t *key,
                           size_t key_len,
                           const uint8_t *value,
                           size_t value_len,
                           kvdb_error **error);

// Adds a write that removes a key.
kvdb_status kvdb_batch_delete(kvdb_batch *batch, const uint8_t *key, size_t key_len, kvdb_error **error);

// How many writes a batch has; 0 if `batch` is none.
size_t kvdb_batch_len(const kvdb_batch *batch);

// Removes all writes of a batch.
kvdb_status kvdb_batch_clear(kvdb_batch *batch, kvdb_error **error);

// Writes all of a batch or nothing. The batch stays as it is, and is yours.
//
// KVDB_INVALID if a key or value is too large, or if the batch does not fit into one frame of the log, which holds nearly 1 MiB.
kvdb_status kvdb_write(const kvdb *db, const kvdb_batch *batch, uint32_t durability, kvdb_error **error);

// Frees a batch.
void kvdb_batch_free(kvdb_batch *batch);

// A cursor over the keys from `start`, included, up to `end`, excluded, as `snapshot` has them, or as they are now if that is NULL. It begins before the first.
//
// NULL for `start` is from the first key, NULL for `end` up to the last. Of one snapshot there can be any number of cursors.
kvdb_status kvdb_cursor_new(const kvdb *db,
                            const kvdb_snapshot *snapshot,
                            const uint8_t *start,
                            size_t start_len,
                            const uint8_t *end,
                            size_t end_len,
                            kvdb_cursor **cursor,
                            kvdb_error **error);

// Moves to the first entry of the range; KVDB_NOT_FOUND if there is none.
kvdb_status kvdb_cursor_first(kvdb_cursor *cursor, kvdb_error **error);

// Moves to the last entry of the range; KVDB_NOT_FOUND if there is none.
kvdb_status kvdb_cursor_last(kvdb_cursor *cursor, kvdb_error **error);

// Moves to the next entry, or to the first if the cursor is before it; KVDB_NOT_FOUND if it is behind the last now.
kvdb_status kvdb_cursor_next(kvdb_cursor *cursor, kvdb_error **error);

// Moves to the entry before, or to the last if the cursor is behind it; KVDB_NOT_FOUND if it is before the first now.
kvdb_status kvdb_cursor_previous(kvdb_cursor *cursor, kvdb_error **error);

// Moves to the first entry whose key is this one or larger; KVDB_NOT_FOUND if it is behind the last now.
kvdb_status kvdb_cursor_seek(kvdb_cursor *cursor, const uint8_t *key, size_t key_len, kvdb_error **error);

// Moves to the last entry whose key is this one or smaller; KVDB_NOT_FOUND if it is before the first now.
kvdb_status kvdb_cursor_seek_back(kvdb_cursor *cursor, const uint8_t *key, size_t key_len, kvdb_error **error);

// The key that the cursor is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none.
const uint8_t *kvdb_cursor_key(const kvdb_cursor *cursor, size_t *len);

// The value that the cursor is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none.
const uint8_t *kvdb_cursor_value(const kvdb_cursor *cursor, size_t *len);

// Frees a cursor.
void kvdb_cursor_free(kvdb_cursor *cursor);

// The version of this library, such as "0.1.0". It ends with a zero and is never freed.
const char *kvdb_version(void);

// Opens the database in a file or on a block device; creates it in a file that does not exist.
//
// `options` may be NULL: then all are at their defaults. They can be used again, and freed.
//
// KVDB_LOCKED if it is open already; KVDB_CORRUPTION if acknowledged data is damaged; KVDB_IO_ERROR if the file cannot be opened or read; KVDB_NO_SPACE;
// KVDB_INVALID if it is not a database, or a wrong option.
kvdb_status kvdb_open(const char *path,
                      const kvdb_options *options,
                      kvdb **db,
                      kvdb_error **error);

// Makes everything durable, closes the database and frees it, whatever is returned. Snapshots, cursors and streams of it stay to be freed; until then their calls are
// KVDB_CLOSED. NULL is closed already.
kvdb_status kvdb_close(kvdb *db,
                       kvdb_error **error);

// Sets a key of 1 to 1,024 bytes to a value of at most 16 MiB, unless the option `max_value_bytes` says otherwise.
//
// `durability` is KVDB_DURABLE or KVDB_RELAXED. The status says whether a write that failed may have an effect.
kvdb_status kvdb_put(const kvdb *db,
                     const uint8_t *key,
                     size_t key_len,
                     const uint8_t *value,
                     size_t value_len,
                     uint32_t durability,
                     kvdb_error **error);

// Removes a key. To remove what is not there is no error.
kvdb_status kvdb_delete(const kvdb *db, const uint8_t *key, size_t key_len, uint32_t durability, kvdb_error **error);

// Reads a key. KVDB_NOT_FOUND, with NULL for the value, if there is none.
kvdb_status kvdb_get(const kvdb *db, const uint8_t *key, size_t key_len, kvdb_value **value, kvdb_error **error);

// Whether there is such a key: KVDB_OK or KVDB_NOT_FOUND. Its value is not read.
kvdb_status kvdb_contains(const kvdb *db, const uint8_t *key, size_t key_len, kvdb_error **error);

// Sets a key to `value`, or removes it if that is NULL, if it has the value `old`, or if there is no such key where `old` is NULL. No other write comes between the two.
//
// KVDB_OK if it was written; KVDB_NOT_FOUND if the key has another value, and then nothing was written. An empty value is one that is not NULL and has length 0.
kvdb_status kvdb_replace(const kvdb *db,
                         const uint8_t *key,
                         size_t key_len,
                         const uint8_t *old,
                         size_t old_len,
                         const uint8_t *value,
                         size_t value_len,
                         uint32_t durability,
                         kvdb_error **error);

// Removes all keys from `start`, included, up to `end`, excluded, together or not at all; NULL is no bound. `count`, if it is not NULL, gets how many there were.
//
// KVDB_INVALID if there are more keys than one frame of the log has deletes for: some 10,000.
kvdb_status kvdb_delete_range(const kvdb *db,
                              const uint8_t *start,
                              size_t start_len,
                              const uint8_t *end,
                              size_t end_len,
                              uint32_t durability,
                              uint64_t *count,
                              kvdb_error **error);

// Makes a copy of everything as it is now, in a new file, while others read and write. The copy is a database, and is durable when this returns.
//
// KVDB_INVALID if there is something of this name already.
kvdb_status kvdb_backup(const kvdb *db,
                        const char *path,
                        kvdb_error **error);

// Returns once everything that was accepted so far is durable.
kvdb_status kvdb_sync(const kvdb *db, kvdb_error **error);

// The bytes of a value, valid until it is freed, and how many there are. Of an empty value the address is not NULL; of NULL it is, and `len` is 0.
const uint8_t *kvdb_value_bytes(const kvdb_value *value,
                                size_t *len);

// Frees a value.
void kvdb_value_free(kvdb_value *value);

// The status that an error came with; KVDB_INVALID if `error` is none.
kvdb_status kvdb_error_status(const kvdb_error *error);

// What went wrong, in a sentence that ends with a zero, valid until the error is freed; an empty text if `error` is none.
const char *kvdb_error_message(const kvdb_error *error);

// Frees an error.
void kvdb_error_free(kvdb_error *error);

// Makes the file of a database that nobody has open as small as it can be: all is copied into a new file, which then takes the old one's name. The file system needs room for both.
//
// `options` may be NULL. KVDB_LOCKED if it is open; KVDB_INVALID if it is a block device or has other names (hard links); KVDB_CORRUPTION if a value is damaged. Unless it is
// KVDB_OK the old file is as it was.
kvdb_status kvdb_compact(const char *path,
                         const kvdb_options *options,
                         kvdb_error **error);

// Makes a new database at `to` of what can be read of a damaged one that nobody has open, and says what is lost. The damaged file is only read.
//
// `options` may be NULL. KVDB_OK also where something is lost: the report says what, and is to be freed. KVDB_LOCKED if the damaged one is open; KVDB_INVALID if it is no database, or
// there is something at `to` already.
kvdb_status kvdb_repair(const char *damaged,
                        const char *to,
                        const kvdb_options *options,
                        kvdb_repair_report **report,
                        kvdb_error **error);

// Whether the new database has all that one without damage would show: KVDB_OK, or KVDB_NOT_FOUND if something is lost or may be. KVDB_INVALID if `report` is none.
kvdb_status kvdb_repair_report_is_complete(const kvdb_repair_report *report);

// How many keys were copied.
uint64_t kvdb_repair_report_keys(const kvdb_repair_report *report);

// The report as a text that ends with a zero: a line for each key that is lost or has an older value, and for whatever else is lost or may be. It is valid until the report is freed.
const char *kvdb_repair_report_text(const kvdb_repair_report *report);

// Frees a report.
void kvdb_repair_report_free(kvdb_repair_report *report);

// Frees a handle of a keyspace. The keyspace stays.
void kvdb_keyspace_free(kvdb_keyspace *keyspace);

// Sets a key of 1 to 1,020 bytes: see kvdb_put.
kvdb_status kvdb_keyspace_put(const kvdb_keyspace *keyspace,
                              const uint8_t *key,
                              size_t key_len,
                              const uint8_t *value,
                              size_t value_len,
                              uint32_t durability,
                              kvdb_error **error);

// Removes a key. To remove what is not there is no error.
kvdb_status kvdb_keyspace_delete(const kvdb_keyspace *keyspace,
                                 const uint8_t *key,
                                 size_t key_len,
                                 uint32_t durability,
                                 kvdb_error **error);

// Reads a key. KVDB_NOT_FOUND, with NULL for the value, if there is none.
kvdb_status kvdb_keyspace_get(const kvdb_keyspace *keyspace, const uint8_t *key, size_t key_len, kvdb_value **value, kvdb_error **error);

// Whether there is such a key: KVDB_OK or KVDB_NOT_FOUND. Its value is not read.
kvdb_status kvdb_keyspace_contains(const kvdb_keyspace *keyspace, const uint8_t *key, size_t key_len, kvdb_error **error);

// Sets a key to `value`, or removes it if that is NULL, if it has the value `old`, or if there is no such key where `old` is NULL: see kvdb_replace.
kvdb_status kvdb_keyspace_replace(const kvdb_keyspace *keyspace,
                                  const uint8_t *key,
                                  size_t key_len,
                                  const uint8_t *old,
                                  size_t old_len,
                                  const uint8_t *value,
                                  size_t value_len,
                                  uint32_t durability,
                                  kvdb_error **error);

// Removes all keys of a keyspace from `start`, included, up to `end`, excluded, together or not at all: see kvdb_delete_range.
kvdb_status kvdb_keyspace_delete_range(const kvdb_keyspace *keyspace,
                                       const uint8_t *start,
                                       size_t start_len,
                                       const uint8_t *end,
                                       size_t end_len,
                                       uint32_t durability,
                                       uint64_t *count,
                                       kvdb_error **error);

// A cursor over the keys of a keyspace from `start`, included, up to `end`, excluded, as `snapshot` has them, or as they are now if that is NULL. It begins before the
// first, and is a cursor as any other: see kvdb_cursor_new.
kvdb_status kvdb_keyspace_cursor_new(const kvdb_keyspace *keyspace,
                                     const kvdb_keyspaces_snapshot *snapshot,
                                     const uint8_t *start,
                                     size_t start_len,
                                     const uint8_t *end,
                                     size_t end_len,
                                     kvdb_cursor **cursor,
                                     kvdb_error **error);

// A batch of writes to keyspaces, without writes. Never NULL.
kvdb_keyspaces_batch *kvdb_keyspaces_batch_new(void);

// Adds a write that sets a key of a keyspace, whose handle may be freed before the batch is written.
kvdb_status kvdb_keyspaces_batch_put(kvdb_keyspaces_batch *batch,
                                     const kvdb_keyspace *keyspace,
                                     const uint8_t *key,
                                     size_t key_len,
                                     const uint8_t *value,
                                     size_t value_len,
                                     kvdb_error **error);

// Adds a write that removes a key of a keyspace, whose handle may be freed before the batch is written.
kvdb_status kvdb_keyspaces_batch_delete(kvdb_keyspaces_batch *batch,
                                        const kvdb_keyspace *keyspace,
                                        const uint8_t *key,
                                        size_t key_len,
                                        kvdb_error **error);

// How many writes a batch has; 0 if `batch` is none.
size_t kvdb_keyspaces_batch_len(const kvdb_keyspaces_batch *batch);

// Removes all writes of a batch.
kvdb_status kvdb_keyspaces_batch_clear(kvdb_keyspaces_batch *batch, kvdb_error **error);

// Writes all of a batch or nothing, in all its keyspaces. The batch stays as it is, and is yours.
//
// As kvdb_write; KVDB_INVALID too if the batch names a keyspace of another database, or one that was dropped.
kvdb_status kvdb_keyspaces_write(const kvdb_keyspaces *keyspaces,
                                 const kvdb_keyspaces_batch *batch,
                                 uint32_t durability,
                                 kvdb_error **error);

// Frees a batch of writes to keyspaces.
void kvdb_keyspaces_batch_free(kvdb_keyspaces_batch *batch);

// Opens the database in a file or on a block device as keyspaces. Creates it, and divides it, in a file that does not exist or holds nothing.
//
// `options` may be NULL, as for kvdb_open. If a process ended while it dropped a keyspace, what is left of that is removed first.
//
// As kvdb_open; KVDB_INVALID too if the file holds keys that are in no keyspace, or was divided by a later version. Then it is left as it was.
kvdb_status kvdb_keyspaces_open(const char *path,
                                const kvdb_options *options,
                                kvdb_keyspaces **keyspaces,
                                kvdb_error **error);

// Makes everything durable, closes the database and frees `keyspaces`, whatever is returned. Keyspaces, batches, snapshots and cursors of it stay to be freed, which has
// to be before the file is opened again. Until then their calls are KVDB_CLOSED, but for reads of a keyspace that find the key in memory. NULL is closed already.
kvdb_status kvdb_keyspaces_close(kvdb_keyspaces *keyspaces,
                                 kvdb_error **error);

// Returns once everything that was accepted so far is durable, in all keyspaces.
kvdb_status kvdb_keyspaces_sync(const kvdb_keyspaces *keyspaces, kvdb_error **error);

// Makes a copy of all keyspaces as they are now, in a new file that is divided in the same way, while others read and write. The copy is durable when this returns.
//
// KVDB_INVALID if there is something of this name already.
kvdb_status kvdb_keyspaces_backup(const kvdb_keyspaces *keyspaces,
                                  const char *path,
                                  kvdb_error **error);

// The names of all keyspaces, in the order of their bytes.
kvdb_status kvdb_keyspaces_list(const kvdb_keyspaces *keyspaces, kvdb_names **names, kvdb_error **error);

// How many names there are; 0 if `names` is none.
size_t kvdb_names_len(const kvdb_names *names);

// One of the names, counted from 0, as UTF-8 that ends with a zero, valid until `names` is freed; NULL if there is none.
const char *kvdb_names_get(const kvdb_names *names, size_t index);

// Frees names.
void kvdb_names_free(kvdb_names *names);

// Creates a keyspace, durably. `name` is 1 to 255 bytes of UTF-8.
//
// KVDB_INVALID if there is one of this name already.
kvdb_status kvdb_keyspace_create(const kvdb_keyspaces *keyspaces, const char *name, kvdb_keyspace **keyspace, kvdb_error **error);

// The keyspace of this name. KVDB_NOT_FOUND, with NULL for the keyspace, if there is none.
kvdb_status kvdb_keyspace_open(const kvdb_keyspaces *keyspaces, const char *name, kvdb_keyspace **keyspace, kvdb_error **error);

// The keyspace of this name, which is created if there is none.
kvdb_status kvdb_keyspace_open_or_create(const kvdb_keyspaces *keyspaces, const char *name, kvdb_keyspace **keyspace, kvdb_error **error);

// Drops a keyspace with all its keys, at one moment and durably, and then removes the keys. KVDB_NOT_FOUND if there is none.
//
// From then on, what is done with its handles is KVDB_INVALID; they stay to be freed. If the process ends while keys are being removed, the next opening removes the rest.
kvdb_status kvdb_keyspace_drop(const kvdb_keyspaces *keyspaces,
                               const char *name,
                               kvdb_error **error);

// Gives a keyspace another name, durably. Its handles stay what they are. KVDB_NOT_FOUND if there is none of the name `from`; KVDB_INVALID if there is one of the name `to`.
kvdb_status kvdb_keyspace_rename(const kvdb_keyspaces *keyspaces,
                                 const char *from,
                                 const char *to,
                                 kvdb_error **error);

// Takes a snapshot of everything that was accepted so far, in all keyspaces. What is overwritten, deleted or dropped later keeps its space until the snapshot and all cursors
// of it are freed.
kvdb_status kvdb_keyspaces_snapshot_new(const kvdb_keyspaces *keyspaces,
                                        kvdb_keyspaces_snapshot **snapshot,
                                        kvdb_error **error);

// Reads a key of a keyspace as it was. KVDB_NOT_FOUND, with NULL for the value, if there was none. KVDB_INVALID if the keyspace had been dropped before.
kvdb_status kvdb_keyspaces_snapshot_get(const kvdb_keyspaces_snapshot *snapshot,
                                        const kvdb_keyspace *keyspace,
                                        const uint8_t *key,
                                        size_t key_len,
                                        kvdb_value **value,
                                        kvdb_error **error);

// Frees a snapshot of all keyspaces. Cursors of it go on.
void kvdb_keyspaces_snapshot_free(kvdb_keyspaces_snapshot *snapshot);

// Options that are all at their defaults. Never NULL.
kvdb_options *kvdb_options_new(void);

// Sets an option by its name to a value in words or decimal digits.
//
// | name | values | default |
// | --- | --- | --- |
// | `size_bytes` | size of a new file, written in full at once; later it grows by itself | 268435456 |
// | `max_bytes` | the file grows no further; 0: as far as the file system has room | 0 |
// | `cache_bytes` | bound of the keys and values that are kept in memory | 268435456 |
// | `kind` | what durable means: `full`, the drive's own cache included, or `os`, as `fsync` does it | full |
// | `driver` | `auto`, `uring` or `threads` | auto |
// | `read_only` | `true`: the file has to exist, and not a byte of it changes; any number of processes may read at once | false |
// | `assume_power_loss_protection` | `true` if the drive's cache survives a power cut, so that no flush is needed | false |
//
// Every other name is one of the engine's own options, which the book lists.
//
// KVDB_INVALID if there is no such option or it has no such value; then nothing has changed.
kvdb_status kvdb_options_set(kvdb_options *options, const char *name, const char *value, kvdb_error **error);

// Sets an option whose value is a number: see kvdb_options_set.
kvdb_status kvdb_options_set_number(kvdb_options *options, const char *name, uint64_t value, kvdb_error **error);

// Frees options. What was opened with them stays open.
void kvdb_options_free(kvdb_options *options);

// Takes a snapshot of everything that was accepted so far. What is overwritten or deleted later keeps its space until the snapshot and all cursors of it are freed.
kvdb_status kvdb_snapshot_new(const kvdb *db,
                              kvdb_snapshot **snapshot,
                              kvdb_error **error);

// Reads a key as it was. KVDB_NOT_FOUND, with NULL for the value, if there was none.
kvdb_status kvdb_snapshot_get(const kvdb_snapshot *snapshot, const uint8_t *key, size_t key_len, kvdb_value **value, kvdb_error **error);

// Frees a snapshot. Cursors of it go on.
void kvdb_snapshot_free(kvdb_snapshot *snapshot);

// The streams whose entries begin with this prefix of at most 512 bytes. All keys that begin with it are theirs: write none of them, and let no prefix of other streams
// begin with it.
//
// Pieces that a crash has left without a stream are removed before it returns, unless the database is read only. So ask for each prefix that is used once after an opening.
kvdb_status kvdb_streams_new(const kvdb *db,
                             const uint8_t *prefix,
                             size_t prefix_len,
                             kvdb_streams **streams,
                             kvdb_error **error);

// The length of a stream in bytes, and its XXH3 hash of 64 bits; `hash` may be NULL. KVDB_NOT_FOUND if there is no such stream.
kvdb_status kvdb_streams_len(const kvdb_streams *streams,
                             const uint8_t *key,
                             size_t key_len,
                             uint64_t *len,
                             uint64_t *hash,
                             kvdb_error **error);

// Removes a stream; KVDB_NOT_FOUND if there is none of this key. Who reads it reads on, and its space comes back once nobody does.
kvdb_status kvdb_streams_delete(const kvdb_streams *streams, const uint8_t *key, size_t key_len, uint32_t durability, kvdb_error **error);

// Frees streams. Writers, readers and lists of them go on.
void kvdb_streams_free(kvdb_streams *streams);

// A list of the streams with keys from `start`, included, up to `end`, excluded. It begins before the first. NULL for `start` is from the first key, NULL for `end` up to the last.
kvdb_status kvdb_stream_list_new(const kvdb_streams *streams,
                                 const uint8_t *start,
                                 size_t start_len,
                                 const uint8_t *end,
                                 size_t end_len,
                                 kvdb_stream_list **list,
                                 kvdb_error **error);

// Moves to the next stream; KVDB_NOT_FOUND if there are no more. From the end it takes the last of those that are left if `backward` is not 0.
kvdb_status kvdb_stream_list_next(kvdb_stream_list *list,
                                  uint32_t backward,
                                  kvdb_error **error);

// The key of the stream that the list is at, valid until it moves or is freed; NULL, with 0 for `len`, if it is at none. `stream_len`, which may be NULL, gets the length of the
// stream in bytes.
const uint8_t *kvdb_stream_list_key(const kvdb_stream_list *list,
                                    size_t *len,
                                    uint64_t *stream_len);

// Frees a list.
void kvdb_stream_list_free(kvdb_stream_list *list);

// Begins to read a stream, at its first byte; KVDB_NOT_FOUND, with NULL for the reader, if there is none of this key. The stream keeps its space until the reader is freed, also
// if it is replaced or deleted meanwhile.
kvdb_status kvdb_stream_reader_new(const kvdb_streams *streams,
                                   const uint8_t *key,
                                   size_t key_len,
                                   kvdb_stream_reader **reader,
                                   kvdb_error **error);

// Bytes of the stream; 0 if `reader` is none.
uint64_t kvdb_stream_reader_len(const kvdb_stream_reader *reader);

// Goes to the byte of this number, counted from 0. Behind the end there is nothing to be read.
kvdb_status kvdb_stream_reader_seek(kvdb_stream_reader *reader, uint64_t offset, kvdb_error **error);

// Reads the next bytes into `buffer`, which has room for `buffer_len`, and says how many in `read`: as many as there is room for, or fewer at the end, and 0 behind it.
//
// KVDB_CORRUPTION if a piece is damaged: then 0 bytes were read, the reader stays where it was, and `buffer` may hold others. Where a stream is read from its first byte on
// without a gap, the last piece is given out only if the hash of the whole stream is right.
kvdb_status kvdb_stream_reader_read(kvdb_stream_reader *reader,
                                    uint8_t *buffer,
                                    size_t buffer_len,
                                    size_t *read,
                                    kvdb_error **error);

// Frees a reader.
void kvdb_stream_reader_free(kvdb_stream_reader *reader);

// Begins to write a stream. Nobody sees it, and what had its key before stays, until it has finished.
//
// A key has at least 1 byte, and together with the prefix at most 1,023.
kvdb_status kvdb_stream_writer_new(const kvdb_streams *streams,
                                   const uint8_t *key,
                                   size_t key_len,
                                   kvdb_stream_writer **writer,
                                   kvdb_error **error);

// Adds all these bytes. If it fails, some of them may have been added: free the writer, and nothing of the stream is there.
kvdb_status kvdb_stream_writer_write(kvdb_stream_writer *writer, const uint8_t *data, size_t data_len, kvdb_error **error);

// Makes the stream the one of its key, whole, together with the writes of `batch`, which may be NULL. The batch stays as it is, and is yours.
//
// Unless an argument is refused, the writer has finished then, whatever is returned, and is only to be freed. If it fails, nothing was written, unless the status is KVDB_IO_ERROR: then the next opening shows what is
// there.
kvdb_status kvdb_stream_writer_finish(kvdb_stream_writer *writer,
                                      const kvdb_batch *batch,
                                      uint32_t durability,
                                      kvdb_error **error);

// Frees a writer. If it has not finished, nothing of the stream is there.
void kvdb_stream_writer_free(kvdb_stream_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KVDB_H */
