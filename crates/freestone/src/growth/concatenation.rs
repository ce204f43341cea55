//! `||` of texts, as one function of all texts of a chain.
//!
//! DataFusion computes `a || b || c` as `(a || b) || c`, so a chain of n texts copies the first one n times, and a query WITH
//! RECURSIVE that joins a text with itself takes all memory in a few steps. Therefore a chain becomes one function, which
//! knows the size of its result before it makes it.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringBuilder, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::context::claim;
use crate::expressions;

/// The name of the function, which no function in SQL has.
pub(crate) const CONCATENATION: &str = "||";

/// Puts the function in the place of chains of `||`, once their operands have types.
#[derive(Debug)]
pub(crate) struct Concatenations;

impl AnalyzerRule for Concatenations {
    fn name(&self) -> &str {
        "concatenations"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_chains(&plan)? {
            return Ok(plan);
        }
        let signature = Signature::variadic_any(Volatility::Immutable);
        let function = Arc::new(ScalarUDF::from(Concatenation { signature }));
        let in_node = |node| expressions::changed(node, |e, schema| concatenated(e, schema, &function));
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

fn has_chains(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.exists(|e| Ok(operands(e).is_some()))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// The operands of `||`.
fn operands(expression: &Expr) -> Option<(&Expr, &Expr)> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => Some((left, right)),
        _ => None,
    }
}

fn concatenated(expression: Expr, schema: &DFSchema, function: &Arc<ScalarUDF>) -> Transformed<Expr> {
    let types = operands(&expression).map(|(left, right)| (type_of(left, schema), type_of(right, schema)));
    let Some((Some(left), Some(right))) = types else { return Transformed::no(expression) };
    // Lists are joined by functions of their own.
    if left != right || !matches!(left, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Transformed::no(expression);
    }
    let Expr::BinaryExpr(BinaryExpr { left: first, right: second, .. }) = expression else {
        return Transformed::no(expression);
    };
    let args = [*first, *second].into_iter().flat_map(texts_of).collect();
    Transformed::yes(function.call(args))
}

/// The type of an operand; a chain has that of its first text.
fn type_of(operand: &Expr, schema: &DFSchema) -> Option<DataType> {
    chain(operand).and_then(|texts| texts.first()).unwrap_or(operand).get_type(schema).ok()
}

fn chain(operand: &Expr) -> Option<&Vec<Expr>> {
    match operand {
        Expr::ScalarFunction(call) if call.func.inner().is::<Concatenation>() => Some(&call.args),
        _ => None,
    }
}

/// The texts of an operand, which are several where it is a chain.
fn texts_of(operand: Expr) -> Vec<Expr> {
    match operand {
        Expr::ScalarFunction(call) if call.func.inner().is::<Concatenation>() => call.args,
        other => vec![other],
    }
}

/// All texts of a row, one behind the other; NULL where one of them is NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Concatenation {
    signature: Signature,
}

impl ScalarUDFImpl for Concatenation {
    fn name(&self) -> &str {
        CONCATENATION
    }

    /// The name of the chain in whose place this is: columns keep theirs.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(names.join(" || "))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let texts: Vec<String> = args.iter().map(Expr::to_string).collect();
        Ok(texts.join(" || "))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [first, ..] => Ok(first.clone()),
            [] => internal_err!("a chain of || without texts"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(first) = args.arg_fields.first() else { return internal_err!("a chain of || without texts") };
        let may_be_null = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(CONCATENATION, first.data_type().clone(), may_be_null)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let texts = args.args.iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
        let bytes = texts.iter().fold(0u64, |sum, text| sum.saturating_add(text.bytes(rows)));
        let _claim = claim(CONCATENATION, bytes)?;
        let joined = joined(&texts, rows, bytes as usize)?;
        let joined = cast(&joined, args.return_field.data_type())?;
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?),
            false => ColumnarValue::Array(joined),
        })
    }
}

/// The texts of an argument: one for all rows, or one per row.
enum Texts {
    Same(Option<String>),
    PerRow(StringViewArray),
}

