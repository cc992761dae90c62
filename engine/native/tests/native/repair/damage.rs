//! Each kind of structure is damaged, one at a time.

use crate::noise::Noise;
use crate::repair::found::find;
use crate::repair::made::{Known, closed, open};

const BLOCK: usize = 4096;
const SEGMENT: usize = 1 << 16;
const HEADER_AREA: usize = 256 << 10;

/// A block that begins with a magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Page { level: u8, tree: u8 },
    Frame,
    Segment,
}

fn structures(bytes: &[u8]) -> Vec<(usize, Kind)> {
    let places = (HEADER_AREA..bytes.len()).step_by(BLOCK);
    let kind = |at: usize| {
        let block = &bytes[at..];
        match &block[..4] {
            b"KVPG" => Some(Kind::Page {
                level: block[6],
                tree: block[7],
            }),
            b"KVFR" => Some(Kind::Frame),
            b"KVSG" => Some(Kind::Segment),
            _ => None,
        }
    };
    places.filter_map(|at| Some((at, kind(at)?))).collect()
}

/// Which part of the log a segment holds.
fn logical(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at + 32..at + 40].try_into().expect("eight bytes"))
}

fn with(known: &Known, edit: impl FnOnce(&mut [u8])) -> Known {
    let mut damaged = known.clone();
    edit(&mut damaged.bytes);
    damaged
}

/// Goal: without damage all is there, exactly, and nothing is said to be missing. Method: databases that were closed, and some that are still open.
#[test]
fn without_damage_all_is_there() {
    for seed in 0..4 {
        for known in [closed(seed), open(seed)] {
            let found = find(&known.bytes);
            assert!(found.is_complete() && found.gaps.is_empty(), "{seed}");
            assert!(found.values == known.now, "{seed}");
            assert!(found.damaged_superblocks.is_empty());
        }
    }
}

/// Goal: as long as one copy of the superblock is whole, nothing is lost. Method: every set of copies but all of them is overwritten.
#[test]
fn one_copy_of_the_superblock_is_enough() {
    let known = closed(1);
    for set in 1..15_u16 {
        let copies: Vec<u16> = (0..4).filter(|copy| set >> copy & 1 == 1).collect();
        let damaged = with(&known, |bytes| {
            for copy in &copies {
                let at = usize::from(*copy) * (64 << 10);
                bytes[at..at + BLOCK].fill(0x55);
            }
        });
        let found = find(&damaged.bytes);
        assert_eq!(found.damaged_superblocks, copies);
        assert!(found.is_complete() && found.values == known.now);
    }
}

/// Goal: without any superblock every key has its value, and all are said to be uncertain. What is there beside them was deleted. Method: all copies are overwritten.
#[test]
fn without_a_superblock_every_key_is_found() {
    for seed in 0..4 {
        for known in [closed(seed), open(seed)] {
            let damaged = with(&known, |bytes| bytes[..HEADER_AREA].fill(0x55));
            let found = find(&damaged.bytes);
            found.check(&damaged, "no superblock");
            for (key, value) in &known.now {
                assert_eq!(found.values.get(key), Some(value), "{}", key.escape_ascii());
                assert!(found.is_unknown(key));
            }
        }
    }
}

