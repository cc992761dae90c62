//! What is said between kvsim and a process that holds an engine: a line of JSON each way.
//!
//! A [`Request`] is one line. It is answered by lines, of which the last has `done`; those before it tell of progress. The header of
//! `harness/peers/go/main.go` is the other side of this for Go, `kvsim_bench::serve` for Rust.

use serde::{Deserialize, Serialize};

use crate::Durability;
use crate::counters::Counters;

/// Changes with what is said; `harness/peers/go/main.go` has the same number.
pub const PROTOCOL: u32 = 2;

/// What a process says first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Has to be [`PROTOCOL`].
    pub protocol: u32,
    /// The version of the engine, or of kvsim for one that kvsim itself holds.
    pub version: String,
    /// The version of Go, if it was built with that.
    #[serde(default)]
    pub go: Option<String>,
    /// How the engine is set up.
    pub configuration: Vec<(String, String)>,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Open the database.
    #[default]
    Open,
    /// Read a script: its bytes follow the line.
    Script,
    /// Open a database as the process was started, and write what clients find.
    Load,
    /// Let the clients work.
    Run,
    /// Say the first key that no client has inserted.
    NextKey,
    /// Make the writes `from` up to `to` of the endless sequence, and a sync before write `sync_at`.
    Write,
    /// Use a database that was just opened: read `numbers` in order, and meanwhile make write `from`.
    FirstUse,
    /// Read `numbers`.
    GetAll,
    /// Set one key.
    Put,
    /// Remove one key.
    Delete,
    /// Read one key.
    Get,
    /// Read entries from a key upwards.
    Scan,
    /// Make everything durable.
    Sync,
    /// Close the database.
    Close,
}

/// What is asked for. Which fields count depends on `work`. Keys and values are hexadecimal.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// What is to be done.
    #[serde(rename = "do")]
    pub work: Work,
    /// When writes are acknowledged, where it is not as the process was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// One key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Entries of a scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Length of the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_ns: Option<u64>,
    /// Length of the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_ns: Option<u64>,
    /// Requests a second, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Clients are tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<bool>,
    /// The first write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// All before this one is made durable before this one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_at: Option<u64>,
    /// The first write that is not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Numbers of keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Vec<u64>>,
}

impl Request {
    /// A request without further fields.
    #[must_use]
    pub fn of(work: Work) -> Request {
        Request {
            work,
            ..Request::default()
        }
    }
}

/// A line of an answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// It is the last line.
    pub done: bool,
    /// What could not be done, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// So many records are loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loaded: Option<u64>,
    /// All writes before this one were accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<u64>,
    /// All writes before this one are durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced: Option<u64>,
    /// `measuring` where the clock begins, `measured` where it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The first key that no client has inserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_key: Option<u64>,
    /// What a get found.
    pub found: bool,
    /// Its value.
    pub value: String,
    /// Values of several keys, in order; `None` for one that is not there.
    pub values: Vec<Option<String>>,
    /// Keys and values of a scan.
    pub entries: Vec<(String, String)>,
    /// How long it took.
    pub elapsed_ns: u64,
    /// How long the first get took.
    pub first_get_ns: u64,
    /// How long all gets took.
    pub gets_ns: u64,
    /// How long it took until the write had been acknowledged.
    pub put_ns: u64,
    /// Keys and values that clients wrote.
    pub user_bytes: u64,
    /// Their commits.
    pub commits: u64,
    /// For each action the buckets that are not empty: where one begins, and how many.
    pub latency: Vec<Vec<(u64, u64)>>,
    /// What process and device counted, if the process reads them itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// What the engine counted itself.
    pub own: Vec<(String, u64)>,
    /// What the engine found out about the disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Why its figures are worth less than the others'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes that these digits stand for; `None` if they are no such digits.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || text.len() % 2 == 1 {
        return None;
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: bytes go through a line of text unchanged, and what is none is refused. Method: all bytes; odd and foreign digits.
    #[test]
    fn bytes_go_through_text() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)).as_deref(), Some(&all[..]));
        assert_eq!(unhex("0"), None);
        assert_eq!(unhex("zz"), None);
        assert_eq!(unhex("é"), None);
    }

    /// Goal: both sides of the line read the same. Method: a request and an answer, there and back.
    #[test]
    fn lines_are_read_as_they_were_written() {
        let asked = Request {
            from: Some(7),
            durability: Some(Durability::Relaxed),
            ..Request::of(Work::FirstUse)
        };
        let line = serde_json::to_string(&asked).expect("a line");
        assert_eq!(
            line,
            r#"{"do":"first_use","durability":"relaxed","from":7}"#
        );
        let read: Request = serde_json::from_str(&line).expect("a request");
        assert_eq!((read.work, read.from), (Work::FirstUse, Some(7)));
        let answer: Answer = serde_json::from_str(r#"{"done":true,"values":["00",null]}"#)
            .expect("what is absent has a default");
        assert_eq!(answer.values, [Some("00".to_owned()), None]);
        assert!(serde_json::from_str::<Answer>(r#"{"dona":true}"#).is_err());
    }
}
