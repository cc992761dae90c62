//! What was asked of the guest and how it answered: the base state and the writes since.
//!
//! Writes have *positions* 1, 2, … in the order in which they were handed in, which is the commit order. The *base* is the state
//! that the last recovery showed; it stands at `base_pos`. A legal state after a crash is the base with the writes up to
//! some position applied, except that a write which failed with a device error may be missing from it.
//!
//! Without lies, a recovery folds all writes into the base and forgets their positions' contents. With lies a device may fall
//! back behind the base, so everything is kept (`keep_history`); positions then never end, and writes that a recovery did
//! not show are removed from their keys.

use super::keys::{Content, KeyId, KeyTable};
use super::shared::SharedList;
use kvsim_sim::api::{Durability, Status};
use kvsim_simdisk::Nanos;
use std::sync::Arc;

/// A place in the commit order; 0 is before all writes.
pub(crate) type Pos = u32;

/// An event that has not happened.
pub(crate) const NEVER: u64 = u64::MAX;

/// Contents that a key no longer has, kept to name them when they come back.
const RETIRED_PER_KEY: usize = 8;

/// What identifies a write to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) op: u64,
    pub(crate) client: u32,
    pub(crate) handed_in_ns: Nanos,
    pub(crate) acknowledged_ns: Option<Nanos>,
    /// Crashes that had happened when it was handed in.
    pub(crate) crashes: u64,
}

/// How far a write has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteStatus {
    /// Handed in and not answered, or never answered.
    Pending,
    /// Acknowledged as durable.
    Durable,
    /// Acknowledged as accepted.
    Relaxed,
    /// Failed in a way that leaves open whether it took effect.
    Uncertain,
    /// Known to have had no effect.
    Failed,
    /// Not acknowledged, but a recovery showed it.
    Kept,
    /// A recovery did not show it, so it must never be seen again.
    Dead,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteRecord {
    pub(crate) origin: Origin,
    pub(crate) status: WriteStatus,
    pub(crate) durability: Durability,
    /// The device made nothing durable between its hand-in and its acknowledgement.
    pub(crate) unflushed: bool,
    /// When a sync after it was acknowledged, if that was before the last recovery.
    pub(crate) synced_ns: Option<Nanos>,
    /// How many requests had been handed in when it was answered: those come before it, all others after. `NEVER` if it was not.
    pub(crate) ended_op: u64,
    /// Its keys, each once.
    keys: Arc<[KeyId]>,
}

/// A content that a key had or may have had from a position on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) pos: Pos,
    pub(crate) content: Content,
    /// It may be missing although later writes are there.
    pub(crate) optional: bool,
    /// How many requests had been handed in when a read first showed it; `NEVER` if none has.
    pub(crate) seen_at: u64,
    /// How many had been when a read showed another content that was handed in after a read had shown this one.
    pub(crate) replaced_at: u64,
}

impl Version {
    pub(crate) fn new(pos: Pos, content: Content, optional: bool) -> Version {
        Version {
            pos,
            content,
            optional,
            seen_at: NEVER,
            replaced_at: NEVER,
        }
    }
}

