//! Messages of PostgreSQL's protocol, and the answers that PostgreSQL gives to them: `traces.txt`, whose form
//! `conformance/traces.py` describes and compares with a server of PostgreSQL.

use std::time::Duration;

use freestone_server::{Limits, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hostile::raw;
use crate::server::TestServer;

/// After which no more is expected.
const SILENCE: Duration = Duration::from_secs(20);

const TRACES: &str = include_str!("traces.txt");

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_answered_as_postgresql_answers_them() {
    let pg = Some("127.0.0.1:0".to_owned());
    let options = ServerOptions { pg, no_auth: true, limits: Limits::default(), ..ServerOptions::default() };
    let server = TestServer::start(options).await;
    let (mut stream, mut different, mut section) = (None, vec![], "");
    for block in TRACES.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let lines: Vec<&str> = block.trim().lines().collect();
        let (title, lines) = match lines.split_first() {
            Some((title, rest)) if title.starts_with('#') => (Some(*title), rest),
            _ => (None, lines.as_slice()),
        };
        if title.is_some() {
            section = title.unwrap_or_default();
        }
        if title.is_some() || stream.is_none() {
            stream = Some(raw(&server).await);
        }
        let sent: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("> ")).collect();
        let expected: Vec<&str> = lines.iter().filter(|line| !line.starts_with('>')).copied().collect();
        let answer = ask(stream.as_mut().expect("a connection"), &sent).await;
        if answer != expected {
            different.push(format!("{section}: {sent:?}\n    {expected:?}\n    {answer:?}"));
        }
    }
    assert!(different.is_empty(), "{} are different:\n{}", different.len(), different.join("\n"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_in_the_encoding_of_the_client() {
    let pg = Some("127.0.0.1:0".to_owned());
    let server = TestServer::start(ServerOptions { pg, no_auth: true, ..ServerOptions::default() }).await;
    let mut stream = raw(&server).await;
    ask(&mut stream, &["Q set client_encoding = 'latin9'"]).await;
    let texts: [&[u8]; 2] = [b"select length('a\xa4\xe4'), 'a\xa4\xe4' as \"\xe4\"\0", b"select 'a\xa4', chr(28450)\0"];
    for (sql, expected) in texts.into_iter().zip([&b"\0\x02\0\0\0\x013\0\0\0\x03a\xa4\xe4"[..], b"22P05"]) {
        let query = [&b"Q"[..], &sized(sql.len() + 4), sql].concat();
        stream.write_all(&query).await.expect("sent");
        let mut said = vec![];
        while !said.ends_with(b"Z\0\0\0\x05I") {
            said.push(stream.read_u8().await.expect("an answer"));
        }
        assert!(said.windows(expected.len()).any(|part| part == expected), "{said:?}");
    }
    server.stop().await;
}

/// Sends messages at once, and reads the answers up to the last one that says that the server is ready.
async fn ask(stream: &mut TcpStream, lines: &[&str]) -> Vec<String> {
    let bytes: Vec<u8> = lines.iter().flat_map(|line| message(line)).collect();
    stream.write_all(&bytes).await.expect("sent");
    let is_answered = |line: &&&str| line.trim_start_matches("! ").starts_with(['Q', 'S']);
    let mut left = lines.iter().filter(is_answered).count();
    left = left.max(usize::from(lines.iter().any(|line| line.starts_with('?'))));
    let mut answers = vec![];
    while left > 0 {
        let kind = match tokio::time::timeout(SILENCE, stream.read_u8()).await {
            Ok(Ok(kind)) => kind,
            ended => {
                answers.push(if ended.is_ok() { "closed" } else { "silence" }.to_owned());
                break;
            }
        };
        let mut body = vec![0; stream.read_u32().await.expect("a length") as usize - 4];
        stream.read_exact(&mut body).await.expect("a body");
        left -= usize::from(kind == b'Z');
        if !b"SKT".contains(&kind) {
            answers.push(answer(kind, &body));
        }
    }
    answers
}

fn text(word: &str) -> Vec<u8> {
    let word = if word == "-" { "" } else { word };
    [word.as_bytes(), b"\0"].concat()
}

fn message(line: &str) -> Vec<u8> {
    let (mut kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    let words: Vec<&str> = rest.split(' ').collect();
    let body = match kind {
        "!" | "?" => {
            kind = words[0];
            let digits = words.get(1).copied().unwrap_or_default();
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex")).collect()
        }
        "Q" => text(rest),
        "P" => {
            let (name, sql) = rest.split_once(' ').expect("a name and a statement");
            [text(name), text(sql), vec![0, 0]].concat()
        }
        "B" => {
            let values = words[2..].iter().flat_map(|value| [&sized(value.len()), value.as_bytes()].concat());
            let count = (words.len() - 2) as u16;
            let mut body = [text(words[0]), text(words[1]), vec![0, 0], count.to_be_bytes().to_vec()].concat();
            body.extend(values);
            [body, vec![0, 0]].concat()
        }
        "E" => [text(words[0]), sized(words[1].parse().expect("a number of rows")).to_vec()].concat(),
        "D" | "C" => [words[0].as_bytes().to_vec(), text(words[1])].concat(),
        _ => vec![],
    };
    [kind.as_bytes(), &sized(body.len() + 4), &body].concat()
}

fn sized(length: usize) -> [u8; 4] {
    (length as u32).to_be_bytes()
}

fn answer(kind: u8, body: &[u8]) -> String {
    let code = || {
        let code = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"C"));
        String::from_utf8_lossy(code.unwrap_or_default()).into_owned()
    };
    match kind {
        b'C' => format!("C {}", String::from_utf8_lossy(&body[..body.len() - 1])),
        b'E' | b'N' => format!("{} {}", char::from(kind), code()),
        b'Z' => format!("Z {}", char::from(body[0])),
        b'D' => format!("D {}", row(&body[2..])),
        kind => char::from(kind).to_string(),
    }
}

fn row(mut rest: &[u8]) -> String {
    let mut values = vec![];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            values.push("NULL".into());
            rest = after;
            continue;
        };
        values.push(String::from_utf8_lossy(&after[..length]));
        rest = &after[length..];
    }
    values.join(",")
}
