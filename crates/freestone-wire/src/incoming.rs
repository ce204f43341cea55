//! The received state of one result on one stream: states to which chunks refer, and bodies that later chunks may
//! reuse.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use freestone_codec::{Kind, Shared, Transform};

use crate::chunk::{self, LastPieces, Payload, Received};
use crate::column::dictionary::Entries;
use crate::column::{SharedState, SharedStates};
use crate::error::{Result, WireError};
use crate::limits::{ChunkSizes, PARTS_MAX};
use crate::message;
use crate::sender::SHARED_BYTES_MAX;

/// The receiving side of one result on one stream.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pub states: Arc<SharedStates>,
    /// Parts of incomplete states.
    parts: HashMap<u32, Vec<u8>>,
    bytes: usize,
    /// The frames of a chunk whose last frame has not arrived.
    payload: Payload,
    last: LastPieces,
}

impl Incoming {
    /// Adds a state, or a part of one.
    pub fn add_state(&mut self, part: message::Shared) -> Result<()> {
        let malformed = |reason: String| WireError::malformed("shared state", reason);
        self.bytes = self.bytes.saturating_add(part.bytes.0.len().max(1));
        if self.bytes > SHARED_BYTES_MAX + (SHARED_BYTES_MAX >> 4) || part.shared == 0 {
            return Err(malformed(format!("state {}: {} bytes in all are too many", part.shared, self.bytes)));
        }
        let mut bytes = self.parts.remove(&part.shared).unwrap_or_default();
        bytes.extend_from_slice(&part.bytes.0);
        if part.more {
            self.parts.insert(part.shared, bytes);
            return Ok(());
        }
        let states = Arc::make_mut(&mut self.states);
        if part.transform == 0 {
            let state = states.entry(part.shared).or_insert_with(|| SharedState::Entries(Entries::default()));
            return match state {
                SharedState::Entries(entries) => entries.add(&bytes),
                SharedState::Codec(_) => {
                    Err(malformed(format!("state {} is no dictionary of the result", part.shared)))
                }
            };
        }
        let transform = transform_of(part.transform).ok_or_else(|| malformed("unknown transform".into()))?;
        let kind = kind_of(part.kind).ok_or_else(|| malformed("unknown kind".into()))?;
        let shared = Shared::parse(&bytes, kind, transform).map_err(|e| malformed(e.to_string()))?;
        states.insert(part.shared, SharedState::Codec(shared));
        Ok(())
    }

    /// Adds a frame of a chunk that is not the last.
    pub fn add_part(&mut self, part: Buffer) -> Result<()> {
        if self.payload.frames() + 1 >= PARTS_MAX {
            return Err(WireError::malformed("chunk", format!("more than {PARTS_MAX} parts")));
        }
        self.payload.push(part);
        Ok(())
    }

    /// Adds a chunk's last frame, and parses its directory.
    pub fn receive(&mut self, last: Buffer, schema: &Schema, sizes: ChunkSizes) -> Result<Received> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.push(last);
        chunk::receive(&payload, schema, sizes, &mut self.last)
    }

    /// Parses the directory of a chunk in the arena.
    pub fn receive_placed(&mut self, chunk: Buffer, schema: &Schema, sizes: ChunkSizes) -> Result<Received> {
        chunk::receive(&Payload::placed(chunk), schema, sizes, &mut self.last)
    }
}

fn transform_of(id: u8) -> Option<Transform> {
    [Transform::Dictionary, Transform::Fsst, Transform::BlockDictionary].into_iter().find(|t| *t as u8 == id)
}

