//! Conversion of the values that a statement stores: exact, or an error with row and column.
//!
//! DataFusion casts inserted values to the types of the columns, so that 1.5 becomes 1 in an INT column. Here, rows
//! keep the types of their query, and [`conform`] converts them exactly to the table's types. This applies to INSERT,
//! UPDATE, CREATE TABLE with columns, parameters, and rows that clients send.
//!
//! `VALUES` has one type per column. In a DOUBLE column, 9007199254740993 would lose its last digit. So if the cells of
//! a column have different types, each cell is converted to the column's type separately, by the function [`Stored`].

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use freestone_store::schema::TableSchema;

use crate::error::{Error, Result};
use crate::exec::ddl::identifier;
use crate::ingest::{ColumnMatch, Location, conform};
use crate::sql::forms;

/// The function of [`Stored`].
const NAME: &str = "freestone_stored";
/// Digits of a number that a DOUBLE holds as they are written.
const DOUBLE_DIGITS: usize = 15;

/// Which column of the rows is which of the table: for each of the table, its place; those that are not given are NULL.
#[derive(Debug, Clone)]
pub(crate) struct Places(Vec<Option<usize>>);

impl Places {
    /// All columns of a table, in their order.
    pub fn all(schema: &TableSchema) -> Self {
        Places((0..schema.columns.len()).map(Some).collect())
    }

    /// The columns that an INSERT names.
    ///
    /// # Errors
    /// A column that the table does not have, or one that is named twice.
    pub fn named(schema: &TableSchema, columns: &[ast::ObjectName]) -> Result<Self> {
        if columns.is_empty() {
            return Ok(Self::all(schema));
        }
        let mut places = vec![None; schema.columns.len()];
        for (place, name) in columns.iter().enumerate() {
            let name = match name.0.as_slice() {
                [part] => part.as_ident().map(identifier).unwrap_or_default(),
                _ => return Err(Error::syntax(format!("{name} is not the name of a column"))),
            };
            let names = schema.columns.iter().map(|column| column.name.as_str());
            let at = schema.columns.iter().position(|column| column.name == name);
            let at = at.ok_or_else(|| Error::not_found("column", &name, names))?;
            if places[at].replace(place).is_some() {
                return Err(Error::invalid(format!("column {name} appears twice")).with_hint("name each column once"));
            }
        }
        Ok(Places(places))
    }

    /// How many columns are given.
    pub fn given(&self) -> usize {
        self.0.iter().flatten().count()
    }

    /// The table's columns in the order in which they are given.
    pub fn targets(&self) -> Vec<usize> {
        let mut targets: Vec<(usize, usize)> =
            self.0.iter().enumerate().filter_map(|(at, place)| place.map(|place| (place, at))).collect();
        targets.sort_unstable();
        targets.into_iter().map(|(_, at)| at).collect()
    }

    /// The rows with all columns of the table, of whatever types they come in.
    ///
    /// # Errors
    /// Rows of another number of columns.
    pub fn arranged(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        check_count(self.given(), batch.num_columns())?;
        let columns = self.0.iter().zip(schema.fields()).map(|(place, field)| match place {
            Some(at) => batch.column(*at).clone(),
            None => new_null_array(field.data_type(), batch.num_rows()),
        });
        let columns: Vec<_> = columns.collect();
        let fields: Vec<Field> = schema
            .fields()
            .iter()
            .zip(&columns)
            .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
    }
}

/// Refuses rows of another number of columns than are stored.
pub(crate) fn check_count(expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::invalid(format!("the rows have {found} columns, expected {expected}"))
        .with_hint("name the columns that they are for: INSERT INTO t (a, b) …"))
}

