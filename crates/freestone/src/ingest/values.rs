//! Text → values, exact or an error: functions over bytes that neither round, wrap around nor guess.
//!
//! Each function has a fast path for the usual form and a slow path for others (blanks around the value, exponents,
//! many digits), so that these cost nothing if they do not occur.

use arrow::datatypes::{TimeUnit, i256};

use super::error::ValueProblem::{self, MissingZone, Precision, Range, Syntax, UnexpectedZone};
use crate::times::{self, SECOND_NS, Zone, calendar};

pub(super) type Parsed<T> = Result<T, ValueProblem>;

/// `[+-]digits`, blanks around allowed.
pub(crate) fn signed(bytes: &[u8]) -> Parsed<i64> {
    or_trimmed(bytes, |bytes| {
        let (negative, digits) = split_sign(bytes);
        if (1..=18).contains(&digits.len()) {
            let magnitude = short_digits(digits)? as i64;
            return Ok(if negative { -magnitude } else { magnitude });
        }
        let magnitude = long_digits(digits)?;
        match negative {
            false => i64::try_from(magnitude).map_err(|_| Range),
            true => 0i64.checked_sub_unsigned(magnitude).ok_or(Range),
        }
    })
}

/// `[+]digits` (and `-0`), blanks around allowed.
pub(crate) fn unsigned(bytes: &[u8]) -> Parsed<u64> {
    or_trimmed(bytes, |bytes| {
        let (negative, digits) = split_sign(bytes);
        let magnitude = if (1..=18).contains(&digits.len()) { short_digits(digits)? } else { long_digits(digits)? };
        if negative && magnitude != 0 { Err(Range) } else { Ok(magnitude) }
    })
}

/// A decimal number as an integer scaled by 10^`scale`, below `limit` = 10^precision in magnitude.
pub(crate) fn decimal(bytes: &[u8], scale: u32, limit: i128) -> Parsed<i128> {
    // Nineteen characters hold at most 18 digits and a point, or 19 digits: no overflow of 64 bits.
    let (negative, digits) = split_sign(bytes);
    if digits.len() > 19 {
        return or_trimmed(bytes, |bytes| slow_decimal(bytes, scale, limit));
    }
    let (mut magnitude, mut fraction, mut points) = (0u64, 0u32, 0usize);
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            magnitude = magnitude * 10 + u64::from(digit);
            fraction += points as u32;
        } else if byte == b'.' && points == 0 {
            points = 1;
        } else {
            return or_trimmed(bytes, |bytes| slow_decimal(bytes, scale, limit));
        }
    }
    if digits.len() == points || fraction > scale {
        return slow_decimal(bytes, scale, limit);
    }
    let scaled = match POWERS_U64.get((scale - fraction) as usize).and_then(|power| magnitude.checked_mul(*power)) {
        Some(scaled) => i128::from(scaled),
        None => return slow_decimal(bytes, scale, limit),
    };
    if scaled >= limit {
        return Err(Range);
    }
    Ok(if negative { -scaled } else { scaled })
}

/// As [`decimal`], with digits beyond the scale rounded half away from zero, as in a cast.
pub(crate) fn rounded_decimal(bytes: &[u8], scale: u32, limit: i128) -> Parsed<i128> {
    match decimal(bytes, scale, limit) {
        Err(Precision) => long_decimal(bytes.trim_ascii(), scale, limit, true),
        read => read,
    }
}

/// A decimal number of at most `precision` digits, which may be more than 128 bits hold.
pub(crate) fn wide_decimal(bytes: &[u8], precision: usize, scale: usize) -> Parsed<i256> {
    long_wide_decimal(bytes.trim_ascii(), precision, scale, false)
}

/// As [`wide_decimal`], with digits beyond the scale rounded half away from zero, as in a cast.
pub(crate) fn rounded_wide_decimal(bytes: &[u8], precision: usize, scale: usize) -> Parsed<i256> {
    long_wide_decimal(bytes.trim_ascii(), precision, scale, true)
}

fn long_wide_decimal(bytes: &[u8], precision: usize, scale: usize, rounds: bool) -> Parsed<i256> {
    let number = Digits::of(bytes)?;
    let scale = scale as i64;
    let mut kept = String::new();
    let mut weight = number.point as i64 + number.exponent;
    let mut is_half = false;
    for digit in number.digits() {
        weight -= 1;
        if weight >= -scale {
            kept.push(char::from(*digit));
        } else if rounds {
            is_half |= weight == -scale - 1 && *digit >= b'5';
        } else if *digit != b'0' {
            return Err(Precision);
        }
    }
    let whole = kept.trim_start_matches('0');
    let zeros = if whole.is_empty() { 0 } else { usize::try_from(weight + scale).unwrap_or(0) };
    if whole.len() + zeros > precision {
        return Err(Range);
    }
    let text = format!("{whole}{:0<zeros$}", "");
    let value = if text.is_empty() { i256::ZERO } else { i256::from_string(&text).ok_or(Range)? };
    let value = value.wrapping_add(i256::from(i8::from(is_half)));
    if is_half && value.to_string().len() > precision {
        return Err(Range);
    }
    Ok(if number.negative { value.wrapping_neg() } else { value })
}

