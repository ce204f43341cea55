//! Converts DataFusion's physical expressions to predicates that run on encoded data, and the others to row filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::split_disjunction;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use freestone_codec::{BytesBound, BytesPredicate, IntPredicate, Kind, Predicate, f32_key, f64_key};
use freestone_store::scan::{ColumnPredicate, DynamicFilter, DynamicState, FilterError, RowFilter, boolean_bits};
use freestone_store::schema::kind;
use freestone_store::{Snapshot, Table};
use parking_lot::Mutex;

use crate::exact::Canonical;

use super::fields::with_fields;
use super::in_keys::InKeys;
use super::keys::{code_filters, key_set};
use crate::expressions::partial::is_dynamic;
use crate::expressions::physical::remap;
use crate::expressions::pieces::searched;

/// The scanned table in a snapshot.
#[derive(Debug, Clone)]
pub struct Scanned {
    /// Pins the files of the table while a plan exists; `None` in a cached plan.
    pub snapshot: Option<Arc<Snapshot>>,
    pub table: Arc<Table>,
}

/// The conjuncts of a filter on the table's columns.
#[derive(Debug, Clone, Default)]
pub struct Conjuncts {
    pub predicates: Vec<ColumnPredicate>,
    pub row_filters: Vec<Arc<dyn RowFilter>>,
    pub dynamic: Vec<Arc<dyn DynamicFilter>>,
}

impl Conjuncts {
    /// Adds a filter whose columns are the table's (by index into `schema`).
    pub fn add(&mut self, filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef, scanned: &Scanned) -> Result<()> {
        for conjunct in split_conjunction(filter) {
            if is_dynamic(conjunct) {
                self.dynamic.push(Arc::new(DynamicExpression {
                    filter: conjunct.clone(),
                    schema: schema.clone(),
                    scanned: scanned.clone(),
                    current: Mutex::new((u64::MAX, DynamicState::default())),
                }));
            } else {
                add_static(conjunct, schema, &mut self.predicates, &mut self.row_filters)?;
            }
        }
        Ok(())
    }
}

fn add_static(
    conjunct: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    predicates: &mut Vec<ColumnPredicate>,
    row_filters: &mut Vec<Arc<dyn RowFilter>>,
) -> Result<()> {
    if let Some(literal) = conjunct.downcast_ref::<Literal>()
        && literal.value() == &ScalarValue::Boolean(Some(true))
    {
        return Ok(());
    }
    match predicate(conjunct, schema) {
        Some(found) => add_predicate(found, predicates),
        None => row_filters.push(Arc::new(ExpressionFilter::new(conjunct, schema)?)),
    }
    Ok(())
}

/// Adds a predicate. Two ranges of one column are intersected.
fn add_predicate(new: ColumnPredicate, predicates: &mut Vec<ColumnPredicate>) {
    if let Predicate::Int(IntPredicate::Range { low, high }) = &new.predicate {
        for old in predicates.iter_mut().filter(|p| p.column == new.column) {
            if let Predicate::Int(IntPredicate::Range { low: old_low, high: old_high }) = &mut old.predicate {
                *old_low = (*old_low).max(*low);
                *old_high = (*old_high).min(*high);
                return;
            }
        }
    }
    predicates.push(new);
}

