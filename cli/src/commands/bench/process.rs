//! `kvsim engine-process`: the process of one engine. `kvsim bench` starts it, for each engine that is built into kvsim.

use std::io::{stdin, stdout};

use kvsim_harness::bench::serve::serve;
use kvsim_harness::bench::store::Settings;

use crate::args::EngineProcessArgs;
use crate::exit::Exit;
use crate::output::complain;

use super::engines::named;

/// `kvsim engine-process`
pub(crate) fn engine_process(args: &EngineProcessArgs) -> Exit {
    let Some(engine) = named(&args.engine) else {
        complain(&format!("error: there is no engine `{}`", args.engine));
        return Exit::Usage;
    };
    let settings: Settings = match serde_json::from_str(&args.settings) {
        Ok(settings) => settings,
        Err(error) => {
            complain(&format!("error: the settings: {error}"));
            return Exit::Usage;
        }
    };
    let (mut from, mut to) = (stdin().lock(), stdout().lock());
    match serve(engine.as_ref(), &args.dir, &settings, &mut from, &mut to) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain(&format!(
                "error: what {} is asked for: {error}",
                args.engine
            ));
            Exit::Inconclusive
        }
    }
}
