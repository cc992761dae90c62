//! Reading values: from memory while they are not durable, from the cache, or from the device, verified.
//!
//! Invariants:
//! - bytes from the device are returned only after their checksum, key, sequence number and tag were verified;
//! - a failed or mismatching read is tried once more; then it is a reply of its own and nothing else suffers;
//! - a segment is not handed out anew while it is being read.
//!
//! Values that a scan wants together and that lie near each other, as those of one commit do, are read together.

use std::sync::Arc;

use crate::api::buffer::{IoBuf, Shared};
use crate::api::event::Event;
use crate::api::port::{DiskError, DiskOp, IoResult, Reply, RequestId, SnapshotId, Status};
use crate::core::Core;
use crate::format::checksum::{Identity, Kind};
use crate::format::damage::{Corruption, Mismatch};
use crate::format::pointer::Pointer;
use crate::format::record::{self, record_bytes, tag};
use crate::format::{round_up, to_usize};
use crate::index::key::is_same;
use crate::index::place::{Place, Version};
use crate::log::append::InMemory;
use crate::mutant::{Mutant, mutant};
use crate::read::pieces::{Piece, Wanted, pieces, value_in};
use crate::read::state::{Held, Joined, Sink, Source, ValueRead, ValueResult};
use crate::runtime::flight::Owner;
use crate::runtime::request::Verdict;
use crate::segments::passes::Pass;

/// What a read from the device brought.
#[derive(Clone)]
struct Brought {
    bytes: Arc<IoBuf>,
    /// The offset of the first.
    start: u64,
    /// Whether much of it was wanted.
    is_dense: bool,
}

impl Core {
    /// The sequence that a snapshot reads at; 0 is now.
    pub(crate) fn sequence_of(&self, snapshot: SnapshotId) -> Result<u64, Verdict> {
        if snapshot == 0 {
            return Ok(u64::MAX);
        }
        let at = self.snapshots.get(&snapshot).copied();
        at.ok_or_else(|| {
            Verdict::Refused(Status::Invalid, format!("there is no snapshot {snapshot}"))
        })
    }

    pub(crate) fn get(&mut self, id: RequestId, snapshot: SnapshotId, key: &[u8]) -> Verdict {
        let at = match self.sequence_of(snapshot) {
            Ok(at) => at,
            Err(refused) => return refused,
        };
        if self.knows(key) {
            self.answer_get(id, at, key);
        } else {
            self.look_up_for(id, at, key);
        }
        Verdict::Taken
    }

    /// Answers a get of a key that memory knows of.
    pub(super) fn answer_get(&mut self, id: RequestId, at: u64, key: &[u8]) {
        match self.index.get(key, at).cloned() {
            None => self.reply(id, Reply::NotFound),
            Some(version) => match self.in_memory(&version.place) {
                Some(value) => self.reply(id, Reply::Value(value)),
                None => {
                    let held = self.hold_place(&version.place);
                    self.start_read(Sink::Get(id), key, &version, held);
                    self.submit_wanted();
                }
            },
        }
    }

    /// A value that needs no read.
    pub(crate) fn in_memory(&mut self, place: &Place) -> Option<Shared> {
        match place {
            Place::Tombstone => panic!("a tombstone is never read"),
            Place::Inline(value) => Some(Shared::copy(value)),
            Place::Log {
                lsn, value_bytes, ..
            } => {
                let value_bytes = *value_bytes as usize;
                if let Some(value) = self.cache.get(*lsn) {
                    self.stats.cache_hits += 1;
                    return Some(Shared::whole(value));
                }
                match self.log.in_memory(*lsn)? {
                    InMemory::Open(bytes) => {
                        let (record, _) =
                            record::parse(*lsn, bytes).expect("what was just appended parses");
                        Some(Shared::copy(record.value))
                    }
                    InMemory::Sealed(data, at) => {
                        let (record, end) =
                            record::parse(*lsn, &data[at..]).expect("what was sealed parses");
                        assert_eq!(
                            record.value.len(),
                            value_bytes,
                            "the index knows the length"
                        );
                        Some(Shared::part(data.clone(), at + end - value_bytes, at + end))
                    }
                }
            }
            Place::Extent(pointer) => {
                if !pointer
                    .chunks
                    .iter()
                    .all(|chunk| self.volatile_chunks.contains_key(&chunk.offset))
                {
                    return None;
                }
                if let [chunk] = &pointer.chunks[..] {
                    let data = self.volatile_chunks[&chunk.offset].clone();
                    return Some(Shared::part(data, 0, chunk.len as usize));
                }
                let mut value = Vec::with_capacity(pointer.total as usize);
                for chunk in &pointer.chunks {
                    value.extend_from_slice(
                        &self.volatile_chunks[&chunk.offset][..chunk.len as usize],
                    );
                }
                Some(Shared::whole(value.into()))
            }
        }
    }

