//! The options of files in `COPY … FROM` and queries: `FROM 'f.csv' (HEADER true)`, `read_csv('f.csv', header =>
//! true)`.

use datafusion::arrow::datatypes::DataType;

use crate::error::{Error, Result};
use crate::ingest::{FileFormat, IngestOptions, NO_QUOTE};

const OPTIONS: &str = "FORMAT, HEADER, DELIMITER, QUOTE, ESCAPE, NULL, SKIP, SHEET, NAMES, TYPES, ALL_VARCHAR, FILENAME, \
                       HIVE_PARTITIONING, SAMPLE_ROWS, MAX_RECORD_BYTES";

/// How files are read.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileOptions {
    pub ingest: IngestOptions,
    /// The types of columns, by name.
    pub types: Vec<(String, DataType)>,
    /// The names of the columns of CSV files, from the first one on.
    pub names: Vec<String>,
    /// The column with the name of the file of each row.
    pub filename: Option<String>,
    /// Whether folders with names `key=value` add columns. This is the default.
    pub hive: Option<bool>,
    /// Whether what no option says is found out from the file.
    pub detects: bool,
}

impl FileOptions {
    /// The options with the defaults of those that are not found out: commas, no header, and texts.
    pub fn complete(mut self) -> Self {
        if !self.detects {
            self.ingest.delimiter.get_or_insert(b',');
            self.ingest.header.get_or_insert(false);
            self.ingest.all_varchar = true;
        }
        self
    }

    pub fn new(threads: usize) -> Self {
        Self { ingest: IngestOptions { threads, ..IngestOptions::default() }, detects: true, ..Self::default() }
    }

    /// Sets one option. `data_type` parses the name of a type.
    ///
    /// # Errors
    /// The option is unknown, or its value is invalid.
    pub fn set(&mut self, name: &str, value: &str, data_type: &dyn Fn(&str) -> Result<DataType>) -> Result<()> {
        let options = &mut self.ingest;
        match name.to_ascii_lowercase().as_str() {
            // The forms of JSON files are detected.
            "format" if options.format == Some(FileFormat::Json) && is_json_form(value) => {}
            "format" => options.format = Some(file_format(value)?),
            "header" => options.header = Some(boolean(name, value)?),
            "delimiter" | "delim" | "sep" => options.delimiter = Some(byte(name, value)?),
            "quote" if value.is_empty() => options.quote = NO_QUOTE,
            "quote" => options.quote = byte(name, value)?,
            "escape" => options.escape = Some(byte(name, value)?),
            "null" | "nullstr" => options.nulls = list(value).unwrap_or_else(|| vec![value.to_owned()]),
            "sheet" => options.sheet = Some(value.to_owned()),
            "skip" => options.skip = number(name, value)?,
            "all_varchar" => options.all_varchar = boolean(name, value)?,
            "sample_rows" | "sample_size" => {
                options.sample_rows = if value == "-1" { usize::MAX } else { number(name, value)? };
            }
            "max_record_bytes" | "max_line_size" | "maximum_object_size" => {
                options.max_record_bytes = number(name, value)?
            }
            "types" | "dtypes" => self.types = types(value, data_type)?,
            "columns" => {
                self.types = types(value, data_type)?;
                if options.format != Some(FileFormat::Json) {
                    self.names = self.types.iter().map(|(name, _)| name.clone()).collect();
                }
            }
            "names" => self.names = list(value).unwrap_or_else(|| vec![value.to_owned()]),
            "filename" => {
                self.filename = match boolean(name, value) {
                    Ok(is_wanted) => is_wanted.then(|| "filename".to_owned()),
                    Err(_) => Some(value.to_owned()),
                }
            }
            "hive_partitioning" => self.hive = Some(boolean(name, value)?),
            "auto_detect" => self.detects = boolean(name, value)?,
            other => is_default(other, name, value)?,
        }
        Ok(())
    }
}

fn is_json_form(name: &str) -> bool {
    ["auto", "newline_delimited", "nd", "array", "unstructured"].iter().any(|form| name.eq_ignore_ascii_case(form))
}

/// Options of other programs, whose values here are always the same.
fn is_default(option: &str, name: &str, value: &str) -> Result<()> {
    let refused = |text: &str, hint: &str| Err(Error::unsupported(format!("{name} {value}: {text}")).with_hint(hint));
    match option {
        "union_by_name" if boolean(name, value)? => Ok(()),
        "union_by_name" => refused("columns of several files are always matched by name", "leave the option out"),
        "ignore_errors" | "store_rejects" | "null_padding" if !boolean(name, value)? => Ok(()),
        "ignore_errors" | "store_rejects" => refused(
            "a file is read completely, or an error says which row is wrong",
            "read the columns as VARCHAR (ALL_VARCHAR true) and convert them with TRY_CAST",
        ),
        "null_padding" => refused("all rows must have the same number of fields", "correct the file first"),
        "compression" if ["auto", "auto_detect", "none", "gzip", "zstd", "bzip2"].contains(&value) => Ok(()),
        "encoding" if ["utf-8", "utf8"].contains(&value.to_ascii_lowercase().as_str()) => Ok(()),
        "encoding" => refused("text files must be UTF-8", "convert the file first, with iconv -f … -t UTF-8"),
        "dateformat" | "timestampformat" | "date_format" | "timestamp_format" | "decimal_separator" | "thousands" => {
            refused("values have the form of the SQL standard", "read the column as VARCHAR and convert it in a query")
        }
        // They say how a file is read, and not what is read of it.
        "parallel"
        | "records"
        | "strict_mode"
        | "new_line"
        | "buffer_size"
        | "files_to_sniff"
        | "preserve_order"
        | "allow_quoted_nulls"
        | "file_row_group_prefetch" => Ok(()),
        "allow_empty" if !boolean(name, value)? => Ok(()),
        _ => {
            Err(Error::invalid(format!("unknown option {name} for files"))
                .with_hint(format!("the options are {OPTIONS}")))
        }
    }
}

