//! Clients that use a store while a clock runs.
//!
//! Closed loop: each client makes its next request when the last one was answered, and latency runs from the answer
//! before. Open loop: requests are due at fixed times, and latency runs from when a request was *due*. So a stall
//! counts for every request that it delayed (coordinated omission, as G. Tene describes it).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
pub use kvsim_store::script::Script;
use kvsim_store::seen::{LATENCY_NS_MAX, histogram};
pub use kvsim_store::seen::{Pace, Seen};

use super::counters::Source;
use super::store::{Store, StoreError};
use super::stream::{Action, Key, Operation};

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPED: u8 = 2;

#[expect(clippy::disallowed_methods, reason = "a benchmark is about time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// State that the clients share.
struct Common<'a> {
    store: &'a dyn Store,
    script: &'a Script,
    phase: AtomicU8,
    /// The first key that no client has inserted.
    next_key: &'a AtomicU64,
    began: Instant,
    rate_of_one: Option<f64>,
}

struct Client<'a> {
    common: &'a Common<'a>,
    number: u64,
    key: Key,
    at: usize,
    writes: u64,
    user_bytes: u64,
    commits: u64,
    latency: Vec<Histogram<u64>>,
    taken: u64,
}

/// Writes the records that the clients find, in the order of their keys.
///
/// # Errors
/// The store's.
pub fn preload(
    store: &dyn Store,
    script: &Script,
    progress: &mut dyn FnMut(u64),
) -> Result<(), StoreError> {
    let mut key = Key::new(script.key_bytes);
    for number in 0..script.preload {
        store.put(key.of(number), script.values.nth(number))?;
        if number % 1024 == 0 {
            progress(number);
        }
    }
    store.sync()
}

/// Lets the clients work through warm-up and measurement.
///
/// # Errors
/// The first error of any client.
pub fn run(
    store: &dyn Store,
    script: &Script,
    next_key: &AtomicU64,
    pace: &Pace,
    source: &Source,
) -> Result<Seen, StoreError> {
    let clients = script.lists.len();
    #[expect(clippy::cast_precision_loss, reason = "clients are few")]
    let common = Common {
        store,
        script,
        phase: AtomicU8::new(WARMING),
        next_key,
        began: now(),
        rate_of_one: pace.rate.map(|rate| rate / clients as f64),
    };
    let common = &common;
    std::thread::scope(|scope| {
        let threads: Vec<_> = if pace.tasks {
            vec![scope.spawn(move || tasks(common))]
        } else {
            (0..clients)
                .map(|number| {
                    scope.spawn(move || Client::new(common, number).work().map(|one| vec![one]))
                })
                .collect()
        };
        let sleep = |time: Duration| {
            let until = now() + time;
            while now() < until
                && !threads
                    .iter()
                    .any(std::thread::ScopedJoinHandle::is_finished)
            {
                std::thread::sleep(time.min(Duration::from_millis(20)));
            }
        };
        sleep(pace.warm_up);
        let (before, own_before, began) = (source.read(), store.counters(), now());
        common.phase.store(MEASURING, Ordering::Relaxed);
        sleep(pace.measured);
        // A thread that has ended takes its counts with it.
        let (after, own_after) = (source.read(), store.counters());
        common.phase.store(STOPPED, Ordering::Relaxed);
        let elapsed = began.elapsed();
        let mut seen = Seen {
            elapsed,
            latency: Action::ALL.map(|action| (action, histogram())).to_vec(),
            user_bytes: 0,
            commits: 0,
            counters: after.since(&before),
            own: own_after
                .iter()
                .zip(&own_before)
                .map(|((name, after), (_, before))| {
                    ((*name).to_owned(), after.saturating_sub(*before))
                })
                .collect(),
        };
        for thread in threads {
            for client in thread.join().expect("a client does not panic")? {
                seen.user_bytes += client.user_bytes;
                seen.commits += client.commits;
                for ((_, all), one) in seen.latency.iter_mut().zip(&client.latency) {
                    all.add(one).expect("they have the same bounds");
                }
            }
        }
        seen.latency.retain(|(_, histogram)| !histogram.is_empty());
        Ok(seen)
    })
}

/// All clients as tasks on this thread.
fn tasks<'a>(common: &'a Common<'a>) -> Result<Vec<Client<'a>>, StoreError> {
    let refused = |what: String| StoreError {
        engine: "tasks",
        what,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| refused(error.to_string()))?;
    runtime.block_on(async {
        let clients =
            (0..common.script.lists.len()).map(|number| Client::new(common, number).work_as_task());
        let mut done = Vec::new();
        for client in join_all(clients.collect()).await {
            done.push(client?);
        }
        Ok(done)
    })
}

