//! The error of a text that is no statement of this dialect.

use std::fmt;

use crate::span::{Location, Span, floor, line_around};

/// The widest part of a line that an error shows, in characters.
const WINDOW: usize = 80;

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The text is not SQL of this dialect.
    Syntax,
    /// The text is SQL, and asks for something that is not available.
    Unsupported,
    /// The statement is too long or nests too deeply.
    TooComplex,
}

impl ErrorCode {
    /// The SQLSTATE of the class.
    pub fn sqlstate(self) -> &'static str {
        match self {
            ErrorCode::Syntax => "42601",
            ErrorCode::Unsupported => "0A000",
            ErrorCode::TooComplex => "54001",
        }
    }
}

/// Why a text was not parsed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The class of the error.
    pub code: ErrorCode,
    /// What is wrong.
    pub span: Span,
    /// Why, in words, without the place.
    pub message: String,
    /// What could stand there instead. Empty if the message says it all.
    pub expected: Vec<&'static str>,
    /// What to write instead, if that is known.
    pub hint: Option<String>,
}

impl SyntaxError {
    pub(crate) fn new(code: ErrorCode, span: Span, message: impl Into<String>) -> SyntaxError {
        SyntaxError { code, span, message: message.into(), expected: vec![], hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> SyntaxError {
        self.hint = Some(hint.into());
        self
    }

    /// The place, the message, the line of the text that has it, and a caret below:
    ///
    /// ```
    /// let text = "SELECT a\nFROM WHERE b";
    /// let error = freestone_sql::parse_statement(text).unwrap_err();
    /// assert_eq!(error.render(text), "line 2, column 6: expected a table, found \"WHERE\"\nFROM WHERE b\n     ^^^^^");
    /// ```
    pub fn render(&self, text: &str) -> String {
        let Location { line, column } = self.location(text);
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {hint}"));
        format!("line {line}, column {column}: {self}\n{}{hint}", self.excerpt(text))
    }

    /// Where the error is.
    pub fn location(&self, text: &str) -> Location {
        self.span.location(text)
    }

    /// The line of the text that has the error, and a caret below it.
    pub fn excerpt(&self, text: &str) -> String {
        self.span.excerpt(text)
    }
}

impl Span {
    /// The line of a text that has this part, and carets below it.
    pub fn excerpt(self, text: &str) -> String {
        let Location { column, .. } = self.location(text);
        let (start, end) = line_around(text, self.start);
        let shown: Vec<char> = text.get(start..end).unwrap_or_default().trim_end().chars().collect();
        // A long line is cut to a window around the place.
        let first = if shown.len() > WINDOW { (column - 1).saturating_sub(WINDOW / 2) } else { 0 };
        let last = shown.len().min(first + WINDOW);
        let window: String = shown.get(first..last).unwrap_or_default().iter().map(|c| printable(*c)).collect();
        let (left, right) = (if first > 0 { "…" } else { "" }, if last < shown.len() { "…" } else { "" });
        let indent = (column - 1 - first) + left.chars().count();
        let within = self.end.min(u32::try_from(end).unwrap_or(u32::MAX));
        let marked = text.get(floor(text, self.start)..floor(text, within)).map_or(0, |part| part.chars().count());
        let carets = marked.clamp(1, (last.saturating_sub(column - 1)).max(1));
        format!("{left}{window}{right}\n{}{}", " ".repeat(indent), "^".repeat(carets))
    }
}

/// A character as one column of a terminal.
fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SyntaxError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let text = format!("SELECT {}b FROM FROM t", "a, ".repeat(100));
        let error = crate::parse_statement(&text).unwrap_err();
        let rendered = error.render(&text);
        let lines: Vec<&str> = rendered.lines().collect();
        assert_eq!(lines.len(), 3, "{rendered}");
        assert!(lines[1].chars().count() <= WINDOW + 2 && lines[1].starts_with('…'), "{rendered}");
        let caret = lines[2].chars().count();
        assert_eq!(lines[1].chars().skip(caret - 4).take(4).collect::<String>(), "FROM", "{rendered}");
    }

    #[test]
    fn the_end_and_other_characters_have_a_place() {
        for (text, place) in
            [("", "line 1, column 1"), ("SELECT\n", "line 2, column 1"), ("SELECT 'ä' + ü~", "line 1, column 16")]
        {
            let rendered = crate::parse_statement(text).unwrap_err().render(text);
            assert!(rendered.starts_with(place), "{rendered}");
        }
    }
}
