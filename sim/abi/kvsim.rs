//! kvsim.rs: the guest ABI of kvsim, version 1, in Rust.
//!
//! The book's page "The guest ABI" (book/src/guest-abi.md) says what each of these means; `kvsim.h` has the same in C. A test holds
//! every number here to the host's own. All that is unsafe about a guest is in this file: a guest implements [`Guest`] and names
//! itself in `export_guest!`.
#![allow(dead_code, reason = "a guest uses what it needs")]

use std::cell::RefCell;
use std::collections::BTreeMap;

pub const ABI_VERSION: u32 = 1;

/// The next wake-up: the time at which a guest asks for a tick, if it does.
pub type WakeUp = Option<u64>;

// Disk operations: the kinds of `disk_submit`, and how they end.
pub const DISK_READ: u32 = 0;
pub const DISK_WRITE: u32 = 1;
pub const DISK_WRITE_THROUGH: u32 = 2;
pub const DISK_FLUSH: u32 = 3;
pub const DISK_DISCARD: u32 = 4;
pub const DISK_GROW: u32 = 5;
pub const DISK_BARRIER: u32 = 6;
pub const DISK_OK: u32 = 0;
pub const DISK_READ_ERROR: u32 = 1;
pub const DISK_WRITE_ERROR: u32 = 2;
pub const DISK_FLUSH_ERROR: u32 = 3;
pub const DISK_NO_SPACE: u32 = 4;

// The payload of an opening, by offset.
pub const OPEN_ABI_VERSION: usize = 0;
pub const OPEN_SECTOR: usize = 4;
pub const OPEN_PHYSICAL_BLOCK: usize = 8;
pub const OPEN_FLAGS: usize = 12;
pub const OPEN_CAPACITY: usize = 16;
pub const OPEN_MAX_CAPACITY: usize = 24;
pub const OPEN_ATOMIC_WRITE: usize = 32;
pub const OPEN_MEMORY: usize = 40;
pub const OPEN_DATABASE_ID: usize = 48;
pub const OPEN_OPTIONS_LENGTH: usize = 64;
pub const OPEN_OPTIONS: usize = 68;
pub const DEVICE_VOLATILE_CACHE: u32 = 1;
pub const DEVICE_WRITE_THROUGH: u32 = 2;
pub const DEVICE_DISCARD: u32 = 4;
pub const DEVICE_BARRIER: u32 = 8;

// The payload of a request, by offset.
pub const REQUEST_OPERATION: usize = 0;
pub const REQUEST_DURABILITY: usize = 1;
pub const PUT: u8 = 1;
pub const DELETE: u8 = 2;
pub const BATCH: u8 = 3;
pub const GET: u8 = 4;
pub const SCAN: u8 = 5;
pub const SNAPSHOT: u8 = 6;
pub const RELEASE: u8 = 7;
pub const SYNC: u8 = 8;
pub const CLOSE: u8 = 9;
pub const DURABLE: u8 = 0;
pub const RELAXED: u8 = 1;
pub const PUT_KEY_LENGTH: usize = 4;
pub const PUT_VALUE_LENGTH: usize = 8;
pub const PUT_KEY: usize = 12;
pub const DELETE_KEY_LENGTH: usize = 4;
pub const DELETE_KEY: usize = 8;
pub const BATCH_COUNT: usize = 4;
pub const BATCH_MUTATIONS: usize = 8;
pub const MUTATION_KIND: usize = 0;
pub const MUTATION_KEY_LENGTH: usize = 1;
pub const MUTATION_VALUE_LENGTH: usize = 5;
pub const MUTATION_KEY: usize = 9;
pub const MUTATION_PUT: u8 = 0;
pub const MUTATION_DELETE: u8 = 1;
pub const GET_SNAPSHOT: usize = 4;
pub const GET_KEY_LENGTH: usize = 12;
pub const GET_KEY: usize = 16;
pub const SCAN_SNAPSHOT: usize = 4;
pub const SCAN_DIRECTION: usize = 12;
pub const SCAN_BOUNDS: usize = 13;
pub const SCAN_LIMIT: usize = 16;
pub const SCAN_MAX_BYTES: usize = 20;
pub const SCAN_START_LENGTH: usize = 24;
pub const SCAN_END_LENGTH: usize = 28;
pub const SCAN_KEYS: usize = 32;
pub const SCAN_FORWARD: u8 = 0;
pub const SCAN_REVERSE: u8 = 1;
pub const SCAN_HAS_START: u8 = 1;
pub const SCAN_HAS_END: u8 = 2;
pub const RELEASE_SNAPSHOT: usize = 4;

