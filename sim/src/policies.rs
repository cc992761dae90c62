//! What a guest promises, where correct engines differ: the policies that it states by `kv_policies`.
//!
//! Invariant: [`GuestPolicies::default`] is the strict contract of the ABI page, and a guest that states nothing is held to it. Every
//! other value allows more, except those of `relaxed_window_ns`, `opens_when_full` and `full_takes`, which promise more.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// In which order writes commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitOrder {
    /// In the order in which they are handed in.
    #[default]
    Arrival,
    /// In any order that real time allows: a write that was answered before another was handed in commits first. Two writes that were
    /// with the guest at the same time commit in either order.
    Any,
    /// The same while the guest runs; and each write stands for itself: a crash may lose one that was not acknowledged as durable, whatever becomes of
    /// those after it.
    Each,
}

/// Which writes a read sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadsSee {
    /// Every write handed in before the read.
    #[default]
    Accepted,
    /// Every write answered before the read was handed in. A write that is with the guest meanwhile may be seen or not; once a read has
    /// shown it, later reads show it too.
    Committed,
}

/// Which crashes a state survives that a recovery has shown and that no durable answer covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoverySurvives {
    /// Every crash.
    #[default]
    Always,
    /// What is shown after a power cut survives every crash. What is shown after a killed process may still be in the device's cache, so
    /// a power cut may take it back.
    PowerCut,
}

/// Which writes a guest takes however full it has made the device, while no snapshot is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullTakes {
    /// None.
    #[default]
    Nothing,
    /// Deletes, and batches of nothing else.
    Deletes,
    /// Deletes, and puts of up to 1,023 bytes in place of a value of the same length.
    Overwrites,
}

/// How long a relaxed write may be lost after it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RelaxedWindow {
    /// Nanoseconds from the acknowledgement until the write survives a power cut.
    pub ns: u64,
    /// The option `relaxed_window_ns` of the guest replaces them, where the guest is given that option.
    pub by_option: bool,
}

/// A number that an option of the guest of the same name replaces, where the guest says so and is given that option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StatedNumber {
    /// The number.
    pub number: u64,
    /// The option replaces it.
    pub by_option: bool,
}

/// The policies of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GuestPolicies {
    /// `commit_order`: `arrival`, `any` or `each`.
    pub commit_order: CommitOrder,
    /// `reads`: `accepted` or `committed`.
    pub reads: ReadsSee,
    /// `recovery_survives`: `always` or `power_cut`.
    pub recovery_survives: RecoverySurvives,
    /// `empty_commit_covers`: whether a durable write that changes nothing (an empty batch, a delete of a key that is not there) makes
    /// earlier relaxed writes durable, as any other durable write does.
    pub empty_commit_covers: bool,
    /// `relaxed_survives_kill`: whether a relaxed write that was acknowledged survives the kill of the process.
    pub relaxed_survives_kill: bool,
    /// `relaxed_window_ns`: `none`, a number of nanoseconds, or `option:` and that number if the guest has an option of this name.
    pub relaxed_window: Option<RelaxedWindow>,
    /// `max_key_bytes`: a longer key is refused as invalid, and no shorter one is. Absent: keys of 1 to 1,024 bytes are taken, and nothing is
    /// known of longer ones.
    pub max_key_bytes: Option<StatedNumber>,
    /// `max_value_bytes`: a longer value is refused as invalid. Absent: values of up to 64 KiB are taken, and nothing is known of longer ones.
    pub max_value_bytes: Option<StatedNumber>,
    /// `data_percent`: the share of the device that holds data; the rest is for what the guest keeps beside it.
    pub data_percent: StatedNumber,
    /// `usable_percent`: the share of that which live data may fill before the guest may answer that there is no space.
    pub usable_percent: StatedNumber,
    /// `opens_when_full`: whether a device can be opened however full the guest has made it, unless a fault strikes the opening.
    pub opens_when_full: bool,
    /// `full_takes`: `nothing`, `deletes` or `overwrites`.
    pub full_takes: FullTakes,
}

