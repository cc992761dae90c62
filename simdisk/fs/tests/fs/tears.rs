//! Sectors that a power cut tears in the middle: `files.faults.byte_tear`.

use std::collections::BTreeSet;

use crate::common::{durable, put};
use kvsim_fs::{
    CrashError, CrashKind, CrashState, Fd, FileConfig, FileFault, FileFaults, FileSystem,
    Persisted, ROOT_FD, Sectors,
};

/// A file system whose power cuts tear pages, and with this probability within a sector.
fn files(profile: &str, byte_tear: f64) -> FileSystem {
    let faults = FileFaults {
        torn: 1.0,
        byte_tear,
        ..FileFaults::default()
    };
    let config = FileConfig {
        faults,
        ..FileConfig::with_profile(profile)
    };
    FileSystem::new(&config, 1).expect("a configuration")
}

/// A file of a page of 1, of which the cut may tear what is written next.
fn with_a_page(byte_tear: f64) -> (FileSystem, Fd) {
    let mut files = files("posix", byte_tear);
    let fd = durable(&mut files, "f", &[1; 4096]);
    (files, fd)
}

fn torn(id: u64, kept: &[u64], sector: u64, byte: u64) -> Persisted {
    let sectors = Sectors::Torn {
        kept: kept.to_vec(),
        garbage: None,
        torn_at: Some((sector, byte)),
        unreadable: None,
    };
    Persisted { id, sectors }
}

/// What the page holds after a power cut that leaves this.
fn page_after(files: &FileSystem, persisted: &[Persisted]) -> Vec<u8> {
    let state = CrashState {
        persisted: persisted.to_vec(),
    };
    let mut files = files.clone();
    files.crash(0, CrashKind::Power, &state).expect("it can");
    let fd = files.open(ROOT_FD, b"f", &kvsim_fs::OpenHow::READ);
    let mut bytes = vec![0; 4096];
    let count = files.read_at(fd.expect("it is there"), 0, &mut bytes);
    assert_eq!(count, Ok(4096));
    bytes
}

/// Goal: a sector is new up to the byte and old after it, also where a write touches only some of its page's sectors. Method: an overwrite of sectors 2 to 4, with the second of them
/// torn and the last one kept.
#[test]
fn a_sector_is_new_up_to_a_byte() {
    let (mut files, fd) = with_a_page(1.0);
    put(&mut files, fd, 1024, &[2; 1536]);
    let id = files.pending()[0].id;
    let mut expected = vec![1; 4096];
    expected[1536..1546].fill(2);
    expected[2048..2560].fill(2);
    assert_eq!(page_after(&files, &[torn(id, &[2], 1, 10)]), expected);
    let all = page_after(&files, &[Persisted::whole(id)]);
    assert_eq!(all.iter().filter(|byte| **byte == 2).count(), 1536);
}

/// Goal: of two overwrites of a sector the later one may be torn over the earlier one, and over what was there before both; and an earlier one that is torn lies below no later one.
#[test]
fn a_tear_lies_over_either_version() {
    let (mut files, fd) = with_a_page(1.0);
    put(&mut files, fd, 0, &[2; 512]);
    put(&mut files, fd, 0, &[3; 512]);
    let [one, two] = files.pending() else {
        panic!("{:?}", files.pending());
    };
    let (one, two) = (one.id, two.id);
    let at = |persisted: &[Persisted]| {
        let page = page_after(&files, persisted);
        (page[19], page[20], page[512])
    };
    let both = [Persisted::whole(one), torn(two, &[], 0, 20)];
    assert_eq!(at(&both), (3, 2, 1));
    assert_eq!(at(&[torn(two, &[], 0, 20)]), (3, 1, 1));
    assert_eq!(at(&[torn(one, &[], 0, 20)]), (2, 1, 1));
    let state = CrashState {
        persisted: vec![torn(one, &[], 0, 20), Persisted::whole(two)],
    };
    let needs = CrashError::Needs {
        id: two,
        needs: one,
    };
    assert_eq!(files.check_crash(&state), Err(needs));
}

