//! A script: splitting, parsing, planning.
#![no_main]

libfuzzer_sys::fuzz_target!(|script: &str| freestone::fuzz::fuzz_sql(script));
