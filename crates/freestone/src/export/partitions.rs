//! `COPY … TO 'folder' (PARTITION_BY (a, b))`: one file per combination of values, in folders with names `a=1/b=x`; and
//! files in a folder without PARTITION_BY.
//!
//! The rows come sorted by these columns, so one file is written at a time. All files appear when all are complete. A
//! statement that fails leaves neither files nor new folders.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

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
use uuid::Uuid;

use super::series::{Limits, NewFile, Series};
use super::target::{Complete, check_folder, io_error};
use super::{Export, Written, blocking};
use crate::display::ValueTexts;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{FileFormat, NULL_PARTITION};
use crate::sql::names;

/// How files are divided among folders.
#[derive(Debug, Clone)]
pub(super) struct Folders {
    /// The columns whose values name the folders; `*` for all columns. Without them, all files are in one folder.
    pub columns: Vec<String>,
    /// Whether the last column of the rows is the place of each in the order of ORDER_BY.
    pub has_places: bool,
    /// When a file ends, and the next one of its folder begins.
    pub limits: Limits,
    /// Whether a file is written if there are no rows.
    pub writes_empty: bool,
    /// Whether these columns are in the files, too.
    pub writes_columns: bool,
    pub existing: Existing,
    pub names: FileNames,
}

/// What happens to files that are in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// There must be none.
    Refused,
    /// All data files are removed when the new ones are complete.
    Replaced,
    /// Those with the name of a new one are replaced.
    Overwritten,
    /// They stay, and new files have names of their own.
    Kept,
}

/// The names of the files in a folder: a pattern in which `{i}` is a number and `{uuid}` an identifier.
#[derive(Debug, Clone)]
pub(super) struct FileNames {
    pattern: String,
    extension: String,
}

/// The labels of a pattern that make a name unique.
const UNIQUE: [&str; 3] = ["{uuid}", "{uuidv4}", "{uuidv7}"];

impl FileNames {
    /// # Errors
    /// The pattern is no name of a file, or does not make names unique where it must.
    pub fn new(pattern: Option<&str>, extension: &str, existing: Existing) -> Result<FileNames> {
        let is_added = existing == Existing::Kept;
        let pattern = pattern.unwrap_or(if is_added { "{uuid}" } else { "data_{i}" });
        if pattern.is_empty() || pattern.starts_with('.') || [pattern, extension].iter().any(|part| part.contains('/'))
        {
            return Err(Error::invalid(format!("FILENAME_PATTERN '{pattern}' with .{extension} does not name files"))
                .with_hint("write a name without '/', as in 'part_{i}'"));
        }
        let is_unique = UNIQUE.iter().any(|label| pattern.contains(label));
        if is_added && !is_unique {
            return Err(Error::invalid("APPEND gives new files names of their own: FILENAME_PATTERN needs {uuid}"));
        }
        // Without a label, the number is at the end.
        let number = if is_unique || pattern.contains("{i}") { "" } else { "{i}" };
        Ok(FileNames { pattern: format!("{pattern}{number}"), extension: extension.to_owned() })
    }

    /// The name of a file, whose number in its folder is this one.
    pub fn name(&self, number: usize) -> String {
        let mut name = self.pattern.replace("{i}", &number.to_string());
        for label in UNIQUE {
            if name.contains(label) {
                let id = if label == "{uuidv7}" { ordered_uuid() } else { Uuid::new_v4() };
                name = name.replace(label, &id.to_string());
            }
        }
        format!("{name}.{}", self.extension)
    }
}

