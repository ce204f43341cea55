//! Buckets, objects and uploads in parts, and S3's requests to them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::KEY_ID;
use crate::http::{Request, Response};

/// Objects of one answer to a list, at most, so that clients ask for the rest.
const LISTED: usize = 100;

#[derive(Debug, Clone)]
struct Object {
    bytes: Vec<u8>,
    /// A number of each write, in quotes.
    etag: String,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    parts: BTreeMap<u32, Vec<u8>>,
}

/// All buckets.
#[derive(Debug, Default)]
pub struct Objects {
    buckets: BTreeMap<String, BTreeMap<String, Object>>,
    uploads: BTreeMap<String, Upload>,
    written: u64,
}

impl Objects {
    pub fn create_bucket(&mut self, bucket: &str) {
        self.buckets.entry(bucket.to_owned()).or_default();
    }

    pub fn put(&mut self, bucket: &str, key: &str, bytes: Vec<u8>) -> Option<String> {
        self.written += 1;
        let etag = format!("\"{:x}\"", self.written);
        self.buckets.get_mut(bucket)?.insert(key.to_owned(), Object { bytes, etag: etag.clone() });
        Some(etag)
    }

    pub fn bytes(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        self.buckets.get(bucket)?.get(key).map(|object| object.bytes.clone())
    }

    pub fn keys(&self, bucket: &str) -> Vec<String> {
        self.buckets.get(bucket).into_iter().flat_map(|objects| objects.keys().cloned()).collect()
    }

    pub fn open_uploads(&self) -> usize {
        self.uploads.len()
    }

    /// Writes other bytes to the object that a request names.
    pub fn change(&mut self, request: &Request) {
        let (bucket, key) = request.place();
        if let Some(mut bytes) = self.bytes(&bucket, &key) {
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            self.put(&bucket, &key, bytes);
        }
    }

    /// Does what a request asks for.
    pub fn answer(&mut self, request: &Request, with_ranges: bool) -> Response {
        let (bucket, key) = request.place();
        let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
        match request.header("authorization") {
            Some(text) if text.contains(&format!("Credential={KEY_ID}/")) => {}
            None if is_read && bucket.starts_with("public") => {}
            None => return Response::error(403, "AccessDenied"),
            Some(_) => return Response::error(403, "InvalidAccessKeyId"),
        }
        if !self.buckets.contains_key(&bucket) {
            return Response::error(404, "NoSuchBucket");
        }
        let upload = request.parameter("uploadId");
        match (request.method.as_str(), upload) {
            ("GET", None) if key.is_empty() => self.list(request, &bucket),
            ("GET" | "HEAD", None) => self.read(request, &bucket, &key, with_ranges),
            ("PUT", None) => self.create(request, &bucket, &key, request.body.clone()),
            ("PUT", Some(upload)) => self.put_part(request, &upload),
            ("POST", None) if request.parameter("uploads").is_some() => self.begin_upload(bucket, key),
            ("POST", None) if request.parameter("delete").is_some() => self.delete_all(request, &bucket),
            ("POST", Some(upload)) => self.complete_upload(request, &upload),
            ("DELETE", Some(upload)) => match self.uploads.remove(&upload) {
                Some(_) => Response::empty(204),
                None => Response::error(404, "NoSuchUpload"),
            },
            ("DELETE", None) => {
                self.buckets.get_mut(&bucket).and_then(|objects| objects.remove(&key));
                Response::empty(204)
            }
            _ => Response::error(405, "MethodNotAllowed"),
        }
    }

    fn create(&mut self, request: &Request, bucket: &str, key: &str, bytes: Vec<u8>) -> Response {
        let known = self.buckets.get(bucket).and_then(|objects| objects.get(key));
        let fits = request.header("if-match").is_none_or(|etag| known.is_some_and(|object| object.etag == etag));
        if !fits || request.header("if-none-match") == Some("*") && known.is_some() {
            return Response::error(412, "PreconditionFailed");
        }
        match self.put(bucket, key, bytes) {
            Some(etag) => Response::empty(200).with("ETag", &etag),
            None => Response::error(404, "NoSuchBucket"),
        }
    }

