//! The memory and the time of functions.
//!
//! A function is called for a whole batch, and neither its memory nor its time is known to the operator that calls it:
//! `repeat('x', 2000000000)` makes two gigabytes in one call. So every function of texts and lists is called by
//! [`in_steps`]: for a few rows at a time where their arguments are heavy, with the statement's end seen between the calls,
//! and after the size of the result was claimed from the statement's [budget](crate::context::Budget). What a function
//! cannot say beforehand, it counts by a [`Meter`] while it makes it.

mod concatenation;
mod meter;
mod sizes;
mod steps;
mod weights;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::functions;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

pub(crate) use concatenation::{CONCATENATION, Concatenations};
pub(crate) use meter::Meter;
pub(crate) use sizes::Growth;
pub(crate) use steps::{Function, in_steps};
pub(crate) use weights::{spread, weight, weight_of_value};

/// Functions of DataFusion that can take long for one row.
const SLOW: [&str; 5] = ["regexp_like", "regexp_match", "regexp_count", "regexp_instr", "levenshtein"];

/// Functions whose results can be much larger than their arguments.
const GROWING: [(&str, Growth); 9] = [
    ("concat", Growth::Joined),
    ("concat_ws", Growth::Joined),
    ("array_to_string", Growth::Separated),
    ("repeat", Growth::Repeated),
    ("lpad", Growth::Padded),
    ("rpad", Growth::Padded),
    ("replace", Growth::Replaced),
    ("array_repeat", Growth::Listed),
    ("array_resize", Growth::Listed),
];

/// Constants up to this size are put together while a statement is planned.
const CONSTANT_BYTES: usize = 32 << 20;

/// How large the results of a function get. Those that are not known otherwise are at most twice as long as the arguments.
fn growth_of(name: &str) -> Growth {
    if let Some((_, growth)) = GROWING.into_iter().find(|(known, _)| *known == name) {
        return growth;
    }
    match name {
        // A view takes 16 bytes for a part of a text, which may be one byte.
        "string_to_array" | "regexp_match" => Growth::Share(18),
        "translate" | "upper" | "lower" | "initcap" | "encode" => Growth::Share(4),
        _ => Growth::Share(2),
    }
}

/// Puts functions with a budget in the place of DataFusion's functions of texts and lists. Ours have one.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let texts = [
        functions::string::functions(),
        functions::unicode::functions(),
        functions::regex::functions(),
        functions::encoding::functions(),
        functions::crypto::functions(),
        datafusion::functions_nested::all_default_nested_functions(),
    ];
    let registered = |state: &SessionState, name: &str| state.scalar_functions().get(name).cloned();
    let of_datafusion = texts.into_iter().flatten();
    // Functions of ours have taken the place of some.
    let of_datafusion = of_datafusion.filter(|known| registered(state, known.name()).as_ref() == Some(known));
    for inner in of_datafusion.collect::<Vec<_>>() {
        // Other functions have some of its names.
        let is_its = |alias: &&String| registered(state, alias).as_ref() == Some(&inner);
        let aliases = inner.aliases().iter().filter(is_its).cloned().collect();
        let growth = growth_of(inner.name());
        let is_slow = SLOW.contains(&inner.name());
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, aliases, growth, is_slow })))?;
    }
    Ok(())
}

/// A function that claims what it makes, or that is called for a few rows at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
    growth: Growth,
    is_slow: bool,
}

/// The lists of a value of each argument, all of one type; `None` for other functions. DataFusion appends the values one by one.
fn listed(name: &str, args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    let DataType::List(field) = args.return_field.data_type() else { return Ok(None) };
    let is_array = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Array(_));
    let is_item = |arg: &ColumnarValue| arg.data_type() == *field.data_type() && !field.data_type().is_nested();
    if name != "make_array" || !args.args.iter().any(is_array) || !args.args.iter().all(is_item) {
        return Ok(None);
    }
    let columns = ColumnarValue::values_to_arrays(&args.args)?;
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let places = (0..args.number_rows).flat_map(|row| (0..columns.len()).map(move |column| (column, row)));
    let items = interleave(&columns, &places.collect::<Vec<_>>())?;
    let lengths = OffsetBuffer::from_repeated_length(columns.len(), args.number_rows);
    Ok(Some(ColumnarValue::Array(Arc::new(ListArray::try_new(field.clone(), lengths, items, None)?))))
}

/// Whether values of a type have a few bytes.
pub(crate) fn is_small(data_type: &DataType) -> bool {
    data_type.primitive_width().is_some() || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// The bytes of a constant text.
fn constant_bytes(expression: &Expr) -> usize {
    match expression {
        Expr::Literal(value, _) => value.try_as_str().flatten().map_or(0, str::len),
        _ => 0,
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
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
        let aliases = self.aliases.clone();
        Some(ScalarUDF::from(Bounded { inner, aliases, growth: self.growth, is_slow: self.is_slow }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let growth = if is_small(args.return_field.data_type()) { Growth::Share(0) } else { self.growth };
        let function = Function { name: self.inner.name(), growth, is_slow: self.is_slow };
        in_steps(args, &function, &|args| match listed(self.inner.name(), &args)? {
            Some(lists) => Ok(lists),
            None => self.inner.invoke_with_args(args),
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // Constants would be put together at once.
        let bytes: usize = args.iter().map(constant_bytes).sum();
        if self.growth == Growth::Joined && bytes > CONSTANT_BYTES {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.inner.inner().simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.inner().short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(inputs)
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> Result<Option<Vec<Interval>>> {
        self.inner.inner().propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}
