//! The one engine of this instance, and what the host asks of it.

use kvsim_engine::{DiskError, Engine, Request, Status};

use crate::abi;
use crate::outside::{Call, Outside};
use crate::payload::{parse_open, parse_request, take_reads_outside};
use crate::port::HostPort;

pub(crate) const ABI_VERSION: u32 = 1;

/// The state of the instance.
#[derive(Default)]
pub(crate) struct Guest {
    engine: Option<Engine>,
    port: HostPort,
    /// Whether reads are made outside the engine where they can be.
    reads_outside: bool,
    outside: Outside,
    /// The request to close, as long as reads outside the engine are under way.
    closing: Option<u64>,
}

impl Guest {
    pub(crate) fn open(&mut self, now: u64, payload: &[u8]) -> Option<u64> {
        let (version, mut config) = parse_open(payload).expect("the host's opening is well formed");
        if version != ABI_VERSION {
            abi::reply(
                0,
                Status::Invalid as u32,
                b"another version of the guest ABI",
            );
            return None;
        }
        match take_reads_outside(&mut config.options) {
            Ok(reads_outside) => self.reads_outside = reads_outside,
            Err(text) => {
                abi::reply(0, Status::Invalid as u32, text.as_bytes());
                return None;
            }
        }
        let (engine, wake_at) = Engine::open(now, &config, &mut self.port);
        self.engine = engine;
        wake_at
    }

    pub(crate) fn request(&mut self, now: u64, id: u64, payload: &[u8]) -> Option<u64> {
        let Some(engine) = self.engine.as_mut().filter(|_| self.closing.is_none()) else {
            abi::reply(id, Status::Closed as u32, b"the database is not open");
            return None;
        };
        let parsed = match parse_request(payload) {
            Some(parsed) => parsed,
            None => {
                abi::reply(id, Status::Invalid as u32, b"a malformed request");
                return engine.tick(now, &mut self.port);
            }
        };
        let request = parsed.request();
        let port = &mut self.port;
        if self.reads_outside {
            let mut call = Call { now, engine, port };
            if self.outside.begin(id, &request, &mut call) {
                return engine.tick(now, port);
            }
            if matches!(request, Request::Close) && !self.outside.is_idle() {
                self.closing = Some(id);
                return engine.tick(now, port);
            }
        }
        engine.request(now, id, request, port)
    }

    pub(crate) fn complete(&mut self, now: u64, tag: u64, status: i32) -> Option<u64> {
        let buffer = self.port.take_read(tag);
        let engine = self.engine.as_mut()?;
        let port = &mut self.port;
        if HostPort::is_outside(tag) {
            let buffer = buffer.filter(|_| status == 0);
            let mut call = Call { now, engine, port };
            self.outside.complete(tag, buffer, &mut call);
            let closing = self.closing.take_if(|_| self.outside.is_idle());
            return match closing {
                Some(id) => engine.request(now, id, Request::Close, port),
                None => engine.tick(now, port),
            };
        }
        let result = match status {
            0 => Ok(buffer),
            1 => Err(DiskError::Read),
            2 => Err(DiskError::Write),
            3 => Err(DiskError::Flush),
            _ => Err(DiskError::NoSpace),
        };
        engine.complete(now, tag, result, port)
    }

    pub(crate) fn tick(&mut self, now: u64) -> Option<u64> {
        self.engine
            .as_mut()
            .and_then(|engine| engine.tick(now, &mut self.port))
    }
}
