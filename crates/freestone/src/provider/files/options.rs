//! The options of files in `COPY … FROM` and queries: `FROM 'f.csv' (HEADER true)`, `read_csv('f.csv', header =>
//! true)`.

use datafusion::arrow::datatypes::DataType;

use super::option_values::{ColumnTypes, Delimiter, boolean, byte, delimiter, line_end, list, names, number};
use crate::error::{Error, Result};
use crate::ingest::{FileFormat, IngestOptions, Kinds, NO_QUOTE, NewLine, Packing, TextEncoding, UNIT};
use crate::times::TimeFormat;

const OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, ALLOW_QUOTED_NULLS, FORCE_NOT_NULL, SKIP, COMMENT, \
                       NULL_PADDING, IGNORE_ERRORS, STORE_REJECTS, REJECTS_TABLE, REJECTS_SCAN, REJECTS_LIMIT, \
                       DATEFORMAT, TIMESTAMPFORMAT, DECIMAL_SEPARATOR, THOUSANDS, ENCODING, NEW_LINE, COMPRESSION, SHEET, \
                       NAMES, NORMALIZE_NAMES, TYPES, COLUMNS, ALL_VARCHAR, AUTO_TYPE_CANDIDATES, AUTO_DETECT, FILENAME, \
                       HIVE_PARTITIONING, HIVE_TYPES, HIVE_TYPES_AUTOCAST, SAMPLE_ROWS, MAX_RECORD_BYTES";

/// How files are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileOptions {
    pub ingest: IngestOptions,
    /// The types of columns.
    pub(super) types: ColumnTypes,
    /// The names of the columns of CSV files, from the first one on.
    pub names: Vec<String>,
    /// Whether the names are those of all columns.
    pub names_all: bool,
    /// The column with the name of the file of each row.
    pub filename: Option<String>,
    /// Whether folders with names `key=value` add columns. This is the default.
    pub hive: Option<bool>,
    /// The types of these columns.
    pub(super) hive_types: ColumnTypes,
    /// Whether the types of the others are found out. They are texts otherwise.
    pub infers_hive: bool,
    /// Whether what no option says is found out from the file.
    pub detects: bool,
    /// Where records that are left out are kept.
    pub rejects: Option<RejectNames>,
    /// The options that were given: the name by which each is known here, the name as written, and the value.
    given: Vec<(&'static str, String, String)>,
}

/// The tables for records that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RejectNames {
    pub errors: String,
    pub scans: String,
    /// The maximum number of records of a file.
    pub limit: Option<usize>,
}

/// The formats that have an option.
#[derive(Clone, Copy)]
enum Has {
    All,
    Csv,
    CsvExcel,
    Text,
    TextExcel,
    Excel,
}

/// The options by their names: the first is the one by which each is known here.
const KNOWN: [(&[&str], Has); 47] = [
    (&["format"], Has::All),
    (&["header"], Has::CsvExcel),
    (&["delimiter", "delim", "sep"], Has::Csv),
    (&["quote"], Has::Csv),
    (&["escape"], Has::Csv),
    (&["null", "nullstr"], Has::Csv),
    (&["allow_quoted_nulls"], Has::Csv),
    (&["force_not_null"], Has::Csv),
    (&["skip"], Has::CsvExcel),
    (&["comment"], Has::Csv),
    (&["null_padding"], Has::Csv),
    (&["ignore_errors"], Has::All),
    (&["store_rejects"], Has::Csv),
    (&["rejects_table"], Has::Csv),
    (&["rejects_scan"], Has::Csv),
    (&["rejects_limit"], Has::Csv),
    (&["dateformat", "date_format"], Has::Csv),
    (&["timestampformat", "timestamp_format"], Has::Csv),
    (&["decimal_separator"], Has::Csv),
    (&["thousands"], Has::Csv),
    (&["encoding"], Has::Csv),
    (&["new_line"], Has::Csv),
    (&["compression"], Has::All),
    (&["sheet"], Has::Excel),
    (&["names", "column_names"], Has::Csv),
    (&["normalize_names"], Has::CsvExcel),
    (&["types", "dtypes", "column_types"], Has::Text),
    (&["columns"], Has::Text),
    (&["all_varchar"], Has::TextExcel),
    (&["auto_type_candidates"], Has::Csv),
    (&["auto_detect"], Has::All),
    (&["filename"], Has::All),
    (&["hive_partitioning"], Has::All),
    (&["hive_types"], Has::All),
    (&["hive_types_autocast"], Has::All),
    (&["sample_rows", "sample_size"], Has::Text),
    (&["max_record_bytes", "max_line_size", "maximum_line_size", "maximum_object_size"], Has::Text),
    (&["union_by_name"], Has::All),
    // They say how a file is read, and not what is read of it.
    (&["parallel"], Has::All),
    (&["records"], Has::All),
    (&["strict_mode"], Has::Csv),
    (&["buffer_size"], Has::Csv),
    (&["files_to_sniff"], Has::All),
    (&["preserve_order"], Has::All),
    (&["file_row_group_prefetch"], Has::All),
    (&["allow_empty"], Has::All),
    (&["binary_as_string"], Has::All),
];

