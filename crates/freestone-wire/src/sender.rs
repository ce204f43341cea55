//! Sends batches as chunks: encodes on several threads, preserves the order, and sends as credit allows, on one stream
//! or several.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use freestone_codec::Shared;
use freestone_store::schema::kind;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::adapt::{self, Link};
use crate::batch::{Batch, BatchBytes, Column, STORED_ROWS, StoredShared};
use crate::chunk::{ChunkFrames, Job, Placing, Recipe, RowLimit, rows_max};
use crate::column::bytes::Compression;
use crate::column::dictionary::Codes;
use crate::column::{ByteCodec, Choice, Form, Nulls, Plan};
use crate::error::{Result, WireError};
use crate::frame::{Blob, Kind, frame, seal};
use crate::growth::Growth;
use crate::limits::DECODED_RATIO;
use crate::memory::ServerMemory;
use crate::memory::arena::FilledChunk;
use crate::memory::ring::Ring;
use crate::message;
use crate::outgoing::Outgoing;
use crate::pool::Pool;
use crate::sample::{self, SampledForm};

/// The maximum bytes of shared states of one result. Stored columns that would exceed it are decoded.
pub(crate) const SHARED_BYTES_MAX: usize = 256 << 20;
/// Smaller batches are encoded on the calling thread, and are no sample.
const SMALL_BYTES: usize = 64 << 10;
/// The number of batches after which forms are tried again.
const TRY_AGAIN: usize = 64;
/// Bytes per nanosecond of a link for which higher levels of Zstandard are tried, 240 Mbit/s: of a faster one they are slower than
/// the link, and trying them takes time.
const SLOW: f64 = 0.03;
/// The approximate bytes of a placed chunk: the rows of a stored morsel of a narrow table, few enough that stored pages
/// and decoded strings stay in the caches until they are written.
const PLACED_BYTES: usize = 8 << 20;
/// The time that small batches wait for others.
const PATIENCE: Duration = Duration::from_millis(10);
/// The time that a result's header waits for its first chunk, and finished chunks wait for unfinished ones, to be
/// written together.
const FLUSH_PATIENCE: Duration = Duration::from_millis(2);
/// The number of consecutive chunks that one of several streams carries. A body that is omitted because the previous
/// chunk has it must have been sent on the same stream, so short runs send stored pages more than once, and long ones
/// leave streams idle at the end.
pub(crate) const RUN_CHUNKS: usize = 4;

/// How columns are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// With the form that is measured to be fastest end to end.
    #[default]
    Measured,
    /// All columns plain, or as they are stored, with one byte codec.
    Plain(ByteCodec),
    /// All columns by the codecs' own choice, with one byte codec.
    Encoded(ByteCodec),
    /// Arrays, with strings that end with a zero, and a value that no row has in the place of NULL, with one byte codec: MonetDB++
    /// of Raasveldt and Mühleisen 2017, section 4.1.
    Sentinel(ByteCodec),
    /// The same, with a bitmask in columns that have NULLs, and no values for these: PostgreSQL++, section 4.2.
    Mask(ByteCodec),
}

impl Preference {
    /// Whether columns are to come as arrays, and not as they are stored.
    pub fn takes_arrays(self) -> bool {
        matches!(self, Preference::Sentinel(_) | Preference::Mask(_))
    }

    /// The first choice of each column.
    fn choice(self) -> Choice {
        let ended = |nulls| Plan::Strings { form: Form::NulTerminated, nulls };
        let (codec, plan) = match self {
            Preference::Measured => return Choice::default(),
            Preference::Plain(codec) | Preference::Encoded(codec) => (codec, Choice::default().plan),
            Preference::Sentinel(codec) => (codec, ended(Nulls::Sentinel)),
            Preference::Mask(codec) => (codec, ended(Nulls::Packed)),
        };
        Choice { plan, codec: codec.into() }
    }
}

/// Shared by all parts of a sender.
pub(crate) struct Context {
    pub id: u32,
    pub schema: SchemaRef,
    pub chunk_bytes_max: usize,
    /// The size above which rows are refused.
    pub row: RowLimit,
    /// How to ask the receiver for larger chunks of one row, if it can agree to that.
    pub growth: Option<Arc<Growth>>,
    /// The receiver's byte codecs.
    pub codecs: Vec<ByteCodec>,
    /// Whether the receiver accepts chunks in stored form.
    pub stored: bool,
    pub threads: usize,
    pub pool: Arc<Pool>,
    /// One permit per chunk that may be sent.
    pub credit: Arc<Semaphore>,
    /// True when nobody wants the rows any more.
    pub cancel: watch::Sender<bool>,
    /// Sends chunks through shared memory, if there is some.
    pub memory: Option<Arc<ServerMemory>>,
}

