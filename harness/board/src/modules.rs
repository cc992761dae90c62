//! Which modules stand on the board.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The engines that stand on the board when none is named, with their bounds.
const LISTED: &str = include_str!("../../../engines/board.toml");

/// Where `engines/build` puts modules.
pub const BUILT: &str = "engines/out";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    engines: Vec<Listed>,
}

/// An engine of the list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    #[serde(default)]
    set: Vec<String>,
}

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name: that of its file without the ending.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// Fields of the scenario that the list of engines sets for it, each `field=value`.
    pub set: Vec<String>,
}

fn list() -> Vec<Listed> {
    let list: List = toml::from_str(LISTED).unwrap_or_else(|error| panic!("board.toml: {error}"));
    list.engines
}

fn module(file: PathBuf) -> Module {
    let name = file
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // Another version of an engine takes as long to open.
    let plain = name.split('@').next().unwrap_or(&name);
    let listed = list().into_iter().find(|it| it.name == plain);
    Module {
        set: listed.map(|it| it.set).unwrap_or_default(),
        name,
        file,
    }
}

/// The modules in these files and folders. Of a folder the engines of the list count, in the order of the list; all modules if none of them is there.
///
/// # Errors
/// What is not there, or a folder without any module; a sentence that says what to do.
pub fn find(places: &[PathBuf]) -> Result<Vec<Module>, String> {
    let built = [PathBuf::from(BUILT)];
    let places = if places.is_empty() { &built } else { places };
    let mut modules: Vec<Module> = Vec::new();
    for place in places {
        let found = if place.is_dir() {
            of_folder(place)?
        } else if place.is_file() {
            vec![module(place.clone())]
        } else {
            return Err(format!(
                "{}: there is no such module\n  = help: build the engines first: engines/build, or engines/build NAME for one",
                place.display()
            ));
        };
        for module in found {
            match modules.iter().find(|known| known.name == module.name) {
                Some(known) if known.file == module.file => {}
                Some(known) => {
                    return Err(format!(
                        "{} and {} have the same name, and a cell is known by the name of its engine\n  = help: rename one of the files",
                        known.file.display(),
                        module.file.display()
                    ));
                }
                None => modules.push(module),
            }
        }
    }
    Ok(modules)
}

fn of_folder(folder: &Path) -> Result<Vec<Module>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|it| it == "wasm") {
            files.push(path);
        }
    }
    files.sort();
    let listed: Vec<Module> = list()
        .into_iter()
        .map(|it| folder.join(format!("{}.wasm", it.name)))
        .filter(|file| files.contains(file))
        .map(module)
        .collect();
    if !listed.is_empty() {
        return Ok(listed);
    }
    if files.is_empty() {
        return Err(format!(
            "there is no module in {}\n  = help: build the engines first: engines/build",
            folder.display()
        ));
    }
    Ok(files.into_iter().map(module).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: of a folder the engines of the list are taken, in its order and without other versions; else all; and what is not there is said.
    /// Method: folders with some files.
    #[test]
    fn modules_are_found() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str| std::fs::write(root.path().join(name), "").expect("a file");
        let find = |name: &str| super::find(&[root.path().join(name)]);
        let names =
            |found: Vec<Module>| -> Vec<String> { found.into_iter().map(|it| it.name).collect() };
        let error = find(".").expect_err("it is empty");
        assert!(error.contains("engines/build"), "{error}");
        for name in ["mine.wasm", "notes.txt", "buntdb@v1.2.0.wasm"] {
            write(name);
        }
        assert_eq!(names(find(".").expect("two")), ["buntdb@v1.2.0", "mine"]);
        for name in ["pebble.wasm", "lmdb.wasm"] {
            write(name);
        }
        let found = find(".").expect("two of the list");
        assert!(found[0].set.is_empty());
        assert!(!found[1].set.is_empty(), "pebble opens slowly");
        assert_eq!(names(found), ["lmdb", "pebble"]);
        let error = find("gone.wasm").expect_err("it is not there");
        assert!(error.contains("gone.wasm") && error.contains("engines/build"));
        assert_eq!(names(find("mine.wasm").expect("one")), ["mine"]);
    }
}
