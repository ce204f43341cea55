//! The costs of the store's scans: differences between scans of small tables in memory that differ in one property.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use freestone_codec::{IntPredicate, Predicate};
use freestone_store::limits::MORSEL_ROWS;
use freestone_store::scan::{
    ColumnPredicate, ScanMetrics, ScanRequest, StoredScan, TupleBlock, TupleLayout, surviving_morsels,
};

use super::concurrency;
use super::pages;
use super::passes;
use super::scans::{Bench, GRANULE, Named, between};
use super::tables::{self, Random, SELECTOR, Subject};
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{Curve, EngineCosts, Family, Form, Kernel, Measured, Operation};

/// Shares of rows that qualify.
const SHARES: [f64; 6] = [1e-3, 1e-2, 0.1, 0.3, 0.7, 1.0];
const QUICK_SHARES: [f64; 3] = [1e-2, 0.1, 1.0];
/// Shares of rows that still qualify before a filter.
const FILTER_SHARES: [f64; 4] = [1e-3, 1e-2, 0.1, 1.0];

pub fn measure(timing: &Timing, threads: usize, progress: &mut dyn FnMut(f64)) -> Result<EngineCosts> {
    let crowd = concurrency::measure(threads, timing)?;
    let scan = passes::several(timing, || Ok(beginning(timing)))?;
    let mut costs = EngineCosts { scan, crowd, ..EngineCosts::default() };
    pages::measure(&mut costs, timing)?;
    progress(0.2);
    pages::beyond_caches(&mut costs, timing)?;
    progress(0.4);
    let mut costs = chunks(costs, timing)?;
    progress(0.75);
    for (form, page) in [(Form::Dense, "dense"), (Form::Slotted, "slotted")] {
        costs = tuples(costs, form, page, timing)?;
    }
    progress(0.95);
    let mut costs = passes::several(timing, || {
        let mut costs = costs.clone();
        tuple_output(&mut costs, timing);
        Ok(costs)
    })?;
    writing(&mut costs, timing)?;
    progress(1.0);
    Ok(costs)
}

/// Columns, each in a group of its own.
fn chunks(known: EngineCosts, timing: &Timing) -> Result<EngineCosts> {
    let rows = if timing.is_quick() { 16 << 10 } else { 128 << 10 };
    let subjects = tables::chunks(rows);
    let few = rows.min(32 << 10);
    let of_few = tables::chunks(few);
    let bench = bench_of(rows, &subjects, &[("design", "column")])?;
    let one = Bench::new(&[tables::selector(GRANULE as usize)], &[("design", "column")], true)?;
    let small = bench_of(few, &of_few, &[("design", "column"), ("page_size", "4KiB")])?;
    let large = bench_of(few, &of_few, &[("design", "column")])?;
    passes::several(timing, || {
        let mut costs = known.clone();
        frame(&mut costs, &one, &bench, timing)?;
        kernels(&mut costs, Form::Chunk, &bench, &subjects, timing)?;
        let ratios = visit_ratios(&small, &large, &subjects, timing)?;
        for kernel in costs.kernels.iter_mut().filter(|k| k.form == Form::Chunk) {
            let own = |r: &&(Family, f64, Operation, f64)| {
                (r.0, r.1, r.2) == (kernel.family, kernel.parameter, kernel.operation)
            };
            kernel.visit = ratios.iter().find(own).map_or(1.0, |r| r.3);
        }
        shipping(&mut costs, &bench, timing)?;
        Ok(costs)
    })
}

