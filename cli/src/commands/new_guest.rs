//! `kvsim new-guest`: writes the template of a language, and says what comes next.

use kvsim_harness::kit::{self, Language, Storage, Template};

use crate::args::{LanguageArg, NewGuestArgs};
use crate::exit::Exit;
use crate::output::{complain, print};

/// Writes the template.
pub(crate) fn new_guest(args: &NewGuestArgs) -> Exit {
    let language = match args.lang {
        LanguageArg::Rust => Language::Rust,
        LanguageArg::Go => Language::Go,
        LanguageArg::C => Language::C,
        LanguageArg::Zig => Language::Zig,
    };
    let storage = if args.files {
        Storage::Files
    } else {
        Storage::Device
    };
    let written = Template::new(language, storage)
        .and_then(|template| kit::write(template, &args.dir).map(|()| template));
    let template = match written {
        Ok(template) => template,
        Err(error) => {
            complain(&format!("error: {error}"));
            return Exit::Usage;
        }
    };
    let (dir, module) = (args.dir.display(), template.module());
    let next = match storage {
        Storage::Device => {
            format!("  kvsim check-guest {module}\n  kvsim suite --guest {module}\n")
        }
        Storage::Files => {
            format!(
                "  kvsim run files_powercut --guest {module}\n  kvsim explore files_explore --guest {module}\n"
            )
        }
    };
    let files: Vec<&str> = template.files().iter().map(|(name, _)| *name).collect();
    print(&format!(
        "wrote {} into {dir}\n\n  cd {dir}\n  {}\n{next}",
        files.join(", "),
        template.build()
    ));
    Exit::Clean
}
