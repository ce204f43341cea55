//! How wide a tuple should be: rows and columns at half of the columns and 10 % of the rows, by the bytes of a stored tuple.

use super::super::scans::Measured;
use super::super::sweep::{Clock, Sweep};
use super::Generated;
use freestone_report::findings::{Cell, Check, Lines, Part, Series, Table, significant};

const PERCENT: f64 = 10.0;
/// The tuples' bytes that the paper recommends.
const GOOD_BYTES: f64 = 20.0;
const CLOCKS: [(Clock, &str); 3] =
    [(Clock::Hot, "in memory"), (Clock::Cold, "from this disk"), (Clock::PaperDisk, "70 MB/s, computed")];

/// One form of a table.
#[derive(Debug, Clone, PartialEq)]
struct Width {
    name: String,
    /// The bytes of a stored tuple.
    bytes: f64,
    /// The column store's time divided by the row store's, in the order of [`CLOCKS`].
    ratios: [f64; 3],
}

impl Width {
    fn of(sweep: &Sweep, suffix: &str, bytes: f64) -> Width {
        let half = sweep.columns() / 2;
        let at = sweep.plan.counts.iter().position(|count| *count == half).unwrap_or(0);
        let ratio = |clock: Clock| {
            let ms = |design: &str| {
                let times = sweep.times(PERCENT, &format!("{design}{suffix}"), clock);
                times.get(at).copied().unwrap_or(f64::NAN)
            };
            ms("column") / ms("row")
        };
        let name = format!("{}{}", sweep.plan.table.name(), suffix.replace(" plain", ", uncompressed"));
        Width { name, bytes, ratios: CLOCKS.map(|(clock, _)| ratio(clock)) }
    }
}

/// The verdicts, and a section with the figures. `bytes` has the bytes of a tuple of rows: compressed, and uncompressed.
pub(super) fn compare(measured: &Measured, bytes: impl Fn(Generated) -> [f64; 2]) -> (Vec<Check>, Vec<Part>) {
    // A tuple's width is compared among tables, of which all are needed.
    let Measured {
        narrow_e: Some(narrow_e),
        narrow_s: Some(narrow_s),
        wide_e: Some(wide_e),
        narrow_u: Some(narrow_u),
        ..
    } = measured
    else {
        return (vec![], vec![]);
    };
    let mut widths = vec![];
    for sweep in [narrow_s, narrow_e, narrow_u, wide_e] {
        let [compressed, plain] = bytes(sweep.plan.table);
        widths.push(Width::of(sweep, "", compressed));
        if sweep.plan.designs.contains(&"row plain") {
            widths.push(Width::of(sweep, " plain", plain));
        }
    }
    widths.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    (claims(&widths).into(), parts(&widths))
}

fn claims(widths: &[Width]) -> [Check; 2] {
    let place = "Holloway and DeWitt 2008, 1 and 7";
    let where_rows_lead = |clock: usize| -> Vec<&Width> { widths.iter().filter(|w| w.ratios[clock] > 1.0).collect() };
    let list = |widths: &[&Width]| match widths.is_empty() {
        true => "nowhere".to_owned(),
        false => {
            widths.iter().map(|w| format!("{} ({} bytes)", w.name, significant(w.bytes))).collect::<Vec<_>>().join(", ")
        }
    };
    let (hot, paper) = (where_rows_lead(0), where_rows_lead(2));
    let times = widths.iter().map(|w| format!("{} {}", significant(w.bytes), significant(w.ratios[0])));
    let times = times.collect::<Vec<_>>().join("; ");
    [
        Check::new(
            "10 % of the rows, half of the columns, limited by the processor: rows are faster only if tuples have fewer than 20 bytes",
            hot.iter().all(|width| width.bytes < GOOD_BYTES),
            format!("in memory, rows lead with {}", list(&hot)),
        )
        .claimed(place)
        .or_because(format!(
            "columns take these multiples of the rows' time in memory, by bytes of a tuple: {times}. A scan from memory does not wait \
             for a wide tuple's other bytes, so that the number of values decides, not their bytes"
        )),
        Check::new(
            "10 % of the rows, half of the columns, limited by the disk: columns are faster whatever the tuple's width",
            paper.is_empty(),
            format!("computed for 70 MB/s, rows lead with {}", list(&paper)),
        )
        .claimed(place)
        .or_because("of so narrow a tuple the disk brings the rest in less time than columns take to be stitched"),
    ]
}

fn parts(widths: &[Width]) -> Vec<Part> {
    let mut table = Table::new(
        "The column store's time divided by the row store's",
        1,
        &["table", "bytes of a tuple", CLOCKS[0].1, CLOCKS[1].1, CLOCKS[2].1],
    );
    for width in widths {
        let ratios = width.ratios.map(|ratio| Cell::from(significant(ratio)));
        table.push([Cell::from(width.name.clone()), significant(width.bytes).into()].into_iter().chain(ratios));
    }
    let series = CLOCKS.iter().enumerate();
    let series = series.map(|(at, (_, name))| Series::new(*name, widths.iter().map(|w| w.ratios[at]).collect()));
    let chart = Lines {
        title: "Columns' time divided by rows' time, 10 % of the rows, half of the columns".into(),
        x_label: "bytes of a stored tuple".into(),
        y_label: "columns ÷ rows".into(),
        x: widths.iter().map(|width| width.bytes).collect(),
        series: series.collect(),
        mark: Some((GOOD_BYTES, "20 bytes".into())),
    };
    let text = "Below 1, columns are faster. Every table in the forms that are measured, by the bytes of a tuple in pages of rows.";
    vec![Part::section("How wide a tuple should be (sections 1 and 7)", text), Part::Lines(chart), Part::Table(table)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_lead_with_narrow_tuples_only() {
        let width = |bytes: f64, ratios| Width { name: "t".into(), bytes, ratios };
        let [hot, disk] = claims(&[width(7.0, [1.5, 1.0, 0.5]), width(34.0, [0.9, 0.5, 0.4])]);
        assert!(hot.holds && disk.holds, "{hot:?} {disk:?}");
        let [hot, disk] = claims(&[width(17.0, [0.9, 1.0, 1.1]), width(34.0, [1.2, 0.5, 0.4])]);
        assert!(hot.is_refuted() && hot.detail.contains("34.0 bytes"), "{hot:?}");
        assert!(disk.is_refuted() && disk.detail.contains("17.0 bytes") && !disk.why.is_empty(), "{disk:?}");
    }
}
