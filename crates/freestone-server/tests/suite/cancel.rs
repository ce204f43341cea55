//! Requests to cancel over PostgreSQL's protocol: keys that fit no statement, and the end of their connections.

use std::sync::Arc;

use freestone_server::ServerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::TestServer;

/// More than the sockets between server and client hold.
const READ_BYTES: usize = 32 << 20;

/// The request to cancel the statement of a session.
fn request(number: i32, key: &[u8]) -> Vec<u8> {
    let body = [&80_877_102_i32.to_be_bytes(), &number.to_be_bytes()[..], key].concat();
    [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()
}

/// One message of the server: its kind and body.
async fn next(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let kind = stream.read_u8().await.expect("a message");
    let mut body = vec![0; stream.read_u32().await.expect("a length") as usize - 4];
    stream.read_exact(&mut body).await.expect("a body");
    (kind, body)
}

/// A client of a server that admits anybody, with the number and the key of its session.
async fn connect(server: &TestServer) -> (TcpStream, i32, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address("postgres")).await.expect("a connection");
    let body = [&3i32.rotate_left(16).to_be_bytes()[..], b"user\0ann\0\0"].concat();
    stream.write_all(&[&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()).await.expect("sent");
    let mut session = None;
    loop {
        match next(&mut stream).await {
            (b'K', body) => {
                let (number, key) = body.split_at(4);
                session = Some((i32::from_be_bytes(number.try_into().expect("a number")), key.to_vec()));
            }
            (b'Z', _) => break,
            _ => {}
        }
    }
    let (number, key) = session.expect("a key");
    (stream, number, key)
}

/// Sends a request to cancel, and waits until the server has read it, which it says by nothing but the end.
async fn cancel(server: &TestServer, number: i32, key: &[u8]) {
    let mut stream = TcpStream::connect(server.address("postgres")).await.expect("a connection");
    stream.write_all(&request(number, key)).await.expect("sent");
    let mut said = vec![];
    stream.read_to_end(&mut said).await.expect("the end");
    assert_eq!(said, b"", "the server must not reveal what it did");
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_keys_cancel_nothing() {
    let pg = Some("127.0.0.1:0".to_owned());
    let server = TestServer::start(ServerOptions { pg, no_auth: true, ..ServerOptions::default() }).await;
    let (mut gone, old_number, old_key) = connect(&server).await;
    gone.write_all(b"X\0\0\0\x04").await.expect("sent");
    assert_eq!(gone.read(&mut [0; 1]).await.expect("the end"), 0);
    let (mut stream, number, key) = connect(&server).await;
    let sql = b"SELECT value, repeat('freestone ', 20) || value AS s FROM generate_series(1, 1000000000)\0";
    stream.write_all(&[b"Q", &(sql.len() as i32 + 4).to_be_bytes()[..], sql].concat()).await.expect("sent");
    assert_eq!(next(&mut stream).await.0, b'T');
    let wrong: Vec<u8> = key.iter().map(|byte| byte ^ 1).collect();
    for (number, key) in [
        (old_number, &old_key[..]),
        (number, &wrong[..]),
        (number, &old_key[..]),
        (number, b""),
        (number, &key[..3]),
        (number, &[&key[..], b"\0"].concat()),
        (number + 1, &key[..]),
        (-number, &key[..]),
        (i32::MAX, &key[..]),
    ] {
        cancel(&server, number, key).await;
    }
    let mut read = 0;
    while read < READ_BYTES {
        let (kind, body) = next(&mut stream).await;
        assert_eq!(kind, b'D', "{}", String::from_utf8_lossy(&body));
        read += body.len();
    }
    cancel(&server, number, &key).await;
    let mut failed = None;
    loop {
        match next(&mut stream).await {
            (b'E', body) => failed = Some(String::from_utf8_lossy(&body).into_owned()),
            (b'Z', body) => break assert_eq!(body, b"I"),
            (kind, _) => assert_eq!(kind, b'D'),
        }
    }
    assert!(failed.as_ref().is_some_and(|error| error.contains("\0C57014\0")), "{failed:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_over_tls_ends_with_a_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let options = ServerOptions {
        pg: Some("127.0.0.1:0".into()),
        tls_cert: Some(certificate.clone()),
        tls_key: Some(key),
        ..ServerOptions::default()
    };
    let server = TestServer::start(options).await;
    let client = freestone_wire::transport::tls_client_config(Some(&certificate)).expect("a client");
    let mut client = rustls::ClientConfig::clone(&client);
    client.alpn_protocols = vec![b"postgresql".to_vec()];
    let mut stream = TcpStream::connect(server.address("postgres")).await.expect("a connection");
    stream.write_all(&[8i32.to_be_bytes(), 80_877_103_i32.to_be_bytes()].concat()).await.expect("sent");
    assert_eq!(stream.read_u8().await.expect("an answer"), b'S');
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let mut stream = connector.connect("localhost".try_into().expect("a name"), stream).await.expect("TLS");
    stream.write_all(&request(1, b"none")).await.expect("sent");
    // Without close_notify, this is an error.
    let mut said = vec![];
    stream.read_to_end(&mut said).await.expect("close_notify");
    assert_eq!(said, b"");
    server.stop().await;
}
