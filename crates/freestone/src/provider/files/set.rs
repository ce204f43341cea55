//! The files that a name matches, and their common columns.
//!
//! Columns are matched by name. The type of a column of text files fits the values of all files. Different declared
//! types of several files are converted to a common type without loss; if there is none, that is an error that names
//! both files. Folders with names `key=value` add one column each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ColumnStatistics;
use datafusion::scalar::ScalarValue;
use freestone_binder::FILE_NAMES;
use freestone_bucket::{Place, Stores, Traffic, has_scheme};
use parking_lot::Mutex;

use super::folders::partition_columns;
use super::inference::Inference;
use super::layout::{Layout, arguments};
use super::option_values::ColumnTypes;
use super::options::{FileOptions, RejectNames};
use super::rejects::RejectTables;
use super::types::common_type;
use crate::distinct_names::different_names;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::{
    self, ArrowFile, CHANGED, FileFormat, FoundFile, IngestError, IngestOptions, ParquetFile, Reason, RejectSink,
    Shape, SpooledFile, TextFile,
};
use crate::type_names::type_name;

/// Files that form one table.
#[derive(Debug)]
pub(super) struct FileSet {
    /// The name in the statement.
    pub name: String,
    pub format: FileFormat,
    pub options: IngestOptions,
    pub schema: SchemaRef,
    /// What some values of each column read as, where its type was inferred from them.
    pub inferred: Vec<Option<Shape>>,
    pub files: Vec<SetFile>,
    /// The statistics of each column for the planner, which are computed once.
    pub known: Vec<OnceLock<ColumnStatistics>>,
    /// The columns with the types in which the executor takes them, which are found once.
    pub executed: OnceLock<SchemaRef>,
    /// The options that were given, as text.
    pub arguments: Option<String>,
    /// Where records that are left out are kept.
    pub rejects: Option<(RejectTables, RejectNames)>,
    inference: Inference,
}

/// One of the files.
#[derive(Debug)]
pub(super) struct SetFile {
    /// The name for users.
    pub name: String,
    /// The path from which it is read.
    pub path: PathBuf,
    pub bytes: u64,
    pub contents: Contents,
    /// The source of each column of the table.
    pub columns: Vec<ColumnSource>,
    spooled: Option<SpooledFile>,
    /// The requests, if it is elsewhere.
    pub traffic: Option<Arc<Traffic>>,
}

#[derive(Debug)]
pub(super) enum Contents {
    Parquet(ParquetFile),
    Arrow(ArrowFile),
    Text(TextFile),
}

/// The source of a column of the table in one file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ColumnSource {
    /// The column of the file at this position.
    Stored(usize),
    /// One value for all rows, from the folder name.
    Value(ScalarValue),
    /// The file does not have the column: NULL.
    Missing,
}

/// A column of one file.
#[derive(Debug, Clone)]
enum Typed {
    Declared(DataType),
    Read(Shape),
}

/// A column of the table, from the files so far.
struct United {
    name: String,
    typed: Typed,
    /// The file from which its type is.
    from: String,
    places: Vec<Option<usize>>,
}

