//! Judging what a recovery showed of a guest whose writes commit in any order that real time allows.
//!
//! A state is legal if there is a set of writes and an order of them such that
//! - what must survive is in the set, and with each write those that were answered before it was handed in, unless each write stands for itself;
//! - of two writes, the one that was answered before the other was handed in comes first;
//! - each key holds what the last write of the set to it left, or what it held before if there is none.
//!
//! The set that is looked for is the smallest: what must survive, what is shown, and what these two need. More writes never explain more.
//! On a device that lies only the contents of each key are held to what the key once held.
//!
//! What the set is applied to is the *ground*: the base. Where a power cut may take back what a recovery has shown after a killed process, and there was no
//! power cut since, it is the state that this recovery has shown; after a power cut it is the base again. Then three things are known of the writes that were
//! handed in before that recovery: some it has shown, and these come before all that was handed in later; some it has shown to be gone; and of two that overlap
//! it has shown which comes last, if both are there.

use super::observation::{Observation, Seen};
use super::recovery::Recovery;
use crate::history::{NEVER, Pos, WriteStatus};
use crate::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::property::Property;
use crate::truth::DeviceTruth;
use crate::violation::{Facts, Symptom, Violation};
use kvsim_sim::CommitOrder;

/// How many sets and choices of last writers are tried.
const STEPS_MAX: usize = 10_000;

/// What was seen of one key, and the writes that may have left it so.
struct Shown {
    key: KeyId,
    /// The place of the ground among them stands for no write since.
    writers: Vec<Pos>,
}

/// A set of writes, closed as the module says.
#[derive(Clone)]
struct Set<'a> {
    oracle: &'a Oracle,
    ground: Pos,
    /// By place since the ground.
    members: Vec<bool>,
    /// The last operation number of a member.
    last_op: u64,
}

impl Set<'_> {
    fn contains(&self, pos: Pos) -> bool {
        pos > self.ground && self.members[(pos - self.ground - 1) as usize]
    }

    fn add(&mut self, pos: Pos) {
        if pos > self.ground {
            self.members[(pos - self.ground - 1) as usize] = true;
            self.last_op = self.last_op.max(self.oracle.op_of_write(pos));
        }
    }

    /// Adds what was answered, or shown by a recovery, before a member was handed in; only the latter where each write stands for itself.
    fn close(&mut self) {
        let each = self.oracle.config.policies.commit_order == CommitOrder::Each;
        for pos in self.oracle.positions_since_ground() {
            let needed = self.oracle.history.write(pos).is_some_and(|write| {
                let took_effect = write.origin.acknowledged_ns.is_some()
                    && !matches!(write.status, WriteStatus::Failed | WriteStatus::Dead)
                    && !each;
                (took_effect || write.status == WriteStatus::Kept) && write.ended_op < self.last_op
            });
            if needed && !self.oracle.is_optional(pos) {
                self.add(pos);
            }
        }
    }

    /// The members that write a key.
    fn on(&self, key: KeyId) -> impl Iterator<Item = Pos> {
        let versions = self.oracle.history.state(key).versions().iter();
        versions
            .map(|version| version.pos)
            .filter(|&pos| self.contains(pos))
    }
}

impl Oracle {
    /// The place of the state to which writes are applied.
    pub(crate) fn ground(&self) -> Pos {
        match self.power_cut {
            true => self.history.base_pos,
            false => self.shown.pos.max(self.history.base_pos),
        }
    }

    /// Whether the ground may have a key with this content.
    fn ground_has(&self, key: KeyId, content: Content) -> bool {
        let ground = self.ground();
        let state = self.history.state(key);
        if ground == self.history.base_pos {
            return state.allows(ground, content);
        }
        match self.shown.contents.get(&key) {
            Some(shown) => *shown == content,
            None => state.knows(content),
        }
    }

    /// The writes since the ground that leave a key with this content, and the ground's place if it has it.
    fn writers_since_ground(&self, key: KeyId, content: Content) -> Vec<Pos> {
        let ground = self.ground();
        let versions = self.history.state(key).versions().iter();
        let since = versions.filter(|version| version.pos > ground && version.content == content);
        let mut writers: Vec<Pos> = since.map(|version| version.pos).collect();
        if self.ground_has(key, content) {
            writers.push(ground);
        }
        writers
    }

