//! `freestone ui` for its user: the address, the login by its code, reading while others write, and the end.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow::ipc::reader::StreamReader;
use arrow::util::display::array_value_to_string;
use serde_json::{Value, json};

/// A running console, which ends with the test.
struct Console {
    child: Child,
    stderr: BufReader<ChildStderr>,
    address: String,
    code: String,
    cookie: Option<String>,
}

impl Console {
    fn start(arguments: &[&str]) -> Console {
        let mut child =
            command(&[&["ui", "--no-open", "--threads", "2"], arguments].concat()).spawn().expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut console = Console { child, stderr, address: String::new(), code: String::new(), cookie: None };
        console.read_code("listening: ");
        console
    }

    /// Reads lines up to an address with a code.
    fn read_code(&mut self, before: &str) {
        loop {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).expect("a line") > 0, "the console has ended");
            if let Some((_, found)) = line.trim_end().split_once(before) {
                let (address, code) =
                    found.strip_prefix("http://").and_then(|found| found.split_once("/#code=")).expect("a code");
                (self.address, self.code) = (address.to_owned(), code.to_owned());
                return;
            }
        }
    }

    /// Status, cookie and body of the answer to a request.
    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Option<String>, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nX-Freestone: 1\r\nContent-Type: application/json\r\n\
             {cookie}Content-Length: {1}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = vec![];
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|end| end == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let cookie = header("set-cookie: ").and_then(|cookie| cookie.split(';').next().map(str::to_owned));
        let is_chunked = header("transfer-encoding: ").is_some();
        (status, cookie, if is_chunked { without_chunks(&answer[end..]) } else { answer[end..].to_vec() })
    }

    fn log_in(&mut self) {
        let (status, cookie, body) = self.send("POST", "/api/login", &json!({ "code": self.code }));
        assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
        self.cookie = cookie;
    }

    fn session(&self) -> Value {
        serde_json::from_slice(&self.send("GET", "/api/session", &Value::Null).2).expect("JSON")
    }

    /// The first value of the last statement, or its error's SQLSTATE.
    fn run(&self, sql: &str) -> Result<String, String> {
        let (status, _, body) = self.send("POST", "/api/query", &json!({ "tab": "test", "sql": sql }));
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let (mut rest, mut stream) = (&body[..], vec![]);
        while let [kind, a, b, c, d, after @ ..] = rest {
            let (payload, next) = after.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            match kind {
                b'A' => stream.extend_from_slice(payload),
                b'S' => stream.clear(),
                b'E' => {
                    let error: Value = serde_json::from_slice(payload).expect("JSON");
                    return Err(error["sqlstate"].as_str().expect("text").to_owned());
                }
                _ => {}
            }
            rest = next;
        }
        let Some(Ok(batch)) = StreamReader::try_new(&stream[..], None).ok().and_then(|mut batches| batches.next())
        else {
            return Ok(String::new());
        };
        Ok(array_value_to_string(batch.column(0), 0).expect("a value"))
    }

    fn stop(mut self, signal: &str) -> Option<i32> {
        common::end(&mut self.child, signal, Duration::from_secs(30))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn without_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = vec![];
    while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
        let size = String::from_utf8_lossy(&rest[..end]).into_owned();
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    body
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn freestone(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn a_console_reads_while_another_process_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("sales");
    let database = path_text(&database);
    assert!(freestone(&[database, "-c", "CREATE TABLE t AS SELECT 1 AS a"]).status.success());
    let mut writer = Console::start(&[database, "--write"]);
    writer.log_in();
    assert_eq!(writer.run("INSERT INTO t VALUES (2)"), Ok(String::new()));
    let mut console = Console::start(&[database]);
    assert_eq!(console.session()["login"], "code");
    console.log_in();
    let session = console.session();
    assert_eq!(
        (&session["database"], &session["write"], &session["role"]),
        (&json!("sales"), &json!(false), &json!("admin"))
    );
    assert_eq!(console.run("SELECT sum(a) FROM t"), Ok("3".into()));
    assert_eq!(writer.run("INSERT INTO t VALUES (3)"), Ok(String::new()));
    assert_eq!(console.run("SELECT sum(a) FROM t"), Ok("6".into()));
    for sql in ["INSERT INTO t VALUES (4)", "CREATE TABLE s (a INT)", "DROP TABLE t", "VACUUM"] {
        assert_eq!(console.run(sql), Err("25006".into()), "{sql}");
    }
    // Each code is for one login; the next one is printed.
    let used = console.code.clone();
    assert_eq!(console.send("POST", "/api/login", &json!({ "code": used })).0, 401);
    console.read_code("for another one: ");
    assert_ne!(console.code, used);
    console.log_in();
    assert_eq!(console.run("SELECT 42"), Ok("42".into()));
    assert_eq!(writer.stop("-TERM"), Some(0));
    assert_eq!(console.run("SELECT sum(a) FROM t"), Ok("6".into()));
    assert_eq!(console.stop("-INT"), Some(0));
}

#[test]
fn a_database_has_the_same_address_at_each_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (database, other) = (folder.path().join("sales"), folder.path().join("other").join("sales"));
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    let session = |console: &mut Console| {
        console.log_in();
        console.session()
    };
    let mut first = Console::start(&[path_text(&database), "--write"]);
    let (address, told) = (first.address.clone(), session(&mut first));
    assert_eq!(first.stop("-TERM"), Some(0));
    let mut again = Console::start(&[path_text(&database)]);
    assert_eq!(again.address, address, "browsers keep scripts by address");
    assert_eq!(session(&mut again)["id"], told["id"]);
    // The port of one that runs is not taken from it.
    let mut beside = Console::start(&[path_text(&database)]);
    assert_ne!(beside.address, address);
    assert_eq!(session(&mut beside)["id"], told["id"]);
    let port = address.rsplit_once(':').expect("a port").1;
    let refused = freestone(&["ui", path_text(&database), "--no-open", "--port", port]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && message.contains(port), "{message}");
    assert_eq!(again.stop("-TERM"), Some(0));
    let mut other = Console::start(&[path_text(&other), "--write", "--port", port]);
    assert_eq!(other.address, address);
    let session = session(&mut other);
    assert_eq!(session["database"], told["database"]);
    assert_ne!(session["id"], told["id"], "databases of one name are told apart");
}