impl Has {
    fn has(self, format: FileFormat) -> bool {
        use FileFormat::{Csv, Excel, Json};
        match self {
            Has::All => true,
            Has::Csv => format == Csv,
            Has::CsvExcel => matches!(format, Csv | Excel),
            Has::Text => matches!(format, Csv | Json),
            Has::TextExcel => matches!(format, Csv | Json | Excel),
            Has::Excel => format == Excel,
        }
    }

    fn formats(self) -> &'static str {
        match self {
            Has::All => "all",
            Has::Csv => "CSV",
            Has::CsvExcel => "CSV files and spreadsheets",
            Has::Text => "CSV and JSON",
            Has::TextExcel => "CSV and JSON files, and of spreadsheets",
            Has::Excel => "spreadsheets",
        }
    }
}

/// The name by which an option is known here.
fn known(name: &str) -> Result<&'static str> {
    let is_name = |names: &&[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let found = KNOWN.iter().find(|(names, _)| is_name(names)).map(|(names, _)| names[0]);
    found.ok_or_else(|| {
        Error::invalid(format!("unknown option {name} for files")).with_hint(format!("the options are {OPTIONS}"))
    })
}

impl FileOptions {
    pub fn new(threads: usize) -> Self {
        let ingest = IngestOptions { threads, ..IngestOptions::default() };
        Self { ingest, detects: true, infers_hive: true, ..Self::default() }
    }

