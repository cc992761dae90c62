//! Each finding of an engine told once: several cells have the same one, and within a cell two kinds of violations may shrink to the same case.
//!
//! Two findings are one if their small cases ask the same requests, keep the same of what was pending at their crashes, violate the same property in
//! the same way, and have the same to blame. Times and the numbers of events do not count: they are those of a profile, whose syncs take more or
//! fewer events.
//!
//! Invariant: each finding of each cell is one occurrence of one told finding, so no saved case is left out.

use serde::{Deserialize, Serialize};

use crate::cell::{Cell, Confirmed, Finding, short_hash};
use kvsim_oracle::Facts;
use kvsim_scenario::case::Case;

/// A finding of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Where it was found, in the order of the columns. What is said of the first stands for all.
    pub occurrences: Vec<Occurrence>,
}

/// A finding of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The profile of the cell.
    pub profile: String,
    /// Its place among the findings of the cell, from 0.
    pub place: usize,
    /// Violations of its kind that counted there.
    pub times: u64,
    /// The case.
    pub file: String,
    /// The line that replays it.
    pub replay: String,
}

impl Occurrence {
    fn finding<'a>(&self, cells: &'a [Cell]) -> Option<&'a Finding> {
        let cell = cells.iter().find(|it| it.key.profile == self.profile)?;
        cell.findings.get(self.place)
    }
}

impl Told {
    /// The finding that stands for all.
    #[must_use]
    pub fn first<'a>(&self, cells: &'a [Cell]) -> Option<&'a Finding> {
        self.occurrences.first()?.finding(cells)
    }

    /// The finding as it was run under other profiles, wherever it was found: each case once.
    #[must_use]
    pub fn confirmed<'a>(&self, cells: &'a [Cell]) -> Vec<&'a Confirmed> {
        let findings = self.occurrences.iter().filter_map(|it| it.finding(cells));
        let mut all: Vec<&Confirmed> = Vec::new();
        for confirmed in findings.flat_map(|it| &it.confirmed) {
            if all.iter().all(|other| other.file != confirmed.file) {
                all.push(confirmed);
            }
        }
        all
    }

    /// The profiles under which it was found, each once.
    #[must_use]
    pub fn profiles(&self) -> Vec<&str> {
        let mut profiles: Vec<&str> = Vec::new();
        for occurrence in &self.occurrences {
            if !profiles.contains(&occurrence.profile.as_str()) {
                profiles.push(&occurrence.profile);
            }
        }
        profiles
    }

    /// The saved cases beside the one that stands for all, each once.
    #[must_use]
    pub fn others(&self) -> Vec<&Occurrence> {
        let mut others: Vec<&Occurrence> = Vec::new();
        let first = self.occurrences.first().map(|it| &it.file);
        for occurrence in &self.occurrences {
            let is_known = |other: &&Occurrence| other.file == occurrence.file;
            if Some(&occurrence.file) != first && !others.iter().any(is_known) {
                others.push(occurrence);
            }
        }
        others
    }
}

/// The findings of an engine's cells, each once, in the order in which they are first met.
#[must_use]
pub fn told(cells: &[Cell]) -> Vec<Told> {
    let mut all: Vec<Told> = Vec::new();
    for cell in cells {
        for (place, finding) in cell.findings.iter().enumerate() {
            let occurrence = Occurrence {
                profile: cell.key.profile.clone(),
                place,
                times: finding.times,
                file: finding.file.clone(),
                replay: finding.replay.clone(),
            };
            let same = all.iter_mut().find(|told| {
                let first = told.first(cells);
                first.is_some_and(|first| is_same(first, finding))
            });
            match same {
                Some(told) => told.occurrences.push(occurrence),
                None => all.push(Told {
                    occurrences: vec![occurrence],
                }),
            }
        }
    }
    all
}

/// Whether two findings of an engine are one.
fn is_same(one: &Finding, other: &Finding) -> bool {
    let timeless = |facts: &Facts| Facts {
        handed_in_ns: None,
        acknowledged_ns: None,
        ..facts.clone()
    };
    let blamed = |finding: &Finding| finding.blame.as_ref().map(|it| it.sentence.clone());
    let is_known = !one.steps.is_empty();
    one.file == other.file
        || (is_known
            && one.steps == other.steps
            && one.class == other.class
            && one.property == other.property
            && one.symptom == other.symptom
            && timeless(&one.facts) == timeless(&other.facts)
            && blamed(one) == blamed(other))
}

