//! `WITH RECURSIVE … USING KEY`: a recursion that keeps one row for each key, which later rows change.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use datafusion_common::TableReference;
use datafusion_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion_expr::{LogicalPlan, LogicalPlanBuilder, TableSource};
use freestone_sql::Span;
use freestone_sql::tree::{
    Call, ExprKind, GroupBy, GroupKey, Name, ObjectName, Query, QueryBody, Select, SelectItem, SetLink, Table,
    TableKind, WithPart,
};

use crate::binder::Binder;
use crate::ctes::{Cte, reads};
use crate::error::{At, Result, invalid, unknown};
use crate::plans::Rows;
use crate::scopes::matching;
use crate::world::{KeyedColumn, KeyedRecursion};

/// A table that a recursion reads.
struct WorkTable {
    name: String,
    source: Arc<dyn TableSource>,
    rows: Rows,
}

impl Binder<'_> {
    /// The rows of keys after all steps.
    pub fn keyed_steps(&mut self, first: Rows, part: &WithPart, last: &SetLink) -> Result<Rows> {
        let span = last.span;
        let Rows { plan: first, names } = first;
        let (columns, calls) = key_columns(part, &names)?;
        let own: SchemaRef = Arc::new(nullable(first.schema().inner().fields().iter().map(AsRef::as_ref)));
        let candidates = self.work(&part.name, own.clone(), &names, span)?;
        let totals = match calls.is_empty() {
            true => None,
            false => Some(self.totals(part, &names, &columns, calls, candidates.rows)?),
        };
        let field = |(at, column): (usize, &KeyedColumn)| match (column, &totals) {
            (KeyedColumn::Total(place), Some(totals)) => {
                totals.schema().field(*place).as_ref().clone().with_name(own.field(at).name())
            }
            _ => own.field(at).clone(),
        };
        let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
        let schema: SchemaRef = Arc::new(nullable(fields.iter()));
        let before = if last.all { own } else { schema.clone() };
        let before = self.work(&part.name, before, &names, span)?;
        let state = self.work(&part.name, schema.clone(), &names, span)?;
        let in_sight = self.ctes.len();
        self.ctes.push(Cte { name: part.name.text.clone(), is_state: false, rows: before.rows });
        self.ctes.push(Cte { name: part.name.text.clone(), is_state: true, rows: state.rows });
        let step = self.body(&last.operand, span);
        self.ctes.truncate(in_sight);
        let step = step?;
        if step.names.len() != names.len() {
            let message = format!("a step has {} columns, and the first rows {}", step.names.len(), names.len());
            return Err(invalid(span, message));
        }
        let repeats = reads(&step.plan, &before.source).at(span)? || reads(&step.plan, &state.source).at(span)?;
        let step = coerce_plan_expr_for_schema(step.plan, first.schema()).at(span)?;
        let (before, state, candidates) = (before.name, state.name, candidates.name);
        let is_distinct = !last.all;
        let recursion =
            KeyedRecursion { first, step, totals, before, state, candidates, columns, schema, is_distinct, repeats };
        Ok(Rows { plan: self.world.catalog.keyed_recursion(recursion).at(span)?, names })
    }

    /// A table of a recursion.
    fn work(&mut self, name: &Name, schema: SchemaRef, names: &[String], span: Span) -> Result<WorkTable> {
        let name = self.qualifiers.next(&name.text);
        let source = self.world.catalog.work_table(&name, schema).at(span)?;
        let scanned = TableReference::bare(name.as_str());
        let plan = LogicalPlanBuilder::scan(scanned, source.clone(), None).at(span)?.build().at(span)?;
        Ok(WorkTable { name, source, rows: Rows { plan, names: names.to_vec() } })
    }

    /// The keys and the aggregates of each: `SELECT keys, calls FROM candidates GROUP BY keys`.
    fn totals(
        &mut self,
        part: &WithPart,
        names: &[String],
        columns: &[KeyedColumn],
        calls: Vec<SelectItem>,
        candidates: Rows,
    ) -> Result<LogicalPlan> {
        let span = part.span;
        let of_name = |name: Name| ObjectName { span: name.span, parts: vec![name] };
        let column = |name: &String| {
            let name = Name { text: name.clone(), quoted: true, span };
            freestone_sql::tree::Expr { kind: ExprKind::Column(of_name(name)), span }
        };
        let keys = columns.iter().zip(names).filter(|(column, _)| **column == KeyedColumn::Key);
        let keys: Vec<_> = keys.map(|(_, name)| column(name)).collect();
        let items = keys.iter().map(|key| SelectItem { value: key.clone(), alias: None });
        let mut select = Select::of_items(items.chain(calls).collect(), span);
        let kind = TableKind::Named { name: of_name(part.name.clone()), version: None };
        select.from = vec![Table { kind, alias: None, sample: None, span }];
        select.group_by = GroupBy::Keys(keys.into_iter().map(GroupKey::Value).collect());
        let in_sight = self.ctes.len();
        self.ctes.push(Cte { name: part.name.text.clone(), is_state: false, rows: candidates });
        let rows = self.query(&Query::of(QueryBody::Select(Box::new(select)), span));
        self.ctes.truncate(in_sight);
        Ok(rows?.plan)
    }
}

