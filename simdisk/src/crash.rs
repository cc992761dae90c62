//! What a cut leaves, as a value: it can be drawn, enumerated, written down, replayed and shrunk.
//!
//! Invariant: [`check`] accepts exactly what the configured device could have left.

use serde::{Deserialize, Serialize};

use crate::persistence::{Fate, PendingKind, PendingWrite};
use crate::rng::Rng;
use crate::{DeviceConfig, FaultConfig, FaultCounts, FaultKind};

/// What ends an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CrashKind {
    /// The process dies; the device finishes what was submitted and keeps its cache.
    Process,
    /// The power goes; the device keeps what is durable and what the crash state says.
    Power,
}

/// Which of the pending operations survive a power cut, in the order in which they reached the medium.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashState {
    /// The survivors. What is pending and not named is lost.
    pub survivors: Vec<Survivor>,
}

/// One survivor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivor {
    /// The number of the operation.
    pub id: u64,
    /// Which of its sectors.
    #[serde(default)]
    pub sectors: Sectors,
}

/// Which sectors of a write survive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sectors {
    /// All of them.
    #[default]
    All,
    /// It is torn.
    Torn {
        /// Indices, ascending, of the sectors that are new.
        kept: Vec<u64>,
        /// A sector of garbage: its index, and the number the garbage is made from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        garbage: Option<(u64, u64)>,
        /// A sector torn in the middle: its index, and the first byte that is old.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        torn_at: Option<(u64, u64)>,
    },
}

impl Sectors {
    pub(crate) fn fate(&self, index: u64) -> Fate {
        match self {
            Sectors::All => Fate::New,
            Sectors::Torn {
                garbage: Some((sector, seed)),
                ..
            } if *sector == index => Fate::Garbage(*seed),
            Sectors::Torn {
                torn_at: Some((sector, byte)),
                ..
            } if *sector == index => Fate::TornAt(*byte),
            Sectors::Torn { kept, .. } if kept.binary_search(&index).is_ok() => Fate::New,
            Sectors::Torn { .. } => Fate::Old,
        }
    }
}

/// Why a crash state is impossible on this device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// It names an operation that is not pending, or twice.
    #[error("operation {0} is not pending, or named twice")]
    NotPending(u64),
    /// It keeps what the device had dropped after a failed flush.
    #[error("operation {0} was dropped after a failed flush")]
    Dropped(u64),
    /// It loses something, and the device loses nothing.
    #[error("the device loses nothing (faults.loss = false)")]
    NothingIsLost,
    /// It is not a prefix in the order of submission, and the device keeps order.
    #[error("the device keeps order (faults.reorder = false), and operation {0} is out of it")]
    OutOfOrder(u64),
    /// It tears what cannot be torn.
    #[error("operation {id} cannot be torn so: {why}")]
    NotTearable {
        /// The operation.
        id: u64,
        /// Why not.
        why: &'static str,
    },
}

/// What a cut did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashReport {
    /// What kind of cut it was.
    pub kind: CrashKind,
    /// How many operations were pending.
    pub pending: u64,
    /// How many of them were lost entirely.
    pub lost: u64,
    /// How many survived torn.
    pub torn: u64,
    /// Whether a flush was in flight.
    pub in_flush: bool,
    /// What was decided.
    pub state: CrashState,
}

