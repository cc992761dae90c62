//! The exports of the guest ABI, version 1, and what is unsafe about them.
//!
//! Invariants: the host calls one export at a time, and never while another runs. The host touches only two parts of
//! memory: a read's buffer, from its submission to the call that completes it; and the payload buffer, from `kv_buffer`
//! to the end of the next call.
#![expect(unsafe_code, reason = "exports need names")]
#![allow(
    clippy::missing_docs_in_private_items,
    clippy::cast_possible_truncation
)]

use std::cell::RefCell;

use kvsim_engine::CoveragePoint;

use crate::guest::{ABI_VERSION, Guest};
use crate::imports::{address, report_panic};

thread_local! {
    static GUEST: RefCell<Guest> = RefCell::new(Guest::default());
    static COVERAGE_POINTS: String = CoveragePoint::ALL.iter().flat_map(|point| [point.name(), "\n"]).collect();
    static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Runs a call on the guest with the payload that the host has placed.
fn with_payload(len: i32, call: impl FnOnce(&mut Guest, &[u8]) -> Option<u64>) -> i64 {
    PAYLOAD.with_borrow(|payload| {
        let payload = payload
            .get(..len as usize)
            .expect("the host places no more than it asked room for");
        wake_at(GUEST.with_borrow_mut(|guest| call(guest, payload)))
    })
}

fn wake_at(at: Option<u64>) -> i64 {
    at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX))
}

// SAFETY: no other function of this name is linked in; the same holds for the exports below.
#[unsafe(no_mangle)]
extern "C" fn kv_abi_version() -> i32 {
    ABI_VERSION as i32
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_marks() -> i64 {
    COVERAGE_POINTS.with(|names| {
        let (ptr, len) = address(names.as_bytes());
        i64::from(ptr) << 32 | i64::from(len)
    })
}

/// What this engine promises. It commits in the order of arrival. Relaxed writes are in memory until a group is
/// written, and durable within their window. At least a twenty-fifth of the device is for live data, of which
/// `usable_percent` may be used. As many segments again are kept for garbage collection, checkpoints and tail rewrites,
/// and the smallest device has few of them. Room for a recovery is kept back, so a full device opens.
const POLICIES: &str = "relaxed_survives_kill=false\nrelaxed_window_ns=option:50000000\nmax_key_bytes=1024\n\
                        max_value_bytes=option:16777216\ndata_percent=4\nusable_percent=option:75\nopens_when_full=true\n";

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_policies() -> i64 {
    let (ptr, len) = address(POLICIES.as_bytes());
    i64::from(ptr) << 32 | i64::from(len)
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_buffer(len: i32) -> i32 {
    PAYLOAD.with_borrow_mut(|payload| {
        let len = (len as u32 as usize).max(16);
        if payload.len() < len {
            payload.clear();
            if payload.try_reserve_exact(len).is_err() {
                return 0;
            }
            payload.resize(len, 0);
        }
        payload.as_mut_ptr() as usize as i32
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_open(now: i64, _ptr: i32, len: i32) -> i64 {
    std::panic::set_hook(Box::new(report_panic));
    with_payload(len, |guest, payload| guest.open(now as u64, payload))
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_request(now: i64, request: i64, _ptr: i32, len: i32) -> i64 {
    with_payload(len, |guest, payload| {
        guest.request(now as u64, request as u64, payload)
    })
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_complete(now: i64, tag: i64, status: i32, _len: i32) -> i64 {
    wake_at(GUEST.with_borrow_mut(|guest| guest.complete(now as u64, tag as u64, status)))
}

// SAFETY: see `kv_abi_version`.
#[unsafe(no_mangle)]
extern "C" fn kv_tick(now: i64) -> i64 {
    wake_at(GUEST.with_borrow_mut(|guest| guest.tick(now as u64)))
}
