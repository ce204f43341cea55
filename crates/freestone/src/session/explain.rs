//! EXPLAIN, and EXPLAIN ANALYZE of statements that write. The latter executes the statement once, and shows the plan
//! that found its rows, with its counters.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{self, AnalyzeFormat, AnalyzeFormatKind, Statement};
use futures::StreamExt;

use crate::context::Outcome;
use crate::error::in_sql;
use crate::error::{Error, Result};
use crate::exec;
use crate::exec::write::PlansRun;
use crate::inputs::ArrowTable;
use crate::session::plan_tree::Format;
use crate::session::{Session, Writing};
use crate::sql::parameters::Parameters;
use crate::sql::temp_names::WriteTarget;

impl Session {
    /// EXPLAIN of a query; for INSERT, UPDATE, DELETE and CREATE TABLE AS, of the query that finds their rows.
    pub(crate) async fn explain(
        &self,
        sql: Statement,
        target: WriteTarget,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let Statement::Explain { analyze, verbose, statement, .. } = &sql else {
            return Err(Error::syntax("expected EXPLAIN"));
        };
        let is_query = matches!(**statement, Statement::Query(_));
        if !is_query && !has_rows(statement) {
            return Err(Error::unsupported("EXPLAIN of this statement is not available")
                .with_hint("EXPLAIN takes queries, INSERT, UPDATE, DELETE and CREATE TABLE … AS"));
        }
        if *analyze && !is_query {
            let format = plan_format(&sql);
            return self.analyze_write((**statement).clone(), target, format, *verbose, parameters).await;
        }
        let (analyze, format) = (*analyze, plan_format(&sql));
        let (scope, mut sql, written) = self.explained(sql, parameters.written.clone())?;
        let parameters = &Parameters { written, ..parameters.clone() };
        if let Statement::Explain { format: other @ Some(_), .. } = &mut sql
            && matches!(format_of(other.as_ref()), Some(AnalyzeFormat::TRADITIONAL))
        {
            *other = None;
        }
        let scope = scope.with_tables(&parameters.tables);
        let (Some(format), Statement::Explain { statement, .. }) = (format, &sql) else {
            return Ok(shown(self.query_in(scope, sql, parameters).await?));
        };
        let run = self.measured(scope, (**statement).clone(), parameters).await?;
        let (plan, note, began) = (run.plan.clone(), run.note.clone(), Instant::now());
        let took = match analyze {
            false => None,
            true => {
                let mut rows = run.stream()?;
                while rows.next().await.transpose()?.is_some() {}
                Some(began.elapsed())
            }
        };
        let kind = if analyze { "analyzed_plan" } else { "physical_plan" };
        let mut text = format.show(&plan, took)?;
        if let Some(note) = note.filter(|_| format == Format::Tree) {
            text.push_str(&format!("not distributed: {note}\n"));
        }
        plans(kind, &[text])
    }

    /// Executes a write, and shows the plan that found its rows.
    async fn analyze_write(
        &self,
        write: Statement,
        target: WriteTarget,
        format: Option<Format>,
        verbose: bool,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let plans_run = PlansRun::default();
        let (parameters, kept) = (parameters.clone(), plans_run.clone());
        let is_once = !parameters.tables.values().all(ArrowTable::is_in_memory);
        let began = Instant::now();
        self.write_as(Writing { plans: Some(kept), is_once, target }, move |transaction, context| {
            exec::perform(transaction, context, write.clone(), &parameters, None)
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

/// The format of our own in which a plan is asked for; `None` for those of DataFusion.
fn plan_format(sql: &Statement) -> Option<Format> {
    let Statement::Explain { verbose: false, format, .. } = sql else { return None };
    match format_of(format.as_ref()) {
        None | Some(AnalyzeFormat::TREE | AnalyzeFormat::TEXT) => Some(Format::Tree),
        Some(AnalyzeFormat::JSON) => Some(Format::Json),
        Some(_) => None,
    }
}

fn format_of(format: Option<&AnalyzeFormatKind>) -> Option<&AnalyzeFormat> {
    format.map(|format| match format {
        AnalyzeFormatKind::Keyword(format) | AnalyzeFormatKind::Assignment(format) => format,
    })
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

/// Whether a write finds its rows by a query.
fn has_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => true,
        Statement::CreateTable(ast::CreateTable { query, .. }) => query.is_some(),
        _ => false,
    }
}
