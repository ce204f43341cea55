//! Random trees are printed, and what is printed is parsed to the same trees.

mod generator;

use std::fmt::Display;

use freestone_sql::tree::{Statement, StatementKind};
use freestone_sql::{Span, SyntaxError, parse_expression, parse_statement, parse_type};
use generator::Source;
use proptest::prelude::*;

/// What differs between a tree and what is parsed from the text that it prints.
fn difference<T: PartialEq + Display>(tree: &T, parse: fn(&str) -> Result<T, SyntaxError>) -> Option<String> {
    let printed = tree.to_string();
    match parse(&printed) {
        Ok(again) if again == *tree => None,
        Ok(again) => Some(format!("printed: {printed}\nagain:   {again}")),
        Err(error) => Some(format!("printed: {printed}\n{}", error.render(&printed))),
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expressions(bytes in bytes()) {
        let tree = Source::new(&bytes).expression(4);
        prop_assert_eq!(difference(&tree, parse_expression), None);
    }

    #[test]
    fn types(bytes in bytes()) {
        let tree = Source::new(&bytes).data_type(4);
        prop_assert_eq!(difference(&tree, parse_type), None);
    }

    #[test]
    fn statements(bytes in bytes()) {
        let kind = Source::new(&bytes).statement();
        let tree = Statement { kind, span: Span::default() };
        prop_assert_eq!(difference(&tree, parse_statement), None);
        let is_query = matches!(tree.kind, StatementKind::Query(_));
        prop_assert_eq!(tree.is_query(), is_query);
    }
}
