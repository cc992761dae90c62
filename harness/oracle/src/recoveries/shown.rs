//! What reads and recoveries have shown of writes that are not certain yet.

use crate::history::{Fate, History, KeyState, NEVER, Pos, Version, WriteStatus};
use crate::keys::{Content, KeyId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl History {
    /// A read that was answered after so many requests were handed in has shown this write: it is there with all its keys.
    pub(crate) fn see(&mut self, key: KeyId, content: Content, pos: Pos, ops: u64) {
        let mark = |state: &mut Arc<KeyState>, is_it: &dyn Fn(&Version) -> bool| {
            let is_new = |version: &Version| version.seen_at > ops && is_it(version);
            if state.versions.iter().any(is_new) {
                let mut versions = Arc::make_mut(state).versions.iter_mut();
                if let Some(version) = versions.find(|version| is_new(version)) {
                    version.seen_at = ops;
                }
            }
        };
        let is_shown = |version: &Version| version.pos == pos && version.content == content;
        mark(&mut self.states[key as usize], &is_shown);
        if pos <= self.base_pos {
            return;
        }
        for key in self.keys_of(pos).to_vec() {
            mark(&mut self.states[key as usize], &|version| {
                version.pos == pos
            });
        }
    }

    /// Reads have shown a key with the content of `pos`, after others had shown these.
    pub(crate) fn replace(&mut self, key: KeyId, pos: Pos, began: u64, ops: u64) {
        let replaced = |version: &Version| {
            version.pos != pos && version.seen_at < began && version.replaced_at == NEVER
        };
        if self.state(key).versions.iter().any(replaced) {
            let state = Arc::make_mut(&mut self.states[key as usize]);
            for version in state
                .versions
                .iter_mut()
                .filter(|version| replaced(version))
            {
                version.replaced_at = ops;
            }
        }
    }

    /// Keeps the writes since the base as such, although a recovery was judged: it has told something of those behind `from`.
    pub(crate) fn keep_shown(
        &mut self,
        ops: u64,
        from: Pos,
        found: impl Fn(&History, Pos) -> Found,
    ) {
        for pos in self.positions().filter(|pos| *pos > from) {
            let Some(write) = self.write(pos) else {
                continue;
            };
            let (status, origin) = (write.status, write.origin);
            if matches!(status, WriteStatus::Failed | WriteStatus::Dead) {
                continue;
            }
            let found = found(self, pos);
            for key in self.keys_of(pos).to_vec() {
                let state = Arc::make_mut(&mut self.states[key as usize]);
                let Some(at) = state.versions.iter().position(|version| version.pos == pos) else {
                    continue;
                };
                let version = state.versions[at];
                let optional = match found {
                    Found::Gone => {
                        state.versions.remove(at);
                        state.retire(version.content, Some(origin), Fate::Dead);
                        continue;
                    }
                    Found::There => false,
                    Found::AsBefore => version.optional,
                    Found::InDoubt => true,
                };
                state.versions[at] = Version::new(pos, version.content, optional);
            }
            if matches!(found, Found::Gone | Found::There) {
                self.uncertain.retain(|uncertain| *uncertain != pos);
            }
            let write = self.write_mut(pos);
            write.ended_op = write.ended_op.min(ops);
            write.status = match (found, status) {
                (Found::Gone, _) => WriteStatus::Dead,
                (Found::InDoubt, _) => WriteStatus::Uncertain,
                (_, WriteStatus::Pending | WriteStatus::Uncertain) => WriteStatus::Kept,
                (_, acknowledged) => acknowledged,
            };
        }
    }

    /// A recovery has shown a key with this content: reads do not show what it had before any more.
    pub(crate) fn shown_last(&mut self, key: KeyId, content: Content, ops: u64) {
        let replaced =
            |version: &Version| version.content != content && version.replaced_at == NEVER;
        if self.state(key).versions.iter().any(replaced) {
            let state = Arc::make_mut(&mut self.states[key as usize]);
            for version in &mut state.versions {
                if replaced(version) {
                    version.replaced_at = ops;
                }
            }
        }
    }
}

/// What a recovery has shown of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It cannot have taken effect, and is gone for good.
    Gone,
    /// It took effect.
    There,
    /// It is within the prefix that was shown: it took effect, unless that was open before.
    AsBefore,
    /// It took effect and was replaced, or it did not.
    InDoubt,
}

/// What a recovery after a killed process has shown, if a power cut may take it back.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    /// The last write that was handed in before it; 0 if there was no such recovery since the base.
    pub(crate) pos: Pos,
    /// What keys held, where commits come in any order.
    pub(crate) contents: BTreeMap<KeyId, Content>,
    /// Of two writes that overlap, the first comes before the second if both are there, since the second was shown.
    pub(crate) order: BTreeSet<(Pos, Pos)>,
}

impl Shown {
    /// Feeds what judging in any order depends on.
    pub(crate) fn feed(&self, mut take: impl FnMut(u64)) {
        take(u64::from(self.pos));
        for (key, content) in &self.contents {
            take(u64::from(*key));
            take(content.number());
        }
        for (first, second) in &self.order {
            take(u64::from(*first));
            take(u64::from(*second));
        }
    }
}
