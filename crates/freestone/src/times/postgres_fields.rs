//! The fields of PostgreSQL's texts of dates and times, as its `ParseDateTime` splits them, and the words that it knows.

/// The longest text of a time.
const LENGTH_MAX: usize = 128;
/// The most fields of a text.
const FIELDS_MAX: usize = 25;

/// What a field looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Parts of a date with a separator, or the name of a zone: `08-jan-1999`, `america/new_york`.
    Date,
    /// `10:11:12.5`
    Time,
    /// `+08`
    Offset,
    /// `19990108`, `040506.789`
    Number,
    /// `january`, `pst`, `-infinity`
    Word,
}

/// One field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub kind: Kind,
    pub text: String,
}

/// A word of texts of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// From 1.
    Month(i64),
    Weekday,
    /// `at`, `on`
    Ignored,
    Am,
    Pm,
    Bc,
    Ad,
    Now,
    /// Today and the days around it, counted from it.
    Day(i64),
    AllBalls,
    Epoch,
    /// A zone's summer time: `met dst`.
    Summer,
    /// Before the number of a Julian day.
    Julian,
    /// Before a time of day.
    Time,
    /// A unit or another word that stands in no text that is read here.
    Other,
}

/// Splits a text; `None` if no text of a time has such characters.
pub(super) fn fields(text: &str) -> Option<Vec<Field>> {
    if text.len() > LENGTH_MAX || !text.is_ascii() {
        return None;
    }
    let (mut found, mut rest) = (vec![], text);
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.bytes().next() else { return Some(found) };
        let (kind, length) = match first {
            b'0'..=b'9' => of_digit(rest),
            b'.' => (Kind::Number, 1 + run(rest.get(1..)?, |byte| byte.is_ascii_digit())),
            b'+' | b'-' => of_sign(rest)?,
            first if first.is_ascii_alphabetic() => of_letter(rest),
            first if first.is_ascii_punctuation() => {
                rest = rest.get(1..)?;
                continue;
            }
            _ => return None,
        };
        let (field, after) = rest.split_at_checked(length)?;
        let text = field.chars().filter(|c| !c.is_ascii_whitespace()).map(|c| c.to_ascii_lowercase()).collect();
        found.push(Field { kind, text });
        if found.len() > FIELDS_MAX {
            return None;
        }
        rest = after;
    }
}

/// The number of bytes at the beginning that `is_part` of a field.
fn run(text: &str, is_part: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| is_part(*byte)).count()
}

/// The kind and the length of a field that begins with a digit.
fn of_digit(text: &str) -> (Kind, usize) {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let digits = run(text, is_digit);
    let after = text.get(digits..).unwrap_or_default();
    let separator = match after.bytes().next() {
        Some(b':') => return (Kind::Time, digits + run(after, |byte| is_digit(byte) || matches!(byte, b':' | b'.'))),
        Some(separator @ (b'-' | b'/' | b'.')) => separator,
        _ => return (Kind::Number, digits),
    };
    let next = after.get(1..).unwrap_or_default();
    let second = run(next, is_digit);
    if second == 0 {
        let more = run(next, |byte| byte.is_ascii_alphanumeric() || byte == separator);
        return (Kind::Date, digits + 1 + more);
    }
    let more = next.get(second..).unwrap_or_default();
    if more.bytes().next() == Some(separator) {
        return (Kind::Date, digits + 1 + second + run(more, |byte| is_digit(byte) || byte == separator));
    }
    (if separator == b'.' { Kind::Number } else { Kind::Date }, digits + 1 + second)
}

/// The kind and the length of a field that begins with a letter: a word, or a date or zone with other characters in it.
fn of_letter(text: &str) -> (Kind, usize) {
    let letters = run(text, |byte| byte.is_ascii_alphabetic());
    let is_date = match text.as_bytes().get(letters) {
        Some(b'-' | b'/' | b'.') => true,
        Some(b'+' | b'0'..=b'9') => word(&text.get(..letters).unwrap_or_default().to_ascii_lowercase()).is_none(),
        _ => false,
    };
    match is_date {
        true => (Kind::Date, run(text, |byte| byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte))),
        false => (Kind::Word, letters),
    }
}

/// The kind and the length of a field that begins with a sign. Blanks may follow the sign.
fn of_sign(text: &str) -> Option<(Kind, usize)> {
    let begin = 1 + run(text.get(1..)?, |byte| byte.is_ascii_whitespace());
    let after = text.get(begin..)?;
    match after.bytes().next()? {
        b'0'..=b'9' => {
            let length = run(after, |byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-'));
            Some((Kind::Offset, begin + length))
        }
        first if first.is_ascii_alphabetic() => {
            Some((Kind::Word, begin + run(after, |byte| byte.is_ascii_alphabetic())))
        }
        _ => None,
    }
}

/// The word of a text in lower case.
pub(super) fn word(text: &str) -> Option<Word> {
    Some(match text {
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" | "thu"
        | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "at" | "on" => Word::Ignored,
        "am" => Word::Am,
        "pm" => Word::Pm,
        "bc" => Word::Bc,
        "ad" => Word::Ad,
        "now" => Word::Now,
        "today" => Word::Day(0),
        "tomorrow" => Word::Day(1),
        "yesterday" => Word::Day(-1),
        "allballs" => Word::AllBalls,
        "epoch" => Word::Epoch,
        "dst" => Word::Summer,
        "j" | "jd" | "julian" => Word::Julian,
        "t" => Word::Time,
        "d" | "dow" | "doy" | "h" | "isodow" | "isoyear" | "m" | "mm" | "s" | "y" | "infinity" | "-infinity" => {
            Word::Other
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split() {
        use Kind::{Date, Number, Offset, Time, Word};
        for (text, expected) in [
            ("January 8, 1999", &[(Word, "january"), (Number, "8"), (Number, "1999")][..]),
            ("08-Jan-1999", &[(Date, "08-jan-1999")]),
            ("Jan-08-1999", &[(Date, "jan-08-1999")]),
            ("1999.008", &[(Number, "1999.008")]),
            ("J2451187", &[(Word, "j"), (Number, "2451187")]),
            (
                "97FEB10 5:32:01PM UTC",
                &[(Number, "97"), (Word, "feb"), (Number, "10"), (Time, "5:32:01"), (Word, "pm"), (Word, "utc")],
            ),
            ("040506.789+08", &[(Number, "040506.789"), (Offset, "+08")]),
            (
                "1997-02-10 17:32:01 America/New_York",
                &[(Date, "1997-02-10"), (Time, "17:32:01"), (Date, "america/new_york")],
            ),
            ("T040506 - 8", &[(Word, "t"), (Number, "040506"), (Offset, "-8")]),
        ] {
            let found = fields(text).expect(text);
            let found: Vec<(Kind, &str)> = found.iter().map(|field| (field.kind, field.text.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(fields("8 März"), None);
        assert_eq!(fields("1 + ?"), None);
    }
}
