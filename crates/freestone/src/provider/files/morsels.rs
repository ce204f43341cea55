//! The morsels of a scan, in the order of the files: row groups of Parquet, batches of Arrow, blocks of text. All
//! partitions take morsels from one queue.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::scan::Scan;
use super::set::{Contents, FileSet};
use crate::error::Result;
use crate::ingest::{Block, BlockSource, BufferPool, Source};

/// The part of a file that one partition reads at once.
pub(super) enum Morsel {
    /// A row group of a Parquet file.
    Group { file: usize, group: usize },
    /// A batch of an Arrow file, or all batches of a stream.
    Batch { file: usize, batch: Option<usize> },
    /// Consecutive records of a text file.
    Block { file: usize, block: Box<Block> },
}

/// Morsels that are known without reading the file.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Group { file: usize, group: usize },
    Batch { file: usize, batch: Option<usize> },
    Text { file: usize },
}

/// The queue of morsels, which partitions share.
pub(super) struct Queue(Mutex<Cut>);

/// An iterator over the morsels of a scan.
pub(super) struct Cut {
    scan: Arc<Scan>,
    pieces: VecDeque<Piece>,
    open: Option<OpenText>,
    /// The buffers of blocks that were released.
    pool: BufferPool,
}

/// The text file that is being split into blocks.
struct OpenText {
    file: usize,
    blocks: BlockSource,
    /// The bytes of the file that are reported as read.
    told_bytes: u64,
}

impl Piece {
    /// The bytes of the file that are read for it.
    fn bytes(self, set: &FileSet) -> u64 {
        let file = |at: usize| &set.files[at];
        match self {
            Piece::Group { file: at, group } => match &file(at).contents {
                Contents::Parquet(parquet) => {
                    u64::try_from(parquet.metadata().metadata().row_group(group).compressed_size()).unwrap_or(0)
                }
                _ => 0,
            },
            Piece::Batch { file: at, .. } => match &file(at).contents {
                Contents::Arrow(arrow) => file(at).bytes / arrow.batches().unwrap_or(1).max(1) as u64,
                _ => 0,
            },
            Piece::Text { file: at } => file(at).bytes,
        }
    }
}

impl Queue {
    pub fn new(cut: Cut) -> Self {
        Self(Mutex::new(cut))
    }

    pub fn next(&self) -> Option<Result<Morsel>> {
        self.0.lock().next_morsel()
    }

    pub fn pool(&self) -> BufferPool {
        self.0.lock().pool.clone()
    }
}

impl Cut {
    /// The morsels that may have rows that pass the filters. `part` of `parts` if partitions do not share a queue.
    pub fn new(scan: &Arc<Scan>, (part, parts): (usize, usize)) -> Self {
        let all = pieces(scan);
        let (from, to) = (all.len() * part / parts.max(1), all.len() * (part + 1) / parts.max(1));
        let pieces: VecDeque<Piece> = all[from..to].iter().copied().collect();
        scan.progress.begin(pieces.iter().map(|piece| piece.bytes(&scan.set)).sum());
        Self { scan: Arc::clone(scan), pieces, open: None, pool: BufferPool::default() }
    }

    pub fn pool(&self) -> BufferPool {
        self.pool.clone()
    }

    fn blocks(&self, file: usize) -> Result<Option<BlockSource>> {
        let set = &self.scan.set;
        let Contents::Text(text) = &set.files[file].contents else { return Ok(None) };
        set.files[file].check_length()?;
        let blocks = text.blocks(&set.files[file].path, &set.options, self.pool.clone());
        Ok(Some(blocks.map_err(|error| set.files[file].renamed(error.into()))?))
    }
}

impl Source for Cut {
    type Morsel = Result<Morsel>;

    fn next_morsel(&mut self) -> Option<Result<Morsel>> {
        loop {
            if let Some(open) = &mut self.open {
                let block = open.blocks.next_morsel();
                let read_bytes = open.blocks.file_bytes();
                self.scan.progress.advance(read_bytes.saturating_sub(open.told_bytes));
                open.told_bytes = read_bytes;
                match block {
                    Some(block) => return Some(Ok(Morsel::Block { file: open.file, block: Box::new(block) })),
                    None => self.open = None,
                }
            }
            let piece = self.pieces.pop_front()?;
            if !matches!(piece, Piece::Text { .. }) {
                self.scan.progress.advance(piece.bytes(&self.scan.set));
            }
            match piece {
                Piece::Group { file, group } => {
                    self.prepare((file, group));
                    return Some(Ok(Morsel::Group { file, group }));
                }
                Piece::Batch { file, batch } => return Some(Ok(Morsel::Batch { file, batch })),
                Piece::Text { file } => match self.blocks(file) {
                    Ok(blocks) => self.open = blocks.map(|blocks| OpenText { file, blocks, told_bytes: 0 }),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}

impl Cut {
    /// Begins to fetch a row group elsewhere and those after it, as far as there is room for them.
    fn prepare(&self, (file, group): (usize, usize)) {
        if !self.scan.ahead.prepare(file, group) {
            return;
        }
        for piece in &self.pieces {
            let Piece::Group { file, group } = *piece else { return };
            if !self.scan.ahead.prepare(file, group) {
                return;
            }
        }
    }
}

/// The pieces of the files that remain after pruning.
fn pieces(scan: &Scan) -> Vec<Piece> {
    let (set, pruning) = (&scan.set, &scan.pruning);
    let mut pieces = vec![];
    for (at, file) in set.files.iter().enumerate() {
        match &file.contents {
            Contents::Parquet(parquet) => {
                let all: Vec<usize> = (0..parquet.metadata().metadata().num_row_groups()).collect();
                let count = all.len();
                let kept = pruning.groups(file, parquet, &set.schema, all);
                scan.counters.pruned_groups.add(count - kept.len());
                pieces.extend(kept.into_iter().map(|group| Piece::Group { file: at, group }));
            }
            _ if !pruning.keeps_file(file, &set.schema) => {}
            Contents::Arrow(arrow) => match arrow.batches() {
                Some(batches) => pieces.extend((0..batches).map(|batch| Piece::Batch { file: at, batch: Some(batch) })),
                None => pieces.push(Piece::Batch { file: at, batch: None }),
            },
            Contents::Text(_) => pieces.push(Piece::Text { file: at }),
        }
    }
    pieces
}

/// The approximate number of morsels without filters, which is the number of partitions that can work.
pub(super) fn count(set: &FileSet) -> usize {
    /// The bytes of a block of text.
    const BLOCK_BYTES: u64 = 4 << 20;
    let morsels = set.files.iter().map(|file| match &file.contents {
        Contents::Parquet(parquet) => parquet.metadata().metadata().num_row_groups(),
        Contents::Arrow(arrow) => arrow.batches().unwrap_or(1),
        Contents::Text(_) => usize::try_from(file.bytes / BLOCK_BYTES).unwrap_or(usize::MAX).saturating_add(1),
    });
    morsels.fold(0, usize::saturating_add)
}
