//! The report of the papers: every experiment of theirs at a size that fits a time, and a page per paper. A run that was
//! interrupted continues, and what cannot be measured is on the page with the reason.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use freestone_report::findings::{Cell, Check, Findings, Part, Table};
use freestone_report::{Host, page};

use super::kept::{is_kept, title_of};
use super::{EXPERIMENTS, Experiment, RunOptions, apart, fidelity, requirements, tenants::options::TenantOptions};
use crate::Notify;
use crate::error::{LabError, Result};

/// A paper, and its page.
struct Paper {
    /// How sources of its experiments begin.
    source: &'static str,
    /// The name of the page, without `.html`.
    page: &'static str,
    /// Its heading in docs/papers.md.
    heading: &'static str,
    title: &'static str,
}

const PAPERS: [Paper; 5] = [
    Paper {
        source: "Holloway and DeWitt 2008",
        page: "holloway-2008",
        heading: "Holloway and DeWitt 2008",
        title: "Holloway and DeWitt 2008: Read-Optimized Databases, In Depth",
    },
    Paper {
        source: "Raasveldt and Mühleisen",
        page: "raasveldt-2017",
        heading: "Raasveldt and Mühleisen 2017",
        title: "Raasveldt and Mühleisen 2017: Don't Hold My Data Hostage",
    },
    Paper {
        source: "Halverson et al. 2006",
        page: "halverson-2006",
        heading: "Halverson et al. 2006",
        title: "Halverson et al. 2006: A Comparison of C-Store and Row-Store in a Common Framework",
    },
    Paper {
        source: "Grund et al. 2010",
        page: "grund-2010",
        heading: "Grund et al. 2010",
        title: "Grund et al. 2010: The Effects of Virtualization on Main Memory Systems",
    },
    Paper {
        source: "Götze, Baumann and Sattler 2018",
        page: "goetze-2018",
        heading: "Götze, Baumann and Sattler 2018",
        title: "Götze, Baumann and Sattler 2018: An NVM-aware Storage Layout for Analytical Workloads",
    },
];

/// The page of the paper whose experiments take longest.
const SLOW: &str = "raasveldt-2017";

/// The reason why an experiment was not run because the others took the time.
const NO_TIME: &str = "the time of the report was over";

/// What an experiment has to write its result after the time that it is given, before it is ended.
const GRACE: Duration = Duration::from_secs(15);

/// Runs the experiments of all papers that have no result of this version and machine yet, each in a process of its own, and
/// writes the pages. Returns the path of the overview. After `time` no experiment begins, and the one that runs is ended.
///
/// # Errors
/// A result or a page cannot be written, or the run was interrupted. An experiment that fails is on the page with the reason.
pub fn report_papers(options: &RunOptions, time: Duration, notify: Notify<'_>) -> Result<PathBuf> {
    std::fs::create_dir_all(&options.output).map_err(LabError::file(&options.output))?;
    let began = Instant::now();
    if let Some(missing) = requirements::missing(&options.output) {
        notify(&missing);
    }
    let wanted = in_turn();
    let mut missing = vec![];
    for (at, experiment) in wanted.iter().enumerate() {
        let sized = sized(experiment.name, options);
        let step = format!("{} of {}: {}", at + 1, wanted.len(), experiment.name);
        match kept(experiment.name, &sized)? {
            Kept::Measured(command) => {
                notify(&format!("{step} is there: {command}"));
                continue;
            }
            Kept::Aside(path) => {
                notify(&format!("{step}: the result of another version or machine is {}", path.display()))
            }
            Kept::Nothing => {}
        }
        notify(&format!("{step}, {} of {} minutes used", began.elapsed().as_secs() / 60, time.as_secs().div_ceil(60)));
        if let Some(reason) = measure(experiment.name, &sized, time.saturating_sub(began.elapsed()))? {
            notify(&format!("{}: not measured: {reason}", experiment.name));
            write(&sized.output, &not_measured(experiment, &sized, &reason))?;
            missing.push(experiment.name);
        }
    }
    let measured = wanted.len() - missing.len();
    notify(&match missing.is_empty() {
        true => format!("all {measured} experiments are measured"),
        false => format!(
            "{measured} experiments are measured; not measured, with the reason on the page: {}",
            missing.join(", ")
        ),
    });
    super::report(&options.output, &options.versions, options.kept.as_deref())
}

