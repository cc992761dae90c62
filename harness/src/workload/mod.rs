//! What the clients do: a deterministic stream of requests per client.
//!
//! Each client is a small state machine with one request in flight: [`Workload::next`] gives its next request,
//! [`Workload::replied`] tells it how that ended. Operations of several requests (read-modify-write, a snapshot that is read
//! again) are continued by the following calls of `next`.
//!
//! Invariants:
//! - a client's draws come from a stream of its own, so that another client's pace does not move them;
//! - every written value carries a number that no other write of the run has, across crashes too;
//! - every operation makes sense in any state, so that shrinking may leave any of them out.

mod at_limits;
mod client;
mod config;
mod edge;
mod keyspace;
mod kinds;
#[cfg(test)]
mod tests;

pub use config::{
    BATCH_WRITES_MAX, ByteRange, CountRange, KEY_BYTES_MAX, KeyShape, OperationWeights, Popularity,
    VALUE_BYTES_MAX, ValueBytes, WeightedBytes, WorkloadConfig, WorkloadError, WorkloadKind,
};

pub use edge::KnownLimits;

use crate::value::{self, Stamp};
use crate::zipf::unit;
use at_limits::AtLimits;
use client::Client;
use edge::EdgeCases;
use keyspace::KeySpace;
use kvsim_sim::api::{Durability, Mutation, Reply, Request};
use kvsim_simdisk::rng::{Purpose, Rng};
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Names a client: 0 to `clients` − 1.
pub type ClientId = u32;

/// The writer named in preloaded values.
pub const PRELOAD_WRITER: ClientId = ClientId::MAX;

/// Preloaded records go in batches of at most so many records and bytes.
const PRELOAD_BATCH_WRITES: u64 = 64;
const PRELOAD_BATCH_BYTES: usize = 256 << 10;

/// What a request is part of; the kinds that latencies are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// A put of a key of the key space.
    Put,
    /// A put of a new key.
    Insert,
    /// A delete.
    Delete,
    /// A get.
    Get,
    /// A scan.
    Scan,
    /// A batch.
    Batch,
    /// A read-modify-write: its get and its put.
    ReadModifyWrite,
    /// A snapshot, its reads and its release.
    Snapshot,
    /// A sync.
    Sync,
    /// An ill-formed request, another edge case, or a request at a limit.
    EdgeCase,
}

impl OpKind {
    /// The name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Put => "put",
            OpKind::Insert => "insert",
            OpKind::Delete => "delete",
            OpKind::Get => "get",
            OpKind::Scan => "scan",
            OpKind::Batch => "batch",
            OpKind::ReadModifyWrite => "read_modify_write",
            OpKind::Snapshot => "snapshot",
            OpKind::Sync => "sync",
            OpKind::EdgeCase => "edge_case",
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it is part of.
    pub kind: OpKind,
    /// The request.
    pub request: Request,
    /// How long the client thinks before it sends it: 0 within an operation of several requests.
    pub think_ns: u64,
    /// Whether the operation ends with the answer to this request.
    pub last: bool,
}

/// All clients of one run.
#[derive(Debug, Clone)]
pub struct Workload {
    config: WorkloadConfig,
    clients: Vec<Client>,
    rngs: Vec<Rng>,
    shared: Shared,
    edges: EdgeCases,
    at_limits: AtLimits,
    preloaded: u64,
}

/// What the clients share.
#[derive(Debug, Clone)]
struct Shared {
    keys: KeySpace,
    next_number: u64,
    values_made: usize,
    preload_rng: Rng,
}

impl Workload {
    /// The workload of this configuration and seed.
    ///
    /// # Errors
    /// The field that makes it impossible.
    pub fn new(config: &WorkloadConfig, seed: u64) -> Result<Workload, WorkloadError> {
        config.validate()?;
        let stream = |client: ClientId| {
            Rng::new(
                xxh3_64_with_seed(&client.to_le_bytes(), seed),
                Purpose::Workload,
            )
        };
        Ok(Workload {
            clients: vec![Client::default(); config.clients as usize],
            rngs: (0..config.clients).map(stream).collect(),
            shared: Shared {
                keys: KeySpace::new(config),
                next_number: 1,
                values_made: 0,
                preload_rng: stream(PRELOAD_WRITER),
            },
            edges: EdgeCases::new(config.clients, seed),
            at_limits: AtLimits::new(config.clients, seed),
            preloaded: 0,
            config: config.clone(),
        })
    }

    /// Lets it send requests just beyond these limits, as edge cases.
    #[must_use]
    pub fn knowing(mut self, limits: KnownLimits) -> Workload {
        self.edges.limits = limits;
        self.at_limits.limits = limits;
        self
    }