/// Tuples, with the selecting column in a separate group. They are few enough for the caches.
fn tuples(known: EngineCosts, form: Form, page: &str, timing: &Timing) -> Result<EngineCosts> {
    let rows = if timing.is_quick() { 16 << 10 } else { 32 << 10 };
    let mut plain = tables::tuples(rows);
    for subject in &mut plain {
        subject.column.2 = match (form, subject.family) {
            (Form::Dense, Family::Dictionary | Family::TextDictionary) => "dictionary",
            (Form::Dense, Family::Fsst) => "fsst",
            (Form::Dense, Family::Text) => "plain",
            _ => "",
        };
    }
    let names: Vec<&str> = plain.iter().map(|s| s.column.0.as_str()).collect();
    let groups = format!("({})", names.join(", "));
    let bench = bench_of_groups(rows, &plain, &[("groups", &groups), ("page", page)])?;
    let own: Vec<Subject> = if form == Form::Dense { plain } else { plain.into_iter().filter_map(slotted).collect() };
    passes::several(timing, || {
        let mut costs = known.clone();
        kernels(&mut costs, form, &bench, &own, timing)?;
        Ok(costs)
    })
}

/// What a second thread adds to shared work: it has to be woken and waited for. Sometimes the system needs milliseconds
/// for that, which the median ignores.
fn beginning(timing: &Timing) -> Measured {
    const STEPS: u64 = 100_000;
    let most = if timing.is_quick() { timing.most } else { 200 };
    let timing = Timing { most, budget: 4 * timing.budget, ..timing.clone() };
    let work = || _ = std::hint::black_box((0..STEPS).fold(1u64, |x, step| std::hint::black_box(x ^ step)));
    let both = timing.measure(|| {
        std::thread::scope(|scope| {
            let other = scope.spawn(work);
            work();
            _ = other.join();
        });
    });
    both.minus(timing.measure(work))
}

/// A subject in slotted tuples, where only its type counts.
fn slotted(subject: Subject) -> Option<Subject> {
    let family = match subject.family {
        Family::General => Family::Plain,
        Family::FloatKey => Family::Float,
        Family::Text => Family::Text,
        Family::Nulls => Family::Nulls,
        _ => return None,
    };
    Some(Subject { family, ..subject })
}

fn bench_of(rows: usize, subjects: &[Subject], options: &[(&str, &str)]) -> Result<Bench> {
    let mut columns: Vec<Named> = vec![tables::selector(rows)];
    columns.extend(subjects.iter().map(|s| s.column.clone()));
    Bench::new(&columns, options, true)
}

fn bench_of_groups(rows: usize, subjects: &[Subject], options: &[(&str, &str)]) -> Result<Bench> {
    let mut columns: Vec<Named> = vec![tables::selector(rows)];
    if options.iter().any(|(_, page)| *page == "slotted") {
        columns[0].2 = "";
    }
    columns.extend(subjects.iter().map(|s| s.column.clone()));
    Bench::new(&columns, options, true)
}

/// A predicate on the selector that a share of the rows satisfies. The values are in the middle, so that no zone
/// decides it.
fn passing(share: f64) -> ColumnPredicate {
    let count = ((SELECTOR as f64 * share) as i128).max(1);
    let low = (SELECTOR as i128 - count) / 2;
    between(0, low, low + count - 1)
}

/// The costs of granules, zones, batches and lists, whatever they contain. `one` has one granule.
fn frame(costs: &mut EngineCosts, one: &Bench, bench: &Bench, timing: &Timing) -> Result<()> {
    let granules = bench.granules();
    let nothing = bench.scan(&[], &[], timing)?;
    costs.granule = nothing.minus(one.scan(&[], &[], timing)?).scaled(1.0 / (granules - 1.0).max(1.0));
    let large = bench.time(ScanRequest { batch_rows: 1 << 20, ..ScanRequest::columns(vec![]) }, timing)?;
    costs.batch = nothing.minus(large).scaled(1.0 / (granules - 1.0).max(1.0));
    costs.granule = costs.granule.minus(costs.batch);
    // A predicate that every zone decides.
    let decided = between(0, i128::MIN, i128::MAX);
    let zone_tests = bench.scan(&[], &[decided.clone(), decided.clone(), decided.clone(), decided], timing)?;
    costs.zone_test = zone_tests.minus(nothing).scaled(0.25 / granules);
    costs.rule_out = ruling_out(bench, timing)?;
    let none = bench.scan(&[], &[passing(0.0)], timing)?;
    let mut points = vec![];
    for share in [1e-3, 1e-2, 0.1, 0.3, 0.7, 0.95] {
        let listed = bench.scan(&[], &[passing(share)], timing)?;
        points.push((share, listed.minus(none).scaled(1.0 / bench.rows)));
    }
    costs.select = Curve::new(points);
    let page = costs.page(Form::Chunk).map_or(0.0, |p| p.decode.at(1.0));
    let few = [passing(2.0 / bench.rows)];
    let with = bench.scan(&[1, 2, 3, 4], &few, timing)?;
    let without = bench.scan(&[], &few, timing)?;
    let column = with.minus(without).scaled(0.25);
    // About two rows qualify, on different pages.
    costs.batch_column = column.minus(Measured::exact(page * 2.0));
    let request = || ScanRequest::columns(vec![]);
    let small = bench.time_morsels(request(), GRANULE as usize, timing)?;
    costs.morsel = small.minus(nothing).scaled(1.0 / (granules * 7.0 / 8.0).max(1.0));
    Ok(())
}

