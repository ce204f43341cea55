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
        let ordered = row.low <= row.value && row.value <= row.high && row.value.is_finite();
        assert!(ordered, "{row:?}");
    }
    for topic in ["host", "cache", "tlb", "memory", "disk", "network", "engine", "page", "kernel"] {
        assert!(rows.iter().any(|row| row.topic == topic), "{topic}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "its file is removed");
    let (smallest, largest) = (profile.hardware.replace.at(16e3), profile.hardware.replace.at(16e6));
    assert!(smallest > 0.0 && largest > smallest, "{smallest} {largest}");
}

#[test]
fn levels_are_found_where_latency_jumps() {
    // 32 KiB at 1 ns, 1 MiB at 5 ns, memory at 80 ns.
    let latency = |bytes: f64| {
        if bytes <= 32768.0 {
            1.0
        } else if bytes <= 1048576.0 {
            5.0
        } else {
            80.0
        }
    };
    let points: Vec<(f64, f64)> = (13..27).map(|k| (f64::from(1 << k), latency(f64::from(1 << k)))).collect();
    assert_eq!(memory::jumps(&crate::profile::Curve::of(&points)), [32768.0, 1048576.0]);
}
