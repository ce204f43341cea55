//! The sample result of Raasveldt and Mühleisen 2017, Table 2, in this protocol and in those of the paper's figures, byte
//! by byte as `docs/protocol.md` explains them.

use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use arrow::buffer::Buffer;
use freestone_store::plain::Strings;

use super::{Job, Payload, Recipe, RowLimit, decode, receive};
use crate::batch::Batch;
use crate::column::{Choice, Form, Nulls, Plan, SharedStates};
use crate::frame::HEADER_BYTES;
use crate::limits::ChunkSizes;
use crate::types::wire_schema;

const CHUNK_BYTES_MAX: usize = 1 << 20;
const ROWS: [(Option<i32>, &str); 2] = [(Some(100_000_000), "OK"), (None, "DPFKG")];

fn sample() -> RecordBatch {
    let numbers = Arc::new(Int32Array::from_iter(ROWS.map(|row| row.0))) as ArrayRef;
    let texts = Arc::new(StringViewArray::from_iter_values(ROWS.map(|row| row.1)));
    RecordBatch::try_from_iter_with_nullable([("a", numbers, true), ("b", texts, true)]).unwrap()
}

/// The payload of the sample's chunk, with NULLs of the numbers in this form and terminated strings.
fn ours(nulls: Nulls) -> Vec<u8> {
    let recipe = |plan| Recipe { choice: Choice { plan, ..Choice::default() }, ..Recipe::default() };
    let texts = Plan::Strings { form: Form::NulTerminated, nulls: Nulls::Bitmask };
    let job = Job {
        batch: Arc::new(Batch::from(sample())),
        rows: 0..2,
        first_row: 0,
        recipes: Arc::new(vec![recipe(Plan::Plain { nulls }), recipe(texts)]),
        may_continue: false,
        chunk_bytes_max: CHUNK_BYTES_MAX,
        row: RowLimit::of_server(CHUNK_BYTES_MAX),
    };
    job.encode(&Vec::new).unwrap().remove(0).frames.remove(0).split_off(HEADER_BYTES)
}

/// The strings of the second column, each followed by a byte 0, after their length in bytes.
fn terminated_strings() -> Vec<u8> {
    let strings: Vec<u8> = ROWS.iter().flat_map(|row| [row.1.as_bytes(), &[0]].concat()).collect();
    [&(strings.len() as u32).to_le_bytes()[..], &strings].concat()
}

/// Figure 10 by section 4.1: the number of rows; fixed-width columns without anything before them, NULL as the least
/// number; the total length before a column of strings.
fn monetdb() -> Vec<u8> {
    let numbers = ROWS.map(|row| row.0.unwrap_or(i32::MIN).to_le_bytes()).concat();
    [&2u32.to_le_bytes()[..], &numbers, &terminated_strings()].concat()
}

/// Figure 11 by section 4.2: every column after its length; a bitmask, in which 1 is NULL, only for the column with
/// NULLs; no value for a NULL row.
fn postgresql_columnar() -> Vec<u8> {
    let mask = ROWS.iter().enumerate().fold(0u8, |mask, (at, row)| mask | u8::from(row.0.is_none()) << at);
    let values: Vec<u8> = ROWS.iter().filter_map(|row| row.0).flat_map(i32::to_le_bytes).collect();
    let length = (1 + values.len()) as u32;
    [&2u32.to_le_bytes()[..], &length.to_le_bytes(), &[mask], &values, &terminated_strings()].concat()
}

/// Figure 5: for each row a message type, its length, the number of fields, and each field after its length, all
/// numbers with the most significant byte first; the length of NULL is -1.
fn postgresql() -> Vec<u8> {
    let field = |value: Option<&[u8]>| match value {
        Some(value) => [&(value.len() as i32).to_be_bytes()[..], value].concat(),
        None => (-1i32).to_be_bytes().to_vec(),
    };
    let row = |(number, text): (Option<i32>, &str)| {
        let number = number.map(i32::to_be_bytes);
        let fields = [field(number.as_ref().map(|bytes| &bytes[..])), field(Some(text.as_bytes()))].concat();
        [&b"D"[..], &(6 + fields.len() as u32).to_be_bytes(), &2u16.to_be_bytes(), &fields].concat()
    };
    ROWS.map(row).concat()
}

/// Figure 6: for each row a length of three bytes, the number of the packet, and each field as text after its length;
/// the length 0xFB is NULL. The sample's packets follow those of the result's header: its columns are 2 and 3, and
/// packet 4 ends them.
fn mysql() -> Vec<u8> {
    let field = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let row = |(at, (number, text)): (usize, (Option<i32>, &str))| {
        let number = number.map_or(vec![0xFB], |number| field(&number.to_string()));
        let fields = [number, field(text)].concat();
        [&(fields.len() as u32).to_le_bytes()[..3], &[5 + at as u8], &fields].concat()
    };
    ROWS.into_iter().enumerate().flat_map(row).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_sample_has_the_bytes_of_the_document() {
    let document = fs::read_to_string("../../docs/protocol.md").unwrap();
    let has = |line: String| assert!(document.contains(&line), "docs/protocol.md does not have\n{line}");
    for (name, bytes) in [
        ("PostgreSQL, Figure 5", postgresql()),
        ("MySQL, Figure 6", mysql()),
        ("MonetDB++, Figure 10", monetdb()),
        ("PostgreSQL++, Figure 11", postgresql_columnar()),
    ] {
        has(format!("| {name} | {} | `{}` |", bytes.len(), hex(&bytes)));
    }
    for (nulls, places) in [
        (Nulls::Sentinel, [0..16, 16..48, 48..80, 80..104, 104..112, 112..121]),
        (Nulls::Packed, [0..16, 16..48, 48..80, 80..100, 100..112, 112..121]),
    ] {
        let bytes = ours(nulls);
        assert_eq!(bytes.len(), 121);
        for place in places {
            has(format!("| {nulls:?} | {}..{} | `{}` |", place.start, place.end, hex(&bytes[place.clone()])));
        }
    }
}

#[test]
fn the_sample_reads_back() {
    let sizes = ChunkSizes::of(CHUNK_BYTES_MAX);
    for nulls in [Nulls::Bitmask, Nulls::Sentinel, Nulls::Packed] {
        let (mut payload, schema) = (Payload::default(), wire_schema(&sample().schema()));
        payload.push(Buffer::from(ours(nulls)));
        let chunk = receive(&payload, &schema, sizes, &mut vec![]).unwrap();
        let found = decode(&chunk, &schema, Strings::Views, &SharedStates::new(), sizes).unwrap();
        assert_eq!(found, sample(), "{nulls:?}");
    }
}
