//! The clients at work: closed loops over one process run of the guest, until the crash clock strikes.

use std::collections::BTreeMap;

use kvsim_sim::api::{Durability, Reply, Request, RequestId, Status};
use kvsim_simdisk::Nanos;

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
        while let Some(request) = self.device_run.workload.preload() {
            let now = self.device_run.now();
            let id = self.device_run.send(now, PRELOAD_WRITER, request, 0);
            loop {
                if let Some(reply) = self.device_run.step("loading records")? {
                    self.device_run.judge_reply(&reply)?;
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
        let began_ns = self.device_run.now();
        let mut end = self.device_run.pump.world.events() + events;
        let mut look = self.device_run.pump.world.events() + EVENTS_PER_LOOK;
        let mut flight = Flight::default();
        for client in 0..self.device_run.workload.clients() {
            self.next_request(&mut flight, client, false);
        }
        // A guest that never has anything pending is not waited for.
        let event_limit = events + 4 * self.scenario.run.events_per_crash;
        while self.device_run.pump.world.events() < end
            || (seek_pending > 0 && self.device_run.pump.world.events() < end + event_limit)
        {
            if self.device_run.pump.world.events() >= end
                && !self.device_run.pump.world.storage().nothing_pending()
            {
                seek_pending -= 1;
                if seek_pending == 0 {
                    break;
                }
            }
            if self.device_run.pump.world.events() >= look {
                look += EVENTS_PER_LOOK;
                self.check_wanted()?;
            }
            let Some(reply) = self.device_run.step("working")? else {
                continue;
            };
            if let Some((client, slept)) = self.take_reply(&mut flight, &reply)? {
                self.next_request(&mut flight, client, slept);
            }
            if reply.status == Status::ReadOnly {
                end = end.min(self.device_run.pump.world.events() + EVENTS_AFTER_READ_ONLY);
            }
        }
        self.tally.working_ns += self.device_run.now() - began_ns;
        Ok(())
    }

    /// Lets the clients work for so many world events, and waits until all is answered.
    pub(super) fn work_until_idle(&mut self, events: u64) -> Result<(), Halt> {
        let end = self.device_run.pump.world.events() + events;
        let mut flight = Flight::default();
        for client in 0..self.device_run.workload.clients() {
            self.next_request(&mut flight, client, false);
        }
        while self.device_run.pump.unanswered() > 0 {
            let Some(reply) = self.device_run.step("working before it was read back")? else {
                continue;
            };
            let free = self.take_reply(&mut flight, &reply)?;
            let goes_on =
                self.device_run.pump.world.events() < end && reply.status != Status::ReadOnly;
            if let Some((client, slept)) = free.filter(|_| goes_on) {
                self.next_request(&mut flight, client, slept);
            }
        }
        Ok(())
    }

    /// Closes the guest cleanly and waits until all is answered.
    pub(super) fn close(&mut self) -> Result<(), Halt> {
        let now = self.device_run.now();
        self.device_run.send(now, PRELOAD_WRITER, Request::Close, 0);
        while self.device_run.pump.unanswered() > 0 {
            if let Some(reply) = self.device_run.step("closing")? {
                self.device_run.judge_reply(&reply)?;
            }
        }
        Ok(())
    }

    /// `slept`: the client waited for the disk, so that it may have to be woken and to wait for its turn on the processor.
    fn next_request(&mut self, flight: &mut Flight, client: ClientId, slept: bool) {
        let step = self.device_run.workload.next(client);
        let at = self.device_run.now() + step.think_ns;
        let durable = durable(&step.request);
        self.tally.user_bytes_written += written_bytes(&step.request);
        let began_ns = flight.unfinished.remove(&client).unwrap_or(at);
        let turn_ns = if slept { self.turns.draw() } else { 0 };
        let id = self.device_run.send(at, client, step.request, turn_ns);
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
        self.device_run.judge_reply(reply)?;
        let Some(answered) = flight.requests.remove(&reply.id) else {
            return Ok(None);
        };
        self.device_run.workload.replied(answered.client, reply);
        self.tally.operations += 1;
        *self
            .tally
            .by_status
            .entry(status_name(reply.status).into())
            .or_default() += 1;
        let well = matches!(reply.status, Status::Ok | Status::NotFound);
        if answered.last && well {
            self.tally.working_operations += 1;
            let latency_ns = self.device_run.now() - answered.began_ns;
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
