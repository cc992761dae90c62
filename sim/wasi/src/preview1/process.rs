//! Arguments, environment, clocks, random numbers, the end of the process; and sockets, of which there are none.

use kvsim_sim::{GuestError, Stack, Trapped};

use super::abi::Code;
use super::answer::{Answer, end};
use super::memory::View;
use crate::clock::ClockId;
use crate::host::Ending;

/// The environment: the working directory for Go, and where temporary files go.
const ENVIRONMENT: [&str; 3] = ["HOME=/db", "PWD=/db", "TMPDIR=/db"];

fn arguments(view: &View<'_>) -> Vec<String> {
    vec![view.host.name.clone()]
}

fn environment() -> Vec<String> {
    ENVIRONMENT.map(str::to_owned).to_vec()
}

/// The bytes of texts, each with a zero byte after it.
fn with_zeros(texts: &[String]) -> usize {
    texts.iter().map(|text| text.len() + 1).sum()
}

fn sizes(view: &mut View<'_>, texts: &[String], count: i32, len: i32) -> Answer {
    view.check(len, 4)?;
    view.write_u32(count, texts.len())?;
    view.write_u32(len, with_zeros(texts))
}

fn texts(view: &mut View<'_>, texts: &[String], pointers: i32, bytes: i32) -> Answer {
    let mut at = bytes.cast_unsigned();
    for (pointer, text) in (pointers.cast_unsigned()..).step_by(4).zip(texts) {
        view.write(pointer.cast_signed(), &at.to_le_bytes())?;
        let mut text = text.clone().into_bytes();
        text.push(0);
        view.write(at.cast_signed(), &text)?;
        at = at.wrapping_add(u32::try_from(text.len()).map_err(|_| Code::INVALID)?);
    }
    Ok(())
}

pub(super) fn args_sizes_get(view: &mut View<'_>, count: i32, len: i32) -> Answer {
    let arguments = arguments(view);
    sizes(view, &arguments, count, len)
}

pub(super) fn args_get(view: &mut View<'_>, pointers: i32, bytes: i32) -> Answer {
    let arguments = arguments(view);
    texts(view, &arguments, pointers, bytes)
}

pub(super) fn environ_sizes_get(view: &mut View<'_>, count: i32, len: i32) -> Answer {
    sizes(view, &environment(), count, len)
}

pub(super) fn environ_get(view: &mut View<'_>, pointers: i32, bytes: i32) -> Answer {
    texts(view, &environment(), pointers, bytes)
}

pub(super) fn clock_res_get(view: &mut View<'_>, clock: i32, result: i32) -> Answer {
    ClockId::of(clock).ok_or(Code::INVALID)?;
    view.write_u64(result, 1)
}

pub(super) fn clock_time_get(
    view: &mut View<'_>,
    clock: i32,
    _precision: i64,
    result: i32,
) -> Answer {
    let clock = ClockId::of(clock).ok_or(Code::INVALID)?;
    view.check(result, 8)?;
    let value = view.host.clock.read(clock);
    let follows_world = view.host.clock.follows_world();
    view.host.told.clock(clock, value, follows_world);
    view.write_u64(result, value)
}

pub(super) fn random_get(view: &mut View<'_>, address: i32, len: i32) -> Answer {
    view.check(address, len)?;
    let start = address.cast_unsigned() as usize;
    let View { bytes, host } = view;
    let buffer = &mut bytes[start..start + len.cast_unsigned() as usize];
    host.random.fill(buffer);
    host.told.random(buffer);
    Ok(())
}

pub(super) fn proc_raise(view: &mut View<'_>, signal: i32) -> Answer {
    let verdict = GuestError::Trap(Trapped {
        what: format!("it raised signal {signal} (proc_raise)"),
        stack: Stack::default(),
    });
    end(view, Ending::Verdict(verdict))
}

pub(super) fn sched_yield(_view: &mut View<'_>) -> Answer {
    Ok(())
}

fn no_sockets(view: &mut View<'_>, fd: i32, name: &'static str) -> Answer {
    view.host.table.get(fd)?;
    view.host
        .note(name, || format!("{name} is refused: there are no sockets"));
    Err(Code::NOT_SOCKET)
}

pub(super) fn sock_accept(view: &mut View<'_>, fd: i32, _flags: i32, _result: i32) -> Answer {
    no_sockets(view, fd, "sock_accept")
}

pub(super) fn sock_recv(
    view: &mut View<'_>,
    fd: i32,
    _buffers: i32,
    _count: i32,
    _flags: i32,
    _read: i32,
    _flags_out: i32,
) -> Answer {
    no_sockets(view, fd, "sock_recv")
}

pub(super) fn sock_send(
    view: &mut View<'_>,
    fd: i32,
    _buffers: i32,
    _count: i32,
    _flags: i32,
    _written: i32,
) -> Answer {
    no_sockets(view, fd, "sock_send")
}

pub(super) fn sock_shutdown(view: &mut View<'_>, fd: i32, _how: i32) -> Answer {
    no_sockets(view, fd, "sock_shutdown")
}
