//! Every statement of the repository's tests is parsed, and what it prints is parsed to the same tree.

mod slt;

use freestone_sql::{Statement, parse_statement, parse_statements, split_statements};
use slt::{Case, cases};

/// Why a statement is not parsed as it should be.
fn failure(case: &Case) -> Option<String> {
    let parsed = match parse_statement(&case.sql) {
        Ok(parsed) => parsed,
        // The test has an error in any case.
        Err(_) if case.fails => return None,
        Err(error) => return Some(format!("{}\n{}", case.place, error.render(&case.sql))),
    };
    let printed = parsed.to_string();
    let again: Statement = match parse_statement(&printed) {
        Ok(again) => again,
        Err(error) => return Some(format!("{}\n{}\nprinted: {}", case.place, case.sql, error.render(&printed))),
    };
    let same = again == parsed && again.to_string() == printed;
    (!same).then(|| format!("{}\n{}\nprinted: {printed}\nagain:   {again}", case.place, case.sql))
}

#[test]
fn every_statement_of_the_tests_is_parsed_and_printed() {
    let cases = cases();
    let parsed = cases.iter().filter(|case| parse_statement(&case.sql).is_ok()).count();
    println!("{parsed} of {} statements are parsed", cases.len());
    assert!(cases.len() > 3000, "only {} statements were found", cases.len());
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{} failures\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Statements whose test expects an error of the parser: its place is within the statement, and it names what is wrong.
#[test]
fn errors_of_the_tests_have_a_place() {
    for case in cases() {
        let Err(error) = parse_statement(&case.sql) else { continue };
        let rendered = error.render(&case.sql);
        assert!(error.span.start as usize <= case.sql.len(), "{}: {rendered}", case.place);
        assert!(rendered.starts_with("line ") && rendered.contains('^'), "{}: {rendered}", case.place);
        println!("{rendered}\n");
    }
}

/// A script of all statements has the statements of its parts, at the places where it is split.
#[test]
fn a_script_has_the_statements_of_its_parts() {
    let parts: Vec<String> =
        cases().into_iter().map(|case| case.sql).filter(|sql| parse_statement(sql).is_ok()).collect();
    // A part may end in a comment.
    let script = parts.join("\n; -- ;\n");
    let statements = parse_statements(&script).expect("statements");
    let spans = split_statements(&script);
    assert_eq!(statements.len(), parts.len());
    assert_eq!(spans.len(), parts.len());
    for ((statement, span), part) in statements.iter().zip(spans).zip(&parts) {
        assert_eq!(statement.span.of(&script), span.of(&script));
        assert_eq!(parse_statement(part).as_ref(), Ok(statement), "{part}");
    }
}
