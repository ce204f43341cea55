//! What goes in: typed slices, and the plan by which they are encoded.

/// The physical kind of a column: what the codecs see. Every SQL type maps to one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Booleans, integers up to 64 bits, dates, times, timestamps, decimals of up to 18 digits. Unsigned 64-bit integers
    /// are shifted by 2^63 by the caller, so that order is kept.
    Int = 1,
    /// Decimals of 19 to 38 digits.
    Wide = 2,
    F64 = 3,
    F32 = 4,
    /// Strings and binary.
    Bytes = 5,
}

impl Kind {
    /// For messages.
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
    pub offsets: &'a [u32],
    pub data: &'a [u8],
}

impl<'a> BytesSlice<'a> {
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, row: usize) -> &'a [u8] {
        &self.data[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// A run of values of one column. What stands at a NULL's place is arbitrary, but must be present.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    Int(&'a [i64]),
    Wide(&'a [i128]),
    F64(&'a [f64]),
    F32(&'a [f32]),
    Bytes(BytesSlice<'a>),
}

impl Values<'_> {
    pub fn len(&self) -> usize {
        match self {
            Values::Int(v) => v.len(),
            Values::Wide(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::F32(v) => v.len(),
            Values::Bytes(v) => v.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

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

/// What is done to a whole segment's column before it is cut into chunks; its state is a [`crate::Shared`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transform {
    None = 1,
    /// Values become codes of one sorted dictionary per segment; the codes are then encoded as integers.
    Dictionary = 2,
    /// Strings are compressed with one FSST symbol table per segment.
    Fsst = 3,
    /// Long text: a Zstandard dictionary trained on the segment, used by [`Encoding::Block`] chunks.
    BlockDictionary = 4,
}

/// How one chunk is laid out. The ids are frozen: `docs/format.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    Plain = 1,
    Constant = 2,
    /// Frame of reference and bit-packing in vectors of 1024.
    BitPack = 3,
    /// A dictionary in the chunk itself (Holloway 4.2), codes bit-packed.
    Dictionary = 4,
    /// Differences to the previous value, bit-packed in vectors of 1024.
    Delta = 5,
    /// Leading-zero count, then the difference from its first 1 bit (Holloway 3.2).
    DeltaLz = 6,
    /// Value and run length packed into one word (Holloway 4.2).
    Rle = 7,
    /// Floats as decimals: ALP.
    Alp = 8,
    /// Zstandard over the chunk's concatenated strings.
    Block = 9,
}

/// How a column of one segment is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnPlan {
    pub transform: Transform,
    pub encoding: Encoding,
}

impl ColumnPlan {
    /// For messages and `EXPLAIN`.
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