impl Context {
    /// The limits for a row now.
    fn row(&self) -> RowLimit {
        let agreed = self.growth.as_ref().map_or(self.row.agreed, |growth| growth.agreed());
        RowLimit { agreed, ..self.row }
    }

    async fn cancelled(&self) {
        // An error means that nobody is left to cancel: the sender of the channel is in this struct.
        _ = self.cancel.subscribe().wait_for(|is_cancelled| *is_cancelled).await;
    }
}

/// Sends the rows of a result or an upload.
pub(crate) struct ChunkSender {
    context: Arc<Context>,
    streams: Vec<Arc<Outgoing>>,
    items: Option<mpsc::Sender<Item>>,
    carriers: Vec<JoinHandle<Result<()>>>,
    states: Arc<States>,
    rows: u64,
    small: Small,
    chooser: Chooser,
    /// Sent bytes divided by estimated bytes, as `f64` bits.
    ratio: Arc<AtomicU64>,
    before: Option<Arc<Batch>>,
    /// Whether chunks are placed in memory that the client maps, as long as there is room.
    places: Arc<AtomicBool>,
    /// With several streams, the number of chunks that are left in the current run.
    left_of_run: usize,
}

/// The chunks of one job, in progress or done.
struct Item {
    chunks: Chunks,
    /// The states to which the chunks refer, and the number of entries of each.
    needs: Vec<(u32, usize)>,
    /// Whether the following chunk may use another stream.
    ends_run: bool,
}

enum Chunks {
    Done(Vec<Encoded>),
    InWork(JoinHandle<Result<Vec<Encoded>>>),
}

/// A chunk that can be sent.
enum Encoded {
    Frames(ChunkFrames),
    Placed(FilledChunk),
}

/// Small batches that wait to be combined.
struct Small {
    batches: Vec<RecordBatch>,
    bytes: usize,
    since: Instant,
}

