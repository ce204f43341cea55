//! `COPY … TO 'folder' (PARTITION_BY (a, b))`: one file per combination of values, in folders with names `a=1/b=x`.
//!
//! The rows come sorted by these columns, so one file is written at a time. All files appear when all are complete. A
//! statement that fails leaves neither files nor new folders.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::partition;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Column, DataFusionError};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;

use super::target::Complete;
use super::{Export, blocking};
use crate::display::ValueTexts;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::NULL_PARTITION;

/// The columns of the folders and those of the files.
struct Columns {
    folders: Vec<usize>,
    files: Vec<usize>,
    /// The schema of the files.
    schema: SchemaRef,
}

impl Columns {
    fn new(schema: &Schema, names: &[String]) -> Result<Columns> {
        let folders = positions(schema, names)?;
        let files: Vec<usize> = (0..schema.fields().len()).filter(|at| !folders.contains(at)).collect();
        if files.is_empty() {
            return Err(Error::invalid("PARTITION_BY names all columns: the files would have none")
                .with_hint("leave out one of them, or select another column"));
        }
        Ok(Columns { schema: Arc::new(schema.project(&files)?), folders, files })
    }

    /// The folder of a row, relative to that of the statement.
    fn folder(&self, batch: &RecordBatch, row: usize) -> Result<String> {
        let part = |at: &usize| -> Result<String> {
            let texts = ValueTexts::new(batch.column(*at).as_ref())?;
            let name = escaped(batch.schema_ref().field(*at).name());
            if texts.is_null(row) {
                return Ok(format!("{name}={NULL_PARTITION}"));
            }
            let mut value = String::new();
            texts.append(row, &mut value);
            Ok(match value == NULL_PARTITION {
                true => format!("{name}=%5F{}", &value[1..]),
                false => format!("{name}={}", escaped(&value)),
            })
        };
        let parts: Vec<String> = self.folders.iter().map(part).collect::<Result<_>>()?;
        Ok(parts.join("/"))
    }
}

/// The plan with its rows sorted by the columns of PARTITION_BY.
///
/// # Errors
/// There is no such column, or one is named twice.
pub(crate) fn sorted(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    if names.is_empty() {
        return Ok(plan);
    }
    let schema = plan.schema();
    let shown = crate::sql::names::shown(Arc::new(schema.as_arrow().clone()));
    let keys: Vec<_> = positions(&shown, names)?
        .into_iter()
        .map(|at| Expr::from(Column::from(schema.qualified_field(at))).sort(true, false))
        .collect();
    Ok(LogicalPlanBuilder::from(plan).sort(keys)?.build()?)
}

/// The positions of the columns of PARTITION_BY.
fn positions(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let mut positions = vec![];
    for name in names {
        let fields = || schema.fields().iter().map(|field| field.name().as_str());
        let found = fields().position(|field| field == name);
        let found = found.or_else(|| fields().position(|field| field.eq_ignore_ascii_case(name)));
        let at = found.ok_or_else(|| Error::not_found("column", name, fields()))?;
        if positions.contains(&at) {
            return Err(Error::invalid(format!("PARTITION_BY names the column {name} twice")));
        }
        positions.push(at);
    }
    Ok(positions)
}

/// A text as part of a path: separators and characters that file systems or patterns give a meaning are `%2F`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        let is_special = character.is_control() || "/\\=%:*?\"<>|[]{}#^'~".contains(character);
        match is_special {
            true => {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    escaped.push_str(&format!("%{byte:02X}"));
                }
            }
            false => escaped.push(character),
        }
    }
    escaped
}

/// A file that is being written.
struct Open {
    folder: String,
    rows: Sender<Result<RecordBatch, DataFusionError>>,
    writing: JoinHandle<Result<(Complete, u64)>>,
}

impl Open {
    /// Starts the file of this number in a folder.
    fn start(export: &Export, folder: String, number: usize, schema: &SchemaRef) -> Open {
        let file = Path::new(&export.path).join(&folder).join(format!("data_{number}.{}", export.extension));
        let export = Export { path: file.display().to_string(), partition_by: vec![], ..export.clone() };
        let (rows, received) = channel(2);
        let batches = stream::unfold(received, |mut received| async move { Some((received.recv().await?, received)) });
        let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
        let writing = tokio::spawn(async move { export.write_file(stream).await });
        Open { folder, rows, writing }
    }

    async fn finish(self) -> Result<(Complete, u64)> {
        drop(self.rows);
        match self.writing.await {
            Ok(written) => written,
            Err(error) => Err(Error::new(ErrorKind::Internal, format!("internal error: {error}"))),
        }
    }
}

/// Writes rows that are sorted by the columns of PARTITION_BY, and returns their number.
pub(super) async fn write(export: Export, mut rows: SendableRecordBatchStream) -> Result<u64> {
    let root = Path::new(&export.path);
    if root.is_file() || root.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::invalid(format!("{} is not an empty folder", export.path))
            .with_hint("PARTITION_BY writes into a new or empty folder"));
    }
    let columns = Columns::new(&rows.schema(), &export.partition_by)?;
    let (mut open, mut complete, mut count) = (None::<Open>, vec![], 0);
    // Values with one text, such as two kinds of NaN, need not be neighbors.
    let mut numbers: HashMap<String, usize> = HashMap::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let keys: Vec<_> = columns.folders.iter().map(|at| batch.column(*at).clone()).collect();
        for range in partition(&keys)?.ranges() {
            let folder = columns.folder(&batch, range.start)?;
            if let Some(before) = open.take_if(|open| open.folder != folder) {
                let (file, rows) = before.finish().await?;
                complete.push(file);
                count += rows;
            }
            let open = open.get_or_insert_with(|| {
                let files = numbers.entry(folder.clone()).or_default();
                *files += 1;
                Open::start(&export, folder, *files - 1, &columns.schema)
            });
            let part = batch.slice(range.start, range.len()).project(&columns.files)?;
            if open.rows.send(Ok(part)).await.is_err() {
                break;
            }
        }
        // A writer that ended early has failed, and its error is that of the statement.
        if let Some(failed) = open.take_if(|open| open.rows.is_closed()) {
            failed.finish().await?;
            return Err(Error::new(ErrorKind::Internal, "internal error: a file ended before its rows"));
        }
    }
    if let Some(last) = open {
        let (file, rows) = last.finish().await?;
        complete.push(file);
        count += rows;
    }
    blocking(move || Complete::publish_all(complete)).await?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parts_of_paths() {
        assert_eq!(escaped("a/b=c%"), "a%2Fb%3Dc%25");
        assert_eq!(escaped("ü x\n*"), "ü x%0A%2A");
    }
}
