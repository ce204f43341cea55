//! Where databases and files in object storage are: URLs, credentials and requests.
//!
//! [`open`] gives the objects at a URL, as the store needs them ([`Objects`]). [`Stores`] finds files, which are read by
//! ranges ([`RemoteFile`]) or as a whole. Everything asynchronous of the clients is in a
//! small runtime of its own ([`runtime`]). Nothing here knows tables, commits or SQL.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod client;
mod errors;
mod files;
mod location;
mod place;
mod remote;
mod runtime;
mod secrets;
mod upload;

use std::sync::Arc;

use freestone_store::media::objects::Objects;

pub use files::{Object, Pending, RemoteFile, Stores, Traffic};
pub use location::{Location, LocationError, Scheme, is_url};
pub use place::{Place, has_scheme};
pub use remote::Remote;
pub use secrets::{Secret, ShownSecret};
pub use upload::Upload;

/// The objects at a URL. With `create`, a folder is made if it does not exist; a bucket is not.
///
/// # Errors
/// The URL is not valid, or the environment does not say what its store needs to be reached.
pub fn open(url: &str, create: bool) -> Result<Arc<dyn Objects>, LocationError> {
    Ok(Arc::new(Location::parse(url)?.connect(create)?))
}
