//! The objects of a database in a store, by a client of `object_store`.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use freestone_store::media::MediumError;
use freestone_store::media::objects::{Deliver, ObjectInfo, Objects};
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
};

use crate::errors::{is_transient, of_request};
use crate::runtime;

type Result<T, E = MediumError> = std::result::Result<T, E>;

/// So often a read is tried.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// Requests at the same time, of one call.
const TOGETHER: usize = 16;

/// The objects of a store below a path.
pub struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    place: String,
    /// The folder, if the store is one: what is made there is synced.
    folder: Option<PathBuf>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.place)
    }
}

impl Remote {
    /// The objects of a store below a path. `place` is shown in messages.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: Path, place: String) -> Remote {
        Remote { store, prefix, place, folder: None }
    }

    /// The same, in a folder of this machine.
    pub(crate) fn in_folder(self, folder: PathBuf) -> Remote {
        Remote { folder: Some(folder), ..self }
    }

    fn label(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    fn path(&self, name: &str) -> Result<Path> {
        let text = if self.prefix.as_ref().is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) };
        Path::parse(text).map_err(|error| {
            MediumError::io("name", self.label(name), io::Error::new(ErrorKind::InvalidInput, error.to_string()))
        })
    }

    /// The name of an object at a path.
    fn name_of(&self, path: &Path) -> Option<String> {
        let text: &str = path.as_ref();
        match self.prefix.as_ref() {
            "" => Some(text.to_owned()),
            prefix => Some(text.strip_prefix(prefix)?.strip_prefix('/')?.to_owned()),
        }
    }

    /// Runs a request and waits for it.
    fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        name: &str,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let done = runtime::wait(request).map_err(|error| MediumError::io(action, self.label(name), error))?;
        done.map_err(|error| of_request(action, self.label(name), &error))
    }

    fn write(&self, action: &'static str, name: &str, bytes: &[u8], mode: PutMode) -> Result<bool> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = async move { store.put_opts(&path, payload, options).await.map(drop) };
        match self.run(action, name, put) {
            Ok(()) => self.sync(action, name).map(|()| true),
            Err(error) if error.kind() == Some(ErrorKind::AlreadyExists) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes an object in a folder durable. Other stores answer when it is.
    fn sync(&self, action: &'static str, name: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let file = folder.join(name);
        let synced = File::open(&file).and_then(|file| file.sync_all()).and_then(|()| match file.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        });
        synced.map_err(|error| MediumError::io(action, self.label(name), error))
    }

    fn info(&self, meta: &ObjectMeta) -> Option<ObjectInfo> {
        let name = self.name_of(&meta.location)?;
        Some(ObjectInfo { name, len: meta.size, modified: SystemTime::from(meta.last_modified) })
    }
}

/// Reads a range, again and again if it fails for a reason that may pass, or is cut short.
async fn read_range(store: &dyn ObjectStore, path: &Path, range: GetRange) -> object_store::Result<(u64, Bytes)> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let read = async {
            let options = GetOptions { range: Some(range.clone()), ..GetOptions::default() };
            let found = store.get_opts(path, options).await?;
            let (len, wanted) = (found.meta.size, found.range.end - found.range.start);
            let bytes = found.bytes().await?;
            if bytes.len() as u64 != wanted {
                let cut = format!("{} of {wanted} bytes came", bytes.len());
                return Err(Error::Generic { store: "the store", source: cut.into() });
            }
            Ok((len, bytes))
        };
        match read.await {
            Err(error) if attempt < ATTEMPTS && is_transient(&error) => {
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
            }
            done => return done,
        }
    }
}

