//! A request of a case as one line of text, so that a person can read a case and a minimiser can take lines out of it.
//!
//! ```text
//! 3 put k07 41:1024                    client 3; the value number 41 of this client, 1,024 bytes; durable
//! 3+500 put k07 42:1024:50 relaxed     after 500 ns of thinking; half of it compresses away; acknowledged when accepted
//! 0 batch put k01 43:64, delete k02
//! 0 get k01 @5                         through snapshot 5
//! 0 scan reverse k01 - 100 65536       from k01 to the end, at most 100 entries and 65,536 bytes
//! 0 snapshot | 0 release 5 | 0 sync | 0 close
//! preload put k00 1:1024               before the clients begin, one at a time
//! ```
//!
//! A key of other bytes than letters, digits and `_ . / -` is written in quotes, with `\xNN` for each other byte: `""` is the empty key. (Older cases have `0x` and
//! hexadecimal.) A value that does not describe itself is written `=` and hexadecimal.

use std::fmt;
use std::str::FromStr;

use kvsim_sim::api::{Direction, Durability, Mutation, Request, Scan, SnapshotId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use kvsim_api::value::{self, Reading, Stamp};
use kvsim_workload::{ClientId, PRELOAD_WRITER, VALUE_BYTES_MAX};

/// One request of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseRequest {
    /// Whose turn it is.
    pub client: ClientId,
    /// How long the client thinks between its last answer and this request.
    pub think_ns: u64,
    /// What it asks.
    pub request: Request,
}

impl Serialize for CaseRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CaseRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CaseRequest, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for CaseRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            PRELOAD_WRITER => f.write_str("preload")?,
            client => write!(f, "{client}")?,
        }
        if self.think_ns > 0 {
            write!(f, "+{}", self.think_ns)?;
        }
        let relaxed = |durability: &Durability| match durability {
            Durability::Durable => "",
            Durability::Relaxed => " relaxed",
        };
        match &self.request {
            Request::Put {
                key,
                value,
                durability,
            } => write!(
                f,
                " put {} {}{}",
                Key(key),
                self.value(key, value),
                relaxed(durability)
            ),
            Request::Delete { key, durability } => {
                write!(f, " delete {}{}", Key(key), relaxed(durability))
            }
            Request::Batch {
                mutations,
                durability,
            } => {
                write!(f, " batch{}", relaxed(durability))?;
                for (at, mutation) in mutations.iter().enumerate() {
                    f.write_str(if at == 0 { " " } else { ", " })?;
                    match mutation {
                        Mutation::Put { key, value } => {
                            write!(f, "put {} {}", Key(key), self.value(key, value))?;
                        }
                        Mutation::Delete { key } => write!(f, "delete {}", Key(key))?,
                    }
                }
                Ok(())
            }
            Request::Get { key, snapshot } => write!(f, " get {}{}", Key(key), At(*snapshot)),
            Request::Scan(scan) => {
                let direction = match scan.direction {
                    Direction::Forward => "forward",
                    Direction::Reverse => "reverse",
                };
                let bound = |bound: &Option<Vec<u8>>| {
                    bound
                        .as_ref()
                        .map_or_else(|| "-".to_owned(), |key| Key(key).to_string())
                };
                write!(
                    f,
                    " scan {direction} {} {} {} {}{}",
                    bound(&scan.start),
                    bound(&scan.end),
                    scan.limit,
                    scan.max_bytes,
                    At(scan.snapshot)
                )
            }
            Request::Snapshot => f.write_str(" snapshot"),
            Request::Release { snapshot } => write!(f, " release {snapshot}"),
            Request::Sync => f.write_str(" sync"),
            Request::Close => f.write_str(" close"),
        }
    }
}

impl CaseRequest {
    /// A value in short if it is what [`value::generate`] makes, else all of it.
    fn value(&self, key: &[u8], bytes: &[u8]) -> String {
        if let Reading::Whole(stamp) = value::read(bytes)
            && stamp.writer == self.client
            && stamp.key_hash == value::key_hash(key)
        {
            let made = |percent| value::generate(stamp, bytes.len(), percent) == bytes;
            if made(0) {
                return format!("{}:{}", stamp.number, bytes.len());
            }
            if let Some(percent) = (1..=100).find(|percent| made(*percent)) {
                return format!("{}:{}:{percent}", stamp.number, bytes.len());
            }
        }
        bytes
            .iter()
            .fold("=".to_owned(), |hex, byte| hex + &format!("{byte:02x}"))
    }
}

