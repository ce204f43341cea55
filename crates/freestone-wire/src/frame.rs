//! The frame around every message, and bounds-checked parsing of its fields.
//!
//! ```text
//! byte 0        kind, see [`Kind`]
//! byte 1        0
//! bytes 2..4    0
//! bytes 4..8    id, u32: the result or statement to which the message belongs; 0 = the connection
//! bytes 8..12   length of the payload, u32
//! bytes 12..16  CRC-32C of bytes 0..12 and the payload
//! then          the payload
//! ```
//! Fields of payloads: numbers are little-endian; text and bytes are preceded by a `u32` length, lists by a `u32`
//! count; an option is a byte 0, or 1 and the value; a truth value is a byte 0 or 1. Nothing may follow the last field.

use crate::error::{Result, WireError};
use crc_fast::{CrcAlgorithm, Digest};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes of a frame's header.
pub const HEADER_BYTES: usize = 16;
/// The step in which memory for a payload grows: a length is not trusted before its bytes have arrived.
const GROWTH_BYTES: usize = 256 << 10;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The client begins a connection.
    Hello = 1,
    /// The server's part of the authentication.
    Challenge = 2,
    /// The client's part of the authentication.
    Proof = 3,
    /// The server accepts the connection.
    Ready = 4,
    /// The text of a query.
    Query = 5,
    /// The text of a statement to prepare.
    Prepare = 6,
    /// A prepared statement, with the types of its parameters and columns.
    Prepared = 7,
    /// The execution of a prepared statement.
    Execute = 8,
    /// A prepared statement is no longer needed.
    CloseStatement = 9,
    /// Cancels a statement.
    Cancel = 10,
    /// Allows more chunks.
    Credit = 11,
    /// The columns of a result.
    Header = 12,
    /// Shared state of a column.
    Shared = 13,
    /// Rows of a result.
    Chunk = 14,
    /// Rows in the ring of shared memory.
    MappedChunk = 15,
    /// The end of a statement.
    Complete = 16,
    /// The error of a statement.
    Error = 17,
    /// A notice.
    Notice = 18,
    /// The progress of a statement.
    Progress = 19,
    /// The begin of an upload.
    Upload = 20,
    /// The beginning of an upload.
    UploadEnd = 21,
    /// A table that a statement may name.
    Input = 22,
    /// Requests a pong.
    Ping = 23,
    /// Answers a ping.
    Pong = 24,
    /// The end of the connection.
    Terminate = 25,
    /// A further part of a chunk.
    ChunkPart = 26,
    /// Rows in the arena of shared memory.
    PlacedChunk = 27,
    /// A row larger than the client's largest chunk.
    Grow = 28,
}

impl Kind {
    fn of(id: u8) -> Option<Self> {
        use Kind::*;
        const ALL: [Kind; 28] = [
            Hello,
            Challenge,
            Proof,
            Ready,
            Query,
            Prepare,
            Prepared,
            Execute,
            CloseStatement,
            Cancel,
            Credit,
            Header,
            Shared,
            Chunk,
            MappedChunk,
            Complete,
            Error,
            Notice,
            Progress,
            Upload,
            UploadEnd,
            Input,
            Ping,
            Pong,
            Terminate,
            ChunkPart,
            PlacedChunk,
            Grow,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == id)
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the frame.
    pub kind: Kind,
    /// The result or statement to which the frame belongs; 0 for the connection.
    pub id: u32,
    /// The bytes of the payload.
    pub length: u32,
    checksum: u32,
}

impl Header {
    /// Checks everything except the checksum, which needs the payload; see [`Header::check`].
    ///
    /// # Errors
    /// `Malformed` if the kind is unknown, a reserved byte is not zero, or the length exceeds `length_max`.
    pub fn parse(bytes: &[u8; HEADER_BYTES], length_max: usize) -> Result<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let malformed = |reason: String| WireError::malformed("frame", reason);
        let kind = Kind::of(bytes[0]).ok_or_else(|| malformed(format!("unknown kind {}", bytes[0])))?;
        if bytes[1..4] != [0; 3] {
            return Err(malformed(format!("unknown flags {:?}", &bytes[1..4])));
        }
        let header = Header { kind, id: number(4), length: number(8), checksum: number(12) };
        if header.length as usize > length_max {
            return Err(malformed(format!("{kind:?} of {} bytes; at most {length_max} are allowed", header.length)));
        }
        Ok(header)
    }

