//! What the first bytes of a CSV file say: where its records begin, what separates their fields, and the first record.
//!
//! Programs write titles and notes above a table. If no option says how many lines to skip, lines with fewer fields than
//! the records below them are skipped, but only above a record that is certainly a header: nothing that could be a row
//! is left out.

use std::path::Path;

use arrow::datatypes::Schema;

use super::blocks::{check_head, read_head, replace_returns, utf8_prefix};
use super::csv_tokens::{Dialect, RecordEnd, Tokenizer};
use super::error::{COLUMNS_MAX, IngestError, Reason};
use super::fields::{Cells, Fields};
use super::headers::{Below, has_name_above_values, is_certain_header, is_header_for};
use super::kinds::Kinds;
use super::{FileFormat, IngestOptions, NO_QUOTE};

/// The delimiters that are detected, most likely first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// The maximum number of records for detecting the delimiter.
const DELIMITED_RECORDS: usize = 64;

/// How the lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewLine {
    /// There is only one line.
    None,
    Feed,
    ReturnFeed,
    Return,
}

impl NewLine {
    /// How a record with its line end ends.
    fn of(record: &str) -> NewLine {
        match record.as_bytes() {
            [.., b'\r', b'\n'] => NewLine::ReturnFeed,
            [.., b'\n'] => NewLine::Feed,
            _ => NewLine::None,
        }
    }

    /// As an option writes it.
    pub fn name(self) -> &'static str {
        match self {
            NewLine::None | NewLine::Feed => "\\n",
            NewLine::ReturnFeed => "\\r\\n",
            NewLine::Return => "\\r",
        }
    }
}

/// The information in the first bytes of a file that does not require types.
pub(super) struct Opening {
    pub dialect: Dialect,
    /// The start of the first record, after a byte order mark, skipped lines, and a line that specifies the delimiter.
    pub start: usize,
    /// The number of lines before it.
    pub skipped_lines: usize,
    /// Lines end with carriage returns alone.
    pub returns: bool,
    pub new_line: NewLine,
    /// The fields of the first record, `None` being NULL; `None` for a file without records.
    pub first: Option<Vec<Option<String>>>,
}

impl Opening {
    /// Reads the first bytes of a file. If neither an option nor the extension specifies the delimiter, it is detected;
    /// with a table, it is one that splits records into as many fields as the table has columns.
    pub fn of(path: &Path, options: &IngestOptions, table: Option<&Schema>) -> Result<Self, IngestError> {
        let mut bytes_wanted = 64 << 10;
        loop {
            let mut head = read_head(path, options, bytes_wanted)?;
            let complete = head.len() < bytes_wanted;
            let mark = check_head(path, &head)?;
            let returns = replace_returns(&mut head, options.quote);
            let lossy = options.ignore_errors.then(|| String::from_utf8_lossy(&head));
            let text = lossy.as_deref().unwrap_or_else(|| utf8_prefix(&head));
            let (start, named) = preamble(text, mark.min(text.len()), options.skip.unwrap_or(0));
            let given = options.delimiter.or(named).or_else(|| by_extension(path));
            // Files of this kind have no header.
            let header = options.header.or((extension(path) == "tbl").then_some(false));
            let of_split = IngestOptions { header, ..options.clone() };
            let split = Split::of(&text[start..], &of_split, given, table, complete);
            let start = start + split.skipped;
            let dialect = dialect(path, &IngestOptions { comment: split.comment, ..options.clone() }, split.delimiter)?;
            let mut fields = Fields::default();
            let mut tokenizer = Tokenizer::new(text, start, &dialect);
            let found = tokenizer.record(None, &mut fields);
            let is_last = complete || head.len() >= options.record_bytes_max();
            if is_last || matches!(found, Ok(RecordEnd::Record { closed: true })) {
                let new_line = if returns { NewLine::Return } else { NewLine::of(&text[..tokenizer.position()]) };
                check_new_line(path, options, new_line)?;
                // A malformed record is reported with its place when it is read.
                let is_record = matches!(found, Ok(RecordEnd::Record { .. }));
                if fields.fields.len() > COLUMNS_MAX {
                    return Err(IngestError::new(
                        path.display().to_string(),
                        Reason::TooManyColumns { found: fields.fields.len() },
                    ));
                }
                let first = is_record.then(|| texts(text, &fields));
                let skipped_lines = text[..start].matches('\n').count();
                return Ok(Opening { dialect, start, skipped_lines, returns, new_line, first });
            }
            bytes_wanted *= 4;
        }
    }
}

