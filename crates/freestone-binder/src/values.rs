//! VALUES.

use arrow_schema::DataType;
use datafusion_expr::{Cast, Expr, ExprSchemable, LogicalPlanBuilder};
use freestone_sql::{Span, tree};

use crate::binder::Binder;
use crate::error::{At, Result, invalid};
use crate::plans::Rows;
use crate::scopes::Scope;
use crate::types::{common, is_quoted, is_text};

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
        let plan = LogicalPlanBuilder::values(bound).at(span)?.build().at(span)?;
        let names = (1..=width).map(|at| format!("column{at}")).collect();
        Ok(Rows { plan, names })
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
