//! The naive guest's own code on the host, without a sandbox: its unit tests, and the engine on a device in memory.
#![allow(
    clippy::cast_possible_truncation,
    reason = "written for a 32-bit machine, where these casts are exact"
)]
#![allow(dead_code, reason = "the guest's crate uses all of it")]

#[path = "../guests/naive/src/lib.rs"]
mod naive;

use std::collections::BTreeMap;

use naive::engine::Naive;
use naive::port::{DiskError, Out, Port, Status};
use naive::request::{Mutation, Opening, Request};

const BLOCK_BYTES: u64 = 4096;

/// One process run over an image; what was submitted happens at once.
struct Host {
    engine: Naive,
    port: Port,
    image: Vec<u8>,
    replies: BTreeMap<u64, (Status, Vec<u8>)>,
    next_id: u64,
    flushes: u64,
    /// Writes after so many more fail.
    writes_left: u64,
}

impl Host {
    fn open(image: Vec<u8>, options: &[(&str, &str)]) -> Host {
        let port = Port::default();
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let opening = Opening {
            abi_version: 1,
            block_bytes: BLOCK_BYTES,
            capacity_bytes: image.len() as u64,
            options,
        };
        let engine = Naive::new(opening, &port);
        let replies = BTreeMap::new();
        let mut host = Host {
            engine,
            port,
            image,
            replies,
            next_id: 1,
            flushes: 0,
            writes_left: u64::MAX,
        };
        host.run();
        host
    }

    fn run(&mut self) {
        loop {
            self.engine.run();
            let out = self.port.take_out();
            if out.is_empty() {
                return;
            }
            for out in out {
                self.serve(out);
            }
        }
    }

    fn serve(&mut self, out: Out) {
        match out {
            Out::Read { tag, offset, len } => {
                let start = usize::try_from(offset).unwrap();
                self.port
                    .push_completion(tag, Ok(self.image[start..start + len].to_vec()));
            }
            Out::Write { tag, data, .. } if self.writes_left == 0 => {
                assert!(!data.is_empty());
                self.port.push_completion(tag, Err(DiskError));
            }
            Out::Write { tag, offset, data } => {
                self.writes_left -= 1;
                let start = usize::try_from(offset).unwrap();
                self.image[start..start + data.len()].copy_from_slice(&data);
                self.port.push_completion(tag, Ok(Vec::new()));
            }
            Out::Flush { tag } => {
                self.flushes += 1;
                self.port.push_completion(tag, Ok(Vec::new()));
            }
            Out::Reply { id, status, body } => {
                assert_eq!(
                    self.replies.insert(id, (status, body)),
                    None,
                    "request {id} is answered once"
                );
            }
        }
    }

    fn ask(&mut self, request: Request) -> (Status, Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        self.port.push_request(id, request);
        self.run();
        self.replies.remove(&id).expect("every request is answered")
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Status {
        self.ask(Request::Write(vec![Mutation {
            key: key.into(),
            value: Some(value.into()),
        }]))
        .0
    }

    fn delete(&mut self, key: &str) -> Status {
        self.ask(Request::Write(vec![Mutation {
            key: key.into(),
            value: None,
        }]))
        .0
    }

    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let (status, body) = self.ask(Request::Get {
            snapshot: 0,
            key: key.into(),
        });
        (status == Status::Ok).then_some(body)
    }

    fn opened(&self) -> Status {
        self.replies[&0].0
    }

    fn again(self) -> Host {
        Host::open(self.image, &[])
    }
}

fn new_device(blocks: usize) -> Vec<u8> {
    vec![0; blocks * 4096]
}

/// Goal: what is written is there after a restart, deletes included. Method: put, overwrite, delete, open again.
#[test]
fn a_restart_shows_what_was_written() {
    let mut host = Host::open(new_device(64), &[]);
    assert_eq!(host.opened(), Status::Ok);
    assert_eq!(host.put("a", b"1"), Status::Ok);
    assert_eq!(host.put("b", b"2"), Status::Ok);
    assert_eq!(host.put("a", b"3"), Status::Ok);
    assert_eq!(host.delete("b"), Status::Ok);
    let mut host = host.again();
    assert_eq!((host.get("a"), host.get("b")), (Some(b"3".to_vec()), None));
}

