//! A medium that fails on purpose, and knows what would survive a power loss.
//!
//! [`Faulty`] forwards everything to another medium and maintains a shadow of what is durable: bytes after a sync of
//! their file, names after a sync of their folder. From it, [`Faulty::crash`] makes one of the states in which a file
//! system may come back: of the unsynced data, any 512-byte sectors of the writes and any prefix of the changes of
//! names.
//!
//! A write within one sector of a file happens completely or not at all, also when it fails.
//!
//! After a failed sync its bytes are visible but never become durable, unless they are written again. This is how Linux
//! behaves: the next sync succeeds without having written them.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use fastrand::Rng;
use parking_lot::Mutex;

use super::{
    Buffer, ByteLocks, Identity, LockFile, LockMode, Medium, MediumError, Memory, Pending, ReadFile, ReadRequest,
    Result, WriteFile, folder_of,
};

/// The kinds of operations that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Creates a file.
    Create,
    /// Opens a file for changes.
    Edit,
    /// Opens a file for reading.
    Open,
    /// Renames a file.
    Rename,
    /// Removes a file.
    Remove,
    /// Lists files.
    List,
    /// Makes the names in a folder durable.
    SyncFolder,
    /// Locks a file.
    Lock,
    /// Reads from a file.
    Read,
    /// Writes to a file.
    Write,
    /// Sets the length of a file.
    SetLen,
    /// Makes the content of a file durable.
    Sync,
}

/// The faults to inject. The default plan has none.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// Determines every choice that the plan leaves open.
    pub seed: u64,
    /// Fail this operation, counting all from 0.
    pub fail_operation: Option<u64>,
    /// Fail the n-th operation of a kind, counting from 0.
    pub fail_kinds: Vec<(Operation, u64)>,
    /// After the first failure, fail everything, as if the machine had stopped.
    pub stay_dead: bool,
    /// The medium is full when files have grown by this many bytes in total, less those of removed ones. The write that
    /// reaches the limit is cut short.
    pub capacity: Option<u64>,
    /// Flip one bit in the result of the n-th read, counting from 0.
    pub flip_read: Option<u64>,
}

/// A medium with faults. Clones are handles on the same medium.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<dyn Medium>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    plan: FaultPlan,
    random: Rng,
    operations: u64,
    by_kind: BTreeMap<Operation, u64>,
    written: u64,
    dead: bool,
    shadow: Shadow,
}

impl Faulty {
    /// Wraps a medium. Existing files count as durable once they are used through this medium.
    pub fn new(inner: Arc<dyn Medium>, plan: FaultPlan) -> Faulty {
        let random = Rng::with_seed(plan.seed);
        let state = State {
            plan,
            random,
            operations: 0,
            by_kind: BTreeMap::new(),
            written: 0,
            dead: false,
            shadow: Shadow::default(),
        };
        Faulty { inner, state: Arc::new(Mutex::new(state)) }
    }

    /// Wraps a medium in memory. All of its files count as durable.
    pub fn on_memory(memory: Memory, plan: FaultPlan) -> Faulty {
        let files = memory.files();
        let faulty = Faulty::new(Arc::new(memory), plan);
        for (name, content) in files {
            faulty.state.lock().shadow.import(&name, content);
        }
        faulty
    }

