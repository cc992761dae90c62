//! The clients at work: closed loops over one incarnation of the guest, until the crash clock strikes.

use std::collections::BTreeMap;

use kvsim_sim::api::{Durability, Reply, Request, RequestId, Status};
use kvsim_simdisk::Nanos;

use super::life::Progress;
use super::result::Halt;
use super::seed_run::SeedRun;
use kvsim_workload::{ClientId, OpKind, PRELOAD_WRITER};

/// Once the guest takes no more writes, it is opened anew after at most so many further events.
const EVENTS_AFTER_READ_ONLY: u64 = 200;
/// Events between two looks at whether anybody still wants the seed.
const EVENTS_PER_LOOK: u64 = 4_096;

/// A client's request in flight.
struct InFlight {
    client: ClientId,
    kind: OpKind,
    /// Of a write: whether it is acknowledged only when durable.
    durable: Option<bool>,
    /// When the operation's first request arrived.
    began_ns: Nanos,
    last: bool,
}

/// All requests in flight, and the operations of several requests that are not over.
#[derive(Default)]
struct Flight {
    requests: BTreeMap<RequestId, InFlight>,
    /// Client → when its unfinished operation began.
    unfinished: BTreeMap<ClientId, Nanos>,
}

impl SeedRun<'_> {
    /// Writes the records that are there before the clients begin.
    pub(super) fn preload(&mut self) -> Result<(), Halt> {
        while let Some(request) = self.life.workload.preload() {
            let now = self.life.now();
            let id = self.life.send(now, PRELOAD_WRITER, request, 0);
            loop {
                if let Progress::Reply(reply) = self.life.step("loading records")? {
                    self.life.judge_reply(&reply)?;
                    if reply.id == id {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets the clients work for so many world events, and then, if `seek_pending` is not 0, on until the device has had something
    /// to lose for that many; what is in flight then stays so.
    pub(super) fn work(&mut self, events: u64, mut seek_pending: u64) -> Result<(), Halt> {
        let began_ns = self.life.now();
        let mut end = self.life.world.events() + events;
        let mut look = self.life.world.events() + EVENTS_PER_LOOK;
        let mut flight = Flight::default();
        for client in 0..self.life.workload.clients() {
            self.next_request(&mut flight, client, false);
        }
        // A guest that never has anything pending is not waited for.
        let patience = events + 4 * self.scenario.run.events_per_crash;
        while self.life.world.events() < end
            || (seek_pending > 0 && self.life.world.events() < end + patience)
        {
            if self.life.world.events() >= end && !self.life.world.storage().is_settled() {
                seek_pending -= 1;
                if seek_pending == 0 {
                    break;
                }
            }
            if self.life.world.events() >= look {
                look += EVENTS_PER_LOOK;
                self.check_wanted()?;
            }
            let Progress::Reply(reply) = self.life.step("working")? else {
                continue;
            };
            if let Some((client, slept)) = self.take_reply(&mut flight, &reply)? {
                self.next_request(&mut flight, client, slept);
            }
            if reply.status == Status::ReadOnly {
                end = end.min(self.life.world.events() + EVENTS_AFTER_READ_ONLY);
            }
        }
        self.tally.working_ns += self.life.now() - began_ns;
        Ok(())
    }

    /// Lets the clients work for so many world events, and waits until all is answered.
    pub(super) fn work_and_settle(&mut self, events: u64) -> Result<(), Halt> {
        let end = self.life.world.events() + events;
        let mut flight = Flight::default();
        for client in 0..self.life.workload.clients() {
            self.next_request(&mut flight, client, false);
        }
        while self.life.unanswered() > 0 {
            let Progress::Reply(reply) = self.life.step("working before it was read back")? else {
                continue;
            };
            let free = self.take_reply(&mut flight, &reply)?;
            let goes_on = self.life.world.events() < end && reply.status != Status::ReadOnly;
            if let Some((client, slept)) = free.filter(|_| goes_on) {
                self.next_request(&mut flight, client, slept);
            }
        }
        Ok(())
    }

    /// Closes the guest in good order and waits until all is answered.
    pub(super) fn close(&mut self) -> Result<(), Halt> {
        let now = self.life.now();
        self.life.send(now, PRELOAD_WRITER, Request::Close, 0);
        while self.life.unanswered() > 0 {
            if let Progress::Reply(reply) = self.life.step("closing")? {
                self.life.judge_reply(&reply)?;
            }
        }
        Ok(())
    }

    /// `slept`: the client waited for the disk, so that it may have to be woken and to wait for its turn on the processor.
    fn next_request(&mut self, flight: &mut Flight, client: ClientId, slept: bool) {
        let step = self.life.workload.next(client);
        let at = self.life.now() + step.think_ns;
        let durable = durable(&step.request);
        self.tally.user_bytes_written += written_bytes(&step.request);
        let began_ns = flight.unfinished.remove(&client).unwrap_or(at);
        let turn_ns = if slept { self.turns.draw() } else { 0 };
        let id = self.life.send(at, client, step.request, turn_ns);
        flight.requests.insert(
            id,
            InFlight {
                client,
                kind: step.kind,
                durable,
                began_ns,
                last: step.last,
            },
        );
    }

    /// Judges and counts a reply; gives the client that is free again, and whether it waited for the disk.
    fn take_reply(
        &mut self,
        flight: &mut Flight,
        reply: &Reply,
    ) -> Result<Option<(ClientId, bool)>, Halt> {
        self.life.judge_reply(reply)?;
        let Some(answered) = flight.requests.remove(&reply.id) else {
            return Ok(None);
        };
        self.life.workload.replied(answered.client, reply);
        self.tally.operations += 1;
        *self
            .tally
            .by_status
            .entry(status_name(reply.status).into())
            .or_default() += 1;
        let well = matches!(reply.status, Status::Ok | Status::NotFound);
        if answered.last && well {
            self.tally.working_operations += 1;
            let latency_ns = self.life.now() - answered.began_ns;
            self.latency
                .entry((answered.kind, answered.durable))
                .or_default()
                .record(latency_ns);
        } else if !answered.last && well {
            flight.unfinished.insert(answered.client, answered.began_ns);
        }
        let slept = answered.durable == Some(true) || answered.kind == OpKind::Sync;
        Ok(Some((answered.client, slept)))
    }
}

fn durable(request: &Request) -> Option<bool> {
    match request {
        Request::Put { durability, .. }
        | Request::Delete { durability, .. }
        | Request::Batch { durability, .. } => Some(*durability == Durability::Durable),
        _ => None,
    }
}

/// Bytes of keys and values that a request wants written.
fn written_bytes(request: &Request) -> u64 {
    use kvsim_sim::api::Mutation;
    let bytes = match request {
        Request::Put { key, value, .. } => key.len() + value.len(),
        Request::Delete { key, .. } => key.len(),
        Request::Batch { mutations, .. } => {
            let each = mutations.iter().map(|mutation| match mutation {
                Mutation::Put { key, value } => key.len() + value.len(),
                Mutation::Delete { key } => key.len(),
            });
            each.sum()
        }
        _ => 0,
    };
    bytes as u64
}

/// The name of a kind of operation in results: figures of different durability never share a line.
pub(super) fn label(kind: OpKind, durable: Option<bool>) -> String {
    let name = kind.name().replace('_', " ");
    match durable {
        Some(true) => format!("{name} durable"),
        Some(false) => format!("{name} relaxed"),
        None => name,
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::NotFound => "not_found",
        Status::Corruption => "corruption",
        Status::IoError => "io_error",
        Status::NoSpace => "no_space",
        Status::ReadOnly => "read_only",
        Status::Invalid => "invalid",
        Status::Closed => "closed",
    }
}
