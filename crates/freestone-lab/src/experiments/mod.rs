//! The papers' experiments and the engine's own measurements. Each has a name and a run that gives findings. The report
//! has all of them.

mod advice;
mod apart;
mod calibrator;
mod codecs;
mod crossover;
mod fidelity;
mod halverson;
mod holloway;
mod holloway_size;
mod kept;
mod memory_layouts;
mod page_file;
mod papers;
mod protocol;
mod ptable;
mod published;
mod requirements;
mod scaling;
mod scanner;
mod ssb;
pub mod tenants;
mod tpch;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Notify;
use crate::error::{LabError, Result};
use freestone_data::holloway::Table as Generated;
use freestone_report::findings::{Findings, Part};
use freestone_report::{Host, page};
pub use papers::report_papers;
pub use scanner::ScanSettings;

/// An experiment, which is run by name.
pub struct Experiment {
    pub name: &'static str,
    pub title: &'static str,
    /// The purpose of a run.
    pub shows: &'static str,
    /// The paper and its section, or another origin of the question.
    pub source: &'static str,
    /// The options that change its size, and their defaults.
    pub size: &'static str,
    run: fn(&RunOptions, Notify<'_>) -> Result<Vec<Part>>,
}

/// All experiments, in the order of the report.
pub const EXPERIMENTS: [Experiment; 29] = [
    codecs::EXPERIMENT,
    holloway_size::EXPERIMENT,
    holloway::SCANS,
    holloway::VIEWS,
    holloway::JOINS,
    holloway::PAGES,
    halverson::SCANS,
    calibrator::EXPERIMENT,
    memory_layouts::EXPERIMENT,
    memory_layouts::LAYOUTER,
    tenants::OVERHEAD,
    tenants::CONSOLIDATION,
    tenants::INTERFERENCE,
    ptable::NODES,
    ptable::POINTS,
    ptable::PEERS,
    ptable::BLOCKS,
    ptable::SCANS,
    ptable::WRITES,
    ptable::RECOVERY,
    crossover::EXPERIMENT,
    advice::EXPERIMENT,
    tpch::EXPERIMENT,
    ssb::EXPERIMENT,
    scaling::EXPERIMENT,
    protocol::SURVEY,
    protocol::DESIGN,
    protocol::ADAPTATION,
    protocol::NETWORKS,
];

/// The size of a run, and the folder of its results.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The rows of generated tables. Each experiment has a default.
    pub rows: Option<usize>,
    /// The scale factor of TPC-H or SSB; each experiment has a default.
    pub scale: Option<f64>,
    /// The number of random queries per point of the papers' figures. The default is 10 (Holloway and DeWitt ran 50).
    pub queries: Option<usize>,
    /// Nanoseconds that emulated persistent memory takes longer for each line read and for each line flushed.
    pub latencies: [u64; 2],
    /// Further designs of SSB's fact table, in the form of `ALTER TABLE … SET DESIGN`.
    pub designs: Vec<String>,
    /// How the scans of `holloway-scans` and `holloway-pages` read and write.
    pub scan: ScanSettings,
    /// The tables of `holloway-size`, `holloway-scans` and `holloway-pages`; none means all.
    pub tables: Vec<Generated>,
    /// The options of the experiments with tenants. The short variant is also that of `protocol-*`.
    pub tenants: tenants::options::TenantOptions,
    /// The time of the run. `protocol-*` leave out, and name, what does not fit it.
    pub time: Option<Duration>,
    /// The folder for results, and for databases during a run. It is created if missing.
    pub output: PathBuf,
    /// The threads of the engine; 0 means one per core.
    pub threads: usize,
    /// The versions of the program and its libraries, for the report.
    pub versions: String,
    /// A folder of results of other versions, machines or sizes, for a report.
    pub kept: Option<PathBuf>,
}

/// Runs the experiment called `name` and writes `{output}/{name}.json`.
///
/// # Errors
/// There is no experiment of that name, the machine lacks disk or memory for its tables, the output cannot be written, a statement
/// fails, or answers differ.
pub fn run(name: &str, options: &RunOptions, notify: Notify<'_>) -> Result<Findings> {
    let Some(experiment) = EXPERIMENTS.iter().find(|experiment| experiment.name == name) else {
        let known: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        return Err(LabError::Unknown { name: name.to_owned(), known: known.join(", ") });
    };
    options.validate()?;
    std::fs::create_dir_all(&options.output).map_err(LabError::file(&options.output))?;
    requirements::check(name, options)?;
    let start = Instant::now();
    let parts = (experiment.run)(options, notify);
    #[cfg(target_os = "linux")]
    tenants::interrupt::release();
    let parts = parts?;
    let findings = Findings {
        name: name.to_owned(),
        title: experiment.title.to_owned(),
        question: experiment.shows.to_owned(),
        source: experiment.source.to_owned(),
        command: options.command(name),
        host: Host::here(&options.versions),
        seconds: start.elapsed().as_secs_f64(),
        parts,
    };
    papers::write(&options.output, &findings)?;
    Ok(findings)
}

