//! Links and other words that check themselves: 48 bits of value below 16 bits that follow from it.

/// The largest value of a sealed word.
pub const SEALED_MAX: u64 = (1 << 48) - 1;

/// The value with its check bits. Zero stays zero: no link.
pub fn seal(value: u64) -> u64 {
    debug_assert!(value <= SEALED_MAX);
    if value == 0 { 0 } else { value | check_bits(value) << 48 }
}

/// The value of a sealed word; `None` if its check bits are not those of the value.
pub fn unseal(word: u64) -> Option<u64> {
    let value = word & SEALED_MAX;
    (word == seal(value)).then_some(value)
}

/// Never zero, so that a value without check bits is not taken for a sealed one.
fn check_bits(value: u64) -> u64 {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_words_are_noticed() {
        for value in [0, 1, 64, 32_768, 123_456_789, SEALED_MAX] {
            let word = seal(value);
            assert_eq!(unseal(word), Some(value));
            let noticed = (0..64).filter(|bit| unseal(word ^ 1 << bit).is_none()).count();
            assert!(noticed >= 63, "{value}: {noticed} of 64 flipped bits");
        }
        assert_eq!(unseal(5), None);
    }
}
