//! Where databases in object storage are: URLs, credentials and requests.
//!
//! [`open`] gives the objects at a URL, as the store needs them ([`Objects`]). Everything asynchronous of the clients is in a
//! small runtime of its own ([`runtime`]). Nothing here knows tables, commits or SQL.

#![warn(missing_docs, clippy::missing_errors_doc)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::dbg_macro, clippy::todo, clippy::unimplemented))]

mod errors;
mod location;
mod remote;
mod runtime;

use std::sync::Arc;

use freestone_store::media::objects::Objects;

pub use location::{Location, LocationError, Scheme, is_url};
pub use remote::Remote;

/// The objects at a URL. With `create`, a folder is made if it does not exist; a bucket is not.
///
/// # Errors
/// The URL is not valid, or the environment does not say what its store needs to be reached.
pub fn open(url: &str, create: bool) -> Result<Arc<dyn Objects>, LocationError> {
    Ok(Arc::new(Location::parse(url)?.connect(create)?))
}
