//! A fault at a named operation, whatever is stored in: an operation of a device, or a call of a file system.

use kvsim_fs::{FileFault, ScriptedFileFault};
use kvsim_simdisk::{FaultKind, ScriptedFault};
use serde::{Deserialize, Serialize};

/// One fault of a script. In a file a fault at a call stands below the key `call`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a fault is { op = NUMBER, kind = KIND } at an operation of the device, or { call = { op = NUMBER, kind = KIND } } at a call of the file system"
)]
pub enum StorageFault {
    /// At an operation of the device.
    Device(ScriptedFault),
    /// At a call of the file system.
    File {
        /// The fault.
        call: ScriptedFileFault,
    },
}

impl From<ScriptedFault> for StorageFault {
    fn from(fault: ScriptedFault) -> StorageFault {
        StorageFault::Device(fault)
    }
}

impl From<ScriptedFileFault> for StorageFault {
    fn from(call: ScriptedFileFault) -> StorageFault {
        StorageFault::File { call }
    }
}

impl StorageFault {
    /// A call of a file system that fails where an operation of a device would fail in this way; nothing if no call does.
    #[must_use]
    pub fn failed_call(op: u64, kind: FaultKind) -> Option<StorageFault> {
        let kind = file_failure(kind)?;
        Some(ScriptedFileFault::new(op, kind).into())
    }

    /// The number of the operation or call that it befalls, counted over all process runs.
    #[must_use]
    pub fn op(&self) -> u64 {
        match self {
            StorageFault::Device(fault) => fault.op,
            StorageFault::File { call } => call.op,
        }
    }

    /// The name of its kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            StorageFault::Device(fault) => fault.kind.name(),
            StorageFault::File { call } => call.kind.name(),
        }
    }

    /// Whether it takes time and does nothing else.
    #[must_use]
    pub fn is_stall(&self) -> bool {
        matches!(self, StorageFault::Device(fault) if fault.kind == FaultKind::Stall)
    }

    /// Whether a power cut does it.
    #[must_use]
    pub fn is_of_a_cut(&self) -> bool {
        match self {
            StorageFault::Device(fault) => fault.kind.is_of_a_cut(),
            StorageFault::File { call } => call.kind.is_of_a_cut(),
        }
    }

    /// Whether it is what an exploration asks for when it lets an operation of this kind fail.
    #[must_use]
    pub fn is_failure(&self, kind: FaultKind) -> bool {
        match self {
            StorageFault::Device(fault) => fault.kind == kind,
            StorageFault::File { call } => Some(call.kind) == file_failure(kind),
        }
    }
}

/// What fails in a file system where this fails in a device: a read, a write, a flush.
pub(crate) fn file_failure(kind: FaultKind) -> Option<FileFault> {
    match kind {
        FaultKind::ReadError => Some(FileFault::ReadError),
        FaultKind::WriteError => Some(FileFault::NoSpaceWrite),
        FaultKind::FlushError => Some(FileFault::SyncError),
        _ => None,
    }
}

/// Takes a script apart: what befalls a device, and what befalls a file system.
#[must_use]
pub fn split_script(script: &[StorageFault]) -> (Vec<ScriptedFault>, Vec<ScriptedFileFault>) {
    let (mut device, mut files) = (Vec::new(), Vec::new());
    for fault in script {
        match fault {
            StorageFault::Device(fault) => device.push(fault.clone()),
            StorageFault::File { call } => files.push(call.clone()),
        }
    }
    (device, files)
}
