//! Splits a byte stream of SQL into statements as they become complete.
//!
//! A [`Splitter`] gets bytes as they arrive, from a file, a pipe or a line of the shell, and returns each statement as
//! soon as its `;` has arrived. It knows only the SQL that is needed to find the `;` that ends a statement: quotes,
//! comments and dollar quotes. A line that begins with `\` or `.` where a statement could begin is a command of the
//! shell, and ends with its line. The rest of the syntax is left to the engine's parser.

/// One statement without its `;`, or one command of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub text: Vec<u8>,
    /// The line of the input on which the text begins, counted from 1.
    pub line: usize,
    pub is_command: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Plain,
    /// Inside `'…'`, `"…"` or `` `…` ``. A doubled quote closes and opens the quotes, so it needs no state of its own.
    Quoted(u8),
    /// Inside `E'…'`, where a backslash escapes the next byte.
    EscapeString,
    LineComment,
    BlockComment(u32),
    /// Inside `$tag$…$tag$`, with the delimiter.
    Dollar(Vec<u8>),
}

#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// All bytes before it were examined.
    position: usize,
    /// The start of the current statement, if one has begun.
    start: Option<usize>,
    start_line: usize,
    line: usize,
    state: State,
    ended: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter {
            buffer: Vec::new(),
            position: 0,
            start: None,
            start_line: 1,
            line: 1,
            state: State::Plain,
            ended: false,
        }
    }
}

impl Splitter {
    pub fn push(&mut self, bytes: &[u8]) {
        let done = self.start.unwrap_or(self.position);
        self.buffer.drain(..done);
        self.position -= done;
        self.start = self.start.map(|start| start - done);
        self.buffer.extend_from_slice(bytes);
    }

    /// Marks the end of the input. The rest is the last statement, even without a `;`.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next complete statement or command; `None` until more bytes arrive.
    pub fn next_piece(&mut self) -> Option<Piece> {
        while let Some(&byte) = self.buffer.get(self.position) {
            if self.start.is_none() && self.state == State::Plain {
                match byte {
                    b'\\' | b'.' => return self.take_command(),
                    b';' => {
                        self.advance(1);
                        continue;
                    }
                    0xef => match self.skip_byte_order_mark() {
                        None => return None,
                        Some(true) => continue,
                        Some(false) => {}
                    },
                    _ => {}
                }
            }
            if byte == b';' && self.state == State::Plain {
                let piece = self.take_statement();
                self.advance(1);
                return piece;
            }
            let Some(length) = self.step(byte) else { break };
            self.advance(length);
        }
        if self.ended && self.position == self.buffer.len() { self.take_statement() } else { None }
    }

    /// Whether a statement, a quote or a comment has begun and not ended.
    pub fn is_pending(&self) -> bool {
        self.start.is_some() || matches!(self.state, State::BlockComment(_))
    }

    /// What the input is inside of, as psql shows it in its prompt: a quote, `*` for a comment, `$` for a dollar quote;
    /// otherwise `-`.
    pub fn mark(&self) -> char {
        match &self.state {
            State::Quoted(quote) => char::from(*quote),
            State::EscapeString => '\'',
            State::BlockComment(_) => '*',
            State::Dollar(_) => '$',
            State::Plain | State::LineComment => '-',
        }
    }

