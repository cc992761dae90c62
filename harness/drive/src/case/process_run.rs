//! One process run of a device under the eyes of the oracle: power on, recovery, reading back, work. It can be cut after any event, and
//! whoever watches sees each moment at which a cut would be a case of its own.
//!
//! Invariant: the oracle is told of requests in the order in which they reach the guest, and before anything that follows from
//! them; watching changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_sim::api::{Reply, Request, RequestId};
use kvsim_sim::{Step, World};

use crate::case::source::Source;
use crate::case::transcript::Transcript;
use crate::pump::{OPENING, Pump, ReadBack};
use crate::stop::Stop;
use kvsim_oracle::{
    CheckConfig, Observation, Opening, Oracle, Property, Recovery, Symptom, Verification, Violation,
};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::CaseRequest;
use kvsim_workload::{ClientId, PRELOAD_WRITER};

/// Events that are waited for once all is answered: work of the guest's own that goes on behind.
const IDLE_EVENTS: u64 = 256;

/// What the guest is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// From power on until what it shows was judged.
    Recovering,
    /// Clients ask.
    Working,
}

/// A moment of a process run.
pub struct Seen<'a> {
    /// The world between two events.
    pub world: &'a World,
    /// What must survive.
    pub oracle: &'a Arc<Oracle>,
    /// What has been read back, if that is under way.
    pub reading: Option<&'a Verification>,
    /// Events of this process run.
    pub events: u64,
    /// Requests that clients have sent in it.
    pub sent: usize,
    /// What the guest is at.
    pub phase: Phase,
}

/// Whoever looks at a process run: called after every event that changes what a cut can leave or what must survive.
pub trait Watch {
    /// A moment at which a cut would be a case of its own.
    fn look(&mut self, seen: &Seen<'_>);
}

impl Watch for () {
    fn look(&mut self, _: &Seen<'_>) {}
}

impl<W: Watch> Watch for Option<W> {
    fn look(&mut self, seen: &Seen<'_>) {
        if let Some(watch) = self {
            watch.look(seen);
        }
    }
}

/// One process run under way.
pub struct ProcessRun<'a, W> {
    /// The guest in its world, and the oracle.
    pump: Pump,
    /// What clients ask.
    pub source: Source,
    /// Whoever looks on.
    pub watch: W,
    /// What clients have sent, in order.
    pub log: Vec<CaseRequest>,
    /// By what numbers the guest knows them.
    ids: Vec<RequestId>,
    check: &'a CheckConfig,
    /// Events after which it is given up as endless.
    events_max: u64,
    /// The world's events when it began.
    began: u64,
    /// Cut after so many events.
    until: u64,
    /// Cut after so many events of work.
    work_events: Option<u64>,
    /// Events of the recovery and of reading it back, once that is over.
    recovered_after: Option<u64>,
    phase: Phase,
    waiting: BTreeMap<RequestId, ClientId>,
    changes: u64,
    transcript: Option<Transcript>,
    /// Recoveries of which it could not be found out whether they are legal.
    pub undecided: u64,
}

impl<'a, W: Watch> ProcessRun<'a, W> {
    /// A process run in `world`, which has no guest, after so many crashes: judged as the scenario says, and for as many events as it grants.
    pub fn new(
        world: World,
        oracle: Arc<Oracle>,
        source: Source,
        scenario: &'a Scenario,
        crashes: u64,
        watch: W,
    ) -> Self {
        ProcessRun {
            began: world.events(),
            changes: world.storage().changes(),
            pump: Pump::new(world, oracle, crashes),
            source,
            watch,
            log: Vec::new(),
            ids: Vec::new(),
            check: &scenario.check,
            events_max: scenario.run.events_max,
            until: u64::MAX,
            work_events: None,
            recovered_after: None,
            phase: Phase::Recovering,
            waiting: BTreeMap::new(),
            transcript: None,
            undecided: 0,
        }
    }

    /// The world.
    pub fn world(&self) -> &World {
        &self.pump.world
    }

    /// What must survive.
    pub fn oracle(&self) -> &Arc<Oracle> {
        &self.pump.oracle
    }

    /// Cuts it after so many events of its own.
    pub fn cut_after(&mut self, events: u64) {
        self.until = events;
    }

    /// Cuts it so many events after its recovery was judged.
    pub fn cut_after_work(&mut self, events: u64) {
        self.work_events = Some(events);
    }

    /// After how many events its recovery was judged, if it was.
    pub fn recovered_after(&self) -> Option<u64> {
        self.recovered_after
    }

    /// Writes down what is asked and answered when it is read back.
    pub fn keep_transcript(&mut self) {
        self.transcript = Some(Transcript::default());
    }

