//! A small world in memory: three tables, a few functions.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use datafusion_common::{DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion_expr::logical_plan::builder::LogicalTableSource;
use datafusion_expr::{
    AggregateUDF, BinaryExpr, ColumnarValue, Expr, GetFieldAccess, HigherOrderUDF, Operator, ScalarUDF, TableSource,
    Volatility, WindowUDF, create_udf,
};
use freestone_binder::{
    BindError, Bound, Catalog, Definition, Functions, Named, Options, Settings, TableArgument, World, bind,
};
use freestone_sql::tree::{self, BinaryOperator, StatementKind};

pub struct Memory {
    tables: HashMap<&'static str, SchemaRef>,
    scalars: HashMap<&'static str, Arc<ScalarUDF>>,
}

impl Memory {
    pub fn new() -> Memory {
        let schema = |columns: &[(&str, DataType)]| {
            let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let text = DataType::Utf8View;
        let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
        let point =
            DataType::Struct(vec![Field::new("x", DataType::Int32, true), Field::new("y", text.clone(), true)].into());
        let tables = HashMap::from([
            ("t", schema(&[("a", DataType::Int32), ("b", text.clone()), ("c", DataType::Float64)])),
            ("u", schema(&[("a", DataType::Int64), ("d", DataType::Date32)])),
            ("n", schema(&[("l", list.clone()), ("s", point), ("A b", DataType::Int32)])),
        ]);
        let one = |name: &'static str, inputs: usize, result: DataType, volatility| {
            let work = Arc::new(|_: &[ColumnarValue]| not_impl_err!("nothing runs here"));
            (name, Arc::new(create_udf(name, vec![text.clone(); inputs], result, volatility, work)))
        };
        let immutable = Volatility::Immutable;
        let scalars = HashMap::from([
            one("lower", 1, DataType::Utf8View, immutable),
            one("get_field", 2, DataType::Int32, immutable),
            one("coalesce", 2, DataType::Int32, immutable),
            one("struct", 2, DataType::Int32, immutable),
            one("make_array", 2, list.clone(), immutable),
            one("named_struct", 4, DataType::Int32, immutable),
            one("struct_extract_at", 2, DataType::Int32, immutable),
            one("make_interval", 7, DataType::Interval(IntervalUnit::MonthDayNano), immutable),
            one("freestone_as_normal", 2, DataType::Utf8View, immutable),
            one("freestone_as_normal_or_null", 2, DataType::Utf8View, immutable),
            one("freestone_as_enum", 2, DataType::Utf8View, immutable),
            one("freestone_rounded_time", 2, DataType::Time64(TimeUnit::Nanosecond), immutable),
            one("freestone_collated", 2, DataType::Utf8View, immutable),
            one("hashed", 1, DataType::Utf8View, immutable),
            one("random", 0, DataType::Float64, Volatility::Volatile),
        ]);
        Memory { tables, scalars }
    }
}

impl Catalog for Memory {
    fn table(&self, named: &Named) -> Result<Option<Arc<dyn TableSource>>> {
        let name = named.text();
        let source = |schema: &SchemaRef| Arc::new(LogicalTableSource::new(schema.clone())) as Arc<dyn TableSource>;
        Ok(self.tables.get(name.as_str()).map(source))
    }

    fn primary_key(&self, named: &Named) -> Vec<String> {
        let is_keyed = named.text() == "t";
        is_keyed.then(|| "a".to_owned()).into_iter().collect()
    }

    fn table_names(&self) -> Vec<String> {
        self.tables.keys().map(|name| (*name).to_owned()).collect()
    }

    fn work_table(&self, _: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(Arc::new(LogicalTableSource::new(schema)))
    }
}

impl Functions for Memory {
    fn scalar(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalars.get(name).cloned()
    }

