//! Values longer than a page.

use freestone_codec::*;

/// A value that does not fit the budget under any compression: `fit` returns 0 and does not panic.
#[test]
fn a_value_that_does_not_fit_at_all() {
    let mut state = 7u64;
    let data: Vec<u8> = (0..120_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        })
        .collect();
    let offsets: Vec<u32> = (0..7).map(|i| i * 20_000).collect();
    let values = Values::Bytes(BytesSlice { offsets: &offsets, data: &data });
    for plan in plans(Kind::Bytes).into_iter().filter(|p| p.transform == Transform::None) {
        let Ok(column) = prepare(values, None, plan, None) else { continue };
        for (budget, fits) in [(4_000, false), (30_000, true)] {
            for rows in [1, 2, 6] {
                let found = fit(&column, 0, rows, budget);
                assert_eq!(found, usize::from(fits), "{plan:?} of {rows} rows into {budget} bytes");
            }
        }
    }
}

/// Strings of words, with few or many distinct ones, sorted or not. Zstandard is chosen only where it saves much,
/// because reading one row decodes a whole block.
#[test]
fn blocks_are_chosen_only_where_they_save_much() {
    let mut state = 11u64;
    let mut next = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let (mut chosen, mut close) = (0, 0);
    for (vocabulary, words, sorted) in
        (0..24).map(|case| ([20, 100, 700, 5000][case % 4], 2 + case / 8 * 3, case / 4 % 2))
    {
        let mut word = || (0..3 + next(8)).map(|_| char::from(b'a' + next(26) as u8)).chain([' ']).collect::<String>();
        let list: Vec<String> = (0..vocabulary).map(|_| word()).collect();
        let mut texts: Vec<String> =
            (0..20_000).map(|_| (0..words).map(|_| list[next(vocabulary)].as_str()).collect()).collect();
        if sorted == 1 {
            texts.sort();
        }
        let ends = texts.iter().scan(0, |end, text| {
            *end += text.len() as u32;
            Some(*end)
        });
        let (offsets, data): (Vec<u32>, _) = (std::iter::once(0).chain(ends).collect(), texts.concat().into_bytes());
        let values = Values::Bytes(BytesSlice { offsets: &offsets, data: &data });
        let options = ChooseOptions { chunk_bytes: 32_000, bytes_per_ns: 0.1, allow_block: true, wanted: None };
        let choice = choose(&values, None, &options).unwrap();
        let is_block = |plan: ColumnPlan| plan.encoding == Encoding::Block;
        let least = |block: bool| {
            let of_kind = choice.considered.iter().filter(|c| is_block(c.plan) == block);
            of_kind.map(|c| c.bytes_per_value).fold(f64::INFINITY, f64::min)
        };
        let (block, other) = (least(true), least(false));
        println!("{words} of {vocabulary} words: {block:.2} and {other:.2} bytes, {:?}", choice.plan);
        // The best plan comes first, but for the blocks. Codes of a dictionary are worth more than their size.
        let best = choice.considered.iter().find(|c| !is_block(c.plan)).expect("another plan");
        let has_codes = best.plan.transform == Transform::Dictionary;
        let pays = block <= 0.6 * other && (!has_codes || block <= 0.25 * best.bytes_per_value);
        assert!(is_block(choice.plan) == pays, "{block} and {other} bytes: {:?}", choice.plan);
        chosen += usize::from(is_block(choice.plan));
        close += usize::from((0.6..1.0).contains(&(block / other)));
    }
    assert!(chosen > 2 && close > 2, "{chosen} chosen, {close} close");
}