    pub(crate) fn positions_since_ground(&self) -> impl Iterator<Item = Pos> + use<> {
        let ground = self.ground();
        self.history.positions().filter(move |pos| *pos > ground)
    }

    /// Takes in what a recovery has shown of each key, and so of the order of writes that overlap.
    pub(crate) fn note_shown_in_any_order(&mut self, seen: &Observation) {
        let base = self.history.base_pos;
        for key in (0..).take(seen.table.len()) {
            let Some(content) = seen.content(key) else {
                continue;
            };
            self.shown.contents.insert(key, content);
            self.history.shown_last(key, content, self.ops);
            let [last] = self.writers(key, content)[..] else {
                continue;
            };
            let versions = self.history.state(key).versions().iter();
            let others = versions
                .map(|version| version.pos)
                .filter(|&pos| pos > base && pos != last && last > base);
            self.shown.order.extend(others.map(|other| (other, last)));
        }
    }

    /// The writes since the ground that must survive, with all that must be there with them.
    pub(crate) fn promised_in_any_order(&self, truth: &DeviceTruth) -> impl Fn(Pos) -> bool {
        let mut promised = self.set_of(&self.must_survive_each(truth));
        promised.close();
        move |pos| promised.contains(pos)
    }

    /// Feeds what judging in any order depends on beside the contents of keys.
    pub(crate) fn feed_order(&self, truth: &DeviceTruth, mut take: impl FnMut(u64)) {
        for pos in self.positions_since_ground() {
            if let Some(write) = self.history.write(pos) {
                take(write.origin.op);
                take(write.ended_op);
                take(u64::from(write.origin.acknowledged_ns.is_some()));
            }
        }
        self.must_survive_each(truth)
            .into_iter()
            .for_each(|pos| take(u64::from(pos)));
        self.shown.feed(take);
    }

