//! The scenarios that ship, as copies in this binary: `kvsim run powercut` works in any folder.

use crate::error::nearest;

/// What a shipped scenario is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be crashed, by `kvsim run` or `kvsim explore`.
    Crash,
    /// The same with an engine that uses files.
    Files,
    /// To be measured, by `kvsim bench`.
    Bench,
}

/// A scenario that ships.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Its name: that of its file, without folder and ending. No other has it.
    pub name: &'static str,
    /// What it is for.
    pub purpose: Purpose,
    pub(super) text: &'static str,
}

macro_rules! shipped {
    ($($purpose:ident in $folder:literal { $($name:literal)* })*) => {
        &[$($(Shipped {
            name: $name,
            purpose: Purpose::$purpose,
            text: include_str!(concat!("../../../", $folder, $name, ".toml")),
        }),*),*]
    };
}

/// All of them, by purpose in the order of their names.
pub const SHIPPED: &[Shipped] = shipped! {
    Crash in "scenarios/" {
        "appending" "as_library" "bad_openings" "bad_sectors" "barrier" "bit_rot" "crash_in_recovery" "disk_full" "durable_8_clients" "explore_deep" "explore_errors" "explore_long"
        "explore_small" "few_changes" "flush_error" "flush_lies" "growing_errors" "growing_lies" "just_fits" "kitchen_sink" "large_values" "limits" "little_index" "little_memory" "loading" "many_segments" "misdirected" "mixed" "powercut"
        "process_crash" "promises" "relaxed_window" "reopened" "reorder" "segments_astray" "segments_lost" "short_runs" "small_faults" "small_full" "small_index" "small_swarm" "space" "space_large" "space_returns" "swarm"
        "torn_superblock" "torn_unreadable" "torn_write" "write_error" "write_error_protected"
    }
    Files in "scenarios/files/" {
        "files_board" "files_explore" "files_powercut" "files_swarm"
    }
    Bench in "scenarios/bench/" {
        "amplification" "durable" "ingest" "large" "no_fsync" "overwrite" "read" "scan"
        "ycsb_a" "ycsb_b" "ycsb_c" "ycsb_d" "ycsb_e" "ycsb_f"
    }
};

impl Shipped {
    /// The scenario of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Shipped> {
        SHIPPED.iter().find(|shipped| shipped.name == name)
    }
}

/// The name that was most likely meant.
pub(super) fn nearest_name(name: &str) -> Option<&'static str> {
    nearest(name, SHIPPED.iter().map(|shipped| shipped.name))
}

#[cfg(test)]
mod tests {
    use super::super::profiles::names_in;
    use super::*;

    /// Goal: what ships as a file ships in the binary too, and loads there. Method: each folder, and each text.
    #[test]
    fn every_file_that_ships_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        for (purpose, folder) in [
            (Purpose::Crash, folder.to_owned()),
            (Purpose::Files, format!("{folder}/files")),
            (Purpose::Bench, format!("{folder}/bench")),
        ] {
            let built_in = SHIPPED.iter().filter(|it| it.purpose == purpose);
            let built_in: Vec<&str> = built_in.map(|it| it.name).collect();
            assert_eq!(names_in(folder.as_ref()), built_in);
        }
        for shipped in SHIPPED {
            let loaded = shipped.load(&[]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(loaded.name, shipped.name);
            assert!(!loaded.description.is_empty(), "{}", shipped.name);
            let same = SHIPPED.iter().filter(|it| it.name == shipped.name);
            assert_eq!(same.count(), 1, "{}", shipped.name);
        }
    }
}
