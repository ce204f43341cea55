//! Neighbours: processes that use a core in one way, and say how much they have done.

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use super::child::{Place, Process};
use super::options::Burn;
use crate::error::{LabError, Result};

/// The size of a region that no cache holds.
const REGION: usize = 256 << 20;
const PAGE: usize = 4096;
/// How often a neighbour says what it has done.
const SAYS: Duration = Duration::from_millis(100);
const PREFIX: &str = "moved: ";

/// A running neighbour.
pub struct Neighbour {
    process: Process,
}

impl Neighbour {
    /// Starts one on some cores, with a thread for each.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(burn: Burn, cpus: &[usize]) -> Result<Neighbour> {
        let lab = std::env::current_exe().map_err(|error| LabError::Broken(format!("a neighbour: {error}")))?;
        let mut command = Command::new(lab);
        command.args(["burn", burn.name(), "--threads", &cpus.len().max(1).to_string()]);
        let mut process =
            Process::start(&format!("the neighbour {burn}"), command, Place { cpus: cpus.to_vec(), groups: vec![] })?;
        process.wait_for(PREFIX, Duration::from_secs(60))?;
        Ok(Neighbour { process })
    }

    /// The bytes that it has read and written so far, and the seconds since it began.
    pub fn moved(&self) -> Option<(f64, f64)> {
        let line = self.process.newest(PREFIX)?;
        let (bytes, seconds) = line.split_once(' ')?;
        Some((bytes.parse().ok()?, seconds.parse().ok()?))
    }

    /// The processor time that it took.
    pub fn seconds(&self) -> f64 {
        let used = self.process.usage();
        used.user_seconds + used.kernel_seconds
    }

    /// # Errors
    /// It has ended.
    pub fn check(&mut self) -> Result<()> {
        self.process.check()
    }
}

/// The neighbour's own program: burns until it is ended.
///
/// # Errors
/// There is no memory, or nobody reads what it says.
pub fn run(burn: Burn, threads: usize) -> Result<()> {
    let failed = |error: std::io::Error| LabError::Broken(format!("the neighbour {burn}: {error}"));
    let counts: Vec<std::sync::atomic::AtomicU64> = (0..threads).map(|_| Default::default()).collect();
    let ready = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for count in &counts {
            let ready = &ready;
            scope.spawn(move || {
                let mut work = Work::new(burn);
                work.step();
                ready.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                loop {
                    count.fetch_add(work.step(), std::sync::atomic::Ordering::Relaxed);
                }
            });
        }
        while ready.load(std::sync::atomic::Ordering::Relaxed) < threads {
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        loop {
            let moved: u64 = counts.iter().map(|count| count.load(std::sync::atomic::Ordering::Relaxed)).sum();
            let mut out = std::io::stdout();
            let said = writeln!(out, "{PREFIX}{moved} {}", start.elapsed().as_secs_f64()).and_then(|()| out.flush());
            if let Err(error) = said {
                // The scope would wait for its threads.
                let _ = writeln!(std::io::stderr(), "error: {}", failed(error));
                std::process::exit(1);
            }
            std::thread::sleep(SAYS);
        }
    })
}

/// One thread's work, in steps of about a millisecond.
enum Work {
    Arithmetic(u64),
    /// Two regions, and the place in them.
    Streams(Vec<u8>, Vec<u8>, usize),
    /// The places of a random cycle, and the current one.
    Loads(Vec<u32>, u32),
    Pages,
}

impl Work {
    fn new(burn: Burn) -> Work {
        match burn {
            Burn::Arithmetic => Work::Arithmetic(1),
            Burn::Streams => Work::Streams(vec![1; REGION / 2], vec![2; REGION / 2], 0),
            Burn::Loads => Work::Loads(cycle(REGION / 64), 0),
            Burn::Pages => Work::Pages,
        }
    }

    /// Does a step, and returns the bytes that it moved between processor and memory.
    fn step(&mut self) -> u64 {
        match self {
            Work::Arithmetic(value) => {
                for _ in 0..1_000_000 {
                    *value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
                0
            }
            Work::Streams(from, to, at) => {
                let length = (8 << 20).min(from.len());
                if *at + length > from.len() {
                    *at = 0;
                }
                to[*at..*at + length].copy_from_slice(&from[*at..*at + length]);
                black_box(&mut *to);
                *at += length;
                // Read once and written once.
                2 * length as u64
            }
            Work::Loads(next, at) => {
                const LOADS: u64 = 10_000;
                for _ in 0..LOADS {
                    *at = next[*at as usize * WORDS_PER_LINE];
                }
                black_box(*at);
                LOADS * 64
            }
            Work::Pages => {
                const BYTES: usize = 4 << 20;
                touch_new(BYTES);
                // The system clears a page, and the write is to its line.
                BYTES as u64
            }
        }
    }
}

const WORDS_PER_LINE: usize = 16;

/// A region of `lines` cache lines, each of which names another, in one cycle through all of them.
fn cycle(lines: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 88_172_645_463_325_252u64;
    for last in (1..lines).rev() {
        // xorshift: the order only has to defeat prefetching.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % (last as u64 + 1)) as usize);
    }
    let mut next = vec![0; lines * WORDS_PER_LINE];
    for (at, line) in order.iter().enumerate() {
        next[*line as usize * WORDS_PER_LINE] = order[(at + 1) % lines];
    }
    next
}

/// Maps new pages, writes each once, and gives them back.
fn touch_new(bytes: usize) {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping that nobody else knows; it is written within its length and then unmapped.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        if start == libc::MAP_FAILED {
            std::thread::sleep(Duration::from_millis(1));
            return;
        }
        libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
        for page in 0..bytes / PAGE {
            start.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(start, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_visits_every_line() {
        let next = cycle(1000);
        let (mut at, mut visited) = (0, vec![false; 1000]);
        for _ in 0..1000 {
            visited[at as usize] = true;
            at = next[at as usize * WORDS_PER_LINE];
        }
        assert!(visited.iter().all(|was| *was) && at == 0);
    }

    #[test]
    fn each_neighbour_says_what_it_moves() {
        let moved = Burn::ALL.map(|burn| Work::new(burn).step());
        assert_eq!(moved[0], 0);
        assert!(moved[1..].iter().all(|bytes| *bytes > 0), "{moved:?}");
    }
}
