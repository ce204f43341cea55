//! The order in which rows arrived, as far as columns tell it: what goes back to a design without an order sorts by these
//! columns, because no table keeps the order itself.

use freestone_store::design::MediumKind;

use super::{Order, TableStatistics};

/// A column tells the order if its zones span at most this share of its values on average.
const SPAN_MAX: f64 = 0.2;
/// The columns that are looked at, those with the most distinct values first.
const LOOKED_AT: usize = 32;

impl TableStatistics {
    /// The columns that restore the order in which the rows arrived if the rows are sorted by them: coarse ones, such as
    /// the part that a file had, before fine ones, such as a time. Empty if a design orders the rows, or no column tells
    /// their order.
    pub fn arrival(&self) -> Vec<usize> {
        let is_sortable = |column: &usize| self.schema.ordered_index_of(&self.columns[*column].name, "sort").is_ok();
        if !Order::of_design(&self.current, self).is_current() || self.current.medium == MediumKind::Pmem {
            return vec![];
        }
        let now = Order::default();
        let spans = (0..self.columns.len())
            .filter(|column| self.columns[*column].distinct > 1.0 && is_sortable(column))
            .map(|column| (column, self.zone_span(column, &now)));
        let mut telling: Vec<(usize, f64)> = spans.filter(|(_, span)| *span <= SPAN_MAX).collect();
        // Estimates of distinct values differ a little.
        let fineness = |column: usize| self.columns[column].distinct.log2().floor();
        telling.sort_by(|(a, of_a), (b, of_b)| fineness(*b).total_cmp(&fineness(*a)).then(of_a.total_cmp(of_b)));
        let mut sort: Vec<usize> = vec![];
        for (column, _) in telling.into_iter().take(LOOKED_AT) {
            // A column that lies in order anyway, if the rows are sorted by finer ones, is not needed.
            let is_needed = sort.is_empty() || {
                let order = Order { sort: sort.clone(), cluster: vec![] };
                self.zone_span(column, &order) > SPAN_MAX
            };
            if is_needed {
                sort.insert(0, column);
            }
        }
        sort
    }
}
