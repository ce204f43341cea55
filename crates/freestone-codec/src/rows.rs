//! The rows of a chunk to decode, and the number types to decode them into.

/// The rows of a chunk to decode.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// A range of rows.
    Range {
        /// The first row.
        start: usize,
        /// The number of rows.
        len: usize,
    },
    /// Ascending row numbers within the chunk.
    Positions(&'a [u32]),
}

impl Rows<'_> {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Rows::Range { len, .. } => *len,
            Rows::Positions(positions) => positions.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A number type into which integers are decoded: `u8 … i128`, by wrapping conversion from the physical value.
pub trait IntTarget: Copy + Default + 'static {
    /// Converts a value of at most 64 bits.
    fn from_i64(value: i64) -> Self;
    /// Converts a value of 128 bits.
    fn from_i128(value: i128) -> Self;
}

macro_rules! int_target {
    ($($t:ty)*) => {$(
        impl IntTarget for $t {
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn from_i128(value: i128) -> Self {
                value as $t
            }
        }
    )*};
}
int_target!(u8 i8 u16 i16 u32 i32 u64 i64 i128);
