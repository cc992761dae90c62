//! The one engine of this instance, and its port to the host.

use kvsim_engine::{
    CoveragePoint, DiskError, DiskOp, Engine, Entry, IoBuf, Level, Port, Reply, Request, Status,
};

use crate::abi;
use crate::payload::{Parsed, parse_open, parse_request};

pub(crate) const ABI_VERSION: u32 = 1;

/// The state of the instance.
#[derive(Default)]
pub(crate) struct Guest {
    engine: Option<Engine>,
    port: HostPort,
}

/// Operations leave through the imports; buffers of reads wait here for their completion.
#[derive(Default)]
struct HostPort {
    /// By tag, which is small.
    reads: Vec<Option<IoBuf>>,
    body: Vec<u8>,
}

impl Guest {
    pub(crate) fn open(&mut self, now: u64, payload: &[u8]) -> Option<u64> {
        let (version, config) = parse_open(payload).expect("the host's opening is well formed");
        if version != ABI_VERSION {
            abi::reply(
                0,
                Status::Invalid as u32,
                b"another version of the guest ABI",
            );
            return None;
        }
        let (engine, wake_at) = Engine::open(now, &config, &mut self.port);
        self.engine = engine;
        wake_at
    }

    pub(crate) fn request(&mut self, now: u64, id: u64, payload: &[u8]) -> Option<u64> {
        let Some(engine) = &mut self.engine else {
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
        let request = match &parsed {
            Parsed::Write {
                mutations,
                durability,
            } => Request::Write {
                mutations,
                durability: *durability,
            },
            Parsed::Get { snapshot, key } => Request::Get {
                snapshot: *snapshot,
                key,
            },
            Parsed::Scan(range) => Request::Scan(*range),
            Parsed::Snapshot => Request::Snapshot,
            Parsed::Release { snapshot } => Request::Release {
                snapshot: *snapshot,
            },
            Parsed::Sync => Request::Sync,
            Parsed::Close => Request::Close,
        };
        engine.request(now, id, request, &mut self.port)
    }

    pub(crate) fn complete(&mut self, now: u64, tag: u64, status: i32) -> Option<u64> {
        let slot = usize::try_from(tag).ok();
        let buffer = slot.and_then(|slot| self.port.reads.get_mut(slot)?.take());
        let result = match status {
            0 => Ok(buffer),
            1 => Err(DiskError::Read),
            2 => Err(DiskError::Write),
            3 => Err(DiskError::Flush),
            _ => Err(DiskError::NoSpace),
        };
        self.engine
            .as_mut()
            .and_then(|engine| engine.complete(now, tag, result, &mut self.port))
    }

    pub(crate) fn tick(&mut self, now: u64) -> Option<u64> {
        self.engine
            .as_mut()
            .and_then(|engine| engine.tick(now, &mut self.port))
    }
}

impl Port for HostPort {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        match op {
            DiskOp::Read { offset, mut buffer } => {
                abi::submit_read(tag, offset, &mut buffer);
                let slot = usize::try_from(tag).expect("tags are small");
                if self.reads.len() <= slot {
                    self.reads.resize_with(slot + 1, || None);
                }
                self.reads[slot] = Some(buffer);
            }
            // The host copies at once.
            DiskOp::Write {
                offset,
                data,
                through,
            } => abi::submit_write(tag, offset, &data, through),
            DiskOp::Flush => abi::submit_plain(tag, abi::KIND_FLUSH, 0, 0),
            DiskOp::Discard { offset, len } => {
                abi::submit_plain(tag, abi::KIND_DISCARD, offset, len)
            }
            DiskOp::Grow { new_bytes } => abi::submit_plain(tag, abi::KIND_GROW, new_bytes, 0),
        }
    }

    fn reply(&mut self, id: u64, reply: Reply) {
        match reply {
            Reply::Done => abi::reply(id, 0, &[]),
            Reply::Value(value) => abi::reply(id, 0, &value),
            Reply::NotFound => abi::reply(id, 1, &[]),
            Reply::Entries { entries, more } => {
                encode_entries(&entries, more, &mut self.body);
                abi::reply(id, 0, &self.body);
            }
            Reply::Snapshot(snapshot) => abi::reply(id, 0, &snapshot.to_le_bytes()),
            Reply::Failed(status, message) => abi::reply(id, status as u32, message.as_bytes()),
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        abi::log(level as u32, text);
    }

    fn reached(&mut self, point: CoveragePoint) {
        abi::reached(point as u32);
    }
}

fn encode_entries(entries: &[Entry], more: bool, out: &mut Vec<u8>) {
    let len = |bytes: &[u8]| {
        u32::try_from(bytes.len())
            .expect("a scan is bounded")
            .to_le_bytes()
    };
    out.clear();
    let bytes = |entry: &Entry| 8 + entry.key.len() + entry.value.len();
    out.reserve(8 + entries.iter().map(bytes).sum::<usize>());
    out.extend_from_slice(
        &u32::try_from(entries.len())
            .expect("a scan is bounded")
            .to_le_bytes(),
    );
    out.extend_from_slice(&[u8::from(more), 0, 0, 0]);
    for entry in entries {
        out.extend_from_slice(&len(&entry.key));
        out.extend_from_slice(&len(&entry.value));
        out.extend_from_slice(&entry.key);
        out.extend_from_slice(&entry.value);
    }
}
