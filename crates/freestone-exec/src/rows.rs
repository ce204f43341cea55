//! Rows of 64-bit words: keys of groups, rows of the build side of joins, rows to be sorted.
//!
//! ```text
//! row    null words | fields, one or two words each
//! null   one bit per nullable field, set if it is NULL; the words of a NULL field are zero
//! Bits, Int, Float   one word; floats as their key, or as their bits where only the value counts
//! Wide   two words, the low one first
//! Text   an Arrow view as two words; long texts are in the rows' arena
//! Arrow  one word: the number of the array, and the row in it
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_schema::DataType;

use crate::error::{ExecError, Result};
use crate::hash::{float_key, hash_rows};
use crate::vector::{Dictionary, Form, INLINE_BYTES, Texts, Values, Vector, view_bytes};

/// A column of rows.
#[derive(Debug, Clone)]
pub struct Field {
    /// The form of its vectors.
    pub form: Form,
    /// The type of its values, for arrays of [`Form::Arrow`].
    pub data_type: DataType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// Whether equal values have equal words: floats are stored as their keys.
    pub is_key: bool,
}

#[derive(Debug, Clone)]
struct Place {
    form: Form,
    data_type: DataType,
    at: usize,
    is_key: bool,
    /// The bit among the null words.
    null: Option<usize>,
}

/// Where the fields of a row are.
#[derive(Debug)]
pub struct Layout {
    places: Vec<Place>,
    width: usize,
    has_texts: bool,
}

impl Layout {
    /// The layout of rows with these fields. Words of a row that the caller uses come first.
    pub fn new(fields: &[Field], reserved: usize) -> Layout {
        let nullable = fields.iter().filter(|field| field.nullable).count();
        let (mut at, mut null) = (reserved + nullable.div_ceil(64), 0);
        let places = fields.iter().map(|field| {
            let place = Place {
                form: field.form,
                data_type: field.data_type.clone(),
                at,
                is_key: field.is_key,
                null: field.nullable.then_some(reserved * 64 + null),
            };
            at += if matches!(field.form, Form::Wide | Form::Text) { 2 } else { 1 };
            null += usize::from(field.nullable);
            place
        });
        let places: Vec<Place> = places.collect();
        let has_texts = fields.iter().any(|field| field.form == Form::Text);
        Layout { places, width: at, has_texts }
    }

    /// The words of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether equal rows have equal words.
    pub fn is_flat(&self) -> bool {
        self.places.iter().all(|place| !matches!(place.form, Form::Text | Form::Arrow))
    }

    /// The first word of a field in its row.
    pub fn word_of(&self, index: usize) -> usize {
        self.places[index].at
    }
}

/// Texts of rows: blocks of bytes, named by views. The first blocks are those of others, which rows only refer to.
#[derive(Debug, Default)]
pub struct Arena {
    shared: Vec<Buffer>,
    blocks: Vec<Vec<u8>>,
    /// The bytes in blocks that are closed.
    bytes: usize,
}

const BLOCK_BYTES_MIN: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;

impl Arena {
    /// The view of a copy of `text`.
    #[inline]
    fn keep(&mut self, view: u128, text: &[u8]) -> u128 {
        if text.len() <= INLINE_BYTES {
            return view;
        }
        let has_room = self.blocks.last().is_some_and(|block| block.capacity() - block.len() >= text.len());
        if !has_room {
            let bytes = (self.bytes / 4).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(text.len());
            self.bytes += bytes;
            self.blocks.push(Vec::with_capacity(bytes));
        }
        let block = self.blocks.len() - 1;
        let into = &mut self.blocks[block];
        let at = into.len();
        into.extend_from_slice(text);
        view & u128::from(u64::MAX) | ((self.shared.len() + block) as u128) << 64 | (at as u128) << 96
    }

