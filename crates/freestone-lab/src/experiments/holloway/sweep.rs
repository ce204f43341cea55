//! A figure of the paper: times by number of columns, selectivity and design.

use super::{Generated, Generator, PAPER_DISK, rows_of};
use crate::Notify;
use crate::error::Result;
use crate::experiments::scanner::{Point, Query, ahead_up_to};
use freestone_report::findings::{Cell, Lines, Part, Series, Table, milliseconds};

/// The parameters of a sweep.
pub struct Plan {
    pub table: Generated,
    pub designs: Vec<&'static str>,
    /// The percentages of rows.
    pub percents: Vec<f64>,
    pub counts: Vec<usize>,
    pub predicates: usize,
    /// The first columns of every query.
    pub first: Vec<usize>,
    /// The difference to other sweeps of the table.
    pub note: &'static str,
}

/// The measurements of a [`Plan`].
pub struct Sweep {
    pub plan: Plan,
    pub rows: usize,
    /// By percentage, number of columns and design.
    points: Vec<Vec<Vec<Point>>>,
    /// Megabytes per second of the disk.
    pub bandwidth: f64,
}

/// One of a point's times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// From this machine's disk.
    Cold,
    Hot,
    /// Processor time of the hot run.
    Processor,
    /// Processor time of the cold run.
    ColdProcessor,
    /// Computed: the larger of the processor time and the time of the bytes on the paper's disk.
    PaperDisk,
}

impl Clock {
    pub fn ms(self, point: &Point) -> f64 {
        match self {
            Clock::Cold => point.cold_ms,
            Clock::Hot => point.hot_ms,
            Clock::Processor => point.cpu_ms,
            Clock::ColdProcessor => point.cold_cpu_ms,
            Clock::PaperDisk => point.cpu_ms.max(point.bytes / 1e3 / PAPER_DISK),
        }
    }
}

/// Runs queries under some designs: the point of each.
pub type Measure<'a> = &'a mut dyn FnMut(&[&'static str], &[Query]) -> Result<Vec<Point>>;

impl Sweep {
    pub fn measure(
        measure: Measure<'_>,
        plan: Plan,
        rows: usize,
        queries: usize,
        bandwidth: f64,
        notify: Notify<'_>,
    ) -> Result<Sweep> {
        let of = plan.table.schema().fields().len();
        let mut points = vec![];
        for percent in &plan.percents {
            notify(&format!("timing {} at {percent} %{}", plan.table.name(), plan.note));
            let mut of_percent = vec![];
            for count in &plan.counts {
                let mut generator = Generator::new(*count as u64);
                let query = |_| generator.query(&plan.first, of, *count, plan.predicates, percent / 100.0);
                let queries: Vec<Query> = (0..queries).map(query).collect();
                of_percent.push(measure(&plan.designs, &queries)?);
            }
            points.push(of_percent);
        }
        Ok(Sweep { rows: rows_of(plan.table, rows), plan, points, bandwidth })
    }

    /// The number of columns of the table.
    pub fn columns(&self) -> usize {
        self.plan.table.schema().fields().len()
    }

    fn percent(&self, percent: f64) -> usize {
        self.plan.percents.iter().position(|p| *p == percent).unwrap_or(0)
    }

    fn design(&self, design: &str) -> usize {
        self.plan.designs.iter().position(|name| *name == design).unwrap_or(0)
    }

    /// The points of one line, by number of columns.
    pub fn line(&self, percent: f64, design: &str) -> Vec<Point> {
        let design = self.design(design);
        self.points[self.percent(percent)].iter().map(|of_count| of_count[design]).collect()
    }

    pub fn times(&self, percent: f64, design: &str, clock: Clock) -> Vec<f64> {
        self.line(percent, design).iter().map(|point| clock.ms(point)).collect()
    }

    /// Standard deviations of the times from disk.
    pub fn deviations(&self, percent: f64, design: &str) -> Vec<f64> {
        self.line(percent, design).iter().map(|point| point.cold_deviation).collect()
    }

    /// The bytes of an un-encoded value of this table.
    fn value_bytes(&self) -> f64 {
        if self.plan.table == Generated::Strings { 20.0 } else { 4.0 }
    }

    /// The bytes of returned tuples, which are the x axis of the paper's figures.
    pub fn x_bytes(&self) -> Vec<f64> {
        self.x().iter().map(|count| count * self.value_bytes()).collect()
    }

    pub fn x_label(&self) -> String {
        format!("bytes of a returned tuple, {} per column", self.value_bytes())
    }

    fn x(&self) -> Vec<f64> {
        self.plan.counts.iter().map(|count| *count as f64).collect()
    }

    /// The number of columns up to which the column store is faster than the row store.
    pub fn crossing(&self, percent: f64, clock: Clock) -> f64 {
        ahead_up_to(&self.x(), &self.times(percent, "column", clock), &self.times(percent, "row", clock))
    }

    /// Nanoseconds per tuple.
    pub fn ns_a_tuple(&self, ms: f64) -> f64 {
        ms * 1e6 / self.rows as f64
    }

    pub fn title(&self, percent: f64, clock: Clock) -> String {
        let clock = match clock {
            Clock::Cold => "cold",
            Clock::Hot => "hot",
            Clock::Processor => "processor, hot",
            Clock::ColdProcessor => "processor, cold",
            Clock::PaperDisk => "70 MB/s, computed",
        };
        format!("{}, {percent} % of the rows{}, {clock}", self.plan.table.name(), self.plan.note)
    }

    pub fn chart(&self, percent: f64, clock: Clock) -> Part {
        let series = self.plan.designs.iter().map(|design| Series {
            spread: if clock == Clock::Cold { self.deviations(percent, design) } else { vec![] },
            ..Series::new(*design, self.times(percent, design, clock))
        });
        let crossing = self.crossing(percent, clock);
        let mark = (crossing > 0.0 && crossing < self.columns() as f64)
            .then(|| (crossing * self.value_bytes(), format!("columns up to {crossing:.1}")));
        Part::Lines(Lines {
            title: self.title(percent, clock),
            x_label: self.x_label(),
            y_label: "ms".into(),
            x: self.x_bytes(),
            series: series.collect(),
            mark,
        })
    }

    /// Cold and hot milliseconds of every point.
    pub fn table(&self) -> Part {
        let names =
            |clock: &str| self.plan.designs.iter().map(|design| format!("{design} {clock}")).collect::<Vec<_>>();
        let header: Vec<String> =
            ["rows".into(), "columns".into()].into_iter().chain(names("cold")).chain(names("hot")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let title = format!("{}{}: milliseconds, averages", self.plan.table.name(), self.plan.note);
        let mut table = Table::new(title, 2, &header);
        for (percent, of_percent) in self.plan.percents.iter().zip(&self.points) {
            for (count, of_count) in self.plan.counts.iter().zip(of_percent) {
                let times = |clock: Clock| of_count.iter().map(|point| clock.ms(point)).collect::<Vec<_>>();
                let (cold, hot) = (times(Clock::Cold), times(Clock::Hot));
                let cells = [Cell::from(format!("{percent} %")), Cell::from(count.to_string())].into_iter();
                table.push(cells.chain(milliseconds(&cold)).chain(milliseconds(&hot)));
            }
        }
        Part::Table(table)
    }
}
