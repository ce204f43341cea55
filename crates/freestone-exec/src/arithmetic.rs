//! Operations of vectors: arithmetic without overflow, comparisons, three-valued logic, choices.

use arrow_buffer::{BooleanBuffer, NullBuffer};

use crate::hash::float_key;
use crate::program::Scalar;
use crate::vector::{INLINE_BYTES, Texts, Values, Vector};

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison with its operands exchanged.
    pub fn swapped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// An operand.
#[derive(Debug, Clone, Copy)]
pub enum Number<'a> {
    /// A value per row.
    Vector(&'a Vector),
    /// One value.
    Scalar(&'a Scalar),
}

enum Slice<'a, T> {
    Each(&'a [T]),
    One(T),
}

impl Number<'_> {
    fn valid(&self) -> Option<&NullBuffer> {
        match self {
            Number::Vector(vector) => vector.valid.as_ref(),
            Number::Scalar(_) => None,
        }
    }

    fn ints(&self) -> Slice<'_, i64> {
        match self {
            Number::Vector(vector) => Slice::Each(vector.as_ints()),
            Number::Scalar(Scalar::Int(v)) => Slice::One(*v),
            Number::Scalar(other) => unreachable!("an integer was compiled, not {other:?}"),
        }
    }

    fn floats(&self) -> Slice<'_, f64> {
        match self {
            Number::Vector(vector) => Slice::Each(vector.as_floats()),
            Number::Scalar(Scalar::Float(v)) => Slice::One(*v),
            Number::Scalar(other) => unreachable!("a float was compiled, not {other:?}"),
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Number::Scalar(Scalar::Null))
    }

    fn is_float(&self) -> bool {
        match self {
            Number::Vector(vector) => matches!(vector.values, Values::Float(_)),
            Number::Scalar(scalar) => matches!(scalar, Scalar::Float(_)),
        }
    }

    fn is_wide(&self) -> bool {
        match self {
            Number::Vector(vector) => matches!(vector.values, Values::Wide(_)),
            Number::Scalar(scalar) => matches!(scalar, Scalar::Wide(_)),
        }
    }

    fn to_wide(self) -> WideNumber {
        match self {
            Number::Scalar(Scalar::Int(v)) => WideNumber::One((*v).into()),
            Number::Scalar(Scalar::Wide(v)) => WideNumber::One(*v),
            Number::Scalar(other) => unreachable!("an integer was compiled, not {other:?}"),
            Number::Vector(vector) => WideNumber::Each(to_wide(vector)),
        }
    }
}

enum WideNumber {
    Each(Vector),
    One(i128),
}

impl WideNumber {
    fn slice(&self) -> Slice<'_, i128> {
        match self {
            WideNumber::Each(vector) => Slice::Each(vector.as_wide()),
            WideNumber::One(value) => Slice::One(*value),
        }
    }
}

#[inline]
fn zipped<T: Copy, R>(a: Slice<'_, T>, b: Slice<'_, T>, rows: usize, f: impl Fn(T, T) -> R) -> Vec<R> {
    match (a, b) {
        (Slice::Each(a), Slice::Each(b)) => a.iter().zip(b).map(|(a, b)| f(*a, *b)).collect(),
        (Slice::Each(a), Slice::One(b)) => a.iter().map(|a| f(*a, b)).collect(),
        (Slice::One(a), Slice::Each(b)) => b.iter().map(|b| f(a, *b)).collect(),
        (Slice::One(a), Slice::One(b)) => (0..rows).map(|_| f(a, b)).collect(),
    }
}

#[inline]
fn tested<T: Copy>(a: Slice<'_, T>, b: Slice<'_, T>, rows: usize, f: impl Fn(T, T) -> bool) -> BooleanBuffer {
    match (a, b) {
        (Slice::Each(a), Slice::Each(b)) => BooleanBuffer::collect_bool(rows, |at| f(a[at], b[at])),
        (Slice::Each(a), Slice::One(b)) => BooleanBuffer::collect_bool(rows, |at| f(a[at], b)),
        (Slice::One(a), Slice::Each(b)) => BooleanBuffer::collect_bool(rows, |at| f(a, b[at])),
        (Slice::One(a), Slice::One(b)) => BooleanBuffer::collect_bool(rows, |_| f(a, b)),
    }
}

fn one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

