use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{JoinSide, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::execution::config::SessionConfig;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{JoinType, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, JoinOn};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect};

use super::divided;

const TYPES: [JoinType; 10] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::RightSemi,
    JoinType::LeftAnti,
    JoinType::RightAnti,
    JoinType::LeftMark,
    JoinType::RightMark,
];

/// Rows of a key, which may be NULL, a number and a text, in two partitions.
fn side(rows: usize, key: impl Fn(usize) -> Option<i64>, names: [&str; 3]) -> Arc<dyn ExecutionPlan> {
    let types = [DataType::Int64, DataType::Int64, DataType::Utf8View];
    let fields = names.iter().zip(types).map(|(name, of)| Field::new(*name, of, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let part = |first: usize| {
        let rows: Vec<usize> = (first..rows).step_by(2).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| key(*row)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| Some((*row as i64) % 97)).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| Some(format!("a text of row {row}"))).collect::<StringViewArray>()),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).expect("rows");
        (0..batch.num_rows()).step_by(1000).map(|at| batch.slice(at, 1000.min(batch.num_rows() - at))).collect()
    };
    MemorySourceConfig::try_new_exec(&[part(0), part(1)], schema.clone(), None).expect("a source")
}

/// `left.k = right.k`, and perhaps `left.n < right.n`.
fn join(
    (left, right): (Arc<dyn ExecutionPlan>, Arc<dyn ExecutionPlan>),
    join_type: JoinType,
    is_filtered: bool,
    null_equality: NullEquality,
) -> Arc<dyn ExecutionPlan> {
    let on: JoinOn = vec![(Arc::new(Column::new("k", 0)), Arc::new(Column::new("l", 0)))];
    let number = |side| ColumnIndex { index: 1, side };
    let fields = ["n", "m"].map(|name| Field::new(name, DataType::Int64, true));
    let less = BinaryExpr::new(Arc::new(Column::new("n", 0)), Operator::Lt, Arc::new(Column::new("m", 1)));
    let columns = vec![number(JoinSide::Left), number(JoinSide::Right)];
    let filter = JoinFilter::new(Arc::new(less), columns, Arc::new(Schema::new(fields.to_vec())));
    let left = super::in_one(left);
    let filter = is_filtered.then_some(filter);
    let mode = PartitionMode::CollectLeft;
    let join = HashJoinExec::try_new(left, right, on, filter, &join_type, None, mode, null_equality, false);
    Arc::new(join.expect("a join"))
}

/// Its rows as lines, sorted.
async fn lines(plan: Arc<dyn ExecutionPlan>, memory: usize) -> Vec<String> {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(GreedyMemoryPool::new(memory))).build_arc();
    let config = SessionConfig::new().with_sort_spill_reservation_bytes(memory / 16);
    let context = TaskContext::default().with_session_config(config).with_runtime(runtime.expect("a runtime"));
    let batches = collect(plan, Arc::new(context)).await.expect("rows");
    let shown = pretty_format_batches(&batches).expect("lines").to_string();
    let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// The key of a row by its number.
type KeyOfRow = fn(usize) -> Option<i64>;

async fn check(rows: (usize, usize), keys: (KeyOfRow, KeyOfRow), memory: usize, types: &[JoinType]) {
    for join_type in types {
        for (is_filtered, null_equality) in [
            (false, NullEquality::NullEqualsNothing),
            (true, NullEquality::NullEqualsNothing),
            (false, NullEquality::NullEqualsNull),
        ] {
            let sides = || (side(rows.0, keys.0, ["k", "n", "t"]), side(rows.1, keys.1, ["l", "m", "u"]));
            let whole = join(sides(), *join_type, is_filtered, null_equality);
            let in_parts = divided(join(sides(), *join_type, is_filtered, null_equality)).expect("a plan");
            assert!(format!("{in_parts:?}").contains("DividedJoinExec"));
            let (expected, found) = (lines(whole, usize::MAX).await, lines(in_parts, memory).await);
            assert_eq!(found, expected, "{join_type:?} {is_filtered} {null_equality:?} of {rows:?} in {memory} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_those_of_a_join_in_memory() {
    let some = |row: usize| (!row.is_multiple_of(11)).then_some((row % 700) as i64);
    let others = |row: usize| (!row.is_multiple_of(7)).then_some((row % 900) as i64 + 300);
    for rows in [(0, 0), (0, 50), (50, 0), (3000, 2000)] {
        check(rows, (some, others), usize::MAX, &TYPES).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_do_not_fit_are_divided_again() {
    check((60_000, 3000), (|row| Some(row as i64), |row| Some(row as i64 * 3)), 400_000, &TYPES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_one_key_are_sorted() {
    let one = |row: usize| Some(i64::from(row.is_multiple_of(100)));
    let types = [JoinType::Inner, JoinType::Full, JoinType::RightAnti, JoinType::LeftMark];
    check((30_000, 2), (one, one), 2_500_000, &types).await;
}
