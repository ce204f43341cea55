//! Arrays as values of parameters, in the text and binary formats of PostgreSQL.

use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use freestone::ingest::{ArrayItem, array_items};
use freestone::{DateOrder, Zone};

use super::numeric::DIGITS_MAX;
use super::parameters;
use super::types::{self, Type};

/// The maximum number of dimensions, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Parses the text format, such as `{1,2,NULL,"with, comma"}`. `zone` is that of times without one.
///
/// # Errors
///
/// A text with the reason.
pub fn text(bytes: &[u8], element: Type, zone: &Zone, order: Option<DateOrder>) -> Result<ScalarValue, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let read = |text: &str| parameters::text(text.as_bytes(), element, zone, order);
    dimension(text, element, &read, DIMENSIONS_MAX)
}

/// An array of at most this number of dimensions, whose items are read by `read`.
fn dimension(
    text: &str,
    element: Type,
    read: &dyn Fn(&str) -> Result<ScalarValue, String>,
    dimensions: usize,
) -> Result<ScalarValue, String> {
    let value = |item: ArrayItem| match item {
        ArrayItem::Null => Ok(None),
        ArrayItem::Value(text) => read(&text).map(Some),
        ArrayItem::Array(text) if dimensions > 1 => dimension(&text, element, read, dimensions - 1).map(Some),
        ArrayItem::Array(_) => Err(format!("it has more than {DIMENSIONS_MAX} dimensions")),
    };
    let items = array_items(text).ok_or("write it as {a,b}")?;
    let has = |is: fn(&ArrayItem) -> bool| items.iter().any(is);
    if has(|item| matches!(item, ArrayItem::Array(_))) && has(|item| matches!(item, ArrayItem::Value(_))) {
        return Err("values and arrays are in one dimension".into());
    }
    list(items.into_iter().map(value).collect::<Result<_, _>>()?, element)
}

/// ```text
/// dimensions i32, has NULLs i32, type of elements i32; for each dimension its length i32 and first index i32
/// each element: length i32 (-1 = NULL), bytes
/// ```
pub fn binary(bytes: &[u8], element: Type) -> Result<ScalarValue, String> {
    let mut rest = bytes;
    let dimensions = usize::try_from(number(&mut rest)?).map_err(|_| "its number of dimensions is negative")?;
    let (_, oid) = (number(&mut rest)?, number(&mut rest)?);
    let element = Type::by_oid(oid as u32).unwrap_or(element);
    if dimensions > DIMENSIONS_MAX {
        return Err(format!("it has more than {DIMENSIONS_MAX} dimensions"));
    }
    let mut lengths = vec![];
    for _ in 0..dimensions {
        let length = (number(&mut rest)?, number(&mut rest)?).0;
        lengths.push(usize::try_from(length).map_err(|_| "the length of a dimension is negative")?);
    }
    let count = lengths.iter().try_fold(1usize, |count, length| count.checked_mul(*length)).ok_or("it is too long")?;
    let mut values = vec![];
    // Each element has at least four bytes, so a wrong length soon reaches the end.
    for _ in 0..if dimensions == 0 { 0 } else { count } {
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
    if !rest.is_empty() {
        return Err("it is longer than its elements".into());
    }
    // The elements of the last dimension are together.
    for length in lengths.into_iter().skip(1).rev().filter(|length| *length > 0) {
        let lists = values.chunks(length).map(|part| list(part.to_vec(), element).map(Some));
        values = lists.collect::<Result<_, _>>()?;
    }
    list(values, element)
}

fn number(rest: &mut &[u8]) -> Result<i32, String> {
    let (number, after) = rest.split_first_chunk::<4>().ok_or("it ends early")?;
    *rest = after;
    Ok(i32::from_be_bytes(*number))
}

fn list(values: Vec<Option<ScalarValue>>, element: Type) -> Result<ScalarValue, String> {
    let to = types::item_type(element).ok_or_else(|| format!("there are no arrays of {}", element.sql))?;
    let to = if element == types::NUMERIC { common_decimal(&values)?.unwrap_or(to) } else { to };
    let inner = values.iter().flatten().map(ScalarValue::data_type).find(|inner| matches!(inner, DataType::List(_)));
    let to = inner.unwrap_or(to);
    let value = |value: Option<ScalarValue>| match value {
        Some(ScalarValue::Utf8View(Some(text))) if element == types::UUID => parameters::uuid(&text),
        Some(value) => value.cast_to(&to).map_err(|error| error.strip_backtrace()),
        None => ScalarValue::try_new_null(&to).map_err(|error| error.strip_backtrace()),
    };
    let values = values.into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
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
            let value = if is_binary { binary(bytes, element) } else { text(bytes, element, &Zone::Fixed(0), None) };
            assert_eq!(value.map(|value| value.to_string()), Ok(expected.to_owned()), "{bytes:?}");
        };
        check(b"{1,2, NULL}", false, types::INT4, "[1, 2, ]");
        check(b"{}", false, types::INT4, "[]");
        let uuid = "{00000000-0000-0000-0000-0000000000ff,NULL,A0EEBC99-9c0b4ef8-bb6d6bb9-bd380a11}";
        check(
            uuid.as_bytes(),
            false,
            types::UUID,
            "[000000000000000000000000000000ff, , a0eebc999c0b4ef8bb6d6bb9bd380a11]",
        );
        assert!(text(b"{00000000-0000-0000-0000-0000000000f}", types::UUID, &Zone::Fixed(0), None).is_err());
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
        check(b"{{1,2},{3,NULL}}", false, types::INT4, "[[1, 2], [3, ]]");
        check(b"[0:1]={7,8}", false, types::INT4, "[7, 8]");
        let square =
            [&[2, 0, 23].map(i32::to_be_bytes).concat()[..], &[2, 1, 1, 1, 4, 7, 4, 8].map(i32::to_be_bytes).concat()];
        check(&square.concat(), true, types::INT4, "[[7], [8]]");
        for wrong in ["", "1", "{1", "{1,}", "{{1},2}", "{\"a}", "{\"a\"b}", "{a\\}", "{{{{{{{1}}}}}}}"] {
            assert!(text(wrong.as_bytes(), types::TEXT, &Zone::Fixed(0), None).is_err(), "{wrong}");
        }
    }
}
