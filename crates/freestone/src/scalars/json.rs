//! Functions of JSON texts: values by path, their types, keys and lengths, and JSON from other values. `a -> 'path'` is
//! `json_extract`, and `a ->> 'path'` is `json_extract_string`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;

use super::function::Scalar;
use super::json_path::{Step, found, is_many, path};
use super::kinds::Kind::{self, Any, Int, List, Rest, Text};
use super::kinds::{BOOL, INT, TEXT, list_of};
use super::rows::{Parts, any_null, bool_of_pairs, invalid, lists, texts};
use crate::display::{JsonValues, NonFinite, ValueTexts, json_part, part_of_json, part_type, texts_of};
use crate::json_text::{Node, append_json_string, known, parse, unescaped};
use crate::sql::function_macros::{AS_JSON, AS_JSON_OR_NULL, JSON_PART};
use crate::sql::text_types::CHECK_JSON;
use crate::times::{Call, exact_cast};

/// A JSON text and its paths: one path, several, or the position of an item.
const PATHS: &[&[Kind]] = &[&[Text, Text], &[Text, Int], &[Text, List]];
const OPTIONAL_PATH: &[&[Kind]] = &[&[Text], &[Text, Text]];

pub(super) fn all() -> Vec<Scalar> {
    vec![
        extract(),
        extract_string(),
        Scalar::new(&[AS_JSON], &[&[Any]], TEXT, |call| as_json(call, true)),
        Scalar::new(&[AS_JSON_OR_NULL], &[&[Any]], TEXT, |call| as_json(call, false)),
        Scalar::new(&[JSON_PART], &[&[Any]], part_type(), as_part),
        Scalar::new(&["json"], &[&[Text]], TEXT, |call| {
            let values = texts(call, 0)?;
            let rows = values.iter().map(|text| text.map(|text| Ok(known(text)?.text())).transpose());
            Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
        }),
        Scalar::new(&["json_valid", CHECK_JSON], &[&[Text]], BOOL, |call| {
            let values = texts(call, 0)?;
            let rows = values.iter().map(|text| text.map(|text| Ok(parse(text)?.is_some())).transpose());
            Ok(Arc::new(rows.collect::<Result<BooleanArray>>()?))
        }),
        Scalar::new(&["json_exists"], &[&[Text, Text]], BOOL, |call| {
            bool_of_pairs(call, |text, at| Ok(!found(&known(text)?, &path(at)?)?.is_empty()))
        }),
        Scalar::new(&["json_contains"], &[&[Text, Text]], BOOL, |call| {
            bool_of_pairs(call, |all, part| Ok(known(all)?.contains(&known(part)?)?))
        }),
        Scalar::new(&["json_value"], &[&[Text, Text]], TEXT, |call| {
            of_texts(call, |node| match node {
                Node::Array(_) | Node::Object(_) => None,
                scalar => Some(scalar.text()),
            })
        }),
        Scalar::new(&["json_type"], OPTIONAL_PATH, TEXT, |call| of_texts(call, |node| Some(node.kind().to_owned()))),
        Scalar::new(&["json_array_length"], OPTIONAL_PATH, INT, array_length),
        Scalar::new(&["json_keys"], OPTIONAL_PATH, list_of(TEXT), keys),
        Scalar::new(&["to_json", "json_quote", "array_to_json", "row_to_json"], &[&[Any]], TEXT, to_json),
        Scalar::new(&["json_array", "json_build_array"], &[&[Rest]], TEXT, json_array),
        Scalar::new(&["freestone_json_of_entries"], &[&[List]], TEXT, json_of_list),
        Scalar::new(&["json_object", "json_build_object"], &[&[Rest]], TEXT, json_object),
    ]
}

/// Whether the results of a function are JSON, and no other texts.
pub(crate) fn makes_json(function: &str) -> bool {
    const MAKING: [&str; 19] = [
        AS_JSON,
        AS_JSON_OR_NULL,
        "json",
        "json_extract",
        "to_json",
        "json_array",
        "json_object",
        "freestone_json_of_entries",
        "json_set",
        "json_insert",
        "json_replace",
        "json_remove",
        "json_merge_patch",
        "json_deep_merge",
        "json_merge_patch_diff",
        "json_strip_nulls",
        "json_structure",
        "freestone_json_at",
        "freestone_json_object",
    ];
    MAKING.contains(&function)
}

/// `json_extract(json, path)`.
pub(super) fn extract() -> Scalar {
    Scalar::typed(&["json_extract"], PATHS, extracted, |call| at_paths(call, |node| Some(node.text())))
}

/// `json_extract_string(json, path)`: strings without quotes, and NULL for `null`.
pub(super) fn extract_string() -> Scalar {
    Scalar::typed(&["json_extract_string"], PATHS, extracted, |call| at_paths(call, |node| node.plain()))
}

