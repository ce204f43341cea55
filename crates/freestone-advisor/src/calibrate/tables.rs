//! The columns for measuring kernels: one for each way to store values.

use std::sync::Arc;

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringViewArray};
use freestone_codec::{BytesPredicate, IntPredicate, Predicate, f64_key};

use super::scans::Named;
use crate::profile::Family;

/// A column to measure, and a predicate on it that few rows satisfy and no zone decides.
pub struct Subject {
    pub family: Family,
    pub parameter: f64,
    pub column: Named,
    pub predicate: Option<Predicate>,
    /// For strings: equality with one of them.
    pub equal: Option<Predicate>,
}

/// xorshift64*: the same tables on every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

/// Columns of random integers of `bits` bits.
pub fn random_columns(rows: usize, count: usize, bits: u32) -> Vec<Named> {
    let mut random = Random(31);
    let mut column = |at: usize| -> Named {
        let values: Vec<i64> = (0..rows).map(|_| (random.next() >> (64 - bits)) as i64).collect();
        (format!("c{at}"), Arc::new(Int64Array::from(values)), "")
    };
    (0..count).map(&mut column).collect()
}

/// The number of values of the column that selects rows. Every range of values has its share of the rows, at random
/// positions.
pub const SELECTOR: u64 = 1 << 20;

/// The column that selects rows.
pub fn selector(rows: usize) -> Named {
    let mut random = Random(3);
    (
        "selector".into(),
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| random.below(SELECTOR) as i64))),
        "bitpack",
    )
}

/// The column whose values ascend, and the mean difference of its values.
pub const RISING: &str = "deltalz_8";
pub const RISING_STEP: i128 = 90;

