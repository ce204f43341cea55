//! Parses messages of PostgreSQL's clients from untrusted bytes.
//!
//! ```text
//! startup:   length i32 (itself included), code i32, body
//! later:     kind u8, length i32 (itself included), body
//! ```
//! Numbers are big-endian, and a zero byte ends a text. Memory is allocated only for bytes that have arrived, whatever
//! the length field says, and every field is bounds-checked.

use std::borrow::Cow;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::encoding::Encoding;

/// The maximum bytes of a startup message, and of any message before authentication.
const STARTUP_BYTES_MAX: usize = 10_000;
/// The maximum bytes of any other message, since a parameter may be large.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// The step by which the buffer of a body grows.
const GROWTH_BYTES: usize = 256 << 10;
/// The bytes that are read at once of a body that is skipped.
const SKIPPED_BYTES: usize = 64 << 10;
/// The time limit from the first byte of a message to its last.
const FRAME_SECONDS_MAX: u64 = 120;

const CODE_SSL: i32 = 80_877_103;
const CODE_GSS: i32 = 80_877_104;
const CODE_CANCEL: i32 = 80_877_102;

/// The reasons why a client's bytes cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("{0}")]
    Malformed(&'static str),
    #[error("a message of {bytes} bytes is larger than the {limit} that are read")]
    TooLarge { bytes: i64, limit: usize },
    #[error("text is not in the client's encoding")]
    Encoding,
    #[error("a message did not come within {FRAME_SECONDS_MAX} seconds")]
    Slow,
    #[error("messages of kind {0} mean nothing to this server")]
    Kind(u8),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

pub type Result<T, E = FrameError> = std::result::Result<T, E>;

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Startup {
    Ssl,
    Gss,
    Cancel { number: i32, key: Vec<u8> },
    Start { minor: u16, parameters: Vec<(String, String)> },
}

/// The messages of a client after its startup.
#[derive(Debug, PartialEq)]
pub enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe {
        target: Target,
        name: String,
    },
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close {
        target: Target,
        name: String,
    },
    Flush,
    Sync,
    Terminate,
    /// A password, or a step of SASL.
    Password(Vec<u8>),
    CopyData(Vec<u8>),
    CopyDone,
    CopyFail(String),
    /// A call of a function by its OID, without SQL. Its fields are not read.
    FunctionCall,
    /// A message of this kind that is not understood. Those behind it are.
    Unread {
        kind: u8,
        reason: Unread,
    },
}

/// Why a message whose length is sound is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There was no memory for it.
    Memory(String),
    /// Its fields do not fit its length, or have values that they cannot have.
    Fields(&'static str),
    /// A text in it is not in the client's encoding.
    Encoding,
}

/// A message whose texts are not read yet, because that depends on the client's encoding when its turn comes.
#[derive(Debug)]
pub enum Frame {
    Whole {
        kind: u8,
        body: Vec<u8>,
    },
    /// A message of this kind for whose body there was no memory; its bytes were skipped.
    Unread {
        kind: u8,
        reason: String,
    },
}

impl Frame {
    /// The bytes of what may be large.
    pub fn bytes(&self) -> usize {
        match self {
            Frame::Whole { kind: b'Q' | b'P' | b'B' | b'd', body } => body.len(),
            Frame::Whole { .. } | Frame::Unread { .. } => 0,
        }
    }

    /// Whether it is a Sync without errors.
    pub fn is_sync(&self) -> bool {
        matches!(self, Frame::Whole { kind: b'S', body } if body.is_empty())
    }

