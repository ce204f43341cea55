//! Pushes the bindings of outer columns down through a subquery, until nothing in it depends on the outer query.
//!
//! What comes out holds, beside the subquery's columns, one key for each outer column: the rows whose keys are b are what
//! the subquery gives for the binding b. Keys may come out that no row of the outer query has; the join with it drops them.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{BinaryExpr, GroupingSet};
use datafusion::logical_expr::utils::{enumerate_grouping_sets, grouping_set_to_exprlist};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, ExprSchemable, Filter, Join, JoinType,
    Limit, LogicalPlan, Operator, Projection, Sort, SortExpr, SubqueryAlias, Union, Unnest, Values, Window, lit,
};

use super::expressions::{
    column, columns, conjuncts, count_rows, equal, filter, join, named, or_default, project, project_as, same,
};
use super::scope::{self, Renamed, free, free_in, is_lateral, rename, rename_inside};
use super::{Unnester, refused};

/// The outer query, and those of its columns that the subquery uses.
pub(super) struct Domain {
    pub outer: LogicalPlan,
    pub columns: Vec<(Column, FieldRef)>,
}

/// The column of a plan that stands for an outer column.
#[derive(Clone)]
pub(super) struct Key {
    pub column: Column,
    /// Its rows with NULL are none of the subquery: it must be compared by `=`.
    pub strict: bool,
}

/// A plan's columns, and the keys behind them.
pub(super) struct Pushed {
    pub plan: LogicalPlan,
    pub keys: Vec<Key>,
}

impl Pushed {
    fn key_columns(&self) -> Vec<Expr> {
        self.keys.iter().map(|key| Expr::Column(key.column.clone())).collect()
    }

    /// The plan of these expressions and the keys.
    fn project(self, mut expressions: Vec<Expr>) -> Result<Pushed> {
        expressions.extend(self.key_columns());
        Ok(Pushed { plan: project(self.plan, expressions)?, keys: self.keys })
    }

    /// The plan of expressions under the names of a schema, and the keys.
    fn project_as(self, expressions: Vec<Expr>, schema: &DFSchema) -> Result<Pushed> {
        self.project(expressions.into_iter().enumerate().map(|(at, e)| named(e, schema, at)).collect())
    }

    /// Without the rows that are of no binding, so that keys can be compared with those of other plans.
    fn without_nulls(self) -> Result<Pushed> {
        let strict =
            self.keys.iter().filter(|key| key.strict).map(|key| Expr::Column(key.column.clone()).is_not_null());
        let strict: Vec<Expr> = strict.collect();
        let keys = self.keys.iter().map(|key| Key { column: key.column.clone(), strict: false }).collect();
        Ok(Pushed { plan: filter(self.plan, strict)?, keys })
    }
}

