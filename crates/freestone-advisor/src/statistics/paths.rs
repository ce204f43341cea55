//! Attributes that foreign keys lead to, as columns of the sample, to predict clustering by them.

use std::sync::Arc;

use freestone_store::Table;
use freestone_store::cluster::{DimensionPath, MAX_DISTINCT, Tables, codes_of_path};

use super::encoded_columns::Forms;
use super::sample::ranks_of;
use super::{Order, TableStatistics, lock};
use crate::error::Result;

/// An attribute of a referenced table.
#[derive(Debug)]
pub struct PathColumn {
    names: Vec<String>,
    /// Each sample row's position among the attribute's values, 0 to 1.
    pub ranks: Vec<f32>,
    /// The store's codes of the attribute's values, and their number of bits.
    codes: Vec<u32>,
    width: u32,
}

impl TableStatistics {
    /// Adds an attribute that foreign keys of the table lead to, so that the model can predict pruning after clustering
    /// by it.
    ///
    /// # Errors
    /// As for [`codes_of_path`].
    pub fn add_path(&mut self, tables: Tables<'_>, table: &Table, path: &DimensionPath) -> Result<()> {
        let (codes, width) = codes_of_path(tables, table, path, &self.sample.columns)?;
        self.paths.push(Arc::new(PathColumn { names: path.names.clone(), ranks: ranks(&codes), codes, width }));
        self.forget_orders();
        Ok(())
    }

    /// Copies the added attributes of other statistics of the same sample.
    pub fn take_paths(&mut self, other: &TableStatistics) {
        self.paths.clone_from(&other.paths);
        self.forget_orders();
    }

    /// Drops cached results about orders, because they do not know the new attributes.
    fn forget_orders(&mut self) {
        lock(&self.orders).clear();
        *lock(&self.forms) = Forms::default();
    }

    /// The number of an added attribute, after the table's columns.
    pub fn path_column(&self, names: &[String]) -> Option<usize> {
        Some(self.columns.len() + self.paths.iter().position(|path| path.names == names)?)
    }

    /// The share of zones that a test of an attribute leaves if rows are in `order`. `share` of the rows satisfy the
    /// test, whose values form `runs` runs.
    pub fn zones_met(&self, column: usize, order: &Order, share: f64, runs: f64) -> f64 {
        let of_run = self.ordered(order).zones_met(column, share / runs.max(1.0), self);
        1.0 - (1.0 - of_run).powf(runs.max(1.0))
    }

    /// Whether rows in `order` are clustered by an attribute of the table that foreign keys lead to. Then joins prune
    /// by the codes of keys, whichever attribute they filter by.
    pub fn is_clustered_over(&self, keys: &[String], order: &Order) -> bool {
        let over_keys = |column: usize| {
            let path = column.checked_sub(self.columns.len()).and_then(|path| self.paths.get(path));
            path.and_then(|path| path.names.split_last()).is_some_and(|(_, own)| own == keys)
        };
        let has = |order: &Order| order.cluster.iter().any(|(column, _)| over_keys(*column));
        if order.is_current() { has(&Order::of_design(&self.current, self)) } else { has(order) }
    }

    /// Each sample row's position among the values of a column or of such an attribute.
    pub(super) fn ranks(&self, column: usize) -> &[f32] {
        match column.checked_sub(self.columns.len()) {
            None => self.sample.ranks(column),
            Some(path) => &self.paths[path].ranks,
        }
    }

    /// Each sample row's code as a dimension of a clustering, and the number of bits, numbered as the store numbers
    /// values.
    pub(super) fn dimension_codes(&self, column: usize, bits: Option<u32>) -> (Vec<u32>, u32) {
        if let Some(path) = column.checked_sub(self.columns.len()) {
            let path = &self.paths[path];
            let width = bits.unwrap_or(path.width).clamp(1, path.width.max(1));
            return (path.codes.iter().map(|code| code >> (path.width - width)).collect(), width);
        }
        // Bins of equal frequency, as many as there are values if these are few. One number is reserved for NULL.
        let most = bits.map_or(MAX_DISTINCT as f64, |bits| f64::from(1u32 << bits) - 1.0);
        let bins = self.columns[column].distinct.ceil().clamp(1.0, most);
        let code = |rank: &f32| ((f64::from(*rank) * bins) as u32).min(bins as u32 - 1);
        (self.sample.ranks(column).iter().map(code).collect(), u32::BITS - (bins as u32).leading_zeros())
    }

    pub(super) fn ranked_columns(&self) -> usize {
        self.columns.len() + self.paths.len()
    }
}

/// For each row, the share of rows with a smaller code, plus half the share of rows with an equal code.
fn ranks(codes: &[u32]) -> Vec<f32> {
    let mut order: Vec<u32> = (0..codes.len() as u32).collect();
    order.sort_unstable_by_key(|row| codes[*row as usize]);
    ranks_of(&order, codes.len(), |row| codes[row])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_in_the_middle_of_equal_codes() {
        assert_eq!(ranks(&[7, 1, 7, 9]), [0.5, 0.125, 0.5, 0.875]);
    }
}