/// A hash of what a case asks and of what its crashes keep; the numbers of events aside.
///
/// # Panics
/// Never: a case is plain data.
#[must_use]
pub fn steps(case: &Case) -> String {
    let mut bare = case.clone();
    for process_run in &mut bare.process_runs {
        process_run.close_after_event = process_run.close_after_event.map(|_| 0);
        if let Some(crash) = &mut process_run.crash {
            crash.after_event = 0;
        }
    }
    let text = serde_json::to_string(&bare).expect("a case is plain data");
    short_hash(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use crate::class::VerdictClass;

    const BOARD: &str = include_str!("../../../engines/board/board.json");

    /// Goal: of the findings of an engine each is told once, and none is left out. Method: the board of the repository; each finding of each cell is one occurrence of one that is told, and
    /// no two that are told are the same.
    #[test]
    fn each_finding_is_told_once() {
        let board: Board = serde_json::from_str(BOARD).expect("it is a board");
        let (mut findings, mut all) = (0, 0);
        for row in &board.engines {
            let told = told(&row.cells);
            assert_eq!(told, row.findings, "{}: kvsim board --rewrite", row.name);
            for cell in &row.cells {
                for (place, finding) in cell.findings.iter().enumerate() {
                    let is_this =
                        |it: &&Occurrence| it.profile == cell.key.profile && it.place == place;
                    let mut here = told.iter().flat_map(|it| &it.occurrences).filter(is_this);
                    assert_eq!(here.next().map(|it| &it.file), Some(&finding.file));
                    assert!(here.next().is_none(), "{}", finding.file);
                }
            }
            for (at, one) in told.iter().enumerate() {
                let first = one.first(&row.cells).expect("it is there");
                let before = told[..at].iter().filter_map(|it| it.first(&row.cells));
                assert!(before.into_iter().all(|it| !is_same(it, first)));
                let others = one.others().len();
                assert!(others < one.occurrences.len());
            }
            findings += row
                .cells
                .iter()
                .map(|cell| cell.findings.len())
                .sum::<usize>();
            all += told.len();
        }
        assert!(0 < all && all < findings, "{all} of {findings}");
    }

    /// Goal: two findings are one only if all that a reader would tell them apart by is the same. Method: a finding of the board beside itself under another profile, with
    /// each part changed in turn.
    #[test]
    fn findings_that_differ_are_told_apart() {
        let board: Board = serde_json::from_str(BOARD).expect("it is a board");
        let row = board.engines.iter().find(|row| {
            let found = |cell: &Cell| cell.findings.first().is_some_and(|it| it.blame.is_some());
            row.cells.iter().any(found)
        });
        let mut cell = row.expect("one is blamed").cells.clone();
        cell.retain(|cell| !cell.findings.is_empty());
        let mut cell = cell.swap_remove(0);
        cell.findings.truncate(1);
        type Change = fn(&mut Finding);
        let same: [Change; 3] = [
            |it| it.trace_hash.clear(),
            |it| it.times += 1,
            |it| it.facts.acknowledged_ns = it.facts.acknowledged_ns.map(|it| it + 1),
        ];
        let other: [Change; 5] = [
            |it| it.steps = "0".to_owned(),
            |it| it.steps.clear(),
            |it| it.property.push('s'),
            |it| it.class = VerdictClass::Undecided,
            |it| it.blame = None,
        ];
        let changes = same.iter().map(|it| (it, 1));
        for (at, (change, expected)) in changes.chain(other.iter().map(|it| (it, 2))).enumerate() {
            let mut beside = cell.clone();
            beside.key.profile = "another".to_owned();
            beside.findings[0].file = "another.toml".to_owned();
            change(&mut beside.findings[0]);
            let found = told(&[cell.clone(), beside]);
            assert_eq!(found.len(), expected, "change {at}");
            assert_eq!(found[0].profiles().len(), 3 - expected);
        }
    }
}
