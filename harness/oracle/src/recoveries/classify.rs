//! From "this is no legal state" to the property that broke and a sentence that a person understands.

use super::must_survive::{Because, RequiredPrefix};
use super::observation::{Observation, Problem, Seen, Strange};
use super::recovery::Fit;
use crate::history::{Fate, Pos, Retired, WriteStatus};
use crate::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::property::Property;
use crate::symptoms::{strange, symptom_of};
use crate::truth::DeviceTruth;
use crate::violation::{Facts, Symptom, Violation};
use crate::words::{acknowledged, at};
use kvsim_api::key::printable;

/// A key that the nearest legal state does not explain, and what that says of a write.
struct Misfit {
    key: KeyId,
    property: Property,
    symptom: Symptom,
    /// The write that is missing, or is there and should not be.
    write: Pos,
    /// Another write or key that makes it a contradiction, in words.
    against: String,
}

impl Oracle {
    /// Silent loss under lies is damage that should have been reported.
    fn under(&self, truth: &DeviceTruth, property: Property) -> Property {
        if truth.lies() > 0 {
            Property::DamageReported
        } else {
            property
        }
    }

    pub(crate) fn problem(&self, problem: &Problem, truth: &DeviceTruth) -> Box<Violation> {
        let when = self.when();
        match problem {
            Problem::Differ {
                key,
                first: (one, shown),
                second: (other, but),
            } => {
                let key = printable(key);
                let sentence = format!(
                    "{when}, {one} shows {shown} for key {key} and {other} shows {but}, with no write between"
                );
                let facts = Facts {
                    key: Some(key),
                    expected: Some(shown.clone()),
                    found: Some(but.clone()),
                    ..self.facts()
                };
                let property = if truth.damage() > 0 {
                    Property::DamageReported
                } else {
                    Property::ReadsAgree
                };
                Violation::new(property, Symptom::ReadsDiffer, sentence, facts)
            }
            Problem::Malformed { what } => Violation::new(
                Property::ReadsAgree,
                Symptom::MalformedScan,
                format!("{when}, {what}"),
                self.facts(),
            ),
            Problem::Refused { what } => Violation::new(
                Property::NoFalseRefusal,
                Symptom::FalseRefusal,
                what.clone(),
                self.facts(),
            ),
            Problem::WrongReply { what } => Violation::new(
                Property::GuestBehaves,
                Symptom::WrongReply,
                what.clone(),
                self.facts(),
            ),
        }
    }

    pub(crate) fn strange_after_recovery(
        &self,
        found: &Strange,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let (mut property, symptom) = strange(found, truth, Property::AcknowledgedDurable);
        if symptom == Symptom::UnknownKey && property == Property::AcknowledgedDurable {
            property = Property::Prefix;
        }
        // A write cut short that nobody was promised is a write that is neither there nor not there.
        if symptom == Symptom::ResizedValue && truth.lies() == 0 && !self.was_acknowledged(found) {
            property = Property::AtomicWrites;
        }
        let key = printable(&found.key);
        let shown = self.describe_strange(found);
        let sentence = if found.unknown_key {
            format!(
                "{}, there is a key {key} that no client ever wrote, with {shown}",
                self.when()
            )
        } else {
            format!("{}, key {key} holds {shown}", self.when())
        };
        let facts = Facts {
            key: Some(key),
            found: Some(shown),
            keys_wrong: 1,
            ..self.facts()
        };
        Violation::new(property, symptom, sentence, facts)
    }

    /// Whether the newest write of this key that the guest may have cut short was acknowledged.
    fn was_acknowledged(&self, found: &Strange) -> bool {
        let Some(key) = self.history.keys.get(&found.key) else {
            return false;
        };
        let pending = |version: &crate::history::Version| {
            let write = self.history.write(version.pos);
            write.is_some_and(|write| {
                matches!(write.status, WriteStatus::Pending | WriteStatus::Uncertain)
            })
        };
        !self.history.state(key).versions().iter().any(pending)
    }