/// Puts [`Stored`] around the cells of `VALUES` that cannot be of one type with the others of their column.
///
/// # Errors
/// A row of another number of cells.
pub(crate) fn prepare_values(query: &mut ast::Query, places: &Places, schema: &TableSchema) -> Result<()> {
    let ast::SetExpr::Values(values) = query.body.as_mut() else { return Ok(()) };
    let expected = places.given();
    if let Some(row) = values.rows.iter().position(|row| row.content.len() != expected) {
        let found = values.rows[row].content.len();
        return Err(Error::invalid(format!("row {} has {found} values, expected {expected}", row + 1)));
    }
    for (place, at) in places.targets().into_iter().enumerate() {
        let data_type = &schema.columns[at].data_type;
        let mut cells = values.rows.iter().filter_map(|row| row.content.get(place));
        if cells.all(|cell| is_plain(cell, data_type)) || are_texts(&values.rows, place) {
            continue;
        }
        for (row, cells) in values.rows.iter_mut().enumerate() {
            if let Some(cell) = cells.content.get_mut(place) {
                let known = std::mem::replace(cell, ast::Expr::value(ast::Value::Null));
                let number = |n: usize| ast::Expr::value(ast::Value::Number(n.to_string(), false));
                *cell = forms::call(NAME, vec![known, number(at), number(row + 1)]);
            }
        }
    }
    Ok(())
}

/// Texts and NULLs alone: read as the column's type when they are stored.
fn are_texts(rows: &[ast::Parens<Vec<ast::Expr>>], place: usize) -> bool {
    let is_text = |cell: &ast::Expr| match cell {
        ast::Expr::Value(value) => matches!(value.value, ast::Value::SingleQuotedString(_) | ast::Value::Null),
        _ => false,
    };
    rows.iter().filter_map(|row| row.content.get(place)).all(is_text)
}

/// A literal that stays exact with any other such literal of its column.
fn is_plain(cell: &ast::Expr, data_type: &DataType) -> bool {
    let value = match cell {
        ast::Expr::Value(value) => &value.value,
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => &value.value,
            _ => return false,
        },
        _ => return false,
    };
    match value {
        ast::Value::Null => true,
        ast::Value::SingleQuotedString(_) => data_type.is_string(),
        ast::Value::Number(digits, _) => {
            let length = digits.len();
            let is_short = !digits.contains(['e', 'E']) && length <= DOUBLE_DIGITS;
            let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit()) && length <= 18;
            is_short && data_type.is_numeric() || is_integer && (data_type.is_integer() || data_type.is_decimal())
        }
        ast::Value::Boolean(_) => *data_type == DataType::Boolean,
        _ => false,
    }
}

/// `freestone_stored(value, column, row)`: the value in the type of a table's column.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    schema: SchemaRef,
    signature: Signature,
}

impl Stored {
    pub fn function(schema: &SchemaRef) -> ScalarUDF {
        let signature = Signature::any(3, Volatility::Immutable);
        ScalarUDF::new_from_impl(Stored { schema: schema.clone(), signature })
    }

    fn field(&self, column: Option<&ScalarValue>) -> DfResult<FieldRef> {
        let at = match column {
            Some(ScalarValue::Int64(Some(at))) => usize::try_from(*at).ok(),
            _ => None,
        };
        match at.and_then(|at| self.schema.fields().get(at)) {
            Some(field) => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            None => internal_err!("{NAME} of no column"),
        }
    }
}

impl ScalarUDFImpl for Stored {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("{NAME} has the type of a column")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        self.field(args.scalar_arguments.get(1).copied().flatten())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let [value, ColumnarValue::Scalar(column), ColumnarValue::Scalar(ScalarValue::Int64(Some(row)))] =
            args.args.as_slice()
        else {
            return internal_err!("{NAME} takes a value, a column and a row");
        };
        let field = self.field(Some(column))?;
        crate::exact::unary(value, |array| Ok(stored_cell(array, &field, (*row).max(1) as u64)?))
    }
}

/// The value of a cell of `VALUES`, in the type of its column.
///
/// # Errors
/// The type cannot hold the value.
pub(crate) fn stored_cell(value: &ArrayRef, field: &FieldRef, row: u64) -> Result<ArrayRef> {
    let given = Schema::new(vec![Field::new(field.name(), value.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(given), vec![value.clone()])?;
    let at = Location { source: String::new(), first_row: row };
    let wanted = Arc::new(Schema::new(vec![field.as_ref().clone().with_nullable(true)]));
    let converted = conform(&batch, &wanted, ColumnMatch::Position, &at)?;
    Ok(converted.column(0).clone())
}
