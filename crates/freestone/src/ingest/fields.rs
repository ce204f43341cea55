//! The fields of some records as ranges of their text: the result of the tokenizers of CSV and JSON.

/// One field: a range of the block's text or of the side text, with three flags in the top bits of `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    start: u32,
    end: u32,
}

const NULL: u32 = 1 << 31;
const QUOTED: u32 = 1 << 30;
const SIDE: u32 = 1 << 29;

/// Blocks must be shorter than this, so that offsets leave room for the flags.
pub(crate) const BLOCK_BYTES_MAX: usize = SIDE as usize - 1;

impl Field {
    pub const NULL: Field = Field { start: 0, end: NULL };

    #[inline]
    pub fn plain(start: usize, end: usize, null: bool) -> Self {
        Self { start: start as u32, end: end as u32 | if null { NULL } else { 0 } }
    }

    /// A quoted field: never NULL, and a string in JSON.
    pub fn quoted(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 | QUOTED }
    }

    /// A quoted field in the side text.
    pub fn on_side(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 | QUOTED | SIDE }
    }

    pub fn is_null(self) -> bool {
        self.end & NULL != 0
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end & !(NULL | QUOTED | SIDE)
    }

    pub fn is_quoted(self) -> bool {
        self.end & QUOTED != 0
    }
}

/// The fields of up to a few thousand records, row by row.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub fields: Vec<Field>,
    /// The start of each record in the block.
    pub starts: Vec<u32>,
    /// Values with escapes, which are not literally in the block.
    pub side: String,
}

impl Fields {
    pub fn clear(&mut self) {
        self.fields.clear();
        self.starts.clear();
        self.side.clear();
    }

    pub fn rows(&self) -> usize {
        self.starts.len()
    }

    /// Removes records of `columns` fields each.
    pub fn retain_rows(&mut self, columns: usize, is_kept: impl Fn(usize) -> bool) {
        let mut at = 0;
        self.fields.retain(|_| {
            at += 1;
            is_kept((at - 1) / columns.max(1))
        });
        let mut row = 0;
        self.starts.retain(|_| {
            row += 1;
            is_kept(row - 1)
        });
    }

    /// Removes all but the first records.
    pub fn truncate(&mut self, rows: usize, columns: usize) {
        self.starts.truncate(rows);
        self.fields.truncate(rows * columns);
    }
}

/// One column of [`Fields`], from top to bottom.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub text: &'a str,
    pub fields: &'a Fields,
    pub column: usize,
    pub columns: usize,
    pub rows: usize,
}

impl<'a> Cells<'a> {
    /// The texts of the column; `None` is NULL.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Option<&'a str>> {
        self.raw().map(move |field| self.text_of(field))
    }

    #[inline]
    pub fn raw(self) -> impl Iterator<Item = Field> + 'a {
        self.fields.fields.iter().skip(self.column).step_by(self.columns.max(1)).take(self.rows).copied()
    }

    /// The text of a field; `None` is NULL.
    #[inline]
    pub fn text_of(self, field: Field) -> Option<&'a str> {
        if field.is_null() { None } else { Some(self.written(field)) }
    }

    /// The text of a field, also of one that is NULL.
    #[inline]
    pub fn written(self, field: Field) -> &'a str {
        let text = if field.end & SIDE == 0 { self.text } else { &self.fields.side };
        // Tokenizers cut at ASCII bytes only, so the ends are character boundaries.
        &text[field.start as usize..(field.end & !(NULL | QUOTED | SIDE)) as usize]
    }
}
