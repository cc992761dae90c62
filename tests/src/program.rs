//! Running the program as a user does.

use std::path::Path;
use std::process::{Command, Output};

use crate::root;

/// What a run of the program left.
#[derive(Debug)]
pub struct Ended {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside.
    pub stderr: String,
}

impl Ended {
    /// Takes over what a process left.
    #[must_use]
    pub fn new(output: &Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// The value of a line of the summary, such as `trace`.
    #[must_use]
    pub fn line(&self, label: &str) -> Option<&str> {
        let line = |line: &'_ &str| line.trim_start().starts_with(label);
        let found = self.stdout.lines().find(line)?;
        Some(found.trim_start()[label.len()..].trim())
    }
}

/// The program with arguments, from the workspace's folder.
#[must_use]
pub fn command(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).args(arguments);
    command
}

/// Runs the program to its end.
///
/// # Panics
/// If it cannot be started.
#[must_use]
pub fn execute(program: &Path, arguments: &[&str]) -> Ended {
    let output = command(program, arguments).output();
    Ended::new(&output.expect("the program starts"))
}
