//! TPC-H at scale factor 0.1: the 22 queries return the answers of DuckDB under every design, and after conversions
//! between them.
//!
//! The answers in `crates/freestone-data/queries/tpch/answers-sf0.1` are those of DuckDB 2.0 on the same generated
//! data, with one row per line, tabs between values, and nothing for NULL.

use std::path::Path;
use std::sync::Arc;

use freestone::{Database, Options, Session};
use freestone_data::queries::tpch_queries;
use freestone_data::tpch;

use crate::answers::{answer, run};

const THREE_GROUPS: &str = "groups = '(l_orderkey, l_partkey, l_suppkey, l_linenumber), (l_quantity, l_extendedprice, \
     l_discount, l_tax, l_shipdate), (l_returnflag, l_linestatus, l_commitdate, l_receiptdate, l_shipinstruct, \
     l_shipmode, l_comment)'";

/// The designs of lineitem and of the other tables.
const DESIGNS: [(&str, &str); 7] = [
    ("design = 'auto'", "design = 'auto'"),
    ("design = 'column'", "design = 'column'"),
    ("design = 'row'", "design = 'row'"),
    ("design = 'slotted'", "design = 'slotted'"),
    ("design = 'pax'", "design = 'pax'"),
    (THREE_GROUPS, "design = 'auto'"),
    ("design = 'row', sort = 'l_shipdate, l_orderkey', levels = 1", "design = 'column'"),
];

/// Equal as text, or as numbers up to the digits to which averages of decimals are rounded.
fn same(found: &str, expected: &str) -> bool {
    found == expected
        || match (found.parse::<f64>(), expected.parse::<f64>()) {
            (Ok(a), Ok(b)) => (a - b).abs() <= 1e-6f64.max(b.abs() * 1e-9),
            _ => false,
        }
}

async fn check_answers(session: &Session, name: &str) {
    for (query, sql) in tpch_queries() {
        let found = run(session, sql).await;
        let expected = answer("tpch", query);
        assert_eq!(found.len(), expected.len(), "{query} under {name}");
        for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let equal = found.len() == expected.len() && found.iter().zip(expected).all(|(f, e)| same(f, e));
            assert!(equal, "{query} under {name}, row {row}: {found:?} instead of {expected:?}");
        }
    }
}

pub(crate) async fn load(database: &Arc<Database>, data: &Path, (lineitem, others): (&str, &str)) -> Session {
    let session = database.session();
    for table in tpch::tables() {
        let design = if table == "lineitem" { lineitem } else { others };
        let file = data.join(format!("{table}.parquet"));
        run(&session, &format!("CREATE TABLE {table} WITH ({design}) AS SELECT * FROM '{}'", file.display())).await;
    }
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_design_gives_duckdbs_answers() {
    let data = tempfile::tempdir().unwrap();
    tpch::write_parquet(data.path(), 0.1).unwrap();
    for design in DESIGNS {
        let database = Database::in_memory(Options::default()).unwrap();
        let session = load(&database, data.path(), design).await;
        check_answers(&session, design.0).await;
    }
    // One database for all designs, in another order than that of the list.
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path().join("db"), Options::default()).unwrap();
    let session = load(&database, data.path(), DESIGNS[0]).await;
    for at in [3, 6, 1, 5, 2, 4] {
        run(&session, &format!("ALTER TABLE lineitem SET DESIGN ({})", DESIGNS[at].0)).await;
        run(&session, &format!("ALTER TABLE orders SET DESIGN ({})", DESIGNS[at].1)).await;
        check_answers(&session, &format!("{} after conversions", DESIGNS[at].0)).await;
    }
}
