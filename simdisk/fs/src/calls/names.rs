//! Names: directories, removals, renames, links.

use std::sync::Arc;

use crate::file_system::Call;
use crate::notes::{CallKind, Observation};
use crate::path::{Follow, Found, Last, PATH_BYTES_END};
use crate::step::{EntryChange, StepKind};
use crate::tree::directory::{Directory, Name};
use crate::tree::node::{Body, FileKind, Ino, ROOT};
use crate::{Errno, Fd, FileSystem};

/// More links than this, and there can be no other.
const LINKS_MAX: u32 = 65_000;

/// Two ends of a rename that can happen.
struct Rename {
    old: (Ino, Name),
    new: (Ino, Name),
    moved: Ino,
    replaced: Option<Ino>,
}

impl FileSystem {
    /// Makes a directory.
    ///
    /// # Errors
    /// Those of `mkdirat`.
    pub fn create_directory(&mut self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        self.call(
            Call::at(CallKind::CreateDirectory, at, path),
            |files, op| {
                let found = files.find_free(at, path, true)?;
                files.create(op, &found, Body::Directory(Directory::default()))?;
                Ok(())
            },
        )
    }

    /// Finds a name that is free. A slash at its end is only for directories.
    fn find_free(&mut self, at: Fd, path: &[u8], is_directory: bool) -> Result<Found, Errno> {
        let found = match self.find(at, path, Follow::Never) {
            // Something is there that is no directory, and a slash comes after it.
            Err(Errno::NotDirectory) if path.ends_with(b"/") => {
                let end = path
                    .iter()
                    .rposition(|byte| *byte != b'/')
                    .map_or(0, |at| at + 1);
                self.find(at, &path[..end], Follow::Never)?;
                return Err(Errno::Exists);
            }
            found => found?,
        };
        if found.ino.is_some() {
            return Err(Errno::Exists);
        }
        if found.slash && !is_directory {
            return Err(Errno::NoEntry);
        }
        Ok(found)
    }

