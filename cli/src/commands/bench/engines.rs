//! The engines of this build, by their names.

use kvsim_harness::bench::native::Native;
use kvsim_harness::bench::slots::Slots;
use kvsim_harness::bench::store::Engine;

use crate::output::complain;

/// In place of the names of engines.
const ALL: &str = "all";
/// How to get the engines that this build does not have.
const UNBUILT: Option<&str> = if cfg!(not(feature = "peers")) {
    Some("peers are built with --features kvsim/peers, RocksDB with --features kvsim/rocksdb")
} else if cfg!(not(feature = "rocksdb")) {
    Some("RocksDB is built with --features kvsim/rocksdb")
} else {
    None
};

/// The engine of this name, if it is built into this program.
pub(super) fn named(name: &str) -> Option<Box<dyn Engine>> {
    let mut all = known().into_iter().chain(others());
    all.find(|engine| engine.name() == name)
}

fn known() -> Vec<Box<dyn Engine>> {
    #[cfg_attr(not(feature = "peers"), expect(unused_mut, reason = "peers are added"))]
    let mut all: Vec<Box<dyn Engine>> = vec![Box::new(Native::ENGINE)];
    #[cfg(feature = "peers")]
    all.extend(kvsim_peers::all());
    all
}

/// What is measured only by its own name: ways of ours that are compared with one another, and files without an engine.
fn others() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(Native::THROUGH),
        Box::new(Native::FLUSH_FREE),
        Box::new(Slots::BUFFERED),
        Box::new(Slots::DIRECT),
    ]
}

/// Every engine that can be measured here, ours first; what is left out is said.
fn all() -> Vec<Box<dyn Engine>> {
    let (here, missing): (Vec<_>, Vec<_>) = known()
        .into_iter()
        .partition(|engine| not_ready(engine.as_ref()).is_none());
    if let Some(why) = missing
        .first()
        .and_then(|engine| not_ready(engine.as_ref()))
    {
        let names: Vec<&str> = missing.iter().map(|engine| engine.name()).collect();
        complain(&format!("note: without {}: {why}", names.join(", ")));
    }
    if let Some(features) = UNBUILT {
        complain(&format!("note: {features}"));
    }
    here
}

/// Why an engine of another process cannot be started here.
fn not_ready(engine: &dyn Engine) -> Option<String> {
    let error = engine.remote()?.ready().err()?;
    Some(error.what)
}

pub(super) fn engines(names: &[String]) -> Result<Vec<Box<dyn Engine>>, String> {
    if names.is_empty() {
        return Ok(vec![Box::new(Native::ENGINE)]);
    }
    if names.iter().any(|name| name == ALL) {
        return match names {
            [_] => Ok(all()),
            _ => Err(format!("--engines {ALL} names all of them already")),
        };
    }
    let mut chosen: Vec<Box<dyn Engine>> = Vec::new();
    for name in names {
        let mut all: Vec<_> = known().into_iter().chain(others()).collect();
        let at = all.iter().position(|engine| engine.name() == name);
        let Some(at) = at else {
            let names: Vec<&str> = all.iter().map(|engine| engine.name()).collect();
            let help = UNBUILT.unwrap_or("`all` names all of them");
            return Err(format!(
                "there is no engine `{name}`; this build has {}\n  = help: {help}",
                names.join(", ")
            ));
        };
        if let Some(why) = not_ready(all[at].as_ref()) {
            return Err(format!("{name}: {why}"));
        }
        chosen.push(all.swap_remove(at));
    }
    Ok(chosen)
}
