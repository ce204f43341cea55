//! Recognition of point statements.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, EmptyRelation, Expr, LogicalPlan, Operator, Projection};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use freestone_sql::ParameterNumbers;
use freestone_sql::tree::{self, ExprKind, Literal, Write};
use freestone_store::Table;
use freestone_store::schema::TableSchema;
use parking_lot::Mutex;

use super::{Action, Condition, NewValue, OnConflict, Operand, Point, Returned, Select, is_plain};
use crate::binding;
use crate::catalog::{Planner, Scope};
use crate::error::Result;
use crate::exec::described;
use crate::exec::row_queries::{Target, positions};
use crate::exec::stored_values::Places;
use crate::exec::upsert::{self, Conflict};
use crate::inputs::ArrowTable;
use crate::provider::FreestoneTable;
use crate::sql::written::Written;

/// A statement in its scope, with the types of its parameters.
struct Asked<'a> {
    planner: &'a Planner,
    scope: &'a Scope,
    written: &'a Written,
    types: &'a [DataType],
}

impl Asked<'_> {
    /// The plan of a query that is made of the statement, and the state in which it is planned.
    async fn plan(&self, scope: &Scope, query: &tree::Query) -> Result<(SessionState, LogicalPlan)> {
        let (state, made) = (self.planner.state(scope), (query, self.written));
        let plan = Box::pin(binding::described_made(self.planner, &state, scope, made, self.types)).await?;
        Ok((state, plan))
    }
}

/// Recognizes a statement for values of some types; `None` if it is no point statement.
///
/// # Errors
/// The statement cannot be planned, which the planner reports.
pub(crate) async fn recognize(
    planner: &Planner,
    scope: Scope,
    written: Arc<Written>,
    types: &[DataType],
    logged: Option<Arc<str>>,
) -> Result<Option<Point>> {
    let asked = Asked { planner, scope: &scope, written: &written, types };
    let (found, returning) = match written.write() {
        Err(_) => (query(&asked).await?, None),
        Ok(_) => match changed(&asked).await? {
            Some((found, returning)) => (Some(found), returning),
            None => (None, None),
        },
    };
    let Some((table, action)) = found else { return Ok(None) };
    let (types, name) = (types.to_vec(), table.name.clone());
    Ok(Some(Point { written, types, name, table: Mutex::new(table), logged, action, returning }))
}

/// A change of rows, and what it returns.
async fn changed(asked: &Asked<'_>) -> Result<Option<((Arc<Table>, Action), Option<Returned>)>> {
    let (write, snapshot) = (asked.written.write()?, &asked.scope.snapshot);
    let target = Target::of(asked.planner, snapshot, write)?;
    let Some(table) = snapshot.table(&target.name).cloned() else { return Ok(None) };
    let action = match write {
        Write::Insert(insert) => insertion(asked, &target, insert, &table).await?,
        Write::Update(update) => change(asked, &target, write, Some(update), &table).await?,
        Write::Delete(_) => change(asked, &target, write, None, &table).await?,
        Write::Merge(_) => None,
    };
    let Some(action) = action else { return Ok(None) };
    let returning = match described::returned(write, &target, snapshot, &table.schema)? {
        None => None,
        Some((scope, query)) => match returned(asked, &scope, &table.schema, &query).await? {
            Some(returned) => Some(returned),
            None => return Ok(None),
        },
    };
    Ok(Some(((table, action), returning)))
}

/// RETURNING, if it returns columns as they are.
async fn returned(
    asked: &Asked<'_>,
    scope: &Scope,
    table: &TableSchema,
    query: &tree::Query,
) -> Result<Option<Returned>> {
    let (state, plan) = asked.plan(scope, query).await?;
    let LogicalPlan::Projection(Projection { expr, input, .. }) = &plan else { return Ok(None) };
    let mut source = input.as_ref();
    while let LogicalPlan::SubqueryAlias(alias) = source {
        source = alias.input.as_ref();
    }
    let place = |expression: &Expr| match without_alias(expression) {
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        _ => None,
    };
    let places = expr.iter().map(place).collect::<Option<Vec<_>>>();
    let Some(places) = places.filter(|_| matches!(source, LogicalPlan::TableScan(_))) else { return Ok(None) };
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let is_typed = |(field, place): (&Arc<Field>, &usize)| {
        table.columns.get(*place).is_some_and(|column| column.data_type == *field.data_type())
    };
    Ok(schema.fields().iter().zip(&places).all(is_typed).then_some(Returned { places, schema: schema.clone() }))
}

type Found = Option<(Arc<Table>, Action)>;

