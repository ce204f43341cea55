//! The row of each key.

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use freestone_binder::KeyedColumn;

use crate::exact::normal_form::normal_form;

/// The rows of a batch that is made.
const BATCH_ROWS: usize = 8192;

/// Rows that nobody reads any more, from which on they are dropped, if they are also several times as many as the keys.
const DEAD_ROWS: usize = 65_536;

/// A row of a list of batches.
type Place = (usize, usize);

/// Where the values of a key's row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    /// Its last candidate.
    last: Place,
    /// Its aggregates, if there are any.
    totals: Option<Place>,
}

/// A key that candidates of this step have.
struct Touched {
    key: usize,
    /// Its row before the step, if it had one.
    before: Option<Row>,
}

/// The row of each key, and what is needed to change it.
pub(super) struct State {
    columns: Vec<KeyedColumn>,
    /// The columns that are part of the key.
    key_columns: Vec<usize>,
    schema: SchemaRef,
    candidate_schema: SchemaRef,
    keys: Box<dyn GroupValues>,
    /// By key.
    rows: Vec<Row>,
    /// All candidates of each key, if there are aggregates.
    members: Option<Vec<Vec<Place>>>,
    candidates: Vec<RecordBatch>,
    totals: Vec<RecordBatch>,
    touched: Vec<Touched>,
    /// Whether each key is among them.
    is_touched: Vec<bool>,
    groups: Vec<usize>,
    bytes: usize,
}

impl State {
    /// No keys. `candidates` is the schema of candidates, `schema` that of the rows of keys.
    ///
    /// # Errors
    /// A type is no type of keys.
    pub fn new(columns: &[KeyedColumn], candidates: &SchemaRef, schema: SchemaRef, has_totals: bool) -> Result<State> {
        let key_columns: Vec<usize> = (0..columns.len()).filter(|at| columns[*at] == KeyedColumn::Key).collect();
        let of_keys: SchemaRef = candidates.project(&key_columns)?.into();
        Ok(State {
            columns: columns.to_vec(),
            key_columns,
            schema,
            candidate_schema: candidates.clone(),
            keys: new_group_values(of_keys, &GroupOrdering::None)?,
            rows: vec![],
            members: has_totals.then(Vec::new),
            candidates: vec![],
            totals: vec![],
            touched: vec![],
            is_touched: vec![],
            groups: vec![],
            bytes: 0,
        })
    }

    /// The bytes that it takes.
    pub fn bytes(&self) -> usize {
        let members = self.members.as_ref().map_or(0, |_| self.candidates.iter().map(RecordBatch::num_rows).sum());
        let of_keys = self.keys.size() + self.rows.len() * (size_of::<Row>() + size_of::<Vec<Place>>());
        self.bytes + of_keys + members * size_of::<Place>()
    }

    /// Whether this step has had candidates.
    pub fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The numbers of the keys of rows whose key columns these are.
    fn number(&mut self, columns: impl Iterator<Item = ArrayRef>) -> Result<()> {
        // Equal keys have the same bits.
        let columns = columns.map(|column| normal_form(&column)).collect::<Result<Vec<_>>>()?;
        self.groups.clear();
        self.keys.intern(&columns, &mut self.groups)
    }

