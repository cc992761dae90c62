//! Mistakes on purpose and interventions, moments, notes of calls, observations.

use crate::common::{create, durable, files, outcomes, put, read, sync};
use kvsim_fs::{
    CallKind, CrashKind, CrashState, Errno, FileConfig, FileSystem, Intervention, LeftOutSyncs,
    Observation, OpenHow, Persisted, ROOT_FD, StepNote, SyncKind, Target,
};

fn cut(files: &mut FileSystem) {
    files
        .crash(0, CrashKind::Power, &CrashState::default())
        .expect("nothing is kept");
}

/// Goal: the n-th sync of a place does nothing, be it of a file or of a directory, and other places sync as ever. Method: on the weakest profile, each of four
/// syncs left out in turn, and a sync of another place.
#[test]
fn a_sync_that_is_left_out_does_nothing() {
    const PLACE: u64 = 0x17;
    let left_from = |nth: Option<u64>, place: u64| {
        let mut config = FileConfig::with_profile("posix");
        config.left_out = nth.map(|nth| LeftOutSyncs {
            place: format!("{place:016x}"),
            nth: Some(nth),
        });
        let mut files = FileSystem::new(&config, 1).expect("a configuration");
        for name in ["one", "two"] {
            let fd = create(&mut files, name);
            put(&mut files, fd, 0, name.as_bytes());
            for synced in [fd, ROOT_FD] {
                files.at_place(Some(PLACE));
                sync(&mut files, synced);
            }
        }
        assert_eq!(files.syncs(), 4);
        assert_eq!(files.counts().lies(), 0, "it is no fault");
        let is_ours = nth.is_some() && place == PLACE;
        assert_eq!(files.left_out().len(), usize::from(is_ours));
        cut(&mut files);
        (read(&mut files, "one"), read(&mut files, "two"))
    };
    let left = |nth| left_from(nth, PLACE);
    let (one, two) = (Some(b"one".to_vec()), Some(b"two".to_vec()));
    let empty = Some(Vec::new());
    assert_eq!(left_from(Some(0), 0x18), (one.clone(), two.clone()));
    assert_eq!(left(None), (one.clone(), two.clone()));
    assert_eq!(left(Some(0)), (empty.clone(), two.clone()));
    assert_eq!(
        left(Some(1)),
        (one.clone(), two.clone()),
        "the second sync of the directory covers it"
    );
    assert_eq!(left(Some(2)), (one.clone(), empty));
    assert_eq!(left(Some(3)), (one, None));
}

/// Goal: an intervention makes a file or a directory durable at a call, and moves nothing else. Method: no sync at all, and one intervention each.
#[test]
fn an_intervention_makes_durable_at_a_call() {
    let run = |interventions: &[Intervention]| {
        let mut files = files("posix");
        for intervention in interventions {
            files.intervene_at(intervention.clone());
        }
        let fd = create(&mut files, "f"); // call 0
        put(&mut files, fd, 0, b"data"); // call 1
        put(&mut files, fd, 4, b"more"); // call 2
        assert_eq!((files.ops(), files.syncs()), (3, 0));
        let elapsed = files.take_elapsed_ns();
        cut(&mut files);
        (read(&mut files, "f"), elapsed)
    };
    let at = |op, before, target| Intervention { op, before, target };
    let file = || Target::Path(b"f".to_vec());
    let root = || Target::Path(b".".to_vec());
    let (nothing, time) = run(&[]);
    assert_eq!(nothing, None);
    assert_eq!(
        run(&[at(2, true, file())]),
        (None, time),
        "the data are there, but no name"
    );
    assert_eq!(run(&[at(1, true, root())]), (Some(Vec::new()), time));
    let (before, after) = (at(2, true, file()), at(2, false, file()));
    assert_eq!(
        run(&[at(1, true, root()), before]),
        (Some(b"data".to_vec()), time)
    );
    assert_eq!(
        run(&[at(1, true, root()), after]),
        (Some(b"datamore".to_vec()), time)
    );
}

