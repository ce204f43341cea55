//! Arrays as values of parameters: one-dimensional lists in the text and binary formats of PostgreSQL.

use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;

use super::numeric::DIGITS_MAX;
use super::parameters;
use super::types::{self, Type};

/// Parses the text format, such as `{1,2,NULL,"with, comma"}`.
///
/// # Errors
///
/// A text with the reason.
pub fn text(bytes: &[u8], element: Type) -> Result<ScalarValue, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?.trim();
    let inner = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or("write it as {a,b}")?;
    let mut values = vec![];
    let mut rest = inner.trim();
    while !rest.is_empty() {
        let (item, is_quoted, after) = item(rest)?;
        let is_null = !is_quoted && item.eq_ignore_ascii_case("null");
        values.push(if is_null { None } else { Some(parameters::text(item.as_bytes(), element)?) });
        rest = match after.strip_prefix(',') {
            Some(rest) if rest.trim().is_empty() => return Err("a value is missing behind the last comma".into()),
            Some(rest) => rest.trim_start(),
            None if after.is_empty() => "",
            None => return Err("a comma is missing between two values".into()),
        };
    }
    list(values, element)
}

/// The first item of a list, whether it was quoted, and the rest of the text.
fn item(text: &str) -> Result<(String, bool, &str), String> {
    let (is_quoted, body) = match text.strip_prefix('"') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let (mut item, mut chars) = (String::new(), body.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => item.push(chars.next().ok_or("it ends with a backslash")?.1),
            '"' if is_quoted => return Ok((item, true, body[at + 1..].trim_start())),
            ',' if !is_quoted => return Ok((item.trim_end().to_owned(), false, &body[at..])),
            '{' | '}' | '"' if !is_quoted => return Err("arrays have one dimension here".into()),
            c => item.push(c),
        }
    }
    if is_quoted { Err("a quote is not closed".into()) } else { Ok((item.trim_end().to_owned(), false, "")) }
}

/// ```text
/// dimensions i32, has NULLs i32, type of elements i32; for each dimension its length i32 and first index i32
/// each element: length i32 (-1 = NULL), bytes
/// ```
pub fn binary(bytes: &[u8], element: Type) -> Result<ScalarValue, String> {
    let mut rest = bytes;
    let dimensions = number(&mut rest)?;
    let (_, oid) = (number(&mut rest)?, number(&mut rest)?);
    let element = Type::by_oid(oid as u32).unwrap_or(element);
    let length = match dimensions {
        0 => 0,
        1 => (number(&mut rest)?, number(&mut rest)?).0,
        _ => return Err("arrays have one dimension here".into()),
    };
    let mut values = vec![];
    // Each element has at least four bytes, so a wrong length soon reaches the end.
    for _ in 0..length {
        values.push(match number(&mut rest)? {
            -1 => None,
            bytes => {
                let bytes = usize::try_from(bytes).map_err(|_| "an element has no length")?;
                let (value, after) = rest.split_at_checked(bytes).ok_or("it ends early")?;
                rest = after;
                Some(parameters::binary(value, element)?)
            }
        });
    }
    if rest.is_empty() { list(values, element) } else { Err("it is longer than its elements".into()) }
}

fn number(rest: &mut &[u8]) -> Result<i32, String> {
    let (number, after) = rest.split_first_chunk::<4>().ok_or("it ends early")?;
    *rest = after;
    Ok(i32::from_be_bytes(*number))
}

fn list(values: Vec<Option<ScalarValue>>, element: Type) -> Result<ScalarValue, String> {
    let to = types::parameter_type(element.oid).ok_or_else(|| format!("there are no arrays of {}", element.sql))?;
    let to = if element == types::NUMERIC { common_decimal(&values)?.unwrap_or(to) } else { to };
    let value = |value: Option<ScalarValue>| match value {
        Some(value) => value.cast_to(&to),
        None => ScalarValue::try_new_null(&to),
    };
    let values = values.into_iter().map(value).collect::<Result<Vec<_>, _>>();
    let values = values.map_err(|error| error.strip_backtrace())?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &to)))
}

/// The decimal type that holds all values exactly; nothing where there is no value.
///
/// # Errors
///
/// The values need more digits than a decimal has.
fn common_decimal(values: &[Option<ScalarValue>]) -> Result<Option<DataType>, String> {
    let (mut whole, mut scale) = (0, 0);
    let mut any = false;
    for value in values.iter().flatten() {
        let DataType::Decimal128(own_precision, own_scale) = value.data_type() else { continue };
        whole = whole.max(own_precision.saturating_sub(own_scale.unsigned_abs()));
        scale = scale.max(own_scale);
        any = true;
    }
    let precision = (whole + scale.unsigned_abs()).max(1);
    match any {
        false => Ok(None),
        true if usize::from(precision) <= DIGITS_MAX => Ok(Some(DataType::Decimal128(precision, scale))),
        true => Err(format!("its values together need more than {DIGITS_MAX} digits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_both_forms() {
        let check = |bytes: &[u8], is_binary: bool, element: Type, expected: &str| {
            let value = if is_binary { binary(bytes, element) } else { text(bytes, element) };
            assert_eq!(value.map(|value| value.to_string()), Ok(expected.to_owned()), "{bytes:?}");
        };
        check(b"{1,2, NULL}", false, types::INT4, "[1, 2, ]");
        check(b"{}", false, types::INT4, "[]");
        check(b"{1.50,0.00001,NULL,1e3}", false, types::NUMERIC, "[1.50000, 0.00001, , 1000.00000]");
        check(b" {a b,\"c,\\\"d\",\"NULL\"} ", false, types::TEXT, "[a b, c,\"d, NULL]");
        let head = [1, 0, 23].map(i32::to_be_bytes).concat();
        let list = [&head[..], &[2, 1, 4, 7, -1].map(i32::to_be_bytes).concat()].concat();
        check(&list, true, types::INT8, "[7, ]");
        check(&[0, 0, 23].map(i32::to_be_bytes).concat(), true, types::INT4, "[]");
        for end in 0..list.len() {
            assert!(binary(&list[..end], types::INT4).is_err(), "{end}");
        }
        let endless = [&head[..], &[i32::MAX, 1].map(i32::to_be_bytes).concat()].concat();
        assert!(binary(&endless, types::INT4).is_err());
        for wrong in ["", "1", "{1", "{1,}", "{{1},{2}}", "{\"a}", "{\"a\"b}", "{a\\}"] {
            assert!(text(wrong.as_bytes(), types::TEXT).is_err(), "{wrong}");
        }
    }
}