/// An operation of 64-bit integers, whose result fits, or of floats.
pub fn binary(op: Operation, a: Number<'_>, b: Number<'_>, rows: usize) -> Vector {
    if a.is_float() || b.is_float() {
        let (x, y) = (a.floats(), b.floats());
        let values = match op {
            Operation::Add => zipped(x, y, rows, |a, b| one_nan(a + b)),
            Operation::Subtract => zipped(x, y, rows, |a, b| one_nan(a - b)),
            Operation::Multiply => zipped(x, y, rows, |a, b| one_nan(a * b)),
        };
        return Vector::with_nulls(Values::Float(values.into()), NullBuffer::union(a.valid(), b.valid()));
    }
    let (x, y) = (a.ints(), b.ints());
    // NULL rows may have any value.
    let values = match op {
        Operation::Add => zipped(x, y, rows, i64::wrapping_add),
        Operation::Subtract => zipped(x, y, rows, i64::wrapping_sub),
        Operation::Multiply => zipped(x, y, rows, i64::wrapping_mul),
    };
    Vector::with_nulls(Values::Int(values.into()), NullBuffer::union(a.valid(), b.valid()))
}

/// An operation of integers of any width, whose result fits 128 bits.
pub fn wide(op: Operation, a: Number<'_>, b: Number<'_>, rows: usize) -> Vector {
    let valid = NullBuffer::union(a.valid(), b.valid());
    let values = match (op, a, b) {
        (Operation::Multiply, Number::Vector(x), Number::Vector(y)) if !a.is_wide() && !b.is_wide() => {
            let (x, y) = (x.as_ints(), y.as_ints());
            x.iter().zip(y).map(|(a, b)| i128::from(*a) * i128::from(*b)).collect()
        }
        _ => {
            let (x, y) = (a.to_wide(), b.to_wide());
            match op {
                Operation::Add => zipped(x.slice(), y.slice(), rows, i128::wrapping_add),
                Operation::Subtract => zipped(x.slice(), y.slice(), rows, i128::wrapping_sub),
                Operation::Multiply => zipped(x.slice(), y.slice(), rows, i128::wrapping_mul),
            }
        }
    };
    Vector::with_nulls(Values::Wide(values.into()), valid)
}

/// Integers as floats, each divided by `divisor`.
pub fn to_float(ints: &Vector, divisor: f64) -> Vector {
    let values: Vec<f64> = match divisor {
        1.0 => ints.as_ints().iter().map(|v| *v as f64).collect(),
        _ => ints.as_ints().iter().map(|v| *v as f64 / divisor).collect(),
    };
    Vector::with_nulls(Values::Float(values.into()), ints.valid.clone())
}

/// Integers with 128 bits.
pub fn to_wide(vector: &Vector) -> Vector {
    match &vector.values {
        Values::Int(v) => {
            let values: Vec<i128> = v.iter().map(|v| i128::from(*v)).collect();
            Vector { values: Values::Wide(values.into()), valid: vector.valid.clone() }
        }
        _ => vector.clone(),
    }
}

