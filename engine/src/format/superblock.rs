//! The superblock: the root of everything, one block, in four copies 64 KiB apart.
//!
//! | offset | bytes | field |
//! | ---: | ---: | --- |
//! | 0 | 8 | magic `KVSIMSB1` |
//! | 8 | 2 | format version |
//! | 10 | 2 | copy, 0..=3 |
//! | 12 | 4 | turn: 1 if this copy belongs to the half that was written first, 2 if to the other |
//! | 16 | 16 | database id |
//! | 32 | 8 | generation: higher is newer |
//! | 40 | 8 | epoch |
//! | 48 | 8 | epoch start: from this LSN on, everything in the log is of this epoch |
//! | 56 | 8 | checksum of the frame before the epoch start |
//! | 64 | 4 | sector bytes |
//! | 68 | 4 | block bytes |
//! | 72 | 8 | segment bytes |
//! | 80 | 4 | segments the device had at least |
//! | 84 | 4 | physical index of the segment that holds the replay start |
//! | 88 | 8 | replay start LSN |
//! | 96 | 8 | checksum of the frame before the replay start |
//! | 104 | 8 | end LSN of the frame before the replay start |
//! | 112 | 8 | first sequence number at the replay start |
//! | 120 | 8 | the LSN that the log reaches at least, since the checkpoint contains its effects |
//! | 128 | 8 | known durable LSN |
//! | 136 | 20 | root of the list of partitions: offset 8, length 4, checksum 8; offset 0: empty |
//! | 156 | 20 | root of the table of segments, likewise |
//! | 176 | 8 | keys when the checkpoint began, at most |
//! | 184 | 8 | bytes of pages that an index written anew would have had then, at most |
//! | 192 | 8 | live bytes in segments of log and extents then, at most |
//! | 200 | 4 | physical index of the segment that follows the one with the replay start; 0 if the replay start is the first byte of its own |
//! | 204 | 4 | zero |
//! | 208 | 8 | checksum of bytes 0..208 |
//!
//! It fits in the smallest sector, and its checksum covers all of it: there is no field outside that could tear.

use super::page::{PAGE_REF_BYTES, PageRef, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use super::{VERSION, get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::Mismatch;
use crate::mutant::{Mutant, mutant};

const MAGIC: usize = 0;
const FORMAT_VERSION: usize = MAGIC + 8;
const COPY: usize = FORMAT_VERSION + 2;
const TURN: usize = COPY + 2;
const DB_ID: usize = TURN + 4;
const GENERATION: usize = DB_ID + 16;
const EPOCH: usize = GENERATION + 8;
const EPOCH_START: usize = EPOCH + 8;
const EPOCH_CHECKSUM: usize = EPOCH_START + 8;
const SECTOR_BYTES: usize = EPOCH_CHECKSUM + 8;
const BLOCK_BYTES: usize = SECTOR_BYTES + 4;
const SEGMENT_BYTES: usize = BLOCK_BYTES + 4;
const SEGMENT_COUNT: usize = SEGMENT_BYTES + 8;
const REPLAY_PHYSICAL: usize = SEGMENT_COUNT + 4;
const REPLAY_START: usize = REPLAY_PHYSICAL + 4;
const REPLAY_CHECKSUM: usize = REPLAY_START + 8;
const REPLAY_PREVIOUS_END: usize = REPLAY_CHECKSUM + 8;
const REPLAY_SEQUENCE: usize = REPLAY_PREVIOUS_END + 8;
const LOG_MINIMUM: usize = REPLAY_SEQUENCE + 8;
const DURABLE: usize = LOG_MINIMUM + 8;
const PARTITIONS_ROOT: usize = DURABLE + 8;
const TABLE_ROOT: usize = PARTITIONS_ROOT + PAGE_REF_BYTES;
const KEYS: usize = TABLE_ROOT + PAGE_REF_BYTES;
const PAGES_BYTES: usize = KEYS + 8;
const LIVE_BYTES: usize = PAGES_BYTES + 8;
const REPLAY_NEXT: usize = LIVE_BYTES + 8;
const ZERO: usize = REPLAY_NEXT + 4;
const CHECKSUM: usize = ZERO + 4;
pub(crate) const SUPERBLOCK_BYTES: usize = CHECKSUM + 8;
const _: () = assert!(SUPERBLOCK_BYTES == 216 && SUPERBLOCK_BYTES <= 512);

const MAGIC_VALUE: u64 = u64::from_le_bytes(*b"KVSIMSB1");
/// No generation, epoch or sequence number is higher.
const COUNT_MAX: u64 = 1 << 62;
const BYTES_MAX: u64 = 1 << 60;
/// How many copies there are.
pub(crate) const COPIES: u16 = 4;

/// Where a copy lies.
pub(crate) fn copy_offset(copy: u16) -> u64 {
    u64::from(copy) * (64 << 10)
}

/// Where replay begins, and what it has to find there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayStart {
    pub(crate) lsn: u64,
    pub(crate) physical: u32,
    /// The segment after it; 0 if replay begins with the first byte of its own, whose header is part of the chain then.
    pub(crate) next: u32,
    pub(crate) previous_checksum: u64,
    pub(crate) previous_end: u64,
    pub(crate) sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) db_id: [u8; 16],
    pub(crate) generation: u64,
    pub(crate) epoch: u64,
    pub(crate) epoch_start: u64,
    /// Of the frame before the epoch start. Until the epoch has a frame, nothing in the log says which one that was.
    pub(crate) epoch_checksum: u64,
    pub(crate) sector_bytes: u32,
    pub(crate) block_bytes: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) segment_count: u32,
    pub(crate) replay: ReplayStart,
    pub(crate) log_minimum: u64,
    pub(crate) durable: u64,
    pub(crate) partitions_root: PageRef,
    pub(crate) table_root: PageRef,
    pub(crate) counts: Counts,
}