/// A floating-point number, also `inf`, `infinity` and `nan` in any case. A finite text past the range is an error.
pub(crate) fn float64(bytes: &[u8]) -> Parsed<f64> {
    let text = std::str::from_utf8(bytes.trim_ascii()).map_err(|_| Syntax)?;
    let value: f64 = text.parse().map_err(|_| Syntax)?;
    if value.is_infinite() && !names_infinity(text) { Err(Range) } else { Ok(value) }
}

/// As [`float64`], rounded once to the nearest single.
pub(crate) fn float32(bytes: &[u8]) -> Parsed<f32> {
    let text = std::str::from_utf8(bytes.trim_ascii()).map_err(|_| Syntax)?;
    let value: f32 = text.parse().map_err(|_| Syntax)?;
    if value.is_infinite() && !names_infinity(text) { Err(Range) } else { Ok(value) }
}

/// Whether a number begins with a zero before other digits, as codes do.
pub(crate) fn has_leading_zero(bytes: &[u8]) -> bool {
    let digits = bytes.trim_ascii();
    let digits = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
    matches!(digits, [b'0', b'0'..=b'9', ..])
}

/// Whether a number without an exponent has an integer part that its double does not represent.
pub(crate) fn loses_whole_digits(bytes: &[u8], value: f64) -> bool {
    const EXACT_MAX: f64 = (1u64 << 53) as f64;
    if value.abs() < EXACT_MAX || !value.is_finite() || bytes.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return false;
    }
    let (_, digits) = split_sign(bytes.trim_ascii());
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = digits.split_at(point);
    let has_fraction = fraction.iter().any(|byte| !matches!(byte, b'.' | b'0'));
    // A double has an integer of its own for each multiple of a power of two, which 128 bits hold up to 38 digits.
    let integer = whole
        .iter()
        .try_fold(0u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit.wrapping_sub(b'0'))));
    has_fraction || integer.is_some_and(|integer| integer != value.abs() as u128)
}

/// Whether a text is digits, signs and blanks only.
pub(crate) fn is_digits(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b' '))
}

/// `true false t f 1 0 yes no y n on off` in any case.
pub(crate) fn boolean(bytes: &[u8]) -> Parsed<bool> {
    const TRUE: [&[u8]; 6] = [b"true", b"t", b"1", b"yes", b"y", b"on"];
    const FALSE: [&[u8]; 6] = [b"false", b"f", b"0", b"no", b"n", b"off"];
    let bytes = bytes.trim_ascii();
    if TRUE.iter().any(|word| bytes.eq_ignore_ascii_case(word)) {
        Ok(true)
    } else if FALSE.iter().any(|word| bytes.eq_ignore_ascii_case(word)) {
        Ok(false)
    } else {
        Err(Syntax)
    }
}

/// `YYYY-MM-DD` as days since 1970-01-01, also with a sign and more digits of the year, or ` BC` after it, or `infinity`. A
/// time of day is accepted when it is midnight.
pub(crate) fn date(bytes: &[u8]) -> Parsed<i32> {
    if bytes.len() == 10 && bytes[0].is_ascii_digit() {
        return plain_date(bytes);
    }
    let bytes = bytes.trim_ascii();
    if let Some(is_positive) = infinity(bytes) {
        return Ok(if is_positive { i32::MAX } else { -i32::MAX });
    }
    if is_before_christ(bytes) {
        return any_date(bytes);
    }
    let (days, length) = leading_date(bytes)?;
    let days = i32::try_from(days).map_err(|_| Range)?;
    let (time, zone) = match &bytes[length..] {
        [] => return Ok(days),
        [b'T' | b't' | b' ', time @ ..] => clock(time)?,
        _ => return Err(Syntax),
    };
    match zone {
        [] if time == Clock::default() => Ok(days),
        [] => Err(Precision),
        zone if zone_offset(zone).is_some() => Err(UnexpectedZone),
        _ => Err(Syntax),
    }
}

/// The same, and what a literal may be: `2024-2-9`, `2024/02/09`, `20240209`.
pub(crate) fn written_date(bytes: &[u8]) -> Parsed<i32> {
    match date(bytes) {
        Err(Syntax) => any_date(bytes),
        read => read,
    }
}

