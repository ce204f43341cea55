//! The share of the rows of files that filters are expected to leave.
//!
//! DataFusion's analysis of intervals knows comparisons of numbers. Of other conditions, each kind has a share of its own, from the
//! number of a column's values where that is known.

use std::sync::Arc;

use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::{AnalysisContext, PhysicalExpr, analyze, conjunction};

use super::counts::{dictionary_bytes, rows};
use super::set::FileSet;
use crate::provider::filter::int_key;

/// The share of a condition of which nothing is known.
const UNKNOWN_SHARE: f64 = 0.2;
/// The bytes of the header of a page, and of the length of a text in a dictionary.
const PAGE_HEADER_BYTES: usize = 16;
const LENGTH_BYTES: f64 = 4.0;
/// The share of rows whose text is like a pattern, or equal to one value among unknown ones.
const LIKE_SHARE: f64 = 0.1;

/// The share of rows that satisfy all of these conditions.
pub(super) fn share(set: &FileSet, columns: &[ColumnStatistics], conditions: &[Arc<dyn PhysicalExpr>]) -> f64 {
    let (numeric, others): (Vec<_>, Vec<_>) =
        conditions.iter().cloned().partition(|condition| check_support(condition, &set.schema));
    let known = Known { set, columns };
    let mut share: f64 = others.iter().map(|condition| known.share(condition)).product();
    if !numeric.is_empty() {
        let of_numeric = AnalysisContext::try_from_statistics(&set.schema, columns)
            .and_then(|context| analyze(&conjunction(numeric), context, &set.schema))
            .ok()
            .and_then(|context| context.selectivity);
        share *= of_numeric.unwrap_or(UNKNOWN_SHARE);
    }
    share.clamp(0.0, 1.0)
}

/// What files say of their columns.
struct Known<'a> {
    set: &'a FileSet,
    columns: &'a [ColumnStatistics],
}

impl Known<'_> {
    /// The share of rows that satisfy a condition.
    fn share(&self, condition: &Arc<dyn PhysicalExpr>) -> f64 {
        if let Some(not) = condition.downcast_ref::<NotExpr>() {
            return 1.0 - self.share(not.arg());
        }
        if let Some(like) = condition.downcast_ref::<LikeExpr>() {
            return negated_if(like.negated(), LIKE_SHARE);
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            let of_list = self.equal_share(list.expr()) * list.list().len() as f64;
            return negated_if(list.negated(), of_list.min(1.0));
        }
        if let Some(is_null) = condition.downcast_ref::<IsNullExpr>() {
            return self.null_share(is_null.arg());
        }
        if let Some(is_not_null) = condition.downcast_ref::<IsNotNullExpr>() {
            return 1.0 - self.null_share(is_not_null.arg());
        }
        match condition.downcast_ref::<BinaryExpr>() {
            Some(both) => self.binary_share(both),
            None => UNKNOWN_SHARE,
        }
    }

    fn binary_share(&self, condition: &BinaryExpr) -> f64 {
        let (left, right) = (condition.left(), condition.right());
        let is_with_literal = left.is::<Literal>() || right.is::<Literal>();
        let column = if left.is::<Literal>() { right } else { left };
        match condition.op() {
            Operator::And => self.share(left) * self.share(right),
            Operator::Or => 1.0 - (1.0 - self.share(left)) * (1.0 - self.share(right)),
            Operator::Eq if is_with_literal => self.equal_share(column),
            Operator::NotEq if is_with_literal => 1.0 - self.equal_share(column),
            _ => UNKNOWN_SHARE,
        }
    }

    /// The share of rows in which a value is a certain one.
    fn equal_share(&self, e: &Arc<dyn PhysicalExpr>) -> f64 {
        let Some(column) = e.downcast_ref::<Column>().map(Column::index) else { return LIKE_SHARE };
        let known = &self.columns[column];
        let ends = known.min_value.get_value().zip(known.max_value.get_value());
        let values = match ends.and_then(|(low, high)| int_key(low).zip(int_key(high))) {
            Some((low, high)) => Some(high as f64 - low as f64 + 1.0),
            None => self.texts(column, ends),
        };
        values.map_or(LIKE_SHARE, |values| 1.0 / values.max(1.0))
    }

    /// The number of texts of a small dictionary, whose entries are as long as the least and the greatest one.
    fn texts(&self, column: usize, ends: Option<(&ScalarValue, &ScalarValue)>) -> Option<f64> {
        let bytes = dictionary_bytes(self.set, column)?.saturating_sub(PAGE_HEADER_BYTES);
        let length = |end: &ScalarValue| end.try_as_str().flatten().map(str::len);
        let (low, high) = ends.and_then(|(low, high)| length(low).zip(length(high)))?;
        Some(bytes as f64 / (LENGTH_BYTES + (low + high) as f64 / 2.0))
    }

    fn null_share(&self, e: &Arc<dyn PhysicalExpr>) -> f64 {
        let nulls = e.downcast_ref::<Column>().and_then(|column| self.columns[column.index()].null_count.get_value());
        match (nulls, rows(self.set).get_value()) {
            (Some(nulls), Some(rows)) => (*nulls as f64 / (*rows).max(1) as f64).min(1.0),
            _ => UNKNOWN_SHARE,
        }
    }
}

fn negated_if(is_negated: bool, share: f64) -> f64 {
    if is_negated { 1.0 - share } else { share }
}
