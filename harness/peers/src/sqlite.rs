//! SQLite with a write-ahead log. One writer at a time; a connection for each thread.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kvsim_store::{Durability, Engine, Settings, Store, StoreError};
use rusqlite::{Connection, OptionalExtension};

use crate::common::{failed, mib, pairs};

const NAME: &str = "sqlite";
/// A writer waits for its turn.
const BUSY: Duration = Duration::from_secs(60);

/// SQLite.
#[derive(Debug, Clone, Copy)]
pub struct Sqlite;

struct Opened {
    connections: Vec<Mutex<Connection>>,
}

thread_local! {
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Engine for Sqlite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        rusqlite::version().to_owned()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let cache = format!("{} in all", mib(settings.cache_bytes));
        pairs(&[
            ("journal_mode", "WAL"),
            ("synchronous", synchronous(settings)),
            ("table", "WITHOUT ROWID"),
            ("cache", &cache),
        ])
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let path = directory.join("items.sqlite");
        let connections = (0..settings.threads.max(1)).map(|_| connect(&path, settings));
        let connections = connections.collect::<Result<Vec<_>, _>>();
        let connections = connections.map_err(|error| failed(NAME)(&error))?;
        Ok(Box::new(Opened {
            connections: connections.into_iter().map(Mutex::new).collect(),
        }))
    }
}

fn synchronous(settings: &Settings) -> &'static str {
    match settings.durability {
        Durability::Relaxed => "NORMAL",
        Durability::Full | Durability::Os => "FULL",
    }
}

fn connect(path: &Path, settings: &Settings) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    let cache_kib = settings.cache_bytes / 1024 / settings.threads.max(1) as u64;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous={}; PRAGMA cache_size=-{cache_kib};
         CREATE TABLE IF NOT EXISTS items (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
        synchronous(settings)
    ))?;
    Ok(connection)
}

impl Opened {
    /// This thread's connection.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mine = THREAD.with(|thread| {
            let number = thread
                .get()
                .unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
            thread.set(Some(number));
            number
        });
        let connection = &self.connections[mine % self.connections.len()];
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let connection = self.connection();
        let put = || {
            connection
                .prepare_cached("INSERT OR REPLACE INTO items VALUES (?1, ?2)")?
                .execute((key, value))
        };
        put().map(|_| ()).map_err(|error| failed(NAME)(&error))
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let connection = self.connection();
        let delete = || {
            connection
                .prepare_cached("DELETE FROM items WHERE key = ?1")?
                .execute((key,))
        };
        delete().map(|_| ()).map_err(|error| failed(NAME)(&error))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let connection = self.connection();
        let mut get = || {
            let mut statement =
                connection.prepare_cached("SELECT value FROM items WHERE key = ?1")?;
            let read_value = |row: &rusqlite::Row<'_>| {
                row.get_ref(0)?
                    .as_blob()
                    .map(&mut *take)
                    .map_err(rusqlite::Error::from)
            };
            statement.query_row((key,), read_value).optional()
        };
        get()
            .map(|found| found.is_some())
            .map_err(|error| failed(NAME)(&error))
    }

    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let connection = self.connection();
        let mut scan = || -> rusqlite::Result<usize> {
            let query = "SELECT key, value FROM items WHERE key >= ?1 ORDER BY key LIMIT ?2";
            let mut statement = connection.prepare_cached(query)?;
            let mut rows = statement.query((start, i64::try_from(limit).unwrap_or(i64::MAX)))?;
            let mut count = 0;
            while let Some(row) = rows.next()? {
                take(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                count += 1;
            }
            Ok(count)
        };
        scan().map_err(|error| failed(NAME)(&error))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let connection = self.connection();
        let checkpoint = connection.execute_batch("PRAGMA wal_checkpoint(FULL);");
        checkpoint.map_err(|error| failed(NAME)(&error))
    }
}
