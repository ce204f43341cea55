//! Fields of any number of bits, one after another, the least significant bit first.

/// The bytes that must follow the byte at which a field begins.
pub const SLACK: usize = 8;

/// Appends fields.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitWriter {
    pub fn bits(&self) -> usize {
        self.bits
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bits = 0;
    }

    /// Appends the low `bits` bits of a value, 64 at most.
    pub fn put(&mut self, value: u64, bits: u32) {
        for at in 0..bits {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let last = self.bytes.len() - 1;
            self.bytes[last] |= ((value >> at & 1) as u8) << (self.bits % 8);
            self.bits += 1;
        }
    }

    /// Appends whole bytes. The fields before them end at a byte.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        debug_assert!(self.bits.is_multiple_of(8), "text follows whole bytes only");
        self.bytes.extend_from_slice(bytes);
        self.bits += 8 * bytes.len();
    }
}

/// The field of `bits` bits, 64 at most, that begins at bit `at`.
#[inline(always)]
pub fn read(bytes: &[u8], at: usize, bits: u32) -> u64 {
    if bits <= 57 {
        return word(bytes, at) & mask(bits);
    }
    word(bytes, at) & mask(32) | (word(bytes, at + 32) & mask(bits - 32)) << 32
}

/// At least 57 bits from bit `at` on.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let from = &bytes[at / 8..at / 8 + SLACK];
    u64::from_le_bytes(from.try_into().expect("a slice of eight bytes")) >> (at % 8)
}

#[inline(always)]
pub fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_width_read_back() {
        let mut random = freestone_data::Random::new(5);
        let fields: Vec<(u64, u32)> = (0..2000).map(|_| (random.next(), 1 + random.below(64))).collect();
        let mut writer = BitWriter::default();
        fields.iter().for_each(|(value, bits)| writer.put(*value, *bits));
        let bytes = [writer.bytes(), &[0; SLACK]].concat();
        let mut at = 0;
        for (value, bits) in fields {
            assert_eq!(read(&bytes, at, bits), value & mask(bits), "{bits} bits at {at}");
            at += bits as usize;
        }
        assert_eq!(at, writer.bits());
    }
}
