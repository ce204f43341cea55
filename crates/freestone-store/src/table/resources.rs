//! What all snapshots of a store share: the medium, the page cache, the open segments.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{KeyMap, SegmentEntry, segment_file};
use crate::cache::PageCache;
use crate::error::Result;
use crate::media::{Buffer, Medium, MediumError, Pending, ReadFile, ReadRequest};
use crate::segment::{CachedPage, Segment};

/// The source of a key map: a dimension's fingerprint, and the segments of the referenced tables with their rows.
pub type KeyMapSource = (u64, Vec<(u64, u32)>);

/// A column at one state of its table: the table, the last commit that changed its rows, its segments with their rows,
/// the column's id.
pub type ColumnState = (u64, u64, Vec<(u64, u32)>, u32);

/// The files of all open transactions of this process, by their ids.
#[derive(Debug, Default)]
pub struct Unnamed {
    /// The number of times that the log was opened for writing. Between two openings, another process may have written
    /// and may have used the same ids.
    pub opening: u64,
    pub ids: HashSet<u64>,
}

#[derive(Debug)]
pub struct Resources {
    pub medium: Arc<dyn Medium>,
    pub cache: PageCache<CachedPage>,
    open: Mutex<HashMap<u64, Weak<Segment>>>,
    /// The codes of the keys that clustered tables reference, by dimension and the segments from which they were read.
    pub key_maps: Mutex<HashMap<KeyMapSource, Arc<KeyMap>>>,
    /// For one column, whether its values are unique. For two columns, whether all values of the first are in the
    /// second.
    pub answers: Mutex<HashMap<Vec<ColumnState>, bool>>,
    /// The files that no commit names yet.
    pub unnamed: Mutex<Unnamed>,
}

impl Resources {
    pub fn new(medium: Arc<dyn Medium>, cache_bytes: usize) -> Self {
        Resources {
            medium,
            cache: PageCache::new(cache_bytes),
            open: Mutex::default(),
            key_maps: Mutex::default(),
            answers: Mutex::default(),
            unnamed: Mutex::default(),
        }
    }

    /// Opens a segment. A `resident` segment is read into memory as a whole, once, and later scans copy nothing.
    pub fn open_segment(&self, entry: &SegmentEntry, resident: bool) -> Result<Arc<Segment>> {
        if let Some(hot) = &entry.hot {
            return Ok(Arc::new(hot.segment(entry.id)));
        }
        if let Some(blocks) = &entry.blocks {
            return Ok(Arc::new(blocks.segment(entry.id)));
        }
        if let Some(segment) = self.open.lock().get(&entry.id).and_then(Weak::upgrade) {
            return Ok(segment);
        }
        let name = segment_file(entry.id);
        let segment = match resident {
            true => {
                let bytes = Arc::new(read_whole(self.medium.open(&name)?.as_ref())?);
                Arc::new(Segment::open(entry.id, &name, Arc::new(BytesFile { name: name.clone(), bytes }))?)
            }
            false => Arc::new(Segment::open(entry.id, &name, self.medium.open(&name)?)?),
        };
        let mut open = self.open.lock();
        open.retain(|_, segment| segment.strong_count() > 0);
        open.insert(entry.id, Arc::downgrade(&segment));
        Ok(segment)
    }
}

fn read_whole(file: &dyn ReadFile) -> Result<Vec<u8>, MediumError> {
    const STEP: usize = 1 << 20;
    let len = file.len()? as usize;
    let request = |at: usize| ReadRequest { offset: at as u64, len: STEP.min(len - at) };
    let requests: Vec<ReadRequest> = (0..len).step_by(STEP).map(request).collect();
    let mut bytes = Vec::with_capacity(len);
    for part in file.read_many(&requests) {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes)
}

/// A segment in memory, as a file.
#[derive(Debug)]
struct BytesFile {
    name: String,
    bytes: Arc<Vec<u8>>,
}

impl BytesFile {
    fn slice(&self, offset: u64, len: usize) -> Result<&[u8], MediumError> {
        let range = usize::try_from(offset).ok().and_then(|o| Some(o..o.checked_add(len)?));
        range.and_then(|r| self.bytes.get(r)).ok_or_else(|| MediumError::PastEnd {
            file: self.name.clone(),
            file_len: self.bytes.len() as u64,
            offset,
            len: len as u64,
        })
    }
}

impl ReadFile for BytesFile {
    fn len(&self) -> Result<u64, MediumError> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(self.slice(offset, into.len())?);
        Ok(())
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        let read = |r: &ReadRequest| {
            self.slice(r.offset, r.len)?;
            let start = r.offset as usize;
            Ok(Buffer::shared(self.bytes.clone(), start..start + r.len))
        };
        Pending::ready(requests.iter().map(read).collect())
    }
}
