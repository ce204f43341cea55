//! CREATE TABLE AS on workers: each reads its parts of the divided scan, runs the whole query on them, and makes segments of
//! the rows. The server adds the segments to its transaction, and commits once.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use freestone_store::WriteTransaction;

use super::decision::{Asked, RunState, division, too_short};
use super::run::Run;
use super::stages::whole;
use super::task::{Task, fingerprint};
use super::written::{Written, segments_of};
use super::{Workers, placement};
use crate::error::{Error, Result};
use crate::exec::write::WriteContext;
use crate::settings;

/// The rows of a CREATE TABLE AS, which workers can write.
pub(crate) struct RemoteRows {
    run: Run,
    /// The commit that the plan reads.
    sequence: u64,
}

impl RemoteRows {
    /// Those of a query; `None` if workers would gain nothing, or cannot run all of it.
    ///
    /// # Errors
    /// A footer cannot be read, or the query cannot be sent.
    pub fn of(
        plan: &Arc<dyn ExecutionPlan>,
        asked: &Asked,
        workers: &Arc<dyn Workers>,
        of: &RunState<'_>,
    ) -> Result<Option<RemoteRows>> {
        let options = of.context.session_config().options();
        let ready = workers.ready();
        let is_ordered = plan.output_ordering().is_some();
        if is_ordered || ready.is_empty() || too_short(plan, asked, of)?.is_some() {
            return Ok(None);
        }
        let Some(stage) = whole(plan)? else { return Ok(None) };
        let Some((scan, source, pieces)) = division(&stage, ready.len())? else { return Ok(None) };
        let sequence = of.snapshot.sequence();
        let task = Task::new(&asked.text, &asked.values, settings::all(options), sequence)?;
        let task = Task { stage: stage.number, fingerprint: fingerprint(&stage.plan)?, scan, ..task };
        let run = Run {
            task,
            stage,
            shares: placement::assigned(source.table(), &pieces, &ready),
            source,
            workers: workers.clone(),
            context: of.context.clone(),
            cancellation: of.cancellation.clone(),
            unfit: asked.unfit.clone(),
            written: None,
        };
        Ok(Some(RemoteRows { run, sequence }))
    }

    /// Has the rows written for a table of a transaction. `None` if they are written here: another commit came between, or the
    /// table's rows have an order.
    ///
    /// # Errors
    /// The statement fails, is cancelled, or lost too many workers.
    pub fn write(&self, transaction: &mut WriteTransaction, context: &WriteContext, name: &str) -> Result<Option<u64>> {
        if transaction.base().sequence() != self.sequence {
            return Ok(None);
        }
        let Some((table, numbers)) = transaction.segment_target(name)? else { return Ok(None) };
        let written = Arc::new(Written::new(table.clone(), numbers.clone(), context.division.write));
        let run = Run { written: Some(written), cancellation: context.cancellation.clone(), ..self.run.clone() };
        let cancelled = context.cancellation.cancelled();
        let done = context.runtime.block_on(async move {
            tokio::select! {
                done = run.all() => done.map_err(Error::from),
                () = cancelled => Err(Error::cancelled()),
            }
        });
        let found = done.and_then(|(batches, _)| {
            let found = batches.iter().map(segments_of).collect::<Result<Vec<_>>>()?;
            Ok(found.into_iter().flatten().collect::<Vec<_>>())
        });
        numbers.remove_others(found.as_deref().unwrap_or_default());
        Ok(Some(transaction.append_written(&table, &numbers, found?)?))
    }
}
