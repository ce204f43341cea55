//! Entry points for fuzzing the decoders of this protocol.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};

use super::connection::{CsvFormat, Header, TextFormat};
use super::copy_binary::{BINARY_HEADER, BinaryRows};
use super::encoding::Encoding;
use super::frame;
use super::types::{TYPES, parameter_type};
use super::utility::{CopyFormat, CopyHeader, CopyOptions, Forced};

pub fn frames(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let mut rest = bytes;
        while let Ok(Some(frame)) = frame::read(&mut rest, 1 << 20, |_| Ok(())).await {
            let _ = frame.parse(Encoding::Latin9);
        }
    });
}

pub fn startup(bytes: &[u8]) {
    let _ = frame::parse_startup(bytes);
}

pub fn parameter(bytes: &[u8]) {
    let [kind, value @ ..] = bytes else { return };
    let (zone, order) = (freestone::Zone::Fixed(0), Some(freestone::DateOrder::Mdy));
    let oid = TYPES[usize::from(*kind) % TYPES.len()].oid;
    for format in [0, 1] {
        let array = TYPES[usize::from(*kind) % TYPES.len()].array;
        let _ = super::parameters::parameter(1, Some(value), format, oid, &DataType::Utf8View, &zone, order);
        let _ = super::parameters::parameter(1, Some(value), format, array, &DataType::Utf8View, &zone, order);
    }
}

pub fn copy(bytes: &[u8]) {
    let header = |options: &CopyOptions| Header::new(options.header, &["a"]);
    let options = CopyOptions { header: CopyHeader::Compared, ..CopyOptions::of(CopyFormat::Text) };
    let mut format = TextFormat::new(&options, vec![true], header(&options));
    let _ = format.convert(bytes);
    let _ = format.finish();
    let options = CopyOptions { escape: b'\\', force_null: Forced::All, ..CopyOptions::of(CopyFormat::Csv) };
    let mut format = CsvFormat::new(&options, &["a"], header(&options));
    let _ = format.convert(bytes);
    let _ = format.finish();
    let fields = TYPES.iter().filter_map(|kind| Some(Field::new(kind.name, parameter_type(kind.oid)?, true)));
    for field in fields {
        let mut rows = BinaryRows::new(Arc::new(Schema::new(vec![field])));
        let _ = rows.push(BINARY_HEADER).and_then(|()| rows.push(bytes)).and_then(|()| rows.finish());
    }
}
