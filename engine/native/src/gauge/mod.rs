//! Measures a disk through the engine's own file layer and drivers: how long each kind of operation takes, by size and
//! by how many are under way at once. The results are what an engine on this disk would see, the driver's own cost
//! included.
//!
//! Writes and write-throughs go one after the other through the file, as those of a log do; reads go anywhere.
//!
//! Beside that it carries groups of writes out and flushes after them ([`Gauge::commit`]), for comparisons with what an engine does
//! that has nothing but files.
//!
//! Invariants: an operation's time runs from its queueing until it was reaped. When a trial returns, every operation
//! has ended. A device that was opened to read is never written.

mod group;
mod returns;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kvsim_engine::{DiskOp, IoBuf};

use crate::api::error::OpenError;
use crate::api::options::OpenOptions;
use crate::io::device::DeviceReport;
use crate::io::driver::{self, Completion, Driver};
use crate::io::file::{DataFile, Growth};
use crate::lock::lock;

pub use returns::Returns;

/// A growth of the file is measured in steps of this size.
const GROWTH_BYTES: u64 = 1 << 20;
/// How long a wait for the disk may take before the loop looks again.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reads at places drawn at random.
    Read,
    /// Writes, durable or not as the device has it.
    Write,
    /// Writes that are durable when they complete.
    WriteThrough,
    /// Flushes, each after a write of its own whose time does not count.
    Flush,
    /// Growths of the file by a piece each; the size does not matter, nor does the depth.
    Grow,
}

impl Access {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::WriteThrough => "write through",
            Access::Flush => "flush",
            Access::Grow => "grow",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Of what.
    pub access: Access,
    /// Bytes of each operation.
    pub size_bytes: usize,
    /// Operations under way at once.
    pub depth: usize,
    /// For how long.
    pub duration: Duration,
}

/// What a measurement gave.
#[derive(Debug, Clone)]
pub struct Sample {
    /// From queueing to the end, in nanoseconds, in the order of their ends.
    pub latencies_ns: Vec<u64>,
    /// How long the whole took.
    pub elapsed: Duration,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GaugeError {
    /// The file or the device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An operation failed.
    #[error("{}: {what}", path.display())]
    Failed {
        /// Which file.
        path: std::path::PathBuf,
        /// What failed.
        what: String,
    },
    /// The device was opened to read only.
    #[error("{} was opened to be read, and a {} would change it", path.display(), access.name())]
    ReadOnly {
        /// Which device.
        path: std::path::PathBuf,
        /// What was asked for.
        access: Access,
    },
}

/// A file or a device that is measured.
pub struct Gauge {
    file: Arc<DataFile>,
    driver: Box<dyn Driver>,
    report: DeviceReport,
    is_writable: bool,
    /// The driver is asked by one thread at a time.
    turn: Mutex<()>,
}

impl std::fmt::Debug for Gauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gauge")
            .field("path", &self.report.path)
            .finish_non_exhaustive()
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement is about time")]
fn now() -> Instant {
    Instant::now()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// One of the operations under way.
struct Slot {
    began: Instant,
    data: Arc<IoBuf>,
    spare: Option<IoBuf>,
    /// The write before a flush is under way.
    preparing: bool,
}

/// Where the next operation goes.
struct Places {
    size_bytes: u64,
    count: u64,
    next: u64,
    state: u64,
}

impl Places {
    fn sequential(&mut self) -> u64 {
        let at = self.next % self.count;
        self.next += 1;
        at * self.size_bytes
    }

    /// By the generator that G. Marsaglia calls xorshift: good enough to be anywhere.
    fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.count * self.size_bytes
    }
}

impl Gauge {
    /// Opens a file, which is created and written in full if it is not there, or a device whose contents may be overwritten.
    ///
    /// # Errors
    /// [`GaugeError::Open`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Gauge, GaugeError> {
        Gauge::on(DataFile::open(path, options)?, options, true)
    }

    /// Opens a file that goes through the page cache.
    ///
    /// # Errors
    /// [`GaugeError::Open`].
    pub fn open_buffered(path: &Path, options: &OpenOptions) -> Result<Gauge, GaugeError> {
        Gauge::on(DataFile::open_buffered(path, options)?, options, true)
    }

