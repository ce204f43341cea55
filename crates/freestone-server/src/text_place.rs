//! The places of errors in the text of statements.

/// The line and the column of a syntax error, from its message. Both count from 1, columns in characters.
pub(crate) fn of_syntax_error(message: &str) -> Option<(usize, usize)> {
    let (line, rest) = message.strip_prefix("syntax error at line ")?.split_once(", column ")?;
    let column = rest.split_once(':')?.0;
    Some((line.parse().ok()?, column.parse().ok()?))
}

/// The line and the column of a byte of a statement that begins at `start`. All count from 1, columns in characters.
pub(crate) fn of_offset(text: &str, offset: usize, start: (usize, usize)) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or_default();
    let last = before.rsplit('\n').next().unwrap_or_default().chars().count();
    match before.matches('\n').count() {
        0 => (start.0, start.1 + last),
        lines => (start.0 + lines, last + 1),
    }
}

/// The byte of a script at which a part of it begins; nothing if it has another text there.
pub(crate) fn of_part(script: &str, part: &str, (line, column): (usize, usize)) -> Option<usize> {
    let before: usize = script.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let within = script.get(before..)?.char_indices().nth(column.checked_sub(1)?)?.0;
    script.get(before + within..)?.starts_with(part).then_some(before + within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_a_line_and_a_column() {
        let script = "SELECT 1;\n  SELECT 'ä', b\n  FROM t";
        let text = script.split_once("; ").map_or(&script[12..], |(_, text)| text);
        assert_eq!(of_part(script, text, (2, 3)), Some(12));
        for (part, expected) in [("SELECT", (2, 3)), ("b", (2, 15)), ("FROM", (3, 3))] {
            assert_eq!(of_offset(text, text.find(part).expect("a part"), (2, 3)), expected, "{part}");
        }
        for (part, at) in [("other", (2, 3)), (text, (2, 2)), (text, (9, 1)), (text, (2, 99)), (text, (0, 0))] {
            assert_eq!(of_part(script, part, at), None, "{part} {at:?}");
        }
    }

    #[test]
    fn syntax_errors_say_where() {
        assert_eq!(of_syntax_error("syntax error at line 2, column 8: what: 1, column 3:"), Some((2, 8)));
        for message in ["syntax error: what", "syntax error at line x, column 1: y", "no table t", ""] {
            assert_eq!(of_syntax_error(message), None, "{message}");
        }
    }
}
