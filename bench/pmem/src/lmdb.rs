//! LMDB through heed. Each change is a transaction that is synced.

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{Database, Env, EnvOpenOptions};

use crate::engine::{Engine, Found, Result};
use crate::tuples::{Tuples, double_of};

const MAP_BYTES: usize = 16 << 30;

pub struct Lmdb {
    env: Env,
    rows: Database<U64<BigEndian>, Bytes>,
}

impl Lmdb {
    pub fn open(folder: &Path) -> Result<Lmdb> {
        // SAFETY: no other process changes the files of this run's own folder.
        let env = unsafe { EnvOpenOptions::new().map_size(MAP_BYTES).open(folder)? };
        let mut transaction = env.write_txn()?;
        let rows = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Lmdb { env, rows })
    }
}

impl Engine for Lmdb {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for row in 0..rows {
            self.rows.put(&mut transaction, &(tuples.key(row) as u64), &tuples.value(row))?;
        }
        Ok(transaction.commit()?)
    }

    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64> {
        let transaction = self.env.read_txn()?;
        let mut sum = 0.0;
        for row in rows {
            let value = self.rows.get(&transaction, &(tuples.key(*row) as u64))?;
            sum += value.map_or(f64::NAN, |value| double_of(&std::hint::black_box(value.to_vec())));
        }
        Ok(sum)
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.rows.put(&mut transaction, &(tuples.key(row) as u64), &tuples.value(row))?;
        Ok(transaction.commit()?)
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.insert(tuples, row)
    }

    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.rows.delete(&mut transaction, &(tuples.key(row) as u64))?;
        Ok(transaction.commit()?)
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        let transaction = self.env.read_txn()?;
        let mut found = (0, 0.0);
        for entry in self.rows.range(&transaction, &(low as u64..=high as u64))? {
            found.0 += 1;
            found.1 += double_of(&std::hint::black_box(entry?.1.to_vec()));
        }
        Ok(found)
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        let transaction = self.env.read_txn()?;
        let mut found = (0, 0.0);
        for entry in self.rows.iter(&transaction)? {
            let value = entry?.1;
            let double = double_of(value);
            if (low..=high).contains(&double) {
                std::hint::black_box(value.to_vec());
                found.0 += 1;
                found.1 += double;
            }
        }
        Ok(found)
    }
}