impl FileSet {
    /// Finds the files and reads their schemas.
    ///
    /// # Errors
    /// There is no such file, a file cannot be read, or types have no common type.
    pub fn open(
        names: &[String],
        options: &FileOptions,
        inference: &Inference,
        rejects: &RejectTables,
        stores: &Stores,
    ) -> Result<FileSet> {
        let mut found = vec![];
        for name in names {
            found.extend(ingest::find_files(name, stores)?);
        }
        let name = names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
        let paths: Vec<PathBuf> = found.iter().map(|file| file.path.clone()).collect();
        let format = format(&name, &paths, options)?;
        options.check_format(format)?;
        let partitions: Vec<_> = paths.iter().map(|path| ingest::partitions(path)).collect();
        let mut files = opened(found, format, &options.ingest)?;
        name_columns(&mut files, options)?;
        let mut columns = united(&files)?;
        if format == FileFormat::Json && options.names_all {
            keep_declared(&mut columns, &options.types, files.len());
        }
        declare_types(&mut columns, &options.types, &name)?;
        options.check_columns(columns.iter().map(|column| column.name.as_str()))?;
        let mut partitions = match options.hive {
            Some(false) => vec![],
            _ => partition_columns(&partitions, options, &name)?,
        };
        columns.retain(|column| !partitions.iter().any(|(name, ..)| *name == column.name));
        if let Some(name) = &options.filename {
            let mut taken = columns.iter().map(|column| &column.name).chain(partitions.iter().map(|(name, ..)| name));
            match taken.any(|taken| taken == name) {
                // The files' own column comes before the hidden one.
                true if name == FILE_NAMES => {}
                true => {
                    return Err(Error::invalid(format!("FILENAME: the files have a column {name}"))
                        .with_hint("give the column another name: FILENAME 'name'"));
                }
                false => {
                    let values = files.iter().map(|file| ScalarValue::Utf8View(Some(file.name.clone()))).collect();
                    partitions.push((name.clone(), DataType::Utf8View, values));
                }
            }
        }
        let inferred = columns.iter().map(|column| match &column.typed {
            Typed::Read(shape) if !options.ingest.all_varchar => Some(shape.clone()),
            _ => None,
        });
        let inferred = inferred.chain(partitions.iter().map(|_| None)).collect();
        for (at, file) in files.iter_mut().enumerate() {
            let stored = columns.iter().map(|column| match column.places[at] {
                Some(place) => ColumnSource::Stored(place),
                None => ColumnSource::Missing,
            });
            let named = partitions.iter().map(|(.., values)| ColumnSource::Value(values[at].clone()));
            file.columns = stored.chain(named).collect();
        }
        let stored = columns.iter().map(|column| Field::new(&column.name, column.data_type(), true));
        let named = partitions.iter().map(|(name, data_type, _)| Field::new(name, data_type.clone(), true));
        let schema = Arc::new(Schema::new(stored.chain(named).collect::<Vec<_>>()));
        let known = schema.fields().iter().map(|_| OnceLock::new()).collect();
        let (arguments, inference) = (arguments(options), inference.clone());
        let rejects = options.rejects.clone().map(|names| (rejects.clone(), names));
        let options = options.ingest.clone();
        let executed = OnceLock::new();
        Ok(FileSet { name, format, options, schema, inferred, files, known, executed, arguments, rejects, inference })
    }

    /// Begins to read the files. Returns what receives the records of each that are left out, if they are kept.
    pub fn reject_sinks(&self) -> Vec<RejectSink> {
        let Some((tables, names)) = &self.rejects else { return vec![] };
        tables.begin(names, self.files.iter().filter_map(|file| Layout::of(self, file)).collect())
    }

    /// Notes that a value does not have the type of the sample. Pipes cannot be read again.
    pub fn note_outgrown(&self) {
        if self.files.iter().all(|file| file.spooled.is_none()) {
            self.inference.note_outgrown();
        }
    }
}

impl United {
    fn data_type(&self) -> DataType {
        match &self.typed {
            Typed::Declared(DataType::Null) => DataType::Utf8View,
            Typed::Declared(data_type) => data_type.clone(),
            Typed::Read(shape) => shape.data_type(),
        }
    }
}

/// Opens files in their order; those elsewhere together, because each is a request that mostly waits.
fn opened(found: Vec<FoundFile>, format: FileFormat, options: &IngestOptions) -> Result<Vec<SetFile>> {
    /// Requests at the same time.
    const TOGETHER: usize = 16;
    let count = found.len();
    let open = |file| SetFile::open(file, format, options, count);
    if count < 2 || found.iter().all(|file| file.object.is_none()) {
        return found.into_iter().map(open).collect();
    }
    let waiting = Mutex::new(found.into_iter().enumerate());
    let work = || {
        let mut done = vec![];
        loop {
            // The lock is not held while a file is opened.
            let next = waiting.lock().next();
            match next {
                Some((at, file)) => done.push((at, open(file))),
                None => return done,
            }
        }
    };
    let ended = thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER.min(count)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<thread::Result<Vec<_>>>()
    });
    let panicked = |_| Error::new(ErrorKind::Internal, "a thread that opened files has panicked");
    let mut all: Vec<_> = ended.map_err(panicked)?.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, file)| file).collect()
}

