//! A CSV file: inference and parsing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone::fuzz::fuzz_csv(data));
