//! A clean close: everything durable, and a superblock that says so, with a checkpoint where replay would be long.

use crate::api::error::Error;
use crate::api::port::{Reply, RequestId};
use crate::checkpoint::superblocks::republish;
use crate::checkpoint::write::checkpoint;
use crate::commit::group::log_durable;
use crate::core::{Core, Phase};
use crate::mutant::{Mutant, mutant};
use crate::runtime::handle::Handle;

impl Core {
    /// From here on requests are told that the database is closed.
    pub(crate) fn begin_close(&mut self, id: RequestId) {
        self.phase = Phase::Closing;
        self.closing = Some(id);
        self.activity += 1;
    }
}

/// Finishes what is under way, and answers.
pub(crate) async fn close(handle: Handle, id: RequestId) {
    let result = finish(&handle).await;
    handle
        .until(|core| (core.reads.is_idle() && core.lookups.are_idle()).then_some(()))
        .await;
    handle.with(|core| {
        core.phase = Phase::Closed;
        core.activity += 1;
        match result {
            Ok(()) => core.reply(id, Reply::Done),
            Err(error) => core.fail(id, error.status(), error.to_string()),
        }
    });
}

async fn finish(handle: &Handle) -> Result<(), Error> {
    if !mutant(Mutant::CloseDoesNotFlush) {
        log_durable(handle).await?;
    }
    handle
        .until(|core| (!core.maintenance.checkpointing && !core.maintenance.growing).then_some(()))
        .await;
    let (replay_bytes, threshold) = handle.with(|core| {
        let since = core.log.written_bytes - core.maintenance.checkpointed_at;
        (since, core.settings.options.checkpoint_bytes / 4)
    });
    // An index that is not loaded stays as it is: the next opening replays the same log, and what is new.
    let may_checkpoint = handle.with(|core| core.poisoned.is_none() && core.loading.is_none());
    if replay_bytes > threshold && may_checkpoint {
        handle.with(|core| core.maintenance.checkpointing = true);
        checkpoint(handle.clone()).await;
    }
    republish(handle).await
}
