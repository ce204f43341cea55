//! Compiled regular expressions. Of one that ends in `.*`, only what stands before that is looked for: the rest of a text matches
//! as it is. Texts without a piece that each match has are not looked at further. Sequences are taken without the library, see
//! [`super::sequences`].

use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;
use regex::{CaptureLocations, Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

use super::sequences::Sequence;

/// How a pattern is read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reading {
    /// Whether letters are equal in both cases.
    pub folds: bool,
    /// Whether a point is any character, lines' ends included.
    pub dot_is_all: bool,
}

/// A regular expression with room for the groups of a match.
pub(super) struct Pattern {
    /// All of it.
    pub whole: Regex,
    groups: CaptureLocations,
    head: Option<Head>,
    /// The head, or all of it if it has none.
    sequence: Option<Sequence>,
    needed: Option<Finder<'static>>,
}

/// What stands before a `.*` or `.*$` at the end of a pattern.
struct Head {
    regex: Regex,
    groups: CaptureLocations,
    /// Whether the rest goes over lines' ends.
    dot_is_all: bool,
    sequence: Option<Sequence>,
}

/// A match, and the places of its groups except the first, which is all of it.
pub(super) struct Found<'p> {
    pub range: Range<usize>,
    groups: Groups<'p>,
}

enum Groups<'p> {
    OfLibrary(&'p CaptureLocations),
    OfSequence(&'p [(usize, usize)]),
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is no regular expression, or a too large one.
    pub fn new(pattern: &str, reading: Reading) -> Result<Pattern, regex::Error> {
        let Reading { folds, dot_is_all } = reading;
        let whole = RegexBuilder::new(pattern).case_insensitive(folds).dot_matches_new_line(dot_is_all).build()?;
        let mut head = Head::of(pattern, reading).filter(|head| head.regex.captures_len() == whole.captures_len());
        let mut parser = ParserBuilder::new().case_insensitive(folds).dot_matches_new_line(dot_is_all).build();
        let parsed = parser.parse(pattern).ok();
        let needed = parsed.as_ref().and_then(|hir| needed(hir).map(|piece| Finder::new(piece).into_owned()));
        let sequence = match &mut head {
            Some(head) => head.sequence.take(),
            None => parsed.as_ref().and_then(Sequence::of),
        };
        Ok(Pattern { groups: whole.capture_locations(), head, sequence, whole, needed })
    }

    /// Whether a text has a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.can_match(text) && self.whole.is_match(text)
    }

    fn can_match(&self, text: &str) -> bool {
        self.needed.as_ref().is_none_or(|piece| piece.find(text.as_bytes()).is_some())
    }

    /// The end of the match of the sequence, if it takes a text.
    fn taken(&mut self, text: &str) -> Option<usize> {
        let sequence = self.sequence.as_mut()?;
        match &self.head {
            Some(head) if !head.is_enough_for(text) => None,
            Some(_) => sequence.take(text).map(|_| text.len()),
            None => sequence.take(text),
        }
    }

    /// The range of the first match in a text.
    pub fn find(&mut self, text: &str) -> Option<Range<usize>> {
        if let Some(end) = self.taken(text) {
            return Some(0..end);
        }
        if !self.can_match(text) {
            return None;
        }
        match self.head.as_ref().filter(|head| head.is_enough_for(text)) {
            Some(head) => Some(head.regex.find(text)?.start()..text.len()),
            None => Some(self.whole.find(text)?.range()),
        }
    }

    /// The first match in a text, with its groups.
    pub fn captures(&mut self, text: &str) -> Option<Found<'_>> {
        if let Some(end) = self.taken(text) {
            let groups = Groups::OfSequence(self.sequence.as_ref().map_or(&[], Sequence::groups));
            return Some(Found { range: 0..end, groups });
        }
        if !self.can_match(text) {
            return None;
        }
        match self.head.as_mut().filter(|head| head.is_enough_for(text)) {
            Some(Head { regex, groups, .. }) => {
                let start = regex.captures_read(groups, text)?.start();
                Some(Found { range: start..text.len(), groups: Groups::OfLibrary(groups) })
            }
            None => {
                let range = self.whole.captures_read(&mut self.groups, text)?.range();
                Some(Found { range, groups: Groups::OfLibrary(&self.groups) })
            }
        }
    }
}

impl Found<'_> {
    /// The text of a group; empty if it took no part in the match.
    pub fn group<'t>(&self, text: &'t str, group: usize) -> &'t str {
        let range = match group {
            0 => Some(self.range.clone()),
            _ => match self.groups {
                Groups::OfLibrary(groups) => groups.get(group).map(|(start, end)| start..end),
                Groups::OfSequence(groups) => groups.get(group).map(|(start, end)| *start..*end),
            },
        };
        range.and_then(|range| text.get(range)).unwrap_or_default()
    }
}

impl Head {
    /// The head of a pattern. A match of the head is one of the pattern with the same groups wherever the rest can be anything:
    /// whatever the head takes, the rest takes what is left.
    fn of(pattern: &str, Reading { folds, dot_is_all }: Reading) -> Option<Head> {
        let mut parser = ParserBuilder::new().case_insensitive(folds).dot_matches_new_line(dot_is_all).build();
        let hir = parser.parse(pattern).ok()?;
        let HirKind::Concat(parts) = hir.kind() else { return None };
        let (last, before) = parts.split_last()?;
        let is_to_end = *last.kind() == HirKind::Look(Look::End);
        let (rest, head) = if is_to_end { before.split_last()? } else { (last, before) };
        let HirKind::Repetition(repetition) = rest.kind() else { return None };
        let HirKind::Class(Class::Unicode(class)) = repetition.sub.kind() else { return None };
        let is_all = [(true, any_character()), (false, but_line_ends())].into_iter().find(|(_, of)| of == class)?.0;
        let takes_rest = repetition.min == 0 && repetition.max.is_none() && (repetition.greedy || is_to_end);
        let head = Hir::concat(head.to_vec());
        let regex = Regex::new(&head.to_string()).ok().filter(|_| takes_rest)?;
        Some(Head { groups: regex.capture_locations(), regex, dot_is_all: is_all, sequence: Sequence::of(&head) })
    }

