//! What a repair finds in an image, and whether that is right.

use std::collections::{BTreeMap, BTreeSet};

use kvsim_engine::{Image, KeySpan, LogGap, NoDatabase, Outcome, Repair};

use crate::repair::made::{Known, Map, opened};

/// An image in memory.
struct Bytes<'a>(&'a [u8]);

impl Image for Bytes<'_> {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.fill(0);
        let rest = usize::try_from(offset).ok();
        let rest = rest.and_then(|from| self.0.get(from..)).unwrap_or(&[]);
        let len = rest.len().min(bytes.len());
        bytes[..len].copy_from_slice(&rest[..len]);
    }
}

/// What a repair finds.
pub(crate) struct Found {
    pub(crate) values: Map,
    pub(crate) older: BTreeSet<Vec<u8>>,
    pub(crate) lost: BTreeSet<Vec<u8>>,
    pub(crate) unknown: Vec<KeySpan>,
    pub(crate) gaps: Vec<LogGap>,
    pub(crate) cut_off: BTreeSet<Vec<u8>>,
    pub(crate) missing_bytes: u64,
    pub(crate) damaged_superblocks: Vec<u16>,
}

pub(crate) fn try_find(bytes: &[u8]) -> Result<Found, NoDatabase> {
    let mut image = Bytes(bytes);
    let repair = Repair::of(&mut image, None, &mut |_| ())?;
    let mut found = Found {
        values: BTreeMap::new(),
        older: BTreeSet::new(),
        lost: BTreeSet::new(),
        unknown: repair.unknown(),
        gaps: repair.log_gaps().to_vec(),
        cut_off: repair.cut_off().map(<[u8]>::to_vec).collect(),
        missing_bytes: repair.missing_bytes(&image),
        damaged_superblocks: repair.damaged_superblocks().to_vec(),
    };
    let mut last: Option<Vec<u8>> = None;
    let all = repair.each(&mut image, |key, outcome| {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        match outcome {
            Outcome::Value(value) => drop(found.values.insert(key.to_vec(), value)),
            Outcome::Older { value, .. } => {
                found.values.insert(key.to_vec(), value);
                found.older.insert(key.to_vec());
            }
            Outcome::Lost(_) => drop(found.lost.insert(key.to_vec())),
        }
        Ok::<(), ()>(())
    });
    all.expect("nothing is refused");
    Ok(found)
}

pub(crate) fn find(bytes: &[u8]) -> Found {
    try_find(bytes).expect("it was a database")
}

impl Found {
    /// Nothing is missing, and nothing is said to be.
    pub(crate) fn is_complete(&self) -> bool {
        let is_empty = |gap: &LogGap| gap.lost_commits == Some(0);
        self.missing_bytes == 0
            && self.older.is_empty()
            && self.lost.is_empty()
            && self.unknown.is_empty()
            && self.gaps.iter().all(is_empty)
    }

    pub(crate) fn is_unknown(&self, key: &[u8]) -> bool {
        self.unknown.iter().any(|span| span.contains(key))
    }

    /// Whether a gap in the log may have any key.
    pub(crate) fn has_gap(&self) -> bool {
        self.gaps.iter().any(|gap| gap.lost_commits != Some(0))
    }

    /// No value is there that was never written for its key, and every key that is not as it was is named by the report. Else the end of the log is missing, and nothing tells: then an
    /// opening shows the same, or it was one of the last writes and no opening succeeds. Returns how many are not as they were.
    pub(crate) fn check(&self, known: &Known, what: &str) -> usize {
        let (mut wrong, mut shown) = (0, None);
        for key in known.history.keys() {
            let (value, expected) = (self.values.get(key), known.now.get(key));
            let is_named = self.older.contains(key) || self.lost.contains(key);
            let is_short = self.missing_bytes > 0;
            let is_covered = is_short || self.is_unknown(key) || self.has_gap();
            if value != expected {
                wrong += 1;
                if !is_named && !is_covered && !self.cut_off.contains(key) {
                    let shown = shown.get_or_insert_with(|| opened(known));
                    let shown = shown
                        .as_ref()
                        .map(|all| all.get(key).and_then(Option::as_ref));
                    assert!(
                        shown == Some(value) || known.recent.contains(key),
                        "{what}: {} is not as it was, and nothing says so",
                        key.escape_ascii()
                    );
                }
            }
            assert!(
                !is_named || value != expected || is_covered,
                "{what}: {} is named, and is as it was",
                key.escape_ascii()
            );
        }
        for (key, value) in &self.values {
            let all = known.history.get(key);
            assert!(
                all.is_some_and(|all| all.contains(value)),
                "{what}: {} has a value that it never had",
                key.escape_ascii()
            );
        }
        for key in &self.lost {
            assert!(known.history.contains_key(key) && !self.values.contains_key(key));
        }
        wrong
    }
}