/// Why a content is gone for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A later write that survived replaced it.
    Replaced,
    /// A recovery did not show it.
    Dead,
    /// The guest refused it.
    Failed,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Retired {
    pub(crate) content: Content,
    pub(crate) origin: Option<Origin>,
    pub(crate) fate: Fate,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct KeyState {
    /// What it holds before all versions.
    base: Option<(Content, Origin)>,
    /// In the order of their positions.
    pub(crate) versions: Vec<Version>,
    retired: Vec<Retired>,
}

impl KeyState {
    pub(crate) fn base(&self) -> Content {
        self.base.map_or(Content::ABSENT, |(content, _)| content)
    }

    pub(crate) fn base_origin(&self) -> Option<Origin> {
        self.base.map(|(_, origin)| origin)
    }

    pub(crate) fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The versions up to a position, the newest first.
    pub(crate) fn back_from(&self, pos: Pos) -> impl Iterator<Item = &Version> {
        self.versions
            .iter()
            .rev()
            .skip_while(move |version| version.pos > pos)
    }

    /// What the key holds at `pos` if every optional write is missing.
    pub(crate) fn certain_at(&self, pos: Pos) -> Content {
        self.back_from(pos)
            .find(|version| !version.optional)
            .map_or_else(|| self.base(), |version| version.content)
    }

    /// Whether the key certainly holds nothing at `pos`.
    pub(crate) fn is_absent_at(&self, pos: Pos) -> bool {
        for version in self.back_from(pos) {
            if !version.content.is_absent() {
                return false;
            }
            if !version.optional {
                return true;
            }
        }
        self.base().is_absent()
    }

    /// Whether the key may hold `content` at `pos`.
    pub(crate) fn allows(&self, pos: Pos, content: Content) -> bool {
        self.allows_if(pos, content, |_| None)
    }

    /// The same, when of some optional writes it is supposed that they took effect or did not.
    pub(crate) fn allows_if(
        &self,
        pos: Pos,
        content: Content,
        supposed: impl Fn(Pos) -> Option<bool>,
    ) -> bool {
        for version in self.back_from(pos) {
            let applied = if version.optional {
                supposed(version.pos)
            } else {
                Some(true)
            };
            if applied != Some(false) && version.content == content {
                return true;
            }
            if applied == Some(true) {
                return false;
            }
        }
        self.base() == content
    }

    /// Whether the key may hold `content` at any position.
    pub(crate) fn knows(&self, content: Content) -> bool {
        self.base() == content
            || self
                .versions
                .iter()
                .any(|version| version.content == content)
    }

    pub(crate) fn retired(&self, content: Content) -> Option<&Retired> {
        self.retired
            .iter()
            .rev()
            .find(|retired| retired.content == content)
    }

    pub(crate) fn retire(&mut self, content: Content, origin: Option<Origin>, fate: Fate) {
        if content.is_absent() {
            return;
        }
        if self.retired.len() == RETIRED_PER_KEY {
            self.retired.remove(0);
        }
        self.retired.push(Retired {
            content,
            origin,
            fate,
        });
    }
}

/// Everything written since the base, and with `keep_history` everything ever written.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) keys: KeyTable,
    /// Like the writes shared between clones of an oracle, as far as nothing changes.
    pub(crate) states: Vec<Arc<KeyState>>,
    /// The write at position `first` + i.
    writes: SharedList<WriteRecord>,
    first: Pos,
    /// Keys with versions beyond `base_pos`, and those that the last recovery left open.
    touched: Vec<KeyId>,
    /// Writes since the base that are [`WriteStatus::Uncertain`].
    pub(crate) uncertain: Vec<Pos>,
    /// The position of what the last recovery showed.
    pub(crate) base_pos: Pos,
    keep: bool,
    /// A power cut may go back behind what a recovery has shown, so what is uncertain stays so under what was written over it.
    goes_back: bool,
}

impl History {
    pub(crate) fn new(keep: bool, goes_back: bool) -> Self {
        History {
            keys: KeyTable::default(),
            states: Vec::new(),
            writes: SharedList::default(),
            first: 1,
            touched: Vec::new(),
            uncertain: Vec::new(),
            base_pos: 0,
            keep,
            goes_back,
        }
    }

    pub(crate) fn keeps_all(&self) -> bool {
        self.keep
    }

    /// The position of the last write handed in.
    pub(crate) fn last_pos(&self) -> Pos {
        self.first + Pos::try_from(self.writes.len()).expect("fewer than 2^32 writes") - 1
    }

    pub(crate) fn write(&self, pos: Pos) -> Option<&WriteRecord> {
        self.writes.get(pos.checked_sub(self.first)? as usize)
    }

    pub(crate) fn write_mut(&mut self, pos: Pos) -> &mut WriteRecord {
        let at = (pos - self.first) as usize;
        self.writes.get_mut(at).expect("the write is still known")
    }

    /// The positions of all writes that are still known.
    pub(crate) fn positions(&self) -> impl DoubleEndedIterator<Item = Pos> + use<> {
        self.first..=self.last_pos()
    }

    /// The keys of a write, each once.
    pub(crate) fn keys_of(&self, pos: Pos) -> &[KeyId] {
        self.write(pos).map_or(&[], |write| &write.keys)
    }

    pub(crate) fn state(&self, key: KeyId) -> &KeyState {
        &self.states[key as usize]
    }

    pub(crate) fn touched(&self) -> &[KeyId] {
        &self.touched
    }

    /// The writes since the base that failed in a way that leaves open whether they took effect, as they were answered.
    pub(crate) fn uncertain(&self) -> &[Pos] {
        &self.uncertain
    }

