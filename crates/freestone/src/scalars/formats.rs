//! `format('{:.2f}', x)` and `printf('%.2f', x)`: values formatted into a text.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Rest, Text};
use super::kinds::{REAL, TEXT};
use super::rows::{invalid, texts};
use crate::growth::Meter;
use crate::times::{Call, exact_cast};

/// The maximum width of a formatted value.
const WIDTH_MAX: usize = 10_000;

pub(super) fn all() -> Vec<Scalar> {
    vec![
        Scalar::new(&["format"], &[&[Text, Rest]], TEXT, |call| formatted(call, braces)),
        Scalar::new(&["printf"], &[&[Text, Rest]], TEXT, |call| formatted(call, percents)),
    ]
}

/// A part of a format.
#[derive(Debug, PartialEq)]
enum Part {
    Literal(String),
    Place(usize, Spec),
}

/// The specification of how a value is formatted.
#[derive(Debug, Clone, PartialEq)]
struct Spec {
    fill: char,
    /// `<`, `>`, `^`, or `None` for the alignment of the value's type.
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    /// Whether zeros are inserted between sign and digits.
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    /// The separator of groups of three digits.
    thousands: Option<char>,
    kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Self {
        Spec {
            fill: ' ',
            align: None,
            sign: None,
            alternate: false,
            zeros: false,
            width: 0,
            precision: None,
            thousands: None,
            kind: None,
        }
    }
}

/// The values of a column in the representations that specifiers distinguish.
enum Values {
    Integers(Decimal128Array),
    Reals(Float64Array),
    Booleans(BooleanArray),
    Texts(StringViewArray),
}

impl Values {
    fn of(array: &ArrayRef) -> Result<Values> {
        Ok(match array.data_type() {
            kind if kind.is_integer() || matches!(kind, DataType::Decimal128(_, 0)) => {
                let wide = exact_cast(array, &DataType::Decimal128(38, 0))?;
                Values::Integers(wide.as_primitive::<Decimal128Type>().clone())
            }
            kind if kind.is_numeric() => Values::Reals(exact_cast(array, &REAL)?.as_primitive::<Float64Type>().clone()),
            DataType::Boolean => Values::Booleans(array.as_boolean().clone()),
            DataType::Null => Values::Texts(StringViewArray::new_null(array.len())),
            _ => Values::Texts(crate::display::texts_of(array)?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Values::Integers(array) => array.is_null(row),
            Values::Reals(array) => array.is_null(row),
            Values::Booleans(array) => array.is_null(row),
            Values::Texts(array) => array.is_null(row),
        }
    }
}

/// Formats each row's values by its format. NULL if a value or the format is NULL.
fn formatted(call: &Call, read: fn(&str) -> Result<Vec<Part>>) -> Result<ArrayRef> {
    let formats = texts(call, 0)?;
    let values = (1..call.count()).map(|at| Values::of(&call.array(at)?)).collect::<Result<Vec<_>>>()?;
    let (mut last, mut meter): (Option<(String, Vec<Part>)>, _) = (None, Meter::new("format"));
    let mut row = |row: usize| -> Result<Option<String>> {
        if formats.is_null(row) || values.iter().any(|values| values.is_null(row)) {
            return Ok(None);
        }
        let format = formats.value(row);
        if last.as_ref().is_none_or(|(known, _)| known != format) {
            last = Some((format.to_owned(), read(format)?));
        }
        let mut text = String::new();
        for part in last.iter().flat_map(|(_, parts)| parts) {
            // What a place makes is as long as its value, or as it is wide.
            let before = text.len();
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Place(at, spec) => match values.get(*at) {
                    Some(values) => write(&mut text, values, row, spec)?,
                    None => return invalid(format!("the format '{format}' has more places than there are values")),
                },
            }
            meter.add(text.len() - before)?;
        }
        Ok(Some(text))
    };
    Ok(Arc::new((0..formats.len()).map(&mut row).collect::<Result<StringViewArray>>()?))
}

/// Collects the parts. Characters outside of specifications are literals.
#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    places: usize,
}

impl Parts {
    fn push(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Literal(text)) => text.push(c),
            _ => self.parts.push(Part::Literal(c.to_string())),
        }
    }

    fn place(&mut self, at: Option<usize>, spec: Spec) {
        self.parts.push(Part::Place(at.unwrap_or(self.places), spec));
        self.places += 1;
    }
}

