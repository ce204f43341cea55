//! Interleaving the codes of a row's dimensions, bit by bit, into its key.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bits of a key.
pub const KEY_BITS: u32 = 64;

/// The order of the dimensions' bits in the key. The bits of one dimension are always in their own order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BitOrder {
    /// The most significant bits of all dimensions first, then the next of each, and so on.
    #[default]
    RoundRobin,
    /// All bits of the first dimension, then all of the second, and so on.
    MajorMinor,
    /// The dimension of each bit of the key, from the most significant. Bits that are left follow round robin; a
    /// dimension that has none left is passed over.
    Pattern(Vec<usize>),
}

/// The largest number of bits that a pattern may name.
const PATTERN_MAX: usize = KEY_BITS as usize;

impl BitOrder {
    /// Parses `round_robin`, `major_minor`, or the position of a dimension for each bit, from 1: `1, 2, 2, 1`.
    ///
    /// # Errors
    /// The expected form, or that there are fewer than so many dimensions.
    pub fn parse(text: &str, dimensions: usize) -> Result<BitOrder, String> {
        match text.to_ascii_lowercase().as_str() {
            "round_robin" => return Ok(BitOrder::RoundRobin),
            "major_minor" => return Ok(BitOrder::MajorMinor),
            _ => {}
        }
        let form = "the values are round_robin, major_minor, and the dimension of each bit of the key, from 1, such as '1, 2, 2, 1'";
        let places: Option<Vec<usize>> = text.split(',').map(|part| part.trim().parse().ok()).collect();
        let places = places.filter(|places| places.len() <= PATTERN_MAX).ok_or(form)?;
        match places.iter().find(|place| !(1..=dimensions).contains(*place)) {
            Some(place) => Err(format!("there is no dimension {place}, cluster has {dimensions}")),
            None => Ok(BitOrder::Pattern(places.iter().map(|place| place - 1).collect())),
        }
    }

    /// Whether it is [`BitOrder::RoundRobin`].
    pub fn is_round_robin(&self) -> bool {
        *self == BitOrder::RoundRobin
    }

    /// The order of some of the dimensions, which are numbered anew.
    pub fn of_dimensions(&self, kept: &[usize]) -> BitOrder {
        match self {
            BitOrder::Pattern(pattern) => {
                let place = |dimension: &usize| kept.iter().position(|kept| kept == dimension);
                BitOrder::Pattern(pattern.iter().filter_map(place).collect())
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for BitOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BitOrder::RoundRobin => f.write_str("round_robin"),
            BitOrder::MajorMinor => f.write_str("major_minor"),
            BitOrder::Pattern(pattern) => {
                let places: Vec<String> = pattern.iter().map(|dimension| (dimension + 1).to_string()).collect();
                f.write_str(&places.join(", "))
            }
        }
    }
}

/// The assignment of the dimensions' bits to the bits of the key (Götze, Baumann and Sattler 2018, section II.B).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interleave {
    /// For each bit of the key, from the most significant: the dimension, and the bit of its code.
    places: Vec<(usize, u32)>,
    widths: Vec<u32>,
    /// For each dimension the bits of its code that the key has, each with its place in the key from the least significant.
    bits: Vec<Vec<(u32, u32)>>,
}

impl Interleave {
    /// An assignment for codes with these widths in bits. A key has at most `bits` bits; the least significant ones are
    /// omitted first.
    pub fn new(widths: &[u32], bits: u32) -> Self {
        let mut places = vec![];
        for round in 0..widths.iter().copied().max().unwrap_or(0) {
            for (dimension, width) in widths.iter().enumerate().filter(|(_, width)| round < **width) {
                places.push((dimension, width - 1 - round));
            }
        }
        places.truncate(bits.min(KEY_BITS) as usize);
        Interleave::of_places(places, widths)
    }

    fn of_places(places: Vec<(usize, u32)>, widths: &[u32]) -> Self {
        let mut bits = vec![vec![]; widths.len()];
        for (at, (dimension, bit)) in places.iter().rev().enumerate() {
            bits[*dimension].push((*bit, at as u32));
        }
        Interleave { places, widths: widths.to_vec(), bits }
    }

    /// An assignment in another order.
    ///
    /// # Errors
    /// A pattern names a dimension that does not exist.
    pub fn ordered(widths: &[u32], bits: u32, order: &BitOrder) -> Result<Self, String> {
        let wanted: Vec<usize> = match order {
            BitOrder::RoundRobin => vec![],
            BitOrder::MajorMinor => (0..widths.len()).flat_map(|d| vec![d; widths[d] as usize]).collect(),
            BitOrder::Pattern(pattern) => pattern.clone(),
        };
        let mut left = widths.to_vec();
        let mut places = vec![];
        for dimension in wanted {
            let bits = left.get_mut(dimension).ok_or_else(|| {
                format!("the pattern names dimension {dimension}, and the last is {}", widths.len().saturating_sub(1))
            })?;
            if let Some(rest) = bits.checked_sub(1) {
                *bits = rest;
                places.push((dimension, rest));
            }
        }
        let rest = Interleave::new(&left, u32::MAX).places;
        places.extend(rest);
        places.truncate(bits.min(KEY_BITS) as usize);
        Ok(Interleave::of_places(places, widths))
    }

