//! Compiled modules, kept on disk between two commands: compiling the built-in engine takes longer than most short runs.
//!
//! A file is `<folder>/modules/<key>.cwasm`. The key is a hash of the module, of how this build of Wasmtime compiles it, and of the
//! processor it compiles for. The file holds a checksum of the machine code under that key, then the machine code. A file that is
//! missing, cut short, damaged or not ours counts as absent. A cache that cannot be written costs time and nothing else.

use std::env;
use std::fs::{DirBuilder, Metadata, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;
use std::time::SystemTime;

use rustix::fs::OFlags;
use wasmtime::{Engine, Module};

/// The folder of the cache; empty for none.
const FOLDER: &str = "KVSIM_CACHE_DIR";
/// What the files and their keys are called in case their form changes.
const CONTEXT: &str = "kvsim compiled module, form 1";
/// Smaller modules compile about as fast as a file is read and checked.
const MODULE_BYTES_MIN: usize = 32 << 10;
/// All files together. The oldest make room.
const CACHE_BYTES_MAX: u64 = 256 << 20;
/// The ending of a file, and of one that is being written.
const ENDING: &str = "cwasm";
const UNFINISHED: &str = "unfinished";

/// The module, from the cache of compiled modules if it is there.
///
/// # Errors
/// The bytes are no module that this engine takes.
pub fn compiled(engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Module> {
    let cache = (bytes.len() >= MODULE_BYTES_MIN)
        .then(|| folder(|name| env::var_os(name).map(PathBuf::from)))
        .flatten();
    match cache {
        Some(folder) => Cache(folder).compiled(engine, bytes),
        None => Module::from_binary(engine, bytes),
    }
}

/// Where compiled modules lie, by the rules that the book gives; nowhere if no variable says.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let folder = match variable(FOLDER) {
        Some(folder) => folder,
        None => {
            let home = variable("HOME").filter(|home| home.is_absolute());
            let home = home.map(|home| {
                home.join(if cfg!(target_os = "macos") {
                    "Library/Caches"
                } else {
                    ".cache"
                })
            });
            // By the XDG rules a relative path counts as absent.
            let caches = variable("XDG_CACHE_HOME").filter(|caches| caches.is_absolute());
            caches.or(home)?.join("kvsim")
        }
    };
    (!folder.as_os_str().is_empty()).then(|| folder.join("modules"))
}

type Key = [u8; blake3::OUT_LEN];

/// What compiled code depends on. Wasmtime's part holds its version, its settings, the target and the features of the processor.
fn key(engine: &Engine, bytes: &[u8]) -> Key {
    struct Sink<'a>(&'a mut blake3::Hasher);
    impl Hasher for Sink<'_> {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    engine
        .precompile_compatibility_hash()
        .hash(&mut Sink(&mut hasher));
    hasher.update(blake3::hash(bytes).as_bytes());
    *hasher.finalize().as_bytes()
}

/// A folder of compiled modules.
struct Cache(PathBuf);

impl Cache {
    fn compiled(&self, engine: &Engine, bytes: &[u8]) -> wasmtime::Result<Module> {
        let key = key(engine, bytes);
        let file = self.file(&key);
        match read(&file, &key) {
            Ok(code) => match load(engine, &code) {
                Ok(module) => return Ok(module),
                Err(error) => tracing::debug!("{}: {error:#}", file.display()),
            },
            Err(error) => tracing::debug!("{}: {error}", file.display()),
        }
        let module = Module::from_binary(engine, bytes)?;
        match module.serialize() {
            Ok(code) => {
                if let Err(error) = self.keep(&file, &key, &code) {
                    tracing::debug!("{}: {error}", file.display());
                }
            }
            Err(error) => tracing::debug!("{}: {error:#}", file.display()),
        }
        Ok(module)
    }

    fn file(&self, key: &Key) -> PathBuf {
        let name = blake3::Hash::from_bytes(*key).to_hex();
        self.0.join(name.as_str()).with_extension(ENDING)
    }

    fn keep(&self, file: &Path, key: &Key, code: &[u8]) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        write(file, key, code)?;
        self.make_room(file)
    }

    /// Removes the oldest files until the rest are small enough together.
    fn make_room(&self, newest: &Path) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            let ours = [ENDING, UNFINISHED].map(|it| path.extension() == Some(it.as_ref()));
            if ours.contains(&true) && path != newest {
                let found = path.symlink_metadata()?;
                files.push((found.modified()?, path, found.len()));
            }
        }
        files.sort();
        let mut all: u64 = newest.metadata()?.len() + files.iter().map(|it| it.2).sum::<u64>();
        for (_, path, bytes) in files {
            if all <= CACHE_BYTES_MAX {
                break;
            }
            std::fs::remove_file(path)?;
            all -= bytes;
        }
        Ok(())
    }
}

/// The module of code that [`read`] gave.
#[expect(
    unsafe_code,
    reason = "Wasmtime cannot check machine code; `read` has checked where it comes from"
)]
fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: `deserialize` wants the unchanged output of `Module::serialize`, of any version of Wasmtime. `read` gives only bytes of a
    // file that this user owns and nobody else may write, with the checksum that `write` gave them. Whoever can forge such a file can
    // also replace this program. The bytes are a copy in memory, so they do not change after the check. Wasmtime itself checks that
    // they were compiled for this engine.
    unsafe { Module::deserialize(engine, code) }
}

/// The compiled code in a file, if it is this user's alone and whole.
fn read(file: &Path, key: &Key) -> io::Result<Vec<u8>> {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    // A pipe in place of a file must not hold the program up.
    let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(no_link | at_once)
        .open(file)?;
    let refuse = |why| Err(io::Error::new(ErrorKind::InvalidData, why));
    if !is_ours(&file.metadata()?) {
        return refuse("not a file that this user alone may write");
    }
    let mut checksum = Key::default();
    file.read_exact(&mut checksum)?;
    let mut code = Vec::new();
    file.take(CACHE_BYTES_MAX).read_to_end(&mut code)?;
    // The comparison of such hashes takes constant time.
    if blake3::keyed_hash(key, &code) != blake3::Hash::from_bytes(checksum) {
        return refuse("the checksum is wrong");
    }
    Ok(code)
}

fn is_ours(found: &Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & OTHERS_WRITE == 0
}

/// Under another name first, so that nobody reads half a file. After a loss of power the checksum shows what is missing.
fn write(file: &Path, key: &Key, code: &[u8]) -> io::Result<()> {
    let unfinished = file.with_extension(format!("{}.{UNFINISHED}", process::id()));
    let mut draft = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)?;
    let written = draft
        .write_all(blake3::keyed_hash(key, code).as_bytes())
        .and_then(|()| draft.write_all(code))
        .and_then(|()| std::fs::rename(&unfinished, file));
    if written.is_err() {
        // Nothing is lost if the draft stays: it is removed with the oldest files.
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
