//! Corrupt bytes give errors or wrong values, but never a panic or a read out of bounds.

use freestone_codec::*;
use proptest::prelude::*;

/// One small chunk of every plan that can store a few values of a kind.
fn chunks() -> Vec<(Kind, Option<Shared>, Vec<u8>)> {
    let ints: Vec<i64> = (0..1500).map(|i| i * i % 91 + i).collect::<Vec<_>>();
    let mut sorted = ints.clone();
    sorted.sort_unstable();
    let wide: Vec<i128> = ints.iter().map(|v| i128::from(*v) << 66).collect();
    let f64s: Vec<f64> = ints.iter().map(|v| if v % 91 == 3 { f64::NAN } else { *v as f64 / 100.0 }).collect();
    let f32s: Vec<f32> = ints.iter().map(|v| *v as f32 / 10.0).collect();
    let strings: Vec<String> = ints.iter().map(|v| format!("string number {} of it", v % 40)).collect();
    let offsets: Vec<u32> = std::iter::once(0)
        .chain(strings.iter().scan(0, |end, s| {
            *end += s.len() as u32;
            Some(*end)
        }))
        .collect();
    let data = strings.concat().into_bytes();
    let all = [
        Values::Int(&ints),
        Values::Int(&sorted),
        Values::Wide(&wide),
        Values::F64(&f64s),
        Values::F32(&f32s),
        Values::Bytes(BytesSlice { offsets: &offsets, data: &data }),
    ];
    let validity: Vec<u64> = (0..24).map(|i| u64::MAX << (i % 3)).collect();
    let mut chunks = Vec::new();
    for values in all {
        for plan in plans(values.kind()) {
            let options =
                ChooseOptions { chunk_bytes: 60_000, bytes_per_ns: 0.1, allow_block: true, wanted: Some(plan) };
            let Ok(choice) = choose(&values, Some(&validity), &options) else { continue };
            let Ok(column) = prepare(values, Some(&validity), plan, choice.shared.as_ref()) else { continue };
            let mut chunk = Vec::new();
            encode(&column, 0, values.len(), &mut chunk).unwrap();
            chunks.push((values.kind(), choice.shared, chunk));
        }
    }
    chunks
}

#[test]
fn flipped_bytes_and_cut_ends() {
    for (kind, shared, chunk) in chunks() {
        exercise(&chunk, kind, shared.as_ref());
        // Every byte of the header and directories, and some of the packed data.
        let places = (0..chunk.len()).filter(|at| *at < 400 || at % 61 == 0 || *at + 40 > chunk.len());
        for at in places {
            for flip in [0x01, 0x80, 0xFF] {
                let mut bytes = chunk.clone();
                bytes[at] ^= flip;
                exercise(&bytes, kind, shared.as_ref());
            }
        }
        for len in (0..chunk.len()).filter(|n| *n < 100 || n % 509 == 0) {
            exercise(&chunk[..len], kind, shared.as_ref());
        }
    }
}

#[test]
fn corrupt_shared_states() {
    for (kind, shared, _) in chunks() {
        let Some(shared) = shared else { continue };
        let bytes = shared.to_bytes();
        for at in (0..bytes.len()).filter(|at| *at < 300 || at % 31 == 0) {
            for flip in [0x01, 0x80, 0xFF] {
                let mut bytes = bytes.clone();
                bytes[at] ^= flip;
                if let Ok(shared) = Shared::parse(&bytes, kind, shared.transform()) {
                    _ = shared.fsst_compress(b"string number 7 of it", &mut Vec::new());
                    _ = shared.fsst_decompress(&[0, 1, 2, 255], &mut Vec::new());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn random_bytes(mut data in proptest::collection::vec(any::<u8>(), 0..600), encoding in 0u8..11, rows in 0u32..3000) {
        // Mostly after the header, so that bodies are reached.
        if data.len() > 9 {
            (data[1], data[2], data[4]) = (encoding, 0, data[4]);
            data[3] %= 40;
            data[5..9].copy_from_slice(&rows.to_le_bytes());
        }
        fuzz_chunk(&data);
    }
}
