//! The standard row store with column abstraction (Figures 1a, 1b and 4), on slotted pages of the laboratory: a tuple for each value
//! of a level and one for each row, each with its header and slot, and a call of the iterator for each.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::time::Instant;

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use freestone_data::halverson;
use freestone_store::media::DirectMode;

use super::{PAPER, RUNS};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::page_file::{PAGE_BYTES, PageFile, Pages};
use crate::experiments::scanner::{Point, Run, Sample, ScanSettings, cpu_ms, faster};
use crate::experiments::{RunOptions, Workspace};
#[cfg(test)]
use freestone_demo::engine::hash;
use freestone_report::findings::{Bar, BarGroup, Bars, Check, Part, TIE, Table, significant, thousands};

/// The bytes of a tuple in addition to its values. The first one is its level.
const HEADER: usize = 16;
const SLOT: usize = 4;
const COUNT: usize = 4;
const BLOCK_ROWS: usize = 100;

/// A Gen table as slotted tuples, of which the leading columns are levels.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Layout {
    levels: Vec<u32>,
    columns: usize,
    abstracted: usize,
}

/// What a layout has and takes.
pub(super) struct Slotted {
    layout: Layout,
    /// Physical tuples.
    tuples: u64,
    bytes: u64,
    point: Point,
}

impl Layout {
    fn name(&self) -> String {
        let levels: Vec<String> = self.levels.iter().map(u32::to_string).collect();
        let form = if self.abstracted > 0 { "levels" } else { "plain" };
        format!("Gen_{}, {form}", levels.join("_"))
    }
}

/// Pages that grow by tuples from the front and by slots from the end.
struct Writer<W> {
    out: W,
    page: Vec<u8>,
    end: usize,
    slots: usize,
}

impl<W: Write> Writer<W> {
    fn new(out: W) -> Writer<W> {
        Writer { out, page: vec![0; PAGE_BYTES], end: COUNT, slots: 0 }
    }

    fn push(&mut self, level: u8, values: &[i32]) -> io::Result<()> {
        let len = HEADER + 4 * values.len();
        if self.end + len > PAGE_BYTES - SLOT * (self.slots + 1) {
            self.flush()?;
        }
        let tuple = &mut self.page[self.end..self.end + len];
        tuple[0] = level;
        for (place, value) in tuple[HEADER..].chunks_exact_mut(4).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        self.slots += 1;
        let slot = PAGE_BYTES - SLOT * self.slots;
        self.page[slot..slot + 2].copy_from_slice(&(self.end as u16).to_le_bytes());
        self.page[slot + 2..slot + 4].copy_from_slice(&(len as u16).to_le_bytes());
        self.end += len;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.slots > 0 {
            self.page[..COUNT].copy_from_slice(&(self.slots as u32).to_le_bytes());
            self.out.write_all(&self.page)?;
        }
        self.page.fill(0);
        (self.end, self.slots) = (COUNT, 0);
        Ok(())
    }
}

/// Writes a table, and returns the number of its physical tuples.
fn write(layout: &Layout, out: impl Write) -> io::Result<u64> {
    let Layout { levels, columns, abstracted } = layout;
    let mut writer = Writer::new(out);
    let (mut tuples, mut row, mut last) = (0, vec![0i32; *columns], vec![]);
    for batch in halverson::table(levels, *columns) {
        let values: Vec<&[i32]> =
            batch.columns().iter().map(|column| column.as_primitive::<Int32Type>().values().as_ref()).collect();
        for at in 0..batch.num_rows() {
            row.iter_mut().zip(&values).for_each(|(value, of)| *value = of[at]);
            // A level has a tuple where its value or that of a level above begins.
            let begins = (0..*abstracted).find(|level| last.get(*level) != Some(&row[*level])).unwrap_or(*abstracted);
            for level in begins..*abstracted {
                writer.push(level as u8, &row[level..=level])?;
                tuples += 1;
            }
            writer.push(*abstracted as u8, &row[*abstracted..])?;
            tuples += 1;
            last.clone_from(&row);
        }
    }
    writer.flush()?;
    writer.out.flush()?;
    Ok(tuples)
}

/// The storage manager's iterator: a call for each tuple.
struct Tuples<'f> {
    pages: Pages<'f>,
    slot: usize,
    slots: usize,
}

impl Tuples<'_> {
    /// The next tuple, with its header.
    #[inline(never)]
    fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.slot == self.slots {
            if !self.pages.advance()? {
                return Ok(None);
            }
            (self.slot, self.slots) = (0, number(self.pages.page(), 0, COUNT));
        }
        self.slot += 1;
        let page = self.pages.page();
        let slot = PAGE_BYTES - SLOT * self.slot;
        let (start, len) = (number(page, slot, 2), number(page, slot + 2, 2));
        Ok(page.get(start..start + len))
    }
}

