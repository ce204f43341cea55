//! HYRISE's layouter and what it promises: for a mix of projections and selections, the layout with the fewest cache misses,
//! measured beside rows, columns and every other partition of the attributes.

use freestone::Options;
use freestone_advisor::hyrise::{LINE, MemoryQuery, every_layout, lay_out, layout_misses};
use freestone_advisor::pattern::{Level, Pattern, Region};

use super::super::scanner::{Pick, Query, ScanSettings, Scanner};
use super::super::{Experiment, RunOptions, Workspace, quoted};
use crate::Notify;
use crate::error::Result;
use freestone_data::wide;
use freestone_demo::engine::Engine;
use freestone_report::findings::{Bar, BarGroup, Bars, Cell, Check, Part, TIE, Table, significant, thousands};

pub const EXPERIMENT: Experiment = Experiment {
    name: "memory-layouter",
    title: "The layouter of HYRISE",
    shows: "For three mixes of scans and lookups: the layout with the fewest cache misses, rows, columns, and all 203 partitions of six \
            attributes, measured.",
    source: "Grund et al. 2010, section 3.3 (the layouter)",
    size: "--rows 200000 of 6 attributes; --queries 3 a point",
    run,
};

const PLACE: &str = "Grund et al. 2010, 3.3";
const ROWS: usize = 200_000;
const QUERIES: usize = 3;
const COLUMNS: usize = 6;
/// The bytes of a value, as in HYRISE's containers.
const WIDTH: u64 = 4;

/// Groups of columns, each stored row by row.
type Layout = Vec<Vec<usize>>;

/// A kind of query: its columns, the share of rows that it reads by position (1: all), and how often it runs.
struct Asked {
    columns: &'static [usize],
    share: f64,
    weight: f64,
}

struct Mix {
    name: &'static str,
    asked: &'static [Asked],
}

const ALL: &[usize] = &[0, 1, 2, 3, 4, 5];

const fn asked(columns: &'static [usize], share: f64, weight: f64) -> Asked {
    Asked { columns, share, weight }
}

const MIXES: [Mix; 3] = [
    Mix {
        name: "scans of one attribute each",
        asked: &[
            asked(&[0], 1.0, 1.0),
            asked(&[1], 1.0, 1.0),
            asked(&[2], 1.0, 1.0),
            asked(&[3], 1.0, 1.0),
            asked(&[4], 1.0, 1.0),
            asked(&[5], 1.0, 1.0),
        ],
    },
    Mix { name: "whole rows by position", asked: &[asked(ALL, 0.01, 1.0)] },
    Mix {
        name: "scans and rows by position",
        asked: &[
            asked(&[0], 1.0, 1.0),
            asked(&[1, 2], 1.0, 1.0),
            asked(&[3, 4, 5], 0.05, 10.0),
            asked(ALL, 0.01, 10.0),
        ],
    },
];

impl Mix {
    fn queries(&self) -> Vec<MemoryQuery> {
        let query = |asked: &Asked| MemoryQuery {
            columns: asked.columns.to_vec(),
            selectivity: asked.share,
            weight: asked.weight,
        };
        self.asked.iter().map(query).collect()
    }
}

/// What a mix takes in every layout.
struct Found {
    name: &'static str,
    /// By layout: the misses of the paper's formulas, those of the pattern model, and measured milliseconds.
    layouts: Vec<(Layout, [f64; 3])>,
    /// The layout that the layouter chooses.
    advised: usize,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let (rows, queries) = (options.rows.unwrap_or(ROWS), options.queries.unwrap_or(QUERIES));
    let workspace = options.workspace("memory-layouter")?;
    let layouts = every_layout(COLUMNS);
    store(&workspace, options, &layouts, rows, notify)?;
    let scanner = Scanner::open(&workspace.path("database"), ScanSettings::default())?;
    let found: Result<Vec<Found>> =
        MIXES.iter().map(|mix| measure(&scanner, mix, &layouts, (rows, queries), notify)).collect();
    Ok(parts(&found?, rows))
}

/// Stores the same rows in every layout, in memory, with 4 bytes a value.
fn store(
    workspace: &Workspace,
    options: &RunOptions,
    layouts: &[Layout],
    rows: usize,
    notify: Notify<'_>,
) -> Result<()> {
    let file = workspace.path("table.parquet");
    freestone_data::write_parquet(&file, wide::schema_of(COLUMNS), wide::table_of(COLUMNS, rows, 1))?;
    let engine = Engine::open(&workspace.path("database"), Options { ..options.engine_options() })?;
    let plain: Vec<String> = (1..=COLUMNS).map(|number| format!("c{number}: plain")).collect();
    let (plain, file) = (plain.join(", "), quoted(&file));
    notify(&format!("storing {} layouts", layouts.len()));
    for (at, layout) in layouts.iter().enumerate() {
        let form = format!("groups = '{}', encode = '{plain}', medium = 'memory'", text(layout));
        engine.run(&format!("CREATE TABLE {} WITH ({form}) AS SELECT * FROM '{file}'", table_name(at)))?;
    }
    Ok(())
}