/// The type of the result: text, or a list if there are several paths or a path can match several values.
fn extracted(types: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<DataType> {
    let text = constants.get(1).copied().flatten().and_then(|path| path.try_as_str().flatten());
    let is_list = match text {
        Some(text) => is_many(&path(text)?),
        None => matches!(types.get(1), Some(DataType::List(_))),
    };
    Ok(if is_list { list_of(TEXT) } else { TEXT })
}

/// The last parsed paths, because paths are mostly the same in all rows.
#[derive(Default)]
pub(super) struct Paths {
    known: Vec<(String, Vec<Step>)>,
}

impl Paths {
    pub fn steps(&mut self, text: &str) -> Result<&[Step]> {
        let at = match self.known.iter().position(|(known, _)| known == text) {
            Some(at) => at,
            None => {
                self.known.truncate(15);
                self.known.insert(0, (text.to_owned(), path(text)?));
                0
            }
        };
        Ok(&self.known[at].1)
    }
}

fn at_paths(call: &Call, value: fn(&Node) -> Option<String>) -> Result<ArrayRef> {
    let (values, at) = (texts(call, 0)?, call.array(1)?);
    match (at.data_type(), &call.to) {
        (DataType::Int64, _) => {
            let places = at.as_primitive::<Int64Type>();
            let row = |(row, text): (usize, Option<&str>)| -> Result<Option<String>> {
                let Some(text) = text.filter(|_| places.is_valid(row)) else { return Ok(None) };
                Ok(found(&known(text)?, &[Step::Item(places.value(row))])?.first().and_then(|node| value(node)))
            };
            Ok(Arc::new(values.iter().enumerate().map(row).collect::<Result<StringViewArray>>()?))
        }
        (DataType::List(_), _) => at_several(&values, &at, value),
        (_, DataType::List(_)) => at_many(&values, &texts(call, 1)?, value),
        _ => {
            let at = texts(call, 1)?;
            let mut paths = Paths::default();
            let mut row = |(text, at): (Option<&str>, Option<&str>)| -> Result<Option<String>> {
                let (Some(text), Some(at)) = (text, at) else { return Ok(None) };
                Ok(found(&known(text)?, paths.steps(at)?)?.first().and_then(|node| value(node)))
            };
            Ok(Arc::new(values.iter().zip(at.iter()).map(&mut row).collect::<Result<StringViewArray>>()?))
        }
    }
}

/// The values of several paths.
fn at_several(values: &StringViewArray, at: &ArrayRef, value: fn(&Node) -> Option<String>) -> Result<ArrayRef> {
    let at = at.as_list::<i32>();
    let all = exact_cast(at.values(), &TEXT)?;
    let all = all.as_string_view();
    let mut paths = Paths::default();
    let mut lists = Parts::new("json_extract");
    for (row, text) in values.iter().enumerate() {
        let Some(text) = text.filter(|_| at.is_valid(row)) else {
            lists.append_null();
            continue;
        };
        let node = known(text)?;
        for place in at.value_offsets()[row] as usize..at.value_offsets()[row + 1] as usize {
            let found = match all.is_valid(place) {
                true => found(&node, paths.steps(all.value(place))?)?.first().and_then(|node| value(node)),
                false => None,
            };
            lists.add(found.as_deref())?;
        }
        lists.end();
    }
    Ok(lists.finish())
}

/// All values that a path matches.
fn at_many(values: &StringViewArray, at: &StringViewArray, value: fn(&Node) -> Option<String>) -> Result<ArrayRef> {
    let mut paths = Paths::default();
    let mut lists = Parts::new("json_extract");
    for (row, text) in values.iter().enumerate() {
        match text.filter(|_| at.is_valid(row)) {
            None => lists.append_null(),
            Some(text) => {
                let node = known(text)?;
                for node in found(&node, paths.steps(at.value(row))?)? {
                    lists.add(value(node).as_deref())?;
                }
                lists.end();
            }
        }
    }
    Ok(lists.finish())
}

fn as_json(call: &Call, strict: bool) -> Result<ArrayRef> {
    let values = call.array(0)?;
    if !crate::times::is_text(values.data_type()) {
        return to_json(call);
    }
    let values = texts(call, 0)?;
    let row = |text: Option<&str>| -> Result<Option<String>> {
        match text {
            Some(text) if parse(text)?.is_some() => Ok(Some(text.to_owned())),
            Some(text) if strict => Ok(known(text).map(|_| None)?),
            _ => Ok(None),
        }
    };
    Ok(Arc::new(values.iter().map(row).collect::<Result<StringViewArray>>()?))
}

/// JSON as [`JsonValues`] nests it.
fn as_part(call: &Call) -> Result<ArrayRef> {
    let values = texts(call, 0)?;
    let rows = values.iter().map(|text| text.map(|text| Ok(known(text)?.text())).transpose());
    Ok(json_part(rows.collect::<Result<StringViewArray>>()?))
}

/// The parsed path of each row from the optional second argument.
fn optional_paths(call: &Call) -> Result<Option<StringViewArray>> {
    if call.count() > 1 { texts(call, 1).map(Some) } else { Ok(None) }
}

/// `value` of each row's JSON at its path.
fn at_path<T>(call: &Call, value: impl Fn(&Node) -> Option<T>) -> Result<Vec<Option<T>>> {
    let (values, at) = (texts(call, 0)?, optional_paths(call)?);
    let mut paths = Paths::default();
    let mut row = |(row, text): (usize, Option<&str>)| -> Result<Option<T>> {
        let Some(text) = text else { return Ok(None) };
        let steps = match &at {
            Some(at) if at.is_null(row) => return Ok(None),
            Some(at) => paths.steps(at.value(row))?,
            None => &[],
        };
        Ok(found(&known(text)?, steps)?.first().and_then(|node| value(node)))
    };
    values.iter().enumerate().map(&mut row).collect()
}

fn of_texts(call: &Call, value: impl Fn(&Node) -> Option<String>) -> Result<ArrayRef> {
    Ok(Arc::new(at_path(call, value)?.into_iter().collect::<StringViewArray>()))
}

/// The number of items; 0 for values that are not arrays.
fn array_length(call: &Call) -> Result<ArrayRef> {
    let length = |node: &Node| match node {
        Node::Array(items) => Some(items.len() as i64),
        _ => Some(0),
    };
    Ok(Arc::new(at_path(call, length)?.into_iter().collect::<Int64Array>()))
}

fn keys(call: &Call) -> Result<ArrayRef> {
    let keys = |node: &Node| match node {
        Node::Object(entries) => Some(entries.iter().map(|(key, _)| unescaped(key)).collect()),
        _ => Some(vec![]),
    };
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in at_path::<Vec<String>>(call, keys)? {
        match row {
            Some(keys) => lists.append_value(keys.into_iter().map(Some)),
            None => lists.append_null(),
        }
    }
    Ok(Arc::new(lists.finish()))
}

/// A value as JSON; NULL for NULL.
fn to_json(call: &Call) -> Result<ArrayRef> {
    Ok(Arc::new(json_texts(&call.array(0)?)?))
}

/// Values as JSON; NULL for NULL.
pub(super) fn json_texts(values: &ArrayRef) -> Result<StringViewArray> {
    let json = JsonValues::new(values.as_ref(), NonFinite::Null)?;
    let is_null = ValueTexts::new(values.as_ref())?;
    let text = |row: usize| {
        let mut text = String::new();
        json.append(row, &mut text);
        text
    };
    let rows = (0..values.len()).map(|row| (!is_null.is_null(row)).then(|| text(row)));
    Ok(rows.collect())
}

pub(super) fn json_array(call: &Call) -> Result<ArrayRef> {
    let arrays = (0..call.count()).map(|at| call.array(at)).collect::<Result<Vec<_>>>()?;
    let columns = arrays.iter().map(|array| JsonValues::new(array.as_ref(), NonFinite::Null));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let row = |row: usize| {
        let mut text = String::from("[");
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            column.append(row, &mut text);
        }
        text.push(']');
        text
    };
    Ok(Arc::new(StringViewArray::from_iter_values((0..call.rows()).map(row))))
}

