//! Values as text, in the same form everywhere: dates and timestamps in ISO 8601, decimals with all digits, bytes in
//! hexadecimal, intervals as in DuckDB. Every value has a text, even outside of the range of calendar libraries.

mod calendar;
mod json;
mod json_parts;
mod literals;
mod nested;

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, IntervalMonthDayNanoType};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::times::interval_of;
use crate::uuids::uuid_text;
use nested::NestedTexts;

pub use json::{JsonValues, NonFinite, json_key};

pub use crate::json_text::append_json_string;
pub(crate) use json_parts::{json_part, part_of_json, part_type};
pub(crate) use literals::condition;
pub(crate) use nested::has_parts;

/// The values of one array, prepared for writing.
pub struct ValueTexts<'a> {
    array: &'a dyn Array,
    formatter: ArrayFormatter<'a>,
    nested: Option<Box<NestedTexts<'a>>>,
}

impl<'a> ValueTexts<'a> {
    /// # Errors
    /// A type that cannot be written.
    pub fn new(array: &'a dyn Array) -> Result<Self, ArrowError> {
        // For NULLs within a list or struct. Other NULLs have no text.
        let options = FormatOptions::new().with_null("NULL");
        let nested = match has_parts(array.data_type()) {
            true => Some(Box::new(NestedTexts::new(array)?)),
            false => None,
        };
        Ok(Self { array, formatter: ArrayFormatter::try_new(array, &options)?, nested })
    }

    /// The array whose values are printed.
    pub fn array(&self) -> &'a dyn Array {
        self.array
    }

    /// Logical nulls: a dictionary's null value counts.
    pub fn is_null(&self, row: usize) -> bool {
        match self.array.data_type() {
            DataType::Null => true,
            DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) | DataType::Union(_, _) => {
                self.array.logical_nulls().is_some_and(|nulls| nulls.is_null(row))
            }
            _ => self.array.is_null(row),
        }
    }

    /// Appends the value's text; nothing for NULL.
    pub fn append(&self, row: usize, text: &mut String) {
        let start = text.len();
        if self.array.is_null(row) {
            return;
        }
        if let Some(nested) = &self.nested {
            return nested.append(row, text);
        }
        if let (DataType::FixedSizeBinary(16), Some(bytes)) =
            (self.array.data_type(), self.array.as_fixed_size_binary_opt())
        {
            return text.push_str(&uuid_text(bytes.value(row)));
        }
        if let Some(spans) = self.array.as_primitive_opt::<IntervalMonthDayNanoType>() {
            text.push_str(&interval_of(spans.value(row)).text());
            return;
        }
        if !calendar::is_own(self.array, row) && self.formatter.value(row).write(text).is_ok() {
            return;
        }
        // The value is not one that Arrow's calendar writes, or not as we do.
        text.truncate(start);
        if !calendar::append(self.array, row, text) {
            let _ = write!(text, "{}", self.formatter.value(row));
        }
    }
}

/// The texts of all values of an array.
pub(crate) fn texts_of(array: &ArrayRef) -> Result<StringViewArray, ArrowError> {
    let values = ValueTexts::new(array.as_ref())?;
    let text = |row: usize| {
        let mut text = String::new();
        values.append(row, &mut text);
        text
    };
    Ok((0..array.len()).map(|row| (!values.is_null(row)).then(|| text(row))).collect())
}

/// The type of the values, without dictionaries and other wrappers.
pub fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        other => other,
    }
}
