//! A guest in plain Rust, so small that every crash state of it can be counted by hand. It has records of two sectors,
//! one after the other, each written and then flushed before it is acknowledged.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_harness::guest::Program;
use kvsim_sim::api::{Body, Direction, Reply, Request, RequestId, Scan, Status};
use kvsim_sim::{
    Call, CallEnd, Guest, GuestError, GuestHash, GuestLimits, OutItem, Outbox, Stack, Trapped,
};
use kvsim_simdisk::{Nanos, Op};

const SECTOR_BYTES: usize = 512;
const RECORD_BYTES: usize = 2 * SECTOR_BYTES;
const RECORDS_MAX: usize = 64;
/// Where the seals of records lie, if there are any: a sector for each.
const SEALS_AT: usize = RECORDS_MAX * RECORD_BYTES / 2;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    Nothing,
    /// It answers with an error if a write or a flush fails, and takes no more writes then: nothing is wrong with it.
    MindsErrors,
    /// It acknowledges what is written and not flushed.
    AcknowledgesEarly,
    /// The same, and it shows records that lie behind a missing one.
    Unordered,
    /// As the one before. But it makes durable what it found before it shows it, and refuses to open if that fails:
    /// nothing is wrong with it.
    HardensFirst,
    /// The same, but it opens whether that fails or not.
    HardensBlindly,
    /// The same, but if that fails it tries once more and believes what it is told then.
    HardensAgain,
    /// It forgets the last record when it opens, however durable that is.
    ForgetsLast,
    /// Where it finds a torn record when it opens, it does without it, and answers as it should until it writes. After that it finds no key.
    LosesSight,
    /// It traps at the third write of a process run that has found records and in which nothing was read.
    TrapsUnread,
    /// It writes a seal after each record, and flushes both at once. When it opens, a missing record counts as none,
    /// sealed or not. But it accepts a sealed record that is torn.
    TrustsSeal,
}

/// The guest.
pub(crate) fn slate(flaw: Flaw) -> Arc<dyn Program> {
    Arc::new(SlateProgram {
        flaw,
        coverage_points: COVERAGE_POINTS.map(str::to_owned),
    })
}

/// Opened with nothing there, with a record there, and with more than there can be.
const COVERAGE_POINTS: [&str; 3] = ["open.blank", "open.records", "open.impossible"];

struct SlateProgram {
    flaw: Flaw,
    coverage_points: [String; 3],
}

impl Program for SlateProgram {
    fn name(&self) -> &str {
        "slate"
    }

    fn hash(&self) -> GuestHash {
        GuestHash::of(format!("{:?}", self.flaw).as_bytes())
    }

    fn coverage_points(&self) -> &[String] {
        &self.coverage_points
    }

    fn start(&self, _: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(Slate {
            flaw: self.flaw,
            reached: Vec::new(),
            records: 0,
            writes: 0,
            is_unread: false,
            sight: Sight::Clear,
            rows: BTreeMap::new(),
            doing: Doing::Opening,
        }))
    }
}

struct Slate {
    flaw: Flaw,
    reached: Vec<u32>,
    records: usize,
    /// Writes of a process run that has found records, until something is read.
    writes: u64,
    is_unread: bool,
    sight: Sight,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    doing: Doing,
}

/// Whether it finds keys, for [`Flaw::LosesSight`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Clear,
    LostAtNextWrite,
    Lost,
}

#[derive(Clone, Copy)]
enum Doing {
    Opening,
    Hardening,
    Writing(RequestId),
    Sealing(RequestId),
    Flushing(RequestId),
    Nothing,
    /// An operation has failed.
    Refusing,
}

/// A record: a checksum of the rest, the lengths of key and value, key and value.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut rest = vec![u8::try_from(key.len()).unwrap()];
    rest.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
    rest.extend(key);
    rest.extend(value);
    rest.resize(RECORD_BYTES - 8, 0);
    let sum = checksum(&rest);
    [&sum.to_le_bytes()[..], &rest].concat()
}

