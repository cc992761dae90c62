//! How people write ranges of seeds and spans of time, and how numbers are shown to them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seeds from `start` up to, not including, `end`: written `1..9` or `1..=8`, or `7` for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedRange {
    /// The first.
    pub start: u64,
    /// The one after the last.
    pub end: u64,
}

impl SeedRange {
    /// The range of one seed.
    #[must_use]
    pub fn one(seed: u64) -> SeedRange {
        SeedRange {
            start: seed,
            end: seed.saturating_add(1),
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.end - self.start
    }
}

impl fmt::Display for SeedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl FromStr for SeedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<SeedRange, String> {
        let number = |part: &str| {
            let part = part.trim().replace('_', "");
            part.parse::<u64>()
                .map_err(|_| format!("`{text}` is no range of seeds; write 1..9, 1..=8 or 7"))
        };
        let top = || {
            format!(
                "`{text}`: the last seed that can be asked for is {}",
                u64::MAX - 1
            )
        };
        let range = match text.split_once("..") {
            None => {
                let seed = number(text)?;
                SeedRange {
                    start: seed,
                    end: seed.checked_add(1).ok_or_else(top)?,
                }
            }
            Some((start, end)) => {
                let end = match end.strip_prefix('=') {
                    Some(last) => number(last)?.checked_add(1).ok_or_else(top)?,
                    None => number(end)?,
                };
                SeedRange {
                    start: number(start)?,
                    end,
                }
            }
        };
        if range.start >= range.end {
            let open = if text.contains("..=") {
                ""
            } else {
                "; the end is not included, so one seed N is N..N+1 or just N"
            };
            return Err(format!("`{text}` holds no seed{open}"));
        }
        Ok(range)
    }
}

impl Serialize for SeedRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SeedRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SeedRange, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = SeedRange;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a range of seeds such as \"1..9\", or one seed")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SeedRange, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, seed: i64) -> Result<SeedRange, E> {
                u64::try_from(seed)
                    .map(SeedRange::one)
                    .map_err(|_| E::custom("a seed cannot be negative"))
            }
            fn visit_u64<E: serde::de::Error>(self, seed: u64) -> Result<SeedRange, E> {
                Ok(SeedRange::one(seed))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// The text of a guest's option, which may be written as a string, a number or a boolean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OptionText(pub String);

impl<'de> Deserialize<'de> for OptionText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OptionText, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(flag) => flag.to_string(),
            other => {
                return Err(D::Error::custom(format!(
                    "an option is a string, a number or a boolean, not {}",
                    other.type_str()
                )));
            }
        };
        if text.contains(['\n', '\r']) {
            return Err(D::Error::custom("an option is a single line"));
        }
        Ok(OptionText(text))
    }
}

/// A span of time as a person writes it: `60s`, `1m30s`, `500ms`, `2h`.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time; write 60s, 500ms, 1m30s or 2h");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit_ms = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        let part = number
            .checked_mul(unit_ms)
            .map(Duration::from_millis)
            .ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &rest[letters..];
    }
    if total.is_zero() {
        return Err(format!("`{text}` is no time at all"));
    }
    Ok(total)
}

/// A moment of virtual time in nanoseconds, as it is printed: `12.345678ms`, `350us`, `2s`, `80ns`.
///
/// # Errors
/// A sentence that says what would be right.
pub fn parse_moment(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no moment of virtual time; write 12.345678ms, 350us or 2s");
    let trimmed = text.trim();
    let letters = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let (number, unit) = trimmed.split_at(letters);
    let digits = match unit.trim_start() {
        "ns" => 0,
        "us" | "µs" => 3,
        "ms" => 6,
        "s" => 9,
        _ => return Err(wrong()),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || part.len() > digits {
        return Err(wrong());
    }
    format!("{whole}{part:0<digits$}")
        .parse()
        .map_err(|_| wrong())
}

/// `1234567` as `1,234,567`.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things, with the word for one and for more.
#[must_use]
pub fn counted(count: u64, one: &str, more: &str) -> String {
    let things = if count == 1 { one } else { more };
    format!("{} {things}", thousands(count))
}

/// A span of nanoseconds in the unit that reads best, with three significant figures.
#[must_use]
pub fn nanoseconds(ns: u64) -> String {
    let (unit, per_unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("µs", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let (whole, part) = (ns / per_unit, ns % per_unit);
    match whole {
        0..10 => format!("{whole}.{:02} {unit}", part * 100 / per_unit),
        10..100 => format!("{whole}.{:01} {unit}", part * 10 / per_unit),
        _ => format!("{} {unit}", thousands(whole)),
    }
}

/// A number of bytes in binary units.
#[must_use]
pub fn bytes(count: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let per_unit = 1u64 << shift;
        if count >= per_unit {
            let whole = count / per_unit;
            return match count % per_unit {
                0 => format!("{} {unit}", thousands(whole)),
                part if whole < 10 => format!("{whole}.{} {unit}", part * 10 / per_unit),
                _ => format!("{} {unit}", thousands(whole)),
            };
        }
    }
    format!("{count} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds_are_read_as_people_write_them() {
        assert_eq!("1..9".parse(), Ok(SeedRange { start: 1, end: 9 }));
        assert_eq!("1..=8".parse(), Ok(SeedRange { start: 1, end: 9 }));
        assert_eq!(" 7 ".parse(), Ok(SeedRange { start: 7, end: 8 }));
        assert_eq!(
            "1_000..2_000"
                .parse::<SeedRange>()
                .map(|range| range.count()),
            Ok(1_000)
        );
        for wrong in [
            "",
            "9..1",
            "5..5",
            "a..b",
            "-1..3",
            "1...3",
            "18446744073709551615",
        ] {
            assert!(wrong.parse::<SeedRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_of_time_are_read_as_people_write_them() {
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "60", "s", "1x", "0s", "-1s", "99999999999999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_shown_so_that_they_can_be_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(12_345_678), "12,345,678");
        assert_eq!(nanoseconds(999), "999 ns");
        assert_eq!(nanoseconds(3_830_000), "3.83 ms");
        assert_eq!(nanoseconds(61_500), "61.5 µs");
        assert_eq!(nanoseconds(754_321_000_000), "754 s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(1_536), "1.5 KiB");
    }
}
