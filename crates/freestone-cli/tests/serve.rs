//! `freestone serve` and `freestone user` for their users.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The time for something to arrive on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, which ends with the test.
struct Server {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    addresses: Vec<String>,
    password: Option<String>,
}

impl Server {
    /// Starts a server and waits until it has printed `addresses` addresses.
    fn start(arguments: &[&str], addresses: usize) -> Server {
        Server::start_in(&[], arguments, addresses)
    }

    /// The same with more environment variables.
    fn start_in(environment: &[(&str, &str)], arguments: &[&str], addresses: usize) -> Server {
        let mut command = command(&[&["serve"], arguments].concat());
        let mut child = command.envs(environment.iter().copied()).spawn().expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut server = Server { child, stderr, addresses: vec![], password: None };
        while server.addresses.len() < addresses {
            let mut line = String::new();
            assert!(server.stderr.read_line(&mut line).expect("a line") > 0, "the server has ended");
            let line = line.trim_end();
            if let Some(address) = line.strip_prefix("listening: ") {
                server.addresses.push(address.to_owned());
            }
            if let Some(password) = line.strip_prefix("password: ") {
                server.password = Some(password.to_owned());
            }
        }
        server
    }

    fn postgres(&self) -> &str {
        self.addresses.iter().find_map(|address| address.strip_prefix("postgres://")).expect("an address")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.postgres()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    fn terminate(mut self) -> Option<i32> {
        common::end(&mut self.child, "-TERM", PATIENCE)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freestone"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn freestone(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments).spawn().expect("the binary starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    child.wait_with_output().expect("the process ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

fn check_refused(arguments: &[&str], parts: &[&str]) {
    let output = freestone(&[&["serve"], arguments].concat(), "");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
    assert!(message.starts_with("error: ") && !message.contains("listening"), "{arguments:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{arguments:?}: `{part}` is missing in: {message}");
    }
}

fn users_file(folder: &TempDir) -> PathBuf {
    let users = folder.path().join("users");
    for (name, role) in [("ann", "admin"), ("bob", "read")] {
        let output = freestone(&["user", "add", name, "--role", role, "--users", path_text(&users)], "secret\n");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    users
}

/// A startup message of PostgreSQL's protocol.
fn startup(user: &str) -> Vec<u8> {
    let body = [&196_608i32.to_be_bytes()[..], b"user\0", user.as_bytes(), b"\0\0"].concat();
    [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()
}

/// The kind and body of the next message.
fn message(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    if let Err(error) = stream.read_exact(&mut head) {
        let is_silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        assert!(!is_silent, "neither a message nor the end of the connection came: {error}");
        return None;
    }
    let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
    let mut body = vec![0; length as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// The messages up to and including the first of a kind.
fn until(stream: &mut TcpStream, kind: u8) -> Vec<(u8, Vec<u8>)> {
    let mut messages = vec![];
    while let Some(message) = message(stream) {
        let ends = message.0 == kind;
        messages.push(message);
        if ends {
            return messages;
        }
    }
    panic!("the connection ended before `{}`: {messages:?}", kind as char);
}

fn log_in(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(&startup("ann")).expect("sent");
    until(&mut stream, b'Z');
    stream
}

fn query(stream: &mut TcpStream, sql: &str) -> Vec<(u8, Vec<u8>)> {
    let body = [sql.as_bytes(), b"\0"].concat();
    let frame = [b"Q", &(body.len() as i32 + 4).to_be_bytes()[..], &body].concat();
    stream.write_all(&frame).expect("sent");
    until(stream, b'Z')
}

fn check_one(stream: &mut TcpStream) {
    let answer = query(stream, "SELECT 41 + 1");
    let row = answer.iter().find(|(kind, _)| *kind == b'D').expect("a row");
    assert_eq!(row.1, b"\0\x01\0\0\0\x0242");
}

#[test]
fn users_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = users_file(&folder);
    let mode = fs::metadata(&users).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let users = path_text(&users);
    assert_eq!(text(&freestone(&["user", "list", "--users", users], "").stdout), "ann\tadmin\nbob\tread\n");
    assert!(!fs::read_to_string(users).expect("text").contains("secret"));
    assert_eq!(freestone(&["user", "remove", "bob", "--users", users], "").status.code(), Some(0));
    assert_eq!(freestone(&["user", "remove", "bob", "--users", users], "").status.code(), Some(1));
    assert_eq!(freestone(&["user", "add", "x:y", "--role", "read", "--users", users], "p\n").status.code(), Some(1));
    assert_eq!(freestone(&["user", "add", "eve", "--role", "read", "--users", users], "\n").status.code(), Some(1));
    assert_eq!(freestone(&["user", "add", "eve", "--role", "root", "--users", users], "p\n").status.code(), Some(2));
}

#[test]
fn unsafe_configurations_are_refused_before_anything_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = users_file(&folder);
    let users = path_text(&users);
    let junk = folder.path().join("junk.pem");
    fs::write(&junk, "no certificate").expect("written");
    fs::set_permissions(&junk, fs::Permissions::from_mode(0o600)).expect("chmod");
    let junk = path_text(&junk);
    check_refused(&["--pg", "0.0.0.0:0"], &["public address", "hint:"]);
    check_refused(&["--pg", "0.0.0.0:0", "--no-auth"], &["public address"]);
    check_refused(&["--pg", "0.0.0.0:0", "--users", users], &["no TLS"]);
    check_refused(&["--pg", "127.0.0.1:0", "--metrics", "0.0.0.0:0"], &["metrics"]);
    check_refused(&["--pg", "127.0.0.1:0", "--tls-cert", junk, "--tls-key", junk], &["junk.pem"]);
    check_refused(&["--pg", "127.0.0.1:0", "--tls-cert", junk], &["--tls-key"]);
    check_refused(&["--pg", "127.0.0.1:0", "--users", "/no/such/file"], &["/no/such/file", "hint:"]);
    check_refused(&["--pg", "nonsense"], &["not an address"]);
    fs::set_permissions(users, fs::Permissions::from_mode(0o644)).expect("chmod");
    check_refused(&["--pg", "127.0.0.1:0", "--users", users], &["users", "chmod 600"]);
}

#[test]
fn a_server_serves_and_stops_at_sigterm() {
    let server = Server::start(&["--pg", "127.0.0.1:0", "--flight", "127.0.0.1:0", "--no-auth"], 2);
    assert!(server.addresses[0].starts_with("postgres://127.0.0.1:") && server.addresses[1].starts_with("flight://"));
    assert_eq!(server.password, None);
    let mut stream = log_in(&server);
    check_one(&mut stream);
    assert_eq!(server.terminate(), Some(0));
    let (kind, body) = message(&mut stream).expect("a last message");
    assert_eq!(kind, b'E');
    assert!(text(&body).contains("57P01"), "{}", text(&body));
}

#[test]
fn without_users_a_password_is_made_up_and_asked_for() {
    let server = Server::start(&["--pg", "127.0.0.1:0"], 1);
    assert!(server.password.as_ref().is_some_and(|password| password.len() >= 20));
    let mut stream = server.connect();
    stream.write_all(&startup("freestone")).expect("sent");
    let (kind, body) = message(&mut stream).expect("a message");
    assert!(kind == b'R' && text(&body).contains("SCRAM-SHA-256"));
    stream.write_all(b"p\0\0\0\x21SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc").expect("sent");
    let (kind, _) = message(&mut stream).expect("a challenge");
    assert_eq!(kind, b'R');
    stream.write_all(b"p\0\0\0\x14c=biws,r=x,p=AA=").expect("sent");
    let (kind, body) = message(&mut stream).expect("a refusal");
    assert!(kind == b'E' && text(&body).contains("FATAL"), "{}", text(&body));
    assert!(message(&mut stream).is_none());
}

#[test]
fn hostile_bytes_do_not_harm_others() {
    let server = Server::start(&["--pg", "127.0.0.1:0", "--no-auth", "--max-connections", "300"], 1);
    let mut honest = log_in(&server);
    let huge = [b"Q".as_slice(), &i32::MAX.to_be_bytes()].concat();
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\0\0\0\x04",
        b"\xff\xff\xff\xff",
        &[0x16, 3, 1, 0, 5],
        b"\0\0\0\x09\0\x03\0\0x",
    ] {
        let mut stream = server.connect();
        stream.write_all(bytes).expect("sent");
        // The server may have closed it already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = vec![];
        let _ = stream.read_to_end(&mut rest);
    }
    for bytes in [&huge[..], b"!\0\0\0\x04", b"P\0\0\0\x03"] {
        let mut stream = log_in(&server);
        stream.write_all(bytes).expect("sent");
        let (kind, _) = message(&mut stream).expect("an error");
        assert_eq!(kind, b'E', "{bytes:?}");
        assert!(message(&mut stream).is_none(), "{bytes:?}");
    }
    // Whole messages with other contents: as in PostgreSQL, the connection goes on behind the next Sync.
    for bytes in [&b"B\0\0\0\x05x"[..], b"E\0\0\0\x08\0\0\0\0"] {
        let mut stream = log_in(&server);
        for (sent, answer) in [(bytes, b'E'), (b"S\0\0\0\x04", b'Z')] {
            stream.write_all(sent).expect("sent");
            let (kind, _) = message(&mut stream).expect("an answer");
            assert_eq!(kind, answer, "{bytes:?}");
        }
        check_one(&mut stream);
    }
    // Connections that send nothing, or only part of a startup, do not exclude others.
    let mut idle = vec![];
    for at in 0..100 {
        let mut stream = server.connect();
        stream.write_all(&startup("ann")[..at % 8]).expect("sent");
        idle.push(stream);
    }
    check_one(&mut honest);
    check_one(&mut log_in(&server));
}

#[test]
fn two_hundred_connections_are_served_and_the_next_is_told() {
    let server = Server::start(&["--pg", "127.0.0.1:0", "--no-auth", "--max-connections", "200"], 1);
    let mut streams: Vec<TcpStream> = (0..200).map(|_| log_in(&server)).collect();
    streams.iter_mut().for_each(check_one);
    let mut refused = server.connect();
    refused.write_all(&startup("ann")).expect("sent");
    let (kind, body) = message(&mut refused).expect("a message");
    assert!(kind == b'E' && text(&body).contains("53300"));
    drop(streams.pop());
    let began = Instant::now();
    loop {
        let mut stream = server.connect();
        let _ = stream.write_all(&startup("ann"));
        if message(&mut stream).is_some_and(|(kind, _)| kind == b'R') {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no place became free");
    }
}

#[test]
fn metrics_are_prometheus_text() {
    let server = Server::start(&["--pg", "127.0.0.1:0", "--no-auth", "--metrics", "127.0.0.1:0"], 2);
    check_one(&mut log_in(&server));
    let answer = metrics(&server);
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(
        answer.contains("freestone_statements_total 1\n") && answer.contains("freestone_rows_sent_total 1\n"),
        "{answer}"
    );
}

/// The answer of the server to a request for its metrics.
/// Accepts traces, and gives the bytes of each request.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (sender, requests) = channel();
    spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("a connection"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
            let head = head.to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
            let mut body = vec![0; length.parse().expect("a number")];
            reader.read_exact(&mut body).expect("a body");
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            reader.get_mut().write_all(answer).expect("an answer");
            if sender.send([head.as_bytes(), &body].concat()).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

#[test]
fn statements_are_traced_without_their_texts() {
    let (url, requests) = collector();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token"),
        ("OTEL_SERVICE_NAME", "shop"),
    ];
    let server = Server::start_in(&environment, &["--pg", "127.0.0.1:0", "--no-auth"], 1);
    let mut stream = log_in(&server);
    query(&mut stream, "CREATE TABLE hidden (name VARCHAR)");
    query(&mut stream, "INSERT INTO hidden VALUES ('literal')");
    query(&mut stream, "SELECT name FROM hidden WHERE name = 'literal'");
    query(&mut stream, "SELECT no_such_column FROM hidden");
    drop(stream);
    // What waits is sent before the server ends.
    assert_eq!(server.terminate(), Some(0));
    let sent: Vec<u8> = requests.try_iter().flatten().collect();
    let has = |part: &str| sent.windows(part.len()).any(|window| window == part.as_bytes());
    assert!(has("post /v1/traces") && has("authorization: bearer token"));
    for part in ["shop", "CREATE", "INSERT", "SELECT", "plan", "run", "db.operation.name", "error.type", "42703"] {
        assert!(has(part), "{part} is missing in {}", text(&sent));
    }
    for part in ["hidden", "literal", "no_such_column"] {
        assert!(!has(part), "{part} is in {}", text(&sent));
    }
}

#[test]
fn wrong_settings_of_traces_are_errors_before_anything_listens() {
    let protocol = [("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let output = command(&["serve", "--no-auth"]).envs(protocol).output().expect("the binary starts");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("OTEL_EXPORTER_OTLP_PROTOCOL") && !message.contains("listening"), "{message}");
}

fn metrics(server: &Server) -> String {
    let address = server.addresses.iter().find_map(|address| address.strip_prefix("http://")?.strip_suffix("/metrics"));
    let mut stream = TcpStream::connect(address.expect("an address")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The address of a server for the Freestone protocol, with or without the password.
fn address(server: &Server, with_password: bool) -> String {
    let place = server.addresses.iter().find_map(|address| address.strip_prefix("freestone://")).expect("an address");
    let password = server.password.as_deref().filter(|_| with_password).map(|p| format!(":{p}")).unwrap_or_default();
    format!("freestone://freestone{password}@{place}")
}

fn check_shell(arguments: &[&str], input: &str, expected: &str) {
    let output = freestone(arguments, input);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)), "{arguments:?}");
    assert_eq!(text(&output.stdout), expected, "{arguments:?}");
}

fn check_shell_failure(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = freestone(arguments, "");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{arguments:?}: `{part}` is missing in: {message}");
    }
}

#[test]
fn the_shell_works_on_a_server_as_on_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&["--listen", "127.0.0.1:0"], 1);
    let db = &*address(&server, true);
    let csv = ["--format", "csv"];
    let create =
        "create table t (a int, s varchar); insert into t values (1, 'x'), (2, null); create view v as select * from t";
    check_shell(&[db, "-c", create], "", "");
    check_shell(&[db, "-c", "select * from t order by a", csv[0], csv[1]], "", "a,s\n1,x\n2,\n");
    check_shell(
        &[db, csv[0], csv[1]],
        "select a from t\nwhere a > 1;\n.mode ndjson\nselect 7 as b;",
        "a\n2\n{\"b\":7}\n",
    );
    let listed = text(&freestone(&[db, "-c", "\\d", "-c", "\\d t", "-c", "\\dv"], "").stdout);
    for part in ["│ t ", "│ v ", "│ a ", "VARCHAR"] {
        assert!(listed.contains(part), "`{part}` is missing in: {listed}");
    }
    let script = folder.path().join("load.sql");
    fs::write(&script, "insert into t values (3, 'z');\n\n-- then\nselect count(*) as n from t;\nselekt 1;\n")
        .expect("written");
    let parquet = folder.path().join("t.parquet");
    check_shell_failure(
        &[db, "-f", path_text(&script), "--timing"],
        1,
        &["time: ", "load.sql:5: ", "line 5, column 1"],
    );
    check_shell(&[db, "-c", "SELECT * FROM t", "--format", "parquet", "--output", path_text(&parquet)], "", "");
    let local = format!("select count(*) as n from '{}'", path_text(&parquet));
    check_shell(&["-c", &local, csv[0], csv[1]], "", "n\n3\n");
    check_shell_failure(&[db, "-c", "select * from tt"], 1, &["error: no table or view tt", "hint: did you mean t?"]);
    check_shell_failure(&[db, "-c", "select 1/0"], 1, &["division by zero"]);
}

#[test]
fn addresses_are_checked_and_passwords_found() {
    let server = Server::start(&["--listen", "127.0.0.1:0"], 1);
    let (db, bare) = (&*address(&server, true), &*address(&server, false));
    for option in [&["--read-only"][..], &["--threads", "2"], &["--memory-limit", "1GB"]] {
        check_shell_failure(&[&[db], option].concat(), 2, &[option[0], "freestone serve"]);
    }
    check_shell_failure(&["freestone://host:port", "-c", "select 1"], 2, &["no host or port"]);
    check_shell_failure(&["postgres://localhost", "-c", "select 1"], 2, &["unknown scheme postgres"]);
    check_shell_failure(&["freestone://a:b@127.0.0.1:1", "-c", "select 1"], 1, &["cannot connect", "hint: "]);
    check_shell_failure(&["check", db], 1, &["is an address, not a folder"]);
    check_shell_failure(&[bare, "-c", "select 1"], 1, &["wants a password for user freestone", "FREESTONE_PASSWORD"]);
    let wrong = bare.replace("freestone@", "freestone:wrong@");
    check_shell_failure(&[&wrong, "-c", "select 1"], 1, &["authentication failed"]);
    let password = server.password.as_deref().expect("a password");
    let mut given = command(&[bare, "-c", "select 41 + 1 as a", "--format", "csv"]);
    let output = given.env("FREESTONE_PASSWORD", password).output().expect("the process ends");
    assert_eq!(text(&output.stdout), "a\n42\n", "{}", text(&output.stderr));
    let open = Server::start(&["--listen", "127.0.0.1:0", "--no-auth"], 1);
    check_shell(&[&open.addresses[0], "-c", "select 1 as a", "--format", "csv"], "", "a\n1\n");
}

/// A terminal in which a command runs.
struct Terminal {
    child: Child,
    master: fs::File,
    output: Receiver<String>,
    /// What the terminal has shown since the part that was waited for last.
    seen: String,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Terminal {
        use std::os::fd::{FromRawFd, OwnedFd};
        use std::os::unix::process::CommandExt;
        let (mut master, mut slave) = (0, 0);
        let nothing = std::ptr::null_mut();
        // SAFETY: both descriptors are memory for the call to write to. It gets no name and no settings.
        let opened = unsafe { libc::openpty(&mut master, &mut slave, nothing, nothing.cast(), nothing.cast()) };
        assert_eq!(opened, 0, "no terminal");
        // SAFETY: the call has opened both, and nothing else owns them.
        let (master, slave) = unsafe { (fs::File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let copy = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = command(arguments);
        command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "dumb").env_remove("FREESTONE_PASSWORD");
        // SAFETY: between fork and exec only two system calls are made.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    Err(std::io::Error::last_os_error())
                } else {
                    Ok(())
                }
            })
        };
        let child = command.spawn().expect("the binary starts");
        let output = output_of(master.try_clone().expect("a descriptor"));
        Terminal { child, master, output, seen: String::new() }
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("written");
    }