/// Goal: a copy is kept after each step, also within one call, and each is a file system of its own. Method: a write of three pages and a sync.
#[test]
fn moments_are_copies_after_each_step() {
    let mut files = files("ext4_ordered");
    let fd = durable(&mut files, "f", b"");
    files.note_moments(true);
    assert_eq!(files.write(fd, &[7; 3 * 4096]), Ok(3 * 4096));
    let moments = files.take_moments();
    let kinds: Vec<&str> = moments
        .iter()
        .map(|moment| moment.files.pending().last().expect("a step").kind.name())
        .collect();
    let (data, size) = ("data, first of its page", "size");
    assert_eq!(kinds, [data, size, data, size, data, size]);
    for (at, moment) in moments.into_iter().enumerate() {
        let mut copy = moment.files;
        assert_eq!(copy.pending().len(), at + 1);
        assert!(matches!(moment.step, StepNote::Pending { .. }));
        assert!(copy.take_moments().is_empty());
        // A process that is killed here leaves the steps so far: a page counts once its size is there.
        copy.crash(0, CrashKind::Process, &CrashState::default())
            .expect("nothing is lost");
        assert_eq!(
            read(&mut copy, "f").map(|bytes| bytes.len()),
            Some(at.div_ceil(2) * 4096)
        );
    }
    sync(&mut files, fd);
    let moments = files.take_moments();
    assert!(matches!(
        moments[0].step,
        StepNote::SyncBegins { sync: 0, .. }
    ));
    assert!(moments[0].files.is_syncing() && moments[0].files.pending().len() == 6);
    assert!(matches!(
        moments[1].step,
        StepNote::Synced {
            durable: 6,
            dropped: 0,
            ..
        }
    ));
    assert!(!moments[1].files.is_syncing() && moments[1].after_ns > 0);
    assert!(files.take_elapsed_ns() >= moments[1].after_ns);
}

/// Goal: calls are named to people with their paths and arguments. Method: a few calls and their notes.
#[test]
fn calls_are_noted() {
    let mut files = files("ext4_ordered");
    files.note_ops(true);
    files.create_directory(ROOT_FD, b"d").expect("it is free");
    let directory = files
        .open(ROOT_FD, b"d", &OpenHow::DIRECTORY)
        .expect("it is there");
    let fd = files
        .open(directory, b"wal-2", &OpenHow::CREATE)
        .expect("it can be created");
    put(&mut files, fd, 4096, &[1; 100]);
    sync(&mut files, fd);
    files
        .rename(directory, b"wal-2", ROOT_FD, b"wal")
        .expect("it is there");
    assert_eq!(files.unlink(ROOT_FD, b"gone"), Err(Errno::NoEntry));
    sync(&mut files, ROOT_FD);
    let notes: Vec<String> = files.noted_ops().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "create_directory d",
            "open d",
            "open d/wal-2",
            "write d/wal-2, 100 bytes at 4096",
            "sync d/wal-2",
            "rename d/wal-2 wal",
            "unlink gone: ENOENT",
            "sync .",
        ]
    );
    let syncs: Vec<_> = files
        .noted_ops()
        .iter()
        .filter(|note| note.kind == CallKind::Sync)
        .collect();
    assert_eq!((syncs[0].sync, syncs[0].is_directory), (Some(0), false));
    assert_eq!((syncs[1].sync, syncs[1].is_directory), (Some(1), true));
    assert_eq!(syncs[0].ino, files.noted_ops()[2].ino);
}

/// Goal: steps are named to people. Method: a few calls and what is pending.
#[test]
fn steps_have_names() {
    let mut files = files("ext4_ordered");
    let fd = durable(&mut files, "f", &[1; 5000]);
    put(&mut files, fd, 600, &[2; 10]);
    put(&mut files, fd, 5000, &[2; 5000]);
    files.set_size(fd, 100).expect("it is open");
    files
        .rename(ROOT_FD, b"f", ROOT_FD, b"g")
        .expect("it is there");
    let steps: Vec<String> = files.pending().iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            "f: data, page 0, sectors 1 to 1",
            "f: data, page 1, sectors 1 to 7",
            "f: size, 5000 to 8192 bytes",
            "f: data, first of its page, page 2, sectors 0 to 3",
            "f: size, 8192 to 10000 bytes",
            "f: truncation, 10000 to 100 bytes",
            "f: tail zeroed, page 0",
            "f: entry renamed to `g`",
        ]
    );
}