/// The parts of `{}`, `{0}` and `{:>10.2f}`.
fn braces(format: &str) -> Result<Vec<Part>> {
    let mut parts = Parts::default();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.peek() == Some(&c) => {
                rest.next();
                parts.push(c);
            }
            '{' => {
                let mut is_closed = false;
                let is_inside = |c: &char| {
                    is_closed |= *c == '}';
                    !is_closed
                };
                let place: String = rest.by_ref().take_while(is_inside).collect();
                if !is_closed {
                    return invalid(format!("the format '{format}' has a {{ without its }}"));
                }
                let (at, spec) = place.split_once(':').unwrap_or((&place, ""));
                let at = match at {
                    "" => None,
                    digits => match digits.parse() {
                        Ok(at) => Some(at),
                        Err(_) => return invalid(format!("'{{{place}}}' in a format is no place of a value")),
                    },
                };
                parts.place(at, brace_spec(spec)?);
            }
            '}' => return invalid(format!("the format '{format}' has a }} without its {{")),
            c => parts.push(c),
        }
    }
    Ok(parts.parts)
}

/// `[[fill]align][sign][#][0][width][,][.precision][kind]`.
fn brace_spec(text: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    let is_align = |c: Option<&char>| c.is_some_and(|c| matches!(c, '<' | '>' | '^'));
    if is_align(characters.get(1)) {
        (spec.fill, spec.align, at) = (characters[0], Some(characters[1]), 2);
    } else if is_align(characters.first()) {
        (spec.align, at) = (Some(characters[0]), 1);
    }
    let is = |wanted: &[char], at: &mut usize| -> Option<char> {
        let found = characters.get(*at).copied().filter(|c| wanted.contains(c));
        *at += usize::from(found.is_some());
        found
    };
    spec.sign = is(&['+', '-', ' '], &mut at);
    spec.alternate = is(&['#'], &mut at).is_some();
    spec.zeros = is(&['0'], &mut at).is_some();
    spec.width = number(&characters, &mut at)?.unwrap_or(0);
    spec.thousands = is(&[',', '_', '\''], &mut at);
    if is(&['.'], &mut at).is_some() {
        spec.precision = number(&characters, &mut at)?;
    }
    spec.thousands = spec.thousands.or_else(|| is(&[',', '_', '\''], &mut at));
    spec.kind = characters.get(at).copied();
    match characters.len() > at + 1 {
        true => invalid(format!("'{text}' is no specification of a format")),
        false => Ok(spec),
    }
}

/// Parses the number at a position, if there is one.
fn number(characters: &[char], at: &mut usize) -> Result<Option<usize>> {
    let digits: String = characters[*at..].iter().take_while(|c| c.is_ascii_digit()).collect();
    *at += digits.len();
    match digits.parse::<usize>() {
        Ok(number) if number <= WIDTH_MAX => Ok(Some(number)),
        Err(_) if digits.is_empty() => Ok(None),
        _ => invalid(format!("a place of a format has {WIDTH_MAX} characters at most")),
    }
}

/// The parts of `%d`, `%-10s` and `%+.2f`.
fn percents(format: &str) -> Result<Vec<Part>> {
    let mut parts = Parts::default();
    let characters: Vec<char> = format.chars().collect();
    let mut at = 0;
    while let Some(c) = characters.get(at) {
        at += 1;
        if *c != '%' {
            parts.push(*c);
            continue;
        }
        if characters.get(at) == Some(&'%') {
            at += 1;
            parts.push('%');
            continue;
        }
        let mut spec = Spec { align: Some('>'), ..Spec::default() };
        while let Some(flag) = characters.get(at).filter(|c| "-+ #0,'_".contains(**c)) {
            match flag {
                '-' => spec.align = Some('<'),
                '+' | ' ' => spec.sign = Some(*flag),
                '#' => spec.alternate = true,
                '0' => spec.zeros = true,
                separator => spec.thousands = Some(*separator),
            }
            at += 1;
        }
        spec.zeros &= spec.align == Some('>');
        if spec.zeros {
            spec.align = None;
        }
        spec.width = number(&characters, &mut at)?.unwrap_or(0);
        let has_point = characters.get(at) == Some(&'.');
        if has_point {
            at += 1;
            spec.precision = number(&characters, &mut at)?;
        }
        // The length modifier of a C type.
        while characters.get(at).is_some_and(|c| "lhqjzt".contains(*c)) {
            at += 1;
        }
        let Some(kind) = characters.get(at) else {
            return invalid(format!("the format '{format}' ends in a place without a type"));
        };
        at += 1;
        match kind {
            _ if !has_point || spec.precision.is_some() => {}
            // A point without a number separates thousands, as in DuckDB.
            'd' | 'i' | 'u' => spec.thousands = Some('.'),
            _ => spec.precision = Some(0),
        }
        spec.kind = Some(match kind {
            'i' | 'u' => 'd',
            's' => '?',
            other => *other,
        });
        parts.place(None, spec);
    }
    Ok(parts.parts)
}

