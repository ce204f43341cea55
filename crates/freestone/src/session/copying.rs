//! COPY … TO files.

use std::sync::Arc;

use datafusion::arrow::array::builder::{ListBuilder, StringViewBuilder};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::{Error, ErrorKind, Result};
use crate::export::{self, Export, Written as Files};
use crate::provider::files::{Inference, boolean};
use crate::session::{OneRun, Session};
use crate::sql::command::{CopyPath, CopyTo, OptionList};
use crate::sql::names;
use crate::sql::parameters::Parameters;
use crate::sql::statement::quote;
use crate::sql::written::Written;
use crate::times;

/// A COPY … TO whose values are computed.
#[derive(Debug, Clone)]
pub(super) struct CopyRequest {
    path: String,
    options: OptionList,
    /// The value of KV_METADATA.
    metadata: Option<Vec<(String, String)>>,
    is_ordered: bool,
}

impl CopyRequest {
    /// A file of this name.
    pub fn file(path: String, options: OptionList) -> CopyRequest {
        CopyRequest { path, options, metadata: None, is_ordered: false }
    }
}

impl Session {
    /// Writes the rows of a query to a file. It runs again if it reads a text file in which a value does not have the type
    /// that was inferred from a sample.
    pub(super) async fn copy_to(&self, copy: CopyTo, parameters: Parameters) -> Result<Outcome> {
        self.access.check_files()?;
        let request = self.computed_copy(copy, &parameters).await?;
        let inference = Inference::default();
        let error = match self.copy_once(request.clone(), parameters.clone(), inference.clone()).await {
            Err(error) => error,
            written => return written,
        };
        let repeats = error.kind() != ErrorKind::Cancelled && export::is_file(&request.path);
        match inference.widened().filter(|_| repeats) {
            // The error of the first run says what to declare.
            Some(widened) => self.copy_once(request, parameters, widened).await.map_err(|_| error),
            None => Err(error),
        }
    }

    async fn copy_once(&self, request: CopyRequest, parameters: Parameters, inference: Inference) -> Result<Outcome> {
        let scope = self.scope()?.with_tables(&parameters.tables).with_inference(inference);
        self.copy_in(scope, request, parameters).await
    }

    /// Writes the rows that a query has in a scope.
    pub(super) async fn copy_in(&self, scope: Scope, request: CopyRequest, parameters: Parameters) -> Result<Outcome> {
        let options = self.planner().settings().config_options().execution.clone();
        let (threads, group_rows) = (options.target_partitions, options.parquet.max_row_group_size);
        let export = Export::new(&request.path, &request.options, threads, group_rows, request.is_ordered)?;
        let export = export.in_stores(self.planner().stores())?;
        let export = match request.metadata {
            Some(metadata) => export.with_metadata(metadata)?,
            None => export,
        };
        let (partition_by, has_places) = (export.partition_by().to_vec(), export.has_places());
        let run = self.plan_apart(move |planner, cancellation| async move {
            let (state, plan) = planner.plan_query(&scope, &parameters).await?;
            OneRun::plan(&state, &export::sorted(plan, &partition_by, has_places)?, &cancellation).await
        });
        let rows = names::distinct_rows(run.await?.stream()?);
        let rows = times::in_zone_of_session(rows, self.planner().settings().config_options());
        let returns_files = export.returns_files();
        let written = export.write(rows).await?;
        match returns_files {
            true => Ok(Outcome::batch(files_written(&written)?)),
            false => Ok(Outcome::Affected { verb: "COPY", rows: written.rows }),
        }
    }

