//! Splits text files into blocks of whole records, for CSV and JSON. One thread at a time reads.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::IngestOptions;
use super::csv_tokens::count_lines;
use super::delimiters::{HasUnit, with_units};
use super::encodings::{NotEncoded, TextEncoding};
use super::error::{IngestError, Reason};
use super::gzip::GzipMembers;
use super::parallel::Source;

/// Buffers that workers have returned for reuse, because filling new pages costs several times as much as filling used
/// ones.
#[derive(Clone, Default)]
pub(crate) struct BufferPool(Arc<Mutex<Vec<Vec<u8>>>>);

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

/// Finds the end of the last complete record in some bytes, which begin with a record or, if the flag is set, with the
/// file.
pub(crate) type CutRecords = Box<dyn Fn(&[u8], bool) -> Option<usize> + Send>;

/// Consecutive whole records.
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    /// The number of line ends before the block, and its offset in the file.
    pub first_line: u64,
    pub first_byte: u64,
    /// Whether the block begins the file.
    pub first: bool,
    /// Whether the block ends the file. There is always such a block, unless the file cannot be read.
    pub last: bool,
    /// If the block ends within a record that exceeds the limit: the limit.
    pub too_long: Option<usize>,
    /// The error if the file could not be read further.
    pub failed: Option<IngestError>,
}

impl Block {
    /// The valid part of the block's text, and the reason why the rest is invalid.
    pub fn valid_text(&self) -> (&str, Option<Reason>) {
        let too_long = self.too_long.map(|limit_bytes| Reason::RecordTooLong { limit_bytes });
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text, too_long),
            // The maximum length of a record may be reached within a character.
            Err(error) if too_long.is_some() && error.error_len().is_none() => (utf8_prefix(&self.bytes), too_long),
            Err(error) => (utf8_prefix(&self.bytes), Some(Reason::InvalidUtf8 { byte: error.valid_up_to() as u64 })),
        }
    }

    /// All of the text, with a mark in the place of bytes that are not UTF-8, and where these marks are.
    pub fn marked_text(&self) -> (Cow<'_, str>, Vec<usize>) {
        let mut marks = vec![];
        let text = String::from_utf8_lossy(&self.bytes);
        if let Cow::Owned(_) = text {
            let mut at = 0;
            for chunk in self.bytes.utf8_chunks() {
                at += chunk.valid().len();
                if !chunk.invalid().is_empty() {
                    marks.push(at);
                    at += char::REPLACEMENT_CHARACTER.len_utf8();
                }
            }
        }
        (text, marks)
    }

    /// The number of line ends before an offset.
    pub fn lines_before(&self, offset: usize) -> u64 {
        count_lines(&self.bytes[..offset.min(self.bytes.len())])
    }
}

/// Reads a text file in blocks that end at the end of a record.
pub(crate) struct BlockSource {
    path: PathBuf,
    text: Box<dyn Read + Send>,
    /// The file at its beginning, to notice that it changes.
    opened: OpenedFile,
    /// Bytes that were read of the file, which may be compressed.
    file_bytes: Arc<AtomicU64>,
    /// For files whose lines end with carriage returns: replaces these by line feeds.
    returns: Option<Returns>,
    cut: CutRecords,
    pool: BufferPool,
    /// The beginning of a record that is not complete yet.
    carry: Vec<u8>,
    block_bytes: usize,
    record_bytes_max: usize,
    first: bool,
    done: bool,
    lines: u64,
    bytes: u64,
}

impl BlockSource {
    /// Opens a text file, which is decompressed if necessary.
    pub fn open(path: &Path, options: &IngestOptions, pool: BufferPool, cut: CutRecords) -> Result<Self, IngestError> {
        let opened = OpenedFile::open(path).map_err(|error| IngestError::io(path, &error))?;
        let (text, file_bytes) = open_text(path, options)?;
        Ok(Self {
            path: path.to_path_buf(),
            text,
            opened,
            file_bytes,
            returns: None,
            cut,
            pool,
            carry: Vec::new(),
            block_bytes: options.block_bytes().clamp(1, options.record_bytes_max()),
            record_bytes_max: options.record_bytes_max(),
            first: true,
            done: false,
            lines: 0,
            bytes: 0,
        })
    }

    /// Specifies that lines end with carriage returns outside of quotes.
    pub fn with_returns(mut self, quote: u8) -> Self {
        self.returns = Some(Returns { quote, quoted: false });
        self
    }

