//! The Star Schema Benchmark at scale factor 0.1: the 13 queries return the answers of DuckDB under every design, and
//! after conversions between them.
//!
//! The answers in `crates/freestone-data/queries/ssb/answers-sf0.1` are those of DuckDB 2.0 on the same generated data,
//! with one row per line and tabs between values. `bench/ssb_answers.py` wrote them.

use freestone::{Database, Options, Session};
use freestone_data::queries::{SSB_SCHEMA, ssb_queries};
use freestone_data::ssb;

use crate::answers::{answer, run};

/// The designs of lineorder.
const DESIGNS: [&str; 7] = [
    "design = 'auto'",
    "design = 'column'",
    "design = 'row'",
    "design = 'slotted'",
    "design = 'pax'",
    "design = 'column', sort = 'lo_orderdate'",
    "design = 'column', sort = '', cluster = 'lo_orderdate.d_year, lo_custkey.c_region, lo_suppkey.s_region, lo_partkey.p_brand1:5'",
];

/// All values are integers and strings, so answers are identical. Only the ORDER BY of Q3 may leave ties.
async fn check_answers(session: &Session, name: &str) {
    for (query, sql) in ssb_queries() {
        let mut found = run(session, sql).await;
        let mut expected = answer("ssb", query);
        if query.starts_with("q3") {
            found.sort();
            expected.sort();
        }
        assert_eq!(found, expected, "{query} under {name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_design_gives_duckdbs_answers() {
    let data = tempfile::tempdir().unwrap();
    ssb::write_parquet(data.path(), 0.1, ssb::SEED).unwrap();
    let database = Database::in_memory(Options::default()).unwrap();
    let session = database.session();
    for statement in session.parse(SSB_SCHEMA).unwrap() {
        session.execute(&statement).await.unwrap();
    }
    for table in ssb::tables() {
        let file = data.path().join(format!("{table}.parquet"));
        run(&session, &format!("COPY {table} FROM '{}' (FORMAT parquet)", file.display())).await;
    }
    check_answers(&session, "the default design").await;
    for design in DESIGNS {
        run(&session, &format!("ALTER TABLE lineorder SET DESIGN ({design})")).await;
        check_answers(&session, design).await;
    }
}
