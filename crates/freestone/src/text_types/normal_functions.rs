//! The functions of types of texts in a normal form ([`NormalText`]). Their second argument is the name of the type.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{all_items, normal_metadata, over_items};
use crate::display::texts_of;
use crate::error::{Error, ErrorKind};
use crate::json_text::canonical::canonical;
use crate::json_text::start_of;
use crate::normal_texts::NormalText;
use crate::sql::text_types::{CAST_NORMAL, CAST_NORMAL_OR_NULL, CHECK_NORMAL};
use crate::times::{DateOrder, TextOf, Zone, exact_cast, is_text, plain_text, texts_in_zone, wrong_types};

/// The bytes by which values are ordered, in hexadecimal digits.
const KEY: &str = "freestone_normal_key";

/// What a function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Check,
    Cast,
    CastOrNull,
    Key,
}

use Kind::{Cast, CastOrNull, Check, Key};

#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNormal {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

fn function(name: &'static str, kind: Kind) -> ScalarUDF {
    // A time without a zone has that of the session.
    let volatility = if matches!(kind, Cast | CastOrNull) { Volatility::Stable } else { Volatility::Immutable };
    ScalarUDF::new_from_impl(OfNormal { name, kind, signature: Signature::any(2, volatility) })
}

pub(super) fn all() -> Vec<ScalarUDF> {
    let all = [(CHECK_NORMAL, Check), (CAST_NORMAL, Cast), (CAST_NORMAL_OR_NULL, CastOrNull), (KEY, Key)];
    all.map(|(name, kind)| function(name, kind)).into()
}

/// The key of a value of a type.
pub(super) fn key() -> ScalarUDF {
    function(KEY, Key)
}

/// A value as one of a type.
pub(super) fn cast() -> ScalarUDF {
    function(CAST_NORMAL, Cast)
}

/// The type that the second argument names.
fn named(value: Option<&ScalarValue>) -> Result<NormalText> {
    let name = value.and_then(|value| value.try_as_str().flatten());
    let known = name.and_then(NormalText::of_name);
    known.ok_or_else(|| Error::new(ErrorKind::Internal, "internal error: no type of texts in a normal form").into())
}

impl ScalarUDFImpl for OfNormal {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Check => DataType::Boolean,
            // Frames of windows have no ranges of bytes.
            Key => DataType::Utf8View,
            Cast | CastOrNull => match types.first() {
                Some(list @ DataType::List(_)) => list.clone(),
                _ => DataType::Utf8View,
            },
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if types.len() != 2 {
            return wrong_types(self.name, "a value and the name of its type", &types);
        }
        let field = Field::new(self.name, self.return_type(&types)?, true);
        let has_type = matches!(self.kind, Cast | CastOrNull) && !field.data_type().is_nested();
        Ok(Arc::new(match has_type {
            true => field.with_metadata(normal_metadata(named(args.scalar_arguments.get(1).copied().flatten())?)),
            false => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let named = match args.args.get(1) {
            Some(ColumnarValue::Scalar(name)) => named(Some(name))?,
            _ => named(None)?,
        };
        let (zone, order) = (Zone::of_session(&args.config_options), DateOrder::of_session(&args.config_options));
        let is_constant = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if is_constant { 1 } else { args.number_rows })?;
        let result: ArrayRef = match self.kind {
            Check => Arc::new(all_items(&values, &|items| checked(items, named))?),
            Key => keys(&values, named, &zone)?,
            Cast => over_items(&values, &|items| normal_forms(items, named, false, (&zone, order)))?,
            CastOrNull => over_items(&values, &|items| normal_forms(items, named, true, (&zone, order)))?,
        };
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
            false => Ok(ColumnarValue::Array(result)),
        }
    }
}

/// Whether texts are in the normal form.
fn checked(values: &ArrayRef, kind: NormalText) -> Result<BooleanArray> {
    let texts = exact_cast(values, &DataType::Utf8View)?;
    let is_normal = |text: &str| kind.normal(text, false, &Zone::Fixed(0)).is_ok_and(|normal| normal == text);
    Ok(texts.as_string_view().iter().map(|text| text.map(is_normal)).collect())
}

fn keys(values: &ArrayRef, kind: NormalText, zone: &Zone) -> Result<ArrayRef> {
    let normal = normal_forms(values, kind, false, (zone, None))?;
    let hex = |key: Vec<u8>| key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let keys = normal.as_string_view().iter().map(|text| text.and_then(|text| kind.key(text)).map(hex));
    Ok(Arc::new(keys.collect::<StringViewArray>()))
}

/// The texts of values.
fn texts(values: &ArrayRef, kind: NormalText, zone: &Zone) -> Result<StringViewArray> {
    match (values.data_type(), kind) {
        (text, _) if is_text(text) => Ok(exact_cast(values, &DataType::Utf8View)?.as_string_view().clone()),
        // The last bits of a number.
        (number, NormalText::Bit(count)) if number.is_integer() => {
            let numbers = exact_cast(values, &DataType::Int64)?;
            let bit = |number: i64, at: u32| if number >> at.min(63) & 1 == 1 { '1' } else { '0' };
            let bits = |number: i64| (0..count).rev().map(|at| bit(number, at)).collect::<String>();
            Ok(numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(bits)).collect())
        }
        (_, NormalText::VarBit(None)) if has_bits(values.data_type()) => bits_of(values),
        // In the zone of the session.
        (DataType::Timestamp(_, Some(_)), NormalText::TimeTz(_)) => {
            let texts = exact_cast(&texts_in_zone(values, zone)?, &DataType::Utf8View)?;
            Ok(texts.as_string_view().clone())
        }
        (DataType::Time32(_) | DataType::Time64(_) | DataType::Null, _) => Ok(texts_of(values)?),
        (other, kind) => {
            let message = format!("{} cannot be cast to {}", crate::type_names::type_name(other), kind.name());
            Err(Error::unsupported(message).with_hint("cast to VARCHAR first").into())
        }
    }
}

