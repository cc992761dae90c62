//! The host's side of the imports, and how a failed call becomes a verdict.
//!
//! Invariant: whatever a guest passes is checked before it is used; what is wrong ends the call and is kept as the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvsim_simdisk::Op;
use wasmtime::{Caller, Error, Linker, Memory, Trap};

use super::backtrace;
use super::limiter::Limiter;
use crate::GuestError;
use crate::api::{Reply, RequestId};
use crate::codec::{self, Expects};
use crate::guest::{GuestLimits, LogLevel, OutItem, Outbox};
use crate::stack::{Stack, Trapped};

/// What is kept beside an instance.
pub(super) struct HostState {
    pub(super) limiter: Limiter,
    pub(super) memory: Option<Memory>,
    pub(super) out: Outbox,
    /// Where the read of a tag goes; nothing for the other operations.
    pub(super) tags: BTreeMap<u64, Option<(u32, u32)>>,
    pub(super) requests: BTreeMap<RequestId, Expects>,
    /// How many coverage points the guest has.
    coverage_points: u32,
    /// Those that the call under way has reached.
    pub(super) reached: Vec<u32>,
    /// What the call under way has let out, as the host has to hold it.
    let_out_bytes: u64,
    verdict: Option<GuestError>,
}

impl HostState {
    pub(super) fn new(limits: &GuestLimits, coverage_points: u32) -> Self {
        HostState {
            limiter: Limiter::new(limits),
            memory: None,
            out: Outbox::new(),
            tags: BTreeMap::new(),
            requests: BTreeMap::new(),
            coverage_points,
            reached: Vec::new(),
            let_out_bytes: 0,
            verdict: None,
        }
    }

    /// Forgets what was counted for the call before.
    pub(super) fn begin_call(&mut self) {
        self.limiter.refused = false;
        self.let_out_bytes = 0;
        self.reached.clear();
    }

    /// Takes an item into the outbox. A call may burn a lot of fuel, and each item costs it little and the host much: so what a
    /// call lets out is bounded by what the guest may hold, and a loop around an import ends before the host's memory does.
    fn let_out(&mut self, item: OutItem, bytes: u64) -> Result<(), GuestError> {
        self.count(ITEM_BYTES + bytes)?;
        self.out.push(item);
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> Result<(), GuestError> {
        let bound = self
            .limiter
            .max_bytes
            .saturating_mul(4)
            .max(LET_OUT_BYTES_MIN);
        self.let_out_bytes += bytes;
        if self.let_out_bytes > bound {
            return Err(GuestError::Abi(format!(
                "one call let out more than {bound} bytes of operations, replies and log lines"
            )));
        }
        Ok(())
    }
}

/// What an item costs the host beside its bytes.
const ITEM_BYTES: u64 = 128;
/// What a coverage point costs the host.
const COVERAGE_POINT_BYTES: u64 = 4;
/// What a call may let out however little memory the guest has.
const LET_OUT_BYTES_MIN: u64 = 64 << 20;

/// Why a call ended early.
pub(super) fn verdict(error: &Error, state: &HostState, limits: &GuestLimits) -> GuestError {
    if let Some(reason) = &state.limiter.failed {
        return GuestError::Host(format!("no memory for the guest: {reason}"));
    }
    let found = match (&state.verdict, error.downcast_ref::<Trap>()) {
        (Some(GuestError::Panic { message, .. }), _) => GuestError::Panic {
            message: message.clone(),
            stack: backtrace::stack(error),
        },
        (Some(verdict), _) => verdict.clone(),
        (None, Some(Trap::OutOfFuel)) => {
            return GuestError::OutOfFuel {
                fuel: limits.fuel_per_call,
                stack: backtrace::stack(error),
            };
        }
        (None, Some(trap)) => GuestError::Trap(Trapped {
            what: trap.to_string(),
            stack: backtrace::stack(error),
        }),
        (None, None) if state.limiter.refused => GuestError::Trap(Trapped {
            what: backtrace::first_line(error),
            stack: backtrace::stack(error),
        }),
        (None, None) => return GuestError::Host(format!("{error:#}")),
    };
    match found {
        GuestError::Panic { .. } | GuestError::Trap(_) if state.limiter.refused => {
            GuestError::OutOfMemory {
                limit_bytes: limits.memory_bytes_max,
                what: found.to_string(),
                stack: backtrace::stack(error),
            }
        }
        found => found,
    }
}

/// Ends the call in `import` with this verdict.
fn stop(caller: &mut Caller<'_, HostState>, import: &str, verdict: GuestError) -> Error {
    let verdict = match verdict {
        GuestError::Abi(what) => GuestError::Abi(format!("{import}: {what}")),
        other => other,
    };
    let error = Error::msg(verdict.to_string());
    caller.data_mut().verdict = Some(verdict);
    error
}

/// The guest's memory, which there is from the first exported call on.
fn started(caller: &Caller<'_, HostState>) -> Result<Memory, GuestError> {
    caller
        .data()
        .memory
        .ok_or_else(|| GuestError::Abi("called from the start function".to_owned()))
}

fn bytes<'a>(
    caller: &'a mut Caller<'_, HostState>,
    ptr: i32,
    len: i32,
) -> Result<(&'a [u8], &'a mut HostState), GuestError> {
    let (start, len) = (ptr.cast_unsigned() as usize, len.cast_unsigned() as usize);
    let memory = started(caller)?;
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
    started(caller)?;
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
        6 => Op::Barrier,
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
    let held_bytes = match &op {
        Op::Read { len_bytes, .. } => u64::from(*len_bytes),
        Op::Write { data, .. } => data.len() as u64,
        _ => 0,
    };
    state.let_out(OutItem::Submit { tag, op }, held_bytes)
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
            "request {id} is unknown or was answered before"
        )));
    };
    let malformed = |what| GuestError::Abi(format!("request {id}: {what}"));
    let held_bytes = body.len() as u64;
    let status = codec::decode_status(status.cast_unsigned()).map_err(malformed)?;
    let body = codec::decode_body(expects, status, body).map_err(malformed)?;
    let reply = OutItem::Reply(Reply { id, status, body });
    state.let_out(reply, held_bytes)
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
    let held_bytes = text.len() as u64;
    state.let_out(OutItem::Log { level, text }, held_bytes)
}