/// Polls all of them until all have ended, each only when it was woken.
async fn join_all<T, F: Future<Output = T>>(futures: Vec<F>) -> Vec<T> {
    let set = futures
        .into_iter()
        .collect::<futures_util::stream::FuturesUnordered<F>>();
    futures_util::StreamExt::collect(set).await
}

impl<'a> Client<'a> {
    fn new(common: &'a Common<'a>, number: usize) -> Client<'a> {
        Client {
            common,
            number: number as u64,
            key: Key::new(common.script.key_bytes),
            at: 0,
            writes: 0,
            user_bytes: 0,
            commits: 0,
            latency: Action::ALL.map(|_| histogram()).to_vec(),
            taken: 0,
        }
    }

    fn next(&mut self) -> Operation {
        let list =
            &self.common.script.lists[usize::try_from(self.number).expect("clients are few")];
        let operation = list[self.at];
        self.at = (self.at + 1) % list.len();
        operation
    }

    /// When the next request is due, in an open loop.
    fn due(&self, made: u64) -> Option<Instant> {
        let rate = self.common.rate_of_one?;
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 requests")]
        let made = made as f64;
        Some(self.common.began + Duration::from_secs_f64(made / rate))
    }

    fn work(mut self) -> Result<Client<'a>, StoreError> {
        let mut began = now();
        let mut made = 0;
        loop {
            let phase = self.common.phase.load(Ordering::Relaxed);
            if phase == STOPPED {
                return Ok(self);
            }
            let operation = self.next();
            if let Some(due) = self.due(made) {
                std::thread::sleep(due.saturating_duration_since(now()));
                began = due;
            }
            let commits = self.perform(operation)?;
            let ended = now();
            self.record(
                phase,
                operation,
                commits,
                ended.saturating_duration_since(began),
            );
            began = ended;
            made += 1;
        }
    }

    async fn work_as_task(mut self) -> Result<Client<'a>, StoreError> {
        let mut began = now();
        loop {
            let phase = self.common.phase.load(Ordering::Relaxed);
            if phase == STOPPED {
                return Ok(self);
            }
            let operation = self.next();
            if operation.action != Action::Put {
                return Err(StoreError {
                    engine: "tasks",
                    what: "clients that are tasks do nothing but put".to_owned(),
                });
            }
            let value = self.common.script.value(self.number, self.writes);
            let put = self
                .common
                .store
                .put_async(self.key.of(operation.key.into()), value);
            let put = put.ok_or_else(|| StoreError {
                engine: "tasks",
                what: "this engine has no writes for tasks that do not block".to_owned(),
            })?;
            put.await?;
            self.writes += 1;
            let commits = Some(value.len());
            let ended = now();
            self.record(
                phase,
                operation,
                commits,
                ended.saturating_duration_since(began),
            );
            began = ended;
        }
    }

    fn record(&mut self, phase: u8, operation: Operation, commit: Option<usize>, took: Duration) {
        if phase != MEASURING {
            return;
        }
        if let Some(value_bytes) = commit {
            self.commits += 1;
            self.user_bytes += u64::from(self.common.script.key_bytes) + value_bytes as u64;
        }
        let took = u64::try_from(took.as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.latency[operation.action as usize].saturating_record(took.max(1));
    }

    /// Does it; the length of the value, if it was a commit.
    fn perform(&mut self, operation: Operation) -> Result<Option<usize>, StoreError> {
        let Common {
            store,
            script,
            next_key,
            ..
        } = self.common;
        let mut number = u64::from(operation.key);
        if script.from_latest {
            number = next_key.load(Ordering::Relaxed).saturating_sub(1 + number);
        }
        match operation.action {
            Action::Get => {
                let taken = &mut self.taken;
                store.get(self.key.of(number), &mut |value| *taken ^= sample(value))?;
                Ok(None)
            }
            Action::Scan => {
                let taken = &mut self.taken;
                let mut take = |_: &[u8], value: &[u8]| *taken ^= sample(value);
                store.scan(self.key.of(number), operation.entries.into(), &mut take)?;
                Ok(None)
            }
            Action::Delete => store.delete(self.key.of(number)).map(|()| Some(0)),
            Action::Insert => {
                let number = next_key.fetch_add(1, Ordering::Relaxed);
                self.put(number).map(Some)
            }
            Action::Put => self.put(number).map(Some),
            Action::ReadModifyWrite => {
                let taken = &mut self.taken;
                store.get(self.key.of(number), &mut |value| *taken ^= sample(value))?;
                self.put(number).map(Some)
            }
        }
    }

    fn put(&mut self, number: u64) -> Result<usize, StoreError> {
        let value = self.common.script.value(self.number, self.writes);
        self.writes += 1;
        self.common.store.put(self.key.of(number), value)?;
        Ok(value.len())
    }
}

