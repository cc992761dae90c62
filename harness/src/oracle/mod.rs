//! The oracle: judges what a guest says against what it owes. Pure and deterministic; it sees only what a client sees.
//!
//! It is fed, in this order and in virtual time:
//! - [`Oracle::handed_in`] for each request of a client when it reaches the guest: that order is the commit order;
//! - [`Oracle::replied`] for each answer;
//! - [`Oracle::stopped`] when the guest is gone, by a crash or after a close;
//! - [`Oracle::opened`] for the answer to an opening;
//! - what a [`Verification`] read back: [`Oracle::judge`] says whether it is legal, [`Oracle::adopt`] makes it the new base. Judging
//!   changes nothing, so that one oracle can judge any number of crash states of one moment, from many threads.
//!
//! A legal state is the base, which is what the last recovery showed, with the writes W1…Wp in the order of their hand-in
//! applied, for one p that is at least the last write acknowledged as durable. Finding p costs one pass over the writes
//! since the base: each key that was touched allows some intervals of p, and p must lie in one of each.
//!
//! **When the device lies** no engine can keep every promise, so some loss is excused and counted:
//! - a flush that did nothing: everything since may be gone, and what stood on it too: any older prefix of the history is legal;
//! - damage to the medium: a bad last record is the same bytes as a torn one, unless something that was written later shows that it was
//!   acknowledged. So a write may be silently gone unless there is a *witness*: a write that was handed in after it was acknowledged and is
//!   owed itself, or an opening that showed it, and nothing that was written for that has come to harm (the ambiguity of the tail: Alagappan,
//!   Ganesan, Lee, Albarghouthi, Chidambaram, Arpaci-Dusseau and Arpaci-Dusseau, *Protocol-Aware Recovery for Consensus-Based Storage*,
//!   FAST 2018);
//! - a report of damage is always accepted.
//!
//! **Where a flush only orders** a power cut may lose an end of the commit order (`barrier.rs`).
//!
//! Never excused: wrong bytes, another key's value, a state that is no prefix. And a report without any lie is a false alarm.

mod any_order;
mod barrier;
mod classify;
mod config;
mod deferred;
mod history;
mod keys;
mod limits;
mod must_survive;
mod observation;
mod opening;
mod property;
mod reading;
mod recovery;
mod refusal;
mod running;
mod sane;
mod shared;
mod shown;
mod space;
mod truth;
mod verify;
mod violation;
mod words;

pub use config::CheckConfig;
pub(crate) use keys::printable;
pub use limits::Limits;
#[cfg(test)]
pub(crate) use limits::{BATCH_BYTES_SURE, MUTATION_BYTES};
pub(crate) use limits::{KEY_BYTES_SURE, VALUE_BYTES_SURE};
pub use observation::Observation;
pub use opening::Opening;
pub use property::Property;
pub use recovery::Recovery;
pub use sane::{GuestFault, insane};
pub use truth::{DeviceTruth, RunFaults};
pub use verify::{Token, Verification};
pub(crate) use violation::Class;
pub use violation::{Facts, Symptom, Violation};

use barrier::OnMedium;
use deferred::Deferred;
use history::{History, Pos};
use keys::{Content, KeyId};
use kvsim_sim::api::{RequestId, SnapshotId};
use kvsim_sim::{CommitOrder, GuestPolicies, RecoverySurvives};
use kvsim_simdisk::{CrashKind, Nanos};
use reading::{Provisional, Snapshot};
use running::Outstanding;
use serde::{Deserialize, Serialize};
use space::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// How an incarnation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The power was cut.
    Crash,
    /// The process was killed. The device keeps all that was submitted.
    Kill,
    /// It was closed in good order.
    Close,
}

impl Ending {
    /// How a crash of this kind ends it.
    #[must_use]
    pub fn of(kind: CrashKind) -> Ending {
        match kind {
            CrashKind::Power => Ending::Crash,
            CrashKind::Process => Ending::Kill,
        }
    }
}

