//! Counts of the distinct values of a column whose values are one word.
//!
//! Words are divided by their hashes as they come, and each part is made distinct by itself, within the caches, whenever it has
//! doubled. Integers of few possible values are bits of a bitmap instead. NULL does not count.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arrow_buffer::NullBuffer;
use freestone_codec::hash::hash_i64;
use parking_lot::Mutex;

use crate::error::Result;
use crate::hash::float_key;
use crate::pipeline::{Claim, Context, Finished, Results, Sink, SinkWorker, Source, Take, check};
use crate::states::{PARTITIONS, partition_of};
use crate::vector::{Batch, Form, Values, Vector};

/// A part is not made distinct before it has so many words.
const PART_WORDS_MIN: usize = 1 << 13;
/// The most possible values of a bitmap.
const BITS_MAX: u64 = 1 << 23;
/// The words seen last, of which repetitions are dropped at once.
const RECENT: usize = 1 << 11;

/// The number of distinct values of the first column of batches.
pub struct DistinctCount {
    /// The least and greatest integer, if they are known.
    bounds: Option<(i64, i64)>,
    context: Arc<dyn Context>,
    done: Mutex<Arc<Vec<Seen>>>,
    next: AtomicUsize,
}

impl DistinctCount {
    /// A count of values, which are integers between `bounds` where these are known, floats or booleans.
    pub fn new(bounds: Option<(i64, i64)>, context: Arc<dyn Context>) -> Arc<DistinctCount> {
        Arc::new(DistinctCount { bounds, context, done: Mutex::default(), next: AtomicUsize::new(0) })
    }

    /// Whether values of a form are one word.
    pub fn takes(form: Form) -> bool {
        matches!(form, Form::Int | Form::Float | Form::Bits)
    }

    /// One row or several with a count, whose sum is the number of distinct values.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }
}

/// What one thread has seen.
enum Seen {
    Bits(Bits),
    Parts(Parts),
}

impl Seen {
    fn new(bounds: Option<(i64, i64)>) -> Seen {
        let few = bounds.and_then(|(low, high)| Some((low, u64::try_from(high.checked_sub(low)?).ok()?)));
        match few.filter(|(_, last)| *last < BITS_MAX) {
            Some((low, last)) => Seen::Bits(Bits { low, words: vec![0; (last / 64 + 1) as usize] }),
            None => Seen::Parts(Parts::new()),
        }
    }

    fn add(&mut self, column: &Vector) {
        if let (Seen::Bits(bits), Values::Int(values)) = (&mut *self, &column.values) {
            if bits.add(values, column.valid.as_ref()) {
                return;
            }
            // There are values outside of the bounds.
            *self = Seen::Parts(bits.to_parts());
        }
        let Seen::Parts(parts) = self else { unreachable!("bitmaps are of integers") };
        let valid = column.valid.as_ref();
        match &column.values {
            Values::Int(values) => parts.add_all(values.iter().map(|value| *value as u64), valid),
            Values::Float(values) => parts.add_all(values.iter().map(|value| float_key(*value)), valid),
            Values::Bits(values) => parts.add_all(values.iter().map(u64::from), valid),
            other => unreachable!("values of one word were compiled, not {other:?}"),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Seen::Bits(bits) => bits.words.len() * 8,
            Seen::Parts(parts) => parts.bytes(),
        }
    }
}

/// A bit for each possible integer from the least on.
struct Bits {
    low: i64,
    words: Vec<u64>,
}

impl Bits {
    /// `false`: a value has no bit. Those before it are added.
    fn add(&mut self, values: &[i64], valid: Option<&NullBuffer>) -> bool {
        let Bits { low, words } = self;
        let mut add = |value: i64| {
            let bit = value.wrapping_sub(*low) as u64;
            let word = usize::try_from(bit / 64).ok().and_then(|word| words.get_mut(word));
            word.map(|word| *word |= 1 << (bit % 64)).is_some()
        };
        match valid {
            None => values.iter().all(|value| add(*value)),
            Some(valid) => valid.valid_indices().all(|row| add(values[row])),
        }
    }