fn table_name(layout: usize) -> String {
    format!("layout_{layout}")
}

/// A layout as the option `groups`: `(c1, c2), (c3)`.
fn text(layout: &[Vec<usize>]) -> String {
    let group = |group: &Vec<usize>| {
        let names: Vec<String> = group.iter().map(|column| format!("c{}", column + 1)).collect();
        format!("({})", names.join(", "))
    };
    layout.iter().map(group).collect::<Vec<_>>().join(", ")
}

fn measure(
    scanner: &Scanner,
    mix: &Mix,
    layouts: &[Layout],
    (rows, repetitions): (usize, usize),
    notify: Notify<'_>,
) -> Result<Found> {
    notify(&format!("timing {}", mix.name));
    let tables: Vec<String> = (0..layouts.len()).map(table_name).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let mut ms = vec![0.0; layouts.len()];
    for asked in mix.asked {
        let pick = if asked.share < 1.0 { Pick::Positions { share: asked.share, seed: 7 } } else { Pick::All };
        let query = Query { columns: asked.columns.to_vec(), pick };
        let points = scanner.measure(&tables, &vec![query; repetitions])?;
        ms.iter_mut().zip(points).for_each(|(sum, point)| *sum += asked.weight * point.hot_ms);
    }
    let (queries, widths, rows) = (mix.queries(), [WIDTH; COLUMNS], rows as f64);
    let of = |(layout, ms): (&Layout, f64)| {
        let misses = layout_misses(layout, &widths, rows, &queries);
        (layout.clone(), [misses, pattern_misses(layout, rows, &queries), ms])
    };
    Ok(Found {
        name: mix.name,
        layouts: layouts.iter().zip(ms).map(of).collect(),
        advised: advised(layouts, rows, &queries),
    })
}

/// The position of the layouter's choice among all layouts.
fn advised(layouts: &[Layout], rows: f64, queries: &[MemoryQuery]) -> usize {
    let mut chosen = lay_out(&[WIDTH; COLUMNS], rows, queries);
    chosen.sort_by_key(|group| group.first().copied());
    layouts.iter().position(|layout| *layout == chosen).unwrap_or(0)
}

/// The misses of a mix by the memory pattern model (Manegold, Boncz and Kersten 2002), whose cost model the paper refers to.
fn pattern_misses(layout: &[Vec<usize>], rows: f64, queries: &[MemoryQuery]) -> f64 {
    // Each line is loaded once, so that neither the size of the cache nor a miss's time counts.
    let level = Level { capacity: 0.0, line: LINE as f64, sequential_ns: 1.0, random_ns: 1.0 };
    let of = |query: &MemoryQuery, group: &Vec<usize>| {
        let used = group.iter().filter(|column| query.columns.contains(column)).count();
        if used == 0 {
            return 0.0;
        }
        let region =
            Region { items: rows, width: (group.len() as u64 * WIDTH) as f64, used: (used as u64 * WIDTH) as f64 };
        let misses = match query.selectivity < 1.0 {
            true => Pattern::Selected { region, share: query.selectivity }.misses(&level),
            false => Pattern::Sequential(region).misses(&level),
        };
        query.weight * (misses.sequential + misses.random)
    };
    queries.iter().flat_map(|query| layout.iter().map(move |group| of(query, group))).sum()
}

impl Found {
    fn position(&self, of: impl Fn(&Layout) -> bool) -> usize {
        self.layouts.iter().position(|(layout, _)| of(layout)).unwrap_or(0)
    }

    fn rows(&self) -> usize {
        self.position(|layout| layout.len() == 1)
    }

    fn columns(&self) -> usize {
        self.position(|layout| layout.len() == COLUMNS)
    }

    fn ms(&self, at: usize) -> f64 {
        self.layouts[at].1[2]
    }

    /// The layout with the least of a figure: misses, misses of the pattern model, or milliseconds.
    fn least(&self, figure: usize) -> usize {
        let order = |a: &usize, b: &usize| self.layouts[*a].1[figure].total_cmp(&self.layouts[*b].1[figure]);
        (0..self.layouts.len()).min_by(order).unwrap_or(0)
    }

    /// How many layouts are faster.
    fn rank(&self, at: usize) -> usize {
        self.layouts.iter().filter(|(_, figures)| figures[2] < self.ms(at)).count()
    }