    /// How many clients there are.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.config.clients
    }

    /// The next request of the preload, all of which come before the clients begin; `None` when all is loaded.
    pub fn preload(&mut self) -> Option<Request> {
        let mut mutations = Vec::new();
        let mut bytes = 0;
        while self.preloaded < self.config.preload
            && mutations.len() as u64 != PRELOAD_BATCH_WRITES
            && bytes < PRELOAD_BATCH_BYTES
        {
            let key = self.shared.keys.key(self.preloaded);
            let mut rng = self.shared.preload_rng.clone();
            let value = self
                .shared
                .value(&self.config, PRELOAD_WRITER, &key, &mut rng);
            self.shared.preload_rng = rng;
            bytes += key.len() + value.len();
            mutations.push(Mutation::Put { key, value });
            self.preloaded += 1;
        }
        let durability = Durability::Durable;
        match mutations.pop()? {
            Mutation::Put { key, value } if mutations.is_empty() => Some(Request::Put {
                key,
                value,
                durability,
            }),
            last => {
                mutations.push(last);
                Some(Request::Batch {
                    mutations,
                    durability,
                })
            }
        }
    }

    /// The next request of a client that has none in flight.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn next(&mut self, client: ClientId) -> Step {
        let at = client as usize;
        if self.clients[at].is_idle()
            && let Some(request) = self.beside(client)
        {
            return Step {
                kind: OpKind::EdgeCase,
                request,
                think_ns: self.config.think_time_ns,
                last: true,
            };
        }
        let mut maker = Maker {
            id: client,
            config: &self.config,
            shared: &mut self.shared,
            rng: &mut self.rngs[at],
        };
        self.clients[at].next(&mut maker)
    }

    /// What a client that is in the middle of nothing sends beside its operations, if anything.
    fn beside(&mut self, client: ClientId) -> Option<Request> {
        let edge = self.edges.draw(client, &self.config, &self.shared);
        edge.or_else(|| self.at_limits.draw(client, &self.config, &self.shared))
    }

    /// Tells a client how its request ended.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn replied(&mut self, client: ClientId, reply: &Reply) {
        if let Some(number) = self.clients[client as usize].replied(reply) {
            self.shared.keys.inserted(number);
        }
    }

    /// The guest is gone: every client forgets what it was waiting for and begins a new operation next.
    pub fn crashed(&mut self) {
        self.clients.fill(Client::default());
    }
}

impl Shared {
    fn value(
        &mut self,
        config: &WorkloadConfig,
        writer: ClientId,
        key: &[u8],
        rng: &mut Rng,
    ) -> Vec<u8> {
        let bytes = match &config.value_bytes {
            ValueBytes::Fixed(bytes) => *bytes,
            ValueBytes::Range(range) => range.min + rng.below(range.max - range.min + 1),
            ValueBytes::InTurn(lengths) => lengths[self.values_made % lengths.len()],
            ValueBytes::Weighted(lengths) => {
                let mut left =
                    rng.below(lengths.iter().map(|length| u64::from(length.weight)).sum());
                let drawn = lengths.iter().find(|length| {
                    match left.checked_sub(u64::from(length.weight)) {
                        Some(rest) => {
                            left = rest;
                            false
                        }
                        None => true,
                    }
                });
                drawn.map_or(0, |length| length.bytes)
            }
        };
        self.values_made += 1;
        let number = self.next_number;
        self.next_number += 1;
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer,
            number,
        };
        let bytes =
            usize::try_from(bytes).expect("validated: no value is longer than VALUE_BYTES_MAX");
        value::generate(stamp, bytes, config.compressible_percent)
    }
}

/// What a client makes its requests of.
struct Maker<'a> {
    id: ClientId,
    config: &'a WorkloadConfig,
    shared: &'a mut Shared,
    rng: &'a mut Rng,
}

impl Maker<'_> {
    fn draw_key(&mut self) -> u64 {
        self.shared.keys.draw(self.rng)
    }

    fn key(&self, number: u64) -> Vec<u8> {
        self.shared.keys.key(number)
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        self.shared.value(self.config, self.id, key, self.rng)
    }

    fn chance(&mut self, fraction: f64) -> bool {
        unit(self.rng) < fraction
    }

    fn count(&mut self, range: CountRange) -> u32 {
        let width = u64::from(range.max - range.min) + 1;
        range.min + u32::try_from(self.rng.below(width)).expect("below the width of a range of u32")
    }

    fn durability(&mut self) -> Durability {
        if self.chance(self.config.durable_fraction) {
            Durability::Durable
        } else {
            Durability::Relaxed
        }
    }
}
