//! URLs of databases: `s3://bucket/path`, `gs://bucket/path`, `az://container/path`, `file:///folder`, `memory://name`.
//!
//! A plain path is no URL: it is a database that one process writes, in files that grow. `file://` is the layout of object
//! storage in a folder, for several processes that write.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::{ObjectStore, path::Path};
use parking_lot::Mutex;
use url::Url;

use crate::client::{self, Credentials, Patience};
use crate::errors::of_settings;
use crate::remote::Remote;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// S3, and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
    /// A folder of this machine, or of a file system that machines share.
    File,
    /// The memory of this process, for tests.
    Memory,
    /// Any server of HTTP. Only files are read from there.
    Http,
}

/// Why a URL leads to no store.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LocationError(pub(crate) String);

/// The place of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    scheme: Scheme,
    /// The bucket or container, or the name of a memory.
    bucket: String,
    /// The path in it, or of the folder, without `/` at its ends.
    path: String,
}

const SCHEMES: [(&str, Scheme); 5] = [
    ("s3", Scheme::S3),
    ("gs", Scheme::Google),
    ("az", Scheme::Azure),
    ("file", Scheme::File),
    ("memory", Scheme::Memory),
];
const KNOWN: &str = "s3://bucket/path, gs://bucket/path, az://container/path and file:///folder";

/// Whether the name of a database is a URL of a store, rather than a path or the address of a server.
pub fn is_url(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| SCHEMES.iter().any(|(known, _)| *known == scheme))
}

impl Location {
    /// The place to which a URL leads.
    ///
    /// # Errors
    /// Its scheme is not known, it has no bucket, or parts that no store understands.
    pub fn parse(text: &str) -> Result<Location, LocationError> {
        // A URL may have a password, which no message may show.
        let url =
            Url::parse(text).map_err(|error| LocationError(format!("the URL of a database is not valid: {error}")))?;
        let found = SCHEMES.iter().find(|(name, _)| *name == url.scheme());
        let Some((name, scheme)) = found else {
            return Err(LocationError(format!("databases are not read from {}://; known are {KNOWN}", url.scheme())));
        };
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
            return Err(LocationError(format!(
                "the URL of a database has a place only; credentials and other settings of {name}:// come from the environment"
            )));
        }
        let bucket = url.host_str().unwrap_or_default().to_owned();
        let path = percent_decoded(url.path().trim_matches('/'))?;
        if path.split('/').any(|part| part == "." || part == "..") || path.contains("//") {
            return Err(LocationError(format!("{path} is no path of objects: it has empty parts, '.' or '..'")));
        }
        match scheme {
            Scheme::File if !bucket.is_empty() => Err(LocationError(format!(
                "file://{bucket} names a machine; write file:/// and the whole path of the folder"
            ))),
            Scheme::File if path.is_empty() => Err(LocationError("file:// needs the path of a folder".to_owned())),
            Scheme::File => Ok(Location { scheme: *scheme, bucket, path }),
            _ if bucket.is_empty() => Err(LocationError(format!("{name}:// needs a bucket: {name}://bucket/path"))),
            _ => Ok(Location { scheme: *scheme, bucket, path }),
        }
    }

    /// The place, as users write it.
    pub fn shown(&self) -> String {
        let scheme = SCHEMES.iter().find(|(_, scheme)| *scheme == self.scheme).map_or("", |(name, _)| name);
        let slash = if self.path.is_empty() { "" } else { "/" };
        format!("{scheme}://{}{slash}{}", self.bucket, self.path)
    }

    /// The objects at this place. With `create`, a folder is made if it does not exist.
    ///
    /// # Errors
    /// The environment does not say what the store needs to be reached, or the folder cannot be opened.
    pub fn connect(&self, create: bool) -> Result<Remote, LocationError> {
        let within = |path: &str| {
            Path::parse(path)
                .map_err(|error| LocationError(format!("{} is no place of objects: {error}", self.shown())))
        };
        match self.scheme {
            Scheme::File => {
                let folder = PathBuf::from(format!("/{}", self.path));
                let store = self.folder(&folder, create)?;
                Ok(Remote::new(store, within("")?, self.shown()).in_folder(folder))
            }
            Scheme::Memory => Ok(Remote::new(memory(&self.bucket), within(&self.path)?, self.shown())),
            Scheme::S3 | Scheme::Google | Scheme::Azure | Scheme::Http => {
                Ok(Remote::new(self.client()?, within(&self.path)?, self.shown()))
            }
        }
    }

    fn folder(&self, folder: &std::path::Path, create: bool) -> Result<Arc<dyn ObjectStore>, LocationError> {
        let failed = |error: String| LocationError(format!("cannot open {}: {error}", self.shown()));
        if create {
            std::fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
        } else if !folder.is_dir() {
            return Err(failed("there is no such folder".to_owned()));
        }
        let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| failed(error.to_string()))?;
        Ok(Arc::new(store))
    }

    fn client(&self) -> Result<Arc<dyn ObjectStore>, LocationError> {
        client::connected(self.scheme, &self.bucket, &Credentials::of_environment(), Patience::Request)
            .map_err(|error| LocationError(format!("cannot reach {}: {}", self.shown(), of_settings(&error))))
    }
}

