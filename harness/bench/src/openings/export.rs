//! The openings as tables for other programs: CSV with a row for each opening, Markdown with a row for each engine.

use std::fmt::Write as _;

use super::report::{COLUMNS, cell, cold, setting, time, why};
use super::{Opening, Row, Table};
use crate::export::{cell as escaped, record};
use crate::numbers::whole;

/// CSV as of RFC 4180: a line of names, then a line for each opening of each engine. Times are in nanoseconds.
#[must_use]
pub fn csv(tables: &[Table]) -> String {
    let names = [
        "scenario",
        "keys",
        "data_bytes",
        "log_bytes",
        "engine",
        "version",
        "opening",
        "open_ns",
        "open_cpu_ms",
        "first_get_ns",
        "gets_ns",
        "put_ns",
        "read_to_open_bytes",
        "read_in_all_bytes",
        "peak_memory_bytes",
        "wrong",
    ];
    let mut text = record(&names.map(str::to_owned));
    for table in tables {
        for row in &table.rows {
            for (number, opening) in (1_u32..).zip(&row.openings) {
                let mut fields = vec![
                    table.plan.of.scenario.name.clone(),
                    table.keys.to_string(),
                    table.data_bytes.to_string(),
                    table.plan.log_bytes.to_string(),
                    row.engine.to_owned(),
                    row.version.clone(),
                    number.to_string(),
                ];
                fields.extend(figures(opening));
                fields.push(row.wrong.clone().unwrap_or_default());
                text.push_str(&record(&fields));
            }
        }
    }
    text
}

fn figures(opening: &Opening) -> [String; 8] {
    let ns = |it| whole(time(it)).to_string();
    let peak = opening.memory.map(|memory| memory.peak_bytes.to_string());
    [
        ns(opening.open),
        opening.opening.cpu_ms.to_string(),
        ns(opening.first_get),
        ns(opening.gets),
        ns(opening.put),
        opening.opening.process_read_bytes.to_string(),
        opening.until_used.process_read_bytes.to_string(),
        peak.unwrap_or_default(),
    ]
}

/// A heading and a table for each scenario: median and worst of the openings, as on a terminal.
#[must_use]
pub fn markdown(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let name = escaped(&table.plan.of.scenario.name);
        let _ = write!(text, "## {name}\n\n{}\n\n", escaped(&setting(table)));
        let heads: Vec<&str> = COLUMNS.iter().map(|(name, _, _)| *name).collect();
        let _ = writeln!(text, "| engine | {} |", heads.join(" | "));
        let _ = writeln!(text, "| --- {}|", "| ---: ".repeat(COLUMNS.len()));
        for row in &table.rows {
            let _ = writeln!(text, "| {} |", cells(row).join(" | "));
        }
        for words in cold(table) {
            let _ = write!(text, "\n{}\n", escaped(words));
        }
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let why = why(row).map(|why| escaped(&why));
    let name = format!("{} {}", escaped(row.engine), escaped(&row.version));
    if row.openings.is_empty() {
        let why = why.unwrap_or_else(|| "was not measured".to_owned());
        let rest = std::iter::repeat_n(String::new(), COLUMNS.len() - 1);
        return [name, why].into_iter().chain(rest).collect();
    }
    let name = why.map_or(name.clone(), |why| format!("{name}: {why}"));
    let cells = COLUMNS.map(|column| cell(row, column));
    std::iter::once(name).chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::rows;
    use super::*;

    /// Goal: every opening is a line of CSV, and each line has a field for each name. Method: a table of four openings.
    #[test]
    fn csv_has_a_line_for_each_opening() {
        let text = csv(&[rows()]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), 1 + 4);
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{text}"
        );
        assert_eq!(lines[3][4..8], ["kvsim", "7.8.9", "3", "90000000"]);
        assert_eq!(lines[4][15], "key number 3 is not there");
    }

    /// Goal: Markdown has one row for each engine, and what is said of it is no markup. Method: each row has as many cells as the head.
    #[test]
    fn markdown_has_a_row_for_each_engine() {
        let text = markdown(&[rows()]);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), 2 + 3);
        for line in lines {
            let bars = line.replace("\\|", "").matches('|').count();
            assert_eq!(bars, COLUMNS.len() + 2, "{line}");
        }
        assert!(text.contains("third 7.8.9: WRONG: key number 3"), "{text}");
    }
}
