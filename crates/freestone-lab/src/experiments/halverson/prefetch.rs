//! Prefetching as in the paper's column store (section 3.1): an amount of memory is divided equally among the columns scanned, and
//! that much is read of one column after the other. On files of the laboratory, because the engine keeps reads of all columns in
//! flight.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Instant;

use freestone_store::media::{Buffer, DirectMode, Disk, Medium, ReadFile, ReadRequest};

use super::PAPER;
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::page_file::PAGE_BYTES;
use crate::experiments::scanner::{ScanSettings, store_error};
use crate::experiments::{RunOptions, Workspace};
use freestone_demo::engine::median;
use freestone_report::findings::{Check, Lines, Part, Series, significant};

/// Megabytes of memory for prefetching: of 32 columns, from a page each to what the paper has.
const BUDGETS: [usize; 5] = [1, 4, 16, 64, 256];
const COUNTS: [usize; 3] = [4, 16, 32];
const VALUE_BYTES: usize = 4;
const BLOCK_ROWS: usize = 100;
const RUNS: usize = 3;

/// Milliseconds of scans by the number of columns and the budget.
pub(super) struct Prefetched {
    rows: usize,
    ms: Vec<Vec<f64>>,
}

/// Columns of integers, a file each.
struct Columns {
    files: Vec<Arc<dyn ReadFile>>,
    rows: usize,
    unit: usize,
}

/// Times scans of the first columns of a table with as many columns as are scanned at most.
pub(super) fn measure(
    workspace: &Workspace,
    options: &RunOptions,
    rows: usize,
    notify: Notify<'_>,
) -> Result<Prefetched> {
    notify("prefetching, by its budget");
    let columns = Columns::write(workspace, options.scan, rows)?;
    let of_count = |count: &usize| {
        let times = BUDGETS.map(|budget| columns.time(*count, budget << 20));
        times.into_iter().collect::<Result<Vec<f64>>>()
    };
    Ok(Prefetched { rows, ms: COUNTS.iter().map(of_count).collect::<Result<_>>()? })
}

impl Columns {
    fn write(workspace: &Workspace, settings: ScanSettings, rows: usize) -> Result<Columns> {
        let folder = workspace.path("prefetch");
        std::fs::create_dir_all(&folder).map_err(LabError::file(&folder))?;
        let names: Vec<String> = (0..COUNTS[COUNTS.len() - 1]).map(|column| format!("column-{column}")).collect();
        for name in &names {
            let path = folder.join(name);
            let write = || -> std::io::Result<()> {
                let mut out = BufWriter::new(File::create(&path)?);
                // A sequence from 1, as in the paper's tables.
                (1..=rows as u32).try_for_each(|value| out.write_all(&value.to_le_bytes()))?;
                let rest = (rows * VALUE_BYTES).next_multiple_of(PAGE_BYTES) - rows * VALUE_BYTES;
                out.write_all(&vec![0; rest])?;
                out.flush()
            };
            write().map_err(LabError::file(&path))?;
        }
        let open = |mode| -> Result<Vec<Arc<dyn ReadFile>>> {
            let disk: Disk = settings.disk(&folder, mode)?;
            let files = names.iter().map(|name| disk.open(name).map_err(store_error)).collect::<Result<Vec<_>>>()?;
            read(&files[0], 0, PAGE_BYTES, settings.io_unit)?;
            Ok(files)
        };
        // On a file system without direct I/O, for example in memory, cold runs are only as cold as possible.
        let files = open(DirectMode::On).or_else(|_| open(DirectMode::Auto))?;
        Ok(Columns { files, rows, unit: settings.io_unit })
    }

    /// The median of some scans.
    fn time(&self, count: usize, budget: usize) -> Result<f64> {
        let rows = self.rows as u64;
        let mut times = vec![];
        for _ in 0..RUNS {
            let start = Instant::now();
            let sum = self.scan(count, budget)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if sum != count as u64 * (rows * (rows + 1) / 2) {
                return Err(LabError::Answers(format!("{count} columns with {budget} bytes ahead have the sum {sum}")));
            }
        }
        Ok(median(times))
    }

