//! One process run of a device under the eyes of the oracle: power on, recovery, reading back, work. It can be cut after any event, and
//! whoever watches sees each moment at which a cut would be a case of its own.
//!
//! Invariant: the oracle is told of requests in the order in which they reach the guest, and before anything that follows from
//! them; watching changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_sim::api::{Reply, Request, RequestId};
use kvsim_sim::{GuestError, Step, World, WorldError};
use kvsim_simdisk::Nanos;

use crate::case::source::Source;
use crate::case::transcript::Transcript;
use crate::timeline::words;
use kvsim_oracle::{
    CheckConfig, DeviceTruth, GuestFault, Observation, Opening, Oracle, Property, Recovery,
    RunFaults, Symptom, Token, Verification, Violation, misbehaved,
};
use kvsim_scenario::Scenario;
use kvsim_scenario::case::CaseRequest;
use kvsim_workload::{ClientId, PRELOAD_WRITER};

/// The request that stands for the opening itself.
pub(super) const OPENING: RequestId = 0;
/// Events that are waited for once all is answered: work of the guest's own that goes on behind.
const IDLE_EVENTS: u64 = 256;

/// Why a process run ended early.
#[derive(Debug)]
pub enum Stop {
    /// A property does not hold.
    Violation(Box<Violation>),
    /// The guest reports damage, and the device's faults explain it.
    Damaged(String),
    /// The guest met a device error while it opened.
    DeviceError(String),
    /// The guest does not take its options.
    Rejected(String),
    /// Something of ours failed.
    Invalid(String),
    /// It takes too many events.
    OutOfEvents,
    /// The event has come at which it is to be cut.
    Cut,
}

