//! The destination of a file. A temporary file in the same folder is written and then renamed, so that readers see
//! either the old or the new file, and a statement that fails leaves the old one. Pipes and devices are written
//! directly. A file elsewhere is uploaded in parts, and there when the upload is completed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use freestone_bucket::{Object, Upload, has_scheme};
use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    /// The temporary file; `None` for pipes and devices.
    temporary: Option<Temporary>,
    out: Out,
    /// The bytes that were written.
    bytes: u64,
}

#[derive(Debug)]
enum Out {
    File(File),
    Upload(Box<Upload>),
}

/// A file with a temporary name, which is removed unless it is renamed.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    is_kept: bool,
    /// Dropped after the file is removed.
    _folders: NewFolders,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folders that a statement has created. Those that are empty at its end are removed.
#[derive(Debug, Clone, Default)]
pub(super) struct NewFolders(Arc<Mutex<CreatedFolders>>);

/// The folders, each after the one that contains it.
#[derive(Debug, Default)]
struct CreatedFolders(Vec<PathBuf>);

impl NewFolders {
    /// Creates a folder and those that contain it, as far as they are missing.
    pub fn create(&self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists()).collect();
        let mut created = self.0.lock();
        for folder in missing.into_iter().rev() {
            match fs::create_dir(folder) {
                Ok(()) => created.0.push(folder.to_path_buf()),
                Err(_) if folder.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // Folders with files in them remain.
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Target {
    /// Starts a file elsewhere.
    pub fn upload(object: &Object) -> Target {
        let out = Out::Upload(Box::new(object.upload()));
        Target { path: PathBuf::from(object.name()), temporary: None, out, bytes: 0 }
    }

    /// Starts a file in a folder that exists. The name is taken literally.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(name: &str, folders: &NewFolders) -> Result<Target> {
        let path = PathBuf::from(name);
        if name.is_empty() || name.ends_with('/') || path.is_dir() {
            return Err(
                Error::invalid(format!("{name} is a folder: COPY … TO writes one file")).with_hint("name a file in it")
            );
        }
        let failed = |error: io::Error| io_error(&path, &error);
        if !is_file(name) {
            let file = File::options().append(true).open(&path).map_err(failed)?;
            return Ok(Target { path, temporary: None, out: Out::File(file), bytes: 0 });
        }
        // A symbolic link remains, and its target is replaced.
        let place = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        check_folder(&path, folder)?;
        let (file, temporary) = temporary_in(folder).map_err(failed)?;
        let temporary = Temporary { path: temporary, is_kept: false, _folders: folders.clone() };
        if let Ok(old) = fs::metadata(&place) {
            // The new file gets the permissions of the old one.
            if old.permissions().readonly() {
                return Err(io_error(&path, &io::ErrorKind::PermissionDenied.into()));
            }
            fs::set_permissions(&temporary.path, old.permissions()).map_err(failed)?;
        }
        Ok(Target { path: place, temporary: Some(temporary), out: Out::File(file), bytes: 0 })
    }

    /// Syncs the file, of which everything is written.
    ///
    /// # Errors
    /// The file cannot be synced.
    pub fn complete(self) -> Result<Complete> {
        let failed = |error: io::Error| io_error(&self.path, &error);
        let upload = match self.out {
            Out::File(mut file) => {
                file.flush().map_err(failed)?;
                if self.temporary.is_some() {
                    file.sync_all().map_err(failed)?;
                }
                None
            }
            Out::Upload(mut upload) => {
                upload.complete().map_err(failed)?;
                Some(upload)
            }
        };
        Ok(Complete { path: self.path, temporary: self.temporary, upload })
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes that were written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The error of writing to the file.
    pub fn failed(&self, error: &io::Error) -> Error {
        io_error(&self.path, error)
    }
}

/// A complete file that still has its temporary name.
#[derive(Debug)]
pub(super) struct Complete {
    path: PathBuf,
    temporary: Option<Temporary>,
    upload: Option<Box<Upload>>,
}

impl Complete {
    /// Gives new files their names, and removes those that they replace. If that fails for one, none of the new ones
    /// remains.
    ///
    /// # Errors
    /// A file cannot be renamed or removed.
    pub fn publish_all(files: Vec<Complete>, replaced: &[PathBuf]) -> Result<()> {
        let mut published: Vec<PathBuf> = vec![];
        for file in files {
            let path = file.path.clone();
            if let Err(error) = file.publish() {
                for path in &published {
                    let _ = fs::remove_file(path);
                }
                return Err(error);
            }
            published.push(path);
        }
        // A new file may have the name of an old one, also through a link.
        let place = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let published: Vec<PathBuf> = published.iter().map(place).collect();
        for old in replaced.iter().filter(|old| !published.contains(&place(old))) {
            fs::remove_file(old).map_err(|error| io_error(old, &error))?;
        }
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn publish(mut self) -> Result<()> {
        let failed = |error: io::Error| io_error(&self.path, &error);
        if let Some(upload) = self.upload.take() {
            return upload.publish().map_err(failed);
        }
        let Some(temporary) = &mut self.temporary else { return Ok(()) };
        fs::rename(&temporary.path, &self.path).map_err(failed)?;
        temporary.is_kept = true;
        // The directory entry is synced as well, to survive a power failure. Not all file systems support this.
        if let Some(folder) = temporary.path.parent()
            && let Ok(folder) = File::open(folder)
        {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.out {
            Out::File(file) => file.write(bytes),
            Out::Upload(upload) => upload.write(bytes),
        }?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::File(file) => file.flush(),
            Out::Upload(upload) => upload.flush(),
        }
    }
}

/// Refuses to write into a folder that does not exist: the name may be mistyped.
pub(super) fn check_folder(path: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let text = format!("cannot write {}: there is no folder {}", path.display(), folder.display());
    Err(Error::new(ErrorKind::NotFound, text).with_hint(format!("create it first: mkdir -p {}", folder.display())))
}

/// Whether a name is that of a file, which exists or will be created, and not that of a pipe or device.
pub(crate) fn is_file(name: &str) -> bool {
    let path = Path::new(name);
    // Names of the streams of this process are streams, even if they are redirected to a file.
    let is_stream = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|stream| path.starts_with(stream));
    !is_stream && fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir())
}

pub(super) fn io_error(path: &Path, error: &io::Error) -> Error {
    let hint = match path.to_str().is_some_and(has_scheme) {
        true => "check the URL, and the rights of the credentials, which come from CREATE SECRET or the environment",
        false => "check that the folder may be written to and that the disk has room",
    };
    Error::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display())).with_hint(hint)
}

