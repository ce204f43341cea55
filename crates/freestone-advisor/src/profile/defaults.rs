//! A machine that nobody measured: two cores of a server of the 2020s, a virtual disk of about 800 MB/s. The figures
//! are rounded from several calibrations. They are correct within a factor of two or three, which is enough to rank
//! designs that differ by more.

use super::Family::*;
use super::Form::*;
use super::Operation::*;
use super::*;

/// Form, family, parameter; nanoseconds per value for decoding at shares 0.001, 0.01, 0.1 and 1, and for filtering at
/// 0.01 and 1; and the costs of page visits, as multiples of those for bit-packed numbers.
type Line = (Form, Family, f64, [f64; 4], [f64; 2], [f64; 2]);

const KERNELS: [Line; 46] = [
    (Chunk, Constant, 0.0, [7.7, 1.4, 0.53, 0.094], [0.094, 0.094], [1.0, 1.0]),
    (Chunk, Plain, 64.0, [1.6, 1.9, 1.5, 0.17], [0.39, 0.36], [0.88, 1.8]),
    (Chunk, BitPack, 4.0, [12.0, 4.1, 1.5, 0.094], [0.12, 0.073], [1.0, 1.0]),
    (Chunk, BitPack, 14.0, [14.0, 5.1, 1.8, 0.11], [0.14, 0.1], [1.0, 1.0]),
    (Chunk, BitPack, 40.0, [20.0, 6.4, 2.8, 0.22], [0.27, 0.21], [1.2, 1.1]),
    (Chunk, Delta, 8.0, [280.0, 43.0, 5.4, 0.54], [0.65, 0.61], [1.5, 1.4]),
    (Chunk, DeltaLz, 8.0, [2400.0, 370.0, 39.0, 3.8], [3.8, 3.8], [1.0, 1.0]),
    (Chunk, Rle, 6.0, [290.0, 42.0, 11.0, 0.84], [1.0, 0.96], [1.0, 1.0]),
    (Chunk, Rle, 60.0, [54.0, 6.3, 1.4, 0.31], [0.12, 0.082], [1.0, 1.0]),
    (Chunk, Alp, 20.0, [52.0, 8.3, 2.3, 0.15], [0.21, 0.16], [1.1, 1.5]),
    (Chunk, Float, 64.0, [0.02, 1.1, 1.6, 0.17], [0.35, 0.3], [0.79, 1.2]),
    (Chunk, FloatKey, 60.0, [29.0, 7.3, 3.0, 0.36], [0.27, 0.22], [1.1, 1.2]),
    (Chunk, Wide, 72.0, [0.02, 1.2, 1.5, 0.36], [0.63, 6.5], [0.83, 0.75]),
    (Chunk, Nulls, 0.0, [20.0, 5.0, 1.2, 0.02], [0.02, 0.02], [1.1, 1.1]),
    (Chunk, Dictionary, 10.0, [17.0, 6.0, 2.3, 0.61], [0.15, 0.087], [1.1, 1.2]),
    (Chunk, DictionaryRle, 40.0, [91.0, 11.0, 2.5, 0.71], [0.15, 0.093], [1.0, 1.0]),
    (Chunk, PageDictionary, 1000.0, [21.0, 8.0, 6.0, 1.0], [0.29, 0.23], [5.6, 2.5]),
    (Chunk, PageDictionary, 5000.0, [21.0, 11.0, 4.9, 2.8], [0.9, 0.84], [2.5, 1.7]),
    (Chunk, TextDictionary, 8.0, [69.0, 12.0, 3.4, 1.1], [0.15, 0.1], [3.1, 1.3]),
    (Chunk, TextDictionaryRle, 8.0, [110.0, 13.0, 3.1, 1.1], [0.16, 0.11], [1.0, 1.0]),
    (Chunk, TextDictionary, 24.0, [19.0, 6.4, 3.0, 1.2], [0.16, 0.097], [1.7, 1.4]),
    (Chunk, TextDictionaryRle, 24.0, [83.0, 10.0, 3.1, 1.3], [0.16, 0.11], [1.0, 1.0]),
    (Chunk, TextPageDictionary, 1000.0, [1500.0, 180.0, 33.0, 8.1], [5.1, 5.0], [11.0, 8.2]),
    (Chunk, TextPageDictionary, 5000.0, [3600.0, 520.0, 73.0, 28.0], [16.0, 17.0], [1.9, 1.3]),
    (Chunk, Text, 6.0, [260.0, 45.0, 9.6, 5.4], [0.95, 3.2], [1.1, 0.83]),
    (Chunk, Text, 16.0, [270.0, 51.0, 16.0, 6.6], [0.95, 3.2], [2.0, 0.94]),
    (Chunk, Text, 48.0, [250.0, 60.0, 19.0, 4.1], [0.91, 3.1], [1.4, 1.1]),
    (Chunk, Fsst, 10.0, [280.0, 53.0, 22.0, 15.0], [1.2, 7.2], [2.6, 0.72]),
    (Chunk, Fsst, 48.0, [300.0, 70.0, 36.0, 22.0], [1.2, 7.6], [0.3, 0.95]),
    (Chunk, Block, 16.0, [13000.0, 1300.0, 150.0, 19.0], [14.0, 16.0], [29.0, 20.0]),
    (Chunk, Block, 48.0, [32000.0, 3800.0, 400.0, 42.0], [40.0, 42.0], [27.0, 19.0]),
    (Dense, BitPack, 20.0, [8.2, 0.69, 2.1, 1.3], [0.71, 1.2], [1.0, 1.0]),
    (Dense, General, 62.0, [9.2, 2.5, 2.9, 1.7], [0.81, 1.4], [1.0, 1.0]),
    (Dense, FloatKey, 50.0, [28.0, 4.3, 2.5, 1.6], [0.72, 1.2], [1.0, 1.0]),
    (Dense, Nulls, 0.0, [9.8, 3.2, 2.8, 2.1], [0.02, 1.1], [1.0, 1.0]),
    (Dense, Dictionary, 10.0, [35.0, 6.1, 3.4, 2.5], [0.75, 1.3], [1.0, 1.0]),
    (Dense, TextDictionary, 8.0, [39.0, 6.7, 4.5, 3.3], [0.8, 1.3], [1.0, 1.0]),
    (Dense, TextDictionary, 24.0, [42.0, 11.0, 4.7, 3.5], [0.79, 1.3], [1.0, 1.0]),
    (Dense, Text, 6.0, [450.0, 130.0, 23.0, 8.4], [3.1, 7.8], [1.0, 1.0]),
    (Dense, Text, 16.0, [470.0, 130.0, 24.0, 12.0], [3.1, 8.1], [1.0, 1.0]),
    (Dense, Fsst, 10.0, [520.0, 150.0, 33.0, 23.0], [3.3, 21.0], [1.0, 1.0]),
    (Slotted, Plain, 62.0, [270.0, 150.0, 19.0, 3.7], [0.2, 5.9], [1.0, 1.0]),
    (Slotted, Float, 50.0, [530.0, 210.0, 21.0, 3.8], [0.25, 6.5], [1.0, 1.0]),
    (Slotted, Nulls, 0.0, [290.0, 47.0, 0.02, 0.53], [0.02, 0.02], [1.0, 1.0]),
    (Slotted, Text, 6.0, [850.0, 290.0, 33.0, 11.0], [0.057, 11.0], [1.0, 1.0]),
    (Slotted, Text, 16.0, [930.0, 320.0, 36.0, 15.0], [0.071, 11.0], [1.0, 1.0]),
];