    /// Refers to these blocks, and returns what is to be added to the views that name them.
    fn share(&mut self, buffers: &[Buffer]) -> u128 {
        debug_assert!(self.blocks.is_empty(), "own blocks come last");
        let before = self.shared.len();
        self.shared.extend_from_slice(buffers);
        (before as u128) << 64
    }

    #[inline]
    fn get<'a>(&'a self, view: &'a u128) -> &'a [u8] {
        let (block, at) = ((*view >> 64) as u32 as usize, (*view >> 96) as usize);
        let bytes: &[u8] = match self.shared.get(block) {
            Some(shared) => shared,
            None => &self.blocks[block - self.shared.len()],
        };
        &bytes[at..at + *view as u32 as usize]
    }

    /// The blocks, to which views of rows refer.
    fn into_buffers(self) -> Vec<Buffer> {
        self.shared.into_iter().chain(self.blocks.into_iter().map(Buffer::from_vec)).collect()
    }
}

/// How a row of a column compares with one value.
type Compare<'a> = Box<dyn Fn(usize) -> std::cmp::Ordering + 'a>;

/// The texts of a dictionary as views of an arena, each once it was needed.
#[derive(Debug)]
struct Kept {
    dictionary: Arc<Dictionary>,
    /// Zero: not yet. The empty text is zero, too, and costs nothing.
    views: Vec<u128>,
}

/// Rows with their texts.
#[derive(Debug)]
pub struct Rows {
    layout: Arc<Layout>,
    words: Vec<u64>,
    arena: Arena,
    kept: Vec<Kept>,
    arrays: Vec<ArrayRef>,
    len: usize,
    /// Whether texts stay where they are.
    borrows: bool,
}

impl Rows {
    /// No rows.
    pub fn new(layout: Arc<Layout>) -> Rows {
        Rows { layout, words: vec![], arena: Arena::default(), kept: vec![], arrays: vec![], len: 0, borrows: false }
    }

    /// No rows. Texts of those that are added are not copied.
    pub fn borrowing(layout: Arc<Layout>) -> Rows {
        Rows { borrows: true, ..Rows::new(layout) }
    }

