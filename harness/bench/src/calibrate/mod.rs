//! `kvsim calibrate`: a disk, and the machine around it, as a profile for the simulator.
//!
//! What is measured, each by itself and none of it by running the workload that is to be predicted:
//!
//! - the disk, through the engine's own file layer and driver: each kind of operation by size and by how many are under way;
//! - [`cpu`]: the time of a unit of the guest's fuel. It is the time of a write that waits for nothing, natively,
//!   divided by the fuel of the same write in the sandbox;
//! - [`turns`]: what it takes to bring a client that slept back onto a processor: a bare group commit with nothing of the engine.
//!
//! And what the native engine tells itself about this disk is read from one that is opened there. [`cpu`] times commits of a single
//! client, but only what is not the disk's.
//!
//! [`fit`] makes latencies, limits and rates of the first; [`profile`] writes everything down.

pub mod cpu;
pub mod fit;
pub mod profile;
pub mod turns;

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvsim_native::gauge::{Access, Gauge, Trial};
use kvsim_native::{DeviceReport, OpenOptions};

use super::numbers::float;
use crate::calibrate::cpu::Cpu;
use crate::calibrate::fit::Fit;
use crate::calibrate::turns::Turns;
use kvsim_scenario::guest::Program;

/// Sizes of operations.
pub const SIZES_BYTES: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Operations under way at once.
pub const DEPTHS: [usize; 5] = [1, 2, 4, 8, 32];
/// Large enough for the largest operations at the greatest depth, several times over.
pub const FILE_BYTES: u64 = 256 << 20;
/// A growth is measured for as many turns of a cell, since it takes longer than all else.
const GROW_TURNS: u32 = 3;

/// What is to be calibrated.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A directory on the disk, or a block device.
    pub path: PathBuf,
    /// The contents of the device may be overwritten.
    pub overwrite: bool,
    /// How long each size at each depth is measured, each time.
    pub cell: Duration,
    /// How often all of it is measured. Of each measurement the middle one counts: a disk or a machine that is slow for a while is
    /// slow for some of them only.
    pub passes: u32,
    /// Groups of clients that are let go, of each number.
    pub groups: usize,
    /// The file that is made in a directory.
    pub file_bytes: u64,
}

/// One size at one depth.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Of what.
    pub access: Access,
    /// Bytes of an operation.
    pub size_bytes: usize,
    /// Operations under way at once.
    pub depth: usize,
    /// Operations a second, in the pass whose rate is the median.
    pub rate: f64,
    /// Latencies of that pass, sorted.
    pub latencies_ns: Vec<u64>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The device and how it was reached.
    pub device: DeviceReport,
    /// Everything that was measured of it.
    pub cells: Vec<Cell>,
    /// The same as latencies, limits and rates.
    pub fit: Fit,
    /// The machine around it; `None` where the device could only be read.
    pub machine: Option<Machine>,
    /// The machine's load when it began, where the system tells: processes that were running or waited to.
    pub load: Option<f64>,
}

/// The machine around the disk.
#[derive(Debug, Clone)]
pub struct Machine {
    /// What a unit of fuel is worth.
    pub cpu: Cpu,
    /// What it takes to bring a client back.
    pub turns: Turns,
}

/// Told what is going on: what, how much of the whole is done.
pub type Told<'a> = &'a dyn Fn(&str, u64, u64);