    /// Opens a device, or a file that exists, to read it and do nothing else.
    ///
    /// # Errors
    /// [`GaugeError::Open`].
    pub fn open_to_read(path: &Path, options: &OpenOptions) -> Result<Gauge, GaugeError> {
        Gauge::on(DataFile::open_to_read(path, options)?, options, false)
    }

    fn on(file: DataFile, options: &OpenOptions, is_writable: bool) -> Result<Gauge, GaugeError> {
        let file = Arc::new(file);
        let (driver, note) = driver::choose(&file, options.driver).map_err(OpenError::Driver)?;
        let mut report = DeviceReport::probe(&file, options);
        report.driver = driver.name();
        report.driver_note = note;
        Ok(Gauge {
            file,
            driver,
            report,
            is_writable,
            turn: Mutex::new(()),
        })
    }

    /// What was found about the device.
    #[must_use]
    pub fn report(&self) -> &DeviceReport {
        &self.report
    }

    /// Measures.
    ///
    /// # Errors
    /// The device was opened to read only and this writes; the file is smaller than the operations under way; one failed.
    pub fn run(&self, trial: &Trial) -> Result<Sample, GaugeError> {
        if trial.access != Access::Read {
            self.check_writable(trial.access)?;
        }
        if trial.access == Access::Grow {
            return self.grow(trial.duration);
        }
        let size_bytes = trial.size_bytes as u64;
        let count = self.file.len_bytes() / size_bytes.max(1);
        if size_bytes == 0 || count < trial.depth as u64 {
            let what = format!("too small for {} operations of {size_bytes}", trial.depth);
            return Err(self.failed(what));
        }
        let mut places = Places {
            size_bytes,
            count,
            next: 0,
            state: 0x9E37_79B9_7F4A_7C15,
        };
        let _turn = self.my_turn();
        let began = now();
        let mut slots: Vec<Slot> = (0..trial.depth)
            .map(|number| Slot {
                began,
                data: Arc::new(incompressible(trial.size_bytes, number as u64)),
                spare: Some(IoBuf::zeroed(trial.size_bytes)),
                preparing: false,
            })
            .collect();
        for (tag, slot) in slots.iter_mut().enumerate() {
            self.begin(tag as u64, slot, trial.access, &mut places);
        }
        let (mut under_way, mut done) = (trial.depth, Vec::new());
        let mut latencies_ns = Vec::new();
        let mut failed = None;
        while under_way > 0 {
            // As the engine does: what was queued alone is done by whoever would only wait for it.
            if !self.driver.work() {
                self.driver.wait(Some(TIMEOUT));
            }
            self.driver.reap(&mut done);
            let ended = now();
            // However slow the disk is, one is timed.
            let timed = !latencies_ns.is_empty()
                || done.iter().any(|end| {
                    !slots[usize::try_from(end.tag).expect("a slot's number")].preparing
                });
            let over = failed.is_some() || (timed && ended.duration_since(began) >= trial.duration);
            for Completion { tag, result } in done.drain(..) {
                let slot = &mut slots[usize::try_from(tag).expect("a slot's number")];
                match result {
                    Ok(Some(buffer)) => slot.spare = Some(buffer),
                    Ok(None) => {}
                    Err(error) => failed = Some(error),
                }
                if !slot.preparing {
                    latencies_ns.push(nanos(ended.duration_since(slot.began)));
                }
                if over || failed.is_some() {
                    under_way -= 1;
                } else {
                    self.begin(tag, slot, trial.access, &mut places);
                }
            }
        }
        match failed {
            Some(error) => Err(self.failed(error.to_string())),
            None => Ok(Sample {
                latencies_ns,
                elapsed: began.elapsed(),
            }),
        }
    }

    fn begin(&self, tag: u64, slot: &mut Slot, access: Access, places: &mut Places) {
        let flush_comes = access == Access::Flush && !slot.preparing;
        let op = match access {
            Access::Read => DiskOp::Read {
                offset: places.random(),
                buffer: slot.spare.take().expect("it came back"),
            },
            Access::Flush if slot.preparing => DiskOp::Flush,
            _ => DiskOp::Write {
                offset: places.sequential(),
                data: Arc::clone(&slot.data),
                through: access == Access::WriteThrough,
            },
        };
        slot.preparing = flush_comes;
        slot.began = now();
        self.driver.queue(tag, op);
    }

