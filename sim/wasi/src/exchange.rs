//! One message and its answer as values, and the line on which a command and the host pass them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kvsim_crash::Nanos;
use kvsim_fs::FileSystem;
use kvsim_sim::{GuestError, Outbox, TracedCall};

use crate::clock::Told;
use crate::stdin::Mailbox;

/// What one message came to.
pub(crate) struct Ended {
    /// The answer, or why there is none.
    pub(crate) answer: Result<Vec<u8>, GuestError>,
    /// Steps and log lines, in order.
    pub(crate) out: Outbox,
    pub(crate) fuel: u64,
    pub(crate) elapsed_ns: Nanos,
}

/// When a message is handed in.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct When {
    /// The world's time.
    pub(crate) now: Nanos,
    /// Nothing is asked: the engine is given time.
    pub(crate) is_idle: bool,
}

/// What the fiber and the host say to each other beside the messages.
#[derive(Default)]
pub(crate) struct Exchange {
    /// When the message was handed in that came last.
    pub(crate) when: When,
    /// What the message before the wait came to, without its answer.
    pub(crate) ended: Option<Ended>,
    pub(crate) told: Told,
    pub(crate) traced: BTreeMap<u64, TracedCall>,
    pub(crate) files: Option<FileSystem>,
}

/// The fiber's side and the host's side of one command.
#[derive(Clone, Default)]
pub(crate) struct Line {
    pub(crate) mailbox: Mailbox,
    exchange: Arc<Mutex<Exchange>>,
}

impl Line {
    pub(crate) fn with<R>(&self, does: impl FnOnce(&mut Exchange) -> R) -> R {
        does(&mut self.exchange.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
