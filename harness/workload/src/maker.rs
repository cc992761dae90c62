//! What a client makes its requests of: keys, values and draws.

use crate::config::{CountRange, ValueBytes, WorkloadConfig};
use crate::keyspace::KeySpace;
use crate::step::ClientId;
use crate::zipf::unit;
use kvsim_api::value::{self, Stamp};
use kvsim_sim::api::Durability;
use kvsim_simdisk::rng::Rng;

/// What the clients share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) keys: KeySpace,
    pub(crate) next_number: u64,
    pub(crate) values_made: usize,
    pub(crate) preload_rng: Rng,
}

impl Shared {
    pub(crate) fn value(
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
pub(crate) struct Maker<'a> {
    pub(crate) id: ClientId,
    pub(crate) config: &'a WorkloadConfig,
    pub(crate) shared: &'a mut Shared,
    pub(crate) rng: &'a mut Rng,
}

impl Maker<'_> {
    pub(crate) fn draw_key(&mut self) -> u64 {
        self.shared.keys.draw(self.rng)
    }

    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        self.shared.keys.key(number)
    }

    pub(crate) fn value(&mut self, key: &[u8]) -> Vec<u8> {
        self.shared.value(self.config, self.id, key, self.rng)
    }

    pub(crate) fn chance(&mut self, fraction: f64) -> bool {
        unit(self.rng) < fraction
    }

    pub(crate) fn count(&mut self, range: CountRange) -> u32 {
        let width = u64::from(range.max - range.min) + 1;
        range.min + u32::try_from(self.rng.below(width)).expect("below the width of a range of u32")
    }

    pub(crate) fn durability(&mut self) -> Durability {
        if self.chance(self.config.durable_fraction) {
            Durability::Durable
        } else {
            Durability::Relaxed
        }
    }
}
