//! The driver through its Rust interface, on a database in this process and on a server.

mod common;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adbc_core::error::{Error, Status};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Driver, Optionable, Statement};
use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use arrow::error::ArrowError;
use common::{PASSWORD, Places, sqlstate};
use freestone_adbc::{DATABASE_OPTIONS, FreestoneConnection, FreestoneDriver};

fn open(given: &[(&str, &str)]) -> Result<freestone_adbc::FreestoneDatabase, Error> {
    let given = given.iter().map(|(name, value)| (OptionDatabase::from(*name), OptionValue::from(*value)));
    FreestoneDriver.new_database_with_opts(given)
}

fn rows(connection: &mut FreestoneConnection, sql: &str) -> RecordBatch {
    let mut statement = connection.new_statement().expect("a statement");
    statement.set_sql_query(sql).expect("a query");
    all(statement.execute().unwrap_or_else(|error| panic!("{sql}: {error}")))
}

fn all(reader: Box<dyn RecordBatchReader + Send>) -> RecordBatch {
    let schema = reader.schema();
    let batches: Vec<_> = reader.collect::<Result<_, _>>().expect("rows");
    concat_batches(&schema, &batches).expect("one batch")
}

fn update(connection: &mut FreestoneConnection, sql: &str) -> Option<i64> {
    let mut statement = connection.new_statement().expect("a statement");
    statement.set_sql_query(sql).expect("a statement");
    statement.execute_update().unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn fails(connection: &mut FreestoneConnection, sql: &str) -> Error {
    let mut statement = connection.new_statement().expect("a statement");
    statement.set_sql_query(sql).and_then(|()| statement.execute().map(drop)).expect_err(sql)
}

fn number(connection: &mut FreestoneConnection, sql: &str) -> i64 {
    integer(rows(connection, sql).column(0))
}

/// The first value of a column, which a BIGINT holds.
fn integer(column: &ArrayRef) -> i64 {
    let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64).expect("a number");
    column.as_primitive::<Int64Type>().value(0)
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).expect("a batch")
}

fn ingest(
    connection: &mut FreestoneConnection,
    table: &str,
    mode: &str,
    batch: RecordBatch,
) -> Result<Option<i64>, Error> {
    let mut statement = connection.new_statement()?;
    statement.set_option(OptionStatement::TargetTable, table.into())?;
    statement.set_option(OptionStatement::IngestMode, format!("adbc.ingest.mode.{mode}").into())?;
    statement.bind(batch)?;
    statement.execute_update()
}

#[test]
fn databases_are_opened_by_their_options() {
    let refused = |given: &[(&str, &str)], says: &str| {
        let error = open(given).err().unwrap_or_else(|| panic!("{given:?} is accepted"));
        assert!(error.message.contains(says), "{given:?}: {}", error.message);
    };
    refused(&[("uri", "a"), ("path", "b")], "give one of them");
    refused(&[("freestone.treads", "2")], "freestone.threads");
    refused(&[("freestone.threads", "0")], "from 1 to 1024");
    refused(&[("freestone.memory_limit", "much")], "write it as 2GB");
    refused(&[("freestone.read_only", "true")], "cannot be read-only");
    refused(&[("freestone.string_views", "perhaps")], "true or false");
    refused(&[("path", "a"), ("username", "ann")], "username is one of servers");
    refused(&[("uri", "freestone://h"), ("freestone.memory_limit", "1GB")], "memory_limit is one of databases");
    refused(&[("uri", "freestone://h"), ("freestone.streams", "0")], "streams");
    refused(&[("uri", "postgres://h")], "freestone://user:password@host:port");
    refused(&[("path", "")], "name a folder");

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let path = path.to_str().expect("a path in UTF-8");
    refused(&[("path", path), ("freestone.read_only", "true")], "");
    let database = open(&[("path", path), ("freestone.threads", "2"), ("freestone.memory_limit", "256MiB")]);
    let database = database.expect("a new folder");
    assert_eq!(database.get_option_int(OptionDatabase::from("freestone.threads")), Ok(2));
    assert_eq!(database.get_option_string(OptionDatabase::from("path")).as_deref(), Ok(path));
    update(&mut database.new_connection().expect("a connection"), "CREATE TABLE t AS SELECT 1 AS a");
    drop(database);
    let uri = format!("file://{path}");
    let database = open(&[("uri", uri.as_str()), ("freestone.read_only", "true")]).expect("the same folder");
    let mut connection = database.new_connection().expect("a connection");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM t"), 1);
    assert_eq!(fails(&mut connection, "INSERT INTO t VALUES (2)").status, Status::Unauthorized);
}