fn write(text: &mut String, values: &Values, row: usize, spec: &Spec) -> Result<()> {
    let kind = spec.kind;
    match values {
        Values::Integers(array) => integer(text, array.value(row), spec),
        Values::Reals(array) => real(text, array.value(row), spec),
        Values::Booleans(array) if matches!(kind, None | Some('s' | '?')) => {
            padded(
                text,
                "",
                if array.value(row) { "true" } else { "false" },
                &Spec { zeros: false, ..spec.clone() },
                '<',
            );
            Ok(())
        }
        Values::Booleans(array) => integer(text, i128::from(array.value(row)), spec),
        Values::Texts(array) if matches!(kind, None | Some('s' | '?')) => {
            let value = array.value(row);
            let cut: String = match spec.precision {
                Some(precision) => value.chars().take(precision).collect(),
                None => value.to_owned(),
            };
            padded(text, "", &cut, &Spec { zeros: false, ..spec.clone() }, '<');
            Ok(())
        }
        Values::Texts(_) => wrong_kind(kind, "a text"),
    }
}

fn wrong_kind(kind: Option<char>, of: &str) -> Result<()> {
    invalid(format!("the type '{}' of a format's place is not for {of}", kind.unwrap_or(' ')))
}

fn integer(text: &mut String, value: i128, spec: &Spec) -> Result<()> {
    let size = value.unsigned_abs();
    let (prefix, digits) = match spec.kind {
        None | Some('d' | '?' | 'n') => ("", size.to_string()),
        Some('x') => ("0x", format!("{size:x}")),
        Some('X') => ("0X", format!("{size:X}")),
        Some('o') => ("0", format!("{size:o}")),
        Some('b') => ("0b", format!("{size:b}")),
        Some('B') => ("0B", format!("{size:b}")),
        Some('c') => {
            let c = u32::try_from(value).ok().and_then(char::from_u32);
            let Some(c) = c else { return invalid(format!("{value} is no character")) };
            padded(text, "", &c.to_string(), spec, '<');
            return Ok(());
        }
        Some('e' | 'E' | 'f' | 'F' | 'g' | 'G') => return real(text, value as f64, spec),
        kind => return wrong_kind(kind, "an integer"),
    };
    let prefix = if spec.alternate { prefix } else { "" };
    let digits = grouped(&digits, spec);
    padded(text, &format!("{}{prefix}", sign_of(value < 0, spec)), &digits, spec, '>');
    Ok(())
}

fn sign_of(is_negative: bool, spec: &Spec) -> &'static str {
    match spec.sign {
        _ if is_negative => "-",
        Some('+') => "+",
        Some(' ') => " ",
        _ => "",
    }
}

