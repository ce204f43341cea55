//! All rows in an order, or a stretch of them.
//!
//! Each thread collects rows with their keys, see [`crate::prefixes`], and sorts its keys. The keys of all threads are cut into units
//! at the same places of the order, and threads merge units, and compare rows of equal prefixes further. Where only a stretch is
//! wanted, its keys are selected (Hoare, "Algorithm 65: Find", Communications of the ACM, 1961) and only these are sorted.

use std::any::Any;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::hash::float_place;
use crate::pipeline::{Claim, Context, Finished, Results, Sink, SinkWorker, Source, Take, check};
use crate::prefixes::{Depth, Key, NUMBER_BITS, Plan, Prefixes, TOP, number_of, prefix_of};
use crate::rows::{Field, FrozenRows, Layout, RowParts};
use crate::sort::SortKey;
use crate::vector::{Batch, Form};

/// What is sorted.
pub struct Wanted {
    /// The order. Its columns have forms with an order.
    pub keys: Vec<SortKey>,
    /// The fields of batches, and the least and greatest integer of each, where they are known.
    pub fields: Vec<Field>,
    /// The same number of bounds.
    pub bounds: Vec<Option<(i64, i64)>>,
    /// The number of columns that are returned: the first ones.
    pub returned: usize,
    /// The rows of the order that are returned.
    pub stretch: Range<usize>,
}

/// Rows in an order.
pub struct FullSort {
    wanted: Wanted,
    /// The order with known bounds, whose first prefixes are shorter, and without.
    order: Arc<Order>,
    unbounded: Arc<Order>,
    layout: Arc<Layout>,
    context: Arc<dyn Context>,
    done: OnceLock<Done>,
    next: AtomicUsize,
}

/// An order with the prefixes from its begin on.
struct Order {
    prefixes: Prefixes,
    plan: Plan,
}

impl Order {
    fn new(wanted: &Wanted, bounds: &[Option<(i64, i64)>]) -> Arc<Order> {
        let prefixes = Prefixes::new(&wanted.keys, &wanted.fields, bounds);
        Arc::new(Order { plan: prefixes.plan(TOP), prefixes })
    }
}

/// The rows of all threads.
struct Done {
    order: Arc<Order>,
    rows: FrozenRows,
    /// The keys of each thread, sorted, and where its units begin, with the end.
    sorted: Vec<(Vec<Key>, Vec<usize>)>,
    /// The rows that are wanted, among those of all units.
    stretch: Range<usize>,
    units: usize,
    _claims: Vec<Claim>,
}

/// The rows of a unit.
const UNIT_ROWS: usize = 64 << 10;
/// The rows of a batch of results. Their words are in the caches while columns are made of them.
const OUTPUT_ROWS: usize = 4096;
/// So few rows are compared by their columns.
const FEW: usize = 16;
/// More levels than these are compared by their columns, too: texts that share long beginnings with few others.
const LEVELS_MAX: usize = 64;

impl FullSort {
    /// Sorts batches.
    pub fn new(wanted: Wanted, context: Arc<dyn Context>) -> Arc<FullSort> {
        let (order, unbounded) =
            (Order::new(&wanted, &wanted.bounds), Order::new(&wanted, &vec![None; wanted.fields.len()]));
        let layout = Arc::new(Layout::new(&wanted.fields, 0));
        let (done, next) = (OnceLock::new(), AtomicUsize::new(0));
        Arc::new(FullSort { wanted, order, unbounded, layout, context, done, next })
    }

    /// The rows, when all were seen.
    pub fn results(self: &Arc<Self>) -> Arc<dyn Source> {
        Results::of(self)
    }

    fn is_whole(&self) -> bool {
        self.wanted.stretch == (0..usize::MAX)
    }
}

/// The rows of one thread.
struct Worker {
    of: Arc<FullSort>,
    rows: RowParts,
    keys: Vec<Key>,
    /// Whether an integer was outside of its bounds.
    is_loose: bool,
    claim: Claim,
}

impl Sink for Arc<FullSort> {
    fn worker(&self) -> Box<dyn SinkWorker> {
        Box::new(Worker {
            of: self.clone(),
            rows: RowParts::new(self.layout.clone()),
            keys: vec![],
            is_loose: false,
            claim: Claim::new(self.context.clone()),
        })
    }