#[test]
fn every_option_is_documented() {
    let document = std::fs::read_to_string("../../docs/adbc.md").expect("the document");
    for (name, _) in DATABASE_OPTIONS {
        assert!(document.contains(&format!("`{name}`")), "docs/adbc.md does not have {name}");
    }
}

#[test]
fn servers_ask_who_it_is() {
    let places = Places::new();
    let uri = places.uri();
    let database =
        open(&[("uri", uri.as_str()), ("username", "ann"), ("password", PASSWORD), ("freestone.streams", "2")]);
    let mut connection = database.expect("a database").new_connection().expect("a connection");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM generate_series(1, 300000)"), 300_000);
    let database = open(&[("uri", uri.as_str()), ("username", "ann"), ("password", "wrong")]).expect("a database");
    assert!(database.get_option_string(OptionDatabase::Password).is_err(), "passwords are not told");
    let error = database.new_connection().err().expect("a wrong password");
    assert_eq!((error.status, sqlstate(&error).as_str()), (Status::Unauthenticated, "28P01"), "{error}");
    let nobody = open(&[("uri", "freestone://a:b@127.0.0.1:1")]).expect("a database");
    assert_eq!(nobody.new_connection().err().expect("no server").status, Status::IO);
    let reader = open(&[("uri", uri.as_str()), ("username", "rita"), ("password", PASSWORD)]).expect("a database");
    let mut reader = reader.new_connection().expect("a connection");
    assert_eq!(fails(&mut reader, "CREATE TABLE no (a INT)").status, Status::Unauthorized);
}

#[test]
fn queries_stream_their_rows_and_updates_count_them() {
    Places::new().each(|connection, _| {
        assert_eq!(update(connection, "CREATE TABLE t (a BIGINT, b VARCHAR)"), None);
        assert_eq!(
            update(connection, "INSERT INTO t SELECT value, 'text ' || value FROM generate_series(1, 500000)"),
            Some(500_000)
        );
        assert_eq!(update(connection, "DELETE FROM t WHERE a > 499999"), Some(1));
        assert_eq!(update(connection, "DELETE FROM t WHERE a < 0"), Some(0));
        let mut statement = connection.new_statement().expect("a statement");
        statement.set_sql_query("SELECT a, b FROM t").expect("a query");
        let mut reader = statement.execute().expect("rows");
        assert_eq!(reader.schema().field(1).data_type(), &DataType::Utf8);
        let first = reader.next().expect("a batch").expect("a batch");
        assert!(first.num_rows() > 0 && first.num_rows() < 499_999, "the result comes in pieces");
        let rest: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
        assert_eq!(first.num_rows() + rest, 499_999);
        assert_eq!(rows(connection, "SELECT a FROM t WHERE a < 0").num_rows(), 0);
        assert_eq!(rows(connection, "SELECT 1 AS a; SELECT 2 AS b").schema().field(0).name(), "b");
        // A result that is dropped early does not block later statements.
        drop(statement.execute().expect("rows"));
        assert_eq!(number(connection, "SELECT count(*) FROM t"), 499_999);
        // If a statement is executed again, its earlier rows end with an error, never as if they were complete.
        let mut early = statement.execute().expect("rows");
        let late = statement.execute().expect("rows");
        let ended = early.find_map(Result::err).expect("an error");
        assert!(ended.to_string().contains("executed again"), "{ended}");
        assert_eq!(all(late).num_rows(), 499_999);
        update(connection, "DROP TABLE t");
    });
}

