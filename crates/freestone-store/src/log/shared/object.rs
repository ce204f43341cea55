//! The bytes of commits and folds. All numbers are little-endian.
//!
//! ```text
//!  0  8 magic "FREECMIT"          24 16 number of the database
//!  8  4 version                   40 16 a random number, which no other attempt to commit has
//! 12  4 flags: 1 = fold           56 32 SHA-256 of the previous commit's object; of a fold: of the last commit's
//! 16  8 sequence                  88  4 zero
//!                                 92  4 CRC-32C of all before
//! 96    one record, as in the local log (`record.rs`), of generation 0
//! ```
//! See `docs/format/shared_log.md`.

use std::fmt;

use crc_fast::crc32_iscsi;
use sha2::{Digest, Sha256};

use crate::log::LogError;
use crate::log::record::{
    Defect, RECORD_HEADER_LEN, RecordHeader, VERSION, check_envelope, encode_record, u32_at, u64_at, u128_at,
};

const MAGIC: [u8; 8] = *b"FREECMIT";
const HEADER_LEN: usize = 96;
const FLAG_FOLD: u32 = 1;
/// The records of objects are of no generation.
const GENERATION: u64 = 0;

/// The hash of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Before the first commit.
    pub const NONE: Hash = Hash([0; 32]);

    /// The hash of an object with these bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(Sha256::digest(bytes).into())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The operations of one commit.
    Commit,
    /// The operations that make the state after a commit from nothing.
    Fold,
}

/// A commit or a fold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub sequence: u64,
    pub database: u128,
    /// A random number.
    pub number: u128,
    pub previous: Hash,
    pub body: Vec<u8>,
}

impl Object {
    /// The bytes of an object. Its body has at most [`LONGEST_BODY`](crate::log::LONGEST_BODY) bytes.
    pub fn encode(&self, kind: Kind) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&if kind == Kind::Fold { FLAG_FOLD } else { 0 }.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.database.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.number.to_le_bytes());
        bytes[56..88].copy_from_slice(&self.previous.0);
        let crc = crc32_iscsi(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        encode_record(&mut bytes, GENERATION, self.sequence, &self.body);
        bytes
    }

    /// The object with these bytes, which must be of a kind, a database and a sequence.
    ///
    /// # Errors
    /// It is damaged, of another version, or another object than its name says.
    pub fn decode(name: &str, bytes: &[u8], kind: Kind, database: u128, sequence: u64) -> Result<Object, LogError> {
        let wrong = |offset: usize, reason: &str| LogError::damaged(name, offset as u64, reason);
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(wrong(0, "it is shorter than the header of a commit"));
        };
        check_envelope(header, MAGIC, "it does not start as a commit does")
            .and_then(|version| if version == VERSION { Ok(()) } else { Err(Defect::Version(version)) })
            .map_err(|defect: Defect| LogError::defect(name, 0, defect))?;
        let mut previous = [0; 32];
        previous.copy_from_slice(&header[56..88]);
        let is_fold = u32_at(header, 12) == FLAG_FOLD;
        if u32_at(header, 12) & !FLAG_FOLD != 0 || is_fold != (kind == Kind::Fold) {
            return Err(wrong(12, "its flags are not those of its name"));
        }
        if u128_at(header, 24) != database {
            return Err(wrong(24, "it is of another database"));
        }
        if u64_at(header, 16) != sequence {
            return Err(wrong(16, "its number is not that of its name"));
        }
        let Some((bytes, body)) = rest.split_first_chunk::<RECORD_HEADER_LEN>() else {
            return Err(wrong(HEADER_LEN, "it ends before its record"));
        };
        let record = RecordHeader::decode(bytes, GENERATION).map_err(|reason| wrong(HEADER_LEN, reason))?;
        if record.sequence != sequence || record.record_len() != rest.len() as u64 {
            return Err(wrong(HEADER_LEN, "its record is not that of its header"));
        }
        let body = body.get(..record.body_len as usize).unwrap_or_default();
        if !record.body_matches(body) {
            return Err(wrong(HEADER_LEN, "the checksum of its record does not match"));
        }
        let (number, previous) = (u128_at(header, 40), Hash(previous));
        Ok(Object { sequence, database, number, previous, body: body.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> Object {
        Object { sequence: 7, database: 9 << 70, number: 3 << 90, previous: Hash::of(b"six"), body: b"body!".to_vec() }
    }

    #[test]
    fn an_object_is_what_was_written() {
        for kind in [Kind::Commit, Kind::Fold] {
            let bytes = object().encode(kind);
            assert_eq!(Object::decode("o", &bytes, kind, 9 << 70, 7).unwrap(), object());
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = object().encode(Kind::Commit);
        let is_good = |bytes: &[u8]| Object::decode("o", bytes, Kind::Commit, 9 << 70, 7).is_ok_and(|o| o == object());
        let padding = bytes.len() - 3;
        for bit in 0..padding * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_good(&flipped), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(!is_good(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn an_object_of_another_place_is_refused() {
        let bytes = object().encode(Kind::Commit);
        let reason = |kind, database, sequence| {
            Object::decode("log/7", &bytes, kind, database, sequence).unwrap_err().to_string()
        };
        assert!(reason(Kind::Fold, 9 << 70, 7).contains("flags"));
        assert!(reason(Kind::Commit, 8, 7).contains("another database"));
        assert!(reason(Kind::Commit, 9 << 70, 8).contains("log/7 is damaged at byte 16: its number"));
    }

    /// The first commit ever written to a bucket. These bytes are of this version and never change.
    #[test]
    fn the_bytes_of_this_version_never_change() {
        let bytes = object().encode(Kind::Commit);
        assert_eq!(bytes.len(), 96 + 32);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(hex.starts_with("46524545434d4954030000000000000007000000000000000000000000000000"), "{hex}");
        assert_eq!(format!("{:?}", Hash::of(&bytes)), "44072ccd", "{hex}");
    }
}
