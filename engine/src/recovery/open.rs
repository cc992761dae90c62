//! Opening: from whatever the device holds to a database that serves.
//!
//! 1. Choose the superblock: of the valid copies the highest generation.
//! 2. Load the checkpoint it refers to, but for what the leaves of its runs say (`load.rs`).
//! 3. Replay the log from there (`replay.rs`), which finds the tail, or damage.
//!    Where the index is small, load the rest of it (`load_index.rs`).
//! 4. Flush, before anything is written. Where the tail goes beyond what is proven to be durable: write the values there anew, with a checkpoint (`rewrite_tail.rs`).
//! 5. Make a new epoch durable. Only then append.
//! 6. Load the rest of the index, while clients go on.
//!
//! Invariants: recovery overwrites nothing that the superblock before refers to or leads to, so a crash in it changes
//! nothing that was acknowledged. Running it twice gives the same state. A damaged device is refused and left as it is.

use crate::api::coverage::CoveragePoint;
use crate::api::error::Error;
use crate::api::port::{Level, Reply};
use crate::checkpoint::copies::{Order, half_of};
use crate::checkpoint::runs::{Partition, Runs};
use crate::checkpoint::superblocks::{Choice, choose_superblock, publish};
use crate::core::{Core, Phase};
use crate::format::Geometry;
use crate::format::checksum::Identity;
use crate::format::damage::Mismatch;
use crate::format::superblock::Superblock;
use crate::index::entry::INLINE_BYTES_ALWAYS;
use crate::index::memory::Index;
use crate::index::weight::Weight;
use crate::log::append::Log;
use crate::log::tail::{Tail, first_tail};
use crate::mutant::{Mutant, mutant};
use crate::recovery::create::create;
use crate::recovery::load::load_checkpoint;
use crate::recovery::load_index::{load_behind, load_index};
use crate::recovery::loading::Loading;
use crate::recovery::replay::{Recovered, replay};
use crate::recovery::rewrite_tail::rewrite_tail;
use crate::runtime::handle::Handle;
use crate::segments::extent_state::Extents;
use crate::segments::grow::grow_anew;
use crate::segments::usage::{Segments, Use};

/// Opens the database, answers request 0, and loads what is left of the index.
pub(crate) async fn open(handle: Handle) {
    let result = recover(&handle).await;
    let opened = result.is_ok();
    handle.with(|core| {
        core.activity += 1;
        match result {
            Ok(()) => {
                core.phase = Phase::Running;
                core.reply(0, Reply::Done);
            }
            Err(error) => {
                core.phase = Phase::Closed;
                match &error {
                    Error::Corruption(_) => core.reached(CoveragePoint::RefusedDamaged),
                    Error::Unreadable(_)
                    | Error::Disk(_)
                    | Error::Poisoned(_)
                    | Error::PromiseBroken => core.reached(CoveragePoint::RefusedDevice),
                    Error::NoSpace(_) => core.reached(CoveragePoint::RefusedNoSpace),
                    Error::Invalid(_) => {}
                }
                core.log_line(
                    Level::Error,
                    format!("the database could not be opened: {error}"),
                );
                core.fail(0, error.status(), error.to_string());
            }
        }
    });
    if opened && handle.with(|core| core.loading.is_some()) {
        load_behind(handle).await;
    }
}

