//! What a shard says beside its report, and the report of a whole campaign from those of its shards.
//!
//! A shard has a range of the seeds. Shards are merged by what seeds are merged by: counts that add up, times in their
//! buckets, and a hash of each seed's trace.
//!
//! Invariant: what comes out is, but for real time, the report of one campaign over all seeds, in any order of the parts. That campaign
//! would have ended with its first failing seed, so what shards after that one found does not count. A part that is missing, double
//! or of something else is an error.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{FailureReport, Real, RunReport, Verdict};
use kvsim_api::coverage::Coverage;
use kvsim_api::units::SeedRange;
use kvsim_drive::tally::Tally;
use kvsim_scenario::Expect;

/// A part of a campaign.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// Which, counted from 0.
    pub number: u64,
    /// Of how many.
    pub count: u64,
    /// All seeds of the campaign.
    pub seeds: SeedRange,
    /// How it ended.
    pub done: Done,
    /// What else the verdict depends on.
    pub terms: Terms,
}

/// What makes a verdict of what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// How the scenario is meant to end.
    pub expect: Expect,
    /// A fault that was asked for and never fired makes it inconclusive, and so does a coverage point that was never reached.
    pub strict: bool,
    /// It replays one case: that the case no longer fails is all that it is to show.
    #[serde(default)]
    pub is_case: bool,
}

/// The seeds that count, in order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Done {
    /// Which.
    pub seeds: Vec<SeedRange>,
    /// Their counts.
    pub tally: Tally,
    /// The hash of each seed's trace.
    pub traces: Vec<(u64, String)>,
    /// The first seed that ran out of events.
    pub out_of_events: Option<u64>,
    /// Somebody ended it before its end.
    pub interrupted: bool,
}

impl Done {
    /// Takes the next seed in.
    pub fn add_seed(&mut self, seed: u64, tally: &Tally, trace_hash: &str) {
        self.add_range(SeedRange::one(seed));
        self.tally.add(tally);
        self.traces.push((seed, trace_hash.to_owned()));
    }

    fn add_range(&mut self, range: SeedRange) {
        match self.seeds.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.seeds.push(range),
        }
    }

    /// Takes in what comes after.
    fn add(&mut self, next: Done) {
        for range in next.seeds {
            self.add_range(range);
        }
        self.tally.add(&next.tally);
        self.traces.extend(next.traces);
        self.out_of_events = self.out_of_events.or(next.out_of_events);
        self.interrupted |= next.interrupted;
    }

    /// One hash over the traces.
    pub fn trace_hash(&self) -> String {
        let mut hasher = Xxh3::new();
        for (seed, hash) in &self.traces {
            hasher.update(&seed.to_le_bytes());
            hasher.update(hash.as_bytes());
        }
        format!("{:032x}", hasher.digest128())
    }

    /// What was asked for and never happened.
    pub fn never_fired(&self) -> Vec<String> {
        let faults = self.tally.faults.iter();
        let missing = faults.filter(|(_, fired)| fired.asked && fired.fired == 0);
        missing.map(|(kind, _)| kind.clone()).collect()
    }

    /// How it ended if nothing was violated.
    pub fn verdict(&self, terms: &Terms, coverage: &Coverage) -> Verdict {
        let mut reasons = Vec::new();
        if let Some(seed) = self.out_of_events {
            reasons.push(format!(
                "seed {seed} ran out of events before its crashes were done"
            ));
        }
        if self.interrupted {
            reasons.push("interrupted; this is what is known so far".to_owned());
        }
        if self.seeds.is_empty() && reasons.is_empty() {
            reasons.push("no seed was finished in the time given".to_owned());
        }
        if !terms.is_case && !self.seeds.is_empty() {
            reasons.extend(self.tally.proves_nothing());
        }
        if self.tally.undecided > 0 {
            reasons.push(undecided(self.tally.undecided));
        }
        let never_fired = self.never_fired();
        if terms.strict && !never_fired.is_empty() {
            reasons.push(format!(
                "asked for and never fired: {}",
                never_fired.join(", ")
            ));
        }
        if terms.strict {
            reasons.extend(coverage.shortfall());
        }
        match terms.expect {
            Expect::DamageReported if self.tally.damage_reported == 0 => {
                reasons.push("damage was expected to be reported, and none was".to_owned());
            }
            Expect::Violation(property) => reasons.push(format!(
                "{property} was expected to be violated, and was not"
            )),
            _ => {}
        }
        if reasons.is_empty() {
            Verdict::Pass
        } else {
            Verdict::Inconclusive(reasons)
        }
    }
}

impl Terms {
    /// How a campaign ended that violated this.
    pub fn verdict_of(&self, failure: &FailureReport) -> Verdict {
        match self.expect {
            Expect::Violation(property) if property.name() == failure.property => Verdict::Pass,
            _ => Verdict::Violation,
        }
    }
}