    /// Lets rows of several parts refer to one list of blocks, which is returned: a row of one part may be added to
    /// [`Rows::borrowing`] rows that share the list, together with rows of others.
    pub fn share_texts<'a>(parts: impl Iterator<Item = &'a mut Rows>) -> Vec<Buffer> {
        let (mut parts, mut all): (Vec<&mut Rows>, Vec<Buffer>) = (parts.collect(), vec![]);
        for part in &mut parts {
            let (layout, before) = (part.layout.clone(), all.len() as u64);
            all.extend(std::mem::take(&mut part.arena).into_buffers());
            if before > 0 && layout.has_texts {
                part.words.chunks_exact_mut(layout.width).for_each(|row| rebase(&layout, row, before, 0));
            }
        }
        parts.into_iter().for_each(|part| part.arena.shared = all.clone());
        all
    }

    /// Refers to the blocks of [`Rows::share_texts`].
    pub fn with_texts(mut self, shared: Vec<Buffer>) -> Rows {
        self.arena.shared = shared;
        self
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        let kept: usize = self.kept.iter().map(|kept| kept.views.len() * 16).sum();
        let arrays: usize = self.arrays.iter().map(|array| array.get_array_memory_size()).sum();
        self.words.capacity() * 8 + self.arena.bytes + kept + arrays
    }

    /// The words of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.layout.width..(row + 1) * self.layout.width]
    }

    /// The words of a row, to be changed.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.words[row * self.layout.width..(row + 1) * self.layout.width]
    }

    /// All rows, of which each has `WIDTH` words.
    #[inline]
    pub fn words<const WIDTH: usize>(&self) -> &[[u64; WIDTH]] {
        debug_assert_eq!(self.layout.width, WIDTH, "the width of the rows");
        self.words.as_chunks().0
    }

    /// Appends a row of a layout that is flat.
    #[inline]
    pub fn push_words<const WIDTH: usize>(&mut self, row: &[u64; WIDTH]) {
        self.words.extend_from_slice(row);
        self.len += 1;
    }

    /// Makes room for this number of rows in all.
    pub fn reserve(&mut self, rows: usize) {
        self.words.reserve_exact((rows * self.layout.width).saturating_sub(self.words.len()));
    }

    /// Appends all rows of columns in the order of the fields.
    pub fn append(&mut self, columns: &[Vector], rows: usize) {
        let layout = self.layout.clone();
        let base = self.words.len();
        self.words.resize(base + rows * layout.width, 0);
        for (place, column) in layout.places.iter().zip(columns) {
            self.append_column(place, column, base);
        }
        self.len += rows;
    }

    /// The same, with the hash of the columns in the first word of each row.
    pub fn append_hashed(&mut self, columns: &[Vector], rows: usize, hashes: &mut Vec<u64>) {
        hash_rows(columns, rows, hashes);
        self.append_with(columns, rows, hashes);
    }

    /// The same with these hashes.
    pub fn append_with(&mut self, columns: &[Vector], rows: usize, hashes: &[u64]) {
        let base = self.words.len();
        self.append(columns, rows);
        put(&mut self.words[base..], self.layout.width, 0, hashes.iter().copied());
    }

    /// The layout of the rows.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn append_column(&mut self, place: &Place, column: &Vector, base: usize) {
        let Rows { layout, words, arena, kept, arrays, borrows, .. } = self;
        let into = &mut words[base..];
        let width = layout.width;
        match &column.values {
            Values::Arrow(array) => {
                let number = (arrays.len() as u64) << 32;
                arrays.push(array.clone());
                put(into, width, place.at, (0..array.len()).map(|row| number | row as u64));
            }
            Values::Text(texts) if *borrows => {
                let base = arena.share(&texts.buffers);
                put_wide(into, width, place.at, texts.views.iter().map(|view| rebased(*view, base)));
            }
            Values::Codes(codes, dictionary) if *borrows => {
                let base = arena.share(&dictionary.texts.buffers);
                let views = &dictionary.texts.views;
                // NULL rows may have any code.
                let view = |code: &u32| views.get(*code as usize).map_or(0, |view| rebased(*view, base));
                put_wide(into, width, place.at, codes.iter().map(view));
            }
            Values::Text(texts) => {
                let views = texts.views.iter().map(|view| arena.keep(*view, view_bytes(view, &texts.buffers)));
                put_wide(into, width, place.at, views);
            }
            Values::Codes(codes, dictionary) => {
                let views = kept_views(kept, dictionary);
                let entries = &dictionary.texts;
                let view = |code: &u32| {
                    // NULL rows may have any code.
                    let Some(view) = views.get_mut(*code as usize) else { return 0 };
                    if *view == 0 {
                        *view = arena.keep(entries.views[*code as usize], entries.get(*code as usize));
                    }
                    *view
                };
                put_wide(into, width, place.at, codes.iter().map(view));
            }
            plain => put_plain(into, width, place, plain),
        }
        if let Some(valid) = &column.valid {
            let null = place.null.expect("a column that has NULLs may have them");
            let words = if matches!(place.form, Form::Wide | Form::Text) { 2 } else { 1 };
            for row in (!valid.inner()).set_indices() {
                let row = &mut into[row * width..(row + 1) * width];
                row[null / 64] |= 1 << (null % 64);
                row[place.at..place.at + words].fill(0);
            }
        }
    }

    /// Forgets all rows, but not the memory.
    pub fn clear(&mut self) {
        self.words.clear();
        self.arena = Arena::default();
        self.kept.clear();
        self.arrays.clear();
        self.len = 0;
    }

    /// Loads long texts of some rows into the caches, from which they are soon compared.
    #[inline]
    pub fn load_texts(&self, rows: impl Iterator<Item = usize>) {
        let Rows { layout, arena, .. } = self;
        if !layout.has_texts {
            return;
        }
        let mut loaded = 0u8;
        for row in rows {
            for place in layout.places.iter().filter(|place| place.form == Form::Text) {
                let view = wide(self.row(row), place.at);
                if view as u32 as usize > INLINE_BYTES {
                    let text = arena.get(&view);
                    loaded |= text[0] | text[text.len() - 1];
                }
            }
        }
        std::hint::black_box(loaded);
    }

    /// The same rows in another order, which has each of them.
    pub fn reordered(self, order: &[u32]) -> Rows {
        debug_assert_eq!(order.len(), self.len, "each row has a place");
        let mut words = Vec::with_capacity(self.words.len());
        order.iter().for_each(|row| words.extend_from_slice(self.row(*row as usize)));
        Rows { words, ..self }
    }

    /// Appends a row of `other`, which has the same layout and no fields of [`Form::Arrow`]. Rows that borrow have the blocks
    /// of `other`.
    #[inline]
    pub fn push(&mut self, other: &Rows, row: usize) {
        let base = self.words.len();
        self.words.extend_from_slice(other.row(row));
        if self.layout.has_texts && !self.borrows {
            self.keep_texts(base, &other.arena);
        }
        self.len += 1;
    }

    fn keep_texts(&mut self, base: usize, from: &Arena) {
        let Rows { layout, words, arena, .. } = self;
        let row = &mut words[base..base + layout.width];
        for place in layout.places.iter().filter(|place| place.form == Form::Text) {
            let view = wide(row, place.at);
            if view as u32 as usize > INLINE_BYTES {
                let kept = arena.keep(view, from.get(&view));
                (row[place.at], row[place.at + 1]) = (kept as u64, (kept >> 64) as u64);
            }
        }
    }

    /// Whether a field of a row is NULL.
    #[inline]
    pub fn is_null(&self, row: usize, index: usize) -> bool {
        let null = self.layout.places[index].null;
        null.is_some_and(|null| self.row(row)[null / 64] >> (null % 64) & 1 == 1)
    }

    /// How rows of a column compare with a field of one of these rows, neither of them NULL; `None` where the order of values is
    /// not that of their words or bytes.
    pub fn compare<'a>(&'a self, row: usize, index: usize, column: &'a Vector) -> Option<Compare<'a>> {
        let at = self.layout.places[index].at;
        match &column.values {
            Values::Int(values) => {
                let bound = self.row(row)[at] as i64;
                Some(Box::new(move |row| values[row].cmp(&bound)))
            }
            Values::Wide(values) => {
                let bound = wide(self.row(row), at) as i128;
                Some(Box::new(move |row| values[row].cmp(&bound)))
            }
            Values::Text(_) | Values::Codes(..) => {
                let view = wide(self.row(row), at);
                let is_short = view as u32 as usize <= INLINE_BYTES;
                let bound = if is_short { view_bytes(&view, &[]) } else { self.arena.get(&view) }.to_vec();
                Some(Box::new(move |row| column.text(row).cmp(&bound)))
            }
            Values::Bits(_) | Values::Float(_) | Values::Arrow(_) => None,
        }
    }

    /// Whether a row equals a row of `other`, which has the same layout, in the words from `from` on.
    #[inline]
    pub fn equals(&self, row: usize, other: &Rows, at: usize, from: usize) -> bool {
        let (a, b) = (self.row(row), other.row(at));
        if self.layout.has_texts {
            return self.equals_texts(a, other, b, from);
        }
        same_words(&a[from..], &b[from..])
    }

    fn equals_texts(&self, a: &[u64], other: &Rows, b: &[u64], from: usize) -> bool {
        let first = self.layout.places.first().map_or(a.len(), |place| place.at);
        if first > from && !same_words(&a[from..first], &b[from..first]) {
            return false;
        }
        self.layout.places.iter().all(|place| match place.form {
            Form::Text => {
                let (x, y) = (wide(a, place.at), wide(b, place.at));
                if x as u64 != y as u64 {
                    return false;
                }
                if x as u32 as usize <= INLINE_BYTES { x == y } else { self.arena.get(&x) == other.arena.get(&y) }
            }
            Form::Wide => wide(a, place.at) == wide(b, place.at),
            _ => a[place.at] == b[place.at],
        })
    }

    /// Keeps the rows at `which`, in that order.
    pub fn retain(&mut self, which: impl Iterator<Item = u32>) {
        let mut kept = Rows::new(self.layout.clone());
        which.for_each(|row| kept.push(self, row as usize));
        kept.arrays = std::mem::take(&mut self.arrays);
        *self = kept;
    }

    /// No more rows are added: they can be read as vectors.
    pub fn freeze(self) -> FrozenRows {
        let buffers = self.arena.into_buffers().into();
        // A part that has all rows.
        let bits = u32::BITS;
        FrozenRows { layout: self.layout, parts: vec![self.words], bits, buffers, arrays: self.arrays, len: self.len }
    }
}

