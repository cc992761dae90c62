//! Mutants of the host: one flush, or one write-through, of a recording that is acknowledged and does nothing; and whether that
//! is noticed.
//!
//! The guest cannot tell, so the recording is the same event for event, and only what a cut can leave differs: from that
//! operation on, until something else has made the same durable. These moments are the mutant's *window*. Outside of it every
//! state is one of the unchanged recording. So only the window has to be explored, and then there are these ends:
//!
//! - a state in it breaks a property: *caught*;
//! - the window ends, and all states in it are legal: *equivalent*, since whatever the operation was for, another made durable
//!   before it was needed;
//! - the window is as long as the recording: what would have covered it is still to come, so nothing is *decided*;
//! - states in the window were left out by sampling: *missed*, unless one of the others breaks a property.

use std::time::Duration;

use super::{Exploration, now};
use crate::explore::level::{Ended, Walk};
use crate::explore::point::Point;
use crate::explore::record::{self, Recording};
use kvsim_drive::control::Control;
use kvsim_findings::error::CampaignError;
use kvsim_findings::summary::FailureReport;

/// What an operation is that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteKind {
    /// A flush.
    Flush,
    /// A write-through.
    WriteThrough,
}

/// An operation of a recording that may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Site {
    /// Its number among the operations of the device, from 0.
    pub op: u64,
    /// What it is.
    pub kind: SiteKind,
    /// World events before it.
    pub event: u64,
}

/// What became of a recording without it.
#[derive(Debug, Clone)]
pub enum SiteEnd {
    /// A property was violated.
    Caught(Box<FailureReport>),
    /// It makes no difference that a crash could show; why.
    Equivalent(String),
    /// The recording ends before anything else makes the same durable, and nothing is wrong by then.
    Undecided,
    /// Nothing is wrong in the states that were taken, and they were not all; why.
    Missed(String),
}

/// A site and its end.
#[derive(Debug, Clone)]
pub struct LeftOutSite {
    /// The site.
    pub site: Site,
    /// How it ended.
    pub end: SiteEnd,
    /// Crash points in its window.
    pub points: usize,
    /// States judged.
    pub states: u64,
    /// Real time.
    pub elapsed: Duration,
}

/// A recording with all its sites.
pub struct Sites {
    clean: Recording,
    sites: Vec<Site>,
}

impl Sites {
    /// The sites, in order.
    #[must_use]
    pub fn list(&self) -> &[Site] {
        &self.sites
    }
}

impl Exploration {
    /// Records the run that sites are left out of.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn sites(&self) -> Result<Sites, CampaignError> {
        let clean = self.recorded()?;
        let sites = sites(&clean.points);
        Ok(Sites { clean, sites })
    }

    pub(super) fn recorded(&self) -> Result<Recording, CampaignError> {
        let stopped = match record::record(&self.scenario, &self.program, self.seed) {
            Ok(recording) => return Ok(recording),
            Err(stopped) => stopped,
        };
        let what = match stopped {
            record::Stopped::Failed(failed) => return Err(self.error(failed)),
            record::Stopped::Found(found) => found.violation.to_string(),
            record::Stopped::Reported(what) => what,
        };
        Err(CampaignError::InvalidRun {
            scenario: self.scenario.name.clone(),
            seed: self.seed,
            what: format!("its recording fails without any crash: {what}"),
        })
    }

    /// Explores the window of a site.
    ///
    /// # Errors
    /// Something of ours went wrong; nothing is said about the site.
    pub fn leave_out(
        &self,
        sites: &Sites,
        site: Site,
        control: &Control,
    ) -> Result<LeftOutSite, CampaignError> {
        let began = now();
        let mut mutated = self.clone();
        let mut scenario = (*self.scenario).clone();
        scenario.faults.left_out = Some(site.op);
        scenario.explore.violations_max = 1;
        mutated.scenario = std::sync::Arc::new(scenario);
        let recording = mutated.recorded()?;
        let (window, ends) = window(&sites.clean.points, &recording.points);
        let mut walk = Walk::new(&mutated.scenario, control, self.jobs, self.seed);
        let walked = walk.points(&recording.process_run, &window);
        let sampled = walk.levels.iter().any(|level| level.left_out.sampled > 0);
        let states = walk.levels.iter().map(|level| level.checked).sum();
        let found = walk.found.into_iter().next();
        let end = match (walked, found) {
            (Err((_, Ended::Failed(failed))), _) => return Err(self.error(failed)),
            (_, Some(found)) => SiteEnd::Caught(Box::new(mutated.confirm(&found, 0, control)?)),
            (Err(_), None) => SiteEnd::Missed("interrupted".to_owned()),
            (Ok(_), None) if window.is_empty() => {
                SiteEnd::Equivalent("nothing was pending".to_owned())
            }
            (Ok(_), None) if sampled => SiteEnd::Missed("not all states were taken".to_owned()),
            (Ok(_), None) => match ends {
                Some(event) => SiteEnd::Equivalent(format!(
                    "covered at event {event}; all {states} states before that are legal"
                )),
                None => SiteEnd::Undecided,
            },
        };
        Ok(LeftOutSite {
            site,
            end,
            points: window.len(),
            states,
            elapsed: began.elapsed(),
        })
    }
}

/// The flushes and write-throughs that were submitted between one point and the next.
fn sites(points: &[Point]) -> Vec<Site> {
    let mut sites = Vec::new();
    let (mut flushes, mut throughs) = (0, 0);
    for point in points {
        let Some(device) = point.moment.storage().device() else {
            continue;
        };
        let stats = device.stats();
        let kind = if stats.flushes > flushes {
            Some(SiteKind::Flush)
        } else {
            (stats.write_throughs > throughs).then_some(SiteKind::WriteThrough)
        };
        (flushes, throughs) = (stats.flushes, stats.write_throughs);
        // A submission is an event of its own, and it was the last one.
        sites.extend(kind.map(|kind| Site {
            op: device.ops() - 1,
            kind,
            event: point.event,
        }));
    }
    sites
}

/// The points at which a cut can leave something else than without the mutant, and the event after which it no longer can.
fn window(clean: &[Point], mutated: &[Point]) -> (Vec<Point>, Option<u64>) {
    let differs = |clean: &Point, mutated: &Point| {
        let pending = |point: &Point| point.moment.storage().pending_ids();
        pending(clean) != pending(mutated)
    };
    assert_eq!(clean.len(), mutated.len(), "the guest cannot tell");
    let pairs = || clean.iter().zip(mutated);
    let window: Vec<Point> = pairs()
        .filter(|(one, other)| differs(one, other))
        .map(|(_, other)| other.clone())
        .collect();
    let last = pairs().rposition(|(one, other)| differs(one, other));
    let ends = last.and_then(|last| mutated.get(last + 1));
    (window, ends.map(|point| point.event))
}
