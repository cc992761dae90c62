//! The filter of a run on the device: a tree of pages of its own, behind those of the run. So an opening need not read all entries to make filters anew. It also says what the
//! entries of the run weigh.
//!
//! | key of a leaf's entry | payload |
//! | --- | --- |
//! | 0 (4 bytes, big-endian) | entries 8, keys that are not deleted 8, bytes of pages 8 (see `pages_of` in `index/entry.rs`) |
//! | n ≥ 1 (likewise) | the n-th 2,688 bytes of the filter, of the last what is left: words of 8 bytes |
//!
//! A filter is written only where it takes little beside its run, and there is room: a checkpoint that does not find enough writes everything anew without filters, for which there
//! always is. Of a run that has none on the device an opening reads the leaves.
//!
//! Invariant: a filter is of exactly so many words as one of so many entries has.

use crate::checkpoint::leaves::{Leaves, filter_words};
use crate::checkpoint::pages::PageSink;
use crate::checkpoint::tree::TreeWriter;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::page::{PAGE_HEADER_BYTES, PageRef, Tree};
use crate::format::{get_u64, put_u64, to_usize};
use crate::index::weight::Weight;

/// Of a filter in one entry: six of these fill a page.
const CHUNK_BYTES: usize = 2_688;
const WORD_BYTES: usize = 8;
const HEAD_BYTES: usize = 24;
/// A filter takes at most such a share of what its run takes.
const RUN_SHARE: u64 = 4;
/// No entry of a leaf takes less.
const ENTRY_BYTES_MIN: u64 = 3;

/// What a filter's tree says.
#[derive(Debug)]
pub(crate) struct FilterRead {
    /// How many entries the run has.
    pub(crate) entries: u64,
    pub(crate) weight: Weight,
    pub(crate) words: Box<[u64]>,
}

/// Writes the filter of the run whose pages were placed last. `NONE`: it is not worth it. `None`: no segment is free.
pub(super) fn write(
    core: &mut Core,
    sink: &mut PageSink,
    leaves: &Leaves,
    weight: Weight,
) -> Option<PageRef> {
    let bytes: Vec<u8> = leaves
        .filter()
        .iter()
        .flat_map(|it| it.to_le_bytes())
        .collect();
    // With headers, and a page above.
    let all = bytes.len() + bytes.len() / 32 + 2 * PAGE_HEADER_BYTES + HEAD_BYTES;
    let is_large = core.geometry.block_up(all as u64) * RUN_SHARE > sink.run_bytes();
    if !sink.takes_filters() || is_large {
        return Some(PageRef::NONE);
    }
    let mut tree = TreeWriter::new(Tree::Filter);
    let mut head = [0; HEAD_BYTES];
    put_u64(&mut head, 0, leaves.keys());
    put_u64(&mut head, 8, weight.keys);
    put_u64(&mut head, 16, weight.pages_bytes);
    tree.push(core, sink, &0_u32.to_be_bytes(), &head)?;
    for (chunk, number) in bytes.chunks(CHUNK_BYTES).zip(1_u32..) {
        tree.push(core, sink, &number.to_be_bytes(), chunk)?;
    }
    tree.finish(core, sink)
}

/// A filter as its entries are read, of a run of so many bytes. Takes any entries.
pub(crate) struct FilterDraft {
    run_bytes: u64,
    next: u32,
    entries: u64,
    weight: Weight,
    words: Vec<u64>,
}

impl FilterDraft {
    pub(crate) fn new(run_bytes: u64) -> FilterDraft {
        FilterDraft {
            run_bytes,
            next: 0,
            entries: 0,
            weight: Weight::default(),
            words: Vec::new(),
        }
    }

