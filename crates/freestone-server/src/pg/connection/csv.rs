//! PostgreSQL's CSV from clients, as CSV that the engine reads. In PostgreSQL's, quotes may begin and end anywhere in a field, and
//! another character may escape them.

use super::header::Header;
use crate::pg::error::PgError;
use crate::pg::frame::FRAME_BYTES_MAX;
use crate::pg::utility::CopyOptions;
use crate::sqlstate;

/// What the options say of a column.
#[derive(Debug, Clone, Copy, Default)]
struct Forced {
    /// The text of NULL without quotes is no NULL.
    not_null: bool,
    /// The text of NULL in quotes is NULL.
    null: bool,
}

/// A field that was read.
#[derive(Debug, Default)]
struct Field {
    value: Vec<u8>,
    was_quoted: bool,
}

/// The reader of a client's CSV.
pub struct CsvFormat {
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
    columns: Vec<Forced>,
    header: Header,
    fields: Vec<Field>,
    field: Field,
    in_quotes: bool,
    /// Whether the last byte is an escape within quotes, whose meaning the next byte decides.
    escapes: bool,
    /// Whether the last byte is a carriage return outside of quotes.
    returns: bool,
    ended: bool,
    /// The bytes of the current record that were read.
    record_bytes: usize,
    /// The lines that were read.
    lines: u64,
    /// The line on which the current record begins, from 1.
    pub line: u64,
}

impl CsvFormat {
    pub fn new(options: &CopyOptions, names: &[&str], header: Header) -> CsvFormat {
        let forced =
            |name: &&str| Forced { not_null: options.force_not_null.has(name), null: options.force_null.has(name) };
        CsvFormat {
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            null: options.null.clone().into_bytes(),
            columns: names.iter().map(forced).collect(),
            header,
            fields: vec![],
            field: Field::default(),
            in_quotes: false,
            escapes: false,
            returns: false,
            ended: false,
            record_bytes: 0,
            lines: 0,
            line: 1,
        }
    }

