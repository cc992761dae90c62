//! The whole board, as JSON of the schema `kvsim.board/1`. Fields are only ever added to a version; anything else makes a new one.

use serde::{Deserialize, Serialize};

use crate::cell::{About, Cell};
use crate::class::VerdictClass;
use crate::documented::{Documented, documented};
use crate::told::{Told, told};

/// The name and version of the schema.
pub const SCHEMA: &str = "kvsim.board/1";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// The schema.
    pub schema: String,
    /// The version of kvsim.
    pub kvsim: String,
    /// The scenario's name.
    pub scenario: String,
    /// The profiles, in the order of the columns.
    pub profiles: Vec<String>,
    /// The engines, in the order of the rows.
    pub engines: Vec<Row>,
    /// It ended before all cells were there.
    pub is_interrupted: bool,
    /// One hash over those of all cells.
    pub hash: String,
}

/// An engine and its cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The name of the module.
    pub name: String,
    /// The hash of its bytes; empty if it cannot be read.
    pub module: String,
    /// What it says of itself.
    pub about: About,
    /// What its documentation says.
    pub documented: Vec<Documented>,
    /// A cell for each profile that is done, in the order of the columns.
    pub cells: Vec<Cell>,
    /// The findings of all cells, each once.
    #[serde(default)]
    pub findings: Vec<Told>,
}

impl Row {
    /// A row from its cells.
    #[must_use]
    pub fn new(name: &str, module: String, cells: Vec<Cell>) -> Row {
        let about = cells.iter().map(|cell| &cell.about);
        let about = about.clone().find(|it| !it.engine.is_empty()).cloned();
        Row {
            name: name.to_owned(),
            module,
            about: about.unwrap_or_default(),
            documented: documented(name),
            findings: told(&cells),
            cells,
        }
    }

    /// The cell of a profile.
    #[must_use]
    pub fn cell(&self, profile: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.key.profile == profile)
    }
}

impl Board {
    /// The document of these rows.
    #[must_use]
    pub fn new(
        scenario: &str,
        profiles: Vec<String>,
        engines: Vec<Row>,
        is_interrupted: bool,
    ) -> Board {
        let hashes: Vec<&str> = engines
            .iter()
            .flat_map(|row| &row.cells)
            .map(|cell| cell.hash.as_str())
            .collect();
        let hash = crate::cell::short_hash(hashes.join(" ").as_bytes());
        Board {
            schema: SCHEMA.to_owned(),
            kvsim: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.to_owned(),
            profiles,
            engines,
            is_interrupted,
            hash,
        }
    }

    /// All cells.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.engines.iter().flat_map(|row| &row.cells)
    }

    /// How many cells are of each class, the most severe first; classes without a cell are left out.
    #[must_use]
    pub fn counts(&self) -> Vec<(VerdictClass, usize)> {
        let count = |class: VerdictClass| self.cells().filter(|it| it.verdict == class).count();
        let all = VerdictClass::ALL.into_iter().rev();
        all.map(|class| (class, count(class)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
