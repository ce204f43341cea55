//! Reads the pages of a column of a row group one after the other: codes of the dictionary where a page has them, and
//! values where it does not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use freestone_codec::hybrid::Hybrid;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};

use super::values::{Kind, Values, missing, spread};

/// Some rows of a column.
#[derive(Debug)]
pub(super) struct Piece {
    pub content: Content,
    /// Which rows are not NULL; `None` if none is NULL.
    pub valid: Option<Vec<bool>>,
}

/// A code or a value per row.
#[derive(Debug)]
pub(super) enum Content {
    /// Codes of the dictionary. NULL rows have code 0.
    Codes(Vec<u32>),
    Values(Values),
}

/// The pages of a column.
pub(super) struct Column {
    pages: Box<dyn PageReader>,
    kind: Kind,
    nullable: bool,
    dictionary: Option<Arc<Values>>,
    page: Option<Open>,
    /// The rows to leave out before those that are read next.
    skipped: usize,
}

/// The data page that is being read.
struct Open {
    bytes: Bytes,
    /// [`Kind::Text`] unless all texts of the page were checked.
    kind: Kind,
    rows_left: usize,
    levels: Levels,
    values: Stored,
}

/// Which rows of a page are NULL.
enum Levels {
    /// None.
    Required,
    /// Level 1: not NULL. The levels are in these bytes.
    Hybrid(Bytes, Hybrid),
    /// The same as bits, the most significant bit first, from this bit on.
    Bits(Bytes, usize),
}

/// The values of a page that are not NULL.
enum Stored {
    Codes(Hybrid),
    /// Booleans as runs.
    Runs(Hybrid),
    /// From this byte or bit on.
    Plain(usize),
}

impl Column {
    /// The pages of a column, whose rows may be NULL if `nullable`.
    pub fn new(pages: Box<dyn PageReader>, kind: Kind, nullable: bool) -> Column {
        Column { pages, kind, nullable, dictionary: None, page: None, skipped: 0 }
    }

    /// The values of the codes that were read last.
    ///
    /// # Errors
    /// The column has codes without a dictionary.
    pub fn dictionary(&self) -> Result<&Arc<Values>> {
        self.dictionary.as_ref().ok_or_else(|| ParquetError::General("codes without a dictionary".into()))
    }

    /// Leaves out the next rows.
    pub fn skip(&mut self, rows: usize) {
        self.skipped += rows;
    }

    /// The next rows.
    ///
    /// # Errors
    /// A page is damaged, or there are fewer rows.
    pub fn read(&mut self, rows: usize) -> Result<Piece> {
        self.leave_out()?;
        let mut piece: Option<Piece> = None;
        let mut left = rows;
        while left > 0 {
            let taken = match &mut self.page {
                Some(page) if page.rows_left > 0 => left.min(page.rows_left),
                _ => {
                    self.open_next()?;
                    continue;
                }
            };
            let next = self.read_from_page(taken)?;
            piece = Some(match piece {
                None => next,
                Some(piece) => self.joined(piece, next)?,
            });
            left -= taken;
        }
        Ok(piece.unwrap_or(Piece { content: Content::Values(self.kind.empty()), valid: None }))
    }

    /// Rows of several pages. Codes and values become values.
    fn joined(&self, a: Piece, b: Piece) -> Result<Piece> {
        let rows = (a.content.len(), b.content.len());
        let valid = match (a.valid, b.valid) {
            (None, None) => None,
            (a, b) => {
                let mut valid = a.unwrap_or_else(|| vec![true; rows.0]);
                valid.extend(b.unwrap_or_else(|| vec![true; rows.1]));
                Some(valid)
            }
        };
        let content = match (a.content, b.content) {
            (Content::Codes(mut a), Content::Codes(b)) => {
                a.extend(b);
                Content::Codes(a)
            }
            (a, b) => {
                let mut values = self.values(a)?;
                values.append(self.values(b)?)?;
                Content::Values(values)
            }
        };
        Ok(Piece { content, valid })
    }

    fn values(&self, content: Content) -> Result<Values> {
        match content {
            Content::Values(values) => Ok(values),
            Content::Codes(codes) => Ok(self.dictionary()?.at(&codes, None)),
        }
    }

