//! Cells of text, and what collects them as a column.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::error::{Reason, ValueProblem};
use super::fields::{Cells, Field};
use crate::times::Zone;
use crate::type_names::type_name;

/// The reason why a cell is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellProblem {
    Null,
    Value(ValueProblem),
}

impl CellProblem {
    /// The reason for the user, with the cell's text and its column's type.
    pub fn reason(self, value: Option<&str>, data_type: &DataType) -> Reason {
        match self {
            CellProblem::Null => Reason::Null,
            CellProblem::Value(problem) => {
                Reason::Value { value: value.unwrap_or_default().to_string(), expected: type_name(data_type), problem }
            }
        }
    }
}

/// Collects the values of one column.
pub(crate) trait ColumnBuilder: Send {
    /// Appends one value, `None` being NULL.
    fn append(&mut self, text: Option<&str>) -> Result<(), CellProblem>;

    /// Appends the value of a field.
    fn append_field(&mut self, cells: Cells<'_>, field: Field) -> Result<(), CellProblem> {
        self.append(cells.text_of(field))
    }

    /// Appends cells from top to bottom. The error contains the row within `cells`. Each builder has its own compiled
    /// version of this loop, so that the parser is inlined.
    fn append_cells(&mut self, cells: Cells<'_>) -> Result<(), (usize, CellProblem)> {
        for (row, text) in cells.iter().enumerate() {
            self.append(text).map_err(|problem| (row, problem))?;
        }
        Ok(())
    }

    /// Returns the column's values and resets the builder.
    fn finish(&mut self) -> ArrayRef;
}

/// The treatment of empty and doubtful texts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CellRules {
    /// An unquoted empty CSV field, which is NULL, is the empty string in a NOT NULL string column.
    pub empty_is_text: bool,
    /// An empty text is NULL in columns of types other than VARCHAR and BINARY, because programs that quote all fields
    /// write NULL in this way.
    pub empty_is_null: bool,
    /// The column's type was inferred: a text for which the type would not have been inferred is an error, even if it
    /// could be converted.
    pub strict: bool,
    /// Of members of an object with one name, the last counts, as in JSON. Elsewhere they are an error.
    pub last_member_counts: bool,
    /// A zone behind a timestamp is applied if the column has none, as by a cast. In files it is an error.
    pub applies_zones: bool,
    /// A zone behind a timestamp is left out if the column has none, as in PostgreSQL. It comes before `applies_zones`.
    pub drops_zones: bool,
    /// The zone of timestamps that have none, in a column that has one; `None` is the zone of the column.
    pub zone: Option<Zone>,
}

impl CellRules {
    const PLAIN: CellRules = CellRules {
        empty_is_text: false,
        empty_is_null: false,
        strict: false,
        last_member_counts: false,
        applies_zones: false,
        drops_zones: false,
        zone: None,
    };

    /// The rules of CSV files for the columns of a table.
    pub const CSV: CellRules = CellRules { empty_is_null: true, ..CellRules::PLAIN };

    /// The rules of JSON files.
    pub const JSON: CellRules = CellRules { last_member_counts: true, ..CellRules::PLAIN };
}
