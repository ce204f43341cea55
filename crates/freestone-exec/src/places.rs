//! Places of rows in an order, as words that compare like the rows.

use std::cmp::Ordering;
use std::ops::Range;

use crate::hash::{float_place, int_place};
use crate::rows::{Field, FrozenRows};
use crate::sort::SortKey;
use crate::vector::{Form, Values, Vector};

/// Whether a column of this form has places that are words, without a look at its values.
pub fn has_words(form: Form) -> bool {
    matches!(form, Form::Bits | Form::Int | Form::Wide | Form::Float)
}

/// Whether a column of this form can be a part of an order.
pub fn has_order(form: Form) -> bool {
    has_words(form) || form == Form::Text
}

/// The words of a column's place.
fn words_of(field: &Field) -> usize {
    usize::from(field.nullable) + if field.form == Form::Wide { 2 } else { 1 }
}

/// The first bytes of a text as a number, whose order is that of texts if the numbers differ.
#[inline]
fn prefix(text: &[u8]) -> u64 {
    let mut bytes = [0; PREFIX];
    let len = text.len().min(PREFIX);
    bytes[..len].copy_from_slice(&text[..len]);
    u64::from_be_bytes(bytes)
}

/// The bytes of a text that are in its place.
const PREFIX: usize = 8;

/// A part of a place.
struct Part {
    key: SortKey,
    field: Field,
    /// Its words, first and behind the last.
    from: usize,
    to: usize,
}

/// An order of rows.
pub struct Places {
    parts: Vec<Part>,
    /// Whether words alone do not tell which of two rows comes first.
    has_texts: bool,
}

impl Places {
    /// The order by columns of rows with these fields, all of which [`has_order`].
    pub fn new(keys: &[SortKey], fields: &[Field]) -> Places {
        let mut at = 0;
        let parts = keys.iter().map(|key| {
            let field = fields[key.column].clone();
            let from = at;
            at += words_of(&field);
            Part { key: key.clone(), field, from, to: at }
        });
        let parts: Vec<Part> = parts.collect();
        let has_texts = parts.iter().any(|part| part.field.form == Form::Text);
        Places { parts, has_texts }
    }

    /// The words of a place.
    pub fn width(&self) -> usize {
        self.words_of_first(self.parts.len())
    }

    /// The words of the first `keys` columns of a place.
    fn words_of_first(&self, keys: usize) -> usize {
        keys.checked_sub(1).map_or(0, |last| self.parts[last].to)
    }

    /// The places of rows with these columns, which replace what `out` has.
    pub fn put(&self, column: impl Fn(usize) -> Vector, rows: usize, out: &mut Vec<u64>) {
        let width = self.width();
        out.clear();
        out.resize(rows * width, 0);
        self.parts.iter().for_each(|part| place_column(part, &column(part.key.column), out, width));
    }

    /// Which of two rows comes first by the first `keys` columns.
    fn compare(&self, keys: usize, a: Placed<'_>, b: Placed<'_>, rows: &FrozenRows) -> Ordering {
        if !self.has_texts {
            let width = self.words_of_first(keys);
            return a.words[..width].cmp(&b.words[..width]);
        }
        let mut by_part = self.parts[..keys].iter().map(|part| {
            let words = a.words[part.from..part.to].cmp(&b.words[part.from..part.to]);
            if words != Ordering::Equal || part.field.form != Form::Text {
                return words;
            }
            // NULLs are empty texts.
            let whole = rows.compare_texts(a.row, b.row, part.key.column);
            if part.key.descending { whole.reverse() } else { whole }
        });
        by_part.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// A row with its place.
#[derive(Clone, Copy)]
struct Placed<'a> {
    words: &'a [u64],
    row: u32,
}

/// Rows to be sorted, with their places.
pub struct Sorting<'a> {
    places: &'a Places,
    rows: &'a FrozenRows,
    /// The numbers of the rows.
    pub numbers: Vec<u32>,
    words: Vec<u64>,
    pairs: Vec<(u64, u32)>,
}

