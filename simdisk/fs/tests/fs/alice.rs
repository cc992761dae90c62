//! The table of file systems in ALICE (Pillai et al., OSDI 2014, table 1), property by property.
//!
//! The paper names a property of a file system where its authors found a counterexample. What they found the model must allow. Where they found
//! none the model must not allow one, but for places where the sources of the file systems promise nothing; these stand in [`WEAKER`].

use crate::common::{create, durable, outcomes, put, read, sync};
use kvsim_fs::{FileSystem, OpenHow, ROOT_FD};

/// The columns of the paper that have a profile.
const COLUMNS: [&str; 5] = [
    "ext4_writeback",
    "ext4_ordered",
    "ext4_journal",
    "btrfs",
    "xfs",
];

/// Where the model is weaker than what the authors observed, and why.
const WEAKER: [(&str, &str); 5] = [
    // xfs_rename starts no write-back.
    ("[append, rename] before any", "xfs"),
    // xfs_release starts a write-back that the log does not wait for.
    ("O_TRUNC append before any", "xfs"),
    // Commit 8d875f95da43 of Linux, of the year of the paper, took the order away.
    ("[append, rename] before any", "btrfs"),
    ("O_TRUNC append before any", "btrfs"),
    // Without `flushoncommit` a commit does not wait for dirty data.
    ("overwrite before any", "btrfs"),
];

/// A property: what is done, and what must not be seen where it holds.
struct Property {
    name: &'static str,
    /// One letter for each column: `x` where the paper has a counterexample.
    broken: &'static str,
    run: fn(&mut FileSystem),
    is_bad: fn(&mut FileSystem) -> bool,
}

const A: u8 = 1;
const B: u8 = 2;
const BLOCK: usize = 4096;

fn block(value: u8) -> Vec<u8> {
    vec![value; BLOCK]
}

fn exists(files: &mut FileSystem, path: &str) -> bool {
    read(files, path).is_some()
}

/// Opens a file anew with its size set to 0.
fn open_truncated(files: &mut FileSystem, path: &str) -> kvsim_fs::Fd {
    let how = OpenHow {
        truncate: true,
        ..OpenHow::READ_WRITE
    };
    files
        .open(ROOT_FD, path.as_bytes(), &how)
        .expect("it is there")
}

/// Whether what follows the first `old` bytes of A is neither nothing nor all of `len` bytes of B.
fn is_partly_appended(files: &mut FileSystem, old: usize, len: usize) -> bool {
    let bytes = read(files, "f").expect("it is durable");
    let appended = &bytes[old..];
    !appended.is_empty() && (appended.len() != len || appended.iter().any(|byte| *byte != B))
}