    /// Whether what was seen is legal. Changes nothing.
    ///
    /// # Errors
    /// The violation that explains best what was seen.
    pub(crate) fn judge_any_order(
        &self,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Result<Recovery, Box<Violation>> {
        if let Some(violation) = self.retired_back(seen, truth) {
            return Err(violation);
        }
        if self.may_excuse(truth) {
            return Ok(Recovery::in_any_order(self, false));
        }
        let mut shown = Vec::new();
        for key in (0..).take(seen.table.len()) {
            let Seen::Holds(content) = seen.seen(key) else {
                continue;
            };
            let state = self.history.state(key);
            let since = state
                .versions()
                .last()
                .is_some_and(|last| last.pos > self.ground());
            let writers = self.writers_since_ground(key, content);
            if writers.is_empty() && !since {
                return Err(self.untouched_differs(key, seen, truth));
            }
            if since {
                shown.push(Shown { key, writers });
            }
        }
        let must = self.must_survive_each(truth);
        match self.explained(&must, &shown) {
            Some(undecided) => Ok(Recovery::in_any_order(self, undecided)),
            None => Err(self.out_of_order(&must, &shown, seen)),
        }
    }

    /// Whether some set and order explains what is shown; with true if that could not be found out.
    fn explained(&self, must: &[Pos], shown: &[Shown]) -> Option<bool> {
        let mut set = self.set_of(must);
        for shown in shown {
            match shown.writers[..] {
                [] => return None,
                [only] => set.add(only),
                _ => {}
            }
        }
        let mut steps_left = STEPS_MAX;
        if self.search(set, shown, &mut steps_left) {
            return Some(false);
        }
        (steps_left == 0).then_some(true)
    }

    /// Whether a set that has these writes explains what is shown: what is missing is tried in turn, the first that was handed in first.
    fn search(&self, mut set: Set<'_>, shown: &[Shown], steps_left: &mut usize) -> bool {
        if *steps_left == 0 {
            return false;
        }
        *steps_left -= 1;
        set.close();
        let open = |shown: &&Shown| self.last_writers(&set, shown).is_empty();
        let missing = shown.iter().find(open);
        if missing.is_none() && self.some_order(&set, shown, steps_left) {
            return true;
        }
        // What does not fit as it is may fit if a later write left the same.
        let keys: Vec<&Shown> = match missing {
            Some(missing) => vec![missing],
            None => shown
                .iter()
                .filter(|shown| shown.writers.len() > 1)
                .collect(),
        };
        keys.into_iter().any(|shown_key| {
            let mut writers = self.writers_to_add(&set, shown_key);
            writers.sort_unstable_by_key(|&pos| self.op_of_write(pos));
            writers.into_iter().any(|pos| {
                let mut next = set.clone();
                next.add(pos);
                self.search(next, shown, steps_left)
            })
        })
    }

    /// The writes outside the set that may be the last to a key and left what is shown.
    fn writers_to_add(&self, set: &Set<'_>, shown: &Shown) -> Vec<Pos> {
        let fits = |&pos: &Pos| {
            pos > set.ground
                && !set.contains(pos)
                && !set.on(shown.key).any(|other| self.comes_first(pos, other))
        };
        shown.writers.iter().copied().filter(fits).collect()
    }

    /// Whether the set can be ordered with some choice of the last writers of each key.
    fn some_order(&self, set: &Set<'_>, shown: &[Shown], steps_left: &mut usize) -> bool {
        let last = |shown: &Shown| self.last_writers(set, shown);
        let choices: Vec<Vec<Pos>> = shown.iter().map(last).collect();
        let all = choices
            .iter()
            .fold(1, |all: usize, choice| all.saturating_mul(choice.len()));
        for number in 0..all {
            if *steps_left == 0 {
                return false;
            }
            *steps_left -= 1;
            let mut rest = number;
            let choose = |choice: &Vec<Pos>| {
                let chosen = choice[rest % choice.len()];
                rest /= choice.len();
                chosen
            };
            let chosen: Vec<Pos> = choices.iter().map(choose).collect();
            if self.is_an_order(set, shown, &chosen) {
                return true;
            }
        }
        false
    }

    /// These writes and no others yet.
    fn set_of(&self, writes: &[Pos]) -> Set<'_> {
        let ground = self.ground();
        let mut set = Set {
            oracle: self,
            ground,
            members: vec![false; (self.history.last_pos() - ground) as usize],
            last_op: 0,
        };
        writes.iter().for_each(|&pos| set.add(pos));
        set
    }

    /// The writes of the set that may be the last to a key and left what is shown; the ground if there is no write to it.
    fn last_writers(&self, set: &Set<'_>, shown: &Shown) -> Vec<Pos> {
        if set.on(shown.key).next().is_none() {
            let writers = shown.writers.iter().copied();
            return writers.filter(|&pos| pos == set.ground).collect();
        }
        let is_last = |&pos: &Pos| {
            set.contains(pos) && !set.on(shown.key).any(|other| self.comes_first(pos, other))
        };
        let mut last: Vec<Pos> = shown.writers.iter().copied().filter(is_last).collect();
        last.sort_unstable_by_key(|&pos| std::cmp::Reverse(self.op_of_write(pos)));
        last
    }

    /// Whether real time has one write before another, or a recovery has shown that.
    fn comes_first(&self, one: Pos, other: Pos) -> bool {
        self.ended_op(one) < self.op_of_write(other) || self.shown.order.contains(&(one, other))
    }

