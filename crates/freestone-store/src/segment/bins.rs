//! The numbering of a dimension's values.
//!
//! A code is the concatenation of the numbers of a value's levels: region, then nation within the region, then city
//! within the nation. Each level has as many bits as the parent with the most children needs, so a prefix of the bits
//! *is* a coarser level. Attributes with too many values are divided at quantiles instead, into bins of equal
//! frequency. Bins use ranks and not values, so values of every type and range have one.

use std::collections::HashMap;

use freestone_codec::{BytesPredicate, IntPredicate, Predicate};

use super::bytes::{ByteReader, ByteWriter};
use super::zones::successor;

/// The maximum number of values with a code each. If there are more, they are divided into bins.
pub const MAX_DISTINCT: usize = 4096;

/// A value of an attribute: integers of all widths, decimals, dates, floats by their order keys; or strings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An integer, or the key of a float.
    Int(i128),
    /// A string.
    Bytes(Vec<u8>),
}

/// The codes of values.
#[derive(Debug, Clone)]
pub struct Bins {
    /// The upper bounds of all bins, ascending, except the last, which is unbounded.
    bounds: Vec<Value>,
    /// The code of each bin; one more element than bounds.
    codes: Vec<u32>,
    width: u32,
    /// The codes of strings that are a bound, which most are, to avoid the search.
    texts: HashMap<Vec<u8>, u32>,
}

impl PartialEq for Bins {
    fn eq(&self, other: &Self) -> bool {
        (&self.bounds, &self.codes, self.width) == (&other.bounds, &other.codes, other.width)
    }
}

impl std::hash::Hash for Bins {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.bounds, &self.codes, self.width).hash(state);
    }
}

impl Bins {
    fn new(bounds: Vec<Value>, codes: Vec<u32>, width: u32) -> Self {
        let text = |(bound, code): (&Value, &u32)| match bound {
            Value::Bytes(text) => Some((text.clone(), *code)),
            Value::Int(_) => None,
        };
        let texts = bounds.iter().zip(&codes).filter_map(text).collect();
        Bins { bounds, codes, width, texts }
    }

    /// Numbers distinct tuples of values. A tuple has its levels, coarsest first, and the number of its rows. Tuples
    /// must ascend, and the last level, the attribute, must determine the others. `bits` is set if the user chose the
    /// width.
    pub fn of_tuples(tuples: &[(Vec<Value>, u64)], bits: Option<u32>) -> Self {
        let levels = tuples.first().map_or(1, |t| t.0.len());
        if levels == 1 && (tuples.len() > MAX_DISTINCT || bits.is_some_and(|b| tuples.len() + 1 > 1 << b)) {
            return Bins::balanced(tuples, bits.unwrap_or(MAX_DISTINCT.ilog2()));
        }
        // The number of each tuple in each level, counted from the start of its parent.
        let mut numbers: Vec<Vec<u32>> = Vec::with_capacity(tuples.len());
        for (at, (tuple, _)) in tuples.iter().enumerate() {
            let mut own = vec![0; levels];
            if let (Some(previous), Some((before, _))) = (numbers.last(), tuples.get(at.wrapping_sub(1))) {
                let differs = (0..levels).find(|l| tuple[*l] != before[*l]).unwrap_or(levels - 1);
                own[..=differs].copy_from_slice(&previous[..=differs]);
                own[differs] += 1;
            }
            numbers.push(own);
        }
        // One number more than the level has values: all ones is no value's code and represents NULL.
        let widths: Vec<u32> = (0..levels)
            .map(|l| numbers.iter().map(|n| n[l]).max().unwrap_or(0) + 1)
            .map(|most| u32::BITS - most.leading_zeros())
            .collect();
        let total: u32 = widths.iter().sum();
        let width = bits.unwrap_or(total).min(total);
        let mut pairs: Vec<(Value, u32)> = vec![];
        for ((tuple, _), numbers) in tuples.iter().zip(&numbers) {
            let code = numbers.iter().zip(&widths).fold(0u32, |code, (n, w)| code << w | n);
            pairs.push((tuple[levels - 1].clone(), code >> (total - width)));
        }
        // A prefix of a code's bits is a code. The attribute's values are distinct, and each has one.
        pairs.sort();
        pairs.dedup_by(|a, b| a.0 == b.0);
        let last = pairs.last().map_or(0, |p| p.1);
        let (bounds, mut codes): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        codes.push(last);
        Bins::new(bounds, codes, width.max(1))
    }

