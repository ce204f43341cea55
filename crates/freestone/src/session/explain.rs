//! EXPLAIN, and EXPLAIN ANALYZE of statements that write. The latter executes the statement once, and shows the plan
//! that found its rows, with its counters.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::format::ExplainFormat;
use datafusion::logical_expr::{ExplainOption, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::catalog::Scope;
use crate::context::Outcome;
use crate::error::Result;
use crate::error::in_sql;
use crate::exec;
use crate::exec::described::DescribedWrite;
use crate::exec::write::PlansRun;
use crate::inputs::ArrowTable;
use crate::session::plan_tree::Format;
use crate::session::{OneRun, Session, Writing, shown_rows};
use crate::sql::command::{Explained, Explanation};
use crate::sql::parameters::Parameters;
use crate::sql::temp_names::WriteTarget;

impl Session {
    /// EXPLAIN of a query; for INSERT, UPDATE, DELETE and CREATE TABLE AS, of the query that finds their rows.
    pub(crate) async fn explain(
        &self,
        explanation: Explanation,
        target: WriteTarget,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let format = explanation.own_format();
        if explanation.analyze && !matches!(explanation.what, Explained::Query) {
            return self.analyze_write(explanation, target, parameters).await;
        }
        let (scope, parameters) = self.query_of_explained(parameters)?;
        let scope = scope.with_tables(&parameters.tables);
        let Some(format) = format else {
            return self.explained_by_planner(scope, &explanation, &parameters).await;
        };
        let run = self.measured(scope, &parameters).await?;
        let (plan, note, began) = (run.plan.clone(), run.note.clone(), Instant::now());
        let took = match explanation.analyze {
            false => None,
            true => {
                let mut rows = run.stream()?;
                while rows.next().await.transpose()?.is_some() {}
                Some(began.elapsed())
            }
        };
        let kind = if explanation.analyze { "analyzed_plan" } else { "physical_plan" };
        let mut text = format.show(&plan, took)?;
        if let Some(note) = note.filter(|_| format == Format::Tree) {
            text.push_str(&format!("not distributed: {note}\n"));
        }
        plans(kind, &[text])
    }

    /// The query that is explained, in its scope: of a statement that changes rows, that which finds them.
    fn query_of_explained(&self, parameters: &Parameters) -> Result<(Scope, Parameters)> {
        let (scope, written) = (self.scope()?, parameters.written()?);
        if written.write().is_err() {
            return Ok((scope, parameters.clone()));
        }
        let (scope, rows) = DescribedWrite::of(&self.planner(), &scope.snapshot, written)?.rows;
        Ok((scope, parameters.of_part(written.with_query(rows.query))))
    }

    /// A plan in the words of the library that runs it: all of its stages, or a graph.
    async fn explained_by_planner(
        &self,
        scope: Scope,
        explanation: &Explanation,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let option = ExplainOption::default().with_verbose(explanation.verbose).with_analyze(explanation.analyze);
        let option = match explanation.format.as_deref() {
            Some("graphviz") => option.with_format(ExplainFormat::Graphviz),
            _ => option,
        };
        let parameters = parameters.clone();
        let run = self.plan_apart(move |planner, cancellation| async move {
            let (state, plan) = planner.plan_query(&scope, &parameters).await?;
            let plan = LogicalPlanBuilder::from(plan).explain_option_format(option)?.build()?;
            OneRun::plan(&state, &plan, &cancellation).await
        });
        let rows = run.await?.stream()?;
        Ok(shown(shown_rows(rows, self.planner().settings().config_options())))
    }

    /// Executes a write, and shows the plan that found its rows.
    async fn analyze_write(
        &self,
        explanation: Explanation,
        target: WriteTarget,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let (format, verbose) = (explanation.own_format(), explanation.verbose);
        let plans_run = PlansRun::default();
        let (parameters, kept) = (parameters.clone(), plans_run.clone());
        let is_once = !parameters.tables.values().all(ArrowTable::is_in_memory);
        let (definition, target) = match explanation.what {
            Explained::Table => {
                let (definition, target) = self.resolved_definition(parameters.written()?)?;
                (Some(definition), target)
            }
            Explained::Query | Explained::Write => (None, target),
        };
        let began = Instant::now();
        let writing = Writing { plans: Some(kept), is_once, target, ..Writing::default() };
        self.write_as(writing, move |transaction, context| match &definition {
            Some(definition) => exec::define(transaction, context, definition, &parameters),
            None => exec::perform_write(transaction, context, &parameters),
        })
        .await?;
        let took = began.elapsed();
        let plans_run = plans_run.lock();
        let show = |plan: &Arc<dyn ExecutionPlan>| match format {
            Some(format) => Ok(format.show(plan, Some(took))?),
            None => Ok(in_sql(&DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(verbose).to_string())),
        };
        let shown: Vec<String> = match plans_run.as_slice() {
            [] => vec!["no query was needed to find the rows\n".to_owned()],
            plans => plans.iter().map(show).collect::<Result<_>>()?,
        };
        plans("analyzed_plan", &shown)
    }
}

impl Explanation {
    /// The format of our own in which a plan is asked for; `None` for those of the planner.
    fn own_format(&self) -> Option<Format> {
        match self.format.as_deref() {
            _ if self.verbose => None,
            None | Some("tree" | "text") => Some(Format::Tree),
            Some("json") => Some(Format::Json),
            Some(_) => None,
        }
    }

    /// The columns of its rows.
    pub(super) fn schema(&self) -> SchemaRef {
        let text = if self.own_format().is_some() { DataType::Utf8View } else { DataType::Utf8 };
        let column = |name: &str| Field::new(name, text.clone(), false);
        Arc::new(Schema::new(vec![column("plan_type"), column("plan")]))
    }
}

/// Plans as rows.
fn plans(kind: &str, shown: &[String]) -> Result<Outcome> {
    let schema = Schema::new(vec![
        Field::new("plan_type", DataType::Utf8View, false),
        Field::new("plan", DataType::Utf8View, false),
    ]);
    let kinds: StringViewArray = shown.iter().map(|_| Some(kind)).collect();
    let texts: StringViewArray = shown.iter().map(Some).collect();
    Ok(Outcome::batch(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(kinds), Arc::new(texts)])?))
}

/// Plans with types and literals as they are written in SQL.
fn shown(plans: Outcome) -> Outcome {
    let Outcome::Rows { schema, stream } = plans else { return plans };
    let stream = stream.map(|batch| {
        let batch = batch?;
        let columns = batch.columns().iter().map(|column| match column.as_string_opt::<i32>() {
            Some(texts) => Arc::new(texts.iter().map(|text| text.map(in_sql)).collect::<StringArray>()) as ArrayRef,
            None => column.clone(),
        });
        Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
    });
    Outcome::Rows { schema: schema.clone(), stream: Box::pin(RecordBatchStreamAdapter::new(schema, stream)) }
}
