//! The leading bits of rows' places in an order, which are sorted as plain numbers.
//!
//! ```text
//! key     prefix (96 bits) | number of the row (32 bits)
//! prefix  the columns of the order one after the other, as far as they fit
//! column  a bit for NULL where there may be one | the value as a number that compares like it
//! text    its next bytes, filled up with zeros | how many bytes were left, at most one more than are here
//! ```
//!
//! Rows of equal prefixes are compared from a [`Depth`] on, for which there are prefixes again.

use crate::hash::{float_place, int_place};
use crate::rows::Field;
use crate::sort::SortKey;
use crate::vector::{Form, Values, Vector};

/// A prefix above the number of its row.
pub type Key = u128;

/// The bits of a row's number, below its prefix.
pub const NUMBER_BITS: u32 = u32::BITS;
const PREFIX_BITS: u32 = Key::BITS - NUMBER_BITS;
const BYTE: u32 = u8::BITS;

/// The number of a key's row.
#[inline]
pub fn number_of(key: Key) -> u32 {
    key as u32
}

/// The prefix of a key.
#[inline]
pub fn prefix_of(key: Key) -> Key {
    key >> NUMBER_BITS
}

/// How far rows are known to be equal: in the parts before `part`, and in the first bytes of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// The first part that is not decided.
    pub part: usize,
    /// The bytes of its text that are.
    pub bytes: usize,
}

/// The beginning of the order.
pub const TOP: Depth = Depth { part: 0, bytes: 0 };

/// What is compared of a column at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Bit,
    /// Integers, of which the least and greatest are known if they are not all.
    Int(Option<(i64, i64)>),
    Float,
    /// The high and the low half of a wide integer.
    High,
    Low,
    Text,
}

/// A part of an order.
#[derive(Debug, Clone)]
struct Part {
    key: SortKey,
    piece: Piece,
    nullable: bool,
}

impl Part {
    /// The bits of its value, of all but texts.
    fn bits(&self) -> u32 {
        match self.piece {
            Piece::Bit => 1,
            Piece::Int(Some((low, high))) => u64::BITS - (high.wrapping_sub(low) as u64).leading_zeros(),
            _ => u64::BITS,
        }
    }
}

/// Where a part is in prefixes.
#[derive(Debug)]
struct Placed {
    part: usize,
    /// The bit of NULLs in a key.
    null: Option<u32>,
    /// The lowest bit of its value in a key, and how many bits that has.
    shift: u32,
    bits: u32,
    /// The bits of the value that do not fit, or the bytes of texts that do.
    rest: u32,
}

/// What prefixes from some depth on hold.
#[derive(Debug)]
pub struct Plan {
    from: Depth,
    placed: Vec<Placed>,
    /// The first part that does not fit, if there is one.
    next: Option<usize>,
}

/// An order by columns of rows.
#[derive(Debug)]
pub struct Prefixes {
    parts: Vec<Part>,
}

impl Prefixes {
    /// The order by `keys` of rows with these fields, whose forms have an order. `bounds`: the least and greatest integer of a field,
    /// where they are known.
    pub fn new(keys: &[SortKey], fields: &[Field], bounds: &[Option<(i64, i64)>]) -> Prefixes {
        let parts = keys.iter().flat_map(|key| {
            let field = &fields[key.column];
            let part = |piece, nullable| Part { key: key.clone(), piece, nullable };
            match field.form {
                Form::Bits => vec![part(Piece::Bit, field.nullable)],
                Form::Int => vec![part(Piece::Int(bounds[key.column]), field.nullable)],
                Form::Float => vec![part(Piece::Float, field.nullable)],
                // The low half of a NULL is zero.
                Form::Wide => vec![part(Piece::High, field.nullable), part(Piece::Low, false)],
                Form::Text => vec![part(Piece::Text, field.nullable)],
                Form::Arrow => unreachable!("other arrays have no order"),
            }
        });
        Prefixes { parts: parts.collect() }
    }

    /// What prefixes from a depth on hold.
    pub fn plan(&self, from: Depth) -> Plan {
        let (mut placed, mut left) = (vec![], PREFIX_BITS);
        for (at, part) in self.parts.iter().enumerate().skip(from.part) {
            let is_text = part.piece == Piece::Text;
            let nulls = u32::from(part.nullable);
            let most = if is_text { u32::MAX } else { part.bits() };
            let room = left.saturating_sub(nulls);
            let bits = if is_text { room / BYTE * BYTE } else { room.min(most) };
            if nulls > left || bits == 0 && most > 0 || is_text && bits < 2 * BYTE {
                return Plan { from, placed, next: Some(at) };
            }
            if nulls + bits == 0 {
                continue;
            }
            let null = part.nullable.then(|| NUMBER_BITS + left - 1);
            left = room - bits;
            let rest = if is_text { bits / BYTE - 1 } else { most - bits };
            placed.push(Placed { part: at, null, shift: NUMBER_BITS + left, bits, rest });
            if is_text || rest > 0 {
                return Plan { from, placed, next: Some(at) };
            }
        }
        Plan { from, placed, next: None }
    }

    /// Appends the keys of some rows, whose columns `column` gives. Returns whether all integers were within their bounds.
    pub fn put(
        &self,
        plan: &Plan,
        column: impl Fn(usize) -> Vector,
        numbers: impl Iterator<Item = u32>,
        out: &mut Vec<Key>,
    ) -> bool {
        let first = out.len();
        out.extend(numbers.map(Key::from));
        let mut is_within = true;
        for placed in &plan.placed {
            let part = &self.parts[placed.part];
            let skipped = if placed.part == plan.from.part { plan.from.bytes } else { 0 };
            is_within &= part.put(placed, &column(part.key.column), skipped, &mut out[first..]);
        }
        is_within
    }

