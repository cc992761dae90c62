//! Opening and closing, descriptors, and listing directories.

use std::sync::Arc;

use crate::descriptors::{Open, ROOT_FD};
use crate::file_system::Call;
use crate::notes::{CallKind, Observation};
use crate::path::{Follow, Found, Last};
use crate::step::EntryChange;
use crate::tree::directory::{Directory, Name};
use crate::tree::node::{Body, Content, FileKind, Ino, Node, Times};
use crate::{Errno, Fd, FileSystem, OpenHow};

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Where the listing goes on behind it.
    pub next_cookie: u64,
    /// The number of the inode, as [`Stat`](crate::Stat) has it.
    pub ino: u64,
    /// What it is.
    pub kind: FileKind,
    /// Its name.
    pub name: Arc<[u8]>,
}

impl FileSystem {
    /// Opens a file or directory.
    ///
    /// # Errors
    /// Those of `openat`; `TooManyFiles` beyond the configured number.
    pub fn open(&mut self, at: Fd, path: &[u8], how: &OpenHow) -> Result<Fd, Errno> {
        self.call(Call::at(CallKind::Open, at, path), |files, op| {
            files.open_at(op, at, path, how)
        })
    }

    fn open_at(&mut self, op: u64, at: Fd, path: &[u8], how: &OpenHow) -> Result<Fd, Errno> {
        if how.create && how.directory {
            return Err(Errno::Invalid);
        }
        if self.descriptors.len() >= self.config.open_files_max {
            return Err(Errno::TooManyFiles);
        }
        let follow = match (how.create, how.no_follow) {
            (true, no_follow) => Follow::Create {
                follow: !no_follow && !how.exclusive,
            },
            (false, true) => Follow::IfSlash,
            (false, false) => Follow::Always,
        };
        let found = self.find(at, path, follow)?;
        let Some(ino) = found.ino else {
            if !how.create {
                return Err(Errno::NoEntry);
            }
            let ino = self.create(op, &found, Body::File(Content::default()))?;
            return Ok(self.descriptors.open(Open::new(ino, how)));
        };
        if how.create && how.exclusive {
            return Err(Errno::Exists);
        }
        self.observe(Observation::Attributes { ino });
        match self.live.node(ino).kind() {
            FileKind::Directory if how.create || how.write || how.truncate => {
                return Err(Errno::IsDirectory);
            }
            FileKind::Symlink if how.directory => return Err(Errno::NotDirectory),
            FileKind::Symlink => return Err(Errno::Loop),
            FileKind::File if how.directory => return Err(Errno::NotDirectory),
            FileKind::Directory | FileKind::File => {}
        }
        let mut open = Open::new(ino, how);
        if how.truncate {
            open.truncated = self.live.node(ino).file().is_some_and(|it| it.size > 0);
            self.resize(op, ino, 0);
        }
        Ok(self.descriptors.open(open))
    }

    /// Makes an inode with a name.
    pub(crate) fn create(&mut self, op: u64, found: &Found, body: Body) -> Result<Ino, Errno> {
        let Last::Name(name) = &found.last else {
            return Err(Errno::Exists);
        };
        let name = Name::clone(name);
        // A directory that was removed while it was open takes nothing any more.
        if self.live.node(found.directory).links == 0 {
            return Err(Errno::NoEntry);
        }
        let ino = Ino(self.next_ino);
        self.next_ino = self.next_ino.checked_add(1).ok_or(Errno::NoSpace)?;
        let node = Node::new(body, (found.directory, Name::clone(&name)), self.time());
        // Durable is only that it exists: it is empty, and has no name.
        let empty = match &node.body {
            Body::File(_) => Body::File(Content::default()),
            Body::Directory(_) => Body::Directory(Directory::default()),
            Body::Symlink(target) => Body::Symlink(Arc::clone(target)),
        };
        let durable = Node {
            body: empty,
            times: Times::default(),
            ..node.clone()
        };
        if self.is_tracked(found.directory) {
            self.durable.nodes.set(ino, Some(Arc::new(durable)));
        }
        self.live.nodes.set(ino, Some(Arc::new(node)));
        self.live.set_entry(found.directory, &name, Some(ino));
        self.touch(found.directory);
        let change = EntryChange {
            directory: found.directory,
            name,
            from: None,
            to: Some(ino),
        };
        self.push_entry(op, change, Vec::new());
        Ok(ino)
    }

