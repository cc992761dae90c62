//! A guest in plain Rust that keeps its data in files: a snapshot `data-N`, and a log `wal-N` of what came after it.
//!
//! Each opening, and every few writes, makes a new snapshot: a file of another name is written and synced, the next log is created, the file gets its name by
//! a rename that replaces nothing, the directory is synced, and what is older is removed. A write is a frame at the end of the log, which is synced before
//! it is answered. The checksum of a frame covers the number of its log, so that what a new block of a log held before is not taken for a frame.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kvsim_fs::{Errno, Fd, FileSystem, OpenHow, ROOT_FD, SyncKind};
use kvsim_harness::guest::Program;
use kvsim_sim::api::{Body, Direction, Mutation, Reply, Request, RequestId, Scan, Status};
use kvsim_sim::{
    Call, CallEnd, Frame, Guest, GuestError, GuestHash, GuestLimits, Needs, Offers, OutItem,
    Outbox, TracedCall,
};
use kvsim_simdisk::Nanos;

/// Writes to one log.
const WRITES_PER_LOG: u64 = 4;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    Nothing,
    /// The directory is never synced.
    NoDirectorySync,
    /// The log is not synced before a write is answered.
    NoLogSync,
    /// A snapshot is renamed before its bytes are synced.
    RenameWithoutSync,
    /// The old log is removed before the new snapshot has its name.
    RemovesFirst,
    /// There is one snapshot, `data`, and the new one is renamed over it: a crash may leave neither where a rename is not atomic.
    RenamesOver,
    /// It cannot be opened where a crash came while it made its first files.
    RefusesHalfMade,
    /// All is in the log, which is made once with a first frame, whose directory is never synced, and which cannot be opened without that frame.
    OneFile,
}

/// The guest.
pub(crate) fn ledger(flaw: Flaw) -> Arc<dyn Program> {
    Arc::new(LedgerProgram { flaw })
}

struct LedgerProgram {
    flaw: Flaw,
}

impl Program for LedgerProgram {
    fn name(&self) -> &str {
        "ledger"
    }

    fn hash(&self) -> GuestHash {
        GuestHash::of(format!("ledger {:?}", self.flaw).as_bytes())
    }

    fn offers(&self) -> Offers {
        Offers {
            snapshot: false,
            relaxed: false,
            ..Offers::default()
        }
    }

    fn needs(&self) -> Needs {
        Needs::Files
    }

    fn start(&self, _: &GuestLimits) -> Result<Box<dyn Guest>, GuestError> {
        Err(GuestError::Host("it needs files".to_owned()))
    }

    fn start_on(&self, _: &GuestLimits, files: &FileSystem) -> Result<Box<dyn Guest>, GuestError> {
        Ok(Box::new(Ledger {
            flaw: self.flaw,
            files: files.clone(),
            rows: BTreeMap::new(),
            epoch: 0,
            log: None,
            log_bytes: 0,
            logged: 0,
            traced: BTreeMap::new(),
        }))
    }

    /// It is compiled with its host and has no stack of WebAssembly, so it says itself which of its places makes a sync, of all syncs.
    fn start_traced(
        &self,
        limits: &GuestLimits,
        files: &FileSystem,
        _: &BTreeSet<u64>,
    ) -> Result<Box<dyn Guest>, GuestError> {
        self.start_on(limits, files)
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

struct Ledger {
    flaw: Flaw,
    files: FileSystem,
    rows: Rows,
    epoch: u64,
    log: Option<Fd>,
    log_bytes: u64,
    logged: u64,
    traced: BTreeMap<u64, TracedCall>,
}

/// A place that makes a sync.
#[derive(Debug, Clone, Copy)]
enum SyncedIn {
    Snapshot = 1,
    Renamed = 2,
    Write = 3,
    RemovesFirst = 4,
}

/// Why something cannot be done.
enum Trouble {
    Io(Errno),
    Damage(String),
}

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Trouble {
        Trouble::Io(error)
    }
}

fn log_name(epoch: u64) -> Vec<u8> {
    format!("wal-{epoch}").into_bytes()
}

/// The number of a name that begins so.
fn number(name: &[u8], begins: &str) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?;
    name.strip_prefix(begins)?.parse().ok()
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A checksum that covers `epoch` too, a length, and so many bytes.
fn sealed(epoch: u64, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).expect("short").to_le_bytes();
    let sum = checksum(&[&epoch.to_le_bytes()[..], &len, body].concat()).to_le_bytes();
    [&sum[..], &len[..], body].concat()
}

