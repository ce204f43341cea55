//! The cost of star joins by size of the data and number of threads, clustered and not.

use std::time::Duration;

use super::ssb::{CLUSTERED, data, load};
use super::{Experiment, RunOptions};
use crate::Notify;
use crate::error::Result;
use freestone_data::queries::ssb_queries;
use freestone_demo::engine::{Answer, Engine, Repeat};
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, milliseconds};

pub const EXPERIMENT: Experiment = Experiment {
    name: "scaling",
    title: "The Star Schema Benchmark as data and threads grow",
    shows: "The geometric mean of the 13 queries at a tenth, three tenths and the whole of a scale factor, on one thread and on all.",
    source: "Star Schema Benchmark, revision 3, 2009; synthetic data after its specification",
    size: "--scale 1, the largest scale factor",
    run,
};

const SCALE: f64 = 1.0;
const SHARES: [f64; 3] = [0.1, 0.3, 1.0];
const REPEAT: Repeat = Repeat { least: 3, most: 7, budget: Duration::from_millis(500) };
const DESIGNS: [(&str, &str); 2] = [("auto", "design = 'auto'"), ("clustered", CLUSTERED)];

/// One line of the chart: a design and a number of threads.
struct Line {
    label: String,
    /// Milliseconds by scale factor.
    means: Vec<f64>,
}

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let scales = SHARES.map(|share| share * options.scale.unwrap_or(SCALE));
    let most = options.engine_options().threads;
    let threads = if most > 1 { vec![1, most] } else { vec![1] };
    let combinations = DESIGNS.iter().flat_map(|(name, _)| threads.iter().map(move |threads| (*name, *threads)));
    let mut lines: Vec<Line> = combinations
        .map(|(name, threads)| Line { label: format!("{name}, {threads} threads"), means: vec![] })
        .collect();
    let mut checks = vec![];
    for scale in scales {
        let means = measure(options, scale, &threads, &mut checks, notify)?;
        lines.iter_mut().zip(means).for_each(|(line, mean)| line.means.push(mean));
    }
    Ok(vec![
        Part::section(
            "Times",
            "Geometric means over the 13 queries of each query's median, hot, from text to last batch.",
        ),
        Part::checks(checks),
        Part::Lines(chart(&scales, &lines)),
        Part::Table(table(&scales, &lines)),
    ])
}

/// The geometric mean by design and number of threads at one scale factor. All must give the same answers.
fn measure(
    options: &RunOptions,
    scale: f64,
    threads: &[usize],
    checks: &mut Vec<Check>,
    notify: Notify<'_>,
) -> Result<Vec<f64>> {
    let data = data(options, scale, notify)?;
    let workspace = options.workspace("scaling")?;
    let database = workspace.path("db");
    let open = |threads: usize| Engine::open(&database, freestone::Options { threads, ..options.engine_options() });
    let (mut means, mut expected): (Vec<f64>, Option<Vec<Answer>>) = (vec![], None);
    notify(&format!("loading scale factor {scale}"));
    let most = threads.last().copied().unwrap_or(1);
    load(&open(most)?, &data)?;
    for (name, design) in DESIGNS {
        notify(&format!("scale factor {scale}, {name}"));
        open(most)?.run(&format!("ALTER TABLE lineorder SET DESIGN ({design})"))?;
        for threads in threads {
            let engine = open(*threads)?;
            let answers: Vec<Answer> =
                ssb_queries().iter().map(|(_, sql)| Ok(engine.answer(sql)?)).collect::<Result<_>>()?;
            let equal = *expected.get_or_insert_with(|| answers.clone()) == answers;
            let title = format!("scale factor {scale}, {name}, {threads} threads: answers as the first");
            checks.push(Check::new(title, equal, if equal { "13 of 13 equal" } else { "they differ" }));
            let times: Result<Vec<f64>> =
                ssb_queries().iter().map(|(_, sql)| Ok(engine.median_ms(sql, REPEAT)?)).collect();
            let logarithms: Vec<f64> = times?.iter().map(|time| time.ln()).collect();
            means.push((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp());
        }
    }
    Ok(means)
}

fn chart(scales: &[f64], lines: &[Line]) -> Lines {
    let series = lines.iter().map(|line| Series::new(line.label.clone(), line.means.clone()));
    Lines {
        title: "Geometric mean of 13 queries".into(),
        x_label: "scale factor".into(),
        y_label: "ms".into(),
        x: scales.to_vec(),
        series: series.collect(),
        mark: None,
    }
}

fn table(scales: &[f64], lines: &[Line]) -> Table {
    let header: Vec<&str> =
        std::iter::once("scale factor").chain(lines.iter().map(|line| line.label.as_str())).collect();
    let mut table = Table::new("Milliseconds", 1, &header);
    for (at, scale) in scales.iter().enumerate() {
        let values: Vec<f64> = lines.iter().map(|line| line.means[at]).collect();
        table.push(std::iter::once(Cell::from(format!("{scale}"))).chain(milliseconds(&values)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;

    #[test]
    fn every_scale_answers_alike_on_any_number_of_threads() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = folder.path().to_owned();
        let options = experiments::RunOptions { scale: Some(0.02), threads: 2, output, ..Default::default() };
        let findings = experiments::run("scaling", &options, &|_| {}).expect("the run succeeds");
        let wrong: Vec<_> = findings.checks().filter(|check| !check.holds).collect();
        assert!(wrong.is_empty() && findings.checks().count() == 12, "{wrong:?}");
        let Some(Part::Lines(lines)) = findings.parts.get(2) else { panic!("the third part is the chart") };
        assert!(lines.series.iter().all(|series| series.values.len() == 3 && series.values.iter().all(|ms| *ms > 0.0)));
    }
}
