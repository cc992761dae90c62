//! Runs a cell: explores, makes one failure of each kind small, blames it, and asks which profiles show it.
//!
//! Invariant: all bounds are counts of states or of work, never time. So a cell depends on its key alone, and not on the number of threads.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use kvsim_fs::{DurableAt, Profile};
use kvsim_sim::{Order, Program};

use crate::cell::{About, Bounds, Cell, Confirmed, Finding, Key, Real, Recorded, short_hash};
use crate::class::VerdictClass;
use crate::order::{rules, strongest, weakest};
use crate::told;
use kvsim_drive::control::Control;
use kvsim_drive::run::{SeedEnd, SeedResult, Tracing, run_seed};
use kvsim_findings::blame::Said;
use kvsim_findings::error::CampaignError;
use kvsim_findings::explore::ExploreReport;
use kvsim_findings::failure;
use kvsim_findings::summary::{FailureReport, Verdict};
use kvsim_oracle::Violation;
use kvsim_scenario::{OptionText, Scenario, explain, parse};
use kvsim_search::exploration::Exploration;
use kvsim_search::exploration::again::{Again, again};
use kvsim_search::minimise::{Budget, Minimised, minimise_watched};

/// Findings of one cell that are made small, the most severe of each kind.
const FINDINGS_MAX: usize = 3;
/// Work of making one small: some six seconds of a core.
const SMALL_WORK: u64 = 15_000_000_000;
/// Work of asking one profile whether it shows a finding: some two seconds of a core.
const PROFILE_WORK: u64 = 4_000_000_000;

/// What a cell is run with.
pub struct Job {
    /// The scenario, with the profile and the bounds of the cell.
    pub scenario: Scenario,
    /// The engine.
    pub program: Arc<dyn Program>,
    /// The profile.
    pub profile: String,
    /// Threads.
    pub jobs: NonZeroUsize,
    /// Where cases are saved.
    pub cases: PathBuf,
}

/// What a cell belongs to, with the hash of the module's bytes.
#[must_use]
pub fn key(scenario: &Scenario, engine: &str, module: String, profile: &str) -> Key {
    Key {
        kvsim: env!("CARGO_PKG_VERSION").to_owned(),
        engine: engine.to_owned(),
        module,
        profile: profile.to_owned(),
        scenario: short_hash(explain(scenario).as_bytes()),
    }
}

/// What an engine says of itself, and what the scenario tells it.
#[must_use]
pub fn about(program: &dyn Program, scenario: &Scenario) -> About {
    let told = scenario.guest.options_of(program.options_name());
    let json = |policies| match serde_json::to_value(policies) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (own, contract) = (
        json(program.policies()),
        json(kvsim_sim::GuestPolicies::default()),
    );
    let differ = own
        .iter()
        .filter(|(name, value)| contract.get(*name) != Some(value));
    let said = differ.map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name}={text}"),
        serde_json::Value::Object(fields) if fields.contains_key("number") => {
            format!("{name}={}", fields["number"])
        }
        other => format!("{name}={other}"),
    });
    About {
        engine: program.engine().to_owned(),
        settings: program.settings().to_owned(),
        options: told
            .iter()
            .map(|(name, OptionText(text))| format!("{name}={text}"))
            .collect(),
        order: match program.offers().order {
            Order::Each => "each",
            Order::Prefix => "prefix",
        }
        .to_owned(),
        policies: said.collect(),
        not_asked: program.offers().missing_names(),
    }
}

/// A violation of the exploration, as a scenario of its own.
struct Met {
    scenario: Scenario,
    violation: Violation,
    at_creation: bool,
}

