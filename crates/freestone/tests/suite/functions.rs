//! Functions under their names in DuckDB and PostgreSQL, and hints for names that do not exist.

use freestone::{Database, ErrorKind, Options};

/// The names of the functions in the first column of the document's tables.
fn documented() -> Vec<String> {
    let text = std::fs::read_to_string("../../docs/functions.md").expect("the document");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next().map(str::to_owned));
    let calls = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>());
    let name = |call: String| {
        let (name, _) = call.split_once('(')?;
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then(|| name.to_owned())
    };
    calls.filter_map(name).collect()
}

#[tokio::test]
async fn documented_functions_exist() {
    let session = Database::in_memory(Options::default()).expect("a database").session();
    let names = documented();
    assert!(names.len() > 300, "{} names", names.len());
    for name in names {
        // Without arguments most functions fail, but not with an error about the name.
        // These two stand in FROM.
        let place = if matches!(name.as_str(), "json_each" | "json_tree") { "* FROM " } else { "" };
        if let Err(error) = session.sql(&format!("SELECT {place}{name}()")).await {
            assert_ne!(error.kind(), ErrorKind::NotFound, "{name}: {error}");
            assert_ne!(error.kind(), ErrorKind::Internal, "{name}: {error}");
        }
    }
}

#[tokio::test]
async fn hints_name_what_is_near_and_nothing_else() {
    let session = Database::in_memory(Options::default()).expect("a database").session();
    for (call, message, hint) in [
        ("date_dif('day', 1, 2)", "no function date_dif", Some("did you mean date_diff?")),
        ("getdate()", "no function getdate", Some("write now()")),
        ("qqqqqqqq(1)", "no function qqqqqqqq", None),
        ("add(1)", "add takes 2 arguments, and no clauses of aggregates", None),
        (
            "strftime(1, 2)",
            "strftime takes a date or timestamp, a text or a text, a date or timestamp, and was given (BIGINT, BIGINT)",
            None,
        ),
    ] {
        let error = session.sql(&format!("SELECT {call}")).await.err().expect(call);
        assert_eq!((error.to_string().as_str(), error.hint()), (message, hint), "{call}");
    }
}
