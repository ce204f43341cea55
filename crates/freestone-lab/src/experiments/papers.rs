//! The report of the papers: every experiment of theirs at a size that fits a time, and a page per paper. A run that was
//! interrupted continues, and what cannot be measured is on the page with the reason.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use freestone_report::findings::{Check, Findings, Part};
use freestone_report::{Host, page};

use super::{EXPERIMENTS, Experiment, RunOptions, run, tenants::options::TenantOptions};
use crate::Notify;
use crate::error::{LabError, Result};

/// A paper, and its page.
struct Paper {
    /// How sources of its experiments begin.
    source: &'static str,
    /// The name of the page, without `.html`.
    page: &'static str,
    title: &'static str,
}

const PAPERS: [Paper; 5] = [
    Paper {
        source: "Holloway and DeWitt 2008",
        page: "holloway-2008",
        title: "Holloway and DeWitt 2008: Read-Optimized Databases, In Depth",
    },
    Paper {
        source: "Raasveldt and Mühleisen",
        page: "raasveldt-2017",
        title: "Raasveldt and Mühleisen 2017: Don't Hold My Data Hostage",
    },
    Paper {
        source: "Halverson et al. 2006",
        page: "halverson-2006",
        title: "Halverson et al. 2006: A Comparison of C-Store and Row-Store in a Common Framework",
    },
    Paper {
        source: "Grund et al. 2010",
        page: "grund-2010",
        title: "Grund et al. 2010: The Effects of Virtualization on Main Memory Systems",
    },
    Paper {
        source: "Götze, Baumann and Sattler 2018",
        page: "goetze-2018",
        title: "Götze, Baumann and Sattler 2018: An NVM-aware Storage Layout for Analytical Workloads",
    },
];

/// Experiments that take longer than a report may: their own command runs them.
const LONG: [&str; 1] = ["protocol-networks"];

/// The reason why an experiment was not run because the others took the time.
const NO_TIME: &str = "the time of the report was over";

/// Runs the experiments of all papers that have no result of this program and machine yet, and writes the pages. Returns the
/// path of the overview. What begins after `time` is not run.
///
/// # Errors
/// A result or a page cannot be written, or the run was interrupted. An experiment that fails is on the page with the reason.
pub fn report_papers(options: &RunOptions, time: Duration, notify: Notify<'_>) -> Result<PathBuf> {
    std::fs::create_dir_all(&options.output).map_err(LabError::file(&options.output))?;
    let began = Instant::now();
    let wanted: Vec<&Experiment> = EXPERIMENTS.iter().filter(|experiment| paper(experiment.source).is_some()).collect();
    for (at, experiment) in wanted.iter().enumerate() {
        let sized = sized(experiment.name, options);
        let step = format!("{} of {}: {}", at + 1, wanted.len(), experiment.name);
        if is_complete(experiment.name, &sized)? {
            notify(&format!("{step} is there"));
            continue;
        }
        notify(&format!("{step}, {} of {} minutes used", began.elapsed().as_secs() / 60, time.as_secs().div_ceil(60)));
        let reason = if LONG.contains(&experiment.name) {
            Some("it takes hours".to_owned())
        } else if began.elapsed() >= time {
            Some(NO_TIME.to_owned())
        } else {
            match run(experiment.name, &sized, notify) {
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                done => done.err().map(|error| error.to_string()),
            }
        };
        if let Some(reason) = reason {
            notify(&format!("{}: not measured: {reason}", experiment.name));
            write(&sized.output, &not_measured(experiment, &sized, &reason))?;
        }
    }
    super::report(&options.output)
}

/// The options of an experiment in the report: smaller where its usual size takes minutes.
fn sized(name: &str, options: &RunOptions) -> RunOptions {
    let (rows, scale, queries) = match name {
        "holloway-scans" | "holloway-pages" => (Some(500_000), None, Some(5)),
        "holloway-views" | "holloway-joins" | "holloway-size" | "codecs" => (Some(500_000), None, None),
        "halverson-scans" => (Some(500_000), Some(0.1), None),
        "memory-layouts" => (Some(200_000), None, None),
        "ptable-nodes" | "ptable-points" | "ptable-writes" => (Some(500_000), None, Some(50_000)),
        "ptable-blocks" | "ptable-scans" => (Some(500_000), None, None),
        "protocol-survey" | "protocol-design" => (None, Some(0.005), None),
        _ => (None, None, None),
    };
    RunOptions {
        rows: options.rows.or(rows),
        scale: options.scale.or(scale),
        queries: options.queries.or(queries),
        tenants: TenantOptions { short: true, ..options.tenants.clone() },
        ..options.clone()
    }
}

