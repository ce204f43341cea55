//! The console's server over HTTP: logins, statements and the frames of their results.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::util::display::array_value_to_string;
use bytes::{Bytes, BytesMut};
use freestone_server::{Limits, ServerOptions};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::server::{PASSWORD, TestServer};

/// More rows than anybody reads.
pub const HUGE: &str = "SELECT value, repeat('freestone ', 20) || value AS s FROM generate_series(1, 1000000000)";
/// A statement that runs for long and has no rows meanwhile.
pub const LONG: &str = "SELECT count(*) FROM generate_series(1, 100000000000) a";

pub async fn server(limits: Limits) -> TestServer {
    let any = || Some("127.0.0.1:0".to_owned());
    TestServer::start(ServerOptions { http: any(), metrics: any(), limits, ..Default::default() }).await
}

/// A browser with its cookie.
#[derive(Clone)]
pub struct Browser {
    pub address: String,
    pub cookie: Option<String>,
}

impl Browser {
    pub fn of(server: &TestServer) -> Browser {
        Browser { address: server.address("http").to_owned(), cookie: None }
    }

    /// A browser in which a user has logged in.
    pub async fn logged_in(server: &TestServer, user: &str) -> Browser {
        let mut browser = Browser::of(server);
        let answer = browser.log_in(json!({ "user": user, "password": PASSWORD })).await;
        assert_eq!(answer, 204);
        browser
    }

