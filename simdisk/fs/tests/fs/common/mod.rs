//! What tests of crashes share: a small engine's calls, and all that a power cut can leave.
use std::collections::BTreeSet;

use kvsim_fs::{
    CrashKind, CrashState, Fd, FileConfig, FileSystem, OpenHow, PendingStep, Persisted, Profile,
    ROOT_FD, Rules, Sectors, StaleBlocks, SyncKind,
};

/// A file system of this profile, with torn pages where the profile allows them.
pub(crate) fn files(profile: &str) -> FileSystem {
    FileSystem::new(&FileConfig::with_profile(profile), 1).expect("a configuration")
}

/// A file system of these rules.
pub(crate) fn with_rules(rules: &Rules) -> FileSystem {
    let config = FileConfig {
        profile: Profile::Table(Box::new(rules.clone())),
        stale_blocks: Some(StaleBlocks::Noise),
        ..FileConfig::default()
    };
    FileSystem::new(&config, 1).expect("a configuration")
}

/// The rules of a profile.
pub(crate) fn rules(profile: &str) -> Rules {
    Profile::Named(profile.to_owned())
        .rules()
        .expect("a profile")
}

/// Opens a file, and creates it if there is none.
pub(crate) fn create(files: &mut FileSystem, path: &str) -> Fd {
    files
        .open(ROOT_FD, path.as_bytes(), &OpenHow::CREATE)
        .expect("it can be created")
}

/// Writes all bytes.
pub(crate) fn put(files: &mut FileSystem, fd: Fd, offset: u64, bytes: &[u8]) {
    assert_eq!(files.write_at(fd, offset, bytes), Ok(bytes.len()));
}

/// Makes a durable file of these bytes.
pub(crate) fn durable(files: &mut FileSystem, path: &str, bytes: &[u8]) -> Fd {
    let fd = create(files, path);
    put(files, fd, 0, bytes);
    make_durable(files);
    fd
}

/// Makes all that is pending durable, whatever a sync of the profile reaches.
pub(crate) fn make_durable(files: &mut FileSystem) {
    while let Some(step) = files.pending().iter().find(|step| !step.dropped) {
        let id = step.id;
        assert!(files.harden_step(id) > 0);
    }
}

/// Syncs a file or directory.
pub(crate) fn sync(files: &mut FileSystem, fd: Fd) {
    assert_eq!(files.sync(fd, SyncKind::Full), Ok(()));
}

/// The bytes of a file, if there is one.
pub(crate) fn read(files: &mut FileSystem, path: &str) -> Option<Vec<u8>> {
    let fd = files.open(ROOT_FD, path.as_bytes(), &OpenHow::READ).ok()?;
    let size = files.stat(fd).expect("it is open").size;
    let mut bytes = vec![1; usize::try_from(size).expect("small")];
    let count = files.read_at(fd, 0, &mut bytes).expect("it can be read");
    assert_eq!(count, bytes.len());
    files.close(fd).expect("it is open");
    Some(bytes)
}

/// The ways for a step to persist. Pages of up to so many sectors are torn.
fn ways(files: &FileSystem, step: &PendingStep, tears_max: u64) -> Vec<Option<Sectors>> {
    let mut ways = vec![None];
    if step.dropped {
        return ways;
    }
    ways.push(Some(Sectors::All));
    if let Some(tears) = files.tears(step).filter(|tears| tears.sectors <= tears_max) {
        for bits in 1..(1_u64 << tears.sectors) - 1 {
            let kept = (0..tears.sectors)
                .filter(|at| bits >> at & 1 == 1)
                .collect();
            ways.push(Some(Persisted::torn(step.id, kept).sectors));
        }
    }
    ways
}

/// Whether a state keeps all that its steps need.
fn is_closed(files: &FileSystem, state: &CrashState) -> bool {
    let kept = |id: u64| {
        state
            .persisted
            .iter()
            .any(|persisted_write| persisted_write.id == id)
    };
    let mut needed = state
        .persisted
        .iter()
        .flat_map(|persisted_write| files.needs(persisted_write.id));
    needed.all(kept)
}

/// All states that a power cut now can leave, found by asking for each combination of steps.
pub(crate) fn states(files: &FileSystem, tears_max: u64) -> Vec<CrashState> {
    let steps = files.pending();
    let ways: Vec<_> = steps
        .iter()
        .map(|step| ways(files, step, tears_max))
        .collect();
    let count = ways.iter().map(Vec::len).fold(1, usize::saturating_mul);
    assert!(
        count <= 1 << 18,
        "{count} combinations are too many for a test"
    );
    let mut found = Vec::new();
    for mut number in 0..count {
        let mut persisted = Vec::new();
        for (step, ways) in steps.iter().zip(&ways) {
            let way = &ways[number % ways.len()];
            number /= ways.len();
            if let Some(sectors) = way {
                let sectors = sectors.clone();
                persisted.push(Persisted {
                    id: step.id,
                    sectors,
                });
            }
        }
        let state = CrashState { persisted };
        let is_possible = files.check_crash(&state).is_ok();
        if state.persisted.iter().all(|it| it.sectors == Sectors::All) {
            assert_eq!(is_possible, is_closed(files, &state), "{state:?}");
        }
        if is_possible {
            found.push(state);
        }
    }
    found
}

/// What somebody sees after each possible power cut.
pub(crate) fn outcomes<T: Ord>(
    files: &FileSystem,
    tears_max: u64,
    mut see: impl FnMut(&mut FileSystem) -> T,
) -> BTreeSet<T> {
    let states = states(files, tears_max);
    let each = states.iter().map(|state| {
        let mut crashed = files.clone();
        crashed
            .crash(0, CrashKind::Power, state)
            .expect("it was checked");
        assert_eq!(files.image_hash_after(state), Some(crashed.image_hash()));
        see(&mut crashed)
    });
    each.collect()
}