impl Default for GuestPolicies {
    fn default() -> Self {
        GuestPolicies {
            commit_order: CommitOrder::Arrival,
            reads: ReadsSee::Accepted,
            recovery_survives: RecoverySurvives::Always,
            empty_commit_covers: true,
            relaxed_survives_kill: true,
            relaxed_window: None,
            max_key_bytes: None,
            max_value_bytes: None,
            data_percent: StatedNumber {
                number: 4,
                by_option: false,
            },
            usable_percent: StatedNumber {
                number: 50,
                by_option: false,
            },
            opens_when_full: false,
            full_takes: FullTakes::Nothing,
        }
    }
}

impl GuestPolicies {
    /// The names of all policies.
    pub const NAMES: [&'static str; 12] = [
        "commit_order",
        "reads",
        "recovery_survives",
        "empty_commit_covers",
        "relaxed_survives_kill",
        "relaxed_window_ns",
        "max_key_bytes",
        "max_value_bytes",
        "data_percent",
        "usable_percent",
        "opens_when_full",
        "full_takes",
    ];

    /// Reads lines `name=value`; what no line states keeps its default.
    ///
    /// # Errors
    /// A sentence that names the line, the policy or the value that is wrong, and says what would be right.
    pub fn parse(text: &str) -> Result<GuestPolicies, String> {
        let mut policies = GuestPolicies::default();
        let mut stated: Vec<&str> = Vec::new();
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else {
                return Err(format!("`{line}` is not of the form name=value"));
            };
            if stated.contains(&name) {
                return Err(format!("the policy `{name}` is stated twice"));
            }
            policies.set(name, value)?;
            stated.push(name);
        }
        Ok(policies)
    }

    /// Changes one policy.
    ///
    /// # Errors
    /// A sentence that says which names or values there are.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "commit_order" => self.commit_order = one_of(name, value, &COMMIT_ORDERS)?,
            "reads" => self.reads = one_of(name, value, &READS)?,
            "recovery_survives" => {
                self.recovery_survives = one_of(name, value, &RECOVERIES_SURVIVE)?;
            }
            "empty_commit_covers" => self.empty_commit_covers = one_of(name, value, &BOOLEAN)?,
            "relaxed_survives_kill" => self.relaxed_survives_kill = one_of(name, value, &BOOLEAN)?,
            "relaxed_window_ns" => self.relaxed_window = window(value)?,
            "max_key_bytes" => self.max_key_bytes = limit(name, value)?,
            "max_value_bytes" => self.max_value_bytes = limit(name, value)?,
            "data_percent" => self.data_percent = percent(name, value)?,
            "usable_percent" => self.usable_percent = percent(name, value)?,
            "opens_when_full" => self.opens_when_full = one_of(name, value, &BOOLEAN)?,
            "full_takes" => self.full_takes = one_of(name, value, &FULL_TAKES)?,
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(format!("there is no policy `{name}`; there are {names}"));
            }
        }
        Ok(())
    }

    /// The policies that differ from their defaults, as a guest states them.
    #[must_use]
    pub fn stated(&self) -> Vec<String> {
        let usual = GuestPolicies::default();
        let number = |stated: Option<StatedNumber>| {
            stated.map_or("none".to_owned(), |stated| {
                let by_option = if stated.by_option { "option:" } else { "" };
                format!("{by_option}{}", stated.number)
            })
        };
        let values = |of: &GuestPolicies| {
            [
                text_of(of.commit_order, &COMMIT_ORDERS),
                text_of(of.reads, &READS),
                text_of(of.recovery_survives, &RECOVERIES_SURVIVE),
                of.empty_commit_covers.to_string(),
                of.relaxed_survives_kill.to_string(),
                of.relaxed_window
                    .map_or("none".to_owned(), |it| it.to_string()),
                number(of.max_key_bytes),
                number(of.max_value_bytes),
                number(Some(of.data_percent)),
                number(Some(of.usable_percent)),
                of.opens_when_full.to_string(),
                text_of(of.full_takes, &FULL_TAKES),
            ]
        };
        let both = values(self).into_iter().zip(values(&usual));
        let named = Self::NAMES.into_iter().zip(both);
        named
            .filter(|(_, (value, usual))| value != usual)
            .map(|(name, (value, _))| format!("{name}={value}"))
            .collect()
    }

    /// The window of relaxed writes, if the guest states one; `option` is the value of its option `relaxed_window_ns`, if it is given
    /// that.
    #[must_use]
    pub fn relaxed_window_ns(&self, option: Option<&str>) -> Option<u64> {
        let window = self.relaxed_window?;
        let stated = option
            .filter(|_| window.by_option)
            .and_then(|text| text.trim().parse().ok());
        Some(stated.unwrap_or(window.ns))
    }
}