    /// A key that no write touched since the base shows something else than the base.
    pub(crate) fn untouched_differs(
        &self,
        key: KeyId,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let state = self.history.state(key);
        let content = seen.content(key).unwrap_or(Content::ABSENT);
        let expected = state.certain_at(self.history.base_pos);
        let origin = self.history.origin_of(key, expected);
        if let Some(retired) = state
            .retired(content)
            .filter(|retired| retired.fate != Fate::Replaced)
        {
            return self.retired_is_back(key, content, retired, truth);
        }
        let (symptom, what) = match expected.is_absent() {
            _ if content.is_absent() => (Symptom::TakenBack, "is gone".to_owned()),
            true => (
                Symptom::DeletedKeyBack,
                format!("is back with {}", self.describe(key, content)),
            ),
            false => (
                Symptom::StaleValue,
                format!("is back at {}", self.describe(key, content)),
            ),
        };
        let due = match origin {
            Some(origin) if expected.is_absent() => {
                format!("its deletion ({})", acknowledged(&origin))
            }
            Some(origin) => format!(
                "{} ({})",
                self.describe(key, expected),
                acknowledged(&origin)
            ),
            None => self.describe(key, expected),
        };
        let sentence = format!(
            "{}, key {} {what}, although an earlier recovery had shown {due} and nothing was written to it since",
            self.when(),
            self.key_name(key)
        );
        let facts = Facts {
            expected: Some(self.describe(key, expected)),
            found: Some(self.describe(key, content)),
            keys_wrong: 1,
            ..self.facts_of(key, origin)
        };
        Violation::new(
            self.under(truth, Property::NoResurrection),
            symptom,
            sentence,
            facts,
        )
    }

    /// Explains an observation that no legal prefix explains.
    pub(crate) fn classify(
        &self,
        fit: &Fit,
        required: RequiredPrefix,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        if let Some(violation) = self.retired_back(seen, truth) {
            return violation;
        }
        if let Some(prefix) = fit.perfect(fit.low).next() {
            if prefix >= required.pos {
                return self.half_applied(prefix, seen, truth);
            }
            return self.lost_suffix(prefix, required, truth);
        }
        let prefix = fit.best();
        let keys = (0..).take(seen.table.len());
        let misfits: Vec<Misfit> = keys
            .filter_map(|key| self.misfit(key, prefix, required, seen))
            .collect();
        // What says most about the cause first: half a batch, then what came back, then what is lost, then a mere hole.
        let rank = |misfit: &Misfit| match misfit.property {
            Property::AtomicWrites => 0,
            Property::NoResurrection => 1,
            Property::Prefix => 3,
            _ => 2,
        };
        let Some(worst) = misfits.iter().min_by_key(|misfit| rank(misfit)) else {
            return self.lost_suffix(prefix, required, truth);
        };
        let write = self.history.write(worst.write);
        let origin = write.map(|write| write.origin);
        let what = match worst.symptom {
            Symptom::Hole if worst.write > prefix => "is there",
            Symptom::PartialBatch => "is there in part",
            _ => "is missing",
        };
        let found = self.describe(
            worst.key,
            seen.content(worst.key).unwrap_or(Content::ABSENT),
        );
        let key = self.key_name(worst.key);
        let sentence = format!(
            "{}, the write of key {key} ({}) {what}: the key holds {found}, {}",
            self.when(),
            origin.map_or_else(String::new, |origin| acknowledged(&origin)),
            worst.against
        );
        let facts = Facts {
            expected: Some(
                self.describe(worst.key, self.history.state(worst.key).certain_at(prefix)),
            ),
            found: Some(found),
            keys_wrong: misfits.len() as u64,
            acknowledged_lost: misfits
                .iter()
                .filter(|misfit| misfit.symptom == Symptom::LostWrite)
                .count() as u64,
            ..self.facts_of(worst.key, origin)
        };
        Violation::new(
            self.under(truth, worst.property),
            worst.symptom,
            sentence,
            facts,
        )
    }