impl Job {
    /// Runs the cell. Nothing comes of it if it was interrupted.
    ///
    /// # Errors
    /// Something of ours went wrong, or the guest does not take its configuration; nothing is said about the engine.
    pub fn run(
        &self,
        key: Key,
        control: &Control,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<Cell>, CampaignError> {
        let began = control.elapsed();
        say("explores");
        let exploration = Exploration {
            scenario: Arc::new(self.scenario.clone()),
            program: Arc::clone(&self.program),
            seed: self.scenario.run.seeds.start,
            jobs: self.jobs,
            shard: None,
            strict: false,
            failures: None,
            skip_seen: true,
            minimise: false,
        };
        let report = exploration.run(control)?;
        let mut findings = Vec::new();
        for (met, times) in self.kinds(&report)? {
            if control.stopped().is_some() {
                return Ok(None);
            }
            let finding = self.finding(&met, times, &findings, control, say)?;
            findings.push(finding);
        }
        if control.stopped().is_some() {
            return Ok(None);
        }
        let (verdict, why) = self.verdict(&report, &findings);
        let cell = Cell {
            key,
            about: about(self.program.as_ref(), &self.scenario),
            bounds: Bounds::from(&self.scenario.explore),
            recorded: Recorded {
                requests: report.requests,
                events: report.events,
                crash_points: report.points_asked,
                seen: report.points.len() as u64,
            },
            total: report.total(),
            depths: report.levels.clone(),
            violations: report.failures.len() as u64 + report.total().alike,
            verdict,
            why,
            findings,
            hash: String::new(),
            real: Real {
                seconds: control.elapsed().saturating_sub(began).as_secs_f64(),
                explore_seconds: report.elapsed.as_secs_f64(),
                states_per_core_second: report.states_per_cpu_second(),
                jobs: self.jobs.get(),
            },
        };
        Ok(Some(cell.hashed()))
    }

    fn verdict(&self, report: &ExploreReport, findings: &[Finding]) -> (VerdictClass, Vec<String>) {
        if let Some(class) = findings.iter().map(|it| it.class).max() {
            return (class, Vec::new());
        }
        let loses = rules(&self.profile).is_none_or(|rules| rules.durable_at == DurableAt::Sync);
        classify(report, loses)
    }

    /// One violation of each kind, with how often it was met: the most severe first.
    fn kinds(&self, report: &ExploreReport) -> Result<Vec<(Met, u64)>, CampaignError> {
        let mut kinds: BTreeMap<(std::cmp::Reverse<VerdictClass>, bool), (Met, u64)> =
            BTreeMap::new();
        for failure in &report.failures {
            let met = self.met(failure)?;
            let class = VerdictClass::of(&met.violation);
            let kind = (std::cmp::Reverse(class), met.at_creation);
            kinds
                .entry(kind)
                .and_modify(|(_, times)| *times += 1)
                .or_insert((met, 1));
        }
        Ok(kinds.into_values().take(FINDINGS_MAX).collect())
    }

    /// The case of a failure, run once more for the shape of its violation.
    fn met(&self, failure: &FailureReport) -> Result<Met, CampaignError> {
        let wrong = |what: String| CampaignError::InvalidRun {
            scenario: self.scenario.name.clone(),
            seed: failure.seed,
            what,
        };
        let Some(story) = &failure.story else {
            return Err(wrong("a violation was not recorded".to_owned()));
        };
        let name = &self.scenario.name;
        let scenario = parse("a violation", name, story.scenario.clone(), None, &[])
            .map_err(|error| wrong(format!("a violation cannot be read again: {error}")))?;
        let result = run_seed(
            &scenario,
            &self.program,
            failure.seed,
            &Control::default(),
            Tracing::HashOnly,
        );
        let SeedEnd::Violation(violation) = result.end else {
            return Err(wrong("a violation does not happen again".to_owned()));
        };
        let is_first = |case: &kvsim_scenario::case::Case| case.requests() == 0;
        Ok(Met {
            at_creation: scenario.case.as_ref().is_some_and(is_first),
            scenario,
            violation: *violation,
        })
    }

    /// What the cases of a finding are called. Violations of two kinds may become of one kind as they are made small: the later one gets a number, so that
    /// its case does not replace the other's.
    fn case_name(&self, class: VerdictClass, at_creation: bool, before: &[Finding]) -> String {
        let creation = if at_creation { "-creation" } else { "" };
        let name = format!("{}-{}{creation}", self.scenario.name, class.slug());
        let is_alike = |it: &&Finding| it.class == class && it.at_creation == at_creation;
        match before.iter().filter(is_alike).count() {
            0 => name,
            others => format!("{name}-{}", others + 1),
        }
    }

    /// Makes a violation small, blames it, and asks which profiles show it.
    fn finding(
        &self,
        met: &Met,
        times: u64,
        before: &[Finding],
        control: &Control,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Finding, CampaignError> {
        let wrong = |what: String| CampaignError::InvalidRun {
            scenario: self.scenario.name.clone(),
            seed: met.scenario.run.seeds.start,
            what,
        };
        say("makes a failure small");
        let budget = Budget { work: SMALL_WORK };
        let small = minimise_watched(
            &met.scenario,
            &self.program,
            None,
            budget,
            self.jobs,
            control,
            &|_| {},
        )
        .map_err(wrong)?;
        say("looks for what is to blame");
        let blame = small
            .blame(&self.program, self.jobs, control)
            .map_err(wrong)?;
        let SeedEnd::Violation(violation) = &small.result.end else {
            return Err(wrong("a small case does not fail".to_owned()));
        };
        let class = VerdictClass::of(violation);
        let case = small.scenario.case.clone().unwrap_or_default();
        let name = self.case_name(class, met.at_creation, before);
        let said = Said::from(&blame);
        let mut saved = named(&small, &name);
        saved.scenario.failure = None;
        let report = saved.report(self.program.as_ref(), Some(&self.cases), Some(blame));
        let (file, replay) = saved_as(&report).map_err(wrong)?;
        say("asks the other profiles");
        let mut finding = Finding {
            class,
            property: violation.property.name().to_owned(),
            symptom: violation.symptom,
            sentence: violation.sentence.clone(),
            facts: violation.facts.clone(),
            at_creation: met.at_creation,
            times,
            requests: case.requests() as u64,
            crashes: case.crashes(),
            persisted: case
                .process_runs
                .iter()
                .filter_map(|it| it.crash.as_ref())
                .map(|it| it.persisted.len() as u64)
                .sum(),
            steps: told::steps(&case),
            is_minimal: !small.exhausted,
            blame: Some(said),
            trace_hash: small.result.trace_hash.clone(),
            native_line: format!("engines/reproduce {file}"),
            file,
            replay,
            shown_by: Vec::new(),
            not_by: Vec::new(),
            undecided_by: Vec::new(),
            weakest: Vec::new(),
            strongest: Vec::new(),
            confirmed: Vec::new(),
        };
        self.ask_profiles(&mut finding, &small, violation, control, &name)
            .map_err(wrong)?;
        Ok(finding)
    }

    /// Which profiles show a finding. Under the weakest and under the strongest that do it is saved as a case of its own.
    fn ask_profiles(
        &self,
        finding: &mut Finding,
        small: &Minimised,
        violation: &Violation,
        control: &Control,
        name: &str,
    ) -> Result<(), String> {
        let mut found: BTreeMap<&str, (Scenario, SeedResult)> = BTreeMap::new();
        for profile in Profile::names() {
            if profile == self.profile {
                finding.shown_by.push(profile.to_owned());
                continue;
            }
            let mut scenario = small.scenario.clone();
            if let Some(files) = &mut scenario.files {
                files.profile = Profile::Named(profile.to_owned());
            }
            let (program, jobs) = (&self.program, self.jobs);
            match again(
                &scenario,
                violation.class(),
                program,
                jobs,
                control,
                PROFILE_WORK,
            ) {
                Again::Shown(shown) => {
                    finding.shown_by.push(profile.to_owned());
                    found.insert(profile, *shown);
                }
                Again::NotShown => finding.not_by.push(profile.to_owned()),
                Again::Undecided => finding.undecided_by.push(profile.to_owned()),
            }
        }
        finding.weakest = weakest(&finding.shown_by);
        finding.strongest = strongest(&finding.shown_by);
        let mut ends = finding.weakest.clone();
        ends.extend(finding.strongest.clone());
        ends.sort();
        ends.dedup();
        for profile in ends {
            let Some((mut scenario, result)) = found.remove(profile.as_str()) else {
                continue;
            };
            scenario.name = format!("{name}-on-{profile}");
            let directory = Some(self.cases.as_path());
            let (report, _) = failure::report(&scenario, self.program.as_ref(), &result, directory);
            let (file, replay) = saved_as(&report)?;
            finding.confirmed.push(Confirmed {
                profile,
                sentence: format!("{}: {}", report.property, report.sentence),
                trace_hash: report.trace_hash.clone(),
                file,
                replay,
            });
        }
        Ok(())
    }
}

/// What a cell without a finding comes to. Of a profile that loses nothing it is in order that nothing is pending.
fn classify(report: &ExploreReport, loses: bool) -> (VerdictClass, Vec<String>) {
    let reasons = match &report.verdict {
        Verdict::Pass => return (VerdictClass::CleanWithinBounds, Vec::new()),
        Verdict::Violation => return (VerdictClass::Undecided, Vec::new()),
        Verdict::Inconclusive(reasons) => reasons.clone(),
    };
    if report.total().undecided > 0 {
        return (VerdictClass::Undecided, reasons);
    }
    let nothing_pending = report.points.iter().all(|point| point.pending == 0);
    if !loses && nothing_pending && reasons.len() == 1 && report.total().checked > 0 {
        return (VerdictClass::CleanWithinBounds, Vec::new());
    }
    (VerdictClass::ProvesNothing, reasons)
}

fn named(small: &Minimised, name: &str) -> Minimised {
    let mut scenario = small.scenario.clone();
    name.clone_into(&mut scenario.name);
    Minimised {
        scenario,
        result: small.result.clone(),
        spent: small.spent,
        exhausted: small.exhausted,
        interrupted: small.interrupted,
    }
}

fn saved_as(report: &FailureReport) -> Result<(String, String), String> {
    match (&report.file, &report.replay, &report.unsaved) {
        (Some(file), Some(replay), _) => Ok((file.display().to_string(), replay.clone())),
        (_, _, Some(error)) => Err(error.clone()),
        _ => Err("a case was not saved".to_owned()),
    }
}

/// Whether a profile of this name comes with kvsim.
///
/// # Errors
/// It does not; the sentence lists those that do.
pub fn known_profile(name: &str) -> Result<(), String> {
    if Profile::names().any(|known| known == name) {
        return Ok(());
    }
    let names: Vec<&str> = Profile::names().collect();
    Err(format!(
        "there is no persistence profile {name}\n  = help: there are {}",
        names.join(", ")
    ))
}

/// The hash of a module's bytes, as reports name it.
///
/// # Errors
/// It cannot be read; a sentence.
pub fn module_hash(file: &std::path::Path) -> Result<String, String> {
    let bytes = std::fs::read(file)
        .map_err(|error| format!("{}: it cannot be read: {error}", file.display()))?;
    Ok(kvsim_sim::GuestHash::of(&bytes).to_string())
}
