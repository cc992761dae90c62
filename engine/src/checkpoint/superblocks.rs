//! The superblock's four copies: choosing among them at an opening, and publishing a new one.
//!
//! The copies are two halves, {0, 2} and {1, 3}. A publication writes one half, flushes, writes the other, flushes; each copy says
//! at which turn it was written. What was read back may be in nothing but the device's cache, from a flush that failed in an
//! earlier process. So the half that may be overwritten first is not always the same one: it is the one that is not proven.
//!
//! Invariants: at any moment one half is on the medium, whole, old or new; when `publish` returns, all four copies are. The next
//! power cut may roll back to an older superblock what an opening has found: what it read of a half may be in nothing but the
//! cache, and one copy of a half may still be an older one. So an opening publishes what it has found once more before it writes
//! anything but superblocks, for the segments that it has freed may still be needed. Then no copy holds an older one, and any
//! copy that is left is enough. No opening publishes the generation after the one that it has read.
//!
//! Where the half to be written first holds the newest superblock, and the other half an older one, its copies are written one
//! after the other, with a flush between: what an opening has read is on the medium all the time if it was there, and an opening that is cut off
//! changes nothing of what the next one finds.
//!
//! On the way `publish` measures a flush and, where there is one, a write-through, so that the commit path knows which is faster.

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::Level;
use crate::checkpoint::copies::{HALVES, Order, half_of, is_one_half};
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::superblock::{COPIES, Superblock, Turn, copy_offset};
use crate::format::{is_blank, to_usize};
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::{Handle, Io};

/// What the four copies say.
pub(crate) enum Choice {
    Found {
        superblock: Superblock,
        /// Of the next publication.
        order: Order,
    },
    /// None is valid; these are not blank either. Also says why one could not be read.
    None {
        garbage: Vec<u16>,
        unread: Option<Error>,
    },
}

/// What one copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are a dozen of them at most"
)]
enum Copy {
    /// It counts as garbage: each half is enough by itself, and a torn sector may be unreadable.
    Unreadable,
    Blank,
    Garbage,
    Valid(Superblock, Turn),
}

impl Copy {
    /// Of what two reads of one copy show, the higher counts. None shows a superblock that was never written, so an older one is not what is there now; and what
    /// one read shows is there, although the other has failed.
    fn rank(&self) -> (u8, u64) {
        match self {
            Copy::Unreadable => (0, 0),
            Copy::Blank => (1, 0),
            Copy::Garbage => (2, 0),
            Copy::Valid(superblock, _) => (3, superblock.generation),
        }
    }

    fn is_garbage(&self) -> bool {
        matches!(self, Copy::Garbage | Copy::Unreadable)
    }
}

/// How often all copies are read. A superblock is missed only if each of its copies is misread each time.
const LOOKS: usize = 2;

/// Reads all copies and chooses.
pub(crate) async fn choose_superblock(handle: &Handle) -> Result<Choice, Error> {
    let (mut copies, mut failed) = read_copies(handle).await;
    for _ in 1..LOOKS {
        let (again, error) = read_copies(handle).await;
        for (copy, again) in copies.iter_mut().zip(again) {
            if again.rank() > copy.rank() {
                *copy = again;
            }
        }
        failed = failed.or(error);
    }
    let mut choice = choose(&copies)?;
    if let Choice::Found { superblock, .. } = &mut choice
        && !mutant(Mutant::GenerationReused)
    {
        // A copy that was misread may hold the next one. Another superblock of the same generation would contradict it.
        superblock.generation += 1;
    }
    handle.with(|core| cover_copies(core, &copies));
    // An open database had at least one half whole at any time.
    let is_ruled_out = |half| {
        let found = of_half(&copies, half);
        found
            .iter()
            .any(|copy| matches!(copy, Copy::Blank | Copy::Garbage))
    };
    match (&mut choice, failed) {
        (Choice::None { garbage, .. }, Some(error))
            if !(is_one_half(garbage) || is_ruled_out(0) && is_ruled_out(1)) =>
        {
            Err(error)
        }
        (Choice::None { unread, .. }, failed) => {
            *unread = failed.filter(|_| copies.contains(&Copy::Unreadable));
            Ok(choice)
        }
        (Choice::Found { .. }, _) => Ok(choice),
    }
}

