//! The paper's own pages and scanners, without the engine: Table 2, and Figures 2 to 8 with uncompressed rows and
//! columns. What the engine's pages and its vectorized cursor make of the same queries is `holloway-scans`.

mod bits;
mod blocks;
mod page;
mod scan;
mod widths;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use freestone_store::media::{DirectMode, Disk};

use super::scans::{Measured, figures};
use super::sweep::{Clock, Plan, Sweep};
use super::verdicts;
use super::{Generated, QUERIES, ROWS, rows_of};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::page_file::PageFile;
use crate::experiments::scanner::{Point, Query, Run, Sample, cpu_ms, faster};
use crate::experiments::{Experiment, RunOptions, ScanSettings, Workspace, published};
use freestone_demo::engine::{Answer, hash};
use freestone_report::findings::{Bar, BarGroup, Bars, Cell, Check, Part, Table, significant, thousands};
use page::{Form, Layout, PageWriter, Value};
pub(super) use scan::Scan;

pub const EXPERIMENT: Experiment = Experiment {
    name: "holloway-pages",
    title: "The paper's pages and scanners",
    shows: "Rows scanned tuple by tuple and columns by position lists, uncompressed, bit-aligned and compressed.",
    source: "Holloway and DeWitt 2008, sections 4 to 6.7, Tables 1 and 2, Figures 2 to 8",
    size: "--rows 1000000 (the wide tables a fifth), --queries 10 a point",
    run,
};

/// A design: rows or columns, and how their values are stored.
pub(super) type Design = &'static str;
const COMPRESSED: [Design; 2] = ["row", "column"];
const WITH_PLAIN: [Design; 4] = ["row", "column", "row plain", "column plain"];
/// A number of columns: one, a quarter, a half, and all.
const NARROW: [usize; 4] = [1, 3, 5, 10];
const WIDE: [usize; 6] = [1, 6, 12, 25, 33, 50];

/// How the values of a table are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compression {
    /// Integers of 32 bits, strings of 20 bytes.
    Plain,
    /// As many bits as the greatest value of the column needs.
    BitAligned,
    /// Table 1.
    Table1,
}

/// The bits of the values from 1 to `range`.
fn bits_of(range: u32) -> u32 {
    u32::BITS - (range - 1).leading_zeros()
}

/// The form of each column in `compression`, before what Table 1 says about rows or columns.
fn forms(table: Generated, compression: Compression) -> Vec<Form> {
    match (table, compression) {
        (Generated::Strings, _) => vec![Form::Text; table.schema().fields().len()],
        (_, Compression::Plain) => vec![Form::Int; table.schema().fields().len()],
        _ => table.ranges().into_iter().map(|range| Form::Packed(bits_of(range))).collect(),
    }
}

/// The entries of the pages of rows. Table 1 as printed does not say that columns 1 to 6 of Narrow-S are delta-encoded.
/// Without that a tuple has 13 bytes, and with it the 7 bytes of Table 2, and section 6.3 says that more columns are.
fn row_layout(table: Generated, compression: Compression) -> Layout {
    let mut layout = Layout::plain(forms(table, compression));
    if compression == Compression::Table1 {
        match table {
            Generated::NarrowE => layout.delta = 5,
            Generated::WideE => layout.delta = 8,
            Generated::NarrowS => {
                layout.delta = 6;
                layout.columns[6..].fill(Form::Dictionary(11));
                layout.dictionary_max = 2048;
            }
            Generated::NarrowU | Generated::Strings => {}
        }
    }
    layout
}

/// The entries of the pages of each column.
fn column_layouts(table: Generated, compression: Compression) -> Vec<Layout> {
    let runs = match (table, compression) {
        (Generated::NarrowE, Compression::Table1) => 3,
        (Generated::NarrowS, Compression::Table1) => 6,
        (Generated::WideE, Compression::Table1) => 4,
        _ => 0,
    };
    let layout = |(column, form): (usize, Form)| match form {
        Form::Packed(bits) if column < runs => Layout::plain(vec![Form::Runs(bits)]),
        Form::Packed(_) if table == Generated::NarrowS && compression == Compression::Table1 => {
            Layout { dictionary_max: 4096, ..Layout::plain(vec![Form::Dictionary(12)]) }
        }
        form => Layout::plain(vec![form]),
    };
    forms(table, compression).into_iter().enumerate().map(layout).collect()
}

/// The pages of a table in one design.
pub(super) enum Stored {
    Rows(PageFile, Layout),
    Columns(Vec<(PageFile, Layout)>),
}