/// The experiments of all papers. Papers take turns, so that each has results when time ends. The one whose experiments install
/// and start other servers is the last of each turn.
fn in_turn() -> Vec<&'static Experiment> {
    let of = |paper: &Paper| EXPERIMENTS.iter().filter(|e| e.source.starts_with(paper.source)).collect::<Vec<_>>();
    let (slow, quick): (Vec<&Paper>, Vec<&Paper>) = PAPERS.iter().partition(|paper| paper.page == SLOW);
    let of_papers: Vec<Vec<&Experiment>> = quick.into_iter().chain(slow).map(of).collect();
    let most = of_papers.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|round| of_papers.iter().filter_map(move |of| of.get(round).copied())).collect()
}

/// Runs an experiment by this program, in a process that ends after `time`. Returns the reason if there is no result then.
fn measure(name: &str, options: &RunOptions, time: Duration) -> Result<Option<String>> {
    if time <= GRACE {
        return Ok(Some(NO_TIME.to_owned()));
    }
    let program = std::env::current_exe().map_err(LabError::file("this program".as_ref()))?;
    let mut command = Command::new(program);
    let words = options.command(name);
    command.args(words.split_whitespace().skip(1)).arg("--output").arg(&options.output);
    command.arg("--time").arg((time - GRACE).as_secs().to_string());
    let ended = apart::run(&mut command, time)?;
    Ok(match kept(name, options)? {
        // A claim that does not hold fails the run as well; its result is there.
        Kept::Measured(_) => None,
        Kept::Aside(_) | Kept::Nothing => Some(ended.unwrap_or_else(|| "it ended without a result".to_owned())),
    })
}

