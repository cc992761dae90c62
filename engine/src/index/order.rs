//! Entries in the order of their keys, by number. The keys lie in the table alone.
//!
//! Entries that follow each other lie in a block, which is an array of their numbers. Eight bytes of each key, those in which the keys of the block first differ or nearly so, lie beside the
//! number, so that looking for a key mostly touches no entry. So an entry takes some 16 bytes here, where a tree that has the keys takes 60.
//!
//! Invariants:
//! - all keys of a block are at or above its bound, and below that of the next one. The first block's bound is the empty key;
//! - all keys of a block begin with as many bytes of its bound as it says.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::index::key::Key;
use crate::index::table::{Slot, Table};

/// Entries of a block at most.
const BLOCK: usize = 64;
/// A block of no more than so many, and one beside it of no more than twice as many, become one.
const FEW: usize = BLOCK / 4;
/// A block has room for no more than so many beside its entries.
const ROOM: usize = 8;

/// The numbers of all entries of a table, by their keys.
#[derive(Debug)]
pub(crate) struct Order {
    /// By their bounds.
    blocks: BTreeMap<Key, Block>,
    len: usize,
}

/// Entries that follow each other.
#[derive(Debug, Default)]
struct Block {
    /// All keys begin with as many bytes of the bound.
    shared: usize,
    entries: Vec<Numbered>,
}

/// The number of an entry, and the bytes of its key behind the shared ones, with zeroes behind them.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    head: [u8; HEAD_BYTES],
    slot: Slot,
}

const HEAD_BYTES: usize = 8;

impl Default for Order {
    fn default() -> Self {
        Order {
            blocks: BTreeMap::from([(Key::new(b""), Block::default())]),
            len: 0,
        }
    }
}

impl Order {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry of the table, whose key is not there yet.
    pub(crate) fn insert<V>(&mut self, table: &Table<V>, slot: Slot) {
        let key = table.key(slot);
        let (bound, block) = self.block_mut(key);
        if !block.shares(bound, key) {
            block.share(table, shared_bytes(bound, key));
        }
        let at = block.position(table, bound, key);
        debug_assert!(at.is_err(), "a key has one entry");
        let (Ok(at) | Err(at)) = at;
        let entry = Numbered::new(key, block.shared, slot);
        block.insert(at, entry);
        if block.entries.len() > BLOCK {
            let bound = bound.clone();
            self.split(table, &bound, at == BLOCK);
        }
        self.len += 1;
    }

    /// Removes an entry that is still in the table.
    pub(crate) fn remove<V>(&mut self, table: &Table<V>, slot: Slot) {
        let key = table.key(slot);
        let (bound, block) = self.block_mut(key);
        let at = block.position(table, bound, key);
        let at = at.expect("every entry is in the order");
        block.entries.remove(at);
        block.give_room_back();
        if block.entries.len() <= FEW {
            let bound = bound.clone();
            self.join(table, &bound);
        }
        self.len -= 1;
    }

