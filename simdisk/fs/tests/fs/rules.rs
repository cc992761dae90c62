//! Each rule bites: a state that the weaker rule allows and the stronger one does not. And what each profile allows, as one table.

use crate::common::{create, durable, make_durable, outcomes, put, read, rules, sync, with_rules};
use kvsim_fs::{
    CallOrder, DurableAt, FileConfig, FileSystem, OpenHow, Profile, ROOT_FD, Reach, Rules,
    StaleBlocks, StaleContents, SyncCommits,
};

const A: [u8; 4096] = [1; 4096];
const B: [u8; 4096] = [2; 4096];

/// What is done, and what a rule is there to prevent.
struct Case {
    name: &'static str,
    run: fn(&mut FileSystem),
    is_bad: fn(&mut FileSystem) -> bool,
}

fn content(files: &mut FileSystem, path: &str) -> Option<Vec<u8>> {
    read(files, path)
}

fn has(files: &mut FileSystem, path: &str) -> bool {
    read(files, path).is_some()
}

fn rename(files: &mut FileSystem, from: &str, to: &str) {
    let done = files.rename(ROOT_FD, from.as_bytes(), ROOT_FD, to.as_bytes());
    assert_eq!(done, Ok(()));
}

const CASES: [Case; 17] = [
    Case {
        name: "a write is lost",
        run: |files| {
            let fd = durable(files, "f", &A);
            put(files, fd, 0, &B);
        },
        is_bad: |files| content(files, "f") == Some(A.to_vec()),
    },
    Case {
        name: "a later name without an earlier one",
        run: |files| {
            create(files, "a");
            create(files, "b");
        },
        is_bad: |files| has(files, "b") && !has(files, "a"),
    },
    Case {
        name: "a later name without earlier data",
        run: |files| {
            let fd = durable(files, "f", &A);
            put(files, fd, 0, &B);
            create(files, "g");
        },
        is_bad: |files| has(files, "g") && content(files, "f") == Some(A.to_vec()),
    },
    Case {
        name: "a synced name without an earlier one",
        run: |files| {
            create(files, "a");
            let fd = create(files, "b");
            sync(files, fd);
        },
        is_bad: |files| has(files, "b") && !has(files, "a"),
    },
    Case {
        name: "a synced file without earlier data of another",
        run: |files| {
            let other = durable(files, "f", &A);
            put(files, other, 0, &B);
            let fd = create(files, "g");
            put(files, fd, 0, &B);
            sync(files, fd);
        },
        is_bad: |files| {
            content(files, "g") == Some(B.to_vec()) && content(files, "f") == Some(A.to_vec())
        },
    },
    Case {
        name: "synced data are lost",
        run: |files| {
            let fd = durable(files, "f", &A);
            put(files, fd, 0, &B);
            sync(files, fd);
        },
        is_bad: |files| content(files, "f") == Some(A.to_vec()),
    },
    Case {
        name: "a synced new file has no name",
        run: |files| {
            let fd = create(files, "f");
            sync(files, fd);
        },
        is_bad: |files| !has(files, "f"),
    },
    Case {
        name: "half of a rename",
        run: |files| {
            durable(files, "f", &A);
            rename(files, "f", "g");
        },
        is_bad: |files| has(files, "f") == has(files, "g"),
    },
    Case {
        name: "a renamed file is neither the old nor the new one",
        run: |files| {
            durable(files, "f", &A);
            let fd = create(files, "new");
            put(files, fd, 0, &B);
            rename(files, "new", "f");
        },
        is_bad: |files| ![Some(A.to_vec()), Some(B.to_vec())].contains(&content(files, "f")),
    },
    Case {
        name: "a truncated, closed file is empty before later names",
        run: |files| {
            durable(files, "f", &A);
            let how = OpenHow {
                truncate: true,
                ..OpenHow::READ_WRITE
            };
            let fd = files.open(ROOT_FD, b"f", &how).expect("it is there");
            put(files, fd, 0, &B);
            files.close(fd).expect("it is open");
            create(files, "g");
        },
        is_bad: |files| has(files, "g") && content(files, "f") != Some(B.to_vec()),
    },
    Case {
        name: "a later name without an earlier append",
        run: |files| {
            let fd = durable(files, "f", b"");
            put(files, fd, 0, &A);
            create(files, "g");
        },
        is_bad: |files| has(files, "g") && content(files, "f") == Some(Vec::new()),
    },
    Case {
        name: "a size without its data",
        run: |files| {
            let fd = durable(files, "f", b"");
            put(files, fd, 0, &A);
        },
        is_bad: |files| {
            let bytes = content(files, "f").expect("it is durable");
            !bytes.is_empty() && bytes != A
        },
    },
    Case {
        name: "a block shows what it held before",
        run: |files| {
            let fd = durable(files, "f", b"");
            files.set_size(fd, 4096).expect("it is open");
            make_durable(files);
            put(files, fd, 0, &A);
        },
        is_bad: |files| {
            let bytes = content(files, "f").expect("it is durable");
            bytes.iter().any(|byte| *byte > 1)
        },
    },
    Case {
        name: "the first data of a block are torn",
        run: |files| {
            let fd = durable(files, "f", b"");
            files.set_size(fd, 4096).expect("it is open");
            make_durable(files);
            put(files, fd, 0, &A);
        },
        is_bad: |files| {
            let bytes = content(files, "f").expect("it is durable");
            let sectors: Vec<&[u8]> = bytes.chunks(512).collect();
            sectors.contains(&&A[..512]) && bytes != A
        },
    },
    Case {
        name: "bytes that were cut off come back",
        run: |files| {
            let fd = durable(files, "f", &A[..1024]);
            files.set_size(fd, 512).expect("it is open");
            files.set_size(fd, 1536).expect("it is open");
        },
        is_bad: |files| {
            let bytes = content(files, "f").expect("it is durable");
            bytes.len() == 1536 && bytes[512] == 1
        },
    },
    Case {
        name: "a page is torn",
        run: |files| {
            let fd = durable(files, "f", &A);
            put(files, fd, 0, &B);
        },
        is_bad: |files| {
            let bytes = content(files, "f").expect("it is durable");
            bytes != A && bytes != B
        },
    },
    Case {
        name: "half of a directory's rename",
        run: |files| {
            files.create_directory(ROOT_FD, b"d").expect("it is free");
            files.create_directory(ROOT_FD, b"e").expect("it is free");
            make_durable(files);
            rename(files, "d", "e/d");
        },
        is_bad: |files| {
            let mut there = |path: &[u8]| files.stat_at(ROOT_FD, path, true).is_ok();
            there(b"d") == there(b"e/d")
        },
    },
];

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("a case")
}

