//! What each option of the engine means. The book's page and the message about an unknown option are made from this
//! table.
//!
//! Invariant: every option that [`crate::Options`] reads is here, with the values that are accepted; the tests below hold it to the parser.

/// An option of the engine, as a person reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHelp {
    /// Its name before the `=`.
    pub name: &'static str,
    /// The values: a range such as `1 to 64`, or words separated by commas.
    pub values: &'static str,
    /// The value where nothing is stated.
    pub default: &'static str,
    /// What it sets, as one or two sentences.
    pub meaning: &'static str,
}

/// All options, in the order in which the book lists them.
pub const OPTIONS: &[OptionHelp] = &[
    OptionHelp {
        name: "segment_bytes",
        values: "16384 to 67108864, a power of two",
        default: "capacity / 32, within 64 KiB and 8 MiB; smaller where fewer than 24 segments would fit",
        meaning: "Size of a segment, fixed when a database is created. A segment holds at least four physical blocks.",
    },
    OptionHelp {
        name: "checkpoint_bytes",
        values: "4096 to 1099511627776",
        default: "capacity / 64, within 32 KiB and 64 MiB",
        meaning: "Log written between two checkpoints, at least. It is never below twice what the last checkpoint wrote.",
    },
    OptionHelp {
        name: "cache_bytes",
        values: "0 to 1099511627776",
        default: "an eighth of the memory, within 256 KiB and 32 MiB",
        meaning: "Bound of the value cache. 0 switches the cache off.",
    },
    OptionHelp {
        name: "write_buffer_bytes",
        values: "4096 to 1099511627776",
        default: "a sixteenth of the memory, within 256 KiB and 8 MiB",
        meaning: "Bound of the bytes that are accepted and not durable yet. It is never more than capacity / 32, or 16 KiB on a smaller device, because a recovery may have to write them anew.",
    },
    OptionHelp {
        name: "frame_bytes",
        values: "4096 to 67108864",
        default: "1048576",
        meaning: "A frame of the log is closed when it reaches this size, or eight blocks of the device if that is more.",
    },
    OptionHelp {
        name: "inline_bytes",
        values: "0 to 1024",
        default: "192",
        meaning: "Values up to this size are kept in the index, where they are read without a look at the log. They are written with it, too.",
    },
    OptionHelp {
        name: "large_value_bytes",
        values: "1024 to 16777216",
        default: "131072",
        meaning: "Values above this size are kept in extents.",
    },
    OptionHelp {
        name: "max_value_bytes",
        values: "1 to 67108864",
        default: "16777216",
        meaning: "Larger values are refused.",
    },
    OptionHelp {
        name: "commit",
        values: "auto, flush, write_through",
        default: "auto",
        meaning: "How commits become durable: a flush for each group, or frames that are written through the cache. `auto` takes what was measured to be faster. `write_through` needs a device that offers it, or none with a volatile cache.",
    },
    OptionHelp {
        name: "commit_depth",
        values: "1 to 64",
        default: "4",
        meaning: "Frames in flight where commits are written through.",
    },
    OptionHelp {
        name: "group_wait",
        values: "0 to 1000000000, or auto",
        default: "auto",
        meaning: "Nanoseconds that a group waits for further commits. `auto` adapts, and switches the wait off where it gains nothing.",
    },
    OptionHelp {
        name: "relaxed_window_ns",
        values: "0 to 3600000000000",
        default: "50000000",
        meaning: "A relaxed write is durable within this time after its acknowledgement.",
    },
    OptionHelp {
        name: "usable_percent",
        values: "10 to 90",
        default: "75",
        meaning: "The share of the data segments that live data may fill. The one knob of space against write amplification.",
    },
    OptionHelp {
        name: "grow_percent",
        values: "5 to 90",
        default: "65",
        meaning: "Live data beyond this share of the present size makes a device grow that can. Below it, garbage collection has to find the room.",
    },
    OptionHelp {
        name: "index_bytes",
        values: "0 to 1099511627776",
        default: "0",
        meaning: "Memory for the entries of the index, and in that, at most the half of it, for filters and the first keys of leaves. What entries leave is for leaves that were read. Entries that do not fit are read from the device when they are asked for. What has changed since the last checkpoint is in memory in any case. 0: all entries are in memory.",
    },
    OptionHelp {
        name: "load_first_bytes",
        values: "0 to 1099511627776",
        default: "4194304",
        meaning: "An index on the device of up to so many bytes is loaded before an opening is answered. A larger one is loaded behind it, while clients read and write.",
    },
    OptionHelp {
        name: "durable_mark",
        values: "on, off",
        default: "on",
        meaning: "Whether an idle engine records the durable position of its last group.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::config::Options;

    fn parses(name: &str, value: impl std::fmt::Display) -> bool {
        Options::parse(&format!("{name}={value}")).is_ok()
    }

    /// Goal: the values that are listed are those that are accepted. Method: both ends of each range and the numbers beside them, and each word.
    #[test]
    fn the_listed_values_are_those_that_are_accepted() {
        for option in OPTIONS {
            let name = option.name;
            let mut words: Vec<&str> = option.values.split(", ").collect();
            if let Some((least, most)) = words[0].split_once(" to ") {
                words.remove(0);
                let [least, most] = [least, most].map(|end| end.parse::<u64>().expect(name));
                assert!(parses(name, least) && parses(name, most), "{name}");
                assert!(!parses(name, most + 1), "{name}");
                assert!(least == 0 || !parses(name, least - 1), "{name}");
                words = words
                    .iter()
                    .filter_map(|word| word.strip_prefix("or "))
                    .collect();
            }
            for word in words {
                assert!(parses(name, word), "{name}={word}");
            }
            assert!(!parses(name, "nonsense"), "{name}");
        }
    }

    /// Goal: no option is left out. Method: the fields of the options, as they print themselves.
    #[test]
    fn every_option_is_listed() {
        let printed = format!("{:#?}", Options::default());
        let fields: Vec<&str> = printed
            .lines()
            .filter_map(|line| line.strip_prefix("    ")?.split_once(": "))
            .map(|(field, _)| field)
            .filter(|field| !field.starts_with(' ') && *field != "mutant")
            .collect();
        let listed: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
        assert_eq!(fields.len(), listed.len(), "{fields:?}");
        for field in fields {
            let name = if field == "group_wait_ns" {
                "group_wait"
            } else {
                field
            };
            assert!(listed.contains(&name), "{name}");
        }
    }

    /// Goal: stating a default changes nothing. Method: each default that is a value.
    #[test]
    fn a_default_that_is_stated_changes_nothing() {
        let usual = format!("{:?}", Options::default());
        for option in OPTIONS
            .iter()
            .filter(|option| parses(option.name, option.default))
        {
            let stated = Options::parse(&format!("{}={}", option.name, option.default));
            assert_eq!(
                format!("{:?}", stated.expect("it parses")),
                usual,
                "{}",
                option.name
            );
        }
    }
}