/// Nanoseconds per granule for pruning all of its zones, in a table of which only the last zone has a qualifying row.
fn ruling_out(bench: &Bench, timing: &Timing) -> Result<Measured> {
    let rising = bench.table.schema.index_of(tables::RISING)?;
    let last = between(rising, (bench.rows as i128 - 1) * tables::RISING_STEP, i128::MAX);
    let request = ScanRequest { predicates: vec![last], ..ScanRequest::columns(vec![]) };
    let metrics = ScanMetrics::default();
    let look = || surviving_morsels(&bench.table, &request, MORSEL_ROWS, &metrics).map(|_| bench.granules());
    Ok(timing.measure_each(look)?)
}

/// The cost of visiting small pages for each subject, as a multiple of the cost for bit-packed numbers. It is higher
/// where a test is translated for every page, or a page has tables to be read first.
fn visit_ratios(
    small: &Bench,
    large: &Bench,
    subjects: &[Subject],
    timing: &Timing,
) -> Result<Vec<(Family, f64, Operation, f64)>> {
    let mut found = vec![];
    for subject in subjects {
        let column = small.table.schema.index_of(&subject.column.0)?;
        let more = small.pages(column)?.0 - large.pages(column)?.0;
        let tests = [(Operation::Filter, &subject.predicate), (Operation::Equal, &subject.equal)];
        let tests =
            tests.into_iter().filter_map(|(operation, p)| p.clone().map(|predicate| (operation, Some(predicate))));
        for (operation, predicate) in std::iter::once((Operation::Decode, None)).chain(tests) {
            let columns = if predicate.is_none() { vec![column] } else { vec![] };
            let predicates: Vec<_> =
                predicate.into_iter().map(|predicate| ColumnPredicate { column, predicate }).collect();
            let (with, without) =
                (small.scan(&columns, &predicates, timing)?, large.scan(&columns, &predicates, timing)?);
            if more >= 8.0 {
                found.push((
                    subject.family,
                    subject.parameter,
                    operation,
                    (with.value - without.value).max(0.0) / more,
                ));
            }
        }
    }
    let base = |operation: Operation| {
        let operation = if operation == Operation::Equal { Operation::Filter } else { operation };
        let own = found.iter().find(|r| r.0 == Family::BitPack && r.1 > 10.0 && r.2 == operation);
        own.map_or(0.0, |r| r.3)
    };
    let (decode, filter) = (base(Operation::Decode), base(Operation::Filter));
    for ratio in &mut found {
        let of = if ratio.2 == Operation::Decode { decode } else { filter };
        ratio.3 = if of > 0.0 { (ratio.3 / of).clamp(0.3, 100.0) } else { 1.0 };
    }
    Ok(found)
}

