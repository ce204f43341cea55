//! The functions and operators of a session, as the binder asks for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue, not_impl_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::functions_nested::expr_fn::{array_has, array_max, array_min, cardinality};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr, RawWindowExpr,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Cast, Expr, ExprSchemable, GetFieldAccess, HigherOrderUDF, LogicalPlan, Operator,
    ScalarUDF, TableSource, WindowUDF, lit, when,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use freestone_binder::{BindError, Definition, ErrorKind as Kind, Functions, Settings, TableArgument};
use freestone_sql::Span;
use freestone_sql::tree::{self, BinaryOperator, IntervalUnit};

use super::Answers;
use super::catalog::{of_function, source_of, text};
use super::json_parts::{self, is_json_value, is_jsonb, is_untyped};
use crate::catalog::Scope;
use crate::error::ErrorKind;
use crate::normal_texts::NormalText;
use crate::optimizer::in_list_function;
use crate::planning::analyzed_schema;
use crate::provider::files::{FILE_FUNCTIONS, SNIFF};
use crate::provider::metadata;
use crate::scalars::{bits, jsonb, spans};
use crate::settings::{self, Nulls};
use crate::sql::function_macros::{self, JSON_PART};
use crate::sql::json_conversion::conversion as json_conversion;
use crate::sql::names::name_in;
use crate::sql::option_lists;
use crate::sql::statement::quote;
use crate::sql::summary;
use crate::sql::text_types::CAST_NORMAL;
use crate::table_functions::evaluated;
use crate::temp_schema::TempSchema;
use crate::text_types::made;
use crate::times::{DateOrder, TextOf, Zone, plain_text};
use crate::{exact, scalars, text_types, times};

/// The functions of a session.
pub(super) struct Registry<'a> {
    state: &'a SessionState,
    scope: &'a Scope,
    temp: &'a TempSchema,
    answers: &'a Answers,
    /// How many of the answers were asked for.
    asked: AtomicUsize,
}

/// Its settings, for tables of a snapshot.
pub(super) struct SessionSettings {
    has_enums: bool,
    nulls: Nulls,
}

impl<'a> Registry<'a> {
    pub fn new(state: &'a SessionState, scope: &'a Scope, temp: &'a TempSchema, answers: &'a Answers) -> Registry<'a> {
        Registry { state, scope, temp, answers, asked: AtomicUsize::new(0) }
    }

    /// The session's settings.
    pub fn settings(&self) -> SessionSettings {
        let has_enums = text_types::has_enums(&self.scope.snapshot);
        SessionSettings { has_enums, nulls: settings::nulls(self.state.config_options()) }
    }

    /// The columns of a query's rows, under the names that users see.
    fn columns_of(&self, plan: LogicalPlan, names: &[String]) -> Result<Schema> {
        let schema = analyzed_schema(self.state, plan)?;
        let named = |(field, name): (&FieldRef, &String)| field.as_ref().clone().with_name(name);
        Ok(Schema::new(schema.fields().iter().zip(names).map(named).collect::<Vec<_>>()))
    }

    /// What the first planner makes of an expression that plans it, or the expression if none does.
    fn ask_planners<T>(
        &self,
        mut raw: T,
        plan: impl Fn(&dyn ExprPlanner, T) -> Result<PlannerResult<T>>,
    ) -> Result<PlannerResult<T>> {
        for planner in self.state.expr_planners() {
            match plan(planner.as_ref(), raw)? {
                PlannerResult::Original(original) => raw = original,
                planned => return Ok(planned),
            }
        }
        Ok(PlannerResult::Original(raw))
    }
}

impl Registry<'_> {
    /// An operator between values of types of bits.
    fn operator_of_bits(&self, operator: BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> Option<Expr> {
        let (name, are_both) = match operator {
            BinaryOperator::BitAnd => (bits::AND, true),
            BinaryOperator::BitOr => (bits::OR, true),
            BinaryOperator::BitXor => (bits::XOR, true),
            BinaryOperator::ShiftLeft => (bits::SHIFT_LEFT, false),
            BinaryOperator::ShiftRight => (bits::SHIFT_RIGHT, false),
            _ => return None,
        };
        if !is_of_bits(left, schema) || are_both && !is_of_bits(right, schema) {
            return None;
        }
        let result = self.scalar(name)?.call(vec![left.clone(), right.clone()]);
        Some(self.scalar(CAST_NORMAL)?.call(vec![result, text("VARBIT")]))
    }
}

