//! Advice for a table: designs by predicted cost, each with winners and losers, the cost of converting and when that
//! has paid; or the advice to keep the current design. Advice is written as JSON by `serde` and as text by `Display`.

mod confirm;
mod statements;
mod text;

use freestone_store::design::{Design, Preset, quoted};
use serde::{Deserialize, Serialize};

pub use confirm::{Confirmation, MeasuredQuery, Measurement};
pub use statements::Statements;

use crate::cost::{Cost, CostModel};
use crate::error::{AdvisorError, Result};
use crate::search::copies::{self, Copy, CopySet};
use crate::search::{Evaluator, Limits, Names, Pins, SearchOptions, search};
use crate::workload::{Query, Workload};

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// The table's name, for statements.
    pub table: String,
    /// The maximum bytes of the table, including copies. Larger designs are not proposed.
    pub budget: Option<f64>,
    /// The maximum bytes of the table in memory. Without it, the medium does not change.
    pub memory: Option<f64>,
    /// Options that are fixed. Encodings that the current design sets remain.
    pub pins: Pins,
    /// Designs that are evaluated and listed whatever their cost, unless they exceed the budget.
    pub consider: Vec<Design>,
    /// The maximum number of copies of the table, including the table. 1: none besides the existing ones.
    pub max_copies: usize,
    /// The existing copies.
    pub existing: Vec<Existing>,
    /// The relative error of the model's ranking, 0.2 = 20 %. A smaller predicted gain is no reason to convert.
    pub model_error: f64,
    /// The limits of the search.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            table: "t".into(),
            budget: None,
            memory: None,
            pins: Pins::default(),
            consider: vec![],
            max_copies: 1,
            existing: vec![],
            model_error: 0.2,
            limits: Limits::default(),
        }
    }
}

/// An existing copy of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Existing {
    /// The name of the copy.
    pub name: String,
    /// The design of the copy.
    pub design: Design,
    /// Its design as a design of the whole table: each column that it does not have is in a group of its own.
    pub whole: Design,
    /// Ascending.
    pub columns: Vec<usize>,
    /// The bytes of the copy.
    pub bytes: f64,
    /// Whether queries read it. If not, it only takes space and its name.
    pub is_current: bool,
}

impl Existing {
    /// A current copy of unknown size. `columns` are its columns, as positions in `names`.
    pub fn new(name: String, design: Design, columns: Vec<usize>, names: &[&str]) -> Self {
        let mut whole = design.clone();
        if whole.groups.is_empty() && !matches!(whole.preset, Preset::Column | Preset::Auto) {
            whole.groups = vec![columns.iter().map(|column| names[*column].to_owned()).collect()];
        }
        Existing { name, design, whole, columns, bytes: 0.0, is_current: true }
    }

    /// Whether a query can read it.
    pub fn serves(&self, query: &Query) -> bool {
        self.is_current && query.touched().iter().all(|column| self.columns.contains(column))
    }
}

/// Advice for one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The name of the table.
    pub table: String,
    /// Whether the current design should remain.
    pub keep: bool,
    /// The reason, as a sentence.
    pub reason: String,
    /// The current design.
    pub current: Proposal,
    /// Other designs, best first: by measurement after [`Advice::confirm`], before by prediction.
    pub designs: Vec<Proposal>,
    /// Copies that together are predicted to gain more than the best single design. `None` if the difference is within
    /// the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopyAdvice>,
    /// The bytes of the existing copies.
    #[serde(default)]
    pub copied_bytes: f64,
    /// Statements that drop copies which are best for no query of the workload, with the statements that restore these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<(String, String)>,
    /// The relative error that was used to decide whether to keep.
    pub model_error: f64,
    /// The maximum bytes of the table with its copies. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
    /// The number of predicted queries.
    pub model_calls: usize,
    /// How predictions and measurements compare. `None`: nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<Confirmation>,
}

/// A design with its predictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// The proposed design.
    pub design: Design,
    /// One run of the workload: weighted sums over the queries. The interval assumes that the errors of all queries
    /// have the same sign.
    pub total: Cost,
    /// In the workload's order.
    pub queries: Vec<QueryCost>,
    /// The bytes of the table.
    pub bytes: f64,
    /// The cost of rewriting the table.
    pub conversion: Cost,
    /// The number of runs of the workload after which the conversion has paid. `None`: never.
    pub break_even_runs: Option<f64>,
    /// The statement that converts.
    pub apply: String,
    /// The statement that restores the current design.
    pub revert: String,
    /// The measured time of one run of the workload on the sample. `None` before [`Advice::confirm`].
    #[serde(default)]
    pub measured_ms: Option<f64>,
    /// Whole statements. `None` if no statement's time is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements: Option<Statements>,
}