async fn recover(handle: &Handle) -> Result<(), Error> {
    let (superblock, created) = match choose_superblock(handle).await? {
        Choice::Found { superblock, order } => {
            handle.with(|core| {
                core.copies_order = order;
                adopt(core, &superblock)
            })?;
            (superblock, false)
        }
        Choice::None { garbage, unread } => {
            // A half that an interrupted creation left as garbage is overwritten first: if the other one is blank, it stays so meanwhile.
            handle.with(|core| {
                core.copies_order = Order::halves(garbage.first().map_or(0, |copy| half_of(*copy)));
                core.reached(if garbage.is_empty() {
                    CoveragePoint::Created
                } else {
                    CoveragePoint::CreatedAgain
                });
            });
            (create(handle, &garbage, unread).await?, true)
        }
    };
    let recovered = if created {
        let tail = handle.with(|core| first_tail(&core.geometry, &core.id));
        Recovered {
            tail,
            cut: false,
            proven: tail.previous_end,
            unproven: Vec::new(),
        }
    } else {
        restore_in_room(handle, &superblock).await?
    };
    handle.with(|core| {
        core.stats.cut_tail = recovered.cut;
        if recovered.cut {
            core.reached(CoveragePoint::ReplayTornTail);
        }
        if core.stats.replayed_frames > 0 {
            core.reached(CoveragePoint::ReplayFrames);
        }
    });
    // Durable, or ordered before all else, with the flush that follows.
    grow_anew(handle, superblock.segment_count).await?;
    let superblock = Superblock {
        segment_count: handle.with(|core| core.segments.count()),
        ..superblock
    };
    order_writes(handle).await?;
    if recovered.unproven.is_empty() {
        let next = handle.with(|core| go_on(core, &superblock, &recovered))?;
        publish(handle, next).await?;
        handle.with(|core| core.reached(CoveragePoint::EpochMade));
    } else {
        let superblock = match mutant(Mutant::HalfPublishedTrusted) {
            true => superblock,
            false => publish_again(handle, superblock).await?,
        };
        rewrite_tail(handle, &superblock, &recovered).await?;
    }
    handle.with(|core| {
        core.through_is_faster = core.through_measured_faster;
        core.segments.use_log_freed();
        let keys = core.index.len();
        core.log_line(
            Level::Info,
            format!(
                "open at epoch {}: {keys} keys, log end {}",
                core.log.epoch, core.log.durable
            ),
        );
    });
    Ok(())
}

/// Restores the checkpoint and the log that the superblock leads to, in the room that there is. A process run keeps
/// back the room that a recovery with its own options takes. Other options now may put values into the index that were
/// in the log, or the other way round, and that room may not be enough. Then all values stay in the log, except those
/// that take no more of the index than their places.
async fn restore_in_room(handle: &Handle, superblock: &Superblock) -> Result<Recovered, Error> {
    let recovered = restore(handle, superblock).await?;
    if handle.with(|core| core.has_room_for(&recovered))? {
        return Ok(recovered);
    }
    // With exact counts there may be.
    load_index(handle).await?;
    let limit = handle.with(|core| core.replays_inline_bytes);
    if limit == INLINE_BYTES_ALWAYS || handle.with(|core| core.has_room_for(&recovered))? {
        return Ok(recovered);
    }
    handle.with(|core| {
        core.replays_inline_bytes = INLINE_BYTES_ALWAYS;
        core.stats.replayed_frames = 0;
        core.stats.replayed_bytes = 0;
        core.log_line(
            Level::Info,
            "the log is replayed once more, to keep values out of the index for want of room"
                .into(),
        );
    });
    let recovered = restore(handle, superblock).await?;
    load_index(handle).await?;
    Ok(recovered)
}

/// Loads the checkpoint but for what its runs say, replays the log, and counts what is live of that. A small index is loaded at once.
async fn restore(handle: &Handle, superblock: &Superblock) -> Result<Recovered, Error> {
    handle.with(|core| start_anew(core, superblock));
    load_checkpoint(handle, superblock).await?;
    let recovered = replay(handle, superblock).await?;
    let loads_now = handle.with(|core| {
        core.loading = Some(Loading::new(superblock.counts, recovered.tail));
        core.segments.set_counted(false);
        core.index.count(Weight::stated(&superblock.counts));
        count_live(core)?;
        let bytes: u64 = core.runs.partitions.iter().map(Partition::bytes).sum();
        Ok::<bool, Error>(bytes <= core.settings.options.load_first_bytes)
    })?;
    if loads_now {
        load_index(handle).await?;
    }
    Ok(recovered)
}

/// Nothing is known yet but the superblock.
fn start_anew(core: &mut Core, superblock: &Superblock) {
    core.index = Index::default();
    core.runs = Runs::default();
    core.lookups.start_anew();
    core.loading = None;
    core.none_outside_before = 0;
    core.extents = Extents::default();
    let count = core
        .geometry
        .segments_in(core.settings.device.capacity_bytes);
    core.segments = Segments::new(core.geometry, count);
    core.segments
        .keep_residents(core.settings.options.residents_max());
    let stated = superblock.durable.max(superblock.log_minimum);
    core.segments.state(stated);
}