impl ChunkSender {
    /// `header` is sent before the first chunk, together with it if it is ready soon. The first stream is the main one.
    pub fn start(context: Context, streams: Vec<Arc<Outgoing>>, preference: Preference, header: Vec<u8>) -> Self {
        let context = Arc::new(context);
        let waiting = context.threads + 1 + if streams.len() > 1 { streams.len() * RUN_CHUNKS } else { 0 };
        let (items, receiver) = mpsc::channel(waiting);
        let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
        let states = Arc::new(States::default());
        let carriers = streams.iter().enumerate().map(|(at, stream)| {
            let header = if at == 0 { header.clone() } else { vec![] };
            let carrier = Carrier {
                context: context.clone(),
                stream: stream.clone(),
                states: states.clone(),
                sent: HashMap::new(),
                memory: context.memory.clone().filter(|_| at == 0),
                is_alone: streams.len() == 1,
                unpaid: 0,
            };
            tokio::spawn(carrier.run(receiver.clone(), header))
        });
        let carriers = carriers.collect();
        let columns = context.schema.fields().len();
        let has_arena = context.memory.as_ref().is_some_and(|memory| memory.has_arena());
        let places = has_arena && streams.len() == 1 && preference == Preference::Measured;
        Self {
            places: Arc::new(AtomicBool::new(places)),
            context,
            streams,
            items: Some(items),
            carriers,
            states,
            rows: 0,
            small: Small { batches: vec![], bytes: 0, since: Instant::now() },
            chooser: Chooser::new(columns, preference),
            ratio: Arc::new(AtomicU64::new(1f64.to_bits())),
            before: None,
            left_of_run: 0,
        }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Sends rows, after waiting until there is room for them.
    pub async fn send(&mut self, batch: Batch) -> Result<()> {
        let batch = batch.conform(&self.context.schema)?;
        if batch.rows() == 0 {
            return Ok(());
        }
        let bytes = batch.bytes();
        let waits = self.rows > 0 && bytes.arrays < self.context.chunk_bytes_max / 16 && !batch.has_stored();
        if !waits {
            self.send_small().await?;
            return self.submit(batch, bytes).await;
        }
        self.small.batches.push(as_arrow(&batch, &self.context.schema)?);
        self.small.bytes += bytes.arrays;
        if self.small.bytes >= self.context.chunk_bytes_max / 4 || self.small.since.elapsed() > PATIENCE {
            self.send_small().await?;
        }
        Ok(())
    }

    async fn send_small(&mut self) -> Result<()> {
        self.small.since = Instant::now();
        if self.small.batches.is_empty() {
            return Ok(());
        }
        let batches = std::mem::take(&mut self.small.batches);
        let bytes = BatchBytes { arrays: std::mem::take(&mut self.small.bytes), stored: 0 };
        let whole = arrow::compute::concat_batches(&self.context.schema, &batches)
            .map_err(|e| WireError::Encode { column: "*".into(), reason: e.to_string() })?;
        self.submit(whole.into(), bytes).await
    }

    /// The batch with only those columns in stored form that can be sent so.
    fn fitted(&self, batch: Batch) -> Result<Batch> {
        let batch = match self.context.stored {
            true => batch.decoded_to_fit(self.context.chunk_bytes_max)?,
            false => batch.decoded()?,
        };
        if self.states.has_room(&batch) { Ok(batch) } else { batch.decoded() }
    }

    async fn submit(&mut self, batch: Batch, bytes: BatchBytes) -> Result<()> {
        let is_small = bytes.stored + bytes.arrays < SMALL_BYTES;
        match self.places.load(Ordering::Relaxed) && !is_small {
            true => self.submit_placed(batch).await,
            false => self.submit_frames(batch, bytes).await,
        }
    }

    /// Sends rows in memory that the client maps.
    async fn submit_placed(&mut self, batch: Batch) -> Result<()> {
        let batch = Arc::new(batch);
        let rows = batch.rows();
        let rows_max = rows_max(&self.context.schema, self.context.chunk_bytes_max);
        let step = batch.rows_within(PLACED_BYTES, self.context.chunk_bytes_max).min(rows_max);
        // Chunks of about equal sizes.
        let step = rows.div_ceil(rows.div_ceil(step));
        let recipes = Arc::new(vec![Recipe::default(); self.context.schema.fields().len()]);
        for from in (0..rows).step_by(step) {
            let job = self.job(&batch, from..(from + step).min(rows), recipes.clone(), false);
            let (context, places) = (self.context.clone(), self.places.clone());
            let work = move || {
                let mut chunks = vec![];
                place(&context, &places, job, &mut chunks)?;
                Ok(chunks)
            };
            let chunks = Chunks::InWork(tokio::task::spawn_blocking(work));
            self.push(Item { chunks, needs: vec![], ends_run: true }).await?;
        }
        self.rows += rows as u64;
        self.before = None;
        Ok(())
    }

    fn job(&self, batch: &Arc<Batch>, rows: Range<usize>, recipes: Arc<Vec<Recipe>>, may_continue: bool) -> Job {
        Job {
            batch: batch.clone(),
            rows,
            first_row: self.rows,
            recipes,
            may_continue,
            chunk_bytes_max: self.context.chunk_bytes_max,
            row: self.context.row(),
        }
    }

    async fn submit_frames(&mut self, mut batch: Batch, mut bytes: BatchBytes) -> Result<()> {
        if batch.has_stored() {
            batch = self.fitted(batch)?;
            bytes = batch.bytes();
        }
        let batch = Arc::new(batch);
        let all_bytes = bytes.stored + bytes.arrays;
        self.chooser.choose(&batch, all_bytes, &self.streams, &self.context, &self.states).await?;
        let mut needs = vec![];
        let recipes = Arc::new(self.recipes(&batch, &mut needs));
        let rows = batch.rows();
        let step = self.step(&batch, bytes);
        for from in (0..rows).step_by(step) {
            let (may_continue, ends_run) = self.place_in_run();
            let job = self.job(&batch, from..(from + step).min(rows), recipes.clone(), may_continue);
            let estimate = all_bytes as f64 * job.rows.len() as f64 / rows as f64;
            self.push(Item { chunks: self.encode(job, estimate)?, needs: needs.clone(), ends_run }).await?;
        }
        self.rows += rows as u64;
        self.before = batch.has_stored().then_some(batch);
        Ok(())
    }

    /// The number of rows per chunk for a batch with these bytes.
    fn step(&self, batch: &Batch, bytes: BatchBytes) -> usize {
        let ratio = if batch.has_stored() { 1.0 } else { f64::from_bits(self.ratio.load(Ordering::Relaxed)) };
        let frame = self.context.chunk_bytes_max as f64;
        let rows_in = |room: f64, bytes: f64| (room * batch.rows() as f64 / bytes.max(1.0)) as usize;
        let of_arrays = rows_in(frame * 0.9, bytes.arrays as f64 * ratio);
        let stored = bytes.stored as f64;
        let of_stored = rows_in(frame, stored).max(STORED_ROWS.min(rows_in(frame * 4.0, stored)));
        of_arrays.min(of_stored).clamp(1, rows_max(&self.context.schema, self.context.chunk_bytes_max))
    }

    /// Whether the next chunk follows the previous one on its stream, and whether the one after it may use another
    /// stream. With one stream, each follows.
    fn place_in_run(&mut self) -> (bool, bool) {
        if self.streams.len() == 1 {
            return (true, true);
        }
        let begins = self.left_of_run == 0;
        self.left_of_run = if begins { RUN_CHUNKS - 1 } else { self.left_of_run - 1 };
        (!begins, self.left_of_run == 0)
    }

    fn recipes(&self, batch: &Batch, needs: &mut Vec<(u32, usize)>) -> Vec<Recipe> {
        let continues = self.before.as_ref().map(|before| batch.continues(before)).unwrap_or_default();
        let recipe = |(at, column): (usize, &Column)| match column {
            Column::Arrow(array) => {
                let choice = self.chooser.arrow[at].clone();
                let codes = match choice.plan {
                    Plan::Dictionary { shared } => {
                        let (codes, entries) = self.states.codes(shared, array);
                        needs.push((shared, entries));
                        codes.map(Arc::new)
                    }
                    Plan::Chunk { shared: Some((shared, _)), .. } => {
                        needs.push((shared, 0));
                        None
                    }
                    _ => None,
                };
                Recipe { choice, codes, ..Recipe::default() }
            }
            Column::Stored(stored) => {
                let shared = stored.shared.as_ref().map_or(0, |shared| self.states.stored(shared, &stored.data_type));
                needs.extend((shared != 0).then_some((shared, 0)));
                let choice = self.chooser.stored[at].clone();
                Recipe { choice, shared, codes: None, continues: continues.get(at) == Some(&true) }
            }
        };
        batch.columns().iter().enumerate().map(recipe).collect()
    }

    /// Encodes small jobs at once, others on a worker thread.
    fn encode(&self, job: Job, estimate: f64) -> Result<Chunks> {
        let (pool, ratio, id) = (self.context.pool.clone(), self.ratio.clone(), self.context.id);
        let work = move || {
            let chunks = encode(id, &job, &pool)?;
            let bytes: usize = chunks.iter().flat_map(|chunk| &chunk.frames).map(Vec::len).sum();
            // Stored chunks have their own length, and the first rows bring those of later ones.
            if estimate > SMALL_BYTES as f64 && !job.batch.has_stored() {
                ratio.store((bytes as f64 / estimate).clamp(1e-3, 4.0).to_bits(), Ordering::Relaxed);
            }
            Ok(chunks.into_iter().map(Encoded::Frames).collect())
        };
        if estimate < SMALL_BYTES as f64 {
            return work().map(Chunks::Done);
        }
        Ok(Chunks::InWork(tokio::task::spawn_blocking(work)))
    }

    async fn push(&mut self, item: Item) -> Result<()> {
        let sent = match &self.items {
            Some(items) => items.send(item).await.is_ok(),
            None => false,
        };
        if sent { Ok(()) } else { Err(self.stop().await.err().unwrap_or(WireError::Cancelled)) }
    }

    /// Waits until the carriers have sent everything, and returns their error.
    async fn stop(&mut self) -> Result<()> {
        self.items = None;
        let mut result = Ok(());
        for carrier in std::mem::take(&mut self.carriers) {
            let ended = carrier
                .await
                .unwrap_or_else(|error| Err(WireError::Malformed { what: "sender", reason: error.to_string() }));
            // The first failure is more informative than the cancellation of the others that it caused.
            if matches!((&result, &ended), (Ok(()) | Err(WireError::Cancelled), Err(_))) {
                result = ended;
            }
        }
        result
    }

    /// Sends the remaining chunks. The main stream's last frames may wait for a flush.
    pub async fn finish(&mut self) -> Result<()> {
        self.send_small().await?;
        self.stop().await
    }

    /// Ends without sending the remaining chunks; those that have begun to be sent are finished. Returns the error that
    /// had ended it before, if any.
    pub async fn abort(&mut self) -> Option<WireError> {
        self.context.cancel.send_replace(true);
        self.stop().await.err().filter(|error| !matches!(error, WireError::Cancelled))
    }
}

impl Drop for ChunkSender {
    fn drop(&mut self) {
        self.context.cancel.send_replace(true);
    }
}

/// Places a job's rows in memory that the client maps, in several chunks if they have more bytes than estimated, or
/// finds them there from an earlier result. If neither is possible, encodes them.
fn place(context: &Context, places: &AtomicBool, job: Job, chunks: &mut Vec<Encoded>) -> Result<()> {
    let bytes_max = (4 * PLACED_BYTES).min(context.chunk_bytes_max.saturating_mul(DECODED_RATIO));
    let region = |bytes: usize| {
        let region = context.memory.as_ref()?.region(bytes);
        if region.is_none() {
            places.store(false, Ordering::Relaxed);
        }
        region
    };
    let origin = job.origin(bytes_max);
    if let Some(found) = context.memory.as_ref().zip(origin.as_ref()).and_then(|(memory, origin)| memory.find(origin)) {
        chunks.push(Encoded::Placed(found));
        return Ok(());
    }
    let placing = if places.load(Ordering::Relaxed) { job.place(bytes_max, origin, region) } else { Ok(Placing::Not) };
    let parts = match placing {
        Ok(Placing::Done(placed)) => {
            chunks.push(Encoded::Placed(placed));
            return Ok(());
        }
        Ok(Placing::Not) => {
            chunks.extend(encode(context.id, &job.decoded()?, &context.pool)?.into_iter().map(Encoded::Frames));
            return Ok(());
        }
        Ok(Placing::Large { parts }) => parts,
        // Perhaps strings of more than 2 GiB. If it is another error, it also occurs with fewer rows.
        Err(_) if job.rows.len() > 1 => 16,
        Err(error) => return Err(error),
    };
    let step = job.rows.len().div_ceil(parts);
    let Range { start, end } = job.rows;
    (start..end).step_by(step).try_for_each(|from| {
        let part = Job { rows: from..(from + step).min(end), ..job.clone() };
        place(context, places, part, chunks)
    })
}

/// The frames of a job's chunks.
fn encode(id: u32, job: &Job, pool: &Pool) -> Result<Vec<ChunkFrames>> {
    let mut chunks = job.encode(&|| pool.take())?;
    chunks.iter_mut().for_each(|chunk| seal_all(id, &mut chunk.frames));
    Ok(chunks)
}

/// Writes the headers of a chunk's frames.
fn seal_all(id: u32, frames: &mut [Vec<u8>]) {
    if let Some((last, parts)) = frames.split_last_mut() {
        parts.iter_mut().for_each(|part| seal(Kind::ChunkPart, id, part));
        seal(Kind::Chunk, id, last);
    }
}

fn as_arrow(batch: &Batch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().filter_map(|column| match column {
        Column::Arrow(array) => Some(array.clone()),
        Column::Stored(_) => None,
    });
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.collect(), &options)
        .map_err(|e| WireError::Encode { column: "*".into(), reason: e.to_string() })
}

