//! A process run of a file engine: events in as messages, steps of the file system and replies out.

use std::collections::BTreeMap;

use kvsim_crash::Nanos;
use kvsim_fs::FileSystem;
use kvsim_sim::api::Body;
use kvsim_sim::sandbox::Expects;
use kvsim_sim::{Call, CallEnd, Guest, GuestError, LogLevel, OutItem, Outbox, TracedCall};

use crate::clock::Told;
use crate::command::Command;
use crate::exchange::{Ended, When};
use crate::host::TOLD_BY_HOST;
use crate::message;
use crate::reactor::Reactor;

/// How long after its last call an engine is given time for background work, in virtual nanoseconds.
pub const IDLE_AFTER_NS: Nanos = 1_000_000;

/// How messages travel.
pub(crate) enum Transport {
    Reactor(Box<Reactor>),
    Command(Box<Command>),
}

impl Transport {
    pub(crate) fn exchange(&mut self, when: When, message: &[u8]) -> Ended {
        match self {
            Transport::Reactor(reactor) => reactor.exchange(when, message),
            Transport::Command(command) => command.exchange(when, message),
        }
    }
}

/// A running instance of a [`WasiProgram`](crate::WasiProgram).
pub struct WasiGuest {
    transport: Transport,
    /// What the real-time clock shows at the start of this process run.
    begins_at: Nanos,
    /// The world's time at the opening.
    opened_at: Option<Nanos>,
}

impl std::fmt::Debug for WasiGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasiGuest").finish_non_exhaustive()
    }
}

impl WasiGuest {
    pub(crate) fn new(transport: Transport, begins_at: Nanos) -> WasiGuest {
        WasiGuest {
            transport,
            begins_at,
            opened_at: None,
        }
    }

    /// What this process run was told of time and chance so far.
    #[must_use]
    pub fn told(&self) -> Told {
        match &self.transport {
            Transport::Reactor(reactor) => reactor.told(),
            Transport::Command(command) => command.told(),
        }
    }
}

/// What the host has told people of why it refused something. An engine passes on no more of it than the name of an error.
fn told_by_host(out: &[OutItem]) -> impl Iterator<Item = &str> {
    out.iter().filter_map(|item| match item {
        OutItem::Log {
            level: LogLevel::Warn,
            text,
        } => text.strip_prefix(TOLD_BY_HOST),
        _ => None,
    })
}

impl Guest for WasiGuest {
    fn files(&self) -> Option<&FileSystem> {
        match &self.transport {
            Transport::Reactor(reactor) => Some(reactor.files()),
            Transport::Command(command) => command.files(),
        }
    }

    fn traced(&self) -> Option<&BTreeMap<u64, TracedCall>> {
        Some(match &self.transport {
            Transport::Reactor(reactor) => reactor.traced(),
            Transport::Command(command) => command.traced(),
        })
    }

    fn asked_time(&self) -> bool {
        self.told().world_time_reads > 0
    }

    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        let opened_at = *self.opened_at.get_or_insert(now);
        let shown = self.begins_at.saturating_add(now.saturating_sub(opened_at));
        let (message, id, expects, is_idle) = match call {
            Call::Open(config) => (message::open(shown, config), 0, Expects::Nothing, false),
            Call::Request { id, request } => (
                message::request(id, request),
                id,
                Expects::of(request),
                false,
            ),
            Call::Tick => (message::idle(shown), 0, Expects::Nothing, true),
            Call::Complete { .. } => {
                let what = "a file engine submits no operations to a device".to_owned();
                return Err(GuestError::Host(what));
            }
        };
        let mut ended = self.transport.exchange(When { now, is_idle }, &message);
        let begin = out.len();
        out.append(&mut ended.out);
        let mut reply = message::answer(id, expects, &ended.answer?).map_err(GuestError::Abi)?;
        if let Body::Message(text) = &mut reply.body {
            text.extend(told_by_host(&out[begin..]).map(|told| format!(" ({told})")));
        }
        let mut wake_at = Some(
            now.saturating_add(ended.elapsed_ns)
                .saturating_add(IDLE_AFTER_NS),
        );
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
