//! The port to the host: operations leave through the imports, and buffers of reads wait here for their completion.

use std::collections::VecDeque;

use kvsim_engine::{CoveragePoint, DiskOp, Entry, IoBuf, Level, Port, Reply};

use crate::imports;

/// Requests of the guest itself have this bit in their number. Their replies are for the guest.
pub(crate) const OWN: u64 = 1 << 63;
/// Tags from here on are of reads outside the engine, whose own are small.
const OUTSIDE: u64 = 1 << 32;

#[derive(Default)]
pub(crate) struct HostPort {
    /// The engine's reads, by tag.
    reads: Vec<Option<IoBuf>>,
    outside: Vec<Option<IoBuf>>,
    body: Vec<u8>,
    /// Replies to the guest itself, with the number that it has asked for.
    own: VecDeque<(u64, Reply)>,
}

impl HostPort {
    /// Whether the read of this tag was made outside the engine.
    pub(crate) fn is_outside(tag: u64) -> bool {
        tag >= OUTSIDE
    }

    /// Reads so many bytes outside the engine. Returns the tag.
    pub(crate) fn read_outside(&mut self, offset: u64, bytes: usize) -> u64 {
        let free = self.outside.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.outside.len());
        let tag = OUTSIDE + slot as u64;
        submit_read(&mut self.outside, slot, tag, offset, IoBuf::zeroed(bytes));
        tag
    }

    /// Whether there is a reply to the guest itself.
    pub(crate) fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// The next reply to the guest itself.
    pub(crate) fn take_own(&mut self) -> Option<(u64, Reply)> {
        self.own.pop_front()
    }

    /// The buffer of a read that has ended.
    pub(crate) fn take_read(&mut self, tag: u64) -> Option<IoBuf> {
        let reads = match HostPort::is_outside(tag) {
            true => &mut self.outside,
            false => &mut self.reads,
        };
        let slot = usize::try_from(tag % OUTSIDE).ok()?;
        reads.get_mut(slot)?.take()
    }
}

fn submit_read(
    reads: &mut Vec<Option<IoBuf>>,
    slot: usize,
    tag: u64,
    offset: u64,
    mut buffer: IoBuf,
) {
    imports::submit_read(tag, offset, &mut buffer);
    if reads.len() <= slot {
        reads.resize_with(slot + 1, || None);
    }
    reads[slot] = Some(buffer);
}

impl Port for HostPort {
    fn submit(&mut self, tag: u64, op: DiskOp) {
        match op {
            DiskOp::Read { offset, buffer } => {
                let slot = usize::try_from(tag).expect("tags are small");
                submit_read(&mut self.reads, slot, tag, offset, buffer);
            }
            // The host copies at once.
            DiskOp::Write {
                offset,
                data,
                through,
            } => imports::submit_write(tag, offset, &data, through),
            DiskOp::Flush => imports::submit_plain(tag, imports::KIND_FLUSH, 0, 0),
            DiskOp::Discard { offset, len } => {
                imports::submit_plain(tag, imports::KIND_DISCARD, offset, len)
            }
            DiskOp::Grow { new_bytes } => {
                imports::submit_plain(tag, imports::KIND_GROW, new_bytes, 0)
            }
        }
    }

    fn reply(&mut self, id: u64, reply: Reply) {
        if id & OWN != 0 {
            return self.own.push_back((id & !OWN, reply));
        }
        match reply {
            Reply::Done => imports::reply(id, 0, &[]),
            Reply::Value(value) => imports::reply(id, 0, &value),
            Reply::NotFound => imports::reply(id, 1, &[]),
            Reply::Entries { entries, more } => {
                encode_entries(&entries, more, &mut self.body);
                imports::reply(id, 0, &self.body);
            }
            Reply::Snapshot(snapshot) => imports::reply(id, 0, &snapshot.to_le_bytes()),
            Reply::Failed(status, message) => imports::reply(id, status as u32, message.as_bytes()),
        }
    }

    fn log(&mut self, level: Level, text: &str) {
        imports::log(level as u32, text);
    }

    fn reached(&mut self, point: CoveragePoint) {
        imports::reached(point as u32);
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
