//! Edge cases: ill-formed requests, each with a known answer, and well-formed ones that a guest easily gets wrong. The ABI page states the answers.
//!
//! Invariant: they have random streams, value numbers and snapshot numbers of their own, so that they move no other draw.

use kvsim_sim::api::{Direction, Durability, Mutation, Request, Scan};
use kvsim_simdisk::rng::{Purpose, Rng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::WorkloadConfig;
use crate::maker::Shared;
use crate::step::ClientId;
use crate::zipf::unit;
use kvsim_api::limits::KnownLimits;
use kvsim_api::value::{self, Stamp};

/// Keeps these draws apart from those of the other requests.
const LABEL: &[u8] = b"edge cases";
/// Numbers of values, and of snapshots that there are not, begin here.
const NUMBERS_FROM: u64 = 1 << 40;
/// A value of this length is long enough for its stamp.
const VALUE_BYTES: usize = 64;
/// A longer value is not made to be refused: it costs more than it tells.
const LONG_VALUE_BYTES_MAX: u64 = 1 << 20;

/// What each client may send beside its operations.
#[derive(Debug, Clone)]
pub(crate) struct EdgeCases {
    rngs: Vec<Rng>,
    next_number: u64,
    pub(crate) limits: KnownLimits,
}

/// Every edge case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    EmptyKey,
    EmptyKeyDeleted,
    LongKey(usize),
    LongValue(usize),
    GetOfNoSnapshot,
    ScanOfNoSnapshot,
    ReleaseOfNoSnapshot,
    EmptyBatch,
    BadMember,
    ScanOfNone,
    ScanOfOne,
    ScanBackwards,
}

impl EdgeCases {
    pub(crate) fn new(clients: u32, seed: u64) -> EdgeCases {
        let stream = |client: ClientId| {
            let label = [LABEL, &client.to_le_bytes()].concat();
            Rng::new(xxh3_64_with_seed(&label, seed), Purpose::Workload)
        };
        EdgeCases {
            rngs: (0..clients).map(stream).collect(),
            next_number: NUMBERS_FROM,
            limits: KnownLimits::default(),
        }
    }

    /// An edge case, if the client is to send one now.
    pub(crate) fn draw(
        &mut self,
        client: ClientId,
        config: &WorkloadConfig,
        shared: &Shared,
    ) -> Option<Request> {
        if config.edge_cases == 0.0 || unit(&mut self.rngs[client as usize]) >= config.edge_cases {
            return None;
        }
        let all = self.known();
        let rng = &mut self.rngs[client as usize];
        let at = usize::try_from(rng.below(all.len() as u64)).expect("an index");
        let number = rng.below(config.keys);
        let durability = match rng.below(2) {
            0 => Durability::Durable,
            _ => Durability::Relaxed,
        };
        let key = shared.keys.key(number);
        Some(self.request(all[at], client, key, durability))
    }

    /// Those that can be asked with what is known of the guest.
    fn known(&self) -> Vec<Edge> {
        let mut all = vec![
            Edge::EmptyKey,
            Edge::EmptyKeyDeleted,
            Edge::GetOfNoSnapshot,
            Edge::ScanOfNoSnapshot,
            Edge::ReleaseOfNoSnapshot,
            Edge::EmptyBatch,
            Edge::EmptyBatch,
            Edge::BadMember,
            Edge::BadMember,
            Edge::ScanOfNone,
            Edge::ScanOfOne,
            Edge::ScanBackwards,
        ];
        let beyond = |max: Option<u64>| usize::try_from(max? + 1).ok();
        let short = |max: &u64| *max <= LONG_VALUE_BYTES_MAX;
        all.extend(beyond(self.limits.key_bytes_max.filter(short)).map(Edge::LongKey));
        all.extend(beyond(self.limits.value_bytes_max.filter(short)).map(Edge::LongValue));
        all
    }

    fn request(
        &mut self,
        edge: Edge,
        client: ClientId,
        key: Vec<u8>,
        durability: Durability,
    ) -> Request {
        let no_snapshot = NUMBERS_FROM + u64::from(client);
        let scan = |snapshot, limit, end| {
            Request::Scan(Scan {
                snapshot,
                direction: Direction::Forward,
                start: Some(key.clone()),
                end,
                limit,
                max_bytes: 1 << 16,
            })
        };
        match edge {
            Edge::EmptyKey => self.put(client, Vec::new(), VALUE_BYTES, durability),
            Edge::EmptyKeyDeleted => Request::Delete {
                key: Vec::new(),
                durability,
            },
            Edge::LongKey(bytes) => {
                let mut long = key;
                long.resize(bytes, b'x');
                self.put(client, long, VALUE_BYTES, durability)
            }
            Edge::LongValue(bytes) => self.put(client, key, bytes, durability),
            Edge::GetOfNoSnapshot => Request::Get {
                key,
                snapshot: no_snapshot,
            },
            Edge::ScanOfNoSnapshot => scan(no_snapshot, 10, None),
            Edge::ReleaseOfNoSnapshot => Request::Release {
                snapshot: no_snapshot,
            },
            Edge::EmptyBatch => Request::Batch {
                mutations: Vec::new(),
                durability,
            },
            Edge::BadMember => {
                let good = Mutation::Put {
                    value: self.value(client, &key, VALUE_BYTES),
                    key,
                };
                let bad = Mutation::Put {
                    value: self.value(client, &[], VALUE_BYTES),
                    key: Vec::new(),
                };
                Request::Batch {
                    mutations: vec![good, bad],
                    durability,
                }
            }
            Edge::ScanOfNone => scan(0, 0, None),
            Edge::ScanOfOne => scan(0, 1, None),
            // The empty key comes before all others.
            Edge::ScanBackwards => scan(0, 10, Some(Vec::new())),
        }
    }

    fn put(
        &mut self,
        client: ClientId,
        key: Vec<u8>,
        value_bytes: usize,
        durability: Durability,
    ) -> Request {
        Request::Put {
            value: self.value(client, &key, value_bytes),
            key,
            durability,
        }
    }

    fn value(&mut self, writer: ClientId, key: &[u8], bytes: usize) -> Vec<u8> {
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer,
            number: self.next_number,
        };
        self.next_number += 1;
        value::generate(stamp, bytes, 0)
    }
}
