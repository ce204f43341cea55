//! A region that records stores, flushes and fences, and knows what a crash could leave. For tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::{LINE_WORDS, Line, MemoryRegion, Persistence, Region, Site};
use crate::media::Result;

/// Called before each fence with what a crash at this time could leave.
pub type Observer = Arc<dyn Fn(CrashPoint) + Send + Sync>;

/// Memory whose durable part is known.
pub struct TrackedRegion {
    memory: MemoryRegion,
    state: Mutex<State>,
    observer: Mutex<Option<Observer>>,
}

#[derive(Default)]
struct State {
    durable: Vec<u64>,
    /// The lines with stores that may not be durable.
    open: BTreeMap<u64, OpenLine>,
    /// The flushes or fences that do nothing.
    omitted: Option<Site>,
    sites: BTreeSet<Site>,
    flushed_lines: u64,
    fences: u64,
}

#[derive(Default)]
struct OpenLine {
    /// Words within the line with their new values, in the order of the stores.
    stores: Vec<(usize, u64)>,
    /// How many of the stores each thread has flushed.
    flushed: Vec<(ThreadId, usize)>,
}

impl TrackedRegion {
    /// A region with this durable content, which can grow to `capacity` bytes.
    pub fn of_words(words: Vec<u64>, capacity: u64) -> TrackedRegion {
        let memory = MemoryRegion::of_words(&words, capacity);
        let state = State { durable: words, ..State::default() };
        TrackedRegion { memory, state: Mutex::new(state), observer: Mutex::new(None) }
    }

    /// Calls `observer` before each fence.
    pub fn observe(&self, observer: Option<Observer>) {
        *self.observer.lock() = observer;
    }

    /// Lets the flushes or fences of a place in the source do nothing, so that tests can tell that it is needed.
    pub fn omit(&self, site: Site) {
        self.state.lock().omitted = Some(site);
    }

    /// The places in the source that have flushed or fenced.
    pub fn sites(&self) -> Vec<Site> {
        self.state.lock().sites.iter().copied().collect()
    }

    /// The numbers of flushed lines and of fences.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.flushed_lines, state.fences)
    }

    /// What a crash now could leave.
    pub fn crash_point(&self) -> CrashPoint {
        let state = self.state.lock();
        let open = state.open.iter().map(|(line, open)| (*line, open.stores.clone()));
        CrashPoint { durable: state.durable.clone(), open: open.collect() }
    }
}

impl State {
    /// Applies what `thread` has flushed to the durable content.
    fn settle(&mut self, thread: ThreadId) {
        let durable = &mut self.durable;
        self.open.retain(|line, open| {
            let Some(at) = open.flushed.iter().position(|(of, _)| *of == thread) else { return true };
            let (_, count) = open.flushed.swap_remove(at);
            for (word, value) in open.stores.drain(..count) {
                durable[*line as usize * LINE_WORDS + word] = value;
            }
            open.flushed.iter_mut().for_each(|(_, of)| *of = of.saturating_sub(count));
            !open.stores.is_empty()
        });
    }
}

impl Region for TrackedRegion {
    fn lines(&self) -> &[Line] {
        self.memory.lines()
    }

    fn store(&self, offset: u64, value: u64) {
        let word = offset as usize / 8;
        let mut state = self.state.lock();
        self.memory.store(offset, value);
        state.open.entry((word / LINE_WORDS) as u64).or_default().stores.push((word % LINE_WORDS, value));
    }

    fn write_back(&self, lines: Range<u64>, site: Site) {
        let thread = thread::current().id();
        let mut state = self.state.lock();
        state.sites.insert(site);
        if state.omitted == Some(site) {
            return;
        }
        state.flushed_lines += lines.end - lines.start;
        for (_, open) in state.open.range_mut(lines) {
            open.flushed.retain(|(of, _)| *of != thread);
            open.flushed.push((thread, open.stores.len()));
        }
    }

    fn order(&self, site: Site) {
        let observer = self.observer.lock().clone();
        if let Some(observer) = observer {
            observer(self.crash_point());
        }
        let mut state = self.state.lock();
        state.sites.insert(site);
        if state.omitted != Some(site) {
            state.fences += 1;
            state.settle(thread::current().id());
        }
    }

    fn grow(&self, len: u64) -> Result<()> {
        self.memory.grow(len)?;
        let mut state = self.state.lock();
        let words = state.durable.len().max(len as usize / 8);
        state.durable.resize(words, 0);
        Ok(())
    }

    fn persistence(&self) -> Persistence {
        Persistence::Emulated
    }

    fn place(&self) -> String {
        "a tracked region".into()
    }
}

impl fmt::Debug for TrackedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrackedRegion({} open lines)", self.state.lock().open.len())
    }
}

/// Everything that a crash at one time could leave.
#[derive(Debug, Clone)]
pub struct CrashPoint {
    durable: Vec<u64>,
    /// Lines with the stores since they were durable.
    open: Vec<(u64, Vec<(usize, u64)>)>,
}

impl CrashPoint {
    /// The number of contents, if it fits.
    pub fn count(&self) -> Option<u64> {
        self.open.iter().try_fold(1u64, |count, (_, stores)| count.checked_mul(stores.len() as u64 + 1))
    }

    /// All contents if they are at most `limit`, otherwise `limit` samples, beginning with the two in which no open
    /// line and every open line was written.
    pub fn images(&self, limit: usize, seed: u64) -> impl Iterator<Item = Vec<u64>> + '_ {
        let all = self.count().filter(|count| *count <= limit as u64);
        let mut random = seed | 1;
        (0..all.unwrap_or(limit as u64)).map(move |number| match all {
            Some(_) => self.numbered(number),
            None => self.sampled(number, &mut random),
        })
    }

    fn numbered(&self, mut number: u64) -> Vec<u64> {
        self.image(|stores| {
            let choices = stores as u64 + 1;
            let chosen = number % choices;
            number /= choices;
            chosen as usize
        })
    }

    fn sampled(&self, number: u64, random: &mut u64) -> Vec<u64> {
        self.image(|stores| match number {
            0 => 0,
            1 => stores,
            _ => {
                // A multiplication after xorshift; a third each of nothing, everything and a part.
                *random ^= *random << 13;
                *random ^= *random >> 7;
                *random ^= *random << 17;
                let drawn = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
                match drawn % 3 {
                    0 => 0,
                    1 => stores,
                    _ => (drawn / 3) as usize % (stores + 1),
                }
            }
        })
    }

    fn image(&self, mut choose: impl FnMut(usize) -> usize) -> Vec<u64> {
        let mut words = self.durable.clone();
        for (line, stores) in &self.open {
            for (word, value) in &stores[..choose(stores.len())] {
                words[*line as usize * LINE_WORDS + word] = *value;
            }
        }
        words
    }
}
