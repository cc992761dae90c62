//! Judging what a recovery showed: which prefixes of the commit order explain it, and whether one of them is long enough.

use super::observation::{Observation, Seen};
use super::shown::{Found, Shown};
use crate::history::{History, KeyState, Pos, WriteStatus};
use crate::keys::{Content, KeyId};
use crate::oracle::Oracle;
use crate::property::Property;
use crate::truth::DeviceTruth;
use crate::violation::{Facts, Symptom, Violation};
use crate::words::{answer, message};
use kvsim_sim::api::Status;
use kvsim_sim::{CommitOrder, RecoverySurvives};
use kvsim_simdisk::Nanos;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many suppositions about failed batches are tried for one prefix.
const BATCH_STEPS_MAX: u32 = 10_000;

/// A recovery that was judged to be legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    pub(crate) prefix: Pos,
    /// The shortest prefix that would have been legal.
    pub(crate) lowest: Pos,
    pub(crate) excused: u64,
    /// The search for an explanation was given up.
    pub(crate) undecided: bool,
}

impl Recovery {
    /// Whether the search for an explanation was given up: it is neither legal nor a violation.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// Writes acknowledged as durable whose loss a lie of the device excuses.
    #[must_use]
    pub fn excused_losses(&self) -> u64 {
        self.excused
    }
}

/// For each position from `low`, how many keys can be explained by the prefix that ends there.
pub(crate) struct Fit {
    pub(crate) low: Pos,
    pub(crate) explained: Vec<u32>,
    pub(crate) constrained: u32,
}

impl Fit {
    /// The positions that explain everything, the longest prefix first.
    pub(crate) fn perfect(&self, from: Pos) -> impl Iterator<Item = Pos> {
        let end = self.low + Pos::try_from(self.explained.len()).expect("one count per position");
        (self.low.max(from)..end)
            .rev()
            .filter(|&pos| self.explained[(pos - self.low) as usize] == self.constrained)
    }

    /// The position that explains most, the longest prefix among equals.
    pub(crate) fn best(&self) -> Pos {
        (self.low..)
            .zip(&self.explained)
            .max_by_key(|(_, count)| **count)
            .map_or(self.low, |(pos, _)| pos)
    }
}

impl Oracle {
    /// Whether what was seen after a recovery is legal. Changes nothing.
    ///
    /// # Errors
    /// The violation that explains best what was seen.
    pub fn judge(
        &self,
        seen: &Observation,
        truth: &DeviceTruth,
    ) -> Result<Recovery, Box<Violation>> {
        self.judge_reports(seen, truth)?;
        if let Some(problem) = &seen.problem {
            return Err(self.problem(problem, truth));
        }
        if let Some(strange) = seen.strange.first() {
            return Err(self.strange_after_recovery(strange, truth));
        }
        self.judge_pinned(seen, truth)?;
        if self.config.policies.commit_order != CommitOrder::Arrival {
            return self.judge_any_order(seen, truth);
        }
        let required = self.required(None, truth);
        // Most recoveries are legal, and what must survive ends shortly before the last write: so this looks at no more than that.
        if let Ok(fit) = self.fit(seen, required.pos)
            && let Some((prefix, undecided)) = self.first_atomic(&fit, required.pos, seen)
        {
            return Ok(Recovery {
                prefix,
                lowest: required.pos,
                excused: 0,
                undecided,
            });
        }
        let strict = self.fit(seen, self.history.base_pos);
        if let Some(violation) = strict.as_ref().err().filter(|_| !self.may_excuse(truth)) {
            return Err(self.untouched_differs(*violation, seen, truth));
        }
        if self.may_excuse(truth) {
            let lowest = self.must_survive_despite_lies(truth);
            let fit = self.fit(seen, lowest.min(self.history.base_pos));
            let found = fit
                .as_ref()
                .ok()
                .and_then(|fit| self.first_atomic(fit, lowest, seen));
            if let Some((prefix, undecided)) = found {
                return Ok(Recovery {
                    prefix,
                    lowest,
                    excused: self.acknowledged_beyond(prefix, required.pos),
                    undecided,
                });
            }
        }
        Err(match strict {
            Ok(fit) => self.classify(&fit, required, seen, truth),
            Err(key) => self.untouched_differs(key, seen, truth),
        })
    }

