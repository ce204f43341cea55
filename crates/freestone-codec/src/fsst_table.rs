//! An FSST symbol table (Boncz, Neumann and Leis, PVLDB 2020) and its decompression.
//!
//! ```text
//! u8              symbols n (0..=255)
//! u8 x n          length of each, 1..=8
//! bytes           the symbols, concatenated
//! ```
//! In compressed data a byte below n represents its symbol, and 255 escapes the next byte.
//!
//! The crate `fsst-rs` compresses. Decompression and comparison are here, because they must withstand corrupt data.
//! Comparison works on the decompressed bytes, never on a compressed literal, so it does not depend on how a compressor
//! chooses symbols.

use crate::CodecError;
use crate::layout::Reader;
use fsst::{Compressor, CompressorBuilder, ESCAPE_CODE, Symbol};

/// A symbol table: up to 255 symbols of 1 to 8 bytes.
pub struct SymbolTable {
    /// The little-endian bytes of each symbol. Unused symbols are zero and have length 0.
    symbols: [[u8; 8]; 256],
    lengths: [u8; 256],
    count: usize,
    compressor: Option<Compressor>,
}

impl std::fmt::Debug for SymbolTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SymbolTable").field("count", &self.count).finish()
    }
}

impl SymbolTable {
    /// A table trained on a sample of strings.
    pub fn train(sample: &Vec<&[u8]>) -> Self {
        Self::of(Compressor::train(sample))
    }

    fn of(compressor: Compressor) -> Self {
        let (mut symbols, mut lengths) = ([[0; 8]; 256], [0; 256]);
        let (table, table_lengths) = (compressor.symbol_table(), compressor.symbol_lengths());
        for (code, (symbol, length)) in table.iter().zip(table_lengths).enumerate() {
            symbols[code] = symbol.to_u64().to_le_bytes();
            lengths[code] = *length;
        }
        Self { symbols, lengths, count: table.len(), compressor: Some(compressor) }
    }

    /// The bytes that [`SymbolTable::parse`] reads.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.count as u8];
        out.extend_from_slice(&self.lengths[..self.count]);
        for code in 0..self.count {
            out.extend_from_slice(&self.symbols[code][..usize::from(self.lengths[code])]);
        }
        out
    }

    /// Reads a table.
    ///
    /// # Errors
    /// `Corrupt` if the counts or lengths are invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, CodecError> {
        let mut reader = Reader::new(bytes);
        let count = usize::from(reader.u8()?);
        let table_lengths = reader.take(count)?;
        let (mut symbols, mut lengths) = ([[0; 8]; 256], [0; 256]);
        for (code, length) in table_lengths.iter().enumerate() {
            if !(1..=8).contains(length) || code == usize::from(ESCAPE_CODE) {
                return Err(CodecError::corrupt(format!("FSST symbol {code} of {length} bytes")));
            }
            symbols[code][..usize::from(*length)].copy_from_slice(reader.take(usize::from(*length))?);
            lengths[code] = *length;
        }
        let compressor = rebuild(&symbols[..count], table_lengths);
        Ok(Self { symbols, lengths, count, compressor })
    }

    /// A compressor for this table. `None` if the table is readable but not one that training can give.
    pub fn compressor(&self) -> Option<&Compressor> {
        self.compressor.as_ref()
    }

    /// Appends the decompressed bytes.
    ///
    /// # Errors
    /// `Corrupt` if the last byte is an escape.
    #[inline]
    pub fn decompress(&self, compressed: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let start = out.len();
        out.resize(start + compressed.len() * 8, 0);
        let n = self.decompress_into(compressed, &mut out[start..])?;
        out.truncate(start + n);
        Ok(())
    }

    /// Decompresses to the front of `out`, which must have at least 8 bytes per compressed byte. Returns the length.
    ///
    /// # Errors
    /// As for [`SymbolTable::decompress`].
    #[inline]
    pub fn decompress_into(&self, compressed: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
        let (mut at, mut i) = (0, 0);
        while i < compressed.len() {
            let code = compressed[i];
            i += 1;
            if code == ESCAPE_CODE {
                let Some(byte) = compressed.get(i) else {
                    return Err(CodecError::corrupt("an FSST string ends in an escape"));
                };
                out[at] = *byte;
                i += 1;
                at += 1;
            } else {
                out[at..at + 8].copy_from_slice(&self.symbols[usize::from(code)]);
                at += usize::from(self.lengths[usize::from(code)]);
            }
        }
        Ok(at)
    }

    /// Whether the string starts with `prefix`, and whether it has no more bytes. Decompresses only as far as they
    /// agree.
    pub fn starts_with(&self, compressed: &[u8], prefix: &[u8]) -> (bool, bool) {
        let mut rest = prefix;
        let mut codes = compressed.iter();
        while let Some(code) = codes.next() {
            let escaped;
            let symbol: &[u8] = if *code == ESCAPE_CODE {
                escaped = [codes.next().copied().unwrap_or(0)];
                &escaped
            } else {
                &self.symbols[usize::from(*code)][..usize::from(self.lengths[usize::from(*code)])]
            };
            if symbol.len() > rest.len() {
                return (symbol.starts_with(rest), false);
            }
            let Some(after) = rest.strip_prefix(symbol) else { return (false, false) };
            rest = after;
        }
        (rest.is_empty(), rest.is_empty())
    }
}

/// A compressor for the same table. Its constructor panics on tables that training cannot give, so they are rejected
/// before: lengths must be ordered 2 … 8, 1, a symbol's length must follow from its bytes, and hash slots must not
/// collide.
fn rebuild(symbols: &[[u8; 8]], lengths: &[u8]) -> Option<Compressor> {
    let rank = |length: u8| if length == 1 { 9 } else { length };
    let symbols: Vec<Symbol> = symbols.iter().map(Symbol::from_slice).collect();
    let consistent = symbols.iter().zip(lengths).all(|(symbol, length)| symbol.len() == usize::from(*length));
    if !consistent || !lengths.is_sorted_by_key(|length| rank(*length)) {
        return None;
    }
    let mut builder = CompressorBuilder::new();
    symbols
        .iter()
        .all(|symbol| builder.insert(*symbol, symbol.len()))
        .then(|| Compressor::rebuild_from(symbols, lengths))
}