/// What a checkpoint has, as upper bounds: an opening goes by them until it has read the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) keys: u64,
    /// See [`crate::index::entry::pages_of`].
    pub(crate) pages_bytes: u64,
    /// In segments of log and extents.
    pub(crate) live_bytes: u64,
}

/// Which half of a publication a copy belongs to. The second half is written only when the first is durable. So a copy
/// of the second turn proves that the first half is on the medium, whatever a cache may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Turn {
    First = 1,
    Second = 2,
}

/// Where what the checksum covers begins: with the first byte.
fn covered_from() -> usize {
    if mutant(Mutant::GenerationOutsideChecksum) {
        EPOCH
    } else {
        MAGIC
    }
}

impl Superblock {
    pub(crate) fn encode(&self, copy: u16, turn: Turn, out: &mut [u8]) {
        put_u64(out, MAGIC, MAGIC_VALUE);
        put_u16(out, FORMAT_VERSION, VERSION);
        put_u16(out, COPY, copy);
        put_u32(out, TURN, turn as u32);
        out[DB_ID..DB_ID + 16].copy_from_slice(&self.db_id);
        put_u64(out, GENERATION, self.generation);
        put_u64(out, EPOCH, self.epoch);
        put_u64(out, EPOCH_START, self.epoch_start);
        put_u64(out, EPOCH_CHECKSUM, self.epoch_checksum);
        put_u32(out, SECTOR_BYTES, self.sector_bytes);
        put_u32(out, BLOCK_BYTES, self.block_bytes);
        put_u64(out, SEGMENT_BYTES, self.segment_bytes);
        put_u32(out, SEGMENT_COUNT, self.segment_count);
        put_u32(out, REPLAY_PHYSICAL, self.replay.physical);
        put_u64(out, REPLAY_START, self.replay.lsn);
        put_u64(out, REPLAY_CHECKSUM, self.replay.previous_checksum);
        put_u64(out, REPLAY_PREVIOUS_END, self.replay.previous_end);
        put_u64(out, REPLAY_SEQUENCE, self.replay.sequence);
        put_u64(out, LOG_MINIMUM, self.log_minimum);
        put_u64(out, DURABLE, self.durable);
        self.partitions_root.encode(&mut out[PARTITIONS_ROOT..]);
        self.table_root.encode(&mut out[TABLE_ROOT..]);
        put_u64(out, KEYS, self.counts.keys);
        put_u64(out, PAGES_BYTES, self.counts.pages_bytes);
        put_u64(out, LIVE_BYTES, self.counts.live_bytes);
        put_u32(out, REPLAY_NEXT, self.replay.next);
        put_u32(out, ZERO, 0);
        let checksum = Identity::new(self.db_id).checksum(
            Kind::Superblock,
            0,
            u64::from(copy),
            &out[covered_from()..CHECKSUM],
        );
        put_u64(out, CHECKSUM, checksum);
    }