    /// Keys that anything was ever written to.
    pub(crate) fn key_count(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn intern(&mut self, key: &[u8]) -> KeyId {
        let (id, new) = self.keys.intern(key);
        if new {
            self.states.push(Arc::default());
        }
        id
    }

    /// Whether the content of this version is still without an answer.
    pub(crate) fn is_pending(&self, version: &Version) -> bool {
        self.write(version.pos)
            .is_some_and(|write| write.status == WriteStatus::Pending)
    }

    /// Takes in a write. Of several mutations of one key the last counts.
    pub(crate) fn push<'a>(
        &mut self,
        origin: Origin,
        durability: Durability,
        mutations: impl Iterator<Item = (&'a [u8], Content)>,
    ) -> Pos {
        let pos = self.last_pos() + 1;
        let mut keys = Vec::new();
        for (key, content) in mutations {
            let id = self.intern(key);
            let state = Arc::make_mut(&mut self.states[id as usize]);
            match state.versions.last_mut() {
                Some(last) if last.pos == pos => last.content = content,
                last => {
                    if last.is_none_or(|last| last.pos <= self.base_pos) {
                        self.touched.push(id);
                    }
                    state.versions.push(Version::new(pos, content, false));
                    keys.push(id);
                }
            }
        }
        self.writes.push(WriteRecord {
            origin,
            status: WriteStatus::Pending,
            durability,
            unflushed: false,
            synced_ns: None,
            ended_op: NEVER,
            keys: keys.into(),
        });
        pos
    }

    /// Takes in the answer to a write.
    pub(crate) fn resolve(
        &mut self,
        pos: Pos,
        now: Nanos,
        status: Status,
        last_flush_ns: Option<Nanos>,
        ops: u64,
    ) {
        let write = self.write_mut(pos);
        write.ended_op = ops;
        write.status = match status {
            Status::Ok => {
                write.origin.acknowledged_ns = Some(now);
                write.unflushed =
                    last_flush_ns.is_some_and(|flushed| flushed < write.origin.handed_in_ns);
                match write.durability {
                    Durability::Durable => WriteStatus::Durable,
                    Durability::Relaxed => WriteStatus::Relaxed,
                }
            }
            status if status.is_definite_failure() => WriteStatus::Failed,
            _ => WriteStatus::Uncertain,
        };
        let (status, origin) = (write.status, write.origin);
        if !matches!(status, WriteStatus::Failed | WriteStatus::Uncertain) {
            return;
        }
        if status == WriteStatus::Uncertain {
            self.uncertain.push(pos);
        }
        for key in self.keys_of(pos).to_vec() {
            let state = Arc::make_mut(&mut self.states[key as usize]);
            let Some(at) = state
                .versions
                .iter()
                .rposition(|version| version.pos == pos)
            else {
                continue;
            };
            if status == WriteStatus::Uncertain {
                state.versions[at].optional = true;
            } else {
                let version = state.versions.remove(at);
                state.retire(version.content, Some(origin), Fate::Failed);
            }
        }
    }

    /// Takes in that a sync of all up to here was acknowledged. Nothing if the writes will be forgotten anyway.
    pub(crate) fn synced(&mut self, upto: Pos, now: Nanos) {
        if !self.keep {
            return;
        }
        let is_new = |pos: &Pos| *pos > self.base_pos;
        let new: Vec<Pos> = self.positions().rev().take_while(is_new).collect();
        for pos in new.into_iter().filter(|pos| *pos <= upto) {
            let write = self.write_mut(pos);
            if let Some(acknowledged) = write.origin.acknowledged_ns {
                write.synced_ns.get_or_insert(acknowledged.max(now));
            }
        }
    }

    /// Who wrote this content of a key, as far as it is still known.
    pub(crate) fn origin_of(&self, key: KeyId, content: Content) -> Option<Origin> {
        let state = self.state(key);
        let version = state
            .versions
            .iter()
            .rev()
            .find(|version| version.content == content);
        match version.and_then(|version| self.write(version.pos)) {
            Some(write) => Some(write.origin),
            None if state.base() == content => state.base_origin(),
            None => state.retired(content).and_then(|retired| retired.origin),
        }
    }

    /// Makes the state at `prefix` the base, a key's content being what `seen` says of it, if that says anything.
    /// Whatever else was in question is gone for good; a key of which nothing was seen keeps its other possibilities.
    pub(crate) fn adopt(
        &mut self,
        prefix: Pos,
        lowest: Pos,
        seen: impl Fn(KeyId) -> Option<Content>,
    ) {
        let affected = if prefix < self.base_pos || lowest < self.base_pos {
            (0..KeyId::try_from(self.states.len()).expect("fewer than 2^32 keys")).collect()
        } else {
            let mut touched = std::mem::take(&mut self.touched);
            touched.sort_unstable();
            touched.dedup();
            touched
        };
        let last = self.last_pos();
        let mut open = Vec::new();
        for key in affected {
            self.make_certain(key, prefix, lowest, last, seen(key));
            if self
                .state(key)
                .versions
                .last()
                .is_some_and(|version| version.optional)
            {
                open.push(key);
            }
        }
        let certain = prefix.min(self.base_pos);
        for pos in self.positions().rev().take_while(|&pos| pos > certain) {
            let write = self.write_mut(pos);
            write.status = match write.status {
                WriteStatus::Failed => WriteStatus::Failed,
                _ if pos > prefix => WriteStatus::Dead,
                WriteStatus::Pending | WriteStatus::Uncertain => WriteStatus::Kept,
                acknowledged => acknowledged,
            };
        }
        self.touched = open;
        self.uncertain.clear();
        self.base_pos = last;
        if !self.keep {
            self.writes.clear();
            self.first = last + 1;
        }
    }

    fn make_certain(
        &mut self,
        key: KeyId,
        prefix: Pos,
        lowest: Pos,
        last: Pos,
        seen: Option<Content>,
    ) {
        let state = &self.states[key as usize];
        let certain = seen.unwrap_or_else(|| state.certain_at(prefix));
        // Nothing was seen: whatever the key may have held at a legal position remains possible.
        let open: Vec<Content> = if seen.is_none() {
            let from = state
                .versions
                .iter()
                .rposition(|version| version.pos <= lowest && !version.optional);
            let before = from.is_none().then(|| state.base());
            let later = state.versions[from.unwrap_or(0)..]
                .iter()
                .map(|version| version.content);
            let mut open: Vec<Content> = before
                .into_iter()
                .chain(later)
                .filter(|&content| content != certain)
                .collect();
            if self.goes_back {
                // What stayed open before is among them once more.
                open.sort_unstable();
                open.dedup();
            }
            open
        } else {
            Vec::new()
        };
        let shown = self.origin_of(key, certain);
        let mut state = KeyState::clone(&self.states[key as usize]);
        let mut kept = Vec::new();
        let mut found = state.base() == certain
            && !state
                .versions
                .iter()
                .any(|v| v.pos <= prefix && v.content == certain);
        let versions = std::mem::take(&mut state.versions);
        // The last version that surely took effect, be it that the content shows it.
        let took_effect = |version: &Version| {
            version.pos <= prefix && (!version.optional || version.content == certain)
        };
        let last_effect = versions.iter().rposition(took_effect).unwrap_or(0);
        for (at, version) in versions.into_iter().enumerate() {
            let is_shown = version.content == certain;
            if self.goes_back && version.pos <= prefix && (seen.is_none() || at < last_effect) {
                // Nothing says whether it took effect, and it may come back. What reads of the process run have shown before says nothing of it any more.
                found |= is_shown;
                kept.push(Version::new(version.pos, version.content, version.optional));
                continue;
            }
            let origin = self.write(version.pos).map(|write| write.origin);
            if version.pos > prefix {
                if !is_shown {
                    state.retire(version.content, origin, Fate::Dead);
                }
            } else if !is_shown && version.optional {
                state.retire(version.content, origin, Fate::Dead);
            } else {
                found |= is_shown;
                kept.push(Version::new(version.pos, version.content, false));
            }
        }
        if self.keep {
            // A version before an optional one that did survive, or a content that only an observation knows.
            if !found
                || kept
                    .last()
                    .is_some_and(|version| version.content != certain)
            {
                kept.push(Version::new(prefix, certain, false));
            }
        } else {
            for version in kept.drain(..).filter(|version| version.content != certain) {
                state.retire(
                    version.content,
                    self.write(version.pos).map(|write| write.origin),
                    Fate::Replaced,
                );
            }
            if state.base() != certain {
                let (content, origin) = (state.base(), state.base_origin());
                state.retire(content, origin, Fate::Replaced);
            }
            state.base = match shown {
                Some(origin) => Some((certain, origin)),
                None if certain.is_absent() => None,
                None => state.base.map(|(_, origin)| (certain, origin)),
            };
        }
        kept.extend(
            open.into_iter()
                .map(|content| Version::new(last, content, true)),
        );
        state.versions = kept;
        self.states[key as usize] = Arc::new(state);
    }

    /// Feeds whatever judging depends on.
    pub(crate) fn feed(&self, mut take: impl FnMut(u64)) {
        take(u64::from(self.base_pos));
        take(u64::from(self.last_pos()));
        for state in &self.states {
            take(state.base().number());
            take(state.versions.len() as u64);
            for version in &state.versions {
                take(u64::from(version.pos) << 1 | u64::from(version.optional));
                take(version.content.number());
            }
        }
    }
}