    /// The statement with the name of its file and the value of KV_METADATA.
    async fn computed_copy(&self, copy: CopyTo, parameters: &Parameters) -> Result<CopyRequest> {
        let CopyTo { path, options, metadata, is_ordered } = copy;
        let path = match path {
            CopyPath::Written(path) => path,
            CopyPath::Computed(value) => {
                let values = self.values_of(&format!("SELECT CAST({value} AS VARCHAR)"), parameters).await?;
                let paths = cast(values.column(0), &DataType::Utf8View)?;
                let null = || Error::invalid("the name of the file is NULL").with_hint("give a text");
                paths.as_string_view().iter().next().flatten().map(str::to_owned).ok_or_else(null)?
            }
        };
        let metadata = match metadata {
            Some(value) => Some(self.keys_and_values(&value, parameters).await?),
            None => None,
        };
        Ok(CopyRequest { path, options, metadata, is_ordered })
    }

    /// The texts under the keys of a struct.
    async fn keys_and_values(&self, value: &str, parameters: &Parameters) -> Result<Vec<(String, String)>> {
        let (scope, planned) = (self.scope()?, parameters.of_part(Written::new(&format!("SELECT {value}"))));
        let data_type = self.plan_apart(move |planner, _| async move {
            let (_, plan) = planner.plan_query(&scope, &planned).await?;
            Ok(plan.schema().field(0).data_type().clone())
        });
        let DataType::Struct(fields) = data_type.await? else {
            return Err(Error::invalid("KV_METADATA is no struct")
                .with_hint("write keys and values, as in KV_METADATA {key: 'value'}"));
        };
        if fields.is_empty() {
            return Ok(vec![]);
        }
        let texts = fields.iter().map(|field| match field.data_type() {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => format!("s.{}", quote(field.name())),
            _ => format!("CAST(s.{} AS VARCHAR)", quote(field.name())),
        });
        let texts = texts.collect::<Vec<_>>().join(", ");
        let values = self.values_of(&format!("SELECT {texts} FROM (SELECT {value} AS s)"), parameters).await?;
        let text = |(field, array): (&FieldRef, &ArrayRef)| -> Result<(String, String)> {
            let bytes = cast(array, &DataType::Binary)?;
            let Some(bytes) = bytes.as_binary::<i32>().iter().next().flatten() else {
                return Err(Error::invalid(format!("the value of the key {} of KV_METADATA is NULL", field.name())));
            };
            let text = std::str::from_utf8(bytes).map_err(|_| {
                Error::unsupported(format!("the value of the key {} of KV_METADATA is no UTF-8", field.name()))
            })?;
            Ok((field.name().clone(), text.to_owned()))
        };
        fields.iter().zip(values.columns()).map(text).collect()
    }

    /// The row of a query that has one.
    async fn values_of(&self, query: &str, parameters: &Parameters) -> Result<RecordBatch> {
        let parameters = parameters.of_part(Written::new(query));
        let batches = self.query_in(self.scope()?, &parameters).await?.collect().await?;
        let found = batches.into_iter().find(|batch| batch.num_rows() == 1);
        found.ok_or_else(|| Error::invalid("an option of COPY has no value"))
    }
}

/// Whether a statement with these options returns the names of its files.
pub(super) fn returns_files(options: &OptionList) -> bool {
    let given = options.iter().find(|(name, _)| name.eq_ignore_ascii_case("return_files"));
    given.is_some_and(|(name, value)| boolean(name, value).unwrap_or_default())
}

/// The columns of RETURN_FILES.
pub(super) fn files_schema() -> SchemaRef {
    let item = Arc::new(Field::new_list_field(DataType::Utf8View, true));
    let count = Field::new("Count", DataType::Int64, true);
    Arc::new(Schema::new(vec![count, Field::new("Files", DataType::List(item), true)]))
}

fn files_written(written: &Files) -> Result<RecordBatch> {
    let mut files = ListBuilder::new(StringViewBuilder::new());
    files.append_value(written.files.iter().map(Some));
    let count = Int64Array::from(vec![i64::try_from(written.rows).unwrap_or(i64::MAX)]);
    Ok(RecordBatch::try_new(files_schema(), vec![Arc::new(count), Arc::new(files.finish())])?)
}
