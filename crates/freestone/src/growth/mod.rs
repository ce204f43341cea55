//! Functions whose results can be much larger than their arguments.
//!
//! `repeat('x', 2000000000)` allocates two gigabytes in one call, which cannot be cancelled. So the size of such a
//! result is computed first, and the call fails if it exceeds an eighth of the memory limit, or the memory that the
//! process has left.

mod concatenation;
mod steps;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait};
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::heap::Claim;
pub(crate) use concatenation::{CONCATENATION, Concatenations};
pub(crate) use steps::in_steps;

/// A result may have at most 1 / `LIMIT_SHARE` of the memory limit.
const LIMIT_SHARE: usize = 8;
/// Results up to this size are always allowed.
const BYTES_MIN: usize = 32 << 20;
/// The maximum without a memory limit, which is the maximum offset in an array of strings.
const BYTES_MAX: usize = i32::MAX as usize;

/// How the size of a result depends on the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// A text, repeated a number of times.
    Repeated,
    /// A text that is padded to a number of characters.
    Padded,
    /// A text in which each occurrence of a second text is replaced by a third.
    Replaced,
    /// Texts or lists, one behind the other.
    Joined,
    /// A list of a number of equal values.
    Listed,
    /// The list of numbers from one to another, with a step.
    Counted,
}

/// Functions of DataFusion that can take long for one row.
const SLOW: [&str; 4] = ["regexp_like", "regexp_match", "regexp_count", "regexp_instr"];

const FUNCTIONS: [(&str, Growth); 11] = [
    ("concat", Growth::Joined),
    ("concat_ws", Growth::Joined),
    ("array_concat", Growth::Joined),
    ("repeat", Growth::Repeated),
    ("lpad", Growth::Padded),
    ("rpad", Growth::Padded),
    ("replace", Growth::Replaced),
    ("array_repeat", Growth::Listed),
    ("array_resize", Growth::Listed),
    ("range", Growth::Counted),
    ("generate_series", Growth::Counted),
];

/// Replaces the functions whose results can be huge by bounded ones.
pub(crate) fn register(state: &mut SessionState, memory_limit: Option<usize>) -> Result<()> {
    let bytes_max = bytes_max(memory_limit);
    let growing = FUNCTIONS.map(|(name, growth)| (name, Some(growth)));
    for (name, growth) in growing.into_iter().chain(SLOW.map(|name| (name, None))) {
        let Some(inner) = state.scalar_functions().get(name).cloned() else { continue };
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, growth, bytes_max })))?;
    }
    Ok(())
}

/// The largest result under a memory limit.
fn bytes_max(memory_limit: Option<usize>) -> usize {
    memory_limit.map_or(BYTES_MAX, |limit| (limit / LIMIT_SHARE).clamp(BYTES_MIN, BYTES_MAX))
}

/// Claims the memory for a result of this size. While it is made, its buffers grow by copying, so that takes as much again.
///
/// # Errors
/// The result is larger than `bytes_max`, or than what the process has left.
fn check_size(function: &str, bytes: u64, bytes_max: usize) -> Result<Option<Claim>> {
    if bytes <= BYTES_MIN as u64 {
        return Ok(None);
    }
    let refused =
        |most: usize| resources_datafusion_err!("{function} would make {bytes} bytes at once (at most {most})");
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= bytes_max).ok_or_else(|| refused(bytes_max))?;
    Claim::new(bytes.saturating_mul(2)).map(Some).map_err(|left| refused(left / 2))
}

/// Claims the memory for a result of a function.
///
/// # Errors
/// As for [`check_size`].
pub(crate) fn claim(function: &str, bytes: u64) -> Result<Option<Claim>> {
    check_size(function, bytes, BYTES_MAX)
}

/// A function that fails before it makes a result that is too large, or that is called for a few rows at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    /// How large its results get; `None` for a function that takes long.
    growth: Option<Growth>,
    bytes_max: usize,
}

/// The bytes of a constant text.
fn constant_bytes(expression: &Expr) -> usize {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten().map_or(0, str::len),
        _ => 0,
    }
}

/// An argument as an array, which has one row if all rows have the same value.
struct Argument(ArrayRef);

impl Argument {
    fn of(value: &ColumnarValue) -> Result<Argument> {
        Ok(Argument(match value {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        }))
    }

    /// The position of a row's value; `None` if it is NULL.
    fn place(&self, row: usize) -> Option<usize> {
        let at = if self.0.len() == 1 { 0 } else { row };
        (at < self.0.len() && self.0.is_valid(at)).then_some(at)
    }

    fn text(&self, row: usize) -> Option<&str> {
        let at = self.place(row)?;
        Some(match self.0.data_type() {
            DataType::Utf8 => self.0.as_string::<i32>().value(at),
            DataType::LargeUtf8 => self.0.as_string::<i64>().value(at),
            DataType::Utf8View => self.0.as_string_view().value(at),
            _ => return None,
        })
    }

    fn number(&self, row: usize) -> Option<i64> {
        let at = self.place(row)?;
        self.0.as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(at))
    }

    /// The bytes of all values of texts or lists, the text of views included.
    fn all_bytes(&self) -> u64 {
        fn of_lists<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> u64 {
            let width = lists.values().get_buffer_memory_size() / lists.values().len().max(1);
            let offsets = lists.offsets();
            let items = offsets[lists.len()].as_usize() - offsets[0].as_usize();
            (items as u64).saturating_mul(width.max(1) as u64)
        }
        match self.0.data_type() {
            DataType::List(_) => of_lists(self.0.as_list::<i32>()),
            DataType::LargeList(_) => of_lists(self.0.as_list::<i64>()),
            _ => (0..self.0.len()).filter_map(|row| self.text(row)).map(|text| text.len() as u64).sum(),
        }
    }

    /// The bytes of a value within lists.
    fn width(&self) -> u64 {
        (self.0.get_buffer_memory_size() / self.0.len().max(1)).max(8) as u64
    }
}

