//! Joins of a plan: by equal keys, and by a range of one side in which a value of the other one is.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use freestone_exec::join::{BuiltKeys, Condition, Join, Kind, OnBuilt, Pick, Plan};
use freestone_exec::pipeline::{Branch, Feed, Stage};
use freestone_exec::vector::Form;

use super::compiler::{Compiler, Open, field};
use super::expressions::{Expressions, Known};
use crate::expressions::watched::unwatched;
use crate::provider::key_filter;

impl Compiler<'_> {
    pub(super) fn join(&mut self, join: &HashJoinExec) -> Result<Option<Open>> {
        if join.null_aware || join.fetch().is_some() || join.on().is_empty() {
            return Ok(None);
        }
        let kind = kind(join.join_type());
        let mut build = self.open_or_input(join.left())?;
        let mut probe = self.side_stages(|compiler| compiler.open_or_input(join.right()))?;
        let Some(sides) = self.keyed(join.on().iter(), &mut build, &mut probe.0)? else { return Ok(None) };
        let condition = match join.filter() {
            None => None,
            Some(filter) => match condition(filter, &sides)? {
                Some(condition) => Some(condition),
                None => return Ok(None),
            },
        };
        let (output, columns) = output(join.join_type(), join.projection.as_deref(), &sides);
        let plan = Plan {
            kind,
            by_range: None,
            build: keyed_fields(&sides.build, sides.keys),
            probe: keyed_fields(&sides.probe, sides.keys),
            keys: sides.keys,
            null_equals_null: join.null_equality() == NullEquality::NullEqualsNull,
            condition,
            output,
            on_built: join.dynamic_expressions_produced().pop().map(|filter| on_built(filter, join)),
        };
        let open = self.joined(plan, build, probe);
        Ok(Some(Open { schema: join.schema(), columns, ..open }))
    }

    /// A join by inequalities between values of both sides.
    pub(super) fn range_join(&mut self, join: &NestedLoopJoinExec) -> Result<Option<Open>> {
        let (Some(filter), Some(by_range)) = (join.filter(), ByRange::of(join)) else { return Ok(None) };
        let kind = kind(join.join_type());
        let mut build = self.open_or_input(join.left())?;
        let mut probe = self.side_stages(|compiler| compiler.open_or_input(join.right()))?;
        let Some(sides) = self.keyed(by_range.keys.iter(), &mut build, &mut probe.0)? else { return Ok(None) };
        if sides.build[..sides.keys].iter().any(|key| !matches!(key.form, Form::Int | Form::Float)) {
            return Ok(None);
        }
        let Some(condition) = condition(filter, &sides)? else { return Ok(None) };
        let (output, columns) = output(join.join_type(), join.projection().as_deref(), &sides);
        let plan = Plan {
            kind,
            by_range: Some(by_range.is_below),
            build: keyed_fields(&sides.build, sides.keys),
            probe: keyed_fields(&sides.probe, sides.keys),
            keys: sides.keys,
            null_equals_null: false,
            condition: Some(condition),
            output,
            on_built: None,
        };
        let open = self.joined(plan, build, probe);
        Ok(Some(Open { schema: join.schema(), columns, ..open }))
    }

    /// The rows of a join, whose build side is a stage before the stages of its probe side.
    fn joined(&mut self, plan: Plan, build: Open, (mut probe, stages): (Open, Vec<Stage>)) -> Open {
        let returns_build = plan.kind.returns_build();
        let executed = Join::new(plan, self.context.clone());
        self.close(build, Arc::new(executed.clone()));
        self.add_sought();
        self.stages.extend(stages);
        probe.step(Arc::new(executed.clone()));
        if returns_build {
            probe.branches.push(Branch { feed: Feed::Source(executed.rest()), steps: vec![] });
        }
        probe.unsorted()
    }

    /// The keys first, and then all columns, of both sides.
    fn keyed<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Pair>,
        build: &mut Open,
        probe: &mut Open,
    ) -> Result<Option<Sides>> {
        let mut left = Expressions::new(&build.schema, &build.columns);
        let mut right = Expressions::new(&probe.schema, &probe.columns);
        let (mut of_build, mut of_probe, mut key_columns) = (vec![], vec![], vec![]);
        for (a, b) in keys {
            let key_column = a.downcast_ref::<Column>().map(Column::index);
            let (Some(mut a), Some(mut b)) = (left.compile(a)?, right.compile(b)?) else { return Ok(None) };
            let is_kept = a.known.form == b.known.form && a.known.form != Form::Float;
            key_columns.push(key_column.filter(|_| is_kept));
            if a.known.form != b.known.form {
                (a, b) = (left.widened(a), right.widened(b));
            }
            let is_key = a.known.form == b.known.form && a.known.form != Form::Arrow;
            if !is_key || a.known.data_type != b.known.data_type {
                return Ok(None);
            }
            of_build.push(left.output(&a));
            of_probe.push(right.output(&b));
        }
        let keys = of_build.len();
        for at in 0..build.columns.len() {
            let column = left.column(at);
            of_build.push(left.output(&column));
        }
        for at in 0..probe.columns.len() {
            let column = right.column(at);
            of_probe.push(right.output(&column));
        }
        let (left, right) = (left.program, right.program);
        self.program_step(build, left);
        self.program_step(probe, right);
        Ok(Some(Sides { keys, key_columns, build: of_build, probe: of_probe }))
    }
}

