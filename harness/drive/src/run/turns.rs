//! Clients that slept, brought onto the processor.

use kvsim_simdisk::rng::{Purpose, Rng};
use kvsim_simdisk::{LatencyConfig, Nanos};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Keeps these draws apart from those of the device.
const TURNS: &[u8] = b"clients that are woken";

/// Draws what it takes to bring a client that slept onto the processor.
pub(super) struct Turns {
    rng: Rng,
    latency: LatencyConfig,
}

impl Turns {
    pub(super) fn new(seed: u64, latency: LatencyConfig) -> Turns {
        Turns {
            rng: Rng::new(xxh3_64_with_seed(TURNS, seed), Purpose::Latency),
            latency,
        }
    }

    pub(super) fn draw(&mut self) -> Nanos {
        self.latency.at(self.rng.below(1_000_000))
    }
}