/// The fields of one record.
fn texts(text: &str, fields: &Fields) -> Vec<Option<String>> {
    let cells = Cells { text, fields, column: 0, columns: 1, rows: usize::MAX };
    cells.iter().map(|text| text.map(str::to_string)).collect()
}

/// The start of the records, and the delimiter of a line `sep=;` before them, which spreadsheets write.
fn preamble(text: &str, mark: usize, skip: usize) -> (usize, Option<u8>) {
    let line_end = |from: usize| text[from..].find('\n').map(|at| from + at + 1);
    let mut start = mark;
    for _ in 0..skip {
        start = line_end(start).unwrap_or(text.len());
    }
    let line = text[start..].lines().next().unwrap_or_default().trim_end_matches('\r');
    match line.as_bytes() {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] if delimiter.is_ascii() => {
            (line_end(start).unwrap_or(text.len()), Some(*delimiter))
        }
        _ => (start, None),
    }
}

fn by_extension(path: &Path) -> Option<u8> {
    match extension(path).as_str() {
        "tbl" => Some(b'|'),
        "tsv" => Some(b'\t'),
        _ => None,
    }
}

/// The extension of a file, without that of its compression.
pub(super) fn extension(path: &Path) -> String {
    FileFormat::extension_of(path).unwrap_or_default()
}

/// The first records of a text, split by one delimiter.
struct Attempt {
    dialect: Dialect,
    /// The start of each record, and the number of its fields.
    records: Vec<(usize, usize)>,
}

impl Attempt {
    /// `None` if a record is malformed, unless such records are left out.
    fn new(text: &str, options: &IngestOptions, delimiter: u8, complete: bool) -> Option<Attempt> {
        let dialect = plain_dialect(options, delimiter);
        let mut tokenizer = Tokenizer::new(text, 0, &dialect);
        let (mut records, mut fields) = (vec![], Fields::default());
        for _ in 0..DELIMITED_RECORDS {
            fields.clear();
            let start = tokenizer.position();
            match tokenizer.record(None, &mut fields) {
                Ok(RecordEnd::Record { closed }) if closed || complete => {
                    let start = fields.starts.first().map_or(0, |start| *start as usize);
                    records.push((start, fields.fields.len()));
                }
                Ok(_) => break,
                Err(bad) if bad.at_end && !complete => break,
                Err(_) if options.ignore_errors => tokenizer.recover(start),
                Err(_) => return None,
            }
        }
        Some(Attempt { dialect, records })
    }

    /// The number of fields, if it is that of all records.
    fn width(&self) -> Option<usize> {
        let first = self.records.first()?.1;
        self.records.iter().all(|(_, width)| *width == first).then_some(first)
    }

    /// The start of a header below lines with fewer fields, or that begin with `#`, and the number of its fields.
    fn header(&self, text: &str, options: &IngestOptions, table: Option<&Schema>) -> Option<(usize, usize)> {
        let width = self.records.last()?.1;
        let narrower = self.records.iter().rposition(|(_, other)| *other != width).map_or(0, |last| last + 1);
        let notes = self.records.iter().take_while(|(start, _)| text[*start..].starts_with('#')).count();
        let below_notes = self.header_from(notes.max(narrower), width, text, options, table);
        below_notes.or_else(|| self.header_from(narrower, width, text, options, table))
    }

