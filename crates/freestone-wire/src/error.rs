//! Errors of the wire. Each says what was wrong, where, and what to do next.

/// A statement's error, as the server sends it and the client sees it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    /// Five characters, as in the SQL standard and PostgreSQL's appendix A.
    pub sqlstate: String,
    /// What is wrong.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The position of the error in the statement, in characters from 1.
    pub position: Option<u32>,
}

impl SqlError {
    /// An error without hint and position.
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self { sqlstate: sqlstate.into(), message: message.into(), hint: None, position: None }
    }

    /// The same with a hint.
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The SQLSTATEs that the wire itself uses.
pub mod sqlstate {
    /// Bytes that are not valid in the protocol.
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    /// A wrong user, password or secret key.
    pub const INVALID_PASSWORD: &str = "28P01";
    /// The statement was cancelled.
    pub const QUERY_CANCELED: &str = "57014";
    /// One row is larger than the largest chunk of the client or the server.
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    /// There is no prepared statement with this number.
    pub const INVALID_STATEMENT_NAME: &str = "26000";
    /// A bug of ours.
    pub const INTERNAL_ERROR: &str = "XX000";
}

/// The reason why an operation on a connection failed.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The operating system's error on a socket or file.
    #[allow(missing_docs)]
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },

    /// The other side ended the connection.
    #[error("the connection was closed {0}; connect again")]
    Closed(&'static str),

    /// The other side violated the protocol. The connection can no longer be used.
    #[allow(missing_docs)]
    #[error("malformed {what}: {reason}")]
    Malformed { what: &'static str, reason: String },

    /// One row does not fit a chunk, and the client has not agreed to a larger one (Raasveldt and Mühleisen 2017,
    /// section 4.1). `option`: the client's option that allows it.
    #[allow(missing_docs)]
    #[error("one row needs a chunk of {needed} bytes and the client takes {limit}; connect with {option}={needed}")]
    RowTooLarge { needed: usize, limit: usize, option: &'static str },

    /// One row exceeds the limit of the server, whatever its client requests.
    #[allow(missing_docs)]
    #[error("one row needs a chunk of {needed} bytes and the server's limit is {limit}; divide its values among rows")]
    RowAboveLimit { needed: usize, limit: usize },

    /// The statement failed on the server.
    #[error(transparent)]
    Sql(Box<SqlError>),

    /// User, password or the server's proof are wrong.
    #[error("authentication failed: {0}")]
    Authentication(String),

    /// The other side exceeded a time limit.
    #[error("timed out {0}")]
    Timeout(&'static str),

    /// Another result of this connection is still being read.
    #[error("the connection is busy with another result; read or drop that first, or use a second connection")]
    Busy,

    /// The statement was cancelled, or its client has disconnected.
    #[error("the statement was cancelled")]
    Cancelled,

    /// An address, option or certificate is not valid.
    #[error("{0}")]
    Config(String),

    /// The source of rows to be sent failed.
    #[error("{0}")]
    Source(String),

    /// Values that cannot be encoded.
    #[allow(missing_docs)]
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

    /// The error in the form that a client receives.
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

/// A result of the wire.
pub type Result<T, E = WireError> = std::result::Result<T, E>;

/// The error for column `at`, which cannot be encoded.
pub(crate) fn encode_error(at: usize) -> impl Fn(String) -> WireError {
    move |reason| WireError::Encode { column: at.to_string(), reason }
}
