//! Result tuples of a projection, stored until the query ends, in blocks from several allocators.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::time::Instant;

use freestone_store::scan::{TupleBlock, TupleLayout};
use mimalloc::MiMalloc;
use tikv_jemallocator::Jemalloc;

use super::{COUNTS, PLACE, PROJECTED, in_numbers, lines, table_name};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::scanner::{Pick, Query, Scanner, Source};
use freestone_demo::engine::median;
use freestone_report::findings::{Check, Part, significant};

/// The allocator of a block.
type Allocator = dyn GlobalAlloc + Sync;

const NAMES: [&str; 3] = ["system", "jemalloc", "mimalloc"];
const ALLOCATORS: [&Allocator; 3] = [&System, &Jemalloc, &MiMalloc];
/// The gain from which on an allocator counts as faster. The paper's gain is about a tenth.
const AHEAD: f64 = 1.05;

/// A copy of some bytes in an allocator's memory.
struct AllocatedCopy {
    start: NonNull<u8>,
    layout: Layout,
    from: &'static Allocator,
}

impl AllocatedCopy {
    /// `None` if there are no bytes, or the allocator has no memory for them.
    fn copy_of(bytes: &[u8], from: &'static Allocator) -> Option<AllocatedCopy> {
        let layout = Layout::for_value(bytes);
        if bytes.is_empty() {
            return None;
        }
        // SAFETY: the layout's size is not zero.
        let start = NonNull::new(unsafe { from.alloc(layout) })?;
        // SAFETY: the memory is new, as long as `bytes`, and has no other owner.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        Some(AllocatedCopy { start, layout, from })
    }

    #[cfg(test)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `copy_of` wrote this number of bytes here, and they are freed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AllocatedCopy {
    fn drop(&mut self) {
        // SAFETY: this allocator returned this memory for this layout, and it is freed only here.
        unsafe { self.from.dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Milliseconds: by the number of attributes, then by allocator in the order of [`NAMES`].
type Times = Vec<Vec<f64>>;

/// Figure 3: the projectivity experiment on rows, on one thread and on `threads` at once.
pub(super) fn parts(
    scanner: &Scanner,
    rows: usize,
    threads: usize,
    queries: usize,
    notify: Notify<'_>,
) -> Result<Vec<Part>> {
    notify("timing allocators");
    let alone = measure(scanner, rows, 1, queries)?;
    let together = measure(scanner, rows, threads, queries)?;
    let text = format!(
        "The projections above from rows, whose tuples are kept until the query ends: each block of 100 tuples has memory of its own, \
         from the system's allocator, jemalloc or mimalloc, and is freed with the others. Copying and freeing count. Medians; all \
         other memory of the scan is the program's own allocator's, mimalloc. \"Together\" is the same query on {threads} threads."
    );
    let counts = COUNTS.map(|count| count as f64);
    let names = COUNTS.map(|count| count.to_string());
    let mut parts = vec![Part::section("Allocators", text), Part::checks(vec![claims(&alone, &together, threads)])];
    for (title, times) in [("alone", &alone), ("together", &together)] {
        parts.push(lines(&format!("Results kept, {title}"), "attributes read, of 100", &counts, &NAMES, times));
        parts.push(in_numbers(&format!("Results kept, {title}: milliseconds"), "attributes", &names, &NAMES, times));
    }
    Ok(parts)
}

/// The sums over all points: on one thread, and on `threads`.
pub(super) fn totals(scanner: &Scanner, rows: usize, threads: usize, queries: usize) -> Result<[[f64; 3]; 2]> {
    Ok([sums(&measure(scanner, rows, 1, queries)?), sums(&measure(scanner, rows, threads, queries)?)])
}

/// The sum over all points by allocator.
fn sums(times: &Times) -> [f64; 3] {
    [0, 1, 2].map(|at| times.iter().map(|of_count| of_count[at]).sum())
}

fn measure(scanner: &Scanner, rows: usize, threads: usize, queries: usize) -> Result<Times> {
    let of_count = |count: &usize| {
        let query = Query { columns: (0..*count).collect(), pick: Pick::All };
        let mut taken = vec![vec![]; ALLOCATORS.len()];
        // The first round uses memory that is new to the process.
        for round in 0..=queries {
            for (allocator, times) in ALLOCATORS.iter().zip(&mut taken) {
                let ms = time(scanner, &query, rows, threads, *allocator)?;
                times.extend((round > 0).then_some(ms));
            }
        }
        Ok(taken.into_iter().map(median).collect())
    };
    COUNTS.iter().map(of_count).collect()
}

/// The same query on several threads at once, each with a result of its own.
fn time(scanner: &Scanner, query: &Query, rows: usize, threads: usize, allocator: &'static Allocator) -> Result<f64> {
    let one = || {
        let mut result = Vec::with_capacity(rows / 50);
        let keep = |_: &TupleLayout, block: &TupleBlock| result.push(AllocatedCopy::copy_of(block.tuples(), allocator));
        scanner.run(&table_name(PROJECTED, "row"), query, Source::Memory, keep)?;
        let is_whole = result.iter().all(Option::is_some);
        is_whole
            .then_some(())
            .ok_or_else(|| LabError::Usage("there is no memory left for a result; give fewer --rows".into()))
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a scan that fails says so"))
    })?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn claims(alone: &Times, together: &Times, threads: usize) -> Check {
    let gain = |times: &Times| {
        let [system, jemalloc, mimalloc] = sums(times);
        [system / jemalloc, system / mimalloc]
    };
    let (alone, together) = (gain(alone), gain(together));
    let best = together.into_iter().fold(0.0, f64::max);
    let figures = |[jemalloc, mimalloc]: [f64; 2]| {
        format!("jemalloc {} and mimalloc {} times as fast", significant(jemalloc), significant(mimalloc))
    };
    Check::new(
        "allocators that keep memory for each thread read projections from rows faster than the system's, by about a tenth",
        best >= AHEAD,
        format!("all points together: alone {}; on {threads} threads {}", figures(alone), figures(together)),
    )
    .claimed(format!("{PLACE}.2, Figure 3"))
    .or_because(
        "the system's allocator has caches for each thread by now (glibc 2.26 and later), and blocks of 100 tuples make one call for \
         hundreds of values",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allocator_keeps_bytes_and_frees_them() {
        for from in ALLOCATORS {
            let kept: Vec<AllocatedCopy> =
                (1..200usize).filter_map(|len| AllocatedCopy::copy_of(&vec![len as u8; len * 31], from)).collect();
            assert_eq!(kept.len(), 199);
            for (at, kept) in kept.iter().enumerate() {
                assert!(kept.bytes().iter().all(|byte| *byte == (at + 1) as u8));
                assert_eq!(kept.bytes().len(), (at + 1) * 31);
            }
            assert!(AllocatedCopy::copy_of(&[], from).is_none());
        }
    }
}
