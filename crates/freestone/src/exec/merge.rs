//! `MERGE INTO table USING source ON condition WHEN … THEN …`.
//!
//! One query joins the source with the table. For each of its rows it says which clause applies, the first one whose
//! condition holds, and the values that this clause gives.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::{concat_batches, filter_record_batch};
use datafusion::arrow::datatypes::{Int64Type, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone_sql::Span;
use freestone_sql::tree::{
    Assignment, Expr, ExprKind, Join, JoinCondition, JoinKind, Literal, Matched, Merge, MergeAction, MergeClause,
    MergeColumns, Name, Select, Table, TableKind, Write,
};
use freestone_store::schema::TableSchema;
use freestone_store::{Snapshot, WriteTransaction};

use crate::catalog::{Scope, TARGET};
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::exec::defaults;
use crate::exec::dml::{Appending, find, stored_rows};
use crate::exec::returning::Returning;
use crate::exec::row_queries::{NewValue, RowQuery, Target, position};
use crate::exec::stored_values::{Places, check_count};
use crate::exec::upsert::{changed_twice, qualify};
use crate::exec::write::WriteContext;
use crate::internal_names::ROW_ID_COLUMN;
use crate::sql::parameters::Parameters;
use crate::sql::statement::quote;
use crate::sql::trees;

/// The column that is NULL if there is no row of the source.
const HERE: &str = "__here";

/// What a clause does with a row.
enum Then {
    Update,
    Delete,
    Insert(Places),
    Nothing,
    Error,
}

/// A MERGE as a query.
pub(crate) struct MergeQuery {
    /// Its rows: the row of the table, the number of the clause, and the values of each clause.
    pub rows: RowQuery,
    clauses: Vec<Then>,
}

impl MergeQuery {
    /// The query of a MERGE into a table of this schema.
    ///
    /// # Errors
    /// A clause names columns that the table does not have, or the source has no name.
    pub fn of(merge: &Merge, target: &Target, schema: &TableSchema) -> Result<MergeQuery> {
        let sides = Sides { target, source: source_name(&merge.source)?, span: merge.table.span };
        let mut tests: Vec<Expr> = vec![];
        let mut values: Vec<(usize, Vec<NewValue>)> = vec![];
        let mut clauses = vec![];
        for (at, clause) in merge.clauses.iter().enumerate() {
            let mut clause = clause.clone();
            sides.qualify(&mut clause, schema);
            tests.extend(sides.test(clause.matched, clause.condition.take()));
            let (then, given) = sides.then(&clause.action, schema)?;
            clauses.push(then);
            values.push((at, given));
        }
        let span = sides.span;
        let number = case(&tests, tests.len(), span, |at| trees::number(at, span));
        let mut items = vec![NewValue::Value(target.column(ROW_ID_COLUMN)), NewValue::Value(number)];
        for (at, given) in values {
            let null = || trees::literal(Literal::Null, span);
            let chosen =
                |value: Expr| case(&tests, at + 1, span, |test| if test == at { value.clone() } else { null() });
            items.extend(given.into_iter().map(|value| value.within(chosen)));
        }
        let named = items.into_iter().enumerate().map(|(at, value)| (value, format!("__value {at}")));
        let rows = RowQuery::of(target, sides.joined(merge), named);
        Ok(MergeQuery { rows, clauses })
    }
}

/// The name by which expressions know the source.
fn source_name(source: &Table) -> Result<&str> {
    let own = match (&source.alias, &source.kind) {
        (Some(alias), _) => Some(&alias.name),
        (None, TableKind::Named { name, .. }) => name.parts.last(),
        (None, TableKind::Query { .. }) => None,
        _ => return Err(Error::unsupported("MERGE USING takes a table or a query in parentheses")),
    };
    own.map(|name| name.text.as_str()).ok_or_else(|| {
        Error::invalid("the query behind USING has no name")
            .with_hint("give it one: MERGE INTO t USING (SELECT …) AS s ON …")
    })
}

/// `CASE WHEN test THEN value … END`, of the first `count` tests.
fn case(tests: &[Expr], count: usize, span: Span, value: impl Fn(usize) -> Expr) -> Expr {
    let branches = tests.iter().take(count).enumerate().map(|(at, test)| (test.clone(), value(at)));
    trees::case(branches.collect(), span)
}

/// The two sides of the join.
struct Sides<'m> {
    target: &'m Target<'m>,
    source: &'m str,
    span: Span,
}

