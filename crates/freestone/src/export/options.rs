//! The options of `COPY … TO`.

use super::codec::{Codec, Packing};
use super::csv::{CsvForm, ForceQuote};
use super::parquet::ParquetForm;
use super::partitions::{Existing, FileNames, Folders};
use super::series::Limits;
use super::times::TimeFormats;
use super::{Export, Form};
use crate::error::{Error, Result};
use crate::ingest::{FileFormat, NO_QUOTE};
use crate::options::parse_size;
use crate::provider::files::{Delimiter, boolean, byte, delimiter, line_end, names, number, unknown_format};
use crate::sql::command::OptionList;
use crate::times::TimeFormat;

const OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, FORCE_QUOTE, NEW_LINE, DATEFORMAT, TIMESTAMPFORMAT, \
                       COMMENT, ARRAY, COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_SIZE, PARTITION_BY, \
                       WRITE_PARTITION_COLUMNS, ORDER_BY, PER_THREAD_OUTPUT, FILE_SIZE_BYTES, ROW_GROUPS_PER_FILE, \
                       FILENAME_PATTERN, FILE_EXTENSION, OVERWRITE, OVERWRITE_OR_IGNORE, APPEND, WRITE_EMPTY_FILE, \
                       RETURN_FILES, KV_METADATA";

/// Options of other names.
const ALIASES: [(&str, &str); 7] = [
    ("partitioned_by", "partition_by"),
    ("delim", "delimiter"),
    ("sep", "delimiter"),
    ("nullstr", "null"),
    ("codec", "compression"),
    ("date_format", "dateformat"),
    ("timestamp_format", "timestampformat"),
];

/// Options of all formats that say which files there are.
const OF_FILES: [&str; 11] = [
    "append",
    "file_extension",
    "file_size_bytes",
    "filename_pattern",
    "overwrite",
    "overwrite_or_ignore",
    "partition_by",
    "per_thread_output",
    "return_files",
    "write_empty_file",
    "write_partition_columns",
];

/// Options that only say how a file is read.
const OF_READING: [&str; 20] = [
    "all_varchar",
    "auto_detect",
    "columns",
    "decimal_separator",
    "filename",
    "force_not_null",
    "hive_partitioning",
    "ignore_errors",
    "max_line_size",
    "names",
    "normalize_names",
    "null_padding",
    "rejects_limit",
    "rejects_scan",
    "rejects_table",
    "sample_size",
    "skip",
    "store_rejects",
    "thousands",
    "types",
];

/// The options that were given, by the name by which each is known here.
struct Given<'a>(Vec<(String, &'a str, &'a str)>);

impl<'a> Given<'a> {
    fn new(options: &'a OptionList) -> Result<Given<'a>> {
        let mut given: Vec<(String, &str, &str)> = vec![];
        for (name, value) in options {
            let lower = name.to_ascii_lowercase();
            let alias = ALIASES.iter().find(|(alias, _)| *alias == lower);
            let known = alias.map_or(lower, |(_, known)| (*known).to_owned());
            if let Some((_, before, _)) = given.iter().find(|(other, ..)| *other == known) {
                return Err(Error::invalid(match before.eq_ignore_ascii_case(name) {
                    true => format!("the option {name} is given twice"),
                    false => format!("{before} and {name} are the same option, which is given twice"),
                }));
            }
            given.push((known, name, value));
        }
        Ok(Given(given))
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, ..)| known == name).map(|(.., value)| *value)
    }

    fn is_true(&self, name: &str) -> Result<bool> {
        self.is_true_or(name, false)
    }

    fn is_true_or(&self, name: &str, default: bool) -> Result<bool> {
        self.value(name).map_or(Ok(default), |value| boolean(name, value))
    }
}

