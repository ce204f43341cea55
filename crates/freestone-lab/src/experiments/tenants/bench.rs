//! One run of an experiment: its databases, servers, users and points.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use freestone_report::Host;

use super::burn::Neighbour;
use super::child::{self, Place, Process, Usage};
use super::databases::{self, Database, Encoding, Library, schema};
use super::interrupt;
use super::levels::{Levels, Running, Slot};
use super::options::{Burn, Isolation, TenantOptions};
use super::points::{Journal, Point};
use super::probe::{self, Allocated, Calibrated, LaidOut, Probe};
use super::progress::Progress;
use super::workload::{self, Asker, Edge, Endpoint, QUERIES, Seen};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::RunOptions;
use crate::experiments::ssb::counter;

/// The default scale factor, and that of the short variant.
const SCALE: f64 = 1.0;
const SHORT_SCALE: f64 = 0.1;

/// What is measured at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub level: Isolation,
    pub encoding: Encoding,
    /// The slots of the tenants.
    pub slots: Vec<Slot>,
    pub users: usize,
    /// The neighbours and their cores.
    pub burn: Vec<(Burn, Vec<usize>)>,
    /// The name, which is also the point's key.
    pub name: String,
}

/// What is known of a tenant's rows, from a server that has this tenant only.
#[derive(Debug, Clone, PartialEq)]
struct Facts {
    answers: Arc<Vec<(u64, u64)>>,
    rows: Vec<String>,
    /// The bytes that each query uses.
    bytes: [f64; QUERIES],
}

/// The servers of a case, which the next one may use, too.
struct Servers {
    level: Isolation,
    encoding: Encoding,
    slots: Vec<Slot>,
    running: Vec<Running>,
    endpoints: Vec<Endpoint>,
}

pub struct Bench<'a> {
    pub options: &'a TenantOptions,
    pub scale: f64,
    pub seconds: f64,
    pub cpus: Vec<usize>,
    pub levels: Levels,
    notify: Notify<'a>,
    library: Library,
    journal: Journal,
    progress: Progress,
    servers: Option<Servers>,
    facts: BTreeMap<(usize, Encoding), Facts>,
    points: Vec<Point>,
    output: PathBuf,
    name: &'static str,
    /// The versions of the program that was measured.
    pub version: String,
}

