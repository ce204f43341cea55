//! Groups by position: keys that have few values are numbered, and their numbers are a position in an array.
//!
//! Integers are numbered from their least value on, texts as they come, once per entry of a dictionary. The positions
//! of a key's numbers are multiples of the capacity of the keys before it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::rows::Field;
use crate::vector::{Dictionary, Form, Values, Vector};

/// What is known of a key before its values are seen.
#[derive(Debug, Clone)]
pub struct KeyDomain {
    /// The field of its rows.
    pub field: Field,
    /// The least and greatest integer.
    pub bounds: Option<(i64, i64)>,
}

/// The most positions of the array.
const POSITIONS: usize = 1 << 23;
/// The first capacity of texts.
const TEXTS: usize = 32;

#[derive(Debug)]
enum Numbers {
    Ints { low: i64 },
    Bits,
    Texts { known: HashMap<Vec<u8>, u32>, dictionaries: Vec<Numbered> },
}

/// The numbers of the texts of a dictionary.
#[derive(Debug)]
struct Numbered {
    dictionary: Arc<Dictionary>,
    /// By code.
    numbers: Vec<u32>,
    /// How many texts have no number yet.
    unknown: usize,
}

#[derive(Debug)]
struct Key {
    numbers: Numbers,
    /// The numbers that it may have. The last one is that of NULL.
    capacity: usize,
}

/// The array of groups.
#[derive(Debug)]
pub struct Direct {
    keys: Vec<Key>,
    /// The group of each position plus one; zero: none.
    groups: Vec<u32>,
    positions: Vec<u32>,
}

/// No number yet.
const UNKNOWN: u32 = u32::MAX;

impl Direct {
    /// An array for these keys; `None` if one may have many values.
    pub fn new(domains: &[KeyDomain]) -> Option<Direct> {
        let key = |domain: &KeyDomain| match (domain.field.form, domain.bounds) {
            (Form::Int, Some((low, high))) => {
                let capacity = usize::try_from(high.checked_sub(low)?).ok()?.checked_add(2)?;
                Some(Key { numbers: Numbers::Ints { low }, capacity })
            }
            (Form::Bits, _) => Some(Key { numbers: Numbers::Bits, capacity: 3 }),
            (Form::Text, _) => {
                let numbers = Numbers::Texts { known: HashMap::new(), dictionaries: vec![] };
                Some(Key { numbers, capacity: TEXTS })
            }
            _ => None,
        };
        let keys = domains.iter().map(key).collect::<Option<Vec<Key>>>()?;
        let positions = positions_of(&keys).filter(|_| !keys.is_empty())?;
        Some(Direct { keys, groups: vec![0; positions], positions: vec![] })
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        self.groups.len() * 4
    }

    /// Appends the groups of rows to `groups`; those that are new are numbered from `next` on, and their rows appended to
    /// `added`. `false`: there are too many values, and nothing was appended.
    pub fn find(
        &mut self,
        keys: &[Vector],
        rows: usize,
        next: usize,
        groups: &mut Vec<u32>,
        added: &mut Vec<u32>,
    ) -> bool {
        if !self.set_positions(keys, rows) {
            return false;
        }
        let mut next = next as u32;
        groups.extend(self.positions.iter().enumerate().map(|(row, position)| {
            let group = &mut self.groups[*position as usize];
            if *group == 0 {
                next += 1;
                *group = next;
                added.push(row as u32);
            }
            *group - 1
        }));
        true
    }

    fn set_positions(&mut self, keys: &[Vector], rows: usize) -> bool {
        self.positions.clear();
        self.positions.resize(rows, 0);
        // Texts are numbered first, because the capacities change when they are too many.
        for (at, key) in keys.iter().enumerate() {
            if !self.number_texts(at, key) {
                return false;
            }
        }
        let Direct { keys: numbered, positions, .. } = self;
        let mut stride = 1;
        for (of, key) in numbered.iter().zip(keys) {
            if !of.add(key, stride, positions) {
                return false;
            }
            stride *= of.capacity as u32;
        }
        true
    }

    fn number_texts(&mut self, at: usize, vector: &Vector) -> bool {
        let Numbers::Texts { known, dictionaries } = &mut self.keys[at].numbers else { return true };
        let Values::Codes(codes, dictionary) = &vector.values else { return false };
        let place = dictionaries.iter().rposition(|of| Arc::ptr_eq(&of.dictionary, dictionary)).unwrap_or_else(|| {
            let unknown = dictionary.texts.len();
            dictionaries.push(Numbered { dictionary: dictionary.clone(), numbers: vec![UNKNOWN; unknown], unknown });
            dictionaries.len() - 1
        });
        let Numbered { numbers, unknown, .. } = &mut dictionaries[place];
        if *unknown == 0 {
            return true;
        }
        for (row, code) in codes.iter().enumerate() {
            // NULL rows may have any code.
            if numbers.get(*code as usize) == Some(&UNKNOWN) && !vector.is_null(row) {
                let text = dictionary.texts.get(*code as usize);
                let number = known.len() as u32;
                numbers[*code as usize] = *known.entry_ref(text).or_insert(number);
                *unknown -= 1;
            }
        }
        // The place behind the last number is that of NULL.
        known.len() < self.keys[at].capacity || self.grow(at)
    }

