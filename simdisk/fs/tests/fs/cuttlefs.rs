//! What a failed fsync leaves, as CuttleFS found for each file system (Rebello et al., ATC 2020, table 1).

use crate::common::{create, durable, files, put, read, sync};
use kvsim_fs::{
    CrashKind, CrashState, Errno, Fd, FileFault, FileSystem, OpenHow, ROOT_FD, SyncKind,
};

/// The columns of the paper, by profile.
const COLUMNS: [&str; 4] = ["ext4_ordered", "ext4_journal", "xfs", "btrfs"];

const OLD: [u8; 4096] = [1; 4096];
const NEW: [u8; 4096] = [2; 4096];

/// A power cut that loses all that is pending.
fn cut(files: &mut FileSystem) {
    files
        .crash(0, CrashKind::Power, &CrashState::default())
        .expect("nothing is kept");
}

/// A durable block, overwritten, and a sync of it that fails.
fn fail(profile: &str) -> (FileSystem, Fd, Result<(), Errno>) {
    let mut files = files(profile);
    let fd = durable(&mut files, "f", &OLD);
    put(&mut files, fd, 0, &NEW);
    files.fail_nth(FileFault::SyncError, 0);
    let result = files.sync(fd, SyncKind::Full);
    assert_eq!(files.counts().get(FileFault::SyncError).fired, 1);
    (files, fd, result)
}

/// Goal: question 6 of the table. Method: a failed sync, and the next ones.
#[test]
fn the_error_comes_at_once_or_with_the_next_sync() {
    for profile in COLUMNS {
        let (mut files, fd, first) = fail(profile);
        let second = files.sync(fd, SyncKind::Full);
        let expected = match profile {
            "ext4_journal" => (Ok(()), Err(Errno::Io)),
            _ => (Err(Errno::Io), Ok(())),
        };
        assert_eq!((first, second), expected, "{profile}");
        assert_eq!(
            files.sync(fd, SyncKind::Full),
            Ok(()),
            "{profile}: it is reported once"
        );
    }
}

/// Goal: question 4 of the table. Method: a failed sync, one that works, a power cut: the page was clean, so the second sync wrote nothing.
#[test]
fn pages_are_marked_clean_so_a_second_sync_saves_nothing() {
    for profile in COLUMNS {
        let (mut files, fd, _) = fail(profile);
        let _ = files.sync(fd, SyncKind::Full);
        sync(&mut files, fd);
        cut(&mut files);
        assert_eq!(
            read(&mut files, "f").as_deref(),
            Some(&OLD[..]),
            "{profile}"
        );
    }
    let (mut files, fd, result) = fail("zfs");
    assert_eq!(result, Err(Errno::Io));
    sync(&mut files, fd);
    cut(&mut files);
    assert_eq!(
        read(&mut files, "f").as_deref(),
        Some(&NEW[..]),
        "zfs keeps the page dirty"
    );
}

/// Goal: question 5 of the table. Method: read after the failed sync.
#[test]
fn the_content_in_memory_is_kept_or_put_back() {
    for profile in COLUMNS {
        let (mut files, _, _) = fail(profile);
        let expected = match profile {
            "btrfs" => OLD,
            _ => NEW,
        };
        assert_eq!(
            read(&mut files, "f").as_deref(),
            Some(&expected[..]),
            "{profile}"
        );
    }
}

/// Goal: question 2 of the table. Method: a failed sync of a file that grew, and a power cut.
#[test]
fn metadata_persists_although_the_data_do_not() {
    for profile in COLUMNS {
        let mut files = files(profile);
        let fd = durable(&mut files, "f", &OLD);
        put(&mut files, fd, 4096, &NEW);
        files.fail_nth(FileFault::SyncError, 0);
        let _ = files.sync(fd, SyncKind::Full);
        cut(&mut files);
        let bytes = read(&mut files, "f").expect("it is durable");
        let expected = match profile {
            "btrfs" => OLD.to_vec(),
            _ => [OLD, [0; 4096]].concat(),
        };
        assert!(bytes == expected, "{profile}: {} bytes", bytes.len());
    }
}

