//! Every encoding × kind × NULLs × ranges × positions × predicates, compared with a simple model: a
//! `Vec<Option<Value>>`.

use freestone_codec::*;
use proptest::prelude::*;

/// A column of the model.
#[derive(Debug, Clone)]
enum Column {
    Int(Vec<i64>),
    Wide(Vec<i128>),
    F64(Vec<f64>),
    F32(Vec<f32>),
    Bytes { offsets: Vec<u32>, data: Vec<u8> },
}

impl Column {
    fn strings(strings: &[Vec<u8>]) -> Self {
        let mut offsets = vec![3];
        let mut data = b"xyz".to_vec();
        for s in strings {
            data.extend_from_slice(s);
            offsets.push(data.len() as u32);
        }
        Column::Bytes { offsets, data }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Column::Int(v) => Values::Int(v),
            Column::Wide(v) => Values::Wide(v),
            Column::F64(v) => Values::F64(v),
            Column::F32(v) => Values::F32(v),
            Column::Bytes { offsets, data } => Values::Bytes(BytesSlice { offsets, data }),
        }
    }

    fn key(&self, row: usize) -> i128 {
        match self {
            Column::Int(v) => v[row].into(),
            Column::Wide(v) => v[row],
            Column::F64(v) => f64_key(v[row]).into(),
            Column::F32(v) => f32_key(v[row]).into(),
            Column::Bytes { .. } => unreachable!("strings have no keys"),
        }
    }

    fn passes(&self, row: usize, valid: bool, predicate: &Predicate) -> bool {
        match (predicate, self) {
            (Predicate::IsNull, _) => !valid,
            (Predicate::IsNotNull, _) => valid,
            (Predicate::Bytes(p), Column::Bytes { offsets, data }) => {
                valid && p.test(BytesSlice { offsets, data }.get(row))
            }
            (Predicate::Int(p), _) => valid && p.test(self.key(row)),
            _ => unreachable!("predicates are made for the kind"),
        }
    }

    /// Predicates around the column's own values.
    fn predicates(&self) -> Vec<Predicate> {
        let rows = self.values().len();
        let mut predicates = vec![Predicate::IsNull, Predicate::IsNotNull];
        if let Column::Bytes { offsets, data } = self {
            let value = |i: usize| BytesSlice { offsets, data }.get(i * 7919 % rows).to_vec();
            let mut list: Vec<Vec<u8>> = (0..5).map(value).collect();
            list.push(b"not in it, surely".to_vec());
            list.sort();
            list.dedup();
            let prefix = value(1)[..value(1).len().min(3)].to_vec();
            let bound = |i, inclusive| Some(BytesBound { value: value(i), inclusive });
            predicates.extend(
                [
                    BytesPredicate::In(vec![value(1)]),
                    BytesPredicate::In(list.clone()),
                    BytesPredicate::NotIn(list[..2.min(list.len())].to_vec()),
                    BytesPredicate::NotIn(list),
                    BytesPredicate::NotEqual(value(2)),
                    BytesPredicate::NotEqual(b"absent".to_vec()),
                    BytesPredicate::Prefix(prefix.clone()),
                    BytesPredicate::NotPrefix(prefix),
                    BytesPredicate::Range { low: bound(3, true), high: bound(4, false) },
                    BytesPredicate::Range { low: bound(3, false), high: None },
                    BytesPredicate::Range { low: None, high: bound(2, true) },
                ]
                .map(Predicate::Bytes),
            );
        } else {
            let value = |i: usize| self.key(i * 7919 % rows);
            let mut list: Vec<i128> = (0..20).map(value).collect();
            list.push(value(1).saturating_add(1));
            list.sort();
            list.dedup();
            let (low, high) = (value(3).min(value(4)), value(3).max(value(4)));
            predicates.extend(
                [
                    IntPredicate::Range { low, high },
                    IntPredicate::Range { low: i128::MIN, high },
                    IntPredicate::Range { low, high: i128::MAX },
                    IntPredicate::Range { low: 5, high: 4 },
                    IntPredicate::NotEqual(value(2)),
                    IntPredicate::NotEqual(i128::MAX / 3),
                    IntPredicate::In(vec![value(1)]),
                    IntPredicate::In(list[..3.min(list.len())].to_vec()),
                    IntPredicate::In(list.clone()),
                    IntPredicate::NotIn(list),
                ]
                .map(Predicate::Int),
            );
        }
        predicates
    }
}

