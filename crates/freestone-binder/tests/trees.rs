//! Any tree gives a plan or an error with a place, never a panic: random trees, and the queries of all SQL tests.

mod common;
#[path = "../../freestone-sql/tests/generator/mod.rs"]
#[allow(dead_code)]
mod generator;
#[path = "../../freestone-sql/tests/slt/mod.rs"]
#[allow(dead_code)]
mod slt;

use common::{Memory, bound};
use generator::Source;
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..600)
}

/// Whether a text gives a plan. The place of an error is within it.
fn is_bound(text: &str, world: &Memory) -> bool {
    match bound(text, world) {
        None => false,
        Some(Ok(bound)) => {
            assert_eq!(bound.headings.len(), bound.plan.schema().fields().len(), "{text}");
            true
        }
        Some(Err(error)) => {
            assert!(error.span.end as usize <= text.len() && !error.message.is_empty(), "{text}: {error}");
            false
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expressions_are_bound_or_refused(bytes in bytes()) {
        let tree = Source::new(&bytes).expression(4);
        is_bound(&format!("SELECT {tree} FROM t AS t1"), &Memory::new());
    }

    #[test]
    fn statements_are_bound_or_refused(bytes in bytes()) {
        let kind = Source::new(&bytes).statement();
        let tree = freestone_sql::Statement { kind, span: freestone_sql::Span::default() };
        is_bound(&tree.to_string(), &Memory::new());
    }
}

#[test]
fn queries_of_the_tests_are_bound_or_refused() {
    let world = Memory::new();
    let cases = slt::cases();
    let count = cases.iter().filter(|case| is_bound(&case.sql, &world)).count();
    // Most name tables that this world does not have.
    assert!(count > 100, "{count} of {} are bound", cases.len());
}
