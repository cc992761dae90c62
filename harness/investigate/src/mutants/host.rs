//! Mutants of the host: each flush and each write-through of a recording left out in turn, on the engine as it is. See
//! [`kvsim_search::exploration::left_out`] for what becomes of one.

use std::num::NonZeroUsize;
use std::sync::Arc;

use kvsim_sim::Program;

use super::catalogue::Trial;
use kvsim_drive::control::Control;
use kvsim_findings::error::CampaignError;
use kvsim_search::exploration::Exploration;
use kvsim_search::exploration::left_out::{LeftOutSite, SiteEnd};

/// All sites of one scenario.
#[derive(Debug, Clone)]
pub struct HostReport {
    /// The scenario.
    pub scenario: &'static str,
    /// Its flushes and write-throughs, in order.
    pub sites: Vec<LeftOutSite>,
    /// It was interrupted before all of them were left out.
    pub interrupted: bool,
}

impl HostReport {
    /// Sites whose end is of this kind.
    pub fn count(&self, is: impl Fn(&SiteEnd) -> bool) -> usize {
        self.sites.iter().filter(|site| is(&site.end)).count()
    }

    /// Sites of which it is not known that leaving them out makes no difference, and that nobody noticed.
    pub fn missed(&self) -> impl Iterator<Item = &LeftOutSite> {
        let missed = |site: &&LeftOutSite| matches!(site.end, SiteEnd::Missed(_));
        self.sites.iter().filter(missed)
    }
}

/// Leaves out each site of a scenario in turn.
///
/// # Errors
/// Something of ours went wrong.
pub fn leave_out_each(
    trial: &Trial,
    program: &Arc<dyn Program>,
    jobs: NonZeroUsize,
    control: &Control,
    mut done: impl FnMut(&LeftOutSite),
) -> Result<HostReport, CampaignError> {
    let mut scenario = trial.load();
    // A window holds few states: each of them is worked on and cut once more.
    scenario.explore.again_every = 1;
    let exploration = Exploration {
        seed: scenario.run.seeds.start,
        scenario: Arc::new(scenario),
        program: Arc::clone(program),
        jobs,
        shard: None,
        strict: false,
        failures: None,
        skip_seen: true,
        minimise: false,
    };
    let sites = exploration.sites()?;
    let mut report = HostReport {
        scenario: trial.name,
        sites: Vec::new(),
        interrupted: false,
    };
    for site in sites.list() {
        let left_out = exploration.leave_out(&sites, *site, control)?;
        if control.stopped().is_some() {
            report.interrupted = true;
            break;
        }
        done(&left_out);
        report.sites.push(left_out);
    }
    Ok(report)
}
