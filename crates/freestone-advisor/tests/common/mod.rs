//! A small analytical cost model, similar to HillClimb's for disks, and random workloads.
#![allow(dead_code)]

use std::cell::Cell;

use arrow_schema::DataType;
use freestone_advisor::{Cost, CostModel, Output, PredicateForm, Query, QueryPredicate, Workload};
use freestone_store::design::{Design, MediumKind, PageFormat};
use freestone_store::schema::{Column, TableSchema};
use rand::prelude::*;
use rand::rngs::StdRng;

/// Columns of known widths on a medium with seeks. Each group that a query reads has a share of the read buffer in
/// proportion to its width, and costs a seek whenever its share is used up. Tuple reconstruction costs time per value
/// and per group.
pub struct DiskModel {
    pub schema: TableSchema,
    /// The bytes of a value.
    pub widths: Vec<f64>,
    pub rows: f64,
    pub seek_ms: f64,
    pub bytes_per_ms: f64,
    pub buffer: f64,
    pub value_ms: f64,
    pub group_ms: f64,
    pub calls: Cell<usize>,
}

pub fn schema(columns: usize) -> TableSchema {
    let column = |c| Column { name: format!("c{c}"), data_type: DataType::Int64, nullable: false };
    TableSchema { columns: (0..columns).map(column).collect(), ..TableSchema::default() }
}

impl DiskModel {
    pub fn new(widths: &[f64]) -> Self {
        DiskModel {
            schema: schema(widths.len()),
            widths: widths.to_vec(),
            rows: 1e6,
            seek_ms: 4.0,
            bytes_per_ms: 200_000.0,
            buffer: 8e6,
            value_ms: 4e-6,
            group_ms: 2e-6,
            calls: Cell::new(0),
        }
    }

    fn row_bytes(&self, columns: &[usize], format: PageFormat) -> f64 {
        let header = if format == PageFormat::Slotted { 16.0 } else { 0.0 };
        columns.iter().map(|c| self.widths[*c]).sum::<f64>() + header
    }

    /// The share of rows that an order leaves to read.
    fn share(&self, design: &Design, query: &Query) -> f64 {
        let test = |name: &str| {
            let column = self.schema.index_of(name).expect("designs name columns of the table");
            query.predicates.iter().find(|p| p.column == column && p.form != PredicateForm::Other)
        };
        if !design.cluster.is_empty() {
            let parts = (1.0 / 4096f64).powf(1.0 / design.cluster.len() as f64);
            let shares = design.cluster.iter().filter_map(|d| test(&d.names[0]));
            return shares.map(|p| p.selectivity.max(parts)).product();
        }
        let mut share = 1.0;
        for name in &design.sort {
            let Some(p) = test(name) else { break };
            share *= p.selectivity;
            if p.form != PredicateForm::Equal {
                break;
            }
        }
        share
    }
}

impl CostModel for DiskModel {
    fn columns(&self) -> usize {
        self.widths.len()
    }

    fn column_name(&self, column: usize) -> &str {
        &self.schema.columns[column].name
    }

    fn query(&self, design: &Design, query: &Query) -> Cost {
        self.calls.set(self.calls.get() + 1);
        let (touched, share) = (query.touched(), self.share(design, query));
        let groups: Vec<_> = design.groups(&self.schema);
        let read: Vec<_> = groups.iter().filter(|g| g.columns.iter().any(|c| touched.contains(c))).collect();
        let all: f64 = read.iter().map(|g| self.row_bytes(&g.columns, g.format)).sum();
        let page = f64::from(design.page_size);
        let (mut bytes, mut seeks) = (0.0, 0.0);
        for group in &read {
            let width = self.row_bytes(&group.columns, group.format);
            let group_bytes = (self.rows * share * width).max(page);
            let buffer = (self.buffer * width / all).max(page);
            bytes += group_bytes;
            seeks += (group_bytes / buffer).ceil();
        }
        let sorted = design.sort.iter().map(|n| self.schema.index_of(n).ok()).take(query.order.len());
        let in_order = sorted.eq(query.order.iter().copied().map(Some));
        let sorting = if in_order { 0.0 } else { self.rows * query.selectivity() * 50.0 * self.value_ms };
        let faster = if design.medium == MediumKind::Memory { 20.0 } else { 1.0 };
        let io_ms = (seeks * self.seek_ms + bytes / self.bytes_per_ms) / faster;
        let values = touched.len() as f64 * self.value_ms + (read.len() as f64 - 1.0) * self.group_ms;
        let cpu_ms = self.rows * share * values + sorting;
        let ms = io_ms + cpu_ms;
        Cost { ms, low_ms: ms * 0.8, high_ms: ms * 1.25, io_ms, cpu_ms, bytes }
    }