    /// Bins of about equal numbers of rows, as many as fit `bits` together with NULL.
    fn balanced(tuples: &[(Vec<Value>, u64)], bits: u32) -> Self {
        let total: u64 = tuples.iter().map(|t| t.1).sum();
        let bins = ((1u64 << bits) - 1).min(tuples.len() as u64).max(1);
        let (mut bounds, mut seen) = (vec![], 0u64);
        for (tuple, rows) in &tuples[..tuples.len().saturating_sub(1)] {
            seen += rows;
            // The weighted quantile: a bin ends where its share of all rows is reached.
            let due = (bounds.len() as u64 + 1) * total / bins;
            if seen >= due && (bounds.len() as u64) < bins - 1 {
                bounds.push(tuple[0].clone());
            }
        }
        let codes = (0..=bounds.len() as u32).collect();
        Bins::new(bounds, codes, bits)
    }

    /// The number of bits of a code.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The number of distinct codes, except NULL's.
    pub fn count(&self) -> usize {
        let mut codes = self.codes.clone();
        codes.sort_unstable();
        codes.dedup();
        codes.len()
    }

    /// The code of rows without a value, or whose foreign key has no referenced row.
    pub fn null_code(&self) -> u32 {
        (1 << self.width) - 1
    }

    /// The code of an integer, or of a float's key.
    pub fn code_of_int(&self, value: i128) -> u32 {
        self.codes[self.bounds.partition_point(|b| matches!(b, Value::Int(bound) if *bound < value))]
    }

    /// The code of a string.
    pub fn code_of_bytes(&self, value: &[u8]) -> u32 {
        match self.texts.get(value) {
            Some(code) => *code,
            None => self.codes[self.bounds.partition_point(|b| matches!(b, Value::Bytes(bound) if &bound[..] < value))],
        }
    }

    /// The codes, ascending, of the bins that may contain values satisfying the predicate. Empty if only NULL satisfies
    /// it. `None` if the predicate does not restrict bins.
    pub fn codes_of(&self, predicate: &Predicate) -> Option<Vec<u32>> {
        let text = |value: &[u8]| Value::Bytes(value.to_vec());
        let mut codes: Vec<u32> = match predicate {
            Predicate::IsNull => vec![],
            Predicate::Int(IntPredicate::Range { low, high }) if low > high => vec![],
            Predicate::Int(IntPredicate::Range { low, high }) => {
                self.codes_between(Some(&Value::Int(*low)), Some(&Value::Int(*high)))
            }
            Predicate::Int(IntPredicate::In(list)) => list.iter().map(|value| self.code_of_int(*value)).collect(),
            // Other strings in a bound's bin may lie within the range, so bounds count as included.
            Predicate::Bytes(BytesPredicate::Range { low, high }) => {
                let [low, high] = [low, high].map(|bound| bound.as_ref().map(|b| text(&b.value)));
                self.codes_between(low.as_ref(), high.as_ref())
            }
            Predicate::Bytes(BytesPredicate::In(list)) => list.iter().map(|value| self.code_of_bytes(value)).collect(),
            Predicate::Bytes(BytesPredicate::Prefix(prefix)) => {
                self.codes_between(Some(&text(prefix)), successor(prefix).map(Value::Bytes).as_ref())
            }
            _ => return None,
        };
        codes.sort_unstable();
        codes.dedup();
        Some(codes)
    }

    /// The codes of the bins that may contain values of a range with both ends included; `None` is no bound.
    fn codes_between(&self, low: Option<&Value>, high: Option<&Value>) -> Vec<u32> {
        let first = low.map_or(0, |low| self.bounds.partition_point(|b| b < low));
        let last = high.map_or(self.bounds.len(), |high| self.bounds.partition_point(|b| b < high));
        if first > last { vec![] } else { self.codes[first..=last].to_vec() }
    }

    pub(crate) fn write(&self, out: &mut ByteWriter) {
        out.varint(self.width.into());
        out.varint(self.bounds.len() as i128);
        out.u8(u8::from(matches!(self.bounds.first(), Some(Value::Bytes(_)))));
        for bound in &self.bounds {
            match bound {
                Value::Int(value) => out.varint(*value),
                Value::Bytes(value) => out.bytes(value),
            }
        }
        self.codes.iter().for_each(|code| out.varint((*code).into()));
    }