    /// The same, if the header is the record at this place.
    fn header_from(
        &self,
        place: usize,
        width: usize,
        text: &str,
        options: &IngestOptions,
        table: Option<&Schema>,
    ) -> Option<(usize, usize)> {
        let is_note = |start: usize| text[start..].starts_with('#');
        let (above, below) = self.records.split_at(place);
        let is_expected = table.is_none_or(|table| table.fields().len() == width);
        let is_wide = |(start, other): &&(usize, usize)| *other >= width && !is_note(*start);
        if above.is_empty() || width < 2 || below.len() < 2 || !is_expected || above.iter().any(|row| is_wide(&row)) {
            return None;
        }
        // A note with as many fields as the records may be their header.
        let is_doubtful = above.iter().any(|(_, other)| *other >= width);
        let start = below[0].0;
        let mut tokenizer = Tokenizer::new(text, start, &self.dialect);
        let mut fields = Fields::default();
        tokenizer.record(None, &mut fields).ok()?;
        let first = texts(text, &fields);
        let is_header = match table {
            Some(table) => is_header_for(&first, table, &options.forms),
            None => {
                let mut kinds = vec![Kinds::initial(options); width];
                let next = tokenizer.position();
                for _ in 1..below.len() {
                    fields.clear();
                    tokenizer.record(Some(width), &mut fields).ok()?;
                    let cells = Cells { text, fields: &fields, column: 0, columns: 1, rows: width };
                    for (kinds, value) in kinds.iter_mut().zip(cells.iter()) {
                        if let Some(value) = value.filter(|value| !value.is_empty()) {
                            kinds.see_text(value, &options.forms);
                        }
                    }
                }
                match is_doubtful {
                    true => has_name_above_values(&first, &kinds, &options.forms),
                    false => {
                        let below = || Below::compare(&first, text, next, &self.dialect, &options.forms);
                        is_certain_header(&first, &kinds, &options.forms, below)
                    }
                }
            }
        };
        is_header.then_some((start, width))
    }

    /// The number of fields that most records have, and their number. Only records with several fields count.
    fn most(&self) -> (usize, usize) {
        let count = |width: usize| self.records.iter().filter(|(_, other)| *other == width).count();
        let widths = self.records.iter().map(|(_, width)| *width).filter(|width| *width > 1);
        widths.map(|width| (count(width), width)).max().unwrap_or((0, 1))
    }
}

/// How a file is split.
#[derive(Debug, PartialEq, Eq)]
struct Split {
    delimiter: u8,
    /// The bytes of lines above the header.
    skipped: usize,
    /// What begins a comment, if an option says it, or lines without such a comment are split alike.
    comment: Option<u8>,
}

/// What begins the lines that nobody said are comments.
const COMMENT: u8 = b'#';

impl Split {
    /// The delimiter that splits all of the first records into equal numbers of fields: those of the table, or otherwise
    /// the most. A comma if there is none.
    fn of(text: &str, options: &IngestOptions, given: Option<u8>, table: Option<&Schema>, complete: bool) -> Split {
        let usable = |delimiter: &u8| {
            *delimiter != options.quote && Some(*delimiter) != options.escape && Some(*delimiter) != options.comment
        };
        let candidates: Vec<u8> = match given {
            Some(delimiter) => vec![delimiter],
            None => DELIMITERS.into_iter().filter(usable).collect(),
        };
        let attempts: Vec<Attempt> =
            candidates.iter().filter_map(|delimiter| Attempt::new(text, options, *delimiter, complete)).collect();
        // Of equals, the first is chosen.
        let best = |score: &dyn Fn(&Attempt) -> Option<(usize, usize)>| {
            let scored = attempts.iter().rev().filter_map(|attempt| Some((score(attempt)?, attempt)));
            scored.max_by_key(|(score, _)| *score).map(|(_, attempt)| attempt)
        };
        let columns = table.map(|table| table.fields().len()).or(options.columns.filter(|_| options.is_lenient()));
        let equal = best(&|attempt| {
            let width = attempt.width()?;
            columns.map_or(width > 1, |columns| columns == width).then_some((width, 0))
        });
        let comment = options.comment;
        let whole = |attempt: &Attempt| Split { delimiter: attempt.dialect.delimiter, skipped: 0, comment };
        let may_skip = options.skip.is_none() && options.header != Some(false) && !options.null_padding;
        if may_skip && (equal.is_none() || text.starts_with('#')) {
            let below = |attempt: &Attempt| attempt.header(text, options, table);
            let titled = best(&|attempt| below(attempt).map(|(_, width)| (width, 0)));
            if let Some((attempt, (skipped, _))) = titled.and_then(|attempt| Some((attempt, below(attempt)?))) {
                return Split { skipped, ..whole(attempt) };
            }
        }
        if let Some(attempt) = equal {
            return whole(attempt);
        }
        if let Some(split) = Split::with_comments(text, options, given, table, complete) {
            return split;
        }
        let ragged = match (options.null_padding, options.ignore_errors) {
            (true, _) => best(&|attempt| Some((attempt.records.iter().map(|(_, width)| width - 1).sum(), 0))),
            (false, true) => best(&|attempt| Some(attempt.most())),
            _ => None,
        };
        match (ragged, given) {
            (_, Some(delimiter)) => Split { delimiter, skipped: 0, comment },
            (Some(attempt), None) => whole(attempt),
            (None, None) => Split { delimiter: b',', skipped: 0, comment },
        }
    }