// Replies.
pub const OK: u32 = 0;
pub const NOT_FOUND: u32 = 1;
pub const CORRUPTION: u32 = 2;
pub const IO_ERROR: u32 = 3;
pub const NO_SPACE: u32 = 4;
pub const READ_ONLY: u32 = 5;
pub const INVALID: u32 = 6;
pub const CLOSED: u32 = 7;
pub const ENTRIES_COUNT: usize = 0;
pub const ENTRIES_MORE: usize = 4;
pub const ENTRIES: usize = 8;
pub const ENTRY_KEY_LENGTH: usize = 0;
pub const ENTRY_VALUE_LENGTH: usize = 4;
pub const ENTRY_KEY: usize = 8;

// Limits, and levels of log lines.
pub const KEY_BYTES_SURE: usize = 1024;
pub const VALUE_BYTES_SURE: usize = 65536;
pub const BATCH_BYTES_SURE: usize = 8192;
pub const BATCH_MUTATION_BYTES: usize = 64;
pub const MARKS_MAX: usize = 4096;
pub const MARK_NAME_BYTES_MAX: usize = 100;
pub const LOG_ERROR: u32 = 1;
pub const LOG_WARNING: u32 = 2;
pub const LOG_INFO: u32 = 3;
pub const LOG_DEBUG: u32 = 4;
pub const LOG_TRACE: u32 = 5;

// Names of policies.
pub const POLICY_COMMIT_ORDER: &str = "commit_order";
pub const POLICY_READS: &str = "reads";
pub const POLICY_RECOVERY_SURVIVES: &str = "recovery_survives";
pub const POLICY_EMPTY_COMMIT_COVERS: &str = "empty_commit_covers";
pub const POLICY_RELAXED_SURVIVES_KILL: &str = "relaxed_survives_kill";
pub const POLICY_RELAXED_WINDOW_NS: &str = "relaxed_window_ns";
pub const POLICY_MAX_KEY_BYTES: &str = "max_key_bytes";
pub const POLICY_MAX_VALUE_BYTES: &str = "max_value_bytes";
pub const POLICY_DATA_PERCENT: &str = "data_percent";
pub const POLICY_USABLE_PERCENT: &str = "usable_percent";
pub const POLICY_OPENS_WHEN_FULL: &str = "opens_when_full";
pub const POLICY_FULL_TAKES: &str = "full_takes";

/// The number at `at`, little-endian.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The same of eight bytes.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What the host asks of a guest. Each call returns the time of the next tick that the guest wants.
pub trait Guest: Default {
    /// Lines `name=value`; what they do not name keeps its default.
    const POLICIES: &'static str = "";
    /// To be answered by a reply to request 0.
    fn open(&mut self, now: u64, payload: &[u8]) -> WakeUp;
    /// To be answered by one reply to `request`.
    fn request(&mut self, now: u64, request: u64, payload: &[u8]) -> WakeUp;
    /// The operation of this tag has ended; `data` is what a read has read.
    fn complete(&mut self, now: u64, tag: u64, status: u32, data: Vec<u8>) -> WakeUp;
    /// The time has come.
    fn tick(&mut self, _now: u64) -> WakeUp {
        None
    }
}

mod import {
    #[link(wasm_import_module = "kvsim")]
    unsafe extern "C" {
        pub fn disk_submit(tag: u64, kind: u32, offset: u64, buffer: *const u8, length: usize);
        pub fn reply(request: u64, status: u32, body: *const u8, length: usize);
        pub fn log(level: u32, text: *const u8, length: usize);
        pub fn panic(text: *const u8, length: usize);
        pub fn mark(number: u32);
    }
}

