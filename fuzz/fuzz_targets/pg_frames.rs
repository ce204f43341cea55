//! Bytes of PostgreSQL's clients: see `freestone_server::fuzz::postgres_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| freestone_server::fuzz::postgres_frames(bytes));