    /// Makes what a recovery showed the base. A write that it did not show is gone for good; a write that it showed must survive from now on.
    pub fn adopt(
        &mut self,
        now: Nanos,
        recovery: &Recovery,
        seen: &Observation,
        truth: &DeviceTruth,
    ) {
        self.counts.recoveries += 1;
        self.counts.undecided += u64::from(recovery.undecided);
        self.counts.reports_accepted += seen.reports();
        self.pinned.clear();
        self.next_window.clone_from(&seen.next_window);
        self.verified = seen
            .table
            .iter()
            .map(|seen| !matches!(seen, Seen::Unasked))
            .collect();
        if self.may_be_taken_back(recovery) {
            self.keep_shown(recovery, seen, truth);
            return;
        }
        for pos in self
            .history
            .positions()
            .rev()
            .take_while(|&pos| pos > self.history.base_pos)
        {
            let Some(write) = self.history.write(pos) else {
                continue;
            };
            let kept = pos <= recovery.prefix;
            match write.status {
                WriteStatus::Durable => self.counts.durable_checked += 1,
                WriteStatus::Relaxed => {
                    self.counts.relaxed_checked += 1;
                    self.counts.relaxed_lost += u64::from(!kept);
                }
                WriteStatus::Pending | WriteStatus::Uncertain if kept => {
                    self.counts.unacknowledged_kept += 1
                }
                WriteStatus::Pending | WriteStatus::Uncertain => {
                    self.counts.unacknowledged_lost += 1
                }
                WriteStatus::Failed | WriteStatus::Kept | WriteStatus::Dead => {}
            }
        }
        self.counts.excused_losses += recovery.excused;
        for (upto, ns, _) in std::mem::take(&mut self.syncs) {
            self.history.synced(upto, ns);
        }
        let went_back = recovery.prefix.min(recovery.lowest) < self.history.base_pos;
        self.history
            .adopt(recovery.prefix, recovery.lowest, |key| seen.content(key));
        if self.space.is_in_doubt() {
            Arc::make_mut(&mut self.space).adopt(|key| seen.content(key));
        }
        if went_back {
            Arc::make_mut(&mut self.space).went_back(|key| seen.content(key));
        }
        (self.power_cut, self.killed) = (false, false);
        self.shown = Shown::default();
        self.base_began_ns = self.cut_ns.take().unwrap_or(0);
        self.base_ns = now;
        self.note_excuses(truth);
        self.note_medium(truth);
    }

    /// Whether a power cut may take back what this recovery has shown: it came after a killed process, so the device may still have all of
    /// it in its cache.
    fn may_be_taken_back(&self, recovery: &Recovery) -> bool {
        self.config.policies.recovery_survives == RecoverySurvives::PowerCut
            && self.killed
            && !self.power_cut
            && recovery.excused == 0
            && recovery.prefix >= self.history.base_pos
    }