fn bitmap(valid: &[bool]) -> Vec<u64> {
    let mut words = vec![0u64; valid.len().div_ceil(64)];
    valid.iter().enumerate().filter(|(_, v)| **v).for_each(|(i, _)| words[i / 64] |= 1 << (i % 64));
    words
}

fn bit(words: &[u64], i: usize) -> bool {
    words[i / 64] >> (i % 64) & 1 == 1
}

fn view<'v>(views: &'v Views, i: usize, short: &'v mut [u8; 16]) -> &'v [u8] {
    *short = views.views[i].to_le_bytes();
    let word = |at: usize| u32::from_le_bytes(short[at..at + 4].try_into().unwrap()) as usize;
    let len = word(0);
    if len <= 12 {
        return &short[4..4 + len];
    }
    let (buffer, offset) = (word(8), word(12));
    let data = views.buffers.get(buffer).map_or(&views.open, |b| b);
    assert_eq!(data[offset..offset + 4], short[4..8], "prefix");
    &data[offset..offset + len]
}

/// Checks the decoded `rows` (row numbers of the column) of a chunk, requested as `selection`.
fn check_rows(
    column: &Column,
    valid: &[bool],
    chunk: &Chunk<'_>,
    selection: Rows<'_>,
    rows: &[usize],
    scratch: &mut Scratch,
    key: u64,
) {
    let mut words = vec![0u64; (rows.len() + 5).div_ceil(64)];
    chunk.validity(selection, &mut words, 5);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(bit(&words, i + 5), valid[*row], "validity of row {row}");
    }
    let live = || rows.iter().enumerate().filter(|(_, row)| valid[**row]);
    match column {
        Column::Int(v) => {
            let (mut wide, mut narrow, mut full) = (vec![7i64], Vec::<u8>::new(), Vec::<i128>::new());
            chunk.ints(selection, &mut wide, scratch).unwrap();
            chunk.ints(selection, &mut narrow, scratch).unwrap();
            chunk.ints(selection, &mut full, scratch).unwrap();
            assert_eq!(wide.len(), rows.len() + 1);
            for (i, row) in live() {
                assert_eq!(wide[i + 1], v[*row], "row {row}");
                assert_eq!(narrow[i], v[*row] as u8);
                assert_eq!(full[i], i128::from(v[*row]));
            }
        }
        Column::Wide(v) => {
            let (mut full, mut narrow) = (Vec::<i128>::new(), Vec::<i32>::new());
            chunk.ints(selection, &mut full, scratch).unwrap();
            chunk.ints(selection, &mut narrow, scratch).unwrap();
            assert_eq!(full.len(), rows.len());
            live().for_each(|(i, row)| assert_eq!((full[i], narrow[i]), (v[*row], v[*row] as i32)));
        }
        Column::F64(v) => {
            let mut out = Vec::new();
            chunk.f64s(selection, &mut out, scratch).unwrap();
            assert_eq!(out.len(), rows.len());
            live().for_each(|(i, row)| assert_eq!(out[i].to_bits(), v[*row].to_bits(), "row {row}"));
        }
        Column::F32(v) => {
            let (mut out, mut wide) = (Vec::new(), Vec::new());
            chunk.f32s(selection, &mut out, scratch).unwrap();
            chunk.f64s(selection, &mut wide, scratch).unwrap();
            assert_eq!((out.len(), wide.len()), (rows.len(), rows.len()));
            live().for_each(|(i, row)| assert_eq!(out[i].to_bits(), v[*row].to_bits(), "row {row}"));
        }
        Column::Bytes { offsets, data } => {
            let mut out = Views::default();
            out.push(b"something long before it");
            out.seal();
            out.push(b"and something in the open buffer");
            chunk.bytes(selection, &mut out, scratch, key).unwrap();
            assert_eq!(out.len(), rows.len() + 2);
            let mut short = [0; 16];
            for (i, row) in live() {
                assert_eq!(view(&out, i + 2, &mut short), BytesSlice { offsets, data }.get(*row), "row {row}");
            }
        }
    }
}

