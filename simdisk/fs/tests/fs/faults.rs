//! Faults: each by script and by chance, what it does, and that it is counted.

use crate::common::{create, durable, put, read, sync};
use kvsim_fs::{
    CrashKind, CrashState, Errno, FileConfig, FileFault, FileFaults, FileSystem, ROOT_FD,
    ScriptedFileFault, SyncKind,
};

fn with_faults(faults: FileFaults) -> FileSystem {
    let config = FileConfig {
        faults,
        ..FileConfig::default()
    };
    FileSystem::new(&config, 7).expect("a configuration")
}

fn cut(files: &mut FileSystem) {
    files
        .crash(0, CrashKind::Power, &CrashState::default())
        .expect("nothing is kept");
}

fn fired(files: &FileSystem, kind: FileFault) -> (u64, u64) {
    let count = files.counts().get(kind);
    (count.possible, count.fired)
}

/// Goal: a lying sync makes nothing durable and says that it has. Method: the second sync lies, and a power cut.
#[test]
fn a_lying_sync_does_nothing() {
    let mut files = with_faults(FileFaults::default());
    let fd = durable(&mut files, "f", b"old");
    put(&mut files, fd, 0, b"new");
    files.fail_nth(FileFault::SyncLie, 0);
    sync(&mut files, fd);
    assert_eq!(fired(&files, FileFault::SyncLie), (1, 1));
    cut(&mut files);
    assert_eq!(read(&mut files, "f").as_deref(), Some(&b"old"[..]));
}

/// Goal: reads fail, and reads and writes are short, and the rest is untouched. Method: one of each by script.
#[test]
fn reads_fail_and_reads_and_writes_are_short() {
    let mut files = with_faults(FileFaults::default());
    let fd = durable(&mut files, "f", &[5; 1000]);
    let mut buffer = [0; 2000];
    files.fail_nth(FileFault::ReadError, 0);
    assert_eq!(files.read_at(fd, 0, &mut buffer), Err(Errno::Io));
    assert_eq!(files.stats().failed_reads, 1);
    files.fail_nth(FileFault::ShortRead, 1);
    assert_eq!(files.read_at(fd, 0, &mut buffer), Ok(1000));
    let short = files.read_at(fd, 0, &mut buffer).expect("it is only short");
    assert!((1..1000).contains(&short), "{short} bytes");
    files.fail_nth(FileFault::ShortWrite, 0);
    let short = files.write_at(fd, 0, &[6; 1000]).expect("it is only short");
    assert!((1..1000).contains(&short), "{short} bytes");
    let bytes = read(&mut files, "f").expect("it is there");
    assert!(bytes[..short].iter().all(|byte| *byte == 6));
    assert!(bytes[short..].iter().all(|byte| *byte == 5));
    // At the end of the file there is nothing to fail.
    files.fail_nth(FileFault::ReadError, 0);
    assert_eq!(files.read_at(fd, 1000, &mut buffer), Ok(0));
}

/// Goal: a write and an allocation that find no space change nothing. Method: by script, beside space enough.
#[test]
fn no_space_at_a_write_and_at_an_allocation() {
    let mut files = with_faults(FileFaults::default());
    let fd = durable(&mut files, "f", b"old");
    let before = files.image_hash();
    files.fail_nth(FileFault::NoSpaceWrite, 0);
    assert_eq!(files.write_at(fd, 0, b"new"), Err(Errno::NoSpace));
    files.fail_nth(FileFault::NoSpaceAllocate, 0);
    assert_eq!(files.allocate(fd, 0, 100_000), Err(Errno::NoSpace));
    assert_eq!(files.image_hash(), before);
    assert_eq!(files.stats().failed_writes, 2);
}

/// Goal: a bit of the medium flips, and readers meet it when the page is no more in memory. Method: bit rot at a sync, reads before and after a cut.
#[test]
fn a_flipped_bit_shows_after_the_cut() {
    let mut files = with_faults(FileFaults {
        script: vec![ScriptedFileFault {
            bytes: Some(4100),
            bit: Some(3),
            ..ScriptedFileFault::new(2, FileFault::BitRot)
        }],
        ..FileFaults::default()
    });
    let fd = create(&mut files, "f");
    put(&mut files, fd, 0, &[0; 8192]);
    sync(&mut files, fd);
    assert_eq!(fired(&files, FileFault::BitRot), (1, 1));
    assert_eq!(
        read(&mut files, "f"),
        Some(vec![0; 8192]),
        "it is in memory"
    );
    cut(&mut files);
    let bytes = read(&mut files, "f").expect("it is durable");
    assert_eq!(bytes[4100], 8);
    assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), 1);
}