fn number(page: &[u8], at: usize, len: usize) -> usize {
    let bytes = page.get(at..at + len).unwrap_or(&[]);
    bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Scans all columns of all rows, and passes blocks of un-encoded tuples to `take`.
fn scan(file: &PageFile, layout: &Layout, is_cold: bool, mut take: impl FnMut(&[u8])) -> Result<()> {
    let (width, leaf) = (4 * layout.columns, layout.abstracted);
    let mut row = vec![0u8; width];
    let mut block = Vec::with_capacity(BLOCK_ROWS * width);
    let mut tuples = Tuples { pages: file.pages(is_cold), slot: 0, slots: 0 };
    while let Some(tuple) = tuples.next()? {
        let (level, values) = (usize::from(tuple[0]), &tuple[HEADER..]);
        row[4 * level..4 * level + values.len()].copy_from_slice(values);
        if level == leaf {
            block.extend_from_slice(&row);
            if block.len() == BLOCK_ROWS * width {
                take(black_box(&block));
                block.clear();
            }
        }
    }
    take(black_box(&block));
    Ok(())
}

/// The tables of Figure 4 with 4 and with 16 columns: without abstraction, and two with two levels.
pub(super) fn measure(
    workspace: &Workspace,
    options: &RunOptions,
    rows: usize,
    notify: Notify<'_>,
) -> Result<Vec<Vec<Slotted>>> {
    let group = |rows: usize, columns: usize| {
        let leaf = (rows / 40).max(1) as u32;
        let layouts = [(vec![leaf * 40], 0), (vec![leaf, 10, 4], 2), (vec![10, 4, leaf], 2)];
        let layouts = layouts.into_iter().map(|(levels, abstracted)| Layout { levels, columns, abstracted });
        layouts.map(|layout| one(workspace, options, layout, notify)).collect::<Result<Vec<_>>>()
    };
    Ok(vec![group(rows, 4)?, group(rows / 4, 16)?])
}

fn one(workspace: &Workspace, options: &RunOptions, layout: Layout, notify: Notify<'_>) -> Result<Slotted> {
    notify(&format!("slotted pages of {} with {} columns", layout.name(), layout.columns));
    let path = workspace.path("slotted");
    let file = File::create(&path).map_err(LabError::file(&path))?;
    let tuples = write(&layout, BufWriter::new(file)).map_err(LabError::file(&path))?;
    let folder = path.parent().unwrap_or(&path);
    let settings = ScanSettings { block_rows: BLOCK_ROWS, ..options.scan };
    let open = |mode| PageFile::open(&settings.disk(folder, mode)?, "slotted", settings);
    // On a file system without direct I/O, for example in memory, cold runs are only as cold as possible.
    let file = open(DirectMode::On).or_else(|_| open(DirectMode::Auto))?;
    let mut rows = 0;
    scan(&file, &layout, false, |block| rows += block.len() / (4 * layout.columns))?;
    let expected: usize = layout.levels.iter().map(|values| *values as usize).product();
    if rows != expected {
        return Err(LabError::Answers(format!("slotted pages of {} have {rows} rows", layout.name())));
    }
    let time = |is_cold: bool| -> Result<Run> {
        let (start, cpu_start) = (Instant::now(), cpu_ms());
        scan(&file, &layout, is_cold, |_| ())?;
        let (ms, cpu_ms) = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu_start);
        Ok(Run { ms, cpu_ms, bytes_read: if is_cold { file.bytes() } else { 0 } })
    };
    let sample = |_| -> Result<Sample> { Ok(Sample { hot: faster(time(false)?, time(false)?), cold: time(true)? }) };
    let samples = (0..RUNS).map(sample).collect::<Result<Vec<_>>>()?;
    Ok(Slotted { tuples, bytes: file.bytes(), point: Point::of(&samples), layout })
}

