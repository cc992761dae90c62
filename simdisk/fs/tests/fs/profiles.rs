//! Profiles and tables as text, the price of calls, the files written elsewhere, and the same seed giving the same.

use std::io;

use crate::common::{create, durable, files, put, sync};
use kvsim_crash::rng::{Purpose, Rng};
use kvsim_crash::{LatencyConfig, TimingConfig};
use kvsim_fs::{
    CrashKind, FileConfig, FileSystem, OpenHow, Profile, ROOT_FD, Rules, Sink, SyncKind,
};

/// Goal: every profile that comes with kvsim can be read, says its sources, and goes through text unchanged.
#[test]
fn profiles_are_found_by_name_and_name_their_sources() {
    assert_eq!(Profile::names().count(), 10);
    for name in Profile::names() {
        let rules = crate::common::rules(name);
        let text = Profile::text(name).expect("it is embedded");
        assert!(text.contains("# Sources:"), "{name}");
        let again: Rules = toml::from_str(&toml::to_string(&rules).expect("text")).expect("rules");
        assert_eq!(again, rules, "{name}");
    }
}

fn config_error(text: &str) -> String {
    match toml::from_str::<FileConfig>(text) {
        Err(error) => error.to_string(),
        Ok(config) => match config.validate() {
            Err(error) => error.to_string(),
            Ok(_) => panic!("this is no error: {text}"),
        },
    }
}