    /// Reads rows of the first columns, of which `budget` bytes in all are in memory, and returns the sum of their values.
    fn scan(&self, count: usize, budget: usize) -> Result<u64> {
        let chunk = (budget / count / PAGE_BYTES).max(1) * PAGE_BYTES;
        let bytes = self.rows * VALUE_BYTES;
        let mut block: Vec<u8> = Vec::with_capacity(BLOCK_ROWS * count * VALUE_BYTES);
        let mut sum = 0;
        for from in (0..bytes).step_by(chunk) {
            let len = chunk.min(bytes - from);
            let of_column = |file: &Arc<dyn ReadFile>| read(file, from, len.next_multiple_of(PAGE_BYTES), self.unit);
            let chunks = self.files[..count].iter().map(of_column).collect::<Result<Vec<_>>>()?;
            for at in (0..len).step_by(VALUE_BYTES) {
                for units in &chunks {
                    let value = &units[at / self.unit][at % self.unit..][..VALUE_BYTES];
                    block.extend_from_slice(value);
                    sum += value.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
                }
                if block.len() == BLOCK_ROWS * count * VALUE_BYTES {
                    black_box(&block);
                    block.clear();
                }
            }
        }
        black_box(&block);
        Ok(sum)
    }
}

/// The bytes of a file from `from` on, in I/O units that are read together.
fn read(file: &Arc<dyn ReadFile>, from: usize, len: usize, unit: usize) -> Result<Vec<Buffer>> {
    let request = |at: usize| ReadRequest { offset: (from + at) as u64, len: unit.min(len - at) };
    let requests: Vec<ReadRequest> = (0..len).step_by(unit).map(request).collect();
    file.read_many(&requests).into_iter().map(|buffer| buffer.map_err(store_error)).collect()
}

impl Prefetched {
    /// "Without prefetching, random I/O can easily dominate scan times for a column store when reading a large number of columns."
    pub(super) fn claim(&self) -> Check {
        let of_all = self.ms.last().map_or(&[][..], |times| times);
        let [without, with] = [of_all.first(), of_all.last()].map(|ms| ms.copied().unwrap_or(f64::NAN));
        Check::new(
            "32 columns: without prefetching, random I/O dominates the scan (twice the time of 256 MB divided among the columns)",
            without >= 2.0 * with,
            format!("{} ms with a page of each column ahead, {} ms with 256 MB", significant(without), significant(with)),
        )
        .claimed(format!("{PAPER}, 3.1"))
        .or_because("this disk has no arm: after a page of one column, a page of another takes no longer than the next one would")
    }

    pub(super) fn parts(&self) -> [Part; 2] {
        let text = format!(
            "{} rows of 32 columns of 4 bytes, a file each, on one thread, cold: the budget is divided by the columns scanned, and so \
             much of each column is read in turn, in units of 128 KiB of which up to 48 are in flight. A budget that is larger than \
             the columns reads each of them at once. The engine's own scans keep 48 units of all columns in flight.",
            freestone_report::findings::thousands(self.rows as i64)
        );
        let label = |count: &usize| format!("{count} columns");
        let series = COUNTS.iter().zip(&self.ms).map(|(count, times)| Series::new(label(count), times.clone()));
        let chart = Lines {
            title: "columns by the memory for prefetching, cold".into(),
            x_label: "MB for all columns".into(),
            y_label: "ms".into(),
            x: BUDGETS.map(|budget| budget as f64).to_vec(),
            series: series.collect(),
            mark: None,
        };
        [Part::section("Prefetching divided among the columns (section 3.1)", text), Part::Lines(chart)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_budget_reads_every_value() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions { output: folder.path().to_owned(), ..RunOptions::default() };
        let workspace = options.workspace("prefetch").expect("a folder");
        // Neither a multiple of a block nor of a page.
        let columns = Columns::write(&workspace, ScanSettings::default(), 100_003).expect("written");
        for (count, budget) in [(1, 1), (3, 200 << 10), (32, 1 << 20), (32, 256 << 20)] {
            let sum = columns.scan(count, budget).expect("it scans");
            assert_eq!(sum, count as u64 * (100_003 * 100_004 / 2), "{count} columns, {budget} bytes");
        }
    }

    #[test]
    fn a_disk_with_an_arm_confirms_the_claim() {
        let of =
            |without: f64, with: f64| Prefetched { rows: 1, ms: vec![vec![1.0, 1.0], vec![without, with]] }.claim();
        assert!(of(5.0, 2.0).holds && of(3.0, 2.0).is_refuted());
    }
}
