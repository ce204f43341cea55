//! A page of any format: decoding and filtering.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone_store::fuzz::fuzz_page(data));