    pub(crate) fn decode(copy: u16, bytes: &[u8]) -> Result<(Superblock, Turn), Mismatch> {
        if bytes.len() < SUPERBLOCK_BYTES {
            return Err(Mismatch {
                what: "superblock length",
                expected: SUPERBLOCK_BYTES as u64,
                found: bytes.len() as u64,
            });
        }
        Mismatch::check("superblock magic", MAGIC_VALUE, get_u64(bytes, MAGIC))?;
        let db_id: [u8; 16] = bytes[DB_ID..DB_ID + 16].try_into().expect("sixteen bytes");
        let checksum = Identity::new(db_id).checksum(
            Kind::Superblock,
            0,
            u64::from(copy),
            &bytes[covered_from()..CHECKSUM],
        );
        if !mutant(Mutant::TornRootMadeValid) {
            Mismatch::check("superblock checksum", get_u64(bytes, CHECKSUM), checksum)?;
        }
        Mismatch::check(
            "superblock version",
            u64::from(VERSION),
            u64::from(get_u16(bytes, FORMAT_VERSION)),
        )?;
        Mismatch::check(
            "superblock copy",
            u64::from(copy),
            u64::from(get_u16(bytes, COPY)),
        )?;
        let turn = match get_u32(bytes, TURN) {
            1 => Turn::First,
            2 => Turn::Second,
            other => {
                return Err(Mismatch {
                    what: "superblock turn",
                    expected: 1,
                    found: other.into(),
                });
            }
        };
        let superblock = Superblock {
            db_id,
            generation: get_u64(bytes, GENERATION),
            epoch: get_u64(bytes, EPOCH),
            epoch_start: get_u64(bytes, EPOCH_START),
            epoch_checksum: get_u64(bytes, EPOCH_CHECKSUM),
            sector_bytes: get_u32(bytes, SECTOR_BYTES),
            block_bytes: get_u32(bytes, BLOCK_BYTES),
            segment_bytes: get_u64(bytes, SEGMENT_BYTES),
            segment_count: get_u32(bytes, SEGMENT_COUNT),
            replay: ReplayStart {
                lsn: get_u64(bytes, REPLAY_START),
                physical: get_u32(bytes, REPLAY_PHYSICAL),
                next: get_u32(bytes, REPLAY_NEXT),
                previous_checksum: get_u64(bytes, REPLAY_CHECKSUM),
                previous_end: get_u64(bytes, REPLAY_PREVIOUS_END),
                sequence: get_u64(bytes, REPLAY_SEQUENCE),
            },
            log_minimum: get_u64(bytes, LOG_MINIMUM),
            durable: get_u64(bytes, DURABLE),
            partitions_root: PageRef::decode(&bytes[PARTITIONS_ROOT..]),
            table_root: PageRef::decode(&bytes[TABLE_ROOT..]),
            counts: Counts {
                keys: get_u64(bytes, KEYS),
                pages_bytes: get_u64(bytes, PAGES_BYTES),
                live_bytes: get_u64(bytes, LIVE_BYTES),
            },
        };
        superblock.check_layout()?;
        Ok((superblock, turn))
    }

    /// Says that another frame was the last before the epoch; the copy's checksum is wrong then.
    #[cfg(test)]
    pub(crate) fn set_epoch_checksum(checksum: u64, out: &mut [u8]) {
        put_u64(out, EPOCH_CHECKSUM, checksum);
    }

    /// Makes the checksum of a copy right again.
    #[cfg(test)]
    pub(crate) fn reseal(copy: u16, turn: Turn, out: &mut [u8]) {
        put_u16(out, COPY, copy);
        put_u32(out, TURN, turn as u32);
        let db_id = out[DB_ID..DB_ID + 16].try_into().expect("sixteen bytes");
        let covered = &out[covered_from()..CHECKSUM];
        let checksum = Identity::new(db_id).checksum(Kind::Superblock, 0, copy.into(), covered);
        put_u64(out, CHECKSUM, checksum);
    }

    /// What a copy of another version of the format says of itself; how its checksum is made is not known.
    pub(crate) fn other_version(bytes: &[u8]) -> Option<u16> {
        let is_ours = bytes.len() >= SUPERBLOCK_BYTES && get_u64(bytes, MAGIC) == MAGIC_VALUE;
        let version = is_ours.then(|| get_u16(bytes, FORMAT_VERSION));
        version.filter(|version| *version != VERSION)
    }

