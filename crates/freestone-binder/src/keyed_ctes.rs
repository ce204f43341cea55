//! `WITH RECURSIVE … USING KEY`: a recursion that keeps one row for each key, which later rows change.

use arrow_schema::{Field, Schema};
use datafusion_expr::LogicalPlan;
use datafusion_expr::expr_rewriter::coerce_plan_expr_for_schema;
use freestone_sql::tree::{
    Call, ExprKind, GroupBy, GroupKey, Name, ObjectName, Query, QueryBody, Select, SelectItem, SetLink, Table,
    TableKind, WithPart,
};

use crate::binder::Binder;
use crate::ctes::{Cte, nullable};
use crate::error::{At, Result, invalid, unknown};
use crate::plans::Rows;
use crate::scopes::matching;
use crate::world::{KeyedColumn, KeyedRecursion};

impl Binder<'_> {
    /// The rows of keys after all steps.
    pub fn keyed_steps(&mut self, first: Rows, part: &WithPart, last: &SetLink) -> Result<Rows> {
        let span = last.span;
        let Rows { plan: first, names } = first;
        let (columns, calls) = key_columns(part, &names)?;
        let own = nullable(first.schema().inner());
        let candidates = self.work_table(&part.name, own.clone(), &names, span)?;
        let totals = match calls.is_empty() {
            true => None,
            false => Some(self.totals(part, &names, &columns, calls, candidates.part(&part.name, false))?),
        };
        let field = |(at, column): (usize, &KeyedColumn)| match (column, &totals) {
            (KeyedColumn::Total(place), Some(totals)) => {
                totals.schema().field(*place).as_ref().clone().with_name(own.field(at).name())
            }
            _ => own.field(at).clone(),
        };
        let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
        let schema = nullable(&Schema::new(fields));
        let before = if last.all { own } else { schema.clone() };
        let before = self.work_table(&part.name, before, &names, span)?;
        let state = self.work_table(&part.name, schema.clone(), &names, span)?;
        let step = self.step(last, names.len(), vec![before.part(&part.name, false), state.part(&part.name, true)])?;
        let repeats = before.is_read(&step.plan).at(span)? || state.is_read(&step.plan).at(span)?;
        let step = coerce_plan_expr_for_schema(step.plan, first.schema()).at(span)?;
        let (before, state, candidates) = (before.name, state.name, candidates.name);
        let is_distinct = !last.all;
        let recursion =
            KeyedRecursion { first, step, totals, before, state, candidates, columns, schema, is_distinct, repeats };
        Ok(Rows { plan: self.world.catalog.keyed_recursion(recursion).at(span)?, names })
    }

    /// The keys and the aggregates of each: `SELECT keys, calls FROM candidates GROUP BY keys`.
    fn totals(
        &mut self,
        part: &WithPart,
        names: &[String],
        columns: &[KeyedColumn],
        calls: Vec<SelectItem>,
        candidates: Cte,
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
        self.ctes.push(candidates);
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
