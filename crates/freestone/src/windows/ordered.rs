//! ORDER BY in an aggregate over a window: `list(x ORDER BY y) OVER (…)`, which DataFusion does not plan. Each key is written
//! as a call in PARTITION BY (`sql/named_windows.rs`), where [`keys`] finds it in the plan, before anything is partitioned.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility,
};

/// The function that stands for a key: its value, `ASC` or `DESC`, and `FIRST` or `LAST` for NULLs.
pub(crate) const ORDERED_BY: &str = "freestone_ordered_by";

/// The function as it is written.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(OrderedBy { signature: Signature::any(3, Volatility::Immutable) })
}

/// Takes the keys of an aggregate's own order out of the PARTITION BY of its window.
pub(crate) fn keys(partition_by: &mut Vec<Expr>) -> Vec<SortExpr> {
    let mut keys = vec![];
    partition_by.retain(|key| match read(key) {
        Some(key) => {
            keys.push(key);
            false
        }
        None => true,
    });
    keys
}

fn read(key: &Expr) -> Option<SortExpr> {
    let Expr::ScalarFunction(call) = key else { return None };
    let [value, direction, nulls] = call.args.as_slice() else { return None };
    if call.func.name() != ORDERED_BY {
        return None;
    }
    let text = |e: &Expr| match e {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
        _ => None,
    };
    let asc = text(direction)? == "ASC";
    let nulls_first = text(nulls)? == "FIRST";
    Some(SortExpr { expr: value.clone(), asc, nulls_first })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedBy {
    signature: Signature,
}

impl ScalarUDFImpl for OrderedBy {
    fn name(&self) -> &str {
        ORDERED_BY
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("ORDER BY is not available in this call")
    }
}
