//! Statements: a query or an ingestion, the bound rows, and execution.

use std::sync::Arc;

use adbc_core::error::Result;
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult};
use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::Schema;
use freestone::Strings;

use crate::error::{not_found, not_implemented, state};
use crate::exports;
use crate::ingest::{self, Ingestion};
use crate::link::{Link, Prepared, Reader};
use crate::options::{text, truth, unknown};
use crate::parameters;
use crate::runtime::{Cancel, CurrentSource, FirstMessage, Message, Rows, Signals, start, supersede};

const BY_NAME: &str = "adbc.statement.bind_by_name";
const INGEST_DESIGN: &str = "freestone.ingest.design";

/// The options of statements.
const OPTIONS: [&str; 8] = [
    "adbc.ingest.target_table",
    "adbc.ingest.mode",
    "adbc.ingest.target_catalog",
    "adbc.ingest.target_db_schema",
    "adbc.ingest.temporary",
    "adbc.statement.exec.incremental",
    BY_NAME,
    INGEST_DESIGN,
];

/// A statement of a connection. Executing it ends its earlier result.
pub struct FreestoneStatement {
    link: Arc<Link>,
    cancel: Cancel,
    work: Option<Work>,
    ingestion: Ingestion,
    bound: Option<Reader>,
    by_name: bool,
    current: Option<CurrentSource>,
}

/// What a statement executes.
enum Work {
    Query(Arc<Prepared>),
    Ingest,
}

impl FreestoneStatement {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        FreestoneStatement {
            link,
            cancel: Cancel::default(),
            work: None,
            ingestion: Ingestion::default(),
            bound: None,
            by_name: false,
            current: None,
        }
    }

    fn signals(&self) -> Signals {
        Signals::of(&[&self.link.cancel, &self.cancel])
    }

    fn query(&self) -> Result<&Arc<Prepared>> {
        match &self.work {
            Some(Work::Query(query)) => Ok(query),
            Some(Work::Ingest) => Err(state("the statement ingests rows; set a query first")),
            None => Err(state("the statement has no query; set one first")),
        }
    }

    /// Plans the query, unless that was done before.
    fn described(&mut self) -> Result<Arc<Prepared>> {
        let query = self.query()?.clone();
        if query.description.is_some() {
            return Ok(query);
        }
        self.end_current();
        let parsed = self.link.parse(query.text())?;
        let link = self.link.clone();
        let prepared = self.link.lane.wait(self.signals(), async move { link.prepare(parsed).await })?;
        let prepared = Arc::new(prepared);
        self.work = Some(Work::Query(prepared.clone()));
        Ok(prepared)
    }

    fn end_current(&mut self) {
        if let Some(current) = self.current.take() {
            supersede(&current);
        }
    }

    /// Executes the statement with the bound rows, which are consumed.
    fn start(&mut self) -> Result<FirstMessage> {
        self.end_current();
        let values = match self.bound.take() {
            Some(reader) if matches!(self.work, Some(Work::Query(_))) => {
                let query = self.described()?;
                Some(parameters::arranged(&query, reader, self.by_name)?)
            }
            bound => bound,
        };
        let (link, signals) = (self.link.clone(), self.signals());
        let started = match &self.work {
            None => return Err(nothing_to_execute()),
            Some(Work::Query(query)) => {
                let query = query.clone();
                start(&self.link.lane, signals, self.link.strings, |outlet| link.run(query, values, outlet))?
            }
            Some(Work::Ingest) => {
                let rows =
                    values.ok_or_else(|| state("there are no rows to ingest; bind a batch or a stream first"))?;
                let ingestion = self.ingestion.clone();
                start(&self.link.lane, signals, Strings::Views, |outlet| async move {
                    let rows = ingest::run(&link, ingestion, rows).await?;
                    outlet.send(Message::Changed(Some(rows))).await;
                    Ok(())
                })?
            }
        };
        if let FirstMessage::Rows(rows) = &started {
            self.current = Some(rows.current());
        }
        Ok(started)
    }
}

