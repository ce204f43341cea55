//! Conditions on Parquet files, whose pages are decoded for the rows that pass only: the rows are those of a native table with
//! the same values.

use crate::files::Place;

/// The columns with few values have dictionaries, and those with many values have none.
const VALUES: &str = "CREATE TABLE t AS SELECT i, i % 7 AS few, CASE WHEN i % 11 = 0 THEN NULL ELSE i % 5 END AS part,
    CAST(i * 1.25 AS DECIMAL(12, 2)) AS price, CAST(i % 9 AS DECIMAL(9, 1)) AS rate, CAST(i AS DECIMAL(30, 3)) AS wide,
    CASE i % 6 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN 'inf'::DOUBLE WHEN 4 THEN NULL ELSE i END AS x,
    DATE '1992-01-01' + CAST(i % 2500 AS INT) AS day, TIMESTAMP '2020-01-01 00:00:00' + i * INTERVAL 1 SECOND AS at,
    CASE WHEN i % 13 = 0 THEN NULL WHEN i % 2 = 0 THEN 'even' ELSE 'ödd' END AS word, 'a text of its own, number ' || i AS long,
    CASE WHEN i % 17 = 0 THEN NULL ELSE i % 3 = 0 END AS flag, CAST(i % 200 AS UTINYINT) AS small
    FROM range(20000) r(i)";

const CONDITIONS: &[&str] = &[
    "few = 3",
    "few = 3 AND part = 2",
    "part IS NULL",
    "part IS NULL AND word IS NOT NULL",
    "part <> 2 OR word = 'even'",
    "price BETWEEN 100 AND 2000.5",
    "price > rate AND rate >= 7",
    "wide < 100 AND few < 2",
    "x = 0",
    "x IS NULL OR x > 1e300",
    "isnan(x) AND few = 1",
    "day = DATE '1995-06-17'",
    "day < DATE '1992-02-01' AND word LIKE '%dd'",
    "at >= TIMESTAMP '2020-01-01 05:00:00' AND few <> 0",
    "long LIKE '%99%' AND few = 2",
    "length(word) = 3 AND flag",
    "NOT flag AND small = 190",
    "flag IS NULL",
    "upper(word) = 'EVEN' AND i > 19990",
    "word IN ('even', 'x') AND part IN (1, 4) AND small < 20",
    "coalesce(part, 99) = 99 AND rate = 3.0",
    "10 // (few - 3) > 2 AND few <> 3",
    "i = 12345",
    "i < 0",
    "false",
    "i >= 0",
];

/// Conditions with the least and the greatest number of rows that they are expected to leave of 20,000.
const EXPECTED: &[(&str, usize, usize)] = &[
    ("word <> 'even' AND part IN (1, 4) AND long NOT LIKE 'x%'", 1_000, 9_000),
    ("word = 'even'", 4_000, 14_000),
    ("word IS NULL", 1_000, 2_000),
    ("word IS NOT NULL", 18_000, 19_000),
    ("NOT word LIKE 'x%'", 15_000, 20_000),
    ("long LIKE 'x%' OR word <> 'even'", 5_000, 16_000),
    ("few IN (1, 2)", 4_000, 7_000),
    ("few NOT IN (1, 2)", 12_000, 16_000),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_condition_has_an_expected_share() {
    let place = Place::new();
    place.run(VALUES).await.expect("a table");
    place.run("COPY t TO '@/expected.parquet' (FORMAT parquet)").await.expect("a file");
    for (condition, least, most) in EXPECTED {
        let plan = place.run(&format!("EXPLAIN SELECT i FROM '@/expected.parquet' WHERE {condition}")).await;
        let plan = plan.expect(condition).concat();
        let rows = plan.split("rows: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
        assert!(rows.is_some_and(|rows| (*least..=*most).contains(&rows)), "{condition}: {plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_files_have_the_rows_of_tables() {
    let place = Place::new();
    place.run(VALUES).await.expect("a table");
    for (name, options) in [
        ("small", "ROW_GROUP_SIZE 3000"),
        ("plain", "ROW_GROUP_SIZE 20000, COMPRESSION uncompressed"),
        ("other", "ROW_GROUP_SIZE 7000, COMPRESSION zstd"),
    ] {
        let written = format!("COPY t TO '@/{name}.parquet' (FORMAT parquet, {options})");
        place.run(&written).await.expect(&written);
        for condition in CONDITIONS {
            let select =
                |from: &str, columns: &str| format!("SELECT {columns} FROM {from} WHERE {condition} ORDER BY i");
            let sums = "count(*), sum(i), sum(price), min(x), max(word), count(part), sum(small), min(day), max(at), sum(wide)";
            let summed =
                |from: &str| format!("SELECT word, {sums} FROM {from} WHERE {condition} GROUP BY word ORDER BY word");
            let file = format!("'@/{name}.parquet'");
            for (of_file, of_table) in [
                (select(&file, "*"), select("t", "*")),
                (select(&file, "i, long, flag"), select("t", "i, long, flag")),
                (summed(&file), summed("t")),
            ] {
                let expected = place.run(&of_table).await.expect(&of_table);
                assert_eq!(place.run(&of_file).await, Ok(expected), "{of_file}");
            }
        }
    }
}
