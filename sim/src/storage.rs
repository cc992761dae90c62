//! What a guest stores in: a device or files. The world, and whoever explores, make no difference between the two where none is needed.

use kvsim_fs::{FileFault, FileFaultCount, FileSystem, PAGE_BYTES, SECTOR_BYTES};
use kvsim_simdisk::{
    Capabilities, Completion, CrashError, CrashKind, CrashReport, CrashState, CrashStates, Device,
    Effects, Failures, FaultCount, FaultKind, Nanos, Op, OpId, Role, Slowest,
};

use crate::fault::{StorageFault, file_failure};
use crate::killed;

/// The storage of a world. Cloning is cheap: contents are shared until written.
#[expect(
    clippy::large_enum_variant,
    reason = "a world has one, and explorers copy it often: a box would be an allocation each time"
)]
#[derive(Debug, Clone)]
pub enum Storage {
    /// A block device.
    Device(Device),
    /// A file system.
    Files(FileSystem),
}

impl Storage {
    /// The device, if it is one.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        match self {
            Storage::Device(device) => Some(device),
            Storage::Files(_) => None,
        }
    }

    /// The file system, if it is one.
    #[must_use]
    pub fn files(&self) -> Option<&FileSystem> {
        match self {
            Storage::Device(_) => None,
            Storage::Files(files) => Some(files),
        }
    }

    /// How many events there were after which a cut is a case of its own.
    #[must_use]
    pub fn changes(&self) -> u64 {
        match self {
            Storage::Device(device) => device.changes(),
            Storage::Files(files) => files.changes(),
        }
    }

    /// Moves whenever the states that a power cut can leave change.
    #[must_use]
    pub fn contents(&self) -> u64 {
        match self {
            Storage::Device(device) => device.contents(),
            Storage::Files(files) => files.changes(),
        }
    }

    /// The numbers of all that a power cut may lose, oldest first.
    #[must_use]
    pub fn pending_ids(&self) -> Vec<u64> {
        match self {
            Storage::Device(device) => device.pending().iter().map(|write| write.id).collect(),
            Storage::Files(files) => files.pending().iter().map(|step| step.id).collect(),
        }
    }

    /// How much of it there is.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        match self {
            Storage::Device(device) => device.pending().len(),
            Storage::Files(files) => files.pending().len(),
        }
    }

    /// Whether a power cut can lose nothing.
    #[must_use]
    pub fn nothing_pending(&self) -> bool {
        self.pending_count() == 0
    }

    /// Whether something that makes effects durable is under way.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        CrashStates::is_syncing(self)
    }

    /// The number that the next operation gets. Operations are counted over all process runs.
    #[must_use]
    pub fn next_op(&self) -> u64 {
        match self {
            Storage::Device(device) => device.next_op(),
            Storage::Files(files) => files.ops(),
        }
    }

    /// Operations of which the guest was told that they failed.
    #[must_use]
    pub fn failures(&self) -> Failures {
        match self {
            Storage::Device(device) => device.failures(),
            Storage::Files(files) => Failures {
                reads: files.stats().failed_reads,
                torn_reads: 0,
                writes: 0,
                flushes: files.stats().failed_syncs,
            },
        }
    }

    /// How often the power was cut.
    #[must_use]
    pub fn power_cuts(&self) -> u64 {
        match self {
            Storage::Device(device) => device.power_cuts(),
            Storage::Files(files) => files.power_cuts(),
        }
    }

    /// Sectors that do not hold what the guest was told that they hold, or cannot be read.
    #[must_use]
    pub fn damaged_sectors(&self) -> u64 {
        match self {
            Storage::Device(device) => device.damaged_sectors(),
            // Nobody knows what of it was written anew since.
            Storage::Files(files) => files.counts().lies(),
        }
    }

    /// Reads that met damage, or were answered with a lie. In a file system that has lied once, every read may be one.
    #[must_use]
    pub fn damaged_reads(&self) -> u64 {
        match self {
            Storage::Device(device) => device.damaged_reads(),
            Storage::Files(files) if files.counts().lies() > 0 => files.stats().reads,
            Storage::Files(_) => 0,
        }
    }

    /// Sectors of which a read has failed in this process run, and that were not read since. Nothing of a file system, where nobody keeps that.
    #[must_use]
    pub fn failing_sectors(&self) -> Option<u64> {
        match self {
            Storage::Device(device) => Some(device.failing_sectors()),
            Storage::Files(_) => None,
        }
    }

    /// Whether it is smaller than it said, since a growth that was durable is gone.
    #[must_use]
    pub fn is_cut_short(&self) -> bool {
        match self {
            Storage::Device(device) => device.is_cut_short(),
            Storage::Files(_) => false,
        }
    }

    /// Its present size in bytes; of files, what they may take up.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        match self {
            Storage::Device(device) => device.image().len_bytes(),
            Storage::Files(files) => files.config().capacity_bytes,
        }
    }

    /// When the guest was last told that something is durable.
    #[must_use]
    pub fn made_durable_at(&self) -> Option<Nanos> {
        match self {
            Storage::Device(device) => device.made_durable_at(),
            Storage::Files(_) => None,
        }
    }

    /// How long operations of the device took; a file system takes its time within the guest's calls.
    #[must_use]
    pub fn slowest(&self) -> Slowest {
        match self {
            Storage::Device(device) => device.slowest().clone(),
            Storage::Files(_) => Slowest::default(),
        }
    }

    /// When those of the last writes were submitted whose data a lie has lost, overwritten or spoilt.
    #[must_use]
    pub fn damaged(&self) -> &[Nanos] {
        match self {
            Storage::Device(device) => device.damaged(),
            Storage::Files(_) => &[],
        }
    }

    /// How often a fault of this kind has fired; in a file system, what comes closest to it.
    #[must_use]
    pub fn fired(&self, kind: FaultKind) -> u64 {
        let files = match self {
            Storage::Device(device) => return device.counts().get(kind).fired,
            Storage::Files(files) => files,
        };
        let fired = |kind: FileFault| files.counts().get(kind).fired;
        match kind {
            FaultKind::FlushLie => fired(FileFault::SyncLie),
            FaultKind::BitRot => fired(FileFault::BitRot),
            FaultKind::ReadError => fired(FileFault::ReadError),
            FaultKind::FlushError => fired(FileFault::SyncError),
            FaultKind::NoSpace => {
                fired(FileFault::NoSpaceWrite)
                    + fired(FileFault::NoSpaceAllocate)
                    + fired(FileFault::NoSpaceSync)
            }
            _ => 0,
        }
    }

    /// Lies of any kind.
    #[must_use]
    pub fn lies(&self) -> u64 {
        match self {
            Storage::Device(device) => device.counts().lies(),
            Storage::Files(files) => files.counts().lies(),
        }
    }

    /// The name of each kind of fault, how often it was possible and how often it fired.
    #[must_use]
    pub fn fault_counts(&self) -> Vec<(&'static str, FaultCount)> {
        match self {
            Storage::Device(device) => {
                let counts = device.counts().iter();
                counts.map(|(kind, count)| (kind.name(), count)).collect()
            }
            Storage::Files(files) => {
                let counts = files.counts().iter();
                let same = |count: FileFaultCount| FaultCount {
                    possible: count.possible,
                    fired: count.fired,
                };
                counts
                    .map(|(kind, count)| (kind.name(), same(count)))
                    .collect()
            }
        }
    }

    /// The faults that affected operations so far, from the one of this place on, in the form that a script takes.
    #[must_use]
    pub fn fired_script(&self, from: usize) -> Vec<StorageFault> {
        match self {
            Storage::Device(device) => {
                let fired = device.fired_script().iter().skip(from);
                fired.cloned().map(StorageFault::from).collect()
            }
            Storage::Files(files) => {
                let fired = files.fired_script().iter().skip(from);
                fired.cloned().map(StorageFault::from).collect()
            }
        }
    }

    /// Bytes written, and how often the guest asked for something to be made durable, so far.
    #[must_use]
    pub fn written_and_synced(&self) -> (u64, u64) {
        match self {
            Storage::Device(device) => (device.stats().written_bytes, device.stats().flushes),
            Storage::Files(files) => {
                let stats = files.stats();
                (
                    stats.written_bytes,
                    stats.file_syncs + stats.directory_syncs,
                )
            }
        }
    }

    /// Whether a sync only orders, so that a power cut may lose what was synced.
    #[must_use]
    pub fn sync_only_orders(&self) -> bool {
        match self {
            Storage::Device(device) => device.flush_only_orders(),
            Storage::Files(_) => false,
        }
    }

    /// Whether from now on all that it answers follows from its contents and its number of operations: no fault can affect one.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        match self {
            Storage::Device(device) => device.is_faultless(),
            Storage::Files(files) => files.is_faultless(),
        }
    }

    /// A hash of what reads return.
    #[must_use]
    pub fn image_hash(&self) -> u128 {
        match self {
            Storage::Device(device) => device.image_hash(),
            Storage::Files(files) => files.image_hash(),
        }
    }

    /// What a guest is told of it.
    pub(crate) fn info(&self) -> Capabilities {
        match self {
            Storage::Device(device) => device.capabilities(),
            // What a guest on files may want to know of what lies below them.
            Storage::Files(files) => Capabilities {
                sector_bytes: SECTOR_BYTES,
                physical_block_bytes: u32::try_from(PAGE_BYTES).expect("a page is short"),
                capacity_bytes: files.config().capacity_bytes,
                max_capacity_bytes: files.config().capacity_bytes,
                volatile_cache: true,
                fua: false,
                discard: false,
                barrier: false,
                atomic_write_bytes: u64::from(SECTOR_BYTES),
                atomic_boundary_bytes: 0,
            },
        }
    }

    /// When the next operation completes, if one is under way.
    pub(crate) fn next_completion_at(&self) -> Option<Nanos> {
        match self {
            Storage::Device(device) => device.next_completion_at(),
            Storage::Files(_) => None,
        }
    }

    pub(crate) fn complete_next(&mut self) -> Option<Completion> {
        match self {
            Storage::Device(device) => device.complete_next(),
            Storage::Files(_) => None,
        }
    }

    /// Submits an operation; else says why that cannot be.
    pub(crate) fn submit(&mut self, now: Nanos, tag: u64, op: Op) -> Result<OpId, String> {
        match self {
            Storage::Device(device) => device
                .submit(now, tag, op)
                .map_err(|error| format!("no device takes: {error}")),
            Storage::Files(_) => Err("a guest on files cannot submit".to_owned()),
        }
    }

    /// Lets the n-th operation that such a fault can affect fail, counted from 0 and from now.
    pub fn fail_nth(&mut self, kind: FaultKind, n: u64) {
        match self {
            Storage::Device(device) => device.fail_nth(kind, n),
            Storage::Files(files) => {
                if let Some(kind) = file_failure(kind) {
                    files.fail_nth(kind, n);
                }
            }
        }
    }

    /// Notes from now on what is read.
    pub fn note_reads(&mut self) {
        match self {
            Storage::Device(device) => device.note_reads(),
            Storage::Files(files) => files.note_reads(),
        }
    }

    /// Notes from now on which operations there are that can fail.
    pub fn note_ops(&mut self) {
        match self {
            Storage::Device(device) => device.note_ops(),
            Storage::Files(files) => files.note_ops(true),
        }
    }

    /// Draws what a power cut now would leave.
    pub fn draw_crash(&mut self) -> CrashState {
        match self {
            Storage::Device(device) => device.draw_crash(),
            Storage::Files(files) => files.draw_crash(),
        }
    }

    /// Ends the process run. A killed process loses nothing, whatever `state` says; a power cut leaves what `state` says.
    ///
    /// # Errors
    /// If the storage could not have left this. Nothing has changed then.
    pub fn crash(
        &mut self,
        now: Nanos,
        kind: CrashKind,
        state: &CrashState,
    ) -> Result<CrashReport, CrashError> {
        match self {
            Storage::Device(device) => device.crash(now, kind, state),
            Storage::Files(files) => files.crash(now, kind, state),
        }
    }

    /// What tells apart what two killed processes leave at this moment: what reads return, and what a later power cut may still lose.
    #[must_use]
    pub fn hash_if_killed(&self, now: Nanos) -> u128 {
        match self {
            Storage::Device(device) => killed::device_hash(device, now),
            Storage::Files(files) => killed::files_hash(files, now),
        }
    }
}

impl CrashStates for Storage {
    fn effects(&self) -> Effects {
        match self {
            Storage::Device(device) => device.effects(),
            Storage::Files(files) => files.effects(),
        }
    }

    fn roles(&self, most: usize) -> Vec<(u64, Role)> {
        match self {
            Storage::Device(device) => device.roles(most),
            Storage::Files(files) => files.roles(most),
        }
    }

    fn is_syncing(&self) -> bool {
        match self {
            Storage::Device(device) => device.is_flushing(),
            Storage::Files(files) => files.is_syncing(),
        }
    }

    fn check_crash(&self, state: &CrashState) -> Result<(), CrashError> {
        match self {
            Storage::Device(device) => device.check_crash(state),
            Storage::Files(files) => files.check_crash(state),
        }
    }

    fn image_hash_after(&self, state: &CrashState) -> Result<u128, CrashError> {
        match self {
            Storage::Device(device) => device.image_hash_after(state),
            Storage::Files(files) => CrashStates::image_hash_after(files, state),
        }
    }
}
