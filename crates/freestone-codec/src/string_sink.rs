//! Targets for decoded strings: views, or concatenated strings with offsets.

use std::sync::Arc;

use crate::fsst_table::SymbolTable;
use crate::{CodecError, Shared, Views};

/// A growing column of strings. A run is adjacent strings of `data`, the first from `offsets[0]` to `offsets[1]`.
///
/// # Errors
/// The methods fail if the column cannot hold that much text.
#[allow(clippy::missing_errors_doc)]
pub trait StringSink {
    /// Appends `value` in `rows` rows.
    fn repeat(&mut self, value: &[u8], rows: usize) -> Result<(), CodecError>;

    /// Appends a run, as a copy.
    fn run(&mut self, data: &[u8], offsets: &[u32]) -> Result<(), CodecError>;

    /// Appends a run, and may keep a reference to `data`.
    fn shared_run(&mut self, data: &Arc<Vec<u8>>, offsets: &[u32]) -> Result<(), CodecError>;

    /// Appends a run that is FSST-compressed.
    fn compressed(&mut self, table: &SymbolTable, data: &[u8], offsets: &[u32]) -> Result<(), CodecError>;

    /// Appends entries of a chunk's dictionary. All codes must be smaller than its length.
    fn entries(&mut self, entries: &[&[u8]], codes: &[u32]) -> Result<(), CodecError>;

    /// Appends entries of a segment's dictionary. All codes must be smaller than its length.
    fn shared_entries(&mut self, dictionary: &Shared, codes: &[u32]) -> Result<(), CodecError>;
}

fn no_strings() -> CodecError {
    CodecError::corrupt("a dictionary of numbers for strings")
}

/// Moves a view to another buffer. Views of short strings refer to no buffer.
#[inline(always)]
fn rebase(view: u128, buffer: u32) -> u128 {
    if view as u32 <= 12 { view } else { view & !(0xFFFF_FFFF << 64) | u128::from(buffer) << 64 }
}

impl StringSink for Views {
    fn repeat(&mut self, value: &[u8], rows: usize) -> Result<(), CodecError> {
        if rows > 0 {
            self.push(value);
            let view = self.views[self.views.len() - 1];
            self.views.resize(self.views.len() + rows - 1, view);
        }
        Ok(())
    }

    /// Copies the data, as one piece if most strings are too long to be inlined in their views.
    fn run(&mut self, data: &[u8], offsets: &[u32]) -> Result<(), CodecError> {
        let n = offsets.len() - 1;
        let (first, last) = (offsets[0] as usize, offsets[n] as usize);
        if last - first <= 12 * n {
            self.views.reserve(n);
            offsets.windows(2).for_each(|o| self.push(&data[o[0] as usize..o[1] as usize]));
            return Ok(());
        }
        let (buffer, base) = (self.buffers.len() as u32, self.open.len());
        self.open.extend_from_slice(&data[first..last]);
        self.views.extend(offsets.windows(2).map(|o| {
            let (from, to) = (o[0] as usize, o[1] as usize);
            Views::view(&data[from..to], buffer, (base + from - first) as u32)
        }));
        Ok(())
    }

    fn shared_run(&mut self, data: &Arc<Vec<u8>>, offsets: &[u32]) -> Result<(), CodecError> {
        let buffer = self.share(data);
        let view = |o: &[u32]| Views::view(&data[o[0] as usize..o[1] as usize], buffer, o[0]);
        self.views.extend(offsets.windows(2).map(view));
        Ok(())
    }

    fn compressed(&mut self, table: &SymbolTable, data: &[u8], offsets: &[u32]) -> Result<(), CodecError> {
        let buffer = self.buffers.len() as u32;
        let compressed = (offsets[offsets.len() - 1] - offsets[0]) as usize;
        let mut at = self.open.len();
        self.open.resize(at + compressed * 8, 0);
        for o in offsets.windows(2) {
            let n = match table.decompress_into(&data[o[0] as usize..o[1] as usize], &mut self.open[at..]) {
                Ok(n) => n,
                Err(error) => {
                    self.open.truncate(at);
                    return Err(error);
                }
            };
            self.views.push(Views::view(&self.open[at..at + n], buffer, at as u32));
            at += if n > 12 { n } else { 0 };
        }
        self.open.truncate(at);
        Ok(())
    }

    /// Copies each entry in use once, and lets all rows point to it.
    fn entries(&mut self, entries: &[&[u8]], codes: &[u32]) -> Result<(), CodecError> {
        let mut views: Vec<Option<u128>> = vec![None; entries.len()];
        self.views.reserve(codes.len());
        for code in codes {
            match views[*code as usize] {
                Some(view) => self.views.push(view),
                None => {
                    self.push(entries[*code as usize]);
                    views[*code as usize] = self.views.last().copied();
                }
            }
        }
        Ok(())
    }

