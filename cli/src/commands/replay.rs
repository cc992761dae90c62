//! `kvsim replay`: a saved failing case, run again as it was saved, made smaller, or written to a directory.

mod folder;
mod small;
mod write_files;

use crate::args::ReplayArgs;
use crate::campaigns::{Job, execute};
use crate::exit::Exit;
use crate::loading::{load, saved_guest};
use crate::output::complain;

/// `kvsim replay`
pub(crate) fn replay(args: &ReplayArgs) -> Exit {
    if args.file.is_dir() && args.write_files.is_some() {
        complain("error: --write-files takes one case, not a folder of cases");
        return Exit::Usage;
    }
    if args.file.is_dir() {
        return folder::replay(args);
    }
    let scenarios = match load(std::slice::from_ref(&args.file), &args.common.set) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    if scenarios.iter().any(|scenario| scenario.failure.is_none()) {
        let file = args.file.display();
        complain(&format!(
            "error: {file} is no saved failing case: it has no [failure] table\n  = help: kvsim run {file}"
        ));
        return Exit::Usage;
    }
    let saved = scenarios.iter().find_map(|it| saved_guest(it, &args.file));
    let guest = args.common.guest.clone().or(saved);
    if let Some(directory) = &args.write_files {
        return write_files::replay(args, directory, &scenarios[0], guest.as_deref());
    }
    if args.minimise || args.blame {
        return small::replay(args, &args.file, &scenarios, guest.as_deref());
    }
    execute(&Job::of_cases(scenarios, guest, args))
}
