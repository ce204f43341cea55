//! `MERGE INTO table USING source ON condition WHEN … THEN …`.
//!
//! One query joins the source with the table. For each of its rows it says which clause applies, the first one whose
//! condition holds, and the values that this clause gives.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::sql::sqlparser::ast;
use freestone_store::schema::TableSchema;
use freestone_store::{Snapshot, WriteTransaction};

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::defaults;
use crate::exec::dml::{Appending, find, set_values, stored_rows};
use crate::exec::returning::Returning;
use crate::exec::stored_values::{Places, check_count};
use crate::exec::upsert::changed_twice;
use crate::exec::write::WriteContext;
use crate::internal_names::ROW_ID_COLUMN;
use crate::sql::assignments;
use crate::sql::merge_forms::NOTHING;
use crate::sql::names::{identifier, object_name};
use crate::sql::parameters::Parameters;
use crate::sql::statement::{parse_query, quote};
use crate::sql::visitor;
use crate::text_types;

/// The column that is NULL if there is no row of the source.
const HERE: &str = "freestone$here";
/// Stands for the source while the query is built.
const SOURCE: &str = "freestone$merged";

/// What a clause does with a row.
enum Then {
    Update,
    Delete,
    Insert(Places),
    Nothing,
}

/// A MERGE as a query.
pub(crate) struct MergeQuery {
    /// Its rows: the row of the table, the number of the clause, and the values of each clause.
    pub query: Box<ast::Query>,
    clauses: Vec<Then>,
}

/// The name of the table that a MERGE changes.
pub(crate) fn merge_target(merge: &ast::Merge) -> Result<String> {
    match &merge.table {
        ast::TableFactor::Table { name, .. } => object_name(name),
        _ => Err(Error::unsupported("MERGE INTO takes a table's name")),
    }
}

/// The name by which expressions know the table.
pub(crate) fn merge_alias(merge: &ast::Merge, target: &str) -> String {
    let own = || target.rsplit_once('.').map_or(target, |(_, own)| own).to_owned();
    match &merge.table {
        ast::TableFactor::Table { alias: Some(alias), .. } => identifier(&alias.name),
        _ => own(),
    }
}

impl MergeQuery {
    /// The query of a MERGE into a table of this name and schema.
    ///
    /// # Errors
    /// A clause names columns that the table does not have, or the source has no name.
    pub fn of(merge: ast::Merge, target: &str, schema: &TableSchema) -> Result<MergeQuery> {
        let names = Names { table: quoted(&merge_alias(&merge, target)), source: source_name(&merge.source)? };
        let mut tests: Vec<ast::Expr> = vec![];
        let mut values: Vec<(usize, Vec<ast::Expr>)> = vec![];
        let mut clauses = vec![];
        let kinds: Vec<ast::MergeClauseKind> = merge.clauses.iter().map(|clause| clause.clause_kind).collect();
        for (at, mut clause) in merge.clauses.into_iter().enumerate() {
            names.qualify(&mut clause, schema);
            tests.push(names.test(clause.clause_kind, clause.predicate));
            let (then, given) = then(clause.action, schema, &names)?;
            clauses.push(then);
            values.push((at, given));
        }
        let mut query = names.joined(merge.source, *merge.on, &kinds)?;
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            let number = |at: usize| ast::Expr::value(ast::Value::Number(at.to_string(), false));
            let mut items = vec![case(&tests, tests.len(), number)];
            for (at, given) in values {
                let null = || ast::Expr::value(ast::Value::Null);
                let of = |value: ast::Expr| {
                    let chosen =
                        |value: ast::Expr| case(&tests, at + 1, |test| if test == at { value.clone() } else { null() });
                    assignments::within(value, chosen)
                };
                items.extend(given.into_iter().map(of));
            }
            let items = items.into_iter().enumerate();
            let item = |(at, expr)| ast::SelectItem::ExprWithAlias { expr, alias: quoted(&format!("freestone${at}")) };
            select.projection.extend(items.map(item));
        }
        assignments::evaluate_once(&mut query)?;
        Ok(MergeQuery { query, clauses })
    }
}

fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}

fn source_name(source: &ast::TableFactor) -> Result<ast::Ident> {
    let (name, alias) = match source {
        ast::TableFactor::Table { name, alias, .. } => (name.0.last().and_then(|part| part.as_ident()), alias),
        ast::TableFactor::Derived { alias, .. } => (None, alias),
        _ => return Err(Error::unsupported("MERGE USING takes a table or a query in parentheses")),
    };
    let name = alias.as_ref().map(|alias| &alias.name).or(name);
    let name = name.ok_or_else(|| {
        Error::invalid("the query behind USING has no name")
            .with_hint("give it one: MERGE INTO t USING (SELECT …) AS s ON …")
    })?;
    Ok(quoted(&identifier(name)))
}

