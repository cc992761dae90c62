//! What happens next: the earliest event, the call of the guest that it brings, and what that call lets out.

use kvsim_fs::Moment as FileMoment;
use kvsim_simdisk::{Completion, Nanos};
use xxhash_rust::xxh3::xxh3_64;

use super::{Arrival, HandedIn, VainTicks, World};
use crate::GuestError;
use crate::api::{Reply, Request, RequestId};
use crate::guest::{Call, OutItem, Outbox};
use crate::intervention::{Effort, Place};
use crate::notes::FiredFault;
use crate::steps::describe as describe_step;
use crate::storage::Storage;
use crate::trace::{TraceEvent, describe, hash_body};

/// What one step was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The guest answered a request.
    Reply(Reply),
    /// Something else happened.
    Event,
    /// Nothing can ever happen again without a new request.
    Quiet,
}

impl World {
    /// Lets the next thing happen.
    ///
    /// # Errors
    /// What the guest did wrong. The process run is over then: only a crash and an opening go on.
    pub fn step(&mut self) -> Result<Step, GuestError> {
        if self.guest.is_none() {
            return Ok(Step::Quiet);
        }
        if let Some(item) = self.outbox.pop_front() {
            self.events += 1;
            if let OutItem::Step(moment) = item {
                self.take_step(*moment);
                return Ok(Step::Event);
            }
            self.now = self.now.max(self.cpu_free_at);
            return self.let_out(item);
        }
        let completion_at = self.storage.next_completion_at();
        let first = self.arrivals.first_key_value().filter(|_| self.opened);
        let arrival_at = first.map(|(&(at, _), _)| at);
        let Some(at) = [completion_at, arrival_at, self.wake_at]
            .into_iter()
            .flatten()
            .min()
        else {
            return Ok(Step::Quiet);
        };
        self.events += 1;
        match completion_at {
            Some(_) => self.idle.ns_before = self.idle.ns,
            None => self.idle.ns += at.saturating_sub(self.now.max(self.cpu_free_at)),
        }
        self.now = self.now.max(at).max(self.cpu_free_at);
        self.check_answers()?;
        if completion_at == Some(at) || arrival_at == Some(at) {
            self.vain.count = 0;
        }
        if completion_at == Some(at) {
            let completion = self.storage.complete_next().expect("one is due");
            self.deliver(&completion)?;
        } else if arrival_at == Some(at) {
            let ((_, id), arrival) = self.arrivals.pop_first().expect("one is due");
            let Arrival { request, turn_ns } = arrival;
            self.hand_in(id);
            if at < self.now {
                self.now = self.now.saturating_add(turn_ns);
            }
            if self.trace.is_on() {
                self.trace.push(self.now, arrived(id, &request));
            }
            self.call(Call::Request {
                id,
                request: &request,
            })?;
        } else {
            self.wake_at = None;
            self.trace.push(self.now, TraceEvent::Tick);
            self.check_tick(arrival_at)?;
            self.call(Call::Tick)?;
        }
        Ok(Step::Event)
    }

    /// A request comes to the guest.
    pub(super) fn hand_in(&mut self, id: RequestId) {
        self.handed_in.push_back(HandedIn {
            id,
            events: self.events,
            idle_ns: self.idle.ns,
        });
        self.unanswered.insert(id);
    }

    /// A guest that asks to be woken in the past, again and again, is woken before any request comes to it.
    fn check_tick(&mut self, arrival_at: Option<Nanos>) -> Result<(), GuestError> {
        let is_due = arrival_at.is_some_and(|at| at <= self.now);
        let is_vain = is_due || self.vain.last_at == self.now;
        self.vain = VainTicks {
            count: if is_vain { self.vain.count + 1 } else { 0 },
            last_at: self.now,
        };
        let events = self.config.limits.events_per_answer;
        if self.vain.count <= events {
            return Ok(());
        }
        let unanswered = self.unanswered.len() as u64 + u64::from(is_due);
        Err(self.end(GuestError::Endless { events, unanswered }))
    }

