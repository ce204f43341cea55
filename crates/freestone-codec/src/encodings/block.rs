//! Long strings: Zstandard over the concatenated strings of a chunk. The lengths are stored separately, uncompressed.
//!
//! ```text
//! param   bit width of a length
//! u32     smallest length
//! u32     bytes of all strings
//! u32     bytes of the Zstandard frame
//! starts and lengths as in `strings` | the frame (made with the segment's dictionary under Transform::BlockDictionary)
//! ```

use super::strings::{Lengths, length_range};
use crate::layout::Reader;
use crate::{CodecError, Shared, bits};
use std::sync::Arc;
use zstd::zstd_safe::{CCtx, DCtx, get_error_name};

/// Above level 3, Zstandard's cost on short texts grows faster than its ratio.
pub(crate) const LEVEL: i32 = 3;
/// The largest expansion of a frame, since a 128 KiB block takes at least 4 bytes. It limits what corrupt bytes can
/// allocate.
const EXPANSION_MAX: usize = 1 << 15;
/// The number of decompressed blocks in the cache of a scratch.
const CACHE_BLOCKS: usize = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockStrings<'a> {
    pub lengths: Lengths<'a>,
    frame: &'a [u8],
}

impl<'a> BlockStrings<'a> {
    pub fn parse(mut reader: Reader<'a>, param: u16, rows: usize) -> Result<Self, CodecError> {
        let (least, total) = (reader.u32()?, reader.u32()? as usize);
        let frame_bytes = reader.u32()? as usize;
        let lengths = Lengths::parse(&mut reader, least, total, param, rows)?;
        let frame = reader.take(frame_bytes)?;
        if total / EXPANSION_MAX > frame.len() {
            return Err(CodecError::corrupt(format!("a frame of {} bytes for {total} bytes of text", frame.len())));
        }
        Ok(Self { lengths, frame })
    }

    /// All strings of the chunk, concatenated; from the cache if it contains `key`.
    pub fn text(&self, cache: &mut BlockCache, shared: Option<&Shared>, key: u64) -> Result<Arc<Vec<u8>>, CodecError> {
        if let Some(at) = cache.blocks.iter().position(|(k, text)| *k == key && text.len() == self.lengths.total) {
            return Ok(cache.blocks[at].1.clone());
        }
        let mut text = cache.recycled();
        text.reserve(self.lengths.total);
        let done = match shared.and_then(Shared::block_decoder) {
            Some(dictionary) => cache.context().decompress_using_ddict(&mut text, self.frame, dictionary),
            None => cache.context().decompress(&mut text, self.frame),
        };
        match done {
            Ok(n) if n == self.lengths.total => {}
            Ok(n) => return Err(CodecError::corrupt(format!("{n} bytes of text, not {}", self.lengths.total))),
            Err(code) => return Err(CodecError::corrupt(format!("Zstandard: {}", get_error_name(code)))),
        }
        let text = Arc::new(text);
        cache.blocks.push_back((key, text.clone()));
        Ok(text)
    }
}

/// The last decompressed blocks by the caller's key, and the decompressor.
#[derive(Default)]
pub(crate) struct BlockCache {
    blocks: std::collections::VecDeque<(u64, Arc<Vec<u8>>)>,
    context: Option<DCtx<'static>>,
}

impl BlockCache {
    fn context(&mut self) -> &mut DCtx<'static> {
        self.context.get_or_insert_with(DCtx::create)
    }

    /// An empty buffer. It is the oldest block's if nobody else references it, because pages that were touched before
    /// are cheaper.
    fn recycled(&mut self) -> Vec<u8> {
        if self.blocks.len() < CACHE_BLOCKS {
            return Vec::new();
        }
        let oldest = self.blocks.pop_front().and_then(|(_, text)| Arc::try_unwrap(text).ok());
        oldest.map_or_else(Vec::new, |mut text| {
            text.clear();
            text
        })
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").field("blocks", &self.blocks.len()).finish()
    }
}

/// Bytes of a Block body.
pub(crate) fn block_bytes(rows: usize, least: u32, greatest: u32, frame: usize) -> usize {
    12 + Lengths::bytes(rows, least, greatest) + frame
}

/// The Zstandard frame of `text`.
pub(crate) fn compress(
    context: &mut CCtx<'static>,
    text: &[u8],
    shared: Option<&Shared>,
) -> Result<Vec<u8>, CodecError> {
    let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(text.len()));
    let done = match shared.and_then(Shared::block_encoder) {
        Some(dictionary) => context.compress_using_cdict(&mut frame, text, dictionary),
        None => context.compress(&mut frame, text, LEVEL),
    };
    done.map_err(|code| CodecError::corrupt(format!("Zstandard: {}", get_error_name(code))))?;
    Ok(frame)
}

/// Appends a Block body, and returns the header's param.
pub(crate) fn put(offsets: &[u32], frame: &[u8], out: &mut Vec<u8>) -> u16 {
    let (least, greatest) = length_range(offsets);
    let width = bits::width(u64::from(greatest - least));
    out.extend_from_slice(&least.to_le_bytes());
    out.extend_from_slice(&(offsets[offsets.len() - 1] - offsets[0]).to_le_bytes());
    out.extend_from_slice(&(frame.len() as u32).to_le_bytes());
    Lengths::put(offsets, least, width, out);
    out.extend_from_slice(frame);
    width as u16
}
