//! The bytes of the log. All numbers are little-endian; CRCs are CRC-32C (Castagnoli).
//!
//! ```text
//! manifest-<generation>.log     header, record, record, …
//!
//! header    0 magic "FREESTNE"    8 version u32    12 flags u32    16 generation u64    24 database u128
//!          40 zero u32           44 crc u32
//! record    0 magic "RCRD" or "RCRU" u32   4 body_len u32    8 sequence u64    16 header_crc u32    20 body_crc u32
//!          24 body, then 0 to 7 zeros up to a multiple of 8
//! CURRENT   0 magic "FREECURR"    8 version u32    12 zero u32    16 generation u64    24 committed_len u64
//!          32 last_sequence u64   40 database u128   56 zero u32   60 crc u32
//! ```
//! A record's header CRC covers the generation, then magic, length, sequence and body CRC. So the header of a record of
//! another generation, or with another body, is not valid. See `docs/format/log.md`.

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

use super::scan::Record;

pub const HEADER_LEN: usize = 48;
pub const RECORD_HEADER_LEN: usize = 24;
pub const CURRENT_LEN: usize = 64;
/// The longest body of a record in bytes: the maximum of u32, minus room for rounding up.
pub const LONGEST_BODY: usize = u32::MAX as usize - 64;
/// The version of the format of a database, which its log and `CURRENT` name.
pub const VERSION: u32 = 3;
/// The earliest version that is read. What is written has the present one.
pub const EARLIEST: u32 = 2;

const HEADER_MAGIC: [u8; 8] = *b"FREESTNE";
const CURRENT_MAGIC: [u8; 8] = *b"FREECURR";
const RECORD_MAGIC: [u8; 4] = *b"RCRD";
/// The magic of a record that was written behind records which were not synced, so that it may be there without them.
const UNSYNCED_MAGIC: [u8; 4] = *b"RCRU";
/// The first record of this log is a folded state.
const FLAG_BASE: u32 = 1;

/// The content of a log's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// From [`EARLIEST`] to [`VERSION`].
    pub version: u32,
    pub generation: u64,
    /// The first record is the folded state of all previous generations, with the sequence of their last commit.
    pub has_base: bool,
    /// A random number, which the database has from its creation on.
    pub database: u128,
}

/// The content of the file `CURRENT`: a lower bound of the committed part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    /// From [`EARLIEST`] to [`VERSION`].
    pub version: u32,
    pub generation: u64,
    /// Committed bytes of the log, up to the end of a record.
    pub committed_len: u64,
    /// The sequence of that record, 0 if there is none.
    pub last_sequence: u64,
    /// As in the header of the log.
    pub database: u128,
}

/// The content of a record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    pub body_len: u32,
    pub sequence: u64,
    pub body_crc: u32,
    /// Whether records before it were not synced when it was written.
    pub after_unsynced: bool,
}

/// The reason why bytes are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    Reason(&'static str),
    /// Sound, but written by another version of the format.
    Version(u32),
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(&HEADER_MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&if self.has_base { FLAG_BASE } else { 0 }.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.database.to_le_bytes());
        let crc = crc32_iscsi(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, Defect> {
        let version = check_envelope(bytes, HEADER_MAGIC, "the file does not start with a log header")?;
        let flags = u32_at(bytes, 12);
        if flags & !FLAG_BASE != 0 {
            return Err(Defect::Reason("the log header has unknown flags"));
        }
        let has_base = flags & FLAG_BASE != 0;
        Ok(Header { version, generation: u64_at(bytes, 16), has_base, database: u128_at(bytes, 24) })
    }
}

impl Current {
    /// Whether this may be a later state of the same database as another one.
    pub fn continues(&self, earlier: &Current) -> bool {
        self.database == earlier.database
            && self.generation >= earlier.generation
            && self.last_sequence >= earlier.last_sequence
    }

    pub fn encode(&self) -> [u8; CURRENT_LEN] {
        let mut bytes = [0; CURRENT_LEN];
        bytes[0..8].copy_from_slice(&CURRENT_MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.committed_len.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.last_sequence.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.database.to_le_bytes());
        let crc = crc32_iscsi(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; CURRENT_LEN]) -> Result<Current, Defect> {
        let version = check_envelope(bytes, CURRENT_MAGIC, "the file does not start as CURRENT does")?;
        let current = Current {
            version,
            generation: u64_at(bytes, 16),
            committed_len: u64_at(bytes, 24),
            last_sequence: u64_at(bytes, 32),
            database: u128_at(bytes, 40),
        };
        if current.committed_len < HEADER_LEN as u64 {
            return Err(Defect::Reason("the committed length is shorter than a log header"));
        }
        Ok(current)
    }
}

