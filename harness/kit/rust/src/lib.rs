//! A log-structured key/value engine for kvsim. Everything is in memory; a log on the device says how to get there.
//!
//! The device is two halves that hold the log in turn. A log begins with an image: one frame with all that is live.
//! Each commit adds a frame with the waiting writes: one write, and one flush if anything in it has to be durable. When
//! a half is full, and after each opening, the other half gets an image, which is a commit too. So no block that holds
//! acknowledged bytes is rewritten while they count. An opening also fences its tail: frames that a crash left behind
//! it belong to an older generation.
//!
//! A frame, from its place on the device:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | checksum of the rest, begun with the place |
//! | 8 | 8 | generation of the log |
//! | 16 | 4 | number of the frame in its log |
//! | 20 | 4 | frames of the log that were durable when this one was written |
//! | 24 | 4 | bytes of mutations |
//! | 28 | 4 | magic |
//! | 32 | … | mutations as in a batch, then zeros to the end of the block |
//!
//! Options: `bug=ack_before_flush`, `bug=tail_not_fenced` or `bug=checksum_not_checked` makes a mistake that `kvsim run` finds.

mod kvsim;

use kvsim::{Guest, WakeUp, u32_at, u64_at};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

const HEADER: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"CLOG");
const AREA_BYTES_MAX: usize = 8 << 20;
const KEY_MAX: usize = 1024;
const VALUE_MAX: usize = 65536;

type Map = BTreeMap<Vec<u8>, Rc<[u8]>>;

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    AckBeforeFlush,
    TailNotFenced,
    ChecksumNotChecked,
}

/// What is under way; one operation at a time.
#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    Idle,
    OpeningFlush,
    OpeningRead,
    OpeningCheck,
    Writing,
    Flushing,
}

#[derive(Default)]
struct Engine {
    bug: Option<Bug>,
    block: usize,
    half: usize,
    /// Where the log starts, and where its next frame goes.
    start: usize,
    end: usize,
    /// Of the log, and the newest that was seen.
    generation: u64,
    newest: u64,
    /// Frames of the log, and how many of them are durable.
    sequence: u32,
    durable: u32,
    phase: Phase,
    image_is_due: bool,
    must_flush: bool,
    read_only: bool,
    closed: bool,
    map: Map,
    /// Of an image.
    live_bytes: usize,
    snapshots: BTreeMap<u64, Map>,
    next_snapshot: u64,
    /// What the opening has read.
    device: Vec<u8>,
    /// Mutations that wait for a frame.
    queue: Vec<u8>,
    /// Requests that wait for the next frame, and those of the one under way; whether each is relaxed.
    waiting: Vec<(u64, bool)>,
    group: Vec<(u64, bool)>,
}

export_guest!(Engine);

fn mutation(key: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let kind = if value.is_some() { kvsim::MUTATION_PUT } else { kvsim::MUTATION_DELETE };
    let value = value.unwrap_or_default();
    let lengths = [(key.len() as u32).to_le_bytes(), (value.len() as u32).to_le_bytes()].concat();
    [&[kind], &lengths[..], key, value].concat()
}

/// The mutations in a batch or a frame, each with its value unless it deletes; nothing if one of them is none.
fn mutations(mut bytes: &[u8]) -> Option<Vec<(&[u8], Option<&[u8]>)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(kvsim::MUTATION_KEY)?;
        let key_length = u32_at(head, kvsim::MUTATION_KEY_LENGTH) as usize;
        let value_length = u32_at(head, kvsim::MUTATION_VALUE_LENGTH) as usize;
        if key_length == 0 || key_length > KEY_MAX || value_length > VALUE_MAX {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        all.push((key, (head[0] == kvsim::MUTATION_PUT).then_some(value)));
        bytes = rest;
    }
    Some(all)
}

/// FNV-1a.
fn checksum(bytes: &[u8], place: usize) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ place as u64;
    bytes.iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

impl Engine {
    fn apply(&mut self, changes: &[(&[u8], Option<&[u8]>)]) {
        let bytes = |key: &[u8], value: &[u8]| kvsim::MUTATION_KEY + key.len() + value.len();
        for (key, value) in changes {
            let old = match value {
                Some(value) => self.map.insert(key.to_vec(), Rc::from(*value)),
                None => self.map.remove(*key),
            };
            self.live_bytes -= old.map_or(0, |old| bytes(key, &old));
            self.live_bytes += value.map_or(0, |value| bytes(key, value));
        }
    }

