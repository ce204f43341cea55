//! The `TableProvider` of a native table in one snapshot.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Statistics};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableScan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use freestone_store::{Snapshot, Table};

use super::source::FreestoneSource;
use crate::error::Error;
use crate::internal_names::{ROW_ID_COLUMN, shown};
use crate::{settings, text_types};

/// Whether a scan is of a table of the database.
pub(crate) fn is_stored(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|provider| provider.downcast_ref::<FreestoneTable>().is_some())
}

/// A native table in one snapshot.
#[derive(Debug, Clone)]
pub struct FreestoneTable {
    snapshot: Arc<Snapshot>,
    table: Arc<Table>,
    row_ids: bool,
    schema: SchemaRef,
    /// Whether this is an earlier version, whatever the newest snapshot is.
    is_past: bool,
}

impl FreestoneTable {
    /// The table of that name; `None` if the snapshot does not have it.
    pub fn new(snapshot: Arc<Snapshot>, name: &str) -> Option<Self> {
        let table = snapshot.table(name)?.clone();
        let schema = text_types::annotated(table.schema.to_arrow(), &table.schema);
        Some(FreestoneTable { snapshot, table, row_ids: false, schema, is_past: false })
    }

    /// The same table as one of an earlier version.
    pub fn of_the_past(self) -> Self {
        FreestoneTable { is_past: true, ..self }
    }

    /// Whether this is an earlier version.
    pub(crate) fn is_past(&self) -> bool {
        self.is_past
    }

    /// Whether this is a table as a snapshot has it, without row ids.
    pub(crate) fn is_of(&self, snapshot: &Arc<Snapshot>) -> bool {
        !self.is_past && !self.row_ids && Arc::ptr_eq(&self.snapshot, snapshot)
    }

    /// The same table with the additional column `__row_id`, which DELETE and UPDATE return to the store.
    pub fn with_row_ids(mut self) -> Self {
        let mut fields: Vec<Arc<Field>> = self.schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(ROW_ID_COLUMN, freestone_store::scan::ROW_ID_TYPE, false)));
        self.schema = Arc::new(Schema::new(fields));
        self.row_ids = true;
        self
    }

    /// Whether a scan is of a table of the database, as the statement's snapshot has it.
    pub(crate) fn is_present(scan: &TableScan) -> bool {
        let provider = source_as_provider(&scan.source);
        provider.is_ok_and(|provider| provider.downcast_ref::<FreestoneTable>().is_some_and(|table| !table.is_past))
    }

    /// Refuses to read a materialized view that has not been computed.
    fn check_populated(&self) -> std::result::Result<(), Error> {
        let view = self.snapshot.materialized(self.table.id).and_then(|object| object.materialized());
        match view {
            Some(view) if !view.is_populated => {
                let name = shown(&self.table.name);
                Err(Error::invalid(format!("materialized view {name} has not been populated"))
                    .with_hint(format!("REFRESH MATERIALIZED VIEW {name}")))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

#[async_trait]
impl TableProvider for FreestoneTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // The scan evaluates all filters on this table's columns exactly. Only the row id is not a stored column.
        let pushdown = |filter: &&Expr| {
            let on_row_id = filter.column_refs().iter().any(|c| c.name == ROW_ID_COLUMN);
            if on_row_id || filter.is_volatile() {
                TableProviderFilterPushDown::Unsupported
            } else {
                TableProviderFilterPushDown::Exact
            }
        };
        Ok(filters.iter().map(pushdown).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.check_available().map_err(Error::from)?;
        self.check_populated()?;
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        // The row id comes after all stored columns.
        let columns = self.table.schema.columns.len();
        let place = |at: usize| if at < columns { at } else { self.table.schema.stored_count() };
        let projection = projection.cloned().unwrap_or(all).into_iter().map(place).collect();
        let target = state.config().target_partitions();
        let mut source =
            FreestoneSource::new(self.snapshot.clone(), self.table.clone(), self.row_ids, projection, target);
        source.set_past(self.is_past);
        source.set_iterator(settings::iterator(state.config_options()));
        let df_schema = DFSchema::try_from(self.schema.clone())?;
        for filter in filters {
            source.add_table_filter(state.create_physical_expr(filter.clone(), &df_schema)?)?;
        }
        source.find_key_codes()?;
        // The limit counts rows after the filters, which the scan applies itself.
        source.set_fetch(limit);
        Ok(DataSourceExec::from_data_source(source))
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }
}