    pub(crate) fn read(input: &mut ByteReader<'_>) -> Result<Self, String> {
        let width = u32::try_from(input.varint()?).ok().filter(|w| (1..=31).contains(w));
        let width = width.ok_or("a dimension whose codes have an impossible width")?;
        let count = usize::try_from(input.varint()?).map_err(|_| "a dimension with an impossible count of bins")?;
        let texts = input.u8()? == 1;
        let mut bounds = vec![];
        for _ in 0..count {
            bounds.push(if texts { Value::Bytes(input.bytes()?.to_vec()) } else { Value::Int(input.varint()?) });
        }
        let mut codes = vec![];
        for _ in 0..=count {
            let code = u32::try_from(input.varint()?).ok().filter(|code| *code < 1 << width);
            codes.push(code.ok_or("a dimension with a code that is too wide")?);
        }
        if !bounds.is_sorted() {
            return Err("a dimension whose bins are not in order".into());
        }
        Ok(Bins::new(bounds, codes, width))
    }
}

#[cfg(test)]
mod tests {
    use freestone_codec::{BytesBound, f64_key};
    use proptest::prelude::*;

    use super::*;

    fn text(t: &str) -> Value {
        Value::Bytes(t.as_bytes().to_vec())
    }

    #[test]
    fn prefixes_of_codes_are_levels() {
        let tuple = |region: &str, nation: &str| (vec![text(region), text(nation)], 1);
        let tuples = [tuple("AFRICA", "z1"), tuple("AFRICA", "z2"), tuple("ASIA", "a1"), tuple("EUROPE", "b1")];
        let bins = Bins::of_tuples(&tuples, None);
        // Three regions and NULL: 2 bits. Two nations and NULL: 2 bits.
        assert_eq!((bins.width(), bins.null_code()), (4, 15));
        let codes = ["z1", "z2", "a1", "b1"].map(|n| bins.code_of_bytes(n.as_bytes()));
        assert_eq!(codes, [0b0000, 0b0001, 0b0100, 0b1000]);
        assert_eq!(Bins::of_tuples(&tuples, Some(2)).code_of_bytes(b"b1"), 0b10);
        // Unknown values are in the next bin.
        assert_eq!(bins.code_of_bytes(b"a2"), bins.code_of_bytes(b"b1"));
    }

    #[test]
    fn many_values_are_cut_at_quantiles() {
        // Half of all rows have the value 0.
        let tuples: Vec<_> = (0..10_000).map(|v| (vec![Value::Int(v)], if v == 0 { 10_000 } else { 1 })).collect();
        let bins = Bins::of_tuples(&tuples, Some(3));
        assert_eq!(bins.width(), 3);
        assert_eq!(bins.code_of_int(0), 0);
        assert!(bins.code_of_int(9999) < 7 && bins.code_of_int(9999) > 2);
        assert!(bins.count() <= 7);
    }

    /// `bins` of strings or numbers, a predicate, and the values whose codes it gives.
    fn check(bins: &Bins, predicate: Predicate, values: &[&str]) {
        let mut expected: Vec<u32> = values.iter().map(|v| bins.code_of_bytes(v.as_bytes())).collect();
        expected.sort_unstable();
        assert_eq!(bins.codes_of(&predicate), Some(expected), "{predicate:?}");
    }

    #[test]
    fn predicates_on_texts_become_codes() {
        let texts = ["a", "ab", "abc", "b", "\u{10ffff}"];
        let tuples: Vec<_> = texts.iter().map(|t| (vec![text(t)], 1)).collect();
        let bins = Bins::of_tuples(&tuples, None);
        let bound = |value: &str, inclusive| Some(BytesBound { value: value.as_bytes().to_vec(), inclusive });
        let range = |low, high| Predicate::Bytes(BytesPredicate::Range { low, high });
        let bytes = |list: &[&str]| list.iter().map(|t| t.as_bytes().to_vec()).collect::<Vec<_>>();
        check(&bins, range(bound("ab", true), bound("b", true)), &["ab", "abc", "b"]);
        check(&bins, range(bound("ab", false), bound("abb", false)), &["ab", "abc"]);
        check(&bins, range(None, bound("a", false)), &["a"]);
        check(&bins, range(bound("abc", true), None), &["abc", "b", "\u{10ffff}"]);
        check(&bins, range(bound("b", true), bound("a", true)), &[]);
        check(&bins, Predicate::Bytes(BytesPredicate::In(bytes(&["a", "b"]))), &["a", "b"]);
        check(&bins, Predicate::Bytes(BytesPredicate::In(vec![])), &[]);
        // Strings after the prefix share its bin with values in between.
        check(&bins, Predicate::Bytes(BytesPredicate::Prefix(b"ab".to_vec())), &["ab", "abc", "b"]);
        check(&bins, Predicate::Bytes(BytesPredicate::Prefix(vec![0xff])), &["\u{10ffff}"]);
        check(&bins, Predicate::IsNull, &[]);
        for unsaid in [Predicate::IsNotNull, Predicate::Bytes(BytesPredicate::NotEqual(b"a".to_vec()))] {
            assert_eq!(bins.codes_of(&unsaid), None, "{unsaid:?}");
        }
        assert_eq!((successor(b"a\xff"), successor(b"\xff")), (Some(b"b".to_vec()), None));
    }