    /// Makes a symbolic link. Its target is followed when it is used, and never out of the root directory.
    ///
    /// # Errors
    /// Those of `symlinkat`.
    pub fn symlink(&mut self, target: &[u8], at: Fd, path: &[u8]) -> Result<(), Errno> {
        let call = Call {
            other: Some((at, target)),
            ..Call::at(CallKind::Symlink, at, path)
        };
        self.call(call, |files, op| {
            if target.is_empty() {
                return Err(Errno::NoEntry);
            }
            if target.len() >= PATH_BYTES_END {
                return Err(Errno::NameTooLong);
            }
            if target.contains(&0) {
                return Err(Errno::Invalid);
            }
            let found = files.find_free(at, path, false)?;
            files.create(op, &found, Body::Symlink(target.into()))?;
            Ok(())
        })
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is none, and those of looking it up.
    pub fn read_link(&mut self, at: Fd, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.call(Call::at(CallKind::ReadLink, at, path), |files, _| {
            let ino = files.find(at, path, Follow::IfSlash)?.existing()?;
            files.observe(Observation::Attributes { ino });
            match &files.live.node(ino).body {
                Body::Symlink(target) => Ok(target.to_vec()),
                _ => Err(Errno::Invalid),
            }
        })
    }

    /// Gives a file another name; a symbolic link itself unless `follow`.
    ///
    /// # Errors
    /// Those of `linkat`; `NotPermitted` for directories.
    pub fn link(
        &mut self,
        at: Fd,
        path: &[u8],
        follow: bool,
        new_at: Fd,
        new_path: &[u8],
    ) -> Result<(), Errno> {
        let call = Call {
            other: Some((new_at, new_path)),
            ..Call::at(CallKind::Link, at, path)
        };
        self.call(call, |files, op| {
            let follow = if follow {
                Follow::Always
            } else {
                Follow::IfSlash
            };
            let ino = files.find(at, path, follow)?.existing()?;
            let found = files.find_free(new_at, new_path, false)?;
            let Last::Name(name) = found.last else {
                return Err(Errno::Exists);
            };
            if files.live.node(found.directory).links == 0 {
                return Err(Errno::NoEntry);
            }
            let node = files.live.node(ino);
            if node.kind() == FileKind::Directory {
                return Err(Errno::NotPermitted);
            }
            if node.links >= LINKS_MAX {
                return Err(Errno::TooManyLinks);
            }
            files.live.set_entry(found.directory, &name, Some(ino));
            files.live.node_mut(ino).times.changed_ns = files.time();
            files.touch(found.directory);
            let change = EntryChange {
                directory: found.directory,
                name,
                from: None,
                to: Some(ino),
            };
            files.push_entry(op, change, Vec::new());
            Ok(())
        })
    }

    /// Removes a name of a file or symbolic link. The file stays while it is open or has other names.
    ///
    /// # Errors
    /// Those of `unlinkat`; `IsDirectory` for directories.
    pub fn unlink(&mut self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        self.call(Call::at(CallKind::Unlink, at, path), |files, op| {
            let found = files.find(at, path, Follow::Never)?;
            let Last::Name(name) = &found.last else {
                return Err(Errno::IsDirectory);
            };
            let ino = found.existing()?;
            match files.live.node(ino).kind() {
                FileKind::Directory => return Err(Errno::IsDirectory),
                _ if found.slash => return Err(Errno::NotDirectory),
                _ => {}
            }
            files.remove_entry(op, found.directory, name, ino);
            Ok(())
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `unlinkat` for directories; `Busy` for the root directory.
    pub fn remove_directory(&mut self, at: Fd, path: &[u8]) -> Result<(), Errno> {
        self.call(
            Call::at(CallKind::RemoveDirectory, at, path),
            |files, op| {
                let found = files.find(at, path, Follow::Never)?;
                let name = match &found.last {
                    Last::Name(name) => name,
                    Last::Dot => return Err(Errno::Invalid),
                    Last::DotDot => return Err(Errno::NotEmpty),
                };
                let ino = found.existing()?;
                files.observe(Observation::Listing { directory: ino });
                let node = files.live.node(ino);
                let entries = node.directory().ok_or(Errno::NotDirectory)?;
                if !entries.is_empty() {
                    return Err(Errno::NotEmpty);
                }
                files.remove_entry(op, found.directory, name, ino);
                Ok(())
            },
        )
    }

    fn remove_entry(&mut self, op: u64, directory: Ino, name: &Name, ino: Ino) {
        self.live.set_entry(directory, name, None);
        self.live.node_mut(ino).times.changed_ns = self.time();
        self.touch(directory);
        let change = EntryChange {
            directory,
            name: Arc::clone(name),
            from: Some(ino),
            to: None,
        };
        self.push_entry(op, change, Vec::new());
        self.release(ino);
    }

    /// Lets what has the one name have the other. What had the other name loses it.
    ///
    /// # Errors
    /// Those of `renameat`.
    pub fn rename(
        &mut self,
        at: Fd,
        path: &[u8],
        new_at: Fd,
        new_path: &[u8],
    ) -> Result<(), Errno> {
        let call = Call {
            other: Some((new_at, new_path)),
            ..Call::at(CallKind::Rename, at, path)
        };
        self.call(call, |files, op| {
            if let Some(rename) = files.check_rename(at, path, new_at, new_path)? {
                files.rename_to(op, rename);
            }
            Ok(())
        })
    }

    /// Finds one end of a rename. A slash behind what is no directory is an error only later.
    fn find_end(&mut self, at: Fd, path: &[u8]) -> Result<(Found, bool), Errno> {
        match self.find_parent(at, path, Follow::Never) {
            Err(Errno::NotDirectory) if path.ends_with(b"/") => {
                let end = path
                    .iter()
                    .rposition(|byte| *byte != b'/')
                    .map_or(0, |at| at + 1);
                Ok((self.find_parent(at, &path[..end], Follow::Never)?, true))
            }
            found => {
                let found = found?;
                let slash = found.slash;
                Ok((found, slash))
            }
        }
    }

    fn check_rename(
        &mut self,
        at: Fd,
        path: &[u8],
        new_at: Fd,
        new_path: &[u8],
    ) -> Result<Option<Rename>, Errno> {
        let (old, old_slash) = self.find_end(at, path)?;
        let (new, new_slash) = self.find_end(new_at, new_path)?;
        let (Last::Name(old_name), Last::Name(new_name)) = (&old.last, &new.last) else {
            return Err(Errno::Busy);
        };
        if old.too_long {
            return Err(Errno::NameTooLong);
        }
        let moved = old.existing()?;
        if new.too_long {
            return Err(Errno::NameTooLong);
        }
        let moves_directory = self.live.node(moved).kind() == FileKind::Directory;
        if !moves_directory && (old_slash || new_slash) {
            return Err(Errno::NotDirectory);
        }
        if self.is_within(new.directory, moved) {
            return Err(Errno::Invalid);
        }
        if let Some(replaced) = new.ino {
            if self.is_within(old.directory, replaced) {
                return Err(Errno::NotEmpty);
            }
            if replaced == moved {
                return Ok(None);
            }
            let node = self.live.node(replaced);
            match (moves_directory, node.directory()) {
                (true, None) => return Err(Errno::NotDirectory),
                (false, Some(_)) => return Err(Errno::IsDirectory),
                (true, Some(entries)) => {
                    let is_empty = entries.is_empty();
                    self.observe(Observation::Listing {
                        directory: replaced,
                    });
                    if !is_empty {
                        return Err(Errno::NotEmpty);
                    }
                }
                (false, None) => {}
            }
        }
        if self.live.node(new.directory).links == 0 {
            return Err(Errno::NoEntry);
        }
        Ok(Some(Rename {
            old: (old.directory, Name::clone(old_name)),
            new: (new.directory, Name::clone(new_name)),
            moved,
            replaced: new.ino,
        }))
    }

    /// Whether a directory is this inode or lies in it.
    fn is_within(&self, directory: Ino, of: Ino) -> bool {
        let mut at = directory;
        loop {
            if at == of {
                return true;
            }
            if at == ROOT {
                return false;
            }
            at = self.live.node(at).place.0;
        }
    }

    fn rename_to(&mut self, op: u64, rename: Rename) {
        let Rename {
            old,
            new,
            moved,
            replaced,
        } = rename;
        self.live.set_entry(old.0, &old.1, None);
        self.live.set_entry(new.0, &new.1, Some(moved));
        let now = self.time();
        self.live.node_mut(moved).times.changed_ns = now;
        self.touch(old.0);
        self.touch(new.0);
        let removed = EntryChange {
            directory: old.0,
            name: old.1,
            from: Some(moved),
            to: None,
        };
        let added = EntryChange {
            directory: new.0,
            name: new.1,
            from: replaced,
            to: Some(moved),
        };
        let mut needs = Vec::new();
        if replaced.is_some() && self.rules.rename_over_flushes {
            let of_it = |step: &&Arc<crate::PendingStep>| {
                step.ino == moved && !step.kind.is_of_names() && !step.dropped
            };
            needs.extend(self.pending.iter().filter(of_it).map(|step| step.id));
        }
        let is_directory = self.live.node(moved).kind() == FileKind::Directory;
        if self.rules.rename_atomic || is_directory {
            needs.extend(self.last_change(&removed));
            needs.extend(self.last_change(&added));
            let path = self.entry_path(&removed);
            let directory = removed.directory;
            let kind = StepKind::Renamed {
                old: removed,
                new: added,
            };
            if self.is_tracked(directory) {
                self.push(op, directory, &path, kind, None, needs, false);
            }
        } else {
            if added.from.is_some() {
                let ended = EntryChange {
                    to: None,
                    ..added.clone()
                };
                self.push_entry(op, ended, Vec::new());
            }
            let begun = EntryChange {
                from: None,
                ..added
            };
            self.push_entry(op, begun, needs);
            self.push_entry(op, removed, Vec::new());
        }
        if let Some(replaced) = replaced {
            self.release(replaced);
        }
    }
}
