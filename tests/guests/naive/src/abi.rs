//! The imports and exports of kvsim's guest ABI, version 1, and everything unsafe about them.
//!
//! Invariants: the host calls one export at a time. It writes only into two parts of memory: a read's buffer, from its
//! submission to the call that completes it; and the payload buffer, from `kv_buffer` to the call that follows.
#![expect(
    unsafe_code,
    reason = "imports are foreign functions, and exports need names"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::engine::Naive;
use super::port::{DiskError, Out, Port, Status};
use super::request::{Opening, Request};

mod import {
    #[link(wasm_import_module = "kvsim")]
    unsafe extern "C" {
        pub(super) fn disk_submit(tag: u64, kind: u32, offset: u64, ptr: *const u8, len: usize);
        pub(super) fn reply(request: u64, status: u32, ptr: *const u8, len: usize);
        pub(super) fn panic(ptr: *const u8, len: usize);
    }
}

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 3;
/// No next wake-up.
const NEVER: i64 = -1;

#[derive(Default)]
struct Guest {
    engine: Option<Naive>,
    port: Port,
    payload: Vec<u8>,
    /// The buffers of reads in flight.
    reads: BTreeMap<u64, Vec<u8>>,
}

thread_local! {
    static GUEST: RefCell<Guest> = RefCell::default();
}

impl Guest {
    fn payload(&self, len: usize) -> &[u8] {
        self.payload
            .get(..len)
            .expect("the host places no more than it asked room for")
    }

    /// Lets the engine go on, and hands the host what comes out.
    fn run(&mut self) -> i64 {
        if let Some(engine) = &mut self.engine {
            engine.run();
        }
        for out in self.port.take_out() {
            // SAFETY: the host copies what it is given before it returns; a read's buffer stays where it is, in `reads`,
            // until the read is completed.
            unsafe {
                match out {
                    Out::Read { tag, offset, len } => {
                        let buffer = self.reads.entry(tag).or_insert_with(|| vec![0; len]);
                        import::disk_submit(tag, READ, offset, buffer.as_mut_ptr(), len);
                    }
                    Out::Write { tag, offset, data } => {
                        import::disk_submit(tag, WRITE, offset, data.as_ptr(), data.len())
                    }
                    Out::Flush { tag } => import::disk_submit(tag, FLUSH, 0, std::ptr::null(), 0),
                    Out::Reply { id, status, body } => {
                        import::reply(id, status as u32, body.as_ptr(), body.len())
                    }
                }
            }
        }
        NEVER
    }
}

fn report_panic(info: &std::panic::PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let text = format!(
        "{} at {place}",
        info.payload_as_str().unwrap_or("a panic without a message")
    );
    // SAFETY: the host reads the text before it ends the call.
    unsafe { import::panic(text.as_ptr(), text.len()) }
}

// SAFETY: no other function of this name is linked in; the same holds for the exports below.
#[unsafe(no_mangle)]
extern "C" fn kv_abi_version() -> u32 {
    1
}

/// What this engine promises, all but the last of it the default: requests one after the other, and each write durable when it is answered.
const POLICIES: &str = "commit_order=arrival\nreads=accepted\nrecovery_survives=always\n\
                        empty_commit_covers=true\nrelaxed_survives_kill=true\nmax_key_bytes=1024\n";

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_policies() -> u64 {
    (POLICIES.as_ptr() as u64) << 32 | POLICIES.len() as u64
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_buffer(len: usize) -> *mut u8 {
    GUEST.with_borrow_mut(|guest| {
        guest.payload.resize(len.max(1), 0);
        guest.payload.as_mut_ptr()
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_open(_now: i64, _ptr: u32, len: usize) -> i64 {
    std::panic::set_hook(Box::new(report_panic));
    GUEST.with_borrow_mut(|guest| {
        match Opening::parse(guest.payload(len)) {
            Some(opening) => guest.engine = Some(Naive::new(opening, &guest.port)),
            None => guest
                .port
                .reply(0, Status::Invalid, b"a malformed opening".to_vec()),
        }
        guest.run()
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_request(_now: i64, request: u64, _ptr: u32, len: usize) -> i64 {
    GUEST.with_borrow_mut(|guest| {
        guest
            .port
            .push_request(request, Request::parse(guest.payload(len)));
        guest.run()
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_complete(_now: i64, tag: u64, status: u32, _len: u32) -> i64 {
    GUEST.with_borrow_mut(|guest| {
        let buffer = guest.reads.remove(&tag).unwrap_or_default();
        guest.port.push_completion(
            tag,
            if status == 0 {
                Ok(buffer)
            } else {
                Err(DiskError)
            },
        );
        guest.run()
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_tick(_now: i64) -> i64 {
    NEVER
}
