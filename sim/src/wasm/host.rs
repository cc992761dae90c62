//! The host's side of the four imports, and how a failed call becomes a verdict.
//!
//! Invariant: whatever a guest passes is checked before it is used; what is wrong ends the call and is kept as the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_simdisk::Op;
use wasmtime::{Caller, Error, Linker, Memory, ResourceLimiter, Trap};

use crate::GuestError;
use crate::api::{Reply, RequestId};
use crate::codec::{self, Expects};
use crate::guest::{GuestLimits, LogLevel, OutItem, Outbox};

/// What lives beside an instance.
pub(super) struct HostState {
    pub(super) limiter: Limiter,
    pub(super) memory: Option<Memory>,
    pub(super) out: Outbox,
    /// Where the read of a tag goes; nothing for the other operations.
    pub(super) tags: BTreeMap<u64, Option<(u32, u32)>>,
    pub(super) requests: BTreeMap<RequestId, Expects>,
    verdict: Option<GuestError>,
}

impl HostState {
    pub(super) fn new(limits: &GuestLimits) -> Self {
        HostState {
            limiter: Limiter {
                max_bytes: limits.memory_bytes_max,
                refused: false,
                failed: None,
            },
            memory: None,
            out: Outbox::new(),
            tags: BTreeMap::new(),
            requests: BTreeMap::new(),
            verdict: None,
        }
    }
}

/// Bounds the memory of a guest.
pub(super) struct Limiter {
    max_bytes: u64,
    /// The guest asked for more than it may have.
    refused: bool,
    /// The host could not give what the guest may have.
    failed: Option<String>,
}

const TABLE_ELEMENTS_MAX: usize = 1 << 20;

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, Error> {
        let fits =
            desired as u64 <= self.max_bytes && maximum.is_none_or(|maximum| desired <= maximum);
        self.refused |= !fits;
        Ok(fits)
    }

    fn memory_grow_failed(&mut self, error: Error) -> Result<(), Error> {
        // A refusal of ours comes by here too; only what we had allowed is the host's failure.
        if !self.refused {
            self.failed = Some(format!("{error:#}"));
        }
        Ok(())
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool, Error> {
        Ok(desired <= TABLE_ELEMENTS_MAX && maximum.is_none_or(|maximum| desired <= maximum))
    }
}

/// Why a call ended early.
pub(super) fn verdict(error: &Error, state: &HostState, limits: &GuestLimits) -> GuestError {
    if let Some(reason) = &state.limiter.failed {
        return GuestError::Host(format!("no memory for the guest: {reason}"));
    }
    let found = match (&state.verdict, error.downcast_ref::<Trap>()) {
        (Some(verdict), _) => verdict.clone(),
        (None, Some(Trap::OutOfFuel)) => {
            return GuestError::OutOfFuel {
                fuel: limits.fuel_per_call,
            };
        }
        (None, Some(trap)) => GuestError::Trap(trap.to_string()),
        (None, None) if state.limiter.refused => GuestError::Trap(super::first_line(error)),
        (None, None) => return GuestError::Host(format!("{error:#}")),
    };
    match found {
        GuestError::Panic(_) | GuestError::Trap(_) if state.limiter.refused => {
            GuestError::OutOfMemory {
                limit_bytes: limits.memory_bytes_max,
                what: found.to_string(),
            }
        }
        found => found,
    }
}

fn stop(caller: &mut Caller<'_, HostState>, verdict: GuestError) -> Error {
    let error = Error::msg(verdict.to_string());
    caller.data_mut().verdict = Some(verdict);
    error
}

fn bytes<'a>(
    caller: &'a mut Caller<'_, HostState>,
    ptr: i32,
    len: i32,
) -> Result<(&'a [u8], &'a mut HostState), GuestError> {
    let (start, len) = (ptr.cast_unsigned() as usize, len.cast_unsigned() as usize);
    let memory = caller
        .data()
        .memory
        .ok_or_else(|| GuestError::Abi("an import was called while starting".to_owned()))?;
    let (all, state) = memory.data_and_store_mut(caller);
    let size = all.len();
    let part = start.checked_add(len).and_then(|end| all.get(start..end));
    let part = part.ok_or_else(|| {
        GuestError::Abi(format!(
            "{len} bytes at {start} are outside its memory of {size} bytes"
        ))
    })?;
    Ok((part, state))
}

