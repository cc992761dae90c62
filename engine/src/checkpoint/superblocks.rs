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
//! On the way `publish` measures a flush and, where there is one, a write-through, so that the commit path knows which is faster.

use crate::api::buffer::IoBuf;
use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::Level;
use crate::core::Core;
use crate::format::damage::Mismatch;
use crate::format::superblock::{COPIES, Superblock, Turn, copy_offset};
use crate::format::{is_blank, to_usize};
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::{Handle, Io};

const HALVES: [[u16; 2]; 2] = [[0, 2], [1, 3]];

/// Which of the halves a copy belongs to.
pub(crate) fn half_of(copy: u16) -> usize {
    usize::from(copy % 2)
}

/// Whether these copies are all of one half.
pub(crate) fn is_one_half(copies: &[u16]) -> bool {
    HALVES
        .iter()
        .any(|half| copies.iter().all(|copy| half.contains(copy)))
}

/// What the four copies say.
pub(crate) enum Choice {
    Found {
        superblock: Superblock,
        /// The half that the next publication writes first.
        first_half: usize,
    },
    /// None is valid; these are not blank either.
    None { garbage: Vec<u16> },
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
    match (choice, failed) {
        // Of a database more than one half would be there.
        (Choice::None { garbage }, Some(error))
            if copies.contains(&Copy::Unreadable) && !is_one_half(&garbage) =>
        {
            Err(error)
        }
        (choice, _) => Ok(choice),
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
/// - Of the first turn only: the same half again. Damage in the other proves nothing, since it may have come later.
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
        return Ok(Choice::None { garbage });
    };
    let mut halves = [None; 2];
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
        }
    }
    let is_lost = |half: usize| {
        let found = of_half(copies, half);
        let spared = mutant(Mutant::BlankHalfSpared) && found == [Copy::Blank; 2];
        !spared && !found.iter().any(|it| matches!(it, Copy::Valid(..)))
    };
    let first_half = match halves {
        [Some(_), Some(second)] => second,
        [Some(first), None] if is_lost(1 - first) => 1 - first,
        [Some(first), None] => first,
        [None, Some(second)] => 1 - second,
        [None, None] => unreachable!("the newest copy is of its own generation"),
    };
    Ok(Choice::Found {
        superblock: *newest,
        first_half,
    })
}

/// Makes a superblock durable in all copies. Any error poisons.
pub(crate) async fn publish(handle: &Handle, superblock: Superblock) -> Result<(), Error> {
    let block = u64::from(superblock.block_bytes);
    let device = handle.with(|core| core.settings.device.clone());
    let swapped = usize::from(mutant(Mutant::ProvenHalfWrittenFirst));
    let first_half = handle.with(|core| core.first_half ^ swapped);
    let mut took = [0; 2];
    for (at, turn) in [Turn::First, Turn::Second].into_iter().enumerate() {
        let began = handle.with(|core| core.now);
        let through = turn == Turn::Second
            && device.volatile_cache
            && device.write_through
            && !mutant(Mutant::NewEpochNotFlushed);
        let writes: Vec<Io> = HALVES[(first_half + at) % 2]
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
        took[at] = handle.with(|core| core.now) - began;
        let unflushed =
            mutant(Mutant::NewEpochNotFlushed) && handle.with(|core| !core.is_serving());
        let unparted = turn == Turn::First && mutant(Mutant::HalvesNotFlushedApart);
        if !through && !unflushed && !unparted {
            let flush_ns = handle.flush().await?;
            took[at] += flush_ns;
            if turn == Turn::First && device.volatile_cache {
                handle.with(|core| core.note_flush_ns(flush_ns));
            }
        }
    }
    handle.with(|core| {
        core.superblock = Some(superblock);
        core.first_half = 1 - (first_half ^ swapped);
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

    /// What `choose` says of copies given as (generation, turn), 0 for blank and `None` for garbage: generation, and the half to
    /// write first.
    fn chosen(copies: [Option<(u64, Turn)>; 4]) -> (u64, usize) {
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
            Choice::Found {
                superblock,
                first_half,
            } => (superblock.generation, first_half),
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
            let order =
                |c: [Option<(u64, Turn)>; 4]| if flip { [c[1], c[0], c[3], c[2]] } else { c };
            let half = |half: usize| half ^ usize::from(flip);
            let (old, older) = (Some((4, First)), Some((4, Second)));
            let (new, newer) = (Some((5, First)), Some((5, Second)));
            // Before, and complete: the half written second is the next.
            assert_eq!(chosen(order([old, older, old, older])), (4, half(1)));
            // The first turn is being written over the half that was second before.
            assert_eq!(chosen(order([old, None, old, older])), (4, half(1)));
            assert_eq!(chosen(order([old, None, old, None])), (4, half(1)));
            assert_eq!(chosen(order([old, new, old, older])), (5, half(1)));
            assert_eq!(chosen(order([old, new, old, None])), (5, half(1)));
            assert_eq!(chosen(order([old, new, old, new])), (5, half(1)));
            // The second turn.
            assert_eq!(chosen(order([None, new, old, new])), (5, half(1)));
            assert_eq!(chosen(order([None, new, None, new])), (5, half(0)));
            assert_eq!(chosen(order([newer, new, old, new])), (5, half(0)));
            assert_eq!(chosen(order([newer, new, None, new])), (5, half(0)));
            assert_eq!(chosen(order([newer, new, newer, new])), (5, half(0)));
            // Damage came later.
            assert_eq!(chosen(order([newer, None, newer, None])), (5, half(1)));
            // Creation, or torn sectors that hold zeros.
            let blank = Some((0, First));
            assert_eq!(chosen(order([new, blank, new, blank])), (5, half(1)));
            assert_eq!(chosen(order([new, None, new, blank])), (5, half(1)));
            assert_eq!(chosen(order([blank, old, blank, old])), (4, half(0)));
            assert_eq!(chosen(order([blank, older, blank, older])), (4, half(0)));
        }
    }
}