/// The seeds of a part: stretches of equal length, or longer by one. Nothing if there are not enough for all.
#[must_use]
pub fn stretch(seeds: SeedRange, (number, count): (u64, u64)) -> Option<SeedRange> {
    let all = u128::from(seeds.count());
    if number >= count || all < u128::from(count) {
        return None;
    }
    let begin = |number: u64| {
        let before = all * u128::from(number) / u128::from(count);
        seeds.start + u64::try_from(before).expect("no more than all seeds")
    };
    Some(SeedRange {
        start: begin(number),
        end: begin(number + 1),
    })
}

/// Merges the parts of any number of campaigns; these come out in the order of their first parts. `strict`: as if all of them had been
/// run with it.
///
/// # Errors
/// What does not fit together, in a sentence.
pub fn merge(parts: Vec<RunReport>, strict: bool) -> Result<Vec<RunReport>, String> {
    grouped(parts, |part| &part.scenario)
        .into_iter()
        .map(|group| merge_one(group, strict))
        .collect()
}

/// Parts of the same name together, in the order in which each name first appears.
pub fn grouped<T>(parts: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for part in parts {
        let same = groups
            .iter_mut()
            .find(|group| name(&group[0]) == name(&part));
        match same {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    groups
}

fn merge_one(reports: Vec<RunReport>, strict: bool) -> Result<RunReport, String> {
    let name = reports[0].scenario.clone();
    let wrong = |what: &str| Err(format!("{name}: {what}"));
    let mut parts = Vec::new();
    for mut report in reports {
        let Some(part) = report.part.take() else {
            return wrong("a run without `--shard` is no part of anything");
        };
        parts.push((part, report));
    }
    parts.sort_by_key(|(part, _)| part.number);
    let (first, of) = (parts[0].0.clone(), parts[0].1.clone());
    let mut numbers = BTreeSet::new();
    for (part, report) in &parts {
        if part.count != first.count {
            return wrong("its parts are of runs in different numbers of shards");
        }
        if (part.seeds, &report.guest_hash, &part.terms)
            != (first.seeds, &of.guest_hash, &first.terms)
        {
            return wrong("its parts differ in seeds, guest, or how they are to end");
        }
        if !numbers.insert(part.number) {
            return wrong(&format!(
                "shard {}/{} is there twice",
                part.number, part.count
            ));
        }
    }
    if let Some(missing) = (0..first.count).find(|number| !numbers.contains(number)) {
        return wrong(&format!("shard {missing}/{} is missing", first.count));
    }
    let mut done = Done::default();
    let mut coverage: Option<Coverage> = None;
    let mut failure = None;
    let mut real = Real::default();
    for (part, report) in parts {
        real.elapsed = real.elapsed.max(report.real.elapsed);
        real.jobs += report.real.jobs;
        if failure.is_none() {
            done.add(part.done);
            match &mut coverage {
                None => coverage = Some(report.coverage),
                Some(all) => all
                    .add(&report.coverage)
                    .map_err(|what| format!("{name}: {what}"))?,
            }
            failure = report.failure;
        }
    }
    let coverage = coverage.unwrap_or_default();
    let terms = Terms {
        strict: strict || first.terms.strict,
        ..first.terms
    };
    let verdict = match &failure {
        Some(failure) => terms.verdict_of(failure),
        None => done.verdict(&terms, &coverage),
    };
    Ok(RunReport {
        seeds_asked: first.seeds,
        trace_hash: done.trace_hash(),
        never_fired: done.never_fired(),
        verdict,
        seeds_done: done.seeds,
        tally: done.tally,
        coverage,
        failure,
        part: None,
        real,
        ..of
    })
}

/// Why a run with so many undecided recoveries proves nothing.
pub fn undecided(recoveries: u64) -> String {
    format!(
        "{recoveries} recoveries are undecided: the search for an explanation took too many steps"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each seed is in one part, and parts are of nearly one size. Method: all counts for ranges of several lengths.
    #[test]
    fn stretches_cover_all_seeds_once() {
        for len in [1, 2, 7, 8, 100] {
            let seeds = SeedRange {
                start: 5,
                end: 5 + len,
            };
            for count in 1..=len {
                let mut next = seeds.start;
                for number in 0..count {
                    let part = stretch(seeds, (number, count)).expect("there are enough");
                    assert_eq!(part.start, next);
                    assert!((len / count..=len / count + 1).contains(&part.count()));
                    next = part.end;
                }
                assert_eq!(next, seeds.end);
            }
            assert!(stretch(seeds, (0, len + 1)).is_none());
        }
    }
}