/// `CASE WHEN test THEN value … END`, of the first `count` tests.
fn case(tests: &[ast::Expr], count: usize, value: impl Fn(usize) -> ast::Expr) -> ast::Expr {
    let when = |(at, test): (usize, &ast::Expr)| ast::CaseWhen { condition: test.clone(), result: value(at) };
    ast::Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: tests.iter().take(count).enumerate().map(when).collect(),
        else_result: None,
    }
}

/// What a clause does, and the values that it gives.
fn then(action: ast::MergeAction, schema: &TableSchema, names: &Names) -> Result<(Then, Vec<ast::Expr>)> {
    let is_nothing = |name: &ast::ObjectName| {
        name.0.last().and_then(|part| part.as_ident()).is_some_and(|name| name.value == NOTHING)
    };
    match action {
        ast::MergeAction::Delete { .. } => Ok((Then::Delete, vec![])),
        ast::MergeAction::Update(update) => {
            if matches!(&update.assignments[..], [ast::Assignment { target: ast::AssignmentTarget::ColumnName(name), .. }] if is_nothing(name))
            {
                return Ok((Then::Nothing, vec![]));
            }
            let values = set_values(schema, update.assignments, &names.table)?.into_iter().map(|item| match item {
                ast::SelectItem::ExprWithAlias { expr, .. } => Ok(expr),
                other => Err(Error::unsupported(format!("{other} in MERGE"))),
            });
            Ok((Then::Update, values.collect::<Result<_>>()?))
        }
        ast::MergeAction::Insert(insert) => {
            if insert.columns.first().is_some_and(is_nothing) {
                return Ok((Then::Nothing, vec![]));
            }
            let places = Places::named(schema, &insert.columns)?;
            let ast::MergeInsertKind::Values(mut values) = insert.kind else {
                return Err(Error::unsupported("INSERT ROW in MERGE").with_hint("write INSERT (columns) VALUES (…)"));
            };
            let (Some(row), true) = (values.rows.pop(), values.rows.is_empty()) else {
                return Err(Error::invalid("INSERT in MERGE takes one row of values"));
            };
            check_count(places.given(), row.content.len())?;
            defaults::check_given(schema, places.targets().into_iter().zip(row.content.iter().map(Some)))?;
            let (places, values) = defaults::completed(places, row.content, schema)?;
            Ok((Then::Insert(places), values))
        }
    }
}

/// The names of the two sides.
struct Names {
    table: ast::Ident,
    source: ast::Ident,
}

impl Names {
    /// A clause sees the columns of both sides only if there is a row of both.
    fn qualify(&self, clause: &mut ast::MergeClause, schema: &TableSchema) {
        let side = match clause.clause_kind {
            ast::MergeClauseKind::Matched => return,
            ast::MergeClauseKind::NotMatchedBySource => &self.table,
            ast::MergeClauseKind::NotMatched | ast::MergeClauseKind::NotMatchedByTarget => &self.source,
        };
        let mut change = |part: &mut ast::Expr| {
            if let ast::Expr::Identifier(name) = part
                && schema.columns.iter().any(|column| column.name == identifier(name))
            {
                *part = ast::Expr::CompoundIdentifier(vec![side.clone(), name.clone()]);
            }
        };
        clause.predicate.iter_mut().for_each(|predicate| visitor::own_expressions_mut(predicate, &mut change));
        match &mut clause.action {
            ast::MergeAction::Insert(ast::MergeInsertExpr { kind: ast::MergeInsertKind::Values(values), .. }) => {
                let cells = values.rows.iter_mut().flat_map(|row| row.content.iter_mut());
                cells.for_each(|cell| visitor::own_expressions_mut(cell, &mut change));
            }
            ast::MergeAction::Update(update) => {
                let values = update.assignments.iter_mut().map(|assignment| &mut assignment.value);
                values.for_each(|value| visitor::own_expressions_mut(value, &mut change));
            }
            _ => {}
        }
    }

    /// Whether a clause applies to a row of the join.
    fn test(&self, kind: ast::MergeClauseKind, predicate: Option<ast::Expr>) -> ast::Expr {
        let column =
            |side: &ast::Ident, name: &str| Box::new(ast::Expr::CompoundIdentifier(vec![side.clone(), quoted(name)]));
        let and = |left: ast::Expr, right: ast::Expr| ast::Expr::BinaryOp {
            left: Box::new(left),
            op: ast::BinaryOperator::And,
            right: Box::new(right),
        };
        let (row, here) = (column(&self.table, ROW_ID_COLUMN), column(&self.source, HERE));
        let test = match kind {
            ast::MergeClauseKind::Matched => and(ast::Expr::IsNotNull(row), ast::Expr::IsNotNull(here)),
            ast::MergeClauseKind::NotMatchedBySource => ast::Expr::IsNull(here),
            ast::MergeClauseKind::NotMatched | ast::MergeClauseKind::NotMatchedByTarget => ast::Expr::IsNull(row),
        };
        match predicate {
            Some(predicate) => and(test, ast::Expr::Nested(Box::new(predicate))),
            None => test,
        }
    }

