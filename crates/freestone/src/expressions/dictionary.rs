//! Dictionary evaluation: expressions over one string column are evaluated once per distinct string of a batch.
//!
//! Columns with few distinct strings are stored with dictionaries, and a scan returns views of the dictionary's
//! strings. Equal views have equal results. So the expression is evaluated once per distinct view, and its results are
//! copied to the rows. If most views of a batch are distinct, that is detected after an eighth of them, and the
//! expression is evaluated for all rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, DictionaryArray, RecordBatch, UInt32Array, new_null_array};
use datafusion::arrow::compute::{cast, concat, take};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef, UInt32Type};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, LikeExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use freestone_codec::Distinct;

use super::pieces::searched;

/// The expression is evaluated per distinct view if at most one of this many views is distinct.
const ROWS_PER_STRING: usize = 8;

/// The expression with its parts over one string column evaluated once per distinct string.
///
/// # Errors
/// The expression cannot be rebuilt.
pub(crate) fn per_string(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_down(|expr| PerString::wrap(expr, schema)).map(|transformed| transformed.data)
}

/// An expression over one string column.
#[derive(Debug, Clone)]
pub(crate) struct PerString {
    /// The column, the only input of the expression.
    column: Arc<dyn PhysicalExpr>,
    /// The expression, over the schema below.
    expression: Arc<dyn PhysicalExpr>,
    /// The schema of only this column.
    schema: SchemaRef,
}

impl PerString {
    /// Replaces an expression that depends on one string column and nothing else.
    pub fn wrap(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
        if !is_expensive(&expr)? {
            return Ok(Transformed::no(expr));
        }
        let mut columns = collect_columns(&expr).into_iter();
        let (Some(column), None) = (columns.next(), columns.next()) else { return Ok(Transformed::no(expr)) };
        let Some(field) = schema.fields().get(column.index()) else { return Ok(Transformed::no(expr)) };
        if *field.data_type() != DataType::Utf8View || is_volatile(&expr) {
            return Ok(Transformed::no(expr));
        }
        Ok(Transformed::new(Self::of_column(&expr, schema)?, true, TreeNodeRecursion::Jump))
    }

    /// An expression that depends on one string column and nothing else, evaluated once per string. `schema` has the
    /// column's type without codes, if it will be one of codes.
    pub fn of_column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(column) = collect_columns(expr).into_iter().next() else { return Ok(expr.clone()) };
        let alone: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), 0));
        let schema = Arc::new(Schema::new(vec![schema.fields()[column.index()].clone()]));
        let expression = searched(with_column(expr.clone(), &alone)?)?;
        Ok(Arc::new(Self { column: Arc::new(column), expression, schema }))
    }

    /// The values of the expression for a column of codes: those of its texts, and that of NULL.
    fn of_codes(&self, codes: &DictionaryArray<UInt32Type>) -> Result<ColumnarValue> {
        let texts = cast(codes.values(), &DataType::Utf8View)?;
        let null = new_null_array(&DataType::Utf8View, 1);
        let all = concat(&[&texts, &null])?;
        let made = self.expression.evaluate(&RecordBatch::try_new(self.schema.clone(), vec![all])?)?;
        let ColumnarValue::Array(values) = made else { return Ok(made) };
        let places: UInt32Array = match codes.nulls() {
            None => codes.keys().clone(),
            Some(_) => codes.keys().iter().map(|code| code.unwrap_or(texts.len() as u32)).collect(),
        };
        Ok(ColumnarValue::Array(take(&values, &places, None)?))
    }

    /// The original expression.
    fn unwrapped(&self) -> Result<Arc<dyn PhysicalExpr>> {
        with_column(self.expression.clone(), &self.column)
    }
}

/// Whether an expression takes longer than finding the distinct views. Comparisons do not.
fn is_expensive(expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    expr.exists(|node| {
        let operator = node.downcast_ref::<BinaryExpr>().map(|binary| *binary.op());
        let is_concat = operator.is_some_and(|op| op == Operator::StringConcat);
        Ok(is_concat || node.is::<ScalarFunctionExpr>() || node.is::<LikeExpr>() || node.is::<CastExpr>())
    })
}

/// The expression with another column in place of its only one.
fn with_column(expr: Arc<dyn PhysicalExpr>, column: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.transform_up(|node| {
        Ok(if node.is::<Column>() { Transformed::yes(column.clone()) } else { Transformed::no(node) })
    });
    replaced.map(|transformed| transformed.data)
}

impl PartialEq for PerString {
    fn eq(&self, other: &Self) -> bool {
        self.column.eq(&other.column) && self.expression.eq(&other.expression)
    }
}

impl Eq for PerString {}

impl Hash for PerString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column.hash(state);
        self.expression.hash(state);
    }
}

impl fmt::Display for PerString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unwrapped().map_err(|_| fmt::Error)?.fmt(f)
    }
}

impl PhysicalExpr for PerString {
    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        self.expression.return_field(&self.schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let texts = self.column.evaluate(batch)?.into_array(batch.num_rows())?;
        if let Some(codes) = texts.as_dictionary_opt::<UInt32Type>() {
            return self.of_codes(codes);
        }
        let views = texts.as_string_view().views();
        let limit = texts.len() / ROWS_PER_STRING;
        let distinct = match texts.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => Distinct::of(views, |row| nulls.is_valid(row), limit),
            None => Distinct::of(views, |_| true, limit),
        };
        let Some(Distinct { codes, rows }) = distinct else {
            return self.expression.evaluate(&RecordBatch::try_new(self.schema.clone(), vec![texts])?);
        };
        let different = take(&texts, &UInt32Array::from(rows), None)?;
        let made = self.expression.evaluate(&RecordBatch::try_new(self.schema.clone(), vec![different])?)?;
        Ok(match made {
            ColumnarValue::Array(values) => ColumnarValue::Array(take(&values, &UInt32Array::from(codes), None)?),
            scalar => scalar,
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.into_iter().next().unwrap_or_else(|| self.column.clone());
        Ok(Arc::new(Self { column, ..Self::clone(&self) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unwrapped().map_err(|_| fmt::Error)?.fmt_sql(f)
    }
}
