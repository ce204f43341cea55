//! Files by name: `FROM 'x.parquet'`, `'x.csv'`, `'dir/*.json'`, `'x.arrow'`. This module decides which names are
//! files; [`crate::provider::files`] reads them.

use std::path::Path;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::execution::session_state::SessionState;

use crate::error::Result;
use crate::ingest::{self, FileFormat};
use crate::provider::files::{FileOptions, OpenFiles};

/// Whether a table name is that of a file: it has a path separator, a wildcard, or one of the known extensions. The
/// name of a folder without any of these is accepted if the folder has data files.
pub(crate) fn is_file_name(name: &str) -> bool {
    is_path(name) || is_folder(name) && ingest::expand_paths(name).is_ok() || is_other_file(name)
}

/// Whether a name can only be that of files, whatever tables exist.
pub(crate) fn is_path(name: &str) -> bool {
    name.contains(['/', '*', '?']) || format(name).is_some()
}

/// Whether a file of this name exists, or would have an ending that is known from other programs. To read it is an error,
/// which says what to do.
fn is_other_file(name: &str) -> bool {
    let path = Path::new(name);
    FileFormat::way_to_read(path).is_some() || path.extension().is_some() && path.is_file()
}

/// Whether a folder of this name exists.
pub(crate) fn is_folder(name: &str) -> bool {
    Path::new(name).is_dir()
}

/// Whether files with this extension can be read.
pub(crate) fn is_format(extension: &str) -> bool {
    format(&format!("x.{extension}")).is_some()
}

fn format(name: &str) -> Option<FileFormat> {
    FileFormat::of_path(name.as_ref())
}

/// A table over the files that match a name, folder or pattern now.
///
/// # Errors
/// There is no such file, or a file cannot be read.
pub(crate) fn table(state: &SessionState, open: &OpenFiles, name: &str) -> Result<Arc<dyn TableProvider>> {
    open.table(&[name.to_owned()], &FileOptions::new(state.config().target_partitions()))
}
