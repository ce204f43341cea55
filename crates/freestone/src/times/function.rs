//! Scalar functions as data: a name, the argument and result types, and a kernel over arrays.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::postgres_texts::DateOrder;
use super::zone::Zone;
use crate::error::{Error, ErrorKind};
use crate::growth::{Function, Growth, in_steps, is_small};

/// One function over times.
#[derive(Debug)]
pub(crate) struct TimeFunction {
    pub name: &'static str,
    pub aliases: Vec<String>,
    pub form: Form,
    /// Returns the types to which arguments are cast.
    pub takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// Returns the type of the result for these argument types. Some arguments may be constants.
    pub gives: fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType>,
    pub run: fn(&Call) -> Result<ArrayRef>,
    pub order: Order,
    pub preimage: Option<Preimage>,
    pub signature: Signature,
}

type Preimage = fn(&[Expr], &Expr, &SimplifyContext) -> Result<PreimageResult>;

/// The form of a call in the name of a result column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Call,
    /// `a + b`.
    Operator(&'static str),
    /// `(- a)`.
    Negative,
}

/// Two characters of a pattern become at most the name of a month.
const PATTERN_SHARE: u8 = 5;

/// The argument by which results are ordered, if they do not depend on a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    None,
    ByArgument(usize),
}

/// The arguments for one batch.
#[derive(Clone)]
pub(crate) struct Call {
    args: Vec<ColumnarValue>,
    rows: usize,
    /// The session's time zone.
    pub zone: Zone,
    /// The order of dates in texts, if they read as in PostgreSQL.
    pub order: Option<DateOrder>,
    /// The type of the result.
    pub to: DataType,
}

impl Call {
    fn new(args: ScalarFunctionArgs, rows: usize) -> Self {
        let (zone, to) = (Zone::of_session(&args.config_options), args.return_field.data_type().clone());
        let order = DateOrder::of_session(&args.config_options);
        Call { args: args.args, rows, zone, order, to }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// An argument that is constant.
    pub fn constant(&self, at: usize) -> Option<&ScalarValue> {
        match self.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => Some(value),
            _ => None,
        }
    }

    pub fn count(&self) -> usize {
        self.args.len()
    }

    /// The type of an argument.
    pub fn kind(&self, at: usize) -> Option<DataType> {
        self.args.get(at).map(ColumnarValue::data_type)
    }

    /// Replaces an argument.
    pub fn set(&mut self, at: usize, argument: ColumnarValue) {
        if let Some(known) = self.args.get_mut(at) {
            *known = argument;
        }
    }

    pub fn array(&self, at: usize) -> Result<ArrayRef> {
        match self.args.get(at) {
            Some(argument) => argument.clone().into_array(self.rows),
            None => Err(Error::new(ErrorKind::Internal, format!("internal error: no argument {at}")).into()),
        }
    }

    /// A text argument that must be constant; `None` if it is NULL.
    pub fn text(&self, at: usize, what: &str) -> Result<Option<String>> {
        match self.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => Ok(value.try_as_str().flatten().map(str::to_owned)),
            _ => Err(Error::invalid(format!("{what} has to be a constant")).into()),
        }
    }

    /// NULL for every row.
    pub fn nulls(&self) -> ArrayRef {
        datafusion::arrow::array::new_null_array(&self.to, self.rows)
    }
}

impl TimeFunction {
    pub fn new(
        name: &'static str,
        takes: fn(&[DataType]) -> Result<Vec<DataType>>,
        gives: fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType>,
        run: fn(&Call) -> Result<ArrayRef>,
    ) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        let (aliases, form, order) = (vec![], Form::Call, Order::None);
        TimeFunction { name, aliases, form, takes, gives, run, order, preimage: None, signature }
    }

    pub fn with_alias(mut self, alias: &str) -> Self {
        self.aliases.push(alias.to_owned());
        self
    }

    /// The same function with another name and other types of arguments.
    pub fn renamed(self, name: &'static str, takes: fn(&[DataType]) -> Result<Vec<DataType>>) -> Self {
        TimeFunction { name, takes, aliases: vec![], ..self }
    }

    pub fn into_udf(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }
}

impl PartialEq for TimeFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TimeFunction {}

impl Hash for TimeFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for TimeFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(named(self.name, self.form, args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Wrong arguments are reported when the result's type is computed, because an error here would be wrapped.
        Ok((self.takes)(types).unwrap_or_else(|_| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.gives)(types, &[])
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        (self.takes)(&types)?;
        Ok(Arc::new(Field::new(self.name, (self.gives)(&types, args.scalar_arguments)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let growth = Growth::Share(if is_small(args.return_field.data_type()) { 0 } else { PATTERN_SHARE });
        let function = Function { name: self.name, growth, is_slow: false };
        in_steps(args, &function, &|args| evaluate(args, self.run))
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.preimage.map_or(Ok(PreimageResult::None), |preimage| preimage(args, literal, info))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let Order::ByArgument(at) = self.order else { return Ok(SortProperties::Unordered) };
        let constant = |input: &ExprProperties| input.sort_properties == SortProperties::Singleton;
        let others_are_constant = inputs.iter().enumerate().all(|(other, input)| other == at || constant(input));
        let zoned = |input: &ExprProperties| matches!(input.range.data_type(), DataType::Timestamp(_, Some(_)));
        match inputs.get(at) {
            Some(input) if others_are_constant && !zoned(input) => Ok(input.sort_properties),
            _ => Ok(SortProperties::Unordered),
        }
    }
}

/// Runs a kernel; if all arguments are constants, over a single row.
pub(crate) fn evaluate(args: ScalarFunctionArgs, run: impl FnOnce(&Call) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    let is_constant = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let result = run(&Call::new(args, rows))?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    })
}

/// Runs a kernel for each row, even if all arguments are constants.
pub(crate) fn evaluate_rows(
    args: ScalarFunctionArgs,
    run: impl FnOnce(&Call) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let rows = args.number_rows;
    Ok(ColumnarValue::Array(run(&Call::new(args, rows))?))
}

/// The name of a call for a result column.
fn named(name: &str, form: Form, args: &[Expr]) -> String {
    let texts: Vec<String> = args.iter().map(|argument| argument.schema_name().to_string()).collect();
    match (form, texts.as_slice()) {
        (Form::Operator(operator), [left, right]) => format!("{left} {operator} {right}"),
        (Form::Negative, [argument]) => format!("(- {argument})"),
        _ => format!("{name}({})", texts.join(",")),
    }
}

/// The error of wrong argument types.
pub(crate) fn wrong_types<T>(name: &str, takes: &str, types: &[DataType]) -> Result<T> {
    let given: Vec<String> = types.iter().map(crate::type_names::type_name).collect();
    let message = format!("{name} takes {takes}, and was given ({})", given.join(", "));
    Err(Error::new(ErrorKind::Type, message).into())
}