impl Stored {
    fn bytes(&self) -> u64 {
        match self {
            Stored::Rows(file, _) => file.bytes(),
            Stored::Columns(files) => files.iter().map(|(file, _)| file.bytes()).sum(),
        }
    }

    /// The bytes that a query reads.
    fn bytes_of(&self, query: &Query) -> u64 {
        match self {
            Stored::Rows(file, _) => file.bytes(),
            Stored::Columns(files) => query.columns.iter().map(|column| files[*column].0.bytes()).sum(),
        }
    }

    pub(super) fn scan(&self, query: &Query, scan: Scan<'_>) -> Result<()> {
        match self {
            Stored::Rows(file, layout) => scan::rows(file, layout, query, scan),
            Stored::Columns(files) => scan::columns(files, query, scan),
        }
    }

    fn width(&self, query: &Query) -> usize {
        let form = |column: &usize| match self {
            Stored::Rows(_, layout) => layout.columns[*column],
            Stored::Columns(files) => files[*column].1.columns[0],
        };
        query.columns.iter().map(|column| form(column).width()).sum()
    }
}

/// The designs of one table, in files of a folder.
pub(super) struct Stores {
    designs: Vec<(Design, Stored)>,
    settings: ScanSettings,
}

impl Stores {
    /// Writes all designs of a table at once, and opens them.
    pub(super) fn new(
        folder: &Path,
        table: Generated,
        rows: usize,
        designs: &[Design],
        settings: ScanSettings,
    ) -> Result<Stores> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder).map_err(LabError::file(folder))?;
        let layouts: Vec<Vec<(String, Layout)>> = designs.iter().map(|design| files_of(table, design)).collect();
        let write = |file: &(String, Layout)| {
            let path = folder.join(&file.0);
            let out = File::create(&path).map_err(LabError::file(&path))?;
            Ok(PageWriter::new(file.1.clone(), BufWriter::new(out)))
        };
        let writers = layouts.iter().map(|files| files.iter().map(write).collect::<Result<Vec<_>>>());
        let mut writers = writers.collect::<Result<Vec<_>>>()?;
        for batch in table.batches(rows, 1) {
            for writers in &mut writers {
                push(writers, &batch).map_err(LabError::file(folder))?;
            }
        }
        for writer in writers.into_iter().flatten() {
            writer.finish().map_err(LabError::file(folder))?;
        }
        let open = |mode| Stores::open(&settings.disk(folder, mode)?, designs, &layouts, settings);
        // On a file system without direct I/O, for example in memory, cold runs are only as cold as possible.
        open(DirectMode::On).or_else(|_| open(DirectMode::Auto))
    }

    fn open(
        disk: &Disk,
        designs: &[Design],
        layouts: &[Vec<(String, Layout)>],
        settings: ScanSettings,
    ) -> Result<Stores> {
        let stored = |(design, files): (&Design, &Vec<(String, Layout)>)| {
            let open = |(name, layout): &(String, Layout)| Ok((PageFile::open(disk, name, settings)?, layout.clone()));
            let mut opened = files.iter().map(open).collect::<Result<Vec<_>>>()?;
            let stored = match design.starts_with("row") {
                true => {
                    let (file, layout) = opened.remove(0);
                    Stored::Rows(file, layout)
                }
                false => Stored::Columns(opened),
            };
            Ok((*design, stored))
        };
        Ok(Stores { designs: designs.iter().zip(layouts).map(stored).collect::<Result<_>>()?, settings })
    }

    pub(super) fn settings(&self) -> ScanSettings {
        self.settings
    }

    pub(super) fn of(&self, design: Design) -> Result<&Stored> {
        let found = self.designs.iter().find(|(name, _)| *name == design);
        found.map(|(_, stored)| stored).ok_or_else(|| LabError::Usage(format!("there are no pages of {design}")))
    }

    pub(super) fn time(&self, stored: &Stored, query: &Query, is_cold: bool) -> Result<Run> {
        let (start, cpu_start) = (Instant::now(), cpu_ms());
        stored.scan(query, Scan { is_cold, settings: self.settings, take: &mut |_| Ok(()) })?;
        let (ms, cpu_ms) = (start.elapsed().as_secs_f64() * 1e3, cpu_ms() - cpu_start);
        Ok(Run { ms, cpu_ms, bytes_read: if is_cold { stored.bytes_of(query) } else { 0 } })
    }

    fn answer(&self, stored: &Stored, query: &Query) -> Result<Answer> {
        let mut answer = Answer { rows: 0, checksum: 0 };
        let width = stored.width(query).max(1);
        let mut take = |tuples: &[u8]| {
            for tuple in tuples.chunks_exact(width) {
                answer.rows += 1;
                answer.checksum = answer.checksum.wrapping_add(hash(tuple));
            }
            Ok(())
        };
        stored.scan(query, Scan { is_cold: false, settings: self.settings, take: &mut take })?;
        Ok(answer)
    }

    /// The means over the queries for each design. Designs take turns.
    ///
    /// # Errors
    /// Two designs give different answers, which is a defect.
    fn measure(&self, designs: &[Design], queries: &[Query]) -> Result<Vec<Point>> {
        let mut samples: Vec<Vec<Sample>> = vec![vec![]; designs.len()];
        for query in queries {
            let mut expected = None;
            for (design, samples) in designs.iter().zip(&mut samples) {
                let stored = self.of(design)?;
                let answer = self.answer(stored, query)?;
                if *expected.get_or_insert(answer) != answer {
                    return Err(LabError::Answers(format!("pages of {design} answer {query:?} with rows {answer}")));
                }
                let hot = || self.time(stored, query, false);
                let hot = faster(hot()?, hot()?);
                samples.push(Sample { hot, cold: self.time(stored, query, true)? });
            }
        }
        Ok(samples.iter().map(|samples| Point::of(samples)).collect())
    }

    /// Megabytes per second of reading the largest file: the better of two runs that decode one column.
    pub(super) fn bandwidth(&self) -> Result<f64> {
        let rows = self.designs.iter().map(|(_, stored)| stored).filter(|stored| matches!(stored, Stored::Rows(..)));
        let Some(largest) = rows.max_by_key(|stored| stored.bytes()) else { return Ok(0.0) };
        let query = Query { columns: vec![0], pick: crate::experiments::scanner::Pick::All };
        let ms = (0..2).map(|_| self.time(largest, &query, true).map(|run| run.ms)).collect::<Result<Vec<_>>>()?;
        Ok(largest.bytes() as f64 / 1e3 / ms.into_iter().fold(f64::INFINITY, f64::min))
    }
}

