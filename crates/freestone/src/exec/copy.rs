//! `COPY … FROM` files. [`crate::export`] has `COPY … TO` a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, StringViewArray, UInt32Array, new_null_array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use freestone_bucket::Stores;
use freestone_store::schema::{Column, TableSchema};
use freestone_store::{LockMode, StoreError, WriteTransaction};

use crate::catalog::Scope;
use crate::context::{Outcome, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::exec::defaults::Defaults;
use crate::exec::dml;
use crate::exec::stored_values::Places;
use crate::exec::write::WriteContext;
use crate::ingest;
use crate::ingest::{FileFormat, FileReader, FoundFile, IngestError, IngestOptions, Location, RejectSink, SpooledFile};
use crate::provider::files::{FileOptions, Layout, RejectNames, RejectTables, arguments};
use crate::sql::command::{CopyFrom, OptionList};

/// `COPY table [(columns)] FROM 'file' (options)`. The name may be a folder or a pattern. Files are read in the order
/// of their names. Columns of files are assigned by name, and those that the table does not have are ignored.
pub(crate) fn copy_from(
    transaction: &mut WriteTransaction,
    context: &WriteContext,
    request: &CopyFrom,
    progress: Option<&dyn Progress>,
) -> Result<Outcome> {
    let table = dml::find(transaction, &request.table, LockMode::Shared)?;
    context.prepare_append(transaction, None)?;
    let memory_bytes = context.prepare_parse()?;
    let given_options = from_options(&request.options, context.threads())?;
    let options = IngestOptions { memory_bytes, reading: context.assignment(), ..given_options.ingest.clone() };
    let scope = Scope::new(transaction.snapshot());
    let defaults = Arc::new(Defaults::of(context, &scope, &table.schema, &given(&table.schema, request)?)?);
    let stores = context.planner().stores();
    let mut loading = Loading::new(request, &table.schema, options.clone(), defaults.clone(), stores)?;
    loading.check(&given_options)?;
    if let Some(names) = &given_options.rejects {
        loading.keep_rejects(context.planner().rejects(), names, arguments(&given_options))?;
    }
    let watched = Watched::new(progress, &request.table, loading);
    let rows = dml::append(transaction, context, &request.table, &table.schema, Places::all(&table.schema), watched)?;
    transaction.check_keys().map_err(|error| {
        let place = place_of(&error, &table.schema, || Loading::new(request, &table.schema, options, defaults, stores));
        let error = Error::from(error);
        // Without a place the error says enough.
        place.ok().flatten().map_or(error.clone(), |place| error.at(&place))
    })?;
    Ok(Outcome::Affected { verb: "COPY", rows })
}

/// Where the files have the key of an error: the second of the rows with it, or the only one.
fn place_of<'a>(
    error: &StoreError,
    schema: &TableSchema,
    again: impl FnOnce() -> Result<Loading<'a>>,
) -> Result<Option<String>> {
    let StoreError::DuplicateKey { constraint, key, .. } = error else { return Ok(None) };
    let Some(unique) = schema.unique_keys.iter().find(|unique| unique.name == *constraint) else { return Ok(None) };
    let columns = schema.positions(&unique.columns)?;
    let mut loading = again()?;
    // What comes from a pipe is there once.
    if loading.files.as_slice().iter().any(|file| file.spooled.is_some()) {
        return Ok(None);
    }
    let (mut found, mut file, mut row) = (None, None, 0);
    while let Some(batch) = loading.next() {
        let batch = batch?;
        let path = loading.current.as_ref().map(|input| input.path.display().to_string());
        if path != file {
            (file, row) = (path, 0);
        }
        let options = FormatOptions::default();
        let values = columns.iter().map(|at| ArrayFormatter::try_new(batch.column(*at).as_ref(), &options));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        for at in 0..batch.num_rows() {
            row += 1;
            let is_null = columns.iter().any(|column| batch.column(*column).is_null(at));
            let shown = || values.iter().map(|value| value.value(at).to_string()).collect::<Vec<_>>().join(", ");
            if !is_null && shown() == *key {
                let place = format!("{}, row {row}", file.as_deref().unwrap_or_default());
                if found.replace(place).is_some() {
                    return Ok(found);
                }
            }
        }
    }
    Ok(found)
}

/// The columns whose values come from the files.
fn given(table: &TableSchema, request: &CopyFrom) -> Result<Places> {
    Places::named(table, &request.columns)
}