impl Domain {
    /// An expression over a node's inputs with keys in place of outer columns.
    fn rewrite(&self, expression: Expr, inputs: &[DFSchemaRef], keys: &[Key]) -> Result<Expr> {
        let names = self.names(keys);
        let rewritten = expression.transform_up(|e| match e {
            Expr::OuterReferenceColumn(field, column) => Ok(match names.get(&column) {
                Some(key) => Transformed::yes(Expr::Column(key.clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            e => Ok(Transformed::yes(rename_inside(e, inputs, &names)?)),
        })?;
        Ok(rewritten.data)
    }

    fn rewrite_all(&self, expressions: Vec<Expr>, inputs: &[DFSchemaRef], keys: &[Key]) -> Result<Vec<Expr>> {
        expressions.into_iter().map(|e| self.rewrite(e, inputs, keys)).collect()
    }

    fn rewrite_sort(&self, sort: Vec<SortExpr>, inputs: &[DFSchemaRef], keys: &[Key]) -> Result<Vec<SortExpr>> {
        let rewritten = sort.into_iter().map(|by| Ok(SortExpr { expr: self.rewrite(by.expr, inputs, keys)?, ..by }));
        rewritten.collect()
    }

    fn names(&self, keys: &[Key]) -> Renamed {
        self.columns.iter().map(|(column, _)| column.clone()).zip(keys.iter().map(|key| key.column.clone())).collect()
    }
}

impl Unnester {
    /// The plan for every binding.
    pub(super) fn push(&self, plan: LogicalPlan, domain: &Domain) -> Result<Pushed> {
        if free(&plan).is_empty() {
            return self.cross(plan, domain);
        }
        match plan {
            LogicalPlan::Projection(node) => self.push_projection(node, domain),
            LogicalPlan::Filter(node) => self.push_filter(node, domain),
            LogicalPlan::Join(node) => self.push_join(node, domain),
            LogicalPlan::Aggregate(node) => self.push_aggregate(node, domain),
            LogicalPlan::Window(node) => self.push_window(node, domain),
            LogicalPlan::Sort(node) => self.push_sort(node, domain),
            LogicalPlan::Limit(node) => self.push_limit(node, domain),
            LogicalPlan::Distinct(node) => self.push_distinct(node, domain),
            LogicalPlan::Union(node) => self.push_union(node, domain),
            LogicalPlan::Values(node) => self.push(values_as_union(node)?, domain),
            LogicalPlan::Subquery(node) => self.push(Arc::unwrap_or_clone(node.subquery), domain),
            LogicalPlan::SubqueryAlias(node) => {
                let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
                let key = |key: Key| Key { column: Column::new(Some(node.alias.clone()), key.column.name), ..key };
                let keys = inner.keys.into_iter().map(key).collect();
                let alias = SubqueryAlias::try_new(Arc::new(inner.plan), node.alias.clone())?;
                Ok(Pushed { plan: LogicalPlan::SubqueryAlias(alias), keys })
            }
            LogicalPlan::Unnest(node) => {
                let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
                let unnest = Unnest::try_new(Arc::new(inner.plan), node.exec_columns, node.options)?;
                Ok(Pushed { plan: LogicalPlan::Unnest(unnest), keys: inner.keys })
            }
            LogicalPlan::RecursiveQuery(_) => Err(refused("WITH RECURSIVE that uses columns of the outer query")),
            other => {
                let shown = other.display().to_string();
                Err(refused(&format!(
                    "{} that uses columns of the outer query",
                    shown.split(':').next().unwrap_or("this")
                )))
            }
        }
    }

    /// The different bindings.
    fn bindings(&self, domain: &Domain) -> Result<Pushed> {
        if scope::is_volatile(&domain.outer) {
            return Err(refused("columns of an outer query that calls a volatile function such as random()"));
        }
        let number = self.number();
        let relation = format!("__outer_{number}");
        let names: Vec<String> = (0..domain.columns.len()).map(|at| format!("{relation}_{at}")).collect();
        let pairs = domain.columns.iter().zip(&names);
        let expressions = pairs.map(|((column, _), name)| {
            Expr::Column(column.clone()).alias_qualified(Some(relation.clone()), name.clone())
        });
        let plan = project(domain.outer.clone(), expressions.collect())?;
        let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
        let keys =
            names.into_iter().map(|name| Key { column: Column::new(Some(relation.clone()), name), strict: false });
        Ok(Pushed { plan, keys: keys.collect() })
    }

    /// A plan that depends on nothing, for every binding.
    fn cross(&self, plan: LogicalPlan, domain: &Domain) -> Result<Pushed> {
        let bindings = self.bindings(domain)?;
        if let LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema }) = &plan
            && schema.fields().is_empty()
        {
            return Ok(bindings);
        }
        Ok(Pushed { plan: join(plan, bindings.plan, vec![], JoinType::Inner)?, keys: bindings.keys })
    }

    fn push_projection(&self, node: Projection, domain: &Domain) -> Result<Pushed> {
        let inputs = [node.input.schema().clone()];
        let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
        let expressions = domain.rewrite_all(node.expr, &inputs, &inner.keys)?;
        let named = expressions.into_iter().enumerate().map(|(at, e)| match e {
            Expr::Alias(_) => e,
            e => named(e, &node.schema, at),
        });
        let named = named.collect();
        inner.project(named)
    }

    fn push_filter(&self, node: Filter, domain: &Domain) -> Result<Pushed> {
        let inputs = [node.input.schema().clone()];
        let mut conditions = conjuncts(Some(node.predicate));
        let input = Arc::unwrap_or_clone(node.input);
        let inner = match self.keys_of_equalities(&input, &mut conditions, domain)? {
            Some(inner) => inner,
            None => self.push(input, domain)?,
        };
        let conditions = domain.rewrite_all(conditions, &inputs, &inner.keys)?;
        Ok(Pushed { plan: filter(inner.plan, conditions)?, keys: inner.keys })
    }

    /// Where every outer column is equal to something of an input that depends on nothing, that takes its place; no set of
    /// bindings is needed. Takes the equalities out of the conditions.
    fn keys_of_equalities(
        &self,
        input: &LogicalPlan,
        conditions: &mut Vec<Expr>,
        domain: &Domain,
    ) -> Result<Option<Pushed>> {
        if !free(input).is_empty() {
            return Ok(None);
        }
        let mut used = vec![];
        let mut keys = vec![];
        for outer in &domain.columns {
            let found =
                conditions.iter().enumerate().find_map(|(at, e)| Some((at, equal_to(e, outer, input.schema())?)));
            let Some((at, key)) = found else { return Ok(None) };
            used.push(at);
            keys.push(key);
        }
        let number = self.number();
        let relation = format!("__key_{number}");
        let mut expressions = columns(input.schema());
        let mut named = vec![];
        for (at, (value, strict)) in keys.into_iter().enumerate() {
            let name = format!("{relation}_{at}");
            expressions.push(value.alias_qualified(Some(relation.clone()), name.clone()));
            named.push(Key { column: Column::new(Some(relation.clone()), name), strict });
        }
        let mut at = 0;
        conditions.retain(|_| {
            at += 1;
            !used.contains(&(at - 1))
        });
        Ok(Some(Pushed { plan: project(input.clone(), expressions)?, keys: named }))
    }

    fn push_sort(&self, node: Sort, domain: &Domain) -> Result<Pushed> {
        if let Some(fetch) = node.fetch {
            let fetch = Some(Box::new(lit(i64::try_from(fetch).unwrap_or(i64::MAX))));
            let input = Arc::new(LogicalPlan::Sort(Sort { fetch: None, ..node }));
            return self.push_limit(Limit { skip: None, fetch, input }, domain);
        }
        let inputs = [node.input.schema().clone()];
        let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
        let expr = domain.rewrite_sort(node.expr, &inputs, &inner.keys)?;
        let plan = LogicalPlan::Sort(Sort { expr, input: Arc::new(inner.plan), fetch: None });
        Ok(Pushed { plan, keys: inner.keys })
    }

    /// The rows of each binding are numbered; those with the right numbers stay.
    fn push_limit(&self, node: Limit, domain: &Domain) -> Result<Pushed> {
        let with_input =
            |input| Arc::new(LogicalPlan::Limit(Limit { input, skip: node.skip.clone(), fetch: node.fetch.clone() }));
        let (input, by) = match Arc::unwrap_or_clone(node.input) {
            // Below the projection is the order.
            LogicalPlan::Projection(projection) => {
                let input = with_input(projection.input);
                return self.push_projection(
                    Projection::try_new_with_schema(projection.expr, input, projection.schema)?,
                    domain,
                );
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = with_input(alias.input);
                return self.push(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias.alias)?), domain);
            }
            LogicalPlan::Sort(Sort { expr, input, fetch: None }) => (Arc::unwrap_or_clone(input), expr),
            other => (other, vec![]),
        };
        let schema = input.schema().clone();
        let inner = self.push(input, domain)?;
        let by = domain.rewrite_sort(by, std::slice::from_ref(&schema), &inner.keys)?;
        let name = format!("__row_{}", self.number());
        let number = row_number().partition_by(inner.key_columns()).order_by(by).build()?.alias(name.clone());
        let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(inner.plan))?);
        let number = Expr::Column(Column::new_unqualified(name))
            .cast_to(&datafusion::arrow::datatypes::DataType::Int64, window.schema())?;
        let skip = node.skip.map_or(lit(0i64), |skip| *skip);
        let skip = if matches!(&skip, Expr::Literal(value, _) if value.is_null()) { lit(0i64) } else { skip };
        let mut conditions = vec![number.clone().gt(skip.clone())];
        if let Some(fetch) = node.fetch.filter(|fetch| !matches!(&**fetch, Expr::Literal(value, _) if value.is_null()))
        {
            conditions.push((number - skip).lt_eq(*fetch));
        }
        Pushed { plan: filter(window, conditions)?, keys: inner.keys }.project(columns(&schema))
    }

    fn push_distinct(&self, node: Distinct, domain: &Domain) -> Result<Pushed> {
        let on = match node {
            Distinct::All(input) => {
                let inner = self.push(Arc::unwrap_or_clone(input), domain)?;
                return Ok(Pushed {
                    plan: LogicalPlan::Distinct(Distinct::All(Arc::new(inner.plan))),
                    keys: inner.keys,
                });
            }
            Distinct::On(on) => on,
        };
        let inputs = [on.input.schema().clone()];
        let inner = self.push(Arc::unwrap_or_clone(on.input), domain)?;
        let mut sort = domain.rewrite_sort(on.sort_expr.unwrap_or_default(), &inputs, &inner.keys)?;
        if !sort.is_empty() {
            let at = on.on_expr.len().min(sort.len());
            sort.splice(at..at, inner.key_columns().into_iter().map(|key| key.sort(true, false)));
        }
        let mut on_expr = domain.rewrite_all(on.on_expr, &inputs, &inner.keys)?;
        on_expr.extend(inner.key_columns());
        let mut select = vec![];
        for (at, e) in on.select_expr.into_iter().enumerate() {
            select.push(named(domain.rewrite(e, &inputs, &inner.keys)?, &on.schema, at));
        }
        select.extend(inner.key_columns());
        let sort = Some(sort).filter(|sort| !sort.is_empty());
        let on = DistinctOn::try_new(on_expr, select, sort, Arc::new(inner.plan))?;
        Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::On(on)), keys: inner.keys })
    }

    fn push_union(&self, node: Union, domain: &Domain) -> Result<Pushed> {
        let name = format!("__union_{}", self.number());
        let names: Vec<String> = (0..domain.columns.len()).map(|at| format!("{name}_{at}")).collect();
        let mut inputs = vec![];
        for input in node.inputs {
            let schema = input.schema().clone();
            let inner = self.push(Arc::unwrap_or_clone(input), domain)?.without_nulls()?;
            let mut expressions = columns(&schema);
            expressions.extend(inner.key_columns().into_iter().zip(&names).map(|(key, name)| key.alias(name)));
            inputs.push(Arc::new(project(inner.plan, expressions)?));
        }
        let mut fields: Vec<_> = node.schema.iter().map(|(q, field)| (q.cloned(), field.clone())).collect();
        for ((_, field), name) in domain.columns.iter().zip(&names) {
            fields.push((None, Arc::new(field.as_ref().clone().with_name(name).with_nullable(true))));
        }
        let schema = DFSchema::new_with_metadata(fields, node.schema.metadata().clone())?;
        let keys = names.into_iter().map(|name| Key { column: Column::new_unqualified(name), strict: false }).collect();
        Ok(Pushed { plan: LogicalPlan::Union(Union { inputs, schema: Arc::new(schema) }), keys })
    }

    fn push_window(&self, node: Window, domain: &Domain) -> Result<Pushed> {
        let schema = node.input.schema().clone();
        let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
        let keys = inner.key_columns();
        let mut expressions = vec![];
        for e in node.window_expr {
            let rewritten =
                domain.rewrite(e, std::slice::from_ref(&schema), &inner.keys)?.transform_up(|e| match e {
                    Expr::WindowFunction(mut call) => {
                        call.params.partition_by.extend(keys.iter().cloned());
                        Ok(Transformed::yes(Expr::WindowFunction(call)))
                    }
                    e => Ok(Transformed::no(e)),
                })?;
            expressions.push(rewritten.data);
        }
        let width = inner.plan.schema().fields().len();
        let window = Window::try_new(expressions, Arc::new(inner.plan))?;
        let mut output = columns(&schema);
        output.extend((width..window.schema.fields().len()).map(|at| column(&window.schema, at)));
        Pushed { plan: LogicalPlan::Window(window), keys: inner.keys }.project_as(output, &node.schema)
    }

    fn push_aggregate(&self, node: Aggregate, domain: &Domain) -> Result<Pushed> {
        if node.group_expr.is_empty() {
            return self.push_whole_aggregate(node, domain);
        }
        if let Some(split) = without_empty_sets(&node)? {
            return self.push(split, domain);
        }
        self.push_grouped(node, domain)
    }

    /// The keys join the grouping keys, in front of them: the bits of a grouping set's number stay where they are.
    pub(super) fn push_grouped(&self, node: Aggregate, domain: &Domain) -> Result<Pushed> {
        let inputs = [node.input.schema().clone()];
        let inner = self.push(Arc::unwrap_or_clone(node.input), domain)?;
        let rewrite = |e: Expr| -> Result<Expr> {
            let name = e.qualified_name();
            let rewritten = domain.rewrite(e.clone(), &inputs, &inner.keys)?;
            Ok(if rewritten == e { e } else { rewritten.unalias().alias_qualified(name.0, name.1) })
        };
        let keys = inner.key_columns();
        let group = match node.group_expr.as_slice() {
            [Expr::GroupingSet(set)] => {
                let with_keys = |set: &Vec<Expr>| -> Result<Vec<Expr>> {
                    keys.iter().cloned().map(Ok).chain(set.iter().cloned().map(rewrite)).collect()
                };
                let sets: Result<_> = explicit_sets(set).iter().map(with_keys).collect();
                vec![Expr::GroupingSet(GroupingSet::GroupingSets(sets?))]
            }
            plain => keys.iter().cloned().map(Ok).chain(plain.iter().cloned().map(rewrite)).collect::<Result<_>>()?,
        };
        let aggregates = node.aggr_expr.into_iter().map(rewrite).collect::<Result<_>>()?;
        let aggregate = Aggregate::try_new(Arc::new(inner.plan), group, aggregates)?;
        let mut output = vec![];
        for (at, field) in node.schema.fields().iter().enumerate() {
            let value = column(&aggregate.schema, keys.len() + at);
            output.push(if field.name() == Aggregate::INTERNAL_GROUPING_ID {
                grouping_number(value, &aggregate.schema, &node.schema, at)?
            } else {
                value
            });
        }
        Pushed { plan: LogicalPlan::Aggregate(aggregate), keys: inner.keys }.project_as(output, &node.schema)
    }

    /// An aggregate without GROUP BY has a row for every binding, even where it aggregates nothing.
    fn push_whole_aggregate(&self, node: Aggregate, domain: &Domain) -> Result<Pushed> {
        let schema = node.schema.clone();
        let defaults = defaults(&node)?;
        let groups = self.push_grouped(node, domain)?;
        let bindings = self.bindings(domain)?;
        let on = bindings.keys.iter().zip(&groups.keys).map(|(left, right)| compare(left, right)).collect();
        let values = columns(&schema).into_iter().zip(defaults).map(|(e, default)| or_default(e, default)).collect();
        let plan = join(bindings.plan, groups.plan, on, JoinType::Left)?;
        Pushed { plan, keys: bindings.keys }.project_as(values, &schema)
    }

    fn push_join(&self, node: Join, domain: &Domain) -> Result<Pushed> {
        let inputs = [node.left.schema().clone(), node.right.schema().clone()];
        if node.on.iter().any(|(l, r)| !free_in(l, &inputs).is_empty() || !free_in(r, &inputs).is_empty()) {
            return Err(refused("a join by keys of the outer query"));
        }
        let mut conditions = conjuncts(node.filter.clone());
        if node.join_type == JoinType::Inner && conditions.iter().any(|e| !free_in(e, &inputs).is_empty()) {
            let (above, below): (Vec<_>, Vec<_>) =
                conditions.into_iter().partition(|e| !free_in(e, &inputs).is_empty());
            let filter = datafusion::logical_expr::utils::conjunction(below);
            let plan = LogicalPlan::Join(Join { filter, ..node });
            return self.push(self::filter(plan, above)?, domain);
        }
        let lateral = is_lateral(&node);
        let left_depends = !free(&node.left).is_empty();
        let right_depends = !free(&node.right).is_empty();
        use JoinType::{Full, Inner, Right, RightAnti, RightMark, RightSemi};
        let keeps_right = matches!(node.join_type, Right | RightSemi | RightAnti | RightMark);
        let to_left = match node.join_type {
            Inner => left_depends || lateral || !right_depends,
            _ if keeps_right => left_depends,
            _ => true,
        };
        let to_right = match node.join_type {
            Inner => right_depends && !lateral,
            Full => true,
            _ if keeps_right => true,
            _ => right_depends && !lateral,
        };
        let (left, mut right) = (Arc::unwrap_or_clone(node.left), Arc::unwrap_or_clone(node.right));
        let mut left = self.push_if(to_left, left, domain)?;
        if lateral {
            right = rename(right, &domain.names(&left.keys))?;
        }
        let mut right = self.push_if(to_right, right, domain)?;
        if to_left && to_right && left.keys.iter().zip(&right.keys).any(|(l, r)| l.strict != r.strict) {
            (left, right) = (left.without_nulls()?, right.without_nulls()?);
        }
        let (left, left_keys, right, right_keys) = (left.plan, left.keys, right.plan, right.keys);
        conditions =
            domain.rewrite_all(conditions, &inputs, if to_left && !keeps_right { &left_keys } else { &right_keys })?;
        conditions.extend(left_keys.iter().zip(&right_keys).map(|(left, right)| compare(left, right)));
        let filter = datafusion::logical_expr::utils::conjunction(conditions);
        let (left, right) = (Arc::new(left), Arc::new(right));
        let (kind, nulls) = (node.join_type, node.null_equality);
        let joined = Join::try_new(left, right, node.on, filter, kind, node.join_constraint, nulls, node.null_aware)?;
        let plan = LogicalPlan::Join(joined);
        let output = columns(&node.schema);
        if kind == Full {
            return self.merge_keys(plan, output, &left_keys, &right_keys);
        }
        let keys = if keeps_right || !to_left { right_keys } else { left_keys };
        Pushed { plan, keys }.project(output)
    }

    fn push_if(&self, wanted: bool, plan: LogicalPlan, domain: &Domain) -> Result<Pushed> {
        if wanted { self.push(plan, domain) } else { Ok(Pushed { plan, keys: vec![] }) }
    }

    /// The keys of a full join are those of the side that is there.
    fn merge_keys(&self, plan: LogicalPlan, mut output: Vec<Expr>, left: &[Key], right: &[Key]) -> Result<Pushed> {
        let relation = format!("__key_{}", self.number());
        let mut keys = vec![];
        for (at, (left, right)) in left.iter().zip(right).enumerate() {
            let left_strict = left.strict && right.strict;
            let name = format!("{relation}_{at}");
            let sides = vec![Expr::Column(left.column.clone()), Expr::Column(right.column.clone())];
            output.push(coalesce(sides).alias_qualified(Some(relation.clone()), name.clone()));
            keys.push(Key { column: Column::new(Some(relation.clone()), name), strict: left_strict });
        }
        Ok(Pushed { plan: project(plan, output)?, keys })
    }
}

