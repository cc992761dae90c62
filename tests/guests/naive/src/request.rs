//! What the host hands in, parsed: a payload that is not as the ABI says is `None`.

use std::rc::Rc;

/// One write; no value is a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Rc<[u8]>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) snapshot: u64,
    pub(crate) reverse: bool,
    pub(crate) start: Option<Vec<u8>>,
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) limit: usize,
    pub(crate) max_bytes: usize,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    Write(Vec<Mutation>),
    /// A write that may be acknowledged before it is durable.
    Relaxed(Vec<Mutation>),
    Get {
        snapshot: u64,
        key: Vec<u8>,
    },
    Scan(Scan),
    Snapshot,
    Release {
        snapshot: u64,
    },
    Sync,
    Close,
    /// Not as the ABI says.
    Malformed,
}

/// What the guest is told when it is to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) abi_version: u32,
    /// What may be rewritten without touching its neighbours.
    pub(crate) block_bytes: u64,
    pub(crate) capacity_bytes: u64,
    pub(crate) options: Vec<(String, String)>,
}

/// The rest of a payload.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn len(&mut self) -> Option<usize> {
        usize::try_from(self.u32()?).ok()
    }
}

impl Opening {
    pub(crate) fn parse(payload: &[u8]) -> Option<Opening> {
        let mut bytes = Bytes(payload);
        let abi_version = bytes.u32()?;
        let (sector_bytes, physical_block_bytes, _flags) =
            (bytes.u32()?, bytes.u32()?, bytes.u32()?);
        let capacity_bytes = bytes.u64()?;
        let (_max_capacity, _atomic_write, _memory_max) =
            (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        bytes.take(16)?; // The database's identity: there is only one here.
        let len = bytes.len()?;
        let lines = std::str::from_utf8(bytes.take(len)?).ok()?.lines();
        let options = lines.map(|line| {
            line.split_once('=')
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        });
        let block_bytes = u64::from(sector_bytes.max(physical_block_bytes));
        Some(Opening {
            abi_version,
            block_bytes,
            capacity_bytes,
            options: options.collect::<Option<_>>()?,
        })
    }
}

impl Request {
    pub(crate) fn parse(payload: &[u8]) -> Request {
        parse(payload).unwrap_or(Request::Malformed)
    }
}

fn parse(payload: &[u8]) -> Option<Request> {
    let mut bytes = Bytes(payload);
    let op = bytes.u8()?;
    let is_relaxed = bytes.u8()? == 1;
    bytes.take(2)?;
    let request = match op {
        1 => {
            let (key_len, value_len) = (bytes.len()?, bytes.len()?);
            let key = bytes.take(key_len)?.to_vec();
            Request::Write(vec![Mutation {
                key,
                value: Some(bytes.take(value_len)?.into()),
            }])
        }
        2 => {
            let key_len = bytes.len()?;
            Request::Write(vec![Mutation {
                key: bytes.take(key_len)?.to_vec(),
                value: None,
            }])
        }
        3 => {
            let count = bytes.len()?;
            let rest = std::mem::take(&mut bytes.0);
            Request::Write(Mutations::parse(rest, count)?)
        }
        4 => {
            let (snapshot, key_len) = (bytes.u64()?, bytes.len()?);
            Request::Get {
                snapshot,
                key: bytes.take(key_len)?.to_vec(),
            }
        }
        5 => Request::Scan(parse_scan(&mut bytes)?),
        6 => Request::Snapshot,
        7 => Request::Release {
            snapshot: bytes.u64()?,
        },
        8 => Request::Sync,
        9 => Request::Close,
        _ => return None,
    };
    let request = match request {
        Request::Write(mutations) if is_relaxed => Request::Relaxed(mutations),
        request => request,
    };
    bytes.0.is_empty().then_some(request)
}

fn parse_scan(bytes: &mut Bytes<'_>) -> Option<Scan> {
    let snapshot = bytes.u64()?;
    let (direction, bounds) = (bytes.u8()?, bytes.u8()?);
    bytes.take(2)?;
    let (limit, max_bytes) = (bytes.len()?, bytes.len()?);
    let (start_len, end_len) = (bytes.len()?, bytes.len()?);
    let (start, end) = (bytes.take(start_len)?, bytes.take(end_len)?);
    Some(Scan {
        snapshot,
        reverse: direction == 1,
        start: (bounds & 1 != 0).then(|| start.to_vec()),
        end: (bounds & 2 != 0).then(|| end.to_vec()),
        limit,
        max_bytes,
    })
}

/// Mutations in a row, as a batch's payload and a record's body hold them.
pub(crate) struct Mutations;

impl Mutations {
    pub(crate) fn parse(bytes: &[u8], count: usize) -> Option<Vec<Mutation>> {
        let mut bytes = Bytes(bytes);
        let mut mutations = Vec::new();
        for _ in 0..count {
            let (kind, key_len, value_len) = (bytes.u8()?, bytes.len()?, bytes.len()?);
            let (key, value) = (bytes.take(key_len)?.to_vec(), bytes.take(value_len)?);
            let value = match kind {
                0 => Some(value.into()),
                1 => None,
                _ => return None,
            };
            mutations.push(Mutation { key, value });
        }
        bytes.0.is_empty().then_some(mutations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: nothing that is cut short or changed is taken for something else, and nothing panics. Method: every prefix.
    #[test]
    fn malformed_payloads_are_refused() {
        let batch = b"\x03\0\0\0\x02\0\0\0\0\x01\0\0\0\x02\0\0\0kvv\x01\x01\0\0\0\0\0\0\0d";
        let put = Mutation {
            key: b"k".to_vec(),
            value: Some(b"vv".as_slice().into()),
        };
        let delete = Mutation {
            key: b"d".to_vec(),
            value: None,
        };
        assert_eq!(Request::parse(batch), Request::Write(vec![put, delete]));
        for len in 0..batch.len() {
            assert_eq!(Request::parse(&batch[..len]), Request::Malformed, "{len}");
        }
        let relaxed = b"\x02\x01\0\0\x01\0\0\0d";
        assert!(matches!(Request::parse(relaxed), Request::Relaxed(_)));
        assert_eq!(Request::parse(b"\x08\0\0\0"), Request::Sync);
        assert_eq!(Request::parse(b"\x08\0\0\0\0"), Request::Malformed);
        assert_eq!(Request::parse(b"\x0a\0\0\0"), Request::Malformed);
        assert_eq!(Opening::parse(&[1; 30]), None);
    }
}