    fn shared_entries(&mut self, dictionary: &Shared, codes: &[u32]) -> Result<(), CodecError> {
        let (entries, data) = (dictionary.views(), dictionary.dictionary_buffer().ok_or_else(no_strings)?);
        let are_inline = || entries.iter().all(|view| *view as u32 <= 12) && entries.len() < codes.len();
        if entries.is_empty() || are_inline() {
            self.views.extend(codes.iter().map(|code| entries[*code as usize]));
            return Ok(());
        }
        match self.share(data) {
            0 => self.views.extend(codes.iter().map(|code| entries[*code as usize])),
            buffer => self.views.extend(codes.iter().map(|code| rebase(entries[*code as usize], buffer))),
        }
        Ok(())
    }
}

/// A growing column of concatenated strings, in Arrow's layout of `Utf8` and `Binary`.
#[derive(Debug)]
pub struct OffsetStrings {
    /// The ends of the strings, preceded by 0: one more element than strings.
    pub offsets: Vec<i32>,
    /// The strings, one after the other.
    pub data: Vec<u8>,
}

impl Default for OffsetStrings {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl OffsetStrings {
    /// An empty column. Appending `rows` strings does not reallocate the offsets, only the text.
    pub fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, data: vec![] }
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves memory for `bytes` more text of `strings` more strings. If that needs a larger allocation, it is made
    /// large enough for all announced strings, assuming that the rest have the same mean length. Doubling would leave
    /// up to half of it empty, as long as the column lives.
    fn reserve(&mut self, bytes: usize, strings: usize) {
        /// The most that is reserved for text that may not come.
        const AHEAD_BYTES: usize = 16 << 20;
        let needed = self.data.len() + bytes;
        if needed > self.data.capacity() {
            let (announced, known) = (self.offsets.capacity() as f64, (self.offsets.len() + strings) as f64);
            let all = needed as f64 * (announced / known).max(1.0);
            // If strings get longer, this runs again, and adds at least an eighth each time.
            let room = ((all * 1.03) as usize).max(self.data.capacity() + self.data.capacity() / 8);
            self.data.reserve_exact(room.min(needed + AHEAD_BYTES).max(needed) - self.data.len());
        }
    }

    /// Checks that the offsets can represent `bytes` more text.
    fn check(&self, bytes: usize) -> Result<(), CodecError> {
        match self.data.len().checked_add(bytes).filter(|bytes| i32::try_from(*bytes).is_ok()) {
            Some(_) => Ok(()),
            None => Err(CodecError::corrupt("strings of more than 2 GiB, which offsets cannot count: ask for views")),
        }
    }

    /// Appends entries of at most `N` bytes. A copy of a constant length takes a fraction of the time of any other, and
    /// the next entry overwrites the surplus.
    fn pick_padded<const N: usize>(&mut self, entries: &[&[u8]], codes: &[u32]) -> Result<(), CodecError> {
        let padded = entries.iter().map(|entry| {
            let mut block = [0; N];
            block[..entry.len()].copy_from_slice(entry);
            (block, entry.len())
        });
        let padded: Vec<([u8; N], usize)> = padded.collect();
        let bytes: usize = codes.iter().map(|code| padded[*code as usize].1).sum();
        self.check(bytes)?;
        self.reserve(bytes + N, codes.len());
        let mut at = self.data.len();
        self.data.resize(at + bytes + N, 0);
        self.offsets.extend(codes.iter().map(|code| {
            let (block, len) = &padded[*code as usize];
            self.data[at..at + N].copy_from_slice(block);
            at += len;
            at as i32
        }));
        self.data.truncate(at);
        Ok(())
    }
}

impl StringSink for OffsetStrings {
    fn repeat(&mut self, value: &[u8], rows: usize) -> Result<(), CodecError> {
        self.check(value.len().saturating_mul(rows))?;
        self.reserve(value.len() * rows, rows);
        self.offsets.reserve(rows);
        for _ in 0..rows {
            self.data.extend_from_slice(value);
            self.offsets.push(self.data.len() as i32);
        }
        Ok(())
    }

    fn run(&mut self, data: &[u8], offsets: &[u32]) -> Result<(), CodecError> {
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        self.check((last - first) as usize)?;
        self.reserve((last - first) as usize, offsets.len() - 1);
        let base = self.data.len() as i32;
        self.data.extend_from_slice(&data[first as usize..last as usize]);
        self.offsets.extend(offsets[1..].iter().map(|offset| base + (offset - first) as i32));
        Ok(())
    }