/// Measures. What was written for it is removed again.
///
/// # Errors
/// The path is neither a directory nor a device, or cannot be used; an operation failed; it was stopped.
pub fn calibrate(
    plan: &Plan,
    program: &Arc<dyn Program>,
    told: Told<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<Calibration, String> {
    let load = load();
    let metadata = std::fs::metadata(&plan.path)
        .map_err(|error| format!("{}: {error}", plan.path.display()))?;
    let options = OpenOptions {
        size_bytes: plan.file_bytes,
        ..OpenOptions::default()
    };
    let scratch = if metadata.is_dir() {
        let scratch = tempfile::Builder::new()
            .prefix("kvsim-calibrate-")
            .tempdir_in(&plan.path)
            .map_err(|error| format!("{}: {error}", plan.path.display()))?;
        Some(scratch)
    } else if metadata.file_type().is_block_device() {
        None
    } else {
        return Err(format!(
            "{} is neither a directory nor a block device\n  = help: name a directory on the disk to measure",
            plan.path.display()
        ));
    };
    told("writing a file", 0, 0);
    let gauge = match &scratch {
        Some(scratch) => Gauge::open(&scratch.path().join("file"), &options),
        None if plan.overwrite => Gauge::open(&plan.path, &options),
        None => Gauge::open_to_read(&plan.path, &options),
    };
    let gauge = gauge.map_err(|error| error.to_string())?;
    let can_write = scratch.is_some() || plan.overwrite;
    let cells = measure(&gauge, plan, can_write, scratch.is_some(), told, stopped)?;
    let machine = match &scratch {
        Some(scratch) => Some(machine(
            &gauge,
            scratch.path(),
            plan,
            program,
            told,
            stopped,
        )?),
        None => None,
    };
    Ok(Calibration {
        device: gauge.report().clone(),
        fit: fit::fit(&cells, machine.as_ref().map(|machine| &machine.turns)),
        cells,
        machine,
        load,
    })
}

fn machine(
    gauge: &Gauge,
    directory: &Path,
    plan: &Plan,
    program: &Arc<dyn Program>,
    told: Told<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<Machine, String> {
    told("the engine's processor time", 0, 0);
    let cpu = cpu::measure(&directory.join("cpu"), program)?;
    if stopped() {
        return Err(STOPPED.to_owned());
    }
    told("clients that come back", 0, 0);
    let turns = turns::measure(gauge, cpu.put_ns, cpu.woken_ns(), plan.passes, plan.groups)?;
    Ok(Machine { cpu, turns })
}

const STOPPED: &str = "stopped before everything was measured";

fn measure(
    gauge: &Gauge,
    plan: &Plan,
    can_write: bool,
    can_grow: bool,
    told: Told<'_>,
    stopped: &dyn Fn() -> bool,
) -> Result<Vec<Cell>, String> {
    let mut wanted = vec![Access::Read];
    if can_write {
        wanted.extend([Access::Write, Access::WriteThrough, Access::Flush]);
    }
    let mut trials: Vec<Trial> = Vec::new();
    for access in wanted {
        // What a flush costs is asked of small writes only.
        let sizes = if access == Access::Flush {
            1
        } else {
            SIZES_BYTES.len()
        };
        for &size_bytes in &SIZES_BYTES[..sizes] {
            trials.extend(DEPTHS.map(|depth| Trial {
                access,
                size_bytes,
                depth,
                duration: plan.cell,
            }));
        }
    }
    if can_grow {
        trials.push(Trial {
            access: Access::Grow,
            size_bytes: SIZES_BYTES[4],
            depth: 1,
            duration: plan.cell * GROW_TURNS,
        });
    }
    let mut samples: Vec<Vec<(f64, Vec<u64>)>> = vec![Vec::new(); trials.len()];
    let (mut done, of) = (0, trials.len() as u64 * u64::from(plan.passes));
    for _ in 0..plan.passes {
        for (trial, passes) in trials.iter().zip(&mut samples) {
            if stopped() {
                return Err(STOPPED.to_owned());
            }
            told(trial.access.name(), done, of);
            done += 1;
            let sample = gauge.run(trial).map_err(|error| error.to_string())?;
            let rate = per_second(sample.latencies_ns.len(), sample.elapsed);
            passes.push((rate, sample.latencies_ns));
        }
    }
    let cells = trials.iter().zip(samples);
    Ok(cells
        .map(|(trial, passes)| {
            let (rate, mut latencies_ns) = middle(passes, |(rate, _)| *rate);
            latencies_ns.sort_unstable();
            Cell {
                access: trial.access,
                size_bytes: trial.size_bytes,
                depth: trial.depth,
                rate,
                latencies_ns,
            }
        })
        .collect())
}

/// The one in the middle by this figure.
fn middle<T>(mut all: Vec<T>, figure: impl Fn(&T) -> f64) -> T {
    all.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    let at = all.len() / 2;
    all.swap_remove(at)
}

fn per_second(operations: usize, elapsed: Duration) -> f64 {
    float(operations as u64) / elapsed.as_secs_f64()
}

/// The load average of the last minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

impl Cell {
    /// The latency below which this share of the operations is.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((self.latencies_ns.len().max(1) - 1) as f64 * share) as usize;
        self.latencies_ns.get(index).copied().unwrap_or(0)
    }
}
