//! From "this is no legal state" to the property that broke and a sentence that a person understands.

use super::misfit::Misfit;
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
use std::collections::BTreeSet;

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
        let status = |pos: Pos| self.history.write(pos).map(|write| write.status);
        let promised = |pos: Pos| status(pos) == Some(WriteStatus::Durable);
        let is_acknowledged = |pos: &&Pos| {
            let status = status(**pos);
            matches!(status, Some(WriteStatus::Durable | WriteStatus::Relaxed))
        };
        let keys: BTreeSet<KeyId> = lost
            .iter()
            .flat_map(|&pos| self.history.keys_of(pos).iter().copied())
            .collect();
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
            keys_wrong: keys.len() as u64,
            acknowledged_lost: lost.iter().filter(is_acknowledged).count() as u64,
            ..key.map_or_else(
                || self.facts(),
                |key| self.facts_of(key, Some(write.origin)),
            )
        };
        Violation::new(self.under(truth, property), symptom, sentence, facts)
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
}
