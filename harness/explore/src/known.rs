//! Recoveries that are known, and the states that they do for.
//!
//! A guest is deterministic: what it does follows from what it is handed. So two devices that are alike in all that a recovery has read
//! are recovered in the same way, event for event, whatever else they hold; and the answers of the one are those of the other. A torn
//! page of a checkpoint that no superblock refers to yet is never looked at, but doubles the states.
//!
//! Invariants: one recovery serves for states of the same bytes in every block that it read, on a device of the same
//! size. This shortcut applies only without faults and at equal operation counts, since the time of each operation
//! depends on its number. Of files, it serves for the same answers to all that the recovery asked, at the same time if
//! it asked for the time. What must survive is judged for each state by itself. Where that is not clearly a pass, the
//! state is recovered by itself.

use kvsim_fs::{FileSystem, Observation};
use kvsim_sim::{Storage, World};
use kvsim_simdisk::{Device, Image, Nanos, OpId};

use kvsim_drive::case::Transcript;

/// Recoveries of states that lie near each other.
#[derive(Default)]
pub(crate) struct Recoveries {
    known: Vec<Recovered>,
}

/// Names a known recovery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(usize);

struct Recovered {
    before: Option<Before>,
    reads: Reads,
    transcript: Transcript,
}

/// Whether two devices hold the same where a recovery reads.
fn is_alike(one: &Image, other: &Image, reads: &mut [(u64, u64)]) -> bool {
    if one.len_bytes() != other.len_bytes() {
        return false;
    }
    let differs = |&(offset, len_bytes): &(u64, u64)| !one.is_same_in(other, offset, len_bytes);
    match reads.iter().position(differs) {
        Some(at) => {
            reads.swap(0, at);
            false
        }
        None => true,
    }
}

/// A storage that was not recovered yet.
pub(crate) enum Before {
    /// A device: what it holds, and the number of its next operation.
    Device(Image, OpId),
    /// A file system, and the time.
    Files(Box<FileSystem>, Nanos),
}

/// What a recovery has read, without doubles.
#[derive(Default)]
enum Reads {
    /// Nothing that is known.
    #[default]
    Unknown,
    /// Places of a device: offsets and lengths.
    Device(Vec<(u64, u64)>),
    /// What a file system has told, a hash of it, and whether the time mattered.
    Files {
        told: Vec<Observation>,
        hash: u128,
        timed: bool,
    },
}

impl Before {
    /// What decides a recovery of this storage, if nothing else does.
    pub(crate) fn of(storage: &Storage, now: Nanos) -> Option<Before> {
        match storage {
            Storage::Device(device) => Before::of_device(device),
            Storage::Files(files) => {
                let decides = files.is_faultless() && files.pending().is_empty();
                decides.then(|| Before::Files(Box::new(files.clone()), now))
            }
        }
    }

    fn of_device(device: &Device) -> Option<Before> {
        let decides = device.is_faultless() && device.pending().is_empty();
        decides.then(|| Before::Device(device.image().clone(), device.next_op()))
    }

    /// Whether the other one is recovered in the same way by a recovery that reads here. A read that tells two apart is likely to tell the next two
    /// apart, so it goes first from now on.
    fn is_alike(&self, other: &Before, reads: &mut Reads) -> bool {
        match (self, other, reads) {
            (Before::Device(image, next_op), Before::Device(other, others_next), reads) => {
                let Reads::Device(reads) = reads else {
                    return false;
                };
                *next_op == *others_next && is_alike(image, other, reads)
            }
            (
                Before::Files(_, now),
                Before::Files(other, others_now),
                Reads::Files { told, hash, timed },
            ) => (!*timed || now == others_now) && other.observed_hash(told) == *hash,
            _ => false,
        }
    }
}

impl Recoveries {
    /// The recovery of such a device, if there was one.
    pub(crate) fn find(&mut self, before: &Before) -> Option<Number> {
        let is_such = |known: &mut Recovered| {
            let known_before = known.before.as_ref();
            known_before.is_some_and(|known_before| known_before.is_alike(before, &mut known.reads))
        };
        self.known.iter_mut().rposition(is_such).map(Number)
    }