    /// Closes a descriptor. Even a failed close leaves it closed, but none fails on an open descriptor.
    ///
    /// # Errors
    /// `BadDescriptor`, also for the root directory's.
    pub fn close(&mut self, fd: Fd) -> Result<(), Errno> {
        self.call(Call::on(CallKind::Close, fd), |files, _| {
            files.close_one(fd)
        })
    }

    fn close_one(&mut self, fd: Fd) -> Result<(), Errno> {
        if let Some(open) = self.descriptors.close(fd)? {
            if open.truncated && self.rules.close_after_truncate_flushes {
                let steps = self.pending.iter().filter(|step| {
                    step.ino == open.ino && !step.kind.is_of_names() && !step.dropped
                });
                self.gate.extend(steps.map(|step| step.id));
            }
            self.release(open.ino);
        }
        Ok(())
    }

    /// One more descriptor for the same open-file description: offset and flags are shared.
    ///
    /// # Errors
    /// `BadDescriptor`; `TooManyFiles`.
    pub fn duplicate(&mut self, fd: Fd) -> Result<Fd, Errno> {
        self.call(Call::on(CallKind::Duplicate, fd), |files, _| {
            files.descriptors.get(fd)?;
            if files.descriptors.len() >= files.config.open_files_max {
                return Err(Errno::TooManyFiles);
            }
            files.descriptors.duplicate(fd)
        })
    }

    /// Lets `to` be what `from` is, and closes `from`. What `to` was is closed.
    ///
    /// # Errors
    /// `BadDescriptor` if one of them is not open, or the root directory's.
    pub fn renumber(&mut self, from: Fd, to: Fd) -> Result<(), Errno> {
        self.call(Call::on(CallKind::Duplicate, from), |files, _| {
            files.descriptors.get(from)?;
            files.descriptors.get(to)?;
            if from == to {
                return Ok(());
            }
            if from == ROOT_FD || to == ROOT_FD {
                return Err(Errno::BadDescriptor);
            }
            files.close_one(to)?;
            files.descriptors.renumber(from, to);
            Ok(())
        })
    }

    /// Entries of an open directory from a cookie on, at most so many: 0 begins, `.` and `..` come first. Fewer than asked for: the end.
    ///
    /// # Errors
    /// `BadDescriptor`; `NotDirectory`.
    pub fn read_directory(
        &mut self,
        fd: Fd,
        cookie: u64,
        max: usize,
    ) -> Result<Vec<DirectoryEntry>, Errno> {
        self.call(Call::on(CallKind::ReadDirectory, fd), |files, _| {
            let open = files.descriptors.get(fd)?;
            let ino = open.ino;
            let node = files.live.node(ino);
            let entries = node.directory().ok_or(Errno::NotDirectory)?.clone();
            let parent = node.place.0;
            files.observe(Observation::Listing { directory: ino });
            let mut list = Vec::new();
            for (at, name, of) in [(0, &b"."[..], ino), (1, b"..", parent)] {
                if cookie <= at && list.len() < max {
                    list.push(DirectoryEntry {
                        next_cookie: at + 1,
                        ino: files.number(of),
                        kind: FileKind::Directory,
                        name: name.into(),
                    });
                }
            }
            let left = max - list.len();
            for entry in entries.starting_at(cookie.max(2)).take(left) {
                list.push(DirectoryEntry {
                    next_cookie: entry.hash + 1,
                    ino: files.number(entry.ino),
                    kind: files.live.node(entry.ino).kind(),
                    name: Arc::clone(&entry.name),
                });
            }
            Ok(list)
        })
    }
}
