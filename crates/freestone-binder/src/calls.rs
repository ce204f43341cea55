//! Calls of functions: by their names, of values, of aggregates, and with lambdas.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion_expr::arguments::{ArgumentName, resolve_function_arguments};
use datafusion_expr::expr::{AggregateFunction, NullTreatment, ScalarFunction};
use datafusion_expr::planner::{PlannerResult, RawAggregateExpr};
use datafusion_expr::utils::COUNT_STAR_EXPANSION;
use datafusion_expr::{AggregateUDF, Cast, Expr, ExprSchemable, ScalarUDF, SortExpr, Volatility};
use freestone_sql::Span;
use freestone_sql::tree::{self, Argument, Call, ExprKind, ObjectName};

use crate::binder::Binder;
use crate::chains::conjunction;
use crate::collations::COMPARING;
use crate::definitions::Clauses;
use crate::error::{At, BindError, Result, invalid, unknown};
use crate::expressions::integer;
use crate::scopes::is_default;
use crate::select::Item;
use crate::types::{SqlType, list_of};

/// The schemas of functions that every database has.
const SYSTEM_SCHEMAS: [&str; 3] = ["system", "pg_catalog", "information_schema"];

/// Functions whose arguments are the fields of a struct.
const NAMED_FIELDS: [&str; 3] = ["struct_pack", "struct_insert", "struct_update"];

/// A call whose name is that of a function alone, with the value before the point of a method among its arguments.
pub(crate) struct Plain<'a> {
    pub name: String,
    pub quoted: bool,
    pub arguments: Vec<Argument>,
    pub call: &'a Call,
    pub span: Span,
}

/// Arguments with their names.
pub(crate) struct Arguments {
    pub values: Vec<Expr>,
    pub names: Vec<Option<ArgumentName>>,
}

