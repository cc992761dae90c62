//! The board as text for a person.

use std::fmt::Write as _;

use crate::board::{Board, Row};
use crate::cell::Cell;
use crate::told::Told;
use kvsim_api::units::thousands;
use kvsim_findings::summary::text::Colour;

/// The board: a table of verdicts, and each finding.
#[must_use]
pub fn board(board: &Board, colour: Colour) -> String {
    let mut text = table(board, colour);
    for row in board
        .engines
        .iter()
        .filter(|row| !row.about.options.is_empty())
    {
        let options = row.about.options.join(", ");
        let _ = writeln!(text, "\n{} is opened with {options}", row.name);
    }
    for row in &board.engines {
        for told in &row.findings {
            text.push_str(&finding_lines(row, told, colour));
        }
    }
    let counts = board.counts();
    let said = counts
        .iter()
        .map(|(class, count)| format!("{count} {}", class.words()));
    let _ = writeln!(text, "\n{}", said.collect::<Vec<_>>().join(", "));
    text
}

fn table(board: &Board, colour: Colour) -> String {
    let mut rows = vec![heading(board)];
    for row in &board.engines {
        let mut line = vec![row.name.clone()];
        line.extend(board.profiles.iter().map(|profile| {
            row.cell(profile)
                .map_or_else(|| "not run".to_owned(), verdict)
        }));
        rows.push(line);
    }
    let columns = board.profiles.len() + 1;
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|it| width(it).unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let padded = row
            .iter()
            .zip(&widths)
            .map(|(it, width)| format!("{it:width$}"));
        let line = padded.collect::<Vec<_>>().join("   ");
        let line = line.trim_end();
        let line = if at == 0 {
            colour.bold(line)
        } else {
            line.to_owned()
        };
        let _ = writeln!(text, "{line}");
    }
    text
}

fn heading(board: &Board) -> Vec<String> {
    let engine = std::iter::once("engine".to_owned());
    engine.chain(board.profiles.iter().cloned()).collect()
}

/// The verdict of a cell and how many states were checked.
#[must_use]
pub fn verdict(cell: &Cell) -> String {
    let states = thousands(cell.total.checked);
    let creation = cell
        .findings
        .iter()
        .filter(|it| it.class == cell.verdict)
        .all(|it| it.at_creation);
    let when = if creation && !cell.findings.is_empty() {
        " (at creation)"
    } else {
        ""
    };
    format!("{}{when}, {states} states", cell.verdict.words())
}

fn finding_lines(row: &Row, told: &Told, colour: Colour) -> String {
    let mut text = String::new();
    let Some(finding) = told.first(&row.cells) else {
        return text;
    };
    let _ = writeln!(
        text,
        "\n{}",
        colour.bold(&format!(
            "{} on {}: {}{}",
            row.name,
            told.profiles().join(", "),
            finding.class.words(),
            if finding.requests == 0 {
                ", while the database is created"
            } else {
                ""
            }
        ))
    );
    let _ = writeln!(text, "  {}", finding.sentence);
    let _ = writeln!(
        text,
        "  {} requests, {} crashes, {} persisted steps{}",
        finding.requests,
        finding.crashes,
        finding.persisted,
        if finding.is_minimal {
            ""
        } else {
            "; making it small ended before it was done"
        }
    );
    if let Some(blame) = &finding.blame {
        let _ = writeln!(text, "  blame: {}", blame.sentence);
    }
    let list = |names: &[String]| names.join(", ");
    let _ = write!(text, "  shown by: {}", list(&finding.shown_by));
    for (label, names) in [
        ("not by", &finding.not_by),
        ("not decided", &finding.undecided_by),
    ] {
        if !names.is_empty() {
            let _ = write!(text, "; {label}: {}", list(names));
        }
    }
    let _ = writeln!(text, "\n  replay: {}", finding.replay);
    for other in told.others() {
        let _ = writeln!(text, "  the same on {}: {}", other.profile, other.replay);
    }
    let _ = writeln!(text, "  natively: {}", finding.native_line);
    text
}