struct Key<'a>(&'a [u8]);

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_./-".contains(&byte)
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text)
                if !text.is_empty()
                    && text != "-"
                    && !text.starts_with("0x")
                    && text.bytes().all(is_plain) =>
            {
                f.write_str(text)
            }
            _ => {
                f.write_str("\"")?;
                self.0.iter().try_for_each(|&byte| match is_plain(byte) {
                    true => write!(f, "{}", char::from(byte)),
                    false => write!(f, "\\x{byte:02x}"),
                })?;
                f.write_str("\"")
            }
        }
    }
}

struct At(SnapshotId);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            snapshot => write!(f, " @{snapshot}"),
        }
    }
}

impl FromStr for CaseRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<CaseRequest, String> {
        let spaced = text.replace(',', " , ");
        let mut words = Words {
            text,
            words: spaced.split_whitespace().peekable(),
        };
        let who = words.next("a client")?;
        let (client, think_ns) = match who.split_once('+') {
            Some((client, think)) => (client, words.number(think)?),
            None => (who, 0),
        };
        let client = match client {
            "preload" => PRELOAD_WRITER,
            client => words.number(client)?,
        };
        let request = words.request(client)?;
        match words.words.next() {
            None => Ok(CaseRequest {
                client,
                think_ns,
                request,
            }),
            Some(word) => Err(format!("`{text}`: `{word}` is too much")),
        }
    }
}