/// Rows in parts of at most [`FrozenRows::PART_ROWS`], which grow without being moved. All parts but the last one are full.
#[derive(Debug)]
pub struct RowParts {
    layout: Arc<Layout>,
    parts: Vec<Rows>,
    /// The bytes of the parts that are full.
    full_bytes: usize,
}

impl RowParts {
    /// No rows.
    pub fn new(layout: Arc<Layout>) -> RowParts {
        RowParts { layout, parts: vec![], full_bytes: 0 }
    }

    /// Appends all rows of columns in the order of the fields. `appended` is called with each part that has new rows, the
    /// first of them in the part, and their positions in the columns.
    pub fn append(
        &mut self,
        columns: &[Vector],
        rows: usize,
        mut appended: impl FnMut(&mut Rows, usize, Range<usize>),
    ) {
        let mut from = 0;
        while from < rows {
            if self.parts.last().is_none_or(|part| part.len() == FrozenRows::PART_ROWS) {
                self.full_bytes += self.parts.last().map_or(0, Rows::bytes);
                let mut part = Rows::new(self.layout.clone());
                // A second part says that there will be more.
                if !self.parts.is_empty() {
                    part.reserve(FrozenRows::PART_ROWS);
                }
                self.parts.push(part);
            }
            let Some(part) = self.parts.last_mut() else { return };
            let first = part.len();
            let some = (rows - from).min(FrozenRows::PART_ROWS - first);
            if some == rows {
                part.append(columns, rows);
            } else {
                let columns: Vec<Vector> = columns.iter().map(|column| column.slice(from, some)).collect();
                part.append(&columns, some);
            }
            appended(part, first, from..from + some);
            from += some;
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.parts.last().map_or(0, |last| (self.parts.len() - 1) * FrozenRows::PART_ROWS + last.len())
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The number of parts.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        self.full_bytes + self.parts.last().map_or(0, Rows::bytes)
    }

    /// The parts.
    pub fn into_parts(self) -> Vec<Rows> {
        self.parts
    }
}

/// Rows that are read as vectors. A row's number has its part in its high bits, and its place in the part in the others.
#[derive(Debug)]
pub struct FrozenRows {
    layout: Arc<Layout>,
    parts: Vec<Vec<u64>>,
    /// The bits of a row's number that are its place.
    bits: u32,
    buffers: Arc<[Buffer]>,
    arrays: Vec<ArrayRef>,
    len: usize,
}

impl FrozenRows {
    const PART_BITS: u32 = 16;
    /// The rows of a part of [`FrozenRows::joined`], at most.
    pub const PART_ROWS: usize = 1 << FrozenRows::PART_BITS;