#[test]
fn a_console_writes_if_it_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("new");
    let refused = freestone(&["ui", path_text(&database), "--no-open"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        message.contains("there is no database") && message.contains("hint:") && message.contains("--write"),
        "{message}"
    );
    let mut console = Console::start(&[path_text(&database), "--write"]);
    console.log_in();
    assert_eq!(console.session()["write"], true);
    assert_eq!(console.run("CREATE TABLE t AS SELECT 7 AS a; SELECT a FROM t"), Ok("7".into()));
    assert_eq!(console.stop("-TERM"), Some(0));
    let kept = freestone(&[path_text(&database), "-c", "SELECT a FROM t", "--format", "csv"]);
    assert_eq!(String::from_utf8_lossy(&kept.stdout), "a\n7\n");
}

#[test]
fn a_console_without_a_database_is_in_memory() {
    let mut console = Console::start(&[]);
    console.log_in();
    let session = console.session();
    assert_eq!((&session["database"], &session["write"]), (&json!(":memory:"), &json!(true)));
    assert_eq!(console.run("CREATE TABLE t AS SELECT 5 AS a; SELECT a FROM t"), Ok("5".into()));
    let page = console.send("GET", "/", &Value::Null);
    assert_eq!(page.0, 200);
    assert!(String::from_utf8_lossy(&page.2).contains("<title>Freestone"));
    // A statement that runs does not keep Ctrl-C from ending it.
    let body = json!({ "tab": "long", "sql": "SELECT count(*) FROM generate_series(1, 100000000000) a" }).to_string();
    let mut stream = TcpStream::connect(&console.address).expect("a connection");
    let cookie = console.cookie.as_deref().expect("a cookie");
    let request = format!(
        "POST /api/query HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nX-Freestone: 1\r\nContent-Type: application/json\r\nCookie: {cookie}\r\n\
         Content-Length: {1}\r\n\r\n{body}",
        console.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut first = [0; 64];
    assert!(stream.read(&mut first).expect("an answer") > 0);
    let began = Instant::now();
    assert_eq!(console.stop("-INT"), Some(0));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
