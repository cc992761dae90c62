//! Violations of one kind: after the first few they are met and do not count, so that they do not hide those of another kind.

use kvsim_oracle::{Property, Symptom};

use super::found::Found;

/// What makes two violations alike: property, symptom, and whether a request had been sent.
type Kind = (Property, Symptom, bool);

/// How many violations were met of each kind.
#[derive(Debug, Default)]
pub struct Alike(Vec<(Kind, u64)>);

impl Alike {
    /// Whether a violation counts; at most so many of a kind do.
    pub fn counts(&mut self, found: &Found, max: u64) -> bool {
        let violation = &found.violation;
        let has_requests = found.case.requests() > 0;
        let kind = (violation.property, violation.symptom, has_requests);
        let at = self.0.iter().position(|(other, _)| *other == kind);
        let at = at.unwrap_or_else(|| {
            self.0.push((kind, 0));
            self.0.len() - 1
        });
        self.0[at].1 += 1;
        self.0[at].1 <= max
    }
}