/// Whether two keys stand for the same binding.
fn compare(left: &Key, right: &Key) -> Expr {
    let (l, r) = (Expr::Column(left.column.clone()), Expr::Column(right.column.clone()));
    if left.strict || right.strict { equal(l, r) } else { same(l, r) }
}

/// What a condition says that an outer column is equal to, if it is of the same type; and whether NULL is excluded by it.
fn equal_to(condition: &Expr, outer: &(Column, FieldRef), schema: &DFSchema) -> Option<(Expr, bool)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let strict = match op {
        Operator::Eq => true,
        Operator::IsNotDistinctFrom => false,
        _ => return None,
    };
    let is_outer = |e: &Expr| matches!(e, Expr::OuterReferenceColumn(_, column) if *column == outer.0);
    let value = match (is_outer(left), is_outer(right)) {
        (true, false) => right,
        (false, true) => left,
        _ => return None,
    };
    let plain = !value.contains_outer() && !scope::contains_subquery(value) && !value.is_volatile();
    let typed = plain && value.get_type(schema).is_ok_and(|data_type| data_type == *outer.1.data_type());
    typed.then(|| (value.as_ref().clone(), strict))
}

/// What the columns of an aggregate without GROUP BY are where it aggregates no rows.
pub(super) fn defaults(node: &Aggregate) -> Result<Vec<ScalarValue>> {
    let fields = node.schema.fields().iter();
    let defaults = node.aggr_expr.iter().zip(fields).map(|(e, field)| {
        let mut e = e;
        while let Expr::Alias(alias) = e {
            e = &alias.expr;
        }
        match e {
            Expr::AggregateFunction(call) => call.func.default_value(field.data_type()),
            _ => ScalarValue::try_from(field.data_type()),
        }
    });
    defaults.collect()
}

