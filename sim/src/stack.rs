//! Which functions of the guest were running when a call ended early.

use std::fmt;

/// The functions, innermost first; empty if the module does not name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack(pub Vec<String>);

impl fmt::Display for Stack {
    /// ", in `f`", the innermost; nothing if none is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.first() {
            Some(function) => write!(f, ", in `{function}`"),
            None => Ok(()),
        }
    }
}

/// A trap: what the sandbox says, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trapped {
    /// What the sandbox says.
    pub what: String,
    /// Where.
    pub stack: Stack,
}

impl fmt::Display for Trapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.what, self.stack)
    }
}