/// The files of a design: their names and layouts.
fn files_of(table: Generated, design: &str) -> Vec<(String, Layout)> {
    let compression = match design.split_once(' ') {
        Some((_, "plain")) => Compression::Plain,
        Some((_, "bits")) => Compression::BitAligned,
        _ => Compression::Table1,
    };
    let name = design.replace(' ', "-");
    if design.starts_with("row") {
        return vec![(name, row_layout(table, compression))];
    }
    column_layouts(table, compression)
        .into_iter()
        .zip(1..)
        .map(|(layout, at)| (format!("{name}-{at}"), layout))
        .collect()
}

/// Appends the rows of a batch to the files of one design.
fn push(writers: &mut [PageWriter<BufWriter<File>>], batch: &RecordBatch) -> std::io::Result<()> {
    let value = |column: usize, row: usize| match batch.column(column).as_primitive_opt::<Int32Type>() {
        Some(values) => Value::Int(values.value(row)),
        None => Value::Text(batch.column(column).as_string::<i32>().value(row).as_bytes()),
    };
    if let [rows] = writers {
        let mut tuple = vec![];
        for row in 0..batch.num_rows() {
            tuple.clear();
            tuple.extend((0..batch.num_columns()).map(|column| value(column, row)));
            rows.push(&tuple)?;
        }
        return Ok(());
    }
    for (column, writer) in writers.iter_mut().enumerate() {
        (0..batch.num_rows()).try_for_each(|row| writer.push(&[value(column, row)]))?;
    }
    Ok(())
}