async fn insertion(
    asked: &Asked<'_>,
    target: &Target<'_>,
    insert: &tree::Insert,
    table: &Arc<Table>,
) -> Result<Option<Action>> {
    let columns: Vec<String> = insert.columns.iter().map(|name| name.text.clone()).collect();
    let places = Places::named(&table.schema, &columns)?;
    let Some(cells) = cells(&table.schema, &places, insert, asked.written.numbers()) else { return Ok(None) };
    let conflict = match Conflict::of(insert, &table.schema, &places)? {
        None => None,
        Some(conflict) => match on_conflict(asked, target, table, conflict).await? {
            Some(conflict) => Some(conflict),
            None => return Ok(None),
        },
    };
    Ok(Some(Action::Insert { cells, conflict }))
}

/// The values of all columns of the one row of an INSERT.
fn cells(
    schema: &TableSchema,
    places: &Places,
    insert: &tree::Insert,
    numbers: &ParameterNumbers,
) -> Option<Vec<Operand>> {
    let tree::QueryBody::Values(rows) = &insert.rows.as_ref()?.body else { return None };
    let [given] = rows.as_slice() else { return None };
    if given.len() != places.given() || !is_plain(schema) {
        return None;
    }
    let mut operands: Vec<Operand> = schema.columns.iter().map(|_| Operand::Constant(ScalarValue::Null)).collect();
    for (cell, column) in given.iter().zip(places.targets()) {
        operands[column] = cell_operand(cell, numbers)?;
    }
    Some(operands)
}

/// What ON CONFLICT does with one row.
async fn on_conflict(
    asked: &Asked<'_>,
    target: &Target<'_>,
    table: &Arc<Table>,
    conflict: Conflict<'_>,
) -> Result<Option<OnConflict>> {
    let schema = &table.schema;
    // Floats that are equal can be stored in several ways.
    let is_exact = |column: &usize| !schema.columns[*column].data_type.is_floating();
    if !conflict.keys.iter().flatten().all(is_exact) {
        return Ok(None);
    }
    let Some(update) = conflict.update else { return Ok(Some(OnConflict { keys: conflict.keys, update: None })) };
    if update.condition.is_some() {
        return Ok(None);
    }
    let rows = update.new_values(target, schema)?;
    let source = ArrowTable::of_batches(&schema.to_arrow(), [])?;
    let tables = Arc::new(HashMap::from([(upsert::SOURCE.to_owned(), source)]));
    let scope = asked.scope.clone().with_target_rows(&table.name).with_tables(&tables);
    let (state, plan) = asked.plan(&scope, &rows.query).await?;
    let LogicalPlan::Projection(Projection { expr, input, .. }) = &plan else { return Ok(None) };
    let rows = RowInputs { table: schema, schema: input.schema(), has_new_row: true };
    if expr.len() != schema.columns.len() || !rows.has_both() {
        return Ok(None);
    }
    let values = expr.iter().map(|value| rows.new_value(&state, without_alias(value), asked.types));
    let update = values.collect::<Option<Vec<_>>>();
    Ok(update.map(|update| OnConflict { keys: conflict.keys, update: Some(update) }))
}

/// A parameter or NULL. Other literals are typed by the planner.
fn cell_operand(cell: &tree::Expr, numbers: &ParameterNumbers) -> Option<Operand> {
    match &cell.kind {
        ExprKind::Parameter(parameter) => {
            let number = numbers.number(parameter, cell.span.start)?;
            number.checked_sub(1).map(Operand::Parameter)
        }
        ExprKind::Literal(Literal::Null) => Some(Operand::Constant(ScalarValue::Null)),
        ExprKind::Literal(Literal::Boolean(value)) => Some(Operand::Constant(ScalarValue::Boolean(Some(*value)))),
        _ => None,
    }
}

/// The number of a parameter, from 0.
fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

async fn query(asked: &Asked<'_>) -> Result<Found> {
    let Ok((query, _)) = asked.written.query() else { return Ok(None) };
    let types = asked.types;
    let (state, plan) = asked.plan(asked.scope, query).await?;
    let Some(found) = Matched::of(&plan) else { return Ok(None) };
    let Some(conditions) = found.conditions(types) else { return Ok(None) };
    let (mut reads, mut places) = (vec![], vec![]);
    for expression in found.projected {
        let Some(column) = found.column(without_alias(expression)) else { return Ok(None) };
        let place = reads.iter().position(|known| *known == column).unwrap_or(reads.len());
        if place == reads.len() {
            reads.push(column);
        }
        places.push(place);
    }
    let table = found.table.clone();
    let nulls = types.iter().map(ScalarValue::try_new_null).collect::<Result<Vec<_>, _>>()?;
    let plan = plan.with_param_values(nulls)?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    let schema = Arc::new(plan.schema().as_arrow().clone());
    let typed =
        |(field, place): (&Arc<Field>, &usize)| *field.data_type() == table.schema.columns[reads[*place]].data_type;
    if !schema.fields().iter().zip(&places).all(typed) {
        return Ok(None);
    }
    Ok(Some((table, Action::Select(Select { conditions, reads, places, schema }))))
}

