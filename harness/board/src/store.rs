//! The folder of a board: a file for each finished cell, the cases, the results.
//!
//! Invariant: the results are made from cells alone, so they can be written again without an engine.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::board::{Board, SCHEMA};
use crate::cell::{Cell, Key};
use crate::told::{steps, told};

/// The file that says what the folder is.
const SIGN: &str = "kvsim-board.txt";
const SIGN_TEXT: &str = "The results of kvsim board. Cells are kept in cells/, cases in cases/.\n";

/// The folder.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// It is no folder, it holds something else, or it cannot be written; a sentence.
    pub fn open(folder: &Path) -> Result<Store, String> {
        let shown = folder.display();
        if folder.exists() && !folder.is_dir() {
            return Err(format!(
                "{shown} is no folder\n  = help: name another one: --out DIR"
            ));
        }
        if folder.is_dir() && !folder.join(SIGN).is_file() {
            let mut entries = std::fs::read_dir(folder)
                .map_err(|error| format!("cannot read the folder {shown}: {error}"))?;
            if entries.next().is_some() {
                return Err(format!(
                    "the folder {shown} holds something else than a board, and nothing in it was touched\n  = help: name a new or an empty folder: --out DIR"
                ));
            }
        }
        let store = Store {
            folder: folder.to_owned(),
        };
        for folder in [store.folder.join("cells"), store.cases()] {
            std::fs::create_dir_all(&folder)
                .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
        }
        store.write(SIGN, SIGN_TEXT)?;
        Ok(store)
    }

    /// The folder of a finished board, and the board, with the findings of its cells each told once.
    ///
    /// # Errors
    /// There is no board, it is of another schema, or one of its cases cannot be read; a sentence.
    pub fn finished_board(folder: &Path) -> Result<(Store, Board), String> {
        let file = folder.join("board.json");
        let shown = file.display();
        let text = std::fs::read_to_string(&file).map_err(|error| {
            format!("cannot read {shown}: {error}\n  = help: name the folder of a board that was run: --out DIR")
        })?;
        let mut board: Board =
            serde_json::from_str(&text).map_err(|error| format!("{shown} is no board: {error}"))?;
        if board.schema != SCHEMA {
            let found = &board.schema;
            return Err(format!(
                "{shown} has the schema {found}, and this kvsim writes {SCHEMA}\n  = help: run the board again"
            ));
        }
        for row in &mut board.engines {
            row.cells.iter_mut().try_for_each(read_steps)?;
            row.findings = told(&row.cells);
        }
        let folder = folder.to_owned();
        Ok((Store { folder }, board))
    }

    /// Where cases are saved.
    #[must_use]
    pub fn cases(&self) -> PathBuf {
        self.folder.join("cases")
    }

    fn cell_name(key: &Key) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.@".contains(c) {
                c
            } else {
                '_'
            }
        };
        let engine: String = key.engine.chars().map(plain).collect();
        format!("cells/{engine}.{}.json", key.profile)
    }

    /// The finished cell of this key, if its cases are still there. A file that cannot be read is as good as none.
    #[must_use]
    pub fn finished(&self, key: &Key) -> Option<Cell> {
        let text = std::fs::read_to_string(self.folder.join(Store::cell_name(key))).ok()?;
        let mut cell: Cell = serde_json::from_str(&text).ok()?;
        let mut files = cell.findings.iter().flat_map(|finding| {
            let confirmed = finding.confirmed.iter().map(|it| &it.file);
            std::iter::once(&finding.file).chain(confirmed)
        });
        let is_whole = cell.key == *key && files.all(|file| Path::new(file).is_file());
        if !is_whole {
            return None;
        }
        read_steps(&mut cell).ok()?;
        Some(cell)
    }

    /// Keeps a finished cell.
    ///
    /// # Errors
    /// It cannot be written; a sentence.
    pub fn keep(&self, cell: &Cell) -> Result<(), String> {
        let text = serde_json::to_string_pretty(cell)
            .map_err(|error| format!("internal error: a cell is no JSON: {error}"))?;
        self.write(&Store::cell_name(&cell.key), &format!("{text}\n"))
    }

    /// Writes a file of the folder, all of it or nothing.
    ///
    /// # Errors
    /// It cannot be written; a sentence.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.folder.join(name);
        let begun = path.with_extension("new");
        let written = std::fs::write(&begun, text).and_then(|()| std::fs::rename(&begun, &path));
        written.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::StorageFull => "there is no space".to_owned(),
                _ => error.to_string(),
            };
            format!("cannot write {}: {why}", path.display())
        })
    }

    /// The way to a file of the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Takes from the saved cases what an older kvsim has not written into a cell.
fn read_steps(cell: &mut Cell) -> Result<(), String> {
    let unknown = cell.findings.iter_mut().filter(|it| it.steps.is_empty());
    for finding in unknown {
        let saved = kvsim_scenario::load(Path::new(&finding.file), &[]);
        let saved = saved.map_err(|error| error.to_string())?;
        finding.steps = steps(&saved.case.unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::VerdictClass;

    fn key(profile: &str, module: &str) -> Key {
        Key {
            kvsim: "1".to_owned(),
            engine: "a/b".to_owned(),
            module: module.to_owned(),
            profile: profile.to_owned(),
            scenario: "s".to_owned(),
        }
    }

    /// Goal: a finished cell is found again for the same key alone. Method: one is kept, and asked for with other keys, and when it is broken.
    #[test]
    fn a_finished_cell_is_found_for_its_key_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let store = Store::open(&root.path().join("board")).expect("it is new");
        let cell = Cell::failed(key("posix", "m"), VerdictClass::Undecided, "why".to_owned());
        assert!(store.finished(&cell.key).is_none());
        store.keep(&cell).expect("it can be written");
        assert_eq!(store.finished(&cell.key), Some(cell.clone()));
        assert!(store.finished(&key("posix", "other")).is_none());
        assert!(store.finished(&key("xfs", "m")).is_none());
        let again = Store::open(&root.path().join("board")).expect("it is ours");
        assert_eq!(again.finished(&cell.key), Some(cell.clone()));
        store
            .write(&Store::cell_name(&cell.key), "{ half")
            .expect("it can be written");
        assert!(store.finished(&cell.key).is_none());
    }

    /// Goal: nothing of somebody else's is touched. Method: a folder with a file, and a file.
    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("thesis.txt");
        std::fs::write(&file, "x").expect("a file");
        let error = Store::open(root.path()).expect_err("it is not ours");
        assert!(error.contains("something else"), "{error}");
        let error = Store::open(&file).expect_err("it is a file");
        assert!(error.contains("is no folder"), "{error}");
        let left = std::fs::read_dir(root.path()).expect("a folder").count();
        assert_eq!(left, 1);
    }
}
