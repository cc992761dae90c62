//! One device from its first power on to its end, with everything that watches it: the world, the oracle, the clients.
//!
//! Invariant: the oracle is told of requests in the order in which they reach the guest, which is the commit order, and
//! before anything that follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_sim::api::{Reply, Request, RequestId};
use kvsim_sim::{GuestError, Program, Step, TraceMode, World, WorldError};
use kvsim_simdisk::{CrashKind, Nanos};

use super::result::{Halt, Tracing};
use crate::tally::Tally;
use crate::timeline::words;
use kvsim_oracle::{DeviceTruth, Ending, GuestFault, Oracle, RunFaults, misbehaved};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{CaseCrash, CaseRequest, CaseRun};
use kvsim_scenario::setup;
use kvsim_workload::{ClientId, PRELOAD_WRITER, Workload};

/// What the world around one device is doing.
pub(super) struct DeviceRun {
    pub(super) world: World,
    pub(super) oracle: Oracle,
    pub(super) workload: Workload,
    /// Requests on their way, which the guest has not seen yet: when they arrive, and who sent them.
    coming: BTreeSet<(Nanos, RequestId)>,
    sent: BTreeMap<RequestId, (ClientId, Request)>,
    /// What had affected the device when the guest was started.
    started: RunFaults,
    /// Crashes of this device.
    pub(super) crashes: u64,
    /// What was done to this device, as a case says it, if that is kept.
    pub(super) steps: Option<Steps>,
}

/// What was done to a device so far.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) process_runs: Vec<CaseRun>,
    /// World events when the last of them began.
    began: u64,
}

/// What a step came to.
pub(super) enum Progress {
    /// A reply.
    Reply(Reply),
    /// Something else.
    Event,
}

impl DeviceRun {
    /// A new device, switched on for the first time.
    pub(super) fn new(
        scenario: &Scenario,
        program: &Arc<dyn Program>,
        seed: u64,
        tracing: Tracing,
        keeps_steps: bool,
    ) -> Result<DeviceRun, Halt> {
        let trace = match tracing {
            Tracing::HashOnly => TraceMode::Hash,
            Tracing::Keep | Tracing::Record => TraceMode::Full,
        };
        let config = setup::world_config(scenario, program.as_ref(), seed, trace);
        let world = World::new(Arc::clone(program), config)
            .map_err(|error| Halt::Invalid(error.to_string()))?;
        let lies = setup::lies(scenario, &[]);
        let config = setup::oracle_config(scenario, program.as_ref(), lies);
        let workload = setup::workload(scenario, program.as_ref(), seed)
            .map_err(|error| Halt::Invalid(error.to_string()))?
            .knowing(config.limits.known());
        Ok(DeviceRun {
            world,
            oracle: Oracle::new(config),
            workload,
            coming: BTreeSet::new(),
            sent: BTreeMap::new(),
            started: RunFaults::default(),
            crashes: 0,
            steps: keeps_steps.then(Steps::default),
        })
    }

    pub(super) fn now(&self) -> Nanos {
        self.world.now()
    }

    pub(super) fn truth(&self) -> DeviceTruth {
        DeviceTruth::of(self.world.storage(), self.started)
    }

    /// Switches on: a fresh instance begins to open what the device holds.
    pub(super) fn open(&mut self) -> Result<(), Halt> {
        let crashes = self.crashes;
        self.started = RunFaults::of(self.world.storage());
        if let Some(steps) = &mut self.steps {
            steps.began = self.world.events();
            steps.process_runs.push(CaseRun::default());
        }
        self.world.open().map_err(|error| match error {
            WorldError::Guest(error) => guest_error(&error, crashes, "being started"),
            other => Halt::Invalid(other.to_string()),
        })
    }

    /// Sends a client's request, to arrive at `at`; `turn_ns`: what bringing it onto the processor takes, should it have to wait.
    pub(super) fn send(
        &mut self,
        at: Nanos,
        client: ClientId,
        request: Request,
        turn_ns: Nanos,
    ) -> RequestId {
        self.keep(at, client, &request);
        let id = self.world.submit_in_turn(at, request.clone(), turn_ns);
        self.world
            .note_request(id, || words::asked(Some(client), &request));
        self.coming.insert((at, id));
        self.sent.insert(id, (client, request));
        id
    }