fn panic(caller: &mut Caller<'_, HostState>, ptr: i32, len: i32) -> GuestError {
    match bytes(caller, ptr, len).and_then(|(message, _)| text(message)) {
        Ok(message) => GuestError::Panic {
            message,
            // Known when the call has ended.
            stack: Stack::default(),
        },
        Err(error) => error,
    }
}

fn point(caller: &mut Caller<'_, HostState>, number: i32) -> Result<(), GuestError> {
    let (number, state) = (number.cast_unsigned(), caller.data_mut());
    if number >= state.coverage_points {
        return Err(GuestError::Abi(format!(
            "there is no coverage point {number}: kv_marks names {}",
            state.coverage_points
        )));
    }
    state.count(COVERAGE_POINT_BYTES)?;
    state.reached.push(number);
    Ok(())
}

/// Defines the imports.
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
                .map_err(|verdict| stop(&mut caller, "disk_submit", verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "reply",
        |mut caller: Caller<'_, HostState>, request: i64, status: i32, ptr: i32, len: i32| {
            reply(&mut caller, request, status, ptr, len)
                .map_err(|verdict| stop(&mut caller, "reply", verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "log",
        |mut caller: Caller<'_, HostState>, level: i32, ptr: i32, len: i32| {
            log(&mut caller, level, ptr, len).map_err(|verdict| stop(&mut caller, "log", verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "panic",
        |mut caller: Caller<'_, HostState>, ptr: i32, len: i32| -> Result<(), Error> {
            let verdict = panic(&mut caller, ptr, len);
            Err(stop(&mut caller, "panic", verdict))
        },
    )?;
    linker.func_wrap(
        "kvsim",
        "mark",
        |mut caller: Caller<'_, HostState>, number: i32| {
            point(&mut caller, number).map_err(|verdict| stop(&mut caller, "mark", verdict))
        },
    )?;
    Ok(())
}
