//! What one key says of a write: held against the nearest prefix, which it does not fit.

use super::must_survive::RequiredPrefix;
use super::observation::Observation;
use crate::history::Pos;
use crate::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::property::Property;
use crate::violation::Symptom;

/// A key that the nearest legal state does not explain, and what that says of a write.
pub(super) struct Misfit {
    pub(super) key: KeyId,
    pub(super) property: Property,
    pub(super) symptom: Symptom,
    /// The write that is missing, or is there and should not be.
    pub(super) write: Pos,
    /// Another write or key that makes it a contradiction, in words.
    pub(super) against: String,
}

impl Oracle {
    /// What a write left a key with.
    pub(super) fn left_by(&self, key: KeyId, pos: Pos) -> Content {
        let mut versions = self.history.state(key).versions().iter();
        versions
            .find(|version| version.pos == pos)
            .map_or(Content::ABSENT, |version| version.content)
    }

    /// What is wrong with a key, held against the nearest prefix.
    pub(super) fn misfit(
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