impl Registry<'_> {
    /// A TIMETZ plus or minus an interval.
    fn zoned_and_interval(
        &self,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        schema: &DFSchema,
    ) -> Option<Expr> {
        let is_zoned = |value: &Expr| matches!(normal_of(value, schema), Some(NormalText::TimeTz(_)));
        let is_span = |value: &Expr| matches!(value.get_type(schema), Ok(DataType::Interval(_)));
        let (name, time, span) = match operator {
            BinaryOperator::Plus if is_zoned(left) && is_span(right) => (spans::ZONED_PLUS, left, right),
            BinaryOperator::Plus if is_zoned(right) && is_span(left) => (spans::ZONED_PLUS, right, left),
            BinaryOperator::Minus if is_zoned(left) && is_span(right) => (spans::ZONED_MINUS, left, right),
            _ => return None,
        };
        let moved = self.scalar(name)?.call(vec![time.clone(), span.clone()]);
        Some(self.scalar(CAST_NORMAL)?.call(vec![moved, text("TIMETZ")]))
    }
}

impl Registry<'_> {
    /// An operator of JSONB, as PostgreSQL has it. A text in quotes, a parameter and NULL take the type of the other operand.
    fn operator_of_jsonb(
        &self,
        operator: BinaryOperator,
        left: &Expr,
        right: &Expr,
        schema: &DFSchema,
    ) -> Option<Expr> {
        let (of_left, of_right) = (is_jsonb(left, schema), is_jsonb(right, schema));
        let are_both = of_left && (of_right || is_untyped(right)) || of_right && is_untyped(left);
        let name = match operator {
            BinaryOperator::Concat if are_both => "jsonb_concat",
            BinaryOperator::Contains if are_both => "jsonb_contains",
            BinaryOperator::ContainedBy if are_both => "jsonb_contained",
            BinaryOperator::Arrow if of_left => made::PART,
            BinaryOperator::LongArrow if of_left => jsonb::PART_TEXT,
            BinaryOperator::HashArrow if of_left => made::AT_PATH,
            BinaryOperator::HashLongArrow if of_left => jsonb::TEXT_AT_PATH,
            BinaryOperator::Minus if of_left => "jsonb_delete",
            BinaryOperator::HashMinus if of_left => "jsonb_delete_path",
            _ => return None,
        };
        Some(self.scalar(name)?.call(vec![left.clone(), right.clone()]))
    }
}

/// The type of a value whose texts have a normal form.
fn normal_of(value: &Expr, schema: &DFSchema) -> Option<NormalText> {
    value.to_field(schema).ok().and_then(|(_, field)| text_types::normal_of(&field))
}

/// Whether a value is of BIT or VARBIT.
fn is_of_bits(value: &Expr, schema: &DFSchema) -> bool {
    matches!(normal_of(value, schema), Some(NormalText::Bit(_) | NormalText::VarBit(_)))
}

impl Settings for SessionSettings {
    fn has_enums(&self) -> bool {
        self.has_enums
    }

    fn is_null_first(&self, descending: bool) -> bool {
        self.nulls.are_first(descending)
    }
}

