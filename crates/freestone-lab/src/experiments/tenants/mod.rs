//! A star schema shared by tenants: the last experiments of Grund et al. 2010 (section 3.4), and what they need of the
//! first ones at every level of isolation.
//!
//! | module | content |
//! |---|---|
//! | [`options`] | levels, neighbours, numbers of tenants and users |
//! | `workload`, `databases` | users that run query flights on one snapshot each; the tenants' databases |
//! | [`levels`] | servers in processes, control groups, containers and virtual machines |
//! | [`burn`], [`probe`] | neighbours; the calibrator and allocators at each level |
//! | `bench`, `points`, `progress`, `interrupt`, `child` | a run, its points, its bar, its end, its processes |
//! | `overhead`, `consolidation`, `interference`, `paper` | the three experiments, and the paper's figures |

mod bench;
pub mod burn;
mod child;
mod consolidation;
mod databases;
mod interference;
mod interrupt;
pub mod levels;
pub mod options;
mod overhead;
mod paper;
mod points;
pub mod probe;
mod progress;
mod workload;

use freestone_report::findings::{Cell, Part, Table, significant};

use super::Experiment;
use bench::Bench;
use levels::Slot;
use options::Isolation;
use points::Spread;

pub const OVERHEAD: Experiment = Experiment {
    name: "tenants-overhead",
    title: "What isolation costs one tenant",
    shows: "Query flights of 1 to 12 users in a bare process, a control group, a container and a virtual machine; caches, \
            address translation, allocators and time in the kernel at each level.",
    source: "Grund et al. 2010, sections 3.2, 3.3.2 and 3.4.2, Table 1, Figures 3 and 4",
    size: "--scale 1, --users 12, --seconds 5, --repetitions 3, --isolation process,cgroup,container,vm; --short takes two minutes",
    run: overhead::run,
};

pub const CONSOLIDATION: Experiment = Experiment {
    name: "tenants-consolidation",
    title: "Tenants that share a machine",
    shows: "Response times and throughput of 1 to 4 tenants with 2, 1 and half a core each, with few and many users, beside idle \
            and burning slots; one process for all, a process each, and stronger isolation.",
    source: "Grund et al. 2010, section 3.4.3, Table 2, Figure 5",
    size: "--scale 1, --tenants 4, --seconds 5, --repetitions 3, --burn arithmetic; --short takes two minutes",
    run: consolidation::run,
};

pub const INTERFERENCE: Experiment = Experiment {
    name: "tenants-interference",
    title: "A tenant beside one neighbour",
    shows: "A tenant on half of the cores beside nothing, arithmetic, streams, random loads, fresh pages and another tenant; the \
            bytes that it moves beside the bandwidth of memory.",
    source: "Grund et al. 2010, section 3.4.3",
    size: "--scale 1, --seconds 5, --repetitions 3, --burn arithmetic,streams,loads,pages; --short takes a minute",
    run: interference::run,
};

const PLACE: &str = "Grund et al. 2010";

/// The slots of `count` tenants with `cores` each, which may be less than one.
fn slots(cpus: &[usize], cores: f64, count: usize, memory_bytes: u64) -> Vec<Slot> {
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
fn figure(spread: Spread) -> Cell {
    let Spread { median, low, high } = spread;
    Cell::from(match (median, high > low) {
        (0.0, false) => "broken".to_owned(),
        (_, false) => significant(median),
        _ => format!("{} ({}–{})", significant(median), significant(low), significant(high)),
    })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What each level is on this machine, or why it is not measured.
fn levels_table(bench: &Bench<'_>, levels: &[Isolation]) -> Part {
    let mut table = Table::new("Levels of isolation", 2, &["level", "here"]);
    for level in levels {
        table.push([level.name().to_owned(), bench.levels.means(*level)]);
    }
    Part::Table(table)
}

/// The measurements that do not count, if there are any.
fn broken(bench: &Bench<'_>) -> Option<Part> {
    let mut table = Table::new("Broken measurements, which no figure contains", 3, &["case", "repetition", "reason"]);
    for point in bench.broken() {
        table.push([point.key.clone(), (point.repetition + 1).to_string(), point.broken.clone().unwrap_or_default()]);
    }
    (!table.rows.is_empty()).then_some(Part::Table(table))
}

/// What was compared of answers and rows.
fn correctness(bench: &Bench<'_>, databases: usize) -> String {
    let queries: u64 = bench.points().iter().map(|point| point.queries).sum();
    format!(
        "Each of {queries} answers equals that of its tenant alone, or the run would have ended. The rows of {databases} databases \
         were counted and summed before and after. Every flight (BEGIN READ ONLY … COMMIT) read one snapshot. The program is {}.",
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
