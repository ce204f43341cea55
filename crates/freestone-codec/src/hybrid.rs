//! Parquet's hybrid of runs and bit-packed groups: the codes of dictionaries, and levels.
//!
//! ```text
//! run:     varint (count << 1)       the value, ceil(width / 8) bytes, little-endian
//! groups:  varint (groups << 1 | 1)  groups * width bytes: 8 values per group, least significant bit first
//! ```
//! As in the [Parquet format](https://parquet.apache.org/docs/file-format/data-pages/encodings/) ("RLE / Bit-Packing
//! Hybrid"). The last groups may have fewer bytes than they claim, and more values than the page.

use crate::CodecError;
use crate::simd::dispatch;

/// The values of a group.
const GROUP: usize = 8;
/// A group is read by words of this many bytes.
const WORD: usize = 8;

/// Where a reader is in a sequence. The bytes are given to each call, so that it borrows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Hybrid {
    /// The byte after the run or groups that are being read.
    next: usize,
    width: u32,
    part: Part,
}

/// The run or groups that are being read.
#[derive(Debug, Clone, Copy)]
enum Part {
    Run {
        value: u32,
        left: usize,
    },
    /// `begin` is the first byte; `at` of `count` values were read.
    Groups {
        begin: usize,
        at: usize,
        count: usize,
    },
}

/// Values that come next in a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The value.
    pub value: u32,
    /// How often it follows.
    pub count: usize,
}

impl Hybrid {
    /// A sequence of values of `width` bits that begins at byte `at`.
    ///
    /// # Errors
    /// The width is above 32.
    pub fn new(at: usize, width: u32) -> Result<Hybrid, CodecError> {
        if width > 32 {
            return Err(CodecError::corrupt(format!("codes of {width} bits")));
        }
        Ok(Hybrid { next: at, width, part: Part::Run { value: 0, left: 0 } })
    }

    /// Appends the next `count` values to `out`.
    ///
    /// # Errors
    /// There are fewer.
    pub fn read(&mut self, bytes: &[u8], count: usize, out: &mut Vec<u32>) -> Result<(), CodecError> {
        let end = out.len() + count;
        while out.len() < end {
            let wanted = end - out.len();
            match &mut self.part {
                Part::Run { left: 0, .. } => self.open(bytes)?,
                Part::Run { value, left } => {
                    let taken = wanted.min(*left);
                    out.resize(out.len() + taken, *value);
                    *left -= taken;
                }
                Part::Groups { at, count, .. } if at == count => self.open(bytes)?,
                Part::Groups { begin, at, count } => {
                    let taken = wanted.min(*count - *at);
                    unpack_from(&bytes[*begin..], self.width, *at, taken, out);
                    *at += taken;
                }
            }
        }
        Ok(())
    }

    /// Leaves out the next `count` values.
    ///
    /// # Errors
    /// There are fewer.
    pub fn skip(&mut self, bytes: &[u8], count: usize) -> Result<(), CodecError> {
        let mut rest = count;
        while rest > 0 {
            let taken = match &mut self.part {
                Part::Run { left: 0, .. } => {
                    self.open(bytes)?;
                    continue;
                }
                Part::Run { left, .. } => {
                    let taken = rest.min(*left);
                    *left -= taken;
                    taken
                }
                Part::Groups { at, count, .. } if at == count => {
                    self.open(bytes)?;
                    continue;
                }
                Part::Groups { at, count, .. } => {
                    let taken = rest.min(*count - *at);
                    *at += taken;
                    taken
                }
            };
            rest -= taken;
        }
        Ok(())
    }

    /// The value that follows at least once, if a run is next.
    ///
    /// # Errors
    /// The sequence is damaged, or has ended.
    pub fn run(&mut self, bytes: &[u8]) -> Result<Option<Run>, CodecError> {
        match self.part {
            Part::Run { left: 0, .. } => self.open(bytes)?,
            Part::Groups { at, count, .. } if at == count => self.open(bytes)?,
            _ => {}
        }
        Ok(match self.part {
            Part::Run { value, left } => Some(Run { value, count: left }),
            Part::Groups { .. } => None,
        })
    }

    /// Reads the header of the next part.
    fn open(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let missing = || CodecError::corrupt("fewer codes than the page claims");
        let header = self.varint(bytes)?;
        let count = usize::try_from(header >> 1).map_err(|_| missing())?;
        if count == 0 {
            return Err(CodecError::corrupt("an empty run of codes"));
        }
        if header & 1 == 0 {
            let value_bytes = self.width.div_ceil(8) as usize;
            let value = bytes.get(self.next..self.next + value_bytes).ok_or_else(missing)?;
            let mut word = [0; 4];
            word[..value_bytes].copy_from_slice(value);
            let value = u32::from_le_bytes(word);
            if self.width < 32 && value >> self.width != 0 {
                return Err(CodecError::corrupt(format!("a code of more than {} bits", self.width)));
            }
            self.next += value_bytes;
            self.part = Part::Run { value, left: count };
            return Ok(());
        }
        let left = bytes.len() - self.next.min(bytes.len());
        let claimed = count.checked_mul(self.width as usize).ok_or_else(missing)?;
        let stored = claimed.min(left);
        // Without bits, there is no limit to what is claimed. No page has as many rows.
        let values = match self.width {
            0 => count.saturating_mul(GROUP).min(u32::MAX as usize),
            width => (stored * 8 / width as usize).min(count * GROUP),
        };
        if values == 0 {
            return Err(missing());
        }
        self.part = Part::Groups { begin: self.next, at: 0, count: values };
        self.next += stored;
        Ok(())
    }

