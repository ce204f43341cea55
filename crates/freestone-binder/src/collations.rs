//! COLLATE around what is compared: the operands of comparisons and patterns, keys, and arguments of some functions.

use datafusion_expr::{Expr, LogicalPlan, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, Argument, ExprKind, ObjectName};

use crate::binder::Binder;
use crate::calls::Plain;
use crate::chains::plain;
use crate::error::{At, Result, invalid};
use crate::plans;

/// Functions that compare texts by the collation of one of them. `prefix`, `suffix` and others have none, as in DuckDB.
pub(crate) const COLLATED: [&str; 5] = ["contains", "starts_with", "strpos", "instr", "position"];

impl Binder<'_> {
    /// Applies the collation of one operand of a comparison to all of them.
    pub fn collate_operands(&mut self, written: &[&tree::Expr], values: &mut [Expr]) -> Result<()> {
        let mut found: Option<Vec<&'static str>> = None;
        for one in written {
            if let ExprKind::Collate { collation, .. } = &one.kind {
                let functions = collation_functions(collation)?;
                if found.as_ref().is_some_and(|found| *found != functions) {
                    return Err(
                        invalid(one.span, "a comparison has two collations").with_hint("give both operands the same")
                    );
                }
                found = Some(functions);
            }
        }
        for function in found.unwrap_or_default() {
            for value in values.iter_mut() {
                let taken = std::mem::take(value);
                *value = self.scalar_call(function, vec![taken], Span::default())?;
            }
        }
        Ok(())
    }

    /// A value that is compared, such as a key of ORDER BY, by its collation.
    pub fn collated(&mut self, written: &tree::Expr, value: Expr) -> Result<Expr> {
        let mut values = [value];
        self.collate_operands(&[written], &mut values)?;
        let [value] = values;
        Ok(value)
    }

    /// A value and the only column of a query with which it is compared, by the collation of the value.
    pub fn collate_query(
        &mut self,
        written: &tree::Expr,
        value: Expr,
        plan: LogicalPlan,
        span: Span,
    ) -> Result<(Expr, LogicalPlan)> {
        let ExprKind::Collate { .. } = written.kind else { return Ok((value, plan)) };
        let mut both = plans::columns(plan.schema());
        both.truncate(1);
        both.push(value);
        self.collate_operands(&[written], &mut both)?;
        let value = both.pop().unwrap_or_default();
        Ok((value, plans::project(plan, both).at(span)?))
    }

    /// The operand of COLLATE. Around it, the text may be compared; the collation is applied there.
    pub fn collate_without_effect(&mut self, operand: &tree::Expr, collation: &ObjectName, _: Span) -> Result<Expr> {
        collation_functions(collation)?;
        self.expression(operand)
    }

    /// Applies the collations of arguments of an aggregate, where it compares them.
    pub fn collate_arguments(&mut self, call: &Plain, values: &mut [Expr]) -> Result<()> {
        let has_effect = |argument: &Argument| match &argument.value.kind {
            ExprKind::Collate { collation, .. } => collation_functions(collation).map(|all| !all.is_empty()),
            _ => Ok(false),
        };
        for (at, (argument, value)) in call.arguments.iter().zip(values).enumerate() {
            if !has_effect(argument)? {
                continue;
            }
            match (call.name.as_str(), call.call.distinct, at) {
                ("count", true, _) | ("arg_min" | "arg_max" | "argmin" | "argmax" | "min_by" | "max_by", false, 1) => {
                    *value = self.collated(&argument.value, std::mem::take(value))?;
                }
                (name @ ("min" | "max"), ..) => {
                    let error = invalid(argument.value.span, format!("COLLATE is not available in {name}"));
                    return Err(error.with_hint(format!("write arg_{name}(text, lower(text))")));
                }
                (_, true, _) => {
                    let error = invalid(argument.value.span, "COLLATE is not available in an aggregate with DISTINCT");
                    return Err(error.with_hint("write lower(text), or strip_accents(text)"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// `nullif(a COLLATE NOCASE, b)`.
    pub fn nullif_collated(&mut self, arguments: [&tree::Expr; 2]) -> Result<Expr> {
        let mut both = [self.expression(arguments[0])?, self.expression(arguments[1])?];
        let value = both[0].clone();
        self.collate_operands(&arguments, &mut both)?;
        let [a, b] = both;
        let differs = Expr::IsNotTrue(Box::new(plain(Operator::Eq, a, b)));
        datafusion_expr::when(differs, value).end().at(arguments[0].span)
    }
}

/// The functions whose results are compared instead of the texts.
fn collation_functions(collation: &ObjectName) -> Result<Vec<&'static str>> {
    let mut functions = vec![];
    let parts = match collation.parts.as_slice() {
        [schema, parts @ ..] if !parts.is_empty() && schema.text == "pg_catalog" => parts,
        parts => parts,
    };
    for part in parts {
        match part.text.to_lowercase().as_str() {
            "c" | "posix" | "binary" | "default" | "ucs_basic" => {}
            "nocase" => functions.push("lower"),
            "noaccent" => functions.push("strip_accents"),
            "nfc" => functions.push("nfc_normalize"),
            _ => {
                let message = format!("collation {} is not available", crate::reading::shown(collation));
                return Err(invalid(collation.span, message).with_hint(
                    "collations are C, POSIX, BINARY, NOCASE, NOACCENT and NFC, in comparisons and ORDER BY",
                ));
            }
        }
    }
    Ok(functions)
}
