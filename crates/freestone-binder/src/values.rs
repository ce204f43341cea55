//! VALUES.

use std::collections::HashMap;

use arrow_schema::DataType;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlanBuilder};
use freestone_sql::{Span, tree};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::plans::Rows;
use crate::scopes::Scope;
use crate::types::{NORMAL, SqlType, common, is_quoted, is_text};

/// The expressions of a cell that are not counted: rows are limited by their text.
const CELL_NODES: usize = 4;

impl Binder<'_> {
    /// `VALUES (…), (…)`.
    pub fn values(&mut self, rows: &[Vec<tree::Expr>], span: Span) -> Result<Rows> {
        let width = rows.first().map_or(0, Vec::len);
        let bind = |binder: &mut Self| {
            let mut bound: Vec<Vec<Expr>> = Vec::with_capacity(rows.len());
            for (at, row) in rows.iter().enumerate() {
                if row.len() != width {
                    let place = row.first().map_or(span, |first| first.span);
                    let message = format!("row {} has {} values, expected {width}", at + 1, row.len());
                    return Err(invalid(place, message));
                }
                let mut values = Vec::with_capacity(width);
                for cell in row {
                    let cell = std::slice::from_ref(cell);
                    values.extend(binder.uncounted(CELL_NODES, |binder| binder.expressions(cell))?);
                }
                bound.push(values);
            }
            Ok(bound)
        };
        let (mut bound, scope) = self.within(Scope::empty(), bind)?;
        for at in 0..width {
            let types = bound.iter().filter_map(|row| row.get(at)).map(|value| {
                let kind = value.get_type(&scope.schema).unwrap_or(DataType::Null);
                (kind, is_quoted(value))
            });
            let types: Vec<(DataType, bool)> = types.collect();
            let Some(wanted) = needed(&types) else { continue };
            for (row, (own, _)) in bound.iter_mut().zip(types) {
                if let Some(value) = row.get_mut(at).filter(|_| own != wanted && own != DataType::Null) {
                    let taken = std::mem::take(value);
                    *value = Expr::Cast(Cast::new(Box::new(taken), wanted.clone()));
                }
            }
        }
        for at in 0..width {
            let mut column: Vec<&mut Expr> = bound.iter_mut().filter_map(|row| row.get_mut(at)).collect();
            self.with_one_meaning(&mut column, &scope, span)?;
        }
        let plan = LogicalPlanBuilder::values(bound).at(span)?.build().at(span)?;
        let names = (1..=width).map(|at| format!("column{at}")).collect();
        Ok(Rows { plan, names })
    }

    /// Gives the values of a column one meaning as texts: `('{}'::JSONB), ('[]'), (NULL)` are JSONB; of labels, texts with a collation
    /// and others among plain texts, the texts remain.
    fn with_one_meaning(&mut self, column: &mut [&mut Expr], scope: &Scope, span: Span) -> Result<()> {
        let meaning = |value: &Expr| match value.to_field(&scope.schema) {
            Ok((_, field)) => field.metadata().clone(),
            Err(_) => HashMap::new(),
        };
        let meanings: Vec<_> = column.iter().map(|value| meaning(value)).collect();
        if meanings.iter().all(|one| Some(one) == meanings.first()) {
            return Ok(());
        }
        let told: Vec<_> = meanings.iter().filter(|one| !one.is_empty()).collect();
        let normal = told.first().filter(|first| told.iter().all(|one| one == *first)).and_then(|one| one.get(NORMAL));
        let is_open =
            |value: &Expr| is_quoted(value) || matches!(value, Expr::Literal(literal, _) if literal.is_null());
        let are_open = column.iter().zip(&meanings).all(|(value, own)| !own.is_empty() || is_open(value));
        let to = normal.filter(|_| are_open).map(|name| SqlType::Normal(name.clone()));
        for (value, own) in column.iter_mut().zip(&meanings) {
            let changes = if to.is_some() { own.is_empty() } else { !own.is_empty() };
            if changes {
                let taken = std::mem::take(*value);
                **value = match &to {
                    Some(to) => self.cast_to(taken, to.clone(), false, span)?,
                    None => self.without_meaning(taken, span)?,
                };
            }
        }
        Ok(())
    }
}

/// The type of a column whose values have several, if DataFusion would give it another one.
fn needed(types: &[(DataType, bool)]) -> Option<DataType> {
    let typed = || types.iter().filter(|(kind, quoted)| !quoted && *kind != DataType::Null).map(|(kind, _)| kind);
    let has_quoted = types.iter().any(|(_, quoted)| *quoted);
    let is_mixed = has_quoted && typed().next().is_some() && !typed().any(is_text)
        || typed().any(DataType::is_floating) && typed().any(|kind| !kind.is_floating())
        || typed().any(|kind| *kind == DataType::Boolean) && typed().any(DataType::is_numeric);
    if is_mixed { common(types) } else { None }
}
