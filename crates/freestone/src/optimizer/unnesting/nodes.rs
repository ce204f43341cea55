//! Lifts the operators of a plan, from the leaves up.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, ExprSchemable, Filter, Limit, LogicalPlan, Projection,
    Sort, SortExpr, SubqueryAlias, Union, Unnest, Values, Window, lit,
};

use super::attach::Over;
use super::domain::Key;
use super::expressions::{column, columns, conjuncts, filter, named, plain, project};
use super::lifted::Lifted;
use super::scopes::{Scopes, depends, has_subquery, is_open};
use super::{Unnester, refused};

impl Unnester {
    /// Unnests a plan that uses no outer queries. Only uncorrelated scalar subqueries remain in it.
    pub fn closed(&self, plan: LogicalPlan, scopes: &Scopes) -> Result<LogicalPlan> {
        let schema = plan.schema().clone();
        let shown = plan.display().to_string();
        let lifted = self.lift(plan, scopes, false)?;
        if !lifted.is_closed() {
            let node = shown.split(':').next().unwrap_or_default();
            return Err(refused(&format!("{node} over columns of the outer query at this place")));
        }
        lifted.under(&schema)
    }

    /// Lifts a plan, so that it is evaluated once for all rows of its outer queries. With `is_set`, only its distinct
    /// rows matter.
    pub fn lift(&self, plan: LogicalPlan, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        if !depends(&plan) {
            return Ok(Lifted::of(plan));
        }
        match plan {
            LogicalPlan::Projection(node) => self.lift_projection(node, scopes, is_set),
            LogicalPlan::Filter(node) => self.lift_filter(node, scopes, is_set),
            LogicalPlan::Join(node) => self.lift_join(node, scopes, is_set),
            LogicalPlan::Aggregate(node) => self.lift_aggregate(node, scopes),
            LogicalPlan::Window(node) => self.lift_window(node, scopes),
            LogicalPlan::Sort(node) => self.lift_sort(node, scopes, is_set),
            LogicalPlan::Limit(node) => self.lift_limit(node, scopes),
            LogicalPlan::Distinct(Distinct::All(input)) => self.lift_distinct(input, scopes, is_set),
            LogicalPlan::Distinct(Distinct::On(node)) => self.lift_distinct_on(node, scopes),
            LogicalPlan::Union(node) => self.lift_union(node, scopes, is_set),
            LogicalPlan::Values(node) => self.lift(values_as_union(node)?, scopes, is_set),
            LogicalPlan::Unnest(node) => self.lift_unnest(node, scopes),
            LogicalPlan::Subquery(node) => {
                self.lift(Arc::unwrap_or_clone(node.subquery), &scopes.seen_laterally(), is_set)
            }
            LogicalPlan::SubqueryAlias(node) => {
                let schema = node.input.schema().clone();
                let lifted = self.lift(Arc::unwrap_or_clone(node.input), scopes, is_set)?;
                if !lifted.is_closed() {
                    return Ok(lifted);
                }
                let is_single = lifted.is_single;
                let alias = SubqueryAlias::try_new(Arc::new(lifted.under(&schema)?), node.alias)?;
                Ok(Lifted { is_single, ..Lifted::of(LogicalPlan::SubqueryAlias(alias)) })
            }
            LogicalPlan::RecursiveQuery(node) => {
                let closed = LogicalPlan::RecursiveQuery(node);
                let closed = closed.map_children(|child| Ok(Transformed::yes(self.closed(child, scopes)?)))?.data;
                Ok(Lifted::of(closed))
            }
            other => {
                if other.expressions().iter().any(|e| has_subquery(e) || is_open(e)) {
                    let shown = other.display().to_string();
                    return Err(refused(&format!("a subquery in {}", shown.split(':').next().unwrap_or_default())));
                }
                let closed = other.map_children(|child| Ok(Transformed::yes(self.closed(child, scopes)?)))?.data;
                Ok(Lifted::of(closed.recompute_schema()?))
            }
        }
    }

