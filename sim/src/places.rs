//! Where in an engine's own code it called the file system.

use std::fmt;

/// One function of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    /// Its name, or its number in the module as `function 17` if the module has no names.
    pub function: String,
    /// The source file, if the module has debug information (DWARF).
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Where in the module the call stands, in bytes, for tools that look sources up by themselves.
    pub module_offset: Option<usize>,
}

impl fmt::Display for Frame {
    /// `function at file:line`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    /// What the engine called, as its host names it: `fd_sync`.
    pub name: &'static str,
    /// The number of the place: of all the functions that were running, and of where each of them stood.
    pub place: u64,
    /// The functions that were running, innermost first.
    pub frames: Vec<Frame>,
}
