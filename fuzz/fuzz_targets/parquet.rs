//! A Parquet file: metadata, pages and queries. Start from files of pyarrow or DuckDB as the corpus.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freestone::fuzz::fuzz_parquet(data));