/// The memory with a name, which lives as long as the process.
pub(crate) fn memory(name: &str) -> Arc<dyn ObjectStore> {
    static MEMORIES: LazyLock<Mutex<HashMap<String, Arc<InMemory>>>> = LazyLock::new(Mutex::default);
    MEMORIES.lock().entry(name.to_owned()).or_default().clone()
}

pub(crate) fn percent_decoded(text: &str) -> Result<String, LocationError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (digit(rest.next()), digit(rest.next())) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(LocationError("a % in the URL is not followed by two digits".to_owned())),
        }
    }
    String::from_utf8(bytes).map_err(|_| LocationError("the URL is not UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, shown: &str) {
        assert_eq!(Location::parse(url).unwrap().shown(), shown);
    }

    fn refused(url: &str, part: &str) {
        let error = Location::parse(url).unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
        assert!(!error.contains('\n') && !error.contains("secret"), "{url}: {error}");
    }

    #[test]
    fn places_are_read() {
        check("s3://b/a/db/", "s3://b/a/db");
        check("s3://b", "s3://b");
        check("gs://b/x", "gs://b/x");
        check("az://c/x%20y", "az://c/x y");
        check("file:///tmp/db", "file:///tmp/db");
        check("memory://m/x", "memory://m/x");
    }

    #[test]
    fn others_are_refused() {
        refused("hdfs://x/y", "databases are not read from hdfs://; known are s3://bucket/path");
        refused("s3:///x", "needs a bucket");
        refused("file://host/x", "file:///");
        refused("file:///", "needs the path of a folder");
        refused("s3://user:secret@b/x", "credentials");
        refused("s3://b/x?key=secret", "environment");
        refused("s3://b/a//b", "empty parts");
        refused("s3://b/%zz", "two digits");
    }

    #[test]
    fn only_urls_of_stores_are_urls() {
        for (name, is_one) in [
            ("s3://b/x", true),
            ("file:///x", true),
            ("hdfs://x", false),
            ("freestone://host:1", false),
            ("freestone+unix:///x", false),
            ("folder", false),
            ("/a/b", false),
            ("C:\\x", false),
            (":memory:", false),
        ] {
            assert_eq!(is_url(name), is_one, "{name}");
        }
    }

    #[test]
    fn a_folder_is_made_only_if_wanted() {
        let outer = tempfile::tempdir().unwrap();
        let location = Location::parse(&format!("file://{}/a/b", outer.path().display())).unwrap();
        assert!(location.connect(false).unwrap_err().to_string().contains("there is no such folder"));
        location.connect(true).unwrap();
        location.connect(false).unwrap();
    }
}