impl Binder<'_> {
    /// A call with the name of its function. In `s.m(…)`, `s` is the schema of a macro if there is one, and otherwise the value
    /// before a method.
    pub fn plain<'c>(&self, call: &'c Call, span: Span) -> Result<Plain<'c>> {
        if let ([schema, own], None) = (call.name.parts.as_slice(), &call.receiver) {
            let name = format!("{}.{}", schema.text, own.text);
            if self.world.catalog.has_macro(&name) {
                return Ok(Plain { name, quoted: true, arguments: call.arguments.clone(), call, span });
            }
        }
        plain(call, span)
    }

    /// A call.
    pub fn call(&mut self, call: &Call, span: Span) -> Result<Expr> {
        let mut plain = self.plain(call, span)?;
        let before = self.locals.len();
        if plain.arguments.iter().any(|argument| matches!(argument.value.kind, ExprKind::Unpacked(_))) {
            let has_names = NAMED_FIELDS.contains(&plain.name.as_str());
            plain.arguments = self.with_unpacked(plain.arguments, has_names)?;
        }
        let value = self.plain_call(plain);
        self.locals.truncate(before);
        value
    }

    fn plain_call(&mut self, mut plain: Plain) -> Result<Expr> {
        let (call, span) = (plain.call, plain.span);
        if let ("histogram" | "histogram_exact", [_, bins]) = (plain.name.as_str(), &mut *plain.arguments) {
            with_small_integers(&mut bins.value)?;
        }
        if let Some(value) = self.special_function(&plain)? {
            return Ok(value);
        }
        if let Some(value) = self.macro_call(&plain)? {
            return Ok(value);
        }
        if let Some(value) = self.defined_call(&plain)? {
            return Ok(value);
        }
        let compares = COMPARING.contains(&plain.name.as_str());
        if let Some(other) = self.world.functions.synonym(&plain.name).filter(|_| !plain.quoted) {
            plain.name = other.to_owned();
        }
        if plain.arguments.iter().any(|argument| matches!(argument.value.kind, ExprKind::Lambda { .. })) {
            return self.call_with_lambdas(&plain);
        }
        let functions = self.world.functions;
        if call.over.is_some() {
            return self.window_call(&plain);
        }
        if let Some(function) = functions.scalar(&plain.name) {
            self.without_clauses(&plain)?;
            let arguments = self.arguments(&plain.arguments)?;
            let names = function.signature().parameter_names.clone();
            let mut values = positional(arguments, names, span)?;
            if compares {
                self.collate_operands(&mut values, span)?;
            }
            if plain.name == "concat" && self.are_lists(&values) {
                return self.scalar_call("list_concat", values, span);
            }
            let values = match plain.name.as_str() {
                "coalesce" => self.with_typed_nulls(values),
                "format" | "printf" | "array_to_string" => self.as_shown(values, span)?,
                "substr" | "substring" => return self.part_of_text(values, span),
                "nullif" if self.are_collated(&values) => return self.nullif_collated(values, span),
                "list_resize" | "array_resize" => return self.resized(values, span),
                _ => values,
            };
            return self.of_texts(function, &plain.name, values, span);
        }
        if functions.higher_order(&plain.name).is_some() {
            return self.call_with_lambdas(&plain);
        }
        if let Some(function) = functions.aggregate(&plain.name) {
            return self.aggregate_call(&plain, function);
        }
        if functions.window(&plain.name).is_some() {
            return Err(invalid(span, format!("{} is a window function", plain.name))
                .with_hint(format!("write {}(…) OVER (…)", plain.name)));
        }
        Err(self.no_function(&plain.name, call.name.span))
    }

    /// Values of which NULL, and parameters of no type, have the type of the others, if those are all of one.
    fn with_typed_nulls(&self, values: Vec<Expr>) -> Vec<Expr> {
        let schema = self.schema();
        let types: Option<Vec<DataType>> = values.iter().map(|value| value.get_type(&schema).ok()).collect();
        let Some(types) = types else { return values };
        let mut typed = types.iter().filter(|kind| **kind != DataType::Null);
        let Some(common) = typed.next().filter(|first| typed.all(|other| other == *first)) else { return values };
        let with_type = |(value, kind): (Expr, &DataType)| match kind {
            DataType::Null => Expr::Cast(Cast::new(Box::new(value), common.clone())),
            _ => value,
        };
        values.into_iter().zip(&types).map(with_type).collect()
    }

    /// Values that become texts, times and dates among them, as a cast shows them. A list has such items.
    fn as_shown(&mut self, values: Vec<Expr>, span: Span) -> Result<Vec<Expr>> {
        let is_time = |kind: &DataType| kind.is_temporal();
        let schema = self.schema();
        let shown = values.into_iter().map(|value| match value.get_type(&schema) {
            Ok(kind) if is_time(&kind) => self.cast_to(value, SqlType::Plain(DataType::Utf8View), false, span),
            Ok(DataType::List(item) | DataType::FixedSizeList(item, _)) if is_time(item.data_type()) => {
                self.cast_to(value, SqlType::Plain(list_of(DataType::Utf8View)), false, span)
            }
            _ => Ok(value),
        });
        shown.collect()
    }

    /// Whether all values but NULL are lists, and one is.
    fn are_lists(&self, values: &[Expr]) -> bool {
        let schema = self.schema();
        let types: Option<Vec<DataType>> = values.iter().map(|value| value.get_type(&schema).ok()).collect();
        let is_list = |kind: &DataType| matches!(kind, DataType::List(_) | DataType::FixedSizeList(..));
        types.is_some_and(|types| {
            types.iter().any(is_list) && types.iter().all(|kind| is_list(kind) || *kind == DataType::Null)
        })
    }

    /// A call of a function of values.
    pub fn scalar_call(&mut self, name: &str, arguments: Vec<Expr>, span: Span) -> Result<Expr> {
        match self.world.functions.scalar(name) {
            Some(function) => self.of_texts(function, name, arguments, span),
            None => Err(self.no_function(name, span)),
        }
    }

    /// A call whose arguments may be texts with collations.
    fn of_texts(&mut self, function: Arc<ScalarUDF>, name: &str, mut values: Vec<Expr>, span: Span) -> Result<Expr> {
        if !self.has_collations {
            return Ok(self.of_scalar(function, values));
        }
        self.compared_arguments(name, &mut values, span)?;
        let given = values.clone();
        let call = self.of_scalar(function, values);
        self.of_collated(call, &given, span)
    }

    fn of_scalar(&mut self, function: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
        self.is_volatile |= function.signature().volatility == Volatility::Volatile;
        let arguments = self.world.functions.nested_json(function.name(), arguments, &self.schema());
        Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
    }

    /// Arguments of a call.
    pub fn arguments(&mut self, written: &[Argument]) -> Result<Arguments> {
        let mut arguments = Arguments { values: vec![], names: vec![] };
        for argument in written {
            arguments.values.push(self.expression(&argument.value)?);
            let name = argument.name.as_ref();
            arguments.names.push(name.map(|name| ArgumentName { value: name.text.clone(), is_quoted: name.quoted }));
        }
        Ok(arguments)
    }

    /// Refuses clauses of a call that only aggregates have.
    pub fn without_clauses(&self, plain: &Plain) -> Result<()> {
        let call = plain.call;
        let clause = match () {
            () if call.distinct => "DISTINCT",
            () if !call.order_by.is_empty() => "ORDER BY",
            () if call.filter.is_some() => "FILTER",
            () if !call.within_group.is_empty() => "WITHIN GROUP",
            () if call.ignore_nulls.is_some() => "IGNORE NULLS",
            () if call.over.is_some() => "OVER",
            () => return Ok(()),
        };
        Err(invalid(plain.span, format!("{clause} does not go with {}: it belongs to aggregates", plain.name)))
    }

    /// A call of an aggregate over groups.
    fn aggregate_call(&mut self, plain: &Plain, func: Arc<AggregateUDF>) -> Result<Expr> {
        let (call, span) = (plain.call, plain.span);
        let null_treatment = call.ignore_nulls.map(null_treatment);
        if null_treatment.is_some() && !func.supports_null_handling_clause() {
            return Err(invalid(span, format!("{} takes no IGNORE NULLS or RESPECT NULLS", plain.name)));
        }
        let mut arguments = self.aggregate_arguments(plain)?;
        let order_by = self.order_in_call(plain, &func, &mut arguments)?;
        let filter = call.filter.as_ref().map(|condition| self.expression(condition)).transpose()?.map(Box::new);
        let mut args = positional(arguments, func.signature().parameter_names.clone(), span)?;
        let given = if self.has_collations { args.clone() } else { vec![] };
        let func = self.collated_aggregate(func, call.distinct, &mut args, span)?;
        let raw = RawAggregateExpr { func, args, distinct: call.distinct, filter, order_by, null_treatment };
        let value = match self.world.functions.aggregate_call(raw).at(span)? {
            PlannerResult::Planned(value) => value.unalias(),
            PlannerResult::Original(raw) => Expr::AggregateFunction(AggregateFunction::new_udf(
                raw.func,
                raw.args,
                raw.distinct,
                raw.filter,
                raw.order_by,
                raw.null_treatment,
            )),
        };
        self.of_collated(value, &given, span)
    }

    /// Arguments of an aggregate: `*` counts rows.
    pub fn aggregate_arguments(&mut self, plain: &Plain) -> Result<Arguments> {
        let all = || Arguments { values: vec![Expr::Literal(COUNT_STAR_EXPANSION, None)], names: vec![None] };
        match plain.arguments.as_slice() {
            [] if plain.name == "count" => Ok(all()),
            [Argument { name: None, value: tree::Expr { kind: ExprKind::Star(star), span } }] => {
                let columns =
                    if plain.call.distinct || star.qualifier.is_some() { self.star(star, *span)? } else { vec![] };
                match plain.name.as_str() {
                    "count" if plain.call.distinct => {
                        let value = self.whole_row(columns, *span)?;
                        Ok(Arguments { values: vec![value], names: vec![None] })
                    }
                    "count" => match self.row_of_outer_join(star, columns, *span)? {
                        Some(value) => Ok(Arguments { values: vec![value], names: vec![None] }),
                        None => Ok(all()),
                    },
                    _ => Err(invalid(*span, format!("{} does not take *", plain.name))),
                }
            }
            [_, second, ..] if plain.name == "count" && !plain.call.distinct => {
                Err(invalid(second.value.span, "count takes one value").with_hint("count(*) counts rows"))
            }
            arguments => self.arguments(arguments),
        }
    }

    /// What is NULL in the rows in which an outer join has found no row for the table of a star: the place of a stored row, or
    /// without one whether a column has a value. `None` if each row has one.
    fn row_of_outer_join(&mut self, star: &tree::Star, columns: Vec<Item>, span: Span) -> Result<Option<Expr>> {
        let Some(qualifier) = &star.qualifier else { return Ok(None) };
        let names: Vec<(&str, bool)> = qualifier.parts.iter().map(|part| (part.text.as_str(), part.quoted)).collect();
        let scope = self.scope();
        let relation = scope.relations_of(&names).first().and_then(|at| scope.relations.get(*at));
        let Some(relation) = relation.filter(|relation| relation.is_optional) else { return Ok(None) };
        if let Some((_, place)) = &relation.hidden {
            return Ok(Some(Expr::Column(place.clone())));
        }
        let values = columns.into_iter().map(|column| column.value).collect();
        let known = self.scalar_call("num_nonnulls", values, span)?;
        self.scalar_call("nullif", vec![known, integer(0)], span).map(Some)
    }

    /// The values of columns as one; NULL where one of them is.
    fn whole_row(&mut self, columns: Vec<Item>, span: Span) -> Result<Expr> {
        let values: Vec<Expr> = columns.into_iter().map(|column| column.value).collect();
        if let [only] = values.as_slice() {
            return Ok(only.clone());
        }
        let known = values.iter().cloned().map(|value| Expr::IsNotNull(Box::new(value)));
        let Some(known) = conjunction(known) else { return Err(invalid(span, "the star stands for no column")) };
        let row = self.scalar_call("struct", values, span)?;
        datafusion_expr::when(known, row).end().at(span)
    }

    /// The order of the rows of an aggregate. That of WITHIN GROUP gives the first argument.
    fn order_in_call(
        &mut self,
        plain: &Plain,
        function: &AggregateUDF,
        arguments: &mut Arguments,
    ) -> Result<Vec<SortExpr>> {
        let (call, span) = (plain.call, plain.span);
        let of_set = function.supports_within_group_clause()
            || matches!(function.name(), "percentile_cont" | "approx_percentile_cont")
            || matches!(plain.name.as_str(), "quantile_cont" | "approx_percentile_cont_with_weight");
        if function.name() == "mode" && arguments.values.is_empty() && call.order_by.is_empty() {
            let keys = self.sorts(&call.within_group)?;
            arguments.values.extend(keys.first().map(|key| key.expr.clone()));
            arguments.names.extend(keys.first().map(|_| None));
            return if keys.len() > 1 { Err(invalid(span, "WITHIN GROUP has one key")) } else { Ok(keys) };
        }
        if !call.within_group.is_empty() && !of_set {
            return Err(invalid(span, format!("{} takes no WITHIN GROUP", plain.name)));
        }
        if !call.within_group.is_empty() && !call.order_by.is_empty() {
            return Err(invalid(span, "an aggregate has either ORDER BY or WITHIN GROUP"));
        }
        if !of_set {
            return self.sorts(&call.order_by);
        }
        let keys = match call.within_group.as_slice() {
            [] if call.order_by.is_empty() => return Ok(vec![]),
            [] => {
                // `quantile_cont(value, part ORDER BY value)`
                if arguments.values.len() >= 2 {
                    arguments.values.remove(0);
                    arguments.names.remove(0);
                }
                self.sorts(&call.order_by)?
            }
            keys => self.sorts(keys)?,
        };
        match keys.as_slice() {
            [only] => {
                arguments.values.insert(0, only.expr.clone());
                arguments.names.insert(0, None);
                Ok(keys)
            }
            _ => Err(invalid(span, "WITHIN GROUP has one key")),
        }
    }

    /// The error of a call of something that is no function.
    pub fn no_function(&self, name: &str, span: Span) -> Box<BindError> {
        let functions = self.world.functions;
        if let Some(error) = functions.missing(name, span) {
            return Box::new(error);
        }
        let names = functions.names();
        unknown(span, "function", name, names.iter().map(String::as_str))
    }
}

