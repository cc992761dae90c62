//! What a guest of one's own begins with: a small engine in a language, on a device or on files, and what it needs to speak to kvsim.

use std::path::Path;

use kvsim_sim::abi;

mod files;

/// A language that a guest can begin in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, built by cargo.
    Rust,
    /// Go; on files only.
    Go,
    /// C, built by clang or Zig.
    C,
    /// Zig.
    Zig,
}

/// A file of a template: its place in the new directory, and what it holds.
pub type File = (&'static str, &'static str);

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

/// What the engine of a template keeps its data on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// A block device, through the guest ABI's imports.
    Device,
    /// Files, through WASI preview 1.
    Files,
}

/// A template: an engine in a language on a kind of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Template {
    language: Language,
    storage: Storage,
}

impl Template {
    /// The template for this pair.
    ///
    /// # Errors
    /// There is none: in Go an engine on a device cannot be written, since Go's runtime needs WASI.
    pub fn new(language: Language, storage: Storage) -> Result<Self, String> {
        if language == Language::Go && storage == Storage::Device {
            return Err(
                "Go's runtime needs WASI, so there is no template in Go for an engine on a block device\n  = help: add --files, for an engine that uses files"
                    .to_owned(),
            );
        }
        Ok(Template { language, storage })
    }

    /// Its files.
    ///
    /// # Panics
    /// Never: [`Template::new`] makes no template in Go on a device.
    #[must_use]
    pub fn files(self) -> &'static [File] {
        match (self.storage, self.language) {
            (Storage::Files, language) => files::files(language),
            (Storage::Device, Language::Rust) => &RUST,
            (Storage::Device, Language::C) => &C,
            (Storage::Device, Language::Zig) => &ZIG,
            (Storage::Device, Language::Go) => unreachable!("no such template is made"),
        }
    }

    /// The command that builds it, in its directory.
    ///
    /// # Panics
    /// Never, as [`Template::files`].
    #[must_use]
    pub fn build(self) -> &'static str {
        match (self.storage, self.language) {
            (Storage::Files, language) => files::build(language),
            (Storage::Device, Language::Rust) => {
                "cargo build --release --target wasm32-unknown-unknown"
            }
            (Storage::Device, Language::C) => {
                "clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o guest.wasm guest.c"
            }
            (Storage::Device, Language::Zig) => {
                "zig build-exe -target wasm32-freestanding -O ReleaseSafe -fno-entry -rdynamic -femit-bin=guest.wasm guest.zig"
            }
            (Storage::Device, Language::Go) => unreachable!("no such template is made"),
        }
    }

    /// Where the build puts the module, in its directory.
    #[must_use]
    pub fn module(self) -> &'static str {
        match (self.storage, self.language) {
            (Storage::Files, language) => files::module(language),
            (Storage::Device, Language::Rust) => "target/wasm32-unknown-unknown/release/guest.wasm",
            (Storage::Device, _) => "guest.wasm",
        }
    }

    /// The mistakes that an option of it switches on.
    #[must_use]
    pub fn bugs(self) -> &'static [&'static str] {
        match self.storage {
            Storage::Device => &BUGS,
            Storage::Files => &FILE_BUGS,
        }
    }
}

/// The mistakes that an option of a template on a device switches on.
const BUGS: [&str; 3] = [
    "ack_before_flush",
    "tail_not_fenced",
    "checksum_not_checked",
];

/// The same of a template on files.
const FILE_BUGS: [&str; 4] = [
    "no_directory_sync",
    "ack_before_sync",
    "tail_not_cut",
    "checksum_not_checked",
];

/// Writes the template into a directory, which must not be there or be empty.
///
/// # Errors
/// What stands in the way, and what to do.
pub fn write(template: Template, directory: &Path) -> Result<(), String> {
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
    for (name, text) in template.files() {
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

    /// Every template that there is.
    fn all() -> Vec<Template> {
        let languages = [Language::Rust, Language::Go, Language::C, Language::Zig];
        let pairs = languages.iter().flat_map(|language| {
            [Storage::Device, Storage::Files].map(|storage| Template::new(*language, storage))
        });
        let all: Vec<_> = pairs.filter_map(Result::ok).collect();
        assert_eq!(all.len(), 7);
        all
    }

    /// Goal: a template's README shows the command that builds it, and every bug of it, and its engine has them.
    #[test]
    fn each_readme_has_the_build_and_the_bugs() {
        for template in all() {
            let text = |wanted: &dyn Fn(&str) -> bool| {
                let (_, text) = template
                    .files()
                    .iter()
                    .find(|(name, _)| wanted(name))
                    .expect("one");
                *text
            };
            let readme = text(&|name| name == "README.md");
            let engines = ["src/lib.rs", "main.go"];
            let engine = text(&|name| {
                name.starts_with("guest.") || name.starts_with("engine.") || engines.contains(&name)
            });
            assert!(readme.contains(template.build()), "{template:?}");
            assert!(readme.contains(template.module()), "{template:?}");
            for bug in template.bugs() {
                assert!(readme.contains(bug), "{template:?} {bug}");
                assert!(engine.contains(bug), "{template:?} {bug}");
            }
        }
    }

    /// Goal: what there is no template for is said, with what to do.
    #[test]
    fn go_on_a_device_is_refused() {
        let error = Template::new(Language::Go, Storage::Device).expect_err("Go needs WASI");
        assert!(error.contains("--files"), "{error}");
    }

    /// Goal: nobody's files are overwritten. Method: write twice into one directory.
    #[test]
    fn a_directory_with_files_is_left_as_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let inner = directory.path().join("new/guest");
        let c = Template::new(Language::C, Storage::Device).expect("one");
        write(c, &inner).expect("a new directory");
        std::fs::write(inner.join("guest.c"), "mine").expect("it can be written");
        let error = write(c, &inner).expect_err("it is not empty");
        assert!(
            error.contains("is not empty") && error.contains("help"),
            "{error}"
        );
        let kept = std::fs::read_to_string(inner.join("guest.c")).expect("it is there");
        assert_eq!(kept, "mine");
        write(c, &inner.join("guest.c")).expect_err("a file is no directory");
    }
}
