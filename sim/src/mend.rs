//! What a host may do for a guest that does too little: make a write durable, or all that is in the cache, at a named place; count an answer
//! only later; put back what a write overwrites.
//!
//! That is how it is found out what is missing in a guest. A mend takes no time and tells nobody, so the course of events, the numbers of
//! operations and requests, and what the guest sees stay the same; what changes is what a cut can leave.

use kvsim_simdisk::OpId;

use crate::api::RequestId;
use crate::storage::Storage;

/// A moment of an incarnation.
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
    /// What this write overwrites is there again after the next power cut, as if it had gone elsewhere. The place is its submission.
    Aside,
    /// Where this write goes there are zeroes after the next power cut, if it overwrites anything: what was there is missed, or is not. The place is
    /// its submission.
    Erased,
    /// Nothing, but this answer counts as given only when that operation has completed. The place is the answer.
    Later(OpId),
}

/// Something done for the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mend {
    /// In which incarnation, from 1.
    pub incarnation: u64,
    /// When.
    pub place: Place,
    /// What.
    pub effort: Effort,
}

impl Mend {
    pub(crate) fn apply(&self, storage: &mut Storage) {
        let Storage::Device(device) = storage else {
            return;
        };
        match (self.effort, self.place) {
            (Effort::WriteThrough, Place::Submitted(op)) => device.harden(op),
            (Effort::Aside, Place::Submitted(op)) => device.set_aside(op, false),
            (Effort::Erased, Place::Submitted(op)) => device.set_aside(op, true),
            (Effort::WriteThrough | Effort::Aside | Effort::Erased | Effort::Later(_), _) => {}
            (Effort::Flush, _) => device.settle_now(false),
            (Effort::Barrier, _) => device.settle_now(true),
        }
    }
}
