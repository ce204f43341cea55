//! Values as literals of SQL, alone and in conditions.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use super::texts_of;
use crate::error::in_sql;

/// A value as a literal of SQL.
fn value(value: &ScalarValue) -> String {
    let text = || {
        let texts = value.to_array().and_then(|array| Ok(texts_of(&array)?));
        texts.map_or_else(|_| value.to_string(), |texts| texts.value(0).to_owned())
    };
    let kind = value.data_type();
    match &kind {
        _ if value.is_null() => "NULL".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => format!("'{}'", text().replace('\'', "''")),
        DataType::Date32 | DataType::Date64 => format!("DATE '{}'", text()),
        DataType::Time32(_) | DataType::Time64(_) => format!("TIME '{}'", text()),
        DataType::Timestamp(_, None) => format!("TIMESTAMP '{}'", text().replace('T', " ")),
        DataType::Timestamp(_, Some(_)) => format!("TIMESTAMPTZ '{}'", text().replace('T', " ").replace('Z', "+00")),
        DataType::Interval(_) => format!("INTERVAL '{}'", text()),
        DataType::FixedSizeBinary(16) => format!("UUID '{}'", text()),
        kind if kind.is_binary() => format!("x'{}'", text()),
        _ => text(),
    }
}

/// A condition on columns, with literals of SQL.
pub(crate) fn condition(expression: &Arc<dyn PhysicalExpr>) -> String {
    let shown = Arc::clone(expression).transform_up(|node| {
        let Some(literal) = node.downcast_ref::<Literal>() else { return Ok(Transformed::no(node)) };
        let shown = ScalarValue::Utf8(Some(value(literal.value())));
        Ok(Transformed::yes(Arc::new(Literal::new(shown)) as Arc<dyn PhysicalExpr>))
    });
    in_sql(&shown.data().unwrap_or_else(|_| expression.clone()).to_string())
}