impl GuestPolicies {
    /// What the guest states under this name, if it states a number; `option` is the value of its option of that name, if it is given
    /// that.
    #[must_use]
    pub fn number(&self, name: &str, option: Option<&str>) -> Option<u64> {
        let stated = match name {
            "max_key_bytes" => self.max_key_bytes,
            "max_value_bytes" => self.max_value_bytes,
            "data_percent" => Some(self.data_percent),
            "usable_percent" => Some(self.usable_percent),
            _ => None,
        }?;
        let replaced = option
            .filter(|_| stated.by_option)
            .and_then(|text| text.trim().parse().ok());
        Some(replaced.unwrap_or(stated.number))
    }
}

const BOOLEAN: [(&str, bool); 2] = [("true", true), ("false", false)];

const COMMIT_ORDERS: [(&str, CommitOrder); 3] = [
    ("arrival", CommitOrder::Arrival),
    ("any", CommitOrder::Any),
    ("each", CommitOrder::Each),
];

const READS: [(&str, ReadsSee); 2] = [
    ("accepted", ReadsSee::Accepted),
    ("committed", ReadsSee::Committed),
];

const RECOVERIES_SURVIVE: [(&str, RecoverySurvives); 2] = [
    ("always", RecoverySurvives::Always),
    ("power_cut", RecoverySurvives::PowerCut),
];

const FULL_TAKES: [(&str, FullTakes); 3] = [
    ("nothing", FullTakes::Nothing),
    ("deletes", FullTakes::Deletes),
    ("overwrites", FullTakes::Overwrites),
];

/// The text that stands for this value in one of the tables.
fn text_of<T: PartialEq>(value: T, known: &[(&str, T)]) -> String {
    let found = known.iter().find(|(_, of)| *of == value);
    found
        .map(|(text, _)| (*text).to_owned())
        .expect("each value has a text")
}

fn one_of<T: Copy>(name: &str, value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(text, _)| *text == value);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|(text, _)| format!("`{text}`")).collect();
        format!(
            "the policy `{name}` is `{value}`; it is {}",
            names.join(" or ")
        )
    })
}

fn limit(name: &str, value: &str) -> Result<Option<StatedNumber>, String> {
    if value == "none" {
        return Ok(None);
    }
    stated(name, value, 1..=u64::MAX).map(Some)
}

fn percent(name: &str, value: &str) -> Result<StatedNumber, String> {
    stated(name, value, 1..=100)
}

fn stated(name: &str, value: &str, range: RangeInclusive<u64>) -> Result<StatedNumber, String> {
    let (number, by_option) = match value.strip_prefix("option:") {
        Some(number) => (number, true),
        None => (value, false),
    };
    match number.parse() {
        Ok(number) if range.contains(&number) => Ok(StatedNumber { number, by_option }),
        _ => Err(format!(
            "the policy `{name}` is `{value}`; it is a number within {range:?}, or `option:` and that number"
        )),
    }
}

fn window(value: &str) -> Result<Option<RelaxedWindow>, String> {
    if value == "none" {
        return Ok(None);
    }
    value.parse().map(Some)
}

