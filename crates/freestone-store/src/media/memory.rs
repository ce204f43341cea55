//! A medium in the memory of this process, for `:memory:` databases and tests.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::{
    Buffer, ByteLocks, Identity, LockFile, LockMode, Medium, MediumError, Pending, ReadFile, ReadRequest, Result,
    WriteFile, check_name, check_range,
};

/// A database folder in memory. Clones are handles to the same folder. Reads share the file's memory without a copy.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    files: Arc<Mutex<BTreeMap<String, Arc<File>>>>,
}

/// A file, which lives as long as its name or any handle.
#[derive(Debug)]
struct File {
    label: String,
    /// Copied on write only if a reader references a buffer of it.
    content: RwLock<Arc<Vec<u8>>>,
    holders: Mutex<Holders>,
    /// The locked bytes, with the opening that has locked them.
    bytes: Mutex<Vec<(u64, Arc<()>)>>,
}

impl Memory {
    /// An empty folder.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A folder with these files.
    pub fn with_files(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Memory {
        let files = files.into_iter().map(|(name, content)| (name.clone(), File::new(&name, content)));
        Memory { files: Arc::new(Mutex::new(files.collect())) }
    }

    /// A copy of all files.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.files.lock().iter().map(|(name, file)| (name.clone(), file.content.read().to_vec())).collect()
    }

    fn find(&self, action: &'static str, name: &str) -> Result<Arc<File>> {
        check_name(name)?;
        let found = self.files.lock().get(name).cloned();
        found.ok_or_else(|| error(action, name, ErrorKind::NotFound))
    }
}

fn label(name: &str) -> String {
    format!(":memory:/{name}")
}

fn error(action: &'static str, name: &str, kind: ErrorKind) -> MediumError {
    MediumError::io(action, label(name), io::Error::from(kind))
}

