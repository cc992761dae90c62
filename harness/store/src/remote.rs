//! Engines that another process holds, and the clients with them: what is measured must not be the pipe between the two.
//!
//! A round asks for warm-up and measurement, and gets what the clients there saw. They are counted and timed as clients
//! here are, so both stand in one table and take turns.

use std::path::Path;

use crate::script::Script;
use crate::seen::{Pace, Seen};
use crate::{Settings, StoreError};

/// An engine of another process. [`crate::Engine::remote`] says which engines are.
pub trait Remote: Send + Sync {
    /// Whether the process can be started here: asked before anything is measured.
    ///
    /// # Errors
    /// What is missing, and what to do about it.
    fn ready(&self) -> Result<(), StoreError>;

    /// Starts the process, with a new database in an empty directory and the script that its clients will play.
    ///
    /// # Errors
    /// The process does not start, or the engine does not open.
    fn start(
        &self,
        directory: &Path,
        settings: &Settings,
        script: &Script,
    ) -> Result<Box<dyn RemoteLoad>, StoreError>;
}

/// The process, and through it database and clients. Dropping it ends the process.
pub trait RemoteLoad: Send {
    /// Writes the records that the clients find, without a flush for each, and opens the database as it is to be measured.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    fn load(&mut self, progress: &dyn Fn(u64)) -> Result<(), StoreError>;

    /// Lets the clients work through warm-up and measurement. Keys that they insert stay inserted for the next round.
    ///
    /// # Errors
    /// The first error of any client, or the process is gone.
    fn run(&mut self, pace: &Pace) -> Result<Seen, StoreError>;

    /// The first key that no client has inserted.
    ///
    /// # Errors
    /// The process is gone.
    fn next_key(&mut self) -> Result<u64, StoreError>;

    /// Closes the database and ends the process.
    ///
    /// # Errors
    /// The engine's own, or the process is gone.
    fn close(&mut self) -> Result<(), StoreError>;
}