impl FromStr for RelaxedWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<RelaxedWindow, String> {
        let (number, by_option) = match text.strip_prefix("option:") {
            Some(number) => (number, true),
            None => (text, false),
        };
        let ns = number.parse().map_err(|_| {
            format!("the policy `relaxed_window_ns` is `{text}`; it is `none`, a number of nanoseconds, or `option:` and that number")
        })?;
        Ok(RelaxedWindow { ns, by_option })
    }
}

impl fmt::Display for RelaxedWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by_option = if self.by_option { "option:" } else { "" };
        write!(f, "{by_option}{}", self.ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every policy can be stated, and what is not stated stays strict. Method: all of them, none of them, one of them.
    #[test]
    fn what_is_stated_is_read_and_the_rest_is_strict() {
        let text = "commit_order=arrival\nreads=committed\nrecovery_survives=power_cut\nempty_commit_covers=false\n\
                    relaxed_survives_kill=false\nrelaxed_window_ns=option:50\nmax_key_bytes=100\nmax_value_bytes=200\n\
                    data_percent=10\nusable_percent=option:75\nopens_when_full=true\nfull_takes=deletes\n";
        let number = |number| StatedNumber {
            number,
            by_option: false,
        };
        let all = GuestPolicies::parse(text).unwrap();
        let window = RelaxedWindow {
            ns: 50,
            by_option: true,
        };
        assert_eq!(
            all,
            GuestPolicies {
                commit_order: CommitOrder::Arrival,
                reads: ReadsSee::Committed,
                recovery_survives: RecoverySurvives::PowerCut,
                empty_commit_covers: false,
                relaxed_survives_kill: false,
                relaxed_window: Some(window),
                max_key_bytes: Some(number(100)),
                max_value_bytes: Some(number(200)),
                data_percent: number(10),
                usable_percent: StatedNumber {
                    by_option: true,
                    ..number(75)
                },
                opens_when_full: true,
                full_takes: FullTakes::Deletes,
            }
        );
        assert!(
            GuestPolicies::NAMES
                .iter()
                .all(|name| text.contains(&format!("{name}=")))
        );
        assert_eq!(GuestPolicies::parse("").unwrap(), GuestPolicies::default());
        let one = GuestPolicies::parse("commit_order=any").unwrap();
        assert_eq!(
            one,
            GuestPolicies {
                commit_order: CommitOrder::Any,
                ..GuestPolicies::default()
            }
        );
    }

    /// Goal: the option of the guest counts only where the guest says so. Method: each kind of window with and without the option.
    #[test]
    fn the_window_is_that_of_the_option_if_the_guest_says_so() {
        let window = |text: &str, option| {
            GuestPolicies::parse(text)
                .unwrap()
                .relaxed_window_ns(option)
        };
        assert_eq!(window("relaxed_window_ns=option:50", Some("7")), Some(7));
        assert_eq!(window("relaxed_window_ns=option:50", None), Some(50));
        assert_eq!(window("relaxed_window_ns=50", Some("7")), Some(50));
        assert_eq!(window("relaxed_window_ns=none", Some("7")), None);
        assert_eq!(window("", Some("7")), None);
    }

    /// Goal: a slip of the pen is named, with what would be right. Method: one of each kind.
    #[test]
    fn what_is_unknown_is_named() {
        for (text, what) in [
            ("reads", "`reads` is not of the form name=value"),
            (
                "read=committed",
                "no policy `read`; there are commit_order, reads",
            ),
            (
                "reads=all",
                "`reads` is `all`; it is `accepted` or `committed`",
            ),
            ("empty_commit_covers=yes", "it is `true` or `false`"),
            (
                "relaxed_window_ns=1ms",
                "`relaxed_window_ns` is `1ms`; it is `none`, a number",
            ),
            (
                "usable_percent=101",
                "`usable_percent` is `101`; it is a number within 1..=100",
            ),
            (
                "max_key_bytes=option:",
                "`max_key_bytes` is `option:`; it is a number",
            ),
            ("reads=committed\nreads=accepted", "`reads` is stated twice"),
        ] {
            let error = GuestPolicies::parse(text).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