impl<'a> Bench<'a> {
    /// Prepares a run of `points` points in all, with at most `tenants` tenants.
    ///
    /// # Errors
    /// The program is missing, there is too little memory, or an interrupted run is another one.
    pub fn prepare(name: &'static str, run: &'a RunOptions, seconds: f64, notify: Notify<'a>) -> Result<Bench<'a>> {
        interrupt::watch();
        let options = &run.tenants;
        options.validate()?;
        let scale = run.scale.unwrap_or(if options.short { SHORT_SCALE } else { SCALE });
        let program = program(options)?;
        let version = version(&program)?;
        let host = Host::here(&version);
        let path = run.output.join(format!("{name}.unfinished"));
        let journal = Journal::open(&path, &run.command(name), &version, &host.hardware)?;
        if journal.count() > 0 {
            notify(&format!("continuing an interrupted run: {} points are there", journal.count()));
        }
        let folder = run.output.join(format!("tenants-sf{scale}"));
        let asked = options.levels();
        let levels = Levels::find(&asked, &program, &folder);
        for level in &options.isolation {
            if let Some(reason) = levels.missing(*level) {
                notify(&format!("not measured: {level}: {reason}"));
            }
        }
        Ok(Bench {
            options,
            scale,
            seconds: options.seconds(seconds),
            cpus: child::allowed_cpus(),
            levels,
            notify,
            library: Library { folder, program, scale },
            progress: Progress::new(0, 0),
            journal,
            servers: None,
            facts: BTreeMap::new(),
            points: vec![],
            output: run.output.clone(),
            name,
            version,
        })
    }

    /// The levels that were asked for and are there.
    ///
    /// # Errors
    /// There is none.
    pub fn available(&self) -> Result<Vec<Isolation>> {
        let levels: Vec<_> =
            self.options.levels().into_iter().filter(|level| self.levels.missing(*level).is_none()).collect();
        if levels.is_empty() {
            let reasons = self.options.levels().into_iter().filter_map(|level| self.levels.missing(level));
            return Err(LabError::Usage(format!(
                "none of the levels asked for can be measured here: {}",
                reasons.collect::<Vec<_>>().join("; ")
            )));
        }
        Ok(levels)
    }

    /// Builds the databases of all tenants, and learns each tenant's answers from a server that has it alone.
    ///
    /// # Errors
    /// There is too little memory or disk, or a database is damaged.
    pub fn learn(&mut self, tenants: usize, encodings: &[Encoding]) -> Result<()> {
        for encoding in encodings {
            databases::check_memory(tenants, self.scale, *encoding, databases::free_bytes())?;
            for tenant in 0..tenants {
                let database = self.library.of_tenant(tenant, *encoding, self.notify)?;
                self.library.check(&database)?;
                (self.notify)(&format!("tenant {} alone, {} columns", tenant + 1, encoding.name()));
                let facts = self.facts_of(tenant, *encoding, &database)?;
                self.facts.insert((tenant, *encoding), facts);
            }
        }
        Ok(())
    }

    /// Sets the number of points, of which those of an interrupted run are there.
    pub fn expect(&mut self, cases: &[Case]) {
        let repetitions = self.options.repetitions();
        let kept = (0..repetitions).flat_map(|at| cases.iter().map(move |case| (case, at)));
        let kept = kept.filter(|(case, at)| self.journal.point(&case.name, *at).is_some()).count();
        self.progress = Progress::new(cases.len() * repetitions, kept);
    }

    /// A slot for `tenants` tenants together.
    pub fn memory_of(&self, tenants: usize, encoding: Encoding) -> u64 {
        databases::tenant_bytes(self.scale, encoding) * 2 * tenants as u64
    }

    fn facts_of(&self, tenant: usize, encoding: Encoding, database: &Database) -> Result<Facts> {
        let slot = Slot::whole(self.cpus.clone(), self.memory_of(1, encoding));
        let name = format!("tenant {}", tenant + 1);
        let running = self.levels.serve(Isolation::Process, database, &slot, &name)?;
        let endpoint = self.endpoint(tenant, encoding, &running.address, None);
        let asker = Asker::connect(&endpoint)?;
        let rows = databases::rows_of(&asker, &endpoint, None)?;
        let (mut answers, mut bytes) = (vec![], [0.0; QUERIES]);
        for (at, sql) in endpoint.queries.iter().enumerate() {
            let answer = workload::answer_of(&asker.ask(sql)?)?;
            answers.push((answer.rows, answer.checksum));
            bytes[at] = bytes_of(&asker, sql)?;
        }
        Ok(Facts { answers: Arc::new(answers), rows, bytes })
    }

    fn endpoint(&self, tenant: usize, encoding: Encoding, address: &str, schema: Option<&str>) -> Endpoint {
        let facts = self.facts.get(&(tenant, encoding));
        Endpoint {
            address: address.to_owned(),
            queries: Arc::new(workload::queries_of(schema)),
            answers: facts.map_or_else(Arc::default, |facts| Arc::clone(&facts.answers)),
            name: format!("tenant {}", tenant + 1),
        }
    }

    /// Measures cases, in order, `repetitions` times over, so that other load on the machine affects all alike. Figures
    /// of a broken measurement are kept with the reason.
    ///
    /// # Errors
    /// Answers differ, a file cannot be written, or the run is interrupted.
    pub fn measure(&mut self, cases: &[Case]) -> Result<()> {
        for repetition in 0..self.options.repetitions() {
            for case in cases {
                interrupt::check()?;
                if let Some(point) = self.journal.point(&case.name, repetition) {
                    self.points.push(point.clone());
                    continue;
                }
                self.progress.show(&case.name);
                let point = match self.measure_once(case) {
                    Ok(point) => point,
                    Err(LabError::Broken(reason)) => {
                        self.servers = None;
                        (self.notify)(&format!("broken: {}: {reason}", case.name));
                        Point { broken: Some(reason), ..Point::default() }
                    }
                    Err(other) => {
                        self.servers = None;
                        self.progress.end();
                        return Err(other);
                    }
                };
                let point = Point { key: case.name.clone(), repetition, ..point };
                self.journal.add_point(&point)?;
                self.points.push(point);
                self.progress.step();
            }
            self.servers = None;
        }
        self.progress.end();
        Ok(())
    }

    fn measure_once(&mut self, case: &Case) -> Result<Point> {
        self.start(case)?;
        let mut neighbours = vec![];
        for (burn, cpus) in &case.burn {
            neighbours.push(Neighbour::start(*burn, cpus)?);
        }
        let Some(servers) = &mut self.servers else { return Err(LabError::Broken("no servers".into())) };
        let window = Duration::from_secs_f64(self.seconds);
        let warm_up = Duration::from_secs_f64((self.seconds / 4.0).clamp(0.2, 3.0));
        let mut edges = vec![];
        let seen = workload::run(&servers.endpoints, case.users, [warm_up, window], |edge| {
            edges.push((edge, Reading::now(&servers.running, &neighbours)));
        });
        // A dead server says more than the connection that it closed, but the system may need a moment to tell of it.
        if seen.is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        for running in &mut servers.running {
            running.check()?;
        }
        for neighbour in &mut neighbours {
            neighbour.check()?;
        }
        let seen = seen?;
        let [(Edge::Opens, before), (Edge::Closes, after)] = edges.as_slice() else {
            return Err(LabError::Broken("the window has no ends".into()));
        };
        if seen.times_ms.is_empty() {
            return Err(LabError::Broken(format!("no query ended within {} s; use more --seconds", self.seconds)));
        }
        let facts = self.facts.get(&(0, case.encoding));
        let bytes = facts.map_or([0.0; QUERIES], |facts| facts.bytes);
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        let other = (after.other_seconds - before.other_seconds) / (cores as f64 * seen.seconds);
        Ok(Point { other_share: other.clamp(0.0, 1.0), ..point(&seen, before, after, &bytes) })
    }

    /// Starts the servers of a case, unless they run.
    fn start(&mut self, case: &Case) -> Result<()> {
        let fits = |servers: &Servers| {
            (servers.level, servers.encoding, &servers.slots) == (case.level, case.encoding, &case.slots)
        };
        if self.servers.as_ref().is_some_and(fits) {
            return Ok(());
        }
        self.servers = None;
        let tenants = case.slots.len();
        let mut running = vec![];
        let mut endpoints = vec![];
        if case.level == Isolation::Shared {
            let database = self.library.shared(tenants, case.encoding, self.notify)?;
            let mut cpus: Vec<usize> = case.slots.iter().flat_map(|slot| slot.cpus.clone()).collect();
            cpus.sort_unstable();
            cpus.dedup();
            let slot = Slot::whole(cpus, case.slots.iter().map(|slot| slot.memory_bytes).sum());
            let server = self.levels.serve(case.level, &database, &slot, "the server of all tenants")?;
            for tenant in 0..tenants {
                endpoints.push(self.endpoint(tenant, case.encoding, &server.address, Some(&schema(tenant))));
            }
            running.push(server);
        } else {
            for (tenant, slot) in case.slots.iter().enumerate() {
                let database = self.library.of_tenant(tenant, case.encoding, self.notify)?;
                let server = self.levels.serve(case.level, &database, slot, &format!("tenant {}", tenant + 1))?;
                endpoints.push(self.endpoint(tenant, case.encoding, &server.address, None));
                running.push(server);
            }
        }
        // The first answers of each server, so that no measurement has cold caches.
        for endpoint in &endpoints {
            let asker = Asker::connect(endpoint)?;
            for sql in endpoint.queries.iter() {
                asker.ask(sql)?;
            }
        }
        let slots = case.slots.clone();
        self.servers = Some(Servers { level: case.level, encoding: case.encoding, slots, running, endpoints });
        Ok(())
    }

    /// The calibrator's figures at a level, measured once.
    ///
    /// # Errors
    /// It fails, or the run is interrupted.
    pub fn calibrated(&mut self, level: Isolation) -> Result<Calibrated> {
        if let Some(found) = self.journal.calibrated(level.name()) {
            return Ok(found.clone());
        }
        let probe = Probe::Calibrator { quick: self.options.short };
        let figures = probe::calibrated(&self.probe(level, "the calibrator", &probe)?)?;
        self.journal.add_calibrated(level.name(), &figures)?;
        Ok(figures)
    }

    /// The times of allocators at a level, measured once.
    ///
    /// # Errors
    /// As for [`Bench::calibrated`].
    pub fn allocated(&mut self, level: Isolation) -> Result<Allocated> {
        if let Some(found) = self.journal.allocated(level.name()) {
            return Ok(found.clone());
        }
        let probe = Probe::Allocators { rows: if self.options.short { 20_000 } else { 100_000 } };
        let figures = probe::allocated(&self.probe(level, "allocators", &probe)?)?;
        self.journal.add_allocated(level.name(), &figures)?;
        Ok(figures)
    }

    /// The times of rows and columns in memory at a level, measured once.
    ///
    /// # Errors
    /// As for [`Bench::calibrated`].
    pub fn laid_out(&mut self, level: Isolation) -> Result<LaidOut> {
        if let Some(found) = self.journal.laid_out(level.name()) {
            return Ok(found.clone());
        }
        let probe = Probe::Layouts { rows: if self.options.short { 10_000 } else { 100_000 } };
        let figures = probe::laid_out(&self.probe(level, "rows and columns", &probe)?)?;
        self.journal.add_laid_out(level.name(), &figures)?;
        Ok(figures)
    }

    /// The output of a probe at a level, with the whole machine and no servers.
    fn probe(&mut self, level: Isolation, what: &str, probe: &Probe) -> Result<String> {
        self.servers = None;
        (self.notify)(&format!("{what} at level {level}"));
        let slot = Slot::whole(self.cpus.clone(), self.memory_of(1, Encoding::Compressed).max(2 << 30));
        self.levels.probe(level, &slot, probe)
    }

    /// Compares the rows of all tenants with those before the measurements.
    ///
    /// # Errors
    /// Rows differ, or cannot be read.
    pub fn check_rows(&mut self) -> Result<usize> {
        self.servers = None;
        for ((tenant, encoding), before) in &self.facts {
            let database = self.library.of_tenant(*tenant, *encoding, self.notify)?;
            let after = self.facts_of(*tenant, *encoding, &database)?;
            if (&after.rows, &after.answers) != (&before.rows, &before.answers) {
                return Err(LabError::Answers(format!(
                    "tenant {} had the rows {} before and {} after the measurements",
                    tenant + 1,
                    before.rows.join("; "),
                    after.rows.join("; ")
                )));
            }
        }
        Ok(self.facts.len())
    }

    /// All points of a case.
    pub fn of<'b>(&'b self, key: &str) -> Vec<&'b Point> {
        self.points.iter().filter(|point| point.key == key).collect()
    }

    /// The points that do not count.
    pub fn broken(&self) -> Vec<&Point> {
        self.points.iter().filter(|point| point.broken.is_some()).collect()
    }

    pub fn points(&self) -> Vec<&Point> {
        self.points.iter().collect()
    }

    /// The median and the greatest share of processor time that other programs took.
    pub fn other_share(&self) -> (f64, f64) {
        let found = super::points::spread(&self.points(), |point| point.other_share);
        (found.median, found.high)
    }

    /// The bytes that a query uses on average, by the engine's counters.
    pub fn bytes_per_query(&self, encoding: Encoding) -> f64 {
        self.facts.get(&(0, encoding)).map_or(0.0, |facts| facts.bytes.iter().sum::<f64>() / QUERIES as f64)
    }

    /// Writes the points as CSV, and removes the file of the run, which is complete.
    ///
    /// # Errors
    /// A file cannot be written or removed.
    pub fn finish(self) -> Result<()> {
        let path = self.output.join(format!("{}.csv", self.name));
        std::fs::write(&path, super::points::csv(&self.points())).map_err(LabError::file(&path))?;
        self.journal.finish()
    }
}