    /// Takes in what a recovery has shown that a power cut may take back: the writes since the base stay open, without those that are
    /// known to be gone.
    fn keep_shown(&mut self, recovery: &Recovery, seen: &Observation, truth: &DeviceTruth) {
        let oracle = self.clone();
        let shows = |history: &History, pos: Pos, is: &dyn Fn(Pos) -> bool| {
            history.keys_of(pos).iter().any(|&key| {
                let Some(content) = seen.content(key) else {
                    return false;
                };
                let writers = oracle.writers(key, content);
                !writers.is_empty() && writers.into_iter().all(is)
            })
        };
        let hidden = |history: &History, pos: Pos| {
            shows(history, pos, &|writer| {
                writer != pos && oracle.replaces(pos, writer)
            })
        };
        let there = |history: &History, pos: Pos| shows(history, pos, &|writer| writer == pos);
        if self.config.policies.commit_order != CommitOrder::Arrival {
            let promised = oracle.promised_in_any_order(truth);
            let ground = oracle.ground();
            self.history.keep_shown(self.ops, ground, |history, pos| {
                if promised(pos) || there(history, pos) {
                    Found::There
                } else if hidden(history, pos) {
                    Found::Gone
                } else {
                    Found::InDoubt
                }
            });
            self.note_shown_in_any_order(seen);
        } else {
            let base = self.history.base_pos;
            // Up to here writes are known to have taken effect. One behind it, of which a key was not asked for, may be there or not.
            let proven = oracle.history.positions().rev();
            let mut proven = proven.take_while(|&pos| pos > recovery.lowest);
            let proven = proven.find(|&pos| pos <= recovery.prefix && there(&oracle.history, pos));
            let proven = proven.unwrap_or(recovery.lowest);
            let is_unread = |history: &History, pos: Pos| {
                let keys = history.keys_of(pos);
                keys.iter().any(|&key| seen.content(key).is_none())
            };
            self.history.keep_shown(self.ops, base, |history, pos| {
                let is_gone =
                    pos > recovery.prefix || (oracle.is_optional(pos) && hidden(history, pos));
                match is_gone {
                    true => Found::Gone,
                    false if there(history, pos) => Found::There,
                    false if pos > proven && is_unread(history, pos) => Found::InDoubt,
                    false => Found::AsBefore,
                }
            });
        }
        self.shown.pos = self.history.last_pos();
    }

    /// The writes since the base that leave a key with this content, and the base's place if it had it then.
    pub(crate) fn writers(&self, key: KeyId, content: Content) -> Vec<Pos> {
        let base = self.history.base_pos;
        let state = self.history.state(key);
        let since = state.versions().iter().filter(|version| version.pos > base);
        let mut writers: Vec<Pos> = since
            .filter(|version| version.content == content)
            .map(|version| version.pos)
            .collect();
        if state.allows(base, content) {
            writers.push(base);
        }
        writers
    }

    /// A reading back was cut short by another crash: what it showed so far must be shown again.
    pub fn interrupted(&mut self, seen: &Observation) {
        if self.shown_is_void {
            return;
        }
        for key in (0..).take(seen.table.len()) {
            if let Some(content) = seen.content(key)
                && !self.pinned.contains(&(key, content))
            {
                self.pinned.push((key, content));
            }
        }
    }

    /// Whether two recoveries of the same image, one of them perhaps after a crash during recovery, showed the same.
    ///
    /// # Errors
    /// [`Property::RecoveryIdempotent`], with the first key that differs.
    pub fn same_recovery(
        &self,
        first: &Observation,
        second: &Observation,
        truth: &DeviceTruth,
    ) -> Result<(), Box<Violation>> {
        if self.lied(truth) {
            return Ok(());
        }
        for key in (0..).take(first.table.len()) {
            let pair = (
                first.content_of(first.seen(key)),
                second.content_of(second.seen(key)),
            );
            if let (Some(one), Some(other)) = pair
                && one != other
            {
                return Err(self.recoveries_differ(
                    key,
                    one,
                    other,
                    "two recoveries of the same image differ",
                ));
            }
        }
        let unknown = |seen: &Observation| {
            let mut keys: Vec<_> = seen
                .strange
                .iter()
                .filter(|strange| strange.unknown_key)
                .map(|strange| strange.key.clone())
                .collect();
            keys.sort();
            keys.dedup();
            keys
        };
        if unknown(first) != unknown(second) {
            let sentence =
                "two recoveries of the same image show different keys that no client wrote";
            return Err(Violation::new(
                Property::RecoveryIdempotent,
                Symptom::RecoveriesDiffer,
                sentence,
                self.facts(),
            ));
        }
        Ok(())
    }

