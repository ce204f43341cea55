//! Files by name, of this machine or elsewhere: `s3://bucket/*.parquet`, `https://host/file.csv`.
//!
//! Parquet files elsewhere are read by ranges. Other files are written to a temporary file first, as pipes are, because readers
//! sample them and read them again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use freestone_bucket::{Object, Place, Stores, has_scheme};

use super::FileFormat;
use super::error::{IngestError, Reason};
use super::paths::{expand_paths, in_named_folders, is_hidden_name, matches_path};
use super::spool::SpooledFile;

/// A file that a name stands for.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    /// Its path, or the URL that is shown.
    pub path: PathBuf,
    /// The file in a store elsewhere.
    pub object: Option<Object>,
}

impl FoundFile {
    /// The whole file on this machine, if it is elsewhere.
    ///
    /// # Errors
    /// It cannot be read, or the disk is full.
    pub fn downloaded(&self) -> Result<Option<SpooledFile>, IngestError> {
        let Some(object) = &self.object else { return Ok(None) };
        let failed = |error: io::Error| failure(&self.path, &error);
        let kept = SpooledFile::new().map_err(failed)?;
        object.download(kept.file()).map_err(failed)?;
        Ok(Some(kept))
    }
}

/// The error of a file elsewhere.
pub(crate) fn failure(path: &Path, error: &io::Error) -> IngestError {
    match error.kind() {
        ErrorKind::NotFound if !error.to_string().contains("bucket") => {
            IngestError::new(path.display().to_string(), Reason::NoFile)
        }
        _ => IngestError::io(path, error),
    }
}

/// The files that a name matches, sorted: as [`expand_paths`] for those of this machine.
///
/// # Errors
/// There is no such file of this machine, no file matches a pattern, or a store cannot be reached.
pub(crate) fn find_files(name: &str, stores: &Stores) -> Result<Vec<FoundFile>, IngestError> {
    if !has_scheme(name) || fs::metadata(name).is_ok() {
        let here = |path| FoundFile { path, object: None };
        return Ok(expand_paths(name)?.into_iter().map(here).collect());
    }
    // What follows `?` may be a signature.
    let of_scheme = |error: &dyn std::fmt::Display| {
        let shown = if name.starts_with("http") { name.split('?').next().unwrap_or_default() } else { name };
        let without_password = shown.split_once("://").and_then(|(scheme, rest)| {
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            host.rsplit_once('@').map(|(_, host)| format!("{scheme}://{host}/{path}"))
        });
        IngestError::new(without_password.unwrap_or_else(|| shown.to_owned()), Reason::Io(error.to_string()))
    };
    let place = Place::parse(name).map_err(|error| of_scheme(&error))?;
    let shown = place.shown();
    let failed = |error: io::Error| failure(Path::new(&shown), &error);
    let path = place.path();
    let is_folder = path.is_empty() || path.ends_with('/');
    let found = |object: Object| FoundFile { path: PathBuf::from(object.name()), object: Some(object) };
    if !place.is_listed() || !(is_folder || path.contains(['*', '?', '['])) {
        if path.is_empty() || !place.is_listed() && path.contains(['*', '?']) {
            let text = "files of a server of HTTP cannot be listed: name one, or several in read_parquet(['…', '…'])";
            return Err(IngestError::new(shown, Reason::NoneFound(text.into())));
        }
        return Ok(vec![found(stores.file(&place).map_err(failed)?)]);
    }
    let parts: Vec<&str> = path.trim_end_matches('/').split('/').filter(|part| !part.is_empty()).collect();
    let literal = match is_folder {
        true => parts.len(),
        false => parts.iter().position(|part| part.contains(['*', '?', '['])).unwrap_or(0),
    };
    let (folder, pattern) = parts.split_at(literal);
    let is_flat = pattern.len() == 1 && pattern[0] != "**";
    let listed = stores.list(&place, &folder.join("/"), is_flat).map_err(failed)?;
    let is_meant = |key: &str| {
        let names: Vec<&str> = key.split('/').skip(folder.len()).collect();
        match is_folder {
            true => in_named_folders(&names) && is_data(&names),
            false => matches_path(pattern, &names),
        }
    };
    let files: Vec<_> = listed.into_iter().filter(|(key, _)| is_meant(key)).map(|(_, object)| found(object)).collect();
    if files.is_empty() {
        let text = if is_folder { "the folder holds no data file" } else { "no file matches" };
        return Err(IngestError::new(shown, Reason::NoneFound(text.into())));
    }
    Ok(files)
}

/// Whether a path ends with the name of a data file.
fn is_data(names: &[&str]) -> bool {
    names.last().is_some_and(|name| {
        !is_hidden_name(name) && !name.starts_with('_') && FileFormat::of_path(Path::new(name)).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_stores_are_found() {
        let bucket = freestone_bucket::open("memory://found", true).expect("a memory");
        for key in ["a/1.csv", "a/2.csv", "a/b/3.csv", "a/y=1/4.csv", "a/_x.csv", "a/n.txt", "a/.h.csv", "c.parquet"] {
            bucket.put(key, b"x").expect("an object");
        }
        let stores = Stores::default();
        let names = |name: &str| -> Result<Vec<String>, String> {
            let found = find_files(name, &stores).map_err(|error| error.to_string())?;
            Ok(found.iter().map(|file| file.path.display().to_string().replace("memory://found/", "")).collect())
        };
        let expect = |name: &str, expected: &[&str]| {
            let name = format!("memory://found/{name}");
            assert_eq!(names(&name), Ok(expected.iter().map(|&name| name.to_owned()).collect()), "{name}");
        };
        expect("a/*.csv", &["a/1.csv", "a/2.csv", "a/_x.csv"]);
        expect("a/[1].csv", &["a/1.csv"]);
        expect("**/*.csv", &["a/1.csv", "a/2.csv", "a/_x.csv", "a/b/3.csv", "a/y=1/4.csv"]);
        expect("*/*/*.csv", &["a/b/3.csv", "a/y=1/4.csv"]);
        expect("a/", &["a/1.csv", "a/2.csv", "a/y=1/4.csv"]);
        expect("c.parquet", &["c.parquet"]);
        expect("none.csv", &["none.csv"]);
        let no_file = find_files("memory://found/none.csv", &stores).expect("a name")[0].downloaded();
        assert_eq!(no_file.map(|_| ()).unwrap_err().to_string(), "memory://found/none.csv: no such file");
        assert!(names("memory://found/*.json").is_err_and(|text| text.ends_with("*.json: no file matches")));
        assert!(names("memory://found/a/b/y/").is_err_and(|text| text.ends_with("the folder holds no data file")));
        for (name, expected) in [
            ("ftp://h/x.csv", "ftp://h/x.csv: files are not read from ftp://"),
            ("https://u:secret@h/x.csv?s=secret", "https://h/x.csv: the URL of a file has no name and password"),
            ("https://h/*.csv", "https://h/*.csv: files of a server of HTTP cannot be listed"),
        ] {
            let error = names(name).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
        }
    }
}
