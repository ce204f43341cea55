//! The functions of ENUMs: those that the database calls, with the labels as arguments, and those of DuckDB, which read
//! the labels from the type of their argument.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{all_items, labels_of, metadata, over_items};
use crate::error::Error;
use crate::sql::text_types::{CAST, CAST_OR_NULL, CHECK, TEXT, type_text};
use crate::times::{exact_cast, is_text, wrong_types};

/// The place of a value among the labels, from 0.
const PLACE: &str = "freestone_enum_place";
/// The label at a place.
const LABEL: &str = "freestone_enum_label";

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Check,
    Cast,
    CastOrNull,
    Place,
    /// The value at a place.
    Label,
    /// A value as a text, without the type.
    Text,
    /// The place of a value, by the type.
    Code,
    First,
    Last,
    /// All labels.
    Range,
    /// The labels between two values.
    Between,
}

use Kind::{Between, Cast, CastOrNull, Check, Code, First, Label, Last, Place, Range, Text};

const ALL: [(&str, Kind); 11] = [
    (CHECK, Check),
    (CAST, Cast),
    (CAST_OR_NULL, CastOrNull),
    (PLACE, Place),
    (LABEL, Label),
    (TEXT, Text),
    ("enum_code", Code),
    ("enum_first", First),
    ("enum_last", Last),
    ("enum_range", Range),
    ("enum_range_boundary", Between),
];

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfEnum {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

pub(super) fn all() -> Vec<ScalarUDF> {
    ALL.into_iter().map(|(name, kind)| of_kind(name, kind)).collect()
}

/// The place of a value among labels.
pub(super) fn place() -> ScalarUDF {
    of_kind(PLACE, Place)
}

/// A text as a value of the ENUM with these labels.
pub(super) fn cast() -> ScalarUDF {
    of_kind(CAST, Cast)
}

/// The label at a place.
pub(super) fn label() -> ScalarUDF {
    of_kind(LABEL, Label)
}

fn of_kind(name: &'static str, kind: Kind) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfEnum { name, kind, signature: Signature::variadic_any(Volatility::Immutable) })
}

impl OfEnum {
    /// Whether the labels are arguments.
    fn has_labels(&self) -> bool {
        matches!(self.kind, Check | Cast | CastOrNull | Place | Label | Text)
    }

    fn result(&self) -> DataType {
        match self.kind {
            Check => DataType::Boolean,
            Place | Code => DataType::Int64,
            Cast | CastOrNull | First | Label | Last | Text => DataType::Utf8View,
            Range | Between => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))),
        }
    }

    /// The labels that constant arguments have.
    fn given(&self, values: &[Option<&ScalarValue>]) -> Vec<String> {
        values
            .iter()
            .skip(1)
            .filter_map(|value| value.and_then(|value| value.try_as_str().flatten()))
            .map(str::to_owned)
            .collect()
    }

    /// The labels of the first argument that has some.
    fn labels_by_type(&self, fields: &[FieldRef]) -> Result<Vec<String>> {
        fields.iter().find_map(|field| labels_of(field)).ok_or_else(|| {
            Error::invalid(format!("{} takes a value of an ENUM", self.name))
                .with_hint("cast to the type: NULL::mood, or name a column of it")
                .into()
        })
    }
}

