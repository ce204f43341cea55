//! The messages. `docs/protocol.md` has their bytes and the order in which they may come.

use crate::error::{Result, SqlError};
use crate::frame::{Blob, Field, Fields, Kind, Message};

/// The first version of the protocol, and the last that this code speaks.
pub const VERSION: u16 = 1;
/// What the payload of a hello begins with: "FSTW".
pub const MAGIC: u32 = u32::from_le_bytes(*b"FSTW");

/// Declares messages as lists of fields, in the order in which they stand in the payload.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident: $kind:expr => { $($(#[$field_doc:meta])* $field:ident: $t:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $t,)*
        }

        impl Message for $name {
            const KIND: Kind = $kind;

            #[allow(unused_variables)]
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            #[allow(unused_variables)]
            fn take(fields: &mut Fields<'_>) -> Result<Self> {
                Ok(Self { $($field: Field::take(fields)?,)* })
            }
        }
    )*};
}

messages! {
    /// The client's first message, which also is the first of SCRAM.
    Hello: Kind::Hello => {
        /// [`MAGIC`].
        magic: u32,
        /// The first and last version that the client speaks.
        version_min: u16,
        version_max: u16,
        /// The largest payload of a frame that the client takes, in bytes.
        chunk_bytes_max: u32,
        /// See [`capability`].
        capabilities: u32,
        /// What the client is, for logs.
        client: String,
        purpose: Purpose,
    }

    /// The server's answer: the version that is spoken from here on, and SCRAM's `server-first-message`.
    Challenge: Kind::Challenge => {
        version: u16,
        server_first: String,
    }

    /// SCRAM's `client-final-message`.
    Proof: Kind::Proof => {
        client_final: String,
    }

    /// The connection may be used.
    Ready: Kind::Ready => {
        /// SCRAM's `server-final-message`; empty for an attached stream.
        server_final: String,
        /// With the key, what names this session to further connections: to cancel and to attach.
        session: u64,
        key: [u8; 32],
        /// The largest payload of a frame that the server takes.
        frame_bytes_max: u32,
        /// The client's capabilities that the server has, too.
        capabilities: u32,
        /// What the server is.
        server: String,
        /// The abstract Unix socket that gives out the descriptor of shared memory; empty: there is none.
        memory: String,
    }

    /// Runs a statement. The result is named by the frame's id.
    Query: Kind::Query => {
        run: Run,
        text: String,
    }

    /// Prepares a statement, which is named by the frame's id.
    Prepare: Kind::Prepare => {
        text: String,
        /// As in [`Run`]: values that it will be run with, for their types; both empty where these are not known.
        parameter_columns: Vec<ColumnDescription>,
        parameters: Blob,
    }

    /// A statement is prepared.
    Prepared: Kind::Prepared => {
        /// The types of its parameters, as far as they are known.
        parameters: Vec<ColumnDescription>,
        /// The columns of its result, where they are known.
        columns: Vec<ColumnDescription>,
    }

    /// Runs a prepared statement. The result is named by the frame's id.
    Execute: Kind::Execute => {
        run: Run,
        statement: u32,
    }

    /// Forgets the prepared statement that the frame's id names.
    CloseStatement: Kind::CloseStatement => {}

    /// Cancels the result that the frame's id names.
    Cancel: Kind::Cancel => {}

    /// Allows so many more chunks of the result or upload that the frame's id names.
    Credit: Kind::Credit => {
        chunks: u32,
    }

    /// What a result's rows are made of.
    Header: Kind::Header => {
        columns: Vec<ColumnDescription>,
    }

    /// State that chunks of the result refer to, or a part of it.
    Shared: Kind::Shared => {
        /// Names the state within the result; 0 is none.
        shared: u32,
        /// 0: entries of a dictionary, added to those that came before. Otherwise a `Transform` of the chunk format.
        transform: u8,
        /// The `Kind` of the chunk format, of the column's values.
        kind: u8,
        /// Whether more parts follow.
        more: bool,
        bytes: Blob,
    }

    /// A chunk that lies in the shared memory, or a part of one.
    MappedChunk: Kind::MappedChunk => {
        slot: u32,
        length: u32,
        /// CRC-32C of its bytes.
        checksum: u32,
        /// Whether more parts follow.
        more: bool,
    }

    /// A chunk that lies in the arena, and stays there.
    PlacedChunk: Kind::PlacedChunk => {
        /// The unit that it begins at.
        unit: u32,
        length: u32,
    }

    /// A result or upload is complete.
    Complete: Kind::Complete => {
        /// Of a result: how many were sent. Of an upload: how many were written.
        rows: u64,
        /// What was done: `SELECT`, `INSERT` and so on.
        tag: String,
        /// Microseconds that the server took.
        server_us: u64,
    }

    /// A statement failed, and its result ends here; with id 0, the connection ends.
    Failure: Kind::Error => {
        sqlstate: String,
        message: String,
        hint: Option<String>,
        position: Option<u32>,
    }

    /// Something to show the user.
    Notice: Kind::Notice => {
        text: String,
    }

    /// How far a statement is.
    Progress: Kind::Progress => {
        /// Rows or bytes done, of those there are; 0: not known.
        done: u64,
        total: u64,
    }

    /// Begins an upload, which is named by the frame's id; chunks follow as credit allows.
    Upload: Kind::Upload => {
        /// The table, or what else the server takes.
        target: String,
        columns: Vec<ColumnDescription>,
    }

    /// Ends an upload.
    UploadEnd: Kind::UploadEnd => {
        /// Whether the rows are to be kept. If not, the server drops them.
        commit: bool,
        rows: u64,
    }

    /// Declares a table that the next statement may name. The frame's id names its rows, which come as those of an upload
    /// once the statement reads them.
    Input: Kind::Input => {
        /// As SQL folds it.
        name: String,
        /// Whether the server takes all rows before the statement begins, so that it may read them several times. If not,
        /// it reads them once, while they come.
        whole: bool,
        columns: Vec<ColumnDescription>,
    }

    /// Asks for a [`Pong`] with the same number.
    Ping: Kind::Ping => {
        number: u64,
    }

    /// Answers a [`Ping`].
    Pong: Kind::Pong => {
        number: u64,
    }

    /// The client goes.
    Terminate: Kind::Terminate => {}
}