/// Goal: faults by chance come as often as asked, between their bounds, and the script of what fired makes the same happen again. Method: many reads,
/// counted; then the same calls with that script.
#[test]
fn chance_is_counted_and_replays_as_a_script() {
    let run = |files: &mut FileSystem| {
        let fd = create(files, "f");
        let mut results = vec![files.write_at(fd, 0, &[1; 5000])];
        let mut buffer = [0; 5000];
        for round in 0..400 {
            results.push(files.read_at(fd, 0, &mut buffer));
            results.push(files.write_at(fd, round, &[2; 100]));
        }
        results
    };
    let mut files = with_faults(FileFaults {
        read_error: 0.1,
        short_write: 0.2,
        after_op: 100,
        ..FileFaults::default()
    });
    let results = run(&mut files);
    let (possible, reads) = fired(&files, FileFault::ReadError);
    assert_eq!(possible, 400);
    assert!((20..60).contains(&reads), "{reads} of 350 at 0.1");
    assert!((40..110).contains(&fired(&files, FileFault::ShortWrite).1));
    assert!(files.fired_script().iter().all(|fault| fault.op >= 100));
    let script = files.fired_script().to_vec();
    let mut again = with_faults(FileFaults::default().scripted(script.clone()));
    assert_eq!(run(&mut again), results);
    assert_eq!(again.fired_script(), &script[..]);
    let mut few = with_faults(FileFaults {
        read_error: 1.0,
        max_fired: 3,
        ..FileFaults::default()
    });
    run(&mut few);
    assert_eq!(fired(&few, FileFault::ReadError).1, 3);
}

/// Goal: switching one fault off does not move another. Method: the calls that fail, with and without a second kind.
#[test]
fn kinds_of_faults_do_not_move_each_other() {
    let failing = |short_read| {
        let mut files = with_faults(FileFaults {
            read_error: 0.2,
            short_read,
            ..FileFaults::default()
        });
        let fd = durable(&mut files, "f", &[1; 100]);
        for _ in 0..200 {
            let _ = files.read_at(fd, 0, &mut [0; 100]);
        }
        let errors = files
            .fired_script()
            .iter()
            .filter(|fault| fault.kind == FileFault::ReadError);
        errors.map(|fault| fault.op).collect::<Vec<_>>()
    };
    assert_eq!(failing(0.0), failing(0.5));
    assert!(failing(0.0).len() > 20);
}

/// Goal: cuts are counted: losses, reorderings, torn pages, cuts in a sync. Method: drawn states of a few writes.
#[test]
fn cuts_are_counted() {
    let mut files = with_faults(FileFaults::default());
    let fd = durable(&mut files, "f", &[1; 16384]);
    let mut seen = kvsim_fs::FileFaultCounts::default();
    for _ in 0..100 {
        let mut cut = files.clone();
        put(&mut cut, fd, 0, &[2; 16384]);
        cut.note_moments(true);
        assert_eq!(cut.sync(fd, SyncKind::Full), Ok(()));
        let mut cut = cut.take_moments().swap_remove(0).files;
        assert!(cut.is_syncing());
        for _ in 0..seen.get(FileFault::Loss).possible {
            cut.draw_crash();
        }
        let state = cut.draw_crash();
        cut.crash(0, CrashKind::Power, &state)
            .expect("it was drawn");
        let mut counts = *cut.counts();
        std::mem::swap(&mut counts, &mut seen);
        seen.add(&counts);
    }
    for kind in [FileFault::Loss, FileFault::Reorder, FileFault::Torn] {
        let count = seen.get(kind);
        assert_eq!(count.possible, 100, "{}", kind.name());
        assert!(
            (10..100).contains(&count.fired),
            "{}: {count:?}",
            kind.name()
        );
    }
    assert_eq!(seen.get(FileFault::CutInSync).fired, 100);
}

/// Goal: space is limited, partly written, and comes back. Method: a file system of eight pages.
#[test]
fn space_is_limited_and_comes_back() {
    let config = FileConfig {
        capacity_bytes: 8 * 4096,
        ..FileConfig::default()
    };
    let mut files = FileSystem::new(&config, 1).expect("a configuration");
    let fd = create(&mut files, "f");
    assert_eq!(files.write(fd, &[1; 5 * 4096]), Ok(5 * 4096));
    assert_eq!(files.free_bytes(), Some(3 * 4096));
    let other = create(&mut files, "g");
    assert_eq!(
        files.write(other, &[1; 5 * 4096]),
        Ok(3 * 4096),
        "as much as there is room for"
    );
    assert_eq!(files.write(other, &[1; 10]), Err(Errno::NoSpace));
    assert_eq!(
        files.write_at(fd, 100, &[1; 10]),
        Ok(10),
        "an overwrite needs no space"
    );
    assert_eq!(files.allocate(fd, 0, 6 * 4096), Err(Errno::NoSpace));
    assert_eq!(files.set_size(fd, 1 << 20), Ok(()), "a hole needs no space");
    files.unlink(ROOT_FD, b"g").expect("it is there");
    assert_eq!(files.free_bytes(), Some(0), "it is still open");
    files.close(other).expect("it is open");
    assert_eq!(files.free_bytes(), Some(3 * 4096));
    assert_eq!(files.allocate(fd, 1 << 20, 4096), Ok(()));
    assert_eq!(files.set_size(fd, 4096), Ok(()));
    assert_eq!(files.free_bytes(), Some(7 * 4096));
    sync(&mut files, fd);
    sync(&mut files, ROOT_FD);
    cut(&mut files);
    assert_eq!(files.free_bytes(), Some(7 * 4096));
}
