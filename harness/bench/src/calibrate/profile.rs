//! A calibration as a profile that scenarios take by `profile = "…"`, and as a table for a person.

use std::fmt::Write as _;

use kvsim_simdisk::LatencyConfig;

use super::fit::Course;
use super::turns::{Group, Turns};
use super::{Calibration, DEPTHS, Machine};
use kvsim_api::units::{bytes, nanoseconds, thousands};

/// What the io_uring driver keeps under way, and the pool of threads.
const URING_DEPTH: u32 = 256;
const POOL_DEPTH: u32 = 8;

/// The profile's text.
#[must_use]
pub fn toml(calibration: &Calibration) -> String {
    let mut text = String::new();
    let device = &calibration.device;
    let _ = writeln!(
        text,
        "# Measured by kvsim {} calibrate.\n#",
        env!("CARGO_PKG_VERSION")
    );
    for line in device.to_string().lines() {
        let _ = writeln!(text, "# {line}");
    }
    if let Some(load) = calibration.load {
        let _ = writeln!(text, "# load of the machine when it began: {load:.2}");
    }
    let _ = writeln!(
        text,
        "#\n# Source: this measurement, through the engine's own file layer and driver; in nanoseconds, medians and tails:\n#"
    );
    for line in table(calibration).lines() {
        let _ = writeln!(text, "# {line}");
    }
    let volatile = device.flush_needed;
    let is_written = calibration.fit.write_through.is_some();
    let _ = writeln!(
        text,
        "sector_bytes = {}\nphysical_block_bytes = {}\ncache = \"{}\"",
        device.sector_bytes,
        device.block_bytes,
        if volatile {
            "volatile"
        } else {
            "write_through"
        }
    );
    if is_written {
        let _ = writeln!(
            text,
            "# A write-through here is whatever the system makes of one: forced unit access, or a write and a flush.\nfua = true"
        );
    }
    let _ = writeln!(
        text,
        "# The driver passes no discards on.\ndiscard = false\natomic_write_bytes = {}\nqueue_depth = {}",
        atomic(device.atomic_write_bytes, device.sector_bytes),
        if device.driver == "io_uring" {
            URING_DEPTH
        } else {
            POOL_DEPTH
        },
    );
    timing(&mut text, calibration);
    match &calibration.machine {
        Some(machine) => {
            let _ = writeln!(
                text,
                "\n[guest]\n# {} ns for a write that waits for nothing, {} units of fuel for the same in the sandbox.\ncpu_ps_per_fuel = {}",
                machine.cpu.put_ns,
                thousands(machine.cpu.fuel_per_put),
                machine.cpu.ps_per_fuel
            );
            let _ = writeln!(text, "# {}", medians(&machine.turns));
            let _ = writeln!(text, "client_turn = {}", latency(&machine.turns.turn));
            host(&mut text, machine);
            if volatile {
                let commit = if machine.cpu.commits_through {
                    "write_through"
                } else {
                    "flush"
                };
                let _ = writeln!(
                    text,
                    "\n# What kvsim's engine chose on this disk.\n[guest.options_for.kvsim-engine]\ncommit = \"{commit}\""
                );
            }
        }
        None => text.push_str("# The machine was not measured: nothing could be written.\n"),
    }
    text
}

/// The machine as predictions have it.
fn host(text: &mut String, machine: &Machine) {
    let Machine { cpu, turns } = machine;
    let _ = writeln!(
        text,
        "\n# For predictions: clients and engine share the processors; `client` is what each client that slept takes of one.\n[host]\nprocessors = {}\nclient = {}",
        turns.processors,
        latency(&turns.client)
    );
    let _ = writeln!(
        text,
        "# A write takes {} ns by a client that has just waited for the disk. A commit takes {} ns beside the kernel's calls, {} units of fuel in\n# the sandbox; what these are not worth is added to each write or flush of a commit.\ncommit_ns = {}",
        cpu.woken_put_ns,
        cpu.commit_ns,
        thousands(cpu.fuel_per_commit),
        cpu.commit_beyond_fuel_ns()
    );
    text.push_str("\n# What kvsim's engine is told natively.\n[host.options]\n");
    for (name, value) in &cpu.options {
        let _ = writeln!(text, "{name} = {}", toml::Value::from(value.as_str()));
    }
}

