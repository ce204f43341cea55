//! The point statements that a session has recognized, and their execution.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use freestone_store::WriteTransaction;

use crate::context::{Outcome, guarded_now};
use crate::error::{Error, Result};
use crate::exec;
use crate::exec::write::WriteContext;
use crate::inputs::Inputs;
use crate::internal_names::is_temporary;
use crate::point::{self, Point};
use crate::session::{Session, Writing, parameters_of, shown_rows};
use crate::sql::names;
use crate::sql::parameters::{self, Parameters};
use crate::sql::statement::Statement;
use crate::sql::temp_names::WriteTarget;
use crate::sql::written::Written;
use crate::{settings, times};

/// Longer texts are not kept.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The maximum number of texts. When it is exceeded, all are removed.
const TEXTS: usize = 256;
/// A text for whose parameters more combinations of types come is no longer tried.
const VARIANTS: usize = 8;

/// What a session knows about the statements that it has executed with parameters, by their texts.
#[derive(Default)]
pub(crate) struct Points {
    by_text: HashMap<Arc<str>, Vec<Known>>,
}

/// A statement for values of some types.
enum Known {
    Point(Arc<Point>),
    Other(Vec<DataType>),
    /// It came once, with literals. Recognizing it pays if it comes again.
    Once(Vec<DataType>),
}

/// A statement as the session knows it: with the values of its parameters, or those that its literals stand for.
pub(crate) struct Form<'s> {
    pub text: Cow<'s, str>,
    pub given: Cow<'s, Parameters>,
    /// Whether the text is another than that of the statement.
    pub is_lifted: bool,
}

impl Known {
    fn is_for(&self, types: &[DataType]) -> bool {
        match self {
            Known::Point(point) => point.is_for(types),
            Known::Other(others) | Known::Once(others) => others == types,
        }
    }
}

impl Points {
    /// Forgets all statements, for example after a change of settings.
    pub fn clear(&mut self) {
        self.by_text.clear();
    }

    fn find(&self, text: &str, types: &[DataType]) -> Option<&Known> {
        self.by_text.get(text)?.iter().find(|known| known.is_for(types))
    }

    fn keep(&mut self, text: &str, types: &[DataType], known: Known) {
        if self.by_text.len() >= TEXTS && !self.by_text.contains_key(text) {
            self.clear();
        }
        let all = self.by_text.entry(text.into()).or_default();
        all.retain(|known| !known.is_for(types));
        all.push(known);
    }

    /// Whether to recognize a statement now.
    fn may_try(&mut self, form: &Form, types: &[DataType]) -> bool {
        let text = &*form.text;
        let tried = self.by_text.get(text).map_or(0, Vec::len);
        if text.len() > TEXT_BYTES_MAX || tried >= VARIANTS {
            return false;
        }
        match self.find(text, types) {
            None if form.is_lifted => {
                self.keep(text, types, Known::Once(types.to_vec()));
                false
            }
            None | Some(Known::Once(_)) => true,
            Some(_) => false,
        }
    }
}

impl Session {
    /// Executes a statement that was recognized before; `None` if it was not, or does not fit.
    pub(crate) async fn execute_known(&self, text: &str, given: &Parameters) -> Result<Option<Outcome>> {
        let Some((point, values)) = self.known_point(text, given)? else { return Ok(None) };
        self.execute_point(point, values, given).await
    }

    /// The form in which the session may know a statement. `None` if it has neither parameters nor literals.
    pub(crate) fn form<'s>(&self, statement: &'s Statement, given: &'s Parameters) -> Option<Form<'s>> {
        if !given.tables.is_empty() {
            return None;
        }
        if !given.values.is_empty() {
            let (text, given) = (Cow::Borrowed(statement.text.as_str()), Cow::Borrowed(given));
            return Some(Form { text, given, is_lifted: false });
        }
        let (text, values) = statement.lifted()?;
        if settings::logs_literals(self.planner.read().settings()) {
            return None;
        }
        let given = Cow::Owned(Parameters { values, ..Parameters::default() });
        Some(Form { text: Cow::Owned(text), given, is_lifted: true })
    }