/// The columns to read: the named ones, in that order, or those of the table.
fn read_schema(table: &TableSchema, columns: &[String]) -> Result<SchemaRef> {
    let schema = table.to_arrow();
    if columns.is_empty() {
        return Ok(schema);
    }
    let indices = columns.iter().map(|column| table.index_of(column)).collect::<Result<Vec<_>, _>>()?;
    let is_missing = |(at, column): &(usize, &Column)| {
        !column.nullable && !columns.contains(&column.name) && table.default_of(*at).is_none()
    };
    if let Some((_, missing)) = table.columns.iter().enumerate().find(is_missing) {
        let message = format!("column {} is NOT NULL and not among the columns to load", missing.name);
        return Err(Error::new(ErrorKind::Constraint, message));
    }
    Ok(Arc::new(schema.project(&indices)?))
}

/// A file to read. A pipe or a spreadsheet is read from a temporary file with its contents.
struct Input {
    path: PathBuf,
    spooled: Option<SpooledFile>,
    /// Of the temporary file, if it is another one than of the file itself.
    format: Option<FileFormat>,
}

impl Input {
    fn new(file: FoundFile, options: &IngestOptions) -> Result<Input> {
        let replaced = ingest::replaced(&file, options)?;
        let path = file.path;
        Ok(match replaced {
            Some((spooled, format)) => Input { path, spooled: Some(spooled), format },
            None => Input { path, spooled: None, format: None },
        })
    }

    fn read_path(&self) -> &Path {
        self.spooled.as_ref().map_or(&self.path, SpooledFile::path)
    }

    /// The error with the name that the user wrote.
    fn renamed(&self, error: IngestError) -> IngestError {
        match &self.spooled {
            Some(_) => error.in_source(self.path.display().to_string()),
            None => error,
        }
    }
}

/// The batches of all files, one file after the other.
struct Loading<'a> {
    /// Of the columns that are not read.
    defaults: Arc<Defaults<'a>>,
    read: SchemaRef,
    table: SchemaRef,
    files: std::vec::IntoIter<Input>,
    current: Option<Input>,
    /// One row with the columns whose values follow from the folders of the current file, as in `year=2024/`.
    named: Option<RecordBatch>,
    reader: Option<FileReader>,
    /// The bytes of the files before the current one.
    bytes_before: u64,
    options: IngestOptions,
    /// What receives the records of each file that are left out; empty if they are not kept.
    rejects: std::vec::IntoIter<RejectSink>,
}

impl<'a> Loading<'a> {
    fn new(
        request: &CopyFrom,
        table: &TableSchema,
        options: IngestOptions,
        defaults: Arc<Defaults<'a>>,
        stores: &Stores,
    ) -> Result<Loading<'a>> {
        let input = |file| Input::new(file, &options);
        let files = ingest::find_files(&request.path, stores)?.into_iter().map(input).collect::<Result<Vec<_>>>()?;
        Ok(Loading {
            defaults,
            read: read_schema(table, &request.columns)?,
            table: table.to_arrow(),
            files: files.into_iter(),
            current: None,
            named: None,
            reader: None,
            bytes_before: 0,
            options,
            rejects: vec![].into_iter(),
        })
    }

    /// Refuses options that the format of the files does not have, and columns that are not read.
    fn check(&self, options: &FileOptions) -> Result<()> {
        options.check_columns(self.read.fields().iter().map(|field| field.name().as_str()))?;
        let formats = self.files.as_slice().iter().map(|file| self.options.format.or(FileFormat::of_path(&file.path)));
        formats.flatten().try_for_each(|format| options.check_format(format))
    }

    /// Keeps the records that are left out in tables of the session.
    fn keep_rejects(&mut self, tables: &RejectTables, names: &RejectNames, arguments: Option<String>) -> Result<()> {
        let layout = |file: &Input| -> Result<Layout> {
            let layout = ingest::csv_layout(file.read_path(), &self.read, &self.options);
            let layout = layout.map_err(|error| file.renamed(error))?;
            let path = file.path.display().to_string();
            Ok(Layout::new(&path, &layout, self.read.fields().iter(), &self.options, arguments.clone()))
        };
        let layouts = self.files.as_slice().iter().map(layout).collect::<Result<Vec<_>>>()?;
        self.rejects = tables.begin(names, layouts).into_iter();
        Ok(())
    }

    /// Bytes of the files whose rows have been delivered.
    fn bytes_done(&self) -> u64 {
        self.bytes_before + self.reader.as_ref().map_or(0, FileReader::bytes_done)
    }

    /// A batch with the table's columns; those that were not read have their DEFAULT or NULL.
    fn completed(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.named.is_none() && self.read == self.table {
            return Ok(batch);
        }
        let rows = batch.num_rows();
        let named = |name: &str| self.named.as_ref().and_then(|named| named.column_by_name(name));
        let defaults = self.defaults.values(rows)?;
        let column = |(at, field): (usize, &FieldRef)| match (named(field.name()), batch.column_by_name(field.name())) {
            (Some(value), _) => Ok(take(value, &UInt32Array::from(vec![0; rows]), None)?),
            (None, Some(column)) => Ok(column.clone()),
            (None, None) => Ok(defaults
                .iter()
                .find(|(column, _)| *column == at)
                .map_or_else(|| new_null_array(field.data_type(), rows), |(_, values)| values.clone())),
        };
        let columns = self.table.fields().iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        // A default has the type of its expression until it is stored.
        let fields = self.table.fields().iter().zip(&columns);
        let fields = fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true));
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)?)
    }

    /// Sets the values that follow from the folders of a file, and returns the columns to read from the file itself.
    fn take_named(&mut self, file: &Input) -> Result<SchemaRef> {
        let partitions = ingest::partitions(&file.path);
        let named = |field: &FieldRef| partitions.iter().rev().find(|(name, _)| name == field.name());
        let (of_folders, of_file): (Vec<FieldRef>, Vec<FieldRef>) =
            self.read.fields().iter().cloned().partition(|field| named(field).is_some());
        self.named = None;
        if of_folders.is_empty() {
            return Ok(self.read.clone());
        }
        let text = |field: &FieldRef| -> ArrayRef {
            let value = named(field).and_then(|(_, value)| value.as_deref());
            Arc::new(StringViewArray::from(vec![value]))
        };
        let texts: Vec<ArrayRef> = of_folders.iter().map(text).collect();
        let at = Location { source: file.path.display().to_string(), first_row: 1 };
        let row = ingest::conform_columns(&texts, 1, &Arc::new(Schema::new(of_folders)), &at);
        self.named = Some(row.map_err(IngestError::without_row)?);
        Ok(Arc::new(Schema::new(of_file)))
    }
}

