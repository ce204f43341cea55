//! The list of all rules that change plans, in their order. If an upgrade of DataFusion adds a rule or changes the order,
//! this test fails until the rule is in the list, with a decision and its reason.

use freestone::{Database, Options};

/// Whose rule it is.
#[derive(Debug)]
enum Decision {
    /// DataFusion's, unchanged. The differential tests cover it.
    Kept,
    /// Ours, with the name of the rule of DataFusion that it replaces.
    Replaced,
    /// Ours.
    Ours,
}
use Decision::{Kept, Ours, Replaced};

/// The rules in the order of their first run. Physical rules that run twice are listed twice.
const RULES: &[(&str, Decision, &str)] = &[
    ("shared_queries", Ours, "queries that are read several times are run once"),
    ("volatile_subqueries", Ours, "subqueries with volatile functions are evaluated each"),
    ("enum_order", Ours, "values of an ENUM are compared and sorted by the places of their labels"),
    ("untyped_texts", Ours, "texts in quotes get the type of the other operands"),
    ("set_operations", Ours, "INTERSECT ALL and EXCEPT ALL count; reals in sets"),
    ("resolve_grouping_function", Kept, "GROUPING becomes bits of the grouping id"),
    ("time_operands", Ours, "times get types that hold them, intervals are compared by length"),
    ("decimal_float_coercion", Ours, ""),
    ("type_coercion", Kept, "operands get one type; `sql-` cases of types"),
    ("time_casts", Ours, "casts of times in the session's time zone"),
    ("nested_comparisons", Ours, "NULLs in lists and structs are the greatest, as in orders"),
    ("unnesting", Ours, "subqueries become joins, in place of four rules of DataFusion's"),
    ("exact_numbers", Ours, "what can overflow or lose digits becomes a checked function"),
    ("concatenations", Ours, "chains of || as one function, which checks the size of its result"),
    ("long_patterns", Ours, "long patterns of LIKE are matched by a function that ends with its statement"),
    ("in_lists", Ours, "lists over one expression are joined in three-valued logic"),
    ("guards", Ours, "what can fail is evaluated where its guard holds"),
    ("order_of_subquery", Ours, "a query over one subquery is in its order"),
    ("inherited_order", Ours, "aggregates take the order of their subquery"),
    ("aggregate_calls", Ours, "an order for each aggregate"),
    ("group_keys", Ours, "reals and volatile expressions as keys"),
    ("expansion", Ours, "conditions whose normal form would become too large are refused"),
    ("attempts", Ours, "TRY holds its expression within a function, which other rules do not see into"),
    ("view_matching", Ours, "joins are read from materialized views that have their rows"),
    ("optimize_unions", Kept, "flattens unions"),
    ("unions_to_filter", Kept, "unions of one table become one filter"),
    ("simplify_expressions", Kept, "constants, IN lists"),
    ("time_comparisons", Ours, "dates and timestamps are compared as they are stored"),
    ("dependencies", Ours, "which keys of an aggregate determine its columns, before each rule that asks"),
    ("replace_distinct_aggregate", Replaced, "DISTINCT becomes GROUP BY, by the right dependencies"),
    ("eliminate_join", Kept, "joins on FALSE"),
    ("extract_equijoin_predicate", Replaced, "keys of hash joins; NULL equals NULL key by key, not join by join"),
    ("eliminate_duplicated_expr", Kept, "equal sort keys"),
    ("eliminate_filter", Kept, "filters that are TRUE or FALSE"),
    ("eliminate_cross_join", Kept, "comma joins get their keys"),
    ("eliminate_limit", Kept, "LIMIT 0"),
    ("propagate_empty_relation", Kept, "inputs without rows"),
    ("filter_null_join_keys", Kept, "off unless set"),
    ("eliminate_outer_join", Kept, "outer joins whose NULLs a filter drops"),
    ("push_down_limit", Kept, "limits reach the scans"),
    (
        "push_down_filter",
        Replaced,
        "but above aggregates that have a row for no rows; qualified names, tested by random joins",
    ),
    ("single_distinct_aggregation_to_group_by", Kept, "one DISTINCT argument"),
    ("eliminate_group_by_constant", Kept, "constant keys"),
    ("common_sub_expression_eliminate", Kept, "expressions that come twice"),
    ("extract_leaf_expressions", Kept, "field accesses"),
    ("push_down_leaf_projections", Kept, "field accesses"),
    ("optimize_projections", Kept, "columns that nobody reads"),
    ("redundant_joins", Ours, ""),
    ("guarded_scans", Ours, "guards among filters that meet in a scan"),
    ("ReadFields", Ours, "projections read fields of structs instead of structs"),
    ("JoinOrder", Ours, "inner joins by their estimated rows"),
    ("Offsets", Ours, "sorts stay on which an OFFSET or numbers of rows depend"),
    ("Recursions", Ours, "steps of recursive queries read the rows before several times"),
    ("GroupingSets", Ours, "nothing is known around grouping sets"),
    ("WindowFrames", Ours, "aggregates over frames, n-th values"),
    ("JoinKeyForms", Ours, "keys that are equal in SQL are equal by their bits"),
    ("OutputRequirements", Kept, "keeps the order asked for"),
    ("aggregate_statistics", Kept, "counts from statistics"),
    ("join_selection", Kept, "sides and modes of joins"),
    ("LimitedDistinctAggregation", Kept, "DISTINCT with LIMIT"),
    ("FilterPushdown", Replaced, "by position instead of name"),
    ("WindowTopN", Kept, "row_number() <= n"),
    ("nullable_sides", Ours, "what is constant on a side that an outer join may fill with NULL is not in the join"),
    ("LimitsHeld", Ours, "limits of rows without an order, which no sort passes while sorts are moved"),
    ("EnsureRequirements", Kept, "repartitions and sorts"),
    ("LimitsFreed", Ours, "these limits as DataFusion has them, afterwards"),
    ("CombinePartialFinalAggregate", Kept, "two aggregations in one"),
    ("OptimizeAggregateOrder", Kept, "ordered aggregates"),
    ("ProjectionPushdown", Kept, "compares names and positions both"),
    ("OutputRequirements", Kept, "keeps the order asked for"),
    ("LimitAggregation", Kept, "follows names: see docs/upstream"),
    ("LimitPushPastWindows", Kept, "limits below windows"),
    ("HashJoinBuffering", Kept, "off unless set"),
    ("LimitPushdown", Kept, "limits reach the scans"),
    ("TopKRepartition", Kept, "Top-N below repartitions"),
    ("ProjectionPushdown", Kept, "compares names and positions both"),
    ("ChooseCopies", Ours, ""),
    ("PushdownSort", Kept, "orders that scans have"),
    ("WorkingTables", Ours, "rows of a step of a recursive query stay on one thread"),
    ("LargeFetch", Ours, "all rows are sorted where many are wanted, in place of a heap"),
    ("PathPredicates", Ours, ""),
    ("AggregateInScan", Ours, ""),
    ("EnsureCooperative", Kept, "lets others run"),
    ("ConnectSharedQueries", Ours, ""),
    ("CancellableJoins", Ours, ""),
    ("FilterPushdown(Post)", Replaced, "by position instead of name"),
    ("SanityCheckPlan", Replaced, "checks, and puts in the exchanges and sorts that are missing"),
    ("KeepFileOrder", Ours, "rows of files in their order"),
    ("SmallBatches", Ours, "batches of long values are cut"),
    ("DictionaryEvaluation", Ours, ""),
    ("LimitsInOrder", Ours, "rows among which a LIMIT within a plan chooses in their order"),
    ("Fusion", Ours, "parts of plans that the executor runs"),
    ("InOrder", Ours, "rows of unions and shared queries in their order"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rule_that_runs_is_listed() {
    let database = Database::in_memory(Options { threads: 2, ..Options::default() }).expect("memory is there");
    let plans = database.session().sql("EXPLAIN VERBOSE SELECT 1").await.expect("EXPLAIN is there");
    let mut found: Vec<String> = vec![];
    for batch in plans.collect().await.expect("plans have texts") {
        let types = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8).expect("names are texts");
        let types = arrow::array::AsArray::as_string::<i32>(&types);
        for name in types.iter().flatten() {
            let Some((phase, rule)) = name.split_once(" after ") else { continue };
            // The logical rules run until nothing changes.
            if phase != "logical_plan" || !found.iter().any(|known| known == rule) {
                found.push(rule.to_owned());
            }
        }
    }
    let listed: Vec<&str> = RULES.iter().map(|(name, ..)| *name).collect();
    let undecided: Vec<_> = found.iter().filter(|name| !listed.contains(&name.as_str())).collect();
    assert!(undecided.is_empty(), "not decided: {undecided:?}; of those that are: {RULES:?}");
    assert_eq!(found, listed, "the order, or rules that are gone");
}
