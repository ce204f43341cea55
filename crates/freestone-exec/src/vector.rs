//! Vectors: the values of one column for the rows of a batch, in few physical forms.
//!
//! Integers, dates, times and decimals of up to 18 digits are 64-bit integers, as they are stored. Texts are codes of a
//! dictionary or views. A vector is cheap to clone. What a NULL row holds has no meaning.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use freestone_codec::hash::hash_bytes;

/// The physical form of a column, which is known when a query is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Booleans, one bit per row.
    Bits,
    /// 64-bit integers.
    Int,
    /// 128-bit integers.
    Wide,
    /// 64-bit floats.
    Float,
    /// UTF-8 texts: codes or views.
    Text,
    /// An Arrow array of any other type, which is passed on as it is.
    Arrow,
}

/// The values of a vector.
#[derive(Debug, Clone)]
pub enum Values {
    /// Booleans.
    Bits(BooleanBuffer),
    /// 64-bit integers.
    Int(ScalarBuffer<i64>),
    /// 128-bit integers.
    Wide(ScalarBuffer<i128>),
    /// Floats.
    Float(ScalarBuffer<f64>),
    /// Texts by their codes in a dictionary.
    Codes(ScalarBuffer<u32>, Arc<Dictionary>),
    /// Texts.
    Text(Texts),
    /// Any other type.
    Arrow(ArrayRef),
}

/// A column of a batch.
#[derive(Debug, Clone)]
pub struct Vector {
    /// The values.
    pub values: Values,
    /// Which rows are not NULL; `None` if none is NULL.
    pub valid: Option<NullBuffer>,
}

/// Texts as Arrow's views and the buffers that they name.
#[derive(Debug, Clone)]
pub struct Texts {
    /// One view per row: length, prefix, buffer and offset, or length and up to 12 bytes.
    pub views: ScalarBuffer<u128>,
    /// The buffers.
    pub buffers: Arc<[Buffer]>,
}

/// The longest text that a view holds itself.
pub const INLINE_BYTES: usize = 12;

/// The bytes of a view.
#[inline]
pub fn view_bytes<'a>(view: &'a u128, buffers: &'a [Buffer]) -> &'a [u8] {
    let len = *view as u32 as usize;
    if len <= INLINE_BYTES {
        return &bytes_of(view)[4..4 + len];
    }
    let (buffer, at) = ((*view >> 64) as u32 as usize, (*view >> 96) as usize);
    &buffers[buffer][at..at + len]
}

/// The bytes of a number in memory order, which on little-endian machines is that of views.
#[inline]
fn bytes_of(view: &u128) -> &[u8; 16] {
    const { assert!(cfg!(target_endian = "little"), "views are little-endian") };
    // SAFETY: 16 initialized bytes of the same allocation and lifetime; bytes need no alignment.
    unsafe { &*std::ptr::from_ref(view).cast::<[u8; 16]>() }
}

impl Texts {
    /// The texts of an Arrow array.
    pub fn of(array: &StringViewArray) -> Texts {
        Texts { views: array.views().clone(), buffers: array.data_buffers().to_vec().into() }
    }

    /// The text of a row.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        view_bytes(&self.views[row], &self.buffers)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }
}

/// Texts by their codes: the distinct texts of a column of a segment, or what a function makes of them.
#[derive(Debug)]
pub struct Dictionary {
    /// The texts.
    pub texts: Texts,
    array: ArrayRef,
    hashes: OnceLock<Vec<u64>>,
    ascends: bool,
}

impl Dictionary {
    /// A dictionary of these texts, of which none is NULL. Several may be equal.
    pub fn new(array: StringViewArray) -> Dictionary {
        Dictionary { texts: Texts::of(&array), array: Arc::new(array), hashes: OnceLock::new(), ascends: false }
    }

    /// A dictionary of texts of which each is greater than the one before.
    pub fn ascending(array: StringViewArray) -> Dictionary {
        Dictionary { ascends: true, ..Dictionary::new(array) }
    }

    /// Whether the texts are in ascending order.
    pub fn ascends(&self) -> bool {
        self.ascends
    }

