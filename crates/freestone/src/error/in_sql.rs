//! The words of SQL for what libraries print: types by their names in SQL, and literals as they are written there.

use std::str::FromStr;

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;

use crate::type_names::type_name;
use crate::uuids::uuid_text;

/// A text with Arrow's types and DataFusion's literals as they are written in SQL.
pub(crate) fn in_sql(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_inside_word = false;
    while let Some(first) = rest.chars().next() {
        if !is_inside_word
            && first.is_ascii_uppercase()
            && let Some((sql, length)) = literal(rest).or_else(|| arrow_type(rest))
        {
            written.push_str(&sql);
            rest = &rest[length..];
            is_inside_word = true;
            continue;
        }
        is_inside_word = first.is_alphanumeric() || first == '_' || first == '.';
        written.push(first);
        rest = &rest[first.len_utf8()..];
    }
    written
}

/// Types that no other word looks like, even without parentheses.
const WORDS: [&str; 22] = [
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float16",
    "Float32",
    "Float64",
    "Utf8",
    "LargeUtf8",
    "Utf8View",
    "Binary",
    "LargeBinary",
    "BinaryView",
    "Boolean",
    "Date32",
    "Date64",
    "Null",
    "Decimal",
];

/// Types with parentheses.
const NESTED: [&str; 15] = [
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Decimal256",
    "Timestamp",
    "Time32",
    "Time64",
    "Duration",
    "Interval",
    "FixedSizeBinary",
    "List",
    "LargeList",
    "FixedSizeList",
    "Struct",
    "Map",
];

/// The SQL name of the type at the beginning of a text, and its length there.
fn arrow_type(text: &str) -> Option<(String, usize)> {
    let word = text.find(|c: char| !c.is_ascii_alphanumeric()).map_or(text, |end| &text[..end]);
    let has_parentheses = text[word.len()..].starts_with('(');
    if has_parentheses && (NESTED.contains(&word) || word == "Dictionary") {
        let length = word.len() + parentheses(&text[word.len()..])?;
        let data_type = DataType::from_str(&text[..length]).ok()?;
        return Some((type_name(&data_type), length));
    }
    if has_parentheses || !WORDS.contains(&word) || text[word.len()..].starts_with(['_', '.']) {
        return None;
    }
    let data_type = DataType::from_str(word).ok()?;
    let name = if data_type == DataType::Null { "NULL".to_owned() } else { type_name(&data_type) };
    Some((name, word.len()))
}

/// The literal at the beginning of a text, such as `Utf8("a")` or `Int64(1)`, and its length there.
fn literal(text: &str) -> Option<(String, usize)> {
    if let Some((interval, length)) = interval(text) {
        return Some((interval, length));
    }
    let word = text.find(|c: char| !c.is_ascii_alphanumeric()).map(|end| &text[..end])?;
    let length = parentheses(&text[word.len()..]).filter(|_| text[word.len()..].starts_with('('))?;
    let inner = &text[word.len() + 1..word.len() + length - 1];
    Some((of_kind(word, inner)?, word.len() + length))
}

/// The literal in parentheses after the name of its kind.
fn of_kind(kind: &str, inner: &str) -> Option<String> {
    let quoted = inner.split_once('"').and_then(|(_, inner)| inner.strip_suffix('"'));
    let first = || inner.split(',').next().map(str::to_owned);
    let bytes = || quoted?.split(',').map(|byte| byte.parse::<u8>().ok()).collect::<Option<Vec<u8>>>();
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match kind {
        _ if matches!(inner, "NULL") || inner.starts_with("NULL,") => Some("NULL".to_owned()),
        "Utf8" | "Utf8View" | "LargeUtf8" => Some(format!("'{}'", quoted?.replace('\'', "''"))),
        "Date32" | "Date64" => Some(format!("DATE '{}'", quoted?)),
        "Time32Second" | "Time32Millisecond" | "Time64Microsecond" | "Time64Nanosecond" => {
            Some(format!("TIME '{}'", quoted?))
        }
        "TimestampSecond" | "TimestampMillisecond" | "TimestampMicrosecond" | "TimestampNanosecond" => {
            timestamp(kind, inner)
        }
        "IntervalMonthDayNano" => interval(quoted?).map(|(text, _)| text),
        "Binary" | "LargeBinary" | "BinaryView" => Some(format!("x'{}'", hex(bytes()?))),
        "FixedSizeBinary" => match bytes()? {
            bytes if bytes.len() == 16 => Some(format!("UUID '{}'", uuid_text(&bytes))),
            bytes => Some(format!("x'{}'", hex(bytes))),
        },
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => {
            first().filter(|value| value.parse::<f64>().is_ok() && inner.matches(',').count() == 2)
        }
        "List" | "LargeList" | "FixedSizeList" => inner.starts_with('[').then(|| inner.to_owned()),
        "Struct" => inner.starts_with('{').then(|| inner.to_owned()),
        kind if WORDS.contains(&kind) && kind != "Null" && !inner.is_empty() => Some(inner.to_owned()),
        _ => None,
    }
}

