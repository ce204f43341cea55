//! Statements whose rows FROM reads: DESCRIBE, SUMMARIZE and SHOW TABLES.

use std::sync::Arc;

use datafusion_common::TableReference;
use datafusion_expr::{LogicalPlanBuilder, TableSource};
use freestone_sql::Span;
use freestone_sql::tree::{Described, Listing, ObjectName};

use crate::binder::Binder;
use crate::ctes::Cte;
use crate::error::{At, Result};
use crate::plans::Rows;
use crate::reading::{Named, query_of};
use crate::world::SUMMARIZED;

impl Binder<'_> {
    /// The rows of such a statement.
    pub fn listing(&mut self, listing: &Listing, span: Span) -> Result<Rows> {
        let source = match listing {
            Listing::Describe(described) => self.described(described, span)?,
            Listing::Summarize(described) => return self.summary(described, span),
            Listing::Tables => self.world.catalog.shown_tables(false).at(span)?,
            Listing::AllTables => self.world.catalog.shown_tables(true).at(span)?,
        };
        let names = source.schema().fields().iter().map(|field| field.name().clone()).collect();
        let name = TableReference::bare("listing");
        let plan = LogicalPlanBuilder::scan(name, source, None).at(span)?.build().at(span)?;
        Ok(Rows { plan, names })
    }

    /// The columns of a table, with its keys, or of a query.
    fn described(&mut self, described: &Described, span: Span) -> Result<Arc<dyn TableSource>> {
        if let Described::Table(name) = described
            && !self.is_part_of_with(name)
        {
            let named = Named::Table(name.clone());
            if let Some(source) = self.world.catalog.described(&named).at(span)? {
                // It must exist, and the session may read it.
                self.query(&query_of(described))?;
                return Ok(source);
            }
        }
        let Rows { plan, names } = self.query(&query_of(described))?;
        self.world.functions.described(plan, &names).at(span)
    }

    /// Statistics of each column: a query that reads the rows once.
    fn summary(&mut self, described: &Described, span: Span) -> Result<Rows> {
        let rows = self.query(&query_of(described))?;
        let summary = self.world.functions.summary(rows.plan.clone(), &rows.names).at(span)?;
        let in_sight = self.ctes.len();
        self.ctes.push(Cte { name: SUMMARIZED.to_owned(), is_state: false, rows });
        let summary = self.query(&summary);
        self.ctes.truncate(in_sight);
        summary
    }

    fn is_part_of_with(&self, name: &ObjectName) -> bool {
        self.part_of_with(name).is_some()
    }
}
