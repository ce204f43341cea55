//! PostgreSQL's numeric: text, and the binary form of digits to the base of 10,000.
//!
//! ```text
//! digits i16, weight i16 (of the first digit, in powers of 10,000), sign u16 (0, 0x4000; 0xC000 is NaN), scale u16,
//! then the digits, i16 each
//! ```

use std::io::Write;

const NEGATIVE: u16 = 0x4000;
/// Decimal digits per digit of the binary form.
const GROUP: usize = 4;
/// The maximum digits of the engine's numbers.
pub const DIGITS_MAX: usize = 38;

/// The same number without zeros at the end of its fraction.
pub fn shortest(mut value: i128, mut scale: i8) -> (i128, i8) {
    while scale > 0 && value % 10 == 0 {
        (value, scale) = (value / 10, scale - 1);
    }
    (value, scale)
}

pub fn write_text(out: &mut Vec<u8>, value: i128, scale: i8) {
    let digits = value.unsigned_abs().to_string();
    if value < 0 {
        out.push(b'-');
    }
    match usize::try_from(scale) {
        Ok(0) => out.extend(digits.as_bytes()),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            let _ = write!(out, "{whole}.{fraction}");
        }
        Err(_) => {
            out.extend(digits.as_bytes());
            if value != 0 {
                out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
            }
        }
    }
}

pub fn write_binary(out: &mut Vec<u8>, value: i128, scale: i8) {
    let mut text = vec![];
    write_text(&mut text, value, scale);
    write_binary_digits(out, &String::from_utf8_lossy(&text));
}

/// Writes the binary form of decimal text such as `-12.30`.
pub fn write_binary_digits(out: &mut Vec<u8>, text: &str) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole_groups = whole.len().div_ceil(GROUP);
    let fraction_groups = fraction.len().div_ceil(GROUP);
    let padded = format!("{whole:0>w$}{fraction:0<f$}", w = whole_groups * GROUP, f = fraction_groups * GROUP);
    let group =
        |digits: &[u8]| digits.iter().fold(0i16, |sum, digit| sum * 10 + i16::from(digit.wrapping_sub(b'0') % 10));
    let groups: Vec<i16> = padded.as_bytes().chunks(GROUP).map(group).collect();
    let first = groups.iter().position(|digit| *digit != 0).unwrap_or(groups.len());
    let last = groups.iter().rposition(|digit| *digit != 0).map_or(first, |at| at + 1);
    let weight = if first == groups.len() { 0 } else { whole_groups as i16 - 1 - first as i16 };
    out.extend(((last - first) as i16).to_be_bytes());
    out.extend(weight.to_be_bytes());
    out.extend((if negative && first < groups.len() { NEGATIVE } else { 0 }).to_be_bytes());
    out.extend((fraction.len() as u16).to_be_bytes());
    groups[first..last].iter().for_each(|digit| out.extend(digit.to_be_bytes()));
}

/// The decimal text of the binary form.
///
/// # Errors
///
/// The reason why the engine has no such number.
pub fn read_binary(bytes: &[u8]) -> Result<String, &'static str> {
    let numbers: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, digits @ ..] = numbers.as_slice() else { return Err("the number ends early") };
    if !bytes.len().is_multiple_of(2) || digits.len() != usize::from(*count) || digits.iter().any(|digit| *digit > 9999)
    {
        return Err("the number is malformed");
    }
    let (weight, scale) = (i32::from(*weight as i16), usize::from(*scale));
    let sign = match *sign {
        0 => "",
        NEGATIVE => "-",
        _ => return Err("NaN and infinity are no numbers of this database"),
    };
    if weight >= (DIGITS_MAX / GROUP + 1) as i32 || weight < -(DIGITS_MAX as i32) || scale > DIGITS_MAX {
        return Err("the number has more digits than the 38 of this database");
    }
    let digit = |power: i32| usize::try_from(weight - power).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    let whole: String = (0..=weight.max(0)).rev().map(|power| format!("{:04}", digit(power))).collect();
    let groups = scale.div_ceil(GROUP) as i32;
    let fraction: String = (1..=groups).map(|power| format!("{:04}", digit(-power))).collect();
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Ok(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{}", &fraction[..scale]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_binary_form() {
        for (value, scale, expected) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (-1230, 2, "-12.30"),
            (1, 38, "0.00000000000000000000000000000000000001"),
            (99_999, 3, "99.999"),
            (10_000, 0, "10000"),
            (12_345_678, 4, "1234.5678"),
            (i128::MAX / 2, 0, "85070591730234615865843651857942052863"),
        ] {
            let (mut text, mut binary) = (vec![], vec![]);
            write_text(&mut text, value, scale);
            assert_eq!(String::from_utf8(text).expect("text"), expected);
            write_binary(&mut binary, value, scale);
            assert_eq!(read_binary(&binary), Ok(expected.to_owned()));
        }
        let mut text = vec![];
        write_text(&mut text, 12, -2);
        assert_eq!(text, b"1200");
    }

    #[test]
    fn zeros_behind_the_point_are_cut() {
        assert_eq!(shortest(-12_500_000_000, 10), (-125, 2));
        assert_eq!(shortest(50_000_000_000, 10), (5, 0));
        assert_eq!(shortest(0, 10), (0, 0));
        assert_eq!(shortest(500, 0), (500, 0));
    }

    #[test]
    fn malformed_numbers_are_errors() {
        for bytes in
            [&[][..], &[0; 7], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0xC0, 0, 0, 0], &[0, 0, 0x7f, 0, 0, 0, 0, 0]]
        {
            assert!(read_binary(bytes).is_err(), "{bytes:?}");
        }
    }
}
