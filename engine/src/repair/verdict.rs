//! Which version of each key counts.
//!
//! Of the checkpoint and the log behind it the newest version counts, unless a newer run of the index is damaged where the key is. Then the newest of all that
//! was found anywhere counts. If the value of what counts cannot be read, the newest older version takes its place.

use std::collections::{BTreeMap, BTreeSet};

use super::chain::{Counts, LogGap, chain};
use super::checkpoint::{Unknown, read as read_checkpoint};
use super::layout::{Layout, NoDatabase, find};
use super::numbers::Numbers;
use super::scan::scan;
use super::tree::{KeySpan, Pages};
use super::{Found, Image, Source, stray, value};
use crate::format::damage::Corruption;
use crate::index::key::Key;
use crate::index::place::Place;

/// What can be read of a damaged database.
#[derive(Debug)]
pub struct Repair {
    layout: Layout,
    /// By key; of each key the newest version first, and of each version the best place.
    found: Vec<Found>,
    unknown: Vec<Unknown>,
    parts: BTreeMap<u64, BTreeSet<u32>>,
    gaps: Vec<LogGap>,
    cut_off: BTreeSet<Key>,
}

/// What is left of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its value.
    Value(Vec<u8>),
    /// The value of an older version, and why the newest that is known cannot be read.
    Older {
        /// The older value.
        value: Vec<u8>,
        /// What is wrong with the newer one.
        damage: Corruption,
    },
    /// Nothing, and why the newest version that is known cannot be read.
    Lost(Corruption),
}

impl Repair {
    /// Looks at all of an image. `segment_bytes` is used if nothing in it tells the size of its segments; `progress` is told how many bytes were looked at.
    ///
    /// # Errors
    /// [`NoDatabase`].
    pub fn of(
        image: &mut dyn Image,
        segment_bytes: Option<u64>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Repair, NoDatabase> {
        let layout = find(image, segment_bytes)?;
        let scanned = scan(image, &layout, progress);
        let log = chain(&scanned, &layout, &mut |frame| {
            let mut records = scanned.records[frame.records.clone()].iter();
            records.all(|record| match &record.place {
                Place::Extent(pointer) if record.is_commit => {
                    value::chunks(image, &layout, pointer).is_ok()
                }
                _ => true,
            })
        });
        let mut pages = Pages::new(image, &layout);
        let mut checkpoint = match &layout.superblock {
            Some(superblock) => read_checkpoint(&mut pages, &layout, superblock),
            None => Default::default(),
        };
        if log.replay.is_none() {
            // Even what a superblock leads to may be older than what counts.
            checkpoint.unknown = vec![Unknown::everything()];
        }
        let mut references = std::mem::take(&mut pages.references);
        let was_read = pages.into_read();
        let mut found = checkpoint.found;
        let mut counts: Vec<Counts> = scanned
            .records
            .iter()
            .map(|record| log.counts(&scanned, record))
            .collect();
        if !checkpoint.unknown.is_empty() {
            references.extend_from_slice(&scanned.references);
            let mut strays = stray::entries(image, &layout, references, &was_read);
            let numbers = Numbers::of(&scanned, &counts);
            strays.retain(|it| numbers.allow(it.sequence, &it.key));
            found.append(&mut strays);
            for (record, counts) in scanned.records.iter().zip(&mut counts) {
                if *counts == Counts::As(Source::Stray)
                    && !numbers.allow(record.sequence, &record.key)
                {
                    *counts = Counts::Not;
                }
            }
        }
        let mut parts = scanned.segments.clone();
        for (logical, physical) in checkpoint.parts {
            parts.entry(logical).or_default().insert(physical);
        }
        let mut cut_off = BTreeSet::new();
        for (record, counts) in scanned.records.into_iter().zip(counts) {
            match counts {
                Counts::As(source) => found.push(Found {
                    key: record.key,
                    sequence: record.sequence,
                    place: record.place,
                    source,
                }),
                Counts::CutOff => drop(cut_off.insert(record.key)),
                Counts::Not => {}
            }
        }
        found.sort_by(|one, other| {
            let by_version = (other.sequence, other.source).cmp(&(one.sequence, one.source));
            one.key.cmp(&other.key).then(by_version)
        });
        let mut unknown = checkpoint.unknown;
        unknown.sort_by(|one, other| one.span.from.cmp(&other.span.from));
        Ok(Repair {
            layout,
            found,
            unknown,
            parts,
            gaps: log.gaps,
            cut_off,
        })
    }

    /// Bytes of a segment.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.layout.geometry.segment_bytes
    }