/// Sends chunks on one stream.
struct Carrier {
    context: Arc<Context>,
    stream: Arc<Outgoing>,
    states: Arc<States>,
    /// The number of entries, or bytes, of each state that this stream has sent.
    sent: HashMap<u32, usize>,
    memory: Option<Arc<ServerMemory>>,
    is_alone: bool,
    /// Chunks that were sent without credit.
    unpaid: usize,
}

impl Carrier {
    async fn run(mut self, items: Arc<tokio::sync::Mutex<mpsc::Receiver<Item>>>, header: Vec<u8>) -> Result<()> {
        self.stream.lock().await.put(&header).await?;
        let mut is_first = true;
        loop {
            match self.run_of_chunks(&items, std::mem::take(&mut is_first)).await {
                Ok(true) => {}
                // The last chunk is written together with the message that completes the result. But that message waits
                // for the other streams, which may wait for credit that the reader gives only after it has read this
                // chunk.
                Ok(false) => return if self.is_alone { Ok(()) } else { self.stream.flush().await },
                Err(error) => {
                    self.context.cancel.send_replace(true);
                    return Err(error);
                }
            }
        }
    }

    /// Sends the next run; false after the last. The other streams wait until all chunks of this run are here: if
    /// chunks are produced slowly, several streams are no faster.
    async fn run_of_chunks(
        &mut self,
        items: &tokio::sync::Mutex<mpsc::Receiver<Item>>,
        is_first: bool,
    ) -> Result<bool> {
        let mut items = match items.try_lock() {
            Ok(items) => items,
            Err(_) => {
                // Others may wait long for work or credit, while the reader waits for the queue of this stream.
                self.stream.flush().await?;
                items.lock().await
            }
        };
        let mut run = vec![];
        loop {
            let item = match items.try_recv() {
                Ok(item) => item,
                Err(_) => {
                    self.carry_all(&mut run).await?;
                    let Some(item) = self.next(&mut items, is_first).await? else { return Ok(false) };
                    item
                }
            };
            // Credit is taken in the order of chunks. So the chunk for which a reader waits never waits for credit that
            // later chunks have, nor for this stream while it waits for credit.
            if !self.try_credit()? {
                self.carry_all(&mut run).await?;
                self.credit().await?;
            }
            let ends_run = item.ends_run;
            run.push(item);
            if ends_run {
                break;
            }
        }
        drop(items);
        self.carry_all(&mut run).await?;
        Ok(true)
    }