    fn judge_pinned(&self, seen: &Observation, truth: &DeviceTruth) -> Result<(), Box<Violation>> {
        if self.lied(truth) || self.kept_behind_barriers(truth).is_some() {
            return Ok(());
        }
        for &(key, pinned) in &self.pinned {
            if let Some(content) = seen.content(key)
                && content != pinned
            {
                let what = "a recovery that was itself cut short showed another state than the one after it";
                return Err(self.recoveries_differ(key, pinned, content, what));
            }
        }
        Ok(())
    }

    fn recoveries_differ(
        &self,
        key: KeyId,
        one: Content,
        other: Content,
        what: &str,
    ) -> Box<Violation> {
        let (one, other) = (self.describe(key, one), self.describe(key, other));
        let sentence = format!(
            "{what}: for key {} the first showed {one}, the second {other}",
            self.key_name(key)
        );
        let facts = Facts {
            expected: Some(one),
            found: Some(other),
            ..self.facts_of(key, None)
        };
        Violation::new(
            Property::RecoveryIdempotent,
            Symptom::RecoveriesDiffer,
            sentence,
            facts,
        )
    }

    fn judge_reports(&self, seen: &Observation, truth: &DeviceTruth) -> Result<(), Box<Violation>> {
        for report in &seen.reports {
            let excused = match report.reply.status {
                Status::IoError => truth.this_run.read_failures > 0,
                _ => truth.has_shown_damage(),
            };
            if !excused {
                let what = &report.what;
                let although = match report.reply.status {
                    Status::IoError => {
                        "no read of the device has failed since the guest was started"
                    }
                    _ => truth.no_damage(),
                };
                let sentence = format!(
                    "{}, {what} was answered {}, although {although}",
                    self.when(),
                    answer(&report.reply)
                );
                let facts = Facts {
                    found: message(&report.reply),
                    ..self.facts()
                };
                let property = match report.reply.status {
                    Status::IoError => Property::NoFalseRefusal,
                    _ => Property::AcknowledgedDurable,
                };
                return Err(Violation::new(
                    property,
                    Symptom::FalseAlarm,
                    sentence,
                    facts,
                ));
            }
        }
        Ok(())
    }

    /// Whether a lie that fired, or a flush that only orders, may excuse silent loss at all.
    pub(crate) fn may_excuse(&self, truth: &DeviceTruth) -> bool {
        self.history.keeps_all() && (self.lied(truth) || self.kept_behind_barriers(truth).is_some())
    }

    fn acknowledged_beyond(&self, prefix: Pos, required: Pos) -> u64 {
        let lost = self
            .history
            .positions()
            .rev()
            .take_while(|&pos| pos > prefix)
            .filter(|&pos| pos <= required);
        let durable = |pos: &Pos| {
            let write = self.history.write(*pos);
            write.is_some_and(|write| write.status == WriteStatus::Durable)
        };
        lost.filter(durable).count() as u64
    }

    /// How well each prefix from `low` on explains what was seen; or a key whose content none of them can explain because no
    /// write beyond `low` touched it.
    fn fit(&self, seen: &Observation, low: Pos) -> Result<Fit, KeyId> {
        let last = self.history.last_pos();
        let mut steps = vec![0i32; (last - low) as usize + 2];
        let mut constrained = 0;
        for key in (0..).take(seen.table.len()) {
            let Seen::Holds(content) = seen.seen(key) else {
                continue;
            };
            let state = self.history.state(key);
            if state
                .versions()
                .last()
                .is_none_or(|version| version.pos <= low)
            {
                if !state.allows(low, content) {
                    return Err(key);
                }
                continue;
            }
            constrained += 1;
            for (from, to) in intervals(state, content, low, last) {
                steps[(from - low) as usize] += 1;
                steps[(to - low) as usize + 1] -= 1;
            }
        }
        steps.pop();
        let mut sum = 0;
        let explained = steps.into_iter().map(|step| {
            sum += step;
            u32::try_from(sum).unwrap_or(0)
        });
        Ok(Fit {
            low,
            explained: explained.collect(),
            constrained,
        })
    }