/// Bits of [`Hello::capabilities`].
pub mod capability {
    pub const LZ4: u32 = 1;
    pub const ZSTD: u32 = 2;
    pub const SNAPPY: u32 = 4;
    /// Columns in the chunk format of `docs/format/chunks.md`.
    pub const STORED: u32 = 8;
    /// Chunks in memory that both ends share.
    pub const SHARED_MEMORY: u32 = 16;
    /// Everything that this code can.
    pub const ALL: u32 = LZ4 | ZSTD | SNAPPY | STORED | SHARED_MEMORY;
}

/// Declares structures that are parts of messages.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $t:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $t,)*
        }

        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(fields: &mut Fields<'_>) -> Result<Self> {
                Ok(Self { $($field: Field::take(fields)?,)* })
            }
        }
    )*};
}

parts! {
    /// How a statement is run.
    Run {
        /// Chunks that the server may send before it gets more credit.
        credit: u32,
        /// The parameters' types, one row's chunk of them, in order; both empty where there are none.
        parameter_columns: Vec<ColumnDescription>,
        parameters: Blob,
    }

    /// A column's name and type.
    ColumnDescription {
        name: String,
        nullable: bool,
        /// As `docs/format/segments.md` writes types; empty for those that are only in `arrow`.
        data_type: String,
        /// An Arrow IPC stream with a schema of one field, for types that cannot be stored.
        arrow: Option<Blob>,
    }
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// 1: statements. SCRAM's `client-first-message`.
    Session { client_first: String },
    /// 2: cancel what the session runs.
    Cancel { session: u64, key: [u8; 32] },
    /// 3: carry chunks of the session's results.
    Attach { session: u64, key: [u8; 32] },
}

impl Field for Purpose {
    fn put(&self, out: &mut Vec<u8>) {
        let (id, session, key) = match self {
            Purpose::Session { client_first } => {
                out.push(1);
                return client_first.put(out);
            }
            Purpose::Cancel { session, key } => (2, session, key),
            Purpose::Attach { session, key } => (3, session, key),
        };
        out.push(id);
        session.put(out);
        key.put(out);
    }

    fn take(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(match u8::take(fields)? {
            1 => Purpose::Session { client_first: Field::take(fields)? },
            2 => Purpose::Cancel { session: Field::take(fields)?, key: Field::take(fields)? },
            3 => Purpose::Attach { session: Field::take(fields)?, key: Field::take(fields)? },
            other => return Err(fields.malformed(format!("{other} is not the purpose of a connection"))),
        })
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        let SqlError { sqlstate, message, hint, position } = error;
        Self { sqlstate, message, hint, position }
    }
}

impl From<Failure> for SqlError {
    fn from(failure: Failure) -> Self {
        let Failure { sqlstate, message, hint, position } = failure;
        Self { sqlstate, message, hint, position }
    }
}
