//! The files as they are now, for whoever writes them elsewhere or looks at them.

use std::io;

use crate::FileSystem;
use crate::node::{Body, FileKind, Ino, ROOT};

/// Takes files in: a real directory, an archive, a list.
pub trait Sink {
    /// A directory. Its parent came before it.
    ///
    /// # Errors
    /// Of whatever takes it in.
    fn directory(&mut self, path: &[u8]) -> io::Result<()>;
    /// A file with its size; its bytes follow, zeros may be left out.
    ///
    /// # Errors
    /// Of whatever takes it in.
    fn file(&mut self, path: &[u8], size: u64) -> io::Result<()>;
    /// Bytes of the last file.
    ///
    /// # Errors
    /// Of whatever takes them in.
    fn bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// A symbolic link.
    ///
    /// # Errors
    /// Of whatever takes it in.
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> io::Result<()>;
    /// Another name of a file that came before.
    ///
    /// # Errors
    /// Of whatever takes it in.
    fn link(&mut self, path: &[u8], of: &[u8]) -> io::Result<()>;
}

/// A name, as a list of all has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path from the root.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: FileKind,
    /// The inode.
    pub ino: Ino,
    /// Bytes of a file, of a symbolic link's target; 0 for a directory.
    pub size: u64,
}

impl FileSystem {
    /// All names that callers can see, directories before what is in them, siblings by name.
    #[must_use]
    pub fn list(&self) -> Vec<Listed> {
        let mut all = Vec::new();
        let mut stack: Vec<(Vec<u8>, Ino)> = vec![(Vec::new(), ROOT)];
        while let Some((path, ino)) = stack.pop() {
            let node = self.live.node(ino);
            if ino != ROOT {
                all.push(Listed {
                    path: path.clone(),
                    kind: node.kind(),
                    ino,
                    size: match &node.body {
                        Body::File(content) => content.size,
                        Body::Directory(_) => 0,
                        Body::Symlink(target) => target.len() as u64,
                    },
                });
            }
            let Some(entries) = node.directory() else {
                continue;
            };
            let mut children: Vec<_> = entries.iter().collect();
            // The stack gives the last first.
            children.sort_by(|one, two| two.name.cmp(&one.name));
            for child in children {
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend_from_slice(&child.name);
                stack.push((below, child.ino));
            }
        }
        all
    }

    /// Hands all files to a sink. It is no call: it has no number and costs no time.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_out(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut written: Vec<(Ino, Vec<u8>)> = Vec::new();
        for listed in self.list() {
            let Listed { path, ino, .. } = listed;
            let node = self.live.node(ino);
            match &node.body {
                Body::Directory(_) => sink.directory(&path)?,
                Body::Symlink(target) => sink.symlink(&path, target)?,
                Body::File(content) => {
                    if let Some((_, of)) = written.iter().find(|(other, _)| *other == ino) {
                        sink.link(&path, of)?;
                        continue;
                    }
                    sink.file(&path, content.size)?;
                    let mut page = [0; 4096];
                    for &(start, end) in content.written.ranges() {
                        for at in start..end {
                            let count = content.read(at * 4096, &mut page);
                            if page[..count].iter().any(|byte| *byte != 0) {
                                sink.bytes(at * 4096, &page[..count])?;
                            }
                        }
                    }
                    if node.links > 1 {
                        written.push((ino, path));
                    }
                }
            }
        }
        Ok(())
    }
}
