//! The files are read as a compiler would, as far as constants go, and held to what the codec makes.

use std::collections::BTreeMap;

use kvsim_simdisk::Capabilities;

use super::{C, RUST, ZIG};
use crate::api::{Direction, Durability, Mutation, Request, Scan, Status};
use crate::codec;
use crate::{ABI_VERSION, GuestPolicies, OpenConfig};

/// The constants of a file by their names in C, without its prefix: `before` begins such a line, and `between` is between name and value.
fn constants(text: &str, before: &str, between: char) -> BTreeMap<String, String> {
    let constant = |line: &str| {
        let line = line.strip_prefix(before)?;
        let (name, value) = line.split_once(between)?;
        let name = name.split(':').next()?.trim();
        let value = value.split("/*").next()?.trim().trim_end_matches(';');
        let is_value = value.starts_with('"') || value.parse::<u64>().is_ok();
        is_value.then(|| (name.to_owned(), value.trim_matches('"').to_owned()))
    };
    text.lines().filter_map(constant).collect()
}

fn header() -> BTreeMap<String, String> {
    constants(C, "#define KVSIM_", ' ')
}

#[track_caller]
fn number(name: &str) -> usize {
    let found = header().get(name).map(|value| value.parse());
    found
        .unwrap_or_else(|| panic!("kvsim.h has no KVSIM_{name}"))
        .expect("a number")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn encoded(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode_request(request, &mut bytes);
    bytes
}

/// Goal: the three files say the same. Method: their constants, by name.
#[test]
fn every_language_has_the_same_constants() {
    let c = header();
    assert!(c.len() > 100, "{} constants were found", c.len());
    for (language, found) in [
        ("kvsim.rs", constants(RUST, "pub const ", '=')),
        ("kvsim.zig", constants(ZIG, "pub const ", '=')),
    ] {
        assert_eq!(found, c, "{language} beside kvsim.h");
    }
}

/// Goal: statuses, version and policies are those of the host. Method: each by its name.
#[test]
fn names_have_the_hosts_numbers() {
    assert_eq!(number("ABI_VERSION"), ABI_VERSION as usize);
    for (name, status) in [
        ("OK", Status::Ok),
        ("NOT_FOUND", Status::NotFound),
        ("CORRUPTION", Status::Corruption),
        ("IO_ERROR", Status::IoError),
        ("NO_SPACE", Status::NoSpace),
        ("READ_ONLY", Status::ReadOnly),
        ("INVALID", Status::Invalid),
        ("CLOSED", Status::Closed),
    ] {
        assert_eq!(number(name), status as usize, "{name}");
    }
    let header = header();
    let stated = header
        .iter()
        .filter(|(name, _)| name.starts_with("POLICY_"));
    let mut stated: Vec<&str> = stated.map(|(_, name)| name.as_str()).collect();
    let mut known = GuestPolicies::NAMES;
    stated.sort_unstable();
    known.sort_unstable();
    assert_eq!(stated, known);
}

/// Goal: the layout of an opening is the codec's. Method: each field has another number.
#[test]
fn an_opening_lies_where_the_files_say() {
    let config = OpenConfig {
        device: Capabilities {
            sector_bytes: 512,
            physical_block_bytes: 4_096,
            capacity_bytes: 11,
            max_capacity_bytes: 12,
            volatile_cache: true,
            fua: false,
            discard: false,
            barrier: false,
            atomic_write_bytes: 13,
            atomic_boundary_bytes: 0,
        },
        memory_bytes_max: 14,
        db_id: [7; 16],
        options: BTreeMap::from([("name".to_owned(), "value".to_owned())]),
    };
    let open = |config: &OpenConfig| {
        let mut bytes = Vec::new();
        codec::encode_open(config, &mut bytes);
        bytes
    };
    let bytes = open(&config);
    for (name, value) in [
        ("OPEN_ABI_VERSION", ABI_VERSION),
        ("OPEN_SECTOR", 512),
        ("OPEN_PHYSICAL_BLOCK", 4_096),
        ("OPEN_OPTIONS_LENGTH", 11),
    ] {
        assert_eq!(u32_at(&bytes, number(name)), value, "{name}");
    }
    for (name, value) in [
        ("OPEN_CAPACITY", 11),
        ("OPEN_MAX_CAPACITY", 12),
        ("OPEN_ATOMIC_WRITE", 13),
        ("OPEN_MEMORY", 14),
    ] {
        assert_eq!(u64_at(&bytes, number(name)), value, "{name}");
    }
    let id = number("OPEN_DATABASE_ID");
    assert_eq!(bytes[id..id + 16], [7; 16]);
    assert_eq!(&bytes[number("OPEN_OPTIONS")..], b"name=value\n");
    let flags = |change: fn(&mut Capabilities)| {
        let mut config = config.clone();
        config.device.volatile_cache = false;
        change(&mut config.device);
        u32_at(&open(&config), number("OPEN_FLAGS")) as usize
    };
    for (name, change) in [
        (
            "DEVICE_VOLATILE_CACHE",
            (|device| device.volatile_cache = true) as fn(&mut Capabilities),
        ),
        ("DEVICE_WRITE_THROUGH", |device| device.fua = true),
        ("DEVICE_DISCARD", |device| device.discard = true),
        ("DEVICE_BARRIER", |device| device.barrier = true),
    ] {
        assert_eq!(flags(change), number(name), "{name}");
    }
}

/// Goal: the layout of each request is the codec's. Method: one of each, with numbers that are found nowhere else in it.
#[test]
fn requests_lie_where_the_files_say() {
    let (key, value) = (b"key".to_vec(), b"value".to_vec());
    let durability = Durability::Relaxed;
    let put = encoded(&Request::Put {
        key: key.clone(),
        value: value.clone(),
        durability,
    });
    let durable = encoded(&Request::Delete {
        key: key.clone(),
        durability: Durability::Durable,
    });
    let at = |bytes: &[u8], name: &str| bytes[number(name)] as usize;
    assert_eq!(at(&put, "REQUEST_DURABILITY"), number("RELAXED"));
    assert_eq!(at(&durable, "REQUEST_DURABILITY"), number("DURABLE"));
    assert_eq!(u32_at(&put, number("PUT_KEY_LENGTH")), 3);
    assert_eq!(u32_at(&put, number("PUT_VALUE_LENGTH")), 5);
    assert_eq!(&put[number("PUT_KEY")..], b"keyvalue");
    assert_eq!(u32_at(&durable, number("DELETE_KEY_LENGTH")), 3);
    assert_eq!(&durable[number("DELETE_KEY")..], b"key");
    let mutations = vec![
        Mutation::Put {
            key: key.clone(),
            value,
        },
        Mutation::Delete { key: key.clone() },
    ];
    let batch = encoded(&Request::Batch {
        mutations,
        durability,
    });
    assert_eq!(u32_at(&batch, number("BATCH_COUNT")), 2);
    let first = &batch[number("BATCH_MUTATIONS")..];
    assert_eq!(at(first, "MUTATION_KIND"), number("MUTATION_PUT"));
    assert_eq!(u32_at(first, number("MUTATION_KEY_LENGTH")), 3);
    assert_eq!(u32_at(first, number("MUTATION_VALUE_LENGTH")), 5);
    let second = first[number("MUTATION_KEY")..]
        .strip_prefix(b"keyvalue")
        .expect("the key, then the value");
    assert_eq!(at(second, "MUTATION_KIND"), number("MUTATION_DELETE"));
    let get = encoded(&Request::Get {
        key: key.clone(),
        snapshot: 77,
    });
    assert_eq!(u64_at(&get, number("GET_SNAPSHOT")), 77);
    assert_eq!(u32_at(&get, number("GET_KEY_LENGTH")), 3);
    assert_eq!(&get[number("GET_KEY")..], b"key");
    let release = encoded(&Request::Release { snapshot: 78 });
    assert_eq!(u64_at(&release, number("RELEASE_SNAPSHOT")), 78);
    for (name, bytes) in [
        ("PUT", put),
        ("DELETE", durable),
        ("BATCH", batch.clone()),
        ("GET", get),
        ("SNAPSHOT", encoded(&Request::Snapshot)),
        ("RELEASE", release),
        ("SYNC", encoded(&Request::Sync)),
        ("CLOSE", encoded(&Request::Close)),
    ] {
        assert_eq!(at(&bytes, "REQUEST_OPERATION"), number(name), "{name}");
    }
}

/// Goal: the layouts of a scan and of its reply are the codec's. Method: each bound and direction; a reply put together by the names.
#[test]
fn scans_lie_where_the_files_say() {
    let scan = |direction, start: Option<&[u8]>, end: Option<&[u8]>| {
        encoded(&Request::Scan(Scan {
            snapshot: 76,
            direction,
            start: start.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
            limit: 9,
            max_bytes: 10,
        }))
    };
    let at = |bytes: &[u8], name: &str| bytes[number(name)] as usize;
    let both = scan(Direction::Forward, Some(b"from"), Some(b"to"));
    assert_eq!(at(&both, "REQUEST_OPERATION"), number("SCAN"));
    assert_eq!(u64_at(&both, number("SCAN_SNAPSHOT")), 76);
    assert_eq!(u32_at(&both, number("SCAN_LIMIT")), 9);
    assert_eq!(u32_at(&both, number("SCAN_MAX_BYTES")), 10);
    assert_eq!(u32_at(&both, number("SCAN_START_LENGTH")), 4);
    assert_eq!(u32_at(&both, number("SCAN_END_LENGTH")), 2);
    assert_eq!(&both[number("SCAN_KEYS")..], b"fromto");
    assert_eq!(at(&both, "SCAN_DIRECTION"), number("SCAN_FORWARD"));
    let start = scan(Direction::Reverse, Some(b"from"), None);
    assert_eq!(at(&start, "SCAN_BOUNDS"), number("SCAN_HAS_START"));
    assert_eq!(at(&start, "SCAN_DIRECTION"), number("SCAN_REVERSE"));
    let end = scan(Direction::Reverse, None, Some(b"to"));
    assert_eq!(at(&end, "SCAN_BOUNDS"), number("SCAN_HAS_END"));

    let mut reply = vec![0; number("ENTRIES")];
    reply[number("ENTRIES_COUNT")] = 1;
    reply[number("ENTRIES_MORE")] = 1;
    let mut entry = vec![0; number("ENTRY_KEY")];
    entry[number("ENTRY_KEY_LENGTH")] = 3;
    entry[number("ENTRY_VALUE_LENGTH")] = 5;
    reply.extend(entry);
    reply.extend(b"keyvalue");
    let body = codec::decode_body(codec::Expects::Entries, Status::Ok, &reply);
    let entries = vec![(b"key".to_vec(), b"value".to_vec())];
    let more = true;
    assert_eq!(body, Ok(crate::api::Body::Entries { entries, more }));
}
