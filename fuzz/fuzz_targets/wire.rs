//! A payload of the client protocol, read as every message and as a chunk of columns of every type.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone_wire::fuzz::exercise(data));
