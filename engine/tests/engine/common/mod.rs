//! A small deterministic device and driver for the engine's own tests, and a model of what a database must hold.
#![allow(unreachable_pub, reason = "shared with the engine's own tests")]
#![allow(clippy::cast_possible_truncation, reason = "test sizes are small")]

mod case;
mod disk;
pub mod world;

use kvsim_engine::DeviceInfo;

pub use case::Case;
pub use disk::{Disk, FAST, Times};
pub use world::World;

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// So many bytes that do not compress.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    (0..len).map(|_| rng.next() as u8).collect()
}

/// A value of a kilobyte that begins with its number.
pub fn numbered(n: u64) -> Vec<u8> {
    let mut value = vec![b'v'; 1000];
    value[..8].copy_from_slice(&n.to_le_bytes());
    value
}

pub fn device(capacity_bytes: u64) -> DeviceInfo {
    DeviceInfo {
        sector_bytes: 512,
        physical_block_bytes: 4096,
        volatile_cache: true,
        write_through: false,
        capacity_bytes,
        max_capacity_bytes: capacity_bytes,
    }
}

pub fn world(capacity_bytes: u64, options: &str) -> World {
    World::new(Disk::new(device(capacity_bytes), FAST, 1), options)
}
