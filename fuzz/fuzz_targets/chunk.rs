//! A column chunk, of every kind and with every shared state.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone_codec::fuzz_chunk(data));
