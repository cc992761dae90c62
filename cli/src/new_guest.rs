//! `kvsim new-guest`: writes the template of a language, and says what comes next.

use clap::ValueEnum;
use kvsim_harness::kit::{self, Language};

use crate::args::NewGuestArgs;
use crate::exit::Exit;
use crate::output::{complain, print};

/// `--lang`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageArg {
    /// Rust, built by cargo
    Rust,
    /// C, built by clang or Zig
    C,
    /// Zig
    Zig,
}

/// Writes the template.
pub(crate) fn new_guest(args: &NewGuestArgs) -> Exit {
    let language = match args.lang {
        LanguageArg::Rust => Language::Rust,
        LanguageArg::C => Language::C,
        LanguageArg::Zig => Language::Zig,
    };
    if let Err(error) = kit::write(language, &args.dir) {
        complain(&format!("error: {error}"));
        return Exit::Usage;
    }
    let (dir, module) = (args.dir.display(), language.module());
    let files: Vec<&str> = language.files().iter().map(|(name, _)| *name).collect();
    print(&format!(
        "wrote {} into {dir}\n\n  cd {dir}\n  {}\n  kvsim check-guest {module}\n  kvsim suite --guest {module}\n",
        files.join(", "),
        language.build()
    ));
    Exit::Clean
}