/// `TimestampMicrosecond(1704067200000000, None)`.
fn timestamp(kind: &str, inner: &str) -> Option<String> {
    let (number, zone) = inner.split_once(", ")?;
    let number = Some(number.parse().ok()?);
    let zone = zone.split_once('"').and_then(|(_, zone)| Some(zone.split_once('"')?.0.into()));
    let name = if zone.is_some() { "TIMESTAMPTZ" } else { "TIMESTAMP" };
    let value = match kind {
        "TimestampSecond" => ScalarValue::TimestampSecond(number, zone),
        "TimestampMillisecond" => ScalarValue::TimestampMillisecond(number, zone),
        "TimestampMicrosecond" => ScalarValue::TimestampMicrosecond(number, zone),
        _ => ScalarValue::TimestampNanosecond(number, zone),
    };
    Some(format!("{name} '{}'", text_of(&value)?.replace('T', " ").replace('Z', "+00")))
}

/// A value as Arrow writes it.
fn text_of(value: &ScalarValue) -> Option<String> {
    array_value_to_string(&value.to_array().ok()?, 0).ok()
}

/// `IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }`, and its length.
fn interval(text: &str) -> Option<(String, usize)> {
    let inner = text.strip_prefix("IntervalMonthDayNano { ")?;
    let (inner, _) = inner.split_once(" }")?;
    let mut numbers = inner.split(", ").map(|part| part.split_once(": ")?.1.parse::<i64>().ok());
    let mut next = || numbers.next().flatten();
    let (months, days, nanoseconds) = (next()?, next()?, next()?);
    let interval = IntervalMonthDayNano::new(i32::try_from(months).ok()?, i32::try_from(days).ok()?, nanoseconds);
    let length = "IntervalMonthDayNano { ".len() + inner.len() + " }".len();
    let text = text_of(&ScalarValue::IntervalMonthDayNano(Some(interval)))?;
    Some((format!("INTERVAL '{text}'"), length))
}

/// The length of the balanced parentheses at the beginning of a text, which may contain text in double quotes.
fn parentheses(text: &str) -> Option<usize> {
    let (mut depth, mut is_quoted) = (0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => depth += 1,
            ')' if !is_quoted => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + c.len_utf8());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_literals_are_those_of_sql() {
        for (message, expected) in [
            ("Utf8View + Int64", "VARCHAR + BIGINT"),
            ("List(Int64) and Struct(\"a\": Int32)", "BIGINT[] and STRUCT(a INTEGER)"),
            ("Timestamp(µs) > Decimal128(2, 1)", "TIMESTAMP > DECIMAL(2,1)"),
            ("Timestamp(ns, \"+00:00\")", "TIMESTAMP(9) WITH TIME ZONE"),
            ("Interval(MonthDayNano)", "INTERVAL"),
            ("FixedSizeBinary(16)", "UUID"),
            ("sum(Int64(1)) is x = Utf8(\"it's\")", "sum(1) is x = 'it''s'"),
            ("Binary_x MyInt64 t.Utf8", "Binary_x MyInt64 t.Utf8"),
            ("no List here", "no List here"),
            ("Int64(", "Int64("),
            ("t.d > Date32(\"2024-01-01\")", "t.d > DATE '2024-01-01'"),
            ("ts > TimestampMicrosecond(1704067200000000, None)", "ts > TIMESTAMP '2024-01-01 00:00:00'"),
            (
                "ts > TimestampMicrosecond(1704067200000000, Some(\"+00:00\"))",
                "ts > TIMESTAMPTZ '2024-01-01 00:00:00+00'",
            ),
            (
                "x + IntervalMonthDayNano(\"IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }\")",
                "x + INTERVAL '1 days'",
            ),
            ("x + IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }", "x + INTERVAL '1 days'"),
            ("Decimal128(1.50,9,2) and Decimal128(9, 2)", "1.50 and DECIMAL(9,2)"),
            ("BinaryView(\"97,98\") = Utf8View(NULL)", "x'6162' = NULL"),
            ("List([1, 2]) = CAST(l AS List(Int64))", "[1, 2] = CAST(l AS BIGINT[])"),
            ("Time64Nanosecond(\"10:00:00\")", "TIME '10:00:00'"),
            ("", ""),
        ] {
            assert_eq!(in_sql(message), expected);
        }
    }
}