/// Goal: two crash states that agree on what a recovery has read lead to the same recovery. Method: a recovery that reads one of two files; the
/// states that it cannot tell apart, and those that it can.
#[test]
fn states_that_look_the_same_have_the_same_observations() {
    let mut files = files("posix");
    let log = durable(&mut files, "log", &[1; 512]);
    let other = durable(&mut files, "other", &[1; 512]);
    put(&mut files, log, 0, &[2; 512]);
    put(&mut files, other, 0, &[2; 512]);
    create(&mut files, "new");
    let ids: Vec<u64> = files.pending().iter().map(|step| step.id).collect();
    assert_eq!(ids.len(), 3);
    let after = |kept: &[u64]| {
        let persisted = kept.iter().map(|id| Persisted::whole(*id)).collect();
        let mut crashed = files.clone();
        crashed
            .crash(0, CrashKind::Power, &CrashState { persisted })
            .expect("nothing needs anything");
        crashed
    };
    let recover = |files: &mut FileSystem| {
        files.note_reads();
        (
            read(files, "log"),
            files.stat_at(ROOT_FD, b"new", true).is_ok(),
        )
    };
    let mut first = after(&[]);
    let answer = recover(&mut first.clone());
    let seen: Vec<Observation> = {
        recover(&mut first);
        first.reads().to_vec()
    };
    let base = after(&[]).observed_hash(&seen);
    for kept in [&ids[1..2], &ids[..1], &ids[2..], &ids[1..]] {
        let mut crashed = after(kept);
        let same = crashed.observed_hash(&seen) == base;
        assert_eq!(same, recover(&mut crashed) == answer, "{kept:?}");
    }
    assert_eq!(after(&ids[1..2]).observed_hash(&seen), base);
    assert_ne!(after(&ids[1..2]).image_hash(), after(&[]).image_hash());
}

/// Goal: a barrier orders and keeps nothing. Method: data, a barrier, a name.
#[test]
fn a_barrier_orders_what_is_on_both_sides() {
    for profile in ["posix", "apfs_fsync"] {
        let run = |barrier: bool| {
            let mut files = files(profile);
            let fd = durable(&mut files, "f", b"old");
            put(&mut files, fd, 0, b"new");
            if barrier {
                assert_eq!(files.sync(fd, SyncKind::Barrier), Ok(()));
            }
            create(&mut files, "g");
            outcomes(&files, 0, |files| {
                (
                    read(files, "f") == Some(b"new".to_vec()),
                    read(files, "g").is_some(),
                )
            })
        };
        let all = [(false, false), (false, true), (true, false), (true, true)];
        assert_eq!(run(false), all.into());
        assert_eq!(run(true), [all[0], all[2], all[3]].into());
    }
}

/// Goal: moments take bounded memory, however much is written between two takes, and the last one is as the file system is. Method: 4,000 small writes are all
/// kept; of 40,000 pages more, few are.
#[test]
fn moments_are_sparse_behind_the_first() {
    let mut files = files("posix");
    let fd = durable(&mut files, "f", b"");
    files.note_moments(true);
    files.begin_moments();
    let page = [7; 4096];
    for _ in 0..1_000 {
        assert_eq!(files.write(fd, &page), Ok(4096));
    }
    let first = files.take_moments();
    assert!(first.len() >= 2_000, "{}", first.len());
    assert_eq!(files.stretch(), None);
    assert_eq!(files.write(fd, &vec![8; 40_000 * 4096]), Ok(40_000 * 4096));
    let rest = files.take_moments();
    assert!((256..4_500).contains(&rest.len()), "{}", rest.len());
    let last = &rest.last().expect("there are some").files;
    assert_eq!(last.image_hash(), files.image_hash());
    assert!(files.stretch().is_some());
    files.begin_moments();
    assert_eq!(files.stretch(), None);
}

/// Goal: files without a limit of their own do not take all memory. Method: space for 2 GiB is asked for.
#[test]
fn no_limit_is_a_gibibyte() {
    let mut files = files("posix");
    let fd = durable(&mut files, "f", b"");
    assert_eq!(files.free_bytes(), None);
    assert_eq!(
        files.allocate(fd, 0, 2 << 30),
        Err(kvsim_fs::Errno::NoSpace)
    );
    assert_eq!(files.allocate(fd, 0, 1 << 30), Ok(()));
}
