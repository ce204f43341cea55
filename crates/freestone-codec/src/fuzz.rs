//! Entry points for fuzzing: no input may cause a panic.

use crate::*;

/// Parses `data` as a chunk of every kind, and decodes and filters the valid ones. The first bytes choose the shared
/// state.
#[doc(hidden)]
pub fn fuzz_chunk(data: &[u8]) {
    let Some((select, data)) = data.split_first() else { return };
    for kind in [Kind::Int, Kind::Wide, Kind::F64, Kind::F32, Kind::Bytes] {
        exercise(data, kind, shared(kind, *select).as_ref());
    }
    for (kind, transform) in [
        (Kind::Int, Transform::Dictionary),
        (Kind::Bytes, Transform::Dictionary),
        (Kind::Bytes, Transform::Fsst),
        (Kind::Bytes, Transform::BlockDictionary),
    ] {
        if let Ok(shared) = Shared::parse(data, kind, transform) {
            _ = shared.to_bytes();
            _ = shared.fsst_compress(b"freestone", &mut Vec::new());
            _ = shared.fsst_decompress(data, &mut Vec::new());
        }
    }
}

/// The shared state with which a chunk may be read.
fn shared(kind: Kind, select: u8) -> Option<Shared> {
    match (select % 3, kind) {
        (0, _) => None,
        (1, Kind::Bytes) => Shared::bytes_dictionary(&[b"a", b"a long entry of it", b"b"]).ok(),
        (_, Kind::Bytes) => Some(Shared::train_fsst(&vec![b"abababab", b"ababcd"])),
        _ => Shared::int_dictionary(vec![-5, 7, 1 << 40], kind).ok(),
    }
}

/// Decodes and filters a chunk, if `data` is one. The number of rows is limited, since corrupt bytes may claim millions
/// of equal rows.
#[doc(hidden)]
pub fn exercise(data: &[u8], kind: Kind, shared: Option<&Shared>) {
    let Ok(chunk) = Chunk::parse(data, kind, shared) else { return };
    let rows = chunk.rows().min(5000);
    let scratch = &mut Scratch::default();
    let last = [0, rows as u32 / 2, rows as u32 - 1];
    let mut bitmap = vec![0u64; rows.div_ceil(64)];
    for selection in
        [Rows::Range { start: 0, len: rows }, Rows::Range { start: rows / 3, len: rows / 2 }, Rows::Positions(&last)]
    {
        chunk.validity(selection, &mut bitmap, 0);
        _ = chunk.ints::<i32>(selection, &mut Vec::new(), scratch);
        _ = chunk.ints::<i128>(selection, &mut Vec::new(), scratch);
        _ = chunk.f64s(selection, &mut Vec::new(), scratch);
        _ = chunk.f32s(selection, &mut Vec::new(), scratch);
        _ = chunk.codes(selection, &mut Vec::new());
        _ = chunk.bytes(selection, &mut Views::default(), scratch, 1);
    }
    let predicates = [
        Predicate::IsNull,
        Predicate::Int(IntPredicate::Range { low: -3, high: 1 << 30 }),
        Predicate::Int(IntPredicate::NotIn(vec![1, 5, 70])),
        Predicate::Bytes(BytesPredicate::Prefix(b"a".to_vec())),
        Predicate::Bytes(BytesPredicate::In(vec![b"ab".to_vec(), b"b".to_vec()])),
        Predicate::Bytes(BytesPredicate::Range {
            low: Some(BytesBound { value: b"aa".to_vec(), inclusive: true }),
            high: None,
        }),
    ];
    for predicate in &predicates {
        let mut selection = vec![u64::MAX; rows.div_ceil(64)];
        _ = chunk.filter(predicate, 0, rows, &mut selection, scratch, 1);
    }
}