fn plans(table: Generated) -> Vec<Plan> {
    let plan = |designs: &[Design], percents: &[f64], counts: &[usize]| Plan {
        table,
        designs: designs.to_vec(),
        percents: percents.to_vec(),
        counts: counts.to_vec(),
        predicates: 1,
        first: vec![],
        note: "",
    };
    match table {
        Generated::NarrowE => vec![
            plan(&WITH_PLAIN, &[0.1, 1.0, 10.0, 25.0, 50.0], &NARROW),
            Plan {
                predicates: 3,
                first: vec![0, 1, 2],
                note: ", three predicates on the left columns",
                ..plan(&COMPRESSED, &[0.1, 10.0], &NARROW)
            },
            Plan {
                predicates: 3,
                note: ", three predicates on random columns",
                ..plan(&COMPRESSED, &[0.1, 10.0], &NARROW)
            },
        ],
        Generated::NarrowS => vec![plan(&COMPRESSED, &[0.1, 1.0, 10.0, 50.0], &NARROW)],
        Generated::WideE => vec![plan(&WITH_PLAIN, &[0.1, 1.0, 10.0, 50.0], &WIDE)],
        Generated::NarrowU => vec![plan(&COMPRESSED, &[0.1, 10.0, 50.0], &NARROW)],
        Generated::Strings => vec![plan(&COMPRESSED, &[0.1, 10.0, 50.0], &NARROW)],
    }
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let (rows, queries) = (options.rows.unwrap_or(ROWS), options.queries.unwrap_or(QUERIES));
    let workspace = options.workspace("holloway-pages")?;
    let header =
        ["table", "rows", "uncompressed", "bit-aligned", "compressed row", "compressed column", "paper: compressed"];
    let mut sizes = Table::new("Table 2: bytes per tuple, whole pages", 1, &header);
    let (mut sweeps, mut checks, mut widths, mut groups) = (vec![], vec![], vec![], vec![]);
    let mut of_blocks = None;
    for table in options.tables() {
        let own_rows = rows_of(table, rows);
        notify(&format!("storing {}", table.name()));
        let mut stores = store(&workspace, table, own_rows, options.scan)?;
        let (cells, own) = size(&stores, table, own_rows)?;
        sizes.push(cells);
        checks.extend(own);
        let width = |design: Design| Ok::<f64, LabError>(stores.of(design)?.bytes() as f64 / own_rows as f64);
        let measured = [("row plain", width("row plain")?), ("row bits", width("row bits")?), ("row", width("row")?)];
        groups.extend(size_group(table, measured, width("column")?));
        widths.push((table, [width("row")?, width("row plain")?]));
        let bandwidth = stores.bandwidth()?;
        for plan in plans(table) {
            let mut measure = |designs: &[Design], queries: &[Query]| stores.measure(designs, queries);
            sweeps.push(Sweep::measure(&mut measure, plan, rows, queries, bandwidth, notify)?);
        }
        if table == Generated::NarrowE {
            notify("timing blocks of 25 to 400 tuples");
            of_blocks = Some(blocks::search(&mut stores, table.schema().fields().len(), queries)?);
        }
    }
    let measured = Measured::of(sweeps, false);
    checks.extend(compression_saves_time(&measured));
    checks.extend(verdicts::claims_of_dense_pages(&measured));
    let bytes =
        |table: Generated| widths.iter().find(|(of, _)| *of == table).map_or([f64::NAN; 2], |(_, bytes)| *bytes);
    let (compared, of_widths) = widths::compare(&measured, bytes);
    checks.extend(compared);
    let (chart_of_blocks, of_blocks) = of_blocks.unzip();
    checks.extend(of_blocks);
    let title = "Table 2: bytes per tuple".to_owned();
    let bars = Bars { title, unit: "B".into(), tie: 0.0, groups };
    let mut parts = parts(&measured, (sizes, bars), checks, options.scan);
    parts.extend(of_widths);
    parts.extend(chart_of_blocks);
    Ok(parts)
}

fn store(workspace: &Workspace, table: Generated, rows: usize, settings: ScanSettings) -> Result<Stores> {
    let designs: &[Design] = &["row", "column", "row plain", "column plain", "row bits"];
    Stores::new(&workspace.path("pages"), table, rows, designs, settings)
}

