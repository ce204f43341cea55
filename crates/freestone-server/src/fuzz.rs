//! Entry points for fuzzing: every decoder of bytes from clients.

use crate::pg;

/// Parses bytes as the messages of a PostgreSQL client after its startup, with their fields.
pub fn postgres_frames(bytes: &[u8]) {
    pg::fuzz::frames(bytes);
}

/// Parses bytes as the startup message of a PostgreSQL client.
pub fn postgres_startup(bytes: &[u8]) {
    pg::fuzz::startup(bytes);
}

/// Parses bytes as the text and binary form of a parameter. The first byte selects its type.
pub fn postgres_parameter(bytes: &[u8]) {
    pg::fuzz::parameter(bytes);
}

/// Parses bytes as the text format of COPY, and as rows of its binary format.
pub fn postgres_copy(bytes: &[u8]) {
    pg::fuzz::copy(bytes);
}