    fn read(&self, request: &Request, bucket: &str, key: &str, with_ranges: bool) -> Response {
        let Some(object) = self.buckets.get(bucket).and_then(|objects| objects.get(key)) else {
            return Response::error(404, "NoSuchKey");
        };
        if request.header("if-match").is_some_and(|etag| etag != object.etag) {
            return Response::error(412, "PreconditionFailed");
        }
        let found = |response: Response| {
            let response = response.with("ETag", &object.etag).with("Accept-Ranges", "bytes");
            response.with("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        };
        let whole = object.bytes.len();
        match request.header("range").filter(|_| with_ranges) {
            None => found(Response::empty(200).with_body(object.bytes.clone())),
            Some(range) => match bounds(range, whole) {
                Some(part) => {
                    let shown = format!("bytes {}-{}/{whole}", part.start, part.end - 1);
                    let body = object.bytes[part].to_vec();
                    found(Response::empty(206).with_body(body).with("Content-Range", &shown))
                }
                None => Response::error(416, "InvalidRange"),
            },
        }
    }

    fn list(&self, request: &Request, bucket: &str) -> Response {
        let prefix = request.parameter("prefix").unwrap_or_default();
        let after = request.parameter("continuation-token").or_else(|| request.parameter("start-after"));
        let objects = self.buckets.get(bucket).into_iter().flatten();
        let is_meant = |key: &str| key.starts_with(&prefix) && after.as_deref().is_none_or(|after| key > after);
        let found: Vec<_> = objects.filter(|(key, _)| is_meant(key)).collect();
        let (shown, is_cut) = (&found[..found.len().min(LISTED)], found.len() > LISTED);
        let mut text = format!("<ListBucketResult><Name>{bucket}</Name><IsTruncated>{is_cut}</IsTruncated>");
        if let (true, Some((last, _))) = (is_cut, shown.last()) {
            text.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(last)));
        }
        for (key, object) in shown {
            text.push_str(&format!(
                "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>{}</ETag>\
                 <Size>{}</Size></Contents>",
                escaped(key),
                escaped(&object.etag),
                object.bytes.len()
            ));
        }
        text.push_str("</ListBucketResult>");
        Response::xml(text)
    }

    fn begin_upload(&mut self, bucket: String, key: String) -> Response {
        self.written += 1;
        let id = format!("upload{}", self.written);
        let text = format!("<R><Bucket>{bucket}</Bucket><Key>{}</Key><UploadId>{id}</UploadId></R>", escaped(&key));
        self.uploads.insert(id, Upload { bucket, key, parts: BTreeMap::new() });
        Response::xml(text)
    }

    fn put_part(&mut self, request: &Request, upload: &str) -> Response {
        let part = request.parameter("partNumber").and_then(|text| text.parse().ok());
        match (self.uploads.get_mut(upload), part) {
            (Some(upload), Some(part)) => {
                upload.parts.insert(part, request.body.clone());
                Response::empty(200).with("ETag", &format!("\"part{part}\""))
            }
            _ => Response::error(404, "NoSuchUpload"),
        }
    }

    fn complete_upload(&mut self, request: &Request, id: &str) -> Response {
        let Some(upload) = self.uploads.remove(id) else { return Response::error(404, "NoSuchUpload") };
        let bytes = upload.parts.values().flatten().copied().collect();
        let made = self.create(request, &upload.bucket, &upload.key, bytes);
        if self.bytes(&upload.bucket, &upload.key).is_none() {
            return made;
        }
        Response::xml(format!("<R><ETag>&quot;{:x}&quot;</ETag></R>", self.written))
    }

    fn delete_all(&mut self, request: &Request, bucket: &str) -> Response {
        let body = String::from_utf8_lossy(&request.body);
        let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()).map(unescaped);
        let Some(objects) = self.buckets.get_mut(bucket) else { return Response::error(404, "NoSuchBucket") };
        let mut text = "<DeleteResult>".to_owned();
        for key in keys {
            objects.remove(&key);
            text.push_str(&format!("<Deleted><Key>{}</Key></Deleted>", escaped(&key)));
        }
        text.push_str("</DeleteResult>");
        Response::xml(text)
    }
}

/// The bytes that a header `Range` means.
fn bounds(range: &str, whole: usize) -> Option<Range<usize>> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let part = match (from.parse::<usize>(), to.parse::<usize>()) {
        (Ok(from), Ok(to)) => from..whole.min(to.checked_add(1)?),
        (Ok(from), Err(_)) => from..whole,
        (Err(_), Ok(last)) => whole.saturating_sub(last)..whole,
        _ => return None,
    };
    (part.start < part.end).then_some(part)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}
