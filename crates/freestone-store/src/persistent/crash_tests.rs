//! All workloads under exploration, and the proof that each flush and fence is needed.

use super::crashes::check_every_site;
use super::table::crash_tests::{after_crash, creation, workload};
use super::tree::tests::crashes;

#[test]
fn every_crash_leaves_what_was_acknowledged_and_every_flush_is_needed() {
    let whole = workload(None);
    let crashed: Vec<_> = whole.repaired(9).into_iter().take(16).collect();
    assert!(crashed.len() >= 4, "opening repaired {} contents", crashed.len());
    let images = check_every_site(crashed.len() + 5, |number, omitted| match number {
        0 => creation(omitted),
        1 => crashes(8192, 470, 24, omitted),
        2 => crashes(256, 6, 200, omitted),
        3 => crashes(512, 20, 60, omitted),
        4 => workload(omitted).outcome(),
        number => after_crash(&crashed[number - 5], number, omitted),
    });
    assert!(images >= 20_000, "{images}");
}
