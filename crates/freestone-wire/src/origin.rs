//! The origin of a chunk, to recognize requests for the same rows: which rows of which stored pages.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow::datatypes::DataType;

use crate::batch::{Batch, Column, StoredPiece};
use crate::column::Span;

/// Identifies rows of stored columns as long as it exists: the address of a dropped page is not reused before that.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// The number in the result of the first row, which is part of a chunk's head.
    first_row: u64,
    rows: usize,
    /// The limits for the size of a chunk, and of a row.
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
    /// The origin of some rows of a batch, the first of which has number `first_row`. `None` if some of their columns
    /// are arrays.
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

    /// Whether all of its pages exist. If not, nobody can request it again.
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
