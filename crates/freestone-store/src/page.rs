//! Pages, which are read and checked as a whole.
//!
//! ```text
//! offset size field
//!      0    4 magic "FPG1"
//!      4    4 CRC-32C of everything after this field, to the end of the page
//!      8    4 index: the page's offset in the file, in page sizes; reveals pages written to the wrong place
//!     12    2 units: the page is `units` × page size long (more than 1 only if a single row needs it)
//!     14    1 kind: 1 slotted, 2 dense, 3 pax, 4 blob (dictionaries, footer)
//!     15    1 zero
//!     16    4 first row in the segment
//!     20    4 rows
//!     24    4 payload bytes
//!     28    4 group
//!     32      payload, then zeros
//! ```
//!
//! A row, dictionary or footer that is larger than a page takes as many page sizes as it needs. There are no chains of
//! overflow pages, so a read is always one contiguous request with one checksum.

use crate::design::PageFormat;

/// The bytes of a page's header.
pub const HEADER: usize = 32;
/// The first bytes of every page.
pub const MAGIC: [u8; 4] = *b"FPG1";
/// The kind of a page whose payload is another structure.
pub const KIND_BLOB: u8 = 4;

/// The fields of a page's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHeader {
    /// The position of the page in its file, in page sizes.
    pub index: u32,
    /// The length of the page, in page sizes.
    pub units: u16,
    /// The page format, or [`KIND_BLOB`].
    pub kind: u8,
    /// The number of the first row in its segment.
    pub first_row: u32,
    /// The number of rows.
    pub rows: u32,
    /// The bytes of the payload.
    pub payload: u32,
    /// The number of the column group.
    pub group: u32,
}

/// The number of page sizes that a payload needs.
pub fn units_for(payload: usize, page_size: usize) -> usize {
    (payload + HEADER).div_ceil(page_size)
}

/// The page kind of a format.
pub fn kind_of(format: PageFormat) -> u8 {
    format as u8
}

/// Appends a page with `payload` to `out`, whose length must be a multiple of `page_size`. Sets the header's index,
/// units and payload. Returns the number of units.
pub fn append(out: &mut Vec<u8>, page_size: usize, header: PageHeader, payload: &[u8]) -> u16 {
    let start = out.len();
    let units = units_for(payload.len(), page_size);
    out.resize(start + units * page_size, 0);
    let page = &mut out[start..];
    page[..4].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&header.index.to_le_bytes());
    page[12..14].copy_from_slice(&(units as u16).to_le_bytes());
    page[14] = header.kind;
    page[16..20].copy_from_slice(&header.first_row.to_le_bytes());
    page[20..24].copy_from_slice(&header.rows.to_le_bytes());
    page[24..28].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    page[28..32].copy_from_slice(&header.group.to_le_bytes());
    page[HEADER..HEADER + payload.len()].copy_from_slice(payload);
    let crc = checksum(&page[8..]);
    page[4..8].copy_from_slice(&crc.to_le_bytes());
    units as u16
}

/// Changes the index of a finished page and updates its checksum. Pages are encoded before their position in the file
/// is known.
pub fn relocate(page: &mut [u8], index: u32) {
    page[8..12].copy_from_slice(&index.to_le_bytes());
    let crc = checksum(&page[8..]);
    page[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Checks a whole page that was read from a file.
///
/// # Errors
/// The reason why the page is not valid.
pub fn verify(page: &[u8], index: u32) -> Result<PageHeader, String> {
    let field = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    if page.len() < HEADER {
        return Err(format!("{} bytes where a page of at least {HEADER} was expected", page.len()));
    }
    if page[..4] != MAGIC {
        return Err("the magic number is not a page's".into());
    }
    let (stored, computed) = (field(4), checksum(&page[8..]));
    if stored != computed {
        return Err(format!("the checksum is {computed:08x}, the page says {stored:08x}"));
    }
    let header = header(page);
    if header.index != index {
        return Err(format!("this is page {}, written to the wrong place", header.index));
    }
    if header.payload as usize > page.len() - HEADER {
        return Err(format!("a payload of {} bytes does not fit a page of {}", header.payload, page.len()));
    }
    Ok(header)
}

/// The header of a verified page.
pub fn header(page: &[u8]) -> PageHeader {
    let field = |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    PageHeader {
        index: field(8),
        units: u16::from_le_bytes([page[12], page[13]]),
        kind: page[14],
        first_row: field(16),
        rows: field(20),
        payload: field(24),
        group: field(28),
    }
}

/// The payload of a verified page.
pub fn payload<'a>(page: &'a [u8], header: &PageHeader) -> &'a [u8] {
    &page[HEADER..HEADER + header.payload as usize]
}

/// CRC-32C of `bytes`.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let header = PageHeader { index: 3, units: 0, kind: 3, first_row: 7, rows: 5, payload: 0, group: 1 };
        let mut page = vec![];
        assert_eq!(append(&mut page, 4096, header, b"payload"), 1);
        let read = verify(&page, 3).unwrap();
        assert_eq!(payload(&page, &read), b"payload");
        assert_eq!((read.first_row, read.rows, read.units), (7, 5, 1));
        assert!(verify(&page, 4).unwrap_err().contains("wrong place"));
        for bit in 0..page.len() * 8 {
            page[bit / 8] ^= 1 << (bit % 8);
            assert!(verify(&page, 3).is_err(), "bit {bit}");
            page[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_large_payload_takes_several_units() {
        let header = PageHeader { index: 0, units: 0, kind: 4, first_row: 0, rows: 0, payload: 0, group: 0 };
        let mut page = vec![];
        assert_eq!(append(&mut page, 4096, header, &[7; 10_000]), 3);
        relocate(&mut page, 9);
        assert_eq!(payload(&page, &verify(&page, 9).unwrap()), &[7; 10_000]);
    }
}
