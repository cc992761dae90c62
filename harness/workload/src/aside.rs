//! What requests are made of that clients send beside their operations.
//!
//! Invariant: each kind of them has random streams and value numbers of its own, so that it moves no other draw.

use kvsim_api::value::{self, Stamp};
use kvsim_sim::api::{Durability, Request};
use kvsim_simdisk::rng::{Purpose, Rng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::step::ClientId;

/// A value of this length is long enough for its stamp.
pub(crate) const VALUE_BYTES: usize = 64;

/// The draws of each client, and the numbers of their values.
#[derive(Debug, Clone)]
pub(crate) struct Aside {
    rngs: Vec<Rng>,
    next_number: u64,
}

impl Aside {
    /// Draws that the label tells from those of other kinds, and values that are numbered from there.
    pub(crate) fn new(label: &[u8], numbers_from: u64, clients: u32, seed: u64) -> Aside {
        let stream = |client: ClientId| {
            let label = [label, &client.to_le_bytes()].concat();
            Rng::new(xxh3_64_with_seed(&label, seed), Purpose::Workload)
        };
        Aside {
            rngs: (0..clients).map(stream).collect(),
            next_number: numbers_from,
        }
    }

    pub(crate) fn rng(&mut self, client: ClientId) -> &mut Rng {
        &mut self.rngs[client as usize]
    }

    pub(crate) fn durability(&mut self, client: ClientId) -> Durability {
        match self.rng(client).below(2) {
            0 => Durability::Durable,
            _ => Durability::Relaxed,
        }
    }

    pub(crate) fn put(
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

    pub(crate) fn value(&mut self, writer: ClientId, key: &[u8], bytes: usize) -> Vec<u8> {
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer,
            number: self.next_number,
        };
        self.next_number += 1;
        value::generate(stamp, bytes, 0)
    }
}