/// A float as an integer of the same order: one zero, one NaN, which is the greatest.
#[inline]
pub fn float_order(value: f64) -> i64 {
    let bits = float_key(value) as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// A comparison of values of one form.
pub fn compare(comparison: Comparison, a: Number<'_>, b: Number<'_>, rows: usize) -> Vector {
    use Comparison::*;
    if a.is_null() || b.is_null() {
        return crate::program::filled(&Scalar::Null, crate::vector::Form::Bits, rows);
    }
    macro_rules! all {
        ($x:expr, $y:expr, $key:expr) => {
            match comparison {
                Equal => tested($x, $y, rows, |a, b| $key(a) == $key(b)),
                NotEqual => tested($x, $y, rows, |a, b| $key(a) != $key(b)),
                Less => tested($x, $y, rows, |a, b| $key(a) < $key(b)),
                LessOrEqual => tested($x, $y, rows, |a, b| $key(a) <= $key(b)),
                Greater => tested($x, $y, rows, |a, b| $key(a) > $key(b)),
                GreaterOrEqual => tested($x, $y, rows, |a, b| $key(a) >= $key(b)),
            }
        };
    }
    let bits = if a.is_float() || b.is_float() {
        all!(a.floats(), b.floats(), float_order)
    } else if a.is_wide() || b.is_wide() {
        let (x, y) = (a.to_wide(), b.to_wide());
        all!(x.slice(), y.slice(), |v: i128| v)
    } else {
        match (a, b) {
            (Number::Vector(x), Number::Vector(y)) if matches!(x.values, Values::Text(_) | Values::Codes(..)) => {
                BooleanBuffer::collect_bool(rows, |row| {
                    x.is_null(row) || y.is_null(row) || comparison.holds(x.text(row).cmp(y.text(row)))
                })
            }
            (Number::Vector(x), Number::Vector(y)) if matches!(x.values, Values::Bits(_)) => {
                let (x, y) = (x.as_bits(), y.as_bits());
                BooleanBuffer::collect_bool(rows, |row| comparison.holds(x.value(row).cmp(&y.value(row))))
            }
            (Number::Vector(x), Number::Scalar(Scalar::Bits(y))) => {
                let x = x.as_bits();
                BooleanBuffer::collect_bool(rows, |row| comparison.holds(x.value(row).cmp(y)))
            }
            _ => all!(a.ints(), b.ints(), |v: i64| v),
        }
    };
    Vector::with_nulls(Values::Bits(bits), NullBuffer::union(a.valid(), b.valid()))
}

/// A comparison of texts with one text.
pub fn compare_text(comparison: Comparison, texts: &Vector, with: &[u8]) -> Vector {
    let rows = texts.len();
    let Texts { views, buffers } = &texts.to_texts();
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    let bits = if is_equality {
        let wanted = view_of(with);
        let is_equal = |view: &u128| {
            *view as u64 == wanted as u64
                && (if with.len() <= INLINE_BYTES {
                    *view == wanted
                } else {
                    crate::vector::view_bytes(view, buffers) == with
                })
        };
        let wants = comparison == Comparison::Equal;
        BooleanBuffer::collect_bool(rows, |row| is_equal(&views[row]) == wants)
    } else {
        BooleanBuffer::collect_bool(rows, |row| {
            comparison.holds(crate::vector::view_bytes(&views[row], buffers).cmp(with))
        })
    };
    Vector::with_nulls(Values::Bits(bits), texts.valid.clone())
}

/// The view of a text, with buffer and offset 0.
fn view_of(text: &[u8]) -> u128 {
    let mut bytes = [0u8; 16];
    bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    let shown = if text.len() <= INLINE_BYTES { text.len() } else { 4 };
    bytes[4..4 + shown].copy_from_slice(&text[..shown]);
    u128::from_le_bytes(bytes)
}

/// Three-valued conjunction: false if either is false, otherwise NULL if either is NULL.
pub fn and(a: &Vector, b: &Vector) -> Vector {
    let (x, y) = (a.as_bits(), b.as_bits());
    let bits = x & y;
    if a.valid.is_none() && b.valid.is_none() {
        return Vector::new(Values::Bits(bits));
    }
    let (valid_a, valid_b) = (known(a), known(b));
    let is_false = &(&valid_a & &!x) | &(&valid_b & &!y);
    let both = &valid_a & &valid_b;
    let valid = NullBuffer::new(&both | &is_false);
    Vector::with_nulls(Values::Bits(&bits & &both), Some(valid))
}

/// Three-valued disjunction: true if either is true, otherwise NULL if either is NULL.
pub fn or(a: &Vector, b: &Vector) -> Vector {
    let (x, y) = (a.as_bits(), b.as_bits());
    if a.valid.is_none() && b.valid.is_none() {
        return Vector::new(Values::Bits(x | y));
    }
    let (valid_a, valid_b) = (known(a), known(b));
    let is_true = &(&valid_a & x) | &(&valid_b & y);
    let valid = NullBuffer::new(&(&valid_a & &valid_b) | &is_true);
    Vector::with_nulls(Values::Bits(is_true), Some(valid))
}

fn known(vector: &Vector) -> BooleanBuffer {
    match &vector.valid {
        Some(valid) => valid.inner().clone(),
        None => BooleanBuffer::new_set(vector.len()),
    }
}

/// The value of `then` where `chosen`, otherwise that of `otherwise`. Both have one form.
pub fn choose(chosen: &BooleanBuffer, then: &Vector, otherwise: &Vector) -> Vector {
    fn pick<T: Copy>(chosen: &BooleanBuffer, then: &[T], otherwise: &[T]) -> Vec<T> {
        let mut picked = otherwise.to_vec();
        chosen.set_indices().for_each(|row| picked[row] = then[row]);
        picked
    }
    let values = match (&then.values, &otherwise.values) {
        (Values::Int(a), Values::Int(b)) => Values::Int(pick(chosen, a, b).into()),
        (Values::Wide(a), Values::Wide(b)) => Values::Wide(pick(chosen, a, b).into()),
        (Values::Float(a), Values::Float(b)) => Values::Float(pick(chosen, a, b).into()),
        (Values::Bits(a), Values::Bits(b)) => Values::Bits(&(chosen & a) | &(&!chosen & b)),
        _ => Values::Text(choose_texts(chosen, &then.to_texts(), &otherwise.to_texts())),
    };
    let valid = (then.valid.is_some() || otherwise.valid.is_some())
        .then(|| NullBuffer::new(&(chosen & &known(then)) | &(&!chosen & &known(otherwise))));
    Vector::with_nulls(values, valid)
}

fn choose_texts(chosen: &BooleanBuffer, then: &Texts, otherwise: &Texts) -> Texts {
    let base = otherwise.buffers.len() as u128;
    let mut views = otherwise.views.to_vec();
    for row in chosen.set_indices() {
        let view = then.views[row];
        let moved = if view as u32 as usize > INLINE_BYTES { view + (base << 64) } else { view };
        views[row] = moved;
    }
    let buffers = otherwise.buffers.iter().chain(then.buffers.iter()).cloned().collect();
    Texts { views: views.into(), buffers }
}
