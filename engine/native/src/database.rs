//! A database for many threads and tasks: clone the handle, use it anywhere.

pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod conditional;
pub(crate) mod cursor;
pub(crate) mod dump;
#[cfg(test)]
mod fail_stop;
mod keys;
mod many;
pub(crate) mod metrics;
#[cfg(test)]
mod pressure;
pub(crate) mod range;
pub(crate) mod read_only;
pub(crate) mod repair;
pub(crate) mod snapshot;
mod tasks;
#[cfg(test)]
mod told;
pub(crate) mod transaction;
pub(crate) mod writing;

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use kvsim_engine::{Config, Durability, Mutation, Reply, Request, ScanRange, Status};

use crate::api::error::{Failure, OpenError};
use crate::api::event::Event;
use crate::api::options::OpenOptions;
use crate::cache::borrowed::Value;
use crate::cache::entries::Entries;
use crate::io::device::DeviceReport;
use crate::io::driver::overlay::Overlay;
use crate::io::driver::{self, Driver};
use crate::io::file::DataFile;
use crate::lock::lock;
use crate::scan::{Unanswered, widened};
use crate::streams::live::Registry;
use crate::sync::events::Events;
use crate::sync::leader::{Beside, Counts, Shared, instant};
use crate::sync::waiter::{Answer, TaskCompletion};
use writing::Writing;

/// Memory that the engine is given; its own cache and buffers are shares of it.
pub const ENGINE_MEMORY_BYTES: u64 = 512 << 20;

/// An open database. Clones share it; the last one that goes closes it.
#[derive(Clone)]
pub struct Database(Arc<Opened>);

struct Opened {
    shared: Arc<Shared>,
    device: DeviceReport,
    helper: Mutex<Option<JoinHandle<()>>>,
    file: Arc<DataFile>,
    read_only: bool,
    /// What is known of its streams beside what is stored.
    streams: Registry,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.0.device.path)
            .finish_non_exhaustive()
    }
}

fn failed(reply: Reply) -> Failure {
    match reply {
        Reply::Failed(status, message) => Failure { status, message },
        other => Failure {
            status: Status::Invalid,
            message: format!("an answer to another question: {other:?}"),
        },
    }
}

fn done(reply: Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(failed(other)),
    }
}

fn value(reply: Reply) -> Result<Option<Value>, Failure> {
    match reply {
        Reply::Value(value) => Ok(Some(value.into())),
        Reply::NotFound => Ok(None),
        other => Err(failed(other)),
    }
}