impl Growth {
    /// The bytes of a result; `None` if the arguments do not determine it.
    fn bytes(self, args: &[ColumnarValue], rows: usize) -> Result<Option<u64>> {
        let rows = if args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) { 1 } else { rows };
        let args = args.iter().map(Argument::of).collect::<Result<Vec<_>>>()?;
        let sum = |of_row: &dyn Fn(usize) -> Option<u64>| (0..rows).filter_map(of_row).fold(0u64, u64::saturating_add);
        Ok(match (self, args.as_slice()) {
            (Growth::Repeated, [text, count]) => Some(sum(&|row| {
                let count = u64::try_from(count.number(row)?).unwrap_or(0);
                Some((text.text(row)?.len() as u64).saturating_mul(count))
            })),
            (Growth::Padded, [_, count, ..]) => Some(sum(&|row| u64::try_from(count.number(row)?).ok())),
            (Growth::Replaced, [text, from, to]) => Some(sum(&|row| {
                let (text, from, to) = (text.text(row)?, from.text(row)?, to.text(row)?);
                let whole = text.len() as u64;
                if from.is_empty() || to.len() <= from.len() || whole.saturating_mul(to.len() as u64) < 1 << 20 {
                    return Some(whole);
                }
                Some(whole.saturating_add((text.matches(from).count() as u64).saturating_mul(to.len() as u64)))
            })),
            (Growth::Joined, args) => Some(args.iter().fold(0, |sum: u64, arg| {
                let times = if arg.0.len() == 1 { rows as u64 } else { 1 };
                sum.saturating_add(arg.all_bytes().saturating_mul(times))
            })),
            (Growth::Listed, [value, count, ..]) => {
                let width = value.width();
                Some(sum(&|row| Some(u64::try_from(count.number(row)?).ok()?.saturating_mul(width))))
            }
            (Growth::Counted, [to]) => Some(sum(&|row| Some(u64::try_from(to.number(row)?).ok()?.saturating_mul(8)))),
            (Growth::Counted, [from, to, steps @ ..]) => Some(sum(&|row| {
                let step = steps.first().map_or(Some(1), |step| step.number(row))?.unsigned_abs().max(1);
                Some((to.number(row)?.abs_diff(from.number(row)?) / step).saturating_mul(8))
            })),
            _ => None,
        })
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Bounded { inner, growth: self.growth, bytes_max: self.bytes_max }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.growth {
            Some(growth) => {
                let bytes = growth.bytes(&args.args, args.number_rows)?.unwrap_or(0);
                let _claim = check_size(self.inner.name(), bytes, self.bytes_max)?;
                self.inner.invoke_with_args(args)
            }
            None => in_steps(args, &|args| self.inner.invoke_with_args(args)),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // Constants would be put together at once.
        let bytes: usize = args.iter().map(constant_bytes).sum();
        if self.growth == Some(Growth::Joined) && bytes > BYTES_MIN {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.inner.inner().simplify(args, info)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListArray, StringArray};
    use datafusion::scalar::ScalarValue;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(number)))
    }

    #[test]
    fn sizes_are_known_before_results_are_made() {
        let check = |growth: Growth, args: &[ColumnarValue], expected: Option<u64>| {
            assert_eq!(growth.bytes(args, 3).expect("sizes"), expected, "{growth:?}");
        };
        check(Growth::Repeated, &[text("ab"), number(i64::MAX)], Some(u64::MAX - 1));
        check(Growth::Repeated, &[text("ab"), number(-1)], Some(0));
        check(Growth::Repeated, &[text("ab"), ColumnarValue::Scalar(ScalarValue::Int64(None))], Some(0));
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), None, Some("abc")])));
        check(Growth::Repeated, &[texts.clone(), number(10)], Some(40));
        let counts = ColumnarValue::Array(Arc::new(Int64Array::from(vec![Some(1), Some(2), None])));
        check(Growth::Padded, &[texts.clone(), counts.clone()], Some(3));
        check(Growth::Padded, &[texts, number(1 << 40), text("x")], Some(3 << 40));
        check(Growth::Replaced, &[text(&"a".repeat(2000)), text("a"), text(&"b".repeat(2000))], Some(2000 + 4_000_000));
        check(Growth::Replaced, &[text("aaa"), text(""), text("b")], Some(3));
        check(Growth::Counted, &[number(i64::MIN), number(i64::MAX)], Some(u64::MAX));
        check(Growth::Counted, &[number(0), number(100), number(-10)], Some(80));
        check(Growth::Counted, &[counts], Some(24));
        check(Growth::Counted, &[text("2024-01-01"), text("2025-01-01")], Some(0));
        check(Growth::Listed, &[number(1), number(1 << 40)], Some(8 << 40));
        check(Growth::Joined, &[text("abc"), number(7), ColumnarValue::Scalar(ScalarValue::Utf8(None))], Some(3));
        let texts = ColumnarValue::Array(Arc::new(StringArray::from(vec![Some("a"), None, Some("abc")])));
        check(Growth::Joined, &[text("xy"), texts], Some(10));
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1); 8]), None, Some(vec![None; 8])]);
        let expected = (lists.values().get_buffer_memory_size() / 16 * 16) as u64;
        check(Growth::Joined, &[ColumnarValue::Array(Arc::new(lists.clone()))], Some(expected));
        check(Growth::Joined, &[ColumnarValue::Array(Arc::new(lists.slice(0, 2)))], Some(expected / 2));
    }
}
