//! fjall: a log-structured merge tree in Rust.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use kvsim_store::{Durability, Engine, Settings, Store, StoreError};

use crate::common::{failed, locked, mib, pairs};

const NAME: &str = "fjall";

/// fjall.
#[derive(Debug, Clone, Copy)]
pub struct Fjall;

struct Opened {
    database: Database,
    items: Keyspace,
    durability: Durability,
}

impl Engine for Fjall {
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
            Durability::Relaxed => "buffered journal",
            Durability::Full | Durability::Os => "persist(SyncData) after each write",
        };
        pairs(&[
            ("commit", commit),
            ("cache", &cache),
            ("otherwise", "defaults"),
        ])
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let failed = failed(NAME);
        let database = Database::builder(directory)
            .cache_size(settings.cache_bytes)
            .open();
        let database = database.map_err(|error| failed(&error))?;
        let items = database.keyspace("items", KeyspaceCreateOptions::default);
        let items = items.map_err(|error| failed(&error))?;
        Ok(Box::new(Opened {
            database,
            items,
            durability: settings.durability,
        }))
    }
}

impl Opened {
    fn commit(&self) -> Result<(), StoreError> {
        match self.durability {
            Durability::Relaxed => Ok(()),
            Durability::Full | Durability::Os => self.persist(PersistMode::SyncData),
        }
    }

    fn persist(&self, mode: PersistMode) -> Result<(), StoreError> {
        self.database
            .persist(mode)
            .map_err(|error| failed(NAME)(&error))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.items
            .insert(key, value)
            .map_err(|error| failed(NAME)(&error))?;
        self.commit()
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.items
            .remove(key)
            .map_err(|error| failed(NAME)(&error))?;
        self.commit()
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let found = self.items.get(key).map_err(|error| failed(NAME)(&error))?;
        if let Some(value) = &found {
            take(value);
        }
        Ok(found.is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let mut count = 0;
        for guard in self.items.range(start..).take(limit) {
            let (key, value) = guard.into_inner().map_err(|error| failed(NAME)(&error))?;
            take(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.persist(PersistMode::SyncAll)
    }
}
