//! How a CSV file is read, in the form of DuckDB.

use datafusion::arrow::datatypes::FieldRef;

use super::options::FileOptions;
use super::set::{ColumnSource, Contents, FileSet, SetFile};
use crate::ingest::{CsvLayout, IngestOptions, NO_QUOTE, TextFile};
use crate::type_names::type_name;

/// How a CSV file is read.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub path: String,
    pub delimiter: String,
    pub quote: String,
    pub escape: String,
    pub comment: String,
    pub new_line: &'static str,
    pub skip_rows: usize,
    pub has_header: bool,
    /// Names and types.
    pub columns: Vec<(String, String)>,
    pub date_format: Option<String>,
    pub timestamp_format: Option<String>,
    /// The options that were given.
    pub arguments: Option<String>,
}

impl Layout {
    /// The layout of one file of a set; `None` if it is no CSV file.
    pub(super) fn of(set: &FileSet, file: &SetFile) -> Option<Layout> {
        let Contents::Text(TextFile::Csv(csv)) = &file.contents else { return None };
        let of_file = set.schema.fields().iter().zip(&file.columns);
        let fields = of_file.filter(|(_, source)| matches!(source, ColumnSource::Stored(_))).map(|(field, _)| field);
        Some(Layout::new(&file.name, &csv.layout, fields, &set.options, set.arguments.clone()))
    }

    /// The layout of a file with these columns.
    pub fn new<'a>(
        path: &str,
        layout: &CsvLayout,
        fields: impl Iterator<Item = &'a FieldRef>,
        options: &IngestOptions,
        arguments: Option<String>,
    ) -> Layout {
        let character = |byte: u8| if byte == NO_QUOTE { "(empty)".to_owned() } else { char::from(byte).to_string() };
        let forms = &options.forms;
        Layout {
            path: path.to_owned(),
            delimiter: match &options.wide_delimiter {
                Some(wide) => wide.clone(),
                None => char::from(layout.dialect.delimiter).to_string(),
            },
            quote: character(layout.dialect.quote),
            escape: character(layout.dialect.escape),
            comment: layout.dialect.comment.map_or_else(|| "(empty)".to_owned(), character),
            new_line: layout.new_line.name(),
            skip_rows: layout.skipped_lines,
            has_header: layout.header,
            columns: fields.map(|field| (field.name().clone(), type_name(field.data_type()))).collect(),
            date_format: forms.date.as_ref().map(|format| format.text().to_owned()),
            timestamp_format: forms.timestamp.as_ref().map(|format| format.text().to_owned()),
            arguments,
        }
    }

    /// The columns as a struct in SQL.
    pub fn columns_text(&self) -> String {
        let column = |(name, kind): &(String, String)| format!("'{}': '{}'", quoted(name), quoted(kind));
        format!("{{{}}}", self.columns.iter().map(column).collect::<Vec<_>>().join(", "))
    }

    /// A query that reads the file like this.
    pub(super) fn prompt(&self) -> String {
        let of = |value: &str| if value == "(empty)" { String::new() } else { quoted(value) };
        let mut options = format!(
            "auto_detect=false, delim='{}', quote='{}', escape='{}', new_line='{}', skip={}, comment='{}', header={}, \
             columns={}",
            of(&self.delimiter),
            of(&self.quote),
            of(&self.escape),
            self.new_line,
            self.skip_rows,
            of(&self.comment),
            self.has_header,
            self.columns_text()
        );
        for (name, format) in [("dateformat", &self.date_format), ("timestampformat", &self.timestamp_format)] {
            if let Some(format) = format {
                options.push_str(&format!(", {name}='{}'", quoted(format)));
            }
        }
        format!("FROM read_csv('{}', {options});", quoted(&self.path))
    }
}

fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

/// The options that were given, as DuckDB shows them.
pub(crate) fn arguments(options: &FileOptions) -> Option<String> {
    let written = |(name, value): (&str, &str)| match value.starts_with(['{', '[', '(']) || is_plain(value) {
        true => format!("{name}={value}"),
        false => format!("{name}='{}'", quoted(value)),
    };
    let all: Vec<String> = options.written().map(written).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn is_plain(value: &str) -> bool {
    value.parse::<i64>().is_ok() || matches!(value, "true" | "false")
}
