//! Text files, compressed or not.

use std::io::{BufWriter, Write};

use super::codec::Packing;
use super::target::{Complete, Target, io_error};
use crate::error::{Error, ErrorKind, Result};

/// A text file, compressed or not.
pub(super) enum TextOut {
    Plain(BufWriter<Target>),
    Gzip(flate2::write::GzEncoder<BufWriter<Target>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Target>>),
    Bzip2(bzip2::write::BzEncoder<BufWriter<Target>>),
}

impl TextOut {
    pub fn new(target: Target, packing: Packing) -> Result<Self> {
        let out = BufWriter::with_capacity(1 << 20, target);
        Ok(match packing {
            Packing::None => TextOut::Plain(out),
            Packing::Gzip(level) => TextOut::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::new(level))),
            Packing::Zstd(level) => match zstd::stream::write::Encoder::new(out, level) {
                Ok(out) => TextOut::Zstd(out),
                Err(error) => return Err(Error::new(ErrorKind::Io, error.to_string())),
            },
            Packing::Bzip2(level) => TextOut::Bzip2(bzip2::write::BzEncoder::new(out, bzip2::Compression::new(level))),
        })
    }

    fn buffered(&self) -> &BufWriter<Target> {
        match self {
            TextOut::Plain(out) => out,
            TextOut::Gzip(out) => out.get_ref(),
            TextOut::Zstd(out) => out.get_ref(),
            TextOut::Bzip2(out) => out.get_ref(),
        }
    }

    fn target(&self) -> &Target {
        self.buffered().get_ref()
    }

    /// The bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        bytes_of(self.buffered())
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self {
            TextOut::Plain(out) => out.write_all(bytes),
            TextOut::Gzip(out) => out.write_all(bytes),
            TextOut::Zstd(out) => out.write_all(bytes),
            TextOut::Bzip2(out) => out.write_all(bytes),
        };
        written.map_err(|error| self.target().failed(&error))
    }

    pub fn finish(self) -> Result<Complete> {
        let path = self.target().path().to_path_buf();
        let failed = |error: std::io::Error| io_error(&path, &error);
        let out = match self {
            TextOut::Plain(out) => out,
            TextOut::Gzip(out) => out.finish().map_err(failed)?,
            TextOut::Zstd(out) => out.finish().map_err(failed)?,
            TextOut::Bzip2(out) => out.finish().map_err(failed)?,
        };
        into_target(out)?.complete()
    }
}

/// The bytes that a file has, also those that are not written yet.
pub(super) fn bytes_of(out: &BufWriter<Target>) -> u64 {
    out.get_ref().bytes() + out.buffer().len() as u64
}

pub(super) fn into_target(out: BufWriter<Target>) -> Result<Target> {
    out.into_inner().map_err(|error| {
        let (error, out) = error.into_parts();
        out.get_ref().failed(&error)
    })
}