/// A list of integers that are written as such is one of INTEGER where they fit: the last key of a histogram depends on it.
fn with_small_integers(list: &mut tree::Expr) -> Result<()> {
    let is_small = |item: &tree::Expr| match &item.kind {
        ExprKind::Literal(tree::Literal::Number(number)) => number.parse::<i32>().is_ok(),
        _ => false,
    };
    let ExprKind::List(items) = &list.kind else { return Ok(()) };
    if items.is_empty() || !items.iter().all(is_small) {
        return Ok(());
    }
    let span = list.span;
    let data_type = freestone_sql::parse_type("INTEGER[]").map_err(|error| invalid(span, error.to_string()))?;
    let data_type = Box::new(data_type);
    let operand = Box::new(std::mem::replace(list, tree::Expr { kind: ExprKind::Literal(tree::Literal::Null), span }));
    list.kind = ExprKind::Cast { operand, data_type, form: tree::CastForm::Cast };
    Ok(())
}

/// The clauses of a call that belong to aggregates.
pub(crate) fn clauses_of(call: &Call) -> Option<Clauses> {
    let clauses = Clauses {
        distinct: call.distinct,
        order_by: call.order_by.clone(),
        ignore_nulls: call.ignore_nulls,
        filter: call.filter.clone(),
        over: call.over.clone(),
    };
    let is_any = clauses.distinct
        || !clauses.order_by.is_empty()
        || clauses.ignore_nulls.is_some()
        || clauses.filter.is_some()
        || clauses.over.is_some();
    is_any.then_some(clauses)
}