    /// Whether the members of the set can be ordered with these last writers.
    fn is_an_order(&self, set: &Set<'_>, shown: &[Shown], last: &[Pos]) -> bool {
        let ground = set.ground;
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); set.members.len()];
        let mut waits = vec![0_usize; set.members.len()];
        let at = |pos: Pos| (pos - ground - 1) as usize;
        for (shown, &last) in shown.iter().zip(last).filter(|(_, last)| **last > ground) {
            for other in set.on(shown.key).filter(|&other| other != last) {
                before[at(other)].push(at(last));
                waits[at(last)] += 1;
            }
        }
        let both = |(one, other): &&(Pos, Pos)| set.contains(*one) && set.contains(*other);
        for &(one, other) in self.shown.order.iter().filter(both) {
            before[at(one)].push(at(other));
            waits[at(other)] += 1;
        }
        let mut left: Vec<Pos> = self
            .positions_since_ground()
            .filter(|&pos| set.contains(pos))
            .collect();
        while !left.is_empty() {
            let ends = left
                .iter()
                .map(|&pos| self.ended_op(pos))
                .min()
                .unwrap_or(NEVER);
            let is_next = |pos: Pos| waits[at(pos)] == 0 && self.op_of_write(pos) <= ends;
            let (next, rest): (Vec<Pos>, Vec<Pos>) = left.iter().partition(|&&pos| is_next(pos));
            if next.is_empty() {
                return false;
            }
            for pos in next {
                before[at(pos)].iter().for_each(|&later| waits[later] -= 1);
            }
            left = rest;
        }
        true
    }

    /// What is wrong with a state that no order explains.
    fn out_of_order(&self, must: &[Pos], shown: &[Shown], seen: &Observation) -> Box<Violation> {
        let ground = self.ground();
        let of = |key: KeyId| shown.iter().find(|shown| shown.key == key);
        let lacks = |shown: &Shown, write: Pos| {
            let older =
                |&pos: &Pos| pos != write && (pos == ground || self.comes_first(pos, write));
            shown.writers.iter().all(older)
        };
        let lacking = |write: Pos| {
            let keys = self.history.keys_of(write).iter();
            keys.filter_map(|&key| of(key))
                .find(|shown| lacks(shown, write))
        };
        let there = |write: Pos| {
            let keys = self.history.keys_of(write).iter();
            keys.filter_map(|&key| of(key))
                .find(|shown| shown.writers == [write])
        };
        let half = self
            .positions_since_ground()
            .find_map(|pos| Some((pos, lacking(pos)?.key, there(pos)?.key)));
        let mut promised = self.set_of(must);
        promised.close();
        let lost = self
            .positions_since_ground()
            .filter(|&pos| promised.contains(pos))
            .find_map(|pos| Some((pos, lacking(pos)?.key)));
        let (write, key, property, symptom, what) = match (half, lost) {
            (Some((pos, key, there)), _) => {
                let what = format!(
                    "is there in part: key {} shows it, and this one does not",
                    self.key_name(there)
                );
                (
                    Some(pos),
                    key,
                    Property::AtomicWrites,
                    Symptom::PartialBatch,
                    what,
                )
            }
            (None, Some((pos, key))) => {
                let what = "must be there and is missing".to_owned();
                (
                    Some(pos),
                    key,
                    self.lost_property(pos),
                    Symptom::LostWrite,
                    what,
                )
            }
            (None, None) => {
                let key = shown
                    .iter()
                    .find(|shown| shown.writers.is_empty())
                    .or(shown.first());
                let what = "is not where any order that real time allows has it".to_owned();
                let key = key.map_or(0, |shown| shown.key);
                let pos = of(key).and_then(|shown| shown.writers.first().copied());
                (pos, key, Property::Prefix, Symptom::Hole, what)
            }
        };
        let origin = write
            .and_then(|pos| self.history.write(pos))
            .map(|write| write.origin);
        let found = self.describe(key, seen.content(key).unwrap_or(Content::ABSENT));
        let by = origin.map_or_else(String::new, |origin| {
            format!(" ({})", crate::words::acknowledged(&origin))
        });
        let sentence = format!(
            "{}, the write of key {}{by} {what}: the key holds {found}",
            self.when(),
            self.key_name(key)
        );
        let facts = Facts {
            found: Some(found),
            keys_wrong: 1,
            acknowledged_lost: u64::from(symptom == Symptom::LostWrite),
            ..self.facts_of(key, origin)
        };
        Violation::new(property, symptom, sentence, facts)
    }
}

impl Recovery {
    /// One of which no prefix is known.
    fn in_any_order(oracle: &Oracle, undecided: bool) -> Recovery {
        Recovery {
            prefix: oracle.history.last_pos(),
            lowest: oracle.history.base_pos,
            excused: 0,
            undecided,
        }
    }
}
