//! Batches of Arrow IPC files by their number. The footer and its blocks are checked before memory is allocated for them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::{Block, Endianness, Footer, MetadataVersion, root_as_footer};

use super::arrow_types::wide_integers;

/// Reads the batches of a file.
pub(super) struct BlockReader {
    file: File,
    schema: SchemaRef,
    decoder: FileDecoder,
    blocks: Vec<Block>,
    next: usize,
}

impl BlockReader {
    /// Opens a file of this length, to read these columns only.
    ///
    /// # Errors
    /// The footer or a dictionary is damaged, or a type is not known.
    pub fn open(file: File, length: u64, columns: Option<&[usize]>) -> Result<Self, ArrowError> {
        let footer = footer_bytes(&file, length)?;
        let footer = root_as_footer(&footer).map_err(|error| damaged(&error.to_string()))?;
        check_blocks(&footer, length)?;
        let declared = footer.schema().ok_or_else(|| damaged("the footer has no schema"))?;
        if declared.endianness() != Endianness::Little {
            return Err(damaged("its numbers are big-endian"));
        }
        check_types(declared)?;
        let schema = Arc::new(fb_to_schema(declared));
        // Version 1 takes the version of each message: some writers declare another one in the footer.
        let mut decoder = FileDecoder::new(schema.clone(), MetadataVersion::V1);
        if let Some(columns) = columns {
            decoder = decoder.with_projection(columns.to_vec());
        }
        for block in footer.dictionaries().into_iter().flatten() {
            decoder.read_dictionary(block, &read_block(&file, block)?)?;
        }
        let blocks = footer.recordBatches().into_iter().flatten().copied().collect();
        Ok(Self { file, schema, decoder, blocks, next: 0 })
    }

    /// All columns of the file.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The number of batches.
    pub fn batches(&self) -> usize {
        self.blocks.len()
    }

    /// Moves to a batch.
    ///
    /// # Errors
    /// There is no such batch.
    pub fn seek(&mut self, batch: usize) -> Result<(), ArrowError> {
        if batch >= self.blocks.len() {
            return Err(damaged(&format!("there is no batch {batch}")));
        }
        self.next = batch;
        Ok(())
    }
}

impl Iterator for BlockReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.get(self.next)?;
        self.next += 1;
        let read = read_block(&self.file, block).and_then(|bytes| self.decoder.read_record_batch(block, &bytes));
        read.transpose()
    }
}

fn damaged(text: &str) -> ArrowError {
    ArrowError::ParseError(text.to_owned())
}

/// Refuses types that the decoder does not know.
pub(super) fn check_types(schema: arrow::ipc::Schema<'_>) -> Result<(), ArrowError> {
    match wide_integers(schema).first() {
        Some(column) => Err(damaged(&format!("column {column} has integers of more than 64 bits, which are not read"))),
        None => Ok(()),
    }
}

fn footer_bytes(file: &File, length: u64) -> Result<Vec<u8>, ArrowError> {
    const END_BYTES: u64 = 10;
    let mut end = [0; END_BYTES as usize];
    let at = length.checked_sub(END_BYTES).ok_or_else(|| damaged("it ends before its footer"))?;
    file.read_exact_at(&mut end, at)?;
    let footer_bytes = read_footer_length(end)?;
    let start = at.checked_sub(footer_bytes as u64).ok_or_else(|| damaged("the footer is longer than the file"))?;
    let mut footer = vec![0; footer_bytes];
    file.read_exact_at(&mut footer, start)?;
    Ok(footer)
}

/// Refuses a footer with blocks outside of the file. Memory of the claimed length is allocated for a block, and a failed
/// allocation would end the process.
fn check_blocks(footer: &Footer<'_>, length: u64) -> Result<(), ArrowError> {
    let within = |block: &Block| {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = parts.into_iter().try_fold(0u64, |end, part| end.checked_add(u64::try_from(part).ok()?));
        end.is_some_and(|end| end <= length) && block.metaDataLength() >= 8
    };
    let blocks = [footer.dictionaries(), footer.recordBatches()];
    match blocks.iter().flatten().all(|blocks| blocks.iter().all(within)) {
        true => Ok(()),
        false => Err(damaged("the footer is damaged")),
    }
}

fn read_block(file: &File, block: &Block) -> Result<Buffer, ArrowError> {
    let (offset, parts) = (u64::try_from(block.offset()), [i64::from(block.metaDataLength()), block.bodyLength()]);
    let bytes = parts.into_iter().map(usize::try_from).sum::<Result<usize, _>>();
    let (Ok(offset), Ok(bytes)) = (offset, bytes) else { return Err(damaged("the footer is damaged")) };
    let mut buffer = MutableBuffer::from_len_zeroed(bytes);
    file.read_exact_at(&mut buffer, offset).map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("the file became shorter while it was read"),
        _ => error.into(),
    })?;
    Ok(buffer.into())
}
