//! The entries of a directory: shared pieces, copied when written.
//!
//! Entries stand in the order of a hash of their names, as in ext4, so that the order does not depend on the history, and a listing that goes
//! on from a cookie neither skips nor repeats an entry when others come and go.
//!
//! Invariants: ascending by (hash, name); no piece is empty; a clone copies one pointer.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::node::Ino;

/// More entries than this, and a piece is split.
const PIECE_MAX: usize = 64;

/// The name of an entry.
pub(crate) type Name = Arc<[u8]>;

/// A name and what it refers to.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The cookie: where a listing goes on at this entry. At least 2, for `.` and `..` come first.
    pub(crate) hash: u64,
    pub(crate) name: Name,
    pub(crate) ino: Ino,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    pieces: Arc<Vec<Arc<Vec<Entry>>>>,
    len: usize,
}

/// The cookie of a name.
fn hash_of(name: &[u8]) -> u64 {
    // Positive as an i64, since some hosts hold cookies so.
    (xxh3_64(name) >> 1).max(2)
}

impl Directory {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Which piece an entry is in or belongs to, and where in it.
    fn find(&self, hash: u64, name: &[u8]) -> (usize, Result<usize, usize>) {
        let key = (hash, name);
        let before = |piece: &Arc<Vec<Entry>>| {
            let first = &piece[0];
            (first.hash, &*first.name) <= key
        };
        let piece = self.pieces.partition_point(before).saturating_sub(1);
        let Some(entries) = self.pieces.get(piece) else {
            return (0, Err(0));
        };
        let at = entries.binary_search_by(|entry| (entry.hash, &*entry.name).cmp(&key));
        (piece, at)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<Ino> {
        let (piece, at) = self.find(hash_of(name), name);
        at.ok().map(|at| self.pieces[piece][at].ino)
    }

    /// Lets a name refer to an inode, or to nothing.
    pub(crate) fn set(&mut self, name: &Name, to: Option<Ino>) {
        let hash = hash_of(name);
        let (piece, at) = self.find(hash, name);
        match (at, to) {
            (Ok(at), Some(ino)) => self.piece(piece)[at].ino = ino,
            (Ok(at), None) => {
                self.len -= 1;
                self.piece(piece).remove(at);
                if self.pieces[piece].is_empty() {
                    Arc::make_mut(&mut self.pieces).remove(piece);
                }
            }
            (Err(_), None) => {}
            (Err(at), Some(ino)) => {
                self.len += 1;
                let entry = Entry {
                    hash,
                    name: Arc::clone(name),
                    ino,
                };
                if self.pieces.is_empty() {
                    Arc::make_mut(&mut self.pieces).push(Arc::new(vec![entry]));
                    return;
                }
                let entries = self.piece(piece);
                entries.insert(at, entry);
                if entries.len() > PIECE_MAX {
                    let rest = entries.split_off(PIECE_MAX / 2);
                    Arc::make_mut(&mut self.pieces).insert(piece + 1, Arc::new(rest));
                }
            }
        }
    }

    fn piece(&mut self, piece: usize) -> &mut Vec<Entry> {
        Arc::make_mut(&mut Arc::make_mut(&mut self.pieces)[piece])
    }

    /// All entries, in the order of their cookies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// The entries whose cookies are at least this.
    pub(crate) fn starting_at(&self, cookie: u64) -> impl Iterator<Item = &Entry> {
        let (piece, at) = self.find(cookie, b"");
        let at = at.unwrap_or_else(|at| at);
        let rest = self.pieces.get(piece..).unwrap_or_default();
        rest.iter().flat_map(|piece| piece.iter()).skip(at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quickcheck::quickcheck;

    use super::*;

    quickcheck! {
        /// Goal: it is a map, in the order of hashes. Method: random changes beside a map.
        fn it_is_a_map(steps: Vec<(u8, bool)>) -> bool {
            let (mut directory, mut expected) = (Directory::default(), BTreeMap::new());
            for round in 0..3_u8 {
                for (at, &(name, add)) in steps.iter().enumerate() {
                    let ino = Ino(u32::try_from(at).unwrap() + u32::from(round));
                    let bytes: Name = Arc::from(name.wrapping_mul(round + 1).to_string().as_bytes());
                    directory.set(&bytes, add.then_some(ino));
                    if add {
                        expected.insert((hash_of(&bytes), bytes), ino);
                    } else {
                        expected.remove(&(hash_of(&bytes), bytes));
                    }
                }
            }
            let all: Vec<_> = directory.iter().map(|entry| ((entry.hash, entry.name.clone()), entry.ino)).collect();
            let cookies = expected.keys().enumerate().all(|(rank, (hash, _))| {
                directory.starting_at(*hash).count() == expected.len() - rank
                    && directory.starting_at(hash + 1).count() == expected.len() - rank - 1
            });
            cookies && directory.len() == expected.len() && all == expected.into_iter().collect::<Vec<_>>()
        }
    }
}
