//! What the binder asks of the engine: tables, functions and settings of one statement.

use std::sync::Arc;

use arrow_schema::{DataType, SchemaRef};
use datafusion_common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion_expr::planner::{PlannerResult, RawAggregateExpr, RawWindowExpr};
use datafusion_expr::{
    AggregateUDF, Expr, GetFieldAccess, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, IntervalUnit, Name};

use crate::error::BindError;
use crate::reading::Named;

/// The name of the JSON in a conversion of JSON to another type.
pub const JSON: &str = "__json";

/// The name of the rows in the query of a summary.
pub const SUMMARIZED: &str = "__summarized";

/// The world of one statement.
#[derive(Clone, Copy)]
pub struct World<'a> {
    /// Its tables, types and macros, in one snapshot.
    pub catalog: &'a dyn Catalog,
    /// Its functions.
    pub functions: &'a dyn Functions,
    /// The settings of its session.
    pub settings: &'a dyn Settings,
}

/// Tables, types and macros by their names.
pub trait Catalog {
    /// A table, view or file. `None` if there is none of this name.
    ///
    /// # Errors
    /// There is one, and it cannot be read.
    fn table(&self, named: &Named) -> Result<Option<Arc<dyn TableSource>>>;

    /// The columns of the primary key of a table.
    fn primary_key(&self, _named: &Named) -> Vec<String> {
        vec![]
    }

    /// Whether the last column of a table, [`PLACES`], is the places of its rows, which a statement reads as [`ROW_ID`].
    fn has_places(&self, _named: &Named) -> bool {
        false
    }

    /// DESCRIBE of a table with declared keys. `None` for what only has columns: a view, a file, or nothing of the name.
    ///
    /// # Errors
    /// It cannot be read.
    fn described(&self, _named: &Named) -> Result<Option<Arc<dyn TableSource>>> {
        Ok(None)
    }

    /// SHOW TABLES, or SHOW ALL TABLES.
    ///
    /// # Errors
    /// They are not shown here.
    fn shown_tables(&self, _all: bool) -> Result<Arc<dyn TableSource>> {
        not_impl_err!("tables are not shown here")
    }

    /// What to write instead of the name of a table that is not there, if that is no other name.
    fn hint_for(&self, _name: &str) -> Option<String> {
        None
    }

    /// The names of tables and views, for errors.
    fn table_names(&self) -> Vec<String>;

    /// Whether a column of this name is the engine's own, which errors do not propose.
    fn is_hidden(&self, _column: &str) -> bool {
        false
    }

    /// The text of a type that has this name.
    fn type_text(&self, _name: &str) -> Option<String> {
        None
    }

    /// Whether there is a macro of this name.
    fn has_macro(&self, name: &str) -> bool {
        self.macro_of(name).is_some()
    }

    /// The macro of this name.
    fn macro_of(&self, _name: &str) -> Option<Macro> {
        None
    }

    /// A leaf that stands for a query which a statement may read several times, such as a part of WITH. `materialized` is
    /// what the statement says of it. By default the query itself.
    ///
    /// # Errors
    /// The query is too large.
    fn shared(&self, _name: &str, plan: LogicalPlan, _materialized: Option<bool>) -> Result<LogicalPlan> {
        Ok(plan)
    }

    /// The rows of the last step of a recursive query.
    ///
    /// # Errors
    /// There are no such tables.
    fn work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>>;

    /// A recursive query that keeps one row for each key.
    ///
    /// # Errors
    /// There are none.
    fn keyed_recursion(&self, _: KeyedRecursion) -> Result<LogicalPlan> {
        not_impl_err!("a recursive query has no USING KEY here")
    }
}

