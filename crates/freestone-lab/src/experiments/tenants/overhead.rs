//! One tenant with all cores: what each level costs against a bare process (Figure 4, Table 1, Figure 3).

use freestone_report::findings::{
    Bar, BarGroup, Bars, Cell, Check, Lines, Part, Series, TIE, Table, significant, thousands,
};

use super::bench::{Bench, Case};
use super::databases::Encoding;
use super::layouts;
use super::options::Isolation;
use super::paper;
use super::points::{Point, Spread, spread};
use super::probe::{Allocated, Calibrated, LaidOut};
use super::view::{PLACE, broken, correctness, figure, levels_table, percent, slots};
use crate::Notify;
use crate::error::{LabError, Result};
use crate::experiments::RunOptions;

const NAME: &str = "tenants-overhead";
const SECONDS: f64 = 5.0;
const USERS: [usize; 8] = [1, 2, 3, 4, 6, 8, 10, 12];
const SHORT_USERS: [usize; 4] = [1, 2, 4, 12];
/// The levels that one tenant has; all in one process is the bare process then.
const LEVELS: [Isolation; 4] = [Isolation::Process, Isolation::Cgroup, Isolation::Container, Isolation::Vm];
/// The tolerated difference from the paper's overhead, in percent of the throughput.
const TOLERANCE_PERCENT: f64 = 5.0;
/// The smallest number of nanoseconds that is visible next to a cache miss.
const VISIBLE_NS: f64 = 1.0;

/// What was measured at one level in addition to throughput; or why not.
struct OfLevel {
    level: Isolation,
    calibrated: Result<Calibrated, String>,
    allocated: Result<Allocated, String>,
    laid_out: Result<LaidOut, String>,
}

pub fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let mut bench = Bench::prepare(NAME, options, SECONDS, notify)?;
    let mut levels = bench.available()?;
    // Overheads are against a bare process, so that it is always measured.
    levels.retain(|level| *level != Isolation::Shared && *level != Isolation::Process);
    levels.insert(0, Isolation::Process);
    let most = options.tenants.users.unwrap_or(usize::MAX);
    let users = if options.tenants.short { SHORT_USERS.to_vec() } else { USERS.to_vec() };
    let users: Vec<usize> = users.into_iter().filter(|count| *count <= most).collect();
    bench.learn(1, &[Encoding::Compressed])?;
    let mut of_levels = vec![];
    for level in &levels {
        of_levels.push(OfLevel {
            level: *level,
            calibrated: reason(bench.calibrated(*level))?,
            allocated: reason(bench.allocated(*level))?,
            laid_out: reason(bench.laid_out(*level))?,
        });
    }
    let cases = cases(&bench, &levels, &users);
    bench.expect(&cases);
    bench.measure(&cases)?;
    let databases = bench.check_rows()?;
    let parts = parts(&bench, &levels, &users, &of_levels, databases);
    bench.finish()?;
    Ok(parts)
}

/// A broken probe is a reason; other errors end the run.
fn reason<T>(probed: Result<T>) -> Result<Result<T, String>> {
    match probed {
        Ok(figures) => Ok(Ok(figures)),
        Err(LabError::Broken(reason)) => Ok(Err(reason)),
        Err(other) => Err(other),
    }
}

fn name(level: Isolation, users: usize) -> String {
    format!("{level}, {users} users")
}

