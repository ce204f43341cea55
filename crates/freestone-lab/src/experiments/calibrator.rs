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
const TOLERANCE: f64 = 1.5;
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
    let of_all = |text: &dyn Fn(&CacheLevel) -> String| caches.iter().map(text).collect::<Vec<_>>().join("; ");
    let found = |cache: &CacheLevel| {
        let reported = cache.reported_bytes? as f64;
        Some((cache.bytes.value / reported).max(reported / cache.bytes.value.max(1.0)) <= TOLERANCE)
    };
    let kib = |bytes: f64| significant(bytes / 1024.0);
    let sizes = of_all(&|cache| {
        let reported = cache.reported_bytes.map_or("not reported".to_owned(), |bytes| kib(bytes as f64));
        format!("L{} {} KiB, reported {reported}", cache.level, kib(cache.bytes.value))
    });
    let latencies = of_all(&|cache| {
        let (miss, replace) = (significant(cache.miss_ns.value), significant(cache.replace_ns.value));
        format!("L{} miss {miss} ns, replace {replace} ns", cache.level)
    });
    let rises = caches.windows(2).all(|pair| pair[0].miss_ns.value < pair[1].miss_ns.value);
    let is_virtual = profile.host.hypervisor.is_some();
    let kind = if is_virtual { "virtual" } else { "physical" };
    let translation: Vec<_> = profile.hardware.translation.iter().filter(|t| t.granted).collect();
    let small = translation.iter().find(|t| t.page_bytes <= 4096).map_or(0.0, |t| t.miss_ns.value);
    let misses: Vec<String> = translation
        .iter()
        .map(|t| format!("{} ns with pages of {} KiB", significant(t.miss_ns.value), kib(t.page_bytes as f64)))
        .collect();
    vec![
        Check::new(
            "caches are found by time alone, of the sizes that there are, on a virtual machine as on a physical one",
            caches.iter().filter_map(found).all(|is_near| is_near) && !caches.is_empty(),
            format!("a {kind} machine: {sizes}"),
        )
        .claimed(PLACE)
        .or_because("neighbours of a virtual machine share its last cache, of which it then sees a part"),
        Check::new("a miss costs more with every level", rises && !caches.is_empty(), latencies)
            .claimed(PLACE)
            .or_because("of a cache that is shared with neighbours, the end is no edge, and its latency a mean of two levels"),
        Check::new(
            "misses of address translation show on a virtual machine, and hide behind those of caches on a physical one",
            (small >= VISIBLE_NS) == is_virtual,
            format!("a {kind} machine: {}", misses.join(", ")),
        )
        .claimed(PLACE)
        .or_because(
            "processors have nested page tables and two levels of translation buffers by now, and regions are larger than what \
             either reaches",
        ),
    ]
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
            checks.iter().all(|check| check.holds == check.why.is_empty() && !check.detail.is_empty()),
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
