//! Regular expressions that are sequences from the beginning of a text: pieces of text, pieces that may be missing, and runs of characters,
//! each with groups around them. Each element takes what it can. If all then match, that is the match of the expression, because taking more
//! comes before taking less. If one does not, another way may match, and the library has to look.

use memchr::{memchr, memchr2, memchr3};
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look};

/// The groups that a sequence may have.
const GROUPS_MAX: usize = 16;

/// A sequence, with room for the groups of a match.
pub(super) struct Sequence {
    steps: Vec<Step>,
    /// The beginning and end of each group; the first one is unused.
    groups: Vec<(usize, usize)>,
}

#[derive(Debug)]
enum Step {
    Text(Vec<u8>),
    /// A text or nothing.
    Perhaps(Vec<u8>),
    Run {
        of: Characters,
        /// Whether there is one at least.
        is_needed: bool,
    },
    Open(usize),
    Close(usize),
    End,
}

/// A set of characters that has all of those outside of ASCII, or none.
#[derive(Debug)]
enum Characters {
    /// All but up to three.
    But(Vec<u8>),
    /// Whether each byte is one, or part of one.
    Table(Box<[bool; 256]>),
}

impl Sequence {
    /// An expression as a sequence, if it is one.
    pub fn of(pattern: &Hir) -> Option<Sequence> {
        let parts = match pattern.kind() {
            HirKind::Concat(parts) => parts.as_slice(),
            _ => std::slice::from_ref(pattern),
        };
        let (HirKind::Look(Look::Start), rest) = parts.split_first().map(|(first, rest)| (first.kind(), rest))? else {
            return None;
        };
        let (mut steps, mut groups) = (vec![], 0);
        rest.iter().try_for_each(|part| add(part, &mut steps, &mut groups))?;
        Some(Sequence { steps, groups: vec![(0, 0); groups + 1] })
    }

    /// Takes a text from its beginning. Returns the end of the match; `None` if there may be another one or none.
    pub fn take(&mut self, text: &str) -> Option<usize> {
        let text = text.as_bytes();
        let mut at = 0;
        for step in &self.steps {
            let rest = text.get(at..)?;
            match step {
                Step::Text(piece) => at += rest.starts_with(piece).then_some(piece.len())?,
                Step::Perhaps(piece) => at += if rest.starts_with(piece) { piece.len() } else { 0 },
                Step::Run { of, is_needed } => {
                    let length = of.length(rest);
                    at += (length > 0 || !is_needed).then_some(length)?;
                }
                Step::Open(group) => self.groups.get_mut(*group)?.0 = at,
                Step::Close(group) => self.groups.get_mut(*group)?.1 = at,
                Step::End => rest.is_empty().then_some(())?,
            }
        }
        Some(at)
    }

    /// The groups of the last match.
    pub fn groups(&self) -> &[(usize, usize)] {
        &self.groups
    }
}

/// Adds an element to a sequence. `None` if it can be none.
fn add(part: &Hir, steps: &mut Vec<Step>, groups: &mut usize) -> Option<()> {
    match part.kind() {
        HirKind::Literal(literal) => steps.push(Step::Text(literal.0.to_vec())),
        HirKind::Look(Look::End) => steps.push(Step::End),
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| add(part, steps, groups))?,
        HirKind::Capture(capture) => {
            let group = usize::try_from(capture.index).ok().filter(|group| *group < GROUPS_MAX)?;
            *groups = group.max(*groups);
            steps.push(Step::Open(group));
            add(&capture.sub, steps, groups)?;
            steps.push(Step::Close(group));
        }
        HirKind::Repetition(repeated) if repeated.greedy => match (repeated.sub.kind(), repeated.min, repeated.max) {
            (HirKind::Literal(literal), 0, Some(1)) => steps.push(Step::Perhaps(literal.0.to_vec())),
            (HirKind::Class(Class::Unicode(class)), min @ (0 | 1), None) => {
                steps.push(Step::Run { of: Characters::of(class)?, is_needed: min == 1 });
            }
            _ => return None,
        },
        _ => return None,
    }
    Some(())
}

impl Characters {
    /// The characters of a class. `None` if it has some outside of ASCII and not all.
    fn of(class: &ClassUnicode) -> Option<Characters> {
        let mut table = Box::new([false; 256]);
        let mut others = 0;
        for range in class.ranges() {
            let (first, last) = (u32::from(range.start()), u32::from(range.end()));
            for byte in first..=last.min(127) {
                *table.get_mut(usize::try_from(byte).ok()?)? = true;
            }
            if last > 127 {
                others += last - first.max(128) + 1;
            }
        }
        // Surrogates are no characters, but they lie within the ranges that have all.
        let all = u32::from(char::MAX) - 127;
        match others {
            0 => {}
            _ if others == all => table[128..].fill(true),
            _ => return None,
        }
        let missing: Vec<u8> = (0..=u8::MAX).filter(|byte| !table[usize::from(*byte)]).collect();
        Some(if (1..=3).contains(&missing.len()) { Characters::But(missing) } else { Characters::Table(table) })
    }

    /// The bytes at the beginning of a text that are such characters.
    fn length(&self, text: &[u8]) -> usize {
        let end = match self {
            Characters::But(bytes) => match bytes.as_slice() {
                [one] => memchr(*one, text),
                [one, two] => memchr2(*one, *two, text),
                [one, two, three] => memchr3(*one, *two, *three, text),
                _ => text.iter().position(|byte| bytes.contains(byte)),
            },
            Characters::Table(table) => text.iter().position(|byte| !table[usize::from(*byte)]),
        };
        end.unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;
    use regex_syntax::parse;

    use super::*;

    fn sequence(pattern: &str) -> Option<Sequence> {
        Sequence::of(&parse(pattern).expect(pattern))
    }

    #[test]
    fn only_sequences_from_the_beginning_are_taken() {
        for pattern in [
            "^a",
            r"^https?://(?:www\.)?([^/]+)/",
            "^[a-z]+$",
            "^([^,;|]*),(b)?$",
            "^",
            r"\Aa[^\n]*",
            "^(?P<name>x)(y(z))",
        ] {
            let taken = sequence(pattern).is_some();
            assert_eq!(taken, !pattern.contains("(b)?"), "{pattern}");
        }
        for pattern in [
            "a",
            "^a|b",
            "^a+?",
            "^(a|b)",
            r"^\w+",
            "^a{2,3}",
            "^[ab]{2,}",
            "(?m)^a",
            "^(?:ab)*",
            r"^a\b",
            "^[^é]+",
            "",
        ] {
            assert!(sequence(pattern).is_none(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_match_is_that_of_the_library(
            pattern in prop::sample::select(vec![
                "^a", r"^ab?://(?:b\.)?([^/]+)/", "^[a-b]+$", "^([^,;|]*),(/)b", "^", "^(a(b?)c?)([^a]*)a", r"^[^\n]+b", "^a?a", "^([ab]*)(b)",
                "^é?a[^/b]*é",
            ]),
            text in "[abc:/.,|\u{e9}\u{1F600}\n]{0,12}",
        ) {
            let mut own = sequence(pattern).expect(pattern);
            let found = Regex::new(pattern).expect(pattern).captures(&text);
            if let Some(end) = own.take(&text) {
                let found = found.expect("a match");
                prop_assert_eq!(found.get_match().range(), 0..end);
                for (group, (start, end)) in own.groups().iter().enumerate().skip(1) {
                    let range = found.get(group).map(|group| group.range());
                    prop_assert_eq!(range, Some(*start..*end), "group {}", group);
                }
            }
        }
    }
}
