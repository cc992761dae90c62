//! Sizes, space, times and what is said of an inode.

use std::sync::Arc;

use kvsim_crash::Nanos;

use crate::file_system::Call;
use crate::notes::{CallKind, Observation};
use crate::path::Follow;
use crate::step::StepKind;
use crate::tree::node::{ALL_SECTORS, Body, FileKind, Ino, PAGE_BYTES, SECTOR_BYTES};
use crate::{Errno, Fd, FileFault, FileSystem};

/// What is said of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its number: in the order in which inodes were first seen since the last power cut.
    pub ino: u64,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file; of a symbolic link's target; 4,096 for a directory.
    pub size: u64,
    /// Names that refer to it; for a directory 2, and one for each directory in it.
    pub links: u64,
    /// The space that it takes.
    pub allocated_bytes: u64,
    /// When it was last read. Reads do not move it.
    pub accessed_ns: Nanos,
    /// When its content was last changed.
    pub modified_ns: Nanos,
    /// When anything of it was last changed.
    pub changed_ns: Nanos,
}

impl FileSystem {
    /// What is said of an open file.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn stat(&mut self, fd: Fd) -> Result<Stat, Errno> {
        self.call(Call::on(CallKind::Stat, fd), |files, _| {
            let ino = files.descriptors.get(fd)?.ino;
            Ok(files.stat_of(ino))
        })
    }

    /// What is said of what a path leads to; of a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// Those of `fstatat`.
    pub fn stat_at(&mut self, at: Fd, path: &[u8], follow: bool) -> Result<Stat, Errno> {
        self.call(Call::at(CallKind::Stat, at, path), |files, _| {
            let follow = if follow {
                Follow::Always
            } else {
                Follow::IfSlash
            };
            let ino = files.find(at, path, follow)?.existing()?;
            Ok(files.stat_of(ino))
        })
    }

    fn stat_of(&mut self, ino: Ino) -> Stat {
        self.observe(Observation::Attributes { ino });
        let number = self.number(ino);
        let node = self.live.node(ino);
        let (size, links, allocated_bytes) = match &node.body {
            Body::File(content) => (
                content.size,
                u64::from(node.links),
                content.allocated.len() * PAGE_BYTES,
            ),
            Body::Directory(entries) => {
                let is_directory = |ino| self.live.node(ino).kind() == FileKind::Directory;
                let inside = entries.iter().filter(|entry| is_directory(entry.ino));
                let links = match node.links {
                    0 => 0,
                    _ => 2 + inside.count() as u64,
                };
                (PAGE_BYTES, links, PAGE_BYTES)
            }
            Body::Symlink(target) => (target.len() as u64, u64::from(node.links), 0),
        };
        Stat {
            ino: number,
            kind: node.kind(),
            size,
            links,
            allocated_bytes,
            accessed_ns: node.times.accessed_ns,
            modified_ns: node.times.modified_ns,
            changed_ns: node.times.changed_ns,
        }
    }

    /// Sets the size of a file: what is cut off is lost, and what is added reads as zeros.
    ///
    /// # Errors
    /// `BadDescriptor`; `Invalid` for what is not open to be written; `FileTooLarge`.
    pub fn set_size(&mut self, fd: Fd, size: u64) -> Result<(), Errno> {
        let call = Call {
            offset: size,
            ..Call::on(CallKind::SetSize, fd)
        };
        self.call(call, |files, op| {
            let open = *files.descriptors.get(fd)?;
            if !open.write || files.live.node(open.ino).file().is_none() {
                return Err(Errno::Invalid);
            }
            if size > files.config.file_bytes_max {
                return Err(Errno::FileTooLarge);
            }
            let before = files.resize(op, open.ino, size);
            if size == 0 && before > 0 {
                files.descriptors.get_mut(fd)?.truncated = true;
            }
            Ok(())
        })
    }

    /// Sets the size of a file. Gives the one before.
    pub(crate) fn resize(&mut self, op: u64, ino: Ino, to: u64) -> u64 {
        let from = self.live.node(ino).file().expect("a file").size;
        let now = self.time();
        let times = &mut self.live.node_mut(ino).times;
        (times.modified_ns, times.changed_ns) = (now, now);
        if to < from {
            let end = to.div_ceil(PAGE_BYTES);
            self.remember_stale(ino, end);
            let content = self.live.node_mut(ino).file_mut().expect("a file");
            let before = content.allocated.len();
            content.drop_pages(end);
            content.size = to;
            let zeroed = content.zero_tail().then(|| {
                let first = to % PAGE_BYTES / u64::from(SECTOR_BYTES);
                ALL_SECTORS << first
            });
            self.used_pages -= before - content.allocated.len();
            if let Some(cached) = Arc::make_mut(&mut self.cached).get_mut(&ino) {
                cached.truncate(end);
            }
            self.push_truncate(op, ino, from, to, zeroed);
        } else if to > from {
            let content = self.live.node_mut(ino).file_mut().expect("a file");
            content.size = to;
            let path: Arc<str> = self.live.path(ino).into();
            self.push_size(op, ino, &path, from, to, None, false);
        }
        from
    }

    /// Makes sure that a range has space. The file grows to the end of the range if it is shorter. What is added reads as zeros.
    ///
    /// # Errors
    /// `BadDescriptor`; `Invalid` for an empty range; `FileTooLarge`; `NoSpace`.
    pub fn allocate(&mut self, fd: Fd, offset: u64, len: u64) -> Result<(), Errno> {
        let call = Call {
            offset,
            len,
            ..Call::on(CallKind::Allocate, fd)
        };
        self.call(call, |files, op| {
            let open = *files.descriptors.get(fd)?;
            if len == 0 {
                return Err(Errno::Invalid);
            }
            if !open.write || files.live.node(open.ino).file().is_none() {
                return Err(Errno::BadDescriptor);
            }
            let end = offset.checked_add(len).ok_or(Errno::FileTooLarge)?;
            if end > files.config.file_bytes_max {
                return Err(Errno::FileTooLarge);
            }
            if files.inject.fires(FileFault::NoSpaceAllocate, op) {
                files.stats.failed_writes += 1;
                return Err(Errno::NoSpace);
            }
            files.allocate_pages(op, open.ino, offset, end)
        })
    }

    fn allocate_pages(&mut self, op: u64, ino: Ino, offset: u64, end: u64) -> Result<(), Errno> {
        let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let (now, free) = (self.time(), self.free_pages());
        let node = self.live.node_mut(ino);
        let content = node.file_mut().expect("a file");
        let missing = content.allocated.missing(first, last);
        if missing > free {
            self.stats.failed_writes += 1;
            return Err(Errno::NoSpace);
        }
        content.allocated.insert(first, last);
        let from = content.size;
        content.size = content.size.max(end);
        node.times.changed_ns = now;
        self.used_pages += missing;
        let path: Arc<str> = self.live.path(ino).into();
        if missing > 0 && self.is_tracked(ino) {
            let kind = StepKind::Allocated {
                start: first,
                end: last,
            };
            let cut = |kind: &StepKind| matches!(kind, StepKind::Truncate { to, .. } if to.div_ceil(PAGE_BYTES) < last);
            let mut newest = self.pending.iter().rev();
            let cut = newest.find(|step| step.ino == ino && cut(&step.kind));
            let needs = cut.map(|step| step.id).into_iter().collect();
            self.push(op, ino, &path, kind, None, needs, false);
        }
        if end > from {
            self.push_size(op, ino, &path, from, end, None, false);
        }
        Ok(())
    }

    /// Sets the times of an open file; nothing leaves one as it is.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn set_times(
        &mut self,
        fd: Fd,
        accessed_ns: Option<Nanos>,
        modified_ns: Option<Nanos>,
    ) -> Result<(), Errno> {
        self.call(Call::on(CallKind::SetTimes, fd), |files, op| {
            let ino = files.descriptors.get(fd)?.ino;
            files.set_times_of(op, ino, accessed_ns, modified_ns);
            Ok(())
        })
    }

    /// Sets the times of what a path leads to; of a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// Those of `utimensat`.
    pub fn set_times_at(
        &mut self,
        at: Fd,
        path: &[u8],
        follow: bool,
        accessed_ns: Option<Nanos>,
        modified_ns: Option<Nanos>,
    ) -> Result<(), Errno> {
        self.call(Call::at(CallKind::SetTimes, at, path), |files, op| {
            let follow = if follow {
                Follow::Always
            } else {
                Follow::IfSlash
            };
            let ino = files.find(at, path, follow)?.existing()?;
            files.set_times_of(op, ino, accessed_ns, modified_ns);
            Ok(())
        })
    }

    fn set_times_of(
        &mut self,
        op: u64,
        ino: Ino,
        accessed: Option<Nanos>,
        modified: Option<Nanos>,
    ) {
        let now = self.time();
        let times = &mut self.live.node_mut(ino).times;
        times.accessed_ns = accessed.unwrap_or(times.accessed_ns);
        times.modified_ns = modified.unwrap_or(times.modified_ns);
        times.changed_ns = now;
        let set = (times.accessed_ns, times.modified_ns);
        times.set = Some(set);
        if !self.is_tracked(ino) {
            return;
        }
        let same = |step: &&Arc<crate::PendingStep>| {
            step.ino == ino && matches!(step.kind, StepKind::Attributes { .. })
        };
        let before = self.pending.iter().rev().find(same).map(|step| step.id);
        let path: Arc<str> = self.live.path(ino).into();
        let kind = StepKind::Attributes {
            accessed_ns: set.0,
            modified_ns: set.1,
        };
        self.push(
            op,
            ino,
            &path,
            kind,
            None,
            before.into_iter().collect(),
            false,
        );
    }

    /// Lets every write of the description go to the end of the file, or not.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn set_append(&mut self, fd: Fd, append: bool) -> Result<(), Errno> {
        self.descriptors.get_mut(fd)?.append = append;
        Ok(())
    }

    /// What was changed in a directory just now.
    pub(crate) fn touch(&mut self, directory: Ino) {
        let now = self.time();
        if let Some(node) = self.live.nodes.get_mut(directory) {
            (node.times.modified_ns, node.times.changed_ns) = (now, now);
        }
    }
}
