//! Requests over HTTP that are wrong, of other sites, too large or too slow; and browsers that pause or go.

use std::time::{Duration, Instant};

use bytes::Bytes;
use freestone_server::{Limits, Role, ServerOptions, Users};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::{Browser, HUGE, LONG, json_of, server};
use crate::server::{PASSWORD, TestServer};

/// More than an answer should take, and less than a test should wait.
const SOON: Duration = Duration::from_secs(10);

/// The answer to bytes that a client sends.
async fn raw(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = vec![];
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("in time");
    drop(read);
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_of_the_page_are_at_its_addresses() {
    let server = server(Limits::default()).await;
    let address = server.address("http");
    for path in [
        "/assets/../index.html",
        "/assets/..%2findex.html",
        "/assets/%2e%2e/index.html",
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/..\\..\\index.html",
        "//etc/passwd",
        "/index.html%00",
        "/INDEX.HTML",
        "/index.html/",
        "/assets",
        "/api",
        "/api/nothing",
        "/.git/config",
        "/console/dist/index.html",
    ] {
        let answer =
            raw(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")).await;
        assert!([400, 404].contains(&status(&answer)), "{path}: {answer}");
        assert!(!answer.contains("root:") && !answer.contains("<title>"), "{path}: {answer}");
    }
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\n\r\n", 400),
    ] {
        assert_eq!(status(&raw(address, request).await), expected, "{request}");
    }
    // Heads that never end, or have too many headers, are not collected.
    let many = (0..1000).map(|at| format!("x-{at}: y\r\n")).collect::<String>();
    let answer = raw(address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\n{many}\r\n")).await;
    assert_eq!(status(&answer), 431, "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_other_sites_change_nothing() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let body = || json!({ "tab": "a", "sql": "CREATE TABLE made (a INT)" }).to_string();
    let cases: [(&str, Option<&str>, u16); 10] = [
        ("origin", None, 403),
        ("origin", Some("https://evil.example"), 403),
        ("origin", Some("null"), 403),
        ("origin", Some("http://localhost:1"), 403),
        ("x-freestone", None, 403),
        ("x-freestone", Some("2"), 403),
        ("content-type", Some("text/plain"), 415),
        ("content-type", Some("application/x-www-form-urlencoded"), 415),
        ("sec-fetch-site", Some("cross-site"), 403),
        ("host", Some("evil.example"), 421),
    ];
    for (name, value, expected) in cases {
        let mut request = browser.request("POST", "/api/query").body(Full::from(body())).expect("a request");
        match value {
            Some(value) => drop(request.headers_mut().insert(name, value.parse().expect("text"))),
            None => drop(request.headers_mut().remove(name)),
        }
        let answer = browser.send(request).await;
        assert_eq!(answer.status(), expected, "{name} {value:?}");
        assert!(answer.headers().get("access-control-allow-origin").is_none());
        assert!(json_of(answer).await["error"]["message"].is_string());
    }
    // A browser asks before it sends such requests across sites, and gets no consent.
    let asks = browser.request("OPTIONS", "/api/query").header("access-control-request-method", "POST");
    let answer = browser.send(asks.body(Full::default()).expect("a request")).await;
    assert_eq!(answer.status(), 405);
    assert!(answer.headers().get("access-control-allow-origin").is_none());
    assert_eq!(browser.run("a", "SELECT * FROM made").await.state(), "42P01");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bodies_are_refused_with_the_reason() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    for (path, body, expected) in [
        ("/api/query", "", 400),
        ("/api/query", "{", 400),
        ("/api/query", "[]", 400),
        ("/api/query", "{\"tab\": \"a\"}", 400),
        ("/api/query", "{\"tab\": 1, \"sql\": \"SELECT 1\"}", 400),
        ("/api/query", "{\"tab\": \"\", \"sql\": \"SELECT 1\"}", 400),
        ("/api/query", "{\"tab\": \"a\", \"sql\": \"SELECT 1\", \"more\": 1}", 400),
        ("/api/query", "{\"tab\": \"a\", \"sql\": \"SELECT 1\", \"max_rows\": -1}", 400),
        ("/api/query", "{\"tab\": \"a\", \"sql\": \"SELECT 1\", \"parameters\": \"x\"}", 400),
        ("/api/query", "\u{feff}{}", 400),
        ("/api/cancel", "{}", 400),
        ("/api/close", "{\"tab\": null}", 400),
        ("/api/login", "{}", 400),
        ("/api/login", "{\"user\": \"ann\"}", 400),
        ("/api/logout", "1", 400),
    ] {
        let request = browser.request("POST", path).body(Full::from(body.to_owned())).expect("a request");
        let answer = browser.send(request).await;
        assert_eq!(answer.status(), expected, "{path} {body}");
        assert!(json_of(answer).await["error"]["message"].is_string(), "{path} {body}");
    }
    for (method, path) in
        [("GET", "/api/query"), ("PUT", "/api/query"), ("POST", "/api/session"), ("POST", "/metrics"), ("DELETE", "/")]
    {
        assert_eq!(
            browser.send(browser.request(method, path).body(Full::default()).expect("a request")).await.status(),
            405,
            "{method} {path}"
        );
    }
    let stranger = Browser { cookie: Some("freestone-1=x; freestone=y".into()), ..browser.clone() };
    for path in ["/api/query", "/api/cancel", "/api/close"] {
        assert_eq!(stranger.post(path, json!({ "tab": "a", "sql": "SELECT 1" })).await.status(), 401, "{path}");
    }
    // A body that is too large is not read, whether it says so or not.
    let address = &browser.address;
    let cookie = browser.cookie.clone().expect("a cookie");
    let head = format!(
        "POST /api/query HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nCookie: {cookie}\r\nX-Freestone: 1\r\nContent-Type: application/json\r\nConnection: close\r\n"
    );
    let answer = raw(address, &format!("{head}Content-Length: 1000000000000\r\n\r\n{{")).await;
    assert_eq!(status(&answer), 413, "{answer}");
    let large =
        browser.request("POST", "/api/login").body(Full::from(Bytes::from(vec![b' '; 20_000]))).expect("a request");
    assert_eq!(browser.send(large).await.status(), 413);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_goes_ends_its_statement() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    for sql in [LONG, HUGE] {
        let mut frames = browser.query("a", sql).await;
        assert_eq!(frames.next_json().await.0, 'S');
        server.until("statements_running", 1.0).await;
        drop(frames);
        server.until("statements_running", 0.0).await;
        // The tab is free again.
        assert_eq!(browser.cell("a", "SELECT 42").await, "42");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_pauses_stops_its_statement() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let mut frames = browser.query("a", HUGE).await;
    assert_eq!(frames.next_json().await.0, 'S');
    // The rows that fill the buffers between the statement and this browser, and no more.
    let rows = async || server.metric("rows_sent_total").await;
    let mut before = 0.0;
    let began = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = rows().await;
        if now > 0.0 && now == before {
            break;
        }
        before = now;
        assert!(began.elapsed() < SOON, "the statement goes on: {now} rows");
    }
    assert!(before < 500_000.0, "{before} rows wait for the browser");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rows().await, before);
    // It goes on when the browser does.
    let (mut bytes, mut progressed) = (0, 0);
    while bytes < 100 << 20 {
        let (kind, payload) = frames.next().await.expect("a frame").expect("not the end");
        bytes += payload.len();
        progressed += usize::from(kind == 'P');
    }
    assert!(rows().await > before, "no more rows");
    assert!(progressed < 100, "{progressed} frames of progress");
    // A pause does not keep it from being cancelled.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(browser.post("/api/cancel", json!({ "tab": "a" })).await.status(), 204);
    let (kind, error) = frames.next_json().await;
    assert_eq!((kind, &error["sqlstate"]), ('E', &json!("57014")));
    assert!(frames.next().await.expect("the end").is_none());
    server.until("statements_running", 0.0).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_cells_and_many_columns_are_sent() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let results = browser.run("a", "SELECT repeat('x', 100000000) AS a").await;
    assert_eq!(results.cell(0, 0).len(), 100_000_000);
    let columns: Vec<String> = (0..2000).map(|at| format!("{at} AS c{at}")).collect();
    let results = browser.run("a", &format!("SELECT {}", columns.join(", "))).await;
    assert_eq!((results.error.clone(), results.batches[0][0].num_columns()), (None, 2000));
    let mut frames = browser.query("a", "SELECT repeat('y', 1000000) AS a FROM generate_series(1, 200)").await;
    let (mut largest, mut bytes) = (0, 0);
    while let Some((kind, payload)) = frames.next().await.expect("a frame") {
        assert_ne!(kind, 'E', "{payload:?}");
        largest = largest.max(payload.len());
        bytes += payload.len();
    }
    assert!(bytes > 200_000_000 && largest < 4 << 20, "{bytes} bytes, of which a frame has {largest}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn access_that_is_withdrawn_ends_logins_and_statements() {
    let server = server(Limits::default()).await;
    let browser = Browser::logged_in(&server, "wes").await;
    let other = Browser::logged_in(&server, "rita").await;
    let mut paused = browser.query("a", HUGE).await;
    let mut running = browser.query("b", LONG).await;
    assert_eq!((paused.next_json().await.0, running.next_json().await.0), ('S', 'S'));
    let mut users = Users::load(&server.users).expect("users");
    users.add("wes", Role::Read, PASSWORD).expect("a lower role");
    users.save(&server.users).expect("saved");
    let (kind, error) = tokio::time::timeout(SOON, running.next_json()).await.expect("in time");
    assert_eq!((kind, &error["sqlstate"]), ('E', &json!("57P01")));
    server.until("statements_running", 0.0).await;
    // What was not sent is not taken for the end of the rows.
    let ended = async {
        loop {
            match paused.next().await {
                Err(_) => break,
                Ok(Some(('E', _))) => break,
                Ok(Some(_)) => {}
                Ok(None) => panic!("the rows end as if they were all"),
            }
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("in time");
    assert_eq!(browser.session().await["login"], "password");
    assert_eq!(browser.post("/api/query", json!({ "tab": "a", "sql": "SELECT 1" })).await.status(), 401);
    assert_eq!(other.cell("a", "SELECT 42").await, "42");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stops_while_rows_are_sent() {
    let limits = Limits { grace: Duration::from_millis(200), ..Limits::default() };
    for sql in [LONG, HUGE] {
        let server = server(limits.clone()).await;
        let browser = Browser::logged_in(&server, "ann").await;
        let mut frames = browser.query("a", sql).await;
        assert_eq!(frames.next_json().await.0, 'S');
        let began = Instant::now();
        let reading = tokio::spawn(async move {
            loop {
                match frames.next().await {
                    Ok(Some(('E', payload))) => return Some(payload),
                    Ok(Some(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Ok(None) => panic!("the rows end as if they were all"),
                    Err(_) => return None,
                }
            }
        });
        server.stop().await;
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        let error = reading.await.expect("no panic").expect("the error");
        let error: Value = serde_json::from_slice(&error).expect("JSON");
        assert_eq!(error["sqlstate"], "57014", "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_their_time() {
    let limits = Limits { statement: Some(Duration::from_millis(300)), ..Limits::default() };
    let server = server(limits).await;
    let browser = Browser::logged_in(&server, "ann").await;
    let late = browser.run("a", LONG).await;
    assert_eq!(late.state(), "57014");
    assert!(late.place().0.contains("300 ms"), "{}", late.place().0);
    // The time goes on while the browser does not read.
    let mut paused = browser.query("a", HUGE).await;
    assert_eq!(paused.next_json().await.0, 'S');
    server.until("statements_running", 1.0).await;
    server.until("statements_running", 0.0).await;
    assert_eq!(paused.next_json().await.0, 'E');
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn guesses_are_slow_and_few_at_a_time() {
    let server = server(Limits::default()).await;
    let guess = async || {
        let mut browser = Browser::of(&server);
        browser.log_in(json!({ "user": "ann", "password": "wrong" })).await
    };
    let began = Instant::now();
    let mut answers = futures::future::join_all((0..12).map(|_| guess())).await;
    assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    answers.sort();
    assert!(answers.first() == Some(&401) && answers.last() == Some(&429), "{answers:?}");
    // The right password is not delayed when the guesses are answered.
    Browser::logged_in(&server, "ann").await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_places_may_be_taken() {
    let limits = Limits { connections: 2, reserved: 0, ..Limits::default() };
    let server = server(limits).await;
    let [first, second] = [Browser::logged_in(&server, "ann").await, Browser::logged_in(&server, "wes").await];
    let mut third = Browser::of(&server);
    assert_eq!(third.log_in(json!({ "user": "rita", "password": PASSWORD })).await, 503);
    let mut running = [first.query("a", LONG).await, second.query("a", LONG).await];
    for frames in &mut running {
        assert_eq!(frames.next_json().await.0, 'S');
    }
    let refused = first.post("/api/query", json!({ "tab": "b", "sql": "SELECT 1" })).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(json_of(refused).await["error"]["sqlstate"], "53300");
    drop(running);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_of_other_machines_speak_tls() {
    use std::sync::Arc;
    let folder = tempfile::tempdir().expect("a folder");
    let made =
        rcgen::generate_simple_self_signed(vec!["data.example".into(), "localhost".into()]).expect("a certificate");
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let options = ServerOptions {
        http: Some("127.0.0.1:0".into()),
        tls_cert: Some(cert.clone()),
        tls_key: Some(key),
        ..Default::default()
    };
    let server = TestServer::start(options).await;
    let address = server.address("https").to_owned();
    let client = freestone_wire::transport::tls_client_config(Some(&cert)).expect("a client");
    let mut client = rustls::ClientConfig::clone(&client);
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let send = async |host: &str, origin: &str, body: &str| {
        let stream = TcpStream::connect(&address).await.expect("a connection");
        let name = "data.example".try_into().expect("a name");
        let mut stream = connector.connect(name, stream).await.expect("TLS");
        let request = format!(
            "POST /api/login HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nX-Freestone: 1\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    };
    let right = json!({ "user": "ann", "password": PASSWORD }).to_string();
    let answer = send("data.example", "https://data.example", &right).await;
    assert_eq!(status(&answer), 204, "{answer}");
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.starts_with("__Host-freestone-") && cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(status(&send("evil.example", "https://evil.example", &right).await), 421);
    assert_eq!(status(&send("data.example", "http://data.example", &right).await), 403);
    // Without TLS there is no answer.
    let plain = raw(&address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n")).await;
    assert!(!plain.starts_with("HTTP/1.1 200"), "{plain}");
    server.stop().await;
}
