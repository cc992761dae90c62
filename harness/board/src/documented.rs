//! What an engine's documentation promises and what it excludes, from `engines/documented.toml`.

use serde::{Deserialize, Serialize};

const TEXT: &str = include_str!("../../../engines/documented.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    statements: Vec<Statement>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    engines: Vec<String>,
    #[serde(flatten)]
    documented: Documented,
}

/// A statement of an engine's documentation, in our words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Documented {
    /// What it promises.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub promises: String,
    /// What it excludes, or assumes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excludes: String,
    /// Where it says so.
    pub source: String,
}

/// What is documented of an engine, by the name of its module; of its other versions (`NAME@VERSION`) the same.
///
/// # Panics
/// If the file that is built in is wrong. A test reads it.
#[must_use]
pub fn documented(name: &str) -> Vec<Documented> {
    let file: File =
        toml::from_str(TEXT).unwrap_or_else(|error| panic!("documented.toml: {error}"));
    let plain = name.split('@').next().unwrap_or(name);
    let is_of = |statement: &Statement| statement.engines.iter().any(|it| it == plain);
    let statements = file.statements.into_iter().filter(is_of);
    statements.map(|it| it.documented).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each statement says something, of engines that there are, and from where. Method: all of them against the catalogue of engines.
    #[test]
    fn statements_are_whole() {
        let catalog: toml::Table =
            toml::from_str(include_str!("../../../engines/catalog.toml")).expect("TOML");
        let file: File = toml::from_str(TEXT).expect("it is TOML");
        assert!(!file.statements.is_empty());
        for statement in file.statements {
            for engine in &statement.engines {
                assert!(catalog.contains_key(engine), "there is no {engine}");
            }
            let Documented {
                promises,
                excludes,
                source,
            } = statement.documented;
            assert!(source.starts_with("https://"), "{source}");
            assert!(!promises.is_empty() || !excludes.is_empty());
        }
        assert_eq!(
            documented("sqlite-delete-full@3.8.6"),
            documented("sqlite-delete-full")
        );
        assert!(documented("mine").is_empty());
    }
}