/// A UUID of version 7, which begins with the time.
fn ordered_uuid() -> Uuid {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut bytes = Uuid::new_v4().into_bytes();
    bytes[..6].copy_from_slice(&(since.as_millis() as u64).to_be_bytes()[2..]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    Uuid::from_bytes(bytes)
}

/// The columns of the folders and those of the files.
struct Columns {
    folders: Vec<usize>,
    files: Vec<usize>,
    /// The schema of the files.
    schema: SchemaRef,
}

impl Columns {
    fn new(schema: &Schema, by: &Folders) -> Result<Columns> {
        let folders = positions(schema, &by.columns)?;
        let is_written = |at: &usize| by.writes_columns || !folders.contains(at);
        let files: Vec<usize> = (0..schema.fields().len()).filter(is_written).collect();
        if files.is_empty() {
            return Err(Error::invalid("PARTITION_BY names all columns: the files would have none")
                .with_hint("leave out one of them, or write them into the files: WRITE_PARTITION_COLUMNS"));
        }
        Ok(Columns { schema: Arc::new(schema.project(&files)?), folders, files })
    }

    /// The ranges of rows that belong to one folder each.
    fn ranges(&self, batch: &RecordBatch) -> Result<Vec<Range<usize>>> {
        if batch.num_rows() == 0 {
            return Ok(vec![]);
        }
        if self.folders.is_empty() {
            return Ok(std::iter::once(0..batch.num_rows()).collect());
        }
        let keys: Vec<_> = self.folders.iter().map(|at| batch.column(*at).clone()).collect();
        Ok(partition(&keys)?.ranges())
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

/// The plan with its rows sorted by the columns of PARTITION_BY. With `has_places`, its last column has the place of each
/// row among those of a folder, and is left out.
///
/// # Errors
/// There is no such column, or one is named twice.
pub(crate) fn sorted(plan: LogicalPlan, columns: &[String], has_places: bool) -> Result<LogicalPlan> {
    if columns.is_empty() {
        return Ok(plan);
    }
    let schema = plan.schema().clone();
    let count = schema.fields().len() - usize::from(has_places);
    let mut shown = names::distinct(names::shown(Arc::new(schema.as_arrow().clone())));
    if has_places {
        shown = Arc::new(shown.project(&(0..count).collect::<Vec<_>>())?);
    }
    let column = |at: usize| Expr::from(Column::from(schema.qualified_field(at)));
    let keys = positions(&shown, columns)?
        .into_iter()
        .chain(count..schema.fields().len())
        .map(|at| column(at).sort(true, false));
    let sorted = LogicalPlanBuilder::from(plan).sort(keys.collect::<Vec<_>>())?;
    match has_places {
        true => Ok(sorted.project((0..count).map(column))?.build()?),
        false => Ok(sorted.build()?),
    }
}

/// The positions of the columns of PARTITION_BY.
fn positions(schema: &Schema, wanted: &[String]) -> Result<Vec<usize>> {
    if wanted == ["*"] {
        return Ok((0..schema.fields().len()).collect());
    }
    let mut positions = vec![];
    for name in wanted {
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

/// A folder whose files are being written.
struct Open {
    folder: String,
    rows: Sender<Result<RecordBatch, DataFusionError>>,
    writing: JoinHandle<Result<(Vec<NewFile>, u64)>>,
}

impl Open {
    /// Starts the files of a folder, of which the first has this number.
    fn start(export: &Export, folders: &Folders, folder: String, number: usize, schema: &SchemaRef) -> Open {
        let path = Path::new(&export.path).join(&folder).display().to_string();
        let export = Export { path, folders: None, ..export.clone() };
        let series = Series { export, names: folders.names.clone(), number, limits: folders.limits };
        let (rows, received) = channel(2);
        let batches = stream::unfold(received, |mut received| async move { Some((received.recv().await?, received)) });
        let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
        let writing = tokio::spawn(series.write(stream));
        Open { folder, rows, writing }
    }
}

/// What is complete.
#[derive(Default)]
struct Done {
    files: Vec<NewFile>,
    rows: u64,
    /// The number of files of each folder. Values with one text, such as two kinds of NaN, need not be neighbors.
    numbers: HashMap<String, usize>,
}

impl Done {
    async fn add(&mut self, open: Open) -> Result<()> {
        drop(open.rows);
        let (files, rows) = match open.writing.await {
            Ok(written) => written?,
            Err(error) => return Err(Error::new(ErrorKind::Internal, format!("internal error: {error}"))),
        };
        *self.numbers.entry(open.folder).or_default() += files.len();
        self.files.extend(files);
        self.rows += rows;
        Ok(())
    }

    fn number(&self, folder: &str) -> usize {
        self.numbers.get(folder).copied().unwrap_or_default()
    }
}

/// Writes rows that are sorted by the columns of PARTITION_BY.
pub(super) async fn write(export: Export, folders: Folders, mut rows: SendableRecordBatchStream) -> Result<Written> {
    let root = Path::new(&export.path).to_path_buf();
    check_root(&root, folders.existing)?;
    let columns = Columns::new(&rows.schema(), &folders)?;
    let (mut open, mut done) = (None::<Open>, Done::default());
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        for range in columns.ranges(&batch)? {
            let folder = columns.folder(&batch, range.start)?;
            if let Some(before) = open.take_if(|open| open.folder != folder) {
                done.add(before).await?;
            }
            let open = match &mut open {
                Some(open) => open,
                None => {
                    create_folder(&export, &root.join(&folder))?;
                    let number = done.number(&folder);
                    open.insert(Open::start(&export, &folders, folder, number, &columns.schema))
                }
            };
            let part = batch.slice(range.start, range.len()).project(&columns.files)?;
            if open.rows.send(Ok(part)).await.is_err() {
                break;
            }
        }
        // A writer that ended early has failed, and its error is that of the statement.
        if let Some(failed) = open.take_if(|open| open.rows.is_closed()) {
            done.add(failed).await?;
            return Err(Error::new(ErrorKind::Internal, "internal error: a file ended before its rows"));
        }
    }
    if open.is_none() && done.files.is_empty() && folders.writes_empty {
        create_folder(&export, &root)?;
        open = Some(Open::start(&export, &folders, String::new(), 0, &columns.schema));
    }
    if let Some(last) = open {
        done.add(last).await?;
    }
    // The folder is there, whether there are rows or not.
    if done.files.is_empty() && !root.is_dir() {
        fs::create_dir(&root).map_err(|error| io_error(&root, &error))?;
    }
    let names = done.files.iter().map(|file| file.name.clone()).collect();
    let complete = done.files.into_iter().map(|file| file.file).collect();
    blocking(move || {
        let replaced = if folders.existing == Existing::Replaced { data_files(&root)? } else { vec![] };
        Complete::publish_all(complete, &replaced)?;
        remove_empty_folders(&root);
        Ok(())
    })
    .await?;
    Ok(Written { rows: done.rows, files: names })
}

/// The folder is new or empty, unless it may have files.
fn check_root(root: &Path, existing: Existing) -> Result<()> {
    let name = root.display();
    if root.exists() && !root.is_dir() {
        return Err(Error::invalid(format!("{name} is a file, and the options of COPY need a folder")));
    }
    let has_files = || root.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if existing == Existing::Refused && has_files() {
        return Err(Error::invalid(format!("{name} is not an empty folder")).with_hint(
            "several files are written into a new or empty folder; OVERWRITE replaces the data files in it, APPEND adds to them",
        ));
    }
    let parent = root.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_folder(root, parent)
}

fn create_folder(export: &Export, folder: &Path) -> Result<()> {
    export.new_folders.create(folder).map_err(|error| io_error(folder, &error))
}

/// The data files in a folder and in those that it contains.
fn data_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error: io::Error| io_error(folder, &error);
    let mut files = vec![];
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() && !path.is_symlink() {
            files.extend(data_files(&path)?);
        } else if FileFormat::of_path(&path).is_some() {
            files.push(path);
        }
    }
    Ok(files)
}

/// Removes the folders `key=value` that have no files any more.
fn remove_empty_folders(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_partition = path.file_name().is_some_and(|name| name.to_string_lossy().contains('='));
        if is_partition && path.is_dir() && !path.is_symlink() {
            remove_empty_folders(&path);
            // One with files remains.
            let _ = fs::remove_dir(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parts_of_paths() {
        assert_eq!(escaped("a/b=c%"), "a%2Fb%3Dc%25");
        assert_eq!(escaped("ü x\n*"), "ü x%0A%2A");
    }

    #[test]
    fn patterns_name_files() {
        let name =
            |pattern: Option<&str>| FileNames::new(pattern, "csv", Existing::Refused).map(|names| names.name(7)).ok();
        assert_eq!(name(None).as_deref(), Some("data_7.csv"));
        assert_eq!(name(Some("x_{i}")).as_deref(), Some("x_7.csv"));
        assert_eq!(name(Some("{i}_b")).as_deref(), Some("7_b.csv"));
        assert_eq!(name(Some("x")).as_deref(), Some("x7.csv"));
        assert_eq!(name(Some("b{x}")).as_deref(), Some("b{x}7.csv"));
        for label in UNIQUE {
            let made = name(Some(&format!("x_{label}"))).expect("a name");
            let id = made.strip_prefix("x_").and_then(|rest| rest.strip_suffix(".csv")).expect("an id");
            assert_eq!(Uuid::parse_str(id).expect("an id").get_version_num(), if label == "{uuidv7}" { 7 } else { 4 });
        }
        for wrong in ["", "a/b", ".x"] {
            assert_eq!(name(Some(wrong)), None, "{wrong}");
        }
        assert!(FileNames::new(Some("x_{i}"), "csv", Existing::Kept).is_err());
        assert!(FileNames::new(None, "csv", Existing::Kept).is_ok());
    }
}