    /// Keeps the segments of a place from being handed out anew, and remembers where on the device the place is. A
    /// segment that is freed while it is held drains, and is no part of the log any more.
    pub(crate) fn hold_place(&mut self, place: &Place) -> Held {
        let segments = self.segments_of(place);
        for physical in &segments {
            self.segments.add_reader(*physical);
        }
        let offsets = match place {
            Place::Tombstone | Place::Inline(_) => Vec::new(),
            Place::Log { lsn, .. } => vec![self.offset_of(*lsn)],
            Place::Extent(pointer) => pointer.chunks.iter().map(|chunk| chunk.offset).collect(),
        };
        Held { segments, offsets }
    }

    /// A reader of everything is done.
    pub(super) fn end_pass(&mut self, pass: Pass) {
        self.segments.end_pass(pass);
        self.activity += 1;
    }

    fn let_go_place(&mut self, held: &[u32]) {
        for physical in held {
            self.segments.remove_reader(*physical);
        }
        self.activity += 1;
    }

    fn segments_of(&self, place: &Place) -> Vec<u32> {
        match place {
            Place::Tombstone | Place::Inline(_) => Vec::new(),
            Place::Log { lsn, .. } => vec![
                self.segments
                    .of_lsn(*lsn)
                    .expect("the index refers only to the log"),
            ],
            Place::Extent(pointer) => pointer
                .chunks
                .iter()
                .map(|chunk| self.geometry.locate(chunk.offset).0)
                .collect(),
        }
    }

    /// Wants a value whose place is held; `submit_wanted` asks the device.
    pub(crate) fn start_read(&mut self, sink: Sink, key: &[u8], version: &Version, held: Held) {
        let read = self.reads.next;
        self.reads.next += 1;
        self.stats.value_reads += 1;
        let Held { segments, offsets } = held;
        let source = match &version.place {
            Place::Log {
                lsn,
                value_bytes,
                tag,
            } => Source::Record {
                lsn: *lsn,
                value_bytes: *value_bytes,
                tag: *tag,
            },
            Place::Extent(pointer) => Source::Chunks {
                pointer: pointer.clone(),
                value: vec![0; pointer.total as usize],
            },
            Place::Tombstone | Place::Inline(_) => panic!("nothing of it is on the device"),
        };
        let mut value = ValueRead {
            sink,
            key: key.into(),
            sequence: version.sequence,
            source,
            retried: vec![false; offsets.len()],
            offsets,
            outstanding: 0,
            held: segments,
            failed: None,
        };
        for part in 0..value.offsets.len() {
            if !self.copy_from_memory(&mut value, part) {
                self.want_part(read, &mut value, part);
            }
        }
        assert!(
            value.outstanding > 0,
            "a value that is all in memory is not read"
        );
        self.reads.values.insert(read, value);
    }

