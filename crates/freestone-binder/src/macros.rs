//! Macros: expressions and queries with parameters.

use datafusion_expr::Expr;
use freestone_sql::tree::Argument;
use freestone_sql::{Span, tree::Query};

use crate::binder::Binder;
use crate::calls::Plain;
use crate::error::{Result, invalid};
use crate::plans::Rows;
use crate::world::{Macro, MacroBody};

impl Binder<'_> {
    /// A call of a macro that stands for a value.
    pub fn macro_call(&mut self, plain: &Plain) -> Result<Option<Expr>> {
        let Some(known) = self.world.catalog.macro_of(&plain.name) else { return Ok(None) };
        let MacroBody::Value(body) = &known.body else {
            return Err(
                invalid(plain.span, format!("{} is a macro for tables", plain.name)).with_hint("name it in FROM")
            );
        };
        let call = plain.call;
        if call.over.is_some() || call.filter.is_some() || !call.within_group.is_empty() {
            return Err(invalid(plain.span, format!("OVER and FILTER of the macro {} are not available", plain.name))
                .with_hint("write them in the macro"));
        }
        let values = self.macro_arguments(&plain.name, &known, &plain.arguments, plain.span)?;
        self.with_arguments(values, plain.span, |binder| binder.expression(body)).map(Some)
    }

    /// The rows of a macro in FROM; the query it stands for.
    pub fn macro_rows(&mut self, name: &str, arguments: &[Argument], span: Span) -> Result<Option<Rows>> {
        let Some(known) = self.world.catalog.macro_of(name) else { return Ok(None) };
        let MacroBody::Rows(body) = &known.body else { return Ok(None) };
        let values = self.macro_arguments(name, &known, arguments, span)?;
        let body: &Query = body;
        self.with_arguments(values, span, |binder| binder.query(body)).map(Some)
    }

    /// The values of a macro's parameters in a call: by position, by name, or the defaults.
    fn macro_arguments(
        &mut self,
        name: &str,
        known: &Macro,
        arguments: &[Argument],
        span: Span,
    ) -> Result<Vec<(String, Expr)>> {
        let parameters: Vec<&str> = known.parameters.iter().map(|(name, _)| name.as_str()).collect();
        let wrong = || {
            invalid(span, format!("macro {name} takes the parameters ({})", parameters.join(", ")))
                .with_hint("give each by its position, or as name := value")
        };
        let mut values: Vec<(String, Expr)> = vec![];
        for (at, argument) in arguments.iter().enumerate() {
            let parameter = match &argument.name {
                Some(name) => parameters.iter().find(|own| **own == name.text),
                None => parameters.get(at),
            };
            let parameter = (*parameter.ok_or_else(wrong)?).to_owned();
            if values.iter().any(|(own, _)| *own == parameter) {
                return Err(wrong());
            }
            values.push((parameter, self.expression(&argument.value)?));
        }
        for (parameter, default) in &known.parameters {
            if values.iter().any(|(own, _)| own == parameter) {
                continue;
            }
            let default = default.as_ref().ok_or_else(wrong)?;
            values.push((parameter.clone(), self.expression(default)?));
        }
        Ok(values)
    }
}
