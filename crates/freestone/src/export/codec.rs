//! The compression of a file: COMPRESSION and COMPRESSION_LEVEL, or the ending of its name.

use arrow::ipc::CompressionType;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;

use crate::error::{Error, Result};
use crate::provider::files::number;

/// The compression of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip(u32),
    Zstd(i32),
    Bzip2(u32),
}

/// COMPRESSION and COMPRESSION_LEVEL. `zstd(3)` specifies both.
#[derive(Debug)]
pub(super) struct Codec {
    name: Option<String>,
    level: Option<usize>,
}

/// The name of a codec, and its minimum, default and maximum level.
type KnownCodec = (&'static str, Option<(usize, usize, usize)>);
const CODECS: [KnownCodec; 10] = [
    ("zstd", Some((1, 3, 22))),
    ("gzip", Some((0, 6, 9))),
    ("brotli", Some((0, 4, 11))),
    ("bzip2", Some((1, 9, 9))),
    ("snappy", None),
    ("lz4", None),
    ("lz4_raw", None),
    ("none", None),
    ("uncompressed", None),
    ("false", None),
];

impl Codec {
    pub fn read(name: Option<&str>, level: Option<&str>) -> Result<Codec> {
        let level = level.map(|level| number("COMPRESSION_LEVEL", level)).transpose()?;
        let Some(name) = name else { return Ok(Codec { name: None, level }) };
        let name = name.to_ascii_lowercase();
        let (name, inside) = match name.strip_suffix(')').and_then(|rest| rest.split_once('(')) {
            Some((name, inside)) => (name.trim().to_owned(), Some(number("COMPRESSION_LEVEL", inside.trim())?)),
            None => (name, None),
        };
        if !CODECS.iter().any(|(known, _)| *known == name) {
            return Err(Error::invalid(format!("unknown compression {name}"))
                .with_hint("the compressions are zstd, gzip, bzip2, brotli, snappy, lz4, none"));
        }
        Ok(Codec { name: Some(name), level: level.or(inside) })
    }

    /// The requested level, or the default of a codec with levels.
    fn level(&self, name: &str) -> Result<usize> {
        let levels = CODECS.iter().find(|(known, _)| *known == name).and_then(|(_, levels)| *levels);
        match (levels, self.level) {
            (None, None) => Ok(0),
            (None, Some(_)) => Err(Error::invalid(format!("compression {name} has no levels"))),
            (Some((_, default, _)), None) => Ok(default),
            (Some((least, _, greatest)), Some(level)) if (least..=greatest).contains(&level) => Ok(level),
            (Some((least, _, greatest)), Some(level)) => {
                Err(Error::invalid(format!("compression {name} has levels {least} to {greatest}, not {level}")))
            }
        }
    }

    pub fn parquet(&self) -> Result<Compression> {
        let name = self.name.as_deref().unwrap_or("zstd");
        let level = self.level(name)?;
        let bad = |error: ParquetError| Error::invalid(error.to_string());
        Ok(match name {
            "zstd" => Compression::ZSTD(ZstdLevel::try_new(level as i32).map_err(bad)?),
            "gzip" => Compression::GZIP(GzipLevel::try_new(level as u32).map_err(bad)?),
            "brotli" => Compression::BROTLI(BrotliLevel::try_new(level as u32).map_err(bad)?),
            "snappy" => Compression::SNAPPY,
            // The LZ4 codec of Parquet is deprecated, and some readers refuse it.
            "lz4" | "lz4_raw" => Compression::LZ4_RAW,
            "bzip2" => {
                return Err(Error::unsupported("Parquet files are not compressed by bzip2")
                    .with_hint("the compressions of Parquet files are zstd, gzip, brotli, snappy, lz4 and none"));
            }
            _ => Compression::UNCOMPRESSED,
        })
    }

    pub fn arrow(&self) -> Result<Option<CompressionType>> {
        let name = self.name.as_deref().unwrap_or("none");
        let is_default = self.level.is_none();
        Ok(match name {
            "none" | "uncompressed" | "false" => None,
            "zstd" if is_default => Some(CompressionType::ZSTD),
            "lz4" if is_default => Some(CompressionType::LZ4_FRAME),
            _ => {
                return Err(Error::unsupported(format!("Arrow files are not compressed by {name} at a level"))
                    .with_hint("the compressions of Arrow files are zstd, lz4 and none, without levels"));
            }
        })
    }

    /// The compression of text: as requested, or by the extension.
    pub fn packing(&self, path: &str) -> Result<Packing> {
        let ending = |ending: &str| path.to_ascii_lowercase().ends_with(ending);
        let name = match self.name.as_deref() {
            Some(name) => name,
            None if ending(".gz") => "gzip",
            None if ending(".zst") => "zstd",
            None if ending(".bz2") => "bzip2",
            None => "none",
        };
        let level = self.level(name)?;
        Ok(match name {
            "gzip" => Packing::Gzip(level as u32),
            "zstd" => Packing::Zstd(level as i32),
            "bzip2" => Packing::Bzip2(level as u32),
            "none" | "uncompressed" | "false" => Packing::None,
            _ => {
                return Err(Error::unsupported(format!("text files are not compressed by {name}"))
                    .with_hint("the compressions of text files are gzip, zstd, bzip2 and none"));
            }
        })
    }
}