fn of_half(copies: &[Copy; COPIES as usize], half: usize) -> [Copy; 2] {
    HALVES[half].map(|copy| copies[usize::from(copy)])
}

/// Reads all copies once, side by side. Also says why one could not be read.
async fn read_copies(handle: &Handle) -> ([Copy; COPIES as usize], Option<Error>) {
    let (block, size) = handle.with(|core| {
        let size = core.settings.device.capacity_bytes;
        (core.geometry.block_bytes, size)
    });
    // Where the device ends before it, nothing can be. What is read of the others is refused for want of room, or for what is missing of the segments.
    let is_read = |copy: u16| {
        copy_offset(copy) + block <= size
            && !(mutant(Mutant::NoFallbackToOlderRoot) && half_of(copy) == 1)
            && !(mutant(Mutant::SingleRootCopy) && copy != 0)
    };
    let reads: Vec<(u16, Io)> = (0..COPIES)
        .filter(|copy| is_read(*copy))
        .map(|copy| (copy, handle.read(copy_offset(copy), block)))
        .collect();
    let mut copies = [Copy::Blank; COPIES as usize];
    let mut failed = None;
    for (copy, read) in reads {
        copies[usize::from(copy)] = match handle.retry(read, copy_offset(copy), block).await {
            Ok(bytes) => {
                let found = copy_in(handle, copy, &bytes);
                handle.give(bytes);
                found
            }
            Err(error) => {
                failed = Some(error);
                Copy::Unreadable
            }
        };
    }
    (copies, failed)
}

/// What these bytes are, which were read of a copy's place.
fn copy_in(handle: &Handle, copy: u16, bytes: &[u8]) -> Copy {
    match Superblock::decode(copy, bytes) {
        Ok((superblock, turn)) => Copy::Valid(superblock, turn),
        Err(mismatch) if !is_blank(bytes) => {
            let text = format!("superblock copy {copy}: {}", mismatch.at(copy_offset(copy)));
            handle.with(|core| core.log_line(Level::Debug, text));
            Copy::Garbage
        }
        Err(_) => Copy::Blank,
    }
}

/// Says in which ways the copies differ, if any of them is valid.
fn cover_copies(core: &mut Core, copies: &[Copy]) {
    let valid = |copy: &Copy| match copy {
        Copy::Valid(superblock, turn) => Some((superblock.generation, *turn)),
        Copy::Unreadable | Copy::Blank | Copy::Garbage => None,
    };
    let Some(newest) = copies.iter().filter_map(valid).map(|(at, _)| at).max() else {
        return;
    };
    let any = |what: &dyn Fn(&Copy) -> bool| copies.iter().any(what);
    let of_newest = |turn| any(&|copy| valid(copy) == Some((newest, turn)));
    for (is_so, point) in [
        (
            any(&|copy| valid(copy).is_some_and(|(generation, _)| generation < newest)),
            CoveragePoint::SuperblockHalfNewer,
        ),
        (
            any(&|copy| *copy == Copy::Blank),
            CoveragePoint::SuperblockBlankCopy,
        ),
        (any(&Copy::is_garbage), CoveragePoint::SuperblockTornCopy),
        (!of_newest(Turn::First), CoveragePoint::SuperblockSecondOnly),
    ] {
        if is_so {
            core.reached(point);
        }
    }
}

