//! Patterns of texts as regular expressions, and with other escape characters.

/// A pattern of LIKE with backslashes in place of its escape character.
pub fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => {
                out.push('\\');
                out.extend(characters.next());
            }
            '\\' => out.push_str(r"\\"),
            other => out.push(other),
        }
    }
    out
}

/// A pattern of SIMILAR TO as a regular expression for the whole text: `%` and `_` are wildcards,
/// `| * + ? { } ( ) [ ]` have their meaning in SQL, and other characters stand for themselves.
pub fn similar(pattern: &str, escape: Option<char>) -> String {
    let mut out = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => {
                if let Some(next) = characters.next() {
                    push_plain(&mut out, next);
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
            }
            '%' if !in_class => out.push_str(".*"),
            '_' if !in_class => out.push('.'),
            '^' | '-' | ':' if in_class => out.push(character),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => out.push(character),
            '[' => out.push_str(r"\["),
            other => push_plain(&mut out, other),
        }
    }
    out.push_str(")$");
    out
}

/// A pattern of GLOB as a regular expression for the whole text: `*` is any text, `?` any character, `[a-c]` a
/// character of a set and `[!a-c]` one outside of it.
pub fn glob(pattern: &str) -> String {
    let mut out = String::from("(?s)^");
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '*' if !in_class => out.push_str(".*"),
            '?' if !in_class => out.push('.'),
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if characters.next_if_eq(&'!').is_some() {
                    out.push('^');
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '-' if in_class => out.push('-'),
            '\\' => {
                out.push('\\');
                out.push(characters.next().unwrap_or('\\'));
            }
            other if other.is_alphanumeric() || other == '_' || other.is_whitespace() => out.push(other),
            other => {
                out.push('\\');
                out.push(other);
            }
        }
    }
    out.push('$');
    out
}

fn push_plain(out: &mut String, character: char) {
    if r".\+*?()|[]{}^$#&-~".contains(character) {
        out.push('\\');
    }
    out.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_backslashes() {
        for (pattern, escape, expected) in [
            ("a/_b%", Some('/'), r"a\_b%"),
            (r"//\/%", Some('/'), r"\/\\\%"),
            (r"a\_", None, r"a\\_"),
            (r"a\_", Some('\\'), r"a\_"),
            ("ääö", Some('ä'), r"\äö"),
            ("a/", Some('/'), r"a\"),
        ] {
            assert_eq!(with_backslashes(pattern, escape), expected, "{pattern}");
        }
    }
}
