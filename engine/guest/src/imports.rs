//! The imports of the guest ABI, version 1, and what is unsafe about them.
//!
//! Invariant: the host touches a read's buffer from its submission to the call that completes it, and no other memory after an import has returned.
#![expect(unsafe_code, reason = "imports are foreign functions")]
#![allow(
    clippy::missing_docs_in_private_items,
    clippy::cast_possible_truncation
)]

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

/// A pointer as the ABI carries it.
pub(crate) fn address(bytes: &[u8]) -> (i32, i32) {
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

pub(crate) fn report_panic(info: &std::panic::PanicHookInfo<'_>) {
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
