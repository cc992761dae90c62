use std::os::unix::fs::PermissionsExt as _;
use std::sync::OnceLock;

use super::*;

const MODULE: &str = r#"(module (func (export "answer") (result i32) i32.const 42))"#;

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(Engine::default)
}

fn module() -> Vec<u8> {
    wat::parse_str(MODULE).expect("the test's module is right")
}

/// A folder that holds the compiled module, and its file.
fn filled() -> (tempfile::TempDir, Cache, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let cache = Cache(directory.path().join("modules"));
    assert!(answers(&cache));
    let file = cache.file(&key(engine(), &module()));
    assert!(file.is_file());
    (directory, cache, file)
}

/// The module from the cache, or compiled, does what it says.
fn answers(cache: &Cache) -> bool {
    let module = cache.compiled(engine(), &module()).expect("it compiles");
    let mut store = wasmtime::Store::new(engine(), ());
    let instance = wasmtime::Instance::new(&mut store, &module, &[]).expect("it starts");
    let answer = instance.get_typed_func::<(), i32>(&mut store, "answer");
    answer.and_then(|it| it.call(&mut store, ())).ok() == Some(42)
}

fn is_read(file: &Path) -> bool {
    read(file, &key(engine(), &module())).is_ok()
}

/// Goal: what was compiled once is not compiled again. Method: the file is read, and using it leaves it as it was.
#[test]
fn a_compiled_module_is_found_again() {
    let (_directory, cache, file) = filled();
    assert!(is_read(&file));
    let before = file.metadata().expect("it is there");
    assert!(answers(&cache));
    let after = file.metadata().expect("it is there");
    assert_eq!(before.ino(), after.ino(), "it was written again");
    assert_eq!(before.mode() & 0o777, 0o600);
}

/// Goal: no damaged code is run. Method: every bit of the checksum and one in each part of the code, the file cut short at many places, and
/// made longer; each time the file counts as absent and is replaced.
#[test]
fn a_damaged_file_is_not_trusted() {
    let (_directory, cache, file) = filled();
    let whole = std::fs::read(&file).expect("it is readable");
    let step = whole.len() / 97;
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    for bit in (0..256).chain((32 * 8..whole.len() * 8).step_by(step * 8)) {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        damaged.push(bytes);
    }
    damaged.extend(
        (0..whole.len())
            .step_by(step)
            .map(|len| whole[..len].to_vec()),
    );
    damaged.push([&whole[..], &[0]].concat());
    for bytes in damaged {
        std::fs::write(&file, bytes).expect("it is writable");
        assert!(!is_read(&file));
    }
    assert!(answers(&cache));
    assert!(is_read(&file), "it was replaced");
}

/// Goal: nobody else can hand code in. Method: a file that others may write, a link, a folder and a pipe in its place, and the file of
/// another module under its name.
#[test]
fn a_file_of_somebody_else_is_not_trusted() {
    let (_directory, cache, file) = filled();
    for mode in [0o620, 0o602] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&file, permissions).expect("it is ours");
        assert!(!is_read(&file), "{mode:o}");
    }
    assert!(answers(&cache));
    assert!(is_read(&file), "it was replaced");

    let elsewhere = file.with_extension("elsewhere");
    std::fs::rename(&file, &elsewhere).expect("it moves");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
    assert!(!is_read(&file), "a link");
    std::fs::remove_file(&file).expect("it goes");
    std::fs::create_dir(&file).expect("a folder");
    assert!(!is_read(&file), "a folder");
    assert!(answers(&cache), "a folder in the way is no error");
    std::fs::remove_dir(&file).expect("it goes");
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.expect("mkfifo starts").success());
    assert!(!is_read(&file), "a pipe");
    std::fs::remove_file(&file).expect("it goes");

    let other = key(engine(), b"another module");
    std::fs::copy(&elsewhere, cache.file(&other)).expect("a copy");
    assert!(read(&cache.file(&other), &other).is_err());
}

/// Goal: another engine's code is not taken. Method: settings that compile otherwise have another key.
#[test]
fn the_key_knows_how_code_was_compiled() {
    let mut config = wasmtime::Config::new();
    config.consume_fuel(true);
    let other = Engine::new(&config).expect("an engine");
    assert_ne!(key(&other, &module()), key(engine(), &module()));
    assert_eq!(key(engine(), &module()), key(&Engine::default(), &module()));
    assert_ne!(key(engine(), b"a"), key(engine(), b"b"));
}

/// Goal: a cache that cannot be written is no error. Method: a folder below a file.
#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(answers(&Cache(file.path().join("modules"))));
}

/// Goal: the cache does not grow without end, and touches nothing but its own. Method: three large and sparse files and one that is not
/// the cache's.
#[test]
fn the_oldest_make_room() {
    let (directory, cache, file) = filled();
    let old = |name: &str, age: u64, bytes: u64| {
        let path = cache.0.join(name);
        let made = std::fs::File::create(&path).expect("a file");
        made.set_len(bytes).expect("sparse");
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
        made.set_modified(time).expect("a time");
        path
    };
    let oldest = old("a.cwasm", 1, CACHE_BYTES_MAX / 2);
    let draft = old("b.9.unfinished", 2, CACHE_BYTES_MAX / 2);
    let younger = old("c.cwasm", 3, CACHE_BYTES_MAX / 2);
    let foreign = old("notes.txt", 0, CACHE_BYTES_MAX);
    std::fs::remove_file(&file).expect("it goes");
    assert!(answers(&cache));
    assert_eq!(
        [&oldest, &draft, &younger, &foreign, &file].map(|it| it.exists()),
        [false, false, true, true, true]
    );
    drop(directory);
}

/// Goal: the folder is where the book says. Method: each rule.
#[test]
fn the_folder_follows_the_environment() {
    let of = |set: &[(&str, &str)]| {
        folder(|name| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| PathBuf::from(value))
        })
    };
    let home = ("HOME", "/home/ann");
    let xdg = ("XDG_CACHE_HOME", "/var/ann");
    let by_home = if cfg!(target_os = "macos") {
        "/home/ann/Library/Caches/kvsim/modules"
    } else {
        "/home/ann/.cache/kvsim/modules"
    };
    assert_eq!(of(&[home]), Some(by_home.into()));
    assert_eq!(of(&[home, xdg]), Some("/var/ann/kvsim/modules".into()));
    let relative = ("XDG_CACHE_HOME", "caches");
    assert_eq!(of(&[home, relative]), Some(by_home.into()));
    let own = of(&[home, xdg, (FOLDER, "/srv/kvsim")]);
    assert_eq!(own, Some("/srv/kvsim/modules".into()));
    assert_eq!(of(&[home, xdg, (FOLDER, "")]), None);
    assert_eq!(of(&[]), None);
}