const PROPERTIES: [Property; 13] = [
    Property {
        name: "single sector overwrite",
        broken: ".....",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 512, &[B; 512]);
        },
        is_bad: |files| {
            let bytes = read(files, "f").expect("it is durable");
            bytes[512..1024].iter().any(|byte| *byte != bytes[512])
        },
    },
    Property {
        name: "single sector append",
        broken: "x....",
        run: |files| {
            let fd = durable(files, "f", &[A; 512]);
            put(files, fd, 512, &[B; 512]);
        },
        is_bad: |files| is_partly_appended(files, 512, 512),
    },
    Property {
        name: "single block overwrite",
        broken: "xx..x",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 0, &block(B));
        },
        is_bad: |files| {
            let bytes = read(files, "f").expect("it is durable");
            bytes.iter().any(|byte| *byte != bytes[0])
        },
    },
    Property {
        name: "single block append",
        broken: "x....",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 4096, &block(B));
        },
        is_bad: |files| is_partly_appended(files, BLOCK, BLOCK),
    },
    Property {
        name: "multi-block append",
        broken: "xxxxx",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 4096, &[B; 3 * BLOCK]);
        },
        is_bad: |files| is_partly_appended(files, BLOCK, 3 * BLOCK),
    },
    Property {
        name: "multi-block prefix append",
        broken: "x....",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 4096, &[B; 3 * BLOCK]);
        },
        is_bad: |files| {
            let bytes = read(files, "f").expect("it is durable");
            bytes[BLOCK..].iter().any(|byte| *byte != B)
        },
    },
    Property {
        name: "directory operation",
        broken: ".....",
        run: |files| {
            durable(files, "f", &block(A));
            durable(files, "g", &block(B));
            files
                .rename(ROOT_FD, b"f", ROOT_FD, b"g")
                .expect("both are there");
        },
        is_bad: |files| {
            let (f, g) = (read(files, "f"), read(files, "g"));
            let before = f == Some(block(A)) && g == Some(block(B));
            let after = f.is_none() && g == Some(block(A));
            !before && !after
        },
    },
    Property {
        name: "overwrite before any",
        broken: "xx..x",
        run: |files| {
            let fd = durable(files, "f", &block(A));
            put(files, fd, 0, &block(B));
            create(files, "g");
        },
        is_bad: |files| exists(files, "g") && read(files, "f") != Some(block(B)),
    },
    Property {
        name: "[append, rename] before any",
        broken: "x....",
        run: |files| {
            durable(files, "f", &block(A));
            let fd = create(files, "new");
            put(files, fd, 0, &block(B));
            files
                .rename(ROOT_FD, b"new", ROOT_FD, b"f")
                .expect("both are there");
            create(files, "g");
        },
        is_bad: |files| exists(files, "g") && read(files, "f") != Some(block(B)),
    },
    Property {
        name: "O_TRUNC append before any",
        broken: "x....",
        run: |files| {
            durable(files, "f", &block(A));
            let fd = open_truncated(files, "f");
            put(files, fd, 0, &block(B));
            files.close(fd).expect("it is open");
            create(files, "g");
        },
        is_bad: |files| exists(files, "g") && read(files, "f") != Some(block(B)),
    },
    Property {
        name: "append before append of the same file",
        broken: "x....",
        run: |files| {
            let fd = durable(files, "f", b"");
            put(files, fd, 0, &block(A));
            put(files, fd, 4096, &block(B));
        },
        is_bad: |files| {
            let bytes = read(files, "f").expect("it is durable");
            bytes.len() > BLOCK && bytes[0] != A
        },
    },
    Property {
        name: "append before any",
        broken: "xx.xx",
        run: |files| {
            let fd = durable(files, "f", b"");
            put(files, fd, 0, &block(A));
            create(files, "g");
        },
        is_bad: |files| exists(files, "g") && read(files, "f") != Some(block(A)),
    },
    Property {
        name: "directory operation before any",
        broken: "...x.",
        run: |files| {
            create(files, "a");
            let fd = create(files, "b");
            // btrfs reorders them through the log of a sync.
            sync(files, fd);
        },
        is_bad: |files| exists(files, "b") && !exists(files, "a"),
    },
];

/// Goal: what ALICE found of each file system holds of its profile. Method: each property's calls, all crash states of them, and what must not be
/// seen. Pages are torn in all ways, but not where several blocks are written: there the blocks tell enough.
#[test]
fn the_table_of_file_systems_holds() {
    for property in &PROPERTIES {
        for (column, broken) in COLUMNS.iter().zip(property.broken.chars()) {
            let mut files = crate::common::files(column);
            (property.run)(&mut files);
            let several = ["multi", "append before append"];
            let several = several.iter().any(|start| property.name.starts_with(start));
            let tears = if several { 1 } else { 8 };
            let seen = outcomes(&files, tears, property.is_bad);
            let weaker = WEAKER.contains(&(property.name, column));
            let expected = broken == 'x' || weaker;
            assert_eq!(
                seen.contains(&true),
                expected,
                "{} on {column}: the paper says {broken}",
                property.name
            );
        }
    }
}

/// Goal: what no file system in the table promises, the weakest profile does not promise either; and what is lost nowhere is not lost where nothing
/// is. Method: each property of the table on `posix` and `process_kill`. Only a sector is atomic on `posix`.
#[test]
fn posix_breaks_all_but_the_sector_and_a_killed_process_none() {
    for property in &PROPERTIES {
        for (profile, keeps) in [("posix", "single sector overwrite"), ("process_kill", "")] {
            let mut files = crate::common::files(profile);
            (property.run)(&mut files);
            // A page of eight sectors that shows old contents has many tears; two of the sectors tell as much.
            let bad = outcomes(
                &files,
                if profile == "posix" { 2 } else { 8 },
                property.is_bad,
            );
            let block = property.name == "single block overwrite";
            let expected = profile == "posix" && property.name != keeps && !block;
            assert_eq!(
                bad.contains(&true),
                expected,
                "{} on {profile}",
                property.name
            );
        }
    }
    let mut files = crate::common::files("posix");
    (PROPERTIES[2].run)(&mut files);
    assert!(outcomes(&files, 8, PROPERTIES[2].is_bad).contains(&true));
}