/// What a killed process has written is ordered before what is written from now on: of two writes to one place that no flush separates, a power cut may keep the
/// older on top, and where a flush only orders, no later one helps. And if half of the superblocks was never written, the other may be in nothing but the cache.
async fn order_writes(handle: &Handle) -> Result<(), Error> {
    if !mutant(Mutant::OpeningUnordered) {
        handle.flush().await?;
    }
    Ok(())
}

/// Publishes what is chosen once more, so that nothing older can be chosen from now on.
async fn publish_again(handle: &Handle, superblock: Superblock) -> Result<Superblock, Error> {
    let again = Superblock {
        generation: superblock.generation + 1,
        ..superblock
    };
    publish(handle, again).await?;
    handle.with(|core| core.reached(CoveragePoint::SuperblockPublishedAgain));
    Ok(again)
}

/// Takes identity and layout from the superblock, if they fit the device.
fn adopt(core: &mut Core, superblock: &Superblock) -> Result<(), Error> {
    let device = &core.settings.device;
    let smallest = device.sector_bytes.max(device.physical_block_bytes);
    if superblock.block_bytes < smallest {
        return Err(Error::Invalid(format!(
            "the database has blocks of {} bytes, but the device's are {smallest}",
            superblock.block_bytes
        )));
    }
    core.id = Identity::new(superblock.db_id);
    core.geometry = Geometry {
        sector_bytes: device.sector_bytes.into(),
        block_bytes: superblock.block_bytes.into(),
        segment_bytes: superblock.segment_bytes,
    };
    let count = core.geometry.segments_in(device.capacity_bytes);
    let expected = core.geometry.segment_offset(superblock.segment_count);
    if count < superblock.segment_count {
        return Err(Mismatch {
            what: "device size",
            expected,
            found: device.capacity_bytes,
        }
        .at(device.capacity_bytes)
        .into());
    }
    Ok(())
}

/// Counts what the log has brought.
fn count_live(core: &mut Core) -> Result<(), Error> {
    let index = std::mem::take(&mut core.index);
    let mut all = index.everything();
    let counted: Result<(), Mismatch> = all.try_for_each(|(key, version)| {
        core.check_loaded(key, version)?;
        core.add_live(key, &version.place);
        core.check_overlaps(&version.place)
    });
    drop(all);
    core.index = index;
    counted.map_err(|mismatch| mismatch.at(0))?;
    for (slot, version) in core.index.entries() {
        if let Some(lsn) = version.place.lsn() {
            core.segments.note_resident(lsn, slot);
        }
    }
    Ok(())
}

/// Lets the log go on at its tail, which is proven. Returns the new epoch's superblock.
fn go_on(
    core: &mut Core,
    superblock: &Superblock,
    recovered: &Recovered,
) -> Result<Superblock, Error> {
    let tail = &recovered.tail;
    core.claim_next(tail.next)?;
    let epoch = superblock.epoch + u64::from(!mutant(Mutant::TailNotFenced));
    core.renew_log(epoch, tail);
    Ok(Superblock {
        generation: superblock.generation + u64::from(!mutant(Mutant::GenerationReused)),
        epoch,
        epoch_start: tail.lsn,
        epoch_checksum: tail.previous_checksum,
        durable: tail.previous_end,
        ..*superblock
    })
}

impl Core {
    /// Another log, which goes on at `tail`; what memory the one before had is used again.
    pub(crate) fn renew_log(&mut self, epoch: u64, tail: &Tail) {
        let log = Log::new(self.geometry, self.id, &self.settings.options, epoch, tail);
        self.log.pool = std::mem::replace(&mut self.log, log).pool;
    }

    /// Keeps the segment that the log would enter next from being used for anything else.
    pub(crate) fn claim_next(&mut self, next: u32) -> Result<(), Error> {
        if self.segments.get(next).used_as == Use::Free && self.segments.claim(next, Use::Log) {
            return Ok(());
        }
        let mismatch = Mismatch {
            what: "next log segment in use",
            expected: Use::Free as u64,
            found: next.into(),
        };
        Err(mismatch.at(self.geometry.segment_offset(next)).into())
    }
}
