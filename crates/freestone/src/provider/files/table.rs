//! The `TableProvider` of files.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::progress::ReadProgress;
use super::set::FileSet;
use super::source::FilesSource;

/// Files as a table.
#[derive(Debug)]
pub(super) struct FilesTable {
    set: Arc<FileSet>,
    progress: Arc<ReadProgress>,
}

impl FilesTable {
    pub fn new(set: Arc<FileSet>, progress: Arc<ReadProgress>) -> Self {
        Self { set, progress }
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        self.set.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushdown = |filter: &&Expr| match filter.is_volatile() {
            true => TableProviderFilterPushDown::Unsupported,
            false => TableProviderFilterPushDown::Exact,
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
        let all: Vec<usize> = (0..self.set.schema.fields().len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let (set, progress) = (self.set.clone(), self.progress.clone());
        let mut source = FilesSource::new(set, progress, projection, state.config().target_partitions());
        let schema = DFSchema::try_from(self.set.schema.clone())?;
        for filter in filters {
            source.add_filter(&state.create_physical_expr(filter.clone(), &schema)?);
        }
        // The limit counts rows after the filters, which the scan applies itself.
        source.set_fetch(limit);
        Ok(DataSourceExec::from_data_source(source))
    }
}