/// A new file in a folder, with a name that readers of the folder ignore.
fn temporary_in(folder: &Path) -> io::Result<(File, PathBuf)> {
    let mut number = 0;
    loop {
        let path = folder.join(format!(".freestone-{}-{number}.tmp", std::process::id()));
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for name in ["a b.csv", "100%.csv", "x[1]?*:.csv", "noext"] {
            let path = folder.path().join(name);
            let mut target = Target::create(&path.to_string_lossy(), &NewFolders::default()).expect("a target");
            target.write_all(b"new").expect("bytes");
            assert!(!path.exists());
            target.complete().and_then(Complete::publish).expect("a file");
            assert_eq!(fs::read(&path).expect("the file"), b"new");
        }
        assert_eq!(names(folder.path()), ["100%.csv", "a b.csv", "noext", "x[1]?*:.csv"]);
        let missing = folder.path().join("new/x").to_string_lossy().into_owned();
        let error = Target::create(&missing, &NewFolders::default()).expect_err("no folder");
        assert!(error.to_string().contains("there is no folder ") && !folder.path().join("new").exists(), "{error}");
    }

    #[test]
    fn what_fails_leaves_the_old_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("f");
        fs::write(&path, "old").expect("a file");
        let mut target = Target::create(&path.to_string_lossy(), &NewFolders::default()).expect("a target");
        target.write_all(b"half").expect("bytes");
        drop(target);
        assert_eq!(fs::read(&path).expect("the file"), b"old");
        assert_eq!(names(folder.path()), ["f"]);
        assert!(Target::create(&folder.path().to_string_lossy(), &NewFolders::default()).is_err());
    }

    #[test]
    fn empty_new_folders_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let folders = NewFolders::default();
        let start = |name: &str| {
            let path = folder.path().join(name);
            folders.create(path.parent().expect("a folder")).expect("a new folder");
            Target::create(&path.to_string_lossy(), &folders).and_then(Target::complete).expect("a file")
        };
        let files = vec![start("new/k=1/x"), start("new/k=2/x")];
        drop(folders.clone());
        assert_eq!(names(&folder.path().join("new")), ["k=1", "k=2"]);
        drop(files);
        drop(folders);
        assert!(names(folder.path()).is_empty());
        fs::create_dir(folder.path().join("old")).expect("a folder");
        drop(Target::create(&folder.path().join("old/x").to_string_lossy(), &NewFolders::default()));
        assert_eq!(names(folder.path()), ["old"]);
    }

    #[test]
    fn files_that_cannot_all_be_published_disappear() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let start = |name: &str| {
            let path = folder.path().join(name).to_string_lossy().into_owned();
            Target::create(&path, &NewFolders::default()).and_then(Target::complete).expect("a file")
        };
        let files = vec![start("a"), start("b")];
        fs::create_dir(folder.path().join("b")).expect("a folder in the way");
        assert!(Complete::publish_all(files, &[]).is_err());
        assert_eq!(names(folder.path()), ["b"]);
    }
}
