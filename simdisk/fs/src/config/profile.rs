//! Persistence profiles by name, and as tables.

use std::fmt;
use std::sync::OnceLock;

use kvsim_crash::ConfigError;
use kvsim_crash::config::wrong;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Rules;

/// The profiles that come with kvsim.
const EMBEDDED: [(&str, &str); 10] = [
    (
        "posix",
        include_str!("../../../../scenarios/profiles/files/posix.toml"),
    ),
    (
        "ext4_ordered",
        include_str!("../../../../scenarios/profiles/files/ext4_ordered.toml"),
    ),
    (
        "ext4_writeback",
        include_str!("../../../../scenarios/profiles/files/ext4_writeback.toml"),
    ),
    (
        "ext4_journal",
        include_str!("../../../../scenarios/profiles/files/ext4_journal.toml"),
    ),
    (
        "xfs",
        include_str!("../../../../scenarios/profiles/files/xfs.toml"),
    ),
    (
        "btrfs",
        include_str!("../../../../scenarios/profiles/files/btrfs.toml"),
    ),
    (
        "zfs",
        include_str!("../../../../scenarios/profiles/files/zfs.toml"),
    ),
    (
        "apfs_full_fsync",
        include_str!("../../../../scenarios/profiles/files/apfs_full_fsync.toml"),
    ),
    (
        "apfs_fsync",
        include_str!("../../../../scenarios/profiles/files/apfs_fsync.toml"),
    ),
    (
        "process_kill",
        include_str!("../../../../scenarios/profiles/files/process_kill.toml"),
    ),
];

/// Their rules, once read.
static READ: [OnceLock<Rules>; EMBEDDED.len()] = [const { OnceLock::new() }; EMBEDDED.len()];

/// Which profile a file system has: the name of one that comes with kvsim, or a table of rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Profile {
    /// By name.
    Named(String),
    /// A table of its own.
    Table(Box<Rules>),
}

impl Default for Profile {
    /// `ext4_ordered`, which most engines meet.
    fn default() -> Self {
        Profile::Named("ext4_ordered".to_owned())
    }
}

impl Profile {
    /// The names of the profiles that come with kvsim, the weakest first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        EMBEDDED.iter().map(|(name, _)| *name)
    }

    /// The text of a profile that comes with kvsim, its sources in comments.
    #[must_use]
    pub fn text(name: &str) -> Option<&'static str> {
        let mut all = EMBEDDED.iter();
        all.find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The name, or `custom`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Profile::Named(name) => name,
            Profile::Table(_) => "custom",
        }
    }

    /// The rules.
    ///
    /// # Errors
    /// If there is no profile of that name; the message lists the names.
    ///
    /// # Panics
    /// If a profile that comes with kvsim is wrong. A test reads them all.
    pub fn rules(&self) -> Result<Rules, ConfigError> {
        let name = match self {
            Profile::Table(rules) => return Ok(Rules::clone(rules)),
            Profile::Named(name) => name,
        };
        let Some(at) = EMBEDDED.iter().position(|(known, _)| known == name) else {
            let names: Vec<&str> = Profile::names().collect();
            let message = format!("is `{name}`; the profiles are {}", names.join(", "));
            return wrong("files.profile", message);
        };
        let read = || {
            toml::from_str(EMBEDDED[at].1)
                .unwrap_or_else(|error| panic!("the profile `{name}`: {error}"))
        };
        Ok(READ[at].get_or_init(read).clone())
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Profile::Named(name) => to.serialize_str(name),
            Profile::Table(rules) => rules.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = Profile;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("the name of a persistence profile, or a table of its rules")
            }

            fn visit_str<E>(self, name: &str) -> Result<Profile, E> {
                Ok(Profile::Named(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Profile, A::Error> {
                let rules = Rules::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Profile::Table(Box::new(rules)))
            }
        }

        from.deserialize_any(NameOrTable)
    }
}
