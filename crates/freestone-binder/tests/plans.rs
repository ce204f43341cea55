//! Queries, and the plans, headings or errors that they give.

mod common;

use common::{Memory, bound, bound_with};
use datafusion_common::ScalarValue;
use freestone_binder::{ErrorKind, Options, Parameter};

/// The plan of a query in one line per node, or the error with its place.
fn shown(text: &str) -> String {
    match bound(text, &Memory::new()).expect("a query") {
        Ok(bound) => bound.plan.display_indent().to_string(),
        Err(error) => {
            let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}: {}{hint}", error.span.of(text), error.message)
        }
    }
}

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let lines: Vec<&str> = expected.lines().map(|line| line.strip_prefix("            ").unwrap_or(line)).collect();
        assert_eq!(shown(text).trim(), lines.join("\n").trim(), "{text}");
    }
}

fn headings(text: &str) -> Vec<String> {
    let bound = bound(text, &Memory::new()).expect("a query").expect(text);
    bound.headings.into_iter().map(|heading| heading.name).collect()
}

#[test]
fn queries_become_plans() {
    check(&[
        ("SELECT a FROM t", "Projection: t.a\n  TableScan: t"),
        ("FROM t WHERE a = 1", "Projection: t.a, t.b, t.c\n  Filter: t.a = Int64(1)\n    TableScan: t"),
        (
            "SELECT x.a, y.a FROM t x JOIN t y ON x.a = y.a",
            "Projection: x.a, y.a AS a\u{1}1
  Inner Join:  Filter: x.a = y.a
    SubqueryAlias: x
      TableScan: t
    SubqueryAlias: y
      TableScan: t",
        ),
        (
            "SELECT b, sum(a) AS s FROM t GROUP BY b HAVING sum(a) > 1 ORDER BY s DESC LIMIT 3",
            "Limit: skip=0, fetch=3
  Sort: s DESC NULLS FIRST
    Projection: t.b, sum(t.a) AS s
      Filter: sum(t.a) > Int64(1)
        Aggregate: groupBy=[[t.b]], aggr=[[sum(t.a)]]
          TableScan: t",
        ),
        (
            "SELECT b FROM t ORDER BY c",
            "Projection: t.b\n  Sort: __order ASC NULLS LAST\n    Projection: t.b, t.c AS __order\n      TableScan: t",
        ),
        (
            "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
            "Projection: t.a
  Filter: EXISTS (<subquery>)
    Subquery:
      Projection: Int64(1) AS 1
        Filter: u.a = outer_ref(t.a)
          TableScan: u
    TableScan: t",
        ),
        (
            "SELECT count(*) FROM t",
            "Projection: count(Int64(1)) AS count(*)\n  Aggregate: groupBy=[[]], aggr=[[count(Int64(1))]]\n    TableScan: t",
        ),
    ]);
}

/// The first projection of a query's plan.
fn values(text: &str) -> String {
    let shown = shown(text);
    let first = shown.lines().next().unwrap_or_default();
    first.strip_prefix("Projection: ").unwrap_or(first).to_owned()
}

