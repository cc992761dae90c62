//! Versions of a page that become durable in another order than they were made.

use crate::common::{create, durable, files, put, sync};
use kvsim_fs::{
    CrashError, CrashState, FileSystem, OpenHow, Persisted, Profile, ROOT_FD, SyncKind,
};

/// Whether a power cut that loses nothing leaves what callers see.
fn loses_nothing(files: &FileSystem) -> bool {
    let persisted = files.pending().iter().map(|step| Persisted::whole(step.id));
    let all = CrashState {
        persisted: persisted.collect(),
    };
    files.image_hash_after(&all) == Some(files.image_hash())
}

/// Goal: an earlier version of a page never comes over a later one. The sectors behind a new end were zeroed and became durable with the size; an overwrite of other sectors,
/// made before, is still pending. Method: the overwrite persists too; and one more overwrite after it does. A run of 1,000,000 random calls found this.
#[test]
fn an_overwrite_leaves_sectors_that_became_durable_after_it() {
    let mut met = 0;
    for profile in Profile::names() {
        let mut files = files(profile);
        let log = durable(&mut files, "log", &[1; 8_192]);
        put(&mut files, log, 0, &[2; 512]);
        files.set_size(log, 3_574).expect("it shrinks");
        files.set_size(log, 20_000).expect("it grows");
        let other = create(&mut files, "other");
        sync(&mut files, other);
        let mut left = files.pending().iter();
        met += u32::from(left.any(|step| &*step.path == "log" && step.kind.is_data()));
        assert!(loses_nothing(&files), "{profile}");
        put(&mut files, log, 1_024, &[3; 512]);
        assert!(loses_nothing(&files), "{profile}, one more");
        sync(&mut files, log);
        assert!(loses_nothing(&files), "{profile}, all synced");
    }
    assert!(met > 0, "no profile keeps the overwrite pending");
}

/// Goal: a write of no bytes leaves the offset where it is, as Linux does, though the description appends. A run of 1,000,000 random calls found this.
#[test]
fn no_bytes_move_no_offset() {
    let mut files = files("posix");
    durable(&mut files, "log", &[1; 100]);
    let how = OpenHow {
        write: true,
        append: true,
        ..OpenHow::READ
    };
    let fd = files.open(ROOT_FD, b"log", &how).expect("it is there");
    assert_eq!(files.write(fd, &[]), Ok(0));
    assert_eq!(files.tell(fd), Ok(0));
    assert_eq!(files.write(fd, &[2]), Ok(1));
    assert_eq!(files.tell(fd), Ok(101));
}

/// Goal: a barrier between two overwrites of a page orders them though they touch other sectors, and what it covers is there whole. Method: an overwrite of four sectors, a
/// barrier, an overwrite of one other sector; then a second barrier, and a third overwrite.
#[test]
fn a_barrier_orders_overwrites_of_one_page() {
    let mut files = files("posix");
    let fd = durable(&mut files, "f", &[1; 4_096]);
    put(&mut files, fd, 0, &[2; 2_048]);
    files.sync(fd, SyncKind::Barrier).expect("no fault");
    put(&mut files, fd, 2_048, &[3; 512]);
    files.sync(fd, SyncKind::Barrier).expect("no fault");
    put(&mut files, fd, 4_000, &[4; 8]);
    let ids: Vec<u64> = files.pending().iter().map(|step| step.id).collect();
    let [one, two, three] = ids[..] else {
        panic!("{ids:?}");
    };
    let check = |persisted: &[Persisted]| {
        files.check_crash(&CrashState {
            persisted: persisted.to_vec(),
        })
    };
    let needs = |id, needs| Err(CrashError::Needs { id, needs });
    let whole = Persisted::whole;
    assert_eq!(check(&[whole(one)]), Ok(()));
    assert_eq!(check(&[Persisted::torn(one, vec![0, 3])]), Ok(()));
    assert_eq!(check(&[whole(two)]), needs(two, one));
    let torn = Persisted::torn(one, vec![0, 3]);
    assert_eq!(check(&[torn, whole(two)]), needs(two, one));
    assert_eq!(check(&[whole(one), whole(two)]), Ok(()));
    assert_eq!(check(&[whole(three)]), needs(three, one));
    assert_eq!(check(&[whole(one), whole(three)]), needs(three, two));
    assert_eq!(check(&[whole(one), whole(two), whole(three)]), Ok(()));
    assert_eq!(files.needs(three).collect::<Vec<_>>(), [one, two]);
}
