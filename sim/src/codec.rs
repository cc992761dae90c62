//! The guest ABI's payloads as bytes: open configurations and requests go in, reply bodies come out.
//!
//! Invariant: decoding accepts exactly the documented layout; anything else is an error that says what is wrong, never a panic
//! and never an allocation larger than the payload.

use crate::OpenConfig;
use crate::api::{Body, Direction, Durability, Mutation, Request, Status};

/// The version of the guest ABI that this host speaks.
pub const ABI_VERSION: u32 = 1;

/// What kind of body a request's `Ok` reply carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expects {
    /// No body.
    Nothing,
    /// The value of a get.
    Value,
    /// The entries of a scan.
    Entries,
    /// The number of a snapshot.
    Snapshot,
}

impl Expects {
    /// What the reply to this request carries.
    #[must_use]
    pub fn of(request: &Request) -> Self {
        match request {
            Request::Get { .. } => Expects::Value,
            Request::Scan(_) => Expects::Entries,
            Request::Snapshot => Expects::Snapshot,
            _ => Expects::Nothing,
        }
    }
}

fn put_u32(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("payloads are far below 4 GiB");
    out.extend_from_slice(&number.to_le_bytes());
}

fn head(out: &mut Vec<u8>, op: u8, durability: Durability) {
    out.extend_from_slice(&[op, u8::from(durability == Durability::Relaxed), 0, 0]);
}