    /// Compares the checksum with that of header and payload.
    ///
    /// # Errors
    /// `Malformed` if they differ.
    pub fn check(&self, payload: &[u8]) -> Result<()> {
        let bytes = header_bytes(self.kind, self.id, &[payload]);
        if bytes[8..12] != self.length.to_le_bytes() || bytes[12..] != self.checksum.to_le_bytes() {
            let reason = format!("the checksum of {:?} is wrong: bytes changed on the way", self.kind);
            return Err(WireError::malformed("frame", reason));
        }
        Ok(())
    }
}

/// The header of a payload that consists of parts.
pub(crate) fn header_bytes(kind: Kind, id: u32, parts: &[&[u8]]) -> [u8; HEADER_BYTES] {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut header = [0; HEADER_BYTES];
    header[0] = kind as u8;
    header[4..8].copy_from_slice(&id.to_le_bytes());
    header[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&header[..12]);
    parts.iter().for_each(|part| digest.update(part));
    header[12..].copy_from_slice(&(digest.finalize() as u32).to_le_bytes());
    header
}

/// The whole frame of a message.
pub fn frame<M: Message>(id: u32, message: &M) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    message.put(&mut out);
    seal(M::KIND, id, &mut out);
    out
}

/// Writes the header of a frame whose payload follows the first [`HEADER_BYTES`] bytes.
pub(crate) fn seal(kind: Kind, id: u32, frame: &mut [u8]) {
    let header = header_bytes(kind, id, &[&frame[HEADER_BYTES..]]);
    frame[..HEADER_BYTES].copy_from_slice(&header);
}

/// Reads a header; `None` if the connection ended between two frames.
pub(crate) async fn read_header<R: AsyncRead + Unpin + ?Sized>(io: &mut R, max: usize) -> Result<Option<Header>> {
    let mut bytes = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match io.read(&mut bytes[filled..]).await {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(WireError::Closed("in the middle of a message")),
            Ok(n) => filled += n,
            Err(error) => return Err(WireError::io("the connection broke")(error)),
        }
    }
    Header::parse(&bytes, max).map(Some)
}

/// Reads a payload into memory that grows as the bytes arrive, and verifies it.
pub(crate) async fn read_payload<R: AsyncRead + Unpin + ?Sized>(io: &mut R, header: &Header) -> Result<Vec<u8>> {
    let length = header.length as usize;
    let mut payload = Vec::with_capacity(length.min(GROWTH_BYTES));
    while payload.len() < length {
        payload.reserve((length - payload.len()).min(GROWTH_BYTES));
        let left = (length - payload.len()) as u64;
        match (&mut *io).take(left).read_buf(&mut payload).await {
            Ok(0) => return Err(WireError::Closed("in the middle of a message")),
            Ok(_) => {}
            Err(error) => return Err(WireError::io("the connection broke")(error)),
        }
    }
    header.check(&payload)?;
    Ok(payload)
}

/// The content of a payload.
pub trait Message: Sized {
    /// The kind of the frames with this message.
    const KIND: Kind;

    /// Appends the payload.
    fn put(&self, out: &mut Vec<u8>);

    /// Parses the fields of a payload.
    ///
    /// # Errors
    /// The payload is too short, or a field is not valid.
    fn take(fields: &mut Fields<'_>) -> Result<Self>;

    /// Parses a whole payload.
    ///
    /// # Errors
    /// `Malformed` with the reason.
    fn parse(payload: &[u8]) -> Result<Self> {
        let mut fields = Fields { what: kind_name(Self::KIND), bytes: payload };
        let message = Self::take(&mut fields)?;
        match fields.bytes.len() {
            0 => Ok(message),
            n => Err(fields.malformed(format!("{n} bytes follow the last field"))),
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Hello => "hello",
        Kind::Challenge | Kind::Proof => "authentication",
        Kind::Header => "result header",
        Kind::Shared => "shared state",
        Kind::Chunk | Kind::ChunkPart | Kind::MappedChunk | Kind::PlacedChunk => "chunk",
        Kind::Query | Kind::Execute => "query",
        _ => "message",
    }
}

/// A cursor over untrusted fields.
#[derive(Debug)]
pub struct Fields<'a> {
    what: &'static str,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes }
    }