/// Decoding and filtering of each subject.
fn kernels(costs: &mut EngineCosts, form: Form, bench: &Bench, subjects: &[Subject], timing: &Timing) -> Result<()> {
    sparse(costs, form, bench, subjects, timing)?;
    let shares: &[f64] = if timing.is_quick() { &QUICK_SHARES } else { &SHARES };
    let everything = bench.scan(&[], &[], timing)?;
    let mut without = vec![];
    for share in shares {
        without.push(if *share < 1.0 { bench.scan(&[], &[passing(*share)], timing)? } else { everything });
    }
    for (at, subject) in subjects.iter().enumerate() {
        let column = bench.table.schema.index_of(&subject.column.0).unwrap_or(at + 1);
        let mut points = vec![];
        for (share, without) in shares.iter().zip(&without) {
            let predicates = if *share < 1.0 { vec![passing(*share)] } else { vec![] };
            let with = bench.scan(&[column], &predicates, timing)?;
            let seen = visits(costs, form, bench, column, *share, Operation::Decode)?;
            let taken = bench.rows * share;
            points.push((share / seen.touched, with.minus(*without).minus(seen.ns).scaled(1.0 / taken)));
        }
        put(costs, form, subject, Operation::Decode, points);
        for (predicate, operation) in [(&subject.predicate, Operation::Filter), (&subject.equal, Operation::Equal)] {
            let Some(predicate) = predicate else { continue };
            let own = ColumnPredicate { column, predicate: predicate.clone() };
            let points = filter_points(costs, form, bench, &own, everything, timing)?;
            put(costs, form, subject, operation, points);
        }
    }
    subtract_plain_of_nulls(costs, form);
    Ok(())
}

/// Nanoseconds per row of the visited pages for a predicate, by the share of their rows that qualify before it.
fn filter_points(
    costs: &EngineCosts,
    form: Form,
    bench: &Bench,
    own: &ColumnPredicate,
    everything: Measured,
    timing: &Timing,
) -> Result<Vec<(f64, Measured)>> {
    let mut points = vec![];
    // The scan orders its tests: one that rejects few rows comes after the selector.
    let behind = ColumnPredicate { predicate: dropping_few(&own.predicate), ..own.clone() };
    let (kept, kept_behind) =
        (bench.share_of(std::slice::from_ref(own))?, bench.share_of(std::slice::from_ref(&behind))?);
    for share in if timing.is_quick() { &FILTER_SHARES[2..] } else { &FILTER_SHARES } {
        let (predicates, without) = if *share < 1.0 {
            (vec![passing(*share), behind.clone()], bench.scan(&[], &[passing(*share)], timing)?)
        } else {
            (vec![own.clone()], everything)
        };
        let with = bench.scan(&[], &predicates, timing)?;
        let seen = visits(costs, form, bench, own.column, *share, Operation::Filter)?;
        // The list has fewer rows than without the test, or there was no list without it.
        let kept = if *share < 1.0 { kept_behind } else { kept };
        let (fewer, before) = (listing(costs, bench, share * kept), listing(costs, bench, *share));
        let known = Measured::exact(without.value + fewer - before);
        let rows = bench.rows * seen.touched;
        points.push((share / seen.touched, with.minus(known).minus(seen.ns).scaled(1.0 / rows)));
    }
    // A test of all rows takes at least as long as with a tenth of them in every vector. The subtraction for listing
    // rows hides that.
    if let [.., (_, tenth), (_, all)] = &mut points[..]
        && all.value < tenth.value
    {
        *all = *tenth;
    }
    Ok(points)
}

/// A test of the same kind that rejects the rows that the subjects' tests, on the largest numbers, accept. Tests of
/// strings are expensive enough to come last without this.
fn dropping_few(predicate: &Predicate) -> Predicate {
    match predicate {
        Predicate::Int(IntPredicate::Range { low, .. }) => {
            Predicate::Int(IntPredicate::Range { low: i128::from(i64::MIN), high: low - 1 })
        }
        other => other.clone(),
    }
}

/// Nanoseconds to list a share of a table's rows.
fn listing(costs: &EngineCosts, bench: &Bench, share: f64) -> f64 {
    // If all rows qualify there is no list, and granules without qualifying rows have none.
    let granules = if share < 1.0 { 1.0 - (1.0 - share).powf(GRANULE) } else { 0.0 };
    bench.rows * granules * costs.select.at(share)
}

