//! Rows, lists, structs and maps, and their parts.

use datafusion_expr::{Expr, GetFieldAccess};
use freestone_sql::Span;
use freestone_sql::tree::{self, ExprKind, Literal, Name};

use crate::binder::Binder;
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
        let mut bound = |written: &Option<tree::Expr>, open: i64| match written {
            Some(written) => self.expression(written),
            None => Ok(integer(open)),
        };
        let (start, stop, stride) = (bound(&slice.low, 1)?, bound(&slice.high, -1)?, bound(&slice.step, 1)?);
        let access =
            GetFieldAccess::ListRange { start: Box::new(start), stop: Box::new(stop), stride: Box::new(stride) };
        let schema = self.schema();
        self.world.functions.access(value, access, &schema).at(span)
    }
}