/// The newest valid copy, and which half the next publication writes first: the one that may be in nothing but the cache.
/// - Copies of both turns: the second half, since the first was flushed before it.
/// - Of the first turn only: the same half again. Damage in the other proves nothing, since it may have come later. Nothing but this half has the newest one, so
///   its copies are not overwritten at once, and one that is not the newest goes first.
/// - Of the second turn only: the first half is damaged, so it is the one to be written.
///
/// But a half without a valid copy goes first: it holds nothing to lose, and the other half is all there is. That it is blank
/// does not say that it was never written, since a torn sector may hold zeros.
fn choose(copies: &[Copy; COPIES as usize]) -> Result<Choice, Error> {
    let valid = || {
        (0_u16..)
            .zip(copies)
            .filter_map(|(copy, found)| match found {
                Copy::Valid(superblock, turn) => Some((copy, superblock, *turn)),
                _ => None,
            })
    };
    let Some((newest_copy, newest, _)) = valid().max_by_key(|(_, s, _)| s.generation) else {
        let garbage = (0_u16..)
            .zip(copies)
            .filter(|(_, found)| found.is_garbage())
            .map(|(copy, _)| copy)
            .collect();
        return Ok(Choice::None {
            garbage,
            unread: None,
        });
    };
    let mut halves = [None; 2];
    let mut newest_copies = Vec::new();
    for (copy, superblock, turn) in valid() {
        let same_generation = superblock.generation == newest.generation;
        if superblock.db_id != newest.db_id || (same_generation && superblock != newest) {
            let mismatch = Mismatch {
                what: "superblock copies that contradict each other",
                expected: copy.into(),
                found: newest_copy.into(),
            };
            return Err(mismatch.at(copy_offset(copy)).into());
        }
        if same_generation {
            halves[turn as usize - 1] = Some(half_of(copy));
            newest_copies.push(copy);
        }
    }
    let is_lost = |half: usize| {
        let found = of_half(copies, half);
        let spared = mutant(Mutant::BlankHalfSpared) && found == [Copy::Blank; 2];
        !spared && !found.iter().any(|it| matches!(it, Copy::Valid(..)))
    };
    let order = match halves {
        [Some(_), Some(second)] => Order::halves(second),
        [Some(first), None] if is_lost(1 - first) => Order::halves(1 - first),
        [Some(first), None] => Order {
            first_half: first,
            ahead: HALVES[first]
                .into_iter()
                .min_by_key(|copy| newest_copies.contains(copy)),
        },
        [None, Some(second)] => Order::halves(1 - second),
        [None, None] => unreachable!("the newest copy is of its own generation"),
    };
    Ok(Choice::Found {
        superblock: *newest,
        order,
    })
}

/// Makes a superblock durable in all copies. Any error poisons.
pub(crate) async fn publish(handle: &Handle, superblock: Superblock) -> Result<(), Error> {
    let block = u64::from(superblock.block_bytes);
    let device = handle.with(|core| core.settings.device.clone());
    let order = handle.with(|core| match mutant(Mutant::ProvenHalfWrittenFirst) {
        true => Order::halves(1 - core.copies_order.first_half),
        false => core.copies_order,
    });
    let mut took = [0; 2];
    for (turn, copies) in order.steps() {
        let began = handle.with(|core| core.now);
        let through = turn == Turn::Second
            && device.volatile_cache
            && device.write_through
            && !mutant(Mutant::NewEpochNotFlushed);
        let writes: Vec<Io> = copies
            .iter()
            .filter(|copy| !mutant(Mutant::SingleRootCopy) || **copy == 0)
            .map(|copy| {
                let mut data = IoBuf::zeroed(to_usize(block));
                superblock.encode(*copy, turn, &mut data);
                handle.write(copy_offset(*copy), data, through)
            })
            .collect();
        let written = handle.await_writes(writes).await;
        if written.is_err() && mutant(Mutant::FailedPublicationWipes) {
            let blank =
                |copy| handle.write(copy_offset(copy), IoBuf::zeroed(to_usize(block)), false);
            let wiped: Vec<Io> = (0..COPIES).map(blank).collect();
            handle.await_writes(wiped).await?;
        }
        written?;
        let step_took = &mut took[turn as usize - 1];
        *step_took = handle.with(|core| core.now) - began;
        let unflushed =
            mutant(Mutant::NewEpochNotFlushed) && handle.with(|core| !core.is_serving());
        let unparted = turn == Turn::First && mutant(Mutant::HalvesNotFlushedApart);
        if !through && !unflushed && !unparted {
            let flush_ns = handle.flush().await?;
            *step_took += flush_ns;
            if turn == Turn::First && device.volatile_cache {
                handle.with(|core| core.note_flush_ns(flush_ns));
            }
        }
    }
    handle.with(|core| {
        core.superblock = Some(superblock);
        core.copies_order = Order::halves(1 - core.copies_order.first_half);
        core.log.prove(superblock.durable);
        core.segments.state(superblock.durable);
        core.stats.checkpoint_bytes += 4 * block;
        if device.volatile_cache && device.write_through {
            // Clearly faster, or it is not worth losing the larger groups.
            core.through_measured_faster = took[1] * 10 < took[0] * 7;
        }
    });
    Ok(())
}

