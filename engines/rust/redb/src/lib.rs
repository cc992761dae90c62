//! redb behind kvsim's adapter: one table of bytes to bytes.
//!
//! A durable write is a transaction with `Durability::Immediate`, redb's default and strongest; a relaxed one has `Durability::None`, which
//! redb keeps in memory until the next durable commit. The feature `two-phase` sets `set_two_phase_commit(true)`.
//! Options: `cache_bytes=BYTES`.
#![cfg_attr(feature = "redb-2", allow(unused_imports))]

use std::path::Path;

use kvsim_adapter::{Change, Durability, Engine, Error, Offers, Options, Page, Range, Read, Result, Status};
#[cfg(not(feature = "redb-2"))]
use redb::ReadableDatabase;
use redb::{Database, ReadTransaction, ReadableTable, StorageError, TableDefinition, WriteTransaction};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("kv");

/// Set by the build.
const VERSION: &str = match option_env!("ENGINE_VERSION") {
    Some(version) => version,
    None => "of an unknown version",
};

/// A database.
pub struct Redb {
    database: Database,
}

struct Snapshot {
    transaction: ReadTransaction,
}

kvsim_adapter::export_engine!(Redb);

/// redb's errors by what they say of the data.
fn failed(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    match &error {
        redb::Error::Corrupted(_) => Error::corruption(error),
        redb::Error::ValueTooLarge(_) => Error::invalid(error),
        _ => Error::new(Status::IoError, error),
    }
}

impl Redb {
    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        let durability = match durability {
            Durability::Durable => redb::Durability::Immediate,
            Durability::Relaxed => redb::Durability::None,
        };
        #[cfg(feature = "redb-2")]
        transaction.set_durability(durability);
        #[cfg(not(feature = "redb-2"))]
        transaction.set_durability(durability).map_err(Error::io)?;
        #[cfg(feature = "two-phase")]
        transaction.set_two_phase_commit(true);
        Ok(transaction)
    }

    fn read(&self) -> Result<Snapshot> {
        let transaction = self.database.begin_read().map_err(failed)?;
        Ok(Snapshot { transaction })
    }
}

fn change(table: &mut redb::Table<&[u8], &[u8]>, change: &Change) -> std::result::Result<(), StorageError> {
    match change {
        Change::Put { key, value } => table.insert(*key, *value).map(|_| ()),
        Change::Delete { key } => table.remove(*key).map(|_| ()),
    }
}

impl Read for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.transaction.open_table(TABLE).map_err(failed)?;
        let found = table.get(key).map_err(failed)?;
        Ok(found.map(|value| value.value().to_vec()))
    }

    fn scan(&self, range: &Range, page: &mut Page) -> Result<()> {
        let table = self.transaction.open_table(TABLE).map_err(failed)?;
        let mut entries = table.range::<&[u8]>(range.bounds()).map_err(failed)?;
        loop {
            let next = if range.is_reverse { entries.next_back() } else { entries.next() };
            let Some(entry) = next else { return Ok(()) };
            let (key, value) = entry.map_err(failed)?;
            if !page.add(key.value(), value.value()) {
                return Ok(());
            }
        }
    }
}

impl Read for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.read()?.get(key)
    }

    fn scan(&self, range: &Range, page: &mut Page) -> Result<()> {
        self.read()?.scan(range, page)
    }
}

impl Engine for Redb {
    fn offers() -> Offers {
        let two_phase = if cfg!(feature = "two-phase") { ", two_phase_commit" } else { "" };
        let offers = Offers::new(format!("redb {VERSION}"), format!("Durability::Immediate{two_phase}; relaxed is Durability::None"));
        Offers {
            batch: true,
            scan: true,
            reverse_scan: true,
            snapshot: true,
            relaxed: true,
            sync: true,
            policies: vec![("relaxed_survives_kill", "false".to_owned()), ("recovery_survives", "power_cut".to_owned())],
            ..offers
        }
    }

    fn open(directory: &Path, options: &Options) -> Result<Self> {
        let mut builder = Database::builder();
        for (name, value) in &options.0 {
            match name.as_str() {
                "cache_bytes" => {
                    let bytes = value.parse().map_err(|_| Error::invalid("`cache_bytes` is a number"))?;
                    builder.set_cache_size(bytes);
                }
                _ => return Err(Options::unknown(name)),
            }
        }
        let database = builder.create(directory.join("kv.redb")).map_err(failed)?;
        let engine = Redb { database };
        let transaction = engine.begin(Durability::Durable)?;
        transaction.open_table(TABLE).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(engine)
    }

    fn put(&mut self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Put { key, value }], durability)
    }

    fn delete(&mut self, key: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Delete { key }], durability)
    }

    fn batch(&mut self, changes: &[Change], durability: Durability) -> Result<()> {
        let transaction = self.begin(durability)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            for member in changes {
                change(&mut table, member).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }

    fn snapshot(&mut self) -> Result<Box<dyn Read>> {
        Ok(Box::new(self.read()?))
    }

    fn sync(&mut self) -> Result<()> {
        self.batch(&[], Durability::Durable)
    }

    fn close(mut self) -> Result<()> {
        self.sync()
    }
}