#[test]
fn every_type_comes_back_with_nulls_and_extremes() {
    let query = "SELECT CAST(t AS BOOLEAN) AS t, CAST(i1 AS TINYINT) AS i1, CAST(i2 AS SMALLINT) AS i2, CAST(i4 AS INT) AS i4,
        CAST(i8 AS BIGINT) AS i8, CAST(u8 AS BIGINT UNSIGNED) AS u8, CAST(f8 AS DOUBLE) AS f8, CAST(f4 AS REAL) AS f4, CAST(d AS DECIMAL(38, 0)) AS d,
        CAST(day AS DATE) AS day, CAST(clock AS TIME) AS clock, CAST(at AS TIMESTAMP) AS at, s, b FROM (VALUES
        ('true', '-128', '-32768', '-2147483648', '-9223372036854775808', '0', '-inf', '1.5', '-99999999999999999999999999999999999999',
        '0001-01-01', '00:00:00', '1677-09-22 00:00:00', '', X'00'),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        ('false', '127', '32767', '2147483647', '9223372036854775807', '18446744073709551615', 'NaN', '-0.0',
        '99999999999999999999999999999999999999', '9999-12-31', '23:59:59.999999', '2262-04-11 00:00:00', 'ü€😀', X'FF00FF'))
        AS v (t, i1, i2, i4, i8, u8, f8, f4, d, day, clock, at, s, b)";
    let mut results = vec![];
    Places::new().each(|connection, _| {
        update(connection, &format!("CREATE TABLE types AS {query}"));
        results.push(rows(connection, "SELECT * FROM types"));
        update(connection, "DROP TABLE types");
    });
    let [embedded, remote] = &results[..] else { panic!("two places") };
    assert_eq!(embedded, remote);
    assert_eq!(embedded.num_rows(), 3);
    assert!(embedded.columns().iter().all(|column| column.null_count() == 1 && column.is_null(1)));
    let column = |name: &str| embedded.column_by_name(name).expect(name);
    assert_eq!(column("i8").as_primitive::<Int64Type>().value(0), i64::MIN);
    assert_eq!(column("u8").as_primitive::<UInt64Type>().value(2), u64::MAX);
    assert_eq!(column("d").as_primitive::<Decimal128Type>().value(2), 10i128.pow(38) - 1);
    assert!(column("f8").as_primitive::<Float64Type>().value(2).is_nan());
    assert_eq!(column("s").as_string::<i32>().value(2), "ü€😀");
    assert_eq!(column("b").as_binary::<i32>().value(2), [255, 0, 255]);
}

#[test]
fn strings_have_offsets_or_are_views_for_those_who_want_them() {
    let places = Places::new();
    for uri in [":memory:", &places.login()] {
        let database = open(&[("uri", uri)]).expect("a database");
        let mut connection = database.new_connection().expect("a connection");
        let batch = rows(&mut connection, "SELECT 'x' AS s, X'01' AS b UNION ALL SELECT NULL, NULL");
        assert_eq!(batch.schema().field(0).data_type(), &DataType::Utf8);
        assert_eq!(batch.column(1).data_type(), &DataType::Binary);
        assert_eq!(batch.num_rows(), 2);
        assert_eq!(connection.get_option_string("freestone.string_views".into()), Ok("false".into()));
        let views = [(OptionConnection::from("freestone.string_views"), "true".into())];
        let mut connection = database.new_connection_with_opts(views).expect("a connection");
        assert_eq!(
            rows(&mut connection, "SELECT arrow_cast('x', 'Utf8View') AS s").schema().field(0).data_type(),
            &DataType::Utf8View
        );
        assert!(open(&[("uri", uri), ("freestone.string_views", "true")]).is_ok());
    }
}

#[test]
fn parameters_are_bound_by_place_and_by_name() {
    Places::new().each(|connection, _| {
        update(connection, "CREATE TABLE p (a INT, b VARCHAR)");
        let mut insert = connection.new_statement().expect("a statement");
        insert.set_sql_query("INSERT INTO p VALUES (?, ?)").expect("a statement");
        insert.prepare().expect("prepared");
        let parameters = insert.get_parameter_schema().expect("parameters");
        assert_eq!(parameters.fields().len(), 2);
        assert_eq!(parameters.field(0).data_type(), &DataType::Int32);
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), None, Some("none")]));
        insert.bind(batch([("x", numbers.clone()), ("y", texts.clone())])).expect("bound");
        assert_eq!(insert.execute_update(), Ok(Some(3)));

        let mut select = connection.new_statement().expect("a statement");
        select.set_sql_query("SELECT b FROM p WHERE a = $n OR b = $text ORDER BY b").expect("a query");
        select.prepare().expect("prepared");
        let parameters = select.get_parameter_schema().expect("parameters");
        assert_eq!(parameters.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["n", "text"]);
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let none: ArrayRef = Arc::new(StringArray::from(vec!["none"]));
        select.bind(batch([("text", none), ("n", one.clone())])).expect("bound");
        let found = all(select.execute().expect("rows"));
        assert_eq!(found.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["none", "one"]);
        // The query is executed once per row of values, and never without rows.
        let mut select = connection.new_statement().expect("a statement");
        select.set_sql_query("SELECT a FROM p WHERE a = $1").expect("a query");
        let stream = RecordBatchIterator::new(
            [Ok(batch([("n", numbers.clone())])), Ok(batch([("n", numbers.clone())]))],
            batch([("n", numbers.clone())]).schema(),
        );
        select.bind_stream(Box::new(stream)).expect("bound");
        assert_eq!(all(select.execute().expect("rows")).num_rows(), 4);
        select.bind(batch([("n", numbers.slice(0, 0))])).expect("bound");
        let nothing = all(select.execute().expect("no rows"));
        assert_eq!((nothing.num_rows(), nothing.num_columns()), (0, 1));
        // Values that do not fit are an error.
        select.bind(batch([("n", numbers.clone()), ("m", numbers)])).expect("bound");
        let error = select.execute().err().expect("too many values");
        assert!(error.message.contains("takes 1 parameters and was given 2"), "{error}");
        let error = select.execute().err().expect("values are taken by the execution before");
        assert_eq!(error.status, Status::InvalidArguments, "{error}");
        select.set_option(OptionStatement::from("adbc.statement.bind_by_name"), "true".into()).expect("an option");
        select.bind(batch([("n", one)])).expect("bound");
        assert!(select.execute().err().expect("no names").message.contains("$name"));
        update(connection, "DROP TABLE p");
    });
}

