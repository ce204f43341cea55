//! Input that no one should write: unclosed, deep, long and damaged. Nothing of it panics, overflows the stack or takes long,
//! and each error has its place.

mod slt;

use std::time::Instant;

use freestone_sql::{
    ErrorCode, Statement, SyntaxError, is_complete, parse_statement, parse_statements, split_statements,
};

/// Parses a text, prints what was parsed and parses it again.
fn exercise(text: &str) -> Result<Statement, SyntaxError> {
    let spans = split_statements(text);
    assert!(spans.iter().all(|span| !span.of(text).is_empty()));
    is_complete(text);
    match parse_statement(text) {
        Ok(parsed) => {
            let printed = parsed.to_string();
            match parse_statement(&printed) {
                Ok(again) => assert!(again == parsed, "{}", shortened(text)),
                // Parentheses are printed that need not be written, as in `a = (NOT b)`.
                Err(error) if error.code == ErrorCode::TooComplex => {}
                Err(error) => panic!("{}\n{}", shortened(text), error.render(&printed)),
            }
            Ok(parsed)
        }
        Err(error) => {
            let rendered = error.render(text);
            assert!(error.span.start as usize <= text.len() && rendered.len() < 2000, "{}", shortened(text));
            Err(error)
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(300).collect()
}

/// What nests: the text before it, what is repeated, what is innermost, and what closes each.
const NESTED: &[(&str, &str, &str, &str)] = &[
    ("SELECT ", "(", "1", ")"),
    ("SELECT ", "[", "1", "]"),
    ("SELECT ", "{'a': ", "1", "}"),
    ("SELECT ", "MAP {1: ", "1", "}"),
    ("SELECT ", "f(", "1", ")"),
    ("SELECT ", "f(1, b => ", "1", ")"),
    ("SELECT ", "ROW(", "1", ")"),
    ("SELECT ", "(1, ", "1", ")"),
    ("SELECT ", "CASE WHEN ", "1", " THEN 1 END"),
    ("SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END"),
    ("SELECT ", "CASE WHEN 1 THEN 1 ELSE ", "1", " END"),
    ("SELECT ", "NOT ", "a", ""),
    ("SELECT ", "- ", "1", ""),
    ("SELECT ", "~ ", "1", ""),
    ("SELECT ", "a = NOT ", "1", ""),
    ("SELECT ", "(SELECT ", "1", ")"),
    ("SELECT ", "EXISTS (SELECT ", "1", ")"),
    ("SELECT ", "ARRAY(SELECT ", "1", ")"),
    ("SELECT ", "a IN (", "1", ")"),
    ("SELECT ", "a = ANY (", "b", ")"),
    ("SELECT ", "a IN (SELECT ", "1", ")"),
    ("SELECT ", "CAST(", "1", " AS INT)"),
    ("SELECT ", "INTERVAL (", "1", ") DAY"),
    ("SELECT ", "a BETWEEN (", "1", ") AND 2"),
    ("SELECT ", "extract(day FROM ", "a", ")"),
    ("SELECT ", "substring(", "a", " FROM 1)"),
    ("SELECT ", "trim(", "a", ")"),
    ("SELECT ", "position(", "a", " IN 'b')"),
    ("SELECT ", "overlay(", "a", " PLACING b FROM 1)"),
    ("SELECT ", "COLUMNS(", "*", ")"),
    ("SELECT ", "list_filter(l, x -> ", "x", ")"),
    ("SELECT ", "f(lambda x: ", "x", ")"),
    ("SELECT ", "lambda x: ", "x", ""),
    ("SELECT ", "[x FOR x IN ", "l", "]"),
    ("SELECT ", "sum(a) OVER (PARTITION BY ", "1", ")"),
    ("SELECT ", "sum(a) FILTER (WHERE ", "1", ")"),
    ("SELECT ", "a[", "1", "]"),
    ("SELECT ", "a[1:", "1", "]"),
    ("SELECT ", "* REPLACE (", "1", " AS a)"),
    ("SELECT a::", "STRUCT(a ", "INT", ")"),
    ("SELECT a::", "MAP(INT, ", "INT", ")"),
    ("SELECT a::", "LIST(", "INT", ")"),
    ("SELECT a FROM t GROUP BY ", "GROUPING SETS (", "a", ")"),
    ("SELECT * FROM ", "(", "t", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ")"),
    ("SELECT * FROM ", "(a JOIN ", "t", " ON b)"),
    ("SELECT * FROM ", "a JOIN ", "t", " ON b"),
    ("SELECT * FROM ", "f((FROM ", "t", "))"),
    ("SELECT * FROM ", "LATERAL (FROM ", "t", ")"),
    ("SELECT * FROM t ", "PIVOT (sum(a) FOR b IN (", "1", "))"),
    ("", "(", "SELECT 1", ")"),
    ("", "SELECT 1 UNION (", "SELECT 1", ")"),
    ("", "WITH a AS (", "SELECT 1", ") SELECT 1"),
    ("", "PIVOT (", "FROM t", ") ON a USING count(*)"),
    ("", "EXPLAIN ", "SELECT 1", ""),
    ("", "PREPARE p AS ", "SELECT 1", ""),
    ("CREATE VIEW v AS ", "(", "SELECT 1", ")"),
    ("CREATE TABLE t (a INT CHECK ", "(", "a", ")"),
    ("INSERT INTO t ", "(", "VALUES (1)", ")"),
    ("UPDATE t SET (a, b) = ", "(", "SELECT 1, 2", ")"),
    ("COPY t FROM 'x' (a = ", "[", "1", "]"),
    ("/* ", "/* ", "", "*/ "),
];

#[test]
fn nesting_is_limited() {
    for (before, open, inner, close) in NESTED {
        // Comments nest at any depth.
        let is_limited = !before.starts_with("/*");
        for count in [1, 20, 90, 101, 50_000] {
            let whole = format!("{before}{}{inner}{}", open.repeat(count), close.repeat(count));
            let unclosed = format!("{before}{}", open.repeat(count));
            let half = format!("{before}{}{inner}{}", open.repeat(count), close.repeat(count / 2));
            for text in [whole, unclosed, half] {
                let parsed = exercise(&text);
                assert!(count <= 101 || !is_limited || parsed.is_err(), "{}", shortened(&text));
            }
        }
    }
}

/// The deepest statements need no larger stack than that of any thread.
#[test]
fn deep_statements_are_parsed_on_small_stacks() {
    // Some take two levels each, so that some are errors at this depth.
    let parse = || {
        let mut parsed = 0;
        for (before, open, inner, close) in NESTED {
            let text = format!("{before}{}{inner}{}", open.repeat(49), close.repeat(49));
            parsed += usize::from(parse_statement(&text).is_ok_and(|tree| !tree.to_string().is_empty()));
            let text = format!("{before}{}{inner}{}", open.repeat(99), close.repeat(99));
            parsed += usize::from(parse_statement(&text).is_ok_and(|tree| !tree.to_string().is_empty()));
        }
        assert!(parsed > NESTED.len(), "{parsed} statements");
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(parse).expect("a thread");
    thread.join().expect("no statement fails");
}

/// What is written behind each other without nesting, in a statement of any length.
const REPEATED: &[(&str, &str, &str)] = &[
    ("SELECT 1", " + 1", ""),
    ("SELECT a", " OR b = 1", ""),
    ("SELECT a", " AND b IS NULL", ""),
    ("SELECT a", " || 'x'", ""),
    ("SELECT a", " * 2 + 3", ""),
    ("SELECT 1", ", a", " FROM t"),
    ("SELECT 1", ", f(a, b) AS c", ""),
    ("SELECT [1", ", 1", "]"),
    ("SELECT f(1", ", x => 1", ")"),
    ("SELECT CASE", " WHEN a THEN b", " END"),
    ("SELECT a IN (1", ", 2", ")"),
    ("SELECT {'a': 1", ", 'b': 2", "}"),
    ("SELECT a", ".b", ""),
    ("SELECT 1", " UNION ALL SELECT 1", ""),
    ("SELECT 1", " INTERSECT SELECT 1 UNION SELECT 2", ""),
    ("SELECT * FROM a", " JOIN b USING (k)", ""),
    ("SELECT * FROM a", ", b AS c (d, e)", ""),
    ("WITH a AS (SELECT 1)", ", b AS (SELECT 2)", " SELECT 1"),
    ("SELECT a FROM t ORDER BY a", ", b DESC NULLS LAST", ""),
    ("SELECT a FROM t GROUP BY a", ", ROLLUP (b)", ""),
    ("VALUES (1)", ", (2)", ""),
    ("INSERT INTO t VALUES (1)", ", (DEFAULT)", ""),
    ("CREATE TABLE t (a INT", ", b INT NOT NULL", ")"),
    ("ALTER TABLE t DROP a", ", DROP b", ""),
    ("UPDATE t SET a = 1", ", b = 2", ""),
    ("MERGE INTO t USING s ON a WHEN MATCHED THEN DELETE", " WHEN MATCHED THEN DO NOTHING", ""),
    ("DROP TABLE a", ", b", ""),
    ("COPY t FROM 'x' (a 1", ", b", ")"),
    ("SELECT 1 ", "/* c */ -- d\n", ""),
    ("CREATE SEQUENCE s", " START 1", ""),
];

#[test]
fn chains_may_have_any_length() {
    for (before, repeated, after) in REPEATED {
        let text = format!("{before}{}{after}", repeated.repeat(100_000));
        if let Err(error) = exercise(&text) {
            panic!("{}", error.render(&text));
        }
    }
}

/// What would be a node around all that stands before it.
#[test]
fn suffixes_are_limited() {
    for repeated in [" IS NULL", "::INT", "[1]", "[]", ".f()", " COLLATE c", " AT TIME ZONE 'UTC'", "::INT[]"] {
        let text = |count: usize| format!("SELECT (a){}", repeated.repeat(count));
        assert!(repeated == "[]" || exercise(&text(450)).is_ok(), "{repeated}");
        let deep = exercise(&text(100_000)).unwrap_err();
        assert!(repeated == "[]" || deep.code == ErrorCode::TooComplex, "{repeated}: {deep}");
    }
    assert!(exercise(&format!("SELECT a::INT{}", "[]".repeat(900))).is_ok());
    assert!(exercise(&format!("SELECT a::INT{}", "[]".repeat(100_000))).is_err());
}

#[test]
fn long_literals_and_names() {
    let long = "x".repeat(1 << 20);
    for (open, close) in [
        ("'", "'"),
        ("\"", "\""),
        ("E'", "'"),
        ("U&'", "'"),
        ("$$", "$$"),
        ("$tag$", "$tag$"),
        ("/*", "*/ 1"),
        ("--", "\n1"),
        ("", ""),
        ("$", ""),
    ] {
        assert!(exercise(&format!("SELECT {open}{long}{close}")).is_ok(), "{open}");
        // Without its end, a text is an error at its beginning.
        let unclosed = exercise(&format!("SELECT {open}{long}"));
        assert!(close.is_empty() || unclosed.is_err_and(|error| error.span.start <= 7 + 1 + (1 << 20) + 1), "{open}");
    }
    for digits in ["1", "0x1", "1.1", "1e1"] {
        assert!(exercise(&format!("SELECT {digits}{}", "1".repeat(1 << 20))).is_ok());
    }
    for odd in [
        "1x", "1e", "0xg", "''''", "'a''", "\"\"\"", "$a$b$", "X'", "X'g'", "B'2'", "E'\\", "U&'\\", "\u{0}", "\\",
        "`", "@",
    ] {
        let _ = exercise(&format!("SELECT {}", odd.repeat(50_000)));
        let _ = exercise(&odd.repeat(50_000));
    }
    let name = "n".repeat(1000);
    assert!(exercise(&format!("SELECT {name}.{name} FROM {name} AS {name} ({name})")).is_ok());
    assert!(exercise(&format!("SELECT \"{name}\" + FROM t")).is_err());
}

/// A generator of pseudo-random numbers: xorshift, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count.max(1) as u64) as usize
    }
}

/// The words and signs of a text, with the spaces between them.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let mut start = 0;
    let mut last = None;
    for (at, c) in text.char_indices() {
        let class = if c.is_alphanumeric() || c == '_' { 0 } else { 1 };
        if at > start && (class == 1 || last == Some(1)) {
            parts.push(&text[start..at]);
            start = at;
        }
        last = Some(class);
    }
    parts.push(&text[start..]);
    parts
}