    /// What was written down.
    pub fn take_transcript(&mut self) -> Option<Transcript> {
        let truth = self.pump.truth();
        let mut transcript = self.transcript.take()?;
        transcript.truth = truth;
        Some(transcript)
    }

    /// What clients have sent in this process run, with the numbers of the requests.
    pub fn sent_requests(&mut self) -> Vec<(RequestId, CaseRequest)> {
        let ids = std::mem::take(&mut self.ids);
        ids.into_iter().zip(std::mem::take(&mut self.log)).collect()
    }

    /// Events of this process run so far.
    pub fn events(&self) -> u64 {
        self.pump.world.events() - self.began
    }

    /// Whether the guest is open and what it shows was judged to be legal.
    pub fn is_recovered(&self) -> bool {
        self.phase == Phase::Working
    }

    /// Opens, lets the clients ask what they have to ask, and reads back when all is answered; all of it is judged.
    pub fn work_unread(&mut self) -> Result<(), Stop> {
        self.open()?;
        let now = self.pump.world.now();
        self.pump.oracle_mut().defer(now);
        for client in self.source.clients() {
            self.send_next(client);
        }
        self.until_answered("working before it was read back")?;
        let known = Arc::new(self.pump.oracle.for_late_reading());
        let seen = self.read_back(&known)?;
        let truth = self.pump.truth();
        self.pump.oracle_mut().judge_late(&seen, &truth)?;
        self.begin_work();
        Ok(())
    }

    /// A process run in which clients work before it is read back, up to its cut or its end; then they ask the rest.
    pub fn live_unread(&mut self, rest: &[CaseRequest]) -> Result<(), Stop> {
        match self.work_unread() {
            Err(Stop::Cut) => {
                let what = "the case cuts a process run before its recovery was read back";
                return Err(Stop::Invalid(what.to_owned()));
            }
            judged => judged?,
        }
        self.source = Source::listed(rest);
        self.work()
    }

    /// Opens and reads back.
    pub fn recover(&mut self) -> Result<Observation, Stop> {
        self.open()?;
        let known = Arc::clone(&self.pump.oracle);
        self.read_back(&known)
    }

    /// Reads back what an oracle knows of.
    fn read_back(&mut self, known: &Arc<Oracle>) -> Result<Observation, Stop> {
        let mut reading = ReadBack::new(known, self.check);
        while reading.ask(&mut self.pump, known, self.transcript.as_mut()) {
            match self.step("being read after a recovery") {
                Ok(Some(reply)) => reading.take(known, reply, self.transcript.as_mut()),
                Ok(None) => {}
                Err(Stop::Cut) => {
                    let seen = reading.finish();
                    if !self.pump.oracle.is_deferring() {
                        self.pump.oracle_mut().interrupted(&seen);
                    }
                    return Err(Stop::Cut);
                }
                Err(stop) => return Err(stop),
            }
            self.look(Some(reading.reading()), false);
        }
        Ok(reading.finish())
    }

    fn open(&mut self) -> Result<(), Stop> {
        self.pump.open()?;
        loop {
            if let Some(reply) = self.step("recovering")?
                && reply.id == OPENING
            {
                let opening = self.pump.oracle.opening(&reply, &self.pump.truth())?;
                return match opening {
                    Opening::Ready => Ok(()),
                    Opening::Damaged(message) => Err(Stop::Damaged(message)),
                    Opening::DeviceError(message) => Err(Stop::DeviceError(message)),
                    Opening::Rejected(message) => Err(Stop::Rejected(message)),
                };
            }
            self.look(None, false);
        }
    }

    /// Recovers, and tells what another recovery of the same device has to show again: nothing if the device has lied to this one.
    ///
    /// # Errors
    /// As [`ProcessRun::recover`].
    pub fn recover_reference(&mut self) -> Result<Option<Observation>, Stop> {
        let seen = self.recover()?;
        let truth = self.pump.truth();
        Ok((!self.pump.oracle.lied(&truth)).then_some(seen))
    }

    /// Judges what was read back, against another recovery of the same device if there was one, and lets it be the base of
    /// what comes.
    pub fn adopt(
        &mut self,
        seen: &Observation,
        reference: Option<&Observation>,
    ) -> Result<(), Stop> {
        let recovery = self.judge(seen, reference)?;
        let (now, truth) = (self.pump.world.now(), self.pump.truth());
        self.pump.oracle_mut().adopt(now, &recovery, seen, &truth);
        self.begin_work();
        Ok(())
    }

