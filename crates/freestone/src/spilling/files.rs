//! Temporary files of operators that spill. They have no name in their folder, so nothing is left of them when their process ends,
//! however it ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManagerMode;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;

/// The bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// How a database makes its temporary files, in this folder.
pub(crate) fn mode(folder: PathBuf) -> DiskManagerMode {
    DiskManagerMode::Custom(Arc::new(Unlinked { folder: folder.into() }))
}

struct Unlinked {
    folder: Arc<Path>,
}

impl TempFileFactory for Unlinked {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        let made = match tempfile::tempfile_in(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir(&self.folder).and_then(|()| tempfile::tempfile_in(&self.folder))
            }
            made => made,
        };
        let file = made.map_err(|error| DataFusionError::IoError(failed("create", &self.folder, &error)))?;
        Ok(Arc::new(UnlinkedFile { file: Arc::new(file), bytes: Arc::default(), folder: self.folder.clone() }))
    }
}

/// The error of a file, which the disk may have no room for.
fn failed(what: &str, folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what} a temporary file in {}: {error}", folder.display()))
}

#[derive(Clone)]
struct UnlinkedFile {
    file: Arc<File>,
    /// Those written.
    bytes: Arc<AtomicU64>,
    folder: Arc<Path>,
}

impl SpillFile for UnlinkedFile {
    fn size(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let blocks = futures::stream::try_unfold((self.clone(), 0), |(file, at)| async move {
            let reading = tokio::task::spawn_blocking(move || (file.read(at), file));
            let (block, file) = reading.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            let block = block?;
            let next = at + block.len() as u64;
            Ok((!block.is_empty()).then_some((block, (file, next))))
        });
        Ok(Box::pin(blocks))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl UnlinkedFile {
    /// The next bytes from a place; none at the end.
    fn read(&self, at: u64) -> Result<Bytes> {
        let mut block = vec![0; READ_BYTES];
        let read = loop {
            match self.file.read_at(&mut block, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        block.truncate(read.map_err(|error| DataFusionError::IoError(failed("read", &self.folder, &error)))?);
        Ok(block.into())
    }
}

impl Write for UnlinkedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = (&*self.file).write(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => failed("write", &self.folder, &error),
        })?;
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for UnlinkedFile {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    fn factory(folder: &Path) -> Unlinked {
        Unlinked { folder: folder.into() }
    }

    #[tokio::test]
    async fn what_is_written_is_read_and_has_no_name() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = around.path().join("spills");
        let file = factory(&folder).create_temp_file("a test").expect("a file");
        let bytes: Vec<u8> = (0..READ_BYTES * 2 + 17).map(|at| (at * 31 % 251) as u8).collect();
        let mut writer = file.open_writer().expect("a writer");
        bytes.chunks(1000).for_each(|part| writer.write_all(part).expect("written"));
        writer.finish().expect("finished");
        assert_eq!(file.size(), Some(bytes.len() as u64));
        for _ in 0..2 {
            let blocks: Vec<Bytes> = file.read_stream().expect("a stream").try_collect().await.expect("read");
            assert_eq!(blocks.concat(), bytes);
        }
        assert_eq!(std::fs::read_dir(&folder).expect("the folder is there").count(), 0);
    }

    #[tokio::test]
    async fn errors_name_the_folder() {
        let around = tempfile::tempdir().expect("a folder");
        let missing = around.path().join("a").join("b");
        let error = factory(&missing).create_temp_file("a test").err().expect("two folders are missing");
        assert!(error.to_string().contains("cannot create a temporary file in"), "{error}");
        // A disk without room.
        let full = File::options().read(true).write(true).open("/dev/full").expect("Linux has it");
        let mut file = UnlinkedFile { file: Arc::new(full), bytes: Arc::default(), folder: around.path().into() };
        let error = file.write_all(b"text").expect_err("no room");
        assert!(error.to_string().contains("cannot write a temporary file in"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
