//! Searches the designs for a workload, with as few calls of the cost model as possible.
//!
//! Groups and orders depend on one another, so they alternate: orders are chosen for the extreme layouts, groups are
//! climbed from both ends under the best orders ([`climb`]), orders are chosen again for the results, and a last climb
//! takes any step (merge, split, shift). Page sizes and the medium follow, because they affect all designs alike.
//! Indexes are tried first, with the current orders, and again last, for queries that still select few of many rows.

pub mod climb;
pub mod copies;
pub mod evaluate;
mod index;
pub mod layout;
pub mod order;
pub mod partition;

use freestone_store::cluster::DimensionPath;
use freestone_store::design::{Design, MediumKind, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PageFormat};
use serde::{Deserialize, Serialize};

pub use climb::{ScoredLayout, Steps, climb, exhaustive};
pub use evaluate::{Evaluator, Score};
pub use layout::{Base, Layout, Names};

/// The maximum number of results with the same order and the same indexes.
const SAME_ORDER: usize = 3;

/// Options that the user has fixed. `None` lets the search choose.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pins {
    /// Groups by names of columns. Each column without a group gets a group of its own.
    pub groups: Option<Vec<Vec<String>>>,
    /// The page format, if the user set it.
    pub page: Option<PageFormat>,
    /// In bytes, a power of two.
    pub page_size: Option<u32>,
    /// Names of columns. An empty list fixes the order of arrival.
    pub sort: Option<Vec<String>>,
    /// The number of run-length levels, if the user set it.
    pub levels: Option<u32>,
    /// An empty list fixes "not clustered".
    pub cluster: Option<Vec<DimensionPath>>,
    /// The medium, if the user set it.
    pub medium: Option<MediumKind>,
    /// Keys of indexes by names of columns. An empty list fixes "none".
    pub index: Option<Vec<Vec<String>>>,
}

/// Limits of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// The search ends after about this many calls of the model.
    pub calls: usize,
    /// All partitions are tried for tables of at most this many columns (Bell(8) = 4140). 0: never.
    pub exhaustive_columns: usize,
    /// The same for atoms, in tables of any width.
    pub exhaustive_atoms: usize,
    /// The number of designs to return.
    pub designs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { calls: 150_000, exhaustive_columns: 4, exhaustive_atoms: 6, designs: 8 }
    }
}

/// Options of the search.
#[derive(Debug, Clone, Default)]
pub struct SearchOptions {
    /// The options that the user set, which the search does not change.
    pub pins: Pins,
    /// The maximum bytes of the table in memory. `None` does not change the medium.
    pub memory: Option<f64>,
    /// The limits of the search.
    pub limits: Limits,
}

/// The best layouts found, best first. Those above the budget are last. `current` is among the candidates.
pub fn search(evaluator: &mut Evaluator<'_>, current: &Design, options: &SearchOptions) -> Vec<ScoredLayout> {
    let now = options.pins.applied(&evaluator.names, evaluator.names.layout(current));
    let mut pool = yardsticks(evaluator, &now, options);
    // A model may have to encode its sample again for each order, which is expensive for wide tables, so fewer layouts
    // are ordered.
    let few = if evaluator.columns() > 16 { 1 } else { 3 };
    // Orders that indexes make unnecessary are not chosen for the queries of these indexes.
    let first: Vec<ScoredLayout> = pool.iter().take(few).cloned().collect();
    pool.extend(with_indexes(evaluator, &first, options));
    order::sort_found(&mut pool);
    let starts = ordered(evaluator, &pool[..pool.len().min(few + 1)], options);
    pool.extend(starts.iter().cloned());
    if options.pins.groups.is_none() {
        let share = options.limits.calls / 8;
        for base in bases(&starts, options) {
            pool.extend(grouped(evaluator, &base, share, &options.limits));
        }
        order::sort_found(&mut pool);
        let again: Vec<ScoredLayout> = pool.iter().take(few).cloned().collect();
        pool.extend(ordered(evaluator, &again, options));
        order::sort_found(&mut pool);
        let best: Vec<Layout> = pool.iter().take(3).map(|f| f.layout.clone()).collect();
        for layout in best {
            pool.push(climb(evaluator, layout, Steps::ALL, share / 2));
        }
    }
    order::sort_found(&mut pool);
    refine(evaluator, &mut pool, options);
    order::sort_found(&mut pool);
    let best: Vec<ScoredLayout> = pool.iter().take(few).cloned().collect();
    pool.extend(with_indexes(evaluator, &best, options));
    order::sort_found(&mut pool);
    let mut pool = distinct(pool);
    pool.truncate(options.limits.designs.max(1));
    pool
}