/// What was checked, and what was excused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Writes acknowledged as durable.
    pub acknowledged_durable: u64,
    /// Writes acknowledged as accepted.
    pub acknowledged_relaxed: u64,
    /// Writes that failed for certain.
    pub failed: u64,
    /// Writes that failed and may yet be there.
    pub uncertain: u64,
    /// Gets and scans of clients whose answers were judged.
    pub reads_judged: u64,
    /// Recoveries judged and adopted.
    pub recoveries: u64,
    /// Writes acknowledged as durable that a recovery was held to.
    pub durable_checked: u64,
    /// Writes acknowledged as accepted that were there or not when a recovery was judged.
    pub relaxed_checked: u64,
    /// Of these, lost, as they may be.
    pub relaxed_lost: u64,
    /// Unacknowledged writes that a recovery showed.
    pub unacknowledged_kept: u64,
    /// Unacknowledged writes that a recovery did not show.
    pub unacknowledged_lost: u64,
    /// Writes acknowledged as durable whose loss was excused: by a lie of the device, or by a flush that only orders.
    pub excused_losses: u64,
    /// Ill-formed requests that were answered.
    pub ill_formed_refused: u64,
    /// Recoveries whose search for an explanation was given up: neither legal nor a violation.
    pub undecided: u64,
    /// Reports of damage or device errors, by openings, reads and writes, that a fault excused.
    pub reports_accepted: u64,
}

/// Settings of an oracle that hold for a whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OracleConfig {
    /// The device may lie or lose what it has flushed: keep all history, since that may uncover any of it.
    pub keep_history: bool,
    /// A flush of the device only orders. Needs all history.
    pub flush_only_orders: bool,
    /// Relaxed writes acknowledged longer ago than this at a crash must survive it.
    pub relaxed_window_ns: Option<Nanos>,
    /// Slack granted on top of the window.
    pub relaxed_slack_ns: Nanos,
    /// What the guest promises.
    pub policies: GuestPolicies,
    /// What it must take and must refuse.
    pub limits: Limits,
}

/// Judges one guest on one device, over all its incarnations.
#[derive(Debug, Clone)]
pub struct Oracle {
    config: OracleConfig,
    history: History,
    counts: Counts,
    /// Requests handed in, over all incarnations.
    ops: u64,
    crashes: u64,
    outstanding: BTreeMap<RequestId, Outstanding>,
    /// The operation that asked for the end of this process run.
    closing: Option<u64>,
    /// Shared between clones until a write comes in.
    space: Arc<Space>,
    snapshots: BTreeMap<SnapshotId, Snapshot>,
    /// The numbers of all snapshots that were taken in this process run.
    snapshot_ids: BTreeSet<SnapshotId>,
    /// The longest key and value together that was ever handed in.
    largest_entry_bytes: usize,
    provisional: Vec<Provisional>,
    /// Acknowledged syncs and closes since the base: up to where, when, and which op.
    syncs: Vec<(Pos, Nanos, u64)>,
    /// The first end of an incarnation since the base.
    cut_ns: Option<Nanos>,
    /// From when to when the opening was that showed the base, with those before it that were cut short.
    base_began_ns: Nanos,
    base_ns: Nanos,
    /// Flush lies that had fired then.
    base_flush_lies: u64,
    /// What the device holds for certain although its flush only orders.
    on_medium: OnMedium,
    /// Whether the power was cut since the base was shown, or the guest closed.
    power_cut: bool,
    /// Whether the process was killed since then.
    killed: bool,
    /// Whether the last end was a power cut that may have taken back what a recovery before it had shown.
    shown_is_void: bool,
    /// Up to where a recovery after a killed process has shown the writes since the base: a kill must not take them back.
    shown_pos: Pos,
    /// What recoveries that were cut short had shown since the base.
    pinned: Vec<(KeyId, Content)>,
    /// Keys that a recovery of this incarnation has read: a later surprise about others is the recovery's.
    verified: Vec<bool>,
    next_window: Option<Vec<u8>>,
    /// What clients do before a recovery was read back.
    deferred: Option<Deferred>,
}

