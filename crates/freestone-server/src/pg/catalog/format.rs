//! `format` as PostgreSQL has it: `%s`, `%I`, `%L` and `%%`, with places (`%2$s`) and widths (`%-10s`, `%*s`).

use std::hash::{Hash, Hasher};
use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use freestone::{Error, ErrorKind};

use super::data::ident;
use crate::pg::types::ColumnType;
use crate::pg::values::{Column, Form};

pub fn function() -> Arc<ScalarUDF> {
    let signature = TypeSignature::OneOf(vec![TypeSignature::VariadicAny]);
    Arc::new(ScalarUDF::from(Format { signature: Signature::new(signature, Volatility::Stable) }))
}

#[derive(Debug)]
struct Format {
    signature: Signature,
}

// There is one.
impl PartialEq for Format {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl ScalarUDFImpl for Format {
    fn name(&self) -> &str {
        "format"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let columns = call.args.iter().map(|argument| {
            let array = argument.to_array(call.number_rows)?;
            let column = Column::new(&array, ColumnType::of(array.data_type()), Form::default());
            column.map_err(|error| DataFusionError::External(Box::new(error)))
        });
        let columns = columns.collect::<Result<Vec<_>, DataFusionError>>()?;
        let mut out = StringViewBuilder::with_capacity(call.number_rows);
        for row in 0..call.number_rows {
            let mut values = columns.iter().map(|column| text(column, row));
            match values.next().flatten() {
                Some(pattern) => out.append_value(formatted(&pattern, &values.collect::<Vec<_>>())?),
                None => out.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }
}

fn text(column: &Column, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    let mut out = vec![];
    column.write(row, &mut out);
    Some(String::from_utf8_lossy(&out).into_owned())
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// The values in their places of a pattern.
fn formatted(pattern: &str, values: &[Option<String>]) -> Result<String, Error> {
    let (mut out, mut next) = (String::new(), 0);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let place = Place::read(&mut chars, values, &mut next)?;
        let value = argument(values, place.value, &mut next)?;
        let text = match (place.kind, value) {
            ('s', value) => value.unwrap_or_default().to_owned(),
            ('I', Some(value)) => ident(value),
            ('I', None) => return Err(wrong("format: NULL is no name of SQL")),
            ('L', value) => value.map_or_else(|| "NULL".to_owned(), literal),
            (other, _) => {
                return Err(wrong(format!("format has no %{other}")).with_hint("write %s, %I or %L, and %% for a %"));
            }
        };
        let missing = place.width.unsigned_abs() as usize;
        let spaces = " ".repeat(missing.saturating_sub(text.chars().count()));
        match place.width < 0 {
            true => out.extend([text, spaces]),
            false => out.extend([spaces, text]),
        }
    }
    Ok(out)
}

/// `%2$-10s`: the place of the value, if it is written, the width, which is negative for text at the left, and the kind.
struct Place {
    value: Option<usize>,
    width: i32,
    kind: char,
}

impl Place {
    fn read(chars: &mut Peekable<Chars>, values: &[Option<String>], next: &mut usize) -> Result<Place, Error> {
        let unfinished = || wrong("format: a % at the end").with_hint("write %% for a %");
        let mut first = number(chars)?;
        let mut value = None;
        if first.is_some() && chars.next_if_eq(&'$').is_some() {
            value = first.take();
        }
        let left = first.is_none() && chars.next_if_eq(&'-').is_some();
        let width = match first {
            Some(width) => i32::try_from(width).map_err(|_| wide())?,
            None if chars.next_if_eq(&'*').is_some() => {
                let of = number(chars)?;
                if of.is_some() && chars.next_if_eq(&'$').is_none() {
                    return Err(wrong("format: the place of a width ends with $"));
                }
                let width = argument(values, of, next)?.unwrap_or("0");
                width.parse().map_err(|_| wrong(format!("format: {width} is no width")))?
            }
            None => number(chars)?.map_or(Ok(0), |width| i32::try_from(width).map_err(|_| wide()))?,
        };
        if width.unsigned_abs() > WIDTH_MAX {
            return Err(wide());
        }
        let width = if left { -width.abs() } else { width };
        Ok(Place { value, width, kind: chars.next().ok_or_else(unfinished)? })
    }
}

const WIDTH_MAX: u32 = 1 << 20;

fn wide() -> Error {
    wrong(format!("format: a width is above {WIDTH_MAX}"))
}

fn number(chars: &mut Peekable<Chars>) -> Result<Option<usize>, Error> {
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    match digits.is_empty() {
        true => Ok(None),
        false => digits.parse().map(Some).map_err(|_| wrong(format!("format: {digits} is too large"))),
    }
}

/// The value at a place, counted from 1, or the next one.
fn argument<'a>(values: &'a [Option<String>], at: Option<usize>, next: &mut usize) -> Result<Option<&'a str>, Error> {
    let at = match at {
        Some(0) => return Err(wrong("format: places are counted from 1")),
        Some(at) => at - 1,
        None => *next,
    };
    *next = at + 1;
    let value = values.get(at).ok_or_else(|| wrong("format: there are fewer values than places"))?;
    Ok(value.as_deref())
}

/// A text as SQL reads it.
pub fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_put_in_their_places() {
        let check = |pattern: &str, values: &[Option<&str>], expected: &str| {
            let values: Vec<Option<String>> = values.iter().map(|value| value.map(str::to_owned)).collect();
            assert_eq!(formatted(pattern, &values).expect(pattern), expected, "{pattern}");
        };
        // As PostgreSQL 15 answers.
        check("%s and %%", &[Some("a")], "a and %");
        check("%I %L %L", &[Some("A b"), Some("it's"), None], "\"A b\" 'it''s' NULL");
        check("%2$s %1$s %s", &[Some("a"), Some("b")], "b a b");
        check("|%5s|%-5s|%*s|", &[Some("a"), Some("b"), Some("-3"), Some("c")], "|    a|b    |c  |");
        check("|%2$*1$s|", &[Some("3"), Some("c")], "|  c|");
        check("%s", &[None], "");
        check("%L", &[Some("a\\b")], "E'a\\\\b'");
        for wrong in ["%s %s", "%", "%x", "%0$s", "%I", "%99999999999999999999s", "%9999999s"] {
            assert!(formatted(wrong, &[None]).is_err(), "{wrong}");
        }
    }
}