    /// A content that was gone for good before the base, or that a refused write would have left.
    pub(crate) fn retired_back(
        &self,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Option<Box<Violation>> {
        (0..).take(seen.table.len()).find_map(|key| {
            let Seen::Holds(content) = seen.seen(key) else {
                return None;
            };
            let state = self.history.state(key);
            let retired = state.retired(content).filter(|_| !state.knows(content))?;
            Some(self.retired_is_back(key, content, retired, truth))
        })
    }

    fn retired_is_back(
        &self,
        key: KeyId,
        content: Content,
        retired: &Retired,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let (property, why) = match retired.fate {
            Fate::Failed => (
                Property::Prefix,
                "whose write the guest had refused for certain",
            ),
            Fate::Dead => (
                Property::NoResurrection,
                "which an earlier recovery had not shown",
            ),
            Fate::Replaced => (
                Property::NoResurrection,
                "which was overwritten or deleted before the last recovery",
            ),
        };
        let found = self.describe(key, content);
        let sentence = format!(
            "{}, key {} holds {found}, {why}",
            self.when(),
            self.key_name(key)
        );
        let facts = Facts {
            found: Some(found),
            keys_wrong: 1,
            ..self.facts_of(key, retired.origin)
        };
        Violation::new(
            self.under(truth, property),
            symptom_of(retired.fate),
            sentence,
            facts,
        )
    }

    /// A batch that failed, and so may be missing as a whole, is missing in part.
    fn half_applied(&self, prefix: Pos, seen: &Observation, truth: &DeviceTruth) -> Box<Violation> {
        let batches = self.uncertain_batches(prefix);
        // Keys that can only be as they are if the batch took effect, or did not.
        let proof = |batch: Pos, applied: bool| {
            let opposite = move |pos: Pos| (pos == batch).then_some(!applied);
            self.history
                .keys_of(batch)
                .iter()
                .copied()
                .find(|&key| !self.explains(key, prefix, seen, opposite))
        };
        let proven = batches
            .iter()
            .find_map(|&batch| Some((batch, proof(batch, true)?, proof(batch, false)?)));
        let Some(batch) = proven.map(|(batch, ..)| batch).or(batches.first().copied()) else {
            return self.lost_suffix(
                prefix,
                RequiredPrefix {
                    pos: prefix,
                    because: Because::Shown,
                },
                truth,
            );
        };
        let origin = self.history.write(batch).map(|write| write.origin);
        let op = origin.map_or(0, |origin| origin.op);
        let how = match proven {
            Some((_, there, missing)) => {
                format!(
                    "key {} shows it and key {} does not",
                    self.key_name(there),
                    self.key_name(missing)
                )
            }
            None => "neither with it nor without it can its keys be as they are".to_owned(),
        };
        let key =
            proven
                .map(|(_, _, missing)| missing)
                .or(self.history.keys_of(batch).first().copied());
        let facts = key.map_or_else(|| self.facts(), |key| self.facts_of(key, origin));
        let sentence = format!(
            "{}, the failed batch of op {op} is there in part: {how}",
            self.when()
        );
        Violation::new(
            self.under(truth, Property::AtomicWrites),
            Symptom::PartialBatch,
            sentence,
            Facts {
                keys_wrong: 1,
                ..facts
            },
        )
    }

    /// The state is a prefix, but one that ends before what was promised.
    fn lost_suffix(
        &self,
        prefix: Pos,
        required: RequiredPrefix,
        truth: &DeviceTruth,
    ) -> Box<Violation> {
        let lost: Vec<Pos> = (prefix + 1..=required.pos)
            .filter(|&pos| self.changes_anything(pos))
            .collect();
        let promised = |pos: Pos| {
            self.history
                .write(pos)
                .is_some_and(|write| write.status == WriteStatus::Durable)
        };
        let durable = lost.iter().filter(|&&pos| promised(pos)).count() as u64;
        let first = lost
            .iter()
            .copied()
            .find(|&pos| promised(pos))
            .or(lost.first().copied())
            .unwrap_or(required.pos);
        let Some(write) = self.history.write(first) else {
            let sentence = format!("{}, the state is older than the one before it", self.when());
            return Violation::new(
                self.under(truth, Property::NoResurrection),
                Symptom::TakenBack,
                sentence,
                self.facts(),
            );
        };
        let key = self.history.keys_of(first).first().copied();
        let only_deletes = !lost.is_empty()
            && lost.iter().all(|&pos| {
                self.history
                    .keys_of(pos)
                    .iter()
                    .all(|&key| self.left_by(key, pos).is_absent())
            });
        let (property, symptom) = if only_deletes {
            (Property::NoResurrection, Symptom::DeletedKeyBack)
        } else {
            (self.lost_property(first), Symptom::LostWrite)
        };
        let because = match required.because {
            _ if promised(first) && write.unflushed => {
                " without any flush since it was handed in".to_owned()
            }
            _ if promised(first) => String::new(),
            Because::Sync(ns, op) => {
                format!(", and made durable by op {op}, acknowledged at {}", at(ns))
            }
            Because::Write | Because::Shown => ", and covered by a later promise".to_owned(),
        };
        let name = key.map_or_else(String::new, |key| {
            format!("the write of key {}", self.key_name(key))
        });
        let deleted = if only_deletes {
            "its key is back"
        } else {
            "it is lost"
        };
        let more = match lost.len() {
            0 | 1 => String::new(),
            2 => ", with one write after it".to_owned(),
            len => format!(", with {} writes after it", len - 1),
        };
        let sentence = format!(
            "{name} ({}{because}) did not survive crash {}: {deleted}{more}",
            acknowledged(&write.origin),
            self.crashes
        );
        let facts = Facts {
            expected: key.map(|key| self.describe(key, self.left_by(key, first))),
            keys_wrong: lost.len() as u64,
            acknowledged_lost: durable,
            ..key.map_or_else(
                || self.facts(),
                |key| self.facts_of(key, Some(write.origin)),
            )
        };
        Violation::new(self.under(truth, property), symptom, sentence, facts)
    }

    /// What a write left a key with.
    fn left_by(&self, key: KeyId, pos: Pos) -> Content {
        let mut versions = self.history.state(key).versions().iter();
        versions
            .find(|version| version.pos == pos)
            .map_or(Content::ABSENT, |version| version.content)
    }

    fn changes_anything(&self, pos: Pos) -> bool {
        self.history.keys_of(pos).iter().any(|&key| {
            let state = self.history.state(key);
            state.versions().iter().any(|version| version.pos == pos)
                && state.certain_at(pos) != state.certain_at(pos - 1)
        })
    }

    /// The property that the loss of an acknowledged write breaks: the first process run's is plain, a later one's means
    /// that the recovery before it left something behind, unless the guest never even flushed it.
    pub(crate) fn lost_property(&self, pos: Pos) -> Property {
        match self.history.write(pos) {
            Some(write) if write.origin.crashes > 0 && !write.unflushed => {
                Property::WorkAfterRecovery
            }
            _ => Property::AcknowledgedDurable,
        }
    }

    /// What is wrong with a key, held against the nearest prefix.
    fn misfit(
        &self,
        key: KeyId,
        prefix: Pos,
        required: RequiredPrefix,
        seen: &Observation,
    ) -> Option<Misfit> {
        let content = seen.content(key)?;
        let state = self.history.state(key);
        if state.allows(prefix, content) {
            return None;
        }
        let newer = state
            .versions()
            .iter()
            .find(|version| version.pos > prefix && version.content == content);
        if let Some(newer) = newer {
            let write = newer.pos;
            let missing = self
                .history
                .keys_of(write)
                .iter()
                .copied()
                .find(|&other| self.lacks(other, write, seen));
            if let Some(other) = missing {
                let against = format!(
                    "but key {} of the same batch does not show it",
                    self.key_name(other)
                );
                return Some(Misfit {
                    key,
                    property: Property::AtomicWrites,
                    symptom: Symptom::PartialBatch,
                    write,
                    against,
                });
            }
            let absent = (prefix + 1..write).find(|&pos| {
                self.history
                    .keys_of(pos)
                    .iter()
                    .any(|&other| self.lacks(other, pos, seen))
            });
            let against = match absent.and_then(|pos| self.history.write(pos)) {
                Some(before) => format!(
                    "although op {}, handed in before it, is not",
                    before.origin.op
                ),
                None => "although writes before it are not".to_owned(),
            };
            return Some(Misfit {
                key,
                property: Property::Prefix,
                symptom: Symptom::Hole,
                write,
                against,
            });
        }
        let older = state
            .versions()
            .iter()
            .rev()
            .find(|version| version.pos <= prefix && version.content == content);
        let shown = older.map_or(self.history.base_pos, |version| version.pos);
        let mut skipped = state
            .versions()
            .iter()
            .filter(|version| version.pos > shown && version.pos <= prefix && !version.optional);
        let missing = skipped.next()?;
        let write = missing.pos;
        let mut others = self
            .history
            .keys_of(write)
            .iter()
            .copied()
            .filter(|&other| other != key);
        if let Some(other) = others.find(|&other| {
            !self.left_by(other, write).is_absent()
                && seen.content(other) == Some(self.left_by(other, write))
        }) {
            let against = format!(
                "but key {} of the same batch shows it",
                self.key_name(other)
            );
            return Some(Misfit {
                key,
                property: Property::AtomicWrites,
                symptom: Symptom::PartialBatch,
                write,
                against,
            });
        }
        let later = "although later writes are there".to_owned();
        let (property, symptom) = if write > required.pos {
            (Property::Prefix, Symptom::Hole)
        } else if missing.content.is_absent() {
            (Property::NoResurrection, Symptom::DeletedKeyBack)
        } else if !content.is_absent() && skipped.next().is_some() {
            (Property::NoResurrection, Symptom::StaleValue)
        } else {
            (self.lost_property(write), Symptom::LostWrite)
        };
        Some(Misfit {
            key,
            property,
            symptom,
            write,
            against: later,
        })
    }

    /// Whether a key shows something older than the write at `pos`.
    fn lacks(&self, key: KeyId, pos: Pos, seen: &Observation) -> bool {
        let Some(content) = seen.content(key) else {
            return false;
        };
        let state = self.history.state(key);
        !state
            .versions()
            .iter()
            .any(|version| version.pos >= pos && version.content == content)
    }
}
