//! `read_csv('f.csv', header => true)` and the related functions: files with options.
//!
//! Named arguments of a call arrive as pairs of texts.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use super::OpenFiles;
use super::options::FileOptions;
use super::set::FileSet;
use crate::access::Access;
use crate::error::{Error, Result};
use crate::ingest::FileFormat;

/// The functions that read files.
pub(crate) const FILE_FUNCTIONS: [&str; 12] = [
    "read_files",
    "read_csv",
    "read_csv_auto",
    "read_json",
    "read_json_auto",
    "read_ndjson",
    "read_ndjson_auto",
    "read_parquet",
    "parquet_scan",
    "read_arrow",
    "scan_arrow",
    "read_xlsx",
];

/// A function that takes the same arguments.
pub(crate) const SNIFF: &str = "sniff_csv";

/// The format of a function's files; `None` where their names say it.
fn format_of(function: &str) -> Option<FileFormat> {
    Some(match function {
        "read_csv" | "read_csv_auto" => FileFormat::Csv,
        "read_json" | "read_json_auto" | "read_ndjson" | "read_ndjson_auto" => FileFormat::Json,
        "read_parquet" | "parquet_scan" => FileFormat::Parquet,
        "read_arrow" | "scan_arrow" => FileFormat::Arrow,
        "read_xlsx" => FileFormat::Excel,
        _ => return None,
    })
}

/// The types of names in SQL.
pub(crate) type NamedTypes = Arc<dyn Fn(&str) -> Result<DataType> + Send + Sync>;

/// A function that reads files.
pub(crate) struct FilesFunction {
    name: &'static str,
    format: Option<FileFormat>,
    access: Access,
    state: Arc<SessionState>,
    open: OpenFiles,
    types: NamedTypes,
}

impl fmt::Debug for FilesFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl FilesFunction {
    pub fn new(
        name: &'static str,
        access: Access,
        state: Arc<SessionState>,
        open: OpenFiles,
        types: NamedTypes,
    ) -> Self {
        Self { name, format: format_of(name), access, state, open, types }
    }

    fn table(&self, arguments: &[Expr]) -> Result<Arc<dyn TableProvider>> {
        let (files, options) = self.files(arguments)?;
        self.open.table(&files, &options.complete()?)
    }

    /// The names of files, and the options, of a call.
    ///
    /// # Errors
    /// The session may not read files, or the call has another form.
    pub(super) fn files(&self, arguments: &[Expr]) -> Result<(Vec<String>, FileOptions)> {
        self.access.check_files()?;
        let form = || {
            Error::invalid(format!(
                "{0} takes the names of files, and options: {0}('file', option => value)",
                self.name
            ))
        };
        let (files, options) = arguments.split_first().ok_or_else(form)?;
        let files = texts(files).filter(|files| !files.is_empty()).ok_or_else(form)?;
        let mut read = FileOptions::new(self.state.config().target_partitions());
        read.ingest.format = self.format;
        let options: Vec<String> = options.iter().map(text).collect::<Option<_>>().ok_or_else(form)?;
        let (pairs, []) = options.as_chunks::<2>() else { return Err(form()) };
        for [name, value] in pairs {
            read.set(name, value, &|name| self.data_type(name))?;
        }
        Ok((files, read))
    }

    /// Opens files.
    pub(super) fn open(&self, files: &[String], options: &FileOptions) -> Result<Arc<FileSet>> {
        self.open.set(files, options)
    }

    /// The type of a name in SQL.
    fn data_type(&self, name: &str) -> Result<DataType> {
        (self.types)(name).map_err(|reason| Error::invalid(format!("unknown type {name}: {reason}")))
    }
}

impl TableFunctionImpl for FilesFunction {
    fn call_with_args(&self, arguments: TableFunctionArgs) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        Ok(self.table(arguments.exprs())?)
    }
}

/// A text, or the texts of a list.
pub(super) fn texts(expression: &Expr) -> Option<Vec<String>> {
    match expression {
        Expr::ScalarFunction(list) if list.func.name() == "make_array" => list.args.iter().map(text).collect(),
        Expr::Literal(ScalarValue::List(list), _) if list.len() == 1 => {
            let texts = cast(&list.value(0), &DataType::Utf8View).ok()?;
            texts.as_string_view().iter().map(|text| text.map(str::to_owned)).collect()
        }
        other => Some(vec![text(other)?]),
    }
}

fn text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Literal(ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text), _) => {
            text.clone()
        }
        _ => None,
    }
}