    /// The texts as an Arrow array.
    pub fn array(&self) -> &ArrayRef {
        &self.array
    }

    /// The hash of each text.
    pub fn hashes(&self) -> &[u64] {
        self.hashes.get_or_init(|| (0..self.texts.len()).map(|code| hash_bytes(self.texts.get(code))).collect())
    }
}

impl Vector {
    /// A vector without NULLs.
    pub fn new(values: Values) -> Vector {
        Vector { values, valid: None }
    }

    /// A vector with NULLs, if there are any.
    pub fn with_nulls(values: Values, valid: Option<NullBuffer>) -> Vector {
        Vector { values, valid: valid.filter(|valid| valid.null_count() > 0) }
    }

    /// Integers without NULLs.
    pub fn ints(values: Vec<i64>) -> Vector {
        Vector::new(Values::Int(values.into()))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Bits(v) => v.len(),
            Values::Int(v) => v.len(),
            Values::Wide(v) => v.len(),
            Values::Float(v) => v.len(),
            Values::Codes(v, _) => v.len(),
            Values::Text(v) => v.len(),
            Values::Arrow(v) => v.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a row is NULL.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.valid.as_ref().is_some_and(|valid| valid.is_null(row))
    }

    /// The bytes in memory. For texts these are the views and codes, because buffers are shared.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Bits(v) => v.len() / 8,
            Values::Int(v) => v.len() * 8,
            Values::Wide(v) => v.len() * 16,
            Values::Float(v) => v.len() * 8,
            Values::Codes(v, _) => v.len() * 4,
            Values::Text(v) => v.len() * 16,
            Values::Arrow(v) => v.get_array_memory_size(),
        };
        values + self.valid.as_ref().map_or(0, |valid| valid.len() / 8)
    }

    /// The integers.
    ///
    /// # Panics
    /// The vector has another form: a bug of the compiler of queries.
    #[inline]
    pub fn as_ints(&self) -> &[i64] {
        match &self.values {
            Values::Int(v) => v,
            other => unreachable!("integers were compiled, not {other:?}"),
        }
    }

    /// The booleans.
    ///
    /// # Panics
    /// As for [`Vector::as_ints`].
    pub fn as_bits(&self) -> &BooleanBuffer {
        match &self.values {
            Values::Bits(v) => v,
            other => unreachable!("booleans were compiled, not {other:?}"),
        }
    }

    /// The floats.
    ///
    /// # Panics
    /// As for [`Vector::as_ints`].
    pub fn as_floats(&self) -> &[f64] {
        match &self.values {
            Values::Float(v) => v,
            other => unreachable!("floats were compiled, not {other:?}"),
        }
    }

    /// The 128-bit integers.
    ///
    /// # Panics
    /// As for [`Vector::as_ints`].
    pub fn as_wide(&self) -> &[i128] {
        match &self.values {
            Values::Wide(v) => v,
            other => unreachable!("wide integers were compiled, not {other:?}"),
        }
    }

    /// The texts as views: those of a dictionary are looked up.
    ///
    /// # Panics
    /// As for [`Vector::as_ints`].
    pub fn to_texts(&self) -> Texts {
        match &self.values {
            Values::Text(v) => v.clone(),
            Values::Codes(codes, dictionary) => {
                let entries = &dictionary.texts.views;
                // NULL rows may have any code.
                let views: Vec<u128> =
                    codes.iter().map(|code| entries.get(*code as usize).copied().unwrap_or(0)).collect();
                Texts { views: views.into(), buffers: dictionary.texts.buffers.clone() }
            }
            other => unreachable!("texts were compiled, not {other:?}"),
        }
    }

    /// The text of a row.
    ///
    /// # Panics
    /// As for [`Vector::as_ints`].
    #[inline]
    pub fn text(&self, row: usize) -> &[u8] {
        match &self.values {
            Values::Text(v) => v.get(row),
            Values::Codes(codes, dictionary) => dictionary.texts.get(codes[row] as usize),
            other => unreachable!("texts were compiled, not {other:?}"),
        }
    }

    /// The rows at `rows`, in that order.
    pub fn take(&self, rows: &[u32]) -> Vector {
        let valid = self.valid.as_ref().map(|valid| NullBuffer::new(take_bits(valid.inner(), rows)));
        fn pick<T: Copy>(values: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|row| values[*row as usize]).collect()
        }
        let values = match &self.values {
            Values::Bits(v) => Values::Bits(take_bits(v, rows)),
            Values::Int(v) => Values::Int(pick(v, rows).into()),
            Values::Wide(v) => Values::Wide(pick(v, rows).into()),
            Values::Float(v) => Values::Float(pick(v, rows).into()),
            Values::Codes(v, dictionary) => Values::Codes(pick(v, rows).into(), dictionary.clone()),
            Values::Text(v) => Values::Text(Texts { views: pick(&v.views, rows).into(), buffers: v.buffers.clone() }),
            Values::Arrow(v) => {
                let rows = arrow_array::UInt32Array::from(rows.to_vec());
                Values::Arrow(arrow_select::take::take(v, &rows, None).expect("rows of the array"))
            }
        };
        Vector::with_nulls(values, valid)
    }

    /// Rows `from .. from + len`, without copying.
    pub fn slice(&self, from: usize, len: usize) -> Vector {
        let values = match &self.values {
            Values::Bits(v) => Values::Bits(v.slice(from, len)),
            Values::Int(v) => Values::Int(v.slice(from, len)),
            Values::Wide(v) => Values::Wide(v.slice(from, len)),
            Values::Float(v) => Values::Float(v.slice(from, len)),
            Values::Codes(v, dictionary) => Values::Codes(v.slice(from, len), dictionary.clone()),
            Values::Text(v) => Values::Text(Texts { views: v.views.slice(from, len), buffers: v.buffers.clone() }),
            Values::Arrow(v) => Values::Arrow(v.slice(from, len)),
        };
        Vector::with_nulls(values, self.valid.as_ref().map(|valid| valid.slice(from, len)))
    }

    /// A vector of `rows` NULLs in a form.
    pub fn nulls(form: Form, rows: usize, data_type: &arrow_schema::DataType) -> Vector {
        let values = match form {
            Form::Bits => Values::Bits(BooleanBuffer::new_unset(rows)),
            Form::Int => Values::Int(vec![0; rows].into()),
            Form::Wide => Values::Wide(vec![0; rows].into()),
            Form::Float => Values::Float(vec![0.0; rows].into()),
            Form::Text => Values::Text(Texts { views: vec![0; rows].into(), buffers: Arc::new([]) }),
            Form::Arrow => Values::Arrow(arrow_array::new_null_array(data_type, rows)),
        };
        Vector { values, valid: Some(NullBuffer::new_null(rows)) }
    }
}

