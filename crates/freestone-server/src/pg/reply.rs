//! The messages of the server, as bytes.

use super::encoding::Encoding;
use super::error::{PgError, Position};
use super::origins::Origin;
use super::types::ColumnType;
use super::values::Column;
use crate::channels::Notification;

/// Messages that are queued for sending.
#[derive(Debug, Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
    /// The number of bytes that were sent.
    pub sent: usize,
    /// That of the client.
    pub encoding: Encoding,
    /// Where the last message begins, if it says that a statement is complete.
    completed_at: Option<usize>,
}

/// The state of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Idle,
    InTransaction,
    Failed,
}

impl Status {
    /// The name of the state in `pg_stat_activity`.
    pub fn name(self) -> &'static str {
        match self {
            Status::Idle => "idle",
            Status::InTransaction => "idle in transaction",
            Status::Failed => "idle in transaction (aborted)",
        }
    }
}

impl Replies {
    /// Removes all messages, which were sent, and keeps at most `kept_bytes` of memory for the next ones.
    pub fn clear(&mut self, kept_bytes: usize) {
        self.sent = 0;
        self.completed_at = None;
        self.bytes.clear();
        self.bytes.shrink_to(kept_bytes);
    }

    /// Appends a message of a kind with the body that `body` writes. The length is filled in.
    pub fn message(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        self.completed_at = None;
        self.bytes.push(kind);
        let start = self.bytes.len();
        self.bytes.extend([0; 4]);
        body(&mut self.bytes);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    pub fn authentication(&mut self, code: i32, body: &[u8]) {
        self.message(b'R', |out| {
            out.extend(code.to_be_bytes());
            out.extend(body);
        });
    }

    pub fn parameter(&mut self, name: &str, value: &str) {
        let encoding = self.encoding;
        self.message(b'S', |out| {
            text(out, name, encoding);
            text(out, value, encoding);
        });
    }

    pub fn key(&mut self, number: u64, key: [u8; 4]) {
        self.message(b'K', |out| {
            out.extend((number as u32).to_be_bytes());
            out.extend(key);
        });
    }

    /// Appends the newest supported protocol version, 3.0, and the unknown options.
    pub fn negotiate(&mut self, unknown: &[&str]) {
        let encoding = self.encoding;
        self.message(b'v', |out| {
            out.extend((3i32 << 16).to_be_bytes());
            out.extend((unknown.len() as i32).to_be_bytes());
            unknown.iter().for_each(|name| text(out, name, encoding));
        });
    }

    pub fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        };
        self.message(b'Z', |out| out.push(status));
    }

    pub fn notification(&mut self, notification: &Notification) {
        let encoding = self.encoding;
        self.message(b'A', |out| {
            out.extend((notification.number as u32).to_be_bytes());
            text(out, &notification.channel, encoding);
            text(out, &notification.payload, encoding);
        });
    }

    /// Appends a message without a body.
    pub fn bare(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    pub fn complete(&mut self, tag: &str) {
        let encoding = self.encoding;
        let start = self.bytes.len();
        self.message(b'C', |out| text(out, tag, encoding));
        self.completed_at = Some(start);
    }

    /// Takes back that a statement is complete, if that is the last message and was not sent: its transaction could not
    /// commit.
    pub fn retract_complete(&mut self) {
        if let Some(start) = self.completed_at.take().filter(|start| self.sent <= *start) {
            self.bytes.truncate(start);
        }
    }

    pub fn columns(&mut self, columns: &[(String, ColumnType, Option<Origin>)], formats: impl Fn(usize) -> i16) {
        let encoding = self.encoding;
        self.message(b'T', |out| {
            out.extend((columns.len() as u16).to_be_bytes());
            for (at, (name, kind, origin)) in columns.iter().enumerate() {
                text(out, name, encoding);
                out.extend(origin.map_or(0, |origin| origin.table).to_be_bytes());
                out.extend(origin.map_or(0, |origin| origin.column).to_be_bytes());
                out.extend(kind.oid().to_be_bytes());
                out.extend(kind.width().to_be_bytes());
                out.extend(kind.modifier.to_be_bytes());
                out.extend(formats(at).to_be_bytes());
            }
        });
    }

    /// Appends one row of a result.
    pub fn row(&mut self, columns: &[Column], row: usize) {
        self.message(b'D', |out| {
            out.extend((columns.len() as u16).to_be_bytes());
            columns.iter().for_each(|column| column.write_sized(row, out));
        });
    }

    pub fn parameters(&mut self, types: &[u32]) {
        self.message(b't', |out| {
            out.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|oid| out.extend(oid.to_be_bytes()));
        });
    }

    /// Appends the start of COPY. `kind` is `G` for data from the client, and `H` for data to it.
    pub fn copy(&mut self, kind: u8, binary: bool, columns: usize) {
        self.message(kind, |out| {
            out.push(u8::from(binary));
            out.extend((columns as u16).to_be_bytes());
            (0..columns).for_each(|_| out.extend(i16::from(binary).to_be_bytes()));
        });
    }

    pub fn error(&mut self, error: &PgError) {
        self.report(b'E', error);
    }

    pub fn notice(&mut self, notice: &PgError) {
        self.report(b'N', notice);
    }

    fn report(&mut self, kind: u8, error: &PgError) {
        let encoding = self.encoding;
        self.message(kind, |out| {
            let mut field = |name: u8, value: &str| {
                out.push(name);
                text(out, value, encoding);
            };
            field(b'S', error.severity);
            field(b'V', error.severity);
            field(b'C', error.code);
            field(b'M', &error.message);
            if let Some(hint) = &error.hint {
                field(b'H', hint);
            }
            if let Position::InQuery(position) = error.position {
                field(b'P', &position.to_string());
            }
            error.fields.iter().for_each(|(letter, value)| field(*letter, value));
            out.push(0);
        });
    }
}

/// Writes text and its terminating zero byte. Zero bytes within the text, which would end it early, are omitted.
fn text(out: &mut Vec<u8>, text: &str, encoding: Encoding) {
    out.extend(encoding.encode_message(text).iter().filter(|byte| **byte != 0));
    out.push(0);
}
