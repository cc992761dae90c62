//! What the threads of a database share: the engine behind its lock, and who waits for what.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Instant;

use kvsim_engine::{Engine, Nanos, Promise, ScanRange};

use super::finding::ReadsOutside;
use crate::cache::accepted::Accepted;
use crate::cache::draft::Draft;
use crate::cache::rows::{Rows, Stamp};
use crate::io::driver::{Driver, Taken};
use crate::record::Recorder;
use crate::sync::combining::Combining;
use crate::sync::effects::{Effects, IoCounts};
use crate::sync::gate::Gate;
use crate::sync::intake::Intake;
use crate::sync::waiter::{TaskCompletion, ThreadWaiter};

/// The engine, which may move between threads as a whole.
pub(super) struct Movable(pub(super) Engine);

#[expect(
    unsafe_code,
    reason = "the engine is single-threaded, the lock makes it so"
)]
// SAFETY: everything inside an engine that is not `Send` (its core behind an `Rc`, and the tasks that share it) is
// owned by that engine alone and never handed out. What leaves through the port owns its memory. So the whole engine
// can be moved, and its lock lets one thread at it at a time.
unsafe impl Send for Movable {}

/// Who waits for the disk.
#[derive(Clone)]
pub(super) enum Leader {
    Nobody,
    /// A thread that has a request under way.
    Thread(Arc<ThreadWaiter>),
    /// The database's own thread.
    Helper,
}

pub(crate) struct Inside {
    pub(super) engine: Option<Movable>,
    pub(crate) effects: Effects,
    /// When the engine wants to be called if nothing else happens.
    pub(super) wake_at: Option<Nanos>,
    pub(super) leader: Leader,
    /// The leader sleeps in the driver, until this time at most.
    pub(super) leader_sleeps: Option<Option<Nanos>>,
    /// Threads that wait for a reply and do not lead; any of them can be made the next leader.
    pub(super) waiters: Vec<Arc<ThreadWaiter>>,
    /// When the helper looks again by itself.
    pub(super) alarm: Option<Nanos>,
    pub(super) stopping: bool,
    /// The database's own thread closes, and nobody waits for it.
    pub(super) farewell: Option<Arc<TaskCompletion>>,
    /// The engine has panicked.
    pub(super) gave_up: bool,
    /// What may be accepted before the engine has it.
    pub(super) promised: Option<Promise>,
    /// Memory for what was accepted.
    pub(super) taken: Vec<Accepted>,
}

impl Inside {
    /// See [`Engine::scan_keys`].
    pub(crate) fn scan_keys(&self, range: &ScanRange<'_>, take: impl FnMut(&[u8])) -> Option<bool> {
        self.engine.as_ref()?.0.scan_keys(range, take)
    }
}

/// What a thread that waits for its reply does itself meanwhile.
pub(super) enum Work {
    None,
    /// A read.
    Read(Taken),
    /// What has to be begun, or done, alone.
    Lone,
}

/// What has to be done once the lock is let go.
#[derive(Default)]
pub(super) struct PostUnlock {
    pub(super) told: Vec<Arc<ThreadWaiter>>,
    pub(super) wakers: Vec<Waker>,
    pub(super) begin: bool,
    pub(super) wake_leader: bool,
    pub(super) call_helper: bool,
    pub(super) next: Option<Arc<ThreadWaiter>>,
}

/// What threads, tasks and the database's own thread share.
pub(crate) struct Shared {
    pub(super) recorder: Option<Recorder>,
    pub(super) inside: Mutex<Inside>,
    /// Writes that are accepted and not handed in.
    pub(super) intake: Intake,
    pub(super) combining: Combining,
    /// How many writes tasks may have under way.
    pub(crate) gate: Arc<Gate>,
    pub(super) driver: Arc<dyn Driver>,
    pub(crate) rows: Arc<Rows>,
    pub(super) began: Instant,
    /// Something happened since a leader that does not sleep last looked.
    pub(super) nudge: AtomicBool,
    /// The database's own thread.
    pub(super) helper: OnceLock<Arc<ThreadWaiter>>,
    pub(super) reads_outside: ReadsOutside,
    pub(super) wake_ups: AtomicU64,
    pub(super) turns: AtomicU64,
}

/// What happens besides the request itself.
#[derive(Default)]
pub(crate) struct Beside<'a> {
    /// The key of a read of the newest value, and when it began.
    pub(crate) fill: Option<(&'a [u8], Stamp)>,
    /// Writes, and what they make of the rows.
    pub(crate) draft: Option<&'a Draft<'a>>,
}

/// What was counted since the opening.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The engine's own.
    pub engine: kvsim_engine::Stats,
    /// What was asked of the disk.
    pub io: IoCounts,
    /// Threads that had to be woken from sleep.
    pub wake_ups: u64,
    /// Times that somebody waited for the disk.
    pub turns: u64,
}
