//! Growing the device ahead of need.
//!
//! Invariant: the growth is flushed before anything refers to the new segments. No superblock has to say so: an opening takes
//! the device's size. Where that is more than the superblock states, nothing proves that it is durable (a flush that failed may have dropped the growth, which
//! is seen all the same), so it is made anew before anything states it.

use crate::error::Error;
use crate::executor::Handle;
use crate::port::{DiskError, DiskOp, Level};

/// Makes the present size durable, if no superblock stated as many segments.
pub(crate) async fn grow_anew(handle: &Handle, stated: u32) -> Result<(), Error> {
    let (count, new_bytes) = handle.with(|core| {
        let count = core.segments.count();
        (count, core.geometry.segment_offset(count))
    });
    if count > stated {
        let grown = handle.io(DiskOp::Grow { new_bytes }).await;
        handle.poisoning(grown)?;
        handle.flush().await?;
    }
    Ok(())
}

const GROW_SEGMENTS_MIN: u32 = 8;

/// Grows by a quarter of the present size.
pub(crate) async fn grow(handle: Handle) {
    let (new_count, new_bytes) = handle.with(|core| {
        let now = core.segments.count();
        let max = u32::try_from(core.segments_max()).unwrap_or(u32::MAX);
        let wished = now
            .saturating_add((now / 4).max(GROW_SEGMENTS_MIN))
            .min(max);
        (wished, core.geometry.segment_offset(wished))
    });
    let result = match handle.io(DiskOp::Grow { new_bytes }).await {
        Ok(_) => handle
            .flush()
            .await
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Err(DiskError::NoSpace) => Err("no space for growth".to_owned()),
        // It made everything durable, or should have: what was written before may have been dropped with it.
        Err(DiskError::Flush) => handle
            .poisoning(Err(DiskError::Flush))
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    handle.with(|core| {
        core.maintenance.growing = false;
        core.activity += 1;
        match result {
            Ok(()) => core.segments.extend(new_count),
            Err(message) => {
                core.maintenance.grow_failed = true;
                core.log_line(Level::Warn, format!("the device does not grow: {message}"));
            }
        }
    });
}