fn paper(source: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| source.starts_with(paper.source))
}

/// Whether the folder has a result of the experiment by the same command, program and machine.
fn is_complete(name: &str, options: &RunOptions) -> Result<bool> {
    let path = options.output.join(format!("{name}.json"));
    let Ok(json) = std::fs::read(&path) else { return Ok(false) };
    let found: Findings = serde_json::from_slice(&json).map_err(|source| LabError::Result { path, source })?;
    let here = Host::here(&options.versions);
    let is_same = found.command == options.command(name)
        && found.host.versions == here.versions
        && found.host.hardware == here.hardware;
    // What was not measured took no time.
    Ok(is_same && found.seconds > 0.0)
}

fn not_measured(experiment: &Experiment, options: &RunOptions, reason: &str) -> Findings {
    let check = Check {
        statement: format!("{}: {}", experiment.name, experiment.title),
        place: experiment.source.to_owned(),
        detail: format!("not measured: {reason}"),
        why: format!("{} runs it alone", options.command(experiment.name)),
        holds: false,
        is_unmeasured: true,
    };
    Findings {
        name: experiment.name.to_owned(),
        title: experiment.title.to_owned(),
        question: experiment.shows.to_owned(),
        source: experiment.source.to_owned(),
        command: options.command(experiment.name),
        host: Host::here(&options.versions),
        seconds: 0.0,
        parts: vec![Part::checks(vec![check])],
    }
}

/// Writes a result as JSON.
pub(super) fn write(folder: &Path, findings: &Findings) -> Result<()> {
    let path = folder.join(format!("{}.json", findings.name));
    let json = serde_json::to_vec_pretty(findings);
    let json = json.map_err(|source| LabError::Result { path: path.clone(), source })?;
    std::fs::write(&path, json).map_err(LabError::file(&path))
}

/// Writes a page for each paper of which an experiment has run, and returns their names and titles.
pub(super) fn pages(folder: &Path, runs: &[Findings]) -> Result<Vec<(String, String)>> {
    let mut written = vec![];
    for paper in &PAPERS {
        let of_paper: Vec<Findings> = runs.iter().filter(|run| run.source.starts_with(paper.source)).cloned().collect();
        if of_paper.is_empty() {
            continue;
        }
        let path = folder.join(format!("{}.html", paper.page));
        let lead = "What the paper found, measured again here: its tables and figures next to this machine's.";
        std::fs::write(&path, page::html(paper.title, lead, &of_paper)).map_err(LabError::file(&path))?;
        written.push((format!("{}.html", paper.page), paper.title.to_owned()));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_time_every_experiment_is_on_a_page_with_the_reason() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions { output: folder.path().to_owned(), versions: "v".into(), ..Default::default() };
        let overview = report_papers(&options, Duration::ZERO, &|_| {}).expect("pages are written");
        let overview = std::fs::read_to_string(overview).expect("the overview");
        for paper in &PAPERS {
            let page = std::fs::read_to_string(folder.path().join(format!("{}.html", paper.page))).expect(paper.page);
            assert!(page.contains(NO_TIME), "{}", paper.page);
            assert!(overview.contains(paper.page), "{}", paper.page);
        }
    }

    #[test]
    fn a_result_of_the_same_command_and_program_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions {
            rows: Some(20_000),
            output: folder.path().to_owned(),
            versions: "v1".into(),
            ..Default::default()
        };
        let sized = sized("holloway-size", &options);
        run("holloway-size", &sized, &|_| {}).expect("runs");
        assert!(is_complete("holloway-size", &sized).expect("read"));
        assert!(!is_complete("holloway-size", &RunOptions { versions: "v2".into(), ..sized.clone() }).expect("read"));
        assert!(!is_complete("holloway-size", &RunOptions { rows: Some(30_000), ..sized.clone() }).expect("read"));
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "holloway-size").expect("known");
        write(folder.path(), &not_measured(experiment, &sized, "no disk")).expect("written");
        assert!(!is_complete("holloway-size", &sized).expect("read"));
    }
}
