//! What processes of a cluster say to each other, besides rows.

use freestone::cluster::TaskError;
use freestone::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

use crate::token::{Purpose, Token};

/// The version of the program. Workers of another one get no work.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of the messages, which changes with the meaning of tasks.
pub const PROTOCOL: u32 = 3;

/// Asks a worker who it is.
pub(crate) const HELLO: &str = "hello";
/// Has a task give parts back that it has not begun.
pub(crate) const RELEASE: &str = "release";
/// Tells a coordinator that a worker is there.
pub(crate) const JOIN: &str = "join";

/// The most bytes of a message that asks for something.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Who a worker is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: String,
    pub protocol: u32,
    /// By what its database is known.
    pub database: String,
    pub is_draining: bool,
    pub threads: u64,
    pub tasks: u64,
    /// The time by its clock, in milliseconds since 1970.
    pub now_ms: u64,
}

/// Who a worker is, and the proof that it knows the secret: a signature of the question and this answer.
#[derive(Debug, Serialize, Deserialize)]
struct Proven {
    hello: String,
    proof: String,
}

/// The answer to a question, which is random.
pub(crate) fn answer(token: &Token, question: &[u8], hello: &Hello) -> serde_json::Result<Vec<u8>> {
    let hello = serde_json::to_string(hello)?;
    let proof = token.signature(Purpose::Answer, &[question, hello.as_bytes()]);
    serde_json::to_vec(&Proven { hello, proof })
}

/// Who has answered a question.
///
/// # Errors
/// It is no worker, or it does not know the secret.
pub(crate) fn answered(token: &Token, question: &[u8], answer: &[u8]) -> Result<Hello, Status> {
    let wrong = |_| Status::unimplemented("it is no worker of Freestone, or an old one");
    let Proven { hello, proof } = serde_json::from_slice(answer).map_err(wrong)?;
    if !token.is_signature(proof.as_bytes(), Purpose::Answer, &[question, hello.as_bytes()]) {
        return Err(Status::unauthenticated("it does not know the token of this cluster"));
    }
    serde_json::from_str(&hello).map_err(wrong)
}

/// Which task gives parts back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Release {
    pub task: u64,
    /// How often it has done so.
    pub turn: usize,
}

/// A worker that joins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Join {
    /// Where it listens.
    pub address: String,
}

/// Why a task failed, in the details of a status.
#[derive(Debug, Serialize, Deserialize)]
enum Details {
    Declined(String),
    Differs(String),
    Failed { sqlstate: String, message: String, hint: Option<String> },
}

/// The status of a task that failed.
pub(crate) fn status(error: TaskError) -> Status {
    let (code, details) = match error {
        TaskError::Declined(reason) | TaskError::Lost(reason) => (Code::Unavailable, Details::Declined(reason)),
        TaskError::Differs(reason) => (Code::FailedPrecondition, Details::Differs(reason)),
        TaskError::Failed(error) => {
            let (message, hint) = (error.to_string(), error.hint().map(str::to_owned));
            (Code::Aborted, Details::Failed { sqlstate: error.sqlstate().to_owned(), message, hint })
        }
    };
    let bytes = serde_json::to_vec(&details).unwrap_or_default();
    Status::with_details(code, "the task failed", bytes.into())
}

/// The error of a status: what the worker said, or that it is lost.
pub(crate) fn error_of(status: &Status) -> TaskError {
    if status.code() == Code::Unauthenticated {
        return TaskError::Declined(status.message().to_owned());
    }
    match serde_json::from_slice(status.details()) {
        Ok(Details::Declined(reason)) => TaskError::Declined(reason),
        Ok(Details::Differs(reason)) => TaskError::Differs(reason),
        Ok(Details::Failed { sqlstate, message, hint }) => {
            let error = Error::new(ErrorKind::of_sqlstate(&sqlstate), message);
            TaskError::Failed(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            })
        }
        Err(_) => TaskError::Lost(reason(status)),
    }
}

/// The innermost cause of a status, such as `Connection refused`.
pub(crate) fn reason(status: &Status) -> String {
    let mut source = std::error::Error::source(status);
    let mut reason = status.message().to_owned();
    while let Some(error) = source {
        reason = error.to_string();
        source = error.source();
    }
    if reason.is_empty() { "the connection ended".to_owned() } else { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_proves_that_it_knows_the_secret() {
        let own = Token::of("0123456789abcdef-secret").expect("a token");
        let other = Token::of("0123456789abcdef-secreT").expect("a token");
        let hello = Hello {
            version: VERSION.into(),
            protocol: PROTOCOL,
            database: "a".into(),
            is_draining: false,
            threads: 2,
            tasks: 0,
            now_ms: 7,
        };
        let said = answer(&own, b"question", &hello).expect("an answer");
        assert_eq!(answered(&own, b"question", &said).expect("a worker").now_ms, 7);
        let text = String::from_utf8(said.clone()).expect("a text");
        for (token, question, said) in [
            (&other, b"question", said.clone()),
            (&own, b"Question", said),
            (&own, b"question", text.replace("now_ms\\\":7", "now_ms\\\":8").into_bytes()),
        ] {
            let refused = answered(token, question, &said).expect_err("no proof");
            assert_eq!(
                (refused.code(), refused.message()),
                (Code::Unauthenticated, "it does not know the token of this cluster")
            );
        }
        assert_eq!(answered(&own, b"question", b"{}").expect_err("no worker").code(), Code::Unimplemented);
    }

    #[test]
    fn errors_survive_the_way() {
        let failed = Error::new(ErrorKind::Type, "division by zero").with_hint("do not");
        match error_of(&status(TaskError::Failed(failed))) {
            TaskError::Failed(error) => {
                assert_eq!((error.kind(), error.hint()), (ErrorKind::Type, Some("do not")));
                assert_eq!((error.to_string().as_str(), error.sqlstate()), ("division by zero", "22012"));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(error_of(&status(TaskError::Differs("x".into()))), TaskError::Differs(x) if x == "x"));
        assert!(matches!(error_of(&status(TaskError::Declined("x".into()))), TaskError::Declined(_)));
        assert!(matches!(error_of(&Status::unavailable("gone")), TaskError::Lost(reason) if reason == "gone"));
        assert!(matches!(error_of(&Status::unauthenticated("no")), TaskError::Declined(_)));
    }
}
