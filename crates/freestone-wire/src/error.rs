//! Errors of the wire, each saying what, where and what next.

/// What a server says went wrong with a statement, and a client gets to see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Five characters, as in the SQL standard and PostgreSQL's appendix A.
    pub sqlstate: String,
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The character of the statement at which the error is, from 1.
    pub position: Option<u32>,
}

impl SqlError {
    /// An error with neither hint nor position.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self { sqlstate: sqlstate.into(), message: message.into(), hint: None, position: None }
    }

    /// The same with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// SQLSTATEs that the wire itself uses.
pub mod sqlstate {
    /// Bytes that are not of the protocol.
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    /// A user, password or secret key that is not right.
    pub const INVALID_PASSWORD: &str = "28P01";
    /// The statement was cancelled.
    pub const QUERY_CANCELED: &str = "57014";
    /// One row is larger than the largest chunk of the client or the server.
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    /// There is no prepared statement of this number.
    pub const INVALID_STATEMENT_NAME: &str = "26000";
    /// Our bug.
    pub const INTERNAL_ERROR: &str = "XX000";
}

/// Why an operation on a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The operating system's error on a socket or file.
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },

    /// The other side ended the connection.
    #[error("the connection was closed {0}; connect again")]
    Closed(&'static str),

    /// The other side sent what the protocol does not allow. The connection cannot be used any more.
    #[error("malformed {what}: {reason}")]
    Malformed { what: &'static str, reason: String },

    /// One row does not fit a chunk: the paper's answer (4.1) to rows larger than the client's buffer.
    #[error("one row needs a chunk of {needed} bytes and the client takes {limit}; connect with chunk_size={needed}")]
    RowTooLarge { needed: usize, limit: usize },

    /// One row does not fit what the server sends or takes, whatever its client asks for.
    #[error("one row needs a chunk of {needed} bytes and the server's limit is {limit}; divide its values among rows")]
    RowAboveLimit { needed: usize, limit: usize },

    /// The statement failed on the server.
    #[error(transparent)]
    Sql(Box<SqlError>),

    /// User, password or the server's own proof are not right.
    #[error("authentication failed: {0}")]
    Authentication(String),

    /// The other side took longer than it may.
    #[error("timed out {0}")]
    Timeout(&'static str),

    /// Another result of this connection is still being read.
    #[error("the connection is busy with another result; read or drop that first, or use a second connection")]
    Busy,

    /// The statement was cancelled, or its client is gone.
    #[error("the statement was cancelled")]
    Cancelled,

    /// An address, option or certificate that cannot be used.
    #[error("{0}")]
    Config(String),

    /// Rows that this side was to send, and whose source failed.
    #[error("{0}")]
    Source(String),

    /// Values that cannot be encoded.
    #[error("column {column}: {reason}")]
    Encode { column: String, reason: String },
}

impl WireError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| WireError::Io { what, source }
    }

    pub(crate) fn malformed(what: &'static str, reason: impl std::fmt::Display) -> Self {
        WireError::Malformed { what, reason: reason.to_string() }
    }

    /// The error as a client is told it.
    pub fn to_sql(&self) -> SqlError {
        let state = match self {
            WireError::Sql(error) => return (**error).clone(),
            WireError::Malformed { .. } | WireError::Config(_) => sqlstate::PROTOCOL_VIOLATION,
            WireError::RowTooLarge { .. } | WireError::RowAboveLimit { .. } => sqlstate::PROGRAM_LIMIT_EXCEEDED,
            WireError::Authentication(_) => sqlstate::INVALID_PASSWORD,
            WireError::Cancelled => sqlstate::QUERY_CANCELED,
            _ => sqlstate::INTERNAL_ERROR,
        };
        SqlError::new(state, self.to_string())
    }
}

impl From<SqlError> for WireError {
    fn from(error: SqlError) -> Self {
        WireError::Sql(Box::new(error))
    }
}

pub type Result<T, E = WireError> = std::result::Result<T, E>;
