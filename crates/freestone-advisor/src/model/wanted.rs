//! The rows that a scan decodes, as a share of the rows that survive pruning.

/// Positions are listed, and rows are decoded one at a time, as soon as one row of a granule is missing.
pub(super) const MOST_LISTED: f64 = 0.9;

/// The wanted rows of the remaining zones: their share, and the mean number of adjacent ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WantedRows {
    pub density: f64,
    pub run_rows: f64,
}

impl WantedRows {
    pub const ALL: WantedRows = WantedRows { density: 1.0, run_rows: 1.0 };

    /// The share of ranges of `rows` rows with at least one wanted row.
    pub fn touched(&self, rows: f64) -> f64 {
        if self.density >= 1.0 {
            return 1.0;
        }
        let places = (rows / self.run_rows).max(1.0);
        1.0 - (1.0 - self.density).powf(places)
    }

    /// The density at which scattered single rows have the same cost per value.
    pub fn effective(&self) -> f64 {
        if self.density >= 1.0 { 1.0 } else { (self.density * self.run_rows).min(MOST_LISTED).max(self.density) }
    }
}