/// Goal: a page that is damaged costs no key outside of what the report says, and few inside. Method: every page of a database, one after the other, by a single bit and as a whole.
#[test]
fn every_page_may_be_damaged() {
    let known = closed(2);
    let pages = structures(&known.bytes);
    let pages = pages.into_iter().filter_map(|(at, kind)| match kind {
        Kind::Page { level, tree } => Some((at, level, tree)),
        _ => None,
    });
    let pages: Vec<(usize, u8, u8)> = pages.collect();
    assert!(
        pages
            .iter()
            .any(|(_, level, tree)| *level > 0 && *tree == 1)
    );
    assert!(pages.iter().any(|(_, _, tree)| *tree == 2));
    assert!(pages.iter().any(|(_, _, tree)| *tree == 3));
    let mut in_use = 0;
    for (at, level, tree) in pages {
        for whole in [false, true] {
            let damaged = with(&known, |bytes| {
                if whole {
                    bytes[at..at + BLOCK].fill(0xa5);
                } else if level > 0 || tree == 3 {
                    // In the first key: no reference is damaged.
                    bytes[at + 43] ^= 4;
                } else {
                    bytes[at + 70] ^= 4;
                }
            });
            let found = find(&damaged.bytes);
            let what = format!("page at {at}, level {level}, tree {tree}, whole {whole}");
            let wrong = found.check(&damaged, &what);
            if tree == 2 || found.unknown.is_empty() {
                assert!(found.is_complete() && wrong == 0, "{what}");
            }
            assert!(found.gaps.is_empty(), "{what}");
            in_use += u32::from(!found.unknown.is_empty());
            // What an inner page or a list leads to is found all the same, by its remains or by older pages that lead there.
            if (level > 0 || tree == 3) && !whole {
                let missing = known.now.iter();
                let missing = missing.filter(|(key, value)| found.values.get(*key) != Some(*value));
                assert_eq!(missing.count(), 0, "{what}");
            }
        }
    }
    assert!(in_use > 5, "{in_use}");
}

/// What came of damage to frames and headers of segments.
#[derive(Debug, Default)]
struct Seen {
    with_gaps: usize,
    whole_again: usize,
    wrong: usize,
}

impl Seen {
    /// Damages every frame and every header of a segment, one after the other.
    fn damage_all(&mut self, known: &Known) {
        let all = structures(&known.bytes);
        let frames = all.iter().filter(|(_, kind)| *kind == Kind::Frame);
        assert!(frames.count() > 50);
        let segments = all.iter().filter(|(_, kind)| *kind == Kind::Segment);
        let last = segments.map(|(at, _)| (logical(&known.bytes, *at), *at));
        let last = last.max().expect("a log").1;
        for (at, kind) in all {
            if matches!(kind, Kind::Page { .. }) {
                continue;
            }
            for edit in 0..3 {
                let damaged = with(known, |bytes| match edit {
                    0 => bytes[at + 60] ^= 1,
                    1 => bytes[at + 150] ^= 1,
                    _ => bytes[at..at + BLOCK].fill(0),
                });
                let found = find(&damaged.bytes);
                let what = format!("{kind:?} at {at}, edit {edit}");
                let wrong = found.check(&damaged, &what);
                assert!(found.unknown.is_empty(), "{what}");
                // Nothing behind the end of the log may say yet that it was durable.
                let ends = !found.cut_off.is_empty();
                if edit < 2 {
                    // A bit is one record at most, unless it ends the log.
                    assert!(wrong <= 1 || ends, "{what}: {wrong}");
                }
                if kind == Kind::Segment {
                    assert!(wrong == 0 || (ends && at == last), "{what}: {wrong}");
                }
                self.with_gaps += usize::from(!found.gaps.is_empty());
                self.whole_again += usize::from(!found.gaps.is_empty() && found.is_complete());
                self.wrong += wrong;
            }
        }
    }
}

/// Goal: a frame that is damaged costs its records at most, and only those that nothing else has. Method: every frame and every header of a segment, one after the other, by a bit of
/// the header, by a bit behind it, and as a whole block. Where a checkpoint came just before the end, few frames count: then further databases follow.
#[test]
fn every_frame_may_be_damaged() {
    let mut seen = Seen::default();
    for seed in 3..8 {
        seen.damage_all(&open(seed));
        if seen.with_gaps > 5 && seen.whole_again > 0 && seen.wrong > 0 {
            return;
        }
    }
    panic!("{seen:?}");
}