impl Sides<'_> {
    /// A clause sees the columns of both sides only if there is a row of both.
    fn qualify(&self, clause: &mut MergeClause, schema: &TableSchema) {
        let side = match clause.matched {
            Matched::Matched => return,
            Matched::NotBySource => self.target.alias,
            Matched::NotByTarget => self.source,
        };
        let values: Vec<&mut Expr> = match &mut clause.action {
            MergeAction::Insert { values, .. } => values.iter_mut().collect(),
            MergeAction::Update(set) => set.iter_mut().map(|assignment| &mut assignment.value).collect(),
            MergeAction::Error(message) => message.iter_mut().collect(),
            MergeAction::Delete | MergeAction::Nothing | MergeAction::UpdateAll(_) | MergeAction::InsertAll(_) => {
                vec![]
            }
        };
        clause.condition.iter_mut().chain(values).for_each(|value| qualify(value, schema, side));
    }

    /// Whether a clause applies to a row of the join.
    fn test(&self, matched: Matched, condition: Option<Expr>) -> Option<Expr> {
        let row = self.target.column(ROW_ID_COLUMN);
        let here = trees::column(&[self.source, HERE], self.span);
        let tests = match matched {
            Matched::Matched => vec![trees::is_null(row, true), trees::is_null(here, true)],
            Matched::NotBySource => vec![trees::is_null(here, false)],
            Matched::NotByTarget => vec![trees::is_null(row, false)],
        };
        trees::conjunction(tests.into_iter().chain(condition))
    }

    /// What a clause does, and the values that it gives.
    fn then(&self, action: &MergeAction, schema: &TableSchema) -> Result<(Then, Vec<NewValue>)> {
        match action {
            // The columns of the source are known when it runs.
            MergeAction::Nothing | MergeAction::UpdateAll(_) | MergeAction::InsertAll(_) => Ok((Then::Nothing, vec![])),
            MergeAction::Error(message) => {
                let null = || trees::literal(Literal::Null, self.span);
                Ok((Then::Error, vec![NewValue::Value(message.clone().unwrap_or_else(null))]))
            }
            MergeAction::Delete => Ok((Then::Delete, vec![])),
            MergeAction::Update(set) => {
                let values = self.target.values_of_set(schema, set)?;
                Ok((Then::Update, values.into_iter().map(|(value, _)| value).collect()))
            }
            MergeAction::Insert { columns, values } => {
                let columns: Vec<String> = columns.iter().map(|name| name.text.clone()).collect();
                let places = Places::named(schema, &columns)?;
                let defaults = || vec![Expr { kind: ExprKind::Default, span: self.span }; places.given()];
                let values = if values.is_empty() { defaults() } else { values.clone() };
                check_count(places.given(), values.len())?;
                defaults::check_given(schema, places.targets().into_iter().zip(values.iter().map(Some)))?;
                let (places, values) = defaults::completed(places, &values, schema, self.span)?;
                Ok((Then::Insert(places), values.into_iter().map(NewValue::Value).collect()))
            }
        }
    }

    /// The join.
    fn joined(&self, merge: &Merge) -> Select {
        let span = self.span;
        let has = |wanted: Matched| merge.clauses.iter().any(|clause| clause.matched == wanted);
        let kind = match (has(Matched::NotByTarget), has(Matched::NotBySource)) {
            (true, true) => JoinKind::Full,
            (true, false) => JoinKind::Left,
            (false, true) => JoinKind::Right,
            (false, false) => JoinKind::Inner,
        };
        let condition = match &merge.condition {
            JoinCondition::Using(columns) => {
                let equal = |name: &Name| {
                    let side = |side: &str| trees::column(&[side, &name.text], name.span);
                    trees::equal(side(self.target.alias), side(self.source))
                };
                let equal = trees::conjunction(columns.iter().map(equal));
                equal.map_or(JoinCondition::None, |condition| JoinCondition::On(Box::new(condition)))
            }
            other => other.clone(),
        };
        let here = trees::item(trees::literal(Literal::Boolean(true), span), HERE);
        let items = vec![trees::star(span), here];
        let rows = Select { from: vec![merge.source.clone()], ..Select::of_items(items, span) };
        let first = trees::derived(Box::new(trees::query_of(rows)), self.source, span);
        let join = Join { kind, asof: false, table: self.target.table(), condition, span };
        let kind = TableKind::Join { first: Box::new(first), rest: vec![join] };
        Select { from: vec![Table { kind, alias: None, sample: None, span }], ..self.target.select() }
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
    (write, merge): (&Write, &Merge),
    parameters: &Parameters,
) -> Result<Outcome> {
    let target = Target::of(context.planner(), &transaction.snapshot(), write)?;
    let returning = Returning::of(&target);
    let table = find(transaction, &target.name, context.row_lock)?;
    let snapshot = transaction.snapshot();
    let scope = Scope::new(snapshot.clone()).with_target_rows(&target.name);
    let merge = with_columns(context, &scope, merge, &table.schema, parameters)?;
    let MergeQuery { rows, clauses } = MergeQuery::of(&merge, &target, &table.schema)?;
    let (state, plan) = context.plan_made(&scope, &rows.query, parameters)?;
    let plan = rows.finished(plan)?;
    context.prepare_append(transaction, None)?;
    let mut changes = Changes::default();
    for batch in context.run(&state, &plan)? {
        context.check_cancelled()?;
        changes.add(&batch?, &clauses, &table.schema, context)?;
    }
    let deleted = match &returning {
        Some(_) => rows_at(context, &snapshot, &target.name, &table.schema, &changes.deleted)?,
        None => vec![],
    };
    let changed = changes.row_ids.len() + changes.inserted.iter().map(RecordBatch::num_rows).sum::<usize>();
    let written = changes.write(context, transaction, &target.name, &table.schema)?;
    let Some(returning) = returning else { return Ok(Outcome::Affected { verb: "MERGE", rows: changed as u64 }) };
    let [updated, inserted] = written;
    let groups = [("UPDATE", updated), ("DELETE", deleted), ("INSERT", inserted)];
    returning.rows_of_merge(context, &snapshot, parameters, &table.schema, groups)
}

