//! The cost of visiting pages, without that of their values: the same values on small and large pages, on many and few
//! pages, cached and verified again.

use std::sync::Arc;

use arrow_array::StringViewArray;
use freestone_store::scan::ColumnPredicate;

use super::passes;
use super::scans::{Bench, GRANULE, Named, between};
use super::tables::{Random, random_columns};
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{Curve, EngineCosts, Form, Measured, PageCost};

const COLUMNS: usize = 16;
const BITS: u32 = 28;
/// Bits of a value that takes 8 bytes in every format, and the column of the tuples that is read.
const LONG_BITS: u32 = 60;
const FIELD: usize = 5;
const SIZES: [&str; 6] = ["4KiB", "8KiB", "16KiB", "32KiB", "64KiB", "128KiB"];
/// The number of page sizes for tuples. On larger pages, the cost of tuples exceeds the cost of visits too much.
const TUPLE_SIZES: usize = 4;

/// Measures the costs of page visits.
pub fn measure(costs: &mut EngineCosts, timing: &Timing) -> Result<()> {
    let rows = if timing.is_quick() { 8 << 10 } else { 64 << 10 };
    let columns = random_columns(rows, COLUMNS, BITS);
    for (form, design) in [(Form::Chunk, "pax"), (Form::Dense, "row"), (Form::Slotted, "slotted")] {
        let cost = visits(form, design, &columns, timing)?;
        costs.pages.push(cost);
    }
    checks(costs, &columns, timing)?;
    prefixes(costs, &columns, timing)
}

fn visits(form: Form, design: &str, columns: &[Named], timing: &Timing) -> Result<PageCost> {
    let few = [between(0, (1 << BITS) * 9 / 10, 1 << BITS)];
    let all: Vec<usize> = (0..COLUMNS).collect();
    let (sizes, large) = if form == Form::Chunk { (&SIZES[..], "1MiB") } else { (&SIZES[..TUPLE_SIZES], "256KiB") };
    let sizes = if timing.is_quick() { &sizes[..1] } else { sizes };
    let bench = |size: &&str| Bench::new(columns, &[("design", design), ("page_size", size)], true);
    let (large, benches) = (bench(&large)?, sizes.iter().map(bench).collect::<Result<Vec<_>>>()?);
    let (base_visits, _) = large.pages(0)?;
    passes::several(timing, || {
        let base = [large.scan(&[0], &[], timing)?, large.scan(&all, &[], timing)?, large.scan(&[], &few, timing)?];
        let (mut decode, mut filter, mut column) = (vec![], vec![], Measured::default());
        for bench in &benches {
            let (visits, _) = bench.pages(0)?;
            let more = 1.0 / (visits - base_visits).max(1.0);
            let one = bench.scan(&[0], &[], timing)?.minus(base[0]).scaled(more);
            let a_granule = visits / bench.granules();
            decode.push((a_granule, one));
            filter.push((a_granule, bench.scan(&[], &few, timing)?.minus(base[2]).scaled(more)));
            if column == Measured::default() {
                let all = bench.scan(&all, &[], timing)?.minus(base[1]).scaled(more);
                column = all.minus(one).scaled(1.0 / (COLUMNS - 1) as f64);
            }
        }
        let (decode, filter) = (Curve::new(decode), Curve::new(filter));
        Ok(PageCost { form, decode, column, filter, sparse: Measured::default() })
    })
}

