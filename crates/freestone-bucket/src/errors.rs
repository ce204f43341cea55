//! What went wrong with a request, in one line that says what to do, without secrets.

use std::io::{self, ErrorKind};

use freestone_store::media::MediumError;
use object_store::Error;

/// The longest text of a store that is shown, in characters.
const SHOWN: usize = 300;

/// The error of a request, as that of a medium.
pub fn of_request(action: &'static str, object: String, error: &Error) -> MediumError {
    let (kind, text) = explained(error);
    MediumError::io(action, object, io::Error::new(kind, text))
}

/// Why a client cannot be made.
pub fn of_settings(error: &Error) -> String {
    in_one_line(&full_text(error))
}

/// Whether the same request may succeed if it is repeated.
pub fn is_transient(error: &Error) -> bool {
    let (kind, _) = explained(error);
    matches!(kind, ErrorKind::Other | ErrorKind::TimedOut | ErrorKind::ConnectionRefused | ErrorKind::UnexpectedEof)
}

pub fn explained(error: &Error) -> (ErrorKind, String) {
    let text = in_one_line(&full_text(error));
    let has = |words: &[&str]| words.iter().any(|word| text.to_lowercase().contains(word));
    let said = |kind: ErrorKind, what: &str| (kind, format!("{what} ({text})"));
    if has(&["nosuchbucket", "containernotfound", "bucket does not exist", "specified bucket"]) {
        return said(ErrorKind::NotFound, "there is no such bucket; create it, or correct the URL");
    }
    if has(&["redirected to another host"]) {
        return said(
            ErrorKind::PermissionDenied,
            "it redirects to another host, which is refused; give that URL, or the region of the bucket",
        );
    }
    if has(&["expiredtoken", "token has expired", "token included in the request is expired"]) {
        return said(ErrorKind::PermissionDenied, "the credentials have expired; renew them");
    }
    if has(&["authorizationheadermalformed", "permanentredirect", "moved permanently", "received redirect", "301"])
        && has(&["region", "redirect"])
    {
        return said(ErrorKind::PermissionDenied, "the bucket is in another region; set AWS_REGION to that");
    }
    match error {
        Error::NotFound { .. } => (ErrorKind::NotFound, "it does not exist".to_owned()),
        Error::AlreadyExists { .. } | Error::Precondition { .. } => (ErrorKind::AlreadyExists, "it exists".to_owned()),
        Error::PermissionDenied { .. } => {
            said(ErrorKind::PermissionDenied, "the store denies it; check the rights of the credentials")
        }
        Error::Unauthenticated { .. } => {
            said(ErrorKind::PermissionDenied, "the store does not know the credentials; check the environment")
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            said(ErrorKind::Unsupported, "the store cannot do this")
        }
        _ if has(&["permission denied"]) => said(ErrorKind::PermissionDenied, "the system denies it"),
        _ if has(&["read-only file system"]) => said(ErrorKind::ReadOnlyFilesystem, "the file system is read-only"),
        _ if has(&["no space left"]) => said(ErrorKind::StorageFull, "there is no space left"),
        _ if has(&["credential", "metadata endpoint", "169.254.169.254"]) => {
            said(ErrorKind::PermissionDenied, "there are no credentials; set them in the environment")
        }
        _ if has(&["dns", "connection refused", "connect error", "tcp connect", "unreachable"]) => {
            said(ErrorKind::ConnectionRefused, "the store cannot be reached; check the endpoint and the network")
        }
        _ if has(&["timed out", "timeout"]) => said(ErrorKind::TimedOut, "the store did not answer in time"),
        _ => (ErrorKind::Other, text),
    }
}

/// An error with all its causes, each once.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}

/// A text without line breaks, without what follows `?` in URLs, which may be a signature, and not too long.
fn in_one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        match (word.contains("://"), word.split_once('?')) {
            (true, Some((url, _))) => {
                line.push_str(url);
                line.push_str("?…");
            }
            _ => line.push_str(word),
        }
    }
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &'static str) -> Error {
        Error::Generic { store: "S3", source: text.into() }
    }

    fn check(error: &Error, kind: ErrorKind, begins: &str) {
        let (found, text) = explained(error);
        assert_eq!(found, kind, "{text}");
        assert!(text.starts_with(begins), "{text}");
        assert!(!text.contains('\n'), "{text}");
    }

    #[test]
    fn errors_say_what_to_do() {
        check(
            &generic("<Error>\n<Code>NoSuchBucket</Code>\n</Error>"),
            ErrorKind::NotFound,
            "there is no such bucket; create it",
        );
        check(
            &generic("AuthorizationHeaderMalformed: the region 'us-east-1' is wrong; expecting 'eu-west-1'"),
            ErrorKind::PermissionDenied,
            "the bucket is in another region; set AWS_REGION",
        );
        check(
            &generic("client error (Connect): tcp connect error: Connection refused (os error 111)"),
            ErrorKind::ConnectionRefused,
            "the store cannot be reached",
        );
        check(&generic("ExpiredToken"), ErrorKind::PermissionDenied, "the credentials have expired");
        check(
            &Error::PermissionDenied { path: "a".into(), source: "AccessDenied".into() },
            ErrorKind::PermissionDenied,
            "the store denies it; check",
        );
        check(
            &Error::NotImplemented { operation: "x".into(), implementer: "y".into() },
            ErrorKind::Unsupported,
            "the store cannot do this",
        );
    }

    #[test]
    fn signatures_are_not_shown() {
        let error = generic("PUT https://a.blob.core.windows.net/c/x?sv=2024&sig=SECRET failed:\n  503");
        let text = of_request("create", "az://c/x".into(), &error).to_string();
        assert!(!text.contains("SECRET") && !text.contains('\n'), "{text}");
        assert!(text.contains("https://a.blob.core.windows.net/c/x?…"), "{text}");
    }
}
