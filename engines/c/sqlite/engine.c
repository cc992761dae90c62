/* SQLite behind kvsim's adapter: one table `kv(k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID`, one connection.
 *
 * The build sets KV_NAME, KV_JOURNAL (a journal mode), KV_SYNCHRONOUS (FULL, NORMAL or EXTRA), and KV_WAL in WAL mode. The VFS is
 * unix-none: SQLite's own code for files without locks, since there is one process. WAL mode sets locking_mode=EXCLUSIVE first, as
 * SQLite's documentation asks for where there is no shared memory.
 *
 * With WAL and NORMAL a commit is not durable by SQLite's documentation, and a checkpoint is. So there a relaxed write is a commit, a durable
 * one is a commit and a checkpoint, and a sync is a checkpoint.
 *
 * Options: `wal_autocheckpoint=PAGES`, `page_size=BYTES`, `cache_size=PAGES`. */
#define KV_ADAPTER
#include "kvsim_adapter.h"
#include "sqlite3.h"

#ifdef KV_COMMITS_ARE_RELAXED
#define COMMITS_ARE_RELAXED true
#else
#define COMMITS_ARE_RELAXED false
#endif

static sqlite3 *db;

/* What a call of SQLite ended with. SQLITE_FULL has rolled its transaction back, so nothing was written. */
static enum kv_status answer(int code)
{
    const char *message = sqlite3_errmsg(db);
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
    case SQLITE_ROW:
        return KV_OK;
    case SQLITE_FULL:
        return kv_fail(KV_NO_SPACE, "%s", message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return kv_fail(KV_CORRUPTION, "%s (%d)", message, sqlite3_extended_errcode(db));
    case SQLITE_READONLY:
        return kv_fail(KV_READ_ONLY, "%s (%d)", message, sqlite3_extended_errcode(db));
    default:
        return kv_fail(KV_IO_ERROR, "%s (%d)", message, sqlite3_extended_errcode(db));
    }
}

static int run(const char *sql) { return sqlite3_exec(db, sql, NULL, NULL, NULL); }

/* Runs a pragma that answers with one text, and compares the text. */
static enum kv_status set_and_see(const char *sql, const char *expected)
{
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return answer(code);
    code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        enum kv_status status = answer(code);
        sqlite3_finalize(statement);
        return status == KV_OK ? kv_fail(KV_IO_ERROR, "%s answers nothing", sql) : status;
    }
    char is[32];
    snprintf(is, sizeof is, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    return sqlite3_stricmp(is, expected) == 0 ? KV_OK : kv_fail(KV_IO_ERROR, "%s answers %s", sql, is);
}

static enum kv_status open_database(const char *directory, const struct kv_option *options, size_t count)
{
    char path[256], sql[128];
    snprintf(path, sizeof path, "%s/kv.sqlite", directory);
    int code = sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "unix-none");
    if (code != SQLITE_OK)
        return answer(code);
    for (size_t i = 0; i < count; i++) {
        const char *name = options[i].name;
        if (strcmp(name, "wal_autocheckpoint") && strcmp(name, "page_size") && strcmp(name, "cache_size"))
            return kv_unknown_option(&options[i]);
        char *rest;
        long number = strtol(options[i].value, &rest, 10);
        if (*rest || rest == options[i].value)
            return kv_fail(KV_INVALID, "the option `%s` is a number, not `%s`", name, options[i].value);
        snprintf(sql, sizeof sql, "PRAGMA %s=%ld", name, number);
        if ((code = run(sql)) != SQLITE_OK)
            return answer(code);
    }
    enum kv_status status = KV_OK;
#ifdef KV_WAL
    status = set_and_see("PRAGMA locking_mode=EXCLUSIVE", "exclusive");
#endif
    if (status == KV_OK)
        status = set_and_see("PRAGMA journal_mode=" KV_JOURNAL, KV_JOURNAL);
    if (status != KV_OK)
        return status;
    if ((code = run("PRAGMA synchronous=" KV_SYNCHRONOUS)) != SQLITE_OK)
        return answer(code);
    return answer(run("CREATE TABLE IF NOT EXISTS kv(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"));
}

/* Runs one statement with up to two blobs. */
static int with_blobs(const char *sql, const struct kv_bytes *blobs, int count)
{
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    for (int i = 0; i < count; i++)
        sqlite3_bind_blob(statement, i + 1, blobs[i].length ? (const void *)blobs[i].data : "", (int)blobs[i].length, SQLITE_STATIC);
    sqlite3_step(statement);
    return sqlite3_finalize(statement);
}