/// Goal: what cannot be is refused: the fault is off, the sector is kept as well, byte or sector are outside it, a page that the profile writes whole.
#[test]
fn a_tear_that_cannot_be_is_refused() {
    let check = |profile: &str, byte_tear, persisted: fn(u64) -> Persisted| {
        let mut files = files(profile, byte_tear);
        let fd = durable(&mut files, "f", &[1; 4096]);
        put(&mut files, fd, 0, &[2; 1024]);
        let data = files.pending().iter().find(|step| step.kind.is_data());
        let state = CrashState {
            persisted: vec![persisted(data.expect("it is pending").id)],
        };
        files.check_crash(&state)
    };
    let wrong = |result| matches!(result, Err(CrashError::NotTearable { .. }));
    assert_eq!(check("posix", 1.0, |id| torn(id, &[1], 0, 511)), Ok(()));
    assert!(wrong(check("posix", 0.0, |id| torn(id, &[1], 0, 511))));
    assert!(wrong(check("posix", 1.0, |id| torn(id, &[0], 0, 511))));
    assert!(wrong(check("posix", 1.0, |id| torn(id, &[], 0, 512))));
    assert!(wrong(check("posix", 1.0, |id| torn(id, &[], 0, 0))));
    assert!(wrong(check("posix", 1.0, |id| torn(id, &[], 2, 9))));
    assert!(wrong(check("ext4_journal", 1.0, |id| torn(id, &[], 0, 9))));
    let faults = FileFaults {
        torn: 0.0,
        byte_tear: 0.5,
        ..FileFaults::default()
    };
    let config = FileConfig {
        faults,
        ..FileConfig::default()
    };
    let error = FileSystem::new(&config, 1).map(drop).expect_err("no tears");
    assert_eq!(
        error.to_string(),
        "`files.faults.byte_tear` affects torn pages only; give `files.faults.torn` a probability too"
    );
}

/// Goal: cuts draw such tears, of one sector too, often in the header, and each that is drawn is possible and counted. Without the fault one sector is never torn, and other draws
/// are what they were. Method: 400 cuts of an overwrite of one sector, and of eight.
#[test]
fn cuts_draw_tears_within_a_sector() {
    for sectors in [1_u64, 8] {
        let drawn = |byte_tear| {
            let (mut files, fd) = with_a_page(byte_tear);
            let len = usize::try_from(sectors * 512).expect("a page at most");
            put(&mut files, fd, 0, &vec![2; len]);
            let mut bytes = BTreeSet::new();
            let mut kept = Vec::new();
            let mut fired = 0;
            for _ in 0..400 {
                let state = files.draw_crash();
                let mut cut = files.clone();
                cut.crash(0, CrashKind::Power, &state)
                    .expect("it was drawn");
                fired += cut.counts().get(FileFault::ByteTear).fired;
                for it in &state.persisted {
                    let Sectors::Torn {
                        kept: new, torn_at, ..
                    } = &it.sectors
                    else {
                        continue;
                    };
                    bytes.extend(*torn_at);
                    kept.push(new.clone());
                }
            }
            (bytes, kept, fired)
        };
        let (bytes, _, fired) = drawn(1.0);
        assert!(fired > 80, "{fired} of 400");
        let in_header = bytes
            .iter()
            .filter(|(sector, byte)| *sector == 0 && *byte <= 64);
        assert!((20..=64).contains(&in_header.count()), "{bytes:?}");
        assert!(
            bytes
                .iter()
                .all(|(sector, byte)| *sector < sectors && (1..512).contains(byte))
        );
        let (none, kept, fired) = drawn(0.0);
        assert!(none.is_empty() && fired == 0);
        assert_eq!(kept.is_empty(), sectors == 1);
    }
}
