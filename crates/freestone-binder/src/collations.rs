//! Collations: texts that are compared by other texts instead of themselves.
//!
//! A text with a collation is a call of [`COLLATED`], or a column whose field has the collation as metadata. So it is known wherever the
//! text is compared, behind aliases and in the rows of subqueries, too, and functions of the text pass it on. What is compared are
//! the results of functions such as `lower`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion_common::DFSchema;
use datafusion_common::tree_node::TreeNode;
use datafusion_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, ObjectName};

use crate::binder::Binder;
use crate::chains::plain;
use crate::error::{At, Result, invalid};
use crate::expressions::text;
use crate::plans::{self, Rows};
use crate::select::Item;
use crate::types::is_text;

/// The metadata of a field with the collation of its texts.
pub const COLLATION: &str = "freestone.collation";

/// The function that gives a text a collation. Its second argument is the name, and empty for none.
pub const COLLATED: &str = "freestone_collated";

/// Functions that compare texts by the collation of one of them. `prefix`, `suffix` and others have none, as in DuckDB.
pub(crate) const COMPARING: [&str; 5] = ["contains", "starts_with", "strpos", "instr", "position"];

/// What functions of lists have in their names that compare the items.
const COMPARING_ITEMS: [&str; 7] = ["contains", "position", "has", "distinct", "unique", "sort", "intersect"];

/// The name of a collation, of which parts without an effect are left out; `None` if there is no such collation.
pub fn collation_name(collation: &ObjectName) -> Option<String> {
    let parts = match collation.parts.as_slice() {
        [schema, parts @ ..] if !parts.is_empty() && schema.text == "pg_catalog" => parts,
        parts => parts,
    };
    let mut names = vec![];
    for part in parts {
        let name = part.text.to_lowercase();
        match name.as_str() {
            "c" | "posix" | "binary" | "default" | "ucs_basic" => {}
            name if function(name).is_some() => names.push(name.to_owned()),
            _ => return None,
        }
    }
    Some(names.join("."))
}

/// The function of a part of a collation.
fn function(part: &str) -> Option<&'static str> {
    match part {
        "nocase" => Some("lower"),
        "noaccent" => Some("strip_accents"),
        "nfc" => Some("nfc_normalize"),
        _ => None,
    }
}

/// The metadata of a field of texts with a collation.
pub fn collation_metadata(name: &str) -> HashMap<String, String> {
    HashMap::from([(COLLATION.to_owned(), name.to_owned())])
}

/// The collation of a field.
fn of_field(field: &Field) -> Option<&str> {
    field.metadata().get(COLLATION).map(String::as_str).filter(|name| !name.is_empty())
}

/// A text without the call that gives it a collation.
fn bare(value: Expr) -> Expr {
    match value {
        Expr::ScalarFunction(mut call) if call.func.name() == COLLATED && !call.args.is_empty() => call.args.remove(0),
        other => other,
    }
}

