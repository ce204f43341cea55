//! Values longer than a page.

use freestone_codec::*;

/// A value that no compression makes fit the budget: `fit` says so, and does not panic.
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