fn condition(filter: &JoinFilter, sides: &Sides) -> Result<Option<Condition>> {
    let picked: Option<Vec<(Pick, Known)>> = filter
        .column_indices()
        .iter()
        .map(|column| match column.side {
            JoinSide::Left => Some(sides.of_build(column.index)),
            JoinSide::Right => Some(sides.of_probe(column.index)),
            JoinSide::None => None,
        })
        .collect();
    let Some(picked) = picked else { return Ok(None) };
    let (columns, known): (Vec<Pick>, Vec<Known>) = picked.into_iter().unzip();
    let schema = filter.schema().clone();
    let mut compiler = Expressions::new(&schema, &known);
    let Some(compiled) = compiler.compile(unwatched(filter))?.filter(|c| c.known.form == Form::Bits) else {
        return Ok(None);
    };
    compiler.output(&compiled);
    Ok(Some(Condition { columns, program: Arc::new(compiler.program) }))
}

/// Whether a plan is a join by inequalities.
pub(super) fn is_range_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<NestedLoopJoinExec>().is_some_and(|join| ByRange::of(join).is_some())
}

/// An expression over the build side and one over the probe side.
type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// One or two inequalities of a join's condition, the second in the other direction.
struct ByRange {
    /// What is compared.
    keys: Vec<Pair>,
    /// Whether the build side's value is the lesser one in the first.
    is_below: bool,
}

impl ByRange {
    fn of(join: &NestedLoopJoinExec) -> Option<ByRange> {
        let filter = join.filter()?;
        let mut inequalities =
            split_conjunction(unwatched(filter)).into_iter().filter_map(|part| inequality(part, filter));
        let (first, is_below) = inequalities.next()?;
        let second = inequalities.find(|(_, below)| *below != is_below);
        let keys = [first].into_iter().chain(second.map(|(key, _)| key)).collect();
        Some(ByRange { keys, is_below })
    }
}

