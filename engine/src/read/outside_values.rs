//! The values of a scan that is done outside the engine. The thread that has joined its leaves reads them too, while others use the engine.
//!
//! Invariant: they stay on the device as long as the scan holds its pass.

use std::sync::Arc;

use crate::api::buffer::IoBuf;
use crate::format::checksum::Identity;
use crate::format::{Geometry, to_usize};
use crate::index::place::Place;
use crate::read::pieces::{Piece, Wanted, pieces, value_in};
use crate::read::record::{CannotRead, PlacedRecord};
use crate::read::state::Slot;

/// Values that are read at the same time.
const READ_AT_ONCE_MAX: usize = 64;

/// The entries of a scan, of which some values are still to be read.
#[derive(Debug)]
pub(super) struct OutsideValues {
    slots: Vec<Slot>,
    /// Those before this have their values.
    next: usize,
    /// How many were read.
    pub(super) values: u64,
}

impl OutsideValues {
    pub(super) fn new(slots: Vec<Slot>) -> OutsideValues {
        OutsideValues {
            slots,
            next: 0,
            values: 0,
        }
    }

    /// Whether all that is to be read lies in the log: values of their own, whose chunks may still be in memory, the engine reads.
    pub(super) fn lie_in_log(&self) -> bool {
        let unread = self.slots.iter().filter_map(|slot| slot.unread.as_ref());
        let mut places = unread.map(|(version, _)| &version.place);
        places.all(|place| matches!(place, Place::Log { .. }))
    }

    /// The entries, once, if every value is there.
    pub(super) fn take_complete(&mut self) -> Option<Vec<Slot>> {
        let is_complete = self.slots.iter().all(|slot| slot.value.is_some());
        is_complete.then(|| std::mem::take(&mut self.slots))
    }

    pub(super) fn into_slots(self) -> Vec<Slot> {
        self.slots
    }

    /// Reads all of them, some at a time. After a failure those that were not read can be read again.
    pub(super) fn read(
        &mut self,
        id: &Identity,
        geometry: &Geometry,
        mut read: impl FnMut(&[(u64, usize)]) -> Option<Vec<IoBuf>>,
    ) -> Result<(), CannotRead> {
        while self.next < self.slots.len() {
            let first = self.next;
            let mut wanted = self.next_wanted(geometry);
            let pieces = pieces(&mut wanted);
            if pieces.is_empty() {
                continue;
            }
            let places = pieces
                .iter()
                .map(|it| (it.start, to_usize(it.end - it.start)));
            let places: Vec<(u64, usize)> = places.collect();
            let Some(buffers) = read(&places) else {
                self.next = first;
                return Err(CannotRead);
            };
            for (piece, buffer) in pieces.into_iter().zip(buffers) {
                let buffer = Arc::new(buffer);
                for part in &wanted[piece.parts.clone()] {
                    self.take(id, to_usize(part.read), &piece, &buffer)?;
                }
            }
        }
        Ok(())
    }

    fn next_wanted(&mut self, geometry: &Geometry) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        while wanted.len() < READ_AT_ONCE_MAX && self.next < self.slots.len() {
            if let Some(record) = self.record(self.next) {
                let key = &self.slots[self.next].key;
                let sectors = record.sectors(key, geometry.sector_bytes);
                wanted.push(Wanted {
                    read: self.next as u64,
                    part: 0,
                    start: sectors.start,
                    end: sectors.end,
                });
            }
            self.next += 1;
        }
        wanted
    }

    /// Takes a value out of a piece.
    fn take(
        &mut self,
        id: &Identity,
        number: usize,
        piece: &Piece,
        read: &Arc<IoBuf>,
    ) -> Result<(), CannotRead> {
        let record = self.record(number).expect("it was wanted");
        let slot = &mut self.slots[number];
        let value = record.find_value(id, &slot.key, piece.start, read)?;
        slot.value = Some(value_in(read, piece.is_dense(), value));
        slot.unread = None;
        self.values += 1;
        Ok(())
    }

    /// The record of an entry whose value is still to be read.
    fn record(&self, number: usize) -> Option<PlacedRecord> {
        let (version, held) = self.slots[number].unread.as_ref()?;
        PlacedRecord::new(version, held.offsets[0])
    }
}
