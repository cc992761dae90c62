//! Drivers: how disk operations reach a file or a device, and how their ends come back.
//!
//! Invariants of every driver:
//! - an operation that was queued ends exactly once, and its buffer is kept until then;
//! - a write ends well only when all of its bytes are written, and if it was asked to go through, when they are durable;
//! - a flush ends well only when everything that had ended before it was queued is durable, by the kind of durability asked for.

pub(crate) mod blocking;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
pub(crate) mod overlay;
mod pool;
#[cfg(target_os = "linux")]
mod uring;

use std::sync::Arc;
use std::time::Duration;

use kvsim_engine::{DiskError, DiskOp, IoBuf};

use crate::api::options::DriverChoice;
use crate::io::file::DataFile;

/// The end of an operation; a read brings its buffer.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) tag: u64,
    pub(crate) result: Result<Option<IoBuf>, DiskError>,
}

/// A read that the thread that has this does itself.
#[derive(Debug)]
#[cfg_attr(
    not(target_os = "linux"),
    expect(dead_code, reason = "only io_uring lets a thread take one")
)]
pub(crate) struct Taken {
    tag: u64,
    op: DiskOp,
}

/// Where operations go.
///
/// Many threads may call `start` and `wake`; `queue` is called by one at a time, and so are `wait` and `reap`; `wait` may go
/// on while another thread reaps.
pub(crate) trait Driver: Send + Sync {
    /// Its name for reports.
    fn name(&self) -> &'static str;
    /// Takes an operation over. It may wait for `start` or `wait` to begin.
    fn queue(&self, tag: u64, op: DiskOp);
    /// Begins what was queued.
    fn start(&self);
    /// Does, on the calling thread, what was queued alone and not begun, if that is quicker than to begin it; says whether it did.
    /// Its end is there for `reap`, and for nobody who sleeps in `wait`.
    fn work(&self) -> bool {
        false
    }
    /// Takes a read that was queued and not begun, for the calling thread to do itself with `read`: to be woken for its end by another thread takes longer. Called as `queue`
    /// is. Says too whether something else is left to begin.
    fn take_read(&self) -> Option<(Taken, bool)> {
        None
    }
    /// The same for the thread that calls `wait`, if there is nothing else to wait for.
    fn take_lone_read(&self) -> Option<Taken> {
        None
    }
    /// Does what was taken. Its end is there for `reap`, and for nobody who sleeps in `wait`.
    fn read(&self, _: Taken) {
        unreachable!("nothing was taken");
    }
    /// Reads so many bytes at an offset on the calling thread, beside everything else; `None` if it cannot. Any number of threads may call it.
    fn read_here(&self, _offset: u64, _len: usize) -> Option<IoBuf> {
        None
    }
    /// The same of several places, an offset and so many bytes each.
    fn read_all_here(&self, places: &[(u64, usize)]) -> Option<Vec<IoBuf>> {
        let places = places.iter();
        places
            .map(|(offset, len)| self.read_here(*offset, *len))
            .collect()
    }
    /// Whether it can at all.
    fn reads_here(&self) -> bool {
        false
    }
    /// Begins what was queued, then sleeps until something has ended, someone calls `wake`, or the time is over.
    fn wait(&self, timeout: Option<Duration>);
    /// Makes the present `wait`, or the next, return.
    fn wake(&self);
    /// Whoever would have waited did something else, and sees all that was done up to now: wake-ups sent before need not arrive.
    fn awake(&self) {}
    /// Whether `reap` would find something, as far as can be said without asking the kernel. Called as `reap` is.
    fn has_ended(&self) -> bool {
        false
    }
    /// Takes what has ended.
    fn reap(&self, done: &mut Vec<Completion>);
}

