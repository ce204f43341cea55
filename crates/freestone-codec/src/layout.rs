//! The header of every chunk, and bounds-checked reading of little-endian fields.
//!
//! ```text
//! byte 0      encoding id
//! byte 1      flags: bit 0 = validity bitmap present, bit 1 = all rows NULL (then nothing follows the header)
//! bytes 2..4  param, u16: bit widths and similar, see each encoding
//! bytes 4..8  rows, u32
//! then        if flag bit 0: validity, ceil(rows / 64) words of u64; bit i of word i / 64 set = row i is not NULL
//! then        the body
//! ```
//! All numbers are little-endian. Bytes after the body are ignored.

use crate::{CodecError, Encoding, select};

pub(crate) const HEADER_BYTES: usize = 8;
/// More rows than any page has. It limits what corrupt bytes can make a decoder allocate.
pub(crate) const ROWS_MAX: usize = 1 << 24;

const FLAG_VALIDITY: u8 = 1;
const FLAG_ALL_NULL: u8 = 2;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Header<'a> {
    pub encoding: Encoding,
    pub all_null: bool,
    pub param: u16,
    pub rows: usize,
    pub validity: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// The header, and a reader of what follows it.
    ///
    /// # Errors
    /// `Corrupt` if the id, flags or number of rows is invalid or bytes are missing.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, Reader<'a>), CodecError> {
        let mut reader = Reader::new(bytes);
        let encoding = reader.u8()?;
        let encoding =
            encoding_of(encoding).ok_or_else(|| CodecError::corrupt(format!("unknown encoding {encoding}")))?;
        let flags = reader.u8()?;
        if flags & !(FLAG_VALIDITY | FLAG_ALL_NULL) != 0 || flags == FLAG_VALIDITY | FLAG_ALL_NULL {
            return Err(CodecError::corrupt(format!("unknown flags {flags:#x}")));
        }
        let param = reader.u16()?;
        let rows = reader.u32()? as usize;
        if rows == 0 || rows > ROWS_MAX {
            return Err(CodecError::corrupt(format!("{rows} rows in a chunk; 1 to {ROWS_MAX} are possible")));
        }
        let validity = if flags & FLAG_VALIDITY != 0 { Some(reader.take(rows.div_ceil(64) * 8)?) } else { None };
        Ok((Self { encoding, all_null: flags & FLAG_ALL_NULL != 0, param, rows, validity }, reader))
    }
}

/// Appends header and validity bitmap. `validity` is the column's bitmap and the chunk's first row in it.
pub(crate) fn put_header(
    encoding: Encoding,
    param: u16,
    rows: usize,
    validity: Option<(&[u64], usize)>,
    all_null: bool,
    out: &mut Vec<u8>,
) {
    let flags = if all_null { FLAG_ALL_NULL } else { u8::from(validity.is_some()) * FLAG_VALIDITY };
    out.push(encoding as u8);
    out.push(flags);
    out.extend_from_slice(&param.to_le_bytes());
    out.extend_from_slice(&(rows as u32).to_le_bytes());
    let Some((words, start)) = validity.filter(|_| !all_null) else { return };
    for at in (0..rows).step_by(64) {
        out.extend_from_slice(&select::read(words, start + at, (rows - at).min(64)).to_le_bytes());
    }
}

/// Bytes of header and bitmap.
pub(crate) fn header_bytes(rows: usize, validity: bool) -> usize {
    HEADER_BYTES + if validity { rows.div_ceil(64) * 8 } else { 0 }
}

fn encoding_of(id: u8) -> Option<Encoding> {
    use Encoding::*;
    [Plain, Constant, BitPack, Dictionary, Delta, DeltaLz, Rle, Alp, Block].into_iter().find(|e| *e as u8 == id)
}

/// A cursor over untrusted bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(n)
            .ok_or_else(|| CodecError::corrupt(format!("{n} bytes expected, {} left", self.bytes.len())))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        Ok(self.take(N)?.try_into().expect("take returned N bytes"))
    }

    pub fn u8(&mut self) -> Result<u8, CodecError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, CodecError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, CodecError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, CodecError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn i128(&mut self) -> Result<i128, CodecError> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    /// A value in the number of bytes that its kind takes.
    pub fn number(&mut self, wide: bool) -> Result<i128, CodecError> {
        if wide { self.i128() } else { Ok(i128::from(self.i64()?)) }
    }
}

/// Entry `i` of a table of little-endian `u32` whose length was checked.
#[inline]
pub(crate) fn u32_at(table: &[u8], i: usize) -> u32 {
    u32::from_le_bytes(table[4 * i..4 * i + 4].try_into().expect("a slice of 4 bytes"))
}

/// The bytes (1, 2, 4 or 8) that an unsigned number needs.
pub(crate) fn byte_width(max: u64) -> usize {
    match max {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

/// The unsigned number of `size` = 1, 2, 4 or 8 bytes at entry `i`.
#[inline]
pub(crate) fn uint_at(table: &[u8], size: usize, i: usize) -> u64 {
    let mut bytes = [0u8; 8];
    bytes[..size].copy_from_slice(&table[i * size..(i + 1) * size]);
    u64::from_le_bytes(bytes)
}