/// The values of the build side and of the probe side that a condition compares, and whether the first is the lesser one.
fn inequality(part: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<(Pair, bool)> {
    let comparison = part.downcast_ref::<BinaryExpr>()?;
    let left_is_less = match comparison.op() {
        Operator::Lt | Operator::LtEq => true,
        Operator::Gt | Operator::GtEq => false,
        _ => return None,
    };
    let column = |e: &Arc<dyn PhysicalExpr>| {
        // Wider integers keep their order, and no cast to them fails.
        let widened = e.downcast_ref::<CastExpr>().filter(|cast| *cast.cast_type() == DataType::Int64);
        let inner = widened.map_or(e, |cast| cast.expr()).downcast_ref::<Column>()?;
        let (of_side, field) = (filter.column_indices().get(inner.index())?, filter.schema().field(inner.index()));
        if widened.is_some() && (!field.data_type().is_integer() || *field.data_type() == DataType::UInt64) {
            return None;
        }
        let on_side: Arc<dyn PhysicalExpr> = Arc::new(Column::new(inner.name(), of_side.index));
        let on_side = match widened {
            None => on_side,
            Some(cast) => Arc::new(CastExpr::new(on_side, cast.cast_type().clone(), None)),
        };
        Some((on_side, of_side.side))
    };
    match (column(comparison.left())?, column(comparison.right())?) {
        ((build, JoinSide::Left), (probe, JoinSide::Right)) => Some(((build, probe), left_is_less)),
        ((probe, JoinSide::Right), (build, JoinSide::Left)) => Some(((build, probe), !left_is_less)),
        _ => None,
    }
}

/// What is known of the columns of both sides. The first ones are the keys.
struct Sides {
    keys: usize,
    /// For each key, the column of the build side that it is. A float as a key has lost its sign of zero.
    key_columns: Vec<Option<usize>>,
    build: Vec<Known>,
    probe: Vec<Known>,
}

impl Sides {
    fn of_build(&self, column: usize) -> (Pick, Known) {
        let as_key = self.key_columns.iter().position(|of_key| *of_key == Some(column));
        (Pick::Build(as_key.unwrap_or(self.keys + column)), self.build[self.keys + column].clone())
    }

    fn of_probe(&self, column: usize) -> (Pick, Known) {
        (Pick::Probe(self.keys + column), self.probe[self.keys + column].clone())
    }
}

fn keyed_fields(known: &[Known], keys: usize) -> Vec<freestone_exec::rows::Field> {
    known.iter().enumerate().map(|(at, known)| field(known, at < keys)).collect()
}

fn kind(join_type: &JoinType) -> Kind {
    match join_type {
        JoinType::Inner => Kind::Inner,
        JoinType::Left => Kind::BuildOuter,
        JoinType::Right => Kind::ProbeOuter,
        JoinType::Full => Kind::Full,
        JoinType::LeftSemi => Kind::BuildSemi,
        JoinType::LeftAnti => Kind::BuildAnti,
        JoinType::LeftMark => Kind::BuildMark,
        JoinType::RightSemi => Kind::ProbeSemi,
        JoinType::RightAnti => Kind::ProbeAnti,
        JoinType::RightMark => Kind::ProbeMark,
    }
}

/// The columns of the join's result, of which a projection may leave some.
fn output(join_type: &JoinType, projection: Option<&[usize]>, sides: &Sides) -> (Vec<Pick>, Vec<Known>) {
    use JoinType::*;
    let left = || (0..sides.build.len() - sides.keys).map(|column| sides.of_build(column));
    let right = || (0..sides.probe.len() - sides.keys).map(|column| sides.of_probe(column));
    let mark = (Pick::Mark, Known::of(&DataType::Boolean, false));
    let nullable = |(pick, known): (Pick, Known)| (pick, Known { nullable: true, ..known });
    let all: Vec<(Pick, Known)> = match join_type {
        Inner => left().chain(right()).collect(),
        Left => left().chain(right().map(nullable)).collect(),
        Right => left().map(nullable).chain(right()).collect(),
        Full => left().map(nullable).chain(right().map(nullable)).collect(),
        LeftSemi | LeftAnti => left().collect(),
        RightSemi | RightAnti => right().collect(),
        LeftMark => left().chain([mark]).collect(),
        RightMark => right().chain([mark]).collect(),
    };
    match projection {
        None => all.into_iter().unzip(),
        Some(columns) => columns.iter().map(|column| all[*column].clone()).unzip(),
    }
}

/// Tells the filter of the probe side's scans the keys of the build side.
fn on_built(filter: Arc<dyn PhysicalExpr>, join: &HashJoinExec) -> OnBuilt {
    let keys: Vec<Arc<dyn PhysicalExpr>> = join.on().iter().map(|(_, probe)| probe.clone()).collect();
    let schema = join.right().schema();
    Arc::new(move |built: &[BuiltKeys]| {
        let Some(filter) = filter.downcast_ref::<DynamicFilterPhysicalExpr>() else { return };
        let tests: Vec<Arc<dyn PhysicalExpr>> = keys
            .iter()
            .zip(built)
            .filter(|(key, _)| key.is::<Column>())
            .filter_map(|(key, built)| key_filter::of_built(key, built, &schema))
            .collect();
        // A filter that stays as it is keeps more rows than it needs to, and no row is lost.
        let _ = filter.update(key_filter::all_of(tests));
        filter.mark_complete();
    })
}