    /// The options with the defaults of those that are not found out: commas, no header, and texts.
    ///
    /// # Errors
    /// Options contradict each other.
    pub fn complete(mut self) -> Result<Self> {
        let contradiction = |text: &str| Err(Error::invalid(text));
        if !self.detects {
            self.ingest.delimiter.get_or_insert(b',');
            self.ingest.header.get_or_insert(false);
            self.ingest.skip.get_or_insert(0);
            self.ingest.all_varchar = true;
        }
        let has_rejects = self.rejects.is_some() || self.is_given("rejects_limit");
        if self.rejects.is_none() && self.is_given("rejects_limit") {
            return contradiction("REJECTS_LIMIT is an option beside STORE_REJECTS or REJECTS_TABLE");
        }
        if has_rejects && self.is_given("ignore_errors") && !self.ingest.ignore_errors {
            return contradiction(
                "STORE_REJECTS keeps what IGNORE_ERRORS leaves out, so IGNORE_ERRORS cannot be false",
            );
        }
        if let Some(rejects) = &self.rejects
            && rejects.errors == rejects.scans
        {
            return contradiction("REJECTS_TABLE and REJECTS_SCAN must be different tables");
        }
        self.ingest.ignore_errors |= has_rejects;
        if self.names_all && !self.names.is_empty() {
            self.ingest.columns = Some(self.names.len());
        }
        let forms = &self.ingest.forms;
        if forms.thousands.is_some_and(|thousands| thousands == forms.decimal.unwrap_or(b'.')) {
            return contradiction("THOUSANDS must differ from DECIMAL_SEPARATOR");
        }
        if self.hive == Some(false) && self.is_given("hive_types") {
            return contradiction("HIVE_TYPES are those of the columns that HIVE_PARTITIONING false leaves out");
        }
        if self.is_given("columns") && (self.is_given("names") || self.is_given("types")) {
            return contradiction("COLUMNS gives the names and types of all columns: leave NAMES and TYPES out");
        }
        Ok(self)
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(known, ..)| *known == name)
    }

    /// The options as they were written.
    pub(super) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(_, name, value)| (name.as_str(), value.as_str()))
    }

    /// Refuses options that files of a format do not have.
    ///
    /// # Errors
    /// There is such an option.
    pub fn check_format(&self, format: FileFormat) -> Result<()> {
        let other = |name: &str| {
            KNOWN.iter().find(|(names, has)| names[0] == name && !has.has(format)).map(|(_, has)| has.formats())
        };
        if format != FileFormat::Csv && self.ingest.ignore_errors {
            let error = Error::unsupported("IGNORE_ERRORS is an option of CSV files: others are read completely");
            return Err(error.with_hint("read doubtful columns as VARCHAR, and convert them with TRY_CAST"));
        }
        match self.given.iter().find_map(|(known, name, _)| Some((name, other(known)?))) {
            None => Ok(()),
            Some((name, formats)) => {
                let files = if formats.contains("files") || formats == "spreadsheets" { "" } else { " files" };
                Err(Error::invalid(format!("{name} is an option of {formats}{files}, not of {}", format.name())))
            }
        }
    }

    /// Refuses names of columns that there are not.
    ///
    /// # Errors
    /// There is such a name.
    pub fn check_columns<'a>(&self, columns: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        let is_missing = |name: &&String| !columns.clone().any(|column| column.eq_ignore_ascii_case(name));
        match self.ingest.force_not_null.iter().find(is_missing) {
            Some(name) => Err(Error::not_found("column", name, columns)),
            None => Ok(()),
        }
    }

    /// Sets one option. `data_type` parses the name of a type.
    ///
    /// # Errors
    /// The option is unknown or given twice, or its value is invalid.
    pub fn set(&mut self, name: &str, value: &str, data_type: &dyn Fn(&str) -> Result<DataType>) -> Result<()> {
        let known = known(name)?;
        // The forms of JSON files are detected, and `read_json` has the format already.
        let is_form = known == "format" && self.ingest.format == Some(FileFormat::Json) && is_json_form(value);
        if let Some((_, before, _)) = self.given.iter().find(|(given, ..)| *given == known) {
            let same = before.eq_ignore_ascii_case(name);
            return Err(Error::invalid(match same {
                true => format!("the option {name} is given twice"),
                false => format!("{before} and {name} are the same option, which is given twice"),
            }));
        }
        self.given.push((known, name.to_owned(), value.to_owned()));
        match known {
            "format" if is_form => Ok(()),
            "types" | "columns" | "names" | "auto_type_candidates" => self.set_columns(known, name, value, data_type),
            "store_rejects" | "rejects_table" | "rejects_scan" | "rejects_limit" => {
                self.set_rejects(known, name, value)
            }
            "filename" => {
                self.filename = match boolean(name, value) {
                    Ok(is_wanted) => is_wanted.then(|| "filename".to_owned()),
                    Err(_) => Some(value.to_owned()),
                };
                Ok(())
            }
            "hive_types" => self.set_hive_types(name, value, data_type),
            "hive_types_autocast" => boolean(name, value).map(|infers| self.infers_hive = infers),
            "hive_partitioning" => boolean(name, value).map(|hive| self.hive = Some(hive)),
            "auto_detect" => boolean(name, value).map(|detects| self.detects = detects),
            _ => set_reading(&mut self.ingest, known, name, value),
        }
    }

    fn set_columns(
        &mut self,
        known: &str,
        name: &str,
        value: &str,
        data_type: &dyn Fn(&str) -> Result<DataType>,
    ) -> Result<()> {
        match known {
            "names" => self.names = list(value).unwrap_or_else(|| names(value)),
            "auto_type_candidates" => {
                let types = list(value).unwrap_or_else(|| names(value));
                let types = types.iter().map(|name| data_type(name)).collect::<Result<Vec<_>>>()?;
                let error = Error::invalid(format!(
                    "{name}: types are found among BOOLEAN, BIGINT, DOUBLE, DATE, TIME, \
                    TIMESTAMP, TIMESTAMP WITH TIME ZONE and VARCHAR"
                ));
                self.ingest.candidates = Some(Kinds::of_types(&types).ok_or(error)?);
            }
            "types" => self.types = ColumnTypes::parse(name, value, data_type)?,
            _ => {
                self.types = ColumnTypes::parse(name, value, data_type)?;
                if self.types.named.is_empty() {
                    return Err(Error::invalid(format!("{name} gives the names and types of all columns"))
                        .with_hint("as in columns => {'id': 'INT', 'day': 'DATE'}"));
                }
                self.names_all = true;
                if self.ingest.format != Some(FileFormat::Json) {
                    self.names = self.types.named.iter().map(|(name, _)| name.clone()).collect();
                }
            }
        }
        Ok(())
    }

    fn set_hive_types(&mut self, name: &str, value: &str, data_type: &dyn Fn(&str) -> Result<DataType>) -> Result<()> {
        self.hive_types = ColumnTypes::parse(name, value, data_type)?;
        match self.hive_types.named.is_empty() {
            true => Err(Error::invalid(format!("{name} gives types by name"))
                .with_hint("as in hive_types => {'year': 'INT', 'day': 'DATE'}")),
            false => Ok(()),
        }
    }

    fn set_rejects(&mut self, known: &str, name: &str, value: &str) -> Result<()> {
        if known == "store_rejects" && !boolean(name, value)? {
            return Ok(());
        }
        if known == "rejects_limit" {
            let limit = number(name, value)?;
            if let Some(rejects) = &mut self.rejects {
                rejects.limit = (limit > 0).then_some(limit);
            }
            return Ok(());
        }
        let given = self.given.iter().find(|(known, ..)| *known == "rejects_limit");
        let limit = given.map(|(_, name, value)| number(name, value)).transpose()?.filter(|limit| *limit > 0);
        let rejects = self.rejects.get_or_insert_with(|| RejectNames {
            errors: "reject_errors".into(),
            scans: "reject_scans".into(),
            limit,
        });
        match known {
            "rejects_table" | "rejects_scan" if value.is_empty() => {
                return Err(Error::invalid(format!("{name}: the name of the table is empty")));
            }
            "rejects_table" => rejects.errors = value.to_owned(),
            "rejects_scan" => rejects.scans = value.to_owned(),
            _ => {}
        }
        Ok(())
    }
}