impl<'a> Sorting<'a> {
    /// These rows.
    pub fn new(places: &'a Places, rows: &'a FrozenRows, numbers: Vec<u32>) -> Sorting<'a> {
        let mut words = vec![];
        places.put(|column| rows.vector(column, &numbers), numbers.len(), &mut words);
        Sorting { places, rows, numbers, words, pairs: vec![] }
    }

    fn at(&self, position: usize) -> Placed<'_> {
        let width = self.places.width();
        Placed { words: &self.words[position * width..(position + 1) * width], row: self.numbers[position] }
    }

    /// Whether a row is equal to the one before it by the first `keys` columns.
    pub fn continues(&self, keys: usize, position: usize) -> bool {
        self.places.compare(keys, self.at(position - 1), self.at(position), self.rows).is_eq()
    }

    /// Sorts the rows at some positions. Those that are equal stay as they were.
    pub fn sort(&mut self, range: Range<usize>) {
        if self.places.parts.is_empty() {
            return;
        }
        if self.places.width() == 1 && !self.places.has_texts {
            return self.sort_pairs(range);
        }
        let keys = self.places.parts.len();
        let before =
            |a: &u32, b: &u32| self.places.compare(keys, self.at(*a as usize), self.at(*b as usize), self.rows);
        let mut order: Vec<u32> = range.clone().map(|position| position as u32).collect();
        if order.is_sorted_by(|a, b| before(a, b).is_le()) {
            return;
        }
        order.sort_by(before);
        let numbers: Vec<u32> = order.iter().map(|position| self.numbers[*position as usize]).collect();
        let words: Vec<u64> = order.iter().flat_map(|position| self.at(*position as usize).words).copied().collect();
        let width = self.places.width();
        self.words[range.start * width..range.end * width].copy_from_slice(&words);
        self.numbers[range].copy_from_slice(&numbers);
    }

    /// The same for places of one word.
    fn sort_pairs(&mut self, range: Range<usize>) {
        let (words, numbers) = (&mut self.words[range.clone()], &mut self.numbers[range]);
        if words.is_sorted() {
            return;
        }
        self.pairs.clear();
        self.pairs.extend(words.iter().copied().zip(numbers.iter().copied()));
        self.pairs.sort_by_key(|(word, _)| *word);
        let places = words.iter_mut().zip(numbers);
        places.zip(&self.pairs).for_each(|((word, number), pair)| (*word, *number) = *pair);
    }
}

/// Puts the places by one column at its position in places of `width` words.
fn place_column(part: &Part, column: &Vector, out: &mut [u64], width: usize) {
    let Part { key, field, from: at, to } = part;
    let flip = if key.descending { u64::MAX } else { 0 };
    let value_at = at + usize::from(field.nullable);
    let mut put = |words: &mut dyn Iterator<Item = u64>, at: usize| {
        out.chunks_exact_mut(width).zip(words).for_each(|(row, word)| row[at] = word ^ flip);
    };
    match &column.values {
        Values::Bits(v) => put(&mut v.iter().map(u64::from), value_at),
        Values::Int(v) => put(&mut v.iter().map(|x| int_place(*x)), value_at),
        Values::Float(v) => put(&mut v.iter().map(|x| float_place(*x)), value_at),
        Values::Wide(v) => {
            put(&mut v.iter().map(|x| int_place((*x >> 64) as i64)), value_at);
            put(&mut v.iter().map(|x| *x as u64), value_at + 1);
        }
        Values::Text(texts) => put(&mut (0..texts.len()).map(|row| prefix(texts.get(row))), value_at),
        Values::Codes(..) | Values::Arrow(_) => unreachable!("rows have no codes, and other arrays no order"),
    }
    if let Some(valid) = &column.valid {
        for (row, words) in out.chunks_exact_mut(width).enumerate() {
            words[*at] = u64::from(valid.is_valid(row) == key.nulls_first);
            if valid.is_null(row) {
                words[value_at..*to].fill(0);
            }
        }
    } else if field.nullable {
        out.chunks_exact_mut(width).for_each(|words| words[*at] = u64::from(key.nulls_first));
    }
}
