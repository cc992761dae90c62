//! One session on the real disk: a database is opened with a recorder, clients work, and it is closed.
//!
//! Clients are threads that block, or tasks on one thread that do not. What they do is drawn from the workload's seed; how they come
//! between each other is the machine's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kvsim_native::record::{Call, Event, Recorder, What};
use kvsim_native::{Database, DriverChoice, Durability, Failure, Mutation, OpenError, OpenOptions};
use kvsim_sim::api;
use kvsim_simdisk::Image;

use super::recover::{Opening, status_in_api};
use kvsim_oracle::{CheckConfig, Oracle};
use kvsim_workload::Workload;

/// Files are compared and copied in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// A recording, and what had to survive before it began.
pub(crate) struct Session {
    /// What the file held; nothing if there was no file.
    pub(crate) before: Option<Image>,
    pub(crate) events: Vec<Event>,
    pub(crate) opening: Opening,
    /// Up to the answer to the opening.
    pub(crate) oracle_before: Oracle,
    /// From then on.
    pub(crate) oracle_opened: Oracle,
    /// The driver's name.
    pub(crate) driver: &'static str,
    /// What the probe found, for a report.
    pub(crate) device: String,
    /// What the engine counted.
    pub(crate) engine: kvsim_native::Stats,
}

/// Calls to the kernel, by kind, and what callers were told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Calls {
    /// Writes that promise nothing by themselves.
    pub writes: u64,
    /// Writes that are durable when they end.
    pub write_throughs: u64,
    /// Flushes of the file.
    pub flushes: u64,
    /// Times that the file was made longer by allocating, and not by writing.
    pub allocations: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Requests of clients that were answered well.
    pub acknowledged: u64,
}

impl Calls {
    pub(crate) fn add(&mut self, events: &[Event]) {
        for event in events {
            match &event.what {
                What::Begun(_, Call::Write { data, through, .. }) => {
                    self.writes += u64::from(!through);
                    self.write_throughs += u64::from(*through);
                    self.written_bytes += data.len() as u64;
                }
                What::Begun(_, Call::Flush) => self.flushes += 1,
                What::Begun(_, Call::Grow { .. }) => self.allocations += 1,
                What::Begun(_, Call::Read { .. }) => self.reads += 1,
                What::Answered(_, Ok(())) => self.acknowledged += 1,
                _ => {}
            }
        }
    }
}

/// How clients come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clients {
    Threads,
    Tasks,
}

/// How a session is made.
pub(crate) struct Making<'a> {
    pub(crate) path: &'a Path,
    pub(crate) driver: DriverChoice,
    pub(crate) clients: Clients,
    /// The engine's options.
    pub(crate) engine: String,
    /// Size of a new file.
    pub(crate) size_bytes: u64,
    pub(crate) max_bytes: u64,
    /// Requests of each client.
    pub(crate) requests: u64,
}

/// What a session left.
pub(crate) struct Made {
    pub(crate) events: Vec<Event>,
    pub(crate) config: kvsim_engine::Config,
    pub(crate) driver: &'static str,
    pub(crate) device: String,
    pub(crate) engine: kvsim_native::Stats,
}

impl Made {
    /// The recording with what had to survive before it.
    pub(crate) fn into_session(
        self,
        before: Option<Image>,
        oracles: (Oracle, Oracle),
        size_bytes: u64,
        check: &CheckConfig,
    ) -> Session {
        Session {
            before,
            events: self.events,
            opening: Opening {
                config: self.config,
                size_bytes,
                check: check.clone(),
            },
            oracle_before: oracles.0,
            oracle_opened: oracles.1,
            driver: self.driver,
            device: self.device,
            engine: self.engine,
        }
    }
}

/// Opens the database, lets the clients work, closes it.
pub(crate) fn make(making: &Making<'_>, workload: &mut Workload) -> Result<Made, OpenError> {
    let recorder = Recorder::new();
    let options = OpenOptions {
        driver: making.driver,
        size_bytes: making.size_bytes,
        max_bytes: making.max_bytes,
        // Reads go to the disk.
        cache_bytes: 0,
        engine: making.engine.clone(),
        recorder: Some(recorder.clone()),
        ..OpenOptions::default()
    };
    let database = Database::open(making.path, &options)?;
    let (driver, device) = (database.device().driver, database.device().to_string());
    workload.crashed();
    let clients = workload.clients();
    let workload = Mutex::new(workload);
    let work = Work {
        database: &database,
        workload: &workload,
        requests: making.requests,
    };
    match making.clients {
        Clients::Threads => std::thread::scope(|scope| {
            for client in 0..clients {
                let work = &work;
                scope.spawn(move || work.as_thread(client));
            }
        }),
        Clients::Tasks => {
            let tasks: FuturesUnordered<_> =
                (0..clients).map(|client| work.as_task(client)).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.expect("a runtime without timers and sockets needs nothing");
            runtime.block_on(tasks.count());
        }
    }
    let engine = database.counts().engine;
    drop(database);
    let events = recorder.take();
    let config = events.iter().find_map(|event| match &event.what {
        What::Opening(config) => Some(config.clone()),
        _ => None,
    });
    Ok(Made {
        config: config.expect("an open database was opened"),
        events,
        driver,
        device,
        engine,
    })
}

struct Work<'a> {
    database: &'a Database,
    workload: &'a Mutex<&'a mut Workload>,
    requests: u64,
}

