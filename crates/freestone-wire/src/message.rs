//! The messages. `docs/protocol.md` describes their bytes and their order.

// The names of the fields are those of that document.
#![allow(missing_docs)]

use crate::error::{Result, SqlError};
use crate::frame::{Blob, Field, Fields, Kind, Message};

/// The first and last version of the protocol that this code implements.
pub const VERSION: u16 = 1;
/// The beginning of a hello's payload: "FSTW".
pub const MAGIC: u32 = u32::from_le_bytes(*b"FSTW");

/// Declares messages as lists of fields, in the order of the payload.
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
    /// The client's first message, which is also the first of SCRAM.
    Hello: Kind::Hello => {
        /// [`MAGIC`].
        magic: u32,
        /// The first and last version that the client supports.
        version_min: u16,
        version_max: u16,
        /// The largest payload of a frame that the client accepts, in bytes.
        chunk_bytes_max: u32,
        /// See [`capability`].
        capabilities: u32,
        /// The client's description of itself, for logs.
        client: String,
        purpose: Purpose,
    }

    /// The server's answer: the version that both use from here on, and SCRAM's `server-first-message`.
    Challenge: Kind::Challenge => {
        version: u16,
        server_first: String,
    }

    /// SCRAM's `client-final-message`.
    Proof: Kind::Proof => {
        client_final: String,
    }

    /// The connection is ready.
    Ready: Kind::Ready => {
        /// SCRAM's `server-final-message`; empty for an attached stream.
        server_final: String,
        /// Together with the key, identifies this session for further connections, which cancel or attach.
        session: u64,
        key: [u8; 32],
        /// The largest payload of a frame that the server accepts.
        frame_bytes_max: u32,
        /// The client's capabilities that the server has, too.
        capabilities: u32,
        /// The server's description of itself.
        server: String,
        /// The abstract Unix socket that passes the descriptors of shared memory. Empty: there is none.
        memory: String,
    }

    /// Runs a statement. The frame's id identifies the result.
    Query: Kind::Query => {
        run: Run,
        text: String,
    }

    /// Prepares a statement, which the frame's id identifies.
    Prepare: Kind::Prepare => {
        text: String,
        /// As in [`Run`]: example values for the parameters, for their types. Both are empty if the types are unknown.
        parameter_columns: Vec<ColumnDescription>,
        parameters: Blob,
    }

    /// A statement is prepared.
    Prepared: Kind::Prepared => {
        /// The types of its parameters, as far as they are known.
        parameters: Vec<ColumnDescription>,
        /// The columns of its result, if they are known.
        columns: Vec<ColumnDescription>,
    }

    /// Runs a prepared statement. The frame's id identifies the result.
    Execute: Kind::Execute => {
        run: Run,
        statement: u32,
    }

    /// Closes the prepared statement of the frame's id.
    CloseStatement: Kind::CloseStatement => {}

    /// Cancels the result of the frame's id.
    Cancel: Kind::Cancel => {}

    /// Allows this many more chunks of the result or upload of the frame's id.
    Credit: Kind::Credit => {
        chunks: u32,
    }

    /// From the server: the next row of the result needs a chunk of this size. From the client, in answer: the largest
    /// chunk of one row that it accepts from now on (Raasveldt and Mühleisen 2017, section 4.1).
    Grow: Kind::Grow => {
        bytes: u32,
    }

    /// The columns of a result.
    Header: Kind::Header => {
        columns: Vec<ColumnDescription>,
    }

    /// A state to which chunks of the result refer, or a part of it.
    Shared: Kind::Shared => {
        /// The number of the state in the result; 0 is none.
        shared: u32,
        /// 0: entries of a dictionary, added to the earlier ones. Otherwise a `Transform` of the chunk format.
        transform: u8,
        /// The `Kind` of the column's values in the chunk format.
        kind: u8,
        /// Whether more parts follow.
        more: bool,
        bytes: Blob,
    }

    /// A chunk in the shared ring, or a part of one.
    MappedChunk: Kind::MappedChunk => {
        slot: u32,
        length: u32,
        /// CRC-32C of its bytes.
        checksum: u32,
        /// Whether more parts follow.
        more: bool,
    }

    /// A chunk in the arena, where it stays.
    PlacedChunk: Kind::PlacedChunk => {
        /// The unit at which it begins.
        unit: u32,
        length: u32,
    }

    /// A result or upload is complete.
    Complete: Kind::Complete => {
        /// Of a result: the number of rows sent. Of an upload: the number of rows written.
        rows: u64,
        /// The kind of statement: `SELECT`, `INSERT` and so on.
        tag: String,
        /// Microseconds of the server's time.
        server_us: u64,
    }

    /// A statement failed, and its result ends here. With id 0, the connection ends.
    Failure: Kind::Error => {
        sqlstate: String,
        message: String,
        hint: Option<String>,
        position: Option<u32>,
    }

    /// A text to show to the user.
    Notice: Kind::Notice => {
        text: String,
    }

    /// The progress of a statement.
    Progress: Kind::Progress => {
        /// Rows or bytes done, and in total; 0: unknown.
        done: u64,
        total: u64,
    }

    /// Begins an upload, which the frame's id identifies. Chunks follow as credit allows.
    Upload: Kind::Upload => {
        /// The table, or another target that the server knows.
        target: String,
        columns: Vec<ColumnDescription>,
    }

    /// Ends an upload.
    UploadEnd: Kind::UploadEnd => {
        /// Whether to commit the rows. If not, the server discards them.
        commit: bool,
        rows: u64,
    }

    /// Declares a table that the next statement may name. The frame's id identifies its rows, which are sent as in an
    /// upload when the statement reads them.
    Input: Kind::Input => {
        /// In the case to which SQL folds names.
        name: String,
        /// Whether the server reads all rows before the statement begins, so that the statement may read them several
        /// times. If not, it reads them once, while they arrive.
        whole: bool,
        columns: Vec<ColumnDescription>,
    }

    /// Requests a [`Pong`] with the same number.
    Ping: Kind::Ping => {
        number: u64,
    }

    /// Answers a [`Ping`].
    Pong: Kind::Pong => {
        number: u64,
    }

    /// The client disconnects.
    Terminate: Kind::Terminate => {}
}

