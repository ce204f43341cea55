//! Bytes that never change: a chunk and the shared state of every encoding, as first published. Every later version
//! reads the files of `tests/fixtures`. A file is written only if it does not exist yet.

use freestone_codec::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Cargo runs tests in the folder of their package, wherever the binary was compiled.
fn fixture(name: &str) -> PathBuf {
    Path::new("tests/fixtures").join(format!("{name}.hex"))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        line.iter().for_each(|b| write!(text, "{b:02x}").expect("a string takes all"));
        text.push('\n');
    }
    text
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

/// The stored bytes of `name`. A missing file is an error, unless FREESTONE_NEW_FIXTURES is set to create those of a
/// new encoding.
fn golden(name: &str, now: &[u8]) -> Vec<u8> {
    let path = fixture(name);
    if !path.exists() && std::env::var_os("FREESTONE_NEW_FIXTURES").is_some() {
        std::fs::write(&path, hex(now)).unwrap();
    }
    unhex(&std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

/// Encodes with this version, and checks that the stored bytes decode to the same values. Integer codecs must also give
/// the same bytes.
fn check(
    name: &str,
    values: Values<'_>,
    validity: Option<&[u64]>,
    transform: Transform,
    encoding: Encoding,
    same_bytes: bool,
) {
    let plan = ColumnPlan { transform, encoding };
    let options = ChooseOptions { chunk_bytes: 30_000, bytes_per_ns: 0.1, allow_block: true, wanted: Some(plan) };
    let choice = choose(&values, validity, &options).unwrap();
    let column = prepare(values, validity, plan, choice.shared.as_ref()).unwrap();
    let mut chunk = Vec::new();
    encode(&column, 0, values.len(), &mut chunk).unwrap();
    let stored = golden(name, &chunk);
    let shared_now = choice.shared.as_ref().map(Shared::to_bytes);
    let shared = shared_now.as_ref().map(|bytes| golden(&format!("{name}.shared"), bytes));
    if same_bytes {
        assert_eq!((&chunk, &shared_now), (&stored, &shared), "{name} is encoded differently");
    }
    let shared = shared.map(|bytes| Shared::parse(&bytes, values.kind(), transform).unwrap());
    let chunk = Chunk::parse(&stored, values.kind(), shared.as_ref()).unwrap();
    assert_eq!(chunk.encoding(), encoding, "{name}");
    check_values(name, &chunk, values, validity);
}

fn check_values(name: &str, chunk: &Chunk<'_>, values: Values<'_>, validity: Option<&[u64]>) {
    let rows = Rows::Range { start: 0, len: values.len() };
    let scratch = &mut Scratch::default();
    let mut bitmap = vec![0u64; values.len().div_ceil(64)];
    chunk.validity(rows, &mut bitmap, 0);
    let valid = |row: usize| validity.is_none_or(|words| words[row / 64] >> (row % 64) & 1 == 1);
    let live: Vec<usize> = (0..values.len()).filter(|row| valid(*row)).collect();
    assert!((0..values.len()).all(|row| (bitmap[row / 64] >> (row % 64) & 1 == 1) == valid(row)), "{name}: validity");
    match values {
        Values::Int(v) => {
            let mut out = Vec::<i64>::new();
            chunk.ints(rows, &mut out, scratch).unwrap();
            live.iter().for_each(|row| assert_eq!(out[*row], v[*row], "{name} row {row}"));
        }
        Values::Wide(v) => {
            let mut out = Vec::<i128>::new();
            chunk.ints(rows, &mut out, scratch).unwrap();
            live.iter().for_each(|row| assert_eq!(out[*row], v[*row], "{name} row {row}"));
        }
        Values::F64(v) => {
            let mut out = Vec::new();
            chunk.f64s(rows, &mut out, scratch).unwrap();
            live.iter().for_each(|row| assert_eq!(out[*row].to_bits(), v[*row].to_bits(), "{name} row {row}"));
        }
        Values::F32(v) => {
            let mut out = Vec::new();
            chunk.f32s(rows, &mut out, scratch).unwrap();
            live.iter().for_each(|row| assert_eq!(out[*row].to_bits(), v[*row].to_bits(), "{name} row {row}"));
        }
        Values::Bytes(v) => {
            for row in live {
                let mut selection = [u64::MAX];
                let equal = Predicate::Bytes(BytesPredicate::In(vec![v.get(row).to_vec()]));
                chunk.filter(&equal, row, 1, &mut selection, scratch, 1).unwrap();
                assert_eq!(selection[0] & 1, 1, "{name} row {row}");
            }
        }
    }
}

#[test]
fn integers() {
    use Encoding::*;
    let values: Vec<i64> = (0..40).map(|i| (i * i * 37) % 101 - 50).collect();
    let validity = [!0x0010_0200u64];
    let sorted: Vec<i64> = (0..40).map(|i| 1000 + i * i / 7).collect();
    let runs: Vec<i64> = (0..40).map(|i| i / 9 * 1000).collect();
    let wide: Vec<i128> = values.iter().map(|v| i128::from(*v) << 50).collect();
    let far: Vec<i128> = values.iter().map(|v| i128::from(*v) << 90).collect();
    let none = Transform::None;
    check("int-plain", Values::Int(&values), None, none, Plain, true);
    check("int-constant", Values::Int(&[-7; 40]), None, none, Constant, true);
    check("int-bitpack", Values::Int(&values), None, none, BitPack, true);
    check("int-bitpack-nulls", Values::Int(&values), Some(&validity), none, BitPack, true);
    check("int-dictionary", Values::Int(&values), None, none, Dictionary, true);
    check("int-delta", Values::Int(&sorted), None, none, Delta, true);
    check("int-delta-lz", Values::Int(&sorted), None, none, DeltaLz, true);
    check("int-rle", Values::Int(&runs), None, none, Rle, true);
    check("int-shared-dictionary", Values::Int(&runs), None, Transform::Dictionary, BitPack, true);
    check("wide-bitpack", Values::Wide(&wide), None, none, BitPack, true);
    check("wide-plain", Values::Wide(&far), None, none, Plain, true);
    check("wide-dictionary", Values::Wide(&far), None, none, Dictionary, true);
}

#[test]
fn floats() {
    let mut f64s: Vec<f64> = (0..40).map(|i| f64::from(i) * 1.25 - 3.0).collect();
    (f64s[3], f64s[30]) = (f64::NAN, -0.0);
    let f32s: Vec<f32> = (0..40).map(|i| i as f32 / 10.0).collect();
    check("f64-alp", Values::F64(&f64s), None, Transform::None, Encoding::Alp, true);
    check("f64-plain", Values::F64(&f64s), None, Transform::None, Encoding::Plain, true);
    check("f64-dictionary", Values::F64(&f64s), None, Transform::None, Encoding::Dictionary, true);
    check("f32-alp", Values::F32(&f32s), None, Transform::None, Encoding::Alp, true);
    check("f32-bitpack", Values::F32(&f32s), None, Transform::None, Encoding::BitPack, true);
}

/// Compressors may give shorter bytes one day. Here only the stored bytes must remain readable.
#[test]
fn strings() {
    let strings: Vec<String> = (0..60).map(|i| format!("stone number {} of {}", i % 12, i % 5)).collect();
    let mut offsets = vec![0u32];
    strings.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.len() as u32));
    let data = strings.concat().into_bytes();
    let values = Values::Bytes(BytesSlice { offsets: &offsets, data: &data });
    let same: Vec<u32> = (0..11).map(|i| i * 4).collect();
    let constant = Values::Bytes(BytesSlice { offsets: &same, data: &b"same".repeat(10) });
    let validity = [!0x0010_0200u64];
    check("bytes-plain", values, Some(&validity), Transform::None, Encoding::Plain, true);
    check("bytes-constant", constant, None, Transform::None, Encoding::Constant, true);
    check("bytes-dictionary", values, None, Transform::None, Encoding::Dictionary, true);
    check("bytes-shared-dictionary", values, None, Transform::Dictionary, Encoding::BitPack, true);
    check("bytes-fsst", values, None, Transform::Fsst, Encoding::Plain, false);
    check("bytes-block", values, None, Transform::None, Encoding::Block, false);
    let long: Vec<String> =
        (0..2000).map(|i| format!("{i:05} blocks of text {} {}", i * i % 977, i * 31 % 101)).collect();
    let mut offsets = vec![0u32];
    long.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.len() as u32));
    let text = BytesSlice { offsets: &offsets, data: &long.concat().into_bytes() };
    check("bytes-block-dictionary", Values::Bytes(text), None, Transform::BlockDictionary, Encoding::Block, false);
}

/// One byte of each field, as documented: id, flags, param, rows.
#[test]
fn headers_are_as_documented() {
    let bytes = unhex(&std::fs::read_to_string(fixture("int-bitpack-nulls")).unwrap());
    assert_eq!(bytes[..8], [3, 1, 7, 0, 40, 0, 0, 0]);
    assert_eq!(bytes[8..16], (!0x0010_0200u64 & ((1 << 40) - 1)).to_le_bytes());
    assert_eq!(bytes[16..24], (-50i64).to_le_bytes());
}
