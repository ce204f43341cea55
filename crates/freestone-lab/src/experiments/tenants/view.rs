//! What the pages of the three experiments share.

use freestone_report::findings::{Cell, Part, Table, significant};

use super::bench::Bench;
use super::levels::Slot;
use super::options::Isolation;
use super::points::Spread;

/// The share of processor time of other programs from which on a machine counts as busy.
const BUSY: f64 = 0.05;
pub const PLACE: &str = "Grund et al. 2010";

/// The slots of `count` tenants with `cores` each, which may be less than one.
pub fn slots(cpus: &[usize], cores: f64, count: usize, memory_bytes: u64) -> Vec<Slot> {
    let slot = |at: usize| {
        if cores < 1.0 {
            return Slot { cpus: vec![cpus[at % cpus.len()]], quota: Some(cores), memory_bytes };
        }
        let whole = cores as usize;
        Slot::whole((0..whole).map(|core| cpus[(at * whole + core) % cpus.len()]).collect(), memory_bytes)
    };
    (0..count).map(slot).collect()
}

/// A median with the least and the greatest value.
pub fn figure(spread: Spread) -> Cell {
    let Spread { median, low, high } = spread;
    Cell::from(match (median, high > low) {
        (0.0, false) => "broken".to_owned(),
        (_, false) => significant(median),
        _ => format!("{} ({}–{})", significant(median), significant(low), significant(high)),
    })
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What each level is on this machine, or why it is not measured.
pub fn levels_table(bench: &Bench<'_>, levels: &[Isolation]) -> Part {
    let mut table = Table::new("Levels of isolation", 2, &["level", "here"]);
    for level in levels {
        table.push([level.name().to_owned(), bench.levels.means(*level)]);
    }
    Part::Table(table)
}

/// The measurements that do not count, if there are any.
pub fn broken(bench: &Bench<'_>) -> Option<Part> {
    let mut table = Table::new("Broken measurements, which no figure contains", 3, &["case", "repetition", "reason"]);
    for point in bench.broken() {
        table.push([point.key.clone(), (point.repetition + 1).to_string(), point.broken.clone().unwrap_or_default()]);
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

/// What was compared of answers and rows.
pub fn correctness(bench: &Bench<'_>, databases: usize) -> String {
    let queries: u64 = bench.points().iter().map(|point| point.queries).sum();
    let (usual, most) = bench.other_share();
    let busy = match usual {
        share if share > BUSY => "The machine was not idle, so that these figures say little: other",
        _ => "Other",
    };
    let other = format!("{busy} programs took {} of the processors' time, at most {}.", percent(usual), percent(most));
    format!(
        "Each of {queries} answers equals that of its tenant alone, or the run would have ended. The rows of {databases} databases \
         were counted and summed before and after. Every flight (BEGIN READ ONLY … COMMIT) read one snapshot. {other} The program is {}.",
        bench.version
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_divide_the_cores() {
        let cpus = |cores: f64, count: usize| {
            slots(&[4, 5], cores, count, 1).into_iter().map(|slot| (slot.cpus, slot.quota)).collect::<Vec<_>>()
        };
        assert_eq!(cpus(2.0, 1), [(vec![4, 5], None)]);
        assert_eq!(cpus(1.0, 2), [(vec![4], None), (vec![5], None)]);
        let half = Some(0.5);
        assert_eq!(cpus(0.5, 3), [(vec![4], half), (vec![5], half), (vec![4], half)]);
    }

    #[test]
    fn spreads_are_shown_if_there_are_any() {
        let text = |median, low, high| figure(Spread { median, low, high }).text;
        assert_eq!(text(1.5, 1.0, 2.0), "1.50 (1.00–2.00)");
        assert_eq!((text(1.5, 1.5, 1.5), text(0.0, 0.0, 0.0)), ("1.50".into(), "broken".into()));
    }
}