    /// Writes what waits, if nothing is under way: a frame behind the others, or an image into the other half.
    fn commit(&mut self) {
        if self.phase != Phase::Idle || self.waiting.is_empty() {
            return;
        }
        let bytes = (HEADER + self.queue.len()).next_multiple_of(self.block);
        self.image_is_due |= self.end + bytes > self.start + self.half;
        let mut body = std::mem::take(&mut self.queue);
        if self.image_is_due {
            self.start = if self.start == 0 { self.half } else { 0 };
            self.end = self.start;
            self.newest += 1;
            (self.generation, self.sequence, self.durable) = (self.newest, 0, 0);
            body = self.map.iter().flat_map(|(key, value)| mutation(key, Some(value))).collect();
        }
        self.must_flush = self.image_is_due;
        self.group = std::mem::take(&mut self.waiting);
        self.write_frame(&body);
    }

    fn write_frame(&mut self, body: &[u8]) {
        let mut frame = vec![0; 8];
        frame.extend(self.generation.to_le_bytes());
        for number in [self.sequence, self.durable, body.len() as u32, MAGIC] {
            frame.extend(number.to_le_bytes());
        }
        frame.extend(body);
        let sum = checksum(&frame[8..], self.end);
        frame[..8].copy_from_slice(&sum.to_le_bytes());
        frame.resize(frame.len().next_multiple_of(self.block), 0);
        kvsim::disk_write(1, kvsim::DISK_WRITE, self.end as u64, &frame);
        self.end += frame.len();
        self.sequence += 1;
        self.phase = Phase::Writing;
    }

    /// The device failed: nothing that is under way is certain, and nothing more is written until the next opening.
    fn fail(&mut self) {
        self.read_only = true;
        self.queue.clear();
        for (request, _) in self.group.drain(..).chain(self.waiting.drain(..)) {
            kvsim::reply(request, kvsim::IO_ERROR, b"the device failed");
        }
    }

