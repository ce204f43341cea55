//! Sends spans to a collector, by OTLP over HTTP in Protobuf.

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use reqwest::{Client, StatusCode, header};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use super::messages::Request;
use super::{Settings, Statement, Traces};

/// How often a request is made, if the collector is not ready.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt; the others are longer by as much.
const PAUSE: Duration = Duration::from_millis(500);

/// Sends spans in batches until no more are taken, and all are sent or given up.
pub(crate) async fn export(traces: Arc<Traces>, mut waiting: mpsc::Receiver<Statement>, settings: Settings) {
    // Redirects could lead the headers to another host.
    let client = Client::builder().timeout(settings.timeout).redirect(reqwest::redirect::Policy::none()).build();
    let client = match client {
        Ok(client) => client,
        Err(error) => return tracing::error!(%error, "traces cannot be sent"),
    };
    let mut is_failing = false;
    loop {
        let mut batch = vec![];
        if waiting.recv_many(&mut batch, settings.batch).await == 0 {
            return;
        }
        let until = Instant::now() + settings.delay;
        while batch.len() < settings.batch {
            let room = settings.batch - batch.len();
            match timeout_at(until, waiting.recv_many(&mut batch, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let sent = send(&client, &settings, &batch).await;
        let lost = traces.take_lost() + if sent.is_ok() { 0 } else { batch.len() as u64 };
        match sent {
            // A collector that is gone is told of once.
            Err(reason) if !is_failing => tracing::warn!(reason, lost, "traces of statements are lost"),
            Ok(()) if lost > 0 => tracing::warn!(lost, "traces of statements are lost: more came than were sent"),
            _ => {}
        }
        is_failing = lost > 0;
    }
}

/// Sends the spans of some statements, again if the collector is not ready.
async fn send(client: &Client, settings: &Settings, statements: &[Statement]) -> Result<(), String> {
    let body = Request::of(&settings.resource, statements).encode_to_vec();
    let mut attempt = 1;
    loop {
        let mut request = client.post(&settings.endpoint).header(header::CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &settings.headers {
            request = request.header(name, value);
        }
        // The URL may have a secret.
        let (reason, is_busy) = match request.body(body.clone()).send().await {
            Ok(response) if response.status().is_success() => return Ok(()),
            Ok(response) => (format!("the collector answers {}", response.status()), is_busy(response.status())),
            Err(error) => {
                let is_busy = error.is_connect() || error.is_timeout();
                (format!("the collector cannot be asked: {}", error.without_url()), is_busy)
            }
        };
        if !is_busy || attempt == ATTEMPTS {
            return Err(reason);
        }
        sleep(PAUSE * attempt).await;
        attempt += 1;
    }
}

/// Whether a collector may take the same request later: the codes that OTLP names.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Answers requests with these codes, one per connection, and gives their headers and messages.
    fn collector(codes: &'static [u16]) -> (String, thread::JoinHandle<Vec<(String, Request)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
        let serving = thread::spawn(move || {
            let answer = |code: &u16| {
                let (stream, _) = listener.accept().expect("a connection");
                let mut reader = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert!(reader.read_line(&mut head).expect("a line") > 0, "{head}");
                }
                let head = head.to_lowercase();
                let length =
                    head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
                let mut body = vec![0; length.parse().expect("a number")];
                reader.read_exact(&mut body).expect("a body");
                let answer = format!("HTTP/1.1 {code} X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                reader.get_mut().write_all(answer.as_bytes()).expect("an answer");
                (head, Request::decode(body.as_slice()).expect("a message"))
            };
            codes.iter().map(answer).collect()
        });
        (address, serving)
    }

    fn settings(endpoint: &str) -> Settings {
        let headers = vec![("authorization".to_owned(), "Bearer abc".to_owned())];
        Settings { headers, delay: Duration::from_millis(1), batch: 2, ..Settings::for_tests(endpoint) }
    }

    fn operations(request: &Request) -> Vec<&str> {
        let spans = &request.resource_spans[0].scope_spans[0].spans;
        spans.iter().filter(|span| span.parent_span_id.is_empty()).map(|span| span.name.as_str()).collect()
    }

    #[tokio::test]
    async fn spans_are_sent_in_batches_until_the_server_stops() {
        let (address, collector) = collector(&[503, 200, 200]);
        let settings = settings(&address);
        let (traces, waiting) = Traces::new(&settings);
        for text in ["SELECT 1", "INSERT INTO t VALUES ('secret')", "VALUES (1)"] {
            traces.end(*traces.begin(text, Instant::now()).expect("traced"));
        }
        traces.close();
        export(Arc::new(traces), waiting, settings).await;
        let requests = collector.join().expect("requests");
        let sent: Vec<_> = requests.iter().map(|(_, request)| operations(request)).collect();
        assert_eq!(sent, [vec!["SELECT", "INSERT"], vec!["SELECT", "INSERT"], vec!["VALUES"]]);
        assert_eq!(requests[0].1, requests[1].1, "the same spans are sent again");
        assert!(requests[0].0.contains("authorization: bearer abc") && requests[0].0.contains("x-protobuf"));
        let name = &requests[2].1.resource_spans[0].resource.as_ref().expect("a resource").attributes[0];
        assert_eq!(name.key, "service.name");
        assert!(!format!("{requests:?}").contains("secret"));
    }

    #[tokio::test]
    async fn what_the_collector_refuses_is_not_sent_again() {
        let (address, collector) = collector(&[400]);
        let settings = settings(&address);
        let client = Client::new();
        let (traces, mut waiting) = Traces::new(&settings);
        traces.end(*traces.begin("SELECT 1", Instant::now()).expect("traced"));
        let statement = waiting.try_recv().expect("a statement");
        let reason = send(&client, &settings, &[statement]).await.expect_err("refused");
        assert!(reason.contains("400"), "{reason}");
        assert_eq!(collector.join().expect("requests").len(), 1);
    }
}