    /// Lifts an input, for expressions over it.
    pub fn over<'a>(&'a self, input: Arc<LogicalPlan>, scopes: &'a Scopes, is_set: bool) -> Result<Over<'a>> {
        let schema = input.schema().clone();
        let lifted = self.lift(Arc::unwrap_or_clone(input), scopes, is_set)?;
        Ok(Over::new(self, lifted, schema, scopes).for_set(is_set))
    }

    fn lift_projection(&self, node: Projection, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        let here = node.expr.iter().any(has_subquery);
        let mut over = self.over(node.input, scopes, is_set)?;
        if here {
            over.scope()?;
        }
        let mut empty = over.lifted.empty.take();
        let output = over.expressions(node.expr.clone())?;
        if let Some(values) = &mut empty {
            let schema = over.schema.clone();
            let absent = Lifted { output: std::mem::take(values), ..Lifted::of(over.lifted.plan.clone()) };
            *values = Over::new(self, absent, schema, scopes).expressions(node.expr)?;
        }
        let output: Vec<Expr> = output.into_iter().map(Expr::unalias).collect();
        let mut lifted = over.lifted;
        lifted.empty = empty;
        if lifted.is_closed() && !output.iter().any(is_open) {
            let output = output.into_iter().enumerate().map(|(at, e)| named(e, &node.schema, at)).collect();
            let is_single = lifted.is_single;
            return Ok(Lifted { is_single, ..Lifted::of(project(lifted.plan, output)?) });
        }
        let mut lifted = lifted.projected(self, output)?;
        self.shorten(&mut lifted, scopes)?;
        Ok(lifted)
    }

    /// Computes long expressions over outer references as columns, so that they are not repeated inside each other.
    fn shorten(&self, lifted: &mut Lifted, scopes: &Scopes) -> Result<()> {
        const NODES_MAX: usize = 100;
        if lifted.output.iter().all(|e| crate::expressions::size(e) <= NODES_MAX) {
            return Ok(());
        }
        self.complete(lifted, scopes)?;
        let mut output = std::mem::take(&mut lifted.output);
        self.bind(lifted, &mut output, scopes)?;
        *lifted = lifted.clone().projected(self, output)?;
        Ok(())
    }

    fn lift_filter(&self, node: Filter, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        let mut over = self.over(node.input, scopes, is_set)?;
        self.complete(&mut over.lifted, scopes)?;
        over.filter(conjuncts(Some(node.predicate)))?;
        Ok(over.lifted)
    }

    fn lift_window(&self, node: Window, scopes: &Scopes) -> Result<Lifted> {
        let here = node.window_expr.iter().any(has_subquery);
        let mut over = self.over(node.input.clone(), scopes, false)?;
        let mut all = over.expressions(node.window_expr.clone())?;
        let mut lifted = over.lifted;
        self.complete(&mut lifted, scopes)?;
        let keys = self.settle(&mut lifted, &mut all, scopes)?;
        if keys.is_empty() && !here {
            let input = Arc::new(lifted.under(node.input.schema())?);
            return Ok(Lifted::of(LogicalPlan::Window(Window::try_new(node.window_expr, input)?)));
        }
        let mut windows = vec![];
        for e in all {
            let partitioned = e.transform_up(|e| match e {
                Expr::WindowFunction(mut call) => {
                    call.params.partition_by.extend(keys.iter().map(|key| key.inner.clone()));
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                }
                e => Ok(Transformed::no(e)),
            })?;
            windows.push(partitioned.data.unalias().alias(self.name("w")));
        }
        let width = lifted.plan.schema().fields().len();
        let window = Window::try_new(windows, Arc::new(lifted.plan))?;
        lifted.output.extend((width..window.schema.fields().len()).map(|at| column(&window.schema, at)));
        lifted.plan = LogicalPlan::Window(window);
        Ok(lifted)
    }