impl Binder<'_> {
    /// `a COLLATE NOCASE`.
    pub fn collate(&mut self, operand: &tree::Expr, collation: &ObjectName, span: Span) -> Result<Expr> {
        let value = self.expression(operand)?;
        let name = known(collation)?;
        let is_other = |kind: &DataType| !is_text(kind) && *kind != DataType::Null;
        if value.get_type(&self.schema()).as_ref().is_ok_and(is_other) {
            return Err(invalid(span, "only texts have a collation").with_hint("cast the value to VARCHAR"));
        }
        self.with_collation(value, &name, span)
    }

    /// A text with a collation in place of its own.
    fn with_collation(&mut self, value: Expr, name: &str, span: Span) -> Result<Expr> {
        if name.is_empty() && self.collation_of(&value).is_none() {
            return Ok(value);
        }
        self.has_collations = true;
        self.bare_call(COLLATED, vec![bare(value), text(name)], span)
    }

    /// Notes whether columns have collations.
    pub fn note_collations(&mut self, schema: &DFSchema) {
        self.has_collations |= schema.fields().iter().any(|field| of_field(field).is_some());
    }

    /// The collation of a text.
    pub fn collation_of(&self, value: &Expr) -> Option<String> {
        // Fields of expressions take their time.
        if !self.has_collations {
            return None;
        }
        let (_, field) = value.to_field(&self.schema()).ok()?;
        of_field(&field).map(str::to_owned)
    }

    /// What a text is compared by.
    fn key(&mut self, value: Expr, collation: &str, span: Span) -> Result<Expr> {
        let mut key = bare(value);
        for function in collation.split('.').filter_map(function) {
            key = self.bare_call(function, vec![key], span)?;
        }
        Ok(key)
    }

    /// What a value is compared by; the value itself without a collation.
    pub fn own_key(&mut self, value: Expr, span: Span) -> Result<Expr> {
        match self.collation_of(&value) {
            Some(collation) => self.key(value, &collation, span),
            None => Ok(bare(value)),
        }
    }

    /// A text without what is known of it beyond its type.
    pub fn without_meaning(&mut self, value: Expr, span: Span) -> Result<Expr> {
        self.bare_call(COLLATED, vec![value, text("")], span)
    }

    /// A call whose result has no collation.
    fn bare_call(&mut self, name: &str, arguments: Vec<Expr>, span: Span) -> Result<Expr> {
        match self.world.functions.scalar(name) {
            Some(function) => Ok(function.call(arguments)),
            None => Err(self.no_function(name, span)),
        }
    }

    /// Applies the collation of values that are compared to all of them. Those of rows and lists are compared part by part.
    pub fn collate_operands(&mut self, values: &mut [Expr], span: Span) -> Result<()> {
        if !self.has_collations {
            return Ok(());
        }
        if let Some(width) = parts_of(values) {
            for at in 0..width {
                let mut column: Vec<Expr> = values.iter_mut().filter_map(|value| part(value, at)).collect();
                self.collate_operands(&mut column, span)?;
                for (value, changed) in values.iter_mut().zip(column) {
                    set_part(value, at, changed);
                }
            }
            return Ok(());
        }
        let found =
            self.one_collation(values.iter().map(|value| self.collation_of(value)).collect::<Vec<_>>(), span)?;
        for value in values.iter_mut() {
            self.without_collated_parts(value, span)?;
            let taken = std::mem::take(value);
            *value = match &found {
                Some(collation) => self.key(taken, collation, span)?,
                None => bare(taken),
            };
        }
        Ok(())
    }

    /// Refuses lists, rows and maps that are compared, if a text in them has a collation.
    pub fn without_collated_parts(&self, value: &Expr, span: Span) -> Result<()> {
        if !self.has_collations {
            return Ok(());
        }
        let is_nested = value.get_type(&self.schema()).is_ok_and(|kind| kind.is_nested());
        if !is_nested || !value.exists(|part| Ok(self.collation_of(part).is_some())).at(span)? {
            return Ok(());
        }
        let message = "a collation of texts within rows, lists and maps is not available here";
        Err(invalid(span, message).with_hint("compare the texts on their own, or by lower(…)"))
    }

    /// Applies the collations of values that are compared with the columns of a query, and those of the columns, to both.
    pub fn collate_columns(&mut self, values: &mut [Expr], plan: LogicalPlan, span: Span) -> Result<LogicalPlan> {
        if !self.has_collations {
            return Ok(plan);
        }
        let schema = plan.schema().clone();
        let (mut columns, mut changed) = (plans::columns(&schema), false);
        for (at, (value, column)) in values.iter_mut().zip(&mut columns).enumerate() {
            self.without_collated_parts(value, span)?;
            let other = schema.fields().get(at).and_then(|field| of_field(field)).map(str::to_owned);
            let taken = std::mem::take(value);
            *value = match self.one_collation([self.collation_of(&taken), other], span)? {
                None => bare(taken),
                Some(collation) => {
                    changed = true;
                    let key = self.key(std::mem::take(column), &collation, span)?;
                    *column = key.alias(format!("__key_{at}"));
                    self.key(taken, &collation, span)?
                }
            };
        }
        if changed { plans::project(plan, columns).at(span) } else { Ok(plan) }
    }

    /// The collation that values have in common.
    pub fn one_collation(&self, all: impl IntoIterator<Item = Option<String>>, span: Span) -> Result<Option<String>> {
        let mut found: Option<String> = None;
        for own in all.into_iter().flatten() {
            if found.as_ref().is_some_and(|found| *found != own) {
                let message = format!("texts of two collations are compared: {} and {own}", found.unwrap_or_default());
                return Err(invalid(span, message).with_hint("give both the same with COLLATE"));
            }
            found = Some(own);
        }
        Ok(found)
    }

    /// A key of an order or a group by its collation, which may be written behind it.
    pub fn collated(&mut self, written: &tree::Expr, value: Expr) -> Result<Expr> {
        let ExprKind::Collate { collation, .. } = &written.kind else {
            self.without_collated_parts(&value, written.span)?;
            return self.own_key(value, written.span);
        };
        let name = known(collation)?;
        self.key(value, &name, written.span)
    }

    /// The result of a function, which has the collation of its arguments.
    pub fn of_collated(&mut self, result: Expr, arguments: &[Expr], span: Span) -> Result<Expr> {
        if !self.has_collations {
            return Ok(result);
        }
        let Some(collation) = arguments.iter().find_map(|argument| self.collation_of(argument)) else {
            return Ok(result);
        };
        match result.get_type(&self.schema()) {
            Ok(kind) if is_text(&kind) => self.with_collation(result, &collation, span),
            _ => Ok(result),
        }
    }

    /// Arguments of a function of values, by their collation if it compares them.
    pub fn compared_arguments(&mut self, name: &str, values: &mut [Expr], span: Span) -> Result<()> {
        if !self.has_collations {
            return Ok(());
        }
        let is_of_lists = name.starts_with("list_") || name.starts_with("array_");
        if is_of_lists && COMPARING_ITEMS.iter().any(|part| name.contains(part)) {
            for value in values.iter() {
                self.without_collated_parts(value, span)?;
            }
        }
        Ok(())
    }

    /// Whether a value has a collation.
    pub fn are_collated(&self, values: &[Expr]) -> bool {
        values.iter().any(|value| self.collation_of(value).is_some())
    }

    /// `nullif(a COLLATE NOCASE, b)`.
    pub fn nullif_collated(&mut self, mut values: Vec<Expr>, span: Span) -> Result<Expr> {
        let value = values.first().cloned().unwrap_or_default();
        self.collate_operands(&mut values, span)?;
        let mut values = values.into_iter();
        let (Some(one), Some(other), None) = (values.next(), values.next(), values.next()) else {
            return Err(invalid(span, "nullif takes two values"));
        };
        let differs = Expr::IsNotTrue(Box::new(plain(Operator::Eq, one, other)));
        let result = datafusion_expr::when(differs, bare(value.clone())).end().at(span)?;
        self.of_collated(result, &[value], span)
    }

    /// An aggregate of texts with a collation: the least and greatest by it, or different ones.
    pub fn collated_aggregate(
        &mut self,
        function: Arc<AggregateUDF>,
        distinct: bool,
        values: &mut Vec<Expr>,
        span: Span,
    ) -> Result<Arc<AggregateUDF>> {
        if distinct {
            for value in values.iter() {
                self.without_collated_parts(value, span)?;
            }
        }
        let first = match values.first() {
            Some(first) if self.has_collations => self.collation_of(first),
            _ => None,
        };
        match (function.name(), first) {
            ("min" | "max", Some(collation)) if values.len() == 1 => {
                let other = if function.name() == "min" { "arg_min" } else { "arg_max" };
                let Some(function) = self.world.functions.aggregate(other) else {
                    return Err(self.no_function(other, span));
                };
                let key = self.key(values.first().cloned().unwrap_or_default(), &collation, span)?;
                values.push(key);
                return Ok(function);
            }
            ("arg_min" | "arg_max", _) => {
                for value in values.iter_mut().skip(1).take(1) {
                    *value = self.own_key(std::mem::take(value), span)?;
                }
            }
            ("count", Some(collation)) if distinct => {
                for value in values.iter_mut().take(1) {
                    *value = self.key(std::mem::take(value), &collation, span)?;
                }
            }
            (name, Some(_)) if distinct => {
                let message = format!("{name}(DISTINCT …) of texts with a collation is not available");
                return Err(invalid(span, message).with_hint("select the DISTINCT texts in a subquery"));
            }
            _ => {}
        }
        Ok(function)
    }

    /// The keys of items of which rows are different by collations; `None` without collations.
    pub fn keys_of_items(&mut self, items: &[Item], span: Span) -> Result<Option<Vec<Expr>>> {
        if !items.iter().any(|item| self.collation_of(&item.value).is_some()) {
            return Ok(None);
        }
        let keys = items.iter().map(|item| self.own_key(item.value.clone(), span));
        keys.collect::<Result<_>>().map(Some)
    }

    /// The collations that the columns of two queries have in common.
    pub fn common_collations(&self, left: &Rows, right: &Rows, span: Span) -> Result<Vec<Option<String>>> {
        let (left, right) = (self.collations_of(left), self.collations_of(right));
        left.into_iter().zip(right).map(|(one, other)| self.one_collation([one, other], span)).collect()
    }

    /// The collations of the columns of rows.
    fn collations_of(&self, rows: &Rows) -> Vec<Option<String>> {
        let fields = rows.plan.schema().fields();
        fields.iter().map(|field| of_field(field).filter(|_| self.has_collations).map(str::to_owned)).collect()
    }

    /// Rows with collations of their columns, which set operations do not keep.
    pub fn with_collations(
        &mut self,
        plan: LogicalPlan,
        collations: &[Option<String>],
        span: Span,
    ) -> Result<LogicalPlan> {
        let schema = plan.schema().clone();
        let own = schema.fields().iter().map(|field| of_field(field));
        if own.eq(collations.iter().map(Option::as_deref)) {
            return Ok(plan);
        }
        let mut values = vec![];
        for (at, collation) in collations.iter().enumerate() {
            let column = plans::column(&schema, at);
            let name = column.name.clone();
            let value = Expr::Column(column);
            values.push(match collation {
                Some(collation) => self.with_collation(value, collation, span)?.alias(name),
                None => value,
            });
        }
        plans::project(plan, values).at(span)
    }

    /// The rows of a plan, of which those that are equal by collations are one.
    pub fn distinct_by_collation(&mut self, plan: LogicalPlan, span: Span) -> Result<LogicalPlan> {
        let columns = plans::columns(plan.schema());
        let scope = crate::scopes::Scope::of_schema(plan.schema());
        let (keys, _) = self.within(scope, |binder| {
            columns.iter().map(|column| binder.own_key(column.clone(), span)).collect::<Result<Vec<_>>>()
        })?;
        LogicalPlanBuilder::from(plan).distinct_on(keys, columns, None).and_then(LogicalPlanBuilder::build).at(span)
    }
}

/// The name of a collation.
fn known(collation: &ObjectName) -> Result<String> {
    collation_name(collation).ok_or_else(|| {
        let message = format!("collation {} is not available", crate::reading::shown(collation));
        invalid(collation.span, message)
            .with_hint("collations are C, POSIX, BINARY, NOCASE, NOACCENT and NFC, and several such as NOCASE.NOACCENT")
    })
}

/// The number of parts of values that are all written as rows, or all as structs with the same names.
fn parts_of(values: &[Expr]) -> Option<usize> {
    let shape = |value: &Expr| match value {
        Expr::ScalarFunction(call) if call.func.name() == "struct" => Some(call.args.len()),
        _ => None,
    };
    let first = shape(values.first()?)?;
    values.iter().all(|value| shape(value) == Some(first)).then_some(first)
}

/// Takes a part of a row.
fn part(value: &mut Expr, at: usize) -> Option<Expr> {
    match value {
        Expr::ScalarFunction(call) => call.args.get_mut(at).map(std::mem::take),
        _ => None,
    }
}

fn set_part(value: &mut Expr, at: usize, part: Expr) {
    if let Expr::ScalarFunction(call) = value
        && let Some(own) = call.args.get_mut(at)
    {
        *own = part;
    }
}