    /// Opens the next data page, after its dictionary.
    fn open_next(&mut self) -> Result<()> {
        loop {
            match self.pages.get_next_page()? {
                None => return Err(ParquetError::General("damaged: rows are missing".into())),
                Some(Page::DictionaryPage { buf, num_values, encoding, .. }) => {
                    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) || self.kind == Kind::Bits {
                        return Err(ParquetError::NYI(format!("a dictionary as {encoding}")));
                    }
                    let mut values = self.kind.empty();
                    self.kind.read_plain(&buf, 0, num_values as usize, &mut values)?;
                    self.dictionary = Some(Arc::new(values));
                }
                Some(page) => {
                    self.page = Some(self.opened(page)?);
                    return Ok(());
                }
            }
        }
    }

    fn opened(&self, page: Page) -> Result<Open> {
        let (bytes, rows, encoding, levels, at) = match page {
            Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
                let (levels, at) = levels_before(&buf, self.nullable, def_level_encoding, num_values as usize)?;
                (buf, num_values, encoding, levels, at)
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let (begin, length) = (rep_levels_byte_len as usize, def_levels_byte_len as usize);
                let at = begin.checked_add(length).filter(|at| *at <= buf.len()).ok_or_else(missing)?;
                let levels = match self.nullable {
                    true => Levels::Hybrid(buf.slice(begin..at), hybrid(0, 1)?),
                    false => Levels::Required,
                };
                (buf, num_values, encoding, levels, at)
            }
            Page::DictionaryPage { .. } => return Err(ParquetError::General("a second dictionary".into())),
        };
        let values = match encoding {
            Encoding::PLAIN if self.kind == Kind::Bits => Stored::Plain(at * 8),
            Encoding::PLAIN => Stored::Plain(at),
            Encoding::RLE if self.kind == Kind::Bits => Stored::Runs(hybrid(at + 4, 1)?),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => match bytes.get(at) {
                Some(width) => Stored::Codes(hybrid(at + 1, u32::from(*width))?),
                // A page of NULLs has no codes.
                None => Stored::Codes(hybrid(at, 0)?),
            },
            other => return Err(ParquetError::NYI(format!("values as {other}"))),
        };
        let kind = match (&values, self.kind) {
            (Stored::Plain(at), Kind::Text) => checked(&bytes[*at..]),
            (_, kind) => kind,
        };
        Ok(Open { bytes, kind, rows_left: rows as usize, levels, values })
    }

    /// Leaves out the rows that were skipped; whole pages are not even read.
    fn leave_out(&mut self) -> Result<()> {
        while self.skipped > 0 {
            if let Some(page) = &mut self.page
                && page.rows_left > 0
            {
                let rows = self.skipped.min(page.rows_left);
                page.skip(rows)?;
                self.skipped -= rows;
                continue;
            }
            match self.rows_of_next_page()? {
                Some(rows) if rows <= self.skipped => {
                    self.pages.skip_next_page()?;
                    self.skipped -= rows;
                }
                _ => self.open_next()?,
            }
        }
        Ok(())
    }

    /// The rows of the next page if it is known to be a data page. The `parquet` crate panics at a page whose header lacks
    /// the part of its type.
    fn rows_of_next_page(&mut self) -> Result<Option<usize>> {
        let page = catch_unwind(AssertUnwindSafe(|| self.pages.peek_next_page()))
            .map_err(|_| ParquetError::General("damaged: a page has no header of its type".into()))??;
        Ok(page.filter(|page| !page.is_dict).and_then(|page| page.num_rows.or(page.num_levels)))
    }

    fn read_from_page(&mut self, rows: usize) -> Result<Piece> {
        let Some(page) = &mut self.page else { return Err(missing()) };
        let valid = page.levels.read(rows)?;
        let count = valid.as_ref().map_or(rows, |valid| valid.iter().filter(|valid| **valid).count());
        page.rows_left -= rows;
        let mut content = match &mut page.values {
            // A column of NULLs may have no dictionary.
            Stored::Codes(_) if count == 0 => Content::Values(self.kind.empty()),
            Stored::Codes(codes) => {
                let mut read = Vec::with_capacity(rows);
                codes.read(&page.bytes, count, &mut read).map_err(damaged)?;
                let size = self.dictionary()?.len();
                let greatest = read.iter().fold(0u32, |greatest, code| greatest.max(*code));
                if greatest as usize >= size {
                    return Err(ParquetError::General(format!("code {greatest} of a dictionary of {size} values")));
                }
                Content::Codes(read)
            }
            Stored::Runs(runs) => {
                let mut read = Vec::with_capacity(rows);
                runs.read(&page.bytes, count, &mut read).map_err(damaged)?;
                Content::Values(Values::Bits(read.into_iter().map(|bit| bit == 1).collect()))
            }
            Stored::Plain(at) => {
                let mut values = self.kind.empty();
                *at = page.kind.read_plain(&page.bytes, *at, count, &mut values)?;
                Content::Values(values)
            }
        };
        if let Some(valid) = &valid {
            content.spread(valid);
        }
        Ok(Piece { content, valid })
    }
}