    fn lift_sort(&self, node: Sort, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        if let Some(fetch) = node.fetch {
            let fetch = Some(Box::new(lit(i64::try_from(fetch).unwrap_or(i64::MAX))));
            let input = Arc::new(LogicalPlan::Sort(Sort { fetch: None, ..node }));
            return self.lift_limit(Limit { skip: None, fetch, input }, scopes);
        }
        let mut over = self.over(node.input, scopes, is_set)?;
        if !over.lifted.is_closed() {
            // The sort has no effect, because the join with the outer query does not preserve the order.
            return Ok(over.lifted);
        }
        let expr = sorted(&mut over, node.expr)?;
        if !over.lifted.is_closed() || expr.iter().any(|by| is_open(&by.expr)) {
            return Ok(over.lifted);
        }
        over.lifted.plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(over.lifted.plan), fetch: None });
        Ok(over.lifted)
    }

    /// Numbers the rows per outer row, and keeps those with the numbers that the limit allows.
    fn lift_limit(&self, node: Limit, scopes: &Scopes) -> Result<Lifted> {
        if node.skip.iter().chain(&node.fetch).any(|e| has_subquery(e) || is_open(e)) {
            return Err(refused("LIMIT or OFFSET by a column or a subquery"));
        }
        let with_input =
            |input| Arc::new(LogicalPlan::Limit(Limit { input, skip: node.skip.clone(), fetch: node.fetch.clone() }));
        let (input, by) = match Arc::unwrap_or_clone(node.input.clone()) {
            // The order is that of the input of the projection.
            LogicalPlan::Projection(projection) => {
                let (input, schema) = (with_input(projection.input), projection.schema);
                let projection = Projection::try_new_with_schema(projection.expr, input, schema)?;
                return self.lift_projection(projection, scopes, false);
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let alias = SubqueryAlias::try_new(with_input(alias.input), alias.alias)?;
                return self.lift(LogicalPlan::SubqueryAlias(alias), scopes, false);
            }
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (input, expr),
            other => (Arc::new(other), vec![]),
        };
        let mut over = self.over(input, scopes, false)?;
        let by = sorted(&mut over, by)?;
        let mut lifted = over.lifted;
        self.complete(&mut lifted, scopes)?;
        if lifted.is_closed() && !by.iter().any(|by| is_open(&by.expr)) {
            let mut plan = lifted.plan;
            if !by.is_empty() {
                plan = LogicalPlan::Sort(Sort { expr: by, input: Arc::new(plan), fetch: None });
            }
            let is_single = is_one(node.fetch.as_deref());
            lifted.plan = LogicalPlan::Limit(Limit { skip: node.skip, fetch: node.fetch, input: Arc::new(plan) });
            return Ok(Lifted { is_single, ..lifted });
        }
        let mut expressions: Vec<Expr> = by.iter().map(|by| by.expr.clone()).collect();
        let keys = self.settle(&mut lifted, &mut expressions, scopes)?;
        let by = by.into_iter().zip(expressions).map(|(by, expr)| SortExpr { expr, ..by }).collect();
        self.numbered(lifted, &keys, by, node)
    }

    fn numbered(&self, mut lifted: Lifted, keys: &[Key], by: Vec<SortExpr>, node: Limit) -> Result<Lifted> {
        let partition = keys.iter().map(|key| key.inner.clone()).collect();
        let name = self.name("row");
        let number = row_number().partition_by(partition).order_by(by).build()?.alias(name.clone());
        let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(lifted.plan))?);
        let number = plain(name).cast_to(&DataType::Int64, window.schema())?;
        let given = |e: Option<Box<Expr>>| e.filter(|e| !matches!(&**e, Expr::Literal(value, _) if value.is_null()));
        let skip = given(node.skip).map(|skip| *skip);
        let mut conditions = vec![];
        if let Some(skip) = &skip {
            conditions.push(number.clone().gt(skip.clone()));
        }
        lifted.is_single = is_one(node.fetch.as_deref());
        if let Some(fetch) = given(node.fetch) {
            let number = match skip {
                Some(skip) => number - skip,
                None => number,
            };
            conditions.push(number.lt_eq(*fetch));
        }
        lifted.plan = filter(window, conditions)?;
        Ok(lifted)
    }

    fn lift_distinct(&self, input: Arc<LogicalPlan>, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        let schema = input.schema().clone();
        let mut lifted = self.lift(Arc::unwrap_or_clone(input), scopes, is_set)?;
        if lifted.is_closed() {
            let input = Arc::new(lifted.under(&schema)?);
            return Ok(Lifted::of(LogicalPlan::Distinct(Distinct::All(input))));
        }
        if is_set {
            return Ok(lifted);
        }
        self.complete(&mut lifted, scopes)?;
        let keys = self.settle(&mut lifted, &mut [], scopes)?;
        let is_single = lifted.is_single;
        let lifted = self.with_keys(lifted, keys, &schema)?;
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(lifted.plan)));
        Ok(Lifted { plan, is_single, ..lifted })
    }

    fn lift_distinct_on(&self, node: DistinctOn, scopes: &Scopes) -> Result<Lifted> {
        let mut over = self.over(node.input, scopes, false)?;
        let mut all = over.expressions(node.on_expr.iter().chain(&node.select_expr).cloned().collect())?;
        let sort = sorted(&mut over, node.sort_expr.clone().unwrap_or_default())?;
        all.extend(sort.iter().map(|by| by.expr.clone()));
        let mut lifted = over.lifted;
        self.complete(&mut lifted, scopes)?;
        let keys = self.settle(&mut lifted, &mut all, scopes)?;
        let by = all.split_off(node.on_expr.len() + node.select_expr.len());
        let mut sort: Vec<SortExpr> = sort.into_iter().zip(by).map(|(s, expr)| SortExpr { expr, ..s }).collect();
        let mut select = all.split_off(node.on_expr.len());
        let mut on = all;
        if !sort.is_empty() {
            let at = on.len().min(sort.len());
            sort.splice(at..at, keys.iter().map(|key| key.inner.clone().sort(true, false)));
        }
        on.extend(keys.iter().map(|key| key.inner.clone()));
        let width = select.len();
        for (at, e) in select.iter_mut().enumerate() {
            *e = named(std::mem::take(e), &node.schema, at);
        }
        select.extend(keys.iter().map(|key| key.inner.clone().alias(self.name("k"))));
        let sort = Some(sort).filter(|sort| !sort.is_empty());
        let plan = LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on, select, sort, Arc::new(lifted.plan))?));
        Ok(keyed(plan, width, keys))
    }

    /// Makes the output, with the names of a schema, and one column per key the columns of the plan.
    fn with_keys(&self, lifted: Lifted, keys: Vec<Key>, schema: &DFSchema) -> Result<Lifted> {
        let output = lifted.output.into_iter().enumerate().map(|(at, e)| named(e, schema, at));
        let mut output: Vec<Expr> = output.collect();
        let width = output.len();
        output.extend(keys.iter().map(|key| key.inner.clone().unalias().alias(self.name("k"))));
        Ok(keyed(project(lifted.plan, output)?, width, keys))
    }

    fn lift_union(&self, node: Union, scopes: &Scopes, is_set: bool) -> Result<Lifted> {
        let schemas: Vec<DFSchemaRef> = node.inputs.iter().map(|input| input.schema().clone()).collect();
        let mut inputs = vec![];
        for input in node.inputs {
            inputs.push(self.lift(Arc::unwrap_or_clone(input), scopes, is_set)?);
        }
        let mut wanted: Vec<Expr> = vec![];
        for reference in inputs.iter().flat_map(Lifted::references) {
            if !wanted.contains(&reference) {
                wanted.push(reference);
            }
        }
        let width = node.schema.fields().len();
        let mut settled: Vec<(Lifted, Vec<Key>)> = vec![];
        for mut input in inputs {
            self.complete(&mut input, scopes)?;
            let keys = if wanted.is_empty() { vec![] } else { self.settle_for(&mut input, &wanted, scopes)? };
            settled.push((input, keys));
        }
        let strict: Vec<bool> =
            (0..wanted.len()).map(|at| settled.iter().all(|(_, keys)| keys[at].is_strict)).collect();
        let names: Vec<String> = wanted.iter().map(|_| self.name("k")).collect();
        let mut inputs = vec![];
        for ((input, keys), schema) in settled.into_iter().zip(schemas) {
            if wanted.is_empty() {
                inputs.push(Arc::new(input.under(&schema)?));
                continue;
            }
            let apart = keys.iter().zip(&strict).filter(|(key, strict)| key.is_strict && !**strict);
            let present = apart.map(|(key, _)| key.inner.clone().is_not_null()).collect();
            let mut output: Vec<Expr> =
                input.output.into_iter().enumerate().map(|(at, e)| named(e, &schema, at)).collect();
            output.extend(keys.iter().zip(&names).map(|(key, name)| key.inner.clone().unalias().alias(name)));
            inputs.push(Arc::new(project(filter(input.plan, present)?, output)?));
        }
        if wanted.is_empty() {
            return union(inputs, &node.schema, &names).map(Lifted::of);
        }
        let key = |(outer, is_strict)| Key { outer, inner: lit(0i64), is_strict };
        let keys = wanted.into_iter().zip(strict).map(key).collect();
        Ok(keyed(union(inputs, &node.schema, &names)?, width, keys))
    }

    fn lift_unnest(&self, node: Unnest, scopes: &Scopes) -> Result<Lifted> {
        let schema = node.input.schema().clone();
        let mut lifted = self.lift(Arc::unwrap_or_clone(node.input), scopes, false)?;
        self.complete(&mut lifted, scopes)?;
        let keys = self.settle(&mut lifted, &mut [], scopes)?;
        let input = self.with_keys(lifted, keys.clone(), &schema)?;
        let unnest = Unnest::try_new(Arc::new(input.plan), node.exec_columns, node.options)?;
        Ok(keyed(LogicalPlan::Unnest(unnest), node.schema.fields().len(), keys))
    }
}

