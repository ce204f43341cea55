//! The disk of a folder, read as scans read it: through the store's medium, past the system's cache if possible.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use freestone_store::StoreError;
use freestone_store::media::{DirectMode, Disk, DiskOptions, Medium, ReadFile, ReadRequest};

use super::tables::Random;
use super::timing::Timing;
use crate::error::Result;
use crate::profile::{DiskCosts, DiskPoint, Measured};

const UNITS: [usize; 4] = [4 << 10, 32 << 10, 128 << 10, 512 << 10];
const DEPTHS: [usize; 4] = [1, 4, 16, 48];

/// The units and depths that a file of `bytes` bytes can show: a batch takes at most half of it. Of a larger one, the
/// random places would be most of the file, in order.
fn batches(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let all = UNITS.into_iter().flat_map(|unit| DEPTHS.map(|depth| (unit, depth)));
    all.filter(move |(unit, depth)| unit * depth * 2 <= bytes)
}

/// A name that no other calibration of this folder has at the same time.
fn unused_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("freestone-calibration-{}-{since:x}.tmp", std::process::id())
}

/// Measures the disk of a folder with a temporary file.
pub fn measure(folder: &Path, timing: &Timing, warnings: &mut Vec<String>) -> Result<DiskCosts> {
    let bytes = if timing.is_quick() { 8 << 20 } else { 192 << 20 };
    let medium = |direct| Disk::open(folder, true, DiskOptions { direct, ..DiskOptions::default() });
    let disk = medium(DirectMode::On).map_err(StoreError::from)?;
    let name = unused_name();
    let write = writes(&disk, &name, bytes, timing).inspect_err(|_| {
        let _ = disk.remove(&name);
    })?;
    let costs = read(&disk, &name, bytes, true, folder, write, timing).or_else(|_| {
        warnings.push(format!("{}: no direct I/O; reads may come from the system's cache", folder.display()));
        let disk = medium(DirectMode::Off).map_err(StoreError::from)?;
        read(&disk, &name, bytes, false, folder, write, timing)
    });
    let _ = disk.remove(&name);
    costs
}

/// Nanoseconds per byte of durable writes, of files with a part of `bytes`. What they leave is a file of all `bytes`, to be
/// read.
fn writes(disk: &Disk, name: &str, bytes: usize, timing: &Timing) -> Result<Measured> {
    let mut random = Random(7);
    let mut content = vec![0u8; bytes];
    content.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    let mut samples = vec![];
    for _ in 0..timing.sweeps() {
        samples.push(write(disk, name, &content[..bytes / 4])?);
        disk.remove(name).map_err(StoreError::from)?;
    }
    write(disk, name, &content)?;
    Ok(Measured::of(&samples))
}

/// Writes a file. Returns the nanoseconds per byte until it is durable.
fn write(disk: &Disk, name: &str, content: &[u8]) -> Result<f64> {
    const PART: usize = 1 << 20;
    let start = Instant::now();
    let mut file = disk.create(name).map_err(StoreError::from)?;
    content.chunks(PART).try_for_each(|part| file.append(part)).map_err(StoreError::from)?;
    file.finish().map_err(StoreError::from)?;
    Ok(start.elapsed().as_nanos() as f64 / content.len() as f64)
}

fn read(
    disk: &Disk,
    name: &str,
    bytes: usize,
    direct: bool,
    folder: &Path,
    write: Measured,
    timing: &Timing,
) -> Result<DiskCosts> {
    let file = disk.open(name).map_err(StoreError::from)?;
    let folder = folder.display().to_string();
    let mut costs = DiskCosts { folder, direct, sequential: vec![], random: vec![], write };
    for (unit, depth) in batches(bytes) {
        let point = |random| -> Result<DiskPoint> {
            let (ns, cpu_ns) = reads(&file, bytes, unit, depth, random, timing)?;
            Ok(DiskPoint { unit: unit as u64, depth: depth as u32, ns, cpu_ns })
        };
        costs.random.push(point(true)?);
        costs.sequential.push(point(false)?);
    }
    Ok(costs)
}

