//! What a chunk was made of, for the next one who asks for the same rows: which rows of which stored pages.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;

use crate::batch::{Batch, Column, StoredPiece};
use crate::column::Span;

/// Tells rows of stored columns from all others as long as it is kept: a page that has gone leaves its address to no other
/// page before that.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The number in the result of the first row, which chunks have in their head.
    first_row: u64,
    rows: usize,
    /// How large a chunk, and a row of it, may be.
    limits: [usize; 2],
    columns: Vec<(DataType, Vec<Part>)>,
}

/// Rows of a chunk of a page.
struct Part {
    page: Weak<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
    span: Span,
}

impl Origin {
    /// That of some rows of a batch, the first of which has number `first_row`; `None` where some of their columns are arrays.
    pub fn of(batch: &Batch, rows: &Range<usize>, first_row: u64, limits: [usize; 2]) -> Option<Self> {
        let part = |(piece, _, span): (&StoredPiece, usize, Span)| Part {
            page: Arc::downgrade(&piece.owner),
            range: piece.range.clone(),
            span,
        };
        let columns = batch.columns().iter().map(|column| match column {
            Column::Stored(stored) => {
                Some((stored.data_type.clone(), stored.pieces_in(rows.clone()).map(part).collect()))
            }
            Column::Arrow(_) => None,
        });
        Some(Self { first_row, rows: rows.len(), limits, columns: columns.collect::<Option<_>>()? })
    }

    /// Whether all of its pages are there. If not, nobody will ask for it again.
    pub fn is_alive(&self) -> bool {
        self.columns.iter().flat_map(|(_, parts)| parts).all(|part| part.page.strong_count() > 0)
    }
}

impl Part {
    fn place(&self) -> (*const (), &Range<usize>, usize, usize) {
        (self.page.as_ptr().cast(), &self.range, self.span.skip, self.span.rows)
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Part {}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.place().hash(state);
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Part").field(&self.place()).finish()
    }
}
