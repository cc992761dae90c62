//! Where in the engine's own code a file-system call was made: its WebAssembly stack, taken only where somebody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kvsim_sim::Stack;
use wasmtime::WasmBacktrace;

/// One function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Its name, or its number in the module as `function 17` if the module has no names.
    pub function: String,
    /// The source file, if the module has debug information (DWARF).
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Where in the module's code section the call stands, for tools that look sources up by themselves.
    pub code_offset: Option<usize>,
}

impl std::fmt::Display for Frame {
    /// `function at file:line`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.function)?;
        if let Some(file) = &self.file {
            write!(f, " at {file}")?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
        }
        Ok(())
    }
}

/// One file-system call and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedCall {
    /// The name of the function of preview 1.
    pub name: &'static str,
    /// The functions that were running, innermost first.
    pub frames: Vec<Frame>,
}

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

/// A verdict names no more functions.
const FUNCTIONS_MAX: usize = 24;

/// The functions of a backtrace.
pub(crate) fn frames(backtrace: &WasmBacktrace) -> Vec<Frame> {
    let mut frames = Vec::new();
    for frame in backtrace.frames() {
        let code_offset = frame.func_offset().zip(frame.module_offset()).map(|(_, offset)| offset);
        let named = frame.func_name().map(readable);
        let function = named.unwrap_or_else(|| format!("function {}", frame.func_index()));
        if frame.symbols().is_empty() {
            frames.push(Frame {
                function,
                file: None,
                line: None,
                code_offset,
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
                code_offset,
            });
        }
    }
    frames
}

/// The names alone, as verdicts carry them.
pub(crate) fn stack(frames: &[Frame]) -> Stack {
    Stack(frames.iter().take(FUNCTIONS_MAX).map(ToString::to_string).collect())
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
