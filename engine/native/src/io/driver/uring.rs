//! io_uring: operations are queued in memory that the kernel shares, and one system call begins them and waits for ends.
//!
//! The file is registered, so that the kernel need not look it up for each operation. A thread that waits submits in the same
//! call; one that does not wait submits without waiting. What blocks by nature (growing) has a thread of its own, which sleeps otherwise.
//! A thread that waits for a lone write-through write, or for a small read, does that itself.
//!
//! Invariants: the memory of an operation under way is kept in `slots` until the kernel has ended the operation, also
//! while the driver is dropped. A short transfer goes on with its rest. `queue` and `reap` are each called by one
//! thread at a time, as `Driver` says, and each end of the ring has a lock of its own. A wake-up is sent once. It is
//! sent again only if another thread took it before the waiting thread returned.
#![expect(
    unsafe_code,
    reason = "the kernel is given addresses, and keeps them until completion"
)]

mod slot;
mod together;

use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use kvsim_engine::{DiskError, DiskOp, IoBuf};

use self::slot::{Progress, Slot, Work, is_passing};
use self::together::Together;
use super::{Completion, Driver, Taken, blocking};
use crate::io::failure::DiskOperation;
use crate::io::file::DataFile;
use crate::lock::lock;

const ENTRIES: u32 = 256;
/// A thread does no larger read itself: others wait for the leader, and large reads are mostly nobody's own.
const OWN_READ_BYTES_MAX: usize = 16 << 10;
/// Marks the completion of a wake-up.
const WAKE: u64 = u64::MAX;
#[derive(Default)]
struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Ends of what did not go through the ring.
    ended: Vec<Completion>,
    /// Operations of the thread for what blocks.
    elsewhere: usize,
    /// A lone write that nobody has begun: whoever waits next, or works, does it itself.
    lone: Option<(u64, DiskOp)>,
    /// Somebody is at it.
    lone_under_way: bool,
    /// Reads that nobody has begun or taken.
    reads: Vec<(u64, DiskOp)>,
    /// Reads that threads do themselves.
    here: usize,
}

pub(crate) struct Uring {
    ring: Arc<Ring>,
    together: Together,
    /// What blocks goes there. Both are there until the driver is dropped.
    blocking: Option<Sender<(u64, DiskOp)>>,
    thread: Option<JoinHandle<()>>,
}

struct Ring {
    ring: IoUring,
    file: Arc<DataFile>,
    slots: Mutex<Slots>,
    /// Guards the submission queue's tail.
    submission: Mutex<()>,
    /// Something was queued since the kernel was last told.
    unsubmitted: AtomicBool,
    /// A wake-up is on its way, and nobody has returned from `wait` since. Who waits may have to wait for a processor too, and meanwhile one is enough.
    waking: AtomicBool,
    /// Completions of wake-ups that nobody has taken.
    wake_ups: AtomicUsize,
}

impl Uring {
    pub(crate) fn new(file: Arc<DataFile>) -> io::Result<Uring> {
        let ring: IoUring = IoUring::builder().setup_clamp().build(ENTRIES)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::other("it cannot wait with a timeout"));
        }
        ring.submitter().register_files(&[file.file.as_raw_fd()])?;
        let ring = Ring {
            ring,
            file,
            slots: Mutex::default(),
            submission: Mutex::new(()),
            unsubmitted: AtomicBool::new(false),
            waking: AtomicBool::new(false),
            wake_ups: AtomicUsize::new(0),
        };
        let ring = Arc::new(ring);
        let (blocking, operations) = std::sync::mpsc::channel();
        let serving = Arc::clone(&ring);
        let thread = std::thread::Builder::new()
            .name("kvsim-grow".to_owned())
            .spawn(move || serving.serve(&operations))?;
        Ok(Uring {
            ring,
            together: Together::default(),
            blocking: Some(blocking),
            thread: Some(thread),
        })
    }

    /// Has it done on the thread for what blocks. Without that thread it fails.
    fn queue_blocking(&self, tag: u64, op: DiskOp) {
        lock(&self.ring.slots).elsewhere += 1;
        let sent = self
            .blocking
            .as_ref()
            .is_some_and(|to| to.send((tag, op)).is_ok());
        if !sent {
            self.ring.end_elsewhere(tag, Err(DiskError::Write));
        }
    }
}

impl Ring {
    fn push(&self, entry: &squeue::Entry) {
        let _guard = lock(&self.submission);
        loop {
            // SAFETY: the guard makes this the only use of the submission queue.
            let mut queue = unsafe { self.ring.submission_shared() };
            // SAFETY: the entry's memory lies in `slots`, in heap buffers that do not move, until its completion was reaped.
            if unsafe { queue.push(entry) }.is_ok() {
                drop(queue);
                self.unsubmitted.store(true, Ordering::SeqCst);
                return;
            }
            drop(queue);
            self.enter(0, None);
        }
    }

