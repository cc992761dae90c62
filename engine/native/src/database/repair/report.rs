//! What a repair says of what it has done.

use std::fmt;

use kvsim_engine::{KeySpan, LogGap};

use crate::api::error::Failure;
use crate::database::backup::Progress;

/// What a repair did, and what is lost. It prints itself, a line for each thing that is lost or may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Keys, and bytes of keys and values, that were copied.
    pub copied: Progress,
    /// Keys that are not in the new database, since nothing that is known of them can be read, each with what is wrong with the newest version, in the order of the keys.
    pub lost: Vec<(Box<[u8]>, Failure)>,
    /// Keys that have the value of an older version, each with what is wrong with the newest one that is known, in the order of the keys.
    pub older: Vec<(Box<[u8]>, Failure)>,
    /// Ranges of keys of which pages of the index are damaged, ascending. Each of these keys may be missing, have an older value, or have been deleted before the damage.
    pub unknown: Vec<KeySpan>,
    /// Parts of the log that cannot be read, ascending. What was written or deleted there is missing: such a key, whichever it is, is as it was before. Of a batch some may be there.
    pub log_gaps: Vec<LogGap>,
    /// Keys of puts and deletes behind the end of the log, ascending; they were left out, as an opening leaves them out. A write that was under way in a crash looks so. So does one
    /// that was durable, if the log is damaged before it and nothing states it as durable any more.
    pub cut_off: Vec<Box<[u8]>>,
    /// Copies of the superblock that are damaged, of 0 to 3. As long as one is whole, nothing is lost by that.
    pub damaged_superblocks: Vec<u16>,
    /// How many bytes the file is shorter than it was, at least. The end of the log may have been there.
    pub missing_bytes: u64,
    /// Parts of the file that the system could not read: offset and length in bytes, ascending.
    pub unreadable: Vec<(u64, u64)>,
}

impl RepairReport {
    /// Whether the new database has all that a database without damage would show: nothing is lost, older, unknown or missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let lost_nothing = |gap: &LogGap| gap.lost_commits == Some(0);
        self.missing_bytes == 0
            && self.lost.is_empty()
            && self.older.is_empty()
            && self.unknown.is_empty()
            && self.log_gaps.iter().all(lost_nothing)
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} keys", self.copied.entries)?;
        for (key, why) in &self.lost {
            writeln!(f, "lost: {}: {why}", key.escape_ascii())?;
        }
        for (key, why) in &self.older {
            writeln!(f, "an older value: {}: {why}", key.escape_ascii())?;
        }
        for span in &self.unknown {
            write!(
                f,
                "not known for certain: from {} ",
                span.from.escape_ascii()
            )?;
            match &span.to {
                Some(to) => writeln!(f, "to before {}", to.escape_ascii())?,
                None => writeln!(f, "to the last key")?,
            }
        }
        for gap in &self.log_gaps {
            match gap.lost_commits {
                Some(0) => {}
                Some(lost) => writeln!(f, "lost with a part of the log: {lost} puts and deletes")?,
                None => writeln!(f, "a part of the log is lost, and nothing tells how much")?,
            }
        }
        for key in &self.cut_off {
            writeln!(f, "never stated as durable: {}", key.escape_ascii())?;
        }
        if self.missing_bytes > 0 {
            writeln!(f, "the file is {} bytes too short", self.missing_bytes)?;
        }
        for (offset, len) in &self.unreadable {
            writeln!(f, "unreadable: {len} bytes at {offset}")?;
        }
        match self.is_complete() {
            true => f.write_str("nothing is lost"),
            false => f.write_str("something is lost, or may be"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvsim_engine::Status;

    /// Goal: whatever is lost has a line, and only where nothing is the last line says so. Method: a report with one of each, and an empty one.
    #[test]
    fn whatever_is_lost_has_a_line() {
        let empty = RepairReport::default();
        assert_eq!(empty.to_string(), "0 keys\nnothing is lost");
        let failure = Failure {
            status: Status::Corruption,
            message: "damage".into(),
        };
        let span = |to: Option<&[u8]>| KeySpan {
            from: b"a\0"[..].into(),
            to: to.map(Into::into),
        };
        let report = RepairReport {
            lost: vec![(b"x\n"[..].into(), failure.clone())],
            older: vec![(b"y"[..].into(), failure)],
            unknown: vec![span(Some(b"b")), span(None)],
            cut_off: vec![b"z"[..].into()],
            missing_bytes: 5,
            unreadable: vec![(4096, 8192)],
            ..RepairReport::default()
        };
        let lines = [
            "0 keys",
            "lost: x\\n: damage",
            "an older value: y: damage",
            "not known for certain: from a\\x00 to before b",
            "not known for certain: from a\\x00 to the last key",
            "never stated as durable: z",
            "the file is 5 bytes too short",
            "unreadable: 8192 bytes at 4096",
            "something is lost, or may be",
        ];
        assert_eq!(report.to_string(), lines.join("\n"));
    }
}