    /// So many parts of rows can be numbered.
    const PARTS_MAX: usize = u16::MAX as usize;

    /// Rows of several parts, which stay where they are. Each has at most [`FrozenRows::PART_ROWS`].
    ///
    /// # Errors
    /// There are more rows than can be numbered.
    pub fn joined(layout: Arc<Layout>, parts: Vec<Rows>) -> Result<Self> {
        if parts.len() > FrozenRows::PARTS_MAX {
            return Err(ExecError::foreign("a part of a query has more rows than can be numbered in 32 bits"));
        }
        let len = parts.iter().map(Rows::len).sum();
        let (mut buffers, mut arrays, mut all) = (vec![], vec![], vec![]);
        for part in parts {
            let (blocks_before, arrays_before) = (buffers.len(), arrays.len());
            let is_plain = part.arena.blocks.is_empty() && part.arrays.is_empty();
            let mut words = part.words;
            if !is_plain && blocks_before + arrays_before > 0 {
                let rows = words.chunks_exact_mut(layout.width.max(1));
                rows.for_each(|row| rebase(&layout, row, blocks_before as u64, arrays_before as u64));
            }
            buffers.extend(part.arena.into_buffers());
            arrays.extend(part.arrays);
            all.push(words);
        }
        Ok(FrozenRows { layout, parts: all, bits: FrozenRows::PART_BITS, buffers: buffers.into(), arrays, len })
    }