/// Sets an option of the reader.
fn set_reading(options: &mut IngestOptions, known: &str, name: &str, value: &str) -> Result<()> {
    match known {
        "format" => options.format = Some(file_format(value)?),
        "header" => options.header = Some(boolean(name, value)?),
        // No delimiter: a byte that texts hardly have, and then in too many fields.
        "delimiter" if value.eq_ignore_ascii_case("null") => options.delimiter = Some(UNIT),
        "delimiter" => match delimiter(name, value)? {
            Delimiter::Byte(byte) => options.delimiter = Some(byte),
            Delimiter::Wide(text) => (options.delimiter, options.wide_delimiter) = (Some(UNIT), Some(text)),
        },
        "quote" if is_none(value) => options.quote = NO_QUOTE,
        "quote" => options.quote = byte(name, value)?,
        // Quotes are doubled.
        "escape" if is_none(value) => {}
        "escape" => options.escape = Some(byte(name, value)?),
        "null" => options.nulls = list(value).unwrap_or_else(|| vec![value.to_owned()]),
        "allow_quoted_nulls" => options.quoted_nulls = boolean(name, value)?,
        "force_not_null" => options.force_not_null = names(value),
        "skip" => options.skip = Some(number(name, value)?),
        "comment" if value.is_empty() => {}
        "comment" => options.comment = Some(byte(name, value)?),
        "null_padding" => options.null_padding = boolean(name, value)?,
        "ignore_errors" => options.ignore_errors = boolean(name, value)?,
        "dateformat" if value.eq_ignore_ascii_case("auto") => {}
        "dateformat" => options.forms.date = Some(TimeFormat::of_option(name, value)?),
        "timestampformat" if value.eq_ignore_ascii_case("auto") => {}
        "timestampformat" => options.forms.timestamp = Some(TimeFormat::of_option(name, value)?),
        "decimal_separator" => match value {
            "." => {}
            "," => options.forms.decimal = Some(b','),
            _ => return Err(Error::invalid(format!("{name} '{value}' is neither '.' nor ','"))),
        },
        "thousands" if value.is_empty() => {}
        "thousands" => match byte(name, value)? {
            mark if mark.is_ascii_alphanumeric() || matches!(mark, b'-' | b'+') => {
                return Err(Error::invalid(format!("{name} '{value}' is part of numbers")));
            }
            mark => options.forms.thousands = Some(mark),
        },
        "encoding" => {
            let unknown = || {
                Error::invalid(format!("{name}: there is no encoding '{value}'")).with_hint(
                    "encodings are utf-8, utf-16, latin-1, windows-1252, shift_jis, euc-jp, gb18030, big5, koi8-r and the \
                     others of browsers; convert other files with iconv",
                )
            };
            options.encoding = TextEncoding::named(value).ok_or_else(unknown)?;
        }
        "new_line" => {
            options.new_line = Some(match line_end(name, value)? {
                "\n" => NewLine::Feed,
                "\r\n" => NewLine::ReturnFeed,
                _ => NewLine::Return,
            });
        }
        "compression" => options.packing = compression(name, value)?,
        "sheet" => options.sheet = Some(value.to_owned()),
        "normalize_names" => options.normalize_names = boolean(name, value)?,
        "all_varchar" => options.all_varchar = boolean(name, value)?,
        "sample_rows" => {
            options.sample_rows = match value {
                "-1" => usize::MAX,
                _ => number(name, value).and_then(|rows| at_least_one(name, rows))?,
            }
        }
        "max_record_bytes" => {
            options.max_record_bytes = number(name, value).and_then(|bytes| at_least_one(name, bytes))?;
        }
        other => return is_default(other, name, value),
    }
    Ok(())
}