/// Nanoseconds between the ends of two reads, and their processor time. Batches of `depth` reads are requested at once,
/// as for a morsel.
fn reads(
    file: &Arc<dyn ReadFile>,
    bytes: usize,
    unit: usize,
    depth: usize,
    random: bool,
    timing: &Timing,
) -> Result<(Measured, f64)> {
    let places = bytes / unit;
    let mut state = Random(unit as u64 * 31 + depth as u64);
    let mut next = 0;
    // Long enough to be measured, short enough that 32 points take some seconds.
    let (rounds, time) = if timing.is_quick() { (2, 1_000_000) } else { (60, 100_000_000) };
    let (begin, worked) = (Instant::now(), processor_ns());
    let (mut samples, mut done) = (vec![], 0);
    while samples.len() < rounds && (samples.len() < 2 || begin.elapsed().as_nanos() < time) {
        let at: Vec<usize> = match random {
            true => different_places(&mut state, places, depth),
            false => (next..next + depth).map(|place| place % places).collect(),
        };
        next = (next + depth) % places;
        let requests: Vec<ReadRequest> =
            at.iter().map(|place| ReadRequest { offset: (place * unit) as u64, len: unit }).collect();
        let start = Instant::now();
        for result in file.read_many(&requests) {
            result.map_err(StoreError::from)?;
        }
        samples.push(start.elapsed().as_nanos() as f64 / requests.len() as f64);
        done += requests.len();
    }
    Ok((Measured::of(&samples), (processor_ns() - worked) / done.max(1) as f64))
}

/// `count` of `places` places, in ascending order and each of them once, so that a batch has all of its reads. `count` is
/// at most `places`.
fn different_places(random: &mut Random, places: usize, count: usize) -> Vec<usize> {
    let mut taken = BTreeSet::new();
    while taken.len() < count.min(places) {
        taken.insert(random.below(places as u64) as usize);
    }
    taken.into_iter().collect()
}

/// The processor time of all threads of the process so far.
fn processor_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a time to its argument, which is a variable of this function.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::super::Effort;
    use super::*;

    #[test]
    fn a_batch_takes_at_most_half_of_the_file() {
        let of = |bytes: usize| batches(bytes).collect::<Vec<_>>();
        assert_eq!(of(192 << 20).len(), UNITS.len() * DEPTHS.len(), "a whole calibration has every point");
        let quick = of(8 << 20);
        assert!(!quick.contains(&(512 << 10, 48)) && !quick.contains(&(512 << 10, 16)), "{quick:?}");
        assert!(quick.contains(&(512 << 10, 4)) && quick.contains(&(32 << 10, 48)), "{quick:?}");
        assert!(of(4 << 10).is_empty());
    }

    #[test]
    fn writes_are_repeated_and_leave_the_whole_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Disk::open(folder.path(), true, DiskOptions::default()).expect("a disk");
        let write = writes(&disk, "file", 1 << 20, &Timing::new(Effort::Quick)).expect("it is written");
        assert!(0.0 < write.low && write.low <= write.value && write.value <= write.high, "{write:?}");
        let left = std::fs::metadata(folder.path().join("file")).expect("the file");
        assert!(left.len() >= 1 << 20 && left.len() < 2 << 20, "{left:?}");
    }

    #[test]
    fn random_batches_have_all_of_their_reads() {
        let mut random = Random(1);
        for _ in 0..100 {
            let places = different_places(&mut random, 64, 48);
            assert_eq!(places.len(), 48);
            assert!(places.is_sorted_by(|a, b| a < b) && places.iter().all(|place| *place < 64), "{places:?}");
        }
        assert_eq!(different_places(&mut random, 3, 48), [0, 1, 2]);
    }
}
