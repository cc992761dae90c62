//! The functions of WASI preview 1, one Rust function for each, above the simulated file system.
//!
//! Invariant: a function either does nothing and gives an error number, or does what preview 1 says. Addresses of results are checked before
//! anything is done, so that no effect is without its answer.

pub(crate) mod abi;
mod answer;
mod descriptors;
mod map;
mod paths;
mod poll;
mod process;
mod streams;
#[cfg(test)]
mod tests;

pub(crate) mod memory;

use wasmtime::{Caller, Error, Linker, WasmBacktrace};

use kvsim_sim::TracedCall;

use crate::calls;
use crate::command;
use crate::host::{Ending, Host};
use abi::Code;
use answer::Answer;
use memory::View;

/// The module of what the host offers beside preview 1.
pub(crate) const KVSIM: &str = "kvsim";

/// Whether a function may stamp files with the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stamps,
    Other,
}

/// Runs one function: counts it, gives it memory and state, and turns its answer into a number.
fn enter(
    caller: &mut Caller<'_, Host>,
    name: &'static str,
    kind: Kind,
    run: impl FnOnce(&mut View<'_>) -> Answer,
) -> Result<i32, Error> {
    let place = place_of_sync(caller, name, kind);
    let memory = memory::memory(caller)?;
    let left = caller.get_fuel()?;
    let (bytes, host) = memory.data_and_store_mut(&mut *caller);
    if let Err(ending) = host.count_call() {
        host.ending = Some(ending);
    }
    host.clock
        .set_fuel(host.limits.fuel_per_call.saturating_sub(left));
    if kind == Kind::Stamps {
        host.clock.count_call();
        host.files.set_now(host.clock.files_now());
        host.files.at_place(place);
    }
    let before = host.files.ops();
    let answer = if host.ending.is_none() {
        run(&mut View {
            bytes,
            host: &mut *host,
        })
    } else {
        Ok(())
    };
    let code = answer.err().unwrap_or(Code::SUCCESS);
    let traced = host.trace.wanted(before..host.files.ops());
    if host.ending.is_some() {
        return Err(Error::msg("the host ends the call"));
    }
    if !traced.is_empty() {
        let backtrace = WasmBacktrace::force_capture(&*caller);
        let frames = calls::frames(&backtrace);
        let place = calls::place(&backtrace);
        for number in traced {
            let call = TracedCall {
                name,
                place,
                frames: frames.clone(),
            };
            caller.data_mut().trace.traced.insert(number, call);
        }
    }
    Ok(code.0)
}

/// From where the guest makes this call, if it may be a sync and somebody asks. A write is a sync where its descriptor was opened for that.
fn place_of_sync(caller: &Caller<'_, Host>, name: &str, kind: Kind) -> Option<u64> {
    if kind != Kind::Stamps || !caller.data().files.asks_for_places() {
        return None;
    }
    let may_sync = matches!(name, "fd_sync" | "fd_datasync" | "fd_write" | "fd_pwrite");
    may_sync.then(|| calls::place(&WasmBacktrace::force_capture(caller)))
}

macro_rules! define {
    ($linker:ident, $module:ident, $kind:ident, $($file:ident :: $name:ident ( $($argument:ident : $type:ty),* );)*) => {
        $($linker.func_wrap(
            $module,
            stringify!($name),
            |mut caller: Caller<'_, Host> $(, $argument: $type)*| -> Result<i32, Error> {
                enter(&mut caller, stringify!($name), Kind::$kind, |view| $file::$name(view $(, $argument)*))
            },
        )?;)*
    };
}

