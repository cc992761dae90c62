//! A process run of a file engine: events in as messages, steps of the file system and replies out.

use std::collections::BTreeMap;

use kvsim_crash::Nanos;
use kvsim_fs::FileSystem;
use kvsim_sim::sandbox::Expects;
use kvsim_sim::{Call, CallEnd, Guest, GuestError, OutItem, Outbox};

use crate::calls::TracedCall;
use crate::clock::Told;
use crate::command::Command;
use crate::message;
use crate::reactor::Reactor;

/// How long after its last call an engine is given time for background work, in virtual nanoseconds.
pub const IDLE_AFTER_NS: Nanos = 1_000_000;

/// What one message came to.
pub(crate) struct Ended {
    /// The answer, or why there is none.
    pub(crate) answer: Result<Vec<u8>, GuestError>,
    /// Steps and log lines, in order.
    pub(crate) out: Outbox,
    pub(crate) fuel: u64,
    pub(crate) elapsed_ns: Nanos,
}

/// How messages travel.
pub(crate) enum Transport {
    Reactor(Box<Reactor>),
    Command(Box<Command>),
}

impl Transport {
    pub(crate) fn exchange(&mut self, now: Nanos, message: &[u8]) -> Ended {
        match self {
            Transport::Reactor(reactor) => reactor.exchange(now, message),
            Transport::Command(command) => command.exchange(now, message),
        }
    }
}

/// A running instance of a [`WasiProgram`](crate::WasiProgram).
pub struct WasiGuest {
    transport: Transport,
}

impl std::fmt::Debug for WasiGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasiGuest").finish_non_exhaustive()
    }
}

impl WasiGuest {
    pub(crate) fn new(transport: Transport) -> WasiGuest {
        WasiGuest { transport }
    }

    /// What this process run was told of time and chance so far.
    #[must_use]
    pub fn told(&self) -> Told {
        match &self.transport {
            Transport::Reactor(reactor) => reactor.told(),
            Transport::Command(command) => command.told(),
        }
    }

    /// The file-system calls that were asked for by their numbers, and where in the engine's own code they were made.
    #[must_use]
    pub fn traced(&self) -> &BTreeMap<u64, TracedCall> {
        match &self.transport {
            Transport::Reactor(reactor) => reactor.traced(),
            Transport::Command(command) => command.traced(),
        }
    }
}

impl Guest for WasiGuest {
    fn files(&self) -> Option<&FileSystem> {
        match &self.transport {
            Transport::Reactor(reactor) => Some(reactor.files()),
            Transport::Command(command) => command.files(),
        }
    }

    fn asked_time(&self) -> bool {
        self.told().is_anything()
    }

    fn call(&mut self, now: Nanos, call: Call<'_>, out: &mut Outbox) -> Result<CallEnd, GuestError> {
        let (message, id, expects, is_idle) = match call {
            Call::Open(config) => (message::open(now, config), 0, Expects::Nothing, false),
            Call::Request { id, request } => {
                (message::request(id, request), id, Expects::of(request), false)
            }
            Call::Tick => (message::idle(now), 0, Expects::Nothing, true),
            Call::Complete { .. } => {
                let what = "a file engine submits no operations to a device".to_owned();
                return Err(GuestError::Host(what));
            }
        };
        let mut ended = self.transport.exchange(now, &message);
        out.append(&mut ended.out);
        let reply = message::answer(id, expects, &ended.answer?).map_err(GuestError::Abi)?;
        let mut wake_at = Some(now.saturating_add(ended.elapsed_ns).saturating_add(IDLE_AFTER_NS));
        if is_idle {
            // An engine whose background work fails says so when it is asked for something.
            wake_at = None;
        } else {
            out.push(OutItem::Reply(reply));
        }
        Ok(CallEnd {
            fuel: ended.fuel,
            elapsed_ns: ended.elapsed_ns,
            wake_at,
        })
    }
}
