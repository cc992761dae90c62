//! Growing the device ahead of need, in steps. A device that refuses is asked again later: space may have been made on its file system.
//!
//! Invariant: the growth is flushed before anything refers to the new segments. No superblock has to say so: an opening
//! takes the device's size. If the device is larger than the superblock states, nothing proves that the growth is
//! durable: a failed flush may have dropped it although the size shows it. So the growth is made anew before anything
//! states it.

use crate::api::error::Error;
use crate::api::event::Event;
use crate::api::port::{DiskError, DiskOp, Level, Nanos};
use crate::runtime::handle::Handle;

/// Makes the present size anew, if no superblock stated as many segments. The opening flushes before anything states it.
pub(crate) async fn grow_anew(handle: &Handle, stated: u32) -> Result<(), Error> {
    let (count, new_bytes) = handle.with(|core| {
        let count = core.segments.count();
        (count, core.geometry.segment_offset(count))
    });
    if count > stated {
        let grown = handle.io(DiskOp::Grow { new_bytes }).await;
        handle.poisoning(grown)?;
    }
    Ok(())
}

const GROW_SEGMENTS_MIN: u32 = 8;
/// A growth takes no longer than this takes to write: clients that run out of space meanwhile wait for it.
const GROW_BYTES_MAX: u64 = 64 << 20;
/// How long a device is left alone that has refused to grow: twice as long each time, within these bounds.
const PAUSE_NS_MIN: Nanos = 1_000_000_000;
const PAUSE_NS_MAX: Nanos = 64 * PAUSE_NS_MIN;

/// By how many segments a device of so many grows at a time: a quarter, within bounds.
fn step(now: u32, segment_bytes: u64) -> u32 {
    let most = u32::try_from(GROW_BYTES_MAX / segment_bytes).unwrap_or(u32::MAX);
    (now / 4).max(GROW_SEGMENTS_MIN).min(most.max(1))
}

/// Grows by one step.
pub(crate) async fn grow(handle: Handle) {
    let (new_count, new_bytes) = handle.with(|core| {
        let now = core.segments.count();
        let max = u32::try_from(core.segments_max()).unwrap_or(u32::MAX);
        let wanted = now
            .saturating_add(step(now, core.geometry.segment_bytes))
            .min(max);
        (wanted, core.geometry.segment_offset(wanted))
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
            Ok(()) => {
                core.segments.extend(new_count);
                core.maintenance.grow_pause_ns = 0;
                core.happened(Event::Grew {
                    len_bytes: new_bytes,
                });
            }
            Err(message) => {
                let pause = core.maintenance.grow_pause_ns.max(PAUSE_NS_MIN);
                core.maintenance.grow_again_at = core.now + pause;
                core.maintenance.grow_pause_ns = (2 * pause).min(PAUSE_NS_MAX);
                core.happened(Event::NotGrown);
                core.log_line(Level::Warn, format!("the device does not grow: {message}"));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a small device grows by what matters to it, a large one by no more than takes a moment. Method: sizes from a mebibyte to a tebibyte.
    #[test]
    fn a_step_is_small() {
        assert_eq!(step(24, 64 << 10), 8);
        assert_eq!(step(256, 1 << 20), 64);
        assert_eq!(step(4096, 1 << 20), 64);
        assert_eq!(step(1 << 20, 1 << 20), 64);
        assert_eq!(step(1 << 14, 64 << 20), 1);
    }
}