/// The digits before the point in groups of three.
fn grouped(digits: &str, spec: &Spec) -> String {
    let Some(separator) = spec.thousands else { return digits.to_owned() };
    let whole = digits.bytes().take_while(u8::is_ascii_digit).count();
    let mut text = String::new();
    for (at, digit) in digits[..whole].chars().enumerate() {
        if at > 0 && (whole - at).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text + &digits[whole..]
}

fn real(text: &mut String, value: f64, spec: &Spec) -> Result<()> {
    let size = value.abs();
    let precision = spec.precision.unwrap_or(6);
    let digits = match spec.kind {
        _ if value.is_nan() => "nan".to_owned(),
        _ if value.is_infinite() => "inf".to_owned(),
        Some('f' | 'F') => format!("{size:.precision$}"),
        Some('e' | 'E') => exponent(&format!("{size:.precision$e}")),
        Some('g' | 'G') => general(size, precision, spec.alternate),
        None | Some('?') => match spec.precision {
            Some(precision) => general(size, precision, spec.kind.is_none()),
            None => shortest(size),
        },
        kind => return wrong_kind(kind, "a number with a fraction"),
    };
    let digits = if matches!(spec.kind, Some('E' | 'G')) { digits.to_uppercase() } else { digits };
    let is_finite = value.is_finite();
    let spec = Spec { zeros: spec.zeros && is_finite, ..spec.clone() };
    let digits = grouped(&digits, &spec);
    padded(text, sign_of(value.is_sign_negative() && !value.is_nan(), &spec), &digits, &spec, '>');
    Ok(())
}

/// Converts Rust's exponent to one with a sign and at least two digits.
fn exponent(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// A number with `precision` significant digits, in the shorter of the two notations, as C's `%g` writes it.
fn general(size: f64, precision: usize, keeps_zeros: bool) -> String {
    let precision = precision.max(1);
    let scientific = format!("{size:.*e}", precision - 1);
    let power: i64 = scientific.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trimmed = |text: String| match text.contains('.') && !keeps_zeros {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    if (-4..precision as i64).contains(&power) {
        let decimals = (precision as i64 - 1 - power).max(0) as usize;
        return trimmed(format!("{size:.decimals$}"));
    }
    match scientific.split_once('e') {
        Some((digits, power)) => exponent(&format!("{}e{power}", trimmed(digits.to_owned()))),
        None => scientific,
    }
}

/// The shortest digits that are read as the same number.
fn shortest(size: f64) -> String {
    if size != 0.0 && !(1e-4..1e16).contains(&size) { exponent(&format!("{size:e}")) } else { format!("{size:?}") }
}

/// Appends sign and digits, padded to the width of the specification.
fn padded(text: &mut String, sign: &str, digits: &str, spec: &Spec, align: char) {
    let length = sign.chars().count() + digits.chars().count();
    let missing = spec.width.saturating_sub(length);
    let fill = |text: &mut String, count: usize| text.extend(std::iter::repeat_n(spec.fill, count));
    if spec.zeros && spec.align.is_none() {
        text.push_str(sign);
        text.extend(std::iter::repeat_n('0', missing));
        return text.push_str(digits);
    }
    let (before, after) = match spec.align.unwrap_or(align) {
        '<' => (0, missing),
        '^' => (missing / 2, missing - missing / 2),
        _ => (missing, 0),
    };
    fill(text, before);
    text.push_str(sign);
    text.push_str(digits);
    fill(text, after);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, values: &Values, expected: &str) {
        let parts = if format.starts_with('%') { percents(format) } else { braces(format) };
        let mut text = String::new();
        for part in parts.expect(format) {
            match part {
                Part::Literal(literal) => text.push_str(&literal),
                Part::Place(_, spec) => write(&mut text, values, 0, &spec).expect(format),
            }
        }
        assert_eq!(text, expected, "{format}");
    }

    #[test]
    fn values_in_places() {
        let integer = |value: i128| Values::Integers(Decimal128Array::from(vec![value]));
        let real = |value: f64| Values::Reals(Float64Array::from(vec![value]));
        let text = |text: &str| Values::Texts(StringViewArray::from(vec![text]));
        for (format, value, expected) in [
            ("{}", 5, "5"),
            ("{:>5}|", 5, "    5|"),
            ("{:*^5}", 5, "**5**"),
            ("{:05d}", -42, "-0042"),
            ("{:+}", 5, "+5"),
            ("{:#x}", 255, "0xff"),
            ("{:,}", -1_234_567, "-1,234,567"),
            ("{{{}}}", 1, "{1}"),
            ("%5d|", 42, "   42|"),
            ("%-5d|", 42, "42   |"),
            ("%05d", 42, "00042"),
            ("%lld%%", 42, "42%"),
            ("%,d", 1_234_567, "1,234,567"),
        ] {
            check(format, &integer(value), expected);
        }
        for (format, value, expected) in [
            ("{}", 1.0, "1.0"),
            ("{}", 1e300, "1e+300"),
            ("{:.2f}", 2.675, "2.67"),
            ("{:e}", 1.5, "1.500000e+00"),
            ("{:.3}", 1.5, "1.50"),
            ("{:g}", 1e-10, "1e-10"),
            ("%g", 1.5, "1.5"),
            ("%8.3f|", -1.5, "  -1.500|"),
            ("{}", f64::NAN, "nan"),
            ("{:,}", 1_234_567.5, "1,234,567.5"),
        ] {
            check(format, &real(value), expected);
        }
        check("{:5}|", &text("é"), "é    |");
        check("%5s|", &text("ab"), "   ab|");
        check("%.1s", &text("ab"), "a");
        for wrong in ["{", "{x}", "}", "%", "{:5.2ff}"] {
            let parts = if wrong.starts_with('%') { percents(wrong) } else { braces(wrong) };
            assert!(parts.is_err(), "{wrong}");
        }
    }
}
