//! A copy of the engine and its guest whose sources have switches.

use std::path::{Path, PathBuf};

use crate::find;
use crate::mutation::{Mutation, Switch};
use crate::schemata::{Switched, switched};

/// The guest option that switches a mutation on: its number, or [`COVERAGE`].
pub const OPTION: &str = "source_mutant";
/// The value of the option that switches none on and reports executed lines.
pub const COVERAGE: &str = "coverage";
/// What the names of the coverage points of lines begin with.
pub const LINE: &str = "line ";

/// Sources that hold no engine: the catalogue of named mutants, the names of coverage points, the table of options, and
/// repair, which no engine calls.
const LEFT_OUT: [&str; 4] = ["mutant", "api/coverage", "api/option_help", "repair"];
const SWITCHES: &str = include_str!("switches.rs.txt");
/// What is written otherwise in the guest's sources: the file, the text, which it has once, and what takes its place.
const GUEST: [(&str, &str, &str); 2] = [
    (
        "guest.rs",
        "if version != ABI_VERSION {",
        "kvsim_engine::source_mutants::take_option(&mut config.options, kvsim_engine::CoveragePoint::ALL.len());\n        if version != ABI_VERSION {",
    ),
    (
        "abi.rs",
        "[point.name(), \"\\n\"])",
        "[point.name(), \"\\n\"]).chain([kvsim_engine::source_mutants::NAMES])",
    ),
];

/// What went wrong with the copy.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A source cannot be parsed.
    #[error("{file}: {error}")]
    Source {
        /// The source.
        file: String,
        /// Why.
        error: String,
    },
    /// The guest is not written as this tool expects.
    #[error("{file} has no `{text}` any more; change scratch.rs to what the guest does now")]
    Guest {
        /// The source.
        file: String,
        /// What was looked for.
        text: String,
    },
}

/// A copy under way.
#[derive(Debug)]
pub struct Scratch {
    /// The workspace that is copied.
    pub root: PathBuf,
    /// Where the copy is.
    pub folder: PathBuf,
    /// The sources, by their names from `engine/src`.
    pub sources: Vec<(String, String)>,
    /// All mutations, in order.
    pub mutations: Vec<Mutation>,
}

/// Reads a file, and says which if it cannot.
pub(crate) fn read(path: &Path) -> Result<String, ScratchError> {
    std::fs::read_to_string(path).map_err(|error| ScratchError::File {
        path: path.to_path_buf(),
        error,
    })
}

/// Writes a file and the folders around it, unless the file has this text already.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), ScratchError> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let failed = |error| ScratchError::File {
        path: path.to_path_buf(),
        error,
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