impl Oracle {
    /// An oracle for an empty device.
    #[must_use]
    pub fn new(config: OracleConfig) -> Self {
        Oracle {
            config,
            history: History::new(config.keep_history),
            counts: Counts::default(),
            ops: 0,
            crashes: 0,
            outstanding: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            closing: None,
            space: Arc::default(),
            snapshot_ids: BTreeSet::new(),
            largest_entry_bytes: 0,
            provisional: Vec::new(),
            syncs: Vec::new(),
            cut_ns: None,
            base_began_ns: 0,
            base_ns: 0,
            base_flush_lies: 0,
            on_medium: OnMedium::default(),
            power_cut: false,
            killed: false,
            shown_is_void: false,
            shown_pos: 0,
            pinned: Vec::new(),
            verified: Vec::new(),
            next_window: None,
            deferred: None,
        }
    }

    /// What was checked so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Requests handed in and not answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        let deferred = self.deferred.as_ref();
        let waiting = deferred.map_or(0, |deferred| deferred.handed_in - deferred.replied);
        self.outstanding.len() + usize::try_from(waiting).unwrap_or(usize::MAX)
    }

    /// The operation number of a request that is not answered yet.
    #[must_use]
    pub fn op_of(&self, id: RequestId) -> Option<u64> {
        self.outstanding.get(&id).map(|outstanding| outstanding.op)
    }

    /// The incarnation is over: what is unanswered stays so, and snapshots are gone.
    ///
    /// What counts is the first end since the last adopted recovery: recoveries that were cut short themselves do not age a relaxed write.
    pub fn stopped(&mut self, now: Nanos, ending: Ending) {
        if ending != Ending::Close {
            self.crashes += 1;
        }
        if ending != Ending::Kill {
            let may_take_back =
                self.config.policies.recovery_survives == RecoverySurvives::PowerCut;
            self.shown_is_void = may_take_back && !self.power_cut && self.killed;
            if self.shown_is_void {
                self.pinned.clear();
            }
            self.power_cut = true;
        } else {
            self.shown_is_void = false;
        }
        self.killed |= ending == Ending::Kill;
        self.cut_ns.get_or_insert(now);
        self.outstanding.clear();
        self.snapshots.clear();
        self.closing = None;
        self.snapshot_ids.clear();
        self.provisional.clear();
        self.verified.clear();
    }

    /// Whether the kill of the process obliges the guest to other things than a power cut at the same moment.
    #[must_use]
    pub fn tells_kills_apart(&self) -> bool {
        let policies = &self.config.policies;
        policies.relaxed_survives_kill || policies.recovery_survives == RecoverySurvives::PowerCut
    }

    /// Whether the time of a crash counts in itself: relaxed writes have a window.
    #[must_use]
    pub fn has_window(&self) -> bool {
        self.config.relaxed_window_ns.is_some() && self.counts.acknowledged_relaxed > 0
    }

    /// A hash of everything that [`Oracle::judge`] depends on but the observation: two moments with the same fingerprint
    /// owe the same. Ask after [`Oracle::stopped`].
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hash = Xxh3::new();
        let mut take = |number: u64| hash.update(&number.to_le_bytes());
        self.history.feed(&mut take);
        self.feed_medium(&mut take);
        let truth = DeviceTruth::default();
        take(u64::from(self.owed(None, &truth).pos));
        take(u64::from(self.power_cut) << 1 | u64::from(self.killed));
        if self.config.policies.commit_order == CommitOrder::Any {
            self.feed_order(&truth, &mut take);
        }
        for (key, content) in &self.pinned {
            take(u64::from(*key));
            take(content.number());
        }
        hash.digest()
    }
}
