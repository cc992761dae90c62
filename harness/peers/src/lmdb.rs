//! LMDB: a copy-on-write B-tree in a memory map. One writer at a time; readers borrow the map's own bytes.

use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};
use kvsim_store::{Durability, Engine, Settings, Store, StoreError};

use crate::common::{failed, locked, pairs};

const NAME: &str = "lmdb";
/// Address space, not memory and not disk.
const MAP_BYTES: usize = 64 << 30;

/// LMDB.
#[derive(Debug, Clone, Copy)]
pub struct Lmdb;

struct Opened {
    env: Env<WithTls>,
    items: Database<Bytes, Bytes>,
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        let lmdb = heed::lmdb_version();
        let (major, minor, patch) = (lmdb.major, lmdb.minor, lmdb.patch);
        format!("{major}.{minor}.{patch} (heed {})", locked("heed"))
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let commit = match settings.durability {
            Durability::Relaxed => "MDB_NOSYNC",
            Durability::Full | Durability::Os => "synchronous, the default",
        };
        pairs(&[
            ("commit", commit),
            ("cache", "the page cache"),
            ("otherwise", "defaults"),
        ])
    }

    #[expect(
        unsafe_code,
        reason = "heed asks for the word that nobody else changes the file or its locking"
    )]
    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let failed = failed(NAME);
        let mut options = EnvOpenOptions::new();
        let readers = u32::try_from(settings.threads + 16).unwrap_or(u32::MAX);
        options.map_size(MAP_BYTES).max_readers(readers);
        if settings.durability == Durability::Relaxed {
            // SAFETY: what a crash may cost is what `relaxed` says.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the directory was made for this benchmark, and only this process opens it, once at a time.
        let env = unsafe { options.open(directory) }.map_err(|error| failed(&error))?;
        let mut transaction = env.write_txn().map_err(|error| failed(&error))?;
        let items = env
            .create_database(&mut transaction, None)
            .map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))?;
        Ok(Box::new(Opened { env, items }))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let failed = failed(NAME);
        let mut transaction = self.env.write_txn().map_err(|error| failed(&error))?;
        self.items
            .put(&mut transaction, key, value)
            .map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        let failed = failed(NAME);
        let mut transaction = self.env.write_txn().map_err(|error| failed(&error))?;
        self.items
            .delete(&mut transaction, key)
            .map_err(|error| failed(&error))?;
        transaction.commit().map_err(|error| failed(&error))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let failed = failed(NAME);
        let transaction = self.env.read_txn().map_err(|error| failed(&error))?;
        let found = self
            .items
            .get(&transaction, key)
            .map_err(|error| failed(&error))?;
        found.into_iter().for_each(take);
        Ok(found.is_some())
    }

    fn scan(
        &self,
        start: &[u8],
        limit: usize,
        take: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        let failed = failed(NAME);
        let transaction = self.env.read_txn().map_err(|error| failed(&error))?;
        let bounds = (std::ops::Bound::Included(start), std::ops::Bound::Unbounded);
        let range = self
            .items
            .range(&transaction, &bounds)
            .map_err(|error| failed(&error))?;
        let mut count = 0;
        for entry in range.take(limit) {
            let (key, value) = entry.map_err(|error| failed(&error))?;
            take(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.env.force_sync().map_err(|error| failed(NAME)(&error))
    }
}
