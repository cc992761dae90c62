//! How much a guest has to hold at least: what is live, what a snapshot or a write without an answer keeps alive, all of it rounded up.
//!
//! Invariant: it is never less than what a correct guest has to hold. What is in doubt counts; it is counted anew by each recovery.

use std::collections::VecDeque;

use super::limits::Limits;
use crate::history::Pos;
use crate::keys::{Content, KeyId};

/// What a record takes beside its key and its value.
const RECORD_BYTES: u64 = 64;
/// Values from this length on may lie in blocks of their own.
const BLOCKS_FROM_BYTES: u64 = 1_024;

/// What one write left of a key.
#[derive(Debug, Clone, Copy, Default)]
struct Version {
    pos: Pos,
    content: Option<Content>,
    bytes: u64,
}

/// What one key takes.
#[derive(Debug, Clone, Default)]
struct Entry {
    /// The last version handed in that was not refused.
    newest: Version,
    /// Versions that it has replaced since the last recovery.
    older: Vec<Version>,
    /// Whether the versions that it may hold take different numbers of bytes.
    has_changed_size: bool,
    /// What any of its versions took at most.
    most_bytes: u64,
}

/// What a write needs room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Nothing: it only deletes.
    None,
    /// As much as what it replaces, whichever of the key's versions that is, and that is little.
    Same,
    /// More, or nobody can tell.
    More,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    /// By key number.
    entries: Vec<Entry>,
    /// Keys written to since the last recovery.
    touched: Vec<KeyId>,
    /// Bytes of all newest versions.
    live_bytes: u64,
    /// Versions that were replaced and may still be needed: by which write, and their bytes.
    replaced: VecDeque<(Pos, u64)>,
    replaced_bytes: u64,
    /// Bytes of all versions ever handed in.
    written_bytes: u64,
}

/// What a record takes at most.
pub(crate) fn record_bytes(limits: &Limits, key_bytes: usize, value_bytes: usize) -> u64 {
    let bytes = (key_bytes + value_bytes) as u64 + RECORD_BYTES;
    match value_bytes as u64 >= BLOCKS_FROM_BYTES {
        true => bytes + limits.block_bytes,
        false => bytes,
    }
}

impl Space {
    /// A key is to hold this, by a write that was handed in.
    pub(crate) fn wrote(&mut self, pos: Pos, key: KeyId, content: Content, bytes: u64) {
        let at = key as usize;
        if self.entries.len() <= at {
            self.entries.resize_with(at + 1, Entry::default);
        }
        let entry = &mut self.entries[at];
        if entry.older.is_empty() {
            self.touched.push(key);
        }
        entry.has_changed_size |= entry.newest.bytes != bytes;
        entry.most_bytes = entry.most_bytes.max(bytes);
        let content = Some(content);
        let old = std::mem::replace(
            &mut entry.newest,
            Version {
                pos,
                content,
                bytes,
            },
        );
        entry.older.push(old);
        self.live_bytes = self.live_bytes + bytes - old.bytes;
        self.written_bytes += bytes;
        self.replaced.push_back((pos, old.bytes));
        self.replaced_bytes += old.bytes;
    }

    /// What a put of this key needs room for, if it takes so many bytes. An empty value counts as much as a deleted key, and both copies of a long one have to lie
    /// beside each other until the new one is durable.
    pub(crate) fn room(&self, key: KeyId, value_bytes: usize, bytes: u64) -> Room {
        if value_bytes == 0 || value_bytes as u64 >= BLOCKS_FROM_BYTES {
            return Room::More;
        }
        let entry = self.entries.get(key as usize);
        match entry.is_some_and(|it| !it.has_changed_size && it.newest.bytes == bytes) {
            true => Room::Same,
            false => Room::More,
        }
    }

    /// The write of these keys was refused: where it is the last, the version before is back.
    pub(crate) fn refused(&mut self, pos: Pos, keys: &[KeyId]) {
        for key in keys {
            let Some(entry) = self.entries.get_mut(*key as usize) else {
                continue;
            };
            // A key that was touched keeps an older version. A batch may have named it more than once.
            if entry.newest.pos == pos
                && let Some(old) = entry.older.iter().rfind(|version| version.pos != pos)
            {
                self.live_bytes = self.live_bytes + old.bytes - entry.newest.bytes;
                entry.newest = *old;
            }
        }
    }

    /// Everything up to there is durable, or was refused, and no snapshot before it is held: what these writes replaced is needed no more.
    pub(crate) fn not_needed(&mut self, upto: Pos) {
        while let Some((_, bytes)) = self.replaced.pop_front_if(|(pos, _)| *pos <= upto) {
            self.replaced_bytes -= bytes;
        }
    }