/// The cost of a query in a design and in the current one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryCost {
    /// The name of the query, or its text.
    pub name: String,
    /// How often the query runs in one run of the workload.
    pub weight: f64,
    /// The cost in the proposed design.
    pub cost: Cost,
    /// The cost in the current design.
    pub current: Cost,
    /// The current cost divided by the new cost, as measured if it was: a query wins above 1 and loses below.
    pub ratio: f64,
    /// The measured time of the scan on the sample, in milliseconds.
    #[serde(default)]
    pub measured_ms: Option<f64>,
    /// The time of the whole statement, as logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_ms: Option<f64>,
    /// The number of rows that reach its joins, divided by the current number.
    #[serde(default = "one")]
    pub joined: f64,
}

fn one() -> f64 {
    1.0
}

/// Several copies of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyAdvice {
    /// The first is the table.
    pub copies: Vec<CopyProposal>,
    /// For each query of the workload, the copy that it reads.
    pub serves: Vec<usize>,
    /// Statements that drop the existing copies that are not among them, with the statements that restore these.
    pub dropped: Vec<(String, String)>,
    /// Milliseconds of one run of the workload, with each query on its cheapest copy.
    pub ms: f64,
    /// The measured time on the sample. `None` before [`Advice::confirm_copies`].
    #[serde(default)]
    pub measured_ms: Option<f64>,
    /// The bytes of all copies.
    pub bytes: f64,
    /// The milliseconds for writing the copies.
    pub conversion_ms: f64,
    /// The number of runs of the workload after which the copies have paid. `None`: never.
    pub break_even_runs: Option<f64>,
}

/// One copy of a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CopyProposal {
    /// The design of the copy.
    pub design: Design,
    /// The names of the columns. Empty: all.
    pub columns: Vec<String>,
    /// The bytes of the copy.
    pub bytes: f64,
    /// The names of the queries that read it.
    pub queries: Vec<String>,
    /// The statement that creates it. `None` if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply: Option<String>,
    /// The statement that drops it. `None` if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<String>,
}

/// Recommends designs for a table that is stored as `current` and queried by `workload`.
///
/// # Errors
/// Names the query or option that is not valid.
pub fn advise(model: &dyn CostModel, workload: &Workload, current: &Design, options: &Options) -> Result<Advice> {
    check(model, workload, options)?;
    let names = Names::new(model, current.encode.clone());
    let copied: f64 = options.existing.iter().map(|copy| copy.bytes).sum();
    // Existing copies remain, unless others are chosen.
    let budget = options.budget.map(|budget| if options.max_copies > 1 { budget } else { (budget - copied).max(0.0) });
    let mut evaluator = Evaluator::new(model, workload, names, budget);
    let search_options =
        SearchOptions { pins: options.pins.clone(), memory: options.memory, limits: options.limits.clone() };
    let mut found = search(&mut evaluator, current, &search_options);
    found.retain(|f| f.score.excess <= 0.0 && f.score.ms.is_finite());
    let copies = match options.max_copies {
        0 | 1 => None,
        count => {
            let layout = |copy: &Existing| Copy {
                layout: evaluator.names.layout(&copy.whole),
                columns: (copy.columns.len() < model.columns()).then(|| copy.columns.clone()),
                bytes: copy.bytes,
            };
            let existing: Vec<Copy> = options.existing.iter().filter(|copy| copy.is_current).map(layout).collect();
            let table = Copy { layout: evaluator.names.layout(current), columns: None, bytes: model.bytes(current) };
            copies::choose(&mut evaluator, &found, &table, &existing, count, options.budget)
        }
    };
    let now = propose(model, workload, current, current, options);
    let back = Back { table: &options.table, current, arrival: sorted_by(model, current) };
    let mut designs: Vec<Proposal> = vec![];
    let searched = found.iter().map(|f| evaluator.names.design(&f.layout));
    for design in searched.chain(options.consider.iter().cloned()) {
        let fits = options.budget.is_none_or(|budget| model.bytes(&design) + copied <= budget);
        let known = same(&evaluator.names, &design, current)
            || designs.iter().any(|p| same(&evaluator.names, &p.design, &design));
        if fits && !known {
            let proposal = propose(model, workload, &design, &now.design, options);
            designs.push(Proposal { revert: back.from(&design), ..proposal });
        }
    }
    designs.sort_by(|a, b| a.total.ms.total_cmp(&b.total.ms));
    let best = designs.first().map_or(now.total.ms, |p| p.total.ms.min(now.total.ms));
    let copies = copies
        .filter(|set| set.copies.len() > 1 && set.ms < best * (1.0 - options.model_error))
        .map(|set| propose_copies(&evaluator, workload, &set, (&now, &back), options))
        .filter(|set| !set.changes().is_empty());
    let mut advice = Advice {
        table: options.table.clone(),
        keep: false,
        reason: String::new(),
        current: now,
        designs,
        copies,
        copied_bytes: copied,
        unused: unused(model, workload, current, options),
        model_error: options.model_error,
        budget: options.budget,
        model_calls: evaluator.calls(),
        confirmed: None,
    };
    advice.decide();
    Ok(advice)
}

