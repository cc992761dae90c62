//! The figures as a table for a person. Each carries what it is worth: the device, what durable means, the seed, the versions.

use std::fmt::Write as _;

use super::load::Seen;
use super::numbers::{float, whole};
use super::rounds::{Load, Memory, Plan, Row, Spread, Table};
use kvsim_api::units::{bytes, nanoseconds, thousands};

/// The whole table.
#[must_use]
pub fn table(table: &Table) -> String {
    let mut text = format!("{}  {}\n", table.plan.scenario.name, setting(table));
    if let Some(device) = table.rows.iter().find_map(|row| row.device.as_deref()) {
        for line in device.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = writeln!(
        text,
        "\n  {:<16} {:>10} {:>21}  {:>8} {:>8} {:>8} {:>8}  {:>7} {:>7} {:>6} {:>7} {:>9}",
        "engine",
        "ops/s",
        "least – most",
        "p50",
        "p99",
        "p99.9",
        "max",
        "flushes",
        "written",
        "space",
        "CPU/op",
        "memory"
    );
    for row in &table.rows {
        line(&mut text, row);
    }
    text.push_str("\n  medians of the rounds; flushes of the device for each commit; written to the device ÷ written by clients;\n  space on the disk ÷ live data; memory: the most that was resident of the engine's process, its clients and the load with it.\n  The device's counters see every process on this machine.\n");
    loads(&mut text, table);
    text.push_str(&super::amplification::text(table));
    for caveat in caveats(table) {
        let _ = writeln!(text, "  {MARK} {caveat}");
    }
    best(&mut text, table);
    predicted(&mut text, table);
    for row in &table.rows {
        let configuration: Vec<String> = row
            .configuration
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let _ = writeln!(
            text,
            "  {} {}: {}",
            row.engine,
            row.version,
            configuration.join(" · ")
        );
    }
    text
}

/// How it was measured, on one line.
pub(crate) fn setting(table: &Table) -> String {
    let plan = &table.plan;
    let workload = &plan.scenario.workload;
    let clients = if plan.pace.tasks {
        "tasks on one thread"
    } else {
        "clients"
    };
    let pace = match plan.pace.rate {
        Some(rate) => format!("open loop at {}/s", thousands(whole(rate))),
        None => "closed loop".to_owned(),
    };
    let memory = memory_limit(plan);
    format!(
        "durability {} · {} {clients} · {} keys · {memory}{} rounds of {:.1} s after {:.1} s of warm-up · {pace} · seed {}",
        plan.durability,
        workload.clients,
        thousands(workload.keys),
        plan.rounds,
        plan.pace.measured.as_secs_f64(),
        plan.pace.warm_up.as_secs_f64(),
        plan.scenario.run.seeds.start,
    )
}

/// What each engine had of memory, if that was bounded.
pub(crate) fn memory_limit(plan: &Plan) -> String {
    plan.memory_bytes.map_or_else(String::new, |all| {
        format!(
            "{} of memory for each engine, page cache included · ",
            bytes(all)
        )
    })
}

/// Stands beside a figure that is worth less than the others of its table.
pub(crate) const MARK: char = '†';

/// What the marks mean, each once.
pub(crate) fn caveats(table: &Table) -> Vec<&str> {
    let caveats = table.rows.iter().filter_map(|row| row.caveat.as_deref());
    let mut all: Vec<&str> = caveats.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn line(text: &mut String, row: &Row) {
    let Some(rate) = row.spread(Seen::rate) else {
        let why = row
            .failed
            .as_ref()
            .map_or("was not measured", |error| &error.what);
        let _ = writeln!(text, "  {:<16} {why}", row.engine);
        return;
    };
    let latency = |quantile: f64| {
        let spread = row.spread(|seen| float(seen.all_latencies().value_at_quantile(quantile)));
        spread.map_or_else(String::new, |spread| nanoseconds(whole(spread.median)))
    };
    let ratio = |figure: &dyn Fn(&Seen) -> Option<f64>| {
        let all = row.spread(|seen| figure(seen).unwrap_or(f64::NAN));
        all.filter(|spread| spread.median.is_finite())
            .map_or_else(|| "–".to_owned(), |spread| format!("{:.2}", spread.median))
    };
    let flushes = ratio(&|seen| share(seen.counters.device_flushes, seen.commits));
    let written = ratio(&|seen| share(seen.counters.device_written_bytes, seen.user_bytes));
    let cpu = row
        .spread(|seen| share(seen.counters.cpu_ms * 1_000_000, seen.operations()).unwrap_or(0.0));
    let space = share(row.space_bytes, row.live_bytes)
        .map_or_else(|| "–".to_owned(), |share| format!("{share:.2}"));
    let mark = row.caveat.as_ref().map_or(' ', |_| MARK);
    let _ = writeln!(
        text,
        "  {:<16} {:>10}{mark}{:>21}  {:>8} {:>8} {:>8} {:>8}  {flushes:>7} {written:>7} {space:>6} {:>7} {:>9}",
        row.engine,
        thousands(whole(rate.median)),
        format!(
            "{} – {}",
            thousands(whole(rate.least)),
            thousands(whole(rate.most))
        ),
        latency(0.5),
        latency(0.99),
        latency(0.999),
        latency(1.0),
        cpu.map_or_else(String::new, |spread| nanoseconds(whole(spread.median))),
        peak(row.memory),
    );
    if let Some(error) = &row.failed {
        let _ = writeln!(text, "  {:<16} stopped: {}", "", error.what);
    }
}

/// How many keys a second came in before the first round.
pub(crate) fn load_rate(load: Option<Load>) -> String {
    load.map_or_else(|| "–".to_owned(), |load| thousands(whole(load.rate())))
}

/// How each engine took the keys that were there before the first round.
fn loads(text: &mut String, table: &Table) {
    for row in &table.rows {
        if let Some(load) = row.load {
            let _ = writeln!(
                text,
                "  {:<16} loaded {} keys in {}: {} a second, by one thread, relaxed, with a sync at the end",
                row.engine,
                thousands(load.keys),
                nanoseconds(load.took_ns),
                thousands(whole(load.rate())),
            );
        }
    }
}

/// The most memory that was resident.
pub(crate) fn peak(memory: Option<Memory>) -> String {
    memory.map_or_else(|| "–".to_owned(), |memory| bytes(memory.peak_bytes))
}

/// Names of ours begin so.
const OURS: &str = "kvsim";

/// How ours stands against the best of the others, for each way of ours.
pub(crate) fn ratios(table: &Table) -> Vec<(&'static str, &'static str, f64)> {
    let rate = |row: &Row| row.spread(Seen::rate).map(|Spread { median, .. }| median);
    let (ours, others): (Vec<&Row>, Vec<&Row>) = table
        .rows
        .iter()
        .partition(|row| row.engine.starts_with(OURS));
    let best = others
        .iter()
        .filter(|row| row.durable_as_asked)
        .filter_map(|row| Some((row.engine, rate(row)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1));
    let Some((name, theirs)) = best else {
        return Vec::new();
    };
    let ratio = |row: &&Row| Some((row.engine, name, rate(row)? / theirs));
    ours.iter().filter_map(ratio).collect()
}

fn best(text: &mut String, table: &Table) {
    for (ours, best, ratio) in ratios(table) {
        let _ = writeln!(
            text,
            "  {ours} ÷ {best}, the best of the others: {ratio:.2}"
        );
    }
}

/// What was predicted beside what was measured, of the first engine.
fn predicted(text: &mut String, table: &Table) {
    let Some(prediction) = &table.prediction else {
        return;
    };
    let _ = writeln!(
        text,
        "  {:<16} {:>10} {:>21}  {:>8} {:>8} {:>8} {:>8}  {:>7}   by the profile {}",
        "predicted",
        thousands(whole(prediction.operations_per_second)),
        "",
        nanoseconds(prediction.p50_ns),
        nanoseconds(prediction.p99_ns),
        nanoseconds(prediction.p999_ns),
        "",
        format!("{:.2}", prediction.flushes_per_commit),
        prediction.profile,
    );
    if let Some(note) = prediction.note {
        let _ = writeln!(text, "  {note}");
    }
    let Some(row) = table.rows.first() else {
        return;
    };
    let quantile = |quantile: f64| {
        let latency = |seen: &Seen| float(seen.all_latencies().value_at_quantile(quantile));
        row.spread(latency).map_or(f64::NAN, |spread| spread.median)
    };
    let rate = row
        .spread(Seen::rate)
        .map_or(f64::NAN, |spread| spread.median);
    let _ = writeln!(
        text,
        "  predicted ÷ measured: {:.2} of the rate, {:.2} of p50, {:.2} of p99",
        prediction.operations_per_second / rate,
        float(prediction.p50_ns) / quantile(0.5),
        float(prediction.p99_ns) / quantile(0.99),
    );
}

/// A quotient, where there is something to divide by.
#[must_use]
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

/// Bytes that were written by clients, for the log of a run.
#[must_use]
pub fn user_bytes(row: &Row) -> String {
    bytes(row.rounds.iter().map(|seen| seen.user_bytes).sum())
}
