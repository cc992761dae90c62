//! A way out where no request can be left out by itself: a few of them, taken from anywhere, and other latencies.

use std::collections::BTreeSet;

use kvsim_sim::TraceMode;
use kvsim_sim::api::{Durability, Mutation, Request};
use kvsim_simdisk::rng::{Purpose, Rng};

use super::programs::PROGRAM_REQUESTS_MAX;
use super::site::busy_of;
use super::{SMALL_REQUESTS, Shrinking};
use kvsim_api::units::SeedRange;
use kvsim_api::value::{self, FULL_BYTES_MIN, Stamp};
use kvsim_scenario::case::{Case, CaseRequest};

/// Work of searching small programs at most, each time.
const PROGRAMS_WORK: u64 = 25_000_000_000;
/// Selections of each size that are tried.
const SELECTIONS: usize = 24;
/// Bytes of a batch that stands for many requests.
pub(super) const WEIGHTS: [usize; 5] = [512, 3_000, 12_000, 24_000, 60_000];
/// Keys that such a batch writes.
const KEYS: usize = 4;
/// So many writes are tried in place of many, longer ones.
const KEPT: std::ops::RangeInclusive<usize> = 3..=10;
/// To so few keys, or to as many as there are writes.
const FEW_KEYS: usize = 2;
/// So many quarters of what the many wrote are written by the few.
const QUARTERS: [usize; 4] = [4, 3, 2, 1];
/// The longest value that is tried.
const VALUE_MAX: usize = 1 << 20;
/// Seeds of the latencies that are tried.
const SEEDS: u64 = 4;

impl Shrinking<'_> {
    /// Looks for the same failure with very few of the requests, then with one less under other latencies.
    pub(super) fn few_of_them(&mut self, mut best: Case) -> Case {
        let Some(busy) = busy_of(&best) else {
            return best;
        };
        let all = best.process_runs[busy].requests.clone();
        if all.len() <= SMALL_REQUESTS {
            return best;
        }
        if let Some(found) = self.drawn_anew(&best, PROGRAMS_WORK) {
            return found;
        }
        let is_faulty = self.is_faulty(&best);
        if !is_faulty
            && let Some(found) = self.condensed(&best)
            && found.requests() < best.requests()
        {
            return found;
        }
        for count in 1..=SMALL_REQUESTS {
            for bytes in WEIGHTS {
                if let Some(found) = self.find_busy(&best, &heavy(&all, count, bytes)) {
                    return found;
                }
            }
        }
        if let Some(found) = self.fattened(&best, &all) {
            return found;
        }
        for size in 1..=SMALL_REQUESTS {
            for chosen in selections(all.len(), size) {
                let asked: Vec<CaseRequest> = chosen.iter().map(|&at| all[at].clone()).collect();
                if let Some(found) = self.find_busy(&best, &asked) {
                    return found;
                }
            }
        }
        let seed = self.scenario.run.seeds.start;
        for other in 1..=SEEDS {
            let less = |this: &mut Self| {
                (0..all.len()).find_map(|at| {
                    let mut asked = all.clone();
                    asked.remove(at);
                    this.find_busy(&best, &asked)
                })
            };
            let seeds = SeedRange::one(seed.wrapping_add(other));
            let found = self.with(|scenario| scenario.run.seeds = seeds, less);
            if let Some(found) = found {
                best = found;
                break;
            }
        }
        best
    }
}