/// The names of all Rust sources in a folder and below, sorted.
fn names(folder: &Path, prefix: &str) -> Result<Vec<String>, ScratchError> {
    let failed = |error| ScratchError::File {
        path: folder.to_path_buf(),
        error,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = format!("{prefix}{}", name.unwrap_or_default());
        if path.is_dir() {
            found.extend(names(&path, &format!("{name}/"))?);
        } else if name.ends_with(".rs") {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a source is that of this module or of one in it.
fn is_in(name: &str, module: &str) -> bool {
    let rest = name.strip_prefix(module);
    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// All mutations of the engine in this workspace, numbered from 1.
///
/// # Errors
/// A source cannot be read or parsed.
pub fn mutations(root: &Path) -> Result<Vec<Mutation>, ScratchError> {
    Ok(Scratch::new(root, Path::new(""))?.mutations)
}

impl Scratch {
    /// The engine of the workspace `root`, to be copied to `folder`.
    ///
    /// # Errors
    /// A source cannot be read or parsed.
    pub fn new(root: &Path, folder: &Path) -> Result<Scratch, ScratchError> {
        let from = root.join("engine/src");
        let wrong = |file: &str, error: syn::Error| ScratchError::Source {
            file: file.to_owned(),
            error: error.to_string(),
        };
        let (mut sources, mut mutations) = (Vec::new(), Vec::new());
        let mut left_out = LEFT_OUT.map(str::to_owned).to_vec();
        for name in names(&from, "")? {
            let source = read(&from.join(&name))?;
            let tests = find::test_modules(&name, &source);
            left_out.extend(tests.map_err(|error| wrong(&name, error))?);
            sources.push((name, source));
        }
        for (name, source) in &sources {
            if !left_out.iter().any(|module| is_in(name, module)) {
                let found = find::mutations(name, source);
                mutations.extend(found.map_err(|error| wrong(name, error))?);
            }
        }
        for (at, mutation) in mutations.iter_mut().enumerate() {
            mutation.number = at + 1;
        }
        Ok(Scratch {
            root: root.to_path_buf(),
            folder: folder.to_path_buf(),
            sources,
            mutations,
        })
    }

    /// Writes the copy with a switch at each mutation that is to be built. Gives what was written, by the names of the sources.
    ///
    /// # Errors
    /// A file cannot be written, or the guest is not as expected.
    pub fn write(&self) -> Result<Vec<(String, Switched)>, ScratchError> {
        let mut all = Vec::new();
        for (name, source) in &self.sources {
            let own: Vec<Mutation> = self
                .mutations
                .iter()
                .filter(|it| it.file == *name)
                .cloned()
                .collect();
            let mut written = switched(source, &own);
            if name == "lib.rs" {
                written.text.push_str("\npub mod source_mutants;\n");
            }
            write(&self.folder.join("engine/src").join(name), &written.text)?;
            all.push((name.clone(), written));
        }
        write(
            &self.folder.join("engine/src/source_mutants.rs"),
            &self.switches(),
        )?;
        for file in [
            "Cargo.lock",
            "rust-toolchain.toml",
            "engine/Cargo.toml",
            "engine/guest/Cargo.toml",
        ] {
            write(&self.folder.join(file), &read(&self.root.join(file))?)?;
        }
        write(&self.folder.join("Cargo.toml"), &self.manifest()?)?;
        self.guest()?;
        Ok(all)
    }

    /// The lines that have a mutation in the module, each once.
    fn lines(&self) -> Vec<(&str, usize)> {
        let mut lines: Vec<(&str, usize)> = Vec::new();
        for mutation in self.mutations.iter().filter(|it| it.switch != Switch::None) {
            let line = (mutation.file.as_str(), mutation.line);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    fn switches(&self) -> String {
        let lines = self.lines();
        let line_of = |mutation: &Mutation| {
            let line = (mutation.file.as_str(), mutation.line);
            lines.iter().position(|it| *it == line).unwrap_or(0)
        };
        let of_all: Vec<String> = std::iter::once("0".to_owned())
            .chain(self.mutations.iter().map(|it| line_of(it).to_string()))
            .collect();
        let names: Vec<String> = lines
            .iter()
            .map(|(file, line)| format!("{LINE}{file}:{line}\\n"))
            .collect();
        SWITCHES
            .replace("COUNT", &of_all.len().to_string())
            .replace("LINES_OF_MUTATIONS", &of_all.join(","))
            .replace("NAMES_OF_LINES", &names.concat())
    }

    /// The workspace's manifest with two members.
    fn manifest(&self) -> Result<String, ScratchError> {
        let text = read(&self.root.join("Cargo.toml"))?;
        let failed = |error: String| ScratchError::Source {
            file: "Cargo.toml".to_owned(),
            error,
        };
        let mut manifest: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| failed(error.to_string()))?;
        let workspace = manifest
            .get_mut("workspace")
            .and_then(toml::Value::as_table_mut);
        let workspace = workspace.ok_or_else(|| failed("there is no [workspace]".to_owned()))?;
        let members = ["engine", "engine/guest"].map(|name| toml::Value::String(name.to_owned()));
        workspace.insert("members".to_owned(), toml::Value::Array(members.to_vec()));
        workspace.remove("default-members");
        toml::to_string(&manifest).map_err(|error| failed(error.to_string()))
    }

    /// The guest, which takes the option out of the configuration and names the lines after its coverage points.
    fn guest(&self) -> Result<(), ScratchError> {
        let from = self.root.join("engine/guest/src");
        for name in names(&from, "")? {
            let mut text = read(&from.join(&name))?;
            for (_, old, new) in GUEST.iter().filter(|(file, ..)| *file == name) {
                if text.matches(old).count() != 1 {
                    return Err(ScratchError::Guest {
                        file: name,
                        text: (*old).to_owned(),
                    });
                }
                text = text.replace(old, new);
            }
            write(&self.folder.join("engine/guest/src").join(&name), &text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: whoever changes the guest learns here that this tool changes it too, and not from a run of it. Method: the guest's sources.
    #[test]
    fn the_guest_has_what_is_written_otherwise() {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/guest/src");
        for (file, old, _) in GUEST {
            let text = read(&from.join(file)).expect("it is there");
            assert_eq!(text.matches(old).count(), 1, "{file}: {old}");
        }
    }
}