impl Texts {
    fn of(argument: &ColumnarValue) -> Result<Texts> {
        match argument {
            ColumnarValue::Scalar(value) => match value.try_as_str() {
                Some(text) => Ok(Texts::Same(text.map(str::to_owned))),
                None => internal_err!("|| of {}", value.data_type()),
            },
            ColumnarValue::Array(array) => {
                Ok(Texts::PerRow(cast(array, &DataType::Utf8View)?.as_string_view().clone()))
            }
        }
    }

    fn bytes(&self, rows: usize) -> u64 {
        match self {
            Texts::Same(text) => (text.as_deref().unwrap_or_default().len() as u64).saturating_mul(rows as u64),
            // The first four bytes of a view are its length.
            Texts::PerRow(texts) => texts.views().iter().map(|view| u64::from(*view as u32)).sum(),
        }
    }

    fn value(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Same(text) => text.as_deref(),
            Texts::PerRow(texts) => texts.is_valid(row).then(|| texts.value(row)),
        }
    }
}

fn joined(texts: &[Texts], rows: usize, bytes: usize) -> Result<ArrayRef> {
    let mut made = StringBuilder::with_capacity(rows, bytes);
    for row in 0..rows {
        if texts.iter().any(|text| text.value(row).is_none()) {
            made.append_null();
            continue;
        }
        for text in texts {
            // Writing to memory does not fail.
            let _ = made.write_str(text.value(row).unwrap_or_default());
        }
        made.append_value("");
    }
    Ok(Arc::new(made.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Budget, Canceller, within};

    fn invoke(args: Vec<ColumnarValue>, rows: usize) -> Result<ColumnarValue> {
        let function = Concatenation { signature: Signature::variadic_any(Volatility::Immutable) };
        let fields: Vec<FieldRef> = args.iter().map(|arg| Arc::new(Field::new("a", arg.data_type(), true))).collect();
        let return_field = fields[0].clone();
        let config_options = Arc::new(ConfigOptions::default());
        function.invoke_with_args(ScalarFunctionArgs {
            args,
            arg_fields: fields,
            number_rows: rows,
            return_field,
            config_options,
        })
    }

    fn text(text: Option<&str>) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::Utf8View(text.map(str::to_owned)))
    }

    #[test]
    fn texts_are_joined_and_null_wins() {
        let column = |texts: Vec<Option<&str>>| ColumnarValue::Array(Arc::new(StringViewArray::from(texts)));
        let column = column(vec![Some("a"), None, Some(""), Some("a text that no view holds by itself: ä")]);
        let made = invoke(vec![text(Some("<")), column.clone(), text(Some(">"))], 4).expect("texts");
        let ColumnarValue::Array(made) = made else { panic!("one per row") };
        let expected = vec![Some("<a>"), None, Some("<>"), Some("<a text that no view holds by itself: ä>")];
        assert_eq!(made.as_string_view(), &StringViewArray::from(expected));
        let made = invoke(vec![column, text(None)], 4).expect("texts");
        let ColumnarValue::Array(made) = made else { panic!("one per row") };
        assert_eq!(made.null_count(), 4);
        let made = invoke(vec![text(Some("a")), text(Some("b"))], 4).expect("a text");
        let ColumnarValue::Scalar(ScalarValue::Utf8View(Some(made))) = made else { panic!("one for all rows") };
        assert_eq!(made, "ab");
    }

    #[test]
    fn texts_that_are_too_long_are_refused_before_they_are_made() {
        let long = "x".repeat(20 << 20);
        let canceller = Canceller::new(Budget::new(Budget::unlimited_pool(), Some(1)));
        let both = || invoke(vec![text(Some(&long)), text(Some(&long))], 1);
        let error = within(Some(canceller.statement()), both).expect_err("too long");
        assert!(error.to_string().contains("|| would make 41943040 bytes at once"), "{error}");
        // The text of one row for many.
        let rows: ArrayRef = Arc::new(StringViewArray::from(vec!["a"; 8192]));
        let error = invoke(vec![text(Some(&long)), ColumnarValue::Array(rows)], 8192).expect_err("too long");
        assert!(error.to_string().contains("would make"), "{error}");
    }
}