fn any_date(bytes: &[u8]) -> Parsed<i32> {
    let (days, clock, zone) = written_time(bytes)?;
    match zone {
        Some(_) => Err(UnexpectedZone),
        None if clock != Clock::default() => Err(Precision),
        None => i32::try_from(days).map_err(|_| Range),
    }
}

/// The date of a text that may be a timestamp, of which the time and the zone say nothing.
pub(super) fn date_of_time(bytes: &[u8]) -> Parsed<i32> {
    match written_date(bytes) {
        Err(Precision | UnexpectedZone) => i32::try_from(written_time(bytes)?.0).map_err(|_| Range),
        read => read,
    }
}

/// The days, the time of day and the zone of a text that reads as a literal.
fn written_time(bytes: &[u8]) -> Parsed<(i64, Clock, Option<String>)> {
    let text = std::str::from_utf8(bytes).map_err(|_| Syntax)?;
    let written = times::parse(text).ok_or(Syntax)?;
    let ns = written.ns.unwrap_or(0);
    let clock = Clock { seconds: (ns / SECOND_NS) as u32, nanos: (ns % SECOND_NS) as u32 };
    Ok((written.days.ok_or(Syntax)?, clock, written.zone))
}

fn is_before_christ(bytes: &[u8]) -> bool {
    bytes.ends_with(b" BC") || bytes.windows(5).any(|part| part == b" (BC)")
}

/// Parses `HH:MM[:SS[.fraction]]` to `unit`s since midnight.
pub(crate) fn time(bytes: &[u8], unit: TimeUnit) -> Parsed<i64> {
    let (time, zone) = clock(bytes.trim_ascii())?;
    if !zone.is_empty() {
        return Err(if zone_offset(zone).is_some() { UnexpectedZone } else { Syntax });
    }
    in_units(i64::from(time.seconds), time.nanos, unit)
}

/// How a timestamp column treats zone offsets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ZoneRule {
    /// The column has no zone, so an offset in the value is an error.
    Naive,
    /// The column's zone has a constant offset, which is used if the value has none.
    Fixed { offset_seconds: i32 },
    /// The offset of the column's zone varies over the year, so the value must have an offset.
    OffsetNeeded,
    /// The zone of the session is used if the value has no offset.
    Session(Zone),
    /// The column has no zone, and an offset in the value says nothing.
    Dropped,
}

impl ZoneRule {
    pub fn of(zone: Option<&str>) -> Self {
        match zone {
            None => Self::Naive,
            Some(name) => match zone_offset(name.as_bytes()) {
                Some(offset_seconds) => Self::Fixed { offset_seconds },
                None => Self::OffsetNeeded,
            },
        }
    }
}

/// `YYYY-MM-DD[(T| )HH:MM[:SS[.fraction]][zone]]`, with years as in [`date`], or `infinity`, in `unit`s since 1970-01-01
/// (UTC where the column has a zone).
pub(crate) fn timestamp(bytes: &[u8], unit: TimeUnit, rule: ZoneRule) -> Parsed<i64> {
    let bytes = bytes.trim_ascii();
    if let Some(is_positive) = infinity(bytes) {
        return Ok(if is_positive { i64::MAX } else { -i64::MAX });
    }
    if is_before_christ(bytes) {
        return any_timestamp(bytes, unit, rule);
    }
    let (days, length) = leading_date(bytes)?;
    let (time, zone) = match &bytes[length..] {
        [] => (Clock::default(), &[][..]),
        [b'T' | b't' | b' ', time @ ..] => clock(time)?,
        _ => return Err(Syntax),
    };
    instant(days, time, zone, unit, rule)
}

/// The same, and what a literal may be: `2024-2-9 1:02`.
pub(crate) fn written_timestamp(bytes: &[u8], unit: TimeUnit, rule: ZoneRule) -> Parsed<i64> {
    match timestamp(bytes, unit, rule) {
        Err(Syntax) => any_timestamp(bytes, unit, rule),
        read => read,
    }
}

fn any_timestamp(bytes: &[u8], unit: TimeUnit, rule: ZoneRule) -> Parsed<i64> {
    let (days, clock, zone) = written_time(bytes)?;
    instant(days, clock, zone.as_deref().unwrap_or_default().as_bytes(), unit, rule)
}

/// A local time as the instant that a column stores.
fn instant(days: i64, time: Clock, zone: &[u8], unit: TimeUnit, rule: ZoneRule) -> Parsed<i64> {
    let local_seconds = days * 86_400 + i64::from(time.seconds);
    let zone = match zone {
        [] => None,
        zone => Some(zone_offset(zone).or_else(|| named_offset(zone, local_seconds)).ok_or(Syntax)?),
    };
    let offset_seconds = match (rule, zone) {
        (ZoneRule::Naive, None) => 0,
        (ZoneRule::Naive, Some(_)) => return Err(UnexpectedZone),
        (ZoneRule::Dropped, _) => 0,
        (_, Some(offset)) => offset,
        (ZoneRule::Session(zone), None) => {
            zone.offset_of_local(local_seconds).and_then(|offset| i32::try_from(offset).ok()).ok_or(Range)?
        }
        (ZoneRule::Fixed { offset_seconds }, None) => offset_seconds,
        (ZoneRule::OffsetNeeded, None) => return Err(MissingZone),
    };
    in_units(local_seconds - i64::from(offset_seconds), time.nanos, unit)
}

