//! Values of options: what is wrong with one is said in words, with what to write.

use std::num::{NonZero, NonZeroU32, NonZeroUsize};
use std::str::FromStr;

/// A whole number, written with or without `_`.
pub(super) fn whole<N: FromStr>(text: &str) -> Result<N, String> {
    let digits = text.replace('_', "");
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(number) if is_number => Ok(number),
        _ if is_number => Err("the number is too large".to_owned()),
        _ => Err("it must be a whole number, 0 or more".to_owned()),
    }
}

/// A seed, or a hint at the option that takes several.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    whole(text).map_err(|why| match text.split_once(['-', ':', '.', ',']) {
        Some((first, last)) => {
            let last = last.trim_start_matches(['.', '=']);
            match (whole::<u64>(first), whole::<u64>(last)) {
                (Ok(first), Ok(last)) => {
                    format!("it must be one seed; for several: --seeds {first}..={last}")
                }
                _ => why,
            }
        }
        None => why,
    })
}

/// How many threads, or how many of anything that there must be one of.
pub(super) fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    at_least_one(NonZero::new(whole(text)?))
}

/// The same in 32 bits.
pub(super) fn count(text: &str) -> Result<NonZeroU32, String> {
    at_least_one(NonZero::new(whole(text)?))
}

fn at_least_one<N>(number: Option<N>) -> Result<N, String> {
    number.ok_or_else(|| "it must be at least 1".to_owned())
}

/// A rate: more than nothing a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("it must be a number above 0".to_owned()),
    }
}

/// An option of the guest: NAME=VALUE.
pub(super) fn parse_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: nobody has to know how Rust reads numbers. Method: numbers, and what is none, of each kind.
    #[test]
    fn a_value_is_read_or_explained() {
        assert_eq!(seed("1_000"), Ok(1000));
        assert_eq!(whole::<u8>("256"), Err("the number is too large".into()));
        for text in ["1-5", "1..=5", "1:5", "1,5", "1..5"] {
            let why = seed(text).expect_err("it is no seed");
            assert!(why.ends_with("--seeds 1..=5"), "{text}: {why}");
        }
        for text in ["", "-", "x-y", "1.", "-1", "+1", "0x10"] {
            let why = seed(text).expect_err("it is no seed");
            assert!(why.contains("whole number"), "{text}: {why}");
        }
        assert_eq!(jobs("0"), Err("it must be at least 1".into()));
        assert_eq!(count("0"), Err("it must be at least 1".into()));
        assert_eq!(jobs("2").map(NonZero::get), Ok(2));
        assert!(rate("-3").is_err() && rate("inf").is_err() && rate("1_000.5").is_ok());
    }
}
