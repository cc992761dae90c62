//! Checksums seeded by identity: the same bytes at another place, in another epoch or of another database do not pass.
//!
//! The seed of a structure mixes the database, the kind of structure, and its place (and epoch, where it has one). A
//! block of zeroes never passes, since every structure also carries a magic number; stale and misplaced structures fail
//! by their seed. XXH3 could take the seed itself. But for every input of more than 240 bytes it derives a secret from
//! the seed, which takes as long as hashing a kilobyte.

use xxhash_rust::xxh3::xxh3_64;

/// What a checksum is of. The numbers are part of the format.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(crate) enum Kind {
    Superblock = 1,
    SegmentHeader = 2,
    FrameHeader = 3,
    FrameBody = 4,
    Record = 5,
    Chunk = 6,
    Page = 7,
    ChainStart = 8,
}

/// The database's part of every seed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) db_id: [u8; 16],
    base: u64,
}

impl Identity {
    pub(crate) fn new(db_id: [u8; 16]) -> Identity {
        Identity {
            db_id,
            base: xxh3_64(&db_id),
        }
    }

    /// The checksum of `bytes` as a `kind` at `place` in `epoch` (0 where it has none).
    pub(crate) fn checksum(&self, kind: Kind, epoch: u64, place: u64, bytes: &[u8]) -> u64 {
        mix(xxh3_64(bytes) ^ self.seed(kind, epoch, place))
    }

    /// What the first frame of a database names as its predecessor's checksum.
    pub(crate) fn chain_start(&self) -> u64 {
        self.seed(Kind::ChainStart, 0, 0)
    }

    fn seed(&self, kind: Kind, epoch: u64, place: u64) -> u64 {
        mix(mix(mix(self.base ^ kind as u64).wrapping_add(epoch)).wrapping_add(place))
    }
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bytes pass only as what they are and where they are. Method: vary each part of the identity alone.
    #[test]
    fn each_part_of_the_identity_changes_the_checksum() {
        let id = Identity::new([7; 16]);
        let right = id.checksum(Kind::Record, 3, 4096, b"bytes");
        assert_ne!(right, id.checksum(Kind::Page, 3, 4096, b"bytes"));
        assert_ne!(right, id.checksum(Kind::Record, 4, 4096, b"bytes"));
        assert_ne!(right, id.checksum(Kind::Record, 3, 8192, b"bytes"));
        assert_ne!(right, id.checksum(Kind::Record, 3, 4096, b"bytez"));
        assert_ne!(
            right,
            Identity::new([8; 16]).checksum(Kind::Record, 3, 4096, b"bytes")
        );
    }
}