    /// The join, with the row of the table as its only column.
    fn joined(
        &self,
        source: ast::TableFactor,
        on: ast::Expr,
        kinds: &[ast::MergeClauseKind],
    ) -> Result<Box<ast::Query>> {
        use ast::MergeClauseKind::{Matched, NotMatchedBySource};
        let (table, name) = (&self.table, &self.source);
        let wants_table_alone = kinds.contains(&NotMatchedBySource);
        let wants_source_alone = kinds.iter().any(|kind| !matches!(kind, Matched | NotMatchedBySource));
        let join = match (wants_source_alone, wants_table_alone) {
            (true, true) => "FULL JOIN",
            (true, false) => "LEFT JOIN",
            (false, true) => "RIGHT JOIN",
            (false, false) => "JOIN",
        };
        let mut query = parse_query(&format!(
            "SELECT {table}.{ROW_ID_COLUMN} FROM (SELECT *, TRUE AS {} FROM {}) AS {name} {join} {} AS {table} ON TRUE",
            quote(HERE),
            quote(SOURCE),
            quote(TARGET),
        ))?;
        let unexpected = || Error::new(ErrorKind::Internal, "internal error: the join of a MERGE has another form");
        let ast::SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
        let [ast::TableWithJoins { relation: ast::TableFactor::Derived { subquery, .. }, joins }] =
            select.from.as_mut_slice()
        else {
            return Err(unexpected());
        };
        let [ast::Join { join_operator, .. }] = joins.as_mut_slice() else { return Err(unexpected()) };
        match join_operator {
            ast::JoinOperator::Join(constraint)
            | ast::JoinOperator::Inner(constraint)
            | ast::JoinOperator::Left(constraint)
            | ast::JoinOperator::LeftOuter(constraint)
            | ast::JoinOperator::Right(constraint)
            | ast::JoinOperator::RightOuter(constraint)
            | ast::JoinOperator::FullOuter(constraint) => *constraint = ast::JoinConstraint::On(on),
            _ => return Err(unexpected()),
        }
        let ast::SetExpr::Select(inner) = subquery.body.as_mut() else { return Err(unexpected()) };
        let Some(from) = inner.from.first_mut() else { return Err(unexpected()) };
        from.relation = source;
        Ok(query)
    }
}

/// What the clauses of a MERGE do with all rows.
#[derive(Default)]
struct Changes {
    row_ids: HashSet<u64>,
    /// The places of deleted rows, which are read again for RETURNING.
    deleted: Vec<u64>,
    updated: Vec<RecordBatch>,
    inserted: Vec<RecordBatch>,
}

/// Performs a MERGE.
pub(crate) fn merge(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    mut merge: ast::Merge,
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = merge_target(&merge)?;
    let mut items = returning_items(&mut merge)?;
    let returning = Returning::take(&mut items, &merge_alias(&merge, &target));
    let table = find(transaction, &target, context.row_lock)?;
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target);
    let MergeQuery { query, clauses } = MergeQuery::of(merge, &target, &table.schema)?;
    let (state, plan) = context.plan(&scope, ast::Statement::Query(query), parameters)?;
    context.prepare_append(transaction, None)?;
    let mut changes = Changes::default();
    for batch in context.run(&state, &plan)? {
        context.check_cancelled()?;
        changes.add(&batch?, &clauses, &table.schema, context)?;
    }
    let deleted = match &returning {
        Some(_) => rows_at(context, &snapshot, &target, &table.schema, &changes.deleted)?,
        None => vec![],
    };
    let changed = changes.row_ids.len() + changes.inserted.iter().map(RecordBatch::num_rows).sum::<usize>();
    let written = changes.write(transaction, &target, &table.schema)?;
    let Some(returning) = returning else { return Ok(Outcome::Affected { verb: "MERGE", rows: changed as u64 }) };
    let [updated, inserted] = written;
    let groups = [("UPDATE", updated), ("DELETE", deleted), ("INSERT", inserted)];
    returning.rows_of_merge(context, &snapshot, parameters, &table.schema, groups)
}

