//! Finding the log that counts, and its end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::flaw::Flaw;
use super::port::{DiskError, Port};
use super::record::{Body, HEADER_BYTES, Header, Kind, encode, padded};
use super::request::Mutation;

/// All keys and values.
pub(crate) type Map = BTreeMap<Vec<u8>, Rc<[u8]>>;

/// How much recovery reads at once.
const CHUNK_BYTES: u64 = 256 << 10;

/// The device, in two halves that hold the log in turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) block_bytes: u64,
    pub(crate) half_bytes: u64,
}

impl Area {
    pub(crate) fn half(&self, generation: u64) -> Range<u64> {
        let start = (generation % 2) * self.half_bytes;
        start..start + self.half_bytes
    }
}

/// A log that is being written.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) generation: u64,
    /// Of the next record.
    pub(crate) sequence: u64,
    /// Where the next record goes.
    pub(crate) end: u64,
}

impl Log {
    pub(crate) fn begin(area: &Area, generation: u64) -> Log {
        Log {
            generation,
            sequence: 0,
            end: area.half(generation).start,
        }
    }

    /// Writes a record; it is durable only after a flush.
    pub(crate) async fn append(
        &mut self,
        port: &Port,
        area: &Area,
        kind: Kind,
        body: &Body,
    ) -> Result<(), DiskError> {
        let bytes = encode(
            self.end,
            kind,
            self.generation,
            self.sequence,
            body,
            area.block_bytes,
        );
        let end = self.end + bytes.len() as u64;
        assert!(
            end <= area.half(self.generation).end,
            "a record is written only where there is room"
        );
        port.write(self.end, bytes).await?;
        self.end = end;
        self.sequence += 1;
        Ok(())
    }
}

/// What recovery found.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) log: Log,
    pub(crate) map: Map,
    /// The last commit: where it stands, and what it wrote.
    pub(crate) last: Option<(u64, Vec<Mutation>)>,
}

/// Why recovery gives up.
#[derive(Debug)]
pub(crate) enum Refusal {
    Io,
    Damage(String),
    /// For the defect that does not open what is there.
    Invalid,
}

impl From<DiskError> for Refusal {
    fn from(_: DiskError) -> Refusal {
        Refusal::Io
    }
}

/// Applies a write to the state in memory.
pub(crate) fn apply(map: &mut Map, mutations: &[Mutation]) {
    for Mutation { key, value } in mutations {
        match value {
            Some(value) => map.insert(key.clone(), Rc::clone(value)),
            None => map.remove(key),
        };
    }
}

/// Reads the log into memory; nothing if there is none yet. `holes_are_known`: a missing record with later ones behind it is no damage.
pub(crate) async fn recover(
    port: &Port,
    area: &Area,
    flaw: Option<Flaw>,
    holes_are_known: bool,
) -> Result<Option<Recovered>, Refusal> {
    let mut reader = Reader {
        port,
        area,
        flaw,
        start: 0,
        window: Vec::new(),
    };
    let headers = reader.headers().await?;
    // A log counts from its switch on, and whatever is behind the switch was written later.
    let counting = headers
        .iter()
        .filter(|(_, header)| header.kind != Kind::Image);
    let Some(generation) = counting.clone().map(|(_, header)| header.generation).max() else {
        return Ok(None);
    };
    let half = area.half(generation);
    let (mut log, mut map, mut last) = (Log::begin(area, generation), Map::new(), None);
    let mut switched = false;
    loop {
        match reader.record(log.end, half.end).await? {
            Found::Record(header, mutations)
                if belongs(&header, &log, switched) || flaw == Some(Flaw::NoResurrection) =>
            {
                apply(&mut map, &mutations);
                if header.kind == Kind::Commit && !mutations.is_empty() {
                    last = Some((log.end, mutations));
                }
                switched |= header.kind == Kind::Switch;
                log.sequence = header.sequence + 1;
                log.end += padded(header.body_len, area.block_bytes);
                continue;
            }
            Found::Torn(header) if belongs(&header, &log, switched) => {
                if let Some(flaw) = flaw {
                    flaw.lose_mind();
                }
                if flaw == Some(Flaw::WorkAfterRecovery) {
                    log.sequence += 1;
                    log.end += padded(header.body_len, area.block_bytes);
                }
            }
            _ => {}
        }
        let mut later = counting
            .clone()
            .filter(|(offset, header)| *offset > log.end && header.generation == generation);
        match (later.next(), flaw) {
            (Some((offset, header)), Some(Flaw::Prefix)) => {
                (log.end, log.sequence) = (*offset, header.sequence)
            }
            (Some(_), Some(Flaw::AcknowledgedDurable | Flaw::WorkAfterRecovery)) | (None, _)
                if switched =>
            {
                break;
            }
            (Some(_), None) if switched && holes_are_known => break,
            (later, _) => {
                let behind = later.map_or_else(String::new, |(offset, _)| {
                    format!(", and there is a later one at {offset}")
                });
                return Err(Refusal::Damage(format!(
                    "record {} at {} is damaged{behind}",
                    log.sequence, log.end
                )));
            }
        }
    }
    Ok(Some(Recovered { log, map, last }))
}

/// Whether a record is the next one of this log. Images that a compaction left which was cut short never are.
fn belongs(header: &Header, log: &Log, switched: bool) -> bool {
    let in_place = (header.kind == Kind::Commit) == switched;
    in_place && header.generation == log.generation && header.sequence == log.sequence
}

enum Found {
    Record(Header, Vec<Mutation>),
    Torn(Header),
    Nothing,
}

/// Reads the device in large pieces.
struct Reader<'a> {
    port: &'a Port,
    area: &'a Area,
    flaw: Option<Flaw>,
    start: u64,
    window: Vec<u8>,
}

impl Reader<'_> {
    /// Every header on the device, with its place.
    async fn headers(&mut self) -> Result<Vec<(u64, Header)>, DiskError> {
        let mut found = Vec::new();
        let mut offset = 0;
        while offset < 2 * self.area.half_bytes {
            let bytes = self.bytes(offset, HEADER_BYTES).await?;
            found.extend(Header::parse(offset, bytes).map(|header| (offset, header)));
            offset += self.area.block_bytes;
        }
        Ok(found)
    }

    async fn record(&mut self, offset: u64, end: u64) -> Result<Found, DiskError> {
        if offset >= end {
            return Ok(Found::Nothing);
        }
        let Some(header) = Header::parse(offset, self.bytes(offset, HEADER_BYTES).await?) else {
            return Ok(Found::Nothing);
        };
        if offset + padded(header.body_len, self.area.block_bytes) > end {
            return Ok(Found::Nothing);
        }
        let unverified = self.flaw == Some(Flaw::DamageReported);
        let body = &self.bytes(offset, HEADER_BYTES + header.body_len).await?[HEADER_BYTES..];
        let mutations =
            Body::parse(body, header.count).filter(|_| unverified || header.is_whole(body));
        Ok(mutations.map_or(Found::Torn(header), |mutations| {
            Found::Record(header, mutations)
        }))
    }

    async fn bytes(&mut self, offset: u64, len: usize) -> Result<&[u8], DiskError> {
        let end = offset + len as u64;
        if offset < self.start || end > self.start + self.window.len() as u64 {
            let wanted = (len as u64)
                .next_multiple_of(self.area.block_bytes)
                .max(CHUNK_BYTES);
            let wanted = wanted.min(2 * self.area.half_bytes - offset);
            self.window = self.port.read(offset, wanted as usize).await?;
            self.start = offset;
        }
        let at = (offset - self.start) as usize;
        Ok(&self.window[at..at + len])
    }
}
