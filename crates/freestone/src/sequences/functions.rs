//! `nextval('s')`, `currval('s')`, `lastval()`, `setval('s', n [, is_called])`.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use freestone_sql::tree::{Argument, Expr, ExprKind, Literal, each_part};
use freestone_store::{Snapshot, WriteTransaction};
use parking_lot::Mutex;

use super::{Counters, Sequence, find, missing};
use crate::error::{Error, Result};
use crate::sql::names::{CATALOG, is_ours, name_in};

const NEXTVAL: &str = "nextval";

/// The sequences as one session sees them.
pub(crate) struct SessionSequences {
    counters: Arc<Counters>,
    /// Refuses writes of sessions and transactions that may only read, except to sequences of temporary tables.
    may_write: MayWrite,
    given: Mutex<Given>,
}

/// Whether the session may change the sequence of a name.
pub(crate) type MayWrite = Box<dyn Fn(&str) -> Result<()> + Send + Sync>;

/// What the session was given last.
#[derive(Default)]
struct Given {
    by_sequence: HashMap<u64, i64>,
    last: Option<i64>,
}

impl fmt::Debug for SessionSequences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSequences").finish_non_exhaustive()
    }
}

impl SessionSequences {
    pub fn new(counters: Arc<Counters>, may_write: MayWrite) -> Self {
        SessionSequences { counters, may_write, given: Mutex::default() }
    }

    /// The next numbers of a sequence.
    ///
    /// # Errors
    /// As for [`Counters::next`], or there is no such sequence.
    pub fn next(&self, snapshot: &Snapshot, name: &str, count: usize) -> Result<Vec<i64>> {
        let sequence = find(snapshot, name).ok_or_else(|| missing(snapshot, name))?;
        if count == 0 {
            return Ok(vec![]);
        }
        (self.may_write)(name)?;
        let numbers = self.counters.next(name, &sequence, count)?;
        if let Some(last) = numbers.last() {
            self.note(&sequence, *last);
        }
        Ok(numbers)
    }

    /// See [`Counters::keep_new`].
    ///
    /// # Errors
    /// As for every change of the database.
    pub fn keep_new(&self, transaction: &mut WriteTransaction) -> Result<()> {
        self.counters.keep_new(transaction)
    }

    fn note(&self, sequence: &Sequence, value: i64) {
        let mut given = self.given.lock();
        given.by_sequence.insert(sequence.id, value);
        given.last = Some(value);
    }

    fn current(&self, snapshot: &Snapshot, name: &str) -> Result<i64> {
        let sequence = find(snapshot, name).ok_or_else(|| missing(snapshot, name))?;
        let value = self.given.lock().by_sequence.get(&sequence.id).copied();
        value.ok_or_else(|| {
            Error::invalid(format!("currval: sequence {name} has no value yet in this session"))
                .with_hint(format!("nextval('{name}') gives one"))
        })
    }

    fn last(&self) -> Result<i64> {
        let last = self.given.lock().last;
        last.ok_or_else(|| Error::invalid("lastval: no sequence has a value yet in this session"))
    }

    fn set(&self, snapshot: &Snapshot, name: &str, value: i64, is_given: bool) -> Result<i64> {
        let sequence = find(snapshot, name).ok_or_else(|| missing(snapshot, name))?;
        (self.may_write)(name)?;
        self.counters.set(name, &sequence, value, is_given)?;
        if is_given {
            self.given.lock().by_sequence.insert(sequence.id, value);
        }
        Ok(value)
    }
}

/// Makes the functions known to a statement.
pub(crate) fn register(state: &mut SessionState, snapshot: &Arc<Snapshot>, session: &Arc<SessionSequences>) {
    for kind in [Kind::Next, Kind::Current, Kind::Last, Kind::Set] {
        let call = SequenceFunction {
            kind,
            signature: kind.signature(),
            snapshot: snapshot.clone(),
            session: session.clone(),
        };
        // Only functions of a state that takes none are refused.
        let _ = state.register_udf(Arc::new(ScalarUDF::new_from_impl(call)));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Next,
    Current,
    Last,
    Set,
}

impl Kind {
    fn signature(self) -> Signature {
        match self {
            Kind::Next | Kind::Current => Signature::any(1, Volatility::Volatile),
            Kind::Last => Signature::nullary(Volatility::Volatile),
            Kind::Set => Signature::one_of(vec![TypeSignature::Any(2), TypeSignature::Any(3)], Volatility::Volatile),
        }
    }
}

#[derive(Debug)]
struct SequenceFunction {
    kind: Kind,
    signature: Signature,
    snapshot: Arc<Snapshot>,
    session: Arc<SessionSequences>,
}

impl PartialEq for SequenceFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }
}

impl Eq for SequenceFunction {}

impl Hash for SequenceFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind.hash(state);
    }
}

