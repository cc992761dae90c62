//! Our engine as one of those that are measured.

use std::path::Path;

use kvsim_native::{Database, Direction, Failure, Kind, OpenOptions, ScanRange};

use super::store::{Durability, Engine, Settings, Store, StoreError, Writing};

const NAME: &str = "kvsim";
/// The file is written in full before the clock runs, three times as large as the data.
const SPACE_PERCENT: u64 = 300;
const SPACE_BYTES_MIN: u64 = 64 << 20;

/// Our engine, on one file in the directory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

struct Opened {
    database: Database,
    durability: kvsim_native::Durability,
}

fn failed(what: impl std::fmt::Display) -> StoreError {
    StoreError {
        engine: NAME,
        what: what.to_string(),
    }
}

fn options(settings: &Settings) -> OpenOptions {
    OpenOptions {
        kind: match settings.durability {
            Durability::Os => Kind::Os,
            Durability::Full | Durability::Relaxed => Kind::Full,
        },
        size_bytes: (settings.data_bytes / 100 * SPACE_PERCENT).max(SPACE_BYTES_MIN),
        cache_bytes: settings.cache_bytes,
        assume_power_loss_protection: settings.assume_power_loss_protection,
        ..OpenOptions::default()
    }
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let options = options(settings);
        vec![
            ("durable means".to_owned(), options.kind.to_string()),
            (
                "file".to_owned(),
                format!("{} MiB", options.size_bytes >> 20),
            ),
            (
                "cache".to_owned(),
                format!("{} MiB", options.cache_bytes >> 20),
            ),
        ]
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let path = directory.join("database");
        let database = Database::open(&path, &options(settings)).map_err(failed)?;
        let durability = match settings.durability {
            Durability::Relaxed => kvsim_native::Durability::Relaxed,
            Durability::Full | Durability::Os => kvsim_native::Durability::Durable,
        };
        Ok(Box::new(Opened {
            database,
            durability,
        }))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.database
            .put(key, value, self.durability)
            .map_err(failed)
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.database.delete(key, self.durability).map_err(failed)
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let found = self.database.get(key).map_err(failed)?;
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
        let range = ScanRange {
            snapshot: 0,
            direction: Direction::Forward,
            start: Some(start),
            end: None,
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            max_bytes: u32::MAX,
        };
        let found = self.database.scan(&range).map_err(failed)?;
        for entry in &found.entries {
            take(&entry.key, &entry.value);
        }
        Ok(found.entries.len())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database.sync().map_err(failed)
    }

    fn put_async<'a>(&'a self, key: &[u8], value: &[u8]) -> Option<Writing<'a>> {
        let write = self.database.put_async(key, value, self.durability);
        Some(Box::pin(async move {
            write.await.map_err(|failure: Failure| failed(failure))
        }))
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let counts = self.database.counts();
        vec![
            ("written_bytes", counts.io.written_bytes),
            ("grown_bytes", counts.io.grown_bytes),
            ("writes", counts.io.writes),
            ("flushes", counts.io.flushes + counts.io.through_writes),
            ("reads", counts.io.reads),
            ("wake_ups", counts.wake_ups),
            ("turns", counts.turns),
            ("checkpoints", counts.engine.checkpoints),
            ("cleaned_segments", counts.engine.cleaned_segments),
            ("relocated_bytes", counts.engine.relocated_bytes),
            ("stalls", counts.engine.stalls),
        ]
    }

    fn device(&self) -> Option<String> {
        Some(self.database.device().to_string())
    }
}