    /// Bytes that were read of the file, which may be compressed.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes.load(Ordering::Relaxed)
    }

    fn block(&mut self, bytes: Vec<u8>, first: bool) -> Block {
        let (first_line, first_byte) = (self.lines, self.bytes);
        self.lines += count_lines(&bytes);
        self.bytes += bytes.len() as u64;
        Block { bytes, first_line, first_byte, first, last: false, too_long: None, failed: None }
    }

    /// Reads until `bytes` has the length `wanted`. True at the end of the file.
    fn fill(&mut self, bytes: &mut Vec<u8>, wanted: usize) -> std::io::Result<bool> {
        let (had, missing) = (bytes.len(), wanted.saturating_sub(bytes.len()));
        bytes.reserve(missing);
        let read = self.text.by_ref().take(missing as u64).read_to_end(bytes)?;
        if let Some(returns) = &mut self.returns {
            returns.replace(&mut bytes[had..]);
        }
        Ok(read < missing)
    }
}

impl Source for BlockSource {
    type Morsel = Block;

    fn next_morsel(&mut self) -> Option<Block> {
        if self.done {
            return None;
        }
        let mut bytes = self.pool.take();
        bytes.append(&mut self.carry);
        let first = std::mem::take(&mut self.first);
        let mut wanted = self.block_bytes.max(bytes.len() + 1);
        loop {
            match self.fill(&mut bytes, wanted) {
                Err(error) => {
                    self.done = true;
                    let failed = Some(read_error(&self.path, &error));
                    return Some(Block { failed, ..self.block(Vec::new(), first) });
                }
                Ok(true) if self.opened.has_shrunk() => {
                    self.done = true;
                    let reason = Reason::Io(CHANGED.into());
                    let failed = Some(IngestError::new(self.path.display().to_string(), reason));
                    return Some(Block { failed, ..self.block(Vec::new(), first) });
                }
                Ok(true) => {
                    self.done = true;
                    return Some(Block { last: true, ..self.block(bytes, first) });
                }
                Ok(false) => {}
            }
            if let Some(end) = (self.cut)(&bytes, first) {
                self.carry.extend_from_slice(&bytes[end..]);
                bytes.truncate(end);
                return Some(self.block(bytes, first));
            }
            if bytes.len() >= self.record_bytes_max {
                self.done = true;
                let too_long = Some(self.record_bytes_max);
                return Some(Block { too_long, ..self.block(bytes, first) });
            }
            wanted = (wanted * 2).min(self.record_bytes_max);
        }
    }
}

/// The error for a file that was changed while it was read.
pub(crate) const CHANGED: &str = "the file changed while it was read";

/// An open file with the length that it had at the start.
struct OpenedFile {
    file: File,
    bytes: u64,
}

impl OpenedFile {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    /// Whether a part of the file is lost. A file may grow: its reader sees a prefix of the later file.
    fn has_shrunk(&self) -> bool {
        self.file.metadata().map_or(true, |metadata| metadata.len() < self.bytes)
    }
}

/// Conversion of files whose lines end with carriage returns only, as on early Mac OS.
struct Returns {
    quote: u8,
    quoted: bool,
}

impl Returns {
    /// Replaces carriage returns outside of quotes by line feeds.
    fn replace(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.quoted ^= *byte == self.quote;
            if *byte == b'\r' && !self.quoted {
                *byte = b'\n';
            }
        }
    }
}

/// Replaces carriage returns at line ends in the first bytes of a file by line feeds. Returns whether its lines end
/// with them.
pub(super) fn replace_returns(head: &mut [u8], quote: u8) -> bool {
    let ends_lines = !head.contains(&b'\n') && has_return_outside_quotes(head, quote);
    if ends_lines {
        Returns { quote, quoted: false }.replace(head);
    }
    ends_lines
}

/// The compression of a text file, detected by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
    Bzip2,
}

impl Packing {
    fn name(self) -> &'static str {
        match self {
            Packing::None => "none",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
            Packing::Bzip2 => "bzip2",
        }
    }
}

fn packing(file: &mut File) -> std::io::Result<Packing> {
    let mut head = Vec::new();
    file.by_ref().take(8).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(match head.as_slice() {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // The second form is a frame that decoders skip.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26] => Packing::Bzip2,
        // Of no text at all.
        [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38] => Packing::Bzip2,
        _ => Packing::None,
    })
}

/// Whether the bytes of a file are those of its text, so that it can be read from any position.
pub(super) fn is_plain(path: &Path, options: &IngestOptions) -> bool {
    let is_unpacked =
        || File::open(path).and_then(|mut file| packing(&mut file)).is_ok_and(|kind| kind == Packing::None);
    options.encoding == TextEncoding::Utf8 && options.wide_delimiter.is_none() && is_unpacked()
}

