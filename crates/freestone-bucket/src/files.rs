//! Files in stores elsewhere: found, read by ranges, or as a whole.
//!
//! A [`RemoteFile`] is one version of a file: each of its reads asks for that version only, and an answer of another one is an
//! error. Callers are synchronous; requests run in the [`runtime`] of the crate.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use parking_lot::{Condvar, Mutex};

use crate::client::{self, Credentials, Patience};
use crate::errors::{explained, of_settings};
use crate::location::{Scheme, memory};
use crate::place::Place;
use crate::runtime;
use crate::secrets::{Secret, ShownSecret};
use crate::upload::Upload;

/// So often a read is tried.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// The error of a file that is another one than before.
const CHANGED: &str = "the file changed while it was read";
/// Stores of a session whose connections are kept.
const CONNECTED_MAX: usize = 64;
/// Parts of a file that wait to be written.
const PARTS_AHEAD: usize = 4;

/// Why a request failed. Several may wait for one request.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    kind: ErrorKind,
    text: String,
}

impl Failure {
    fn new(kind: ErrorKind, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }

    pub(crate) fn of(error: &Error) -> Failure {
        if matches!(error, Error::Precondition { .. } | Error::NotModified { .. }) {
            return Failure::new(ErrorKind::InvalidData, CHANGED);
        }
        let (kind, text) = explained(error);
        Failure { kind, text }
    }

    fn may_pass(&self) -> bool {
        use ErrorKind::{ConnectionRefused, Other, TimedOut, UnexpectedEof};
        matches!(self.kind, Other | TimedOut | ConnectionRefused | UnexpectedEof)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        io::Error::new(failure.kind, failure.text)
    }
}

/// The stores of a session, and its secrets. Each store is connected once.
#[derive(Clone, Default)]
pub struct Stores(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    secrets: Vec<Secret>,
    /// By scheme, bucket, and the name of the secret.
    connected: HashMap<(Scheme, String, Option<String>), Arc<dyn ObjectStore>>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

impl Stores {
    /// Adds a secret, in place of one that has its name.
    pub fn add_secret(&self, secret: Secret) {
        let mut state = self.0.lock();
        state.secrets.retain(|known| known.name() != secret.name());
        state.secrets.push(secret);
        state.connected.clear();
    }

    /// Forgets a secret. False if there is none of this name.
    pub fn drop_secret(&self, name: &str) -> bool {
        let mut state = self.0.lock();
        let before = state.secrets.len();
        state.secrets.retain(|known| known.name() != name);
        state.connected.clear();
        state.secrets.len() < before
    }

    /// What is shown of the secrets, by name.
    pub fn secrets(&self) -> Vec<ShownSecret> {
        let mut shown: Vec<ShownSecret> = self.0.lock().secrets.iter().map(Secret::shown).collect();
        shown.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        shown
    }

    fn store(&self, place: &Place) -> io::Result<Arc<dyn ObjectStore>> {
        if place.scheme == Scheme::Memory {
            return Ok(memory(&place.bucket));
        }
        let invalid = |text: String| io::Error::new(ErrorKind::InvalidInput, text);
        let mut state = self.0.lock();
        let url = place.shown();
        let covering = state.secrets.iter().filter_map(|secret| Some((secret.covers(place.scheme, &url)?, secret)));
        let secret = covering.max_by_key(|(bytes, _)| *bytes).map(|(_, secret)| secret);
        let key = (place.scheme, place.bucket.clone(), secret.map(|secret| secret.name().to_owned()));
        if let Some(known) = state.connected.get(&key) {
            return Ok(known.clone());
        }
        let credentials = secret.map_or_else(|| Ok(Credentials::of_environment()), Secret::credentials);
        let credentials = credentials.map_err(|error| invalid(error.to_string()))?;
        let store = client::connected(place.scheme, &place.bucket, &credentials, Patience::Silence)
            .map_err(|error| invalid(of_settings(&error)))?;
        // Each URL with a signature is a store of its own.
        if state.connected.len() >= CONNECTED_MAX {
            state.connected.clear();
        }
        state.connected.insert(key, store.clone());
        Ok(store)
    }

    /// The file at a place, which may not exist.
    ///
    /// # Errors
    /// The environment does not say what the store needs to be reached, or the path is none of a file.
    pub fn file(&self, place: &Place) -> io::Result<Object> {
        let path =
            Path::parse(place.path()).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        Ok(Object { store: self.store(place)?, path, name: place.shown() })
    }

    /// The files below a folder of the store, sorted, with the paths that they have in it; with `flat` only those in the folder
    /// itself.
    ///
    /// # Errors
    /// The store cannot be reached, or denies it.
    pub fn list(&self, place: &Place, folder: &str, flat: bool) -> io::Result<Vec<(String, Object)>> {
        let store = self.store(place)?;
        let prefix = Path::parse(folder.trim_end_matches('/'))
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error.to_string()))?;
        let asked = store.clone();
        let listed = runtime::wait(async move {
            let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
            match flat {
                true => asked.list_with_delimiter(prefix).await.map(|listed| listed.objects),
                false => asked.list(prefix).try_collect::<Vec<ObjectMeta>>().await,
            }
        })?;
        let mut listed = listed.map_err(|error| Failure::of(&error))?;
        listed.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        let object = |meta: ObjectMeta| {
            let path = meta.location.to_string();
            let name = place.name_of(&path);
            (path, Object { store: store.clone(), path: meta.location, name })
        };
        Ok(listed.into_iter().map(object).collect())
    }
}