/// A recursion that keeps one row for each key.
pub struct KeyedRecursion {
    /// The rows of the first step.
    pub first: LogicalPlan,
    /// Those of the others, of the same types.
    pub step: LogicalPlan,
    /// The keys, and the aggregates of all rows of each, in the rows of [`KeyedRecursion::candidates`]. `None` without aggregates.
    pub totals: Option<LogicalPlan>,
    /// The name of the table that the step reads as the rows of the step before.
    pub before: String,
    /// The name of the table that it reads as the row of each key.
    pub state: String,
    /// The name of the table that `totals` reads: rows as the steps made them.
    pub candidates: String,
    /// What the columns are.
    pub columns: Vec<KeyedColumn>,
    /// The columns of the result.
    pub schema: SchemaRef,
    /// Whether the step before is the rows of keys that it changed (UNION), and not all that it made (UNION ALL).
    pub is_distinct: bool,
    /// Whether the step reads any of both tables. It runs once otherwise.
    pub repeats: bool,
}

/// What a column of a recursion with keys is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyedColumn {
    /// Part of the key.
    Key,
    /// The value of the last row.
    Last,
    /// A column of [`KeyedRecursion::totals`].
    Total(usize),
}

/// The name by which statements read the places of rows in a table, where it has no such column.
pub const ROW_ID: &str = "rowid";
/// The column of these places.
pub const PLACES: &str = "__row_id";
/// The name by which statements read the file of each row, where the files have no such column.
pub const FILE_NAME: &str = "filename";
/// The column of these names.
pub const FILE_NAMES: &str = "__file_name";

/// A macro.
#[derive(Debug, Clone)]
pub struct Macro {
    /// Its parameters, some with defaults.
    pub parameters: Vec<(String, Option<tree::Expr>)>,
    /// The value, or the query for rows.
    pub body: MacroBody,
}

/// What a macro stands for.
#[derive(Debug, Clone)]
pub enum MacroBody {
    /// A value.
    Value(tree::Expr),
    /// Rows.
    Rows(Box<tree::Query>),
}

/// A function that is defined by an expression over its parameters.
#[derive(Debug, Clone)]
pub struct Definition {
    /// The parameters.
    pub parameters: Vec<String>,
    /// The expression.
    pub value: tree::Expr,
    /// The functions in it to which DISTINCT, ORDER BY, FILTER and OVER of a call belong. Without such, a call has none.
    pub aggregates: Vec<String>,
}

/// An argument of a function in FROM.
#[derive(Debug, Clone)]
pub struct TableArgument {
    /// Its name, if it has one.
    pub name: Option<Name>,
    /// Its value as it is written.
    pub written: tree::Expr,
    /// Its value, if it was bound: named arguments are not.
    pub value: Option<Expr>,
}

/// Functions by their names, and the meaning of operators.
pub trait Functions {
    /// A function of values.
    fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>>;

    /// A function that takes lambdas.
    fn higher_order(&self, name: &str) -> Option<Arc<HigherOrderUDF>>;

    /// An aggregate.
    fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>>;

    /// A window function.
    fn window(&self, name: &str) -> Option<Arc<WindowUDF>>;

    /// The rows of a function in FROM; `None` if there is no such function.
    ///
    /// # Errors
    /// It does not take these arguments.
    fn table(&self, name: &str, arguments: &[TableArgument]) -> Result<Option<Arc<dyn TableSource>>>;

    /// The names of all functions, for errors.
    fn names(&self) -> Vec<String>;

    /// The error of a call of something that is no function, if more is known of it than its name.
    fn missing(&self, _name: &str, _span: Span) -> Option<BindError> {
        None
    }

    /// The function of which a name is another name.
    fn synonym(&self, _name: &str) -> Option<&str> {
        None
    }

    /// The expression that defines a function with this number of arguments.
    fn definition(&self, _name: &str, _arguments: usize) -> Option<Definition> {
        None
    }