/// What is left of a line.
struct Words<'a> {
    text: &'a str,
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.words
            .next()
            .ok_or_else(|| format!("`{}`: {what} is missing", self.text))
    }

    fn number<T: FromStr>(&self, word: &str) -> Result<T, String> {
        word.parse()
            .map_err(|_| format!("`{}`: `{word}` is no number that fits here", self.text))
    }

    fn is_next(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    fn durability(&mut self) -> Durability {
        if self.is_next("relaxed") {
            Durability::Relaxed
        } else {
            Durability::Durable
        }
    }

    fn snapshot(&mut self) -> Result<SnapshotId, String> {
        match self.words.next_if(|word| word.starts_with('@')) {
            Some(word) => self.number(&word[1..]),
            None => Ok(0),
        }
    }

    fn hex(&self, digits: &str) -> Result<Vec<u8>, String> {
        let pairs = digits.as_bytes().chunks(2);
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        };
        pairs
            .map(byte)
            .collect::<Option<_>>()
            .ok_or_else(|| format!("`{}`: `{digits}` is not hexadecimal", self.text))
    }

    fn key_of(&self, word: &str) -> Result<Vec<u8>, String> {
        if let Some(digits) = word.strip_prefix("0x") {
            return self.hex(digits);
        }
        match word.strip_prefix('"') {
            Some(rest) => self.quoted(rest),
            None => Ok(word.as_bytes().to_vec()),
        }
    }

    /// A key whose opening quote is taken off.
    fn quoted(&self, rest: &str) -> Result<Vec<u8>, String> {
        let wrong = || {
            format!(
                "`{}`: `\"{rest}` is no key; write `\"` at its end and `\\x2c` for a byte such as 44",
                self.text
            )
        };
        let mut left = rest.strip_suffix('"').ok_or_else(wrong)?;
        let mut key = Vec::new();
        while let Some(first) = left.bytes().next() {
            let escaped = left.strip_prefix("\\x").and_then(|it| it.get(..2));
            let taken = match escaped {
                Some(digits) => {
                    key.extend(self.hex(digits)?);
                    4
                }
                None if is_plain(first) => {
                    key.push(first);
                    1
                }
                None => return Err(wrong()),
            };
            left = &left[taken..];
        }
        Ok(key)
    }

    fn key(&mut self) -> Result<Vec<u8>, String> {
        let word = self.next("a key")?;
        self.key_of(word)
    }

    fn bound(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.next("a bound")? {
            "-" => Ok(None),
            word => self.key_of(word).map(Some),
        }
    }

    fn value(&mut self, writer: ClientId, key: &[u8]) -> Result<Vec<u8>, String> {
        let word = self.next("a value")?;
        if let Some(digits) = word.strip_prefix('=') {
            return self.hex(digits);
        }
        let parts: Vec<&str> = word.split(':').collect();
        let (number, bytes, percent) = match parts[..] {
            [number, bytes] => (number, bytes, 0),
            [number, bytes, percent] => (number, bytes, self.number(percent)?),
            _ => {
                return Err(format!(
                    "`{}`: `{word}` is no value; write NUMBER:BYTES",
                    self.text
                ));
            }
        };
        let bytes: u64 = self.number(bytes)?;
        if bytes > VALUE_BYTES_MAX || percent > 100 {
            return Err(format!("`{}`: `{word}` is out of range", self.text));
        }
        let stamp = Stamp {
            key_hash: value::key_hash(key),
            writer,
            number: self.number(number)?,
        };
        let bytes = usize::try_from(bytes).map_err(|error| error.to_string())?;
        Ok(value::generate(stamp, bytes, percent))
    }

    fn mutation(&mut self, writer: ClientId) -> Result<Mutation, String> {
        match self.next("a mutation")? {
            "put" => {
                let key = self.key()?;
                let value = self.value(writer, &key)?;
                Ok(Mutation::Put { key, value })
            }
            "delete" => Ok(Mutation::Delete { key: self.key()? }),
            word => Err(format!("`{}`: `{word}` is no mutation", self.text)),
        }
    }

    fn request(&mut self, writer: ClientId) -> Result<Request, String> {
        Ok(match self.next("a request")? {
            "put" => {
                let key = self.key()?;
                let value = self.value(writer, &key)?;
                Request::Put {
                    key,
                    value,
                    durability: self.durability(),
                }
            }
            "delete" => Request::Delete {
                key: self.key()?,
                durability: self.durability(),
            },
            "batch" => {
                let durability = self.durability();
                let mut mutations = Vec::new();
                while self.words.peek().is_some() {
                    mutations.push(self.mutation(writer)?);
                    if !self.is_next(",") {
                        break;
                    }
                }
                Request::Batch {
                    mutations,
                    durability,
                }
            }
            "get" => Request::Get {
                key: self.key()?,
                snapshot: self.snapshot()?,
            },
            "scan" => {
                let direction = match self.next("a direction")? {
                    "forward" => Direction::Forward,
                    "reverse" => Direction::Reverse,
                    word => return Err(format!("`{}`: `{word}` is no direction", self.text)),
                };
                let (start, end) = (self.bound()?, self.bound()?);
                let limit = self.next("a limit")?;
                let max_bytes = self.next("a bound in bytes")?;
                Request::Scan(Scan {
                    direction,
                    start,
                    end,
                    limit: self.number(limit)?,
                    max_bytes: self.number(max_bytes)?,
                    snapshot: self.snapshot()?,
                })
            }
            "snapshot" => Request::Snapshot,
            "release" => {
                let word = self.next("a snapshot")?;
                Request::Release {
                    snapshot: self.number(word)?,
                }
            }
            "sync" => Request::Sync,
            "close" => Request::Close,
            word => return Err(format!("`{}`: `{word}` is no request", self.text)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a line means one request, and that request is written as this line. Method: there and back.
    #[test]
    fn each_line_is_read_as_it_is_written() {
        for line in [
            "3 put k07 41:1024",
            "3+500 put k07 42:1024:50 relaxed",
            "preload put k00 1:64",
            "0 put k07 =00ff10",
            r#"0 put "\x00\x2c\x20" 2:40"#,
            r#"0 delete "-" relaxed"#,
            r#"0 delete """#,
            "0 batch relaxed put k01 43:64, delete k02",
            "0 batch",
            "0 get k01 @5",
            "0 get k01",
            "1 scan reverse k01 - 100 65536 @7",
            r#"1 scan forward - "0x" 1 1"#,
            "1 snapshot",
            "1 release 5",
            "1 sync",
            "1 close",
        ] {
            let request: CaseRequest = line.parse().unwrap();
            assert_eq!(request.to_string(), line);
        }
        let older: CaseRequest = "0 delete 0x6b2c".parse().unwrap();
        assert_eq!(older.to_string(), r#"0 delete "k\x2c""#);
    }

    /// Goal: a slip of the pen is named. Method: one of each kind.
    #[test]
    fn wrong_lines_say_what_is_wrong() {
        for (line, what) in [
            ("", "a client is missing"),
            ("x put k 1:40", "`x` is no number"),
            ("0 put k", "a value is missing"),
            ("0 put k 1", "write NUMBER:BYTES"),
            ("0 put k 1:99999999999", "out of range"),
            ("0 put k =0", "not hexadecimal"),
            ("0 delete \"k", "is no key"),
            ("0 delete \"k\\x2\"", "is no key"),
            ("0 delete \"k!\"", "is no key"),
            ("0 pot k 1:40", "`pot` is no request"),
            ("0 delete k relaxed now", "`now` is too much"),
            ("0 batch put a 1:40, rename b", "`rename` is no mutation"),
        ] {
            let error = line.parse::<CaseRequest>().unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
