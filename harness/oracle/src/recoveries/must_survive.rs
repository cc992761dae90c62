//! What a recovery must show: the shortest prefix of the commit order that the guest has promised, by its answers and by its policies.

use crate::history::{Pos, WriteStatus};
use crate::oracle::Oracle;
use crate::truth::DeviceTruth;
use kvsim_simdisk::Nanos;

/// A relaxed write becomes durable by at most so many operations of the device in a row: the write and the flush under way when its time
/// comes, and its own. Each is submitted in a call of the guest.
const OPERATIONS_IN_A_ROW: u64 = 4;

/// Why a recovery must show at least a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// An earlier recovery showed it.
    Shown,
    /// The write at that position was acknowledged as durable, or as accepted and long ago.
    Write,
    /// A sync or close after it was acknowledged: when, and which op.
    Sync(Nanos, u64),
}

/// Up to where something on the device says what was acknowledged, although the device lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaterProof {
    /// When the last write that is a later proof was handed in; 0 for none.
    handed_in_ns: Nanos,
    /// Whether the opening that showed the base does.
    opening: bool,
}

/// The shortest prefix that a recovery must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequiredPrefix {
    pub(crate) pos: Pos,
    pub(crate) because: Because,
}

impl Oracle {
    /// The shortest prefix that must be there although the device has lied, or its flushes only order.
    #[must_use]
    pub fn must_survive_despite_lies(&self, truth: &DeviceTruth) -> Pos {
        if self.flush_lied(truth) {
            return 0;
        }
        let required = self.required(Some(self.later_proof(truth)), truth).pos;
        let kept = self.kept_behind_barriers(truth);
        kept.map_or(required, |kept| kept.min(required))
    }

    /// The shortest prefix that must be there.
    #[must_use]
    pub fn must_survive(&self, truth: &DeviceTruth) -> Pos {
        self.required(None, truth).pos
    }

    /// The last later proof: a write that must survive (by its answer, by a sync or by its age), or the opening that showed the base.
    /// Nothing that was written from its hand-in until it had to survive was damaged. Other data that was written meanwhile may be in bulk,
    /// where no recovery has to look; but all that made this write durable was intact.
    fn later_proof(&self, truth: &DeviceTruth) -> LaterProof {
        let whole = |from: Nanos, to: Nanos| {
            let mut damaged = truth.damaged_ns.iter();
            !damaged.any(|at| (from..=to).contains(at))
        };
        let is_later_proof = |pos: &Pos| {
            let Some(write) = self.history.write(*pos) else {
                return false;
            };
            // What changes nothing takes no writing.
            !write.unflushed
                && !self.history.keys_of(*pos).is_empty()
                && self
                    .required_since(*pos, truth)
                    .is_some_and(|to| whole(write.origin.handed_in_ns, to))
        };
        let last = self.history.positions().rev().find(is_later_proof);
        let last = last.and_then(|pos| self.history.write(pos));
        LaterProof {
            handed_in_ns: last.map_or(0, |write| write.origin.handed_in_ns),
            opening: whole(self.base_began_ns, self.base_ns),
        }
    }

    /// Since when this write must survive; nothing if it need not.
    fn required_since(&self, pos: Pos, truth: &DeviceTruth) -> Option<Nanos> {
        let write = self.history.write(pos)?;
        let acknowledged = write.origin.acknowledged_ns?;
        match write.status {
            WriteStatus::Durable => Some(acknowledged),
            WriteStatus::Relaxed => {
                let synced = || {
                    let mut later = self.syncs.iter().filter(|(upto, _, _)| *upto >= pos);
                    later.next().map(|(_, ns, _)| acknowledged.max(*ns))
                };
                let aged = || {
                    let aged = self.aged_ns(acknowledged, truth)?;
                    let here = pos > self.history.base_pos;
                    (here && aged <= self.cut_ns.unwrap_or(0)).then_some(aged)
                };
                write.synced_ns.or_else(synced).or_else(aged)
            }
            _ => None,
        }
    }

    /// Until when a relaxed write that was acknowledged then may be lost: for the guest's window, and for what the device and the guest's calls take beside, by
    /// the longest of each since. Nothing is promised once an operation has failed since the base.
    fn aged_ns(&self, acknowledged: Nanos, truth: &DeviceTruth) -> Option<Nanos> {
        let window = self.config.relaxed_window_ns?;
        let slowest_ns = truth
            .slowest
            .since(acknowledged)
            .saturating_add(truth.slowest_calls.since(acknowledged));
        let device_ns = slowest_ns.saturating_mul(OPERATIONS_IN_A_ROW);
        let slack = self.config.relaxed_slack_ns.saturating_add(device_ns);
        let aged = acknowledged.saturating_add(window).saturating_add(slack);
        (!self.failed(truth)).then_some(aged)
    }

