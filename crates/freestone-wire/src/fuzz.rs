//! Entry points for fuzzing: whatever the bytes are, every decoder gives a value or an error.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use freestone_store::plain::Strings;

use crate::auth::{ServerScram, UNBOUND, Verifier, user_of};
use crate::chunk::decode;
use crate::frame::{HEADER_BYTES, Header, Message};
use crate::incoming::Incoming;
use crate::message::*;
use crate::types::schema_of;

/// The largest chunk that these decoders believe in.
const CHUNK_BYTES_MAX: usize = 1 << 16;

/// A column of every type that has forms of its own, and one that has not.
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

/// Reads the bytes as everything that a peer may send.
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
    _ = exercise_chunk(bytes, &schema(), &mut incoming);
    if let Ok(text) = std::str::from_utf8(bytes) {
        _ = text.parse::<Verifier>();
        _ = crate::address::Address::parse(text);
        _ = user_of(text);
        let server = ServerScram::challenge(text, &[UNBOUND], "nobody", None, &[0; 32]);
        _ = server.map(|(server, _)| server.check(text, &[]));
    }
}

fn exercise_chunk(bytes: &[u8], schema: &SchemaRef, incoming: &mut Incoming) -> crate::Result<RecordBatch> {
    let chunk = incoming.receive(Buffer::from(bytes), schema, CHUNK_BYTES_MAX)?;
    let [views, plain] = [Strings::Views, Strings::Plain]
        .map(|strings| decode(&chunk, schema, strings, &incoming.states, CHUNK_BYTES_MAX));
    if let (Ok(views), Ok(plain)) = (&views, &plain) {
        let laid_out = Strings::Plain.batch(views.clone());
        let strings =
            [8, 9, 10].map(|at| laid_out.as_ref().is_ok_and(|laid_out| laid_out.column(at) == plain.column(at)));
        assert_eq!((views.num_rows(), strings), (plain.num_rows(), [true; 3]), "the layouts hold the same strings");
    }
    views.and_then(|views| plain.map(|_| views))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::chunk::{Job, Recipe, RowLimit};
    use crate::column::{ByteCodec, Choice, Form, Plan};
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
        let recipe = Recipe { choice: Choice { plan, codec }, ..Recipe::default() };
        let recipes = Arc::new(vec![recipe; batch.num_columns()]);
        let rows = 0..batch.num_rows();
        let batch = Arc::new(Batch::from(batch.clone()));
        let (chunk_bytes_max, row) = (CHUNK_BYTES_MAX, RowLimit::of_server(CHUNK_BYTES_MAX));
        let job = Job { batch, rows, first_row: 0, recipes, may_continue: false, chunk_bytes_max, row };
        job.encode(&Vec::new).unwrap().remove(0).remove(0).split_off(HEADER_BYTES)
    }

    fn plans() -> Vec<Plan> {
        let chunk = |encoding| Plan::Chunk { plan: ColumnPlan { transform: Transform::None, encoding }, shared: None };
        let strings = |form, sentinel| Plan::Strings { form, sentinel };
        vec![
            Plan::Plain { sentinel: false },
            Plan::Plain { sentinel: true },
            strings(Form::Fixed, false),
            strings(Form::Fixed, true),
            strings(Form::NulTerminated, false),
            strings(Form::NulTerminated, true),
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
                let read = exercise_chunk(&bytes, &schema(), &mut Incoming::default());
                assert_eq!(read.unwrap_or_else(|e| panic!("{plan:?} {codec:?}: {e}")), batch, "{plan:?} {codec:?}");
                for _ in 0..300 {
                    let mut damaged = bytes.clone();
                    let place = if next(2) == 0 { next(16 + 13 * 32) } else { next(bytes.len()) };
                    damaged[place] = next(256) as u8;
                    damaged.truncate(bytes.len() - next(4) / 3 * next(bytes.len()));
                    _ = exercise_chunk(&damaged, &schema(), &mut Incoming::default());
                }
            }
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
        let mut bytes = [rows.to_le_bytes(), 1u32.to_le_bytes(), [0; 4], [0; 4]].concat();
        bytes.extend([0, 0, Form::Lengths as u8, ByteCodec::Zstd as u8, 1, 0, 1, 0]);
        for number in [rows, 0, 0, zeros.len() as u32, 48, bomb.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(&bomb);
        let error = exercise_chunk(&bytes, &column, &mut Incoming::default()).unwrap_err();
        assert!(error.to_string().contains("are allowed"), "{error}");
        // The same with a length that is allowed and not true.
        bytes[36..40].copy_from_slice(&(1u32 << 20).to_le_bytes());
        assert!(exercise_chunk(&bytes, &column, &mut Incoming::default()).is_err());
    }
}
