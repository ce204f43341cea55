//! A segment's footer or trailer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone_store::fuzz::fuzz_footer(data));