#[test]
fn schemas_are_told_before_execution() {
    Places::new().each(|connection, _| {
        update(connection, "CREATE TABLE s (a INT NOT NULL, b DECIMAL(10, 2))");
        let mut statement = connection.new_statement().expect("a statement");
        statement.set_sql_query("SELECT b, a + 1::BIGINT AS c FROM s").expect("a query");
        let schema = statement.execute_schema().expect("a schema");
        assert_eq!(schema.field(0).data_type(), &DataType::Decimal128(10, 2));
        assert_eq!(schema.field(1).name(), "c");
        statement.set_sql_query("INSERT INTO s VALUES (1, 2)").expect("a statement");
        assert_eq!(statement.execute_schema().expect("a schema").fields().len(), 0);
        assert_eq!(number(connection, "SELECT count(*) FROM s"), 0, "nothing was executed");
        let schema = connection.get_table_schema(Some("freestone"), Some("public"), "s").expect("a schema");
        assert_eq!((schema.field(0).is_nullable(), schema.field(1).is_nullable()), (false, true));
        assert_eq!(connection.get_table_schema(None, None, "src").expect_err("a folder").status, Status::NotFound);
        assert_eq!(connection.get_table_schema(Some("x"), None, "s").expect_err("a catalog").status, Status::NotFound);
        update(connection, "DROP TABLE s");
    });
}

#[test]
fn rows_are_ingested_in_every_mode() {
    let some = |from: i64, to: i64| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((from..to).map(|v| (v % 5 > 0).then_some(v))));
        let texts: ArrayRef =
            Arc::new(StringArray::from_iter((from..to).map(|v| (v % 7 > 0).then(|| format!("t{v}")))));
        batch([("a", numbers), ("Odd \"name\"", texts)])
    };
    Places::new().each(|connection, _| {
        let count = |connection: &mut FreestoneConnection| number(connection, "SELECT count(*) FROM \"My table\"");
        let table = "My table";
        assert_eq!(ingest(connection, table, "append", some(0, 9)).expect_err("no table").status, Status::NotFound);
        assert_eq!(ingest(connection, table, "create", some(0, 100)), Ok(Some(100)));
        assert_eq!(ingest(connection, table, "create", some(0, 9)).expect_err("exists").status, Status::AlreadyExists);
        assert_eq!(ingest(connection, table, "append", some(100, 200)), Ok(Some(100)));
        assert_eq!(ingest(connection, table, "create_append", some(200, 250)), Ok(Some(50)));
        let sums = rows(connection, "SELECT sum(a), count(\"Odd \"\"name\"\"\") FROM \"My table\"");
        let expected: i64 = (0..250).filter(|v| v % 5 > 0).sum();
        assert_eq!(integer(sums.column(0)), expected);
        assert_eq!(sums.column(1).as_primitive::<Int64Type>().value(0), (0..250).filter(|v| v % 7 > 0).count() as i64);
        assert_eq!(ingest(connection, table, "replace", some(0, 7)), Ok(Some(7)));
        assert_eq!(count(connection), 7);
        assert_eq!(ingest(connection, "other", "create_append", some(0, 3)), Ok(Some(3)));
        assert_eq!(ingest(connection, "third", "replace", some(0, 4)), Ok(Some(4)));
        // If the rows end with an error, everything stays as it was, in every mode.
        for mode in ["create", "append", "replace", "create_append"] {
            let broken = [Ok(some(0, 5000)), Err(ArrowError::ComputeError("the source broke".into()))];
            let mut statement = connection.new_statement().expect("a statement");
            let target = if mode == "create" { "new" } else { table };
            statement.set_option(OptionStatement::TargetTable, target.into()).expect("an option");
            let mode = format!("adbc.ingest.mode.{mode}");
            statement.set_option(OptionStatement::IngestMode, mode.as_str().into()).expect("an option");
            let stream = RecordBatchIterator::new(broken, some(0, 0).schema());
            statement.bind_stream(Box::new(stream)).expect("bound");
            let error = statement.execute_update().expect_err("a broken stream");
            assert!(error.message.contains("the source broke"), "{mode}: {error}");
            assert_eq!(count(connection), 7, "{mode}");
        }
        assert_eq!(number(connection, "SELECT count(*) FROM freestone_tables()"), 3);
        let columns = rows(connection, "SELECT * FROM \"My table\" LIMIT 1").schema();
        assert_eq!(columns.field(1).name(), "Odd \"name\"");
        for name in [table, "other", "third"] {
            update(connection, &format!("DROP TABLE \"{name}\""));
        }
    });
}

