//! A folder that is opened once, and the files in it. All names are looked up in the open folder, so they lead to its
//! files wherever it is moved, and never to those of another folder that takes its place.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;

use super::Identity;

/// Permissions of files and folders, from which those of the umask are taken away.
const FILE: u32 = 0o666;
const FOLDER: u32 = 0o777;

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: OwnedFd,
    umask: u32,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// For reading only.
    Read,
    /// For reading and writing.
    Edit,
    /// For reading and writing. It must not exist.
    Create,
    /// For reading and writing. It is created unless it exists.
    EditOrCreate,
}

impl Folder {
    /// Opens a folder. With `create`, it is made unless it exists, with the folders that it is in. Of the permissions of
    /// what is created, `umask` takes some away, as the process's umask does.
    ///
    /// # Errors
    /// It does not exist, is no folder, or cannot be created.
    pub fn open(path: &Path, create: bool, umask: u32) -> io::Result<Folder> {
        // Its place must not change with the working directory.
        let path = std::path::absolute(path)?;
        if create {
            make_folder(&path, FOLDER & !umask)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty()))?;
        Ok(Folder { path, handle, umask })
    }

    /// The path by which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file. A file that is created gets its folder, if necessary.
    pub fn open_file(&self, name: &str, opening: Opening) -> io::Result<File> {
        match self.open_once(name, opening) {
            Err(error) if error.kind() == ErrorKind::NotFound && opening.creates() => {
                self.make_folders_of(name)?;
                self.open_once(name, opening)
            }
            result => result,
        }
    }

    fn open_once(&self, name: &str, opening: Opening) -> io::Result<File> {
        let mode = Mode::from_raw_mode(FILE & !self.umask);
        let file = retry_on_intr(|| rustix::fs::openat(&self.handle, name, opening.flags() | OFlags::CLOEXEC, mode))?;
        Ok(File::from(file))
    }

    /// Makes the folders of a name durably.
    fn make_folders_of(&self, name: &str) -> io::Result<()> {
        for (end, _) in name.match_indices('/') {
            let folder = &name[..end];
            let mode = Mode::from_raw_mode(FOLDER & !self.umask);
            match retry_on_intr(|| rustix::fs::mkdirat(&self.handle, folder, mode)) {
                Err(rustix::io::Errno::EXIST) => {}
                made => {
                    made?;
                    self.sync(super::folder_of(folder))?;
                }
            }
        }
        Ok(())
    }

    /// Renames a file, and replaces another one of that name.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::renameat(&self.handle, from, &self.handle, to))?)
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()))?)
    }

    /// The identity of the file that has a name now; `None` if there is none.
    #[allow(clippy::unnecessary_cast, reason = "the numbers have other types on other systems")]
    pub fn identity(&self, name: &str) -> io::Result<Option<Identity>> {
        match retry_on_intr(|| rustix::fs::statat(&self.handle, name, AtFlags::empty())) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
            stat => Ok(Some(stat.map(|stat| Identity::new(stat.st_dev as u64, stat.st_ino as u64))?)),
        }
    }

    /// The identity of what the path of this folder, with a name, leads to now; `None` if that is nothing.
    pub fn identity_by_path(&self, name: &str) -> io::Result<Option<Identity>> {
        match fs::metadata(if name.is_empty() { self.path.clone() } else { self.path.join(name) }) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            metadata => Ok(Some(metadata.map(|metadata| Identity::new(metadata.dev(), metadata.ino()))?)),
        }
    }

    /// Whether the path still leads to this folder.
    pub fn is_in_place(&self) -> io::Result<bool> {
        let stat = rustix::fs::fstat(&self.handle)?;
        let own = Identity::new(stat.st_dev as u64, stat.st_ino as u64);
        Ok(self.identity_by_path("")? == Some(own))
    }

    /// The names of what is in a folder of this one and is no folder; those that are not UTF-8 are left out. A folder that
    /// does not exist has none.
    pub fn files(&self, folder: &str) -> io::Result<Vec<String>> {
        let handle = match self.open_folder(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
            handle => handle?,
        };
        let mut names = vec![];
        for entry in Dir::new(handle)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if entry.file_type() != FileType::Directory
                && let Ok(name) = name.into_string()
                && name != "."
                && name != ".."
            {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Makes the names in a folder of this one durable; `""` is this one.
    pub fn sync(&self, folder: &str) -> io::Result<()> {
        let handle = self.open_folder(folder)?;
        Ok(retry_on_intr(|| rustix::fs::fsync(&handle))?)
    }

    fn open_folder(&self, folder: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let name = if folder.is_empty() { "." } else { folder };
        Ok(retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::empty()))?)
    }
}

impl Opening {
    fn creates(self) -> bool {
        matches!(self, Opening::Create | Opening::EditOrCreate)
    }

    fn flags(self) -> OFlags {
        match self {
            Opening::Read => OFlags::RDONLY,
            Opening::Edit => OFlags::RDWR,
            Opening::Create => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Opening::EditOrCreate => OFlags::RDWR | OFlags::CREATE,
        }
    }
}

/// Makes a folder durably, unless it exists, with those that it is in, which get the usual permissions.
fn make_folder(folder: &Path, mode: u32) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make_folder(parent, FOLDER)?;
    }
    match DirBuilder::new().mode(mode).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => result?,
    }
    match folder.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
