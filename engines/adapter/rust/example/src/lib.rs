//! A small key/value engine that keeps its data in one file: a log, read into memory by the opening. Behind kvsim's adapter.
//!
//! A record of the log, from its place in the file:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | checksum of the rest, begun with the place |
//! | 8 | 4 | bytes of changes |
//! | 12 | … | changes: `u8` kind (0 put, 1 delete), `u32` key length, `u32` value length, key, value |
//!
//! A write is one record, one write at the log's end and one fsync. The opening cuts off a torn record at the end and makes what is left
//! durable: the file, and the directory with the file's name. Options: `bug=no_directory_sync`, `bug=ack_before_sync`, `bug=tail_not_cut` or
//! `bug=checksum_not_checked` makes a mistake that kvsim finds. It never shortens its log, and damage inside of it is taken for its end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom, Write};
use std::path::Path;

use kvsim_adapter::{Change, Durability, Engine, Error, Offers, Options, Page, Range, Read, Result, Status};

const HEADER: usize = 12;

#[derive(Clone, Copy, PartialEq)]
enum Bug {
    NoDirectorySync,
    AckBeforeSync,
    TailNotCut,
    ChecksumNotChecked,
}

/// The engine.
pub struct Log {
    file: File,
    /// Bytes.
    end: u64,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// A call failed: nobody knows what is on the disk.
    is_read_only: bool,
    bug: Option<Bug>,
}

kvsim_adapter::export_engine!(Log);

/// FNV-1a.
fn checksum(bytes: &[u8], place: u64) -> u64 {
    let begin = 0xcbf2_9ce4_8422_2325 ^ place;
    bytes.iter().fold(begin, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// The changes of a record; nothing if they are none.
fn changes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at_checked(9)?;
        let (key, rest) = rest.split_at_checked(u32_at(head, 1))?;
        let (value, rest) = rest.split_at_checked(u32_at(head, 5))?;
        all.push(if head[0] == 0 { Change::Put { key, value } } else { Change::Delete { key } });
        bytes = rest;
    }
    Some(all)
}

impl Log {
    fn apply(&mut self, changes: &[Change]) {
        for (key, value) in changes.iter().map(Change::parts) {
            match value {
                Some(value) => self.entries.insert(key.to_vec(), value.to_vec()),
                None => self.entries.remove(key),
            };
        }
    }

    /// Reads the log and returns its end: where the first record begins that is not whole.
    fn replay(&mut self) -> Result<()> {
        let mut log = Vec::new();
        self.file.read_to_end(&mut log)?;
        let mut place = 0;
        while let Some(record) = log[place..].split_at_checked(HEADER).and_then(|(head, rest)| rest.get(..u32_at(head, 8))) {
            let end = place + HEADER + record.len();
            let is_whole = log[place..place + 8] == checksum(&log[place + 8..end], place as u64).to_le_bytes();
            let trusts = self.bug == Some(Bug::ChecksumNotChecked);
            let Some(changes) = changes(record).filter(|_| is_whole || trusts) else { break };
            self.apply(&changes);
            place = end;
        }
        self.end = if self.bug == Some(Bug::TailNotCut) { log.len() } else { place } as u64;
        Ok(())
    }

    fn write(&mut self, record: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(record)?;
        match self.bug {
            Some(Bug::AckBeforeSync) => Ok(()),
            _ => self.file.sync_all(),
        }
    }
}

impl Read for Log {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.entries.get(key).cloned())
    }

    fn scan(&self, range: &Range, page: &mut Page) -> Result<()> {
        let mut entries = self.entries.range::<[u8], _>(range.bounds());
        let mut next = || if range.is_reverse { entries.next_back() } else { entries.next() };
        while next().is_some_and(|(key, value)| page.add(key, value)) {}
        Ok(())
    }
}

impl Engine for Log {
    fn offers() -> Offers {
        let offers = Offers::new("log-in-rust 1", "fsync after each write");
        Offers { batch: true, scan: true, reverse_scan: true, sync: true, ..offers }
    }

    fn open(directory: &Path, options: &Options) -> Result<Self> {
        let mut bug = None;
        for (name, value) in &options.0 {
            bug = Some(match (&name[..], &value[..]) {
                ("bug", "no_directory_sync") => Bug::NoDirectorySync,
                ("bug", "ack_before_sync") => Bug::AckBeforeSync,
                ("bug", "tail_not_cut") => Bug::TailNotCut,
                ("bug", "checksum_not_checked") => Bug::ChecksumNotChecked,
                ("bug", other) => return Err(Error::invalid(format_args!("no such bug: {other}"))),
                _ => return Err(Options::unknown(name)),
            });
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).open(directory.join("log"))?;
        let mut log = Log { file, end: 0, entries: BTreeMap::new(), is_read_only: false, bug };
        log.replay()?;
        log.file.set_len(log.end)?;
        log.file.sync_all()?;
        if bug != Some(Bug::NoDirectorySync) {
            File::open(directory)?.sync_all()?;
        }
        Ok(log)
    }

    fn put(&mut self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Put { key, value }], durability)
    }

    fn delete(&mut self, key: &[u8], durability: Durability) -> Result<()> {
        self.batch(&[Change::Delete { key }], durability)
    }

    fn batch(&mut self, changes: &[Change], _: Durability) -> Result<()> {
        self.sync()?;
        // With nothing to write, all before it is durable already.
        if changes.is_empty() {
            return Ok(());
        }
        let mut body = Vec::new();
        for (key, value) in changes.iter().map(Change::parts) {
            body.push(u8::from(value.is_none()));
            let value = value.unwrap_or_default();
            body.extend((key.len() as u32).to_le_bytes());
            body.extend((value.len() as u32).to_le_bytes());
            body.extend([key, value].concat());
        }
        let rest = [&(body.len() as u32).to_le_bytes()[..], &body].concat();
        let record = [&checksum(&rest, self.end).to_le_bytes()[..], &rest].concat();
        let written = self.write(&record);
        self.end += record.len() as u64;
        self.is_read_only = written.is_err();
        written?;
        self.apply(changes);
        Ok(())
    }

    /// Every answered write is durable; after a failure nobody knows.
    fn sync(&mut self) -> Result<()> {
        if self.is_read_only {
            return Err(Error::new(Status::ReadOnly, "a call failed; open the database anew"));
        }
        Ok(())
    }

    fn close(mut self) -> Result<()> {
        self.sync()
    }
}