    fn finish(&self, workers: Vec<Box<dyn SinkWorker>>) -> Result<()> {
        let workers = workers.into_iter().filter_map(|worker| worker.into_any().downcast::<Worker>().ok());
        let (mut parts, mut all, mut claims, mut is_loose) = (vec![], vec![], vec![], false);
        for worker in workers {
            let Worker { rows, mut keys, claim, is_loose: is_worker_loose, .. } = *worker;
            let first = (parts.len() * FrozenRows::PART_ROWS) as Key;
            keys.iter_mut().for_each(|key| *key += first);
            parts.extend(rows.into_parts());
            all.push(keys);
            claims.push(claim);
            is_loose |= is_worker_loose;
        }
        let rows = FrozenRows::joined(self.layout.clone(), parts)?;
        let order = if is_loose { self.reordered(&rows, &mut all) } else { self.order.clone() };
        let (all, stretch) = if self.is_whole() { (all, 0..rows.len()) } else { self.selected(all)? };
        let units = all.iter().map(Vec::len).sum::<usize>().div_ceil(UNIT_ROWS);
        let sorted = cut(all, units, order.plan.is_exact());
        // A stage ends once.
        let _ = self.done.set(Done { order, rows, sorted, stretch, units, _claims: claims });
        Ok(())
    }
}

/// Cuts sorted keys into units at the same places of the order, where `is_exact` between any rows, otherwise between prefixes.
fn cut(all: Vec<Vec<Key>>, units: usize, is_exact: bool) -> Vec<(Vec<Key>, Vec<usize>)> {
    let longest = all.iter().max_by_key(|keys| keys.len()).map_or(&[][..], Vec::as_slice);
    let place = |unit: usize| {
        let key = longest[unit * longest.len() / units];
        if is_exact { key } else { prefix_of(key) << NUMBER_BITS }
    };
    let places: Vec<Key> = (1..units).map(place).collect();
    let cut = |keys: Vec<Key>| {
        let inner = places.iter().map(|place| keys.partition_point(|key| key < place));
        let starts = std::iter::once(0).chain(inner).chain([keys.len()]).collect();
        (keys, starts)
    };
    all.into_iter().map(cut).collect()
}

impl SinkWorker for Worker {
    fn push(&mut self, _: usize, batch: Batch) -> Result<()> {
        let of = self.of.clone();
        let first = self.rows.len() as u32;
        let numbers = first..first + batch.rows as u32;
        let column = |column: usize| batch.columns[column].clone();
        self.is_loose |= !of.order.prefixes.put(&of.order.plan, column, numbers, &mut self.keys);
        self.rows.append(&batch.columns, batch.rows, |_, _, _| {});
        self.claim.resize(self.rows.bytes() + self.keys.capacity() * size_of::<Key>())
    }