/// What is sealed at the beginning of these bytes, and the rest.
fn unsealed(epoch: u64, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sum, rest) = bytes.split_at_checked(8)?;
    let len = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
    let all = rest.get(..4 + len)?;
    let own = checksum(&[&epoch.to_le_bytes()[..], all].concat());
    (len > 0 && own.to_le_bytes() == sum).then(|| (&all[4..], &rest[4 + len..]))
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).expect("short").to_le_bytes());
    out.extend(bytes);
}

fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let found = bytes.get(4..4 + len)?;
    *bytes = &bytes[4 + len..];
    Some(found)
}

fn encode(mutations: &[Mutation]) -> Vec<u8> {
    let mut out = Vec::new();
    for mutation in mutations {
        match mutation {
            Mutation::Put { key, value } => {
                out.push(1);
                text(&mut out, key);
                text(&mut out, value);
            }
            Mutation::Delete { key } => {
                out.push(2);
                text(&mut out, key);
            }
        }
    }
    out
}

fn apply(rows: &mut Rows, mut body: &[u8]) -> Option<()> {
    while let Some((kind, rest)) = body.split_first() {
        body = rest;
        let key = take(&mut body)?.to_vec();
        if *kind == 1 {
            rows.insert(key, take(&mut body)?.to_vec());
        } else {
            rows.remove(&key);
        }
    }
    Some(())
}

impl Ledger {
    fn read(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        let fd = match self.files.open(ROOT_FD, name, &OpenHow::READ) {
            Err(Errno::NoEntry) => return Ok(None),
            opened => opened?,
        };
        let mut all = Vec::new();
        let mut part = [0; 4096];
        loop {
            match self.files.read(fd, &mut part)? {
                0 => break,
                count => all.extend(&part[..count]),
            }
        }
        self.files.close(fd)?;
        Ok(Some(all))
    }

    fn write_all(&mut self, fd: Fd, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let count = self.files.write_at(fd, offset, bytes)?;
            offset += count as u64;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), Trouble> {
        if self.flaw == Flaw::OneFile {
            return self.open_log();
        }
        let names = self.names()?;
        let newest = names.iter().filter_map(|name| number(name, "data-")).max();
        let is_half_made = newest.is_none() && names.iter().any(|name| name == b"data.new");
        if self.flaw == Flaw::RefusesHalfMade && is_half_made {
            return Err(Trouble::Damage("there is no snapshot".to_owned()));
        }
        let name = match newest {
            Some(epoch) => Some(format!("data-{epoch}").into_bytes()),
            None => names.into_iter().find(|name| name == b"data"),
        };
        if let Some(name) = name {
            let bytes = self.read(&name)?.unwrap_or_default();
            let found = unsealed(0, &bytes).and_then(|(body, _)| {
                let (epoch, body) = body.split_at_checked(8)?;
                apply(&mut self.rows, body)?;
                Some(u64::from_le_bytes(epoch.try_into().ok()?))
            });
            self.epoch = found.ok_or_else(|| {
                let name = String::from_utf8_lossy(&name);
                Trouble::Damage(format!("`{name}` of {} bytes is no snapshot", bytes.len()))
            })?;
        }
        let log = self.read(&log_name(self.epoch))?.unwrap_or_default();
        let mut rest = &log[..];
        while let Some((body, after)) = unsealed(self.epoch, rest) {
            if apply(&mut self.rows, body).is_none() {
                break;
            }
            rest = after;
        }
        self.snapshot()?;
        Ok(())
    }