/// The layouts with the indexes that suit them, if these differ from their current ones. Empty if the user has fixed
/// the indexes.
fn with_indexes(evaluator: &mut Evaluator<'_>, found: &[ScoredLayout], options: &SearchOptions) -> Vec<ScoredLayout> {
    match options.pins.index {
        Some(_) => vec![],
        None => found.iter().filter_map(|found| index::indexed(evaluator, found)).collect(),
    }
}

/// Of layouts that differ only in page size and levels, the best; and of layouts with the same order and indexes, a
/// few.
fn distinct(pool: Vec<ScoredLayout>) -> Vec<ScoredLayout> {
    let mut seen: Vec<Layout> = vec![];
    let mut kept = vec![];
    for found in pool {
        let base = Base { page_size: PAGE_SIZE_DEFAULT, levels: 0, ..found.layout.base.clone() };
        let kind = found.layout.with_base(base);
        let of_order = seen.iter().filter(|seen| {
            let (a, b) = (&seen.base, &kind.base);
            (&a.sort, &a.cluster, &a.index) == (&b.sort, &b.cluster, &b.index)
        });
        if of_order.count() < SAME_ORDER && !seen.contains(&kind) {
            seen.push(kind);
            kept.push(found);
        }
    }
    kept
}

/// The presets and the current layout, in order of arrival and in the current order.
fn yardsticks(evaluator: &mut Evaluator<'_>, now: &Layout, options: &SearchOptions) -> Vec<ScoredLayout> {
    let columns = evaluator.columns();
    let plain = Base { page_size: now.base.page_size, medium: now.base.medium, ..Base::default() };
    let mut layouts = vec![now.clone(), Layout::apart(columns, plain.clone())];
    for page in [PageFormat::Dense, PageFormat::Pax, PageFormat::Slotted] {
        layouts.push(Layout::together(columns, Base { page, ..plain.clone() }));
    }
    let pinned = layouts.into_iter().map(|layout| options.pins.applied(&evaluator.names, layout));
    let mut found: Vec<ScoredLayout> =
        pinned.collect::<Vec<_>>().into_iter().map(|l| ScoredLayout::new(evaluator, l)).collect();
    order::sort_found(&mut found);
    found
}

/// The best orders for each of the layouts. Empty if the user has fixed the order.
fn ordered(evaluator: &mut Evaluator<'_>, starts: &[ScoredLayout], options: &SearchOptions) -> Vec<ScoredLayout> {
    let mut all = vec![];
    for start in starts.iter().filter(|f| f.layout.base.page != PageFormat::Slotted) {
        if options.pins.sort.is_none() {
            let mut found = order::orders(evaluator, &start.layout, options.pins.cluster.is_none());
            found.truncate(3);
            all.extend(found);
        } else if options.pins.levels.is_none() {
            all.extend(order::levels(evaluator, &start.layout));
        }
    }
    let pinned: Vec<Layout> = all.into_iter().map(|f| options.pins.applied(&evaluator.names, f.layout)).collect();
    let mut found: Vec<ScoredLayout> = pinned.into_iter().map(|l| ScoredLayout::new(evaluator, l)).collect();
    order::sort_found(&mut found);
    found
}

/// The bases for climbing: the two best orders (one for wide tables), with each page format.
fn bases(starts: &[ScoredLayout], options: &SearchOptions) -> Vec<Base> {
    let mut orders: Vec<Base> = vec![];
    for found in starts {
        let base = Base { page: PageFormat::Dense, ..found.layout.base.clone() };
        if !orders.contains(&base) {
            orders.push(base);
        }
    }
    let columns = starts.first().map_or(0, |f| f.layout.groups().iter().flatten().count());
    orders.truncate(if columns > 16 { 1 } else { 2 });
    let pages = match options.pins.page {
        Some(page) => vec![page],
        None => vec![PageFormat::Dense, PageFormat::Pax],
    };
    orders.iter().flat_map(|base| pages.iter().map(|&page| Base { page, ..base.clone() })).collect()
}