/// The MERGE with the columns of its source in the clauses that give all of them.
fn with_columns<'m>(
    context: &WriteContext,
    scope: &Scope,
    merge: &'m Merge,
    schema: &TableSchema,
    parameters: &Parameters,
) -> Result<Cow<'m, Merge>> {
    let gives_all =
        |clause: &MergeClause| matches!(clause.action, MergeAction::UpdateAll(_) | MergeAction::InsertAll(_));
    if !merge.clauses.iter().any(gives_all) {
        return Ok(Cow::Borrowed(merge));
    }
    let given = context.names_of_columns(scope, &trees::rows_of_source(merge), parameters)?;
    let (source, span) = (source_name(&merge.source)?, merge.table.span);
    let columns = |how| -> Result<Vec<Name>> {
        Ok(columns_for(&given, how, schema)?.into_iter().map(|name| trees::name(name, span)).collect())
    };
    let values = || given.iter().map(|name| trees::column(&[source, name], span));
    let assignment = |(name, value)| Assignment { columns: vec![name], is_row: false, value };
    let mut merge = merge.clone();
    for clause in &mut merge.clauses {
        clause.action = match &clause.action {
            MergeAction::UpdateAll(how) => {
                MergeAction::Update(columns(*how)?.into_iter().zip(values()).map(assignment).collect())
            }
            MergeAction::InsertAll(how) => MergeAction::Insert { columns: columns(*how)?, values: values().collect() },
            _ => continue,
        };
    }
    Ok(Cow::Owned(merge))
}

/// The columns of the table to which those of the source belong.
fn columns_for<'n>(given: &'n [String], how: MergeColumns, schema: &'n TableSchema) -> Result<Vec<&'n str>> {
    match how {
        MergeColumns::ByPosition => {
            check_count(schema.columns.len(), given.len())?;
            Ok(schema.columns.iter().map(|column| column.name.as_str()).collect())
        }
        MergeColumns::ByName => given.iter().map(|name| position(schema, name).map(|_| name.as_str())).collect(),
    }
}

/// The error of the clause THEN ERROR, with the message that it gives for the first of its rows.
fn error_of_clause(messages: &RecordBatch) -> Result<Error> {
    let options = FormatOptions::default().with_null("a row meets the condition of THEN ERROR");
    let message = ArrayFormatter::try_new(messages.column(0), &options)?.value(0).to_string();
    Ok(Error::invalid(format!("MERGE: {message}")))
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
                Then::Error => 1,
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
                Then::Error => return Err(error_of_clause(&values)?),
                Then::Insert(places) => {
                    self.inserted.push(stored_rows(&values, places, &context.written_schema(schema), 0)?)
                }
                Then::Update => {
                    self.take_rows(&rows)?;
                    self.updated.push(stored_rows(&values, &Places::all(schema), &context.written_schema(schema), 0)?);
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
        context: &WriteContext,
        transaction: &mut WriteTransaction,
        target: &str,
        schema: &TableSchema,
    ) -> Result<[Vec<RecordBatch>; 2]> {
        let appender = match self.row_ids.is_empty() {
            true => transaction.appender(target)?,
            false => transaction.replacing_appender(target)?,
        };
        let mut appender = Appending::new(context, appender, schema, Places::all(schema));
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
            let rows = stored_rows(&rows, &Places::all(schema), &context.written_schema(schema), 0)?;
            found.push(rows);
        }
    }
    Ok(vec![concat_batches(&schema.to_arrow(), &found)?])
}