/// Goal: what is wrong is said with the name of the field and what would be right.
#[test]
fn wrong_tables_are_refused_with_the_field() {
    for (text, expected) in [
        ("profile = \"ext5\"", "the profiles are posix, ext4_ordered"),
        ("profle = \"posix\"", "unknown field `profle`"),
        (
            "profile = { torn_pages = true }",
            "unknown field `torn_pages`",
        ),
        (
            "profile = { durable_at = \"never\" }",
            "unknown variant `never`",
        ),
        (
            "profile = { durable_at = \"sync\" }",
            "missing field `call_order`",
        ),
        ("capacity_bytes = 100", "multiple of the page (4096)"),
        ("open_files_max = 0", "`files.open_files_max`"),
        ("file_bytes_max = 99999999999999", "`files.file_bytes_max`"),
        (
            "faults = { sync_error = 2.0 }",
            "`files.faults.sync_error` is 2",
        ),
        ("faults = { syncerror = 2.0 }", "unknown field `syncerror`"),
        (
            "faults = { script = [{ op = 1, kind = \"torn\" }] }",
            "belongs to power cuts",
        ),
        (
            "faults = { script = [{ op = 1, kind = \"bit_rot\", bit = 8 }] }",
            "`files.faults.script[0].bit`",
        ),
        (
            "faults = { script = [{ op = 1, kind = \"short_read\", bytes = 0 }] }",
            "at least one byte",
        ),
        ("pending_steps_max = 1", "`files.pending_steps_max`"),
    ] {
        let error = config_error(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let config: FileConfig = toml::from_str("").expect("all has defaults");
    assert_eq!(config, FileConfig::default());
    let table = format!("profile = {{ {} }}", {
        let text = toml::to_string(&crate::common::rules("xfs")).expect("text");
        let value: toml::Table = toml::from_str(&text).expect("a table");
        let fields = value.iter().map(|(key, value)| format!("{key} = {value}"));
        fields.collect::<Vec<_>>().join(", ")
    });
    let config: FileConfig = toml::from_str(&table).expect("a table of rules");
    assert_eq!(
        config.validate().expect("rules"),
        crate::common::rules("xfs")
    );
    assert_eq!(config.profile.name(), "custom");
}

/// Goal: a sync costs its data, the journal's commit where there is one, and a flush; reads cost what is not in memory. Method: constant latencies.
#[test]
fn calls_have_their_price() {
    let timing = TimingConfig {
        read: LatencyConfig::fixed(100),
        write: LatencyConfig::fixed(1_000),
        flush: LatencyConfig::fixed(1_000_000),
        read_bytes_per_second: 0,
        write_bytes_per_second: 0,
        ..TimingConfig::default()
    };
    let price = |profile: &str| {
        let config = FileConfig {
            timing: timing.clone(),
            call_ns: 7,
            ..FileConfig::with_profile(profile)
        };
        let mut files = FileSystem::new(&config, 1).expect("a configuration");
        let fd = create(&mut files, "f");
        put(&mut files, fd, 0, &[1; 10_000]);
        assert_eq!(files.take_elapsed_ns(), 14, "calls that only touch memory");
        sync(&mut files, fd);
        let first = files.take_elapsed_ns();
        put(&mut files, fd, 0, &[1; 10_000]);
        files.take_elapsed_ns();
        sync(&mut files, fd);
        let overwrite = files.take_elapsed_ns();
        sync(&mut files, fd);
        (first, overwrite, files.take_elapsed_ns())
    };
    // Data, journal, flush before the commit, flush; an overwrite has no metadata; the last one has nothing but the flush.
    let ext4 = (
        7 + 1_000 + 1_000 + 2_000_000,
        7 + 1_000 + 1_000_000,
        7 + 1_000_000,
    );
    assert_eq!(price("ext4_ordered"), ext4);
    assert_eq!(
        price("posix").0,
        7 + 1_000 + 1_000 + 1_000_000,
        "no commit of a journal"
    );
    assert_eq!(price("apfs_fsync").2, 7, "no flush reaches the medium");
    let config = FileConfig {
        timing,
        call_ns: 0,
        ..FileConfig::default()
    };
    let mut files = FileSystem::new(&config, 1).expect("a configuration");
    durable(&mut files, "f", &[1; 8192]);
    let none = kvsim_fs::CrashState::default();
    files
        .crash(5, CrashKind::Power, &none)
        .expect("nothing is pending");
    let fd = files
        .open(ROOT_FD, b"f", &OpenHow::READ)
        .expect("it is durable");
    let mut take = |offset| {
        files.read_at(fd, offset, &mut [0; 100]).expect("no fault");
        files.take_elapsed_ns()
    };
    assert_eq!(
        [take(0), take(200), take(5000), take(4000)],
        [100, 0, 100, 0]
    );
}

/// A list of what a sink was given.
#[derive(Default)]
struct List(Vec<String>);

impl Sink for List {
    fn directory(&mut self, path: &[u8]) -> io::Result<()> {
        self.0.push(format!("directory {}", path.escape_ascii()));
        Ok(())
    }
    fn file(&mut self, path: &[u8], size: u64) -> io::Result<()> {
        self.0.push(format!("file {} {size}", path.escape_ascii()));
        Ok(())
    }
    fn bytes(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.push(format!("{} bytes at {offset}", bytes.len()));
        Ok(())
    }
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> io::Result<()> {
        self.0.push(format!(
            "symlink {} {}",
            path.escape_ascii(),
            target.escape_ascii()
        ));
        Ok(())
    }
    fn link(&mut self, path: &[u8], of: &[u8]) -> io::Result<()> {
        self.0.push(format!(
            "link {} {}",
            path.escape_ascii(),
            of.escape_ascii()
        ));
        Ok(())
    }
}

/// Goal: all files are written out, in an order in which they can be made. Method: one of each kind.
#[test]
fn files_are_written_out() {
    let mut files = files("ext4_ordered");
    files.create_directory(ROOT_FD, b"d").expect("it is free");
    let fd = create(&mut files, "d/f");
    put(&mut files, fd, 12_288, b"end");
    put(&mut files, fd, 0, b"begin");
    files
        .link(ROOT_FD, b"d/f", false, ROOT_FD, b"e")
        .expect("it is free");
    files.symlink(b"d/f", ROOT_FD, b"s").expect("it is free");
    create(&mut files, "gone");
    files.unlink(ROOT_FD, b"gone").expect("it is there");
    let mut list = List::default();
    files.write_out(&mut list).expect("a list takes all");
    assert_eq!(
        list.0,
        [
            "directory d",
            "file d/f 12291",
            "4096 bytes at 0",
            "3 bytes at 12288",
            "link e d/f",
            "symlink s d/f",
        ]
    );
}

/// A run of calls, cuts and drawn states.
fn run(profile: &str, seed: u64) -> u128 {
    let mut config = FileConfig::with_profile(profile);
    config.faults.sync_error = 0.05;
    config.faults.short_write = 0.05;
    config.faults.bit_rot = 0.02;
    let mut files = FileSystem::new(&config, seed).expect("a configuration");
    let mut rng = Rng::new(seed, Purpose::Test);
    let mut hash = 0_u128;
    for round in 0..300_u64 {
        let name = format!("f{}", rng.below(5));
        let fd = create(&mut files, &name);
        let mut bytes = vec![0; 100 + usize::try_from(rng.below(9000)).expect("small")];
        rng.fill_bytes(&mut bytes);
        let _ = files.write_at(fd, rng.below(20_000), &bytes);
        match rng.below(6) {
            0..=2 => drop(files.sync(fd, SyncKind::Full)),
            3 => drop(files.rename(ROOT_FD, name.as_bytes(), ROOT_FD, b"f0")),
            4 => drop(files.unlink(ROOT_FD, name.as_bytes())),
            _ => drop(files.sync(ROOT_FD, SyncKind::Full)),
        }
        files.close(fd).expect("it is open");
        if round % 10 == 9 {
            let state = files.draw_crash();
            let after = files.image_hash_after(&state);
            let now = files.take_elapsed_ns();
            files
                .crash(now, CrashKind::Power, &state)
                .expect("it was drawn");
            assert_eq!(after, Some(files.image_hash()));
        }
        hash = hash.rotate_left(7) ^ files.image_hash() ^ u128::from(files.take_elapsed_ns());
    }
    hash
}

/// Goal: threads may share and move copies. Method: the compiler.
#[test]
fn copies_may_go_to_other_threads() {
    fn holds<T: Send + Sync + Clone>(_: &T) {}
    holds(&files("posix"));
}

/// Goal: the same seed gives the same hashes, here and elsewhere, today and later. Method: a run twice, another seed, and numbers that were seen before.
#[test]
fn the_same_seed_gives_the_same_hashes() {
    for profile in Profile::names() {
        assert_eq!(run(profile, 1), run(profile, 1), "{profile}");
    }
    assert_ne!(run("posix", 1), run("posix", 2));
    assert_ne!(run("posix", 1), run("ext4_ordered", 1));
    let seen = [run("posix", 1), run("btrfs", 1)];
    assert_eq!(
        seen,
        [
            323_872_108_717_723_434_214_404_707_248_741_827_554,
            201_296_055_373_722_940_843_597_995_977_419_419_310,
        ],
        "these were seen when the test was written"
    );
}
