//! What an engine is compared with that avoids flushes: a file and nothing else.
//!
//! The file is preallocated and written in full, and has a slot for each key. A write goes to its slot, and is
//! acknowledged after an `fdatasync`. Flushes are shared: all writes that have come by then go out together, in
//! parallel, and one flush follows them. (The source of the comparison, FractalBits' "Removing fsync from our local
//! storage engine", 2026, does not say how it shares its own.) Before a group begins, it waits for more writes as long
//! as they come, and 50 µs at most. There is no log, no index and no checksum. It is no engine: it tears writes larger
//! than the device's atomic unit. No engine can do with less work.
//!
//! Invariant: a write is acknowledged when the flush has ended that began after it had ended.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kvsim_native::OpenOptions;
use kvsim_native::gauge::Gauge;
use tokio::sync::oneshot;

use super::store::{Durability, Engine, Settings, Store, StoreError, Writing};

/// A slot.
const BLOCK: usize = 4096;
const BLOCK_BYTES: u64 = BLOCK as u64;
/// How long a group waits for more writes, and how long for the next of them.
const GATHER: Duration = Duration::from_micros(50);
const TURNS: u32 = 20;
/// Relaxed writes that may be accepted and not carried out.
const ACCEPTED_MAX: usize = 256;

/// A file of slots.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    direct: bool,
}

impl Slots {
    /// Through the page cache.
    pub const BUFFERED: Slots = Slots { direct: false };
    /// Past the page cache.
    pub const DIRECT: Slots = Slots { direct: true };
}

type Told = oneshot::Sender<Result<(), StoreError>>;

struct Write {
    offset: u64,
    /// Nothing for one who only wants to know that all before is done.
    bytes: Vec<u8>,
    told: Told,
}

#[derive(Default)]
struct Queue {
    writes: Vec<Write>,
    closing: bool,
}

struct Shared {
    name: &'static str,
    gauge: Gauge,
    flushes: bool,
    slots: u64,
    queue: Mutex<Queue>,
    came: Condvar,
}

struct Opened {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
fn now() -> Instant {
    Instant::now()
}

impl Slots {
    fn failed(self, what: impl std::fmt::Display) -> StoreError {
        StoreError {
            engine: self.name(),
            what: what.to_string(),
        }
    }
}

impl Engine for Slots {
    fn name(&self) -> &'static str {
        if self.direct {
            "direct+fsync"
        } else {
            "buffered+fsync"
        }
    }

    fn version(&self) -> String {
        "(no engine)".to_owned()
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        let flush = match settings.durability {
            Durability::Relaxed => "none",
            Durability::Full | Durability::Os => "one fdatasync for all writes that came together",
        };
        vec![
            ("slots of".to_owned(), "4 KiB, preallocated".to_owned()),
            ("flush".to_owned(), flush.to_owned()),
        ]
    }

    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        // The data are values of a block, and their keys.
        let slots = settings.keys;
        let options = OpenOptions {
            size_bytes: slots * BLOCK_BYTES,
            ..OpenOptions::default()
        };
        let path = directory.join("slots");
        let gauge = if self.direct {
            Gauge::open(&path, &options)
        } else {
            Gauge::open_buffered(&path, &options)
        };
        let gauge = gauge.map_err(|error| self.failed(error))?;
        if self.direct && !gauge.report().direct {
            return Err(self.failed("this file system has no direct I/O"));
        }
        let shared = Arc::new(Shared {
            name: self.name(),
            gauge,
            flushes: settings.durability != Durability::Relaxed,
            slots,
            queue: Mutex::default(),
            came: Condvar::new(),
        });
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("slots".to_owned())
            .spawn(move || serving.serve())
            .map_err(|error| self.failed(error))?;
        Ok(Box::new(Opened {
            shared,
            thread: Some(thread),
        }))
    }
}

