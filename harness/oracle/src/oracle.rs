//! The oracle: judges what a guest says against what it must keep. Pure and deterministic; it sees only what a client sees.
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
//!   acknowledged. So a write may be silently gone unless a *later proof of durability* exists. A later write proves durability if it must
//!   survive and no write between its submission and that moment was damaged; so does an opening that showed the write. (The ambiguity
//!   of the tail: Alagappan, Ganesan, Lee, Albarghouthi, Chidambaram, Arpaci-Dusseau and Arpaci-Dusseau, *Protocol-Aware Recovery for
//!   Consensus-Based Storage*, FAST 2018.)
//! - a report of damage is always accepted.
//!
//! **Where a flush only orders** a power cut may lose an end of the commit order (`barrier.rs`).
//!
//! Never excused: wrong bytes, another key's value, a state that is no prefix. And a report without any lie is a false alarm.

use crate::answers::limits::Limits;
use crate::answers::space::Space;
use crate::history::{History, Pos};
use crate::keys::{Content, KeyId};
use crate::recoveries::shown::Shown;
use crate::state::deferred::Deferred;
use crate::state::excuses::Before;
use crate::state::medium::OnMedium;
use crate::state::outstanding::Outstanding;
use crate::state::views::{Provisional, Snapshot};
use crate::truth::RunFaults;
use kvsim_sim::api::{RequestId, SnapshotId};
use kvsim_sim::{GuestPolicies, Offers, RecoverySurvives};
use kvsim_simdisk::{CrashKind, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a process run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The power was cut.
    Crash,
    /// The process was killed. The device keeps all that was submitted.
    Kill,
    /// It was closed cleanly.
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
    /// What it can be asked for.
    pub offers: Offers,
}

/// Judges one guest on one device, over all its process runs.
#[derive(Debug, Clone)]
pub struct Oracle {
    pub(crate) config: OracleConfig,
    pub(crate) history: History,
    pub(crate) counts: Counts,
    /// Requests handed in, over all process runs.
    pub(crate) ops: u64,
    pub(crate) crashes: u64,
    pub(crate) outstanding: BTreeMap<RequestId, Outstanding>,
    /// The operation that asked for the end of this process run.
    pub(crate) closing: Option<u64>,
    /// Shared between clones until a write comes in.
    pub(crate) space: Arc<Space>,
    pub(crate) snapshots: BTreeMap<SnapshotId, Snapshot>,
    /// The numbers of all snapshots that were taken in this process run.
    pub(crate) snapshot_ids: BTreeSet<SnapshotId>,
    /// The longest key and value together that was ever handed in.
    pub(crate) largest_entry_bytes: usize,
    pub(crate) provisional: Vec<Provisional>,
    /// Acknowledged syncs and closes since the base: up to where, when, and which op.
    pub(crate) syncs: Vec<(Pos, Nanos, u64)>,
    /// The first end of a process run since the base.
    pub(crate) cut_ns: Option<Nanos>,
    /// From when to when the opening was that showed the base, with those before it that were cut short.
    pub(crate) base_began_ns: Nanos,
    pub(crate) base_ns: Nanos,
    /// What excuses nothing any more.
    pub(crate) before: Before,
    /// What had affected the device in this process run when the guest last answered.
    pub(crate) faults_seen: RunFaults,
    /// What the device holds for certain although its flush only orders.
    pub(crate) on_medium: OnMedium,
    /// Whether the power was cut since the base was shown, or the guest closed.
    pub(crate) power_cut: bool,
    /// Whether the process was killed since then.
    pub(crate) killed: bool,
    /// Whether the last end was a power cut that may have taken back what a recovery before it had shown.
    pub(crate) shown_is_void: bool,
    /// What a recovery after a killed process has shown since the base: a kill must not take it back.
    pub(crate) shown: Shown,
    /// What recoveries that were cut short had shown since the base.
    pub(crate) pinned: Vec<(KeyId, Content)>,
    /// Keys that a recovery of this process run has read: a later surprise about others is the recovery's.
    pub(crate) verified: Vec<bool>,
    pub(crate) next_window: Option<Vec<u8>>,
    /// What clients do before a recovery was read back.
    pub(crate) deferred: Option<Deferred>,
}

impl Oracle {
    /// An oracle for an empty device.
    #[must_use]
    pub fn new(config: OracleConfig) -> Self {
        Oracle {
            config,
            history: History::new(config.keep_history, config.flush_only_orders),
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
            before: Before::default(),
            faults_seen: RunFaults::default(),
            on_medium: OnMedium::default(),
            power_cut: false,
            killed: false,
            shown_is_void: false,
            shown: Shown::default(),
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

    /// The process run is over: what is unanswered stays so, and snapshots are gone.
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
        self.faults_seen = RunFaults::default();
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
}
