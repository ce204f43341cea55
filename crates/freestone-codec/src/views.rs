//! Decoded strings as Arrow views, without depending on Arrow.

/// A growing column of strings: one 16-byte view per row and the buffers to which views of long strings point. Views
/// have Arrow's `Utf8View` layout, little-endian: `u32` length; up to 12 bytes inline, or 4 bytes of prefix, `u32`
/// buffer index, `u32` offset.
#[derive(Debug, Default)]
pub struct Views {
    /// The views, one per row.
    pub views: Vec<u128>,
    /// Finished or shared buffers, in the order of their indexes.
    pub buffers: Vec<std::sync::Arc<Vec<u8>>>,
    /// The buffer that is being filled. Its index is `buffers.len()` until [`Views::seal`].
    pub open: Vec<u8>,
}

impl Views {
    /// The view of a string at `offset` of buffer `buffer`.
    #[inline]
    pub fn view(value: &[u8], buffer: u32, offset: u32) -> u128 {
        let len = value.len();
        if len > 12 {
            let prefix = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
            return len as u128 | u128::from(prefix) << 32 | u128::from(buffer) << 64 | u128::from(offset) << 96;
        }
        len as u128 | short(value) << 32
    }

    /// Appends a copy of `value`.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        let (buffer, offset) = (self.buffers.len() as u32, self.open.len() as u32);
        if value.len() > 12 {
            self.open.extend_from_slice(value);
        }
        self.views.push(Self::view(value, buffer, offset));
    }

    /// Closes the open buffer, so that the next string starts a new one.
    pub fn seal(&mut self) {
        if !self.open.is_empty() {
            self.buffers.push(std::sync::Arc::new(std::mem::take(&mut self.open)));
        }
    }

    /// Adds `buffer`, unless it is the last shared one already, and returns its index.
    pub fn share(&mut self, buffer: &std::sync::Arc<Vec<u8>>) -> u32 {
        if let Some(at) = self.buffers.iter().rposition(|b| std::sync::Arc::ptr_eq(b, buffer)) {
            return at as u32;
        }
        self.seal();
        self.buffers.push(buffer.clone());
        self.buffers.len() as u32 - 1
    }

    /// Calls `f` with the string of a row. `None` if there is no such row, or its view is invalid.
    #[inline]
    pub fn read<R>(&self, row: usize, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let view = *self.views.get(row)?;
        let len = view as u32 as usize;
        if len <= 12 {
            return view.to_le_bytes().get(4..4 + len).map(f);
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        let buffer = if buffer == self.buffers.len() { &self.open } else { self.buffers.get(buffer)?.as_ref() };
        buffer.get(offset..offset.checked_add(len)?).map(f)
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }
}

/// Up to 12 bytes as the low bytes of a number, read by overlapping loads, because a copy of unknown length costs more.
#[inline]
fn short(value: &[u8]) -> u128 {
    let n = value.len();
    let four = |at: usize| u128::from(u32::from_le_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]]));
    match n {
        0 => 0,
        1..=3 => {
            let byte = |at: usize| u128::from(value[at]) << (8 * at);
            byte(0) | byte(n / 2) | byte(n - 1)
        }
        4..=8 => four(0) | four(n - 4) << (8 * (n - 4)),
        _ => four(0) | four(4) << 32 | four(n - 4) << (8 * (n - 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back() {
        let mut views = Views::default();
        let texts: [&[u8]; 4] = [b"", b"twelve bytes", b"more than twelve bytes", b"x"];
        texts.iter().for_each(|text| views.push(text));
        views.seal();
        views.push(b"another that is long");
        views.views.push(Views::view(b"leads nowhere", 9, 0));
        let read = |row| views.read(row, <[u8]>::to_vec);
        assert_eq!((0..4).map(|row| read(row).unwrap()).collect::<Vec<_>>(), texts);
        assert_eq!(read(4).unwrap(), b"another that is long");
        assert_eq!((read(5), read(6)), (None, None));
    }

    #[test]
    fn views_have_arrow_layout() {
        let text = b"abcdefghijklmnopqrstuvwxyz";
        for len in 0..=text.len() {
            let bytes = Views::view(&text[..len], 7, 9).to_le_bytes();
            assert_eq!(bytes[..4], (len as u32).to_le_bytes());
            if len <= 12 {
                assert_eq!(bytes[4..4 + len], text[..len]);
                assert!(bytes[4 + len..].iter().all(|b| *b == 0), "{len}");
            } else {
                assert_eq!(bytes[4..], [&text[..4], &[7, 0, 0, 0], &[9, 0, 0, 0]].concat());
            }
        }
    }
}