impl Shared {
    fn failed(&self, what: impl std::fmt::Display) -> StoreError {
        StoreError {
            engine: self.name,
            what: what.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a key's slot is: keys are numbers.
    fn offset(&self, key: &[u8]) -> Result<u64, StoreError> {
        let number = key
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .fold(0_u64, |number, digit| {
                number.wrapping_mul(10) + u64::from(digit - b'0')
            });
        if number < self.slots {
            Ok(number * BLOCK_BYTES)
        } else {
            Err(self.failed(format!(
                "there is no slot {number}; keys must not be inserted"
            )))
        }
    }

    /// Hands a write in; who wants to know is told when it is durable. A write that has no slot, or is too long for it, is refused at once, relaxed ones too.
    fn hand_in(
        &self,
        key: &[u8],
        value: &[u8],
    ) -> Result<oneshot::Receiver<Result<(), StoreError>>, StoreError> {
        let offset = self.offset(key)?;
        if value.len() > BLOCK {
            return Err(self.failed("a value is longer than its slot of 4 KiB"));
        }
        let mut bytes = value.to_vec();
        bytes.resize(BLOCK, 0);
        let (told, answer) = oneshot::channel();
        self.push(offset, bytes, told);
        Ok(answer)
    }

    fn push(&self, offset: u64, bytes: Vec<u8>, told: Told) {
        let write = Write {
            offset,
            bytes,
            told,
        };
        self.lock().writes.push(write);
        self.came.notify_one();
    }

    /// Waits for an answer; relaxed writes are acknowledged when accepted, as long as there are not too many.
    fn wait(&self, answer: oneshot::Receiver<Result<(), StoreError>>) -> Result<(), StoreError> {
        if !self.flushes && self.lock().writes.len() < ACCEPTED_MAX {
            return Ok(());
        }
        self.wait_for(answer)
    }

    fn wait_for(
        &self,
        answer: oneshot::Receiver<Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let answer = answer.blocking_recv();
        answer.unwrap_or_else(|_| Err(self.failed("it was closed")))
    }

    /// The thread that writes groups, until there are none and none will come.
    fn serve(&self) {
        while let Some(group) = self.next_group() {
            let mut writes = Vec::with_capacity(group.len());
            let mut waiting = Vec::with_capacity(group.len());
            for write in group {
                if !write.bytes.is_empty() {
                    writes.push((write.offset, write.bytes));
                }
                waiting.push(write.told);
            }
            let result = self.gauge.commit(&writes, self.flushes);
            let result = result.map_err(|error| self.failed(error));
            for told in waiting {
                // Who does not wait any more is not told.
                drop(told.send(result.clone()));
            }
        }
    }

    fn next_group(&self) -> Option<Vec<Write>> {
        let mut queue = self.lock();
        while queue.writes.is_empty() {
            if queue.closing {
                return None;
            }
            queue = self
                .came
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let began = now();
        let (mut seen, mut idle) = (queue.writes.len(), 0);
        while idle < TURNS && began.elapsed() < GATHER {
            drop(queue);
            std::thread::yield_now();
            queue = self.lock();
            idle = if queue.writes.len() > seen {
                0
            } else {
                idle + 1
            };
            seen = queue.writes.len();
        }
        Some(std::mem::take(&mut queue.writes))
    }
}

impl Store for Opened {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.shared.wait(self.shared.hand_in(key, value)?)
    }

    fn delete(&self, _: &[u8]) -> Result<(), StoreError> {
        Err(self.shared.failed("slots cannot be deleted"))
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
        let offset = self.shared.offset(key)?;
        let mut bytes = vec![0; BLOCK];
        let read = self.shared.gauge.read(offset, &mut bytes);
        read.map_err(|error| self.shared.failed(error))?;
        take(&bytes);
        Ok(true)
    }

    fn scan(
        &self,
        _: &[u8],
        _: usize,
        _: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, StoreError> {
        Err(self.shared.failed("slots have no order"))
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Groups are carried out in order: when this one is, all before are.
        let (told, answer) = oneshot::channel();
        self.shared.push(0, Vec::new(), told);
        self.shared.wait_for(answer)?;
        let flushed = self.shared.gauge.commit(&[], true);
        flushed.map_err(|error| self.shared.failed(error))
    }

    fn put_async<'a>(&'a self, key: &[u8], value: &[u8]) -> Option<Writing<'a>> {
        let answer = self.shared.hand_in(key, value);
        Some(Box::pin(async move {
            let answer = answer?.await;
            answer.unwrap_or_else(|_| Err(self.shared.failed("it was closed")))
        }))
    }

    fn device(&self) -> Option<String> {
        Some(self.shared.gauge.report().to_string())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.came.notify_one();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "the thread of the slots panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(durability: Durability) -> Settings {
        Settings {
            durability,
            cache_bytes: 0,
            index_bytes: 0,
            engine_options: Vec::new(),
            space_percent: crate::native::SPACE_PERCENT,
            data_bytes: 64 * (4096 + 16),
            keys: 64,
            threads: 1,
            memory_bytes: None,
            assume_power_loss_protection: false,
        }
    }

    /// Goal: what was acknowledged is in its slot, from threads and from tasks, and what has no slot is refused. Method: both kinds
    /// of files, writes against their order, reads.
    #[test]
    fn what_was_acknowledged_is_in_its_slot() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        for slots in [Slots::BUFFERED, Slots::DIRECT] {
            let path = directory.path().join(slots.name());
            std::fs::create_dir(&path).expect("it can be made");
            let store = slots
                .open(&path, &settings(Durability::Full))
                .expect("it opens");
            for number in [7_u8, 3] {
                let key = format!("k{number:015}");
                store
                    .put(key.as_bytes(), &[number; 4096])
                    .expect("it has a slot");
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let writes = [5_u8, 4].map(|number| {
                let key = format!("k{number:015}");
                store
                    .put_async(key.as_bytes(), &[number; 4096])
                    .expect("it has tasks")
            });
            runtime.expect("a runtime").block_on(async {
                for write in writes {
                    write.await.expect("it has a slot");
                }
            });
            for number in [3_u8, 4, 5, 7] {
                let key = format!("k{number:015}");
                let mut seen = Vec::new();
                let found = store.get(key.as_bytes(), &mut |value| seen = value.to_vec());
                assert_eq!(found, Ok(true));
                assert_eq!(seen, [number; 4096]);
            }
            drop(store);
            let store = slots
                .open(&path, &settings(Durability::Relaxed))
                .expect("it opens again");
            for number in 8..60_u8 {
                let key = format!("k{number:015}");
                store
                    .put(key.as_bytes(), &[number; 4096])
                    .expect("it has a slot");
            }
            let beyond = store.put(b"k000000000000064", &[0; 4096]);
            assert!(beyond.is_err(), "nobody waits for it, and it is told");
            store.sync().expect("a disk does that");
            for number in [5_u8, 8, 59] {
                let key = format!("k{number:015}");
                let mut seen = 0;
                let found = store.get(key.as_bytes(), &mut |value| seen = value[4095]);
                assert_eq!((found, seen), (Ok(true), number));
            }
            drop(store);
            let store = slots
                .open(&path, &settings(Durability::Full))
                .expect("it opens");
            let refused = store.put(b"k000000000000999", &[0; 4096]);
            assert!(refused.is_err_and(|error| error.what.contains("no slot 999")));
        }
    }
}
