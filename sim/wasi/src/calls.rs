//! Where in the engine's own code a file-system call was made: its WebAssembly stack, taken only where somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kvsim_sim::{Frame, Stack, TracedCall};
use wasmtime::WasmBacktrace;
use xxhash_rust::xxh3::Xxh3;

/// What is noted of the calls of a process run, by the numbers that the file system gives them.
#[derive(Debug, Default)]
pub(crate) struct CallTrace {
    wanted: BTreeSet<u64>,
    pub(crate) traced: BTreeMap<u64, TracedCall>,
}

impl CallTrace {
    pub(crate) fn of(wanted: BTreeSet<u64>) -> CallTrace {
        CallTrace {
            wanted,
            ..CallTrace::default()
        }
    }

    /// The calls among these whose stack is asked for.
    pub(crate) fn wanted(&self, calls: Range<u64>) -> Vec<u64> {
        self.wanted.range(calls).copied().collect()
    }
}

/// A name as its author wrote it. Go writes `main.(*engine).commit` as `main.__engine_.commit` into a module.
pub(crate) fn readable(name: &str) -> String {
    let name = kvsim_sim::sandbox::readable(name);
    let Some((package, rest)) = name.split_once(".__") else {
        return name;
    };
    match rest.split_once("_.") {
        Some((receiver, method)) => format!("{package}.(*{receiver}).{method}"),
        None => name,
    }
}

/// The number of a place in an engine's code: a hash of the functions that are running, and of where in each of them the call stands. It is the same
/// whether the module was compiled for speed or for traces, and whether it runs from an image or not.
pub(crate) fn place(backtrace: &WasmBacktrace) -> u64 {
    let mut hash = Xxh3::new();
    for frame in backtrace.frames() {
        hash.update(&frame.func_index().to_le_bytes());
        let offset = frame.func_offset().unwrap_or(0) as u64;
        hash.update(&offset.to_le_bytes());
    }
    hash.digest()
}

/// A verdict names no more functions.
const FUNCTIONS_MAX: usize = 24;

/// The functions of a backtrace.
pub(crate) fn frames(backtrace: &WasmBacktrace) -> Vec<Frame> {
    let mut frames = Vec::new();
    for frame in backtrace.frames() {
        let module_offset = frame.module_offset();
        let named = frame.func_name().map(readable);
        let function = named.unwrap_or_else(|| format!("function {}", frame.func_index()));
        if frame.symbols().is_empty() {
            frames.push(Frame {
                function,
                file: None,
                line: None,
                module_offset,
            });
            continue;
        }
        // A compiler that inlines gives several functions for one frame, innermost first.
        for symbol in frame.symbols() {
            let named = symbol.name().map(readable);
            frames.push(Frame {
                function: named.unwrap_or_else(|| function.clone()),
                file: symbol.file().map(str::to_owned),
                line: symbol.line(),
                module_offset,
            });
        }
    }
    frames
}

/// The names alone, as verdicts carry them.
pub(crate) fn stack(frames: &[Frame]) -> Stack {
    Stack(
        frames
            .iter()
            .take(FUNCTIONS_MAX)
            .map(ToString::to_string)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn methods_of_go_are_readable() {
        assert_eq!(readable("main.__engine_.commit"), "main.(*engine).commit");
        assert_eq!(readable("main.handle"), "main.handle");
        assert_eq!(readable("lib.__init"), "lib.__init");
    }
}
