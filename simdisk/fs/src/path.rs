//! From a path to an inode. No path leads out of the root directory: not by `..`, not by a symbolic link, not from `/`.

use std::sync::Arc;

use crate::Errno;
use crate::directory::Name;
use crate::node::{Body, Ino, ROOT};
use crate::tree::Tree;

/// The longest name.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// The longest path, and one more.
pub(crate) const PATH_BYTES_END: usize = 4096;
/// Symbolic links that are followed in one path.
const LINKS_MAX: u32 = 40;

/// Whether a symbolic link in the last place is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Never: the call is about the name.
    Never,
    /// If a slash comes after it.
    IfSlash,
    /// Always.
    Always,
    /// The path names a file that may be created: no slash may come after it.
    Create {
        /// Whether a symbolic link is followed.
        follow: bool,
    },
}

/// The last part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Last {
    /// A name.
    Name(Name),
    /// `.`
    Dot,
    /// `..`
    DotDot,
}

/// Where a path leads.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The directory that the last part is looked up in.
    pub(crate) directory: Ino,
    pub(crate) last: Last,
    /// What is there, if anything.
    pub(crate) ino: Option<Ino>,
    /// Whether the path ends in a slash.
    pub(crate) slash: bool,
    /// Whether the last part is longer than a name can be. Nothing is there then.
    pub(crate) too_long: bool,
}

impl Found {
    /// What is there.
    pub(crate) fn existing(&self) -> Result<Ino, Errno> {
        self.ino.ok_or(Errno::NoEntry)
    }
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = Name> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty()).map(Arc::from)
}

/// Follows a path from a directory. `look` is told of each name that is looked up.
pub(crate) fn resolve(
    tree: &Tree,
    at: Ino,
    path: &[u8],
    follow: Follow,
    mut look: impl FnMut(Ino, &Name),
) -> Result<Found, Errno> {
    if path.len() >= PATH_BYTES_END {
        return Err(Errno::NameTooLong);
    }
    if path.contains(&0) {
        return Err(Errno::Invalid);
    }
    match path.first() {
        None => return Err(Errno::NoEntry),
        Some(b'/') => return Err(Errno::NotCapable),
        Some(_) => {}
    }
    let mut rest: Vec<Name> = parts(path).rev().collect();
    let mut slash = path.ends_with(b"/");
    let (mut directory, mut links) = (at, 0);
    loop {
        // A path that is not empty and does not begin with a slash has a part; so has the target of a link, or the loop goes on with what follows it.
        let Some(name) = rest.pop() else {
            return Ok(Found {
                directory,
                last: Last::Dot,
                ino: Some(directory),
                slash,
                too_long: false,
            });
        };
        let entries = tree
            .node(directory)
            .directory()
            .ok_or(Errno::NotDirectory)?;
        let is_last = rest.is_empty();
        let found = |directory, last, ino| {
            Ok(Found {
                directory,
                last,
                ino,
                slash,
                too_long: false,
            })
        };
        match &*name {
            b"." if is_last => return found(directory, Last::Dot, Some(directory)),
            b"." => continue,
            b".." => {
                if directory == ROOT {
                    return Err(Errno::NotCapable);
                }
                directory = tree.node(directory).place.0;
                if is_last {
                    return found(directory, Last::DotDot, Some(directory));
                }
                continue;
            }
            _ => {}
        }
        if is_last && slash && matches!(follow, Follow::Create { .. }) {
            return Err(Errno::IsDirectory);
        }
        // In a directory that was removed nothing is looked up.
        let is_removed = tree.node(directory).links == 0;
        if name.len() > NAME_BYTES_MAX && !is_removed {
            // The last part is looked up only when all directories of a call are known.
            return if is_last {
                Ok(Found {
                    directory,
                    last: Last::Name(name),
                    ino: None,
                    slash,
                    too_long: true,
                })
            } else {
                Err(Errno::NameTooLong)
            };
        }
        look(directory, &name);
        let Some(ino) = entries.get(&name) else {
            return if is_last {
                found(directory, Last::Name(name), None)
            } else {
                Err(Errno::NoEntry)
            };
        };
        let follows = match follow {
            Follow::Never => !is_last,
            Follow::IfSlash => !is_last || slash,
            Follow::Always => true,
            Follow::Create { follow } => !is_last || follow,
        };
        match &tree.node(ino).body {
            Body::Symlink(target) if follows => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::Loop);
                }
                if target.starts_with(b"/") {
                    return Err(Errno::NotCapable);
                }
                slash |= is_last && target.ends_with(b"/");
                rest.extend(parts(target).rev());
            }
            body => {
                let is_directory = matches!(body, Body::Directory(_));
                if is_last {
                    if slash && !is_directory {
                        return Err(Errno::NotDirectory);
                    }
                    return found(directory, Last::Name(name), Some(ino));
                }
                if !is_directory {
                    return Err(Errno::NotDirectory);
                }
                directory = ino;
            }
        }
    }
}
