//! A whole tree of inodes: what callers see, what is durable, or what a crash would leave.
//!
//! Invariants: the hash of a tree depends on names, links, bytes and set times alone, not on the numbers of inodes nor on the history; inodes that no
//! name reaches from the root do not matter to it.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::directory::{Directory, Name};
use crate::node::{Body, Content, FileKind, Ino, Node, ROOT};
use crate::table::Table;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) nodes: Table,
}

/// What of a tree enters its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HashOf {
    /// Allocated space too, since space is limited.
    pub(crate) space: bool,
}

impl Tree {
    /// A root directory and nothing in it.
    pub(crate) fn new() -> Self {
        let mut nodes = Table::default();
        let root = Body::Directory(Directory::default());
        let mut root = Node::new(root, (ROOT, Name::from(&b""[..])), 0);
        root.links = 1;
        nodes.set(ROOT, Some(Arc::new(root)));
        Tree { nodes }
    }

    /// An inode that is known to exist.
    pub(crate) fn node(&self, ino: Ino) -> &Node {
        self.nodes.get(ino).expect("the inode exists")
    }

    /// An inode that is known to exist, to be changed.
    pub(crate) fn node_mut(&mut self, ino: Ino) -> &mut Node {
        self.nodes.get_mut(ino).expect("the inode exists")
    }

    /// Lets a name of a directory refer to an inode, or to nothing. Link counts follow.
    pub(crate) fn set_entry(&mut self, directory: Ino, name: &Name, to: Option<Ino>) {
        let Some(entries) = self.nodes.get(directory).and_then(|node| node.directory()) else {
            return;
        };
        let from = entries.get(name);
        if from == to {
            return;
        }
        let node = self.node_mut(directory);
        let entries = node.directory_mut().expect("a directory");
        entries.set(name, to);
        if let Some(node) = from.and_then(|ino| self.nodes.get_mut(ino)) {
            node.links -= 1;
        }
        if let Some(node) = to.and_then(|ino| self.nodes.get_mut(ino)) {
            node.links += 1;
            node.place = (directory, Arc::clone(name));
        }
    }

    /// Calls with each name that leads to something, with its directory's number in `visited` order. Directories come before what is in them.
    pub(crate) fn walk(&self, mut each: impl FnMut(Step<'_>)) {
        let mut stack = vec![(ROOT, 0_u128)];
        while let Some((directory, path_hash)) = stack.pop() {
            let Some(entries) = self.nodes.get(directory).and_then(|node| node.directory()) else {
                continue;
            };
            for entry in entries.iter() {
                let Some(node) = self.nodes.get(entry.ino) else {
                    continue;
                };
                let mut bytes = [0; 24];
                bytes[..16].copy_from_slice(&path_hash.to_le_bytes());
                bytes[16..].copy_from_slice(&entry.hash.to_le_bytes());
                let here = xxh3_128_with_seed(&bytes, 3);
                each(Step {
                    ino: entry.ino,
                    node,
                    path_hash: here,
                });
                if node.kind() == FileKind::Directory {
                    stack.push((entry.ino, here));
                }
            }
        }
    }

    /// See the module.
    pub(crate) fn hash(&self, of: HashOf) -> u128 {
        let mut sum = 0_u128;
        // What is reached by several names: which of them are the same.
        let mut linked: Vec<(Ino, u128, u32)> = Vec::new();
        self.walk(|step| {
            let (tag, content) = match &step.node.body {
                Body::File(content) => (1_u64, content.hash(of.space)),
                Body::Directory(_) => (2, 0),
                Body::Symlink(target) => (3, xxh3_128_with_seed(target, 3)),
            };
            let mut bytes = [0; 48];
            bytes[..16].copy_from_slice(&step.path_hash.to_le_bytes());
            bytes[16..32].copy_from_slice(&content.to_le_bytes());
            if let Some((accessed, modified)) = step.node.times.set {
                bytes[32..40].copy_from_slice(&(accessed + 1).to_le_bytes());
                bytes[40..].copy_from_slice(&(modified + 1).to_le_bytes());
            }
            sum = sum.wrapping_add(xxh3_128_with_seed(&bytes, tag));
            if step.node.links > 1 && tag != 2 {
                match linked.iter_mut().find(|(ino, ..)| *ino == step.ino) {
                    Some((_, names, count)) => {
                        *names = names.wrapping_add(step.path_hash);
                        *count += 1;
                    }
                    None => linked.push((step.ino, step.path_hash, 1)),
                }
            }
        });
        // A link in a directory that nothing reaches does not count.
        for (_, names, _) in linked.into_iter().filter(|(_, _, count)| *count > 1) {
            sum = sum.wrapping_add(xxh3_128_with_seed(&names.to_le_bytes(), 4));
        }
        xxh3_128_with_seed(&sum.to_le_bytes(), 5)
    }

    /// Cuts the files of these numbers to their sizes.
    pub(crate) fn finish_files(&mut self, changed: &[Ino]) {
        for &ino in changed {
            let content = self.nodes.get(ino).and_then(|node| node.file());
            if content.is_some_and(Content::is_unfinished) {
                let content = self.node_mut(ino).file_mut();
                content.expect("a file").finish();
            }
        }
    }

    /// Removes what no name reaches and counts links anew.
    pub(crate) fn finish_names(&mut self) {
        let mut links: Vec<(Ino, u32)> = Vec::new();
        let mut counts: Vec<u32> = Vec::new();
        self.walk(|step| {
            let at = step.ino.0 as usize;
            if counts.len() <= at {
                counts.resize(at + 1, 0);
            }
            counts[at] += 1;
        });
        for (ino, node) in self.nodes.iter() {
            let count = counts.get(ino.0 as usize).copied().unwrap_or(0);
            if ino != ROOT && count != node.links {
                links.push((ino, count));
            } else if ino != ROOT && count == 0 {
                links.push((ino, 0));
            }
        }
        for (ino, count) in links {
            if count == 0 {
                self.nodes.set(ino, None);
            } else {
                self.node_mut(ino).links = count;
            }
        }
    }

    /// The pages that all files take.
    pub(crate) fn used_pages(&self) -> u64 {
        let files = self.nodes.iter().filter_map(|(_, node)| node.file());
        files.map(|content| content.allocated.len()).sum()
    }

    /// The path of an inode by the name that it was last given, for people.
    pub(crate) fn path(&self, ino: Ino) -> String {
        let mut names: Vec<String> = Vec::new();
        let mut at = ino;
        while at != ROOT && names.len() < 256 {
            let Some(node) = self.nodes.get(at) else {
                break;
            };
            names.push(node.place.1.escape_ascii().to_string());
            at = node.place.0;
        }
        if names.is_empty() {
            return ".".to_owned();
        }
        names.reverse();
        names.join("/")
    }
}

/// A name that leads to something.
pub(crate) struct Step<'a> {
    pub(crate) ino: Ino,
    pub(crate) node: &'a Arc<Node>,
    /// A hash of the path.
    pub(crate) path_hash: u128,
}
