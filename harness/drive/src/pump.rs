//! The request pump: hands requests to a guest, lets one event happen after the other, and takes the replies.
//!
//! A seed's run of many crashes and a process run of a case or an exploration have one each. They differ in what limits them and
//! in who looks on. A reference recovery is such a process run.
//!
//! Invariant: the oracle is told of requests in the order in which they reach the guest, which is the commit order, and
//! before anything that follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_sim::api::{Reply, Request, RequestId};
use kvsim_sim::{Step, World, WorldError};
use kvsim_simdisk::Nanos;

use crate::case::Transcript;
use crate::stop::Stop;
use crate::timeline::words;
use kvsim_oracle::{
    CheckConfig, DeviceTruth, GuestFault, Observation, Oracle, RunFaults, Token, Verification,
    misbehaved,
};
use kvsim_workload::ClientId;

/// The request that stands for the opening itself.
pub(crate) const OPENING: RequestId = 0;

/// A guest in its world, the requests on their way to the guest, and the oracle that is told of them.
pub(crate) struct Pump {
    /// The world.
    pub(crate) world: World,
    /// What must survive. It is shared with whoever keeps a moment, and copied when it changes meanwhile.
    pub(crate) oracle: Arc<Oracle>,
    /// Crashes before this process run.
    pub(crate) crashes: u64,
    /// Requests which the guest has not seen yet: when they arrive, and who sent them.
    coming: BTreeSet<(Nanos, RequestId)>,
    sent: BTreeMap<RequestId, (ClientId, Request)>,
    /// Answers that count as given only later, because of an intervention.
    held: Vec<Reply>,
    /// What had affected the device when the guest was started.
    started: RunFaults,
}

impl Pump {
    /// A pump for `world`, which has no guest, after so many crashes.
    pub(crate) fn new(world: World, oracle: Arc<Oracle>, crashes: u64) -> Pump {
        Pump {
            started: RunFaults::of(world.storage()),
            world,
            oracle,
            crashes,
            coming: BTreeSet::new(),
            sent: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// The oracle, to tell it something.
    pub(crate) fn oracle_mut(&mut self) -> &mut Oracle {
        Arc::make_mut(&mut self.oracle)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.world.now()
    }

    /// What the device has really done in this process run.
    pub(crate) fn truth(&self) -> DeviceTruth {
        DeviceTruth::of(&self.world, self.started)
    }

    /// Switches on: a fresh instance begins to open what the device holds.
    pub(crate) fn open(&mut self) -> Result<(), Stop> {
        self.started = RunFaults::of(self.world.storage());
        let crashes = self.crashes;
        self.world.open().map_err(|error| match error {
            WorldError::Guest(error) => Stop::of(&error, crashes, "being started"),
            other => Stop::Invalid(other.to_string()),
        })
    }

    /// Sends a client's request, to arrive at `at`; `turn_ns`: what bringing the client onto the processor takes, should it have to wait.
    pub(crate) fn send(
        &mut self,
        at: Nanos,
        client: ClientId,
        request: Request,
        turn_ns: Nanos,
    ) -> RequestId {
        let id = self.world.submit_in_turn(at, request.clone(), turn_ns);
        self.world
            .note_request(id, || words::asked(Some(client), &request));
        self.coming.insert((at, id));
        self.sent.insert(id, (client, request));
        id
    }

    /// Sends a request of the driver's own, of which the oracle is not told: the reading back after a recovery.
    fn ask(&mut self, request: Request) -> RequestId {
        let asked = self
            .world
            .trace()
            .keeps_events()
            .then(|| words::asked(None, &request));
        let id = self.world.submit(self.world.now(), request);
        if let Some(asked) = asked {
            self.world.note_request(id, || asked);
        }
        id
    }

    /// Requests of clients that are not answered.
    pub(crate) fn unanswered(&self) -> u64 {
        (self.oracle.outstanding() + self.coming.len() - self.held.len()) as u64
    }

    /// Lets one event happen, and gives the reply if the event was one. `doing` is what the guest is at, should it fail; a guest that
    /// will never do anything again while a request is unanswered is a violation.
    pub(crate) fn step(&mut self, doing: &str) -> Result<Option<Reply>, Stop> {
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
            Err(error) => Err(Stop::of(&error, self.crashes, doing)),
        }
    }

    /// Takes a client's reply: the oracle is told, now or when the reply counts as given.
    pub(crate) fn take(&mut self, reply: &Reply) -> Result<(), Stop> {
        if self.world.holds(reply.id) {
            self.held.push(reply.clone());
            return Ok(());
        }
        self.count(reply)
    }

    /// Tells the oracle of answers that were held and count from now on; whether there were any.
    pub(crate) fn take_held(&mut self) -> Result<bool, Stop> {
        if self.held.is_empty() {
            return Ok(false);
        }
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

    /// An answer counts as given.
    fn count(&mut self, reply: &Reply) -> Result<(), Stop> {
        let (now, truth) = (self.now(), self.truth());
        Ok(self.oracle_mut().replied(now, reply, &truth)?)
    }

    /// Tells the oracle of every request that has reached the guest by now.
    pub(crate) fn arrived(&mut self) {
        let now = self.now();
        while let Some(&(at, id)) = self.coming.first().filter(|(at, _)| *at <= now) {
            self.coming.pop_first();
            if let Some((client, request)) = self.sent.remove(&id) {
                let number = self.oracle_mut().handed_in(at, client, id, &request);
                self.world.note_number(id, number);
            }
        }
    }

    /// Ends the process run; requests that have not arrived never will.
    pub(crate) fn end(&mut self) {
        self.arrived();
        self.coming.clear();
        self.sent.clear();
    }
}

/// What an oracle knows of, being read back from a guest.
pub(crate) struct ReadBack {
    reading: Verification,
    asked: BTreeMap<RequestId, Token>,
}

impl ReadBack {
    pub(crate) fn new(known: &Oracle, check: &CheckConfig) -> ReadBack {
        ReadBack {
            reading: Verification::new(known, check),
            asked: BTreeMap::new(),
        }
    }

    /// Asks all that can be asked by now; whether there is an answer to wait for.
    pub(crate) fn ask(
        &mut self,
        pump: &mut Pump,
        known: &Oracle,
        mut transcript: Option<&mut Transcript>,
    ) -> bool {
        if self.reading.is_done() {
            return false;
        }
        while let Some((token, request)) = self.reading.next_request(known) {
            if let Some(transcript) = &mut transcript {
                transcript.asked.push((token, request.clone()));
            }
            self.asked.insert(pump.ask(request), token);
        }
        !self.reading.is_done()
    }

    /// Takes a reply, if it is to one of these questions.
    pub(crate) fn take(
        &mut self,
        known: &Oracle,
        reply: Reply,
        transcript: Option<&mut Transcript>,
    ) {
        let Some(token) = self.asked.remove(&reply.id) else {
            return;
        };
        self.reading.reply(known, token, &reply);
        if let Some(transcript) = transcript {
            transcript.answers.push((token, reply));
        }
    }

    pub(crate) fn reading(&self) -> &Verification {
        &self.reading
    }

    /// What was seen, to the end or as far as it went.
    pub(crate) fn finish(self) -> Observation {
        self.reading.finish()
    }
}
