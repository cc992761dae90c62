//! What an error of Wasmtime says: its first line, and the guest's stack at a trap, from the names that its module keeps.
//!
//! The stack depends on the module and its inputs alone: function names stand in the module, and the host adds none.

use wasmtime::{Error, WasmBacktrace};

use crate::stack::Stack;

/// No more functions than that are named.
const FUNCTIONS_MAX: usize = 16;
/// Longer names are cut.
const NAME_CHARS_MAX: usize = 200;

/// The functions that were running, innermost first. Nothing of a module without names: numbers of functions help nobody.
pub(super) fn stack(error: &Error) -> Stack {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return Stack::default();
    };
    let frames = backtrace.frames().iter();
    let named = frames.filter_map(|frame| frame.func_name().map(readable));
    Stack(named.take(FUNCTIONS_MAX).collect())
}

/// The name as its author wrote it: without the mangling and the hash of Rust's compiler, and on one line.
#[must_use]
pub fn readable(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let plain = |c: char| if c.is_control() { '?' } else { c };
    name.chars().take(NAME_CHARS_MAX).map(plain).collect()
}

/// The first line of an error with all its causes.
#[must_use]
pub fn first_line(error: &wasmtime::Error) -> String {
    format!("{error:#}")
        .lines()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::readable;

    /// Goal: a person can read a name, whichever compiler made it. Method: a mangled name of Rust, one of C, and one that would break a line.
    #[test]
    fn names_are_readable() {
        let mangled = "_ZN12kvsim_engine6replay6follow17h0123456789abcdefE";
        assert_eq!(readable(mangled), "kvsim_engine::replay::follow");
        assert_eq!(readable("kv_open"), "kv_open");
        assert_eq!(readable("a\nb"), "a?b");
    }
}