    /// The bits of a key that belong to a dimension.
    pub fn mask(&self, dimension: usize) -> u64 {
        self.places.iter().fold(0, |mask, (of, _)| mask << 1 | u64::from(*of == dimension))
    }

    /// The bits of a key that a dimension's code gives. They are in the order of the codes.
    pub fn deposit(&self, dimension: usize, code: u32) -> u64 {
        self.bits[dimension].iter().fold(0, |key, (bit, at)| key | u64::from(code >> bit & 1) << at)
    }

    /// The number of bits of a key.
    pub fn bits(&self) -> u32 {
        self.places.len() as u32
    }

    /// The key of a row with these codes.
    pub fn key(&self, codes: impl Fn(usize) -> u32) -> u64 {
        (0..self.widths.len()).fold(0, |key, dimension| key | self.deposit(dimension, codes(dimension)))
    }

    /// The smallest and largest code that a dimension's rows can have under a key.
    pub fn codes(&self, key: u64, dimension: usize) -> (u32, u32) {
        let (mut code, mut known) = (0u32, 0u32);
        for (at, (_, bit)) in self.places.iter().enumerate().filter(|(_, (d, _))| *d == dimension) {
            known |= 1 << bit;
            code |= ((key >> (self.places.len() - 1 - at) & 1) as u32) << bit;
        }
        let all = (1u64 << self.widths[dimension]) - 1;
        (code, code | (!known & all as u32))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bits_go_round() {
        let key = Interleave::new(&[3, 1, 2], 64);
        // a2 b0 c1 a1 c0 a0
        assert_eq!(key.key(|d| [0b101, 0b1, 0b10][d]), 0b111001);
        assert_eq!(key.codes(0b111001, 0), (0b101, 0b101));
        assert_eq!(Interleave::new(&[3, 1, 2], 3).codes(0b111, 0), (0b100, 0b111));
        assert_eq!(Interleave::new(&[], 64).key(|_| 0), 0);
    }

    #[test]
    fn bits_go_in_any_order() {
        let places = |order: &BitOrder| Interleave::ordered(&[3, 1, 2], 64, order).map(|key| key.places);
        assert_eq!(places(&BitOrder::RoundRobin), Ok(Interleave::new(&[3, 1, 2], 64).places));
        assert_eq!(places(&BitOrder::MajorMinor), Ok(vec![(0, 2), (0, 1), (0, 0), (1, 0), (2, 1), (2, 0)]));
        let pattern = |pattern: &[usize]| BitOrder::Pattern(pattern.to_vec());
        assert_eq!(places(&pattern(&[2, 2, 0])), Ok(vec![(2, 1), (2, 0), (0, 2), (0, 1), (1, 0), (0, 0)]));
        assert!(places(&pattern(&[3])).expect_err("refused").contains("dimension 3"));
        assert_eq!(places(&pattern(&[1, 1, 0])), places(&pattern(&[1, 0])));
        let key = Interleave::new(&[3, 1, 2], 64);
        assert_eq!((key.mask(0), key.mask(1), key.mask(2)), (0b100101, 0b010000, 0b001010));
        assert_eq!(key.deposit(0, 0b101) | key.deposit(1, 1) | key.deposit(2, 0b10), 0b111001);
    }

    #[test]
    fn orders_print_and_read_back() {
        for text in ["round_robin", "major_minor", "1, 2, 2, 1", "2"] {
            assert_eq!(BitOrder::parse(text, 2).expect(text).to_string(), text);
        }
        for (wrong, part) in [
            ("both", "the values are"),
            ("1,,2", "the values are"),
            ("0", "no dimension 0"),
            ("1, 3", "no dimension 3"),
        ] {
            assert!(BitOrder::parse(wrong, 2).expect_err(wrong).contains(part), "{wrong}");
        }
        assert_eq!(BitOrder::Pattern(vec![0, 2, 1]).of_dimensions(&[1, 2]), BitOrder::Pattern(vec![1, 0]));
    }

    proptest! {
        #[test]
        fn codes_lie_in_what_their_key_says(
            dimensions in prop::collection::vec((1u32..=24, any::<u32>()), 1..6), bits in 0u32..80,
        ) {
            let widths: Vec<u32> = dimensions.iter().map(|d| d.0).collect();
            let codes: Vec<u32> = dimensions.iter().map(|(w, c)| c & ((1 << w) - 1)).collect();
            let interleave = Interleave::new(&widths, bits);
            let key = interleave.key(|d| codes[d]);
            for (d, code) in codes.iter().enumerate() {
                let (low, high) = interleave.codes(key, d);
                prop_assert!(low <= *code && *code <= high);
                if interleave.bits() == widths.iter().sum::<u32>() {
                    prop_assert_eq!(low, high);
                }
            }
        }
    }
}
