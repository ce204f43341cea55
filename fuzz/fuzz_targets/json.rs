//! A JSON file: inference, parsing and queries.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone::fuzz::fuzz_json(data));