/// Defines all functions but `fd_read` and `poll_oneoff`, which depend on how the guest is given its messages.
pub(crate) fn link(linker: &mut Linker<Host>) -> Result<(), Error> {
    use abi::MODULE;
    define! { linker, MODULE, Other,
        process::args_get(pointers: i32, bytes: i32);
        process::args_sizes_get(count: i32, len: i32);
        process::environ_get(pointers: i32, bytes: i32);
        process::environ_sizes_get(count: i32, len: i32);
        process::clock_res_get(clock: i32, result: i32);
        process::clock_time_get(clock: i32, precision: i64, result: i32);
        process::random_get(address: i32, len: i32);
        process::proc_raise(signal: i32);
        process::sched_yield();
        process::sock_accept(fd: i32, flags: i32, result: i32);
        process::sock_recv(fd: i32, buffers: i32, count: i32, flags: i32, read: i32, flags_out: i32);
        process::sock_send(fd: i32, buffers: i32, count: i32, flags: i32, written: i32);
        process::sock_shutdown(fd: i32, how: i32);
        descriptors::fd_advise(fd: i32, offset: i64, len: i64, advice: i32);
        descriptors::fd_fdstat_get(fd: i32, result: i32);
        descriptors::fd_fdstat_set_flags(fd: i32, flags: i32);
        descriptors::fd_fdstat_set_rights(fd: i32, rights: i64, inheriting: i64);
        descriptors::fd_filestat_get(fd: i32, result: i32);
        descriptors::fd_prestat_get(fd: i32, result: i32);
        descriptors::fd_prestat_dir_name(fd: i32, address: i32, len: i32);
        descriptors::fd_seek(fd: i32, offset: i64, whence: i32, result: i32);
        descriptors::fd_tell(fd: i32, result: i32);
        streams::fd_pread(fd: i32, buffers: i32, count: i32, offset: i64, result: i32);
        paths::fd_readdir(fd: i32, address: i32, len: i32, cookie: i64, result: i32);
        paths::path_filestat_get(fd: i32, flags: i32, path: i32, path_len: i32, result: i32);
        paths::path_readlink(fd: i32, path: i32, path_len: i32, address: i32, len: i32, result: i32);
    }
    define! { linker, MODULE, Stamps,
        descriptors::fd_allocate(fd: i32, offset: i64, len: i64);
        descriptors::fd_close(fd: i32);
        descriptors::fd_datasync(fd: i32);
        descriptors::fd_filestat_set_size(fd: i32, size: i64);
        descriptors::fd_filestat_set_times(fd: i32, accessed: i64, modified: i64, flags: i32);
        descriptors::fd_renumber(fd: i32, to: i32);
        descriptors::fd_sync(fd: i32);
        streams::fd_pwrite(fd: i32, buffers: i32, count: i32, offset: i64, result: i32);
        streams::fd_write(fd: i32, buffers: i32, count: i32, result: i32);
        paths::path_create_directory(fd: i32, path: i32, path_len: i32);
        paths::path_filestat_set_times(fd: i32, flags: i32, path: i32, path_len: i32, accessed: i64, modified: i64, set: i32);
        paths::path_link(fd: i32, flags: i32, path: i32, path_len: i32, new_fd: i32, new_path: i32, new_path_len: i32);
        paths::path_open(fd: i32, lookup: i32, path: i32, path_len: i32, open: i32, rights: i64, inheriting: i64, flags: i32, result: i32);
        paths::path_remove_directory(fd: i32, path: i32, path_len: i32);
        paths::path_rename(fd: i32, path: i32, path_len: i32, new_fd: i32, new_path: i32, new_path_len: i32);
        paths::path_symlink(target: i32, target_len: i32, fd: i32, path: i32, path_len: i32);
        paths::path_unlink_file(fd: i32, path: i32, path_len: i32);
    }
    define! { linker, KVSIM, Other,
        map::map(fd: i32, offset: i64, address: i32, len: i32);
        map::unmap(address: i32, len: i32);
    }
    linker.func_wrap(
        MODULE,
        "proc_exit",
        |mut caller: Caller<'_, Host>, code: i32| -> Result<(), Error> {
            caller.data_mut().ending = Some(Ending::Exit(code.cast_unsigned()));
            Err(Error::msg("the guest exits"))
        },
    )?;
    Ok(())
}

/// Defines `fd_read` and `poll_oneoff` for a reactor, whose standard input is empty.
pub(crate) fn link_reading(linker: &mut Linker<Host>) -> Result<(), Error> {
    use abi::MODULE;
    define! { linker, MODULE, Other,
        streams::fd_read(fd: i32, buffers: i32, count: i32, result: i32);
        poll::poll_oneoff(subscriptions: i32, events: i32, count: i32, result: i32);
    }
    Ok(())
}

/// Leaves the fiber of a command until there is input.
async fn wait(caller: &mut Caller<'_, Host>) -> Result<(), Error> {
    match caller.data().line.clone() {
        Some(line) => command::wait(&line, caller).await,
        None => Ok(()),
    }
}

/// Defines the same for a command: a read of standard input with no message there leaves the fiber until the next message comes.
pub(crate) fn link_waiting(linker: &mut Linker<Host>) -> Result<(), Error> {
    use abi::MODULE;
    linker.func_wrap_async(
        MODULE,
        "fd_read",
        |mut caller: Caller<'_, Host>, (fd, buffers, count, result): (i32, i32, i32, i32)| {
            Box::new(async move {
                if streams::waits_for_input(caller.data(), fd) {
                    wait(&mut caller).await?;
                }
                enter(&mut caller, "fd_read", Kind::Other, |view| {
                    streams::fd_read(view, fd, buffers, count, result)
                })
            })
        },
    )?;
    linker.func_wrap_async(
        MODULE,
        "poll_oneoff",
        |mut caller: Caller<'_, Host>,
         (subscriptions, events, count, result): (i32, i32, i32, i32)| {
            Box::new(async move {
                let memory = memory::memory(&mut caller)?;
                let (bytes, host) = memory.data_and_store_mut(&mut caller);
                if poll::waits_for_input_alone(&View { bytes, host }, subscriptions, count) {
                    wait(&mut caller).await?;
                }
                enter(&mut caller, "poll_oneoff", Kind::Other, |view| {
                    poll::poll_oneoff(view, subscriptions, events, count, result)
                })
            })
        },
    )?;
    Ok(())
}
