//! Counters, and their text in the format of Prometheus over HTTP.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The maximum bytes of an HTTP request's head.
const HEAD_BYTES_MAX: usize = 8192;
const REQUEST_SECONDS_MAX: u64 = 5;

#[derive(Debug, Default)]
pub struct Metrics {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub open: AtomicI64,
    pub failed_logins: AtomicU64,
    pub statements: AtomicU64,
    pub failed: AtomicU64,
    pub cancelled: AtomicU64,
    pub running: AtomicI64,
    pub rows: AtomicU64,
    pub bytes: AtomicU64,
    pub busy_micros: AtomicU64,
}

impl Metrics {
    pub fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    /// The text of all counters.
    pub fn text(&self) -> String {
        let counter = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
        let gauge = |value: &AtomicI64| value.load(Ordering::Relaxed) as f64;
        let all = [
            ("connections_total", "counter", "Connections accepted", counter(&self.connections)),
            ("connections_refused_total", "counter", "Connections over the limit", counter(&self.refused)),
            ("connections", "gauge", "Connections open now", gauge(&self.open)),
            ("logins_failed_total", "counter", "Failed authentications", counter(&self.failed_logins)),
            ("statements_total", "counter", "Statements begun", counter(&self.statements)),
            ("statements_failed_total", "counter", "Statements that failed", counter(&self.failed)),
            ("statements_cancelled_total", "counter", "Statements cancelled or timed out", counter(&self.cancelled)),
            ("statements_running", "gauge", "Statements running now", gauge(&self.running)),
            ("rows_sent_total", "counter", "Rows sent to clients", counter(&self.rows)),
            ("bytes_sent_total", "counter", "Bytes of results sent to clients", counter(&self.bytes)),
            ("statement_seconds_total", "counter", "Time of all statements", counter(&self.busy_micros) / 1e6),
        ];
        all.iter().fold(String::new(), |mut text, (name, kind, help, value)| {
            let _ = writeln!(text, "# HELP freestone_{name} {help}.\n# TYPE freestone_{name} {kind}");
            let _ = writeln!(text, "freestone_{name} {value}");
            text
        })
    }
}

/// Serves `GET /metrics` until the task ends.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let metrics = metrics.clone();
        tokio::spawn(async move {
            let limit = Duration::from_secs(REQUEST_SECONDS_MAX);
            let _ = tokio::time::timeout(limit, answer(stream, &metrics)).await;
        });
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    let found = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET / ");
    let (status, body) =
        if found { ("200 OK", metrics.text()) } else { ("404 Not Found", "see /metrics\n".to_owned()) };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
