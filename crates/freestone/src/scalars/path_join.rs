//! `path_join(a, b, …)`: paths of files and URLs, each taken from those before it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringViewArray};
use datafusion::error::Result;

use super::function::Scalar;
use super::kinds::Kind::{Rest, Text};
use super::kinds::TEXT;
use super::rows::{invalid, texts};
use crate::times::Call;

pub(super) fn all() -> Vec<Scalar> {
    vec![Scalar::new(&["path_join"], &[&[Text, Rest]], TEXT, path_join)]
}

fn path_join(call: &Call) -> Result<ArrayRef> {
    let all = (0..call.count()).map(|at| texts(call, at)).collect::<Result<Vec<_>>>()?;
    let row = |row: usize| -> Result<Option<String>> {
        if all.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        joined(all.iter().map(|column| column.value(row))).map(Some)
    };
    Ok(Arc::new((0..call.rows()).map(row).collect::<Result<StringViewArray>>()?))
}

/// What stands before a path's parts: a scheme, a host, and whether the path begins at a root.
fn start(path: &str) -> (&str, &str, bool) {
    let scheme = path.find(':').map(|at| at + 1).filter(|end| {
        let name = &path[..end - 1];
        name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+')
    });
    let (scheme, rest) = path.split_at(scheme.unwrap_or(0));
    match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(after) => {
            let end = 2 + after.find('/').unwrap_or(after.len());
            (&path[..scheme.len() + end], &rest[end..], true)
        }
        None => (scheme, rest, rest.starts_with('/')),
    }
}

fn joined<'p>(paths: impl Iterator<Item = &'p str>) -> Result<String> {
    let (mut prefix, mut is_rooted) = (String::new(), false);
    let mut parts: Vec<&str> = vec![];
    for (at, path) in paths.enumerate() {
        let (own, rest, rooted) = start(path);
        if at == 0 {
            (prefix, is_rooted) = (own.to_owned(), rooted);
        } else if rooted || !own.is_empty() {
            return invalid(format!("path_join cannot join incompatible paths: '{path}' is not relative"));
        }
        for part in rest.split('/') {
            match (part, parts.last()) {
                ("" | ".", _) => {}
                ("..", Some(last)) if *last != ".." => {
                    parts.pop();
                }
                ("..", _) if is_rooted => {}
                (part, _) => parts.push(part),
            }
        }
    }
    let path = parts.join("/");
    Ok(match (is_rooted, path.is_empty()) {
        (true, _) => format!("{prefix}/{path}"),
        (false, true) if prefix.is_empty() => ".".to_owned(),
        (false, _) => format!("{prefix}{path}"),
    })
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn paths() {
        for (paths, expected) in [
            (&["dir//sub/", "./file"][..], "dir/sub/file"),
            (&["dir/sub", "../sibling"], "dir/sibling"),
            (&["dir/..", "../.."], "../.."),
            (&["/usr/local", "../.."], "/"),
            (&["/", "usr/local"], "/usr/local"),
            (&["file:/usr/local", "../bin"], "file:/usr/bin"),
            (&["s3://foo", "bar/baz"], "s3://foo/bar/baz"),
            (&["s3://foo", "../.."], "s3://foo/"),
            (&["", ""], "."),
            (&["a", "b", "c"], "a/b/c"),
        ] {
            assert_eq!(joined(paths.iter().copied()).ok().as_deref(), Some(expected), "{paths:?}");
        }
        assert!(joined(["dir", "/abs"].into_iter()).is_err() && joined(["/foo", "s3://foo"].into_iter()).is_err());
    }
}