fn kind_of(id: u8) -> Option<Kind> {
    [Kind::Int, Kind::Wide, Kind::F64, Kind::F32, Kind::Bytes].into_iter().find(|kind| *kind as u8 == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Column, StoredColumn, StoredPiece};
    use crate::chunk::{Job, Recipe, RowLimit};
    use crate::column::{self, Plan};
    use crate::frame::HEADER_BYTES;
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field};
    use freestone_codec::{ColumnPlan, Encoding};
    use freestone_store::plain::Strings;

    const FRAME_BYTES: usize = 4096;
    const COLUMNS: i64 = 20;
    const ROWS: i64 = 600;

    fn array(at: i64) -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| (row * 37 + at) % 5000)))
    }

    /// Frames of stored columns, and of one that is not stored, that do not fit one frame.
    fn frames() -> (Schema, Vec<Vec<u8>>) {
        let plan = ColumnPlan { transform: Transform::None, encoding: Encoding::BitPack };
        let plan = Plan::Chunk { plan, shared: None };
        let stored = |at: i64| {
            let mut bytes = vec![];
            column::encode(&array(at), &plan, &mut bytes).unwrap();
            let range = 0..bytes.len();
            let piece = StoredPiece { owner: Arc::new(bytes), range, skip: 0, rows: ROWS as usize };
            Column::Stored(StoredColumn { data_type: DataType::Int64, shared: None, pieces: vec![piece] })
        };
        let plain = Column::Arrow(array(COLUMNS).slice(0, ROWS as usize));
        let batch = Batch::new(ROWS as usize, (0..COLUMNS).map(stored).chain([plain]).collect()).unwrap();
        let job = Job {
            batch: Arc::new(batch),
            rows: 100..500,
            first_row: 0,
            recipes: Arc::new(vec![Recipe::default(); COLUMNS as usize + 1]),
            may_continue: false,
            chunk_bytes_max: FRAME_BYTES,
            row: RowLimit::of_server(FRAME_BYTES),
        };
        let mut chunks = job.encode(&Vec::new).unwrap();
        assert_eq!(chunks.len(), 1, "fewer rows would not make the stored chunks smaller");
        let frames: Vec<Vec<u8>> =
            chunks.remove(0).frames.into_iter().map(|mut frame| frame.split_off(HEADER_BYTES)).collect();
        let lengths: Vec<usize> = frames.iter().map(Vec::len).collect();
        assert!(lengths.len() > 2 && lengths.iter().all(|length| *length <= FRAME_BYTES), "{lengths:?}");
        let fields = (0..=COLUMNS).map(|at| Field::new(format!("c{at}"), DataType::Int64, false));
        (Schema::new(fields.collect::<Vec<_>>()), frames)
    }

    fn receive(schema: &Schema, frames: &[Vec<u8>]) -> Result<Received> {
        let mut incoming = Incoming::default();
        let (last, parts) = frames.split_last().unwrap();
        parts.iter().try_for_each(|part| incoming.add_part(Buffer::from(&part[..])))?;
        incoming.receive(Buffer::from(&last[..]), schema, ChunkSizes::of(FRAME_BYTES))
    }

    #[test]
    fn a_chunk_in_several_frames_reads_back() {
        let (schema, frames) = frames();
        let chunk = receive(&schema, &frames).unwrap();
        let sizes = ChunkSizes::of(FRAME_BYTES);
        let rows = chunk::decode(&chunk, &Arc::new(schema), Strings::Views, &SharedStates::new(), sizes).unwrap();
        for (at, found) in rows.columns().iter().enumerate() {
            assert_eq!(found, &array(at as i64).slice(100, 400), "column {at}");
        }
    }

    #[test]
    fn frames_that_are_missing_or_too_many_are_errors() {
        let (schema, frames) = frames();
        for missing in 0..frames.len() {
            let mut fewer = frames.clone();
            fewer.remove(missing);
            assert!(receive(&schema, &fewer).is_err(), "without frame {missing}");
        }
        let mut cut = frames.clone();
        cut[1].truncate(100);
        assert!(receive(&schema, &cut).is_err(), "a body that ends in the next frame");
        let many: Vec<Vec<u8>> = std::iter::repeat_n(frames[0].clone(), PARTS_MAX + 1).collect();
        assert!(receive(&schema, &many).unwrap_err().to_string().contains("parts"));
    }
}
