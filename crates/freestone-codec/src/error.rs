/// The reason why bytes could not be decoded or values not be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes are not a chunk that this version can have written.
    #[error("corrupt chunk: {0}")]
    Corrupt(String),
    /// The plan cannot store the values: a programming error, or the user's option `encoding`.
    #[allow(missing_docs)]
    #[error("{encoding} cannot store {kind} values")]
    Unsupported { encoding: &'static str, kind: &'static str },
}

impl CodecError {
    pub(crate) fn corrupt(what: impl Into<String>) -> Self {
        CodecError::Corrupt(what.into())
    }
}