impl Export {
    /// A file at `path`, with the options of COPY and the format of its extension. Row groups have at most
    /// `row_group_rows` rows. With `is_ordered`, the rows are in the order of the option ORDER_BY.
    ///
    /// # Errors
    /// An option is unknown or invalid, or the format is not known.
    pub fn new(
        path: &str,
        options: &OptionList,
        threads: usize,
        row_group_rows: usize,
        is_ordered: bool,
    ) -> Result<Export> {
        let given = Given::new(options)?;
        let extension = FileFormat::extension_of(path.as_ref());
        let named = given.value("format").map(str::to_ascii_lowercase);
        let Some(kind) = named.or(extension) else {
            return Err(Error::invalid(format!("cannot tell the format of {path} from its name"))
                .with_hint("say it: (FORMAT csv | json | parquet | arrow)"));
        };
        let format = FileFormat::of_path(format!("x.{kind}").as_ref()).ok_or_else(|| unknown_format(&kind))?;
        let Contents { csv, rows, array, times } = Contents::new(&given, format, &kind, row_group_rows)?;
        let codec = Codec::read(given.value("compression"), given.value("compression_level"))?;
        let (form, packing) = match format {
            FileFormat::Csv => (Form::Csv(csv), codec.packing(path)?),
            FileFormat::Json => (Form::Json { array, times }, codec.packing(path)?),
            FileFormat::Parquet => {
                let compression = codec.parquet()?;
                (
                    Form::Parquet(ParquetForm { compression, row_group_rows: rows, threads, metadata: vec![] }),
                    Packing::None,
                )
            }
            FileFormat::Arrow => (Form::Arrow(codec.arrow()?), Packing::None),
            FileFormat::Excel => {
                let error = Error::unsupported("spreadsheets are read, not written");
                return Err(error.with_hint("write CSV, which spreadsheets open: COPY … TO 'file.csv'"));
            }
        };
        let folders = Files::new(&given, is_ordered, rows)?.folders(&given, path, &extension_of(&kind, packing))?;
        Ok(Export {
            path: path.to_owned(),
            form,
            packing,
            threads: threads.max(1),
            folders,
            new_folders: Default::default(),
            writes_empty: given.is_true_or("write_empty_file", true)?,
            returns_files: given.is_true("return_files")?,
            object: None,
        })
    }
}

/// What the options say about the contents of a file.
struct Contents {
    csv: CsvForm,
    /// The rows of a row group.
    rows: usize,
    array: bool,
    times: TimeFormats,
}

impl Contents {
    fn new(given: &Given<'_>, format: FileFormat, kind: &str, row_group_rows: usize) -> Result<Contents> {
        let mut csv = CsvForm::of_extension(kind);
        let (mut rows, mut array, mut escape, mut times) = (row_group_rows, false, None, TimeFormats::default());
        for (known, name, value) in &given.0 {
            match (format, known.as_str()) {
                (_, "format" | "compression" | "compression_level") => {}
                (_, known) if OF_FILES.contains(&known) => {}
                (FileFormat::Parquet, "row_groups_per_file") => {}
                (FileFormat::Parquet, "write_timestamp_as_int96") | (_, "return_stats" | "encoding") => {
                    check_absent(known, name, value)?;
                }
                (FileFormat::Csv, "escape") if value.is_empty() => {}
                (FileFormat::Csv, "escape") => escape = Some(byte(name, value)?),
                (FileFormat::Csv | FileFormat::Json, "dateformat") => {
                    times.date = Some(TimeFormat::of_option(name, value)?);
                }
                (FileFormat::Csv | FileFormat::Json, "timestampformat") => {
                    times.timestamp = Some(TimeFormat::of_option(name, value)?);
                }
                (FileFormat::Csv, known) if csv.set(known, name, value)? => {}
                (FileFormat::Json, "array") => array = boolean(name, value)?,
                // They say how a file is written, and not what it has.
                (_, "use_tmp_file" | "preserve_order") => drop(boolean(name, value)?),
                (
                    FileFormat::Parquet,
                    "parquet_version"
                    | "dictionary_size_limit"
                    | "string_dictionary_page_size_limit"
                    | "write_bloom_filter"
                    | "bloom_filter_false_positive_ratio"
                    | "row_group_size_bytes",
                ) => {}
                (FileFormat::Parquet, "row_group_size") => rows = number(name, value)?.max(1),
                _ => return Err(unknown(known, name, kind)),
            }
        }
        csv.escape = escape.unwrap_or(csv.quote);
        csv.check()?;
        csv.times = times.clone();
        Ok(Contents { csv, rows, array, times })
    }
}

