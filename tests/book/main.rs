//! Tables of the book that are made from the code, and defaults in its tables that are held to the code.

use std::fmt::Write as _;
use std::path::PathBuf;

use kvsim_engine::{CoveragePoint, OPTIONS};
use kvsim_tests::root;

/// Set it to write the tables into the book in place of comparing them.
const UPDATE: &str = "KVSIM_UPDATE_BOOK";

fn page(name: &str) -> PathBuf {
    root().join("book/src").join(name)
}

/// Holds the part of a page between two marks of this name to what it should be.
fn hold(file: &str, name: &str, expected: &str) {
    let path = page(file);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (begin, end) = (
        format!("<!-- generated: {name}: begin -->\n"),
        format!("<!-- generated: {name}: end -->"),
    );
    let from = text.find(&begin).expect("the part begins") + begin.len();
    let to = from + text[from..].find(&end).expect("the part ends");
    if std::env::var_os(UPDATE).is_some() {
        let renewed = format!("{}{expected}{}", &text[..from], &text[to..]);
        std::fs::write(&path, renewed).expect("the page can be written");
        return;
    }
    assert!(
        text[from..to] == *expected,
        "the table `{name}` of {} is stale: run `{UPDATE}=1 cargo test -p kvsim-tests --test book`",
        path.display()
    );
}

/// Goal: the options of the engine are documented as they are. Method: the table is made from the code.
#[test]
fn the_table_of_options_is_that_of_the_code() {
    let mut table =
        String::from("| option | values | default | meaning |\n| --- | --- | --- | --- |\n");
    for option in OPTIONS {
        writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            option.name, option.values, option.default, option.meaning
        )
        .expect("it is a string");
    }
    hold("engine-options.md", "options", &table);
}

/// Goal: the coverage points of the engine are documented as they are. Method: the table is made from the code.
#[test]
fn the_table_of_coverage_points_is_that_of_the_code() {
    let mut table = String::from("| coverage point | reached when |\n| --- | --- |\n");
    for coverage_point in CoveragePoint::ALL {
        writeln!(
            table,
            "| `{}` | {} |",
            coverage_point.name(),
            coverage_point.meaning().trim()
        )
        .expect("it is a string");
    }
    hold("engine-options.md", "coverage points", &table);
}

/// The rows of all tables of a page whose heading or text before the table names this table of a scenario: names and the default.
fn rows<'a>(page: &'a str, table: &str) -> Vec<(Vec<&'a str>, &'a str)> {
    let heading = format!("`[{table}]`");
    let mut inside = false;
    let mut rows = Vec::new();
    let mut default_at = None;
    for line in page.lines() {
        if line.starts_with('#') {
            inside = line.contains(&heading);
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if !inside || cells.len() < 4 {
            default_at = None;
            continue;
        }
        match default_at {
            None => default_at = cells.iter().position(|cell| *cell == "default"),
            Some(at) if cells[1].starts_with('`') => {
                let names = cells[1].split(", ").map(|name| name.trim_matches('`'));
                rows.push((names.collect(), cells[at]));
            }
            Some(_) => {}
        }
    }
    rows
}

/// A default in the book as TOML writes it, if the book states a plain value.
fn plain(default: &str) -> Option<toml::Value> {
    let text = default.trim_matches('`').replace([',', ' '], "");
    format!("it = {text}")
        .parse::<toml::Table>()
        .ok()?
        .remove("it")
}

/// Goal: no default in the book is stale. Method: every row whose default is a plain value, held to the scenario with nothing in it.
#[test]
fn defaults_in_the_book_are_those_of_the_code() {
    let empty = kvsim_harness::scenario::parse("empty", "empty.toml", String::new(), None, &[]);
    let explained = kvsim_harness::scenario::explain(&empty.expect("every field has a default"));
    let defaults: toml::Table = explained.parse().expect("what is explained is a scenario");
    let tables = [
        "run",
        "workload",
        "guest",
        "host",
        "check",
        "explore",
        "device",
        "device.timing",
        "faults",
        "faults.bias",
    ];
    let mut compared = 0;
    for file in ["scenarios.md", "fault-model.md"] {
        let text = std::fs::read_to_string(page(file)).expect("the page is there");
        for table in tables {
            let mut value = Some(&defaults);
            for part in table.split('.') {
                value = value.and_then(|table| table.get(part)?.as_table());
            }
            let Some(fields) = value else { continue };
            for (names, default) in rows(&text, table) {
                let stated: Vec<Option<toml::Value>> = match names.len() {
                    1 => vec![plain(default)],
                    count => {
                        let each: Vec<_> = default.split(", ").map(plain).collect();
                        if each.len() == count {
                            each
                        } else {
                            vec![plain(default); count]
                        }
                    }
                };
                for (name, stated) in names.iter().zip(stated) {
                    let (Some(stated), Some(real)) = (stated, fields.get(*name)) else {
                        continue;
                    };
                    compared += 1;
                    let same = match (&stated, real) {
                        (toml::Value::Integer(number), toml::Value::Float(real)) => {
                            *real == *number as f64
                        }
                        // A latency: one number stands for all quantiles.
                        (stated, toml::Value::Table(quantiles)) => {
                            quantiles.values().all(|quantile| quantile == stated)
                        }
                        (stated, real) => *stated == *real,
                    };
                    assert!(same, "{file}: `{table}.{name}` is {real} and not {stated}");
                }
            }
        }
    }
    assert!(compared > 60, "only {compared} defaults were found");
}
