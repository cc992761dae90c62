//! The ordered cache beside a map that plays the engine.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;

use kvsim_engine::{Direction, ScanRange};
use quickcheck::{Arbitrary, Gen, quickcheck};

use super::*;
use crate::cache::borrowed::row_of;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
/// Keys with their values, and whether there are more.
type Answer = (Vec<(Vec<u8>, Vec<u8>)>, bool);

/// What happens to the cache.
#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, u8),
    Delete(Vec<u8>),
    /// All keys between two bounds were found.
    Fill(Option<Vec<u8>>, Option<Vec<u8>>),
    Scan(Asked),
    Forget(Vec<u8>),
    Evict,
}

#[derive(Debug, Clone)]
struct Asked {
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
    reverse: bool,
    limit: u32,
    max_bytes: u32,
}

/// Keys of few different bytes, some of them longer than what lies in place.
fn key(g: &mut Gen) -> Vec<u8> {
    let mut key = vec![b'k'; usize::from(u8::arbitrary(g) % 2) * 15];
    key.extend_from_slice(&(u16::arbitrary(g) % 600).to_be_bytes());
    key
}

fn bound(g: &mut Gen) -> Option<Vec<u8>> {
    (!u8::arbitrary(g).is_multiple_of(8)).then(|| key(g))
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Step {
        match u8::arbitrary(g) % 32 {
            0..12 => Step::Put(key(g), u8::arbitrary(g)),
            12..18 => Step::Delete(key(g)),
            18..21 => Step::Fill(bound(g), bound(g)),
            21 => Step::Forget(key(g)),
            22 => Step::Evict,
            _ => Step::Scan(Asked {
                start: bound(g),
                end: bound(g),
                reverse: bool::arbitrary(g),
                limit: u32::arbitrary(g) % 200,
                max_bytes: *g.choose(&[0, 500, 3000, u32::MAX]).expect("some"),
            }),
        }
    }
}

fn between<'a>(
    model: &'a Model,
    start: &[u8],
    end: Option<&Vec<u8>>,
) -> Range<'a, Vec<u8>, Vec<u8>> {
    let end = end.map_or(Bound::Unbounded, Bound::Excluded);
    model.range::<Vec<u8>, _>((Bound::Included(&start.to_vec()), end))
}

fn is_empty(start: &[u8], end: Option<&Vec<u8>>) -> bool {
    end.is_some_and(|end| start >= &end[..])
}

/// What the engine answers.
fn expected(model: &Model, asked: &Asked) -> Answer {
    let start = asked.start.clone().unwrap_or_default();
    if is_empty(&start, asked.end.as_ref()) {
        return (Vec::new(), false);
    }
    let mut all: Vec<_> = between(model, &start, asked.end.as_ref()).collect();
    if asked.reverse {
        all.reverse();
    }
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (key, value) in all {
        bytes += key.len() + value.len();
        let full = found.len() == asked.limit.max(1) as usize;
        if full || (!found.is_empty() && bytes > asked.max_bytes as usize) {
            return (found, true);
        }
        found.push((key.clone(), value.clone()));
    }
    (found, false)
}

fn scan(ranges: &Ranges, asked: &Asked) -> Option<Answer> {
    let direction = if asked.reverse {
        Direction::Reverse
    } else {
        Direction::Forward
    };
    let found = ranges.scan(&ScanRange {
        snapshot: 0,
        direction,
        start: asked.start.as_deref(),
        end: asked.end.as_deref(),
        limit: asked.limit,
        max_bytes: asked.max_bytes,
    })?;
    let entries: Vec<_> = found
        .iter()
        .map(|entry| (entry.key.to_vec(), entry.value.to_vec()))
        .collect();
    assert_eq!(found.len(), entries.len());
    Some((entries, found.more()))
}

fn fill(ranges: &mut Ranges, model: &Model, start: Option<&Vec<u8>>, end: Option<&Vec<u8>>) {
    let start = start.cloned().unwrap_or_default();
    if is_empty(&start, end) {
        return;
    }
    let rows: Vec<_> = between(model, &start, end)
        .map(|(key, value)| row_of(key, value))
        .collect();
    ranges.fill(
        Key::new(&start),
        end.map(|end| Key::new(end)).as_ref(),
        &rows,
    );
}

/// Spans are in order, do not overlap, hold only rows of their own, and cost what is counted.
fn check(ranges: &Ranges, model: &Model) {
    let mut bytes = 0;
    let mut before: Option<Option<Key>> = None;
    for (from, span) in &ranges.spans {
        if let Some(until) = before {
            assert!(until.is_some_and(|until| until <= *from), "spans overlap");
        }
        let until = span.until.as_ref().map(|key| key.bytes().to_vec());
        let rows = (0..span.leaf.len()).map(|at| span.leaf.entry(at));
        let held = between(model, from.bytes(), until.as_ref());
        assert!(rows.eq(held.map(|(key, value)| (&key[..], &value[..]))));
        assert!(span.leaf.len() <= LEAF_ROWS_MAX);
        bytes += span.cost(from);
        before = Some(span.until.clone());
    }
    assert_eq!(ranges.bytes, bytes);
}

