//! `unnest` among the items of SELECT: rows of lists, and columns of structs.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_common::{Column, FunctionalDependencies, UnnestOptions};
use datafusion_expr::expr::Unnest;
use datafusion_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use freestone_sql::Span;
use freestone_sql::tree::{Argument, ExprKind, Literal, SelectItem};

use crate::aggregates::{Known, replace};
use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::plans;
use crate::select::{Block, Item, Place, collect};

/// The depth of calls of unnest within each other.
const LEVELS_MAX: usize = 8;

impl Binder<'_> {
    /// Makes rows of lists, and replaces the calls by columns. Lists of one SELECT stand next to each other.
    pub fn unnested(&mut self, plan: LogicalPlan, block: &mut Block, place: Place, span: Span) -> Result<LogicalPlan> {
        let mut plan = plan;
        for _ in 0..LEVELS_MAX {
            let mut calls: Vec<Expr> = vec![];
            for value in block.of_place(place) {
                collect(value, &mut calls, &|part| matches!(part, Expr::Unnest(inner) if !has_unnest(&inner.expr)));
            }
            if calls.is_empty() {
                return Ok(plan);
            }
            let mut values = plans::columns(plan.schema());
            let (mut names, mut known) = (vec![], Known::new());
            for call in calls {
                let Expr::Unnest(inner) = &call else { continue };
                let name = self.qualifiers.next("__unnest");
                values.push(inner.expr.as_ref().clone().alias(&name));
                known.insert(call, Expr::Column(Column::from_name(&name)));
                names.push(Column::from_name(name));
            }
            plan = plans::project(plan, values).at(span)?;
            plan = unnest(plan, names).at(span)?;
            let keys = block.groups.iter_mut().flat_map(|groups| groups.sets.iter_mut().flatten());
            for value in keys {
                replace(value, &known).at(span)?;
            }
            for value in block.outputs() {
                replace(value, &known).at(span)?;
            }
        }
        Err(invalid(span, format!("unnest stands within at most {LEVELS_MAX} others")))
    }

    /// `unnest(struct)` as an item, a column per field, and `unnest(list, recursive := true)`. `None` for other items.
    pub fn unnested_item(&mut self, item: &SelectItem) -> Result<Option<Vec<Item>>> {
        let ExprKind::Call(call) = &item.value.kind else { return Ok(None) };
        let ([name], [argument, options @ ..]) = (call.name.parts.as_slice(), call.arguments.as_slice()) else {
            return Ok(None);
        };
        if name.text != "unnest" || call.receiver.is_some() || argument.name.is_some() {
            return Ok(None);
        }
        let span = item.value.span;
        if !options.is_empty() {
            let depth = Depth::of(options)?;
            let value = self.expression(&argument.value)?;
            let item = Item { value, name: crate::headings::name(item) };
            return self.unnested_parts(item, None, depth, span).map(Some);
        }
        let is_value =
            matches!(argument.value.kind, ExprKind::Column(_) | ExprKind::Struct(_) | ExprKind::Field { .. });
        if !is_value {
            return Ok(None);
        }
        let (value, schema) = (self.expression(&argument.value)?, self.schema());
        match value.get_type(&schema).at(span)? {
            DataType::Struct(_) => self.fields_of(value, span).map(Some),
            _ => Ok(None),
        }
    }

    /// Makes rows of lists and columns of structs, this number of times. `parent` is the field that the item is within.
    fn unnested_parts(&mut self, item: Item, parent: Option<String>, depth: Depth, span: Span) -> Result<Vec<Item>> {
        let schema = self.schema();
        let Some(levels) = depth.levels.checked_sub(1) else { return Ok(vec![item]) };
        let rest = Depth { levels, ..depth };
        self.deeper(span, |binder| match item.value.get_type(&schema).at(span)? {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let value = Expr::Unnest(Unnest { expr: Box::new(item.value), outer: false });
                binder.unnested_parts(Item { value, ..item }, parent, rest, span)
            }
            DataType::Struct(_) => {
                let fields = binder.fields_of(item.value, span)?;
                let parts = fields.into_iter().map(|mut field| {
                    if let (true, Some(parent)) = (depth.keeps_parents, &parent) {
                        field.name = format!("{parent}.{}", field.name);
                    }
                    let name = Some(field.name.clone());
                    binder.unnested_parts(field, name, rest, span)
                });
                Ok(parts.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
            }
            _ => Ok(vec![item]),
        })
    }
}

/// What the options of unnest ask for: `recursive := true`, `max_depth := 2`, `keep_parent_names := true`.
#[derive(Debug, Clone, Copy)]
struct Depth {
    levels: usize,
    /// Whether the name of a field begins with those of the fields around it.
    keeps_parents: bool,
}

impl Depth {
    fn of(options: &[Argument]) -> Result<Depth> {
        let (mut recursive, mut most, mut keeps_parents) = (false, None, false);
        for Argument { name, value } in options {
            let name = name.as_ref().map_or("", |name| name.text.as_str());
            match (name, &value.kind) {
                ("recursive", ExprKind::Literal(Literal::Boolean(is_recursive))) => recursive = *is_recursive,
                ("keep_parent_names", ExprKind::Literal(Literal::Boolean(keeps))) => keeps_parents = *keeps,
                ("max_depth", ExprKind::Literal(Literal::Number(digits))) => {
                    let wrong = || invalid(value.span, format!("unnest goes 1 to {LEVELS_MAX} levels deep"));
                    let levels = digits.parse().ok().filter(|levels| (1..=LEVELS_MAX).contains(levels));
                    most = Some(levels.ok_or_else(wrong)?);
                }
                _ => {
                    let hint =
                        "unnest(list, recursive := true), unnest(list, max_depth := 2, keep_parent_names := true)";
                    return Err(invalid(value.span, "unnest does not take this").with_hint(hint));
                }
            }
        }
        let levels = most.unwrap_or(if recursive { LEVELS_MAX } else { 1 });
        Ok(Depth { levels, keeps_parents })
    }
}

fn has_unnest(value: &Expr) -> bool {
    use datafusion_common::tree_node::TreeNode;
    value.exists(|part| Ok(matches!(part, Expr::Unnest(_)))).unwrap_or(false)
}

/// A row per item of the lists in these columns, which stand next to each other. A NULL or empty list is no row.
pub(crate) fn unnest(plan: LogicalPlan, columns: Vec<Column>) -> datafusion_common::Result<LogicalPlan> {
    let options = UnnestOptions::new().with_preserve_nulls(false);
    let mut plan = LogicalPlanBuilder::from(plan).unnest_columns_with_options(columns, options)?.build()?;
    // What was unique among the lists is not unique among their items.
    if let LogicalPlan::Unnest(unnest) = &mut plan {
        let schema = unnest.schema.as_ref().clone();
        unnest.schema = Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
    }
    Ok(plan)
}
