//! Requests, replies and what a cut left, in words.

use std::fmt::Write as _;

use kvsim_fs::{FileFault, ScriptedFileFault};
use kvsim_sim::api::{Body, Durability, Mutation, Reply, Request, Status};
use kvsim_sim::{Asked, CutOp, StorageFault};
use kvsim_simdisk::{FaultKind, ScriptedFault, Sectors};

use kvsim_api::key::printable as key;
use kvsim_api::units::thousands;
use kvsim_api::value::{Reading, read};

/// Mutations of a batch that are named; of more the rest is counted.
const NAMED_MAX: usize = 4;

/// A request as a note.
pub fn asked(client: Option<u32>, request: &Request) -> Asked {
    Asked {
        client,
        number: None,
        words: self::request(request),
    }
}

/// A request in words.
pub fn request(request: &Request) -> String {
    match request {
        Request::Put {
            key,
            value,
            durability,
        } => format!("{}{}", put(key, value), after(*durability)),
        Request::Delete {
            key: of,
            durability,
        } => {
            format!("delete {}{}", key(of), after(*durability))
        }
        Request::Batch {
            mutations,
            durability,
        } => {
            let mut words = format!("batch of {}", mutations.len());
            for (at, mutation) in mutations.iter().take(NAMED_MAX).enumerate() {
                words.push_str(if at == 0 { ": " } else { "; " });
                words.push_str(&match mutation {
                    Mutation::Put { key, value } => put(key, value),
                    Mutation::Delete { key: of } => format!("delete {}", key(of)),
                });
            }
            if mutations.len() > NAMED_MAX {
                let _ = write!(words, "; and {} more", mutations.len() - NAMED_MAX);
            }
            words + after(*durability)
        }
        Request::Get { key: of, snapshot } => format!("get {}{}", key(of), at(*snapshot)),
        Request::Scan(scan) => {
            let bound = |bound: &Option<Vec<u8>>| bound.as_deref().map_or("…".to_owned(), key);
            let (start, end) = (bound(&scan.start), bound(&scan.end));
            format!(
                "scan {start} to {end}, at most {}{}",
                thousands(scan.limit.into()),
                at(scan.snapshot)
            )
        }
        Request::Snapshot => "snapshot".to_owned(),
        Request::Release { snapshot } => format!("release snapshot {snapshot}"),
        Request::Sync => "sync".to_owned(),
        Request::Close => "close".to_owned(),
    }
}

fn put(of: &[u8], value: &[u8]) -> String {
    format!("put {} = {}", key(of), content(value))
}

fn after(durability: Durability) -> &'static str {
    match durability {
        Durability::Durable => ", durable",
        Durability::Relaxed => ", relaxed",
    }
}

fn at(snapshot: u64) -> String {
    if snapshot == 0 {
        String::new()
    } else {
        format!(" in snapshot {snapshot}")
    }
}

/// What the bytes of a value say of themselves.
fn content(value: &[u8]) -> String {
    let size = format!("{} bytes", thousands(value.len() as u64));
    match read(value) {
        Reading::Whole(stamp) => format!("{stamp} ({size})"),
        Reading::Resized {
            stamp,
            written_bytes,
            ..
        } => format!("{size} of the {stamp}, which has {written_bytes}"),
        Reading::Damaged(stamp) => format!("{size}, damaged, of the {stamp}"),
        Reading::Foreign => format!("{size} that no client wrote"),
        Reading::TooShort => size,
    }
}

/// A reply in words.
pub fn answered(reply: &Reply) -> String {
    let mut words = status(reply.status).to_owned();
    match &reply.body {
        Body::Empty => {}
        Body::Value(value) => {
            let _ = write!(words, ": {}", content(value));
        }
        Body::Entries { entries, more } => {
            let _ = write!(words, ": {} entries", thousands(entries.len() as u64));
            words.push_str(if *more { ", and there are more" } else { "" });
        }
        Body::Snapshot(id) => {
            let _ = write!(words, ": snapshot {id}");
        }
        Body::Message(message) if message.is_empty() => {}
        Body::Message(message) => {
            let _ = write!(words, ": {message}");
        }
    }
    words
}

/// A status in words.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::NotFound => "not found",
        Status::Corruption => "damage reported",
        Status::IoError => "device error",
        Status::NoSpace => "no space",
        Status::ReadOnly => "read only",
        Status::Invalid => "invalid",
        Status::Closed => "closed",
    }
}

