//! Databases with known contents.

use crate::common::directory;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kvsim_native::{Database, Durability, OpenOptions};

use crate::noise::Noise;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The bytes of a database's file, and what it was told.
#[derive(Clone, Default)]
pub(crate) struct Known {
    pub(crate) bytes: Vec<u8>,
    pub(crate) now: Map,
    /// All values that a key ever had.
    pub(crate) history: BTreeMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// The keys that were written last, in a database that was not closed: nothing that was written behind them may say that they are durable.
    pub(crate) recent: BTreeSet<Vec<u8>>,
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions::new()
        .size_bytes(4 << 20)
        .cache_bytes(1 << 20)
        .segment_bytes(1 << 16)
        .checkpoint_bytes(1 << 18)
        .large_value_bytes(8 << 10)
        .frame_bytes(16 << 10)
}

/// A database that is written to.
pub(crate) struct Writer {
    pub(crate) database: Database,
    path: PathBuf,
    noise: Noise,
    known: Known,
}

impl Writer {
    pub(crate) fn new(path: &Path, seed: u64) -> Writer {
        Writer::with(path, seed, &options())
    }

    pub(crate) fn with(path: &Path, seed: u64, options: &OpenOptions) -> Writer {
        Writer {
            database: options.open(path).expect("it opens"),
            path: path.to_owned(),
            noise: Noise(seed),
            known: Known::default(),
        }
    }

    /// Puts a value that no other put has.
    pub(crate) fn put(&mut self, key: &[u8], len: usize) {
        let value = self.noise.bytes(len);
        let put = self.database.put(key, &value, Durability::Relaxed);
        put.expect("there is room");
        let all = self.known.history.entry(key.to_vec()).or_default();
        all.insert(value.clone());
        self.known.now.insert(key.to_vec(), value);
        self.known.recent.insert(key.to_vec());
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        let deleted = self.database.delete(key, Durability::Relaxed);
        deleted.expect("there is room");
        self.known.now.remove(key);
        self.known.recent.insert(key.to_vec());
    }

    /// Some puts of values of all kinds, and some deletions, among so many keys.
    pub(crate) fn change(&mut self, count: usize, keys: u64) {
        for _ in 0..count {
            let key = format!("key {:06}", self.noise.below(keys)).into_bytes();
            let size = self.noise.below(100);
            match size {
                0..20 => self.delete(&key),
                20..75 => {
                    let len = 20 + self.noise.below(170);
                    self.put(&key, usize::try_from(len).expect("small"));
                }
                75..99 => {
                    let len = 200 + self.noise.below(1500);
                    self.put(&key, usize::try_from(len).expect("small"));
                }
                _ => {
                    let len = 9000 + self.noise.below(80_000);
                    self.put(&key, usize::try_from(len).expect("small"));
                }
            }
        }
    }

    pub(crate) fn sync(&self) {
        self.database.sync().expect("the disk works");
    }

    /// The file as it is now, while the database is open.
    pub(crate) fn image(&self) -> Known {
        Known {
            bytes: std::fs::read(&self.path).expect("it is there"),
            ..self.known.clone()
        }
    }

    /// The file after a close.
    pub(crate) fn closed(self) -> Known {
        self.database.close().expect("the disk works");
        Known {
            bytes: std::fs::read(&self.path).expect("it is there"),
            recent: BTreeSet::new(),
            ..self.known
        }
    }
}

/// A database that was written to for a while, opened more than once, with checkpoints and garbage collection, and is closed.
pub(crate) fn closed(seed: u64) -> Known {
    let directory = directory();
    let path = directory.path().join("database");
    let mut writer = Writer::new(&path, seed);
    for _ in 0..3 {
        writer.change(3000, 3000);
        writer.sync();
        writer.database.close().expect("the disk works");
        writer.database = options().open(&path).expect("it opens");
    }
    writer.change(2000, 3000);
    writer.closed()
}

/// A database that was written to for a while and is still open; all that was written is durable, and a part of it is in no checkpoint.
pub(crate) fn open(seed: u64) -> Known {
    let directory = directory();
    let path = directory.path().join("database");
    let mut writer = Writer::new(&path, seed);
    writer.change(5000, 2000);
    writer.sync();
    for round in 0..30 {
        if round < 28 {
            writer.known.recent.clear();
        }
        writer.change(10, 2000);
        writer.sync();
    }
    writer.image()
}

/// What a key's value is: `None` if it is damaged.
pub(crate) type Shown = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What an opening shows of all keys that there ever were; `None`: it does not open.
pub(crate) fn opened(known: &Known) -> Option<Shown> {
    let directory = directory();
    let path = directory.path().join("database");
    std::fs::write(&path, &known.bytes).expect("there is room");
    let database = options().read_only(true).open(&path).ok()?;
    let values = known.history.keys().filter_map(|key| {
        let value = match database.get(key) {
            Ok(value) => Some(value?.to_vec()),
            Err(_) => None,
        };
        Some((key.clone(), value))
    });
    Some(values.collect())
}