/// Goal: question 10 of the table. Method: an engine goes on appending at its offset after the failed sync.
#[test]
fn appending_on_after_a_failed_sync_leaves_a_hole_where_the_file_is_put_back() {
    for profile in COLUMNS {
        let mut files = files(profile);
        let fd = durable(&mut files, "f", b"");
        assert_eq!(files.write(fd, &OLD), Ok(4096));
        files.fail_nth(FileFault::SyncError, 0);
        let _ = files.sync(fd, SyncKind::Full);
        let size = files.stat(fd).expect("it is open").size;
        assert_eq!(size, if profile == "btrfs" { 0 } else { 4096 }, "{profile}");
        assert_eq!(files.write(fd, &NEW), Ok(4096));
        let _ = files.sync(fd, SyncKind::Full);
        sync(&mut files, fd);
        let lived = read(&mut files, "f").expect("it is there");
        cut(&mut files);
        let bytes = read(&mut files, "f").expect("it is durable");
        if profile != "ext4_journal" {
            assert!(
                bytes == [[0; 4096], NEW].concat(),
                "{profile}: a hole and the second block"
            );
        }
        let expected = match profile {
            "btrfs" => [0; 4096],
            _ => OLD,
        };
        assert!(
            lived[..4096] == expected,
            "{profile}: what is seen before the cut"
        );
    }
}

/// Goal: an error of one block keeps no other block from being written. Method: many failed syncs of many blocks.
#[test]
fn other_pages_of_a_failed_sync_are_written() {
    let mut files = files("ext4_ordered");
    let fd = durable(&mut files, "f", &[1; 32 * 4096]);
    put(&mut files, fd, 0, &[2; 32 * 4096]);
    files.fail_nth(FileFault::SyncError, 0);
    assert_eq!(files.sync(fd, SyncKind::Full), Err(Errno::Io));
    assert_eq!(
        files.pending().iter().filter(|step| !step.dropped).count(),
        0
    );
    let lost = files.pending().len();
    assert!((1..32).contains(&lost), "{lost} of 32 pages");
    cut(&mut files);
    let bytes = read(&mut files, "f").expect("it is durable");
    let old = bytes.chunks(4096).filter(|page| page[0] == 1).count();
    assert_eq!(old, lost);
}

/// Goal: what is written again is saved, with all of its page. Method: after a failed sync another sector of the page is written and synced.
#[test]
fn writing_the_page_again_brings_what_was_given_up() {
    let (mut files, fd, _) = fail("xfs");
    put(&mut files, fd, 512, &[3; 512]);
    sync(&mut files, fd);
    cut(&mut files);
    let bytes = read(&mut files, "f").expect("it is durable");
    assert!(bytes[..512] == NEW[..512] && bytes[512..1024] == [3; 512]);
    assert!(bytes[1024..] == NEW[1024..]);
}

/// Goal: each open description learns of the error once (Linux, errseq). Method: three descriptors of two descriptions, and one opened later.
#[test]
fn each_description_learns_of_it_once() {
    let mut files = files("ext4_ordered");
    let one = durable(&mut files, "f", &OLD);
    let two = create(&mut files, "f");
    let same = files.duplicate(two).expect("it is open");
    put(&mut files, one, 0, &NEW);
    files.fail_nth(FileFault::SyncError, 0);
    assert_eq!(files.sync(one, SyncKind::Data), Err(Errno::Io));
    let later = files
        .open(ROOT_FD, b"f", &OpenHow::READ_WRITE)
        .expect("it is there");
    assert_eq!(files.sync(later, SyncKind::Full), Ok(()));
    assert_eq!(files.sync(same, SyncKind::Full), Err(Errno::Io));
    assert_eq!(files.sync(two, SyncKind::Full), Ok(()));
    assert_eq!(files.sync(one, SyncKind::Full), Ok(()));
}

/// Goal: no space at a sync leaves what a failed sync leaves. Method: the same with the other fault.
#[test]
fn no_space_at_a_sync_is_a_failed_sync() {
    let mut files = files("ext4_ordered");
    let fd = durable(&mut files, "f", &OLD);
    put(&mut files, fd, 0, &NEW);
    files.fail_nth(FileFault::NoSpaceSync, 0);
    assert_eq!(files.sync(fd, SyncKind::Full), Err(Errno::NoSpace));
    sync(&mut files, fd);
    cut(&mut files);
    assert_eq!(read(&mut files, "f").as_deref(), Some(&OLD[..]));
}
