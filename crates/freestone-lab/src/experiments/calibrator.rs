//! The Calibrator's table: caches and TLB, from times alone.

use freestone_advisor::calibrate::{CalibrateOptions, calibrate};
use freestone_advisor::profile::{CacheLevel, Profile};

use super::{Experiment, RunOptions};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_report::calibration;
use freestone_report::findings::{Cell, Check, Part, Table, significant};

pub const EXPERIMENT: Experiment = Experiment {
    name: "calibrator",
    title: "What memory costs on this machine",
    shows: "Sizes and latencies of caches and address translation, found by time alone, compared with what the system reports; on \
            the whole machine, and in a control group with half of its memory.",
    source: "Grund et al. 2010, section 3.2, Table 1",
    size: "two minutes; the control group needs root and the program freestone",
    run,
};

const PLACE: &str = "Grund et al. 2010, 3.2, Table 1";
/// The tolerated factor between a measured size and the system's.
const TOLERANCE: f64 = 1.15;
/// The smallest number of nanoseconds that is visible next to a cache miss. Grund et al. 2010 found 23 cycles of 3 GHz.
const VISIBLE_NS: f64 = 1.0;

fn run(options: &RunOptions, notify: Notify<'_>) -> Result<Vec<Part>> {
    let workspace = options.workspace("calibrator")?;
    let folder = Some(workspace.path("."));
    let threads = options.engine_options().threads;
    let calibration = CalibrateOptions { folder, threads, ..CalibrateOptions::default() };
    let profile = calibrate(&calibration, &mut |what, _| notify(&format!("measuring {what}")));
    let profile = profile.map_err(|error| LabError::Engine(error.into()))?;
    notify("measuring in a control group with half of the memory");
    let halved = in_half(options, profile.host.memory_bytes / 2);
    Ok(parts(&profile, &halved))
}

#[cfg(target_os = "linux")]
fn in_half(options: &RunOptions, memory_bytes: u64) -> Result<Profile, String> {
    super::tenants::grouped::calibrate(options, memory_bytes)
}

#[cfg(not(target_os = "linux"))]
fn in_half(_: &RunOptions, _: u64) -> Result<Profile, String> {
    Err("control groups are Linux'; this is another system".into())
}

/// The machine's profile, and that of half of its memory or the reason why there is none.
fn parts(profile: &Profile, halved: &Result<Profile, String>) -> Vec<Part> {
    let text = "What `freestone calibrate` measures; the profile that predictions use stays as it is.";
    let mut checks = claims(profile);
    checks.extend(level_checks("the whole machine", profile));
    match halved {
        Ok(halved) => checks.extend(level_checks("half of the memory", halved)),
        Err(reason) => {
            checks.push(Check::unmeasured("half of the memory: each level is as reported, or not found", reason))
        }
    }
    let mut parts = vec![Part::section("Calibration", text), Part::checks(checks), side_by_side(profile, halved)];
    parts.extend(calibration::parts(profile));
    parts
}

/// A verdict per level: its size by times is the reported one, or times do not show it and say so.
fn level_checks(place: &str, profile: &Profile) -> Vec<Check> {
    let check = |cache: &CacheLevel| {
        Check::new(
            format!("{place}: L{} is within 15 % of the reported size, or not found", cache.level),
            cache.bytes.is_none() || is_near(cache),
            size_text(cache),
        )
        .or_because(
            "the edge is where half of the loads miss, which other work on this machine moves in both directions",
        )
    };
    profile.hardware.caches.iter().map(check).collect()
}