impl Open {
    fn skip(&mut self, rows: usize) -> Result<()> {
        let count = match &mut self.levels {
            Levels::Required => rows,
            levels => levels.read(rows)?.map_or(rows, |valid| valid.iter().filter(|valid| **valid).count()),
        };
        self.rows_left -= rows;
        match &mut self.values {
            Stored::Codes(hybrid) | Stored::Runs(hybrid) => hybrid.skip(&self.bytes, count).map_err(damaged),
            Stored::Plain(at) => {
                *at = self.kind.skip_plain(&self.bytes, *at, count)?;
                Ok(())
            }
        }
    }
}

impl Levels {
    /// Which of the next rows are not NULL; `None` if none is NULL.
    fn read(&mut self, rows: usize) -> Result<Option<Vec<bool>>> {
        match self {
            Levels::Required => Ok(None),
            Levels::Hybrid(bytes, levels) => {
                if rows == 0 {
                    return Ok(None);
                }
                if let Some(run) = levels.run(bytes).map_err(damaged)?
                    && run.value == 1
                    && run.count >= rows
                {
                    levels.skip(bytes, rows).map_err(damaged)?;
                    return Ok(None);
                }
                let mut read = Vec::with_capacity(rows);
                levels.read(bytes, rows, &mut read).map_err(damaged)?;
                Ok(Some(read.into_iter().map(|level| level == 1).collect()))
            }
            Levels::Bits(bytes, at) => {
                let bits = *at..*at + rows;
                *at = bits.end;
                if bits.end.div_ceil(8) > bytes.len() {
                    return Err(missing());
                }
                Ok(Some(bits.map(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1).collect()))
            }
        }
    }
}

impl Content {
    /// The number of rows.
    fn len(&self) -> usize {
        match self {
            Content::Codes(codes) => codes.len(),
            Content::Values(values) => values.len(),
        }
    }

    /// Moves what was stored to the rows that are not NULL.
    fn spread(&mut self, valid: &[bool]) {
        match self {
            Content::Values(values) => values.spread(valid),
            Content::Codes(codes) => spread(codes, valid),
        }
    }
}

/// The levels of a page of version 1, which precede its values, and the place of these.
fn levels_before(page: &Bytes, nullable: bool, encoding: Encoding, rows: usize) -> Result<(Levels, usize)> {
    if !nullable {
        return Ok((Levels::Required, 0));
    }
    #[expect(deprecated, reason = "old files have it")]
    if encoding == Encoding::BIT_PACKED {
        let length = rows.div_ceil(8);
        return match length <= page.len() {
            true => Ok((Levels::Bits(page.slice(..length), 0), length)),
            false => Err(missing()),
        };
    }
    let length = page.first_chunk().ok_or_else(missing)?;
    let end = (u32::from_le_bytes(*length) as usize).checked_add(4).filter(|end| *end <= page.len());
    let end = end.ok_or_else(missing)?;
    Ok((Levels::Hybrid(page.slice(4..end), hybrid(0, 1)?), end))
}

/// The kind of plain texts of a page. If all its bytes are UTF-8, so are most texts: only one before a length that begins with a
/// byte of 128 or more may end within a character.
fn checked(texts: &[u8]) -> Kind {
    if std::str::from_utf8(texts).is_ok() { Kind::CheckedText } else { Kind::Text }
}

fn hybrid(at: usize, width: u32) -> Result<Hybrid> {
    Hybrid::new(at, width).map_err(damaged)
}

fn damaged(error: freestone_codec::CodecError) -> ParquetError {
    ParquetError::General(error.to_string())
}