/// The lists of keys of a grouping set.
fn explicit_sets(set: &GroupingSet) -> Vec<Vec<Expr>> {
    match set {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|n| keys[..n].to_vec()).collect(),
        GroupingSet::Cube(keys) => {
            let subsets = (0..1u64.checked_shl(keys.len() as u32).unwrap_or(0)).rev();
            let subset = |bits: u64| keys.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1);
            subsets.map(|bits| subset(bits).map(|(_, key)| key.clone()).collect()).collect()
        }
    }
}

/// The number of a grouping set in the type that it had: bits of other keys are cut off.
fn grouping_number(value: Expr, from: &DFSchema, to: &DFSchema, at: usize) -> Result<Expr> {
    let keys = at.min(63);
    let mask = lit(ScalarValue::UInt64(Some((1u64 << keys) - 1)));
    let wide = value.cast_to(&datafusion::arrow::datatypes::DataType::UInt64, from)?;
    let masked = datafusion::logical_expr::binary_expr(wide, Operator::BitwiseAnd, mask);
    masked.cast_to(to.field(at).data_type(), from)
}

/// Grouping sets with an empty set have a row for no rows: that set becomes an aggregate without GROUP BY. None: no such set.
fn without_empty_sets(node: &Aggregate) -> Result<Option<LogicalPlan>> {
    let [Expr::GroupingSet(set)] = node.group_expr.as_slice() else { return Ok(None) };
    let keys: Vec<Expr> = grouping_set_to_exprlist(&node.group_expr)?.into_iter().cloned().collect();
    let (empty, others): (Vec<_>, Vec<_>) = explicit_sets(set).into_iter().partition(Vec::is_empty);
    if empty.is_empty() {
        return Ok(None);
    }
    let mut inputs = vec![];
    if !others.is_empty() {
        let group = enumerate_grouping_sets(vec![Expr::GroupingSet(GroupingSet::GroupingSets(others))])?;
        let rest = Aggregate::try_new(node.input.clone(), group, node.aggr_expr.clone())?;
        let mut output = vec![];
        for (at, key) in keys.iter().enumerate() {
            let (qualifier, name) = key.qualified_name();
            let found = rest.schema.has_column(&Column::new(qualifier.clone(), name.clone()));
            let none = || ScalarValue::try_from(node.schema.field(at).data_type()).map(lit);
            output.push(if found { Expr::Column(Column::new(qualifier, name)) } else { none()? });
        }
        let wide = rest.schema.fields().len() - node.aggr_expr.len();
        output.push(grouping_number(column(&rest.schema, wide - 1), &rest.schema, &node.schema, keys.len())?);
        output.extend((wide..rest.schema.fields().len()).map(|at| column(&rest.schema, at)));
        inputs.push(Arc::new(project_as(LogicalPlan::Aggregate(rest), output, &node.schema)?));
    }
    let mut aggregates = node.aggr_expr.clone();
    if aggregates.is_empty() {
        aggregates.push(count_rows());
    }
    let whole = Aggregate::try_new(node.input.clone(), vec![], aggregates)?;
    let mut output = vec![];
    for at in 0..keys.len() {
        output.push(lit(ScalarValue::try_from(node.schema.field(at).data_type())?));
    }
    let number = lit(ScalarValue::UInt64(Some((1u64 << keys.len().min(63)) - 1)));
    output.push(number.cast_to(node.schema.field(keys.len()).data_type(), &node.schema)?);
    output.extend((0..node.aggr_expr.len()).map(|at| column(&whole.schema, at)));
    let whole = Arc::new(project_as(LogicalPlan::Aggregate(whole), output, &node.schema)?);
    inputs.extend(std::iter::repeat_n(whole, empty.len()));
    if inputs.len() == 1 {
        return Ok(inputs.pop().map(Arc::unwrap_or_clone));
    }
    Ok(Some(LogicalPlan::Union(Union { inputs, schema: node.schema.clone() })))
}

/// VALUES as SELECTs of one row each.
pub(super) fn values_as_union(node: Values) -> Result<LogicalPlan> {
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
