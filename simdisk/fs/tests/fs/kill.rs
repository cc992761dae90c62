//! What a killed process leaves.

use crate::common::{create, durable, put};
use kvsim_fs::{CrashKind, CrashState, FileConfig, FileSystem, Persisted, ROOT_FD, StepNote};

const PROFILES: [&str; 10] = [
    "posix",
    "ext4_ordered",
    "ext4_writeback",
    "ext4_journal",
    "xfs",
    "btrfs",
    "zfs",
    "apfs_full_fsync",
    "apfs_fsync",
    "process_kill",
];

/// Goal: what is seen after a kill, between any two steps of a call, can also reach the disk; so no recovery shows what was never on its way there.
/// Method: calls of several steps on each profile; after a kill at each step, the files that are seen are those that a power cut leaves which loses
/// nothing.
#[test]
fn a_kill_shows_what_can_reach_the_disk() {
    for profile in PROFILES {
        let config = FileConfig::with_profile(profile);
        let mut files = FileSystem::new(&config, 3).expect("the profile ships");
        let log = durable(&mut files, "log", &[1; 5_000]);
        durable(&mut files, "old", &[2; 100]);
        files.note_moments(true);
        put(&mut files, log, 5_000, &[3; 9_000]);
        put(&mut files, log, 40_000, &[4; 100]);
        files.set_size(log, 10_001).expect("it shrinks");
        put(&mut files, log, 10_500, &[5; 4_096]);
        let fresh = create(&mut files, "new");
        put(&mut files, fresh, 0, &[6; 4_097]);
        files
            .rename(ROOT_FD, b"new", ROOT_FD, b"old")
            .expect("it replaces the old one");
        files.allocate(fresh, 8_192, 8_192).expect("there is room");
        files.unlink(ROOT_FD, b"log").expect("it is there");
        let mut within = 0;
        for moment in files.take_moments() {
            let mut seen = moment.files;
            let before = seen.image_hash();
            let none = CrashState::default();
            seen.crash(1, CrashKind::Process, &none)
                .expect("a kill is possible at any moment");
            within += u64::from(seen.image_hash() != before);
            let all = seen.pending().iter().map(|step| Persisted::whole(step.id));
            let all = CrashState {
                persisted: all.collect(),
            };
            let mut left = seen.clone();
            left.crash(2, CrashKind::Power, &all)
                .expect("a cut may lose nothing");
            assert_eq!(
                left.image_hash(),
                seen.image_hash(),
                "{profile}, after {:?}",
                moment.step
            );
            assert!(matches!(moment.step, StepNote::Pending { .. }));
        }
        assert!(within > 0, "{profile}: no kill fell within a change");
    }
}