/// Whether the value of an option says that a file has no such character.
fn is_none(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("null")
}

fn at_least_one(name: &str, value: usize) -> Result<usize> {
    if value > 0 { Ok(value) } else { Err(Error::invalid(format!("{name} must be at least 1"))) }
}

fn compression(name: &str, value: &str) -> Result<Option<Packing>> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "auto" | "auto_detect" | "infer" => None,
        "none" | "uncompressed" => Some(Packing::None),
        "gzip" | "gz" => Some(Packing::Gzip),
        "zstd" | "zst" => Some(Packing::Zstd),
        "bzip2" | "bz2" => Some(Packing::Bzip2),
        _ => {
            let error = Error::invalid(format!("{name} '{value}' is not known"));
            return Err(error.with_hint("text files are compressed with gzip, zstd or bzip2, or are not: none"));
        }
    })
}

fn is_json_form(name: &str) -> bool {
    ["auto", "newline_delimited", "nd", "array", "unstructured"].iter().any(|form| name.eq_ignore_ascii_case(form))
}

/// Options of other programs, whose values here are always the same.
fn is_default(option: &str, name: &str, value: &str) -> Result<()> {
    let refused = |text: &str, hint: &str| Err(Error::unsupported(format!("{name} {value}: {text}")).with_hint(hint));
    match option {
        "union_by_name" if !boolean(name, value)? => {
            refused("columns of several files are always matched by name", "leave the option out")
        }
        "records" if matches!(boolean(name, value), Ok(false)) => {
            refused("each value of a file is a row, and its fields are columns", "read the lines with read_csv")
        }
        "allow_empty" if boolean(name, value)? => {
            refused("a pattern without files is an error", "leave the option out")
        }
        _ => Ok(()),
    }
}