    /// The numbers of all entries, by their keys.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        let all = self.blocks.values().flat_map(|block| &block.entries);
        all.map(|entry| entry.slot)
    }

    /// The numbers of the entries between two bounds, by their keys. No entry between them is touched.
    pub(crate) fn range<'a, V>(
        &'a self,
        table: &Table<V>,
        (start, end): (Bound<&Key>, Bound<&Key>),
    ) -> impl DoubleEndedIterator<Item = Slot> + use<'a, V> {
        let first = match start {
            Bound::Unbounded => self.place(table, None, false),
            Bound::Included(key) => self.place(table, Some(key), false),
            Bound::Excluded(key) => self.place(table, Some(key), true),
        };
        let behind = match end {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(self.place(table, Some(key), true)),
            Bound::Excluded(key) => Some(self.place(table, Some(key), false)),
        };
        let until = behind.map_or(Bound::Unbounded, |(bound, _)| Bound::Included(bound));
        let some = behind.is_none_or(|behind| first < behind);
        let blocks = some.then(|| self.blocks.range((Bound::Included(first.0), until)));
        let blocks = blocks.into_iter().flatten();
        blocks.flat_map(move |(bound, block)| {
            let from = if bound == first.0 { first.1 } else { 0 };
            let until = behind.filter(|behind| behind.0 == bound);
            let until = until.map_or(block.entries.len(), |behind| behind.1);
            let some = block.entries[from..until].iter();
            some.map(|entry| entry.slot)
        })
    }

    /// Where a key is or would be, or with `behind` where the one after it would be: the bound of a block, and how many of its entries lie before.
    fn place<V>(&self, table: &Table<V>, key: Option<&Key>, behind: bool) -> (&Key, usize) {
        let (bound, block) = match key {
            None => self.blocks.first_key_value(),
            Some(key) => {
                let before = (Bound::Unbounded, Bound::Included(key));
                self.blocks.range(before).next_back()
            }
        }
        .expect("the first block is there, and its bound is the least");
        let at = match key.map(|key| block.position(table, bound, key)) {
            None => 0,
            Some(Ok(at)) => at + usize::from(behind),
            Some(Err(at)) => at,
        };
        (bound, at)
    }

    /// The block where a key is or would be, and its bound.
    fn block_mut(&mut self, key: &Key) -> (&Key, &mut Block) {
        let before = (Bound::Unbounded, Bound::Included(key));
        let block = self.blocks.range_mut(before).next_back();
        block.expect("the first block's bound is the least")
    }

    /// The block has become too long: its second half, or only its last entry, becomes one of its own.
    fn split<V>(&mut self, table: &Table<V>, bound: &Key, only_last: bool) {
        let block = self.blocks.get_mut(bound).expect("it is there");
        let at = match only_last {
            true => block.entries.len() - 1,
            false => block.entries.len() / 2,
        };
        let entries = block.entries[at..].to_vec();
        block.entries.truncate(at);
        block.entries.shrink_to_fit();
        let next_bound = table.key(entries[0].slot).clone();
        let mut next = Block {
            shared: block.shared,
            entries,
        };
        if only_last {
            // Keys that come in their order will share what they did.
            let first = table.key(block.entries[0].slot);
            next.share(table, shared_bytes(first, &next_bound));
        } else {
            block.share_more(table, bound);
            next.share_more(table, &next_bound);
        }
        self.blocks.insert(next_bound, next);
    }

    /// The block has become short: it goes if it is empty, or becomes one with the next or with the one before, if that is short too.
    fn join<V>(&mut self, table: &Table<V>, bound: &Key) {
        if self.blocks[bound].entries.is_empty() {
            if !bound.bytes().is_empty() {
                self.blocks.remove(bound);
            }
            return;
        }
        let is_short = |(_, block): &(&Key, &Block)| block.entries.len() <= 2 * FEW;
        let mut behind = self
            .blocks
            .range((Bound::Excluded(bound), Bound::Unbounded));
        if let Some((next, _)) = behind.next().filter(is_short) {
            let next = next.clone();
            return self.take_up(table, bound, &next);
        }
        let mut before = self.blocks.range(..bound);
        if let Some((before, _)) = before.next_back().filter(is_short) {
            let before = before.clone();
            self.take_up(table, &before, bound);
        }
    }

    /// A block takes up the next one.
    fn take_up<V>(&mut self, table: &Table<V>, bound: &Key, next: &Key) {
        let next = self.blocks.remove(next).expect("it is there");
        let block = self.blocks.get_mut(bound).expect("it is there");
        block.entries.reserve_exact(next.entries.len());
        block.entries.extend_from_slice(&next.entries);
        let shared = block.shared_by_all(table, bound);
        block.share(table, shared);
    }
}

