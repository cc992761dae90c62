//! Which parts of values one operation reads: those that lie near each other.

use std::ops::Range;
use std::sync::Arc;

use crate::api::buffer::{IoBuf, Shared};

/// What is read together has no more than so many bytes, unless it is one part.
const PIECE_BYTES_MAX: u64 = 128 << 10;
/// Between two parts of it lie no more than so many. Drives take about as long for these as for another read.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// A part of a value that is still to be read: the sectors that hold it.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of which value; the reader counts them.
    pub(super) read: u64,
    pub(super) part: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// Bytes of the device that are read at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Which parts lie in it.
    pub(super) parts: Range<usize>,
    /// How many of its bytes are wanted.
    wanted: u64,
}

impl Piece {
    fn of(number: usize, part: &Wanted) -> Piece {
        Piece {
            start: part.start,
            end: part.end,
            parts: number..number + 1,
            wanted: part.end - part.start,
        }
    }

    /// Whether more of it is wanted than not.
    pub(super) fn is_dense(&self) -> bool {
        2 * self.wanted > self.end - self.start
    }
}

/// Brings parts into their order on the device, and says which are read together.
pub(super) fn pieces(wanted: &mut [Wanted]) -> Vec<Piece> {
    wanted.sort_by_key(|part| part.start);
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, part) in wanted.iter().enumerate() {
        if let Some(last) = pieces.last_mut() {
            let end = last.end.max(part.end);
            let is_near = part.start <= last.end + GAP_BYTES_MAX;
            if is_near && end - last.start <= PIECE_BYTES_MAX {
                last.wanted += end - last.end.max(part.start);
                last.end = end;
                last.parts.end = number + 1;
                continue;
            }
        }
        pieces.push(Piece::of(number, part));
    }
    pieces
}

/// A value that lies in what was read. If not much of that was wanted, it is copied: who keeps the value does not keep the rest.
pub(super) fn value_in(read: &Arc<IoBuf>, is_dense: bool, value: Range<usize>) -> Shared {
    match is_dense {
        true => Shared::part(Arc::clone(read), value.start, value.end),
        false => Shared::copy(&read[value]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(parts: &[Range<u64>]) -> Vec<Wanted> {
        let wanted = parts.iter().map(|part| Wanted {
            read: 0,
            part: 0,
            start: part.start,
            end: part.end,
        });
        wanted.collect()
    }

    fn piece(bytes: Range<u64>, parts: Range<usize>) -> Piece {
        Piece {
            wanted: bytes.end - bytes.start,
            start: bytes.start,
            end: bytes.end,
            parts,
        }
    }

    /// Goal: what lies near is read together, up to the bound, in whatever order it is wanted. Method: parts side by side, parts that share a sector, gaps at the limit and beyond it, and parts
    /// that are too large together.
    #[test]
    fn what_lies_near_is_read_together() {
        let mut parts = wanted(&[4_096..8_192, 0..4_096, 4_096..4_608]);
        assert_eq!(pieces(&mut parts), [piece(0..8_192, 0..3)]);
        let gap = GAP_BYTES_MAX;
        let mut parts = wanted(&[0..512, 512 + gap..1_024 + gap]);
        let sparse = Piece {
            wanted: 1_024,
            ..piece(0..1_024 + gap, 0..2)
        };
        assert!(!sparse.is_dense());
        assert_eq!(pieces(&mut parts), [sparse]);
        let mut parts = wanted(&[1_024 + gap..1_536 + gap, 0..512]);
        let apart = [piece(0..512, 0..1), piece(1_024 + gap..1_536 + gap, 1..2)];
        assert_eq!(pieces(&mut parts), apart);
        let most = PIECE_BYTES_MAX;
        let mut parts = wanted(&[0..most - 512, most - 512..most, most..most + 512]);
        let bounded = [piece(0..most, 0..2), piece(most..most + 512, 2..3)];
        assert_eq!(pieces(&mut parts), bounded);
        let mut parts = wanted(std::slice::from_ref(&(0..2 * most)));
        assert_eq!(pieces(&mut parts), [piece(0..2 * most, 0..1)]);
        assert_eq!(pieces(&mut []), []);
    }

    /// Goal: a value keeps nothing of a piece of which little was wanted. Method: pieces of both kinds.
    #[test]
    fn a_value_of_a_sparse_piece_is_copied() {
        let read = Arc::new(IoBuf::zeroed(4_096));
        for (is_dense, kept_by) in [(true, 2), (false, 1)] {
            let value = value_in(&read, is_dense, 1_024..2_048);
            assert_eq!((value.len(), Arc::strong_count(&read)), (1_024, kept_by));
        }
        let mut parts = wanted(&[0..512, 512..1_024]);
        assert!(pieces(&mut parts).iter().all(Piece::is_dense));
    }
}