    /// No request waits for its answer for ever, nor long where nothing is done.
    fn check_answers(&mut self) -> Result<(), GuestError> {
        while let Some(first) = self.handed_in.front() {
            if !self.unanswered.contains(&first.id) {
                self.handed_in.pop_front();
                continue;
            }
            let limits = self.config.limits;
            let (events, ns) = (limits.events_per_answer, limits.idle_ns_per_answer);
            let idle_ns = self.idle.ns - first.idle_ns.max(self.idle.ns_before);
            let unanswered = self.unanswered.len() as u64;
            if self.events - first.events > events {
                return Err(self.end(GuestError::Endless { events, unanswered }));
            }
            if idle_ns > ns {
                return Err(self.end(GuestError::Idle { ns, unanswered }));
            }
            break;
        }
        Ok(())
    }

    /// A step of the file system has happened, in the middle of the last call.
    fn take_step(&mut self, moment: FileMoment) {
        let at = self.called_at.saturating_add(moment.after_ns);
        self.now = self.now.max(at.min(self.cpu_free_at));
        if self.trace.is_on() {
            let said = describe_step(&moment.step, &moment.files, &mut self.syncing);
            let step = TraceEvent::Step {
                op: said.op,
                kind: said.kind,
                what: said.words,
                hash: said.hash,
            };
            self.trace.push(self.now, step);
        }
        self.storage = Storage::Files(moment.files);
        self.note_faults();
        self.catch_up();
    }

    /// Once no step of a call is to come any more, the storage is what the guest works on: what reads have met is known by then.
    fn catch_up(&mut self) {
        let is_step = |item: &OutItem| matches!(item, OutItem::Step(_));
        let live = self.guest.as_ref().and_then(|guest| guest.files());
        if let Some(live) = live
            && !self.outbox.iter().any(is_step)
        {
            self.storage = Storage::Files(live.clone());
            self.note_faults();
        }
    }

    fn let_out(&mut self, item: OutItem) -> Result<Step, GuestError> {
        match item {
            OutItem::Step(moment) => self.take_step(*moment),
            OutItem::Submit { tag, op } => {
                let (kind, offset, len_bytes, hash) = describe(&op, self.trace.is_on());
                self.intervene_at(Place::Submitting(self.storage.next_op()));
                match self.storage.submit(self.now, tag, op) {
                    Ok(op) => {
                        let submit = TraceEvent::Submit {
                            op,
                            tag,
                            kind,
                            offset,
                            len_bytes,
                            hash,
                        };
                        self.trace.push(self.now, submit);
                        self.note_faults();
                        self.intervene_at(Place::Submitted(op));
                    }
                    Err(error) => {
                        let verdict = GuestError::Abi(format!("a {kind} that {error}"));
                        return Err(self.end(verdict));
                    }
                }
            }
            OutItem::Reply(reply) => {
                self.intervene_at(Place::Replying(reply.id));
                if self.trace.is_on() {
                    let hash = hash_body(&reply);
                    self.trace.push(
                        self.now,
                        TraceEvent::Reply {
                            id: reply.id,
                            status: reply.status,
                            hash,
                        },
                    );
                }
                self.outstanding -= 1;
                self.unanswered.remove(&reply.id);
                self.opened |= reply.id == 0;
                return Ok(Step::Reply(reply));
            }
            OutItem::Log { level, text } => {
                tracing::debug!(target: "kvsim::guest", ?level, "{text}");
                self.trace.push(self.now, TraceEvent::Log { level, text });
            }
        }
        Ok(Step::Event)
    }

    /// Notes what has affected the operation just submitted, if events are kept.
    fn note_faults(&mut self) {
        let event = self.trace.len().saturating_sub(1);
        if let Some(notes) = self.trace.notes_mut() {
            let fired = self.storage.fired_script(notes.faults.len()).into_iter();
            notes
                .faults
                .extend(fired.map(|fault| FiredFault { event, fault }));
        }
    }

