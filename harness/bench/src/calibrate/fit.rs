//! From measured cells to what the simulated device knows: a latency, a limit on beginnings, a transfer rate, a cost by size.
//!
//! One operation of `s` bytes alone takes `base + beginning + s × (transfer + own)`; many at once are held up by each other for
//! `beginning + s × transfer` each. The second is what the best rate at any depth leaves for one operation; the first is seen at
//! depth 1. Both are straight lines through the sizes, by least squares of the *relative* errors, so that small operations count
//! as much as large ones. The tail of the base is that of the small operations at depth 1, as measured.

use kvsim_native::gauge::Access;
use kvsim_simdisk::LatencyConfig;

use super::super::numbers::{float, whole};
use super::Cell;
use super::turns::Turns;

/// The tail of a latency is taken from operations up to this size: those of commits.
const SMALL_BYTES: usize = 64 << 10;
/// Flushes are under way one at a time if eight at once are not this much quicker than one.
const SERIAL_BELOW: f64 = 2.5;
/// Shorter than this a cost is none.
const NS_MIN: f64 = 1.0;

/// One kind of transfer.
#[derive(Debug, Clone)]
pub struct Course {
    /// What is left of the latency of one operation alone.
    pub latency: LatencyConfig,
    /// Operations that can begin in a second; 0 for no limit that was seen.
    pub per_second: u64,
    /// The rate that all share; 0 for no limit that was seen.
    pub bytes_per_second: u64,
    /// What each KiB adds to the latency of its own operation.
    pub ns_per_kib: u64,
}

/// The disk in the simulator's terms; what was not measured is missing.
#[derive(Debug, Clone)]
pub struct Fit {
    /// Reads.
    pub read: Option<Course>,
    /// Writes that need not be durable.
    pub write: Option<Course>,
    /// Writes that are durable when they complete; their transfer is that of the writes.
    pub write_through: Option<Course>,
    /// Flushes.
    pub flush: Option<LatencyConfig>,
    /// One flush at a time.
    pub serial_flush: bool,
    /// Growths by a piece.
    pub grow: Option<LatencyConfig>,
}

/// A straight line.
#[derive(Debug, Clone, Copy)]
struct Line {
    at_zero: f64,
    slope: f64,
}

