//! A WITH in a subquery may define a name that an outer WITH defines. In SQL, the innermost definition is used.
//! DataFusion allows each name only once, so inner ones are renamed.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, VisitMut, VisitorMut};

use super::folded;
use crate::internal_names::MARK;
use crate::sql::visitor;

/// Renames every WITH that has the name of an outer one.
pub(crate) fn rename_shadowing(sql: &mut impl VisitMut) {
    let _ = visitor::visit_mut(sql, &mut Shadowing::default());
}

#[derive(Default)]
struct Shadowing {
    /// The names of the outer WITHs, beginning with those of the outermost query.
    open: Vec<Vec<String>>,
    renamed: usize,
}

impl VisitorMut for Shadowing {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = defined(query);
        for (at, name) in own.iter().enumerate() {
            if self.open.iter().flatten().any(|outer| outer == name) {
                self.renamed += 1;
                let to = Ident::with_quote('"', format!("{name}{MARK}{}", self.renamed));
                rename(query, at, name, to);
            }
        }
        self.open.push(own);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.open.pop();
        ControlFlow::Continue(())
    }
}

/// The names that a query defines in its WITH.
fn defined(query: &Query) -> Vec<String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name)).collect()
}

/// Renames one table of a query's WITH in its definition and in all references.
fn rename(query: &mut Query, at: usize, from: &str, to: Ident) {
    let mut renaming = Renaming { from, to: to.clone(), shadowed: 0 };
    if let Some(with) = &mut query.with {
        // Only a recursive definition can refer to itself.
        let first = if with.recursive { at } else { at + 1 };
        for cte in with.cte_tables.iter_mut().skip(first) {
            let _ = visitor::visit_mut(&mut cte.query, &mut renaming);
        }
        if let Some(cte) = with.cte_tables.get_mut(at) {
            cte.alias.name = to;
        }
    }
    let _ = visitor::visit_mut(&mut query.body, &mut renaming);
    let _ = visitor::visit_mut(&mut query.order_by, &mut renaming);
}

struct Renaming<'a> {
    from: &'a str,
    to: Ident,
    /// The number of enclosing queries with their own WITH of this name.
    shadowed: usize,
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.shadowed += usize::from(defined(query).iter().any(|name| name == self.from));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.shadowed -= usize::from(defined(query).iter().any(|name| name == self.from));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.shadowed == 0
            && let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(ident) = part.as_ident().cloned()
            && folded(&ident) == self.from
        {
            alias.get_or_insert(TableAlias { explicit: true, name: ident, columns: vec![], at: None });
            *name = ObjectName::from(vec![self.to.clone()]);
        }
        ControlFlow::Continue(())
    }
}
