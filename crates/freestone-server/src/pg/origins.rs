//! The tables that the columns of results come from, and their numbers.

use arrow::datatypes::Field;

/// The first OID of user objects.
const OID_FIRST: i64 = 20_000;

/// The table of a column of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The OID of the table or view.
    pub table: u32,
    /// The number of the column there, from 1.
    pub column: i16,
}

/// The name under which a field of a result says where it comes from.
const ORIGIN: &str = "postgresql origin";

impl Origin {
    /// That of a field of a result.
    pub fn of_field(field: &Field) -> Option<Origin> {
        let (table, column) = field.metadata().get(ORIGIN)?.split_once(' ')?;
        Some(Origin { table: table.parse().ok()?, column: column.parse().ok()? })
    }

    /// Notes it at a field of a result.
    pub fn note(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(ORIGIN.to_owned(), format!("{} {}", self.table, self.column));
        field.with_metadata(metadata)
    }
}

/// The OID of a table, view or schema with a name, unless another object took it.
pub fn object_oid(name: &str) -> i64 {
    OID_FIRST + hash(name)
}

/// FNV-1a
pub fn hash(name: &str) -> i64 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    (hash % 1_000_000_000) as i64
}