    /// The number of operations so far, including failed ones.
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The number of operations of one kind so far.
    pub fn operations_of(&self, kind: Operation) -> u64 {
        self.state.lock().by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Replaces the plan. Counts continue.
    pub fn set_plan(&self, plan: FaultPlan) {
        let mut state = self.state.lock();
        state.random = Rng::with_seed(plan.seed);
        state.dead = false;
        state.plan = plan;
    }

    /// The state after a power loss now: one of the possible outcomes, chosen by `seed`. No file is locked.
    pub fn crash(&self, seed: u64) -> Memory {
        Memory::with_files(self.state.lock().shadow.crash(&mut Rng::with_seed(seed)))
    }

    /// Counts an operation, and fails it if the plan says so.
    fn pass(&self, kind: Operation, name: &str) -> Result<()> {
        let mut state = self.state.lock();
        let (number, of_kind) = state.count(kind);
        let plan = &state.plan;
        let planned = plan.fail_operation == Some(number) || plan.fail_kinds.contains(&(kind, of_kind));
        if !planned && !state.dead {
            return Ok(());
        }
        state.dead |= state.plan.stay_dead;
        Err(injected(kind, name))
    }

    /// Adds a file that existed before to the shadow.
    fn touch(&self, name: &str) -> Result<()> {
        if self.state.lock().shadow.names.contains_key(name) || !self.inner.exists(name)? {
            return Ok(());
        }
        let file = self.inner.open(name)?;
        let mut content = vec![0; file.len()? as usize];
        file.read_at(0, &mut content)?;
        self.state.lock().shadow.import(name, content);
        Ok(())
    }

    fn writer(&self, name: &str, inner: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        let id = self.state.lock().shadow.names.get(name).copied();
        Box::new(FaultyWriter { medium: self.clone(), name: name.to_string(), id, inner })
    }
}

impl State {
    fn count(&mut self, kind: Operation) -> (u64, u64) {
        let number = self.operations;
        self.operations += 1;
        let of_kind = self.by_kind.entry(kind).or_default();
        *of_kind += 1;
        (number, *of_kind - 1)
    }
}

fn injected(kind: Operation, name: &str) -> MediumError {
    MediumError::io("work on", name, io::Error::other(format!("injected failure of {kind:?}")))
}

impl Medium for Faulty {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.pass(Operation::Create, name)?;
        let inner = self.inner.create(name)?;
        self.state.lock().shadow.create(name);
        Ok(self.writer(name, inner))
    }

