//! The paper's tuples `<int, int, string, double>` (Götze, Baumann and Sattler 2018, section V).

use std::fmt::Write as _;

#[cfg(feature = "freestone")]
use freestone_codec::Kind;
#[cfg(feature = "freestone")]
use freestone_store::column::{ColumnData, Physical};

use crate::random::Random;

/// Keys are 0 to rows - 1 in random order; the doubles are in another random order.
pub struct Tuples {
    /// As our table takes them.
    #[cfg(feature = "freestone")]
    pub columns: Vec<ColumnData>,
    keys: Vec<i64>,
    texts: Vec<String>,
    doubles: Vec<f64>,
}

impl Tuples {
    /// From a seed.
    pub fn generate(rows: usize) -> Tuples {
        let mut random = Random::new(7);
        let mut shuffled = || {
            let mut values: Vec<i64> = (0..rows as i64).collect();
            for at in (1..rows).rev() {
                values.swap(at, random.below(at as u32 + 1) as usize);
            }
            values
        };
        let (keys, doubles) = (shuffled(), shuffled());
        let doubles: Vec<f64> = doubles.iter().map(|value| *value as f64 / 2.0).collect();
        let texts: Vec<String> = keys.iter().map(|key| format!("tuple {key:08}")).collect();
        Tuples {
            #[cfg(feature = "freestone")]
            columns: columns(&keys, &texts, &doubles),
            keys,
            texts,
            doubles,
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn key(&self, row: usize) -> i64 {
        self.keys[row]
    }

    pub fn number(&self, row: usize) -> i64 {
        self.keys[row] % 1000
    }

    pub fn text(&self, row: usize) -> &str {
        &self.texts[row]
    }

    pub fn double(&self, row: usize) -> f64 {
        self.doubles[row]
    }

    /// What stores of keys and values store: the number, the double and the text.
    pub fn value(&self, row: usize) -> Vec<u8> {
        let mut value = Vec::with_capacity(40);
        value.extend_from_slice(&self.number(row).to_le_bytes());
        value.extend_from_slice(&self.double(row).to_le_bytes());
        value.extend_from_slice(self.texts[row].as_bytes());
        value
    }

    /// As CSV, for engines in other processes.
    pub fn csv(&self) -> String {
        let mut text = String::from("k,n,s,d\n");
        for row in 0..self.len() {
            let _ = writeln!(text, "{},{},{},{}", self.key(row), self.number(row), self.text(row), self.double(row));
        }
        text
    }
}

#[cfg(feature = "freestone")]
fn columns(keys: &[i64], texts: &[String], doubles: &[f64]) -> Vec<ColumnData> {
    let mut columns = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64].map(ColumnData::new).to_vec();
    let (mut offsets, mut data) = (vec![0], vec![]);
    for text in texts {
        data.extend_from_slice(text.as_bytes());
        offsets.push(data.len() as u32);
    }
    columns[0].values = Physical::Int(keys.to_vec());
    columns[1].values = Physical::Int(keys.iter().map(|key| key % 1000).collect());
    columns[2].values = Physical::Bytes { offsets, data };
    columns[3].values = Physical::F64(doubles.to_vec());
    columns
}

/// The double in a value.
pub fn double_of(value: &[u8]) -> f64 {
    value.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(f64::NAN, f64::from_le_bytes)
}
