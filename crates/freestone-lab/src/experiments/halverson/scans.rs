//! Figures 2 to 4, 9 to 12 and 14, and query Q7 on the view D4.

use super::{Case, DESIGNS, Measured, Single, Stored, measure, store};
use super::{breakdown, model, prefetch, slotted, verdicts, view};
use crate::Notify;
use crate::error::Result;
use crate::experiments::scanner::{ScanSettings, Scanner};
use crate::experiments::{Experiment, RunOptions, Workspace};
use freestone_report::findings::{
    Bar, BarGroup, Bars, Cell, Lines, Part, Series, TIE, Table, milliseconds, significant, thousands,
};

pub const EXPERIMENT: Experiment = Experiment {
    name: "halverson-scans",
    title: "Super tuples and column abstraction",
    shows: "Whole scans of slotted rows, super tuples and columns, by columns scanned, tuple width and abstracted levels.",
    source: "Halverson et al. 2006, sections 3 and 4, Figures 2 to 4, 9 to 12 and 14, and query Q7 on D4",
    size: "--rows 1000000 of 4 columns (the paper: 8 million), --scale 0.2 of TPC-H for D4",
    run,
};

const ROWS: usize = 1_000_000;
/// The number of fields of Figure 14's wide tables per row of the others.
const WIDE_FIELDS: usize = 8;
const WIDTHS: [usize; 4] = [4, 8, 16, 32];
const WIDE: [usize; 4] = [64, 128, 256, 512];

/// A database with tables to scan.
struct Lab<'a> {
    workspace: &'a Workspace,
    options: &'a RunOptions,
    notify: Notify<'a>,
}

impl Lab<'_> {
    /// Stores a table of one level in all layouts.
    fn plain(&self, rows: usize, columns: usize) -> Result<Vec<Stored>> {
        let layouts = DESIGNS.map(|design| Stored { levels: vec![rows as u32], columns, design, abstracted: 0 });
        self.store(layouts.to_vec())
    }

    fn store(&self, layouts: Vec<Stored>) -> Result<Vec<Stored>> {
        if let Some(first) = layouts.first() {
            (self.notify)(&format!("storing {} with {} columns", first.gen_name(), first.columns));
        }
        store(self.workspace, self.options, &layouts)?;
        Ok(layouts)
    }

    fn scan(&self, layouts: &[Stored], counts: &[usize]) -> Result<Vec<Vec<Case>>> {
        let scanner = Scanner::open(&self.workspace.path("database"), ScanSettings::default())?;
        (self.notify)(&format!("timing {}", layouts[0].gen_name()));
        counts.iter().map(|count| measure(&scanner, layouts, *count)).collect()
    }

    /// Scans that read one page at a time, and what such reads cost.
    fn single(&self, layouts: &[Stored], counts: &[usize]) -> Result<Single> {
        let settings = ScanSettings { io_depth: 1, io_unit: model::PAGE, ..ScanSettings::default() };
        let scanner = Scanner::open(&self.workspace.path("database"), settings)?;
        (self.notify)(&format!("timing {}, one page at a time", layouts[0].gen_name()));
        let reads_ns = scanner.single_reads(&layouts[0].name(), model::PAGE)?;
        let cases = counts.iter().map(|count| measure(&scanner, layouts, *count)).collect::<Result<_>>()?;
        Ok(Single { reads_ns, cases })
    }

    /// Scans of all columns by width, of tables with `fields(width)` rows.
    fn by_width(&self, widths: &[usize], rows: impl Fn(usize) -> usize, share: usize) -> Result<Vec<Vec<Case>>> {
        let one = |width: &usize| {
            let layouts = self.plain(rows(*width).max(1), *width)?;
            Ok(self.scan(&layouts, &[width / share])?.remove(0))
        };
        widths.iter().map(one).collect()
    }

    /// Figure 4: three tables with the same number of fields, two of which have two levels above the rows.
    fn abstractions(&self, rows: usize, columns: usize) -> Result<Vec<Vec<Case>>> {
        let leaf = (rows / 40).max(1) as u32;
        let mut cases = vec![];
        for levels in [vec![leaf * 40], vec![leaf, 10, 4], vec![10, 4, leaf]] {
            let most = levels.len() - 1;
            let forms = [("row", 0), ("row", 1), ("row", 2), ("column", 0), ("column", 2)];
            let layouts = forms.into_iter().filter(|(_, abstracted)| *abstracted <= most);
            let layouts =
                layouts.map(|(design, abstracted)| Stored { levels: levels.clone(), columns, design, abstracted });
            let layouts = self.store(layouts.collect())?;
            cases.push(self.scan(&layouts, &[columns])?.remove(0));
        }
        Ok(cases)
    }
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let rows = options.rows.unwrap_or(ROWS);
    let workspace = options.workspace("halverson-scans")?;
    let lab = Lab { workspace: &workspace, options, notify };
    let narrow_layouts = lab.plain(rows, 4)?;
    let bandwidth =
        Scanner::open(&workspace.path("database"), ScanSettings::default())?.bandwidth(&narrow_layouts[0].name())?;
    let narrow = lab.scan(&narrow_layouts, &[1, 2, 3, 4])?;
    let single = lab.single(&narrow_layouts, &[1, 2, 3, 4])?;
    let wide = lab.scan(&lab.plain(rows, 32)?, &[1, 8, 16, 24, 32])?;
    let sixteen = lab.scan(&lab.plain(rows, 16)?, &[4, 16])?;
    let eight = lab.scan(&lab.plain(rows, 8)?, &[8])?.remove(0);
    let all = |cases: &[Vec<Case>]| cases.last().cloned().unwrap_or_default();
    let same_rows = vec![all(&narrow), eight, all(&sixteen), all(&wide)];
    let mut same_fields = vec![all(&narrow)];
    same_fields.extend(lab.by_width(&WIDTHS[1..], |width| rows * 4 / width, 1)?);
    let mut abstractions = lab.abstractions(rows.max(40), 4)?;
    abstractions.extend(lab.abstractions((rows / 4).max(40), 16)?);
    let forecast = lab.by_width(&WIDE, |width| rows * WIDE_FIELDS / width, 4)?;
    let measured = Measured { narrow, wide, sixteen, same_rows, same_fields, abstractions, forecast };
    let levels = slotted::measure(&workspace, options, rows.max(40), notify)?;
    let prefetched = prefetch::measure(&workspace, options, rows, notify)?;
    let d4 = view::measure(&workspace, options, notify)?;
    let mut parts = parts(&measured, &single, &d4, bandwidth, rows);
    parts.extend([Part::checks(slotted::claims(&levels))]);
    parts.extend(slotted::parts(&levels));
    parts.extend([Part::checks(vec![prefetched.claim()])]);
    parts.extend(prefetched.parts());
    Ok(parts)
}