    /// Does for the guest what it is to be done for here.
    fn intervene_at(&mut self, place: Place) {
        for intervene in &self.interventions {
            if intervene.process_run == self.process_run && intervene.place == place {
                intervene.apply(&mut self.storage);
            }
        }
    }

    fn deliver(&mut self, completion: &Completion) -> Result<(), GuestError> {
        self.intervene_at(Place::Completed(completion.id));
        let effort = Effort::Later(completion.id);
        if self
            .interventions
            .iter()
            .any(|intervene| intervene.effort == effort)
        {
            self.awaited.insert(completion.id);
        }
        let hash = match &completion.result {
            Ok(Some(bytes)) if self.trace.is_on() => bytes.hash(),
            _ => 0,
        };
        let error = completion.result.as_ref().err().copied();
        let (op, tag) = (completion.id, completion.tag);
        self.trace.push(
            self.now,
            TraceEvent::Complete {
                op,
                tag,
                error,
                hash,
            },
        );
        let result = completion
            .result
            .as_ref()
            .map(Option::as_ref)
            .map_err(|&error| error);
        self.call(Call::Complete { tag, result })
    }

    pub(super) fn call(&mut self, call: Call<'_>) -> Result<(), GuestError> {
        let guest = self.guest.as_mut().expect("a process run is under way");
        let mut out = Outbox::from(std::mem::take(&mut self.outbox));
        self.called_at = self.now;
        let ended = guest.call(self.now, call, &mut out);
        self.outbox = out.into();
        if !self.traced_ops.is_empty()
            && let Some(traced) = guest.traced()
        {
            self.traced.extend(traced.clone());
        }
        for &point in guest.reached() {
            let point = point as usize;
            if self.coverage_points.len() <= point {
                self.coverage_points.resize(point + 1, 0);
            }
            self.coverage_points[point] += 1;
            if self.trace.is_on() {
                let name = self
                    .program
                    .coverage_points()
                    .get(point)
                    .cloned()
                    .unwrap_or_default();
                self.trace
                    .push(self.now, TraceEvent::CoveragePoint { name });
            }
        }
        match ended {
            Ok(end) => {
                self.fuel += end.fuel;
                let took_ns = end.fuel.saturating_mul(self.config.fuel_ps).div_ceil(1000);
                let took_ns = took_ns.saturating_add(end.elapsed_ns);
                self.cpu_free_at = self.now.saturating_add(took_ns);
                self.slowest_calls.note(self.now, self.cpu_free_at);
                self.wake_at = end.wake_at;
                self.trace.push(
                    self.now,
                    TraceEvent::Returned {
                        fuel: end.fuel,
                        wake_at: end.wake_at,
                    },
                );
                self.catch_up();
                Ok(())
            }
            Err(verdict) => Err(self.end(verdict)),
        }
    }

    fn end(&mut self, verdict: GuestError) -> GuestError {
        if let GuestError::OutOfFuel { fuel, .. } = &verdict {
            self.fuel += fuel;
        }
        self.trace.push(self.now, fault(&verdict));
        self.guest = None;
        verdict
    }
}

pub(super) fn fault(verdict: &GuestError) -> TraceEvent {
    TraceEvent::Fault {
        verdict: verdict.to_string(),
    }
}

fn arrived(id: RequestId, request: &Request) -> TraceEvent {
    let (op, hash) = match request {
        Request::Put { key, value, .. } => ("put", xxh3_64(key) ^ xxh3_64(value)),
        Request::Delete { key, .. } => ("delete", xxh3_64(key)),
        Request::Batch { mutations, .. } => ("batch", mutations.len() as u64),
        Request::Get { key, snapshot } => ("get", xxh3_64(key) ^ snapshot),
        Request::Scan(scan) => ("scan", u64::from(scan.limit) ^ scan.snapshot),
        Request::Snapshot => ("snapshot", 0),
        Request::Release { snapshot } => ("release", *snapshot),
        Request::Sync => ("sync", 0),
        Request::Close => ("close", 0),
    };
    TraceEvent::Request { id, op, hash }
}