/// The offset that a zone with a name, as `Europe/Rome`, has at a local time, in seconds east of Greenwich.
fn named_offset(zone: &[u8], local_seconds: i64) -> Option<i32> {
    let name = std::str::from_utf8(zone).ok().filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))?;
    i32::try_from(Zone::parse(name)?.offset_of_local(local_seconds)?).ok()
}

/// Parses `\xHEX` to the bytes that it represents; text without such bytes to its own. A text with `\xHH` that is not of
/// hexadecimal digits alone is read as by DuckDB: each `\xHH` is a byte, and each other ASCII character its own.
pub(crate) fn binary(bytes: &[u8], into: &mut Vec<u8>) -> Parsed<()> {
    into.clear();
    let is_byte =
        |four: &[u8]| matches!(four, [b'\\', b'x', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit());
    let escaped = bytes.starts_with(b"\\x") || bytes.contains(&b'\\') && bytes.windows(4).any(is_byte);
    if !escaped {
        into.extend_from_slice(bytes);
        return Ok(());
    }
    let digits = bytes.strip_prefix(b"\\x").unwrap_or(b"\\");
    let (pairs, rest) = digits.as_chunks::<2>();
    let hex = |pair: &[u8; 2]| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?);
    if digits.iter().all(u8::is_ascii_hexdigit) {
        into.extend(pairs.iter().filter_map(hex));
        return if rest.is_empty() { Ok(()) } else { Err(Syntax) };
    }
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        let byte = match (first, after) {
            (b'\\', [b'x', high, low, after @ ..]) => {
                rest = after;
                hex(&[*high, *low]).ok_or(Syntax)?
            }
            (b'\\', _) => return Err(Syntax),
            (byte, _) => *byte,
        };
        if !byte.is_ascii() && byte == *first {
            return Err(Syntax);
        }
        into.push(byte);
    }
    Ok(())
}

pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn or_trimmed<T>(bytes: &[u8], parse: impl Fn(&[u8]) -> Parsed<T>) -> Parsed<T> {
    parse(bytes).or_else(|problem| {
        let trimmed = bytes.trim_ascii();
        if trimmed.len() < bytes.len() { parse(trimmed) } else { Err(problem) }
    })
}

fn split_sign(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}

/// At most 18 digits: cannot overflow.
fn short_digits(digits: &[u8]) -> Parsed<u64> {
    let mut value = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Syntax);
        }
        value = value * 10 + u64::from(digit);
    }
    Ok(value)
}

fn long_digits(digits: &[u8]) -> Parsed<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Syntax);
    }
    digits.iter().try_fold(0u64, |value, byte| {
        value.checked_mul(10).and_then(|value| value.checked_add(u64::from(byte - b'0'))).ok_or(Range)
    })
}

const POWERS_U64: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut index = 1;
    while index < 20 {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// Any decimal number with an optional exponent, of which no digit is lost.
fn slow_decimal(bytes: &[u8], scale: u32, limit: i128) -> Parsed<i128> {
    long_decimal(bytes, scale, limit, false)
}

/// The parts of a decimal number.
struct Digits<'a> {
    negative: bool,
    mantissa: &'a [u8],
    /// The digits before the point.
    point: usize,
    exponent: i64,
}