    /// How many bytes the image is shorter than it was, at least.
    #[must_use]
    pub fn missing_bytes(&self, image: &dyn Image) -> u64 {
        let superblock = self.layout.superblock.as_ref();
        let end = superblock.map_or(0, |it| {
            self.layout.geometry.segment_offset(it.segment_count)
        });
        end.saturating_sub(image.len_bytes())
    }

    /// The copies of the superblock that are not whole, of 0 to 3.
    #[must_use]
    pub fn damaged_superblocks(&self) -> &[u16] {
        &self.layout.damaged_copies
    }

    /// The parts of the log that cannot be read, ascending.
    #[must_use]
    pub fn log_gaps(&self) -> &[LogGap] {
        &self.gaps
    }

    /// The keys of puts and deletes that were found behind the end of the log, ascending. They do not count, as nothing says that they were durable.
    pub fn cut_off(&self) -> impl Iterator<Item = &[u8]> {
        self.cut_off.iter().map(Key::bytes)
    }

    /// The ranges of keys of which pages of the index are damaged, ascending; none touches another.
    #[must_use]
    pub fn unknown(&self) -> Vec<KeySpan> {
        let mut merged: Vec<KeySpan> = Vec::new();
        for Unknown { span, .. } in &self.unknown {
            match merged.last_mut() {
                Some(last) if last.to.as_ref().is_none_or(|to| *to >= span.from) => {
                    let is_longer = match (&last.to, &span.to) {
                        (None, _) => false,
                        (Some(_), None) => true,
                        (Some(last), Some(to)) => to > last,
                    };
                    if is_longer {
                        last.to.clone_from(&span.to);
                    }
                }
                _ => merged.push(span.clone()),
            }
        }
        merged
    }

    /// Hands out all keys of which anything is left or known to be lost, ascending. Values are read one at a time.
    ///
    /// # Errors
    /// The first that `take` returns.
    pub fn each<E>(
        &self,
        image: &mut dyn Image,
        mut take: impl FnMut(&[u8], Outcome) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut active: Vec<&Unknown> = Vec::new();
        let mut coming = self.unknown.iter().peekable();
        for versions in self.found.chunk_by(|one, other| one.key == other.key) {
            let key: &Key = &versions[0].key;
            while let Some(unknown) = coming.next_if(|it| &it.span.from[..] <= key.bytes()) {
                active.push(unknown);
            }
            active.retain(|it| it.span.contains(key.bytes()));
            if let Some(outcome) = self.outcome(image, versions, &active) {
                take(key.bytes(), outcome)?;
            }
        }
        Ok(())
    }