    fn to_parts(&self) -> Parts {
        let mut parts = Parts::new();
        for (at, word) in self.words.iter().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = at as i64 * 64 + i64::from(left.trailing_zeros());
                parts.add(self.low.wrapping_add(bit) as u64);
                left &= left - 1;
            }
        }
        parts
    }
}

/// Words divided by their hashes.
struct Parts {
    parts: Vec<Part>,
    recent: Vec<u64>,
    slots: Slots,
}

/// Words of which the first ones are distinct.
#[derive(Default, Clone)]
struct Part {
    words: Vec<u64>,
    distinct: usize,
}

impl Part {
    fn make_distinct(&mut self, slots: &mut Slots) {
        slots.clear_for(self.words.len());
        self.words.retain(|word| slots.add(*word));
        self.distinct = self.words.len();
    }
}

impl Parts {
    fn new() -> Parts {
        // A word in the place of another one is no recent word.
        let other = (1..).find(|word| recent_place(*word) != recent_place(0)).unwrap_or(1);
        let mut recent = vec![0; RECENT];
        recent[recent_place(0)] = other;
        Parts { parts: vec![Part::default(); PARTITIONS], recent, slots: Slots::default() }
    }

    fn add_all(&mut self, words: impl Iterator<Item = u64>, valid: Option<&NullBuffer>) {
        match valid {
            None => words.for_each(|word| self.add(word)),
            Some(valid) => words.zip(valid.iter()).for_each(|(word, is_valid)| {
                if is_valid {
                    self.add(word);
                }
            }),
        }
    }

    #[inline]
    fn add(&mut self, word: u64) {
        let hash = hash_i64(word as i64);
        let recent = &mut self.recent[hash as usize % RECENT];
        if *recent == word {
            return;
        }
        *recent = word;
        let part = &mut self.parts[partition_of(hash)];
        if part.words.len() == part.words.capacity() && part.words.len() >= PART_WORDS_MIN.max(part.distinct * 2) {
            part.make_distinct(&mut self.slots);
        }
        part.words.push(word);
    }

    fn bytes(&self) -> usize {
        let words: usize = self.parts.iter().map(|part| part.words.capacity()).sum();
        (words + self.recent.len() + self.slots.words.len()) * 8
    }
}

fn recent_place(word: u64) -> usize {
    hash_i64(word as i64) as usize % RECENT
}

/// A set of words by open addressing. Zero is a free slot, and remembered by itself.
#[derive(Default)]
struct Slots {
    words: Vec<u64>,
    has_zero: bool,
}

impl Slots {
    /// Forgets all words, and makes room for so many.
    fn clear_for(&mut self, words: usize) {
        self.words.clear();
        self.words.resize((words * 2).next_power_of_two(), 0);
        self.has_zero = false;
    }