/// Compares the cost of a workload (one query or several) in a design and in the current design: the answer to
/// `WHATIF`.
///
/// # Errors
/// As for [`advise`].
pub fn what_if(
    model: &dyn CostModel,
    workload: &Workload,
    current: &Design,
    design: &Design,
    options: &Options,
) -> Result<Proposal> {
    check(model, workload, options)?;
    Ok(propose(model, workload, design, current, options))
}

impl Advice {
    /// The statements that apply the advice, with those that undo it: for copies if they are worthwhile, otherwise for
    /// the best design.
    pub fn changes(&self) -> Vec<(String, String)> {
        match (&self.copies, self.recommended()) {
            (Some(set), _) => set.changes(),
            (None, Some(best)) => vec![(best.apply.clone(), best.revert.clone())],
            (None, None) => vec![],
        }
    }

    /// The recommended design. `None`: keep the current one.
    pub fn recommended(&self) -> Option<&Proposal> {
        self.designs.first().filter(|_| !self.keep)
    }

    fn decide(&mut self) {
        let over = self.is_over_budget();
        let (keep, reason) = match self.designs.first() {
            None if over => (
                true,
                format!(
                    "no design fits into the budget; the current design takes {}",
                    text::bytes(self.stored_bytes())
                ),
            ),
            None => (true, "there is no other design to compare with".into()),
            Some(best) if over => (
                false,
                format!(
                    "the current design takes {}, more than the budget; the fastest design within it: {}",
                    text::bytes(self.stored_bytes()),
                    text::change(self.current.total.ms, best.total.ms)
                ),
            ),
            Some(best) => {
                let gain = 1.0 - best.total.ms / self.current.total.ms;
                if gain.is_nan() || gain <= 0.0 {
                    (true, format!("{} already best: no other design is predicted to be faster", self.subject()))
                } else if gain <= self.model_error {
                    (
                        true,
                        format!(
                            "the best other design is predicted to be {:.1} % faster, less than the model's error of {:.0} %",
                            gain * 100.0,
                            self.model_error * 100.0
                        ),
                    )
                } else {
                    let (now, then) = (self.current.total.ms, best.total.ms);
                    (false, format!("the workload is predicted to take {}", text::change(now, then)))
                }
            }
        };
        (self.keep, self.reason) = (keep, reason);
    }

    /// The bytes of the table as it is stored now, including copies.
    fn stored_bytes(&self) -> f64 {
        self.current.bytes + self.copied_bytes
    }

    fn is_over_budget(&self) -> bool {
        self.budget.is_some_and(|budget| self.stored_bytes() > budget)
    }

    /// How the reason names the current design.
    fn subject(&self) -> &'static str {
        match self.current.design.preset {
            Preset::Column | Preset::Auto if self.current.design.groups.is_empty() => "columns are",
            Preset::Row if self.current.design.groups.is_empty() => "rows are",
            _ => "the current design is",
        }
    }
}

fn check(model: &dyn CostModel, workload: &Workload, options: &Options) -> Result<()> {
    let invalid = |text: String| Err(AdvisorError::Invalid(text));
    if workload.queries.is_empty() {
        return invalid(format!(
            "there is no query on {} to advise for: run some, or give a workload file",
            options.table
        ));
    }
    for query in &workload.queries {
        let name = &query.name;
        if !(query.weight.is_finite() && query.weight > 0.0) {
            return invalid(format!("query {name}: weight {} is not a positive number", query.weight));
        }
        let columns =
            query.columns.iter().chain(&query.order).copied().chain(query.predicates.iter().map(|p| p.column));
        if let Some(column) = columns.into_iter().find(|c| *c >= model.columns()) {
            return invalid(format!("query {name}: column {column}, but the table has {}", model.columns()));
        }
        if let Some(p) = query.predicates.iter().find(|p| !(0.0..=1.0).contains(&p.selectivity)) {
            return invalid(format!("query {name}: selectivity {} is not between 0 and 1", p.selectivity));
        }
    }
    let known = |name: &String| (0..model.columns()).any(|c| model.column_name(c) == name);
    let pinned = options.pins.groups.iter().flatten().flatten().chain(options.pins.sort.iter().flatten());
    match pinned.into_iter().find(|name| !known(name)) {
        Some(name) => invalid(format!("{} has no column {name}", options.table)),
        None => Ok(()),
    }
}

