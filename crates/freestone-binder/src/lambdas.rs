//! Functions that take lambdas, and comprehensions of lists.

use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion_common::datatype::FieldExt;
use datafusion_expr::expr::{HigherOrderFunction, Lambda, LambdaVariable};
use datafusion_expr::type_coercion::functions::value_fields_with_higher_order_udf;
use datafusion_expr::{Expr, ExprSchemable, HigherOrderUDF, LambdaParametersProgress, ValueOrLambda};
use freestone_sql::Span;
use freestone_sql::tree::{self, Argument, ExprKind, Name};

use crate::binder::Binder;
use crate::calls::Plain;
use crate::error::{At, Result, invalid};
use crate::expressions::text;
use crate::scopes::Local;

/// The functions of lists whose lambda may also take the position.
const TRANSFORM: &str = "freestone_transform_at";
const FILTER: &str = "freestone_filter_at";

/// An argument before the types of lambdas are known.
enum Part<'a> {
    Value(Expr),
    Lambda(&'a [Name], &'a tree::Expr),
}

impl Binder<'_> {
    /// A call with lambdas among its arguments.
    pub fn call_with_lambdas(&mut self, plain: &Plain) -> Result<Expr> {
        self.without_clauses(plain)?;
        let mut parts = vec![];
        for argument in &plain.arguments {
            parts.push(match &argument.value.kind {
                ExprKind::Lambda { parameters, body } => Part::Lambda(parameters, body),
                _ => Part::Value(self.expression(&argument.value)?),
            });
        }
        let has_lambda = parts.iter().any(|part| matches!(part, Part::Lambda(..)));
        let name = match plain.name.as_str() {
            "list_transform" | "array_transform" | "list_apply" | "array_apply" | "apply" if has_lambda => TRANSFORM,
            "list_filter" | "array_filter" | "filter" if has_lambda => FILTER,
            other => other,
        };
        let Some(function) = self.world.functions.higher_order(name) else {
            return match self.world.functions.scalar(name) {
                Some(_) => Err(invalid(plain.span, format!("{} takes no lambda", plain.name))),
                None => Err(self.no_function(&plain.name, plain.span)),
            };
        };
        self.of_higher_order(function, parts, plain.span)
    }

    /// `invoke(lambda x, y: x + y, 1, 2)`: the value of a lambda for these arguments.
    pub fn invoked(&mut self, arguments: &[Argument], span: Span) -> Result<Expr> {
        let no_lambda = || invalid(span, "the first argument of invoke is a lambda");
        let [lambda, arguments @ ..] = arguments else { return Err(no_lambda()) };
        let ExprKind::Lambda { parameters, body } = &lambda.value.kind else { return Err(no_lambda()) };
        if parameters.len() != arguments.len() {
            let message = format!("this lambda takes {} arguments, not {}", parameters.len(), arguments.len());
            return Err(invalid(span, message));
        }
        let mut values = vec![];
        for (parameter, argument) in parameters.iter().zip(arguments) {
            let value = self.expression(&argument.value)?;
            if value.is_volatile() {
                let error = invalid(argument.value.span, "an argument of invoke has another value each time");
                return Err(error.with_hint("name its value in a subquery"));
            }
            values.push((parameter.text.clone(), value));
        }
        self.with_arguments(values, span, |binder| binder.expression(body))
    }

    fn of_higher_order(&mut self, function: Arc<HigherOrderUDF>, parts: Vec<Part>, span: Span) -> Result<Expr> {
        let schema = self.schema();
        let mut fields: Vec<ValueOrLambda<FieldRef, ()>> = vec![];
        for part in &parts {
            fields.push(match part {
                Part::Value(value) => ValueOrLambda::Value(value.to_field(&schema).at(span)?.1),
                Part::Lambda(..) => ValueOrLambda::Lambda(()),
            });
        }
        let coerced = value_fields_with_higher_order_udf(&fields, &function).at(span)?;
        let mut known: Vec<ValueOrLambda<FieldRef, Option<FieldRef>>> = coerced
            .into_iter()
            .map(|part| match part {
                ValueOrLambda::Value(field) => ValueOrLambda::Value(field),
                ValueOrLambda::Lambda(()) => ValueOrLambda::Lambda(None),
            })
            .collect();
        let limit = function.signature().lambda_parameters_max_iterations;
        for step in 0..=limit {
            match function.lambda_parameters(step, &known).at(span)? {
                LambdaParametersProgress::Complete(parameters) => {
                    let arguments = self.with_parameters(parts, parameters, span)?;
                    return Ok(Expr::HigherOrderFunction(HigherOrderFunction::new(function, arguments)));
                }
                LambdaParametersProgress::Partial(parameters) => {
                    self.learn_results(&parts, parameters, &mut known, span)?;
                }
            }
        }
        Err(invalid(span, format!("{} does not take these lambdas", function.name())))
    }

    /// The arguments with their lambdas.
    fn with_parameters(&mut self, parts: Vec<Part>, parameters: Vec<Vec<FieldRef>>, span: Span) -> Result<Vec<Expr>> {
        let mut parameters = parameters.into_iter();
        let mut arguments = vec![];
        for part in parts {
            arguments.push(match part {
                Part::Value(value) => value,
                Part::Lambda(names, body) => {
                    let Some(fields) = parameters.next() else {
                        return Err(invalid(span, "there are too many lambdas"));
                    };
                    Expr::Lambda(self.lambda(names, body, fields, span)?)
                }
            });
        }
        Ok(arguments)
    }

    /// The types of the results of those lambdas whose parameters are known.
    fn learn_results(
        &mut self,
        parts: &[Part],
        parameters: Vec<Option<Vec<FieldRef>>>,
        known: &mut [ValueOrLambda<FieldRef, Option<FieldRef>>],
        span: Span,
    ) -> Result<()> {
        let schema = self.schema();
        let mut parameters = parameters.into_iter();
        for (part, field) in parts.iter().zip(known) {
            if let (Part::Lambda(names, body), ValueOrLambda::Lambda(field)) = (part, field)
                && let Some(Some(fields)) = parameters.next()
            {
                let lambda = self.lambda(names, body, fields, span)?;
                *field = Some(lambda.body.to_field(&schema).at(span)?.1);
            }
        }
        Ok(())
    }

    fn lambda(&mut self, names: &[Name], body: &tree::Expr, fields: Vec<FieldRef>, span: Span) -> Result<Lambda> {
        if names.len() > fields.len() {
            return Err(invalid(span, format!("the lambda takes {} names, and has {}", fields.len(), names.len())));
        }
        let (before, depth) = (self.locals.len(), self.scopes.len());
        for (name, field) in names.iter().zip(fields) {
            let field = field.renamed(&name.text);
            let value = Expr::LambdaVariable(LambdaVariable::new(name.text.clone(), Some(field)));
            self.locals.push(Local { name: name.text.clone(), value, depth });
        }
        let bound = self.expression(body);
        self.locals.truncate(before);
        Ok(Lambda::new(names.iter().map(|name| name.text.clone()).collect(), bound?))
    }

    /// `[value FOR item, position IN list IF condition]`: a filter and a transformation of the list.
    pub fn comprehension(&mut self, written: &tree::Comprehension, span: Span) -> Result<Expr> {
        let lambda = |body: &tree::Expr| lambda_of(written.names.clone(), body.clone(), span);
        let Some(condition) = &written.condition else {
            return self.call_of("list_transform", vec![written.list.clone(), lambda(&written.value)], span);
        };
        if written.names.len() == 1 {
            let kept = tree_call("list_filter", vec![written.list.clone(), lambda(condition)], span);
            return self.call_of("list_transform", vec![kept, lambda(&written.value)], span);
        }
        // The position is that in the whole list: values and conditions are computed together, and then filtered.
        let name = |text: &str| Name { text: text.to_owned(), quoted: true, span };
        let case =
            tree::Case { operand: None, branches: vec![(condition.clone(), written.value.clone())], otherwise: None };
        let value = tree::Expr { kind: ExprKind::Case(Box::new(case)), span };
        let both = ExprKind::Struct(vec![(name("kept"), condition.clone()), (name("value"), value)]);
        let entries =
            tree_call("list_transform", vec![written.list.clone(), lambda(&tree::Expr { kind: both, span })], span);
        let field = |field: &str| {
            let entry = tree::ObjectName { parts: vec![name("__entry"), name(field)], span };
            lambda_of(vec![name("__entry")], tree::Expr { kind: ExprKind::Column(entry), span }, span)
        };
        let kept = tree_call("list_filter", vec![entries, field("kept")], span);
        self.call_of("list_transform", vec![kept, field("value")], span)
    }

    /// The list of what a rule makes of each item of a list.
    pub fn each_item(
        &mut self,
        list: Expr,
        item: &FieldRef,
        span: Span,
        rule: impl FnOnce(&mut Self, Expr) -> Result<Expr>,
    ) -> Result<Expr> {
        let Some(function) = self.world.functions.higher_order(TRANSFORM) else {
            return Err(self.no_function(TRANSFORM, span));
        };
        let name = self.qualifiers.next("__item");
        let variable = LambdaVariable::new(name.clone(), Some(item.clone().renamed(&name)));
        let body = rule(self, Expr::LambdaVariable(variable))?;
        let arguments = vec![list, Expr::Lambda(Lambda::new(vec![name], body))];
        Ok(Expr::HigherOrderFunction(HigherOrderFunction::new(function, arguments)))
    }

    fn call_of(&mut self, name: &str, arguments: Vec<tree::Expr>, span: Span) -> Result<Expr> {
        let call = tree_call(name, arguments, span);
        self.expression(&call)
    }

    /// A field of a value by its name.
    pub fn get_field(&mut self, value: Expr, name: &str, span: Span) -> Result<Expr> {
        self.scalar_call("get_field", vec![value, text(name)], span)
    }
}

fn lambda_of(parameters: Vec<Name>, body: tree::Expr, span: Span) -> tree::Expr {
    tree::Expr { kind: ExprKind::Lambda { parameters, body: Box::new(body) }, span }
}

/// A call as a tree.
pub(crate) fn tree_call(name: &str, arguments: Vec<tree::Expr>, span: Span) -> tree::Expr {
    let arguments = arguments.into_iter().map(|value| Argument { name: None, value }).collect();
    let name = Name { text: name.to_owned(), quoted: false, span };
    let call = tree::Call::of(tree::ObjectName { parts: vec![name], span }, arguments);
    tree::Expr { kind: ExprKind::Call(Box::new(call)), span }
}