    /// The bytes of the frame at this place of the device, if it is whole.
    fn whole<'a>(&self, device: &'a [u8], place: usize) -> Option<&'a [u8]> {
        let room = &device[place..place - place % self.half + self.half];
        let frame = room.get(..(u32_at(room, 24) as usize).checked_add(HEADER)?)?;
        let is_whole = || u64_at(frame, 0) == checksum(&frame[8..], place);
        let trusts = self.bug == Some(Bug::ChecksumNotChecked);
        (u32_at(frame, 28) == MAGIC && (trusts || is_whole())).then_some(frame)
    }

    /// Reads the newest log into memory, and opens with an image of it.
    fn recover(&mut self, device: &[u8]) {
        for place in [0, self.half] {
            let image = self.whole(device, place).filter(|image| u32_at(image, 16) == 0);
            if let Some(image) = image.filter(|image| u64_at(image, 8) > self.generation) {
                self.generation = u64_at(image, 8);
                (self.newest, self.start, self.end) = (self.generation, place, place);
            }
        }
        while self.generation > 0 && self.end < self.start + self.half {
            let Some(frame) = self.whole(device, self.end) else { break };
            if (u64_at(frame, 8), u32_at(frame, 16)) != (self.generation, self.sequence) {
                break;
            }
            self.apply(&mutations(&frame[HEADER..]).unwrap_or_default());
            self.end += frame.len().next_multiple_of(self.block);
            self.sequence += 1;
        }
        // What follows is torn or never came. If a later frame says that it was durable, it is damaged, and must not be
        // cut off.
        for place in (0..2 * self.half).step_by(self.block) {
            let (its, durable) = (u64_at(device, place + 8), u32_at(device, place + 20));
            let known = if its == self.generation { self.sequence } else { 0 };
            let is_proof = its >= self.generation && durable > known && self.bug.is_none();
            if is_proof && self.whole(device, place).is_some() {
                let message = b"a frame of the log is damaged, and a later one says that it was durable";
                return kvsim::reply(0, kvsim::CORRUPTION, message);
            }
        }
        let fences = self.bug != Some(Bug::TailNotFenced);
        if !fences && self.end < self.start + self.half && u32_at(device, self.end + 28) == MAGIC {
            // The torn frame stays in the way.
            self.end += (HEADER + u32_at(device, self.end + 24) as usize % self.half).next_multiple_of(self.block);
            self.sequence += 1;
        }
        self.durable = self.sequence;
        self.image_is_due = fences || self.generation == 0;
        self.phase = Phase::Idle;
        // The opening itself, answered when the image is durable.
        self.waiting.push((0, false));
        self.commit();
    }

    /// A write, a sync or a close: it waits for its turn. What it changes is seen at once.
    fn enqueue(&mut self, request: u64, is_relaxed: bool, changes: &[u8]) {
        if self.read_only {
            return kvsim::reply(request, kvsim::READ_ONLY, b"the device failed; open the database anew");
        }
        let Some(all) = mutations(changes) else {
            return kvsim::reply(request, kvsim::INVALID, b"a key has 1 to 1,024 bytes, a value at most 65,536");
        };
        let grows = all.iter().any(|(_, value)| value.is_some());
        if grows && HEADER + self.live_bytes + changes.len() > self.half - self.block {
            return kvsim::reply(request, kvsim::NO_SPACE, b"no room for another image");
        }
        self.apply(&all);
        self.queue.extend(changes);
        self.waiting.push((request, is_relaxed));
        self.commit();
    }

    fn scan(map: &Map, payload: &[u8]) -> Vec<u8> {
        let length = |at| u32_at(payload, at) as usize;
        let (limit, max_bytes) = (length(kvsim::SCAN_LIMIT), length(kvsim::SCAN_MAX_BYTES));
        let (start, end) = payload[kvsim::SCAN_KEYS..].split_at(length(kvsim::SCAN_START_LENGTH));
        let bounds = payload[kvsim::SCAN_BOUNDS];
        let (has_start, has_end) = (bounds & kvsim::SCAN_HAS_START != 0, bounds & kvsim::SCAN_HAS_END != 0);
        let low = if has_start { Bound::Included(start) } else { Bound::Unbounded };
        let high = if has_end { Bound::Excluded(end) } else { Bound::Unbounded };
        let is_empty = has_start && has_end && start >= end;
        let mut range = (!is_empty).then(|| map.range::<[u8], _>((low, high))).into_iter().flatten();
        let is_reverse = payload[kvsim::SCAN_DIRECTION] == kvsim::SCAN_REVERSE;
        let mut next = || if is_reverse { range.next_back() } else { range.next() };
        let (mut count, mut bytes, mut entries, mut more) = (0_u32, 0, Vec::new(), 0);
        while let Some((key, value)) = next() {
            bytes += key.len() + value.len();
            if count > 0 && (count as usize >= limit || bytes > max_bytes) {
                more = 1;
                break;
            }
            entries.extend((key.len() as u32).to_le_bytes());
            entries.extend((value.len() as u32).to_le_bytes());
            entries.extend(key);
            entries.extend(&value[..]);
            count += 1;
        }
        [&count.to_le_bytes()[..], &[more, 0, 0, 0], &entries].concat()
    }
}

impl Guest for Engine {
    const POLICIES: &'static str = "max_key_bytes=1024\nmax_value_bytes=65536\n";

    fn open(&mut self, _now: u64, payload: &[u8]) -> WakeUp {
        let (sector, physical) = (u32_at(payload, kvsim::OPEN_SECTOR), u32_at(payload, kvsim::OPEN_PHYSICAL_BLOCK));
        self.block = sector.max(physical) as usize;
        let capacity = u64_at(payload, kvsim::OPEN_CAPACITY).min(AREA_BYTES_MAX as u64) as usize;
        self.half = capacity / 2 / self.block * self.block;
        if u32_at(payload, kvsim::OPEN_ABI_VERSION) != kvsim::ABI_VERSION || self.half < 8 * self.block {
            kvsim::reply(0, kvsim::INVALID, b"another version of the ABI, or a device of less than 16 blocks");
            return None;
        }
        let options = String::from_utf8_lossy(&payload[kvsim::OPEN_OPTIONS..]);
        for option in options.lines() {
            self.bug = Some(match option {
                "bug=ack_before_flush" => Bug::AckBeforeFlush,
                "bug=tail_not_fenced" => Bug::TailNotFenced,
                "bug=checksum_not_checked" => Bug::ChecksumNotChecked,
                unknown => {
                    kvsim::reply(0, kvsim::INVALID, unknown.as_bytes());
                    return None;
                }
            });
        }
        // What a killed process has left in the cache has to be durable before it is shown.
        kvsim::disk_other(1, kvsim::DISK_FLUSH, 0, 0);
        self.phase = Phase::OpeningFlush;
        None
    }