    /// Begins what is queued; waits for `want` completions.
    fn enter(&self, want: usize, timeout: Option<Duration>) {
        self.unsubmitted.store(false, Ordering::SeqCst);
        let submitter = self.ring.submitter();
        let result = match timeout {
            Some(timeout) => {
                let time = Timespec::from(timeout);
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&time))
            }
            None => submitter.submit_and_wait(want),
        };
        if let Err(error) = result {
            // It may not have taken all.
            self.unsubmitted.store(true, Ordering::SeqCst);
            // The caller looks and comes again.
            assert!(
                is_passing(&error),
                "io_uring does not take operations any more: {error}"
            );
        }
    }

    fn take_slot(&self, slot: Slot) -> squeue::Entry {
        let mut slots = lock(&self.slots);
        let index = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(None);
            slots.slots.len() - 1
        });
        self.begin(slots.slots[index].insert(slot), index)
    }

    /// The entry for what is left of it, noted if somebody records.
    fn begin(&self, slot: &mut Slot, index: usize) -> squeue::Entry {
        let entry = slot.entry(index);
        if let Some(recorder) = &self.file.recorder {
            slot.recorded = Some(recorder.begun(slot.call(&entry)));
        }
        entry
    }

    fn note_end(&self, slot: &Slot, result: i32) {
        if let (Some(recorder), Some(call)) = (&self.file.recorder, slot.recorded) {
            recorder.ended(call, u64::try_from(result).map_err(|_| -result));
        }
    }

    fn note_failure(&self, slot: &Slot, result: i32) {
        let operation = match &slot.work {
            Work::Read { .. } => return,
            Work::Write { offset, data, .. } => DiskOperation::Write {
                offset: *offset,
                len_bytes: data.len() as u64,
            },
            Work::Flush => DiskOperation::Flush,
        };
        let os_error = (result < 0).then_some(-result);
        self.file.failure.note(operation, os_error);
    }

    fn reap(&self, done: &mut Vec<Completion>) {
        let mut slots = lock(&self.slots);
        done.append(&mut slots.ended);
        let mut again = Vec::new();
        let mut wake_ups = 0;
        // SAFETY: `reap` is called by one thread at a time, and nothing else uses the completion queue.
        let completions = unsafe { self.ring.completion_shared() };
        for completion in completions {
            if completion.user_data() == WAKE {
                wake_ups += 1;
                continue;
            }
            let index = usize::try_from(completion.user_data()).expect("it is an index");
            let mut slot = slots.slots[index].take().expect("it is under way");
            self.note_end(&slot, completion.result());
            match slot.progress(completion.result()) {
                Progress::More => {
                    again.push(self.begin(slots.slots[index].insert(slot), index));
                }
                Progress::Ended(result) => {
                    if result.is_err() {
                        self.note_failure(&slot, completion.result());
                    }
                    slots.free.push(index);
                    let tag = slot.tag;
                    let result = result.map(|()| match slot.work {
                        Work::Read { buffer, .. } => Some(buffer),
                        _ => None,
                    });
                    done.push(Completion { tag, result });
                }
            }
        }
        drop(slots);
        for entry in &again {
            self.push(entry);
        }
        if wake_ups > 0 {
            self.wake_ups.fetch_sub(wake_ups, Ordering::Relaxed);
            // Whoever it was for may not sleep yet, and would not be woken.
            if self.waking.load(Ordering::SeqCst) {
                self.send_wake_up();
            }
        }
    }

    fn wake(&self) {
        if !self.waking.swap(true, Ordering::SeqCst) {
            self.send_wake_up();
        }
    }

    fn send_wake_up(&self) {
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.push(&opcode::Nop::new().build().user_data(WAKE));
        self.enter(0, None);
    }
}

