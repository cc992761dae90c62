//! What a checkpoint writes anew, and where its changes are enough.
//!
//! A partition is written anew when the runs behind its base have come to half of its size: then each change costs three entries, one in a run and two in
//! the next base, whatever the size of the index. Few are written anew at a time, those first that gain the most; and a few of those with the most runs, as there may be only
//! so many. Two small neighbours become one. Where a
//! partition gets a run, its newest ones may become one with that (`joins.rs`).
//!
//! What the index takes of the device is bounded: by what it would take if all of it was written anew, and a quarter (`Core::index_segments`). Where the runs would
//! go beyond that, the partitions in the emptiest segments are written anew, down to all of them.
//!
//! Invariant: whatever is chosen, the segments of pages that stay and those that the checkpoint may take are together no more than that bound, unless
//! everything is written anew.

mod joins;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::checkpoint::runs::{FIRST_KEY, Partition, RUNS_MAX, segments_of_runs};
use crate::core::Core;
use crate::format::page::RUN_ROOTS_BYTES;
use crate::index::key::Key;
use joins::Join;

/// What a checkpoint does with a part of the keys.
#[derive(Debug)]
pub(super) enum Part {
    /// Writes all keys from this one on, as bases. Whatever runs they had are not needed any more.
    Anew { from: Key },
    /// Adds a run of what has changed to those of the partition.
    Changes(Partition),
    /// Writes what has changed, and what the runs from this number on have, as one run in their place.
    Joined(Partition, usize),
    /// Writes what has changed of the keys from this one on, as bases. No run has any of them.
    Appended { from: Key },
}

impl Part {
    /// The lower bound of its keys.
    pub(super) fn from(&self) -> &Key {
        match self {
            Part::Anew { from } | Part::Appended { from } => from,
            Part::Changes(partition) | Part::Joined(partition, _) => &partition.from,
        }
    }
}

/// What is written, and where.
#[derive(Debug)]
pub(super) struct Choice {
    /// One behind the other, all keys together.
    pub(super) parts: Vec<Part>,
    /// Segments whose pages are still referred to.
    pub(super) kept: Vec<u32>,
    /// Where the first page may be placed.
    pub(super) end: Option<(u32, u64)>,
    /// How many free segments may be taken.
    pub(super) segments_max: u64,
    /// Bytes of pages that will be written, about.
    pub(super) bytes: u64,
    /// Whether runs get filters on the device. Where everything is written anew there is always room, but not for these.
    pub(super) takes_filters: bool,
}

impl Choice {
    /// Everything is written anew, and there is always room for that.
    pub(super) fn everything(core: &Core) -> Choice {
        Choice {
            parts: vec![Part::Anew {
                from: Key::new(FIRST_KEY),
            }],
            kept: Vec::new(),
            end: None,
            segments_max: u64::MAX,
            bytes: core.index.pages_bytes(),
            takes_filters: false,
        }
    }

    /// Whether everything is written anew.
    pub(super) fn is_everything(&self) -> bool {
        matches!(&self.parts[..], [Part::Anew { .. }])
    }

    /// Whether keys behind all others get partitions of their own.
    pub(super) fn appends(&self) -> bool {
        matches!(self.parts.last(), Some(Part::Appended { .. }))
    }

