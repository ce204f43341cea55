//! Functions whose arguments have one type, while SQL is planned: DataFusion's refuse `coalesce(ts, '2024-01-01')`, and do
//! not see that the text is one in quotes. The rule that knows the types puts DataFusion's functions back.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, internal_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::{Operand, text_of, types};
use crate::expressions::OF_ONE_TYPE;
use crate::times;

/// `'1' = ANY (list)`: the text has the type of the elements.
const IN_LIST: &str = "array_has";

/// Makes these the functions of a session.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for name in OF_ONE_TYPE.into_iter().chain([IN_LIST]) {
        if let Some(inner) = state.scalar_functions().get(name).cloned() {
            let signature = Signature::variadic_any(Volatility::Immutable);
            // Other functions have some of its names.
            let is_its = |alias: &&String| state.scalar_functions().get(*alias).is_some_and(|known| *known == inner);
            let aliases = inner.aliases().iter().filter(is_its).cloned().collect();
            state.register_udf(Arc::new(ScalarUDF::from(Planned { inner, aliases, signature })))?;
        }
    }
    Ok(())
}

/// Gives a text that is looked for in a list the type of its elements.
pub(super) fn in_list(expression: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::ScalarFunction(call) = expression else { return Ok(false) };
    if call.func.name() != IN_LIST {
        return Ok(false);
    }
    let operands: Vec<Operand> = call.args.iter().map(|argument| Operand::of(argument, schema)).collect();
    let kinds = types(&of_elements(operands))?.unwrap_or_default();
    let mut changed = false;
    for (argument, kind) in call.args.iter_mut().zip(kinds) {
        if let Some(kind) = kind {
            *argument = Expr::Cast(Cast::new(Box::new(std::mem::take(argument)), kind));
            changed = true;
        }
    }
    Ok(changed)
}

/// The operands with the elements of a list in its place.
fn of_elements(mut operands: Vec<Operand>) -> Vec<Operand> {
    for operand in &mut operands {
        if let DataType::List(element) | DataType::LargeList(element) = &operand.kind {
            operand.kind = element.data_type().clone();
        }
    }
    operands
}

/// Puts the function behind a planned one in its place, whose texts have their types.
pub(super) fn put_back(expression: &mut Expr) -> bool {
    let Expr::ScalarFunction(call) = expression else { return false };
    let Some(inner) = call.func.inner().downcast_ref::<Planned>().map(|planned| planned.inner.clone()) else {
        return false;
    };
    call.func = inner;
    true
}

/// A function while it is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Planned {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

impl Planned {
    /// The arguments as the function takes them: texts in quotes have the type of the others, and all have one type.
    fn coerced(&self, arguments: &[FieldRef], operands: Vec<Operand>) -> Result<Vec<FieldRef>> {
        let operands = if self.inner.name() == IN_LIST { of_elements(operands) } else { operands };
        let kinds: Vec<DataType> =
            operands.iter().filter(|operand| operand.text.is_none()).map(|operand| operand.kind.clone()).collect();
        times::check_times(&kinds, false)?;
        let own = types(&operands)?.unwrap_or_default();
        let typed = arguments.iter().enumerate().map(|(at, argument)| match own.get(at).cloned().flatten() {
            Some(kind) => Arc::new(argument.as_ref().clone().with_data_type(kind)),
            None => argument.clone(),
        });
        fields_with_udf(&typed.collect::<Vec<_>>(), self.inner.as_ref())
    }
}

impl ScalarUDFImpl for Planned {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let operand = |(field, value): (&FieldRef, &Option<_>)| Operand {
            kind: field.data_type().clone(),
            text: value.and_then(text_of).map(str::to_owned),
        };
        let operands: Vec<Operand> = args.arg_fields.iter().zip(args.scalar_arguments).map(operand).collect();
        let coerced = self.coerced(args.arg_fields, operands)?;
        let scalar_arguments = args.scalar_arguments;
        self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &coerced, scalar_arguments })
    }

    /// Where an expression is computed without a plan: the function behind, over arguments of one type.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let schema = context.schema();
        let fields =
            args.iter().map(|argument| Ok(argument.to_field(schema.as_ref())?.1)).collect::<Result<Vec<_>>>()?;
        let operands: Vec<Operand> = args.iter().map(|argument| Operand::of(argument, schema)).collect();
        let coerced = self.coerced(&fields, operands)?;
        let cast = |(argument, (from, to)): (Expr, (&FieldRef, FieldRef))| match from.data_type() == to.data_type() {
            true => argument,
            false => Expr::Cast(Cast::new(Box::new(argument), to.data_type().clone())),
        };
        let args = args.into_iter().zip(fields.iter().zip(coerced)).map(cast).collect();
        Ok(ExprSimplifyResult::Simplified(self.inner.call(args)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{} was not replaced after it had been planned", self.inner.name())
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }
}
