//! URLs of files: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`, `https://host/path`.

use url::Url;

use crate::location::{LocationError, Scheme, percent_decoded};

/// The schemes of files that are read from elsewhere.
const SCHEMES: [(&str, Scheme); 9] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Google),
    ("gcs", Scheme::Google),
    ("az", Scheme::Azure),
    ("azure", Scheme::Azure),
    ("https", Scheme::Http),
    ("http", Scheme::Http),
    ("memory", Scheme::Memory),
];

/// Whether the name of a file begins like a URL of whatever scheme.
pub fn has_scheme(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        !scheme.is_empty() && scheme.chars().all(is_letter)
    })
}

/// Where a file, a folder or a pattern is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub(crate) scheme: Scheme,
    /// The bucket or container; for HTTP the URL without its path. It is never shown, since it may have a signature.
    pub(crate) bucket: String,
    /// The beginning of the name that is shown, up to the path.
    root: String,
    /// The path in it, as users write it, without `/` at its beginning.
    path: String,
}

impl Place {
    /// The place to which a URL leads.
    ///
    /// # Errors
    /// Files are not read from its scheme, or it has no bucket, or a password.
    pub fn parse(text: &str) -> Result<Place, LocationError> {
        let (name, rest) = text.split_once("://").unwrap_or(("", text));
        let Some((_, scheme)) = SCHEMES.iter().find(|(known, _)| *known == name) else {
            let known = "s3://, gs://, az://, https:// and http://";
            return Err(LocationError(format!("files are not read from {name}://; known are {known}")));
        };
        if *scheme == Scheme::Http {
            return Place::of_http(name, text);
        }
        let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(LocationError(format!("{name}:// needs a bucket: {name}://bucket/file")));
        }
        if bucket.contains('@') {
            return Err(LocationError(format!(
                "the URL of a file has a place only; credentials of {name}:// come from CREATE SECRET or the environment"
            )));
        }
        let root = format!("{name}://{bucket}/");
        Ok(Place { scheme: *scheme, bucket: bucket.to_owned(), root, path: path.to_owned() })
    }

    fn of_http(name: &str, text: &str) -> Result<Place, LocationError> {
        let url =
            Url::parse(text).map_err(|error| LocationError(format!("the URL of a file is not valid: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(LocationError(
                "the URL of a file has no name and password; give them with CREATE SECRET (TYPE http, …)".to_owned(),
            ));
        }
        let path = percent_decoded(url.path().trim_start_matches('/'))?;
        let mut base = url.clone();
        base.set_path("");
        base.set_fragment(None);
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let root = format!("{name}://{}{port}/", url.host_str().unwrap_or_default());
        Ok(Place { scheme: Scheme::Http, bucket: base.to_string(), root, path })
    }

    /// The path in the bucket, which may be a pattern.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The name without what may be a signature.
    pub fn shown(&self) -> String {
        format!("{}{}", self.root, self.path)
    }

    /// Whether files can be listed there.
    pub fn is_listed(&self) -> bool {
        self.scheme != Scheme::Http
    }

    /// The name of a path in the same bucket.
    pub(crate) fn name_of(&self, path: &str) -> String {
        format!("{}{path}", self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, bucket: &str, path: &str, shown: &str) {
        let place = Place::parse(url).unwrap();
        assert_eq!((place.bucket.as_str(), place.path(), place.shown().as_str()), (bucket, path, shown));
    }

    #[test]
    fn files_are_found_and_signatures_hidden() {
        check("s3://b/a/x?.parquet", "b", "a/x?.parquet", "s3://b/a/x?.parquet");
        check("gcs://b/x%20y", "b", "x%20y", "gcs://b/x%20y");
        check("az://c", "c", "", "az://c/");
        check("https://h/a/x%20y.csv?sig=SECRET#z", "https://h/?sig=SECRET", "a/x y.csv", "https://h/a/x y.csv");
        check("http://h:81/x", "http://h:81/", "x", "http://h:81/x");
    }

    #[test]
    fn others_are_refused() {
        for (url, part) in [
            ("ftp://h/x", "not read from ftp://; known are s3://"),
            ("s3:///x", "needs a bucket"),
            ("s3://k:secret@b/x", "CREATE SECRET"),
            ("https://u:secret@h/x", "CREATE SECRET"),
            ("https://", "not valid"),
        ] {
            let error = Place::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn schemes_are_seen() {
        for (name, is_one) in
            [("s3://b", true), ("x+y://b", true), ("a/b://c", false), ("://x", false), ("x.csv", false)]
        {
            assert_eq!(has_scheme(name), is_one, "{name}");
        }
    }
}