/// A file that counts the bytes that are read of it.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(into)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A text file's text, unpacked and decoded where necessary, and the number of bytes that were read of the file.
fn open_text(path: &Path, options: &IngestOptions) -> Result<(Box<dyn Read + Send>, Arc<AtomicU64>), IngestError> {
    let bytes = Arc::new(AtomicU64::new(0));
    let opened = || -> std::io::Result<(Box<dyn Read + Send>, Packing)> {
        let mut file = File::open(path)?;
        let packing = packing(&mut file)?;
        let file = Counted { file, bytes: Arc::clone(&bytes) };
        let text: Box<dyn Read + Send> = match packing {
            Packing::None => Box::new(file),
            Packing::Gzip => Box::new(GzipMembers::new(file)),
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::new(file)?),
            Packing::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(std::io::BufReader::new(file))),
        };
        let text = if options.encoding == TextEncoding::Utf8 { text } else { options.encoding.decoded(text)? };
        Ok((with_units(text, options), packing))
    };
    let (text, found) = opened().map_err(|error| read_error(path, &error))?;
    match options.packing.filter(|wanted| *wanted != found) {
        None => Ok((text, bytes)),
        Some(wanted) => {
            let text = format!("COMPRESSION {}: the compression of the file is {}", wanted.name(), found.name());
            Err(IngestError::new(path.display().to_string(), Reason::BadOption(text)))
        }
    }
}

/// The error of a file that cannot be read, decompressed or decoded.
fn read_error(path: &Path, error: &std::io::Error) -> IngestError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    if let Some(wrong) = error.get_ref().filter(|inner| inner.is::<NotEncoded>()) {
        return IngestError::new(path.display().to_string(), Reason::NotEncoded(wrong.to_string()));
    }
    if let Some(wrong) = error.get_ref().filter(|inner| inner.is::<HasUnit>()) {
        return IngestError::new(path.display().to_string(), Reason::Malformed(wrong.to_string()));
    }
    let is_damage = matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof);
    // Decoders have errors of other kinds, too. A file that cannot be opened any more is no damage.
    let is_packed = || File::open(path).and_then(|mut file| packing(&mut file)).is_ok_and(|kind| kind != Packing::None);
    if path.is_file() && (is_damage || is_packed()) {
        let text = format!("the compressed file cannot be unpacked: {error}");
        return IngestError::new(path.display().to_string(), Reason::Malformed(text));
    }
    IngestError::io(path, error)
}

/// The first `bytes_wanted` bytes of a file's text, or all of it.
pub(super) fn read_head(path: &Path, options: &IngestOptions, bytes_wanted: usize) -> Result<Vec<u8>, IngestError> {
    let mut head = Vec::new();
    let read = open_text(path, options)?.0.take(bytes_wanted as u64).read_to_end(&mut head);
    read.map(|_| head).map_err(|error| read_error(path, &error))
}

fn has_return_outside_quotes(text: &[u8], quote: u8) -> bool {
    let mut quoted = false;
    text.iter().any(|byte| {
        quoted ^= *byte == quote;
        *byte == b'\r' && !quoted
    })
}

/// Refuses files that are certainly not text in a supported encoding. Returns the start of the text.
pub(super) fn check_head(path: &Path, head: &[u8]) -> Result<usize, IngestError> {
    let refused = match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => {
            "the file is UTF-32, not UTF-8: convert it with iconv -f UTF-32 -t UTF-8"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            "the file is UTF-16, not UTF-8: for CSV, say ENCODING 'utf-16', or convert it with iconv -f UTF-16 -t UTF-8"
        }
        // Without a byte order mark: two ASCII characters.
        [1..0x80, 0, 1..0x80, 0, ..] => {
            "the file is UTF-16, not UTF-8: for CSV, say ENCODING 'utf-16', or convert it with iconv -f UTF-16LE -t UTF-8"
        }
        [0, 1..0x80, 0, 1..0x80, ..] => {
            "the file is UTF-16, not UTF-8: for CSV, say ENCODING 'utf-16be', or convert it with iconv -f UTF-16BE -t UTF-8"
        }
        [b'P', b'K', 3, 4, ..] if is_workbook(head) => {
            "the file is a spreadsheet: say FORMAT xlsx if it is one of Excel, or save the sheet as CSV"
        }
        [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1, ..] => {
            "the file is an Office document, such as an Excel sheet: save the sheet as CSV"
        }
        [b'P', b'K', 3, 4, ..] => "the file is a zip archive: unpack it first",
        [b'P', b'A', b'R', b'1', ..] => "the file is a Parquet file: say FORMAT parquet",
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => "the file is an Arrow file: say FORMAT arrow",
        _ => return Ok(mark_bytes(head)),
    };
    Err(IngestError::new(path.display().to_string(), Reason::Malformed(refused.into())))
}

/// Whether the first file in a zip archive is one that spreadsheets begin with.
fn is_workbook(head: &[u8]) -> bool {
    const NAME_AT: usize = 30;
    let name = head.get(NAME_AT..).unwrap_or_default();
    let first: [&[u8]; 5] = [b"[Content_Types].xml", b"_rels/", b"xl/", b"docProps/", b"mimetypeapplication/vnd.oasis"];
    first.iter().any(|first| name.starts_with(first))
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
