//! Entry points for fuzzing: every decoder of bytes that clients send.

use crate::pg;

/// Reads bytes as the frames of a PostgreSQL client, after its startup, and their fields.
pub fn postgres_frames(bytes: &[u8]) {
    pg::fuzz::frames(bytes);
}

/// Reads bytes as a PostgreSQL client's startup.
pub fn postgres_startup(bytes: &[u8]) {
    pg::fuzz::startup(bytes);
}

/// Reads bytes as the text and binary form of a parameter; the first byte chooses its type.
pub fn postgres_parameter(bytes: &[u8]) {
    pg::fuzz::parameter(bytes);
}

/// Reads bytes as COPY's text format, and as rows of its binary one.
pub fn postgres_copy(bytes: &[u8]) {
    pg::fuzz::copy(bytes);
}