impl Medium for Memory {
    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        check_name(name)?;
        let mut files = self.files.lock();
        if files.contains_key(name) {
            return Err(error("create", name, ErrorKind::AlreadyExists));
        }
        let file = File::new(name, Vec::new());
        files.insert(name.to_string(), file.clone());
        Ok(Box::new(Writer { file, len: 0 }))
    }

    fn edit(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        let file = self.find("open for writing", name)?;
        let len = file.len();
        Ok(Box::new(Writer { file, len }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(Reader(self.find("open", name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        let mut files = self.files.lock();
        let file = files.remove(from).ok_or_else(|| error("rename", from, ErrorKind::NotFound))?;
        files.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let removed = self.files.lock().remove(name);
        removed.map(drop).ok_or_else(|| error("remove", name, ErrorKind::NotFound))
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        Ok(self.files.lock().contains_key(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let folder_len = prefix.rfind('/').map_or(0, |slash| slash + 1);
        let files = self.files.lock();
        let names = files.keys().filter(|name| name.starts_with(prefix) && !name[folder_len..].contains('/'));
        Ok(names.cloned().collect())
    }

    fn sync_folder(&self, _folder: &str) -> Result<()> {
        Ok(())
    }

    fn try_lock(&self, name: &str, mode: LockMode) -> Result<Option<Box<dyn LockFile>>> {
        check_name(name)?;
        // The names stay locked meanwhile, so that a file that is locked here is the one with this name.
        let mut files = self.files.lock();
        let file = match mode {
            LockMode::Existing | LockMode::Shared => files.get(name).cloned(),
            LockMode::Create => {
                Some(files.entry(name.to_string()).or_insert_with(|| File::new(name, Vec::new())).clone())
            }
        };
        let taken = file.filter(|file| file.holders.lock().take(mode));
        Ok(taken.map(|file| Box::new(Lock(file)) as Box<dyn LockFile>))
    }

    fn byte_locks(&self, name: &str, create: bool) -> Result<Option<Box<dyn ByteLocks>>> {
        check_name(name)?;
        let mut files = self.files.lock();
        let file = match create {
            true => Some(files.entry(name.to_string()).or_insert_with(|| File::new(name, Vec::new())).clone()),
            false => files.get(name).cloned(),
        };
        Ok(file.map(|file| Box::new(Bytes { file, opening: Arc::default() }) as Box<dyn ByteLocks>))
    }

    fn place(&self) -> String {
        ":memory:".to_string()
    }

    fn identity(&self, name: &str) -> Result<Option<Identity>> {
        check_name(name)?;
        Ok(self.files.lock().get(name).map(File::identity))
    }

    fn is_memory(&self) -> bool {
        true
    }
}

/// The holders of a file's lock.
#[derive(Debug, Default, PartialEq, Eq)]
enum Holders {
    #[default]
    Nobody,
    One,
    Sharing(usize),
}

impl Holders {
    fn take(&mut self, mode: LockMode) -> bool {
        let holders = match (&self, mode) {
            (Holders::Nobody, LockMode::Shared) => Holders::Sharing(1),
            (Holders::Sharing(count), LockMode::Shared) => Holders::Sharing(count + 1),
            (Holders::Nobody, LockMode::Create | LockMode::Existing) => Holders::One,
            _ => return false,
        };
        *self = holders;
        true
    }

    fn release(&mut self) {
        *self = match self {
            Holders::Sharing(count) if *count > 1 => Holders::Sharing(*count - 1),
            _ => Holders::Nobody,
        };
    }
}

impl File {
    fn new(name: &str, content: Vec<u8>) -> Arc<File> {
        let content = RwLock::new(Arc::new(content));
        Arc::new(File { label: label(name), content, holders: Mutex::default(), bytes: Mutex::default() })
    }

    fn identity(self: &Arc<Self>) -> Identity {
        Identity::new(0, Arc::as_ptr(self) as u64)
    }

    fn len(&self) -> u64 {
        self.content.read().len() as u64
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = self.in_memory(offset.checked_add(bytes.len() as u64))?;
        let start = end - bytes.len();
        let mut content = self.content.write();
        let content = Arc::make_mut(&mut content);
        if content.len() == start {
            content.extend_from_slice(bytes);
        } else {
            content.resize(content.len().max(end), 0);
            content[start..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let len = self.in_memory(Some(len))?;
        Arc::make_mut(&mut self.content.write()).resize(len, 0);
        Ok(())
    }

    /// A length that this process can address, whether or not it has the memory.
    fn in_memory(&self, len: Option<u64>) -> Result<usize> {
        let fits = len.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= isize::MAX as usize);
        fits.ok_or_else(|| MediumError::io("write", &self.label, io::Error::from(ErrorKind::FileTooLarge)))
    }

    /// The current content, and a checked range of it.
    fn part(&self, offset: u64, len: usize) -> Result<(Arc<Vec<u8>>, std::ops::Range<usize>)> {
        let content = self.content.read().clone();
        let end = check_range(&self.label, content.len() as u64, offset, len)? as usize;
        Ok((content, end - len..end))
    }
}

#[derive(Debug)]
struct Writer {
    file: Arc<File>,
    len: u64,
}

impl WriteFile for Writer {
    fn len(&self) -> u64 {
        self.len
    }

    fn stat(&self) -> Result<(Identity, u64)> {
        Ok((self.file.identity(), self.file.len()))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_at(self.len, bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)?;
        self.len = self.len.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn allocate(&mut self, _len: u64) -> Result<()> {
        // Memory is taken when it is written.
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> Result<()> {
        self.file.set_len(len)?;
        self.len = len;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Reader(Arc<File>);

impl ReadFile for Reader {
    fn len(&self) -> Result<u64> {
        Ok(self.0.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let (content, range) = self.0.part(offset, into.len())?;
        into.copy_from_slice(&content[range]);
        Ok(())
    }

    fn start(&self, requests: &[ReadRequest]) -> Pending {
        let read = |request: &ReadRequest| {
            self.0.part(request.offset, request.len).map(|(content, range)| Buffer::shared(content, range))
        };
        Pending::ready(requests.iter().map(read).collect())
    }
}

#[derive(Debug)]
struct Lock(Arc<File>);

impl LockFile for Lock {
    fn write(&self, bytes: &[u8]) -> Result<()> {
        self.0.write_at(0, bytes)?;
        self.0.set_len(bytes.len() as u64)
    }

    fn identity(&self) -> Result<Identity> {
        Ok(self.0.identity())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.holders.lock().release();
    }
}

/// An opening of a file for locks of bytes.
#[derive(Debug)]
struct Bytes {
    file: Arc<File>,
    opening: Arc<()>,
}

impl ByteLocks for Bytes {
    fn share(&self, at: u64) -> Result<()> {
        self.file.bytes.lock().push((at, self.opening.clone()));
        Ok(())
    }

    fn release(&self, at: u64) -> Result<()> {
        self.file.bytes.lock().retain(|(locked, by)| *locked != at || !Arc::ptr_eq(by, &self.opening));
        Ok(())
    }

    fn first_of_others(&self) -> Result<Option<u64>> {
        let bytes = self.file.bytes.lock();
        Ok(bytes.iter().filter(|(_, by)| !Arc::ptr_eq(by, &self.opening)).map(|(at, _)| *at).min())
    }

    fn identity(&self) -> Result<Identity> {
        Ok(self.file.identity())
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.file.bytes.lock().retain(|(_, by)| !Arc::ptr_eq(by, &self.opening));
    }
}
