//! The SQLSTATEs that the server itself reports, by their names in PostgreSQL's appendix A. Errors of the engine have
//! theirs already ([`freestone::Error::sqlstate`]).

pub const SUCCESS: &str = "00000";
pub const CONNECTION_FAILURE: &str = "08006";
pub const PROTOCOL_VIOLATION: &str = "08P01";
pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
pub const DATA_EXCEPTION: &str = "22000";
pub const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";
pub const INVALID_PARAMETER_VALUE: &str = "22023";
pub const INVALID_TEXT_REPRESENTATION: &str = "22P02";
pub const INVALID_BINARY_REPRESENTATION: &str = "22P03";
pub const BAD_COPY_FILE_FORMAT: &str = "22P04";
pub const ACTIVE_SQL_TRANSACTION: &str = "25001";
pub const READ_ONLY_SQL_TRANSACTION: &str = "25006";
pub const NO_ACTIVE_SQL_TRANSACTION: &str = "25P01";
pub const IN_FAILED_SQL_TRANSACTION: &str = "25P02";
pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: &str = "25P03";
pub const INVALID_SQL_STATEMENT_NAME: &str = "26000";
pub const INVALID_AUTHORIZATION_SPECIFICATION: &str = "28000";
pub const INVALID_PASSWORD: &str = "28P01";
pub const INVALID_CURSOR_NAME: &str = "34000";
pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
pub const SYNTAX_ERROR: &str = "42601";
pub const DUPLICATE_COLUMN: &str = "42701";
pub const UNDEFINED_COLUMN: &str = "42703";
pub const UNDEFINED_OBJECT: &str = "42704";
pub const UNDEFINED_TABLE: &str = "42P01";
pub const DUPLICATE_CURSOR: &str = "42P03";
pub const DUPLICATE_PREPARED_STATEMENT: &str = "42P05";
pub const TOO_MANY_CONNECTIONS: &str = "53300";
pub const OUT_OF_MEMORY: &str = "53200";
pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
pub const CANT_CHANGE_RUNTIME_PARAM: &str = "55P02";
pub const QUERY_CANCELED: &str = "57014";
pub const ADMIN_SHUTDOWN: &str = "57P01";
pub const IDLE_SESSION_TIMEOUT: &str = "57P05";