impl Block {
    /// The position of a key that is at or above the bound; or where it would be.
    fn position<V>(&self, table: &Table<V>, bound: &Key, key: &Key) -> Result<usize, usize> {
        if !self.shares(bound, key) {
            // It is above what all others begin with.
            return Err(self.entries.len());
        }
        let head = head(key.bytes(), self.shared);
        self.entries.binary_search_by(|entry| {
            let order = entry.head.cmp(&head);
            order.then_with(|| table.key(entry.slot).cmp(key))
        })
    }

    /// Whether a key begins as all others do.
    fn shares(&self, bound: &Key, key: &Key) -> bool {
        key.begins_as(bound, self.shared)
    }

    fn insert(&mut self, at: usize, entry: Numbered) {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(ROOM);
        }
        self.entries.insert(at, entry);
    }

    fn give_room_back(&mut self) {
        if self.entries.capacity() > self.entries.len() + 2 * ROOM {
            self.entries.shrink_to(self.entries.len() + ROOM);
        }
    }

    /// How much all keys share with the bound.
    fn shared_by_all<V>(&self, table: &Table<V>, bound: &Key) -> usize {
        let last = self.entries.last().expect("it has entries");
        shared_bytes(bound, table.key(last.slot))
    }

    /// If half of the bytes beside the numbers are alike by now, more is shared. To find out touches one entry, and to change it all.
    fn share_more<V>(&mut self, table: &Table<V>, bound: &Key) {
        let shared = self.shared_by_all(table, bound);
        if shared >= self.shared + HEAD_BYTES / 2 {
            self.share(table, shared);
        }
    }

    /// From now on so much is shared.
    fn share<V>(&mut self, table: &Table<V>, shared: usize) {
        self.shared = shared;
        for entry in &mut self.entries {
            *entry = Numbered::new(table.key(entry.slot), shared, entry.slot);
        }
    }
}

impl Numbered {
    fn new(key: &Key, shared: usize, slot: Slot) -> Numbered {
        let head = head(key.bytes(), shared);
        Numbered { head, slot }
    }
}

/// The bytes of a key behind the shared ones.
fn head(key: &[u8], shared: usize) -> [u8; HEAD_BYTES] {
    let rest = &key[shared..];
    if let Some(head) = rest.first_chunk() {
        return *head;
    }
    let mut head = [0; HEAD_BYTES];
    head[..rest.len()].copy_from_slice(rest);
    head
}