/// A union with the columns of a schema, followed by columns with these names.
fn union(inputs: Vec<Arc<LogicalPlan>>, schema: &DFSchema, names: &[String]) -> Result<LogicalPlan> {
    let Some(first) = inputs.first() else { return Ok(LogicalPlan::default()) };
    let mut fields = vec![];
    for (at, field) in first.schema().fields().iter().enumerate() {
        let nullable = inputs.iter().any(|input| input.schema().field(at).is_nullable());
        let (qualifier, field) = match names.get(at.wrapping_sub(schema.fields().len())) {
            Some(name) => (None, field.as_ref().clone().with_name(name)),
            None => (schema.qualified_field(at).0.cloned(), schema.field(at).as_ref().clone()),
        };
        fields.push((qualifier, Arc::new(field.with_nullable(nullable))));
    }
    let schema = Arc::new(DFSchema::new_with_metadata(fields, schema.metadata().clone())?);
    Ok(LogicalPlan::Union(Union { inputs, schema }))
}

/// A plan whose last columns are keys.
fn keyed(plan: LogicalPlan, width: usize, keys: Vec<Key>) -> Lifted {
    let mut output = columns(plan.schema());
    let inner = output.split_off(width);
    let conditions = keys.into_iter().zip(inner).map(|(key, inner)| Key { inner, ..key }.condition()).collect();
    Lifted { plan, output, conditions, empty: None, is_single: false }
}

