//! Scalar functions as data: names, forms of arguments, the type of the result, and a kernel over arrays.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::json::makes_json;
use super::kinds::{Kind, TEXT, described};
use crate::growth::{self, Function, Growth};
use crate::text_types;
use crate::text_types::made::makes_jsonb;
use crate::times::{Call, evaluate, evaluate_rows, wrong_types};

/// Computes a function for all rows of its arguments.
type Kernel = Box<dyn Fn(&Call) -> Result<ArrayRef> + Send + Sync>;

/// The type of the result for arguments of these types, of which some may be constants.
type TypeOf = Box<dyn Fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType> + Send + Sync>;

/// The types to which arguments are cast; `None` if the function does not accept their types.
type Coercion = Box<dyn Fn(&[DataType]) -> Option<Vec<DataType>> + Send + Sync>;

/// Replaces a call by an equivalent expression when constants are known.
type Simplification = Box<dyn Fn(Vec<Expr>) -> Expr + Send + Sync>;

/// A function of the values of one row.
pub(super) struct Scalar {
    name: &'static str,
    aliases: Vec<String>,
    /// A description of the accepted arguments, for error messages.
    takes: String,
    coercion: Coercion,
    result: TypeOf,
    kernel: Kernel,
    signature: Signature,
    simplification: Option<Simplification>,
    /// Whether one row can take long.
    is_slow: bool,
    /// How much memory a call takes; `None` for at most twice the arguments, for results that are not small.
    growth: Option<Growth>,
}

impl Scalar {
    /// A function that takes one of several lists of arguments. The first name is that of the function, the others are aliases.
    pub fn new(
        names: &[&'static str],
        forms: &'static [&'static [Kind]],
        result: DataType,
        kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Scalar {
        let coercion = move |types: &[DataType]| forms.iter().find_map(|form| accepted(form, types));
        let takes: Vec<String> = forms.iter().map(|form| described(form)).collect();
        Scalar::with_coercion(names, &takes.join(" or "), coercion, move |_, _| Ok(result.clone()), kernel)
    }

    /// The same, with a type of the result that depends on the arguments.
    pub fn typed(
        names: &[&'static str],
        forms: &'static [&'static [Kind]],
        result: impl Fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType> + Send + Sync + 'static,
        kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Scalar {
        Scalar { result: Box::new(result), ..Scalar::new(names, forms, DataType::Null, kernel) }
    }

    /// A function whose argument types are checked together.
    pub fn with_coercion(
        names: &[&'static str],
        takes: &str,
        coercion: impl Fn(&[DataType]) -> Option<Vec<DataType>> + Send + Sync + 'static,
        result: impl Fn(&[DataType], &[Option<&ScalarValue>]) -> Result<DataType> + Send + Sync + 'static,
        kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Scalar {
        Scalar {
            name: names[0],
            aliases: names[1..].iter().map(ToString::to_string).collect(),
            takes: takes.to_owned(),
            coercion: Box::new(coercion),
            result: Box::new(result),
            kernel: Box::new(kernel),
            signature: Signature::user_defined(Volatility::Immutable),
            simplification: None,
            is_slow: false,
            growth: None,
        }
    }

    /// A function that can take long for one row: it is called for a few rows at a time, so that its statement can be
    /// cancelled between them.
    pub fn slow(self) -> Scalar {
        Scalar { is_slow: true, ..self }
    }

    /// Sets how much memory a call takes, where it is more than twice the arguments and the kernel does not count it.
    pub fn growing(self, growth: Growth) -> Scalar {
        Scalar { growth: Some(growth), ..self }
    }

    /// Sets the volatility of a function whose results differ per call or per statement.
    pub fn of_volatility(self, volatility: Volatility) -> Scalar {
        Scalar { signature: Signature::user_defined(volatility), ..self }
    }

    /// Sets the expression that replaces every call.
    pub fn simplified(self, simplification: impl Fn(Vec<Expr>) -> Expr + Send + Sync + 'static) -> Scalar {
        Scalar { simplification: Some(Box::new(simplification)), ..self }
    }

    fn wrong<T>(&self, types: &[DataType]) -> Result<T> {
        wrong_types(self.name, &self.takes, types)
    }
}

/// The types to which a form casts its arguments; `None` if it does not accept them.
fn accepted(form: &[Kind], types: &[DataType]) -> Option<Vec<DataType>> {
    let (fixed, rest) = match form.split_last() {
        Some((Kind::Rest, fixed)) => (fixed, true),
        _ => (form, false),
    };
    if types.len() < fixed.len() || !rest && types.len() > fixed.len() {
        return None;
    }
    types.iter().enumerate().map(|(at, given)| fixed.get(at).unwrap_or(&Kind::Any).accepts(given)).collect()
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scalar").field(&self.name).finish()
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Scalar) -> bool {
        self.name == other.name
    }
}

impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Wrong arguments are reported when the result's type is computed, because an error here would be wrapped.
        Ok((self.coercion)(types).unwrap_or_else(|| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.coercion)(types) {
            Some(types) => (self.result)(&types, &vec![None; types.len()]),
            None => self.wrong(types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let Some(types) = (self.coercion)(&types) else { return self.wrong(&types) };
        let field = Field::new(self.name, (self.result)(&types, args.scalar_arguments)?, true);
        Ok(Arc::new(match *field.data_type() == TEXT {
            true if makes_json(self.name) => field.with_metadata(text_types::made_json()),
            true if makes_jsonb(self.name) => field.with_metadata(text_types::made_jsonb()),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.signature.volatility == Volatility::Volatile {
            return evaluate_rows(args, |call| (self.kernel)(call));
        }
        let usual = Growth::Share(if growth::is_small(args.return_field.data_type()) { 0 } else { 2 });
        let growth = self.growth.unwrap_or(usual);
        let function = Function { name: self.name, growth, is_slow: self.is_slow };
        growth::in_steps(args, &function, &|args| evaluate(args, |call| (self.kernel)(call)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match &self.simplification {
            Some(simplification) => ExprSimplifyResult::Simplified(simplification(args)),
            None => ExprSimplifyResult::Original(args),
        })
    }
}