    fn open_log(&mut self) -> Result<(), Trouble> {
        let name = log_name(self.epoch);
        let first = sealed(self.epoch, b"\0");
        let found = self.read(&name)?;
        let log = self.files.open(ROOT_FD, &name, &OpenHow::CREATE)?;
        self.log = Some(log);
        self.log_bytes = first.len() as u64;
        let Some(found) = found else {
            self.write_all(log, 0, &first)?;
            return Ok(self.sync(SyncedIn::Snapshot, log, SyncKind::Full)?);
        };
        let mut rest = found
            .strip_prefix(&first[..])
            .ok_or_else(|| Trouble::Damage("it is no log".to_owned()))?;
        while let Some((body, after)) = unsealed(self.epoch, rest) {
            self.log_bytes += (rest.len() - after.len()) as u64;
            if apply(&mut self.rows, body).is_none() {
                break;
            }
            rest = after;
        }
        Ok(())
    }

    fn names(&mut self) -> Result<Vec<Vec<u8>>, Errno> {
        let fd = self.files.open(ROOT_FD, b".", &OpenHow::DIRECTORY)?;
        let entries = self.files.read_directory(fd, 0, usize::MAX)?;
        self.files.close(fd)?;
        Ok(entries
            .into_iter()
            .map(|entry| entry.name.to_vec())
            .collect())
    }

    /// Writes all rows into a new snapshot, with an empty log behind it.
    fn snapshot(&mut self) -> Result<(), Errno> {
        let next = self.epoch + 1;
        let rows = self.rows.iter().map(|(key, value)| Mutation::Put {
            key: key.clone(),
            value: value.clone(),
        });
        let body = encode(&rows.collect::<Vec<_>>());
        let bytes = sealed(0, &[&next.to_le_bytes()[..], &body].concat());
        let how = OpenHow {
            truncate: true,
            ..OpenHow::CREATE
        };
        // After half of a rename it may be another name of the last snapshot, which must not be cut short.
        match self.files.unlink(ROOT_FD, b"data.new") {
            Ok(()) | Err(Errno::NoEntry) => {}
            Err(error) => return Err(error),
        }
        let fd = self.files.open(ROOT_FD, b"data.new", &how)?;
        self.write_all(fd, 0, &bytes)?;
        if self.flaw != Flaw::RenameWithoutSync {
            self.sync(SyncedIn::Snapshot, fd, SyncKind::Full)?;
        }
        self.files.close(fd)?;
        let log = self.files.open(ROOT_FD, &log_name(next), &how)?;
        if self.flaw == Flaw::RemovesFirst {
            self.remove_older(next)?;
            self.sync_directory(SyncedIn::RemovesFirst)?;
        }
        let name = match self.flaw {
            Flaw::RenamesOver => "data".to_owned(),
            _ => format!("data-{next}"),
        };
        // Which snapshot a crash leaves is not known until the directory is synced. Where that fails it writes to neither log.
        let old = self.log.take();
        self.files
            .rename(ROOT_FD, b"data.new", ROOT_FD, name.as_bytes())?;
        self.sync_directory(SyncedIn::Renamed)?;
        self.log = Some(log);
        if let Some(old) = old {
            self.files.close(old)?;
        }
        self.remove_older(next)?;
        (self.epoch, self.log_bytes, self.logged) = (next, 0, 0);
        Ok(())
    }

    fn sync_directory(&mut self, place: SyncedIn) -> Result<(), Errno> {
        match self.flaw {
            Flaw::NoDirectorySync => Ok(()),
            _ => self.sync(place, ROOT_FD, SyncKind::Full),
        }
    }

    fn sync(&mut self, place: SyncedIn, fd: Fd, kind: SyncKind) -> Result<(), Errno> {
        let call = TracedCall {
            name: "sync",
            place: place as u64,
            frames: vec![Frame {
                function: format!("{place:?}"),
                ..Frame::default()
            }],
        };
        self.traced.insert(self.files.ops(), call);
        self.files.at_place(Some(place as u64));
        self.files.sync(fd, kind)
    }

