//! What happens in a database that whoever embeds it may want to be told of.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use kvsim_engine::StallReason;

use crate::io::failure::DiskFailure;

/// Something that happened in an open database: see [`OpenOptions::on_event`](crate::OpenOptions::on_event).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The database is open. The first event.
    Opened {
        /// How long the opening took, the creation of a new file and waiting for its lock included.
        took: Duration,
        /// Bytes of the log behind the last checkpoint that were read and applied.
        replayed_bytes: u64,
        /// Frames of the log that these were.
        replayed_frames: u64,
        /// Whether the end of the log was torn, as a crash leaves it, and was cut off. Nothing that was acknowledged as durable was in it.
        cut_tail: bool,
        /// Bytes that were written anew, since nothing stated that they were durable.
        rewritten_bytes: u64,
    },
    /// A checkpoint begins. It goes on beside reads and writes.
    CheckpointBegan,
    /// The checkpoint has ended.
    CheckpointEnded {
        /// Whether it counts; otherwise there was no room for it, or the disk failed, and the one before still counts.
        published: bool,
        /// Bytes that it wrote; 0 if it does not count.
        written_bytes: u64,
        /// How long it took.
        took: Duration,
    },
    /// Requests wait from here on, in their order: writes, and what came after them.
    StallBegan {
        /// What the first of them waits for.
        reason: StallReason,
    },
    /// No request waits any more.
    StallEnded {
        /// How long requests waited.
        took: Duration,
    },
    /// Garbage collection has come to an end, for now.
    Collected {
        /// Segments that it emptied.
        segments: u64,
        /// Bytes of live data that it wrote anew for that.
        moved_bytes: u64,
        /// It gained less than is wanted: writes go on faster than space is made, or little can be gained any more. Writes may wait soon, and the file may grow.
        fell_behind: bool,
    },
    /// The file is longer.
    Grew {
        /// Its bytes that are used now.
        len_bytes: u64,
    },
    /// The file could not be made longer: the file system is full, or `max_bytes` is reached. It is tried again later.
    NotGrown,
    /// The disk failed, or a part of the index cannot be read. No writes are taken until the database is opened anew; what was acknowledged as durable is there.
    BecameReadOnly {
        /// The operation that failed first, with what the system said; `None` if the system said nothing.
        failure: Option<DiskFailure>,
    },
    /// All of the index is loaded, which an opening does not wait for where it is large ([`OpenOptions::load_first_bytes`](crate::OpenOptions::load_first_bytes)). Checkpoints and
    /// garbage collection have waited for it.
    IndexLoaded {
        /// Keys that there are.
        keys: u64,
        /// How long it took behind the opening.
        took: Duration,
    },
    /// Something on the disk is not what was written.
    Damaged {
        /// The key whose value cannot be read; `None` if the damage was met by garbage collection, which then leaves the segment as it is.
        key: Option<Box<[u8]>>,
        /// Where in the file, in bytes.
        offset: u64,
        /// What is wrong there, in a sentence.
        what: String,
    },
    /// The engine has panicked and was given up: all requests are refused until the database is opened anew. The last event.
    GaveUp,
    /// The database is closed. The last event.
    Closed {
        /// Whether everything is durable.
        clean: bool,
    },
    /// So many events are missing here: the listener was slower than they came.
    Missed {
        /// How many.
        count: u64,
    },
}

/// Who is told of events: a function that takes an [`Event`].
///
/// ```
/// let (sender, events) = std::sync::mpsc::channel();
/// let listener = kvsim_native::Listener::new(move |event| {
///     // If nobody receives any more, nobody wants to know.
///     let _ = sender.send(event);
/// });
/// # drop((listener, events));
/// ```
#[derive(Clone)]
pub struct Listener(Arc<dyn Fn(Event) + Send + Sync>);

impl Listener {
    /// This function is told.
    pub fn new(tell: impl Fn(Event) + Send + Sync + 'static) -> Listener {
        Listener(Arc::new(tell))
    }

    pub(crate) fn tell(&self, event: Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
