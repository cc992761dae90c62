//! What goes wrong with a guest, as verdicts that name it, and what goes wrong around it.

use kvsim_simdisk::ConfigError;

use crate::stack::{Stack, Trapped};

/// Why a module is no guest, or what a guest did that no guest may.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The bytes are not a WebAssembly module that can be compiled.
    #[error("not a WebAssembly module: {0}")]
    NotWasm(String),
    /// The file could not be read.
    #[error("cannot read the guest: {0}")]
    Unreadable(String),
    /// It speaks another version of the ABI.
    #[error("it speaks version {found} of the guest ABI; this kvsim speaks version {expected}")]
    AbiVersion {
        /// What it says.
        found: u32,
        /// What is needed.
        expected: u32,
    },
    /// It lacks an export.
    #[error("it does not export `{0}`, which the guest ABI asks for")]
    MissingExport(String),
    /// An export or import has another type.
    #[error("`{name}` has the type {found}, and the guest ABI says {expected}")]
    WrongSignature {
        /// The export or import.
        name: String,
        /// Its type.
        found: String,
        /// The ABI's.
        expected: String,
    },
    /// It wants something that a guest cannot have.
    #[error(
        "it imports `{module}.{name}`; a guest may import only disk_submit, reply, log, panic and mark from `kvsim`"
    )]
    ForbiddenImport {
        /// The module.
        module: String,
        /// The name.
        name: String,
    },
    /// A file engine wants something that its host does not have.
    #[error("it imports what is not there: {}; a file engine may import {known}", imports.join("; "))]
    UnknownImports {
        /// All that is not there, as `module.name`.
        imports: Vec<String>,
        /// What there is.
        known: String,
    },
    /// A module for WASI that is no file engine.
    #[error("it is no file engine: {0}")]
    NoEngine(String),
    /// It fails before it can be asked for anything.
    #[error("in {what}: {error}")]
    Starting {
        /// In what.
        what: &'static str,
        /// How.
        error: Box<GuestError>,
    },
    /// It ended its process by itself.
    #[error("the guest ended itself with exit code {code}{stack}{}", wrote(said))]
    Exited {
        /// Its exit code.
        code: u32,
        /// What it wrote to standard error in the call, if anything.
        said: String,
        /// Where.
        stack: Stack,
    },
    /// It panicked.
    #[error("the guest panicked: {message}")]
    Panic {
        /// What it said.
        message: String,
        /// Where.
        stack: Stack,
    },
    /// It trapped.
    #[error("the guest trapped: {0}")]
    Trap(Trapped),
    /// A call did not return within its fuel.
    #[error("the guest hangs: a call did not return within {fuel} units of fuel{stack}")]
    OutOfFuel {
        /// The bound.
        fuel: u64,
        /// Where it was when the fuel ended.
        stack: Stack,
    },
    /// It works and works, and leaves a request without an answer.
    #[error(
        "the guest is busy for ever: {events} events and no answer to a request; {unanswered} are with it"
    )]
    Endless {
        /// The bound.
        events: u64,
        /// Requests that are with it.
        unanswered: u64,
    },
    /// It waits for its timer, leaves a request without an answer, and nothing else is under way.
    #[error(
        "the guest sleeps: no operation is under way for {ns} ns and more, and no answer comes to a request; {unanswered} are with it"
    )]
    Idle {
        /// The bound.
        ns: u64,
        /// Requests that are with it.
        unanswered: u64,
    },
    /// It needs more memory than it may have.
    #[error("the guest outgrew its memory of {limit_bytes} bytes: {what}")]
    OutOfMemory {
        /// The bound.
        limit_bytes: u64,
        /// How it ended.
        what: String,
        /// Where.
        stack: Stack,
    },
    /// It broke the ABI.
    #[error("the guest broke the ABI: {0}")]
    Abi(String),
    /// The host could not do its part: an invalid run, not a finding about the guest.
    #[error("the host failed, the run is invalid: {0}")]
    Host(String),
}

impl GuestError {
    /// Whether this says something about the guest, and not about the host.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        match self {
            GuestError::Starting { error, .. } => error.is_finding(),
            GuestError::Host(_) | GuestError::Unreadable(_) => false,
            _ => true,
        }
    }
}

fn wrote(said: &str) -> String {
    if said.is_empty() {
        return String::new();
    }
    format!("; it wrote: {said}")
}

/// Why a world could not be made or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The device or its faults.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The guest.
    #[error(transparent)]
    Guest(#[from] GuestError),
}
