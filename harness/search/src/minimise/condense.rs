//! A few batches in place of a long history. A failure often needs no certain request but fullness: a log that has come
//! round to where it was before, or a device on which space is short. Batches that are loaded first bring that about,
//! and the last requests follow; on a smaller device fewer batches are enough.

use std::collections::BTreeSet;

use kvsim_sim::TraceMode;
use kvsim_sim::api::{Durability, Mutation, Request};

use super::Shrinking;
use super::find::Quest;
use super::setup::DIVISORS;
use super::site::Site;
use crate::explore::open::{Extent, Reach};
use kvsim_api::value::{self, FULL_BYTES_MIN, Stamp};
use kvsim_scenario::case::{Case, CaseRequest, CaseRun};
use kvsim_scenario::{OptionText, Scenario};
use kvsim_workload::PRELOAD_WRITER;

/// So many batches, and so many of the last requests after them.
pub(super) const SHAPES: [(usize, usize); 9] = [
    (1, 1),
    (2, 1),
    (1, 2),
    (2, 2),
    (3, 1),
    (3, 2),
    (4, 1),
    (1, 4),
    (2, 3),
];
/// The most batches among them.
const BATCHES_MAX: usize = 4;
/// Bytes of a batch: the largest of these that the guest takes, and some parts of that.
const BYTES: [usize; 9] = [
    60_000, 44_000, 28_000, 20_000, 14_000, 10_000, 7_000, 5_000, 3_000,
];
const PARTS: [usize; 3] = [1, 2, 8];
/// With every state of each recovery only so many of [`SHAPES`] are tried.
const DEEPER_SHAPES: usize = 4;
/// Mutations of a batch at most.
const MUTATIONS_MAX: usize = 512;
/// An option from this number on may be a size.
const SIZE_MIN: usize = 1_024;
/// A setup in which the guest takes no batches of so many bytes is of no use.
pub(super) const BYTES_MIN: usize = 3_000;
/// Work of one of these searches at most: there are many.
const QUOTA: u64 = 400_000_000;

