//! Places in the text of a statement.

/// A part of a text, in bytes from its start.
///
/// Any two spans are equal: trees are compared by what they say, not by where it stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset behind the last byte.
    pub end: u32,
    /// The pairs of parentheses that this part consists of around an expression.
    parens: u8,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// The part from `start` to before `end`.
    pub const fn new(start: u32, end: u32) -> Span {
        Span { start, end, parens: 0 }
    }

    /// The part from the start of this one to the end of another.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start, other.end.max(self.start))
    }

    /// This part as one that has another pair of parentheses around an expression.
    pub(crate) fn in_parens(self, inner: Span) -> Span {
        Span { parens: inner.parens.saturating_add(1), ..self }
    }

    /// The pairs of parentheses around an expression, which are no part of its tree.
    pub(crate) fn parens(self) -> usize {
        self.parens.into()
    }

    /// The text of this part; empty if it is none of the text.
    pub fn of(self, text: &str) -> &str {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Where it begins.
    pub fn location(self, text: &str) -> Location {
        Location::of(text, self.start)
    }
}

/// A line and a column, both from 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The character of the line.
    pub column: usize,
}

impl Location {
    /// The place of a byte. It is counted from the start of the text, so it is for errors, not for every token.
    pub fn of(text: &str, offset: u32) -> Location {
        let (start, _) = line_around(text, offset);
        let before = text.get(..start).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = text.get(start..floor(text, offset)).map_or(0, |part| part.chars().count()) + 1;
        Location { line, column }
    }
}

/// The first byte of the line that has this offset, and the byte behind its last one.
pub(crate) fn line_around(text: &str, offset: u32) -> (usize, usize) {
    let offset = floor(text, offset);
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let end = text.get(offset..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| offset + at);
    (start, end)
}

/// The offset, or the nearest one before it that is between characters of the text.
pub(crate) fn floor(text: &str, offset: u32) -> usize {
    let mut offset = (offset as usize).min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let text = "äb\n  c";
        let at = |offset| (Location::of(text, offset).line, Location::of(text, offset).column);
        assert_eq!(
            [at(0), at(1), at(2), at(3), at(4), at(6), at(99)],
            [(1, 1), (1, 1), (1, 2), (1, 3), (2, 1), (2, 3), (2, 4)]
        );
        assert_eq!(Span::new(0, 2).of(text), "ä");
        assert_eq!(Span::new(1, 2).of(text), "");
    }
}
