//! An Arrow file or stream. Start from files of pyarrow as the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone::fuzz::fuzz_arrow(data));
