//! What reads and recoveries have shown of writes that are not settled yet.

use crate::history::{Fate, History, KeyState, NEVER, Pos, Version, WriteStatus};
use crate::keys::{Content, KeyId};
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

    /// Keeps the writes since the base as such, although a recovery was judged: those that it did not show are gone for good, and of the
    /// others it is known that they are there. `gone`: the write cannot have taken effect. `there`: it must have.
    pub(crate) fn keep_shown(
        &mut self,
        ops: u64,
        gone: impl Fn(&History, Pos) -> bool,
        there: impl Fn(&History, Pos) -> bool,
    ) {
        let base = self.base_pos;
        for pos in self.positions().filter(|pos| *pos > base) {
            let Some(write) = self.write(pos) else {
                continue;
            };
            let (status, origin) = (write.status, write.origin);
            if matches!(status, WriteStatus::Failed | WriteStatus::Dead) {
                continue;
            }
            let (is_gone, is_there) = (gone(self, pos), there(self, pos));
            for key in self.keys_of(pos).to_vec() {
                let state = Arc::make_mut(&mut self.states[key as usize]);
                let Some(at) = state.versions.iter().position(|version| version.pos == pos) else {
                    continue;
                };
                if is_gone {
                    let version = state.versions.remove(at);
                    state.retire(version.content, Some(origin), Fate::Dead);
                } else {
                    let version = state.versions[at];
                    let optional = version.optional && !is_there;
                    state.versions[at] = Version::new(pos, version.content, optional);
                }
            }
            if is_gone || is_there {
                self.uncertain.retain(|uncertain| *uncertain != pos);
            }
            let write = self.write_mut(pos);
            write.ended_op = write.ended_op.min(ops);
            write.status = match status {
                _ if is_gone => WriteStatus::Dead,
                WriteStatus::Pending | WriteStatus::Uncertain => WriteStatus::Kept,
                acknowledged => acknowledged,
            };
        }
    }
}