    /// Makes room for more texts, and moves the groups.
    fn grow(&mut self, at: usize) -> bool {
        let Numbers::Texts { known, .. } = &self.keys[at].numbers else { return false };
        let before: Vec<usize> = self.keys.iter().map(|key| key.capacity).collect();
        self.keys[at].capacity = (known.len() + 1).next_power_of_two() * 2;
        let Some(positions) = positions_of(&self.keys) else { return false };
        let mut groups = vec![0; positions];
        for (position, group) in self.groups.iter().enumerate().filter(|(_, group)| **group > 0) {
            let (mut rest, mut moved, mut stride) = (position, 0, 1);
            for (key, before) in self.keys.iter().zip(&before) {
                let number = rest % before;
                // NULL stays the last one.
                let number = if number == before - 1 { key.capacity - 1 } else { number };
                moved += number * stride;
                (rest, stride) = (rest / before, stride * key.capacity);
            }
            groups[moved] = *group;
        }
        self.groups = groups;
        true
    }
}

fn positions_of(keys: &[Key]) -> Option<usize> {
    let all = keys.iter().try_fold(1usize, |all, key| all.checked_mul(key.capacity))?;
    (all <= POSITIONS).then_some(all)
}

impl Key {
    /// Adds the numbers of values to positions. `false`: a value is outside of the bounds.
    fn add(&self, vector: &Vector, stride: u32, positions: &mut [u32]) -> bool {
        let null = self.capacity as u32 - 1;
        let mut is_inside = true;
        match (&self.numbers, &vector.values) {
            (Numbers::Ints { low }, Values::Int(values)) => {
                // NULL rows may have any value.
                let number = |value: i64| (value.wrapping_sub(*low) as u64).min(null.into()) as u32;
                for (at, value) in positions.iter_mut().zip(values.iter()) {
                    let number = number(*value);
                    is_inside &= number != null;
                    *at += number * stride;
                }
                self.set_nulls(vector, stride, positions, |row| number(values[row]));
                is_inside =
                    is_inside || (0..values.len()).all(|row| vector.is_null(row) || number(values[row]) != null);
            }
            (Numbers::Bits, Values::Bits(values)) => {
                positions.iter_mut().zip(values.iter()).for_each(|(at, value)| *at += u32::from(value) * stride);
                self.set_nulls(vector, stride, positions, |row| values.value(row).into());
            }
            (Numbers::Texts { dictionaries, .. }, Values::Codes(codes, dictionary)) => {
                let known = dictionaries.iter().rev().find(|of| Arc::ptr_eq(&of.dictionary, dictionary));
                let numbers = &known.expect("its texts were numbered").numbers;
                let number = |code: u32| numbers.get(code as usize).map_or(null, |number| (*number).min(null));
                positions.iter_mut().zip(codes.iter()).for_each(|(at, code)| *at += number(*code) * stride);
                self.set_nulls(vector, stride, positions, |row| number(codes[row]));
            }
            (numbers, values) => unreachable!("{values:?} for {numbers:?}"),
        }
        is_inside
    }

    fn set_nulls(&self, vector: &Vector, stride: u32, positions: &mut [u32], number: impl Fn(usize) -> u32) {
        if let Some(valid) = &vector.valid {
            let null = self.capacity as u32 - 1;
            for row in (!valid.inner()).set_indices() {
                positions[row] = positions[row] - number(row) * stride + null * stride;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    fn domain(form: Form, bounds: Option<(i64, i64)>) -> KeyDomain {
        let data_type = arrow_schema::DataType::Null;
        KeyDomain { field: Field { form, data_type, nullable: true, is_key: true }, bounds }
    }

    fn coded(texts: &[&str], codes: Vec<u32>, nulls: &[usize]) -> Vector {
        let valid = (0..codes.len()).map(|row| !nulls.contains(&row)).collect::<Vec<_>>();
        let dictionary = Arc::new(Dictionary::new(StringViewArray::from_iter_values(texts)));
        Vector::with_nulls(Values::Codes(codes.into(), dictionary), Some(valid.into()))
    }

    #[test]
    fn equal_keys_have_one_group_whatever_their_dictionaries_and_capacities_are() {
        let mut direct =
            Direct::new(&[domain(Form::Text, None), domain(Form::Int, Some((-1, 3)))]).expect("few values");
        let mut seen: HashMap<(Option<String>, Option<i64>), u32> = HashMap::new();
        let mut total = 0;
        for step in 0..40usize {
            let texts: Vec<String> = (0..50).map(|at| format!("text {}", (at * 7 + step * 3) % 90)).collect();
            let views: Vec<&str> = texts.iter().map(String::as_str).collect();
            let codes: Vec<u32> = (0..30).map(|row| ((row * 11 + step * 5) % 50) as u32).collect();
            let vector = coded(&views, codes.clone(), &[3, 17]);
            let ints: Vec<i64> = (0..30).map(|row| (row as i64 * 3 + step as i64) % 5 - 1).collect();
            let valid: Vec<bool> = (0..30).map(|row| row % 9 != step % 9).collect();
            let int = Vector::with_nulls(Values::Int(ints.clone().into()), Some(valid.clone().into()));
            let (mut groups, mut added) = (vec![], vec![]);
            assert!(direct.find(&[vector, int], 30, total, &mut groups, &mut added));
            total += added.len();
            for row in 0..30 {
                let text = (row != 3 && row != 17).then(|| texts[codes[row] as usize].clone());
                let key = (text, valid[row].then_some(ints[row]));
                assert_eq!(*seen.entry(key).or_insert(groups[row]), groups[row]);
            }
        }
        assert_eq!(seen.len(), total);
        assert!(seen.len() > 300, "so the capacity has grown");
    }

    #[test]
    fn many_values_are_refused() {
        assert!(Direct::new(&[domain(Form::Int, None)]).is_none());
        assert!(Direct::new(&[domain(Form::Int, Some((i64::MIN, i64::MAX)))]).is_none());
        assert!(Direct::new(&[domain(Form::Int, Some((0, 1 << 12))), domain(Form::Int, Some((0, 1 << 12)))]).is_none());
        assert!(Direct::new(&[]).is_none());
    }
}
