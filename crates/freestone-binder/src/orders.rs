//! Keys of orders.

use datafusion_expr::SortExpr;
use freestone_sql::Span;
use freestone_sql::tree::{SortKey, SortOrder};

use datafusion_expr::Expr;

use crate::binder::Binder;
use crate::error::Result;

impl Binder<'_> {
    /// Keys of an order, as they stand in calls and windows.
    pub fn sorts(&mut self, keys: &[SortKey]) -> Result<Vec<SortExpr>> {
        let mut sorts = vec![];
        for key in keys {
            let value = self.expression(&key.value)?;
            let value = self.collated(&key.value, value)?;
            sorts.push(self.sort(value, key.order));
        }
        Ok(sorts)
    }

    /// Values as keys of an order.
    pub fn sorts_of_values(&mut self, values: Vec<Expr>, order: SortOrder, span: Span) -> Result<Vec<SortExpr>> {
        let mut sorts = vec![];
        for value in values {
            self.without_collated_parts(&value, span)?;
            let key = self.own_key(value, span)?;
            sorts.push(self.sort(key, order));
        }
        Ok(sorts)
    }

    /// A value in its direction. Where NULL is, the query says, or the session's settings.
    pub fn sort(&self, value: Expr, order: SortOrder) -> SortExpr {
        let descending = order.descending == Some(true);
        let nulls_first = order.nulls_first.unwrap_or_else(|| self.world.settings.is_null_first(descending));
        SortExpr { expr: value, asc: !descending, nulls_first }
    }
}