#[test]
fn ingestion_takes_designs_and_all_types() {
    Places::new().each(|connection, _| {
        let day: ArrayRef = Arc::new(Date32Array::from(vec![Some(i32::MIN / 400), None, Some(20_000)]));
        let at: ArrayRef = Arc::new(
            TimestampNanosecondArray::from(vec![Some(i64::MIN + 1), None, Some(i64::MAX)]).with_timezone("UTC"),
        );
        let wide = Decimal128Array::from(vec![Some(1 - 10i128.pow(38)), None, Some(10i128.pow(38) - 1)]);
        let wide: ArrayRef = Arc::new(wide.with_precision_and_scale(38, 7).expect("a decimal"));
        let words: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("a"), None, Some("b")]));
        let large: ArrayRef = Arc::new(LargeBinaryArray::from(vec![Some(&b"x\0y"[..]), None, Some(&b""[..])]));
        let small: ArrayRef = Arc::new(UInt8Array::from(vec![Some(0), None, Some(255)]));
        let given =
            batch([("day", day), ("at", at), ("wide", wide), ("words", words), ("large", large), ("small", small)]);
        let mut statement = connection.new_statement().expect("a statement");
        statement.set_option(OptionStatement::TargetTable, "every".into()).expect("an option");
        let design = OptionStatement::from("freestone.ingest.design");
        statement.set_option(design, "design = 'row', page_size = '8KiB'".into()).expect("an option");
        statement.bind(given.clone()).expect("bound");
        assert_eq!(statement.execute_update(), Ok(Some(3)));
        let back = rows(connection, "SELECT * FROM every");
        assert_eq!(back.column(0), given.column(0));
        assert_eq!(back.column(1), given.column(1));
        assert_eq!(back.column(2), given.column(2));
        assert_eq!(back.column(3).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("a"), None, Some("b")]);
        assert_eq!(back.column(4).as_binary::<i32>().value(0), b"x\0y");
        assert_eq!(back.column(5), given.column(5));
        let design = rows(connection, "SELECT value FROM freestone_design('every') WHERE option = 'preset'");
        assert_eq!(design.column(0).as_string::<i32>().value(0), "row");
        let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]));
        let loaded = ingest(connection, "nested", "create", batch([("l", list)])).expect("a list");
        assert_eq!(loaded, Some(1));
        let items = rows(connection, "SELECT l FROM nested").column(0).as_list::<i32>().value(0);
        assert_eq!(items.as_primitive::<Int32Type>().values(), &[1]);
        for table in ["every", "nested"] {
            update(connection, &format!("DROP TABLE {table}"));
        }
    });
}

#[test]
fn errors_have_status_state_and_hint() {
    Places::new().each(|connection, _| {
        update(connection, "CREATE TABLE lineitem (a INT NOT NULL)");
        for (sql, status, state) in [
            ("SELEC 1", Status::InvalidArguments, "42601"),
            ("SELECT * FROM lineitm", Status::NotFound, "42P01"),
            ("SELECT b FROM lineitem", Status::NotFound, "42703"),
            ("CREATE TABLE lineitem (a INT)", Status::AlreadyExists, "42P07"),
            ("INSERT INTO lineitem VALUES (NULL)", Status::Integrity, "23502"),
            ("SELECT CAST('x' || a AS INT) FROM (VALUES (1)) AS v (a)", Status::InvalidData, "22P02"),
        ] {
            let error = fails(connection, sql);
            assert_eq!((error.status, sqlstate(&error).as_str()), (status, state), "{sql}: {error}");
        }
        let error = fails(connection, "SELECT * FROM lineitm");
        assert!(error.message.contains("did you mean lineitem?"), "{error}");
        let details = error.details.expect("details");
        assert_eq!(details, [("freestone.hint".to_owned(), b"did you mean lineitem?".to_vec())]);
        assert_eq!(number(connection, "SELECT count(*) FROM lineitem"), 0);
        update(connection, "DROP TABLE lineitem");
    });
}

