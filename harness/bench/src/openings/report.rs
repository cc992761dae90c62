//! The openings as a table for a person.

use std::fmt::Write as _;
use std::time::Duration;

use kvsim_api::units::{bytes, nanoseconds, thousands};

use super::{GETS, Opening, Row, Table};
use crate::numbers::{float, whole};
use crate::report::MARK;

/// A column: its heading, and what it has of an opening.
type Column = (&'static str, fn(&Opening) -> f64, fn(u64) -> String);

/// The figures of each opening.
pub(super) const COLUMNS: [Column; 7] = [
    ("open", |one| time(one.open), nanoseconds),
    ("first get", |one| time(one.first_get), nanoseconds),
    ("1,000 gets", |one| time(one.gets), nanoseconds),
    ("durable put", |one| time(one.put), nanoseconds),
    (
        "read to open",
        |one| float(one.opening.process_read_bytes),
        bytes,
    ),
    (
        "read in all",
        |one| float(one.until_used.process_read_bytes),
        bytes,
    ),
    (
        "memory",
        |one| one.memory.map_or(f64::NAN, |it| float(it.peak_bytes)),
        bytes,
    ),
];

const _: () = assert!(GETS == 1_000, "a heading says how many");

/// A time in nanoseconds.
pub(super) fn time(time: Duration) -> f64 {
    float(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The whole table.
#[must_use]
pub fn table(table: &Table) -> String {
    let mut text = format!("{}  {}\n", table.plan.of.scenario.name, setting(table));
    if let Some(device) = table.rows.iter().find_map(|row| row.device.as_deref()) {
        for line in device.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = write!(text, "\n  {:<16}", "engine");
    for (name, _, _) in COLUMNS {
        let _ = write!(text, " {name:>19}");
    }
    text.push('\n');
    for row in &table.rows {
        line(&mut text, row);
    }
    text.push_str("\n  median (worst) of the openings; gets and put run side by side from the moment when the database is open; read from the device by the process;\n  memory: the most that was resident of it until then.\n");
    for words in cold(table) {
        let _ = writeln!(text, "  {words}");
    }
    for row in &table.rows {
        work(&mut text, row);
    }
    for row in &table.rows {
        if let Some(caveat) = &row.caveat {
            let _ = writeln!(text, "  {MARK} {}: {caveat}", row.engine);
        }
    }
    for row in &table.rows {
        let configuration: Vec<String> = row
            .configuration
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let configuration = configuration.join(" · ");
        let _ = writeln!(
            text,
            "  {} {}: {configuration} · space {}",
            row.engine,
            row.version,
            bytes(row.space_bytes)
        );
    }
    text
}

/// How it was measured, on one line.
pub(super) fn setting(table: &Table) -> String {
    let of = &table.plan.of;
    format!(
        "openings after SIGKILL · {} keys in random order, {} in all · {} made durable before each kill, and writes under way · {}durability {} · {} openings of each · seed {}",
        thousands(table.keys),
        bytes(table.data_bytes),
        bytes(table.plan.log_bytes),
        crate::report::memory_limit(of),
        of.durability,
        of.rounds,
        of.scenario.run.seeds.start,
    )
}

/// What each opening found in memory, each once.
pub(super) fn cold(table: &Table) -> Vec<&'static str> {
    let openings = table.rows.iter().flat_map(|row| &row.openings);
    let mut all: Vec<&str> = openings.map(|one| one.cold.words()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// What does not depend on how busy the machine is, on a line.
fn work(text: &mut String, row: &Row) {
    let cpu = row.spread(|one| float(one.opening.cpu_ms * 1_000_000));
    let Some(cpu) = cpu else {
        return;
    };
    let _ = write!(
        text,
        "  {}: an opening takes {} ({}) of processor time",
        row.engine,
        nanoseconds(whole(cpu.median)),
        nanoseconds(whole(cpu.most)),
    );
    if let Some(replayed) = replayed(row) {
        let _ = write!(text, "; of its log it replays {} at most", bytes(replayed));
    }
    text.push('\n');
}

/// What ours says that it read of its log, the most of its openings; nothing if an engine does not tell.
fn replayed(row: &Row) -> Option<u64> {
    let counts = row.openings.iter().flat_map(|one| &one.own);
    let replayed = counts.filter(|(name, _)| name == "replayed_bytes");
    replayed.map(|(_, count)| *count).max()
}

/// Why a row ends early.
pub(super) fn why(row: &Row) -> Option<String> {
    let wrong = row.wrong.as_ref().map(|wrong| format!("WRONG: {wrong}"));
    wrong.or_else(|| row.failed.as_ref().map(|error| error.what.clone()))
}

/// Median and worst of a column, for print.
pub(super) fn cell(row: &Row, (_, figure, print): Column) -> String {
    let spread = row.spread(figure).filter(|spread| spread.most.is_finite());
    spread.map_or_else(
        || "–".to_owned(),
        |spread| {
            format!(
                "{} ({})",
                print(whole(spread.median)),
                print(whole(spread.most))
            )
        },
    )
}

fn line(text: &mut String, row: &Row) {
    let mark = row
        .caveat
        .as_ref()
        .map_or(String::new(), |_| MARK.to_string());
    let _ = write!(text, "  {:<16}", format!("{}{mark}", row.engine));
    if row.openings.is_empty() {
        let why = why(row).unwrap_or_else(|| "was not measured".to_owned());
        let _ = writeln!(text, " {why}");
        return;
    }
    for column in COLUMNS {
        let _ = write!(text, " {:>19}", cell(row, column));
    }
    text.push('\n');
    if let Some(why) = why(row) {
        let _ = writeln!(text, "  {:<16} stopped: {why}", "");
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use kvsim_scenario::Scenario;
    use kvsim_store::memory::Memory;

    use super::super::{Cold, Plan};
    use super::*;
    use crate::counters::Counters;
    use crate::load::Pace;
    use crate::rounds;
    use crate::store::{Durability, StoreError};

    fn opening(ms: u64) -> Opening {
        Opening {
            open: Duration::from_millis(ms),
            first_get: Duration::from_micros(30),
            gets: Duration::from_millis(20),
            put: Duration::from_micros(900),
            opening: Counters {
                process_read_bytes: 3 << 20,
                cpu_ms: 120,
                ..Counters::default()
            },
            until_used: Counters {
                process_read_bytes: 5 << 20,
                ..Counters::default()
            },
            memory: Some(Memory {
                peak_bytes: 77 << 20,
                resident_bytes: 55 << 20,
                mapped_bytes: 1 << 20,
            }),
            cold: Cold::Files,
            own: vec![("replayed_bytes".to_owned(), 9 << 20)],
        }
    }

    pub(in crate::openings) fn rows() -> Table {
        let row = |engine, openings| Row {
            engine,
            version: "7.8.9".to_owned(),
            configuration: vec![("cache".to_owned(), "11 MiB".to_owned())],
            device: Some("a disk".to_owned()),
            caveat: None,
            openings,
            space_bytes: 3 << 30,
            wrong: None,
            failed: None,
        };
        let mut failed = row("other", Vec::new());
        failed.failed = Some(StoreError {
            engine: "other",
            what: "no room | at all".to_owned(),
        });
        let mut wrong = row("third", vec![opening(7)]);
        wrong.wrong = Some("key number 3 is not there".to_owned());
        Table {
            plan: Plan {
                of: rounds::Plan {
                    scenario: Scenario::default(),
                    durability: Durability::Full,
                    directory: PathBuf::from("."),
                    program: PathBuf::from("kvsim"),
                    pace: Pace {
                        warm_up: Duration::ZERO,
                        measured: Duration::ZERO,
                        rate: None,
                        tasks: false,
                    },
                    rounds: 3,
                    cache_bytes: 0,
                    index_bytes: 0,
                    engine_options: Vec::new(),
                    space_percent: 100,
                    memory_bytes: None,
                    assume_power_loss_protection: false,
                },
                log_bytes: 64 << 20,
            },
            keys: 10_000_000,
            data_bytes: 10 << 30,
            rows: vec![
                row("kvsim", [40, 20, 90].map(opening).to_vec()),
                failed,
                wrong,
            ],
        }
    }

    /// Goal: the table says what was measured, median and worst, and whatever went wrong. Method: a row of three openings, one of none, one that lost a key.
    #[test]
    fn the_table_says_what_was_measured() {
        let text = table(&rows());
        for wanted in [
            "10,000,000 keys in random order, 10 GiB in all · 64 MiB made durable before each kill",
            "40.0 ms (90.0 ms)",
            "30.0 µs (30.0 µs)",
            " 3 MiB (3 MiB)",
            "77 MiB (77 MiB)",
            "other            no room",
            "stopped: WRONG: key number 3 is not there",
            "kvsim: an opening takes 120 ms (120 ms) of processor time; of its log it replays 9 MiB at most",
            "dropping these is for root",
            "kvsim 7.8.9: cache 11 MiB · space 3 GiB",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }
}