    fn grow(&self, duration: Duration) -> Result<Sample, GaugeError> {
        let (began, mut latencies_ns) = (now(), Vec::new());
        while latencies_ns.is_empty() || began.elapsed() < duration {
            let step = now();
            let new_bytes = self.file.len_bytes() + GROWTH_BYTES;
            self.file
                .grow(new_bytes, Growth::Written)
                .map_err(|error| self.failed(error.to_string()))?;
            latencies_ns.push(nanos(step.elapsed()));
        }
        Ok(Sample {
            latencies_ns,
            elapsed: began.elapsed(),
        })
    }

    fn my_turn(&self) -> MutexGuard<'_, ()> {
        lock(&self.turn)
    }

    fn check_writable(&self, access: Access) -> Result<(), GaugeError> {
        if self.is_writable {
            return Ok(());
        }
        Err(GaugeError::ReadOnly {
            path: self.report.path.clone(),
            access,
        })
    }

    fn failed(&self, what: String) -> GaugeError {
        GaugeError::Failed {
            path: self.report.path.clone(),
            what,
        }
    }
}

/// Bytes that no device makes less of.
fn incompressible(len: usize, seed: u64) -> IoBuf {
    let mut buffer = IoBuf::zeroed(len);
    for (number, word) in buffer.chunks_mut(8).enumerate() {
        let bytes = xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), seed).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> OpenOptions {
        OpenOptions {
            size_bytes: 1 << 20,
            ..OpenOptions::default()
        }
    }

    /// Goal: each kind of operation is done and timed, one at a time and several. Method: a small file, both drivers.
    #[test]
    fn every_kind_of_operation_is_timed() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        for driver in [crate::DriverChoice::Auto, crate::DriverChoice::Threads] {
            let options = OpenOptions {
                driver,
                ..options()
            };
            let path = directory.path().join(format!("{driver:?}"));
            let gauge = Gauge::open(&path, &options).expect("it opens");
            for access in [
                Access::Read,
                Access::Write,
                Access::WriteThrough,
                Access::Flush,
                Access::Grow,
            ] {
                for depth in [1, 3] {
                    let sample = gauge
                        .run(&Trial {
                            access,
                            size_bytes: 8192,
                            depth,
                            duration: Duration::from_millis(5),
                        })
                        .expect("a disk does that");
                    assert!(!sample.latencies_ns.is_empty(), "{access:?} {depth}");
                    let longest = sample.latencies_ns.iter().max().copied().unwrap_or(0);
                    assert!(longest <= nanos(sample.elapsed));
                }
            }
        }
    }

    /// Goal: what was opened to read is not changed. Method: every operation that writes, and the file's bytes before and after.
    #[test]
    fn what_is_opened_to_read_is_never_written() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let path = directory.path().join("file");
        let bytes = vec![7; 1 << 20];
        std::fs::write(&path, &bytes).expect("it can be written");
        let gauge = Gauge::open_to_read(&path, &options()).expect("it opens");
        let trial = |access| Trial {
            access,
            size_bytes: 4096,
            depth: 2,
            duration: Duration::from_millis(5),
        };
        assert!(gauge.run(&trial(Access::Read)).is_ok());
        for access in [
            Access::Write,
            Access::WriteThrough,
            Access::Flush,
            Access::Grow,
        ] {
            let refused = gauge.run(&trial(access));
            assert!(matches!(refused, Err(GaugeError::ReadOnly { .. })));
        }
        assert!(gauge.returns(2, Duration::ZERO, 10).is_err());
        assert_eq!(std::fs::read(&path).expect("it is there"), bytes);
    }

    /// Goal: operations that do not fit are refused with a word. Method: a file of one piece, and more than that under way.
    #[test]
    fn a_file_that_is_too_small_is_refused() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let gauge = Gauge::open(&directory.path().join("file"), &options()).expect("it opens");
        let trial = Trial {
            access: Access::Read,
            size_bytes: 1 << 20,
            depth: 2,
            duration: Duration::from_millis(1),
        };
        let refused = gauge.run(&trial).expect_err("it has one");
        assert!(refused.to_string().contains("too small"), "{refused}");
    }
}