impl Shrinking<'_> {
    /// The same class of failure after a few batches and then the last requests, on a blank device, cut anywhere.
    pub(super) fn condensed(&mut self, case: &Case) -> Option<Case> {
        let all: Vec<CaseRequest> = case.all_requests().cloned().collect();
        let is_uncut = case.crashes() == 0;
        let setups = self.setups(&all);
        for reach in [Reach::Recovery, Reach::Deeper] {
            let shapes = match reach {
                Reach::Deeper => &SHAPES[..DEEPER_SHAPES],
                _ => &SHAPES[..],
            };
            let reach = if is_uncut { Reach::Uncut } else { reach };
            for setup in &setups {
                let search = |this: &mut Self| {
                    let sizes = this.sizes(&all);
                    this.condensed_so(&all, reach, shapes, &sizes)
                };
                let found = self.with(|scenario| scenario.clone_from(setup), search);
                if found.is_some() || self.is_over() {
                    return found;
                }
            }
            if is_uncut {
                break;
            }
        }
        None
    }

    fn condensed_so(
        &mut self,
        all: &[CaseRequest],
        reach: Reach,
        shapes: &[(usize, usize)],
        sizes: &[usize],
    ) -> Option<Case> {
        for &(batches, last) in shapes {
            for &bytes in sizes {
                let wanted = one_run(condensed_to(all, batches, bytes, last)?);
                let quest = Quest {
                    site: Site::new(0, reach),
                    // What the batches lead up to comes last.
                    extent: Extent::Last,
                    quota: QUOTA,
                };
                if let Some(found) = self.seek(&wanted, quest, &[]) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The setup as it is; on the smallest device of those tried that the guest works on; and with the smallest sizes among its options that it takes there.
    pub(super) fn setups(&mut self, all: &[CaseRequest]) -> Vec<Scenario> {
        let mut setups = vec![self.scenario.clone()];
        let device = &self.scenario.device;
        let block = device.sector_bytes.max(device.physical_block_bytes);
        let number = device.capacity_bytes;
        let mut smallest = self.scenario.clone();
        let shrink = |scenario: &mut Scenario, smaller: u64| {
            let device = &mut scenario.device;
            device.capacity_bytes = smaller.next_multiple_of(block.into());
            device.max_capacity_bytes = 0;
        };
        // How much room files have makes no log shorter.
        let has_device = self.scenario.files.is_none();
        if has_device {
            self.smallest(&mut smallest, number, all, &shrink);
        }
        if smallest != self.scenario {
            setups.push(smallest.clone());
        }
        self.smallest_options(&mut smallest, all);
        // With small segments there is room on a smaller device.
        let number = smallest.device.capacity_bytes;
        if has_device {
            self.smallest(&mut smallest, number, all, &shrink);
        }
        if setups.last() != Some(&smallest) {
            setups.push(smallest);
        }
        setups
    }

    /// Makes each size among the options as small as the guest takes it in this setup.
    pub(super) fn smallest_options(&mut self, setup: &mut Scenario, all: &[CaseRequest]) {
        let options = self.scenario.guest.options_of(self.program.options_name());
        let numbers = options
            .iter()
            .filter_map(|(name, text)| Some((name.clone(), text.0.parse::<u64>().ok()?)));
        let sizes = numbers.filter(|(_, number)| *number >= SIZE_MIN as u64);
        for (name, number) in sizes.collect::<Vec<_>>() {
            self.smallest(setup, number, all, &|scenario, smaller| {
                let text = OptionText(smaller.to_string());
                scenario.guest.options.insert(name.clone(), text);
            });
        }
    }

    /// Bytes of batches that the guest takes, the most first.
    pub(super) fn sizes(&mut self, all: &[CaseRequest]) -> Vec<usize> {
        let largest = self.largest_batch(all);
        let parts = PARTS.into_iter().map(|part| largest.unwrap_or(0) / part);
        parts.filter(|bytes| *bytes >= SIZE_MIN / 2).collect()
    }

    /// Bytes of the largest batches that the guest takes, of those tried.
    pub(super) fn largest_batch(&mut self, all: &[CaseRequest]) -> Option<usize> {
        let script = std::mem::take(&mut self.scenario.faults.script);
        let mut sizes = BYTES.into_iter();
        let largest = sizes.find(|bytes| self.takes_batches(all, *bytes));
        self.scenario.faults.script = script;
        largest
    }

    /// Whether the guest does what it is asked with batches of so many bytes, on a blank device.
    pub(super) fn takes_batches(&mut self, all: &[CaseRequest], bytes: usize) -> bool {
        let Some(requests) = condensed_to(all, BATCHES_MAX, bytes, 0) else {
            return false;
        };
        let driven = self.drive(&one_run(requests), TraceMode::Off);
        driven.is_some_and(|driven| {
            let done = driven.oracle.counts().acknowledged_durable;
            driven.end.is_ok() && done == BATCHES_MAX as u64
        })
    }

    /// Sets the smallest number with which the guest does what it is asked.
    fn smallest(
        &mut self,
        setup: &mut Scenario,
        number: u64,
        all: &[CaseRequest],
        set: &dyn Fn(&mut Scenario, u64),
    ) {
        for smaller in DIVISORS.iter().map(|divisor| number / divisor) {
            let mut tried = setup.clone();
            set(&mut tried, smaller);
            let before = std::mem::replace(&mut self.scenario, tried.clone());
            let takes = self.takes_batches(all, BYTES_MIN);
            self.scenario = before;
            if takes {
                *setup = tried;
                return;
            }
        }
    }
}

/// A case of one process run.
pub(super) fn one_run(requests: Vec<CaseRequest>) -> Case {
    Case {
        process_runs: vec![CaseRun {
            requests,
            ..CaseRun::default()
        }],
        faults: Vec::new(),
    }
}

/// So many batches of so many bytes that are loaded, and then so many of the last requests; nothing if there are no more requests than that.
pub(super) fn condensed_to(
    all: &[CaseRequest],
    batches: usize,
    bytes: usize,
    last: usize,
) -> Option<Vec<CaseRequest>> {
    let first = all.len().checked_sub(last).filter(|first| *first > 0)?;
    let mut requests = filling(all, batches, bytes)?;
    requests.extend_from_slice(&all[first..]);
    Some(requests)
}

/// Batches of so many bytes, in values as long as those of these requests and to the same keys. Each overwrites a part of what those before it wrote. Nothing
/// if nothing is put here.
pub(super) fn filling(
    all: &[CaseRequest],
    batches: usize,
    bytes: usize,
) -> Option<Vec<CaseRequest>> {
    let mut names: BTreeSet<&[u8]> = BTreeSet::new();
    let mut lengths = Vec::new();
    for (key, value) in all.iter().flat_map(|request| puts(&request.request)) {
        if !key.is_empty() {
            names.insert(key);
            lengths.push(value.len());
        }
    }
    lengths.sort_unstable();
    let usual = lengths.get(lengths.len() / 2)?;
    let length = (*usual).clamp(FULL_BYTES_MIN, (bytes / 4).max(FULL_BYTES_MIN));
    let key_bytes = names.iter().map(|name| name.len()).max()?;
    let count = (bytes / (length + key_bytes)).clamp(1, MUTATIONS_MAX);
    let mut pool: Vec<Vec<u8>> = names.into_iter().map(<[u8]>::to_vec).collect();
    pool.truncate(count + count / 2);
    for number in pool.len()..count + count / 2 {
        pool.push(format!("~{number:0width$}", width = key_bytes.clamp(5, 16) - 1).into_bytes());
    }
    let mut number = 0;
    let batch = |at: usize| {
        let mutation = |nth: usize| {
            let key = pool[(at * count + nth) % pool.len()].clone();
            number += 1;
            let stamp = Stamp {
                key_hash: value::key_hash(&key),
                writer: PRELOAD_WRITER,
                number,
            };
            let value = value::generate(stamp, length, 0);
            Mutation::Put { key, value }
        };
        CaseRequest {
            client: PRELOAD_WRITER,
            think_ns: 0,
            request: Request::Batch {
                mutations: (0..count).map(mutation).collect(),
                durability: Durability::Durable,
            },
        }
    };
    Some((0..batches).map(batch).collect())
}

/// The keys and values that a request puts.
fn puts(request: &Request) -> Vec<(&[u8], &[u8])> {
    match request {
        Request::Put { key, value, .. } => vec![(key, value)],
        Request::Batch { mutations, .. } => {
            let puts = mutations.iter().filter_map(|mutation| match mutation {
                Mutation::Put { key, value } => Some((&key[..], &value[..])),
                Mutation::Delete { .. } => None,
            });
            puts.collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: batches are as heavy as asked, overwrite a part of each other, and come before the last requests. Method: two keys, two batches.
    #[test]
    fn batches_come_before_the_last_requests() {
        let lines = [
            "1 put aaaaa 1:95",
            "0 delete b",
            "2 put ccccc 2:95",
            "1 get aaaaa",
        ];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let requests: Vec<CaseRequest> = requests.collect();
        let said: Vec<String> = condensed_to(&requests, 2, 400, 2)
            .expect("there is more")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [
                "preload batch put aaaaa 1:95, put ccccc 2:95, put \"\\x7e0002\" 3:95, put \"\\x7e0003\" 4:95",
                "preload batch put \"\\x7e0004\" 5:95, put \"\\x7e0005\" 6:95, put aaaaa 7:95, put ccccc 8:95",
                "2 put ccccc 2:95",
                "1 get aaaaa"
            ]
        );
        assert!(condensed_to(&requests, 2, 400, 4).is_none());
    }
}