fn ints(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn range(low: i128, high: i128) -> Option<Predicate> {
    Some(Predicate::Int(IntPredicate::Range { low, high }))
}

fn prefix(text: &str) -> Option<Predicate> {
    Some(Predicate::Bytes(BytesPredicate::Prefix(text.as_bytes().to_vec())))
}

fn equal(text: &str) -> Option<Predicate> {
    Some(Predicate::Bytes(BytesPredicate::In(vec![text.as_bytes().to_vec()])))
}

/// Words like those of real text: some letters, and some pairs of letters, are frequent.
fn word(random: &mut Random, length: usize) -> String {
    const PARTS: [&str; 16] =
        ["an", "er", "in", "the", "qu", "st", "o", "a", "e", "ion", "re", "z", "ly", "com", "b", "s"];
    let mut text = String::new();
    while text.len() < length {
        text.push_str(PARTS[random.below(16) as usize]);
    }
    text.truncate(length);
    text
}

fn texts(values: impl Iterator<Item = String>) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

/// One column for each way in which chunks store values.
pub fn chunks(rows: usize) -> Vec<Subject> {
    let mut subjects = numbers(rows);
    subjects.extend(dictionaries(rows));
    subjects.extend(strings(rows));
    subjects
}

fn subject(family: Family, parameter: f64, array: ArrayRef, encoding: &'static str, few: Option<Predicate>) -> Subject {
    let name = format!("{family:?}_{parameter}").to_lowercase().replace('.', "_");
    Subject { family, parameter, column: (name, array, encoding), predicate: few, equal: None }
}

fn numbers(rows: usize) -> Vec<Subject> {
    let mut random = Random(11);
    let mut uniform =
        |bits: u32| ints((0..rows).map(|_| (random.next() >> (64 - bits)) as i64).collect::<Vec<_>>().into_iter());
    let few = |bits: u32| range((1i128 << bits) * 9 / 10, 1i128 << bits);
    let mut subjects = vec![
        subject(Family::Constant, 0.0, ints((0..rows).map(|_| 7)), "bitpack", None),
        subject(Family::Plain, 64.0, uniform(63), "plain", few(63)),
        subject(Family::BitPack, 4.0, uniform(4), "bitpack", few(4)),
        subject(Family::BitPack, 14.0, uniform(14), "bitpack", few(14)),
        subject(Family::BitPack, 40.0, uniform(40), "bitpack", few(40)),
    ];
    // A sawtooth with several teeth per zone, so that no zone decides.
    let saw = ints((0..rows).map(|row| (row % 1000) as i64 * 37 + (row * 31 % 29) as i64));
    subjects.push(subject(Family::Delta, 8.0, saw, "delta", range(34_000, 40_000)));
    let rising = ints((0..rows).map(|row| row as i64 * RISING_STEP as i64 + (row * 31 % 83) as i64));
    subjects.push(subject(Family::DeltaLz, 8.0, rising, "delta_lz", None));
    for run in [6, 60] {
        let values: Vec<i64> = (0..rows.div_ceil(run)).map(|_| random.below(1000) as i64).collect();
        let runs = ints((0..rows).map(|row| values[row / run]));
        subjects.push(subject(Family::Rle, run as f64, runs, "rle", range(900, 1000)));
    }
    let decimals: Vec<f64> = (0..rows).map(|_| random.below(1_000_000) as f64 / 100.0).collect();
    let keys = |low: f64| range(f64_key(low).into(), f64_key(1e9).into());
    subjects.push(subject(Family::Alp, 20.0, Arc::new(Float64Array::from(decimals.clone())), "alp", keys(9000.0)));
    subjects.push(subject(Family::Float, 64.0, Arc::new(Float64Array::from(decimals)), "plain", keys(9000.0)));
    let fine: Vec<f64> = (0..rows).map(|_| random.next() as f64 / 1e19).collect();
    subjects.push(subject(Family::FloatKey, 60.0, Arc::new(Float64Array::from(fine)), "bitpack", keys(1.7)));
    let wide = Decimal128Array::from_iter_values((0..rows).map(|_| i128::from(random.next()) << 8));
    let wide = wide.with_precision_and_scale(38, 2).expect("a decimal that fits");
    subjects.push(subject(Family::Wide, 72.0, Arc::new(wide), "bitpack", range(1 << 71, 1 << 72)));
    let nullable =
        Int64Array::from_iter((0..rows).map(|_| (random.below(10) > 0).then(|| random.below(1 << 14) as i64)));
    subjects.push(subject(Family::Nulls, 0.0, Arc::new(nullable), "bitpack", few(14)));
    subjects
}

fn dictionaries(rows: usize) -> Vec<Subject> {
    let mut random = Random(13);
    let entries: Vec<i64> = (0..8000).map(|i| i * 1_000_003_579 + (i * 7919) % 1000).collect();
    let mut draw = |run: usize, distinct: u64| {
        let codes: Vec<usize> = (0..rows.div_ceil(run)).map(|_| random.below(distinct) as usize).collect();
        move |row: usize| codes[row / run]
    };
    let (each, runs, many) = (draw(1, 1000), draw(40, 1000), draw(1, 5000));
    let few = |from: i128| range(from * 1_000_003_579, i128::from(i64::MAX));
    let own = |code: &dyn Fn(usize) -> usize| ints((0..rows).map(|row| entries[code(row)]));
    let mut subjects = vec![
        subject(Family::Dictionary, 10.0, own(&each), "dictionary", few(900)),
        subject(Family::DictionaryRle, 40.0, own(&runs), "dictionary_rle", few(900)),
        subject(Family::PageDictionary, 1000.0, own(&each), "page_dictionary", few(900)),
        subject(Family::PageDictionary, 5000.0, own(&many), "page_dictionary", few(4500)),
    ];
    for length in [8usize, 24] {
        let name = |code: usize| format!("{:0width$}", code * 7, width = length);
        let own = |code: &dyn Fn(usize) -> usize| texts((0..rows).map(|row| name(code(row))));
        // The hundred words from 900 on have a common prefix.
        let (some, at) = (prefix(&name(900)[..length - 2]), length as f64);
        let mut add = |family, parameter, array, encoding, some: Option<Predicate>| {
            let equal = equal(&name(500));
            subjects.push(Subject { equal, ..subject(family, parameter, array, encoding, some) });
        };
        add(Family::TextDictionary, at, own(&each), "dictionary", some.clone());
        add(Family::TextDictionaryRle, at, own(&runs), "dictionary_rle", some.clone());
        if length == 24 {
            add(Family::TextPageDictionary, 1000.0, own(&each), "page_dictionary", some.clone());
            add(Family::TextPageDictionary, 5000.0, own(&many), "page_dictionary", some);
        }
    }
    subjects
}

fn strings(rows: usize) -> Vec<Subject> {
    let mut random = Random(17);
    let mut subjects = vec![];
    for (family, encoding, lengths) in [
        (Family::Text, "plain", &[6usize, 16, 48][..]),
        (Family::Fsst, "fsst", &[10, 48]),
        (Family::Block, "block", &[16, 48]),
    ] {
        for length in lengths {
            let mut last = String::new();
            let values = texts((0..rows).map(|_| {
                let length = length / 2 + random.below(*length as u64) as usize + 1;
                last = word(&mut random, length);
                last.clone()
            }));
            let equal = equal(&last);
            let own = subject(family, *length as f64, values, encoding, prefix("st"));
            subjects.push(Subject { equal, ..own });
        }
    }
    subjects
}

/// The columns of a group of tuples: the measured ones, and the fields that make the tuple long.
pub fn tuples(rows: usize) -> Vec<Subject> {
    let mut random = Random(19);
    let mut uniform = |bits: u32| -> Vec<i64> { (0..rows).map(|_| (random.next() >> (64 - bits)) as i64).collect() };
    let few = |bits: u32| range((1i128 << bits) * 9 / 10, 1i128 << bits);
    let mut subjects = vec![
        subject(Family::BitPack, 20.0, ints(uniform(20).into_iter()), "", few(20)),
        subject(Family::General, 62.0, ints(uniform(62).into_iter()), "", few(62)),
    ];
    let fine: Vec<f64> = uniform(50).into_iter().map(|v| v as f64 / 1e15).collect();
    let keys = range(f64_key(1.0).into(), f64_key(1e9).into());
    subjects.push(subject(Family::FloatKey, 50.0, Arc::new(Float64Array::from(fine)), "", keys));
    let nulls = uniform(14).into_iter().enumerate().map(|(row, v)| (row % 10 != 3).then_some(v));
    subjects.push(subject(Family::Nulls, 0.0, Arc::new(nulls.collect::<Int64Array>()), "", few(14)));
    let all = dictionaries(rows).into_iter();
    subjects.extend(all.filter(|s| matches!(s.family, Family::Dictionary | Family::TextDictionary)));
    let plain = strings(rows).into_iter().filter(|s| matches!(s.family, Family::Text | Family::Fsst));
    subjects.extend(plain.filter(|s| s.parameter < 40.0));
    subjects
}