fn parts(measured: &Measured, single: &Single, d4: &view::D4, bandwidth: f64, rows: usize) -> Vec<Part> {
    let text = format!(
        "All rows, no predicate, one thread, blocks of 100 tuples that nobody keeps; averages of five runs, with error bars of one \
         standard deviation, cold with direct I/O at {bandwidth:.0} MB/s. Slotted rows have the paper's 16 bytes of header and 4 of \
         slot at each tuple, and values of 4 bytes. Super tuples and columns have 4 bytes a value, too (`encode` plain), and so \
         have levels of super tuples; runs of columns are bit-packed. What packing makes of rows and columns is in holloway-scans."
    );
    let predicted = model::predict(&measured.narrow[measured.narrow.len() - 1], measured.all(), bandwidth);
    let mut checks = verdicts::claims(measured, d4, bandwidth);
    checks.push(model::claims(&predicted));
    let (forecast, light) = model::forecast(&measured.narrow[measured.narrow.len() - 1], bandwidth);
    checks.extend(light);
    let (one_by_one, of_single) = model::one_by_one(&measured.narrow[measured.narrow.len() - 1], single);
    checks.extend(of_single);
    let [of_4, of_32, same_rows, same_fields, wide] = model::published_figures();
    let mut parts = vec![
        Part::section("Verdicts", text),
        Part::checks(checks),
        Part::section("Columns scanned (Figure 2)", ""),
        by_count(&format!("{} rows of 4 columns, cold", thousands(rows as i64)), &measured.narrow),
        of_4,
        by_count(&format!("{} rows of 32 columns, cold", thousands(rows as i64)), &measured.wide),
        of_32,
        Part::section("Tuple width (Figure 3)", ""),
        by_width(&format!("all columns of {} rows, cold", thousands(rows as i64)), &measured.same_rows),
        same_rows,
        by_width(&format!("all of {} fields, cold", thousands(rows as i64 * 4)), &measured.same_fields),
        same_fields,
        Part::section(
            "Column abstraction (Figure 4)",
            "Leading columns stored once per run: levels of super tuples, runs of columns.",
        ),
        abstraction_bars(&measured.abstractions),
        Part::section("Where the time goes (Figures 9 to 12)", breakdown::TEXT),
        breakdown::stacks(measured, &predicted),
        disk_and_rest(measured),
        Part::section(
            "A lighter iteration (Figure 13, a forecast there and here)",
            "The model's scan of all columns of narrow tuples with IC a tenth, with the paper's constants.",
        ),
        forecast,
        Part::section("Wide tuples (Figure 14, a forecast there)", ""),
        by_width(
            &format!("a quarter of the columns of {} fields, cold", thousands((rows * WIDE_FIELDS) as i64)),
            &measured.forecast,
        ),
        wide,
    ];
    parts.extend(view::parts(d4));
    parts.push(Part::section(
        "The cost model compared with the measurements (section 4)",
        "Equations 1 to 15, with a page's time at this disk's rate, a call's and an iteration's from the hot scans of all 4 \
         columns by columns and by slotted rows, and values as wide as they are stored. Charts show predictions; those above, \
         what was measured.",
    ));
    let counts = |case: &Case| case.scanned;
    parts.push(model::chart("predicted: columns scanned of 4", &predicted, &measured.narrow, counts));
    parts.push(model::chart("predicted: columns scanned of 32", &predicted, &measured.wide, counts));
    let widths = |case: &Case| case.stored.columns;
    parts.push(model::chart("predicted: as many fields, by width", &predicted, &measured.same_fields, widths));
    parts.push(model::chart("predicted: a quarter of wide tuples", &predicted, &measured.forecast, widths));
    parts.push(one_by_one);
    parts.push(model::in_numbers(&predicted));
    parts.push(in_numbers(measured));
    parts
}

