//! Open files: descriptors, and the open-file descriptions behind them.
//!
//! Invariants: descriptor 0 is the root directory, always; a description stays as long as a descriptor refers to it, whatever becomes of the names.

use std::sync::Arc;

use crate::Errno;
use crate::tree::node::{Ino, ROOT};

/// A descriptor: a number that refers to an open-file description.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

/// The root directory, always open.
pub const ROOT_FD: Fd = Fd(0);

/// How a file is opened. All false opens what exists, and neither reads nor writes it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct OpenHow {
    /// To be read.
    pub read: bool,
    /// To be written.
    pub write: bool,
    /// Every write goes to the end of the file.
    pub append: bool,
    /// It is created if it does not exist.
    pub create: bool,
    /// With `create`: it must not exist.
    pub exclusive: bool,
    /// Its size is set to 0.
    pub truncate: bool,
    /// It must be a directory.
    pub directory: bool,
    /// A symbolic link in the last place is an error.
    pub no_follow: bool,
}

impl OpenHow {
    /// To be read.
    pub const READ: OpenHow = OpenHow {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
        no_follow: false,
    };
    /// To be read and written.
    pub const READ_WRITE: OpenHow = OpenHow {
        write: true,
        ..OpenHow::READ
    };
    /// To be read and written, and created if it does not exist.
    pub const CREATE: OpenHow = OpenHow {
        create: true,
        ..OpenHow::READ_WRITE
    };
    /// A directory.
    pub const DIRECTORY: OpenHow = OpenHow {
        directory: true,
        ..OpenHow::READ
    };
}

/// An open-file description.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) ino: Ino,
    pub(crate) offset: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    /// Its size was set to 0 through this description or when it was opened, and the file had data.
    pub(crate) truncated: bool,
    /// What the next sync through this description reports.
    pub(crate) error: Option<Errno>,
    /// How many descriptors refer to it.
    count: u32,
}

impl Open {
    pub(crate) fn new(ino: Ino, how: &OpenHow) -> Self {
        Open {
            ino,
            offset: 0,
            read: how.read,
            write: how.write,
            append: how.append,
            truncated: false,
            error: None,
            count: 0,
        }
    }
}

/// All of them.
#[derive(Debug, Clone)]
pub(crate) struct Descriptors(Arc<Tables>);

#[derive(Debug, Clone)]
struct Tables {
    /// The description of each descriptor.
    slots: Vec<Option<u32>>,
    descriptions: Vec<Option<Open>>,
    open: u32,
}

impl Descriptors {
    /// The root directory alone.
    pub(crate) fn new() -> Self {
        let mut descriptors = Descriptors(Arc::new(Tables {
            slots: Vec::new(),
            descriptions: Vec::new(),
            open: 0,
        }));
        let root = Open::new(ROOT, &OpenHow::DIRECTORY);
        let fd = descriptors.open(root);
        assert_eq!(fd, ROOT_FD, "the root directory is the first");
        descriptors
    }

    /// How many descriptors are open beside the root's.
    pub(crate) fn len(&self) -> u32 {
        self.0.open - 1
    }

    fn description(&self, fd: Fd) -> Result<u32, Errno> {
        let slot = self.0.slots.get(fd.0 as usize).copied().flatten();
        slot.ok_or(Errno::BadDescriptor)
    }

    pub(crate) fn get(&self, fd: Fd) -> Result<&Open, Errno> {
        let at = self.description(fd)? as usize;
        Ok(self.0.descriptions[at].as_ref().expect("it has a slot"))
    }

    pub(crate) fn get_mut(&mut self, fd: Fd) -> Result<&mut Open, Errno> {
        let at = self.description(fd)? as usize;
        let descriptions = &mut Arc::make_mut(&mut self.0).descriptions;
        Ok(descriptions[at].as_mut().expect("it has a slot"))
    }

    /// Gives a description the lowest free descriptor.
    pub(crate) fn open(&mut self, open: Open) -> Fd {
        let tables = Arc::make_mut(&mut self.0);
        let at = first_free(&mut tables.descriptions);
        tables.descriptions[at] = Some(open);
        self.refer(u32::try_from(at).expect("few are open"))
    }

    fn refer(&mut self, description: u32) -> Fd {
        let tables = Arc::make_mut(&mut self.0);
        let slot = first_free(&mut tables.slots);
        tables.slots[slot] = Some(description);
        tables.open += 1;
        let open = tables.descriptions[description as usize].as_mut();
        open.expect("it is open").count += 1;
        Fd(u32::try_from(slot).expect("few are open"))
    }

    /// One more descriptor for the same description.
    pub(crate) fn duplicate(&mut self, fd: Fd) -> Result<Fd, Errno> {
        let description = self.description(fd)?;
        Ok(self.refer(description))
    }

    /// Closes a descriptor. Gives the description if it was the last.
    pub(crate) fn close(&mut self, fd: Fd) -> Result<Option<Open>, Errno> {
        let at = self.description(fd)? as usize;
        if fd == ROOT_FD {
            return Err(Errno::BadDescriptor);
        }
        let tables = Arc::make_mut(&mut self.0);
        tables.slots[fd.0 as usize] = None;
        tables.open -= 1;
        let open = tables.descriptions[at].as_mut().expect("it has a slot");
        open.count -= 1;
        Ok(if open.count == 0 {
            tables.descriptions[at].take()
        } else {
            None
        })
    }

    /// Lets `to` be what `from` was, and `from` nothing. `to` must be closed.
    pub(crate) fn renumber(&mut self, from: Fd, to: Fd) {
        let slots = &mut Arc::make_mut(&mut self.0).slots;
        let description = slots[from.0 as usize].take();
        slots[to.0 as usize] = description;
    }

    /// Lets the next sync through each description of an inode report an error, `but` for one.
    pub(crate) fn report(&mut self, ino: Ino, error: Errno, but: Option<Fd>) {
        let but = but.and_then(|fd| self.description(fd).ok());
        let descriptions = &mut Arc::make_mut(&mut self.0).descriptions;
        for (at, open) in descriptions.iter_mut().enumerate() {
            if let Some(open) = open.as_mut().filter(|open| open.ino == ino)
                && but.is_none_or(|but| but as usize != at)
            {
                open.error = Some(error);
            }
        }
    }

    /// Whether an error is still to be reported by a sync.
    pub(crate) fn has_errors(&self) -> bool {
        let mut all = self.0.descriptions.iter().flatten();
        all.any(|open| open.error.is_some())
    }

    /// Whether a description of this inode is open.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        let mut all = self.0.descriptions.iter().flatten();
        all.any(|open| open.ino == ino)
    }
}

fn first_free<T>(slots: &mut Vec<Option<T>>) -> usize {
    match slots.iter().position(Option::is_none) {
        Some(at) => at,
        None => {
            slots.push(None);
            slots.len() - 1
        }
    }
}