/// A row of Table 2, and the claims of section 6.1.
fn size(stores: &Stores, table: Generated, rows: usize) -> Result<(Vec<Cell>, Vec<Check>)> {
    let bytes = |design: Design| Ok::<f64, LabError>(stores.of(design)?.bytes() as f64 / rows as f64);
    let (plain, bits) = (bytes("row plain")?, bytes("row bits")?);
    let (row, column) = (bytes("row")?, bytes("column")?);
    let published = published::tuple_sizes(table);
    let text = |bytes: f64| format!("{bytes:.2}");
    let mut cells =
        vec![table.name().to_owned(), thousands(rows as i64), text(plain), text(bits), text(row), text(column)];
    cells.push(published.map_or("not compressed".into(), |(.., bytes)| significant(bytes)));
    let place = "Holloway and DeWitt 2008, 6.1, Table 2";
    let mut checks = vec![];
    if let Some((of_plain, of_bits, of_both)) = published {
        let aligned: u32 = row_layout(table, Compression::BitAligned).fixed_bits();
        let name = table.name();
        checks.push(
            Check::new(
                format!("{name}: a tuple has {of_plain} bytes, and {of_bits} bits if bit-aligned"),
                aligned == of_bits && (plain / of_plain - 1.0).abs() < 0.01,
                format!("{plain:.2} bytes with the pages' ends, and {aligned} bits"),
            )
            .claimed(place)
            .or_because("few rows leave most of the last page empty"),
        );
        let few = format!(
            "{} rows leave less to the order than 60 million: differences are longer, runs shorter, and the last page of each \
             column is partly empty",
            thousands(rows as i64)
        );
        checks.push(
            Check::new(
                format!("{name}: compressed, rows and columns have {of_both} bytes each (within 10 %)"),
                [row, column].iter().all(|bytes| (bytes / of_both - 1.0).abs() <= 0.1),
                format!("rows {row:.2}, columns {column:.2} bytes"),
            )
            .claimed(place)
            .or_because(few.clone()),
        );
        checks.push(
            Check::new(
                format!("{name}: rows compress almost exactly as well as columns (within a twentieth)"),
                (row / column - 1.0).abs() <= 0.05,
                format!("rows {row:.2}, columns {column:.2} bytes"),
            )
            .claimed(place)
            .or_because(few),
        );
    }
    Ok((cells.into_iter().map(Cell::from).collect(), checks))
}

/// What compression saves of the scan of rows at 50 % (R-Uncomp in Figures 2 and 5).
fn compression_saves_time(measured: &Measured) -> Vec<Check> {
    let check = |(sweep, place): (&Sweep, &str)| {
        let total = |design: &str| sweep.times(50.0, design, Clock::Cold).iter().sum::<f64>();
        let (plain, compressed) = (total("row plain"), total("row"));
        Check::new(
            format!(
                "{}, 50 % of the rows: compressed rows are scanned faster than uncompressed ones",
                sweep.plan.table.name()
            ),
            compressed < plain,
            format!("cold, all points together: {} against {} ms", significant(compressed), significant(plain)),
        )
        .claimed(format!("Holloway and DeWitt 2008, {place}"))
        .or_because(format!(
            "the disk brings {:.0} MB/s, where the paper's brought 70: decoding takes longer than reading saves",
            sweep.bandwidth
        ))
    };
    let sweeps = [(measured.narrow_e.as_ref(), "6.2, Figure 2"), (measured.wide_e.as_ref(), "6.4, Figure 5")];
    sweeps.into_iter().filter_map(|(sweep, place)| Some(check((sweep?, place)))).collect()
}

/// Table 2 as a chart: this machine's files, and what the paper prints. A compressed tuple has one size there.
fn size_group(table: Generated, rows: [(&str, f64); 3], column: f64) -> Option<BarGroup> {
    let (plain, bits, compressed) = published::tuple_sizes(table)?;
    let of_rows = rows.into_iter().zip([plain, f64::from(bits) / 8.0, compressed]);
    let mut bars: Vec<Bar> = of_rows
        .flat_map(|((design, bytes), printed)| [Bar::new(design, bytes), Bar::published(design, printed)])
        .collect();
    bars.extend([Bar::new("column", column), Bar::published("column", compressed)]);
    Some(BarGroup { label: table.name().into(), note: "uncompressed, bit-aligned, compressed".into(), bars })
}

fn parts(measured: &Measured, (sizes, bars): (Table, Bars), checks: Vec<Check>, settings: ScanSettings) -> Vec<Part> {
    let ScanSettings { io_depth, io_unit, block_rows } = settings;
    let mut parts = vec![
        Part::section(
            "Tables",
            "Sorted on all columns from the left, in pages of 32 KiB as in section 5.2: the number of entries, entries that are \
             not aligned to bytes, dictionaries from the end of the page. Strings are inside their tuples. Encodings are those of \
             Table 1; columns 1 to 6 of Narrow-S's rows are delta-encoded, without which no tuple has Table 2's 7 bytes.",
        ),
        Part::Bars(bars),
        Part::Table(sizes),
        Part::section(
            "Verdicts",
            format!(
                "One thread. The row scanner iterates over the tuples of a page: it decodes the used columns (and every tuple's \
                 difference), tests the predicates, and copies the tuple to a block of {block_rows}. The column scanner fills a \
                 block of positions from the first column, and looks at the others at these positions only. Predicates pass \
                 every k-th call. Cold: direct I/O in units of {} KiB, {io_depth} per file ahead. Hot: all pages in memory. One \
                 scanner serves all queries, where the paper generated C++ for each. Processor time is that of the process.",
                io_unit >> 10
            ),
        ),
        Part::checks(checks),
    ];
    parts.extend(figures(measured));
    parts
}