/// Touches a value where it begins and ends, as a reader would.
fn sample(value: &[u8]) -> u64 {
    u64::from(value.first().copied().unwrap_or(0)) ^ u64::from(value.last().copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::RwLock;

    use super::*;
    use crate::stream;
    use kvsim_workload::{WorkloadConfig, WorkloadKind};

    /// A store that is right and nothing else.
    #[derive(Default)]
    struct Map {
        map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
        operations: AtomicU64,
        /// How often work went on while counters were read.
        went_on: AtomicU64,
    }

    impl Store for Map {
        fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
            self.operations.fetch_add(1, Ordering::Relaxed);
            self.map
                .write()
                .expect("whole")
                .insert(key.to_vec(), value.to_vec());
            Ok(())
        }
        fn delete(&self, key: &[u8]) -> Result<(), StoreError> {
            self.map.write().expect("whole").remove(key);
            Ok(())
        }
        fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<bool, StoreError> {
            self.operations.fetch_add(1, Ordering::Relaxed);
            let map = self.map.read().expect("whole");
            let found = map.get(key);
            found.into_iter().for_each(|value| take(value));
            Ok(found.is_some())
        }
        fn scan(
            &self,
            start: &[u8],
            limit: usize,
            take: &mut dyn FnMut(&[u8], &[u8]),
        ) -> Result<usize, StoreError> {
            self.operations.fetch_add(1, Ordering::Relaxed);
            let map = self.map.read().expect("whole");
            let range = map.range(start.to_vec()..).take(limit);
            Ok(range.map(|(key, value)| take(key, value)).count())
        }
        fn sync(&self) -> Result<(), StoreError> {
            Ok(())
        }
        fn counters(&self) -> Vec<(&'static str, u64)> {
            let before = self.operations.load(Ordering::Relaxed);
            for _ in 0..1000 {
                if self.operations.load(Ordering::Relaxed) > before {
                    self.went_on.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            vec![("operations", before)]
        }
    }

    fn seen(kind: WorkloadKind, rate: Option<f64>) -> (Seen, u64) {
        let mut workload = WorkloadConfig::of_kind(kind);
        (workload.keys, workload.preload, workload.clients) = (500, 500, 3);
        let script = stream::script(&workload, 1).expect("for everyone");
        let store = Map::default();
        preload(&store, &script, &mut |_| {}).expect("a map takes it");
        let next_key = AtomicU64::new(500);
        let pace = Pace {
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
            rate,
            tasks: false,
        };
        let seen = run(
            &store,
            &script,
            &next_key,
            &pace,
            &Source::of(std::path::Path::new(".")),
        )
        .expect("a map takes it");
        let went_on = store.went_on.into_inner();
        assert_eq!(
            went_on, 2,
            "clients are there before and after what is counted"
        );
        (seen, next_key.into_inner())
    }

    /// Goal: everything that is done is counted, as what it is. Method: each kind on a map.
    #[test]
    fn what_is_done_is_counted() {
        let (a, _) = seen(WorkloadKind::YcsbA, None);
        assert!(a.operations() > 100, "{}", a.operations());
        let puts = a
            .latency
            .iter()
            .find(|(action, _)| *action == Action::Put)
            .expect("half of them")
            .1
            .len();
        assert_eq!(a.commits, puts);
        assert_eq!(a.user_bytes, puts * 1016);
        let (d, next_key) = seen(WorkloadKind::YcsbD, None);
        let inserts = d
            .latency
            .iter()
            .find(|(action, _)| *action == Action::Insert)
            .expect("some")
            .1
            .len();
        assert!(next_key >= 500 + inserts, "inserted in warm-up too");
        let (e, _) = seen(WorkloadKind::YcsbE, None);
        assert!(
            e.latency
                .iter()
                .any(|(action, histogram)| *action == Action::Scan && histogram.len() > 10)
        );
        let (f, _) = seen(WorkloadKind::YcsbF, None);
        assert!(f.commits > 0 && f.commits < f.operations());
    }

    /// Goal: an open loop makes so many requests and no more. Method: 300 a second for a fifth of a second.
    #[test]
    fn an_open_loop_keeps_its_rate() {
        let (seen, _) = seen(WorkloadKind::YcsbC, Some(300.0));
        assert!(
            (30..=70).contains(&seen.operations()),
            "{}",
            seen.operations()
        );
    }
}
