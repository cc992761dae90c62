//! How long clients take to come back: a bare group commit, with the engine's own places to wait and nothing of the engine.
//!
//! A number of threads add themselves to a group, in turn, under one lock. The last to come writes the group through to
//! the disk and tells the others, and all come again. Measured is the time from the end of the write until each of them
//! holds the lock anew. That is: waking threads that slept while the disk worked, and getting them onto the processors,
//! one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kvsim_engine::{DiskError, DiskOp, IoBuf};

use super::{Access, Gauge, GaugeError, incompressible, nanos, now};
use crate::io::driver::blocking;
use crate::lock::lock_spinning;
use crate::sync::waiter::{Call, ThreadWaiter};

/// What a client adds to a group, a kilobyte and a little more.
const RECORD_BYTES: usize = 1064;
const BLOCK_BYTES: usize = 4096;
/// Rounds before the clock counts.
const WARM_UP_ROUNDS: usize = 50;

/// What was seen.
#[derive(Debug, Clone)]
pub struct Returns {
    /// For each round: when the first client was back after the end of the write, the second, and so on, in nanoseconds.
    pub rounds: Vec<Vec<u64>>,
    /// How long each write took, in nanoseconds.
    pub writes_ns: Vec<u64>,
    /// Bytes of each write.
    pub size_bytes: usize,
}

struct Round {
    /// When the last write ended.
    ended: Instant,
    arrivals_ns: Vec<u64>,
    waiters: Vec<Arc<ThreadWaiter>>,
    position: u64,
    left: usize,
    seen: Returns,
    failed: Option<DiskError>,
}

struct Common<'a> {
    gauge: &'a Gauge,
    round: Mutex<Round>,
    threads: usize,
    work: Duration,
    data: Arc<IoBuf>,
}

impl Gauge {
    /// Lets so many threads commit together for so many rounds; each keeps the lock busy for `work`, as an engine would.
    ///
    /// # Errors
    /// The device was opened to read only, a thread cannot be started, or a write failed.
    pub fn returns(
        &self,
        threads: usize,
        work: Duration,
        rounds: usize,
    ) -> Result<Returns, GaugeError> {
        self.check_writable(Access::WriteThrough)?;
        let bytes = (threads * RECORD_BYTES).next_multiple_of(BLOCK_BYTES);
        if (self.file.len_bytes()) < bytes as u64 {
            return Err(self.failed(format!("too small for {threads} records")));
        }
        let common = Common {
            gauge: self,
            threads,
            work,
            data: Arc::new(incompressible(bytes, 1)),
            round: Mutex::new(Round {
                ended: now(),
                arrivals_ns: Vec::with_capacity(threads),
                waiters: Vec::with_capacity(threads),
                position: 0,
                left: rounds + WARM_UP_ROUNDS,
                seen: Returns {
                    rounds: Vec::with_capacity(rounds + WARM_UP_ROUNDS),
                    writes_ns: Vec::with_capacity(rounds + WARM_UP_ROUNDS),
                    size_bytes: bytes,
                },
                failed: None,
            }),
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| common.client());
            }
        });
        let Round {
            mut seen, failed, ..
        } = common
            .round
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed {
            return Err(self.failed(error.to_string()));
        }
        let warm = WARM_UP_ROUNDS.min(seen.rounds.len());
        seen.rounds.drain(..warm);
        seen.writes_ns.drain(..warm);
        Ok(seen)
    }
}

impl Common<'_> {
    fn client(&self) {
        let waiter = ThreadWaiter::mine();
        loop {
            waiter.reset();
            let mut round = lock_spinning(&self.round);
            if round.left == 0 {
                return;
            }
            let came = now();
            let after_ns = nanos(came.saturating_duration_since(round.ended));
            round.arrivals_ns.push(after_ns);
            while came.elapsed() < self.work {
                std::hint::spin_loop();
            }
            if round.arrivals_ns.len() < self.threads {
                round.waiters.push(Arc::clone(&waiter));
                drop(round);
                waiter.wait();
            } else {
                self.lead(round);
            }
        }
    }

    /// Writes the group and tells the others.
    fn lead(&self, mut round: MutexGuard<'_, Round>) {
        let bytes = self.data.len() as u64;
        if round.position + bytes > self.gauge.file.len_bytes() {
            round.position = 0;
        }
        let offset = round.position;
        round.position += bytes;
        drop(round);
        let began = now();
        let write = DiskOp::Write {
            offset,
            data: Arc::clone(&self.data),
            through: self.gauge.report.flush_needed,
        };
        let written = blocking::execute(&self.gauge.file, write);
        let ended = now();
        let mut round = lock_spinning(&self.round);
        let arrivals = std::mem::replace(&mut round.arrivals_ns, Vec::with_capacity(self.threads));
        round.seen.rounds.push(arrivals);
        round
            .seen
            .writes_ns
            .push(nanos(ended.duration_since(began)));
        round.ended = ended;
        round.left -= 1;
        if let Err(error) = written {
            round.failed = Some(error);
            round.left = 0;
        }
        let waiters = std::mem::take(&mut round.waiters);
        drop(round);
        for waiter in waiters {
            waiter.tell(Call::Ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    /// Goal: every client comes back in every round. Method: three of them, a few rounds, times that never fall within a round.
    #[test]
    fn every_client_comes_back_in_every_round() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 1 << 20,
            ..OpenOptions::default()
        };
        let gauge = Gauge::open(&directory.path().join("file"), &options).expect("it opens");
        for threads in [1, 3] {
            let seen = gauge
                .returns(threads, Duration::from_micros(1), 20)
                .expect("a disk does that");
            assert_eq!((seen.rounds.len(), seen.writes_ns.len()), (20, 20));
            for round in &seen.rounds {
                assert_eq!(round.len(), threads);
                assert!(round.is_sorted(), "{round:?}");
            }
        }
    }
}