#[test]
fn types_of_texts_are_casts_by_functions() {
    for (text, expected) in [
        ("SELECT '10:00+02'::TIMETZ(9) AS v", r#"freestone_as_normal(Utf8("10:00+02"), Utf8("TIMETZ")) AS v"#),
        ("SELECT TIMETZ(3) '10:00+02' AS v", r#"freestone_as_normal(Utf8("10:00+02"), Utf8("TIMETZ(3)")) AS v"#),
        ("SELECT TRY_CAST('x' AS INET) AS v", r#"freestone_as_normal_or_null(Utf8("x"), Utf8("INET")) AS v"#),
        ("SELECT b::BIT VARYING(4) AS v FROM t", r#"freestone_as_normal(t.b, Utf8("VARBIT(4)")) AS v"#),
        ("SELECT b::pg_catalog.bit AS v FROM t", r#"freestone_as_normal(t.b, Utf8("VARBIT")) AS v"#),
        ("SELECT B'101' AS v", r#"freestone_as_normal(Utf8("101"), Utf8("BIT(3)")) AS v"#),
        ("SELECT l::CIDR[] AS v FROM n", r#"freestone_as_normal(CAST(n.l AS List(Utf8View)), Utf8("CIDR")) AS v"#),
        ("SELECT l::ENUM('p')[] AS v FROM n", r#"freestone_as_enum(CAST(n.l AS List(Utf8View)), Utf8("p")) AS v"#),
        ("SELECT b::TIME(2) AS v FROM t", "freestone_rounded_time(CAST(t.b AS Time64(ns)), Int64(2)) AS v"),
        (
            "SELECT (a, b)::STRUCT(x BIGINT, y DATE) AS v FROM t",
            r#"named_struct(Utf8("x"), CAST(t.a AS Int64), Utf8("y"), CAST(t.b AS Date32)) AS v"#,
        ),
    ] {
        assert_eq!(values(text), expected, "{text}");
    }
    check(&[
        ("SELECT 'x'::BIT(0)", "BIT(0): BIT(0): the number of bits is from 1 to 83886080"),
        ("SELECT s::STRUCT(a INET) FROM n", "INET: INET in a struct or map is not available (write VARCHAR there)"),
        ("SELECT 1::VARIANT", "VARIANT: type VARIANT is not available (write a STRUCT with a field for each type)"),
        ("SELECT 1::q.r", "q.r: no type q.r"),
    ]);
}

#[test]
fn calls_are_bound_by_their_forms() {
    for (text, expected) in [
        ("SELECT hashed(b) AS v FROM t", "lower(hashed(t.b)) AS v"),
        ("SELECT coalesce(*COLUMNS(['a', 'c'])) AS v FROM t", "coalesce(t.a, t.c) AS v"),
        (
            "SELECT struct_pack(*COLUMNS(['a', 'c'])) AS v FROM t",
            r#"named_struct(Utf8("a"), t.a, Utf8("c"), t.c) AS v"#,
        ),
        ("SELECT a AS x, alias.x AS y FROM t", "t.a AS x, t.a AS y"),
        ("SELECT a AS c, alias.c AS y FROM t AS alias", "alias.a AS c, alias.c AS y"),
        ("SELECT a FROM t WHERE a IN (1, *COLUMNS(['c']))", "t.a"),
        ("SELECT struct_extract(s, 2) AS v FROM n", "struct_extract_at(n.s, Int64(2)) AS v"),
        (
            "SELECT make_interval(1, days => 3) AS v",
            "make_interval(Int64(1), Int64(0), Int64(0), Int64(3), Int64(0), Int64(0), Int64(0)) AS v",
        ),
    ] {
        assert_eq!(values(text), expected, "{text}");
    }
    check(&[
        (
            "SELECT make_interval(years => 1, years => 2)",
            "2: this is no unit of make_interval, or one that it has already (the units are years, months, weeks, days, hours, mins, secs)",
        ),
        ("SELECT lower(x => 'A')", "lower(x => 'A'): this function takes no arguments by name (give them by position)"),
        (
            "SELECT count(DISTINCT u.*) AS d, count(u.*) AS c FROM u",
            "Projection: count(DISTINCT CASE WHEN u.a IS NOT NULL AND u.d IS NOT NULL THEN struct(u.a,u.d) END) AS d, count(Int64(1)) AS c
  Aggregate: groupBy=[[]], aggr=[[count(DISTINCT CASE WHEN u.a IS NOT NULL AND u.d IS NOT NULL THEN struct(u.a, u.d) END), count(Int64(1))]]
    TableScan: u",
        ),
    ]);
}

#[test]
fn unnest_makes_rows_before_groups_and_within_values() {
    check(&[
        (
            "SELECT unnest(l) AS i, count(*) FROM n GROUP BY ALL",
            "Projection: __unnest AS i, count(Int64(1)) AS count(*)
  Aggregate: groupBy=[[__unnest]], aggr=[[count(Int64(1))]]
    Unnest: lists[__unnest|depth=1] structs[]
      Projection: n.l, n.s, n.A b, n.l AS __unnest
        TableScan: n",
        ),
        ("SELECT unnest(s, recursive := true) FROM n WHERE x", "x: no column x (there are: l, s, A b)"),
        ("SELECT unnest()", "unnest(): unnest takes a list"),
        (
            "SELECT unnest(l, max_depth := 2) + 1 FROM n",
            "unnest(l, max_depth := 2): unnest with options makes several columns (write it alone among the items of SELECT, or in FROM)",
        ),
        ("SELECT unnest(l, max_depth := 9) FROM n", "9: unnest goes 1 to 8 levels deep"),
    ]);
    assert_eq!(headings("SELECT i FROM n, unnest(l, recursive := true) q (i)"), ["i"]);
    assert_eq!(headings("SELECT x, y FROM n, unnest(s, max_depth = 2)"), ["x", "y"]);
    assert_eq!(headings("SELECT unnest(s, recursive := true), unnest(l, max_depth := 2) FROM n").len(), 3);
    assert_eq!(headings("SELECT unnest(l, recursive := true), unnest(NULL) FROM n").len(), 2);
}

#[test]
fn constants_order_nothing() {
    check(&[
        ("SELECT a FROM t ORDER BY NULL, 'x', true", "Projection: t.a\n  TableScan: t"),
        ("SELECT DISTINCT a FROM t ORDER BY NULL", "Distinct:\n  Projection: t.a\n    TableScan: t"),
        (
            "SELECT a FROM t GROUP BY a, 'x'",
            "Projection: t.a\n  Aggregate: groupBy=[[t.a, Utf8(\"x\")]], aggr=[[]]\n    TableScan: t",
        ),
    ]);
}

#[test]
fn equal_names_of_tables_are_ambiguous() {
    check(&[
        (
            "SELECT t.a FROM t, t",
            "t.a: column t.a is ambiguous: several columns have this name (give each a name of its own with AS)",
        ),
        (
            "SELECT t.* FROM t, t",
            "t.: t.* is ambiguous: several tables have this name (give each a name of its own with AS)",
        ),
    ]);
    assert_eq!(headings("SELECT \"T\".a FROM t, u AS \"T\""), ["a"]);
    assert_eq!(headings("SELECT count(*) FROM t, t"), ["count(*)"]);
    // Relations of the same name are told apart by their columns.
    assert_eq!(headings("SELECT q.a, q.d FROM (SELECT a FROM t) q, (SELECT d FROM u) q"), ["a", "d"]);
}

#[test]
fn every_relation_has_a_qualifier_of_its_own() {
    check(&[(
        "SELECT a FROM t WHERE a IN (SELECT a FROM t)",
        "Projection: t.a
  Filter: t.a IN (<subquery>)
    Subquery:
      Projection: t$2.a
        SubqueryAlias: t$2
          TableScan: t
    TableScan: t",
    )]);
}

#[test]
fn results_have_headings_of_their_own() {
    for (text, expected) in [
        ("SELECT 1, 1, a + 1 AS x, b FROM t", vec!["1", "1", "x", "b"]),
        ("SELECT * FROM t, u", vec!["a", "b", "c", "a", "d"]),
        ("SELECT * FROM t JOIN u USING (a)", vec!["a", "b", "c", "d"]),
        // The merged column stands first.
        ("SELECT * FROM u JOIN (SELECT 1 AS z, 2 AS d) q USING (d)", vec!["d", "a", "z"]),
        (
            "SELECT (a + 1) * 2, ((a)), a::INT, NOT (a = 1), sum(a) FROM t GROUP BY a",
            vec!["(a + 1) * 2", "a", "a::INT", "NOT (a = 1)", "sum(a)"],
        ),
        (
            "SELECT TRUE, 5 = ANY ([1]), CAST(a AS decimal(9, 2)) FROM t",
            vec!["true", "5 = ANY([1])", "CAST(a AS DECIMAL(9,2))"],
        ),
        ("SELECT * EXCLUDE (b) RENAME (c AS z) FROM t", vec!["a", "z"]),
        ("SELECT t.* REPLACE (1 AS a) FROM t, u", vec!["a", "b", "c"]),
        ("SELECT s.* FROM n", vec!["x", "y"]),
        ("SELECT COLUMNS('a') FROM t", vec!["a"]),
        ("SELECT q.y FROM t AS q (x, y)", vec!["y"]),
        ("WITH q (z) AS (SELECT 1) SELECT * FROM q", vec!["z"]),
        ("VALUES (1, 'a')", vec!["column1", "column2"]),
        ("SELECT a AS k FROM t UNION ALL SELECT a FROM u", vec!["k"]),
        ("SELECT a FROM t UNION BY NAME SELECT d FROM u", vec!["a", "d"]),
        ("SELECT range FROM range(3)", vec!["range"]),
        ("SELECT r FROM range(3) r", vec!["r"]),
        ("SELECT \"A b\", s.x FROM n", vec!["A b", "x"]),
        ("PIVOT t ON b IN ('p', 'q') USING sum(a) GROUP BY c", vec!["c", "p", "q"]),
    ] {
        assert_eq!(headings(text), expected, "{text}");
    }
}

#[test]
fn forms_are_bound() {
    for text in [
        "SELECT a + 1 AS x, x * 2 AS y FROM t WHERE x > 1 GROUP BY ALL",
        "SELECT b, count(*) FROM t GROUP BY ROLLUP (b, a)",
        "SELECT b, a, sum(c) FROM t GROUP BY GROUPING SETS ((a), (b), ())",
        "SELECT a, b, c FROM t GROUP BY a",
        "SELECT row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM t QUALIFY n = 1",
        "SELECT sum(a) OVER w, sum(c) OVER (w ROWS 2 PRECEDING) FROM t WINDOW w AS (ORDER BY a)",
        "SELECT DISTINCT ON (b) a, b FROM t ORDER BY b, a",
        "SELECT a FROM t EXCEPT SELECT a FROM u INTERSECT SELECT 1",
        "SELECT t.a, q.m FROM t, LATERAL (SELECT max(a) AS m FROM u WHERE u.a < t.a) q",
        "SELECT t.a FROM t LEFT JOIN u ON t.a = u.a NATURAL JOIN (SELECT 1 AS d)",
        "SELECT * FROM t SEMI JOIN u USING (a)",
        "SELECT * FROM t ASOF JOIN u ON t.a >= u.a",
        "SELECT * FROM t POSITIONAL JOIN u",
        "SELECT unnest(l) FROM n",
        "SELECT * FROM n, unnest(n.l) AS q (i)",
        "WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r",
        "SELECT (SELECT max(a) FROM u WHERE u.a = (SELECT max(x.a) FROM u x WHERE x.a < t.a)) FROM t",
        "SELECT a FROM t WHERE a = ANY (SELECT a FROM u) OR a < ALL (SELECT a FROM u)",
        "SELECT twice(a), count_if(a > 1) FILTER (WHERE b = 'x') FROM t GROUP BY a",
        "SELECT sum(a), sum(a::DOUBLE) FROM t",
        "SELECT * FROM t TABLESAMPLE (10 ROWS)",
        "SELECT a FROM t ORDER BY ALL LIMIT 10 OFFSET 2",
        "SELECT count(*) FROM t HAVING true",
        "SELECT CASE WHEN a = 1 THEN 'x' ELSE b END FROM t",
        "FROM t UNPIVOT (v FOR k IN (a, c))",
        "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES",
        "SELECT $1 + a FROM t WHERE b = $2",
        "SELECT b COLLATE NOCASE = 'X' FROM t ORDER BY b COLLATE NOCASE",
        "SELECT a FROM t WHERE b ~ 'x' COLLATE pg_catalog.default",
        "SELECT pg_catalog.lower(b), pg_catalog.sum(a) FROM t GROUP BY b",
        "SELECT x FROM pg_catalog.range(3) AS r (x)",
        "SELECT a FROM t UNION SELECT a AS z FROM u ORDER BY z",
        "SELECT id FROM (SELECT a AS id, a AS id FROM t) q",
        "SELECT t.a, b, sum(d::INT) FROM t JOIN u ON t.a = u.a GROUP BY t.a",
        "SELECT value, range FROM range(3)",
        "SELECT pg_temp.t.a FROM t",
        "SELECT b FROM t ORDER BY a FETCH FIRST 3 ROWS WITH TIES",
    ] {
        let found = bound(text, &Memory::new()).expect(text);
        assert!(found.is_ok(), "{text}: {}", found.expect_err("an error"));
    }
}

#[test]
fn errors_have_places_and_near_names() {
    check(&[
        ("SELECT x FROM t", "x: no column x (there are: a, b, c)"),
        ("SELECT t.bb FROM t", "t.bb: no column t.bb (did you mean t.b?)"),
        ("SELECT 1 FROM tt", "tt: no table or view tt (did you mean t?)"),
        (
            "SELECT a FROM t, u",
            "a: column a could come from several tables (write the table's name before it: t.a or u.a)",
        ),
        ("SELECT cuont(*) FROM t", "cuont: no function cuont (did you mean count?)"),
        (
            "SELECT a FROM t WHERE sum(a) > 1",
            "sum(a) > 1: aggregates are not allowed in WHERE (write the condition in HAVING, or compute the aggregate in a \
             subquery of FROM)",
        ),
        (
            "SELECT 1 UNION SELECT 1, 2",
            "UNION: the queries of a set operation have 1 and 2 columns (write NULL for a column that one does not have, or BY NAME)",
        ),
        ("SELECT a FROM t ORDER BY 2", "2: ORDER BY 2 is no column: the query has 1 (positions are numbered from 1)"),
        ("SELECT a FROM t JOIN u USING (b)", "b: no column on the right of the join: b (there are: a, d)"),
        ("SELECT 1::INTT", "INTT: no type intt (did you mean int?)"),
        (
            "SELECT random() AS r, r + 1",
            "r: r cannot be used again: each use would compute another value (compute it in a subquery)",
        ),
        ("SELECT sum(a) OVER w FROM t", "w: no window w"),
        (
            "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT 1 FROM r LIMIT 1) SELECT * FROM r",
            "r AS (SELECT 1 AS i UNION ALL SELECT 1 FROM r LIMIT 1): a recursive query has no ORDER BY, LIMIT and OFFSET (write them in the query that reads it)",
        ),
        (
            "SELECT b COLLATE de FROM t",
            "de: collation de is not available (collations are C, POSIX, BINARY, NOCASE, NOACCENT and NFC, and several such as NOCASE.NOACCENT)",
        ),
        ("SELECT b LIKE 'a' ESCAPE 'xy' FROM t", "'xy': an escape is one character"),
    ]);
    let text = "SELECT b, sum(a) FROM t GROUP BY c";
    assert!(shown(text).contains("column b is neither in GROUP BY nor within an aggregate"), "{}", shown(text));
}

#[test]
fn forms_that_are_not_bound_say_so() {
    for (text, form) in [
        ("WITH r AS (DELETE FROM t RETURNING a) SELECT * FROM r", "a statement that writes in WITH"),
        ("PIVOT t ON b USING sum(a)", "PIVOT whose values are not known"),
    ] {
        let error = bound(text, &Memory::new()).expect("a query").expect_err(text);
        assert_eq!(error.kind, ErrorKind::Unsupported { form }, "{text}");
    }
}

#[test]
fn names_of_several_columns_are_errors() {
    check(&[
        (
            "SELECT id FROM (SELECT t.a AS id, u.a AS id FROM t, u) q",
            "id: column id is ambiguous: several columns have this name (give each a name of its own with AS)",
        ),
        (
            "SELECT a AS k, c AS k FROM t ORDER BY k",
            "k: column k is ambiguous: several columns have this name (give each a name of its own with AS)",
        ),
    ]);
}

#[test]
fn values_of_parameters_stand_in_their_places() {
    let bound = |text: &str, parameters: &[ScalarValue]| {
        let parameters = parameters.iter().cloned().map(Parameter::Value).collect();
        bound_with(text, &Memory::new(), &Options { parameters, for_run: true, ..Options::default() }).expect("a query")
    };
    let plan =
        |text: &str, parameters: &[ScalarValue]| bound(text, parameters).expect(text).plan.display_indent().to_string();
    let (one, two) = (ScalarValue::Int32(Some(1)), ScalarValue::Utf8(Some("x".to_owned())));
    let values = [one.clone(), two];
    for text in ["SELECT $1 FROM t WHERE b = $2", "SELECT ? FROM t WHERE b = ?", "SELECT $p FROM t WHERE b = $q"] {
        assert_eq!(
            plan(text, &values).lines().map(str::trim).collect::<Vec<_>>()[1..],
            ["Filter: t.b = Utf8(\"x\")", "TableScan: t"],
            "{text}"
        );
    }
    let error = bound("SELECT $1, $3", &[one]).expect_err("a value is missing");
    assert_eq!(error.message, "the statement has 3 parameters and was given 1");
    let error = bound("SELECT $65536", &values).expect_err("no such parameter");
    assert!(error.message.contains("parameter"), "{}", error.message);
}

#[test]
fn parameters_tables_and_volatility_are_told() {
    let bound = |text| bound(text, &Memory::new()).expect("a query").expect(text);
    let all = bound("SELECT $2::INT, $1::TEXT FROM t, u, t x");
    assert_eq!((all.parameters.len(), all.tables.clone(), all.is_volatile), (2, vec!["t".into(), "u".into()], false));
    assert!(bound("SELECT random()").is_volatile);
    let marks = bound("SELECT ?::INT FROM t WHERE ?::TEXT = b").plan.display_indent().to_string();
    assert!(marks.find("$1") < marks.find("$2"), "{marks}");
}

#[test]
fn large_statements_end_early() {
    let aliases: Vec<String> = (1..64).map(|at| format!("a{} + a{} AS a{at}", at - 1, at - 1)).collect();
    let text = format!("SELECT a AS a0, {} FROM t", aliases.join(", "));
    assert_eq!(bound(&text, &Memory::new()).expect("a query").expect_err("too many").kind, ErrorKind::TooComplex);
    let long = format!("SELECT a FROM t WHERE a = 1{}", " OR a = 2".repeat(100_000));
    assert!(bound(&long, &Memory::new()).expect("a query").is_ok());
    let sums = format!("SELECT 1{}", " + 1".repeat(100_000));
    assert_eq!(bound(&sums, &Memory::new()).expect("a query").expect_err("too long").kind, ErrorKind::TooComplex);
}