/// The bits of [`Hello::capabilities`].
pub mod capability {
    /// LZ4 bodies.
    pub const LZ4: u32 = 1;
    /// Zstandard bodies.
    pub const ZSTD: u32 = 2;
    /// Snappy bodies.
    pub const SNAPPY: u32 = 4;
    /// Columns in the chunk format of `docs/format/chunks.md`.
    pub const STORED: u32 = 8;
    /// Chunks in shared memory.
    pub const SHARED_MEMORY: u32 = 16;
    /// Agreement on rows that are larger than the largest chunk.
    pub const GROW: u32 = 32;
    /// All capabilities of this code.
    pub const ALL: u32 = LZ4 | ZSTD | SNAPPY | STORED | SHARED_MEMORY | GROW;
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
    /// The parameters for running a statement.
    Run {
        /// The number of chunks that the server may send before it gets more credit.
        credit: u32,
        /// The parameters' types, and one chunk with a row of them, in order. Both are empty without parameters.
        parameter_columns: Vec<ColumnDescription>,
        parameters: Blob,
    }

    /// A column's name and type.
    ColumnDescription {
        name: String,
        nullable: bool,
        /// In the form of `docs/format/segments.md`. Empty for types that are only in `arrow`.
        data_type: String,
        /// An Arrow IPC stream with a schema of one field, for types that cannot be stored.
        arrow: Option<Blob>,
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// 1: statements. SCRAM's `client-first-message`.
    Session { client_first: String },
    /// 2: cancels the session's statement.
    Cancel { session: u64, key: [u8; 32] },
    /// 3: carries chunks of the session's results.
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
