//! What is live of entries that leave memory during an opening: an opening counts what is live when it has replayed the log, and then has only the entries that are in
//! memory.
//!
//! Invariants: an entry counts here from the moment when it leaves memory to the moment when it is learnt again. Where its value lies is checked as for any other
//! entry, as soon as enough is known of the log.

use crate::core::{Core, live_bytes};
use crate::format::damage::Mismatch;
use crate::format::frame::FRAME_HEADER_BYTES;
use crate::index::key::Key;
use crate::index::place::{Place, Version};
use crate::log::tail::Tail;
use crate::mutant::{Mutant, mutant};
use crate::segments::extent::claim_extents;

impl Core {
    /// An entry leaves memory, or does not come into it, while an opening counts.
    pub(crate) fn count_forgotten(&mut self, key: &[u8], version: &Version) {
        let odd = self.forget_version(key, version).err();
        let forgotten = self.forgotten.as_mut().expect("an opening counts");
        forgotten.sequence = forgotten.sequence.max(version.sequence);
        forgotten.odd = forgotten.odd.or(odd);
    }

    fn forget_version(&mut self, key: &[u8], version: &Version) -> Result<(), Mismatch> {
        let odd = |what, expected, found| Mismatch {
            what,
            expected,
            found,
        };
        match &version.place {
            Place::Tombstone | Place::Inline(_) => Ok(()),
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let (within, bytes) = (self.geometry.within(*lsn), live_bytes(key, *value_bytes));
                let first = self.geometry.block_bytes + FRAME_HEADER_BYTES as u64;
                if within < first || within + bytes > self.geometry.segment_bytes {
                    return Err(odd("value beyond its segment", first, within));
                }
                let logical = self.geometry.logical(*lsn);
                let forgotten = self.forgotten.as_mut().expect("an opening counts");
                *forgotten.live.entry(logical).or_insert(0) += bytes;
                forgotten.end = forgotten.end.max(lsn + bytes);
                Ok(())
            }
            Place::Extent(pointer) => {
                claim_extents(self, pointer)?;
                let mut chunks = pointer.chunks.iter();
                match chunks.find(|chunk| self.extents.is_owned(chunk.offset)) {
                    Some(chunk) => Err(odd("chunk of two values", 0, chunk.offset)),
                    None => {
                        self.add_live(key, &version.place);
                        Ok(())
                    }
                }
            }
        }
    }

    /// An entry that was counted comes back into memory.
    pub(crate) fn recall(&mut self, key: &Key, version: &Version) {
        let forgotten = self.forgotten.as_mut().expect("an opening counts");
        match &version.place {
            Place::Tombstone | Place::Inline(_) => {}
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let logical = self.geometry.logical(*lsn);
                if let Some(live) = forgotten.live.get_mut(&logical) {
                    *live = live.saturating_sub(live_bytes(key.bytes(), *value_bytes));
                }
            }
            Place::Extent(pointer) => {
                let mut chunks = pointer.chunks.iter();
                if chunks.all(|chunk| self.extents.is_owned(chunk.offset)) {
                    self.remove_live(key.bytes(), &version.place);
                }
            }
        }
    }

    /// Everything is known: what was counted is live where it lies.
    pub(crate) fn count_all_forgotten(&mut self, tail: &Tail) -> Result<(), Mismatch> {
        let Some(forgotten) = self.forgotten.take() else {
            return Ok(());
        };
        forgotten.odd.map_or(Ok(()), Err)?;
        let odd = |what, expected, found| Mismatch {
            what,
            expected,
            found,
        };
        if forgotten.sequence >= tail.next_sequence && !mutant(Mutant::SequencesStartAgain) {
            let (next, found) = (tail.next_sequence, forgotten.sequence);
            return Err(odd("version newer than the log", next, found));
        }
        if forgotten.end > tail.lsn {
            return Err(odd("value beyond the log", tail.lsn, forgotten.end));
        }
        if mutant(Mutant::ForgottenNotCounted) {
            return Ok(());
        }
        for (logical, bytes) in forgotten.live.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let physical = self.segments.log.get(&logical).copied();
            let physical = physical.ok_or(odd(
                "value in a segment that the log does not have",
                0,
                logical,
            ))?;
            self.segments.add_live(physical, bytes);
        }
        Ok(())
    }
}