    async fn carry_all(&mut self, run: &mut Vec<Item>) -> Result<()> {
        for item in run.drain(..) {
            self.carry(item).await?;
        }
        // Chunks without credit are sent like others. Their credit is taken when all chunks with credit have been sent,
        // because the reader may wait for the last of these before it gives more.
        for _ in 0..std::mem::take(&mut self.unpaid) {
            self.credit().await?;
        }
        Ok(())
    }

    async fn next(&self, items: &mut mpsc::Receiver<Item>, is_first: bool) -> Result<Option<Item>> {
        match items.try_recv() {
            Ok(item) => return Ok(Some(item)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => {}
        }
        if is_first && let Ok(item) = tokio::time::timeout(FLUSH_PATIENCE, items.recv()).await {
            return Ok(item);
        }
        self.stream.flush().await?;
        tokio::select! {
            item = items.recv() => Ok(item),
            () = self.context.cancelled() => Err(WireError::Cancelled),
        }
    }

    /// Takes credit for a chunk, if there is some.
    fn try_credit(&self) -> Result<bool> {
        if *self.context.cancel.borrow() {
            return Err(WireError::Cancelled);
        }
        Ok(self.context.credit.try_acquire().map(|permit| permit.forget()).is_ok())
    }

    async fn credit(&self) -> Result<()> {
        if self.try_credit()? {
            return Ok(());
        }
        self.stream.flush().await?;
        tokio::select! {
            permit = self.context.credit.acquire() => permit.map(|permit| permit.forget()).map_err(|_| WireError::Cancelled),
            () = self.context.cancelled() => Err(WireError::Cancelled),
        }
    }

    async fn carry(&mut self, item: Item) -> Result<()> {
        for (id, entries) in &item.needs {
            self.send_state(*id, *entries).await?;
        }
        let chunks = match item.chunks {
            Chunks::Done(chunks) => chunks,
            Chunks::InWork(mut work) => {
                // Finished chunks do not wait long for others that are in progress.
                let done = match tokio::time::timeout(FLUSH_PATIENCE, &mut work).await {
                    Ok(done) => done,
                    Err(_) => {
                        self.stream.flush().await?;
                        work.await
                    }
                };
                done.unwrap_or_else(|e| Err(WireError::Malformed { what: "encoder", reason: e.to_string() }))?
            }
        };
        // A job that gave several chunks took credit for one. If one stream carries everything, the reader gives credit
        // for the others as it takes them.
        if !self.is_alone {
            self.unpaid += chunks.len().saturating_sub(1);
        }
        for (at, chunk) in chunks.into_iter().enumerate() {
            if self.is_alone && at > 0 {
                self.credit().await?;
            }
            match chunk {
                Encoded::Frames(frames) => self.send_frames(frames).await?,
                Encoded::Placed(filled) => {
                    let mut writer = self.stream.lock().await;
                    writer.put(&frame(self.context.id, &filled.send())).await?;
                }
            }
        }
        Ok(())
    }

    async fn send_frames(&self, chunk: ChunkFrames) -> Result<()> {
        if let Some(growth) = &self.context.growth {
            self.agree(growth, chunk.needed).await?;
        }
        let parts = chunk.frames.len() - 1;
        for (at, bytes) in chunk.frames.into_iter().enumerate() {
            match &self.memory {
                Some(memory) => self.send_mapped(&memory.peer.ring, &bytes, at < parts).await?,
                None => self.stream.send_measured(&bytes).await?,
            }
            self.context.pool.give(bytes);
        }
        Ok(())
    }

    /// Waits until the receiver accepts a row of this size.
    async fn agree(&self, growth: &Growth, needed: usize) -> Result<()> {
        if needed <= growth.agreed() {
            return Ok(());
        }
        // The receiver may wait for earlier chunks of this stream.
        self.stream.flush().await?;
        tokio::select! {
            agreed = growth.agree(needed) => agreed,
            () = self.context.cancelled() => Err(WireError::Cancelled),
        }
    }

    async fn send_mapped(&self, ring: &Ring, bytes: &[u8], more: bool) -> Result<()> {
        match ring.put(&bytes[crate::frame::HEADER_BYTES..], more) {
            Some(mapped) => self.stream.lock().await.put(&frame(self.context.id, &mapped)).await,
            None => self.stream.send_measured(bytes).await,
        }
    }

    /// Sends a state, or the part that this stream has not sent yet.
    async fn send_state(&mut self, id: u32, entries: usize) -> Result<()> {
        let sent = self.sent.entry(id).or_default();
        let Some(parts) = self.states.parts(id, entries, sent, self.context.chunk_bytes_max) else { return Ok(()) };
        let mut writer = self.stream.lock().await;
        for part in parts {
            writer.put(&frame(self.context.id, &part)).await?;
        }
        Ok(())
    }
}

/// The states to which chunks of a result refer.
#[derive(Default)]
pub(crate) struct States {
    inner: Mutex<StateList>,
}

#[derive(Default)]
struct StateList {
    /// State `i` has the number `i + 1`.
    states: Vec<State>,
    by_key: HashMap<u64, u32>,
    bytes: usize,
}

enum State {
    Codec { transform: u8, kind: u8, bytes: Arc<Vec<u8>> },
    Codes { codes: Codes },
}

impl States {
    fn lock(&self) -> std::sync::MutexGuard<'_, StateList> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all new states that a batch needs may be sent.
    fn has_room(&self, batch: &Batch) -> bool {
        let list = self.lock();
        let new = batch.columns().iter().filter_map(|column| match column {
            Column::Stored(stored) => stored.shared.as_ref().filter(|s| !list.by_key.contains_key(&s.key)),
            Column::Arrow(_) => None,
        });
        let bytes: usize = new.map(|shared| size_of(&shared.shared)).sum();
        list.bytes + bytes <= SHARED_BYTES_MAX
    }

