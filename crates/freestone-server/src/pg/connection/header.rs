//! The header of a client's data for COPY, which is left out, and may have to name the columns.

use crate::pg::error::PgError;
use crate::pg::utility::CopyHeader;
use crate::sqlstate;

/// What is known of the header of data that is read.
#[derive(Debug)]
pub struct Header {
    kind: CopyHeader,
    /// The names that it must have.
    names: Vec<String>,
    is_read: bool,
}

impl Header {
    pub fn new(kind: CopyHeader, names: &[&str]) -> Header {
        Header { kind, names: names.iter().map(|name| (*name).to_owned()).collect(), is_read: false }
    }

    /// Whether the next record is the header.
    pub fn takes(&mut self) -> bool {
        !std::mem::replace(&mut self.is_read, true) && self.kind != CopyHeader::None
    }

    /// Compares the fields of the header with the columns, if it has to.
    pub fn check<'a>(&self, fields: impl Iterator<Item = &'a [u8]>) -> Result<(), PgError> {
        if self.kind != CopyHeader::Compared {
            return Ok(());
        }
        let fields: Vec<&[u8]> = fields.collect();
        let wrong = |message: String| Err(PgError::new(sqlstate::BAD_COPY_FILE_FORMAT, message));
        if fields.len() != self.names.len() {
            return wrong(format!("the header has {} fields, expected {}", fields.len(), self.names.len()));
        }
        for ((field, name), at) in fields.iter().zip(&self.names).zip(1..) {
            if *field != name.as_bytes() {
                let found = String::from_utf8_lossy(field);
                return wrong(format!("field {at} of the header is \"{found}\", expected \"{name}\""));
            }
        }
        Ok(())
    }
}
