//! Crash states of a device: which are possible, and how one is drawn.
//!
//! Invariants: [`check`] accepts exactly what the configured device could have left. What [`draw`](draw()) draws, [`check`] accepts; each
//! aspect of a state (what survives, in which order, which are torn and how) is drawn from a stream of its own, so that switching one off
//! does not move the others.

use kvsim_crash::draw::{Part, some_sectors, torn_byte};
use kvsim_crash::{CrashError, CrashState, Persisted, Sectors};

use crate::order;
use crate::persistence::{PendingKind, PendingWrite, position};
use crate::rng::{self, Purpose, Rng};
use crate::{DeviceConfig, FaultConfig, FaultCounts, FaultKind};

/// What may affect the sectors of a pending operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tearable {
    /// How many sectors it has.
    pub(crate) sectors: u64,
    /// Whether it brings data, so that a sector can be caught half written.
    pub(crate) is_write: bool,
}

/// How an operation can be torn on this device, if it can.
pub(crate) fn tearable(
    write: &PendingWrite,
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Option<Tearable> {
    let (offset, len_bytes) = write.range();
    let sectors = len_bytes / u64::from(device.sector_bytes);
    let is_write = matches!(write.kind, PendingKind::Write { .. });
    let damage = faults.byte_tear + faults.garbage + faults.torn_unreadable;
    let within_sector = is_write && damage > 0.0;
    if faults.torn == 0.0 || sectors == 0 || (sectors == 1 && !within_sector) {
        return None;
    }
    let atomic = is_write && is_atomic(offset, len_bytes, device);
    (!atomic).then_some(Tearable { sectors, is_write })
}

/// Whether a write is all or nothing: short enough, aligned to its size (rounded up to a power of two), and across no boundary.
pub(crate) fn is_atomic(offset: u64, len_bytes: u64, device: &DeviceConfig) -> bool {
    let boundary = device.atomic_boundary_bytes;
    let crosses = boundary != 0 && offset / boundary != (offset + len_bytes - 1) / boundary;
    len_bytes <= device.atomic_write_bytes
        && offset.is_multiple_of(len_bytes.next_power_of_two())
        && !crosses
}

/// Whether the device could have left this.
pub(crate) fn check(
    state: &CrashState,
    pending: &[PendingWrite],
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Result<(), CrashError> {
    let mut seen = vec![false; pending.len()];
    for persisted_write in &state.persisted {
        let id = persisted_write.id;
        let at = position(pending, id).ok_or(CrashError::NotPending(id))?;
        if std::mem::replace(&mut seen[at], true) {
            return Err(CrashError::NotPending(id));
        }
        if pending[at].dropped {
            return Err(CrashError::Dropped(id));
        }
        check_sectors(persisted_write, &pending[at], device, faults)?;
    }
    let keepable: Vec<u64> = keepable(pending).map(|write| write.id).collect();
    if !faults.loss && state.persisted.len() < keepable.len() {
        return Err(CrashError::NothingIsLost);
    }
    if !faults.reorder {
        for (place, persisted_write) in state.persisted.iter().enumerate() {
            let torn_before_last =
                persisted_write.sectors != Sectors::All && place + 1 < state.persisted.len();
            if keepable[place] != persisted_write.id || torn_before_last {
                return Err(CrashError::OutOfOrder(persisted_write.id));
            }
        }
    }
    order::check(state, pending)
}

fn keepable(pending: &[PendingWrite]) -> impl Iterator<Item = &PendingWrite> {
    pending.iter().filter(|write| !write.dropped)
}

fn check_sectors(
    persisted_write: &Persisted,
    write: &PendingWrite,
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Result<(), CrashError> {
    let Sectors::Torn {
        kept,
        garbage,
        torn_at,
        unreadable,
    } = &persisted_write.sectors
    else {
        return Ok(());
    };
    let id = persisted_write.id;
    let not = |why| Err(CrashError::NotTearable { id, why });
    let Some(Tearable { sectors, is_write }) = tearable(write, device, faults) else {
        return not("it is atomic on this device, or tears are off");
    };
    if !kept.is_sorted_by(|a, b| a < b) || kept.last().is_some_and(|&last| last >= sectors) {
        return not("its sectors are not ascending indices inside it");
    }
    if kept.is_empty() && garbage.is_none() && torn_at.is_none() && unreadable.is_none() {
        return not("nothing of it survives, so it is not to be named");
    }
    if let Some((sector, _)) = garbage
        && (faults.garbage == 0.0 || !is_write || *sector >= sectors || kept.contains(sector))
    {
        return not("garbage is off, outside it, or in a kept sector");
    }
    if let Some((sector, byte)) = torn_at {
        let twice = garbage.is_some_and(|(other, _)| other == *sector);
        let inside = *sector < sectors && (1..u64::from(device.sector_bytes)).contains(byte);
        if faults.byte_tear == 0.0 || !is_write || !inside || kept.contains(sector) || twice {
            return not("byte tears are off, or this one is outside it or in a kept sector");
        }
    }
    if let Some(sector) = unreadable {
        let mut others = [garbage, torn_at].into_iter().flatten();
        let twice = others.any(|(other, _)| other == sector);
        let off = faults.torn_unreadable == 0.0 || !is_write;
        if off || *sector >= sectors || kept.contains(sector) || twice {
            return not(
                "unreadable sectors are off, or this one is outside it or in a kept sector",
            );
        }
    }
    Ok(())
}

/// The streams from which the aspects of one drawn state come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) seed: u64,
    /// How many states were drawn before.
    pub(crate) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aspect {
    Persisted,
    Order,
    WhichTorn,
    Sectors,
    Garbage,
    Bytes,
    Unreadable,
    Barriers,
    Pattern,
}

impl Draw {
    /// The stream of one aspect, and where it is drawn per operation, of one operation.
    fn stream(self, aspect: Aspect, id: u64) -> Rng {
        let label = aspect as u64;
        Rng::new(
            rng::draw(self.seed, Purpose::Crash, label, self.number, id),
            Purpose::Crash,
        )
    }

    /// The plain pattern that all garbage of the state has: zeros (0) or ones (1), in half of the states. Flash that was being programmed is often one of the two
    /// throughout, and so may be all copies of a thing.
    fn pattern_of_all(self) -> Option<u64> {
        let mut rng = self.stream(Aspect::Pattern, 0);
        rng.chance(0.5).then(|| rng.below(2))
    }
}

fn index(rng: &mut Rng, below: usize) -> usize {
    usize::try_from(rng.below(below as u64)).expect("an index")
}

/// Draws a state that [`check`] accepts.
pub(crate) fn draw(
    pending: &[PendingWrite],
    device: &DeviceConfig,
    faults: &FaultConfig,
    draw: Draw,
) -> CrashState {
    let mut chosen: Vec<&PendingWrite> = keepable(pending).collect();
    if faults.loss && !chosen.is_empty() {
        choose(&mut chosen, faults, &mut draw.stream(Aspect::Persisted, 0));
    }
    let is_ordered = order::is_ordered(pending);
    if is_ordered && faults.loss && faults.reorder {
        let add = draw.stream(Aspect::Barriers, 0).chance(0.5);
        let all: Vec<&PendingWrite> = keepable(pending).collect();
        order::close(&mut chosen, &all, add);
    }
    let mut order = draw.stream(Aspect::Order, 0);
    if faults.reorder && chosen.len() > 1 && order.chance(0.5) {
        for at in (1..chosen.len()).rev() {
            chosen.swap(at, index(&mut order, at + 1));
        }
        if is_ordered {
            order::sort(&mut chosen);
        }
    }
    let whole = chosen.iter().map(|write| Persisted::whole(write.id));
    let mut persisted: Vec<Persisted> = whole.collect();
    let mut which = draw.stream(Aspect::WhichTorn, 0);
    if which.chance(faults.torn) {
        let first = if faults.reorder {
            0
        } else {
            chosen.len().saturating_sub(1)
        };
        let can = |at: &usize| {
            tearable(chosen[*at], device, faults).is_some()
                && (!is_ordered || order::is_last(chosen[*at], &chosen))
        };
        let able: Vec<usize> = (first..chosen.len()).filter(can).collect();
        let how_many = HowMany::draw(&mut which);
        for (rank, &at) in able.iter().enumerate() {
            let it = match how_many {
                HowMany::One(number) => rng::scale(number, able.len() as u64) == rank as u64,
                HowMany::Some => which.chance(0.5),
                HowMany::All => true,
            };
            if it {
                let tearable = tearable(chosen[at], device, faults).expect("asked before");
                persisted[at].sectors = tear(chosen[at].id, tearable, device, faults, draw);
            }
        }
    }
    CrashState { persisted }
}

/// How many of the writes that can be torn are torn.
#[derive(Debug, Clone, Copy)]
enum HowMany {
    /// One: where it stands among them, as a part of the whole range of numbers.
    One(u64),
    Some,
    /// All of them: what is written side by side, the copies of a superblock for instance, is often under way at the same moment.
    All,
}

impl HowMany {
    fn draw(rng: &mut Rng) -> HowMany {
        match rng.below(4) {
            0 | 1 => HowMany::One(rng.below(u64::MAX)),
            2 => HowMany::Some,
            _ => HowMany::All,
        }
    }
}

/// Takes out of `chosen` what is lost.
fn choose(chosen: &mut Vec<&PendingWrite>, faults: &FaultConfig, rng: &mut Rng) {
    let count = chosen.len();
    match faults.bias.draw(rng) {
        Part::None => chosen.clear(),
        Part::All => {}
        // Where order is kept, only prefixes survive: the one lost is the last, the one kept the first.
        Part::AllButOne if !faults.reorder => chosen.truncate(count - 1),
        Part::AllButOne => drop(chosen.remove(index(rng, count))),
        Part::One if !faults.reorder => chosen.truncate(1),
        Part::One => *chosen = vec![chosen[index(rng, count)]],
        Part::Prefix => chosen.truncate(index(rng, count + 1)),
        Part::Subset if !faults.reorder => chosen.truncate(index(rng, count + 1)),
        Part::Subset => chosen.retain(|_| rng.chance(0.5)),
    }
}

/// Some sectors but not all, and perhaps one that is damaged.
fn tear(id: u64, of: Tearable, device: &DeviceConfig, faults: &FaultConfig, draw: Draw) -> Sectors {
    let sectors = of.sectors;
    let mut kept = match sectors {
        0 | 1 => (0..sectors).collect(),
        _ => some_sectors(sectors, &mut draw.stream(Aspect::Sectors, id)),
    };
    let mut damaged = |aspect, probability, place: &dyn Fn(&mut Rng) -> (u64, u64)| {
        let mut rng = draw.stream(aspect, id);
        let hit = of.is_write && rng.chance(probability);
        hit.then(|| {
            let found = place(&mut rng);
            kept.retain(|&sector| sector != found.0);
            found
        })
    };
    let mut garbage = damaged(Aspect::Garbage, faults.garbage, &|rng| {
        (rng.below(sectors), rng.range(0, 3))
    });
    if let Some((_, pattern)) = &mut garbage {
        match draw.pattern_of_all() {
            Some(plain) => *pattern = plain,
            // Small enough for any file format, and never one of the two plain patterns.
            None if *pattern > 1 => *pattern = 2 + draw.stream(Aspect::Garbage, id).below(1 << 32),
            None => {}
        }
    }
    let sector_bytes = u64::from(device.sector_bytes);
    let torn_at = damaged(Aspect::Bytes, faults.byte_tear, &|rng| {
        torn_byte(sectors, sector_bytes, rng)
    });
    let torn_at = torn_at.filter(|(sector, _)| garbage.is_none_or(|(other, _)| other != *sector));
    let unreadable = damaged(Aspect::Unreadable, faults.torn_unreadable, &|rng| {
        (rng.below(sectors), 0)
    });
    let unreadable = unreadable.map(|(sector, _)| sector).filter(|sector| {
        let mut others = [garbage, torn_at].into_iter().flatten();
        !others.any(|(other, _)| other == *sector)
    });
    if kept.len() as u64 == sectors {
        return Sectors::All;
    }
    Sectors::Torn {
        kept,
        garbage,
        torn_at,
        unreadable,
    }
}

/// Counts what a state does, and what it could have done.
pub(crate) fn count(
    state: &CrashState,
    pending: &[PendingWrite],
    device: &DeviceConfig,
    faults: &FaultConfig,
    counts: &mut FaultCounts,
) {
    let keepable: Vec<&PendingWrite> = keepable(pending).collect();
    if keepable.is_empty() {
        return;
    }
    let rank = |id| {
        keepable
            .binary_search_by_key(&id, |write| write.id)
            .expect("checked before")
    };
    let order: Vec<usize> = state
        .persisted
        .iter()
        .map(|persisted_write| rank(persisted_write.id))
        .collect();
    if faults.loss {
        counts.count(FaultKind::Loss, order.len() < keepable.len());
    }
    if faults.reorder && keepable.len() > 1 {
        let hole = order
            .iter()
            .max()
            .is_some_and(|&last| last + 1 > order.len());
        counts.count(FaultKind::Reorder, hole || !order.is_sorted());
    }
    let able = || {
        keepable
            .iter()
            .filter_map(|write| tearable(write, device, faults))
    };
    let any = |of: fn(&Sectors) -> bool| {
        state
            .persisted
            .iter()
            .any(|persisted_write| of(&persisted_write.sectors))
    };
    if able().next().is_some() {
        counts.count(FaultKind::Torn, any(|sectors| *sectors != Sectors::All));
    }
    if able().any(|tearable| tearable.is_write) {
        if faults.garbage > 0.0 {
            let has = |sectors: &Sectors| {
                matches!(
                    sectors,
                    Sectors::Torn {
                        garbage: Some(_),
                        ..
                    }
                )
            };
            counts.count(FaultKind::Garbage, any(has));
        }
        if faults.byte_tear > 0.0 {
            counts.count(FaultKind::ByteTear, any(Sectors::has_byte_tear));
        }
        if faults.torn_unreadable > 0.0 {
            counts.count(FaultKind::TornUnreadable, any(Sectors::has_unreadable));
        }
    }
}