    pub fn convert(&mut self, bytes: &[u8]) -> Result<Vec<u8>, PgError> {
        let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 4);
        for byte in bytes {
            if self.ended {
                break;
            }
            self.record_bytes += 1;
            if self.record_bytes > FRAME_BYTES_MAX {
                return Err(PgError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "a record of COPY's data is too long"));
            }
            self.push(*byte, &mut out)?;
            self.lines += u64::from(*byte == b'\n');
            if self.record_bytes == 0 {
                self.line = self.lines + 1;
            }
        }
        Ok(out)
    }

    pub fn finish(&mut self) -> Result<Vec<u8>, PgError> {
        let mut out = vec![];
        if self.escapes {
            self.unescape();
        }
        if self.in_quotes {
            let error = PgError::new(sqlstate::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field");
            return Err(error.with_hint("double a quote that is part of a value, or choose another QUOTE"));
        }
        if !self.ended && (!self.fields.is_empty() || self.field.was_quoted || !self.field.value.is_empty()) {
            self.end_record(&mut out)?;
        }
        Ok(out)
    }

    /// An escape that nothing follows that it could escape: it ends the quotes, or stands for itself.
    fn unescape(&mut self) {
        self.escapes = false;
        match self.escape == self.quote {
            true => self.in_quotes = false,
            false => self.field.value.push(self.escape),
        }
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), PgError> {
        if self.escapes {
            if byte == self.quote || byte == self.escape {
                self.escapes = false;
                self.field.value.push(byte);
                return Ok(());
            }
            self.unescape();
        }
        if self.in_quotes {
            match byte {
                byte if byte == self.escape => self.escapes = true,
                byte if byte == self.quote => self.in_quotes = false,
                byte => self.field.value.push(byte),
            }
            return Ok(());
        }
        let returned = std::mem::replace(&mut self.returns, byte == b'\r');
        match byte {
            byte if byte == self.quote => (self.in_quotes, self.field.was_quoted) = (true, true),
            byte if byte == self.delimiter => self.fields.push(std::mem::take(&mut self.field)),
            b'\n' => {
                if returned {
                    self.field.value.pop();
                }
                return self.end_record(out);
            }
            byte => self.field.value.push(byte),
        }
        Ok(())
    }

    fn end_record(&mut self, out: &mut Vec<u8>) -> Result<(), PgError> {
        self.record_bytes = 0;
        self.fields.push(std::mem::take(&mut self.field));
        let fields = std::mem::take(&mut self.fields);
        if let [Field { value, was_quoted: false }] = fields.as_slice()
            && value == b"\\."
        {
            self.ended = true;
            return Ok(());
        }
        if self.header.takes() {
            return self.header.check(fields.iter().map(|field| field.value.as_slice()));
        }
        for (at, Field { value, was_quoted }) in fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let forced = self.columns.get(at).copied().unwrap_or_default();
            let is_null = *value == self.null && if *was_quoted { forced.null } else { !forced.not_null };
            if !is_null {
                write_quoted(out, value, b'"', b'"');
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Writes a value in quotes.
pub fn write_quoted(out: &mut Vec<u8>, value: &[u8], quote: u8, escape: u8) {
    out.push(quote);
    for byte in value {
        if *byte == quote || *byte == escape {
            out.push(escape);
        }
        out.push(*byte);
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::utility::{CopyFormat, CopyHeader, Forced as Chosen};

    fn check(options: &CopyOptions, data: &[u8], expected: Result<&str, &str>) {
        for cut in 0..data.len() {
            let mut format = CsvFormat::new(options, &["a", "b"], Header::new(options.header, &["a", "b"]));
            let converted = (|| {
                let mut out = format.convert(&data[..cut])?;
                out.extend(format.convert(&data[cut..])?);
                out.extend(format.finish()?);
                Ok(String::from_utf8(out).expect("text"))
            })();
            let converted: Result<String, &str> = converted.map_err(|error: PgError| error.code);
            assert_eq!(converted, expected.map(str::to_owned), "cut at {cut}");
        }
    }

    #[test]
    fn csv_is_read_as_postgresql_reads_it() {
        let plain = CopyOptions::of(CopyFormat::Csv);
        check(
            &plain,
            b"1,\"a\"\"b\"\r\n,\"\"\n\"x\ny\",x\"y,\"z\n",
            Ok("\"1\",\"a\"\"b\"\n,\"\"\n\"x\ny\",\"xy,z\"\n"),
        );
        check(&plain, b"1,\"open\n", Err("22P04"));
        check(&plain, b"1,2\n\\.\n3,4\n", Ok("\"1\",\"2\"\n"));
        let escaped = CopyOptions { escape: b'\\', ..plain.clone() };
        check(&escaped, b"\"a\\\"b\\\\c\\d\",\\n\n", Ok("\"a\"\"b\\c\\d\",\"\\n\"\n"));
        let a = || Chosen::Columns(vec!["a".to_owned()]);
        let not_null = CopyOptions { force_not_null: a(), ..plain.clone() };
        check(&not_null, b",\n", Ok("\"\",\n"));
        let null = CopyOptions { force_null: a(), ..plain.clone() };
        check(&null, b"\"\",\"\"\n", Ok(",\"\"\n"));
        let every = CopyOptions { force_null: Chosen::All, null: "x".into(), ..plain.clone() };
        check(&every, b"\"x\",x\n", Ok(",\n"));
    }

    #[test]
    fn headers_are_left_out_or_compared() {
        let skipped = CopyOptions { header: CopyHeader::Skipped, ..CopyOptions::of(CopyFormat::Csv) };
        check(&skipped, b"x\n1,2\n", Ok("\"1\",\"2\"\n"));
        let compared = CopyOptions { header: CopyHeader::Compared, ..skipped };
        check(&compared, b"a,\"b\"\n1,2\n", Ok("\"1\",\"2\"\n"));
        for wrong in [&b"a\n1,2\n"[..], b"b,a\n1,2\n", b"a,b,c\n1,2\n", b"A,b\n1,2\n"] {
            check(&compared, wrong, Err("22P04"));
        }
    }
}
