//! Numbers of variable length (LEB128, as in DWARF and in WebAssembly's binary format): seven bits a byte, the low ones
//! first, the top bit set in all bytes but the last. Each number has exactly one encoding: a last byte of zero behind
//! another is refused.

/// Bytes of the longest.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

const BITS: u32 = 7;
const MORE: u8 = 1 << BITS;

/// Bytes of the encoding.
pub(crate) const fn varint_bytes(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(BITS) as usize
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= u64::from(MORE) {
        out.push(value.to_le_bytes()[0] | MORE);
        value >>= BITS;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Takes one from the front; `None` if none is there.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(VARINT_BYTES_MAX).enumerate() {
        let low = u64::from(byte & !MORE);
        let shift = BITS * u32::try_from(at).expect("there are ten at most");
        value |= low << shift;
        if byte & MORE == 0 {
            let fits = low << shift >> shift == low;
            *bytes = &bytes[at + 1..];
            return (fits && (low > 0 || at == 0)).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every number comes back, in as many bytes as said, in one encoding. Method: numbers around every power of two; other encodings of
    /// the same, ends that are missing, and numbers that are too large.
    #[test]
    fn numbers_come_back_and_have_one_encoding() {
        for power in 0..64 {
            for value in [(1 << power) - 1, 1 << power, u64::MAX >> power] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, value);
                assert_eq!(bytes.len(), varint_bytes(value), "{value}");
                for short in 0..bytes.len() {
                    assert_eq!(take_varint(&mut &bytes[..short]), None, "{value}");
                }
                let mut longer = bytes.clone();
                *longer.last_mut().unwrap() |= MORE;
                longer.push(0);
                assert_eq!(take_varint(&mut &longer[..]), None, "{value}");
                bytes.push(7);
                let mut rest = &bytes[..];
                assert_eq!(take_varint(&mut rest), Some(value));
                assert_eq!(rest, [7]);
            }
        }
        let mut too_large = [0xff; VARINT_BYTES_MAX];
        for last in 2..=0xff {
            too_large[VARINT_BYTES_MAX - 1] = last;
            assert_eq!(take_varint(&mut &too_large[..]), None, "{last}");
        }
    }
}