    /// The number of a stored column's state.
    fn stored(&self, shared: &StoredShared, data_type: &DataType) -> u32 {
        let mut list = self.lock();
        if let Some(id) = list.by_key.get(&shared.key) {
            return *id;
        }
        let id = list.add_codec(&shared.shared, data_type);
        list.by_key.insert(shared.key, id);
        id
    }

    /// The codes of an array in dictionary `id`, if it can contain them, and its number of entries afterwards.
    fn codes(&self, id: u32, array: &arrow::array::ArrayRef) -> (Option<Vec<i64>>, usize) {
        match self.lock().states.get_mut(id as usize - 1) {
            Some(State::Codes { codes }) => (codes.encode(array), codes.len()),
            _ => (None, 0),
        }
    }

    /// The messages that extend a stream's copy of state `id` to `entries` entries. `sent` counts what the stream has.
    fn parts(&self, id: u32, entries: usize, sent: &mut usize, chunk_bytes_max: usize) -> Option<Vec<message::Shared>> {
        let list = self.lock();
        let part = |transform: u8, kind: u8, more: bool, bytes: Vec<u8>| message::Shared {
            shared: id,
            transform,
            kind,
            more,
            bytes: Blob(bytes),
        };
        let size = chunk_bytes_max.saturating_sub(64).max(1);
        let split = |transform: u8, kind: u8, bytes: &[u8]| {
            let count = bytes.len().div_ceil(size);
            let parts = bytes.chunks(size).enumerate();
            parts.map(|(at, bytes)| part(transform, kind, at + 1 < count, bytes.to_vec())).collect()
        };
        match list.states.get(id as usize - 1)? {
            State::Codec { transform, kind, bytes } if *sent == 0 => {
                *sent = 1;
                Some(split(*transform, *kind, bytes))
            }
            State::Codes { codes } if *sent < entries => {
                let mut bytes = vec![];
                codes.put(*sent, entries, &mut bytes);
                *sent = entries;
                Some(split(0, freestone_codec::Kind::Bytes as u8, &bytes))
            }
            _ => None,
        }
    }
}

impl StateList {
    fn add_codec(&mut self, shared: &Shared, data_type: &DataType) -> u32 {
        let bytes = shared.to_bytes();
        self.bytes += bytes.len();
        let (transform, kind) = (shared.transform() as u8, kind(data_type) as u8);
        self.states.push(State::Codec { transform, kind, bytes: Arc::new(bytes) });
        self.states.len() as u32
    }
}

/// The approximate bytes of a state.
fn size_of(shared: &Shared) -> usize {
    match (shared.dictionary_bytes(), shared.dictionary_ints()) {
        (Some(entries), _) => entries.data.len() + 4 * entries.len(),
        (None, Some(entries)) => entries.len() * 16,
        (None, None) => 64 << 10,
    }
}

/// The current choice of each column, and when forms are tried again.
struct Chooser {
    preference: Preference,
    /// For columns that are arrays, and for stored ones.
    arrow: Vec<Choice>,
    stored: Vec<Choice>,
    /// The number of batches until forms are tried again.
    left: usize,
    /// The rate at which the choice was made.
    rate: f64,
}

impl Chooser {
    fn new(columns: usize, preference: Preference) -> Self {
        let choices = vec![preference.choice(); columns];
        Self { preference, arrow: choices.clone(), stored: choices, left: 0, rate: 0.0 }
    }

