//! Files by name: `FROM 'x.parquet'`, `'x.csv'`, `'dir/*.json'`, `'x.arrow'`. Which names mean files; reading them is
//! [`crate::provider::files`]'s.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;

use crate::error::Result;
use crate::ingest::{self, FileFormat};
use crate::provider::files::{FileOptions, OpenFiles};

/// Whether a table name means a file: no table's name has a path's separator, a glob, or one of our extensions. A folder
/// without any of these is meant if it holds data files.
pub(crate) fn is_file_name(name: &str) -> bool {
    is_path(name) || is_folder(name) && ingest::expand_paths(name).is_ok()
}

/// Whether a name can mean nothing but files, whatever is there.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains(['/', '*', '?']) || format(name).is_some()
}

/// Whether there is a folder of this name.
pub(crate) fn is_folder(name: &str) -> bool {
    Path::new(name).is_dir()
}

/// Whether files with this ending are read.
pub(crate) fn is_format(extension: &str) -> bool {
    format(&format!("x.{extension}")).is_some()
}

fn format(name: &str) -> Option<FileFormat> {
    FileFormat::of_path(name.as_ref())
}

/// A table over the files that a name, folder or pattern stands for now.
pub(crate) fn table(state: &SessionState, open: &OpenFiles, name: &str) -> Result<Arc<dyn TableProvider>> {
    open.table(&[name.to_owned()], &FileOptions::new(state.config().target_partitions()))
}