    /// Parses the message of a client with an encoding. Where its fields are wrong, the next message can still be read.
    ///
    /// # Errors
    ///
    /// The kind is unknown, so that the client speaks another protocol.
    pub fn parse(self, encoding: Encoding) -> Result<Message> {
        let (kind, body) = match self {
            Frame::Whole { kind, body } => (kind, body),
            Frame::Unread { kind, reason } => return Ok(Message::Unread { kind, reason: Unread::Memory(reason) }),
        };
        match parse(kind, body, encoding) {
            Err(FrameError::Malformed(reason)) => Ok(Message::Unread { kind, reason: Unread::Fields(reason) }),
            Err(FrameError::Encoding) => Ok(Message::Unread { kind, reason: Unread::Encoding }),
            parsed => parsed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Statement,
    Portal,
}

#[derive(Debug, PartialEq)]
pub struct Bind {
    pub portal: String,
    pub statement: String,
    pub formats: Vec<i16>,
    pub values: Vec<Option<Vec<u8>>>,
    pub result_formats: Vec<i16>,
}

/// Reads a startup message; `None` if the client has disconnected.
///
/// # Errors
///
/// The message is malformed or incomplete.
pub async fn read_startup(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Startup>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    match read_body(stream, i32::from_be_bytes(length), STARTUP_BYTES_MAX, |_| Ok(())).await? {
        Body::Read(body) => parse_startup(&body).map(Some),
        Body::Skipped(_) => Err(FrameError::Malformed("a startup message that was not read")),
    }
}

pub fn parse_startup(body: &[u8]) -> Result<Startup> {
    let mut fields = Fields { bytes: body, encoding: Encoding::Utf8 };
    match fields.i32()? {
        CODE_SSL => Ok(Startup::Ssl),
        CODE_GSS => Ok(Startup::Gss),
        CODE_CANCEL => Ok(Startup::Cancel { number: fields.i32()?, key: fields.bytes.to_vec() }),
        version if version >> 16 == 3 => {
            let mut parameters = vec![];
            loop {
                let name = fields.text()?;
                if name.is_empty() {
                    return Ok(Startup::Start { minor: version as u16, parameters });
                }
                parameters.push((name, fields.text()?));
            }
        }
        _ => Err(FrameError::Malformed("this is not PostgreSQL's protocol in version 3")),
    }
}

/// Reads one message; `None` if the client has disconnected. There is no time limit for its first byte. `reserve` takes
/// memory for the bytes of a large message, as they arrive.
///
/// # Errors
///
/// The message is too long, or incomplete after the time limit.
pub async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
    reserve: impl FnMut(usize) -> freestone::Result<()>,
) -> Result<Option<Frame>> {
    let mut kind = [0; 1];
    if stream.read(&mut kind).await? == 0 {
        return Ok(None);
    }
    let body = async {
        let mut length = [0; 4];
        stream.read_exact(&mut length).await?;
        read_body(stream, i32::from_be_bytes(length), bytes_max, reserve).await
    };
    let body = tokio::time::timeout(Duration::from_secs(FRAME_SECONDS_MAX), body).await;
    Ok(Some(match body.map_err(|_| FrameError::Slow)?? {
        Body::Read(body) => Frame::Whole { kind: kind[0], body },
        Body::Skipped(reason) => Frame::Unread { kind: kind[0], reason },
    }))
}

/// Reads one message of a client that is not yet authenticated, which must be small.
///
/// # Errors
///
/// As for [`read`], or the message is malformed.
pub async fn read_unproven(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>> {
    let frame = read(stream, STARTUP_BYTES_MAX, |_| Ok(())).await?;
    frame.map(|frame| frame.parse(Encoding::Utf8)).transpose()
}

/// The body of a message.
enum Body {
    Read(Vec<u8>),
    /// There was no memory for it, for this reason.
    Skipped(String),
}

async fn read_body(
    stream: &mut (impl AsyncRead + Unpin),
    length: i32,
    limit: usize,
    mut reserve: impl FnMut(usize) -> freestone::Result<()>,
) -> Result<Body> {
    let bytes = i64::from(length) - 4;
    if bytes < 0 {
        return Err(FrameError::Malformed("a message's length is less than that of its length"));
    }
    if bytes > limit as i64 {
        return Err(FrameError::TooLarge { bytes, limit });
    }
    let bytes = bytes as usize;
    let mut body = Vec::new();
    while body.len() < bytes {
        let start = body.len();
        let end = bytes.min(start + GROWTH_BYTES);
        // Small messages need no memory of the pool.
        if start > 0
            && let Err(error) = reserve(end - start)
        {
            drop(body);
            skip(stream, bytes - start).await?;
            return Ok(Body::Skipped(error.to_string()));
        }
        body.resize(end, 0);
        stream.read_exact(&mut body[start..]).await?;
    }
    Ok(Body::Read(body))
}

async fn skip(stream: &mut (impl AsyncRead + Unpin), bytes: usize) -> Result<()> {
    let mut buffer = vec![0; SKIPPED_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(SKIPPED_BYTES);
        stream.read_exact(&mut buffer[..part]).await?;
        left -= part;
    }
    Ok(())
}

/// Parses a message from its kind and body.
///
/// # Errors
///
/// The kind is unknown, or the body is malformed.
pub fn parse(kind: u8, body: Vec<u8>, encoding: Encoding) -> Result<Message> {
    match kind {
        b'd' => return Ok(Message::CopyData(body)),
        b'p' => return Ok(Message::Password(body)),
        b'F' => return Ok(Message::FunctionCall),
        b'X' => return Ok(Message::Terminate),
        _ => {}
    }
    let mut fields = Fields { bytes: &body, encoding };
    let message = match kind {
        b'Q' => Message::Query(fields.text()?),
        b'P' => {
            let (name, sql) = (fields.text()?, fields.text()?);
            let count = fields.u16()?;
            let types = (0..count).map(|_| fields.i32().map(|oid| oid as u32)).collect::<Result<_>>()?;
            Message::Parse { name, sql, types }
        }
        b'B' => Message::Bind(bind(&mut fields)?),
        b'D' => Message::Describe { target: fields.target()?, name: fields.text()? },
        b'C' => Message::Close { target: fields.target()?, name: fields.text()? },
        b'E' => {
            let portal = fields.text()?;
            // Zero and negative values mean all rows.
            Message::Execute { portal, rows_max: usize::try_from(fields.i32()?).unwrap_or(0) }
        }
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(fields.text()?),
        _ => return Err(FrameError::Kind(kind)),
    };
    if fields.bytes.is_empty() {
        Ok(message)
    } else {
        Err(FrameError::Malformed("a message is longer than its fields"))
    }
}

fn bind(fields: &mut Fields) -> Result<Bind> {
    let (portal, statement) = (fields.text()?, fields.text()?);
    let formats = fields.formats()?;
    let count = fields.u16()?;
    let values = (0..count).map(|_| fields.value()).collect::<Result<_>>()?;
    Ok(Bind { portal, statement, formats, values, result_formats: fields.formats()? })
}

/// The remaining fields of a body.
struct Fields<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(FrameError::Malformed("a message ends early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn text(&mut self) -> Result<String> {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let text = self.take(end.ok_or(FrameError::Malformed("a text has no end"))?)?;
        self.take(1)?;
        self.encoding.decode(text).map(Cow::into_owned).ok_or(FrameError::Encoding)
    }

    fn target(&mut self) -> Result<Target> {
        match self.take(1)? {
            b"S" => Ok(Target::Statement),
            b"P" => Ok(Target::Portal),
            _ => Err(FrameError::Malformed("neither a statement nor a portal is meant")),
        }
    }

    fn formats(&mut self) -> Result<Vec<i16>> {
        let count = self.u16()?;
        (0..count).map(|_| self.array().map(i16::from_be_bytes)).collect()
    }

    fn value(&mut self) -> Result<Option<Vec<u8>>> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| FrameError::Malformed("a value has no length"))?;
                self.take(length).map(|bytes| Some(bytes.to_vec()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_exactly_their_fields() {
        let bind = b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01x\xff\xff\xff\xff\0\0".to_vec();
        let expected = Bind {
            portal: "p".into(),
            statement: "s".into(),
            formats: vec![1],
            values: vec![Some(b"x".to_vec()), None],
            result_formats: vec![],
        };
        let parse = |kind: u8, body: Vec<u8>| parse(kind, body, Encoding::Utf8);
        assert_eq!(parse(b'B', bind.clone()).expect("a message"), Message::Bind(expected));
        for end in 0..bind.len() {
            assert!(parse(b'B', bind[..end].to_vec()).is_err(), "{end}");
        }
        assert!(parse(b'B', [bind, vec![0]].concat()).is_err());
        assert!(matches!(parse(b'Q', b"a\xff\0".to_vec()), Err(FrameError::Encoding)));
        let latin = super::parse(b'Q', b"a\xe4\0".to_vec(), Encoding::Latin1);
        assert_eq!(latin.expect("a message"), Message::Query("aä".into()));
        assert!(parse(b'!', vec![]).is_err());
        let execute = parse(b'E', b"\0\xff\xff\xff\xff".to_vec()).expect("a message");
        assert_eq!(execute, Message::Execute { portal: String::new(), rows_max: 0 });
    }

    #[test]
    fn only_unknown_kinds_end_the_connection() {
        let parse = |kind: u8, body: &[u8]| Frame::Whole { kind, body: body.to_vec() }.parse(Encoding::Utf8);
        for (kind, body) in [(b'B', &b"p"[..]), (b'S', b"x"), (b'D', b"Xs\0"), (b'Q', b"no end"), (b'Q', b"\xff\0")] {
            let message = parse(kind, body).expect("a message");
            assert!(matches!(message, Message::Unread { kind: of, .. } if of == kind), "{message:?}");
        }
        for kind in [0, b'!', b'q', 255] {
            assert!(matches!(parse(kind, b""), Err(FrameError::Kind(of)) if of == kind));
        }
    }

    #[test]
    fn startups_are_read() {
        let start = [&3i32.rotate_left(16).to_be_bytes()[..], b"user\0ann\0\0"].concat();
        let parameters = vec![("user".to_owned(), "ann".to_owned())];
        assert_eq!(parse_startup(&start).expect("a startup"), Startup::Start { minor: 0, parameters });
        assert_eq!(parse_startup(&CODE_SSL.to_be_bytes()).expect("a startup"), Startup::Ssl);
        for bad in [&b""[..], b"\0\0\0\x01", &start[..8], b"GET / HTTP"] {
            assert!(parse_startup(bad).is_err());
        }
    }

    #[tokio::test]
    async fn lengths_are_not_believed() {
        for length in [0, 3, -1, i32::MIN, i32::MAX] {
            let mut bytes = vec![b'Q'];
            bytes.extend(length.to_be_bytes());
            assert!(read(&mut bytes.as_slice(), FRAME_BYTES_MAX, |_| Ok(())).await.is_err(), "{length}");
        }
        assert!(read(&mut &b""[..], 10, |_| Ok(())).await.expect("an end").is_none());
    }

    #[tokio::test]
    async fn bodies_without_memory_are_skipped() {
        let text = vec![b'x'; GROWTH_BYTES * 3];
        let mut bytes = vec![b'Q'];
        bytes.extend((text.len() as i32 + 5).to_be_bytes());
        bytes.extend(&text);
        bytes.extend(b"\0X\0\0\0\x04");
        for (room, is_read) in [(GROWTH_BYTES * 4, true), (GROWTH_BYTES, false), (0, false)] {
            let (mut rest, mut taken) = (bytes.as_slice(), 0);
            let message = read(&mut rest, FRAME_BYTES_MAX, |bytes| {
                taken += bytes;
                if taken <= room { Ok(()) } else { Err(freestone::Error::new(freestone::ErrorKind::Resource, "full")) }
            });
            let message = message.await.expect("a message").expect("a message");
            match message.parse(Encoding::Utf8).expect("a message") {
                Message::Query(sql) => assert!(is_read && sql.len() == text.len()),
                other => {
                    assert!(!is_read && other == Message::Unread { kind: b'Q', reason: Unread::Memory("full".into()) })
                }
            }
            // What follows is read as if nothing had happened.
            let next = read(&mut rest, FRAME_BYTES_MAX, |_| Ok(())).await.expect("a message");
            assert!(matches!(next, Some(Frame::Whole { kind: b'X', .. })));
        }
    }
}
