//! How many rows files have, and about how many values their columns, as they say themselves.

use datafusion::common::stats::Precision;

use super::set::{ColumnSource, Contents, FileSet};

/// The rows of all files: exact if the files have the number, and estimated from the first rows of text files.
pub(super) fn rows(set: &FileSet) -> Precision<usize> {
    let mut sum = Precision::Exact(0);
    for file in &set.files {
        let own = match &file.contents {
            Contents::Parquet(parquet) => {
                let rows = parquet.metadata().metadata().file_metadata().num_rows();
                usize::try_from(rows).map_or(Precision::Absent, Precision::Exact)
            }
            Contents::Text(text) => Precision::Inexact(usize::try_from(file.bytes).unwrap_or(0) / text.row_bytes()),
            Contents::Arrow(_) => Precision::Absent,
        };
        sum = sum.add(&own);
    }
    sum
}

/// The bytes of a dictionary of few values.
const FEW_BYTES: i64 = 4096;

/// About how many values a column of Parquet files has at most, if each row group has a small dictionary of them.
pub(super) fn few_values(set: &FileSet, column: usize) -> Option<usize> {
    // A value takes at least a byte or two, compressed.
    dictionary_bytes(set, column).map(|bytes| bytes / 2)
}

/// The compressed bytes of the largest dictionary of a column of Parquet files, if each row group has a small one.
pub(super) fn dictionary_bytes(set: &FileSet, column: usize) -> Option<usize> {
    let mut most = 2;
    for file in &set.files {
        let (Contents::Parquet(parquet), ColumnSource::Stored(place)) = (&file.contents, &file.columns[column]) else {
            return None;
        };
        let leaf = parquet.leaf(*place)?;
        for group in parquet.metadata().metadata().row_groups() {
            let chunk = group.column(leaf);
            let bytes = chunk.data_page_offset().checked_sub(chunk.dictionary_page_offset()?)?;
            most = most.max(usize::try_from(bytes).ok().filter(|_| bytes <= FEW_BYTES)?);
        }
    }
    Some(most)
}
