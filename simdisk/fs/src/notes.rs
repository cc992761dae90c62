//! What a host may note of calls: each with its arguments, each step, and what it has told of the files.

use std::fmt;
use std::sync::Arc;

use crate::Errno;
use crate::tree::directory::Name;
use crate::tree::node::Ino;

/// What has just happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepNote {
    /// A step became pending.
    Pending {
        /// The call.
        op: u64,
        /// The step.
        step: u64,
    },
    /// A sync has begun and has made nothing durable yet.
    SyncBegins {
        /// The call.
        op: u64,
        /// The number of the sync, from 0.
        sync: u64,
        /// The file or directory.
        ino: Ino,
    },
    /// Steps became durable, or were given up.
    Synced {
        /// The call.
        op: u64,
        /// How many steps became durable.
        durable: u64,
        /// How many a failed sync gave up.
        dropped: u64,
    },
}

/// What was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of the calls")]
pub enum CallKind {
    Open,
    Close,
    Read,
    Write,
    Seek,
    Sync,
    SetSize,
    Allocate,
    Stat,
    SetTimes,
    CreateDirectory,
    RemoveDirectory,
    Unlink,
    Rename,
    Link,
    Symlink,
    ReadLink,
    ReadDirectory,
    Duplicate,
}

impl CallKind {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CallKind::Open => "open",
            CallKind::Close => "close",
            CallKind::Read => "read",
            CallKind::Write => "write",
            CallKind::Seek => "seek",
            CallKind::Sync => "sync",
            CallKind::SetSize => "set_size",
            CallKind::Allocate => "allocate",
            CallKind::Stat => "stat",
            CallKind::SetTimes => "set_times",
            CallKind::CreateDirectory => "create_directory",
            CallKind::RemoveDirectory => "remove_directory",
            CallKind::Unlink => "unlink",
            CallKind::Rename => "rename",
            CallKind::Link => "link",
            CallKind::Symlink => "symlink",
            CallKind::ReadLink => "read_link",
            CallKind::ReadDirectory => "read_directory",
            CallKind::Duplicate => "duplicate",
        }
    }
}

/// A call, as a host names it to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpNote {
    /// Its number.
    pub op: u64,
    /// What was called.
    pub kind: CallKind,
    /// The file or directory that it was about, if it exists. For an open, what was opened.
    pub ino: Option<Ino>,
    /// The path, from the root.
    pub path: Arc<str>,
    /// The other path of a rename or a link, from the root; the target of a symbolic link.
    pub other: Option<Arc<str>>,
    /// The offset of a read or write, the new size of a `set_size`.
    pub offset: u64,
    /// The bytes that were asked for.
    pub len: u64,
    /// The number of the sync, if it is one.
    pub sync: Option<u64>,
    /// Whether what was synced is a directory.
    pub is_directory: bool,
    /// How it ended.
    pub error: Option<Errno>,
}

impl fmt::Display for OpNote {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpNote {
            kind,
            path,
            offset,
            len,
            ..
        } = self;
        write!(to, "{} {path}", kind.name())?;
        if let Some(other) = &self.other {
            write!(to, " {other}")?;
        }
        match kind {
            CallKind::Read | CallKind::Write | CallKind::Allocate => {
                write!(to, ", {len} bytes at {offset}")?;
            }
            CallKind::SetSize => write!(to, " to {offset} bytes")?,
            _ => {}
        }
        match self.error {
            Some(error) => write!(to, ": {}", error.name()),
            None => Ok(()),
        }
    }
}

/// Something that a call has told of the files as they were.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Observation {
    /// What a name refers to, or that it refers to nothing.
    Name {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Name,
    },
    /// All names of a directory and what they refer to.
    Listing {
        /// The directory.
        directory: Ino,
    },
    /// Kind, size, links, times and target of an inode.
    Attributes {
        /// The inode.
        ino: Ino,
    },
    /// The bytes of pages.
    Content {
        /// The file.
        ino: Ino,
        /// The first page.
        start: u64,
        /// The page after the last.
        end: u64,
    },
}