/// Publishes the superblock once more if the log is durable beyond what it states: that is proven then, and openings can rely on it.
pub(crate) async fn republish(handle: &Handle) -> Result<(), Error> {
    let (before, durable) = handle.with(|core| {
        core.unpoisoned()?;
        let before = core.superblock.expect("an open database has a superblock");
        let durable = match mutant(Mutant::RepublishedTooEarly) {
            true => core.log.end(),
            false => core.log.durable,
        };
        Ok::<_, Error>((before, durable))
    })?;
    if before.durable == durable {
        return Ok(());
    }
    let superblock = Superblock {
        generation: before.generation + 1,
        durable,
        ..before
    };
    publish(handle, superblock).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::superblock::tests::example;

    /// What `choose` says of copies given as (generation, turn), 0 for blank and `None` for garbage: generation, and the order of the
    /// next publication.
    fn chosen(copies: [Option<(u64, Turn)>; 4]) -> (u64, Order) {
        let copies = copies.map(|copy| match copy {
            None => Copy::Garbage,
            Some((0, _)) => Copy::Blank,
            Some((generation, turn)) => Copy::Valid(
                Superblock {
                    generation,
                    ..example()
                },
                turn,
            ),
        });
        match choose(&copies).expect("consistent") {
            Choice::Found { superblock, order } => (superblock.generation, order),
            Choice::None { .. } => panic!("there is a valid one"),
        }
    }

    /// Goal: the half that may be the only one on the medium is never overwritten first. Method: every stage at which a
    /// publication may have been broken off, in both orders of the halves, and at creation.
    #[test]
    fn the_half_that_is_proven_is_overwritten_last() {
        use Turn::{First, Second};
        for flip in [false, true] {
            // Halves {0, 2} and {1, 3}; flipped, they change places.
            let placed =
                |c: [Option<(u64, Turn)>; 4]| if flip { [c[1], c[0], c[3], c[2]] } else { c };
            let first = |half: usize| Order::halves(half ^ usize::from(flip));
            let ahead = |half: usize, copy: u16| Order {
                first_half: half ^ usize::from(flip),
                ahead: Some(copy ^ u16::from(flip)),
            };
            let (old, older) = (Some((4, First)), Some((4, Second)));
            let (new, newer) = (Some((5, First)), Some((5, Second)));
            // Before, and complete: the half written second is the next.
            assert_eq!(chosen(placed([old, older, old, older])), (4, first(1)));
            // The first turn is being written over the half that was second before.
            assert_eq!(chosen(placed([old, None, old, older])), (4, first(1)));
            assert_eq!(chosen(placed([old, None, old, None])), (4, first(1)));
            assert_eq!(chosen(placed([old, new, old, older])), (5, ahead(1, 3)));
            assert_eq!(chosen(placed([old, older, old, new])), (5, ahead(1, 1)));
            assert_eq!(chosen(placed([old, new, old, None])), (5, ahead(1, 3)));
            assert_eq!(chosen(placed([old, new, old, new])), (5, ahead(1, 1)));
            // The second turn.
            assert_eq!(chosen(placed([None, new, old, new])), (5, ahead(1, 1)));
            assert_eq!(chosen(placed([None, new, None, new])), (5, first(0)));
            assert_eq!(chosen(placed([newer, new, old, new])), (5, first(0)));
            assert_eq!(chosen(placed([newer, new, None, new])), (5, first(0)));
            assert_eq!(chosen(placed([newer, new, newer, new])), (5, first(0)));
            // Damage came later.
            assert_eq!(chosen(placed([newer, None, newer, None])), (5, first(1)));
            // Creation, or torn sectors that hold zeros.
            let blank = Some((0, First));
            assert_eq!(chosen(placed([new, blank, new, blank])), (5, first(1)));
            assert_eq!(chosen(placed([new, None, new, blank])), (5, first(1)));
            assert_eq!(chosen(placed([blank, old, blank, old])), (4, first(0)));
            assert_eq!(chosen(placed([blank, older, blank, older])), (4, first(0)));
        }
    }
}
