//! Whether a statement is distributed, and which stages of it.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::scalar::ScalarValue;
use freestone_store::Snapshot;
use parking_lot::Mutex;

use super::remote::RemoteExec;
use super::run::Run;
use super::stages::{Stage, stages, with_stages};
use super::task::{Task, fingerprint};
use super::{Workers, placement};
use crate::context::Cancellation;
use crate::provider::{FreestoneSource, Piece, sources};
use crate::settings;

/// The share of a stage's rows that the divided scan must have: the other scans are read by every worker.
const DIVIDED_SHARE: f64 = 0.34;
/// The time of a stored value that a predicate looks at, and of one that is decoded and passed on, in nanoseconds.
const TESTED_NS: f64 = 2.0;
const DECODED_NS: f64 = 5.0;

/// A query as workers are asked it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub text: Arc<str>,
    pub values: Vec<ScalarValue>,
    /// How long its scans take, once that was predicted for the tables of its plan.
    pub predicted: OnceLock<Duration>,
    /// The stages whose workers gave nearly as many rows as they read, so that uniting them took longer than it saved.
    pub unfit: Arc<Mutex<BTreeSet<usize>>>,
}

impl Asked {
    pub fn new(text: &str, values: Vec<ScalarValue>) -> Asked {
        Asked { text: text.into(), values, predicted: OnceLock::new(), unfit: Arc::default() }
    }
}

/// A plan for one run, of which workers run some stages.
#[derive(Debug)]
pub(crate) struct Distributed {
    pub plan: Arc<dyn ExecutionPlan>,
    /// Why all of it runs here.
    pub note: Option<String>,
}

/// The state of one run of a plan.
pub(crate) struct RunState<'a> {
    pub context: &'a Arc<TaskContext>,
    pub snapshot: &'a Arc<Snapshot>,
    pub cancellation: &'a Cancellation,
}

/// The plan with those stages replaced that workers run. `asked`: the query, unless its plan depends on more than the
/// database.
///
/// # Errors
/// A footer cannot be read, or the query cannot be sent.
pub(crate) fn distributed(
    plan: Arc<dyn ExecutionPlan>,
    asked: Option<&Asked>,
    workers: &Arc<dyn Workers>,
    of: &RunState<'_>,
) -> Result<Distributed> {
    let here = |plan, note: String| Ok(Distributed { plan, note: Some(note) });
    let Some(asked) = asked else {
        return here(plan, "it does not depend on the tables of the database alone".to_owned());
    };
    if let Some(note) = too_short(&plan, asked, of)? {
        return here(plan, note);
    }
    let ready = workers.ready();
    if ready.is_empty() {
        return here(plan, "no worker is ready; freestone_workers() says why".to_owned());
    }
    let task = Task::new(
        &asked.text,
        &asked.values,
        settings::all(of.context.session_config().options()),
        of.snapshot.sequence(),
    )?;
    let mut replaced = vec![];
    for stage in stages(&plan)? {
        if asked.unfit.lock().contains(&stage.number) {
            continue;
        }
        if let Some(remote) = remote(&stage, &task, workers, &ready, of, &asked.unfit)? {
            replaced.push((stage.number, remote));
        }
    }
    if replaced.is_empty() {
        return here(
            plan,
            "nothing in it can be divided, or nothing would be gained, as when groups are nearly as many as rows"
                .to_owned(),
        );
    }
    Ok(Distributed { plan: with_stages(&plan, &replaced)?, note: None })
}

/// Why a query is not worth asking workers: it is predicted to be short.
pub(super) fn too_short(plan: &Arc<dyn ExecutionPlan>, asked: &Asked, of: &RunState<'_>) -> Result<Option<String>> {
    let options = of.context.session_config().options();
    let least = settings::distribution_threshold(options);
    let predicted = match asked.predicted.get() {
        Some(known) => *known,
        None => {
            let found = predicted(plan, options.execution.target_partitions)?;
            *asked.predicted.get_or_init(|| found)
        }
    };
    let (found, threshold) = (predicted.as_secs_f64() * 1e3, least.as_millis());
    let note = || format!("predicted {found:.1} ms, below distribution_threshold = {threshold} ms");
    Ok((predicted < least).then(note))
}

/// The scan of a stage that this number of workers divide, by its number, and its parts; `None` if they would gain nothing.
pub(super) fn division(stage: &Stage, workers: usize) -> Result<Option<(usize, FreestoneSource, Vec<Piece>)>> {
    let sources = sources(&stage.plan)?;
    let rows = |source: &FreestoneSource| source.table().rows();
    let largest = stage.divisible.iter().filter_map(|at| Some((*at, sources.get(*at)?)));
    let Some((scan, source)) = largest.max_by_key(|(at, source)| (rows(source), std::cmp::Reverse(*at))) else {
        return Ok(None);
    };
    let all: u64 = sources.iter().map(rows).sum();
    let pieces = pieces(source, workers);
    let is_worth_it = pieces.len() > 1 && rows(source) as f64 >= all as f64 * DIVIDED_SHARE;
    Ok(is_worth_it.then(|| (scan, source.clone(), pieces)))
}

/// What takes the place of a stage; `None` if workers would gain nothing.
fn remote(
    stage: &Stage,
    task: &Task,
    workers: &Arc<dyn Workers>,
    ready: &[String],
    of: &RunState<'_>,
    unfit: &Arc<Mutex<BTreeSet<usize>>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((scan, source, pieces)) = division(stage, ready.len())? else { return Ok(None) };
    let task = Task { stage: stage.number, fingerprint: fingerprint(&stage.plan)?, scan, ..task.clone() };
    let run = Run {
        task,
        stage: stage.clone(),
        shares: placement::assigned(source.table(), &pieces, ready),
        source,
        workers: workers.clone(),
        context: of.context.clone(),
        cancellation: of.cancellation.clone(),
        unfit: unfit.clone(),
        written: None,
    };
    let remote: Arc<dyn ExecutionPlan> = Arc::new(RemoteExec::new(run));
    Ok(Some(match stage.plan.downcast_ref::<SortExec>() {
        None => remote,
        Some(first) => {
            let sort = SortExec::new(first.expr().clone(), remote).with_fetch(first.fetch());
            let sort: Arc<dyn ExecutionPlan> = Arc::new(sort.with_preserve_partitioning(first.preserve_partitioning()));
            sort
        }
    }))
}

/// The parts of a table that are divided: its segments, or shorter ones if segments are too few to be shared evenly.
fn pieces(source: &FreestoneSource, workers: usize) -> Vec<Piece> {
    let segments = source.parts(false);
    if segments.len() >= workers * 4 { segments } else { source.parts(true) }
}

/// About how long the scans of a plan take on so many threads. Joins and aggregations take a multiple of it, so statements
/// above a threshold are hardly ever short ones.
fn predicted(plan: &Arc<dyn ExecutionPlan>, threads: usize) -> Result<Duration> {
    let mut nanoseconds = 0.0;
    plan.apply(|node| {
        if let Some(source) = FreestoneSource::of(node) {
            let tested = source.table().rows() as f64 * source.tested_columns() as f64 * TESTED_NS;
            nanoseconds +=
                tested + source.estimated_rows() as f64 * (1 + source.projection().len()) as f64 * DECODED_NS;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(Duration::from_nanos((nanoseconds / threads.max(1) as f64) as u64))
}
