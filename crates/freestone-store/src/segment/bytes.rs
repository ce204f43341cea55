//! Little-endian fields of the footer: written in order, and read with every length checked.

/// Appends fields.
#[derive(Debug, Default)]
pub struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Zigzag, then seven bits per byte, least significant first, with the top bit set in all bytes but the last.
    pub fn varint(&mut self, value: i128) {
        let mut rest = ((value << 1) ^ (value >> 127)) as u128;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    /// A varint length, then the bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.varint(value.len() as i128);
        self.bytes.extend_from_slice(value);
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads fields from the front, and fails where the bytes end.
#[derive(Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        ByteReader { rest: bytes }
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or("the footer ends early")?;
        self.rest = rest;
        Ok(head)
    }

    pub fn u8(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?[0])
    }

    pub fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("4 bytes")))
    }

    pub fn varint(&mut self) -> Result<i128, String> {
        let (mut value, mut shift) = (0u128, 0);
        loop {
            let byte = self.u8()?;
            if shift > 126 {
                return Err("a number in the footer is too long".into());
            }
            value |= u128::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return Ok((value >> 1) as i128 ^ -((value & 1) as i128));
            }
        }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| "a negative length in the footer")?)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, -1, 63, 64, -65, i64::MAX.into(), i64::MIN.into(), i128::MAX, i128::MIN] {
            let mut out = ByteWriter::default();
            out.varint(value);
            let bytes = out.finish();
            assert_eq!(ByteReader::new(&bytes).varint(), Ok(value));
            assert!(ByteReader::new(&bytes[..bytes.len() - 1]).varint().is_err());
        }
    }
}