#[test]
fn what_is_not_there_says_so() {
    Places::new().each(|connection, _| {
        let absent = |result: Result<(), Error>, says: &str| {
            let error = result.expect_err(says);
            assert_eq!(error.status, Status::NotImplemented, "{error}");
            assert!(error.message.contains(says), "{error}");
        };
        absent(connection.read_partition(b"x").map(drop), "not partitioned");
        let mut statement = connection.new_statement().expect("a statement");
        absent(statement.set_substrait_plan(b"x"), "Substrait");
        absent(statement.set_option(OptionStatement::Incremental, "true".into()), "incremental");
        statement.set_sql_query("SELECT 1").expect("a query");
        absent(statement.execute_partitions().map(drop), "not partitioned");
        assert_eq!(connection.set_option(OptionConnection::AutoCommit, "true".into()), Ok(()));
        assert_eq!(connection.get_option_string(OptionConnection::CurrentSchema).as_deref(), Ok("public"));
        let error = connection.set_option(OptionConnection::from("x"), "y".into()).expect_err("no such option");
        assert!(error.message.contains("adbc.connection.autocommit"), "{error}");
        let mut statement = connection.new_statement().expect("a statement");
        let error = statement.set_option(OptionStatement::from("x"), "y".into()).expect_err("no such option");
        assert!(error.message.contains("adbc.ingest.mode"), "{error}");
        assert_eq!(statement.execute().err().expect("nothing to do").status, Status::InvalidState);
    });
    let read_only = [(OptionConnection::ReadOnly, "true".into())];
    let mut connection = open(&[]).expect("memory").new_connection_with_opts(read_only).expect("a connection");
    assert_eq!(fails(&mut connection, "CREATE TABLE t (a INT)").status, Status::Unauthorized);
}

#[test]
fn statements_are_cancelled() {
    Places::new().each(|connection, _| {
        let endless = "SELECT count(*) FROM generate_series(1, 100000000000) AS a (v) WHERE v % 3 = 1 AND v % 7 = 2";
        let mut statement = connection.new_statement().expect("a statement");
        for from_connection in [false, true] {
            statement.set_sql_query(endless).expect("a query");
            let handle = if from_connection { connection.get_cancel_handle() } else { statement.get_cancel_handle() };
            let canceller = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                handle.try_cancel().expect("cancelled");
            });
            let began = Instant::now();
            let error = statement.execute().err().expect("it is cancelled");
            assert_eq!((error.status, sqlstate(&error).as_str()), (Status::Cancelled, "57014"), "{error}");
            assert!(began.elapsed() < Duration::from_secs(30), "after {:?}", began.elapsed());
            canceller.join().expect("the other thread");
            assert_eq!(number(connection, "SELECT count(*) FROM generate_series(1, 10)"), 10);
        }
        // Cancelled in the middle of a result.
        statement.set_sql_query("SELECT value FROM generate_series(1, 100000000000)").expect("a query");
        let mut reader = statement.execute().expect("rows");
        reader.next().expect("a batch").expect("a batch");
        statement.get_cancel_handle().try_cancel().expect("cancelled");
        assert!(reader.find_map(Result::err).expect("an error").to_string().contains("cancelled"));
        assert!(reader.next().is_none());
        assert_eq!(number(connection, "SELECT 1"), 1);
    });
}

#[test]
fn a_cancelled_ingestion_leaves_nothing() {
    Places::new().each(|connection, _| {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let rows = batch([("a", numbers)]);
        let endless = RecordBatchIterator::new(std::iter::repeat(rows.clone()).map(Ok), rows.schema());
        let mut statement = connection.new_statement().expect("a statement");
        statement.set_option(OptionStatement::TargetTable, "endless".into()).expect("an option");
        statement.bind_stream(Box::new(endless)).expect("bound");
        let handle = statement.get_cancel_handle();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            handle.try_cancel().expect("cancelled");
        });
        let error = statement.execute_update().expect_err("it is cancelled");
        assert_eq!(error.status, Status::Cancelled, "{error}");
        canceller.join().expect("the other thread");
        assert_eq!(number(connection, "SELECT count(*) FROM freestone_tables()"), 0);
        assert_eq!(ingest(connection, "endless", "create", rows), Ok(Some(10_000)));
        update(connection, "DROP TABLE endless");
    });
}

