//! Arrow IPC streams and Parquet files, written by the libraries of the formats.

use std::io;

use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use freestone::Strings;
use parquet::arrow as parquet_arrow;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{ResultWriter, Sink};

pub struct ArrowWriter<'a> {
    writer: StreamWriter<&'a mut Sink>,
}

impl<'a> ArrowWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink) -> io::Result<Self> {
        Ok(ArrowWriter {
            writer: StreamWriter::try_new(sink, &Strings::Plain.schema(schema)).map_err(io::Error::other)?,
        })
    }
}

impl ResultWriter for ArrowWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let batch = Strings::Plain.batch(batch.clone()).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.writer.finish().map_err(io::Error::other)
    }
}

pub struct ParquetWriter<'a> {
    writer: Option<parquet_arrow::ArrowWriter<&'a mut Sink>>,
}

impl<'a> ParquetWriter<'a> {
    pub fn new(schema: &SchemaRef, sink: &'a mut Sink) -> io::Result<Self> {
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let schema = Strings::Plain.schema(schema);
        let writer = parquet_arrow::ArrowWriter::try_new(sink, schema, Some(properties)).map_err(io::Error::other)?;
        Ok(ParquetWriter { writer: Some(writer) })
    }
}

impl ResultWriter for ParquetWriter<'_> {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let writer = self.writer.as_mut().expect("no batch comes after finish()");
        let batch = Strings::Plain.batch(batch.clone()).map_err(io::Error::other)?;
        writer.write(&batch).map_err(io::Error::other)
    }

    fn finish(&mut self) -> io::Result<()> {
        let writer = self.writer.take().expect("finish() is called once");
        writer.close().map(drop).map_err(io::Error::other)
    }
}