/// Refuses the values that other programs have for an option, and this one does not.
fn check_absent(known: &str, name: &str, value: &str) -> Result<()> {
    let (text, hint) = match known {
        "encoding" if ["utf-8", "utf8"].contains(&value.to_ascii_lowercase().as_str()) => return Ok(()),
        "encoding" => (format!("{name} '{value}': files are written in UTF-8"), "convert the file with iconv -f UTF-8"),
        _ if !boolean(name, value)? => return Ok(()),
        "return_stats" => (
            format!("{name}: statistics are not returned"),
            "use RETURN_FILES, and read parquet_metadata('file') of each file",
        ),
        _ => (
            format!("{name}: times are written as integers of 64 bits"),
            "leave the option out: readers of Parquet know these timestamps",
        ),
    };
    Err(Error::unsupported(text).with_hint(hint))
}

fn unknown(known: &str, name: &str, kind: &str) -> Error {
    if OF_READING.contains(&known) {
        return Error::invalid(format!("{name} says how files are read: it is no option of COPY TO"));
    }
    Error::invalid(format!("unknown option {name} for COPY TO {kind}"))
        .with_hint(format!("the options are {OPTIONS}, each where its format has it"))
}

/// The extension of the files in folders.
fn extension_of(kind: &str, packing: Packing) -> String {
    match packing {
        Packing::None => kind.to_owned(),
        Packing::Gzip(_) => format!("{kind}.gz"),
        Packing::Zstd(_) => format!("{kind}.zst"),
        Packing::Bzip2(_) => format!("{kind}.bz2"),
    }
}

/// Which files a statement writes.
struct Files {
    /// The columns of PARTITION_BY.
    columns: Vec<String>,
    is_ordered: bool,
    limits: Limits,
    /// Whether they are in one folder without PARTITION_BY and ORDER_BY.
    is_series: bool,
    writes_empty: bool,
}

