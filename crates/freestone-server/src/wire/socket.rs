//! A Unix socket in the file system, for clients of the server's own user on this machine.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

use crate::error::{Result, ServerError};

/// The prefix of a path in the option for listening addresses.
const PREFIX: &str = "unix:";

/// A listening socket. Its file is removed when this is dropped.
pub(crate) struct Socket {
    pub listener: UnixListener,
    file: File,
}

struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

/// The path in `unix:/path`; `None` if the text is an address of another kind.
pub(crate) fn path(text: &str) -> Result<Option<PathBuf>> {
    let Some(path) = text.strip_prefix(PREFIX) else { return Ok(None) };
    if !path.starts_with('/') {
        return Err(ServerError::new(format!("{text} names no absolute path")).with_hint("write it as unix:/path"));
    }
    Ok(Some(PathBuf::from(path)))
}

impl Socket {
    /// Listens on a path. The file of a server that has ended is replaced, but not that of a running one.
    ///
    /// # Errors
    ///
    /// The path is in use, or the socket cannot be created.
    pub fn bind(path: &Path) -> Result<Socket> {
        check_free(path)?;
        let failed = |error: std::io::Error| {
            ServerError::new(format!("cannot listen on {}: {error}", path.display()))
                .with_hint("the folder has to be there and to be writable, and the path shorter than 100 bytes")
        };
        // The socket is created in a private folder, so that it never exists with other permissions than these.
        let folder = path.parent().unwrap_or(Path::new("/"));
        let private = tempfile::Builder::new().prefix(".freestone").tempdir_in(folder).map_err(failed)?;
        let made = private.path().join("s");
        let listener = UnixListener::bind(&made).map_err(failed)?;
        fs::set_permissions(&made, Permissions::from_mode(0o600)).map_err(failed)?;
        fs::rename(&made, path).map_err(failed)?;
        Ok(Socket { listener, file: File(path.to_owned()) })
    }

    /// The address for clients.
    pub fn address(&self) -> String {
        let escaped = self.file.0.as_os_str().as_bytes().iter().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => char::from(*byte).to_string(),
            other => format!("%{other:02x}"),
        });
        format!("freestone+unix://{}", escaped.collect::<String>())
    }
}

fn check_free(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(ServerError::new(format!("{} exists and is no socket", path.display())));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
        _ => Err(ServerError::new(format!("another server listens on {}", path.display()))
            .with_hint("stop it, or choose another path")),
    }
}
