//! Our engine as one of those that are measured.

use std::path::Path;

use kvsim_native::{Database, Direction, Kind, OpenOptions, ScanRange};

use super::store::{Durability, Engine, Settings, Store, StoreError, Writing};

/// Why figures on this path are not to be trusted further than the one who asked for it.
pub const CAVEAT: &str =
    "no flushes: durable only if the drive's cache survives a power cut, which is your word for it";
/// The file is written in full before the clock runs; by default so large that it need not grow for this data, in percent of it.
pub const SPACE_PERCENT: u64 = 190;
const SPACE_BYTES_MIN: u64 = 64 << 20;

/// The size of the file that data of so many bytes begin in.
#[must_use]
pub fn file_bytes(data_bytes: u64, space_percent: u64) -> u64 {
    (data_bytes / 100 * space_percent).max(SPACE_BYTES_MIN)
}

/// Our engine, on one file in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Native {
    path: WritePath,
}

/// How commits become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WritePath {
    /// As the probe and the caller's word have it.
    Any,
    /// With write-throughs or flushes, whatever the caller says of the drive.
    Through,
    /// Without flushes, or not at all.
    FlushFree,
}

impl Native {
    /// As the device's probe has it, and the caller's word.
    pub const ENGINE: Native = Native {
        path: WritePath::Any,
    };
    /// The safe path, even where the caller vouches for the drive; without flushes only where that is proven.
    pub const THROUGH: Native = Native {
        path: WritePath::Through,
    };
    /// The path without flushes: refused unless the probe proves it or the caller vouches for the drive.
    pub const FLUSH_FREE: Native = Native {
        path: WritePath::FlushFree,
    };

    fn failed(self, what: impl std::fmt::Display) -> StoreError {
        StoreError {
            engine: self.name(),
            what: what.to_string(),
        }
    }

    fn options(self, settings: &Settings) -> OpenOptions {
        let vouched = settings.assume_power_loss_protection && self.path != WritePath::Through;
        let options = OpenOptions {
            kind: match settings.durability {
                Durability::Os => Kind::Os,
                Durability::Full | Durability::Relaxed => Kind::Full,
            },
            size_bytes: file_bytes(settings.data_bytes, settings.space_percent),
            cache_bytes: settings.cache_bytes,
            assume_power_loss_protection: vouched,
            ..OpenOptions::default()
        };
        let mut options = options.index_bytes(settings.index_bytes);
        for option in &settings.engine_options {
            options.engine.push_str(option);
            options.engine.push('\n');
        }
        options
    }
}

struct Opened {
    engine: Native,
    database: Database,
    durability: kvsim_native::Durability,
}

impl Engine for Native {
    fn name(&self) -> &'static str {
        match self.path {
            WritePath::Any => "kvsim",
            WritePath::Through => "kvsim-through",
            WritePath::FlushFree => "kvsim-fsync-free",
        }
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn is_ordered(&self) -> bool {
        true
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let options = self.options(settings);
        let mut configuration = vec![
            ("durable means".to_owned(), options.kind.to_string()),
            (
                "file".to_owned(),
                format!("{} MiB", options.size_bytes >> 20),
            ),
            (
                "cache".to_owned(),
                format!("{} MiB", options.cache_bytes >> 20),
            ),
            (
                "index".to_owned(),
                match settings.index_bytes >> 20 {
                    0 => "all in memory".to_owned(),
                    mib => format!("{mib} MiB"),
                },
            ),
        ];
        let named = settings.engine_options.iter();
        let named = named.filter_map(|option| option.split_once('='));
        configuration.extend(named.map(|(name, value)| (name.to_owned(), value.to_owned())));
        configuration
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let path = directory.join("database");
        let opened = Database::open(&path, &self.options(settings));
        let database = opened.map_err(|error| self.failed(error))?;
        let device = database.device();
        if self.path == WritePath::FlushFree && device.flush_needed {
            return Err(self.failed(format!(
                "refused: {}, and a commit without a flush would not be durable; --assume-power-loss-protection takes your word that the cache survives a power cut",
                device.reason
            )));
        }
        let durability = match settings.durability {
            Durability::Relaxed => kvsim_native::Durability::Relaxed,
            Durability::Full | Durability::Os => kvsim_native::Durability::Durable,
        };
        Ok(Box::new(Opened {
            engine: *self,
            database,
            durability,
        }))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.database
            .put(key, value, self.durability)
            .map_err(|error| self.engine.failed(error))
    }

    fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
        self.database
            .delete(key, self.durability)
            .map_err(|error| self.engine.failed(error))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let found = self
            .database
            .get(key)
            .map_err(|error| self.engine.failed(error))?;
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
        let found = self
            .database
            .scan(&range)
            .map_err(|error| self.engine.failed(error))?;
        for entry in &found {
            take(entry.key, entry.value);
        }
        Ok(found.len())
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database
            .sync()
            .map_err(|error| self.engine.failed(error))
    }

    fn put_async<'a>(&'a self, key: &[u8], value: &[u8]) -> Option<Writing<'a>> {
        let write = self.database.put_async(key, value, self.durability);
        Some(Box::pin(async move {
            write.await.map_err(|failure| self.engine.failed(failure))
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
            ("user_bytes", counts.engine.user_bytes),
            ("absorbed_bytes", counts.engine.absorbed_bytes),
            ("log_bytes", counts.engine.log_bytes),
            ("extent_bytes", counts.engine.extent_bytes),
            ("relocated_bytes", counts.engine.relocated_bytes),
            ("checkpoint_bytes", counts.engine.checkpoint_bytes),
            ("checkpoints", counts.engine.checkpoints),
            ("republications", counts.engine.republications),
            ("index_reads", counts.engine.index_reads),
            ("value_reads", counts.engine.value_reads),
            ("collected_segments", counts.engine.collected_segments),
            ("log_freed_segments", counts.engine.log_freed_segments),
            ("replayed_bytes", counts.engine.replayed_bytes),
            ("stalls", counts.engine.stalls),
            ("stalled_ns", counts.engine.stalled_ns),
        ]
    }

    fn caveat(&self) -> Option<&'static str> {
        self.database.device().assumed.then_some(CAVEAT)
    }

    fn device(&self) -> Option<String> {
        Some(self.database.device().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the memory for the index arrives at the engine and stands in the table. Method: without a bound and with one, in which the engine opens and works.
    #[test]
    fn the_memory_for_the_index_arrives() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        for (index_bytes, said) in [(0, "all in memory"), (1 << 20, "1 MiB")] {
            let settings = Settings {
                durability: Durability::Relaxed,
                cache_bytes: 0,
                index_bytes,
                engine_options: Vec::new(),
                data_bytes: 0,
                keys: 0,
                threads: 1,
                space_percent: SPACE_PERCENT,
                memory_bytes: None,
                assume_power_loss_protection: false,
            };
            let configuration = Native::ENGINE.configuration(&settings);
            let row = ("index".to_owned(), said.to_owned());
            assert!(configuration.contains(&row), "{configuration:?}");
            let line = format!("index_bytes={index_bytes}\n");
            assert!(Native::ENGINE.options(&settings).engine.ends_with(&line));
            let place = directory.path().join(index_bytes.to_string());
            std::fs::create_dir(&place).expect("a directory");
            let store = Native::ENGINE.open(&place, &settings).expect("it opens");
            for key in 0..20_000_u32 {
                store.put(&key.to_be_bytes(), &[7; 250]).expect("room");
            }
            let reads = |(name, count): &(&str, u64)| *name == "index_reads" && *count > 0;
            for key in (0..20_000_u32).step_by(500) {
                assert!(store.get(&key.to_be_bytes(), &mut |_| ()).expect("a get"));
            }
            assert_eq!(store.counters().iter().any(reads), index_bytes > 0);
        }
    }
}