    fn remove_older(&mut self, than: u64) -> Result<(), Errno> {
        for name in self.names()? {
            let of = number(&name, "data-").or_else(|| number(&name, "wal-"));
            if of.is_some_and(|of| of < than) {
                self.files.unlink(ROOT_FD, &name)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, mutations: &[Mutation]) -> Result<(), Errno> {
        if mutations.is_empty() {
            return Ok(());
        }
        let body = encode(mutations);
        let frame = sealed(self.epoch, &body);
        let log = self.log.ok_or(Errno::BadDescriptor)?;
        self.write_all(log, self.log_bytes, &frame)?;
        if self.flaw != Flaw::NoLogSync {
            self.sync(SyncedIn::Write, log, SyncKind::Data)?;
        }
        self.log_bytes += frame.len() as u64;
        self.logged += 1;
        apply(&mut self.rows, &body);
        if self.logged == WRITES_PER_LOG && self.flaw != Flaw::OneFile {
            self.snapshot()?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Request) -> Result<(Status, Body), Errno> {
        let is_good = |mutation: &Mutation| match mutation {
            Mutation::Put { key, .. } | Mutation::Delete { key } => (1..=1024).contains(&key.len()),
        };
        let mutations = match request.clone() {
            Request::Put { key, value, .. } => vec![Mutation::Put { key, value }],
            Request::Delete { key, .. } => vec![Mutation::Delete { key }],
            Request::Batch { mutations, .. } => mutations,
            Request::Get { key, .. } => {
                return Ok(match self.rows.get(&key) {
                    Some(value) => (Status::Ok, Body::Value(value.clone())),
                    None => (Status::NotFound, Body::Empty),
                });
            }
            Request::Scan(scan) => return Ok((Status::Ok, self.scan(&scan))),
            Request::Sync | Request::Close => return Ok((Status::Ok, Body::Empty)),
            Request::Snapshot | Request::Release { .. } => {
                return Ok((Status::Invalid, Body::Empty));
            }
        };
        if !mutations.iter().all(is_good) {
            return Ok((Status::Invalid, Body::Empty));
        }
        self.write(&mutations)?;
        Ok((Status::Ok, Body::Empty))
    }

    fn scan(&self, scan: &Scan) -> Body {
        let inside = |key: &Vec<u8>| {
            scan.start.as_ref().is_none_or(|start| key >= start)
                && scan.end.as_ref().is_none_or(|end| key < end)
        };
        let mut all: Vec<(Vec<u8>, Vec<u8>)> = self
            .rows
            .iter()
            .filter(|(key, _)| inside(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if scan.direction == Direction::Reverse {
            all.reverse();
        }
        let mut bytes = 0;
        let mut entries = Vec::new();
        for (key, value) in &all {
            bytes += key.len() + value.len();
            let is_full = entries.len() == scan.limit as usize || bytes > scan.max_bytes as usize;
            if is_full && !entries.is_empty() {
                break;
            }
            entries.push((key.clone(), value.clone()));
        }
        let more = entries.len() < all.len();
        Body::Entries { entries, more }
    }
}

fn reply(id: RequestId, answered: Result<(Status, Body), Errno>) -> OutItem {
    let (status, body) = match answered {
        Ok(answered) => answered,
        Err(Errno::NoSpace) => (Status::IoError, Body::Message("no space".to_owned())),
        Err(error) => (Status::IoError, Body::Message(error.to_string())),
    };
    OutItem::Reply(Reply { id, status, body })
}

impl Guest for Ledger {
    fn call(
        &mut self,
        now: Nanos,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<CallEnd, GuestError> {
        self.files.set_now(now);
        let answer = match call {
            Call::Open(_) => match self.open() {
                Ok(()) => reply(0, Ok((Status::Ok, Body::Empty))),
                Err(Trouble::Io(error)) => reply(0, Err(error)),
                Err(Trouble::Damage(what)) => {
                    reply(0, Ok((Status::Corruption, Body::Message(what))))
                }
            },
            Call::Request { id, request } => {
                let answered = self.answer(request);
                reply(id, answered)
            }
            Call::Complete { .. } | Call::Tick => {
                return Err(GuestError::Abi("it was never submitted".to_owned()));
            }
        };
        let steps = self.files.take_moments().into_iter();
        out.extend(steps.map(|moment| OutItem::Step(Box::new(moment))));
        out.push(answer);
        Ok(CallEnd {
            fuel: 0,
            elapsed_ns: self.files.take_elapsed_ns(),
            wake_at: None,
        })
    }

    fn files(&self) -> Option<&FileSystem> {
        Some(&self.files)
    }

    fn traced(&self) -> Option<&BTreeMap<u64, TracedCall>> {
        Some(&self.traced)
    }
}
