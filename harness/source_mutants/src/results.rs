//! The outcome of each mutation, a line of JSON each, in a file that is only appended to. So a run can be stopped and
//! continued.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::hunt::Outcome;
use crate::mutation::Mutation;

/// One outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The mutation's key.
    pub key: String,
    /// File, line and column.
    pub place: String,
    /// What became of it.
    pub outcome: Outcome,
    /// Processor time in seconds.
    pub seconds: f64,
    /// The time that it was given, in seconds.
    pub limit_seconds: u64,
}

/// All outcomes so far, by key; of several, the last.
#[derive(Debug, Default)]
pub struct Results(pub BTreeMap<String, Record>);

impl Results {
    /// Reads a file; nothing if there is none. A line that was cut short is passed over.
    #[must_use]
    pub fn load(file: &Path) -> Results {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let records = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Record>(line).ok());
        Results(records.map(|record| (record.key.clone(), record)).collect())
    }

    /// Whether this mutation still has to be run when each gets so many seconds.
    #[must_use]
    pub fn wants(&self, mutation: &Mutation, seconds: u64) -> bool {
        match self.0.get(&mutation.key()) {
            None => true,
            Some(record) => match record.outcome {
                Outcome::Survived | Outcome::Inconclusive { .. } => record.limit_seconds < seconds,
                _ => false,
            },
        }
    }
}

/// Appends one outcome.
///
/// # Errors
/// The file cannot be written.
pub fn append(file: &Path, record: &Record) -> std::io::Result<()> {
    let mut out: File = OpenOptions::new().create(true).append(true).open(file)?;
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    out.write_all(line.as_bytes())
}

/// A sample of so many mutations, the same for the same seed however the others change; in the order in which they are drawn.
#[must_use]
pub fn sample<'a>(mutations: &[&'a Mutation], count: usize, seed: u64) -> Vec<&'a Mutation> {
    let mut drawn: Vec<&Mutation> = mutations.to_vec();
    drawn.sort_by_key(|mutation| xxh3_64_with_seed(mutation.key().as_bytes(), seed));
    drawn.truncate(count);
    drawn
}