impl SequenceFunction {
    /// The result of a row with these arguments.
    fn value(&self, name: &str, value: Option<i64>, is_given: bool) -> Result<Option<i64>> {
        let name = catalog_name(name)?;
        match (self.kind, value) {
            (Kind::Next, _) => Ok(self.session.next(&self.snapshot, &name, 1)?.pop()),
            (Kind::Current, _) => self.session.current(&self.snapshot, &name).map(Some),
            (Kind::Last, _) => self.session.last().map(Some),
            (Kind::Set, Some(value)) => self.session.set(&self.snapshot, &name, value, is_given).map(Some),
            (Kind::Set, None) => Ok(None),
        }
    }

    fn values(&self, arguments: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if self.kind == Kind::Last {
            return Ok(Arc::new(Int64Array::from(vec![self.session.last()?; rows])));
        }
        let texts = cast(&arguments[0], &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        let numbers = arguments.get(1).map(|numbers| cast(numbers, &DataType::Int64)).transpose()?;
        let given = arguments.get(2).map(|given| cast(given, &DataType::Boolean)).transpose()?;
        let mut results: Vec<Option<i64>> = Vec::with_capacity(rows);
        for row in 0..rows {
            let number = numbers.as_ref().map(|numbers| numbers.as_primitive::<Int64Type>());
            let number = number.filter(|numbers| numbers.is_valid(row)).map(|numbers| numbers.value(row));
            let given = given.as_ref().map(|given| given.as_boolean());
            let is_known = texts.is_valid(row) && given.is_none_or(|given| given.is_valid(row));
            let is_given = given.is_none_or(|given| given.value(row));
            results.push(if is_known { self.value(texts.value(row), number, is_given)? } else { None });
        }
        Ok(Arc::new(Int64Array::from(results)))
    }
}

impl ScalarUDFImpl for SequenceFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Next => NEXTVAL,
            Kind::Current => "currval",
            Kind::Last => "lastval",
            Kind::Set => "setval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        // Numbers of one sequence for all rows are taken together.
        if let (Kind::Next, [ColumnarValue::Scalar(name)]) = (self.kind, args.args.as_slice())
            && let Some(Some(name)) = name.try_as_str()
        {
            let name = catalog_name(name)?;
            let numbers = self.session.next(&self.snapshot, &name, args.number_rows)?;
            return Ok(ColumnarValue::Array(Arc::new(Int64Array::from(numbers))));
        }
        let arrays =
            args.args.iter().map(|argument| argument.to_array(args.number_rows)).collect::<DfResult<Vec<_>>>()?;
        Ok(ColumnarValue::Array(self.values(&arrays, args.number_rows)?))
    }
}

/// The name in the catalog of a sequence whose name is written in a text: folded to lower case unless it is quoted.
///
/// # Errors
/// The text is no name.
pub(crate) fn catalog_name(text: &str) -> Result<String> {
    let mut parts = vec![];
    let mut rest = text.trim();
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let end =
                    quoted.find('"').ok_or_else(|| Error::syntax(format!("{text} is not the name of a sequence")))?;
                (quoted[..end].to_owned(), &quoted[end + 1..])
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].to_lowercase(), &rest[end..])
            }
        };
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return Err(Error::syntax(format!("{text} is not the name of a sequence"))),
        }
    }
    Ok(match parts.as_slice() {
        [.., schema, name] if !is_ours(schema) && schema != CATALOG => name_in(schema, name),
        [.., name] => name.clone(),
        [] => String::new(),
    })
}

/// The sequences that an expression names in calls of `nextval`, as they are written.
pub(crate) fn named_in(expression: &Expr) -> Vec<String> {
    let mut names = vec![];
    each_part(expression, &mut |part| names.extend(named_by(part)));
    names
}

/// The sequence whose next number an expression is, as it is written.
pub(crate) fn named_by(expression: &Expr) -> Option<String> {
    let ExprKind::Call(call) = &expression.kind else { return None };
    let is_next = call.name.parts.last()?.text.eq_ignore_ascii_case(NEXTVAL) && call.arguments.len() == 1;
    if is_next { named_sequence(expression) } else { None }
}

/// The sequence that a call of one of these functions names, as it is written.
pub(crate) fn named_sequence(expression: &Expr) -> Option<String> {
    let ExprKind::Call(call) = &expression.kind else { return None };
    let function = call.name.parts.last()?.text.to_lowercase();
    if ![NEXTVAL, "currval", "setval"].contains(&function.as_str()) {
        return None;
    }
    let Argument { name: None, value } = call.arguments.first()? else { return None };
    let value = match &value.kind {
        ExprKind::Cast { operand, .. } => &operand.kind,
        kind => kind,
    };
    match value {
        ExprKind::Literal(Literal::Text(name)) => Some(name.clone()),
        _ => None,
    }
}
