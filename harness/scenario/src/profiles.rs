//! Device profiles: by path, by name from the scenario's own directory, else from the copies in this binary.

use std::path::{Path, PathBuf};

use crate::files::{BYTES_MAX, read_text};

/// Every profile that is shipped: its name and its text.
pub const BUILTIN: &[(&str, &str)] = &[
    (
        "apple_m4_barrier",
        include_str!("../../../scenarios/profiles/apple_m4_barrier.toml"),
    ),
    (
        "apple_m4_full_flush",
        include_str!("../../../scenarios/profiles/apple_m4_full_flush.toml"),
    ),
    (
        "cloud_volume",
        include_str!("../../../scenarios/profiles/cloud_volume.toml"),
    ),
    (
        "hard_disk",
        include_str!("../../../scenarios/profiles/hard_disk.toml"),
    ),
    (
        "nvme_consumer",
        include_str!("../../../scenarios/profiles/nvme_consumer.toml"),
    ),
    (
        "nvme_datacentre",
        include_str!("../../../scenarios/profiles/nvme_datacentre.toml"),
    ),
];

/// A profile that was found, or where it was looked for.
pub(crate) enum Found {
    /// Its source's name and its text.
    Text(String, String),
    /// It is there and cannot be read.
    Unreadable(PathBuf, std::io::Error),
    /// The places that were tried, and the names that would have done.
    Nowhere(Vec<String>, Vec<String>),
}

/// Looks for a profile beside a scenario that lies in `directory`, then among the built-in ones.
pub(crate) fn find(name: &str, directory: Option<&Path>) -> Found {
    let mut looked_at = Vec::new();
    let mut names: Vec<String> = BUILTIN.iter().map(|(name, _)| (*name).to_owned()).collect();
    let is_path = name.contains(['/', '\\']) || name.ends_with(".toml");
    let profiles = directory.map(|directory| directory.join("profiles"));
    let path = match (directory, &profiles) {
        // Of a built-in scenario: from the working directory.
        (directory, _) if is_path => Some(directory.unwrap_or(Path::new("")).join(name)),
        (_, Some(profiles)) => Some(profiles.join(format!("{name}.toml"))),
        _ => None,
    };
    if let Some(path) = path {
        match read_text(&path, BYTES_MAX) {
            Ok(text) => return Found::Text(path.display().to_string(), text),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Found::Unreadable(path, error);
            }
            Err(_) => looked_at.push(path.display().to_string()),
        }
    }
    if let Some(profiles) = &profiles {
        names.extend(names_in(profiles));
    }
    if let Some((_, text)) = BUILTIN.iter().find(|(known, _)| *known == name) {
        return Found::Text(format!("<built-in profile {name}>"), (*text).to_owned());
    }
    looked_at.push("the built-in profiles".to_owned());
    names.sort();
    names.dedup();
    Found::Nowhere(looked_at, names)
}

/// The names of the TOML files in a directory, sorted, without their ending; none if it cannot be read.
pub(crate) fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            entry
                .ok()?
                .file_name()
                .into_string()
                .ok()?
                .strip_suffix(".toml")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    names
}