/// Stores the column under a plan in pages of `budget` bytes, and checks all operations on each.
fn check(column: &Column, valid: &[bool], plan: ColumnPlan, budget: usize) {
    let rows = valid.len();
    let words = bitmap(valid);
    let validity = valid.contains(&false).then_some(&words[..]);
    let options = ChooseOptions { chunk_bytes: budget, bytes_per_ns: 0.05, allow_block: true, wanted: Some(plan) };
    let values = column.values();
    let kind = values.kind();
    let Ok(choice) = choose(&values, validity, &options) else {
        assert!(
            !matches!(plan.transform, Transform::None | Transform::Dictionary | Transform::Fsst),
            "{plan:?} for {kind:?}"
        );
        return;
    };
    let prepared = match prepare(values, validity, plan, choice.shared.as_ref()) {
        Ok(prepared) => prepared,
        Err(error) => {
            assert!(matches!(plan.encoding, Encoding::DeltaLz | Encoding::Constant), "{plan:?}: {error}");
            return;
        }
    };
    let shared = choice.shared.as_ref().map(|s| Shared::parse(&s.to_bytes(), kind, s.transform()).unwrap());
    let predicates = column.predicates();
    let (mut start, mut key) = (0, 0);
    let mut scratch = Scratch::default();
    let mut chunk = Vec::new();
    while start < rows {
        let n = fit(&prepared, start, rows - start, budget);
        if n == 0 {
            assert!(kind == Kind::Bytes || budget < 400, "one value does not fit {budget} bytes");
            start += 1;
            continue;
        }
        chunk.clear();
        encode(&prepared, start, n, &mut chunk).unwrap();
        assert!(chunk.len() <= budget, "{plan:?}: {n} rows take {} of {budget} bytes", chunk.len());
        chunk.extend_from_slice(b"what follows is ignored");
        key += 1;
        check_chunk(column, valid, &chunk, shared.as_ref(), start, n, &predicates, &mut scratch, key);
        start += n;
    }
}

#[allow(clippy::too_many_arguments)]
fn check_chunk(
    column: &Column,
    valid: &[bool],
    bytes: &[u8],
    shared: Option<&Shared>,
    start: usize,
    n: usize,
    predicates: &[Predicate],
    scratch: &mut Scratch,
    key: u64,
) {
    let chunk = Chunk::parse(bytes, column.values().kind(), shared).unwrap();
    assert_eq!(chunk.rows(), n);
    assert_eq!(chunk.has_nulls(), valid[start..start + n].contains(&false));
    for (from, len) in [(0, n), (n / 3, n - n / 3), (n / 2, n.min(70) / 2), (n, 0)] {
        let rows: Vec<usize> = (start + from..start + from + len).collect();
        check_rows(column, valid, &chunk, Rows::Range { start: from, len }, &rows, scratch, key);
        for predicate in predicates {
            let mut selection: Vec<u64> = (0..len.div_ceil(64) + 1).map(|i| !(0x1111 << (i % 7))).collect();
            let before = selection.clone();
            chunk.filter(predicate, from, len, &mut selection, scratch, key).unwrap();
            for i in 0..selection.len() * 64 {
                let expected = bit(&before, i)
                    && (i >= len || column.passes(start + from + i, valid[start + from + i], predicate));
                assert_eq!(bit(&selection, i), expected, "{predicate:?} row {i} from {from} ({:?})", chunk.encoding());
            }
        }
    }
    for step in [1usize, 3, 97] {
        let positions: Vec<u32> = (0..n as u32).skip(n % step).step_by(step).collect();
        let rows: Vec<usize> = positions.iter().map(|p| start + *p as usize).collect();
        check_rows(column, valid, &chunk, Rows::Positions(&positions), &rows, scratch, key);
    }
    assert!(chunk.ints::<i64>(Rows::Range { start: 0, len: n + 1 }, &mut Vec::new(), scratch).is_err());
    assert!(chunk.validate_positions_error(scratch));
}

trait PositionsError {
    fn validate_positions_error(&self, scratch: &mut Scratch) -> bool;
}

impl PositionsError for Chunk<'_> {
    fn validate_positions_error(&self, scratch: &mut Scratch) -> bool {
        let past = [self.rows() as u32];
        self.bytes(Rows::Positions(&past), &mut Views::default(), scratch, 0).is_err()
            && self.ints::<i64>(Rows::Positions(&past), &mut Vec::new(), scratch).is_err()
    }
}