    fn is_enough_for(&self, text: &str) -> bool {
        self.dot_is_all || memchr(b'\n', text.as_bytes()).is_none()
    }
}

/// The longest piece of text that each match of a pattern has behind its beginning, for which the library itself looks.
fn needed(pattern: &Hir) -> Option<&[u8]> {
    let HirKind::Concat(parts) = pattern.kind() else { return None };
    let begin = parts.iter().position(|part| !matches!(part.kind(), HirKind::Look(_)))?;
    longest(&parts[begin + 1..]).filter(|piece| piece.len() > 1)
}

fn longest(parts: &[Hir]) -> Option<&[u8]> {
    parts.iter().filter_map(piece).max_by_key(|piece| piece.len())
}

fn piece(part: &Hir) -> Option<&[u8]> {
    match part.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(group) => piece(&group.sub),
        HirKind::Repetition(repeated) if repeated.min > 0 => piece(&repeated.sub),
        HirKind::Concat(parts) => longest(parts),
        _ => None,
    }
}

fn any_character() -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)])
}

fn but_line_ends() -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new('\0', '\x09'), ClassUnicodeRange::new('\x0b', char::MAX)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has_head(pattern: &str) -> bool {
        Pattern::new(pattern, Reading::default()).expect(pattern).head.is_some()
    }

    /// Compares with the whole pattern.
    fn check(pattern: &str, reading: Reading, text: &str) {
        let mut pattern = Pattern::new(pattern, reading).expect(pattern);
        let expected = pattern.whole.captures(text);
        let expected: Option<Vec<String>> = expected.map(|captures| {
            captures.iter().map(|group| group.map_or(String::new(), |group| group.as_str().to_owned())).collect()
        });
        let count = pattern.whole.captures_len();
        assert_eq!(pattern.find(text), pattern.whole.find(text).map(|found| found.range()), "{text:?}");
        let found = pattern.captures(text);
        let found = found.map(|found| (0..count).map(|group| found.group(text, group).to_owned()).collect::<Vec<_>>());
        assert_eq!(found, expected, "{} in {text:?}", pattern.whole);
    }

    #[test]
    fn only_a_rest_of_anything_is_left_out() {
        for pattern in ["a.*", "^a(b)/.*$", ".*$", "a.*?$", "(?s)a.*$", r"a.*\z", "(?:a.*)"] {
            assert!(has_head(pattern), "{pattern}");
        }
        for pattern in [
            "(a)|.*", ".*", "a.*?", "a.+", "a.{0,5}", "a.*b", "(?m)a.*$", "a[^b]*", "(a.*)", "a", "", r"a.*\b",
            "(?R)a.*",
        ] {
            assert!(!has_head(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_piece_that_each_match_has_is_looked_for() {
        let piece = |pattern: &str| {
            let pattern = Pattern::new(pattern, Reading::default()).expect(pattern);
            pattern.needed.map(|piece| String::from_utf8(piece.needle().to_vec()).expect("text"))
        };
        for (pattern, expected) in [
            ("qu[aeiou]ck.*fox", "fox"),
            ("^https?://(?:www\\.)?([^/]+)/.*$", "://"),
            ("a+(bcd)+e?", "bcd"),
            ("[ab](cd{1,2}ef){1,3}", "ef"),
        ] {
            assert_eq!(piece(pattern).as_deref(), Some(expected), "{pattern}");
        }
        for pattern in ["fox", "fox.*", "a(?:bc)?", "a(?:bcd)*", "a(?:bc|cd)x", "(?i)[ab]fox", "", "a|.bcd"] {
            assert_eq!(piece(pattern), None, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn texts_without_a_needed_piece_have_no_match(
            pattern in prop::sample::select(vec![
                "a[bc]*cd", "^(ab)+(cd)+$", r"a?(?:b|c)cd\b", "(?:ab){0,2}x*cd.", "a(?:cd|dd)", "(a)(b)(cd)",
            ]),
            folds: bool,
            text in "[abcdABCD]{0,9}",
        ) {
            let reading = Reading { folds, dot_is_all: false };
            let compiled = Pattern::new(pattern, reading).expect(pattern);
            prop_assert_eq!(compiled.is_match(&text), compiled.whole.is_match(&text));
            check(pattern, reading, &text);
        }

        #[test]
        fn matches_are_those_of_the_whole_pattern(
            head in prop::sample::select(vec![
                "", "a", "^", "a*", "(a|ab)(c|bcd)?", "(?:b)?([^/]+)/", "a??", "(x)?y*?", r"\ba", "A", "(?:(a)|b)+",
            ]),
            tail in prop::sample::select(vec![".*", ".*$", ".*?$", ".*?", ".+", "(.*)", r".*\z"]),
            folds: bool,
            dot_is_all: bool,
            text in "[abcdxyA/\u{e9}\n\r ]{0,12}",
        ) {
            check(&format!("{head}{tail}"), Reading { folds, dot_is_all }, &text);
        }
    }
}