fn propose(
    model: &dyn CostModel,
    workload: &Workload,
    design: &Design,
    current: &Design,
    options: &Options,
) -> Proposal {
    let mut total = Cost::default();
    let (mut now_ms, mut queries) = (0.0, vec![]);
    for query in &workload.queries {
        let (cost, now) = (cheapest(model, design, query, options), cheapest(model, current, query, options));
        add(&mut total, &cost, query.weight);
        now_ms += now.ms * query.weight;
        let ratio = if cost.ms > 0.0 { now.ms / cost.ms } else { 1.0 };
        let (name, weight) = (query.name.clone(), query.weight);
        let joined = model.joined(design, query) / model.joined(current, query).max(f64::MIN_POSITIVE);
        let statement_ms = query.statement_ms;
        queries.push(QueryCost { name, weight, cost, current: now, ratio, measured_ms: None, statement_ms, joined });
    }
    let conversion = if design == current { Cost::default() } else { model.conversion(design) };
    Proposal {
        break_even_runs: break_even(conversion.ms, now_ms - total.ms),
        design: design.clone(),
        total,
        statements: Statements::of(&queries, &[]),
        queries,
        bytes: model.bytes(design),
        conversion,
        apply: alter(&options.table, design),
        revert: alter(&options.table, current),
        measured_ms: None,
    }
}

/// The cost of a query with the table in a design and the existing copies: on the cheapest of them.
fn cheapest(model: &dyn CostModel, design: &Design, query: &Query, options: &Options) -> Cost {
    let copies = options.existing.iter().filter(|copy| copy.serves(query));
    let costs = copies.map(|copy| model.query(&copy.whole, query));
    costs.fold(model.query(design, query), |best, cost| if cost.ms < best.ms { cost } else { best })
}

/// The statements that drop copies which are no query's cheapest, with those that restore them.
fn unused(model: &dyn CostModel, workload: &Workload, current: &Design, options: &Options) -> Vec<(String, String)> {
    let serves = |copy: &Existing| {
        workload.queries.iter().filter(|query| copy.serves(query)).any(|query| {
            let least = cheapest(model, current, query, options).ms;
            model.query(&copy.whole, query).ms <= least && least < model.query(current, query).ms
        })
    };
    let unused = options.existing.iter().filter(|copy| copy.is_current && !serves(copy));
    let name = |column: usize| model.column_name(column).to_owned();
    unused.map(|copy| drop_statements(&options.table, copy, name)).collect()
}

/// The statement that drops a copy, and the one that restores it.
fn drop_statements(table: &str, copy: &Existing, name: impl Fn(usize) -> String) -> (String, String) {
    let columns: Vec<String> = copy.columns.iter().map(|column| name(*column)).collect();
    let (add, drop) = copy_statements(table, &copy.name, &copy.design, &columns);
    (drop, add)
}

impl CopyAdvice {
    /// The statements that create and drop copies, with those that undo them.
    pub fn changes(&self) -> Vec<(String, String)> {
        let made = self.copies.iter().filter_map(|copy| Some((copy.apply.clone()?, copy.revert.clone()?)));
        self.dropped.iter().cloned().chain(made).collect()
    }
}

