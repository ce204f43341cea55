use super::*;

#[test]
fn a_quick_calibration_has_every_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = CalibrateOptions { effort: Effort::Quick, folder: Some(folder.path().into()), threads: 2 };
    let mut heard = vec![];
    let profile = calibrate(&options, &mut |what, share| heard.push((what.to_owned(), share))).expect("it measures");
    assert!(profile.is_measured());
    let reference_ns = profile.engine.reference.value;
    assert!(reference_ns > 0.0 && profile.slowdown(2.0 * reference_ns, 1).ratio() == 2.0, "{reference_ns}");
    assert!(heard.is_sorted_by(|a, b| a.1 <= b.1) && heard.len() > 4, "{heard:?}");
    let rows = profile.rows();
    for row in &rows {
        let ordered = |m: Measured| m.low <= m.value && m.value <= m.high && m.value.is_finite();
        assert!(row.measured.is_none_or(ordered), "{row:?}");
    }
    let walked = profile.hardware.replace.last().expect("walks").0;
    for cache in &profile.hardware.caches {
        let is_shown = cache.bytes.is_none_or(|bytes| bytes.value * 4.0 <= walked);
        assert!(is_shown, "the region of {walked} bytes cannot show {cache:?}");
        assert_eq!(cache.bytes.is_none(), !cache.missing.is_empty(), "{cache:?}");
    }
    for topic in ["host", "cache", "tlb", "memory", "disk", "network", "engine", "page", "kernel"] {
        assert!(rows.iter().any(|row| row.topic == topic), "{topic}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "its file is removed");
    let (smallest, largest) = (profile.hardware.replace.at(16e3), profile.hardware.replace.at(16e6));
    assert!(smallest > 0.0 && largest > smallest, "{smallest} {largest}");
}