async fn change(
    asked: &Asked<'_>,
    target: &Target<'_>,
    write: &Write,
    update: Option<&tree::Update>,
    table: &Arc<Table>,
) -> Result<Option<Action>> {
    let types = asked.types;
    let (scope, rows) = described::rows_of(write, target, &asked.scope.snapshot, table)?;
    let (state, plan) = asked.plan(&scope, &rows.query).await?;
    let Some(found) = Matched::of(&plan).filter(|found| found.table.id == table.id) else { return Ok(None) };
    let Some(conditions) = found.conditions(types) else { return Ok(None) };
    let Some(update) = update else { return Ok(Some(Action::Delete(conditions))) };
    let mut assigned = vec![false; table.schema.columns.len()];
    for assignment in &update.set {
        positions(&table.schema, assignment)?.into_iter().for_each(|column| assigned[column] = true);
    }
    let Some((_, new)) = found.projected.split_first() else { return Ok(None) };
    if new.len() != assigned.len() || !is_plain(&table.schema) {
        return Ok(None);
    }
    let values = new.iter().map(|value| found.inputs().new_value(&state, without_alias(value), types));
    let Some(values) = values.collect::<Option<Vec<_>>>() else { return Ok(None) };
    Ok(Some(Action::Update { conditions, values, assigned }))
}

fn without_alias(expression: &Expr) -> &Expr {
    match expression {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// A projection of a filter of a scan of a native table.
struct Matched<'p> {
    table: Arc<Table>,
    projected: &'p [Expr],
    filter: &'p Expr,
    /// The columns of the table, under the name that the statement gives it.
    schema: &'p DFSchema,
}

impl<'p> Matched<'p> {
    fn of(plan: &'p LogicalPlan) -> Option<Self> {
        let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else { return None };
        let LogicalPlan::Filter(filter) = input.as_ref() else { return None };
        let schema = filter.input.schema().as_ref();
        let mut input = filter.input.as_ref();
        while let LogicalPlan::SubqueryAlias(alias) = input {
            input = alias.input.as_ref();
        }
        let LogicalPlan::TableScan(scan) = input else { return None };
        if scan.projection.is_some() || !scan.filters.is_empty() || scan.fetch.is_some() {
            return None;
        }
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<FreestoneTable>().filter(|provider| !provider.is_past())?.table().clone();
        Some(Matched { table, projected: expr, filter: &filter.predicate, schema })
    }

    /// The position in the table of an expression that is a column of it.
    fn column(&self, expression: &Expr) -> Option<usize> {
        self.inputs().column(expression)
    }

    fn inputs(&self) -> RowInputs<'_> {
        RowInputs { table: &self.table.schema, schema: self.schema, has_new_row: false }
    }

    /// The filter as comparisons of columns with values, which include all columns of a key.
    fn conditions(&self, types: &[DataType]) -> Option<Vec<Condition>> {
        let conditions = split_conjunction(self.filter).into_iter().map(|part| self.condition(part, types));
        let conditions = conditions.collect::<Option<Vec<_>>>()?;
        let is_fixed = |column: usize| conditions.iter().any(|condition| condition.column == column);
        let schema = &self.table.schema;
        let keys = schema.unique_keys.iter().map(|key| &key.columns).chain([&schema.primary_key]);
        let mut keys = keys.filter(|key| !key.is_empty()).filter_map(|key| schema.positions(key).ok());
        keys.any(|key| key.into_iter().all(is_fixed)).then_some(conditions)
    }

    fn condition(&self, conjunct: &Expr, types: &[DataType]) -> Option<Condition> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else { return None };
        let (column, value) = match self.column(left) {
            Some(column) => (column, right.as_ref()),
            None => (self.column(right)?, left.as_ref()),
        };
        let (value, value_type) = match value {
            Expr::Placeholder(placeholder) => {
                let number = number(&placeholder.id)?;
                (Operand::Parameter(number), types.get(number)?.clone())
            }
            Expr::Literal(value, _) => (Operand::Constant(value.clone()), value.data_type()),
            _ => return None,
        };
        is_compared(&value_type, &self.table.schema.columns[column].data_type).then_some(Condition { column, value })
    }
}

/// The columns of which new values are computed: those of the row that is there, and those of the new row.
struct RowInputs<'p> {
    table: &'p TableSchema,
    /// As the statement names them. The id of the row follows the columns of the table.
    schema: &'p DFSchema,
    has_new_row: bool,
}