fn sorted(over: &mut Over<'_>, sort: Vec<SortExpr>) -> Result<Vec<SortExpr>> {
    sort.into_iter().map(|by| Ok(SortExpr { expr: over.expression(by.expr)?, ..by })).collect()
}

fn is_one(fetch: Option<&Expr>) -> bool {
    matches!(fetch, Some(Expr::Literal(value, _)) if value.to_string() == "1")
}

/// VALUES as a union of SELECTs with one row each.
fn values_as_union(node: Values) -> Result<LogicalPlan> {
    let mut inputs = vec![];
    for row in node.values {
        let one = EmptyRelation { produce_one_row: true, schema: Arc::new(DFSchema::empty()) };
        let mut expressions = vec![];
        for (at, e) in row.into_iter().enumerate() {
            let e = e.cast_to(node.schema.field(at).data_type(), &DFSchema::empty())?;
            expressions.push(e.alias(node.schema.field(at).name()));
        }
        inputs.push(Arc::new(project(LogicalPlan::EmptyRelation(one), expressions)?));
    }
    if inputs.len() == 1 {
        return Ok(inputs.pop().map(Arc::unwrap_or_clone).unwrap_or_default());
    }
    Ok(LogicalPlan::Union(Union { inputs, schema: node.schema }))
}