/// Takes the list of a RETURNING out of a MERGE.
pub(crate) fn returning_items(merge: &mut ast::Merge) -> Result<Option<Vec<ast::SelectItem>>> {
    match merge.output.take() {
        None => Ok(None),
        Some(ast::OutputClause::Returning { select_items, .. }) => Ok(Some(select_items)),
        Some(ast::OutputClause::Output { .. }) => Err(Error::unsupported("OUTPUT: RETURNING is the same")),
    }
}

impl Changes {
    /// Adds the rows of a batch of the query.
    fn add(
        &mut self,
        batch: &RecordBatch,
        clauses: &[Then],
        schema: &TableSchema,
        context: &WriteContext,
    ) -> Result<()> {
        let missing = || Error::new(ErrorKind::Internal, "internal error: the clauses of a MERGE are missing");
        let clause = batch.column(1).as_primitive_opt::<Int64Type>().ok_or_else(missing)?.clone();
        let mut at = 2;
        for (number, then) in clauses.iter().enumerate() {
            let width = match then {
                Then::Update => schema.columns.len(),
                Then::Insert(places) => places.given(),
                Then::Delete | Then::Nothing => 0,
            };
            let columns: Vec<usize> = [0].into_iter().chain(at..at + width).collect();
            at += width;
            let applies: BooleanArray = clause.iter().map(|clause| Some(clause == Some(number as i64))).collect();
            let rows = filter_record_batch(&batch.project(&columns)?, &applies)?;
            if rows.num_rows() == 0 {
                continue;
            }
            context.hold(rows.get_array_memory_size())?;
            let values = rows.project(&(1..columns.len()).collect::<Vec<_>>())?;
            match then {
                Then::Nothing => {}
                Then::Insert(places) => {
                    self.inserted.push(stored_rows(&values, places, &text_types::written_schema(schema), 0)?)
                }
                Then::Update => {
                    self.take_rows(&rows)?;
                    self.updated.push(stored_rows(
                        &values,
                        &Places::all(schema),
                        &text_types::written_schema(schema),
                        0,
                    )?);
                }
                Then::Delete => {
                    let deleted = self.take_rows(&rows)?;
                    self.deleted.extend(deleted);
                }
            }
        }
        Ok(())
    }

    /// The rows of the table that a clause changes. None of them was changed before.
    fn take_rows(&mut self, rows: &RecordBatch) -> Result<Vec<u64>> {
        let ids = rows.column(0).as_primitive::<UInt64Type>().values().to_vec();
        if ids.iter().any(|id| !self.row_ids.insert(*id)) {
            return Err(changed_twice("MERGE"));
        }
        Ok(ids)
    }

    /// Writes the changes. Returns the updated and the inserted rows.
    fn write(
        self,
        transaction: &mut WriteTransaction,
        target: &str,
        schema: &TableSchema,
    ) -> Result<[Vec<RecordBatch>; 2]> {
        let appender = match self.row_ids.is_empty() {
            true => transaction.appender(target)?,
            false => transaction.replacing_appender(target)?,
        };
        let mut appender = Appending::new(appender, schema, Places::all(schema));
        for rows in self.updated.iter().chain(&self.inserted) {
            appender.push(rows)?;
        }
        let appended = appender.finish()?;
        if !self.row_ids.is_empty() {
            transaction.delete_changed(target, self.row_ids, &|_| true)?;
        }
        transaction.append(appended)?;
        Ok([self.updated, self.inserted])
    }
}

/// The rows of a table at some places.
fn rows_at(
    context: &WriteContext,
    snapshot: &Arc<Snapshot>,
    target: &str,
    schema: &TableSchema,
    row_ids: &[u64],
) -> Result<Vec<RecordBatch>> {
    if row_ids.is_empty() {
        return Ok(vec![]);
    }
    let columns = schema.columns.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(", ");
    let scope = Scope::new(snapshot.clone()).with_target_rows(target);
    let query = format!("SELECT {}, {columns} FROM {}", quote(ROW_ID_COLUMN), quote(TARGET));
    let (state, plan) = context.plan_text(&scope, &query)?;
    let wanted: HashSet<u64> = row_ids.iter().copied().collect();
    let mut found = vec![];
    for batch in context.run(&state, &plan)? {
        let batch = batch?;
        let ids = batch.column(0).as_primitive::<UInt64Type>();
        let is_wanted: BooleanArray = ids.values().iter().map(|id| Some(wanted.contains(id))).collect();
        let rows = filter_record_batch(&batch.project(&(1..batch.num_columns()).collect::<Vec<_>>())?, &is_wanted)?;
        if rows.num_rows() > 0 {
            let rows = stored_rows(&rows, &Places::all(schema), &text_types::written_schema(schema), 0)?;
            found.push(rows);
        }
    }
    Ok(vec![concat_batches(&schema.to_arrow(), &found)?])
}