    /// The next entry.
    pub(crate) fn push(&mut self, key: &[u8], payload: &[u8]) -> Result<(), Mismatch> {
        let is_next = key == self.next.to_be_bytes();
        let number = self.next;
        self.next = self.next.saturating_add(1);
        let expected = match number {
            0 => HEAD_BYTES,
            _ => CHUNK_BYTES.min((self.words_in_all() - self.words.len()) * WORD_BYTES),
        };
        if !is_next || expected == 0 || payload.len() != expected {
            return Err(Mismatch {
                what: "entry of a filter",
                expected: expected as u64,
                found: payload.len() as u64,
            });
        }
        if number == 0 {
            return self.begin(payload);
        }
        let (words, _) = payload.as_chunks::<WORD_BYTES>();
        self.words
            .extend(words.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(())
    }

    fn begin(&mut self, head: &[u8]) -> Result<(), Mismatch> {
        self.entries = get_u64(head, 0);
        self.weight = Weight {
            keys: get_u64(head, 8),
            pages_bytes: get_u64(head, 16),
        };
        let entries_max = self.run_bytes / ENTRY_BYTES_MIN;
        let is_right = (1..=entries_max).contains(&self.entries)
            && self.weight.keys <= self.entries
            && self.weight.pages_bytes <= Weight::PAGES_BYTES_MAX;
        match is_right {
            true => Ok(()),
            false => Err(Mismatch {
                what: "entries of a filter's run",
                expected: entries_max,
                found: self.entries,
            }),
        }
    }

    fn words_in_all(&self) -> usize {
        filter_words(to_usize(self.entries))
    }

    /// All entries were read.
    pub(crate) fn finish(self) -> Result<FilterRead, Mismatch> {
        let expected = self.words_in_all();
        if self.next == 0 || self.words.len() != expected {
            return Err(Mismatch {
                what: "words of a filter",
                expected: expected as u64,
                found: self.words.len() as u64,
            });
        }
        Ok(FilterRead {
            entries: self.entries,
            weight: self.weight,
            words: self.words.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::leaves::{LeavesDraft, hash_of};
    use crate::index::key::Key;

    type Entry = (Vec<u8>, Vec<u8>);

    /// The filter of a run with keys `0..keys`, and its entries on the device.
    fn filter(keys: u64) -> (Leaves, Vec<Entry>) {
        let mut draft = LeavesDraft::default();
        draft.note_leaf(&[0], PageRef::NONE);
        (0..keys).for_each(|n| draft.note_key(&n.to_be_bytes()));
        let leaves = draft.finish();
        let head = [keys, keys - 1, 100 * keys];
        let head = head.iter().flat_map(|it| it.to_le_bytes()).collect();
        let bytes: Vec<u8> = leaves
            .filter()
            .iter()
            .flat_map(|it| it.to_le_bytes())
            .collect();
        let chunks = bytes.chunks(CHUNK_BYTES).map(<[u8]>::to_vec);
        let payloads = std::iter::once(head).chain(chunks);
        let entries = payloads.zip(0_u32..);
        let entries = entries.map(|(payload, n)| (n.to_be_bytes().to_vec(), payload));
        (leaves, entries.collect())
    }

    fn read(run_bytes: u64, entries: &[Entry]) -> Result<FilterRead, Mismatch> {
        let mut draft = FilterDraft::new(run_bytes);
        entries
            .iter()
            .try_for_each(|(key, payload)| draft.push(key, payload))?;
        draft.finish()
    }

    /// Goal: a filter comes back as it was and denies what it denied. Method: filters of one key and of as many as fill a chunk, several, and parts of one.
    #[test]
    fn a_filter_comes_back() {
        for keys in [1, 2, 1_720, 1_721, 20_000] {
            let (leaves, entries) = filter(keys);
            let read = read(keys * 20, &entries).expect("is right");
            assert_eq!((read.entries, read.weight.keys), (keys, keys - 1));
            assert_eq!(read.weight.pages_bytes, 100 * keys);
            let again = Leaves::outline(leaves.all().to_vec());
            let again = again.with_known_filter(read.entries, read.words);
            assert_eq!(again, leaves);
            let passes = |n: u64| {
                let key = n.to_be_bytes();
                again.leaf_of(&Key::new(&key), hash_of(&key)).is_some()
            };
            assert!((0..keys).all(passes));
            assert!((keys..keys + 1_000).filter(|n| passes(*n)).count() < 30);
        }
    }

    /// Goal: no entries but those of a filter of the run's size are taken, and nothing panics. Method: entries that are missing, doubled, changed places, too long or short, and numbers that no run has.
    #[test]
    fn other_entries_are_refused() {
        let (_, entries) = filter(5_000);
        assert!(read(100_000, &entries).is_ok());
        assert!(
            read(5_000 * 3 - 1, &entries).is_err(),
            "too many for the run"
        );
        assert!(read(100_000, &[]).is_err());
        for at in 0..entries.len() {
            let mut missing = entries.clone();
            missing.remove(at);
            assert!(read(100_000, &missing).is_err());
            let mut doubled = entries.clone();
            doubled.insert(at, entries[at].clone());
            assert!(read(100_000, &doubled).is_err());
            let mut swapped = entries.clone();
            swapped.swap(at, (at + 1) % entries.len());
            assert!(read(100_000, &swapped).is_err());
            for len in [0, 1, 8, CHUNK_BYTES - 8, CHUNK_BYTES + 8, 100_000] {
                let mut resized = entries.clone();
                resized[at].1.resize(len, 0);
                assert!(read(100_000, &resized).is_err(), "{len} bytes");
            }
        }
        for (field, number) in [(0, 0), (0, 4_000), (0, 6_000), (0, u64::MAX), (8, 5_001)] {
            let mut changed = entries.clone();
            put_u64(&mut changed[0].1, field, number);
            assert!(read(100_000, &changed).is_err(), "{number} at {field}");
        }
        let mut heavy = entries;
        put_u64(&mut heavy[0].1, 16, u64::MAX);
        assert!(read(u64::MAX, &heavy).is_err());
    }
}