    /// What the guest shows was judged, and clients work from now on.
    fn begin_work(&mut self) {
        self.phase = Phase::Working;
        let events = self.events();
        self.recovered_after = Some(events);
        if let Some(work) = self.work_events {
            self.until = events.saturating_add(work);
        }
        // What was shown must survive from now on, so a cut here is a case of its own although no event has happened.
        self.look(None, true);
    }

    /// Judges what was read back, and lets the base be as it is.
    pub fn judge(
        &mut self,
        seen: &Observation,
        reference: Option<&Observation>,
    ) -> Result<Recovery, Stop> {
        let truth = self.pump.truth();
        if let Some(reference) = reference {
            self.pump.oracle.same_recovery(reference, seen, &truth)?;
        }
        let recovery = self.pump.oracle.judge(seen, &truth)?;
        self.undecided += u64::from(recovery.is_undecided());
        Ok(recovery)
    }

    /// Lets the clients ask all that they have to ask, and waits until all is answered and quiet.
    pub fn work(&mut self) -> Result<(), Stop> {
        while let Some(request) = self.source.preload() {
            self.send(0, PRELOAD_WRITER, request);
            self.until_answered("loading records")?;
        }
        for client in self.source.clients() {
            self.send_next(client);
        }
        self.until_answered("working")?;
        for _ in 0..IDLE_EVENTS {
            self.check_end()?;
            match self.pump.world.step() {
                Ok(Step::Quiet) => break,
                Ok(_) => {
                    let late = self.pump.take_held()?;
                    self.look(None, late);
                }
                Err(error) => return Err(Stop::of(&error, self.pump.crashes, "idle")),
            }
        }
        Ok(())
    }

    /// Closes the guest cleanly: nobody asks any more, and all is answered.
    pub fn close(&mut self) -> Result<(), Stop> {
        self.until = u64::MAX;
        self.source = Source::listed(&[]);
        self.send(0, PRELOAD_WRITER, Request::Close);
        self.until_answered("closing")
    }

    fn until_answered(&mut self, doing: &str) -> Result<(), Stop> {
        while self.pump.unanswered() > 0 {
            let Some(reply) = self.step(doing)? else {
                let late = self.pump.take_held()?;
                self.look(None, late);
                continue;
            };
            // The client goes on as it did, whenever the answer counts: the course of events stays the same.
            self.pump.take(&reply)?;
            if let Some(client) = self.waiting.remove(&reply.id) {
                self.source.replied(client, &reply);
                if client != PRELOAD_WRITER {
                    self.send_next(client);
                }
            }
            self.look(None, true);
        }
        Ok(())
    }

    fn send_next(&mut self, client: ClientId) {
        if let Some((think_ns, request)) = self.source.next(client) {
            self.send(think_ns, client, request);
        }
    }

    fn send(&mut self, think_ns: u64, client: ClientId, request: Request) {
        let at = self.pump.world.now() + think_ns;
        self.log.push(CaseRequest {
            client,
            think_ns,
            request: request.clone(),
        });
        let id = self.pump.send(at, client, request, 0);
        self.ids.push(id);
        self.waiting.insert(id, client);
    }

    fn check_end(&self) -> Result<(), Stop> {
        match self.events() {
            events if events >= self.until => Err(Stop::Cut),
            events if events >= self.events_max => Err(Stop::OutOfEvents),
            _ => Ok(()),
        }
    }

    /// Lets one event happen, unless the run ends here.
    fn step(&mut self, doing: &str) -> Result<Option<Reply>, Stop> {
        self.check_end()?;
        self.pump.step(doing)
    }

    /// Shows this moment if a cut here differs from one at the moment shown last.
    fn look(&mut self, reading: Option<&Verification>, answered: bool) {
        let changes = self.pump.world.storage().changes();
        if changes == self.changes && !answered {
            return;
        }
        self.changes = changes;
        self.pump.arrived();
        self.watch.look(&Seen {
            world: &self.pump.world,
            oracle: &self.pump.oracle,
            reading,
            events: self.events(),
            sent: self.log.len(),
            phase: self.phase,
        });
    }

    /// The plug is about to be pulled: tells the oracle of every request that has arrived.
    pub fn end(mut self) -> (World, Arc<Oracle>, W) {
        self.pump.arrived();
        (self.pump.world, self.pump.oracle, self.watch)
    }
}

/// A device that opened before a recovery was cut short, and does not open after that cut: the cut is to blame.
pub fn blame_the_crash(violation: &mut Violation, opened_before: bool) {
    let refused = matches!(
        violation.symptom,
        Symptom::RefusedToOpen | Symptom::FalseAlarm
    );
    if opened_before && refused {
        violation.property = Property::RecoveryIdempotent;
        violation
            .sentence
            .push_str("; before a crash cut the recovery short, the same device opened");
    }
}
