//! Whether the first record of a CSV file is a header, judging by it, by the records below it, and by the columns of a
//! table.

use std::collections::HashSet;

use arrow::datatypes::{DataType, Schema};

use super::column_names::column_index;
use super::csv_tokens::{Dialect, RecordEnd, Tokenizer};
use super::fields::{Cells, Fields};
use super::forms::TextForms;
use super::kinds::Kinds;
use super::values::has_leading_zero;

/// Whether the first record of a CSV file is a header: its fields are distinct names, and none of them is a value of
/// another type.
fn is_header(first: &[Option<String>], forms: &TextForms) -> bool {
    let names: Option<Vec<&str>> = first.iter().map(Option::as_deref).collect();
    let Some(names) = names else { return false };
    let is_name = |name: &&str| !name.trim().is_empty() && is_plain_text(name, forms);
    !names.is_empty() && names.iter().all(is_name) && are_distinct(names.iter().copied())
}

fn are_distinct<'a>(mut names: impl Iterator<Item = &'a str>) -> bool {
    let mut known = HashSet::new();
    names.all(|name| known.insert(name))
}

/// Whether a text is not a number, date, time or boolean.
fn is_plain_text(text: &str, forms: &TextForms) -> bool {
    let mut kinds = Kinds::ANY;
    kinds.see_text(text, forms);
    kinds.data_type() == DataType::Utf8View && !has_leading_zero(text.as_bytes())
}

/// Whether the first record of a CSV file is a header, judging by the following records: a text in a column of numbers
/// is a name, regardless of the other fields. If all columns are text, the names must look like names.
pub(super) fn is_header_above(
    first: &[Option<String>],
    kinds: &[Kinds],
    forms: &TextForms,
    below: impl Fn() -> Below,
) -> bool {
    let is_text = kinds.iter().all(|kinds| kinds.data_type() == DataType::Utf8View);
    let is_empty = |name: &&Option<String>| name.as_deref().is_none_or(|name| name.trim().is_empty());
    let empty = first.iter().filter(is_empty).count();
    let is_named = first.iter().flatten().filter(|name| is_plain_text(name, forms)).count() > empty;
    if has_name_above_values(first, kinds, forms) || is_header(first, forms) {
        return true;
    }
    if is_text && is_named {
        let below = below();
        return below.rows > 0 && !below.resembles;
    }
    is_index_header(first, kinds, forms, below)
}

/// Whether a record is a header beyond doubt, so that lines above it may be skipped: it has a name above values of
/// another type, or several names above records without their values.
pub(super) fn is_certain_header(
    first: &[Option<String>],
    kinds: &[Kinds],
    forms: &TextForms,
    below: impl Fn() -> Below,
) -> bool {
    const NAMES_MIN: usize = 3;
    if first.len() < NAMES_MIN || !is_header(first, forms) {
        return has_name_above_values(first, kinds, forms);
    }
    let below = below();
    below.rows > 0 && !below.resembles
}

/// Whether there is a text above numbers, times or booleans.
pub(super) fn has_name_above_values(first: &[Option<String>], kinds: &[Kinds], forms: &TextForms) -> bool {
    let differs = |(name, kinds): (&Option<String>, &Kinds)| match name.as_deref().map(str::trim) {
        Some(name) if !name.is_empty() && kinds.is_seen() => {
            kinds.data_type() != DataType::Utf8View && is_plain_text(name, forms)
        }
        _ => false,
    };
    first.iter().zip(kinds).any(differs)
}

/// The first records below the first one, compared with it.
#[derive(Debug, Default)]
pub(super) struct Below {
    rows: usize,
    /// Whether the first record looks like them: a column has its value again, or numbers below its number.
    resembles: bool,
    /// Whether the first value is 0.
    begins_at_zero: bool,
}

impl Below {
    const ROWS_MAX: usize = 1000;

    /// Compares the first record with those from a position on.
    pub fn compare(
        first: &[Option<String>],
        text: &str,
        position: usize,
        dialect: &Dialect,
        forms: &TextForms,
    ) -> Below {
        let is_value = |text: &str| !is_plain_text(text, forms);
        let mut tokenizer = Tokenizer::new(text, position, dialect);
        let (mut fields, mut below) = (Fields::default(), Below::default());
        let numbers: Vec<bool> = first.iter().map(|name| name.as_deref().is_some_and(is_value)).collect();
        while below.rows < Self::ROWS_MAX {
            fields.clear();
            if !matches!(tokenizer.record(Some(first.len()), &mut fields), Ok(RecordEnd::Record { .. })) {
                break;
            }
            let cells = Cells { text, fields: &fields, column: 0, columns: 1, rows: first.len() };
            for (column, value) in cells.iter().enumerate() {
                let Some(value) = value.filter(|value| !value.trim().is_empty()) else { continue };
                below.begins_at_zero |= below.rows == 0 && column == 0 && value == "0";
                below.resembles |= first[column].as_deref() == Some(value) || numbers[column] && is_value(value);
            }
            below.rows += 1;
        }
        below
    }
}

/// Whether a record has names for all columns but the first one, which has whole numbers: data frames are written with
/// their row numbers like this. Names that are numbers, such as years, are distinct, and the row numbers begin at 0.
fn is_index_header(first: &[Option<String>], kinds: &[Kinds], forms: &TextForms, below: impl Fn() -> Below) -> bool {
    let (Some((None, names)), Some(index)) = (first.split_first(), kinds.first()) else { return false };
    let are_named = !names.is_empty() && names.iter().all(Option::is_some);
    let is_index = index.is_seen() && index.data_type() == DataType::Int64;
    is_index
        && are_named
        && are_distinct(names.iter().flatten().map(String::as_str))
        && (is_header(names, forms) || below().begins_at_zero)
}

/// As [`is_header`], for a known table. If the record and the table have only text, it is data unless it contains a
/// column's name. A record that contains only names of columns is a header in any case.
pub(super) fn is_header_for(first: &[Option<String>], schema: &Schema, forms: &TextForms) -> bool {
    let named = first.iter().flatten().any(|name| column_index(schema, name).is_some());
    let all_named = named && first.iter().flatten().all(|name| column_index(schema, name).is_some());
    if all_named && schema.fields().iter().any(|field| !field.data_type().is_string()) {
        return true;
    }
    let typed = schema.fields().iter().any(|field| field.data_type() != &DataType::Utf8View);
    is_header(first, forms) && (named || typed)
}
