//! A stream is never in memory as a whole. The only test of its program, so that nothing else takes memory in this process.
#![cfg(target_os = "linux")]
#![allow(missing_docs, reason = "a test")]

use std::io::{self, Read};

use kvsim_native::{DriverChoice, Durability, OpenOptions};

const STREAM: u64 = 64 << 20;
const BUDGET: u64 = 12 << 20;

/// Memory of this process in bytes, `proc_pid_status(5)`: by the name of the field.
fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel counts");
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    1024 * number.expect("a number")
}

/// Goal: a stream of 64 MiB goes in and out with 12 MiB of memory beside that of an open database. Method: the largest resident memory that the kernel has seen, less what
/// there was before; and the bytes are the same.
#[test]
fn a_stream_is_never_in_memory_as_a_whole() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let options = OpenOptions::new()
        .driver(DriverChoice::Threads)
        .size_bytes(96 << 20)
        .cache_bytes(1 << 20)
        .write_buffer_bytes(2 << 20);
    let database = options.open(directory.path().join("database"));
    let database = database.expect("a new database");
    let streams = database.streams("").expect("its streams");
    let byte = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0];
    let mut at = 0;
    let source = std::iter::from_fn(|| {
        let block = [byte(at), byte(at + 1)].repeat(2048);
        at += 1;
        (at <= STREAM / 4096).then_some(io::Cursor::new(block))
    });
    let mut source = Blocks {
        blocks: source,
        block: io::Cursor::default(),
    };
    let before = memory("VmRSS:");
    let info = streams.put_from(b"key", &mut source, Durability::Durable);
    assert_eq!(info.expect("it is written").bytes, STREAM);
    let mut reader = streams
        .reader(b"key")
        .expect("a reader")
        .expect("it is there");
    let mut block = vec![0; 4096];
    for at in 0..STREAM / 4096 {
        reader.read_exact(&mut block).expect("it can be read");
        assert!(block.chunks(2).all(|pair| pair == [byte(at), byte(at + 1)]));
    }
    assert_eq!(reader.read(&mut block).expect("the end"), 0);
    let taken = memory("VmHWM:") - before;
    assert!(taken < BUDGET, "{taken} bytes of memory");
}

/// Blocks, one after the other.
struct Blocks<I> {
    blocks: I,
    block: io::Cursor<Vec<u8>>,
}

impl<I: Iterator<Item = io::Cursor<Vec<u8>>>> Read for Blocks<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.position() == self.block.get_ref().len() as u64 {
            self.block = self.blocks.next().unwrap_or_default();
        }
        self.block.read(buffer)
    }
}