/// The name in a statement, without what may be a signature.
fn shown(name: &str) -> String {
    match has_scheme(name).then(|| Place::parse(name)) {
        Some(Ok(place)) => place.shown(),
        _ => name.to_owned(),
    }
}

/// The common format of all files.
fn format(name: &str, paths: &[PathBuf], options: &FileOptions) -> Result<FileFormat> {
    if let Some(format) = options.ingest.format {
        return Ok(format);
    }
    let format = paths.first().and_then(|path| FileFormat::of_path(path));
    let Some(format) = format else {
        if let Some(way) = paths.first().and_then(|path| FileFormat::way_to_read(path)) {
            return Err(Error::unsupported(format!("{name} is no file of a known format")).with_hint(way));
        }
        return Err(Error::unsupported(format!("cannot tell the format of {name} from its ending")).with_hint(
            "files are read by their endings (.csv, .tsv, .tbl, .json, .ndjson, .parquet, .arrow), or name the format: \
             FROM 'name' (FORMAT csv)",
        ));
    };
    if paths.iter().any(|path| FileFormat::of_path(path) != Some(format)) {
        let mut found: Vec<(String, usize)> = vec![];
        for extension in paths.iter().map(|path| FileFormat::extension_of(path).unwrap_or_default()) {
            match found.iter_mut().find(|(known, _)| *known == extension) {
                Some((_, count)) => *count += 1,
                None => found.push((extension, 1)),
            }
        }
        let found: Vec<String> = found.iter().map(|(extension, count)| format!("{count} .{extension}")).collect();
        return Err(Error::invalid(format!("{name} stands for files of several formats: {}", found.join(", ")))
            .with_hint("say which, as in 'folder/*.parquet'"));
    }
    Ok(format)
}

impl SetFile {
    fn open(file: FoundFile, format: FileFormat, options: &IngestOptions, files: usize) -> Result<SetFile> {
        let name = file.path.display().to_string();
        if let (FileFormat::Parquet, Some(object)) = (format, &file.object)
            && let Some(parquet) = ParquetFile::open_elsewhere(object)?
        {
            let bytes = parquet.elsewhere().map_or(0, |(remote, _)| remote.length());
            let traffic = parquet.elsewhere().map(|(remote, _)| remote.traffic().clone());
            let contents = Contents::Parquet(parquet);
            return Ok(SetFile { name, path: file.path, bytes, contents, columns: vec![], spooled: None, traffic });
        }
        let with_format = IngestOptions { format: Some(format), ..options.clone() };
        let (spooled, format) = match ingest::replaced(&file, &with_format)? {
            Some((spooled, replaced)) => (Some(spooled), replaced.unwrap_or(format)),
            None => (None, format),
        };
        let path = file.path;
        let path = spooled.as_ref().map_or(path, |spooled| spooled.path().to_path_buf());
        let opened = || -> Result<Contents> {
            Ok(match format {
                FileFormat::Parquet => Contents::Parquet(ParquetFile::open(&path)?),
                FileFormat::Arrow => Contents::Arrow(ArrowFile::open(&path)?),
                text => Contents::Text(TextFile::look(&path, text, options, files)?),
            })
        };
        let contents = opened().map_err(|error| renamed(error, &path, &name))?;
        let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let traffic = file.object.map(|_| Arc::new(Traffic::of_request(bytes)));
        Ok(SetFile { name, path, bytes, contents, columns: vec![], spooled, traffic })
    }

    /// Refuses to read a file that has lost a part since its columns were inferred.
    ///
    /// # Errors
    /// The file is shorter, or gone.
    pub fn check_length(&self) -> Result<()> {
        let failed = |text: String| IngestError::new(&self.name, Reason::Io(text));
        let now = std::fs::metadata(&self.path).map_err(|error| failed(error.to_string()))?;
        if now.len() < self.bytes { Err(failed(CHANGED.into()).into()) } else { Ok(()) }
    }