    /// Waits for a text behind the one that was waited for last, and returns what was shown before it.
    fn wait_for(&mut self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some((before, after)) = self.seen.split_once(part) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.seen = after;
                return before;
            }
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(output) => self.seen.push_str(&output),
                Err(error) => panic!("no `{part}` ({error}) in: {}", self.seen),
            }
        }
    }
}

/// What a terminal shows, read by a thread that ends with the terminal.
fn output_of(mut master: fs::File) -> Receiver<String> {
    let (sender, output) = channel();
    spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(read) = master.read(&mut bytes)
            && read > 0
            && sender.send(text(&bytes[..read])).is_ok()
        {}
    });
    output
}

/// Waits until the server runs a number of statements, as its metrics tell.
fn wait_for_running(server: &Server, statements: u64) {
    let until = Instant::now() + PATIENCE;
    let line = format!("freestone_statements_running {statements}\n");
    while !metrics(server).contains(&line) {
        assert!(Instant::now() < until, "not {statements} statements are running: {}", metrics(server));
        sleep(Duration::from_millis(20));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_person_logs_in_and_cancels() {
    let server = Server::start(&["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"], 2);
    let password = server.password.as_deref().expect("a password");
    let mut shell = Terminal::start(&[&address(&server, false)]);
    shell.wait_for("password of freestone: ");
    shell.type_in(&format!("{password}\n"));
    let shown = shell.wait_for("> ");
    assert!(!shown.contains(password), "the password is shown");
    shell.type_in("create table t as select value as a from generate_series(1, 200000);\n");
    shell.wait_for("CREATE TABLE 200000");
    shell.wait_for("> ");
    shell.type_in("select count(*) from t x, t y where x.a * y.a % 1000003 = -7;\n");
    // A terminal discards lines that nobody has read when Ctrl-C is pressed.
    wait_for_running(&server, 1);
    shell.type_in("\x03");
    shell.wait_for("error: cancelled");
    // What is typed before the shell asks for it may be lost.
    shell.wait_for("> ");
    // The threads of the server are available again, too.
    shell.type_in("select sum(a) as total from t;\n");
    shell.wait_for("20000100000");
    shell.type_in("\\q\n");
    assert_eq!(common::status(&mut shell.child, PATIENCE), Some(0));
}