impl Iterator for Loading<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.reader.as_mut().and_then(Iterator::next) {
                let renamed = |error| self.current.iter().fold(error, |error, file| file.renamed(error));
                return Some(batch.map_err(|error| renamed(error).into()).and_then(|batch| self.completed(batch)));
            }
            let file = self.files.next()?;
            self.bytes_before = self.bytes_done();
            // The schema is inferred under the file's own name, whose extension tells the format.
            let format = file.format.or(self.options.format).or_else(|| FileFormat::of_path(&file.path));
            let rejects = self.rejects.next();
            let options = IngestOptions { format, rejects, ..self.options.clone() };
            let opened = self.take_named(&file).and_then(|schema| {
                ingest::read_file(file.read_path(), schema, &options).map_err(|error| file.renamed(error).into())
            });
            match opened {
                Ok(reader) => self.reader = Some(reader),
                Err(error) => return Some(Err(error)),
            }
            self.current = Some(file);
        }
    }
}

/// Reports the number of loaded bytes.
struct Watched<'a> {
    progress: Option<&'a dyn Progress>,
    loading: Loading<'a>,
}

impl<'a> Watched<'a> {
    fn new(progress: Option<&'a dyn Progress>, table: &str, loading: Loading<'a>) -> Self {
        if let Some(progress) = progress {
            let sizes =
                loading.files.as_slice().iter().map(|file| std::fs::metadata(file.read_path()).map(|data| data.len()));
            progress.begin(&format!("COPY {table}"), sizes.sum::<Result<u64, _>>().ok());
        }
        Watched { progress, loading }
    }
}

impl Iterator for Watched<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.loading.next();
        if let Some(progress) = self.progress {
            progress.advance(self.loading.bytes_done());
        }
        batch
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.progress {
            progress.end();
        }
    }
}

fn from_options(given: &OptionList, threads: usize) -> Result<FileOptions> {
    let mut options = FileOptions::new(threads);
    for (name, value) in given {
        let of_queries = [
            "types",
            "dtypes",
            "column_types",
            "columns",
            "names",
            "column_names",
            "all_varchar",
            "auto_type_candidates",
            "sample_size",
            "sample_rows",
            "filename",
            "hive_partitioning",
            "hive_types",
            "hive_types_autocast",
        ];
        if of_queries.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Error::invalid(format!(
                "COPY FROM has no option {name}: columns have the names and types of the table"
            ))
            .with_hint("use INSERT INTO table SELECT … FROM 'file' (options)"));
        }
        options.set(name, value, &|_| Err(Error::invalid("COPY FROM reads the types of the table")))?;
    }
    options.complete()
}