fn cases(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Vec<Case> {
    let encoding = Encoding::Compressed;
    let slots = slots(&bench.cpus, bench.cpus.len() as f64, 1, bench.memory_of(1, encoding));
    let of_level = |level: &Isolation| {
        let case = |users: usize| Case {
            level: *level,
            encoding,
            slots: slots.clone(),
            users,
            burn: vec![],
            name: name(*level, users),
        };
        users.iter().map(|users| case(*users)).collect::<Vec<_>>()
    };
    levels.iter().flat_map(of_level).collect()
}

fn of(bench: &Bench<'_>, level: Isolation, users: usize, figure: impl Fn(&Point) -> f64) -> Spread {
    spread(&bench.of(&name(level, users)), figure)
}

/// How much less than the bare process a level does, in percent, over all numbers of users. `None` without figures.
fn overhead_percent(bench: &Bench<'_>, level: Isolation, users: &[usize]) -> Option<f64> {
    let ratios: Vec<f64> = users
        .iter()
        .map(|users| {
            let of = |level| of(bench, level, *users, |point| point.throughput).median;
            of(level) / of(Isolation::Process)
        })
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    (!ratios.is_empty()).then_some((1.0 - mean) * 100.0)
}

fn parts(
    bench: &Bench<'_>,
    levels: &[Isolation],
    users: &[usize],
    of_levels: &[OfLevel],
    databases: usize,
) -> Vec<Part> {
    let text = format!(
        "One tenant with SSB at scale {} in memory ({} million rows of lineorder), on all {} cores; {} s per measurement after a \
         warm-up, {} repetitions, levels in turn. Users run flights without pause over Freestone's protocol, on sockets at every level; \
         their processor time is on the same cores. {}",
        bench.scale,
        significant(bench.scale * 6.0),
        bench.cpus.len(),
        bench.seconds,
        bench.options.repetitions(),
        correctness(bench, databases)
    );
    let mut parts = vec![
        Part::section("One tenant at each level", text),
        levels_table(bench, &LEVELS),
        Part::checks(claims(bench, levels, users, of_levels)),
        throughput(bench, levels, users),
        relative(bench, levels, users),
        numbers(bench, levels, users),
        kernel(bench, levels, users),
        table_1(of_levels),
    ];
    parts.extend(layouts::parts(&laid_out(of_levels)));
    parts.extend(allocators(of_levels));
    parts.extend(broken(bench));
    parts
}

fn throughput(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Part {
    let series = levels.iter().map(|level| {
        Series::new(
            level.name(),
            users.iter().map(|users| of(bench, *level, *users, |point| point.throughput).median).collect(),
        )
    });
    Part::Lines(Lines {
        title: "Figure 4: throughput of one tenant".into(),
        x_label: "users".into(),
        y_label: "queries per second".into(),
        x: users.iter().map(|users| *users as f64).collect(),
        series: series.collect(),
        mark: None,
    })
}

fn relative(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Part {
    let values = |level: Isolation| {
        users.iter().map(move |users| {
            let of = |level| of(bench, level, *users, |point| point.throughput).median;
            let ratio = of(level) / of(Isolation::Process) * 100.0;
            if ratio.is_finite() { ratio } else { 0.0 }
        })
    };
    let mut series: Vec<Series> =
        levels.iter().map(|level| Series::new(level.name(), values(*level).collect())).collect();
    series.push(Series::new("paper: Xen", vec![100.0 - paper::OVERHEAD_PERCENT; users.len()]));
    Part::Lines(Lines {
        title: "Figure 4 against the bare process".into(),
        x_label: "users".into(),
        y_label: "% of its throughput".into(),
        x: users.iter().map(|users| *users as f64).collect(),
        series,
        mark: None,
    })
}

fn numbers(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Part {
    let header = ["level", "users", "queries/s", "mean, ms", "p95, ms", "overhead", "CPU, ms/query", "memory, MB"];
    let mut table = Table::new("Figure 4 in numbers: median (least–greatest)", 1, &header);
    for level in levels {
        for &users in users {
            let of = |figure: fn(&Point) -> f64| of(bench, *level, users, figure);
            let throughput = of(|point| point.throughput);
            let base = spread(&bench.of(&name(Isolation::Process, users)), |point| point.throughput);
            let overhead = (1.0 - throughput.median / base.median) * 100.0;
            let overhead = if overhead.is_finite() { format!("{overhead:.1} %") } else { "-".into() };
            table.push([
                Cell::from(level.name()),
                Cell::from(users.to_string()),
                figure(throughput),
                figure(of(|point| point.mean_ms)),
                figure(of(|point| point.p95_ms)),
                Cell::from(overhead),
                figure(of(Point::cpu_ms)),
                Cell::from(thousands((of(|point| point.resident_bytes as f64).median / 1e6) as i64)),
            ]);
        }
    }
    Part::Table(table)
}

/// Medians over all numbers of users: the kernel's share of the servers' time, and that of a machine's own kernel.
fn kernel_shares(bench: &Bench<'_>, level: Isolation, users: &[usize]) -> (Spread, Option<f64>) {
    let points: Vec<&Point> = users.iter().flat_map(|users| bench.of(&name(level, *users))).collect();
    let own: Vec<f64> = points.iter().filter_map(|point| point.guest_kernel_share()).collect();
    let own = (!own.is_empty()).then(|| freestone_demo::engine::median(own));
    (spread(&points, Point::kernel_share), own)
}

fn kernel(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Part {
    let header = ["level", "in the kernel", "least", "greatest", "in the machine's own kernel"];
    let mut table = Table::new("Processor time of the servers in the kernel, all numbers of users", 1, &header);
    for level in levels {
        let (share, own) = kernel_shares(bench, *level, users);
        let own = own.map_or("-".into(), percent);
        table.push([level.name().to_owned(), percent(share.median), percent(share.low), percent(share.high), own]);
    }
    let [physical, guest, hypervisor] = paper::KERNEL_PERCENT;
    let text = |value: f64| format!("{value} %");
    table.push(["paper: physical".to_owned(), text(physical), "-".into(), "-".into(), "-".into()]);
    table.push(["paper: Xen".to_owned(), text(hypervisor), "-".into(), "-".into(), text(guest)]);
    Part::Table(table)
}

fn table_1(of_levels: &[OfLevel]) -> Part {
    let mut header = vec!["description".to_owned()];
    header.extend(of_levels.iter().map(|of| of.level.name().to_owned()));
    header.extend(["paper: physical".into(), "paper: virtual".into()]);
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = Table::new("Table 1: the calibrator at each level", 1, &header);
    let ns = |value: f64| format!("{} ns", significant(value));
    let cache = |level: f64, at: usize| {
        move |of: &Calibrated| {
            let found = of.caches.iter().find(|cache| cache[0] == level)?;
            Some(if at == 1 { format!("{} KiB", significant(found[1] / 1024.0)) } else { ns(found[at]) })
        }
    };
    type Reader = Box<dyn Fn(&Calibrated) -> Option<String>>;
    let readers: [Reader; 7] = [
        Box::new(cache(1.0, 1)),
        Box::new(cache(1.0, 2)),
        Box::new(cache(1.0, 3)),
        Box::new(cache(2.0, 1)),
        Box::new(cache(2.0, 2)),
        Box::new(cache(2.0, 3)),
        Box::new(move |of| Some(if of.translation_ns < VISIBLE_NS { "hidden".into() } else { ns(of.translation_ns) })),
    ];
    for ((what, physical, virtual_), read) in paper::TABLE_1.iter().zip(&readers) {
        let found = of_levels.iter().map(|of| match &of.calibrated {
            Ok(figures) => read(figures).unwrap_or_else(|| "not found".into()),
            Err(_) => "broken".into(),
        });
        let last = [(*physical).to_owned(), (*virtual_).to_owned()];
        table.push(std::iter::once((*what).to_owned()).chain(found).chain(last));
    }
    let bandwidth = of_levels.iter().map(|of| match &of.calibrated {
        Ok(figures) => format!("{} GB/s", significant(figures.most() / 1e9)),
        Err(_) => "broken".into(),
    });
    let paper_bus = format!("{} GB/s", significant(paper::BUS[0] / 1e9));
    table.push(std::iter::once("bandwidth of memory".to_owned()).chain(bandwidth).chain([paper_bus, "-".into()]));
    Part::Table(table)
}

/// The levels whose rows and columns could be measured.
fn laid_out(of_levels: &[OfLevel]) -> Vec<layouts::OfLevel<'_>> {
    of_levels.iter().filter_map(|of| Some((of.level, of.laid_out.as_ref().ok()?))).collect()
}

fn allocators(of_levels: &[OfLevel]) -> Vec<Part> {
    let group = |of: &OfLevel| {
        let figures = of.allocated.as_ref().ok()?;
        let bars = ["system", "jemalloc", "mimalloc"].iter().zip(figures.together);
        Some(BarGroup {
            label: of.level.name().into(),
            note: format!("all points of Figure 3 together, on {} threads", figures.threads),
            bars: bars.map(|(label, value)| Bar::new(*label, value)).collect(),
        })
    };
    let groups: Vec<BarGroup> = of_levels.iter().filter_map(group).collect();
    if groups.is_empty() {
        return vec![];
    }
    let header = ["level", "threads", "system, ms", "jemalloc, ms", "mimalloc, ms", "gain of the better"];
    let mut table = Table::new("Figure 3: results kept, by allocator", 1, &header);
    for of in of_levels {
        let Ok(figures) = &of.allocated else { continue };
        let gains = figures.gains();
        for (threads, times, gain) in [(1, figures.alone, gains[0]), (figures.threads, figures.together, gains[1])] {
            let [system, jemalloc, mimalloc] = times.map(significant);
            let gain = format!("{:.0} %", (gain - 1.0) * 100.0);
            table.push([of.level.name().to_owned(), threads.to_string(), system, jemalloc, mimalloc, gain]);
        }
    }
    let gain = format!("about {} %", paper::ALLOCATOR_PERCENT);
    table.push(["paper: TBB's allocator", "-", "-", "-", "-", &gain].map(str::to_owned));
    let title = "Figure 3: results kept, by allocator".into();
    vec![Part::Bars(Bars { title, unit: "ms".into(), tie: TIE, groups }), Part::Table(table)]
}

fn claims(bench: &Bench<'_>, levels: &[Isolation], users: &[usize], of_levels: &[OfLevel]) -> Vec<Check> {
    let mut checks = vec![of_overhead(bench, levels, users), of_kernel(bench, levels, users)];
    checks.push(of_translation(bench, of_levels));
    checks.extend(of_levels.iter().filter(|of| of.level != Isolation::Process).filter_map(|of| alike(of, of_levels)));
    checks.extend(layouts::claims(&laid_out(of_levels)));
    checks.extend(of_levels.iter().filter_map(of_allocators));
    checks
}

fn of_overhead(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Check {
    let statement = format!(
        "a virtual machine answers {} % fewer queries per second than a bare process, whatever the number of users",
        paper::OVERHEAD_PERCENT
    );
    let text = |level: &Isolation| {
        let percent = overhead_percent(bench, *level, users)?;
        Some(format!("{level} {:.1} % {}", percent.abs(), if percent < 0.0 { "more" } else { "fewer" }))
    };
    let others: Vec<String> = levels.iter().filter(|level| **level != Isolation::Process).filter_map(text).collect();
    let place = format!("{PLACE}, 3.4.2, Figure 4");
    match (bench.levels.missing(Isolation::Vm), overhead_percent(bench, Isolation::Vm, users)) {
        (None, Some(found)) if levels.contains(&Isolation::Vm) => Check::new(
            statement,
            (found - paper::OVERHEAD_PERCENT).abs() <= TOLERANCE_PERCENT,
            format!("here: {}", others.join(", ")),
        )
        .claimed(place)
        .or_because(
            "processors translate a machine's addresses themselves by now, which Xen did by shadow page tables",
        ),
        (missing, _) => {
            let missing = missing.unwrap_or_else(|| "its measurements are broken, or were not asked for".into());
            Check::unmeasured(statement, format!("{missing}. Other levels: {}", others.join(", "))).claimed(place)
        }
    }
}

fn of_kernel(bench: &Bench<'_>, levels: &[Isolation], users: &[usize]) -> Check {
    let [physical, guest, hypervisor] = paper::KERNEL_PERCENT;
    let statement = format!(
        "a bare process spends few of its cycles in the kernel ({physical} %), a virtual machine more ({guest} % and {hypervisor} % in \
         the hypervisor)"
    );
    let place = format!("{PLACE}, 3.4.2");
    let shares = |level: Isolation| kernel_shares(bench, level, users);
    let text: Vec<String> = levels
        .iter()
        .map(|level| match shares(*level) {
            (outside, Some(own)) => {
                format!("{level} {} of its own and {} outside", percent(own), percent(outside.median))
            }
            (share, None) => format!("{level} {}", percent(share.median)),
        })
        .collect();
    match (levels.contains(&Isolation::Vm), shares(Isolation::Vm)) {
        (true, (outside, Some(own))) => Check::new(
            statement,
            own + outside.median > shares(Isolation::Process).0.median,
            format!("here: {}", text.join(", ")),
        )
        .claimed(place)
        .or_because("the processor translates addresses without help of the hypervisor"),
        _ => {
            let missing =
                bench.levels.missing(Isolation::Vm).unwrap_or_else(|| "no virtual machine was measured".into());
            Check::unmeasured(statement, format!("{missing}. Other levels: {}", text.join(", "))).claimed(place)
        }
    }
}

fn of_translation(bench: &Bench<'_>, of_levels: &[OfLevel]) -> Check {
    let statement = "misses of address translation are hidden on the bare process and visible in a virtual machine";
    let place = format!("{PLACE}, 3.2, Table 1");
    let ns = |of: &OfLevel| of.calibrated.as_ref().ok().map(|figures| figures.translation_ns);
    let text: Vec<String> =
        of_levels.iter().filter_map(|of| Some(format!("{} {} ns", of.level, significant(ns(of)?)))).collect();
    let find = |level: Isolation| of_levels.iter().find(|of| of.level == level).and_then(ns);
    match (find(Isolation::Process), find(Isolation::Vm)) {
        (Some(bare), Some(machine)) => {
            Check::new(statement, bare < VISIBLE_NS && machine >= VISIBLE_NS, format!("here: {}", text.join(", ")))
                .claimed(place)
                .or_because("this machine may itself be a virtual one, where misses are visible to every process")
        }
        _ => {
            let missing =
                bench.levels.missing(Isolation::Vm).unwrap_or_else(|| "no virtual machine was measured".into());
            Check::unmeasured(statement, format!("{missing}. Other levels: {}", text.join(", "))).claimed(place)
        }
    }
}

/// Whether a level sees the caches of the bare process.
fn alike(of: &OfLevel, of_levels: &[OfLevel]) -> Option<Check> {
    let bare = of_levels.iter().find(|of| of.level == Isolation::Process)?.calibrated.as_ref().ok()?;
    let figures = of.calibrated.as_ref().ok()?;
    let pairs: Vec<(&[f64; 4], &[f64; 4])> = bare.caches.iter().zip(&figures.caches).take(2).collect();
    let near = |a: f64, b: f64| (a / b).max(b / a) <= 2.0;
    let text: Vec<String> = pairs
        .iter()
        .map(|(a, b)| {
            format!(
                "L{} {} against {} KiB, replace {} against {} ns",
                a[0],
                significant(b[1] / 1024.0),
                significant(a[1] / 1024.0),
                significant(b[3]),
                significant(a[3])
            )
        })
        .collect();
    Some(
        Check::new(
            format!("{}: sizes and replacement times of the first two caches are those of the bare process", of.level),
            !pairs.is_empty() && pairs.iter().all(|(a, b)| near(a[1], b[1]) && near(a[3], b[3])),
            text.join("; "),
        )
        .claimed(format!("{PLACE}, 3.2, Table 1"))
        .or_because("other load on the machine, or neighbours of a virtual one, share these caches"),
    )
}

fn of_allocators(of: &OfLevel) -> Option<Check> {
    let figures = of.allocated.as_ref().ok()?;
    let [alone, together] = figures.gains().map(|gain| (gain - 1.0) * 100.0);
    Some(
        Check::new(
            format!(
                "{}: allocators that keep memory for each thread are faster, by about {} %",
                of.level,
                paper::ALLOCATOR_PERCENT
            ),
            together >= paper::ALLOCATOR_PERCENT / 2.0,
            format!("the better one: {alone:.0} % alone, {together:.0} % on {} threads", figures.threads),
        )
        .claimed(format!("{PLACE}, 3.3.2, Figure 3"))
        .or_because("the system's allocator has caches for each thread by now, and a block of 100 tuples is one call"),
    )
}