quickcheck! {
    /// Goal: where the ordered cache answers, it answers as the engine would. Method: any steps, beside a map; what scans returned
    /// before is looked at again at the end.
    fn scans_are_answered_as_the_engine_would(steps: Vec<Step>) -> bool {
        let (mut ranges, mut model) = (Ranges::default(), Model::new());
        let all = (0_u16..600).map(|n| n.to_be_bytes().to_vec());
        model.extend(all.map(|key| (key, vec![0; 20])));
        let (mut borrowed, mut left) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Put(key, value) => {
                    let value = vec![value; usize::from(value)];
                    let _ = ranges.put(&key, &row_of(&key, &value), &mut left);
                    model.insert(key, value);
                }
                Step::Delete(key) => {
                    let _ = ranges.remove(&key, &mut left);
                    model.remove(&key);
                }
                Step::Fill(start, end) => fill(&mut ranges, &model, start.as_ref(), end.as_ref()),
                Step::Forget(key) => {
                    let _ = ranges.forget(&key);
                    assert!(ranges.span_of(&key).is_none());
                }
                Step::Evict => {
                    let before = ranges.spans.len();
                    let evicted = ranges.evict().is_some();
                    assert_eq!(ranges.spans.len() + usize::from(evicted), before);
                }
                Step::Scan(asked) => {
                    let found = scan(&ranges, &asked);
                    assert!(found.is_none_or(|found| found == expected(&model, &asked)));
                    // Once its range is filled it is answered.
                    fill(&mut ranges, &model, asked.start.as_ref(), asked.end.as_ref());
                    assert_eq!(scan(&ranges, &asked), Some(expected(&model, &asked)));
                    let range = ScanRange {
                        snapshot: 0,
                        direction: Direction::Forward,
                        start: asked.start.as_deref(),
                        end: asked.end.as_deref(),
                        limit: asked.limit,
                        max_bytes: asked.max_bytes,
                    };
                    let forward = Asked { reverse: false, ..asked.clone() };
                    borrowed.push((ranges.scan(&range).expect("it is filled"), expected(&model, &forward)));
                }
            }
            check(&ranges, &model);
        }
        borrowed.iter().all(|(found, (entries, more))| {
            let found_entries = found.iter().map(|entry| (entry.key, entry.value));
            found.more() == *more
                && found_entries.eq(entries.iter().map(|(key, value)| (&key[..], &value[..])))
        })
    }
}

/// Goal: keys that are deleted leave no trail of empty spans, and a range that nobody scans is given up by its writers. Method: a
/// queue: keys come at the end and go at the beginning; the first hundred is scanned now and then, later on nobody scans.
#[test]
fn a_queue_does_not_leave_empty_spans_behind() {
    let (mut ranges, mut left) = (Ranges::default(), Vec::new());
    ranges.fill(Key::new(b""), None, &[]);
    let all = Asked {
        start: None,
        end: None,
        reverse: false,
        limit: 200,
        max_bytes: u32::MAX,
    };
    for n in 0_u32..5000 {
        let key = n.to_be_bytes();
        let put = ranges.put(&key, &row_of(&key, b"value"), &mut left);
        assert!(
            matches!(put, Put::Here { .. }),
            "everything is in the range"
        );
        if n >= 100 {
            let oldest = (n - 100).to_be_bytes();
            assert!(ranges.remove(&oldest, &mut left).is_some());
        }
        if n % 50 == 0 {
            assert!(scan(&ranges, &all).is_some());
        }
    }
    assert!(ranges.spans.len() <= 6, "{} spans", ranges.spans.len());
    assert!(left.is_empty());
    for n in 5000_u32..6000 {
        let key = n.to_be_bytes();
        let _ = ranges.put(&key, &row_of(&key, b"value"), &mut left);
    }
    assert!(ranges.span_of(&5999_u32.to_be_bytes()).is_none());
    assert!(!left.is_empty());
}

/// Goal: what scans use stays. Method: one range is scanned again and again while others come and go.
#[test]
fn a_range_that_is_used_survives() {
    let mut ranges = Ranges::default();
    for n in 0_u32..20 {
        let (from, until) = (n * 2, n * 2 + 1);
        let rows = [row_of(&from.to_be_bytes(), b"value")];
        let until = Key::new(&until.to_be_bytes());
        ranges.fill(Key::new(&from.to_be_bytes()), Some(&until), &rows);
    }
    let used = Asked {
        start: Some(14_u32.to_be_bytes().to_vec()),
        end: Some(15_u32.to_be_bytes().to_vec()),
        reverse: false,
        limit: 10,
        max_bytes: u32::MAX,
    };
    for _ in 0..19 {
        assert!(scan(&ranges, &used).is_some());
        assert!(ranges.evict().is_some());
    }
    assert!(scan(&ranges, &used).is_some(), "all others have left");
    assert_eq!(ranges.spans.len(), 1);
}