/// `json_object(key, value, …)`.
pub(super) fn json_object(call: &Call) -> Result<ArrayRef> {
    if !call.count().is_multiple_of(2) {
        return invalid("json_object takes keys and values in turn");
    }
    let arrays = (0..call.count()).map(|at| call.array(at)).collect::<Result<Vec<_>>>()?;
    let keys = arrays.iter().step_by(2).map(texts_of).collect::<Result<Vec<_>, _>>()?;
    let values = arrays.iter().skip(1).step_by(2).map(|array| JsonValues::new(array.as_ref(), NonFinite::Null));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let row = |row: usize| -> Result<String> {
        let mut text = String::from("{");
        for (at, (key, value)) in keys.iter().zip(&values).enumerate() {
            if any_null(&[key], row) {
                return invalid("a key of json_object is NULL");
            }
            if at > 0 {
                text.push(',');
            }
            append_json_string(key.value(row), &mut text);
            text.push(':');
            value.append(row, &mut text);
        }
        text.push('}');
        Ok(text)
    };
    let rows = (0..call.rows()).map(|at| row(at).map(Some));
    Ok(Arc::new(rows.collect::<Result<StringViewArray>>()?))
}

/// An object of a list of structs of keys and values; NULL for NULL.
fn json_of_list(call: &Call) -> Result<ArrayRef> {
    let entries = lists(call, 0)?;
    let Some(pairs) = entries.values().as_struct_opt().filter(|pairs| pairs.num_columns() == 2) else {
        return Ok(call.nulls());
    };
    let names = texts_of(part_of_json(pairs.column(0)).unwrap_or(pairs.column(0)))?;
    let json = JsonValues::new(pairs.column(1).as_ref(), NonFinite::Null)?;
    let row = |row: usize| -> Result<Option<String>> {
        if entries.is_null(row) {
            return Ok(None);
        }
        let mut text = String::from("{");
        for at in entries.value_offsets()[row] as usize..entries.value_offsets()[row + 1] as usize {
            if names.is_null(at) {
                return invalid("a key of json_group_object is NULL");
            }
            if text.len() > 1 {
                text.push(',');
            }
            append_json_string(names.value(at), &mut text);
            text.push(':');
            json.append(at, &mut text);
        }
        text.push('}');
        Ok(Some(text))
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}