/// Goal: it is the yardstick that it is said to be. Method: flushes counted over commits that need no compaction.
#[test]
fn each_commit_costs_one_flush() {
    let mut host = Host::open(new_device(256), &[]);
    let before = host.flushes;
    for number in 0..50 {
        assert_eq!(host.put("k", &[number]), Status::Ok);
    }
    assert_eq!(host.flushes - before, 50);
}

/// Goal: overwriting for ever never fills the device. Method: ten times its size is written, and read back after a restart.
#[test]
fn overwriting_for_ever_does_not_fill_the_device() {
    let mut host = Host::open(new_device(64), &[]);
    for round in 0..640_u32 {
        assert_eq!(
            host.put(&format!("k{}", round % 5), &round.to_le_bytes()),
            Status::Ok,
            "round {round}"
        );
    }
    let mut host = host.again();
    assert_eq!(host.get("k4"), Some(639_u32.to_le_bytes().to_vec()));
}

/// Goal: a full device refuses, loses nothing, and can be emptied. Method: fill it, restart, delete, write again.
#[test]
fn a_full_device_can_be_emptied() {
    let mut host = Host::open(new_device(64), &[]);
    let value = [7; 3_000];
    let stored = (0..)
        .take_while(|number| host.put(&format!("k{number:03}"), &value) == Status::Ok)
        .count();
    assert!(
        stored > 20,
        "{stored} values of 3,000 bytes in a half of 32 blocks"
    );
    let mut host = host.again();
    assert_eq!(host.put("one too many", &value), Status::NoSpace);
    for number in 0..stored {
        let key = format!("k{number:03}");
        assert_eq!(host.get(&key), Some(value.to_vec()));
        assert_eq!(host.delete(&key), Status::Ok, "{key}");
    }
    assert_eq!(host.put("room again", &value), Status::Ok);
}

/// Goal: the end that a cut left torn is cut off, and damage before the end is reported. Method: the last or an earlier
/// record with a byte changed.
#[test]
fn a_torn_end_is_no_damage_and_damage_is_no_torn_end() {
    let mut host = Host::open(new_device(64), &[]);
    for key in ["first", "middle", "last"] {
        assert_eq!(host.put(key, b"value"), Status::Ok);
    }
    let place = |image: &[u8], key: &[u8]| {
        image
            .windows(key.len())
            .position(|part| part == key)
            .unwrap()
    };
    let mut torn = host.image.clone();
    let at = place(&torn, b"last");
    torn[at] ^= 1;
    let mut recovered = Host::open(torn, &[]);
    assert_eq!(
        (recovered.get("middle"), recovered.get("last")),
        (Some(b"value".to_vec()), None)
    );
    assert_eq!(recovered.put("after", b"the cut"), Status::Ok);
    assert_eq!(recovered.again().get("after"), Some(b"the cut".to_vec()));
    let mut damaged = host.image.clone();
    let at = place(&damaged, b"middle");
    damaged[at] ^= 1;
    assert_eq!(Host::open(damaged, &[]).opened(), Status::Corruption);
}

/// Goal: after a device error nothing more is written. Method: one write fails; reads go on.
#[test]
fn a_failed_write_makes_it_read_only() {
    let mut host = Host::open(new_device(64), &[]);
    assert_eq!(host.put("a", b"1"), Status::Ok);
    host.writes_left = 0;
    assert_eq!(host.put("a", b"2"), Status::IoError);
    host.writes_left = u64::MAX;
    assert_eq!(host.put("a", b"3"), Status::ReadOnly);
    assert_eq!(host.get("a"), Some(b"1".to_vec()));
}

/// Goal: a mistyped option is not taken for none. Method: an unknown option and an unknown defect.
#[test]
fn unknown_options_are_refused_by_name() {
    for (option, named) in [
        (("brake", "prefix"), "brake"),
        (("break", "prefixes"), "prefixes"),
    ] {
        let host = Host::open(new_device(64), &[option]);
        let (status, message) = &host.replies[&0];
        assert_eq!(*status, Status::Invalid);
        assert!(String::from_utf8_lossy(message).contains(named));
    }
}

/// Goal: after closing, every request is told so. Method: a get after a close.
#[test]
fn a_closed_guest_says_so() {
    let mut host = Host::open(new_device(64), &[]);
    assert_eq!(host.ask(Request::Close).0, Status::Ok);
    assert_eq!(host.ask(Request::Sync).0, Status::Closed);
}