    /// Rows of several parts, in an order that gives them as (part, row).
    pub fn ordered(layout: Arc<Layout>, parts: Vec<Rows>, order: &[(u32, u32)]) -> Self {
        let (width, len) = (layout.width, order.len());
        let mut all = vec![];
        let (mut blocks_before, mut arrays_before) = (0, 0);
        for part in &parts {
            all.push((part, blocks_before, arrays_before));
            blocks_before += part.arena.blocks.len() as u64;
            arrays_before += part.arrays.len() as u64;
        }
        let mut words = vec![0; len * width];
        for ((part, row), to) in order.iter().zip(words.chunks_exact_mut(width.max(1))) {
            let (part, blocks, arrays) = all[*part as usize];
            to.copy_from_slice(part.row(*row as usize));
            rebase(&layout, to, blocks, arrays);
        }
        let (mut buffers, mut arrays) = (vec![], vec![]);
        for part in parts {
            buffers.extend(part.arena.into_buffers());
            arrays.extend(part.arrays);
        }
        FrozenRows { layout, parts: vec![words], bits: u32::BITS, buffers: buffers.into(), arrays, len }
    }

    /// A copy of the rows with these numbers, in that order.
    pub fn in_order(&self, numbers: &[u32]) -> FrozenRows {
        let part = |numbers: &[u32]| {
            let mut words = Vec::with_capacity(numbers.len() * self.layout.width);
            numbers.iter().for_each(|number| words.extend_from_slice(self.row(*number as usize)));
            words
        };
        FrozenRows {
            layout: self.layout.clone(),
            parts: numbers.chunks(FrozenRows::PART_ROWS).map(part).collect(),
            bits: FrozenRows::PART_BITS,
            buffers: self.buffers.clone(),
            arrays: self.arrays.clone(),
            len: numbers.len(),
        }
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Behind the number of the last row. Not all numbers before it are rows.
    pub fn end(&self) -> usize {
        self.parts.len() << self.bits
    }

    /// The rows of a part, with their numbers.
    pub fn part_rows(&self, part: usize) -> impl DoubleEndedIterator<Item = (u32, &[u64])> {
        let first = (part as u64) << self.bits;
        let rows = self.parts[part].chunks_exact(self.layout.width.max(1)).enumerate();
        rows.map(move |(row, words)| ((first + row as u64) as u32, words))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes in memory.
    pub fn bytes(&self) -> usize {
        let words: usize = self.parts.iter().map(Vec::capacity).sum();
        words * 8 + self.buffers.iter().map(Buffer::capacity).sum::<usize>()
    }

    /// The words of a row.
    #[inline]
    pub fn row(&self, row: usize) -> &[u64] {
        let (part, row) = ((row as u64 >> self.bits) as usize, row as u64 & ((1 << self.bits) - 1));
        let from = row as usize * self.layout.width;
        &self.parts[part][from..from + self.layout.width]
    }

    /// The first word of a field of a row.
    pub fn word(&self, row: usize, index: usize) -> u64 {
        self.row(row)[self.layout.places[index].at]
    }

    /// A wide integer of a row.
    pub fn wide(&self, row: usize, index: usize) -> i128 {
        wide(self.row(row), self.layout.places[index].at) as i128
    }

    /// The bytes from `from` on that a text field of two rows shares.
    pub fn shared_bytes(&self, a: u32, b: u32, index: usize, from: usize) -> usize {
        let at = self.layout.places[index].at;
        let (x, y) = (wide(self.row(a as usize), at), wide(self.row(b as usize), at));
        let rest = |view| view_bytes(view, &self.buffers).get(from..).unwrap_or_default();
        rest(&x).iter().zip(rest(&y)).take_while(|(x, y)| x == y).count()
    }

    /// Whether the first `keys` fields of a row equal all fields of a row of `other`, whose layout has only these, with
    /// the same reserved words, `from` of them.
    #[inline]
    pub fn equals_key(&self, row: usize, other: &Rows, at: usize, keys: usize, from: usize) -> bool {
        let (a, b) = (self.row(row), other.row(at));
        let (ours, theirs) = (&self.layout.places[..keys], &other.layout.places);
        ours.iter().zip(theirs).all(|(x, y)| {
            let is_null = |words: &[u64], place: &Place| place.null.is_some_and(|n| words[n / 64] >> (n % 64) & 1 == 1);
            debug_assert!(x.at >= from && y.at >= from);
            if is_null(a, x) != is_null(b, y) {
                return false;
            }
            match x.form {
                Form::Text => {
                    let (v, w) = (wide(a, x.at), wide(b, y.at));
                    if v as u64 != w as u64 {
                        return false;
                    }
                    let is_long = v as u32 as usize > INLINE_BYTES;
                    if is_long { view_bytes(&v, &self.buffers) == other.arena.get(&w) } else { v == w }
                }
                Form::Wide => a[x.at..x.at + 2] == b[y.at..y.at + 2],
                _ => a[x.at] == b[y.at],
            }
        })
    }

    /// Whether a field of a row is NULL.
    #[inline]
    pub fn is_null(&self, row: usize, index: usize) -> bool {
        self.layout.places[index].null.is_some_and(|null| self.row(row)[null / 64] >> (null % 64) & 1 == 1)
    }

    /// The order of a text field of two rows, by bytes. NULL is the empty text.
    pub fn compare_texts(&self, a: u32, b: u32, index: usize) -> std::cmp::Ordering {
        let at = self.layout.places[index].at;
        let (x, y) = (wide(self.row(a as usize), at), wide(self.row(b as usize), at));
        view_bytes(&x, &self.buffers).cmp(view_bytes(&y, &self.buffers))
    }

    /// A field of the rows at `rows`.
    pub fn vector(&self, index: usize, rows: &[u32]) -> Vector {
        let place = &self.layout.places[index];
        let word = |row: &u32| self.row(*row as usize)[place.at];
        let both = |row: &u32| wide(self.row(*row as usize), place.at);
        let values = match place.form {
            Form::Bits => Values::Bits(BooleanBuffer::collect_bool(rows.len(), |at| word(&rows[at]) != 0)),
            Form::Int => Values::Int(rows.iter().map(|row| word(row) as i64).collect::<Vec<_>>().into()),
            Form::Float => Values::Float(rows.iter().map(|row| f64::from_bits(word(row))).collect::<Vec<_>>().into()),
            Form::Wide => Values::Wide(rows.iter().map(|row| both(row) as i128).collect::<Vec<_>>().into()),
            Form::Text => {
                let views = rows.iter().map(both).collect::<Vec<_>>();
                Values::Text(Texts { views: views.into(), buffers: self.buffers.clone() })
            }
            Form::Arrow => Values::Arrow(self.interleaved(place, rows)),
        };
        let valid = place.null.map(|null| {
            let is_null = |row: usize| self.row(row)[null / 64] >> (null % 64) & 1 == 1;
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |at| !is_null(rows[at] as usize)))
        });
        Vector::with_nulls(values, valid)
    }