/// Writes `{output}/report.html` from all results in the folder, with a page for each paper, and returns its path. `versions` is
/// this program's. `kept` is a folder of results of other versions, machines or sizes, which stand next to them.
///
/// # Errors
/// There are no results, one cannot be read, or one is of another version.
pub fn report(output: &Path, versions: &str, kept: Option<&Path>) -> Result<PathBuf> {
    let mut runs: Vec<Findings> = vec![];
    for experiment in &EXPERIMENTS {
        let path = output.join(format!("{}.json", experiment.name));
        match std::fs::read(&path) {
            Ok(json) => runs.push(serde_json::from_slice(&json).map_err(|source| LabError::Result { path, source })?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(LabError::file(&path)(error)),
        }
    }
    if let Some(other) = runs.iter().find(|run| run.host.versions != versions) {
        return Err(LabError::OtherVersion {
            path: output.join(format!("{}.json", other.name)),
            versions: other.host.versions.clone(),
            here: versions.to_owned(),
            command: other.command.clone(),
        });
    }
    if let Some(folder) = kept {
        runs = kept::fill(runs, folder)?;
    }
    if runs.is_empty() {
        return Err(LabError::NoResults { path: output.to_owned() });
    }
    let lead = "What the papers found, measured again with this engine: the same rows, the same scan, other layouts.";
    let path = output.join("report.html");
    let pages = papers::pages(output, &runs)?;
    let overview = page::with_links("The laboratory", lead, &pages, &runs);
    std::fs::write(&path, overview).map_err(LabError::file(&path))?;
    Ok(path)
}

impl RunOptions {
    fn validate(&self) -> Result<()> {
        if self.rows == Some(0) || self.queries == Some(0) {
            return Err(LabError::Usage("an experiment needs at least one row, and one query".into()));
        }
        if self.scale.is_some_and(|scale| !(0.001..=1000.0).contains(&scale)) {
            return Err(LabError::Usage("the scale must be between 0.001 and 1000".into()));
        }
        Ok(())
    }

    /// The command that repeats a run of these options. It names neither the folder of results nor the time of the run.
    fn command(&self, name: &str) -> String {
        let rows = self.rows.map_or(String::new(), |rows| format!(" --rows {rows}"));
        let scale = self.scale.map_or(String::new(), |scale| format!(" --scale {scale}"));
        let queries = self.queries.map_or(String::new(), |queries| format!(" --queries {queries}"));
        let latencies = match self.latencies {
            [0, 0] => String::new(),
            [read, write] => format!(" --latencies {read},{write}"),
        };
        let scan = match self.scan == ScanSettings::default() {
            true => String::new(),
            false => {
                let ScanSettings { io_depth, io_unit, block_rows } = self.scan;
                format!(" --io-depth {io_depth} --io-unit {} --block-rows {block_rows}", io_unit >> 10)
            }
        };
        let designs = self.designs.iter().map(|design| format!(" --design \"{design}\""));
        let tables = match self.tables.is_empty() {
            true => String::new(),
            false => {
                let names: Vec<String> = self.tables.iter().map(|table| table.name().to_lowercase()).collect();
                format!(" --tables {}", names.join(","))
            }
        };
        let tenants = match name.split('-').next() {
            Some("tenants") => self.tenants.arguments(),
            Some("protocol") if self.tenants.short => " --short".to_owned(),
            _ => String::new(),
        };
        format!(
            "freestone-lab run {name}{rows}{scale}{queries}{latencies}{scan}{tables}{}{tenants}",
            designs.collect::<String>()
        )
    }

    /// The generated tables of the run, in the paper's order of figures.
    fn tables(&self) -> Vec<Generated> {
        let all = [Generated::NarrowE, Generated::NarrowS, Generated::WideE, Generated::NarrowU, Generated::Strings];
        all.into_iter().filter(|table| self.tables.is_empty() || self.tables.contains(table)).collect()
    }

    fn engine_options(&self) -> freestone::Options {
        let defaults = freestone::Options::default();
        let threads = if self.threads == 0 { defaults.threads } else { self.threads };
        freestone::Options { threads, ..defaults }
    }

    /// An empty folder for the temporary files of a run.
    fn workspace(&self, name: &str) -> Result<Workspace> {
        let path = self.output.join(format!("{name}.tmp"));
        Workspace::remove(&path)?;
        std::fs::create_dir_all(&path).map_err(LabError::file(&path))?;
        Ok(Workspace(path))
    }
}

/// A folder that is removed with the value.
struct Workspace(PathBuf);

impl Workspace {
    fn remove(path: &Path) -> Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LabError::file(path)(error)),
            _ => Ok(()),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // A failed run reports its reason. That its folder remains is no second failure.
        let _ = Self::remove(&self.0);
    }
}

/// A path between single quotes of SQL.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace('\'', "''")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_and_senseless_sizes_are_refused() {
        let refused = |name: &str, options: &RunOptions| run(name, options, &|_| {}).expect_err("refused").to_string();
        assert!(refused("x", &RunOptions::default()).contains("codecs, holloway-size, holloway-scans, holloway-views"));
        assert!(refused("tpch", &RunOptions { scale: Some(0.0), ..Default::default() }).contains("scale"));
        assert!(refused("crossover", &RunOptions { rows: Some(0), ..Default::default() }).contains("row"));
    }

    #[test]
    fn results_are_read_back_into_one_page() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(matches!(report(folder.path(), "", None), Err(LabError::NoResults { .. })));
        let options = RunOptions { rows: Some(20_000), output: folder.path().to_owned(), ..Default::default() };
        run("holloway-size", &options, &|_| {}).expect("the run succeeds");
        let page = report(folder.path(), "", None).expect("there are results");
        let page = std::fs::read_to_string(page).expect("it was written");
        assert!(page.contains("Narrow-E"));
        let older = report(folder.path(), "freestone-lab 2", None).expect_err("another version is refused").to_string();
        assert!(older.contains("holloway-size.json") && older.contains("freestone-lab 2"), "{older}");
        std::fs::write(folder.path().join("tpch.json"), "{}").expect("the folder is writable");
        assert!(matches!(report(folder.path(), "", None), Err(LabError::Result { .. })));
    }
}
