//! Edge cases: ill-formed requests, each with a known answer, and well-formed ones that a guest easily gets wrong. The ABI page states the answers.
//!
//! Invariant: they have random streams, value numbers and snapshot numbers of their own, so that they move no other draw.

use kvsim_sim::api::{Direction, Durability, Mutation, Request, Scan, SnapshotId, Status};

use crate::aside::{Aside, VALUE_BYTES};
use crate::config::WorkloadConfig;
use crate::maker::Shared;
use crate::step::ClientId;
use crate::zipf::unit;
use kvsim_api::limits::KnownLimits;

/// Keeps these draws apart from those of the other requests.
const LABEL: &[u8] = b"edge cases";
/// Numbers of values, and of snapshots that there are not, begin here.
const NUMBERS_FROM: u64 = 1 << 40;
/// A longer value is not made to be refused: it costs more than it tells.
const LONG_VALUE_BYTES_MAX: u64 = 1 << 20;

/// What each client may send beside its operations.
#[derive(Debug, Clone)]
pub(crate) struct EdgeCases {
    aside: Aside,
    /// By client: the snapshot that it has released last, and the one whose release is not answered.
    released: Vec<Option<SnapshotId>>,
    releasing: Vec<Option<SnapshotId>>,
    pub(crate) limits: KnownLimits,
}

/// Every edge case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edge {
    EmptyKey,
    EmptyKeyDeleted,
    GetOfEmptyKey,
    LongKey(usize),
    LongValue(usize),
    GetOfLongKey(usize),
    GetOfNoSnapshot,
    ScanOfNoSnapshot,
    ReleaseOfNoSnapshot,
    GetOfReleased(SnapshotId),
    ScanOfReleased(SnapshotId),
    ReleaseTwice(SnapshotId),
    EmptyBatch,
    BadMember(Bad),
    ScanOfNone,
    ScanOfOne,
    ScanBackwards,
}

/// What is drawn for one of them.
struct Chosen {
    client: ClientId,
    key: Vec<u8>,
    durability: Durability,
    /// The bad member of a batch comes first.
    first: bool,
    reverse: bool,
}

/// What is wrong with a member of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    EmptyKey,
    EmptyKeyDeleted,
    LongKey(usize),
    LongValue(usize),
}

impl EdgeCases {
    pub(crate) fn new(clients: u32, seed: u64) -> EdgeCases {
        EdgeCases {
            aside: Aside::new(LABEL, NUMBERS_FROM, clients, seed),
            released: vec![None; clients as usize],
            releasing: vec![None; clients as usize],
            limits: KnownLimits::default(),
        }
    }

    /// A client sends this request.
    pub(crate) fn sends(&mut self, client: ClientId, request: &Request) {
        if let Request::Release { snapshot } = request {
            self.releasing[client as usize] = Some(*snapshot);
        }
    }

    /// The request of a client is answered.
    pub(crate) fn replied(&mut self, client: ClientId, status: Status) {
        let released = self.releasing[client as usize].take();
        if status == Status::Ok && released.is_some() {
            self.released[client as usize] = released;
        }
    }

    /// The guest is gone, and with it all snapshots: their numbers may be used again.
    pub(crate) fn crashed(&mut self) {
        self.released.fill(None);
        self.releasing.fill(None);
    }

    /// An edge case, if the client is to send one now.
    pub(crate) fn draw(
        &mut self,
        client: ClientId,
        config: &WorkloadConfig,
        shared: &Shared,
    ) -> Option<Request> {
        if config.edge_cases == 0.0 || unit(self.aside.rng(client)) >= config.edge_cases {
            return None;
        }
        let all = self.known(client);
        let rng = self.aside.rng(client);
        let at = usize::try_from(rng.below(all.len() as u64)).expect("an index");
        let number = rng.below(config.keys);
        let durability = self.aside.durability(client);
        let rng = self.aside.rng(client);
        let key = shared.keys.key(number);
        let (first, reverse) = (rng.below(2) == 0, rng.below(4) == 0);
        let chosen = Chosen {
            client,
            key,
            durability,
            first,
            reverse,
        };
        Some(self.request(all[at], chosen))
    }