/// The conjunct as a predicate on one column, if it is one.
fn predicate(e: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<ColumnPredicate> {
    let on = |column: usize, predicate: Predicate| Some(ColumnPredicate { column, predicate });
    if let Some(is_null) = e.downcast_ref::<IsNullExpr>() {
        return on(column(is_null.arg())?, Predicate::IsNull);
    }
    if let Some(is_not_null) = e.downcast_ref::<IsNotNullExpr>() {
        return on(column(is_not_null.arg())?, Predicate::IsNotNull);
    }
    if let Some(list) = e.downcast_ref::<InListExpr>() {
        return in_list(list, schema);
    }
    if let Some(like) = e.downcast_ref::<LikeExpr>() {
        return on(column(like.expr())?, Predicate::Bytes(like_predicate(like)?));
    }
    if let Some(not) = e.downcast_ref::<NotExpr>() {
        return boolean(column(not.arg())?, schema, false);
    }
    if let Some(c) = column(e) {
        return boolean(c, schema, true);
    }
    if let Some((of, keys)) = InKeys::in_expression(e) {
        return on(column(of)?, Predicate::Int(IntPredicate::Keys(keys.keys().clone())));
    }
    let binary = e.downcast_ref::<BinaryExpr>()?;
    if *binary.op() == Operator::Or {
        return any_of(binary, schema);
    }
    let (c, literal, op) = match (compared(binary.left()), literal(binary.right())) {
        (Some(c), Some(l)) => (c, l, *binary.op()),
        _ => (compared(binary.right())?, literal(binary.left())?, binary.op().swap()?),
    };
    on(c, comparison(op, &literal, schema.field(c).data_type())?)
}

/// A range that all rows are in for which a disjunction is true. The rows before another one in an order by several
/// columns are `a < 5 OR a = 5 AND b < 7`, of which zones only know what `a <= 5` says.
fn implied_range(e: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<ColumnPredicate> {
    let parts = split_disjunction(e);
    let ranges = |part: &Arc<dyn PhysicalExpr>| -> Vec<(usize, i128, i128)> {
        let conjuncts = split_conjunction(part).into_iter();
        let range = |found: ColumnPredicate| match found.predicate {
            Predicate::Int(IntPredicate::Range { low, high }) => Some((found.column, low, high)),
            _ => None,
        };
        conjuncts.filter_map(|conjunct| range(predicate(conjunct, schema)?)).collect()
    };
    let (first, others) = parts.split_first().filter(|(_, others)| !others.is_empty())?;
    let others: Vec<_> = others.iter().map(|part| ranges(part)).collect();
    ranges(first).into_iter().find_map(|(column, low, high)| {
        let united = others.iter().try_fold((low, high), |(low, high), ranges| {
            let (_, l, h) = ranges.iter().find(|(of, ..)| *of == column)?;
            Some((low.min(*l), high.max(*h)))
        });
        let (low, high) = united.filter(|range| *range != (i128::MIN, i128::MAX))?;
        Some(ColumnPredicate { column, predicate: Predicate::Int(IntPredicate::Range { low, high }) })
    })
}

fn column(e: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    e.downcast_ref::<Column>().map(Column::index)
}

/// The column of a comparison. Stored columns have only one NaN, and [`comparison`] treats their two zeros as equal.
fn compared(e: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    match ScalarFunctionExpr::try_downcast_func::<Canonical>(e.as_ref()) {
        Some(call) => column(call.args().first()?),
        None => column(e),
    }
}

fn literal(e: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    e.downcast_ref::<Literal>().map(|l| l.value().clone())
}

fn boolean(column: usize, schema: &Schema, wanted: bool) -> Option<ColumnPredicate> {
    let value = i128::from(wanted);
    (schema.field(column).data_type() == &DataType::Boolean).then_some(ColumnPredicate {
        column,
        predicate: Predicate::Int(IntPredicate::Range { low: value, high: value }),
    })
}

/// A predicate that no row passes.
fn never() -> Predicate {
    Predicate::Int(IntPredicate::Range { low: 1, high: 0 })
}

fn never_bytes() -> Predicate {
    Predicate::Bytes(BytesPredicate::In(vec![]))
}

/// A literal in the representation of the codecs.
enum Key {
    Int(i128),
    Bytes(Vec<u8>),
}

/// The key of a literal for a column of `data_type`; `None` if the types differ.
fn key(value: &ScalarValue, data_type: &DataType) -> Option<Key> {
    use ScalarValue::*;
    if let (Utf8(Some(v)) | Utf8View(Some(v)) | LargeUtf8(Some(v)), DataType::Utf8View) = (value, data_type) {
        return Some(Key::Bytes(v.clone().into_bytes()));
    }
    if let (Binary(Some(v)) | BinaryView(Some(v)) | LargeBinary(Some(v)), DataType::BinaryView) = (value, data_type) {
        return Some(Key::Bytes(v.clone()));
    }
    if let (FixedSizeBinary(16, Some(v)), DataType::FixedSizeBinary(16)) = (value, data_type) {
        return Some(Key::Bytes(v.clone()));
    }
    if &value.data_type() != data_type {
        return None;
    }
    Some(Key::Int(match value {
        Boolean(Some(v)) => i128::from(*v),
        Int8(Some(v)) => (*v).into(),
        Int16(Some(v)) => (*v).into(),
        Int32(Some(v)) | Date32(Some(v)) | Time32Second(Some(v)) | Time32Millisecond(Some(v)) => (*v).into(),
        Int64(Some(v))
        | Time64Microsecond(Some(v))
        | Time64Nanosecond(Some(v))
        | TimestampSecond(Some(v), _)
        | TimestampMillisecond(Some(v), _)
        | TimestampMicrosecond(Some(v), _)
        | TimestampNanosecond(Some(v), _) => (*v).into(),
        UInt8(Some(v)) => (*v).into(),
        UInt16(Some(v)) => (*v).into(),
        UInt32(Some(v)) => (*v).into(),
        UInt64(Some(v)) => ((v ^ (1 << 63)) as i64).into(),
        Decimal128(Some(v), _, _) => *v,
        Float64(Some(v)) => f64_key(if v.is_nan() { f64::NAN } else { *v }).into(),
        Float32(Some(v)) => f32_key(if v.is_nan() { f32::NAN } else { *v }).into(),
        _ => return None,
    }))
}

/// The integer by which a value is stored, if it is stored as one.
pub fn int_key(value: &ScalarValue) -> Option<i128> {
    match key(value, &value.data_type())? {
        Key::Int(key) => Some(key),
        Key::Bytes(_) => None,
    }
}

/// The minimum and maximum of the keys that are equal to a key. The two zeros of a float are equal, and adjacent in the
/// total order.
fn equals(key: i128, data_type: &DataType) -> (i128, i128) {
    let negative_zero = i128::from(f64_key(-0.0));
    let is_zero = data_type.is_floating() && (negative_zero..=0).contains(&key);
    if is_zero { (negative_zero, 0) } else { (key, key) }
}

fn is_bytes(data_type: &DataType) -> bool {
    kind(data_type) == Kind::Bytes
}

pub fn comparison(op: Operator, value: &ScalarValue, data_type: &DataType) -> Option<Predicate> {
    if value.is_null() {
        let compares = matches!(
            op,
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        return compares.then(|| if is_bytes(data_type) { never_bytes() } else { never() });
    }
    match key(value, data_type)? {
        Key::Int(v) => {
            let range = |low, high| Predicate::Int(IntPredicate::Range { low, high });
            let (first, last) = equals(v, data_type);
            Some(match op {
                Operator::Eq => range(first, last),
                Operator::NotEq if first < last => Predicate::Int(IntPredicate::NotIn(vec![first, last])),
                Operator::NotEq => Predicate::Int(IntPredicate::NotEqual(v)),
                Operator::Lt if v == i128::MIN => never(),
                Operator::Lt => range(i128::MIN, first - 1),
                Operator::LtEq => range(i128::MIN, last),
                Operator::Gt if v == i128::MAX => never(),
                Operator::Gt => range(last + 1, i128::MAX),
                Operator::GtEq => range(first, i128::MAX),
                _ => return None,
            })
        }
        Key::Bytes(value) => {
            let bound = |inclusive| Some(BytesBound { value: value.clone(), inclusive });
            let range = |low, high| Predicate::Bytes(BytesPredicate::Range { low, high });
            Some(match op {
                Operator::Eq => Predicate::Bytes(BytesPredicate::In(vec![value])),
                Operator::NotEq => Predicate::Bytes(BytesPredicate::NotEqual(value)),
                Operator::Lt => range(None, bound(false)),
                Operator::LtEq => range(None, bound(true)),
                Operator::Gt => range(bound(false), None),
                Operator::GtEq => range(bound(true), None),
                _ => return None,
            })
        }
    }
}

fn in_list(list: &InListExpr, schema: &Schema) -> Option<ColumnPredicate> {
    let column = column(list.expr())?;
    let values: Option<Vec<ScalarValue>> = list.list().iter().map(literal).collect();
    one_of(column, values?, list.negated(), schema)
}

fn one_of(column: usize, values: Vec<ScalarValue>, negated: bool, schema: &Schema) -> Option<ColumnPredicate> {
    let data_type = schema.field(column).data_type();
    let has_null = values.iter().any(ScalarValue::is_null);
    let keys: Option<Vec<Key>> = values.iter().filter(|v| !v.is_null()).map(|v| key(v, data_type)).collect();
    let (mut ints, mut bytes) = (vec![], vec![]);
    for key in keys? {
        match key {
            Key::Int(v) => ints.extend([equals(v, data_type).0, equals(v, data_type).1]),
            Key::Bytes(v) => bytes.push(v),
        }
    }
    ints.sort_unstable();
    ints.dedup();
    bytes.sort_unstable();
    bytes.dedup();
    let predicate = match (is_bytes(data_type), negated) {
        // x NOT IN (…, NULL) is never true.
        (true, true) if has_null => never_bytes(),
        (false, true) if has_null => never(),
        (true, false) => Predicate::Bytes(BytesPredicate::In(bytes)),
        (true, true) => Predicate::Bytes(BytesPredicate::NotIn(bytes)),
        (false, false) => Predicate::Int(IntPredicate::In(ints)),
        (false, true) => Predicate::Int(IntPredicate::NotIn(ints)),
    };
    Some(ColumnPredicate { column, predicate })
}

/// `a = 1 OR a = 2 OR a IN (3, 4)`, because DataFusion expands short lists.
fn any_of(or: &BinaryExpr, schema: &Schema) -> Option<ColumnPredicate> {
    let mut values = vec![];
    let mut on = None;
    let mut todo = vec![or.left().clone(), or.right().clone()];
    while let Some(e) = todo.pop() {
        let c = if let Some(binary) = e.downcast_ref::<BinaryExpr>() {
            if *binary.op() == Operator::Or {
                todo.extend([binary.left().clone(), binary.right().clone()]);
                continue;
            }
            let (c, value) = match (column(binary.left()), literal(binary.right())) {
                (Some(c), Some(value)) => (c, value),
                _ => (column(binary.right())?, literal(binary.left())?),
            };
            values.push(Some(value).filter(|_| *binary.op() == Operator::Eq)?);
            c
        } else {
            let list = e.downcast_ref::<InListExpr>().filter(|l| !l.negated())?;
            values.extend(list.list().iter().map(literal).collect::<Option<Vec<_>>>()?);
            column(list.expr())?
        };
        if *on.get_or_insert(c) != c {
            return None;
        }
    }
    one_of(on?, values, false, schema)
}

/// `LIKE 'prefix%'` and `LIKE 'no wildcard'`.
fn like_predicate(like: &LikeExpr) -> Option<BytesPredicate> {
    if like.case_insensitive() {
        return None;
    }
    let pattern = match literal(like.pattern())? {
        ScalarValue::Utf8(Some(p)) | ScalarValue::Utf8View(Some(p)) | ScalarValue::LargeUtf8(Some(p)) => p,
        _ => return None,
    };
    let prefix = pattern.strip_suffix('%');
    let fixed = prefix.unwrap_or(&pattern);
    if fixed.contains(['%', '_', '\\']) {
        return None;
    }
    let fixed = fixed.as_bytes().to_vec();
    Some(match (prefix.is_some(), like.negated()) {
        (true, false) => BytesPredicate::Prefix(fixed),
        (true, true) => BytesPredicate::NotPrefix(fixed),
        (false, false) => BytesPredicate::In(vec![fixed]),
        (false, true) => BytesPredicate::NotEqual(fixed),
    })
}

/// Any expression, evaluated on decoded columns.
#[derive(Debug)]
pub struct ExpressionFilter {
    expression: Arc<dyn PhysicalExpr>,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl ExpressionFilter {
    /// `filter` is over the table's columns.
    pub fn new(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Self> {
        let mut found = BTreeSet::new();
        filter.apply(|e| {
            found.extend(column(e));
            Ok(TreeNodeRecursion::Continue)
        })?;
        let columns: Vec<usize> = found.into_iter().collect();
        let expression =
            remap(filter, |index| columns.iter().position(|c| *c == index).expect("all columns were found"))?;
        let expression = searched(expression)?;
        let schema = Arc::new(schema.project(&columns)?);
        Ok(ExpressionFilter { expression, columns, schema })
    }
}

impl RowFilter for ExpressionFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError> {
        let evaluate = || -> Result<Vec<u64>> {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns.to_vec(), &options)?;
            let array = self.expression.evaluate(&batch)?.into_array(rows)?;
            Ok(boolean_bits(array.as_boolean()))
        };
        evaluate().map_err(FilterError::from)
    }
}

/// A filter of a table, applied to another table in which the columns have other positions.
#[derive(Debug)]
pub struct Renumbered {
    filter: Arc<dyn RowFilter>,
    columns: Vec<usize>,
}

impl Renumbered {
    /// `places` are the positions of the columns in the other table.
    pub fn new(filter: Arc<dyn RowFilter>, places: &[usize]) -> Self {
        let columns = filter.columns().iter().map(|column| places[*column]).collect();
        Renumbered { filter, columns }
    }
}

impl RowFilter for Renumbered {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, FilterError> {
        self.filter.evaluate(columns, rows)
    }
}

/// A filter that a join or Top-N operator above makes more selective while the scan runs.
#[derive(Debug)]
struct DynamicExpression {
    filter: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    scanned: Scanned,
    /// The generation that was translated last, and the result, which threads share.
    current: Mutex<(u64, DynamicState)>,
}

impl DynamicExpression {
    fn refresh(&self, current: &mut (u64, DynamicState)) -> Result<()> {
        let generation = self.generation();
        if current.0 != generation {
            *current = (generation, self.translate()?);
        }
        Ok(())
    }

    fn translate(&self) -> Result<DynamicState> {
        let now = snapshot_physical_expr(self.filter.clone())?;
        let mut state = DynamicState::default();
        let now = with_fields(&now, &self.scanned.table.schema)?;
        for conjunct in split_conjunction(&now) {
            let said = predicate(conjunct, &self.schema).is_some();
            if !said && let Some(implied) = implied_range(conjunct, &self.schema) {
                add_predicate(implied, &mut state.predicates);
            }
            match if said { None } else { key_set(conjunct, &self.scanned.table, &self.schema)? } {
                Some(keys) => state.predicates.extend(keys.predicate()),
                None => add_static(conjunct, &self.schema, &mut state.predicates, &mut state.row_filters)?,
            }
        }
        if let Some(snapshot) = &self.scanned.snapshot {
            state.codes = code_filters(snapshot, &self.scanned.table, &state.predicates)?;
        }
        Ok(state)
    }
}

impl DynamicFilter for DynamicExpression {
    fn generation(&self) -> u64 {
        snapshot_generation(&self.filter)
    }

    fn prepare(&self) {
        if let Some(mut current) = self.current.try_lock() {
            // An error occurs again at a place that reports it.
            let _ = self.refresh(&mut current);
        }
    }

    fn current(&self) -> Result<DynamicState, String> {
        let mut current = self.current.lock();
        self.refresh(&mut current).map_err(|e| e.strip_backtrace())?;
        Ok(current.1.clone())
    }
}