    /// Whether anything was written since the last recovery.
    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.touched.is_empty()
    }

    /// A recovery showed what the keys hold; of a key that was not read the largest version counts.
    pub(crate) fn adopt(&mut self, seen: impl Fn(KeyId) -> Option<Content>) {
        for key in std::mem::take(&mut self.touched) {
            let entry = &mut self.entries[key as usize];
            let before = entry.newest.bytes;
            let versions = || entry.older.iter().chain([&entry.newest]);
            let largest = versions().copied().max_by_key(|version| version.bytes);
            let seen = seen(key);
            let shown = versions().rfind(|version| seen.is_some() && version.content == seen);
            entry.has_changed_size &= shown.is_none();
            entry.newest = shown.copied().or(largest).unwrap_or_default();
            entry.older.clear();
            self.live_bytes = self.live_bytes + entry.newest.bytes - before;
        }
        self.replaced.clear();
        self.replaced_bytes = 0;
    }

    /// A recovery has gone back behind the one before: a key of which it shows something else, or nothing, holds any of its versions.
    pub(crate) fn went_back(&mut self, seen: impl Fn(KeyId) -> Option<Content>) {
        for (key, entry) in (0..).zip(&mut self.entries) {
            let seen = seen(key);
            if seen.is_some() && seen == entry.newest.content {
                continue;
            }
            let before = entry.newest.bytes;
            let is_absent = seen.is_some_and(Content::is_absent);
            entry.newest.content = seen;
            entry.newest.bytes = if is_absent { 0 } else { entry.most_bytes };
            entry.has_changed_size |= !is_absent;
            self.live_bytes = self.live_bytes + entry.newest.bytes - before;
        }
    }

    /// Whether anything was replaced by writes up to there.
    pub(crate) fn replaced_upto(&self, upto: Pos) -> bool {
        self.replaced.front().is_some_and(|(pos, _)| *pos <= upto)
    }

    /// Bytes that were ever written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes that a correct guest may have to hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.live_bytes + self.replaced_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(value: &[u8]) -> Content {
        Content::of(value)
    }

    /// Goal: what a write replaces counts until nothing needs it. Method: three writes of a key, then the first two are durable.
    #[test]
    fn a_replaced_version_counts_while_it_may_be_needed() {
        let mut space = Space::default();
        for (pos, bytes) in [(1, 100), (2, 200), (3, 50)] {
            space.wrote(pos, 0, content(&[pos.to_le_bytes()[0]; 9]), bytes);
        }
        assert_eq!(space.bytes(), 50 + 100 + 200);
        space.not_needed(2);
        assert_eq!(space.bytes(), 50 + 200);
        space.not_needed(3);
        assert_eq!(space.bytes(), 50);
    }

    /// Goal: what a recovery that goes back shows is counted, whatever the one before had shown. Method: a key that was longer before, one that was there and is gone, one that is
    /// not read, and one that stays.
    #[test]
    fn a_recovery_that_goes_back_counts_all_keys() {
        let mut space = Space::default();
        for key in 0..4 {
            space.wrote(1, key, content(b"long"), 300);
            space.wrote(2, key, content(b"short"), 100);
        }
        space.adopt(|_| Some(content(b"short")));
        assert_eq!(space.room(0, 36, 100), Room::Same);
        space.went_back(|key| match key {
            0 => Some(content(b"long")),
            1 => Some(Content::ABSENT),
            2 => None,
            _ => Some(content(b"short")),
        });
        assert_eq!(space.bytes(), 300 + 300 + 100);
        let rooms = [0, 1, 2, 3].map(|key| space.room(key, 36, 100));
        assert_eq!(rooms, [Room::More, Room::More, Room::More, Room::Same]);
    }

    /// Goal: a recovery counts what it showed, and the most of what it did not read. Method: two keys, one of them read.
    #[test]
    fn a_recovery_counts_anew() {
        let mut space = Space::default();
        for key in [0, 1] {
            space.wrote(1 + key, key, content(b"first"), 300);
            space.wrote(3 + key, key, content(b"second"), 40);
        }
        let mut read = space.clone();
        read.adopt(|key| (key == 0).then(|| content(b"second")));
        assert_eq!(read.bytes(), 40 + 300);
        space.adopt(|_| Some(content(b"second")));
        assert_eq!(space.bytes(), 40 + 40);
    }

    /// Goal: a put needs no more room only if every version that the key may hold is as long. Method: puts of two lengths, and recoveries that show the key or not.
    #[test]
    fn what_a_put_replaces_is_known_or_in_doubt() {
        let room = |space: &Space, bytes| space.room(0, 1, bytes);
        let mut space = Space::default();
        assert_eq!(room(&space, 300), Room::More);
        space.wrote(1, 0, content(b"first"), 300);
        assert_eq!(room(&space, 300), Room::More, "the first put may fail yet");
        space.adopt(|_| Some(content(b"first")));
        assert_eq!(room(&space, 300), Room::Same);
        assert_eq!(room(&space, 299), Room::More);
        space.wrote(2, 0, content(b"as long"), 300);
        assert_eq!(room(&space, 300), Room::Same);
        space.wrote(3, 0, content(b"second"), 40);
        assert_eq!(room(&space, 40), Room::More);
        let mut unread = space.clone();
        unread.adopt(|_| None);
        assert_eq!(room(&unread, 300), Room::More);
        space.adopt(|_| Some(content(b"second")));
        assert_eq!(room(&space, 40), Room::Same);
        for value_bytes in [0, 1_024] {
            assert_eq!(space.room(0, value_bytes, 40), Room::More);
        }
    }

    /// Goal: after a refused batch that names a key twice, the key holds what it held before. Method: it deletes a key, then sets it to little.
    #[test]
    fn a_refused_batch_brings_back_what_was_there_before_all_of_it() {
        let mut space = Space::default();
        space.wrote(1, 0, content(b"first"), 700);
        space.wrote(2, 0, content(b""), 10);
        space.wrote(2, 0, content(b"second"), 40);
        space.refused(2, &[0, 0]);
        space.not_needed(2);
        assert_eq!(space.bytes(), 700);
    }

    /// Goal: a refused write takes nothing. Method: refuse the second of two, then the only one of a key.
    #[test]
    fn a_refused_write_takes_nothing() {
        let mut space = Space::default();
        space.wrote(1, 0, content(b"first"), 30);
        space.wrote(2, 0, content(b"second"), 500);
        space.wrote(3, 1, content(b"third"), 700);
        space.refused(2, &[0]);
        space.refused(3, &[1]);
        space.not_needed(3);
        assert_eq!(space.bytes(), 30);
    }
}