    /// Tries to recognize a statement that was read, and executes it if it is a point statement.
    pub(crate) async fn execute_new_point(
        &self,
        form: Option<Form<'_>>,
        parameters: &Parameters,
    ) -> Result<Option<Outcome>> {
        let written = parameters.written()?;
        let Some(form) = form.filter(|form| !form.given.values.is_empty() && point::is_candidate(written)) else {
            return Ok(None);
        };
        let Form { text, given, is_lifted } = &form;
        let values = parameters::converted(&given.values, &given.types)?;
        let types: Vec<DataType> = values.iter().map(ScalarValue::data_type).collect();
        if !self.points.lock().may_try(&form, &types) {
            return Ok(None);
        }
        let known = if *is_lifted { Arc::new(Written::new(text)) } else { written.clone() };
        let point = self.recognized(written, known, &types).await;
        let known = point.clone().map_or_else(|| Known::Other(types.clone()), Known::Point);
        self.points.lock().keep(text, &types, known);
        match point {
            Some(point) => self.execute_point(point, values, given).await,
            None => Ok(None),
        }
    }

    /// What cannot be planned here is not executed here: the error is reported when the statement is planned.
    async fn recognized(&self, given: &Written, known: Arc<Written>, types: &[DataType]) -> Option<Arc<Point>> {
        let scope = self.scope().ok()?;
        let logged = given.query().ok();
        let logged = logged.and_then(|(query, _)| settings::logged_query(self.planner().settings(), query));
        let types = types.to_vec();
        let recognized = self.plan_apart(move |planner, _| async move {
            if known.numbers().count() != types.len() {
                return Ok(None);
            }
            point::recognize(&planner, scope, known, &types, logged).await
        });
        recognized.await.ok().flatten().map(Arc::new)
    }

    /// The statement of this text, with its values in their types.
    fn known_point(&self, text: &str, given: &Parameters) -> Result<Option<(Arc<Point>, Vec<ScalarValue>)>> {
        if given.values.is_empty() || !given.tables.is_empty() || !self.points.lock().by_text.contains_key(text) {
            return Ok(None);
        }
        let values = parameters::converted(&given.values, &given.types)?;
        let types: Vec<DataType> = values.iter().map(ScalarValue::data_type).collect();
        match self.points.lock().find(text, &types) {
            Some(Known::Point(point)) => Ok(Some((point.clone(), values))),
            _ => Ok(None),
        }
    }

    async fn execute_point(
        &self,
        point: Arc<Point>,
        values: Vec<ScalarValue>,
        given: &Parameters,
    ) -> Result<Option<Outcome>> {
        if !point.is_query() {
            return self.write_point(point, values, given.clone()).await.map(Some);
        }
        self.query_point(&point, &values)
    }

    fn query_point(&self, point: &Point, values: &[ScalarValue]) -> Result<Option<Outcome>> {
        let Some(schema) = point.schema().cloned() else { return Ok(None) };
        let (workload, lookups) = (self.database.workload(), self.database.lookups());
        let rows = point.query(&*self.snapshot()?, values, workload, lookups)?;
        Ok(rows.map(|rows| self.shown_batches(schema, rows)))
    }

    /// Executes a query on this thread and without waiting, if it is a point statement that the session has executed
    /// before; `None` if not. Its rows are there at once.
    pub fn execute_now(&self, statement: &Statement, inputs: &Inputs) -> Option<Result<Outcome>> {
        self.check_transaction(false).ok()?;
        let (point, values) = self.known_now(statement, inputs)?;
        if !point.is_query() {
            return None;
        }
        let failed = self.transaction_failure();
        let outcome = guarded_now(|| self.query_point(&point, &values)).transpose()?;
        Some(self.told(outcome, failed, Outcome::telling))
    }

    /// The same on a thread that should not wait for the disk: lookups are left to others for a while after one that had to
    /// read. Also executes statements that begin a transaction or set a savepoint.
    pub fn execute_from_memory(&self, statement: &Statement, inputs: &Inputs) -> Option<Result<Outcome>> {
        if let Some(done) = self.transaction_now(statement) {
            return Some(done);
        }
        if self.database().lookups().may_read() { None } else { self.execute_now(statement, inputs) }
    }