/// Whether values of a type are known bit by bit.
fn has_bits(kind: &DataType) -> bool {
    use DataType::{Boolean, Decimal128, Float32, Float64};
    kind.is_integer() || kind.is_binary() || matches!(kind, Boolean | Float32 | Float64 | Decimal128(38, 0))
}

/// All bits of values, from the first one on.
fn bits_of(values: &ArrayRef) -> Result<StringViewArray> {
    use DataType::{Boolean, Decimal128, Float32, Float64};
    let written = |number: u128, width: usize| format!("{:0>width$}", format!("{number:b}"));
    let kind = values.data_type().clone();
    if kind.is_binary() {
        let bytes = exact_cast(values, &DataType::BinaryView)?;
        let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:08b}")).collect::<String>();
        return Ok(bytes.as_binary_view().iter().map(|bytes| bytes.map(text)).collect());
    }
    let width = kind.primitive_width().unwrap_or(1) * 8;
    let masked = |number: i128| number.cast_unsigned() & (u128::MAX >> (128 - width));
    Ok(match kind {
        Boolean => values.as_boolean().iter().map(|bit| bit.map(|bit| written(bit.into(), 8))).collect(),
        Float32 => {
            let floats = values.as_primitive::<Float32Type>().iter();
            floats.map(|float| float.map(|float| written(float.to_bits().into(), width))).collect()
        }
        Float64 => {
            let floats = values.as_primitive::<Float64Type>().iter();
            floats.map(|float| float.map(|float| written(float.to_bits().into(), width))).collect()
        }
        _ => {
            let numbers = exact_cast(values, &Decimal128(38, 0))?;
            let numbers = numbers.as_primitive::<Decimal128Type>().iter();
            numbers.map(|number| number.map(|number| written(masked(number), width))).collect()
        }
    })
}

/// The normal forms of values. Times are in a zone, and read as in PostgreSQL if there is an order of dates.
fn normal_forms(
    values: &ArrayRef,
    kind: NormalText,
    or_null: bool,
    (zone, order): (&Zone, Option<DateOrder>),
) -> Result<ArrayRef> {
    let texts = texts(values, kind, zone)?;
    if kind == NormalText::Jsonb {
        return documents(&texts, or_null);
    }
    let normal = |text: &str| match kind.normal(&as_written(text, kind, zone, order), true, zone) {
        Ok(normal) => Ok(Some(normal)),
        Err(_) if or_null => Ok(None),
        Err(reason) => Err(refused(kind, text, &reason)),
    };
    let forms = texts.iter().map(|text| text.map_or(Ok(None), normal));
    Ok(Arc::new(forms.collect::<Result<StringViewArray, Error>>()?))
}

/// The canonical forms of JSONB. A statement without memory for one gets its error, and no NULL.
fn documents(texts: &StringViewArray, or_null: bool) -> Result<ArrayRef> {
    let form = |text: &str| match canonical(text)? {
        Some(form) => Ok(Some(form)),
        None if or_null => Ok(None),
        None => Err(malformed(text)),
    };
    let forms = texts.iter().map(|text| text.map_or(Ok(None), form));
    Ok(Arc::new(forms.collect::<Result<StringViewArray, Error>>()?))
}

fn malformed(text: &str) -> Error {
    Error::invalid(format!("malformed JSON: {}", start_of(text)))
}

/// A text of TIMETZ in the form of the engine, if it is one of PostgreSQL's; other texts as they are.
fn as_written<'a>(text: &'a str, kind: NormalText, zone: &Zone, order: Option<DateOrder>) -> Cow<'a, str> {
    let order = order.filter(|_| matches!(kind, NormalText::TimeTz(_)));
    let plain = order.and_then(|order| plain_text(text, TextOf::TimeTz, order, zone));
    plain.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The texts of a column in the normal form of its type, as they are stored.
pub(crate) fn stored(
    values: &ArrayRef,
    kind: NormalText,
    column: &str,
    (order, zone): (Option<DateOrder>, Zone),
) -> Result<ArrayRef, Error> {
    let stored = over_items(values, &|items| {
        let texts = exact_cast(items, &DataType::Utf8View)?;
        let normal = |text: &str| {
            let normal = kind.normal(&as_written(text, kind, &zone, order), false, &zone);
            normal.map_err(|reason| refused(kind, text, &reason).at(&format!("column {column}")))
        };
        let forms = texts.as_string_view().iter().map(|text| text.map(normal).transpose());
        Ok(Arc::new(forms.collect::<Result<StringViewArray, Error>>()?))
    });
    stored.map_err(Error::from)
}

fn refused(kind: NormalText, text: &str, reason: &str) -> Error {
    if kind == NormalText::Jsonb {
        return malformed(text);
    }
    Error::new(ErrorKind::Type, format!("invalid {}: '{text}': {reason}", kind.name()))
}