/// How many bytes two keys begin with alike.
fn shared_bytes(one: &Key, other: &Key) -> usize {
    let both = one.bytes().iter().zip(other.bytes());
    both.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Model = BTreeMap<Vec<u8>, Slot>;

    /// A table and its order, and the same as an ordered map.
    #[derive(Default)]
    struct Both {
        table: Table<u32>,
        order: Order,
        model: Model,
        state: u64,
    }

    impl Both {
        fn random(&mut self, below: u64) -> u64 {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.state >> 33) % below
        }

        /// Adds the key, or removes it.
        fn turn(&mut self, key: &[u8]) {
            match self.model.remove(key) {
                Some(slot) => {
                    self.order.remove(&self.table, slot);
                    self.table.remove(slot);
                }
                None => {
                    let slot = self.table.insert(Key::new(key), 0);
                    self.order.insert(&self.table, slot);
                    self.model.insert(key.to_vec(), slot);
                }
            }
        }

        fn range(&self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> [Vec<Slot>; 2] {
            let (start, end) = (start.map(Key::new), end.map(Key::new));
            let range = || {
                self.order
                    .range(&self.table, (start.as_ref(), end.as_ref()))
            };
            [range().collect(), range().rev().collect()]
        }

        /// What the ordered map has between the bounds; nothing if they are the wrong way round.
        fn expected(&self, start: Bound<&[u8]>, end: Bound<&[u8]>) -> [Vec<Slot>; 2] {
            let above = |key: &[u8]| match start {
                Bound::Unbounded => true,
                Bound::Included(start) => key >= start,
                Bound::Excluded(start) => key > start,
            };
            let below = |key: &[u8]| match end {
                Bound::Unbounded => true,
                Bound::Included(end) => key <= end,
                Bound::Excluded(end) => key < end,
            };
            let all = self.model.iter();
            let some = all.filter(|(key, _)| above(key) && below(key));
            let forward: Vec<Slot> = some.map(|(_, slot)| *slot).collect();
            [forward.clone(), forward.into_iter().rev().collect()]
        }

        fn check(&mut self, keys: &[Vec<u8>]) {
            assert_eq!(self.order.len(), self.model.len());
            assert!(self.order.slots().eq(self.model.values().copied()));
            for _ in 0..10 {
                let [start, end] = [(); 2].map(|()| {
                    let key =
                        &keys[usize::try_from(self.random(keys.len() as u64)).expect("small")];
                    match self.random(5) {
                        0 => Bound::Unbounded,
                        1 | 2 => Bound::Included(&key[..]),
                        _ => Bound::Excluded(&key[..]),
                    }
                });
                let expected = self.expected(start, end);
                assert_eq!(self.range(start, end), expected, "{start:?} {end:?}");
            }
            for (bound, block) in &self.order.blocks {
                assert!(block.entries.capacity() <= block.entries.len() + 2 * ROOM);
                assert!(block.entries.len() <= BLOCK);
                assert!(!block.entries.is_empty() || bound.bytes().is_empty());
            }
        }
    }

    /// Keys that begin alike for long, some of them beginnings of others, and some with zeroes at their ends.
    fn keys(count: u64) -> Vec<Vec<u8>> {
        let key = |n: u64| {
            let mut key = match n % 3 {
                0 => b"the same beginning of many keys".to_vec(),
                1 => b"the same".to_vec(),
                _ => Vec::new(),
            };
            let digits = (n / 3).to_be_bytes();
            key.extend_from_slice(&digits[5..]);
            key.extend(std::iter::repeat_n(0, (n % 7) as usize / 2));
            key
        };
        (0..count).map(key).collect()
    }

    /// Goal: it is in the order of an ordered map, in ranges of all kinds, and takes no more room than it may. Method: random keys come and go, first mostly come, then mostly go.
    #[test]
    fn it_orders_as_an_ordered_map_does() {
        let keys = keys(6_000);
        let mut both = Both::default();
        for step in 0..30_000 {
            let key = &keys[usize::try_from(both.random(keys.len() as u64)).expect("small")];
            let is_there = both.model.contains_key(key);
            let comes = both.random(10) < if step < 15_000 { 8 } else { 2 };
            if is_there != comes {
                both.turn(key);
            }
            if step % 500 == 0 {
                both.check(&keys);
            }
        }
        assert!(both.order.blocks.len() > 2);
        for key in &keys {
            if both.model.contains_key(key) {
                both.turn(key);
            }
        }
        both.check(&keys);
        assert_eq!((both.order.len(), both.order.blocks.len()), (0, 1));
    }

    /// Goal: keys that come in their order, or against it, fill the blocks or half of them, and few that stay do not keep the blocks. Method: many of both, then all but one in ten go.
    #[test]
    fn blocks_are_filled() {
        const MANY: usize = 100 * BLOCK;
        let key = |n: usize| format!("user{n:012}").into_bytes();
        let mut forward = Both::default();
        (0..MANY).for_each(|n| forward.turn(&key(n)));
        assert_eq!(forward.order.blocks.len(), 100);
        let mut backward = Both::default();
        (0..MANY).rev().for_each(|n| backward.turn(&key(n)));
        assert!(backward.order.blocks.len() <= 201);
        for both in [&mut forward, &mut backward] {
            (0..MANY)
                .filter(|n| n % 10 > 0)
                .for_each(|n| both.turn(&key(n)));
            assert!(both.order.blocks.len() <= 10 * BLOCK / FEW);
            both.check(&[key(5), key(MANY), key(70)]);
        }
    }
}
