//! Point statements: statements with parameters that read or change the row of a key, or insert one row of values.
//!
//! Planning such a statement takes far longer than its work. So it is recognized once, from its bound logical plan, and
//! its later executions go straight to the store: the values of the parameters become predicates on encoded data, as a
//! query's filters do. Locks, transactions, checks and conversions are those of every other statement. What is not
//! recognized, or does not fit what was recognized (another type of a parameter, an altered table), is planned.

mod candidates;
mod recognition;
mod rows;
mod writes;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use freestone_store::schema::{Column, TableSchema};
use freestone_store::{Snapshot, Table};
use parking_lot::Mutex;

use crate::sql::written::Written;

pub(crate) use candidates::{is_candidate, may_read_row};
pub(crate) use recognition::recognize;
pub(crate) use rows::{Lookups, lookup};

/// A recognized statement, for parameters of certain types.
#[derive(Debug)]
pub(crate) struct Point {
    /// The statement, which is planned where it does not fit.
    written: Arc<Written>,
    /// The types of the values.
    types: Vec<DataType>,
    /// The table, in the last state in which it was seen to have the same columns and constraints.
    table: Mutex<Arc<Table>>,
    name: String,
    /// The text for the workload log; `None` if it is not logged.
    logged: Option<Arc<str>>,
    action: Action,
    /// What a change returns; `None` if only their number.
    returning: Option<Returned>,
}

#[derive(Debug)]
enum Action {
    Select(Select),
    /// The values of all columns, and what to do if the key of the row is there.
    Insert {
        cells: Vec<Operand>,
        conflict: Option<OnConflict>,
    },
    /// The new values of all columns, and which columns are assigned.
    Update {
        conditions: Vec<Condition>,
        values: Vec<NewValue>,
        assigned: Vec<bool>,
    },
    Delete(Vec<Condition>),
}

#[derive(Debug)]
struct Select {
    conditions: Vec<Condition>,
    /// The columns of the table that are read, each once.
    reads: Vec<usize>,
    /// For each column of the result, its place among those.
    places: Vec<usize>,
    /// The result's columns, before their names and time zones for users.
    schema: SchemaRef,
}

/// ON CONFLICT.
#[derive(Debug)]
struct OnConflict {
    /// The keys that are meant, by the positions of their columns.
    keys: Vec<Vec<usize>>,
    /// The new values of the columns of the row that is there; `None` if it stays as it is.
    update: Option<Vec<NewValue>>,
}

/// RETURNING of columns.
#[derive(Debug)]
struct Returned {
    /// For each column of the result, that of the table.
    places: Vec<usize>,
    /// The result's columns, before their names and time zones for users.
    schema: SchemaRef,
}

/// `column = value`.
#[derive(Debug)]
struct Condition {
    column: usize,
    value: Operand,
}

/// A value of a statement.
#[derive(Debug)]
enum Operand {
    /// The number of a parameter, from 0.
    Parameter(usize),
    Constant(ScalarValue),
}

/// The value of a column after an UPDATE.
#[derive(Debug)]
enum NewValue {
    /// That of a column of the old row, or behind them, of the row that could not be inserted.
    Column(usize),
    Given(Operand),
    /// An expression over these columns, followed by the parameters.
    Computed(Arc<dyn PhysicalExpr>),
}

impl Operand {
    fn value<'v>(&'v self, values: &'v [ScalarValue]) -> Option<&'v ScalarValue> {
        match self {
            Operand::Parameter(number) => values.get(*number),
            Operand::Constant(value) => Some(value),
        }
    }
}

impl Point {
    /// Whether the statement was recognized for values of these types.
    pub fn is_for(&self, types: &[DataType]) -> bool {
        self.types == types
    }

    /// Whether it is a query.
    pub fn is_query(&self) -> bool {
        matches!(self.action, Action::Select(_))
    }

    /// The name of its table in the catalog.
    pub fn table_name(&self) -> &str {
        &self.name
    }

    /// The statement as it was written.
    pub fn written(&self) -> &Arc<Written> {
        &self.written
    }

    /// The columns of a query's rows, before their names and time zones for users.
    pub fn schema(&self) -> Option<&SchemaRef> {
        match &self.action {
            Action::Select(select) => Some(&select.schema),
            _ => None,
        }
    }

    /// The statement's table in a snapshot, if it still is the same table with the same columns and constraints.
    pub fn table<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Arc<Table>> {
        let now = snapshot.table(&self.name)?;
        let mut known = self.table.lock();
        if !Arc::ptr_eq(&known, now) {
            if known.id != now.id || known.schema != now.schema {
                return None;
            }
            *known = now.clone();
        }
        Some(now)
    }
}

/// Whether rows of a table are exactly the values that they are given. What this does not know of a table, such as
/// values that the database computes, leaves the statement to the planner.
fn is_plain(schema: &TableSchema) -> bool {
    let TableSchema {
        columns,
        primary_key: _,
        foreign_keys: _,
        unique_keys: _,
        checks: _,
        column_ids: _,
        defaults,
        declared: _,
    } = schema;
    defaults.is_empty() && columns.iter().all(|Column { name: _, data_type: _, nullable: _ }| true)
}
