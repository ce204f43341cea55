//! The paper's statements about its figures, compared with the measurements here.

use super::view::D4;
use super::{Case, Measured, PAPER};
use crate::experiments::scanner::ahead_up_to;
use freestone_report::findings::{Check, significant};

/// The positions of the layouts in a list of cases.
const SLOTTED: usize = 0;
const SUPER: usize = 1;
const COLUMN: usize = 2;

/// Every claim of sections 3 and 4.
pub(super) fn claims(measured: &Measured, d4: &D4, bandwidth: f64) -> Vec<Check> {
    let claims = ClaimChecks { measured, bandwidth };
    let mut checks = claims.columns_scanned();
    checks.extend(claims.widths());
    checks.extend(claims.abstraction());
    checks.extend(claims.model());
    checks.extend(query_7(d4));
    checks
}

struct ClaimChecks<'a> {
    measured: &'a Measured,
    bandwidth: f64,
}

fn cold(cases: &[Vec<Case>], layout: usize) -> Vec<f64> {
    cases.iter().map(|case| case[layout].measured.cold_ms).collect()
}

fn place(of: &str) -> String {
    format!("{PAPER}, {of}")
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| significant(*value)).collect::<Vec<_>>().join(", ")
}

impl ClaimChecks<'_> {
    /// Nanoseconds per tuple of processor time, and of disk time by its bytes, in each layout.
    fn costs(&self, cases: &[Case]) -> String {
        let cost = |case: &Case| {
            let rows = case.stored.rows() as f64;
            let disk = case.measured.bytes / self.bandwidth / rows * 1e3;
            let processor = case.measured.cpu_ms * 1e6 / rows;
            format!("{} {} and {}", case.stored.design, significant(processor), significant(disk))
        };
        let costs: Vec<String> = cases.iter().map(cost).collect();
        format!(
            "nanoseconds of processor and of disk a tuple, {} of {} columns: {}",
            cases[0].scanned,
            cases[0].stored.columns,
            costs.join("; ")
        )
    }

    fn columns_scanned(&self) -> Vec<Check> {
        let Measured { narrow, wide, .. } = self.measured;
        let [slotted, row, column] = [SLOTTED, SUPER, COLUMN].map(|layout| cold(narrow, layout));
        let least =
            slotted.iter().zip(row.iter().zip(&column)).map(|(slotted, (row, column))| slotted / row.max(*column));
        let least = least.fold(f64::INFINITY, f64::min);
        let counts: Vec<f64> = narrow.iter().map(|case| case[0].scanned as f64).collect();
        let crossing = ahead_up_to(&counts, &column, &row);
        let all = self.costs(&narrow[narrow.len() - 1]);
        let [wide_slotted, wide_row, wide_column] = [SLOTTED, SUPER, COLUMN].map(|layout| cold(wide, layout));
        let edge = |at: usize| wide_row[at].min(wide_slotted[at]) / wide_column[at].max(1e-9);
        let wide_counts: Vec<f64> = wide.iter().map(|case| case[0].scanned as f64).collect();
        let wide_crossing = ahead_up_to(&wide_counts, &wide_column, &wide_row);
        vec![
            Check::new(
                "4 columns: slotted rows take more than twice the time of super tuples and of columns",
                least > 2.0,
                format!("cold, at least {least:.2} times"),
            )
            .claimed(place("3.3.1, Figure 2a"))
            .or_because(format!(
                "the paper's slotted rows pay a call of the storage manager for each tuple, here one call copies a page's tuples: {all}"
            )),
            Check::new(
                "4 columns: columns are faster than super tuples when one is scanned, slower for two to four",
                (1.0..2.0).contains(&crossing),
                format!("cold, columns are ahead up to {crossing:.1} of 4"),
            )
            .claimed(place("3.3.1, Figure 2a"))
            .or_because(format!(
                "stitching is a call for each value there; here columns are copied by vectors of values, and super tuples field \
                 by field: {all}"
            )),
            Check::new(
                "32 columns: scanning one or eight, columns have a sizable edge (half as much again) over both row stores",
                edge(0).min(edge(1)) >= 1.5,
                format!("cold, {:.1} times as fast for one, {:.1} for eight", edge(0), edge(1)),
            )
            .claimed(place("3.3.1, Figure 2b"))
            .or_because(self.costs(&wide[1])),
            Check::new(
                "32 columns: scanning all, super tuples are faster than columns (the model puts the crossing at 9)",
                wide_crossing < 32.0,
                format!("cold, columns are ahead up to {wide_crossing:.1} of 32"),
            )
            .claimed(place("3.3.2, Figure 3"))
            .or_because(format!("decoding decides here, not stitching: {}", self.costs(&wide[wide.len() - 1]))),
        ]
    }

    fn widths(&self) -> Vec<Check> {
        let Measured { same_rows, same_fields, .. } = self.measured;
        let rows = cold(same_rows, SLOTTED);
        let growth = rows[rows.len() - 1] / rows[0].max(1e-9);
        let fastest = |cases: &[Vec<Case>]| {
            let super_is = |case: &&Vec<Case>| case.iter().all(|c| case[SUPER].measured.cold_ms <= c.measured.cold_ms);
            cases.iter().filter(super_is).count()
        };
        let [slotted, row, column] = [SLOTTED, SUPER, COLUMN].map(|layout| cold(same_fields, layout));
        let spread = |values: &[f64]| {
            values.iter().copied().fold(0.0, f64::max) / values.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9)
        };
        let fall = slotted[0] / slotted[slotted.len() - 1].max(1e-9);
        let widths: Vec<f64> = same_fields.iter().map(|case| case[0].stored.columns as f64).collect();
        let crossing = ahead_up_to(&widths, &column, &slotted);
        let both = format!("{}; {}", self.costs(&same_fields[0]), self.costs(&same_fields[same_fields.len() - 1]));
        let all = same_rows.len() + same_fields.len();
        vec![
            Check::new(
                "8 times as many columns a tuple: the scan of slotted rows takes less than twice as long",
                growth < 2.0,
                format!("cold, {growth:.1} times: {} ms for 4, 8, 16 and 32 columns", list(&rows)),
            )
            .claimed(place("3.3.2, Figure 3a"))
            .or_because(format!(
                "there a call a tuple, the same for any width, was nearly all; here the bytes decide: {}",
                self.costs(&same_rows[same_rows.len() - 1])
            )),
            Check::new(
                "scanning all columns, super tuples are the fastest layout at every width",
                fastest(same_rows) + fastest(same_fields) == all,
                format!("cold, in {} of {all} scans", fastest(same_rows) + fastest(same_fields)),
            )
            .claimed(place("3.3.2, Figure 3"))
            .or_because(both.clone()),
            Check::new(
                "as many fields in fewer, wider tuples: times of super tuples and of columns stay about the same (within a half)",
                spread(&row).max(spread(&column)) <= 1.5,
                format!("cold, super tuples {} ms, columns {} ms", list(&row), list(&column)),
            )
            .claimed(place("3.3.2, Figure 3b"))
            .or_because(both.clone()),
            Check::new(
                "as many fields in fewer, wider tuples: slotted rows take much less time (half)",
                fall >= 2.0,
                format!("cold, {} ms for 4, 8, 16 and 32 columns", list(&slotted)),
            )
            .claimed(place("3.3.2, Figure 3b"))
            .or_because(both.clone()),
            Check::new(
                "as many fields: slotted rows overtake columns at just below 16 columns (between 8 and 16)",
                (8.0..16.0).contains(&crossing),
                if crossing >= 32.0 {
                    "cold, columns are ahead at every width".to_owned()
                } else {
                    format!("cold, at {crossing:.1} columns")
                },
            )
            .claimed(place("3.3.2, Figure 3b"))
            .or_because(both),
        ]
    }

    fn abstraction(&self) -> Vec<Check> {
        let mut checks = vec![];
        for tables in self.measured.abstractions.chunks(3) {
            let [plain, middle, top] = tables else { continue };
            let columns = plain[0].stored.columns;
            // Without levels a table has two layouts, with two levels five.
            let rows = [&plain[0], &middle[2], &top[2]].map(|case| case.measured.cold_ms);
            let of_columns = [&plain[1], &middle[4], &top[4]].map(|case| case.measured.cold_ms);
            for (name, times) in [("super tuples", rows), ("columns", of_columns)] {
                let check = Check::new(
                    format!(
                        "{columns} columns, as many fields: the more is abstracted, the faster are {name} (5 % slack)"
                    ),
                    times[1] <= times[0] * 1.05 && times[2] <= times[1] * 1.05,
                    format!("cold, {} ms for {}", list(&times), names(tables)),
                );
                checks.push(check.claimed(place("3.4, Figure 4")).or_because(why_not_abstract(tables, name)));
            }
            let bytes = [&top[0], &top[2]].map(|case| case.bytes as f64 / 1e6);
            let check = Check::new(
                format!("{columns} columns: two levels of {} save disk space", top[0].stored.gen_name()),
                bytes[1] < bytes[0],
                format!("{} MB without, {} MB with them", significant(bytes[0]), significant(bytes[1])),
            );
            let why = "pages end with unused bytes, which are more than few rows save";
            checks.push(check.claimed(place("2.2")).or_because(why));
        }
        checks
    }

    fn model(&self) -> Vec<Check> {
        let Measured { sixteen, same_fields, narrow, forecast, .. } = self.measured;
        let [four, all] = [&sixteen[0][COLUMN], &sixteen[1][COLUMN]];
        let (work, disk) = (all.measured.hot_ms - four.measured.hot_ms, (all.disk_ms() - four.disk_ms()).max(0.0));
        let widest = &same_fields[same_fields.len() - 1];
        let bytes: Vec<f64> = widest.iter().map(|case| case.measured.bytes / 1e6).collect();
        let spread = bytes.iter().copied().fold(0.0, f64::max) / bytes.iter().copied().fold(f64::INFINITY, f64::min);
        let narrow = &narrow[narrow.len() - 1];
        let times = [SLOTTED, COLUMN].map(|layout| narrow[layout].measured.cold_ms);
        let widths: Vec<f64> = forecast.iter().map(|case| case[0].stored.columns as f64).collect();
        let crossing = ahead_up_to(&widths, &cold(forecast, COLUMN), &cold(forecast, SLOTTED));
        vec![
            Check::new(
                "16 columns: what columns take longer for 16 than for 4 is tuple reconstruction more than disk",
                work > disk,
                format!("{} ms more of processing, {} ms more of disk", significant(work), significant(disk)),
            )
            .claimed(place("4.2, Figures 9 and 10"))
            .or_because(self.costs(&sixteen[1])),
            Check::new(
                "32 columns: all layouts read about as many bytes (within a half)",
                spread <= 1.5,
                format!("{} MB from slotted rows, super tuples and columns", list(&bytes)),
            )
            .claimed(place("4.2, Figure 12"))
            .or_because("slotted tuples have 20 bytes in addition to their values"),
            Check::new(
                "4 columns: where a page's tuples cost one call, as here, slotted rows are faster than columns (the forecast, measured)",
                times[0] < times[1],
                format!("cold, slotted {} ms, columns {} ms", significant(times[0]), significant(times[1])),
            )
            .claimed(place("4.3.1, Figure 13"))
            .or_because(format!(
                "iteration costs next to nothing here, but so does stitching, and the bytes are left: {}",
                self.costs(narrow)
            )),
            Check::new(
                "a quarter of the columns of wide tables: slotted rows overtake columns between 256 and 512 columns (a forecast)",
                (256.0..512.0).contains(&crossing),
                if crossing >= 512.0 {
                    format!("cold, columns are ahead up to 512: {} against {} ms there",
                        significant(forecast[3][COLUMN].measured.cold_ms),
                        significant(forecast[3][SLOTTED].measured.cold_ms))
                } else {
                    format!("cold, at {crossing:.0} columns")
                },
            )
            .claimed(place("4.3.2, Figure 14"))
            .or_because(format!(
                "the forecast has a function call for each value of a column; {}",
                self.costs(&forecast[forecast.len() - 1])
            )),
        ]
    }
}