fn lines(title: &str, x_label: &str, x: Vec<f64>, cases: &[Vec<Case>]) -> Part {
    let series = DESIGNS.iter().enumerate().map(|(at, design)| Series {
        spread: cases.iter().map(|case| case[at].measured.cold_deviation).collect(),
        ..Series::new(*design, cases.iter().map(|case| case[at].measured.cold_ms).collect())
    });
    Part::Lines(Lines {
        title: title.into(),
        x_label: x_label.into(),
        y_label: "ms".into(),
        x,
        series: series.collect(),
        mark: None,
    })
}

fn by_count(title: &str, cases: &[Vec<Case>]) -> Part {
    lines(title, "columns scanned", cases.iter().map(|case| case[0].scanned as f64).collect(), cases)
}

fn by_width(title: &str, cases: &[Vec<Case>]) -> Part {
    lines(title, "columns of the table", cases.iter().map(|case| case[0].stored.columns as f64).collect(), cases)
}

/// The name of a layout in charts and tables.
fn label(case: &Case) -> String {
    match case.stored.abstracted {
        0 => case.stored.design.to_owned(),
        1 => format!("{}, 1 level", case.stored.design),
        levels => format!("{}, {levels} levels", case.stored.design),
    }
}

fn abstraction_bars(cases: &[Vec<Case>]) -> Part {
    let group = |cases: &Vec<Case>| BarGroup {
        label: cases[0].stored.gen_name(),
        note: format!("{} columns", cases[0].stored.columns),
        bars: cases.iter().map(|case| Bar::new(label(case), case.measured.cold_ms)).collect(),
    };
    Part::Bars(Bars {
        title: "All columns, cold".into(),
        unit: "ms".into(),
        tie: TIE,
        groups: cases.iter().map(group).collect(),
    })
}

fn disk_and_rest(measured: &Measured) -> Part {
    let mut table = Table::new(
        "Milliseconds of disk and of everything else",
        1,
        &["scan", "slotted disk", "rest", "row disk", "rest", "column disk", "rest"],
    );
    let figures = measured.sixteen.iter().chain(measured.narrow.last()).chain(measured.same_fields.last());
    for cases in figures {
        let Case { stored, scanned, .. } = &cases[0];
        let title = format!("{scanned} of {} columns, {} rows", stored.columns, thousands(stored.rows() as i64));
        let times = cases.iter().flat_map(|case| [case.disk_ms(), case.measured.hot_ms].map(significant));
        table.push(std::iter::once(title).chain(times));
    }
    Part::Table(table)
}

fn in_numbers(measured: &Measured) -> Part {
    let header = ["table", "columns", "scanned", "layout", "MB", "cold, ms", "hot, ms"];
    let mut table = Table::new("Everything", 4, &header);
    for cases in measured.figures() {
        let colds: Vec<f64> = cases.iter().map(|case| case.measured.cold_ms).collect();
        for (case, cold) in cases.iter().zip(milliseconds(&colds)) {
            let Case { stored, scanned, bytes, measured, .. } = case;
            let texts = [stored.gen_name(), stored.columns.to_string(), scanned.to_string(), label(case)];
            let numbers = [Cell::from(significant(*bytes as f64 / 1e6)), cold, significant(measured.hot_ms).into()];
            table.push(texts.map(Cell::from).into_iter().chain(numbers));
        }
    }
    Part::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn a_tiny_run_judges_every_claim() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(40_000), scale: Some(0.005), output, ..Default::default() };
        let findings = experiments::run("halverson-scans", &options, &|_| {}).expect("the run succeeds");
        let charts = findings.parts.iter().filter(|part| matches!(part, Part::Lines(_))).count();
        assert_eq!(charts, 11 + 5 + 1);
        let of_width = findings.parts.iter().filter_map(|part| match part {
            Part::Lines(chart) if chart.x_label == "columns of the table" => chart.series.first(),
            _ => None,
        });
        let measured: Vec<_> = of_width.filter(|line| line.spread.len() == WIDTHS.len()).collect();
        assert!(measured.len() >= 3, "lines of measurements have error bars: {measured:?}");
        assert!(findings.parts.iter().any(|part| matches!(part, Part::Stacks(_))));
        assert!(findings.checks().count() >= 15);
        assert!(findings.checks().all(|check| !check.place.is_empty() && check.holds == check.why.is_empty()));
    }
}
