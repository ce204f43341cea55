//! What a worker is sent: a statement, and the part of its plan that is asked for.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io::Cursor;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};

use super::written::Target;
use crate::error::{Error, Result};
use crate::provider::{FreestoneSource, Piece};

/// A part of a statement for one worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// A number by which its server names it while it runs.
    pub(crate) id: u64,
    /// The query.
    pub(crate) text: String,
    /// The values of its parameters, as a row in Arrow's stream format and Base64; empty without parameters.
    pub(super) values: String,
    /// The settings with which it is planned.
    pub(crate) settings: Vec<(String, String)>,
    /// The commit whose snapshot it reads.
    pub(crate) sequence: u64,
    /// The number of the stage's first operator in the plan.
    pub(crate) stage: usize,
    /// What the stage must be on the worker, too.
    pub(crate) fingerprint: u64,
    /// The scan of the stage, from left to right, of which only some parts are read.
    pub(crate) scan: usize,
    /// These parts.
    pub(crate) pieces: Vec<Piece>,
    /// Where the rows are written, if they are not the answer. The stage is the whole plan then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<Target>,
}

impl Task {
    pub(crate) fn new(
        text: &str,
        values: &[ScalarValue],
        settings: Vec<(String, String)>,
        sequence: u64,
    ) -> Result<Task> {
        let (text, values) = (text.to_owned(), encoded(values)?);
        let (stage, fingerprint, scan, pieces) = (0, 0, 0, vec![]);
        Ok(Task { id: 0, text, values, settings, sequence, stage, fingerprint, scan, pieces, target: None })
    }

    /// The same task for some parts, with a number of its own.
    pub(super) fn of_pieces(&self, pieces: Vec<Piece>) -> Task {
        Task { id: RandomState::new().hash_one(0), pieces, ..self.clone() }
    }

    /// The bytes of a message with the task.
    ///
    /// # Errors
    /// None that is known: all parts have a form in JSON.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::invalid(format!("the task cannot be sent: {error}")))
    }

    /// The task of a message.
    ///
    /// # Errors
    /// The bytes are no task.
    pub fn decode(bytes: &[u8]) -> Result<Task> {
        serde_json::from_slice(bytes).map_err(|error| Error::invalid(format!("this is not a task: {error}")))
    }

    /// The values of the parameters.
    ///
    /// # Errors
    /// The bytes have no values.
    pub(crate) fn values(&self) -> Result<Vec<ScalarValue>> {
        if self.values.is_empty() {
            return Ok(vec![]);
        }
        let wrong =
            |what: &dyn std::fmt::Display| Error::invalid(format!("the values of a task cannot be read: {what}"));
        let bytes = STANDARD.decode(&self.values).map_err(|error| wrong(&error))?;
        let mut batches = StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| wrong(&error))?;
        let Some(batch) = batches.next().transpose().map_err(|error| wrong(&error))?.filter(|b| b.num_rows() == 1)
        else {
            return Err(wrong(&"they are not one row"));
        };
        let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(|error| wrong(&error));
        batch.columns().iter().map(value).collect()
    }
}

fn encoded(values: &[ScalarValue]) -> Result<String> {
    if values.is_empty() {
        return Ok(String::new());
    }
    let arrays = values.iter().map(|value| value.to_array()).collect::<Result<Vec<_>, _>>()?;
    let field = |(at, array): (usize, &ArrayRef)| Field::new(at.to_string(), array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    let mut writer = StreamWriter::try_new(vec![], &schema)?;
    writer.write(&batch)?;
    Ok(STANDARD.encode(writer.into_inner()?))
}

/// A number that differs if two stages, or the rows that they read, do. The operators and their expressions are in it, and
/// of each table its segments: rows are added to a run and marked as deleted, but never otherwise changed.
pub(crate) fn fingerprint(stage: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    DisplayableExecutionPlan::new(stage.as_ref()).indent(false).to_string().hash(&mut hasher);
    format!("{:?}", stage.schema()).hash(&mut hasher);
    stage.apply(|node| {
        if let Some(source) = FreestoneSource::of(node) {
            let table = source.table();
            (table.id, table.segments.len()).hash(&mut hasher);
            table.segments.iter().for_each(|entry| (entry.id, entry.rows, entry.live_rows()).hash(&mut hasher));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_arrive_as_they_were_sent() {
        let values = [ScalarValue::Int32(Some(7)), ScalarValue::Utf8(None), ScalarValue::Decimal128(Some(125), 5, 2)];
        let mut task = Task::new("SELECT $1", &values, vec![("a".into(), "b".into())], 12).expect("a task");
        task.pieces = vec![Piece { segment: 3, rows: 0..100 }];
        let read = Task::decode(&task.encode().expect("bytes")).expect("a task");
        assert_eq!(read.values().expect("values"), values);
        assert_eq!((&read.pieces, read.sequence, &read.settings), (&task.pieces, 12, &task.settings));
        for wrong in ["", "{}", "[1]", "{\"text\": 1}"] {
            assert!(Task::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let broken = Task { values: "AAAA".into(), ..task };
        assert!(broken.values().is_err());
    }
}
