//! Why a campaign or an exploration says nothing about the guest.

use kvsim_scenario::ScenarioError;

/// A run that says nothing about the guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// A worker panicked.
    #[error("internal error: scenario {scenario}, seed {seed}: kvsim panicked: {message}")]
    Panic {
        /// The scenario.
        scenario: String,
        /// The seed.
        seed: u64,
        /// The panic's message.
        message: String,
    },
    /// The same seed gave two different runs.
    #[error("internal error: scenario {scenario}, seed {seed} is not deterministic: {difference}")]
    Nondeterminism {
        /// The scenario.
        scenario: String,
        /// The seed.
        seed: u64,
        /// The first event that differs.
        difference: String,
    },
    /// The guest does not take what the scenario gives it: a wrong scenario, not a finding.
    #[error(
        "error: scenario {scenario}, seed {seed}: the guest does not take its configuration: {message}"
    )]
    Rejected {
        /// The scenario.
        scenario: String,
        /// The seed.
        seed: u64,
        /// What the guest says.
        message: String,
    },
    /// A seed of a scenario that varies draws nothing that fits together.
    #[error("{0}")]
    Drawn(#[from] ScenarioError),
    /// There are fewer seeds than parts.
    #[error("error: scenario {scenario}: {seeds} seeds are too few for {shards} shards")]
    TooFewSeeds {
        /// The scenario.
        scenario: String,
        /// How many seeds there are.
        seeds: u64,
        /// How many parts were asked for.
        shards: u64,
    },
    /// The host failed, so the run is not valid.
    #[error("internal error: scenario {scenario}, seed {seed}: {what}")]
    InvalidRun {
        /// The scenario.
        scenario: String,
        /// The seed.
        seed: u64,
        /// What failed.
        what: String,
    },
}

impl CampaignError {
    /// Whether what was asked for is wrong, and not kvsim.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            CampaignError::Rejected { .. }
                | CampaignError::Drawn(_)
                | CampaignError::TooFewSeeds { .. }
        )
    }
}