    /// An operator between two values.
    ///
    /// # Errors
    /// It is none of these types.
    fn binary(&self, operator: BinaryOperator, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr>;

    /// A value of a type of bits as one of another type; `None` if it is no such value.
    fn of_bits(&self, _value: &Expr, _to: &DataType, _or_null: bool, _schema: &DFSchema) -> Option<Expr> {
        None
    }

    /// The arguments of a call, of which those that are JSON are nested as such in the JSON that the function makes.
    fn nested_json(&self, _function: &str, arguments: Vec<Expr>, _schema: &DFSchema) -> Vec<Expr> {
        arguments
    }

    /// A part of a value: a field, an item, or a range of items.
    ///
    /// # Errors
    /// The value has no such parts.
    fn access(&self, value: Expr, access: GetFieldAccess, schema: &DFSchema) -> Result<Expr>;

    /// A list of values.
    ///
    /// # Errors
    /// They have no common type.
    fn list(&self, items: Vec<Expr>, schema: &DFSchema) -> Result<Expr>;

    /// A comparison of a value with all items of a list: `value < ALL (list)`.
    ///
    /// # Errors
    /// The operator is no comparison.
    fn compare_all(&self, value: Expr, operator: BinaryOperator, list: Expr) -> Result<Expr>;

    /// A call of an aggregate. The original, by default.
    ///
    /// # Errors
    /// It does not take these arguments.
    fn aggregate_call(&self, call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        Ok(PlannerResult::Original(call))
    }

    /// A call of a window function. The original, by default.
    ///
    /// # Errors
    /// It does not take these arguments.
    fn window_call(&self, call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        Ok(PlannerResult::Original(call))
    }

    /// A text in quotes as a value of a type, where the engine reads it itself. `None` for a plain cast.
    fn typed_text(&self, _text: &str, _to: &DataType) -> Option<Expr> {
        None
    }

    /// An interval of a text. `None` if it is none.
    fn interval(&self, text: &str, unit: Option<IntervalUnit>) -> Option<ScalarValue>;

    /// The value of an expression that reads no rows.
    ///
    /// # Errors
    /// It is no constant, or cannot be computed.
    fn constant(&self, expression: Expr) -> Result<ScalarValue>;

    /// The text of an expression that makes a value of the JSON called [`JSON`], of the type that a structure describes.
    /// `None` if there are no such conversions.
    ///
    /// # Errors
    /// It is no structure.
    fn json_conversion(&self, _structure: &str, _is_strict: bool) -> Result<Option<String>> {
        Ok(None)
    }

    /// The full name of a temporary sequence that a text in a call names. `None` if it is none.
    ///
    /// # Errors
    /// It belongs to another session.
    fn sequence(&self, _name: &str) -> Result<Option<String>> {
        Ok(None)
    }

    /// DESCRIBE of the rows of a query, whose columns have these names.
    ///
    /// # Errors
    /// The plan is not valid.
    fn described(&self, _plan: LogicalPlan, _names: &[String]) -> Result<Arc<dyn TableSource>> {
        not_impl_err!("queries are not described here")
    }

    /// SUMMARIZE of the rows of a query, whose columns have these names: a query of the table [`SUMMARIZED`].
    ///
    /// # Errors
    /// There is nothing to summarize.
    fn summary(&self, _plan: LogicalPlan, _names: &[String]) -> Result<tree::Query> {
        not_impl_err!("queries are not summarized here")
    }

    /// The texts in the first column of a query, each once, in its order, for the columns of a PIVOT. `None` if they
    /// are not known yet: the statement can be bound again when they are.
    ///
    /// # Errors
    /// The query fails.
    fn texts(&self, _query: &LogicalPlan) -> Result<Option<Vec<String>>> {
        Ok(None)
    }
}

/// Settings that change the meaning of a query.
pub trait Settings {
    /// Whether columns of tables may be of an ENUM.
    fn has_enums(&self) -> bool {
        false
    }

    /// Whether NULL comes first in an order that does not say so. As the largest value, it is first in descending order.
    fn is_null_first(&self, descending: bool) -> bool {
        descending
    }
}
