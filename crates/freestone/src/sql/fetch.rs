//! `FETCH FIRST n ROWS ONLY`, the SQL standard's form of `LIMIT n`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, Value, VisitMut, VisitorMut};

use crate::sql::visitor;

/// Replaces every FETCH by a LIMIT. Without a number, it is one row.
pub(crate) fn rewrite(sql: &mut impl VisitMut) {
    struct Fetches;
    impl VisitorMut for Fetches {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if let Some(fetch) = query.fetch.take() {
                let one = || Expr::Value(Value::Number("1".into(), false).with_empty_span());
                let limit = Some(fetch.quantity.unwrap_or_else(one));
                query.limit_clause = Some(match query.limit_clause.take() {
                    Some(LimitClause::LimitOffset { offset, limit_by, .. }) => {
                        LimitClause::LimitOffset { limit, offset, limit_by }
                    }
                    _ => LimitClause::LimitOffset { limit, offset: None, limit_by: vec![] },
                });
            }
            ControlFlow::Continue(())
        }
    }
    let _ = visitor::visit_mut(sql, &mut Fetches);
}
