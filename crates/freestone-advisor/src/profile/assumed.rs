//! A machine nobody measured: two cores of a server of the 2020s, a virtual disk of some 800 MB/s. Rounded from several
//! calibrations; right within a factor of two or three, which ranks designs that differ by more.

use super::Family::*;
use super::Form::*;
use super::Operation::*;
use super::*;

/// Form, family, parameter, then nanoseconds a value at shares 0.0001, 0.01, 0.1 and 1 of decoding, and of filtering at 0.01
/// and 1.
type Line = (Form, Family, f64, [f64; 4], [f64; 2]);

const KERNELS: [Line; 31] = [
    (Chunk, Constant, 0.0, [30.0, 2.0, 1.0, 0.3], [0.05, 0.05]),
    (Chunk, Plain, 64.0, [40.0, 4.0, 1.5, 0.5], [0.3, 0.4]),
    (Chunk, BitPack, 10.0, [50.0, 5.0, 2.0, 0.4], [0.15, 0.2]),
    (Chunk, BitPack, 40.0, [60.0, 6.0, 2.0, 0.6], [0.3, 0.4]),
    (Chunk, Delta, 8.0, [900.0, 90.0, 12.0, 1.2], [1.0, 1.2]),
    (Chunk, DeltaLz, 8.0, [6000.0, 600.0, 60.0, 6.0], [6.0, 6.0]),
    (Chunk, Rle, 50.0, [200.0, 10.0, 4.0, 0.5], [0.1, 0.1]),
    (Chunk, Alp, 16.0, [80.0, 10.0, 3.0, 0.6], [0.4, 0.5]),
    (Chunk, Dictionary, 10.0, [60.0, 6.0, 3.0, 1.0], [0.2, 0.3]),
    (Chunk, DictionaryRle, 50.0, [200.0, 10.0, 5.0, 1.0], [0.1, 0.1]),
    (Chunk, TextDictionary, 12.0, [60.0, 8.0, 3.5, 1.5], [0.3, 0.4]),
    (Chunk, TextDictionaryRle, 12.0, [200.0, 12.0, 5.0, 1.5], [0.1, 0.1]),
    (Chunk, PageDictionary, 10.0, [90.0, 8.0, 3.0, 1.2], [0.4, 0.5]),
    (Chunk, TextPageDictionary, 12.0, [300.0, 15.0, 5.0, 2.5], [0.4, 0.5]),
    (Chunk, Text, 8.0, [400.0, 40.0, 10.0, 3.5], [3.0, 4.0]),
    (Chunk, Text, 32.0, [400.0, 45.0, 14.0, 5.0], [3.0, 5.0]),
    (Chunk, Fsst, 8.0, [400.0, 45.0, 15.0, 8.0], [5.0, 8.0]),
    (Chunk, Fsst, 32.0, [420.0, 60.0, 30.0, 22.0], [5.0, 10.0]),
    (Chunk, Block, 32.0, [30000.0, 3000.0, 300.0, 30.0], [30.0, 32.0]),
    (Chunk, FloatKey, 40.0, [60.0, 7.0, 2.5, 1.0], [0.3, 0.4]),
    (Chunk, Float, 64.0, [40.0, 4.0, 1.5, 0.5], [0.4, 0.5]),
    (Chunk, Wide, 80.0, [60.0, 8.0, 3.0, 1.5], [0.8, 1.0]),
    (Chunk, Nulls, 0.0, [10.0, 3.0, 2.0, 0.2], [0.1, 0.1]),
    (Dense, BitPack, 20.0, [4.0, 2.5, 1.8, 1.0], [0.8, 1.0]),
    (Dense, General, 60.0, [8.0, 5.0, 4.0, 2.5], [1.5, 2.0]),
    (Dense, TextDictionary, 12.0, [10.0, 5.0, 4.0, 3.0], [1.0, 1.2]),
    (Dense, Text, 16.0, [600.0, 100.0, 20.0, 6.0], [4.0, 5.0]),
    (Dense, Fsst, 16.0, [600.0, 110.0, 30.0, 14.0], [8.0, 12.0]),
    (Slotted, Plain, 64.0, [10.0, 6.0, 5.0, 3.5], [3.0, 3.5]),
    (Slotted, Float, 64.0, [10.0, 6.0, 5.0, 3.5], [3.0, 4.0]),
    (Slotted, Text, 16.0, [20.0, 14.0, 12.0, 9.0], [4.0, 6.0]),
];