impl<'a> Digits<'a> {
    fn of(bytes: &'a [u8]) -> Parsed<Digits<'a>> {
        let (negative, rest) = split_sign(bytes);
        let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&rest[..at], signed_exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let number = Digits { negative, mantissa, point, exponent };
        match number.digits().next().is_some() && number.digits().all(u8::is_ascii_digit) {
            true => Ok(number),
            false => Err(Syntax),
        }
    }

    fn digits(&self) -> impl Iterator<Item = &'a u8> + use<'a> {
        let (whole, rest) = self.mantissa.split_at(self.point);
        whole.iter().chain(rest.get(1..).unwrap_or_default())
    }
}

/// A decimal number digit by digit: each digit has a decimal weight. Those below the scale must be zero, or are rounded.
fn long_decimal(bytes: &[u8], scale: u32, limit: i128, rounds: bool) -> Parsed<i128> {
    let number = Digits::of(bytes)?;
    if number.digits().all(|digit| *digit == b'0') {
        return Ok(0);
    }
    let scale = i64::from(scale);
    let mut scaled = 0i128;
    let mut weight = number.point as i64 + number.exponent;
    let mut is_half = false;
    for digit in number.digits() {
        weight -= 1;
        if weight >= -scale {
            scaled =
                scaled.checked_mul(10).and_then(|value| value.checked_add(i128::from(digit - b'0'))).ok_or(Range)?;
        } else if rounds {
            is_half |= weight == -scale - 1 && *digit >= b'5';
        } else if *digit != b'0' {
            return Err(Precision);
        }
    }
    scaled += i128::from(is_half);
    // Zeros up to the scale; a number with non-zero digits leaves the range long before the loop gets long.
    while weight > -scale {
        scaled = scaled.checked_mul(10).ok_or(Range)?;
        weight -= 1;
    }
    if scaled >= limit {
        return Err(Range);
    }
    Ok(if number.negative { -scaled } else { scaled })
}

/// Parses an exponent, limited to ±1,000,000, beyond which the result is out of range or inexact in any case.
fn signed_exponent(bytes: &[u8]) -> Parsed<i64> {
    let (negative, digits) = split_sign(bytes);
    let magnitude = match long_digits(digits) {
        Ok(value) => value.min(1_000_000) as i64,
        Err(Range) => 1_000_000,
        Err(problem) => return Err(problem),
    };
    Ok(if negative { -magnitude } else { magnitude })
}

fn names_infinity(text: &str) -> bool {
    text.bytes().any(|byte| byte.eq_ignore_ascii_case(&b'i'))
}

/// For `infinity` and `-infinity`: whether it is positive.
fn infinity(bytes: &[u8]) -> Option<bool> {
    let (negative, name) = split_sign(bytes);
    (name.eq_ignore_ascii_case(b"infinity") || name.eq_ignore_ascii_case(b"inf")).then_some(!negative)
}

/// The date at the start of the bytes, as days since 1970-01-01, and its length.
fn leading_date(bytes: &[u8]) -> Parsed<(i64, usize)> {
    const YEAR_DIGITS_MAX: usize = 9;
    if !matches!(bytes.first(), Some(b'+' | b'-')) {
        return Ok((plain_date(bytes)?.into(), 10));
    }
    let (negative, digits) = split_sign(bytes);
    let length = digits.iter().take(YEAR_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    let Some(&[b'-', m0, m1, b'-', d0, d1]) = digits.get(length..).and_then(|rest| rest.first_chunk::<6>()) else {
        return Err(Syntax);
    };
    if !(4..=YEAR_DIGITS_MAX).contains(&length) {
        return Err(Syntax);
    }
    let magnitude = short_digits(&digits[..length])?.cast_signed();
    let year = if negative { -magnitude } else { magnitude };
    let days = calendar::checked_days(year, two_digits(m0, m1)?.into(), two_digits(d0, d1)?.into());
    Ok((days.ok_or(Range)?, 1 + length + 6))
}

/// The `YYYY-MM-DD` at the start of the bytes, as days since 1970-01-01.
fn plain_date(bytes: &[u8]) -> Parsed<i32> {
    let Some(&[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1]) = bytes.first_chunk::<10>() else {
        return Err(Syntax);
    };
    let year = i64::from(two_digits(y0, y1)?) * 100 + i64::from(two_digits(y2, y3)?);
    let days = calendar::checked_days(year, two_digits(m0, m1)?.into(), two_digits(d0, d1)?.into());
    days.and_then(|days| i32::try_from(days).ok()).ok_or(Range)
}

fn two_digits(high: u8, low: u8) -> Parsed<u8> {
    let (high, low) = (high.wrapping_sub(b'0'), low.wrapping_sub(b'0'));
    if high > 9 || low > 9 { Err(Syntax) } else { Ok(high * 10 + low) }
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Clock {
    seconds: u32,
    nanos: u32,
}

/// `HH:MM[:SS[.fraction]][zone]`: the time of day, and the text of the zone, empty if there is none.
fn clock(bytes: &[u8]) -> Parsed<(Clock, &[u8])> {
    let Some((&[h0, h1, b':', m0, m1], mut rest)) = bytes.split_first_chunk::<5>() else {
        return Err(Syntax);
    };
    let (hour, minute) = (two_digits(h0, h1)?, two_digits(m0, m1)?);
    let mut second = 0;
    let mut nanos = 0;
    if let Some((&[b':', s0, s1], after)) = rest.split_first_chunk::<3>() {
        second = two_digits(s0, s1)?;
        rest = after;
        if let [b'.' | b',', after @ ..] = rest {
            let length = after.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(after.len());
            nanos = nanoseconds(&after[..length])?;
            rest = &after[length..];
        }
    }
    // 24:00:00 is the end of a day.
    let is_end = hour == 24 && minute == 0 && second == 0 && nanos == 0;
    if hour > 23 && !is_end || minute > 59 || second > 59 {
        return Err(Range);
    }
    let seconds = u32::from(hour) * 3600 + u32::from(minute) * 60 + u32::from(second);
    Ok((Clock { seconds, nanos }, rest.trim_ascii_start()))
}

fn nanoseconds(digits: &[u8]) -> Parsed<u32> {
    let (kept, lost) = digits.split_at(digits.len().min(9));
    if kept.is_empty() {
        return Err(Syntax);
    }
    if lost.iter().any(|digit| *digit != b'0') {
        return Err(Precision);
    }
    let value = kept.iter().fold(0u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    Ok(value * 10u32.pow(9 - kept.len() as u32))
}

/// `Z`, `UTC`, `GMT`, `±HH`, `±HHMM`, `±HH:MM` in seconds east of Greenwich.
fn zone_offset(zone: &[u8]) -> Option<i32> {
    const UTC: [&[u8]; 5] = [b"z", b"utc", b"gmt", b"etc/utc", b"etc/gmt"];
    if UTC.iter().any(|name| zone.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let (sign, digits) = match zone {
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match *digits {
        [h0, h1] => (two_digits(h0, h1).ok()?, 0),
        [h0, h1, m0, m1] | [h0, h1, b':', m0, m1] => (two_digits(h0, h1).ok()?, two_digits(m0, m1).ok()?),
        _ => return None,
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    Some(sign * (i32::from(hours) * 3600 + i32::from(minutes) * 60))
}

fn in_units(seconds: i64, nanos: u32, unit: TimeUnit) -> Parsed<i64> {
    let nanos = i64::from(nanos);
    let (per_second, nanos_per_unit) = match unit {
        TimeUnit::Second => (1, 1_000_000_000),
        TimeUnit::Millisecond => (1_000, 1_000_000),
        TimeUnit::Microsecond => (1_000_000, 1_000),
        TimeUnit::Nanosecond => (1_000_000_000, 1),
    };
    if nanos % nanos_per_unit != 0 {
        return Err(Precision);
    }
    // In 128 bits, because the product alone may leave the range at the very first nanosecond that is in it.
    i64::try_from(i128::from(seconds) * i128::from(per_second) + i128::from(nanos / nanos_per_unit)).map_err(|_| Range)
}

/// The UUID of a text: 32 digits of any case, with or without hyphens between pairs, and possibly in braces.
pub(crate) fn uuid_of(text: &[u8]) -> Option<[u8; 16]> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"{").and_then(|inner| inner.strip_suffix(b"}")).unwrap_or(text);
    let (mut uuid, mut at) = ([0u8; 16], 0);
    for (place, byte) in text.iter().enumerate() {
        if *byte == b'-' && at > 0 && at < 32 && at % 2 == 0 && text[place - 1] != b'-' {
            continue;
        }
        let digit = char::from(*byte).to_digit(16)? as u8;
        *uuid.get_mut(at / 2)? |= if at % 2 == 0 { digit << 4 } else { digit };
        at += 1;
    }
    (at == 32).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    fn check<T: PartialEq + Debug>(parse: impl Fn(&[u8]) -> Parsed<T>, cases: &[(&str, Parsed<T>)]) {
        for (text, expected) in cases {
            assert_eq!(parse(text.as_bytes()), *expected, "{text:?}");
        }
    }

    #[test]
    fn integers() {
        check(
            signed,
            &[
                ("0", Ok(0)),
                (" +42 ", Ok(42)),
                ("-9223372036854775808", Ok(i64::MIN)),
                ("9223372036854775807", Ok(i64::MAX)),
                ("9223372036854775808", Err(Range)),
                ("-9223372036854775809", Err(Range)),
                ("00000000000000000000000000007", Ok(7)),
                ("99999999999999999999999999", Err(Range)),
                ("", Err(Syntax)),
                ("-", Err(Syntax)),
                ("--1", Err(Syntax)),
                ("1.0", Err(Syntax)),
                ("1 2", Err(Syntax)),
                ("9999999999999999999999999x", Err(Syntax)),
            ],
        );
        check(
            unsigned,
            &[
                ("18446744073709551615", Ok(u64::MAX)),
                ("18446744073709551616", Err(Range)),
                ("-0", Ok(0)),
                ("-1", Err(Range)),
            ],
        );
    }

    #[test]
    fn decimals() {
        let limit = |precision: u32| 10i128.pow(precision);
        check(
            |bytes| decimal(bytes, 2, limit(15)),
            &[
                ("1", Ok(100)),
                ("-1.5", Ok(-150)),
                (".5", Ok(50)),
                ("5.", Ok(500)),
                ("1.2300", Ok(123)),
                ("1.234", Err(Precision)),
                ("1e3", Ok(100_000)),
                ("12345E-3", Err(Precision)),
                ("12340E-3", Ok(1234)),
                ("0e999999999999999999999999", Ok(0)),
                ("1e999999999999999999999999", Err(Range)),
                ("1e-99999999999999999999", Err(Precision)),
                ("9999999999999.99", Ok(999_999_999_999_999)),
                ("10000000000000", Err(Range)),
                ("  2.50 ", Ok(250)),
                ("", Err(Syntax)),
                (".", Err(Syntax)),
                ("1.2.3", Err(Syntax)),
                ("1e", Err(Syntax)),
                ("e1", Err(Syntax)),
                ("abc", Err(Syntax)),
            ],
        );
        check(
            |bytes| decimal(bytes, 0, limit(38)),
            &[
                ("99999999999999999999999999999999999999", Ok(limit(38) - 1)),
                ("-99999999999999999999999999999999999999", Ok(1 - limit(38))),
                ("100000000000000000000000000000000000000", Err(Range)),
                ("999999999999999999999999999999999999999999", Err(Range)),
            ],
        );
        check(|bytes| decimal(bytes, 38, limit(38)), &[("0.1", Ok(limit(37))), ("1", Err(Range))]);
    }

    #[test]
    fn decimals_are_rounded() {
        let read = |bytes: &[u8]| rounded_decimal(bytes, 2, 100_000);
        check(
            read,
            &[
                ("1.005", Ok(101)),
                ("-1.005", Ok(-101)),
                ("1.0049999999999999999999", Ok(100)),
                (" 2.5e-2 ", Ok(3)),
                ("4e-3", Ok(0)),
                ("1e-400", Ok(0)),
                ("1e2", Ok(10_000)),
                ("999.994", Ok(99_999)),
                ("999.995", Err(Range)),
                ("1e3", Err(Range)),
                ("0e400", Ok(0)),
                ("1e", Err(Syntax)),
                ("1e 2", Err(Syntax)),
                (".", Err(Syntax)),
                ("", Err(Syntax)),
                ("nan", Err(Syntax)),
                ("1.2.3", Err(Syntax)),
            ],
        );
    }

    #[test]
    fn wide_decimals() {
        let expected = |text: &str| Ok(i256::from_string(text).expect("digits"));
        check(
            |bytes| rounded_wide_decimal(bytes, 39, 0),
            &[
                ("1e2", expected("100")),
                ("340282366920938463463374607431768211455.4", expected("340282366920938463463374607431768211455")),
                ("-2.5", expected("-3")),
                ("0.5e0", expected("1")),
                ("0e400", expected("0")),
                ("1e38", expected("100000000000000000000000000000000000000")),
                ("1e39", Err(Range)),
                ("999999999999999999999999999999999999999.5", Err(Range)),
                ("1e-400", expected("0")),
                ("1e", Err(Syntax)),
                ("", Err(Syntax)),
                (".", Err(Syntax)),
            ],
        );
        check(
            |bytes| wide_decimal(bytes, 40, 2),
            &[("1.5", expected("150")), ("1.2300", expected("123")), ("1.234", Err(Precision)), ("1e40", Err(Range))],
        );
    }

    #[test]
    fn floats_and_booleans() {
        check(
            float64,
            &[
                ("1.5", Ok(1.5)),
                ("-Infinity", Ok(f64::NEG_INFINITY)),
                ("1e309", Err(Range)),
                ("1,5", Err(Syntax)),
                ("", Err(Syntax)),
            ],
        );
        check(float32, &[("3.4028235e38", Ok(f32::MAX)), ("1e39", Err(Range))]);
        assert!(float64(b"NaN").is_ok_and(f64::is_nan));
        check(boolean, &[("TRUE", Ok(true)), ("no", Ok(false)), ("2", Err(Syntax)), ("", Err(Syntax))]);
    }

    #[test]
    fn digits_that_doubles_lose() {
        for (text, expected) in [
            ("9007199254740991.5", true),
            ("12345678901234567.89", true),
            ("-12345678901234567.0", true),
            ("12345678901234568.00", false),
            (" 12345678901234568. ", false),
            ("1.2345678901234567e16", false),
            ("0.1234567890123456789", false),
            ("inf", false),
            ("1e300", false),
        ] {
            let value = float64(text.as_bytes()).expect(text);
            assert_eq!(loses_whole_digits(text.as_bytes(), value), expected, "{text}");
        }
    }

    #[test]
    fn dates() {
        check(
            date,
            &[
                ("1970-01-01", Ok(0)),
                ("1969-12-31", Ok(-1)),
                ("2000-02-29", Ok(11_016)),
                ("0000-01-01", Ok(-719_528)),
                ("9999-12-31", Ok(2_932_896)),
                (" 1998-09-02 ", Ok(10_471)),
                ("1998-09-02 00:00:00", Ok(10_471)),
                ("1998-09-02T00:00:01", Err(Precision)),
                ("1900-02-29", Err(Range)),
                ("2001-13-01", Err(Range)),
                ("2001-00-01", Err(Range)),
                ("2001-1-1", Err(Syntax)),
                ("20010101", Err(Syntax)),
                ("2001-01-01x", Err(Syntax)),
                ("", Err(Syntax)),
                ("infinity", Ok(i32::MAX)),
                ("-inf", Ok(-i32::MAX)),
                ("+12345-12-18", Ok(3_789_742)),
                ("-0044-03-05", Ok(-735_535)),
                ("+5881580-07-10", Ok(i32::MAX - 1)),
                ("+5881581-01-01", Err(Range)),
                ("+12345-13-01", Err(Range)),
                ("+123-01-01", Err(Syntax)),
                ("+1234567890-01-01", Err(Syntax)),
                ("-0044-03", Err(Syntax)),
                ("12345-01-01", Err(Syntax)),
            ],
        );
    }

    #[test]
    fn timestamps() {
        use TimeUnit::{Microsecond, Nanosecond, Second};
        check(
            |bytes| timestamp(bytes, Microsecond, ZoneRule::Naive),
            &[
                ("1970-01-01", Ok(0)),
                ("1970-01-01 00:00", Ok(0)),
                ("1970-01-01T00:00:01.5", Ok(1_500_000)),
                ("1969-12-31 23:59:59.999999", Ok(-1)),
                ("1970-01-01 00:00:00.0000001", Err(Precision)),
                ("1970-01-01 00:00:00Z", Err(UnexpectedZone)),
                ("1970-01-01 24:00:00", Ok(86_400_000_000)),
                ("1970-01-01 24:00:01", Err(Range)),
                ("infinity", Ok(i64::MAX)),
                ("-Infinity", Ok(-i64::MAX)),
                ("+11024-01-01T00:00:00", Ok(285_716_592_000_000_000)),
                ("-0044-03-15 12:00:00", Ok(-63_549_316_800_000_000)),
                ("+300000-01-01", Err(Range)),
                ("1970-01-01 00:00:0", Err(Syntax)),
                ("1970-01-01 00:00:00.", Err(Syntax)),
                ("1970-01-01x00:00:00", Err(Syntax)),
            ],
        );
        let fixed = ZoneRule::of(Some("+01:00"));
        check(
            |bytes| timestamp(bytes, Second, fixed),
            &[
                ("1970-01-01 01:00:00", Ok(0)),
                ("1970-01-01 00:00:00Z", Ok(0)),
                ("1970-01-01 00:00:00 UTC", Ok(0)),
                ("1970-01-01 00:00:00-0530", Ok(19_800)),
                ("1970-01-01 00:00:00+02", Ok(-7_200)),
                ("1970-01-01 00:00:00+2", Err(Syntax)),
            ],
        );
        let needed = ZoneRule::of(Some("Europe/Paris"));
        check(|bytes| timestamp(bytes, Second, needed), &[("1970-01-01", Err(MissingZone))]);
        check(
            |bytes| timestamp(bytes, Nanosecond, ZoneRule::Naive),
            &[
                ("2262-04-11 23:47:16.854775807", Ok(i64::MAX)),
                ("2262-04-11 23:47:16.854775808", Err(Range)),
                ("1677-09-21 00:12:43.145224192", Ok(i64::MIN)),
                ("1677-09-21 00:12:43.145224191", Err(Range)),
            ],
        );
        check(|bytes| time(bytes, Microsecond), &[("23:59:59.999999", Ok(86_399_999_999)), ("1:00", Err(Syntax))]);
    }

    proptest! {
        #[test]
        fn any_integer_reads_back(value: i64) {
            prop_assert_eq!(signed(value.to_string().as_bytes()), Ok(value));
        }

        #[test]
        fn any_decimal_reads_back(value in -(10i128.pow(38) - 1)..10i128.pow(38), scale in 0u32..38) {
            let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale as usize + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
            let text = format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" });
            prop_assert_eq!(decimal(text.as_bytes(), scale, 10i128.pow(38)), Ok(value));
            let exponent = format!("{value}e-{scale}");
            prop_assert_eq!(decimal(exponent.as_bytes(), scale, 10i128.pow(38)), Ok(value));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, text in "[-+0-9eE.:TZ ]{0,40}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = (signed(bytes), unsigned(bytes), decimal(bytes, 2, 1_000_000), float64(bytes), boolean(bytes));
                let _ = (date(bytes), time(bytes, TimeUnit::Second), binary(bytes, &mut Vec::new()));
                let _ = timestamp(bytes, TimeUnit::Nanosecond, ZoneRule::Naive);
            }
        }
    }
}