static int change(const struct kv_change *change)
{
    struct kv_bytes blobs[2] = {change->key, change->value};
    return change->is_delete ? with_blobs("DELETE FROM kv WHERE k=?1", blobs, 1)
                             : with_blobs("INSERT OR REPLACE INTO kv(k, v) VALUES(?1, ?2)", blobs, 2);
}

static int checkpoint(void)
{
#ifdef KV_WAL
    return sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_FULL, NULL, NULL);
#else
    return SQLITE_OK;
#endif
}

static enum kv_status committed(int code, bool is_relaxed)
{
    if (code == SQLITE_OK && COMMITS_ARE_RELAXED && !is_relaxed)
        code = checkpoint();
    return answer(code);
}

static enum kv_status put(struct kv_bytes key, struct kv_bytes value, bool is_relaxed)
{
    return committed(change(&(struct kv_change){.key = key, .value = value}), is_relaxed);
}

static enum kv_status drop(struct kv_bytes key, bool is_relaxed)
{
    return committed(change(&(struct kv_change){.is_delete = true, .key = key}), is_relaxed);
}

static enum kv_status batch(const struct kv_change *changes, size_t count, bool is_relaxed)
{
    int code = run("BEGIN IMMEDIATE");
    if (code != SQLITE_OK)
        return answer(code);
    for (size_t i = 0; i < count && code == SQLITE_OK; i++)
        code = change(&changes[i]);
    if (code == SQLITE_OK)
        code = run("COMMIT");
    if (code == SQLITE_OK)
        return committed(code, is_relaxed);
    enum kv_status status = answer(code);
    if (!sqlite3_get_autocommit(db))
        run("ROLLBACK");
    return status;
}

static enum kv_status get(void *snapshot, struct kv_bytes key)
{
    (void)snapshot;
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, "SELECT v FROM kv WHERE k=?1", -1, &statement, NULL);
    if (code != SQLITE_OK)
        return answer(code);
    sqlite3_bind_blob(statement, 1, key.data, (int)key.length, SQLITE_STATIC);
    code = sqlite3_step(statement);
    enum kv_status status = code == SQLITE_DONE ? KV_NOT_FOUND : answer(code);
    if (code == SQLITE_ROW)
        kv_value(sqlite3_column_blob(statement, 0), (size_t)sqlite3_column_bytes(statement, 0));
    sqlite3_finalize(statement);
    return status;
}

static enum kv_status scan(void *snapshot, const struct kv_range *range)
{
    (void)snapshot;
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT k, v FROM kv WHERE %s AND %s ORDER BY k %s", range->has_start ? "k>=?1" : "1",
        range->has_end ? "k<?2" : "1", range->is_reverse ? "DESC" : "ASC");
    sqlite3_stmt *statement;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return answer(code);
    if (range->has_start)
        sqlite3_bind_blob(statement, 1, range->start.length ? (const void *)range->start.data : "", (int)range->start.length, SQLITE_STATIC);
    if (range->has_end)
        sqlite3_bind_blob(statement, 2, range->end.length ? (const void *)range->end.data : "", (int)range->end.length, SQLITE_STATIC);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const void *key = sqlite3_column_blob(statement, 0), *value = sqlite3_column_blob(statement, 1);
        if (!kv_entry(key, (size_t)sqlite3_column_bytes(statement, 0), value, (size_t)sqlite3_column_bytes(statement, 1)))
            break;
    }
    enum kv_status status = answer(code);
    sqlite3_finalize(statement);
    return status;
}

static enum kv_status sync_database(void)
{
    /* Elsewhere each commit is durable when it is answered. */
    return COMMITS_ARE_RELAXED ? answer(checkpoint()) : KV_OK;
}

static enum kv_status close_database(void)
{
    int code = sqlite3_close(db);
    return code == SQLITE_OK ? KV_OK : answer(code);
}

const struct kv_engine kv_engine = {
    .engine = "SQLite " SQLITE_VERSION,
    .settings = "journal_mode=" KV_JOURNAL " synchronous=" KV_SYNCHRONOUS ", VFS unix-none"
#ifdef KV_WAL
                ", locking_mode=EXCLUSIVE"
#endif
#ifdef KV_COMMITS_ARE_RELAXED
                "; a durable write is a commit and a checkpoint"
#endif
    ,
    .order = "prefix",
    /* An opening shows what a killed process had written, and syncs nothing of it. */
    .policies = "recovery_survives=power_cut\n",
    .offers_relaxed = COMMITS_ARE_RELAXED,
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