    /// The error of reading the file, with the name for users.
    pub fn renamed(&self, error: Error) -> Error {
        renamed(error, &self.path, &self.name)
    }

    /// The columns of the file, with distinct names, and their types.
    fn columns(&self) -> Vec<(String, Typed)> {
        let declared = |schema: &SchemaRef, data_type: &dyn Fn(usize) -> DataType| {
            let names = different_names(schema.fields().iter().map(|field| field.name().clone()));
            names.into_iter().enumerate().map(|(at, name)| (name, Typed::Declared(data_type(at)))).collect()
        };
        match &self.contents {
            Contents::Text(file) => {
                file.columns().into_iter().map(|(name, shape)| (name, Typed::Read(shape))).collect()
            }
            // Types that tables cannot store, such as lists, can be read nevertheless.
            Contents::Arrow(file) => declared(file.schema(), &|at| file.query_type(at)),
            Contents::Parquet(file) => declared(file.schema(), &|at| file.query_type(at)),
        }
    }
}

/// Gives the columns of CSV files other names, from the first one on.
fn name_columns(files: &mut [SetFile], options: &FileOptions) -> Result<()> {
    let (names, option) = (&options.names, if options.names_all { "COLUMNS" } else { "NAMES" });
    if names.is_empty() {
        return Ok(());
    }
    if names.iter().enumerate().any(|(at, name)| name.trim().is_empty() || names[..at].contains(name)) {
        return Err(Error::invalid(format!("{option}: the names of columns must be distinct texts")));
    }
    for file in files {
        let Contents::Text(TextFile::Csv(csv)) = &mut file.contents else { continue };
        let has = csv.names.len();
        if names.len() > has || options.names_all && names.len() < has {
            let columns = if has == 1 { "column" } else { "columns" };
            let text = format!("{} has {has} {columns}, and {option} has {}", file.name, names.len());
            return Err(Error::invalid(text).with_hint(match options.names_all {
                true => "name all columns of the file, or some of them with NAMES and TYPES",
                false => "name the columns of the file, from the first one on",
            }));
        }
        let rest = csv.names.drain(..).skip(names.len());
        csv.names = different_names(names.iter().cloned().chain(rest.collect::<Vec<_>>()));
        csv.layout.names = csv.names.clone();
    }
    Ok(())
}

/// Gives columns the types that were declared for them.
/// Keeps the columns of JSON that COLUMNS gives, in its order. Those that no file has are NULL.
fn keep_declared(columns: &mut Vec<United>, types: &ColumnTypes, files: usize) {
    let mut kept = vec![];
    for (name, data_type) in &types.named {
        let found = columns.iter().position(|column| column.name == *name);
        let found = found.or_else(|| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name)));
        kept.push(match found {
            Some(found) => columns.swap_remove(found),
            None => {
                let typed = Typed::Declared(data_type.clone());
                United { name: name.clone(), typed, from: String::new(), places: vec![None; files] }
            }
        });
    }
    *columns = kept;
}

fn declare_types(columns: &mut [United], types: &ColumnTypes, files: &str) -> Result<()> {
    if types.in_order.len() > columns.len() {
        let text = format!("{files} has {} columns, and there are {} TYPES", columns.len(), types.in_order.len());
        return Err(Error::invalid(text).with_hint("give the types of columns from the first one on"));
    }
    for (column, data_type) in columns.iter_mut().zip(&types.in_order) {
        column.typed = Typed::Declared(data_type.clone());
    }
    for (declared, data_type) in &types.named {
        let exact = columns.iter().position(|column| column.name == *declared);
        let alike = || {
            let mut alike = (0..columns.len()).filter(|at| columns[*at].name.eq_ignore_ascii_case(declared));
            alike.next().filter(|_| alike.next().is_none())
        };
        let Some(found) = exact.or_else(alike) else {
            let names = columns.iter().map(|column| column.name.as_str());
            return Err(Error::not_found("column", declared, names));
        };
        columns[found].typed = Typed::Declared(data_type.clone());
    }
    Ok(())
}