    /// Whether a statement is a change of rows that the session has executed before as a point statement.
    pub fn knows_change(&self, statement: &Statement, inputs: &Inputs) -> bool {
        self.known_now(statement, inputs).is_some_and(|(point, _)| !point.is_query())
    }

    /// The columns of a statement's rows, as [`Session::schema`] returns them, if the session knows them already.
    pub fn schema_now(&self, statement: &Statement, inputs: &Inputs) -> Option<Option<SchemaRef>> {
        let (point, _) = self.known_now(statement, inputs)?;
        point.table(&*self.snapshot().ok()?)?;
        Some(point.schema().map(|schema| self.shown_schema(schema)))
    }

    fn known_now(&self, statement: &Statement, inputs: &Inputs) -> Option<(Arc<Point>, Vec<ScalarValue>)> {
        if !inputs.values.is_empty() && !self.points.lock().by_text.contains_key(statement.text.as_str()) {
            return None;
        }
        let given = parameters_of(statement, inputs.clone()).ok()?;
        let form = self.form(statement, &given)?;
        self.known_point(&form.text, &form.given).ok()?
    }

    fn shown_schema(&self, schema: &SchemaRef) -> SchemaRef {
        times::shown_schema(names::shown(schema.clone()), self.planner().settings().config_options())
    }

    fn shown_batches(&self, schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome {
        let stream = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(schema, stream));
        shown_rows(stream, self.planner().settings().config_options())
    }

    async fn write_point(&self, point: Arc<Point>, values: Vec<ScalarValue>, given: Parameters) -> Result<Outcome> {
        let is_temporary = is_temporary(point.table_name());
        let work = move |transaction: &mut WriteTransaction, context: &WriteContext| {
            if let Some(outcome) = point.write(transaction, context, &values)? {
                return Ok(outcome);
            }
            let given = Parameters { written: Some(point.written().clone()), ..given.clone() };
            exec::perform_write(transaction, context, &given)
        };
        let target = WriteTarget::of_rows(is_temporary);
        self.write_as(Writing { target, ..Writing::default() }, work).await
    }

    /// The columns of a query's rows for users, if the query was recognized and its table is the same.
    pub(crate) fn known_schema(&self, form: &Form) -> Result<Option<SchemaRef>> {
        let Some((point, _)) = self.known_point(&form.text, &form.given)? else { return Ok(None) };
        let Some(schema) = point.schema() else { return Ok(None) };
        if point.table(&*self.snapshot()?).is_none() {
            return Ok(None);
        }
        Ok(Some(self.shown_schema(schema)))
    }

    /// Whether a statement is a point statement in one of its forms; see [`Session::knows_text`].
    pub(crate) fn knows(&self, statement: &Statement) -> bool {
        self.knows_text(&statement.text) || statement.lifted().is_some_and(|(text, _)| self.knows_text(&text))
    }

    /// Whether a text is that of a point statement, which names one table and nothing else, and the table exists.
    pub(crate) fn knows_text(&self, text: &str) -> bool {
        let point = self.points.lock().by_text.get(text).and_then(|known| {
            known.iter().find_map(|known| match known {
                Known::Point(point) => Some(point.clone()),
                Known::Other(_) | Known::Once(_) => None,
            })
        });
        point.is_some_and(|point| self.snapshot().is_ok_and(|snapshot| point.table(&snapshot).is_some()))
    }