fn put(costs: &mut EngineCosts, form: Form, subject: &Subject, operation: Operation, points: Vec<(f64, Measured)>) {
    let (family, parameter, ns) = (subject.family, subject.parameter, Curve::new(points));
    costs.kernels.push(Kernel { form, family, operation, parameter, ns, visit: 1.0 });
}

/// The page visits of a measurement.
struct Visits {
    ns: Measured,
    /// The share of the pages with a qualifying row.
    touched: f64,
}

/// The cost of page visits when a column is measured at a share.
fn visits(
    costs: &EngineCosts,
    form: Form,
    bench: &Bench,
    column: usize,
    share: f64,
    operation: Operation,
) -> Result<Visits> {
    let (visits, _) = bench.pages(column)?;
    let a_granule = visits / bench.granules();
    let touched = 1.0 - (1.0 - share).powf(GRANULE / a_granule);
    let page = costs.page(form).map_or(0.0, |p| match operation {
        Operation::Decode => p.decode_ns(a_granule, share / touched),
        _ => p.filter_ns(a_granule, share / touched),
    });
    Ok(Visits { ns: Measured::exact(page * visits * touched), touched })
}

/// The cost of visiting a page for one or two rows, for the column with the lowest cost per value.
fn sparse(costs: &mut EngineCosts, form: Form, bench: &Bench, subjects: &[Subject], timing: &Timing) -> Result<()> {
    let simple = subjects.iter().find(|s| match form {
        Form::Slotted => s.family == Family::Plain,
        _ => s.family == Family::BitPack && s.parameter > 10.0,
    });
    let Some(column) = simple.and_then(|s| bench.table.schema.index_of(&s.column.0).ok()) else { return Ok(()) };
    let share = 1e-3;
    let (with, without) =
        (bench.scan(&[column], &[passing(share)], timing)?, bench.scan(&[], &[passing(share)], timing)?);
    let (visits, _) = bench.pages(column)?;
    let rows = GRANULE * bench.granules() / visits;
    let touched = 1.0 - (1.0 - share).powf(rows);
    // On large pages several rows share a visit. Their costs after the first row are costs per value.
    let found = with.minus(without).scaled(1.0 / (visits * touched));
    if let Some(page) = costs.pages.iter_mut().find(|p| p.form == form) {
        page.sparse = found;
    }
    Ok(())
}

/// The kernel of NULLs is the additional cost of a column with NULLs.
fn subtract_plain_of_nulls(costs: &mut EngineCosts, form: Form) {
    let plain = costs.kernels.iter().filter(|k| k.form == form);
    let plain: Vec<Kernel> =
        plain.filter(|k| matches!(k.family, Family::BitPack | Family::Plain) && k.parameter >= 14.0).cloned().collect();
    for kernel in costs.kernels.iter_mut().filter(|k| k.form == form && k.family == Family::Nulls) {
        if let Some(without) = plain.iter().find(|k| k.operation == kernel.operation) {
            kernel.ns.points.iter_mut().for_each(|(x, ns)| *ns = ns.minus(without.ns.measured(*x)));
        }
    }
}

/// Columns in stored form, for a client.
fn shipping(costs: &mut EngineCosts, bench: &Bench, timing: &Timing) -> Result<()> {
    let columns: Vec<usize> = (1..bench.table.schema.columns.len().min(9)).collect();
    let mut pages = 0.0;
    for column in &columns {
        pages += bench.pages(*column)?.0;
    }
    let run = timing.measure_each(|| {
        let mut scan = StoredScan::new(bench.table.clone(), columns.clone());
        while let Some(rows) = scan.next_rows()? {
            drop(rows);
        }
        Ok::<f64, crate::error::AdvisorError>(1.0)
    })?;
    costs.ship_page = run.scaled(1.0 / pages.max(1.0));
    // The sender copies the bytes once into its messages.
    let bytes = vec![7u8; 1 << 20];
    let mut copy = vec![0u8; bytes.len()];
    let copied = timing.measure(|| copy.copy_from_slice(std::hint::black_box(&bytes)));
    std::hint::black_box(&copy);
    costs.ship_byte = copied.scaled(1.0 / bytes.len() as f64);
    Ok(())
}

