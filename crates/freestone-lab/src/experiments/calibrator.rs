//! The Calibrator's table: caches and TLB, from times alone.

use freestone_advisor::calibrate::{CalibrateOptions, calibrate};
use freestone_advisor::profile::{CacheLevel, Profile};

use super::{Experiment, RunOptions};
use crate::Notify;
use crate::error::{LabError, Result};
use freestone_report::calibration;
use freestone_report::findings::{Check, Part, significant};

pub const EXPERIMENT: Experiment = Experiment {
    name: "calibrator",
    title: "What memory costs on this machine",
    shows: "Sizes and latencies of caches and address translation, found by time alone, compared with what the system reports.",
    source: "Grund et al. 2010, section 3.2, Table 1",
    size: "a minute",
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
    let options = CalibrateOptions { folder, threads, ..CalibrateOptions::default() };
    let profile = calibrate(&options, &mut |what, _| notify(&format!("measuring {what}")));
    Ok(parts(&profile.map_err(|error| LabError::Engine(error.into()))?))
}

fn parts(profile: &Profile) -> Vec<Part> {
    let text = "What `freestone calibrate` measures; the profile that predictions use stays as it is.";
    let mut parts = vec![Part::section("Calibration", text), Part::checks(claims(profile))];
    parts.extend(calibration::parts(profile));
    parts
}

fn claims(profile: &Profile) -> Vec<Check> {
    let caches = &profile.hardware.caches;
    let is_virtual = profile.host.hypervisor.is_some();
    let kind = if is_virtual { "virtual" } else { "physical" };
    let found: Vec<&CacheLevel> = caches.iter().filter(|cache| cache.bytes.is_some()).collect();
    let near = |cache: &&CacheLevel| match (cache.bytes, cache.reported_bytes) {
        (Some(bytes), Some(reported)) => {
            let reported = reported as f64;
            (bytes.value / reported).max(reported / bytes.value.max(1.0)) <= TOLERANCE
        }
        _ => false,
    };
    let texts = |text: &dyn Fn(&CacheLevel) -> String| caches.iter().map(text).collect::<Vec<_>>().join("; ");
    vec![
        Check::new(
            "caches are found by time alone, within 15 % of the sizes that the system reports",
            found.iter().all(near) && found.len() == caches.len() && !found.is_empty(),
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
    let misses: Vec<String> = translation
        .iter()
        .map(|t| match t.miss_ns() {
            Some(ns) => format!("{} ns with pages of {} KiB", significant(ns), kib(t.page_bytes as f64)),
            None => format!("no miss found with pages of {} KiB", kib(t.page_bytes as f64)),
        })
        .collect();
    Check::new(statement, (small >= VISIBLE_NS) == is_virtual, format!("a {kind} machine: {}", misses.join(", ")))
        .claimed(PLACE)
        .or_because(
            "each walk is compared with one over as many lines on few pages, so a miss of a cache cannot hide one of translation",
        )
}

#[cfg(test)]
mod tests {
    use freestone_advisor::calibrate::Effort;

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
    fn nothing_measured_holds_nothing() {
        let mut profile = Profile::assumed();
        profile.hardware.caches.clear();
        assert!(claims(&profile).iter().take(2).all(|check| !check.holds));
    }
}
