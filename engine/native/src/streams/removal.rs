//! Removes the pieces of streams that are gone: at once, or when the last reader goes, or after a crash when their prefix is asked for.
//!
//! Invariant: the entry that says to remove goes after the pieces. So a removal that a crash or a failure cuts short is found again.

use kvsim_engine::Durability;

use super::handle::Streams;
use crate::api::error::Failure;
use crate::api::key_range::Prefix;

impl Streams {
    /// Removes what earlier process runs have left.
    pub(super) fn remove_what_was_left(&self) -> Result<(), Failure> {
        for entry in self.database.range(Prefix(self.layout.removals()))? {
            let id = self.layout.id_of_removal(&entry?.key)?;
            // What this run writes has such an entry too, and what it removes is due already.
            if self.live.is_of_earlier_run(id) {
                self.live.make_due(id);
            }
        }
        self.remove_due()
    }

    /// Removes all that is due, as far as nobody reads it.
    fn remove_due(&self) -> Result<(), Failure> {
        while let Some(id) = self.live.take_due() {
            if let Err(failure) = self.remove(id) {
                self.live.make_due(id);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// The same for calls that have done what they were asked for: what fails stays due, for the next call or process run.
    pub(super) fn remove_due_if_possible(&self) {
        // A read that a damaged index makes fail, for instance, must not make a write fail that has taken effect.
        let _ = self.remove_due();
    }

    /// Removes the pieces of an id, and then the entry that says so.
    fn remove(&self, id: u64) -> Result<(), Failure> {
        let pieces = Prefix(self.layout.pieces(id));
        self.database
            .delete_range_in_pieces(pieces, Durability::Relaxed)?;
        self.database
            .delete(&self.layout.removal(id), Durability::Relaxed)
    }
}
