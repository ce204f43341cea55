//! The size of a block of output tuples (section 5.3): the same scans with blocks of 25 to 400 tuples.

use super::{COMPRESSED, Stores};
use crate::error::Result;
use crate::experiments::holloway::Generator;
use crate::experiments::scanner::{Point, Query};
use freestone_report::findings::{Check, Lines, Part, Series, TIE, significant};

/// The tuples of a block, in the middle those of the paper.
const SIZES: [usize; 5] = [25, 50, 100, 200, 400];
const PAPER: usize = 100;
const COLUMNS: usize = 5;
const SELECTIVITY: f64 = 0.5;

/// Scans of Narrow-E, half of the columns of half of the rows, by the size of a block. Afterwards blocks have the size that they
/// had before.
pub(super) fn search(stores: &mut Stores, columns: usize, queries: usize) -> Result<(Part, Check)> {
    let before = stores.settings.block_rows;
    let mut generator = Generator::new(PAPER as u64);
    let queries: Vec<Query> =
        (0..queries).map(|_| generator.query(&[], columns, COLUMNS.min(columns), 1, SELECTIVITY)).collect();
    let mut points = vec![];
    for size in SIZES {
        stores.settings.block_rows = size;
        points.push(stores.measure(&COMPRESSED, &queries)?);
    }
    stores.settings.block_rows = before;
    Ok((chart(&points), claim(&points)))
}

fn hot(points: &[Vec<Point>], design: usize) -> Vec<f64> {
    points.iter().filter_map(|of_size| of_size.get(design)).map(|point| point.hot_ms).collect()
}

fn chart(points: &[Vec<Point>]) -> Part {
    Part::Lines(Lines {
        title: "Narrow-E, half of the columns of 50 % of the rows, hot, by the size of a block (5.3)".into(),
        x_label: "tuples of a block".into(),
        y_label: "ms".into(),
        x: SIZES.map(|size| size as f64).to_vec(),
        series: COMPRESSED.iter().enumerate().map(|(at, design)| Series::new(*design, hot(points, at))).collect(),
        mark: None,
    })
}

fn claim(points: &[Vec<Point>]) -> Check {
    let of = |design: usize| {
        let times = hot(points, design);
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        times.into_iter().map(|time| time / best).collect::<Vec<_>>()
    };
    let at = SIZES.iter().position(|size| *size == PAPER).unwrap_or(0);
    let ratios = [of(0), of(1)];
    let holds = ratios.iter().all(|ratios| ratios.get(at).is_some_and(|ratio| *ratio <= 1.0 + TIE));
    let text = |ratios: &[f64]| {
        let of_sizes = SIZES.iter().zip(ratios).map(|(size, ratio)| format!("{size}: {}", significant(*ratio)));
        of_sizes.collect::<Vec<_>>().join(", ")
    };
    Check::new(
        "blocks of 100 tuples give the best performance (within a tenth of the best)",
        holds,
        format!("times the best, rows {}; columns {}", text(&ratios[0]), text(&ratios[1])),
    )
    .claimed("Holloway and DeWitt 2008, 5.3")
    .or_because("a nearest cache of today holds larger blocks, too, whose cost per block is spread over more tuples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_size_is_judged_for_rows_and_columns() {
        let point = |hot_ms: f64| Point { hot_ms, ..Point::default() };
        let of = |times: [[f64; 2]; 5]| claim(&times.map(|of_size| of_size.map(point).to_vec()));
        assert!(of([[3.0, 4.0], [2.1, 3.0], [2.0, 3.1], [2.0, 3.0], [2.5, 3.3]]).holds);
        let columns_differ = of([[3.0, 4.0], [2.1, 3.0], [2.0, 3.9], [2.0, 3.0], [2.5, 3.3]]);
        assert!(columns_differ.is_refuted() && columns_differ.detail.contains("100: 1.30"), "{columns_differ:?}");
    }
}
