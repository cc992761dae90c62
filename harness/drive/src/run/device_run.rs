//! One device from its first power on to its end, with everything that watches it: the world, the oracle, the clients.

use std::sync::Arc;

use kvsim_sim::api::{Reply, Request, RequestId};
use kvsim_sim::{Program, TraceMode, World};
use kvsim_simdisk::{CrashKind, Nanos};

use super::result::{Halt, Tracing};
use crate::pump::{Pump, ReadBack};
use crate::tally::Tally;
use kvsim_oracle::{CheckConfig, Ending, Observation, Oracle};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::{CaseCrash, CaseRequest, CaseRun};
use kvsim_scenario::setup;
use kvsim_workload::{ClientId, PRELOAD_WRITER, Workload};

/// What the world around one device is doing.
pub(super) struct DeviceRun {
    /// The guest in its world, and the oracle.
    pub(super) pump: Pump,
    pub(super) workload: Workload,
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
            pump: Pump::new(world, Arc::new(Oracle::new(config)), 0),
            workload,
            steps: keeps_steps.then(Steps::default),
        })
    }

    pub(super) fn now(&self) -> Nanos {
        self.pump.world.now()
    }

    /// Switches on: a fresh instance begins to open what the device holds.
    pub(super) fn open(&mut self) -> Result<(), Halt> {
        if let Some(steps) = &mut self.steps {
            steps.began = self.pump.world.events();
            steps.process_runs.push(CaseRun::default());
        }
        Ok(self.pump.open()?)
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
        self.pump.send(at, client, request, turn_ns)
    }

    fn keep(&mut self, at: Nanos, client: ClientId, request: &Request) {
        let events = self.pump.world.events();
        let Some(steps) = &mut self.steps else { return };
        let Some(device_run) = steps.process_runs.last_mut() else {
            return;
        };
        if (client, request) == (PRELOAD_WRITER, &Request::Close) {
            device_run.close_after_event = Some(events - steps.began);
        } else {
            device_run.requests.push(CaseRequest {
                client,
                think_ns: at.saturating_sub(self.pump.world.now()),
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

    /// Lets one event happen; the reply, if it was one.
    pub(super) fn step(&mut self, doing: &str) -> Result<Option<Reply>, Halt> {
        Ok(self.pump.step(doing)?)
    }

    /// Hands a client's reply to the oracle.
    pub(super) fn judge_reply(&mut self, reply: &Reply) -> Result<(), Halt> {
        Ok(self.pump.take(reply)?)
    }

    /// Reads back what an oracle knows of, up to so many events of the world; what was seen, and whether it was all.
    pub(super) fn read_back(
        &mut self,
        known: &Oracle,
        check: &CheckConfig,
        until: u64,
    ) -> Result<(Observation, bool), Halt> {
        let mut reading = ReadBack::new(known, check);
        while reading.ask(&mut self.pump, known, None) {
            if self.pump.world.events() >= until {
                return Ok((reading.finish(), false));
            }
            if let Some(reply) = self.step("being read after a recovery")? {
                reading.take(known, reply, None);
            }
        }
        Ok((reading.finish(), true))
    }

    /// Ends the process run; requests that have not arrived never will.
    pub(super) fn crash(&mut self, kind: CrashKind, ending: Ending, tally: &mut Tally) {
        self.pump.end();
        let now = self.now();
        let events = self.pump.world.events();
        let to_lose = match kind {
            CrashKind::Power => !self.pump.world.storage().nothing_pending(),
            CrashKind::Process => self.pump.oracle.outstanding() > 0,
        };
        let report = self.pump.world.crash(kind);
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
            self.pump.crashes += 1;
            tally.crashes_in_a_row = tally.crashes_in_a_row.max(self.pump.crashes);
            tally.crashes_with_pending += u64::from(to_lose);
            match kind {
                CrashKind::Power => tally.power_cuts += 1,
                CrashKind::Process => tally.process_kills += 1,
            }
        }
        self.pump.oracle_mut().stopped(now, ending);
        self.workload.crashed();
    }
}
