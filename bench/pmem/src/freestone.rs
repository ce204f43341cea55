//! Our table, clustered by the key and the double, in a pool that is an ordinary file: its memory is emulated.

use std::path::Path;
use std::sync::Arc;

use freestone_codec::{IntPredicate, Kind, Predicate, f64_key};
use freestone_store::cluster::BitOrder;
use freestone_store::column::{ColumnData, Physical};
use freestone_store::media::region::{MapOptions, MappedRegion, Region};
use freestone_store::persistent::{
    Costs, Dimension, IteratorKind, PTable, PTableOptions, Pool, PoolOptions, Request, sampled_bins,
};
use freestone_store::scan::ColumnPredicate;
use freestone_store::schema::{Column, TableSchema, parse_type};

use crate::engine::{Engine, Found, Result};
use crate::tuples::Tuples;

const TABLE: u64 = 1;
const BLOCK_BYTES: u64 = 32 << 10;
const SAMPLE: usize = 20_000;

pub struct Table {
    table: PTable,
    /// Those of all tuples, as lookups take them.
    keys: [ColumnData; 1],
    pub iterator: Option<IteratorKind>,
    costs: Costs,
}

impl Table {
    pub fn open(folder: &Path, tuples: &Tuples) -> Result<Table> {
        let path = folder.join("pool");
        let table = if path.exists() {
            let region: Arc<dyn Region> = Arc::new(MappedRegion::open(&path, &MapOptions::default())?);
            PTable::open(Arc::new(Pool::open(region, None)?), TABLE)?
        } else {
            let len = (tuples.len() as u64 * 100).max(BLOCK_BYTES * 64).next_multiple_of(BLOCK_BYTES);
            let region: Arc<dyn Region> = Arc::new(MappedRegion::create(&path, len, &MapOptions::default())?);
            let pool = Arc::new(Pool::create(region, PoolOptions { unit_bytes: BLOCK_BYTES, database: 1 })?);
            PTable::create(pool, TABLE, &options(tuples)?)?
        };
        Ok(Table { table, keys: [tuples.columns[0].clone()], iterator: None, costs: Costs::default() })
    }

    fn range(&self, column: usize, low: i128, high: i128) -> Result<Found> {
        let predicate = Predicate::Int(IntPredicate::Range { low, high });
        let predicates = vec![ColumnPredicate { column, predicate }];
        let request = Request { columns: vec![0, 1, 2, 3], predicates, iterator: self.iterator };
        let mut sum = 0.0;
        let report = self.table.scan(&request, &self.costs, |columns, _| {
            if let Physical::F64(values) = &columns[3].values {
                sum += values.iter().sum::<f64>();
            }
            Ok(())
        })?;
        Ok((report.rows, sum))
    }
}

fn options(tuples: &Tuples) -> Result<PTableOptions> {
    let blocks = (tuples.len() as u64 * 60 / BLOCK_BYTES).max(4);
    let bits = (blocks.ilog2() + 2).div_ceil(2).clamp(2, 12);
    let step = tuples.len().div_ceil(SAMPLE).max(1);
    let rows: Vec<u32> = (0..tuples.len() as u32).step_by(step).collect();
    let dimension = |column: usize| {
        let sample = tuples.columns[column].permute(&rows);
        Dimension { column, bins: sampled_bins(&sample, bits) }
    };
    let column = |(name, data_type): (&str, &str)| {
        let data_type = parse_type(data_type)?;
        Some(Column { name: name.into(), data_type, nullable: false })
    };
    let columns = [("k", "int32"), ("n", "int32"), ("s", "varchar"), ("d", "double")].into_iter().filter_map(column);
    Ok(PTableOptions {
        schema: TableSchema { columns: columns.collect(), ..TableSchema::default() }.validated()?,
        key: vec!["k".into()],
        clusters: vec![dimension(0), dimension(3)],
        order: BitOrder::RoundRobin,
        node_bytes: 1024,
    })
}

impl Engine for Table {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        (0..rows).try_for_each(|row| self.table.insert(&tuples.columns, row))?;
        Ok(())
    }

    fn points(&mut self, _: &Tuples, rows: &[usize]) -> Result<f64> {
        let kinds = [Kind::Int, Kind::Int, Kind::Bytes, Kind::F64];
        let (mut out, mut places, mut sum) = (kinds.map(ColumnData::new), vec![], 0.0);
        for row in rows {
            self.table.lookup(&self.keys, *row, &[0, 1, 2, 3], &mut out, &mut places)?;
            if places.len() >= 1024 {
                sum += sum_of(&out[3]);
                (out, places) = (kinds.map(ColumnData::new), vec![]);
            }
        }
        Ok(sum + sum_of(&out[3]))
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        Ok(self.table.insert(&tuples.columns, row)?)
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let mut transaction = self.table.begin();
        for place in self.table.places(&self.keys, row)? {
            transaction.update(place, &tuples.columns, row)?;
        }
        Ok(transaction.commit()?)
    }

    fn delete(&mut self, _: &Tuples, row: usize) -> Result<()> {
        let mut transaction = self.table.begin();
        for place in self.table.places(&self.keys, row)? {
            transaction.delete(place)?;
        }
        Ok(transaction.commit()?)
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        self.range(0, low.into(), high.into())
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        self.range(3, f64_key(low).into(), f64_key(high).into())
    }
}

fn sum_of(column: &ColumnData) -> f64 {
    match &column.values {
        Physical::F64(values) => values.iter().sum(),
        _ => f64::NAN,
    }
}