/// Checks what headers and CURRENT have in common: magic first, version at byte 8, and in the last four bytes the CRC
/// of all before. Returns the version, which is one that this program reads.
pub fn check_envelope(bytes: &[u8], magic: [u8; 8], no_magic: &'static str) -> Result<u32, Defect> {
    if bytes[..8] != magic {
        return Err(Defect::Reason(no_magic));
    }
    let crc_at = bytes.len() - 4;
    if crc32_iscsi(&bytes[..crc_at]) != u32_at(bytes, crc_at) {
        return Err(Defect::Reason("the checksum does not match"));
    }
    match u32_at(bytes, 8) {
        version @ EARLIEST..=VERSION => Ok(version),
        other => Err(Defect::Version(other)),
    }
}

impl RecordHeader {
    pub fn decode(bytes: &[u8; RECORD_HEADER_LEN], generation: u64) -> Result<RecordHeader, &'static str> {
        let after_unsynced = bytes[..4] == UNSYNCED_MAGIC;
        if bytes[..4] != RECORD_MAGIC && !after_unsynced {
            return Err("there is no record");
        }
        let (body_len, sequence, body_crc) = (u32_at(bytes, 4), u64_at(bytes, 8), u32_at(bytes, 20));
        let header = RecordHeader { body_len, sequence, body_crc, after_unsynced };
        if header.crc(generation) != u32_at(bytes, 16) {
            return Err("the checksum of a record's header does not match");
        }
        Ok(header)
    }

    fn encode(&self, generation: u64) -> [u8; RECORD_HEADER_LEN] {
        let mut bytes = [0; RECORD_HEADER_LEN];
        bytes[0..4].copy_from_slice(&self.magic());
        bytes[4..8].copy_from_slice(&self.body_len.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.crc(generation).to_le_bytes());
        bytes[20..24].copy_from_slice(&self.body_crc.to_le_bytes());
        bytes
    }

    fn magic(&self) -> [u8; 4] {
        if self.after_unsynced { UNSYNCED_MAGIC } else { RECORD_MAGIC }
    }

    fn crc(&self, generation: u64) -> u32 {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&generation.to_le_bytes());
        digest.update(&self.magic());
        digest.update(&self.body_len.to_le_bytes());
        digest.update(&self.sequence.to_le_bytes());
        digest.update(&self.body_crc.to_le_bytes());
        digest.finalize() as u32
    }

    pub fn body_matches(&self, body: &[u8]) -> bool {
        body.len() == self.body_len as usize && crc32_iscsi(body) == self.body_crc
    }

    /// The bytes of the record in the log, including padding.
    pub fn record_len(&self) -> u64 {
        (RECORD_HEADER_LEN as u64 + u64::from(self.body_len)).next_multiple_of(8)
    }
}

/// Appends a record to `bytes`, whose length is a multiple of 8 before and after. `body` has at most [`LONGEST_BODY`]
/// bytes.
pub fn encode_record(bytes: &mut Vec<u8>, generation: u64, sequence: u64, body: &[u8]) {
    encode_record_after(bytes, generation, sequence, body, false);
}

