//! The engines of the Go world. A program of its own, `harness/peers/go/`, holds them and the clients that use them, so
//! that no pipe is measured. kvsim draws what the clients do ([`kvsim_store::script`]) and puts their results into its
//! own table.
//!
//! `harness/peers/go/build` builds the program. It is looked for where `KVSIM_GO_PEERS` says, beside `kvsim` itself, and where it
//! was built. A program that was built from other versions than this crate knows of is refused.

mod store;

use std::path::{Path, PathBuf};
use std::process::Command;

use kvsim_store::process::{Hello, PROTOCOL, Process, Remote};
use kvsim_store::{Engine, Settings, Store, StoreError};

use crate::common::failed;

/// What the program is called.
const PROGRAM: &str = "kvsim-go-peers";
/// Where somebody says that it is.
const VARIABLE: &str = "KVSIM_GO_PEERS";
/// Where its build puts it.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/bin/kvsim-go-peers");
/// What builds it.
const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go/build");
/// The versions that it has to have.
const MODULES: &str = include_str!("../../go/go.mod");

/// Name, module, whether it has an order.
const ENGINES: [(&str, &str, bool); 6] = [
    ("pebble", "github.com/cockroachdb/pebble/v2", true),
    ("badger", "github.com/dgraph-io/badger/v4", true),
    ("goleveldb", "github.com/syndtr/goleveldb", true),
    ("bbolt", "go.etcd.io/bbolt", true),
    ("buntdb", "github.com/tidwall/buntdb", true),
    ("pogreb", "github.com/akrylysov/pogreb", false),
];

/// An engine of the Go world.
#[derive(Debug, Clone)]
pub struct GoEngine {
    name: &'static str,
    module: &'static str,
    is_ordered: bool,
    program: PathBuf,
}

/// All of them, wherever the program is found.
#[must_use]
pub fn all() -> Vec<GoEngine> {
    with_program(&find())
}

/// All of them, in this program.
#[must_use]
pub fn with_program(program: &Path) -> Vec<GoEngine> {
    let engine = |(name, module, is_ordered)| GoEngine {
        name,
        module,
        is_ordered,
        program: program.to_owned(),
    };
    ENGINES.into_iter().map(engine).collect()
}

fn find() -> PathBuf {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return named.into();
    }
    let beside = std::env::current_exe().map(|this| this.with_file_name(PROGRAM));
    beside
        .ok()
        .filter(|beside| beside.is_file())
        .unwrap_or_else(|| BUILT.into())
}

/// The version of a module in `go.mod`.
fn required(module: &str) -> &'static str {
    let of = |line: &'static str| {
        let line = line.trim().trim_start_matches("require ");
        line.strip_prefix(module)?
            .strip_prefix(' ')?
            .split(' ')
            .next()
    };
    MODULES.lines().find_map(of).unwrap_or("unknown")
}

impl Engine for GoEngine {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        required(self.module).to_owned()
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    fn configuration(&self, settings: &Settings) -> Vec<(String, String)> {
        self.describe(settings)
            .unwrap_or_else(|error| vec![("unknown".to_owned(), error.what)])
    }

    /// For tests: each operation goes through a pipe, one at a time. Benchmarks use [`Remote`].
    fn open(&self, directory: &Path, settings: &Settings) -> Result<Box<dyn Store>, StoreError> {
        let process = self.start(directory, settings)?;
        Ok(Box::new(store::Piped::open(process, settings.durability)?))
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for GoEngine {
    fn ready(&self) -> Result<(), StoreError> {
        if self.program.is_file() {
            return Ok(());
        }
        Err(failed(self.name)(&format!(
            "the program that holds the engines of the Go world is not built: {} is missing; run {BUILD}, which wants Go",
            self.program.display()
        )))
    }

    fn start(&self, directory: &Path, settings: &Settings) -> Result<Process, StoreError> {
        self.ready()?;
        let mut command = self.command(settings);
        command.arg("--directory").arg(directory);
        Process::start(self.name, &mut command, directory, &|hello| {
            self.check(hello)
        })
    }
}

impl GoEngine {
    fn command(&self, settings: &Settings) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(format!("--engine={}", self.name))
            .arg(format!("--durability={}", settings.durability))
            .arg(format!("--cache-bytes={}", settings.cache_bytes));
        command
    }

    /// How the engine would be set up, in its own words.
    fn describe(&self, settings: &Settings) -> Result<Vec<(String, String)>, StoreError> {
        self.ready()?;
        let output = self.command(settings).arg("--describe").output();
        let output = output.map_err(|error| failed(self.name)(&error))?;
        let hello = self.check(&String::from_utf8_lossy(&output.stdout))?;
        let mut configuration = hello.configuration;
        configuration.extend(hello.go.map(|go| ("built with".to_owned(), go)));
        Ok(configuration)
    }

    /// Whether this was said by the program that belongs to this crate.
    fn check(&self, line: &str) -> Result<Hello, StoreError> {
        let (failed, program) = (failed(self.name), self.program.display());
        let again = format!("run {BUILD} again");
        let hello: Hello = serde_json::from_str(line).map_err(|error| {
            failed(&format!(
                "{program} does not answer as it should; {again}: {error}"
            ))
        })?;
        let version = self.version();
        if hello.protocol != PROTOCOL || hello.version != version {
            return Err(failed(&format!(
                "{program} has {} and protocol {}, this kvsim {version} and {PROTOCOL}; {again}",
                hello.version, hello.protocol
            )));
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the versions that are printed are those of `go.mod`. Method: each engine has one there, and nothing else has.
    #[test]
    fn each_engine_has_a_version() {
        for (name, module, _) in ENGINES {
            assert!(
                required(module).starts_with('v'),
                "{name}: {}",
                required(module)
            );
        }
        assert_eq!(required("go.etcd.io"), "unknown");
    }

    /// Goal: who has not built the program is told how. Method: name one that is not there.
    #[test]
    fn a_missing_program_says_what_to_do() {
        let engines = with_program(Path::new("/nowhere/kvsim-go-peers"));
        let error = engines[0].ready().expect_err("it is not there");
        assert!(
            error.what.contains("/nowhere") && error.what.contains("go/build"),
            "{error}"
        );
        let settings = Settings {
            durability: kvsim_store::Durability::Full,
            cache_bytes: 1 << 20,
            index_bytes: 0,
            engine_options: Vec::new(),
            space_percent: 190,
            data_bytes: 1 << 20,
            keys: 1_000,
            threads: 1,
            memory_bytes: None,
            assume_power_loss_protection: false,
        };
        assert!(engines[0].open(Path::new("."), &settings).is_err());
    }
}
