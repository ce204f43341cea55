//! Byte codecs over the body of a piece.

use std::cell::RefCell;

use arrow::buffer::Buffer;

use super::ByteCodec;

/// The levels of Zstandard that are tried: the fastest one that still compresses much better than LZ4, and two that take several
/// times as long for fewer bytes, for slow links. A reader does not have to know the level.
pub(crate) const ZSTD_LEVELS: [i32; 3] = [1, 5, 9];

/// A byte codec with its degree of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compression {
    pub codec: ByteCodec,
    /// The level of Zstandard. Other codecs have none.
    pub level: i32,
}

impl From<ByteCodec> for Compression {
    fn from(codec: ByteCodec) -> Self {
        Self { codec, level: ZSTD_LEVELS[0] }
    }
}

impl Compression {
    /// The degrees of a codec, from the fastest.
    pub fn degrees(codec: ByteCodec) -> impl Iterator<Item = Compression> {
        let levels = if codec == ByteCodec::Zstd { ZSTD_LEVELS.len() } else { 1 };
        ZSTD_LEVELS.into_iter().take(levels).map(move |level| Compression { codec, level })
    }
}

/// A context of Zstandard with its level.
type Leveled = (i32, zstd::bulk::Compressor<'static>);

thread_local! {
    /// Contexts are expensive to create and are reused for every body.
    static COMPRESSOR: RefCell<Option<Leveled>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `body`, compressed.
pub(crate) fn compress(compression: impl Into<Compression>, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (start, Compression { codec, level }) = (out.len(), compression.into());
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
            let (last, context) = match context {
                Some(context) => context,
                None => context.insert((level, zstd::bulk::Compressor::new(level).map_err(|e| e.to_string())?)),
            };
            if *last != level {
                context.set_compression_level(level).map_err(|e| e.to_string())?;
                *last = level;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_are_read_back_and_higher_ones_are_smaller() {
        let words = ["carefully", "final", "deposits", "sleep", "furiously", "ironic", "requests", "haggle"];
        let text: Vec<u8> = (0..20_000u64).flat_map(|at| words[(at * at % 61 % 8) as usize].bytes()).collect();
        let body = Buffer::from(text);
        let mut sizes = vec![];
        // Back and forth, as one thread compresses columns of several degrees.
        for compression in Compression::degrees(ByteCodec::Zstd).chain([ByteCodec::Zstd.into(), ByteCodec::Lz4.into()])
        {
            let mut small = vec![7];
            compress(compression, &body, &mut small).expect("it is compressed");
            let packed = Buffer::from(&small[1..]);
            assert_eq!(decompress(compression.codec, &packed, body.len()).expect("sound"), body);
            sizes.push(packed.len());
        }
        assert_eq!(sizes.len(), ZSTD_LEVELS.len() + 2);
        assert!(sizes[2] < sizes[0], "{sizes:?}");
        assert_eq!(sizes[3], sizes[0], "the level does not depend on what was compressed before");
    }
}