    fn end(&mut self) -> Result<()> {
        if self.of.is_whole() {
            self.keys.sort_unstable();
        }
        Ok(())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Finished for FullSort {
    fn next(&self) -> &AtomicUsize {
        &self.next
    }

    fn units(&self) -> usize {
        self.done.get().map_or(usize::MAX, |done| done.units)
    }

    fn read(&self, unit: usize, take: Take<'_>) -> Result<()> {
        let Some(done) = self.done.get() else { return Ok(()) };
        let pieces: Vec<&[Key]> =
            done.sorted.iter().map(|(keys, starts)| &keys[starts[unit]..starts[unit + 1]]).collect();
        let before: usize = done.sorted.iter().map(|(_, starts)| starts[unit]).sum();
        let mut claim = Claim::new(self.context.clone());
        claim.resize(pieces.iter().map(|piece| piece.len()).sum::<usize>() * 2 * size_of::<Key>())?;
        let mut keys = pieces.concat();
        if pieces.iter().filter(|piece| !piece.is_empty()).count() > 1 {
            // Finds that there are few runs, and merges them.
            keys.sort();
        }
        self.resolve(done, &mut keys)?;
        let place = |row: usize| row.saturating_sub(before).min(keys.len());
        for some in keys[place(done.stretch.start)..place(done.stretch.end)].chunks(OUTPUT_ROWS) {
            check(self.context.as_ref())?;
            let numbers: Vec<u32> = some.iter().map(|key| number_of(*key)).collect();
            let columns = (0..self.wanted.returned).map(|column| done.rows.vector(column, &numbers)).collect();
            take(Batch { rows: numbers.len(), columns })?;
        }
        Ok(())
    }
}

/// Keys that have equal prefixes, from where on they are compared, and how often that was done.
struct Run {
    keys: Range<usize>,
    depth: Depth,
    level: usize,
}

impl FullSort {
    /// The keys that may be in the stretch, sorted, and where it is among them.
    fn selected(&self, all: Vec<Vec<Key>>) -> Result<(Vec<Vec<Key>>, Range<usize>)> {
        let mut claim = Claim::new(self.context.clone());
        claim.resize(all.iter().map(Vec::len).sum::<usize>() * size_of::<Key>())?;
        let mut keys = all.concat();
        drop(all);
        let Range { start, end } = self.wanted.stretch;
        let end = end.min(keys.len());
        if start >= end {
            return Ok((vec![], 0..0));
        }
        let (_, first, after) = keys.select_nth_unstable(start);
        let first = prefix_of(*first);
        let last = match end - 1 - start {
            0 => first,
            more => prefix_of(*after.select_nth_unstable(more - 1).1),
        };
        let before = keys.iter().filter(|key| prefix_of(**key) < first).count();
        keys.retain(|key| (first..=last).contains(&prefix_of(*key)));
        keys.sort_unstable();
        Ok((vec![keys], start - before..end - before))
    }

    /// Sorts the rows of equal prefixes among sorted keys.
    fn resolve(&self, done: &Done, keys: &mut [Key]) -> Result<()> {
        let mut runs = vec![];
        done.find_runs(&done.order.plan, keys, 0..keys.len(), 0, &mut runs);
        let mut again = vec![];
        while let Some(Run { keys: range, depth, level }) = runs.pop() {
            let run = &mut keys[range.clone()];
            if run.len() <= FEW || level == LEVELS_MAX {
                let compare =
                    |a: &Key, b: &Key| done.compare(&self.wanted.fields, number_of(*a), number_of(*b), depth.part);
                run.sort_unstable_by(compare);
                continue;
            }
            check(self.context.as_ref())?;
            let prefixes = &self.unbounded.prefixes;
            let plan = prefixes.plan(done.deepened(run, depth));
            let numbers: Vec<u32> = run.iter().map(|key| number_of(*key)).collect();
            again.clear();
            prefixes.put(&plan, |column| done.rows.vector(column, &numbers), numbers.iter().copied(), &mut again);
            again.sort_unstable();
            run.copy_from_slice(&again);
            done.find_runs(&plan, keys, range, level + 1, &mut runs);
        }
        Ok(())
    }

    /// The order without bounds, and new keys in it.
    fn reordered(&self, rows: &FrozenRows, all: &mut [Vec<Key>]) -> Arc<Order> {
        let order = self.unbounded.clone();
        for keys in all {
            let numbers: Vec<u32> = keys.drain(..).map(number_of).collect();
            order.prefixes.put(&order.plan, |column| rows.vector(column, &numbers), numbers.iter().copied(), keys);
            keys.sort_unstable();
        }
        order
    }
}

impl Done {
    /// The runs of equal prefixes that are not decided.
    fn find_runs(&self, plan: &Plan, keys: &[Key], range: Range<usize>, level: usize, runs: &mut Vec<Run>) {
        if plan.is_exact() {
            return;
        }
        let mut from = range.start;
        for run in keys[range].chunk_by(|a, b| prefix_of(*a) == prefix_of(*b)) {
            if let Some(depth) = self.order.prefixes.after(plan, run[0]).filter(|_| run.len() > 1) {
                runs.push(Run { keys: from..from + run.len(), depth, level });
            }
            from += run.len();
        }
    }

    /// The depth behind what texts of a run share from `depth` on.
    fn deepened(&self, run: &[Key], depth: Depth) -> Depth {
        // At its begin, texts may be NULL.
        let Some(column) = self.order.prefixes.text_of(depth.part).filter(|_| depth.bytes > 0) else { return depth };
        let first = number_of(run[0]);
        let shared = run[1..].iter().map(|key| self.rows.shared_bytes(first, number_of(*key), column, depth.bytes));
        let shared = shared.min().unwrap_or(0);
        Depth { bytes: depth.bytes + shared, ..depth }
    }

    /// Which of two rows comes first by the parts from `part` on.
    fn compare(&self, fields: &[Field], a: u32, b: u32, part: usize) -> Ordering {
        let rows = &self.rows;
        let mut by_key = self.order.prefixes.keys_from(part).map(|key| {
            let field = &fields[key.column];
            let (is_a_null, is_b_null) = (rows.is_null(a as usize, key.column), rows.is_null(b as usize, key.column));
            if is_a_null || is_b_null {
                let order = is_b_null.cmp(&is_a_null);
                return if key.nulls_first { order } else { order.reverse() };
            }
            let order = match field.form {
                Form::Text => rows.compare_texts(a, b, key.column),
                Form::Wide => rows.wide(a as usize, key.column).cmp(&rows.wide(b as usize, key.column)),
                Form::Float => {
                    let place = |row: u32| float_place(f64::from_bits(rows.word(row as usize, key.column)));
                    place(a).cmp(&place(b))
                }
                _ => (rows.word(a as usize, key.column) as i64).cmp(&(rows.word(b as usize, key.column) as i64)),
            };
            if key.descending { order.reverse() } else { order }
        });
        by_key.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

#[cfg(test)]
mod tests {
    use arrow_buffer::{BooleanBuffer, NullBuffer};
    use arrow_schema::DataType;
    use proptest::prelude::*;

    use super::*;
    use crate::pipeline::Unlimited;
    use crate::vector::{Texts, Values, Vector};

    /// A row: an integer, a float, a text, a wide integer and a boolean, any of which may be NULL.
    type Row = (Option<i64>, Option<f64>, Option<String>, Option<i128>, Option<bool>);

    const FORMS: [Form; 5] = [Form::Int, Form::Float, Form::Text, Form::Wide, Form::Bits];

    fn valid<T>(values: &[Option<T>]) -> Option<NullBuffer> {
        Some(values.iter().map(Option::is_some).collect::<Vec<_>>().into())
    }

    fn texts(values: &[Option<String>]) -> Vector {
        let array = arrow_array::StringViewArray::from_iter(values.iter().cloned());
        Vector::with_nulls(Values::Text(Texts::of(&array)), valid(values))
    }

    fn batch(rows: &[Row], number: i64) -> Batch {
        let column = |values: Values, valid| Vector::with_nulls(values, valid);
        let ints: Vec<_> = rows.iter().map(|row| row.0).collect();
        let floats: Vec<_> = rows.iter().map(|row| row.1).collect();
        let strings: Vec<_> = rows.iter().map(|row| row.2.clone()).collect();
        let wides: Vec<_> = rows.iter().map(|row| row.3).collect();
        let bits: Vec<_> = rows.iter().map(|row| row.4).collect();
        let columns = vec![
            column(Values::Int(ints.iter().map(|x| x.unwrap_or(99)).collect()), valid(&ints)),
            column(Values::Float(floats.iter().map(|x| x.unwrap_or(9.5)).collect()), valid(&floats)),
            texts(&strings),
            column(Values::Wide(wides.iter().map(|x| x.unwrap_or(-3)).collect()), valid(&wides)),
            column(Values::Bits(BooleanBuffer::from_iter(bits.iter().map(|x| x.unwrap_or(true)))), valid(&bits)),
            Vector::ints((number..number + rows.len() as i64).collect()),
        ];
        Batch { rows: rows.len(), columns }
    }

    fn fields() -> Vec<Field> {
        let field = |form, nullable| Field { form, data_type: DataType::Null, nullable, is_key: false };
        FORMS.iter().map(|form| field(*form, true)).chain([field(Form::Int, false)]).collect()
    }

    /// The numbers of rows in the order of `keys`, of several threads with batches of some rows.
    fn sorted(
        rows: &[Row],
        keys: &[SortKey],
        bounds: Option<(i64, i64)>,
        threads: usize,
        stretch: Range<usize>,
    ) -> Vec<i64> {
        let bounds = [bounds, None, None, None, None, None].to_vec();
        let wanted = Wanted { keys: keys.to_vec(), fields: fields(), bounds, returned: 6, stretch };
        let sort = FullSort::new(wanted, Arc::new(Unlimited(threads)));
        let mut workers: Vec<_> = (0..threads).map(|_| sort.worker()).collect();
        for (at, some) in rows.chunks(37).enumerate() {
            workers[at % threads].push(at, batch(some, at as i64 * 37)).expect("there is memory");
        }
        workers.iter_mut().for_each(|worker| worker.end().expect("there is memory"));
        sort.finish(workers).expect("there is memory");
        let (mut reader, mut numbers) = (sort.results().worker(), vec![]);
        while reader.claim().is_some() {
            let mut take = |batch: Batch| {
                numbers.extend_from_slice(batch.columns[5].as_ints());
                Ok(())
            };
            reader.read(&mut take).expect("there is memory");
        }
        numbers
    }

    /// The order of two rows.
    fn compared(a: &Row, b: &Row, keys: &[SortKey]) -> Ordering {
        fn by<T>(a: &Option<T>, b: &Option<T>, key: &SortKey, order: impl Fn(&T, &T) -> Ordering) -> Ordering {
            match (a, b) {
                (Some(a), Some(b)) if key.descending => order(b, a),
                (Some(a), Some(b)) => order(a, b),
                (None, None) => Ordering::Equal,
                (None, _) if key.nulls_first => Ordering::Less,
                (_, None) if !key.nulls_first => Ordering::Less,
                _ => Ordering::Greater,
            }
        }
        let of_key = |key: &SortKey| match key.column {
            0 => by(&a.0, &b.0, key, i64::cmp),
            1 => by(&a.1, &b.1, key, |a, b| float_place(*a).cmp(&float_place(*b))),
            2 => by(&a.2, &b.2, key, |a, b| a.as_bytes().cmp(b.as_bytes())),
            3 => by(&a.3, &b.3, key, i128::cmp),
            _ => by(&a.4, &b.4, key, bool::cmp),
        };
        keys.iter().map(of_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn row() -> impl Strategy<Value = Row> {
        let text = prop_oneof![
            "[ab]{0,3}",
            "\u{0}{0,14}",
            "a{9,13}\u{0}{0,2}",
            "https://www.example.org/[ab]{0,12}(/path){0,2}".prop_map(|text| text),
        ];
        let float = prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), Just(f64::NEG_INFINITY), any::<f64>()];
        let wide = prop_oneof![-2i128..2, any::<i128>(), (-2i128..2).prop_map(|high| high << 64)];
        (
            prop::option::weighted(0.9, prop_oneof![-3i64..3, -90i64..90, Just(i64::MIN), Just(i64::MAX)]),
            prop::option::weighted(0.9, float),
            prop::option::weighted(0.9, text),
            prop::option::weighted(0.9, wide),
            prop::option::weighted(0.9, any::<bool>()),
        )
    }

    proptest! {
        #[test]
        fn rows_come_in_order(
            rows in prop::collection::vec(row(), 0..300),
            keys in prop::collection::vec((0usize..5, any::<bool>(), any::<bool>()), 1..4),
            bounds in prop::option::of((-90i64..0, 0i64..90)),
            threads in 1usize..4,
            stretch in prop::option::of((0usize..300, 0usize..300)),
        ) {
            let key = |(column, descending, nulls_first)| SortKey { column, descending, nulls_first };
            let keys: Vec<SortKey> = keys.into_iter().map(key).collect();
            let stretch = stretch.map_or(0..usize::MAX, |(start, len)| start..start + len);
            let numbers = sorted(&rows, &keys, bounds, threads, stretch.clone());
            let mut expected: Vec<&Row> = rows.iter().collect();
            expected.sort_by(|a, b| compared(a, b, &keys));
            let expected = &expected[stretch.start.min(rows.len())..stretch.end.min(rows.len())];
            prop_assert_eq!(numbers.len(), expected.len());
            let distinct: std::collections::HashSet<i64> = numbers.iter().copied().collect();
            prop_assert_eq!(distinct.len(), numbers.len());
            for (number, expected) in numbers.iter().zip(expected) {
                prop_assert_eq!(compared(&rows[*number as usize], expected, &keys), Ordering::Equal);
            }
        }
    }

    #[test]
    fn rows_of_several_units_come_in_order() {
        let row = |at: i64| {
            (Some(at * 7919 % 200_003), None, Some(format!("https://www.example.org/{}", at % 5)), None, None)
        };
        let rows: Vec<Row> = (0..200_000).map(row).collect();
        let key = |column| SortKey { column, descending: column == 0, nulls_first: false };
        for keys in [vec![key(0)], vec![key(2), key(0)], vec![key(4)]] {
            let numbers = sorted(&rows, &keys, Some((0, 200_003)), 2, 0..usize::MAX);
            assert_eq!(numbers.len(), rows.len());
            let is_sorted =
                numbers.is_sorted_by(|a, b| compared(&rows[*a as usize], &rows[*b as usize], &keys).is_le());
            assert!(is_sorted, "{keys:?}");
        }
    }

    #[test]
    fn texts_that_share_much_are_sorted() {
        // Each text is the beginning of the next ones: a level decides only a few.
        let long = "ab".repeat(2000);
        let texts: Vec<Row> = (0..4000).rev().map(|len| (None, None, Some(long[..len].into()), None, None)).collect();
        let keys = [SortKey { column: 2, descending: false, nulls_first: false }];
        let numbers = sorted(&texts, &keys, None, 2, 0..usize::MAX);
        assert!(numbers.iter().copied().eq((0..4000).rev()));
    }
}