/// The name of a call and its arguments, with that before the point.
fn plain(call: &Call, span: Span) -> Result<Plain<'_>> {
    let (mut arguments, mut parts) = (call.arguments.clone(), call.name.parts.as_slice());
    let method = |value| Argument { name: None, value };
    if let Some(receiver) = &call.receiver {
        arguments.insert(0, method(receiver.clone()));
    }
    if let [schema, function @ ..] = parts
        && function.len() == 1
        && (is_default(&schema.text) || SYSTEM_SCHEMAS.contains(&schema.text.as_str()))
    {
        parts = function;
    }
    let Some((last, before)) = parts.split_last() else { return Err(invalid(span, "a call has a name")) };
    if !before.is_empty() {
        let name = ObjectName { parts: before.to_vec(), span: call.name.span };
        let value = tree::Expr { kind: ExprKind::Column(name), span: call.name.span };
        arguments.insert(0, method(value));
    }
    Ok(Plain { name: last.text.clone(), quoted: last.quoted, arguments, call, span })
}

/// Arguments in the order of the function's parameters.
pub(crate) fn positional(arguments: Arguments, parameters: Option<Vec<String>>, span: Span) -> Result<Vec<Expr>> {
    let Arguments { values, names } = arguments;
    if names.iter().all(Option::is_none) {
        return Ok(values);
    }
    match parameters {
        Some(parameters) => resolve_function_arguments(&parameters, values, names).at(span),
        None => Err(invalid(span, "this function takes no arguments by name").with_hint("give them by position")),
    }
}

/// What IGNORE NULLS (true) or RESPECT NULLS is.
pub(crate) fn null_treatment(ignores: bool) -> NullTreatment {
    if ignores { NullTreatment::IgnoreNulls } else { NullTreatment::RespectNulls }
}