#[cfg(test)]
mod tests {
    use super::page::TEXT_BYTES;
    use super::*;
    use crate::experiments;
    use crate::experiments::scanner::Pick;

    const DESIGNS: [Design; 5] = ["row", "column", "row plain", "column plain", "row bits"];

    /// The rows of a table as un-encoded tuples.
    fn tuples(table: Generated, rows: usize, columns: &[usize]) -> Vec<u8> {
        let mut bytes = vec![];
        for batch in table.batches(rows, 1) {
            for row in 0..batch.num_rows() {
                for column in columns {
                    match batch.column(*column).as_primitive_opt::<Int32Type>() {
                        Some(values) => bytes.extend_from_slice(&values.value(row).to_le_bytes()),
                        None => bytes.extend_from_slice(batch.column(*column).as_string::<i32>().value(row).as_bytes()),
                    }
                }
            }
        }
        bytes
    }

    #[test]
    fn every_layout_reads_back_every_row() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for table in Generated::ALL {
            let rows = 20_011;
            let stores = Stores::new(folder.path(), table, rows, &DESIGNS, ScanSettings::default()).expect("stored");
            let columns: Vec<usize> = (0..table.schema().fields().len()).rev().collect();
            let expected = tuples(table, rows, &columns);
            let query = Query { columns, pick: Pick::All };
            for (design, stored) in &stores.designs {
                for is_cold in [false, true] {
                    let mut found = vec![];
                    let mut take = |tuples: &[u8]| {
                        found.extend_from_slice(tuples);
                        Ok(())
                    };
                    let settings = ScanSettings { block_rows: 7, io_depth: 3, io_unit: 64 << 10 };
                    stored.scan(&query, Scan { is_cold, settings, take: &mut take }).expect("it scans");
                    assert!(found == expected, "{table:?} as {design}, cold: {is_cold}");
                }
            }
        }
    }

    #[test]
    fn predicates_select_the_same_rows_of_rows_and_columns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let table = Generated::NarrowS;
        let stores = Stores::new(folder.path(), table, 30_000, &DESIGNS, ScanSettings::default()).expect("stored");
        for predicates in 1..=3 {
            let query = Query { columns: vec![8, 0, 3, 9], pick: Pick::Calls { predicates, selectivity: 0.1 } };
            let answers: Vec<Answer> =
                stores.designs.iter().map(|(_, stored)| stores.answer(stored, &query).expect("it scans")).collect();
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
            assert!((2990..=3010).contains(&answers[0].rows), "{answers:?}");
        }
    }

    #[test]
    fn layouts_have_the_bits_of_table_2() {
        for table in Generated::ALL {
            if let Some((bytes, bits, _)) = published::tuple_sizes(table) {
                assert_eq!(row_layout(table, Compression::BitAligned).fixed_bits(), bits, "{table:?}");
                assert_eq!(f64::from(row_layout(table, Compression::Plain).fixed_bits()), 8.0 * bytes, "{table:?}");
            }
            assert!(row_layout(table, Compression::Table1).delta_bits() <= 64, "{table:?}");
        }
        let strings = row_layout(Generated::Strings, Compression::Table1);
        assert_eq!(strings.fixed_bits() as usize, 80 * TEXT_BYTES);
    }

    #[test]
    fn a_run_of_some_tables_judges_their_claims_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let tables = vec![Generated::NarrowU];
        let options =
            experiments::RunOptions { rows: Some(10_000), queries: Some(1), tables, output, ..Default::default() };
        let findings = experiments::run("holloway-pages", &options, &|_| {}).expect("the run succeeds");
        assert!(findings.command.ends_with("--queries 1 --tables narrow-u"), "{}", findings.command);
        assert_eq!(findings.checks().count(), 3 + 3);
        assert!(findings.checks().all(|check| check.statement.starts_with("Narrow-U")));
    }

    #[test]
    fn a_tiny_run_judges_every_claim() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(10_000), queries: Some(2), output, ..Default::default() };
        let findings = experiments::run("holloway-pages", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!(charts, 10 + 1 + 4 + 4 + 3 + 2 + 2 + 3 + 1 + 4 + 1);
        assert!(findings.checks().count() >= 32);
        assert!(findings.checks().all(|check| !check.place.is_empty() && check.holds == check.why.is_empty()));
    }
}