/// The levels of the whole machine and of half of its memory, next to each other.
fn side_by_side(profile: &Profile, halved: &Result<Profile, String>) -> Part {
    let header = ["level", "the whole machine", "half of the memory"];
    let mut table = Table::new("Caches and address translation, by times", 3, &header);
    let of = |profile: &Profile, at: usize| match profile.hardware.caches.get(at) {
        Some(cache) => format!("{}; {}", size_text(cache), latency_text(cache)),
        None => "–".to_owned(),
    };
    let of_half = |text: &dyn Fn(&Profile) -> String| match halved {
        Ok(halved) => text(halved),
        Err(reason) => format!("not measured: {reason}"),
    };
    let levels = profile.hardware.caches.len().max(halved.as_ref().map_or(0, |halved| halved.hardware.caches.len()));
    for at in 0..levels {
        let cells = [format!("L{}", at + 1), of(profile, at), of_half(&|halved| of(halved, at))];
        table.push(cells.map(Cell::from));
    }
    let translation = |profile: &Profile| translation_texts(profile).join(", ");
    table.push(["translation".to_owned(), translation(profile), of_half(&translation)].map(Cell::from));
    Part::Table(table)
}

fn claims(profile: &Profile) -> Vec<Check> {
    let caches = &profile.hardware.caches;
    let is_virtual = profile.host.hypervisor.is_some();
    let kind = if is_virtual { "virtual" } else { "physical" };
    let found: Vec<&CacheLevel> = caches.iter().filter(|cache| cache.bytes.is_some()).collect();
    let texts = |text: &dyn Fn(&CacheLevel) -> String| caches.iter().map(text).collect::<Vec<_>>().join("; ");
    vec![
        Check::new(
            "caches are found by time alone, within 15 % of the sizes that the system reports",
            found.iter().all(|cache| is_near(cache)) && found.len() == caches.len() && !found.is_empty(),
            format!("a {kind} machine: {}", texts(&size_text)),
        )
        .claimed(PLACE)
        .or_because(
            "a level whose latency does not jump is not found: neighbours of a virtual machine share its last cache, of which it \
             then sees a part that varies; or the region is less than four times the level",
        ),
        rise_claim(&found, texts(&latency_text)),
        translation_claim(profile, is_virtual, kind),
    ]
}

/// Whether the size by times is the reported one.
fn is_near(cache: &CacheLevel) -> bool {
    match (cache.bytes, cache.reported_bytes) {
        (Some(bytes), Some(reported)) => {
            let reported = reported as f64;
            (bytes.value / reported).max(reported / bytes.value.max(1.0)) <= TOLERANCE
        }
        _ => false,
    }
}

/// Whether misses cost more with every level, which one level cannot show.
fn rise_claim(found: &[&CacheLevel], detail: String) -> Check {
    let statement = "a miss costs more with every level";
    if found.len() < 2 {
        return Check::unmeasured(statement, format!("fewer than two levels were found: {detail}")).claimed(PLACE);
    }
    let latencies: Vec<f64> = found.iter().filter_map(|cache| cache.miss_ns).map(|miss| miss.value).collect();
    Check::new(statement, latencies.is_sorted() && latencies.len() == found.len(), detail).claimed(PLACE).or_because(
        "of a cache that is shared with neighbours, the end is no edge, and its latency a mean of two levels",
    )
}

fn kib(bytes: f64) -> String {
    significant(bytes / 1024.0)
}

/// The size by times, and next to it the reported one.
fn size_text(cache: &CacheLevel) -> String {
    let reported =
        cache.reported_bytes.map_or("not reported".to_owned(), |bytes| format!("reported {} KiB", kib(bytes as f64)));
    let found = match cache.bytes {
        Some(bytes) => format!("{} KiB ({} to {})", kib(bytes.value), kib(bytes.low), kib(bytes.high)),
        None => cache.missing.clone(),
    };
    format!("L{} {found}, {reported}", cache.level)
}

fn latency_text(cache: &CacheLevel) -> String {
    match (cache.miss_ns, cache.replace_ns) {
        (Some(miss), Some(replace)) => {
            format!("L{} miss {} ns, replace {} ns", cache.level, significant(miss.value), significant(replace.value))
        }
        _ => format!("L{} not found", cache.level),
    }
}

