//! A commit of the log, applied and folded.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone_store::fuzz::fuzz_commit(data));