    /// Enters or leaves quotes and comments at `byte`, and returns the number of bytes consumed; `None` if that depends
    /// on bytes that have not arrived.
    fn step(&mut self, byte: u8) -> Option<usize> {
        let next = self.buffer.get(self.position + 1).copied();
        let undecided = next.is_none() && !self.ended;
        match &self.state {
            State::Plain => match byte {
                b'-' | b'/' if undecided => return None,
                b'-' if next == Some(b'-') => self.state = State::LineComment,
                b'/' if next == Some(b'*') => {
                    self.state = State::BlockComment(1);
                    return Some(2);
                }
                _ if byte.is_ascii_whitespace() => {}
                _ => return self.step_in_statement(byte),
            },
            State::Quoted(quote) if byte == *quote => self.state = State::Plain,
            State::EscapeString if byte == b'\\' => return if undecided { None } else { Some(2) },
            State::EscapeString if byte == b'\'' => self.state = State::Plain,
            State::LineComment if byte == b'\n' => self.state = State::Plain,
            State::BlockComment(depth) => match (byte, next) {
                (b'*' | b'/', None) if undecided => return None,
                (b'*', Some(b'/')) => {
                    self.state = if *depth == 1 { State::Plain } else { State::BlockComment(depth - 1) };
                    return Some(2);
                }
                (b'/', Some(b'*')) => {
                    self.state = State::BlockComment(depth + 1);
                    return Some(2);
                }
                _ => {}
            },
            State::Dollar(delimiter) if byte == b'$' => {
                let rest = &self.buffer[self.position..];
                if rest.starts_with(delimiter) {
                    let length = delimiter.len();
                    self.state = State::Plain;
                    return Some(length);
                }
                if rest.len() < delimiter.len() && !self.ended {
                    return None;
                }
            }
            _ => {}
        }
        Some(1)
    }

