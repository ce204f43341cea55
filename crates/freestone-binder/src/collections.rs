//! Rows, lists, structs and maps, and their parts.

use datafusion_expr::{Expr, GetFieldAccess, Operator};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, Literal, Name};

use crate::binder::Binder;
use crate::chains::plain;
use crate::error::{At, Result};
use crate::expressions::{integer, text};

impl Binder<'_> {
    /// `(a, b)` or `ROW(a, b)`: a struct whose fields have no names of their own.
    pub fn row(&mut self, values: &[tree::Expr], span: Span) -> Result<Expr> {
        let values = self.expressions(values)?;
        self.scalar_call("struct", values, span)
    }

    /// `[a, b]`.
    pub fn list(&mut self, items: &[tree::Expr], span: Span) -> Result<Expr> {
        let items = self.expressions(items)?;
        self.list_of_values(items, span)
    }

    /// A list of values.
    pub fn list_of_values(&mut self, items: Vec<Expr>, span: Span) -> Result<Expr> {
        let schema = self.schema();
        self.world.functions.list(items, &schema).at(span)
    }

    /// `{'a': 1, 'b': 2}`.
    pub fn structure(&mut self, fields: &[(Name, tree::Expr)], span: Span) -> Result<Expr> {
        let mut arguments = vec![];
        for (name, value) in fields {
            arguments.push(text(&name.text));
            arguments.push(self.expression(value)?);
        }
        self.scalar_call("named_struct", arguments, span)
    }

    /// `MAP {'a': 1}`.
    pub fn map(&mut self, entries: &[(tree::Expr, tree::Expr)], span: Span) -> Result<Expr> {
        let (mut keys, mut values) = (vec![], vec![]);
        for (key, value) in entries {
            keys.push(self.expression(key)?);
            values.push(self.expression(value)?);
        }
        let arguments = vec![self.list_of_values(keys, span)?, self.list_of_values(values, span)?];
        self.scalar_call("map", arguments, span)
    }

    /// `a[1]`, `a['key']`.
    pub fn subscript(&mut self, operand: &tree::Expr, index: &tree::Expr, span: Span) -> Result<Expr> {
        let value = self.expression(operand)?;
        if let ExprKind::Literal(Literal::Text(name)) = &index.kind {
            return self.field_named(value, name, span);
        }
        let access = GetFieldAccess::ListIndex { key: Box::new(self.expression(index)?) };
        let schema = self.schema();
        self.world.functions.access(value, access, &schema).at(span)
    }

    /// `a[1:2]`, `a[1:-:2]`.
    pub fn slice(&mut self, slice: &tree::Slice, span: Span) -> Result<Expr> {
        let value = self.expression(&slice.operand)?;
        let stride = match &slice.step {
            Some(step) => self.expression(step)?,
            None => integer(1),
        };
        // Backwards, from the end to the start.
        let open = |forwards: i64, backwards: i64| match &slice.step {
            None => Ok(integer(forwards)),
            Some(_) => {
                let is_back = plain(Operator::Lt, stride.clone(), integer(0));
                datafusion_expr::when(is_back, integer(backwards)).otherwise(integer(forwards)).at(span)
            }
        };
        let start = match &slice.low {
            Some(low) => self.expression(low)?,
            None => open(1, -1)?,
        };
        let stop = match &slice.high {
            Some(high) => self.expression(high)?,
            None => open(-1, 1)?,
        };
        let access =
            GetFieldAccess::ListRange { start: Box::new(start), stop: Box::new(stop), stride: Box::new(stride) };
        let schema = self.schema();
        self.world.functions.access(value, access, &schema).at(span)
    }
}
