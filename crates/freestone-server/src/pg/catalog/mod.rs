//! stub
use crate::shared::Shared;
use freestone::Session;
use std::sync::Arc;
pub fn install(_: &Arc<Session>, _: &Arc<Shared>, _: &str) {}
pub fn rewrite(_: &str) -> Option<String> {
    None
}