    async fn choose(
        &mut self,
        batch: &Arc<Batch>,
        bytes: usize,
        streams: &[Arc<Outgoing>],
        context: &Context,
        states: &States,
    ) -> Result<()> {
        let rate: f64 = streams.iter().map(|stream| stream.rate()).sum();
        let is_local = streams.iter().all(|stream| stream.is_local);
        let is_settled = match self.preference {
            // Within one machine, memory is faster than any compression.
            Preference::Measured if is_local => true,
            Preference::Measured => {
                let is_steady = rate < self.rate * 2.0 && rate > self.rate / 2.0;
                bytes < SMALL_BYTES || self.left > 0 && is_steady
            }
            Preference::Plain(_) | Preference::Sentinel(_) | Preference::Mask(_) => true,
            Preference::Encoded(_) => self.left > 0,
        };
        self.left = self.left.saturating_sub(1);
        if is_settled {
            return Ok(());
        }
        (self.left, self.rate) = (TRY_AGAIN, rate);
        let codecs = match self.preference {
            Preference::Encoded(codec) => vec![codec.into()],
            _ if rate < SLOW => context.codecs.iter().flat_map(|codec| Compression::degrees(*codec)).collect(),
            _ => context.codecs.iter().map(|codec| Compression::from(*codec)).collect(),
        };
        let tried = try_forms(batch.clone(), codecs).await?;
        let picked = match self.preference {
            // The codecs' own choice is the last one, except for the dictionary.
            Preference::Encoded(_) => {
                let encoded =
                    |forms: &Vec<SampledForm>| forms.iter().position(|form| (40..50).contains(&form.candidate.class));
                tried.iter().map(|forms| encoded(forms).unwrap_or(0)).collect()
            }
            _ => {
                let candidates: Vec<Vec<_>> =
                    tried.iter().map(|forms| forms.iter().map(|form| form.candidate).collect()).collect();
                adapt::choose(&candidates, Link { rate, threads: context.threads as f64, is_local })
            }
        };
        for (at, (forms, picked)) in tried.into_iter().zip(picked).enumerate() {
            if let Some(form) = forms.into_iter().nth(picked) {
                match &batch.columns()[at] {
                    Column::Stored(_) => self.stored[at] = form.choice,
                    Column::Arrow(array) => self.take(at, form, array.data_type(), states),
                }
            }
        }
        Ok(())
    }