/// What the columns are by USING KEY, and the calls of aggregates in the order of their columns among the totals.
fn key_columns(part: &WithPart, names: &[String]) -> Result<(Vec<KeyedColumn>, Vec<SelectItem>)> {
    let place = |name: &Name| {
        let found = matching(names.iter().map(String::as_str), (&name.text, name.quoted));
        let known = || names.iter().map(String::as_str);
        found.first().copied().ok_or_else(|| unknown(name.span, "column", &name.text, known()))
    };
    let mut columns = vec![KeyedColumn::Last; names.len()];
    let mut calls = vec![];
    for item in &part.key {
        match (&item.value.kind, &item.alias) {
            (ExprKind::Column(name), None) if name.parts.len() == 1 => {
                columns[place(&name.parts[0])?] = KeyedColumn::Key
            }
            (ExprKind::Call(call), alias) if call.over.is_none() => {
                calls.push((destination(call, alias.as_ref(), item)?, item))
            }
            _ => {
                let message = "USING KEY has columns, and calls of aggregates";
                return Err(invalid(item.value.span, message).with_hint("USING KEY (a, min(b), count(*) AS c)"));
            }
        }
    }
    let keys = columns.iter().filter(|column| **column == KeyedColumn::Key).count();
    if keys == 0 {
        return Err(invalid(part.span, "USING KEY has one column at least that is no aggregate"));
    }
    let mut items = vec![];
    for (name, item) in calls {
        let at = place(&name)?;
        let message = match columns[at] {
            KeyedColumn::Last => {
                columns[at] = KeyedColumn::Total(keys + items.len());
                items.push(SelectItem { value: item.value.clone(), alias: None });
                continue;
            }
            KeyedColumn::Key => format!("{} is part of the key, and the place of an aggregate", name.text),
            KeyedColumn::Total(_) => format!("{} is the place of two aggregates", name.text),
        };
        return Err(invalid(item.value.span, message).with_hint("name another column: USING KEY (a, min(b) AS c)"));
    }
    Ok((columns, items))
}

/// The column in whose place an aggregate stands: its name, or the first column that it reads.
fn destination(call: &Call, alias: Option<&Name>, item: &SelectItem) -> Result<Name> {
    let column = |value: &freestone_sql::tree::Expr| match &value.kind {
        ExprKind::Column(name) => name.parts.last().cloned(),
        _ => None,
    };
    let first = || call.arguments.iter().find_map(|argument| column(&argument.value));
    alias.cloned().or_else(first).ok_or_else(|| {
        let message =
            "an aggregate in USING KEY that reads no column needs the name of the column in whose place it stands";
        invalid(item.value.span, message).with_hint("count(*) AS c")
    })
}

/// A schema of these fields, which may be NULL.
fn nullable<'a>(fields: impl Iterator<Item = &'a Field>) -> Schema {
    Schema::new(fields.map(|field| field.clone().with_nullable(true)).collect::<Vec<_>>())
}