    /// Everything later arithmetic relies on.
    fn check_layout(&self) -> Result<(), Mismatch> {
        let block = u64::from(self.block_bytes);
        let odd = |what, found| {
            Err(Mismatch {
                what,
                expected: 0,
                found,
            })
        };
        if !self.block_bytes.is_power_of_two() || !(512..=65_536).contains(&self.block_bytes) {
            return odd("superblock block size", block);
        }
        if !self.sector_bytes.is_power_of_two() || self.sector_bytes > self.block_bytes {
            return odd("superblock sector size", self.sector_bytes.into());
        }
        if !self.segment_bytes.is_power_of_two()
            || self.segment_bytes < SEGMENT_BYTES_MIN.max(4 * block)
            || self.segment_bytes > SEGMENT_BYTES_MAX
        {
            return odd("superblock segment size", self.segment_bytes);
        }
        for physical in [self.replay.physical, self.replay.next] {
            if physical >= self.segment_count {
                return odd("superblock replay segment", physical.into());
            }
        }
        for lsn in [
            self.replay.lsn,
            self.epoch_start,
            self.durable,
            self.log_minimum,
            self.replay.previous_end,
        ] {
            if lsn % block != 0 || lsn < self.segment_bytes || lsn > 1 << 62 {
                return odd("superblock log position", lsn);
            }
        }
        if self.replay.previous_end > self.replay.lsn {
            return odd(
                "superblock end of the frame before",
                self.replay.previous_end,
            );
        }
        for (what, count) in [
            ("superblock generation", self.generation),
            ("superblock epoch", self.epoch),
            ("superblock sequence number", self.replay.sequence),
            ("superblock keys", self.counts.keys),
        ] {
            // They only grow by one, so no database comes near to this.
            if count > COUNT_MAX {
                return odd(what, count);
            }
        }
        for (what, bytes) in [
            ("superblock bytes of the index", self.counts.pages_bytes),
            ("superblock live bytes", self.counts.live_bytes),
        ] {
            // No device is larger.
            if bytes > BYTES_MAX {
                return odd(what, bytes);
            }
        }
        if self.replay.sequence == 0 {
            return odd("superblock sequence number", 0);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Superblock {
        Superblock {
            db_id: *b"0123456789abcdef",
            generation: 5,
            epoch: 3,
            epoch_start: 70 * 65_536,
            epoch_checksum: 98,
            sector_bytes: 512,
            block_bytes: 4096,
            segment_bytes: 65_536,
            segment_count: 28,
            replay: ReplayStart {
                lsn: 68 * 65_536 + 4096,
                physical: 4,
                next: 5,
                previous_checksum: 99,
                previous_end: 68 * 65_536,
                sequence: 1000,
            },
            log_minimum: 69 * 65_536,
            durable: 70 * 65_536,
            partitions_root: PageRef {
                offset: 262_144,
                len: 4096,
                checksum: 7,
            },
            table_root: PageRef::NONE,
            counts: Counts {
                keys: 20,
                pages_bytes: 2000,
                live_bytes: 30_000,
            },
        }
    }

    /// Goal: numbers that later arithmetic relies on are within their bounds. Method: superblocks with right checksums and one wrong number each.
    #[test]
    fn a_superblock_with_an_impossible_number_is_refused() {
        let right = example();
        let replay = right.replay;
        let wrong = [
            Superblock {
                segment_bytes: 2048,
                block_bytes: 512,
                ..right
            },
            Superblock {
                segment_bytes: 1 << 27,
                ..right
            },
            Superblock {
                generation: u64::MAX,
                ..right
            },
            Superblock {
                epoch: u64::MAX,
                ..right
            },
            Superblock {
                counts: Counts {
                    pages_bytes: u64::MAX,
                    ..right.counts
                },
                ..right
            },
            Superblock {
                replay: ReplayStart {
                    sequence: 0,
                    ..replay
                },
                ..right
            },
            Superblock {
                replay: ReplayStart {
                    sequence: u64::MAX,
                    ..replay
                },
                ..right
            },
            Superblock {
                replay: ReplayStart {
                    previous_end: replay.lsn + 4096,
                    ..replay
                },
                ..right
            },
        ];
        for superblock in wrong {
            let mut block = vec![0; 512];
            superblock.encode(0, Turn::First, &mut block);
            assert!(Superblock::decode(0, &block).is_err(), "{superblock:?}");
        }
    }

    /// Goal: every byte of a superblock is covered. Method: flip each bit of a valid one, none may decode.
    #[test]
    fn any_flipped_bit_is_noticed_and_a_moved_copy_too() {
        let mut block = vec![0; 512];
        example().encode(2, Turn::Second, &mut block);
        assert_eq!(Superblock::decode(2, &block), Ok((example(), Turn::Second)));
        assert!(
            Superblock::decode(1, &block).is_err(),
            "a copy in another copy's place"
        );
        for bit in 0..SUPERBLOCK_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(2, &block).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
