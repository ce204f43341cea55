//! WITH.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use datafusion_common::TableReference;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableSource};
use freestone_sql::Span;
use freestone_sql::tree::{Name, ObjectName, Query, QueryBody, SetLink, SetOperator, WithBody, WithPart};

use crate::binder::Binder;
use crate::error::{At, Result, invalid, unsupported};
use crate::names::named;
use crate::plans::{self, Rows};
use crate::reading::{self, STATE_SCHEMA};

/// A part of WITH that is in sight.
#[derive(Debug, Clone)]
pub(crate) struct Cte {
    pub name: String,
    /// Whether it is the row of each key of a recursion: `recurring.name`.
    pub is_state: bool,
    pub rows: Rows,
}

/// A table that the steps of a recursive query read.
pub(crate) struct WorkTable {
    pub name: String,
    source: Arc<dyn TableSource>,
    rows: Rows,
}

impl Binder<'_> {
    /// Makes the parts of a query's WITH known.
    pub fn with_parts(&mut self, query: &Query) -> Result<()> {
        let Some(with) = &query.with else { return Ok(()) };
        for (at, part) in with.parts.iter().enumerate() {
            let WithBody::Query(body) = &part.body else {
                return Err(unsupported(part.span, "a statement that writes in WITH"));
            };
            let before = with.parts.get(..at).unwrap_or_default();
            if before.iter().any(|other| other.name.text == part.name.text) {
                return Err(invalid(part.name.span, format!("WITH has two parts {}", part.name.text)));
            }
            let has_key = !part.key.is_empty();
            if has_key && !with.recursive {
                return Err(invalid(part.span, "USING KEY is for recursive queries: WITH RECURSIVE"));
            }
            let rows = match has_key || with.recursive && names_itself(body, &part.name.text) {
                true => self.recursive(part, body)?,
                false => self.query(body)?,
            };
            let rows = renamed(rows, &part.columns, &part.name)?;
            let name = part.name.text.clone();
            let plan = self.world.catalog.shared(&name, rows.plan, part.materialized).at(part.span)?;
            self.ctes.push(Cte { name, is_state: false, rows: Rows { plan, names: rows.names } });
        }
        Ok(())
    }

    /// The rows of a part of WITH.
    pub fn part_of_with(&self, name: &ObjectName) -> Option<Rows> {
        let (name, is_state) = match name.parts.as_slice() {
            [only] => (&only.text, false),
            [schema, name] if schema.text == STATE_SCHEMA => (&name.text, true),
            _ => return None,
        };
        let found = self.ctes.iter().rev().find(|cte| cte.name == *name && cte.is_state == is_state);
        found.map(|cte| cte.rows.clone())
    }

    /// A query that reads its own rows.
    fn recursive(&mut self, part: &WithPart, body: &Query) -> Result<Rows> {
        let span = part.span;
        if body.order_by.is_some() || body.limit.is_some() || body.offset.is_some() {
            return Err(invalid(span, "a recursive query has no ORDER BY, LIMIT and OFFSET")
                .with_hint("write them in the query that reads it"));
        }
        let in_sight = self.ctes.len();
        let rows = self.with_parts(body).and_then(|()| self.steps(part, &body.body, span));
        self.ctes.truncate(in_sight);
        rows
    }

    fn steps(&mut self, part: &WithPart, body: &QueryBody, span: Span) -> Result<Rows> {
        let QueryBody::Chain { first, rest } = body else {
            return Err(invalid(span, "a recursive query is a UNION of its first rows and of those of each step"));
        };
        let Some((last, before)) = rest.split_last() else { return Err(invalid(span, "a chain has operators")) };
        if last.operator != SetOperator::Union || last.by_name {
            return Err(invalid(last.span, "a recursive query is a UNION of its first rows and of those of each step"));
        }
        let rows = self.set_operations(first, before, span)?;
        let rows = renamed(rows, &part.columns, &part.name)?;
        // The names of the first rows are those of all, in the plan as well.
        let schema = rows.plan.schema().clone();
        let columns = (0..rows.names.len()).map(|at| Expr::Column(plans::column(&schema, at)));
        let columns = columns.zip(rows.names.iter().map(String::as_str)).collect();
        let first = plans::project(rows.plan, named(columns)).at(span)?;
        match part.key.is_empty() {
            true => self.with_step(first, rows.names, &part.name, last),
            false => self.keyed_steps(Rows { plan: first, names: rows.names }, part, last),
        }
    }

    fn with_step(&mut self, first: LogicalPlan, names: Vec<String>, name: &Name, last: &SetLink) -> Result<Rows> {
        let span = last.span;
        let work = self.work_table(name, nullable(first.schema().inner()), &names, span)?;
        let step = self.step(last, names.len(), vec![work.part(name, false)])?;
        if !work.is_read(&step.plan).at(span)? {
            return self.set_operation(Rows { plan: first, names }, step, last);
        }
        let builder = LogicalPlanBuilder::from(first).to_recursive_query(work.name, step.plan, !last.all).at(span)?;
        Ok(Rows { plan: builder.build().at(span)?, names })
    }

    /// A table that the steps of a recursive query read.
    pub fn work_table(&mut self, name: &Name, schema: SchemaRef, names: &[String], span: Span) -> Result<WorkTable> {
        let name = self.qualifiers.next(&name.text);
        let source = self.world.catalog.work_table(&name, schema).at(span)?;
        let scanned = TableReference::bare(name.as_str());
        let plan = LogicalPlanBuilder::scan(scanned, source.clone(), None).at(span)?.build().at(span)?;
        Ok(WorkTable { name, source, rows: Rows { plan, names: names.to_vec() } })
    }

    /// The rows of a step, which sees these tables.
    pub fn step(&mut self, last: &SetLink, columns: usize, tables: Vec<Cte>) -> Result<Rows> {
        let in_sight = self.ctes.len();
        self.ctes.extend(tables);
        let step = self.body(&last.operand, last.span);
        self.ctes.truncate(in_sight);
        let step = step?;
        if step.names.len() != columns {
            let message = format!("a step has {} columns, and the first rows {columns}", step.names.len());
            return Err(invalid(last.span, message));
        }
        Ok(step)
    }
}

impl WorkTable {
    /// The table as a part of WITH.
    pub fn part(&self, name: &Name, is_state: bool) -> Cte {
        Cte { name: name.text.clone(), is_state, rows: self.rows.clone() }
    }

    /// Whether a plan reads it.
    pub fn is_read(&self, plan: &LogicalPlan) -> datafusion_common::Result<bool> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                found |= Arc::ptr_eq(&scan.source, &self.source);
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    }
}

/// The same columns, which may be NULL.
pub(crate) fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether a query names a table so.
fn names_itself(query: &Query, name: &str) -> bool {
    let is_it = |named: &reading::Named| match named {
        reading::Named::Table(table) => matches!(table.parts.as_slice(), [only] if only.text == name),
        _ => false,
    };
    reading::named_tables(query).iter().any(is_it)
}

/// Rows whose first columns have other names.
fn renamed(rows: Rows, columns: &[Name], name: &Name) -> Result<Rows> {
    let Rows { plan, mut names } = rows;
    if columns.len() > names.len() {
        let message = format!("{} has {} columns, and is given {} names", name.text, names.len(), columns.len());
        return Err(invalid(name.span, message));
    }
    for (own, new) in names.iter_mut().zip(columns) {
        own.clone_from(&new.text);
    }
    Ok(Rows { plan, names })
}