/// Writes the payload of `kv_open`.
pub(crate) fn encode_open(config: &OpenConfig, out: &mut Vec<u8>) {
    let device = &config.device;
    let flags = u32::from(device.volatile_cache)
        | u32::from(device.fua) << 1
        | u32::from(device.discard) << 2
        | u32::from(device.barrier) << 3;
    for number in [
        ABI_VERSION,
        device.sector_bytes,
        device.physical_block_bytes,
        flags,
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let sizes = [
        device.capacity_bytes,
        device.max_capacity_bytes,
        device.atomic_write_bytes,
        config.memory_bytes_max,
    ];
    for number in sizes {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&config.db_id);
    let options: String = config
        .options
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    put_u32(out, options.len());
    out.extend_from_slice(options.as_bytes());
}

/// Writes the payload of a request, by the layout of the guest ABI's page.
pub fn encode_request(request: &Request, out: &mut Vec<u8>) {
    match request {
        Request::Put {
            key,
            value,
            durability,
        } => {
            head(out, 1, *durability);
            put_u32(out, key.len());
            put_u32(out, value.len());
            out.extend_from_slice(key);
            out.extend_from_slice(value);
        }
        Request::Delete { key, durability } => {
            head(out, 2, *durability);
            put_u32(out, key.len());
            out.extend_from_slice(key);
        }
        Request::Batch {
            mutations,
            durability,
        } => {
            head(out, 3, *durability);
            put_u32(out, mutations.len());
            for mutation in mutations {
                let (kind, key, value) = match mutation {
                    Mutation::Put { key, value } => (0, key, value.as_slice()),
                    Mutation::Delete { key } => (1, key, &[][..]),
                };
                out.push(kind);
                put_u32(out, key.len());
                put_u32(out, value.len());
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
        }
        Request::Get { key, snapshot } => {
            head(out, 4, Durability::Durable);
            out.extend_from_slice(&snapshot.to_le_bytes());
            put_u32(out, key.len());
            out.extend_from_slice(key);
        }
        Request::Scan(scan) => {
            head(out, 5, Durability::Durable);
            out.extend_from_slice(&scan.snapshot.to_le_bytes());
            let bounds = u8::from(scan.start.is_some()) | u8::from(scan.end.is_some()) << 1;
            out.extend_from_slice(&[u8::from(scan.direction == Direction::Reverse), bounds, 0, 0]);
            out.extend_from_slice(&scan.limit.to_le_bytes());
            out.extend_from_slice(&scan.max_bytes.to_le_bytes());
            let (start, end) = (
                scan.start.as_deref().unwrap_or(&[]),
                scan.end.as_deref().unwrap_or(&[]),
            );
            put_u32(out, start.len());
            put_u32(out, end.len());
            out.extend_from_slice(start);
            out.extend_from_slice(end);
        }
        Request::Snapshot => head(out, 6, Durability::Durable),
        Request::Release { snapshot } => {
            head(out, 7, Durability::Durable);
            out.extend_from_slice(&snapshot.to_le_bytes());
        }
        Request::Sync => head(out, 8, Durability::Durable),
        Request::Close => head(out, 9, Durability::Durable),
    }
}

/// Reads a status number.
///
/// # Errors
/// A sentence, if no status has this number.
pub fn decode_status(number: u32) -> Result<Status, String> {
    use Status::{Closed, Corruption, Invalid, IoError, NoSpace, NotFound, Ok as Done, ReadOnly};
    let all = [
        Done, NotFound, Corruption, IoError, NoSpace, ReadOnly, Invalid, Closed,
    ];
    all.into_iter()
        .find(|&status| status as u32 == number)
        .ok_or_else(|| format!("{number} is no status"))
}

/// Reads a reply's body.
///
/// # Errors
/// A sentence that says where the bytes leave the documented layout.
pub fn decode_body(expects: Expects, status: Status, bytes: &[u8]) -> Result<Body, String> {
    if status != Status::Ok {
        if bytes.is_empty() {
            return Ok(Body::Empty);
        }
        let text =
            std::str::from_utf8(bytes).map_err(|_| "a reply's message is not UTF-8".to_owned())?;
        return Ok(Body::Message(text.to_owned()));
    }
    match expects {
        Expects::Nothing if bytes.is_empty() => Ok(Body::Empty),
        Expects::Nothing => Err(format!(
            "a body of {} bytes where the reply has none",
            bytes.len()
        )),
        Expects::Value => Ok(Body::Value(bytes.to_vec())),
        Expects::Snapshot => match bytes.try_into() {
            Ok(id) => match u64::from_le_bytes(id) {
                0 => {
                    Err("a snapshot has the number 0, which stands for the latest state".to_owned())
                }
                id => Ok(Body::Snapshot(id)),
            },
            Err(_) => Err(format!(
                "a snapshot's number has 8 bytes, not {}",
                bytes.len()
            )),
        },
        Expects::Entries => decode_entries(bytes),
    }
}

fn decode_entries(bytes: &[u8]) -> Result<Body, String> {
    let mut rest = bytes;
    let count = take_u32(&mut rest)?;
    let flags = take(&mut rest, 4)?;
    if flags[0] > 1 || flags[1..] != [0; 3] {
        return Err("a scan's flags are not 0 or 1 and three zero bytes".to_owned());
    }
    // An entry has at least its two lengths, so a count that lies cannot ask for more memory than the reply has.
    let mut entries = Vec::with_capacity((count as usize).min(rest.len() / 8));
    for _ in 0..count {
        let (key_len, value_len) = (take_u32(&mut rest)? as usize, take_u32(&mut rest)? as usize);
        let key = take(&mut rest, key_len)?.to_vec();
        entries.push((key, take(&mut rest, value_len)?.to_vec()));
    }
    if !rest.is_empty() {
        return Err(format!("{} bytes after a scan's last entry", rest.len()));
    }
    Ok(Body::Entries {
        entries,
        more: flags[0] == 1,
    })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], String> {
    let Some((head, tail)) = rest.split_at_checked(len) else {
        return Err(format!(
            "a scan's reply ends after {} of {len} bytes",
            rest.len()
        ));
    };
    *rest = tail;
    Ok(head)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, String> {
    Ok(u32::from_le_bytes(
        take(rest, 4)?.try_into().expect("four bytes"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        encode_request(request, &mut out);
        out
    }

    #[test]
    fn requests_have_the_documented_bytes() {
        let put = Request::Put {
            key: b"k".to_vec(),
            value: b"vv".to_vec(),
            durability: Durability::Relaxed,
        };
        assert_eq!(encoded(&put), b"\x01\x01\0\0\x01\0\0\0\x02\0\0\0kvv");
        let get = Request::Get {
            key: b"key".to_vec(),
            snapshot: 258,
        };
        assert_eq!(
            encoded(&get),
            b"\x04\0\0\0\x02\x01\0\0\0\0\0\0\x03\0\0\0key"
        );
        let batch = Request::Batch {
            mutations: vec![
                Mutation::Delete { key: b"d".to_vec() },
                Mutation::Put {
                    key: b"p".to_vec(),
                    value: vec![7],
                },
            ],
            durability: Durability::Durable,
        };
        assert_eq!(
            encoded(&batch),
            b"\x03\0\0\0\x02\0\0\0\x01\x01\0\0\0\0\0\0\0d\0\x01\0\0\0\x01\0\0\0p\x07"
        );
    }

    #[test]
    fn entries_are_read_back_and_every_truncation_is_refused() {
        let mut bytes = b"\x02\0\0\0\x01\0\0\0".to_vec();
        bytes.extend_from_slice(b"\x01\0\0\0\x02\0\0\0abb\x01\0\0\0\0\0\0\0c");
        let entries = vec![(b"a".to_vec(), b"bb".to_vec()), (b"c".to_vec(), Vec::new())];
        assert_eq!(
            decode_body(Expects::Entries, Status::Ok, &bytes),
            Ok(Body::Entries {
                entries,
                more: true
            })
        );
        for len in 0..bytes.len() {
            assert!(
                decode_body(Expects::Entries, Status::Ok, &bytes[..len]).is_err(),
                "{len}"
            );
        }
        bytes.push(0);
        assert!(decode_body(Expects::Entries, Status::Ok, &bytes).is_err());
        assert!(decode_body(Expects::Entries, Status::Ok, b"\xff\xff\xff\xff\0\0\0\0").is_err());
    }

    #[test]
    fn statuses_and_bodies_must_fit() {
        assert_eq!(decode_status(5), Ok(Status::ReadOnly));
        assert!(decode_status(8).is_err());
        assert!(decode_body(Expects::Nothing, Status::Ok, b"x").is_err());
        assert!(decode_body(Expects::Snapshot, Status::Ok, b"x").is_err());
        assert!(decode_body(Expects::Snapshot, Status::Ok, &[0; 8]).is_err());
        assert!(decode_body(Expects::Value, Status::Corruption, b"\xff").is_err());
    }
}
