//! The plan cache of a session. Planning a star join takes as long as running it on a small input, so plans of repeated
//! queries are cached.
//!
//! A plan is cached before its dynamic filters are created, because these connect joins to the scans below them and are
//! valid for a single run. So each run gets a copy of the plan, to which the last optimizer rules are applied. A cached
//! plan pins no files. After a commit it remains valid if the meaning of all names in the query, and the tables to
//! which they refer, did not change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use freestone_store::{Object, Snapshot, Table};

use crate::catalog::Scope;
use crate::cluster::{Asked, Distributed, RunState, Workers, distributed};
use crate::context::Cancellation;
use crate::definitions;
use crate::optimizer::physical;
use crate::optimizer::repeatable::{has_relative_texts, is_repeatable};
use crate::planning;
use crate::provider::{FreestoneSource, with_sources};
use crate::shared;
use crate::sql::parameters::Parameters;

/// The maximum number of plans of a session. When it is exceeded, all are removed.
const PLANS: usize = 256;
/// Larger plans are not kept.
const PLAN_BYTES_MAX: usize = 4 << 20;
/// The plans of all sessions take at most this part of the memory limit.
const LIMIT_SHARE: usize = 16;
/// The bytes of all kept plans where there is no limit.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The memory of the plans that all sessions of a database keep.
#[derive(Debug)]
pub(crate) struct KeptPlans {
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl KeptPlans {
    pub fn new(memory_limit: Option<usize>) -> Arc<KeptPlans> {
        let bytes_max = memory_limit.map_or(KEPT_BYTES_MAX, |limit| (limit / LIMIT_SHARE).min(KEPT_BYTES_MAX));
        Arc::new(KeptPlans { bytes: AtomicUsize::new(0), bytes_max })
    }

    /// Counts a plan, if there is room for it.
    fn add(&self, bytes: usize) -> bool {
        let fits = |all: usize| all.checked_add(bytes).filter(|all| *all <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// The plans of one session.
#[derive(Debug)]
pub(crate) struct Plans {
    /// The edition of the snapshot for which they are valid.
    edition: (u64, u64),
    by_query: HashMap<String, CachedPlan>,
    /// The bytes of these plans, as they are counted in those of all sessions.
    bytes: usize,
    of_all: Arc<KeptPlans>,
}

/// A plan before its dynamic filters.
#[derive(Debug, Clone)]
pub(crate) struct CachedPlan {
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// The text of the query for the workload log; `None` if it is not logged.
    logged: Option<Arc<str>>,
    basis: Basis,
    /// How workers are asked the query, if its result depends only on the database.
    asked: Option<Arc<Asked>>,
    /// What planning left behind in memory, and the text.
    bytes: usize,
}

/// The meaning of names when a plan was made.
#[derive(Debug, Clone)]
struct Basis {
    names: Arc<[(String, Meaning)]>,
    /// The macros and types.
    objects: Arc<[Arc<Object>]>,
    /// The materialized views that read one of the tables, with their tables.
    views: Arc<[(Arc<Object>, Arc<Table>)]>,
}

/// The meaning of a name in one snapshot, which is equal as long as no commit changes it.
#[derive(Debug)]
struct Meaning {
    table: Option<Arc<Table>>,
    copies: Vec<Arc<Table>>,
    /// The view, or the generated columns.
    object: Option<Arc<Object>>,
}

impl Meaning {
    fn of(name: &str, snapshot: &Snapshot) -> Meaning {
        let table = snapshot.table(name).cloned();
        let copies = table.iter().flat_map(|table| snapshot.copies(table)).cloned().collect();
        // Its generated columns are a part of what a table means.
        let object = snapshot.view(name).or_else(|| definitions::generated_object(snapshot, name));
        Meaning { table, copies, object: object.cloned() }
    }

    fn is_same(&self, other: &Meaning) -> bool {
        let same_table = match (&self.table, &other.table) {
            (Some(table), Some(other)) => Arc::ptr_eq(table, other),
            (None, None) => true,
            _ => false,
        };
        let mut copies = self.copies.iter().zip(&other.copies);
        let same_copies =
            self.copies.len() == other.copies.len() && copies.all(|(copy, other)| Arc::ptr_eq(copy, other));
        same_table && same_copies && self.object == other.object
    }
}

impl Basis {
    /// The meaning of the names that planning resolved, and of the tables to which foreign keys lead.
    fn of(names: BTreeSet<String>, snapshot: &Snapshot) -> Basis {
        let mut waiting: Vec<String> = names.into_iter().collect();
        let mut meanings: BTreeMap<String, Meaning> = BTreeMap::new();
        while let Some(name) = waiting.pop() {
            if meanings.contains_key(&name) {
                continue;
            }
            let meaning = Meaning::of(&name, snapshot);
            let keys = meaning.table.iter().flat_map(|table| &table.schema.foreign_keys);
            waiting.extend(keys.map(|key| key.table.clone()));
            meanings.insert(name, meaning);
        }
        let objects = definitions::macros_and_types(snapshot).cloned().collect();
        let (names, views) = (meanings.into_iter().collect::<Arc<[_]>>(), Arc::default());
        let basis = Basis { names, objects, views };
        Basis { views: basis.views_on(snapshot).collect(), ..basis }
    }

    /// The materialized views that read one of the tables, which may be read instead.
    fn views_on(&self, snapshot: &Snapshot) -> impl Iterator<Item = (Arc<Object>, Arc<Table>)> {
        let views = definitions::materialized_views(snapshot);
        let reads = |view: &Table, id: &u64| view.computed_from.as_ref().is_some_and(|of| of.contains_key(id));
        let tables = || self.names.iter().filter_map(|(_, meaning)| meaning.table.as_ref());
        let is_on = move |view: &Table| tables().any(|table| reads(view, &table.id));
        views.filter(move |(view, ..)| is_on(view)).map(|(table, object, _)| (object.clone(), table.clone()))
    }

    fn holds_in(&self, snapshot: &Snapshot) -> bool {
        let is_same = |view: &(Arc<Object>, Arc<Table>), other: &(Arc<Object>, Arc<Table>)| {
            view.0 == other.0 && Arc::ptr_eq(&view.1, &other.1)
        };
        let now: Vec<_> = self.views_on(snapshot).collect();
        definitions::macros_and_types(snapshot).eq(self.objects.iter())
            && now.len() == self.views.len()
            && now.iter().zip(&*self.views).all(|(now, kept)| is_same(now, kept))
            && self.names.iter().all(|(name, meaning)| meaning.is_same(&Meaning::of(name, snapshot)))
    }
}

/// By what a plan is found: the text of its query with the types and values of its parameters.
pub(crate) fn key(text: &str, parameters: &Parameters) -> String {
    match parameters.values.is_empty() && parameters.types.is_empty() {
        true => text.to_owned(),
        false => format!("{text} {:?} {:?}", parameters.types, parameters.values),
    }
}

impl Plans {
    pub fn new(of_all: Arc<KeptPlans>) -> Plans {
        Plans { edition: (0, 0), by_query: HashMap::new(), bytes: 0, of_all }
    }

    /// A copy for one run of the cached plan of a query, if it is valid for this snapshot.
    pub fn find(&mut self, query: &str, snapshot: &Snapshot) -> Result<Option<CachedPlan>> {
        self.renew(snapshot);
        let copy = |kept: &CachedPlan| Ok(CachedPlan { plan: reset_plan_states(kept.plan.clone())?, ..kept.clone() });
        self.by_query.get(query).map(copy).transpose()
    }

    /// Removes the plans that are not valid for a snapshot.
    fn renew(&mut self, snapshot: &Snapshot) {
        if self.edition != snapshot.edition() {
            self.by_query.retain(|_, kept| kept.basis.holds_in(snapshot));
            self.edition = snapshot.edition();
            self.count_again();
        }
    }

    /// Whether there is a plan of a query, for some snapshot.
    pub fn may_have(&self, query: &str) -> bool {
        self.by_query.contains_key(query)
    }

    /// Caches a plan of a snapshot.
    pub fn keep(&mut self, query: String, snapshot: &Snapshot, plan: CachedPlan) {
        let bytes = plan.bytes.saturating_add(query.len());
        self.renew(snapshot);
        if bytes > PLAN_BYTES_MAX {
            return;
        }
        if self.by_query.len() >= PLANS {
            self.clear();
        }
        if !self.of_all.add(bytes) {
            self.clear();
            if !self.of_all.add(bytes) {
                return;
            }
        }
        self.bytes += bytes;
        self.by_query.insert(query, CachedPlan { bytes, ..plan });
    }

    /// Gives back the memory of plans that were forgotten.
    fn count_again(&mut self) {
        let bytes = self.by_query.values().map(|plan| plan.bytes).sum::<usize>().min(self.bytes);
        self.of_all.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Removes all plans, for example after a change of settings.
    pub fn clear(&mut self) {
        self.by_query.clear();
        self.count_again();
    }
}

impl Drop for Plans {
    fn drop(&mut self) {
        self.clear();
    }
}

impl CachedPlan {
    /// Plans a query up to its dynamic filters. Also returns whether its result depends only on its tables.
    pub async fn new(
        state: &SessionState,
        logical: &LogicalPlan,
        logged: Option<Arc<str>>,
        scope: &Scope,
    ) -> Result<(CachedPlan, bool)> {
        let plan = state.create_physical_plan(logical).await?;
        let lasting = is_repeatable(logical)? && !has_relative_texts(logical)? && reads_tables_only(&plan)?;
        let plan = with_sources(plan, |source| Some(source.detached()))?;
        let basis = Basis::of(scope.asked_names(), &scope.snapshot);
        let context = state.task_ctx();
        Ok((CachedPlan { plan, context, logged, basis, asked: None, bytes: planning::taken() }, lasting))
    }

    /// The same plan of a query that workers may be asked.
    pub fn of_query(self, text: &str, parameters: &Parameters) -> CachedPlan {
        let is_plain = parameters.types.is_empty() && parameters.tables.is_empty();
        let asked = || Arc::new(Asked::new(text, parameters.values.clone()));
        CachedPlan { asked: is_plain.then(asked), ..self }
    }

    /// How workers are asked the query, if they may be.
    pub fn asked(&self) -> Option<&Asked> {
        self.asked.as_deref()
    }

    /// Whether workers may be asked the query.
    pub fn is_of_database(&self) -> bool {
        self.asked.is_some()
    }

    /// The cached plan.
    pub fn plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    pub fn logged(&self) -> Option<&Arc<str>> {
        self.logged.as_ref()
    }

    /// What runs a part of the plan.
    pub fn context(&self) -> &Arc<TaskContext> {
        &self.context
    }

    /// The plan for one run, on a snapshot for which it is valid, of which the workers run parts. `measures`: whether its
    /// operators count their rows and their time.
    pub fn start(
        &self,
        snapshot: &Arc<Snapshot>,
        cancellation: &Cancellation,
        workers: Option<&Arc<dyn Workers>>,
        measures: bool,
    ) -> Result<Distributed> {
        let plan = with_sources(self.plan.clone(), |source| Some(source.attached(snapshot)))?;
        let options = self.context.session_config().options();
        let of = RunState { context: &self.context, snapshot, cancellation };
        let Distributed { plan, note } = match workers {
            Some(workers) => distributed(plan, self.asked.as_deref(), workers, &of)?,
            None => Distributed { plan, note: None },
        };
        Ok(Distributed { plan: physical::for_run(plan, options, cancellation, measures)?, note })
    }
}

/// Whether a plan, including its shared queries, only reads native tables, which do not change within a snapshot.
fn reads_tables_only(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut only = true;
    plan.apply(|node| {
        let source = FreestoneSource::of(node);
        let is_constant = node.is::<PlaceholderRowExec>() || node.is::<EmptyExec>();
        only &= !node.children().is_empty() || is_constant || source.is_some() || shared::is_scan(node);
        // An earlier version may be gone the next time.
        only &= source.is_none_or(|source| !source.is_past());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(only)
}

#[cfg(test)]
mod tests {
    use crate::database::Database;
    use crate::options::Options;
    use crate::session::Session;

    async fn rows(session: &Session, sql: &str) -> Vec<String> {
        let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1)))).collect()
    }

    fn has(session: &Session, query: &str) -> bool {
        session.plans.lock().by_query.keys().any(|key| key.starts_with(query))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn plans_survive_commits_that_change_nothing_of_theirs() {
        let session = Database::in_memory(Options::default()).expect("a database").session();
        let run = |sql: &'static str| {
            let session = &session;
            async move { rows(session, sql).await }
        };
        run("CREATE TABLE t (a INT) WITH (design = 'row')").await;
        run("CREATE TABLE u (a INT)").await;
        run("INSERT INTO t VALUES (1)").await;
        run("INSERT INTO u VALUES (1), (2)").await;
        run("CREATE VIEW v AS SELECT a FROM u").await;
        let (of_t, of_v) = ("SELECT a + 1 AS b FROM t", "SELECT a + 1 AS b FROM v");
        let before = (run(of_t).await, run(of_v).await);
        assert!(has(&session, of_t) && has(&session, of_v));
        // A commit to another table.
        run("CREATE TABLE w (a INT)").await;
        assert_eq!((run(of_t).await, run(of_v).await), before);
        // A commit to one of the tables, whose new rows are in the result.
        run("INSERT INTO t VALUES (7)").await;
        assert_eq!(run(of_v).await, before.1);
        assert!(!has(&session, of_t) && has(&session, of_v));
        assert_eq!(run(of_t).await.len(), 2);
        // A commit to the table below the view, and one to the view itself.
        run("DELETE FROM u WHERE a = 1").await;
        assert_eq!(run(of_t).await.len(), 2);
        assert!(has(&session, of_t) && !has(&session, of_v));
        assert_eq!(run(of_v).await.len(), 1);
        run("DROP VIEW v").await;
        run("CREATE VIEW v AS SELECT a FROM t").await;
        assert_eq!(run(of_v).await.len(), 2);
        // A new table with the name of the view.
        run("DROP VIEW v").await;
        run("DROP TABLE t").await;
        run("CREATE TABLE t (a BIGINT)").await;
        assert_eq!(run(of_t).await.len(), 0);
    }

    /// The only value of the only row.
    async fn value(session: &Session, sql: &str) -> String {
        let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
        let batch = batches.iter().find(|batch| batch.num_rows() == 1).expect("a row");
        datafusion::arrow::util::display::array_value_to_string(batch.column(0), 0).expect("a text")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn constants_are_kept_as_long_as_what_they_come_from() {
        let session = Database::in_memory(Options::default()).expect("a database").session();
        let made = ["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "CREATE TYPE mood AS ENUM ('glad', 'sad')"];
        for sql in ["SET retention = 3600"].into_iter().chain(made) {
            rows(&session, sql).await;
        }
        let (one, count, mood) = ("SELECT 1", "SELECT count(*) FROM t", "SELECT 'sad'::mood");
        let (tables, past) =
            ("SELECT count(*) FROM information_schema.tables", "SELECT count(*) FROM t AT (VERSION => 2)");
        for sql in [one, count, mood, tables, past] {
            value(&session, sql).await;
        }
        let kept = [one, count, mood, tables, past].map(|sql| session.plans.lock().by_query.contains_key(sql));
        assert_eq!(kept, [true, true, true, false, false]);
        rows(&session, "INSERT INTO t VALUES (2), (3)").await;
        assert_eq!((value(&session, count).await, value(&session, one).await), ("3".into(), "1".into()));
        // What a transaction changed is seen by itself.
        rows(&session, "BEGIN").await;
        rows(&session, "DELETE FROM t").await;
        assert_eq!(value(&session, count).await, "0");
        rows(&session, "ROLLBACK").await;
        assert_eq!(value(&session, count).await, "3");
        // A temporary table comes before the other one, and goes.
        rows(&session, "CREATE TEMP TABLE t (a INT)").await;
        assert_eq!(value(&session, count).await, "0");
        rows(&session, "DROP TABLE t").await;
        assert_eq!(value(&session, count).await, "3");
        rows(&session, "DROP TYPE mood").await;
        assert!(session.sql(mood).await.is_err());
        rows(&session, "DROP TABLE t").await;
        assert!(session.sql(count).await.is_err());
    }
}
