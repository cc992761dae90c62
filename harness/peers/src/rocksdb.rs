//! RocksDB: a log-structured merge tree in C++. Writers join into groups that share a flush.
//!
//! The crate's own copy takes most of an hour to compile, so it is meant to be linked against the system's library. On
//! Debian: `apt-get install librocksdb-dev libclang-dev`, and build with `ROCKSDB_LIB_DIR=/usr/lib/x86_64-linux-gnu
//! ROCKSDB_INCLUDE_DIR=/usr/include`. The version that is printed is the linked one, as RocksDB writes it into the
//! options of a database.

use std::path::Path;
use std::sync::OnceLock;

use kvsim_store::{Durability, Engine, Settings, Store, StoreError};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Direction, IteratorMode, Options, WriteOptions,
};

use crate::common::{failed, mib, pairs};

const NAME: &str = "rocksdb";
const BLOOM_BITS: f64 = 10.0;
const BACKGROUND_JOBS: i32 = 2;

/// RocksDB.
#[derive(Debug, Clone, Copy)]
pub struct RocksDb;

struct Opened {
    database: DB,
    commit: WriteOptions,
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        static VERSION: OnceLock<String> = OnceLock::new();
        let asked = || linked_version().unwrap_or_else(|| "unknown".to_owned());
        VERSION.get_or_init(asked).clone()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let commit = match settings.durability {
            Durability::Relaxed => "write-ahead log, sync=false",
            Durability::Full | Durability::Os => "write-ahead log, sync=true",
        };
        pairs(&[
            ("commit", commit),
            ("block cache", &mib(settings.cache_bytes)),
            ("bloom filter", "10 bits"),
            ("compression", "none"),
            ("background jobs", &BACKGROUND_JOBS.to_string()),
            ("otherwise", "defaults"),
        ])
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let failed = failed(NAME);
        let cache = usize::try_from(settings.cache_bytes).unwrap_or(usize::MAX);
        let cache = Cache::new_lru_cache(cache).map_err(|error| failed(&error))?;
        let mut tables = BlockBasedOptions::default();
        tables.set_block_cache(&cache);
        tables.set_bloom_filter(BLOOM_BITS, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&tables);
        options.set_compression_type(DBCompressionType::None);
        options.set_max_background_jobs(BACKGROUND_JOBS);
        let mut commit = WriteOptions::default();
        commit.set_sync(settings.durability != Durability::Relaxed);
        let database = DB::open(&options, directory).map_err(|error| failed(&error))?;
        Ok(Box::new(Opened { database, commit }))
    }
}

/// What the library writes into `OPTIONS-…` of any database: `rocksdb_version=7.8.3`.
fn linked_version() -> Option<String> {
    let directory = tempfile::tempdir().ok()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    drop(DB::open(&options, directory.path()).ok()?);
    let files = std::fs::read_dir(directory.path()).ok()?.flatten();
    let mut options =
        files.filter(|file| file.file_name().to_string_lossy().starts_with("OPTIONS-"));
    let text = std::fs::read_to_string(options.next()?.path()).ok()?;
    let line = text.lines().find_map(|line| {
        let (name, version) = line.split_once('=')?;
        (name.trim() == "rocksdb_version").then_some(version)
    });
    line.map(|version| version.trim().to_owned())
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.database
            .put_opt(key, value, &self.commit)
            .map_err(|error| failed(NAME)(&error))
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.database
            .delete_opt(key, &self.commit)
            .map_err(|error| failed(NAME)(&error))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let found = self.database.get_pinned(key);
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
        let mode = IteratorMode::From(start, Direction::Forward);
        let mut count = 0;
        for entry in self.database.iterator(mode).take(limit) {
            let (key, value) = entry.map_err(|error| failed(NAME)(&error))?;
            take(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database
            .flush_wal(true)
            .map_err(|error| failed(NAME)(&error))
    }
}
