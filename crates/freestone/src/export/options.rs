//! The options of `COPY … TO`.

use super::codec::{Codec, Packing};
use super::csv::{CsvForm, ForceQuote};
use super::parquet::ParquetForm;
use super::partitions::{Existing, FileNames, Folders};
use super::times::TimeFormats;
use super::{Export, Form};
use crate::error::{Error, Result};
use crate::ingest::{FileFormat, NO_QUOTE};
use crate::provider::files::{Delimiter, boolean, byte, delimiter, line_end, names, number, unknown_format};
use crate::sql::command::OptionList;
use crate::times::TimeFormat;

const OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, FORCE_QUOTE, NEW_LINE, DATEFORMAT, TIMESTAMPFORMAT, \
                       COMMENT, ARRAY, COMPRESSION, COMPRESSION_LEVEL, ROW_GROUP_SIZE, PARTITION_BY, \
                       WRITE_PARTITION_COLUMNS, FILENAME_PATTERN, FILE_EXTENSION, OVERWRITE, OVERWRITE_OR_IGNORE, APPEND";

/// Options of other names.
const ALIASES: [(&str, &str); 6] = [
    ("delim", "delimiter"),
    ("sep", "delimiter"),
    ("nullstr", "null"),
    ("codec", "compression"),
    ("date_format", "dateformat"),
    ("timestamp_format", "timestampformat"),
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
        self.value(name).map_or(Ok(false), |value| boolean(name, value))
    }
}

impl Export {
    /// A file at `path`, with the options of COPY and the format of its extension. Row groups have at most
    /// `row_group_rows` rows.
    ///
    /// # Errors
    /// An option is unknown or invalid, or the format is not known.
    pub fn new(path: &str, options: &OptionList, threads: usize, row_group_rows: usize) -> Result<Export> {
        let given = Given::new(options)?;
        let extension = FileFormat::extension_of(path.as_ref());
        let named = given.value("format").map(str::to_ascii_lowercase);
        let Some(kind) = named.or(extension) else {
            return Err(Error::invalid(format!("cannot tell the format of {path} from its name"))
                .with_hint("say it: (FORMAT csv | json | parquet | arrow)"));
        };
        let format = FileFormat::of_path(format!("x.{kind}").as_ref()).ok_or_else(|| unknown_format(&kind))?;
        let mut csv = CsvForm::of_extension(&kind);
        let (mut rows, mut array, mut escape, mut times) = (row_group_rows, false, None, TimeFormats::default());
        for (known, name, value) in &given.0 {
            match (format, known.as_str()) {
                (_, "format" | "compression" | "compression_level") => {}
                (_, "partition_by" | "write_partition_columns" | "filename_pattern" | "file_extension") => {}
                (_, "overwrite" | "overwrite_or_ignore" | "append") => {}
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
                (_, "encoding") if ["utf-8", "utf8"].contains(&value.to_ascii_lowercase().as_str()) => {}
                (_, "encoding") => {
                    let error = Error::unsupported(format!("{name} '{value}': files are written in UTF-8"));
                    return Err(error.with_hint("convert the file with iconv -f UTF-8"));
                }
                _ => return Err(unknown(known, name, &kind)),
            }
        }
        csv.escape = escape.unwrap_or(csv.quote);
        csv.check()?;
        csv.times = times.clone();
        let codec = Codec::read(given.value("compression"), given.value("compression_level"))?;
        let (form, packing) = match format {
            FileFormat::Csv => (Form::Csv(csv), codec.packing(path)?),
            FileFormat::Json => (Form::Json { array, times }, codec.packing(path)?),
            FileFormat::Parquet => {
                let compression = codec.parquet()?;
                (Form::Parquet(ParquetForm { compression, row_group_rows: rows, threads }), Packing::None)
            }
            FileFormat::Arrow => (Form::Arrow(codec.arrow()?), Packing::None),
            FileFormat::Excel => {
                let error = Error::unsupported("spreadsheets are read, not written");
                return Err(error.with_hint("write CSV, which spreadsheets open: COPY … TO 'file.csv'"));
            }
        };
        let folders = folders(&given, path, &extension_of(&kind, packing))?;
        let (path, threads) = (path.to_owned(), threads.max(1));
        Ok(Export { path, form, packing, threads, folders, new_folders: Default::default(), object: None })
    }
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

/// PARTITION_BY and the options beside it; `None` for a single file.
fn folders(given: &Given<'_>, path: &str, extension: &str) -> Result<Option<Folders>> {
    let modes = ["overwrite", "overwrite_or_ignore", "append"];
    let chosen: Vec<&str> = modes
        .into_iter()
        .filter_map(|mode| given.is_true(mode).map(|is| is.then_some(mode)).transpose())
        .collect::<Result<_>>()?;
    let existing = match chosen.as_slice() {
        [] => Existing::Refused,
        ["overwrite"] => Existing::Replaced,
        ["append"] => Existing::Kept,
        ["overwrite_or_ignore"] => Existing::Overwritten,
        _ => {
            return Err(Error::invalid(
                "OVERWRITE, OVERWRITE_OR_IGNORE and APPEND exclude each other: give one of them",
            ));
        }
    };
    let writes_columns = given.is_true("write_partition_columns")?;
    let Some(columns) = given.value("partition_by") else {
        let of_folders = ["filename_pattern", "file_extension"].into_iter().find(|name| given.value(name).is_some());
        let of_folders = of_folders.or(writes_columns.then_some("write_partition_columns"));
        if let Some(name) = of_folders {
            return Err(Error::invalid(format!("{} is an option beside PARTITION_BY", name.to_ascii_uppercase()))
                .with_hint("without it, COPY writes the one file that it names"));
        }
        if existing == Existing::Kept && std::path::Path::new(path).exists() {
            return Err(Error::invalid(format!("{path} exists: APPEND adds files to a folder, and no rows to a file"))
                .with_hint("write another file, or a folder with PARTITION_BY"));
        }
        return Ok(None);
    };
    let columns = names(columns);
    if columns.is_empty() {
        return Err(Error::invalid("PARTITION_BY names no column"));
    }
    let extension = given.value("file_extension").unwrap_or(extension).trim_start_matches('.');
    let names = FileNames::new(given.value("filename_pattern"), extension, existing)?;
    Ok(Some(Folders { columns, writes_columns, existing, names }))
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
