//! What a host may do for a guest that does too little: make a write durable, or all that is in the cache, at a named place; count an answer
//! only later; put back what a write overwrites.
//!
//! That is how it is found out what is missing in a guest. An intervention takes no time and tells nobody, so the course of events, the numbers of
//! operations and requests, and what the guest sees stay the same; what changes is what a cut can leave.

use kvsim_fs::{Ino, Target};
use kvsim_simdisk::OpId;

use crate::api::RequestId;
use crate::storage::Storage;

/// A moment of a process run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Right before the device is given this operation.
    Submitting(OpId),
    /// Right after.
    Submitted(OpId),
    /// This operation has completed; the guest is about to be told.
    Completed(OpId),
    /// The guest answers this request; the client is about to be told.
    Replying(RequestId),
    /// Right after this call of the file system, counted over all process runs.
    Called(OpId),
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// This write, when it completes. The place is its submission.
    WriteThrough,
    /// What has completed, as a flush does.
    Flush,
    /// What was submitted: as if whatever happens here had been held back until all before it was durable.
    Barrier,
    /// What this write overwrites is there again after the next crash, as if it had gone elsewhere. The place is its submission.
    Aside,
    /// Where this write goes there are zeroes after the next crash, if it overwrites anything: what was there is missed, or is not. The place is
    /// its submission.
    Erased,
    /// What is pending of the file or directory of this number, as a sync of it does that reaches the medium. The place is a call of the file system.
    Sync(u32),
    /// What is pending of each file and directory that this call changes, as syncs of them do. The place is a call of the file system.
    SyncChanged,
    /// Nothing, but this answer counts as given only when that operation has completed. The place is the answer.
    Later(OpId),
}

/// Something done for the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Intervention {
    /// In which process run, from 1.
    pub process_run: u64,
    /// When.
    pub place: Place,
    /// What.
    pub effort: Effort,
}

impl Intervention {
    /// What the file system is to do by itself, if it is something of that kind.
    pub(crate) fn on_files(&self) -> Option<kvsim_fs::Intervention> {
        let Place::Called(op) = self.place else {
            return None;
        };
        let target = match self.effort {
            Effort::Sync(ino) => Target::Inode(Ino(ino)),
            Effort::SyncChanged => Target::Changed,
            _ => return None,
        };
        Some(kvsim_fs::Intervention {
            op,
            before: false,
            target,
        })
    }

    pub(crate) fn apply(&self, storage: &mut Storage) {
        let Storage::Device(device) = storage else {
            return;
        };
        match (self.effort, self.place) {
            (Effort::WriteThrough, Place::Submitted(op)) => device.harden(op),
            (Effort::Aside, Place::Submitted(op)) => device.set_aside(op, false),
            (Effort::Erased, Place::Submitted(op)) => device.set_aside(op, true),
            (
                Effort::WriteThrough
                | Effort::Aside
                | Effort::Erased
                | Effort::Later(_)
                | Effort::Sync(_)
                | Effort::SyncChanged,
                _,
            ) => {}
            (Effort::Flush, _) => device.make_durable_now(false),
            (Effort::Barrier, _) => device.make_durable_now(true),
        }
    }
}