    /// The row of a table with these values in the columns of its primary key, without SQL; `None` if there is none.
    ///
    /// # Errors
    /// There is no such table, it has no primary key or one of other columns, or it cannot be read.
    pub fn lookup(&self, table: &str, key: &[ScalarValue]) -> Result<Option<RecordBatch>> {
        let snapshot = self.snapshot()?;
        let names = || snapshot.tables().map(|table| table.name.as_str());
        let table = &self.temp.resolved(&snapshot, table);
        let table = snapshot.table(table).ok_or_else(|| Error::not_found("table", table, names()))?;
        // A key that is only declared may have several rows.
        Ok(point::lookup(table, key)?.into_iter().find(|rows| rows.num_rows() > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Database;
    use crate::options::Options;

    async fn session() -> Session {
        let session = Database::in_memory(Options::default()).expect("a database").session();
        for sql in [
            "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, s VARCHAR)",
            "CREATE TABLE pair (b INT, c VARCHAR, d INT, UNIQUE (b, c))",
            "CREATE VIEW v AS SELECT * FROM t",
            "INSERT INTO t VALUES (1, 10, 'x'), (2, 20, NULL)",
        ] {
            session.sql(sql).await.expect(sql);
        }
        session
    }

    async fn run(session: &Session, sql: &str, values: &[ScalarValue]) -> Outcome {
        let statement = session.prepare(sql).await.expect(sql);
        session.execute_with(&statement, values.to_vec()).await.expect(sql)
    }

    fn int(value: i64) -> ScalarValue {
        ScalarValue::Int64(Some(value))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn statements_that_fix_a_key_are_recognized() {
        let session = session().await;
        let text = || ScalarValue::from("x");
        for (sql, values, expected) in [
            ("SELECT * FROM t WHERE id = $1", vec![int(1)], true),
            ("SELECT s, t.id AS k, id FROM public.t WHERE $1 = id AND s = $2", vec![int(1), text()], true),
            ("SELECT x.a FROM t AS x WHERE x.id = ?", vec![ScalarValue::Int16(Some(1))], true),
            ("INSERT INTO t VALUES ($1, $2, NULL)", vec![int(7), int(8)], true),
            ("INSERT INTO t (s, id) VALUES ($1, $2)", vec![text(), int(9)], true),
            ("UPDATE t SET a = a + $1, s = $2 WHERE id = $3", vec![int(1), text(), int(2)], true),
            ("DELETE FROM t WHERE id = $1", vec![int(9)], true),
            ("SELECT d FROM pair WHERE b = $1 AND c = $2", vec![int(1), text()], true),
            ("SELECT d FROM pair WHERE b = $1", vec![int(1)], false),
            ("SELECT a FROM t WHERE id = $1", vec![ScalarValue::Float64(Some(1.0))], false),
            ("SELECT a FROM t WHERE id = $1 + 1", vec![int(1)], false),
            ("SELECT a FROM t WHERE id = $1 OR a = $1", vec![int(1)], false),
            ("SELECT a + 1 FROM t WHERE id = $1", vec![int(1)], false),
            ("SELECT a FROM v WHERE id = $1", vec![int(1)], false),
            ("SELECT a FROM t WHERE id = $1 LIMIT 1", vec![int(1)], false),
            ("SELECT count(*) FROM t WHERE id = $1", vec![int(1)], false),
            ("UPDATE t SET s = upper($1) WHERE id = $2", vec![text(), int(2)], false),
            ("INSERT INTO t VALUES ($1, $2 + 1, NULL)", vec![int(11), int(8)], false),
            ("INSERT INTO t VALUES ($1, $2, NULL) RETURNING *, id AS k", vec![int(12), int(8)], true),
            ("INSERT INTO t VALUES ($1, $2, NULL) RETURNING a + 1", vec![int(13), int(8)], false),
            ("UPDATE t SET a = $1 WHERE id = $2 RETURNING s, a", vec![int(1), int(2)], true),
            ("DELETE FROM t WHERE id = $1 RETURNING *", vec![int(12)], true),
            ("INSERT INTO t VALUES ($1, $2, true) ON CONFLICT DO NOTHING", vec![int(1), int(8)], true),
            (
                "INSERT INTO t VALUES ($1, $2, NULL) ON CONFLICT (id) DO UPDATE SET a = t.a + excluded.a, s = $3 RETURNING a",
                vec![int(1), int(8), text()],
                true,
            ),
            (
                "INSERT INTO t VALUES ($1, $2, NULL) ON CONFLICT (id) DO UPDATE SET a = 0 WHERE t.a > 5",
                vec![int(1), int(8)],
                false,
            ),
        ] {
            run(&session, sql, &values).await;
            let statement = session.parse(sql).expect(sql).remove(0);
            assert_eq!(session.knows_text(&statement.text), expected, "{sql}");
        }
        let statement = session.parse("SELECT x.a FROM t AS x WHERE x.id = ?").expect("parses").remove(0);
        let inputs = |value| Inputs { values: vec![value], ..Inputs::default() };
        let now = session.execute_now(&statement, &inputs(ScalarValue::Int16(Some(2)))).expect("known").expect("works");
        assert_eq!(now.collect().await.expect("rows")[0].num_rows(), 1);
        assert!(session.execute_now(&statement, &inputs(int(2))).is_none(), "another type");
        assert!(matches!(session.schema_now(&statement, &inputs(ScalarValue::Int16(None))), Some(Some(_))));
        run(&session, "SET lock_timeout = 5", &[]).await;
        assert!(!session.knows_text("SELECT * FROM t WHERE id = $1"), "settings changed");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn statements_that_differ_in_literals_are_one() {
        let session = session().await;
        for (sql, again, expected) in [
            ("SELECT s FROM t WHERE id = 1", "select s FROM t WHERE id = 1", false),
            ("SELECT s FROM t WHERE id = 1", "SELECT s FROM t  WHERE id =  -7", true),
            ("UPDATE t SET a = a + 1, s = 'x' WHERE id = 1", "UPDATE t SET a = a + 2, s = '' WHERE id = 2", true),
            ("INSERT INTO t VALUES (5, 6, 'y')", "INSERT INTO t VALUES (7, -8, 'z')", true),
            ("INSERT INTO t VALUES (8, 6, 1.5)", "INSERT INTO t VALUES (9, -8, 2.5)", false),
            ("DELETE FROM t WHERE id = 5 RETURNING *", "DELETE FROM t WHERE id = 7 RETURNING *", true),
        ] {
            run(&session, sql, &[]).await;
            run(&session, again, &[]).await;
            let statement = session.parse(again).expect(again).remove(0);
            assert_eq!(session.knows(&statement), expected, "{again}");
        }
        let statement = session.parse("SELECT s FROM t WHERE id = 2").expect("parses").remove(0);
        let now = session.execute_now(&statement, &Inputs::default()).expect("known").expect("works");
        assert_eq!(now.collect().await.expect("rows")[0].num_rows(), 1);
        assert!(matches!(session.schema_now(&statement, &Inputs::default()), Some(Some(_))));
        run(&session, "SET workload = 'literals'", &[]).await;
        for id in [1, 2, 1] {
            run(&session, &format!("SELECT s FROM t WHERE id = {id}"), &[]).await;
        }
        assert!(!session.knows(&statement), "each text is logged");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_altered_table_is_planned_again() {
        let session = session().await;
        let query = "SELECT * FROM t WHERE id = $1";
        let columns = |outcome: Outcome| match outcome {
            Outcome::Rows { schema, .. } => schema.fields().len(),
            _ => 0,
        };
        assert_eq!(columns(run(&session, query, &[int(1)]).await), 3);
        run(&session, "DROP VIEW v", &[]).await;
        run(&session, "DROP TABLE t", &[]).await;
        let statement = session.parse(query).expect(query).remove(0);
        assert!(session.execute_with(&statement, vec![int(1)]).await.is_err());
        run(&session, "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT)", &[]).await;
        assert_eq!(columns(run(&session, query, &[int(1)]).await), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lookups_return_the_row_of_a_key() {
        let session = session().await;
        let row = session.lookup("t", &[int(2)]).expect("works").expect("a row");
        assert_eq!((row.num_rows(), row.num_columns()), (1, 3));
        assert!(session.lookup("t", &[int(3)]).expect("works").is_none());
        assert!(session.lookup("t", &[ScalarValue::Int64(None)]).expect("works").is_none());
        assert!(session.lookup("pair", &[int(3)]).is_err());
        assert!(session.lookup("t", &[ScalarValue::from("x")]).is_err());
        assert!(session.lookup("none", &[int(3)]).is_err());
        assert!(
            session.prepare("SELECT nothing FROM t").await.is_err()
                && session.prepare("SELECT 1; SELECT 2").await.is_err()
        );
    }
}