    /// Logs in, and keeps the cookie.
    pub async fn log_in(&mut self, credentials: Value) -> u16 {
        let answer = self.post("/api/login", credentials).await;
        if let Some(cookie) = answer.headers().get(header::SET_COOKIE) {
            let cookie = cookie.to_str().expect("text").to_owned();
            assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        answer.status().as_u16()
    }

    /// A request as the page sends it.
    pub fn request(&self, method: &str, path: &str) -> hyper::http::request::Builder {
        let request = Request::builder().method(method).uri(path).header("host", &self.address);
        let request = request.header("origin", format!("http://{}", self.address)).header("x-freestone", "1");
        let request = request.header("content-type", "application/json");
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(&self.address).await.expect("a connection");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        sender.send_request(request).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Response<Incoming> {
        self.send(self.request("GET", path).body(Full::default()).expect("a request")).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Response<Incoming> {
        self.send(self.request("POST", path).body(body.to_string().into()).expect("a request")).await
    }

    pub async fn session(&self) -> Value {
        let answer = self.get("/api/session").await;
        assert_eq!(answer.status(), 200);
        json_of(answer).await
    }

    /// Begins statements in a tab.
    pub async fn query(&self, tab: &str, sql: &str) -> Frames {
        self.query_with(json!({ "tab": tab, "sql": sql })).await
    }

    pub async fn query_with(&self, body: Value) -> Frames {
        let answer = self.post("/api/query", body).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/vnd.freestone.frames");
        Frames { body: answer.into_body(), buffer: BytesMut::new() }
    }

    /// The results of statements in a tab.
    pub async fn run(&self, tab: &str, sql: &str) -> Results {
        self.query(tab, sql).await.results().await
    }

    pub async fn cell(&self, tab: &str, sql: &str) -> String {
        self.run(tab, sql).await.cell(0, 0)
    }
}

pub async fn json_of(answer: Response<Incoming>) -> Value {
    let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The frames of an answer, as they come.
pub struct Frames {
    body: Incoming,
    buffer: BytesMut,
}

impl Frames {
    /// The next frame. `None` at the end; an error if the server has given up.
    pub async fn next(&mut self) -> Result<Option<(char, Bytes)>, hyper::Error> {
        loop {
            if let Some(head) = self.buffer.get(..5) {
                let length = u32::from_le_bytes(head[1..5].try_into().expect("four bytes")) as usize;
                if self.buffer.len() >= 5 + length {
                    let mut frame = self.buffer.split_to(5 + length).freeze();
                    let kind = frame.split_to(5)[0] as char;
                    return Ok(Some((kind, frame)));
                }
            }
            match self.body.frame().await {
                Some(part) => self.buffer.extend_from_slice(&part?.into_data().unwrap_or_default()),
                None if self.buffer.is_empty() => return Ok(None),
                None => panic!("the answer ends within a frame"),
            }
        }
    }

    /// The next frame of JSON, without those about progress.
    pub async fn next_json(&mut self) -> (char, Value) {
        loop {
            let (kind, payload) = self.next().await.expect("a frame").expect("not the end");
            if kind != 'A' && kind != 'P' {
                return (kind, serde_json::from_slice(&payload).expect("JSON"));
            }
        }
    }

    /// All results, up to the end.
    pub async fn results(mut self) -> Results {
        let mut results = Results::default();
        let mut stream = vec![];
        while let Some((kind, payload)) = self.next().await.expect("a frame") {
            assert!(results.error.is_none(), "a frame follows the error");
            let value = || serde_json::from_slice::<Value>(&payload).expect("JSON");
            match kind {
                'S' => results.begun.push(value()),
                'A' => stream.extend_from_slice(&payload),
                'P' => results.progress.push(value()),
                'N' => results.notices.push(value()["message"].as_str().expect("text").to_owned()),
                'D' => {
                    results.batches.push(batches(&std::mem::take(&mut stream)));
                    results.done.push(value());
                }
                'E' => results.error = Some(value()),
                other => panic!("a frame of kind {other}"),
            }
        }
        results
    }
}

fn batches(stream: &[u8]) -> VecDeque<RecordBatch> {
    if stream.is_empty() {
        return VecDeque::new();
    }
    StreamReader::try_new(stream, None).expect("a stream").map(|batch| batch.expect("rows")).collect()
}

/// What statements have given.
#[derive(Default)]
pub struct Results {
    pub begun: Vec<Value>,
    pub done: Vec<Value>,
    pub batches: Vec<VecDeque<RecordBatch>>,
    pub progress: Vec<Value>,
    pub notices: Vec<String>,
    pub error: Option<Value>,
}

impl Results {
    /// The first value of a column of a statement.
    pub fn cell(&self, statement: usize, column: usize) -> String {
        assert_eq!(self.error, None);
        array_value_to_string(self.batches[statement][0].column(column), 0).expect("a value")
    }

    pub fn rows(&self, statement: usize) -> usize {
        self.batches[statement].iter().map(RecordBatch::num_rows).sum()
    }

    /// The SQLSTATE of the error.
    pub fn state(&self) -> &str {
        self.error.as_ref().and_then(|error| error["sqlstate"].as_str()).expect("an error")
    }

    /// Message, line and column of the error.
    pub fn place(&self) -> (&str, Option<u64>, Option<u64>) {
        let error = self.error.as_ref().expect("an error");
        (error["message"].as_str().expect("text"), error["line"].as_u64(), error["column"].as_u64())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_and_out() {
    let server = server(Limits::default()).await;
    let mut browser = Browser::of(&server);
    let session = browser.session().await;
    assert_eq!(session, json!({ "login": "password", "version": env!("CARGO_PKG_VERSION") }));
    for (user, password) in [("ann", "wrong"), ("nobody", PASSWORD), ("ann", "")] {
        assert_eq!(browser.log_in(json!({ "user": user, "password": password })).await, 401, "{user} {password}");
    }
    assert_eq!(browser.log_in(json!({ "code": "x" })).await, 400);
    assert!(browser.cookie.is_none());
    assert_eq!(browser.log_in(json!({ "user": "ann", "password": PASSWORD })).await, 204);
    let session = browser.session().await;
    assert_eq!(
        (&session["login"], &session["user"], &session["role"]),
        (&json!("none"), &json!("ann"), &json!("admin"))
    );
    assert_eq!(
        (&session["write"], &session["threads"], &session["database"]),
        (&json!(true), &json!(2), &json!(":memory:"))
    );
    // A second login of the same browser replaces the first one.
    let first = browser.clone();
    assert_eq!(browser.log_in(json!({ "user": "rita", "password": PASSWORD })).await, 204);
    assert_eq!(first.session().await["login"], "password");
    let session = browser.session().await;
    assert_eq!((&session["user"], &session["write"]), (&json!("rita"), &json!(false)));
    assert_eq!(browser.post("/api/logout", json!({})).await.status(), 204);
    assert_eq!(browser.post("/api/query", json!({ "tab": "a", "sql": "SELECT 1" })).await.status(), 401);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_is_for_one_login() {
    use freestone_server::Plan;
    let options = || ServerOptions { http: Some("127.0.0.1:0".into()), one_time_code: true, ..Default::default() };
    assert!(Plan::of(ServerOptions { no_auth: true, ..options() }).is_err());
    let plan = Plan::of(options()).expect("a plan");
    let database = freestone::Database::in_memory(freestone::Options::default()).expect("a database");
    let running = plan.bind(database, tokio::runtime::Handle::current()).await.expect("a server");
    let address = running.addresses()[0].strip_prefix("http://").expect("HTTP").to_owned();
    let mut codes = running.code().expect("codes");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(running.run(async { drop(stopped.await) }));
    let mut browser = Browser { address, cookie: None };
    assert_eq!(browser.session().await["login"], "code");
    let code = codes.borrow_and_update().clone();
    assert_eq!(browser.log_in(json!({ "code": "wrong" })).await, 401);
    assert_eq!(browser.log_in(json!({ "user": "freestone", "password": code })).await, 400);
    assert_eq!(browser.log_in(json!({ "code": code })).await, 204);
    assert_eq!(browser.cell("a", "SELECT 42").await, "42");
    let mut other = Browser { cookie: None, ..browser.clone() };
    assert_eq!(other.log_in(json!({ "code": code })).await, 401);
    codes.changed().await.expect("another code");
    let next = codes.borrow_and_update().clone();
    assert_eq!(other.log_in(json!({ "code": next })).await, 204);
    assert_eq!(browser.cell("a", "SELECT 43").await, "43");
    drop(stop);
    task.await.expect("the server ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_are_those_of_the_other_protocols() {
    let server = server(Limits::default()).await;
    let [ann, wes, rita] = [
        Browser::logged_in(&server, "ann").await,
        Browser::logged_in(&server, "wes").await,
        Browser::logged_in(&server, "rita").await,
    ];
    let made = wes.run("a", "CREATE TABLE t AS SELECT 1 AS a; INSERT INTO t VALUES (2), (3)").await;
    assert_eq!((&made.error, &made.done[1]["tag"], &made.done[1]["rows"]), (&None, &json!("INSERT"), &json!(2)));
    assert_eq!(rita.cell("a", "SELECT sum(a) FROM t").await, "6");
    assert_eq!(rita.run("a", "INSERT INTO t VALUES (4)").await.state(), "42501");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.csv");
    std::fs::write(&file, "a\n7\n").expect("written");
    let read = format!("SELECT a FROM '{}'", file.display());
    assert_eq!(wes.run("a", &read).await.state(), "42501");
    assert_eq!(ann.cell("a", &read).await, "7");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anybody_may_log_in_where_the_server_says_so() {
    let options = ServerOptions { http: Some("127.0.0.1:0".into()), no_auth: true, ..Default::default() };
    let server = TestServer::start(options).await;
    let browser = Browser::of(&server);
    let session = browser.session().await;
    assert_eq!((&session["login"], &session["role"]), (&json!("none"), &json!("admin")));
    assert_eq!(browser.cell("a", "SELECT 42").await, "42");
    // Without a login, the rules for requests of other sites are what protects the data.
    let query = || Full::from(json!({ "tab": "a", "sql": "SELECT 1" }).to_string());
    let mut request = browser.request("POST", "/api/query").body(query()).expect("a request");
    request.headers_mut().insert("origin", "https://evil.example".parse().expect("text"));
    assert_eq!(browser.send(request).await.status(), 403);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_stop_at_their_first_error_and_say_where() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let script =
        "CREATE TABLE t (a INT);\n  INSERT INTO t VALUES (1);  SELECT a FROM t;\n\n  SELECT b\n FROM t; DROP TABLE t";
    let results = browser.run("a", script).await;
    let begun: Vec<_> =
        results.begun.iter().map(|s| (s["index"].as_u64(), s["line"].as_u64(), s["column"].as_u64())).collect();
    let at = |index, line, column| (Some(index), Some(line), Some(column));
    assert_eq!(begun, [at(0, 1, 1), at(1, 2, 3), at(2, 2, 30), at(3, 4, 3)]);
    assert_eq!(results.begun[3]["text"], "SELECT b\n FROM t");
    assert_eq!((results.done.len(), results.rows(2)), (3, 1));
    let (message, line, column) = results.place();
    assert!(message.contains("no column b"), "{message}");
    assert_eq!((line, column), (Some(4), Some(10)));
    assert_eq!(results.state(), "42703");
    // What succeeded before has been committed, and what follows has not run.
    assert_eq!(browser.cell("b", "SELECT count(*) FROM t").await, "1");
    let wrong = browser.run("a", "SELECT 'ä';\n  SELEC 2").await;
    assert_eq!((wrong.done.len(), wrong.state()), (1, "42601"));
    let (message, line, column) = wrong.place();
    assert_eq!((line, column), (Some(2), Some(3)), "{message}");
    assert_eq!(browser.run("a", "  ; -- nothing\n").await.place().0, "there is no statement in the text");
    assert_eq!(browser.run("a", "SELECT 'open").await.state(), "42601");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_of_their_places() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let run = |sql: &'static str, parameters: Value| {
        let browser = browser.clone();
        async move { browser.query_with(json!({ "tab": "a", "sql": sql, "parameters": parameters })).await.results().await }
    };
    let made = "CREATE TABLE t (a BIGINT, b DECIMAL(38, 2), c DATE, d VARCHAR)";
    assert_eq!(browser.run("a", made).await.error, None);
    let insert = "INSERT INTO t VALUES ($1, $2, $3, $4); SELECT a FROM t WHERE c > $3";
    let values = json!(["9007199254740993", "123456789012345678901234567890123456.78", "2024-02-29", "<b>&"]);
    let inserted = run(insert, values).await;
    assert_eq!((&inserted.error, inserted.rows(1)), (&None, 0));
    let row =
        run("SELECT a, b, d FROM t WHERE c = $day AND d = $text", json!({ "day": "2024-02-29", "text": "<b>&" })).await;
    assert_eq!(row.cell(0, 0), "9007199254740993");
    assert_eq!((row.cell(0, 1), row.cell(0, 2)), ("123456789012345678901234567890123456.78".into(), "<b>&".into()));
    assert!(run("SELECT $1 + 1, ? IS NULL", json!([1])).await.place().0.contains("several kinds"));
    assert!(run("SELECT $1", json!([1, 2])).await.place().0.contains("1 parameters"));
    assert!(run("SELECT $a", json!({ "b": 1 })).await.place().0.contains("$b"));
    let wrong = browser.post("/api/query", json!({ "tab": "a", "sql": "SELECT $1", "parameters": [[1]] })).await;
    assert_eq!(wrong.status(), 400);
    assert!(json_of(wrong).await["error"]["message"].as_str().is_some_and(|message| message.contains("$1")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tabs_are_sessions_of_their_own() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let begun = browser.run("one", "CREATE TEMP TABLE t AS SELECT 1 AS a; SET freestone.design = 'row'; BEGIN").await;
    assert_eq!((&begun.error, &begun.done[2]["transaction"]), (&None, &json!("open")));
    assert_eq!(browser.run("two", "SELECT * FROM t").await.state(), "42P01");
    let design = "SELECT current_setting('freestone.design')";
    assert_eq!(browser.cell("one", design).await, "row");
    assert_ne!(browser.cell("two", design).await, "row");
    let failed = browser.run("one", "SELECT * FROM nothing").await;
    assert_eq!(failed.state(), "42P01");
    assert_eq!(browser.run("one", "SELECT 1").await.state(), "25P02");
    assert_eq!(browser.run("one", "ROLLBACK").await.done[0]["transaction"], Value::Null);
    assert_eq!(browser.cell("one", "SELECT a FROM t").await, "1");
    // A second list of statements has to wait for the first one.
    let mut running = browser.query("two", LONG).await;
    assert_eq!(running.next_json().await.0, 'S');
    let refused = browser.post("/api/query", json!({ "tab": "two", "sql": "SELECT 1" })).await;
    assert_eq!(refused.status(), 409);
    assert_eq!(browser.cell("one", "SELECT 42").await, "42");
    assert_eq!(browser.post("/api/cancel", json!({ "tab": "two" })).await.status(), 204);
    let (kind, error) = running.next_json().await;
    assert_eq!((kind, &error["sqlstate"]), ('E', &json!("57014")));
    assert!(running.next().await.expect("the end").is_none());
    assert_eq!(browser.post("/api/cancel", json!({ "tab": "two" })).await.status(), 204);
    assert_eq!(browser.post("/api/cancel", json!({ "tab": "never" })).await.status(), 204);
    assert_eq!(browser.cell("two", "SELECT 43").await, "43");
    assert_eq!(browser.post("/api/close", json!({ "tab": "one" })).await.status(), 204);
    assert_eq!(browser.run("one", "SELECT a FROM t").await.state(), "42P01");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_cut_and_their_progress_is_told() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    for (most, of, expected) in
        [(3, 5, (3, true)), (5, 5, (5, false)), (6, 5, (5, false)), (0, 5, (0, true)), (0, 0, (0, false))]
    {
        let sql = format!("SELECT value FROM generate_series(1, {of}); SELECT 1");
        let results = browser.query_with(json!({ "tab": "a", "sql": sql, "max_rows": most })).await.results().await;
        assert_eq!(results.error, None);
        let done = &results.done[0];
        assert_eq!((results.rows(0), done["truncated"] == true), expected, "{most} of {of}");
        assert_eq!(done["rows"].as_u64(), Some(expected.0 as u64));
        assert_eq!(results.batches.len(), 2);
    }
    let mut long = browser.query("a", LONG).await;
    let mut progress = vec![];
    while progress.len() < 2 {
        match long.next().await.expect("a frame").expect("not the end") {
            ('P', payload) => progress.push(serde_json::from_slice::<Value>(&payload).expect("JSON")),
            ('S' | 'A', _) => {}
            other => panic!("{other:?}"),
        }
    }
    let ms: Vec<f64> = progress.iter().map(|progress| progress["ms"].as_f64().expect("a number")).collect();
    assert!(ms[0] >= 100.0 && ms[1] > ms[0], "{ms:?}");
    assert!(progress.iter().all(|progress| progress["share"].is_null()), "it reads no table: {progress:?}");
    drop(long);
    browser.run("c", "CREATE TABLE numbers AS SELECT value FROM generate_series(1, 1000)").await;
    let sql = "SELECT x.value FROM numbers AS x, generate_series(1, 1000000000) AS y WHERE x.value * y.value % 7 = 9";
    let mut long = browser.query("c", sql).await;
    let share = loop {
        match long.next().await.expect("a frame").expect("not the end") {
            ('P', payload) => {
                let progress = serde_json::from_slice::<Value>(&payload).expect("JSON");
                if let Some(share) = progress["share"].as_f64() {
                    break share;
                }
            }
            ('S' | 'A', _) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!((0.0..=1.0).contains(&share), "{share}");
    drop(long);
    let notices = browser.run("b", "CREATE TABLE k (a INT PRIMARY KEY NOT ENFORCED)").await.notices;
    assert!(notices.len() == 1 && notices[0].contains("not enforced"), "{notices:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_sent_as_browsers_read_it() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let values = [
        ("true", "true"),
        ("CAST(9223372036854775807 AS BIGINT)", "9223372036854775807"),
        ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))", "99999999999999999999999999999999999999"),
        ("TIMESTAMP '2024-02-29 01:02:03.123456'", "2024-02-29T01:02:03.123456"),
        ("DATE '2024-02-29'", "2024-02-29"),
        ("TIME '01:02:03'", "01:02:03"),
        ("'text'", "text"),
        ("NULL", ""),
        ("[1, NULL, 3]", "[1, , 3]"),
        ("['a', 'b']", "[a, b]"),
        ("{'s': 'x', 'l': ['y']}", "{s: x, l: [y]}"),
        ("MAP {'k': 'v'}", "{k: v}"),
        ("CAST('x' AS BYTEA)", "78"),
        ("CAST('01234567-89ab-cdef-0123-456789abcdef' AS UUID)", ""),
        ("INTERVAL '1 month 2 days'", ""),
    ];
    let columns: Vec<String> = values.iter().enumerate().map(|(at, (sql, _))| format!("{sql} AS c{at}")).collect();
    let results = browser.run("a", &format!("SELECT {}", columns.join(", "))).await;
    let schema = results.batches[0][0].schema();
    for (at, (sql, expected)) in values.iter().enumerate() {
        let shown = results.cell(0, at);
        assert!(shown == *expected || expected.is_empty(), "{sql}: {shown}");
        let kind = schema.field(at).data_type().to_string();
        for unread in ["View", "Large", "RunEnd", "Decimal32", "Decimal64"] {
            assert!(!kind.contains(unread), "{sql}: {kind}");
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_looks_like_html_is_data() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let evil = "</script><img src=x onerror=alert(1)>\u{202e}\\\"&amp;";
    let sql = format!("SELECT '{evil}' AS \"{}\"", evil.replace('"', "\"\""));
    let results = browser.run("a", &sql).await;
    assert_eq!(results.cell(0, 0), evil);
    assert_eq!(results.batches[0][0].schema().field(0).name(), evil);
    assert_eq!(results.begun[0]["text"], sql);
    let wrong = browser.run("a", "SELECT * FROM \"<script>alert(1)</script>\"").await;
    assert!(wrong.place().0.contains("<script>"), "{}", wrong.place().0);
    let refused = browser.post("/api/query", json!({ "tab": "<script>", "sql": "SELECT 1" })).await;
    assert_eq!(
        (refused.status().as_u16(), refused.headers()["content-type"].as_bytes()),
        (400, &b"application/json"[..])
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_the_metrics_are_served() {
    let server = server(Limits::default()).await;
    let browser = Browser::of(&server);
    let page = browser.get("/").await;
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (200, &"text/html; charset=utf-8".parse().expect("text"))
    );
    let policy = page.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in
        [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("x-frame-options", "DENY")]
    {
        assert_eq!(page.headers()[name], value, "{name}");
    }
    let text = page.into_body().collect().await.expect("a page").to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("<title>Freestone"), "a page");
    let metrics = browser.get("/metrics").await;
    assert_eq!(metrics.headers()["content-type"], "text/plain; version=0.0.4");
    let text = metrics.into_body().collect().await.expect("text").to_bytes();
    assert!(String::from_utf8_lossy(&text).contains("\nfreestone_statements_total 0\n"));
    assert_eq!(browser.get("/health").await.status(), 200);
    assert_eq!(server.metric("statements_total").await, 0.0);
    server.stop().await;
}