fn check_all(column: &Column, valid: &[bool], budget: usize) {
    for plan in plans(column.values().kind()) {
        check(column, valid, plan, budget);
    }
}

/// Values by a pattern, since the distribution of a column matters more than its single values.
fn ints(pattern: u8, rows: usize, seed: u64) -> Vec<i64> {
    let mut state = seed | 1;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state.rotate_left(31) as i64
    };
    let mut last = random() >> 8;
    (0..rows)
        .map(|i| match pattern % 9 {
            0 => random(),
            1 => random() & 0xFF,
            2 => [i64::MIN, i64::MAX, 0, -1][random() as usize & 3],
            3 => (i as i64 / 37) * 3 - 20,
            4 => {
                last += random() & 0x3F;
                last
            }
            5 => seed as i64,
            6 => (random() & 7) * 1_000_000_007,
            7 => -(i as i64) * 100 + (random() & 15),
            _ => {
                if i % 301 == 7 {
                    random()
                } else {
                    42
                }
            }
        })
        .collect()
}

fn words(pattern: u8, rows: usize, seed: u64) -> Vec<Vec<u8>> {
    ints(1, rows, seed)
        .iter()
        .enumerate()
        .map(|(i, x)| match pattern % 6 {
            0 => Vec::new(),
            1 => format!("{x}").into_bytes(),
            2 => format!("the quick brown fox {} jumps over {}", x % 16, i % 97).into_bytes(),
            3 => vec![*x as u8; (*x % 40) as usize],
            4 => [&b"MAIL"[..], b"SHIP", b"a rather long mode of shipping", b""][*x as usize % 4].to_vec(),
            _ => (0..*x % 25).map(|j| (x * 31 + j * 17 + seed as i64) as u8).collect(),
        })
        .collect()
}

fn nulls(pattern: u8, rows: usize, seed: u64) -> Vec<bool> {
    (0..rows)
        .map(|i| match pattern % 5 {
            0 | 1 => true,
            2 => !(i as u64 ^ seed).is_multiple_of(3),
            3 => i % 1100 > 800,
            _ => false,
        })
        .collect()
}