/// The same for a record behind others, which may not be synced.
pub fn encode_record_after(bytes: &mut Vec<u8>, generation: u64, sequence: u64, body: &[u8], after_unsynced: bool) {
    let body_len = u32::try_from(body.len()).expect("the writer refuses longer bodies");
    let header = RecordHeader { body_len, sequence, body_crc: crc32_iscsi(body), after_unsynced };
    bytes.reserve(header.record_len() as usize);
    bytes.extend_from_slice(&header.encode(generation));
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// Whether a valid record with a sequence of at least `sequence` starts at a multiple of 8 in `bytes`, which was written
/// when all records before it were synced. Such a record after a broken one proves that the broken one was complete
/// once.
pub fn has_record_from(bytes: &[u8], generation: u64, sequence: u64) -> bool {
    (0..bytes.len()).step_by(8).any(|start| {
        let Some((header, rest)) = bytes[start..].split_first_chunk() else { return false };
        RecordHeader::decode(header, generation).is_ok_and(|header| {
            header.sequence >= sequence
                && !header.after_unsynced
                && rest.get(..header.body_len as usize).is_some_and(|body| header.body_matches(body))
        })
    })
}

/// The valid records that start at multiples of 8 in `bytes`, in order, whatever is between them.
pub fn records_in(bytes: &[u8], generation: u64) -> Vec<Record> {
    let mut records = Vec::new();
    let mut start = 0;
    while let Some((bytes, rest)) = bytes.get(start..).and_then(|bytes| bytes.split_first_chunk()) {
        let header = RecordHeader::decode(bytes, generation).ok();
        let body = header.and_then(|header| Some((header, rest.get(..header.body_len as usize)?)));
        start += match body.filter(|(header, body)| header.body_matches(body)) {
            Some((header, body)) => {
                records.push(Record { sequence: header.sequence, body: body.to_vec(), is_base: false });
                header.record_len() as usize
            }
            None => 8,
        };
    }
    records
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub fn u128_at(bytes: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes[at..at + 16].try_into().expect("sixteen bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every single flipped bit must be detected.
    fn check_flips<const N: usize>(bytes: [u8; N], is_good: impl Fn(&[u8; N]) -> bool) {
        assert!(is_good(&bytes));
        for bit in 0..N * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_good(&flipped), "bit {bit}");
        }
    }

    #[test]
    fn flipped_bits_are_noticed() {
        check_flips(Header { version: VERSION, generation: 3, has_base: true, database: 5 << 100 }.encode(), |bytes| {
            Header::decode(bytes).is_ok()
        });
        let current = Current { version: VERSION, generation: 3, committed_len: 1000, last_sequence: 17, database: 9 };
        check_flips(current.encode(), |bytes| Current::decode(bytes).is_ok());
        let header = RecordHeader { body_len: 5, sequence: 9, body_crc: 77, after_unsynced: false };
        for header in [header, RecordHeader { after_unsynced: true, ..header }] {
            check_flips(header.encode(4), |bytes| RecordHeader::decode(bytes, 4).is_ok());
        }
        assert!(RecordHeader::decode(&header.encode(4), 5).is_err(), "a record of another generation");
    }

    /// The first database file ever written. These bytes are of this version and never change.
    #[test]
    fn the_bytes_of_version_3() {
        let header = Header { version: VERSION, generation: 1, has_base: false, database: 7 }.encode();
        assert_eq!(header[..16], *b"FREESTNE\x03\0\0\0\0\0\0\0");
        assert_eq!(header[24..28], [7, 0, 0, 0]);
        assert_eq!(header[44..], 0x2d702d08u32.to_le_bytes());
        let mut record = Vec::new();
        encode_record(&mut record, 1, 1, b"body!");
        assert_eq!(record.len(), 32);
        assert_eq!(record[..16], *b"RCRD\x05\0\0\0\x01\0\0\0\0\0\0\0");
        assert_eq!(record[16..20], 0xd0fbd3e5u32.to_le_bytes());
        assert_eq!(record[20..24], 0xd1a8bb96u32.to_le_bytes());
        assert_eq!(record[24..], *b"body!\0\0\0");
        let current =
            Current { version: VERSION, generation: 1, committed_len: 80, last_sequence: 1, database: 7 }.encode();
        assert_eq!(current[..12], *b"FREECURR\x03\0\0\0");
        assert_eq!(current[60..], 0x5fe28057u32.to_le_bytes());
    }

    #[test]
    fn an_unknown_version_is_told_from_damage() {
        let mut bytes = Header { version: VERSION, generation: 1, has_base: false, database: 7 }.encode();
        for (version, is_read) in [(1, false), (2, true), (VERSION, true), (VERSION + 1, false), (9, false)] {
            bytes[8] = version as u8;
            let crc = crc32_iscsi(&bytes[..44]);
            bytes[44..].copy_from_slice(&crc.to_le_bytes());
            let found = Header::decode(&bytes).map(|header| header.version);
            assert_eq!(found, if is_read { Ok(version) } else { Err(Defect::Version(version)) });
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(generation: u64, has_base: bool, sequence: u64, body: Vec<u8>, len in 48u64..) {
            let database = u128::from(sequence) << 50;
            let header = Header { version: VERSION, generation, has_base, database };
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
            let current = Current { version: VERSION, generation, committed_len: len, last_sequence: sequence, database };
            prop_assert_eq!(Current::decode(&current.encode()), Ok(current));
            let mut bytes = Vec::new();
            encode_record(&mut bytes, generation, sequence, &body);
            let (head, rest) = bytes.split_first_chunk().expect("a header");
            let record = RecordHeader::decode(head, generation).expect("valid");
            prop_assert_eq!((record.sequence, record.record_len()), (sequence, bytes.len() as u64));
            prop_assert!(record.body_matches(&rest[..body.len()]));
            prop_assert!(has_record_from(&bytes, generation, sequence));
            prop_assert!(!has_record_from(&bytes, generation.wrapping_add(1), 0));
            let mut bytes = Vec::new();
            encode_record_after(&mut bytes, generation, sequence, &body, true);
            prop_assert!(!has_record_from(&bytes, generation, sequence), "it proves nothing of those before");
            prop_assert_eq!(records_in(&bytes, generation).len(), 1);
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes: [u8; 64], rest: Vec<u8>) {
            let _ = Current::decode(&bytes);
            let _ = has_record_from(&rest, 1, 1);
        }
    }
}