/// What a fault does to the operation that it befalls: its kind, and what follows from it.
pub fn strike(fault: &StorageFault) -> String {
    match fault {
        StorageFault::Device(fault) => device_strike(fault),
        StorageFault::File { call } => file_strike(call),
    }
}

fn file_strike(fault: &ScriptedFileFault) -> String {
    let bytes = || thousands(fault.bytes.unwrap_or(0));
    let what = match fault.kind {
        FileFault::SyncError => "it fails".to_owned(),
        FileFault::NoSpaceSync | FileFault::NoSpaceWrite | FileFault::NoSpaceAllocate => {
            "it finds no space".to_owned()
        }
        FileFault::ReadError => "it fails".to_owned(),
        FileFault::ShortRead => format!("it gives {} bytes only", bytes()),
        FileFault::ShortWrite => format!("it takes {} bytes only", bytes()),
        FileFault::BitRot => format!("with it a bit of byte {} of the medium flips", bytes()),
        FileFault::SyncLie => "it says that it has worked and makes nothing durable".to_owned(),
        // What a cut does is said of each pending step.
        _ => String::new(),
    };
    let name = fault.kind.name().replace('_', " ");
    if what.is_empty() {
        name
    } else {
        format!("{name}: {what}")
    }
}

fn device_strike(fault: &ScriptedFault) -> String {
    let place = fault
        .at_bytes
        .map_or_else(|| "another place".to_owned(), thousands);
    let what = match fault.kind {
        FaultKind::Stall => "it takes far longer than it should".to_owned(),
        FaultKind::ReadError => "it will fail".to_owned(),
        FaultKind::WriteError if !fault.sectors.is_empty() => {
            let sectors = listed(&fault.sectors);
            format!("it will fail, though of its sectors {sectors} reach the cache")
        }
        FaultKind::WriteError if fault.written == Some(true) => {
            "it will fail, though its data reaches the cache".to_owned()
        }
        FaultKind::WriteError => "it will fail, and nothing of it is written".to_owned(),
        FaultKind::FlushError => "it will fail".to_owned(),
        FaultKind::DirtyDropped if fault.dropped.is_some() => {
            let dropped = listed(fault.dropped.as_deref().unwrap_or_default());
            format!(
                "of what this flush was to make durable these operations are dropped: {dropped}"
            )
        }
        FaultKind::DirtyDropped => {
            "what this flush was to make durable is dropped, and no later flush writes it"
                .to_owned()
        }
        FaultKind::NoSpace => "it will find no space".to_owned(),
        FaultKind::FlushLie => "it is acknowledged and makes nothing durable".to_owned(),
        FaultKind::LostWrite => "it is acknowledged and never happens".to_owned(),
        FaultKind::MisdirectedWrite => format!("it is written to {place}"),
        FaultKind::MisdirectedRead => format!("it returns the bytes at {place}"),
        FaultKind::StaleRead => "it returns what was there before the last overwrite".to_owned(),
        FaultKind::BitRot => format!("with it a bit at {place} flips"),
        FaultKind::LatentSectorError => format!("with it the sector at {place} becomes unreadable"),
        // What a cut does is said of each pending operation.
        _ => String::new(),
    };
    let mut words = fault.kind.name().replace('_', " ");
    if !what.is_empty() {
        let _ = write!(words, ": {what}");
    }
    if fault.persistent == Some(true) {
        match fault.at_bytes {
            Some(at) => {
                let _ = write!(
                    words,
                    "; so will all others of the sector at {}",
                    thousands(at)
                );
            }
            None => words.push_str("; so will all others"),
        }
    }
    words
}

/// A pending operation, without its fate.
pub fn operation(op: &CutOp) -> String {
    if let Some(words) = &op.words {
        return words.clone();
    }
    match op.kind {
        "grow" => format!("growth to {} bytes", thousands(op.offset)),
        kind => format!("{kind} of {}", extent(op.offset, op.len_bytes)),
    }
}

/// Bytes at a place.
pub fn extent(offset: u64, len_bytes: u64) -> String {
    format!("{} bytes at {}", thousands(len_bytes), thousands(offset))
}

/// What became of a pending operation.
pub fn fate(op: &CutOp, sector_bytes: u32) -> String {
    let sectors = op.len_bytes / u64::from(sector_bytes.max(1));
    match &op.survived {
        None => "lost".to_owned(),
        Some(Sectors::All) => "kept".to_owned(),
        Some(Sectors::Torn {
            kept,
            garbage,
            torn_at,
            unreadable,
        }) => {
            let mut words = format!("torn: of {sectors} sectors {} kept", listed(kept));
            if let Some((sector, seed)) = garbage {
                let what = match seed {
                    0 => "zeros",
                    1 => "ones",
                    _ => "garbage",
                };
                let _ = write!(words, ", {sector} holds {what}");
            }
            if let Some((sector, byte)) = torn_at {
                let _ = write!(words, ", {sector} is new up to byte {byte}");
            }
            if let Some(sector) = unreadable {
                let _ = write!(words, ", {sector} cannot be read");
            }
            words
        }
    }
}

