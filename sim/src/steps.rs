//! Steps of a file system in words.

use kvsim_fs::{EntryChange, FileSystem, PAGE_BYTES, SECTOR_BYTES, StepKind, StepNote};

/// How a directory is called.
const DIRECTORY: &str = "the directory";

/// What has just happened, in words; its kind, a number that stands for its content, and the call that did it.
pub(crate) struct StepWords {
    pub(crate) words: String,
    pub(crate) kind: &'static str,
    pub(crate) op: u64,
    pub(crate) hash: u64,
}

/// Describes a step of this file system, which is as it was right after it. `syncing` is the name of what is being synced.
pub(crate) fn describe(
    note: &StepNote,
    files: &FileSystem,
    syncing: &mut Option<String>,
) -> StepWords {
    match note {
        StepNote::Pending { op, step } => {
            let newest = files.pending().iter().rev();
            let found = newest
                .take_while(|it| it.id >= *step)
                .find(|it| it.id == *step);
            match found {
                Some(found) => StepWords {
                    words: step_words(&found.path, &found.kind),
                    kind: "step",
                    op: *op,
                    hash: found.content_hash() ^ step,
                },
                // A profile that makes everything durable at once.
                None => StepWords {
                    words: "a step that is durable at once".to_owned(),
                    kind: "step",
                    op: *op,
                    hash: *step,
                },
            }
        }
        StepNote::SyncBegins { op, sync, ino } => {
            let mut name = named(&files.path_of(*ino));
            if files.is_directory(*ino) && !name.starts_with(DIRECTORY) {
                name = format!("{DIRECTORY} {name}");
            }
            let words = format!("sync of {name} begins");
            *syncing = Some(name);
            StepWords {
                words,
                kind: "sync",
                op: *op,
                hash: *sync,
            }
        }
        StepNote::Synced {
            op,
            durable,
            dropped,
        } => {
            let name = syncing.take().unwrap_or_else(|| "something".to_owned());
            let steps = |count: u64| match count {
                1 => "1 step".to_owned(),
                count => format!("{count} steps"),
            };
            let words = match dropped {
                0 => format!("synced {name}: {} durable", steps(*durable)),
                dropped => format!("sync of {name} FAILED and gave up {}", steps(*dropped)),
            };
            StepWords {
                words,
                kind: "synced",
                op: *op,
                hash: durable << 32 | dropped,
            }
        }
    }
}

/// A step in words: `wrote 4,096 bytes at 0 of wal-2`.
#[must_use]
pub fn step_words(path: &str, kind: &StepKind) -> String {
    match kind {
        StepKind::Data {
            page,
            sectors,
            tail,
            ..
        } => {
            let sector = u64::from(SECTOR_BYTES);
            let first = u64::from(sectors.trailing_zeros().min(7));
            let last = u64::from(7 - sectors.leading_zeros().min(7));
            let (offset, bytes) = (
                page * PAGE_BYTES + first * sector,
                (last + 1 - first) * sector,
            );
            let did = if *tail { "zeroed" } else { "wrote" };
            format!(
                "{did} {} bytes at {} of {path}",
                grouped(bytes),
                grouped(offset)
            )
        }
        StepKind::Mapped { page } => {
            let offset = grouped(page * PAGE_BYTES);
            format!("gave {path} a block at {offset} that holds what it held before")
        }
        StepKind::Size { from, to } => {
            format!(
                "grew {path} from {} to {} bytes",
                grouped(*from),
                grouped(*to)
            )
        }
        StepKind::Truncate { from, to } => {
            format!(
                "cut {path} from {} to {} bytes",
                grouped(*from),
                grouped(*to)
            )
        }
        StepKind::Allocated { start, end } => {
            let bytes = grouped((end - start) * PAGE_BYTES);
            format!(
                "allocated {bytes} bytes at {} of {path}",
                grouped(start * PAGE_BYTES)
            )
        }
        StepKind::Entry(EntryChange { from, to, .. }) => match (from, to) {
            (None, _) => format!("created {path}"),
            (_, None) => format!("removed {path}"),
            _ => format!("replaced {path}"),
        },
        StepKind::Renamed { old, new } => {
            let name = String::from_utf8_lossy(&new.name).into_owned();
            let did = if new.from.is_some() {
                ", replacing what was there"
            } else {
                ""
            };
            let old = String::from_utf8_lossy(&old.name).into_owned();
            format!("renamed {old} to {name}{did}")
        }
        StepKind::Attributes { .. } => format!("set the times of {path}"),
        _ => format!("{} of {path}", kind.name()),
    }
}

fn named(path: &str) -> String {
    match path {
        "" | "." => DIRECTORY.to_owned(),
        path => path.to_owned(),
    }
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        let texts = [0, 999, 1_000, 12_345_678].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345,678"]);
    }

    /// Goal: a write names its bytes as a caller knows them. Method: the second and third sector of the second page.
    #[test]
    fn a_write_names_its_bytes() {
        let kind = StepKind::Data {
            page: 1,
            sectors: 0b110,
            first: false,
            tail: false,
        };
        assert_eq!(
            step_words("wal-2", &kind),
            "wrote 1,024 bytes at 4,608 of wal-2"
        );
    }
}