    /// Those that can be asked with what is known of the guest.
    fn known(&self, client: ClientId) -> Vec<Edge> {
        let mut all = vec![
            Edge::EmptyKey,
            Edge::EmptyKeyDeleted,
            Edge::GetOfEmptyKey,
            Edge::GetOfNoSnapshot,
            Edge::ScanOfNoSnapshot,
            Edge::ReleaseOfNoSnapshot,
            Edge::EmptyBatch,
            Edge::EmptyBatch,
            Edge::BadMember(Bad::EmptyKey),
            Edge::BadMember(Bad::EmptyKeyDeleted),
            Edge::ScanOfNone,
            Edge::ScanOfOne,
            Edge::ScanBackwards,
        ];
        let beyond = |max: Option<u64>| usize::try_from(max? + 1).ok();
        let short = |max: &u64| *max <= LONG_VALUE_BYTES_MAX;
        if let Some(bytes) = beyond(self.limits.key_bytes_max.filter(short)) {
            all.extend([
                Edge::LongKey(bytes),
                Edge::GetOfLongKey(bytes),
                Edge::BadMember(Bad::LongKey(bytes)),
            ]);
        }
        if let Some(bytes) = beyond(self.limits.value_bytes_max.filter(short)) {
            all.extend([
                Edge::LongValue(bytes),
                Edge::BadMember(Bad::LongValue(bytes)),
            ]);
        }
        if let Some(snapshot) = self.released[client as usize] {
            all.extend([
                Edge::GetOfReleased(snapshot),
                Edge::ScanOfReleased(snapshot),
                Edge::ReleaseTwice(snapshot),
            ]);
        }
        all
    }

    fn request(&mut self, edge: Edge, chosen: Chosen) -> Request {
        let Chosen {
            client,
            key,
            durability,
            first,
            reverse,
        } = chosen;
        let no_snapshot = NUMBERS_FROM + u64::from(client);
        let scan = |snapshot, limit, end| {
            Request::Scan(Scan {
                snapshot,
                direction: match reverse {
                    true => Direction::Reverse,
                    false => Direction::Forward,
                },
                start: Some(key.clone()),
                end,
                limit,
                max_bytes: 1 << 16,
            })
        };
        match edge {
            Edge::EmptyKey => self.aside.put(client, Vec::new(), VALUE_BYTES, durability),
            Edge::EmptyKeyDeleted => Request::Delete {
                key: Vec::new(),
                durability,
            },
            Edge::GetOfEmptyKey => Request::Get {
                key: Vec::new(),
                snapshot: 0,
            },
            Edge::LongKey(bytes) => {
                let long = lengthened(key, bytes);
                self.aside.put(client, long, VALUE_BYTES, durability)
            }
            Edge::GetOfLongKey(bytes) => Request::Get {
                key: lengthened(key, bytes),
                snapshot: 0,
            },
            Edge::LongValue(bytes) => self.aside.put(client, key, bytes, durability),
            Edge::GetOfNoSnapshot => Request::Get {
                key,
                snapshot: no_snapshot,
            },
            Edge::ScanOfNoSnapshot => scan(no_snapshot, 10, None),
            Edge::ReleaseOfNoSnapshot => Request::Release {
                snapshot: no_snapshot,
            },
            Edge::GetOfReleased(snapshot) => Request::Get { key, snapshot },
            Edge::ScanOfReleased(snapshot) => scan(snapshot, 10, None),
            Edge::ReleaseTwice(snapshot) => Request::Release { snapshot },
            Edge::EmptyBatch => Request::Batch {
                mutations: Vec::new(),
                durability,
            },
            Edge::BadMember(bad) => {
                let good = Mutation::Put {
                    value: self.aside.value(client, &key, VALUE_BYTES),
                    key: key.clone(),
                };
                let bad = self.bad_member(bad, client, key);
                let mutations = match first {
                    true => vec![bad, good],
                    false => vec![good, bad],
                };
                Request::Batch {
                    mutations,
                    durability,
                }
            }
            Edge::ScanOfNone => scan(0, 0, None),
            Edge::ScanOfOne => scan(0, 1, None),
            // The empty key comes before all others.
            Edge::ScanBackwards => scan(0, 10, Some(Vec::new())),
        }
    }

    fn bad_member(&mut self, bad: Bad, client: ClientId, mut key: Vec<u8>) -> Mutation {
        let bytes = match bad {
            Bad::LongValue(bytes) => bytes,
            _ => VALUE_BYTES,
        };
        match bad {
            Bad::EmptyKeyDeleted => return Mutation::Delete { key: Vec::new() },
            Bad::EmptyKey => key.clear(),
            Bad::LongKey(bytes) => key = lengthened(key, bytes),
            Bad::LongValue(_) => {}
        }
        Mutation::Put {
            value: self.aside.value(client, &key, bytes),
            key,
        }
    }
}

fn lengthened(mut key: Vec<u8>, bytes: usize) -> Vec<u8> {
    key.resize(bytes, b'x');
    key
}