/// The bits at `rows`.
pub fn take_bits(bits: &BooleanBuffer, rows: &[u32]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(rows.len(), |at| bits.value(rows[at] as usize))
}

/// The positions of the set bits, ascending.
pub fn positions(bits: &BooleanBuffer) -> Vec<u32> {
    bits.set_indices().map(|row| row as u32).collect()
}

/// A batch: as many rows of each column.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The number of rows.
    pub rows: usize,
    /// The columns.
    pub columns: Vec<Vector>,
}

impl Batch {
    /// The rows at `rows`, in that order.
    pub fn take(&self, rows: &[u32]) -> Batch {
        Batch { rows: rows.len(), columns: self.columns.iter().map(|column| column.take(rows)).collect() }
    }

    /// Rows `from .. from + len`, without copying.
    pub fn slice(&self, from: usize, len: usize) -> Batch {
        Batch { rows: len, columns: self.columns.iter().map(|column| column.slice(from, len)).collect() }
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(Vector::bytes).sum()
    }

    /// The same with the bytes of texts, which are kept as long as the batch is.
    pub fn bytes_with_texts(&self) -> usize {
        let texts = self.columns.iter().filter_map(|column| match &column.values {
            Values::Text(texts) => Some((0..texts.len()).map(|row| texts.get(row).len()).sum::<usize>()),
            _ => None,
        });
        self.bytes() + texts.sum::<usize>()
    }
}