thread_local! {
    /// The payload of the call that follows, and the buffers of reads that are under way: they stay where they are.
    static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static READS: RefCell<BTreeMap<u64, Vec<u8>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Starts a read; what it has read comes with the completion.
pub fn disk_read(tag: u64, offset: u64, length: usize) {
    READS.with_borrow_mut(|reads| {
        let buffer = reads.entry(tag).or_insert_with(|| vec![0; length]);
        // SAFETY: the buffer is kept in `READS`, and not moved, until the read has ended.
        unsafe { import::disk_submit(tag, DISK_READ, offset, buffer.as_mut_ptr(), length) }
    });
}

/// Starts a write, written through the cache or not.
pub fn disk_write(tag: u64, kind: u32, offset: u64, bytes: &[u8]) {
    // SAFETY: the host copies the bytes before it returns.
    unsafe { import::disk_submit(tag, kind, offset, bytes.as_ptr(), bytes.len()) }
}

/// Starts a flush or a barrier, a discard of `length` bytes at `offset`, or a growth to `offset` bytes.
pub fn disk_other(tag: u64, kind: u32, offset: u64, length: usize) {
    // SAFETY: the host reads no memory for these.
    unsafe { import::disk_submit(tag, kind, offset, std::ptr::null(), length) }
}

/// Answers a request.
pub fn reply(request: u64, status: u32, body: &[u8]) {
    // SAFETY: the host copies the body before it returns.
    unsafe { import::reply(request, status, body.as_ptr(), body.len()) }
}

/// A line for people.
pub fn log(level: u32, text: &str) {
    // SAFETY: the host copies the text before it returns.
    unsafe { import::log(level, text.as_ptr(), text.len()) }
}

/// A named point was reached. A guest with coverage points exports `kv_marks` itself.
pub fn mark(number: u32) {
    // SAFETY: it takes a number.
    unsafe { import::mark(number) }
}

/// What the exports have in common; used by `export_guest!`.
pub mod glue {
    use super::*;

    pub fn buffer(length: usize) -> *mut u8 {
        PAYLOAD.with_borrow_mut(|payload| {
            payload.clear();
            payload.resize(length.max(1), 0);
            payload.as_mut_ptr()
        })
    }

    pub fn with_payload<T>(length: usize, call: impl FnOnce(&[u8]) -> T) -> T {
        let payload = PAYLOAD.take();
        let ended = call(&payload[..length]);
        PAYLOAD.set(payload);
        ended
    }

    pub fn read(tag: u64) -> Vec<u8> {
        READS.with_borrow_mut(|reads| reads.remove(&tag).unwrap_or_default())
    }

    pub fn wake_up(at: WakeUp) -> i64 {
        at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))
    }

    pub fn text(text: &'static str) -> i64 {
        (text.as_ptr() as i64) << 32 | text.len() as i64
    }

    pub fn report_panics() {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            let message = info.payload_as_str().unwrap_or("a panic without a message");
            let text = format!("{message} at {place}");
            // SAFETY: the host reads the text before it ends the call.
            unsafe { import::panic(text.as_ptr(), text.len()) }
        }));
    }
}

/// Exports a guest of this type.
#[macro_export]
macro_rules! export_guest {
    ($guest:ty) => {
        thread_local! {
            static GUEST: std::cell::RefCell<$guest> = std::cell::RefCell::default();
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_abi_version() -> u32 {
            kvsim::ABI_VERSION
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_policies() -> i64 {
            kvsim::glue::text(<$guest as kvsim::Guest>::POLICIES)
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_buffer(length: usize) -> *mut u8 {
            kvsim::glue::buffer(length)
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_open(now: u64, _payload: usize, length: usize) -> i64 {
            kvsim::glue::report_panics();
            let open = |payload: &[u8]| GUEST.with_borrow_mut(|guest| guest.open(now, payload));
            kvsim::glue::wake_up(kvsim::glue::with_payload(length, open))
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_request(now: u64, request: u64, _payload: usize, length: usize) -> i64 {
            let ask = |payload: &[u8]| GUEST.with_borrow_mut(|it| it.request(now, request, payload));
            kvsim::glue::wake_up(kvsim::glue::with_payload(length, ask))
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_complete(now: u64, tag: u64, status: u32, _length: u32) -> i64 {
            let data = kvsim::glue::read(tag);
            kvsim::glue::wake_up(GUEST.with_borrow_mut(|it| it.complete(now, tag, status, data)))
        }
        #[unsafe(no_mangle)]
        extern "C" fn kv_tick(now: u64) -> i64 {
            kvsim::glue::wake_up(GUEST.with_borrow_mut(|guest| guest.tick(now)))
        }
    };
}