    pub(crate) fn malformed(&self, reason: impl std::fmt::Display) -> WireError {
        WireError::malformed(self.what, reason)
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    /// `Malformed` if fewer bytes are left.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(n)
            .ok_or_else(|| self.malformed(format!("{n} bytes expected, {} left", self.bytes.len())))?;
        self.bytes = rest;
        Ok(taken)
    }
}

/// A value in a message.
pub trait Field: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads the value.
    ///
    /// # Errors
    /// The payload is too short, or the value is not valid.
    fn take(fields: &mut Fields<'_>) -> Result<Self>;
}

macro_rules! number_field {
    ($($t:ty)*) => {$(
        impl Field for $t {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(fields: &mut Fields<'_>) -> Result<Self> {
                let bytes = fields.bytes(size_of::<$t>())?;
                Ok(<$t>::from_le_bytes(bytes.try_into().expect("as many bytes as were asked for")))
            }
        }
    )*};
}
number_field!(u8 u16 u32 u64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        match u8::take(fields)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(fields.malformed(format!("{other} is not a truth value"))),
        }
    }
}

impl Field for [u8; 32] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(fields.bytes(32)?.try_into().expect("as many bytes as were asked for"))
    }
}

/// Bytes of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Blob(pub Vec<u8>);

impl Field for Blob {
    fn put(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).put(out);
        out.extend_from_slice(&self.0);
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        let n = u32::take(fields)? as usize;
        Ok(Self(fields.bytes(n)?.to_vec()))
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        let n = u32::take(fields)? as usize;
        let bytes = fields.bytes(n)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| fields.malformed("text is not UTF-8"))
    }
}

impl<F: Field> Field for Option<F> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        if bool::take(fields)? { F::take(fields).map(Some) } else { Ok(None) }
    }
}

impl<F: Field> Field for Vec<F> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        // Every item has at least one byte, so a wrong count ends at the end of the payload.
        (0..u32::take(fields)?).map(|_| F::take(fields)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Notice;

    #[test]
    fn frames_read_back_and_damage_is_found() {
        let bytes = frame(7, &Notice { text: "slow".into() });
        let head: [u8; HEADER_BYTES] = bytes[..HEADER_BYTES].try_into().unwrap();
        let header = Header::parse(&head, 100).unwrap();
        assert_eq!((header.kind, header.id, header.length), (Kind::Notice, 7, 8));
        header.check(&bytes[HEADER_BYTES..]).unwrap();
        assert!(Header::parse(&head, 7).unwrap_err().to_string().contains("at most 7"));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let head: [u8; HEADER_BYTES] = damaged[..HEADER_BYTES].try_into().unwrap();
            let found = Header::parse(&head, 1 << 20).and_then(|h| h.check(&damaged[HEADER_BYTES..]).map(|()| h));
            assert!(found.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fields_end_where_the_payload_does() {
        let mut payload = vec![];
        Notice { text: "slow".into() }.put(&mut payload);
        for end in 0..payload.len() {
            assert!(Notice::parse(&payload[..end]).is_err());
        }
        payload.push(0);
        assert!(Notice::parse(&payload).unwrap_err().to_string().contains("follow"));
        let list = [255; 8];
        assert!(Vec::<u64>::take(&mut Fields::new("list", &list)).is_err());
    }

    #[tokio::test]
    async fn a_length_is_not_believed_before_its_bytes_came() {
        let header = Header { kind: Kind::Chunk, id: 1, length: u32::MAX, checksum: 0 };
        let error = read_payload(&mut &[0u8; 1000][..], &header).await.unwrap_err();
        assert!(matches!(error, WireError::Closed(_)));
    }
}
