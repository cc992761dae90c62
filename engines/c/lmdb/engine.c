/* LMDB behind kvsim's adapter: the unnamed database, one transaction for each write, all flags at their defaults but MDB_NOSUBDIR (one file)
 * and MDB_NOLOCK (one process, one thread). Without locks LMDB keeps no table of readers, so a snapshot is not offered.
 * Options: `map_size=BYTES` (8 MiB if it is not set). */
#define KV_ADAPTER
#include "kvsim_adapter.h"
#include "lmdb.h"

static MDB_env *env;
static MDB_dbi table;

static enum kv_status answer(int code)
{
    switch (code) {
    case MDB_SUCCESS:
        return KV_OK;
    case MDB_NOTFOUND:
        return KV_NOT_FOUND;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return kv_fail(KV_NO_SPACE, "%s", mdb_strerror(code));
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
        return kv_fail(KV_CORRUPTION, "%s", mdb_strerror(code));
    case MDB_BAD_VALSIZE:
        return kv_fail(KV_INVALID, "%s", mdb_strerror(code));
    default:
        return kv_fail(KV_IO_ERROR, "%s", mdb_strerror(code));
    }
}

static MDB_val value_of(struct kv_bytes bytes) { return (MDB_val){.mv_size = bytes.length, .mv_data = (void *)bytes.data}; }

static enum kv_status open_database(const char *directory, const struct kv_option *options, size_t count)
{
    size_t map_size = 8u << 20;
    for (size_t i = 0; i < count; i++) {
        char *rest;
        if (strcmp(options[i].name, "map_size") != 0)
            return kv_unknown_option(&options[i]);
        map_size = strtoul(options[i].value, &rest, 10);
        if (*rest || map_size == 0)
            return kv_fail(KV_INVALID, "`map_size` is a number of bytes, not `%s`", options[i].value);
    }
    char path[256];
    snprintf(path, sizeof path, "%s/kv.lmdb", directory);
    MDB_txn *transaction;
    int code = mdb_env_create(&env);
    if (code == 0)
        code = mdb_env_set_mapsize(env, map_size);
    if (code == 0)
        code = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK, 0644);
    if (code == 0)
        code = mdb_txn_begin(env, NULL, 0, &transaction);
    if (code == 0) {
        code = mdb_dbi_open(transaction, NULL, 0, &table);
        if (code == 0)
            code = mdb_txn_commit(transaction);
        else
            mdb_txn_abort(transaction);
    }
    return answer(code);
}

static enum kv_status batch(const struct kv_change *changes, size_t count, bool is_relaxed)
{
    (void)is_relaxed;
    MDB_txn *transaction;
    int code = mdb_txn_begin(env, NULL, 0, &transaction);
    if (code != 0)
        return answer(code);
    for (size_t i = 0; i < count && code == 0; i++) {
        MDB_val key = value_of(changes[i].key), value = value_of(changes[i].value);
        code = changes[i].is_delete ? mdb_del(transaction, table, &key, NULL) : mdb_put(transaction, table, &key, &value, 0);
        if (changes[i].is_delete && code == MDB_NOTFOUND)
            code = 0;
    }
    if (code == 0)
        return answer(mdb_txn_commit(transaction));
    mdb_txn_abort(transaction);
    return answer(code);
}

static enum kv_status put(struct kv_bytes key, struct kv_bytes value, bool is_relaxed)
{
    return batch(&(struct kv_change){.key = key, .value = value}, 1, is_relaxed);
}

static enum kv_status drop(struct kv_bytes key, bool is_relaxed)
{
    return batch(&(struct kv_change){.is_delete = true, .key = key}, 1, is_relaxed);
}

static enum kv_status get(void *snapshot, struct kv_bytes wanted)
{
    (void)snapshot;
    MDB_txn *transaction;
    int code = mdb_txn_begin(env, NULL, MDB_RDONLY, &transaction);
    if (code != 0)
        return answer(code);
    MDB_val key = value_of(wanted), value;
    code = mdb_get(transaction, table, &key, &value);
    if (code == 0)
        kv_value(value.mv_data, value.mv_size);
    mdb_txn_abort(transaction);
    return answer(code);
}

/* The first entry of a scan, in its direction. */
static int first(MDB_cursor *cursor, const struct kv_range *range, MDB_val *key, MDB_val *value)
{
    if (!range->is_reverse && range->has_start) {
        *key = value_of(range->start);
        return mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
    }
    if (!range->is_reverse)
        return mdb_cursor_get(cursor, key, value, MDB_FIRST);
    if (range->has_end) {
        *key = value_of(range->end);
        int code = mdb_cursor_get(cursor, key, value, MDB_SET_RANGE);
        if (code != MDB_NOTFOUND)
            return code == 0 ? mdb_cursor_get(cursor, key, value, MDB_PREV) : code;
    }
    return mdb_cursor_get(cursor, key, value, MDB_LAST);
}

static enum kv_status scan(void *snapshot, const struct kv_range *range)
{
    (void)snapshot;
    MDB_txn *transaction;
    MDB_cursor *cursor;
    MDB_val key, value;
    int code = mdb_txn_begin(env, NULL, MDB_RDONLY, &transaction);
    if (code != 0)
        return answer(code);
    code = mdb_cursor_open(transaction, table, &cursor);
    if (code == 0) {
        for (code = first(cursor, range, &key, &value); code == 0;) {
            struct kv_bytes found = {key.mv_data, key.mv_size};
            if (range->is_reverse ? range->has_start && kv_compare(found, range->start) < 0 : range->has_end && kv_compare(found, range->end) >= 0)
                break;
            if (!kv_entry(key.mv_data, key.mv_size, value.mv_data, value.mv_size))
                break;
            code = mdb_cursor_get(cursor, &key, &value, range->is_reverse ? MDB_PREV : MDB_NEXT);
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(transaction);
    return code == MDB_NOTFOUND ? KV_OK : answer(code);
}

/* Each commit is durable when it is answered. */
static enum kv_status sync_database(void) { return KV_OK; }

static enum kv_status close_database(void)
{
    mdb_env_close(env);
    return KV_OK;
}

#define TEXT(number) #number
#define NUMBER(name) TEXT(name)

const struct kv_engine kv_engine = {
    .engine = "LMDB " NUMBER(MDB_VERSION_MAJOR) "." NUMBER(MDB_VERSION_MINOR) "." NUMBER(MDB_VERSION_PATCH),
    .settings = "the defaults, MDB_NOSUBDIR, MDB_NOLOCK",
    .order = "prefix",
    .policies = "recovery_survives=power_cut\n",
    .max_key_bytes = 511,
    .offers_reverse_scan = true,
    .open = open_database,
    .put = put,
    .remove = drop,
    .batch = batch,
    .get = get,
    .scan = scan,
    .sync = sync_database,
    .close = close_database,
};
