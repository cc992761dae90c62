//! The imports and exports of the guest ABI, version 1, and everything unsafe about them.
//!
//! Invariants: the host calls one export at a time, and never while another runs. The host touches only two parts of
//! memory: a read's buffer, from its submission to the call that completes it; and the payload buffer, from `kv_buffer`
//! to the end of the next call.
#![expect(
    unsafe_code,
    reason = "imports are foreign functions, and exports need names"
)]
#![allow(
    clippy::missing_docs_in_private_items,
    clippy::cast_possible_truncation
)]

use std::cell::RefCell;

use kvsim_engine::CoveragePoint;

use crate::guest::{ABI_VERSION, Guest};

mod import {
    #[link(wasm_import_module = "kvsim")]
    unsafe extern "C" {
        pub(super) fn disk_submit(tag: i64, kind: i32, offset: i64, ptr: i32, len: i32);
        pub(super) fn reply(request: i64, status: i32, ptr: i32, len: i32);
        pub(super) fn log(level: i32, ptr: i32, len: i32);
        pub(super) fn panic(ptr: i32, len: i32);
        pub(super) fn mark(number: i32);
    }
}

const KIND_READ: i32 = 0;
const KIND_WRITE: i32 = 1;
const KIND_WRITE_THROUGH: i32 = 2;
pub(crate) const KIND_FLUSH: i32 = 3;
pub(crate) const KIND_DISCARD: i32 = 4;
pub(crate) const KIND_GROW: i32 = 5;

thread_local! {
    static GUEST: RefCell<Guest> = RefCell::new(Guest::default());
    static COVERAGE_POINTS: String = CoveragePoint::ALL.iter().flat_map(|point| [point.name(), "\n"]).collect();
    static PAYLOAD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A pointer as the ABI carries it.
fn address(bytes: &[u8]) -> (i32, i32) {
    (bytes.as_ptr() as usize as i32, bytes.len() as i32)
}

pub(crate) fn submit_read(tag: u64, offset: u64, buffer: &mut [u8]) {
    let (ptr, len) = (buffer.as_mut_ptr() as usize as i32, buffer.len() as i32);
    // SAFETY: the buffer's memory does not move and is kept by the port until the operation completes.
    unsafe { import::disk_submit(tag as i64, KIND_READ, offset as i64, ptr, len) }
}

pub(crate) fn submit_write(tag: u64, offset: u64, data: &[u8], through: bool) {
    let kind = if through {
        KIND_WRITE_THROUGH
    } else {
        KIND_WRITE
    };
    let (ptr, len) = address(data);
    // SAFETY: the host reads the slice during the call only.
    unsafe { import::disk_submit(tag as i64, kind, offset as i64, ptr, len) }
}

pub(crate) fn submit_plain(tag: u64, kind: i32, offset: u64, len: u64) {
    // SAFETY: no memory is passed.
    unsafe { import::disk_submit(tag as i64, kind, offset as i64, 0, len as i32) }
}

pub(crate) fn reply(request: u64, status: u32, body: &[u8]) {
    let (ptr, len) = address(body);
    // SAFETY: the host reads the slice during the call only.
    unsafe { import::reply(request as i64, status as i32, ptr, len) }
}

pub(crate) fn log(level: u32, text: &str) {
    let (ptr, len) = address(text.as_bytes());
    // SAFETY: the host reads the slice during the call only.
    unsafe { import::log(level as i32, ptr, len) }
}

pub(crate) fn reached(number: u32) {
    // SAFETY: no memory is passed.
    unsafe { import::mark(number as i32) }
}

fn report_panic(info: &std::panic::PanicHookInfo<'_>) {
    let payload = info.payload();
    let message = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = info
        .location()
        .map(|at| format!(" at {}:{}:{}", at.file(), at.line(), at.column()))
        .unwrap_or_default();
    let text = format!("{}{place}", message.unwrap_or("a panic without a message"));
    let (ptr, len) = address(text.as_bytes());
    // SAFETY: the host reads the slice during the call only, and does not return.
    unsafe { import::panic(ptr, len) }
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
