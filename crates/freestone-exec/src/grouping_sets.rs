//! Grouping sets: several groupings of the same rows, as ROLLUP, CUBE and GROUPING SETS ask for them.
//!
//! Rows are grouped by all keys, and the groups of each set are merged from the states of those groups: rows are looked up once,
//! however many sets there are.

use std::sync::Arc;

use arrow_schema::DataType;

use crate::direct::KeyDomain;
use crate::error::Result;
use crate::groups::{GroupTable, HASH};
use crate::pipeline::{Context, check};
use crate::rows::{Field, Layout};
use crate::states::{Call, Run, States};
use crate::vector::{Batch, Form, Vector};

/// One of the sets.
#[derive(Debug, Clone)]
pub struct GroupingSet {
    /// Which of the keys are no keys of it, and NULL.
    pub absent: Vec<bool>,
    /// Its number, the value of one more key.
    pub number: i64,
}

/// The sets of an aggregation.
#[derive(Debug)]
pub(crate) struct GroupingSets {
    sets: Vec<GroupingSet>,
    keys: Vec<Field>,
    /// Of rows that have the keys, each of which may be NULL, and the number.
    layout: Arc<Layout>,
}

impl GroupingSets {
    pub fn new(sets: Vec<GroupingSet>, keys: &[KeyDomain]) -> GroupingSets {
        let keys: Vec<Field> = keys.iter().map(|key| Field { nullable: true, ..key.field.clone() }).collect();
        let number = Field { form: Form::Int, data_type: DataType::Int64, nullable: false, is_key: true };
        let fields: Vec<Field> = keys.iter().cloned().chain([number]).collect();
        GroupingSets { sets, layout: Arc::new(Layout::new(&fields, HASH + 1)), keys }
    }

    /// The groups of all sets: their keys, the numbers of their sets, and their results.
    ///
    /// # Errors
    /// A function failed, or memory ran out.
    pub fn merged(&self, runs: Vec<Run>, calls: &[Call], context: &Arc<dyn Context>) -> Result<Batch> {
        let mut all = States::new(calls, GroupTable::new(self.layout.clone()), context.clone())?;
        if runs.iter().all(|run| run.rows.is_empty()) {
            self.add_empty_groups(&mut all);
        }
        for run in runs {
            let rows = run.rows.len();
            let (keys, run) = run.into_keys(self.keys.len());
            for set in &self.sets {
                check(context.as_ref())?;
                all.merge_as(&run, &self.keys_of(set, &keys, rows), rows)?;
                all.claim.resize(all.bytes())?;
            }
        }
        all.finish(self.keys.len() + 1)
    }

    /// The group of no rows of each set without keys.
    fn add_empty_groups(&self, all: &mut States) {
        for set in self.sets.iter().filter(|set| set.absent.iter().all(|is_absent| *is_absent)) {
            all.table.find_keys(&self.keys_of(set, &[], 1), 1, &mut vec![]);
        }
    }

    /// The keys of groups in a set, and its number.
    fn keys_of(&self, set: &GroupingSet, keys: &[Vector], rows: usize) -> Vec<Vector> {
        let key = |(at, field): (usize, &Field)| match set.absent[at] {
            true => Vector::nulls(field.form, rows, &field.data_type),
            false => keys[at].clone(),
        };
        self.keys.iter().enumerate().map(key).chain([Vector::ints(vec![set.number; rows])]).collect()
    }
}