fn write(at: usize, bytes: Vec<u8>) -> Op {
    Op::Write {
        offset: at as u64,
        data: bytes.into(),
        through: false,
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn parse(record: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (sum, rest) = record.split_at(8);
    if sum != checksum(rest).to_le_bytes() {
        return None;
    }
    parse_unchecked(record)
}

fn parse_unchecked(record: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let rest = &record[8..];
    let key_end = 3 + usize::from(rest[0]);
    let value_end = key_end + usize::from(u16::from_le_bytes([rest[1], rest[2]]));
    let value = rest.get(key_end..value_end)?;
    Some((rest[3..key_end].to_vec(), value.to_vec()))
}

/// The records of a device, of which a torn one counts if it is sealed.
fn sealed_records(bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (records, seals) = bytes.split_at(SEALS_AT);
    let records = records.chunks(RECORD_BYTES);
    let sealed = seals.chunks(SECTOR_BYTES).map(|seal| seal[0] != 0);
    let found = records.zip(sealed).map_while(|(record, is_sealed)| {
        let is_begun = record[..SECTOR_BYTES].iter().any(|byte| *byte != 0);
        parse(record).or_else(|| parse_unchecked(record).filter(|_| is_sealed && is_begun))
    });
    found.collect()
}

impl Guest for Slate {
    fn call(&mut self, _: Nanos, call: Call<'_>, out: &mut Outbox) -> Result<CallEnd, GuestError> {
        self.reached.clear();
        let mut submit = |op| out.push(OutItem::Submit { tag: 0, op });
        match (call, self.doing) {
            (Call::Open(_), _) => submit(Op::Read {
                offset: 0,
                len_bytes: u32::try_from(RECORDS_MAX * RECORD_BYTES).unwrap(),
            }),
            (Call::Complete { result, .. }, Doing::Opening) => {
                let bytes = result.expect("no read fails here").expect("a read");
                let bytes = bytes.to_vec();
                let mut records: Vec<_> = match self.flaw {
                    Flaw::TrustsSeal => sealed_records(&bytes),
                    Flaw::Unordered => bytes.chunks(RECORD_BYTES).filter_map(parse).collect(),
                    _ => bytes.chunks(RECORD_BYTES).map_while(parse).collect(),
                };
                if self.flaw == Flaw::ForgetsLast {
                    records.pop();
                }
                for (key, value) in records {
                    self.rows.insert(key, value);
                    self.records += 1;
                }
                let behind = bytes.get(self.records * RECORD_BYTES..).unwrap_or_default();
                if self.flaw == Flaw::LosesSight && behind.iter().any(|byte| *byte != 0) {
                    self.sight = Sight::LostAtNextWrite;
                }
                self.reached.push(u32::from(self.records > 0));
                self.is_unread = self.records > 0;
                if matches!(
                    self.flaw,
                    Flaw::HardensFirst | Flaw::HardensBlindly | Flaw::HardensAgain
                ) {
                    submit(Op::Flush);
                    self.doing = Doing::Hardening;
                } else {
                    self.answer(0, Body::Empty, out);
                }
            }
            (Call::Complete { result: Err(_), .. }, Doing::Hardening)
                if self.flaw == Flaw::HardensFirst =>
            {
                self.doing = Doing::Nothing;
                out.push(OutItem::Reply(Reply {
                    id: 0,
                    status: Status::IoError,
                    body: Body::Message("the flush failed".to_owned()),
                }));
            }
            (Call::Complete { result: Err(_), .. }, Doing::Hardening)
                if self.flaw == Flaw::HardensAgain =>
            {
                submit(Op::Flush);
            }
            (Call::Complete { .. }, Doing::Hardening) => self.answer(0, Body::Empty, out),
            (Call::Complete { result: Err(_), .. }, Doing::Writing(id) | Doing::Flushing(id))
                if self.minds_errors() =>
            {
                self.doing = Doing::Refusing;
                out.push(OutItem::Reply(Reply {
                    id,
                    status: Status::IoError,
                    body: Body::Empty,
                }));
            }
            (Call::Complete { .. }, Doing::Writing(id)) => {
                if matches!(self.flaw, Flaw::AcknowledgesEarly | Flaw::Unordered) {
                    self.answer(id, Body::Empty, out);
                } else if self.flaw == Flaw::TrustsSeal {
                    let at = SEALS_AT + (self.records - 1) * SECTOR_BYTES;
                    submit(write(at, vec![1; SECTOR_BYTES]));
                    self.doing = Doing::Sealing(id);
                } else {
                    submit(Op::Flush);
                    self.doing = Doing::Flushing(id);
                }
            }
            (Call::Complete { .. }, Doing::Sealing(id)) => {
                submit(Op::Flush);
                self.doing = Doing::Flushing(id);
            }
            (Call::Complete { .. }, Doing::Flushing(id)) => self.answer(id, Body::Empty, out),
            (Call::Request { id, request }, _) => {
                self.is_unread &= matches!(request, Request::Put { .. });
                self.writes += u64::from(self.is_unread);
                if self.flaw == Flaw::TrapsUnread && self.writes == 3 {
                    return Err(GuestError::Trap(Trapped {
                        what: "the third write".to_owned(),
                        stack: Stack::default(),
                    }));
                }
                self.request(id, request, out);
            }
            (Call::Complete { .. }, Doing::Nothing | Doing::Refusing) | (Call::Tick, _) => {}
        }
        Ok(CallEnd {
            fuel: 0,
            elapsed_ns: 0,
            wake_at: None,
        })
    }

    fn reached(&self) -> &[u32] {
        &self.reached
    }
}

impl Slate {
    /// Whether it takes no more writes once one of its writes or flushes has failed.
    fn minds_errors(&self) -> bool {
        matches!(
            self.flaw,
            Flaw::MindsErrors | Flaw::HardensFirst | Flaw::HardensBlindly | Flaw::HardensAgain
        )
    }

    fn answer(&mut self, id: RequestId, body: Body, out: &mut Outbox) {
        self.doing = Doing::Nothing;
        out.push(OutItem::Reply(Reply {
            id,
            status: Status::Ok,
            body,
        }));
    }

    fn request(&mut self, id: RequestId, request: &Request, out: &mut Outbox) {
        match request {
            Request::Put { .. } if matches!(self.doing, Doing::Refusing) => {
                out.push(OutItem::Reply(Reply {
                    id,
                    status: Status::ReadOnly,
                    body: Body::Empty,
                }));
            }
            Request::Put { key, value, .. } => {
                out.push(OutItem::Submit {
                    tag: 0,
                    op: write(self.records * RECORD_BYTES, record(key, value)),
                });
                self.records += 1;
                self.rows.insert(key.clone(), value.clone());
                self.doing = Doing::Writing(id);
                if self.sight == Sight::LostAtNextWrite {
                    self.sight = Sight::Lost;
                }
            }
            Request::Get { key, .. } => match self.rows.get(key) {
                Some(value) if self.sight != Sight::Lost => {
                    self.answer(id, Body::Value(value.clone()), out)
                }
                _ => out.push(OutItem::Reply(Reply {
                    id,
                    status: Status::NotFound,
                    body: Body::Empty,
                })),
            },
            Request::Scan(scan) => {
                let entries = self.scan(scan);
                let more = false;
                self.answer(id, Body::Entries { entries, more }, out);
            }
            // The scenario asks for nothing else; a minimiser may.
            _ => out.push(OutItem::Reply(Reply {
                id,
                status: Status::Invalid,
                body: Body::Empty,
            })),
        }
    }

    fn scan(&self, scan: &Scan) -> Vec<(Vec<u8>, Vec<u8>)> {
        let inside = |key: &&Vec<u8>| {
            scan.start.as_ref().is_none_or(|start| *key >= start)
                && scan.end.as_ref().is_none_or(|end| *key < end)
        };
        let keys = self.rows.keys().filter(inside);
        let mut entries: Vec<_> = keys
            .map(|key| (key.clone(), self.rows[key].clone()))
            .collect();
        if scan.direction == Direction::Reverse {
            entries.reverse();
        }
        entries
    }
}
