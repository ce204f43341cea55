//! LIKE with a constant pattern of pieces between `%`: each is searched behind the one before it.
//!
//! Arrow matches such a pattern by a regular expression, which it compiles for each batch.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use memchr::memmem::Finder;

/// A text LIKE `first%middle%…%last`.
#[derive(Debug, Clone)]
pub(crate) struct Pieces {
    like: Arc<dyn PhysicalExpr>,
    text: Arc<dyn PhysicalExpr>,
    first: Vec<u8>,
    middle: Vec<Finder<'static>>,
    last: Vec<u8>,
    negated: bool,
}

/// The expression with its patterns of pieces searched piece by piece.
///
/// # Errors
/// The expression cannot be rebuilt.
pub(crate) fn searched(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = expr.transform_up(|node| {
        Ok(match Pieces::of(&node) {
            Some(pieces) => Transformed::yes(Arc::new(pieces) as _),
            None => Transformed::no(node),
        })
    });
    replaced.map(|transformed| transformed.data)
}

impl Pieces {
    /// `None` if the expression is none of these, or one that Arrow searches itself.
    fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Pieces> {
        let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive())?;
        let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let (first, rest) = pattern.split_once('%')?;
        let (middle, last) = rest.rsplit_once('%')?;
        let middle: Vec<&str> = middle.split('%').filter(|piece| !piece.is_empty()).collect();
        let is_one_piece = first.is_empty() && last.is_empty() && middle.len() == 1;
        let finder = |piece: &str| Finder::new(piece).into_owned();
        (!middle.is_empty() && !is_one_piece).then(|| Pieces {
            like: expr.clone(),
            text: like.expr().clone(),
            first: first.into(),
            middle: middle.into_iter().map(finder).collect(),
            last: last.into(),
            negated: like.negated(),
        })
    }

    fn matches(&self, text: &[u8]) -> bool {
        // To compare memory of no bytes, at an address of nothing, takes a hundred times as long as this.
        let has_ends = (self.first.is_empty() || text.starts_with(&self.first))
            && (self.last.is_empty() || text[self.first.len()..].ends_with(&self.last));
        if !has_ends {
            return false;
        }
        let mut inner = &text[self.first.len()..text.len() - self.last.len()];
        self.middle.iter().all(|piece| match piece.find(inner) {
            Some(at) => {
                inner = &inner[at + piece.needle().len()..];
                true
            }
            None => false,
        })
    }
}

impl PartialEq for Pieces {
    fn eq(&self, other: &Self) -> bool {
        self.like.eq(&other.like)
    }
}

impl Eq for Pieces {}

impl std::hash::Hash for Pieces {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.like.hash(state);
    }
}

impl fmt::Display for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.like.fmt(f)
    }
}

impl PhysicalExpr for Pieces {
    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.like.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let ColumnarValue::Array(texts) = self.text.evaluate(batch)? else { return self.like.evaluate(batch) };
        if *texts.data_type() != DataType::Utf8View {
            return self.like.evaluate(batch);
        }
        let texts = texts.as_string_view();
        let passes = |row| texts.is_valid(row) && self.matches(texts.value(row).as_bytes()) != self.negated;
        let passed = BooleanBuffer::collect_bool(texts.len(), passes);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(passed, texts.nulls().cloned()))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.like.children()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        searched(self.like.clone().with_new_children(children)?)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.like.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::StringViewArray;
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    #[test]
    fn pieces_match_what_arrow_matches() {
        let texts = [
            "",
            "a",
            "ab",
            "aba",
            "abba",
            "ab-ba",
            "a%b",
            "special requests",
            "requests special",
            "aXbXb",
            "ü ab ü b",
            "bab",
        ];
        let values = texts.iter().map(|text| Some(*text)).chain([None]).collect::<StringViewArray>();
        let schema = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8View, true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(values)]).expect("a batch");
        let mut found = 0;
        for pattern in [
            "%a%b%",
            "a%b%",
            "%a%b",
            "a%b%a",
            "ab%%ba",
            "ab%ba",
            "%special%requests%",
            "%b%",
            "%ü%b%",
            "%",
            "%%",
            "a%",
            "%a_%b%",
            "a%a%a",
        ] {
            for negated in [false, true] {
                let text: Arc<dyn PhysicalExpr> = Arc::new(Column::new("t", 0));
                let pattern: Arc<dyn PhysicalExpr> =
                    Arc::new(Literal::new(datafusion::scalar::ScalarValue::Utf8View(Some(pattern.into()))));
                let like: Arc<dyn PhysicalExpr> = Arc::new(LikeExpr::new(negated, false, text, pattern));
                let ours = searched(like.clone()).expect("rebuilt");
                found += usize::from(ours.is::<Pieces>());
                let rows = |e: &Arc<dyn PhysicalExpr>| {
                    e.evaluate(&batch).and_then(|value| value.into_array(batch.num_rows())).expect("values")
                };
                assert_eq!(rows(&ours).as_boolean(), rows(&like).as_boolean(), "{like}");
            }
        }
        assert_eq!(found, 2 * 7, "those with several pieces, or a piece within two ends");
    }
}