impl Profile {
    /// The profile to use without calibration: constants of a typical machine of two cores.
    pub fn assumed() -> Profile {
        Profile {
            version: VERSION,
            source: Source::Assumed,
            host: Host { cpu: "assumed".into(), cores: 2, memory_bytes: 16 << 30, page_bytes: 4096, ..Host::default() },
            measured_at: 0,
            seconds: 0.0,
            hardware: hardware(),
            engine: engine(),
            warnings: vec!["not calibrated: these are the figures of a typical machine, not of this one".into()],
        }
    }
}

fn hardware() -> Hardware {
    let cache = |level, bytes: f64, miss_ns| CacheLevel {
        level,
        bytes: Some(Measured::exact(bytes)),
        line_bytes: Some(Measured::exact(64.0)),
        miss_ns: Some(Measured::exact(miss_ns)),
        replace_ns: Some(Measured::exact(miss_ns)),
        reported_bytes: None,
        reported_line: None,
        missing: String::new(),
    };
    let translation = |page_bytes, reach: f64, miss: f64| Translation {
        page_bytes,
        levels: vec![TranslationLevel { reach_bytes: Measured::exact(reach), miss_ns: Measured::exact(miss) }],
        granted: true,
    };
    let chase = [(16e3, 1.2), (32e3, 1.4), (256e3, 4.0), (1e6, 6.0), (8e6, 20.0), (32e6, 40.0), (256e6, 110.0)];
    Hardware {
        caches: vec![cache(1, 32e3, 3.0), cache(2, 1e6, 12.0), cache(3, 32e6, 90.0)],
        miss: Curve::of(&chase),
        replace: Curve::of(&chase),
        translation: vec![translation(4096, 8e6, 15.0), translation(2 << 20, 2e9, 5.0)],
        parallelism: Curve::of(&[(1.0, 110.0), (4.0, 30.0), (8.0, 16.0), (16.0, 12.0)]),
        bandwidth: Curve::of(&[(1.0, 10.0), (2.0, 18.0)]),
        stream: Curve::of(&[(256e3, 0.02), (1e6, 0.03), (16e6, 0.05), (128e6, 0.1)]),
        disk: Some(disk()),
        loopback: Measured::exact(2.0),
        spread: Measured::exact(0.05),
    }
}

