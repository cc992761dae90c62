//! redb: a copy-on-write B-tree in Rust. One writer at a time.

use std::path::Path;

use kvsim_store::{Durability, Engine, Settings, Store, StoreError};
use redb::{Builder, Database, ReadableDatabase, TableDefinition};

use crate::common::{failed, locked, mib, pairs};

const NAME: &str = "redb";
const ITEMS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("items");

/// redb.
#[derive(Debug, Clone, Copy)]
pub struct Redb;

struct Opened {
    database: Database,
    durability: redb::Durability,
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        locked(NAME).to_owned()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let cache = mib(settings.cache_bytes);
        let commit = match settings.durability {
            Durability::Relaxed => "Durability::None",
            Durability::Full | Durability::Os => "Durability::Immediate",
        };
        pairs(&[
            ("commit", commit),
            ("cache", &cache),
            ("otherwise", "defaults"),
        ])
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX));
        let database = builder.create(directory.join("items.redb"));
        let opened = Opened {
            database: database.map_err(|error| failed(NAME)(&error))?,
            durability: match settings.durability {
                Durability::Relaxed => redb::Durability::None,
                Durability::Full | Durability::Os => redb::Durability::Immediate,
            },
        };
        // The table has to be there before it is read.
        opened.write(redb::Durability::Immediate, |_| Ok(()))?;
        Ok(Box::new(opened))
    }
}

type Items<'a> = redb::Table<'a, &'static [u8], &'static [u8]>;

impl Opened {
    fn write(
        &self,
        durability: redb::Durability,
        work: impl FnOnce(&mut Items<'_>) -> Result<(), redb::StorageError>,
    ) -> Result<(), StoreError> {
        let failed = failed(NAME);
        let mut transaction = self
            .database
            .begin_write()
            .map_err(|error| failed(&error))?;
        transaction
            .set_durability(durability)
            .map_err(|error| failed(&error))?;
        {
            let mut items = transaction
                .open_table(ITEMS)
                .map_err(|error| failed(&error))?;
            work(&mut items).map_err(|error| failed(&error))?;
        }
        transaction.commit().map_err(|error| failed(&error))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.write(self.durability, |items| {
            items.insert(key, value).map(|_| ())
        })
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.write(self.durability, |items| items.remove(key).map(|_| ()))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let failed = failed(NAME);
        let transaction = self.database.begin_read().map_err(|error| failed(&error))?;
        let items = transaction
            .open_table(ITEMS)
            .map_err(|error| failed(&error))?;
        let found = items.get(key).map_err(|error| failed(&error))?;
        if let Some(value) = &found {
            take(value.value());
        }
        Ok(found.is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let failed = failed(NAME);
        let transaction = self.database.begin_read().map_err(|error| failed(&error))?;
        let items = transaction
            .open_table(ITEMS)
            .map_err(|error| failed(&error))?;
        let range = items.range(start..).map_err(|error| failed(&error))?;
        let mut count = 0;
        for entry in range.take(limit) {
            let (key, value) = entry.map_err(|error| failed(&error))?;
            take(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.write(redb::Durability::Immediate, |_| Ok(()))
    }
}