fn is_possible(case: &Case, mut files: FileSystem) -> bool {
    (case.run)(&mut files);
    outcomes(&files, 8, case.is_bad).contains(&true)
}

/// The strongest rules in which no rule follows from another one.
fn strong() -> Rules {
    Rules {
        delayed_allocation: false,
        torn_page: false,
        ..rules("ext4_ordered")
    }
}

/// Goal: each rule prevents what it is there to prevent, and nothing else does. Method: strong rules against the same with one of them weakened.
#[test]
fn each_rule_bites() {
    type Weaken = fn(&mut Rules);
    let rules: [(&str, Weaken); 14] = [
        ("a later name without an earlier one", |it| {
            it.call_order = CallOrder::None
        }),
        ("a synced name without an earlier one", |it| {
            it.sync_commits = SyncCommits::OwnNames;
        }),
        ("synced data are lost", |it| it.fsync_reaches = Reach::Drive),
        ("a synced new file has no name", |it| {
            it.fsync_file_persists_entry = false
        }),
        ("half of a rename", |it| it.rename_atomic = false),
        ("a renamed file is neither the old nor the new one", |it| {
            it.rename_over_flushes = false;
        }),
        (
            "a truncated, closed file is empty before later names",
            |it| {
                it.close_after_truncate_flushes = false;
            },
        ),
        ("a later name without an earlier append", |it| {
            it.delayed_allocation = true
        }),
        ("a size without its data", |it| it.data_before_size = false),
        ("a block shows what it held before", |it| {
            it.stale_contents = StaleContents::Noise;
        }),
        ("the first data of a block are torn", |it| {
            it.unwritten_extents = false;
        }),
        ("bytes that were cut off come back", |it| {
            it.zero_tail = false
        }),
        ("a page is torn", |it| it.torn_page = true),
        ("a write is lost", |it| it.durable_at = DurableAt::Sync),
    ];
    for (name, weaken) in rules {
        let case = case(name);
        let mut stronger = strong();
        match name {
            // Two rules that only matter where another one is weak.
            "a truncated, closed file is empty before later names"
            | "a renamed file is neither the old nor the new one" => {
                stronger.delayed_allocation = true;
            }
            "the first data of a block are torn" => stronger.torn_page = true,
            "a write is lost" => stronger.durable_at = DurableAt::Write,
            _ => {}
        }
        let mut weaker = stronger.clone();
        weaken(&mut weaker);
        assert_ne!(stronger, weaker, "{name}");
        assert!(
            !is_possible(case, with_rules(&stronger)),
            "{name}: the rule prevents it"
        );
        assert!(
            is_possible(case, with_rules(&weaker)),
            "{name}: without the rule it happens"
        );
    }
    // The order of everything, against that of metadata; and the intent log against the journal.
    let everything = Rules {
        call_order: CallOrder::Everything,
        ..strong()
    };
    let data = case("a later name without earlier data");
    assert!(is_possible(data, with_rules(&strong())));
    assert!(!is_possible(data, with_rules(&everything)));
    let other = case("a synced file without earlier data of another");
    assert!(!is_possible(other, with_rules(&everything)));
    let intent_log = Rules {
        sync_commits: SyncCommits::AllNames,
        ..everything
    };
    assert!(is_possible(other, with_rules(&intent_log)));
    assert!(!is_possible(
        case("a synced name without an earlier one"),
        with_rules(&intent_log)
    ));
}