    /// Takes candidates.
    ///
    /// # Errors
    /// A value cannot be part of a key.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> = self.key_columns.iter().map(|at| batch.column(*at).clone()).collect();
        self.number(columns.into_iter())?;
        for (row, key) in self.groups.iter().copied().enumerate() {
            let place = (self.candidates.len(), row);
            match self.rows.get_mut(key) {
                Some(known) => {
                    if !std::mem::replace(&mut self.is_touched[key], true) {
                        self.touched.push(Touched { key, before: Some(*known) });
                    }
                    known.last = place;
                }
                None => {
                    self.touched.push(Touched { key, before: None });
                    self.rows.push(Row { last: place, totals: None });
                    self.is_touched.push(true);
                    self.members.iter_mut().for_each(|members| members.push(vec![]));
                }
            }
            self.members.iter_mut().for_each(|members| members[key].push(place));
        }
        self.bytes += batch.get_array_memory_size();
        self.candidates.push(batch.clone());
        Ok(())
    }

    /// All candidates, of this step and of earlier ones, of the keys that this step has touched.
    ///
    /// # Errors
    /// They cannot be gathered.
    pub fn candidates(&self) -> Result<Vec<RecordBatch>> {
        let Some(members) = &self.members else { return Ok(vec![]) };
        let places: Vec<Place> = self.touched.iter().flat_map(|touched| members[touched.key].iter().copied()).collect();
        let schema = &self.candidate_schema;
        places.chunks(BATCH_ROWS).map(|places| gathered(&self.candidates, schema, places)).collect()
    }

    /// Takes rows of keys and their aggregates.
    ///
    /// # Errors
    /// There is no such key.
    pub fn take_totals(&mut self, batch: RecordBatch) -> Result<()> {
        let columns: Vec<ArrayRef> = batch.columns().iter().take(self.key_columns.len()).cloned().collect();
        self.number(columns.into_iter())?;
        for (row, key) in self.groups.iter().enumerate() {
            let Some(known) = self.rows.get_mut(*key) else {
                return internal_err!("aggregates of a key that no row has");
            };
            known.totals = Some((self.totals.len(), row));
        }
        self.bytes += batch.get_array_memory_size();
        self.totals.push(batch);
        Ok(())
    }

    /// Ends a step. Returns the rows of the keys that it has changed, if they are wanted. A row that equals the one before stays it.
    ///
    /// # Errors
    /// Rows cannot be gathered or compared.
    pub fn settle(&mut self, is_wanted: bool) -> Result<Vec<RecordBatch>> {
        let touched = std::mem::take(&mut self.touched);
        touched.iter().for_each(|touched| self.is_touched[touched.key] = false);
        let changed = if is_wanted { self.changed(&touched)? } else { vec![] };
        self.drop_dead()?;
        Ok(changed)
    }

    fn changed(&mut self, touched: &[Touched]) -> Result<Vec<RecordBatch>> {
        let mut changed = vec![];
        for some in touched.chunks(BATCH_ROWS) {
            self.keep_equal(some)?;
            let is_new = |one: &&Touched| one.before.is_none_or(|before| before != self.rows[one.key]);
            let rows: Vec<Row> = some.iter().filter(is_new).map(|one| self.rows[one.key]).collect();
            if !rows.is_empty() {
                changed.push(self.rows_at(&rows)?);
            }
        }
        Ok(changed)
    }

    /// Takes rows back that equal those before.
    fn keep_equal(&mut self, touched: &[Touched]) -> Result<()> {
        let known: Vec<(usize, Row)> = touched.iter().filter_map(|one| Some((one.key, one.before?))).collect();
        if known.is_empty() {
            return Ok(());
        }
        let before: Vec<Row> = known.iter().map(|(_, before)| *before).collect();
        let after: Vec<Row> = known.iter().map(|(key, _)| self.rows[*key]).collect();
        for (is_equal, (key, before)) in equal_rows(&self.rows_at(&before)?, &self.rows_at(&after)?)?.zip(known) {
            if is_equal {
                self.rows[key] = before;
            }
        }
        Ok(())
    }

    /// The row of each key.
    ///
    /// # Errors
    /// They cannot be gathered.
    pub fn all(&self) -> Result<Vec<RecordBatch>> {
        self.rows.chunks(BATCH_ROWS).map(|rows| self.rows_at(rows)).collect()
    }

    fn rows_at(&self, rows: &[Row]) -> Result<RecordBatch> {
        let last: Vec<Place> = rows.iter().map(|row| row.last).collect();
        let totals: Vec<Place> = rows.iter().filter_map(|row| row.totals).collect();
        let value = |(at, column): (usize, &KeyedColumn)| match column {
            KeyedColumn::Key | KeyedColumn::Last => {
                gathered_column(&self.candidates, &self.candidate_schema, at, &last)
            }
            KeyedColumn::Total(place) => gathered_column(&self.totals, &self.schema, *place, &totals),
        };
        let columns = self.columns.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?;
        batch(self.schema.clone(), columns, rows.len())
    }

    /// Drops candidates and aggregates that no key's row needs.
    fn drop_dead(&mut self) -> Result<()> {
        let most = DEAD_ROWS.max(4 * self.rows.len());
        let is_many = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>() > most;
        if self.members.is_none() && is_many(&self.candidates) {
            let places: Vec<Place> = self.rows.iter().map(|row| row.last).collect();
            self.candidates = vec![gathered(&self.candidates, &self.candidate_schema, &places)?];
            self.rows.iter_mut().enumerate().for_each(|(at, row)| row.last = (0, at));
            self.bytes = self.candidates.iter().map(RecordBatch::get_array_memory_size).sum();
        }
        if let Some(schema) = self.totals.first().map(RecordBatch::schema)
            && is_many(&self.totals)
        {
            let places: Vec<Place> = self.rows.iter().filter_map(|row| row.totals).collect();
            self.totals = vec![gathered(&self.totals, &schema, &places)?];
            self.rows.iter_mut().enumerate().for_each(|(at, row)| row.totals = Some((0, at)));
            let all = self.candidates.iter().chain(&self.totals);
            self.bytes = all.map(RecordBatch::get_array_memory_size).sum();
        }
        Ok(())
    }
}

/// Rows of batches of this schema.
fn gathered(batches: &[RecordBatch], schema: &SchemaRef, places: &[Place]) -> Result<RecordBatch> {
    let columns = (0..schema.fields().len()).map(|at| gathered_column(batches, schema, at, places));
    batch(schema.clone(), columns.collect::<Result<Vec<_>>>()?, places.len())
}

/// Values of one column.
fn gathered_column(batches: &[RecordBatch], schema: &Schema, at: usize, places: &[Place]) -> Result<ArrayRef> {
    if places.is_empty() {
        return Ok(datafusion::arrow::array::new_empty_array(schema.field(at).data_type()));
    }
    let arrays: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
    Ok(interleave(&arrays, places)?)
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

/// Whether each row equals the one at its place: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0.
fn equal_rows(left: &RecordBatch, right: &RecordBatch) -> Result<impl Iterator<Item = bool>> {
    let fields = left.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let rows = |batch: &RecordBatch| {
        let columns = batch.columns().iter().map(normal_form).collect::<Result<Vec<_>>>()?;
        Ok::<_, datafusion::error::DataFusionError>(converter.convert_columns(&columns)?)
    };
    let (left, right) = (rows(left)?, rows(right)?);
    let equal: Vec<bool> = left.iter().zip(right.iter()).map(|(left, right)| left == right).collect();
    Ok(equal.into_iter())
}