    /// A chunk that is not durable yet is taken from memory: garbage collection may have moved a part of a value.
    fn copy_from_memory(&self, value: &mut ValueRead, part: usize) -> bool {
        let Source::Chunks {
            pointer,
            value: bytes,
        } = &mut value.source
        else {
            return false;
        };
        let Some(data) = self.volatile_chunks.get(&value.offsets[part]) else {
            return false;
        };
        let chunk = pointer.chunks[part];
        let start = chunk_start(pointer, part);
        bytes[start..start + chunk.len as usize].copy_from_slice(&data[..chunk.len as usize]);
        true
    }

    /// Wants the sectors that hold a part.
    fn want_part(&mut self, read: u64, value: &mut ValueRead, part: usize) {
        let sector = self.geometry.sector_bytes;
        value.outstanding += 1;
        self.reads.wanted.push(Wanted {
            read,
            part: crate::format::len32(part),
            start: value.offsets[part] / sector * sector,
            end: round_up(value.offsets[part] + value.part_bytes(part), sector),
        });
    }

    /// Asks the device for all that is wanted, and at once for what lies near each other.
    pub(crate) fn submit_wanted(&mut self) {
        let mut wanted = std::mem::take(&mut self.reads.wanted);
        for piece in pieces(&mut wanted) {
            self.submit_piece(&piece, &wanted[piece.parts.clone()]);
        }
        wanted.clear();
        self.reads.wanted = wanted;
    }

    fn submit_piece(&mut self, piece: &Piece, parts: &[Wanted]) {
        let (start, end, is_dense) = (piece.start, piece.end, piece.is_dense());
        let owner = if let [Wanted { read, part, .. }] = *parts {
            Owner::Value { read, part }
        } else {
            let joined = self.reads.next_joined;
            self.reads.next_joined += 1;
            let parts = parts.iter().map(|one| (one.read, one.part)).collect();
            let it = Joined {
                start,
                is_dense,
                parts,
            };
            self.reads.joined.insert(joined, it);
            Owner::Values { joined }
        };
        let op = DiskOp::Read {
            offset: start,
            buffer: IoBuf::zeroed(to_usize(end - start)),
        };
        self.submit(owner, op);
    }

    /// A part was read, or not.
    pub(crate) fn value_read(&mut self, read: u64, part: u32, result: IoResult) {
        let value = &self.reads.values[&read];
        let sector = self.geometry.sector_bytes;
        let start = value.offsets[part as usize] / sector * sector;
        self.part_read(read, part, brought(result, start, true));
    }

    /// Parts of several values were read, or not: then each is tried once more by itself.
    pub(crate) fn values_read(&mut self, joined: u64, result: IoResult) {
        let joined = self.reads.joined.remove(&joined);
        let joined = joined.expect("what was joined stays until it is read");
        let result = brought(result, joined.start, joined.is_dense);
        for (read, part) in joined.parts {
            self.part_read(read, part, result.clone());
        }
    }

    fn part_read(&mut self, read: u64, part: u32, result: Result<Brought, DiskError>) {
        let mut value = self
            .reads
            .values
            .remove(&read)
            .expect("a read stays until its last part");
        let part = part as usize;
        value.outstanding -= 1;
        let outcome = match result {
            Ok(brought) => self.take_part(&mut value, part, &brought),
            Err(error) => Err(Unread::Disk(error)),
        };
        let done = match outcome {
            Ok(done) => done,
            Err(_) if !value.retried[part] && value.failed.is_none() => {
                value.retried[part] = true;
                self.want_part(read, &mut value, part);
                self.submit_wanted();
                None
            }
            Err(unread) => {
                if let Unread::Damaged(damage) = unread {
                    let key = Some(value.key.clone());
                    self.happened(Event::Damaged { key, damage });
                }
                value.failed.get_or_insert(unread.failure());
                None
            }
        };
        if value.outstanding > 0 {
            self.reads.values.insert(read, value);
            return;
        }
        self.let_go_place(&value.held);
        let result = match (value.failed, value.source) {
            (Some(failure), _) => Err(failure),
            (None, Source::Chunks { value, .. }) => Ok(Shared::whole(value.into())),
            (None, Source::Record { .. }) => Ok(done.expect("the one part was verified")),
        };
        self.deliver(value.sink, result);
    }