/// The bytes that a query's scans use, by EXPLAIN ANALYZE.
fn bytes_of(asker: &Asker, sql: &str) -> Result<f64> {
    let batches = asker.ask(&format!("EXPLAIN (ANALYZE, FORMAT traditional) {sql}"))?;
    let mut sum = 0.0;
    for batch in &batches {
        let Some(column) = batch.columns().last() else { continue };
        for row in 0..batch.num_rows() {
            let text = arrow::util::display::array_value_to_string(column, row);
            let text = text.map_err(|error| LabError::Answers(error.to_string()))?;
            sum += text.lines().filter_map(|line| counter(line, "bytes_used")).sum::<f64>();
        }
    }
    if sum > 0.0 { Ok(sum) } else { Err(LabError::Answers("EXPLAIN ANALYZE tells of no bytes".into())) }
}

/// The program of the option, or the one next to this program.
pub(super) fn program(options: &TenantOptions) -> Result<PathBuf> {
    let neighbour = || Some(std::env::current_exe().ok()?.parent()?.join("freestone"));
    let path = options.program.clone().or_else(neighbour).unwrap_or_else(|| "freestone".into());
    if path.is_file() {
        return Ok(path);
    }
    Err(LabError::Usage(format!(
        "there is no program {}; build it (make build), or name it with --program",
        path.display()
    )))
}

