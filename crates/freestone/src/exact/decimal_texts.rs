//! Decimals as texts, with all digits of their scale.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewBuilder};
use datafusion::arrow::datatypes::Decimal128Type;

/// Room for 38 digits, a zero before the point, the point, and a sign.
const BYTES: usize = 41;

/// The texts of decimals of 128 bits whose scale is not negative.
pub(super) fn texts(decimals: &ArrayRef, scale: usize) -> ArrayRef {
    let decimals = decimals.as_primitive::<Decimal128Type>();
    let mut texts = StringViewBuilder::with_capacity(decimals.len());
    let mut bytes = [0; BYTES];
    for decimal in decimals {
        match decimal {
            Some(decimal) => texts.append_value(text(decimal, scale, &mut bytes)),
            None => texts.append_null(),
        }
    }
    Arc::new(texts.finish())
}

/// The text of a decimal, written to the end of `bytes`.
fn text(decimal: i128, scale: usize, bytes: &mut [u8; BYTES]) -> &str {
    let mut writer = Writer { bytes, at: BYTES };
    let mut left = decimal.unsigned_abs();
    let mut fraction = scale;
    // Divisions of 128 bits are slow.
    while left > u128::from(u64::MAX) {
        writer.digit((left % 10) as u8, &mut fraction);
        left /= 10;
    }
    let mut left = left as u64;
    while left > 0 || fraction > 0 {
        writer.digit((left % 10) as u8, &mut fraction);
        left /= 10;
    }
    if writer.at == BYTES || writer.bytes[writer.at] == b'.' {
        writer.put(b'0');
    }
    if decimal < 0 {
        writer.put(b'-');
    }
    let at = writer.at;
    std::str::from_utf8(&bytes[at..]).expect("digits")
}

/// Writes bytes from the end on.
struct Writer<'a> {
    bytes: &'a mut [u8; BYTES],
    at: usize,
}

impl Writer<'_> {
    #[inline]
    fn put(&mut self, byte: u8) {
        self.at -= 1;
        self.bytes[self.at] = byte;
    }

    /// Puts a digit, and the point behind it if it is the last before the fraction ended.
    #[inline]
    fn digit(&mut self, digit: u8, fraction: &mut usize) {
        self.put(b'0' + digit);
        if *fraction > 0 {
            *fraction -= 1;
            if *fraction == 0 {
                self.put(b'.');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_digits_of_the_scale_are_written() {
        let nines = 10i128.pow(38) - 1;
        for (decimal, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 1, "-0.5"),
            (12345, 2, "123.45"),
            (-100, 2, "-1.00"),
            (1 << 64, 3, "18446744073709551.616"),
            (nines, 0, "99999999999999999999999999999999999999"),
            (-nines, 38, "-0.99999999999999999999999999999999999999"),
            (-nines, 37, "-9.9999999999999999999999999999999999999"),
        ] {
            assert_eq!(text(decimal, scale, &mut [0; BYTES]), expected);
        }
    }
}