impl Database {
    /// Opens the database in a file or on a block device; creates it in a file that does not exist. The same as [`OpenOptions::open`].
    ///
    /// # Errors
    /// [`OpenError`]: what is wrong, with which file.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Database, OpenError> {
        Database::open_with(path, options, |driver| driver)
    }

    /// The same, by a driver that is made of the one that was chosen.
    pub(crate) fn open_with(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Box<dyn Driver>) -> Box<dyn Driver>,
    ) -> Result<Database, OpenError> {
        let began = instant();
        let file = Arc::new(DataFile::open(path, options)?);
        let opened = Database::open_file(file, options, wrap)?;
        opened.tell_opened(began.elapsed());
        Ok(opened)
    }

    /// The same for a file that is open.
    pub(crate) fn open_file(
        file: Arc<DataFile>,
        options: &OpenOptions,
        wrap: impl FnOnce(Box<dyn Driver>) -> Box<dyn Driver>,
    ) -> Result<Database, OpenError> {
        let path = file.path.clone();
        let (driver, note) = driver::choose(&file, options.driver).map_err(OpenError::Driver)?;
        let driver = match options.read_only {
            true => Box::new(Overlay::new(wrap(driver))),
            false => wrap(driver),
        };
        let mut device = DeviceReport::probe(&file, options);
        device.driver = driver.name();
        device.driver_note = note;
        if !device.flush_needed && !options.read_only {
            file.go_flush_free().map_err(|source| OpenError::Io {
                path: path.clone(),
                what: "cannot be written in full",
                source,
            })?;
        }
        let config = Config {
            device: device.info(&file),
            memory_bytes_max: ENGINE_MEMORY_BYTES,
            db_id: identity(),
            options: engine_options(&device, options),
        };
        let no_thread = |source| OpenError::Io {
            path: path.clone(),
            what: "no thread can be started",
            source,
        };
        let recorder = options.noting();
        if let Some(recorder) = &recorder {
            recorder.opening(&config);
        }
        let shared = Arc::new(Shared::new(
            Arc::from(driver),
            options.cache_bytes,
            recorder,
        ));
        if let Some(listener) = &options.on_event {
            let events = Events::to(listener.clone(), &file).map_err(no_thread)?;
            shared.lock().effects.events = Some(events);
        }
        let serving = Arc::clone(&shared);
        let helper = std::thread::Builder::new()
            .name("kvsim-helper".to_owned())
            .spawn(move || serving.serve())
            .map_err(no_thread)?;
        let opened = Database(Arc::new(Opened {
            shared,
            device,
            helper: Mutex::new(Some(helper)),
            file,
            read_only: options.read_only,
            streams: Registry::default(),
        }));
        match done(opened.0.shared.open(&config)) {
            Ok(()) => Ok(opened),
            Err(failure) => Err(OpenError::Engine {
                path: path.clone(),
                failure,
            }),
        }
    }

    /// The first event.
    fn tell_opened(&self, took: Duration) {
        let stats = self.0.shared.counts().engine;
        self.0.shared.lock().effects.opened(Event::Opened {
            took,
            replayed_bytes: stats.replayed_bytes,
            replayed_frames: stats.replayed_frames,
            cut_tail: stats.cut_tail,
            rewritten_bytes: stats.tail_rewrite_bytes,
        });
    }

    /// Sets a key.
    ///
    /// # Errors
    /// [`Failure`]; its status says whether the write may have an effect.
    pub fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<(), Failure> {
        self.write(&[Mutation::Put { key, value }], durability)
    }

    /// Removes a key; removing what is not there is no error.
    ///
    /// # Errors
    /// As for [`Database::put`].
    pub fn delete(&self, key: &[u8], durability: Durability) -> Result<(), Failure> {
        self.write(&[Mutation::Delete { key }], durability)
    }

    /// Writes all or nothing, in order.
    ///
    /// # Errors
    /// As for [`Database::put`].
    pub fn write(&self, batch: &[Mutation<'_>], durability: Durability) -> Result<(), Failure> {
        self.refuse_if_read_only()?;
        let request = Request::Write {
            mutations: batch,
            durability,
        };
        let draft = self.0.shared.rows.draft(batch);
        let beside = Beside {
            draft: Some(&draft),
            ..Beside::default()
        };
        done(self.0.shared.call(request, &beside))
    }

    /// Reads a key. What is in memory is borrowed, not copied.
    ///
    /// # Errors
    /// [`Failure`]: the value is there, but cannot be read or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Failure> {
        match self.0.shared.rows.get(key) {
            Ok(value) => Ok(Some(value)),
            Err(stamp) => self.0.shared.get(key, stamp).or_else(value),
        }
    }

    /// Reads a range. What is in memory is borrowed, not copied, and stays there as long as what is returned is kept.
    ///
    /// # Errors
    /// As for [`Database::get`].
    pub fn scan(&self, range: &ScanRange<'_>) -> Result<Entries, Failure> {
        let reply = match self.0.shared.scan_rows(range) {
            Ok(entries) => return Ok(entries),
            Err(Unanswered::NotKept) => self.0.shared.lock_caught_up().scan(range),
            Err(Unanswered::Keys(caught_up)) => caught_up.scan(range),
            Err(Unanswered::Values(missing)) => {
                // What is missing will be found next time, if it is known then whether there is more.
                let reply = self.call(Request::Scan(widened(range)));
                if let Reply::Entries { mut entries, more } = reply {
                    self.0.shared.rows.fill_all(&missing, &entries);
                    let limit = range.limit.max(1) as usize;
                    let beyond = entries.len() > limit;
                    entries.truncate(limit);
                    return Ok(Entries::read(entries, more || beyond));
                }
                // An entry that was not asked for must not make it fail.
                self.call(Request::Scan(*range))
            }
        };
        match reply {
            Reply::Entries { entries, more } => Ok(Entries::read(entries, more)),
            other => Err(failed(other)),
        }
    }

    /// Returns once everything accepted so far is durable.
    ///
    /// # Errors
    /// [`Failure`]: not everything is.
    pub fn sync(&self) -> Result<(), Failure> {
        done(self.call(Request::Sync))
    }

    /// Makes everything durable and closes the database, for all clones of the handle.
    ///
    /// # Errors
    /// [`Failure`]: not everything is durable.
    pub fn close(self) -> Result<(), Failure> {
        done(self.call(Request::Close))
    }

    fn call(&self, request: Request<'_>) -> Reply {
        self.0.shared.call(request, &Beside::default())
    }

    /// Sets a key, for a task that is not to block. The write is handed in by this call, not by the first poll, as long as tasks have no more than 16,384 writes
    /// and 64 MiB under way. A write beyond that is copied, and handed in when it is polled and those that waited before it are in; dropped before, it is never
    /// written. So whoever makes writes faster than the disk takes them has to await some of them.
    pub fn put_async(
        &self,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        self.write_async(&[Mutation::Put { key, value }], durability)
    }

    /// Writes all or nothing, for a task that is not to block. When it is handed in: see [`Database::put_async`].
    pub fn write_async(
        &self,
        batch: &[Mutation<'_>],
        durability: Durability,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        Writing::new(self, batch, durability)
    }

    /// Hands in a write of a task that the gate has let in.
    fn hand_in(&self, batch: &[Mutation<'_>], durability: Durability, bytes: usize) -> Answer {
        let request = Request::Write {
            mutations: batch,
            durability,
        };
        let draft = self.0.shared.rows.draft(batch);
        let beside = Beside {
            draft: Some(&draft),
            ..Beside::default()
        };
        let completion = Arc::new(TaskCompletion::of_write(&self.0.shared.gate, bytes));
        self.0
            .shared
            .send(request, &beside, Arc::clone(&completion));
        Answer(completion)
    }

    /// Reads a key, for a task that is not to block.
    pub fn get_async(
        &self,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Value>, Failure>> + Send + use<> {
        let found = self.0.shared.rows.get(key);
        let answer = match found {
            Ok(value) => Ok(value),
            Err(stamp) => {
                let beside = Beside {
                    fill: Some((key, stamp)),
                    ..Beside::default()
                };
                Err(self.send(Request::Get { snapshot: 0, key }, &beside))
            }
        };
        async {
            match answer {
                Ok(found) => Ok(Some(found)),
                Err(answer) => value(answer.await),
            }
        }
    }

    fn send(&self, request: Request<'_>, beside: &Beside<'_>) -> Answer {
        let completion = Arc::new(TaskCompletion::default());
        self.0.shared.send(request, beside, Arc::clone(&completion));
        Answer(completion)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.0.streams
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// What was counted since the opening.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.0.shared.counts();
        counts.io.grown_bytes = self.0.file.grown_bytes();
        counts
    }

    /// What was found about the device.
    #[must_use]
    pub fn device(&self) -> &DeviceReport {
        &self.0.device
    }
}

impl OpenOptions {
    /// Opens the database in a file or on a block device. Creates it in a file that does not exist, unless it is to be read only.
    ///
    /// # Errors
    /// [`OpenError`]: what is wrong, with which file.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Database, OpenError> {
        Database::open(path.as_ref(), self)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let helper = lock(&self.helper).take();
        let mine = std::thread::current().id();
        if helper.as_ref().is_some_and(|it| it.thread().id() == mine) {
            // A task that was woken held the last handle. This thread cannot wait for itself.
            return self.shared.close_and_stop();
        }
        // Closed already, perhaps: then this changes nothing. An error has nobody to be told to.
        let _ = self.shared.call(Request::Close, &Beside::default());
        self.shared.stop();
        if let Some(helper) = helper {
            // If it panicked, then in the engine: everybody has been told.
            let _ = helper.join();
        }
    }
}

/// Options that follow from the device, and then the caller's, which count more.
fn engine_options(device: &DeviceReport, options: &OpenOptions) -> String {
    // What a checkpoint writes is written beside the log, so checkpoints are rare. The price is an opening that replays more of the log.
    // Values are cached by key, outside the engine.
    let mut text =
        "checkpoint_bytes=536870912\ncache_bytes=0\nsegment_bytes=1048576\nusable_percent=85\ngrow_percent=80\nload_first_bytes=67108864\n"
            .to_owned();
    // Of a file whose extents are written, an overwrite with write-through is one request to the device; a flush would be two.
    if device.flush_needed && device.direct && cfg!(target_os = "linux") {
        text.push_str("commit=write_through\n");
        // Without FUA each ends with a flush, and the device flushes one after the other: two smaller groups take longer than one.
        if device.fua != Some(true) {
            text.push_str("commit_depth=1\n");
        }
    }
    // Where a commit takes a write only, one thread is the limit, and each write costs it the same. Two full groups
    // under way carry more than four half-empty ones.
    if !device.flush_needed {
        text.push_str("commit_depth=2\n");
    }
    text.push_str(&options.engine);
    // What it writes, it writes into memory: as little as possible, then.
    if options.read_only {
        text.push_str("\ncheckpoint_bytes=1099511627776\ndurable_mark=off\n");
    }
    text
}

/// A new database's identity: it tells blocks of this one from those of any other.
fn identity() -> [u8; 16] {
    let mut id = [0; 16];
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |since| since.as_nanos());
    let process = u128::from(std::process::id());
    id.copy_from_slice(&(now ^ (process << 96)).to_le_bytes());
    id
}
