//! What a database is opened with.

use std::time::Duration;

use kvsim_engine::CommitMode;

use crate::api::event::{Event, Listener};
use crate::record::Recorder;

/// What "durable" means for this database. Figures of different kinds do not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// The drive's own cache is flushed too: write-through or flush on Linux, `F_FULLFSYNC` on macOS.
    #[default]
    Full,
    /// `fsync` as the platform does it. On Linux that is the same as `Full`; on macOS it stops at the drive's cache.
    Os,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Full => "full",
            Kind::Os => "os",
        })
    }
}

/// How operations reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// A pool of threads that block.
    Threads,
}

/// How to open a database: a builder, whose fields can be set as well.
///
/// ```
/// use std::time::Duration;
/// use kvsim_native::{Kind, OpenOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("database");
/// let database = OpenOptions::new()
///     .size_bytes(64 << 20)
///     .cache_bytes(32 << 20)
///     .kind(Kind::Full)
///     .relaxed_window(Duration::from_millis(10))
///     .open(&path)?;
/// # drop(database);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An option of the engine that is out of its range is refused when the database is opened, by its name.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// What "durable" means.
    pub kind: Kind,
    /// How operations reach the disk.
    pub driver: DriverChoice,
    /// Size of a new file, which is written in full at once; later it grows by itself. Ignored for a block device.
    pub size_bytes: u64,
    /// The file grows no further than this; 0: as far as the file system has room.
    pub max_bytes: u64,
    /// Bound of the cache of values by key.
    pub cache_bytes: u64,
    /// Take the caller's word that the drive's cache survives a power cut, so that no flush is needed.
    pub assume_power_loss_protection: bool,
    /// Read only: see [`OpenOptions::read_only`].
    pub read_only: bool,
    /// The engine's own options as `name=value` lines. Of two lines with one name the later counts.
    pub engine: String,
    /// Who is told of events: see [`OpenOptions::on_event`].
    pub on_event: Option<Listener>,
    /// Notes everything that is asked of the kernel. For tests: it keeps a copy of every byte that is written.
    #[cfg(feature = "record")]
    pub recorder: Option<Recorder>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            kind: Kind::Full,
            driver: DriverChoice::Auto,
            size_bytes: 256 << 20,
            max_bytes: 0,
            cache_bytes: 256 << 20,
            assume_power_loss_protection: false,
            read_only: false,
            engine: String::new(),
            on_event: None,
            #[cfg(feature = "record")]
            recorder: None,
        }
    }
}

impl OpenOptions {
    /// All options at their defaults.
    #[must_use]
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// What "durable" means for this database; [`Kind::Full`] unless it is said.
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> OpenOptions {
        self.kind = kind;
        self
    }

    /// How operations reach the disk; [`DriverChoice::Auto`] unless it is said.
    #[must_use]
    pub fn driver(mut self, driver: DriverChoice) -> OpenOptions {
        self.driver = driver;
        self
    }

    /// Size of a new file in bytes, 256 MiB unless it is said. It is written in full at once; later it grows by itself. Ignored for a block device.
    #[must_use]
    pub fn size_bytes(mut self, bytes: u64) -> OpenOptions {
        self.size_bytes = bytes;
        self
    }