    fn interleaved(&self, place: &Place, rows: &[u32]) -> ArrayRef {
        if rows.is_empty() {
            return arrow_array::new_empty_array(&place.data_type);
        }
        // A NULL row is array 0, row 0, of any column; its value is hidden by the row's NULL bit.
        let none = arrow_array::new_null_array(&place.data_type, 1);
        let mut arrays: Vec<&dyn arrow_array::Array> = vec![none.as_ref()];
        let mut numbers = std::collections::HashMap::new();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let is_null = place.null.is_some_and(|null| self.row(*row as usize)[null / 64] >> (null % 64) & 1 == 1);
            if is_null {
                places.push((0, 0));
                continue;
            }
            let word = self.row(*row as usize)[place.at];
            let number = *numbers.entry(word >> 32).or_insert_with(|| {
                arrays.push(self.arrays[(word >> 32) as usize].as_ref());
                arrays.len() - 1
            });
            places.push((number, word as u32 as usize));
        }
        arrow_select::interleave::interleave(&arrays, &places).expect("arrays of one type")
    }
}

/// Whether a few words are equal. A call to compare memory takes longer.
#[inline]
fn same_words(a: &[u64], b: &[u64]) -> bool {
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// The two words at a position as one number.
#[inline]
fn wide(row: &[u64], at: usize) -> u128 {
    u128::from(row[at]) | u128::from(row[at + 1]) << 64
}

/// A view of a block whose number has grown.
#[inline]
fn rebased(view: u128, base: u128) -> u128 {
    if view as u32 as usize > INLINE_BYTES { view + base } else { view }
}

fn rebase(layout: &Layout, row: &mut [u64], blocks: u64, arrays: u64) {
    for place in &layout.places {
        match place.form {
            Form::Text if row[place.at] as u32 as usize > INLINE_BYTES => row[place.at + 1] += blocks,
            Form::Arrow => row[place.at] += arrays << 32,
            _ => {}
        }
    }
}

fn kept_views<'a>(kept: &'a mut Vec<Kept>, dictionary: &Arc<Dictionary>) -> &'a mut [u128] {
    let known = kept.iter().rposition(|kept| Arc::ptr_eq(&kept.dictionary, dictionary));
    let at = known.unwrap_or_else(|| {
        kept.push(Kept { dictionary: dictionary.clone(), views: vec![0; dictionary.texts.len()] });
        kept.len() - 1
    });
    &mut kept[at].views
}

#[inline]
fn put(into: &mut [u64], width: usize, at: usize, words: impl Iterator<Item = u64>) {
    into.chunks_exact_mut(width).zip(words).for_each(|(row, word)| row[at] = word);
}

#[inline]
fn put_wide(into: &mut [u64], width: usize, at: usize, values: impl Iterator<Item = u128>) {
    for (row, value) in into.chunks_exact_mut(width).zip(values) {
        row[at] = value as u64;
        row[at + 1] = (value >> 64) as u64;
    }
}

fn put_plain(into: &mut [u64], width: usize, place: &Place, values: &Values) {
    let at = place.at;
    match values {
        Values::Bits(v) => put(into, width, at, v.iter().map(u64::from)),
        Values::Int(v) => put(into, width, at, v.iter().map(|x| *x as u64)),
        Values::Float(v) if place.is_key => put(into, width, at, v.iter().map(|x| float_key(*x))),
        Values::Float(v) => put(into, width, at, v.iter().map(|x| x.to_bits())),
        Values::Wide(v) => put_wide(into, width, at, v.iter().map(|x| *x as u128)),
        Values::Codes(..) | Values::Text(_) | Values::Arrow(_) => unreachable!("not a plain form"),
    }
}
