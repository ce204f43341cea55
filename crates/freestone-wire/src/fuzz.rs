//! Entry points for fuzzing: every decoder gives a value or an error, whatever the bytes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use freestone_store::plain::Strings;

use crate::auth::{ServerScram, UNBOUND, Verifier, user_of};
use crate::chunk::{HEAD_BYTES, PIECE_BYTES, Piece, decode};
use crate::column::{ALIGNMENT, Form};
use crate::frame::{HEADER_BYTES, Header, Message};
use crate::incoming::Incoming;
use crate::limits::ChunkSizes;
use crate::message::*;
use crate::types::schema_of;

/// The largest chunk for these decoders.
const CHUNK_BYTES_MAX: usize = 1 << 16;
/// The sizes of chunks for them.
const SIZES: ChunkSizes = ChunkSizes { bytes_max: CHUNK_BYTES_MAX, row_bytes_max: 4 * CHUNK_BYTES_MAX };

/// A column of every type with forms of its own, and one without.
pub fn schema() -> SchemaRef {
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::UInt64,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 2),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::new_list(DataType::Int32, true),
        DataType::Null,
    ];
    let fields = types.into_iter().enumerate().map(|(at, t)| Field::new(format!("c{at}"), t, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Decodes the bytes as everything that a peer may send.
pub fn exercise(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
        _ = Header::parse(header, CHUNK_BYTES_MAX).map(|header| header.check(&bytes[HEADER_BYTES..]));
    }
    fn read<M: Message>(bytes: &[u8]) {
        if let Ok(message) = M::parse(bytes) {
            let mut again = vec![];
            message.put(&mut again);
            assert_eq!(again, bytes, "a message has one form");
        }
    }
    read::<Hello>(bytes);
    read::<Challenge>(bytes);
    read::<Ready>(bytes);
    read::<Query>(bytes);
    read::<Prepare>(bytes);
    read::<Input>(bytes);
    read::<Prepared>(bytes);
    read::<Execute>(bytes);
    read::<Credit>(bytes);
    read::<Grow>(bytes);
    read::<MappedChunk>(bytes);
    read::<PlacedChunk>(bytes);
    read::<Complete>(bytes);
    read::<Failure>(bytes);
    read::<Progress>(bytes);
    read::<Upload>(bytes);
    read::<UploadEnd>(bytes);
    read::<crate::message::Header>(bytes);
    _ = crate::message::Header::parse(bytes).map(|header| schema_of(&header.columns));
    let mut incoming = Incoming::default();
    _ = Shared::parse(bytes).map(|part| incoming.add_state(part));
    let schema = schema();
    _ = exercise_chunk(bytes, &schema, &mut incoming);
    _ = exercise_chunk(&going_on(bytes), &schema, &mut incoming);
    _ = exercise_parts(bytes, bytes.len() / 2, &schema);
    if let Ok(text) = std::str::from_utf8(bytes) {
        _ = text.parse::<Verifier>();
        _ = crate::address::Address::parse(text);
        _ = user_of(text);
        let server = ServerScram::challenge(text, &[UNBOUND], "nobody", None, &[0; 32]);
        _ = server.map(|(server, _)| server.check(text, &[]));
    }
}

/// Decodes a chunk in one frame, in both layouts of strings.
fn exercise_chunk(bytes: &[u8], schema: &SchemaRef, incoming: &mut Incoming) -> crate::Result<RecordBatch> {
    let chunk = incoming.receive(Buffer::from(bytes), schema, SIZES)?;
    let [views, plain] =
        [Strings::Views, Strings::Plain].map(|strings| decode(&chunk, schema, strings, &incoming.states, SIZES));
    if let (Ok(views), Ok(plain)) = (&views, &plain) {
        let laid_out = Strings::Plain.batch(views.clone());
        assert!(laid_out.is_ok_and(|laid_out| laid_out == *plain), "the layouts hold the same rows");
    }
    views.and_then(|views| plain.map(|_| views))
}

/// The same in two frames, of which the first ends at about `cut`.
fn exercise_parts(bytes: &[u8], cut: usize, schema: &SchemaRef) -> crate::Result<RecordBatch> {
    let (first, last) = bytes.split_at((cut / ALIGNMENT * ALIGNMENT).min(bytes.len()));
    let mut incoming = Incoming::default();
    incoming.add_part(Buffer::from(first))?;
    exercise_chunk(last, schema, &mut incoming)
}

/// The same chunk without its stored bodies, as it may be sent after it.
fn going_on(bytes: &[u8]) -> Vec<u8> {
    let mut again = [&[0; HEADER_BYTES], bytes].concat();
    let directory = bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks::<PIECE_BYTES>().0;
    let mut entry = 0;
    for (column, piece) in directory.iter().map_while(|entry| Piece::parse(entry).ok()) {
        let piece = match piece.body.form {
            Form::Chunk => Piece { continues: true, length: 0, ..piece },
            _ => piece,
        };
        piece.put(column, &mut entry, &mut again);
    }
    again.split_off(HEADER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::chunk::{Job, Recipe, RowLimit, put_head};
    use crate::column::{Body, ByteCodec, Choice, Nulls, Plan, Span};
    use arrow::array::*;
    use freestone_codec::{ColumnPlan, Encoding, Transform};

    fn batch(rows: usize) -> RecordBatch {
        let text = |row: usize| (!row.is_multiple_of(5)).then(|| format!("text of row {}", row % 9));
        let some = |row: usize| (!row.is_multiple_of(3)).then_some(row as i64);
        let rows = 0..rows;
        let wide = Decimal128Array::from_iter(rows.clone().map(|row| some(row).map(i128::from)));
        let list = rows.clone().map(|row| some(row).map(|n| vec![Some(n as i32)]));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from_iter(rows.clone().map(|row| some(row).map(|n| n % 2 == 0)))),
            Arc::new(Int8Array::from_iter(rows.clone().map(|row| some(row).map(|n| n as i8)))),
            Arc::new(UInt64Array::from_iter(rows.clone().map(|row| some(row).map(|n| n as u64)))),
            Arc::new(Int64Array::from_iter(rows.clone().map(some))),
            Arc::new(Float32Array::from_iter(rows.clone().map(|row| some(row).map(|n| n as f32)))),
            Arc::new(Float64Array::from_iter(rows.clone().map(|row| some(row).map(|n| n as f64 / 8.0)))),
            Arc::new(wide.with_data_type(DataType::Decimal128(38, 2))),
            Arc::new(TimestampMicrosecondArray::from_iter(rows.clone().map(some))),
            Arc::new(StringViewArray::from_iter(rows.clone().map(text))),
            Arc::new(StringViewArray::from_iter(rows.clone().map(|row| some(row).map(|_| "x")))),
            Arc::new(BinaryViewArray::from_iter(rows.clone().map(|row| text(row).map(String::into_bytes)))),
            Arc::new(ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>(list)),
            Arc::new(NullArray::new(rows.len())),
        ];
        RecordBatch::try_new(schema(), columns).unwrap()
    }

    fn payload(batch: &RecordBatch, plan: Plan, codec: ByteCodec) -> Vec<u8> {
        let recipe = Recipe { choice: Choice { plan, codec: codec.into() }, ..Recipe::default() };
        let recipes = Arc::new(vec![recipe; batch.num_columns()]);
        let rows = 0..batch.num_rows();
        let batch = Arc::new(Batch::from(batch.clone()));
        let (chunk_bytes_max, row) = (CHUNK_BYTES_MAX, RowLimit::of_server(CHUNK_BYTES_MAX));
        let job = Job { batch, rows, first_row: 0, recipes, may_continue: false, chunk_bytes_max, row };
        job.encode(&Vec::new).unwrap().remove(0).frames.remove(0).split_off(HEADER_BYTES)
    }

    fn plans() -> Vec<Plan> {
        let chunk = |encoding| Plan::Chunk { plan: ColumnPlan { transform: Transform::None, encoding }, shared: None };
        let strings = |form, nulls| Plan::Strings { form, nulls };
        vec![
            Plan::Plain { nulls: Nulls::Bitmask },
            Plan::Plain { nulls: Nulls::Sentinel },
            Plan::Plain { nulls: Nulls::Packed },
            strings(Form::Fixed, Nulls::Bitmask),
            strings(Form::Fixed, Nulls::Sentinel),
            strings(Form::Fixed, Nulls::Packed),
            strings(Form::NulTerminated, Nulls::Bitmask),
            strings(Form::NulTerminated, Nulls::Sentinel),
            strings(Form::NulTerminated, Nulls::Packed),
            chunk(Encoding::BitPack),
            chunk(Encoding::Plain),
            chunk(Encoding::Delta),
            chunk(Encoding::Rle),
            chunk(Encoding::Dictionary),
            chunk(Encoding::Alp),
            chunk(Encoding::Block),
        ]
    }

    #[test]
    fn every_form_reads_back_and_damage_is_an_error_or_other_rows() {
        std::panic::set_hook(Box::new(|_| {}));
        let batch = batch(300);
        let mut random = 1u64;
        let mut next = move |n: usize| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize % n
        };
        for plan in plans() {
            for codec in [ByteCodec::None, ByteCodec::Lz4, ByteCodec::Zstd, ByteCodec::Snappy] {
                let bytes = payload(&batch, plan.clone(), codec);
                let mut incoming = Incoming::default();
                for bytes in [&bytes, &going_on(&bytes)] {
                    let read = exercise_chunk(bytes, &schema(), &mut incoming);
                    assert_eq!(read.unwrap_or_else(|e| panic!("{plan:?} {codec:?}: {e}")), batch, "{plan:?} {codec:?}");
                }
                let is_stored = matches!(plan, Plan::Chunk { .. });
                assert_eq!(going_on(&bytes) != bytes, is_stored, "{plan:?} goes on with stored chunks only");
                let cut = |cut| exercise_parts(&bytes, cut, &schema());
                let directory = HEAD_BYTES + batch.num_columns() * PIECE_BYTES;
                assert_eq!(cut(directory).unwrap_or_else(|e| panic!("{plan:?} {codec:?}: {e}")), batch);
                assert!(cut(directory - 1).is_err(), "a directory in two frames");
                for _ in 0..300 {
                    let mut damaged = bytes.clone();
                    let place = if next(2) == 0 { next(directory) } else { next(bytes.len()) };
                    damaged[place] = next(256) as u8;
                    damaged.truncate(bytes.len() - next(4) / 3 * next(bytes.len()));
                    _ = exercise_chunk(&damaged, &schema(), &mut Incoming::default());
                    _ = exercise_parts(&damaged, next(bytes.len()), &schema());
                }
            }
        }
    }

    /// A chunk of one column in one piece.
    fn one_piece(rows: u32, body: Body, codec: ByteCodec, raw_bytes: usize, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES + HEAD_BYTES + PIECE_BYTES];
        put_head(&mut out, rows as usize, 1, 0);
        let (offset, span) = (HEAD_BYTES + PIECE_BYTES, Span { skip: 0, rows: rows as usize });
        let piece = Piece { body, codec, continues: false, span, raw_bytes, offset, length: bytes.len() };
        piece.put(0, &mut 0, &mut out);
        [&out[HEADER_BYTES..], bytes].concat()
    }

    #[test]
    fn strings_behind_offsets_read_back_and_wrong_offsets_are_errors() {
        let column = Arc::new(Schema::new(vec![Field::new("c", DataType::Utf8View, true)]));
        let read = |offsets: [i32; 4], texts: &[u8]| {
            let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).chain(texts.to_vec()).collect();
            let payload = one_piece(3, Body::of(Form::Offsets), ByteCodec::None, bytes.len(), &bytes);
            exercise_chunk(&payload, &column, &mut Incoming::default())
        };
        let texts = "ein längerer Text, nichts".as_bytes();
        let end = texts.len() as i32;
        let rows = read([0, 18, 18, end], texts).unwrap();
        assert_eq!(rows.column(0).as_string_view().value(0), "ein längerer Text");
        for (wrong, texts) in [
            ([0, 18, 17, end], texts),
            ([0, 18, 18, end + 1], texts),
            ([0, 18, 18, end - 1], texts),
            ([1, 18, 18, end], texts),
            ([0, -1, 18, end], texts),
            ([0, i32::MAX, i32::MIN, end], texts),
            // Within a character of two bytes, and after bytes that are not UTF-8.
            ([0, 6, 18, end], texts),
            ([0, 1, 2, 3], &[b'a', 0xFF, b'b'][..]),
        ] {
            assert!(read(wrong, texts).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn garbage_of_every_kind_is_an_error() {
        let mut random = 7u64;
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..round % 97)
                .map(|_| {
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // Small numbers get further.
                    if random >> 62 == 0 { (random >> 40) as u8 } else { (random >> 40) as u8 % 3 }
                })
                .collect();
            exercise(&bytes);
        }
    }

    #[test]
    fn bombs_are_refused() {
        let rows = 65_536u32;
        let column = Arc::new(Schema::new(vec![Field::new("c", DataType::Utf8View, true)]));
        let zeros = vec![0u8; 60 << 20];
        let bomb = zstd::bulk::compress(&zeros, 1).unwrap();
        let body = Body { width: 1, ..Body::of(Form::Lengths) };
        let bytes = one_piece(rows, body, ByteCodec::Zstd, zeros.len(), &bomb);
        let error = exercise_chunk(&bytes, &column, &mut Incoming::default()).unwrap_err();
        assert!(error.to_string().contains("are allowed"), "{error}");
        // The same with a length that is allowed but wrong.
        let bytes = one_piece(rows, body, ByteCodec::Zstd, 1 << 20, &bomb);
        assert!(exercise_chunk(&bytes, &column, &mut Incoming::default()).is_err());
    }
}
