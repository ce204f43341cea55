//! The fuzz targets on random inputs from seeds, so that they run in every test.

use freestone::fuzz::{fuzz_csv, fuzz_sql};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The number of inputs: `FREESTONE_TEST_ROUNDS`, or the default.
fn rounds(default: usize) -> usize {
    std::env::var("FREESTONE_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

const CSV: [&str; 16] = [
    ",",
    "\n",
    "\r\n",
    "\"",
    "\"\"",
    "\\",
    "|",
    "a,b,c\n",
    "1",
    "-17.5e3",
    "2024-02-29",
    "12:30:00",
    "true",
    "NULL",
    "é",
    "\u{feff}",
];

#[test]
fn csv_files() {
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..rounds(4000) {
        let mut data: Vec<u8> = vec![random.random()];
        for _ in 0..random.random_range(0..40) {
            match random.random_range(0..20) {
                0 => data.push(random.random()),
                _ => data.extend_from_slice(CSV[random.random_range(0..CSV.len())].as_bytes()),
            }
        }
        fuzz_csv(&data);
    }
}

const SQL: [&str; 12] = [
    "SELECT a, sum(c) FROM t WHERE b LIKE 'x%' AND d BETWEEN DATE '2024-01-01' AND '2024-12-31' GROUP BY a HAVING count(*) > 1",
    "SELECT * FROM t JOIN u USING (a) WHERE f > now() - INTERVAL '1' DAY ORDER BY 1 NULLS LAST LIMIT 5 OFFSET 2",
    "WITH x AS (SELECT e * 2 AS y FROM t) SELECT max(y) OVER (PARTITION BY y) FROM x UNION ALL SELECT 1",
    "CREATE TABLE IF NOT EXISTS z (a INT NOT NULL, PRIMARY KEY (a)) WITH (design = 'row', sort = 'a', levels = 1)",
    "INSERT INTO t (a, b) VALUES (1, 'it''s'), (2, $tag$ ; $tag$)",
    "UPDATE t SET b = upper(b) WHERE a IN (SELECT a FROM u)",
    "DELETE FROM t WHERE a IS NULL",
    "COPY t FROM 'file.csv' (FORMAT csv, HEADER true, DELIMITER '|', NULL '')",
    "COPY (SELECT 1) TO 'x.parquet' (FORMAT parquet)",
    "ALTER TABLE t SET DESIGN (groups = '(a, b), (c)', page_size = '64KiB')",
    "VACUUM t; CHECK; TRUNCATE t; DROP TABLE IF EXISTS t; SHOW ALL",
    "SET batch_size = 100; PREPARE p AS SELECT $1; EXECUTE p(1)",
];

/// Words of several statements in random order, with some characters changed.
#[test]
fn scripts() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..rounds(3000) {
        let mut words: Vec<String> = SQL[random.random_range(0..SQL.len())].split(' ').map(str::to_owned).collect();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..words.len());
            match random.random_range(0..5) {
                0 => drop(words.remove(at)),
                1 => {
                    let other: Vec<&str> = SQL[random.random_range(0..SQL.len())].split(' ').collect();
                    words.insert(at, other[random.random_range(0..other.len())].to_owned());
                }
                2 => words[at].push([';', '\'', '"', '(', ')', 'é', '\0', '-', '$', '\n'][random.random_range(0..10)]),
                3 => words[at] = words[at].repeat(2),
                _ => {
                    words[at] = ["NULL", "9223372036854775808", "''", "*", "--", "/*", "(((((((((", "t", "1e999"]
                        [random.random_range(0..9)]
                    .into()
                }
            }
            if words.is_empty() {
                words.push(";".into());
            }
        }
        fuzz_sql(&words.join(" "));
    }
}
