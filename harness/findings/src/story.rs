//! A failing run that was recorded, with what is known of its failure: what a page is drawn from.

use std::sync::Arc;

use kvsim_drive::timeline::Recording;
use kvsim_oracle::Facts;

/// A failure with all that is known of it.
#[derive(Debug, Clone)]
pub struct Story {
    /// The run that failed.
    pub recording: Arc<Recording>,
    /// What was expected and what came back.
    pub facts: Facts,
    /// The case as a scenario, with every field.
    pub scenario: String,
}
