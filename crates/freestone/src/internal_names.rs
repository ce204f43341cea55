//! Names of columns that users do not see.

/// The column of the rows' places in the table that a statement changes.
pub const ROW_ID_COLUMN: &str = "__row_id";

/// Begins the suffix that makes a name different. A number follows. In the columns of a statement's result, it is the
/// position of the column, followed by a second mark and the position of the column with the same name. If that
/// position is not known, the name is the text before the mark.
pub(crate) const MARK: char = '\u{1}';

/// A text with marked names, as users know the names.
pub(crate) fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut shown = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| shown.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    shown
}
