//! The binder makes the plans of all queries of the SQL tests and of their statements that write, but for forms that are
//! named here.
//!
//! `cargo test … binder -- --nocapture` prints how many there are, and those that it leaves.

use std::collections::BTreeMap;

use freestone::{Database, Options};

#[path = "../../../freestone-sql/tests/slt/mod.rs"]
mod cases;

/// The forms that sqlparser's tree plans, each with how often the tests have it. They only get fewer.
const NOT_BOUND: [(&str, usize); 2] = [("a statement of another grammar", 1), ("a statement without a query", 1)];

#[test]
fn the_binder_plans_the_queries_of_the_tests() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    let all = cases::cases();
    let file = |case: &cases::Case| case.place.rsplit_once(':').map(|(file, _)| file.to_owned()).unwrap_or_default();
    for of_file in all.chunk_by(|one, other| file(one) == file(other)) {
        runtime.block_on(async {
            let session = Database::in_memory(Options::default()).unwrap().session();
            for case in of_file {
                let before = session.binder_counts();
                // A statement that must fail may do so.
                drop(session.sql(&case.sql).await);
                for (form, count) in session.binder_counts() {
                    let count = count - before.get(&form).unwrap_or(&0);
                    if count > 0 && !form.is_empty() {
                        println!("{}: {form}: {}", case.place, case.sql);
                    }
                    *forms.entry(form).or_default() += count;
                }
            }
        });
    }
    let bound = forms.remove("").unwrap_or_default();
    println!("{bound} bound, not bound: {forms:#?}");
    assert!(bound >= 2800, "only {bound} are bound");
    for (form, count) in &forms {
        let known = NOT_BOUND.iter().find(|(known, _)| known == form).map_or(0, |(_, count)| *count);
        assert!(*count <= known, "{count} are not bound: {form}");
    }
}