fn disk() -> DiskCosts {
    let point = |unit: u64, depth: u32, ns: f64| DiskPoint { unit, depth, ns: Measured::exact(ns), cpu_ns: 0.0 };
    let points = vec![
        point(4 << 10, 1, 120e3),
        point(4 << 10, 8, 18e3),
        point(4 << 10, 48, 12e3),
        point(32 << 10, 1, 160e3),
        point(32 << 10, 8, 45e3),
        point(32 << 10, 48, 40e3),
        point(128 << 10, 1, 300e3),
        point(128 << 10, 8, 165e3),
        point(128 << 10, 48, 160e3),
    ];
    DiskCosts {
        folder: String::new(),
        direct: true,
        sequential: points.clone(),
        random: points,
        write: Measured::exact(2.5),
    }
}

fn engine() -> EngineCosts {
    let mut kernels = vec![];
    for (form, family, parameter, decode, filter, visits) in KERNELS {
        let mut put = |operation, points: &[(f64, f64)], visit| {
            kernels.push(Kernel { form, family, operation, parameter, ns: Curve::of(points), visit });
        };
        let points = [(1e-3, decode[0]), (1e-2, decode[1]), (0.1, decode[2]), (1.0, decode[3])];
        put(Decode, &points, visits[0]);
        put(Filter, &[(1e-2, filter[0]), (1.0, filter[1])], visits[1]);
    }
    let page = |form, decode, column, filter| PageCost {
        form,
        decode: Curve::constant(decode),
        column: Measured::exact(column),
        filter: Curve::constant(filter),
        sparse: Measured::exact(0.8 * decode),
    };
    let exact = Measured::exact;
    EngineCosts {
        kernels,
        scan: exact(30e3),
        granule: exact(400.0),
        morsel: exact(100.0),
        zone_test: exact(35.0),
        rule_out: exact(20.0),
        reference: Measured::default(),
        crowd: Curve::of(&[(1.0, 1.0), (2.0, 1.1)]),
        select: Curve::of(&[(1e-3, 0.002), (1e-2, 0.005), (0.1, 0.05), (0.3, 0.2), (0.95, 0.6)]),
        pages: vec![
            page(Chunk, 350.0, 100.0, 350.0),
            page(Dense, 400.0, 60.0, 350.0),
            page(Slotted, 400.0, 60.0, 350.0),
        ],
        batch: exact(50.0),
        batch_column: exact(800.0),
        stream: Curve::of(&[(1e6, 0.0), (16e6, 0.02), (64e6, 0.05)]),
        line: Curve::of(&[(8e6, 0.0), (32e6, 5.0), (64e6, 5.3)]),
        line_apart: Curve::of(&[(8e6, 1.0), (32e6, 10.0), (64e6, 12.0)]),
        line_slotted: Curve::of(&[(8e6, 1.0), (32e6, 10.0), (64e6, 12.0)]),
        spill: Curve::of(&[(256e3, 0.0), (1e6, 0.05), (4e6, 0.1)]),
        admit_byte: exact(0.02),
        admit_page: exact(200.0),
        admit_slotted_row: exact(2.8),
        admit_prefix_row: exact(4.5),
        prefix_filter: exact(1.5),
        prefix_decode: exact(1.5),
        tuple_value: Curve::of(&[(256e3, 1.5), (4e6, 3.0)]),
        tuple_null: exact(0.7),
        tuple_byte: exact(0.2),
        ship_page: exact(400.0),
        ship_byte: exact(0.01),
        encode_value: exact(15.0),
        encode_byte: exact(1.5),
        sort_value: exact(40.0),
    }
}