    fn step_in_statement(&mut self, byte: u8) -> Option<usize> {
        if self.start.is_none() {
            self.start = Some(self.position);
            self.start_line = self.line;
        }
        match byte {
            b'\'' if self.follows_escape_mark() => self.state = State::EscapeString,
            b'\'' | b'"' | b'`' => self.state = State::Quoted(byte),
            b'$' if !self.position.checked_sub(1).is_some_and(|at| is_word(self.buffer[at])) => {
                let rest = &self.buffer[self.position + 1..];
                let tag = rest.iter().take_while(|byte| is_word(**byte)).count();
                match rest.get(tag) {
                    None if !self.ended => return None,
                    Some(b'$') if !rest[0].is_ascii_digit() => {
                        self.state = State::Dollar(self.buffer[self.position..self.position + tag + 2].to_vec());
                        return Some(tag + 2);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Some(1)
    }

    /// Whether the quote at `position` begins an `E'…'`.
    fn follows_escape_mark(&self) -> bool {
        let before = &self.buffer[self.start.unwrap_or(self.position)..self.position];
        match before {
            [.., before, b'e' | b'E'] => !is_word(*before),
            [b'e' | b'E'] => true,
            _ => false,
        }
    }

    fn take_statement(&mut self) -> Option<Piece> {
        let start = self.start.take()?;
        let text = self.buffer[start..self.position].to_vec();
        self.state = State::Plain;
        Some(Piece { text, line: self.start_line, is_command: false })
    }

    fn take_command(&mut self) -> Option<Piece> {
        let rest = &self.buffer[self.position..];
        let length = match rest.iter().position(|byte| *byte == b'\n') {
            Some(length) => length,
            None if self.ended => rest.len(),
            None => return None,
        };
        let piece = Piece { text: rest[..length].trim_ascii().to_vec(), line: self.line, is_command: true };
        self.advance(length);
        Some(piece)
    }

    fn advance(&mut self, length: usize) {
        let end = (self.position + length).min(self.buffer.len());
        self.line += self.buffer[self.position..end].iter().filter(|byte| **byte == b'\n').count();
        self.position = end;
    }

    /// Some editors write a byte order mark at the start of a text file. It is one where a statement could begin, because
    /// files may follow each other in a pipe. `None` if that depends on bytes that have not arrived.
    fn skip_byte_order_mark(&mut self) -> Option<bool> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let rest = &self.buffer[self.position..];
        if rest.starts_with(MARK) {
            self.position += MARK.len();
            return Some(true);
        }
        if MARK.starts_with(rest) && !self.ended { None } else { Some(false) }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits `input` as a whole and byte by byte. The statements must be the same.
    fn check(input: &str, expected: &[(usize, &str)]) {
        let expected: Vec<_> = expected.iter().map(|(line, text)| (*line, text.to_string())).collect();
        assert_eq!(split(input.as_bytes(), usize::MAX), expected, "whole: {input}");
        assert_eq!(split(input.as_bytes(), 1), expected, "byte by byte: {input}");
        assert_eq!(split(input.as_bytes(), 3), expected, "three by three: {input}");
    }

    fn split(input: &[u8], chunk: usize) -> Vec<(usize, String)> {
        let mut splitter = Splitter::default();
        let mut pieces = Vec::new();
        for bytes in input.chunks(chunk.min(input.len().max(1))) {
            splitter.push(bytes);
            while let Some(piece) = splitter.next_piece() {
                pieces.push(piece);
            }
        }
        splitter.end();
        while let Some(piece) = splitter.next_piece() {
            pieces.push(piece);
        }
        pieces.into_iter().map(|piece| (piece.line, String::from_utf8_lossy(&piece.text).into_owned())).collect()
    }

    #[test]
    fn statements_end_at_semicolons() {
        check("", &[]);
        check(" ;; \n ; ", &[]);
        check("select 1; select 2", &[(1, "select 1"), (1, "select 2")]);
        check("\n\nselect\n1;\n select 2;\n", &[(3, "select\n1"), (5, "select 2")]);
    }

    #[test]
    fn quotes_hide_semicolons() {
        check("select 'a;b', \"c;d\", `e;f`; x", &[(1, "select 'a;b', \"c;d\", `e;f`"), (1, "x")]);
        check("select 'it''s;'; x", &[(1, "select 'it''s;'"), (1, "x")]);
        check("select E'\\';'; x", &[(1, "select E'\\';'"), (1, "x")]);
        check("select '\\'; x", &[(1, "select '\\'"), (1, "x")]);
        check("select somee'\\'; x", &[(1, "select somee'\\'"), (1, "x")]);
        check("select 'open; x", &[(1, "select 'open; x")]);
    }

    #[test]
    fn dollar_quotes_hide_semicolons() {
        check("select $$a;b$$; x", &[(1, "select $$a;b$$"), (1, "x")]);
        check("select $t$a;$$;b$t$; x", &[(1, "select $t$a;$$;b$t$"), (1, "x")]);
        check("execute p($1); select $2$; x", &[(1, "execute p($1)"), (1, "select $2$"), (1, "x")]);
    }

    #[test]
    fn comments_hide_semicolons_and_start_no_statement() {
        check("-- a;b\nselect 1; -- c;\n", &[(2, "select 1")]);
        check("/* a; /* b; */ c; */ select 1 /* d; */;", &[(1, "select 1 /* d; */")]);
        check("select 4 / 2 - 1; x", &[(1, "select 4 / 2 - 1"), (1, "x")]);
        check("-- don't\nselect 1;", &[(2, "select 1")]);
    }

    #[test]
    fn commands_end_with_their_line() {
        check(
            ".mode csv\n\\d t;\nselect .5;\n.quit",
            &[(1, ".mode csv"), (2, "\\d t;"), (3, "select .5"), (4, ".quit")],
        );
        check("select 1\n.mode csv;", &[(1, "select 1\n.mode csv")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        check("\u{feff}select 1;\r\n\u{feff}select '\u{feff}';\r\n", &[(1, "select 1"), (2, "select '\u{feff}'")]);
        check("\u{feff}.mode csv\r\nselect\r\n2;\r\n", &[(1, ".mode csv"), (2, "select\r\n2")]);
        check("ﻯ", &[(1, "ﻯ")]);
    }

    #[test]
    fn what_is_open_has_a_mark() {
        for (input, expected) in
            [("select", '-'), ("select 'a", '\''), ("select \"a", '"'), ("select /* ", '*'), ("select $t$ ", '$')]
        {
            let mut splitter = Splitter::default();
            splitter.push(input.as_bytes());
            assert_eq!((splitter.next_piece(), splitter.mark()), (None, expected), "{input}");
        }
    }

    #[test]
    fn what_was_begun_is_pending() {
        for (input, expected) in
            [("select 1", true), ("select 1;", false), ("/* x", true), ("-- x", false), ("", false), (".d", false)]
        {
            let mut splitter = Splitter::default();
            splitter.push(input.as_bytes());
            while splitter.next_piece().is_some() {}
            assert_eq!(splitter.is_pending(), expected, "{input}");
        }
    }
}