    fn named(&self) -> [(&'static str, usize); 5] {
        [
            ("rows", self.rows()),
            ("columns", self.columns()),
            ("the layouter's", self.advised),
            ("fewest misses by patterns", self.least(1)),
            ("the fastest", self.least(2)),
        ]
    }
}

fn claims(found: &Found) -> [Check; 2] {
    let (advised, best) = (found.ms(found.advised), found.ms(found.least(2)));
    let named = |at: usize| format!("{} {} ms", text(&found.layouts[at].0), significant(found.ms(at)));
    let detail = format!(
        "chosen {}, of {} layouts {} are faster; rows {} ms, columns {} ms; the fastest {}",
        named(found.advised),
        found.layouts.len(),
        found.rank(found.advised),
        significant(found.ms(found.rows())),
        significant(found.ms(found.columns())),
        named(found.least(2))
    );
    let misses = |at: usize| thousands(found.layouts[at].1[0] as i64);
    let why = format!(
        "the layouter counts lines of the cache ({} here, {} in the fastest layout). This engine reads groups by vectors, so that a \
         value of a group costs its processor more than the line that it shares",
        misses(found.advised),
        misses(found.least(2))
    );
    let other = found.ms(found.rows()).min(found.ms(found.columns()));
    [
        Check::new(
            format!("{}: the layout with the fewest misses is as fast as the best of all (within a tenth)", found.name),
            advised <= best * (1.0 + TIE),
            detail.clone(),
        )
        .claimed(PLACE)
        .or_because(why.clone()),
        Check::new(
            format!(
                "{}: the layout with the fewest misses is as fast as the better of rows and columns (within a tenth)",
                found.name
            ),
            advised <= other * (1.0 + TIE),
            detail,
        )
        .claimed(PLACE)
        .or_because(why),
    ]
}

fn parts(found: &[Found], rows: usize) -> Vec<Part> {
    let group = |found: &Found| BarGroup {
        label: found.name.into(),
        note: format!("layouter: {}", text(&found.layouts[found.advised].0)),
        bars: found.named().map(|(name, at)| Bar::new(name, found.ms(at))).to_vec(),
    };
    let title = "A mix in rows, columns, the advised layout and the fastest of all".to_owned();
    let mut parts = vec![
        Part::section(
            "The layouter",
            format!(
                "{} tuples of {COLUMNS} attributes of 4 bytes, medium = 'memory', in each of {} layouts. A mix's time is the sum of \
                 its queries' times, each as often as it runs; one thread; averages of the better of two runs. Positions are random \
                 and known before. The layouter chooses by cache misses alone, from the mix and the widths of the attributes.",
                thousands(rows as i64),
                found.first().map_or(0, |found| found.layouts.len())
            ),
        ),
        Part::checks(found.iter().flat_map(claims).collect()),
        Part::Bars(Bars { title, unit: "ms".into(), tie: TIE, groups: found.iter().map(group).collect() }),
    ];
    for found in found {
        let header = ["", "groups", "misses", "misses by patterns", "ms", "faster layouts"];
        let mut table = Table::new(found.name, 2, &header);
        for (name, at) in found.named() {
            let (layout, [misses, patterns, ms]) = &found.layouts[at];
            let numbers =
                [thousands(*misses as i64), thousands(*patterns as i64), significant(*ms), found.rank(at).to_string()];
            table.push([name.to_owned(), text(layout)].into_iter().chain(numbers).map(Cell::from));
        }
        parts.push(Part::Table(table));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn a_tiny_run_judges_each_mix() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { rows: Some(300), queries: Some(1), output, ..Default::default() };
        let findings = experiments::run("memory-layouter", &options, &|_| {}).expect("the run succeeds");
        assert_eq!(findings.checks().count(), 2 * MIXES.len());
        assert!(findings.checks().all(|check| check.holds == check.why.is_empty()));
        assert_eq!(findings.parts.iter().filter(|part| matches!(part, Part::Table(_))).count(), MIXES.len());
    }

    #[test]
    fn scans_are_laid_out_as_columns_and_lookups_as_rows() {
        let layouts = every_layout(COLUMNS);
        let chosen = |mix: &Mix| text(&layouts[advised(&layouts, 2e5, &mix.queries())]);
        assert_eq!(chosen(&MIXES[0]), "(c1), (c2), (c3), (c4), (c5), (c6)");
        assert_eq!(chosen(&MIXES[1]), "(c1, c2, c3, c4, c5, c6)");
        assert!(
            !["(c1), (c2), (c3), (c4), (c5), (c6)", "(c1, c2, c3, c4, c5, c6)"].contains(&chosen(&MIXES[2]).as_str())
        );
    }

    #[test]
    fn both_models_have_the_layouters_choice_among_the_cheapest() {
        let layouts = every_layout(COLUMNS);
        for mix in &MIXES {
            let queries = mix.queries();
            let misses = |layout: &Layout| layout_misses(layout, &[WIDTH; COLUMNS], 2e5, &queries);
            let least = layouts.iter().map(misses).fold(f64::INFINITY, f64::min);
            let chosen = &layouts[advised(&layouts, 2e5, &queries)];
            assert!(misses(chosen) <= least * (1.0 + 1e-9), "{}", mix.name);
            let patterns = |layout: &Layout| pattern_misses(layout, 2e5, &queries);
            let least = layouts.iter().map(patterns).fold(f64::INFINITY, f64::min);
            assert!(patterns(chosen) <= 1.5 * least, "{}: {} and {least}", mix.name, patterns(chosen));
        }
    }
}
