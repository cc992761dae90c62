//! A recording: everything that the drivers ask of the kernel, and every request and answer of callers, in one order.
//!
//! A recording is made where the kernel is called, not where the engine asks. So a driver that forgot a flush, cut a
//! write short or acknowledged too early would be recorded as it is. What is on the disk at any moment follows by the
//! rules of a device with a volatile cache. So power cuts can be tried on the recording that cannot be tried on the
//! machine.
//!
//! Invariants, whatever the threads do:
//! - a call is noted as begun before the kernel is told of it. It is noted as ended after the kernel has said so, and
//!   before the engine is told;
//! - a request is noted as handed in before the engine sees it, and as answered before its caller does. Both are noted
//!   with the engine's lock held, so that the order of requests is the order in which they take effect.
//!
//! So whatever a real crash could have found is among what the recording allows at the same place.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use kvsim_engine::{Config, Durability, Mutation, Reply, Request, RequestId, Status};

use crate::lock::lock;

/// Names a call to the kernel within a recording.
pub type CallId = u64;

/// Notes what happens to a database while it is open. Clones note into the same recording; one recorder is for one opening.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    began: Instant,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    events: Vec<Event>,
    calls: CallId,
}

/// Something that happened.
#[derive(Debug, Clone)]
pub struct Event {
    /// When, in nanoseconds since the recorder was made. The order is that of the events, not of this.
    pub at_ns: u64,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum What {
    /// The kernel is about to be asked.
    Begun(CallId, Call),
    /// The kernel has answered: so many bytes were transferred, or an error number.
    Ended(CallId, Result<u64, i32>),
    /// The engine begins to open what is in the file.
    Opening(Config),
    /// A caller asks for something.
    HandedIn(RequestId, Asked),
    /// A request is answered, the opening being request 0. Numbers are used again after that.
    Answered(RequestId, Result<(), Status>),
}

/// A call to the kernel.
#[derive(Debug, Clone)]
pub enum Call {
    /// Read.
    Read {
        /// Where.
        offset: u64,
        /// How much.
        len_bytes: u64,
    },
    /// Write, beyond the end too.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Arc<[u8]>,
        /// Durable when it ends (`RWF_DSYNC`).
        through: bool,
    },
    /// `fdatasync`, `fsync` or `F_FULLFSYNC`: what has ended before is durable when this ends.
    Flush,
    /// The file becomes longer, if it is shorter; what is added reads as zeroes.
    Grow {
        /// Its new length.
        new_bytes: u64,
    },
    /// The file gets its name, which until then no file had.
    Rename,
    /// The directory's own flush: the file's name is durable.
    FlushDirectory,
}

impl Call {
    fn len_bytes(&self) -> u64 {
        match self {
            Call::Read { len_bytes, .. } => *len_bytes,
            Call::Write { data, .. } => data.len() as u64,
            Call::Flush | Call::Grow { .. } | Call::Rename | Call::FlushDirectory => 0,
        }
    }
}

/// What a caller asked for.
#[derive(Debug, Clone)]
pub enum Asked {
    /// To write all of this or nothing; a key without a value is deleted.
    Write {
        /// In order.
        changes: Vec<Change>,
        /// When it may be acknowledged.
        durability: Durability,
    },
    /// To make everything durable.
    Sync,
    /// The same, and then to end.
    Close,
    /// Something that changes nothing.
    Read,
}

/// One write of a batch.
#[derive(Debug, Clone)]
pub struct Change {
    /// The key.
    pub key: Box<[u8]>,
    /// Its new value; `None` if it is deleted.
    pub value: Option<Box<[u8]>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} events)", self.inside().events.len())
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder::new()
    }
}

impl Recorder {
    /// An empty recording.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "what a real disk does happens in real time"
    )]
    pub fn new() -> Recorder {
        Recorder(Arc::new(Inner {
            began: Instant::now(),
            inside: Mutex::default(),
        }))
    }

    /// Takes what was recorded so far.
    #[must_use]
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.inside().events)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        lock(&self.0.inside)
    }

    fn note(&self, inside: &mut Inside, what: What) {
        let at_ns = u64::try_from(self.0.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        inside.events.push(Event { at_ns, what });
    }

    /// The kernel is about to be asked.
    pub(crate) fn begun(&self, call: Call) -> CallId {
        let mut inside = self.inside();
        inside.calls += 1;
        let id = inside.calls;
        self.note(&mut inside, What::Begun(id, call));
        id
    }

    /// The kernel has answered.
    pub(crate) fn ended(&self, call: CallId, result: Result<u64, i32>) {
        self.note(&mut self.inside(), What::Ended(call, result));
    }

    pub(crate) fn opening(&self, config: &Config) {
        self.note(&mut self.inside(), What::Opening(config.clone()));
    }

    pub(crate) fn handed_in(&self, id: RequestId, request: &Request<'_>) {
        let asked = match request {
            Request::Write {
                mutations,
                durability,
            } => Asked::Write {
                changes: mutations.iter().map(change).collect(),
                durability: *durability,
            },
            Request::Sync => Asked::Sync,
            Request::Close => Asked::Close,
            Request::Get { .. }
            | Request::Scan(_)
            | Request::Know(_)
            | Request::Snapshot
            | Request::Release { .. } => Asked::Read,
        };
        self.note(&mut self.inside(), What::HandedIn(id, asked));
    }

    pub(crate) fn answered(&self, id: RequestId, reply: &Reply) {
        let outcome = match reply {
            Reply::Failed(status, _) => Err(*status),
            _ => Ok(()),
        };
        self.note(&mut self.inside(), What::Answered(id, outcome));
    }
}

fn change(mutation: &Mutation<'_>) -> Change {
    Change {
        key: mutation.key().into(),
        value: match mutation {
            Mutation::Put { value, .. } => Some((*value).into()),
            Mutation::Delete { .. } => None,
        },
    }
}

/// Calls the kernel, and notes it if somebody records. A call that fails may have done any part of what it was to do.
pub(crate) fn noted<T>(
    recorder: Option<&Recorder>,
    call: impl FnOnce() -> Call,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(recorder) = recorder else {
        return act();
    };
    let call = call();
    let len_bytes = call.len_bytes();
    let id = recorder.begun(call);
    let result = act();
    let ended = match &result {
        Ok(_) => Ok(len_bytes),
        Err(error) => Err(error.raw_os_error().unwrap_or(0)),
    };
    recorder.ended(id, ended);
    result
}