impl Functions for Registry<'_> {
    fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn higher_order(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn window(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn table(&self, name: &str, arguments: &[TableArgument]) -> Result<Option<Arc<dyn TableSource>>> {
        if !self.state.table_functions().contains_key(name) {
            // What other systems call so is named by the translation of this error.
            return plan_err!("table function '{name}' not found");
        }
        let reads_files = FILE_FUNCTIONS.contains(&name) || name == SNIFF;
        let names = metadata::names_of_arguments(name);
        let mut given = vec![];
        for argument in arguments {
            match (&argument.name, &argument.value) {
                (Some(name), _) if reads_files || names.contains(&name.text.as_str()) => {
                    given.extend([text(&name.text), text(&option_lists::text_of(&argument.written))])
                }
                (Some(other), _) if !names.is_empty() => {
                    return plan_err!("{name} takes no argument {}, but {}", other.text, names.join(", "));
                }
                (Some(_), _) => return not_impl_err!("{name} takes no arguments by name"),
                (None, Some(value)) => given.push(evaluated(value.clone(), self.state.config_options(), None)?),
                (None, None) => return not_impl_err!("an argument of {name} has no value"),
            }
        }
        let provider = of_function(self.state, name, &given)?;
        Ok(Some(provider_as_source(provider)))
    }

    fn described(&self, plan: LogicalPlan, names: &[String]) -> Result<Arc<dyn TableSource>> {
        source_of(metadata::describe_schema(&self.columns_of(plan, names)?)?)
    }

    fn summary(&self, plan: LogicalPlan, names: &[String]) -> Result<tree::Query> {
        Ok(summary::of(&self.columns_of(plan, names)?)?)
    }

    fn texts(&self, query: &LogicalPlan) -> Result<Option<Vec<String>>> {
        let known = self.answers.known.get(self.asked.fetch_add(1, Ordering::Relaxed));
        if known.is_none() {
            *self.answers.wanted.lock() = Some(query.clone());
        }
        Ok(known.cloned())
    }

    fn json_conversion(&self, structure: &str, is_strict: bool) -> Result<Option<String>> {
        Ok(Some(json_conversion(structure, is_strict)?))
    }

    fn sequence(&self, name: &str) -> Result<Option<String>> {
        if !self.temp.is_used() || !self.scope.is_of_session(self.temp) || name.contains('"') {
            return Ok(None);
        }
        let mut name = name.to_lowercase();
        let is_own = self.temp.with_names(&self.scope.snapshot, false, |names| names.text(&mut name))?;
        let parts = name.split_once('.').filter(|_| is_own);
        Ok(parts.map(|(schema, own)| name_in(&quote(schema), &quote(own))))
    }

    fn names(&self) -> Vec<String> {
        let state = self.state;
        let own = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        let others = state.window_functions().keys().chain(state.table_functions().keys());
        own.chain(others).cloned().chain(function_macros::names().map(str::to_owned)).collect()
    }

    fn missing(&self, name: &str, span: Span) -> Option<BindError> {
        let error = scalars::missing(name, self.state);
        let kind = match error.kind() {
            ErrorKind::NotFound => Kind::UnknownName,
            _ => Kind::Invalid,
        };
        let (message, hint) = (error.to_string(), error.hint().map(str::to_owned));
        Some(BindError { kind, span, message, hint, cause: None })
    }

    fn synonym(&self, name: &str) -> Option<&str> {
        function_macros::RENAMED.iter().find(|(own, _)| *own == name).map(|(_, other)| *other)
    }

    fn definition(&self, name: &str, arguments: usize) -> Option<Definition> {
        DEFINITIONS.get(&(name.to_owned(), arguments)).cloned()
    }

    fn binary(&self, operator: BinaryOperator, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr> {
        if let Some(call) = scalars::unnamed_operator(operator, &left, &right) {
            return Ok(call);
        }
        if let Some(call) = self.operator_of_bits(operator, &left, &right, schema) {
            return Ok(call);
        }
        if let Some(call) = self.zoned_and_interval(operator, &left, &right, schema) {
            return Ok(call);
        }
        if let Some(call) = self.operator_of_jsonb(operator, &left, &right, schema) {
            return Ok(call);
        }
        let Some(op) = planned(operator) else { return not_impl_err!("the operator {operator:?}") };
        let raw = RawBinaryExpr { op, left, right };
        Ok(match self.ask_planners(raw, |planner, raw| planner.plan_binary_op(raw, schema))? {
            PlannerResult::Planned(planned) => planned,
            PlannerResult::Original(RawBinaryExpr { op, left, right }) => {
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }
        })
    }

    fn of_bits(&self, value: &Expr, to: &DataType, or_null: bool, schema: &DFSchema) -> Option<Expr> {
        if !(to.is_numeric() || to.is_binary() || *to == DataType::Boolean) || !is_of_bits(value, schema) {
            return None;
        }
        let name = if or_null { bits::AS_VALUE_OR_NULL } else { bits::AS_VALUE };
        let null = Expr::Literal(ScalarValue::try_new_null(to).ok()?, None);
        Some(self.scalar(name)?.call(vec![value.clone(), null]))
    }

    fn nested_json(&self, function: &str, arguments: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
        match self.scalar(JSON_PART) {
            Some(part) => json_parts::nested(function, arguments, schema, &part),
            None => arguments,
        }
    }

    fn access(&self, value: Expr, access: GetFieldAccess, schema: &DFSchema) -> Result<Expr> {
        let part = match &access {
            GetFieldAccess::ListIndex { key } => Some(key.as_ref().clone()),
            GetFieldAccess::NamedStructField { name } => Some(lit(name.clone())),
            GetFieldAccess::ListRange { .. } => None,
        };
        if let Some(part) = part
            && is_json_value(&value, schema)
            && let Some(function) = self.scalar(if is_jsonb(&value, schema) { made::PART } else { "json_extract" })
        {
            return Ok(function.call(vec![value, part]));
        }
        let raw = RawFieldAccessExpr { field_access: access, expr: value };
        match self.ask_planners(raw, |planner, raw| planner.plan_field_access(raw, schema))? {
            PlannerResult::Planned(planned) => Ok(planned),
            PlannerResult::Original(raw) => plan_err!("{} has no such parts", raw.expr),
        }
    }

    fn list(&self, items: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
        match self.ask_planners(items, |planner, items| planner.plan_array_literal(items, schema))? {
            PlannerResult::Planned(mut planned) => {
                // Lambdas over the list, and casts of its items, ask for its type.
                in_list_function(&mut planned, schema);
                Ok(planned)
            }
            PlannerResult::Original(_) => not_impl_err!("a list of these values"),
        }
    }

    fn compare_all(&self, value: Expr, operator: BinaryOperator, list: Expr) -> Result<Expr> {
        let least = || array_min(list.clone());
        let greatest = || array_max(list.clone());
        let not = |condition: Expr| Expr::Not(Box::new(condition));
        // What makes the comparison false for an item.
        let decisive = match operator {
            BinaryOperator::NotEq => array_has(list.clone(), value.clone()),
            BinaryOperator::Eq => not(least().eq(value.clone()).and(greatest().eq(value.clone()))),
            BinaryOperator::Gt => not(value.clone().gt(greatest())),
            BinaryOperator::Lt => not(value.clone().lt(least())),
            BinaryOperator::GtEq => not(value.clone().gt_eq(greatest())),
            BinaryOperator::LtEq => not(value.clone().lt_eq(least())),
            _ => return plan_err!("ANY and ALL stand behind a comparison"),
        };
        let unknown = lit(ScalarValue::Boolean(None));
        // It finds NULL among the items, too.
        let Some(position) = self.scalar("list_position") else { return plan_err!("list_position is missing") };
        let has_null = position.call(vec![list.clone(), lit(ScalarValue::Null)]).is_not_null();
        when(list.clone().is_null(), unknown.clone())
            .when(cardinality(list).eq(lit(0u64)), lit(true))
            .when(value.is_null(), unknown.clone())
            .when(decisive, lit(false))
            .when(has_null, unknown)
            .otherwise(lit(true))
    }

    fn aggregate_call(&self, call: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        self.ask_planners(call, |planner, call| planner.plan_aggregate(call))
    }

    fn window_call(&self, call: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        self.ask_planners(call, |planner, call| planner.plan_window(call))
    }

    fn typed_text(&self, written: &str, to: &DataType) -> Option<Expr> {
        let DataType::Timestamp(unit, zone) = to else { return None };
        let options = self.state.config_options();
        let order = DateOrder::of_session(options);
        // What depends on the time is read when the statement runs.
        if order.is_some() && times::is_relative(written) {
            return None;
        }
        let of = if zone.is_some() { TextOf::TimestampTz } else { TextOf::Timestamp };
        let plain = order.and_then(|order| plain_text(written, of, order, &Zone::of_session(options)));
        let written = plain.as_deref().unwrap_or(written);
        if *to == times::timestamptz() && times::is_zoned_by_name(written) {
            let function = self.scalar("to_timestamp")?;
            return Some(function.call(vec![text(written)]));
        }
        let to = match (unit, zone) {
            (TimeUnit::Microsecond, None) if times::has_nanoseconds(written) => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            _ => to.clone(),
        };
        let plain = times::plain_literal(written, &to)?;
        Some(Expr::Cast(Cast::new(Box::new(text(&plain)), to)))
    }

    fn interval(&self, text: &str, unit: Option<IntervalUnit>) -> Option<ScalarValue> {
        let name = |unit| format!("{unit:?}").to_lowercase();
        let units = unit.map(|unit| (name(unit.first), unit.last.map(name)));
        times::interval_of_units(text, units.as_ref().map(|(first, last)| (first.as_str(), last.as_deref())))
            .map(|interval| ScalarValue::IntervalMonthDayNano(Some(interval)))
    }

    fn constant(&self, expression: Expr) -> Result<ScalarValue> {
        let schema = Arc::new(DFSchema::empty());
        let expression = exact::exact(expression, &schema)?;
        let context = SimplifyContext::builder()
            .with_schema(schema.clone())
            .with_config_options(self.state.config_options().clone())
            .with_query_execution_start_time(self.state.execution_props().query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(context);
        match simplifier.simplify(simplifier.coerce(expression, &schema)?)? {
            Expr::Literal(value, _) => Ok(value),
            other => plan_err!("{other} is no constant"),
        }
    }
}

/// The definitions by names and numbers of arguments.
static DEFINITIONS: LazyLock<HashMap<(String, usize), Definition>> = LazyLock::new(|| {
    let parsed = |(name, parameters, expression, aggregates): function_macros::Parts| {
        let value = freestone_sql::parse_expression(expression).ok()?;
        let texts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let definition = Definition { parameters: texts(parameters), value, aggregates: texts(aggregates) };
        Some(((name.to_owned(), parameters.len()), definition))
    };
    function_macros::definitions().filter_map(parsed).collect()
});

/// An operator as DataFusion's planners know it.
fn planned(operator: BinaryOperator) -> Option<Operator> {
    Some(match operator {
        BinaryOperator::Or => Operator::Or,
        BinaryOperator::And => Operator::And,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::Concat => Operator::StringConcat,
        BinaryOperator::BitAnd => Operator::BitwiseAnd,
        BinaryOperator::BitOr => Operator::BitwiseOr,
        BinaryOperator::BitXor => Operator::BitwiseXor,
        BinaryOperator::ShiftLeft => Operator::BitwiseShiftLeft,
        BinaryOperator::ShiftRight => Operator::BitwiseShiftRight,
        BinaryOperator::Match => Operator::RegexMatch,
        BinaryOperator::MatchNoCase => Operator::RegexIMatch,
        BinaryOperator::NotMatch => Operator::RegexNotMatch,
        BinaryOperator::NotMatchNoCase => Operator::RegexNotIMatch,
        BinaryOperator::Arrow => Operator::Arrow,
        BinaryOperator::LongArrow => Operator::LongArrow,
        BinaryOperator::HashArrow => Operator::HashArrow,
        BinaryOperator::HashLongArrow => Operator::HashLongArrow,
        BinaryOperator::Contains => Operator::AtArrow,
        BinaryOperator::ContainedBy => Operator::ArrowAt,
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::IntegerDivide => Operator::IntegerDivide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::IsDistinctFrom
        | BinaryOperator::IsNotDistinctFrom
        | BinaryOperator::Like
        | BinaryOperator::ILike
        | BinaryOperator::NotLike
        | BinaryOperator::NotILike
        | BinaryOperator::Distance
        | BinaryOperator::CosineDistance
        | BinaryOperator::StartsWith
        | BinaryOperator::Overlaps
        | BinaryOperator::HashMinus
        | BinaryOperator::Power => return None,
    })
}