    fn varint(&mut self, bytes: &[u8]) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *bytes.get(self.next).ok_or_else(|| CodecError::corrupt("fewer codes than the page claims"))?;
            self.next += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(CodecError::corrupt("a run of codes without end"))
    }
}

/// Appends `count` values from value `at` on of groups that begin with `packed`.
fn unpack_from(packed: &[u8], width: u32, at: usize, count: usize, out: &mut Vec<u32>) {
    if width == 0 {
        out.resize(out.len() + count, 0);
        return;
    }
    let (mut at, end) = (at, at + count);
    // A group is read by words, of which the last one may reach beyond it.
    let whole_groups = packed.len().saturating_sub(WORD) / width as usize;
    while at < end && (at % GROUP != 0 || at / GROUP >= whole_groups) {
        out.push(crate::bits::get(packed, at * width as usize, width) as u32);
        at += 1;
    }
    let groups = ((end - at) / GROUP).min(whole_groups.saturating_sub(at / GROUP));
    if groups > 0 {
        let start = out.len();
        out.resize(start + groups * GROUP, 0);
        unpack_groups(&packed[at / GROUP * width as usize..], width, &mut out[start..]);
        at += groups * GROUP;
    }
    for at in at..end {
        out.push(crate::bits::get(packed, at * width as usize, width) as u32);
    }
}

dispatch! {
    /// Unpacks whole groups. `packed` has a word more than they need.
    fn unpack_groups(packed: &[u8], width: u32, out: &mut [u32]) = unpack_kernel
}

#[inline(always)]
fn unpack_kernel(packed: &[u8], width: u32, out: &mut [u32]) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => groups_of::<$width>(packed, out),)*
                _ => unreachable!("codes have at most 32 bits"),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

#[inline(always)]
fn groups_of<const WIDTH: usize>(packed: &[u8], out: &mut [u32]) {
    let mask = (1u64 << WIDTH) - 1;
    let (groups, _) = out.as_chunks_mut::<GROUP>();
    for (number, group) in groups.iter_mut().enumerate() {
        let Some(bytes) = packed.get(number * WIDTH..number * WIDTH + WIDTH + WORD) else { return };
        for (at, value) in group.iter_mut().enumerate() {
            let (byte, shift) = (at * WIDTH / 8, at * WIDTH % 8);
            let mut word = [0; WORD];
            word.copy_from_slice(&bytes[byte..byte + WORD]);
            *value = (u64::from_le_bytes(word) >> shift & mask) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bits::BitWriter;

    /// A sequence of runs and groups with its values.
    fn written(parts: &[(bool, Vec<u32>)], width: u32) -> (Vec<u8>, Vec<u32>) {
        let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        let (mut bytes, mut all) = (vec![], vec![]);
        for (is_run, values) in parts {
            if *is_run {
                let value = values[0] & mask;
                put_varint(&mut bytes, (values.len() as u64) << 1);
                bytes.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
                all.resize(all.len() + values.len(), value);
            } else {
                let groups = values.len().div_ceil(GROUP);
                put_varint(&mut bytes, (groups as u64) << 1 | 1);
                let mut packed = BitWriter::new();
                for at in 0..groups * GROUP {
                    let value = values.get(at).copied().unwrap_or(0) & mask;
                    packed.put(u64::from(value), width);
                    all.push(value);
                }
                bytes.extend_from_slice(&packed.finish());
            }
        }
        (bytes, all)
    }

    fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn parts() -> impl Strategy<Value = Vec<(bool, Vec<u32>)>> {
        let values = proptest::collection::vec(any::<u32>(), 1..70);
        proptest::collection::vec((any::<bool>(), values), 1..6)
    }

    proptest! {
        #[test]
        fn values_come_back(parts in parts(), width in 0u32..=32, pieces in proptest::collection::vec(1usize..40, 1..20)) {
            let (bytes, all) = written(&parts, width);
            let mut reader = Hybrid::new(0, width).expect("a width");
            let (mut out, mut expected, mut at) = (vec![], vec![], 0);
            for (number, piece) in pieces.into_iter().cycle().take(400).enumerate() {
                let piece = piece.min(all.len() - at);
                if number % 3 == 2 {
                    reader.skip(&bytes, piece).expect("values");
                } else {
                    reader.read(&bytes, piece, &mut out).expect("values");
                    expected.extend_from_slice(&all[at..at + piece]);
                }
                at += piece;
            }
            prop_assert_eq!(out, expected);
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..200), width in 0u32..=32) {
            let mut reader = Hybrid::new(0, width).expect("a width");
            let mut out = vec![];
            let _ = reader.read(&bytes, 1 << 12, &mut out);
            let _ = Hybrid::new(0, width).expect("a width").skip(&bytes, 1 << 30);
        }
    }

    #[test]
    fn a_run_is_seen_before_it_is_read() {
        let (bytes, _) = written(&[(true, vec![1; 1000]), (false, vec![0; 8])], 1);
        let mut reader = Hybrid::new(0, 1).expect("a width");
        assert_eq!(reader.run(&bytes).expect("a run"), Some(Run { value: 1, count: 1000 }));
        reader.skip(&bytes, 1000).expect("values");
        assert_eq!(reader.run(&bytes).expect("groups"), None);
    }

    #[test]
    fn too_few_values_are_an_error() {
        let (bytes, all) = written(&[(false, vec![5; 16])], 3);
        let mut out = vec![];
        let mut reader = Hybrid::new(0, 3).expect("a width");
        reader.read(&bytes, all.len(), &mut out).expect("values");
        assert!(reader.read(&bytes, 1, &mut out).is_err());
        assert!(Hybrid::new(0, 3).expect("a width").read(&bytes[..4], all.len(), &mut vec![]).is_err());
        assert!(Hybrid::new(0, 33).is_err());
    }
}