    /// The longest prefix that explains everything, batches that failed and may have taken effect included.
    ///
    /// Beside it: whether that is not certain, since the search took too long. A prefix that is certain comes first.
    fn first_atomic(&self, fit: &Fit, lowest: Pos, seen: &Observation) -> Option<(Pos, bool)> {
        let mut undecided = None;
        for prefix in fit.perfect(lowest) {
            let batches = self.uncertain_batches(prefix);
            let mut steps_left = BATCH_STEPS_MAX;
            let mut supposed = BTreeMap::new();
            if self.explains_batches(&batches, prefix, seen, &mut supposed, &mut steps_left) {
                return Some((prefix, false));
            }
            if steps_left == 0 {
                undecided.get_or_insert(prefix);
            }
        }
        undecided.map(|prefix| (prefix, true))
    }

    /// Batches within the prefix that failed with a device error, the latest first: each must be there as a whole or not at all.
    pub(crate) fn uncertain_batches(&self, prefix: Pos) -> Vec<Pos> {
        let of_several_keys = |pos: &Pos| *pos <= prefix && self.history.keys_of(*pos).len() > 1;
        let uncertain = self.history.uncertain().iter().copied();
        let mut batches: Vec<Pos> = uncertain.filter(of_several_keys).collect();
        batches.sort_unstable_by_key(|&pos| Reverse(pos));
        batches
    }

    /// Whether some choice of these batches explains their keys: each in turn is supposed to have taken effect, then not.
    /// A search that takes too long ends with no steps left, and says no although it is not known.
    fn explains_batches(
        &self,
        batches: &[Pos],
        prefix: Pos,
        seen: &Observation,
        supposed: &mut BTreeMap<Pos, bool>,
        steps_left: &mut u32,
    ) -> bool {
        let Some((&batch, rest)) = batches.split_first() else {
            return true;
        };
        if *steps_left == 0 {
            return false;
        }
        *steps_left -= 1;
        for applied in [true, false] {
            supposed.insert(batch, applied);
            let keys = self.history.keys_of(batch).iter();
            let possible = keys
                .copied()
                .all(|key| self.explains(key, prefix, seen, |pos| supposed.get(&pos).copied()));
            if possible && self.explains_batches(rest, prefix, seen, supposed, steps_left) {
                return true;
            }
        }
        supposed.remove(&batch);
        false
    }

    /// Whether a key may be as it was seen, if of some writes it is supposed that they took effect or did not.
    pub(crate) fn explains(
        &self,
        key: KeyId,
        prefix: Pos,
        seen: &Observation,
        supposed: impl Fn(Pos) -> Option<bool>,
    ) -> bool {
        seen.content(key)
            .is_none_or(|content| self.history.state(key).allows_if(prefix, content, supposed))
    }
}

/// The positions at which a key may hold `content`: disjoint and rising, within `low..=last`.
fn intervals(state: &KeyState, content: Content, low: Pos, last: Pos) -> Vec<(Pos, Pos)> {
    let mut found: Vec<(Pos, Pos)> = Vec::new();
    let versions = state.versions();
    // What holds at `low`: from the last certain version up to there.
    let begin = versions
        .iter()
        .rposition(|version| version.pos <= low && !version.optional);
    let mut add = |from: Pos, after: usize| {
        let next = versions[after..].iter().find(|version| !version.optional);
        let to = next.map_or(last, |version| version.pos - 1);
        let from = found
            .last()
            .map_or(from, |&(_, end)| from.max(end + 1))
            .max(low);
        if from <= to {
            found.push((from, to));
        }
    };
    if begin.is_none() && state.base() == content {
        add(low, 0);
    }
    for (at, version) in versions.iter().enumerate().skip(begin.unwrap_or(0)) {
        if version.content == content {
            add(version.pos, at + 1);
        }
    }
    found
}