    /// What is left of a key; `None` if it is not there.
    fn outcome(
        &self,
        image: &mut dyn Image,
        versions: &[Found],
        unknown: &[&Unknown],
    ) -> Option<Outcome> {
        let regular = versions.iter().position(|it| it.source > Source::Stray);
        let is_certain = |at: usize| match versions[at].source {
            Source::Run(run) => unknown.iter().all(|it| it.run <= run),
            Source::Log => true,
            Source::Stray | Source::StrayLeaf => false,
        };
        let first = match regular {
            Some(at) if is_certain(at) => at,
            None if unknown.is_empty() => return None,
            _ => 0,
        };
        // Another place of the same version may be better, and comes before it only if it is.
        let newest = versions[first].sequence;
        let mut damage = None;
        for version in versions.iter().filter(|it| it.sequence <= newest) {
            match value::read(image, &self.layout, &self.parts, version) {
                Ok(Some(value)) => {
                    return Some(match damage {
                        Some(damage) if version.sequence < newest => {
                            Outcome::Older { value, damage }
                        }
                        _ => Outcome::Value(value),
                    });
                }
                // It is deleted, or was before what is lost.
                Ok(None) => break,
                Err(odd) => damage = damage.or(Some(odd)),
            }
        }
        damage.map(Outcome::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Geometry;
    use crate::format::checksum::Identity;

    struct Nothing;

    impl Image for Nothing {
        fn len_bytes(&self) -> u64 {
            0
        }

        fn read(&mut self, _: u64, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn repair() -> Repair {
        Repair {
            layout: Layout {
                id: Identity::new([1; 16]),
                geometry: Geometry {
                    sector_bytes: 512,
                    block_bytes: 4096,
                    segment_bytes: 65_536,
                },
                segments: 0,
                superblock: None,
                damaged_copies: Vec::new(),
            },
            found: Vec::new(),
            unknown: Vec::new(),
            parts: BTreeMap::new(),
            gaps: Vec::new(),
            cut_off: BTreeSet::new(),
        }
    }

    /// A version whose value is its sequence number, or a deletion, or one that cannot be read.
    fn version(what: char, sequence: u8, source: Source) -> Found {
        let place = match what {
            'v' => Place::Inline([sequence].into()),
            'd' => Place::Tombstone,
            _ => Place::Log {
                lsn: 5000,
                value_bytes: 1,
                tag: 0,
            },
        };
        Found {
            key: Key::new(b"key"),
            sequence: sequence.into(),
            place,
            source,
        }
    }

    /// Goal: the right version of a key counts. Method: versions of each source that have a value, are deletions or cannot be read, with runs that are known and that are not.
    #[test]
    fn the_right_version_counts() {
        use Source::{Log, Run, Stray, StrayLeaf};
        // What there is, newest first; the run that is not known; the value of the outcome, whether it is an older one, and `None` for a key that is not there. A lost one has no value.
        type Case = (
            &'static [(char, u8, Source)],
            Option<usize>,
            Option<(Option<u8>, bool)>,
        );
        let value = |value: u8| Some((Some(value), false));
        let cases: &[Case] = &[
            // The newest of checkpoint and log, whatever else there is.
            (&[('v', 5, Run(0))], None, value(5)),
            (&[('v', 9, Stray), ('v', 5, Run(0))], None, value(5)),
            (&[('v', 7, Log), ('v', 5, Run(0))], None, value(7)),
            (&[('d', 7, Log), ('v', 5, Run(0))], None, None),
            (&[('d', 7, Run(1)), ('v', 5, Run(0))], None, None),
            // What only others have was deleted.
            (&[('v', 5, Stray)], None, None),
            // A newer run is not known.
            (&[('v', 9, Stray), ('v', 5, Run(0))], Some(1), value(9)),
            (&[('d', 9, Stray), ('v', 5, Run(0))], Some(1), None),
            (&[('v', 5, Run(0))], Some(1), value(5)),
            (&[('v', 9, StrayLeaf)], Some(0), value(9)),
            // One that is not known but no newer one changes nothing.
            (&[('v', 9, Stray), ('v', 5, Run(1))], Some(1), value(5)),
            (&[('v', 9, Stray), ('v', 5, Log)], Some(1), value(5)),
            // The same version elsewhere, an older one, or none.
            (&[('x', 5, Log), ('v', 5, Stray)], None, value(5)),
            (
                &[('x', 5, Log), ('v', 4, Stray)],
                None,
                Some((Some(4), true)),
            ),
            (&[('x', 5, Log), ('d', 4, Stray)], None, Some((None, true))),
            (&[('x', 5, Log)], None, Some((None, true))),
            (
                &[('x', 5, Log), ('d', 4, Stray), ('v', 3, Stray)],
                None,
                Some((None, true)),
            ),
        ];
        for (versions, run, expected) in cases {
            let found: Vec<Found> = versions
                .iter()
                .map(|(what, sequence, source)| version(*what, *sequence, *source))
                .collect();
            let unknown = run.map(|run| Unknown {
                run,
                ..Unknown::everything()
            });
            let unknown: Vec<&Unknown> = unknown.iter().collect();
            let outcome = repair().outcome(&mut Nothing, &found, &unknown);
            let seen = outcome.map(|it| match it {
                Outcome::Value(value) => (value.first().copied(), false),
                Outcome::Older { value, .. } => (value.first().copied(), true),
                Outcome::Lost(_) => (None, true),
            });
            assert_eq!(seen, *expected, "{versions:?} {run:?}");
        }
    }

    /// Goal: ranges that touch become one. Method: ranges in each other, beside each other and apart.
    #[test]
    fn ranges_that_touch_are_one() {
        let span = |from: &[u8], to: Option<&[u8]>| KeySpan {
            from: from.into(),
            to: to.map(Into::into),
        };
        let mut repair = repair();
        let spans = [
            span(b"a", Some(b"d")),
            span(b"b", Some(b"c")),
            span(b"d", Some(b"e")),
            span(b"f", Some(b"g")),
            span(b"h", None),
            span(b"i", Some(b"j")),
        ];
        repair
            .unknown
            .extend(spans.map(|span| Unknown { span, run: 0 }));
        let merged = [
            span(b"a", Some(b"e")),
            span(b"f", Some(b"g")),
            span(b"h", None),
        ];
        assert_eq!(repair.unknown(), merged);
    }
}
