//! Functions that the program around the engine computes, such as those of Python: what they take and give, and the check of what
//! comes back. [`scalar`] makes functions of SQL of them, and [`crate::aggregates`] aggregates.

pub(crate) mod scalar;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::error::Result as PlanResult;

use crate::context;
use crate::error::{Error, ErrorKind, Result};
use crate::times::{is_text, timestamptz};
use crate::type_names::type_name;

/// Computes a function: of a batch with a column per argument, the value of each row; of an aggregate, of the rows of a group, one
/// value. It is called on threads of the statement, which it blocks.
pub type HostKernel = dyn Fn(RecordBatch) -> Result<ArrayRef> + Send + Sync;

/// A function of the program around the engine, which a session adds to those of SQL.
#[derive(Clone)]
pub struct HostFunction {
    /// The name in SQL.
    pub name: String,
    /// The types of the arguments; `None` for one of any type.
    pub parameters: Vec<Option<DataType>>,
    /// Whether any number of further arguments may follow.
    pub accepts_more: bool,
    /// The type of the result.
    pub result: DataType,
    /// Whether each row needs a call of its own, because calls have side effects or give other results each time.
    pub is_volatile: bool,
    /// Whether it sees rows with a NULL. Otherwise a row with one has the result NULL, and an aggregate leaves it out.
    pub takes_nulls: bool,
    /// Its computation.
    pub kernel: Arc<HostKernel>,
}

impl HostFunction {
    /// The function under its name in lower case, with types as the engine has them.
    pub(crate) fn normal(self) -> HostFunction {
        let own = |given: DataType| match given {
            DataType::Timestamp(_, Some(_)) => timestamptz(),
            other if is_text(&other) => DataType::Utf8View,
            other => other,
        };
        HostFunction {
            name: self.name.to_lowercase(),
            parameters: self.parameters.into_iter().map(|parameter| parameter.map(own)).collect(),
            result: own(self.result),
            ..self
        }
    }

    /// The types to which arguments are cast; `None` if they are not accepted.
    pub(crate) fn coerced(&self, given: &[DataType]) -> Option<Vec<DataType>> {
        let is_enough =
            given.len() == self.parameters.len() || self.accepts_more && given.len() > self.parameters.len();
        let one = |(at, given): (usize, &DataType)| match self.parameters.get(at).and_then(Option::as_ref) {
            None => Some(given.clone()),
            Some(wanted) => (*given == DataType::Null || is_accepted(given, wanted)).then(|| wanted.clone()),
        };
        if is_enough { given.iter().enumerate().map(one).collect() } else { None }
    }

    /// The error for arguments of other types.
    pub(crate) fn wrong<T>(&self, given: &[DataType]) -> PlanResult<T> {
        let parameter = |parameter: &Option<DataType>| parameter.as_ref().map_or("any type".to_owned(), type_name);
        let mut takes: Vec<String> = self.parameters.iter().map(parameter).collect();
        takes.extend(self.accepts_more.then(|| "…".to_owned()));
        let given: Vec<String> = given.iter().map(type_name).collect();
        let message = format!("{} takes ({}), and was given ({})", self.name, takes.join(", "), given.join(", "));
        Err(Error::new(ErrorKind::Type, message).with_hint("cast the arguments: CAST(x AS type)").into())
    }

    /// Calls the function for rows, and checks what it returns: `results` values of its type.
    pub(crate) fn call(&self, columns: Vec<ArrayRef>, rows: usize, results: usize) -> Result<ArrayRef> {
        context::check()?;
        let typed = |(at, column): (usize, ArrayRef)| match self.parameters.get(at).and_then(Option::as_ref) {
            Some(wanted) if column.data_type() != wanted => Ok(cast(&column, wanted)?),
            _ => Ok(column),
        };
        let columns = columns.into_iter().enumerate().map(typed).collect::<Result<Vec<_>>>()?;
        let field = |(at, column): (usize, &ArrayRef)| Field::new(format!("a{at}"), column.data_type().clone(), true);
        let schema = Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?;
        let values = (self.kernel)(batch)?;
        if values.len() != results {
            let message = format!("function {} returned {} values for {results} rows", self.name, values.len());
            return Err(Error::new(ErrorKind::Type, message).with_hint("it returns one value for each row"));
        }
        self.as_result(&values)
    }

    /// Returned values in the type of the result.
    fn as_result(&self, values: &ArrayRef) -> Result<ArrayRef> {
        if *values.data_type() == self.result {
            return Ok(values.clone());
        }
        let (from, to) = (values.data_type(), &self.result);
        let error = |why: &str| {
            let message = format!("function {} returned {}, not {}{why}", self.name, type_name(from), type_name(to));
            Error::new(ErrorKind::Type, message).with_hint("return values of the type that it was created with")
        };
        if *from != DataType::Null && !keeps_values(from, to) {
            return Err(error(""));
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(values, to, &options).map_err(|reason| error(&format!(": {}", Error::from(reason))))
    }
}

/// Whether an argument is cast to the type of its parameter: numbers to wider ones, and types of one kind to each other.
fn is_accepted(given: &DataType, wanted: &DataType) -> bool {
    match (given, wanted) {
        (DataType::Date32, DataType::Timestamp(..)) => true,
        _ => keeps_values(given, wanted) || is_text(given) && is_time(wanted),
    }
}

/// Whether texts, such as literals, become values of the type.
fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Interval(_))
}

/// Whether each value of a type is one of the other, or fails to be cast to it: nothing is cut off.
fn keeps_values(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let items = |a: &FieldRef, b: &FieldRef| keeps_values(a.data_type(), b.data_type());
    match (from, to) {
        (a, b) if a == b => true,
        (Null, _) => true,
        (Dictionary(_, values), to) => keeps_values(values, to),
        (a, b) if is_text(a) => is_text(b),
        (a, b) if a.is_binary() => b.is_binary(),
        (a, b) if a.is_integer() => b.is_numeric(),
        (Decimal128(_, a) | Decimal256(_, a), Decimal128(_, b) | Decimal256(_, b)) => a <= b,
        (Decimal128(..) | Decimal256(..), b) => b.is_floating(),
        (a, b) if a.is_floating() => b.is_floating(),
        (Date32 | Date64, Date32 | Date64) | (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        (Timestamp(_, a), Timestamp(_, b)) => a.is_some() == b.is_some(),
        (Duration(_) | Interval(_), Interval(_)) => true,
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b)) => items(a, b),
        (Struct(a), Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && items(a, b))
        }
        (Map(a, _), Map(b, _)) => items(a, b),
        _ => false,
    }
}

/// Functions are the same if they are computed by the same kernel.
impl PartialEq for HostFunction {
    fn eq(&self, other: &HostFunction) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.kernel, &other.kernel)
    }
}

impl Eq for HostFunction {}

impl Hash for HostFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostFunction").field(&self.name).finish()
    }
}
