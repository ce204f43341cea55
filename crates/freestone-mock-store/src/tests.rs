//! The store by plain requests.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// The answer to a request of a connection of its own.
fn asked(server: &Server, method: &str, target: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let signed = format!("Authorization: AWS4-HMAC-SHA256 Credential={KEY_ID}/x\r\n");
    let request =
        format!("{method} {target} HTTP/1.1\r\n{signed}{headers}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn one_of_two_creates_wins() {
    let server = Server::start().unwrap();
    server.create_bucket("b");
    let create = &|body: &str| asked(&server, "PUT", "/b/x", "If-None-Match: *\r\n", body);
    std::thread::scope(|scope| {
        let tries: Vec<_> = (0..8).map(|at| scope.spawn(move || create(&format!("by {at}")))).collect();
        let won = tries.into_iter().map(|one| one.join().unwrap()).filter(|text| text.contains(" 200 "));
        assert_eq!(won.count(), 1);
    });
    assert!(server.get("b", "x").unwrap().starts_with(b"by "));
}

#[test]
fn ranges_and_lists_are_answered() {
    let server = Server::start().unwrap();
    for at in 0..250 {
        server.put("b", &format!("k{at:03}"), b"0123456789".to_vec());
    }
    let read = |range: &str| asked(&server, "GET", "/b/k001", &format!("Range: bytes={range}\r\n"), "");
    assert!(read("2-4").ends_with("\r\n\r\n234"));
    assert!(read("-3").ends_with("\r\n\r\n789"));
    assert!(read("8-99").ends_with("\r\n\r\n89"));
    assert!(read("10-12").contains(" 416 "));
    let first = asked(&server, "GET", "/b?list-type=2&prefix=k", "", "");
    assert!(first.contains("<IsTruncated>true<") && first.contains("<NextContinuationToken>k099<"), "{first}");
    let last = asked(&server, "GET", "/b?list-type=2&prefix=k&continuation-token=k199", "", "");
    assert!(last.contains("<IsTruncated>false<") && last.contains("<Key>k249<") && !last.contains("<Key>k199<"));
    assert_eq!(server.take_traffic().requests["GET"], 6);
}

#[test]
fn faults_happen_as_planned() {
    let server = Server::start().unwrap();
    server.put("b", "x", b"old".to_vec());
    server.plan(Fault::Status(503, "SlowDown"), "GET", "/b/x", 1, 1);
    let read = || asked(&server, "GET", "/b/x", "If-Match: \"1\"\r\n", "");
    assert!(read().ends_with("old"));
    assert!(read().contains(" 503 "));
    server.plan(Fault::Cut, "GET", "/b/x", 0, 1);
    assert!(read().ends_with("\r\n\r\no"));
    server.plan(Fault::Changed, "GET", "/b/x", 0, 1);
    assert!(read().contains(" 412 "));
    server.plan(Fault::LostAnswer, "PUT", "/b/y", 0, 1);
    assert!(asked(&server, "PUT", "/b/y", "", "new").contains(" 503 "));
    assert_eq!((server.get("b", "y"), server.is_done()), (Some(b"new".to_vec()), true));
    assert!(asked(&server, "GET", "/none/x", "", "").contains("NoSuchBucket"));
}

#[test]
fn bytes_wait_for_those_before_them() {
    let begin = Instant::now() + Duration::from_secs(1000);
    let mut pace = Pace { free: begin, bytes_per_second: 100 };
    assert!(pace.wait(200) > Duration::from_secs(1));
    pace.wait(300);
    assert_eq!(pace.free, begin + Duration::from_secs(5));
}

#[test]
fn requests_wait_at_the_same_time() {
    let server = Server::start().unwrap();
    server.put("b", "x", b"old".to_vec());
    server.delay(Duration::from_secs(3));
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            asked(&server, "GET", "/b/x", "", "");
            is_answered.store(true, Ordering::SeqCst);
        });
        // The first one waits by now, or finds no delay later, which is as well.
        std::thread::sleep(Duration::from_millis(500));
        let was_answered = is_answered.load(Ordering::SeqCst);
        server.delay(Duration::ZERO);
        assert!(asked(&server, "GET", "/b/x", "", "").ends_with("old"));
        assert_eq!(is_answered.load(Ordering::SeqCst), was_answered, "the second answer came while the first waited");
    });
}