fn version(program: &Path) -> Result<String> {
    let mut command = Command::new(program);
    command.arg("--version");
    let text = Process::start("freestone --version", command, Place::default())?.finish(Duration::from_secs(60))?;
    Ok(text.lines().collect::<Vec<_>>().join(", "))
}

/// What is read at the ends of a window.
struct Reading {
    servers: Usage,
    guest_kernel_seconds: Option<f64>,
    client_seconds: f64,
    neighbours: Vec<(f64, f64)>,
    /// The time of all programs that are not of this measurement.
    other_seconds: f64,
}

impl Reading {
    fn now(running: &[Running], neighbours: &[Neighbour]) -> Reading {
        let mut servers = Usage::default();
        let mut guest_kernel_seconds = None;
        for (usage, guest) in running.iter().map(Running::usage) {
            servers = servers.plus(usage);
            guest_kernel_seconds =
                guest.map(|seconds| seconds + guest_kernel_seconds.unwrap_or(0.0)).or(guest_kernel_seconds);
        }
        let client_seconds = own_seconds();
        let of_neighbours: f64 = neighbours.iter().map(Neighbour::seconds).sum();
        let own = servers.user_seconds + servers.kernel_seconds + client_seconds + of_neighbours;
        let neighbours = neighbours.iter().filter_map(Neighbour::moved).collect();
        let other_seconds = child::busy_seconds() - own;
        Reading { servers, guest_kernel_seconds, client_seconds, neighbours, other_seconds }
    }
}