fn propose_copies(
    evaluator: &Evaluator<'_>,
    workload: &Workload,
    set: &CopySet,
    (now, back): (&Proposal, &Back<'_>),
    options: &Options,
) -> CopyAdvice {
    let (model, names) = (evaluator.model, &evaluator.names);
    let serves: Vec<usize> =
        workload.queries.iter().map(|query| evaluator.place(query).map_or(0, |at| set.serves[at])).collect();
    let mut unused: Vec<&Existing> = options.existing.iter().collect();
    let mut free = (1..).map(|n| format!("copy_{n}")).filter(|name| options.existing.iter().all(|e| e.name != *name));
    let mut conversion_ms = 0.0;
    let mut copies = vec![];
    for (number, copy) in set.copies.iter().enumerate() {
        let mut design = names.design(&copy.layout);
        if let Some(columns) = &copy.columns {
            design.encode.retain(|name, _| names.position(name).is_some_and(|c| columns.contains(&c)));
        }
        let columns: Vec<String> = copy.columns.iter().flatten().map(|c| names.columns()[*c].clone()).collect();
        let share = copy.bytes / model.bytes(&design).max(1.0);
        let positions = copy.columns.clone().unwrap_or_else(|| (0..model.columns()).collect());
        let is_there = |e: &&Existing| {
            let is_alike = names.layout(&e.whole) == copy.layout && e.whole.levels == design.levels;
            e.is_current && e.columns == positions && is_alike
        };
        let known = unused.iter().position(|e| number > 0 && is_there(e));
        let stays = known.is_some() || number == 0 && same(names, &design, &now.design);
        known.map(|at| unused.remove(at));
        let (apply, revert) = match number {
            _ if stays => (None, None),
            0 => (Some(alter(&options.table, &design)), Some(back.from(&design))),
            _ => {
                let name = free.next().unwrap_or_default();
                let (add, drop) = copy_statements(&options.table, &name, &design, &columns);
                (Some(add), Some(drop))
            }
        };
        conversion_ms += if stays { 0.0 } else { model.conversion(&design).ms * share.min(1.0) };
        let served = workload.queries.iter().zip(&serves).filter(|(_, copy)| **copy == number);
        let queries = served.map(|(query, _)| query.name.clone()).collect();
        copies.push(CopyProposal { design, columns, bytes: copy.bytes, queries, apply, revert });
    }
    let drop = |copy| drop_statements(&options.table, copy, |column| names.columns()[column].clone());
    let dropped = unused.into_iter().map(drop).collect();
    let break_even_runs = break_even(conversion_ms, now.total.ms - set.ms);
    let (ms, bytes) = (set.ms, set.bytes);
    CopyAdvice { copies, serves, dropped, ms, measured_ms: None, bytes, conversion_ms, break_even_runs }
}

fn add(total: &mut Cost, cost: &Cost, weight: f64) {
    total.ms += cost.ms * weight;
    total.low_ms += cost.low_ms * weight;
    total.high_ms += cost.high_ms * weight;
    total.io_ms += cost.io_ms * weight;
    total.cpu_ms += cost.cpu_ms * weight;
    total.bytes += cost.bytes * weight;
}

fn break_even(conversion_ms: f64, saved_ms: f64) -> Option<f64> {
    (saved_ms > 0.0).then(|| conversion_ms / saved_ms).filter(|runs| runs.is_finite())
}

/// Whether two designs store the same, however they are written.
fn same(names: &Names, a: &Design, b: &Design) -> bool {
    a == b || (a.encode == b.encode && names.layout(a) == names.layout(b) && a.levels == b.levels)
}

/// What goes back to the current design.
struct Back<'a> {
    table: &'a str,
    current: &'a Design,
    /// The current design with the order in which the rows arrived, as far as columns tell it.
    arrival: Option<Design>,
}

impl Back<'_> {
    /// The statement that goes back from a design. If that one orders the rows, they are sorted first: no table keeps the
    /// order in which its rows arrived.
    fn from(&self, design: &Design) -> String {
        let is_ordered = !design.sort.is_empty() || !design.cluster.is_empty();
        match self.arrival.as_ref().filter(|_| is_ordered) {
            Some(sorted) => {
                format!("ALTER TABLE {} SET DESIGN ({sorted}), SET DESIGN ({});", quoted(self.table), self.current)
            }
            None => alter(self.table, self.current),
        }
    }
}

/// The current design with the order in which the rows arrived.
fn sorted_by(model: &dyn CostModel, current: &Design) -> Option<Design> {
    let sort: Vec<String> = model.arrival().iter().map(|column| model.column_name(*column).to_owned()).collect();
    (!sort.is_empty()).then(|| Design { sort, ..current.clone() })
}

/// `SET DESIGN` names the preset, which resets all options: an option that is not given has its default, not its former
/// value.
fn alter(table: &str, design: &Design) -> String {
    format!("ALTER TABLE {} SET DESIGN ({design});", quoted(table))
}

/// The statements that add a copy and drop it. Groups of the whole table name no columns that the copy lacks, since
/// those are in groups of their own.
fn copy_statements(table: &str, name: &str, design: &Design, columns: &[String]) -> (String, String) {
    let (table, name) = (quoted(table), quoted(name));
    let list = match columns {
        [] => String::new(),
        _ => format!(" ({})", columns.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(", ")),
    };
    let add = format!("ALTER TABLE {table} ADD COPY {name}{list} WITH ({design});");
    (add, format!("ALTER TABLE {table} DROP COPY {name};"))
}