/// The error of a call without a query.
fn nothing_to_execute() -> adbc_core::error::Error {
    state("there is nothing to execute; set a query, or a table to ingest into (adbc.ingest.target_table)")
}

/// A number of rows in the type of ADBC.
fn count(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

impl Optionable for FreestoneStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref();
        match &key {
            OptionStatement::TargetTable => {
                self.ingestion.table = text(name, &value)?;
                self.work = Some(Work::Ingest);
            }
            OptionStatement::IngestMode => self.ingestion.mode = ingest::mode(&value)?,
            OptionStatement::TargetCatalog => {
                crate::connection::named("catalog", &text(name, &value)?, crate::CATALOG)?;
            }
            OptionStatement::TargetDbSchema => {
                crate::connection::named("schema", &text(name, &value)?, crate::SCHEMA)?;
            }
            OptionStatement::Temporary => self.ingestion.temporary = truth(name, &value)?,
            OptionStatement::Incremental => {
                if truth(name, &value)? {
                    return Err(not_implemented(
                        "results are not partitioned, so there is no incremental execution",
                        "execute the statement: its rows are computed as they are read",
                    ));
                }
            }
            other if other.as_ref() == BY_NAME => self.by_name = truth(name, &value)?,
            other if other.as_ref() == INGEST_DESIGN => self.ingestion.design = text(name, &value)?,
            _ => return Err(unknown("a statement", name, OPTIONS)),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        match &key {
            OptionStatement::TargetTable => Ok(self.ingestion.table.clone()),
            OptionStatement::IngestMode => Ok(self.ingestion.mode.into()),
            OptionStatement::TargetCatalog => Ok(crate::CATALOG.into()),
            OptionStatement::TargetDbSchema => Ok(crate::SCHEMA.into()),
            OptionStatement::Temporary => Ok(self.ingestion.temporary.to_string()),
            OptionStatement::Incremental => Ok("false".into()),
            other if other.as_ref() == BY_NAME => Ok(self.by_name.to_string()),
            other if other.as_ref() == INGEST_DESIGN => Ok(self.ingestion.design.clone()),
            other => Err(unknown("a statement", other.as_ref(), OPTIONS)),
        }
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        self.get_option_string(key.clone())?;
        Err(not_found(format!("option {} is no number", key.as_ref())))
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        self.get_option_string(key.clone())?;
        Err(not_found(format!("option {} is no number", key.as_ref())))
    }
}

impl adbc_core::Statement for FreestoneStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bind_stream(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Box<dyn RecordBatchReader + Send + 'static>> {
        let (rows, changed) = match self.start()? {
            FirstMessage::Rows(rows) => (rows, None),
            FirstMessage::Changed(changed) => (Rows::none(), changed),
        };
        exports::began(rows.failure(), changed.map(count));
        Ok(Box::new(rows))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        match self.start()? {
            FirstMessage::Changed(rows) => Ok(rows.map(count)),
            FirstMessage::Rows(rows) => {
                let failure = rows.failure();
                for batch in rows {
                    if let Err(error) = batch {
                        let failed = failure.lock().take();
                        return Err(failed.unwrap_or_else(|| crate::error::internal(error)));
                    }
                }
                self.current = None;
                Ok(None)
            }
        }
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let query = self.described()?;
        let columns = query.description.as_ref().and_then(|description| description.columns.clone());
        Ok(columns.map_or_else(Schema::empty, |columns| self.link.strings.schema(&columns).as_ref().clone()))
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(not_implemented("results are not partitioned", "execute the statement"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let query = self.query()?;
        let description = query.description.as_ref().ok_or_else(|| state("prepare the statement first"))?;
        parameters::schema(query, &description.parameters)
    }

    fn prepare(&mut self) -> Result<()> {
        self.described().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        let query = self.link.parse(query.as_ref())?;
        self.work = Some(Work::Query(Arc::new(query)));
        self.bound = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(not_implemented("Substrait plans are not executed", "set an SQL query"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(self.cancel.clone())
    }
}
