//! The files of the console's page, which are part of this program. They were compressed when the page was built.

use std::io::Read;
use std::sync::OnceLock;

use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use super::refusal::Refusal;

/// A file by its path in addresses. It is there as it is, or as gzip.
struct File {
    path: &'static str,
    kind: &'static str,
    plain: Option<&'static [u8]>,
    gzip: Option<&'static [u8]>,
    brotli: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

/// The file of the page itself.
const INDEX: &str = "/index.html";
/// Files whose names have the hash of their contents.
const HASHED: &str = "/assets/";

/// The answer to a request for a file. Only paths that are exactly those of files lead to any.
///
/// # Errors
/// There is no such file, or the request wants something else than to read it.
pub(crate) fn answer(method: &Method, path: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "files of the page can only be read"));
    }
    let wanted = if path == "/" { INDEX } else { path };
    let file = FILES.iter().position(|file| file.path == wanted);
    let Some((at, file)) = file.and_then(|at| Some((at, FILES.get(at)?))) else {
        return Err(
            Refusal::new(StatusCode::NOT_FOUND, "there is nothing at this address").with_hint("the console is at /")
        );
    };
    let accepted = Accepted::of(headers);
    let (encoding, bytes): (_, Bytes) = match (file.brotli, file.gzip, file.plain) {
        (Some(bytes), ..) if accepted.brotli => (Some("br"), Bytes::from_static(bytes)),
        (_, Some(bytes), _) if accepted.gzip => (Some("gzip"), Bytes::from_static(bytes)),
        (_, _, Some(bytes)) => (None, Bytes::from_static(bytes)),
        (_, Some(bytes), None) => (None, unpacked(bytes)?.into()),
        (_, None, None) => {
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, "the file is there in Brotli's form only"));
        }
    };
    let tag = format!("\"{}{}\"", hash(at), encoding.map(|name| format!("-{name}")).unwrap_or_default());
    let is_known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = is_known.flat_map(|tags| tags.split(',')).any(|known| known.trim().trim_start_matches("W/") == tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut whole = Response::new(Body::from(bytes));
        whole.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(file.kind));
        if let Some(encoding) = encoding {
            whole.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        whole
    };
    let cache = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

/// The forms that a browser reads.
struct Accepted {
    gzip: bool,
    brotli: bool,
}

impl Accepted {
    fn of(headers: &HeaderMap) -> Accepted {
        let texts = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let names = texts.flat_map(|text| text.split(',')).filter_map(|entry| {
            let (name, quality) = entry.split_once(';').unwrap_or((entry, ""));
            let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
            (!is_refused).then(|| name.trim().to_ascii_lowercase())
        });
        names.fold(Accepted { gzip: false, brotli: false }, |accepted, name| Accepted {
            gzip: accepted.gzip || name == "gzip",
            brotli: accepted.brotli || name == "br",
        })
    }
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut plain = vec![];
    match GzDecoder::new(bytes).read_to_end(&mut plain) {
        Ok(_) => Ok(plain),
        Err(error) => {
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("a file of the console is damaged: {error}")))
        }
    }
}

/// The hash of a file's contents.
fn hash(at: usize) -> &'static str {
    static HASHES: OnceLock<Vec<String>> = OnceLock::new();
    let hashes = HASHES.get_or_init(|| {
        let of = |file: &File| {
            let digest = Sha256::digest(file.plain.or(file.gzip).or(file.brotli).unwrap_or_default());
            digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
        };
        FILES.iter().map(of).collect()
    });
    hashes.get(at).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
    }

    fn get(path: &str, headers: &HeaderMap) -> (u16, HeaderMap) {
        let response = answer(&Method::GET, path, headers).unwrap_or_else(IntoResponse::into_response);
        (response.status().as_u16(), response.headers().clone())
    }

    #[test]
    fn the_page_is_there_and_nothing_else() {
        for path in ["/", INDEX] {
            let (status, answered) = get(path, &HeaderMap::new());
            assert_eq!(
                (status, &answered[header::CONTENT_TYPE]),
                (200, &"text/html; charset=utf-8".parse().expect("text"))
            );
            assert_eq!(answered[header::CACHE_CONTROL], "no-cache");
            let known = headers(header::IF_NONE_MATCH, answered[header::ETAG].to_str().expect("text"));
            assert_eq!(get(path, &known).0, 304);
        }
        for path in
            ["", "//", "/index", "/assets/", "/assets/../index.html", "/assets/%2e%2e/index.html", "/../Cargo.toml"]
        {
            assert_eq!(get(path, &HeaderMap::new()).0, 404, "{path}");
        }
        assert!(answer(&Method::DELETE, "/", &HeaderMap::new()).is_err());
        let (status, licences) = get("/LICENSES.txt", &HeaderMap::new());
        assert_eq!((status, licences[header::CONTENT_TYPE].as_bytes()), (200, b"text/plain; charset=utf-8".as_slice()));
    }

    /// What a browser loads at its first visit, and what the program carries, in bytes.
    const PAGE_BYTES_MAX: usize = 600 << 10;

    #[test]
    fn the_page_is_small() {
        let forms = FILES.iter().flat_map(|file| [file.plain, file.gzip, file.brotli]).flatten();
        let bytes: usize = forms.map(<[u8]>::len).sum();
        assert!(bytes <= PAGE_BYTES_MAX, "the files of the page have {bytes} bytes, more than {PAGE_BYTES_MAX}");
        let whole = FILES.iter().filter(|file| file.gzip.is_none()).map(|file| file.path).collect::<Vec<_>>();
        assert!(whole.is_empty(), "not compressed: {}", whole.join(", "));
    }

    #[test]
    fn every_file_has_every_form_that_it_says() {
        for file in FILES {
            for (accepted, expected) in
                [("", None), ("gzip;q=0, br;q=0.0", None), ("gzip", Some("gzip")), ("br, gzip", Some("br"))]
            {
                let (status, answered) = get(file.path, &headers(header::ACCEPT_ENCODING, accepted));
                assert_eq!(status, 200, "{} {accepted}", file.path);
                let encoding = answered.get(header::CONTENT_ENCODING).map(|value| value.to_str().expect("text"));
                assert!(
                    encoding.is_none() || encoding == expected || encoding == Some("gzip"),
                    "{} {accepted}",
                    file.path
                );
            }
            let unpacked = file.gzip.map(|bytes| unpacked(bytes).expect("gzip"));
            assert!(file.plain.is_none() || unpacked.is_none() || unpacked.as_deref() == file.plain, "{}", file.path);
        }
    }
}