/// The options of an experiment in the report: smaller where its usual size takes minutes.
fn sized(name: &str, options: &RunOptions) -> RunOptions {
    let (rows, scale, queries) = match name {
        "holloway-scans" | "holloway-pages" => (Some(250_000), None, Some(4)),
        "holloway-views" => (Some(200_000), None, Some(3)),
        "holloway-size" | "codecs" => (Some(500_000), None, None),
        "halverson-scans" => (Some(300_000), Some(0.05), None),
        "memory-layouts" => (Some(200_000), None, None),
        "memory-layouter" => (Some(50_000), None, Some(1)),
        "ptable-nodes" | "ptable-points" | "ptable-writes" => (Some(200_000), None, Some(50_000)),
        "ptable-peers" => (Some(200_000), None, Some(5_000)),
        "ptable-blocks" | "ptable-scans" => (Some(200_000), None, None),
        "protocol-survey" | "protocol-design" => (None, Some(0.005), None),
        "protocol-networks" => (None, Some(0.005), None),
        "protocol-adaptation" => (None, Some(0.02), None),
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

/// What the folder has of an experiment.
#[derive(Debug, PartialEq, Eq)]
enum Kept {
    /// A measurement of this version and machine, by this command. Its size may be another one than the report's.
    Measured(String),
    /// A measurement of another version or machine, or a file that is no result, which was moved to this path.
    Aside(PathBuf),
    Nothing,
}

/// A result of this version and machine stays, also one of a longer run by its own command. Another one is moved aside.
fn kept(name: &str, options: &RunOptions) -> Result<Kept> {
    let path = options.output.join(format!("{name}.json"));
    let json = match std::fs::read(&path) {
        Ok(json) => json,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Kept::Nothing),
        Err(error) => return Err(LabError::file(&path)(error)),
    };
    let here = Host::here(&options.versions);
    if let Ok(found) = serde_json::from_slice::<Findings>(&json) {
        // What was not measured took no time.
        if found.seconds <= 0.0 {
            return Ok(Kept::Nothing);
        }
        if found.host.versions == here.versions && found.host.hardware == here.hardware {
            return Ok(Kept::Measured(found.command));
        }
    }
    let aside = options.output.join(format!("{name}.json.old"));
    std::fs::rename(&path, &aside).map_err(LabError::file(&path))?;
    Ok(Kept::Aside(aside))
}

fn not_measured(experiment: &Experiment, options: &RunOptions, reason: &str) -> Findings {
    let check = Check {
        statement: format!("{}: {}", experiment.name, experiment.title),
        place: experiment.source.to_owned(),
        detail: format!("{reason}; `{}` runs it alone", options.command(experiment.name)),
        why: String::new(),
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

/// Writes a result as JSON. A write that is cut off leaves the file as it was.
pub(super) fn write(folder: &Path, findings: &Findings) -> Result<()> {
    let path = folder.join(format!("{}.json", findings.name));
    let json = serde_json::to_vec_pretty(findings);
    let json = json.map_err(|source| LabError::Result { path: path.clone(), source })?;
    let unfinished = path.with_extension("json.unfinished");
    std::fs::write(&unfinished, json).map_err(LabError::file(&unfinished))?;
    std::fs::rename(&unfinished, &path).map_err(LabError::file(&path))
}

/// The states of the claims of some runs, such as `12 claims hold, 3 do not, 2 are not measured`.
fn standing(runs: &[Findings]) -> String {
    let claims: Vec<&Check> = runs.iter().flat_map(Findings::checks).filter(|check| !check.place.is_empty()).collect();
    let count = |of: fn(&&&Check) -> bool| claims.iter().filter(of).count();
    let (hold, refuted) = (count(|check| check.holds), count(|check| check.is_refuted()));
    format!("{hold} claims hold, {refuted} do not, {} are not measured", claims.len() - hold - refuted)
}

/// The claims that both the engine's vectorized cursor and the paper's own scanner have judged, side by side.
fn scanners(runs: &[Findings]) -> Option<Findings> {
    let find = |name: &str| runs.iter().find(|run| run.name == name);
    let (engine, paper) = (find("holloway-scans")?, find("holloway-pages")?);
    let (changed, table) =
        side_by_side([engine, paper], "Verdicts by scanner", ["the engine's cursor", "the paper's scanner"])?;
    let text = format!(
        "{changed} of {} verdicts change when the paper's own pages and scanners replace the engine's pages and its vectorized \
         cursor; they are set off.",
        table.rows.len()
    );
    Some(Findings {
        name: "scanners".into(),
        title: "What the scanner decides".into(),
        question: "The same claims, judged by holloway-scans and by holloway-pages.".into(),
        ..comparison(engine, text, table)
    })
}

/// The claims that both this report and a kept run of another size have judged, side by side.
fn sizes(runs: &[Findings]) -> Vec<Findings> {
    let of_kept = |kept: &&Findings| kept.checks().next().is_some_and(is_kept);
    let compared = runs.iter().filter(of_kept).filter_map(|kept| {
        let own = runs.iter().find(|run| run.title == title_of(kept) && run.name != kept.name)?;
        let (changed, table) = side_by_side([own, kept], "Verdicts by size", ["this report", "the kept run"])?;
        let text = format!(
            "{changed} of {} verdicts change from {} to {}; they are set off.",
            table.rows.len(),
            own.command,
            kept.command
        );
        Some(Findings {
            name: format!("{}-sizes", kept.name),
            title: format!("What the size decides: {}", own.title),
            question: format!("The same claims, judged by {} of this report and by a kept run.", own.name),
            ..comparison(own, text, table)
        })
    });
    compared.collect()
}

/// Two runs' verdicts of the same claims, and how many of them differ. `None` if they have judged no common claim.
fn side_by_side(runs: [&Findings; 2], title: &str, names: [&str; 2]) -> Option<(usize, Table)> {
    let word = |check: &Check| match check {
        check if check.holds => "holds",
        check if check.is_unmeasured => "not measured",
        _ => "does not",
    };
    let mut table = Table::new(title, 6, &["claim", "where", names[0], "its figures", names[1], "its figures"]);
    let mut changed = 0;
    for own in runs[0].checks() {
        let Some(other) = runs[1].checks().find(|check| check.statement == own.statement) else { continue };
        let is_changed = word(own) != word(other);
        changed += usize::from(is_changed);
        let texts = [&own.statement, &own.place, word(own), &own.detail, word(other), &other.detail];
        let mark = |(at, text): (usize, &str)| Cell { text: text.to_owned(), best: is_changed && at == 4 };
        table.push(texts.into_iter().enumerate().map(mark));
    }
    (!table.rows.is_empty()).then_some((changed, table))
}

/// Findings without a command or verdicts of their own: claims are counted once.
fn comparison(of: &Findings, text: String, table: Table) -> Findings {
    Findings {
        command: String::new(),
        host: Host::default(),
        seconds: 0.0,
        parts: vec![Part::section("", text), Part::Table(table)],
        ..of.clone()
    }
}

/// Writes a page for each paper of which an experiment has run, and one with what their authors would object to. Returns their names
/// and titles.
pub(super) fn pages(folder: &Path, runs: &[Findings]) -> Result<Vec<(String, String)>> {
    let mut written = vec![];
    for paper in &PAPERS {
        let of_paper = runs.iter().filter(|run| run.source.starts_with(paper.source));
        let mut of_paper: Vec<Findings> = of_paper.cloned().collect();
        if of_paper.is_empty() {
            continue;
        }
        let standing = standing(&of_paper);
        of_paper.extend(scanners(&of_paper));
        of_paper.extend(sizes(&of_paper));
        of_paper.extend(fidelity::findings(paper.heading));
        let path = folder.join(format!("{}.html", paper.page));
        let lead = "What the paper found, measured again here: its tables and figures next to this machine's.";
        std::fs::write(&path, page::html(paper.title, lead, &of_paper)).map_err(LabError::file(&path))?;
        written.push((format!("{}.html", paper.page), format!("{}: {standing}", paper.title)));
    }
    if !written.is_empty() {
        let objections = PAPERS.iter().filter_map(|paper| fidelity::objections(paper.heading, paper.page, paper.title));
        let (file, title) = ("objections.html", "What the authors would object to");
        let lead =
            "For a critical reader: what differs from the five papers still, why, and what that does to results.";
        let path = folder.join(file);
        std::fs::write(&path, page::html(title, lead, &objections.collect::<Vec<_>>()))
            .map_err(LabError::file(&path))?;
        written.push((file.to_owned(), title.to_owned()));
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::super::run;
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
            let objections = std::fs::read_to_string(folder.path().join("objections.html")).expect("written");
            assert!(overview.contains("objections.html") && objections.contains(&format!("id=\"{}\"", paper.page)));
            assert!(page.contains("id=\"fidelity\"") && page.contains("The authors would object"), "{}", paper.page);
        }
    }

    #[test]
    fn every_experiment_of_a_paper_has_a_command_without_quotes() {
        let options = RunOptions { latencies: [60, 400], ..Default::default() };
        for experiment in in_turn() {
            let command = sized(experiment.name, &options).command(experiment.name);
            assert!(!command.contains(['"', '\'']), "{command}, which is split at spaces");
            assert!(command.starts_with(&format!("freestone-lab run {}", experiment.name)), "{command}");
        }
        assert!(sized("protocol-networks", &options).command("protocol-networks").contains("--short"));
    }

    #[test]
    fn a_result_of_this_version_is_kept_and_another_is_moved_aside() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let options = RunOptions {
            rows: Some(20_000),
            output: folder.path().to_owned(),
            versions: "v1".into(),
            ..Default::default()
        };
        let sized = sized("holloway-size", &options);
        run("holloway-size", &sized, &|_| {}).expect("runs");
        let command = sized.command("holloway-size");
        assert_eq!(kept("holloway-size", &sized).expect("read"), Kept::Measured(command.clone()));
        // A run of another size was somebody's wish, which the report does not discard.
        let other_size = RunOptions { rows: Some(30_000), ..sized.clone() };
        assert_eq!(kept("holloway-size", &other_size).expect("read"), Kept::Measured(command));
        let next = RunOptions { versions: "v2".into(), ..sized.clone() };
        let aside = folder.path().join("holloway-size.json.old");
        assert_eq!(kept("holloway-size", &next).expect("read"), Kept::Aside(aside.clone()));
        assert!(aside.exists() && kept("holloway-size", &sized).expect("read") == Kept::Nothing);
        std::fs::write(folder.path().join("holloway-size.json"), "{ cut off").expect("the folder is writable");
        assert_eq!(kept("holloway-size", &sized).expect("no result is no reason to stop"), Kept::Aside(aside));
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "holloway-size").expect("known");
        write(folder.path(), &not_measured(experiment, &sized, "no disk")).expect("written");
        assert_eq!(kept("holloway-size", &sized).expect("read"), Kept::Nothing);
    }

    #[test]
    fn verdicts_of_both_scanners_stand_side_by_side() {
        let run = |name: &str, checks: &[(&str, bool)]| {
            let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == name).expect("known");
            let checks = checks.iter().map(|(statement, holds)| Check::new(*statement, *holds, "by 2").claimed("6.2"));
            Findings {
                parts: vec![Part::checks(checks.collect())],
                ..not_measured(experiment, &RunOptions::default(), "")
            }
        };
        let engine = run("holloway-scans", &[("same", true), ("other", false), ("engine only", true)]);
        let paper = run("holloway-pages", &[("other", true), ("same", true), ("pages only", true)]);
        assert_eq!(scanners(std::slice::from_ref(&engine)), None);
        let found = scanners(&[engine, paper]).expect("both have run");
        let [Part::Section(section), Part::Table(table)] = &found.parts[..] else { panic!("{:?}", found.parts) };
        assert!(section.text.starts_with("1 of 2 verdicts change"), "{}", section.text);
        let rows: Vec<(&str, &str, &str, bool)> = table
            .rows
            .iter()
            .map(|row| (row[0].text.as_str(), row[2].text.as_str(), row[4].text.as_str(), row[4].best))
            .collect();
        assert_eq!(rows, [("same", "holds", "holds", false), ("other", "does not", "holds", true)]);
        assert_eq!(found.checks().count(), 0, "claims are counted once");
    }

    #[test]
    fn verdicts_of_a_kept_run_stand_beside_those_of_the_same_experiment() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let run_of = |command: &str, checks: &[(&str, bool)]| {
            let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "holloway-pages").expect("known");
            let checks = checks.iter().map(|(statement, holds)| Check::new(*statement, *holds, "by 2").claimed("6.2"));
            let parts = vec![Part::checks(checks.collect())];
            let missing = not_measured(experiment, &RunOptions::default(), "");
            Findings { parts, seconds: 1.0, command: command.into(), ..missing }
        };
        let kept = run_of("large", &[("same", true), ("other", true)]);
        std::fs::write(folder.path().join("large.json"), serde_json::to_vec(&kept).expect("JSON")).expect("written");
        let own = run_of("small", &[("other", false), ("same", true), ("small only", true)]);
        let runs = super::super::kept::fill(vec![own], folder.path()).expect("one kept run");
        assert_eq!(standing(&runs), "2 claims hold, 1 do not, 0 are not measured", "claims are counted once");
        let [found] = &sizes(&runs)[..] else { panic!("one comparison of {runs:?}") };
        let [Part::Section(section), Part::Table(table)] = &found.parts[..] else { panic!("{:?}", found.parts) };
        assert_eq!(section.text, "1 of 2 verdicts change from small to large; they are set off.");
        assert_eq!((table.rows.len(), table.rows[0][4].text.as_str(), table.rows[0][4].best), (2, "holds", true));
        assert_eq!(sizes(&runs[..1]), []);
    }

    #[test]
    fn papers_take_turns() {
        let order = in_turn();
        let first: Vec<&str> = order.iter().take(PAPERS.len()).map(|experiment| experiment.source).collect();
        let has_turn = |paper: &Paper| first.iter().any(|source| source.starts_with(paper.source));
        assert!(PAPERS.iter().all(has_turn), "{first:?}");
        assert!(first.last().is_some_and(|source| source.starts_with("Raasveldt")), "{first:?}");
        let all = EXPERIMENTS.iter().filter(|e| PAPERS.iter().any(|paper| e.source.starts_with(paper.source))).count();
        assert_eq!(order.len(), all);
    }
}
