//! What one stream has brought of a result: states that chunks refer to, and the bodies that chunks may go on with.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use freestone_codec::{Kind, Shared, Transform};

use crate::chunk::{self, LastPieces, Received};
use crate::column::dictionary::Entries;
use crate::column::{SharedState, SharedStates};
use crate::error::{Result, WireError};
use crate::message;
use crate::sender::SHARED_BYTES_MAX;

/// The receiving side of one result on one stream.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    pub states: Arc<SharedStates>,
    /// Parts of states that are not complete.
    parts: HashMap<u32, Vec<u8>>,
    bytes: usize,
    last: LastPieces,
}

impl Incoming {
    /// Takes a state, or a part of one.
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

    /// Reads a chunk's directory.
    pub fn receive(&mut self, payload: Buffer, schema: &Schema, chunk_bytes_max: usize) -> Result<Received> {
        chunk::receive(payload, schema, chunk_bytes_max, &mut self.last)
    }
}

fn transform_of(id: u8) -> Option<Transform> {
    [Transform::Dictionary, Transform::Fsst, Transform::BlockDictionary].into_iter().find(|t| *t as u8 == id)
}

fn kind_of(id: u8) -> Option<Kind> {
    [Kind::Int, Kind::Wide, Kind::F64, Kind::F32, Kind::Bytes].into_iter().find(|kind| *kind as u8 == id)
}