/// Requests and bytes of files.
#[derive(Debug, Default)]
pub struct Traffic {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// One request that got this number of bytes.
    pub fn of_request(bytes: u64) -> Traffic {
        Traffic { requests: AtomicU64::new(1), bytes: AtomicU64::new(bytes) }
    }

    /// Requests that were answered or failed, and bytes that came, since the last call.
    pub fn take(&self) -> (u64, u64) {
        (self.requests.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }
}

/// A file in a store, before its first read.
#[derive(Clone)]
pub struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({})", self.name)
    }
}

impl Object {
    /// The name that is shown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins to write the file.
    pub fn upload(&self) -> Upload {
        Upload::new(self.store.clone(), self.path.clone())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// The store denies it, or cannot be reached.
    pub fn remove(&self) -> io::Result<()> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let removed = runtime::wait(async move { store.delete(&path).await })?;
        Ok(removed.map_err(|error| Failure::of(&error))?)
    }

    /// Opens the file, and reads up to `tail` bytes at its end by the same request. `None`: the server sends whole files only.
    ///
    /// # Errors
    /// There is no such file, the store denies it, or it cannot be reached.
    pub fn open(&self, tail: u64) -> io::Result<Option<(RemoteFile, Bytes)>> {
        let (store, path) = (self.store.clone(), self.path.clone());
        let traffic = Arc::new(Traffic::default());
        let counted = traffic.clone();
        let opened = runtime::wait(async move { opened(store.as_ref(), &path, tail, &counted).await })??;
        Ok(opened.map(|(meta, bytes)| {
            let version = Version { length: meta.size, etag: meta.e_tag };
            let shared = Shared { object: self.clone(), version, traffic, failed: Mutex::default() };
            (RemoteFile(Arc::new(shared)), bytes)
        }))
    }

    /// Writes the whole file somewhere, by one request. Returns its length.
    ///
    /// # Errors
    /// There is no such file, the store denies it, the file ends early, or it cannot be written.
    pub fn download(&self, mut into: impl Write) -> io::Result<u64> {
        let (send, receive) = sync_channel::<Bytes>(PARTS_AHEAD);
        let (send_end, receive_end) = sync_channel(1);
        let (store, path) = (self.store.clone(), self.path.clone());
        runtime::begin(async move {
            let _ = send_end.send(downloaded(store.as_ref(), &path, &send).await);
        })?;
        let mut written = 0;
        for part in receive {
            into.write_all(&part)?;
            written += part.len() as u64;
        }
        let ended = || io::Error::other("a request to the object store ended without a result");
        let length = receive_end.recv().map_err(|_| ended())??;
        match written == length {
            true => Ok(length),
            false => Err(cut(written, length).into()),
        }
    }
}

/// The end of a file, and what the store says of it. `None`: there are no ranges.
async fn opened(
    store: &dyn ObjectStore,
    path: &Path,
    tail: u64,
    traffic: &Traffic,
) -> Result<Option<(ObjectMeta, Bytes)>, Failure> {
    let options = GetOptions { range: Some(GetRange::Suffix(tail)), ..GetOptions::default() };
    match answer(store, path, options, traffic).await {
        Ok(found) => return Ok(Some(found)),
        Err((Some(Error::NotSupported { .. }), _)) => {}
        // An empty file has no range.
        Err((_, failure)) if failure.text.contains("416") => {}
        Err((_, failure)) => return Err(failure),
    }
    // Azure has no ranges from the end, and an empty file has none at all.
    traffic.requests.fetch_add(1, Ordering::Relaxed);
    let Ok(meta) = store.head(path).await else { return Ok(None) };
    if meta.size == 0 {
        return Ok(Some((meta, Bytes::new())));
    }
    let range = GetRange::Bounded(meta.size.saturating_sub(tail)..meta.size);
    match answer(store, path, GetOptions { range: Some(range), ..GetOptions::default() }, traffic).await {
        Ok(found) => Ok(Some(found)),
        Err((Some(Error::NotSupported { .. }), _)) => Ok(None),
        Err((_, failure)) => Err(failure),
    }
}

/// Reads what options ask for, again and again if it fails for a reason that may pass, or is cut short.
async fn answer(
    store: &dyn ObjectStore,
    path: &Path,
    options: GetOptions,
    traffic: &Traffic,
) -> Result<(ObjectMeta, Bytes), (Option<Error>, Failure)> {
    let of_error = |error: Error| {
        let failure = Failure::of(&error);
        (Some(error), failure)
    };
    let mut attempt = 0;
    loop {
        attempt += 1;
        traffic.requests.fetch_add(1, Ordering::Relaxed);
        let read = async {
            let found = store.get_opts(path, options.clone()).await.map_err(of_error)?;
            let (meta, wanted) = (found.meta.clone(), found.range.end - found.range.start);
            let bytes = found.bytes().await.map_err(of_error)?;
            traffic.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            match bytes.len() as u64 == wanted {
                true => Ok((meta, bytes)),
                false => Err((None, cut(bytes.len() as u64, wanted))),
            }
        };
        match read.await {
            Err((_, failure)) if attempt < ATTEMPTS && failure.may_pass() => {
                tokio::time::sleep(PAUSE * 2u32.pow(attempt)).await;
            }
            done => return done,
        }
    }
}