fn translation_claim(profile: &Profile, is_virtual: bool, kind: &str) -> Check {
    let statement =
        "misses of address translation show on a virtual machine, and hide behind those of caches on a physical one";
    let translation: Vec<_> = profile.hardware.translation.iter().filter(|t| t.granted).collect();
    let small = translation.iter().find(|t| t.page_bytes <= 4096).and_then(|t| t.miss_ns()).unwrap_or(0.0);
    let misses = translation_texts(profile).join(", ");
    Check::new(statement, (small >= VISIBLE_NS) == is_virtual, format!("a {kind} machine: {misses}"))
        .claimed(PLACE)
        .or_because(
            "each walk is compared with one over as many lines on few pages, so a miss of a cache cannot hide one of translation",
        )
}

/// What misses of address translation cost, by the size of pages.
fn translation_texts(profile: &Profile) -> Vec<String> {
    let translation = profile.hardware.translation.iter().filter(|translation| translation.granted);
    translation
        .map(|translation| {
            let pages = format!("with pages of {} KiB", kib(translation.page_bytes as f64));
            let levels = translation.levels.iter().map(|level| level.miss_ns);
            let (low, high) = levels.fold((0.0, 0.0), |(low, high), level| (low + level.low, high + level.high));
            match translation.miss_ns() {
                Some(ns) => format!("{} ns ({} to {}) {pages}", significant(ns), significant(low), significant(high)),
                None => format!("no miss found {pages}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use freestone_advisor::calibrate::Effort;
    use freestone_advisor::profile::Measured;

    use super::*;

    #[test]
    fn a_quick_profile_has_a_verdict_for_each_claim() {
        let options = CalibrateOptions { effort: Effort::Quick, ..CalibrateOptions::default() };
        let profile = calibrate(&options, &mut |_, _| ()).expect("memory is measured");
        let checks = claims(&profile);
        assert!(
            checks.iter().all(|check| check.is_refuted() != check.why.is_empty() && !check.detail.is_empty()),
            "{checks:?}"
        );
        assert_eq!(checks.len(), 3);
    }

    #[test]
    fn each_level_has_a_verdict_on_the_machine_and_with_half_of_its_memory() {
        let mut profile = Profile::assumed();
        let cache = profile.hardware.caches[0].clone();
        let of = |bytes: Option<f64>, reported| CacheLevel {
            bytes: bytes.map(Measured::exact),
            reported_bytes: Some(reported),
            missing: if bytes.is_some() { String::new() } else { "hidden by TLB".into() },
            ..cache.clone()
        };
        profile.hardware.caches = vec![of(Some(33_000.0), 32_768), of(Some(600_000.0), 1 << 20), of(None, 32 << 20)];
        let holds: Vec<bool> = level_checks("here", &profile).iter().map(|check| check.holds).collect();
        assert_eq!(holds, [true, false, true]);
        let shown = |halved: &Result<Profile, String>| {
            let parts = parts(&profile, halved);
            let Some(Part::Table(table)) = parts.get(2) else { panic!("the levels side by side") };
            let checks = parts.iter().flat_map(|part| match part {
                Part::Checks(checks) => checks.checks.clone(),
                _ => vec![],
            });
            (table.rows.iter().map(|row| row[2].text.clone()).collect::<Vec<_>>(), checks.count())
        };
        let (cells, checks) = shown(&Ok(profile.clone()));
        assert!(cells.len() == 4 && cells[2].contains("hidden by TLB") && checks == 3 + 3 + 3, "{cells:?}");
        let (cells, checks) = shown(&Err("no root".into()));
        assert!(cells.iter().all(|cell| cell.contains("no root")) && checks == 3 + 3 + 1, "{cells:?}");
    }

    #[test]
    fn nothing_measured_holds_nothing() {
        let mut profile = Profile::assumed();
        profile.hardware.caches.clear();
        assert!(claims(&profile).iter().take(2).all(|check| !check.holds));
    }
}
