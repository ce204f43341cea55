//! Text files → blocks of whole records, read by one thread at a time; what CSV and JSON have in common.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::IngestOptions;
use super::csv_tokens::count_lines;
use super::error::{IngestError, Reason};
use super::parallel::Source;

/// Buffers on their way back from the workers: fresh pages cost several times as much to fill as warm ones.
#[derive(Clone, Default)]
pub(super) struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

impl BufferPool {
    pub fn take(&self) -> Vec<u8> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    pub fn give(&self, buffer: Vec<u8>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// Where the last complete record of some bytes ends, that start with a record (or, if the flag is set, the file).
pub(super) type CutRecords = Box<dyn Fn(&[u8], bool) -> Option<usize> + Send>;

/// A run of whole records.
pub(super) struct Block {
    pub bytes: Vec<u8>,
    /// The file starts here.
    pub first: bool,
    /// The file ends here. There is always a last block in which it does, unless the file cannot be read.
    pub last: bool,
    /// The block ends within a record, which is longer than this.
    pub too_long: Option<usize>,
    /// The file could not be read on.
    pub failed: Option<IngestError>,
}

impl Block {
    /// The block's text up to where it must not be read on, and why not.
    pub fn valid_text(&self) -> (&str, Option<Reason>) {
        let too_long = self.too_long.map(|limit_bytes| Reason::RecordTooLong { limit_bytes });
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text, too_long),
            // The limit of a record may fall within a character.
            Err(error) if too_long.is_some() && error.error_len().is_none() => (utf8_prefix(&self.bytes), too_long),
            Err(error) => (utf8_prefix(&self.bytes), Some(Reason::InvalidUtf8 { byte: error.valid_up_to() as u64 })),
        }
    }

    /// Line ends before an offset.
    pub fn lines_before(&self, offset: usize) -> u64 {
        count_lines(&self.bytes[..offset.min(self.bytes.len())])
    }
}

/// Reads a text file block by block, each ending where a record does.
pub(super) struct BlockSource {
    path: PathBuf,
    file: File,
    cut: CutRecords,
    pool: BufferPool,
    /// The start of a record whose end has not been read.
    carry: Vec<u8>,
    block_bytes: usize,
    record_bytes_max: usize,
    first: bool,
    done: bool,
}

impl BlockSource {
    pub fn new(path: &Path, file: File, options: &IngestOptions, pool: BufferPool, cut: CutRecords) -> Self {
        Self {
            path: path.to_path_buf(),
            file,
            cut,
            pool,
            carry: Vec::new(),
            block_bytes: options.block_bytes().clamp(1, options.record_bytes_max()),
            record_bytes_max: options.record_bytes_max(),
            first: true,
            done: false,
        }
    }
}

impl Source for BlockSource {
    type Unit = Block;

    fn next_unit(&mut self) -> Option<Block> {
        if self.done {
            return None;
        }
        let mut bytes = self.pool.take();
        bytes.append(&mut self.carry);
        let first = std::mem::take(&mut self.first);
        let mut wanted = self.block_bytes.max(bytes.len() + 1);
        loop {
            match fill(&mut self.file, &mut bytes, wanted) {
                Err(error) => {
                    self.done = true;
                    let failed = Some(IngestError::io(&self.path, &error));
                    return Some(Block { bytes: Vec::new(), first, last: false, too_long: None, failed });
                }
                Ok(true) => {
                    self.done = true;
                    return Some(Block { bytes, first, last: true, too_long: None, failed: None });
                }
                Ok(false) => {}
            }
            if let Some(end) = (self.cut)(&bytes, first) {
                self.carry.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                return Some(Block { bytes, first, last: false, too_long: None, failed: None });
            }
            if bytes.len() >= self.record_bytes_max {
                self.done = true;
                let too_long = Some(self.record_bytes_max);
                return Some(Block { bytes, first, last: false, too_long, failed: None });
            }
            wanted = (wanted * 2).min(self.record_bytes_max);
        }
    }
}

/// Reads until `bytes` are `wanted` long; true at the file's end.
fn fill(file: &mut File, bytes: &mut Vec<u8>, wanted: usize) -> std::io::Result<bool> {
    let missing = wanted.saturating_sub(bytes.len());
    bytes.reserve(missing);
    let read = file.take(missing as u64).read_to_end(bytes)?;
    Ok(read < missing)
}

/// The first `bytes_wanted` bytes of a file, or all of it.
pub(super) fn read_head(path: &Path, bytes_wanted: usize) -> Result<Vec<u8>, IngestError> {
    let mut head = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_wanted as u64).read_to_end(&mut head))
        .map_err(|error| IngestError::io(path, &error))?;
    Ok(head)
}

fn has_return_outside_quotes(text: &[u8]) -> bool {
    let mut quoted = false;
    text.iter().any(|byte| {
        quoted ^= *byte == b'"';
        *byte == b'\r' && !quoted
    })
}

/// Refuses what is plainly no text of ours, by its first bytes; returns where the text starts.
pub(super) fn check_head(path: &Path, head: &[u8]) -> Result<usize, IngestError> {
    let refused = match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "the file is UTF-16, not UTF-8: convert it with iconv -f UTF-16 -t UTF-8"
        }
        [0x1f, 0x8b, ..] => "the file is compressed by gzip: unpack it first",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "the file is compressed by zstd: unpack it first",
        [b'P', b'K', 3, 4, ..] => "the file is a zip archive: unpack it first",
        [b'P', b'A', b'R', b'1', ..] => "the file is a Parquet file: say FORMAT parquet",
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => "the file is an Arrow file: say FORMAT arrow",
        _ if !head.contains(&b'\n') && !head.ends_with(b"\r") && has_return_outside_quotes(head) => {
            "the file ends its lines with carriage returns only: convert it with tr '\\r' '\\n'"
        }
        _ => return Ok(mark_bytes(head)),
    };
    Err(IngestError::new(path.display().to_string(), Reason::Malformed(refused.into())))
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Length of the byte order mark at the start of a file's bytes, if there is one.
pub(super) fn mark_bytes(head: &[u8]) -> usize {
    if head.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

pub(super) fn utf8_prefix(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}