impl Files {
    fn new(given: &Given<'_>, is_ordered: bool, row_group_rows: usize) -> Result<Files> {
        let columns = given.value("partition_by").map(names);
        if columns.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::invalid("PARTITION_BY names no column"));
        }
        let groups =
            given.value("row_groups_per_file").map(|value| number("row_groups_per_file", value)).transpose()?;
        if groups == Some(0) {
            return Err(Error::invalid("ROW_GROUPS_PER_FILE must be at least 1"));
        }
        let bytes = given.value("file_size_bytes").map(|size| parse_size(&size.replace('_', ""))).transpose()?;
        let limits = Limits {
            rows: groups.map(|groups| groups.saturating_mul(row_group_rows)),
            bytes: bytes.map(|bytes| bytes as u64),
        };
        let per_thread = given.is_true("per_thread_output")?;
        let writes_empty = given.is_true_or("write_empty_file", true)?;
        let of_folders = [(columns.is_some(), "PARTITION_BY"), (is_ordered, "ORDER_BY")];
        let of_folder = of_folders.iter().find(|(is_given, _)| *is_given).map(|(_, name)| *name);
        let pair = match of_folder {
            Some(other) if per_thread => Some(("PER_THREAD_OUTPUT", other)),
            Some(other) if !writes_empty => Some(("WRITE_EMPTY_FILE false", other)),
            None if per_thread && !writes_empty => Some(("WRITE_EMPTY_FILE false", "PER_THREAD_OUTPUT")),
            _ => None,
        };
        if let Some((one, other)) = pair {
            return Err(Error::invalid(format!("{one} and {other} exclude each other: leave one of them out")));
        }
        let is_series = per_thread || limits.rows.is_some() || limits.bytes.is_some();
        Ok(Files { columns: columns.unwrap_or_default(), is_ordered, limits, is_series, writes_empty })
    }

    /// The files of a folder and of those in it; `None` for a single file.
    fn folders(self, given: &Given<'_>, path: &str, extension: &str) -> Result<Option<Folders>> {
        let existing = existing(given)?;
        let writes_columns = given.is_true("write_partition_columns")?;
        let is_one = self.columns.is_empty() && !self.is_ordered && !self.is_series;
        let of_folders = ["filename_pattern", "file_extension"].into_iter().find(|name| given.value(name).is_some());
        let misplaced = of_folders.filter(|_| is_one);
        let misplaced = misplaced.or((writes_columns && self.columns.is_empty()).then_some("write_partition_columns"));
        if let Some(name) = misplaced {
            return Err(Error::invalid(format!("{} is an option beside PARTITION_BY", name.to_ascii_uppercase()))
                .with_hint("without it, COPY writes the one file that it names"));
        }
        if is_one {
            if existing == Existing::Kept && std::path::Path::new(path).exists() {
                let text = format!("{path} exists: APPEND adds files to a folder, and no rows to a file");
                return Err(Error::invalid(text).with_hint("write another file, or a folder with PARTITION_BY"));
            }
            return Ok(None);
        }
        let extension = given.value("file_extension").unwrap_or(extension).trim_start_matches('.');
        let names = FileNames::new(given.value("filename_pattern"), extension, existing)?;
        let has_places = self.is_ordered && !self.columns.is_empty();
        let writes_empty = self.writes_empty && self.columns.is_empty() && !self.is_ordered;
        let Files { columns, limits, .. } = self;
        Ok(Some(Folders { columns, has_places, limits, writes_empty, writes_columns, existing, names }))
    }
}

/// What happens to the files that are there.
fn existing(given: &Given<'_>) -> Result<Existing> {
    let modes = ["overwrite", "overwrite_or_ignore", "append"];
    let chosen: Vec<&str> = modes
        .into_iter()
        .filter_map(|mode| given.is_true(mode).map(|is| is.then_some(mode)).transpose())
        .collect::<Result<_>>()?;
    Ok(match chosen.as_slice() {
        [] => Existing::Refused,
        ["overwrite"] => Existing::Replaced,
        ["append"] => Existing::Kept,
        ["overwrite_or_ignore"] => Existing::Overwritten,
        _ => {
            return Err(Error::invalid(
                "OVERWRITE, OVERWRITE_OR_IGNORE and APPEND exclude each other: give one of them",
            ));
        }
    })
}

/// The texts of the columns that are quoted always.
pub(super) fn force_quote(value: &str) -> ForceQuote {
    match names(value) {
        all if all == ["*"] => ForceQuote::All,
        columns => ForceQuote::Columns(columns),
    }
}

impl CsvForm {
    /// Sets an option of CSV files. False if it is another one.
    fn set(&mut self, known: &str, name: &str, value: &str) -> Result<bool> {
        match known {
            "header" => self.header = boolean(name, value)?,
            "delimiter" => {
                self.delimiter = match delimiter(name, value)? {
                    Delimiter::Byte(byte) => char::from(byte).to_string(),
                    Delimiter::Wide(text) => text,
                }
            }
            "quote" if value.is_empty() => self.quote = NO_QUOTE,
            "quote" => self.quote = byte(name, value)?,
            "null" => self.null = value.to_owned(),
            "comment" if value.is_empty() => {}
            "comment" => self.comment = Some(byte(name, value)?),
            "force_quote" => self.force_quote = force_quote(value),
            "new_line" => match line_end(name, value)? {
                "\r" => {
                    return Err(Error::unsupported(format!("{name} '\\r': lines are written with '\\n' or '\\r\\n'")));
                }
                end => self.line_end = end,
            },
            _ => return Ok(false),
        }
        Ok(true)
    }
}