pub(crate) fn file_format(name: &str) -> Result<FileFormat> {
    FileFormat::of_path(format!("x.{name}").as_ref()).ok_or_else(|| unknown_format(name))
}

pub(crate) fn unknown_format(name: &str) -> Error {
    Error::invalid(format!("unknown format {name}")).with_hint("the formats are csv, json, parquet, arrow, xlsx")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(given: &[(&str, &str)]) -> Result<FileOptions, String> {
        let mut options = FileOptions::new(1);
        let data_type = |name: &str| match name {
            "INT" => Ok(DataType::Int32),
            "BIGINT" => Ok(DataType::Int64),
            "VARCHAR" => Ok(DataType::Utf8View),
            other => Err(Error::invalid(other.to_owned())),
        };
        for (name, value) in given {
            options.set(name, value, &data_type).map_err(|error| error.to_string())?;
        }
        options.complete().map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_valid_or_refused() {
        for (name, value) in [
            ("union_by_name", "true"),
            ("ignore_errors", "false"),
            ("encoding", "UTF-8"),
            ("escape", ""),
            ("comment", ""),
            ("thousands", ""),
            ("compression", "GZIP"),
            ("dateformat", "AUTO"),
            ("new_line", "\\r\\n"),
            ("sample_size", "-1"),
            ("decimal_separator", "."),
            ("auto_type_candidates", "['BIGINT', 'VARCHAR']"),
        ] {
            assert!(set(&[(name, value)]).is_ok(), "{name}");
        }
        for (name, value) in [
            ("headr", "true"),
            ("union_by_name", "false"),
            ("header", "maybe"),
            ("skip", "-1"),
            ("delim", ""),
            ("quote", "ab"),
            ("dateformat", "%Q"),
            ("dateformat", ""),
            ("decimal_separator", ";"),
            ("thousands", "ab"),
            ("thousands", "1"),
            ("encoding", "nope"),
            ("new_line", "x"),
            ("compression", "nope"),
            ("sample_size", "0"),
            ("auto_type_candidates", "['INT']"),
            ("columns", "['INT']"),
            ("rejects_table", ""),
            ("null_padding", "2"),
        ] {
            assert!(set(&[(name, value)]).is_err(), "{name} {value}");
        }
        assert_eq!(set(&[("filename", "true")]).map(|options| options.filename), Ok(Some("filename".into())));
        assert_eq!(set(&[("filename", "from_file")]).map(|options| options.filename), Ok(Some("from_file".into())));
        assert_eq!(set(&[("quote", "")]).map(|options| options.ingest.quote), Ok(NO_QUOTE));
    }

    #[test]
    fn contradictions_are_refused() {
        for given in [
            &[("header", "true"), ("HEADER", "false")][..],
            &[("delim", ";"), ("sep", ",")],
            &[("thousands", ","), ("decimal_separator", ",")],
            &[("thousands", ".")],
            &[("rejects_limit", "2")],
            &[("store_rejects", "true"), ("ignore_errors", "false")],
            &[("rejects_table", "reject_scans")],
            &[("columns", "{'a': 'INT'}"), ("names", "['b']")],
        ] {
            assert!(set(given).is_err(), "{given:?}");
        }
        let kept = set(&[("rejects_limit", "2"), ("rejects_table", "r")]).expect("options");
        let names = RejectNames { errors: "r".into(), scans: "reject_scans".into(), limit: Some(2) };
        assert_eq!((kept.rejects, kept.ingest.ignore_errors), (Some(names), true));
    }

    #[test]
    fn formats_have_options() {
        let check = |name: &str, value: &str, format| set(&[(name, value)]).expect(name).check_format(format).is_ok();
        assert!(check("header", "true", FileFormat::Excel) && !check("header", "true", FileFormat::Parquet));
        assert!(check("delim", ";", FileFormat::Csv) && !check("delim", ";", FileFormat::Json));
        assert!(check("types", "a INT", FileFormat::Json) && !check("types", "a INT", FileFormat::Arrow));
        assert!(check("filename", "true", FileFormat::Parquet) && !check("ignore_errors", "true", FileFormat::Json));
    }
}