    fn edit(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.pass(Operation::Edit, name)?;
        self.touch(name)?;
        Ok(self.writer(name, self.inner.edit(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.pass(Operation::Open, name)?;
        let inner = self.inner.open(name)?;
        Ok(Arc::new(FaultyReader { medium: self.clone(), name: name.to_string(), inner }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.pass(Operation::Rename, from)?;
        self.touch(from)?;
        self.touch(to)?;
        self.inner.rename(from, to)?;
        self.state.lock().shadow.rename(from, to);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.pass(Operation::Remove, name)?;
        self.touch(name)?;
        let len = self.inner.open(name).and_then(|file| file.len()).unwrap_or(0);
        self.inner.remove(name)?;
        {
            let mut state = self.state.lock();
            state.written = state.written.saturating_sub(len);
        }
        self.state.lock().shadow.remove(name);
        Ok(())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.pass(Operation::Open, name)?;
        self.inner.exists(name)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.pass(Operation::List, prefix)?;
        self.inner.list(prefix)
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.pass(Operation::SyncFolder, folder)?;
        self.inner.sync_folder(folder)?;
        self.state.lock().shadow.sync_folder(folder);
        Ok(())
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<Box<dyn LockFile>>> {
        self.pass(Operation::Lock, name)?;
        // Lock files mean nothing after a crash, so they are not in the shadow.
        self.inner.try_lock(name, mode)
    }

    fn byte_locks(&self, name: &str, create: bool) -> Result<Option<Box<dyn ByteLocks>>> {
        self.pass(Operation::Lock, name)?;
        self.inner.byte_locks(name, create)
    }

    fn place(&self) -> String {
        self.inner.place()
    }

    fn identity(&self, name: &str) -> Result<Option<Identity>> {
        self.inner.identity(name)
    }

    fn check_place(&self) -> Result<()> {
        self.inner.check_place()
    }

    fn is_memory(&self) -> bool {
        self.inner.is_memory()
    }
}

#[derive(Debug)]
struct FaultyWriter {
    medium: Faulty,
    name: String,
    id: Option<FileId>,
    inner: Box<dyn WriteFile>,
}

impl FaultyWriter {
    fn note(&self, change: Change) {
        if let Some(id) = self.id {
            self.medium.state.lock().shadow.change(id, change);
        }
    }

    /// The number of bytes of a write that succeed, and the error if these are not all. A write within one sector of
    /// the file succeeds completely or not at all. Only bytes that extend the file use up capacity.
    fn admit(&self, offset: u64, len: usize) -> (usize, Option<MediumError>) {
        let failure = self.medium.pass(Operation::Write, &self.name).err();
        let mut state = self.medium.state.lock();
        let mut admitted = match &failure {
            None => len,
            Some(_) if state.dead => 0,
            Some(_) => below(&mut state.random, len as u64 + 1) as usize,
        };
        let end = offset + len as u64;
        let overwritten = self.inner.len().saturating_sub(offset).min(len as u64);
        let room = state.plan.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(state.written));
        let mut failure = failure;
        if room < len as u64 - overwritten {
            admitted = admitted.min((overwritten + room) as usize);
            let full = io::Error::from(ErrorKind::StorageFull);
            failure = failure.or(Some(MediumError::io("write", &self.name, full)));
        }
        let within_a_sector = overwritten == len as u64 && len > 0 && offset / SECTOR == (end - 1) / SECTOR;
        if within_a_sector && admitted < len {
            admitted = 0;
        }
        state.written += (admitted as u64).saturating_sub(overwritten);
        (admitted, failure)
    }
}

impl WriteFile for FaultyWriter {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn stat(&self) -> Result<(Identity, u64)> {
        self.inner.stat()
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_at(self.inner.len(), bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (admitted, failure) = self.admit(offset, bytes.len());
        self.inner.write_at(offset, &bytes[..admitted])?;
        self.note(Change::Write(offset, bytes[..admitted].to_vec()));
        failure.map_or(Ok(()), Err)
    }

    fn allocate(&mut self, len: u64) -> Result<()> {
        self.append(&vec![0; len.saturating_sub(self.len()) as usize])
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.medium.pass(Operation::SetLen, &self.name)?;
        self.inner.set_len(len)?;
        self.note(Change::SetLen(len));
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let outcome = self.medium.pass(Operation::Sync, &self.name).and_then(|()| self.inner.sync());
        let mut state = self.medium.state.lock();
        let state = &mut *state;
        match (self.id, outcome) {
            (Some(id), Ok(())) => state.shadow.sync(id),
            (Some(id), Err(error)) => {
                state.shadow.lose(id, &mut state.random);
                return Err(error);
            }
            (None, outcome) => return outcome,
        }
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyReader {
    medium: Faulty,
    name: String,
    inner: Arc<dyn ReadFile>,
}

impl FaultyReader {
    /// Counts a read of `len` bytes, and returns the bit to flip in it, if any.
    fn admit(&self, len: usize) -> Result<Option<(usize, u8)>> {
        self.medium.pass(Operation::Read, &self.name)?;
        let mut state = self.medium.state.lock();
        let number = state.by_kind.get(&Operation::Read).copied().unwrap_or(0) - 1;
        let flip = state.plan.flip_read == Some(number) && len > 0;
        Ok(flip.then(|| (below(&mut state.random, len as u64) as usize, 1 << below(&mut state.random, 8))))
    }

    fn read(&self, request: ReadRequest) -> Result<Buffer> {
        let flip = self.admit(request.len)?;
        let buffer = self.inner.read_many(&[request]).pop().expect("one result for one request")?;
        let Some((index, bit)) = flip else { return Ok(buffer) };
        let mut bytes = buffer.to_vec();
        bytes[index] ^= bit;
        Ok(Buffer::from(bytes))
    }
}

impl ReadFile for FaultyReader {
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let flip = self.admit(into.len())?;
        self.inner.read_at(offset, into)?;
        if let Some((index, bit)) = flip {
            into[index] ^= bit;
        }
        Ok(())
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        Pending::ready(requests.iter().map(|request| self.read(*request)).collect())
    }
}

/// A file of the shadow.
type FileId = u64;

/// The durable state, and all changes since.
#[derive(Debug, Default)]
struct Shadow {
    files: BTreeMap<FileId, ShadowFile>,
    /// The names that are visible now.
    names: BTreeMap<String, FileId>,
    durable_names: BTreeMap<String, FileId>,
    /// Changes of names that are not yet durable, in order.
    pending_names: Vec<NameChange>,
    next_id: FileId,
}

#[derive(Debug, Default)]
struct ShadowFile {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Debug, Clone)]
enum NameChange {
    Set(String, FileId),
    Rename(String, String),
    Remove(String),
}

impl Shadow {
    fn import(&mut self, name: &str, content: Vec<u8>) {
        let id = self.add(ShadowFile { durable: content, pending: Vec::new() });
        self.names.insert(name.to_string(), id);
        self.durable_names.insert(name.to_string(), id);
    }

    fn add(&mut self, file: ShadowFile) -> FileId {
        self.next_id += 1;
        self.files.insert(self.next_id, file);
        self.next_id
    }

    fn create(&mut self, name: &str) {
        let id = self.add(ShadowFile::default());
        self.change_name(NameChange::Set(name.to_string(), id));
    }

    fn rename(&mut self, from: &str, to: &str) {
        self.change_name(NameChange::Rename(from.to_string(), to.to_string()));
    }

    fn remove(&mut self, name: &str) {
        self.change_name(NameChange::Remove(name.to_string()));
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.pending_names.push(change);
    }

    fn sync_folder(&mut self, folder: &str) {
        let (synced, pending) =
            std::mem::take(&mut self.pending_names).into_iter().partition(|change| change.is_in(folder));
        self.pending_names = pending;
        let synced: Vec<NameChange> = synced;
        for change in synced {
            change.apply(&mut self.durable_names);
        }
    }

    fn change(&mut self, id: FileId, change: Change) {
        if let Some(file) = self.files.get_mut(&id) {
            file.pending.push(change);
        }
    }

    fn sync(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            for change in std::mem::take(&mut file.pending) {
                change.apply(&mut file.durable);
            }
        }
    }

    /// A failed sync: some of the pending bytes reached the medium, and the others never will.
    fn lose(&mut self, id: FileId, random: &mut Rng) {
        if let Some(file) = self.files.get_mut(&id) {
            file.durable = file.survivors(random);
            file.pending.clear();
        }
    }

    fn crash(&self, random: &mut Rng) -> BTreeMap<String, Vec<u8>> {
        let mut names = self.durable_names.clone();
        let survivors = below(random, self.pending_names.len() as u64 + 1) as usize;
        for change in &self.pending_names[..survivors] {
            change.apply(&mut names);
        }
        names.into_iter().map(|(name, id)| (name, self.files[&id].survivors(random))).collect()
    }
}

impl ShadowFile {
    /// The content after a power loss: each pending change happened completely, not at all, or by sectors.
    fn survivors(&self, random: &mut Rng) -> Vec<u8> {
        let mut content = self.durable.clone();
        let style = below(random, 4);
        for change in &self.pending {
            match (style, change) {
                (0, _) => {}
                (1, _) => change.apply(&mut content),
                (_, Change::SetLen(_)) if below(random, 2) == 0 => {}
                (_, Change::SetLen(_)) => change.apply(&mut content),
                (_, Change::Write(offset, bytes)) => {
                    for (offset, sector) in sectors(*offset, bytes) {
                        if below(random, 2) == 0 {
                            Change::Write(offset, sector.to_vec()).apply(&mut content);
                        }
                    }
                }
            }
        }
        content
    }
}

/// The largest write that a device performs atomically, in bytes.
const SECTOR: u64 = 512;

/// Divides a write at the boundaries of sectors.
fn sectors(mut offset: u64, mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut sectors = Vec::new();
    while !bytes.is_empty() {
        let len = bytes.len().min((SECTOR - offset % SECTOR) as usize);
        let (sector, rest) = bytes.split_at(len);
        sectors.push((offset, sector));
        offset += len as u64;
        bytes = rest;
    }
    sectors
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write(offset, bytes) => {
                let start = *offset as usize;
                let end = start + bytes.len();
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(bytes);
            }
            Change::SetLen(len) => content.resize(*len as usize, 0),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, FileId>) {
        match self {
            NameChange::Set(name, id) => {
                names.insert(name.clone(), *id);
            }
            NameChange::Rename(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }

    fn is_in(&self, folder: &str) -> bool {
        match self {
            NameChange::Set(name, _) | NameChange::Remove(name) => folder_of(name) == folder,
            NameChange::Rename(from, to) => folder_of(from) == folder || folder_of(to) == folder,
        }
    }
}

/// A random number below `bound`, or 0.
fn below(random: &mut Rng, bound: u64) -> u64 {
    random.u64(..bound.max(1))
}