/// A device may promise less than a sector, which is none, or what is no multiple of one.
fn atomic(atomic_bytes: u32, sector_bytes: u32) -> u32 {
    atomic_bytes / sector_bytes.max(1) * sector_bytes
}

fn timing(text: &mut String, calibration: &Calibration) {
    let fit = &calibration.fit;
    text.push_str("\n[timing]\n");
    let mut named = |name: &str, course: Option<&Course>, plural: &str| {
        let Some(course) = course else {
            let _ = writeln!(
                text,
                "# {name}: not measured, since nothing may be written; as by default."
            );
            return;
        };
        let _ = writeln!(text, "{name} = {}", latency(&course.latency));
        let _ = writeln!(text, "{plural}_per_second = {}", course.per_second);
        let _ = writeln!(text, "{name}_ns_per_kib = {}", course.ns_per_kib);
        if name != "write_through" {
            let _ = writeln!(
                text,
                "{name}_bytes_per_second = {}",
                course.bytes_per_second
            );
        }
    };
    named("read", fit.read.as_ref(), "reads");
    named("write", fit.write.as_ref(), "writes");
    named(
        "write_through",
        fit.write_through.as_ref(),
        "write_throughs",
    );
    if let Some(flush) = &fit.flush {
        let _ = writeln!(
            text,
            "flush = {}\nserial_flush = {}",
            latency(flush),
            fit.serial_flush
        );
    }
    if let Some(grow) = &fit.grow {
        let _ = writeln!(
            text,
            "# Of 1 MiB: written in full, the file synced, the directory synced.\ngrow = {}",
            latency(grow)
        );
    }
    let _ = writeln!(
        text,
        "discard = {}\nin_order = false\nstall = 0.0\nstall_ns = 0",
        latency(&LatencyConfig::fixed(1_000))
    );
}

/// An inline table.
fn latency(latency: &LatencyConfig) -> String {
    let LatencyConfig {
        min_ns,
        p50_ns,
        p90_ns,
        p99_ns,
        p999_ns,
        max_ns,
        means_ns,
    } = latency;
    let mut text = format!(
        "{{ min_ns = {min_ns}, p50_ns = {p50_ns}, p90_ns = {p90_ns}, p99_ns = {p99_ns}, p999_ns = {p999_ns}, max_ns = {max_ns}"
    );
    if let Some(means) = means_ns {
        let means: Vec<String> = means.iter().map(u64::to_string).collect();
        let _ = write!(text, ", means_ns = [{}]", means.join(", "));
    }
    text.push_str(" }");
    text
}

fn medians(turns: &Turns) -> String {
    let of = |group: &Group| {
        let write = group.writes_ns.get(group.writes_ns.len() / 2);
        let write = nanoseconds(write.copied().unwrap_or(0));
        let size = bytes(group.size_bytes as u64);
        match group.turn_ns {
            Some(turn) => format!(
                "{} clients: {write} to write {size} through, {} from one client to the next",
                group.clients,
                nanoseconds(turn)
            ),
            None => format!("1 client: {write} to write {size} through"),
        }
    };
    let all: Vec<String> = turns.groups.iter().map(of).collect();
    format!("Groups without an engine, medians: {}.", all.join("; "))
}

/// Rates, medians and tails by size and depth.
#[must_use]
pub fn table(calibration: &Calibration) -> String {
    let mut text = String::new();
    let _ = write!(text, "{:<14} {:>8}", "", "");
    for depth in DEPTHS {
        let _ = write!(text, "  {:>26}", format!("{depth} under way"));
    }
    let _ = write!(text, "\n{:<14} {:>8}", "operation", "size");
    for _ in DEPTHS {
        let _ = write!(text, "  {:>8} {:>8} {:>8}", "a second", "p50", "p99");
    }
    let mut last = None;
    for cell in &calibration.cells {
        if last != Some((cell.access, cell.size_bytes)) {
            last = Some((cell.access, cell.size_bytes));
            let size = bytes(cell.size_bytes as u64);
            let _ = write!(text, "\n{:<14} {size:>8}", cell.access.name());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate for a person"
        )]
        let rate = cell.rate.round() as u64;
        let _ = write!(
            text,
            "  {:>8} {:>8} {:>8}",
            thousands(rate),
            nanoseconds(cell.quantile_ns(0.5)),
            nanoseconds(cell.quantile_ns(0.99))
        );
    }
    text.push('\n');
    text
}
