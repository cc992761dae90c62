//! The one engine of this instance, and what the host asks of it.

use kvsim_engine::{DiskError, Engine, Port, Reply, Request, Status};

use crate::ahead::Ahead;
use crate::call::Call;
use crate::imports;
use crate::keys_first::KeysFirst;
use crate::options::Manner;
use crate::outside::Outside;
use crate::payload::{parse_open, parse_request};
use crate::port::HostPort;

pub(crate) const ABI_VERSION: u32 = 1;

/// The state of the instance.
#[derive(Default)]
pub(crate) struct Guest {
    engine: Option<Engine>,
    port: HostPort,
    /// How the engine is used. What is below is idle where that is plain.
    manner: Manner,
    outside: Outside,
    keys_first: KeysFirst,
    ahead: Ahead,
    /// The request to close, as long as others have to be asked first.
    closing: Option<u64>,
    /// When the engine wants to be called.
    wake_at: Option<u64>,
}

impl Guest {
    pub(crate) fn open(&mut self, now: u64, payload: &[u8]) -> Option<u64> {
        let (version, mut config) = parse_open(payload).expect("the host's opening is well formed");
        if version != ABI_VERSION {
            imports::reply(
                0,
                Status::Invalid as u32,
                b"another version of the guest ABI",
            );
            return None;
        }
        match Manner::take(&mut config.options) {
            Ok(manner) => self.manner = manner,
            Err(text) => {
                imports::reply(0, Status::Invalid as u32, text.as_bytes());
                return None;
            }
        }
        self.ahead = Ahead::new(self.manner.ahead);
        let (engine, wake_at) = Engine::open(now, &config, &mut self.port);
        self.engine = engine;
        wake_at
    }

    pub(crate) fn request(&mut self, now: u64, id: u64, payload: &[u8]) -> Option<u64> {
        let Some(engine) = self.engine.as_mut().filter(|_| self.closing.is_none()) else {
            imports::reply(id, Status::Closed as u32, b"the database is not open");
            return None;
        };
        let parsed = match parse_request(payload) {
            Some(parsed) => parsed,
            None => {
                imports::reply(id, Status::Invalid as u32, b"a malformed request");
                return engine.tick(now, &mut self.port);
            }
        };
        let (request, port) = (parsed.request(), &mut self.port);
        if self.manner.is_plain() {
            return engine.request(now, id, request, port);
        }
        if self.ahead.accept(&request) {
            port.reply(id, Reply::Done);
            return self.next_wake_at(now);
        }
        let call = &mut Call { now, engine, port };
        self.ahead.hand_in(call);
        match request {
            Request::Scan(range) if self.manner.keys_first && range.snapshot == 0 => {
                self.keys_first.begin(id, &range, call);
            }
            _ if self.manner.reads_outside && self.outside.begin(id, &request, call) => {}
            Request::Close => self.closing = Some(id),
            _ => {
                call.engine.request(now, id, request, call.port);
            }
        }
        self.end_call(now)
    }

    pub(crate) fn complete(&mut self, now: u64, tag: u64, status: i32) -> Option<u64> {
        let buffer = self.port.take_read(tag);
        let (engine, port) = (self.engine.as_mut()?, &mut self.port);
        if HostPort::is_outside(tag) {
            let call = &mut Call { now, engine, port };
            self.ahead.hand_in(call);
            let buffer = buffer.filter(|_| status == 0);
            self.outside.complete(tag, buffer, call);
            return self.end_call(now);
        }
        let result = match status {
            0 => Ok(buffer),
            1 => Err(DiskError::Read),
            2 => Err(DiskError::Write),
            3 => Err(DiskError::Flush),
            _ => Err(DiskError::NoSpace),
        };
        let wake_at = engine.complete(now, tag, result, port);
        match self.manner.is_plain() {
            true => wake_at,
            false => self.end_call(now),
        }
    }

    pub(crate) fn tick(&mut self, now: u64) -> Option<u64> {
        match self.manner.is_plain() {
            true => self.engine.as_mut()?.tick(now, &mut self.port),
            false => self.end_call(now),
        }
    }

    /// Does what is to be done after each call of the host, and says when the next one is wanted.
    fn end_call(&mut self, now: u64) -> Option<u64> {
        let (engine, port) = (self.engine.as_mut()?, &mut self.port);
        let call = &mut Call { now, engine, port };
        self.ahead.hand_in(call);
        loop {
            while let Some((id, reply)) = call.port.take_own() {
                self.keys_first.go_on(id, reply, call);
            }
            let is_idle = self.outside.is_idle() && self.keys_first.is_idle();
            if let Some(id) = self.closing.take_if(|_| is_idle) {
                call.engine.request(now, id, Request::Close, call.port);
            }
            self.wake_at = call.engine.tick(now, call.port);
            if !call.port.has_own() {
                break;
            }
        }
        self.ahead.renew(call);
        self.next_wake_at(now)
    }

    fn next_wake_at(&self, now: u64) -> Option<u64> {
        let ahead = self.ahead.wake_at(now);
        self.wake_at.into_iter().chain(ahead).min()
    }
}