    /// Chooses for the index as it is now. Keys from `appended` on, of which the runs have none, get partitions of their own.
    pub(super) fn new(core: &Core, appended: Option<Key>) -> Choice {
        let partitions = &core.runs.partitions;
        let estimate = Estimate::new(core);
        let anew = estimate.choose(core);
        if anew.iter().all(|it| *it) {
            return Choice {
                segments_max: core.checkpoint_segments(core.index.pages_bytes()),
                takes_filters: true,
                ..Choice::everything(core)
            };
        }
        let mut parts: Vec<Part> = Vec::new();
        for (at, (partition, anew)) in partitions.iter().zip(&anew).enumerate() {
            match (anew, parts.last(), estimate.sizes[at].join) {
                (true, Some(Part::Anew { .. }), _) => {}
                (true, ..) => parts.push(Part::Anew {
                    from: partition.from.clone(),
                }),
                (false, _, None) => parts.push(Part::Changes(partition.clone())),
                (false, _, Some(join)) => parts.push(Part::Joined(partition.clone(), join.first)),
            }
        }
        if matches!(parts.last(), Some(Part::Changes(_) | Part::Joined(..))) {
            parts.extend(appended.map(|from| Part::Appended { from }));
        }
        let kept = estimate.kept(core, &anew);
        let bound = core.index_segments(core.index.pages_bytes());
        Choice {
            parts,
            end: core.runs.end.filter(|(end, _)| kept.contains_key(end)),
            segments_max: bound.saturating_sub(kept.len() as u64),
            bytes: estimate.written(&anew).max(estimate.changed),
            kept: kept.into_keys().collect(),
            takes_filters: true,
        }
    }
}

/// What is known of a partition's runs, and what is to come.
#[derive(Debug, Clone, Copy)]
struct Size {
    base: u64,
    /// Behind the base.
    changes: u64,
    /// That the next run would add, on average.
    coming: u64,
    runs: usize,
    /// Those that are joined with the next one.
    join: Option<Join>,
}

impl Size {
    fn grown(self) -> u64 {
        self.changes + self.coming
    }

    /// Of its base, if it was written anew.
    fn anew(self) -> u64 {
        self.base + self.grown()
    }
}

#[derive(Debug)]
struct Estimate {
    sizes: Vec<Size>,
    coming: u64,
    /// What all that has changed takes of pages, about.
    changed: u64,
}

impl Estimate {
    fn new(core: &Core) -> Estimate {
        let (counted, about) = (core.index.len().max(1), core.index.len_about().max(1));
        let keys = u128::from(about);
        let changes = u128::from(core.index.changes_count());
        let pages = u128::from(core.index.pages_bytes()) * keys / u128::from(counted);
        let block = core.geometry.block_bytes;
        // Twice its size is as good as any more.
        let share = |base: u64| {
            let share = (u128::from(base) * changes / keys).min(2 * u128::from(base));
            u64::try_from(share).expect("it is no more than twice the base")
        };
        let sizes = core.runs.partitions.iter().map(|it| Size {
            base: it.base_bytes(),
            changes: it.changes_bytes(),
            // Half a block is left over at the end of a run, or a whole one where it has two levels.
            coming: share(it.base_bytes()) + block,
            runs: it.runs.len(),
            join: None,
        });
        let mut estimate = Estimate {
            sizes: sizes.collect(),
            coming: share(core.runs.base_bytes()),
            changed: u64::try_from(pages * changes / keys).unwrap_or(u64::MAX),
        };
        estimate.choose_joined(core);
        estimate
    }

    /// Where runs are joined with the next one: so that a key is looked for in few runs, and a scan reads few leaves. Those first that get rid of the most runs, and
    /// a few in each checkpoint.
    fn choose_joined(&mut self, core: &Core) {
        // Loading reads the runs that there are.
        if core.loading.is_some() {
            return;
        }
        let partitions = core.runs.partitions.iter().zip(&self.sizes).enumerate();
        let joins = partitions.filter_map(|(at, (partition, size))| {
            Join::of(partition, size.coming).map(|join| (at, join))
        });
        let mut joins: Vec<(usize, Join)> = joins.collect();
        joins.sort_by_key(|(at, join)| (Reverse(join.runs), *at));
        let enough = self.enough(core);
        let mut taken = 0;
        for (at, join) in joins {
            if taken == 0 || taken + join.bytes <= enough {
                taken += join.bytes;
                self.sizes[at].join = Some(join);
            }
        }
    }

    /// Segments of what stays, and how many bytes of it each has.
    fn kept(&self, core: &Core, anew: &[bool]) -> BTreeMap<u32, u64> {
        let all = core.runs.partitions.iter().zip(&self.sizes).zip(anew);
        let staying = all.filter(|(_, anew)| !**anew).map(|((it, size), _)| {
            let runs = size.join.map_or(it.runs.len(), |join| join.first);
            &it.runs[..runs]
        });
        segments_of_runs(staying.flatten())
    }