/// The driver that was asked for, or the best there is, and why it is not the first choice.
pub(crate) fn choose(
    file: &Arc<DataFile>,
    choice: DriverChoice,
) -> Result<(Box<dyn Driver>, Option<String>), String> {
    let pool = || -> Result<Box<dyn Driver>, String> {
        let pool =
            pool::Pool::new(file).map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Box::new(pool))
    };
    match choice {
        DriverChoice::Threads => Ok((pool()?, None)),
        #[cfg(target_os = "linux")]
        DriverChoice::Uring | DriverChoice::Auto => match uring::Uring::new(Arc::clone(file)) {
            Ok(uring) => Ok((Box::new(uring), None)),
            Err(error) if choice == DriverChoice::Auto => Ok((
                pool()?,
                Some(format!("the kernel refuses io_uring: {error}")),
            )),
            Err(error) => Err(format!("io_uring cannot be used: {error}")),
        },
        #[cfg(not(target_os = "linux"))]
        DriverChoice::Auto => Ok((pool()?, None)),
        #[cfg(not(target_os = "linux"))]
        DriverChoice::Uring => Err("io_uring exists on Linux only".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Instant;

    use super::*;
    use crate::api::options::OpenOptions;

    const WAKE_UPS: u64 = 20_000;
    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Goal: nobody who waits is left asleep, also if others take what has ended, wake-ups included, before it sleeps. Method: one thread waits
    /// again and again, the other wakes it and takes everything until it has returned; with each driver.
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a lost wake-up is not to hang the test"
    )]
    fn a_wake_up_arrives_whoever_takes_it() {
        for choice in [DriverChoice::Auto, DriverChoice::Threads] {
            let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
            let file = DataFile::open(&directory.path().join("file"), &OpenOptions::default());
            let (driver, _) = choose(&Arc::new(file.expect("a file")), choice).expect("a driver");
            let (returned, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stopping.load(Ordering::SeqCst) {
                        driver.wait(Some(2 * TIMEOUT));
                        returned.fetch_add(1, Ordering::SeqCst);
                    }
                });
                let began = Instant::now();
                let mut lost = false;
                for _ in 0..WAKE_UPS {
                    let before = returned.load(Ordering::SeqCst);
                    driver.wake();
                    while returned.load(Ordering::SeqCst) == before && !lost {
                        driver.reap(&mut Vec::new());
                        lost = began.elapsed() > TIMEOUT;
                    }
                }
                stopping.store(true, Ordering::SeqCst);
                driver.wake();
                assert!(!lost, "{}: a wake-up was lost", driver.name());
            });
        }
    }

    /// Goal: a read that a thread does itself ends as any other, once, and those that were queued with it are begun. Method: three reads of a file, of which this thread takes one; then
    /// one alone, as a thread that waits takes it, and one that must not be taken since another is under way.
    #[test]
    fn a_read_that_is_taken_ends_like_any_other() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
        let options = OpenOptions {
            size_bytes: 1 << 20,
            ..OpenOptions::default()
        };
        let file = DataFile::open(&directory.path().join("file"), &options).expect("a file");
        let blocks: Vec<IoBuf> = (1..5_u8)
            .map(|n| {
                let mut block = IoBuf::zeroed(4096);
                block.fill(n);
                block
            })
            .collect();
        for (at, block) in (0..).zip(&blocks) {
            file.write_all(block, at * 4096).expect("it is written");
        }
        let (driver, _) = choose(&Arc::new(file), DriverChoice::Auto).expect("a driver");
        if driver.name() != "io_uring" {
            return;
        }
        let queue = |tag: u64| {
            let (offset, buffer) = (tag * 4096, IoBuf::zeroed(4096));
            driver.queue(tag, DiskOp::Read { offset, buffer });
        };
        let mut done = Vec::new();
        let mut wait_for = |count: usize| {
            while done.len() < count {
                driver.wait(Some(TIMEOUT));
                driver.reap(&mut done);
            }
            done.sort_by_key(|it: &Completion| it.tag);
            for Completion { tag, result } in std::mem::take(&mut done) {
                let bytes = result.expect("it is read").expect("a buffer");
                assert_eq!(bytes[..], blocks[usize::try_from(tag).expect("small")][..]);
            }
        };
        (0..3).for_each(queue);
        let (taken, left) = driver.take_read().expect("there are three");
        assert!(left, "two are left to begin");
        driver.read(taken);
        driver.start();
        wait_for(3);
        queue(3);
        driver.read(driver.take_lone_read().expect("there is one"));
        wait_for(1);
        queue(1);
        queue(2);
        assert!(driver.take_lone_read().is_none(), "there are two");
        wait_for(2);
    }
}
