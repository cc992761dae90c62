//! Which of a guest's coverage points were reached, how often, and which never: whether what was crashed has come to where crashes hurt.
//!
//! Invariant: the counts follow from what was run, not from the number of threads or of machines that ran it.

use kvsim_sim::Program;
use serde::{Deserialize, Serialize};

/// `[coverage]` of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoverageConfig {
    /// Coverage points that this scenario cannot reach, so that nobody waits for them.
    pub unreachable: Vec<String>,
}

/// How often each coverage point was reached, by the guest's numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoverageCounts(Vec<u64>);

impl CoverageCounts {
    /// Adds counts by number, such as those of a world.
    pub fn add(&mut self, counts: &[u64]) {
        if self.0.len() < counts.len() {
            self.0.resize(counts.len(), 0);
        }
        for (sum, count) in self.0.iter_mut().zip(counts) {
            *sum += count;
        }
    }

    /// Adds other counts.
    pub fn add_all(&mut self, other: &CoverageCounts) {
        self.add(&other.0);
    }

    fn of(&self, number: usize) -> u64 {
        self.0.get(number).copied().unwrap_or(0)
    }
}

/// A coverage point and how often it was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveragePoint {
    /// Its name.
    pub name: String,
    /// How often: by all seeds of a run, or by the states of an exploration.
    pub reached: u64,
    /// How often by the run that an exploration recorded, before any plug was pulled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recorded: u64,
    /// The scenario says that it cannot be reached.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unreachable: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl CoveragePoint {
    /// Whether it should have been reached and was not.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        self.reached + self.recorded == 0 && !self.unreachable
    }
}

/// All coverage points of a guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage {
    /// In the guest's order.
    pub coverage_points: Vec<CoveragePoint>,
}

impl Coverage {
    /// What these counts mean of this guest, in a scenario that says this.
    #[must_use]
    pub fn new(
        program: &dyn Program,
        config: &CoverageConfig,
        reached: &CoverageCounts,
        recorded: &CoverageCounts,
    ) -> Coverage {
        let coverage_points = program
            .coverage_points()
            .iter()
            .enumerate()
            .map(|(number, name)| CoveragePoint {
                name: name.clone(),
                reached: reached.of(number),
                recorded: recorded.of(number),
                unreachable: config.unreachable.contains(name),
            });
        Coverage {
            coverage_points: coverage_points.collect(),
        }
    }

    /// Adds what another part of the same exploration reached; the recording is the same for all parts.
    ///
    /// # Errors
    /// The parts are of guests with other coverage points, or of other recordings.
    pub fn add(&mut self, other: &Coverage) -> Result<(), String> {
        let same = self.coverage_points.len() == other.coverage_points.len()
            && self
                .coverage_points
                .iter()
                .zip(&other.coverage_points)
                .all(|(one, other)| {
                    (&one.name, one.recorded, one.unreachable)
                        == (&other.name, other.recorded, other.unreachable)
                });
        if !same {
            return Err("its parts differ in the coverage points of their guests".to_owned());
        }
        for (sum, coverage_point) in self.coverage_points.iter_mut().zip(&other.coverage_points) {
            sum.reached += coverage_point.reached;
        }
        Ok(())
    }

    /// How many were reached.
    #[must_use]
    pub fn reached(&self) -> usize {
        let reached =
            |coverage_point: &&CoveragePoint| coverage_point.reached + coverage_point.recorded > 0;
        self.coverage_points.iter().filter(reached).count()
    }

    /// Those that should have been reached and were not.
    pub fn missed(&self) -> impl Iterator<Item = &str> {
        self.coverage_points
            .iter()
            .filter(|coverage_point| coverage_point.is_missed())
            .map(|coverage_point| coverage_point.name.as_str())
    }

    /// Why it is not enough for whoever is strict, if it is not.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let missed: Vec<&str> = self.missed().collect();
        (!missed.is_empty()).then(|| format!("never reached: {}", missed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(counts: &[(&str, u64, u64, bool)]) -> Coverage {
        let coverage_points =
            counts
                .iter()
                .map(|(name, reached, recorded, unreachable)| CoveragePoint {
                    name: (*name).to_owned(),
                    reached: *reached,
                    recorded: *recorded,
                    unreachable: *unreachable,
                });
        Coverage {
            coverage_points: coverage_points.collect(),
        }
    }

    /// Goal: a coverage point is missed if nothing reached it and nobody said that nothing can. Method: one of each kind.
    #[test]
    fn only_what_was_expected_is_missed() {
        let all = coverage(&[
            ("a", 3, 0, false),
            ("b", 0, 1, false),
            ("c", 0, 0, true),
            ("d", 0, 0, false),
        ]);
        assert_eq!(all.missed().collect::<Vec<_>>(), ["d"]);
        assert_eq!(all.reached(), 2);
        assert_eq!(all.shortfall().as_deref(), Some("never reached: d"));
        assert_eq!(coverage(&[("a", 1, 0, false)]).shortfall(), None);
    }

    /// Goal: parts add up, and the recording that each of them made counts once. Method: two parts; then parts that do not belong
    /// together.
    #[test]
    fn parts_add_up() {
        let mut one = coverage(&[("a", 1, 2, false), ("b", 0, 0, false)]);
        let other = coverage(&[("a", 4, 2, false), ("b", 1, 0, false)]);
        one.add(&other).expect("they belong together");
        assert_eq!(one, coverage(&[("a", 5, 2, false), ("b", 1, 0, false)]));
        assert!(one.add(&coverage(&[("a", 4, 2, false)])).is_err());
        assert!(
            one.add(&coverage(&[("a", 4, 3, false), ("b", 1, 0, false)]))
                .is_err()
        );
    }

    /// Goal: counts of worlds that know of coverage points up to different numbers add up. Method: a short one, then a long one.
    #[test]
    fn counts_of_any_length_add_up() {
        let mut sum = CoverageCounts::default();
        sum.add(&[1]);
        sum.add(&[1, 0, 5]);
        sum.add(&[]);
        assert_eq!(sum, CoverageCounts(vec![2, 0, 5]));
    }
}