    fn joined(&self, design: &Design, query: &Query) -> f64 {
        if query.paths.is_empty() { 1.0 } else { self.share(design, query) }
    }

    fn bytes(&self, design: &Design) -> f64 {
        design.groups(&self.schema).iter().map(|g| self.rows * self.row_bytes(&g.columns, g.format)).sum()
    }

    fn bytes_of(&self, _: &Design, columns: &[usize]) -> f64 {
        self.rows * self.row_bytes(columns, PageFormat::Dense)
    }

    fn conversion(&self, design: &Design) -> Cost {
        let ms = 2.0 * self.bytes(design) / self.bytes_per_ms + self.rows * 1e-3;
        Cost { ms, low_ms: ms, high_ms: ms, ..Cost::default() }
    }
}

pub fn query(name: &str, weight: f64, columns: &[usize], predicates: &[(usize, f64, PredicateForm)]) -> Query {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    let predicates =
        predicates.iter().map(|&(column, selectivity, form)| QueryPredicate { column, selectivity, form }).collect();
    Query {
        name: name.into(),
        weight,
        columns,
        predicates,
        output: Output::Columns,
        order: vec![],
        paths: vec![],
        statement_ms: None,
    }
}

pub fn workload(queries: Vec<Query>) -> Workload {
    Workload { queries }
}

/// A random table with queries: widths, seek times, buffers, hot column sets, tests, orders.
pub fn random_case(seed: u64, columns: usize, queries: usize) -> (DiskModel, Workload) {
    let mut rng = StdRng::seed_from_u64(seed);
    let widths: Vec<f64> = (0..columns).map(|_| f64::from([1, 2, 4, 8, 16, 40][rng.random_range(0..6)])).collect();
    let mut model = DiskModel::new(&widths);
    model.rows = 10f64.powf(rng.random_range(4.0..7.5));
    model.seek_ms = 10f64.powf(rng.random_range(-2.0..1.0));
    model.buffer = 10f64.powf(rng.random_range(5.0..8.0));
    model.group_ms = model.value_ms * rng.random_range(0.0..2.0);
    let kernels: Vec<Vec<usize>> = (0..3).map(|_| some_columns(&mut rng, columns)).collect();
    let queries = (0..queries).map(|number| random_query(&mut rng, columns, number, &kernels)).collect();
    (model, workload(queries))
}

fn random_query(rng: &mut StdRng, columns: usize, number: usize, kernels: &[Vec<usize>]) -> Query {
    // Half of the queries are similar to one of a few sets, like those of one application.
    let mut read = match rng.random_bool(0.5) {
        true => kernels[rng.random_range(0..kernels.len())].clone(),
        false => some_columns(rng, columns),
    };
    if rng.random_bool(0.1) {
        read = (0..columns).collect();
    }
    read.sort_unstable();
    let forms = [PredicateForm::Equal, PredicateForm::Range, PredicateForm::In, PredicateForm::Other];
    let mut tests: Vec<(usize, f64, PredicateForm)> = vec![];
    for _ in 0..rng.random_range(0..3) {
        let column = rng.random_range(0..columns);
        if tests.iter().all(|t| t.0 != column) {
            tests.push((column, 10f64.powf(rng.random_range(-5.0..0.0)), forms[rng.random_range(0..4)]));
        }
    }
    let mut query = query(&format!("q{number}"), f64::from(rng.random_range(1..50)), &read, &tests);
    if rng.random_bool(0.1) {
        query.order = vec![read[0]];
    }
    query
}

fn some_columns(rng: &mut StdRng, columns: usize) -> Vec<usize> {
    let count = rng.random_range(1..=columns.div_ceil(2));
    rand::seq::index::sample(rng, columns, count).into_vec()
}

/// A random design: groups, page format, sort order.
pub fn random_design(rng: &mut StdRng, columns: usize) -> Design {
    let blocks = rng.random_range(1..=columns);
    let mut groups = vec![vec![]; blocks];
    for column in 0..columns {
        groups[rng.random_range(0..blocks)].push(format!("c{column}"));
    }
    groups.retain(|g| !g.is_empty());
    let page = [PageFormat::Dense, PageFormat::Pax][rng.random_range(0..2)];
    let depth = rng.random_range(0..3);
    let sort =
        rand::seq::index::sample(rng, columns, depth.min(columns)).into_iter().map(|c| format!("c{c}")).collect();
    Design { groups, page: Some(page), sort, ..Design::default() }
}

pub fn total(model: &DiskModel, workload: &Workload, design: &Design) -> f64 {
    workload.queries.iter().map(|q| q.weight * model.query(design, q).ms).sum()
}