/// Least squares of the relative errors, neither end below zero.
fn line(points: &[(f64, f64)]) -> Line {
    let (mut w, mut wx, mut wxx, mut wy, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(x, y) in points {
        let weight = 1.0 / (y * y).max(1.0);
        w += weight;
        wx += weight * x;
        wxx += weight * x * x;
        wy += weight * y;
        wxy += weight * x * y;
    }
    let divisor = w * wxx - wx * wx;
    let slope = if divisor > 0.0 {
        (w * wxy - wx * wy) / divisor
    } else {
        0.0
    };
    if slope <= 0.0 {
        let at_zero = if w > 0.0 { wy / w } else { 0.0 };
        return Line {
            at_zero,
            slope: 0.0,
        };
    }
    let at_zero = (wy - slope * wx) / w;
    if at_zero < 0.0 {
        let slope = wxy / wxx;
        return Line {
            at_zero: 0.0,
            slope,
        };
    }
    Line { at_zero, slope }
}

/// Everything that the cells say; where the groups of clients were measured, the latency of a write-through is that of theirs.
#[must_use]
pub fn fit(cells: &[Cell], turns: Option<&Turns>) -> Fit {
    let of = |access| -> Vec<&Cell> { cells.iter().filter(|cell| cell.access == access).collect() };
    let write = course(&of(Access::Write), None);
    let transfer = write.as_ref().map(|write| write.bytes_per_second);
    let flushes = of(Access::Flush);
    let rate = |depth| {
        let cell = flushes.iter().find(|cell| cell.depth == depth);
        cell.map_or(0.0, |cell| cell.rate)
    };
    let mut write_through = course(&of(Access::WriteThrough), transfer);
    if let (Some(through), Some(turns)) = (&mut write_through, turns) {
        through.latency = of_groups(through, turns);
    }
    Fit {
        read: course(&of(Access::Read), None),
        write_through,
        write,
        flush: alone(&flushes),
        serial_flush: rate(8) < rate(1) * SERIAL_BELOW,
        grow: alone(&of(Access::Grow)),
    }
}

/// The latency at depth 1 as it is.
fn alone(cells: &[&Cell]) -> Option<LatencyConfig> {
    let mut samples: Vec<u64> = cells
        .iter()
        .filter(|cell| cell.depth == 1)
        .flat_map(|cell| cell.latencies_ns.iter().copied())
        .collect();
    (!samples.is_empty()).then(|| LatencyConfig::measured(&mut samples))
}

/// What is left of the writes of groups, once their share of the path and their size are taken off.
fn of_groups(through: &Course, turns: &Turns) -> LatencyConfig {
    let ns = |per_second: u64| {
        if per_second == 0 {
            0.0
        } else {
            1e9 / float(per_second)
        }
    };
    let by_size = ns(through.bytes_per_second) + float(through.ns_per_kib) / 1024.0;
    let mut base: Vec<u64> = Vec::new();
    for group in &turns.groups {
        let explained = whole(ns(through.per_second) + by_size * float(group.size_bytes as u64));
        let left = group
            .writes_ns
            .iter()
            .map(|ns| ns.saturating_sub(explained));
        base.extend(left);
    }
    LatencyConfig::measured(&mut base)
}

/// `transfer`: the rate is known from elsewhere.
fn course(cells: &[&Cell], transfer: Option<u64>) -> Option<Course> {
    if cells.is_empty() {
        return None;
    }
    let sizes = {
        let mut sizes: Vec<usize> = cells.iter().map(|cell| cell.size_bytes).collect();
        sizes.dedup();
        sizes
    };
    let mut shared = Vec::new();
    let mut single = Vec::new();
    for size in sizes {
        let here = || cells.iter().filter(move |cell| cell.size_bytes == size);
        let best = here().map(|cell| cell.rate).fold(0.0, f64::max);
        let first = here().find(|cell| cell.depth == 1)?;
        if best <= 0.0 || first.latencies_ns.is_empty() {
            return None;
        }
        shared.push((float(size as u64), 1e9 / best));
        single.push((float(size as u64), float(first.quantile_ns(0.5))));
    }
    let of_one = line(&single);
    let of_all = match transfer {
        None => line(&shared),
        Some(rate) => {
            let slope = if rate == 0 { 0.0 } else { 1e9 / float(rate) };
            let small = shared
                .iter()
                .filter(|(size, _)| *size <= float(SMALL_BYTES as u64));
            let left: Vec<f64> = small
                .map(|(size, ns)| (ns - slope * size).max(0.0))
                .collect();
            Line {
                at_zero: left.iter().sum::<f64>() / float(left.len().max(1) as u64),
                slope,
            }
        }
    };
    // Alone an operation cannot be quicker than its share of what all do together.
    let beginning = of_all.at_zero.min(of_one.at_zero);
    let by_size = of_one.slope.max(of_all.slope);
    let small = cells
        .iter()
        .filter(|cell| cell.depth == 1 && cell.size_bytes <= SMALL_BYTES);
    let mut base: Vec<u64> = small
        .flat_map(|cell| {
            let explained = whole(beginning + by_size * float(cell.size_bytes as u64));
            cell.latencies_ns
                .iter()
                .map(move |ns| ns.saturating_sub(explained))
        })
        .collect();
    Some(Course {
        latency: LatencyConfig::measured(&mut base),
        per_second: inverse(beginning),
        bytes_per_second: inverse(of_all.slope),
        ns_per_kib: whole((by_size - of_all.slope).max(0.0) * 1024.0),
    })
}

/// How often a second something of so many nanoseconds fits; 0 if it takes next to nothing.
fn inverse(ns: f64) -> u64 {
    if ns * 1e6 < NS_MIN {
        0
    } else {
        whole(1e9 / ns)
    }
}

#[cfg(test)]
mod tests {
    use super::super::turns::Group;
    use super::*;

    /// A device that takes `beginning + s × transfer` of a shared path and `base` and `own` beside it, with no noise.
    fn cells(access: Access, base: f64, beginning: f64, transfer: f64, own: f64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for size in super::super::SIZES_BYTES {
            for depth in super::super::DEPTHS {
                let bytes = float(size as u64);
                let shared = beginning + bytes * transfer;
                let alone = base + shared + bytes * own;
                let rate = (float(depth as u64) * 1e9 / alone).min(1e9 / shared);
                cells.push(Cell {
                    access,
                    size_bytes: size,
                    depth,
                    rate,
                    latencies_ns: vec![whole(float(depth as u64) * 1e9 / rate); 100],
                });
            }
        }
        cells
    }

    fn near(found: u64, wanted: f64) -> bool {
        (float(found) - wanted).abs() <= wanted / 50.0
    }

    /// Goal: what a device was made of is found again. Method: cells computed from the model itself, for a device that many
    /// operations keep busier than one, and the four figures within 2 %.
    #[test]
    fn what_a_device_is_made_of_is_found_again() {
        let found = fit(&cells(Access::Read, 60_000.0, 4_000.0, 0.5, 0.25), None);
        let read = found.read.expect("it was measured");
        assert!(near(read.per_second, 250_000.0), "{read:?}");
        assert!(near(read.bytes_per_second, 2e9), "{read:?}");
        assert!(near(read.ns_per_kib, 256.0), "{read:?}");
        assert!(near(read.latency.p50_ns, 60_000.0), "{read:?}");
        assert!(found.write.is_none() && found.flush.is_none());
    }

    /// Goal: a device that does one thing after the other is found to be so. Method: a path that takes all the time.
    #[test]
    fn a_serial_device_keeps_its_rate() {
        let found = fit(&cells(Access::Write, 0.0, 50_000.0, 1.0, 0.0), None);
        let write = found.write.expect("it was measured");
        assert!(near(write.per_second, 20_000.0), "{write:?}");
        assert!(write.latency.p50_ns < 1_000, "{write:?}");
        assert_eq!(write.ns_per_kib, 0);
    }

    /// Goal: write-throughs keep a limit of their own over the transfer of the writes. Method: both kinds of cells.
    #[test]
    fn write_throughs_share_the_transfer_of_writes() {
        let mut all = cells(Access::Write, 10_000.0, 2_000.0, 0.5, 0.0);
        all.extend(cells(Access::WriteThrough, 30_000.0, 20_000.0, 0.5, 0.5));
        let through = fit(&all, None).write_through.expect("it was measured");
        assert!(near(through.per_second, 50_000.0), "{through:?}");
        assert!(near(through.bytes_per_second, 2e9), "{through:?}");
        assert!(near(through.ns_per_kib, 512.0), "{through:?}");
        assert!(near(through.latency.p50_ns, 30_000.0), "{through:?}");
    }

    /// Goal: with groups of clients measured, a commit's latency is theirs, whatever the size of the group. Method: writes of two
    /// sizes that take what the device was made of, at half the base of the cells.
    #[test]
    fn a_commit_takes_what_the_writes_of_groups_take() {
        let mut all = cells(Access::Write, 10_000.0, 2_000.0, 0.5, 0.0);
        all.extend(cells(Access::WriteThrough, 30_000.0, 20_000.0, 0.5, 0.5));
        let group = |size_bytes: usize| Group {
            clients: 1,
            size_bytes,
            turn_ns: None,
            writes_ns: vec![whole(15_000.0 + 20_000.0 + float(size_bytes as u64)); 50],
        };
        let turns = Turns {
            turn: LatencyConfig::fixed(0),
            processors: 1,
            client: LatencyConfig::fixed(0),
            groups: vec![group(4096), group(36_864)],
        };
        let through = fit(&all, Some(&turns))
            .write_through
            .expect("it was measured");
        assert!(near(through.latency.p50_ns, 15_000.0), "{through:?}");
        assert!(near(through.latency.max_ns, 15_000.0), "{through:?}");
    }

    /// Goal: flushes are told apart by whether they wait for each other. Method: rates that grow with the depth, and that do not.
    #[test]
    fn serial_flushes_are_told_from_parallel_ones() {
        let flush = |depth, rate| Cell {
            access: Access::Flush,
            size_bytes: 4096,
            depth,
            rate,
            latencies_ns: vec![40_000; 10],
        };
        assert!(fit(&[flush(1, 18_000.0), flush(8, 23_000.0)], None).serial_flush);
        assert!(!fit(&[flush(1, 18_000.0), flush(8, 90_000.0)], None).serial_flush);
    }
}