fn text(bytes: &[u8]) -> Result<String, GuestError> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| GuestError::Abi("a text is not UTF-8".to_owned()))
}

fn disk_submit(
    caller: &mut Caller<'_, HostState>,
    tag: i64,
    kind: i32,
    offset: i64,
    ptr: i32,
    len: i32,
) -> Result<(), GuestError> {
    let (tag, offset, len_bytes) = (
        tag.cast_unsigned(),
        offset.cast_unsigned(),
        len.cast_unsigned(),
    );
    let mut buffer = None;
    let op = match kind {
        0 => {
            bytes(caller, ptr, len)?;
            buffer = Some((ptr.cast_unsigned(), len_bytes));
            Op::Read { offset, len_bytes }
        }
        1 | 2 => Op::Write {
            offset,
            data: Arc::from(bytes(caller, ptr, len)?.0),
            through: kind == 2,
        },
        3 => Op::Flush,
        4 => Op::Discard { offset, len_bytes },
        5 => Op::Grow { new_bytes: offset },
        _ => {
            return Err(GuestError::Abi(format!(
                "{kind} is no kind of disk operation"
            )));
        }
    };
    let state = caller.data_mut();
    if state.tags.insert(tag, buffer).is_some() {
        return Err(GuestError::Abi(format!(
            "tag {tag} is in use by another operation in flight"
        )));
    }
    state.out.push(OutItem::Submit { tag, op });
    Ok(())
}

fn reply(
    caller: &mut Caller<'_, HostState>,
    request: i64,
    status: i32,
    ptr: i32,
    len: i32,
) -> Result<(), GuestError> {
    let id = request.cast_unsigned();
    let (body, state) = bytes(caller, ptr, len)?;
    let Some(expects) = state.requests.remove(&id) else {
        return Err(GuestError::Abi(format!(
            "a reply to request {id}, which is unknown or was answered before"
        )));
    };
    let malformed = |what| GuestError::Abi(format!("the reply to request {id}: {what}"));
    let status = codec::decode_status(status.cast_unsigned()).map_err(malformed)?;
    let body = codec::decode_body(expects, status, body).map_err(malformed)?;
    state.out.push(OutItem::Reply(Reply { id, status, body }));
    Ok(())
}

fn log(
    caller: &mut Caller<'_, HostState>,
    level: i32,
    ptr: i32,
    len: i32,
) -> Result<(), GuestError> {
    let level = match level {
        1 => LogLevel::Error,
        2 => LogLevel::Warn,
        3 => LogLevel::Info,
        4 => LogLevel::Debug,
        5 => LogLevel::Trace,
        _ => {
            return Err(GuestError::Abi(format!(
                "{level} is no level of a log line"
            )));
        }
    };
    let (line, state) = bytes(caller, ptr, len)?;
    let text = text(line)?;
    state.out.push(OutItem::Log { level, text });
    Ok(())
}

fn panic(caller: &mut Caller<'_, HostState>, ptr: i32, len: i32) -> GuestError {
    match bytes(caller, ptr, len).and_then(|(message, _)| text(message)) {
        Ok(message) => GuestError::Panic(message),
        Err(error) => error,
    }
}

/// Defines the four imports.
pub(super) fn link(linker: &mut Linker<HostState>) -> Result<(), Error> {
    linker.func_wrap(
        "kvsim",
        "disk_submit",
        |mut caller: Caller<'_, HostState>,
         tag: i64,
         kind: i32,
         offset: i64,
         ptr: i32,
         len: i32| {
            disk_submit(&mut caller, tag, kind, offset, ptr, len)
                .map_err(|verdict| stop(&mut caller, verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "reply",
        |mut caller: Caller<'_, HostState>, request: i64, status: i32, ptr: i32, len: i32| {
            reply(&mut caller, request, status, ptr, len)
                .map_err(|verdict| stop(&mut caller, verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "log",
        |mut caller: Caller<'_, HostState>, level: i32, ptr: i32, len: i32| {
            log(&mut caller, level, ptr, len).map_err(|verdict| stop(&mut caller, verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "panic",
        |mut caller: Caller<'_, HostState>, ptr: i32, len: i32| -> Result<(), Error> {
            let verdict = panic(&mut caller, ptr, len);
            Err(stop(&mut caller, verdict))
        },
    )?;
    Ok(())
}