fn columns(kind: u8, pattern: u8, rows: usize, seed: u64) -> Column {
    let ints = ints(pattern, rows, seed);
    match kind % 5 {
        0 => Column::Int(ints),
        1 => Column::Wide(
            ints.iter().map(|v| i128::from(*v) * [1, 1 << 40, i128::from(i64::MAX)][seed as usize % 3]).collect(),
        ),
        2 => Column::F64(
            ints.iter()
                .map(|v| match seed % 4 {
                    0 => (*v as i32) as f64 / 100.0,
                    1 => f64::from_bits(*v as u64),
                    2 if v % 50 == 0 => {
                        [f64::NAN, -0.0, f64::INFINITY, f64::from_bits(0x7FF0_0000_0000_0001)][*v as usize & 3]
                    }
                    _ => (*v % 1000) as f64 * 0.5,
                })
                .collect(),
        ),
        3 => Column::F32(
            ints.iter()
                .map(|v| match seed % 3 {
                    0 => (*v as i16) as f32 / 10.0,
                    1 => f32::from_bits(*v as u32),
                    _ => (*v % 100) as f32 * 0.25,
                })
                .collect(),
        ),
        _ => Column::strings(&words(pattern, rows, seed)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn everything_round_trips(
        kind in 0u8..5, pattern in any::<u8>(), missing in any::<u8>(), seed in any::<u64>(),
        rows in prop_oneof![1usize..80, 1020usize..1030, 1usize..4000],
        budget in prop_oneof![300usize..600, 2000usize..9000, Just(32_000usize)],
    ) {
        check_all(&columns(kind, pattern, rows, seed), &nulls(missing, rows, seed), budget);
    }

    /// The chooser's own plan can always store the column.
    #[test]
    fn chosen_plans_round_trip(
        kind in 0u8..5, pattern in any::<u8>(), missing in any::<u8>(), seed in any::<u64>(), rows in 1usize..3000,
    ) {
        let column = columns(kind, pattern, rows, seed);
        let valid = nulls(missing, rows, seed);
        let words = bitmap(&valid);
        let validity = valid.contains(&false).then_some(&words[..]);
        let options = ChooseOptions { chunk_bytes: 8000, bytes_per_ns: 0.05, allow_block: true, wanted: None };
        let choice = choose(&column.values(), validity, &options).unwrap();
        prop_assert!(!choice.considered.is_empty());
        prop_assert_eq!(choice.considered[0].plan, choice.plan);
        prop_assert_eq!(choice.stats.nulls, valid.iter().filter(|v| !**v).count());
        check(&column, &valid, choice.plan, 8000);
    }
}

#[test]
fn extremes() {
    for rows in [1, 2, 1023, 1024, 1025] {
        let valid = vec![true; rows];
        for values in [vec![i64::MIN; rows], (0..rows).map(|i| [i64::MIN, i64::MAX][i % 2]).collect()] {
            check_all(&Column::Int(values), &valid, 32_000);
        }
        for wide in
            [[i128::MIN, i128::MAX], [i128::MAX - 1, i128::MAX], [i128::MIN, i128::MIN + 5], [i128::MAX - 2, i128::MAX]]
        {
            check_all(&Column::Wide((0..rows).map(|i| wide[i % 2]).collect()), &valid, 32_000);
        }
        check_all(&Column::strings(&vec![Vec::new(); rows]), &valid, 32_000);
        let floats = [f64::NAN, -f64::NAN, f64::MIN, f64::MAX, -0.0, 0.0, f64::MIN_POSITIVE / 2.0, 0.1, 1e17, 1e300];
        check_all(&Column::F64((0..rows).map(|i| floats[i % floats.len()]).collect()), &valid, 32_000);
    }
}

/// Pages are filled: `fit` must not stop before a row that still fits.
#[test]
fn fit_fills_pages() {
    let values = ints(1, 200_000, 9);
    for encoding in [Encoding::BitPack, Encoding::Plain, Encoding::Delta, Encoding::Rle] {
        let plan = ColumnPlan { transform: Transform::None, encoding };
        let prepared = prepare(Values::Int(&values), None, plan, None).unwrap();
        let n = fit(&prepared, 0, values.len(), 32_000);
        let mut chunk = Vec::new();
        encode(&prepared, 0, n, &mut chunk).unwrap();
        assert!(chunk.len() <= 32_000 && chunk.len() > 31_700, "{encoding:?}: {n} rows, {} bytes", chunk.len());
    }
}

/// In the order of another column, each thousand rows have few values, and a page has all of them. A dictionary saves
/// nothing then.
#[test]
fn a_dictionary_is_held_against_whole_pages() {
    let values: Vec<i64> = (0..400_000).map(|row: i64| row / 1333 % 100 + row * 7919 % 50 * 100).collect();
    let chosen = |chunk_bytes| {
        let options = ChooseOptions { chunk_bytes, bytes_per_ns: 0.05, allow_block: true, wanted: None };
        choose(&Values::Int(&values), None, &options).unwrap().plan.encoding
    };
    assert_eq!(chosen(500_000), Encoding::BitPack);
    assert_eq!(chosen(4_000), Encoding::Dictionary);
}

/// Entries of one, two, four and eight bytes, in numbers above the limit for reading them one at a time.
#[test]
fn dictionaries_of_all_sizes_of_entries() {
    let plan = ColumnPlan { transform: Transform::None, encoding: Encoding::Dictionary };
    for step in [1i64, 100, 10_000, 1 << 20, 1 << 50] {
        let values: Vec<i64> = (0..4000).map(|row| (row * 7 % 64 - 5) * step).collect();
        check(&Column::Int(values), &vec![true; 4000], plan, 32_000);
    }
}

#[test]
fn wrong_plans_name_the_right_ones() {
    let values = Values::Int(&[1, 2]);
    let wanted = Some(ColumnPlan { transform: Transform::None, encoding: Encoding::Alp });
    let options = ChooseOptions { chunk_bytes: 4000, bytes_per_ns: 0.1, allow_block: true, wanted };
    let error = choose(&values, None, &options).unwrap_err().to_string();
    assert!(error.contains("alp") && error.contains("bitpack"), "{error}");
}