    /// The shortest prefix that must be there; with a later proof, only what was acknowledged before the proof.
    pub(crate) fn required(
        &self,
        later_proof: Option<LaterProof>,
        truth: &DeviceTruth,
    ) -> RequiredPrefix {
        let counts =
            |ns: Nanos| later_proof.is_none_or(|later_proof| ns < later_proof.handed_in_ns);
        let base = self.history.base_pos;
        let cut_ns = self.cut_ns.unwrap_or(0);
        let testified = later_proof.is_none_or(|later_proof| later_proof.opening);
        let shown = testified || counts(self.base_ns) || !self.history.keeps_all();
        let mut required = RequiredPrefix {
            pos: if shown { base } else { 0 },
            because: Because::Shown,
        };
        if !self.power_cut && shown && self.shown.pos > required.pos {
            required.pos = self.shown.pos;
        }
        let survives_kill = !self.power_cut && self.config.policies.relaxed_survives_kill;
        for pos in self.history.positions().rev() {
            if pos <= required.pos {
                break;
            }
            let Some(write) = self.history.write(pos) else {
                break;
            };
            let Some(acknowledged) = write.origin.acknowledged_ns else {
                continue;
            };
            let covered = match write.status {
                WriteStatus::Durable if counts(acknowledged) => self.covered_by(pos),
                WriteStatus::Relaxed => {
                    let aged = self.aged_ns(acknowledged, truth);
                    let aged = aged.is_some_and(|aged| aged <= cut_ns);
                    let must = ((aged || survives_kill) && counts(acknowledged))
                        || write.synced_ns.is_some_and(counts);
                    // What changes nothing is answered at once, whatever is under way before it.
                    if must && !self.changes_nothing(pos) {
                        pos
                    } else {
                        0
                    }
                }
                _ => 0,
            };
            if covered > required.pos {
                required = RequiredPrefix {
                    pos: covered,
                    because: Because::Write,
                };
            }
        }
        for &(pos, ns, op) in &self.syncs {
            if pos > required.pos && counts(ns) {
                required = RequiredPrefix {
                    pos,
                    because: Because::Sync(ns, op),
                };
            }
        }
        required
    }

    /// Up to where a durable answer to this write covers the writes before it. One that changes nothing covers, if the guest says that it
    /// does not count, only what made the keys absent that it was to delete.
    fn covered_by(&self, pos: Pos) -> Pos {
        if self.config.policies.empty_commit_covers || self.changes_certainly(pos) {
            return pos;
        }
        let keys = self.history.keys_of(pos).iter();
        keys.filter_map(|&key| self.made_absent(key, pos))
            .max()
            .unwrap_or(0)
    }

    /// The delete before `pos` that made a key absent; nothing if it was never there.
    fn made_absent(&self, key: crate::keys::KeyId, pos: Pos) -> Option<Pos> {
        let state = self.history.state(key);
        let versions = state.versions().iter().rev();
        let mut made = None;
        for version in versions.filter(|version| version.pos < pos) {
            if !version.content.is_absent() {
                return made;
            }
            made = Some(version.pos);
        }
        made.filter(|_| !state.base().is_absent())
    }

    /// Whether a write sets a key, or deletes one that was certainly there.
    pub(crate) fn changes_certainly(&self, pos: Pos) -> bool {
        self.history.keys_of(pos).iter().any(|&key| {
            let state = self.history.state(key);
            let written = state.versions().iter().find(|version| version.pos == pos);
            written.is_some_and(|version| !version.content.is_absent())
                || !state.allows(pos - 1, crate::keys::Content::ABSENT)
        })
    }

    /// Whether a write only deletes keys that were certainly not there, or nothing at all.
    fn changes_nothing(&self, pos: Pos) -> bool {
        self.history.keys_of(pos).iter().all(|&key| {
            let state = self.history.state(key);
            let written = state.versions().iter().find(|version| version.pos == pos);
            written.is_none_or(|version| version.content.is_absent()) && state.is_absent_at(pos - 1)
        })
    }

    /// The writes since the ground that a recovery must show if commits come in any order that real time allows; those that were answered
    /// before one of them was handed in must be there too.
    pub(crate) fn must_survive_each(&self, truth: &DeviceTruth) -> Vec<Pos> {
        let cut_ns = self.cut_ns.unwrap_or(0);
        let survives_kill = !self.power_cut && self.config.policies.relaxed_survives_kill;
        let must = |pos: &Pos| {
            let Some(write) = self.history.write(*pos) else {
                return false;
            };
            let Some(acknowledged) = write.origin.acknowledged_ns else {
                return false;
            };
            match write.status {
                WriteStatus::Durable => {
                    self.config.policies.empty_commit_covers || self.changes_certainly(*pos)
                }
                WriteStatus::Relaxed => {
                    let aged = self.aged_ns(acknowledged, truth);
                    let aged = aged.is_some_and(|aged| aged <= cut_ns);
                    let mut syncs = self.syncs.iter();
                    let must =
                        aged || survives_kill || syncs.any(|(_, _, op)| write.ended_op < *op);
                    must && !self.changes_nothing(*pos)
                }
                _ => false,
            }
        };
        self.positions_since_ground().filter(must).collect()
    }

    /// Whether it is open if a write took effect, although later ones did.
    pub(crate) fn is_optional(&self, pos: Pos) -> bool {
        self.history.keys_of(pos).iter().any(|&key| {
            let mut versions = self.history.state(key).versions().iter();
            versions.any(|version| version.pos == pos && version.optional)
        })
    }
}