impl RowInputs<'_> {
    /// Whether the columns are those of the table, the id and those of the new row: a table with computed columns has more.
    fn has_both(&self) -> bool {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let count = self.table.columns.len();
        let is_row = |names: &[&str]| names.iter().eq(self.table.columns.iter().map(|column| &column.name));
        names.len() == 2 * count + 1 && is_row(&names[..count]) && is_row(&names[count + 1..])
    }

    /// The position of a column of the row that is there, or behind them, of the new row.
    fn column(&self, expression: &Expr) -> Option<usize> {
        let Expr::Column(column) = expression else { return None };
        let (at, count) = (self.schema.maybe_index_of_column(column)?, self.table.columns.len());
        match at {
            at if at < count => Some(at),
            at if self.has_new_row && at > count => Some(at - 1),
            _ => None,
        }
    }

    fn new_value(&self, state: &SessionState, expression: &Expr, types: &[DataType]) -> Option<NewValue> {
        if let Some(column) = self.column(expression) {
            return Some(NewValue::Column(column));
        }
        match expression {
            Expr::Placeholder(placeholder) => Some(NewValue::Given(Operand::Parameter(number(&placeholder.id)?))),
            Expr::Literal(value, _) => Some(NewValue::Given(Operand::Constant(value.clone()))),
            other => self.computed(state, other, types).map(NewValue::Computed),
        }
    }

    /// An expression over the columns of the table, followed by the parameters. Texts and NULLs without a type have the
    /// type that the context asks for, which the planner knows.
    fn computed(&self, state: &SessionState, expression: &Expr, types: &[DataType]) -> Option<Arc<dyn PhysicalExpr>> {
        if !is_arithmetic(expression, types) {
            return None;
        }
        let of_table = |row: &'static str| {
            let columns = self.table.columns.iter();
            columns.map(move |column| {
                let field = Field::new(&column.name, column.data_type.clone(), column.nullable);
                (Some(TableReference::bare(row)), Arc::new(field))
            })
        };
        let given = TableReference::bare("given");
        let new_row = self.has_new_row.then(|| of_table("new")).into_iter().flatten();
        let fields = of_table("row").chain(new_row);
        let given_fields = types.iter().enumerate().map(|(at, data_type)| {
            (Some(given.clone()), Arc::new(Field::new(at.to_string(), data_type.clone(), true)))
        });
        let schema = DFSchema::new_with_metadata(fields.chain(given_fields).collect(), HashMap::new()).ok()?;
        let renamed = expression.clone().transform(|part| {
            let column = match &part {
                Expr::Column(_) => self.column(&part).map(|at| match at.checked_sub(self.table.columns.len()) {
                    None => Column::new(Some("row"), &self.table.columns[at].name),
                    Some(at) => Column::new(Some("new"), &self.table.columns[at].name),
                }),
                Expr::Placeholder(placeholder) => {
                    number(&placeholder.id).map(|at| Column::new(Some(given.clone()), at.to_string()))
                }
                _ => None,
            };
            Ok(column.map_or_else(|| Transformed::no(part), |column| Transformed::yes(Expr::Column(column))))
        });
        let relation = EmptyRelation { produce_one_row: false, schema: Arc::new(schema.clone()) };
        let input = Arc::new(LogicalPlan::EmptyRelation(relation));
        let plan = LogicalPlan::Projection(Projection::try_new(vec![renamed.ok()?.data], input).ok()?);
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).ok()?;
        let LogicalPlan::Projection(Projection { expr, input, .. }) = plan else { return None };
        match (expr.as_slice(), input.as_ref()) {
            ([expression], LogicalPlan::EmptyRelation(_)) => {
                state.create_physical_expr(without_alias(expression).clone(), &schema).ok()
            }
            _ => None,
        }
    }
}

/// Whether an expression consists of sums, differences and products of columns, parameters and literals that are
/// numbers.
fn is_arithmetic(expression: &Expr, types: &[DataType]) -> bool {
    let is_number = |data_type: &DataType| data_type.is_integer() || *data_type == DataType::Float64;
    let mut is_one = true;
    let visited = expression.apply(|part| {
        is_one &= match part {
            Expr::Column(_) => true,
            Expr::Placeholder(placeholder) => {
                number(&placeholder.id).and_then(|number| types.get(number)).is_some_and(is_number)
            }
            Expr::Literal(value, _) => is_number(&value.data_type()),
            Expr::BinaryExpr(BinaryExpr { op: Operator::Plus | Operator::Minus | Operator::Multiply, .. }) => true,
            _ => false,
        };
        Ok(if is_one { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && is_one
}

/// Whether `column = value` compares the values as they are stored: of one type, or two integers.
pub(super) fn is_compared(value: &DataType, column: &DataType) -> bool {
    let is_text = matches!(value, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_same = value == column || value.is_integer() && column.is_integer();
    is_same || is_text && *column == DataType::Utf8View
}