    /// The file grows no further than this; 0, the default: as far as the file system has room.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> OpenOptions {
        self.max_bytes = bytes;
        self
    }

    /// Bound of the keys and values that are kept in memory, 256 MiB unless it is said; 0: none are. With [`OpenOptions::index_bytes`] they also have what the index leaves of that.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> OpenOptions {
        self.cache_bytes = bytes;
        self
    }

    /// Whether you give your word that the drive's cache survives a power cut, so that no flush is needed.
    #[must_use]
    pub fn assume_power_loss_protection(mut self, assume: bool) -> OpenOptions {
        self.assume_power_loss_protection = assume;
        self
    }

    /// Whether the database is only read. Then its file has to exist, and is left as it is, every byte of it: what an opening has to repair after a crash is repaired in
    /// memory. Any number of processes may read a database at once, and nobody can open it to write meanwhile. Writes are refused with
    /// [`Status::ReadOnly`](crate::Status::ReadOnly).
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> OpenOptions {
        self.read_only = read_only;
        self
    }

    /// Has this function told of what happens in the database: see [`Event`] for what that is.
    ///
    /// It is called on a thread of its own, one event after the other in the order in which they happened, and a little later than that. So it may take its time, panic, and use
    /// the database. While it is slower than events come, the oldest 1,024 to 2,048 wait for it, and of what comes then it is told how much it missed. The last event, [`Event::Closed`]
    /// or [`Event::GaveUp`], may come after [`Database::close`](crate::Database::close) has returned. A function that keeps a handle of the database keeps it open, unless it is closed.
    ///
    /// ```
    /// use kvsim_native::{Event, OpenOptions};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("database");
    /// let (sender, events) = std::sync::mpsc::channel();
    /// let database = OpenOptions::new()
    ///     .size_bytes(16 << 20)
    ///     .on_event(move |event| drop(sender.send(event)))
    ///     .open(&path)?;
    /// database.close()?;
    /// let all: Vec<Event> = events.iter().collect();
    /// assert!(matches!(all.first(), Some(Event::Opened { cut_tail: false, .. })));
    /// assert_eq!(all.last(), Some(&Event::Closed { clean: true }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_event(mut self, tell: impl Fn(Event) + Send + Sync + 'static) -> OpenOptions {
        self.on_event = Some(Listener::new(tell));
        self
    }

    /// Notes everything that is asked of the kernel. For tests: it keeps a copy of every byte that is written.
    #[cfg(feature = "record")]
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> OpenOptions {
        self.recorder = Some(recorder);
        self
    }

    /// Size of a segment of a new database: a power of two from 16 KiB to 64 MiB; 1 MiB unless it is said.
    #[must_use]
    pub fn segment_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("segment_bytes", bytes)
    }

    /// Log written between two checkpoints, at least: 4 KiB to 1 TiB; 512 MiB unless it is said. The more, the longer an opening.
    #[must_use]
    pub fn checkpoint_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("checkpoint_bytes", bytes)
    }

    /// Bound of the bytes that are accepted and not durable yet: 4 KiB to 1 TiB; 8 MiB unless it is said.
    #[must_use]
    pub fn write_buffer_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("write_buffer_bytes", bytes)
    }

    /// A frame of the log is closed when it reaches this size: 4 KiB to 64 MiB; 1 MiB unless it is said.
    #[must_use]
    pub fn frame_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("frame_bytes", bytes)
    }

    /// Values up to this size are kept in the index: 0 to 1,024 bytes; unless it is said 192, or 32 where `index_bytes` is set.
    #[must_use]
    pub fn inline_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("inline_bytes", bytes)
    }

    /// Values above this size are kept in extents: 1 KiB to 16 MiB; 128 KiB unless it is said.
    #[must_use]
    pub fn large_value_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("large_value_bytes", bytes)
    }

    /// Larger values are refused: 1 byte to 64 MiB; 16 MiB unless it is said.
    #[must_use]
    pub fn max_value_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("max_value_bytes", bytes)
    }

    /// How commits become durable. Unless it is said, what suits the device.
    #[must_use]
    pub fn commit(self, mode: CommitMode) -> OpenOptions {
        let name = match mode {
            CommitMode::Auto => "auto",
            CommitMode::Flush => "flush",
            CommitMode::WriteThrough => "write_through",
        };
        self.engine_option("commit", name)
    }

    /// Frames in flight where commits are written through: 1 to 64. Unless it is said, what suits the device.
    #[must_use]
    pub fn commit_depth(self, frames: u64) -> OpenOptions {
        self.engine_option("commit_depth", frames)
    }

    /// How long a group of commits waits for others: at most a second; `None`, the default: that adapts.
    #[must_use]
    pub fn group_wait(self, wait: Option<Duration>) -> OpenOptions {
        match wait {
            Some(wait) => self.engine_option("group_wait", wait.as_nanos()),
            None => self.engine_option("group_wait", "auto"),
        }
    }

    /// Relaxed writes are durable within this time: at most an hour; 50 ms unless it is said.
    #[must_use]
    pub fn relaxed_window(self, window: Duration) -> OpenOptions {
        self.engine_option("relaxed_window_ns", window.as_nanos())
    }

    /// The share of the space that live data may fill, in percent: 10 to 90; 85 unless it is said. The more, the more is written again.
    #[must_use]
    pub fn usable_percent(self, percent: u64) -> OpenOptions {
        self.engine_option("usable_percent", percent)
    }

    /// Live data beyond this share of the present size makes the file grow, in percent: 5 to 90; 80 unless it is said.
    #[must_use]
    pub fn grow_percent(self, percent: u64) -> OpenOptions {
        self.engine_option("grow_percent", percent)
    }

    /// Memory for the entries of the index, bytes, at most 1 TiB; 0 unless it is said, and then all of them are in memory. Those that do not fit are read from the file when they
    /// are asked for. What entries do not take of it, keys and values have beside [`OpenOptions::cache_bytes`].
    #[must_use]
    pub fn index_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("index_bytes", bytes)
    }

    /// An opening loads an index of up to so many bytes in the file before it returns, and a larger one behind that, while reads and writes go on: at most 1 TiB; 64 MiB unless it
    /// is said. A key takes about a microsecond. [`Event::IndexLoaded`](crate::Event::IndexLoaded) says when it is.
    #[must_use]
    pub fn load_first_bytes(self, bytes: u64) -> OpenOptions {
        self.engine_option("load_first_bytes", bytes)
    }

    /// Whether an idle engine records what is durable, so that the next opening has less to prove; it does unless it is said.
    #[must_use]
    pub fn durable_mark(self, record: bool) -> OpenOptions {
        self.engine_option("durable_mark", if record { "on" } else { "off" })
    }

    fn engine_option(mut self, name: &str, value: impl std::fmt::Display) -> OpenOptions {
        if !self.engine.is_empty() && !self.engine.ends_with('\n') {
            self.engine.push('\n');
        }
        self.engine.push_str(&format!("{name}={value}\n"));
        self
    }

    /// Who notes everything, if anybody does.
    pub(crate) fn noting(&self) -> Option<Recorder> {
        #[cfg(feature = "record")]
        return self.recorder.clone();
        #[cfg(not(feature = "record"))]
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_engine::{OPTIONS, Options};

    /// Goal: every option of the engine can be set, and arrives as it was meant. Method: all are set to what is no default; the table of options has no other, but for the
    /// engine's own cache, which is off here.
    #[test]
    fn options_of_the_engine_arrive() {
        let mut options = OpenOptions::new();
        options.engine = "commit_depth=1".to_owned();
        let options = options
            .segment_bytes(1 << 16)
            .checkpoint_bytes(1 << 22)
            .write_buffer_bytes(1 << 21)
            .frame_bytes(1 << 15)
            .inline_bytes(7)
            .large_value_bytes(5000)
            .max_value_bytes(6000)
            .commit(CommitMode::WriteThrough)
            .commit_depth(3)
            .group_wait(Some(Duration::from_micros(5)))
            .relaxed_window(Duration::from_millis(2))
            .usable_percent(55)
            .grow_percent(44)
            .index_bytes(1 << 30)
            .load_first_bytes(77)
            .durable_mark(false);
        let set = Options::parse(&options.engine).expect("all are in their ranges");
        let seen = (
            [
                set.segment_bytes,
                set.checkpoint_bytes,
                set.write_buffer_bytes,
                set.frame_bytes,
            ],
            [
                set.inline_bytes,
                set.large_value_bytes,
                set.max_value_bytes,
                set.commit_depth,
            ],
            (set.commit, set.group_wait_ns, set.relaxed_window_ns),
            (set.usable_percent, set.grow_percent, set.durable_mark),
            (set.index_bytes, set.load_first_bytes),
        );
        let expected = (
            [1 << 16, 1 << 22, 1 << 21, 1 << 15],
            [7, 5000, 6000, 3],
            (CommitMode::WriteThrough, Some(5000), 2_000_000),
            (55, 44, false),
            (1 << 30, 77),
        );
        assert_eq!(seen, expected);
        for option in OPTIONS.iter().filter(|option| option.name != "cache_bytes") {
            let line = format!("{}=", option.name);
            assert!(options.engine.contains(&line), "{}", option.name);
        }
        let modes = [CommitMode::Auto, CommitMode::Flush].map(|mode| {
            let options = OpenOptions::new()
                .commit(mode)
                .group_wait(None)
                .durable_mark(true);
            let set = Options::parse(&options.engine).expect("all are in their ranges");
            (set.commit, set.group_wait_ns, set.durable_mark)
        });
        assert_eq!(
            modes,
            [
                (CommitMode::Auto, None, true),
                (CommitMode::Flush, None, true)
            ]
        );
    }
}
