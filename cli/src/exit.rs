//! How the process ends. One enum, and one page of the book: `book/src/exit-codes.md`.

use std::process::ExitCode;

use kvsim_harness::campaign::CampaignError;

/// What the caller of `kvsim` is told. When several scenarios ran, the most severe counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Nothing was violated.
    Clean = 0,
    /// Nothing was violated in what was seen, but not all was seen that was asked for.
    Inconclusive = 3,
    /// A property was violated.
    Violation = 1,
    /// The command line or a scenario is wrong; nothing was run.
    Usage = 2,
    /// kvsim itself failed, or one seed gave two different runs.
    Internal = 70,
}

impl Exit {
    fn severity(self) -> u8 {
        match self {
            Exit::Clean => 0,
            Exit::Inconclusive => 1,
            Exit::Violation => 2,
            Exit::Usage => 3,
            Exit::Internal => 4,
        }
    }

    /// The more severe of the two.
    pub(crate) fn and(self, other: Exit) -> Exit {
        if other.severity() > self.severity() {
            other
        } else {
            self
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl From<&CampaignError> for Exit {
    fn from(error: &CampaignError) -> Exit {
        if error.is_usage() {
            Exit::Usage
        } else {
            Exit::Internal
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit::{Clean, Inconclusive, Internal, Usage, Violation};

    /// The most severe end wins, in the order of the book's page, which is not the order of the numbers.
    #[test]
    fn the_most_severe_end_counts() {
        for (one, other, both) in [
            (Clean, Clean, Clean),
            (Clean, Inconclusive, Inconclusive),
            (Inconclusive, Violation, Violation),
            (Violation, Usage, Usage),
            (Internal, Violation, Internal),
        ] {
            assert_eq!(one.and(other), both);
            assert_eq!(other.and(one), both);
        }
    }

    /// The book's page names every code.
    #[test]
    fn the_book_names_every_exit_code() {
        let page = include_str!("../../book/src/exit-codes.md");
        for exit in [Clean, Violation, Usage, Inconclusive, Internal] {
            assert!(page.contains(&format!("| `{}` |", exit as u8)), "{exit:?}");
        }
    }
}
