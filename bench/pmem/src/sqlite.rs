//! SQLite in the process, with a write-ahead log that is synced at each commit.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::engine::{Engine, Found, Result};
use crate::tuples::Tuples;

pub struct Sqlite {
    connection: Connection,
}

impl Sqlite {
    pub fn open(folder: &Path) -> Result<Sqlite> {
        let connection = Connection::open(folder.join("sqlite"))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -1000000; PRAGMA mmap_size = 8589934592;
             CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, n INTEGER NOT NULL, s TEXT NOT NULL, d REAL NOT NULL);",
        )?;
        connection.set_prepared_statement_cache_capacity(16);
        Ok(Sqlite { connection })
    }

    fn execute(&self, sql: &str, tuples: &Tuples, row: usize) -> Result<()> {
        let values = params![tuples.key(row), tuples.number(row), tuples.text(row), tuples.double(row)];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn range(&self, sql: &str, bounds: impl rusqlite::Params) -> Result<Found> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(bounds)?;
        let mut found = (0, 0.0);
        while let Some(row) = rows.next()? {
            let (_, _): (i64, i64) = (row.get(0)?, row.get(1)?);
            std::hint::black_box(row.get_ref(2)?.as_bytes()?.to_vec());
            found.0 += 1;
            found.1 += row.get::<_, f64>(3)?;
        }
        Ok(found)
    }
}

impl Engine for Sqlite {
    fn load(&mut self, tuples: &Tuples, rows: usize) -> Result<()> {
        self.connection.execute_batch("BEGIN")?;
        for row in 0..rows {
            self.insert(tuples, row)?;
        }
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    fn points(&mut self, tuples: &Tuples, rows: &[usize]) -> Result<f64> {
        let mut sum = 0.0;
        for row in rows {
            sum += self.range("SELECT k, n, s, d FROM t WHERE k = ?1", [tuples.key(*row)])?.1;
        }
        Ok(sum)
    }

    fn insert(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.execute("INSERT INTO t VALUES (?1, ?2, ?3, ?4)", tuples, row)
    }

    fn update(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.execute("UPDATE t SET n = ?2, s = ?3, d = ?4 WHERE k = ?1", tuples, row)
    }

    fn delete(&mut self, tuples: &Tuples, row: usize) -> Result<()> {
        self.connection.prepare_cached("DELETE FROM t WHERE k = ?1")?.execute([tuples.key(row)])?;
        Ok(())
    }

    fn by_key(&mut self, low: i64, high: i64) -> Result<Found> {
        self.range("SELECT k, n, s, d FROM t WHERE k BETWEEN ?1 AND ?2", [low, high])
    }

    fn by_double(&mut self, low: f64, high: f64) -> Result<Found> {
        self.range("SELECT k, n, s, d FROM t WHERE d BETWEEN ?1 AND ?2", [low, high])
    }
}