    /// From where on rows with the prefix of this key are compared; `None` if they are equal.
    pub fn after(&self, plan: &Plan, key: Key) -> Option<Depth> {
        let next = plan.next?;
        let Some(last) = plan.placed.last().filter(|last| last.part == next) else {
            return Some(Depth { part: next, bytes: 0 });
        };
        let part = &self.parts[next];
        if part.piece != Piece::Text {
            return Some(Depth { part: next, bytes: 0 });
        }
        let flip = if part.key.descending { u8::MAX } else { 0 };
        let left = (key >> last.shift) as u8 ^ flip;
        let skipped = if next == plan.from.part { plan.from.bytes } else { 0 };
        let is_null = last.null.is_some_and(|null| (key >> null & 1 == 0) == part.key.nulls_first);
        if !is_null && u32::from(left) > last.rest {
            return Some(Depth { part: next, bytes: skipped + last.rest as usize });
        }
        (next + 1 < self.parts.len()).then_some(Depth { part: next + 1, bytes: 0 })
    }

    /// The column of a part that is a text.
    pub fn text_of(&self, part: usize) -> Option<usize> {
        Some(&self.parts[part]).filter(|part| part.piece == Piece::Text).map(|part| part.key.column)
    }

    /// The columns of the order from a part on.
    pub fn keys_from(&self, part: usize) -> impl Iterator<Item = &SortKey> {
        let parts = self.parts.iter().enumerate().skip(part);
        parts.filter(move |(at, of)| *at == part || of.piece != Piece::Low).map(|(_, of)| &of.key)
    }
}

impl Plan {
    /// Whether rows of equal prefixes are equal.
    pub fn is_exact(&self) -> bool {
        self.next.is_none()
    }
}

impl Part {
    fn put(&self, placed: &Placed, column: &Vector, skipped: usize, out: &mut [Key]) -> bool {
        let bits = placed.bits;
        let mask: Key = (1 << bits) - 1;
        let flip = if self.key.descending { mask } else { 0 };
        let mut is_within = true;
        let mut each = |values: &mut dyn Iterator<Item = u64>| {
            out.iter_mut().zip(values).for_each(|(key, value)| {
                *key |= (Key::from(value) >> placed.rest & mask ^ flip) << placed.shift;
            });
        };
        match (&column.values, self.piece) {
            (Values::Bits(v), _) => each(&mut v.iter().map(u64::from)),
            (Values::Int(v), Piece::Int(Some((low, high)))) => {
                let most = high.wrapping_sub(low) as u64;
                each(&mut v.iter().enumerate().map(|(row, value)| {
                    let is_known = (low..=high).contains(value) || column.is_null(row);
                    is_within &= is_known;
                    if is_known {
                        value.wrapping_sub(low) as u64 & (mask as u64)
                    } else if *value < low {
                        0
                    } else {
                        most
                    }
                }));
            }
            (Values::Int(v), _) => each(&mut v.iter().map(|value| int_place(*value))),
            (Values::Float(v), _) => each(&mut v.iter().map(|value| float_place(*value))),
            (Values::Wide(v), Piece::High) => each(&mut v.iter().map(|value| int_place((*value >> 64) as i64))),
            (Values::Wide(v), _) => each(&mut v.iter().map(|value| *value as u64)),
            (Values::Codes(codes, dictionary), _) => {
                let entries = &dictionary.texts;
                let of_text = |code: usize| text_bits(entries.get(code), skipped, placed.rest as usize) ^ flip;
                let known: Vec<Key> = match entries.len() <= codes.len() {
                    true => (0..entries.len()).map(of_text).collect(),
                    false => vec![],
                };
                for (key, code) in out.iter_mut().zip(codes.iter().map(|code| *code as usize)) {
                    // NULL rows may have any code.
                    let value = known.get(code).copied().or_else(|| (code < entries.len()).then(|| of_text(code)));
                    *key |= value.unwrap_or(0) << placed.shift;
                }
            }
            (Values::Text(texts), _) => {
                for (row, key) in out.iter_mut().enumerate() {
                    let value = text_bits(texts.get(row), skipped, placed.rest as usize);
                    *key |= (value ^ flip) << placed.shift;
                }
            }
            (Values::Arrow(_), _) => unreachable!("other arrays have no order"),
        }
        if let Some(null) = placed.null {
            for (row, key) in out.iter_mut().enumerate() {
                let is_null = column.is_null(row);
                *key |= Key::from(is_null != self.key.nulls_first) << null;
                if is_null {
                    *key &= !(mask << placed.shift);
                }
            }
        } else if self.piece == Piece::Low && column.valid.is_some() {
            out.iter_mut().enumerate().filter(|(row, _)| column.is_null(*row)).for_each(|(_, key)| {
                *key &= !(mask << placed.shift);
            });
        }
        is_within
    }
}

/// `len` bytes of a text behind those that are skipped, and how many are left at their begin, at most one more.
#[inline]
fn text_bits(text: &[u8], skipped: usize, len: usize) -> Key {
    let text = text.get(skipped..).unwrap_or_default();
    let here = text.len().min(len);
    let mut bytes = [0; size_of::<Key>()];
    bytes[..here].copy_from_slice(&text[..here]);
    let all = Key::from_be_bytes(bytes) >> (Key::BITS - BYTE * len as u32);
    all << BYTE | text.len().min(len + 1) as Key
}
