//! Ascending indices as pairs `[first, end)`: a torn write of 3 MiB has thousands of sectors and few tears.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// More sectors than any write has.
const SECTORS_MAX: u64 = 1 << 23;

/// Writes indices as pairs.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(indices: &[u64], to: S) -> Result<S::Ok, S::Error> {
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for &index in indices {
        match pairs.last_mut() {
            Some((_, end)) if *end == index => *end += 1,
            _ => pairs.push((index, index + 1)),
        }
    }
    pairs.serialize(to)
}

/// Reads pairs as indices.
///
/// # Errors
/// If the pairs are no ascending ranges.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let pairs = Vec::<(u64, u64)>::deserialize(from)?;
    let mut last = 0;
    for &(first, end) in &pairs {
        if first >= end || first < last || end > SECTORS_MAX {
            return Err(D::Error::custom(format!(
                "[{first}, {end}] is not a range of sectors above the one before it"
            )));
        }
        last = end;
    }
    Ok(pairs
        .into_iter()
        .flat_map(|(first, end)| first..end)
        .collect())
}
