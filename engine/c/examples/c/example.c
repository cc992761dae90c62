/* The engine in a C program: every kind of call once. Takes the path of the database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvdb.h"

/* Ends the program with the reason if a call has failed. */
static void check(kvdb_status status, kvdb_error *error) {
  if (status != KVDB_OK && status != KVDB_NOT_FOUND) {
    fprintf(stderr, "status %d: %s\n", (int)status, kvdb_error_message(error));
    kvdb_error_free(error);
    exit(1);
  }
}

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

static void put(kvdb *db, const char *key, const char *value, uint32_t durability) {
  kvdb_error *error;
  check(kvdb_put(db, bytes(key), strlen(key), bytes(value), strlen(value), durability, &error), error);
}

static void print(const char *name, kvdb_status status, kvdb_value *value) {
  size_t len;
  const uint8_t *data = kvdb_value_bytes(value, &len);
  if (status == KVDB_NOT_FOUND) {
    printf("%s: nothing\n", name);
  } else {
    printf("%s: %.*s\n", name, (int)len, (const char *)data);
  }
  kvdb_value_free(value);
}

int main(int argc, char **argv) {
  kvdb_error *error;
  kvdb *db;
  kvdb_options *options = kvdb_options_new();
  check(kvdb_options_set_number(options, "size_bytes", 16 << 20, &error), error);
  check(kvdb_open(argc > 1 ? argv[1] : "example.kvdb", options, &db, &error), error);
  kvdb_options_free(options);

  /* A write that has returned survives a power cut; a relaxed one does a moment later. */
  put(db, "user/1", "Ada", KVDB_DURABLE);
  put(db, "user/2", "Grace", KVDB_RELAXED);
  put(db, "visit/1", "home", KVDB_RELAXED);

  kvdb_value *value;
  kvdb_status status = kvdb_get(db, bytes("user/1"), 6, &value, &error);
  check(status, error);
  print("user/1", status, value);

  /* A snapshot stays as it is while a batch is written, all of it or nothing. */
  kvdb_snapshot *snapshot;
  check(kvdb_snapshot_new(db, &snapshot, &error), error);
  kvdb_batch *batch = kvdb_batch_new();
  check(kvdb_batch_delete(batch, bytes("user/1"), 6, &error), error);
  check(kvdb_batch_put(batch, bytes("user/3"), 6, bytes("Edsger"), 6, &error), error);
  check(kvdb_write(db, batch, KVDB_DURABLE, &error), error);
  kvdb_batch_free(batch);
  status = kvdb_get(db, bytes("user/1"), 6, &value, &error);
  check(status, error);
  print("user/1 now", status, value);
  status = kvdb_snapshot_get(snapshot, bytes("user/1"), 6, &value, &error);
  check(status, error);
  print("user/1 in the snapshot", status, value);
  kvdb_snapshot_free(snapshot);

  /* The users, the last first: keys from "user/" up to "user0", which is the next prefix. */
  kvdb_cursor *cursor;
  check(kvdb_cursor_new(db, NULL, bytes("user/"), 5, bytes("user0"), 5, &cursor, &error), error);
  status = kvdb_cursor_last(cursor, &error);
  while (status == KVDB_OK) {
    size_t key_len, value_len;
    const uint8_t *key = kvdb_cursor_key(cursor, &key_len);
    const uint8_t *data = kvdb_cursor_value(cursor, &value_len);
    printf("%.*s = %.*s\n", (int)key_len, (const char *)key, (int)value_len, (const char *)data);
    status = kvdb_cursor_previous(cursor, &error);
  }
  check(status, error);
  kvdb_cursor_free(cursor);

  /* What fails says why. */
  status = kvdb_put(db, NULL, 0, NULL, 0, KVDB_DURABLE, &error);
  printf("status %d: %s\n", (int)status, kvdb_error_message(error));
  kvdb_error_free(error);

  check(kvdb_sync(db, &error), error);
  check(kvdb_close(db, &error), error);
  return 0;
}
