//! The places of errors in the text of statements.

/// The line and the column of a syntax error, from its message. Both count from 1, columns in characters.
pub(crate) fn of_syntax_error(message: &str) -> Option<(usize, usize)> {
    let (line, rest) = message.strip_prefix("syntax error at line ")?.split_once(", column ")?;
    let column = rest.split_once(':')?.0;
    Some((line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_say_where() {
        assert_eq!(of_syntax_error("syntax error at line 2, column 8: what: 1, column 3:"), Some((2, 8)));
        for message in ["syntax error: what", "syntax error at line x, column 1: y", "no table t", ""] {
            assert_eq!(of_syntax_error(message), None, "{message}");
        }
    }
}
