//! The runtime that a command waits in: for its work, for Ctrl-C, and for the moment to say how far it is.

use tokio::runtime::{Builder, Runtime};

use std::num::NonZeroUsize;

use crate::exit::Exit;
use crate::output::complain;

/// Starts it, with so many threads for work that blocks at most; says why, if that cannot be done.
pub(crate) fn start(blocking: Option<usize>) -> Result<Runtime, Exit> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all();
    if let Some(threads) = blocking {
        builder.max_blocking_threads(threads);
    }
    builder.build().map_err(|error| {
        complain(&format!("internal error: cannot start threads: {error}"));
        Exit::Internal
    })
}

/// One thread for each core.
pub(crate) fn all_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