/// The verdict on the surprise of Figure 4a, which the paper states for 4 columns.
pub(super) fn claims(groups: &[Vec<Slotted>]) -> Vec<Check> {
    let check = |group: &Vec<Slotted>| {
        let [plain, middle, ..] = group.as_slice() else { return None };
        let [before, after] = [plain, middle].map(|slotted| slotted.point);
        let iteration = |slotted: &Slotted| significant(slotted.point.hot_ms * 1e6 / slotted.tuples as f64);
        let check = Check::new(
            format!(
                "{} columns: the standard row store gets slower from no levels to {}, as there are more tuples to iterate over",
                plain.layout.columns,
                middle.layout.name().trim_end_matches(", levels")
            ),
            after.cold_ms > before.cold_ms,
            format!(
                "cold, {} ms without and {} ms with levels; {} and {} tuples",
                significant(before.cold_ms),
                significant(after.cold_ms),
                thousands(plain.tuples),
                thousands(middle.tuples)
            ),
        );
        Some(check.claimed(format!("{PAPER}, 3.4, Figure 4a")).or_because(format!(
            "an iteration costs {} and {} ns here, in memory, and the file has {} MB less to read",
            iteration(plain),
            iteration(middle),
            significant((plain.bytes as f64 - middle.bytes as f64) / 1e6)
        )))
    };
    groups.iter().take(1).filter_map(check).collect()
}

pub(super) fn parts(groups: &[Vec<Slotted>]) -> Vec<Part> {
    let bars = |group: &Vec<Slotted>| BarGroup {
        label: format!("{} columns", group.first().map_or(0, |slotted| slotted.layout.columns)),
        note: "slotted tuples, a call for each".into(),
        bars: group.iter().map(|slotted| Bar::new(slotted.layout.name(), slotted.point.cold_ms)).collect(),
    };
    let header = ["table", "columns", "tuples", "MB", "cold, ms", "hot, ms"];
    let mut table = Table::new("The standard row store with column abstraction", 1, &header);
    for Slotted { layout, tuples, bytes, point } in groups.iter().flatten() {
        let numbers = [*bytes as f64 / 1e6, point.cold_ms, point.hot_ms].map(significant);
        let texts = [layout.name(), layout.columns.to_string(), thousands(*tuples)];
        table.push(texts.into_iter().chain(numbers));
    }
    let text = "Pages of the laboratory, as the engine's slotted pages have no levels: each tuple has 16 bytes of header and 4 of slot, \
                and is a call of the iterator. A level has a tuple for each of its values, in the order of the rows (Figure 1b).";
    let chart = Part::Bars(Bars {
        title: "All columns of slotted tuples, cold".into(),
        unit: "ms".into(),
        tie: TIE,
        groups: groups.iter().map(bars).collect(),
    });
    vec![
        Part::section("Column abstraction in the standard row store (Figures 1b and 4)", text),
        chart,
        Part::Table(table),
    ]
}

/// The sum of the hashes of all rows; for tests.
#[cfg(test)]
fn checksum(file: &PageFile, layout: &Layout, is_cold: bool) -> u64 {
    let mut sum = 0u64;
    scan(file, layout, is_cold, |block| {
        sum = block.chunks_exact(4 * layout.columns).fold(sum, |sum, row| sum.wrapping_add(hash(row)));
    })
    .expect("it scans");
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_change_the_tuples_and_not_the_rows() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let settings = ScanSettings::default();
        let mut sums = vec![];
        for (abstracted, tuples) in [(0, 6000), (1, 6030), (2, 6630)] {
            let layout = Layout { levels: vec![30, 20, 10], columns: 5, abstracted };
            let file = File::create(folder.path().join("pages")).expect("the folder is writable");
            assert_eq!(write(&layout, BufWriter::new(file)).expect("it is written"), tuples);
            let disk = settings.disk(folder.path(), DirectMode::Auto).expect("a folder");
            let file = PageFile::open(&disk, "pages", settings).expect("pages");
            // 30 * 20 * 10 rows of the leaf's columns, with headers and slots, and a tuple for each value of a level.
            let leaf = 20 + 4 * (5 - abstracted as u64);
            let pages = (6000 * leaf + (tuples - 6000) * 24).div_ceil(PAGE_BYTES as u64);
            assert!((pages..=pages + 1).contains(&(file.bytes() / PAGE_BYTES as u64)), "{} bytes", file.bytes());
            sums.extend([false, true].map(|is_cold| checksum(&file, &layout, is_cold)));
        }
        assert!(sums.iter().all(|sum| *sum == sums[0] && *sum != 0), "{sums:?}");
    }

    #[test]
    fn a_scan_that_gets_slower_is_the_surprise() {
        let slotted = |abstracted, tuples, cold_ms| Slotted {
            layout: Layout { levels: vec![10, 10], columns: 4, abstracted },
            tuples,
            bytes: 1 << 20,
            point: Point { cold_ms, hot_ms: 1.0, ..Point::default() },
        };
        assert!(claims(&[vec![slotted(0, 100, 5.0), slotted(1, 110, 6.0)]])[0].holds);
        assert!(claims(&[vec![slotted(0, 100, 5.0), slotted(1, 110, 4.0)]])[0].is_refuted());
    }
}