impl From<Box<Violation>> for Stop {
    fn from(violation: Box<Violation>) -> Stop {
        Stop::Violation(violation)
    }
}

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
    /// The world.
    pub world: World,
    /// What must survive.
    pub oracle: Arc<Oracle>,
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
    /// Crashes before it.
    crashes: u64,
    /// The world's events when it began.
    began: u64,
    /// What had affected the device by then.
    started: RunFaults,
    /// Cut after so many events.
    until: u64,
    /// Cut after so many events of work.
    work_events: Option<u64>,
    /// Events of the recovery and of reading it back, once that is over.
    recovered_after: Option<u64>,
    phase: Phase,
    coming: BTreeSet<(Nanos, RequestId)>,
    sent: BTreeMap<RequestId, (ClientId, Request)>,
    waiting: BTreeMap<RequestId, ClientId>,
    changes: u64,
    transcript: Option<Transcript>,
    /// Answers that count as given only later, by what is done for the guest.
    held: Vec<Reply>,
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
            started: RunFaults::of(world.storage()),
            changes: world.storage().changes(),
            world,
            oracle,
            source,
            watch,
            log: Vec::new(),
            ids: Vec::new(),
            check: &scenario.check,
            events_max: scenario.run.events_max,
            crashes,
            until: u64::MAX,
            work_events: None,
            recovered_after: None,
            phase: Phase::Recovering,
            coming: BTreeSet::new(),
            sent: BTreeMap::new(),
            waiting: BTreeMap::new(),
            transcript: None,
            held: Vec::new(),
            undecided: 0,
        }
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
        let truth = self.truth();
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
        self.world.events() - self.began
    }

    /// Whether the guest is open and what it shows was judged to be legal.
    pub fn is_recovered(&self) -> bool {
        self.phase == Phase::Working
    }

    fn truth(&self) -> DeviceTruth {
        DeviceTruth::of(self.world.storage(), self.started)
    }

    /// Opens, lets the clients ask what they have to ask, and reads back when all is answered; all of it is judged.
    pub fn work_unread(&mut self) -> Result<(), Stop> {
        self.open()?;
        let now = self.world.now();
        Arc::make_mut(&mut self.oracle).defer(now);
        for client in self.source.clients() {
            self.send_next(client);
        }
        self.until_answered("working before it was read back")?;
        let known = Arc::new(self.oracle.for_late_reading());
        let seen = self.read_back(&known)?;
        let truth = self.truth();
        Arc::make_mut(&mut self.oracle).judge_late(&seen, &truth)?;
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
        let known = Arc::clone(&self.oracle);
        self.read_back(&known)
    }

    /// Reads back what an oracle knows of.
    fn read_back(&mut self, known: &Arc<Oracle>) -> Result<Observation, Stop> {
        let mut reading = Verification::new(known, self.check);
        let mut asked: BTreeMap<RequestId, Token> = BTreeMap::new();
        while !reading.is_done() {
            while let Some((token, request)) = reading.next_request(known) {
                if let Some(transcript) = &mut self.transcript {
                    transcript.asked.push((token, request.clone()));
                }
                let now = self.world.now();
                let noted = self
                    .world
                    .trace()
                    .keeps_events()
                    .then(|| words::asked(None, &request));
                let id = self.world.submit(now, request);
                if let Some(noted) = noted {
                    self.world.note_request(id, || noted);
                }
                asked.insert(id, token);
            }
            if reading.is_done() {
                break;
            }
            match self.step("being read after a recovery") {
                Ok(Some(reply)) => {
                    if let Some(token) = asked.remove(&reply.id) {
                        reading.reply(known, token, &reply);
                        if let Some(transcript) = &mut self.transcript {
                            transcript.answers.push((token, reply));
                        }
                    }
                }
                Ok(None) => {}
                Err(Stop::Cut) => {
                    let seen = reading.finish();
                    if !self.oracle.is_deferring() {
                        Arc::make_mut(&mut self.oracle).interrupted(&seen);
                    }
                    return Err(Stop::Cut);
                }
                Err(stop) => return Err(stop),
            }
            self.look(Some(&reading), false);
        }
        Ok(reading.finish())
    }

    fn open(&mut self) -> Result<(), Stop> {
        self.world.open().map_err(|error| match error {
            WorldError::Guest(error) => guest_error(&error, self.crashes, "being started"),
            other => Stop::Invalid(other.to_string()),
        })?;
        loop {
            if let Some(reply) = self.step("recovering")?
                && reply.id == OPENING
            {
                let opening = self.oracle.opening(&reply, &self.truth())?;
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

    /// Judges what was read back, against another recovery of the same device if there was one, and lets it be the base of
    /// what comes.
    pub fn adopt(
        &mut self,
        seen: &Observation,
        reference: Option<&Observation>,
    ) -> Result<(), Stop> {
        let recovery = self.judge(seen, reference)?;
        let (now, truth) = (self.world.now(), self.truth());
        Arc::make_mut(&mut self.oracle).adopt(now, &recovery, seen, &truth);
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
        let truth = self.truth();
        if let Some(reference) = reference {
            self.oracle.same_recovery(reference, seen, &truth)?;
        }
        let recovery = self.oracle.judge(seen, &truth)?;
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
            match self.world.step() {
                Ok(Step::Quiet) => break,
                Ok(_) => {
                    let late = self.no_longer_held()?;
                    self.look(None, late);
                }
                Err(error) => return Err(guest_error(&error, self.crashes, "idle")),
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
        while self.unanswered() > 0 {
            let Some(reply) = self.step(doing)? else {
                let late = self.no_longer_held()?;
                self.look(None, late);
                continue;
            };
            // The client goes on as it did, whenever the answer counts: the course of events stays the same.
            if self.world.holds(reply.id) {
                self.held.push(reply.clone());
            } else {
                self.count(&reply)?;
            }
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

    /// An answer counts as given.
    fn count(&mut self, reply: &Reply) -> Result<(), Stop> {
        let (now, truth) = (self.world.now(), self.truth());
        let oracle = Arc::make_mut(&mut self.oracle);
        Ok(oracle.replied(now, reply, &truth)?)
    }

    /// Answers that were held and count from now on; whether there were any.
    fn no_longer_held(&mut self) -> Result<bool, Stop> {
        let all = std::mem::take(&mut self.held);
        let (held, given): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|reply| self.world.holds(reply.id));
        self.held = held;
        for reply in &given {
            self.count(reply)?;
        }
        Ok(!given.is_empty())
    }

    fn send_next(&mut self, client: ClientId) {
        if let Some((think_ns, request)) = self.source.next(client) {
            self.send(think_ns, client, request);
        }
    }

    fn send(&mut self, think_ns: u64, client: ClientId, request: Request) {
        let at = self.world.now() + think_ns;
        self.log.push(CaseRequest {
            client,
            think_ns,
            request: request.clone(),
        });
        let id = self.world.submit(at, request.clone());
        self.ids.push(id);
        self.world
            .note_request(id, || words::asked(Some(client), &request));
        self.coming.insert((at, id));
        self.sent.insert(id, (client, request));
        self.waiting.insert(id, client);
    }

    fn unanswered(&self) -> u64 {
        (self.oracle.outstanding() + self.coming.len() - self.held.len()) as u64
    }

    fn check_end(&self) -> Result<(), Stop> {
        match self.events() {
            events if events >= self.until => Err(Stop::Cut),
            events if events >= self.events_max => Err(Stop::OutOfEvents),
            _ => Ok(()),
        }
    }

    /// Lets one event happen. `doing` is what the guest is at, should it fail; a guest that will never do anything again while
    /// a request is unanswered is a violation.
    fn step(&mut self, doing: &str) -> Result<Option<Reply>, Stop> {
        self.check_end()?;
        match self.world.step() {
            Ok(Step::Reply(reply)) => {
                self.world.note(|| words::answered(&reply));
                self.arrived();
                Ok(Some(reply))
            }
            Ok(Step::Event) => Ok(None),
            Ok(Step::Quiet) => {
                self.arrived();
                let unanswered = self.unanswered().max(1);
                let fault = GuestFault::Stalled { unanswered };
                Err(Stop::Violation(misbehaved(&fault, self.crashes, doing)))
            }
            Err(error) => Err(guest_error(&error, self.crashes, doing)),
        }
    }

    /// Tells the oracle of every request that has reached the guest by now.
    fn arrived(&mut self) {
        let now = self.world.now();
        while let Some(&(at, id)) = self.coming.first().filter(|(at, _)| *at <= now) {
            self.coming.pop_first();
            if let Some((client, request)) = self.sent.remove(&id) {
                let oracle = Arc::make_mut(&mut self.oracle);
                let number = oracle.handed_in(at, client, id, &request);
                self.world.note_number(id, number);
            }
        }
    }

    /// Shows this moment if a cut here differs from one at the moment shown last.
    fn look(&mut self, reading: Option<&Verification>, answered: bool) {
        let changes = self.world.storage().changes();
        if changes == self.changes && !answered {
            return;
        }
        self.changes = changes;
        self.arrived();
        self.watch.look(&Seen {
            world: &self.world,
            oracle: &self.oracle,
            reading,
            events: self.events(),
            sent: self.log.len(),
            phase: self.phase,
        });
    }

    /// The plug is about to be pulled: tells the oracle of every request that has arrived.
    pub fn end(mut self) -> (World, Arc<Oracle>, W) {
        self.arrived();
        (self.world, self.oracle, self.watch)
    }
}

/// What a guest's failure means.
fn guest_error(error: &GuestError, crashes: u64, doing: &str) -> Stop {
    match GuestFault::of(error) {
        Some(fault) => Stop::Violation(misbehaved(&fault, crashes, doing)),
        None => Stop::Invalid(error.to_string()),
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
