//! The errors of wrong statements beside those of PostgreSQL: `sqlstates.txt`, whose form `conformance/sqlstates.py` describes and
//! compares with a server of PostgreSQL.

use freestone_server::ServerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hostile::raw;
use crate::server::TestServer;

const CASES: &str = include_str!("sqlstates.txt");

/// The fields of the first error of a simple query, by their letters; `None` if it has none.
async fn error(stream: &mut TcpStream, sql: &str) -> Option<Vec<(char, String)>> {
    let message = [b"Q", &(sql.len() as i32 + 5).to_be_bytes()[..], sql.as_bytes(), b"\0"].concat();
    stream.write_all(&message).await.expect("sent");
    let mut found = None;
    loop {
        let kind = stream.read_u8().await.expect("a message");
        let mut body = vec![0; stream.read_u32().await.expect("a length") as usize - 4];
        stream.read_exact(&mut body).await.expect("a body");
        match kind {
            b'E' if found.is_none() => {
                let fields = body.split(|byte| *byte == 0).filter_map(|field| field.split_first());
                let field =
                    |(letter, value): (&u8, &[u8])| (char::from(*letter), String::from_utf8_lossy(value).into());
                found = Some(fields.map(field).collect());
            }
            b'Z' => return found,
            _ => {}
        }
    }
}

/// An error as a line of the file: its SQLSTATE, and what it concerns.
fn described(fields: Option<Vec<(char, String)>>) -> String {
    let Some(fields) = fields else { return "none".into() };
    let value = |letter: char| fields.iter().find(|(of, _)| *of == letter).map(|(_, value)| value.as_str());
    let code = value('C').expect("a SQLSTATE");
    let letters = if ["23503", "23505"].contains(&code) { "PstcnD" } else { "Pstcn" };
    let known = letters.chars().filter_map(|letter| Some(format!("{letter}={}", value(letter)?)));
    std::iter::once(code.to_owned()).chain(known).collect::<Vec<_>>().join(" | ")
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_statements_have_the_errors_of_postgresql() {
    let pg = Some("127.0.0.1:0".to_owned());
    let server = TestServer::start(ServerOptions { pg, no_auth: true, ..ServerOptions::default() }).await;
    let mut stream = raw(&server).await;
    let (mut different, mut count) = (vec![], 0);
    let mut lines = CASES.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(sql) = line.strip_prefix("+ ") {
            let failed = error(&mut stream, sql).await;
            assert_eq!(failed, None, "{sql}");
        }
        let Some(sql) = line.strip_prefix("> ") else { continue };
        let right = lines.next().expect("PostgreSQL's error");
        let own = lines.next_if(|line| line.starts_with("! "));
        let expected = own.map_or(right, |own| own[2..].split(" # ").next().expect("an error"));
        assert_ne!(own.map(|_| expected), Some(right), "{sql}: the line with ! is not needed");
        let found = error(&mut stream, sql).await;
        let message = found.iter().flatten().find(|(letter, _)| *letter == 'M').map(|(_, text)| text.clone());
        let found = described(found);
        if found != expected {
            different.push(format!("{sql}\n    {expected}\n    {found}  ({})", message.unwrap_or_default()));
        }
        count += 1;
    }
    assert!(count > 100, "{count} statements were read");
    assert!(different.is_empty(), "{} are different:\n{}", different.len(), different.join("\n"));
    server.stop().await;
}