fn tuple_output(costs: &mut EngineCosts, timing: &Timing) {
    const ROWS: usize = GRANULE as usize;
    const TEXT_BYTES: usize = 32;
    let mut random = Random(23);
    let mut numbers = |nulls: u64| -> ArrayRef {
        let value = |random: &mut Random| (random.below(10) >= nulls).then_some(random.next() as i64);
        Arc::new(Int64Array::from_iter((0..ROWS).map(|_| value(&mut random))))
    };
    let a_value = |columns: Vec<ArrayRef>| {
        let count = columns.len() as f64;
        let named = columns.into_iter().enumerate().map(|(at, array)| (format!("c{at}"), array));
        let batch = RecordBatch::try_from_iter(named).expect("columns of the same length");
        let layout = TupleLayout::new(batch.schema().as_ref());
        let mut block = TupleBlock::default();
        let blocks = || layout.for_each_block(&batch, 100, &mut block, |block| _ = std::hint::black_box(block.rows()));
        timing.measure(blocks).scaled(1.0 / (ROWS as f64 * count))
    };
    let counts = [4usize, 16, 32, 64];
    let points = counts.map(|count| {
        let columns = (0..count).map(|_| numbers(0)).collect();
        ((count * ROWS * size_of::<i64>()) as f64, a_value(columns))
    });
    let near = points[0].1;
    costs.tuple_value = Curve::new(points.to_vec());
    costs.tuple_null = a_value((0..counts[0]).map(|_| numbers(1)).collect()).minus(near);
    let texts = || StringViewArray::from_iter_values((0..ROWS).map(|row| format!("{row:0TEXT_BYTES$}")));
    let of_texts = a_value((0..counts[0]).map(|_| Arc::new(texts()) as ArrayRef).collect());
    // Views are twice as wide as the numbers.
    let views = costs.tuple_value.measured((counts[0] * ROWS * 16) as f64);
    costs.tuple_byte = of_texts.minus(views).scaled(1.0 / TEXT_BYTES as f64);
}

/// Encoding and sorting, measured by writing small tables, a few times each.
fn writing(costs: &mut EngineCosts, timing: &Timing) -> Result<()> {
    let rows = if timing.is_quick() { 8 << 10 } else { 256 << 10 };
    let mut random = Random(29);
    let mut numbers = || -> Named {
        let values = (0..rows).map(|_| random.below(1 << 24) as i64).collect::<Vec<_>>();
        (format!("c{}", random.below(1 << 40)), Arc::new(Int64Array::from(values)), "")
    };
    let columns: Vec<Named> = (0..4).map(|_| numbers()).collect();
    let timing = Timing { least: timing.sweeps(), most: timing.sweeps(), ..timing.clone() };
    let write = |columns: &[Named], options: &[(&str, &str)]| -> Result<Measured> {
        timing.measure_each(|| Bench::new(columns, options, true).map(|_| 1.0))
    };
    let unsorted = write(&columns, &[("design", "column")])?;
    let sorted = write(&columns, &[("design", "column"), ("sort", &columns[0].0)])?;
    let values = (rows * columns.len()) as f64;
    costs.encode_value = unsorted.scaled(1.0 / values);
    costs.sort_value = sorted.minus(unsorted).scaled(1.0 / values).at_least(1.0);
    let texts =
        StringViewArray::from_iter_values((0..rows).map(|row| format!("some text, number {}", row * 7919 % 100_003)));
    let bytes: f64 = texts.iter().flatten().map(str::len).sum::<usize>() as f64;
    let of_texts = write(&[("t".into(), Arc::new(texts), "")], &[("design", "column")])?;
    let of_number_column = unsorted.scaled(1.0 / columns.len() as f64);
    costs.encode_byte = of_texts.minus(of_number_column).scaled(1.0 / bytes).at_least(0.1);
    Ok(())
}