    /// Verifies a part. A record's value is returned, a chunk's is put in its place.
    fn take_part(
        &mut self,
        value: &mut ValueRead,
        part: usize,
        brought: &Brought,
    ) -> Result<Option<Shared>, Unread> {
        let offset = value.offsets[part];
        let lead = to_usize(offset - brought.start);
        let end = lead + to_usize(value.part_bytes(part));
        let bytes = &brought.bytes[lead..end];
        match &mut value.source {
            Source::Record {
                lsn,
                value_bytes,
                tag: expected,
            } => {
                let lsn = *lsn;
                verify_record(&self.id, lsn, &value.key, value.sequence, *expected, bytes)
                    .map_err(|mismatch| Unread::Damaged(mismatch.at(offset)))?;
                let value = end - *value_bytes as usize..end;
                let value = value_in(&brought.bytes, brought.is_dense, value);
                if self.cache.takes(value.len()) && self.segments.of_lsn(lsn).is_some() {
                    self.cache.insert(lsn, value[..].into());
                }
                Ok(Some(value))
            }
            Source::Chunks { pointer, value } => {
                let chunk = pointer.chunks[part];
                let found = self.id.checksum(Kind::Chunk, 0, chunk.offset, bytes);
                Mismatch::check("chunk checksum", chunk.checksum, found)
                    .map_err(|mismatch| Unread::Damaged(mismatch.at(offset)))?;
                let start = chunk_start(pointer, part);
                value[start..start + bytes.len()].copy_from_slice(bytes);
                Ok(None)
            }
        }
    }

    fn deliver(&mut self, sink: Sink, result: ValueResult) {
        match sink {
            Sink::Scan { scan, slot } => self.scan_value(scan, slot, result),
            Sink::Get(id) => match result {
                Ok(value) => self.reply(id, Reply::Value(value)),
                Err((status, message)) => self.fail(id, status, message),
            },
        }
    }
}

impl ValueRead {
    fn part_bytes(&self, part: usize) -> u64 {
        match &self.source {
            Source::Record { value_bytes, .. } => {
                record_bytes(self.key.len(), *value_bytes as usize) as u64
            }
            Source::Chunks { pointer, .. } => pointer.chunks[part].len.into(),
        }
    }
}

fn chunk_start(pointer: &Pointer, part: usize) -> usize {
    pointer.chunks[..part]
        .iter()
        .map(|chunk| chunk.len as usize)
        .sum()
}

/// Whether `bytes` are the record that the index refers to: the same position, key, version and checksum.
pub(crate) fn verify_record(
    id: &Identity,
    lsn: u64,
    key: &[u8],
    sequence: u64,
    expected: u32,
    bytes: &[u8],
) -> Result<(), Mismatch> {
    if mutant(Mutant::OldNeighbourTaken) {
        return Ok(());
    }
    let record = record::verify(id, lsn, bytes)?;
    Mismatch::check("record tag", expected.into(), tag(record.checksum).into())?;
    Mismatch::check("record sequence number", sequence, record.sequence)?;
    if !is_same(record.key, key) || !record.kind.has_value() {
        return Err(Mismatch {
            what: "record key",
            expected: key.len() as u64,
            found: record.key.len() as u64,
        });
    }
    Ok(())
}

/// What a read from `start` on brought.
fn brought(result: IoResult, start: u64, is_dense: bool) -> Result<Brought, DiskError> {
    result.map(|buffer| Brought {
        bytes: Arc::new(buffer.expect("a read brings its buffer")),
        start,
        is_dense,
    })
}

/// Why a part of a value is not there.
enum Unread {
    Disk(DiskError),
    Damaged(Corruption),
}

impl Unread {
    fn failure(&self) -> (Status, String) {
        match self {
            Unread::Disk(error) => (
                Status::IoError,
                format!("the value could not be read: {error}"),
            ),
            Unread::Damaged(damage) => (Status::Corruption, damage.to_string()),
        }
    }
}