impl Driver for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn queue(&self, tag: u64, op: DiskOp) {
        let mut slots = lock(&self.ring.slots);
        if matches!(op, DiskOp::Write { through: true, .. }) && slots.takes_lone() {
            slots.lone = Some((tag, op));
            return;
        }
        if let DiskOp::Read { buffer, .. } = &op
            && buffer.len() <= OWN_READ_BYTES_MAX
        {
            slots.reads.push((tag, op));
            return;
        }
        drop(slots);
        match op {
            DiskOp::Discard { .. } | DiskOp::Grow { .. } => self.queue_blocking(tag, op),
            _ => self.ring.queue(tag, op),
        }
    }

    fn start(&self) {
        let lone = lock(&self.ring.slots).lone.take();
        if let Some((tag, op)) = lone {
            self.ring.queue(tag, op);
        }
        self.ring.begin_queued();
    }

    fn work(&self) -> bool {
        let mut slots = lock(&self.ring.slots);
        let Some((tag, op)) = slots.lone.take() else {
            return false;
        };
        slots.lone_under_way = true;
        drop(slots);
        // What was queued beside it must not wait for it.
        self.ring.begin_queued();
        let result = blocking::execute(&self.ring.file, op);
        let mut slots = lock(&self.ring.slots);
        slots.lone_under_way = false;
        slots.ended.push(Completion { tag, result });
        true
    }

    fn take_read(&self) -> Option<(Taken, bool)> {
        let mut slots = lock(&self.ring.slots);
        if slots.reads.is_empty() {
            return None;
        }
        let (tag, op) = slots.reads.remove(0);
        slots.here += 1;
        let others = std::mem::take(&mut slots.reads);
        let left = slots.lone.is_some();
        drop(slots);
        others
            .into_iter()
            .for_each(|(tag, op)| self.ring.queue(tag, op));
        let left = left || self.ring.unsubmitted.load(Ordering::SeqCst);
        Some((Taken { tag, op }, left))
    }

    fn take_lone_read(&self) -> Option<Taken> {
        let mut slots = lock(&self.ring.slots);
        if slots.reads.len() != 1 || slots.lone.is_some() || !slots.is_ring_idle() {
            return None;
        }
        let (tag, op) = slots.reads.pop()?;
        slots.here += 1;
        Some(Taken { tag, op })
    }

    fn read(&self, Taken { tag, op }: Taken) {
        let result = blocking::execute(&self.ring.file, op);
        let mut slots = lock(&self.ring.slots);
        slots.here -= 1;
        slots.ended.push(Completion { tag, result });
    }

    fn read_here(&self, offset: u64, len: usize) -> Option<IoBuf> {
        blocking::read(&self.ring.file, offset, len)
    }

    fn read_all_here(&self, places: &[(u64, usize)]) -> Option<Vec<IoBuf>> {
        self.together.read(&self.ring.file, places)
    }

    fn reads_here(&self) -> bool {
        true
    }

    fn wait(&self, timeout: Option<Duration>) {
        if !lock(&self.ring.slots).ended.is_empty() {
            self.start();
        } else if !self.work() {
            self.ring.queue_reads();
            self.ring.enter(1, timeout);
        }
        self.awake();
    }

    fn wake(&self) {
        self.ring.wake();
    }

    fn awake(&self) {
        self.ring.waking.store(false, Ordering::SeqCst);
    }

    fn has_ended(&self) -> bool {
        // SAFETY: it is called as `reap` is, by one thread at a time.
        let completions = unsafe { self.ring.ring.completion_shared() };
        completions.len() > self.ring.wake_ups.load(Ordering::Relaxed)
    }

    fn reap(&self, done: &mut Vec<Completion>) {
        self.ring.reap(done);
    }
}

impl Slots {
    fn is_idle(&self) -> bool {
        let elsewhere = self.elsewhere + self.here + self.reads.len();
        self.is_ring_idle() && elsewhere == 0 && self.takes_lone()
    }

    /// Whether the kernel has nothing.
    fn is_ring_idle(&self) -> bool {
        self.slots.len() == self.free.len()
    }

    /// Whether there is no lone write. Other operations under way do not delay one. The kernel hands write-throughs to
    /// a thread of its own, which takes longer than to do it here; reads and plain writes end by themselves.
    fn takes_lone(&self) -> bool {
        self.lone.is_none() && !self.lone_under_way
    }
}

impl Ring {
    /// Leaves to the kernel the reads that nobody has taken.
    fn queue_reads(&self) {
        let reads = std::mem::take(&mut lock(&self.slots).reads);
        reads.into_iter().for_each(|(tag, op)| self.queue(tag, op));
    }

    /// Begins what was queued.
    fn begin_queued(&self) {
        self.queue_reads();
        if self.unsubmitted.load(Ordering::SeqCst) {
            self.enter(0, None);
        }
    }

    fn queue(&self, tag: u64, op: DiskOp) {
        let work = match op {
            DiskOp::Read { offset, buffer } => Work::Read { offset, buffer },
            DiskOp::Write {
                offset,
                data,
                through,
            } => {
                self.file.note_write(through);
                Work::Write {
                    offset,
                    data,
                    through,
                }
            }
            DiskOp::Flush => Work::Flush,
            DiskOp::Discard { .. } | DiskOp::Grow { .. } => unreachable!("it blocks"),
        };
        let slot = Slot {
            tag,
            work,
            done: 0,
            recorded: None,
        };
        let entry = self.take_slot(slot);
        self.push(&entry);
    }

    /// Does what blocks, one after the other, until the driver is dropped.
    fn serve(&self, operations: &Receiver<(u64, DiskOp)>) {
        for (tag, op) in operations {
            let work = AssertUnwindSafe(|| blocking::execute(&self.file, op));
            let result = catch_unwind(work).unwrap_or(Err(DiskError::Write));
            self.end_elsewhere(tag, result);
        }
    }

    fn end_elsewhere(&self, tag: u64, result: Result<Option<IoBuf>, DiskError>) {
        let mut slots = lock(&self.slots);
        slots.elsewhere -= 1;
        slots.ended.push(Completion { tag, result });
        drop(slots);
        self.wake();
    }
}

impl Drop for Uring {
    /// The kernel must be done with the buffers before they are freed.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while !lock(&self.ring.slots).is_idle() {
            self.wait(Some(Duration::from_millis(100)));
            self.reap(&mut done);
        }
        self.blocking = None;
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            debug_assert!(joined.is_ok(), "the thread for what blocks panicked");
        }
    }
}