    /// Whether this recovery would have been the same at that time: it was the time of its own state, or it has not asked for it.
    pub(crate) fn is_of_time(&self, number: Number, now: Nanos) -> bool {
        let known = &self.known[number.0];
        match (&known.before, &known.reads) {
            (Some(Before::Files(_, own)), Reads::Files { timed: true, .. }) => *own == now,
            _ => true,
        }
    }

    /// What a recovery showed.
    pub(crate) fn transcript(&self, number: Number) -> &Transcript {
        &self.known[number.0].transcript
    }

    /// Keeps a recovery that has noted in its world what it read. Without `before` it is not found again.
    pub(crate) fn keep(
        &mut self,
        before: Option<Before>,
        after: &World,
        transcript: Transcript,
    ) -> Number {
        let reads = match (&before, after.storage()) {
            (Some(Before::Device(image, _)), Storage::Device(device)) => {
                Reads::Device(places(device.reads(), image.len_bytes()))
            }
            (Some(Before::Files(before, _)), Storage::Files(files)) => {
                let mut told = files.reads().to_vec();
                told.sort_unstable();
                told.dedup();
                let hash = before.observed_hash(&told);
                let timed = after.asked_time();
                Reads::Files { told, hash, timed }
            }
            _ => Reads::Unknown,
        };
        self.push(before, reads, transcript)
    }

    fn push(&mut self, before: Option<Before>, reads: Reads, transcript: Transcript) -> Number {
        self.known.push(Recovered {
            before,
            reads,
            transcript,
        });
        Number(self.known.len() - 1)
    }
}

/// Where a device of this size was read, without doubles. What lies beyond the end the recovery itself has put there.
fn places(reads: &[(u64, u64)], size: u64) -> Vec<(u64, u64)> {
    let mut reads = reads.to_vec();
    reads.sort_unstable();
    reads.dedup();
    reads.retain_mut(|(offset, len_bytes)| {
        *len_bytes = size.saturating_sub(*offset).min(*len_bytes);
        *len_bytes > 0
    });
    reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_simdisk::{DeviceConfig, FaultConfig, Op};

    /// A device that holds these bytes, one in each of its first blocks, and had so many operations before.
    fn device(blocks: &[u8], ops: usize, faults: &FaultConfig) -> Device {
        let mut image = Image::new(1 << 20);
        for (at, &byte) in (0..).zip(blocks) {
            image.write(at * 4096, &[byte; 4096]);
        }
        let config = DeviceConfig::default();
        let mut device = Device::with_image(&config, faults, 1, image).unwrap();
        for _ in 0..ops {
            device.submit(0, 0, Op::Flush).unwrap();
            device.complete_next();
        }
        device
    }

    /// Goal: a recovery does for a device that differs where it did not read, and for no other. Method: one that read two of three
    /// blocks, against a change in each, another number of operations, a device that may fail, and one that was not to be kept.
    #[test]
    fn a_recovery_does_where_all_that_it_read_is_the_same() {
        let honest = FaultConfig::default();
        let before = |blocks: &[u8], ops| Before::of_device(&device(blocks, ops, &honest)).unwrap();
        let mut known = Recoveries::default();
        known.push(None, Reads::Unknown, Transcript::default());
        let reads = [(8192, 4096), (0, 512), (0, 512), ((1 << 20) - 512, 4096)];
        let reads = Reads::Device(places(&reads, 1 << 20));
        let kept = known.push(Some(before(&[1, 2, 3], 5)), reads, Transcript::default());
        let mut found = |before| known.find(&before).map(|number| number.0);
        assert_eq!(found(before(&[1, 2, 3], 5)), Some(kept.0));
        assert_eq!(found(before(&[1, 9, 3], 5)), Some(kept.0), "not read");
        assert_eq!(found(before(&[9, 2, 3], 5)), None, "read in part");
        assert_eq!(found(before(&[1, 2, 9], 5)), None, "read");
        assert_eq!(found(before(&[1, 2, 3], 6)), None, "other times");
        let faults = FaultConfig {
            read_error: 0.1,
            ..honest.clone()
        };
        assert!(Before::of_device(&device(&[1, 2, 3], 5, &faults)).is_none());
        let mut pending = device(&[1, 2, 3], 5, &honest);
        let data = vec![1; 4096].into();
        let write = Op::Write {
            offset: 0,
            data,
            through: false,
        };
        pending.submit(0, 0, write).unwrap();
        assert!(Before::of_device(&pending).is_none());
    }
}