    fn complete(&mut self, _now: u64, _tag: u64, status: u32, data: Vec<u8>) -> WakeUp {
        match self.phase {
            Phase::OpeningFlush | Phase::OpeningRead | Phase::OpeningCheck if status != kvsim::DISK_OK => {
                kvsim::reply(0, kvsim::IO_ERROR, b"the device failed during the opening");
            }
            _ if status != kvsim::DISK_OK => self.fail(),
            Phase::OpeningFlush => {
                kvsim::disk_read(1, 0, 2 * self.half);
                self.phase = Phase::OpeningRead;
            }
            // A read that is out of date is whole and wrong: so one block is read twice.
            Phase::OpeningRead => {
                self.device = data;
                kvsim::disk_read(1, self.half as u64, self.block);
                self.phase = Phase::OpeningCheck;
            }
            Phase::OpeningCheck => {
                let device = std::mem::take(&mut self.device);
                match device[self.half..].starts_with(&data) {
                    true => self.recover(&device),
                    false => kvsim::reply(0, kvsim::CORRUPTION, b"two reads of one block differ"),
                }
            }
            Phase::Writing | Phase::Flushing | Phase::Idle => {
                let is_durable = self.phase == Phase::Flushing || self.bug == Some(Bug::AckBeforeFlush);
                // The frame behind an image says that the image is durable. If the image is damaged later, it is not
                // taken for torn.
                let holds = self.phase == Phase::Flushing && self.image_is_due;
                let (answered, left) =
                    std::mem::take(&mut self.group).into_iter().partition(|(_, is_relaxed)| *is_relaxed || (is_durable && !holds));
                self.group = left;
                for (request, _) in answered {
                    kvsim::reply(request, kvsim::OK, &[]);
                }
                if self.phase == Phase::Writing && (self.must_flush || !self.group.is_empty()) {
                    kvsim::disk_other(1, kvsim::DISK_FLUSH, 0, 0);
                    self.phase = Phase::Flushing;
                    return None;
                }
                if self.phase == Phase::Flushing {
                    self.durable = self.sequence;
                }
                if std::mem::take(&mut self.image_is_due) {
                    self.write_frame(&[]);
                    return None;
                }
                self.phase = Phase::Idle;
                self.commit();
            }
        }
        None
    }

    fn request(&mut self, _now: u64, request: u64, payload: &[u8]) -> WakeUp {
        let (operation, is_relaxed) = (payload[0], payload[1] == kvsim::RELAXED);
        let snapshot = match operation {
            kvsim::GET | kvsim::SCAN | kvsim::RELEASE => u64_at(payload, 4),
            _ => 0,
        };
        let is_known = match snapshot {
            0 => operation != kvsim::RELEASE,
            number => self.snapshots.contains_key(&number),
        };
        let state = self.snapshots.get(&snapshot).unwrap_or(&self.map);
        match operation {
            _ if self.closed => kvsim::reply(request, kvsim::CLOSED, b"the database is closed"),
            _ if !is_known => kvsim::reply(request, kvsim::INVALID, b"no such snapshot"),
            kvsim::PUT => {
                let (key, value) = payload[kvsim::PUT_KEY..].split_at(u32_at(payload, kvsim::PUT_KEY_LENGTH) as usize);
                self.enqueue(request, is_relaxed, &mutation(key, Some(value)));
            }
            kvsim::DELETE => self.enqueue(request, is_relaxed, &mutation(&payload[kvsim::DELETE_KEY..], None)),
            kvsim::BATCH => self.enqueue(request, is_relaxed, &payload[kvsim::BATCH_MUTATIONS..]),
            kvsim::GET => match state.get(&payload[kvsim::GET_KEY..]) {
                Some(value) => kvsim::reply(request, kvsim::OK, value),
                None => kvsim::reply(request, kvsim::NOT_FOUND, &[]),
            },
            kvsim::SCAN => kvsim::reply(request, kvsim::OK, &Engine::scan(state, payload)),
            kvsim::SNAPSHOT => {
                self.next_snapshot += 1;
                self.snapshots.insert(self.next_snapshot, self.map.clone());
                kvsim::reply(request, kvsim::OK, &self.next_snapshot.to_le_bytes());
            }
            kvsim::RELEASE => {
                self.snapshots.remove(&snapshot);
                kvsim::reply(request, kvsim::OK, &[]);
            }
            // Sync and close: durable, and nothing in them.
            _ => {
                self.enqueue(request, false, &[]);
                self.closed = operation == kvsim::CLOSE;
            }
        }
        None
    }
}
