//! sled: a tree on a log in Rust.
//!
//! What its `flush()` does on Linux, in 0.34: it hands the log's buffer to `sync_file_range(2)` and waits until the
//! device has taken it. That flushes neither the drive's own cache nor the file's metadata, and the call's own manual
//! page warns against relying on it. So with `full`, sled is measured as its documentation says, and is *not* as
//! durable as the others. Its configuration says so beside its figures.

use std::path::Path;

use kvsim_store::{Durability, Engine, Settings, Store, StoreError};
use sled::{Config, Db, Mode};

use crate::common::{failed, locked, mib, pairs};

const NAME: &str = "sled";

/// sled.
#[derive(Debug, Clone, Copy)]
pub struct Sled;

struct Opened {
    database: Db,
    durability: Durability,
}

impl Engine for Sled {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        locked(NAME).to_owned()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn keeps(&self, durability: Durability) -> bool {
        durability == Durability::Relaxed
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let commit = match settings.durability {
            Durability::Relaxed => "flushed every 500 ms",
            Durability::Full | Durability::Os => {
                "flush() after each write, which is sync_file_range: NOT durable, the drive's cache is not flushed"
            }
        };
        pairs(&[
            ("commit", commit),
            ("cache", &mib(settings.cache_bytes)),
            ("mode", "high throughput"),
            ("otherwise", "defaults"),
        ])
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let config = Config::new()
            .path(directory.join("items.sled"))
            .cache_capacity(settings.cache_bytes)
            .mode(Mode::HighThroughput);
        let config = match settings.durability {
            Durability::Relaxed => config,
            Durability::Full | Durability::Os => config.flush_every_ms(None),
        };
        let database = config.open().map_err(|error| failed(NAME)(&error))?;
        Ok(Box::new(Opened {
            database,
            durability: settings.durability,
        }))
    }
}

impl Opened {
    fn commit(&self) -> Result<(), StoreError> {
        match self.durability {
            Durability::Relaxed => Ok(()),
            Durability::Full | Durability::Os => self.sync(),
        }
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let put = self.database.insert(key, value);
        put.map_err(|error| failed(NAME)(&error))?;
        self.commit()
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let delete = self.database.remove(key);
        delete.map_err(|error| failed(NAME)(&error))?;
        self.commit()
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let found = self.database.get(key);
        let found = found.map_err(|error| failed(NAME)(&error))?;
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
        for entry in self.database.range(start..).take(limit) {
            let (key, value) = entry.map_err(|error| failed(NAME)(&error))?;
            take(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let flushed = self.database.flush();
        flushed.map(|_| ()).map_err(|error| failed(NAME)(&error))
    }
}
