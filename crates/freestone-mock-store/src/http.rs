//! Requests and answers of HTTP/1.1, as far as clients of object stores need them.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;

/// The bytes of a body, at most.
const BODY_BYTES_MAX: usize = 1 << 30;

/// A request.
#[derive(Debug)]
pub struct Request {
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The next request; `None` at the end of the connection.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no request line"));
        };
        let mut request =
            Request { method: method.to_owned(), target: target.to_owned(), headers: vec![], body: vec![] };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => {
                    request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        let length = request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        if length > BODY_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is too long"));
        }
        request.body = vec![0; length];
        reader.read_exact(&mut request.body)?;
        Ok(Some(request))
    }

    /// The value of a header, whose name is in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The bucket and the key, decoded.
    pub fn place(&self) -> (String, String) {
        let path = self.target.split('?').next().unwrap_or_default().trim_start_matches('/');
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        (decoded(bucket), decoded(key))
    }

    /// A parameter of the query, decoded. One without a value is empty.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?')?.1;
        let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(known, _)| *known == name).map(|(_, value)| decoded(value))
    }
}

/// A text without `%2F`.
fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        rest = match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                &after[2..]
            }
            _ => {
                bytes.push(*byte);
                after
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn empty(status: u16) -> Response {
        Response { status, headers: vec![], body: vec![] }
    }

    pub fn xml(body: String) -> Response {
        Response { body: body.into_bytes(), ..Response::empty(200) }.with("Content-Type", "application/xml")
    }

    pub fn with_body(self, body: Vec<u8>) -> Response {
        Response { body, ..self }
    }

    /// An error as S3 says it.
    pub fn error(status: u16, code: &str) -> Response {
        Response { status, ..Response::xml(format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>")) }
    }

    pub fn with(mut self, name: &str, value: &str) -> Response {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the answer: without its body to HEAD, or only half of it.
    pub fn write(&self, mut stream: &TcpStream, is_head: bool, is_cut: bool) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Mock\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        let sent = if is_cut { self.body.len() / 2 } else { self.body.len() };
        if !is_head {
            stream.write_all(&self.body[..sent])?;
        }
        stream.flush()
    }
}