/// An error in which a pipe has its name in the statement.
fn renamed(error: Error, path: &Path, name: &str) -> Error {
    let shown = path.display().to_string();
    if shown == name || !error.to_string().contains(&shown) {
        return error;
    }
    let renamed = Error::new(error.kind(), error.to_string().replace(&shown, name));
    match error.hint() {
        Some(hint) => renamed.with_hint(hint),
        None => renamed,
    }
}

/// The columns of all files, in the order of their first occurrence.
fn united(files: &[SetFile]) -> Result<Vec<United>> {
    let mut columns: Vec<United> = vec![];
    let mut by_name: HashMap<String, usize> = HashMap::new();
    for (at, file) in files.iter().enumerate() {
        let own = file.columns();
        let mut shared = false;
        for (place, (name, typed)) in own.iter().enumerate() {
            let exact = by_name.get(name).copied().filter(|found| columns[*found].places[at].is_none());
            let found = exact.or_else(|| (at > 0).then(|| like(&columns, name, &own, at)).flatten());
            shared |= found.is_some();
            match found {
                Some(found) => columns[found].unite(typed, file)?,
                None => {
                    by_name.insert(name.clone(), columns.len());
                    columns.push(United {
                        name: name.clone(),
                        typed: typed.clone(),
                        from: file.name.clone(),
                        places: vec![None; files.len()],
                    });
                }
            }
            let found = found.unwrap_or(columns.len() - 1);
            columns[found].places[at] = Some(place);
        }
        if let (Contents::Text(TextFile::Csv(_)), false, Some(before)) = (&file.contents, shared, at.checked_sub(1)) {
            return Err(no_shared_column(&files[before], file));
        }
    }
    Ok(columns)
}

/// The only column of the files so far whose name differs from this one only in case. Columns of one file that differ
/// in case remain distinct.
fn like(columns: &[United], name: &str, own: &[(String, Typed)], file: usize) -> Option<usize> {
    let is_like = |column: &United| {
        column.name.eq_ignore_ascii_case(name)
            && column.places[file].is_none()
            && !own.iter().any(|(own, _)| *own == column.name)
    };
    let mut like = columns.iter().enumerate().filter(|(_, column)| is_like(column));
    let found = like.next()?.0;
    like.next().is_none().then_some(found)
}

fn no_shared_column(before: &SetFile, file: &SetFile) -> Error {
    let names = |file: &SetFile| {
        let names: Vec<String> = file.columns().into_iter().map(|(name, _)| name).collect();
        names.join(", ")
    };
    let text = format!(
        "{} and {} have no column in common: the first has {}, the other {}",
        before.name,
        file.name,
        names(before),
        names(file)
    );
    let has_names = |file: &SetFile| matches!(&file.contents, Contents::Text(file) if file.has_names());
    let hint = match has_names(before) && has_names(file) {
        true => "read them one by one, or say that there is no header: FROM '…' (HEADER false)",
        false => "say whether the files have a header: FROM '…' (HEADER true)",
    };
    Error::new(ErrorKind::Type, text).with_hint(hint)
}

impl United {
    /// Widens the type to represent the values of one more file.
    fn unite(&mut self, typed: &Typed, file: &SetFile) -> Result<()> {
        match (&self.typed, typed) {
            (Typed::Read(a), Typed::Read(b)) => self.typed = Typed::Read(a.and(b)),
            (Typed::Declared(a), Typed::Declared(b)) => match common_type(a, b) {
                Some(common) => {
                    if common != *a {
                        self.typed = Typed::Declared(common);
                        self.from = file.name.clone();
                    }
                }
                None => {
                    let (a, b) = (type_name(a), type_name(b));
                    let text = format!(
                        "column {} is {a} in {} and {b} in {}: no type holds the values of both",
                        self.name, self.from, file.name
                    );
                    return Err(Error::new(ErrorKind::Type, text)
                        .with_hint("read the files one by one, with a CAST, and put them together with UNION ALL"));
                }
            },
            _ => {}
        }
        Ok(())
    }
}