    fn keep(&mut self, at: Nanos, client: ClientId, request: &Request) {
        let events = self.world.events();
        let Some(steps) = &mut self.steps else { return };
        let Some(device_run) = steps.process_runs.last_mut() else {
            return;
        };
        if (client, request) == (PRELOAD_WRITER, &Request::Close) {
            device_run.close_after_event = Some(events - steps.began);
        } else {
            device_run.requests.push(CaseRequest {
                client,
                think_ns: at.saturating_sub(self.world.now()),
                request: request.clone(),
            });
        }
    }

    /// Notes that what was sent in this process run so far came before its recovery was read back.
    pub(super) fn note_read(&mut self) {
        if let Some(device_run) = self
            .steps
            .as_mut()
            .and_then(|steps| steps.process_runs.last_mut())
        {
            device_run.read_after_requests = Some(device_run.requests.len() as u64);
        }
    }

    /// Sends a request of the driver's own, of which the oracle is not told: the reading back after a recovery.
    pub(super) fn ask(&mut self, request: Request) -> RequestId {
        let now = self.now();
        let asked = self
            .world
            .trace()
            .keeps_events()
            .then(|| words::asked(None, &request));
        let id = self.world.submit(now, request);
        if let Some(asked) = asked {
            self.world.note_request(id, || asked);
        }
        id
    }

    /// Requests of clients that are not answered.
    pub(super) fn unanswered(&self) -> u64 {
        (self.oracle.outstanding() + self.coming.len()) as u64
    }

    /// Lets one event happen. `doing` is what the guest is at, should it fail; a guest that will never do anything again while
    /// a request is unanswered is a violation.
    pub(super) fn step(&mut self, doing: &str) -> Result<Progress, Halt> {
        match self.world.step() {
            Ok(Step::Reply(reply)) => {
                self.world.note(|| words::answered(&reply));
                self.arrived();
                Ok(Progress::Reply(reply))
            }
            Ok(Step::Event) => Ok(Progress::Event),
            Ok(Step::Quiet) => {
                self.arrived();
                let unanswered = self.unanswered().max(1);
                Err(Halt::Violation(misbehaved(
                    &GuestFault::Stalled { unanswered },
                    self.crashes,
                    doing,
                )))
            }
            Err(error) => Err(guest_error(&error, self.crashes, doing)),
        }
    }

    /// Hands a client's reply to the oracle.
    pub(super) fn judge_reply(&mut self, reply: &Reply) -> Result<(), Halt> {
        let truth = self.truth();
        self.oracle
            .replied(self.world.now(), reply, &truth)
            .map_err(Halt::Violation)
    }

    /// Tells the oracle of every request that has reached the guest by now.
    fn arrived(&mut self) {
        let now = self.now();
        while let Some(&(at, id)) = self.coming.first().filter(|(at, _)| *at <= now) {
            self.coming.pop_first();
            if let Some((client, request)) = self.sent.remove(&id) {
                let number = self.oracle.handed_in(at, client, id, &request);
                self.world.note_number(id, number);
            }
        }
    }

    /// Ends the process run; requests that have not arrived never will.
    pub(super) fn crash(&mut self, kind: CrashKind, ending: Ending, tally: &mut Tally) {
        self.arrived();
        self.coming.clear();
        self.sent.clear();
        let now = self.now();
        let events = self.world.events();
        let to_lose = match kind {
            CrashKind::Power => !self.world.storage().nothing_pending(),
            CrashKind::Process => self.oracle.outstanding() > 0,
        };
        let report = self.world.crash(kind);
        if let Some(steps) = &mut self.steps
            && let Some(device_run) = steps.process_runs.last_mut()
        {
            device_run.crash = Some(CaseCrash {
                after_event: events - steps.began,
                kind,
                persisted: report.state.persisted,
            });
        }
        if ending != Ending::Close {
            self.crashes += 1;
            tally.crashes_in_a_row = tally.crashes_in_a_row.max(self.crashes);
            tally.crashes_with_pending += u64::from(to_lose);
            match kind {
                CrashKind::Power => tally.power_cuts += 1,
                CrashKind::Process => tally.process_kills += 1,
            }
        }
        self.oracle.stopped(now, ending);
        self.workload.crashed();
    }
}

/// What a guest's failure means for the run.
pub(super) fn guest_error(error: &GuestError, crashes: u64, doing: &str) -> Halt {
    match GuestFault::of(error) {
        Some(fault) => Halt::Violation(misbehaved(&fault, crashes, doing)),
        None => Halt::Invalid(error.to_string()),
    }
}