/// The processor time of this process, without those that it started.
fn own_seconds() -> f64 {
    // SAFETY: the call fills a structure of plain numbers.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn point(seen: &Seen, before: &Reading, after: &Reading, bytes: &[f64; QUERIES]) -> Point {
    let used = after.servers.since(before.servers);
    let moved: f64 = seen.counts.iter().zip(bytes).map(|(count, bytes)| *count as f64 * bytes).sum();
    let rate = |((bytes, seconds), (bytes_then, seconds_then)): (&(f64, f64), &(f64, f64))| {
        (bytes - bytes_then) / (seconds - seconds_then).max(1e-3)
    };
    Point {
        seconds: seen.seconds,
        queries: seen.times_ms.len() as u64,
        throughput: seen.throughput(),
        mean_ms: seen.mean_ms(),
        p50_ms: seen.quantile_ms(0.5),
        p95_ms: seen.quantile_ms(0.95),
        max_ms: seen.quantile_ms(1.0),
        user_seconds: used.user_seconds,
        kernel_seconds: used.kernel_seconds,
        guest_kernel_seconds: after.guest_kernel_seconds.zip(before.guest_kernel_seconds).map(|(now, then)| now - then),
        client_seconds: after.client_seconds - before.client_seconds,
        resident_bytes: used.resident_bytes,
        switches: used.switches,
        moved: moved / seen.seconds.max(f64::MIN_POSITIVE),
        neighbour_moved: after.neighbours.iter().zip(&before.neighbours).map(rate).fold(0.0, |sum, rate| sum + rate),
        ..Point::default()
    }
}
