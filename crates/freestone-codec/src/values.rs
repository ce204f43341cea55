//! The input of the codecs: typed slices, and the plan by which they are encoded.

/// The physical kind of a column, as the codecs see it. Every SQL type maps to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Booleans, integers of up to 64 bits, dates, times, timestamps, decimals of up to 18 digits. The caller shifts
    /// unsigned 64-bit integers by 2^63, which preserves their order.
    Int = 1,
    /// Decimals of 19 to 38 digits.
    Wide = 2,
    /// Floats of 64 bits.
    F64 = 3,
    /// Floats of 32 bits.
    F32 = 4,
    /// Strings and binary.
    Bytes = 5,
}

impl Kind {
    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Int => "integer",
            Kind::Wide => "wide decimal",
            Kind::F64 => "double",
            Kind::F32 => "real",
            Kind::Bytes => "string",
        }
    }
}

/// `len` byte strings: string `i` is `data[offsets[i]..offsets[i + 1]]`.
#[derive(Debug, Clone, Copy)]
pub struct BytesSlice<'a> {
    /// The start of each string, and the end of the last.
    pub offsets: &'a [u32],
    /// The strings, one after the other.
    pub data: &'a [u8],
}

impl<'a> BytesSlice<'a> {
    /// The number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `row`.
    pub fn get(&self, row: usize) -> &'a [u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// Consecutive values of one column. NULL rows must have a value, too, which is arbitrary.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Integers of at most 64 bits.
    Int(&'a [i64]),
    /// Integers of 128 bits.
    Wide(&'a [i128]),
    /// Floats of 64 bits.
    F64(&'a [f64]),
    /// Floats of 32 bits.
    F32(&'a [f32]),
    /// Strings.
    Bytes(BytesSlice<'a>),
}

impl Values<'_> {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Int(v) => v.len(),
            Values::Wide(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::F32(v) => v.len(),
            Values::Bytes(v) => v.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The physical kind.
    pub fn kind(&self) -> Kind {
        match self {
            Values::Int(_) => Kind::Int,
            Values::Wide(_) => Kind::Wide,
            Values::F64(_) => Kind::F64,
            Values::F32(_) => Kind::F32,
            Values::Bytes(_) => Kind::Bytes,
        }
    }
}

/// The transform of a segment's column before it is divided into chunks. Its state is a [`crate::Shared`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transform {
    /// No transform.
    None = 1,
    /// Values become codes of one sorted dictionary per segment. The codes are then encoded as integers.
    Dictionary = 2,
    /// Each string is compressed with one FSST symbol table per segment.
    Fsst = 3,
    /// Long strings: [`Encoding::Block`] chunks use a Zstandard dictionary trained on the segment.
    BlockDictionary = 4,
}

/// The encoding of one chunk. The ids never change; see `docs/format.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Values as they are.
    Plain = 1,
    /// One value for all rows.
    Constant = 2,
    /// Frame of reference and bit-packing in vectors of 1024.
    BitPack = 3,
    /// A dictionary in the chunk (Holloway and DeWitt 2008, section 4.2), with bit-packed codes.
    Dictionary = 4,
    /// Differences from the previous value, bit-packed in vectors of 1024.
    Delta = 5,
    /// The number of leading zeros, then the difference below its highest 1 bit (Holloway and DeWitt 2008, section
    /// 3.2).
    DeltaLz = 6,
    /// Value and run length packed into one word (Holloway and DeWitt 2008, section 4.2).
    Rle = 7,
    /// Floats as decimals (ALP).
    Alp = 8,
    /// Zstandard over the chunk's concatenated strings.
    Block = 9,
}

/// The storage of a column in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnPlan {
    /// The transform of the segment's column.
    pub transform: Transform,
    /// The encoding of each chunk.
    pub encoding: Encoding,
}

impl ColumnPlan {
    /// The name for messages and `EXPLAIN`.
    pub fn name(self) -> &'static str {
        match (self.transform, self.encoding) {
            (Transform::Fsst, Encoding::Constant) => "constant of fsst",
            (Transform::Fsst, _) => "fsst",
            (Transform::BlockDictionary, _) => "block with dictionary",
            (Transform::None, Encoding::Plain) => "plain",
            (Transform::None, Encoding::Constant) => "constant",
            (Transform::None, Encoding::BitPack) => "bitpack",
            (Transform::None, Encoding::Dictionary) => "dictionary per page",
            (Transform::None, Encoding::Delta) => "delta",
            (Transform::None, Encoding::DeltaLz) => "delta-lz",
            (Transform::None, Encoding::Rle) => "rle",
            (Transform::None, Encoding::Alp) => "alp",
            (Transform::None, Encoding::Block) => "block",
            (Transform::Dictionary, Encoding::Plain) => "dictionary, plain codes",
            (Transform::Dictionary, Encoding::Constant) => "dictionary, constant code",
            (Transform::Dictionary, Encoding::Dictionary) => "dictionary, codes by page dictionary",
            (Transform::Dictionary, Encoding::Delta) => "dictionary, delta",
            (Transform::Dictionary, Encoding::DeltaLz) => "dictionary, delta-lz",
            (Transform::Dictionary, Encoding::Rle) => "dictionary, rle",
            (Transform::Dictionary, _) => "dictionary",
        }
    }
}