/// How many sectors a write has, if it may be torn on this device.
pub(crate) fn tearable(
    write: &PendingWrite,
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Option<u64> {
    let sector = u64::from(device.sector_bytes);
    let (offset, len_bytes) = write.range();
    let sectors = len_bytes / sector;
    let within_sector = faults.byte_tear > 0.0 || faults.garbage > 0.0;
    if faults.torn == 0.0 || sectors == 0 || (sectors == 1 && !within_sector) {
        return None;
    }
    let aligned = len_bytes <= device.atomic_write_bytes
        && offset.is_multiple_of(len_bytes.next_power_of_two());
    let boundary = device.atomic_boundary_bytes;
    let crosses = boundary != 0 && offset / boundary != (offset + len_bytes - 1) / boundary;
    let atomic = aligned && !crosses && matches!(write.kind, PendingKind::Write { .. });
    (!atomic).then_some(sectors)
}

/// Whether the device could have left this.
pub(crate) fn check(
    state: &CrashState,
    pending: &[PendingWrite],
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Result<(), CrashError> {
    let mut seen = std::collections::BTreeSet::new();
    for survivor in &state.survivors {
        let id = survivor.id;
        let write = pending
            .iter()
            .find(|write| write.id == id)
            .ok_or(CrashError::NotPending(id))?;
        if !seen.insert(id) {
            return Err(CrashError::NotPending(id));
        }
        if write.dropped {
            return Err(CrashError::Dropped(id));
        }
        check_sectors(survivor, write, device, faults)?;
    }
    let keepable: Vec<u64> = pending
        .iter()
        .filter(|write| !write.dropped)
        .map(|write| write.id)
        .collect();
    if !faults.loss && state.survivors.len() < keepable.len() {
        return Err(CrashError::NothingIsLost);
    }
    if !faults.reorder {
        for (position, survivor) in state.survivors.iter().enumerate() {
            let torn_before_last =
                survivor.sectors != Sectors::All && position + 1 < state.survivors.len();
            if keepable[position] != survivor.id || torn_before_last {
                return Err(CrashError::OutOfOrder(survivor.id));
            }
        }
    }
    Ok(())
}

fn check_sectors(
    survivor: &Survivor,
    write: &PendingWrite,
    device: &DeviceConfig,
    faults: &FaultConfig,
) -> Result<(), CrashError> {
    let Sectors::Torn {
        kept,
        garbage,
        torn_at,
    } = &survivor.sectors
    else {
        return Ok(());
    };
    let not = |why| {
        Err(CrashError::NotTearable {
            id: survivor.id,
            why,
        })
    };
    let Some(sectors) = tearable(write, device, faults) else {
        return not("it is atomic on this device, or tears are off");
    };
    if !kept.is_sorted_by(|a, b| a < b) || kept.last().is_some_and(|&last| last >= sectors) {
        return not("its sectors are not ascending indices inside it");
    }
    if let Some((sector, _)) = garbage
        && (faults.garbage == 0.0 || *sector >= sectors || kept.contains(sector))
    {
        return not("garbage is off, outside it, or in a kept sector");
    }
    if let Some((sector, byte)) = torn_at {
        let twice = garbage.is_some_and(|(other, _)| other == *sector);
        if faults.byte_tear == 0.0
            || *sector >= sectors
            || kept.contains(sector)
            || twice
            || *byte >= u64::from(device.sector_bytes)
        {
            return not("byte tears are off, or this one is outside it or in a kept sector");
        }
    }
    Ok(())
}

/// Draws a state that [`check`] accepts.
pub(crate) fn draw(
    pending: &[PendingWrite],
    device: &DeviceConfig,
    faults: &FaultConfig,
    rng: &mut Rng,
) -> CrashState {
    let keepable: Vec<&PendingWrite> = pending.iter().filter(|write| !write.dropped).collect();
    let mut chosen = if faults.loss {
        choose(&keepable, faults, rng)
    } else {
        keepable
    };
    if faults.reorder && chosen.len() > 1 && rng.chance(0.5) {
        for at in (1..chosen.len()).rev() {
            chosen.swap(
                at,
                usize::try_from(rng.below(at as u64 + 1)).expect("an index"),
            );
        }
    }
    let last = chosen.len();
    let survivors = chosen.iter().enumerate().map(|(position, write)| {
        let may = faults.reorder || position + 1 == last;
        let sectors = match tearable(write, device, faults) {
            Some(sectors) if may && rng.chance(faults.torn) => tear(sectors, device, faults, rng),
            _ => Sectors::All,
        };
        Survivor {
            id: write.id,
            sectors,
        }
    });
    CrashState {
        survivors: survivors.collect(),
    }
}

fn choose<'a>(
    keepable: &[&'a PendingWrite],
    faults: &FaultConfig,
    rng: &mut Rng,
) -> Vec<&'a PendingWrite> {
    let count = keepable.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let index = |rng: &mut Rng, below: u64| usize::try_from(rng.below(below)).expect("an index");
    if !faults.reorder {
        return keepable[..index(rng, count + 1)].to_vec();
    }
    let bias = &faults.bias;
    let weights = [
        bias.none,
        bias.all,
        bias.all_but_one,
        bias.one,
        bias.prefix,
        bias.subset,
    ]
    .map(u64::from);
    let mut left = rng.below(weights.iter().sum());
    let way = weights.iter().position(|&weight| {
        let here = left < weight;
        left = left.wrapping_sub(if here { 0 } else { weight });
        here
    });
    match way {
        Some(0) => Vec::new(),
        Some(1) => keepable.to_vec(),
        Some(2) => {
            let without = index(rng, count);
            keepable
                .iter()
                .enumerate()
                .filter(|&(at, _)| at != without)
                .map(|(_, write)| *write)
                .collect()
        }
        Some(3) => vec![keepable[index(rng, count)]],
        Some(4) => keepable[..index(rng, count + 1)].to_vec(),
        _ => keepable
            .iter()
            .filter(|_| rng.chance(0.5))
            .copied()
            .collect(),
    }
}

fn tear(sectors: u64, device: &DeviceConfig, faults: &FaultConfig, rng: &mut Rng) -> Sectors {
    let split = rng.below(sectors + 1);
    let mut kept: Vec<u64> = match rng.below(4) {
        0 => (0..split).collect(),
        1 => (split..sectors).collect(),
        2 => (0..sectors)
            .filter(|&sector| sector != split % sectors)
            .collect(),
        _ => (0..sectors).filter(|_| rng.chance(0.5)).collect(),
    };
    let mut damage = |rng: &mut Rng, probability: f64, bound: u64| {
        rng.chance(probability).then(|| {
            let sector = rng.below(sectors);
            kept.retain(|&other| other != sector);
            (sector, rng.below(bound))
        })
    };
    let garbage = damage(rng, faults.garbage, u64::MAX);
    let torn_at = damage(rng, faults.byte_tear, u64::from(device.sector_bytes));
    let torn_at = torn_at.filter(|(sector, _)| garbage.is_none_or(|(other, _)| other != *sector));
    if kept.len() as u64 == sectors {
        Sectors::All
    } else {
        Sectors::Torn {
            kept,
            garbage,
            torn_at,
        }
    }
}

/// Counts what a state does, and what it could have done.
pub(crate) fn count(
    state: &CrashState,
    pending: &[PendingWrite],
    faults: &FaultConfig,
    counts: &mut FaultCounts,
    can_tear: bool,
) {
    if pending.is_empty() {
        return;
    }
    let order: Vec<usize> = state
        .survivors
        .iter()
        .map(|survivor| {
            pending
                .iter()
                .position(|write| write.id == survivor.id)
                .expect("checked before")
        })
        .collect();
    if faults.loss {
        counts.count(FaultKind::Loss, order.len() < pending.len());
    }
    if faults.reorder && pending.len() > 1 {
        let hole = order
            .iter()
            .max()
            .is_some_and(|&last| last + 1 > order.len());
        counts.count(FaultKind::Reorder, hole || !order.is_sorted());
    }
    if can_tear {
        let torn = |pick: fn(&Sectors) -> bool| {
            state
                .survivors
                .iter()
                .any(|survivor| pick(&survivor.sectors))
        };
        counts.count(FaultKind::Torn, torn(|sectors| *sectors != Sectors::All));
        if faults.garbage > 0.0 {
            counts.count(
                FaultKind::Garbage,
                torn(|sectors| {
                    matches!(
                        sectors,
                        Sectors::Torn {
                            garbage: Some(_),
                            ..
                        }
                    )
                }),
            );
        }
        if faults.byte_tear > 0.0 {
            counts.count(
                FaultKind::ByteTear,
                torn(|sectors| {
                    matches!(
                        sectors,
                        Sectors::Torn {
                            torn_at: Some(_),
                            ..
                        }
                    )
                }),
            );
        }
    }
}