/// Numbers with runs drawn together: `0–3, 7`.
fn listed(numbers: &[u64]) -> String {
    let mut words = Vec::new();
    for run in numbers.chunk_by(|one, next| one + 1 == *next) {
        match run {
            [one] => words.push(one.to_string()),
            [first, .., last] => words.push(format!("{first}–{last}")),
            [] => {}
        }
    }
    if words.is_empty() {
        "none".to_owned()
    } else {
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_api::value::{Stamp, generate, key_hash};

    fn op(survived: Option<Sectors>) -> CutOp {
        CutOp {
            op: 7,
            kind: "write",
            offset: 8_192,
            len_bytes: 4_096,
            completed: true,
            dropped: false,
            words: None,
            survived,
        }
    }

    /// Goal: each fate of a write has words of its own. Method: lost, kept, and torn in each way.
    #[test]
    fn every_fate_has_its_words() {
        let torn = |garbage, torn_at, unreadable| {
            Some(Sectors::Torn {
                kept: vec![0, 1, 2, 5],
                garbage,
                torn_at,
                unreadable,
            })
        };
        assert_eq!(operation(&op(None)), "write of 4,096 bytes at 8,192");
        assert_eq!(fate(&op(None), 512), "lost");
        assert_eq!(fate(&op(Some(Sectors::All)), 512), "kept");
        assert_eq!(
            fate(&op(torn(None, None, None)), 512),
            "torn: of 8 sectors 0–2, 5 kept"
        );
        assert_eq!(
            fate(&op(torn(Some((3, 0)), Some((4, 9)), Some(6))), 512),
            "torn: of 8 sectors 0–2, 5 kept, 3 holds zeros, 4 is new up to byte 9, 6 cannot be read"
        );
    }

    /// Goal: each fault says what it does and where. Method: one that stays, one that goes elsewhere, one that lies.
    #[test]
    fn every_fault_has_its_words() {
        let fault = |kind| ScriptedFault::new(7, kind);
        let strike = |fault: &ScriptedFault| strike(&fault.clone().into());
        let stays = ScriptedFault {
            persistent: Some(true),
            at_bytes: Some(8_192),
            ..fault(FaultKind::ReadError)
        };
        assert_eq!(
            strike(&stays),
            "read error: it will fail; so will all others of the sector at 8,192"
        );
        let astray = ScriptedFault {
            at_bytes: Some(4_096),
            ..fault(FaultKind::MisdirectedWrite)
        };
        assert_eq!(strike(&astray), "misdirected write: it is written to 4,096");
        let in_part = ScriptedFault {
            written: Some(true),
            sectors: vec![0, 1, 3],
            ..fault(FaultKind::WriteError)
        };
        assert_eq!(
            strike(&in_part),
            "write error: it will fail, though of its sectors 0–1, 3 reach the cache"
        );
        let dropped = ScriptedFault {
            dropped: Some(vec![4, 6]),
            ..fault(FaultKind::DirtyDropped)
        };
        assert_eq!(
            strike(&dropped),
            "dirty dropped: of what this flush was to make durable these operations are dropped: 4, 6"
        );
        assert_eq!(
            strike(&fault(FaultKind::FlushLie)),
            "flush lie: it is acknowledged and makes nothing durable"
        );
    }

    /// Goal: a request says which value it writes, so that what came back can be told from what should have. Method: a batch with a
    /// generated value and a key that cannot be printed.
    #[test]
    fn a_request_says_whose_value_it_writes() {
        let stamp = Stamp {
            key_hash: key_hash(b"k1"),
            writer: 3,
            number: 17,
        };
        let batch = Request::Batch {
            mutations: vec![
                Mutation::Put {
                    key: b"k1".to_vec(),
                    value: generate(stamp, 100, 0),
                },
                Mutation::Delete { key: vec![0, 255] },
            ],
            durability: Durability::Durable,
        };
        assert_eq!(
            asked(Some(3), &batch).words,
            "batch of 2: put \"k1\" = value 17 of client 3 (100 bytes); delete \"\\0\\xff\", durable"
        );
    }
}
