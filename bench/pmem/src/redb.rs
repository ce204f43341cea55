//! redb. Each change is a transaction that is synced.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::engine::{Engine, Found, Result};
use crate::tuples::{Tuples, double_of};

const ROWS: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");

pub struct Redb {
    database: Database,
}

impl Redb {
    pub fn open(folder: &Path) -> Result<Redb> {
        let database = Database::builder().set_cache_size(2 << 30).create(folder.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(ROWS)?;
        transaction.commit()?;
        Ok(Redb { database })
    }
}

impl Engine for Redb {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(ROWS)?;
            for row in 0..rows {
                table.insert(tuples.key(row) as u64, tuples.value(row).as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64> {
        let table = self.database.begin_read()?.open_table(ROWS)?;
        let mut sum = 0.0;
        for row in rows {
            let value = table.get(tuples.key(*row) as u64)?;
            sum += value.map_or(f64::NAN, |value| double_of(&std::hint::black_box(value.value().to_vec())));
        }
        Ok(sum)
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(ROWS)?.insert(tuples.key(row) as u64, tuples.value(row).as_slice())?;
        Ok(transaction.commit()?)
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.insert(tuples, row)
    }

    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(ROWS)?.remove(tuples.key(row) as u64)?;
        Ok(transaction.commit()?)
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        let table = self.database.begin_read()?.open_table(ROWS)?;
        let mut found = (0, 0.0);
        for entry in table.range(low as u64..=high as u64)? {
            found.0 += 1;
            found.1 += double_of(&std::hint::black_box(entry?.1.value().to_vec()));
        }
        Ok(found)
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        let table = self.database.begin_read()?.open_table(ROWS)?;
        let mut found = (0, 0.0);
        for entry in table.iter()? {
            let value = entry?.1;
            let double = double_of(value.value());
            if (low..=high).contains(&double) {
                std::hint::black_box(value.value().to_vec());
                found.0 += 1;
                found.1 += double;
            }
        }
        Ok(found)
    }
}
