//! Steps that need one row at a time: filters and projections.

use std::sync::Arc;

use crate::error::Result;
use crate::pipeline::{Step, StepWorker, Take};
use crate::program::{Evaluator, Program};
use crate::vector::{Batch, positions};

/// Keeps the rows for which the first output of a program is true.
pub struct Filter(pub Arc<Program>);

struct FilterWorker(Evaluator);

impl Step for Filter {
    fn worker(&self) -> Box<dyn StepWorker> {
        Box::new(FilterWorker(Evaluator::new(self.0.clone())))
    }
}

impl StepWorker for FilterWorker {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let passing = self.0.passing(&batch)?;
        match passing.count_set_bits() {
            0 => Ok(()),
            rows if rows == batch.rows => next(batch),
            _ => next(batch.take(&positions(&passing))),
        }
    }
}

/// Replaces the columns by the outputs of a program.
pub struct Project(pub Arc<Program>);

struct ProjectWorker(Evaluator);

impl Step for Project {
    fn worker(&self) -> Box<dyn StepWorker> {
        Box::new(ProjectWorker(Evaluator::new(self.0.clone())))
    }
}

impl StepWorker for ProjectWorker {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let columns = self.0.run(&batch)?;
        next(Batch { rows: batch.rows, columns })
    }
}

/// Keeps some columns, in another order.
pub struct Columns(pub Vec<usize>);

struct ColumnsWorker(Vec<usize>);

impl Step for Columns {
    fn worker(&self) -> Box<dyn StepWorker> {
        Box::new(ColumnsWorker(self.0.clone()))
    }
}

impl StepWorker for ColumnsWorker {
    fn push(&mut self, batch: Batch, next: Take<'_>) -> Result<()> {
        let columns = self.0.iter().map(|column| batch.columns[*column].clone()).collect();
        next(Batch { rows: batch.rows, columns })
    }
}