    /// Which partitions are written anew.
    fn choose(&self, core: &Core) -> Vec<bool> {
        let mut anew = vec![false; self.sizes.len()];
        self.choose_grown(core, &mut anew);
        self.choose_small(core, &mut anew);
        self.choose_for_space(core, &mut anew);
        anew
    }

    /// Those whose changes have grown, up to twice what the changes to come are worth on average.
    fn choose_grown(&self, core: &Core, anew: &mut [bool]) {
        let is_due = |at: &usize| 2 * self.sizes[*at].grown() >= self.sizes[*at].base;
        let mut due: Vec<usize> = (0..self.sizes.len()).filter(is_due).collect();
        due.sort_by_key(|at| {
            let size = self.sizes[*at];
            let gain = u128::from(size.grown()) * 1024 / u128::from(size.base.max(1));
            (Reverse(gain), *at)
        });
        let enough = self.enough(core);
        let mut taken = 0;
        for at in due {
            let size = self.sizes[at];
            if taken == 0 || taken + size.anew() <= enough {
                taken += size.anew();
                anew[at] = true;
            }
        }
        self.choose_old(anew);
    }

    /// Those that have the most runs, a few in each checkpoint: so that never many come to have too many at once, which would make one checkpoint take as long as all keys do.
    fn choose_old(&self, anew: &mut [bool]) {
        let mut with_runs = [0; RUNS_MAX + 1];
        for size in &self.sizes {
            with_runs[size.runs.min(RUNS_MAX)] += 1;
        }
        // So many have to be written anew by the checkpoint that comes so many after this one.
        let mut due = 0;
        let later = with_runs.iter().rev().take(RUNS_MAX / 2);
        let paces = later.zip(1..).map(|(more, checkpoints)| {
            due += more;
            due / checkpoints
        });
        let pace: usize = paces.max().expect("there is at least the first");
        let mut oldest: Vec<usize> = (0..self.sizes.len()).collect();
        oldest.sort_by_key(|at| Reverse(self.sizes[*at].runs));
        for at in oldest.into_iter().take(pace) {
            anew[at] = true;
        }
    }

    /// Neighbours that are together far smaller than a partition is to be. A growing index comes to have many of them at once: then a few in each checkpoint.
    fn choose_small(&self, core: &Core, anew: &mut [bool]) {
        let small = core.partition_bytes(core.index.pages_bytes()) / 2;
        let enough = self.enough(core);
        let mut taken = 0;
        for at in 1..self.sizes.len() {
            let both = self.sizes[at - 1].anew() + self.sizes[at].anew();
            if both < small && taken < enough {
                taken += both;
                anew[at - 1] = true;
                anew[at] = true;
            }
        }
    }

    /// So much that stands in runs is written again by one checkpoint for one reason.
    fn enough(&self, core: &Core) -> u64 {
        (4 * self.coming).max(core.partition_bytes(core.index.pages_bytes()))
    }

    /// Those in the emptiest segments, until the index takes no more segments than it may.
    fn choose_for_space(&self, core: &Core, anew: &mut [bool]) {
        let partitions = &core.runs.partitions;
        let bound = core.index_segments(core.index.pages_bytes());
        while anew.iter().any(|it| !it) {
            let kept = self.kept(core, anew);
            if kept.len() as u64 + self.new_segments(core, anew, &|it| kept.contains_key(&it))
                <= bound
            {
                return;
            }
            let emptiest = kept
                .iter()
                .min_by_key(|(physical, bytes)| (**bytes, **physical));
            let (emptiest, _) = emptiest.expect("what stays has pages");
            let lies_there = |partition: &Partition| {
                let mut pieces = partition.runs.iter().flat_map(|run| &run.pieces);
                pieces.any(|piece| piece.physical == *emptiest)
            };
            for (anew, partition) in anew.iter_mut().zip(partitions.iter()) {
                *anew |= lies_there(partition);
            }
        }
    }