    /// The same without the lines that begin with `#`, if all others have equal numbers of several fields then, and none of them
    /// has this character.
    fn with_comments(
        text: &str,
        options: &IngestOptions,
        given: Option<u8>,
        table: Option<&Schema>,
        complete: bool,
    ) -> Option<Split> {
        if options.comment.is_some() || options.wide_delimiter.is_some() || given == Some(COMMENT) {
            return None;
        }
        let is_comment = |line: &str| line.as_bytes().first() == Some(&COMMENT);
        let is_mixed = |line: &str| !is_comment(line) && line.as_bytes().contains(&COMMENT);
        if !text.lines().any(is_comment) || text.lines().any(is_mixed) {
            return None;
        }
        let commented = IngestOptions { comment: Some(COMMENT), ..options.clone() };
        let split = Split::of(text, &commented, given, table, complete);
        let attempt = Attempt::new(text, &commented, split.delimiter, complete)?;
        (split.skipped == 0 && attempt.width().is_some_and(|width| width > 1)).then_some(split)
    }
}

fn plain_dialect(options: &IngestOptions, delimiter: u8) -> Dialect {
    Dialect {
        delimiter,
        quote: options.quote,
        escape: options.escape.unwrap_or(options.quote),
        nulls: options.nulls.clone(),
        quoted_nulls: options.quoted_nulls,
        comment: options.comment,
        pads: options.null_padding,
    }
}

/// The delimiter, quote and escape character of a file.
fn dialect(path: &Path, options: &IngestOptions, delimiter: u8) -> Result<Dialect, IngestError> {
    let dialect = plain_dialect(options, delimiter);
    let usable = |byte: u8| byte == NO_QUOTE || byte.is_ascii() && !matches!(byte, 0 | b'\n' | b'\r');
    let comment = dialect.comment.unwrap_or(b'#');
    let has = |byte: u8| dialect.nulls.iter().any(|null| null.as_bytes().contains(&byte));
    let wide = options.wide_delimiter.as_deref().unwrap_or_default();
    let is_in_wide = |byte: u8| wide.as_bytes().contains(&byte);
    let problem = if ![delimiter, dialect.quote, dialect.escape, comment].into_iter().all(usable) {
        "DELIMITER, QUOTE, ESCAPE and COMMENT must be single ASCII characters and no line ends"
    } else if [dialect.quote, dialect.escape].into_iter().any(|byte| byte == delimiter || is_in_wide(byte)) {
        "DELIMITER must differ from QUOTE and ESCAPE"
    } else if dialect
        .comment
        .is_some_and(|comment| [delimiter, dialect.quote, dialect.escape].contains(&comment) || is_in_wide(comment))
    {
        "COMMENT must differ from DELIMITER, QUOTE and ESCAPE"
    } else if has(delimiter)
        || !wide.is_empty() && dialect.nulls.iter().any(|null| null.contains(wide))
        || dialect.quote != NO_QUOTE && has(dialect.quote)
    {
        "NULL must not contain DELIMITER or QUOTE"
    } else {
        return Ok(dialect);
    };
    Err(IngestError::new(path.display().to_string(), Reason::BadOption(problem.into())))
}

