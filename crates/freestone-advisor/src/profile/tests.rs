use super::*;

#[test]
fn curves_go_through_their_points_and_stay_between_them() {
    let curve = Curve::of(&[(0.01, 8.0), (0.1, 4.0), (1.0, 1.0)]);
    for (x, y) in [(0.001, 8.0), (0.01, 8.0), (0.1, 4.0), (1.0, 1.0), (5.0, 1.0)] {
        assert!((curve.at(x) - y).abs() < 1e-9, "{x}");
    }
    let middle = curve.at(0.1f64.sqrt());
    assert!((middle - 2.5).abs() < 1e-9, "{middle}");
    let values: Vec<f64> = (0..100).map(|i| curve.at(0.005 * 1.08f64.powi(i))).collect();
    assert!(values.windows(2).all(|w| w[0] >= w[1]), "monotone points give a monotone curve");
    assert_eq!(Curve::default().at(1.0), 0.0);
}

#[test]
fn intervals_hold_their_value() {
    let measured = Measured::of(&[5.0, 1.0, 3.0, 2.0, 4.0]);
    assert_eq!((measured.low, measured.value, measured.high), (1.0, 3.0, 5.0));
    let step = measured.minus(Measured { value: 2.0, low: 1.5, high: 2.5 });
    assert_eq!(step.value, 1.0);
    assert!(step.low <= step.value && step.value <= step.high);
    assert_eq!(measured.minus(Measured::exact(9.0)).value, 0.0);
    assert_eq!(measured.at_least(2.0), Measured { value: 3.0, low: 2.0, high: 5.0 });
}

#[test]
fn a_profile_comes_back_from_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("profile.json");
    let profile = Profile::assumed();
    profile.save(&path).expect("it is written");
    assert_eq!(Profile::load(&path).expect("it is read"), profile);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "no temporary file is left");
    let mut text = std::fs::read_to_string(&path).expect("text");
    text = text.replacen(&format!("\"version\": {VERSION}"), "\"version\": 99", 1);
    std::fs::write(&path, text).expect("written");
    assert!(Profile::load(&path).expect_err("another version").to_string().contains("calibrate again"));
    std::fs::write(&path, "{").expect("written");
    assert!(matches!(Profile::load(&path), Err(AdvisorError::Format { .. })));
}

#[test]
fn an_assumed_profile_says_so() {
    let profile = Profile::assumed();
    assert!(!profile.is_measured() && profile.warnings.iter().any(|w| w.contains("not calibrated")));
    let ordered = |m: Measured| m.low <= m.value && m.value <= m.high;
    assert!(profile.rows().iter().all(|row| row.measured.is_some_and(ordered)));
}

#[test]
fn longer_reads_take_longer_and_more_at_once_take_less_each() {
    let disk = Profile::assumed().hardware.disk.expect("a disk");
    for depth in [1.0, 7.0, 48.0] {
        assert!(disk.read_ns(4096.0, depth) <= disk.read_ns(65536.0, depth));
        assert!(disk.read_ns(65536.0, depth) < disk.read_ns(500_000.0, depth));
    }
    assert!(disk.read_ns(32768.0, 1.0) > disk.read_ns(32768.0, 48.0));
}

#[test]
fn reads_that_were_not_measured_at_a_depth_take_as_long_as_at_the_nearest() {
    let mut disk = Profile::assumed().hardware.disk.expect("a disk");
    let whole = disk.clone();
    for points in [&mut disk.sequential, &mut disk.random] {
        points.retain(|point| u64::from(point.depth) * point.unit < 48 * (128 << 10));
    }
    assert_eq!(disk.random.len() + 1, whole.random.len());
    assert_eq!(disk.read_ns(131_072.0, 48.0), whole.read_ns(131_072.0, 8.0));
    assert_eq!(disk.next_ns(500_000.0, 20.0), whole.next_ns(500_000.0, 8.0));
    assert_eq!(disk.read_ns(32_768.0, 48.0), whole.read_ns(32_768.0, 48.0));
}

#[test]
fn kernels_lie_between_those_of_the_nearest_parameters() {
    let engine = Profile::assumed().engine;
    let of = |length| engine.kernel(Form::Chunk, Family::Fsst, Operation::Decode, length, 1.0).expect("texts");
    assert!(of(10.0) < of(20.0) && of(20.0) < of(48.0) && of(48.0) < of(60.0));
    assert_eq!(engine.kernel(Form::Slotted, Family::Rle, Operation::Decode, 1.0, 1.0), None);
}

#[test]
fn a_pace_is_a_ratio_within_limits() {
    assert_eq!(Slowdown::of(0.0, 100.0), Slowdown::SAME, "nobody looked");
    assert_eq!(Slowdown::of(100.0, 0.0), Slowdown::SAME, "the profile does not know");
    let slow = Slowdown::of(150.0, 100.0);
    assert!((slow.ratio() - 1.5).abs() < 1e-9 && slow.beyond_caches() < slow.cached() && slow.cached() < slow.ratio());
    assert!(Slowdown::of(50.0, 100.0).cached() < 1.0);
    let (hitch, longer) = (Slowdown::of(1e8, 1.0), Slowdown::of(1e9, 1.0));
    assert_eq!(hitch.cached(), longer.cached(), "another machine's, or a hitch");
    assert!(!hitch.is_near(longer), "but it changed");
    assert_eq!((slow.change(slow), slow.between(slow)), (0.0, slow));
    let profile = Profile {
        engine: EngineCosts { reference: Measured::exact(100.0), ..EngineCosts::default() },
        ..Profile::assumed()
    };
    assert_eq!(profile.slowdown(150.0, 1), slow);
    let crowd = Curve::of(&[(1.0, 1.0), (2.0, 1.5)]);
    let with_crowd = Profile { engine: EngineCosts { crowd, ..profile.engine.clone() }, ..profile };
    assert_eq!(
        with_crowd.slowdown(150.0, 2),
        Slowdown::SAME,
        "two threads take each other as long when nothing is slow"
    );
}