/// The best groups under one base: HillClimb from both ends, from the atoms, and all partitions if they are few.
pub fn grouped(evaluator: &mut Evaluator<'_>, base: &Base, allowance: usize, limits: &Limits) -> Vec<ScoredLayout> {
    let columns = evaluator.columns();
    let (apart, together) = (Layout::apart(columns, base.clone()), Layout::together(columns, base.clone()));
    let sets: Vec<Vec<usize>> = evaluator.queries().iter().map(|k| k.touched.clone()).collect();
    let atoms = partition::atoms(columns, sets.iter().map(Vec::as_slice));
    let mut found = vec![];
    if columns <= limits.exhaustive_columns {
        found.push(exhaustive(evaluator, apart.groups(), &apart));
        return found;
    }
    found.push(climb(evaluator, apart, Steps::MERGE, allowance));
    found.push(climb(evaluator, together, Steps::SPLIT, allowance));
    let start = Layout::new(atoms.clone(), base.clone());
    if atoms.len() <= limits.exhaustive_atoms {
        found.push(exhaustive(evaluator, &atoms, &start));
    } else {
        found.push(climb(evaluator, start, Steps::MERGE, allowance / 2));
    }
    found
}

/// Other page sizes and media for the best layouts.
fn refine(evaluator: &mut Evaluator<'_>, pool: &mut Vec<ScoredLayout>, options: &SearchOptions) {
    for _ in 0..2 {
        let best: Vec<Layout> = pool.iter().take(2).map(|f| f.layout.clone()).collect();
        for layout in best {
            let mut bases = vec![];
            if options.pins.page_size.is_none() {
                let sizes = (13..).map(|bits| 1u32 << bits).take_while(|size| *size <= PAGE_SIZE_MAX);
                bases.extend(sizes.step_by(2).map(|page_size| Base { page_size, ..layout.base.clone() }));
                bases.push(Base { page_size: PAGE_SIZE_DEFAULT, ..layout.base.clone() });
            }
            let fits = options.memory.is_some_and(|memory| evaluator.bytes(&layout) <= memory);
            if options.pins.medium.is_none() && fits {
                bases.push(Base { medium: MediumKind::Memory, ..layout.base.clone() });
            }
            let now = evaluator.score(&layout);
            for base in bases {
                let found = ScoredLayout::new(evaluator, layout.with_base(base));
                // An unusual page size has to save at least 2 %.
                if found.score.excess < now.excess || found.score.ms < now.ms * 0.98 {
                    pool.push(found);
                }
            }
        }
        order::sort_found(pool);
    }
}

impl Pins {
    /// The layout with the fixed options, and without options that contradict them.
    pub fn applied(&self, names: &Names, layout: Layout) -> Layout {
        let mut base = layout.base.clone();
        base.page = self.page.unwrap_or(base.page);
        base.page_size = self.page_size.unwrap_or(base.page_size);
        base.medium = self.medium.unwrap_or(base.medium);
        if let Some(sort) = &self.sort {
            base.sort = sort.iter().filter_map(|name| names.position(name)).collect();
        }
        if let Some(cluster) = &self.cluster {
            base.cluster = cluster.clone();
        }
        if let Some(keys) = &self.index {
            base.index = keys.iter().map(|key| key.iter().filter_map(|name| names.position(name)).collect()).collect();
        }
        base.levels = self.levels.unwrap_or(base.levels).min(base.sort.len() as u32);
        if !base.cluster.is_empty() || base.page == PageFormat::Slotted {
            base.levels = 0;
        }
        match &self.groups {
            None => layout.with_base(base),
            Some(groups) => {
                let design = Design { groups: groups.clone(), ..Design::default() };
                names.layout(&design).with_base(base)
            }
        }
    }
}