    /// Whether a word is new.
    #[inline]
    fn add(&mut self, word: u64) -> bool {
        if word == 0 {
            return !std::mem::replace(&mut self.has_zero, true);
        }
        let mask = self.words.len() - 1;
        let mut slot = hash_i64(word as i64) as usize & mask;
        loop {
            match self.words[slot] {
                0 => {
                    self.words[slot] = word;
                    return true;
                }
                known if known == word => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}

struct Worker {
    of: Arc<DistinctCount>,
    seen: Option<Seen>,
    claim: Claim,
}

impl Sink for Arc<DistinctCount> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(Worker { of: self.clone(), seen: None, claim: Claim::new(self.context.clone()) })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let mut seen: Vec<Seen> = workers.filter_map(|worker| worker.seen).collect();
        if seen.iter().any(|seen| matches!(seen, Seen::Parts(_))) {
            let parts = |seen: Seen| match seen {
                Seen::Bits(bits) => Seen::Parts(bits.to_parts()),
                parts => parts,
            };
            seen = seen.into_iter().map(parts).collect();
        }
        *self.done.lock() = Arc::new(seen);
        Ok(())
    }
}

impl SinkWorker for Worker {
    fn push(&mut self, _: usize, batch: Batch) -> Result<()> {
        let seen = self.seen.get_or_insert_with(|| Seen::new(self.of.bounds));
        seen.add(&batch.columns[0]);
        self.claim.resize(seen.bytes())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The counts: one of bitmaps, or one per part.
impl Finished for DistinctCount {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        if matches!(self.done.lock().first(), Some(Seen::Parts(_))) { PARTITIONS } else { 1 }
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        let seen = self.done.lock().clone();
        let mut claim = Claim::new(self.context.clone());
        let (mut bits, mut parts) = (Vec::<u64>::new(), vec![]);
        for seen in seen.iter() {
            check(self.context.as_ref())?;
            match seen {
                Seen::Parts(of) => parts.push(&of.parts[unit].words),
                Seen::Bits(more) if bits.is_empty() => bits.clone_from(&more.words),
                Seen::Bits(more) => bits.iter_mut().zip(&more.words).for_each(|(bits, more)| *bits |= more),
            }
        }
        let (mut count, mut slots) =
            (bits.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>(), Slots::default());
        slots.clear_for(parts.iter().map(|words| words.len()).sum::<usize>());
        claim.resize(slots.words.len() * 8)?;
        for words in parts {
            check(self.context.as_ref())?;
            count += words.iter().filter(|word| slots.add(**word)).count() as u64;
        }
        take(Batch { rows: 1, columns: vec![Vector::ints(vec![count as i64])] })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_buffer::BooleanBuffer;
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::Unlimited;

    /// The count of the values of each thread's batches.
    fn counted(bounds: Option<(i64, i64)>, threads: &[Vec<Vector>]) -> i64 {
        let count = DistinctCount::new(bounds, Arc::new(Unlimited(threads.len())));
        let workers = threads.iter().map(|batches| {
            let mut worker = count.worker();
            for column in batches {
                let batch = Batch { rows: column.len(), columns: vec![column.clone()] };
                worker.push(0, batch).expect("there is memory");
            }
            worker
        });
        count.finish(workers.collect()).expect("there is memory");
        let mut sum = 0;
        let mut reader = count.results().worker();
        while reader.claim().is_some() {
            let mut take = |batch: Batch| {
                sum += batch.columns[0].as_ints()[0];
                Ok(())
            };
            reader.read(&mut take).expect("there is memory");
        }
        sum
    }

    fn ints(values: &[Option<i64>]) -> Vector {
        let valid: NullBuffer = values.iter().map(Option::is_some).collect::<Vec<_>>().into();
        Vector::with_nulls(Values::Int(values.iter().map(|value| value.unwrap_or(77)).collect()), Some(valid))
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_set(
            values in prop::collection::vec(prop::option::weighted(0.9, prop_oneof![-20i64..20, any::<i64>(), Just(i64::MIN)]), 0..300),
            repeats in 1usize..200,
            threads in 1usize..4,
            bounds in prop::option::of((-25i64..0, 0i64..25)),
        ) {
            let expected = values.iter().flatten().collect::<HashSet<_>>().len();
            let all: Vec<Option<i64>> = (0..repeats).flat_map(|_| values.iter().copied()).collect();
            let mut parts = vec![vec![]; threads];
            all.chunks(97).enumerate().for_each(|(at, chunk)| parts[at % threads].push(ints(chunk)));
            prop_assert_eq!(counted(bounds, &parts), expected as i64);
        }
    }

    #[test]
    fn many_values_are_made_distinct_as_they_come() {
        let batches = |step: i64| {
            (0..300i64)
                .map(move |at| ints(&(0..2048).map(|row| Some((at * 2048 + row) * step % 250_007)).collect::<Vec<_>>()))
        };
        assert_eq!(counted(None, &[batches(7).collect(), batches(11).collect()]), 250_007);
    }

    #[test]
    fn floats_are_equal_as_in_sql() {
        let column = Vector::new(Values::Float(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5].into()));
        assert_eq!(counted(None, &[vec![column]]), 4);
        let column = Vector::new(Values::Bits(BooleanBuffer::from(vec![true, true, false])));
        assert_eq!(counted(None, &[vec![column]]), 2);
        assert_eq!(counted(None, &[]), 0);
    }
}
