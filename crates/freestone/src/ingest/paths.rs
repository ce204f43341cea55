//! File names, folders and patterns → the files that they match.

use std::fs;
use std::path::{Path, PathBuf};

use super::FileFormat;
use super::error::{IngestError, Reason};

/// The files that a name matches, sorted: the file itself; the data files in a folder (by extension, without names that
/// start with `.` or `_`) and in its folders named `key=value`; or the files that match a pattern of `*` (within a
/// name), `?`, `[a-z]` and `**` (any folders). As in a shell, a pattern matches names that start with `.` only if it
/// starts with `.` itself.
///
/// # Errors
/// There is no such file, or a folder cannot be read.
pub fn expand_paths(pattern: &str) -> Result<Vec<PathBuf>, IngestError> {
    let path = Path::new(pattern);
    // An existing file takes precedence over a pattern.
    if path.is_file() || is_special(path) {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = if path.is_dir() {
        let mut files = Vec::new();
        in_folder(path, &mut files)?;
        files
    } else if pattern.contains(['*', '?', '[']) {
        matching_files(pattern)?
    } else {
        Vec::new()
    };
    if found.is_empty() {
        let reason = if path.is_dir() {
            Reason::NoneFound(format!("the folder holds no data file{}", contents(path)?))
        } else if pattern.contains(['*', '?', '[']) {
            Reason::NoneFound("no file matches".into())
        } else {
            Reason::NoFile
        };
        return Err(IngestError::new(pattern, reason));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The contents of a folder without data files, for an error.
fn contents(folder: &Path) -> Result<String, IngestError> {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = vec![];
    for entry in list(folder)?.iter().filter(|entry| !is_hidden(entry)) {
        let name = name_of(entry);
        names.push(if entry.is_dir() { format!("{name}/") } else { name });
    }
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    Ok(match (names.is_empty(), more) {
        (true, _) => ", it is empty".into(),
        (false, 0) => format!(", only {}", names.join(", ")),
        (false, more) => format!(", only {} and {more} more", names.join(", ")),
    })
}

/// The data files in a folder, and in its folders named `key=value`. Programs that write data files into folders give
/// names that start with `_` to others that say something about them.
fn in_folder(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), IngestError> {
    for entry in list(folder)?.into_iter().filter(|entry| !is_hidden(entry) && !name_of(entry).starts_with('_')) {
        if entry.is_dir() {
            if partition(&name_of(&entry)).is_some() {
                in_folder(&entry, found)?;
            }
        } else if entry.is_file() && FileFormat::of_path(&entry).is_some() {
            found.push(entry);
        }
    }
    Ok(())
}

/// The value NULL in the name of a folder. A text that is the same has an escaped character.
pub(crate) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns and values in the names of a file's folders, outermost first; `None` is NULL.
pub(crate) fn partitions(path: &Path) -> Vec<(String, Option<String>)> {
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders.filter_map(|folder| partition(&folder.as_os_str().to_string_lossy())).collect()
}

/// A folder's name as a column and its value.
fn partition(folder: &str) -> Option<(String, Option<String>)> {
    let (key, value) = folder.split_once('=')?;
    let key = unescaped(key);
    (!key.is_empty()).then(|| (key, (value != NULL_PARTITION).then(|| unescaped(value))))
}

/// A text with the characters that names of folders write as `%2F`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_string())
}

/// Pipes and devices exist without being files.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn matching_files(pattern: &str) -> Result<Vec<PathBuf>, IngestError> {
    let (root, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (PathBuf::from("/"), rest),
        None => (PathBuf::new(), pattern),
    };
    let components: Vec<&str> = rest.split('/').filter(|component| !component.is_empty()).collect();
    let mut found = Vec::new();
    walk(root, &components, &mut found)?;
    Ok(found)
}

fn walk(at: PathBuf, components: &[&str], found: &mut Vec<PathBuf>) -> Result<(), IngestError> {
    let Some((component, rest)) = components.split_first() else {
        if at.is_file() {
            found.push(at);
        }
        return Ok(());
    };
    if *component == "**" {
        walk(at.clone(), rest, found)?;
        let is_searched = |entry: &PathBuf| entry.is_dir() && !entry.is_symlink() && !is_hidden(entry);
        for folder in list(&at)?.into_iter().filter(is_searched) {
            walk(folder, components, found)?;
        }
        return Ok(());
    }
    // Brackets may be part of a name.
    let literal = at.join(component);
    if !component.contains(['*', '?']) && (!component.contains('[') || literal.exists()) {
        return if literal.exists() { walk(literal, rest, found) } else { Ok(()) };
    }
    let pattern: Vec<char> = component.chars().collect();
    for entry in list(&at)? {
        let is_meant = !is_hidden(&entry) || component.starts_with('.');
        let is_usable = rest.is_empty() || entry.is_dir();
        if is_meant && is_usable && matches(&pattern, &name_of(&entry).chars().collect::<Vec<_>>()) {
            walk(entry, rest, found)?;
        }
    }
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_hidden(path: &Path) -> bool {
    is_hidden_name(&name_of(path))
}

/// Whether the name of a file or folder is one that patterns leave out.
pub(super) fn is_hidden_name(name: &str) -> bool {
    name.starts_with('.')
}

/// Whether all folders of a file within a folder of data files have names like `key=value`.
pub(super) fn in_named_folders(names: &[&str]) -> bool {
    let folders = names.split_last().map_or(&[][..], |(_, folders)| folders);
    folders.iter().all(|name| !is_hidden_name(name) && !name.starts_with('_') && partition(name).is_some())
}

/// Whether the names of folders and a file match the parts of a pattern.
pub(super) fn matches_path(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern, names) {
        ([], names) => names.is_empty(),
        (["**", rest @ ..], [name, within @ ..]) => {
            matches_path(rest, names) || !within.is_empty() && !is_hidden_name(name) && matches_path(pattern, within)
        }
        ([part, rest @ ..], [name, within @ ..]) => {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            (!is_hidden_name(name) || part.starts_with('.'))
                && matches(&chars(part), &chars(name))
                && matches_path(rest, within)
        }
        (_, []) => false,
    }
}

/// The entries of a folder as paths that begin with the folder's.
fn list(folder: &Path) -> Result<Vec<PathBuf>, IngestError> {
    let opened = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let failed = |error: std::io::Error| IngestError::io(opened, &error);
    let mut entries = Vec::new();
    for entry in fs::read_dir(opened).map_err(failed)? {
        entries.push(folder.join(entry.map_err(failed)?.file_name()));
    }
    Ok(entries)
}

/// Whether a name matches a pattern of `*`, `?` and `[…]`.
fn matches(pattern: &[char], name: &[char]) -> bool {
    match pattern {
        [] => name.is_empty(),
        ['*', rest @ ..] => (0..=name.len()).any(|skipped| matches(rest, &name[skipped..])),
        ['[', rest @ ..] => match (rest.iter().skip(1).position(|c| *c == ']'), name.split_first()) {
            (Some(end), Some((first, name))) => in_set(&rest[..end + 1], *first) && matches(&rest[end + 2..], name),
            _ => false,
        },
        [wanted, rest @ ..] => {
            name.split_first().is_some_and(|(first, name)| (*wanted == '?' || wanted == first) && matches(rest, name))
        }
    }
}

/// A set as `abc`, `a-z` or `!abc`.
fn in_set(set: &[char], c: char) -> bool {
    let (negated, set) = match set {
        ['!' | '^', rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, set),
    };
    let mut left = set;
    let mut found = false;
    while let [first, rest @ ..] = left {
        if let ['-', last, after @ ..] = rest {
            found |= (*first..=*last).contains(&c);
            left = after;
        } else {
            found |= *first == c;
            left = rest;
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, name: &str, expected: bool) {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        assert_eq!(matches(&chars(pattern), &chars(name)), expected, "{pattern} {name}");
    }

    #[test]
    fn patterns() {
        check("*.csv", "a.csv", true);
        check("*.csv", "a.csv.gz", false);
        check("a?c*", "abc", true);
        check("a?c", "ac", false);
        check("part-[0-9].csv", "part-7.csv", true);
        check("part-[!0-9].csv", "part-7.csv", false);
        check("[]]", "]", true);
        check("[", "[", false);
        check("**", "", true);
    }

    #[test]
    fn folders_name_columns() {
        let of = |path: &str| partitions(Path::new(path));
        let column = |key: &str, value: Option<&str>| (key.to_string(), value.map(str::to_string));
        assert_eq!(
            of("data/year=2024/city=S%C3%A3o%20Paulo/a=b.csv"),
            [column("year", Some("2024")), column("city", Some("São Paulo")),]
        );
        assert_eq!(of("x=__HIVE_DEFAULT_PARTITION__/y=/f.csv"), [column("x", None), column("y", Some(""))]);
        assert_eq!(of("x=%5F_HIVE_DEFAULT_PARTITION__/f.csv"), [column("x", Some("__HIVE_DEFAULT_PARTITION__"))]);
        assert_eq!(of("plain/=1/100%/f.csv"), []);
    }

    #[test]
    fn files_folders_and_patterns() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        fs::create_dir_all(root.join("sub/deep")).expect("folders");
        fs::create_dir(root.join("x[1]")).expect("a folder");
        let files = ["b.csv", "a.csv", "x.parquet", "notes.txt", "_skip.csv", ".hidden.csv", "sub/deep/c.csv"];
        for name in files.into_iter().chain(["q[1].csv", "x[1]/d.csv"]) {
            fs::write(root.join(name), "").expect("a file");
        }
        let names = |pattern: &str| -> Result<Vec<String>, String> {
            let found = expand_paths(&format!("{}/{pattern}", root.display())).map_err(|error| error.to_string())?;
            let relative = |path: PathBuf| path.strip_prefix(root).map(|path| path.display().to_string());
            found.into_iter().map(relative).collect::<Result<_, _>>().map_err(|error| error.to_string())
        };
        let expect = |pattern: &str, expected: &[&str]| {
            assert_eq!(names(pattern), Ok(expected.iter().map(|name| name.to_string()).collect()), "{pattern}");
        };
        expect("a.csv", &["a.csv"]);
        expect("[ab].csv", &["a.csv", "b.csv"]);
        expect("q[1].csv", &["q[1].csv"]);
        assert!(names("q[1].c*").is_err_and(|text| text.ends_with("no file matches")));
        expect("*.csv", &["_skip.csv", "a.csv", "b.csv", "q[1].csv"]);
        expect("_*.csv", &["_skip.csv"]);
        expect(".*.csv", &[".hidden.csv"]);
        expect("[_a]*.csv", &["_skip.csv", "a.csv"]);
        expect("**/*.csv", &["_skip.csv", "a.csv", "b.csv", "q[1].csv", "sub/deep/c.csv", "x[1]/d.csv"]);
        expect("x[1]/*.csv", &["x[1]/d.csv"]);
        expect("*/*/*.csv", &["sub/deep/c.csv"]);
        expect("", &["a.csv", "b.csv", "q[1].csv", "x.parquet"]);
        assert!(names("none.csv").is_err_and(|text| text.ends_with("none.csv: no such file")));
        assert!(names("*.json").is_err_and(|text| text.ends_with("*.json: no file matches")));
        assert!(names("sub").is_err_and(|text| text.contains("sub: the folder holds no data file, ")));
    }
}
