//! Parsing what the host hands in: the opening's configuration and requests. Lengths are checked before they are used; a
//! malformed payload is `None`.

use kvsim_engine::{Config, DeviceInfo, Direction, Durability, Mutation, Request, ScanRange};

/// A request whose mutations still have to be passed to the engine.
#[derive(Debug)]
pub(crate) enum Parsed<'a> {
    Write {
        mutations: Vec<Mutation<'a>>,
        durability: Durability,
    },
    Get {
        snapshot: u64,
        key: &'a [u8],
    },
    Scan(ScanRange<'a>),
    Snapshot,
    Release {
        snapshot: u64,
    },
    Sync,
    Close,
}

impl Parsed<'_> {
    pub(crate) fn request(&self) -> Request<'_> {
        match self {
            Parsed::Write {
                mutations,
                durability,
            } => Request::Write {
                mutations,
                durability: *durability,
            },
            Parsed::Get { snapshot, key } => Request::Get {
                snapshot: *snapshot,
                key,
            },
            Parsed::Scan(range) => Request::Scan(*range),
            Parsed::Snapshot => Request::Snapshot,
            Parsed::Release { snapshot } => Request::Release {
                snapshot: *snapshot,
            },
            Parsed::Sync => Request::Sync,
            Parsed::Close => Request::Close,
        }
    }
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
        self.take(1).map(|bytes| bytes[0])
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

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// The version of the ABI that the host states, and the configuration.
pub(crate) fn parse_open(payload: &[u8]) -> Option<(u32, Config)> {
    let mut bytes = Bytes(payload);
    let version = bytes.u32()?;
    let sector_bytes = bytes.u32()?;
    let physical_block_bytes = bytes.u32()?;
    let flags = bytes.u32()?;
    let capacity_bytes = bytes.u64()?;
    let max_capacity_bytes = bytes.u64()?;
    let _atomic_write_bytes = bytes.u64()?;
    let memory_bytes_max = bytes.u64()?;
    let db_id = bytes.take(16)?.try_into().ok()?;
    let options_len = bytes.len()?;
    let options = String::from_utf8_lossy(bytes.take(options_len)?).into_owned();
    bytes.end()?;
    let device = DeviceInfo {
        sector_bytes,
        physical_block_bytes,
        volatile_cache: flags & 1 != 0,
        write_through: flags & 2 != 0,
        capacity_bytes,
        max_capacity_bytes,
    };
    Some((
        version,
        Config {
            device,
            memory_bytes_max,
            db_id,
            options,
        },
    ))
}

pub(crate) fn parse_request(payload: &[u8]) -> Option<Parsed<'_>> {
    let mut bytes = Bytes(payload);
    let op = bytes.u8()?;
    let durability = match bytes.u8()? {
        0 => Durability::Durable,
        1 => Durability::Relaxed,
        _ => return None,
    };
    bytes.take(2)?;
    let parsed = match op {
        1 => {
            let (key_len, value_len) = (bytes.len()?, bytes.len()?);
            let mutations = vec![Mutation::Put {
                key: bytes.take(key_len)?,
                value: bytes.take(value_len)?,
            }];
            Parsed::Write {
                mutations,
                durability,
            }
        }
        2 => {
            let key_len = bytes.len()?;
            Parsed::Write {
                mutations: vec![Mutation::Delete {
                    key: bytes.take(key_len)?,
                }],
                durability,
            }
        }
        3 => Parsed::Write {
            mutations: parse_batch(&mut bytes)?,
            durability,
        },
        4 => {
            let snapshot = bytes.u64()?;
            let key_len = bytes.len()?;
            Parsed::Get {
                snapshot,
                key: bytes.take(key_len)?,
            }
        }
        5 => Parsed::Scan(parse_scan(&mut bytes)?),
        6 => Parsed::Snapshot,
        7 => Parsed::Release {
            snapshot: bytes.u64()?,
        },
        8 => Parsed::Sync,
        9 => Parsed::Close,
        _ => return None,
    };
    bytes.end()?;
    Some(parsed)
}

fn parse_batch<'a>(bytes: &mut Bytes<'a>) -> Option<Vec<Mutation<'a>>> {
    let count = bytes.len()?;
    let mut mutations = Vec::with_capacity(count.min(bytes.0.len() / 9));
    for _ in 0..count {
        let kind = bytes.u8()?;
        let (key_len, value_len) = (bytes.len()?, bytes.len()?);
        let (key, value) = (bytes.take(key_len)?, bytes.take(value_len)?);
        mutations.push(match kind {
            0 => Mutation::Put { key, value },
            1 => Mutation::Delete { key },
            _ => return None,
        });
    }
    Some(mutations)
}

fn parse_scan<'a>(bytes: &mut Bytes<'a>) -> Option<ScanRange<'a>> {
    let snapshot = bytes.u64()?;
    let direction = match bytes.u8()? {
        0 => Direction::Forward,
        1 => Direction::Reverse,
        _ => return None,
    };
    let bounds = bytes.u8()?;
    bytes.take(2)?;
    let (limit, max_bytes) = (bytes.u32()?, bytes.u32()?);
    let (start_len, end_len) = (bytes.len()?, bytes.len()?);
    let (start, end) = (bytes.take(start_len)?, bytes.take(end_len)?);
    Some(ScanRange {
        snapshot,
        direction,
        start: (bounds & 1 != 0).then_some(start),
        end: (bounds & 2 != 0).then_some(end),
        limit,
        max_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a malformed payload is refused, never a panic. Method: every prefix and every single-byte change of valid ones.
    #[test]
    fn a_malformed_payload_is_refused() {
        let mut put = vec![1, 0, 0, 0];
        put.extend_from_slice(&3_u32.to_le_bytes());
        put.extend_from_slice(&2_u32.to_le_bytes());
        put.extend_from_slice(b"keyvv");
        assert!(parse_request(&put).is_some());
        for len in 0..put.len() {
            assert!(parse_request(&put[..len]).is_none(), "{len}");
        }
        for at in 0..put.len() {
            for byte in [0, 1, 7, 255] {
                let mut changed = put.clone();
                changed[at] = byte;
                let _ = parse_request(&changed);
            }
        }
        assert!(parse_request(&[9, 0, 0, 0]).is_some());
        assert!(parse_request(&[10, 0, 0, 0]).is_none());
        assert!(parse_open(&[0; 10]).is_none());
    }
}