async fn read_whole(store: &dyn ObjectStore, path: &Path) -> object_store::Result<Option<Vec<u8>>> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let read = async {
            let found = store.get(path).await?;
            let wanted = found.meta.size;
            let bytes = found.bytes().await?;
            if bytes.len() as u64 != wanted {
                let cut = format!("{} of {wanted} bytes came", bytes.len());
                return Err(Error::Generic { store: "the store", source: cut.into() });
            }
            Ok(bytes.to_vec())
        };
        match read.await {
            Ok(bytes) => return Ok(Some(bytes)),
            // A bucket that does not exist is another thing than an object that does not.
            Err(error @ Error::NotFound { .. }) => {
                let text = format!("{error:?}").to_lowercase();
                let is_bucket = text.contains("nosuchbucket") || text.contains("containernotfound");
                return if is_bucket { Err(error) } else { Ok(None) };
            }
            Err(error) if attempt < ATTEMPTS && is_transient(&error) => {
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

impl Objects for Remote {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.write("create", name, bytes, PutMode::Create)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.write("write", name, bytes, PutMode::Overwrite).map(drop)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        self.run("read", name, async move { read_whole(store.as_ref(), &path).await })
    }

    fn get_all(&self, names: &[String]) -> Vec<Result<Option<Vec<u8>>>> {
        let paths: Vec<Result<Path>> = names.iter().map(|name| self.path(name)).collect();
        let known: Vec<Path> = paths.iter().flatten().cloned().collect();
        let store = self.store.clone();
        let reads = async move {
            let read = |path: Path| {
                let store = store.clone();
                async move { read_whole(store.as_ref(), &path).await }
            };
            stream::iter(known).map(read).buffered(TOGETHER).collect::<Vec<_>>().await
        };
        let mut read = match runtime::wait(reads) {
            Ok(read) => read.into_iter(),
            Err(_) => return names.iter().map(|name| self.get(name)).collect(),
        };
        let ended = |name: &str| MediumError::io("read", self.label(name), ErrorKind::UnexpectedEof.into());
        let one = |(name, path): (&String, Result<Path>)| {
            path?;
            let read = read.next().ok_or_else(|| ended(name))?;
            read.map_err(|error| of_request("read", self.label(name), &error))
        };
        names.iter().zip(paths).map(one).collect()
    }

    fn tail(&self, name: &str, len: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        let read = async move {
            match read_range(store.as_ref(), &path, GetRange::Suffix(len)).await {
                // Azure has no ranges from the end.
                Err(Error::NotSupported { .. }) => {
                    let whole = store.head(&path).await?.size;
                    read_range(store.as_ref(), &path, GetRange::Bounded(whole.saturating_sub(len)..whole)).await
                }
                read => read,
            }
        };
        match self.run("read", name, read) {
            Ok((len, bytes)) => Ok(Some((len, bytes.to_vec()))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn stat(&self, name: &str) -> Result<Option<ObjectInfo>> {
        let (store, path) = (self.store.clone(), self.path(name)?);
        match self.run("look for", name, async move { store.head(&path).await }) {
            Ok(meta) => Ok(self.info(&meta)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<ObjectInfo>> {
        let prefix = if folder.is_empty() { self.prefix.clone() } else { self.path(folder)? };
        let after = after.map(|after| self.path(after)).transpose()?;
        let store = self.store.clone();
        // Files of a folder come in no order.
        let taken = if self.folder.is_some() { usize::MAX } else { limit };
        let read = async move {
            let listed = match &after {
                Some(after) => store.list_with_offset(Some(&prefix), after),
                None => store.list(Some(&prefix)),
            };
            listed.take(taken).try_collect::<Vec<ObjectMeta>>().await
        };
        let mut found: Vec<ObjectInfo> = match self.run("list", folder, read) {
            Ok(metas) => metas.iter().filter_map(|meta| self.info(meta)).collect(),
            Err(error) if error.is_not_found() && self.folder.is_some() => vec![],
            Err(error) => return Err(error),
        };
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        found.truncate(limit);
        Ok(found)
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let paths = names.iter().map(|name| self.path(name)).collect::<Result<Vec<Path>>>()?;
        let Some(first) = names.first() else { return Ok(()) };
        let store = self.store.clone();
        let removal = async move {
            let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
            let mut removed = store.delete_stream(paths);
            let mut outcome = Ok(());
            while let Some(result) = removed.next().await {
                match result {
                    Ok(_) | Err(Error::NotFound { .. }) => {}
                    Err(error) => outcome = Err(error),
                }
            }
            outcome
        };
        self.run("remove", first, removal)
    }

    fn read(&self, name: &str, ranges: Vec<Range<u64>>, deliver: Deliver) {
        let deliver: Arc<Deliver> = Arc::new(deliver);
        let label = self.label(name);
        let path = match self.path(name) {
            Ok(path) => path,
            Err(error) => {
                let text = error.to_string();
                let again = || Err(MediumError::io("read", label.clone(), io::Error::other(text.clone())));
                return (0..ranges.len()).for_each(|at| deliver(at, again()));
            }
        };
        for (at, range) in ranges.into_iter().enumerate() {
            let (store, path, label, to) = (self.store.clone(), path.clone(), label.clone(), deliver.clone());
            let failed = label.clone();
            let read = async move {
                let read = read_range(store.as_ref(), &path, GetRange::Bounded(range)).await;
                to(at, read.map(|(_, bytes)| bytes.to_vec()).map_err(|error| of_request("read", label, &error)));
            };
            if let Err(error) = runtime::begin(read) {
                deliver(at, Err(MediumError::io("read", failed, error)));
            }
        }
    }
}
