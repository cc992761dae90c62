//! How a call that ended early becomes a verdict.

use kvsim_sim::sandbox::first_line;
use kvsim_sim::{GuestError, Stack, Trapped};
use wasmtime::{Error, Trap, WasmBacktrace};

use crate::calls;
use crate::host::{Ending, Host};

/// Why a call ended early.
pub(crate) fn verdict(error: &Error, host: &Host) -> GuestError {
    if let Some(reason) = &host.limiter.failed {
        return GuestError::Host(format!("no memory for the guest: {reason}"));
    }
    let stack = place(error);
    let trap = error.downcast_ref::<Trap>();
    let found = match (&host.ending, trap) {
        (Some(ending @ Ending::Verdict(_)), _) => return host.verdict_of(ending, stack),
        (Some(ending), _) => host.verdict_of(ending, stack.clone()),
        (None, Some(Trap::OutOfFuel)) => {
            return GuestError::OutOfFuel {
                fuel: host.limits.fuel_per_call,
                stack,
            };
        }
        (None, trap) => match (trap, host.said()) {
            (None, _) if !host.limiter.refused => return GuestError::Host(format!("{error:#}")),
            (Some(trap), said) if said.is_empty() => trapped(trap.to_string(), &stack),
            (Some(trap), said) => GuestError::Panic {
                message: format!("{said} ({trap})"),
                stack: stack.clone(),
            },
            (None, _) => trapped(first_line(error), &stack),
        },
    };
    if host.limiter.refused {
        return GuestError::OutOfMemory {
            limit_bytes: host.limits.memory_bytes_max,
            what: found.to_string(),
            stack,
        };
    }
    found
}

fn trapped(what: String, stack: &Stack) -> GuestError {
    GuestError::Trap(Trapped {
        what,
        stack: stack.clone(),
    })
}

/// The functions that were running; with their files and lines if the engine reads them.
fn place(error: &Error) -> Stack {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    backtrace.map(|it| calls::stack(&calls::frames(it))).unwrap_or_default()
}