#[test]
fn results_outlive_what_gave_them() {
    let places = Places::new();
    for uri in [":memory:", &places.login()] {
        let reader = {
            let database = open(&[("uri", uri)]).expect("a database");
            let mut connection = database.new_connection().expect("a connection");
            let mut statement = connection.new_statement().expect("a statement");
            statement.set_sql_query("SELECT value FROM generate_series(1, 1000000)").expect("a query");
            statement.execute().expect("rows")
        };
        assert_eq!(all(reader).num_rows(), 1_000_000);
    }
}

#[test]
fn the_hierarchy_of_objects_is_complete() {
    Places::new().each(|connection, _| {
        for sql in [
            "CREATE TABLE d (k INT NOT NULL, part VARCHAR NOT NULL, PRIMARY KEY (k, part))",
            "CREATE TABLE t (a INT NOT NULL, k INT, part VARCHAR, price DECIMAL(12, 2), PRIMARY KEY (a),
             FOREIGN KEY (k, part) REFERENCES d (k, part))",
            "CREATE MACRO gone() AS 1",
            "CREATE VIEW v AS SELECT a FROM t",
            "CREATE VIEW broken AS SELECT gone() AS x",
            "CREATE OR REPLACE MACRO gone(a) AS a",
        ] {
            update(connection, sql);
        }
        let objects = |depth, catalog, table, types: Option<Vec<&str>>, column| {
            let reader = connection.get_objects(depth, catalog, None, table, types, column).expect("objects");
            let batch = all(reader);
            let mut writer = arrow::json::ArrayWriter::new(Vec::new());
            writer.write(&batch).expect("JSON");
            writer.finish().expect("JSON");
            serde_json::from_slice::<serde_json::Value>(&writer.into_inner()).expect("JSON")
        };
        let everything = objects(ObjectDepth::All, None, None, None, None);
        assert_eq!(everything[0]["catalog_name"], "freestone");
        let schema = &everything[0]["catalog_db_schemas"][0];
        assert_eq!(schema["db_schema_name"], "public");
        let names = |tables: &serde_json::Value| -> Vec<String> {
            let tables = tables.as_array().expect("tables").iter();
            tables.map(|table| format!("{} {}", table["table_name"], table["table_type"]).replace('"', "")).collect()
        };
        assert_eq!(names(&schema["db_schema_tables"]), ["d TABLE", "t TABLE", "broken VIEW", "v VIEW"]);
        let t = &schema["db_schema_tables"][1];
        assert_eq!(t["table_columns"][3]["column_name"], "price");
        assert_eq!(t["table_columns"][3]["ordinal_position"], 4);
        assert_eq!(t["table_columns"][3]["xdbc_column_size"], 12);
        assert_eq!(t["table_columns"][0]["xdbc_is_nullable"], "NO");
        assert_eq!(t["table_constraints"][0]["constraint_type"], "PRIMARY KEY");
        assert_eq!(t["table_constraints"][0]["constraint_column_names"], serde_json::json!(["a"]));
        let foreign = &t["table_constraints"][1];
        assert_eq!(foreign["constraint_column_names"], serde_json::json!(["k", "part"]));
        assert_eq!(foreign["constraint_column_usage"][1]["fk_table"], "d");
        assert_eq!(foreign["constraint_column_usage"][1]["fk_column_name"], "part");

        let tables = |found: serde_json::Value| names(&found[0]["catalog_db_schemas"][0]["db_schema_tables"]);
        assert_eq!(
            tables(objects(ObjectDepth::Tables, None, Some("_"), Some(vec!["TABLE"]), None)),
            ["d TABLE", "t TABLE"]
        );
        assert_eq!(tables(objects(ObjectDepth::Tables, Some("free%"), Some("%ro%n"), None, None)), ["broken VIEW"]);
        assert!(tables(objects(ObjectDepth::Tables, None, Some("T"), None, None)).is_empty());
        let columns = objects(ObjectDepth::Columns, None, Some("t"), None, Some("p%"));
        let columns = &columns[0]["catalog_db_schemas"][0]["db_schema_tables"][0]["table_columns"];
        assert_eq!(columns.as_array().expect("columns").len(), 2);
        let catalogs = objects(ObjectDepth::Catalogs, None, None, None, None);
        assert!(catalogs[0].get("catalog_db_schemas").is_none_or(serde_json::Value::is_null));
        let schemas = objects(ObjectDepth::Schemas, None, None, None, None);
        assert!(schemas[0]["catalog_db_schemas"][0].get("db_schema_tables").is_none_or(serde_json::Value::is_null));
        assert_eq!(objects(ObjectDepth::All, Some("other"), None, None, None), serde_json::json!([]));
        let types = all(connection.get_table_types().expect("types"));
        assert_eq!(types.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["TABLE", "VIEW"]);
        for sql in ["DROP VIEW v", "DROP VIEW broken", "DROP TABLE t", "DROP TABLE d"] {
            update(connection, sql);
        }
    });
}