    fn higher_order(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn aggregate(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        use datafusion_functions_aggregate as all;
        Some(match name {
            "count" => all::count::count_udaf(),
            "sum" => all::sum::sum_udaf(),
            "max" => all::min_max::max_udaf(),
            "array_agg" => all::array_agg::array_agg_udaf(),
            _ => return None,
        })
    }

    fn window(&self, name: &str) -> Option<Arc<WindowUDF>> {
        use datafusion_functions_window as all;
        Some(match name {
            "row_number" => all::row_number::row_number_udwf(),
            "rank" => all::rank::rank_udwf(),
            "lead" => all::lead_lag::lead_udwf(),
            _ => return None,
        })
    }

    fn table(&self, name: &str, arguments: &[TableArgument]) -> Result<Option<Arc<dyn TableSource>>> {
        if name != "range" || arguments.len() != 1 {
            return Ok(None);
        }
        let schema = Schema::new(vec![Field::new("value", DataType::Int64, true)]);
        Ok(Some(Arc::new(LogicalTableSource::new(Arc::new(schema)))))
    }

    fn names(&self) -> Vec<String> {
        ["count", "sum", "max", "array_agg", "row_number", "rank", "lead", "lower", "random"]
            .map(str::to_owned)
            .to_vec()
    }

    fn definition(&self, name: &str, arguments: usize) -> Option<Definition> {
        let parsed = |text| freestone_sql::parse_expression(text).expect("an expression");
        let (value, aggregates) = match (name, arguments) {
            // A definition may call the function whose name it has.
            ("hashed", 1) => (parsed("lower(hashed(x))"), vec![]),
            ("twice", 1) => (parsed("x + x"), vec![]),
            ("count_if", 1) => (parsed("count(CASE WHEN x THEN 1 END)"), vec!["count".to_owned()]),
            _ => return None,
        };
        Some(Definition { parameters: vec!["x".to_owned()], value, aggregates })
    }

    fn binary(&self, operator: BinaryOperator, left: Expr, right: Expr, _: &DFSchema) -> Result<Expr> {
        let operator = match operator {
            BinaryOperator::Eq => Operator::Eq,
            BinaryOperator::NotEq => Operator::NotEq,
            BinaryOperator::Lt => Operator::Lt,
            BinaryOperator::LtEq => Operator::LtEq,
            BinaryOperator::Gt => Operator::Gt,
            BinaryOperator::GtEq => Operator::GtEq,
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Concat => Operator::StringConcat,
            BinaryOperator::Match => Operator::RegexMatch,
            other => return not_impl_err!("{other:?}"),
        };
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right))))
    }

    fn access(&self, value: Expr, access: GetFieldAccess, _: &DFSchema) -> Result<Expr> {
        match access {
            GetFieldAccess::NamedStructField { name } => {
                let function = self.scalars["get_field"].clone();
                Ok(function.call(vec![value, Expr::Literal(name, None)]))
            }
            _ => not_impl_err!("items of lists"),
        }
    }

    fn list(&self, items: Vec<Expr>, _: &DFSchema) -> Result<Expr> {
        Ok(self.scalars["make_array"].call(items))
    }

    fn compare_all(&self, _: Expr, _: BinaryOperator, _: Expr) -> Result<Expr> {
        not_impl_err!("ALL of a list")
    }

    fn interval(&self, text: &str, _: Option<tree::IntervalUnit>) -> Option<ScalarValue> {
        let days = text.parse().ok()?;
        Some(ScalarValue::new_interval_mdn(0, days, 0))
    }

    fn constant(&self, expression: Expr) -> Result<ScalarValue> {
        match expression {
            Expr::Literal(value, _) => Ok(value),
            // A name is like a pattern if it begins with its first character.
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::RegexMatch, right }) => {
                let texts = [self.constant(*left)?, self.constant(*right)?].map(|text| text.to_string());
                Ok(ScalarValue::Boolean(Some(texts[0].chars().next() == texts[1].chars().next())))
            }
            other => plan_err!("{other} is no constant"),
        }
    }
}

impl Settings for Memory {}

/// Binds a query of this world.
pub fn bound(text: &str, world: &Memory) -> Option<std::result::Result<Bound, Box<BindError>>> {
    bound_with(text, world, &Options::default())
}

/// The same with what is known of its parameters.
pub fn bound_with(text: &str, world: &Memory, options: &Options) -> Option<std::result::Result<Bound, Box<BindError>>> {
    let StatementKind::Query(query) = freestone_sql::parse_statement(text).ok()?.kind else { return None };
    let world = World { catalog: world, functions: world, settings: world };
    Some(bind(&query, world, options))
}