    /// How many bytes of runs are written, on average.
    fn written(&self, anew: &[bool]) -> u64 {
        let written = self.sizes.iter().zip(anew).map(|(size, anew)| match anew {
            true => size.anew(),
            false => size.coming + size.join.map_or(0, |join| join.bytes),
        });
        written.sum()
    }

    /// How many free segments it takes, on average.
    fn new_segments(&self, core: &Core, anew: &[bool], is_kept: &dyn Fn(u32) -> bool) -> u64 {
        let block = core.geometry.block_bytes;
        let entry = |it: &Partition| it.from.bytes().len() + (it.runs.len() + 1) * RUN_ROOTS_BYTES;
        let list: usize = core.runs.partitions.iter().map(entry).sum();
        let table = u64::from(core.segments.count()) * 20;
        let all = self.written(anew) + list as u64 + table + 2 * block;
        let room = core.runs.end.filter(|(end, _)| is_kept(*end));
        let room = room.map_or(0, |(_, used)| core.geometry.segment_bytes - used);
        all.saturating_sub(room)
            .div_ceil(core.geometry.segment_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::config::{Config, DeviceInfo, Settings};
    use crate::checkpoint::runs::{Piece, Run};
    use crate::format::page::PageRef;
    use crate::index::place::{Place, Version};
    use crate::segments::usage::Segments;

    const SEGMENT: u64 = 65_536;
    const BLOCK: u64 = 512;
    /// The size at which a base is cut.
    const CUT: u64 = 128 * BLOCK;

    /// An index of so many keys, and partitions: of each what base and changes take, and in which segment they lie.
    fn core(keys: u64, partitions: &[(u64, u64, u32)]) -> Core {
        let config = Config {
            device: DeviceInfo {
                sector_bytes: 512,
                physical_block_bytes: 512,
                volatile_cache: true,
                write_through: false,
                capacity_bytes: 1 << 26,
                max_capacity_bytes: 1 << 26,
            },
            memory_bytes_max: 0,
            db_id: [1; 16],
            options: format!("segment_bytes={SEGMENT}"),
        };
        let mut core = Core::new(0, Settings::new(&config).expect("is right"));
        core.segments = Segments::new(core.geometry, 1000);
        for n in 0..keys {
            let place = Place::Inline([7; 100].into());
            core.index
                .set(&n.to_be_bytes(), Version { sequence: 1, place });
        }
        core.index.forget_changes();
        for (at, (base, changes, physical)) in partitions.iter().enumerate() {
            let run = |bytes: &u64| Run {
                root: PageRef::NONE,
                filter: PageRef::NONE,
                pieces: vec![Piece {
                    physical: *physical,
                    bytes: *bytes,
                }],
                leaves: None,
                last: None,
                weight: None,
            };
            let runs = [base, changes].into_iter().filter(|bytes| **bytes > 0);
            let from = match at {
                0 => FIRST_KEY.to_vec(),
                _ => vec![0, crate::format::len32(at).to_le_bytes()[0]],
            };
            let partitions = std::sync::Arc::make_mut(&mut core.runs.partitions);
            partitions.push(Partition {
                from: Key::new(&from),
                runs: runs.map(run).collect(),
                whole: true,
            });
        }
        core
    }

    fn anew(core: &Core) -> Vec<usize> {
        let all = Estimate::new(core).choose(core);
        (0..all.len()).filter(|at| all[*at]).collect()
    }

    /// Goal: what has grown most is written anew, little at a time, and nothing else. Method: partitions that have grown by much, by enough, and by too little.
    #[test]
    fn what_has_grown_is_written_anew() {
        let partitions = [
            (CUT, CUT / 4, 1),
            (CUT, CUT * 3 / 4, 2),
            (CUT, CUT * 5 / 8, 3),
            (CUT, 0, 4),
        ];
        assert_eq!(anew(&core(4_000, &partitions)), [1]);
        // Where more is to come, more is written.
        let mut core = core(4_000, &partitions);
        for slot in 0..1_000_u64 {
            let place = Place::Inline([8; 100].into());
            core.index
                .set(&slot.to_be_bytes(), Version { sequence: 2, place });
        }
        assert_eq!(anew(&core), [1, 2]);
    }

    /// Goal: no partition comes to have more runs than it may, and no checkpoint writes many anew at once. Method: so many partitions that were written at the same time, and
    /// checkpoints that add a run to each, until all were written anew several times.
    #[test]
    fn partitions_age_apart() {
        for count in [1, 2, 7, 24, 100] {
            let size = Size {
                base: CUT,
                changes: 0,
                coming: 0,
                runs: 1,
                join: None,
            };
            let mut estimate = Estimate {
                sizes: vec![size; count],
                coming: 0,
                changed: 0,
            };
            let mut written = vec![0; count];
            let most = (0..100).map(|_| {
                let mut anew = vec![false; count];
                estimate.choose_old(&mut anew);
                for (at, size) in estimate.sizes.iter_mut().enumerate() {
                    size.runs = if anew[at] { 1 } else { size.runs + 1 };
                    written[at] += u32::from(anew[at]);
                    assert!(size.runs <= RUNS_MAX);
                }
                anew.iter().filter(|it| **it).count()
            });
            let most = most.max().unwrap_or(0);
            assert!(most <= 1 + count / 11, "{most} of {count} at once");
            // Nor is any written more often than it has to be, but for the first time.
            assert!(
                written.iter().all(|times| (4..=8).contains(times)),
                "{written:?}"
            );
        }
    }

    /// Goal: small neighbours become one, and a small partition beside a large one stays. Method: both.
    #[test]
    fn small_neighbours_become_one() {
        let partitions = [
            (CUT, 0, 1),
            (CUT / 8, 0, 1),
            (CUT, 0, 2),
            (CUT / 8, 0, 1),
            (CUT / 8, 0, 1),
        ];
        let core = core(4_000, &partitions);
        assert_eq!(anew(&core), [3, 4]);
        let choice = Choice::new(&core, None);
        let parts = choice
            .parts
            .iter()
            .map(|part| matches!(part, Part::Anew { .. }));
        assert_eq!(parts.collect::<Vec<_>>(), [false, false, false, true]);
        assert_eq!(choice.kept, [1, 2]);
        assert!(!choice.is_everything());
    }

    /// Goal: what stays and what may be taken is no more than the index may have. Method: every partition in a segment of its own that it hardly uses, more and more
    /// of them.
    #[test]
    fn the_emptiest_segments_are_emptied() {
        let mut some = 0;
        for count in 1..40 {
            let partitions: Vec<(u64, u64, u32)> = (0..count)
                .map(|at| (CUT / 2 + u64::from(at), 0, at))
                .collect();
            let core = core(2_000, &partitions);
            let bound = core.index_segments(core.index.pages_bytes());
            let choice = Choice::new(&core, None);
            if choice.is_everything() {
                continue;
            }
            assert!(choice.kept.len() as u64 + choice.segments_max <= bound);
            let anew = anew(&core);
            // They are sorted by how empty they are.
            assert!(anew.iter().copied().eq(0..anew.len()), "{anew:?}");
            some += u64::from(!anew.is_empty());
        }
        assert!(some > 0, "some were emptied and others not");
    }

    /// Goal: an index that is not there yet, or hardly there any more, is written as a whole. Method: no partition, and one whose keys were all removed.
    #[test]
    fn everything_is_written_where_nothing_is() {
        assert!(Choice::new(&core(100, &[]), None).is_everything());
        let mut core = core(100, &[(CUT, 0, 1)]);
        for n in 0..100_u64 {
            let place = Place::Tombstone;
            core.index
                .set(&n.to_be_bytes(), Version { sequence: 2, place });
        }
        assert!(Choice::new(&core, None).is_everything());
    }
}