fn cut(came: u64, wanted: u64) -> Failure {
    Failure::new(ErrorKind::UnexpectedEof, format!("it ended early: {came} of {wanted} bytes came"))
}

/// Sends the parts of a file. Returns its length.
async fn downloaded(store: &dyn ObjectStore, path: &Path, to: &SyncSender<Bytes>) -> Result<u64, Failure> {
    let found = store.get(path).await.map_err(|error| Failure::of(&error))?;
    let length = found.meta.size;
    let mut parts = found.into_stream();
    let mut came = 0;
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| match Failure::of(&error) {
            failure if failure.may_pass() && came < length => cut(came, length),
            failure => failure,
        })?;
        came += part.len() as u64;
        // A receiver that is gone could not write.
        if tokio::task::block_in_place(|| to.send(part)).is_err() {
            break;
        }
    }
    Ok(length)
}

/// What tells a file from a later one of its name.
#[derive(Debug)]
struct Version {
    length: u64,
    etag: Option<String>,
}

impl Version {
    /// The condition that requests state. A weak tag never matches.
    fn condition(&self) -> Option<String> {
        self.etag.clone().filter(|etag| !etag.starts_with("W/"))
    }

    fn is_of(&self, meta: &ObjectMeta) -> bool {
        let is_same = |etag: &String| meta.e_tag.as_ref().is_none_or(|other| other == etag);
        meta.size == self.length && self.etag.as_ref().is_none_or(is_same)
    }
}

struct Shared {
    object: Object,
    version: Version,
    traffic: Arc<Traffic>,
    /// The first failure. Decoders keep only the text of an error.
    failed: Mutex<Option<Failure>>,
}

impl Shared {
    async fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range)),
            if_match: self.version.condition(),
            ..GetOptions::default()
        };
        let found = answer(self.object.store.as_ref(), &self.object.path, options, &self.traffic).await;
        let checked = match found {
            Ok((meta, bytes)) if self.version.is_of(&meta) => Ok(bytes),
            Ok(_) => Err(Failure::new(ErrorKind::InvalidData, CHANGED)),
            Err((_, failure)) => Err(failure),
        };
        checked.inspect_err(|failure| {
            self.failed.lock().get_or_insert_with(|| failure.clone());
        })
    }
}

/// One version of a file, which is read by ranges.
#[derive(Clone)]
pub struct RemoteFile(Arc<Shared>);

impl fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteFile({})", self.0.object.name)
    }
}

impl RemoteFile {
    /// The name that is shown.
    pub fn name(&self) -> &str {
        self.0.object.name()
    }

    /// Its bytes.
    pub fn length(&self) -> u64 {
        self.0.version.length
    }

    /// Its requests.
    pub fn traffic(&self) -> &Arc<Traffic> {
        &self.0.traffic
    }

    /// The first error of a read, if one has failed.
    pub fn failure(&self) -> Option<io::Error> {
        self.0.failed.lock().clone().map(io::Error::from)
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// The file has changed, ends early, or cannot be read any more.
    pub fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.begin(range).wait()
    }

    /// Begins to read a range.
    pub fn begin(&self, range: Range<u64>) -> Pending {
        let pending = Pending::default();
        let (shared, result) = (self.0.clone(), pending.0.clone());
        let read = async move {
            let done = Reading(result);
            let read = shared.read(range).await;
            done.end(read);
        };
        if let Err(error) = runtime::begin(read) {
            Reading(pending.0.clone()).end(Err(Failure::new(error.kind(), error.to_string())));
        }
        pending
    }
}

#[derive(Default)]
struct Slot {
    result: Mutex<Option<Result<Bytes, Failure>>>,
    ready: Condvar,
}

/// A read that was begun.
#[derive(Clone, Default)]
pub struct Pending(Arc<Slot>);

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl Pending {
    /// Waits for the bytes, which may be asked for again.
    ///
    /// # Errors
    /// Those of [`RemoteFile::read`].
    pub fn wait(&self) -> io::Result<Bytes> {
        let mut result = self.0.result.lock();
        loop {
            match &*result {
                Some(done) => return done.clone().map_err(io::Error::from),
                None => self.0.ready.wait(&mut result),
            }
        }
    }
}

/// The side of a read that ends it, even if it panics.
struct Reading(Arc<Slot>);

impl Reading {
    fn end(&self, result: Result<Bytes, Failure>) {
        self.0.result.lock().get_or_insert(result);
        self.0.ready.notify_all();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end(Err(Failure::new(ErrorKind::Other, "a request to the object store ended without a result")));
    }
}