/// Verifying pages that were read: per byte, per page, and per row of the visited rows.
fn checks(costs: &mut EngineCosts, columns: &[Named], timing: &Timing) -> Result<()> {
    let cost = |options: &[(&str, &str)]| -> Result<(Measured, f64, f64, f64)> {
        let (hot, cold) = (Bench::new(columns, options, true)?, Bench::new(columns, options, false)?);
        let (pages, bytes) = cold.pages(0)?;
        let ns = passes::several(timing, || Ok(cold.scan(&[0], &[], timing)?.minus(hot.scan(&[0], &[], timing)?)))?;
        Ok((ns, pages, bytes, cold.rows))
    };
    let (small, small_pages, small_bytes, _) = cost(&[("design", "pax"), ("page_size", "4KiB")])?;
    let (large, large_pages, large_bytes, _) = cost(&[("design", "pax"), ("page_size", "64KiB")])?;
    // Two equations, for bytes and for pages.
    let determinant = small_pages * large_bytes - large_pages * small_bytes;
    let per_page = (small.value * large_bytes - large.value * small_bytes) / determinant.max(1.0);
    let per_page = per_page.max(0.0);
    let per_byte = ((large.value - per_page * large_pages) / large_bytes).max(0.0);
    costs.admit_page = near(per_page, small);
    costs.admit_byte = near(per_byte, large);
    let rest = |(ns, pages, bytes, rows): (Measured, f64, f64, f64)| {
        let known = pages * per_page + bytes * per_byte;
        ns.minus(Measured::exact(known)).scaled(1.0 / rows)
    };
    costs.admit_slotted_row = rest(cost(&[("design", "slotted"), ("page_size", "32KiB")])?);
    costs.admit_prefix_row = rest(cost(&[("design", "row"), ("page_size", "32KiB"), ("sort", "c0")])?);
    Ok(())
}

/// The same fields in tuples of fixed width, and in tuples with a prefix.
fn prefixes(costs: &mut EngineCosts, columns: &[Named], timing: &Timing) -> Result<()> {
    let few = [between(5, (1 << BITS) * 9 / 10, 1 << BITS)];
    let options = [("design", "row"), ("page_size", "32KiB"), ("sort", "c0")];
    let (plain, sorted) = (Bench::new(columns, &options[..2], true)?, Bench::new(columns, &options, true)?);
    let more = |columns: &[usize], predicates: &[ColumnPredicate]| -> Result<Measured> {
        passes::several(timing, || {
            let difference = sorted.scan(columns, predicates, timing)?.minus(plain.scan(columns, predicates, timing)?);
            Ok(difference.scaled(1.0 / sorted.rows))
        })
    };
    costs.prefix_filter = more(&[], &few)?;
    costs.prefix_decode = more(&[5], &[])?;
    Ok(())
}

/// A derived figure with the relative spread of the figure from which it was derived.
fn near(value: f64, from: Measured) -> Measured {
    let relative = |x: f64| if from.value > 0.0 { x / from.value } else { 1.0 };
    Measured { value, low: value * relative(from.low), high: value * relative(from.high) }
}

/// The same scans of tables that fit the caches and of tables that do not.
pub fn beyond_caches(costs: &mut EngineCosts, timing: &Timing) -> Result<()> {
    let timing = &timing.beyond_caches();
    let sizes: &[usize] = if timing.is_quick() { &[14, 16] } else { &[15, 17, 19, 21, 22, 23] };
    let sizes: Vec<usize> = sizes.iter().map(|log| 1 << log).collect();
    let mut plain = random_columns(sizes[sizes.len() - 1], 1, 63);
    plain[0].2 = "plain";
    let benches = by_size(&plain, &sizes, "column")?;
    costs.stream = beyond_first(timing, &benches, |bench| {
        let bytes = bench.rows * 8.0;
        Ok((bytes, bench.scan(&[0], &[], timing)?.scaled(1.0 / bytes)))
    })?;
    drop((plain, benches));
    // A tuple has two or four lines, and one of its fields is read.
    costs.line = tuples_beyond_caches(COLUMNS, timing)?;
    costs.line_apart = tuples_beyond_caches(2 * COLUMNS, timing)?;
    costs.line_slotted = slotted_beyond_caches(timing)?;
    costs.spill = decoded_beyond_caches(timing)?;
    Ok(())
}