impl ScalarUDFImpl for OfEnum {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let counts = match self.kind {
            Between => 2..=2,
            Code | First | Last | Range | Text => 1..=1,
            Check | Cast | CastOrNull | Label | Place => 1..=usize::MAX,
        };
        if !counts.contains(&types.len()) {
            return wrong_types(self.name, "values of an ENUM", &types);
        }
        // Each item of a list is a value.
        if let (Cast | CastOrNull, Some(list @ DataType::List(_))) = (self.kind, types.first()) {
            return Ok(Arc::new(Field::new(self.name, list.clone(), true)));
        }
        // A value of another type is what it is.
        let own = types.first().filter(|given| self.kind == Text && !is_text(given));
        let field = Field::new(self.name, own.cloned().unwrap_or_else(|| self.result()), true);
        let labels =
            if self.has_labels() { self.given(args.scalar_arguments) } else { self.labels_by_type(args.arg_fields)? };
        Ok(Arc::new(match self.kind {
            Cast | CastOrNull | First | Label | Last => field.with_metadata(metadata(&labels)),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.kind == Text && *args.return_field.data_type() == args.args[0].data_type() {
            return Ok(args.args[0].clone());
        }
        let labels = if self.has_labels() {
            let constants = args.args.iter().map(|argument| match argument {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            });
            self.given(&constants.collect::<Vec<_>>())
        } else {
            self.labels_by_type(&args.arg_fields)?
        };
        let texts = |at: usize, rows: usize| -> Result<StringViewArray> {
            Ok(exact_cast(&args.args[at].to_array(rows)?, &DataType::Utf8View)?.as_string_view().clone())
        };
        if self.kind == Between {
            let rows = args.number_rows;
            return Ok(ColumnarValue::Array(between(&texts(0, rows)?, &texts(1, rows)?, &labels)));
        }
        let is_constant = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if is_constant { 1 } else { args.number_rows };
        let result = match (args.args[0].data_type(), self.kind) {
            (DataType::List(_), Check | Cast | CastOrNull) => {
                of_lists(self.kind, &args.args[0].to_array(rows)?, &labels)?
            }
            (_, Label) => labels_at(&args.args[0].to_array(rows)?, &labels)?,
            _ => of_texts(self.kind, &texts(0, rows)?, &labels)?,
        };
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// The labels at places from 0.
fn labels_at(places: &ArrayRef, labels: &[String]) -> Result<ArrayRef> {
    let places = exact_cast(places, &DataType::Int64)?;
    let label = |place: i64| usize::try_from(place).ok().and_then(|place| labels.get(place));
    let at = places.as_primitive::<Int64Type>().iter().map(|place| place.and_then(label));
    Ok(Arc::new(at.collect::<StringViewArray>()))
}

/// The same for the items of lists.
fn of_lists(kind: Kind, lists: &ArrayRef, labels: &[String]) -> Result<ArrayRef> {
    let of_items = |items: &ArrayRef| of_texts(kind, exact_cast(items, &DataType::Utf8View)?.as_string_view(), labels);
    match kind {
        Check => Ok(Arc::new(all_items(lists, &|items| Ok(of_items(items)?.as_boolean().clone()))?)),
        _ => over_items(lists, &of_items),
    }
}

fn of_texts(kind: Kind, texts: &StringViewArray, labels: &[String]) -> Result<ArrayRef> {
    let places: HashMap<&str, i64> = labels.iter().map(String::as_str).zip(0..).collect();
    let known = |text: &str| places.get(text).copied();
    let missing = |text: &str| {
        let message = format!("'{text}' is no label of {}", type_text(labels));
        Error::invalid(message)
    };
    Ok(match kind {
        Check => Arc::new(texts.iter().map(|text| text.map(|text| known(text).is_some())).collect::<BooleanArray>()),
        Cast => {
            for text in texts.iter().flatten() {
                if known(text).is_none() {
                    return Err(missing(text).into());
                }
            }
            Arc::new(texts.clone())
        }
        CastOrNull => {
            Arc::new(texts.iter().map(|text| text.filter(|text| known(text).is_some())).collect::<StringViewArray>())
        }
        Text => Arc::new(texts.clone()),
        Label => return internal_err!("places of labels are integers"),
        Place | Code => {
            let place = |text: &str| known(text).ok_or_else(|| missing(text));
            let places = texts.iter().map(|text| text.map(place).transpose());
            Arc::new(places.collect::<Result<Int64Array, Error>>()?)
        }
        First | Last | Range | Between => {
            let all = match kind {
                First => labels.first().into_iter().collect::<Vec<_>>(),
                Last => labels.last().into_iter().collect(),
                _ => labels.iter().collect(),
            };
            let values: Vec<ScalarValue> =
                all.iter().map(|label| ScalarValue::Utf8View(Some((*label).clone()))).collect();
            match (kind, values.as_slice()) {
                (First | Last, [one]) => one.to_array_of_size(texts.len())?,
                (First | Last, _) => ScalarValue::Utf8View(None).to_array_of_size(texts.len())?,
                _ => {
                    let list = ScalarValue::new_list_nullable(&values, &DataType::Utf8View);
                    ScalarValue::List(list).to_array_of_size(texts.len())?
                }
            }
        }
    })
}

/// The labels from one value to another; NULL stands for the first or the last.
fn between(from: &StringViewArray, to: &StringViewArray, labels: &[String]) -> ArrayRef {
    let mut lists = datafusion::arrow::array::ListBuilder::new(datafusion::arrow::array::StringViewBuilder::new());
    for (from, to) in from.iter().zip(to.iter()) {
        let place = |text: Option<&str>| text.and_then(|text| labels.iter().position(|label| label == text));
        let start = place(from).unwrap_or(0);
        let end = place(to).map_or(labels.len(), |place| place + 1);
        lists.append_value(labels.get(start..end).unwrap_or_default().iter().map(Some));
    }
    Arc::new(lists.finish())
}
