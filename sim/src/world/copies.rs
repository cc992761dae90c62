//! Copies of a world: a moment that can be cut any number of times, and a fork to try something on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kvsim_simdisk::{CrashError, CrashKind, CrashState, Nanos, Slowest};

use super::{Idle, VainTicks, World, WorldConfig};
use crate::api::RequestId;
use crate::guest::Program;
use crate::storage::Storage;
use crate::trace::{Trace, TraceMode};

/// A world caught between two events, without its guest: what is left when the plug is pulled there, any number of times.
#[derive(Clone)]
pub struct Moment {
    program: Arc<dyn Program>,
    config: Arc<WorldConfig>,
    storage: Storage,
    now: Nanos,
    next_request: RequestId,
    events: u64,
    fuel: u64,
    slowest_calls: Slowest,
    process_run: u64,
}

impl std::fmt::Debug for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Moment(event {}, {} ns)", self.events, self.now)
    }
}

impl Moment {
    /// The storage as it was.
    #[must_use]
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The world after a crash at this moment, equal to the one in which it would have happened but for its trace, which
    /// is not kept.
    ///
    /// # Errors
    /// If the storage could not have left this.
    pub fn crashed(&self, kind: CrashKind, state: &CrashState) -> Result<World, CrashError> {
        let mut storage = self.storage.clone();
        storage.crash(self.now, kind, state)?;
        Ok(World {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage,
            guest: None,
            now: self.now,
            cpu_free_at: self.now,
            arrivals: BTreeMap::new(),
            outbox: VecDeque::new(),
            wake_at: None,
            vain: VainTicks::default(),
            idle: Idle::default(),
            opened: false,
            next_request: self.next_request,
            outstanding: 0,
            events: self.events,
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            fuel: self.fuel,
            slowest_calls: self.slowest_calls.clone(),
            process_run: self.process_run,
            coverage_points: Vec::new(),
            trace: Trace::new(TraceMode::Off),
            called_at: self.now,
            syncing: None,
            has_steps: true,
            interventions: Vec::new(),
            awaited: BTreeSet::new(),
            traced_ops: BTreeSet::new(),
            traced: BTreeMap::new(),
        })
    }
}

impl World {
    /// A copy with a copy of the storage, to try something on. Its trace begins empty and keeps nothing.
    ///
    /// # Panics
    /// If a process run is under way: a running guest cannot be copied.
    #[must_use]
    pub fn fork(&self) -> World {
        assert!(self.guest.is_none(), "a running guest cannot be copied");
        World {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage: self.storage.clone(),
            guest: None,
            arrivals: BTreeMap::new(),
            outbox: VecDeque::new(),
            coverage_points: Vec::new(),
            trace: Trace::new(TraceMode::Hash),
            syncing: None,
            interventions: Vec::new(),
            awaited: BTreeSet::new(),
            traced_ops: BTreeSet::new(),
            traced: BTreeMap::new(),
            handed_in: VecDeque::new(),
            unanswered: BTreeSet::new(),
            slowest_calls: self.slowest_calls.clone(),
            ..*self
        }
    }

    /// What a cut at this moment would begin from. Costs a copy of the storage, which shares its contents.
    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment {
            program: Arc::clone(&self.program),
            config: Arc::clone(&self.config),
            storage: self.storage.clone(),
            now: self.now,
            next_request: self.next_request,
            events: self.events,
            fuel: self.fuel,
            slowest_calls: self.slowest_calls.clone(),
            process_run: self.process_run,
        }
    }
}