impl Shrinking<'_> {
    /// Fewer requests of the same kinds that fail in the same way, found with so much work.
    pub(super) fn drawn_anew(&mut self, best: &Case, work: u64) -> Option<Case> {
        let fewer = PROGRAM_REQUESTS_MAX.min(best.requests() - 1);
        let found = match self.is_faulty(best) {
            true => self.faulty_program(best, fewer, work),
            false => self.small_program(best, fewer, work),
        };
        found.filter(|found| found.requests() < best.requests())
    }

    /// A few of the writes, so long that about as many bytes reach the device: a log is full after few long values as after many short ones.
    fn fattened(&mut self, best: &Case, all: &[CaseRequest]) -> Option<Case> {
        let driven = self.drive(best, TraceMode::Off)?;
        let (written, _) = driven.world.storage().written_and_synced();
        let written = usize::try_from(written).unwrap_or(usize::MAX);
        for kept in KEPT.filter(|kept| *kept < all.len()) {
            for quarters in QUARTERS {
                let bytes = written / 4 * quarters / kept;
                let bytes = bytes.clamp(FULL_BYTES_MIN, VALUE_MAX);
                // What is overwritten makes a log long, what is not makes it full.
                for keys in [FEW_KEYS, kept] {
                    let asked = fat(all, kept, keys, bytes)?;
                    let found = self.find_busy(best, &asked);
                    if let Some(found) = found.filter(|found| found.requests() < best.requests()) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }
}

/// So many of the writes, evenly spread, each as one value of so many bytes, asked by one client, to no more keys than that; nothing if nothing is written.
fn fat(
    all: &[CaseRequest],
    kept: usize,
    keys_max: usize,
    bytes: usize,
) -> Option<Vec<CaseRequest>> {
    let requests = all.iter();
    let keys: Vec<&[u8]> = requests
        .filter_map(|request| written_key(&request.request))
        .collect();
    let client = all.iter().map(|request| request.client).min()?;
    let mut asked = Vec::new();
    for nth in 0..kept {
        let key = *keys.get(nth % keys_max * keys.len() / kept)?;
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer: client,
            number: nth as u64 + 1,
        };
        asked.push(CaseRequest {
            client,
            think_ns: 0,
            request: Request::Put {
                key: key.to_vec(),
                value: value::generate(stamp, bytes, 0),
                durability: Durability::Durable,
            },
        });
    }
    Some(asked)
}

/// The first key that a request writes.
fn written_key(request: &Request) -> Option<&[u8]> {
    match request {
        Request::Put { key, .. } | Request::Delete { key, .. } => Some(key),
        Request::Batch { mutations, .. } => mutations.first().map(|mutation| match mutation {
            Mutation::Put { key, .. } | Mutation::Delete { key } => &key[..],
        }),
        _ => None,
    }
}

/// So many batches, each of so many bytes, of keys that are written among these: what takes many requests to fill takes few of these.
pub(super) fn heavy(requests: &[CaseRequest], count: usize, bytes: usize) -> Vec<CaseRequest> {
    let mut keys: BTreeSet<&[u8]> = BTreeSet::new();
    for request in requests {
        match &request.request {
            Request::Put { key, .. } => {
                keys.insert(key);
            }
            Request::Batch { mutations, .. } => {
                keys.extend(mutations.iter().filter_map(|mutation| match mutation {
                    Mutation::Put { key, .. } => Some(&key[..]),
                    Mutation::Delete { .. } => None,
                }));
            }
            _ => {}
        }
    }
    let keys: Vec<&[u8]> = keys.into_iter().take(KEYS).collect();
    let client = requests.iter().map(|request| request.client).min();
    let client = client.unwrap_or(0);
    let mut number = 0;
    let batch = |_| {
        let mutations = keys.iter().map(|key| {
            number += 1;
            let stamp = Stamp {
                key_hash: value::key_hash(key),
                writer: client,
                number,
            };
            Mutation::Put {
                key: key.to_vec(),
                value: value::generate(stamp, bytes / keys.len(), 0),
            }
        });
        CaseRequest {
            client,
            think_ns: 0,
            request: Request::Batch {
                mutations: mutations.collect(),
                durability: Durability::Durable,
            },
        }
    };
    (0..count).map(batch).collect()
}

/// Different selections of so many places among `of`, each in order; all of them if they are few.
fn selections(of: usize, size: usize) -> BTreeSet<Vec<usize>> {
    let mut rng = Rng::new(size as u64, Purpose::Explore);
    let mut all = BTreeSet::new();
    // Chance repeats itself where there are few.
    for _ in 0..4 * SELECTIONS {
        let mut chosen = BTreeSet::new();
        while chosen.len() < size.min(of) {
            let at = rng.below(of as u64);
            chosen.insert(usize::try_from(at).unwrap_or(0));
        }
        all.insert(chosen.into_iter().collect());
        if all.len() == SELECTIONS {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a few batches weigh as much as was asked, on keys that were there. Method: a list of puts and deletes.
    #[test]
    fn batches_are_as_heavy_as_asked() {
        let lines = ["1 put a 1:40", "0 delete b", "0 batch put c 2:40, delete d"];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let requests: Vec<CaseRequest> = requests.collect();
        let said: Vec<String> = heavy(&requests, 2, 600)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [
                "0 batch put a 1:300, put c 2:300",
                "0 batch put a 3:300, put c 4:300"
            ]
        );
    }

    /// Goal: a few writes are long, of keys from all over, and in order. Method: five requests of which four write.
    #[test]
    fn a_few_writes_are_long() {
        let lines = [
            "1 put a 1:40",
            "0 delete b",
            "1 get a",
            "0 batch put c 1:40, delete d",
            "1 put e 2:40",
        ];
        let requests = lines.iter().map(|line| line.parse().expect("a request"));
        let requests: Vec<CaseRequest> = requests.collect();
        let said = |keys| -> Vec<String> {
            let asked = fat(&requests, 2, keys, 900).expect("something is written");
            asked.iter().map(ToString::to_string).collect()
        };
        assert_eq!(said(2), ["0 put a 1:900", "0 put c 2:900"]);
        assert_eq!(said(1), ["0 put a 1:900", "0 put a 2:900"]);
        assert!(fat(&requests[2..3], 2, 2, 900).is_none());
    }

    /// Goal: selections are in order, of the size asked for, and all of them where there are few. Method: small numbers.
    #[test]
    fn selections_are_different_and_in_order() {
        assert_eq!(selections(5, 1).len(), 5);
        assert_eq!(selections(20, 3).len(), SELECTIONS);
        for chosen in selections(20, 3) {
            assert!(chosen.len() == 3 && chosen.is_sorted(), "{chosen:?}");
        }
    }
}