    /// Adopts a form, and assigns a number to the state to which it refers. An existing dictionary is reused.
    fn take(&mut self, at: usize, form: SampledForm, data_type: &DataType, states: &States) {
        let mut choice = form.choice;
        match &mut choice.plan {
            Plan::Dictionary { shared } if form.wants_dictionary => {
                *shared = match self.arrow[at].plan {
                    Plan::Dictionary { shared } => shared,
                    _ => {
                        let mut list = states.lock();
                        list.states.push(State::Codes { codes: Codes::default() });
                        list.states.len() as u32
                    }
                };
            }
            Plan::Chunk { shared, .. } => {
                if let (Some((id, _)), Some(table)) = (shared, &form.table) {
                    *id = states.lock().add_codec(table, data_type);
                }
            }
            _ => {}
        }
        self.arrow[at] = choice;
    }
}

async fn try_forms(batch: Arc<Batch>, codecs: Vec<Compression>) -> Result<Vec<Vec<SampledForm>>> {
    let work = move || {
        let start = Instant::now();
        let clock = move || start.elapsed().as_nanos() as u64;
        let columns = batch.columns().iter().map(|column| match column {
            Column::Arrow(array) => sample::array(array, &codecs, &clock),
            Column::Stored(stored) => sample::stored(stored, &codecs, &clock),
        });
        columns.collect()
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| WireError::Malformed { what: "chooser", reason: e.to_string() })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};

    use super::*;
    use crate::column;

    /// The form, the nulls and the bytes of a column, without padding of the mask.
    fn encoded(preference: Preference, array: &ArrayRef) -> (Form, Nulls, usize) {
        let mut bytes = vec![];
        let about = column::encode(array, &preference.choice().plan, &mut bytes).unwrap();
        (about.form, about.nulls, bytes.len())
    }

    #[test]
    fn the_papers_prototypes_differ_in_the_form_of_null() {
        let (sentinel, mask) = (Preference::Sentinel(ByteCodec::None), Preference::Mask(ByteCodec::None));
        let some = |row: i64| (row % 4 == 0).then_some(row);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..256).map(some)));
        assert_eq!(encoded(sentinel, &numbers), (Form::Raw, Nulls::Sentinel, 16 + 256 * 8));
        assert_eq!(encoded(mask, &numbers), (Form::Raw, Nulls::Packed, 256 / 8 + 64 * 8));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter((0..256).map(|row| some(row).map(|_| "abc"))));
        assert_eq!(encoded(sentinel, &texts), (Form::NulTerminated, Nulls::Sentinel, 64 * 4 + 192 * 2));
        assert_eq!(encoded(mask, &texts), (Form::NulTerminated, Nulls::Packed, 256 / 8 + 64 * 4));
        let whole: ArrayRef = Arc::new(Int64Array::from_iter_values(0..256));
        for preference in [sentinel, mask] {
            assert_eq!(encoded(preference, &whole), (Form::Raw, Nulls::Absent, 256 * 8));
            assert!(preference.takes_arrays() && !Preference::Plain(ByteCodec::None).takes_arrays());
        }
        assert_eq!(Preference::Mask(ByteCodec::Snappy).choice().codec, ByteCodec::Snappy.into());
    }
}