#[test]
fn info_and_statistics_are_told() {
    Places::new().each(|connection, _| {
        let info = all(connection.get_info(None).expect("info"));
        assert_eq!(info.num_rows(), 9);
        let codes = HashSet::from([InfoCode::VendorName, InfoCode::DriverAdbcVersion, InfoCode::Other(70_000)]);
        let some = all(connection.get_info(Some(codes)).expect("info"));
        assert_eq!(some.column(0).as_primitive::<UInt32Type>().values(), &[0, 103]);
        let values = some.column(1).as_union();
        assert_eq!(values.value(0).as_string::<i32>().value(0), "Freestone");
        assert_eq!(values.value(1).as_primitive::<Int64Type>().value(0), 1_001_000);

        update(connection, "CREATE TABLE n AS SELECT value AS a, 'x' || value AS s FROM generate_series(1, 1000)");
        update(connection, "CREATE TABLE m AS SELECT 1 AS a");
        let names = all(connection.get_statistic_names().expect("names"));
        assert_eq!(names.column(0).as_string::<i32>().value(0), "freestone.statistic.stored_bytes");
        let statistics = |approximate| {
            let batch = all(connection.get_statistics(None, Some("pub%"), Some("n"), approximate).expect("statistics"));
            let schemas = batch.column(1).as_list::<i32>().value(0);
            let list = schemas.as_struct().column(1).as_list::<i32>().value(0);
            let rows = list.as_struct();
            let (columns, keys) = (rows.column(1).as_string::<i32>(), rows.column(2).as_primitive::<Int16Type>());
            let values = rows.column(3).as_union();
            let row = |at: usize| {
                let column = columns.is_valid(at).then(|| columns.value(at).to_owned());
                ((column, keys.value(at)), arrow::util::display::array_value_to_string(&values.value(at), 0))
            };
            (0..rows.len()).map(row).collect::<std::collections::HashMap<_, _>>()
        };
        let known = statistics(true);
        let value = |column: Option<&str>, key: i16| {
            let found = known.get(&(column.map(str::to_owned), key));
            found.unwrap_or_else(|| panic!("{column:?} {key}")).as_ref().expect("a text").clone()
        };
        assert_eq!(value(None, 6), "1000");
        assert_eq!(
            (value(Some("a"), 4), value(Some("a"), 3), value(Some("a"), 5)),
            ("1".into(), "1000".into(), "0".into())
        );
        assert!(value(Some("s"), 1).parse::<f64>().expect("a number") > 100.0);
        let exact = statistics(false);
        assert!(exact.len() < known.len() && !exact.contains_key(&(Some("s".into()), 1)));
        let hidden = connection.get_statistics(Some("x"), None, None, true).expect("statistics");
        assert_eq!(all(hidden).num_rows(), 0);
        update(connection, "DROP TABLE n");
        update(connection, "DROP TABLE m");
    });
}

#[test]
fn connections_have_settings_of_their_own_and_threads_may_share_a_database() {
    let places = Places::new();
    for uri in [":memory:", &places.login()] {
        let database = open(&[("uri", uri)]).expect("a database");
        let mut one = database.new_connection().expect("a connection");
        let mut other = database.new_connection().expect("a connection");
        update(&mut one, "SET design = 'row'");
        let design = |connection: &mut FreestoneConnection| {
            rows(connection, "SHOW design").column(1).as_string::<i32>().value(0).to_owned()
        };
        assert_eq!((design(&mut one), design(&mut other)), ("row".into(), "auto".into()));
        update(&mut one, "CREATE TABLE shared AS SELECT value AS a FROM generate_series(1, 100000)");
        let connections: Vec<_> = (0..4).map(|_| database.new_connection().expect("a connection")).collect();
        let sum = |mut connection: FreestoneConnection| move || number(&mut connection, "SELECT sum(a) FROM shared");
        let running: Vec<_> = connections.into_iter().map(|c| std::thread::spawn(sum(c))).collect();
        assert!(running.into_iter().all(|thread| thread.join().expect("a thread") == 5_000_050_000));
        update(&mut one, "DROP TABLE shared");
    }
}

#[test]
fn callers_may_be_on_threads_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let database = open(&[]).expect("memory");
        let mut connection = database.new_connection().expect("a connection");
        assert_eq!(number(&mut connection, "SELECT count(*) FROM generate_series(1, 100000)"), 100_000);
    });
}
