//! What a trace keeps beside its events for people to read: who asked what, what was answered, and what each cut did.
//!
//! Invariant: notes are taken only where events are kept, and nothing that a run does or hashes depends on them.

use std::collections::BTreeMap;

use kvsim_fs::{PendingStep, SECTOR_BYTES};
use kvsim_simdisk::{CrashKind, CrashReport, Image, PendingKind, PendingWrite, Sectors};

use crate::api::RequestId;
use crate::fault::StorageFault;
use crate::steps::step_words;
use crate::storage::Storage;

/// A request and who sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The client, or nobody: then it is a question of whoever checks.
    pub client: Option<u32>,
    /// Its number among what all clients asked, if it came to have one.
    pub number: Option<u64>,
    /// The request in words.
    pub words: String,
}

/// What a cut made of one pending operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutOp {
    /// The number of the operation.
    pub op: u64,
    /// `write`, `discard` or `grow`; `step` of a file system.
    pub kind: &'static str,
    /// First byte; of a growth the new size.
    pub offset: u64,
    /// How many; 0 of a growth.
    pub len_bytes: u64,
    /// Whether its completion had been handed out.
    pub completed: bool,
    /// Whether the device had dropped it after a failed flush.
    pub dropped: bool,
    /// Which of its sectors survived; nothing if it is lost.
    pub survived: Option<Sectors>,
    /// What it does, of a step of a file system.
    pub words: Option<String>,
    /// Which call made it and what it changes, of a step of a file system.
    pub step: Option<StepOf>,
}

/// Where a step of a file system comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepOf {
    /// The number of the call.
    pub call: u64,
    /// The file that it changes; for names, the directory.
    pub ino: u32,
    /// Whether it changes names.
    pub of_names: bool,
    /// The path of the file, or of the name.
    pub path: String,
}

/// A cut: what it began from and what it left.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The number of its event.
    pub event: u64,
    /// Whether it is of a device, and not of files.
    pub of_device: bool,
    /// What was on the medium for certain; nothing of files.
    pub durable: Image,
    /// What was pending, in the order of submission.
    pub pending: Vec<CutOp>,
    /// The unit in which writes are torn.
    pub sector_bytes: u32,
}

impl Cut {
    /// What is there to be lost.
    pub(crate) fn before(event: u64, storage: &Storage) -> Cut {
        let (durable, pending) = match storage {
            Storage::Device(device) => {
                let pending = device.pending().iter().map(lost);
                (device.durable().clone(), pending.collect())
            }
            Storage::Files(files) => {
                let pending = files.pending().iter().map(|step| lost_step(step));
                (Image::new(0), pending.collect())
            }
        };
        Cut {
            event,
            of_device: storage.device().is_some(),
            durable,
            pending,
            sector_bytes: storage.info().sector_bytes,
        }
    }

    /// What became of it.
    pub(crate) fn after(mut self, report: &CrashReport) -> Cut {
        if report.kind == CrashKind::Process {
            for op in &mut self.pending {
                op.survived = Some(Sectors::All);
            }
        }
        for persisted_write in &report.state.persisted {
            let op = self
                .pending
                .iter_mut()
                .find(|op| op.op == persisted_write.id);
            if let Some(op) = op {
                op.survived = Some(persisted_write.sectors.clone());
            }
        }
        self
    }
}

fn lost(write: &PendingWrite) -> CutOp {
    let (kind, offset, len_bytes) = match &write.kind {
        PendingKind::Write { offset, data } => ("write", *offset, data.len() as u64),
        PendingKind::Discard { offset, len_bytes } => ("discard", *offset, *len_bytes),
        PendingKind::Grow { new_bytes } => ("grow", *new_bytes, 0),
    };
    CutOp {
        op: write.id,
        kind,
        offset,
        len_bytes,
        completed: write.completed,
        dropped: write.dropped,
        survived: None,
        words: None,
        step: None,
    }
}

fn lost_step(step: &PendingStep) -> CutOp {
    CutOp {
        op: step.id,
        kind: "step",
        offset: 0,
        len_bytes: step.sectors() * u64::from(SECTOR_BYTES),
        completed: true,
        dropped: step.dropped,
        survived: None,
        words: Some(step_words(&step.path, &step.kind)),
        step: Some(StepOf {
            call: step.op,
            ino: step.ino.0,
            of_names: step.kind.is_of_names(),
            path: step.path.to_string(),
        }),
    }
}

/// A fault that affected an operation when it was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredFault {
    /// The number of the event that submitted the operation.
    pub event: u64,
    /// What affected it.
    pub fault: StorageFault,
}

/// All notes of a world.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    /// Requests by their number.
    pub asked: BTreeMap<RequestId, Asked>,
    /// What there is to say of events, by their number.
    pub said: BTreeMap<u64, String>,
    /// The cuts, in order.
    pub cuts: Vec<Cut>,
    /// The faults that fired, but for what cuts do, in order.
    pub faults: Vec<FiredFault>,
}
