//! The figures as tables for other programs: CSV with a row for each round, Markdown with a row for each engine.

use std::fmt::Write as _;

use super::load::Seen;
use super::numbers::{float, whole};
use super::report::{self, caveats, setting, share};
use super::rounds::{Row, Table};
use kvsim_api::units::{nanoseconds, thousands};

const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// CSV as of RFC 4180: a line of names, then a line for each round of each engine. Times are in nanoseconds.
#[must_use]
pub fn csv(tables: &[Table]) -> String {
    let names = [
        "scenario",
        "durability",
        "clients",
        "engine",
        "version",
        "round",
        "operations",
        "operations_per_second",
        "p50_ns",
        "p90_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "commits",
        "flushes_per_commit",
        "write_amplification",
        "caveat",
        "peak_memory_bytes",
        "loaded_keys_per_second",
    ];
    let mut text = record(&names.map(str::to_owned));
    for table in tables {
        let plan = &table.plan;
        for row in &table.rows {
            for (round, seen) in (1..).zip(&row.rounds) {
                let ratio = |part, whole| share(part, whole).map(|it| format!("{it:.4}"));
                let counters = &seen.counters;
                let mut fields = vec![
                    plan.scenario.name.clone(),
                    plan.durability.to_string(),
                    plan.scenario.workload.clients.to_string(),
                    row.engine.to_owned(),
                    row.version.clone(),
                    format!("{round}"),
                    seen.operations().to_string(),
                    format!("{:.1}", seen.rate()),
                ];
                let latency = seen.all_latencies();
                let times = QUANTILES.map(|(_, at)| latency.value_at_quantile(at).to_string());
                fields.extend(times);
                fields.extend([
                    seen.commits.to_string(),
                    ratio(counters.device_flushes, seen.commits).unwrap_or_default(),
                    ratio(counters.device_written_bytes, seen.user_bytes).unwrap_or_default(),
                    row.caveat.clone().unwrap_or_default(),
                    peak(row).unwrap_or_default(),
                    loaded(row).unwrap_or_default(),
                ]);
                text.push_str(&record(&fields));
            }
        }
    }
    text
}

/// The most memory that was resident; the same in each round of an engine.
fn peak(row: &Row) -> Option<String> {
    row.memory.map(|memory| memory.peak_bytes.to_string())
}

/// How fast the keys came in that were there before the first round; the same in each round of an engine.
fn loaded(row: &Row) -> Option<String> {
    row.load.map(|load| format!("{:.1}", load.rate()))
}

/// One line of CSV.
pub(crate) fn record(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| {
        if field.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    });
    format!("{}\r\n", quoted.collect::<Vec<_>>().join(","))
}

/// A heading and a table for each workload: medians of the rounds, as on a terminal.
#[must_use]
pub fn markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let name = cell(&table.plan.scenario.name);
        let _ = write!(text, "## {name}\n\n{}\n\n", cell(&setting(table)));
        if let Some(device) = table.rows.iter().find_map(|row| row.device.as_deref()) {
            let _ = write!(text, "{}\n\n", cell(device));
        }
        let heads = QUANTILES.map(|(name, _)| name).join(" | ");
        let _ = writeln!(
            text,
            "| engine | ops/s | least | most | {heads} | memory | loaded/s |"
        );
        text.push_str(
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        );
        for row in &table.rows {
            let _ = writeln!(text, "| {} |", cells(row).join(" | "));
        }
        for caveat in caveats(table) {
            let _ = write!(text, "\n† {}\n", cell(caveat));
        }
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let mark = row.caveat.as_ref().map_or("", |_| " †");
    let mut cells = vec![format!("{} {}{mark}", cell(row.engine), cell(&row.version))];
    match row.spread(Seen::rate) {
        Some(rate) => {
            let rates = [rate.median, rate.least, rate.most];
            cells.extend(rates.map(|rate| thousands(whole(rate))));
            cells.extend(QUANTILES.map(|(_, at)| {
                let time = row.spread(|seen| float(seen.all_latencies().value_at_quantile(at)));
                time.map_or_else(String::new, |time| nanoseconds(whole(time.median)))
            }));
            cells.push(report::peak(row.memory));
            cells.push(report::load_rate(row.load));
        }
        None => {
            let why = row.failed.as_ref().map(|error| cell(&error.what));
            cells.push(why.unwrap_or_else(|| "was not measured".to_owned()));
            cells.extend(std::iter::repeat_n(String::new(), 9));
        }
    }
    cells
}

/// A text as one cell: on one line, and nothing in it taken for markup.
pub(crate) fn cell(text: &str) -> String {
    let mut cell = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => cell.push(' '),
            '\\' | '|' | '*' | '_' | '<' | '>' | '[' | ']' | '`' | '#' => {
                cell.push('\\');
                cell.push(c);
            }
            _ => cell.push(c),
        }
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::super::html::tests::table;
    use super::*;

    /// Goal: every round is a line of CSV that a spreadsheet reads, whatever names hold. Method: a table full of quotes and commas, read by
    /// the rules of RFC 4180.
    #[test]
    fn csv_has_a_line_for_each_round() {
        let text = csv(&[table("a, \"b\"\nc"), table("plain")]);
        let lines = parse(&text);
        let rounds: usize = table("x").rows.iter().map(|row| row.rounds.len()).sum();
        assert_eq!(lines.len(), 1 + 2 * rounds);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        assert_eq!(lines[1][0], "a, \"b\"\nc");
        let rate = lines[0]
            .iter()
            .position(|name| name == "operations_per_second");
        assert!(lines[1][rate.expect("a column")].parse::<f64>().is_ok());
    }

    /// Goal: Markdown is one table with one row for each engine, and names are no markup. Method: each row has as many cells as the head.
    #[test]
    fn markdown_has_a_row_for_each_engine() {
        let text = markdown(&[table("a | <b>")]);
        assert!(text.starts_with("## a \\| \\<b\\>\n"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 2 + table("x").rows.len());
        for row in rows {
            let bars = row.replace("\\|", "").matches('|').count();
            assert_eq!(bars, 12, "{row}");
        }
        assert!(text.contains("5,000 | 4,000 | 6,000"), "{text}");
    }

    fn parse(text: &str) -> Vec<Vec<String>> {
        let mut lines = vec![vec![String::new()]];
        let (mut quoted, mut chars) = (false, text.chars().peekable());
        while let Some(c) = chars.next() {
            let line = lines.last_mut().expect("a line");
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    line.last_mut().expect("a field").push('"');
                    chars.next();
                }
                '"' => quoted = !quoted,
                ',' if !quoted => line.push(String::new()),
                '\r' if !quoted => {
                    chars.next();
                    lines.push(vec![String::new()]);
                }
                c => line.last_mut().expect("a field").push(c),
            }
        }
        lines.pop();
        lines
    }
}