/// The numbers of rows of the scanned tables, of `row_bytes` bytes each. With fewer rows they would stay in the log,
/// without tuples.
fn sizes_beyond(row_bytes: usize, timing: &Timing) -> Vec<usize> {
    let bytes: &[usize] = if timing.is_quick() { &[21, 22] } else { &[21, 23, 24, 25, 26, 27] };
    bytes.iter().map(|log| (1 << log) / row_bytes).collect()
}

/// The additional nanoseconds per tuple of `fields` fields of about 8 bytes, of which one is read, beyond the time in a
/// near cache.
fn tuples_beyond_caches(fields: usize, timing: &Timing) -> Result<Curve> {
    let sizes = sizes_beyond(8 * fields, timing);
    let benches = by_size(&random_columns(sizes[sizes.len() - 1], fields, LONG_BITS), &sizes, "row")?;
    beyond_first(timing, &benches, |bench| field(bench, timing))
}

/// Nanoseconds per cache line of slotted tuples, of which one field is read.
fn slotted_beyond_caches(timing: &Timing) -> Result<Curve> {
    const TEXT_BYTES: u64 = 60;
    let sizes = sizes_beyond(16 * COLUMNS, timing);
    let (rows, mut random) = (sizes[sizes.len() - 1], Random(37));
    let mut all = random_columns(rows, COLUMNS, LONG_BITS);
    for at in 0..4 {
        let texts = (0..rows).map(|_| "x".repeat(random.below(TEXT_BYTES) as usize));
        all.push((format!("t{at}"), Arc::new(StringViewArray::from_iter_values(texts)), ""));
    }
    let benches = by_size(&all, &sizes, "slotted")?;
    beyond_first(timing, &benches, |bench| field(bench, timing))
}

/// The bytes of a table of tuples, and the nanoseconds per row for reading a field.
fn field(bench: &Bench, timing: &Timing) -> Result<(f64, Measured)> {
    // For the few rows that fit a near cache, the fixed costs of a scan would be a large part.
    let read = bench.scan(&[FIELD], &[], timing)?.minus(bench.scan(&[], &[], timing)?);
    Ok((bench.pages(0)?.1, read.scaled(1.0 / bench.rows)))
}

/// Nanoseconds per byte of decoded values, for increasing numbers of decoded columns. There are so few rows that the
/// input stays in the caches.
fn decoded_beyond_caches(timing: &Timing) -> Result<Curve> {
    const VALUE: f64 = 8.0;
    let (rows, counts): (usize, &[usize]) =
        if timing.is_quick() { (8 << 10, &[4, 8]) } else { (16 << 10, &[4, 8, 16, 32, 64]) };
    let bench = Bench::new(&random_columns(rows, counts[counts.len() - 1], BITS), &[("design", "column")], true)?;
    let point = |count: &usize| -> Result<(f64, Measured)> {
        let values = bench.rows * *count as f64;
        let ns = bench.scan(&(0..*count).collect::<Vec<_>>(), &[], timing)?.scaled(1.0 / (values * VALUE));
        Ok((GRANULE * *count as f64 * VALUE, ns))
    };
    beyond_first(timing, counts, point)
}

/// Tables of the first `size` rows, for each of `sizes`.
fn by_size(all: &[Named], sizes: &[usize], design: &str) -> Result<Vec<Bench>> {
    let part = |rows: &usize| {
        let part: Vec<Named> = all.iter().map(|(n, a, encoding)| (n.clone(), a.slice(0, *rows), *encoding)).collect();
        Bench::new(&part, &[("design", design)], true)
    };
    sizes.iter().map(part).collect()
}

/// The results of `point` for each element, minus the result for the first.
fn beyond_first<T>(timing: &Timing, of: &[T], point: impl Fn(&T) -> Result<(f64, Measured)>) -> Result<Curve> {
    passes::several(timing, || {
        let points: Vec<(f64, Measured)> = of.iter().map(&point).collect::<Result<_>>()?;
        let first = points.first().map_or(Measured::default(), |p| p.1);
        Ok(Curve::new(points.into_iter().map(|(x, m)| (x, m.minus(first))).collect()))
    })
}