/// Damages a text: parts of it are left out, doubled, swapped, or replaced by those of another one.
fn damaged(random: &mut Random, text: &str, other: &str) -> String {
    let mut parts = parts(text);
    let others = self::parts(other);
    for _ in 0..1 + random.below(3) {
        if parts.is_empty() {
            break;
        }
        let (at, to) = (random.below(parts.len()), random.below(parts.len()));
        match random.below(5) {
            0 => drop(parts.remove(at)),
            1 => parts.insert(at, parts[to]),
            2 => parts.swap(at, to),
            3 => parts[at] = others[random.below(others.len())],
            _ => parts.truncate(at),
        }
    }
    let mut bytes = parts.concat().into_bytes();
    if random.below(4) == 0 && !bytes.is_empty() {
        let at = random.below(bytes.len());
        bytes[at] = random.below(256) as u8;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `FUZZ_ROUNDS` makes it longer.
#[test]
fn damaged_statements_are_errors_or_other_statements() {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    let seed = std::env::var("FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let cases = slt::cases();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
    let (mut parsed, mut failed) = (0, 0);
    for _ in 0..rounds {
        for case in &cases {
            let other = &cases[random.below(cases.len())].sql;
            let text = damaged(&mut random, &case.sql, other);
            match exercise(&text) {
                Ok(_) => parsed += 1,
                Err(_) => failed += 1,
            }
        }
    }
    println!("{parsed} damaged statements were parsed, {failed} were errors");
    assert!(failed > parsed / 4);
}

/// Prints the milliseconds per megabyte of each kind of bad input.
#[test]
#[ignore = "prints times"]
fn time_of_bad_input() {
    let nested = NESTED.iter().map(|(before, open, _, _)| format!("{before}{}", open.repeat((1 << 20) / open.len())));
    let repeated = REPEATED.iter().map(|(before, part, _)| format!("{before}{}", part.repeat((1 << 20) / part.len())));
    let odd = ["'", "\"", "$a$", "/*", "X'", ";", "(;", ")", "a ", "1 ", "a.", "::", "x'y", "$", "é", "SELECT "];
    let odd = odd.iter().map(|part| part.repeat((1 << 20) / part.len()));
    for text in nested.chain(repeated).chain(odd) {
        let start = Instant::now();
        let parsed = parse_statements(&text);
        let rendered = parsed.as_ref().err().map(|error| error.render(&text));
        split_statements(&text);
        drop(parsed);
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let line = rendered.map_or("parsed".to_owned(), |error| error.lines().next().unwrap_or_default().to_owned());
        println!(
            "{ms:7.1} ms  {:40}  {}",
            text.chars().take(40).collect::<String>().replace('\n', " "),
            shortened(&line)
        );
    }
}
