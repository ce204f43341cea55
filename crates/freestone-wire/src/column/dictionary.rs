//! The dictionary of a string column of a result. Entries are sent once; later chunks add new ones.
//!
//! ```text
//! Entries, in a `Shared` message, added to the earlier ones:   count u32 | lengths, u32 each | the strings
//! The piece's body:                                            a chunk of integers, the codes, with the NULLs
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use freestone_codec::{Distinct, Views};

use super::strings::string_array;
use crate::error::Result;
use crate::frame::{Field, Fields};

/// The maximum number of entries and their bytes. A column with more is sent in another form.
const ENTRIES_MAX: usize = 1 << 16;
const BYTES_MAX: usize = 1 << 20;

/// The sender's side: strings and their codes, in order of first appearance.
#[derive(Debug, Default)]
pub struct Codes {
    codes: HashMap<Box<[u8]>, u32>,
    entries: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Codes {
    /// The codes of a string column, 0 for NULL. `None` if there are too many distinct strings.
    pub fn encode(&mut self, array: &ArrayRef) -> Option<Vec<i64>> {
        match array.data_type() {
            DataType::BinaryView => self.codes_of(array.as_binary_view()),
            DataType::Utf8View => self.codes_of(&array.as_string_view().clone().to_binary_view()),
            _ => None,
        }
    }

    /// Looks up each distinct view once, if rows share views, as those of stored dictionaries do.
    fn codes_of(&mut self, array: &BinaryViewArray) -> Option<Vec<i64>> {
        let mut code = |row| match array.is_null(row) {
            true => Some(0),
            false => self.code(array.value(row)).map(i64::from),
        };
        match Distinct::of(array.views(), |row| array.is_valid(row), array.len() / 8) {
            Some(distinct) => {
                let codes: Vec<i64> = distinct.rows.iter().map(|row| code(*row as usize)).collect::<Option<_>>()?;
                Some(distinct.codes.iter().map(|distinct| codes[*distinct as usize]).collect())
            }
            None => (0..array.len()).map(code).collect(),
        }
    }

    fn code(&mut self, text: &[u8]) -> Option<u32> {
        if let Some(code) = self.codes.get(text) {
            return Some(*code);
        }
        if self.entries.len() == ENTRIES_MAX || self.bytes + text.len() > BYTES_MAX {
            return None;
        }
        let code = self.entries.len() as u32;
        self.bytes += text.len();
        self.entries.push(text.into());
        self.codes.insert(text.into(), code);
        Some(code)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Appends the entries `from .. to` in the form of a message.
    pub fn put(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let entries = &self.entries[from..to];
        (entries.len() as u32).put(out);
        entries.iter().for_each(|entry| (entry.len() as u32).put(out));
        entries.iter().for_each(|entry| out.extend_from_slice(entry));
    }
}

/// The receiver's side.
#[derive(Debug, Clone)]
pub struct Entries {
    views: Arc<Vec<u128>>,
    buffers: Vec<Buffer>,
    is_ascii: bool,
}

impl Default for Entries {
    fn default() -> Self {
        Self { views: Arc::default(), buffers: vec![], is_ascii: true }
    }
}

impl Entries {
    /// Adds the entries of a message.
    pub fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let mut fields = Fields::new("dictionary", bytes);
        let lengths: Vec<u32> = Field::take(&mut fields)?;
        let total: usize = lengths.iter().map(|len| *len as usize).sum();
        let data = fields.bytes(total)?;
        let buffer = self.buffers.len() as u32;
        let views = Arc::make_mut(&mut self.views);
        let mut at = 0;
        for len in lengths {
            views.push(Views::view(&data[at..at + len as usize], buffer, at as u32));
            at += len as usize;
        }
        self.is_ascii &= data.is_ascii();
        self.buffers.push(Buffer::from(data));
        Ok(())
    }

    /// The column with these codes.
    pub fn decode(
        &self,
        codes: &[u32],
        nulls: Option<arrow::buffer::NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, String> {
        let entries = self.views.len();
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let views = codes.iter().enumerate().map(|(row, code)| match self.views.get(*code as usize) {
            Some(view) => Ok(*view),
            None if is_null(row) => Ok(0),
            None => Err(format!("code {code} of a dictionary of {entries} entries")),
        });
        string_array(views.collect::<Result<_, _>>()?, self.buffers.clone(), nulls, data_type, self.is_ascii)
    }
}
