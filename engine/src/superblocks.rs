//! Publishing a superblock: two copies, flush, the other two, flush.
//!
//! Invariants: at any moment at least one half is whole, old or new; when `publish` returns, all four copies are durable.
//! On the way it measures a flush and, where there is one, a write-through, so that the commit path knows which is faster.

use crate::buffer::IoBuf;
use crate::error::Error;
use crate::executor::{Handle, Io};
use crate::format::superblock::{Superblock, copy_offset};
use crate::format::to_usize;

const HALVES: [[u16; 2]; 2] = [[0, 2], [1, 3]];

/// Makes a superblock durable in all copies. Any error poisons.
pub(crate) async fn publish(handle: &Handle, superblock: Superblock) -> Result<(), Error> {
    let block = u64::from(superblock.block_bytes);
    let device = handle.with(|core| core.settings.device.clone());
    let mut took = [0; 2];
    for (half, copies) in HALVES.into_iter().enumerate() {
        let began = handle.with(|core| core.now);
        let through = half == 1 && device.volatile_cache && device.write_through;
        let writes: Vec<Io> = copies
            .iter()
            .map(|copy| {
                let mut data = IoBuf::zeroed(to_usize(block));
                superblock.encode(*copy, &mut data);
                handle.write(copy_offset(*copy), data, through)
            })
            .collect();
        let mut results = Vec::new();
        for write in writes {
            results.push(write.await);
        }
        for result in results {
            handle.poisoning(result)?;
        }
        let written = handle.with(|core| core.now);
        if !through {
            handle.flush().await?;
        }
        let now = handle.with(|core| core.now);
        took[half] = now - began;
        if half == 0 && device.volatile_cache {
            handle.with(|core| core.note_flush_ns(now - written));
        }
    }
    handle.with(|core| {
        core.superblock = Some(superblock);
        core.stats.checkpoint_bytes += 4 * block;
        if device.volatile_cache && device.write_through {
            // Clearly faster, or it is not worth losing the larger groups.
            core.through_measured_faster = took[1] * 10 < took[0] * 7;
        }
    });
    Ok(())
}