impl<'a> Work<'a> {
    fn workload(&self) -> MutexGuard<'a, &'a mut Workload> {
        self.workload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database has failed when a request has: there is no point in going on.
    fn as_thread(&self, client: u32) {
        for _ in 0..self.requests {
            let request = self.workload().next(client).request;
            let ended = self.perform(&request);
            if !self.tell(client, ended) {
                return;
            }
        }
    }

    async fn as_task(&self, client: u32) {
        for _ in 0..self.requests {
            let request = self.workload().next(client).request;
            let ended = self.perform_as_task(&request).await;
            if !self.tell(client, ended) {
                return;
            }
        }
    }

    /// Tells the client how its request ended; false if it failed.
    fn tell(&self, client: u32, ended: Result<Option<Vec<u8>>, Failure>) -> bool {
        let (status, body) = match ended {
            Ok(Some(value)) => (api::Status::Ok, api::Body::Value(value)),
            Ok(None) => (api::Status::Ok, api::Body::Empty),
            Err(failure) => (
                status_in_api(failure.status),
                api::Body::Message(failure.message),
            ),
        };
        let reply = api::Reply {
            id: 1,
            status,
            body,
        };
        self.workload().replied(client, &reply);
        matches!(status, api::Status::Ok | api::Status::NoSpace)
    }

    fn perform(&self, request: &api::Request) -> Result<Option<Vec<u8>>, Failure> {
        match request {
            api::Request::Get { key, .. } => {
                let found = self.database.get(key)?;
                Ok(found.map(|value| value.to_vec()))
            }
            api::Request::Sync => self.database.sync().map(|()| None),
            writing => {
                let (batch, durability) = batch(writing);
                self.database.write(&batch, durability).map(|()| None)
            }
        }
    }

    async fn perform_as_task(&self, request: &api::Request) -> Result<Option<Vec<u8>>, Failure> {
        match request {
            api::Request::Get { key, .. } => {
                let found = self.database.get_async(key).await?;
                Ok(found.map(|value| value.to_vec()))
            }
            api::Request::Sync => self.database.sync().map(|()| None),
            writing => {
                let (batch, durability) = batch(writing);
                let writing = self.database.write_async(&batch, durability);
                writing.await.map(|()| None)
            }
        }
    }
}

/// What a request writes.
fn batch(request: &api::Request) -> (Vec<Mutation<'_>>, Durability) {
    let (batch, durability) = match request {
        api::Request::Put {
            key,
            value,
            durability,
        } => (vec![Mutation::Put { key, value }], durability),
        api::Request::Delete { key, durability } => (vec![Mutation::Delete { key }], durability),
        api::Request::Batch {
            mutations,
            durability,
        } => (mutations.iter().map(mutation).collect(), durability),
        other => unreachable!("the plan refuses workloads with other requests: {other:?}"),
    };
    let durability = match durability {
        api::Durability::Durable => Durability::Durable,
        api::Durability::Relaxed => Durability::Relaxed,
    };
    (batch, durability)
}

fn mutation(mutation: &api::Mutation) -> Mutation<'_> {
    match mutation {
        api::Mutation::Put { key, value } => Mutation::Put { key, value },
        api::Mutation::Delete { key } => Mutation::Delete { key },
    }
}

/// Where a file is not what the replay of its recording says: something was written that was not recorded.
pub(crate) fn first_difference(path: &Path, image: &Image) -> std::io::Result<Option<u64>> {
    let file = File::open(path)?;
    if file.metadata()?.len() != image.len_bytes() {
        return Ok(Some(file.metadata()?.len().min(image.len_bytes())));
    }
    let (mut found, mut expected) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut at = 0;
    while at < image.len_bytes() {
        let len = usize::try_from(image.len_bytes() - at)
            .map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
        file.read_exact_at(&mut found[..len], at)?;
        image.read(at, &mut expected[..len]);
        let differs = found[..len]
            .iter()
            .zip(&expected[..len])
            .position(|(one, other)| one != other);
        if let Some(place) = differs {
            return Ok(Some(at + place as u64));
        }
        at += len as u64;
    }
    Ok(None)
}

/// Makes a file of an image, every byte of it written.
pub(crate) fn write_file(path: &Path, image: &Image) -> std::io::Result<()> {
    let file = File::create(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < image.len_bytes() {
        let len = usize::try_from(image.len_bytes() - at)
            .map_or(PIECE_BYTES, |rest| rest.min(PIECE_BYTES));
        image.read(at, &mut piece[..len]);
        file.write_all_at(&piece[..len], at)?;
        at += len as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a file that holds anything but what was recorded is noticed, wherever. Method: one byte changed, and one more.
    #[test]
    fn a_byte_that_nobody_recorded_is_noticed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let mut image = Image::new(3 << 20);
        image.write(5_000, &[9; 70_000]);
        write_file(&path, &image).expect("it can be written");
        let differs = || first_difference(&path, &image).expect("it can be read");
        assert_eq!(differs(), None);
        let file = File::options()
            .write(true)
            .open(&path)
            .expect("it is there");
        file.write_all_at(&[1], 2_500_000)
            .expect("it can be written");
        assert_eq!(differs(), Some(2_500_000));
        file.write_all_at(&[0], 2_500_000)
            .expect("it can be written");
        file.write_all_at(&[0], 3 << 20).expect("it can be longer");
        assert_eq!(differs(), Some(3 << 20));
    }
}
