//! Byte codecs over the body of a piece.

use std::cell::RefCell;

use arrow::buffer::Buffer;

use super::ByteCodec;

/// The fastest level of Zstandard that still compresses much better than LZ4.
const ZSTD_LEVEL: i32 = 1;

thread_local! {
    /// Contexts are expensive to create and are reused for every body.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `body`, compressed.
pub fn compress(codec: ByteCodec, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let start = out.len();
    match codec {
        ByteCodec::None => out.extend_from_slice(body),
        ByteCodec::Lz4 => {
            out.resize(start + lz4_flex::block::get_maximum_output_size(body.len()), 0);
            let n = lz4_flex::block::compress_into(body, &mut out[start..]).map_err(|e| e.to_string())?;
            out.truncate(start + n);
        }
        ByteCodec::Snappy => {
            out.resize(start + snap::raw::max_compress_len(body.len()), 0);
            let n = snap::raw::Encoder::new().compress(body, &mut out[start..]).map_err(|e| e.to_string())?;
            out.truncate(start + n);
        }
        ByteCodec::Zstd => COMPRESSOR.with_borrow_mut(|context| {
            let context = match context {
                Some(context) => context,
                None => context.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|e| e.to_string())?),
            };
            out.resize(start + zstd::zstd_safe::compress_bound(body.len()), 0);
            let n = context.compress_to_buffer(body, &mut out[start..]).map_err(|e| e.to_string())?;
            out.truncate(start + n);
            Ok::<(), String>(())
        })?,
    }
    Ok(())
}

/// The body of exactly `raw_bytes` bytes, a number that was checked against the chunk's limit.
pub fn decompress(codec: ByteCodec, body: &Buffer, raw_bytes: usize) -> Result<Buffer, String> {
    if codec == ByteCodec::None {
        return if body.len() == raw_bytes { Ok(body.clone()) } else { Err("a length that is not the body's".into()) };
    }
    let mut raw = vec![0; raw_bytes];
    let n = match codec {
        ByteCodec::Lz4 => lz4_flex::block::decompress_into(body, &mut raw).map_err(|e| format!("LZ4: {e}"))?,
        ByteCodec::Snappy => snap::raw::Decoder::new().decompress(body, &mut raw).map_err(|e| e.to_string())?,
        _ => DECOMPRESSOR.with_borrow_mut(|context| {
            let context = match context {
                Some(context) => context,
                None => context.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
            };
            context.decompress_to_buffer(body, &mut raw).map_err(|e| format!("Zstandard: {e}"))
        })?,
    };
    if n == raw_bytes { Ok(raw.into()) } else { Err(format!("{n} bytes decompressed, not {raw_bytes}")) }
}