/// The texts of `['a', 'b']`; `None` for a value of another form.
fn list(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let item = |part: &&str| Some(part.trim().strip_prefix('\'')?.strip_suffix('\'')?.replace("''", "'"));
    let items: Vec<&str> = parts(inner);
    items.iter().map(item).collect()
}

/// Parses `a INT, "b c" VARCHAR`, optionally with colons, quotes and braces around it.
fn types(text: &str, data_type: &dyn Fn(&str) -> Result<DataType>) -> Result<Vec<(String, DataType)>> {
    let text = text.trim();
    let inner =
        [('{', '}'), ('(', ')')].iter().find_map(|(open, close)| text.strip_prefix(*open)?.strip_suffix(*close));
    let mut types = vec![];
    for part in parts(inner.unwrap_or(text)) {
        let bad = || {
            Error::invalid(format!("TYPES: '{part}' is not a column and its type"))
                .with_hint("the form is TYPES 'column TYPE, …'")
        };
        let (name, rest) = name(part.trim()).ok_or_else(bad)?;
        let named = rest.trim_start().trim_start_matches([':', '=']).trim();
        let named = named.trim_matches('\'');
        if named.is_empty() {
            return Err(bad());
        }
        types.push((name, data_type(named)?));
    }
    Ok(types)
}

/// The comma-separated parts, except for commas within parentheses or quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0i32, None, 0);
    let mut parts = vec![];
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A name at the start of a text, quoted or not, and the rest of the text.
fn name(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let (name, rest) = text[1..].split_once(quote)?;
        return Some((name.to_owned(), rest));
    }
    let end = text.find([' ', ':', '='])?;
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

pub(crate) fn file_format(name: &str) -> Result<FileFormat> {
    FileFormat::of_path(format!("x.{name}").as_ref()).ok_or_else(|| unknown_format(name))
}

pub(crate) fn unknown_format(name: &str) -> Error {
    Error::invalid(format!("unknown format {name}")).with_hint("the formats are csv, json, parquet, arrow, xlsx")
}

pub(crate) fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" | "yes" => Ok(true),
        "false" | "off" | "0" | "no" => Ok(false),
        _ => Err(Error::invalid(format!("{name} {value} is neither true nor false"))),
    }
}

pub(crate) fn byte(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err(Error::invalid(format!("{name} '{value}' is not one ASCII character"))),
    }
}

pub(crate) fn number(name: &str, value: &str) -> Result<usize> {
    value.parse().map_err(|_| Error::invalid(format!("{name} {value} is not a whole number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_lists_of_columns() {
        let data_type = |name: &str| match name {
            "INT" => Ok(DataType::Int32),
            "DECIMAL(10, 2)" => Ok(DataType::Decimal128(10, 2)),
            other => Err(Error::invalid(other.to_owned())),
        };
        let read = |text: &str| types(text, &data_type).map_err(|error| error.to_string());
        let both = vec![("a".to_owned(), DataType::Int32), ("b c".to_owned(), DataType::Decimal128(10, 2))];
        assert_eq!(read("a INT, \"b c\" DECIMAL(10, 2)"), Ok(both.clone()));
        assert_eq!(read("{'a': 'INT', 'b c': 'DECIMAL(10, 2)'}"), Ok(both));
        assert_eq!(read(""), Ok(vec![]));
        assert!(read("a").is_err() && read("a =").is_err() && read("a TREE").is_err());
    }

    #[test]
    fn lists_are_quoted_texts_in_brackets() {
        assert_eq!(list("[ 'a' , 'b, c' , '' ]"), Some(vec!["a".into(), "b, c".into(), String::new()]));
        assert_eq!(list("['it''s']"), Some(vec!["it's".into()]));
        assert_eq!(list("[]"), Some(vec![]));
        for text in ["NA", "", "[NA]", "['a'", "['a', b]"] {
            assert_eq!(list(text), None, "{text}");
        }
    }

    #[test]
    fn options_of_other_programs_are_defaults_or_refused() {
        let set = |name: &str, value: &str| {
            let mut options = FileOptions::new(1);
            options
                .set(name, value, &|name| Err(Error::invalid(name.to_owned())))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(options)
        };
        for (name, value) in [("union_by_name", "true"), ("ignore_errors", "false"), ("encoding", "UTF-8")] {
            assert!(set(name, value).is_ok(), "{name}");
        }
        for name in ["ignore_errors", "store_rejects", "null_padding", "headr"] {
            assert!(set(name, "true").is_err(), "{name}");
        }
        assert!(set("union_by_name", "false").is_err() && set("dateformat", "%d").is_err());
        assert_eq!(set("filename", "true").map(|options| options.filename), Ok(Some("filename".into())));
        assert_eq!(set("filename", "from_file").map(|options| options.filename), Ok(Some("from_file".into())));
        assert_eq!(set("quote", "").map(|options| options.ingest.quote), Ok(NO_QUOTE));
    }
}
