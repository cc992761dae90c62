//! One request of a small program, drawn: its kind, key, length and durability.

use kvsim_api::value::{self, Stamp};
use kvsim_scenario::case::CaseRequest;
use kvsim_sim::api::{Direction, Durability, Mutation, Request, Scan};
use kvsim_simdisk::rng::Rng;

/// Mutations of a batch at most.
const MUTATIONS_MAX: u64 = 4;

/// What a request of a program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Put,
    Delete,
    Batch,
    /// A batch that takes as much of the device as the guest allows, or a part of that.
    Fill,
    EmptyBatch,
    Get,
    Scan,
    Snapshot,
    Release,
    Sync,
    Close,
}

/// What one program is drawn from.
pub(super) struct Draws<'a> {
    pub(super) fillings: &'a [Vec<CaseRequest>],
    pub(super) kinds: &'a [Kind],
    pub(super) keys: &'a [Vec<u8>],
    pub(super) durabilities: &'a [Durability],
    pub(super) lengths: &'a [usize],
    pub(super) thinks: &'a [u64],
}

impl Draws<'_> {
    pub(super) fn request(&self, rng: &mut Rng, kind: Kind) -> Request {
        let durability = *pick(rng, self.durabilities);
        let key = pick(rng, self.keys).clone();
        // Programs take one snapshot or few, and the first of a process run is likely the first of all.
        let snapshot = u64::from(rng.chance(0.5) && kind != Kind::Release);
        match kind {
            Kind::Put => Request::Put {
                value: self.value(rng, &key),
                key,
                durability,
            },
            Kind::Delete => Request::Delete { key, durability },
            Kind::Batch => Request::Batch {
                mutations: self.mutations(rng),
                durability,
            },
            Kind::Fill => {
                let fillings = self.fillings.iter().filter(|batches| !batches.is_empty());
                let batches: Vec<&Vec<CaseRequest>> = fillings.collect();
                if batches.is_empty() {
                    return self.request(rng, Kind::Batch);
                }
                let batches = *pick(rng, &batches);
                let mut request = pick(rng, batches).request.clone();
                if let Request::Batch {
                    durability: own, ..
                } = &mut request
                {
                    *own = durability;
                }
                request
            }
            Kind::EmptyBatch => Request::Batch {
                mutations: Vec::new(),
                durability,
            },
            Kind::Get => Request::Get { key, snapshot },
            Kind::Scan => Request::Scan(Scan {
                snapshot,
                direction: Direction::Forward,
                start: None,
                end: None,
                limit: 64,
                max_bytes: 1 << 20,
            }),
            Kind::Snapshot => Request::Snapshot,
            Kind::Release => Request::Release { snapshot: 1 },
            Kind::Sync => Request::Sync,
            Kind::Close => Request::Close,
        }
    }

    fn value(&self, rng: &mut Rng, key: &[u8]) -> Vec<u8> {
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer: 0,
            number: 1,
        };
        value::generate(stamp, *pick(rng, self.lengths), 0)
    }

    /// Each key once at most.
    fn mutations(&self, rng: &mut Rng) -> Vec<Mutation> {
        let count = 1 + rng.below(MUTATIONS_MAX);
        let mut all: Vec<Mutation> = Vec::new();
        for nth in 0..count {
            let mut key = pick(rng, self.keys).clone();
            let is_there = |mutation: &Mutation| match mutation {
                Mutation::Put { key: own, .. } | Mutation::Delete { key: own } => *own == key,
            };
            if all.iter().any(is_there) {
                key = format!("~{nth}").into_bytes();
            }
            all.push(match rng.chance(0.15) {
                true => Mutation::Delete { key },
                false => Mutation::Put {
                    value: self.value(rng, &key),
                    key,
                },
            });
        }
        all
    }
}

pub(super) fn kind(request: &Request) -> Kind {
    match request {
        Request::Put { .. } => Kind::Put,
        Request::Delete { .. } => Kind::Delete,
        Request::Batch { mutations, .. } if mutations.is_empty() => Kind::EmptyBatch,
        Request::Batch { .. } => Kind::Batch,
        Request::Get { .. } => Kind::Get,
        Request::Scan(_) => Kind::Scan,
        Request::Snapshot => Kind::Snapshot,
        Request::Release { .. } => Kind::Release,
        Request::Sync => Kind::Sync,
        Request::Close => Kind::Close,
    }
}

/// One of these, each as likely; there is one at least.
pub(super) fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    let at = usize::try_from(rng.below(from.len() as u64)).unwrap_or(0);
    &from[at]
}