fn names(tables: &[Vec<Case>]) -> String {
    tables.iter().map(|cases| cases[0].stored.gen_name()).collect::<Vec<_>>().join(", ")
}

fn why_not_abstract(tables: &[Vec<Case>], name: &str) -> String {
    let parts = tables.iter().map(|cases| {
        let case = match (cases.len(), name) {
            (2, "columns") => &cases[1],
            (2, _) => &cases[0],
            (_, "columns") => &cases[4],
            _ => &cases[2],
        };
        format!("{} MB and {} ms hot", significant(case.bytes as f64 / 1e6), significant(case.measured.hot_ms))
    });
    format!(
        "sizes and times without the disk: {}; finding a tuple's run is work besides, and runs of columns are packed to bits",
        parts.collect::<Vec<_>>().join(", ")
    )
}

fn query_7(d4: &D4) -> Vec<Check> {
    let [slotted, _, levels, column] = [0, 1, 2, 3].map(|at| d4.cold[at]);
    let best = d4.cold[1].min(levels);
    let detail =
        |other: &str, ms: f64| format!("cold, super tuples {} ms, {other} {} ms", significant(best), significant(ms));
    let hot = format!(
        "hot: slotted {} ms, super tuples {} ms, columns {} ms",
        significant(d4.hot[0]),
        significant(d4.hot[1].min(d4.hot[2])),
        significant(d4.hot[3])
    );
    vec![
        Check::new(
            "Q7 on D4: the optimized row store is faster than the column store",
            best < column,
            detail("columns", column),
        )
        .claimed(place("1 and 3.2"))
        .or_because(format!("runs of the flag and the nation are aggregated as runs by both; {hot}")),
        Check::new(
            "Q7 on D4: the optimized row store is faster than the standard one",
            best < slotted,
            detail("slotted rows", slotted),
        )
        .claimed(place("1 and 3.2"))
        .or_because(hot),
        Check::new(
            "Q7: a view of the join is faster than the join",
            d4.hot.iter().take(4).all(|ms| *ms < d4.join_ms()),
            format!(
                "hot, {} ms from the four layouts of the view, {} ms by the join",
                list(&d4.hot[..4]),
                significant(d4.join_ms())
            ),
        )
        .claimed(place("1"))
        .or_because("the joined tables are small and in memory"),
    ]
}