    fn shared_run(&mut self, data: &Arc<Vec<u8>>, offsets: &[u32]) -> Result<(), CodecError> {
        self.run(data, offsets)
    }

    fn compressed(&mut self, table: &SymbolTable, data: &[u8], offsets: &[u32]) -> Result<(), CodecError> {
        // The expansion is estimated from the previous strings.
        let strings = offsets.len() - 1;
        self.reserve(self.data.len() * strings / self.offsets.len(), strings);
        for o in offsets.windows(2) {
            let compressed = &data[o[0] as usize..o[1] as usize];
            self.check(compressed.len() * 8)?;
            table.decompress(compressed, &mut self.data)?;
            self.offsets.push(self.data.len() as i32);
        }
        Ok(())
    }

    fn entries(&mut self, entries: &[&[u8]], codes: &[u32]) -> Result<(), CodecError> {
        let longest = entries.iter().map(|entry| entry.len()).max().unwrap_or(0);
        match longest {
            0..=8 if entries.len() <= codes.len() => self.pick_padded::<8>(entries, codes),
            9..=32 if entries.len() <= codes.len() => self.pick_padded::<32>(entries, codes),
            _ => {
                let bytes = codes.iter().map(|code| entries[*code as usize].len()).sum();
                self.check(bytes)?;
                self.reserve(bytes, codes.len());
                for code in codes {
                    self.data.extend_from_slice(entries[*code as usize]);
                    self.offsets.push(self.data.len() as i32);
                }
                Ok(())
            }
        }
    }

    fn shared_entries(&mut self, dictionary: &Shared, codes: &[u32]) -> Result<(), CodecError> {
        let slice = dictionary.dictionary_bytes().ok_or_else(no_strings)?;
        let entries: Vec<&[u8]> = (0..dictionary.dictionary_len()).map(|code| slice.get(code)).collect();
        self.entries(&entries, codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &OffsetStrings) -> Vec<&[u8]> {
        texts.offsets.windows(2).map(|o| &texts.data[o[0] as usize..o[1] as usize]).collect()
    }

    #[test]
    fn text_takes_what_it_needs() {
        let mut texts = OffsetStrings::with_capacity(10_000);
        let run: Vec<u8> = (0..2700).map(|byte| b'a' + (byte % 26) as u8).collect();
        let offsets: Vec<u32> = (0..=100).map(|at| at * 27).collect();
        (0..100).for_each(|_| texts.run(&run, &offsets).expect("room"));
        assert_eq!((texts.len(), texts.data.len()), (10_000, 270_000));
        assert!(texts.data.capacity() < 300_000, "{}", texts.data.capacity());
        // More and longer strings than announced are allowed.
        (0..100).for_each(|_| texts.repeat(&run, 3).expect("room"));
        assert_eq!((texts.len(), texts.data.len()), (10_300, 270_000 + 300 * 2700));
        assert!(texts.data.capacity() < 3 * texts.data.len(), "{}", texts.data.capacity());
    }

    #[test]
    fn runs_repeats_and_entries_follow_each_other() {
        let mut texts = OffsetStrings::with_capacity(3);
        texts.run(b"--onetwo", &[2, 5, 5, 8]).unwrap();
        texts.repeat(b"x", 2).unwrap();
        texts.repeat(b"", 1).unwrap();
        texts.shared_run(&Arc::new(b"three".to_vec()), &[0, 5]).unwrap();
        assert_eq!(strings(&texts), [&b"one"[..], b"", b"two", b"x", b"x", b"", b"three"]);
        assert_eq!((texts.len(), texts.is_empty()), (7, false));
    }

    #[test]
    fn entries_of_every_length_are_picked() {
        for longest in [0, 1, 8, 9, 32, 33, 100] {
            let entries: Vec<Vec<u8>> = (0..=longest).map(|len| (0..len as u8).collect()).collect();
            let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
            for rows in [0, 3, 500] {
                let codes: Vec<u32> = (0..rows).map(|row| row * 7 % entries.len() as u32).collect();
                let mut texts = OffsetStrings::default();
                texts.repeat(b"before", 1).unwrap();
                texts.entries(&entries, &codes).unwrap();
                let expected = codes.iter().map(|code| entries[*code as usize]);
                assert_eq!(strings(&texts)[1..], expected.collect::<Vec<_>>(), "{longest} {rows}");
            }
        }
    }

    #[test]
    fn text_that_offsets_cannot_count_is_refused_before_it_is_there() {
        let long = vec![b'x'; 1 << 20];
        let mut texts = OffsetStrings::default();
        assert!(texts.repeat(&long, 2048).is_err());
        assert!(texts.entries(&[&long], &[0; 2048]).is_err());
        assert!(texts.is_empty() && texts.data.capacity() < 1 << 20);
    }
}
