//! The entries of one partition's runs, read one run after the other: of each key only what the newest run has of it counts.
//!
//! The keys of a run ascend. So the entries of several runs are runs to be merged for the standard library's stable sort too, and of equal keys the newest is the last one.

use std::cmp::Ordering;

/// So many bytes of a key lie in place: comparing two keys rarely goes any further.
const PREFIX_BYTES: usize = 16;

/// An entry, and where its bytes are.
#[derive(Debug)]
struct Entry {
    prefix: [u8; PREFIX_BYTES],
    /// Where its key begins. The payload follows.
    at: usize,
    /// Of the leaf that it was in.
    offset: u64,
    key_bytes: usize,
    payload_bytes: usize,
}

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// An entry that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    /// Device offset of the leaf that it was in.
    pub(crate) offset: u64,
}

impl Merge {
    /// With room for keys and payloads of so many bytes.
    pub(crate) fn with_room(bytes: usize) -> Merge {
        Merge {
            bytes: Vec::with_capacity(bytes),
            entries: Vec::new(),
        }
    }

    /// Makes room for so many entries more.
    pub(crate) fn make_room(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    /// Adds the next entry of a leaf at this device offset.
    pub(crate) fn push(&mut self, offset: u64, key: &[u8], payload: &[u8]) {
        let mut prefix = [0; PREFIX_BYTES];
        let short = key.len().min(PREFIX_BYTES);
        prefix[..short].copy_from_slice(&key[..short]);
        self.entries.push(Entry {
            prefix,
            at: self.bytes.len(),
            offset,
            key_bytes: key.len(),
            payload_bytes: payload.len(),
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(payload);
    }

    /// The entries that count, ascending.
    pub(crate) fn newest(&mut self) -> impl Iterator<Item = Newest<'_>> {
        let bytes = &self.bytes;
        let key = move |it: &Entry| &bytes[it.at..it.at + it.key_bytes];
        let compare = move |one: &Entry, other: &Entry| -> Ordering {
            let prefixes = one.prefix.cmp(&other.prefix);
            prefixes.then_with(|| key(one).cmp(key(other)))
        };
        self.entries.sort_by(compare);
        let mut entries = self.entries.iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let entry = entries.next()?;
                if entries.peek().is_some_and(|it| compare(entry, it).is_eq()) {
                    continue;
                }
                let payload = entry.at + entry.key_bytes;
                return Some(Newest {
                    key: key(entry),
                    payload: &bytes[payload..payload + entry.payload_bytes],
                    offset: entry.offset,
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Goal: of each key the entry of the newest run comes out, in the order of the keys. Method: runs of keys around the prefix's length, against an ordered map.
    #[test]
    fn the_newest_of_each_key_comes_out() {
        let mut merge = Merge::default();
        let mut model = BTreeMap::new();
        for run in 0..5_u8 {
            let lengths = 1..40_usize;
            let lengths = lengths.filter(|length| (length * 7 + usize::from(run)) % 3 > 0);
            let keys = lengths.flat_map(|length| [vec![0; length], vec![9; length]]);
            let mut keys: Vec<Vec<u8>> = keys.collect();
            keys.sort();
            for key in keys {
                merge.push(run.into(), &key, &[run, 1]);
                model.insert(key, run);
            }
        }
        let merged = merge.newest();
        let merged = merged.map(|it| {
            assert_eq!(it.payload, [it.payload[0], 1]);
            assert_eq!(it.offset, u64::from(it.payload[0]));
            (it.key.to_vec(), it.payload[0])
        });
        let merged: Vec<_> = merged.collect();
        assert!(model.values().any(|run| *run < 4));
        assert_eq!(merged, model.into_iter().collect::<Vec<_>>());
    }
}
