//! What a guest of one's own begins with: a small engine in three languages, and the ABI's declarations.

use std::path::Path;

use kvsim_sim::abi;

/// A language that a guest can begin in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, built by cargo.
    Rust,
    /// C, built by clang or Zig.
    C,
    /// Zig.
    Zig,
}

/// A file of a template: its place in the new directory, and what it holds.
type File = (&'static str, &'static str);

const RUST: [File; 5] = [
    ("Cargo.toml", include_str!("../rust/Cargo.toml")),
    ("rustfmt.toml", include_str!("../rust/rustfmt.toml")),
    ("README.md", include_str!("../rust/README.md")),
    ("src/lib.rs", include_str!("../rust/src/lib.rs")),
    ("src/kvsim.rs", abi::RUST),
];

const C: [File; 4] = [
    ("README.md", include_str!("../c/README.md")),
    ("guest.c", include_str!("../c/guest.c")),
    ("heap.h", include_str!("../c/heap.h")),
    ("kvsim.h", abi::C),
];

const ZIG: [File; 3] = [
    ("README.md", include_str!("../zig/README.md")),
    ("guest.zig", include_str!("../zig/guest.zig")),
    ("kvsim.zig", abi::ZIG),
];

impl Language {
    /// The files of its template.
    #[must_use]
    pub fn files(self) -> &'static [File] {
        match self {
            Language::Rust => &RUST,
            Language::C => &C,
            Language::Zig => &ZIG,
        }
    }

    /// The command that builds it, in its directory.
    #[must_use]
    pub fn build(self) -> &'static str {
        match self {
            Language::Rust => "cargo build --release --target wasm32-unknown-unknown",
            Language::C => {
                "clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c"
            }
            Language::Zig => {
                "zig build-exe -target wasm32-freestanding -O ReleaseSafe -fno-entry -rdynamic -femit-bin=guest.wasm guest.zig"
            }
        }
    }

    /// Where the build puts the module, in its directory.
    #[must_use]
    pub fn module(self) -> &'static str {
        match self {
            Language::Rust => "target/wasm32-unknown-unknown/release/guest.wasm",
            Language::C | Language::Zig => "guest.wasm",
        }
    }
}

/// The mistakes that an option of the template switches on.
pub const BUGS: [&str; 3] = [
    "ack_before_flush",
    "tail_not_fenced",
    "checksum_not_checked",
];

/// Writes the template into a directory, which must not be there or be empty.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn write(language: Language, directory: &Path) -> Result<(), String> {
    let place = directory.display();
    let cannot = |error: &dyn std::fmt::Display| format!("cannot write into {place}: {error}");
    match std::fs::read_dir(directory) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(format!(
                    "the directory {place} is not empty; nothing was written\n  = help: name a directory that is not there yet"
                ));
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(&error)),
    }
    for (name, text) in language.files() {
        let file = directory.join(name);
        let folder = file.parent().unwrap_or(directory);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, text));
        written.map_err(|error| cannot(&error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_api::limits::{BATCH_BYTES_SURE, KEY_BYTES_SURE, MUTATION_BYTES, VALUE_BYTES_SURE};

    /// Goal: the limits in the header are those that the oracle judges by. Method: each by its name.
    #[test]
    fn the_header_states_the_oracles_limits() {
        for (name, number) in [
            ("KEY_BYTES_SURE", KEY_BYTES_SURE),
            ("VALUE_BYTES_SURE", VALUE_BYTES_SURE),
            ("BATCH_BYTES_SURE", BATCH_BYTES_SURE),
            ("BATCH_MUTATION_BYTES", MUTATION_BYTES),
        ] {
            let line = format!("#define KVSIM_{name} {number} ");
            assert!(abi::C.contains(&line), "kvsim.h has no `{line}`");
        }
    }

    /// Goal: a template's README shows the command that builds it, and every bug of it.
    #[test]
    fn each_readme_has_the_build_and_the_bugs() {
        for language in [Language::Rust, Language::C, Language::Zig] {
            let files = language.files();
            let (_, readme) = files
                .iter()
                .find(|(name, _)| *name == "README.md")
                .expect("one");
            assert!(readme.contains(language.build()), "{language:?}");
            assert!(readme.contains(language.module()), "{language:?}");
            for bug in BUGS {
                assert!(readme.contains(bug), "{language:?} {bug}");
                let engine = files
                    .iter()
                    .find(|(name, _)| name.starts_with("guest.") || *name == "src/lib.rs");
                let (_, engine) = engine.expect("an engine");
                assert!(engine.contains(bug), "{language:?} {bug}");
            }
        }
    }

    /// Goal: nobody's files are overwritten. Method: write twice into one directory.
    #[test]
    fn a_directory_with_files_is_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = directory.path().join("new/guest");
        write(Language::C, &inner).expect("a new directory");
        std::fs::write(inner.join("guest.c"), "mine").expect("it can be written");
        let error = write(Language::C, &inner).expect_err("it is not empty");
        assert!(
            error.contains("is not empty") && error.contains("help"),
            "{error}"
        );
        let kept = std::fs::read_to_string(inner.join("guest.c")).expect("it is there");
        assert_eq!(kept, "mine");
        write(Language::Rust, &inner.join("guest.c")).expect_err("a file is no directory");
    }
}