    #[test]
    fn predicates_on_numbers_become_codes() {
        let keys = [-2.5, -0.0, 0.0, 7.0].map(|v| i128::from(f64_key(v)));
        let tuples: Vec<_> = keys.iter().map(|key| (vec![Value::Int(*key)], 1)).collect();
        let bins = Bins::of_tuples(&tuples, None);
        let codes = |predicate: IntPredicate| bins.codes_of(&Predicate::Int(predicate));
        let range = |low, high| codes(IntPredicate::Range { low, high });
        assert_eq!(range(keys[1], keys[2]), Some(vec![1, 2]));
        assert_eq!(range(i128::MIN, keys[0]), Some(vec![0]));
        assert_eq!(range(keys[2] + 1, i128::MAX), Some(vec![3]));
        assert_eq!(range(i128::MIN, i128::MAX), Some(vec![0, 1, 2, 3]));
        assert_eq!(range(1, 0), Some(vec![]));
        assert_eq!(codes(IntPredicate::In(vec![keys[0], keys[3]])), Some(vec![0, 3]));
        assert_eq!(codes(IntPredicate::NotEqual(0)), None);
    }

    proptest! {
        #[test]
        fn codes_of_predicates_hold_all_values_that_pass(
            values in prop::collection::btree_set("[ab\u{ff}]{0,3}", 1..30),
            bits in prop::option::of(1u32..5),
            probes in prop::collection::vec("[ab\u{ff}]{0,3}", 1..20),
            (low, high) in ("[ab\u{ff}]{0,3}", "[ab\u{ff}]{0,3}"),
            inclusive in prop::bool::ANY,
        ) {
            let tuples: Vec<_> = values.iter().map(|v| (vec![text(v)], 1)).collect();
            let bins = Bins::of_tuples(&tuples, bits);
            let bound = |value: &str| Some(BytesBound { value: value.as_bytes().to_vec(), inclusive });
            let predicates = [
                BytesPredicate::Range { low: bound(&low), high: bound(&high) },
                BytesPredicate::Range { low: None, high: bound(&high) },
                BytesPredicate::Range { low: bound(&low), high: None },
                BytesPredicate::In(vec![low.clone().into_bytes()]),
                BytesPredicate::Prefix(low.clone().into_bytes()),
            ];
            for predicate in predicates {
                let codes = bins.codes_of(&Predicate::Bytes(predicate.clone())).unwrap();
                for value in values.iter().chain(&probes).filter(|v| predicate.test(v.as_bytes())) {
                    prop_assert!(codes.contains(&bins.code_of_bytes(value.as_bytes())), "{predicate:?} {value:?}");
                }
            }
        }

        #[test]
        fn codes_are_of_bins_and_ranges_hold_them(
            values in prop::collection::btree_set(prop::num::i64::ANY, 1..200),
            bits in prop::option::of(1u32..12),
            probes in prop::collection::vec(prop::num::i64::ANY, 1..20),
        ) {
            let values: Vec<i128> = values.into_iter().map(i128::from).chain([i128::MAX]).collect();
            let tuples: Vec<_> = values.iter().map(|v| (vec![Value::Int(*v)], 1)).collect();
            let bins = Bins::of_tuples(&tuples, bits);
            let mut out = ByteWriter::default();
            bins.write(&mut out);
            let bytes = out.finish();
            prop_assert_eq!(&Bins::read(&mut ByteReader::new(&bytes)).unwrap(), &bins);
            let probes = probes.into_iter().map(i128::from).chain([i128::MIN, i128::MAX, 0]);
            for probe in probes.chain(values) {
                let code = bins.code_of_int(probe);
                prop_assert!(code < bins.null_code());
                for (low, high) in [(probe, probe), (i128::MIN, probe), (probe, i128::MAX), (probe.saturating_sub(5), probe)] {
                    prop_assert!(bins.codes_between(Some(&Value::Int(low)), Some(&Value::Int(high))).contains(&code));
                }
            }
        }
    }
}
