//! Bit fields that are not aligned to bytes: least significant bit first, little-endian.

/// The number of bits that `0..=max` needs.
#[inline]
pub fn width(max: u64) -> u32 {
    64 - max.leading_zeros()
}

/// A byte vector to which bit fields are appended.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// The last bits, fewer than 64, that are not in `bytes` yet.
    open: u64,
    open_bits: u32,
}

impl BitWriter {
    /// An empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of bits written so far.
    pub fn bits(&self) -> usize {
        self.bytes.len() * 8 + self.open_bits as usize
    }

    /// Appends the low `width` bits of `value` (`width` up to 64; the bits above must be zero).
    #[inline]
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width == 64 || value >> width == 0);
        self.open |= value << self.open_bits;
        let bits = self.open_bits + width;
        if bits >= 64 {
            self.bytes.extend_from_slice(&self.open.to_le_bytes());
            let written = 64 - self.open_bits;
            self.open = if written == 64 { 0 } else { value >> written };
            self.open_bits = bits - 64;
        } else {
            self.open_bits = bits;
        }
    }

    /// The written bytes. Unused bits of the last byte are zero.
    pub fn finish(mut self) -> Vec<u8> {
        let last = self.open_bits.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.open.to_le_bytes()[..last]);
        self.bytes
    }
}

/// The `width`-bit field at `bit`. Bytes past the end read as zero.
#[inline]
pub fn get(bytes: &[u8], bit: usize, width: u32) -> u64 {
    if width == 0 {
        return 0;
    }
    let (byte, shift) = (bit / 8, (bit % 8) as u32);
    let wide = if let Some(chunk) = bytes.get(byte..byte + 16) {
        u128::from_le_bytes(chunk.try_into().expect("16 bytes"))
    } else {
        let mut buffer = [0u8; 16];
        let tail = bytes.get(byte..).unwrap_or(&[]);
        let n = tail.len().min(16);
        buffer[..n].copy_from_slice(&tail[..n]);
        u128::from_le_bytes(buffer)
    };
    let value = (wide >> shift) as u64;
    if width == 64 { value } else { value & ((1 << width) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back(fields in proptest::collection::vec((any::<u64>(), 0u32..=64), 0..200)) {
            let fields: Vec<(u64, u32)> =
                fields.iter().map(|(v, w)| (if *w == 0 { 0 } else { v >> (64 - w) }, *w)).collect();
            let mut writer = BitWriter::new();
            let mut at = Vec::new();
            for (value, width) in &fields {
                at.push(writer.bits());
                writer.put(*value, *width);
            }
            let total = writer.bits();
            let bytes = writer.finish();
            prop_assert_eq!(bytes.len(), total.div_ceil(8));
            for ((value, width), at) in fields.iter().zip(at) {
                prop_assert_eq!(get(&bytes, at, *width), *value);
            }
        }
    }
}
