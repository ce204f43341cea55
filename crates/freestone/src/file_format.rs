//! The formats of files, by their names.

use std::path::Path;

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Text with a delimiter.
    Csv,
    /// Objects one after the other (NDJSON, on one line each or not), or one array of objects.
    Json,
    /// Apache Parquet.
    Parquet,
    /// An IPC file (also Feather version 2) or stream.
    Arrow,
    /// A spreadsheet in the form of Excel.
    Excel,
}

impl FileFormat {
    /// The format for a file's extension. For a compressed text file, it is the extension before that of the
    /// compression: `x.csv.gz`.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = Self::extension_of(path)?;
        let format = match extension.as_str() {
            "csv" | "tsv" | "tbl" => Self::Csv,
            "json" | "ndjson" | "jsonl" => Self::Json,
            "parquet" | "pq" | "parq" => Self::Parquet,
            "arrow" | "arrows" | "ipc" | "feather" => Self::Arrow,
            "xlsx" | "xlsm" => Self::Excel,
            _ => return None,
        };
        (format.is_text() || !is_packed(path)).then_some(format)
    }

    /// The name of the format, as the option FORMAT takes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Excel => "xlsx",
        }
    }

    /// The extension that tells the format, in lower case.
    pub(crate) fn extension_of(path: &Path) -> Option<String> {
        let stem = if is_packed(path) { Path::new(path.file_stem()?) } else { path };
        Some(stem.extension()?.to_str()?.to_ascii_lowercase())
    }

    /// What to do with a file that cannot be read, by its ending.
    pub(crate) fn way_to_read(path: &Path) -> Option<&'static str> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "xls" | "xlsb" | "ods" => "of spreadsheets, .xlsx files are read: save it as such, or as CSV",
            "xz" | "lz4" | "br" | "z" | "zip" | "tar" | "7z" | "rar" => {
                "decompress the file first: text files that are compressed with gzip, zstd or bzip2 are read as they are"
            }
            "avro" | "orc" => "convert the file to Parquet first, with the program that wrote it or with pyarrow",
            "db" | "sqlite" | "sqlite3" | "duckdb" => "export the tables of the database to Parquet or CSV first",
            _ => return None,
        })
    }

    /// Whether files of the format are text, which may be compressed.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json)
    }
}

/// Whether a file's name says that it is compressed.
fn is_packed(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| ["gz", "zst", "bz2"].iter().any(|packed| extension.eq_ignore_ascii_case(packed)))
}