/// The line ends of a file must be those that an option says.
fn check_new_line(path: &Path, options: &IngestOptions, found: NewLine) -> Result<(), IngestError> {
    match options.new_line.filter(|wanted| *wanted != found && found != NewLine::None) {
        None => Ok(()),
        Some(wanted) => {
            let text = format!("NEW_LINE {}: the lines of the file end with {}", wanted.name(), found.name());
            Err(IngestError::new(path.display().to_string(), Reason::BadOption(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, options: &IngestOptions, delimiter: u8, first: &str) {
        let split = Split::of(text, options, options.delimiter, None, true);
        assert_eq!(char::from(split.delimiter), char::from(delimiter), "{text:?}");
        assert_eq!(text[split.skipped..].lines().next(), Some(first), "{text:?}");
    }

    #[test]
    fn delimiters_are_found() {
        let options = IngestOptions::default();
        check("a,b\n1,2\n", &options, b',', "a,b");
        check("a;b\n1,5;2\n", &options, b';', "a;b");
        check("a|b,c|d\n1|2|3\n", &options, b'|', "a|b,c|d");
        check("a\n1\n", &options, b',', "a");
        let padded = IngestOptions { null_padding: true, ..IngestOptions::default() };
        check("a;b;c\n1;2\n3\n", &padded, b';', "a;b;c");
        let lenient = IngestOptions { ignore_errors: true, ..IngestOptions::default() };
        check("a;b\n1;2\n3\n4;5;6\n\"x\"y;1\n7;8\n", &lenient, b';', "a;b");
    }

    #[test]
    fn lines_of_comments_are_found() {
        let options = IngestOptions::default();
        let comment = |text: &str| Split::of(text, &options, None, None, true).comment;
        assert_eq!(comment("# a\na;b\n# c\n1;3\n6;7\n# d"), Some(b'#'));
        assert_eq!(comment("a;b\n# c\n1;3\n"), Some(b'#'));
        // A comment above the header is a title, and a character within a value is none.
        assert_eq!(comment("# a\na;b\n1;3\n"), None);
        assert_eq!(comment("a;b\n# c\n1;#3\n"), None);
        assert_eq!(comment("a\n# c\n1\n"), None);
    }

    #[test]
    fn titles_above_a_header_are_skipped() {
        let options = IngestOptions::default();
        check("Report\nid,v,w\n1,a,x\n", &options, b',', "id,v,w");
        check("Report of sales\nfor 2024\n\nid;v\n1;a\n2;b\n", &options, b';', "id;v");
        check("Report, of sales\nid,v,w\n1,a,x\n", &options, b',', "id,v,w");
        check("Report\nid,name,city\nx,a,b\ny,a,c\n", &options, b',', "id,name,city");
        check("# by me\n# a, b\nid,v\n1,a\n", &options, b',', "id,v");
        check("# a, b\nid,v\n1,a\n2,b\n", &options, b',', "id,v");
        check("##x\n#id\tv\n1\ta\n", &options, b'\t', "#id\tv");
        // What could be a row, or a header, is not skipped.
        check("#a,b,c\nx,y,z\np,q,r\n", &options, b',', "#a,b,c");
        check("#id,v\n1,a\n", &options, b',', "#id,v");
        check("name\nSmith, John\nDoe, Jane\n", &options, b',', "name");
        check("Report\n1,a,x\n2,b,y\n", &options, b',', "Report");
        check("a,b\n1,2,3\n4,5,6\n", &options, b',', "a,b");
        check("a,b,c,d\nid,v\n1,2\n", &options, b',', "a,b,c,d");
        check("Report\nid,v,w\n", &options, b',', "Report");
        check("Report\nid,v,w\n1,a,x\n2,b\n", &options, b',', "Report");
        let skip = IngestOptions { skip: Some(0), ..IngestOptions::default() };
        check("Report\nid,v,w\n1,a,x\n", &skip, b',', "Report");
        let no_header = IngestOptions { header: Some(false), ..IngestOptions::default() };
        check("Report\nid,v,w\n1,a,x\n", &no_header, b',', "Report");
    }
}