/// Goal: a value that is damaged is never returned; its key is named, and has an older value if there is one. Method: a byte of every value of some databases, one after the other.
#[test]
fn every_value_may_be_damaged() {
    let known = closed(4);
    let (mut older, mut lost) = (0, 0);
    for (key, value) in &known.now {
        let start = &value[..20];
        let places = known.bytes.windows(20).enumerate();
        let mut places = places.filter(|(at, window)| *at >= HEADER_AREA && *window == start);
        let place = places.next().map(|(at, _)| at);
        // A value may be cut in two where it lies in the index; then the first part is enough.
        let Some(at) = place else { continue };
        if value.len() <= 192 || key.last().is_some_and(|last| last % 3 != 0) {
            continue;
        }
        let damaged = with(&known, |bytes| bytes[at + 15] ^= 0x80);
        let found = find(&damaged.bytes);
        let what = format!("value of {}", key.escape_ascii());
        let wrong = found.check(&damaged, &what);
        assert!(found.unknown.is_empty(), "{what}");
        // Where garbage collection has moved it, the first place is the old one.
        assert!(wrong <= 1, "{what}");
        older += found.older.len();
        lost += found.lost.len();
        // In the log behind the checkpoint it may be the only trace of its key.
        let named = found.older.len() + found.lost.len();
        assert!(wrong == named || found.has_gap(), "{what}");
    }
    assert!(older > 0 && lost > 0, "{older} {lost}");
}

/// Goal: what lies before the end of a file that was cut off is found, and that it was cut off is said. Method: a database, cut behind every fourth segment.
#[test]
fn a_file_may_be_cut_off() {
    let known = open(5);
    let mut found_last = usize::MAX;
    let ends = (HEADER_AREA..known.bytes.len()).step_by(4 * SEGMENT);
    let ends: Vec<usize> = ends.collect();
    for end in ends.into_iter().rev() {
        let mut damaged = known.clone();
        damaged.bytes.truncate(end + 100);
        let found = find(&damaged.bytes);
        found.check(&damaged, &format!("cut at {end}"));
        assert!(found.missing_bytes > 0 && !found.is_complete());
        let right = found.values.iter();
        let right = right.filter(|(key, value)| known.now.get(*key) == Some(*value));
        let right = right.count();
        assert!(right <= found_last);
        found_last = right;
    }
    assert_eq!(found_last, 0);
}

/// Goal: whatever is damaged, no value is made up, and what is not as it was is named. Method: some blocks of many databases become noise, zeroes or another block, or have a bit changed.
#[test]
fn any_blocks_may_be_damaged() {
    let originals: Vec<Known> = (10..13)
        .flat_map(|seed| [closed(seed), open(seed)])
        .collect();
    let (mut complete, mut wrong) = (0, 0);
    for seed in 0..300 {
        let mut noise = Noise(seed);
        let known = &originals[noise.place(originals.len())];
        let damaged = with(known, |bytes| damage(&mut noise, bytes));
        let Ok(found) = crate::repair::found::try_find(&damaged.bytes) else {
            continue;
        };
        wrong += found.check(&damaged, &format!("seed {seed}"));
        complete += u32::from(found.is_complete());
    }
    assert!(complete > 5 && wrong > 100, "{complete} {wrong}");
}

/// Damages one block, or a few.
pub(crate) fn damage(noise: &mut Noise, bytes: &mut [u8]) {
    let blocks = bytes.len() / BLOCK;
    let most = 1 << noise.below(6);
    for _ in 0..=noise.below(most) {
        let at = noise.place(blocks) * BLOCK;
        match noise.below(4) {
            0 => {
                let made = noise.bytes(BLOCK);
                bytes[at..at + BLOCK].copy_from_slice(&made);
            }
            1 => bytes[at..at + BLOCK].fill(0),
            2 => {
                let from = noise.place(blocks) * BLOCK;
                bytes.copy_within(from..from + BLOCK, at);
            }
            _ => bytes[at + noise.place(BLOCK)] ^= 1 << noise.below(8),
        }
    }
}