/// What each profile allows: one column for each, in the order of [`Profile::names`]: posix, ext4_ordered, ext4_writeback, ext4_journal, xfs,
/// btrfs, zfs, apfs_full_fsync, apfs_fsync, process_kill.
const TABLE: [(&str, &str); CASES.len()] = [
    ("a write is lost", "xxxxxxxxx."),
    ("a later name without an earlier one", "x........."),
    ("a later name without earlier data", "xxx.xx.xx."),
    ("a synced name without an earlier one", "x....x...."),
    (
        "a synced file without earlier data of another",
        "xxx.xxxxx.",
    ),
    ("synced data are lost", "........x."),
    ("a synced new file has no name", "x.......x."),
    ("half of a rename", "x........."),
    (
        "a renamed file is neither the old nor the new one",
        "x.x.xx.xx.",
    ),
    (
        "a truncated, closed file is empty before later names",
        "x.x.xx.xx.",
    ),
    ("a later name without an earlier append", "xxx.xx.xx."),
    ("a size without its data", "x.x......."),
    ("a block shows what it held before", "x.x......."),
    ("the first data of a block are torn", "x.x......."),
    ("bytes that were cut off come back", "x........."),
    ("a page is torn", "xxx.x....."),
    ("half of a directory's rename", ".........."),
];

/// Goal: the profiles differ as their documentation says. Method: each case on each profile, against a table that was filled in by hand.
#[test]
fn each_profile_allows_what_the_table_says() {
    let mut wrong = Vec::new();
    for (name, row) in TABLE {
        for (profile, letter) in Profile::names().zip(row.chars()) {
            let possible = is_possible(case(name), with_rules(&rules(profile)));
            if possible != (letter == 'x') {
                wrong.push(format!("{name} on {profile}: {possible}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Goal: the book has the same table. Method: read it from the book's page.
#[test]
fn the_book_has_the_same_table() {
    let page = include_str!("../../../../book/src/files-profiles.md");
    let mut lines = page
        .lines()
        .skip_while(|line| !line.starts_with("| case |"));
    let names: Vec<String> = Profile::names()
        .map(|name| name.replace('_', " "))
        .collect();
    let header = lines.next().expect("the table");
    assert_eq!(header, format!("| case | {} |", names.join(" | ")));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows: Vec<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let letters = cells[2..cells.len() - 1].iter();
            letters
                .map(|cell| if *cell == "x" { 'x' } else { '.' })
                .collect()
        })
        .collect();
    // The last case is possible nowhere and is not in the book.
    let expected: Vec<&str> = TABLE[..TABLE.len() - 1]
        .iter()
        .map(|(_, row)| *row)
        .collect();
    assert_eq!(rows, expected);
}

/// Goal: every profile differs from every other one in these cases. Method: compare the columns.
#[test]
fn profiles_are_told_apart() {
    let count = Profile::names().count();
    let column = |at: usize| -> String {
        let letters = TABLE.iter().map(|(_, row)| row.as_bytes()[at] as char);
        letters.collect()
    };
    for one in 0..count {
        for two in one + 1..count {
            assert_ne!(column(one), column(two), "{one} and {two}");
        }
    }
}

/// Goal: the block of a new file shows what a removed file left in it where the rules say so, and noise where they say that; a scenario can ask for either.
/// Method: a file is removed for good, and a crash comes while another is written.
#[test]
fn a_block_that_was_given_up_is_shown() {
    let shows_the_old = |profile: &str, stale_blocks| {
        let config = FileConfig {
            stale_blocks,
            ..FileConfig::with_profile(profile)
        };
        let mut files = FileSystem::new(&config, 1).expect("a configuration");
        let old = durable(&mut files, "old", &A);
        files.close(old).expect("it is open");
        files.unlink(ROOT_FD, b"old").expect("it is there");
        make_durable(&mut files);
        let fd = durable(&mut files, "new", b"");
        files.set_size(fd, 4096).expect("it is open");
        make_durable(&mut files);
        put(&mut files, fd, 0, &B);
        let found = outcomes(&files, 8, |files| content(files, "new"));
        found.contains(&Some(A.to_vec()))
    };
    for (profile, by_itself) in [("posix", false), ("ext4_writeback", true)] {
        assert_eq!(shows_the_old(profile, None), by_itself, "{profile}");
        assert!(
            shows_the_old(profile, Some(StaleBlocks::GivenUp)),
            "{profile}"
        );
        assert!(
            !shows_the_old(profile, Some(StaleBlocks::Noise)),
            "{profile}"
        );
    }
    assert!(!shows_the_old("ext4_ordered", Some(StaleBlocks::GivenUp)));
}