impl Profile {
    /// What to go by where nobody calibrated: documented constants of a typical machine of two cores.
    pub fn assumed() -> Profile {
        Profile {
            version: VERSION,
            source: Source::Assumed,
            host: Host { cpu: "assumed".into(), cores: 2, memory_bytes: 16 << 30, ..Host::default() },
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
        bytes: Measured::exact(bytes),
        line_bytes: Measured::exact(64.0),
        miss_ns: Measured::exact(miss_ns),
        replace_ns: Measured::exact(miss_ns),
        reported_bytes: None,
        reported_line: None,
    };
    let chase = [(16e3, 1.2), (32e3, 1.4), (256e3, 4.0), (1e6, 6.0), (8e6, 20.0), (32e6, 40.0), (256e6, 110.0)];
    Hardware {
        caches: vec![cache(1, 32e3, 3.0), cache(2, 1e6, 12.0), cache(3, 32e6, 90.0)],
        miss: Curve::of(&chase),
        replace: Curve::of(&chase),
        translation: vec![
            Translation {
                page_bytes: 4096,
                reach_bytes: Measured::exact(8e6),
                miss_ns: Measured::exact(15.0),
                granted: true,
            },
            Translation {
                page_bytes: 2 << 20,
                reach_bytes: Measured::exact(2e9),
                miss_ns: Measured::exact(5.0),
                granted: true,
            },
        ],
        parallelism: Curve::of(&[(1.0, 110.0), (4.0, 30.0), (8.0, 16.0), (16.0, 12.0)]),
        bandwidth: Curve::of(&[(1.0, 10.0), (2.0, 18.0)]),
        stream: Curve::of(&[(256e3, 0.02), (1e6, 0.03), (16e6, 0.05), (128e6, 0.1)]),
        fresh: Measured::exact(0.4),
        disk: Some(disk()),
        loopback: Measured::exact(2.0),
        spread: Measured::exact(0.05),
    }
}

fn disk() -> DiskCosts {
    let point = |unit: u64, depth: u32, ns: f64| DiskPoint { unit, depth, ns: Measured::exact(ns) };
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
    for (form, family, parameter, decode, filter) in KERNELS {
        let mut put = |operation, points: &[(f64, f64)]| {
            kernels.push(Kernel { form, family, operation, parameter, ns: Curve::of(points) });
        };
        put(Decode, &[(1e-4, decode[0]), (1e-2, decode[1]), (0.1, decode[2]), (1.0, decode[3])]);
        put(Filter, &[(1e-2, filter[0]), (1.0, filter[1])]);
    }
    let page = |form, decode, column, filter| PageCost {
        form,
        decode: Curve::constant(decode),
        column: Measured::exact(column),
        filter: Curve::constant(filter),
    };
    let exact = Measured::exact;
    EngineCosts {
        kernels,
        scan: exact(20e3),
        granule: exact(900.0),
        unit: exact(2000.0),
        judge: exact(150.0),
        select: Curve::of(&[(1e-4, 0.02), (1e-2, 0.05), (0.1, 0.25), (0.5, 0.8), (1.0, 0.1)]),
        pages: vec![
            page(Chunk, 350.0, 100.0, 350.0),
            page(Dense, 400.0, 60.0, 350.0),
            page(Slotted, 400.0, 60.0, 350.0),
        ],
        batch: exact(1500.0),
        batch_column: exact(400.0),
        stream: Curve::of(&[(1e6, 0.0), (16e6, 0.03), (64e6, 0.07)]),
        line: Curve::of(&[(1e6, 0.0), (16e6, 3.0), (64e6, 7.0)]),
        admit_byte: exact(0.08),
        admit_page: exact(600.0),
        admit_slotted_row: exact(2.0),
        admit_prefix_row: exact(6.0),
        tuple_value: exact(1.5),
        tuple_byte: exact(0.2),
        ship_page: exact(400.0),
        ship_byte: exact(0.01),
        encode_value: exact(15.0),
        encode_byte: exact(1.5),
        sort_value: exact(40.0),
    }
}
