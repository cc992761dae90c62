//! One run as a person tells it: who asked what and what was answered, what the device did, and what each cut left, in the order in
//! which it happened, each in the lane of whoever did it.
//!
//! Invariant: a time line is made from the trace and its notes alone, so the same seed gives the same lines.

mod entry;
pub mod words;

use kvsim_sim::Trace;

pub use entry::{Entries, Entry, Kind, Lane};

/// The traces of one run, kept in full: one for each device that it took.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// One for each device, in order.
    pub devices: Vec<Trace>,
}

impl Recording {
    /// Everything that happened, in order; devices are counted from 1.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        (1..)
            .zip(&self.devices)
            .flat_map(|(number, trace)| Entries::new(number, trace))
    }
}
